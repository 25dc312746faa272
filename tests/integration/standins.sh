#!/bin/sh
# Pods with the images of charts under `gpuscale up`: what runs in their place is Ready, has the
# function, and says what it is. Images that nothing replaces fail in seconds.
. "${GPUSCALE_SOURCE_ROOT:?}/tests/integration/lib.sh"
need kubectl curl

# A node_exporter of the test, so that the result does not depend on the machine's.
mkdir "$dir/bin"
cat >"$dir/bin/prometheus-node-exporter" <<'END'
#!/bin/sh
[ "$1" != --help ] || { echo '--web.listen-address --path.procfs --[no-]collector.systemd' && exit; }
echo "node_exporter $*"
exec sleep 3600
END
chmod +x "$dir/bin/prometheus-node-exporter"
old_path=$PATH
PATH=$dir/bin:$PATH
start_up --gpus 2xTesla-T4 --image 'registry.example/mapped:*=echo mapped'
PATH=$old_path

cat >"$dir/pods.yaml" <<'END'
apiVersion: v1
kind: Service
metadata: {name: metrics}
spec: {selector: {run: metrics}, ports: [{port: 443, targetPort: https}]}
---
apiVersion: v1
kind: Pod
metadata: {name: prometheus, labels: {app.kubernetes.io/managed-by: prometheus-operator}}
spec:
  initContainers:
  - {name: init, image: 'quay.io/prometheus-operator/prometheus-config-reloader:v0.93.1', args: [--watch-interval=0]}
  containers:
  - name: prometheus
    image: quay.io/prometheus/prometheus:v3.14.0-distroless
    args: [--config.file=/etc/prometheus/config_out/prometheus.env.yaml]
    ports: [{containerPort: 9090, name: web}]
    readinessProbe: {httpGet: {path: /-/ready, port: web}}
  - name: config-reloader
    image: quay.io/prometheus-operator/prometheus-config-reloader:v0.93.1
    ports: [{containerPort: 8080}]
    readinessProbe: {httpGet: {path: /healthz, port: 8080}}
---
apiVersion: v1
kind: Pod
metadata: {name: metrics, labels: {run: metrics}}
spec:
  containers:
  - name: server
    image: registry.k8s.io/metrics-server/metrics-server:v0.8.1
    args: [--secure-port=10250, --cert-dir=/tmp]
    ports: [{containerPort: 10250, name: https}]
    readinessProbe: {httpGet: {path: /readyz, port: https, scheme: HTTPS}}
---
apiVersion: v1
kind: Pod
metadata: {name: state}
spec:
  containers:
  - name: state
    image: k8s.gcr.io/kube-state-metrics/kube-state-metrics:v2.4.1
    args: [--port=8080]
    ports: [{containerPort: 8080}]
    readinessProbe: {httpGet: {path: /, port: 8080}}
---
apiVersion: v1
kind: Pod
metadata: {name: node}
spec:
  hostNetwork: true
  containers:
  - name: node
    image: quay.io/prometheus/node-exporter:v1.12.1
    args: ['--web.listen-address=[0.0.0.0]:9100', --collector.new=1]
---
apiVersion: v1
kind: Pod
metadata: {name: own}
spec: {containers: [{name: own, image: 'quay.io/prometheus/prometheus:v3', command: [sleep, '3600']}]}
---
apiVersion: v1
kind: Pod
metadata: {name: installer}
spec:
  containers:
  - name: i
    image: cos-gpu-installer:v2
    command: [/cos-gpu-installer, install]
    resources: {limits: {nvidia.com/gpu: 1}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: certgen}
spec:
  template:
    spec:
      restartPolicy: OnFailure
      containers:
      - name: c
        image: ghcr.io/jkroepke/kube-webhook-certgen:1.8.7
        args: [create, --host=a.default.svc, --namespace=default, --secret-name=hook]
---
apiVersion: batch/v1
kind: Job
metadata: {name: hook}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: 'quay.io/jetstack/cert-manager-startupapicheck:v1'}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: mapped}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: 'registry.example/mapped:1'}]}}}
END
kubectl apply -f "$dir/pods.yaml" >"$dir/apply.log" || fail "kubectl apply"

for pod in prometheus metrics state; do
    wait_for "pod $pod is Ready" kubectl wait --for=condition=Ready "pod/$pod" --timeout=1s
done
ip() { kubectl get pod "$1" -o jsonpath='{.status.podIP}'; }
log_has() { kubectl logs "$1" | grep -qF -- "$2"; }
is() { [ "$(kubectl get "$1" -o jsonpath="$2")" = "$3" ]; }

first=$(kubectl logs prometheus -c prometheus | head -n 1)
[ "$first" = 'gpuscale: this container is not quay.io/prometheus/prometheus:v3.14.0-distroless; the metrics engine of gpuscale up runs in its place (docs/up.md#stand-ins)' ] ||
    fail "the first line of the log: $first"
curl -sSf "http://$(ip prometheus):9090/api/v1/query?query=DCGM_FI_DEV_GPU_TEMP" | grep -q '"status":"success"' || fail "the pod's port is not the engine"
kubectl exec prometheus -c prometheus -- sh -c 'echo inside' | grep -qx inside || fail "kubectl exec"
kubectl get events --field-selector involvedObject.name=prometheus,reason=Pulled -o jsonpath='{.items[*].message}' |
    grep -qF 'is substituted by the metrics engine of gpuscale up' || fail "the event Pulled"
echo "ok: the pod of Prometheus is the engine, and its log, its event and exec say so"

# Addresses of /proc/net/tcp are in hexadecimal digits.
for port in 9090 9100; do
    ! grep -q " 00000000:$(printf '%04X' "$port") 00000000:0000 0A" /proc/net/tcp || fail "port $port listens on all addresses"
done
curl -sSf "http://$(ip state):8080/metrics" >"$dir/state.txt" || fail "the state of objects"
grep -q '^kube_pod_info{' "$dir/state.txt" || fail "no kube_pod_info"
metrics=https://$(ip metrics):10250
curl -sSf --cacert "$dir/data/pki/ca.crt" "$metrics/livez" >"$dir/livez.txt" || fail "HTTPS"
status=$(curl -sS -o "$dir/apis.txt" -w '%{http_code}' --cacert "$dir/data/pki/ca.crt" "$metrics/apis")
[ "$status" = 401 ] || fail "an API without a user: $status"
kubectl apply -f - >/dev/null <<'END' || fail "the APIService"
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec:
  group: metrics.k8s.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {name: metrics, namespace: default}
END
wait_for "the API of metrics-server is available" kubectl wait --for=condition=Available apiservice/v1beta1.metrics.k8s.io --timeout=1s
echo "ok: metrics and APIs at the addresses of their pods only"

wait_for "node_exporter of this machine runs" log_has node "node_exporter --web.listen-address=$(ip node):9100"
log_has node '--collector.new=1 is not used' || fail "an unknown flag was passed on"
wait_for "the pod with its own command runs" is pod/own '{.status.phase}' Running
[ -z "$(kubectl logs own)" ] || fail "sleep was replaced"
wait_for "the driver is checked whatever command the installer has" log_has installer 'nothing is installed'

wait_for "the certificate generator ends" kubectl wait --for=condition=Complete job/certgen --timeout=1s
kubectl get secret hook -o jsonpath='{.data.ca} {.data.cert} {.data.key}' | grep -q '^LS0t.* LS0t.* LS0t' || fail "the Secret"
wait_for "a Job without an image fails" kubectl wait --for=condition=Failed job/hook --timeout=1s
is job/hook '{.status.conditions[?(@.type=="Failed")].reason}' ImageNotAvailable || fail "the reason of the Job"
wait_for "the event names the remedy" sh -c "kubectl get events -o jsonpath='{.items[?(@.reason==\"NoSubstitute\")].message}' |
    grep -qF \"start gpuscale up with --image 'quay.io/jetstack/cert-manager-startupapicheck:*=COMMAND'\""
wait_for "--image wins" log_has job/mapped mapped

# Of this cluster: others run the same program.
standins() { pgrep -P "$(pgrep -d, -P "$up_pid")" -f "^$gpuscale pod-standin $1"; }
[ "$(standins kube-state-metrics | wc -l)" = 1 ] || fail "processes of kube-state-metrics: $(standins kube-state-metrics)"
# Sanitizers need more.
if ! ldd "$gpuscale" | grep -q 'lib[at]san'; then
    for pid in $(standins .); do
        kb=$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$pid/status")
        [ "${kb:-0}" -lt 5120 ] || fail "process $pid has $kb kB"
    done
    echo "ok: no process has 5 MiB"
fi

# A process that ends gives its ports back, and starts again as any container.
kill "$(standins kube-state-metrics)"
wait_for "the container has restarted" is pod/state '{.status.containerStatuses[0].restartCount}' 1
wait_for "it serves again" curl -sSf "http://$(ip state):8080/metrics"
stop_up
