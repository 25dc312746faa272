// SPDX-License-Identifier: Apache-2.0
// One expression of the query page, as a table or a graph. Its state is in the address of the page,
// with the parameters of Prometheus.
import {getAll} from "./api.js";
import {Chart} from "./chart.js";
import {expressionInput, remember} from "./complete.js";
import {dataAge, rangeFor} from "./data-age.js";
import {append, empty, h, notice, replace, seriesNode} from "./dom.js";
import {count, duration, parseDuration, parseTime, time, utcTime} from "./format.js";

const rowsAtOnce = 500, maxGraphSeries = 300, pointsOfGraph = 250, leastAtFirst = 300, mostAtFirst = 3600; // seconds
const ranges = [1, 10, 60, 300, 900, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 604800, 1209600, 2419200, 4838400];

// The panels of a query string: g0.expr=…&g0.tab=….
export function readPanels(search) {
  const found = new Map();
  for (const [key, value] of new URLSearchParams(search)) {
    const match = /^g(\d{1,4})\.(.+)$/.exec(key);
    if (!match) continue;
    const at = Number(match[1]);
    if (!found.has(at)) found.set(at, {});
    found.get(at)[match[2]] = value;
  }
  const panels = [...found].sort(([a], [b]) => a - b).map(([, p]) => ({
    expr: p.expr || "",
    graph: p.tab === "0" || p.tab === "graph",
    range: parseDuration(p.range_input || "") || null, // null: by the age of the data
    end: parseTime(p.end_input || "", true) || null,
    moment: parseTime(p.moment_input || "", true) || null,
    step: parseDuration(p.step_input || "") || null,
    stacked: p.stacked === "1" || p.display_mode === "stacked",
  }));
  return panels.length ? panels : [{expr: "", graph: false, range: null, end: null, moment: null, step: null, stacked: false}];
}

export function writePanels(panels) {
  const out = new URLSearchParams();
  panels.forEach((p, i) => {
    const put = (key, value) => value && out.set(`g${i}.${key}`, value);
    out.set(`g${i}.expr`, p.expr);
    put("tab", p.graph ? "graph" : "table");
    put("range_input", p.range && duration(p.range));
    put("end_input", p.end && utcTime(p.end));
    put("moment_input", p.moment && utcTime(p.moment));
    put("step_input", p.step && String(p.step));
    put("display_mode", p.stacked ? "stacked" : "lines");
  });
  return out.toString();
}

export class Panel {
  // onChange(): the state has changed. onRemove(): the reader closes the panel; null: it is the only one.
  constructor(state, onChange, onRemove) {
    this.state = state;
    this.onChange = onChange;
    this.input = expressionInput(state.expr, () => this.execute());
    this.controls = h("div", {class: "controls"});
    this.result = h("div", {class: "result", "aria-live": "polite"});
    this.stats = h("span", {class: "stats"});
    this.tabs = h("div", {class: "tabs", role: "tablist"});
    this.node = h("section", {class: "panel"},
      h("div", {class: "expression-row"}, this.input.node,
        h("button", {type: "button", class: "primary", onclick: () => this.execute()}, "Execute"),
        h("button", {type: "button", title: "Earlier queries (arrow up)", "aria-label": "Earlier queries", onclick: () => this.input.showHistory()}, "History"),
        h("button", {type: "button", class: "remove", title: "Remove this panel", "aria-label": "Remove this panel", onclick: onRemove}, "×")),
      h("div", {class: "tab-row"}, this.tabs, this.controls, this.stats), this.result);
    this.show();
    if (state.expr) this.run();
  }

  // What the reader has typed becomes the state.
  execute() {
    this.state.expr = this.input.value();
    remember(this.state.expr);
    this.change({});
  }

  change(values) {
    Object.assign(this.state, values);
    this.onChange();
    this.show();
    this.run();
  }

  show() {
    const tab = (text, graph) => h("button", {type: "button", role: "tab", "aria-selected": String(this.state.graph === graph),
      onclick: () => { this.state.expr = this.input.value(); this.change({graph}); }}, text);
    replace(this.tabs, tab("Table", false), tab("Graph", true));
    replace(this.controls, this.state.graph ? this.graphControls() : this.tableControls());
  }

  timeField(label, value, placeholder, set, stepOf) {
    const move = (sign) => set((value || Date.now() / 1000) + sign * stepOf());
    const field = h("input", {type: "text", class: "time", "aria-label": label, placeholder, value: value ? time(value) : "", size: 19});
    field.addEventListener("change", () => set(parseTime(field.value) || null));
    return h("span", {class: "group"}, h("button", {type: "button", "aria-label": "Earlier", onclick: () => move(-1)}, "‹"), field,
      value && h("button", {type: "button", "aria-label": "Now", title: "Now", onclick: () => set(null)}, "×"),
      h("button", {type: "button", "aria-label": "Later", onclick: () => move(1)}, "›"));
  }

  tableControls() {
    return this.timeField("Evaluation time", this.state.moment, "Evaluation time: now", (moment) => this.change({moment}), () => 60);
  }

  graphControls() {
    const {range, end, step, stacked} = this.state;
    const rangeField = h("input", {type: "text", class: "short", "aria-label": "Range", value: range ? duration(range) : "", size: 6});
    const set = (seconds) => seconds > 0 && this.change({range: seconds});
    rangeField.addEventListener("change", () => set(parseDuration(rangeField.value)));
    const stepField = h("input", {type: "text", class: "short", "aria-label": "Resolution in seconds", placeholder: "Res. (s)", value: step || "", size: 7});
    stepField.addEventListener("change", () => this.change({step: parseDuration(stepField.value) || null}));
    return [
      h("span", {class: "group"},
        h("button", {type: "button", "aria-label": "Shorter range", onclick: () => set([...ranges].reverse().find((r) => r < range))}, "−"), rangeField,
        h("button", {type: "button", "aria-label": "Longer range", onclick: () => set(ranges.find((r) => r > range))}, "+")),
      this.timeField("End time", end, "End time: now", (value) => this.change({end: value}), () => range / 2),
      stepField,
      h("button", {type: "button", "aria-pressed": String(stacked), onclick: () => this.change({stacked: !stacked})}, "Stacked"),
    ];
  }

  async run() {
    if (this.abort) this.abort.abort();
    this.abort = new AbortController();
    if (!this.state.expr.trim()) {
      this.closeChart();
      replace(this.stats);
      this.result.classList.remove("busy");
      replace(this.result, empty("No data queried yet."));
      return;
    }
    const begun = performance.now(), {signal} = this.abort;
    this.result.classList.add("busy");
    try {
      await (this.state.graph ? this.runGraph(signal, begun) : this.runTable(signal, begun));
    } catch (error) {
      if (error.name === "AbortError") return;
      this.closeChart();
      replace(this.stats);
      replace(this.result, notice("error", h("b", null, error.type ? `Error: ${error.type}. ` : "Error: "), error.message));
    }
    if (!signal.aborted) this.result.classList.remove("busy");
  }

  notes({warnings, infos}) {
    return [(warnings || []).map((text) => notice("warning", "Warning: ", text)), (infos || []).map((text) => notice("info", "Info: ", text))];
  }

  showStats(begun, parts) {
    replace(this.stats, [`${Math.round(performance.now() - begun)} ms`, ...parts].join(" · "));
  }

  async runTable(signal, begun) {
    const body = await getAll("query", {query: this.state.expr, time: this.state.moment || Date.now() / 1000}, signal);
    this.closeChart();
    const {resultType, result} = body.data;
    const scalar = resultType === "scalar" || resultType === "string";
    const rows = scalar ? [{metric: null, value: result}] : result;
    this.showStats(begun, scalar ? [resultType] : [`${count(rows.length)} series`]);
    replace(this.result, this.notes(body), rows.length ? this.table(rows, scalar ? resultType : null) : empty("Empty query result."));
  }

  table(rows, scalar) {
    const cell = (row) => row.values
      ? h("td", {class: "value"}, row.values.map(([t, v]) => h("div", null, v, h("span", {class: "at"}, ` @${t}`))))
      : h("td", {class: "value"}, row.value[1]);
    const line = (row) => h("tr", null, h("td", null, scalar ? h("i", null, scalar) : seriesNode(row.metric)), cell(row));
    const body = h("tbody", null, rows.slice(0, rowsAtOnce).map(line));
    const box = h("div", {class: "scroll"}, h("table", {class: "values"}, body));
    if (rows.length <= rowsAtOnce) return box;
    const more = h("button", {type: "button", onclick: () => { append(body, rows.slice(rowsAtOnce).map(line)); more.remove(); }}, `Show all ${count(rows.length)} series`);
    return [box, more];
  }

  async runGraph(signal, begun) {
    if (!this.state.range) {
      const fit = rangeFor(await dataAge(), ranges.filter((r) => r >= leastAtFirst), mostAtFirst);
      this.state.range ||= fit;
      this.show();
    }
    const {range} = this.state, step = this.state.step || Math.max(Math.floor(range / pointsOfGraph), 1);
    const last = this.state.end || Date.now() / 1000, end = Math.floor(last / step) * step, start = end - Math.floor(range / step) * step;
    const body = await getAll("query_range", {query: this.state.expr, start, end, step}, signal);
    const all = body.data.result.map((s) => ({labels: s.metric, values: s.values || []})), series = all.slice(0, maxGraphSeries);
    this.showStats(begun, [`resolution ${duration(step)}`, `${count(all.length)} series`]);
    if (!series.length) {
      this.closeChart();
      replace(this.result, this.notes(body), empty("Empty query result."));
      return;
    }
    this.chart ||= new Chart((a, b) => {
      if (b - a >= 1) this.change({range: Math.max(Math.round(b - a), 1), end: Math.round(b)});
    });
    replace(this.result, this.notes(body), all.length > series.length &&
      notice("warning", `Showing the first ${count(series.length)} of ${count(all.length)} series. Aggregate the expression or use the table.`), this.chart.node);
    await this.chart.draw({series, start, end, step, stacked: this.state.stacked});
  }

  closeChart() {
    if (this.chart) this.chart.finish();
    this.chart = null;
  }

  finish() {
    if (this.abort) this.abort.abort();
    this.closeChart();
    this.node.remove();
  }
}
