#!/bin/sh
# Invalid input must result in an error with its position, and in exit code 2 for usage and
# configuration errors.
. "$(dirname "$0")/lib.sh"
need kubectl curl

# refused CODE TEXT COMMAND…: expects exit code CODE (0: accepted) and TEXT in the output.
refused() {
    want=$1 text=$2
    shift 2
    code=0
    timeout "$patience" "$@" >"$dir/out" 2>&1 || code=$?
    grep -qF -- "$text" "$dir/out" || { cat "$dir/out"; fail "no \"$text\" from: $*"; }
    [ "$code" = "$want" ] || { cat "$dir/out"; fail "exit code $code, not $want, from: $*"; }
    echo "ok: $text"
}
up() { wanted=$1 text=$2 && shift 2 && refused "$wanted" "$text" "$gpuscale" up --data-dir "$dir/other" --api-port 0 --exporter-port 0 --prometheus-port 0 "$@"; }

refused 2 'unknown command "exprter"; did you mean "exporter"?' "$gpuscale" exprter
refused 2 'unknown flag --gpu; did you mean --gpus?' "$gpuscale" up --gpu 1
up 2 'GTX-9999' --gpus 2xGTX-9999
refused 2 'want adapter, budgets, config, hpa, metrics, rules, web-config, test or convert' "$gpuscale" check foo
refused 2 'put the flags after the words "check test"' "$gpuscale" check --strict test rules x
refused 2 'check convert needs a FILE' "$gpuscale" check convert
refused 2 'check convert needs a FILE' "$gpuscale" convert
refused 2 'want 4.9 or 4.8' "$gpuscale" convert rules --to=5 x.yaml
refused 2 'several files need --write' "$gpuscale" convert dashboards a.json b.json
refused 1 'no-such-file' "$gpuscale" convert dashboards no-such-file
up 2 '(key startup; want a unit: 40s)' --gpus none --pool t4=0..1x1,startup=40
printf 'apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\n  name: y\n' >"$dir/twice.yaml"
up 2 "$dir/twice.yaml:5:3: key \"name\" is already set" -f "$dir/twice.yaml"
printf 'apiVersion: v1\nkind: [\n' >"$dir/broken.yaml"
up 2 "$dir/broken.yaml:" -f "$dir/broken.yaml"
printf 'kind: Pod\n' >"$dir/nokind.yaml"
up 2 "$dir/nokind.yaml:1: apiVersion is not set" -f "$dir/nokind.yaml"
up 1 "$dir/none.yaml: No such file or directory" -f "$dir/none.yaml"
up 2 "--image intent-api: write IMAGE=COMMAND" --image intent-api
refused 1 "--simulate" env GPUSCALE_NVML_LIBRARY=/nonexistent "$gpuscale" exporter --address 127.0.0.1:0
refused 2 "--exit-after-load needs a load" "$gpuscale" up --data-dir "$dir/never" --exit-after-load
refused 2 "--after-load needs a load" "$gpuscale" up --data-dir "$dir/never" --after-load true
refused 2 "--env FOO: write NAME=VALUE" "$gpuscale" up --data-dir "$dir/never" --env FOO
refused 2 '--hpa-compat: release "9"' "$gpuscale" up --data-dir "$dir/never" --hpa-compat=9
[ ! -e "$dir/never" ] || fail "a refused flag left a data directory"
refused 2 '--kube-monitors.selector: ' "$gpuscale" engine --config.file="$dir/none.yml" --kube-monitors.selector='a in b'
refused 2 'unknown command "upp"; did you mean "up"?' "$gpuscale" help upp
refused 2 'explain hpa needs one NAME' "$gpuscale" explain hpa
refused 2 '"pod/x" is not the name of an autoscaler' "$gpuscale" explain hpa pod/x
refused 2 '--what-if target: write NAME=VALUE' "$gpuscale" explain hpa x --what-if target
refused 2 '--what-if size: unknown setting; want target, target.METRIC, min, max or tolerance' "$gpuscale" explain hpa x --what-if size=1
refused 2 '--history: "0s": want more than 0s' "$gpuscale" explain hpa x --history 0s --what-if max=3
refused 2 '--history needs --what-if NAME=VALUE' "$gpuscale" explain hpa x --history 6h
refused 2 '--output "xml": want text, json or yaml' "$gpuscale" version -o xml
refused 1 'could not write all output to stdout' sh -c '"$1" help up >/dev/full' sh "$gpuscale"
refused 0 'Usage: gpuscale up' "$gpuscale" help up
refused 0 'A100-SXM4-80GB' "$gpuscale" sim --help
refused 0 'Usage: gpuscale check test' "$gpuscale" help check test
refused 0 'Usage: gpuscale check test' "$gpuscale" check test --help
refused 0 'Usage: gpuscale check convert' "$gpuscale" convert --help
refused 0 'gpuscale up --help-all lists ' "$gpuscale" up --help
refused 0 '--scale-down-delay-after-add' "$gpuscale" up --help-all
refused 0 '--scale-down-delay-after-add' "$gpuscale" help up --all
refused 0 'gpuscale ' "$gpuscale" exporter --version
refused 0 'gpuscale ' "$gpuscale" -v
refused 0 '"version": "' "$gpuscale" version -o json
refused 0 'version: ' "$gpuscale" version -o yaml
# Files without what was wanted, and names that nothing reads.
printf 'mode: enforce\nbudgets:\n- {name: a, gpus: }\n' >"$dir/budgets.yaml"
refused 1 "$dir/budgets.yaml:3:3: gpus has no value" "$gpuscale" check budgets "$dir/budgets.yaml"
refused 1 "no ScaledObject and no HorizontalPodAutoscaler in $dir/budgets.yaml" "$gpuscale" convert scaledobject "$dir/budgets.yaml"
cat >"$dir/misspelled.yaml" <<'Y'
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: x, annotations: {gpuscale.dev/zeroafter: 10m}}
spec: {maxReplicas: 2, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: x}}
Y
refused 1 'did you mean gpuscale.dev/zero-after?' "$gpuscale" check hpa "$dir/misspelled.yaml"
# Rejects credentials in a directory that other users can write to.
mkdir -m 1777 "$dir/shared"
refused 1 "$dir/shared can be changed by other users" "$gpuscale" up --data-dir "$dir/shared"

start_up --gpus 1xTesla-T4
refused 1 "is in use by another gpuscale up" "$gpuscale" up --data-dir "$dir/data"
port=$(sed -n 's/.*https:..127.0.0.1:\([0-9]*\).*/\1/p' "$dir/up.log" | head -n 1)
refused 1 "port $port of 127.0.0.1 is in use" "$gpuscale" up --data-dir "$dir/other" --api-port "$port"
# Before anything is made.
refused 2 '--dcgm: "nonsense:port": want auto, off' "$gpuscale" exporter --simulate 1xTesla-T4 --dcgm=nonsense:port
! grep -q 'SIMULATED' "$dir/out" || fail "--dcgm is checked after the simulated GPUs were created"
refused 1 "127.0.0.1:$port" "$gpuscale" exporter --simulate 1xTesla-T4 --address "127.0.0.1:$port"

# Requests without credentials are rejected.
code=$(curl -sk -o "$dir/out" -w '%{http_code}' "https://127.0.0.1:$port/api/v1/pods")
[ "$code" = 401 ] || fail "an anonymous request got HTTP $code"
[ "$(stat -c %a "$dir/data/kubeconfig")" = 600 ] || fail "the kubeconfig is readable by others"

cat >"$dir/unknown.yaml" <<'Y'
apiVersion: v1
kind: Pod
metadata: {name: typo}
spec:
  containers:
  - {name: c, image: x, imagePullPolice: Always}
Y
# kubectl before 1.25 validates with the OpenAPI document, with other texts.
refused 1 'unknown field "' kubectl apply -f "$dir/unknown.yaml"
grep -q 'spec\.containers\[0\].*imagePullPolice' "$dir/out" || { cat "$dir/out"; fail "the error does not name the field"; }
cat >"$dir/hpa.yaml" <<'Y'
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: x}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: x}
  minReplicas: 5
  maxReplicas: 2
Y
refused 1 'spec.maxReplicas: Invalid value: 2: must be greater than or equal to `minReplicas`' kubectl apply -f "$dir/hpa.yaml"

kubectl run lost --image=nowhere/nothing:1 --restart=Never
wait_for "a missing image mapping is an event on the pod" sh -c "kubectl get events | grep 'pod/lost' | grep -q -- '--image'"

# Without the requested history, the explanation fails.
sed -i 's/maxReplicas: 2/maxReplicas: 9/' "$dir/hpa.yaml"
kubectl apply -f "$dir/hpa.yaml"
refused 0 'memory:' "$gpuscale" explain hpa/x -o yaml
refused 1 '--controller http://127.0.0.1:1: ' "$gpuscale" explain hpa x --controller=http://127.0.0.1:1
refused 2 '--what-if: spec.maxReplicas: Invalid value: 9: must be greater than or equal to `minReplicas`' "$gpuscale" explain hpa x --what-if min=50
refused 1 '--what-if: target.gpu=5: the autoscaler has no metric "gpu"' "$gpuscale" explain hpa x --what-if target.gpu=5

# What exists is named.
refused 1 'the namespace "nope" does not exist; namespaces: default, ' "$gpuscale" explain hpa y -n nope
refused 1 'it is in the namespace default: use -n' "$gpuscale" explain hpa x -n kube-system
refused 1 'in the namespace "default"; those in it: x' "$gpuscale" explain hpa y
refused 1 'pods "nobody" not found in the namespace "default"; those in it: lost' "$gpuscale" explain pod nobody
refused 0 'default/x' "$gpuscale" explain deployment/x
refused 0 'default/x' "$gpuscale" explain deploy x
refused 1 'scales deployment/z; those in it scale Deployment/x' "$gpuscale" explain deployment/z
sed 's/{name: x}/{name: second}/' "$dir/hpa.yaml" | kubectl apply -f -
refused 2 '2 autoscalers in the namespace "default" scale deployments/x: name one of second, x' "$gpuscale" explain deployments/x
refused 2 'explain deployment needs one NAME' "$gpuscale" explain deployment
refused 0 'it has no metric DCGM_FI_DEV_GPU_UTL, did you mean DCGM_FI_DEV_GPU_UTIL?' "$gpuscale" query DCGM_FI_DEV_GPU_UTL
refused 0 'source: http://127.0.0.1:' "$gpuscale" query DCGM_FI_DEV_GPU_UTIL
# A comparison of a day says at its beginning that it compares nothing.
refused 1 'compare: nothing to compare: no autoscaler has a target' "$gpuscale" compare http://127.0.0.1:1 http://127.0.0.1:1
sed 's/{name: x}/{name: queue}/; s/name: x}/name: queue}/; $a\  metrics: [{type: Pods, pods: {metric: {name: q}, target: {type: AverageValue, averageValue: 1}}}]' "$dir/hpa.yaml" | kubectl apply -f -
kubectl create deployment queue --image=busybox -- sleep 1000
refused 1 'compare: the first round compared 0 of 1 metrics' "$gpuscale" compare http://127.0.0.1:1 http://127.0.0.1:1
kubectl delete hpa/queue deployment/queue
# A closed pipe is no error.
"$gpuscale" query '{job!=""}' 2>"$dir/err" | head -n 1 >/dev/null
! grep -v '^source: ' "$dir/err" || fail "a closed pipe is reported"
kubectl delete hpa second
scaling_works
stop_up

# The exit code reports whether the load succeeded and came to its end.
demo() { wanted=$1 text=$2 && shift 2 && up "$wanted" "$text" -f "$source/examples/demo/intent-api.yaml" --image "intent-api:*=$intent_api_command" "$@"; }
demo 1 "the load failed; its output is in $dir/other/load.log" \
    --load 'exit 3' --exit-after-load
demo 1 "the command of --after-load failed; its output is in $dir/other/load.log" \
    --load true --after-load 'exit 4' --exit-after-load
demo 0 "the command of --after-load ended" \
    --load true --after-load 'grep -q server: "$KUBECONFIG"' --exit-after-load
demo 1 "stopped before the load had ended" \
    --load 'kill -INT $(ps -o ppid= -p $PPID); sleep 60' --exit-after-load
