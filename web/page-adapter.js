// SPDX-License-Identifier: Apache-2.0
// The metrics adapter: the APIs that it serves, its sources, rules and metrics, with their ages and errors.
import {get} from "./api.js";
import {badge, empty, h, notice, table} from "./dom.js";
import {age, count, duration, short, time} from "./format.js";
import {pollOnly} from "./live.js";
import {filterBar, fold, liveView} from "./view.js";

export const title = "Metrics adapter";

const refreshMs = 5000, rowsAtOnce = 300, day = 86400;
const oldAfter = 130; // seconds: two scrapes with Prometheus' default interval, and its timeout

const since = (seconds) => Date.now() / 1000 - seconds;
const ageNode = (t, never) => t === undefined ? h("span", {class: "missing"}, never) : h("span", {title: time(t)}, age(Math.max(0, since(t))));
const section = (name, ...children) => h("section", {class: "group-box"}, h("h2", null, name), children);
const code = (text) => h("code", {class: "mono"}, text);
const tile = (name, value, note, kind) => h("div", {class: "tile " + (kind || "")}, h("span", {class: "tile-name"}, name), h("span", {class: "tile-value"}, value), note && h("span", {class: "tile-note"}, note));

// --- errors ---

// One version of an API is enough, and most clusters have another server for metrics.k8s.io.
const groupOf = (a) => a.name.slice(a.name.indexOf(".") + 1);
const needed = (a, d) => a.state === "absent" && groupOf(a) !== "metrics.k8s.io" && d.apis.every((other) => groupOf(other) !== groupOf(a) || other.state === "absent");

function problems(d) {
  const found = [];
  if (d.notReady) found.push(["Not ready", d.notReady]);
  if (d.configuration?.error) found.push(["The last reload failed, the previous configuration stays in use", d.configuration.error]);
  if (d.configuration?.unknownResources) found.push(["Rules", `${d.configuration.unknownResources} overrides name a resource that the cluster does not have`]);
  if (d.podSeriesLeftOut) found.push(["Series of pods", `${count(d.podSeriesLeftOut)} names are over --pod-series-limit and are not served without a rule`]);
  if (d.certificate?.error) found.push(["Serving certificate", d.certificate.error]);
  for (const s of d.sources) if (s.error) found.push([`Source ${s.name}`, s.error]);
  const own = new Set(d.sources.map((s) => s.error));
  for (const r of d.rules) if (r.error && !own.has(r.error)) found.push([`Rule ${r.rule}`, r.error]);
  for (const a of d.apis) {
    if (needed(a, d)) found.push([`APIService ${a.name}`, "It does not exist, so the cluster does not use this API."]);
    if (a.state === "unavailable" || a.state === "unknown" && a.message) found.push([`APIService ${a.name}`, a.message || "It is not available."]);
  }
  return found;
}

// --- parts ---

const states = {available: ["ok", "available"], unavailable: ["down", "not available"], absent: ["unknown", "not registered"], forbidden: ["unknown", "not known: no permission to read it"],
  unknown: ["unknown", "not known"], mounted: ["ok", "served by the API server of this process"]};

const apis = (d) => section("APIs", d.apis.length ? table(["APIService", "State", "Service", {name: "Message", class: "wide"}], d.apis.map((a) => [h("b", null, a.name), needed(a, d) ? badge("down", "not registered") : badge(...(states[a.state] || states.unknown)),
  a.service ? `${a.namespace}/${a.service}` : "–", [a.message, a.previousOwner && h("div", {class: "muted"}, `Other metrics come from ${a.previousOwner}`, !a.previousOwnerUp && ", which did not answer the last request")]]))
  : empty("No API is served: the configuration has no rules."));

const sources = (d) => section("Sources", table(["Source", {name: "Address", class: "wide"}, "Last answer", {name: "Queries", class: "number"}, {name: "Failed", class: "number"}, {name: "Average", class: "number"}], d.sources.map((s) => [
  h("b", null, s.name), [h("span", {class: "mono"}, s.url), s.error && h("div", {class: "error-text"}, s.error)], ageNode(s.lastAnswer, "never"), count(s.queries), count(s.failures), s.queries ? duration(s.seconds / s.queries) : "–"])));

const ruleTable = (all) => table([{name: "Rule", class: "wide"}, "API", "Source", {name: "Metrics", class: "number"}, {name: "Series", class: "number"}, "Series listed"], all.map((r) => [
  [h("b", null, r.rule), h("div", null, code(r.seriesQuery)), r.error && h("div", {class: "error-text"}, r.error)], r.api, r.source, count(r.metrics), r.series === undefined ? "–" : count(r.series), ageNode(r.lastList, "never")]));

function rules(d) {
  const unused = d.rules.filter((r) => r.rule.startsWith("(") && !r.metrics && !r.error), used = d.rules.filter((r) => !unused.includes(r));
  return section("Rules", used.length ? ruleTable(used) : empty("No rules."),
    unused.length > 0 && fold("unused", false, h("span", {class: "muted"}, `${unused.length} built-in rules without series`), ruleTable(unused)), d.ruleCount > d.rules.length && h("p", {class: "empty"}, `and ${count(d.ruleCount - d.rules.length)} more rules`));
}

// An address of the API that returns the values, relative to the server of the cluster.
function example(m) {
  const metric = encodeURIComponent(m.name);
  if (m.api === "external") return `/apis/external.metrics.k8s.io/v1beta1/namespaces/default/${metric}`;
  if (m.api === "resource") return "/apis/metrics.k8s.io/v1beta1/nodes";
  const resource = m.resources.includes("pods") ? "pods" : m.resources[0];
  return resource === "namespaces" ? `/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/metrics/${metric}` : resource === "nodes" || resource === "persistentvolumes" ? `/apis/custom.metrics.k8s.io/v1beta2/${resource}/*/${metric}`
    : `/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/${resource}/*/${metric}`;
}

const metricRow = (m) => ({class: m.newest !== undefined && since(m.newest) > oldAfter ? "stale" : "", cells: [
  [h("b", {title: `kubectl get --raw '${example(m)}'`}, m.name), m.series !== m.name && h("div", {class: "muted"}, code(m.series)),
    m.shadows && h("div", {class: "muted"}, "instead of ", m.shadows.map((s) => code(s)))], m.api, m.resources.length ? m.resources.join(", ") : "–", m.rule,
  m.api === "resource" ? h("span", {class: "muted"}, "on request") : m.newest === undefined && m.rule.startsWith("(pod series)") ? h("span", {class: "muted", title: "Only the names of these series are listed."}, "–") : ageNode(m.newest, "not known")]});

export function start(main) {
  const bar = filterBar([{value: "custom"}, {value: "external"}, {value: "resource"}], "Filter by metric, resource or rule", () => redraw());
  const metrics = (d) => {
    for (const api of ["custom", "external", "resource"]) bar.countIs(api, d.metrics.filter((m) => m.api === api).length);
    const some = d.metrics.filter((m) => bar.has(m.api) && bar.matches(m.name, m.series, m.rule, m.resources.join(", ")));
    return [section("Metrics", some.length ? table([{name: "Metric", class: "wide"}, "API", {name: "Resources", class: "wide"}, "Rule", "Newest sample"], some.slice(0, rowsAtOnce).map(metricRow))
      : empty(d.metrics.length ? "No metric matches the filter." : "No metrics: no rule has series."), some.length > rowsAtOnce && h("p", {class: "empty"}, `and ${count(some.length - rowsAtOnce)} more: use the filter`),
    d.metricCount > d.metrics.length && h("p", {class: "empty"}, `${count(d.metricCount - d.metrics.length)} further metrics are not listed here. kubectl get --raw /apis/custom.metrics.k8s.io/v1beta2 lists all.`))];
  };
  const box = h("div");
  main.append(box);
  if (document.documentElement.dataset.page) pollOnly();
  const read = () => get("gpuscale/adapter").catch((error) => {
    if (document.documentElement.dataset.page || !error.message.startsWith("404 ")) throw error;
    return {};
  });
  const redraw = liveView(box, read, (d) => {
    if (!d.sources) return empty("This program has no adapter. gpuscale adapter serves this page on its own port, 6443 by default.");
    const wrong = problems(d), r = d.requests, left = d.certificate?.expires ? d.certificate.expires - Date.now() / 1000 : NaN;
    return [wrong.length ? notice("error", h("ul", null, wrong.map(([where, text]) => h("li", null, h("b", null, where), ": ", text)))) : null,
      h("div", {class: "tiles"}, tile("State", d.notReady ? "not ready" : wrong.length ? "errors" : "ready", `gpuscale ${d.version}`, d.notReady ? "bad" : wrong.length ? "warn" : ""),
        tile("Metrics", count(d.metricCount), `${count(d.ruleCount)} rules`), tile("Requests", short(r.answered), "answered"),
        tile("Refused", short(r.unauthenticated + r.forbidden), `${count(r.unauthenticated)} with 401, ${count(r.forbidden)} with 403`, r.failedReviews ? "warn" : ""),
        d.configuration && tile("Configuration", age(Math.max(0, since(d.configuration.loaded))), `${d.configuration.from || "built in"}, ${d.configuration.reloads} reloads`, d.configuration.error ? "bad" : ""),
        !Number.isNaN(left) && tile("Certificate", duration(Math.max(0, Math.floor(left / 3600) * 3600)), "until it expires", left < day ? "bad" : "")),
      apis(d), sources(d), h("div", {class: "adapter-filter"}, bar.node), metrics(d), rules(d)];
  }, refreshMs);
}
