// SPDX-License-Identifier: Apache-2.0
// Which pod uses a GPU, and on which node it is, from the labels of a series of a GPU exporter. The rules are those of
// src/lib/metrics/gpu_owner.h, which explains them; both read the cases of tests/metrics/gpu_owner.json.

const holders = [["NamespaceName", "PodName"], ["exported_namespace", "exported_pod"], ["pod_namespace", "pod_name"]];
const hosts = ["hostname", "Hostname"];

// target: {namespace, pod, node} of the scraped pod; undefined: unknown, or not a pod.
const isOwnPod = (pod, ns, target) => !!target && pod === target.pod && (!target.namespace || !ns || ns === target.namespace);

// "namespace/pod"; "": no pod.
export function ownerOf(l, target) {
  for (const [ns, pod] of holders) if (l[pod]) return `${l[ns] || l.namespace || ""}/${l[pod]}`;
  const own = l.exported_namespace || isOwnPod(l.pod, l.namespace, target) || hosts.some((name) => l[name] === l.pod);
  return l.pod && !own ? `${l.namespace || ""}/${l.pod}` : "";
}

export function nodeOf(l, target) {
  const names = ["node", "kubernetes_node", "NodeName", ...hosts].map((name) => l[name]).filter((v) => v);
  const node = names.find((v) => !isOwnPod(v, "", target) && v !== l.pod);
  return node || (target && target.node) || names[0] || l.instance || "";
}

// The targets that are pods, from series `up` and kube_pod_info: labels of a series => {instance, namespace, pod, node} or
// undefined. Its member `all` is the list.
export function targetsFrom(ups, infos) {
  const key = (a, b) => JSON.stringify([a || "", b || ""]), targets = new Map(), nodes = new Map();
  for (const l of infos) nodes.set(key(l.exported_namespace || l.namespace, l.exported_pod || l.pod), l.exported_node || l.node);
  for (const l of ups) if (l.pod) targets.set(key(l.job, l.instance), {instance: l.instance, namespace: l.namespace || "", pod: l.pod, node: nodes.get(key(l.namespace, l.pod)) || ""});
  return Object.assign((l) => targets.get(key(l.job, l.instance)), {all: [...targets.values()]});
}

// The targets of GPU exporters, as expressions.
const exporters = 'up{pod!=""} and on (job, instance) (DCGM_FI_DEV_FB_USED or DCGM_FI_DEV_GPU_UTIL or present_over_time(DCGM_FI_DEV_GPU_UTIL[15m]))';
export const targetQueries = [exporters, `kube_pod_info and on (namespace, pod) (${exporters})`];
