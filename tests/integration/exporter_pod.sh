#!/bin/sh
# The exporter, ServiceMonitor, scrape job and adapter values of guides (examples/guides): a dcgm-exporter that runs as a
# pod gives the guides' labels, replaces the same metrics of gpuscale's own exporter, and gives them back when it is deleted.
. "$(dirname "$0")/lib.sh"
need kubectl curl jq
guides=$source/examples/guides
for file in "$guides/eks/prometheus-adapter-values.yaml" "$guides/k8s-gpu-hpa/kube-prometheus-stack-values.yaml"; do
    "$gpuscale" check config "$file" >"$dir/check" || fail "$file is refused"
done
"$gpuscale" check config "$guides/eks/dcgm-exporter.yaml" >"$dir/check" || fail "the manifest is refused"
grep -q 'endpoints\[1\] has no port' "$dir/check" || fail "check config does not name the endpoint without a port: $(cat "$dir/check")"

start_up --gpus 2xTesla-T4 --values "$guides/eks/prometheus-adapter-values.yaml" \
    --values "$guides/k8s-gpu-hpa/kube-prometheus-stack-values.yaml" -f "$guides/eks/dcgm-exporter.yaml" -f "$guides/eks/vision-api.yaml"
prometheus=$(engine_url)
jobs() { curl -sG "$prometheus/api/v1/query" --data-urlencode "query=$1" | jq -r '[.data.result[].metric.job] | unique | join(" ")'; }
jobs_are() { [ "$(jobs "$1")" = "$2" ]; }
wait_for "no series of the GPUs comes from gpuscale's exporter" jobs_are '{UUID!=""}' 'dcgm-exporter gpu-metrics'
grep -q 'so that no GPU counts twice' "$dir/up.log" || fail "the choice is not explained"
grep -q 'endpoints\[1\] has no port' "$dir/up.log" || fail "the endpoint without a port is not reported"
wait_for "the guide's labels" jobs_are 'DCGM_FI_DEV_GPU_UTIL{exported_pod=~"vision-api.*",exported_container="vision-api",exported_namespace="default",pod=~"dcgm-exporter.*",Hostname!=""}' 'dcgm-exporter'
metrics=/apis/custom.metrics.k8s.io/v1beta1/namespaces/default/services
wait_for "the guide's metric" kubectl get --raw "$metrics/vision-api/DCGM_FI_DEV_GPU_UTIL_AVG"
# The guide's first HPA asks the Service of the exporter, which the guide's own rules do not serve.
names_the_service() { kubectl get --raw "$metrics/dcgm-exporter/DCGM_FI_DEV_GPU_UTIL_AVG" 2>&1 | grep -q 'but samples for services/vision-api'; }
wait_for "the answer names the Service that has samples" names_the_service
# One GPU is idle, and its series has the pod and the host name of the exporter.
"$gpuscale" top --once -o json --url "$prometheus" >"$dir/top.json"
node=$(kubectl get nodes -o name | sed 's|node/||')
jq -e --arg node "$node" '[.gpus[].node] | unique == [$node]' "$dir/top.json" >/dev/null || fail "a GPU is on another node: $(cat "$dir/top.json")"
! grep -q '"dcgm-exporter' "$dir/top.json" || fail "the exporter uses a GPU: $(cat "$dir/top.json")"
kubectl delete -f "$guides/eks/dcgm-exporter.yaml" >/dev/null
wait_for "the series of gpuscale's exporter are back, with the node" jobs_are 'DCGM_FI_DEV_GPU_UTIL{NodeName!=""}' 'gpuscale-exporter'
stop_up
nothing_left || fail "processes are left"
