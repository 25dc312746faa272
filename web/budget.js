// SPDX-License-Identifier: Apache-2.0
// What GPU budgets allow a workload: its share, who has the GPUs, and which replicas were moved.
import {badge, h, table} from "./dom.js";
import {duration} from "./format.js";
import {bar} from "./object.js";

const documentation = "https://github.com/gpuscale/gpuscale/blob/main/docs/budgets.md";
const link = (name) => {
  const [namespace, object] = name.split("/");
  return h("a", {href: `workload?${new URLSearchParams({namespace, name: object})}`}, name);
};

const number = (name) => ({name, class: "number"});
const memberTable = (b, self) => table([{name: "Autoscaler", class: "wide"}, number("Priority"), number("GPUs"), number("Replicas"), number("Wanted"), number("Share")],
  b.members.map((m) => [m.name === self ? h("b", null, m.name) : link(m.name), String(m.priority), String(m.gpus), String(m.replicas), String(m.demand), String(m.share)]), {class: "budget-members"});

const move = (m) => h("li", null, `${duration(m.ageMs / 1000)} ago: ${m.replicas} replica${m.replicas === 1 ? "" : "s"} from ${m.from} to ${m.to}`);

function budgetBox(b, budget, self) {
  return h("section", {class: "group-box gpu-budget"},
    h("h2", null, "GPU budget", h("code", {class: "file"}, b.name), budget.mode !== "enforce" && badge("pending", "dry run: nothing is limited"), h("a", {class: "file", href: documentation}, "how it divides")),
    h("div", {class: "metric-facts"}, h("div", {class: "metric-big"}, h("b", null, `${b.used} of ${b.gpus} GPUs`), h("span", {class: "muted"}, " are used or promised")),
      b.gpus > 0 && bar(b.used, Math.max(b.gpus, b.used), b.gpus, "wide-bar" + (b.used > b.gpus ? " over" : "")), h("p", {class: "why"}, b.text)),
    memberTable(b, self), b.others > 0 && h("p", {class: "muted"}, `Pods without an autoscaler have ${b.others} GPUs.`),
    b.moves.length > 0 && h("ul", null, b.moves.map(move)));
}

const errorBox = (text) => h("section", {class: "group-box gpu-budget"}, h("h2", null, "GPU budgets"), h("p", {class: "why"}, `The newest budgets are not used: ${text}`));

// budget: the member "budget" of an explanation. self: "namespace/name" of the autoscaler.
export const gpuBudgets = (budget, self) => [...(budget.error ? [errorBox(budget.error)] : []), ...budget.budgets.map((b) => budgetBox(b, budget, self))];
