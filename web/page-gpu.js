// SPDX-License-Identifier: Apache-2.0
// One GPU: its state, who uses it, and its history.
import {badge, empty, h, notice, table} from "./dom.js";
import {age, bytes, short, time} from "./format.js";
import {onData} from "./live.js";
import {nodeOf, ownerOf} from "./gpu-owner.js";
import {bar, facts, heading, missing, section, simulatedNote, tile} from "./object.js";
import {group, instant, lastSamples, nodePage, queryPage, quote, readGpuTargets, readStale, simulatedDriver} from "./overview-data.js";
import {seriesColor} from "./chart.js";
import {joined, spans} from "./ranges.js";
import {color, Tracks} from "./tracks.js";
import {liveView} from "./view.js";

export const title = "GPU";

const uuid = new URLSearchParams(location.search).get("uuid") || "", of = `{UUID=${quote(uuid)}}`, historyMs = 5000, maxPods = 8;
const mib = 2 ** 20;

// What the exporter states about the values of a pod on this GPU.
const origins = {exclusive: ["ok", "The pod has the GPU to itself: its values are those of the device."],
  attributed: ["ok", "The driver measures the processes of the pod."],
  estimate: ["pending", "Estimated: scaled down, divided among clients of MPS, or of a device that others use, too."]};

// --- the present ---

const sliceOf = (l) => [l.GPU_I_PROFILE, l.GPU_I_ID !== undefined && `(${l.GPU_I_ID}${l.GPU_CI_ID ? "/" + l.GPU_CI_ID : ""})`].filter((t) => t).join(" ");

function readUser(users, name, l, value, target) {
  const process = name.startsWith("PROCESS_") || name.startsWith("ILLEGAL_PROCESS_"), pod = ownerOf(l, target);
  const key = pod || (process ? `${l.ProcessName || "process"} ${l.ProcessId}` : "");
  if (!key) return;
  const u = group(users, key, () => ({key, pod, containers: new Set(), processes: new Set(), origin: {}}));
  if (l.ContainerName || l.exported_container || l.container) u.containers.add(l.ContainerName || l.exported_container || l.container);
  if (process) u.processes.add(l.ProcessId);
  if (name.startsWith("ILLEGAL_")) u.illegal = true;
  if (/PROCESS_SM_UTIL$/.test(name)) u.util = (u.util || 0) + value;
  if (/PROCESS_MEM_USED$/.test(name)) u.memory = (u.memory || 0) + value;
  if (name === "CONTAINER_MEM_ALLOCATED") u.allocated = (u.allocated || 0) + value;
  if (l.AllocateMode && !u.mode) u.mode = l.AllocateMode;
}

async function read() {
  const [series, targetOf, ages] = await Promise.all([instant(of), readGpuTargets(), instant(`max by (job, instance) (time() - timestamp(DCGM_FI_DEV_GPU_UTIL${of})) or max by (job, instance) (time() - timestamp(DCGM_FI_DEV_FB_USED${of}))`)]);
  const gpu = {labels: null, values: {}, slices: {}, users: new Map(), absent: [], xid: null, age: ages.length ? ages[0].value : NaN};
  gpu.stale = ages.length > 0 && (await readStale(gpu.age))(ages[0].labels, gpu.age);
  for (const {labels: l, value} of series) {
    const name = l.__name__ || "", target = targetOf(l), owner = ownerOf(l, target);
    if (name.startsWith("DCGM_CUSTOM_")) readUser(gpu.users, name.slice("DCGM_CUSTOM_".length), l, value, target);
    if (name === "gpuscale_exporter_pod_attribution" && owner)
      group(gpu.users, owner, () => ({key: owner, pod: owner, containers: new Set(), processes: new Set(), origin: {}})).origin[l.value] = l.attribution;
    if (name === "gpuscale_exporter_absent_fields") gpu.absent.push([l.reason, value]);
    if (/^gpuscale_exporter_gpu_(lost|hung)$/.test(name)) gpu[name.slice(-4)] = value === 1;
    if (name === "DCGM_CUSTOM_ALLOCATE_MODE") gpu.mode = value;
    if (!name.startsWith("DCGM_FI_") && !name.startsWith("GPUSCALE_")) continue;
    if (!gpu.labels || (!gpu.labels.DCGM_FI_DRIVER_VERSION && l.DCGM_FI_DRIVER_VERSION)) gpu.labels = l;
    const short = name.replace(/^DCGM_FI_(DEV|PROF)_/, "");
    if (l.GPU_I_ID !== undefined) group(Object.assign(gpu, {bySlice: gpu.bySlice || new Map()}).bySlice, sliceOf(l), () => ({name: sliceOf(l)}))[short] = value;
    else gpu.values[short] = value;
    if (short === "XID_ERRORS") gpu.xid = {code: value, text: l.err_msg || ""};
    if (short === "GPU_UTIL" && owner) readUser(gpu.users, "", l, value, target);
  }
  if (!gpu.labels) {
    const newest = (await lastSamples(`(timestamp(DCGM_FI_DEV_GPU_UTIL${of}) or timestamp(DCGM_FI_DEV_FB_USED${of}))`))[0];
    if (newest) Object.assign(gpu, {labels: newest.labels, gone: newest.value});
  }
  gpu.node = gpu.labels ? nodeOf(gpu.labels, targetOf(gpu.labels)) : "";
  return {...gpu, users: [...gpu.users.values()].map((u) => ({...u, containers: [...u.containers], processes: u.processes.size})).sort((a, b) => a.key < b.key ? -1 : 1), slices: [...(gpu.bySlice || new Map()).values()]};
}

const percent = (v) => v === undefined ? "–" : `${Math.round(v)} %`;

function tiles({values: v, xid, gone}) {
  if (gone !== undefined) return null;
  const total = (v.FB_USED || 0) + (v.FB_FREE || 0) + (v.FB_RESERVED || 0);
  return h("div", {class: "tiles stacked"},
    tile("Utilization", percent(v.GPU_UTIL), v.MEM_COPY_UTIL !== undefined && `memory traffic ${percent(v.MEM_COPY_UTIL)}`),
    tile("Memory", v.FB_USED === undefined ? "–" : bytes(v.FB_USED * mib), total > 0 && v.FB_FREE !== undefined && `of ${bytes(total * mib)}`),
    tile("Temperature", v.GPU_TEMP === undefined ? "–" : `${Math.round(v.GPU_TEMP)} °C`, v.MEMORY_TEMP !== undefined && `memory ${Math.round(v.MEMORY_TEMP)} °C`),
    tile("Power", v.POWER_USAGE === undefined ? "–" : `${Math.round(v.POWER_USAGE)} W`, v.ENFORCED_POWER_LIMIT !== undefined && `limit ${Math.round(v.ENFORCED_POWER_LIMIT)} W`),
    tile("SM clock", v.SM_CLOCK === undefined ? "–" : `${Math.round(v.SM_CLOCK)} MHz`, v.MEM_CLOCK !== undefined && `memory ${Math.round(v.MEM_CLOCK)} MHz`),
    tile("Last XID", xid === null ? "–" : xid.code ? String(xid.code) : "none", xid !== null && xid.code > 0 && xid.text, xid !== null && xid.code ? "bad" : ""));
}

function originNode(u) {
  const all = [...new Set(Object.values(u.origin))];
  if (!all.length) return u.pod ? missing("not stated") : null;
  return all.map((o) => h("div", {title: (origins[o] || ["", ""])[1]}, badge((origins[o] || ["unknown"])[0], o),
    all.length > 1 && h("span", {class: "muted"}, " " + Object.keys(u.origin).filter((k) => u.origin[k] === o).join(", "))));
}

function usersNode(gpu) {
  const shared = gpu.mode === 2 || gpu.users.some((u) => u.mode === "share");
  const rows = gpu.users.map((u) => [
    u.pod ? [h("b", null, u.pod.split("/").slice(1).join("/")), h("span", {class: "muted"}, ` ${u.pod.split("/")[0]}`), h("div", {class: "muted"}, u.illegal && [badge("down", "not allocated"), " "],
      [u.containers.join(", "), u.illegal ? "" : u.mode === "share" ? "part of the GPU" : u.mode === "exclusive" ? "whole GPU" : ""].filter((t) => t).join(" · "))] : [h("b", null, u.key), h("div", {class: "muted"}, "process without a pod")],
    u.util === undefined ? missing() : h("span", {class: "gauge"}, bar(u.util, 100), percent(u.util)),
    u.memory === undefined ? missing() : [bytes(u.memory * mib), u.allocated !== undefined && h("span", {class: "muted"}, ` of ${bytes(u.allocated * mib)}`)], originNode(u)]);
  return section([shared ? "Used by (shared GPU)" : "Used by"],
    rows.length ? table([{name: "Pod", class: "wide"}, "Utilization", "Memory", "Values are"], rows)
      : empty(gpu.gone !== undefined ? "Not known: there are no samples." : gpu.mode === 0 ? "No pod has this GPU." : gpu.mode === undefined ? "No series names a pod. The GPU is free, or the exporter does not know pods."
        : "The GPU is allocated, but no pod is named."),
    shared && rows.length > 0 && h("p", {class: "hint muted"}, "Utilization and memory of a shared device belong to no single pod. Values of pods come from their processes."));
}

const slicesNode = (slices) => slices.length > 0 && section("MIG devices", table(["Device", "Memory", "Compute active"], slices.map((s) => [h("b", null, s.name),
  s.FB_USED === undefined ? missing() : [bytes(s.FB_USED * mib), s.FB_FREE !== undefined && h("span", {class: "muted"}, ` of ${bytes((s.FB_USED + s.FB_FREE) * mib)}`)],
  s.GR_ENGINE_ACTIVE === undefined ? missing("not measured") : percent(100 * s.GR_ENGINE_ACTIVE)])));

function factsNode({labels: l, values: v, ...gpu}) {
  const errors = [v.UNCORRECTABLE_REMAPPED_ROWS > 0 && `${v.UNCORRECTABLE_REMAPPED_ROWS} rows remapped after uncorrectable errors`, v.CORRECTABLE_REMAPPED_ROWS > 0 && `${v.CORRECTABLE_REMAPPED_ROWS} rows remapped after correctable errors`,
    v.ROW_REMAP_FAILURE > 0 && "a row could not be remapped", v.PCIE_REPLAY_COUNTER > 0 && `${short(v.PCIE_REPLAY_COUNTER)} PCIe replays`, v.GPUSCALE_NVLINKS_DOWN > 0 && `${v.GPUSCALE_NVLINKS_DOWN} NVLinks down`].filter((t) => t);
  return section("Device", facts([["Model", l.modelName], ["Node", gpu.node && h("a", {href: nodePage(gpu.node)}, gpu.node)], ["UUID", h("span", {class: "mono"}, uuid)],
    ["PCI bus", l.pci_bus_id && h("span", {class: "mono"}, l.pci_bus_id)], ["Driver", l.DCGM_FI_DRIVER_VERSION],
    ["Sharing", gpu.slices.length ? "MIG" : gpu.mode === undefined ? null : ["not allocated", "one pod has the whole GPU", "shared by pods"][gpu.mode]],
    ["Energy", v.TOTAL_ENERGY_CONSUMPTION !== undefined && `${short(v.TOTAL_ENERGY_CONSUMPTION / 3.6e9)} kWh since the driver was loaded`],
    ["Errors", errors.length ? errors.map((e) => h("div", {class: "error-text"}, e)) : v.ROW_REMAP_FAILURE !== undefined || v.PCIE_REPLAY_COUNTER !== undefined ? "none counted" : null],
    ["Not measured", gpu.absent.length > 0 && gpu.absent.map(([reason, n]) => `${n} fields (${reason})`).join(", ")]]));
}

function render(gpu) {
  if (!gpu.labels) return section("GPU", empty(`No samples of the GPU ${uuid} in the last day.`));
  const node = gpu.node;
  heading(document.querySelector("main"), [["Overview", "./"], ...(node ? [[node, nodePage(node)]] : [])], `GPU ${gpu.labels.gpu ?? ""} ${(gpu.labels.modelName || "").replace(/^NVIDIA /, "")}`);
  const state = gpu.lost ? badge("down", "lost: the driver does not find it") : gpu.hung ? badge("down", "a driver call does not return")
    : gpu.gone !== undefined ? badge("down", `no data for ${age(Date.now() / 1000 - gpu.gone)}`) : gpu.stale ? badge("pending", `stale: the values are ${age(gpu.age)} old`) : null;
  return [simulatedDriver(gpu.labels) && simulatedNote(), state && h("p", {class: "state-line"}, state), gpu.gone !== undefined && notice("warning", `The last sample was at ${time(gpu.gone)}. Values of now are not known.`),
    tiles(gpu), h("div", {class: "overview even"}, h("div", null, usersNode(gpu), slicesNode(gpu.slices)), h("div", null, factsNode(gpu)))];
}

// --- the history ---

// The bits of DCGM_FI_DEV_CLOCKS_EVENT_REASONS that reduce clocks (nvmlClocksEventReasons), and the names of other series for the same.
const reasons = [[0x4, "power limit", /SW_POWER_CAP|sw_power_cap|POWER_VIOLATION/], [0x8, "hardware slowdown", /hw_slowdown/i], [0x10, "sync boost", /SYNC_BOOST/i], [0x20, "software thermal slowdown", /SW_THERM|THERMAL_VIOLATION/i],
  [0x40, "hardware thermal slowdown", /HW_THERM/i], [0x80, "power brake", /POWER_BRAKE/i]];

// Times in which the clocks were reduced, by reason. Counters count while they grow.
function throttling(series, step) {
  const found = new Map(), add = (reason, s) => s.length && group(found, reason, () => []).push(...s);
  let measured = false;
  for (const {metric, values} of series) {
    const name = metric.__name__;
    if (/^DCGM_FI_DEV_CLOCK(S_EVENT|_THROTTLE)_REASONS$/.test(name)) {
      measured = true;
      for (const [bit, reason] of reasons) add(reason, spans(values, step, (v) => Math.floor(v / bit) % 2 === 1));
    } else if (/_NS$|_VIOLATION$|^DCGM_EXP_CLOCK_EVENTS_TOTAL$/.test(name)) {
      measured = true;
      const reason = reasons.find(([, , match]) => match.test(metric.clock_event || name)), grows = values.map(([t, v], i) => [t, i ? Number(v) - Number(values[i - 1][1]) : 0]);
      if (reason) add(reason[1], spans(grows, step, (v) => v > 0));
    }
  }
  return {measured, rows: [...found].map(([name, all]) => ({name, spans: all.map(([from, to]) => ({from, to, kind: "hot", text: name}))}))};
}

// The pods that had the GPU, with the origin of their values.
function podBands(series, step, targetOf) {
  const pods = new Map();
  for (const {metric: l, values} of series) {
    const origin = l.__name__ === "gpuscale_exporter_pod_attribution", pod = ownerOf(l, targetOf(l));
    if (!pod || (origin && l.value !== "utilization")) continue;
    const p = group(pods, pod, () => ({name: pod.split("/").slice(1).join("/"), held: [], known: [], util: new Map()}));
    if (origin) p.known.push(...spans(values, step).map(([from, to]) => ({from, to, kind: l.attribution, text: l.attribution})));
    else p.held.push(...spans(values, step).map(([from, to]) => ({from, to, kind: "", text: "on the GPU"})));
    if (/PROCESS_SM_UTIL$/.test(l.__name__)) for (const [t, v] of values) p.util.set(t, (p.util.get(t) || 0) + Number(v));
  }
  return [...pods.values()].map((p) => {
    const utils = [...p.util.values()], first = Math.min(...p.held.concat(p.known).map((s) => s.from));
    return {...p, first, spans: [...p.held, ...p.known], note: utils.length ? `average ${Math.round(utils.reduce((a, b) => a + b, 0) / utils.length)} %` : null};
  }).sort((a, b) => a.first - b.first || (a.name < b.name ? -1 : 1));
}

// A mark per XID that came in this time. The metric is the last XID until the exporter restarts, in a series per XID and pod.
function xidMarks(series) {
  const at = new Map();
  for (const {metric: l, values} of series)
    for (const [t, v] of values) if (!at.has(t) || Number(v) > at.get(t)[0]) at.set(t, [Number(v), l.err_msg]);
  const all = [...at].sort((a, b) => a[0] - b[0]);
  return all.filter(([, [code]], i) => i && code > 0 && code !== all[i - 1][1][0])
    .map(([t, [code, text]]) => ({t, nodes: [h("b", {class: "error-text"}, `XID ${code}`), h("span", {class: "muted"}, text)]}));
}

async function history({start, end, step, ranges}) {
  const names = "DCGM_FI_DEV_(GPU_UTIL|MEM_COPY_UTIL|FB_USED|FB_FREE|FB_RESERVED|GPU_TEMP|MEMORY_TEMP|POWER_USAGE|ENFORCED_POWER_LIMIT|SM_CLOCK|MEM_CLOCK|XID_ERRORS|CLOCKS_EVENT_REASON.*|CLOCK_THROTTLE_REASONS|(POWER|THERMAL)_VIOLATION)" +
    "|DCGM_FI_PROF_GR_ENGINE_ACTIVE|DCGM_EXP_CLOCK_EVENTS_TOTAL|DCGM_CUSTOM_((ILLEGAL_)?PROCESS_SM_UTIL|CONTAINER_MEM_ALLOCATED)|gpuscale_exporter_pod_attribution";
  const [series, targetOf] = await Promise.all([ranges.read(`{__name__=~${quote(names)}, UUID=${quote(uuid)}}`, start, end, step), readGpuTargets()]);
  const byName = new Map();
  for (const s of series) group(byName, s.metric.__name__, () => []).push(s);
  const all = (name) => byName.get(name) || [];
  // One line, or one for each MIG device.
  const lines = (name, metric, hue, factor = 1, dashed = false) => {
    const slices = new Map();
    for (const s of all(metric)) group(slices, sliceOf(s.metric), () => []).push(s);
    const shown = slices.size ? [...slices] : [["", []]];
    return shown.slice(0, maxPods).map(([slice, of], i) => ({name: slice ? `${slice} ${name}` : name, dashed, color: shown.length > 1 ? seriesColor(i) : hue,
      values: factor === 1 ? joined(of) : joined(of).map(([t, v]) => [t, String(Number(v) * factor)])}));
  };
  const has = (metric) => all(metric).length > 0, total = sum([all("DCGM_FI_DEV_FB_USED"), all("DCGM_FI_DEV_FB_FREE"), all("DCGM_FI_DEV_FB_RESERVED")]);
  const pods = podBands(series, step, targetOf).filter((p) => p.util.size).slice(0, maxPods), slow = throttling(series, step);
  const charts = [
    {title: "Utilization, %", top: 100, metric: "DCGM_FI_DEV_GPU_UTIL", lines: [...lines("GPU", "DCGM_FI_DEV_GPU_UTIL", color.value), ...lines("memory traffic", "DCGM_FI_DEV_MEM_COPY_UTIL", color.soft),
      ...(has("DCGM_FI_PROF_GR_ENGINE_ACTIVE") ? lines("compute active", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", color.good, 100) : [])]},
    pods.length > 0 && {title: "Utilization by pod, %", top: 100, metric: "DCGM_CUSTOM_PROCESS_SM_UTIL", lines: pods.map((p, i) => ({name: p.name, color: seriesColor(i), values: [...p.util].sort((a, b) => a[0] - b[0]).map(([t, v]) => [t, String(v)])}))},
    {title: "Memory, GiB", metric: "DCGM_FI_DEV_FB_USED", lines: [...lines("used", "DCGM_FI_DEV_FB_USED", color.value, 1 / 1024), {name: "total", color: color.target, dashed: true, values: total}]},
    {title: "Temperature, °C", metric: "DCGM_FI_DEV_GPU_TEMP", lines: [...lines("GPU", "DCGM_FI_DEV_GPU_TEMP", color.value), ...(has("DCGM_FI_DEV_MEMORY_TEMP") ? lines("memory", "DCGM_FI_DEV_MEMORY_TEMP", color.warm) : [])]},
    {title: "Power, W", metric: "DCGM_FI_DEV_POWER_USAGE", lines: [...lines("used", "DCGM_FI_DEV_POWER_USAGE", color.value), ...(has("DCGM_FI_DEV_ENFORCED_POWER_LIMIT") ? lines("limit", "DCGM_FI_DEV_ENFORCED_POWER_LIMIT", color.target, 1, true) : [])]},
    {title: "Clocks, MHz", metric: "DCGM_FI_DEV_SM_CLOCK", lines: [...lines("SM", "DCGM_FI_DEV_SM_CLOCK", color.value), ...lines("memory", "DCGM_FI_DEV_MEM_CLOCK", color.soft)]},
  ].filter((c) => c).map((c) => ({...c, href: queryPage(c.metric + of)}));
  const legend = Object.entries(origins).map(([name, [, text]]) => h("span", {class: "track-line", title: text}, h("span", {class: "swatch band-span " + name}), name));
  return {charts, marks: xidMarks(all("DCGM_FI_DEV_XID_ERRORS")), bands: [
    {title: "Pods on this GPU", legend, rows: podBands(series, step, targetOf), none: "No pod is named in this time."},
    {title: "Reduced clocks", rows: slow.rows, none: slow.measured ? "The clocks were not reduced in this time."
      : "Not measured. Add DCGM_FI_DEV_CLOCKS_EVENT_REASONS to the counters file of the exporter."}]};
}

// The sum of several metrics in GiB, where all of them have samples (reserved memory may be missing).
function sum(parts) {
  const at = new Map();
  for (const [t, v] of joined(parts[0])) at.set(t, Number(v));
  const add = (values, optional) => {
    const other = new Map(values);
    for (const t of [...at.keys()]) { if (other.has(t)) at.set(t, at.get(t) + Number(other.get(t))); else if (!optional) at.delete(t); }
  };
  add(joined(parts[1]), false);
  add(joined(parts[2]), true);
  return [...at].map(([t, v]) => [t, String(v / 1024)]);
}

export function start(main) {
  const box = h("div"), tracks = new Tracks("History", history);
  heading(main, [["Overview", "./"]], "GPU");
  if (!uuid) {
    main.append(section("GPU", empty("The address names no GPU: /gpu?uuid=…")));
    return;
  }
  main.append(box, tracks.node);
  liveView(box, read, render);
  onData(() => tracks.live() && tracks.update(), historyMs);
}
