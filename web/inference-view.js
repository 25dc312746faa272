// SPDX-License-Identifier: Apache-2.0
// The signals of inference engines as a table: one row per workload and model.
import {badge, empty, h, table} from "./dom.js";
import {count, short} from "./format.js";
import {bar} from "./object.js";
import {workloadPage} from "./overview-data.js";
import {withUnit} from "./units.js";

const searchingAtOnce = 50, documentation = "https://github.com/gpuscale/gpuscale/blob/main/docs/inference.md";
const number = (name, title) => ({name, title, class: "number"});

function cell(r, quantity, text) {
  const value = r.values[quantity], n = r.of[quantity];
  if (value === undefined) return h("span", {class: "missing", title: `Absent: ${r.reasons[quantity] || "no pod of the workload has it now"}.`}, "absent");
  return [text(value), n < r.pods.length && quantity !== "sleeping" && h("div", {class: "muted"}, `of ${n} of ${r.pods.length} pods`)];
}

const seconds = (v) => withUnit(Number(v.toPrecision(3)), "s");

function nameCell(r) {
  const name = h("b", null, r.name), sleeping = r.values.sleeping;
  return [r.hpa ? h("a", {href: workloadPage(r.hpa), "data-key": "inference " + r.key}, name) : name, h("span", {class: "muted"}, ` ${r.ns}`),
    r.simulated && [" ", badge("pending", "SIMULATED")], sleeping > 0 && [" ", badge("inactive", sleeping < r.pods.length ? `${sleeping} of ${r.pods.length} asleep` : "asleep")]];
}

const columns = [
  {name: "Workload", class: "wide"}, "Engine", {name: "Model", class: "wide"}, number("Pods", "Pods with signals of an engine"), number("Waiting", "Requests in the queues of all pods"), number("Running", "Requests that are processed"),
  {name: "KV cache used", class: "kv"}, number("TTFT p90", "Time to first token: 90th percentile of the last 30 seconds, of the slowest pod"), number("ITL p90", "Time between tokens: 90th percentile of the last 30 seconds, of the slowest pod"),
  number("Tokens/s", "Generated tokens of the last minute"), number("Preempted", "Requests that lost their KV cache, in the last five minutes"), number("Rejected", "Requests that were refused, in the last five minutes"),
];

export const inferenceTable = (rows) => table(columns, rows.map((r) => [
  nameCell(r), [r.engine || "–", r.role && h("div", {class: "muted"}, r.role)], r.model || "–", String(r.pods.length), cell(r, "waiting", short), cell(r, "running", short),
  cell(r, "kv_used_ratio", (v) => h("span", {class: "gauge", title: r.values.kv_capacity_tokens === undefined ? null : `of ${count(r.values.kv_capacity_tokens)} tokens; the pod with the highest use`}, bar(v, 1, NaN, v > 0.9 ? "over" : ""), `${Math.round(100 * v)} %`)),
  cell(r, "ttft_p90_seconds", seconds), cell(r, "itl_p90_seconds", seconds),
  cell(r, "generation_tokens", short), cell(r, "preemptions", (v) => short(Math.round(v))), cell(r, "rejections", (v) => short(Math.round(v)))]), {class: "inference"});

export const simulatedEngines = () => h("p", {class: "simulated"}, h("b", null, "SIMULATED"), " Rows with this label are of pods on simulated GPUs, or of a simulated engine. Their values come from no real hardware.");

// Pods that own a GPU, or have the annotation, and where no engine was recognized: why.
export const searchingTable = (pods) => h("section", {class: "group-box"}, h("h2", null, "Pods without a recognized engine"), table(["Pod", "Namespace", {name: "Reason", class: "wide"}],
  pods.slice(0, searchingAtOnce).map((p) => [p.pod, p.namespace, p.reason || "No page was found yet."])), pods.length > searchingAtOnce && h("p", {class: "muted more"}, `and ${count(pods.length - searchingAtOnce)} more pods`));

export const noInference = () => empty("No signals of inference engines (gpuscale_inference_*). gpuscale reads the metrics of vLLM, SGLang and other engines in pods that own a GPU. " +
  "For other pods, set the annotation ", h("code", null, "gpuscale.dev/inference: vllm:8000/metrics"), " (", h("a", {href: documentation}, "documentation"), "). What is scraped, and errors, are in ", h("a", {href: "targets"}, "the targets"), ".");
