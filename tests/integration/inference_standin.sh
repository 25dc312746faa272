#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Images of vLLM and SGLang under `gpuscale up`: the Deployment of vLLM's documentation becomes
# Ready for any user, with volumes at /root/.cache/huggingface and /dev/shm, and its load is on its
# GPU. A vllm of this machine is used instead.
. "${GPUSCALE_SOURCE_ROOT:?}/tests/integration/lib.sh"
need kubectl curl
# Volumes need mounts.
unshare -Urm true 2>/dev/null || unshare -m true 2>/dev/null || skip "this user may not create mount namespaces"

start_up --gpus 4xA100-SXM4-80GB --image 'mapped/vllm-openai:*=echo mapped'

cat >"$dir/pods.yaml" <<'END'
apiVersion: v1
kind: Pod
metadata: {name: flags}
spec:
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.9.2
    args: [--model, Qwen/Qwen3-0.6B, --port=8001, --new-flag]
    env: [{name: GPUSCALE_INFERENCE_STARTUP, value: 100ms}]
    readinessProbe: {httpGet: {path: /health, port: 8001}, periodSeconds: 1}
    resources: {limits: {nvidia.com/gpu: 1}}
---
apiVersion: v1
kind: Pod
metadata: {name: module}
spec:
  containers:
  - name: sglang
    image: lmsysorg/sglang:v0.5.9-cu126
    command: [python3, -m, sglang.launch_server]
    args: [--model-path, Qwen/Qwen3-0.6B, --host, 0.0.0.0, --enable-metrics]
    env: [{name: GPUSCALE_INFERENCE_STARTUP, value: 100ms}]
    readinessProbe: {httpGet: {path: /health, port: 30000}, periodSeconds: 1}
    resources: {limits: {nvidia.com/gpu: 1}}
---
apiVersion: v1
kind: Pod
metadata: {name: script}
spec:
  containers:
  - name: vllm
    image: vllm/vllm-openai:v0.12.0
    command: [bash, -c]
    args: ["echo before && exec python3 -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-0.6B"]
    env: [{name: GPUSCALE_INFERENCE_STARTUP, value: 100ms}]
    readinessProbe: {httpGet: {path: /health, port: 8000}, periodSeconds: 1}
    resources: {limits: {nvidia.com/gpu: 1}}
---
apiVersion: v1
kind: Pod
metadata: {name: own}
spec: {restartPolicy: Never, containers: [{name: c, image: 'vllm/vllm-openai:latest', command: [sh, -c, 'echo own command']}]}
---
apiVersion: v1
kind: Pod
metadata: {name: mapped}
spec: {restartPolicy: Never, containers: [{name: c, image: 'mapped/vllm-openai:1'}]}
END
kubectl apply -f "$source/examples/vllm/deployment.yaml" -f "$dir/pods.yaml" >"$dir/apply.log" || fail "kubectl apply"
# page_has POD:PORT REGEX
page_has() { curl -sS "http://$(ip "${1%:*}"):${1#*:}/metrics" >"$dir/page.txt" && grep -q "$2" "$dir/page.txt"; }
ip() { kubectl get pod "$1" -o jsonpath='{.status.podIP}'; }
wait_for "the Deployment of vLLM's documentation is Ready" pods_ready mistral-7b 1
pod=$(kubectl get pod -l app=mistral-7b -o jsonpath='{.items[0].metadata.name}')
kubectl logs "$pod" >"$dir/pod.log"
grep -q 'SIMULATED: vLLM is not installed on this machine' "$dir/pod.log" || fail "the log does not say SIMULATED"
grep -q -- '--trust-remote-code has no effect' "$dir/pod.log" || fail "flags without effect are not logged"
kubectl get events --field-selector "involvedObject.name=$pod,reason=Simulated" -o jsonpath='{.items[*].message}' |
    grep -q 'a SIMULATED engine answers' || fail "the event Simulated"
kubectl exec "$pod" -- sh -c 'touch /root/.cache/huggingface/file && ls /dev/shm/gpuscale-*' >/dev/null || fail "the volumes"
echo "ok: the log and an event say that the engine is SIMULATED"

curl -sS "http://$(ip "$pod"):8000/v1/completions" -d '{"prompt": "x", "max_tokens": 2000, "ignore_eos": true}' >"$dir/answer.json" &
pids="$pids $!"
on_gpu() {
    kubectl exec "$pod" -- nvidia-smi --query-gpu=utilization.gpu,memory.used --format=csv,noheader,nounits | tr -d ',' |
        awk '{ok = $1 >= 90 && $2 > 70000} END {exit !ok}'
}
wait_for "its request keeps the GPU busy, with the memory of the engine" on_gpu
page_has "$pod:8000" '^vllm:num_requests_running{.*} 1.0' || fail "the running request"

for name in flags module script; do
    wait_for "pod $name is Ready" kubectl wait --for=condition=Ready "pod/$name" --timeout=1s
done
page_has flags:8001 '^vllm:gpu_cache_usage_perc' || fail "the release of the image's tag"
page_has module:30000 '^sglang:engine_startup_time' || fail "the page of SGLang 0.5.9"
kubectl logs script | grep -qx before || fail "the script"
curl -sS "http://$(ip script):8000/version" >"$dir/version.json" && grep -q '"version":"0.12.0"' "$dir/version.json" || fail "the release in a script"
echo "ok: images with flags, a module of Python or a script run the engine of their release"
done_is() { [ "$(kubectl get pod "$1" -o jsonpath='{.status.phase}')" = Succeeded ]; }
wait_for "a container with a command of its own runs it" done_is own
[ "$(kubectl logs own)" = 'own command' ] || fail "the log of the own command: $(kubectl logs own)"
wait_for "--image has precedence" done_is mapped
stop_up

# A vllm of this machine.
mkdir "$dir/bin"
cat >"$dir/bin/vllm" <<'END'
#!/bin/sh
echo "local vllm: $*"
exec sleep 3600
END
chmod +x "$dir/bin/vllm"
PATH=$dir/bin:$PATH start_up --gpus 2xA100-SXM4-80GB --data-dir "$dir/other"
export KUBECONFIG=$dir/other/kubeconfig
kubectl run args --image=vllm/vllm-openai:latest -- --model=m --port=1 >/dev/null || fail "kubectl run"
kubectl run script --image=vllm/vllm-openai:latest --command -- sh -c 'vllm serve other' >/dev/null || fail "kubectl run"
runs() { kubectl logs "$1" | grep -qx "local vllm: $2"; }
wait_for "the vllm of this machine gets the arguments of the container" runs args 'serve --model=m --port=1'
wait_for "the vllm of this machine runs in a script" runs script 'serve other'
stop_up
