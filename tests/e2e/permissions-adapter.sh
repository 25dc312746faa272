# Removes the adapter's permissions one by one; to be sourced by permissions.sh. Rules for objects
# that the built-in GPU metrics do not list.

cat >"$dir/all-objects.yaml" <<'EOF'
rules:
- seriesQuery: 'kube_deployment_spec_replicas{namespace!=""}'
  resources: {overrides: {namespace: {resource: namespace}, deployment: {group: apps, resource: deployment}}}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
resourceRules:
  cpu:
    containerQuery: sum(rate(container_cpu_usage_seconds_total{<<.LabelMatchers>>}[30s])) by (<<.GroupBy>>)
    nodeQuery: sum(rate(node_cpu_usage_seconds_total{<<.LabelMatchers>>}[30s])) by (<<.GroupBy>>)
    resources: {overrides: {node: {resource: node}, namespace: {resource: namespace}, pod: {resource: pod}}}
    containerLabel: container
  memory:
    containerQuery: sum(container_memory_working_set_bytes{<<.LabelMatchers>>}) by (<<.GroupBy>>)
    nodeQuery: sum(node_memory_working_set_bytes{<<.LabelMatchers>>}) by (<<.GroupBy>>)
    resources: {overrides: {node: {resource: node}, namespace: {resource: namespace}, pod: {resource: pod}}}
    containerLabel: container
  window: 30s
EOF
adapter_config "$dir/all-objects.yaml"
load bert-intent-detection 20
kubectl apply -f "$guides/ack/bert-intent-detection.yaml" >/dev/null
kubectl rollout status deployment/bert-intent-detection --timeout=300s >/dev/null
set_of=$(kubectl get replicasets -l app=bert-intent-detection -o jsonpath='{.items[0].metadata.name}')
take_away adapter
copy adapter no-delegator system:auth-delegator | kubectl apply -f - >/dev/null
copy adapter no-reader extension-apiserver-authentication-reader | kubectl apply -f - >/dev/null

from() { # SUFFIX PATH: with an administrator's certificate, past the API server
    curl -sk --max-time 60 --cert "$dir/admin.crt" --key "$dir/admin.key" "https://$(address_of adapter "no-$1"):6443$2"
}
message() { from "$1" "$2" | jq -r '.message // empty'; }
# SUFFIX PATH PERMISSION: the request fails, and the message names the permission.
denied() {
    says_so() { message "$1" "$2" | grep -q "^Internal error occurred: unable to list matching resources: .*is forbidden: .*cannot $3"; }
    wait_for "adapter without $1 on $2: $(message "$1" "$2")" says_so "$1" "$2" "$3"
}
util=DCGM_FI_DEV_GPU_UTIL
in_default=$api/namespaces/default
gpu_listed() { from services "$api" | jq -e --arg n "services/$util" '[.resources[].name] | index($n)'; }
wait_for "the copies list GPU metrics" gpu_listed
denied pods "$in_default/pods/*/$util" 'list resource "pods"'
denied pods "$in_default/deployments.apps/bert-intent-detection/$util" 'list resource "pods"'
denied pods /apis/metrics.k8s.io/v1beta1/namespaces/default/pods 'list resource "pods"'
denied nodes "$api/nodes/*/$util" 'list resource "nodes"'
denied nodes /apis/metrics.k8s.io/v1beta1/nodes 'list resource "nodes"'
denied namespaces "$api/namespaces/*/metrics/$util" 'list resource "namespaces"'
denied services "$in_default/services/bert-intent-detection-svc/$util" 'get resource "services"'
denied apps-deployments "$in_default/deployments.apps/bert-intent-detection/$util" 'get resource "deployments"'
denied apps-deployments "$in_default/deployments.apps/*/kube_deployment_spec_replicas" 'list resource "deployments"'
denied apps-replicasets "$in_default/replicasets.apps/$set_of/$util" 'get resource "replicasets"'
denied apps-statefulsets "$in_default/statefulsets.apps/any/$util" 'get resource "statefulsets"'
denied apps-daemonsets "$in_default/daemonsets.apps/any/$util" 'get resource "daemonsets"'
denied batch-jobs "$in_default/jobs.batch/any/$util" 'get resource "jobs"'
# Without a certificate, a replica is not ready.
for right in 'secrets Secret' 'apiregistration-k8s-io-apiservices APIService'; do
    forbidden() { logged adapter "no-$1" "serving certificate: $2 .* cannot be read: .*is forbidden"; }
    # shellcheck disable=SC2086
    wait_for "adapter without ${right% *} says so" forbidden $right
    ! ready adapter "no-${right% *}" 2>/dev/null || fail "adapter without ${right% *} is ready"
done
# If authentication or authorization fails, requests are rejected.
token=$(kubectl create token default)
code=$(curl -sk -o "$dir/denied" -w '%{http_code}' -H "Authorization: Bearer $token" "https://$(address_of adapter no-delegator):6443$in_default/pods/*/$util")
[ "$code" = 401 ] || fail "adapter without system:auth-delegator, a token: $code $(cat "$dir/denied")"
logged adapter no-delegator 'TokenReview: tokenreviews.authentication.k8s.io is forbidden' || fail "TokenReview: $(log_of adapter no-delegator)"
code=$(curl -sk -o "$dir/denied" -w '%{http_code}' --cert "$dir/node-gpu-0.crt" --key "$dir/node-gpu-0.key" "https://$(address_of adapter no-delegator):6443$in_default/pods/*/$util")
[ "$code" = 500 ] && grep -q 'subjectaccessreviews.authorization.k8s.io is forbidden' "$dir/denied" || fail "adapter without system:auth-delegator: $code $(cat "$dir/denied")"
# Without the CA of the front proxy, the adapter exits and reports the required binding.
wait_for "adapter without extension-apiserver-authentication-reader ends with the reason" \
    logged adapter no-reader 'bind the role extension-apiserver-authentication-reader'
kubectl -n monitoring delete deployment gpuscale-adapter-no-reader --wait=false >/dev/null
none_restarted adapter
n=$(($(rights adapter | wc -l) + 2))
give_back adapter
copy adapter no-delegator | kubectl apply -f - >/dev/null
copy adapter no-reader | kubectl apply -f - >/dev/null
served() { from "$1" "$2" | jq -e '.items | length > 0'; }
wait_for "adapter with pods again" served pods "$in_default/pods/*/$util"
wait_for "adapter with nodes again" served nodes /apis/metrics.k8s.io/v1beta1/nodes
wait_for "adapter with namespaces again" served namespaces "$api/namespaces/*/metrics/$util"
wait_for "adapter with services again" served services "$in_default/services/bert-intent-detection-svc/$util"
wait_for "adapter with deployments again" served apps-deployments "$in_default/deployments.apps/bert-intent-detection/$util"
wait_for "adapter with replicasets again" served apps-replicasets "$in_default/replicasets.apps/$set_of/$util"
not_found() { from "$1" "$2" | jq -e '.code == 404'; }
for kind in apps-statefulsets:statefulsets.apps apps-daemonsets:daemonsets.apps batch-jobs:jobs.batch; do
    wait_for "adapter with $kind again: there is no such object" not_found "${kind%:*}" "$in_default/${kind#*:}/any/$util"
done
for right in secrets apiregistration-k8s-io-apiservices; do
    wait_for "adapter with $right again" ready adapter "no-$right"
done
let_in() { [ "$(curl -sk -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $token" "https://$(address_of adapter no-delegator):6443$in_default/pods/*/$util")" = 403 ]; }
wait_for "adapter with system:auth-delegator again: the token is known, and may not" let_in
wait_for "adapter with extension-apiserver-authentication-reader again" ready adapter no-reader
none_restarted adapter
remove adapter
ok "the adapter without each of its $n rights: the answer names it, nobody gets in by mistake; given back, it answers"
