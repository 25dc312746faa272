#!/bin/sh
# Installs the Helm chart on real kubelets, with Helm 3 and 4: with the values of the EKS guide and of dcgm-exporter's chart, and with
# defaults until the cluster's autoscaler scales on a metric of GPUs; upgrade, roll-back, the death of a node, uninstall. Nothing
# remains after uninstalling. Runs in its own namespaces (network, mounts, pids). Exit code 3: it cannot run here.
. "$(dirname "$0")/inside.sh"
helms=$("$(dirname "$0")/helm.sh") || { echo "e2e: skipped: ${0##*/}: no Helm"; exit 3; }
. "$(dirname "$0")/cluster.sh"
. "$source/tests/e2e/nodes.sh"
passed=0
ok() { passed=$((passed + 1)); say "ok: $*"; }
helm3=$(echo "$helms" | head -n 1) helm4=$(echo "$helms" | tail -n 1)
chart=$source/deploy/helm/gpuscale
api=/apis/custom.metrics.k8s.io/v1beta1
load() { echo "$2" >"$dir/load/$1"; } # APP PERCENT, of all its pods together
value_of() { kubectl get --raw "$api/$1" 2>"$dir/value.log" | jq -r '.items | if length == 1 then .[0].value else empty end'; }
reads() { [ "$(value_of "$1")" = "$2" ]; }
elapsed() { echo "$(date +%s.%N) $1" | awk '{ printf "%.1f", $1 - $2 }'; }
available() {
    for s in v1beta1.custom.metrics.k8s.io v1beta2.custom.metrics.k8s.io; do kubectl wait --for=condition=Available "apiservice/$s" --timeout=1s || return 1; done
}
roll_out() { # OBJECT…, in the namespace monitoring
    for object in "$@"; do
        kubectl -n monitoring rollout status "$object" --timeout=300s >/dev/null ||
            fail "$object does not roll out: $(kubectl -n monitoring get pods -o wide; tail -n 5 "$dir"/containers/monitoring_*)"
    done
}
helm() { # VERSION-OF-HELM ARGUMENT…
    program=$1
    shift
    "$program" "$@" >"$dir/helm.log" 2>&1 || fail "helm $*: $(cat "$dir/helm.log")"
}
# All objects of the release, wherever they are. The ConfigMap for the rules of users is kept.
remains() {
    kubectl get all,configmaps,secrets,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,priorityclasses,poddisruptionbudgets,apiservices,leases \
        -A -o json | jq -r '.items[] | select(((.metadata.labels // {})["app.kubernetes.io/instance"] == "gpuscale" or
            (.metadata.name | test("gpuscale")) or ((.spec.service? // {}).name? // "" | test("gpuscale"))) and .metadata.name != "gpuscale-engine-rules") |
            .kind + " " + (.metadata.namespace // "") + "/" + .metadata.name'
}
gone() { [ -z "$(remains)" ]; }
uninstall() { # HELM
    helm "$1" uninstall gpuscale -n monitoring --wait --timeout 2m
    wait_for "nothing of the release remains" gone
    kubectl -n monitoring get configmap gpuscale-engine-rules >/dev/null || fail "uninstalling has deleted the ConfigMap for the user's rules"
    # A namespace whose API groups have no server cannot be deleted.
    kubectl delete namespace monitoring --timeout=60s >/dev/null || fail "the namespace remains: $(kubectl get namespace monitoring -o json | jq -c .status)"
}

start_network
start_control_plane
start_proxy
start_kubelet gpu-0 1 4xTesla-T4
start_kubelet gpu-1 2 4xTesla-T4
kubectl apply -f - >/dev/null <<END
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: nvidia}
handler: nvidia
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: vision-api}
spec:
  replicas: 1
  selector: {matchLabels: {app: vision-api}}
  template:
    metadata: {labels: {app: vision-api}}
    spec:
      containers: [{name: vision-api, image: vision, resources: {limits: {nvidia.com/gpu: 1}}}]
---
apiVersion: v1
kind: Service
metadata: {name: vision-api}
spec: {selector: {app: vision-api}, ports: [{port: 80}]}
END
load vision-api 40
kubectl rollout status deployment/vision-api --timeout=300s >/dev/null || fail "the Deployment does not roll out"
ok "control plane, two kubelets with 4 simulated GPUs each, a Deployment on one of the GPUs"

# Helm 4, defaults, a cluster without the kinds of the Prometheus operator. The HPA exists before the metric.
kubectl apply -f - >/dev/null <<END
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: vision-api}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: vision-api}
  minReplicas: 1
  maxReplicas: 4
  metrics: [{type: Pods, pods: {metric: {name: DCGM_FI_DEV_GPU_UTIL}, target: {type: AverageValue, averageValue: "50"}}}]
END
load vision-api 160
started=$(date +%s.%N)
helm "$helm4" install gpuscale "$chart" -n monitoring --create-namespace
scaled() { [ "$(kubectl get deployment vision-api -o jsonpath='{.spec.replicas}')" = 4 ]; }
wait_for "the autoscaler scales on DCGM_FI_DEV_GPU_UTIL" scaled
ok "Helm 4, defaults: $(elapsed "$started") s from helm install to the autoscaler's decision on DCGM_FI_DEV_GPU_UTIL"
grep -q 'Values without effect' "$dir/helm.log" && fail "notes: $(cat "$dir/helm.log")"
helm "$helm4" status gpuscale -n monitoring

# An upgrade and a roll-back under requests.
pod=$(kubectl get pods -l app=vision-api -o jsonpath='{.items[0].metadata.name}')
roll_out deployment/gpuscale-adapter deployment/gpuscale-engine daemonset/gpuscale-exporter
kubectl -n monitoring create configmap user-rules --from-literal=a=b >/dev/null
# The pages, through the proxy of the API server, and of the adapter with the credentials and certificate of docs/adapter.md. The
# runtime of these kubelets has no streams, so that kubectl port-forward does not work here.
pages=/api/v1/namespaces/monitoring/services/http:gpuscale-engine:9090/proxy
kubectl get --raw "$pages/" | grep -q '<title>gpuscale</title>' || fail "the engine has no page"
kubectl get --raw "$pages/api/v1/query?query=count(DCGM_FI_DEV_GPU_UTIL)" | jq -e '.data.result[0].value[1] | tonumber > 0' >"$dir/page.log" || fail "the page has no data: $(cat "$dir/page.log")"
kubectl get apiservice v1beta1.custom.metrics.k8s.io -o jsonpath='{.spec.caBundle}' | base64 -d >"$dir/adapter-ca.pem"
adapter_pod=$(kubectl -n monitoring get pods -l app.kubernetes.io/name=gpuscale-adapter -o jsonpath='{.items[0].status.podIP}')
adapter_page() { kubectl --server="https://$adapter_pod:6443" --tls-server-name=gpuscale-adapter.monitoring.svc --certificate-authority="$dir/adapter-ca.pem" get --raw /api/v1/gpuscale/adapter; }
shows_metric() { adapter_page 2>&1 | tee "$dir/page.log" | jq -e '([.data.apis[] | select(.name | endswith("custom.metrics.k8s.io")) | .state] == ["available", "available"]) and any(.data.metrics[]; .name == "DCGM_FI_DEV_GPU_UTIL" and .newest > 0)'; }
wait_for "the page of the adapter shows the APIs and the metric" shows_metric
ok "the pages of the engine and the adapter"
helm "$helm4" upgrade gpuscale "$chart" -n monitoring --set adapter.replicas=3,adapter.args='{--v=1}',exporter.maxUnavailable=1
roll_out deployment/gpuscale-adapter daemonset/gpuscale-exporter
[ "$(kubectl -n monitoring get deployment gpuscale-adapter -o jsonpath='{.status.readyReplicas}')" = 3 ] || fail "replicas after the upgrade"
untouched() { [ "$(kubectl -n monitoring get configmap user-rules -o jsonpath='{.data.a}')" = b ]; }
untouched || fail "the upgrade has changed a ConfigMap that is not of the chart"
helm "$helm4" rollback gpuscale 1 -n monitoring
roll_out deployment/gpuscale-adapter daemonset/gpuscale-exporter
[ "$(kubectl -n monitoring get deployment gpuscale-adapter -o jsonpath='{.spec.replicas}')" = 2 ] || fail "replicas after the roll-back"
kubectl -n monitoring get configmap gpuscale-engine-rules >/dev/null || fail "the ConfigMap for the user's rules is gone after a roll-back"
untouched || fail "the roll-back has changed a ConfigMap that is not of the chart"
answers() { kubectl get --raw "$api/namespaces/default/pods/*/DCGM_FI_DEV_GPU_UTIL" --request-timeout=5s >/dev/null 2>&1; }
wait_for "metrics after the roll-back" answers
ok "helm upgrade and helm rollback"

# The node of the engine dies.
stop controller-manager
start_controller_manager --node-monitor-grace-period=20s
victim=$(kubectl -n monitoring get pods -l app.kubernetes.io/name=gpuscale-engine -o jsonpath='{.items[0].spec.nodeName}')
kill_node "$victim" $((${victim#gpu-} + 1))
died=$(date +%s.%N)
recovered() {
    kubectl -n monitoring get pods -o json | jq -e --arg dead "$victim" '[.items[] | select(.metadata.deletionTimestamp == null and .spec.nodeName != $dead and
        (.metadata.labels["app.kubernetes.io/name"] | IN("gpuscale-adapter", "gpuscale-engine"))) | select(any(.status.conditions[]; .type == "Ready" and .status == "True"))] | length == 3' && answers
}
wait_for "the adapter and the engine run on the other node" recovered
ok "$victim died: metrics from the other node, all pods of the adapter and the engine replaced, after $(elapsed "$died") s"
# As an administrator does who knows that the machine is gone. The control plane would need a minute.
kubectl -n monitoring delete pods --field-selector "spec.nodeName=$victim" --force --grace-period=0 >/dev/null 2>&1
kubectl delete node "$victim" >/dev/null
kubectl delete hpa vision-api >/dev/null
uninstall "$helm4"
ok "Helm 4 uninstalled: nothing remains, and the namespace can be deleted"

# Helm 3, the EKS guide's values, in a cluster with the kinds of the Prometheus operator. The engine is the Prometheus of the guide.
kubectl apply -f "$source/tests/e2e/monitoring-crds.yaml" >/dev/null
kubectl scale deployment/vision-api --replicas=1 >/dev/null
load vision-api 40
values=$guides/eks/prometheus-adapter-values.yaml
[ ! -d "$originals" ] || values=$originals/eks/prometheus-adapter-values.yaml
kubectl create namespace monitoring >/dev/null
cat >"$dir/guide.yaml" <<END
apiVersion: v1
kind: Service
metadata: {name: kube-prometheus-stack-prometheus}
spec: {selector: {app.kubernetes.io/name: gpuscale-engine}, ports: [{port: 9090}]}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: guide}
spec:
  selector: {matchLabels: {app.kubernetes.io/name: gpuscale-exporter}}
  endpoints: [{port: metrics, interval: 1s}]
END
kubectl -n monitoring apply -f "$dir/guide.yaml" >/dev/null
started=$(date +%s.%N)
helm "$helm3" install gpuscale "$chart" -n monitoring -f "$values" --set hpa.enabled=true
wait_for "the APIServices are Available" available
wait_for "the metric of the guide's rule" reads namespaces/default/services/vision-api/DCGM_FI_DEV_GPU_UTIL_AVG 40
ok "Helm 3, the EKS guide's values: $(elapsed "$started") s from helm install to DCGM_FI_DEV_GPU_UTIL_AVG of the Service"

# Then NVIDIA's values: an upgrade to other values, and roll-back. The user's rules stay.
rules='groups: [{name: mine, rules: [{record: mine, expr: vector(1)}]}]'
kubectl -n monitoring patch configmap gpuscale-engine-rules -p "{\"data\": {\"mine.yml\": \"$rules\"}}" >/dev/null
recorded() {
    curl -sf "http://$(kubectl -n monitoring get service gpuscale-engine -o jsonpath='{.spec.clusterIP}'):9090/api/v1/query?query=mine" | jq -e '.data.result[0].value[1] == "1"'
}
wait_for "the engine evaluates the user's rules" recorded
has_rules() { [ "$(kubectl -n monitoring get configmap gpuscale-engine-rules -o jsonpath='{.data.mine\.yml}')" = "$rules" ]; }
cat >"$dir/nvidia.yaml" <<END
image: {repository: nvcr.io/nvidia/k8s/dcgm-exporter, tag: 4.6.0-4.8.3-distroless}
arguments: [-f, /etc/dcgm-exporter/default-counters.csv, --hostname-label=Hostname]
extraEnv: [{name: DCGM_EXPORTER_INTERVAL, value: "1000"}]
kubernetes: {enablePodLabels: true, enablePodUID: true}
serviceMonitor: {enabled: true, interval: 2s, additionalLabels: {release: stack}}
customMetrics: |
  DCGM_FI_DEV_GPU_UTIL, gauge, GPU utilization (in %).
runtimeClassName: nvidia
tlsServerConfig: {enabled: true}
basicAuth: {users: {prometheus: secret}}
END
helm "$helm3" upgrade gpuscale "$chart" -n monitoring -f "$dir/nvidia.yaml" --set engine.userRules=false
has_rules || fail "the user's rules after an upgrade"
grep -q '^Values without effect: image$' "$dir/helm.log" || fail "notes: $(cat "$dir/helm.log")"
roll_out daemonset/gpuscale-exporter deployment/gpuscale-engine
page() {
    curl -sfk -u prometheus:secret "https://$(kubectl -n monitoring get pods -l app.kubernetes.io/name=gpuscale-exporter -o jsonpath='{.items[0].status.podIP}'):9400/metrics" >"$dir/page"
    grep -q '^DCGM_FI_DEV_GPU_UTIL{.*app="vision-api".*} 40' "$dir/page" && grep -q 'pod_uid="' "$dir/page" && grep -q 'Hostname="' "$dir/page" && ! grep -q DCGM_FI_DEV_FB_USED "$dir/page"
}
wait_for "the exporter's page by NVIDIA's values" page
[ "$(kubectl -n monitoring get servicemonitor gpuscale-exporter -o jsonpath='{.metadata.labels.release}')" = stack ] || fail "the ServiceMonitor's label"
# The engine scrapes each exporter once in spite of that object.
kubectl -n monitoring delete servicemonitor guide >/dev/null
jobs() {
    curl -sf "http://$(kubectl -n monitoring get service gpuscale-engine -o jsonpath='{.spec.clusterIP}'):9090/api/v1/targets?state=active" |
        jq -e '[.data.activeTargets[] | select(.scrapeUrl | test(":9400/")) | .labels.job + " " + .health] == ["gpuscale-exporter up"]'
}
wait_for "one target for each exporter" jobs
kubectl -n monitoring apply -f "$dir/guide.yaml" >/dev/null
helm "$helm3" rollback gpuscale 1 -n monitoring
roll_out daemonset/gpuscale-exporter deployment/gpuscale-engine deployment/gpuscale-adapter
has_rules || fail "the user's rules after a roll-back"
wait_for "the metric of the guide's rule after the roll-back" reads namespaces/default/services/vision-api/DCGM_FI_DEV_GPU_UTIL_AVG 40
ok "Helm 3: upgraded to values of dcgm-exporter's chart, and rolled back"
kubectl -n monitoring delete -f "$dir/guide.yaml" >/dev/null
uninstall "$helm3"
ok "Helm 3 uninstalled: nothing remains, and the namespace can be deleted"
echo "$passed passed, 0 failed"
