// SPDX-License-Identifier: Apache-2.0
// Parts of the pages of one GPU or one node.
import {badge, h, replace, table} from "./dom.js";
import {age, bytes} from "./format.js";
import {gpuPage} from "./overview-data.js";

// The heading, with links to the pages above.
export function heading(main, crumbs, name) {
  replace(main.querySelector("h1"), h("span", {class: "crumbs"}, crumbs.map(([text, href]) => [h("a", {href}, text), " / "])), name);
  document.title = `${name} – gpuscale`;
}

export const tile = (name, value, note, kind, href) => h(href ? "a" : "div", {class: "tile " + (kind || ""), href},
  h("span", {class: "tile-name"}, name), h("span", {class: "tile-value"}, value), note && h("span", {class: "tile-note"}, note));

// A value between 0 and the end of the scale; mark: the target.
export function bar(value, end, mark, kind) {
  const box = h("span", {class: "bar " + (kind || "")}), fill = h("span", {class: "bar-fill"});
  const percent = (v) => `${Math.max(0, Math.min(100, 100 * v / end))}%`;
  fill.style.width = Number.isFinite(value) ? percent(value) : "0";
  box.append(fill);
  if (Number.isFinite(mark)) {
    const line = h("span", {class: "bar-mark"});
    line.style.left = percent(mark);
    box.append(line);
  }
  return box;
}

export const missing = (text = "no data") => h("span", {class: "missing"}, text);
export const simulatedNote = () => h("p", {class: "simulated"}, h("b", null, "SIMULATED GPUs"), " No value of a simulated GPU comes from real hardware.");
export const section = (name, ...children) => h("section", {class: "group-box"}, h("h2", null, name), children);

// Rows [name, value]; rows without a value are left out.
export const facts = (rows) => table(["Name", {name: "Value", class: "wide"}], rows.filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false), {class: "facts-table"});

function gpuRow(g) {
  const v = g.values, total = (v.FB_USED || 0) + (v.FB_FREE || 0), owners = [...g.owners];
  const state = g.state === "missing" ? badge("down", `no data for ${age(Date.now() / 1000 - g.gone)}`) : g.state === "stale" ? badge("pending", `stale: ${age(g.age)} old`) : null;
  return {class: g.state, cells: [
    [h(g.uuid ? "a" : "b", {href: gpuPage(g.uuid), title: g.uuid, "data-key": "gpu " + g.key}, `GPU ${g.index}`), h("span", {class: "muted"}, ` ${g.model}${g.slice ? " " + g.slice : ""}`)],
    v.GPU_UTIL === undefined ? missing() : h("span", {class: "gauge"}, bar(v.GPU_UTIL, 100), `${Math.round(v.GPU_UTIL)} %`),
    v.FB_USED === undefined || v.FB_FREE === undefined ? missing() : h("span", {class: "gauge"}, bar(v.FB_USED, total, NaN, "memory"), `${bytes(v.FB_USED * 2 ** 20)}`),
    v.GPU_TEMP === undefined ? missing("–") : `${Math.round(v.GPU_TEMP)} °C`, v.POWER_USAGE === undefined ? missing("–") : `${Math.round(v.POWER_USAGE)} W`,
    [state, owners.length ? owners.slice(0, 3).map((o) => h("div", {class: "owner", title: o}, o.split("/")[1])) : state ? null : h("span", {class: "muted"}, g.shared ? "shared" : "free"), owners.length > 3 && ` and ${owners.length - 3} more`]]};
}

export const gpuTable = (gpus) => table(["GPU", "Utilization", "Memory", "Temp.", "Power", {name: "Used by", class: "used"}], gpus.map(gpuRow), {class: "gpus"});
