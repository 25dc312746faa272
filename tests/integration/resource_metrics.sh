#!/bin/sh
# Tests resource and external metrics in `gpuscale up`: kubectl top, an autoscaler on cpu, rules in
# a ConfigMap, and an autoscaler on an external metric.
. "$(dirname "$0")/lib.sh"
need kubectl
cat >"$dir/objects.yaml" <<'Y'
apiVersion: apps/v1
kind: Deployment
metadata: {name: busy}
spec:
  replicas: 1
  selector: {matchLabels: {app: busy}}
  template:
    metadata: {labels: {app: busy}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - {name: load, image: 'none:1', command: [sh, -c, 'while :; do :; done'], resources: {requests: {cpu: 50m}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: worker}
spec:
  replicas: 1
  selector: {matchLabels: {app: worker}}
  template:
    metadata: {labels: {app: worker}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: sleep, image: 'none:1', command: [sleep, '1000']}]
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: busy}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: busy}
  maxReplicas: 2
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: worker}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: worker}
  maxReplicas: 5
  metrics: [{type: External, external: {metric: {name: backlog}, target: {type: AverageValue, averageValue: '1'}}}]
Y
start_up --gpus 1xTesla-T4 --horizontal-pod-autoscaler-cpu-initialization-period 0s -f "$dir/objects.yaml"

top_shows() { kubectl top "$@" --no-headers 2>"$dir/top.err" | tee "$dir/top.out" | grep -q "^$name.*[0-9]m .*[1-9][0-9]*[KM]i"; }
name=busy-
wait_for "kubectl top pods" top_shows pods -l app=busy
name=$(kubectl get nodes -o 'jsonpath={.items[0].metadata.name}')
wait_for "kubectl top nodes" top_shows nodes
wait_for "the autoscaler on cpu scales up" replicas_are busy 2
name=busy-
wait_for "kubectl top pods --containers" sh -c 'kubectl top pods --containers -l app=busy | grep -q " load "'

kubectl get --raw /apis/external.metrics.k8s.io/v1beta1 >"$dir/external.out" 2>&1 && fail "external metrics without rules"
replicas_are worker 1 || fail "worker has $(replicas worker) replicas"
kubectl apply -f - <<'Y'
apiVersion: v1
kind: Namespace
metadata: {name: monitoring}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: adapter-config, namespace: monitoring}
data:
  config.yaml: |
    externalRules:
    - seriesQuery: 'up{job="kubelet"}'
      name: {as: backlog}
      resources: {namespaced: false}
      metricsQuery: 3 * max(<<.Series>>{<<.LabelMatchers>>})
Y
wait_for "the autoscaler on an external metric scales up" replicas_are worker 3
kubectl top pods -l app=busy >/dev/null || fail "kubectl top with rules of a ConfigMap"
kubectl api-versions | grep -qx external.metrics.k8s.io/v1beta1 || fail "the group of external metrics is not listed"
kubectl -n monitoring delete configmap adapter-config
no_external() { ! kubectl get --raw /apis/external.metrics.k8s.io/v1beta1; }
wait_for "without the ConfigMap the group ends" no_external
stop_up
nothing_left || fail "processes remain"
