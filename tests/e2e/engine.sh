# Tests the engine on the cluster: discovery, state of objects as series, PrometheusRule objects. It
# has only the permissions of deploy/, so a missing one fails here.

kubectl apply -f - <<EOF >/dev/null
apiVersion: v1
kind: Namespace
metadata: {name: ml}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: ml, labels: {app: web}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web, team: vision}}
    spec:
      containers:
      - name: main
        image: any
        ports: [{name: metrics, containerPort: 9400}]
        resources: {limits: {nvidia.com/gpu: 1}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: ml, labels: {app: web}}
spec: {selector: {app: web}, ports: [{name: metrics, port: 80, targetPort: metrics}]}
EOF
kubectl -n ml rollout status deployment/web --timeout=300s >/dev/null || fail "the Deployment does not roll out"

cat >"$dir/prometheus.yml" <<EOF
global: {scrape_interval: 1s, evaluation_interval: 1s}
scrape_configs:
EOF
# Hollow pods have the same address. The name of the pod distinguishes their targets.
for role in node pod service endpoints endpointslice; do
    echo "- {job_name: $role, kubernetes_sd_configs: [{role: $role}], relabel_configs: [{source_labels: [__meta_kubernetes_pod_name], target_label: pod}]}" >>"$dir/prometheus.yml"
done
engine_port=$(free_port)
kubeconfig engine "/CN=gpuscale-engine"
start engine "$gpuscale" engine --config.file="$dir/prometheus.yml" --kubeconfig="$dir/engine.kubeconfig" --kube-state \
    --web.listen-address="127.0.0.1:$engine_port"
engine=http://127.0.0.1:$engine_port
value() { curl -sf "$engine/api/v1/query" --data-urlencode "query=$1" | jq -r '.data.result[0].value[1] // "none"'; }
is() { [ "$(value "$1")" = "$2" ]; }
wait_for "the engine answers" curl -sf "$engine/-/ready"
sleep 2
is 'count(kube_pod_info)' none || fail "the engine reads pods without a right to"
ok "without rights there is no pod, and the engine runs on"

kubectl create clusterrole gpuscale-engine --verb=get,list,watch \
    --resource=pods,services,endpoints,nodes,namespaces,resourcequotas,limitranges,deployments.apps,replicasets.apps,daemonsets.apps,statefulsets.apps,jobs.batch,cronjobs.batch,poddisruptionbudgets.policy,horizontalpodautoscalers.autoscaling,endpointslices.discovery.k8s.io >/dev/null
kubectl create clusterrolebinding gpuscale-engine --clusterrole=gpuscale-engine --user=gpuscale-engine >/dev/null
wait_for "kube_pod_info of three pods" is 'count(kube_pod_info{namespace="ml"})' 3
is 'sum(kube_pod_status_phase{namespace="ml",phase="Running"})' 3 || fail "phases: $(value 'sum(kube_pod_status_phase{namespace="ml",phase="Running"})')"
wait_for "kube_deployment_spec_replicas" is 'kube_deployment_spec_replicas{namespace="ml",deployment="web"}' 3
wait_for "kube_node_status_allocatable" is 'kube_node_status_allocatable{resource="nvidia_com_gpu",node="gpu-0"}' 8
is 'sum(kube_pod_container_resource_requests{namespace="ml",resource="nvidia_com_gpu"})' 3 || fail "GPU requests: $(value 'sum(kube_pod_container_resource_requests{namespace="ml",resource="nvidia_com_gpu"})')"
ok "objects of a real API server as series, once RBAC allows it"

targets() { curl -sf "$engine/api/v1/targets?state=any" | jq --arg job "$1" --arg text "$2" '[.data.activeTargets[] | select(.scrapePool == $job and (.discoveredLabels | tostring | contains($text)))] | length'; }
has_targets() { [ "$(targets "$1" "$2")" -ge "$3" ]; }
wait_for "targets of role pod" has_targets pod '"__meta_kubernetes_pod_label_team":"vision"' 3
wait_for "targets of role node" has_targets node gpu-0 1
wait_for "targets of role service" has_targets service '"__meta_kubernetes_service_name":"web"' 1
wait_for "targets of role endpoints" has_targets endpoints '"__meta_kubernetes_pod_controller_kind":"ReplicaSet"' 3
wait_for "targets of role endpointslice" has_targets endpointslice '"__meta_kubernetes_pod_controller_kind":"ReplicaSet"' 3
ok "every role of kubernetes_sd_configs finds its targets"

kubectl -n ml scale deployment/web --replicas=1 >/dev/null
wait_for "discovery removes deleted pods" sh -c "[ \"\$(curl -sf '$engine/api/v1/targets?state=any' | jq '[.data.activeTargets[] | select(.scrapePool == \"pod\" and (.discoveredLabels.__meta_kubernetes_namespace == \"ml\"))] | length')\" = 1 ]"
wait_for "the series of deleted pods end" is 'count(kube_pod_info{namespace="ml"})' 1
ok "changes arrive"

# The cluster's controller and gpuscale in shadow mode, without a metrics API: both report the
# reason.
kubectl -n ml autoscale deployment web --min=1 --max=4 --cpu=50% >/dev/null 2>&1 || kubectl -n ml autoscale deployment web --min=1 --max=4 --cpu-percent=50 >/dev/null
start hpa "$gpuscale" hpa --kubeconfig="$dir/admin.kubeconfig" --namespace=ml -o json --web.listen-address= --horizontal-pod-autoscaler-sync-period=2s
condition() { kubectl -n ml get hpa web -o json | jq -r '.status.conditions[]? | select(.type == "ScalingActive") | .reason'; }
failed_metric() { [ "$(condition)" = FailedGetResourceMetric ]; }
wait_for "the cluster's controller reports FailedGetResourceMetric" failed_metric
# Lines of decisions. Log lines are between them.
decision() { grep '^{' "$dir/hpa.log" | tail -n 1 | jq -r "$1"; }
ours() { decision '.conditions[] | select(.type == "ScalingActive") | .message' | grep -q .; }
wait_for "ours says the same" ours
message=$(kubectl -n ml get hpa web -o json | jq -r '.status.conditions[] | select(.type == "ScalingActive") | .message')
said=$(decision '.conditions[] | select(.type == "ScalingActive") | .message')
[ "$said" = "$message" ] || fail "the cluster says: $message; ours: $said"
kubectl -n ml get events,horizontalpodautoscalers,deployments -o json --show-managed-fields >"$dir/written"
jq -e '[.items[].metadata.managedFields[]?.manager] | length > 0 and all(startswith("gpuscale") | not)' "$dir/written" >/dev/null || fail "the shadow wrote events or objects"
ok "in the shadow of the cluster's controller: the same words, nothing written"
stop hpa
stop engine
