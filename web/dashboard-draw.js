// SPDX-License-Identifier: Apache-2.0
// Panels of a dashboard that are no charts: single values, gauges, bars, tables and texts.
import {append, empty, h, table} from "./dom.js";
import {colorOf, isLight, reduced, shown, sortRows} from "./dashboard-data.js";
import {own} from "./dashboard-model.js";
import {time} from "./format.js";
import {html, markdown} from "./markdown.js";

const maxValues = 60, rowsAtOnce = 100, ns = "http://www.w3.org/2000/svg";

function svg(name, attributes, ...children) {
  const node = document.createElementNS(ns, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  append(node, children);
  return node;
}

// [{name, look, value, values, metric}]: one value of each series.
export function valuesOf(panel, fields) {
  return fields.slice(0, maxValues).map((f) => ({...f, value: reduced(f.values, panel.options.calcs[0])}));
}

// The scale of a value: of the look, of the unit, or of the largest value.
function scaleOf(look, values) {
  const low = look.min ?? 0, top = look.unit === "percent" ? 100 : look.unit === "percentunit" ? 1 : Math.max(...values.map((v) => v.value ?? 0), low + 1e-9);
  return {low, top: look.max ?? top, part: (v) => Math.max(0, Math.min(1, (v - low) / ((look.max ?? top) - low || 1)))};
}

// --- one value ---

function sparkline(values, color) {
  const numbers = values.map(([t, v]) => [t, Number(v)]).filter(([, v]) => Number.isFinite(v));
  if (numbers.length < 2) return null;
  const low = Math.min(...numbers.map(([, v]) => v)), high = Math.max(...numbers.map(([, v]) => v)), [first] = numbers[0], [last] = numbers[numbers.length - 1];
  const points = numbers.map(([t, v]) => `${(100 * (t - first) / (last - first || 1)).toFixed(2)},${(29 - 27 * (v - low) / (high - low || 1)).toFixed(2)}`).join(" ");
  return svg("svg", {class: "spark", viewBox: "0 0 100 30", preserveAspectRatio: "none", "aria-hidden": "true"},
    svg("polygon", {points: `0,30 ${points} 100,30`, fill: color, "fill-opacity": 0.15}), svg("polyline", {points, fill: "none", stroke: color, "stroke-width": 1.5, "vector-effect": "non-scaling-stroke"}));
}

// A colored ground with a text that can be read on it.
function fill(node, color) {
  node.classList.add("filled");
  node.classList.toggle("light", isLight(color) === true);
  node.style.background = color;
}

export function drawStat(panel, fields) {
  const {options} = panel, values = valuesOf(panel, fields);
  const cells = values.map((v) => {
    const {text, color} = shown(v.value, v.look, "thresholds"), full = options.showName === "name" ? v.name : own(v.metric, options.label) ?? `${options.prefix}${text}${options.postfix}`;
    const named = options.showName === "value_and_name" || (options.showName === "auto" && values.length > 1);
    const value = h("span", {class: "stat-value"}, full), cell = h("div", {class: "stat"}, named && h("span", {class: "stat-name", title: v.name}, v.name), value, options.sparkline && sparkline(v.values, options.background ? "#ffffff" : color || "#3b82d6"));
    value.style.setProperty("--n", Math.max(4, full.length));
    if (full.length > 24) value.classList.add("long");
    if (color && options.background) fill(cell, color);
    else if (color && !options.plain && !/^(#fff(fff)?|rgb\(255, ?255, ?255\)|#d4dae2)$/i.test(color)) value.style.color = color; // white on white
    return cell;
  });
  return h("div", {class: "stats-grid"}, cells);
}

const polar = (part, r) => `${(100 - r * Math.cos(Math.PI * part)).toFixed(2)} ${(100 - r * Math.sin(Math.PI * part)).toFixed(2)}`;
const arc = (from, to, r, width, attributes) => svg("path", {d: `M ${polar(from, r)} A ${r} ${r} 0 0 1 ${polar(to, r)}`, fill: "none", "stroke-width": width, ...attributes});

function gauge(v, all) {
  const {text, color} = shown(v.value, v.look, "thresholds"), {low, top, part} = scaleOf(v.look, all), steps = v.look.thresholds?.steps || [];
  const limits = steps.map((s) => part(v.look.thresholds.percentage ? low + (top - low) * Math.max(0, s.value) / 100 : s.value === -Infinity ? low : s.value));
  const ring = steps.map((s, i) => [limits[i], limits[i + 1] ?? 1, colorOf(s.color)]).filter(([a, b, c]) => b > a && c).map(([a, b, c]) => arc(a, b, 92, 4, {stroke: c}));
  const drawing = svg("svg", {viewBox: "0 0 200 112", role: "img", "aria-label": `${v.name}: ${text}`}, arc(0, 1, 78, 18, {class: "gauge-ground"}), v.value !== null && part(v.value) > 0 && arc(0, part(v.value), 78, 18, {stroke: color || "#3b82d6"}), ring);
  const value = h("span", {class: "stat-value"}, text), cell = h("div", {class: "dial"}, drawing, value, all.length > 1 && h("span", {class: "stat-name", title: v.name}, v.name));
  value.style.setProperty("--n", Math.max(5, text.length));
  if (color) value.style.color = color;
  return cell;
}

export function drawGauge(panel, fields) {
  const values = valuesOf(panel, fields);
  return h("div", {class: "stats-grid"}, values.map((v) => gauge(v, values)));
}

export function drawBars(panel, fields) {
  const values = valuesOf(panel, fields);
  return h("div", {class: "bar-list"}, values.map((v) => {
    const {text, color} = shown(v.value, v.look, "thresholds"), fill = h("span", {class: "bar-fill"}), name = h("span", {class: "bar-name", title: v.name}, v.name), value = h("b", null, text);
    fill.style.width = `${(100 * (v.value === null ? 0 : scaleOf(v.look, values).part(v.value))).toFixed(2)}%`;
    if (color) {
      fill.style.background = color;
      value.style.color = color;
    }
    return [name, h("span", {class: "bar"}, fill), value];
  }));
}

// --- tables ---

// A cell with its color, and its link if the page has its target.
function cellOf(f, i, frame, linkOf) {
  const v = f.values[i], empty = v === null || v === undefined || (typeof v === "number" && Number.isNaN(v));
  const kind = f.look.cellOptions || f.look.displayMode || "";
  const {text, color} = f.time && !/^(dateTime|time:)/.test(f.look.unit) ? {text: v === null ? "" : time(v / 1000)} : shown(empty ? null : v, f.look, kind.startsWith("color") ? "thresholds" : ""), link = !empty && (f.look.links || []).map((l) => linkOf(l, text, frame, i)).find((l) => l);
  const node = h(link ? "a" : "span", link ? {href: link.href, title: link.title, ...(link.outside ? {target: "_blank", rel: "noopener noreferrer"} : {})} : {class: empty ? "missing" : null}, empty && !f.look.noValue ? "–" : text);
  if (color && kind.startsWith("color-background")) {
    node.className = "cell-ground";
    fill(node, color);
  } else if (color && (kind === "color-text" || f.look.color?.mode === "fixed")) node.style.color = color;
  return node;
}

// state: {column, desc, full}, which stays when the panel is drawn again. again(): draws it with another one.
export function drawTable(frame, state, linkOf, again) {
  const sorted = state.column ? sortRows(frame, state.column, state.desc) : frame, fields = sorted.filter((f) => !f.look.hidden), n = fields[0]?.values.length || 0, shownRows = state.full ? n : Math.min(n, rowsAtOnce);
  if (!n) return empty("No data");
  const right = (f) => f.look.align === "right" || (f.number && !/left|center/.test(f.look.align || "")), columns = fields.map((f) => ({name: f.name, class: right(f) ? "number" : null}));
  const rows = Array.from({length: shownRows}, (_, i) => fields.map((f) => cellOf(f, i, sorted, linkOf))), node = table(columns, rows, {class: "values"});
  node.querySelectorAll("th").forEach((th, i) => {
    const on = state.column === fields[i].name;
    th.replaceChildren(h("button", {type: "button", class: "sort", title: "Sort by this column", onclick: () => again(on && state.desc ? {...state, column: "", desc: false} : {...state, column: fields[i].name, desc: on})}, fields[i].name, on && (state.desc ? " ▾" : " ▴")));
    if (on) th.setAttribute("aria-sort", state.desc ? "descending" : "ascending");
  });
  return [node, n > shownRows && h("button", {type: "button", class: "more-rows", onclick: () => again({...state, full: true})}, `Show all ${n} rows`)];
}

// --- texts ---

export function drawText(panel, replace) {
  const text = replace(panel.options.content), {mode} = panel.options;
  return h("div", {class: "dash-prose"}, mode === "html" ? html(text) : mode === "code" ? h("pre", null, text) : mode === "text" ? h("p", null, text) : /^\s*<[a-z!][^]*>\s*$/i.test(text) ? html(text) : markdown(text));
}
