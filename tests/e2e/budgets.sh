# GPU budgets beside kube-controller-manager: maxReplicas of its autoscalers are lowered and recorded, it follows, and they are given
# back by doctor's command and at the end of gpuscale hpa. The metric of the autoscalers fails, so that they keep their replicas.

kubectl create namespace budgets >/dev/null
# NAME PRIORITY
shared_workload() {
    kubectl -n budgets apply -f - >/dev/null <<END2
apiVersion: apps/v1
kind: Deployment
metadata: {name: $1}
spec:
  replicas: 3
  selector: {matchLabels: {app: $1}}
  template:
    metadata: {labels: {app: $1}}
    spec: {terminationGracePeriodSeconds: 1, containers: [{name: main, image: any, resources: {limits: {nvidia.com/gpu: 1}}}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: $1, annotations: {gpuscale.dev/priority: "$2"}}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: $1}
  maxReplicas: 8
  metrics: [{type: External, external: {metric: {name: missing}, target: {type: Value, value: 1}}}]
END2
}
shared_workload batch 1
shared_workload chat 5
kubectl -n budgets create configmap gpuscale-budgets --from-literal=budgets.yaml='{mode: enforce, budgets: [{name: shared, namespaces: [budgets], gpus: 4}]}' >/dev/null
start_budgets() {
    start budgets "$gpuscale" hpa --mode=control --kubeconfig="$dir/admin.kubeconfig" --leader-elect=false --leader-elect-resource-namespace=budgets \
        --web.listen-address=127.0.0.1:0 --horizontal-pod-autoscaler-sync-period=2s
}
field() { kubectl -n budgets get "$1" "$2" -o jsonpath="$3"; }
# NAME MAX REPLICAS
limited() { [ "$(field hpa "$1" '{.spec.maxReplicas}')" = "$2" ] && [ "$(field deployment "$1" '{.status.replicas}')" = "$3" ]; }
running() { [ "$(kubectl -n budgets get pods --field-selector=status.phase=Running -o name | wc -l)" = "$1" ]; }
wait_for "six pods run" running 6
start_budgets
wait_for "batch is limited, and the cluster's controller follows" limited batch 1 1
wait_for "chat has its share" limited chat 3 3
[ "$(field hpa batch '{.metadata.annotations.gpuscale\.dev/budget}')" = maxReplicas=8,set=1,by=budgets ] || fail "the annotation does not record maxReplicas"
# shellcheck disable=SC2154 # start sets it
kill -9 "$pid_budgets"
wait "$pid_budgets" 2>/dev/null || true
"$gpuscale" doctor --kubeconfig="$dir/admin.kubeconfig" --prometheus=http://127.0.0.1:1 >"$dir/budgets.doctor" 2>&1 || true
command=$(grep -o 'kubectl -n budgets patch hpa batch .*' "$dir/budgets.doctor" | head -n 1) || fail "doctor has no command: $(cat "$dir/budgets.doctor")"
eval "$command" >/dev/null || fail "the command of doctor fails: $command"
limited batch 8 1 || fail "the command of doctor does not give maxReplicas back"
start_budgets
wait_for "batch is limited again" limited batch 1 1
stop budgets
limited batch 8 1 && limited chat 8 3 || fail "maxReplicas are not given back at the end"
[ -z "$(field hpa chat '{.metadata.annotations.gpuscale\.dev/budget}')" ] || fail "the annotation is left"
kubectl delete namespace budgets --wait=false >/dev/null
ok "GPU budgets limit autoscalers of the cluster's controller, and give maxReplicas back"
