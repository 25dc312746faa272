#!/bin/sh
# Tests gpuscale report with gpuscale up: idle and free GPUs, costs, the three sources, and that a
# restart or a crash counts nothing twice.
. "$(dirname "$0")/lib.sh"
need kubectl curl jq

start() {
    start_up --gpus 2xTesla-T4 --prices "$dir/prices.yaml"
    url=$(engine_url)
}
echo '{currency: CHF, gpus: {T4: 3.6}}' >"$dir/prices.yaml"
cat >"$dir/pod.yaml" <<'Y'
apiVersion: v1
kind: Namespace
metadata: {name: ml, labels: {team: vision}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: ml}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: pause, command: [sleep, "100000"], resources: {limits: {nvidia.com/gpu: 1}}}]
Y
began=$(date +%s)
start
kubectl apply -f "$dir/pod.yaml" >/dev/null
report() { "$gpuscale" report --since 1d "$@"; }
idle() { report -o json | jq -e '.rows[] | select(.workload == "deployment/web" and .namespace == "ml") | .idle > 0.004' >/dev/null; }
wait_for "the hours of the idle pod are in the report" idle
report -o json >"$dir/report.json"
jq -e '.currency == "CHF" and .total.free > 0 and .total.missing == 0 and .total.busy == 0 and
    ((.total.hours - .total.busy - .total.idle - .total.free - .total.stranded) | fabs) < 1e-9 and
    (([.rows[].hours] | add) - .total.hours | fabs) < 1e-9 and
    (.total.cost - .total.hours * 3.6 | fabs) < 1e-9' "$dir/report.json" >/dev/null || {
    cat "$dir/report.json"
    fail "the report is wrong"
}
report --by owner -o csv | grep -q '^vision,0\.' || fail "the label of the namespace is not the owner"
report --idle 1s | grep -q '^  ml/deployment/web (pod web-.*, GPU [01] of node .* (Tesla T4): idle for .*, 0\.[0-9]* CHF so far$' ||
    fail "the table does not list the idle GPU"
report_has_starts() { report | grep -q '^  ml/deployment/web: .*total .*, from 1 start$'; }
wait_for "the table lists how long the pod took to start" report_has_starts
report -o html | grep -q '<td>deployment/web</td>' || fail "the page lacks the workload"
for step in 10s 15s; do
    "$gpuscale" report --prometheus "$url" --since 2m --step $step -o json |
        jq -e '.rows[] | select(.workload == "deployment/web") | .idle > 0' >/dev/null || fail "no report from the series"
done
status=$(curl -s -o "$dir/body" -w '%{http_code}' "$url/api/v1/gpuscale/report?by=team")
[ "$status" = 400 ] || fail "an unknown group gives status $status: $(cat "$dir/body")"
"$gpuscale" query -o csv 'gpuscale_gpu_seconds_total{workload="deployment/web",state="idle"}' | grep -q web || fail "the series of the ledger are missing"

# After a crash, what was written is still there, and time without an engine is counted once.
kill -KILL "$up_pid"
wait "$up_pid" || true
up_pid= # it is not expected to run
hours() { "$gpuscale" report --since 1d --file "$dir/data/ledger.db" -o json | jq .total.hours; }
before=$(hours)
wait_for "the processes of the killed instance end" nothing_left
start
# less A B: A < B
less() { jq -en --argjson a "$1" --argjson b "$2" '$a < $b' >/dev/null; }
more() { less "$before" "$(hours)"; }
wait_for "the ledger continues" more
stop_up
seconds=$(($(date +%s) - began + 1))
less "$(hours)" "$(jq -n "2 * $seconds / 3600")" || fail "two GPUs have $(hours) hours in $seconds s"
"$gpuscale" report --file "$dir/none.db" 2>"$dir/err" && fail "a missing ledger is no error"
grep -q 'none.db does not exist' "$dir/err" || fail "the error does not name the file: $(cat "$dir/err")"
echo "report: ok"
