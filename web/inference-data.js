// SPDX-License-Identifier: Apache-2.0
// What inference engines such as vLLM report, by workload, from the series gpuscale_inference_*. A quantity that no pod of a
// workload reports is absent.
import {get} from "./api.js";
import {group, instant, quote, seldom} from "./overview-data.js";

const window = "1m", eventWindow = "5m"; // of rates; of rare events
const gauges = "waiting|running|kv_used_ratio|kv_capacity_tokens|ttft_p90_seconds|itl_p90_seconds|sleeping";
const by = "namespace, pod, model, engine, role";

// Each quantity: how the values of the pods of a workload become one.
const sum = (values) => values.reduce((a, b) => a + b, 0), most = (values) => Math.max(...values);
const joins = {waiting: sum, running: sum, kv_used_ratio: most, kv_capacity_tokens: sum, ttft_p90_seconds: most, itl_p90_seconds: most, sleeping: sum,
  generation_tokens: sum, prompt_tokens: sum, preemptions: sum, rejections: sum};

const rate = (name, matchers, over, fn = "rate") => `sum by (${by}) (${fn}(gpuscale_inference_${name}_total{${matchers}}[${over}]))`;

// "ReplicaSet" and "api-5d4f8c" => "api". Without an owner, from the name of the pod.
export function workloadOf(pod, owner) {
  if (!owner || !owner.created_by_name) return pod.replace(/-[a-z0-9]{6,10}-[a-z0-9]{5}$|-\d+$/, "");
  return owner.created_by_kind === "ReplicaSet" ? owner.created_by_name.replace(/-[a-z0-9]{1,10}$/, "") : owner.created_by_name;
}

const pagesMs = 10000, counters = ["generation_tokens", "prompt_tokens", "preemptions", "rejections"];
let pages = null;

// What the pages of the engines have: {engines, pods}. Read again after some seconds; other servers do not have the path.
async function readPages() {
  if (!pages || Date.now() - pages.at >= pagesMs)
    pages = {at: Date.now(), found: get("gpuscale/inference").catch(() => { pages.at = Infinity; return {engines: [], pods: []}; })};
  return pages.found;
}

// Why quantities of a row are absent, by quantity.
function reasonsOf(row, engines) {
  const reasons = {};
  for (const e of engines) {
    if (e.namespace !== row.ns || !row.pods.has(e.pod)) continue;
    for (const m of e.models || []) {
      if ((m.model || "") !== row.model || (m.role || "") !== row.role) continue;
      for (const [name, q] of Object.entries(m.quantities || {})) if (q.absent) reasons[name.replace(/_total$/, "")] ||= q.absent;
    }
  }
  return reasons;
}

// Pods that may have an engine, and have none that was recognized: [{namespace, pod, reason}].
export const readSearching = async () => (await readPages()).pods.filter((p) => p.state === "searching");

// [{ns, name, model, engine, role, pods, values: {waiting: …}, of: {waiting: number of pods}, reasons, hpa, simulated}]. ns and name: of one
// workload only; without them, of all.
export async function readInference(ns, name) {
  const matchers = ns ? `namespace=${quote(ns)}` : "";
  const [now, generated, prompted, preempted, rejected, infos, hpas, simulated] = await Promise.all([
    instant(`{__name__=~"gpuscale_inference_(${gauges})"${matchers && ", " + matchers}}`),
    instant(rate("generation_tokens", matchers, window)), instant(rate("prompt_tokens", matchers, window)),
    instant(rate("preemptions", matchers, eventWindow, "increase")), instant(rate("rejections", matchers, eventWindow, "increase")),
    seldom(`kube_pod_info{${matchers}}`), seldom(`kube_horizontalpodautoscaler_info{${matchers}}`),
    seldom('DCGM_FI_DEV_FB_USED{DCGM_FI_DRIVER_VERSION=~".+-simulated"} or DCGM_FI_DEV_FB_USED{DriverVersion=~".+-simulated"}')]);
  const podKey = (l) => `${l.namespace}/${l.pod}`, owners = new Map(infos.map((s) => [podKey(s.labels), s.labels]));
  const onSimulated = new Set(simulated.map(({labels: l}) => `${l.exported_namespace || l.namespace}/${l.exported_pod || l.pod}`));
  const rows = new Map();
  const add = (quantity, {labels: l, value}) => {
    if (!l.pod || !Number.isFinite(value)) return;
    const workload = workloadOf(l.pod, owners.get(podKey(l))), key = JSON.stringify([l.namespace, workload, l.model, l.engine, l.role]);
    const row = group(rows, key, () => ({key, ns: l.namespace || "", name: workload, model: l.model || "", engine: l.engine || "", role: l.role || "", pods: new Set(), found: {}, simulated: false}));
    row.pods.add(l.pod);
    row.simulated ||= onSimulated.has(podKey(l)) || l.simulated === "true";
    (row.found[quantity] ||= []).push(value);
  };
  for (const s of now) add(s.labels.__name__.slice("gpuscale_inference_".length), s);
  [generated, prompted, preempted, rejected].forEach((found, i) => found.forEach((s) => add(counters[i], s)));
  const {engines} = rows.size ? await readPages() : {engines: []};
  const targets = new Map(hpas.map(({labels: l}) => [`${l.namespace}/${l.scaletargetref_name}`, {ns: l.namespace, name: l.horizontalpodautoscaler}]));
  return [...rows.values()].filter((r) => !name || r.name === name).map(({found, pods, ...r}) => ({...r, pods: [...pods].sort(), reasons: reasonsOf({...r, pods}, engines), hpa: targets.get(`${r.ns}/${r.name}`),
    values: Object.fromEntries(Object.entries(found).map(([q, v]) => [q, joins[q](v)])), of: Object.fromEntries(Object.entries(found).map(([q, v]) => [q, v.length]))}))
    .sort((a, b) => a.key < b.key ? -1 : 1);
}
