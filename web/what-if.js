// SPDX-License-Identifier: Apache-2.0
// The decision of an autoscaler with other settings, by the function that the controller uses. Sliders begin at the real
// settings; each change is answered at once.
import {get} from "./api.js";
import {h, replace} from "./dom.js";
import {parseDuration} from "./format.js";
import {History} from "./what-if-history.js";

const pauseMs = 60;
const plural = (n) => n === 1 ? "" : "s";

// A round number of at least v: 1, 2, 5, 10, …
function round(v) {
  const size = 10 ** Math.floor(Math.log10(v));
  return [1, 2, 5, 10].map((f) => f * size).find((s) => s >= v * 0.999999);
}

// {key, text, min, max, step, value, unit, scale}; the request has value / scale.
function settingsOf(e) {
  const targets = e.metrics.map((m, i) => {
    const v = m.target.value, percent = m.target.type === "Utilization", end = percent ? Math.max(100, v) : round(Math.max(4 * v, 1.5 * (m.value || 0)));
    const step = percent ? 1 : Math.max(round(end / 500), 0.001);
    const unique = e.metrics.filter((other) => other.name === m.name).length === 1;
    return {key: e.metrics.length === 1 ? "target" : `target.${unique ? m.name : i + 1}`, text: e.metrics.length > 1 ? `Target of ${m.name}` : "Target", min: step, max: end, step, value: v, unit: percent ? " %" : "", scale: 1};
  });
  const most = Math.max(round(2 * e.replicas.max), 10), up = e.limits.scaleUp.tolerance;
  return [...targets, {key: "min", text: "Minimum", min: Math.min(1, e.replicas.min), max: most, step: 1, value: e.replicas.min, unit: "", scale: 1},
    {key: "max", text: "Maximum", min: 1, max: most, step: 1, value: e.replicas.max, unit: "", scale: 1},
    {key: "tolerance", text: "Tolerance", min: 0, max: Math.max(50, 100 * up), step: 1, value: Math.round(1e6 * up) / 1e4, unit: " %", scale: 100}];
}

// Of the latency target, in seconds; 0: none. They are calculated on recorded history only.
const targetKeys = [["ttft", "First token", 10], ["itl", "Between tokens", 0.5]];

// "50ms" of "ttft=1s,itl=50ms".
function targetOf(annotation, key) {
  const found = (annotation || "").split(",").map((part) => part.trim().split("=")).find(([name]) => name === key);
  return found ? parseDuration(found[1]) || 0 : 0;
}

const targetSettings = (e) => targetKeys.map(([key, text, max]) => {
  const value = targetOf(e.slo && e.slo.annotation, key);
  return {key: "slo." + key, text, min: 0, max: Math.max(max, 2 * value), step: max / 200, value, unit: " s", scale: 1, recorded: true};
});

export class WhatIf {
  constructor(ns, name) {
    this.object = {namespace: ns, name};
    this.body = h("div", {class: "what-if"});
    this.result = h("output", {class: "what-if-result", "aria-live": "polite"});
    this.reset = h("button", {type: "button", onclick: () => { this.built = ""; this.update(this.explained); }}, "Reset");
    this.history = new History();
    this.node = h("section", {class: "group-box", hidden: true}, h("h2", null, "What if", h("span", {class: "file"}, "the decision now, with other settings")), this.body, this.result, this.reset, this.history.node);
    this.settings = [];
  }

  // The explanation with the real settings; nothing: there is none.
  // engines: the workload has inference engines.
  update(e, engines) {
    this.node.hidden = !e || !e.metrics.length && !this.built;
    if (!e) return;
    this.explained = e;
    // Other settings of the object, or a reset.
    const real = JSON.stringify([e.metrics.map((m) => [m.name, m.target]), e.replicas.min, e.replicas.max, e.limits.scaleUp.tolerance, e.slo && e.slo.annotation, Boolean(engines)]);
    this.engines = engines;
    if (this.built !== real && (e.metrics.length || !this.built)) this.build(real);
    this.ask();
  }

  build(real) {
    this.built = real;
    this.settings = [...settingsOf(this.explained), ...(this.engines ? targetSettings(this.explained) : [])];
    replace(this.body, this.settings.map((s) => {
      const id = "what-if-" + s.key;
      s.now = s.value;
      const change = (value) => {
        if (value === "" || !Number.isFinite(Number(value))) return;
        s.now = Number(value);
        s.range.value = s.now;
        if (document.activeElement !== s.field) s.field.value = s.now;
        s.row.className = "slider" + (s.now === s.value ? "" : " changed");
        this.ask();
      };
      s.range = h("input", {type: "range", id, min: s.min, max: s.max, step: s.step, value: s.value, "aria-valuetext": `${s.value}${s.unit}`, oninput: (event) => { change(event.target.value); event.target.setAttribute("aria-valuetext", `${s.now}${s.unit}`); }});
      s.range.value = s.value;
      s.field = h("input", {type: "number", min: 0, step: "any", value: s.value, "aria-label": s.text, oninput: (event) => change(event.target.value), onblur: () => { s.field.value = s.now; }});
      return s.row = h("div", {class: "slider"}, h("label", {for: id}, s.text), s.range, h("span", {class: "slider-value"}, s.field, s.unit));
    }));
  }

  // recorded: with those that only recorded history has.
  parameters(recorded) {
    const changed = this.settings.filter((s) => s.now !== s.value && (recorded || !s.recorded));
    const text = (s) => String(Math.round(1e9 * s.now / s.scale) / 1e9);
    return changed.length ? Object.fromEntries(changed.map((s) => [s.key, s.recorded ? s.now > 0 ? text(s) + "s" : "" : text(s)])) : null;
  }

  // One request at a time; the newest settings are asked afterwards.
  async ask() {
    if (this.busy) {
      this.again = true;
      return;
    }
    const parameters = this.parameters(), all = this.parameters(true);
    this.reset.hidden = !all;
    this.history.update(this.explained, all);
    if (!parameters) {
      replace(this.result, h("p", {class: "muted"}, all ? "The latency target is calculated on recorded history: choose a time below." : "Move a slider. Nothing is changed in the cluster."));
      return;
    }
    this.busy = true;
    this.again = false;
    try {
      const e = await get("gpuscale/explain", {...this.object, ...parameters});
      if (!this.again) this.show(e);
    } catch (error) {
      replace(this.result, h("p", {class: "error-text"}, error.message));
    }
    setTimeout(() => {
      this.busy = false;
      if (this.again) this.ask();
    }, pauseMs);
  }

  show(e) {
    const now = this.explained.replicas, r = e.replicas, wanted = r.proposal === undefined ? r.desired : Math.min(Math.max(r.proposal, r.min), r.max);
    const same = r.desired === now.desired, later = wanted !== undefined && wanted !== r.desired;
    replace(this.result,
      h("p", {class: "what-if-head"}, h("b", null, `${r.desired ?? "–"} replica${plural(r.desired)}`), h("span", {class: "muted"}, same ? "as now" : `instead of ${now.desired}`),
        later && h("span", {class: "badge pending"}, `later ${wanted}`)),
      e.metrics.map((m) => h("p", {class: "why"}, m.explanation)), (e.reason || e.held) && h("p", {class: "muted"}, [e.reason, e.held].filter((t) => t).join("; ")));
  }
}
