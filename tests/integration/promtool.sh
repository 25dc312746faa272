#!/bin/sh
# A link named promtool: texts and exit codes of its commands are those of promtool 3.16. They are
# in the test; if promtool 3.16 has been built, it must print the same.
. "$(dirname "$0")/lib.sh"
need curl jq
cd "$dir"
mkdir bin
ln -s "$gpuscale" bin/promtool
theirs=
! cache=$(GPUSCALE_PROMETHEUS3_VERSION=v3.16.0 "$source/tests/differential/prometheus3.sh" --no-build 2>/dev/null) || theirs=$cache/promtool

# compare CODE ARG…: the output must be that of $dir/want.
compare() {
    code=$1 got=0
    shift
    bin/promtool "$@" >out 2>&1 <input || got=$?
    sed -i "s#$dir/##" out
    [ "$got" = "$code" ] || { cat out; fail "promtool $*: exit code $got instead of $code"; }
    diff want out || fail "promtool $*"
    [ -n "$theirs" ] || return 0
    got=0
    "$theirs" --experimental "$@" >out 2>&1 <input || got=$?
    { [ "$got" = "$code" ] && diff want out; } || fail "promtool 3.16 prints something else, exit code $got: $*"
}

# --- features of PromQL ---

printf 'groups: [{name: f, rules: [{record: x:y, expr: "a + fill(0) b"}, {record: x:z, expr: "mad_over_time(a[step() + 1m])"}]}]\n' >features.yml
cat >features_test.yml <<'END'
rule_files: [features.yml]
evaluation_interval: 1m
tests:
- interval: 1m
  input_series: [{series: a, values: 1 2 3}]
  promql_expr_test: [{expr: 'x:y', eval_time: 2m, exp_samples: [{labels: '{__name__="x:y"}', value: 3}]}]
END
features=--enable-feature=promql-binop-fill-modifiers,promql-experimental-functions
bin/promtool check rules $features features.yml >out 2>&1 || fail "check rules with features: $(cat out)"
! bin/promtool check rules features.yml >out 2>&1 || fail "check rules without features: $(cat out)"
bin/promtool test rules $features features_test.yml >out 2>&1 || fail "test rules with features: $(cat out)"
! bin/promtool test rules features_test.yml >out 2>&1 || fail "test rules without features: $(cat out)"

# --- check rules, check config ---

cat >rules.yml <<'END'
groups:
- name: a
  labels: {g: h}
  rules:
  - {record: x:y, expr: up, labels: {a: b}}
  - {record: x:y, expr: up, labels: {a: b}}
  - {record: x:y, expr: up, labels: {a: b}}
  - {alert: A, expr: up}
  - {alert: A, expr: up == 0}
  - {record: z, expr: up}
END
printf 'global: {scrape_interval: 10m}\nrule_files: [rules.yml, nothing*.yml]\nscrape_configs: [{job_name: slow, static_configs: [{targets: ["a:1"]}]}]\n' >c.yml
cp rules.yml input
printf 'Checking rules.yml\n  SUCCESS: 6 rules found\n\n' >fine
printf '  FAILED:\nlint error 2 duplicate rule(s) found.\nMetric: A\nLabel(s):\n\tg: h\nMetric: x:y\nLabel(s):\n\ta: b\n\tg: h\nMight cause inconsistency while recording expressions\n' >found
{ echo 'Checking rules.yml' && cat found && echo; } >want
compare 0 check rules rules.yml
compare 3 check rules --lint-fatal --lint=all rules.yml
cp fine want
compare 0 check rules --lint=none --lint-fatal rules.yml
{ echo 'WARNING: unknown lint option: "foo"' && cat fine; } >want
compare 0 check rules --lint=foo rules.yml
{ echo 'Checking standard input' && cat found && echo; } >want
compare 0 check rules
printf 'Checking c.yml\n  SUCCESS: 1 rule files found\n SUCCESS: c.yml is valid prometheus config file syntax\n\n' >head
{ cat head && echo '  FAILED: too long scrape interval found, data point will be marked as stale - job: slow, interval: 10m' && cat fine; } >want
compare 3 check config --lint=too-long-scrape-interval --lint-fatal c.yml
cat head fine >want
compare 0 check config --lint=none --lint-fatal c.yml
compare 0 check config --lint=too-long-scrape-interval --query.lookback-delta=11m --lint-fatal c.yml
"$gpuscale" check rules rules.yml >out 2>&1 || fail "check rules: $(cat out)"
[ "$(grep -c '^  rules.yml:[67]: x:y: another recording rule has the same name and labels' out)" = 2 ] || fail "check rules: $(cat out)"
! "$gpuscale" check rules --strict rules.yml >out 2>&1 || fail "check rules --strict"
"$gpuscale" check rules --strict --lint=none rules.yml >out 2>&1 || fail "check rules --strict --lint=none: $(cat out)"

# --- check metrics --extended ---

cat >input <<'END'
# HELP lat_seconds A histogram.
# TYPE lat_seconds histogram
lat_seconds_bucket{a="c",le="1"} 1
lat_seconds_bucket{a="c",le="+Inf"} 2
lat_seconds_sum{a="c"} 1
lat_seconds_count{a="c"} 1
lat_seconds_bucket{a="d",le="1"} 1
lat_seconds_bucket{a="d",le="+Inf"} 2
lat_seconds_sum{a="d"} 1
lat_seconds_count{a="d"} 1
# HELP s_seconds A summary.
# TYPE s_seconds summary
s_seconds{quantile="0.5"} 1
s_seconds_sum 1
s_seconds_count 1
camelCase 5
END
# tabs: columns of four characters
printf '%s\n' 'Metric         Cardinality    Percentage    ' 'lat_seconds    8              66.67%        ' \
    's_seconds      3              25.00%        ' 'camelCase      1              8.33%         ' 'Total          12             100%          ' >want
compare 0 check metrics --extended --lint=none

# --- promql ---

# edit WANTED ARG…
edit() {
    printf '%s\n' "$1" >want
    shift
    compare 0 promql "$@"
}
edit 'foo{a="c"} / on (a) sum by (x) (rate(bar{a="c"}[5m] offset 1m))' label-matchers set 'foo{a="b"} / on(a) sum by (x) (rate(bar[5m] offset 1m))' a c
edit 'foo{a=~"["}' label-matchers set -t '=~' 'foo{a="b"}' a '['
edit 'foo{a!="b"}' label-matchers set --type='!=' foo a b
edit 'foo{__name__="bar"}' label-matchers set foo __name__ bar
edit 'foo + bar{b="c"}' label-matchers delete 'foo{a="b"} + bar{b="c",a!~"x"}' a
edit 'rate(a[0s])' format 'rate(a[0.0001])'
edit 'a[1ms]' format 'a[0.0015]'
edit '' label-matchers delete '{a="b"}' a
! bin/promtool promql label-matchers set -t '!!' foo a b 2>out || fail "a wrong type is accepted"
grep -q 'must be one of =,!=,=~,!~' out || fail "the error of a wrong type: $(cat out)"
! bin/promtool promql label-matchers set foo a 2>out || fail "set without a value"
grep -q 'usage: promtool promql label-matchers' out || fail "the usage: $(cat out)"

# --- test rules --debug ---

printf 'groups: [{name: g, rules: [{record: "r:x", expr: up * 2}]}]\n' >r.yml
cat >t.yml <<'END'
rule_files: [r.yml]
evaluation_interval: 1m
tests:
- interval: 1m
  name: first
  input_series: [{series: 'up{z="b",job="a"}', values: '0 1.5 2 3'}]
  promql_expr_test: [{expr: up, eval_time: 2m, exp_samples: [{labels: 'up{job="a",z="b"}', value: 2}]}]
END
cat >want <<'END'
Processing test file: t.yml
DEBUG: Starting test first
DEBUG: Dump of all data (input_series and rules) at 2m1s:
{__name__="r:x", job="a", z="b"} =>
3 @[60000]
4 @[120000]
{__name__="up", job="a", z="b"} =>
1.5 @[60000]
2 @[120000]
  SUCCESS

END
for program in bin/promtool "$gpuscale" ${theirs:+"$theirs"}; do
    "$program" test rules --debug t.yml >out 2>&1 || fail "test rules --debug: $(cat out)"
    grep -q '^DEBUG: Test first finished, took .*s$' out || fail "the time of a test: $(cat out)"
    sed -i '/finished, took/d' out
    diff want out || fail "$program test rules --debug"
done

# --- functions of templates ---

cat >t2.yml <<'END'
rule_files: [r2.yml]
evaluation_interval: 1m
tests:
- interval: 1m
  input_series: [{series: up, values: 1x5}]
  alert_rule_test:
  - eval_time: 2m
    alertname: A
    exp_alerts:
    - exp_annotations:
        a: 120 1m30s 1.5 90000 -60
        b: 1970-01-01 00:02:00 +0000 UTC 1970 January Thursday 120
        c: hello
END
cat >r2.yml <<'END'
groups:
- name: g
  rules:
  - alert: A
    expr: up
    annotations:
      a: '{{ now }} {{ 90 | toDuration }} {{ (90 | toDuration).Minutes }} {{ (90 | toDuration).Milliseconds }} {{ parseDuration "-1m" }}'
      b: '{{ now | toTime }} {{ (now | toTime).Year }} {{ (now | toTime).Month }} {{ (now | toTime).Weekday }} {{ (now | toTime).Unix }}'
      c: !!binary aGVsbG8=
END
printf 'Processing test file: t2.yml\n  SUCCESS\n\n' >want
compare 0 test rules t2.yml

# --- check service-discovery ---

cat >sd.yml <<'END'
scrape_configs:
- job_name: one
  static_configs: [{targets: ["a:1", "drop:3"], labels: {x: y}}]
  relabel_configs: [{source_labels: [__address__], regex: 'drop:3', action: drop}]
- job_name: files
  file_sd_configs: [{files: [targets.json]}]
  relabel_configs: [{source_labels: [__meta_z], target_label: z}]
END
echo '[{"targets":["f:1"],"labels":{"__meta_z":"1"}}]' >targets.json
bin/promtool check service-discovery sd.yml one >out || fail "check service-discovery"
[ "$(jq -c '[.[] | [.discoveredLabels.__address__, .labels.instance, .labels.x]]' out)" = '[["a:1","a:1","y"],["drop:3",null,null]]' ] || fail "targets: $(cat out)"
bin/promtool check service-discovery --timeout=3m sd.yml files >out || fail "check service-discovery of files"
[ "$(jq -c '[.[].labels | [.instance, .z, .__meta_z]]' out)" = '[["f:1","1",null]]' ] || fail "targets of files: $(cat out)"
if [ -n "$theirs" ]; then
    "$theirs" check service-discovery --timeout=2s sd.yml one | jq -S 'sort_by(.discoveredLabels.__address__)' >want
    bin/promtool check service-discovery sd.yml one | jq -S . | diff want - || fail "promtool 3.16 prints other targets"
fi
printf 'Job no not found. Select one of:\n\tone\n\tfiles\n' >want
compare 1 check service-discovery sd.yml no

# --- commands that use a server ---

cat >prometheus.yml <<'END'
global: {scrape_interval: 1s}
rule_files: [buckets.yml]
END
# The counts of the buckets change with time; the number of the used ones does not.
cat >buckets.yml <<'END'
groups:
- name: a
  interval: 1s
  rules:
  - {record: lat_bucket, expr: vector(2), labels: {le: "0.5"}}
  - {record: lat_bucket, expr: vector(2), labels: {le: "1"}}
  - {record: lat_bucket, expr: vector(5), labels: {le: "+Inf"}}
END
"$gpuscale" engine --config.file=prometheus.yml --web.listen-address=127.0.0.1:0 --storage.tsdb.path=data --web.enable-remote-write-receiver >engine.log 2>&1 &
pids=$!
wait_for "the engine is ready" grep -q 'is ready' engine.log
url=$(sed -n 's#.*listening on \(http://127.0.0.1:[0-9]*\).*#\1#p' engine.log)
samples() { [ "$("$gpuscale" query --url="$url" -o csv 'min(count_over_time(lat_bucket[1m])) >= bool 3' | tail -n 1 | grep -c ',1$')" = 1 ]; }
wait_for "buckets" samples
now=$(date +%s)
instead() { ! bin/promtool "$@" 2>out && grep -q "does not exist in gpuscale: .*$text" out || fail "promtool $*: $(cat out)"; }
text=/api/v1/status/tsdb instead tsdb analyze data
text='remote write' instead tsdb create-blocks-from openmetrics x data
text=/metrics instead debug all "$url"
printf '  SUCCESS:  gpuscale engine is Healthy.\n\n' >want
compare 0 check healthy --url="$url"
printf '  SUCCESS:  gpuscale engine is Ready.\n\n' >want
compare 0 check ready --url="$url/"
! bin/promtool check ready --url="$url/x" 2>out || fail "check ready of a page that is absent"
grep -q "check failed: URL=$url/x, status=404" out || fail "check ready: $(cat out)"
cat >want <<'END'
Bucket stats for each histogram series over time
------------------------------------------------
First the min, avg, and max number of populated buckets, followed by the total
number of buckets (only if different from the max number of populated buckets
which is typical for classic but not native histograms).

- lat_bucket{} (classic): 2/2.000/2/3

Aggregated bucket stats
-----------------------
Each line shows min/avg/max over the series above.

Classic histogram series (1 in total):
- min populated: 2/2.000/2
- avg populated: 2/2.000/2
- max populated: 2/2.000/2
- total: 3/3.000/3
END
compare 0 query analyze --server="$url" --type=histogram --match=lat_bucket --duration=2m --time="$now"
! bin/promtool query analyze --server="$url" --type=gauge --match=up >out 2>&1 || fail "query analyze of gauges"
grep -q "analyze type is gauge, must be 'histogram'" out || fail "query analyze: $(cat out)"
! bin/promtool query analyze --server="$url" --type=histogram 2>out || fail "query analyze without a selector"
grep -q 'required flag --match not provided' out || fail "query analyze: $(cat out)"
printf 'pushed_total{job="x"} 3\n' >input
printf 'Parsing standard input\n  SUCCESS: metrics pushed to remote write.\n' >want
compare 0 push metrics "$url"
printf 'Parsing metrics file input\n  SUCCESS: metrics file input pushed to remote write.\n' >want
compare 0 push metrics --label=job=k --label=a=b "$url/" input
"$gpuscale" query --url="$url" -o promql 'sum by (job, exported_job, a) (pushed_total)' | sed 's/ @.*//' | sort >out
printf '%s\n' '{a="b", exported_job="x", job="k"} => 3' '{exported_job="x", job="promtool"} => 3' | diff - out || fail "pushed series"
compare 0 push metrics --remote-write.path=/api/v1/write "$url" input
! bin/promtool push metrics --remote-write.path=/x "$url" input 2>out || fail "push to another path"
grep -q '  FAILED: server returned HTTP status 404' out || fail "push: $(cat out)"
! bin/promtool push metrics "$url/x" input 2>out || fail "push to a page that is absent"
grep -q '  FAILED: server returned HTTP status 404' out || fail "push: $(cat out)"

[ "$(curl -sS -F 'query=vector(1)' "$url/api/v1/query" | jq -r '.data.result[0].value[1]')" = 1 ] || fail "a multipart form"

# A URL of 16 KiB with 1,500 parameters.
many=$(yes 'match[]=up&' | head -n 1500 | tr -d '\n')
[ "$(curl -sS -o out -w '%{http_code}' "$url/api/v1/series?$many")" = 200 ] || fail "1500 match[]: $(cat out)"
echo "ok: promtool${theirs:+, compared with 3.16}"
