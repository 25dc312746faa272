// SPDX-License-Identifier: Apache-2.0
// One time axis for several charts: the metric of an autoscaler, its replicas, GPUs and nodes, with each change of the
// replicas as a vertical line.
import {get} from "./api.js";
import {loadDygraph, rowsOf, timeTicks} from "./chart.js";
import {append, empty, h, replace} from "./dom.js";
import {axisTime, duration, short, time} from "./format.js";
import {quote} from "./overview-data.js";

const points = 300, height = 128, ranges = [300, 900, 3600, 21600], maxChanges = 12;
const color = {value: "#3b82d6", target: "#c2483f", good: "#16a37f", soft: "#8a8f98", warm: "#e08a1e"};

function chartsOf(a) {
  const hpa = `{namespace=${quote(a.ns)}, horizontalpodautoscaler=${quote(a.name)}}`, of = (name) => `max(kube_horizontalpodautoscaler_${name}${hpa})`;
  const metrics = a.metrics.slice(0, 3).flatMap((m, i) => {
    const one = `{namespace=${quote(a.ns)}, horizontalpodautoscaler=${quote(a.name)}, metric_name=${quote(m.name)}, metric_target_type=${quote(m.type)}}`;
    return [{name: m.name, color: [color.value, color.good, color.warm][i], query: `max(kube_horizontalpodautoscaler_status_target_metric${one})`},
      {name: "target", color: color.target, dashed: true, query: `max(kube_horizontalpodautoscaler_spec_target_metric${one})`}];
  });
  return [
    {title: "Metric and target", lines: metrics},
    {title: "Replicas", steps: true, lines: [
      {name: "desired", color: color.target, dashed: true, query: of("status_desired_replicas")},
      {name: "current", color: color.value, query: of("status_current_replicas")},
      {name: "ready", color: color.good, query: `max(kube_deployment_status_replicas_ready{namespace=${quote(a.ns)}, deployment=${quote(a.target || a.name)}})`}]},
    ...clusterCharts()];
}

const clusterCharts = () => [
  {title: "GPU utilization, %", top: 100, lines: [{name: "average", color: color.value, query: "avg(DCGM_FI_DEV_GPU_UTIL)"},
    {name: "maximum", color: color.soft, query: "max(DCGM_FI_DEV_GPU_UTIL)"}]},
  {title: "Nodes and pending pods", steps: true, lines: [
    {name: "ready nodes", color: color.good, query: 'sum(kube_node_status_condition{condition="Ready",status="true"})'},
    {name: "coming nodes", color: color.warm, query: "sum(gpuscale_pool_coming_nodes)"},
    {name: "pending pods", color: color.target, query: "count(kube_pod_status_phase{phase=\"Pending\"} == 1) or 0 * count(kube_pod_info)"}]}];

// The charts of one workload: its load, and the GPUs of its pods instead of those of the cluster.
export function workloadCharts(a) {
  const [metrics, replicas] = chartsOf(a), name = a.target || a.name, pods = quote(name.replace(/[.]/g, "\\.") + "-.+");
  const ready = replicas.lines.find((l) => l.name === "ready").query, current = replicas.lines.find((l) => l.name === "current").query;
  const loads = metrics.lines.filter((l) => l.name !== "target").map((l) => ({...l, query: `${l.query} * (${ready} or ${current})`}));
  const gpus = `DCGM_FI_DEV_GPU_UTIL{exported_namespace=${quote(a.ns)}, exported_pod=~${pods}} or DCGM_FI_DEV_GPU_UTIL{exported_pod="", namespace=${quote(a.ns)}, pod=~${pods}}`;
  return [metrics, replicas, {title: "Load: average × ready replicas", lines: loads}, {title: "GPU utilization of its pods, %", top: 100, lines: [
    {name: "average", color: color.value, query: `avg(${gpus})`}, {name: "maximum", color: color.soft, query: `max(${gpus})`}]}];
}

export class Timeline {
  // charts(autoscaler): what is shown of it. reason(mark): a text for a change of the replicas, or nothing.
  constructor(charts = chartsOf, reason = () => null) {
    this.chartsOf = charts;
    this.reason = reason;
    this.range = 900;
    this.title = h("h2", null, "Timeline");
    this.tools = h("span", {class: "timeline-tools"});
    this.body = h("div", {class: "timeline"});
    this.changes = h("div", {class: "changes"});
    this.node = h("section", {class: "group-box"}, h("div", {class: "timeline-head"}, this.title, this.tools), this.body, this.changes);
    this.graphs = [];
    this.drawTools();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.update(this.hpa));
  }

  drawTools() {
    const choose = (range) => { this.range = range; this.zoom = null; this.drawTools(); this.update(this.hpa); };
    replace(this.tools, this.zoom && h("button", {type: "button", class: "primary", onclick: () => choose(this.range)}, "Back to live"),
      ranges.map((r) => h("button", {type: "button", "aria-pressed": String(r === this.range && !this.zoom), onclick: () => choose(r)}, duration(r))));
  }

  // The autoscaler; null: of the cluster only.
  async update(hpa) {
    const asked = this.asked = (this.asked || 0) + 1;
    this.hpa = hpa;
    replace(this.title, "Timeline", hpa && h("span", {class: "file"}, hpa.key));
    const [from, to] = this.zoom || [Date.now() / 1000 - this.range, Date.now() / 1000];
    const step = Math.max(Math.ceil((to - from) / points), 1), end = Math.floor(to / step) * step, start = Math.floor(from / step) * step;
    const charts = hpa ? this.chartsOf(hpa) : clusterCharts();
    const Dygraph = await loadDygraph();
    const data = await Promise.all(charts.map((c) => Promise.all(c.lines.map(async (l) => {
      const {result} = await get("query_range", {query: l.query, start, end, step});
      return {...l, labels: {}, values: result.length ? result[0].values : []};
    }))));
    if (asked !== this.asked) return;
    this.findChanges(charts, data, step);
    this.draw(Dygraph, charts, data, {start, end, step});
  }

  findChanges(charts, data, step) {
    const at = charts.findIndex((c) => c.title === "Replicas"), desired = at < 0 ? [] : data[at][0].values, metric = at < 0 ? [] : data[0];
    this.marks = [];
    for (let i = 1; i < desired.length; i++) {
      if (desired[i][1] === desired[i - 1][1] || desired[i][0] - desired[i - 1][0] > 2 * step) continue;
      const value = (line) => (line.values.find(([t]) => t === desired[i][0]) || [])[1];
      this.marks.push({t: desired[i][0], from: desired[i - 1][1], to: desired[i][1],
        why: metric.filter((l) => l.name !== "target").map((l, k) => [l.name, value(l), value(metric[2 * k + 1])]).filter(([, v]) => v !== undefined)});
    }
    replace(this.changes, this.marks.length > 0 && h("ul", null, this.marks.slice(-maxChanges).reverse().map((m) => h("li", null,
      h("time", null, time(m.t)), h("b", null, `${m.from} → ${m.to} replicas`),
      this.reason(m) || m.why.map(([name, v, target]) => h("span", {class: "muted"}, `${name} ${short(Number(v))}`, target !== undefined && `, target ${short(Number(target))}`))))));
  }

  draw(Dygraph, charts, data, {start, end, step}) {
    this.close();
    replace(this.body);
    const style = getComputedStyle(document.documentElement), css = (name) => style.getPropertyValue(name).trim();
    let busy = false;
    const tracks = charts.map((c, i) => {
      const plot = h("div", {class: "plot"}), values = data[i].map(() => h("b"));
      const empties = data[i].every((l) => !l.values.length);
      plot.style.height = `${height}px`;
      append(this.body, [h("div", {class: "track"}, h("div", {class: "track-head"}, h("span", {class: "track-title"}, c.title),
        data[i].map((l, k) => {
          const swatch = h("span", {class: "swatch"});
          swatch.style.background = l.color;
          return h("span", {class: "track-line"}, swatch, l.name, " ", values[k]);
        })), empties ? empty("No data in this time.") : plot)]);
      return {plot, values, empties};
    });
    // dygraphs measures its element, so all elements come first.
    charts.forEach((c, i) => {
      const {plot, values, empties} = tracks[i];
      if (empties) return;
      const table = rowsOf(data[i], start, end, step);
      const show = (row) => values.forEach((b, k) => { const v = row ? row[k + 1] : null; b.textContent = v === null ? "–" : short(v); });
      show(table[table.length - 1]);
      const most = Math.max(1, ...table.flatMap((row) => row.slice(1)).filter((v) => v !== null)) * 1.08;
      const graph = new Dygraph(plot, table, {
        labels: ["time", ...data[i].map((_, k) => String(k))], colors: data[i].map((l) => l.color), legend: "never", dateWindow: [start * 1000, end * 1000],
        valueRange: [0, c.top ? Math.max(c.top, most / 1.08) * 1.02 : most], stepPlot: !!c.steps, strokeWidth: 1.6, pointSize: 1.5, drawGapEdgePoints: true, highlightCircleSize: 3,
        series: Object.fromEntries(data[i].map((l, k) => [String(k), l.dashed ? {strokePattern: [5, 4]} : {}])),
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
          this.update(this.hpa);
        },
      });
      this.graphs.push({graph, table, show});
    });
  }

  // Whether new data may be drawn: not while the reader inspects a part of it.
  live() { return !this.zoom && !this.body.matches(":hover"); }

  close() {
    this.graphs.forEach((g) => g.graph.destroy());
    this.graphs = [];
  }
}
