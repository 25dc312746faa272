#!/bin/sh
# Objects and queries that cost more than they seem to: each may cost only itself. gpuscale up runs with a limit of its
# memory. After each of them, the other objects have their series, and at the end scaling works.
. "$(dirname "$0")/lib.sh"
need kubectl curl jq python3
# The shadow memory of sanitizers exceeds the limit.
! grep -q -e '-fsanitize=' "$build/compile_commands.json" || skip "a build with sanitizers"

program=$gpuscale gpuscale=$dir/limited
printf '#!/bin/sh\nulimit -v 6000000\nexec "%s" "$@"\n' "$program" >"$gpuscale"
chmod +x "$gpuscale"
start_up --gpus 1xTesla-T4
url=$(engine_url)

hostile() { python3 "$source/tests/integration/hostile_objects.py" "$@"; }
create() { hostile "$@" | kubectl create --validate=false -f - >"$dir/create.txt" 2>&1 || fail "$*: $(cat "$dir/create.txt")"; }
query() { curl -sSf -G --max-time 20 "$url/api/v1/query" --data-urlencode "query=$1" | jq -r '.data.result[0].value[1] // "none"'; }
query_is() { [ "$(query "$1")" = "$2" ]; }
number() { query "$1" | grep -qx '[1-9][0-9]*'; }
own_metric() { curl -sSf "$url/metrics" | sed -n "s/^$1 //p"; }
own_metric_is() { [ "$(own_metric "$1")" = "$2" ]; }

# lives WHAT: the program runs, within its memory, and the state of all objects is still stored.
# A pod that is created afterwards proves that it is the state of now.
n=0
lives() {
    n=$((n + 1))
    kubectl run "after-$n" --image=any --restart=Never --command -- sleep infinity >/dev/null 2>&1 || fail "$1: the API takes no pod"
    wait_for "$1: the objects after it have series" number "count(kube_pod_info{pod=\"after-$n\"})"
    number 'count(up == 1)' || fail "$1: no target is up"
    resident=$(awk '$1 == "VmHWM:" { print int($2 / 1024) }' "/proc/$up_pid/status")
    [ "$resident" -lt 1024 ] || fail "$1: $resident MiB of memory were used"
}

create labels
lives "a Pod with 256 labels"
query_is 'count(kube_pod_labels{pod="labels",label_k0="v"})' 1 || fail "the Pod has none of its labels"
grep -q 'pods default/labels: kube_pod_labels is not complete' "$dir/up.log" || fail "the Pod is not logged"
own_metric_is gpuscale_kube_state_incomplete_objects 1 || fail "the Pod is not counted"
create same_labels
lives "labels with one name after their conversion"
query_is 'count(kube_pod_labels{pod="same-labels",label_a_b_conflict1="3"})' 1 || fail "its labels are missing"
create resources
lives "a Pod with 5,000 resources"
query_is 'count(kube_pod_container_resource_limits{pod="resources"})' 1000 || fail "not the first 1,000 of its series"

create nested
wait_for "a PrometheusRule with many levels: its rule is evaluated" query_is beside_nested 1
create rules
wait_for "a PrometheusRule with wrong parts: its valid rule is evaluated" query_is beside_wrong_rules 1
query_is wrong none || fail "a wrong rule is evaluated"
create monitor
monitored() { curl -sSf "$url/api/v1/scrape_pools" | jq -e '.data.scrapePools | index("serviceMonitor/default/monitor/2")'; }
wait_for "a ServiceMonitor with wrong endpoints: its valid endpoint is scraped" monitored
lives "objects of the Prometheus operator"

create values
create volumes
event_about() { kubectl get events --field-selector "involvedObject.name=$1" -o jsonpath='{.items[*].message}' | grep -q "$2"; }
wait_for "a volume with 4.5 GB of files is refused" event_about volumes 'larger than the limit, which is 64 MiB'
create environment
wait_for "an environment that is too large is refused" event_about environment 'environment variable'
lives "pods that name one value many times"
for _ in 1 2 3 4; do create ports; done
lives "Services with more node ports than there are"
create patterns
lives "an alert with slow patterns"

scaling_works
stop_up
start_up --gpus 1xTesla-T4
url=$(engine_url)
wait_for "all of it is there after a restart" query_is beside_nested 1
query_is wrong none || fail "a wrong rule is evaluated"
lives "a restart with all of them"
stop_up
