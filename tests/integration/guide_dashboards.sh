#!/bin/sh
# The queries of Grafana dashboards against the engine of `gpuscale up` with the exporter of a guide. Each query must be
# valid, and those of GPU metrics must have data. guide_dashboards.txt lists the queries of dashboard 12239. JSON files of
# other dashboards are read from $GPUSCALE_DASHBOARDS and from the files of the guides, where these exist.
. "$(dirname "$0")/lib.sh"
need kubectl curl jq
queries=$dir/queries
cat "$(dirname "$0")/guide_dashboards.txt" >"$queries"
for file in "${GPUSCALE_DASHBOARDS:-/nonexistent}"/*.json "$source"/../shared/walkthroughs/dashboards/*.json; do
    [ -f "$file" ] || continue
    jq -r --arg name "$(basename "$file" .json)" '.. | objects | select(.targets?) | .title as $title | .targets[]? | select(.expr?) |
        [$name, ($title // "untitled"), (.expr | gsub("[\n\t]"; " "))] | join("\t")' "$file" >>"$queries"
done

start_up --gpus 2xH100-80GB-HBM3 --values "$source/examples/guides/telemetry/kube-prometheus-stack-values.yaml" \
    -f "$source/examples/guides/eks/dcgm-exporter.yaml"
url=$(engine_url)
ask() { curl -s "$url/api/v1/query" --data-urlencode "query=$1"; }
scraped() { ask 'count(DCGM_FI_DEV_GPU_UTIL{job="gpu-metrics"})' | jq -e '.data.result[0].value[1] == "2"'; }
wait_for "the exporter of the guide is scraped" scraped

# Variables of dashboards, as with the choice "All".
without_variables() {
    printf '%s\n' "$1" | sed -E 's/\$\{?__(rate_interval|interval|range)\}?/1m/g; s/\$\{?[A-Za-z_][A-Za-z0-9_]*(:[a-z]+)?\}?/.*/g'
}
has_data() { ask "$query" | jq -e '.data.result | length > 0'; }
tab=$(printf '\t')
n=0 empty=0
while IFS=$tab read -r dashboard panel expr <&3; do
    query=$(without_variables "$expr")
    n=$((n + 1))
    status=$(ask "$query" | jq -r '.status + " " + (.error // "")')
    [ "$status" = "success " ] || fail "$dashboard: $panel: $status: $query"
    # Metrics of other programs, such as the node exporter, have no data.
    if printf '%s\n' "$query" | grep -qE '(DCGM_FI|dcgm)_'; then
        soon has_data || fail "$dashboard: $panel: no data: $query"
    elif ! has_data >/dev/null; then
        empty=$((empty + 1))
        echo "no data: $dashboard: $panel: $query"
    fi
done 3<"$queries"
stop_up
echo "ok: $n queries are valid, $empty of them without data"
