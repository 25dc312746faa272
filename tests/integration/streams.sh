#!/bin/sh
# exec, attach, cp, run and port-forward with kubectl, over WebSocket and over SPDY as kubectl before 1.30 speaks
# it: exit codes, streams, a terminal, many at once, hostile clients, and clients that vanish.
. "$(dirname "$0")/lib.sh"
need kubectl python3 script curl

start_up --gpus 1xTesla-T4
kubectl apply -f - <<'Y'
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: web
    image: any
    command: [python3, -m, http.server, "8000"]
    ports: [{containerPort: 8000}]
    env: [{name: COLOUR, value: green}]
---
apiVersion: v1
kind: Pod
metadata: {name: two}
spec:
  containers:
  - {name: a, image: any, command: [sleep, infinity]}
  - {name: b, image: any, command: [sleep, infinity]}
Y
kubectl wait --for=condition=Ready --timeout=180s pod/web pod/two
head -c 10000000 /dev/urandom >"$dir/large"

# exec_tests: all of them, by the transport that the environment chooses.
exec_tests() {
    code=0
    kubectl exec web -- sh -c 'echo "out $COLOUR"; echo err >&2; exit 3' >"$dir/out" 2>"$dir/err" || code=$?
    [ "$code" = 3 ] || fail "exit code $code instead of 3"
    [ "$(cat "$dir/out")" = "out green" ] || fail "stdout: $(cat "$dir/out")"
    grep -qx err "$dir/err" || fail "stderr: $(cat "$dir/err")"
    kubectl exec -i web -- cat <"$dir/large" | cmp - "$dir/large" || fail "10 MB through cat differ"
    [ "$(printf x | kubectl exec -i web -- wc -c)" = 1 ] || fail "stdin does not end"
    ! kubectl exec web -- /no/such/program 2>"$dir/err" || fail "a missing program succeeds"
    grep -q 'No such file or directory' "$dir/err" || fail "missing program: $(cat "$dir/err")"
    ! kubectl exec two -c none -- true 2>"$dir/err" || fail "a missing container succeeds"
    grep -q 'container none is not valid for pod two' "$dir/err" || fail "missing container: $(cat "$dir/err")"
    [ "$(kubectl exec two -c b -- sh -c 'echo $GPUSCALE_CONTAINER_NAME')" = b ] || fail "not container b"
    kubectl cp "$dir/large" web:copy
    kubectl cp web:copy "$dir/back" >/dev/null
    cmp "$dir/large" "$dir/back" || fail "cp changed the file"
    rm "$dir/back"
    echo "ok: exec and cp $1"
}
exec_tests "over WebSocket"
(
    export KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false
    exec_tests "over SPDY"
)

forward_tests() {
    : >"$dir/forward.log" # the lines of an earlier one must not be read
    kubectl port-forward pod/web ":8000" ":9999" >"$dir/forward.log" 2>&1 &
    forward=$!
    pids="$pids $forward"
    port_of() { sed -n "s/^Forwarding from 127.0.0.1:\([0-9]*\) -> $1$/\1/p" "$dir/forward.log"; }
    is_forwarded() { [ -n "$(port_of 9999)" ]; }
    wait_for "ports are forwarded" is_forwarded
    url=http://127.0.0.1:$(port_of 8000)
    curl -sSf "$url/large" | cmp - "$dir/large" || fail "10 MB through port-forward differ"
    many=
    for i in 1 2 3 4 5 6 7 8 9 10; do
        curl -sSf -o "$dir/many$i" "$url/large" &
        many="$many $!"
    done
    for pid in $many; do wait "$pid" || fail "one of ten connections failed"; done
    for i in 1 2 3 4 5 6 7 8 9 10; do cmp "$dir/many$i" "$dir/large" || fail "download $i differs"; done
    rm "$dir"/many*
    ! curl -s "http://127.0.0.1:$(port_of 9999)/" || fail "a closed port answers"
    wait_for "the reason is shown" grep -q 'error forwarding port 9999 to pod web.*connection refused' "$dir/forward.log"
    kill "$forward" 2>/dev/null || true
    wait "$forward" 2>/dev/null || true
    echo "ok: port-forward $1"
}
kubectl cp "$dir/large" web:large
forward_tests "over WebSocket"
(
    export KUBECTL_PORT_FORWARD_WEBSOCKETS=false
    forward_tests "over SPDY"
)

# A terminal with the size of the client's, and its exit code.
code=0
(
    soon grep -q ready "$dir/terminal" && printf 'stty size; exit 5\r'
    soon grep -q 'exit code 5' "$dir/terminal"
) | script -qefc 'stty rows 33 cols 101; kubectl exec -it web -- sh -c "echo ready; exec sh"' /dev/null >"$dir/terminal" 2>&1 || code=$?
[ "$code" = 5 ] || fail "exit code $code of the terminal: $(cat "$dir/terminal")"
grep -q '^33 101' "$dir/terminal" || fail "size of the terminal: $(cat "$dir/terminal")"
echo "ok: terminal"

# attach: the output from now on, the input of a container that has one, and `run -it`.
kubectl apply -f - <<'Y'
apiVersion: v1
kind: Pod
metadata: {name: tick}
spec:
  containers:
  - {name: c, image: any, command: [sh, -c, "while sleep 0.2; do echo tick; echo tock >&2; done"]}
Y
kubectl wait --for=condition=Ready --timeout=180s pod/tick
attach_tests() {
    : >"$dir/out" && : >"$dir/err"
    kubectl attach tick >"$dir/out" 2>"$dir/err" &
    client=$!
    pids="$pids $client"
    wait_for "output is shown" grep -qx tick "$dir/out"
    wait_for "errors are shown" grep -qx tock "$dir/err"
    kill "$client"
    wait "$client" 2>/dev/null || true
    # The container waits for its end; its last word is that of the log or of the session.
    printf 'some input\n' | kubectl run "$2" --image=any --restart=Never -i --rm --command -- sh -c 'sed s/input/output/; sleep 1' >"$dir/out" 2>"$dir/err"
    grep -qx 'some output' "$dir/out" || fail "run -i: $(cat "$dir/out" "$dir/err")"
    echo "ok: attach $1"
}
attach_tests "over WebSocket" run-1
(
    export KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false
    attach_tests "over SPDY" run-2
)
code=0
(
    soon grep -q 'command prompt' "$dir/terminal" && printf 'stty size; exit 7\r'
    soon grep -q 'terminated (Error)' "$dir/terminal"
) | script -qefc 'stty rows 33 cols 101; kubectl run shell --image=any --restart=Never -it --rm --command -- sh' /dev/null >"$dir/terminal" 2>&1 || code=$?
[ "$code" = 7 ] || fail "exit code $code of run -it: $(cat "$dir/terminal")"
grep -q '^33 101' "$dir/terminal" || fail "size of the terminal of run -it: $(cat "$dir/terminal")"
echo "ok: run -it"
minor=$(kubectl version --client 2>/dev/null | sed -n 's/.*Client Version.*v1\.\([0-9]*\)\..*/\1/p;s/.*GitVersion:"v1\.\([0-9]*\)\..*/\1/p')
running=
[ "${minor:-0}" -lt 23 ] || running="pod/web --target=web" # older ones use a form that Kubernetes 1.22 removed
for debugged in ${running:+"$running"} "pod/web --copy-to=web-debug" "$(kubectl get nodes -o name)"; do
    rm -f "$dir/terminal"
    # shellcheck disable=SC2086 # the flag is a word
    (
        soon grep -q 'command prompt' "$dir/terminal" && printf 'echo debugged $((40 + 2)); exit\r'
        soon grep -q '^debugged 42' "$dir/terminal"
    ) | script -qefc "kubectl debug $debugged -it --image=any -- sh" /dev/null >"$dir/terminal" 2>&1 || fail "debug $debugged: $(cat "$dir/terminal")"
    grep -q '^debugged 42' "$dir/terminal" || fail "debug $debugged: $(cat "$dir/terminal")"
done
echo "ok: debug of ${running:+a running pod, of }a copy and of the node"
[ -z "$running" ] || [ "$(kubectl get pod web -o jsonpath='{.status.phase} {.status.ephemeralContainerStatuses[0].state.terminated.exitCode}')" = "Running 0" ] ||
    fail "debug of a running pod: $(kubectl get pod web -o yaml)"

# Hostile clients disturb nobody, and cost a bounded amount of memory.
api=$(sed -n 's#.*https://127.0.0.1:\([0-9]*\).*#\1#p' "$KUBECONFIG" | head -n 1)
mkfifo "$dir/until"
python3 "$source/tests/integration/hostile_streams.py" "$api" "$dir/data/pki/token" web <"$dir/until" >"$dir/hostile.log" 2>&1 &
hostile=$!
pids="$pids $hostile"
exec 9>"$dir/until"
wait_for "a pod has all its sessions" grep -q 'sessions without a reader' "$dir/hostile.log"
[ "$(kubectl exec two -c a -- echo served)" = served ] || fail "another pod is not served"
kubectl get pods >/dev/null || fail "the API is not served"
memory=$(awk '/^VmRSS/ { print int($2 / 1024) }' "/proc/$up_pid/status")
limit=400
nm "$build/src/libbase.a" 2>/dev/null | grep -q __asan_init && limit=1000 # freed memory stays in quarantine
[ "$memory" -lt "$limit" ] || fail "$memory MB of memory with hostile clients"
exec 9>&-
wait "$hostile" || fail "$(cat "$dir/hostile.log")"
cat "$dir/hostile.log"
served() { kubectl exec web -- true; }
wait_for "the pod takes sessions again ($memory MB were in use)" served

# Many at once.
many=
for i in 1 2 3 4 5 6 7 8 9 10; do
    kubectl exec web -- sh -c "seq 20000 | md5sum" >"$dir/many$i" &
    many="$many $!"
done
for pid in $many; do wait "$pid" || fail "one of ten failed"; done
[ "$(cat "$dir"/many* | sort -u | wc -l)" = 1 ] || fail "ten outputs differ"
echo "ok: ten at once"

# Nothing is left of a client that vanishes, and a container takes its sessions with it. Other runs of this test are in
# the same table of processes.
kubectl exec web -- sleep "8$$" &
client=$!
wait_for "the command runs" pgrep -fx "sleep 8$$"
kill -9 "$client"
wait "$client" 2>/dev/null || true
gone() { ! pgrep -fx "$1"; }
wait_for "the command of a killed client has ended" gone "sleep 8$$"
code=0
kubectl exec two -c a -- sleep "9$$" 2>"$dir/err" &
client=$!
wait_for "the command runs" pgrep -fx "sleep 9$$"
kubectl delete pod two --grace-period=0 --force >/dev/null 2>&1
wait "$client" || code=$?
[ "$code" = 137 ] || fail "exit code $code of a session whose pod was deleted"
wait_for "the command of a deleted pod has ended" gone "sleep 9$$"

scaling_works
stop_up
