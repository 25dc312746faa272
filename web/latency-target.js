// SPDX-License-Identifier: Apache-2.0
// The part of a decision that holds a latency target: each bound with its replicas or the reason why it abstains, what is already
// starting, whether the rest could carry the load, and how long starts take by phase.
import {badge, h, table} from "./dom.js";
import {duration, short} from "./format.js";
import {bar} from "./object.js";

const plural = (n) => n === 1 ? "" : "s";
const replicas = (n) => `${n} replica${plural(n)}`;
const documentation = "https://github.com/gpuscale/gpuscale/blob/main/docs/latency-target.md";

function boundRow(b, decides) {
  const abstains = b.proposal === undefined || b.proposal === null;
  return {class: abstains ? "stale" : "", cells: [h("b", null, b.name), abstains ? badge("", "abstains") : [String(b.proposal), decides && [" ", badge("ok", "decides")]],
    abstains ? b.abstains || "" : b.text || ""]};
}

const boundTable = (s) => table(["Bound", "Replicas", {name: "Reason", class: "wide"}], s.bounds.map((b) => boundRow(b, b.name === s.decider)), {class: "bounds"});

const factRow = (name, state, text) => [name, [state, text && [" ", text]]];

function facts(s) {
  const rows = [];
  if (s.credit && (s.credit.starting > 0 || s.credit.text)) rows.push(factRow("Starting", badge(s.credit.starting > 0 ? "pending" : "", replicas(s.credit.starting || 0)), s.credit.text));
  if (s.forecast && s.forecast.growth > 1) rows.push(factRow("Forecast", badge("pending", `${short(s.forecast.growth)} times`), s.forecast.text));
  if (s.guard && s.guard.text) rows.push(factRow("Scale-down", badge(s.guard.holds ? "ok" : "pending", s.guard.holds ? "the others hold" : "the others do not hold"), s.guard.text));
  const c = s.capacity;
  if (c) rows.push(factRow("Capacity in advance", badge(c.error ? "down" : c.placeholders > 0 ? "pending" : "", `${c.placeholders} placeholder${plural(c.placeholders)}`), c.error ? `${c.text}. Not written: ${c.error}` : c.text));
  return rows.length > 0 && table(["Name", {name: "Value", class: "wide"}], rows, {class: "facts-table"});
}

// s: the member "slo" of an explanation.
export function latencyTarget(s) {
  const head = h("h2", null, "Latency target", s.annotation && h("code", {class: "file"}, s.annotation), s.applied === false && badge("pending", "shadow: not applied"), h("a", {class: "file", href: documentation}, "how it decides"));
  if (s.error) return h("section", {class: "group-box latency-target"}, head, h("div", {class: "metric-facts"}, badge("down", "no decision"), h("p", {class: "why"}, s.error)));
  const pressure = Number.isFinite(s.pressure), end = Math.max(2, 1.25 * s.pressure || 0);
  return h("section", {class: "group-box latency-target"}, head,
    h("div", {class: "metric-facts"},
      h("div", {class: "metric-big"}, h("b", null, s.proposal === undefined || s.proposal === null ? "no proposal" : replicas(s.proposal)), pressure ? h("span", {class: "muted"}, ` pressure ${short(s.pressure)} of 1`) : h("span", {class: "muted"}, " no latency was measured")),
      pressure && bar(s.pressure, end, 1, "wide-bar" + (s.pressure > 1 ? " over" : "")),
      s.hold && h("p", {class: "why"}, badge("pending", "held"), " ", s.hold)),
    s.bounds && s.bounds.length > 0 && boundTable(s), facts(s));
}

// --- starts ---

const phaseNames = [["pending", "waits for a place"], ["node", "node is created"], ["pull", "image is pulled"], ["container", "container is created"], ["load", "model is loaded"]];
const seconds = (phase) => Number(phase && phase.p50Seconds !== undefined ? phase.p50Seconds : phase);

// Bars and a list of the phases of starts: {load: {p50Seconds} or seconds, …}.
export function phaseStrip(of) {
  const phases = phaseNames.map(([name, text]) => ({name, text, s: seconds((of || {})[name])})).filter((phase) => phase.s > 0), sum = phases.reduce((all, phase) => all + phase.s, 0);
  const strip = h("span", {class: "phases", role: "img", "aria-label": phases.map((phase) => `${phase.text}: ${duration(phase.s)}`).join(", ")}, phases.map((phase) => {
    const part = h("span", {class: "phase phase-" + phase.name, title: `${phase.text}: ${duration(phase.s)}`});
    part.style.width = `${100 * phase.s / sum}%`;
    return part;
  }));
  return phases.length ? [strip, h("div", {class: "phase-list"}, phases.map((phase) => h("span", null, h("span", {class: "swatch phase-" + phase.name}), `${phase.text} ${duration(phase.s)}`)))] : h("span", {class: "missing"}, "phases unknown");
}

function pathRow(p) {
  return [p.path || "all starts", [duration(p.p90Seconds), p.p50Seconds !== undefined && h("div", {class: "muted"}, `median ${duration(p.p50Seconds)}`)],
    [String(p.n ?? "–"), p.failed > 0 && h("div", null, badge("down", `${p.failed} failed`))],
    [phaseStrip(p.phases),
    (p.image || p.gpu) && h("div", {class: "phase-list"}, [p.image, p.gpu].filter((t) => t).map((t) => h("span", null, t)))]];
}

// How long starts take, by phase, on each path. Nothing: no start is known.
export function startPhases(startup) {
  const known = startup && startup.paths && startup.paths.length ? startup.paths : [startup], paths = known.filter((p) => p && p.phases && p.n > 0);
  return paths.length > 0 && h("section", {class: "group-box"}, h("h2", null, "Starts of replicas", h("span", {class: "file"}, "medians")),
    table([{name: "Path", class: "path"}, {name: "90 % within", class: "number"}, {name: "Starts", class: "number"}, {name: "Phases", class: "wide"}], paths.map(pathRow), {class: "starts"}));
}
