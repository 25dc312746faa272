// SPDX-License-Identifier: Apache-2.0
// The state of nodes, GPUs, autoscalers and pods, from the series of the GPU exporter (DCGM_FI_*), of kube-state-metrics
// or the engine (kube_*), and of gpuscale. What no series states is absent.
import {get} from "./api.js";
import {nodeOf, ownerOf, targetQueries, targetsFrom} from "./gpu-owner.js";
import {number, parseDuration} from "./format.js";

const slowMs = 10000, goneWindow = "15m", changeStep = 15; // seconds
const leastStale = 30, usualInterval = 60, usualTimeout = 10, targetsMs = 60000; // seconds, except the last
const slow = new Map();

// [{labels, value}] of an instant query.
export async function instant(query) {
  const {result} = await get("query", {query, time: Date.now() / 1000});
  return result.map((s) => ({labels: s.metric, value: number(s.value[1])}));
}

// The same, read again after ten seconds only.
export async function seldom(query) {
  const known = slow.get(query);
  if (known && Date.now() - known.at < slowMs) return known.value;
  const value = await instant(query);
  slow.set(query, {at: Date.now(), value});
  return value;
}

// Series that ended within a day, the newest first. times: an expression of timestamps.
export async function lastSamples(times) {
  const found = await seldom(`max_over_time(${times}[15m:5s]) or max_over_time(${times}[1d:1m])`);
  return found.sort((a, b) => b.value - a.value);
}

// Names inside a regular expression.
export const escaped = (text) => text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
export const quote = (text) => JSON.stringify(text);
export const group = (map, key, make) => { if (!map.has(key)) map.set(key, make()); return map.get(key); };

// --- GPUs ---

// The pages of a GPU, a node and an autoscaler.
export const gpuPage = (uuid) => uuid ? "gpu?uuid=" + encodeURIComponent(uuid) : null;
export const nodePage = (name) => name ? "node?name=" + encodeURIComponent(name) : null;
export const workloadPage = (a) => `workload?${new URLSearchParams({namespace: a.ns, name: a.name})}`;
export const queryPage = (expr, range = "1h") => `query?g0.expr=${encodeURIComponent(expr)}&g0.tab=graph&g0.range_input=${range}`;

// The pods that are scraped: labels of a series => {namespace, pod, node} or undefined.
export async function readGpuTargets() {
  const [ups, infos] = await Promise.all(targetQueries.map(seldom));
  return targetsFrom(ups.map((s) => s.labels), infos.map((s) => s.labels));
}

const gpuKey = (l) => [l.UUID || nodeOf(l) + l.gpu, l.GPU_I_ID || ""].join(" "); // without the target: only equality matters

// Whether a sample of the target of these labels is so old that two scrapes are overdue: {labels, age} => boolean. Samples of
// no known target, such as those of remote write, have Prometheus' default interval.
export async function readStale(oldest) {
  if (!(oldest > leastStale)) return () => false;
  let known = slow.get(readStale);
  if (!known || Date.now() - known.at >= targetsMs) {
    const limits = new Map();
    try {
      for (const t of (await get("targets", {state: "active"})).activeTargets) {
        const limit = 2 * parseDuration(t.scrapeInterval || "") + parseDuration(t.scrapeTimeout || "");
        if (limit > 0) for (const key of [`${t.labels.job} ${t.labels.instance}`, t.labels.job]) limits.set(key, Math.max(limit, limits.get(key) || 0));
      }
    } catch {
      // The usual intervals.
    }
    slow.set(readStale, known = {at: Date.now(), limits});
  }
  return (l, seconds) => seconds > Math.max(leastStale, known.limits.get(`${l.job} ${l.instance}`) ?? known.limits.get(l.job) ?? 2 * usualInterval + usualTimeout);
}

function newGpu(l, target) {
  return {key: gpuKey(l), uuid: l.UUID || "", index: l.gpu || "", slice: l.GPU_I_PROFILE || "", model: (l.modelName || "").replace(/^NVIDIA /, ""), node: nodeOf(l, target),
    simulated: simulatedDriver(l), owners: new Set(), values: {}, age: NaN};
}

// What identifies a GPU and its pods. Other labels would only make the answer longer.
const identity = ["UUID", "gpu", "job", "instance", "GPU_I_ID", "GPU_I_PROFILE", "modelName", "NodeName", "Hostname", "hostname", "node", "kubernetes_node", "pod", "namespace", "exported_pod", "exported_namespace", "pod_name", "pod_namespace", "DCGM_FI_DRIVER_VERSION"].join(", ");
const anyOf = (where, make) => where.map(make).join(" or ");

// Adds memory, temperature and power to GPUs.
export async function readDetails(gpus, where = [""]) {
  const byKey = new Map(gpus.map((g) => [g.key, g])), some = gpus.every((g) => g.uuid);
  const only = some && gpus.length <= 64 ? [`UUID=~${quote([...new Set(gpus.map((g) => escaped(g.uuid)))].join("|"))}`] : where;
  for (const {labels, value} of await instant(`max by (__name__, UUID, gpu, GPU_I_ID, NodeName, Hostname, hostname, node, kubernetes_node, instance) (${anyOf(only, (m) => `{__name__=~"DCGM_FI_DEV_(FB_USED|FB_FREE|GPU_TEMP|POWER_USAGE)"${m && ", " + m}}`)})`)) {
    const g = byKey.get(gpuKey(labels));
    if (g) g.values[labels.__name__.slice("DCGM_FI_DEV_".length)] = value;
  }
  for (const g of gpus) g.detailed = true;
}

// The GPUs with their utilization; where: matchers, one of which selects the series. wanted(gpus): those with details.
export async function readGpus(where = [""], wanted = (gpus) => gpus) {
  const util = (m) => `DCGM_FI_DEV_GPU_UTIL{${m}}`, any = (make) => anyOf(where, make);
  const [used, devices, shared, ages, gone, targetOf] = await Promise.all([
    instant(`max by (${identity}) (${any(util)})`),
    // MIG devices have no utilization.
    instant(`max by (${identity}) (${any((m) => `DCGM_FI_DEV_FB_USED{${m}} unless on (UUID, GPU_I_ID, instance, gpu) ${util(m)}`)})`),
    // The devices of shared GPUs name no pod.
    seldom('DCGM_CUSTOM_ALLOCATE_MODE == 2 or {__name__=~"DCGM_CUSTOM_CONTAINER_(MEM|CP)_ALLOCATED", AllocateMode="share"}'),
    instant(`min by (UUID, gpu, GPU_I_ID, NodeName, Hostname, hostname, node, kubernetes_node, instance, job) (${any((m) => `time() - timestamp(${util(m)})`)})`),
    seldom(any((m) => `max_over_time(timestamp(${util(m)})[${goneWindow}:15s]) unless ${util(m)}`)), readGpuTargets()]);
  const gpus = new Map();
  for (const [series, measured] of [[used, true], [devices, false]])
    for (const {labels, value} of series) {
      const g = group(gpus, gpuKey(labels), () => newGpu(labels, targetOf(labels))), owner = ownerOf(labels, targetOf(labels));
      if (measured) g.values.GPU_UTIL = value;
      if (owner) g.owners.add(owner);
    }
  for (const {labels: l} of shared) {
    const g = gpus.get(gpuKey(l));
    if (g) g.shared = true;
    if (g && l.PodName) g.owners.add(`${l.NamespaceName}/${l.PodName}`);
  }
  for (const {labels, value} of ages) {
    const g = gpus.get(gpuKey(labels));
    if (g && !(g.age <= value)) Object.assign(g, {age: value, scraped: labels});
  }
  for (const {labels, value} of gone) {
    const g = group(gpus, gpuKey(labels), () => ({...newGpu(labels, targetOf(labels)), gone: 0}));
    if (g.gone !== undefined) g.gone = Math.max(g.gone, value);
  }
  const isStale = await readStale(Math.max(0, ...ages.map((s) => s.value)));
  for (const g of gpus.values()) g.state = g.gone !== undefined ? "missing" : isStale(g.scraped || {}, g.age) ? "stale" : "ok";
  const details = wanted([...gpus.values()]);
  if (details.length) await readDetails(details, where);
  return [...gpus.values()].sort((a, b) => a.node < b.node ? -1 : a.node > b.node ? 1 : Number(a.index) - Number(b.index) || (a.key < b.key ? -1 : 1));
}

// --- autoscalers ---

// The last change of the desired replicas of each autoscaler within an hour: {t, from, to}.
async function readChanges() {
  const known = slow.get(readChanges), end = Math.floor(Date.now() / changeStep / 1000) * changeStep;
  if (known && known.end === end) return known.value;
  const {result} = await get("query_range", {query: "kube_horizontalpodautoscaler_status_desired_replicas", start: end - 3600, end, step: changeStep});
  const value = new Map();
  for (const {metric, values} of result)
    for (let i = values.length - 1; i > 0 && !value.has(hpaKey(metric)); i--)
      if (values[i][1] !== values[i - 1][1]) value.set(hpaKey(metric), {t: values[i][0], from: values[i - 1][1], to: values[i][1]});
  slow.set(readChanges, {end, value});
  return value;
}

const hpaKey = (l) => `${l.namespace}/${l.horizontalpodautoscaler}`;

export async function readHpas() {
  const [changes, series] = await Promise.all([readChanges(), instant('{__name__=~"kube_horizontalpodautoscaler_(info|spec_(min|max)_replicas|(spec|status)_target_metric|status_(current|desired)_replicas)"}' +
    " or kube_horizontalpodautoscaler_status_condition == 1")]);
  const hpas = new Map();
  for (const {labels: l, value} of series) {
    const key = hpaKey(l);
    const a = group(hpas, key, () => ({key, ns: l.namespace, name: l.horizontalpodautoscaler, metrics: new Map(), conditions: {}}));
    const metric = () => group(a.metrics, `${l.metric_name} ${l.metric_target_type}`, () => ({name: l.metric_name, type: l.metric_target_type}));
    switch (l.__name__.slice("kube_horizontalpodautoscaler_".length)) {
    case "info": a.target = l.scaletargetref_name; break;
    case "spec_min_replicas": a.min = value; break;
    case "spec_max_replicas": a.max = value; break;
    case "status_current_replicas": a.current = value; break;
    case "status_desired_replicas": a.desired = value; break;
    case "spec_target_metric": metric().target = value; break;
    case "status_target_metric": metric().current = value; break;
    case "status_condition": a.conditions[l.condition] = l.status; break;
    }
  }
  return [...hpas.values()].map((a) => ({...a, metrics: [...a.metrics.values()], change: changes.get(a.key)})).sort((a, b) => a.key < b.key ? -1 : 1);
}

// --- pods and nodes ---

async function readPending() {
  const pending = 'kube_pod_status_phase{phase="Pending"} == 1';
  const [created, unschedulable, waiting] = await Promise.all([
    instant(`kube_pod_created and on (namespace, pod) (${pending})`), instant("kube_pod_status_unschedulable == 1"),
    instant(`kube_pod_container_status_waiting_reason == 1 and on (namespace, pod) (${pending})`)]);
  const key = (l) => `${l.namespace}/${l.pod}`;
  const no = new Set(unschedulable.map((s) => key(s.labels))), why = new Map(waiting.map((s) => [key(s.labels), s.labels.reason]));
  return created.map((s) => ({key: key(s.labels), since: s.value,
    reason: no.has(key(s.labels)) ? "Unschedulable: no node has room" : why.get(key(s.labels)) || "starting"})).sort((a, b) => a.since - b.since);
}

// What gpuscale up knows about pods that do not run: [{namespace, name, pods, reason, text, remedy}].
// Other servers do not have the path.
const readProblems = () => get("gpuscale/problems").catch(() => []);

export const simulatedDriver = (l) => (l.DCGM_FI_DRIVER_VERSION || l.DriverVersion || "").endsWith("-simulated");

// Whether a GPU of the engine is simulated.
export async function readSimulated() {
  const gpus = (label) => `{__name__=~"DCGM_FI_DEV_(FB_USED|GPU_TEMP)",${label}=~".+-simulated"}`;
  return (await instant(`count(${gpus("DCGM_FI_DRIVER_VERSION")} or ${gpus("DriverVersion")})`)).length > 0;
}

const poolLabels = ["gpuscale_dev_pool", "karpenter_sh_nodepool", "cloud_google_com_gke_nodepool", "eks_amazonaws_com_nodegroup",
  "kubernetes_azure_com_agentpool", "alibabacloud_com_nodepool_id"];

// The pool of a node, from kube_node_labels.
export const poolOf = (l) => poolLabels.map((name) => l["label_" + name]).find((v) => v) || "";

export async function readNodes() {
  const [states, labels, pools] = await Promise.all([
    instant('{__name__=~"kube_node_(info|deletion_timestamp)"} or kube_node_spec_unschedulable == 1 or kube_node_status_condition{condition="Ready",status="true"}' +
      ' or kube_node_status_allocatable{resource=~"nvidia_com_gpu(_shared)?"}'),
    seldom("kube_node_labels"), instant('{__name__=~"gpuscale_pool_(ready_nodes|coming_nodes)"}')]);
  const nodes = new Map(), byPool = new Map();
  for (const {labels: l, value} of states) {
    const n = group(nodes, l.node, () => ({name: l.node}));
    switch (l.__name__) {
    case "kube_node_status_condition": n.ready = value === 1; break;
    case "kube_node_status_allocatable": n.gpus = (n.gpus || 0) + value; break;
    case "kube_node_spec_unschedulable": n.cordoned = true; break;
    case "kube_node_deletion_timestamp": n.deleting = true; break;
    }
  }
  for (const {labels: l} of labels) {
    const n = nodes.get(l.node);
    if (n) Object.assign(n, {pool: poolOf(l), type: l.label_node_kubernetes_io_instance_type || ""});
  }
  for (const {labels: l, value} of pools) group(byPool, l.pool, () => ({name: l.pool}))[l.__name__.slice("gpuscale_pool_".length)] = value;
  return {nodes: [...nodes.values()], pools: [...byPool.values()].sort((a, b) => a.name < b.name ? -1 : 1)};
}

// wanted(gpus): those whose memory, temperature and power are shown.
export async function readOverview(wanted) {
  const [gpus, hpas, pending, {nodes, pools}, alerts, problems] = await Promise.all([readGpus([""], wanted), readHpas(), readPending(), readNodes(), get("alerts"), readProblems()]);
  const known = new Set(nodes.map((n) => n.name));
  return {hpas, pending, problems, nodes, pools, alerts: alerts.alerts,
    // A removed node took its GPUs along.
    gpus: gpus.filter((g) => g.state !== "missing" || known.size === 0 || known.has(g.node))};
}
