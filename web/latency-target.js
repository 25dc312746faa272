// SPDX-License-Identifier: Apache-2.0
// The part of a decision that holds a latency target: each bound with its replicas or the reason why it abstains, what is already
// starting, whether the rest could carry the load, and how long starts take by phase.
import {badge, h, table} from "./dom.js";
import {duration, short} from "./format.js";
import {bar} from "./object.js";

const plural = (n) => n === 1 ? "" : "s";
const replicas = (n) => `${n} replica${plural(n)}`;
const documentation = "https://github.com/gpuscale/gpuscale/blob/main/docs/latency-target.md";

// The largest proposal of the bounds decides.
function boundRow(b, largest) {
  const abstains = b.proposal === undefined || b.proposal === null;
  return {class: abstains ? "stale" : "", cells: [h("b", null, b.name), abstains ? badge("", "abstains") : [String(b.proposal), b.proposal === largest && [" ", badge("ok", "decides")]],
    abstains ? b.abstains || "" : b.text || ""]};
}

const boundTable = (bounds) => table(["Bound", "Replicas", {name: "Reason", class: "wide"}], bounds.map((b) => boundRow(b, Math.max(...bounds.map((one) => one.proposal ?? -1)))), {class: "bounds"});

const factRow = (name, state, text) => [name, [state, text && [" ", text]]];

function facts(s) {
  const rows = [];
  if (s.credit) rows.push(factRow("Starting", badge(s.credit.starting > 0 ? "pending" : "", replicas(s.credit.starting || 0)), s.credit.text));
  if (s.guard) rows.push(factRow("Scale-down", badge(s.guard.holds ? "ok" : "pending", s.guard.holds ? "the others hold" : "the others do not hold"), s.guard.text));
  return rows.length > 0 && table(["Name", {name: "Value", class: "wide"}], rows, {class: "facts-table"});
}

// s: the member "slo" of an explanation.
export function latencyTarget(s) {
  const pressure = Number.isFinite(s.pressure), end = Math.max(2, 1.25 * s.pressure || 0);
  return h("section", {class: "group-box latency-target"}, h("h2", null, "Latency target", s.policy && h("code", {class: "file"}, s.policy), s.mode === "shadow" && badge("pending", "shadow: not applied"), h("a", {class: "file", href: documentation}, "how it decides")),
    h("div", {class: "metric-facts"},
      h("div", {class: "metric-big"}, h("b", null, s.proposal === undefined || s.proposal === null ? "no proposal" : replicas(s.proposal)), pressure ? h("span", {class: "muted"}, ` pressure ${short(s.pressure)} of 1`) : h("span", {class: "muted"}, " no latency was measured")),
      pressure && bar(s.pressure, end, 1, "wide-bar" + (s.pressure > 1 ? " over" : "")),
      s.hold && h("p", {class: "why"}, badge("pending", "held"), " ", s.hold)),
    s.bounds && s.bounds.length > 0 && boundTable(s.bounds), facts(s));
}

// --- starts ---

const phaseNames = [["pending", "waits for a place"], ["node", "node is created"], ["pull", "image is pulled"], ["container", "container is created"], ["load", "model is loaded"], ["warm", "first requests"]];

function pathRow(p) {
  const phases = phaseNames.filter(([name]) => p.phases && p.phases[name] > 0), sum = phases.reduce((all, [name]) => all + p.phases[name], 0);
  const strip = h("span", {class: "phases", role: "img", "aria-label": phases.map(([name, text]) => `${text}: ${duration(p.phases[name])}`).join(", ")}, phases.map(([name, text]) => {
    const part = h("span", {class: "phase phase-" + name, title: `${text}: ${duration(p.phases[name])}`});
    part.style.width = `${100 * p.phases[name] / sum}%`;
    return part;
  }));
  return [p.path || "all starts", [duration(p.p90Seconds), p.p50Seconds !== undefined && h("div", {class: "muted"}, `median ${duration(p.p50Seconds)}`)],
    [String(p.n ?? p.samples ?? "–"), p.failed > 0 && [" ", badge("down", `${p.failed} failed`)]],
    phases.length ? [strip, h("div", {class: "phase-list"}, phases.map(([name, text]) => h("span", null, h("span", {class: "swatch phase-" + name}), `${text} ${duration(p.phases[name])}`)))] : h("span", {class: "missing"}, "phases unknown")];
}

// The paths of starts with their phases: one, or a list. Nothing: no start has phases.
export function startPhases(startup) {
  const paths = [startup].flat().flatMap((s) => s && s.paths || s || []).filter((p) => p.phases);
  return paths.length > 0 && h("section", {class: "group-box"}, h("h2", null, "Starts of replicas"),
    table(["Path", {name: "90 % within", class: "number"}, {name: "Starts", class: "number"}, {name: "Phases", class: "wide"}], paths.map(pathRow), {class: "starts"}));
}
