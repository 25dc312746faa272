#!/bin/sh
# Prometheus and Alertmanager objects of kube-prometheus-stack under `gpuscale up`, without a pod of
# the operator: workloads, status, scrape configs in a Secret, selectors, Alertmanagers, a second
# state of the cluster's objects, and the kubelet's monitor.
. "$(dirname "$0")/lib.sh"
need kubectl curl jq python3

# Stands for the programs of the images: answers every path with the file beside it, or with "ok".
cat >"$dir/web.py" <<'P'
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        body = open(sys.argv[2], "rb").read() if len(sys.argv) > 2 and os.path.exists(sys.argv[2]) else b"ok 1\n"
        self.wfile.write(body)
    do_POST = do_GET
    def log_message(self, *args):
        pass
http.server.ThreadingHTTPServer((os.environ["GPUSCALE_POD_IP"], int(sys.argv[1])), Handler).serve_forever()
P
start() {
    start_up --gpus 2xTesla-T4 \
        --image "quay.io/prometheus/prometheus:*=python3 $dir/web.py 9090" \
        --image "quay.io/prometheus/alertmanager:*=python3 $dir/web.py 9093" \
        --image "quay.io/prometheus-operator/prometheus-config-reloader:*=sh -c 'case \"\$*\" in *watch-interval=0*) exit 0 ;; esac; exec sleep infinity' reloader" \
        --image "ksm:1=python3 $dir/web.py 8080 $dir/ksm.txt"
    url=$(engine_url)
}
start

for kind in Prometheus:prometheuses Alertmanager:alertmanagers Probe:probes; do
    kubectl apply -f - <<Y
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ${kind#*:}.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {kind: ${kind%:*}, plural: ${kind#*:}}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    additionalPrinterColumns:
    - {name: Ready, type: integer, jsonPath: .status.availableReplicas}
    - {name: Available, type: string, jsonPath: '.status.conditions[?(@.type == "Available")].status'}
Y
done
kubectl create namespace prometheus
kubectl create namespace old
for ns in prometheus old; do
    kubectl create serviceaccount -n $ns kube-prometheus-stack-prometheus
    kubectl create serviceaccount -n $ns kube-prometheus-stack-alertmanager
done

# --- the objects of the chart ---

chart=$source/tests/local/operator/kube-prometheus-stack.yaml
kubectl wait --for=condition=Established crd/prometheuses.monitoring.coreos.com crd/alertmanagers.monitoring.coreos.com
kubectl apply -f "$chart" >"$dir/apply.log" 2>&1 || fail "$(cat "$dir/apply.log")"
ready() { kubectl get "$1" -n "$2" -o json | jq -e '[.items[].status | select(.availableReplicas == 1)] | length == 1'; }
for ns in prometheus old; do
    wait_for "the Prometheus in $ns is available" ready prometheuses $ns
    wait_for "and the Alertmanager" ready alertmanagers $ns
    kubectl get pods -n $ns -l app.kubernetes.io/name=prometheus --no-headers | grep -Eq '^prometheus-kube-prometheus-stack-prometheus-0 +2/2 +Running' ||
        fail "the pod of Prometheus in $ns"
    wait_for "the Service of the chart has its pod" \
        kubectl get endpoints -n $ns kube-prometheus-stack-prometheus -o 'jsonpath={.subsets[0].addresses[0].ip}'
done
kubectl get prometheuses -n prometheus | grep -q 'kube-prometheus-stack-prometheus  *1  *True' || fail "the columns of kubectl get"
alertmanagers() { curl -sS "$url/api/v1/alertmanagers" | jq -e '.data.activeAlertmanagers | length == 2'; }
wait_for "the engine has the Alertmanagers" alertmanagers
service_of_kubelets() { [ -n "$(kubectl get endpoints -n kube-system kube-prometheus-stack-kubelet -o 'jsonpath={.subsets[0].addresses[0].ip}')" ]; }
wait_for "the kubelets have a Service" service_of_kubelets

# --- additional scrape configs, as helm upgrade and helm rollback change them ---

pool() { curl -sS "$url/api/v1/scrape_pools" | jq -e --arg name "$1" '.data.scrapePools | index($name)'; }
no_pool() { ! pool "$1"; }
scrapes() {
    kubectl create secret generic -n prometheus scrapes --from-literal=jobs.yaml="$1" --dry-run=client -o yaml | kubectl apply -f -
}
scrapes '[{job_name: gpu-metrics, static_configs: [{targets: ["127.0.0.1:1"]}]}]'
kubectl patch prometheuses -n prometheus kube-prometheus-stack-prometheus --type merge -p \
    '{"spec":{"additionalScrapeConfigs":{"name":"scrapes","key":"jobs.yaml"}}}'
wait_for "the jobs of the Secret are scraped" pool gpu-metrics
scrapes '[{job_name: other, bearer_token_file: /var/run/secrets/kubernetes.io/serviceaccount/token, static_configs: [{targets: ["127.0.0.1:1"]}]}]'
wait_for "a change of the Secret is followed" pool other
no_pool gpu-metrics >/dev/null || fail "the job of before is still scraped"
scrapes '[{job_name: [}'
wait_for "a mistake is reported" sh -c 'kubectl get events -n prometheus | grep -q InvalidConfiguration'
pool other >/dev/null || fail "a mistake ends the jobs of before"
kubectl patch prometheuses -n prometheus kube-prometheus-stack-prometheus --type json -p '[{"op":"remove","path":"/spec/additionalScrapeConfigs"}]'
wait_for "a rollback takes them back" no_pool other

# --- selectors ---

kubectl apply -f - <<'Y'
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata: {name: unlabeled}
spec: {selector: {}, podMetricsEndpoints: [{port: web}]}
---
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata: {name: labeled, labels: {release: kube-prometheus-stack}}
spec: {selector: {}, podMetricsEndpoints: [{port: web}]}
---
apiVersion: monitoring.coreos.com/v1
kind: Probe
metadata: {name: probe}
spec: {}
Y
wait_for "a monitor with the label is selected" pool podMonitor/default/labeled/0
wait_for "one without is reported with the label" \
    sh -c 'kubectl get events --field-selector reason=NotSelected | grep -q "unlabeled.*release=kube-prometheus-stack"'
no_pool podMonitor/default/unlabeled/0 >/dev/null || fail "a monitor without the label is scraped"
wait_for "a Probe is reported" sh -c 'kubectl get events | grep -q "NotSupported.*Probe"'
kubectl label podmonitor unlabeled release=kube-prometheus-stack
wait_for "with the label it is selected" pool podMonitor/default/unlabeled/0
stop_up
start
wait_for "after a restart as well" pool podMonitor/default/unlabeled/0
wait_for "and the pods are ready" ready prometheuses prometheus

# --- nothing is stored twice ---

query_is() { [ "$(curl -sS -G "$url/api/v1/query" --data-urlencode "query=$1" | jq -r '.data.result[0].value[1] // "none"')" = "$2" ]; }
kubectl apply -f - <<'Y'
apiVersion: apps/v1
kind: Deployment
metadata: {name: ksm}
spec:
  selector: {matchLabels: {app: ksm}}
  template:
    metadata: {labels: {app: ksm}}
    spec: {containers: [{name: c, image: 'ksm:1', ports: [{name: http, containerPort: 8080}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: ksm, labels: {app: ksm}}
spec: {selector: {app: ksm}, ports: [{name: http, port: 8080}]}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: ksm}
spec: {selector: {matchLabels: {app: ksm}}, endpoints: [{port: http, interval: 1s, honorLabels: true}]}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata: {name: kubelet}
spec:
  jobLabel: k8s-app
  namespaceSelector: {matchNames: [kube-system]}
  selector: {matchLabels: {k8s-app: kubelet}}
  endpoints:
  - port: https-metrics
    path: /metrics/cadvisor
    scheme: https
    interval: 1s
    honorLabels: true
    bearerTokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
    tlsConfig: {caFile: /var/run/secrets/kubernetes.io/serviceaccount/ca.crt, insecureSkipVerify: true}
    relabelings: [{sourceLabels: [__metrics_path__], targetLabel: metrics_path}]
Y
wait_for "the Deployment runs" pods_ready ksm 1
own='count(kube_pod_info{job="kube-state-metrics",instance="gpuscale"}) > bool 0'
wait_for "the engine stores the state of objects" query_is "$own" 1
kubectl get pods -A -o json | jq -r '.items[] | "kube_pod_info{namespace=\"\(.metadata.namespace)\",pod=\"\(.metadata.name)\",uid=\"\(.metadata.uid)\"} 1"' >"$dir/ksm.txt"
wait_for "not beside a kube-state-metrics" query_is "$own" none
wait_for "each pod is counted once" query_is "count(kube_pod_info)" "$(wc -l <"$dir/ksm.txt")"
rm "$dir/ksm.txt"
wait_for "without it again" query_is "$own" 1

wait_for "the kubelet is scraped with the account's files" query_is 'up{job="kubelet",metrics_path="/metrics/cadvisor"}' 1
wait_for "its containers are in the store" query_is 'count(container_memory_working_set_bytes{metrics_path!=""}) > bool 0' 1
memory() { kubectl get --raw "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods" | jq -r '.items[] | select(.metadata.name | startswith("ksm")) | .containers[0].usage.memory'; }
stored() {
    curl -sS -G "$url/api/v1/query" --data-urlencode 'query=max(max_over_time(container_memory_working_set_bytes{pod=~"ksm.*",container="c"}[1m])) * 1.5' | jq -r '.data.result[0].value[1]'
}
bytes=$(memory | sed 's/Ki$/*1024/; s/Mi$/*1048576/; s/[^0-9*]//g')
[ "$(echo "$bytes < $(stored)" | jq -Rr 'split(" < ") | (.[0] | split("*") | map(tonumber) | reduce .[] as $x (1; . * $x)) < (.[1] | tonumber)')" = true ] ||
    fail "metrics.k8s.io counts the memory twice: $(memory)"
echo "ok: kubectl top counts a container once"

# --- the end ---

kubectl delete prometheuses,alertmanagers -n prometheus --all
kubectl delete prometheuses,alertmanagers -n old --all
gone() { [ -z "$(kubectl get statefulsets,pods,service -n "$1" -o name | grep -v service/kube-prometheus-stack | grep -v kube-prometheus-stack-operator)" ]; }
wait_for "everything goes with the objects" gone prometheus
wait_for "in both namespaces" gone old
wait_for "then all monitors are selected again" pool podMonitor/default/unlabeled/0
stop_up
[ -f "$dir/data/engine-account/token" ] || fail "the engine has no token"
"$gpuscale" up --data-dir "$dir/data" --reset --stop >"$dir/reset.log" 2>&1 || fail "$(cat "$dir/reset.log")"
[ ! -e "$dir/data/engine-account" ] || fail "--reset leaves the files of the engine's account"
