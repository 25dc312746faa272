#!/bin/sh
# A file with one valid rule and three invalid ones: `check rules` reports each with file, group,
# rule and position. The engine evaluates the valid rule and reports the errors of the others.
. "$(dirname "$0")/lib.sh"
need curl jq

engine_pid=
rules_finish() {
    code=$?
    trap - EXIT INT TERM
    [ -z "$engine_pid" ] || { kill -TERM "$engine_pid" && wait "$engine_pid"; } 2>/dev/null || true
    [ "$code" = 0 ] || [ ! -f "$dir/engine.log" ] || cat "$dir/engine.log"
    rm -rf "$dir"
    exit "$code"
}
trap rules_finish EXIT

wrong=tests/engine/rules/wrong_rules.yaml
cd "$source"
code=0
"$gpuscale" check rules "$wrong" >"$dir/out" 2>&1 || code=$?
[ "$code" = 1 ] || fail "check rules: exit code $code"
cat >"$dir/want" <<EOT
$wrong:17:13: group "gpu_scaling", rule 2 (vision-api_scaling_avg): could not parse expression: 1:64: parse error: unexpected right parenthesis ')'
$wrong:20:13: group "gpu_scaling", rule 3 (vision-api_scaling_min): could not parse expression: 1:78: parse error: unclosed left parenthesis
$wrong:23:13: group "gpu_scaling", rule 4 (vision-api_scaling_max): could not parse expression: 1:1: parse error: binary expression must contain only scalar and instant vector types
EOT
grep "^$wrong:" "$dir/out" >"$dir/got" || true
diff "$dir/want" "$dir/got" || { cat "$dir/out"; fail "what check rules says"; }
grep -q '4 rules found, 3 with errors' "$dir/out" || fail "how many are wrong"
echo "ok: check rules"

cat >"$dir/prometheus.yml" <<EOT
global: {evaluation_interval: 1s}
rule_files: ['$source/$wrong', '$dir/series.yml']
EOT
cat >"$dir/series.yml" <<'EOT'
groups:
- name: series
  rules:
  - {record: DCGM_FI_DEV_GPU_UTIL, expr: vector(45), labels: {exported_container: vision-api}}
EOT
"$gpuscale" engine --config.file="$dir/prometheus.yml" --web.listen-address=127.0.0.1:0 >"$dir/engine.log" 2>&1 &
engine_pid=$!
wait_for "the engine is ready" grep -q 'is ready' "$dir/engine.log"
url=$(sed -n 's#.*listening on \(http://127.0.0.1:[0-9]*\).*#\1#p' "$dir/engine.log")
[ "$(grep -c 'could not parse expression' "$dir/engine.log")" = 3 ] || fail "the log does not tell the three wrong rules"
fires() {
    curl -sS "$url/api/v1/alerts" |
        jq -e '.data.alerts | length == 1 and .[0].state == "firing" and .[0].labels.alertname == "vision-api_scaling"'
}
wait_for "the right rule fires" fires
curl -sS "$url/api/v1/rules" | jq -e '[.data.groups[] | select(.name == "gpu_scaling").rules[]
    | .health, (.lastError // "" | test("parse error"))] == ["ok", false, "err", true, "err", true, "err", true]' >/dev/null ||
    { curl -sS "$url/api/v1/rules" | jq .; fail "the health of the rules"; }
[ "$(curl -sS -G "$url/api/v1/query" --data-urlencode 'query=count(ALERTS)' | jq -r '.data.result[0].value[1]')" = 1 ] || fail "ALERTS"
echo "ok: the right rule runs alone"
