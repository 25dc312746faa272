# Tests the adapter with the engine in its process, which discovers the exporters: no Prometheus and
# no rules. To be sourced after production.sh.

apply_exporter # guides put others in its place
load bert-intent-detection 20
kubectl apply -f "$guides/ack/bert-intent-detection.yaml" >/dev/null
kubectl rollout status deployment/bert-intent-detection --timeout=300s >/dev/null || fail "the guide's Deployment does not roll out"
kubectl -n monitoring scale deployment gpuscale-engine --replicas=0 >/dev/null
kubectl patch clusterrole gpuscale-adapter --type=json -p '[{"op": "add", "path": "/rules/-", "value": {"apiGroups": [""], "resources": ["pods"], "verbs": ["watch"]}}]' >/dev/null
kubectl -n monitoring get deployment gpuscale-adapter -o json | jq '{spec: {template: {spec: {containers: [.spec.template.spec.containers[0] |
    {name, args: (.args - ["--config=/etc/adapter/config.yaml"] | map(select(startswith("--prometheus-url") | not)))}]}}}}' >"$dir/embedded.json"
kubectl -n monitoring patch deployment gpuscale-adapter --patch-file "$dir/embedded.json" >/dev/null
kubectl -n monitoring rollout status deployment/gpuscale-adapter --timeout=300s >/dev/null || fail "the adapter with its own engine does not roll out: $(tail -n 5 "$dir"/containers/*adapter*)"
for path in deployments.apps/bert-intent-detection services/bert-intent-detection-svc; do
    wait_for "$path by the adapter's own engine" reads "namespaces/default/$path/DCGM_FI_DEV_GPU_UTIL" 20
done
load bert-intent-detection 60
wait_for "a change within seconds" reads namespaces/default/deployments.apps/bert-intent-detection/DCGM_FI_DEV_GPU_UTIL 60
ok "the adapter alone: its own engine finds the exporters, GPU metrics of a Deployment without Prometheus and rules"
kubectl apply -f "$deploy/adapter.yaml" -f "$deploy/engine.yaml" >/dev/null
kubectl -n monitoring rollout status deployment/gpuscale-engine --timeout=300s >/dev/null || fail "the engine is not back"
kubectl -n monitoring rollout status deployment/gpuscale-adapter --timeout=300s >/dev/null || fail "the adapter is not back"
