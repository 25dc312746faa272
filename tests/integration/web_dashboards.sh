#!/bin/sh
# Dashboards in the JSON of Grafana, in Debian's Chromium: gpuscale up stores them as ConfigMaps, an engine alone in the session.
. "$(dirname "$0")/lib.sh"
need curl kubectl chromium chromedriver
/usr/bin/python3 -c 'import selenium' 2>/dev/null || skip "python3-selenium is not installed (tools/install-deps web)"

start_up --gpus 2xA100-SXM4-80GB
echo 'global: {scrape_interval: 1s}' >"$dir/prometheus.yml"
"$gpuscale" engine --config.file="$dir/prometheus.yml" --web.listen-address=127.0.0.1:29090 >"$dir/engine.log" 2>&1 &
pids=$!
wait_for "the engine is ready" grep -q 'is ready' "$dir/engine.log"
up_url=$(engine_url)
wait_for "series of GPUs" sh -c "curl -sSf '$up_url/api/v1/query?query=count(DCGM_FI_DEV_GPU_TEMP)' | grep -q '\"2\"'"
# The ConfigMaps of a release of kube-prometheus-stack, where they are beside the sources.
stack=$source/../shared/walkthroughs/charts/kube-prometheus-stack-88.5.3.yaml
if [ -f "$stack" ]; then
    kubectl create namespace prometheus >/dev/null
    awk 'BEGIN { RS = "\n---\n"; ORS = "\n---\n" } /\nkind: ConfigMap\n/ && /grafana_dashboard: "1"/' "$stack" | kubectl create -f - >/dev/null
fi
/usr/bin/python3 "$source/tests/web/dashboards.py" "$dir" "$up_url/" http://127.0.0.1:29090/ || fail "the dashboards: see above"
