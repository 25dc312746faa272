#!/bin/sh
# Types "Your own service" of README: a gauge of a Python program scales it without a rule. Then each
# reason why such a metric has no value, as explain and doctor print it.
. "$(dirname "$0")/lib.sh"
need kubectl curl jq python3

# The commands of the n-th ```console block of the section.
commands() {
    awk -v want="$1" '
        /^## / { on = $0 == "## Your own service" }
        on && /^```console$/ { block++; next }
        /^```$/ { next }
        on && block == want && /^\$ / { print substr($0, 3) }' "$source/README.md"
}
commands 1 >"$dir/first"
commands 2 >"$dir/second"
[ "$(wc -l <"$dir/first") $(wc -l <"$dir/second")" = '2 5' ] || fail "the section of README has other commands"

mkdir "$dir/clone"
ln -s "$source/examples" "$dir/clone/examples"
cd "$dir/clone"
export GPUSCALE_DATA_DIR="$dir/data" NO_COLOR=1
gpuscale() { "$gpuscale" "$@"; }
while IFS= read -r command; do
    case $command in
    'gpuscale up '*)
        : >"$dir/up.log"
        eval "exec \"\$gpuscale\" ${command#gpuscale} --gpus none" >"$dir/up.log" 2>&1 &
        up_pid=$!
        ;;
    *) eval "$command" ;;
    esac
done <"$dir/first"
wait_for "gpuscale up is ready" grep -q '^Ready:' "$dir/up.log"

while IFS= read -r command <&3; do
    case $command in
    url=*)
        wait_for "the Service's URL" grep -q '^Service: http' "$dir/up.log"
        url=$(sed -n 's/^Service: //p' "$dir/up.log" | tail -n 1)
        wait_for "the service answers" curl -sf "$url/healthz"
        ;;
    'kubectl get hpa -w') wait_for "the queue adds replicas" replicas_above queue-service 1 ;;
    'gpuscale explain '*) eval "$command" >"$dir/explained" || fail "$command: $(cat "$dir/explained")" ;;
    *) eval "$command" || fail "$command" ;;
    esac
    echo "ok: $command"
done 3<"$dir/second"
for line in '^rule at (pod series):[0-9]*, series queue_depth$' '^query: sum by (pod) (queue_depth{' '^value .* of queue-service-' '^answer  200$'; do
    grep -q "$line" "$dir/explained" || fail "explain metric does not print $line: $(cat "$dir/explained")"
done

value_of() { kubectl get --raw "/apis/custom.metrics.k8s.io/v1beta1/namespaces/default/$1" | jq -r '.items[0].value'; }
is_served() { value_of "$1" | grep -Eq '^[0-9]+m?$'; }
wait_for "the Deployment has the metric" is_served deployments.apps/queue-service/queue_depth
wait_for "counters are rates" is_served 'pods/*/work_done'
findings() { "$gpuscale" doctor -o json | jq -e "[.findings[] | select(.check | startswith(\"metric-\")) | .check] $1" >/dev/null; }
wait_for "doctor finds nothing wrong with the metric" findings '== []'

# A monitor of the same pods takes the targets over: each is scraped once.
kubectl apply -f - <<'Y'
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata: {name: queue-service}
spec: {selector: {matchLabels: {app: queue-service}}, podMetricsEndpoints: [{port: http}]}
Y
pools() { [ "$(curl -sf "$(engine_url)/api/v1/targets?state=active" | jq -r '[.data.activeTargets[] | select(.labels.pod) | .scrapePool] | unique | join(" ")')" = "$1" ]; }
wait_for "the monitor has the targets" pools podMonitor/default/queue-service/0
kubectl delete podmonitor queue-service
wait_for "the annotations have them again" pools kubernetes-pods

# --- why there is no value ---

says() { "$gpuscale" explain hpa queue-service | grep -q "$1"; }
name() {
    kubectl patch hpa queue-service --type=json -p "[{\"op\":\"replace\",\"path\":\"/spec/metrics/0/pods/metric/name\",\"value\":\"$1\"}]"
}
annotate() { # null removes the annotation
    kubectl patch deployment queue-service -p "{\"spec\":{\"template\":{\"metadata\":{\"annotations\":{$1}}}}}"
}
name queue_depht
wait_for "a wrong name gets a similar one" says '^why .*similar: queue_depth$'
says 'metric: {name: queue_depth}' || fail "explain hpa does not print the fix"
wait_for "doctor names it, too" findings '| index("metric-not-exported")'
name work_done_total
wait_for "a counter has its suffix removed" says 'similar: work_done$'
name latency
wait_for "an absent metric shows what exists" says '^because .*queue_depth, work_done_total'
name queue_depth
annotate '"prometheus.io/port":"9"'
wait_for "a wrong port is a failed scrape" says '^why .*the scrape fails: up is 0'
wait_for "doctor names it, too" findings '| index("metric-scrape-fails")'
annotate '"prometheus.io/scrape":null'
wait_for "pods without annotations are not scraped" says '^why .*not scraped'
says 'prometheus.io/scrape: "true"' || fail "explain hpa does not print the annotations"
wait_for "doctor names it, too" findings '| index("metric-not-scraped")'
annotate '"prometheus.io/scrape":"true","prometheus.io/port":"8000"'
wait_for "the fix works" findings '== []'

# --- a rule comes first, and what it hides is visible ---

kubectl apply -f - <<'Y'
apiVersion: v1
kind: ConfigMap
metadata: {name: adapter-config}
data:
  config.yaml: |
    rules:
    - seriesQuery: 'work_done_total{pod!=""}'
      resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}
      name: {as: queue_depth}
      metricsQuery: sum by (<<.GroupBy>>) (<<.Series>>{<<.LabelMatchers>>})
Y
hides() { "$gpuscale" explain metric queue_depth | grep -qx 'instead of the series queue_depth, which has this name, too'; }
wait_for "explain metric shows the hidden series" hides
shows() { curl -sf "$(engine_url)/api/v1/gpuscale/adapter" | jq -e '.data.metrics[] | select(.name == "queue_depth") | .shadows == ["queue_depth"]' >/dev/null; }
wait_for "the page of the adapter shows it" shows
logged() { [ "$(grep -c 'not served because a rule serves their name: queue_depth (rule at ConfigMap ' "$dir/up.log")" = 1 ]; }
wait_for "the log names it once" logged

stop_up
wait_for "nothing is left" nothing_left
