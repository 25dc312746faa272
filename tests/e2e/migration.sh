# Replaces a real prometheus-adapter and a real Prometheus 3 as docs/migration.md does, forward and back, while the cluster's
# controller scales. To be sourced after the control plane was started. `make peers` builds both.
prometheus=$("$source/tests/differential/prometheus3.sh" --no-build) || { say "skipped: migration: no Prometheus 3 has been built (make peers)"; return 0; }
theirs=$("$source/tests/differential/prometheus_adapter.sh" --no-build) || { say "skipped: migration: no prometheus-adapter has been built (make peers)"; return 0; }
api=/apis/custom.metrics.k8s.io/v1beta1
apiservice=v1beta1.custom.metrics.k8s.io
mkdir "$dir/migration"
cd "$dir/migration"

# --- what runs before: GPU metrics, Prometheus, prometheus-adapter with its APIService, an autoscaler ---
mkdir "$dir/feed"
echo 20 >"$dir/load"
: >"$dir/feed/metrics"
feed() { # a load in percent, divided among the running pods of the ACK guide's Deployment
    while :; do
        kubectl get pods -l app=bert-intent-detection -o json 2>/dev/null | jq -r --argjson load "$(cat "$dir/load")" '
            [.items[] | select(.status.phase == "Running" and .metadata.deletionTimestamp == null)] as $pods
            | $pods[] | "DCGM_CUSTOM_PROCESS_SM_UTIL{gpu=\"0\",UUID=\"GPU-\(.metadata.uid)\",NodeName=\"\(.spec.nodeName)\",NamespaceName=\"\(.metadata.namespace)\",PodName=\"\(.metadata.name)\"} \([$load / ($pods | length), 100] | min)"' >"$dir/feed/next" || continue
        mv "$dir/feed/next" "$dir/feed/metrics"
        sleep 1
    done
}
feed >"$dir/feed.log" 2>&1 &
pids="$! $pids"
feed_port=$(free_port) prometheus_port=$(free_port) engine_port=$(free_port) their_port=$(free_port) our_port=$(free_port)
start feeder python3 -m http.server --bind 127.0.0.1 --directory "$dir/feed" "$feed_port"
cat >"$dir/prometheus.yml" <<END
global: {scrape_interval: 1s, evaluation_interval: 1s}
scrape_configs:
- {job_name: gpu, fallback_scrape_protocol: PrometheusText0.0.4, static_configs: [{targets: ['127.0.0.1:$feed_port']}]}
END
start prometheus "$prometheus/prometheus" --config.file="$dir/prometheus.yml" --storage.tsdb.path="$dir/prometheus" \
    --web.listen-address="127.0.0.1:$prometheus_port" --log.level=warn
kubectl create namespace monitoring >/dev/null
kubectl -n monitoring create configmap prometheus-adapter --from-file=config.yaml="$guides/ack/adapter-rules.yaml" >/dev/null
kubeconfig theirs "/CN=prometheus-adapter"
kubectl create clusterrole prometheus-adapter --verb=get,list,watch --resource=pods,services,nodes,namespaces,deployments.apps >/dev/null
kubectl create clusterrolebinding prometheus-adapter --clusterrole=prometheus-adapter --user=prometheus-adapter >/dev/null
kubectl create clusterrolebinding prometheus-adapter-auth --clusterrole=system:auth-delegator --user=prometheus-adapter >/dev/null
kubectl -n kube-system create rolebinding prometheus-adapter-auth --role=extension-apiserver-authentication-reader --user=prometheus-adapter >/dev/null
start_theirs() { # PROGRAM: with the arguments, the account and the port of prometheus-adapter
    start theirs "$1" --config="$guides/ack/adapter-rules.yaml" --prometheus-url="http://127.0.0.1:$prometheus_port" \
        --metrics-relist-interval=2s --secure-port="$their_port" --bind-address=127.0.0.1 --cert-dir="$dir/their-certificate" \
        --lister-kubeconfig="$dir/theirs.kubeconfig" --authentication-kubeconfig="$dir/theirs.kubeconfig" \
        --authorization-kubeconfig="$dir/theirs.kubeconfig"
}
start_theirs "$theirs"
service() { # NAME PORT
    kubectl -n monitoring delete service "$1" --ignore-not-found >/dev/null
    kubectl apply -f - >/dev/null <<END
apiVersion: v1
kind: Service
metadata: {name: $1, namespace: monitoring}
spec: {type: ExternalName, externalName: localhost, ports: [{port: $2}]}
END
}
service prometheus-adapter "$their_port"
# As its Helm chart has it.
kubectl create -f - >/dev/null <<END
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: $apiservice}
spec:
  group: custom.metrics.k8s.io
  version: v1beta1
  insecureSkipTLSVerify: true
  groupPriorityMinimum: 100
  versionPriority: 100
  service: {name: prometheus-adapter, namespace: monitoring, port: $their_port}
END
kubectl apply -f "$guides/ack/bert-intent-detection.yaml" -f "$guides/ack/hpa-v2.yaml" >/dev/null
# Requests of a client, twice a second.
(while :; do
    kubectl get --raw "$api/namespaces/default/pods/*/DCGM_CUSTOM_PROCESS_SM_UTIL" >/dev/null 2>"$dir/migration/error" ||
        echo "$(date +%T) $(tail -n 1 "$dir/migration/error")" >>"$dir/migration/failed"
    sleep .5
done) &
client=$!
pids="$client $pids"
serving() { kubectl wait --for=condition=Available apiservice/$apiservice --timeout=1s; }
active() { [ "$(kubectl get hpa gpu-hpa -o json | jq -r '[.status.conditions[]? | select(.type == "ScalingActive") | .status + " " + .reason] | join(" ")')" = "True ValidMetricFound" ]; }
has_replicas() { [ "$(kubectl get deployment bert-intent-detection -o jsonpath='{.spec.replicas}')" = "$1" ]; }
owner() { kubectl get apiservice $apiservice -o jsonpath='{.spec.service.name}'; }
failures() { if [ -e failed ]; then wc -l <failed; else echo 0; fi; }
wait_for "prometheus-adapter serves" serving
wait_for "the autoscaler has its metric" active
echo 90 >"$dir/load"
wait_for "5 replicas by prometheus-adapter" has_replicas 5
ok "before: prometheus-adapter and Prometheus scale to 5 replicas"

# --- 1. check the files ---
kubectl get apiservices $apiservice -o json |
    jq 'del(.status, .metadata.resourceVersion, .metadata.uid, .metadata.creationTimestamp, .metadata.managedFields)' >apiservice-before.json
kubectl -n monitoring get configmap prometheus-adapter -o json | jq -r '.data["config.yaml"]' >config.yaml
"$gpuscale" check adapter config.yaml --source="http://127.0.0.1:$prometheus_port" >check.txt || true
grep -q 'DCGM_CUSTOM_PROCESS_SM_UTIL' check.txt || fail "check adapter: $(cat check.txt)"
"$gpuscale" explain metric --config=config.yaml --source="http://127.0.0.1:$prometheus_port" --kubeconfig="$KUBECONFIG" \
    "$api/namespaces/default/pods/*/DCGM_CUSTOM_PROCESS_SM_UTIL" >explain.txt || fail "explain metric: $(cat explain.txt)"
ok "1: the rules are checked, and a request is explained: $(tail -n 1 explain.txt)"

# --- 2. both adapters, the same Prometheus ---
kubectl apply -f "$source/deploy/adapter.yaml" >/dev/null
kubectl -n monitoring create configmap gpuscale-adapter --from-file=config.yaml --dry-run=client -o yaml | kubectl apply -f - >/dev/null
kubectl -n monitoring patch deployment gpuscale-adapter --type=json -p '[{"op": "replace",
    "path": "/spec/template/spec/containers/0/args/2", "value": "--prometheus-url=http://prometheus-server.monitoring.svc:80"}]' >/dev/null
[ "$(kubectl -n monitoring get deployment gpuscale-adapter -o json | jq -r '.spec.template.spec.containers[0].args | map(select(startswith("--prometheus-url="))) | join(" ")')" = \
    --prometheus-url=http://prometheus-server.monitoring.svc:80 ] || fail "the patch of the page does not set --prometheus-url"
# Hollow pods run nothing: the program runs here, with the service account of the manifest.
kubectl -n monitoring scale deployment gpuscale-adapter --replicas=0 >/dev/null
service gpuscale-adapter "$our_port"
cat >"$dir/ours.kubeconfig" <<END
apiVersion: v1
kind: Config
clusters: [{name: e2e, cluster: {server: $kube, certificate-authority: $dir/ca.crt}}]
users: [{name: me, user: {token: $(kubectl -n monitoring create token gpuscale-adapter)}}]
contexts: [{name: e2e, context: {cluster: e2e, user: me}}]
current-context: e2e
END
start_ours() { # URL OF THE SOURCE
    start ours "$gpuscale" adapter --config="$dir/migration/config.yaml" --prometheus-url="$1" --metrics-relist-interval=2s \
        --secure-port="$our_port" --bind-address=127.0.0.1 --tls-service=monitoring/gpuscale-adapter \
        --lister-kubeconfig="$dir/ours.kubeconfig" --authentication-kubeconfig="$dir/ours.kubeconfig" \
        --authorization-kubeconfig="$dir/ours.kubeconfig"
    wait_for "the new adapter is ready" curl -skf "https://127.0.0.1:$our_port/readyz"
}
start_ours "http://127.0.0.1:$prometheus_port"
[ "$(owner)" = prometheus-adapter ] || fail "the new adapter has taken the APIService"
kubectl -n monitoring create serviceaccount migration >/dev/null
kubectl create clusterrolebinding migration --clusterrole=gpuscale-metrics-reader --serviceaccount=monitoring:migration >/dev/null
token=$(kubectl -n monitoring create token migration)
answer() { # PORT PATH
    curl -sk -H "Authorization: Bearer $token" "https://127.0.0.1:$1/apis/custom.metrics.k8s.io/v1beta1$2"
}
values() { answer "$1" "$2" | jq -S '[.items[] | {describedObject, metricName, value}] | sort'; }
path='/namespaces/default/pods/*/DCGM_CUSTOM_PROCESS_SM_UTIL'
equal() {
    values "$their_port" "$path" >their-values && values "$our_port" "$path" >our-values && [ "$(jq length their-values)" = 5 ] && cmp -s their-values our-values
}
wait_for "equal values" equal
cat >http.yaml <<END
authorization: {credentials: $token}
tls_config: {insecure_skip_verify: true}
END
wait_for "equal values for the autoscaler" "$gpuscale" compare "https://127.0.0.1:$their_port" "https://127.0.0.1:$our_port" \
    --http.config.file=http.yaml --kubeconfig="$KUBECONFIG" --for=6s --interval=2s
answer "$their_port" '' | jq -r '.resources[].name' | sort >their-names
answer "$our_port" '' | jq -r '.resources[].name' | sort >our-names
[ -z "$(comm -23 their-names our-names)" ] || fail "metrics that only prometheus-adapter has: $(comm -23 their-names our-names)"
ok "2: side by side, equal values of 5 pods, and for the autoscaler in each round of gpuscale compare; the new adapter lists all $(wc -l <their-names) metrics of the old one, and $(comm -13 their-names our-names | wc -l) more"

# --- the image alone: docs/prometheus-adapter.md ---
stop theirs
ln -s "$gpuscale" "$dir/migration/adapter" # the name of the program in the image
start_theirs "$dir/migration/adapter"
wait_for "the new image serves in place of the old one" serving
wait_for "the autoscaler has its metric from the new image" active
has_replicas 5 || fail "the new image has changed the replicas"
echo 60 >"$dir/load"
wait_for "3 replicas by the new image" has_replicas 3
stop theirs
start_theirs "$theirs"
wait_for "prometheus-adapter serves after the way back" serving
echo 90 >"$dir/load"
wait_for "5 replicas by prometheus-adapter again" has_replicas 5
wait_for "the autoscaler has its metric after the way back" active
ok "one image: 3 replicas with the arguments, the account and the APIService of prometheus-adapter, and back to it: 5 replicas"

# --- 3. the APIService ---
switch() {
    ca=$(kubectl -n monitoring get secret gpuscale-adapter-tls -o jsonpath='{.data.ca\.crt}')
    kubectl patch apiservice $apiservice --type=merge -p '{"spec": {"caBundle": "'"$ca"'",
        "insecureSkipTLSVerify": null, "service": {"namespace": "monitoring", "name": "gpuscale-adapter", "port": '"$our_port"'}}}' >/dev/null
    kubectl wait --for=condition=Available apiservice/$apiservice --timeout=120s >/dev/null || fail "the APIService is not Available"
    sed "s/port: 443/port: $our_port/" "$source/deploy/adapter-apiservices.yaml" | kubectl apply -f - >/dev/null 2>apply.txt || fail "adapter-apiservices.yaml: $(cat apply.txt)"
}
before=$(failures)
switch
wait_for "the new adapter serves" serving
wait_for "the autoscaler has its metric from the new adapter" active
has_replicas 5 || fail "the switch has changed the replicas"
echo 5 >"$dir/load"
wait_for "1 replica by the new adapter" has_replicas 1
[ "$(owner)" = gpuscale-adapter ] || fail "owner: $(owner)"
ok "3: the APIService is switched with verified TLS, 5 replicas stay, then 1; $(($(failures) - before)) requests failed"

# --- roll-back, and forward again ---
before=$(failures)
kubectl replace -f apiservice-before.json >/dev/null
kubectl delete apiservice v1beta2.custom.metrics.k8s.io >/dev/null
kubectl wait --for=condition=Available apiservice/$apiservice --timeout=120s >/dev/null || fail "the APIService is not Available after the roll-back"
[ "$(owner)" = prometheus-adapter ] && [ "$(kubectl get apiservice $apiservice -o jsonpath='{.spec.caBundle}')" = "" ] || fail "the roll-back is not complete"
echo 60 >"$dir/load"
wait_for "3 replicas by prometheus-adapter" has_replicas 3
wait_for "the autoscaler has its metric after the roll-back" active
ok "roll-back: prometheus-adapter scales to 3 replicas; $(($(failures) - before)) requests failed"
switch
wait_for "the new adapter serves again" serving

# --- 5. the engine as the source ---
start engine "$gpuscale" engine --config.file="$dir/prometheus.yml" --web.listen-address="127.0.0.1:$engine_port"
has_series() { "$gpuscale" query --url="http://127.0.0.1:$engine_port" -o json 'count(DCGM_CUSTOM_PROCESS_SM_UTIL)' | grep -q '"3"'; }
wait_for "the engine has the series" has_series
"$gpuscale" check adapter config.yaml --source="http://127.0.0.1:$engine_port" >check-engine.txt || true
grep -q 'DCGM_CUSTOM_PROCESS_SM_UTIL' check-engine.txt || fail "check adapter with the engine: $(cat check-engine.txt)"
stop ours
start_ours "http://127.0.0.1:$engine_port"
stop prometheus
stop theirs
echo 100 >"$dir/load"
wait_for "5 replicas without the old programs" has_replicas 5
wait_for "the autoscaler has its metric" active
ok "5: the engine is the source, and prometheus-adapter and Prometheus are stopped: 5 replicas"

# --- 6. helm uninstall deletes the APIService ---
kubectl delete apiservice $apiservice >/dev/null
sed "s/port: 443/port: $our_port/" "$source/deploy/adapter-apiservices.yaml" | kubectl apply -f - >/dev/null
kubectl wait --for=condition=Available --timeout=2m apiservice/$apiservice >/dev/null || fail "the adapter has not written its CA in two minutes"
has_replicas 5 || fail "the replicas have changed"
ok "6: an APIService that was deleted and applied again gets the CA of the adapter within two minutes; 5 replicas stay"

kill "$client" 2>/dev/null || true
stop ours
stop engine
cd "$source"
