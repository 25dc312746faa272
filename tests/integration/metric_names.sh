#!/bin/sh
# Queries of dashboards and rules give equal values on a page of an exporter with the names of
# dcgm-exporter 4.8 and on one with those of 4.9, in an engine that has either, and in one that has both:
# with aliases, and converted.
. "${GPUSCALE_SOURCE_ROOT:?}/tests/integration/lib.sh"
need curl jq python3

own_gpus names
"$gpuscale" exporter --simulate 2xA100-SXM4-80GB,1xH100-SXM5-80GB --metric-names=both --address 127.0.0.1:0 >"$dir/exporter.log" 2>&1 &
pids=$!
wait_for "the exporter listens" grep -q 'http://127.0.0.1:[0-9]*/metrics' "$dir/exporter.log"
exporter=$(sed -n 's#.*http://\(127.0.0.1:[0-9]*\)/metrics.*#\1#p' "$dir/exporter.log" | head -n 1)
"$gpuscale" sim load --gpu=0 --util=70 --memory=20Gi --for=600s >"$dir/load.log" 2>&1 &
pids="$pids $!"
# Profiling metrics begin with the second sample of the H100.
busy() {
    curl -sf "http://$exporter/metrics" | grep -v '^#' >"$dir/page"
    grep '^DCGM_FI_DEV_GPU_UTIL_RATIO{gpu="0"' "$dir/page" | grep -qv ' 0$' && grep -q '^DCGM_FI_PROF_PIPE_TENSOR_ACTIVE' "$dir/page"
}
wait_for "a busy GPU" busy

# One moment in the names of each release. Each GPU is in a pod of its own.
mkdir "$dir/pages"
python3 - "$dir" <<'PY'
import re, sys
new = ("_RATIO", "_HERTZ", "_BYTES", "_CELSIUS", "_WATTS", "_JOULES_TOTAL", "_BYTES_PER_SECOND", "XID_ERROR", "PCIE_REPLAY_TOTAL", "ROW_REMAP_FAILED",
       "ROW_REMAP_CORRECTABLE_TOTAL", "ROW_REMAP_UNCORRECTABLE_TOTAL")
same = ("DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES")
d = sys.argv[1]
pages = {"old": [], "new": []}
for line in open(d + "/page"):
    name = line.split("{")[0]
    line = re.sub(r'gpu="(\d)"', r'gpu="\1",pod="pod-\1",exported_container="vision-api"', line, 1)
    if name in same or not name.endswith(new):
        pages["old"].append(re.sub(',DCGM_FI_SYSTEM_DRIVER_VERSION="[^"]*"', "", line))
    if name in same or name.endswith(new):
        pages["new"].append(re.sub(',DCGM_FI_DRIVER_VERSION="[^"]*"', "", line))
for name, lines in pages.items():
    assert len(lines) > 20, (name, len(lines))
    open(d + "/pages/" + name, "w").writelines(lines)
first = lambda lines, keep: [l for l in lines if ('gpu="0"' in l) == keep]
open(d + "/pages/mixed-old", "w").writelines(first(pages["old"], True))
open(d + "/pages/mixed-new", "w").writelines(first(pages["new"], False))
PY
python3 -m http.server --bind 127.0.0.1 --directory "$dir/pages" 29393 >"$dir/pages.log" 2>&1 &
pids="$pids $!"

# engine NAME PORT PAGE…: an engine that scrapes these pages as one target each.
engine() {
    name=$1 port=$2
    shift 2
    { printf 'global: {scrape_interval: 1s}\nscrape_configs:\n'
      for page; do
          printf -- '- {job_name: %s, metrics_path: /%s, honor_labels: true, fallback_scrape_protocol: PrometheusText0.0.4, static_configs: [{targets: ["127.0.0.1:29393"], labels: {instance: node}}]}\n' "$page" "$page"
      done; } >"$dir/$name.yml"
    "$gpuscale" engine --config.file="$dir/$name.yml" --web.listen-address="127.0.0.1:$port" $flags >"$dir/$name.log" 2>&1 &
    pids="$pids $!"
}
flags=--dcgm-aliases=false
engine plain-old 29394 old
engine plain-new 29395 new
flags=
engine old 29396 old
engine new 29397 new
engine mixed 29398 mixed-old mixed-new
scraped() {
    for port in 29394 29395 29396 29397 29398; do
        curl -sf "http://127.0.0.1:$port/api/v1/query" --data-urlencode 'query=min(sum_over_time(up[1m]))' | jq -e '.data.result[0].value[1] | tonumber >= 4' || { curl -s "http://127.0.0.1:$port/api/v1/targets" | jq '.data.activeTargets[].lastError' >"$dir/targets.log"; return 1; }
    done
}
wait_for "four scrapes of each engine" scraped

cut -f3 "$source/tests/integration/guide_dashboards.txt" | sed 's/\$[a-z]*/.*/g' >"$dir/queries"
cat >>"$dir/queries" <<'END'
ceil(avg(avg_over_time(DCGM_FI_DEV_GPU_UTIL{exported_container="vision-api"}[60s]))) > 0
max by (pod) (max_over_time(DCGM_FI_DEV_GPU_UTIL{exported_container="vision-api"}[60s]))
avg by (pod) (DCGM_FI_DEV_GPU_UTIL)
sum by (pod) (DCGM_FI_DEV_FB_USED) / sum by (pod) (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)
sum(rate(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION[1m]))
count by (DCGM_FI_DRIVER_VERSION) (DCGM_FI_DEV_GPU_TEMP)
DCGM_FI_DEV_XID_ERRORS > 0 or on () vector(0)
avg(DCGM_FI_PROF_GR_ENGINE_ACTIVE) + avg(DCGM_FI_PROF_DRAM_ACTIVE)
sum(DCGM_FI_PROF_PCIE_TX_BYTES)
absent(DCGM_FI_DEV_GPU_UTIL) or vector(2)
END
cat >"$dir/compare.py" <<'PY'
import json, sys, urllib.parse, urllib.request

def run(port, query, names):
    url = "http://127.0.0.1:%d/api/v1/query?%s" % (port, urllib.parse.urlencode({"query": query}))
    result = json.load(urllib.request.urlopen(url))["data"]["result"]
    drop = {"job", "DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION"} - set(query.replace("(", " ").replace(")", " ").split())
    if not names:
        drop.add("__name__")
    # A converted query has the other name of this label, too.
    return {json.dumps({k.replace("SYSTEM_DRIVER", "DRIVER"): v for k, v in s["metric"].items() if k not in drop}, sort_keys=True): float(s["value"][1]) for s in result}

def compare(what, a, b):
    if not a or a.keys() != b.keys():
        sys.exit("%s: %s and %s" % (what, a, b))
    for k in a:
        if abs(a[k] - b[k]) > 1e-9 * abs(a[k]):
            sys.exit("%s: %s: %r and %r" % (what, k, a[k], b[k]))

old, new = ([line.strip() for line in open(sys.argv[i])] for i in (1, 2))
changed = 0
for q, converted in zip(old, new):
    expected = run(29394, q, True)
    compare("aliases, 4.8: " + q, expected, run(29396, q, True))
    compare("aliases, 4.9: " + q, expected, run(29397, q, True))
    compare("aliases, both: " + q, expected, run(29398, q, True))
    compare("converted: " + converted, run(29394, q, False), run(29395, converted, False))
    compare("converted, aliases, 4.8: " + converted, run(29395, converted, True), run(29396, converted, True))
    changed += q != converted
assert len(old) == len(new) > 15 and changed >= len(old) - 1
print("%d queries" % len(old))
PY
# Without aliases in the server, replay finds the series with the new names.
cat >"$dir/hpa.yaml" <<'END'
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: app}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: app}
  maxReplicas: 4
  metrics:
  - type: Pods
    pods: {metric: {name: DCGM_FI_DEV_GPU_UTIL}, target: {type: AverageValue, averageValue: "50"}}
END
replay() {
    "$gpuscale" replay --hpa="$dir/hpa.yaml" --from="http://127.0.0.1:$1" --range=60s --step=1s \
        --query='avg(DCGM_FI_DEV_GPU_UTIL{gpu="0"})' >"$dir/replay-$1" 2>"$dir/replay.log" || fail "replay: $(cat "$dir/replay.log")"
}
replay 29395
# Converted as rules, so that the texts are those that people get.
jq -Rs '{groups: [{rules: (split("\n") | map(select(. != "")) | map({expr: .}))}]}' "$dir/queries" >"$dir/rules.json"
"$gpuscale" convert rules "$dir/rules.json" >"$dir/new.json" 2>"$dir/convert.log" || fail "convert rules: $(cat "$dir/convert.log")"
jq -r '.groups[0].rules[].expr' "$dir/new.json" >"$dir/new"
python3 "$dir/compare.py" "$dir/queries" "$dir/new" || fail "the values differ"
"$gpuscale" convert rules --to=4.8 --write "$dir/new.json" 2>"$dir/convert.log" || fail "convert back: $(cat "$dir/convert.log")"
! grep -q '_RATIO\|_BYTES"\|_HERTZ' "$dir/new.json" || fail "new names after the conversion back: $(cat "$dir/new.json")"
