// SPDX-License-Identifier: Apache-2.0
// Runtime information, flags, configuration, statistics of the store, Alertmanagers.
import {get} from "./api.js";
import {empty, h, table} from "./dom.js";
import {ago, count, time} from "./format.js";
import {urlNode} from "./page-targets.js";
import {filterBar, liveView} from "./view.js";

const facts = (rows) => table(["Name", {name: "Value", class: "wide"}], rows.map(([name, value]) => [name, h("span", {class: "mono"}, value)]), {class: "facts-table"});
const section = (name, ...children) => h("section", {class: "group-box"}, h("h2", null, name), children);

const pages = {
  status: {
    title: "Status",
    load: async () => { const [runtime, build] = await Promise.all([get("status/runtimeinfo"), get("status/buildinfo")]); return {runtime, build}; },
    render: ({runtime, build}) => [
      section("Runtime", facts([["Started", `${time(Date.parse(runtime.startTime) / 1000)} (${ago(runtime.startTime)})`], ["Host", runtime.hostname],
        ["Working directory", runtime.CWD], ["Configuration", `${runtime.reloadConfigSuccess ? "loaded" : "the last reload failed"}, last loaded ${ago(runtime.lastConfigTime)}`],
        ["Corrupt records of the log", count(runtime.corruptionCount)], ["Retention", runtime.storageRetention]])),
      section("Other pages", h("p", {class: "empty"}, h("a", {href: "adapter"}, "Metrics adapter"), ": metrics APIs, rules and their ages, in gpuscale up")),
      section("Build", facts([["Revision", build.revision], ["Version of the Prometheus API", build.version]])),
    ],
  },
  flags: {
    title: "Flags", search: "Filter by name or value",
    load: () => get("status/flags"),
    render: (data, bar) => {
      const rows = Object.entries(data).filter(([name, value]) => bar.matches(name, value)).map(([name, value]) => [`--${name}`, value]);
      return rows.length ? facts(rows) : empty(Object.keys(data).length ? "No flag matches the filter." : "This engine runs inside another command, without flags of its own.");
    },
  },
  config: {
    title: "Configuration",
    load: () => get("status/config"),
    render: ({yaml}) => [
      // Only where the browser allows it: on this host, or by HTTPS.
      navigator.clipboard && h("button", {type: "button", onclick: async (event) => { const b = event.currentTarget; await navigator.clipboard.writeText(yaml); b.textContent = "Copied"; }}, "Copy"),
      h("pre", {class: "config", tabindex: "0"}, yaml || "# empty")],
  },
  "tsdb-status": {
    title: "TSDB status",
    load: () => get("status/tsdb", {limit: 20}),
    render: (data) => {
      const head = data.headStats || {};
      const list = (name, rows, unit) => section(name, rows && rows.length ? table(["Name", {name: unit, class: "number"}],
        rows.map((r) => [h("span", {class: "mono"}, r.name), count(r.value)])) : empty("Nothing."));
      return [
        section("Head", facts([["Series", count(head.numSeries)], ["Chunks", count(head.chunkCount)], ["Label pairs", count(head.numLabelPairs)],
          ["Oldest sample", head.minTime > 0 ? time(head.minTime / 1000) : "none"], ["Newest sample", head.maxTime > 0 ? time(head.maxTime / 1000) : "none"]])),
        h("div", {class: "columns"}, list("Metric names with the most series", data.seriesCountByMetricName, "Series"),
          list("Label names with the most values", data.labelValueCountByLabelName, "Values"),
          list("Label names with the most memory", data.memoryInBytesByLabelName, "Bytes"),
          list("Label pairs with the most series", data.seriesCountByLabelValuePair, "Series"))];
    },
  },
  "alertmanager-discovery": {
    title: "Alertmanagers",
    load: () => get("alertmanagers"),
    render: (data) => {
      const list = (name, all) => section(name, all.length ? table([{name: "Address", class: "wide"}], all.map((a) => [urlNode(a.url)])) : empty("None."));
      return [list("Active", data.activeAlertmanagers), list("Dropped", data.droppedAlertmanagers)];
    },
  },
};

const name = location.pathname.split("/").pop(), page = pages[name];
export const title = page.title;

export function start(main) {
  const bar = page.search && filterBar([], page.search, () => redraw());
  if (bar) main.append(bar.node);
  const redraw = liveView(main, page.load, (data) => page.render(data, bar), 5000);
}
