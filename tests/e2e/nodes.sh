# Starts nodes for gpuscale's own manifests; to be sourced after cluster.sh in the test's own
# network, mount and pid namespaces: kubelets (tests/e2e/node) with a bridge for their pods,
# simulated GPUs, and a proxy for the addresses of services.

# A directory as the image of all gpuscale containers, the loads of apps, and names of services.
start_network() {
    mount -t tmpfs tmpfs /run
    mount -t tmpfs tmpfs /dev/shm # simulated GPUs go with the test
    ip link set lo up
    ip link add pods0 type bridge
    ip addr add 10.244.0.1/16 dev pods0
    ip link set pods0 up
    api_address=10.244.0.1
    mkdir "$dir/image" "$dir/load" "$dir/containers"
    chmod 755 "$dir"
    cp "$gpuscale" "$source/build/src/simulation/nvmlsim/libgpuscale-nvmlsim.so" "$source/build/bench/workload" "$dir/image/"
    echo "127.0.0.1 localhost" >"$dir/hosts"
}

start_proxy() {
    start proxy "$bin/node" --mode=proxy --kubeconfig="$dir/admin.kubeconfig" --hosts="$dir/hosts" --load="$dir/load"
}

# NAME NUMBER GPUS FLAG…: runs a node with the address 10.244.0.1NUMBER, simulated GPUs (none: "") and further flags of the
# program tests/e2e/node. To be started in the background.
run_kubelet() {
    name=$1 number=$2 gpus=$3 uuids=
    shift 3
    ip addr replace "10.244.0.1$number/16" dev pods0
    kubeconfig "node-$name" "/O=system:nodes/CN=system:node:$name"
    cert "kubelet-$name" ca "/O=system:nodes/CN=system:node:$name" "DNS:$name,IP:10.244.0.1$number"
    if [ "$gpus" ]; then
        "$gpuscale" sim create "$gpus" --name="/gpuscale-$name" >"$dir/sim-$name.log"
        uuids=$("$gpuscale" sim status --name="/gpuscale-$name" -o json | jq -r '[.gpus[].uuid] | join(",")')
    fi
    exec unshare -m sh -c 'mount -t tmpfs tmpfs /var/lib && mkdir /var/lib/kubelet && mount -t tmpfs tmpfs /var/log &&
        mkdir /var/log/pods /var/log/containers && exec "$@"' sh "$bin/node" --name="$name" --address="10.244.0.1$number" --pod-network="10.244.$number" \
        --kubeconfig="$dir/node-$name.kubeconfig" --tls-cert-file="$dir/kubelet-$name.crt" --tls-private-key-file="$dir/kubelet-$name.key" \
        --client-ca-file="$dir/ca.crt" --gpus="$uuids" --image="$dir/image" --hosts="$dir/hosts" --logs="$dir/containers" \
        --sim="/gpuscale-$name" --load="$dir/load" "$@"
}

# NAME NUMBER GPUS: starts a node and waits for it.
start_kubelet() {
    start "node-$1" run_kubelet "$@"
    wait_for "node $1 is ready" kubectl wait --for=condition=Ready "node/$1" --timeout=1s
    [ -z "$3" ] || wait_for "node $1 has GPUs" sh -c "[ \"\$(kubectl get node $1 -o jsonpath='{.status.allocatable.nvidia\.com/gpu}')\" -gt 0 ]"
}

# NAME NUMBER: drops all packets to the node at once, so that no connection is closed. Then kills all its processes.
kill_node() {
    node=$(eval "echo \$pid_node_$(echo "$1" | tr - _)")
    spaces=$(nsenter -t "$node" -m ip netns list 2>/dev/null | sed -n "s/^\(10-244-$2-[0-9]*\).*/\1/p")
    inside=$(for space in $spaces; do nsenter -t "$node" -m ip netns pids "$space"; done)
    for space in $spaces; do
        ip neigh replace "$(echo "$space" | tr - .)" lladdr 02:00:00:00:00:01 dev pods0 nud permanent
        ip link set "v$(echo "$space" | sed 's/^10-244-/p/; s/-/p/g')" down
    done
    ip addr del "10.244.0.1$2/16" dev pods0
    # One of them may have ended since it was listed.
    # shellcheck disable=SC2086
    kill -9 "$node" $inside 2>/dev/null || true
}
