// SPDX-License-Identifier: Apache-2.0
// Time series as a chart of dygraphs. All texts of the chart are numbers and times; names of series are
// shown by the legend, as text nodes.
import {h, replace, seriesNode} from "./dom.js";
import {axisTime, localTime, number, short, time} from "./format.js";

// Tell apart on light and dark grounds, also with color vision deficiency (after Okabe and Ito).
const colors = ["#3b82d6", "#e08a1e", "#16a37f", "#c65fa5", "#7a6ff0", "#c9a915", "#3fb2d9", "#d8553a", "#7f9c2b", "#8a8f98"];
export const seriesColor = (i) => colors[i % colors.length];
const legendMax = 200;
let library = null;

export function loadDygraph() {
  library ||= new Promise((resolve, reject) => {
    const script = h("script", {src: new URL("dygraph.min.js", import.meta.url).href, onload: () => {
      // Its legend and labels would write texts as HTML.
      const {Legend, ChartLabels, Annotations, RangeSelector} = window.Dygraph.Plugins;
      window.Dygraph.PLUGINS = window.Dygraph.PLUGINS.filter((p) => ![Legend, ChartLabels, Annotations, RangeSelector].includes(p));
      resolve(window.Dygraph);
    }, onerror: () => reject(new Error("assets/dygraph.min.js cannot be loaded."))});
    document.head.append(script);
  });
  return library;
}

// series: [{labels, values: [[seconds, "text"], …], factor}]. A step without a sample is a gap.
export function rowsOf(series, start, end, step) {
  const n = Math.round((end - start) / step) + 1;
  const table = Array.from({length: n}, (_, i) => [new Date((start + i * step) * 1000), ...series.map(() => null)]);
  series.forEach((s, k) => {
    for (const [t, text] of s.values) {
      const row = table[Math.round((t - start) / step)], v = number(text);
      if (row) row[k + 1] = Number.isFinite(v) ? v * (s.factor ?? 1) : null;
    }
  });
  return table;
}

// Adds to each series the sum of those before it, except for series with apart. Dygraphs itself stacks all or none.
function stackRows(rows, series) {
  for (const row of rows) {
    let sum = 0;
    series.forEach((s, i) => { if (!s.apart && row[i + 1] !== null) row[i + 1] = sum += row[i + 1]; });
  }
}

// An axis of time in UTC or local time: dygraphs itself knows round local times only.
export function timeTicks(a, b, pixels) {
  const most = Math.max(pixels / 90, 2), year = 31536000000;
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000].map((s) => s * 1000);
  const step = steps.find((s) => (b - a) / s <= most) || Math.ceil((b - a) / most / year) * year;
  const offset = localTime() ? new Date(a).getTimezoneOffset() * 60000 : 0;
  const ticks = [];
  for (let v = Math.ceil((a - offset) / step) * step + offset; v <= b; v += step) ticks.push({v, label: axisTime(v, step)});
  return ticks;
}

export class Chart {
  // onZoom(start, end) in seconds: the reader has selected a part of the chart.
  constructor(onZoom, height = 340) {
    this.height = height;
    this.plot = h("div", {class: "plot"});
    this.tip = h("div", {class: "tip", hidden: true});
    this.legend = h("ul", {class: "legend"});
    this.node = h("div", {class: "chart"}, h("div", {class: "plot-box"}, this.plot, this.tip), this.legend);
    this.onZoom = onZoom;
    this.hidden = new Set();
    this.theme = matchMedia("(prefers-color-scheme: dark)");
    this.theme.addEventListener("change", this.retheme = () => this.again && this.again());
  }

  // series: of rowsOf(), and for a dashboard its name, color, look {dashed, width, fill (0 to 1), bars, points} and apart: it is
  // not stacked. look of the chart: format(v), range [low, high] with null for the data's, log, connected, lines [{value, color}],
  // binary: limits of the axis are powers of 2, notes: names of the notes of series, fit: its height is that of its place.
  async draw({series, start, end, step, stacked = false, keep = false, look = {}}) {
    const Dygraph = await loadDygraph();
    if (!keep) this.hidden.clear();
    this.again = () => this.draw({series, start, end, step, stacked, keep: true, look});
    this.close();
    this.series = series;
    this.format = look.format || short;
    const style = getComputedStyle(document.documentElement), color = (name) => style.getPropertyValue(name).trim();
    const data = rowsOf(series, start, end, step), mixed = stacked && series.some((s) => s.apart);
    this.raw = mixed ? data.map((row) => [...row]) : null;
    if (mixed) stackRows(data, series);
    const highlight = {strokeWidth: 2, highlightCircleSize: 3};
    this.drawLegend(look.notes);
    if (look.fit) this.height = Math.max(60, this.plot.parentNode.clientHeight); // what the legend leaves
    this.plot.style.height = `${this.height}px`;
    this.graph = new Dygraph(this.plot, data, {
      labels: ["time", ...series.map((_, i) => String(i))],
      colors: series.map((s, i) => s.color || seriesColor(i)),
      series: Object.fromEntries(series.map((s, i) => [String(i), s.look ? styleOf(s.look) : {}])),
      visibility: series.map((_, i) => !this.hidden.has(i)),
      dateWindow: [start * 1000, end * 1000], legend: "never", stackedGraph: stacked && !mixed, fillAlpha: look.fill ?? 0.35, strokeWidth: 1.4,
      connectSeparatedPoints: look.connected || false, drawGapEdgePoints: true, pointSize: 2, includeZero: look.zero || false, valueRange: look.range, logscale: look.log || false,
      underlayCallback: look.lines && ((context, area, graph) => drawLines(context, area, graph, look.lines)),
      axisLineColor: color("--line-strong"), gridLineColor: color("--line"), axisLabelWidth: 64, gridLineWidth: 1, labelsKMG2: look.binary || false,
      highlightSeriesOpts: series.length > 1 ? highlight : null, highlightSeriesBackgroundAlpha: 1, highlightCircleSize: 3,
      axes: {
        x: {ticker: timeTicks, axisLabelFormatter: (v) => axisTime(Number(v), 1000), axisLabelWidth: 80},
        y: {axisLabelFormatter: (v) => this.format(v), axisLabelWidth: 64},
      },
      highlightCallback: (event, x, points, row, name) => this.showTip(event, x, points, name),
      unhighlightCallback: () => { this.tip.hidden = true; },
      zoomCallback: (a, b) => this.onZoom && this.onZoom(a / 1000, b / 1000),
    });
  }

  showTip(event, x, points, name) {
    const point = points.find((p) => p.name === name) || points[0];
    if (!point) return;
    const i = Number(point.name), s = this.series[i], box = this.plot.getBoundingClientRect(), value = this.raw ? this.raw[point.idx]?.[i + 1] : point.yval;
    replace(this.tip, h("div", {class: "tip-head"}, swatch(i, s.color), h("b", null, (s.format || this.format)(value ?? point.yval)), " ", time(x / 1000)), nameNode(s, s.labels));
    this.tip.hidden = false;
    const left = event.clientX - box.left, right = left > box.width / 2;
    this.tip.style.left = right ? "" : `${left + 14}px`;
    this.tip.style.right = right ? `${box.width - left + 14}px` : "";
    this.tip.style.top = `${Math.max(0, Math.min(event.clientY - box.top + 10, this.height - 60))}px`;
  }

  // Labels that all series share are shown once.
  drawLegend(notes = []) {
    const labels = this.series.map((s) => s.labels), first = labels[0];
    const shared = new Set(labels.length > 1 && this.series[0].name === undefined ? Object.keys(first).filter((name) => labels.every((l) => l[name] === first[name])) : []);
    const some = (keep) => (l) => Object.fromEntries(Object.entries(l).filter(([name]) => keep(shared.has(name))));
    const common = some((yes) => yes)(first);
    const items = this.series.slice(0, legendMax).map((s, i) => h("li", {hidden: s.unlisted}, h("button", {type: "button", class: "legend-item",
      "aria-pressed": String(!this.hidden.has(i)), title: "Click: only this series. Ctrl+click: hide or show it.",
      onclick: (event) => this.toggle(i, event.ctrlKey || event.metaKey),
      onmouseenter: () => this.series.length > 1 && this.graph.setSelection(false, String(i)),
      onmouseleave: () => this.graph.clearSelection()}, swatch(i, s.color), nameNode(s, some((yes) => !yes)(s.labels)), (s.notes || []).map((text) => h("span", {class: "legend-note"}, text)))));
    replace(this.legend, notes.length > 0 && h("li", {class: "legend-head"}, notes.map((name) => h("span", {class: "legend-note"}, name))), shared.size > 0 && h("li", {class: "shared"}, seriesNode(common)), items, this.series.length > legendMax && h("li", {class: "more"}, `and ${this.series.length - legendMax} more`));
  }

  toggle(i, one) {
    const n = this.series.length, only = this.hidden.size === n - 1 && !this.hidden.has(i);
    if (one && this.hidden.has(i)) this.hidden.delete(i);
    else if (one) this.hidden.add(i);
    else this.hidden = new Set(only ? [] : [...Array(n).keys()].filter((k) => k !== i));
    this.again();
  }

  close() {
    if (this.graph) this.graph.destroy();
    this.graph = null;
    this.tip.hidden = true;
  }

  finish() {
    this.close();
    this.theme.removeEventListener("change", this.retheme);
  }
}

// A name of its own, or the labels.
const nameNode = (s, labels) => s.name === undefined ? seriesNode(labels) : h("span", {class: "series-name"}, s.name);

function swatch(i, own) {
  const box = h("span", {class: "swatch", "aria-hidden": "true"});
  box.style.background = own || seriesColor(i);
  return box;
}

// A bar for each sample, from the line of zero.
function bars(e) {
  const width = e.points.length > 1 ? Math.max(1, 0.7 * (e.points[1].canvasx - e.points[0].canvasx)) : 4, zero = Math.min(e.plotArea.y + e.plotArea.h, e.dygraph.toDomYCoord(0));
  e.drawingContext.fillStyle = e.color;
  for (const p of e.points) if (!Number.isNaN(p.canvasy)) e.drawingContext.fillRect(p.canvasx - width / 2, Math.min(p.canvasy, zero), width, Math.abs(zero - p.canvasy));
}

const styleOf = (look) => ({fillGraph: look.fill > 0, fillAlpha: look.fill, strokeWidth: look.points ? 0 : look.width ?? 1.4, drawPoints: look.points || false, ...(look.dashed ? {strokePattern: [6, 4]} : {}),
  ...(look.bars ? {plotter: bars} : look.steps ? {stepPlot: true} : {})});

// Limits as dashed lines.
function drawLines(context, area, graph, lines) {
  context.save();
  context.setLineDash([8, 5]);
  for (const {value, color} of lines) {
    const y = graph.toDomYCoord(value);
    if (!(y >= area.y && y <= area.y + area.h)) continue;
    context.strokeStyle = color;
    context.beginPath();
    context.moveTo(area.x, y);
    context.lineTo(area.x + area.w, y);
    context.stroke();
  }
  context.restore();
}
