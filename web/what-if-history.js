// SPDX-License-Identifier: Apache-2.0
// What other settings of an autoscaler would have cost: its recorded series are sent to the server, which runs the
// autoscaler on them twice, with the present and with the other settings.
import {get, post} from "./api.js";
import {Chart} from "./chart.js";
import {badge, h, replace} from "./dom.js";
import {duration} from "./format.js";
import {quote} from "./overview-data.js";
import {replicasQuery} from "./timeline.js";

const ranges = [3600, 21600, 86400, 604800], mostSteps = 5000, keepMs = 60000, pauseMs = 300, points = 300;
const types = {Utilization: "utilization", AverageValue: "average", Value: "value"};

async function readRange(query, range) {
  const end = Math.floor(Date.now() / 1000), step = Math.max(1, Math.ceil(range / mostSteps));
  const {result} = await get("query_range", {query, start: end - range, end, step});
  if (!result.length) throw new Error("The autoscaler has no samples in this time. The series kube_horizontalpodautoscaler_* come from gpuscale up, from an engine with --kube-state, or from kube-state-metrics.");
  return result[0].values;
}

// Names of the pods of a Deployment or StatefulSet.
const podsOf = (e) => quote(`${e.target.split("/")[1]}-([a-z0-9]+-[a-z0-9]{5}|[0-9]+)`);

// The recorded signals of inference engines; nothing: there are none.
async function readEngines(e, range) {
  const ns = quote(e.namespace), pods = podsOf(e), of = `{namespace=${ns}, pod=~${pods}}`, window = `[${Math.max(60, 4 * Math.ceil(range / mostSteps))}s]`;
  const rate = (name) => `sum(rate(gpuscale_inference_${name}${of}${window}))`, optional = (query) => readRange(query, range).catch(() => undefined);
  const requests = await optional(rate("ttft_seconds_count"));
  if (!requests) return undefined;
  const label = async (query, name) => (await get("query", {query})).result[0]?.metric[name];
  const [promptTokens, generationTokens, running, itl, model, gpu] = await Promise.all([optional(rate("prompt_tokens_total")), optional(rate("generation_tokens_total")),
    optional(`sum(gpuscale_inference_running${of})`), optional(`${rate("itl_seconds_sum")} / ${rate("itl_seconds_count")}`), label(`count by (model) (gpuscale_inference_running${of})`, "model"),
    label(`count by (modelName) (DCGM_FI_DEV_FB_USED${of} or DCGM_FI_DEV_FB_USED{exported_namespace=${ns}, exported_pod=~${pods}})`, "modelName")]);
  return promptTokens && generationTokens ? {requests, promptTokens, generationTokens, running, itl, model, gpu} : undefined;
}

async function readHistory(e, range, withEngines) {
  const hpa = `namespace=${quote(e.namespace)}, horizontalpodautoscaler=${quote(e.name)}`;
  const ready = `max(kube_deployment_status_replicas_ready{namespace=${quote(e.namespace)}, deployment=${quote(e.target.split("/")[1])}})`;
  const inference = withEngines ? await readEngines(e, range) : undefined;
  const [replicas, ...metrics] = await Promise.all([readRange(replicasQuery(ready, `max(kube_horizontalpodautoscaler_status_current_replicas{${hpa}})`), range),
    ...e.metrics.map((m) => readRange(`max(kube_horizontalpodautoscaler_status_target_metric{${hpa}, metric_name=${quote(m.name)}, metric_target_type=${quote(types[m.target.type])}})`, range).catch((error) => {
      if (inference) return null; // the engines may have it
      throw error;
    }))]);
  return {metrics, replicas, inference};
}

// A step function as values at equal times.
function resample(changes, start, end, step) {
  const values = [];
  for (let t = start, i = -1; t <= end; t += step) {
    while (i + 1 < changes.length && changes[i + 1][0] <= t) i++;
    if (i >= 0) values.push([t, String(changes[i][1])]);
  }
  return values;
}

const rows = [["GPU hours", "gpuHours", (v) => v.toFixed(2)], ["Replica hours", "replicaHours", (v) => v.toFixed(2)], ["Mean replicas", "meanReplicas", (v) => v.toFixed(2)],
  ["Most replicas", "maxReplicas", String], ["Scale-ups", "scaleUps", String], ["Scale-downs", "scaleDowns", String],
  ["Within the target", "withinPercent", (v) => `${v.toFixed(1)} %`], ["First token, 90 % within", "ttftP90Seconds", (v) => duration(v)], ["Between tokens, 90 % within", "itlP90Seconds", (v) => duration(v)],
  ["Work waits", "waitingSeconds", (v) => v ? duration(Math.round(v)) : "never"], ["Above the present target", "aboveTargetSeconds", (v) => v ? duration(Math.round(v)) : "never"]];

export class History {
  constructor() {
    this.buttons = h("span", {class: "history-ranges"});
    this.result = h("div", {class: "history-result", "aria-live": "polite"});
    this.chart = new Chart(null, 150);
    this.node = h("div", {class: "history", hidden: true}, h("div", {class: "history-head"}, h("b", null, "On recorded history"), this.buttons), this.result, this.chart.node);
    this.chart.node.hidden = true;
    this.known = new Map(); // range: {at, history}
    this.drawButtons();
  }

  drawButtons() {
    replace(this.buttons, ranges.map((r) => h("button", {type: "button", "aria-pressed": String(r === this.range), onclick: () => { this.range = r === this.range ? 0 : r; this.drawButtons(); this.shown = ""; this.ask(); }}, duration(r))));
  }

  // The explanation with the real settings, and the other settings; nothing: none differs.
  update(explained, settings) {
    this.explained = explained;
    this.settings = settings;
    this.node.hidden = !explained.spec;
    this.ask();
  }

  ask() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.run(), pauseMs);
  }

  clear(...content) {
    replace(this.result, ...content);
    this.chart.node.hidden = true;
    this.chart.close();
  }

  async run() {
    if (!this.range) {
      this.shown = "";
      this.clear();
      return;
    }
    if (!this.settings) {
      this.shown = "";
      this.clear(h("p", {class: "muted"}, "Move a slider."));
      return;
    }
    const key = JSON.stringify([this.range, this.settings, this.explained.spec]), fresh = this.known.get(this.range);
    if (this.busy || (key === this.shown && fresh && Date.now() - fresh.at < keepMs)) return;
    this.busy = true;
    this.result.classList.add("busy-history");
    try {
      const e = this.explained, withEngines = Boolean(e.slo && e.slo.annotation) || Object.keys(this.settings).some((name) => name.startsWith("slo."));
      if (fresh && fresh.withEngines !== withEngines) fresh.at = 0;
      if (!fresh || Date.now() - fresh.at >= keepMs) this.known.set(this.range, {at: Date.now(), withEngines, history: await readHistory(e, this.range, withEngines)});
      const {history} = this.known.get(this.range);
      const answer = await post("gpuscale/replay", {...history, namespace: e.namespace, name: e.name, spec: e.spec, settings: this.settings, gpusPerReplica: e.gpusPerReplica,
        slo: e.slo ? e.slo.annotation : undefined, startupSeconds: e.startup && e.startup.p50Seconds > 0 ? e.startup.p50Seconds : undefined});
      await this.show(answer, history);
    } catch (error) {
      this.clear(h("p", {class: "error-text"}, error.message));
    }
    this.shown = key;
    this.busy = false;
    this.result.classList.remove("busy-history");
    if (this.range && this.settings && JSON.stringify([this.range, this.settings, this.explained.spec]) !== key) this.ask();
  }

  async show(answer, history) {
    const cells = ["recorded", "present", "changed"];
    replace(this.result, h("p", {class: "history-summary"}, answer.model === "engines" && [badge("pending", "SIMULATED"), " "], answer.summary),
      h("table", {class: "values history-table"}, h("thead", null, h("tr", null, ["", "recorded", "present settings", "these settings"].map((t) => h("th", {scope: "col", class: "number"}, t)))),
        h("tbody", null, rows.filter(([, field]) => answer.present[field] !== undefined && !(field === "replicaHours" && answer.present.gpuHours !== undefined)).map(([text, field, format]) => h("tr", null, h("td", null, text),
          cells.map((run) => h("td", {class: "value"}, answer[run][field] === undefined ? "–" : format(answer[run][field]))))))),
      h("p", {class: "muted"}, `${duration(Math.round(answer.seconds))} of samples. `, answer.assumptions.join(" ")));
    const start = Date.parse(answer.from) / 1000, end = start + answer.seconds, step = Math.max(1, Math.round(answer.seconds / points));
    const first = Math.ceil(start / step) * step, last = Math.floor(end / step) * step;
    const line = (name, changes) => ({labels: {__name__: name}, values: resample(changes, first, last, step)});
    this.chart.node.hidden = false;
    await this.chart.draw({series: [line("present settings", answer.present.replicas), line("these settings", answer.changed.replicas), line("recorded", history.replicas)], start: first, end: last, step, keep: true});
  }
}
