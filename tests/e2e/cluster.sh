# Starts a Kubernetes control plane on loopback; to be sourced: etcd, kube-apiserver (with RBAC),
# kube-controller-manager, kube-scheduler and hollow nodes with GPUs. Sets KUBECONFIG (of an
# administrator), $dir, $kube (the URL of the API) and $release (of Kubernetes). Stops everything at exit. Exit code 3: the
# control plane is not available.
set -eu
source=${source:-$(realpath "$(dirname "$0")/../..")}
gpuscale=${GPUSCALE:-$source/build/src/cmd/gpuscale}
for c in etcd openssl kubectl curl jq; do
    command -v $c >/dev/null || { echo "e2e: skipped: $c is not installed (make e2e installs it)"; exit 3; }
done
bin=$("$source/tests/e2e/build.sh") || { echo "e2e: skipped: no control plane"; exit 3; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/gpuscale-e2e-XXXXXX")
pids=
cleanup() {
    status=$?
    for p in $pids; do kill "$p" 2>/dev/null || true; done
    sleep 1 # hollow kubelets wait for their API server
    for p in $pids; do kill -9 "$p" 2>/dev/null || true; done
    wait 2>/dev/null || true
    if [ "$status" = 0 ] && [ -z "${KEEP:-}" ]; then rm -rf "$dir"; else echo "e2e: logs in $dir"; fi
    exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

fail() { echo "FAIL: $*" >&2; exit 1; }
say() { echo "e2e: $(date +%T) $*"; }
start() { # NAME COMMAND…: in the background, with a log
    name=$1
    shift
    "$@" >"$dir/$name.log" 2>&1 &
    pids="$! $pids"
    eval "pid_$(echo "$name" | tr - _)=$!"
}
stop() { # NAME
    eval "p=\$pid_$(echo "$1" | tr - _)"
    kill "$p" 2>/dev/null || true
    wait "$p" 2>/dev/null || true
}
# What a reader of a failed run wants to know first.
show_state() {
    kubectl get nodes,pods -A -o wide 2>&1 | tail -n 60
    kubectl get pods -A -o json 2>/dev/null | jq -r '.items[] | select(.status.phase != "Running" and .status.phase != "Succeeded") |
        "\(.metadata.namespace)/\(.metadata.name): \(.status.phase): \(.status.reason // "") \(.status.message // "") \([.status.conditions[]? | .message // empty] | unique | join("; "))"' |
        tail -n 20
}
patience=${PATIENCE:-300} # seconds: far beyond what anything here takes
wait_for() { # WHAT COMMAND…
    until=$(($(date +%s) + patience)) what=$1
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$(date +%s)" -lt "$until" ] || { show_state >&2; fail "$what (waited in vain)"; }
        sleep 0.5
    done
}
# serve_groups NAMESPACE NAME PORT GROUP/VERSION…: groups of the API that a program of this machine serves, with a certificate of "ca".
serve_groups() {
    namespace=$1 service=$2 port=$3
    shift 3
    kubectl apply -f - >/dev/null <<END
apiVersion: v1
kind: Service
metadata: {name: $service, namespace: $namespace}
spec: {type: ExternalName, externalName: localhost, ports: [{port: $port}]}
END
    for group in "$@"; do
        kubectl apply -f - >/dev/null <<END
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: ${group#*/}.${group%/*}}
spec:
  group: ${group%/*}
  version: ${group#*/}
  groupPriorityMinimum: 100
  versionPriority: 100
  caBundle: $(base64 -w0 <"$dir/ca.crt")
  service: {name: $service, namespace: $namespace, port: $port}
END
    done
}
# Applies manifests of the guides. If the guides' own files are available, they are applied, too,
# and must not change anything.
guides=$source/examples/guides
originals=$source/../shared/walkthroughs
convert() { "$gpuscale" convert -f -; }
# apply_guide [--convert] FILE…: --convert converts them with gpuscale convert.
apply_guide() {
    converter=cat
    [ "$1" != --convert ] || { converter=convert && shift; }
    for file in "$@"; do
        $converter <"$guides/$file" >"$dir/manifest.yaml" && kubectl apply -f "$dir/manifest.yaml" >/dev/null || fail "$guides/$file is refused"
        [ -d "$originals" ] || continue
        generations=$(kubectl get -f "$dir/manifest.yaml" -o 'jsonpath={..metadata.generation}')
        $converter <"$originals/$file" | kubectl apply -f - >/dev/null || fail "$originals/$file is refused"
        [ "$generations" = "$(kubectl get -f "$dir/manifest.yaml" -o 'jsonpath={..metadata.generation}')" ] ||
            fail "$originals/$file differs from $guides/$file"
    done
}
# A port on which nothing listens, outside the ranges of outgoing connections and of node ports. Otherwise
# a connection could take it before its server starts.
free_port() {
    python3 -c '
import random, socket
while True:
    port = random.randrange(20000, 30000)
    try:
        socket.socket().bind(("", port))
        break
    except OSError:
        pass
print(port)'
}

. "$source/tests/e2e/certificates.sh"

# The address of the API server. It is the endpoint of the Service kubernetes unless it is a
# loopback address.
api_address=127.0.0.1
start_control_plane() {
    reconciler=none
    [ $api_address = 127.0.0.1 ] || reconciler=lease
    etcd_port=$(free_port) peer_port=$(free_port) api_port=$(free_port)
    kube=https://$api_address:$api_port
    ca ca
    ca front-proxy-ca
    cert apiserver ca "/CN=kube-apiserver" "IP:127.0.0.1,IP:$api_address,IP:10.0.0.1,DNS:localhost,DNS:kubernetes.default.svc"
    cert front-proxy front-proxy-ca "/CN=front-proxy-client"
    openssl genrsa -out "$dir/sa.key" 2048 2>/dev/null
    openssl rsa -in "$dir/sa.key" -pubout -out "$dir/sa.pub" 2>/dev/null
    kubeconfig admin "/O=system:masters/CN=admin"
    kubeconfig controller-manager "/CN=system:kube-controller-manager"
    kubeconfig scheduler "/CN=system:kube-scheduler"
    export KUBECONFIG="$dir/admin.kubeconfig"
    start etcd etcd --data-dir "$dir/etcd" --unsafe-no-fsync --listen-client-urls "http://127.0.0.1:$etcd_port" \
        --advertise-client-urls "http://127.0.0.1:$etcd_port" --listen-peer-urls "http://127.0.0.1:$peer_port" \
        --initial-advertise-peer-urls "http://127.0.0.1:$peer_port" --initial-cluster "default=http://127.0.0.1:$peer_port"
    # Logs the requests of service accounts in the namespace of gpuscale's manifests.
    cat >"$dir/audit.yaml" <<EOF
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, userGroups: ["system:serviceaccounts:monitoring"]}
- {level: None}
EOF
    # shellcheck disable=SC2086
    start apiserver "$bin/kube-apiserver" ${apiserver_flags:-} --etcd-servers "http://127.0.0.1:$etcd_port" --secure-port "$api_port" \
        --bind-address $api_address --advertise-address $api_address --endpoint-reconciler-type=$reconciler \
        --tls-cert-file "$dir/apiserver.crt" --tls-private-key-file "$dir/apiserver.key" --client-ca-file "$dir/ca.crt" \
        --authorization-mode=Node,RBAC --enable-admission-plugins=ExtendedResourceToleration --allow-privileged=true --service-account-issuer=https://e2e --service-account-key-file "$dir/sa.pub" \
        --service-account-signing-key-file "$dir/sa.key" --service-cluster-ip-range 10.0.0.0/24 \
        --requestheader-client-ca-file "$dir/front-proxy-ca.crt" --requestheader-allowed-names front-proxy-client \
        --requestheader-username-headers X-Remote-User --requestheader-group-headers X-Remote-Group \
        --requestheader-extra-headers-prefix X-Remote-Extra- --proxy-client-cert-file "$dir/front-proxy.crt" \
        --proxy-client-key-file "$dir/front-proxy.key" --enable-aggregator-routing=false \
        --feature-gates=HPAScaleToZero=true --audit-policy-file "$dir/audit.yaml" --audit-log-path "$dir/audit.log"
    wait_for "the API server is ready" kubectl get --raw /readyz
    start_controller_manager
    start scheduler "$bin/kube-scheduler" --kubeconfig "$dir/scheduler.kubeconfig" --leader-elect=false --secure-port=0
    wait_for "the default service account" kubectl -n default get serviceaccount default
    # 1.36: some behavior depends on the release.
    release=$(kubectl version -o json 2>/dev/null | jq -r '.serverVersion.gitVersion' | sed 's/^v\([0-9]*\.[0-9]*\).*/\1/')
    say "control plane $(kubectl version -o json 2>/dev/null | jq -r .serverVersion.gitVersion) at $kube"
}
# Arguments: additional flags.
start_controller_manager() {
    start controller-manager "$bin/kube-controller-manager" --kubeconfig "$dir/controller-manager.kubeconfig" \
        --leader-elect=false --use-service-account-credentials --service-account-private-key-file "$dir/sa.key" \
        --root-ca-file "$dir/ca.crt" --secure-port=0 --horizontal-pod-autoscaler-sync-period=2s \
        --horizontal-pod-autoscaler-downscale-stabilization=20s --node-monitor-grace-period=200s "$@"
}

# NAME GPUS: starts a kubelet without containers. Its pods are Running one second after they are
# bound.
start_node() {
    kubeconfig "node-$1" "/O=system:nodes/CN=system:node:$1"
    start "node-$1" env TMPDIR="$dir" "$bin/kubemark" --morph=kubelet --use-host-image-service=false --name="$1" --kubeconfig="$dir/node-$1.kubeconfig" \
        --extended-resources="nvidia.com/gpu=$2" --node-labels=nvidia.com/gpu.product=SIMULATED \
        --kubelet-port="$(free_port)" --kubelet-read-only-port="$(free_port)"
    wait_for "node $1 is ready" kubectl wait --for=condition=Ready "node/$1" --timeout=1s
}
