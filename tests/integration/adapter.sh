#!/bin/sh
# Tests gpuscale adapter as a program while its configuration, certificate, source and permissions
# change. Series come from a real Prometheus, and objects from the API of `gpuscale up`.
. "${GPUSCALE_SOURCE_ROOT:?}/tests/integration/lib.sh"
need prometheus promtool kubectl curl awk openssl
here=$source/tests/differential/adapter
prometheus_pid= adapter_pid= second_pid=
end_all() {
    for p in $prometheus_pid $adapter_pid $second_pid; do kill -TERM "$p" 2>/dev/null || true; done
}
trap 'code=$?; end_all; (exit $code); finish' EXIT

now=$(date +%s)
awk -v now="$now" '/^#/ || !NF { next } { for (t = now - 600; t <= now + 7200; t += 15) printf "%s %s %d\n", $1, $2, t }
    END { print "# EOF" }' "$here/series.txt" >"$dir/data.om"
promtool tsdb create-blocks-from openmetrics "$dir/data.om" "$dir/tsdb" >"$dir/blocks.log" 2>&1 || fail "series"
printf 'global: {}\n' >"$dir/prometheus.yml"
port=$(shuf -i 20000-29999 -n 1)
start_prometheus() {
    prometheus --config.file="$dir/prometheus.yml" --web.listen-address="127.0.0.1:$port" --log.level=error \
        --storage.tsdb.path="$dir/tsdb" --storage.tsdb.retention.time=100y >"$dir/prometheus.log" 2>&1 &
    prometheus_pid=$!
    wait_for "Prometheus" curl -sf "http://127.0.0.1:$port/-/ready"
}
start_prometheus
"$gpuscale" up --data-dir="$dir/data" --api-port=0 --exporter-port=0 --node-name=up-node --gpus=1xA100-SXM4-80GB \
    >"$dir/up.log" 2>&1 &
up_pid=$!
wait_for "Kubernetes API" kubectl get namespaces
kubectl apply -f "$here/objects.yaml" >"$dir/apply.log" || { cat "$dir/apply.log"; fail "objects"; }
for name in certificate-authority client-certificate client-key; do
    awk -v key="$name-data:" '$1 == key { print $2; exit }' "$KUBECONFIG" | base64 -d >"$dir/$name.pem"
done

rules() { # NAME: of the one metric
    printf 'rules:\n- seriesQuery: small\n  name: {as: %s}\n  resources: {template: "<<.Resource>>"}\n' "$1"
    printf '  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)\n'
}
cat >"$dir/policy.yaml" <<'EOF'
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, nonResourceURLs: ['/*']}
- {level: Metadata}
EOF
rules first >"$dir/rules.yaml"
api_port=$(shuf -i 30000-39999 -n 1)
"$gpuscale" adapter --config="$dir/rules.yaml" --prometheus-url="http://127.0.0.1:$port" --secure-port="$api_port" \
    --bind-address=127.0.0.1 --cert-dir="$dir/cert" --lister-kubeconfig="$KUBECONFIG" \
    --authentication-kubeconfig="$KUBECONFIG" --authorization-kubeconfig="$KUBECONFIG" --authentication-skip-lookup \
    --client-ca-file="$dir/certificate-authority.pem" --metrics-relist-interval=1s --metrics-max-age=10m \
    --value-max-age=0s --audit-policy-file="$dir/policy.yaml" --audit-log-path="$dir/audit.log" >"$dir/adapter.log" 2>&1 &
adapter_pid=$!

anonymous() { curl -sk "https://127.0.0.1:$api_port$1"; }
get() { curl -sk --cert "$dir/client-certificate.pem" --key "$dir/client-key.pem" "https://127.0.0.1:$api_port$1"; }
has() { get "$1" | grep -q "$2"; }
pods=/apis/custom.metrics.k8s.io/v1beta1/namespaces/ml/pods

wait_for "readyz" has /readyz '^ok$'
wait_for "the metric" has "$pods/web-0/first" '"value": *"1m"'
has "$pods/*/first" '"name": *"web-1"' || fail "all pods"
anonymous /livez | grep -q '^ok$' || fail "livez requires permission"
anonymous "$pods/web-0/first" | grep -q 'User \\"system:anonymous\\" cannot get resource' || fail "anonymous users can read metrics"
for path in / /assets/main.js /api/v1/gpuscale/adapter; do
    anonymous "$path" | grep -q 'User \\"system:anonymous\\" cannot get path' || fail "anonymous users can read $path"
done
get / | grep -q '"/api/v1/gpuscale/adapter"' || fail "the index"
curl -sk -H 'Accept: text/html' --cert "$dir/client-certificate.pem" --key "$dir/client-key.pem" "https://127.0.0.1:$api_port/" |
    grep -q 'data-page="adapter"' || fail "the page of the adapter"
has /api/v1/gpuscale/adapter '"name":"first","resources":\["namespaces","pods"\],.*"newest":' || fail "the metric with its age is not on the page"
echo "ok: authorization"
grep '"requestURI":"[^"]*/web-0/first"' "$dir/audit.log" | grep '"code":403' | grep -q '"username":"system:anonymous"' ||
    fail "the rejected request is not in the audit log"
grep '"requestURI":"[^"]*/web-0/first"' "$dir/audit.log" | grep '"code":200' |
    grep -q '"authorization.k8s.io/decision":"allow"' || fail "the response is not in the audit log"
grep -q '"requestURI":"/' "$dir/audit.log" || fail "request URIs"
! grep -q '"requestURI":"/readyz' "$dir/audit.log" || fail "requests that the policy excludes are in the audit log"
echo "ok: the audit log"

echo 'rulez: []' >"$dir/rules.yaml"
wait_for "an invalid configuration is reported" grep -q 'did you mean "rules"' "$dir/adapter.log"
has "$pods/web-0/first" '"value": *"1m"' || fail "the previous configuration is not kept"
has /metrics '^gpuscale_adapter_config_reload_failures_total 1$' || fail "the failure is not counted"
printf 'rules:\n- seriesQuery: small\n  resources: {overrides: {pod: {resource: pod}, u: {resource: unicorn}}}\n' >"$dir/rules.yaml"
kill -HUP "$adapter_pid"
wait_for "an override of an unknown resource is logged" \
    grep -q 'rules.yaml:3: the override of label u names the resource "unicorn", which does not exist' "$dir/adapter.log"
wait_for "and counted" has /metrics '^gpuscale_adapter_config_unknown_resources 1$'
rules second >"$dir/rules.yaml"
kill -HUP "$adapter_pid"
wait_for "another configuration" has "$pods/web-0/second" '"value": *"1m"'
has "$pods/web-0/first" 'no rule serves it' || fail "the old metric is still served"

subject() { openssl s_client -connect "127.0.0.1:$api_port" </dev/null 2>/dev/null | grep -m 1 '^subject'; }
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$dir/cert/apiserver.key" -out "$dir/cert/apiserver.crt" -days 30 \
    -subj /CN=exchanged -addext subjectAltName=DNS:localhost 2>/dev/null
exchanged() { subject | grep -q exchanged; }
wait_for "another certificate" exchanged
until=$(date -d "$(openssl x509 -in "$dir/cert/apiserver.crt" -noout -enddate | cut -d= -f2)" +%s)
has /metrics "^gpuscale_adapter_certificate_expiry_timestamp_seconds $until\$" || fail "the expiry time of the certificate: $(get /metrics | grep certificate)"

kill -TERM "$prometheus_pid" && wait "$prometheus_pid" 2>/dev/null || true
wait_for "the source is reported as unavailable" has "$pods/web-0/second" 'the source is unavailable'
sleep 2
has /apis/custom.metrics.k8s.io/v1beta1 'pods/second' || fail "discovered metrics are lost"
wait_for "a metric reports the state of the rule" has /metrics '^gpuscale_adapter_rule_up{rule=".*"} 0$'
start_prometheus
wait_for "the source is back" has "$pods/web-0/second" '"value": *"1m"'

# Rules with different sources: if one source is unavailable, the others continue to work.
{ rules third; printf '  source: gone\n'; rules fourth | tail -n +2
  printf 'sources:\n- {name: gone, url: "http://127.0.0.1:1"}\n'; } >"$dir/rules.yaml"
kill -HUP "$adapter_pid"
wait_for "rules of two sources" has "$pods/web-0/fourth" '"value": *"1m"'
wait_for "the error names the rule whose source is unavailable" has "$pods/web-0/third" 'the rule at .*rules.yaml:[0-9]* serves it, but its series cannot be listed: '
wait_for "a metric counts the failures of its source" has /metrics '^gpuscale_adapter_source_failures_total{source="gone"} [1-9]'

# A second replica, and then a replica that uses the first one as the previous owner.
second_port=$(shuf -i 20000-29999 -n 1)
start_second() { # FLAGS…
    "$gpuscale" adapter --prometheus-url="http://127.0.0.1:$port" --secure-port="$second_port" --bind-address=127.0.0.1 \
        --cert-dir="$dir/cert2" --lister-kubeconfig="$KUBECONFIG" --authentication-kubeconfig="$KUBECONFIG" \
        --authorization-kubeconfig="$KUBECONFIG" --authentication-skip-lookup --metrics-relist-interval=1s \
        --metrics-max-age=10m --client-ca-file="$dir/certificate-authority.pem" "$@" >"$dir/second.log" 2>&1 &
    second_pid=$!
}
of_second() { curl -sk --cert "$dir/client-certificate.pem" --key "$dir/client-key.pem" "https://127.0.0.1:$second_port$1"; }
second_has() { of_second "$1" | grep -q "$2"; }
end_second() {
    kill -TERM "$second_pid"
    wait "$second_pid" || fail "the second replica ended with exit code $?"
    second_pid=
}
# With resource rules only, the source is not queried for other metrics.
sed -n '/^resourceRules/,$p' "$here/resource.yaml" >"$dir/resource.yaml"
start_second --gpu-metrics=false --config="$dir/resource.yaml"
wait_for "an adapter with resource rules alone is ready" second_has /readyz '^ok$'
end_second

# With an invalid certificate, the start fails, and the error names the file.
echo nonsense >"$dir/broken.pem"
for flags in --prometheus-ca-file="$dir/broken.pem" \
    "--prometheus-client-tls-cert-file=$dir/broken.pem --prometheus-client-tls-key-file=$dir/client-key.pem"; do
    # shellcheck disable=SC2086
    start_second $flags
    ! wait "$second_pid" || fail "$flags: the adapter starts"
    second_pid=
    grep -q "broken.pem: not a PEM certificate" "$dir/second.log" || { cat "$dir/second.log"; fail "$flags"; }
done
echo "ok: the adapter does not start with invalid certificates"

start_second --gpu-metrics=false --previous-owner="https://localhost:$api_port" \
    --previous-owner-ca-file="$dir/cert/apiserver.crt" --previous-owner-client-cert-file="$dir/client-certificate.pem" \
    --previous-owner-client-key-file="$dir/client-key.pem"
wait_for "the previous owner's list" second_has /apis/custom.metrics.k8s.io/v1beta1 'pods/fourth'
second_has "$pods/web-0/fourth" '"value": *"1m"' || fail "the request is not forwarded"
second_has "$pods/web-0/none" 'the previous owner of custom.metrics.k8s.io: .*no rule serves it' || fail "the error does not name the previous owner"
end_second
echo "ok: a previous owner"

start_second --config="$dir/rules.yaml"
wait_for "a second replica" second_has "$pods/web-0/fourth" '"value": *"1m"'
( for i in $(seq 40); do second_has "$pods/web-0/fourth" '"value": *"1m"' || echo "wrong answer $i"; done ) >"$dir/answers.txt" &
asking=$!
kill -TERM "$adapter_pid"
wait "$adapter_pid" || fail "gpuscale adapter ended with exit code $?"
adapter_pid=
wait "$asking"
[ ! -s "$dir/answers.txt" ] || fail "the second replica: $(head -n 1 "$dir/answers.txt")"
echo "ok: one of two replicas ends"
end_second
echo "ok: ends on SIGTERM"

# A cluster that cannot be reached is queried every two seconds, and reported once.
sed 's|server: .*|server: http://127.0.0.1:1|' "$KUBECONFIG" >"$dir/unreachable"
start_second --config="$dir/rules.yaml" --lister-kubeconfig="$dir/unreachable"
wait_for "the failure is logged" grep -q 'list of API groups: .*127.0.0.1:1' "$dir/second.log"
sleep 5
[ "$(grep -c 'list of API groups' "$dir/second.log")" = 1 ] || fail "the failure is logged again and again"
end_second
echo "ok: a cluster that cannot be reached"

start_second --config="$dir/rules.yaml" --shutdown-delay-duration=1h
wait_for "a replica that ends late" second_has "$pods/web-0/fourth" '"value": *"1m"'
kill -TERM "$second_pid"
wait_for "it is not ready any more" second_has /readyz '\[-\]'
second_has "$pods/web-0/fourth" '"value": *"1m"' || fail "requests are not served during the shutdown delay"
end_second
! "$gpuscale" adapter --shutdown-delay-duration=-1s >"$dir/negative.log" 2>&1 || fail "a negative shutdown delay is accepted"
grep -q 'shutdown-delay-duration: .* want at least 0s' "$dir/negative.log" || fail "a negative shutdown delay: $(cat "$dir/negative.log")"
echo "ok: serves requests during the shutdown delay, which a second signal ends"
