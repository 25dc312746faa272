// SPDX-License-Identifier: Apache-2.0
// One time axis for several charts: the metric of an autoscaler, its replicas, GPUs and nodes, with each change of the
// replicas as a vertical line.
import {h, replace} from "./dom.js";
import {short} from "./format.js";
import {quote} from "./overview-data.js";
import {joined} from "./ranges.js";
import {color, Tracks} from "./tracks.js";

function chartsOf(a) {
  const hpa = `{namespace=${quote(a.ns)}, horizontalpodautoscaler=${quote(a.name)}}`, of = (name) => `max(kube_horizontalpodautoscaler_${name}${hpa})`;
  const metrics = a.metrics.slice(0, 3).flatMap((m, i) => {
    const one = `{namespace=${quote(a.ns)}, horizontalpodautoscaler=${quote(a.name)}, metric_name=${quote(m.name)}, metric_target_type=${quote(m.type)}}`;
    return [{name: m.name, color: [color.value, color.good, color.warm][i], query: `max(kube_horizontalpodautoscaler_status_target_metric${one})`},
      {name: "target", color: color.target, dashed: true, query: `max(kube_horizontalpodautoscaler_spec_target_metric${one})`}];
  });
  return [
    {title: "Metric and target", lines: metrics},
    {title: "Replicas", steps: true, lines: [
      {name: "desired", color: color.target, dashed: true, query: of("status_desired_replicas")},
      {name: "current", color: color.value, query: of("status_current_replicas")},
      {name: "ready", color: color.good, query: `max(kube_deployment_status_replicas_ready{namespace=${quote(a.ns)}, deployment=${quote(a.target || a.name)}})`}]},
    ...clusterCharts()];
}

const clusterCharts = () => [
  {title: "GPU utilization, %", top: 100, lines: [{name: "average", color: color.value, query: "avg(DCGM_FI_DEV_GPU_UTIL)"},
    {name: "maximum", color: color.soft, query: "max(DCGM_FI_DEV_GPU_UTIL)"}]},
  {title: "Nodes and pending pods", steps: true, lines: [
    {name: "ready nodes", color: color.good, query: 'sum(kube_node_status_condition{condition="Ready",status="true"})'},
    {name: "coming nodes", color: color.warm, query: "sum(gpuscale_pool_coming_nodes)"},
    {name: "pending pods", color: color.target, query: "count(kube_pod_status_phase{phase=\"Pending\"} == 1) or 0 * count(kube_pod_info)"}]}];

// The ready replicas. Those of the status, which belong to its values, are fewer right after a scale-up: the values are
// of fewer pods then.
export const replicasQuery = (ready, current) => `(${ready} < ${current}) or ${current} or ${ready}`;

// The charts of one workload: its load, and the GPUs of its pods instead of those of the cluster.
export function workloadCharts(a) {
  const [metrics, replicas] = chartsOf(a), name = a.target || a.name, pods = quote(name.replace(/[.]/g, "\\.") + "-.+");
  const ready = replicas.lines.find((l) => l.name === "ready").query, current = replicas.lines.find((l) => l.name === "current").query;
  const loads = metrics.lines.filter((l) => l.name !== "target").map((l) => ({...l, query: `${l.query} * (${replicasQuery(ready, current)})`}));
  const gpus = `DCGM_FI_DEV_GPU_UTIL{exported_namespace=${quote(a.ns)}, exported_pod=~${pods}} or DCGM_FI_DEV_GPU_UTIL{exported_pod="", namespace=${quote(a.ns)}, pod=~${pods}} unless on (job, instance, namespace, pod) up`;
  return [metrics, replicas, {title: "Load: average × ready replicas", lines: loads}, {title: "GPU utilization of its pods, %", top: 100, lines: [
    {name: "average", color: color.value, query: `avg(${gpus})`}, {name: "maximum", color: color.soft, query: `max(${gpus})`}]}];
}

// Each change of the desired replicas, with the values of the metrics at this time.
function changesOf(charts, step, reason) {
  const replicas = charts.find((c) => c.title === "Replicas"), desired = replicas ? replicas.lines[0].values : [], metric = replicas ? charts[0].lines : [];
  const marks = [];
  for (let i = 1; i < desired.length; i++) {
    const [t, to] = desired[i], from = desired[i - 1][1];
    if (to === from || t - desired[i - 1][0] > 2 * step) continue;
    const value = (line) => (line.values.find(([at]) => at === t) || [])[1];
    const why = metric.filter((l) => l.name !== "target").map((l, k) => [l.name, value(l), value(metric[2 * k + 1])]).filter(([, v]) => v !== undefined);
    marks.push({t, nodes: [h("b", null, `${from} → ${to} replicas`),
      reason({t, from, to}) || why.map(([name, v, target]) => h("span", {class: "muted"}, `${name} ${short(Number(v))}`, target !== undefined && `, target ${short(Number(target))}`))]});
  }
  return marks;
}

export class Timeline extends Tracks {
  // charts(autoscaler): what is shown of it. reason({t, from, to}): a text for a change of the replicas, or nothing.
  constructor(charts = chartsOf, reason = () => null) {
    super("Timeline", async ({start, end, step, ranges}) => {
      const drawn = await Promise.all((this.hpa ? charts(this.hpa) : clusterCharts()).map(async (c) => ({...c,
        lines: await Promise.all(c.lines.map(async (l) => ({...l, values: joined(await ranges.read(l.query, start, end, step))})))})));
      return {charts: drawn, marks: changesOf(drawn, step, reason)};
    });
  }

  // The autoscaler; null: of the cluster only.
  update(hpa = this.hpa) {
    this.hpa = hpa;
    replace(this.title, "Timeline", hpa && h("span", {class: "file"}, hpa.key));
    return super.update();
  }
}
