#!/bin/sh
# The images of guides for GPUs run without --image: an exporter with its own CSV file and the PodResources socket, CUDA
# samples, nvidia-smi, a driver installer and an inference service.
. "$(dirname "$0")/lib.sh"
need kubectl curl unshare
unshare -Urm true 2>/dev/null || unshare -m true 2>/dev/null || skip "this user cannot create mount namespaces"

start_up --gpus 3xTesla-T4

kubectl apply -f - <<'Y'
apiVersion: v1
kind: ConfigMap
metadata: {name: csv}
data: {counters.csv: "DCGM_FI_DEV_GPU_UTIL, gauge, Its own help.\n"}
---
apiVersion: v1
kind: Pod
metadata: {name: dcgm-exporter}
spec:
  containers:
  - name: exporter
    image: nvcr.io/nvidia/k8s/dcgm-exporter:2.3.5-2.6.5-ubuntu20.04
    args: [-f, /etc/dcgm-exporter/counters.csv, -c, "1000"]
    env: [{name: DCGM_EXPORTER_LISTEN, value: ":9400"}, {name: DCGM_EXPORTER_KUBERNETES, value: "true"}]
    volumeMounts:
    - {name: csv, mountPath: /etc/dcgm-exporter}
    - {name: sockets, readOnly: true, mountPath: /var/lib/kubelet/pod-resources}
  volumes:
  - {name: csv, configMap: {name: csv}}
  - {name: sockets, hostPath: {path: /var/lib/kubelet/pod-resources}}
---
apiVersion: v1
kind: Pod
metadata: {name: cuda-test}
spec:
  containers:
  - name: main
    image: k8s.gcr.io/cuda-vector-add:v0.1
    command: [bash, -c, "while ./vectorAdd; do :; done"]
    resources: {limits: {nvidia.com/gpu: 1}}
---
apiVersion: v1
kind: Pod
metadata: {name: gpu-pod}
spec:
  restartPolicy: Never
  containers:
  - name: gpu
    image: nvidia/cuda:10.0-base
    command: [nvidia-smi, -L]
    resources: {limits: {nvidia.com/gpu: 1}}
---
apiVersion: v1
kind: Pod
metadata: {name: installer}
spec:
  initContainers:
  - name: install
    image: cos-nvidia-installer:fixed
    volumeMounts: [{name: root, mountPath: /root}, {name: bin, mountPath: /usr/local/nvidia}]
  containers: [{name: pause, image: "gcr.io/google-containers/pause:2.0"}]
  volumes:
  - {name: root, hostPath: {path: /}}
  - {name: bin, hostPath: {path: /home/kubernetes/bin/nvidia}}
---
apiVersion: v1
kind: Pod
metadata: {name: vision-api}
spec:
  containers:
  - name: api
    image: 111122223333.dkr.ecr.ap-northeast-2.amazonaws.com/gpu-cuda-api:latest
    ports: [{containerPort: 8000}]
    readinessProbe: {httpGet: {path: /ping, port: 8000}, periodSeconds: 1, timeoutSeconds: 20}
    resources: {limits: {nvidia.com/gpu: 1}}
Y

kubectl wait --for=condition=Ready --timeout="${patience}s" pod/dcgm-exporter pod/cuda-test pod/installer pod/vision-api
kubectl wait --for=jsonpath='{.status.phase}'=Succeeded --timeout="${patience}s" pod/gpu-pod

address() { kubectl get pod "$1" -o 'jsonpath={.status.podIP}'; }
exporter=http://$(address dcgm-exporter):9400/metrics
of_pod() { curl -sS "$exporter" | grep -q 'DCGM_FI_DEV_GPU_UTIL{.*pod="cuda-test"'; }
wait_for "the exporter has its own CSV file" sh -c "curl -sS '$exporter' | grep -q 'HELP DCGM_FI_DEV_GPU_UTIL Its own help.'"
wait_for "the exporter attributes GPUs to pods" of_pod

kubectl logs gpu-pod >"$dir/smi"
[ "$(grep -c '^GPU ' "$dir/smi")" = 1 ] || fail "nvidia-smi prints other GPUs than that of the container: $(cat "$dir/smi")"
wait_for "vectorAdd passes" sh -c "kubectl logs cuda-test | grep -qx 'Test PASSED'"
kubectl logs installer -c install | grep -q 'Driver Version' || fail "the driver installer does not print the driver"
curl -sSf "http://$(address vision-api):8000/gputest" | grep -q '"gpu":"simulated GPU"' || fail "the service does not use a GPU"

said="Container image \"k8s.gcr.io/cuda-vector-add:v0.1\" is substituted by gpu-load, which loads its GPU (simulated GPUs)"
[ "$(grep -cF "$said" "$dir/up.log")" = 1 ] || fail "up does not say once: $said"
has_event() { kubectl get events --field-selector reason=Pulled,involvedObject.name=cuda-test -o 'jsonpath={.items[*].message}' | grep -qF "$said"; }
wait_for "the pod has the event" has_event
[ ! -e /home/kubernetes ] || fail "/home/kubernetes was created"

# gpuscale's own programs find the API from the token that is mounted into their pod.
api=$(sed -n 's/^Ready: .*API \(https:[^,]*\),.*/\1/p' "$dir/up.log")
kubectl run hpa --image=any --restart=Never --command -- "$gpuscale" hpa --web.listen-address=127.0.0.1:0 >/dev/null
kubectl run adapter --image=any --restart=Never --command -- "$gpuscale" adapter --secure-port=0 \
    --prometheus-url="$(engine_url)" >/dev/null
wait_for "the HPA controller in a pod uses the API" sh -c "kubectl logs hpa | grep -qF 'cluster $api,'"
wait_for "the adapter in a pod uses the API" sh -c "kubectl logs adapter | grep -q 'discovered the resources of the cluster'"

stop_up
wait_for "nothing is left" nothing_left
echo "ok"
