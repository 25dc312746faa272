// SPDX-License-Identifier: Apache-2.0
// What an autoscaler does and why, from its explanation.
import {get} from "./api.js";
import {instant, short, time} from "./format.js";

const plural = (n) => n === 1 ? "" : "s";

export const unit = (m) => m.target.type === "Utilization" ? " %" : "";

// Why the latency target decides; nothing: a metric wants more, or the target is not applied.
function byTarget(e, lead) {
  const s = e.slo;
  if (!s || s.applied === false || !Number.isFinite(s.proposal) || (lead && lead.proposal > s.proposal)) return "";
  const first = (s.bounds || []).find((b) => b.proposal === s.proposal);
  return s.hold ? `its latency target is held: ${s.hold}` : `its latency target needs ${s.proposal} replica${plural(s.proposal)}${first && first.text ? ` (${first.name}: ${first.text})` : ""}`;
}

// What the autoscaler does, in one sentence: [kind of notice, text].
export function sentence(e) {
  const r = e.replicas, of = (n) => `${n} replica${plural(n)}`, active = e.conditions.find((c) => c.type === "ScalingActive");
  const bad = e.conditions.find((c) => c.status === "False" && (c.type === "AbleToScale" || c.type === "ScalingActive"));
  if (r.current === undefined) return ["error", `It cannot scale: ${bad ? bad.message : "the scale of its target could not be read"}.`];
  if (bad && !(active && active.reason === "ScalingDisabled")) return ["error", `It keeps ${of(r.current)} because it cannot calculate: ${bad.message}.`];
  if (bad) return ["warning", `It is paused at ${of(r.current)}: ${bad.message}.`];
  if (r.current === 0 && r.desired === 0 && e.zero && e.zero.reason) return ["info", `It is at zero replicas${e.zero.since ? ` since ${time(instant(e.zero.since))}` : ""}: ${e.zero.reason}.`];
  const lead = e.metrics.filter((m) => m.ok).sort((x, y) => y.proposal - x.proposal)[0];
  const target = byTarget(e, lead);
  const value = target || (lead && lead.value === undefined ? `${lead.name} has no average without replicas` : lead ? `${lead.name} is ${short(lead.value)}${unit(lead)}, its target ${short(lead.target.value)}${unit(lead)}` : e.reason || "no metric was needed");
  const held = e.held ? ` (${e.held})` : "";
  if (r.desired > r.current) return ["info", `It scales up from ${r.current} to ${of(r.desired)} because ${value}${held}.`];
  if (r.desired < r.current) return ["info", `It scales down from ${r.current} to ${of(r.desired)} because ${value}${held}.`];
  if (held && r.proposal !== undefined && r.proposal !== r.current) return ["info", `It keeps ${of(r.current)}, although its metrics want ${r.proposal}: ${e.held}. ${lead && !target ? value : value[0].toUpperCase() + value.slice(1)}.`];
  return ["info", `It keeps ${of(r.current)} because ${value}${target ? "" : lead && lead.explanation.includes("with assumed values") ? ", which needs no change with the values that are assumed for pods without one" : lead && lead.ratio !== 1 && lead.explanation.includes("inside") ? ", which is within the tolerance" : lead && lead.ratio !== 1 && lead.proposal === r.current ? `, which needs ${of(lead.proposal)}` : ""}.`];
}

// Seconds: the age of the oldest value that counts. NaN: none counts.
function oldest(e) {
  const ages = e.metrics.flatMap((m) => [...(m.pods || []).filter((p) => p.counted), ...(m.series || [])]).map((s) => s.ageSeconds).filter((s) => s !== undefined);
  return ages.length ? Math.max(...ages) : NaN;
}

// The reason of the newest event about a change to these replicas.
function lastReason(e, to) {
  const event = (e.events || []).find((one) => one.reason === "SuccessfulRescale");
  return event && event.message.startsWith(`New size: ${to};`) ? event.message.replace(/^New size: \d+; reason: /, "") : "";
}

const rereadMs = 15000, withoutClusterMs = 300000, name = /^[a-z0-9.-]+$/;

// The decisions of several autoscalers. They are read one after another, and again when the status changes or after some seconds.
export class Decisions {
  constructor(changed) {
    this.changed = changed;
    this.known = new Map();
    this.again = 0; // ms: no explanation is requested before; the server has no cluster
  }

  // {kind, text, since, age, why}; undefined: not read, or there is no explanation.
  of(a) { return this.known.get(a.key)?.decision; }

  // hpas: those that the reader sees. The others are forgotten.
  async read(hpas) {
    for (const key of this.known.keys()) if (!hpas.some((a) => a.key === key)) this.known.delete(key);
    for (const a of hpas) {
      const status = JSON.stringify([a.current, a.desired, a.conditions]), known = this.known.get(a.key), now = Date.now();
      if (now < this.again || !name.test(a.ns) || !name.test(a.name) || (known && known.status === status && now - known.at < rereadMs)) continue;
      let decision;
      try {
        const e = await get("gpuscale/explain", {namespace: a.ns, name: a.name}), [kind, text] = sentence(e);
        decision = {kind, text, since: Date.now() / 1000, age: oldest(e), why: a.change ? lastReason(e, a.change.to) : ""};
      } catch (error) {
        if (error.type === "unavailable" && /--kubeconfig/.test(error.message)) this.again = now + withoutClusterMs;
      }
      this.known.set(a.key, {at: now, status, decision});
      this.changed();
    }
  }
}
