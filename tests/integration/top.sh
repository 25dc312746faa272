#!/bin/sh
# gpuscale top in a pseudo-terminal: keys are typed, and the screen is compared. Its sources are an
# exporter, an engine and NVML. docs/top.md shows the screen of this test.
. "$(dirname "$0")/lib.sh"
need python3
own_gpus top
export TERM=xterm-256color LC_ALL=C.UTF-8
unset GPUSCALE_URL PROMETHEUS_URL NO_COLOR

"$gpuscale" sim create 2xA100-SXM4-80GB,1xTesla-T4 >/dev/null
library=$build/src/simulation/nvmlsim/libgpuscale-nvmlsim.so
[ -e "$library" ] || fail "no simulated driver"
export GPUSCALE_NVML_LIBRARY="$library"
"$gpuscale" exporter --address 127.0.0.1:0 --node-name node-1 >"$dir/exporter.log" 2>&1 &
echo $! >"$dir/exporter.pid"
wait_for "the exporter serves" grep -q '/metrics' "$dir/exporter.log"
exporter=$(sed -n 's#.*http://\(127.0.0.1:[0-9]*\)/metrics.*#\1#p' "$dir/exporter.log" | head -n 1)

# --- without a terminal ---
"$gpuscale" top --exporter "$exporter" >"$dir/table" 2>"$dir/stderr.log" || fail "the table"
grep -q '^ *0 A100-SXM4-80GB *0%' "$dir/table" || { cat "$dir/table" && fail "the table has no GPU"; }
grep -q 'SIMULATED GPUs' "$dir/stderr.log" || fail "simulated GPUs are not labelled"
[ "$("$gpuscale" top --nvml -o json 2>/dev/null | python3 -c 'import json, sys
d = json.load(sys.stdin); print(len(d["gpus"]), d["simulated"], d["gpus"][2]["model"], d["gpus"][2]["pods"])')" = "3 True Tesla T4 []" ] || fail "JSON"
! "$gpuscale" top --url http://127.0.0.1:1 --once 2>"$dir/stderr.log" || fail "no source is no error"
grep -q '^gpuscale: POST http://127.0.0.1:1/api/v1/query: ' "$dir/stderr.log" || fail "the error of the source"
! "$gpuscale" top --url "$exporter" --once 2>"$dir/stderr.log" || fail "an exporter as --url is no error"
grep -q '404 Not Found: this is no engine or Prometheus; an exporter needs --exporter$' "$dir/stderr.log" || fail "the error of an exporter"
for wrong in "--sort nothing" "-o yaml" "--interval 0s" "--nvml --url x" "--sort history" argument; do
    # shellcheck disable=SC2086 # each is a command line
    code=0 && "$gpuscale" top $wrong --once >/dev/null 2>&1 || code=$?
    [ "$code" = 2 ] || fail "$wrong: exit code $code"
done
echo "ok: without a terminal"

# --- in a terminal ---
python3 "$(dirname "$0")/top.py" "$gpuscale" "$exporter" "$dir/exporter.pid" "$source/docs/top.md" || fail "in a terminal"
