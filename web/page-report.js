// SPDX-License-Identifier: Apache-2.0
// Who uses GPUs: the hours of the ledger by state, their costs, and the GPUs that are idle now.
import {get} from "./api.js";
import {empty, h, table} from "./dom.js";
import {age, instant, time} from "./format.js";
import {section} from "./object.js";
import {gpuPage, nodePage} from "./overview-data.js";
import {liveView} from "./view.js";

export const title = "Who uses GPUs";

const states = {busy: "Busy", idle: "Idle", free: "Free", stranded: "Stranded", missing: "Missing"};
const meaning = {
  busy: "utilization of at least 1 %", idle: "allocated to a pod and not used", free: "not allocated",
  stranded: "not allocated, and no workload with GPUs fits on the node", missing: "no data",
};
const ranges = [["1d", "1 day"], ["7d", "7 days"], ["30d", "30 days"], ["90d", "90 days"], ["400d", "400 days"]];
const groups = [["namespace,workload", "Workload"], ["namespace", "Namespace"], ["owner", "Owner"], ["node", "Node"], ["pool", "Pool"], ["model", "Model"],
  ["confidence", "Confidence"], ["day", "Day"]];
const day = 86400;

const hours = (v) => Number(v).toLocaleString("en-US", {minimumFractionDigits: 2, maximumFractionDigits: 2});
const cost = (row, key) => row[key] === undefined ? "–" : hours(row[key]);
const names = {namespace: "Namespace", workload: "Workload", owner: "Owner", node: "Node", pool: "Pool", model: "Model", confidence: "Confidence", day: "Day"};

// The width of a part is its share of the hours. Styles in attributes are not allowed, so it is an SVG.
function bar(row) {
  const ns = "http://www.w3.org/2000/svg", svg = document.createElementNS(ns, "svg");
  let x = 0;
  svg.setAttribute("class", "hours");
  svg.setAttribute("viewBox", "0 0 100 10");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", Object.keys(states).map((s) => `${states[s]} ${hours(row[s])} hours`).join(", "));
  for (const state of Object.keys(states)) {
    const part = row.hours > 0 ? row[state] / row.hours * 100 : 0;
    const rect = document.createElementNS(ns, "rect");
    for (const [name, value] of Object.entries({x, y: 0, width: part, height: 10, class: "state-" + state})) rect.setAttribute(name, value);
    svg.append(rect);
    x += part;
  }
  return svg;
}

const number = (name) => ({name, class: "number"});

// The text of the property by[i]. GPUs without a pod have neither a namespace nor a workload.
const ofPods = (key) => key === "namespace" || key === "workload";
function textOf(row, by, i) {
  if (row[by[i]]) return row[by[i]];
  if (!ofPods(by[i]) || row.allocated > 0) return "–";
  return by.findIndex(ofPods) === i ? "(not allocated)" : "";
}

function reportTable(data) {
  const priced = data.total.cost !== undefined, saved = data.total.saved !== undefined, unit = data.currency ? ` (${data.currency})` : "";
  // A property without a text in any row is no column.
  const by = data.by.filter((key, i) => i === 0 || data.rows.some((row) => !["–", ""].includes(textOf(row, data.by, i))));
  const columns = [...by.map((key) => ({name: names[key] || key})), {name: "Share", class: "share"}, number("GPU hours"), number("Allocated"),
    ...Object.values(states).map(number), ...(priced ? [number("Cost" + unit), number("Idle cost" + unit)] : []), ...(saved ? [number("Saved"), ...(priced ? [number("Saved cost")] : [])] : [])];
  const cells = (row, texts) => [...texts, bar(row), hours(row.hours), hours(row.allocated), ...Object.keys(states).map((s) => hours(row[s])),
    ...(priced ? [cost(row, "cost"), cost(row, "idleCost")] : []), ...(saved ? [cost(row, "saved"), ...(priced ? [cost(row, "savedCost")] : [])] : [])];
  const rows = data.rows.slice(0, 500).map((row) => cells(row, by.map((key) => key === "node" && row[key] ? h("a", {href: nodePage(row[key])}, row[key]) : textOf(row, data.by, data.by.indexOf(key)))));
  rows.push({class: "total", cells: cells(data.total, by.map((_, i) => i ? "" : "Total"))});
  return [table(columns, rows, {class: "report"}), data.rows.length > 500 && h("p", {class: "empty"}, `${data.rows.length - 500} more rows: use gpuscale report.`),
    priced && data.total.withoutPrice > 0.005 && h("p", {class: "empty"}, `${hours(data.total.withoutPrice)} GPU hours have no price.`)];
}

function idleTable(data) {
  if (!data.idle.length) return empty("No allocated GPU has been idle for 10 minutes.");
  const priced = data.idle.some((g) => g.cost !== undefined);
  return table(["Pod", "Workload", "GPU", "Node", number("Idle for"), "Since", ...(priced ? [number("Cost so far")] : [])], data.idle.slice(0, 200).map((g) => [
    `${g.namespace}/${g.pod}`, g.workload, h("a", {href: gpuPage(g.UUID)}, `${g.gpu} ${g.model}`), h("a", {href: nodePage(g.node)}, g.node),
    age(g.seconds), time(instant(g.since)), ...(priced ? [g.cost === undefined ? "–" : `${hours(g.cost)} ${data.currency || ""}`] : [])]));
}

export function start(main) {
  const asked = new URLSearchParams(location.search);
  const chosen = (name, options, usual) => options.some(([value]) => value === asked.get(name)) ? asked.get(name) : usual;
  const since = chosen("since", ranges, "7d"), by = chosen("by", groups, "namespace,workload");
  const pick = (name, options, value, label) => h("label", null, label, " ", h("select", {name, onchange: (event) => {
    location.search = new URLSearchParams({since, by, [name]: event.currentTarget.value});
  }}, options.map(([v, text]) => h("option", {value: v, selected: v === value}, text))));
  main.append(h("p", {class: "controls"}, pick("since", ranges, since, "Last"), " ", pick("by", groups, by, "by")));
  const load = () => get("gpuscale/report", {since: (Date.now() / 1000 - parseInt(since, 10) * day).toFixed(0), by, idle: "10m"});
  liveView(main, load, (data) => [
    section("Idle now", idleTable(data)),
    section("GPU hours", data.rows.length ? reportTable(data) : empty("No GPU was observed yet."),
      h("ul", {class: "states"}, Object.entries(states).map(([s, text]) => h("li", {class: "state-" + s}, h("b", null, text), ": ", meaning[s])),
        data.total.saved !== undefined && h("li", null, h("b", null, "Saved"), ": one replica of a workload that an autoscaler kept at zero")))], 30000);
}
