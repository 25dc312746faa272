#!/bin/sh
# The activator with the real kube-proxy: requests to a ClusterIP wait at the activator while no pod is ready, go to the pod
# directly while one is, and none is lost or doubled in cycles between both. Everything runs in a network namespace of its own,
# because kube-proxy writes packet filter rules. The pod is a process, and the test writes its EndpointSlice as the cluster's
# controller does. CYCLES: their number. Exit code 3: root, nft or the control plane is missing.
if [ -z "${E2E_OWN_NETWORK:-}" ]; then
    [ "$(id -u)" = 0 ] || { echo "e2e: skipped: kube-proxy needs root"; exit 3; }
    command -v nft >/dev/null || { echo "e2e: skipped: nft is not installed (make e2e installs it)"; exit 3; }
    "$(dirname "$0")/build.sh" kube-proxy >/dev/null || { echo "e2e: skipped: no kube-proxy"; exit 3; }
    exec unshare -n env E2E_OWN_NETWORK=1 "$0" "$@"
fi
. "$(dirname "$0")/cluster.sh"
passed=0
ok() { passed=$((passed + 1)); say "ok: $*"; }
address=192.0.2.2
ip link set lo up
ip address add $address/32 dev lo scope global
ip route add default dev lo src $address
start_control_plane
kubectl apply -f - >/dev/null <<END
apiVersion: v1
kind: Node
metadata: {name: proxied}
END
kubectl patch node proxied --subresource=status --type=merge -p "{\"status\": {\"addresses\": [{\"type\": \"InternalIP\", \"address\": \"$address\"}]}}" >/dev/null
start kube-proxy "$bin/kube-proxy" --kubeconfig="$dir/admin.kubeconfig" --proxy-mode=nftables --hostname-override=proxied \
    --healthz-bind-address= --metrics-bind-address="127.0.0.1:$(free_port)" --conntrack-max-per-core=0 \
    --conntrack-tcp-timeout-established=0s --conntrack-tcp-timeout-close-wait=0s
web=$(free_port)
start activator "$gpuscale" activator --kubeconfig="$dir/admin.kubeconfig" --identity=a --advertise-address=$address \
    --web.listen-address="127.0.0.1:$web"
kubectl apply -f - >/dev/null <<END
apiVersion: v1
kind: Service
metadata: {name: api, annotations: {gpuscale.dev/activate: Deployment/api}}
spec: {ports: [{name: http, port: 8000}, {name: https, port: 8001}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: api}
spec:
  replicas: 0
  selector: {matchLabels: {app: api}}
  template: {metadata: {labels: {app: api}}, spec: {containers: [{name: main, image: any}]}}
END
ip=$(kubectl get service api -o 'jsonpath={.spec.clusterIP}')
metric() { curl -sS "http://127.0.0.1:$web/metrics" | sed -n "s/^gpuscale_activator_$1{[^}]*} //p"; }
is() { [ "$(metric "$1")" = "$2" ]; }

tools=$source/tests/integration
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$dir/pod.key" -out "$dir/pod.crt" -days 2 -subj /CN=zero 2>/dev/null
start_pod() { start pod python3 "$tools/activator_server.py" 8000 "$dir/requests" "$dir/pod.crt" "$dir/pod.key"; }
slice() { # READY TERMINATING
    kubectl apply -f - >/dev/null <<END
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: api-pods, labels: {kubernetes.io/service-name: api}}
addressType: IPv4
endpoints: [{addresses: [$address], conditions: {ready: $1, serving: true, terminating: $2}}]
ports: [{name: http, port: 8000, protocol: TCP}, {name: https, port: 8001, protocol: TCP}]
END
}
pod_listens() { curl -sS "http://$address:8000/ready"; }
to_one() { start_pod && wait_for "the pod listens" pod_listens && slice true false; }
# As Kubernetes ends a pod with a preStop hook that waits until it gets no more connections.
to_zero() { slice false true && sleep 3 && stop pod && kubectl delete endpointslice api-pods >/dev/null; }

: >"$dir/requests"
curl -sS -m 250 "http://$ip:8000/get/first" >"$dir/first" 2>&1 &
first=$!
wait_for "a request to the ClusterIP waits at the activator" is waiting 1
to_one
wait $first || fail "the held request: $(cat "$dir/first")"
[ "$(cat "$dir/first")" = first ] || fail "the held request got: $(cat "$dir/first")"
ok "kube-proxy $release sends a request to the activator, and it is served by the first pod"

# kube-proxy chooses among endpoints by chance until it has read that the activator is on standby.
direct() { before=$(metric arrivals_total) && for i in $(seq 20); do curl -sS "http://$ip:8000/get/direct" || return 1; done && [ "$(metric arrivals_total)" = "$before" ]; }
wait_for "kube-proxy has the rules with the pod" direct
before=$(metric arrivals_total)
for i in $(seq 200); do curl -sS "http://$ip:8000/get/path-$i" >/dev/null || fail "request $i failed"; done
[ "$(metric arrivals_total)" = "$before" ] || fail "requests pass the activator while a pod is ready"
ok "with a ready pod, 200 of 200 requests go to it directly"

: >"$dir/requests"
: >"$dir/running"
python3 "$tools/activator_load.py" "$ip" 8000 "$dir/requests" "$dir/running" >"$dir/load" 2>&1 &
load=$!
waits() { [ "$(metric waiting)" != 0 ]; }
for cycle in $(seq "${CYCLES:-5}"); do
    sleep 2
    to_zero
    wait_for "cycle $cycle: requests wait" waits
    to_one
done
rm "$dir/running"
wait $load || { cat "$dir/load"; fail "requests were lost or doubled"; }
ok "${CYCLES:-5} cycles from 1 to 0 to 1: $(cat "$dir/load")"

# A killed activator resets the connections that it holds.
to_zero
curl -sS -m 250 "http://$ip:8000/get/last" >"$dir/last" 2>&1 &
last=$!
wait_for "a request waits" waits
eval "kill -9 \$pid_activator"
wait $last && fail "the client of a killed activator got: $(cat "$dir/last")"
ok "kill -9: $(cat "$dir/last")"
echo "$passed passed, 0 failed"
