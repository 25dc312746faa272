# Zero on the real control plane: kube-controller-manager scales a workload to zero and back on the Object metric of two
# activators, and on the External metric. The pods of hollow nodes serve nothing, so an EndpointSlice of the test has the endpoint. Nothing routes Services
# here: clients connect to the ports in the activators' EndpointSlices.

address=$(ip -4 -o addr show scope global | awk '{ sub("/.*", "", $4); print $4; exit }')
[ -n "$address" ] || { say "skipped: zero: this machine has no address that an EndpointSlice may have"; return 0; }
adapter_port=$(free_port) pod_port=$(free_port) web_a=$(free_port) web_b=$(free_port)
first_port=$((40000 + $$ % 100 * 100))
kubectl get namespace monitoring >/dev/null 2>&1 || kubectl create namespace monitoring >/dev/null
kubectl create namespace zero >/dev/null
kubectl apply -f "$source/deploy/activator.yaml" >/dev/null || fail "deploy/activator.yaml is refused"
kubectl -n monitoring scale deployment gpuscale-activator --replicas=0 >/dev/null
cat >"$dir/activator.kubeconfig" <<END
apiVersion: v1
kind: Config
clusters: [{name: e2e, cluster: {server: $kube, certificate-authority: $dir/ca.crt}}]
users: [{name: me, user: {token: $(kubectl -n monitoring create token gpuscale-activator)}}]
contexts: [{name: e2e, context: {cluster: e2e, user: me}}]
current-context: e2e
END
# NAME PORT FIRST-LAST
start_activator() {
    start "activator-$1" "$gpuscale" activator --kubeconfig="$dir/activator.kubeconfig" --namespace=zero --identity="$1" \
        --advertise-address="$address" --listen-address="$address" --ports="$3" --web.listen-address="127.0.0.1:$2"
}
start_activator a "$web_a" "$first_port-$((first_port + 49))"
start_activator b "$web_b" "$((first_port + 50))-$((first_port + 99))"
cat >"$dir/zero.yml" <<END
scrape_configs:
- {job_name: activator, scrape_interval: 1s, honor_labels: true, static_configs: [{targets: ['127.0.0.1:$web_a', '127.0.0.1:$web_b']}]}
END
cert zero-serving ca "/CN=gpuscale-adapter" "DNS:gpuscale-adapter.monitoring.svc,DNS:localhost"
start zero-adapter "$gpuscale" adapter --engine-config="$dir/zero.yml" --secure-port="$adapter_port" --bind-address=127.0.0.1 \
    --lister-kubeconfig="$dir/admin.kubeconfig" --authentication-kubeconfig="$dir/admin.kubeconfig" \
    --authorization-kubeconfig="$dir/admin.kubeconfig" --tls-cert-file="$dir/zero-serving.crt" --tls-private-key-file="$dir/zero-serving.key"
serve_groups monitoring gpuscale-adapter "$adapter_port" custom.metrics.k8s.io/v1beta1 external.metrics.k8s.io/v1beta1
kubectl apply -f - >/dev/null <<END
apiVersion: v1
kind: Service
metadata: {name: api, namespace: zero, annotations: {gpuscale.dev/activate: Deployment/api}}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: api, namespace: zero}
spec:
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec: {terminationGracePeriodSeconds: 1, containers: [{name: main, image: any}]}
END
waiting() { kubectl get --raw /apis/custom.metrics.k8s.io/v1beta1/namespaces/zero/services/api/gpuscale_activator_waiting | jq -r '.items[0].value'; }
waiting_is() { [ "$(waiting)" = "$1" ]; }
wait_for "the metric exists with the value 0" waiting_is 0
# Each activator has an EndpointSlice: [ready, port] of both.
slices() { kubectl -n zero get endpointslices -l endpointslice.kubernetes.io/managed-by=activator.gpuscale.dev -o json; }
slices_are() { [ "$(slices | jq -c '[.items[].endpoints[0].conditions | [.ready, .serving, .terminating]] | unique')" = "$1" ]; }
both() { [ "$(slices | jq '.items | length')" = 2 ]; }
wait_for "both activators have an EndpointSlice" both
ok "the API server takes the EndpointSlices of two activators, with the permissions of deploy/activator.yaml"

stop controller-manager
start_controller_manager --feature-gates=HPAScaleToZero=true
kubectl apply -f - >/dev/null <<END
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: api, namespace: zero}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: api}
  minReplicas: 0
  maxReplicas: 3
  behavior: {scaleDown: {stabilizationWindowSeconds: 0}}
  metrics:
  - type: Object
    object:
      describedObject: {apiVersion: v1, kind: Service, name: api}
      metric: {name: gpuscale_activator_waiting}
      target: {type: AverageValue, averageValue: "8"}
END
replicas() { [ "$(kubectl -n zero get deployment api -o 'jsonpath={.spec.replicas}')" = "$1" ]; }
wait_for "kube-controller-manager scales to zero" replicas 0
slices_are '[[true,true,false]]' || fail "at zero, the endpoints are $(slices | jq -c '[.items[].endpoints[0].conditions]')"

port_of() { slices | jq -r --arg name "$1" '.items[] | select(.metadata.annotations["gpuscale.dev/activator"] == $name) | .ports[0].port'; }
curl -sS -m 280 "http://$address:$(port_of a)/" >"$dir/answer-a" 2>"$dir/error-a" &
client_a=$!
curl -sS -m 280 "http://$address:$(port_of b)/" >"$dir/answer-b" 2>"$dir/error-b" &
client_b=$!
wait_for "the requests at both activators are counted once" waiting_is 2
wait_for "kube-controller-manager scales from zero" replicas 1
ok "kube-controller-manager $release: 1 to 0 to 1 on the Object metric"

# A killed activator: its client sees the end at once. The other one goes on.
eval "kill -9 \$pid_activator_b"
if wait $client_b; then fail "the client of a killed activator got: $(cat "$dir/answer-b")"; fi
ok "kill -9: $(cat "$dir/error-b")"
mkdir "$dir/pod"
echo served >"$dir/pod/index.html"
start zero-pod python3 -m http.server --bind "$address" --directory "$dir/pod" "$pod_port"
kubectl apply -f - >/dev/null <<END
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: api-pods, namespace: zero, labels: {kubernetes.io/service-name: api}}
addressType: IPv4
endpoints: [{addresses: [$address], conditions: {ready: true}}]
ports: [{name: http, port: $pod_port, protocol: TCP}]
END
wait $client_a || fail "the held request: $(cat "$dir/error-a")"
[ "$(cat "$dir/answer-a")" = served ] || fail "the held request got: $(cat "$dir/answer-a")"
standby() { slices | jq -e '.items[] | select(.metadata.annotations["gpuscale.dev/activator"] == "a") | .endpoints[0].conditions | .ready == false and .serving and .terminating'; }
wait_for "with a ready pod, the endpoint of the activator is on standby" standby
ok "the held request is served, and the activator leaves the path"

# A new start of the killed one takes its EndpointSlice over; both delete theirs at the end.
start_activator b "$web_b" "$((first_port + 50))-$((first_port + 99))"
wait_for "both are on standby" slices_are '[[false,true,true]]'
kubectl -n zero delete endpointslice api-pods >/dev/null
wait_for "without a ready pod, both are active" slices_are '[[true,true,false]]'
wait_for "kube-controller-manager scales to zero again" replicas 0

# The same with the External metric. The client that ends its request no longer waits.
kubectl -n zero patch hpa api --type=json -p '[{"op": "replace", "path": "/spec/metrics", "value": [{"type": "External", "external": {
  "metric": {"name": "gpuscale_activator_waiting", "selector": {"matchLabels": {"service": "api"}}},
  "target": {"type": "AverageValue", "averageValue": "8"}}}]}]' >/dev/null
external_is() {
    kubectl get --raw "/apis/external.metrics.k8s.io/v1beta1/namespaces/zero/gpuscale_activator_waiting?labelSelector=service%3Dapi" |
        jq -e --arg want "$1" '[.items[].value] == [$want]' >/dev/null
}
wait_for "the External metric exists with the value 0" external_is 0
curl -sS -m 280 "http://$address:$(port_of a)/" >/dev/null 2>&1 &
client_a=$!
wait_for "kube-controller-manager scales from zero on the External metric" replicas 1
external_is 1 || fail "one request waits, and the External metric is not 1"
kill "$client_a"
wait "$client_a" || true
wait_for "kube-controller-manager scales to zero on the External metric" replicas 0
ok "kube-controller-manager $release: 0 to 1 to 0 on the External metric"
stop activator-a
stop activator-b
[ "$(slices | jq '.items | length')" = 0 ] || fail "EndpointSlices remain after a stop: $(slices | jq -c '[.items[].metadata.name]')"
refused=$(jq -r 'select(.user.username == "system:serviceaccount:monitoring:gpuscale-activator" and .responseStatus.code == 403) | .verb + " " + .requestURI' "$dir/audit.log" | sort -u)
[ -z "$refused" ] || fail "deploy/activator.yaml grants too little: $refused"
ok "a stop deletes the EndpointSlices"
stop zero-adapter
stop zero-pod
kubectl delete apiservice v1beta1.custom.metrics.k8s.io v1beta1.external.metrics.k8s.io >/dev/null
kubectl delete namespace zero --wait=false >/dev/null
stop controller-manager
start_controller_manager
