// SPDX-License-Identifier: Apache-2.0
// Small charts and bands that share one time axis, with buttons for the range and zoom by dragging.
import {loadDygraph, rowsOf, timeTicks} from "./chart.js";
import {dataAge, rangeFor} from "./data-age.js";
import {append, empty, h, notice, replace} from "./dom.js";
import {axisTime, duration, short, time} from "./format.js";
import {Ranges} from "./ranges.js";

const points = 300, height = 128, ranges = [300, 900, 3600, 21600, 86400], mostAtFirst = 3600, maxRows = 16;
export const color = {value: "#3b82d6", target: "#c2483f", good: "#16a37f", soft: "#8a8f98", warm: "#e08a1e"};

export class Tracks {
  // load({start, end, step, ranges}) returns
  //   {charts: [{title, href, top, least, steps, lines: [{name, color, dashed, values}]}],   // top, least: of the axis; at least 1 without
  //    bands: [{title, rows: [{name, href, note, spans: [{from, to, kind, text}]}], none}],
  //    marks: [{t, nodes}]}
  constructor(title, load) {
    this.range = null; // until the age of the data is known
    this.load = load;
    this.ranges = new Ranges();
    this.title = h("h2", null, title);
    this.tools = h("span", {class: "timeline-tools"});
    this.problem = h("div");
    this.body = h("div", {class: "timeline"});
    this.bands = h("div", {class: "bands"});
    this.changes = h("div", {class: "changes"});
    this.node = h("section", {class: "group-box"}, h("div", {class: "timeline-head"}, this.title, this.tools), this.problem, this.body, this.bands, this.changes);
    this.graphs = [];
    this.marks = [];
    this.drawTools();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.drawn = ""; this.update(); });
  }

  drawTools() {
    const choose = (range) => { this.range = range; this.zoom = null; this.drawTools(); this.update(); };
    replace(this.tools, this.zoom && h("button", {type: "button", class: "primary", onclick: () => choose(this.range)}, "Back to live"),
      ranges.map((r) => h("button", {type: "button", "aria-pressed": String(r === this.range && !this.zoom), onclick: () => choose(r)}, duration(r))));
  }

  async update() {
    const asked = this.asked = (this.asked || 0) + 1;
    if (!this.range) {
      const range = rangeFor(await dataAge(), ranges, mostAtFirst);
      this.range ||= range;
      this.drawTools();
    }
    const [from, to] = this.zoom || [Date.now() / 1000 - this.range, Date.now() / 1000];
    const step = Math.max(Math.ceil((to - from) / points), 1), end = Math.floor(to / step) * step, start = Math.floor(from / step) * step;
    this.ranges.next();
    let Dygraph, found;
    try {
      [Dygraph, found] = await Promise.all([loadDygraph(), this.load({start, end, step, ranges: this.ranges})]);
    } catch (error) {
      replace(this.problem, notice("error", error.message));
      return;
    }
    if (asked !== this.asked) return;
    replace(this.problem);
    this.marks = found.marks || [];
    this.draw(Dygraph, found.charts, {start, end, step});
    this.drawBands(found.bands || [], start, end);
    replace(this.changes, this.marks.some((m) => m.nodes) && h("ul", null, this.marks.filter((m) => m.nodes).slice(-maxRows).reverse().map((m) => h("li", null, h("time", null, time(m.t)), m.nodes))));
  }

  draw(Dygraph, charts, {start, end, step}) {
    const shape = JSON.stringify(charts.map((c) => [c.title, c.lines.map((l) => [l.name, l.values.length > 0])]));
    const tables = charts.map((c) => rowsOf(c.lines, start, end, step));
    const most = charts.map((c, i) => Math.max(c.least ?? 1, ...tables[i].map((row) => row.reduce((a, v, k) => k && v > a ? v : a, 0))) * 1.08);
    const axes = (i) => ({dateWindow: [start * 1000, end * 1000], valueRange: [0, charts[i].top ? Math.max(charts[i].top, most[i] / 1.08) * 1.02 : most[i]]});
    if (shape !== this.drawn) this.build(Dygraph, charts, tables, axes);
    this.drawn = shape;
    for (const g of this.graphs) {
      g.table = tables[g.i];
      g.graph.updateOptions({file: g.table, ...axes(g.i)});
      g.show(g.table[g.table.length - 1]);
    }
  }

  // New elements: the charts or their lines have changed.
  build(Dygraph, charts, tables, axes) {
    this.graphs.forEach((g) => g.graph.destroy());
    this.graphs = [];
    replace(this.body);
    const style = getComputedStyle(document.documentElement), css = (name) => style.getPropertyValue(name).trim();
    let busy = false;
    const tracks = charts.map((c) => {
      const plot = h("div", {class: "plot"}), values = c.lines.map(() => h("b"));
      const empties = c.lines.every((l) => !l.values.length);
      plot.style.height = `${height}px`;
      append(this.body, [h("div", {class: "track"}, h("div", {class: "track-head"}, h("span", {class: "track-title"}, c.href ? h("a", {href: c.href, title: "Query"}, c.title) : c.title),
        c.lines.map((l, k) => {
          const swatch = h("span", {class: "swatch"});
          swatch.style.background = l.color;
          return h("span", {class: "track-line"}, swatch, l.name, " ", values[k]);
        })), empties ? empty(c.none || "No data in this time.") : plot)]);
      return {plot, values, empties};
    });
    // dygraphs measures its element, so all elements come first.
    charts.forEach((c, i) => {
      const {plot, values, empties} = tracks[i];
      if (empties) return;
      const show = (row) => values.forEach((b, k) => { const v = row ? row[k + 1] : null; b.textContent = v === null ? "–" : short(v); });
      const graph = new Dygraph(plot, tables[i], {
        labels: ["time", ...c.lines.map((_, k) => String(k))], colors: c.lines.map((l) => l.color), legend: "never", ...axes(i),
        stepPlot: !!c.steps, strokeWidth: 1.6, pointSize: 1.5, drawGapEdgePoints: true, highlightCircleSize: 3,
        series: Object.fromEntries(c.lines.map((l, k) => [String(k), l.dashed ? {strokePattern: [5, 4]} : {}])),
        axisLineColor: css("--line-strong"), gridLineColor: css("--line"),
        axes: {x: {ticker: timeTicks, axisLabelFormatter: (v) => axisTime(Number(v), 1000), axisLabelWidth: 80},
          y: {axisLabelFormatter: (v) => short(v), axisLabelWidth: 44, pixelsPerLabel: 34}},
        underlayCallback: (context, area, g) => {
          context.fillStyle = css("--mark");
          for (const m of this.marks) context.fillRect(Math.round(g.toDomXCoord(m.t * 1000)), area.y, 1.5, area.h);
        },
        highlightCallback: (event, x, found, row) => {
          if (busy) return;
          busy = true;
          for (const other of this.graphs) { if (other.graph !== graph) other.graph.setSelection(row); other.show(other.table[row]); }
          busy = false;
        },
        unhighlightCallback: () => { for (const other of this.graphs) { if (other.graph !== graph) other.graph.clearSelection(); other.show(other.table[other.table.length - 1]); } },
        zoomCallback: (a, b) => {
          if (b - a < 2000) return;
          this.zoom = [a / 1000, b / 1000];
          this.drawTools();
          this.update();
        },
      });
      this.graphs.push({i, graph, show});
    });
  }

  drawBands(bands, start, end) {
    const at = (t) => `${100 * Math.max(0, Math.min(1, (t - start) / (end - start)))}%`;
    const span = (s) => {
      const node = h("span", {class: "band-span " + (s.kind || ""), title: `${s.text ? s.text + ": " : ""}${time(Math.max(s.from, start))} – ${s.to >= end ? "now" : time(s.to)}`});
      node.style.left = at(s.from);
      node.style.width = `${100 * (Math.min(s.to, end) - Math.max(s.from, start)) / (end - start)}%`;
      return node;
    };
    const axis = h("div", {class: "band-axis", "aria-hidden": "true"}, timeTicks(start * 1000, end * 1000, 700).map(({v, label}) => {
      const node = h("span", null, label);
      node.style.left = at(v / 1000);
      return node;
    }));
    replace(this.bands, bands.map((b) => h("div", {class: "band-group"}, h("div", {class: "track-head"}, h("span", {class: "track-title"}, b.title), b.legend),
      b.rows.length ? [b.rows.slice(0, maxRows).map((r) => h("div", {class: "band"},
        h(r.href ? "a" : "span", {class: "band-name", href: r.href, title: r.name}, r.name), h("span", {class: "band-line"}, r.spans.map(span)), h("span", {class: "band-note"}, r.note))),
      h("div", {class: "band"}, h("span", {class: "band-name"}, b.rows.length > maxRows && `and ${b.rows.length - maxRows} more`), axis, h("span", {class: "band-note"}))] : empty(b.none || "Nothing in this time."))));
  }

  // Whether new data may be drawn: not while the reader inspects a part of it.
  live() { return !this.zoom && !this.node.matches(":hover"); }
}
