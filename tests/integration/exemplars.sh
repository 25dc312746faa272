#!/bin/sh
# Exemplars of the same pages, in the engine and in a Prometheus: the answers of query_exemplars must
# be the same, also after the pages change.
. "$(dirname "$0")/pages_lib.sh"

long=$(printf '%0120d' 0)
now=$(date +%s)
page kinds "$om" <<P
# TYPE c counter
c_total{a="x"} 17 $now.5 # {trace_id="KOO5S4vxi0o"} 0.67
c_total{a="y"} 18.5 # {trace_id="b",span="c"} 9.8 1700000000.125
c_total{a="none"} 18.5 # {} 1 1700000000
c_total{a="long"} 1 # {trace_id="$long"} 1 1700000000
c_total{a="too long"} 1 # {trace_id="${long}0"} 1 1700000000
c_total{a="umlaut"} 1 # {x="ööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööööö",y="üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü"} 1 1700000000
c_total{a="twice"} 1 # {x="1",x="2"} 1 1700000000
c_total{a="empty"} 1 # {x="",y="2"} 1 1700000000
c_total{a="comma"} 1 # {y="2",} 1 1700000000
c_total{a="quoted"} 1 # {"trace.id"="2"} 1 1700000000
c_total{a="le"} 1 # {le="1e1"} 1 1700000000
c_total{a="values"} 1 # {v="inf"} +Inf 1700000000
c_total{a="small"} 1 # {v="small"} 1e-9 1.7e9
c_total{a="negative"} 1 # {v="time"} -5 -1.5
# TYPE h histogram
h_bucket{le="1"} 2 # {trace_id="x"} 0.5
h_bucket{le="1e1"} 2 # {trace_id="y"} 5.5 1700000001
h_bucket{le="+Inf"} 3
h_count 3
h_sum 2.5
# TYPE g gauge
g 1 # {trace_id="gauge"} 1 1700000000
# TYPE renamed gauge
renamed 1 # {trace_id="r"} 1 1700000000
# TYPE dropped gauge
dropped 1 # {trace_id="d"} 1 1700000000
# EOF
P
page untimed "$om" <<'P'
# TYPE c counter
c_total{a="x"} 17 1700000000.5 # {trace_id="a"} 0.67
c_total{a="y"} 18 1700000000.5 # {trace_id="b"} 0.67 1700000001
# EOF
P
page changes "$om" <<'P'
# TYPE c counter
c_total{a="first"} 1 # {t="1"} 1 1700000100
c_total{a="older"} 1 # {t="1"} 1 1700000100
c_total{a="same time"} 1 # {t="1"} 1 1700000100
# EOF
P
page broken "$om" <<'P'
# TYPE c counter
c_total{a="x"} 17 # {trace_id="a"} 0.67 1700000000
c_total{a="x} 17
# EOF
P
page text "$text" <<'P'
c_total{a="x"} 17 # {trace_id="a"} 0.67 1700000000
P
config_of() {
    cat <<P
global: {scrape_interval: 1s}
storage: {exemplars: {max_exemplars: $1}}
scrape_configs:
- job_name: kinds
  metrics_path: /kinds
  static_configs: [{targets: ["$pages"], labels: {a: "target", pool: "p"}}]
  metric_relabel_configs:
  - {source_labels: [__name__], regex: renamed, target_label: __name__, replacement: new_name}
  - {source_labels: [__name__], regex: dropped, action: drop}
- {job_name: untimed, metrics_path: /untimed, honor_labels: true, honor_timestamps: false, static_configs: [{targets: ["$pages"]}]}
- {job_name: changes, metrics_path: /changes, honor_labels: true, static_configs: [{targets: ["$pages"]}]}
- {job_name: broken, metrics_path: /broken, static_configs: [{targets: ["$pages"]}]}
- {job_name: text, metrics_path: /text, static_configs: [{targets: ["$pages"]}]}
P
}
config_of 1000 >"$dir/prometheus.yml"
start_both "$cache/prometheus" --enable-feature=exemplar-storage

# Times of scrapes differ.
exemplars() {
    curl -sS -w '\n%{http_code}\n' "$@" | jq -cS '
        (.data? | arrays | .[].exemplars[] | select(.timestamp > 1700001000)) |= (.timestamp = "scrape")'
}
about() {
    exemplars -G "$1/api/v1/query_exemplars" --data-urlencode 'query={job=~".+"}' | jq -c '.data[]?'
    curl -sS "$1/metrics" | grep -E '^prometheus_tsdb_exemplar_(max|series|exemplars_in_storage)'
}
compare "exemplars of pages" '"negative"'
[ "$(grep -c seriesLabels "$dir/got")" = 21 ] || { cat "$dir/got"; fail "not the exemplars of 21 series"; }
page changes "$om" <<'P'
# TYPE c counter
c_total{a="first"} 1 # {t="2"} 2 1700000200
c_total{a="older"} 1 # {t="2"} 2 1700000099
c_total{a="same time"} 1 # {t="2"} 2 1700000100
c_total{a="new"} 1 # {t="2"} 2 1700000100
# EOF
P
compare "exemplars after a change" '"new"'
late() { curl -sS "$1/metrics" | grep -q '^prometheus_target_scrapes_exemplar_out_of_order_total [1-9]'; }
wait_for "the engine counts exemplars that are too old" late "$ours"
wait_for "Prometheus counts them, too" late "$theirs"

requests=0 passed=0
# request ARGUMENTS: of curl, after the address.
request() {
    requests=$((requests + 1))
    path=$1
    shift
    exemplars "$theirs$path" "$@" >"$dir/want"
    exemplars "$ours$path" "$@" >"$dir/got"
    if diff "$dir/want" "$dir/got" >"$dir/diff"; then passed=$((passed + 1)); else echo "differs: $path $*" && cat "$dir/diff"; fi
}
for query in c_total 'c_total{a="y"}' 'rate(c_total{a="y"}[5m]) + on() group_left h_bucket' h_bucket 'sum by (le) (rate(h_bucket{le="10.0"}[5m]))' \
    'histogram_quantile(0.9, rate(h_bucket[1m] offset 1h))' 'c_total{a=~"f.*|y"} or c_total{a=""}' '{__name__=~"c_.*",a!="x"}' none 1 'vector(1)' '' 'c_total(' \
    'c_total{job="kinds"} @ 5' 'max_over_time(c_total[5m:1m])' 'g' 'new_name' 'dropped'; do
    request /api/v1/query_exemplars -G --data-urlencode "query=$query"
    request /api/v1/query_exemplars --data-urlencode "query=$query" -d start=1700000000 -d end=1700000001
done
for range in start=1700000000.1 start=1700000001 end=1700000000 'start=1700000000.125&end=1700000000.125' 'start=2&end=1' start=x end=x 'start=2023-11-14T22:13:20Z' 'start=-2&end=-1'; do
    request "/api/v1/query_exemplars?query=c_total&$range"
done
request /api/v1/query_exemplars
echo "exemplar requests: passed $passed of $requests"
[ "$passed" = "$requests" ] || fail "answers differ"

# A reload changes the size. Which exemplars stay depends on the order of the scrapes.
config_of 3 >"$dir/prometheus.yml"
for pid in $both; do kill -HUP "$pid"; done
about() { curl -sS "$1/metrics" | grep -E '^prometheus_tsdb_exemplar_(max|exemplars_in_storage)'; }
compare "the size after a reload" 'max_exemplars 3'
config_of 0 >"$dir/prometheus.yml"
for pid in $both; do kill -HUP "$pid"; done
compare "no exemplars after a reload" 'in_storage 0'
request /api/v1/query_exemplars -d query=c_total
[ "$passed" = "$requests" ] || fail "answers differ"
stop_both

config_of 1000 >"$dir/prometheus.yml"
start_both "$cache/prometheus"
about() {
    curl -sS "$1/api/v1/query_exemplars?query=c_total"
    curl -sS -G "$1/api/v1/query" --data-urlencode 'query=up{job="kinds"}' | jq -r '.data.result[].value[1]'
    curl -sS "$1/metrics" | grep -E '^prometheus_tsdb_exemplar_'
}
compare "no exemplars without the feature" '}1$'
