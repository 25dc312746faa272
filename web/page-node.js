// SPDX-License-Identifier: Apache-2.0
// One node: its state, GPUs and pods, why it is or is not removed, and its history.
import {seriesColor} from "./chart.js";
import {badge, empty, h, notice, table} from "./dom.js";
import {age, bytes, duration, short, time} from "./format.js";
import {onData} from "./live.js";
import {bar, facts, gpuTable, heading, missing, section, simulatedNote, tile} from "./object.js";
import {escaped, group, instant, lastSamples, poolOf, queryPage, quote, readGpus, readGpuTargets, seldom} from "./overview-data.js";
import {joined, spans} from "./ranges.js";
import {color, Tracks} from "./tracks.js";
import {liveView} from "./view.js";

export const title = "Node";

const name = new URLSearchParams(location.search).get("name") || "", of = `{node=${quote(name)}}`, historyMs = 5000, maxPods = 200;
const isGpu = (resource) => /^(nvidia_com_|amd_com_gpu|gpu_intel_com_|aliyun_com_gpu|volcano_sh_)/.test(resource);
const anyOf = (names) => quote([...new Set(names)].slice(0, maxPods).map(escaped).join("|"));
// The labels in which exporters name the node. An exporter in a pod may have its own host name instead.
const gpusByName = ["node", "kubernetes_node", "hostname", "NodeName", "Hostname"].map((label) => `${label}=${quote(name)}`);
let gpusOf = gpusByName;

// --- the present ---

async function readPods() {
  const [infos, requests] = await Promise.all([instant(`kube_pod_info${of}`), instant(`sum by (namespace, pod, resource) (kube_pod_container_resource_requests${of})`)]);
  const key = (l) => `${l.namespace}/${l.pod}`, pods = new Map();
  for (const {labels: l} of infos) pods.set(key(l), {key: key(l), ns: l.namespace, name: l.pod, owner: l.created_by_kind ? `${l.created_by_kind} ${l.created_by_name}` : "", requests: {}, gpus: 0});
  for (const {labels: l, value} of requests) {
    const p = pods.get(key(l));
    if (!p) continue;
    p.requests[l.resource] = value;
    if (isGpu(l.resource)) p.gpus += value;
  }
  if (pods.size) {
    const only = `pod=~${anyOf([...pods.values()].map((p) => p.name))}`;
    for (const {labels: l, value} of await instant(`kube_pod_created{${only}} or kube_pod_status_phase{${only}} == 1`)) {
      const p = pods.get(key(l));
      if (p && l.phase) p.phase = l.phase;
      else if (p) p.created = value;
    }
  }
  return [...pods.values()].sort((a, b) => b.gpus - a.gpus || (a.key < b.key ? -1 : 1));
}

async function readGpusOfNode() {
  const here = (await readGpuTargets()).all.filter((t) => t.node === name).map((t) => `instance=${quote(t.instance)}`);
  gpusOf = [...gpusByName, ...new Set(here)];
  return readGpus(gpusOf);
}

async function read() {
  const [state, gpus, pods, cluster] = await Promise.all([instant(`{__name__=~"kube_node_.+", node=${quote(name)}}`), readGpusOfNode(), readPods(),
    seldom('{__name__=~"gpuscale_(pool_.+|largest_pod_gpus|free_gpus|node_plan_info)|cluster_autoscaler_(node_group_(min|max|target)_count|scale_down_in_cooldown)"}')]);
  const node = {gpus, pods, labels: {}, conditions: {}, taints: [], allocatable: {}, pool: {}, known: state.length > 0};
  for (const {labels: l, value} of state)
    switch (l.__name__.slice("kube_node_".length)) {
    case "info": node.info = l; break;
    case "labels": node.labels = l; break;
    case "created": node.created = value; break;
    case "deletion_timestamp": node.deleting = value; break;
    case "spec_unschedulable": node.cordoned = value === 1; break;
    case "spec_taint": node.taints.push({key: l.key, value: l.value || "", effect: l.effect}); break;
    case "status_allocatable": node.allocatable[l.resource] = value; break;
    case "status_condition": if (value === 1) node.conditions[l.condition] = l.status; break;
    }
  const pool = node.pool.name = poolOf(node.labels);
  for (const {labels: l, value} of cluster) {
    const metric = l.__name__;
    if (metric === "gpuscale_node_plan_info") {
      if (l.node === name) node.reason = l.reason;
      continue;
    }
    if (l.pool !== undefined && l.pool !== pool || l.node_group !== undefined && l.node_group !== pool) continue;
    if (metric === "gpuscale_pool_startup_seconds") (node.pool.startup ||= {})[`${l.phase} ${l.quantile}`] = value;
    else if (l.pool !== undefined) node.pool[metric.slice("gpuscale_pool_".length)] = value;
    else if (l.node_group !== undefined) node.pool[metric.slice("cluster_autoscaler_node_group_".length)] = value;
    else if (metric === "cluster_autoscaler_scale_down_in_cooldown") node.cooldown = value === 1;
    else node[metric.slice("gpuscale_".length)] = value;
  }
  if (!node.known && !gpus.length) {
    node.gone = (await lastSamples(`timestamp(kube_node_info${of})`))[0]?.value;
  }
  return node;
}

const active = (p) => p.phase !== "Succeeded" && p.phase !== "Failed";
const requested = (node, resource) => node.pods.filter(active).reduce((sum, p) => sum + (p.requests[resource] || 0), 0);
const gpuResources = (node) => Object.keys(node.allocatable).filter(isGpu).filter((r) => node.allocatable[r] > 0);

// Why the node is, or is not, removed: only what series state.
function removal(node) {
  const taint = (match) => node.taints.find((t) => match.test(t.key)), since = (t) => /^\d+$/.test(t.value) ? ` since ${time(Number(t.value))}` : "";
  const going = taint(/^ToBeDeletedByClusterAutoscaler$/), candidate = taint(/^DeletionCandidateOfClusterAutoscaler$/), karpenter = taint(/^karpenter\.sh\/(disrupted|disruption)$/);
  const {name: pool, min_count: min, target_count: target} = node.pool;
  const atMinimum = min !== undefined && target !== undefined && target <= min && `Pool ${pool} is at its minimum of ${min} node${min === 1 ? "" : "s"}, so no node is removed.`;
  if (node.deleting) return [badge("pending", "being deleted"), ` The node is being deleted since ${time(node.deleting)}.`];
  if (going) return [badge("pending", "being removed"), ` The autoscaler removes the node${since(going)}.`];
  if (karpenter) return [badge("pending", "being removed"), " Karpenter removes or replaces the node."];
  const why = node.reason && `Its last plan: ${node.reason}.`;
  if (candidate || /^unneeded/.test(node.reason)) return [badge("pending", "unneeded"), ` The autoscaler does not need the node${candidate ? since(candidate) : ""}. `, why || atMinimum || (node.cooldown ? "Removals wait for the delay after the last change." : "It is removed when this lasts for the scale-down time.")];
  if (!node.known) return missing("not known: no series of the node (kube_node_*)");
  if (min === undefined && node.cooldown === undefined) return missing("not known: no series of the Cluster Autoscaler (cluster_autoscaler_*)");
  if (why) return [badge("ok", "kept"), " The autoscaler keeps the node. ", why];
  if (!pool) return "The node has no label of a pool. The autoscaler removes nodes of pools only.";
  const used = gpuResources(node).map((r) => `Pods request ${short(requested(node, r))} of ${short(node.allocatable[r])} ${r === "nvidia_com_gpu" ? `GPU${node.allocatable[r] === 1 ? "" : "s"}` : r}.`);
  return [badge("ok", "kept"), " The autoscaler has not marked the node as unneeded. ", used.join(" "), atMinimum && ` ${atMinimum}`];
}

const seconds = (v) => v === 0 ? "0s" : duration(v);

function startup(pool) {
  const s = pool.startup, one = (phase) => `${seconds(s[phase + " 0.5"])}${s[phase + " 0.9"] !== s[phase + " 0.5"] ? ` (90 %: ${seconds(s[phase + " 0.9"])})` : ""}`;
  if (!s) return null;
  const total = s["total 0.5"] !== undefined ? "total" : "ready";
  return [one(total), total === "total" && s["provision 0.5"] !== undefined && h("span", {class: "muted"}, `, of which provisioning ${seconds(s["provision 0.5"])}, until ready ${seconds(s["ready 0.5"])}`)];
}

function tiles(node) {
  const live = node.gpus.filter((g) => g.state !== "missing"), of = (field) => live.map((g) => g.values[field]).filter((v) => v !== undefined), sum = (all) => all.reduce((a, b) => a + b, 0);
  const utils = of("GPU_UTIL"), used = of("FB_USED"), free = of("FB_FREE"), power = of("POWER_USAGE"), temperature = of("GPU_TEMP");
  const resources = gpuResources(node), allocatable = sum(resources.map((r) => node.allocatable[r])), taken = sum(resources.map((r) => requested(node, r)));
  return h("div", {class: "tiles stacked"},
    tile("GPUs requested", resources.length ? `${short(taken)} / ${short(allocatable)}` : "–", resources.length > 0 && `${short(allocatable - taken)} free`),
    tile("GPU utilization", utils.length ? `${Math.round(sum(utils) / utils.length)} %` : "–", utils.length > 0 && `average of ${utils.length}`),
    tile("GPU memory", used.length ? bytes(sum(used) * 2 ** 20) : "–", used.length > 0 && free.length > 0 && `of ${bytes((sum(used) + sum(free)) * 2 ** 20)}`),
    tile("Power", power.length ? `${Math.round(sum(power))} W` : "–"),
    tile("Temperature", temperature.length ? `${Math.round(Math.max(...temperature))} °C` : "–", temperature.length > 1 && "maximum"),
    tile("Pods", node.known ? String(node.pods.filter(active).length) : "–"));
}

function podsNode(node) {
  if (!node.pods.length) return section("Pods", empty(node.known ? "No pods." : "No series of pods (kube_pod_info)."));
  return section("Pods", h("div", {class: "tall", "data-scroll": "pods"}, table([{name: "Pod", class: "wide"}, "GPUs", "CPU", "Memory", "Phase", "Age"], node.pods.slice(0, maxPods).map((p) => [
    [h("b", null, p.name), h("span", {class: "muted"}, ` ${p.ns}`), p.owner && h("div", {class: "muted"}, p.owner)], p.gpus ? short(p.gpus) : "–", p.requests.cpu === undefined ? "–" : short(p.requests.cpu),
    p.requests.memory === undefined ? "–" : bytes(p.requests.memory), p.phase === "Running" ? "Running" : badge(p.phase === "Failed" ? "down" : p.phase === "Pending" ? "pending" : "unknown", p.phase || "unknown"),
    p.created === undefined ? "–" : age(Date.now() / 1000 - p.created)]))), node.pods.length > maxPods && h("p", {class: "hint muted"}, `and ${node.pods.length - maxPods} more`));
}

const resourceText = (resource, v) => resource === "memory" || /storage/.test(resource) ? bytes(v) : short(v);

function resourcesNode(node) {
  const rows = Object.entries(node.allocatable).filter(([r, v]) => v > 0 && (isGpu(r) || ["cpu", "memory", "pods"].includes(r))).sort(([a], [b]) => isGpu(b) - isGpu(a) || (a < b ? -1 : 1));
  const used = (r) => r === "pods" ? node.pods.filter(active).length : requested(node, r);
  return rows.length > 0 && section("Allocatable", table([{name: "Resource", class: "wide"}, "Requested", "Allocatable", "Free"], rows.map(([r, v]) => [
    isGpu(r) ? r.replace(/^nvidia_com_/, "nvidia.com/").replace(/^amd_com_/, "amd.com/") : r, h("span", {class: "gauge"}, bar(used(r), v), resourceText(r, used(r))), resourceText(r, v), resourceText(r, v - used(r))])));
}

function factsNode(node) {
  const l = node.labels, i = node.info || {}, p = node.pool, problems = Object.entries(node.conditions).filter(([c, s]) => c !== "Ready" && s === "true");
  return section("Node", facts([["State", node.conditions.Ready === "true" ? [badge("ok", "ready"), node.cordoned && [" ", badge("pending", "cordoned")]] : node.conditions.Ready ? badge("down", "not ready") : missing("not known")],
    ["Problems", problems.length > 0 && problems.map(([c]) => [badge("down", c), " "])],
    ["Pool", p.name && [p.name, p.ready_nodes !== undefined && h("span", {class: "muted"}, ` ${p.ready_nodes} of ${p.nodes} nodes ready${p.coming_nodes ? `, ${p.coming_nodes} coming` : ""}${p.min_count !== undefined ? `, ${p.min_count}–${p.max_count} allowed` : ""}`)]],
    ["Removal", removal(node)],
    ["Start-up time", startup(p) && [startup(p), h("span", {class: "muted"}, " (nodes of the pool)")]],
    ["Fragmentation", node.largest_pod_gpus !== undefined && [`The largest pod that fits in the cluster has ${short(node.largest_pod_gpus)} GPU${node.largest_pod_gpus === 1 ? "" : "s"}`, node.free_gpus !== undefined && ` (${short(node.free_gpus)} free).`,
      p.stranded_gpus > 0 && ` ${short(p.stranded_gpus)} GPUs of the pool are stranded: the CPU or memory beside them is used up.`]],
    ["Instance type", l.label_node_kubernetes_io_instance_type], ["GPU model", l.label_nvidia_com_gpu_product], ["Zone", l.label_topology_kubernetes_io_zone], ["Price", l.label_gpuscale_dev_price && `${l.label_gpuscale_dev_price} per hour`],
    ["Created", node.created !== undefined && `${time(node.created)} (${age(Date.now() / 1000 - node.created)} ago)`], ["Kubelet", i.kubelet_version], ["System", [i.os_image, i.kernel_version].filter((t) => t).join(", ")],
    ["Machine", i.provider_id && h("span", {class: "mono"}, i.provider_id)],
    ["Taints", node.taints.length > 0 && node.taints.map((t) => h("div", {class: "mono"}, `${t.key}${t.value && "=" + t.value}:${t.effect}`))]]));
}

function render(node) {
  if (!node.known && !node.gpus.length) {
    return node.gone !== undefined ? notice("warning", `There are no series of this node for ${age(Date.now() / 1000 - node.gone)}: it was removed, or the engine does not receive its state. The history below is from before.`)
      : section("Node", empty(`No series of the node ${name} in the last day.`));
  }
  return [node.gpus.some((g) => g.simulated) && simulatedNote(), tiles(node), h("div", {class: "overview"},
    h("div", null, factsNode(node), resourcesNode(node)),
    h("div", null, section("GPUs", node.gpus.length ? gpuTable(node.gpus) : empty(gpuResources(node).length ? "GPUs are allocatable, but no exporter measures them." : "No GPUs.")), podsNode(node)))];
}

// --- the history ---

// The part of spans that is not in others.
function without(all, others) {
  let rest = all;
  for (const [a, b] of others) rest = rest.flatMap(([from, to]) => [[from, Math.min(to, a)], [Math.max(from, b), to]].filter(([x, y]) => y > x));
  return rest;
}

async function history({start, end, step, ranges}) {
  const gpuQuery = gpusOf.map((m) => `{__name__=~"DCGM_FI_DEV_(GPU_UTIL|FB_USED|FB_FREE|POWER_USAGE|GPU_TEMP)", ${m}}`).join(" or ");
  const kubeQuery = `{__name__=~"kube_pod_info|kube_pod_container_resource_requests|kube_node_(status_allocatable|spec_taint|spec_unschedulable|deletion_timestamp|status_condition)", node=${quote(name)}}`;
  const cpuQuery = `sum(rate(node_cpu_usage_seconds_total${of}[1m]))`, memoryQuery = `sum(node_memory_working_set_bytes${of})`;
  const [gpus, kube, cpu, memory] = await Promise.all([gpuQuery, kubeQuery, cpuQuery, memoryQuery].map((q) => ranges.read(q, start, end, step)));
  const byMetric = new Map(), key = (l) => `${l.namespace}/${l.pod}`;
  for (const s of kube) group(byMetric, s.metric.__name__, () => []).push(s);
  const all = (metric) => byMetric.get(metric) || [];
  // Finished pods stay on the node, without their resources.
  const pods = new Map(), finished = new Map();
  for (const s of all("kube_pod_info")) group(pods, key(s.metric), () => []).push(...spans(s.values, step));
  if (pods.size)
    for (const s of await ranges.read(`kube_pod_status_phase{phase=~"Succeeded|Failed", pod=~${anyOf([...pods.keys()].map((k) => k.slice(k.indexOf("/") + 1)))}} == 1`, start, end, step))
      group(finished, key(s.metric), () => []).push(...spans(s.values, step));
  const requests = new Map(), gpusOfPod = new Map();
  for (const s of all("kube_pod_container_resource_requests").filter((r) => isGpu(r.metric.resource))) {
    const over = finished.get(key(s.metric)) || [];
    for (const [t, v] of s.values) {
      if (over.some(([a, b]) => t >= a && t < b)) continue;
      requests.set(t, (requests.get(t) || 0) + Number(v));
      gpusOfPod.set(key(s.metric), Math.max(gpusOfPod.get(key(s.metric)) || 0, Number(v)));
    }
  }
  const allocatable = joined(all("kube_node_status_allocatable").filter((s) => isGpu(s.metric.resource) && s.values.some(([, v]) => Number(v) > 0)));
  // Times in which the node was known but no pod requested GPUs are 0, others are gaps.
  const asked = allocatable.map(([t]) => [t, String(requests.get(t) || 0)]);
  const devices = new Map();
  for (const s of gpus) {
    const l = s.metric, g = group(devices, `${l.gpu ?? ""}${l.GPU_I_ID !== undefined ? " " + (l.GPU_I_PROFILE || "") + " " + l.GPU_I_ID : ""}`, () => new Map());
    group(g, l.__name__, () => []).push(s);
  }
  const ordered = [...devices].sort(([a], [b]) => a.localeCompare(b, "en", {numeric: true}));
  const perGpu = (metric) => ordered.filter(([, g]) => g.has(metric)).slice(0, 16).map(([gpu, g], i) => ({name: `GPU ${gpu}`, color: seriesColor(i), values: joined(g.get(metric))}));
  const total = (...metrics) => {
    const at = new Map();
    for (const [, g] of ordered) for (const m of metrics) for (const [t, v] of joined(g.get(m) || [])) at.set(t, (at.get(t) || 0) + Number(v));
    return [...at].sort((a, b) => a[0] - b[0]);
  };
  const text = (values, factor = 1) => values.map(([t, v]) => [t, String(Number(v) * factor)]);
  const charts = [
    {title: "GPU utilization, %", top: 100, href: queryPage(gpusOf.map((m) => `DCGM_FI_DEV_GPU_UTIL{${m}}`).join(" or ")), lines: perGpu("DCGM_FI_DEV_GPU_UTIL")},
    {title: "GPUs", steps: true, href: queryPage(`sum by (resource) (kube_pod_container_resource_requests${of})`), none: "No series of allocatable GPUs in this time.",
      lines: [{name: "allocatable", color: color.target, dashed: true, values: allocatable}, {name: "requested", color: color.value, values: asked}]},
    {title: "GPU memory, GiB", lines: [{name: "used", color: color.value, values: text(total("DCGM_FI_DEV_FB_USED"), 1 / 1024)}, {name: "total", color: color.target, dashed: true, values: text(total("DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"), 1 / 1024)}]},
    {title: "Power, W", lines: [{name: "GPUs", color: color.value, values: text(total("DCGM_FI_DEV_POWER_USAGE"))}]},
    {title: "GPU temperature, °C", lines: perGpu("DCGM_FI_DEV_GPU_TEMP")},
    (cpu.length > 0 || memory.length > 0) && {title: "CPUs and memory in use", lines: [{name: "CPUs", color: color.value, values: joined(cpu)}, {name: "memory, GiB", color: color.good, values: text(joined(memory), 2 ** -30)}]},
  ].filter((c) => c);

  const taints = (match, kind, label) => {
    const found = all("kube_node_spec_taint").filter((s) => match.test(s.metric.key)).flatMap((s) => spans(s.values, step)).map(([from, to]) => ({from, to, kind, text: label}));
    return found.length && {name: label, spans: found};
  };
  const state = (metric, kind, label, wanted) => {
    const found = metric.flatMap((s) => spans(s.values, step, wanted)).map(([from, to]) => ({from, to, kind, text: label}));
    return found.length && {name: label, spans: found};
  };
  const ready = all("kube_node_status_condition").filter((s) => s.metric.condition === "Ready" && s.metric.status === "true");
  const states = [state(ready, "ok", "ready", (v) => v === 1), state(ready, "hot", "not ready", (v) => v === 0), state(all("kube_node_spec_unschedulable"), "estimate", "cordoned", (v) => v === 1),
    taints(/^DeletionCandidateOfClusterAutoscaler$/, "estimate", "unneeded"), taints(/^(ToBeDeletedByClusterAutoscaler|karpenter\.sh\/disrupt(ed|ion))$/, "hot", "being removed")].filter((r) => r);
  const rows = [...pods].map(([pod, held]) => {
    const n = gpusOfPod.get(pod) || 0;
    return {name: pod.slice(pod.indexOf("/") + 1), n, first: Math.min(...held.map(([a]) => a)), note: n ? `${short(n)} GPU${n === 1 ? "" : "s"}` : null,
      spans: without(held, finished.get(pod) || []).map(([from, to]) => ({from, to, kind: n ? "exclusive" : "", text: "on the node"}))};
  }).filter((r) => r.spans.length).sort((a, b) => (b.n > 0) - (a.n > 0) || a.first - b.first || (a.name < b.name ? -1 : 1));
  return {charts, bands: [{title: "State of the node", rows: states, none: "No series of the node in this time."}, {title: "Pods on this node", rows, none: "No pods in this time."}]};
}

export function start(main) {
  const box = h("div"), tracks = new Tracks("History", history);
  heading(main, [["Overview", "./"]], name || "Node");
  if (!name) {
    main.append(section("Node", empty("The address names no node: /node?name=…")));
    return;
  }
  main.append(box, tracks.node);
  liveView(box, read, render);
  onData(() => tracks.live() && tracks.update(), historyMs);
}
