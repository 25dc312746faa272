// SPDX-License-Identifier: Apache-2.0
// The header of every page, and the choice of the page by its address.
import {h} from "./dom.js";
import {localTime, setLocalTime} from "./format.js";
import {onConnection} from "./live.js";

// path, text, module
const pages = [
  ["", "Overview", "page-overview"], ["workloads", "Workloads", "page-workloads"], ["gpus", "GPUs", "page-gpus"], ["nodes", "Nodes", "page-nodes"],
  ["inference", "Inference", "page-inference"], ["query", "Query", "page-query"], ["dashboards", "Dashboards", "page-dashboards"], ["report", "Report", "page-report"],
];
// Those that a Prometheus has, too.
const prometheus = [
  ["alerts", "Alerts", "page-alerts"], ["rules", "Rules", "page-rules"], ["targets", "Targets", "page-targets"],
  ["service-discovery", "Service discovery", "page-discovery"], ["alertmanager-discovery", "Alertmanagers", "page-status"],
  ["config", "Configuration", "page-status"], ["flags", "Flags", "page-status"], ["status", "Status", "page-status"], ["tsdb-status", "TSDB", "page-status"],
];
// Pages of one object, which other pages link to; the last member is the page above.
const details = [["workload", "Workload", "page-workload", "workloads"], ["gpu", "GPU", "page-gpu", "gpus"], ["node", "Node", "page-node", "nodes"],
  ["dashboard", "Dashboard", "page-dashboard", "dashboards"], ["adapter", "Metrics adapter", "page-adapter"]];

const last = location.pathname.split("/").pop(), name = last === "graph" ? "query" : last;
// The adapter serves its page alone.
const only = document.documentElement.dataset.page;
const page = [...pages, ...prometheus, ...details].find(([path]) => path === (only || name)) || pages[0];

const link = ([path, text]) => h("a", {href: path || "./", "aria-current": path === page[0] ? "page" : path === page[3] ? "true" : null}, text);

// Closed by Escape, and by a click elsewhere.
function menu(text, items) {
  const current = items.some(([path]) => path === page[0]);
  const node = h("details", {class: "menu", onkeydown: (event) => {
    if (event.key !== "Escape") return;
    node.open = false;
    node.querySelector("summary").focus();
  }}, h("summary", {"aria-current": current ? "true" : null}, text), h("div", {class: "menu-items"}, items.map(link)));
  document.addEventListener("click", (event) => { if (!node.contains(event.target)) node.open = false; });
  return node;
}

const state = h("span", {class: "connection", role: "status"}, "");
onConnection((kind) => {
  state.className = "connection " + kind;
  state.textContent = kind === "live" ? "live" : "reconnecting";
});

const zone = h("button", {type: "button", class: "zone", title: "Time zone of all times", onclick: () => { setLocalTime(!localTime()); location.reload(); }},
  localTime() ? "Local time" : "UTC");
const main = h("main", {id: "main", tabindex: "-1"});
document.body.append(
  h("a", {class: "skip", href: "#main"}, "Skip to the content"),
  h("header", null, h("a", {class: "brand", href: "./"}, h("img", {src: new URL("icon.svg", import.meta.url).href, alt: "", width: 20, height: 20}), "gpuscale"),
    h("nav", {"aria-label": "Pages"}, only ? null : [h("div", {class: "pages"}, pages.map(link)), menu("Prometheus", prometheus)]),
    h("span", {class: "tools"}, state, zone)),
  main);
document.querySelector("nav [aria-current]")?.scrollIntoView({block: "nearest", inline: "center"});

const {start, title} = await import(`./${page[2]}.js`);
document.title = `${title} – gpuscale`;
main.append(h("h1", null, title));
start(main);
document.body.dataset.ready = "true";
