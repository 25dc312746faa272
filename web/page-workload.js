// SPDX-License-Identifier: Apache-2.0
// One autoscaler: what it does and why, its metrics and pods, its decision with other settings, and its history.
import {get} from "./api.js";
import {gpuBudgets} from "./budget.js";
import {sentence, unit} from "./decision.js";
import {badge, empty, h, notice, replace, table} from "./dom.js";
import {age, ago, duration, instant as parseInstant, short, time} from "./format.js";
import {readInference} from "./inference-data.js";
import {inferenceTable, simulatedEngines} from "./inference-view.js";
import {latencyTarget, startPhases} from "./latency-target.js";
import {onData} from "./live.js";
import {instant, quote} from "./overview-data.js";
import {Timeline, workloadCharts} from "./timeline.js";
import {start as startList} from "./page-workloads.js";
import {fold, liveView} from "./view.js";
import {WhatIf} from "./what-if.js";
import {zeroBox} from "./zero.js";

const params = new URLSearchParams(location.search), ns = params.get("namespace") || "", name = params.get("name") || "";
export const title = name ? name : "Workloads";

const timelineMs = 5000, podsAtOnce = 50, missing = (text) => h("span", {class: "missing"}, text);
const plural = (n) => n === 1 ? "" : "s";

// --- data ---

const typeOfTarget = {Utilization: "utilization", AverageValue: "average", Value: "value"};

// From the series, where there is no explanation.
async function readSeries() {
  const of = `{namespace=${quote(ns)}, horizontalpodautoscaler=${quote(name)}}`;
  const series = await instant(`{__name__=~"kube_horizontalpodautoscaler_(info|spec_(min|max)_replicas|(spec|status)_target_metric|status_(current|desired)_replicas)", ${of.slice(1)}`);
  const a = {ns, name, key: `${ns}/${name}`, metrics: [], found: series.length > 0};
  const metric = (l) => {
    let m = a.metrics.find((one) => one.name === l.metric_name && one.type === l.metric_target_type);
    if (!m) a.metrics.push(m = {name: l.metric_name, type: l.metric_target_type});
    return m;
  };
  for (const {labels: l, value} of series) {
    switch (l.__name__.slice("kube_horizontalpodautoscaler_".length)) {
    case "info": a.target = l.scaletargetref_name; a.kind = l.scaletargetref_kind; break;
    case "spec_min_replicas": a.min = value; break;
    case "spec_max_replicas": a.max = value; break;
    case "status_current_replicas": a.current = value; break;
    case "status_desired_replicas": a.desired = value; break;
    case "spec_target_metric": metric(l).target = value; break;
    case "status_target_metric": metric(l).current = value; break;
    }
  }
  return a;
}

let explainedOnce = false;

async function readWorkload() {
  const [series, explained] = await Promise.all([readSeries(), get("gpuscale/explain", {namespace: ns, name}).then((e) => ({e}), (error) => ({error}))]);
  const e = explained.e;
  // Shown again after a failure that will pass.
  if (!e && (explainedOnce || !series.found)) throw explained.error;
  explainedOnce = Boolean(e);
  if (e && !series.found) {
    series.target = e.target.split("/")[1];
    series.metrics = e.metrics.map((m) => ({name: m.name, type: typeOfTarget[m.target.type], target: m.target.value, current: m.value}));
  }
  const inference = series.target ? await readInference(ns, series.target).catch(() => []) : [];
  return {a: series, e, inference, why: explained.error && explained.error.message};
}

// --- parts ---

const tile = (label, value, note, kind) => h("div", {class: "tile " + (kind || "")}, h("span", {class: "tile-name"}, label), h("span", {class: "tile-value"}, value), note && h("span", {class: "tile-note"}, note));

function tiles({a, e}) {
  const r = e ? e.replicas : {current: a.current, desired: a.desired, min: a.min, max: a.max};
  const pods = e ? Math.max(0, ...e.metrics.map((m) => (m.pods || []).length)) : 0, counted = e ? Math.max(0, ...e.metrics.map((m) => (m.pods || []).filter((p) => p.counted).length)) : 0;
  const metrics = e ? e.metrics : a.metrics.map((m) => ({name: m.name, value: m.current, target: {value: m.target, type: ""}}));
  return h("div", {class: "tiles"},
    tile("Replicas", r.current ?? "–", r.desired !== undefined && r.desired !== r.current ? `→ ${r.desired}` : `of ${r.min ?? 1} to ${r.max ?? "?"}`, r.desired !== undefined && r.desired !== r.current ? "warn" : ""),
    pods > 0 && tile("Pods that count", `${counted} / ${pods}`, null, counted < pods ? "warn" : ""),
    metrics.map((m) => tile(m.name, m.value === undefined ? "–" : short(m.value) + unit(m), m.value === undefined ? (m.ok ? "no replicas" : "no value") : `target ${short(m.target.value)}${unit(m)}`, m.value === undefined && !m.ok ? "bad" : "")),
    e && e.startup && (e.startup.n ?? e.startup.samples) > 0 && tile("Start of a replica", duration(e.startup.p50Seconds), `median of ${e.startup.n ?? e.startup.samples}; 90 %: ${duration(e.startup.p90Seconds)}${e.startup.failed ? `; ${e.startup.failed} failed` : ""}`, e.startup.failed ? "warn" : ""));
}

function bar(value, target) {
  const end = Math.max(value || 0, target || 0) * 1.25 || 1, percent = (v) => `${Math.max(0, Math.min(100, 100 * v / end))}%`;
  const fill = h("span", {class: "bar-fill"}), mark = h("span", {class: "bar-mark"});
  fill.style.width = percent(value);
  mark.style.left = percent(target);
  return h("span", {class: "bar wide-bar" + (value > target * 1.1 ? " over" : "")}, fill, mark);
}

function podRows(m) {
  const pods = m.pods.slice(0, podsAtOnce);
  return [table([{name: "Pod", class: "wide"}, {name: "Value", class: "number"}, {name: "Age", class: "number"}, "Counted"], pods.map((p) => ({class: p.counted ? "" : "stale", cells: [
    h("span", {title: p.owner || ""}, p.name), p.value === undefined ? missing("–") : p.value + (p.request ? ` of ${p.request}` : ""),
    p.ageSeconds === undefined ? missing("–") : age(p.ageSeconds), p.counted ? badge("ok", "yes") : h("span", {class: "how"}, p.how)]})), {class: "pods"}),
  m.pods.length > pods.length && h("p", {class: "muted more"}, `and ${m.pods.length - pods.length} more pods`)];
}

const metricBox = (m, i) => h("section", {class: "group-box"}, h("h2", null, m.name, h("span", {class: "file"}, `${m.type} metric`)),
  h("div", {class: "metric-facts"},
    m.ok && m.value === undefined ? badge("inactive", "no average without replicas") : m.ok ? [h("div", {class: "metric-big"}, h("b", null, short(m.value) + unit(m)), h("span", {class: "muted"}, ` target ${short(m.target.value)}${unit(m)} · ratio ${m.ratio === undefined ? "–" : short(m.ratio)} · ${m.proposal} replica${plural(m.proposal)}`)), bar(m.value, m.target.value)] : badge("down", "no value"),
    h("p", {class: "why"}, m.explanation),
    (m.below || m.above) && h("p", {class: "muted"}, [m.below && `At ${m.below.at} it scales to ${m.below.desired}. `, m.above && `At ${m.above.at} it scales to ${m.above.desired}.`])),
  m.pods && (m.pods.length ? fold("pods " + i, m.pods.length <= 12, [h("b", null, `${m.pods.length} pod${plural(m.pods.length)}`), h("span", {class: "muted"}, `${m.pods.filter((p) => p.counted).length} counted`)], podRows(m)) : empty("No pods match the selector of its target.")),
  m.series && m.series.length > 0 && table(["Series", {name: "Value", class: "number"}, {name: "Age", class: "number"}], m.series.slice(0, podsAtOnce).map((s, k) => [String(k + 1), s.value, age(s.ageSeconds)])));

const policyText = (p) => `${p.value}${p.type === "Percent" ? " %" : ` pod${plural(p.value)}`} per ${duration(p.periodSeconds)}`;

function rulesText(r, up, replicas) {
  const words = [];
  if (r.selectPolicy === "Disabled") words.push("disabled");
  else if (r.policies) words.push(r.policies.map(policyText).join(r.selectPolicy === "Min" ? " and " : " or ") + (r.policies.length > 1 ? `, the ${r.selectPolicy === "Min" ? "smaller" : "larger"} change` : ""));
  else if (up) words.push("at most double, or 4, in one sync");
  words.push(r.windowSeconds ? `${up ? "lowest" : "highest"} recommendation of the last ${duration(r.windowSeconds)}` : "no stabilization window", `tolerance ${short(100 * r.tolerance)} %`);
  const reach = up ? Math.min(r.most ?? replicas.max, replicas.max) : Math.max(r.least ?? 0, replicas.min);
  return [up ? "Scale-up" : "Scale-down", h("span", null, words.join("; "), r.most !== undefined || r.least !== undefined ? h("div", {class: "muted"}, `In this sync: ${up ? "at most" : "at least"} ${reach} replica${plural(reach)}`) : null)];
}

const limits = (e) => h("section", {class: "group-box"}, h("h2", null, "Limits"), table(["", ""], [
  ["Replicas", `${e.replicas.min} to ${e.replicas.max}`], rulesText(e.limits.scaleUp, true, e.replicas), rulesText(e.limits.scaleDown, false, e.replicas)], {class: "facts-table"}));

const conditions = (e) => h("section", {class: "group-box"}, h("h2", null, "Conditions"), e.conditions.length ? table(["Type", "Status", {name: "Reason", class: "wide"}], e.conditions.map((c) => [
  c.type, badge(c.status === "True" ? c.type === "ScalingLimited" ? "pending" : "ok" : c.type === "ScalingLimited" ? "ok" : "down", c.status), [h("b", null, c.reason), h("div", {class: "muted"}, c.message)]])) : empty("None."));

const events = (e) => e.events && h("section", {class: "group-box"}, h("h2", null, "Events"), e.events.length ? h("div", {class: "tall", "data-scroll": "events"}, table(["Age", "Reason", {name: "Message", class: "wide"}], e.events.map((one) => [
  h("span", {title: time(parseInstant(one.time))}, ago(one.time)), badge(one.type === "Warning" ? "pending" : "", one.reason + (one.count > 1 ? ` ×${one.count}` : "")), one.message]))) : empty("None."));

const command = `gpuscale explain hpa ${name} -n ${ns}`;

// --- page ---

export function start(main) {
  if (!ns || !name) {
    startList(main); // the address names no autoscaler
    return;
  }
  let data = null;
  const reasons = new Map(); // seconds: message
  // The event of a change of the replicas: of the same size, and within ten seconds.
  const reason = (m) => {
    for (const [t, text] of reasons) if (Math.abs(t - m.t) < 10 + 2 && text.startsWith(`New size: ${m.to};`)) return h("span", {class: "muted"}, text.replace(/^New size: \d+; reason: /, ""));
    return null;
  };
  const timeline = new Timeline(workloadCharts, reason), whatIf = new WhatIf(ns, name);
  const subtitle = h("p", {class: "subtitle muted"}), head = h("div"), left = h("div"), targetBox = h("div"), limitsBox = h("div"), inferenceBox = h("div"), right = h("div", null, whatIf.node), bottom = h("div", {class: "workload-bottom"});
  main.append(subtitle, head, inferenceBox, h("div", {class: "overview"}, h("div", null, targetBox, left, limitsBox), right), timeline.node, bottom);

  liveView(left, readWorkload, (next) => {
    const first = !data, {a, e, inference, why} = data = next;
    replace(subtitle, ns, " · ", e ? e.target.replace("/", " ") : `${a.kind || ""} ${a.target || ""}`);
    const [kind, text] = e ? sentence(e) : ["warning", `No explanation: ${why}`];
    replace(head, h("p", {class: "notice sentence " + kind}, text), tiles(data));
    replace(inferenceBox, inference.length > 0 && [inference.some((r) => r.simulated) && simulatedEngines(),
      h("section", {class: "group-box"}, h("h2", null, "Inference", h("a", {class: "file", href: "inference"}, "all engines")), inferenceTable(inference))]);
    whatIf.update(e, inference.length > 0);
    for (const one of (e && e.events) || []) if (one.reason === "SuccessfulRescale") reasons.set(parseInstant(one.time), one.message);
    while (reasons.size > 200) reasons.delete(reasons.keys().next().value);
    if (first) timeline.update(a);
    const selection = getSelection();
    if (!(selection && !selection.isCollapsed && bottom.contains(selection.anchorNode)))
      replace(bottom, e && [h("div", {class: "columns"}, conditions(e), events(e)), h("section", {class: "group-box"}, h("h2", null, "Explanation", h("code", {class: "file"}, command)),
        h("pre", {class: "explanation", tabindex: "0", "aria-label": "Explanation"}, e.text))]);
    replace(targetBox, e && e.slo && latencyTarget(e.slo), e && e.budget && gpuBudgets(e.budget, `${ns}/${name}`));
    replace(limitsBox, e && [zeroBox(e.zero), startPhases(e.startup), limits(e)]);
    return e ? e.metrics.length ? e.metrics.map(metricBox) : notice("info", "No metric was needed for this decision.") : notice("info", "The charts below come from recorded series. An explanation is calculated from the cluster's API, by gpuscale up, or by an engine with access to a cluster.");
  });
  onData(() => data && timeline.live() && timeline.update(data.a), timelineMs);
}
