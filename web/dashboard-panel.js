// SPDX-License-Identifier: Apache-2.0
// One panel of a dashboard on the page. It reads its queries when it is in view, at most a few panels at a time.
import {Chart, seriesColor} from "./chart.js";
import {calcNames, colorOf, framesOf, maxRows, maxSeries, nameSeries, queriesOf, readQueries, reduced, setLooks, transformed} from "./dashboard-data.js";
import {drawBars, drawGauge, drawStat, drawTable, drawText} from "./dashboard-draw.js";
import {empty, h, notice, replace} from "./dom.js";
import {number, parseDuration} from "./format.js";
import {writePanels} from "./panel.js";
import {isBinary, withUnit} from "./units.js";

const atOnce = 4, maxPoints = 500000;

// Runs at most `atOnce` tasks at a time.
let running = 0;
const waiting = [];
async function inTurn(task) {
  if (running >= atOnce) await new Promise((resolve) => waiting.push(resolve));
  running++;
  try {
    return await task();
  } finally {
    running--;
    waiting.shift()?.();
  }
}

// Series with the values of "Stacking: 100 %": parts of the sum of each time.
function parts(list) {
  const sums = new Map();
  for (const s of list) for (const [t, v] of s.values) sums.set(t, (sums.get(t) || 0) + (number(v) || 0));
  return list.map((s) => ({...s, values: s.values.map(([t, v]) => [t, String(sums.get(t) ? 100 * number(v) / sums.get(t) : 0)])}));
}

const extremes = (list) => {
  let low = Infinity, high = -Infinity;
  for (const s of list) for (const [, v] of s.values) { const n = number(v); if (Number.isFinite(n)) { low = Math.min(low, n); high = Math.max(high, n); } }
  return {low, high};
};

export class DashboardPanel {
  // scope: values of repeated panels. page: {variables, range(), linkOf(link, …), zoom(start, end)}
  constructor(panel, scope, page) {
    Object.assign(this, {panel, scope, page, dirty: true, visible: false, state: {column: panel.options.sortBy?.field || "", desc: panel.options.sortBy?.desc || false}});
    this.title = h("h3");
    this.tools = h("span", {class: "dash-tools"});
    this.body = h("div", {class: "dash-body"});
    this.node = h("section", {class: `dash-panel dash-${panel.type || "unknown"}`, "data-panel": panel.name}, h("div", {class: "dash-head"}, this.title, this.tools), this.body);
    for (const [name, value] of Object.entries({x: panel.x + 1, y: panel.y + 1, w: panel.w, h: panel.h})) this.node.style.setProperty(`--${name}`, value);
    this.replace = (text) => page.variables.replace(text, scope);
  }

  show(visible) {
    this.visible = visible;
    if (visible && this.dirty) this.update();
  }

  // The time range, a variable or the data have changed.
  changed() {
    this.dirty = true;
    if (this.visible) this.update();
  }

  range() {
    const range = this.page.range(), own = parseDuration(this.panel.timeFrom.replace(/^now-/, ""));
    return own > 0 ? {start: range.end - own, end: range.end} : range;
  }

  async update() {
    this.dirty = false;
    this.abort?.abort();
    const abort = this.abort = new AbortController();
    this.body.classList.add("busy");
    await inTurn(async () => {
      if (abort.signal.aborted) return;
      try {
        await this.draw(abort.signal);
      } catch (error) {
        if (error.name === "AbortError" || abort.signal.aborted) return;
        this.closeChart();
        replace(this.body, notice("error", error.message));
      }
    });
    if (abort === this.abort) this.body.classList.remove("busy");
  }

  async draw(signal) {
    const {panel} = this, range = this.range();
    replace(this.title, this.replace(panel.title));
    this.title.title = panel.description || this.title.textContent;
    if (panel.type === "text" && !panel.reason) {
      replace(this.body, drawText(panel, this.replace));
      return;
    }
    const queries = queriesOf(panel, this.page.variables, this.scope, range);
    this.drawLink(queries, range);
    if (panel.reason || !queries.length) {
      replace(this.body, h("p", {class: "dash-reason"}, panel.reason || "It has no PromQL query."), queries.map((q) => h("code", {class: "expr"}, q.expr)));
      return;
    }
    const result = await readQueries(queries, range, signal);
    if (signal.aborted) return;
    this.notes = [...result.notes, result.cut && "Not all series are shown.", ...queries.filter((q) => q.heatmap).slice(0, 1).map(() => "Buckets are shown as series.")].filter((t) => t);
    if (panel.type === "table") await this.drawTable(result);
    else await this.drawSeries(result);
  }

  drawLink(queries, range) {
    const live = this.page.isLive(), panels = queries.map((q) => ({expr: q.expr, graph: this.panel.type !== "table", range: range.end - range.start, end: live ? null : range.end}));
    replace(this.tools, queries.length > 0 && h("a", {href: `query?${writePanels(panels)}`, title: "The queries of this panel on the query page"}, "query"));
  }

  async drawTable({series}) {
    const {frame, unknown} = await transformed(framesOf(series), this.panel.transformations);
    await setLooks(this.panel.field, frame);
    if (series.reduce((n, s) => n + s.values.length, 0) > maxRows) this.notes.push(`At most ${maxRows} rows of a query are shown.`);
    if (unknown.length) this.notes.push(`Not applied: ${unknown.join(", ")}.`);
    const again = (state) => {
      this.state = state;
      replace(this.body, this.noteNode(), h("div", {class: "dash-scroll"}, drawTable(frame, state, this.page.linkOf, again)));
    };
    again(this.state);
  }

  noteNode() {
    return this.notes.length > 0 && h("p", {class: "dash-note"}, this.notes.join(" "));
  }

  async drawSeries(result) {
    const {panel} = this;
    nameSeries(result.series, this.replace);
    const fields = result.series.map((s) => ({...s, number: true}));
    await setLooks(panel.field, fields);
    const kept = fields.filter((f) => !f.look.hideFrom?.drawing);
    if (!kept.length) {
      this.closeChart();
      replace(this.body, this.noteNode(), empty(panel.field.defaults.noValue || "No data"));
      return;
    }
    if (panel.transformations.length) this.notes.push(`Not applied: ${[...new Set(panel.transformations.map((t) => t.id))].join(", ")}.`);
    if (panel.type === "timeseries") await this.drawChart(kept, result);
    else replace(this.body, this.noteNode(), {stat: drawStat, gauge: drawGauge, bargauge: drawBars}[panel.type](panel, kept));
  }

  // The look of one line, and its values in the legend.
  lineOf(f, i) {
    const {look} = f, color = (look.color?.mode === "fixed" || look.color?.mode === "shades") && colorOf(look.color.fixed), calcs = this.panel.options.legend.calcs;
    const notes = calcs.map((c) => withUnit(reduced(f.values, c), look.unit, look.decimals));
    return {labels: f.metric, name: f.name, values: f.values, color: color || seriesColor(i), factor: look.transform === "negative-Y" ? -1 : 1, format: (v) => withUnit(Math.abs(v) === -v && look.transform === "negative-Y" ? -v : v, look.unit, look.decimals),
      unlisted: look.hideFrom?.legend || undefined, notes, apart: look.stacking === "none" || look.stacking === undefined,
      look: {dashed: look.lineStyle, width: look.lineWidth ?? 1.4, fill: (look.fillOpacity ?? 0) / 100, bars: look.drawStyle === "bars", points: look.drawStyle === "points", steps: /^step/.test(look.lineInterpolation || "")}};
  }

  async drawChart(fields, {start, end, step}) {
    const {panel} = this, {defaults} = panel.field, shownFields = fields.slice(0, Math.min(maxSeries, Math.max(1, Math.floor(maxPoints / Math.max(1, (end - start) / step)))));
    if (fields.length > shownFields.length) this.notes.push(`The first ${shownFields.length} of ${fields.length} series are shown.`);
    const percent = defaults.stacking === "percent", look = shownFields[0].look, lines = (percent ? parts(shownFields) : shownFields).map((f, i) => this.lineOf(f, i));
    const stacked = lines.some((l) => !l.apart) && !lines.some((l) => l.look.bars), {low, high} = extremes(lines);
    const min = defaults.min ?? (defaults.axisSoftMin <= low ? defaults.axisSoftMin : undefined), max = percent ? 100 : defaults.max ?? (defaults.axisSoftMax >= high ? defaults.axisSoftMax : undefined);
    if (!this.chart) {
      this.chart = new Chart((a, b) => b - a >= 1 && this.page.zoom(a, b));
      this.chart.node.classList.add("dash-chart");
    }
    const drawnFor = JSON.stringify([this.page.stamp(), lines.map((l) => l.name)]);
    // The reader reads a value.
    if (this.body.contains(this.chart.node) && this.chart.node.matches(":hover") && this.drawnFor === drawnFor) return;
    this.drawnFor = drawnFor;
    const {legend} = panel.options;
    this.chart.node.classList.toggle("right", legend.right && legend.show && this.body.clientWidth > 400 + 68 * legend.calcs.length);
    this.chart.node.classList.toggle("bare", !legend.show);
    this.chart.node.classList.toggle("rows", legend.table || legend.calcs.length > 0);
    this.chart.node.classList.toggle("one", lines.length === 1);
    replace(this.body, this.noteNode(), this.chart.node);
    this.chart.legend.style.setProperty("--notes", legend.calcs.length);
    const unit = percent ? "percent" : look.unit ?? defaults.unit;
    await this.chart.draw({series: lines, start, end, step, stacked, keep: true, look: {format: (v) => withUnit(v, unit, defaults.decimals), range: min !== undefined || max !== undefined ? [min ?? null, max ?? null] : undefined,
      zero: low >= 0 && (stacked || lines.some((l) => l.look.fill > 0 || l.look.bars)), fill: Math.max(...lines.map((l) => l.look.fill)), log: defaults.scaleDistribution || false, connected: look.spanNulls, fit: true, binary: isBinary(unit), notes: legend.calcs.map((c) => calcNames[c] ?? c),
      lines: defaults.thresholdsStyle && defaults.thresholdsStyle !== "off" && (defaults.thresholds?.steps || []).filter((s) => Number.isFinite(s.value)).map((s) => ({value: s.value, color: colorOf(s.color) || "#d8553a"}))}});
  }

  closeChart() {
    this.chart?.finish();
    this.chart = null;
  }

  finish() {
    this.abort?.abort();
    this.closeChart();
    this.node.remove();
  }
}
