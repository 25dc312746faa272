// SPDX-License-Identifier: Apache-2.0
// Zero replicas: since when and why a target has none, what keeps its last replica, and its starts from zero.
import {badge, h, table} from "./dom.js";
import {ago, duration, instant, time} from "./format.js";
import {phaseStrip} from "./latency-target.js";

const at = (text) => text ? h("span", {title: time(instant(text))}, ago(text)) : h("span", {class: "missing"}, "–");

function wakeRow(w) {
  const asleep = w.since && w.time ? duration(instant(w.time) - instant(w.since)) : "–";
  const ready = w.readySeconds !== undefined ? duration(w.readySeconds) : w.failed ? badge("down", "no pod was ready") : badge("pending", "starts");
  return [at(w.time), asleep, ready, [w.phases && phaseStrip(w.phases), h("div", {class: "phase-list"}, [w.path, w.reason].filter((t) => t).map((t) => h("span", null, t)))]];
}

// zero: the member of an explanation. Nothing: the target cannot be at zero, or nothing is known.
export function zeroBox(zero) {
  const wakes = zero && zero.wakes || [], check = zero && zero.check;
  if (!zero || (!zero.reason && !check && !wakes.length)) return null;
  const text = zero.reason ? `${zero.reason[0].toUpperCase()}${zero.reason.slice(1)}.` : check ? `${check.held ? "The last replica remains" : "The last replica may end"}: ${check.text}.` : "";
  return h("section", {class: "group-box zero"}, h("h2", null, "Zero replicas", zero.reason && badge("inactive", zero.since ? `for ${ago(zero.since).replace(" ago", "")}` : "now"), !zero.reason && check && badge(check.held ? "ok" : "pending", check.held ? "in use" : "not in use")),
    text && h("div", {class: "metric-facts"}, h("p", {class: "why", title: zero.since ? time(instant(zero.since)) : ""}, text)),
    wakes.length > 0 && table(["Woken", {name: "Was at zero", class: "number"}, {name: "Ready after", class: "number"}, {name: "Phases", class: "wide"}], wakes.map(wakeRow), {class: "starts wakes"}));
}
