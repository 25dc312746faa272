#!/bin/sh
# A real prometheus-adapter in a pod of `gpuscale up` as an aggregated API server, with the manifests of its documentation:
# it finds the authority of the proxy, the availability checks are authenticated, and an HPA uses its metric.
. "$(dirname "$0")/lib.sh"
need kubectl
real=$("$source/tests/differential/prometheus_adapter.sh" --no-build) || skip "no prometheus-adapter has been built (make peers)"

start_up --gpus 1xTesla-T4
prometheus=$(engine_url)
kubectl apply -f - <<Y
apiVersion: v1
kind: Namespace
metadata: {name: monitoring}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: prometheus-adapter, namespace: monitoring}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: resource-metrics-auth-reader, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: extension-apiserver-authentication-reader}
subjects: [{kind: ServiceAccount, name: prometheus-adapter, namespace: monitoring}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: adapter-config, namespace: monitoring}
data:
  config.yaml: |
    externalRules:
    - seriesQuery: DCGM_FI_DEV_FB_FREE
      resources: {namespaced: false}
      name: {as: free_memory}
      metricsQuery: avg(<<.Series>>)
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: prometheus-adapter, namespace: monitoring}
spec:
  selector: {matchLabels: {app: prometheus-adapter}}
  template:
    metadata: {labels: {app: prometheus-adapter}}
    spec:
      serviceAccountName: prometheus-adapter
      containers:
      - name: prometheus-adapter
        image: any
        command: ["$real"]
        args: [--cert-dir=$dir/cert, --config=/etc/adapter/config.yaml, --metrics-relist-interval=2s, "--prometheus-url=$prometheus", --secure-port=6443]
        ports: [{containerPort: 6443, name: https}]
        readinessProbe: {httpGet: {path: /readyz, port: https, scheme: HTTPS}, periodSeconds: 1}
        volumeMounts: [{name: config, mountPath: /etc/adapter, readOnly: true}]
      volumes: [{name: config, configMap: {name: adapter-config}}]
---
apiVersion: v1
kind: Service
metadata: {name: prometheus-adapter, namespace: monitoring}
spec:
  selector: {app: prometheus-adapter}
  ports: [{name: https, port: 443, targetPort: 6443}]
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.external.metrics.k8s.io}
spec:
  group: external.metrics.k8s.io
  version: v1beta1
  service: {name: prometheus-adapter, namespace: monitoring}
  insecureSkipTLSVerify: true
  groupPriorityMinimum: 100
  versionPriority: 100
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: scaled}
spec:
  selector: {matchLabels: {app: scaled}}
  template:
    metadata: {labels: {app: scaled}}
    spec: {containers: [{name: c, image: any, command: [sleep, infinity]}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: scaled}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: scaled}
  maxReplicas: 3
  metrics: [{type: External, external: {metric: {name: free_memory}, target: {type: AverageValue, averageValue: 1}}}]
Y
kubectl wait --for=condition=Available --timeout=${patience}s apiservice/v1beta1.external.metrics.k8s.io ||
    fail "$(kubectl get apiservice v1beta1.external.metrics.k8s.io -o yaml; kubectl logs -n monitoring deployment/prometheus-adapter)"
value() { kubectl get --raw /apis/external.metrics.k8s.io/v1beta1/namespaces/default/free_memory | grep '"metricName":"free_memory"'; }
wait_for "the adapter's metric" value
wait_for "the replicas follow the adapter's metric" replicas_are scaled 3
stop_up
