// SPDX-License-Identifier: Apache-2.0
// All nodes, with their pools and the use of their GPUs.
import {badge, empty, h, table} from "./dom.js";
import {bar, missing, simulatedNote} from "./object.js";
import {nodePage, readGpus, readNodes} from "./overview-data.js";
import {filterBar, liveView} from "./view.js";

export const title = "Nodes";

function stateNode(n) {
  if (n.deleting) return badge("pending", "deleting");
  if (n.ready === undefined) return badge("unknown", "unknown");
  if (!n.ready) return badge("down", "not ready");
  return n.cordoned ? badge("pending", "cordoned") : badge("ok", "ready");
}

function row(n, gpus) {
  const live = gpus.filter((g) => g.state !== "missing"), utils = live.map((g) => g.values.GPU_UTIL).filter((v) => v !== undefined);
  const mean = utils.reduce((a, b) => a + b, 0) / utils.length, used = live.filter((g) => g.owners.size || g.shared).length;
  return [h("a", {href: nodePage(n.name), "data-key": "node " + n.name}, h("b", null, n.name)), stateNode(n), n.pool || "–", n.type || [...new Set(live.map((g) => g.model))].join(", ") || "–",
    live.length ? `${used} / ${live.length}` : n.gpus ? missing(`${n.gpus}, not measured`) : "–",
    utils.length ? h("span", {class: "gauge"}, bar(mean, 100), `${Math.round(mean)} %`) : "–"];
}

export function start(main) {
  const filter = filterBar([], "Search nodes, pools and types", () => redraw()), box = h("div");
  main.append(filter.node, box);
  const columns = [{name: "Node", class: "wide"}, "State", "Pool", "Type", "GPUs in use", "Utilization"];
  const redraw = liveView(box, async () => {
    const [{nodes, pools}, gpus] = await Promise.all([readNodes(), readGpus([""], () => [])]);
    return {nodes, pools, gpus};
  }, ({nodes, pools, gpus}) => {
    const known = new Map(nodes.map((n) => [n.name, n]));
    for (const g of gpus) if (g.node && !known.has(g.node) && g.state !== "missing") known.set(g.node, {name: g.node});
    const shown = [...known.values()].filter((n) => filter.matches(n.name, n.pool || "", n.type || ""));
    return [gpus.some((g) => g.simulated) && simulatedNote(),
      h("section", {class: "group-box"}, h("h2", null, "Nodes", pools.map((p) => h("span", {class: "file"}, `pool ${p.name}: ${p.ready_nodes ?? 0} ready${p.coming_nodes ? `, ${p.coming_nodes} coming` : ""}`))),
        known.size ? table(columns, shown.map((n) => row(n, gpus.filter((g) => g.node === n.name)))) : empty("No nodes. The series kube_node_* come from gpuscale up, from an engine with --kube-state, or from kube-state-metrics."))];
  });
}
