#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The example of docs/latency-target.md under `gpuscale up`: requests that wait make it scale, explain and the page have the
# bounds, and another target is calculated on the recorded requests.
. "${GPUSCALE_SOURCE_ROOT:?}/tests/integration/lib.sh"
need kubectl curl jq hey

start_up --gpus 4xA100-SXM4-80GB -f "$source/examples/vllm/latency-target.yaml"
prometheus=$(sed -n 's/^Ready: .*Prometheus API \(http:[^ ]*\).*/\1/p' "$dir/up.log")
wait_for "the service is ready" pods_ready chat 1
# With its port: an ordinary user may not bind port 80.
address() { service=$(sed -n 's/^Service: \(http:[^ ]*\).*/\1/p' "$dir/up.log") && [ -n "$service" ]; }
wait_for "the service has an address" address

hey -z 10m -c 150 -t 0 -disable-keepalive -m POST -T application/json -d '{"prompt": "Hello", "max_tokens": 300, "ignore_eos": true}' \
    "$service/v1/completions" >"$dir/hey.txt" 2>&1 &
load=$!
pids="$pids $load"
scaled() { [ "$(kubectl get deployment chat -o jsonpath='{.spec.replicas}')" -gt 1 ]; }
wait_for "more than 32 requests at a time need more than one replica" scaled
kubectl get events --field-selector involvedObject.kind=HorizontalPodAutoscaler -o jsonpath='{.items[*].message}' >"$dir/events.txt"
grep -q 'New size: [2-4]' "$dir/events.txt" || fail "the event of the change: $(cat "$dir/events.txt")"
"$gpuscale" explain hpa chat >"$dir/explanation.txt" 2>&1 || fail "gpuscale explain hpa"
for text in 'Latency target ttft=1s,p=90' 'demand ' 'throughput ' 'pressure '; do
    grep -q "$text" "$dir/explanation.txt" || fail "no '$text' in $(cat "$dir/explanation.txt")"
done
echo "ok: the example scales on its latency target, and explains each bound"

page() { curl -sS "$prometheus/api/v1/gpuscale/explain?namespace=default&name=chat" >"$dir/page.json"; }
phases() { page && jq -e '.data.startup.n > 0 and .data.startup.phases.load.n > 0' "$dir/page.json" >/dev/null; }
wait_for "the page has the phases of starts" phases
jq -e '.data.slo | .annotation == "ttft=1s,p=90" and .applied and (.bounds | length > 3) and .decider' "$dir/page.json" >/dev/null ||
    fail "the bounds of the page: $(jq -c .data.slo "$dir/page.json")"
echo "ok: the page has the bounds and the phases of starts"
throughput_known() { page && jq -e '.data.slo.bounds[]? | select(.name == "throughput") | .text // "" | contains("; a replica ")' "$dir/page.json" >/dev/null; }
wait_for "a queue shows the throughput of a replica" throughput_known

history() { "$gpuscale" explain hpa chat --what-if slo.ttft=5s --history 10m >"$dir/history.txt" 2>"$dir/history.log"; }
wait_for "the recorded requests are served again" history
grep -q '^With ttft 5s you would have .* of the requests within ttft=5s,p=90' "$dir/history.txt" || fail "the summary: $(cat "$dir/history.txt")"
grep -q 'SIMULATED: the recorded requests are served by a model of meta-llama/Llama-3.1-8B-Instruct on A100-SXM4-80GB' "$dir/history.txt" || fail "the model"
grep -q 'speed was multiplied by' "$dir/history.txt" || fail "the fit: $(cat "$dir/history.txt")"
! "$gpuscale" explain hpa chat --what-if slo.ttft=fast --history 10m >"$dir/wrong.txt" 2>&1 || fail "a wrong target is accepted"
grep -q 'ttft' "$dir/wrong.txt" || fail "the wrong key is not named: $(cat "$dir/wrong.txt")"
kill "$load"
echo "ok: another target on recorded history"

starts=$(jq .data.startup.n "$dir/page.json")
stop_up
[ -s "$dir/data/learned.json.gz" ] || fail "no learned.json.gz in the data directory"
start_up --gpus 4xA100-SXM4-80GB
grep -q 'what was learned of 1 services is read from .*/learned.json.gz' "$dir/up.log" || fail "what was learned is not read: $(cat "$dir/up.log")"
prometheus=$(sed -n 's/^Ready: .*Prometheus API \(http:[^ ]*\).*/\1/p' "$dir/up.log")
# Without a request in this run, no replica has shown what it can process.
wait_for "the throughput of the other run is known" throughput_known
[ "$(jq .data.startup.n "$dir/page.json")" -ge "$starts" ] || fail "the starts of the other run: $(jq -c .data.startup "$dir/page.json")"
stop_up
! "$gpuscale" hpa --state-config-map learned >"$dir/wrong.txt" 2>&1 || fail "shadow mode writes a ConfigMap"
grep -q 'belongs to --mode=control' "$dir/wrong.txt" || fail "the error: $(cat "$dir/wrong.txt")"
echo "ok: what was learned survives a restart"
