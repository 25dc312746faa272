// SPDX-License-Identifier: Apache-2.0
// All autoscalers, with links to their pages.
import {h, table} from "./dom.js";
import {readHpas, workloadPage} from "./overview-data.js";
import {filterBar, liveView} from "./view.js";
import {noWorkloads, workloadCells, workloadColumns} from "./workload-row.js";

export const title = "Workloads";

export function start(main) {
  const filter = filterBar([], "Search autoscalers, namespaces, targets and metrics", () => redraw()), box = h("div");
  main.append(filter.node, box);
  const columns = [{name: "Autoscaler", class: "wide"}, "Namespace", "Target", ...workloadColumns];
  const redraw = liveView(box, readHpas, (hpas) => {
    const shown = hpas.filter((a) => filter.matches(a.name, a.ns, a.target || "", a.metrics.map((m) => m.name).join(" ")));
    return h("section", {class: "group-box"}, hpas.length ? table(columns, shown.map((a) => [
      h("a", {href: workloadPage(a), "data-key": "workload " + a.key}, h("b", null, a.name)), a.ns, a.target || "–", ...workloadCells(a)])) : noWorkloads());
  });
}
