// SPDX-License-Identifier: Apache-2.0
// An autoscaler as a row of a table: replicas, metrics with their targets, state, last change.
import {badge, empty, h} from "./dom.js";
import {age, short} from "./format.js";
import {bar, missing} from "./object.js";

export const workloadColumns = ["Replicas", {name: "Metric / target", class: "metric-cell"}, "State"];

// A long name is broken after an underscore.
const breakable = (name) => name.split(/(?<=_)/).map((part) => [part, h("wbr")]);

function metricNode(m) {
  const end = Math.max(m.target || 0, m.current || 0) * 1.25 || 1;
  return h("div", {class: "metric-row"}, h("span", {class: "metric-name"}, breakable(m.name)), bar(m.current, end, m.target, m.current > m.target * 1.1 ? "over" : ""),
    m.current === undefined ? missing() : h("span", {class: "metric-numbers"}, h("b", null, short(m.current)), ` / ${short(m.target)}`));
}

function stateNode(a) {
  if (a.conditions.ScalingActive === "false") return badge("down", "no metric");
  if (a.conditions.AbleToScale === "false") return badge("down", "cannot scale");
  if (a.desired !== undefined && a.desired !== a.current) return badge("pending", "scaling");
  if (a.conditions.ScalingLimited === "true") return a.desired === a.min ? badge("unknown", "at minimum") : badge("pending", a.desired === a.max ? "at maximum" : "limited");
  return a.conditions.ScalingActive === "true" ? badge("ok", "steady") : badge("unknown", "unknown");
}

export const workloadCells = (a) => [
  h("span", {class: "replicas"}, h("b", null, a.current ?? "–"), a.desired !== undefined && a.desired !== a.current && ` → ${a.desired}`, h("span", {class: "muted"}, ` of ${a.min ?? 1}–${a.max ?? "?"}`)),
  a.metrics.length ? a.metrics.map(metricNode) : missing("no metrics"),
  [stateNode(a), a.change && h("div", {class: "change muted"}, `${a.change.from} → ${a.change.to}, ${age(Date.now() / 1000 - a.change.t)} ago`)]];

export const noWorkloads = () => empty("No autoscalers. The series kube_horizontalpodautoscaler_* come from gpuscale up, from an engine with --kube-state, or from kube-state-metrics.");
