#!/bin/sh
# Tests scaling to zero and back in gpuscale up: a request on each path waits, the autoscaler reads it as a metric of the
# Service and starts a pod, the answer comes, and the next requests go to the pod directly. Then cycles from 1 to 0
# to 1 under load lose and double no request. CYCLES: their number. At the end, an activator stops without the API server.
. "$(dirname "$0")/lib.sh"
need kubectl curl jq python3 openssl
cycles=${CYCLES:-3}
here=$source/tests/integration
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$dir/key" -out "$dir/cert" -days 2 -subj /CN=zero 2>/dev/null

start_up --gpus 1xTesla-T4 --horizontal-pod-autoscaler-sync-period=1s
cat >"$dir/zero.yaml" <<Y
apiVersion: apps/v1
kind: Deployment
metadata: {name: api}
spec:
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec:
      terminationGracePeriodSeconds: 10
      containers:
      - name: api
        image: any
        command: [python3, $here/activator_server.py, "8000", $dir/requests, $dir/cert, $dir/key]
        ports: [{containerPort: 8000}, {containerPort: 8001}]
        readinessProbe: {httpGet: {path: /ready, port: 8000}, periodSeconds: 1}
---
apiVersion: v1
kind: Service
metadata: {name: api, annotations: {gpuscale.dev/activate: Deployment/api}}
spec:
  type: LoadBalancer
  selector: {app: api}
  ports: [{name: http, port: 8000}, {name: https, port: 8001}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: api}
spec: {defaultBackend: {service: {name: api, port: {name: http}}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: api}
spec:
  minReplicas: 0
  maxReplicas: 3
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: api}
  behavior: {scaleDown: {stabilizationWindowSeconds: 0}}
  metrics:
  - type: Object
    object:
      describedObject: {apiVersion: v1, kind: Service, name: api}
      metric: {name: gpuscale_activator_waiting}
      target: {type: AverageValue, averageValue: "8"}
Y
kubectl apply -f "$dir/zero.yaml"
# The example, with a shorter time until zero.
sed 's/stabilizationWindowSeconds: 60/stabilizationWindowSeconds: 0/' "$source/examples/zero/vllm.yaml" >"$dir/chat.yaml"
kubectl apply -f "$dir/chat.yaml"
chat_is() { [ "$(kubectl get deployment chat -o 'jsonpath={.spec.replicas} {.status.replicas}')" = "$1" ]; }
wait_for "the example scales to zero" chat_is "0 "
curl -sS -m 170 "http://$(kubectl get service chat -o 'jsonpath={.spec.clusterIP}'):8000/v1/models" >"$dir/models"
grep -q Qwen3-0.6B "$dir/models" || fail "the example answers $(cat "$dir/models")"
kubectl delete -f "$dir/chat.yaml" >/dev/null
echo "ok: the example is woken by a request"

replicas() { [ "$(kubectl get deployment api -o 'jsonpath={.spec.replicas}')" = "$1" ]; }
pods() { [ "$(kubectl get pods -l app=api -o name | wc -l)" = "$1" ]; }
wait_for "the autoscaler scales to zero" replicas 0
wait_for "the pod is gone" pods 0
ip=$(kubectl get service api -o 'jsonpath={.spec.clusterIP}')
activator() { curl -sS -G "$(engine_url)/api/v1/query" --data-urlencode "query=gpuscale_activator_$1" | jq -r '.data.result[0].value[1]'; }
is() { [ "$(activator "$1")" = "$2" ]; }
wait_for "the metric exists at zero" is waiting 0
external() { kubectl get --raw "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/gpuscale_activator_waiting?labelSelector=service%3Dapi" | jq -r '.items[].value'; }
[ "$(external)" = 0 ] || fail "the External metric at zero is \"$(external)\""

# A health check of a load balancer wakes nothing, and gets an answer.
curl -sS -A 'ELB-HealthChecker/2.0' -o "$dir/probe" -w '%{http_code}' "http://$ip:8000/" >"$dir/status"
[ "$(cat "$dir/status")" = 200 ] || fail "a health check got $(cat "$dir/status")"
is arrivals_total 0 || fail "a health check arrived as a request"

# The autoscaler wakes the service. A request on each path waits for it.
node_port=$(kubectl get service api -o 'jsonpath={.spec.ports[0].nodePort}')
balancer=$(kubectl get service api -o 'jsonpath={.status.loadBalancer.ingress[0].ip}')
ingress=$(kubectl get ingress api -o 'jsonpath={.metadata.annotations.gpuscale\.dev/address}')
[ "$node_port" ] && [ "$balancer" ] && [ "$ingress" ] || fail "no address: \"$node_port\" \"$balancer\" \"$ingress\""
for path in "cluster $ip:8000" "node 127.0.0.1:$node_port" "balancer $balancer:8000" "ingress $ingress"; do
    curl -sS -m 170 "http://${path#* }/get/${path%% *}" >"$dir/answer-${path%% *}" 2>&1 &
    pids="$pids $!"
done
wait_for "requests on all paths have passed the activator" is released_total 4
for path in cluster node balancer ingress; do
    wait_for "an answer on the path $path" test -s "$dir/answer-$path"
    [ "$(cat "$dir/answer-$path")" = "$path" ] || fail "the answer on the path $path is $(cat "$dir/answer-$path")"
done
# From here on, the test scales.
kubectl delete hpa api >/dev/null
has_ready_pod() { [ "$(kubectl get deployment api -o 'jsonpath={.status.readyReplicas}')" = 1 ]; }
is_awake() { { replicas 1 || kubectl scale deployment api --replicas=1; } && has_ready_pod; } # a decision may be under way
wait_for "a pod is ready" is_awake
wait_for "new connections go to the pod" is active 0
before=$(activator arrivals_total)
for i in 1 2 3; do curl -sS "http://$ip:8000/get/direct-$i" >/dev/null || fail "a direct request failed"; done
sleep 1
is arrivals_total "$before" || fail "requests pass the activator while a pod is ready"
ready='.items[] | select(.metadata.labels["endpointslice.kubernetes.io/managed-by"] == "activator.gpuscale.dev") | .endpoints[0].conditions | [.ready, .serving, .terminating] | tostring'
kubectl get endpointslices -o json | jq -r "$ready" >"$dir/conditions"
grep -q 'true' "$dir/conditions" || fail "the activator has no EndpointSlice"

# Cycles under load.
: >"$dir/requests"
: >"$dir/running"
python3 "$here/activator_load.py" "$ip" 8000 "$dir/requests" "$dir/running" >"$dir/load" 2>&1 &
load=$!
waits() { [ "$(activator waiting)" != 0 ]; }
for cycle in $(seq "$cycles"); do
    wait_for "cycle $cycle: a pod is ready" has_ready_pod
    kubectl scale deployment api --replicas=0 >/dev/null
    wait_for "cycle $cycle: requests wait" waits
    wait_for "cycle $cycle: no pod is left" pods 0
    kubectl scale deployment api --replicas=1 >/dev/null
done
wait_for "a pod is ready" has_ready_pod
rm "$dir/running"
wait "$load" || { cat "$dir/load"; fail "requests were lost or doubled"; }
cat "$dir/load"

# What waits is reported, and the EndpointSlice goes with the annotation.
kubectl annotate service api gpuscale.dev/activate- >/dev/null
slices() { [ "$(kubectl get endpointslices -o json | jq "[$ready] | length")" = "$1" ]; }
wait_for "the EndpointSlice is deleted" slices 0

# An activator without connections ends although the API server is away, and long before --hold.
"$gpuscale" activator --kubeconfig="$KUBECONFIG" --advertise-address=127.0.0.1 --listen-address=127.0.0.1 --identity=second \
    --ports=21000-21999 --web.listen-address= >"$dir/second.log" 2>&1 &
second=$!
kubectl annotate service api gpuscale.dev/activate=Deployment/api >/dev/null
wait_for "both activators have an EndpointSlice" slices 2
stop_up
kill -TERM "$second"
ended() { ! kill -0 "$second" 2>/dev/null; }
wait_for "the activator ends without the API server" ended
grep -q "its EndpointSlices could not be deleted" "$dir/second.log" || { cat "$dir/second.log"; fail "the activator does not report what it left"; }
