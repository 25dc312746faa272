#!/bin/sh
# Tests gpuscale check adapter and explain metric: names that follow from a rule without data, and
# resources that do not exist. The source is an engine without series.
. "${GPUSCALE_SOURCE_ROOT:?}/tests/integration/lib.sh"
need curl python3

check() { # CODE FLAGS…: of gpuscale check adapter, its output in $dir/out
    want=$1
    shift
    code=0
    "$gpuscale" check adapter "$@" >"$dir/out" 2>&1 || code=$?
    [ $code = "$want" ] || { cat "$dir/out"; fail "check adapter $*: exit code $code, not $want"; }
}
shows() { grep -Fq -- "$1" "$dir/out" || { cat "$dir/out"; fail "not printed: $1"; }; }

cat >"$dir/rules.yaml" <<'END'
rules:
- seriesQuery: DCGM_FI_DEV_GPU_UTIL{exported_pod!="",exported_namespace!=""}
  resources:
    overrides:
      exported_namespace: {resource: namespace}
      exported_pod: {resource: pod}
  name: {as: DCGM_FI_DEV_GPU_UTIL_AVG}
  metricsQuery: avg(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
- seriesQuery: http_requests_total{namespace!="",pod!="",deployment!="",job=""}
  resources: {template: "<<.Resource>>"}
  name: {matches: "^(.*)_total$", as: "${1}_per_second"}
  metricsQuery: sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)
externalRules:
- seriesQuery: '{__name__="queue_length"}'
  resources: {namespaced: false}
  metricsQuery: max(<<.Series>>{<<.LabelMatchers>>})
END
check 0 "$dir/rules.yaml"
shows 'name    DCGM_FI_DEV_GPU_UTIL_AVG for namespaces, pods, by the rule alone'
shows 'name    http_requests_per_second for namespaces, pods, deployments.apps, by the rule alone'
shows 'name    queue_length, by the rule alone'
echo "ok: names and resources that follow from the rule alone"

overrides() { # OVERRIDE: a file whose only rule has it
    printf 'rules:\n- seriesQuery: x\n  resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}, other: %s}}\n' "$1"
    printf '  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)\n'
}
overrides '{group: extensions, resource: deployment}' >"$dir/wrong.yaml"
check 1 "$dir/wrong.yaml"
shows 'wrong.yaml:3: the override of label other names the resource "deployment" of the group "extensions", which does not exist; deployments is in the group "apps"'
overrides '{resource: unicorn}' >"$dir/wrong.yaml"
check 1 "$dir/wrong.yaml"
shows 'the override of label other names the resource "unicorn", which does not exist'
overrides '{group: serving.kserve.io, resource: inferenceservice}' >"$dir/custom.yaml"
check 0 "$dir/custom.yaml"
shows 'Kubernetes itself has no inferenceservice.serving.kserve.io'
check 1 --strict "$dir/custom.yaml"
cat >"$dir/usage.yaml" <<'END'
resourceRules:
  cpu: &rule
    containerQuery: sum(x{<<.LabelMatchers>>}) by (<<.GroupBy>>)
    nodeQuery: sum(x{<<.LabelMatchers>>}) by (<<.GroupBy>>)
    resources: {overrides: {pod: {resource: pod}, namespace: {resource: namespace}, instance: {resource: nods}}}
    containerLabel: container
  memory: *rule
END
check 1 "$dir/usage.yaml"
shows 'the override of label instance names the resource "nods"'
shows 'no label is mapped to nodes'
echo "ok: resources that do not exist"

cat >"$dir/doubts.yaml" <<'END'
rules:
- seriesQuery: 'memory_used_bytes{namespace!="",pod!=""}'
  resources: {template: <<.Resource>>}
  name: {as: gpu_metric}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
- seriesQuery: 'memory_total_bytes{namespace!="",pod!=""}'
  resources: {template: <<.Resource>>}
  name: {as: gpu_metric}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
- seriesQuery: 'ts_queue_latency_microseconds{namespace!="",pod!=""}'
  resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
- seriesQuery: '{__name__=~"^messages$"}'
  resources: {template: <<.Resource>>}
  name: {as: storage_queue}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
- seriesQuery: 'a{pod!=""}'
  resources: {overrides: {namespace: {resource: namespace}, pod: {group: apps, resource: deployment}, job: {group: batch, resource: job}}}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
END
check 0 "$dir/doubts.yaml"
shows "doubt   $dir/doubts.yaml:2 gives the metric gpu_metric for pods, too: only the last rule serves it"
shows 'doubt   ts_queue_latency_microseconds is a counter, and metricsQuery reads it without rate()'
shows 'doubt   of the labels that each series has, only the label job names a resource'
shows 'the label pod is mapped to deployments, not to pods'
shows 'doubt   the label job names a resource, and it has the name of a scrape job of Prometheus'
shows '0 broken, 4 doubtful'
check 1 --strict "$dir/doubts.yaml"
printf 'rules:\n- seriesQuery: x\n  resources: {overrides: {pod: {resource: pod}}}\n  metricsQuery: <<.Series>>\n' >"$dir/wrong.yaml"
check 1 "$dir/wrong.yaml"
shows 'pods are in a namespace, and the rule maps no label to namespaces: every request fails'
printf 'externalRules:\n- seriesQuery: x\n  metricsQuery: <<.Series>>\n' >"$dir/wrong.yaml"
check 1 "$dir/wrong.yaml"
shows 'fix     map the label of the namespace, or set resources.namespaced: false'
printf 'driver: {enabled: false}\ndcgmExporter: {enabled: true}\n' >"$dir/wrong.yaml"
check 1 "$dir/wrong.yaml"
shows 'this looks like Helm values of the NVIDIA GPU operator'
echo 'rules: []' >"$dir/wrong.yaml"
check 1 "$dir/wrong.yaml"
shows 'the file has no rules'
echo "ok: doubts, and files without rules"

mkdir "$dir/page"
cat >"$dir/page/metrics" <<'END'
# TYPE served counter
served{namespace="ml",pod="web-0"} 7
# TYPE gpus_total gauge
gpus_total{namespace="ml",pod="web-0"} 4
END
page=$(free_port)
python3 -m http.server "$page" --bind 127.0.0.1 --directory "$dir/page" >"$dir/page.log" 2>&1 &
echo $! >"$dir/page.pid"
cat >"$dir/prometheus.yml" <<END
scrape_configs:
- {job_name: page, scrape_interval: 1s, fallback_scrape_protocol: PrometheusText0.0.4, static_configs: [{targets: ["127.0.0.1:$page"]}]}
END
"$gpuscale" engine --config.file="$dir/prometheus.yml" --web.listen-address=127.0.0.1:0 >"$dir/engine.log" 2>&1 &
pids=$!
wait_for "the engine" grep -q 'is ready' "$dir/engine.log"
url=$(sed -n 's#.*listening on \(http://127.0.0.1:[0-9]*\).*#\1#p' "$dir/engine.log")
wait_for "the page is scraped" sh -c "curl -sSf '$url/api/v1/metadata?metric=served' | grep -q counter && curl -sSf '$url/api/v1/query?query=served' | grep -q web-0"
for metric in served gpus_total; do
    printf -- '- seriesQuery: %s{pod!=""}\n  resources: {template: <<.Resource>>}\n' $metric
    echo '  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)'
done | sed '1i rules:' >"$dir/types.yaml"
check 0 "$dir/types.yaml"
shows 'doubt   gpus_total is a counter'
check 0 --source="$url" "$dir/types.yaml"
shows 'doubt   served is a counter, and metricsQuery reads it without rate()'
shows '0 broken, 1 doubtful'
echo "ok: the type of a metric is what its target states"
check 1 --source="$url" "$dir/rules.yaml"
shows 'name    DCGM_FI_DEV_GPU_UTIL_AVG for namespaces, pods, by the rule alone'
shows 'BROKEN  seriesQuery matches no series'

explain() { # METRIC-PATH
    code=0
    "$gpuscale" explain metric --config="$dir/rules.yaml" --source="$url" "/apis/$1" >"$dir/out" 2>&1 || code=$?
    [ $code = 1 ] || { cat "$dir/out"; fail "explain metric $1: exit code $code"; }
}
explain custom.metrics.k8s.io/v1beta1/namespaces/ml/pods/web-0/DCGM_FI_DEV_GPU_UTIL_AVG
shows "the rule at $dir/rules.yaml:2 serves it, but no series match its seriesQuery: DCGM_FI_DEV_GPU_UTIL{exported_pod"
shows "fix     gpuscale check adapter $dir/rules.yaml --source=$url"
explain external.metrics.k8s.io/v1beta1/namespaces/ml/queue_length
shows 'serves it, but no series match its seriesQuery: {__name__="queue_length"}'
explain custom.metrics.k8s.io/v1beta1/namespaces/ml/pods/web-0/another
shows 'no rule serves it'
echo "ok: a rule whose series were not found"
