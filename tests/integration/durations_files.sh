#!/bin/sh
# Durations of the files and objects beside prometheus.yml (durations.sh) with 0, negative, very short and very long values:
# the adapter's file, pools of nodes, scenarios, monitors, PrometheusRule objects. Each is refused with a text that names
# it, or works, and other work goes on.
. "$(dirname "$0")/lib.sh"
need kubectl curl jq
cd "$dir"

# NAME|COMMAND|DOCUMENT, with V for the value.
cat >options <<'EOF'
duration|check adapter|rules: [{seriesQuery: m, resources: {overrides: {namespace: {resource: namespace}}}, metricsQuery: 'sum(rate(<<.Series>>{<<.LabelMatchers>>}[V])) by (<<.GroupBy>>)'}]
duration|check adapter|{rules: [{seriesQuery: m, resources: {overrides: {namespace: {resource: namespace}}}, metricsQuery: 'sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)'}], sources: [{name: s, url: 'http://127.0.0.1:1/', timeout: V, rules: [m]}]}
metricsRelistInterval|check adapter|{metricsRelistInterval: V, rules: {custom: [{seriesQuery: m, resources: {overrides: {namespace: {resource: namespace}}}, metricsQuery: 'sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)'}]}}
interval|check config|{apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor, metadata: {name: vN}, spec: {selector: {}, endpoints: [{port: http, interval: V}]}}
scrape.timeout|check config|{apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor, metadata: {name: vN}, spec: {selector: {}, endpoints: [{port: http, scrapeTimeout: V}]}}
interval|check config|{apiVersion: monitoring.coreos.com/v1, kind: PodMonitor, metadata: {name: vN}, spec: {selector: {}, podMetricsEndpoints: [{port: http, interval: V}]}}
scrape.timeout|check config|{apiVersion: monitoring.coreos.com/v1, kind: PodMonitor, metadata: {name: vN}, spec: {selector: {}, podMetricsEndpoints: [{port: http, scrapeTimeout: V}]}}
interval|check rules|{apiVersion: monitoring.coreos.com/v1, kind: PrometheusRule, metadata: {name: vN}, spec: {groups: [{name: gN, interval: V, rules: [{record: a, expr: '1'}]}]}}
offset|check rules|{apiVersion: monitoring.coreos.com/v1, kind: PrometheusRule, metadata: {name: vN}, spec: {groups: [{name: gN, query_offset: V, rules: [{record: a, expr: '1'}]}]}}
for|check rules|{apiVersion: monitoring.coreos.com/v1, kind: PrometheusRule, metadata: {name: vN}, spec: {groups: [{name: gN, rules: [{alert: A, expr: '1', for: V}]}]}}
keep|check rules|{apiVersion: monitoring.coreos.com/v1, kind: PrometheusRule, metadata: {name: vN}, spec: {groups: [{name: gN, rules: [{alert: A, expr: '1', keep_firing_for: V}]}]}}
EOF
# The durations of scenarios, added to one of examples/replay.
cat >scenario_options <<'EOF'
sync|controller: {sync: V}
downscale|controller: {sync: 15s, downscaleWindow: V}
cpu|controller: {sync: 15s, cpuInitPeriod: V}
readiness|controller: {sync: 15s, readinessDelay: V}
duration|duration: V
delay|delay: V
startup|workload: {capacity: 50, startup: V, load: [[0s, 20], [5m, 400]]}
drain|workload: {capacity: 50, drain: V, load: [[0s, 20], [5m, 400]]}
repeat|workload: {capacity: 50, repeat: V, load: [[0s, 20], [5m, 400]]}
points|workload: {capacity: 50, load: [[0s, 20], [V, 400]]}
provision|nodes: {gpusPerNode: 8, min: 1, max: 4, provision: V, idle: 10m}
idle|nodes: {gpusPerNode: 8, min: 1, max: 4, provision: 3m, idle: V}
at|events: [{at: V, lose: 1}]
for|events: [{at: 1m, for: V, noMetrics: true}]
EOF
burst=$source/examples/replay/burst.yaml

# judge VALUE NAME CODE
judge() {
    case $1 in
    -1s | 1ns | 1000y) [ "$3" != 0 ] || fail "$2: $1 is accepted" ;;
    esac
    [ "$3" -lt 124 ] || fail "$2: $1: the program ended with $3"
    [ "$3" = 0 ] || grep -qi "duration\|$2" out.txt || fail "$2: $1: the error does not name it: $(cat out.txt)"
}
# objects.VALUE has the objects that are accepted.
for value in 0s 1ms 100y -1s 1ns 1000y; do
    n=0
    echo '---' >"objects.$value" # otherwise kubectl reads JSON
    while IFS='|' read -r name command document; do
        n=$((n + 1)) code=0
        echo "$document" | sed "s/\bV\b/$value/g; s/vN/v$n/; s/gN/g$n/" >file.yaml
        # shellcheck disable=SC2086
        timeout 120 "$gpuscale" $command file.yaml >out.txt 2>&1 || code=$?
        judge "$value" "$name" "$code"
        [ "$code" != 0 ] || [ "$command" = 'check adapter' ] || (cat file.yaml && echo ---) >>"objects.$value"
    done <options
    while IFS='|' read -r name entry; do
        n=$((n + 1)) code=0
        { grep -v "^${entry%%:*}:" "$burst" | sed '/^  capacity:/,/^  load:/d' && echo "$entry" | sed "s/\bV\b/$value/g"; } >scenario.yaml
        case $entry in workload:*) ;; *) echo 'workload: {capacity: 50, startup: 40s, load: [[0s, 20], [5m, 400]]}' >>scenario.yaml && sed -i '/^workload:$/d' scenario.yaml ;; esac
        timeout 120 "$gpuscale" replay scenario.yaml >out.txt 2>&1 || code=$?
        judge "$value" "$name" "$code"
    done <scenario_options
    [ "$n" = 25 ] || fail "the options are not read: $n"
    for name in sync downscaleWindow startup drain delay provision idle duration; do
        code=0
        timeout 120 "$gpuscale" replay "$burst" --set "$name=$value" >out.txt 2>&1 || code=$?
        case $value in
        -1s) [ "$code" != 0 ] || fail "replay --set $name=$value is accepted" ;;
        esac
        [ "$code" -lt 124 ] || fail "replay --set $name=$value: the program ended with $code"
    done
done
[ "$(grep -c kind: objects.0s)" -gt 4 ] && [ "$(grep -c kind: objects.100y)" -gt 4 ] || fail "no objects are accepted"
echo "ok: files are refused or used"

# The accepted objects in a cluster, and pools whose machines start after this time: metrics and scaling go on.
for value in 0s 1ms 100y; do
    case $value in 100y) startup=24h ;; *) startup=$value ;; esac
    start_up --reset --gpus 1xTesla-T4 --pool "v=0..1x1,model=Tesla T4,startup=$startup"
    kubectl apply -f "objects.$value" >out.txt 2>&1 || fail "objects with $value are refused: $(cat out.txt)"
    scaling_works
    stop_up
done
code=0
timeout 60 "$gpuscale" up --data-dir "$dir/other" --pool 'v=0..1x1,startup=100y' >out.txt 2>&1 </dev/null || code=$?
[ "$code" = 2 ] && grep -q 'start-up time' out.txt || fail "startup=100y of a pool: $code: $(cat out.txt)"
