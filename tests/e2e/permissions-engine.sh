# Removes the engine's permissions one by one; to be sourced by permissions.sh.

kubectl -n monitoring apply -f "$deploy/exporter-servicemonitor.yaml" >/dev/null # a job of role endpoints
take_away engine
# SUFFIX QUERY EXPECTED: a query to the copy
asked() { curl -sf "http://$(address_of engine "no-$1"):9090/api/v1/query" --data-urlencode "query=$2" | jq -r '.data.result[0].value[1] // "none"'; }
answers() { [ "$(asked "$@")" = "$3" ]; }
# SUFFIX TEXT: the log contains TEXT and that the request is forbidden
lacks() { wait_for "engine without $1: the log says that $2" logged engine "no-$1" "$2.* is forbidden: "; }
lacks pods 'kube-state: pods cannot be read'
lacks services 'discovery: services cannot be read'
lacks endpoints 'discovery: endpoints of namespace monitoring cannot be read'
lacks nodes 'kube-state: nodes cannot be read'
lacks namespaces 'kube-state: namespaces cannot be read'
lacks resourcequotas 'kube-state: resourcequotas cannot be read'
lacks limitranges 'kube-state: limitranges cannot be read'
lacks discovery-k8s-io-endpointslices 'discovery: endpointslices cannot be read'
lacks apps-deployments 'kube-state: deployments cannot be read'
lacks apps-replicasets 'kube-state: replicasets cannot be read'
lacks apps-daemonsets 'kube-state: daemonsets cannot be read'
lacks apps-statefulsets 'kube-state: statefulsets cannot be read'
lacks batch-jobs 'kube-state: jobs cannot be read'
lacks batch-cronjobs 'kube-state: cronjobs cannot be read'
lacks policy-poddisruptionbudgets 'kube-state: poddisruptionbudgets cannot be read'
lacks autoscaling-horizontalpodautoscalers 'kube-state: horizontalpodautoscalers cannot be read'
lacks monitoring-coreos-com-prometheusrules 'rules: PrometheusRule objects cannot be read'
lacks monitoring-coreos-com-servicemonitors 'monitors: ServiceMonitor objects cannot be read'
lacks monitoring-coreos-com-podmonitors 'monitors: PodMonitor objects cannot be read'
refused() { curl -sf "http://$(address_of engine no-nodes-metrics):9090/api/v1/targets" | jq -e '[.data.activeTargets[] | select(.scrapePool == "kubelet" and .health == "down" and (.lastError | test("HTTP status 403")))] | length == 2'; }
wait_for "engine without nodes/metrics: the kubelets' targets are down with 403" refused
refused_by_adapter() { curl -sf "http://$(address_of engine no-metrics):9090/api/v1/targets" | jq -e '[.data.activeTargets[] | select(.scrapePool == "gpuscale-adapter" and .health == "down" and (.lastError | test("HTTP status 403")))] | length == 2'; }
wait_for "engine without /metrics: the adapter's targets are down with 403" refused_by_adapter
# The data of the missing permission is absent, and the rest is present.
gone() { # SUFFIX SERIES-THAT-IS-MISSING SERIES-THAT-IS-THERE
    wait_for "engine without $1: $3 is there" sh -c "[ \"\$(curl -sf 'http://$(address_of engine "no-$1"):9090/api/v1/query' --data-urlencode 'query=count($3) > 0' | jq '.data.result | length')\" = 1 ]"
    answers "$1" "count($2)" none || fail "engine without $1 has $2: $(asked "$1" "count($2)")"
}
gone pods kube_pod_info kube_node_info
gone nodes 'up{job="kubelet"}' 'up{job="gpuscale-exporter"}'
gone namespaces kube_namespace_created kube_pod_info
gone discovery-k8s-io-endpointslices 'up{job="gpuscale-exporter",NodeName!=""}' kube_pod_info
gone endpoints 'up{endpoint="metrics"}' 'up{job="gpuscale-exporter"}'
gone apps-deployments kube_deployment_spec_replicas kube_replicaset_spec_replicas
gone apps-replicasets kube_replicaset_spec_replicas kube_deployment_spec_replicas
none_restarted engine
n=$(rights engine | wc -l)
give_back engine
back() { # SUFFIX SERIES
    wait_for "engine with $1 again: $2" sh -c "[ \"\$(curl -sf 'http://$(address_of engine "no-$1"):9090/api/v1/query' --data-urlencode 'query=count($2) > 0' | jq '.data.result | length')\" = 1 ]"
}
back pods kube_pod_info
back services 'up{job="gpuscale-exporter",NodeName!=""}'
back endpoints 'up{endpoint="metrics"}'
back nodes 'up{job="kubelet"} == 1'
back namespaces kube_namespace_created
back discovery-k8s-io-endpointslices 'up{job="gpuscale-exporter",NodeName!=""}'
back apps-deployments kube_deployment_spec_replicas
back apps-replicasets kube_replicaset_spec_replicas
back nodes-metrics 'up{job="kubelet"} == 1'
back monitoring-coreos-com-servicemonitors 'up{endpoint="metrics"}'
for suffix in autoscaling-horizontalpodautoscalers monitoring-coreos-com-prometheusrules monitoring-coreos-com-podmonitors; do
    wait_for "engine with $suffix again" logged engine "no-$suffix" "can be read again"
done
none_restarted engine
remove engine
kubectl -n monitoring delete -f "$deploy/exporter-servicemonitor.yaml" >/dev/null
ok "the engine without each of its $n permissions: the log names it, the rest works, and it resumes when the permission is restored"
