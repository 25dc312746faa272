// SPDX-License-Identifier: Apache-2.0
// All GPUs by node.
import {empty, h} from "./dom.js";
import {count} from "./format.js";
import {gpuTable, simulatedNote} from "./object.js";
import {nodePage, readGpus} from "./overview-data.js";
import {filterBar, liveView} from "./view.js";

export const title = "GPUs";

const atOnce = 512;
const stateOf = (g) => g.state !== "ok" ? "pending" : g.owners.size || g.shared ? "ok" : "unknown";

export function start(main) {
  const filter = filterBar([{value: "ok", text: "in use"}, {value: "unknown", text: "free"}, {value: "pending", text: "no new data"}], "Search GPUs, nodes, models and pods", () => redraw());
  const box = h("div");
  main.append(filter.node, box);
  const redraw = liveView(box, () => readGpus(), (gpus) => {
    for (const state of ["ok", "unknown", "pending"]) filter.countIs(state, gpus.filter((g) => stateOf(g) === state).length);
    const found = gpus.filter((g) => filter.has(stateOf(g)) && filter.matches(g.uuid, g.node, g.model, g.slice, ...g.owners)), shown = found.slice(0, atOnce);
    const nodes = [...new Set(shown.map((g) => g.node))];
    if (!gpus.length) return empty("No GPU metrics. Scrape a gpuscale exporter or a dcgm-exporter: see ", h("a", {href: "targets"}, "the targets"), ".");
    return [gpus.some((g) => g.simulated) && simulatedNote(),
      nodes.map((node) => h("section", {class: "group-box"}, h("h2", null, node ? h("a", {href: nodePage(node), "data-key": "node " + node}, node) : "No node"), gpuTable(shown.filter((g) => g.node === node)))),
      !found.length && empty("No GPU matches."), found.length > shown.length && h("p", {class: "muted"}, `and ${count(found.length - shown.length)} more GPUs: search to see them`)];
  });
}
