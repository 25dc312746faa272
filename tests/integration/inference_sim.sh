#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `gpuscale sim inference`: the API, streams, the queue on the page of the chosen release, refused
# and aborted requests, start and failures, and the load on simulated GPUs.
. "${GPUSCALE_SOURCE_ROOT:?}/tests/integration/lib.sh"
need curl

port=18000
url=http://127.0.0.1:$port
started=
# A new engine in place of the one before.
begin() {
    [ -z "$started" ] || kill "$started" 2>/dev/null || true
    [ -z "$started" ] || wait "$started" || fail "the engine before"
    "$gpuscale" sim inference --port=$port --startup=10ms "$@" >"$dir/engine.log" 2>&1 &
    started=$! pids="$pids $!"
}
engine() {
    begin "$@"
    wait_for "the engine is healthy" curl -sf "$url/health"
}
clients=
ask() { curl -sS -H 'Content-Type: application/json' "$url/v1/$1" -d "$2"; }
metric() { curl -sS "$url/metrics" | awk -v name="$1" 'index($0, name) == 1 && !n++ {print $2}'; }
# N requests that take long.
flood() {
    for _ in $(seq "$1"); do
        curl -sS "$url/v1/completions" -d '{"prompt": "x", "max_tokens": 4000, "ignore_eos": true}' >/dev/null &
        clients="$clients $!" pids="$pids $!"
    done
}
drop() {
    kill $clients 2>/dev/null || true
    wait $clients 2>/dev/null || true
    clients=
}

engine --model=own/Model-0.1B --served-model-name=served --max-num-seqs=4 --new-flag=1 --other --trust-remote-code --api-key secret
ask completions '{"model": "served", "prompt": "Hello", "max_tokens": 5, "ignore_eos": true}' >"$dir/answer.json"
grep -q '"text":"SIMULATED this text comes from"' "$dir/answer.json" || fail "the text: $(cat "$dir/answer.json")"
grep -q '"completion_tokens":5' "$dir/answer.json" || fail "the usage: $(cat "$dir/answer.json")"
ask chat/completions '{"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 3, "ignore_eos": true, "stream": true}' >"$dir/stream.txt"
[ "$(grep -c '^data: {.*"content":"[^"]' "$dir/stream.txt")" = 3 ] || fail "the stream: $(cat "$dir/stream.txt")"
tail -n 2 "$dir/stream.txt" | grep -qx 'data: \[DONE\]' || fail "the end of the stream"
curl -sS "$url/v1/models" | grep -q '"id":"served"' || fail "the list of models"
ask completions '{"model": "absent", "prompt": "x"}' | grep -q '"code":404' || fail "an absent model"
ask completions '{"prompt": ["a", "b"]}' | grep -q 'one prompt' || fail "two prompts"
ask completions '{' | grep -q '"code":400' || fail "a body that is not JSON"
ask completions '{"prompt": "x", "max_tokens": 0}' | grep -q 'at least 1' || fail "max_tokens 0"
grep -q -- '--new-flag has no effect' "$dir/engine.log" || fail "an unknown flag is not reported"
! grep -q secret "$dir/engine.log" || fail "the value of a flag is logged"
grep -q 'SIMULATED engine, dialect of vllm 0.33.0' "$dir/engine.log" || fail "the log does not say SIMULATED"
long='{"messages": [{"role": "user", "content": "'$(printf '%0800d' 1)'"}], "max_tokens": 1}'
ask chat/completions "$long" | grep -q '"cached_tokens":0}' || fail "a new prompt is in the prefix cache"
ask chat/completions "$long" | grep -q '"cached_tokens":192}' || fail "a known prompt is not in the prefix cache"
echo "ok: answers, streams and errors have the form of the API"

flood 10
running() { [ "$(metric vllm:num_requests_running)" = 4.0 ] && [ "$(metric vllm:num_requests_waiting\{)" = 6.0 ]; }
wait_for "four requests run and six wait" running
drop
empty() { [ "$(metric vllm:num_requests_running)" = 0.0 ] && [ "$(metric vllm:num_requests_waiting\{)" = 0.0 ]; }
wait_for "requests of clients that went away are aborted" empty
curl -sS "$url/metrics" >"$dir/page.txt" && grep -q 'finished_reason="abort"} 10.0' "$dir/page.txt" || fail "the aborted requests are not counted"
echo "ok: the queue grows under load and ends with the clients"

engine m --release=0.9.2 --max-num-queued-reqs=1
[ -n "$(metric vllm:gpu_cache_usage_perc)" ] || fail "0.9.2 lacks gpu_cache_usage_perc"
grep -q 'max-num-queued-reqs is not used' "$dir/engine.log" || fail "a flag of later releases is not reported"
engine m --max-num-seqs=1 --max-num-queued-reqs=1
flood 2
waiting() { [ "$(metric vllm:num_requests_waiting\{)" = 1.0 ]; }
wait_for "one request waits" waiting
status=$(ask completions '{"prompt": "x"}' | grep -o '"code":[0-9]*')
[ "$status" = '"code":503' ] || fail "a full queue: $status"
[ "$(metric vllm:admission_rejections_total)" = 1.0 ] || fail "the refused request is not counted"
drop
echo "ok: a full queue refuses requests in the release that has the limit"

engine --engine=sglang --release=0.5.12 --model-path=own/m --tp-size=1
[ "$(curl -s -o /dev/null -w '%{http_code}' "$url/metrics")" = 404 ] || fail "SGLang has metrics without --enable-metrics"
engine --engine=sglang --release=0.5.12 --model-path=own/m --enable-metrics
[ -n "$(metric sglang:num_queue_reqs)" ] || fail "the page of SGLang"
echo "ok: SGLang has its page with --enable-metrics only"

! "$gpuscale" sim inference m --port=$port --startup=10ms --fail-startup 2>"$dir/failed.log" || fail "--fail-startup"
grep -q 'SIMULATED failure of the start' "$dir/failed.log" || fail "the reason of a failed start"
! "$gpuscale" sim inference --port=$port 2>"$dir/failed.log" || fail "no model"
grep -q 'the model is missing' "$dir/failed.log" || fail "the error without a model"
engine m --fail-ratio=1
[ "$(curl -s -o /dev/null -w '%{http_code}' "$url/v1/completions" -d '{"prompt": "x", "max_tokens": 1}')" = 500 ] || fail "--fail-ratio"
begin m --crash-after=300ms
crashed() { ! kill -0 "$started" 2>/dev/null; }
wait_for "the engine has crashed" crashed
! wait "$started" || fail "a crash has the exit code 0"
grep -q 'started in' "$dir/engine.log" || fail "the engine did not start before its crash: $(cat "$dir/engine.log")"
started=
echo "ok: failures of the start, of requests and of the engine"

segment=/gpuscale-inference-$$ GPUSCALE_SIM=/gpuscale-inference-$$
export GPUSCALE_SIM
"$gpuscale" sim create 1xA100-SXM4-80GB >/dev/null || fail "sim create"
engine own/Model-7B
[ "$("$gpuscale" sim status | grep -c '  0%')" = 1 ] || fail "an idle engine uses the GPU: $("$gpuscale" sim status)"
flood 1
busy() { "$gpuscale" sim status | grep -qE ' (9[0-9]|100)% +7[0-9]{4}/81920 MiB'; }
wait_for "one request keeps the GPU busy, and the engine has its memory" busy
drop
curl -sS -X POST "$url/sleep?level=1" >/dev/null
asleep() { "$gpuscale" sim status | grep -qE ' 0/81920 MiB'; }
wait_for "a sleeping engine gives the memory back" asleep
curl -sS "$url/metrics" | grep -q 'sleep_state="weights_offloaded"} 1.0' || fail "the sleep state"
curl -sS -X POST "$url/wake_up" >/dev/null
ask completions '{"prompt": "x", "max_tokens": 2, "ignore_eos": true}' | grep -q '"completion_tokens":2' || fail "the engine does not wake up"
"$gpuscale" sim lose 0
ask completions '{"prompt": "x", "max_tokens": 2}' >/dev/null 2>&1 || true
wait_for "an engine whose GPU is lost ends" crashed
started=
"$gpuscale" sim delete
echo "ok: the load, the memory and the faults of the engine are those of its simulated GPU"
