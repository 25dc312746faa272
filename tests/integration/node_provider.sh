#!/bin/sh
# gpuscale node-provider with the API of gpuscale up, and curl as a gRPC client with a certificate.
. "$(dirname "$0")/lib.sh"
need kubectl curl jq setsid flock
curl --version | grep -q HTTP2 || skip "curl has no HTTP/2"

start_up
cat >"$dir/machine.sh" <<END
#!/bin/sh
# A kubelet that was started without --provider-id.
echo \$\$ >"$dir/\$GPUSCALE_NAME.pid"
printf 'apiVersion: v1\nkind: Node\nmetadata: {name: %s}\n' "\$GPUSCALE_NAME" | kubectl create -f -
exec sleep infinity
END
chmod +x "$dir/machine.sh"
cat >"$dir/pools.yaml" <<END
commands:
  create: [$source/examples/node-provider/process.sh]
  delete: [$source/examples/node-provider/process.sh]
  list: [$source/examples/node-provider/process.sh]
  env: {MACHINES: $dir/machines, MACHINE_COMMAND: $dir/machine.sh}
pools:
- {name: t4, max: 3, machine: {cpu: 4, memory: 16Gi, gpus: 1}}
END

provider() {
    exec "$gpuscale" node-provider --pools="$dir/pools.yaml" --state-dir="$dir/state" \
        --generate-certificates="$dir/certificates" --address=127.0.0.1:8086 \
        --web.listen-address=127.0.0.1:9411 --list-interval=1s --kubeconfig="$KUBECONFIG" "$@"
}
start_provider() {
    provider >>"$dir/provider.log" 2>&1 &
    provider_pid=$!
    echo "$provider_pid" >"$dir/provider.pid"
    wait_for "the provider is ready" curl -fsS http://127.0.0.1:9411/readyz
}
pools() { curl -fsS http://127.0.0.1:9411/api/v1/pools | jq -r "$1"; }
pools_are() { [ "$(pools "$1")" = "$2" ]; }

# rpc METHOD BYTES LENGTH [CURL-OPTION]...: sends the message; succeeds if the status is 0.
service=https://127.0.0.1:8086/clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider
rpc() {
    method=$1 bytes=$2 length=$3
    shift 3
    # shellcheck disable=SC2059
    printf "\\000\\000\\000\\000\\$(printf %03o "$length")$bytes" |
        curl -sS --http2 --cacert "$dir/certificates/ca.crt" -H 'Content-Type: application/grpc' \
            -H 'TE: trailers' --data-binary @- -D "$dir/headers" -o "$dir/body" "$@" "$service/$method" || return 1
    grep -q '^grpc-status: 0' "$dir/headers"
}
call() { rpc "$@" --cert "$dir/certificates/client.crt" --key "$dir/certificates/client.key"; }

start_provider
grep -q 'address: "localhost:8086"' "$dir/certificates/cloud-config.yaml" || fail "no cloud-config"
call NodeGroups '' 0 || fail "NodeGroups"
grep -qa t4 "$dir/body" || fail "NodeGroups does not contain the pool"
! rpc NodeGroups '' 0 2>/dev/null || fail "a client without a certificate is served"
! curl -sS --http2-prior-knowledge "http://127.0.0.1:8086/x" 2>/dev/null || fail "cleartext is served"
echo "ok: only clients with a certificate are served"

call NodeGroupIncreaseSize '\010\001\022\002t4' 6 || fail "NodeGroupIncreaseSize"
wait_for "the machine has registered" pools_are '.pools[0].machines[0].registered' true
name=$(pools '.pools[0].machines[0].name')
id=$(kubectl get node "$name" -o 'jsonpath={.spec.providerID}')
[ "$id" = "gpuscale://t4/$name" ] || fail "the Node has the provider ID \"$id\""
curl -fsS http://127.0.0.1:9411/metrics | grep -q '^gpuscale_node_provider_target_size{pool="t4"} 1' || fail "target_size"
echo "ok: a machine is created, and its Node gets the provider ID"

code=0
(provider --web.listen-address=) >"$dir/second.log" 2>&1 || code=$?
[ "$code" = 1 ] || fail "a second provider exits with $code"
grep -q "another node provider uses this directory" "$dir/second.log" || fail "$(cat "$dir/second.log")"
(provider --web.listen-address=127.0.0.1:9413 --address=127.0.0.1:0 --state-dir="$dir/other") >"$dir/other.log" 2>&1 &
other_pid=$!
echo "$other_pid" >"$dir/other.pid"
waits() { curl -sS http://127.0.0.1:9413/readyz | grep -q 'another provider holds the Lease'; }
wait_for "a provider with another state directory waits for the Lease" waits
kill -TERM "$other_pid"
wait "$other_pid" || fail "the other provider ended with exit code $?"
kill -9 "$provider_pid"
wait "$provider_pid" 2>/dev/null || true
start_provider
wait_for "the machine is known after a crash" pools_are '.pools[0].machines[] | [.name, .registered] | @csv' "\"$name\",true"

cp "$dir/pools.yaml" "$dir/good.yaml"
echo 'pools: [{nam: t4}]' >"$dir/pools.yaml"
wait_for "a wrong file is not used" grep -q 'the changed file is not used: .*pools.yaml:1:' "$dir/provider.log"
sed 's/max: 3/max: 2/' "$dir/good.yaml" >"$dir/pools.yaml"
kill -HUP "$provider_pid"
wait_for "a changed file is used" pools_are '.pools[0] | [.max, .target] | @csv' 2,1
wait_for "the machine is still registered" pools_are '.pools[0].machines[0].registered' true

n=${#id}
inner="\\012\\$(printf %03o "$n")$id"
call NodeGroupDeleteNodes "\\012\\$(printf %03o $((n + 2)))$inner\\022\\002t4" $((n + 8)) || fail "NodeGroupDeleteNodes"
node_is_gone() { ! kubectl get node "$name" 2>/dev/null; }
wait_for "the Node of the deleted machine is removed" node_is_gone
pools_are '.pools[0].target' 0 || fail "the target is not 0"
[ ! -e "$dir/machines/t4/$name" ] || fail "the machine still exists"
kill -TERM "$provider_pid"
wait "$provider_pid" || fail "the provider ended with exit code $?"
echo "ok: machine and Node are gone"
stop_up

# --- examples/node-provider/redfish.sh with two simulated servers ---

command -v python3 >/dev/null || skip "the Redfish example: python3 is not installed"
python3 "$(dirname "$0")/redfish_server.py" "$dir/redfish.port" &
pids="$pids $!"
wait_for "the servers respond" test -s "$dir/redfish.port"
port=$(cat "$dir/redfish.port")
printf 'gpu-01 http://127.0.0.1:%s/redfish/v1/Systems/gpu-01\ngpu-02 http://127.0.0.1:%s/redfish/v1/Systems/gpu-02\n' \
    "$port" "$port" >"$dir/systems.txt"
printf 'machine 127.0.0.1 login admin password x\n' >"$dir/netrc"
redfish() {
    GPUSCALE_ACTION=$1 GPUSCALE_NAME=${2:-} GPUSCALE_HOSTS="gpu-01 gpu-02" REDFISH_SYSTEMS=$dir/systems.txt \
        REDFISH_NETRC=$dir/netrc SHUTDOWN_SECONDS=5 "$source/examples/node-provider/redfish.sh"
}
[ -z "$(redfish list)" ] || fail "servers that are off are listed"
redfish create gpu-01 && redfish create gpu-01 && redfish create gpu-02 || fail "create"
[ "$(redfish list)" = "$(printf 'gpu-01 running\ngpu-02 running')" ] || fail "list: $(redfish list)"
redfish delete gpu-01 && redfish delete gpu-02 && redfish delete gpu-02 || fail "delete"
[ -z "$(redfish list)" ] || fail "deleted servers are listed"
echo 'gpu-01 http://127.0.0.1:1/' >"$dir/systems.txt"
! redfish list 2>/dev/null || fail "a list with a server that does not respond succeeds"
echo "ok: servers are switched by Redfish"
