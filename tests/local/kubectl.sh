#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The real kubectl against the embedded API: what people type. Exit code 77 (skipped) where there is no
# kubectl. Several are tried when KUBECTL names them: KUBECTL="kubectl /opt/kubectl-1.20".
#   kubectl.sh SERVER        SERVER: the program local-api-server
set -u
server=$1
kubectls=${KUBECTL:-kubectl}
command -v "${kubectls%% *}" >/dev/null || { echo "skipped: kubectl is not installed"; exit 77; }

work=$(mktemp -d)
export HOME=$work KUBECONFIG=$work/kubeconfig
mkfifo "$work/input"
"$server" "$work" <"$work/input" >"$work/out" 2>"$work/err" &
server_pid=$!
exec 9>"$work/input" # the server ends when this is closed
trap 'exec 9>&-; rm -rf "$work"' EXIT
patience=180 # seconds: far beyond what anything here takes
end=$((SECONDS + patience))
while [ $SECONDS -lt $end ]; do
    grep -q ready "$work/out" && break
    kill -0 "$server_pid" 2>/dev/null || { cat "$work/err"; exit 1; }
    sleep 0.05
done

failed=0
# has NAME PATTERN COMMAND...: the output must have a line that matches.
has() {
    local name=$1 pattern=$2 out
    shift 2
    out=$("$@" 2>&1)
    if grep -Eq -- "$pattern" <<<"$out"; then
        echo "ok   $name"
    else
        failed=$((failed + 1))
        printf 'FAIL %s: no line matches "%s" in the output of %s:\n%s\n' "$name" "$pattern" "$*" "$out"
    fi
}
same() {
    has "$1" "^$" diff <(echo "$2") <(echo "$3")
}
# As has, tried again for a while: what a loop has to bring about.
will() {
    local pattern=$2 end=$((SECONDS + patience))
    while [ $SECONDS -lt $end ]; do
        "${@:3}" 2>&1 | grep -Eq -- "$pattern" && break
        sleep 0.1
    done
    has "$@"
}

# A user who may not bind port 80 reaches it at 8080.
port_80=80
[ "$(id -u)" = 0 ] || [ "$(cat /proc/sys/net/ipv4/ip_unprivileged_port_start)" -le 80 ] || port_80=8080

manifest() {
    cat <<END
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
      - name: web
        image: ${1:-web:1}
        ${2:-ports}: ${3:-[{containerPort: 80\}]}
---
apiVersion: v1
kind: Service
metadata: {name: web-svc}
spec:
  selector: {app: web}
  type: LoadBalancer
  ports: [{port: 80, name: http}]
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 3
  metrics:
  - type: Pods
    pods: {metric: {name: m}, target: {type: AverageValue, averageValue: 20}}
END
}
apply() { manifest "$@" | $k apply -f -; }
as_input() { manifest "${@:2}" | $k $1; }
pod() { $k get pods -l app=web -o name "$@" | head -1; }

# What kubectl itself cannot write in every version: a node, and pods that run.
node() {
    cat <<END
{"apiVersion":"v1","kind":"Node","metadata":{"name":"testnode"},"status":{
 "capacity":{"cpu":"4","memory":"8Gi","pods":"100","nvidia.com/gpu":"2"},
 "allocatable":{"cpu":"4","memory":"8Gi","pods":"100","nvidia.com/gpu":"2"},
 "conditions":[{"type":"Ready","status":"True"}]}}
END
}

walk() {
    has "version" "v1\.36\.0\+gpuscale" $k version
    has "namespaces" "^default +Active" $k get ns
    has "api-resources" "^horizontalpodautoscalers +hpa +autoscaling(/v2)? +true" $k api-resources
    has "api-versions" "^autoscaling/v2beta2$" $k api-versions
    has "raw" "^ok$" $k get --raw /readyz
    node | $k apply -f - >/dev/null
    has "node" "^testnode +Ready" $k get nodes
    has "apply" "^deployment.apps/web created" apply
    has "apply again" "^deployment.apps/web unchanged" apply
    has "unknown field" "unknown field|ValidationError" apply web:1 imagee x
    has "wrong type" "cannot unmarshal|invalid type" apply web:1 stdin '"maybe"'
    has "diff" "^\+ +(- )?image: web:2" as_input "diff -f -" web:2
    has "dry run" "web configured|web unchanged" as_input "apply --dry-run=server -f -" web:2
    will "service address" "^web-svc +LoadBalancer +127\.96\.[0-9.]+ +127\.97\.[0-9.:]+ +$port_80:3[0-9]+/TCP" $k get svc
    has "get table" "^NAME +READY +UP-TO-DATE +AVAILABLE +AGE" $k get deploy
    has "get wide" "^web +0/1 +1 +0 +[0-9ms]+ +web +web:1 +app=web" $k get deploy web -o wide
    has "get yaml" "^  revisionHistoryLimit: 10" $k get deploy web -o yaml
    has "get json" "\"maxSurge\": \"25%\"" $k get deploy web -o json
    has "get all" "^horizontalpodautoscaler.autoscaling/web +Deployment/web +<unknown>/20 +1 +3 +0" $k get all
    has "hpa v1" "^apiVersion: autoscaling/v1$" $k get horizontalpodautoscalers.v1.autoscaling web -o yaml
    will "bound" "testnode" $k get pods -o wide
    has "jsonpath" "^web$" $k get pods -l app=web -o "jsonpath={.items[0].spec.containers[0].name}"
    has "describe deployment" "^NewReplicaSet: +web-[0-9a-z]+ \(1/1 replicas created\)" $k describe deploy web
    has "describe pod" "^Node: +testnode" $k describe "$(pod)"
    has "describe hpa" "\"m\" on pods: +<unknown> / 20" $k describe hpa web
    has "describe service" "^LoadBalancer Ingress: +127\.97\." $k describe svc web-svc
    will "events" "ScalingReplicaSet +deployment/web +Scaled up" $k get events
    will "events of an object" "Scaled up replica set" $k get events --field-selector involvedObject.name=web
    has "scale" "scaled" $k scale deploy web --replicas=2
    will "scaled" "^web +0/2 +2" $k get deploy web
    has "precondition" "[Ee]xpected replicas to be 5" $k scale deploy web --current-replicas=5 --replicas=1
    has "label" "labeled" $k label "$(pod)" tier=x
    has "label column" " x$" $k get pods -L tier
    has "annotate" "annotated" $k annotate deploy web note=y
    has "patch strategic" "patched" $k patch deploy web -p '{"spec":{"template":{"spec":{"containers":[{"name":"web","env":[{"name":"A","value":"1"}]}]}}}}'
    has "patched image kept" "web:1 1" $k get deploy web -o "jsonpath={.spec.template.spec.containers[0].image} {.spec.template.spec.containers[0].env[0].value}"
    has "patch merge" "patched" $k patch deploy web --type=merge -p '{"spec":{"minReadySeconds":1}}'
    has "patch json" "patched" $k patch deploy web --type=json -p '[{"op":"replace","path":"/spec/minReadySeconds","value":0}]'
    has "patch that does not fit" "request is invalid" $k patch deploy web --type=json -p '[{"op":"remove","path":"/spec/nothing"}]'
    has "set image" "image updated" $k set image deploy/web web=web:2
    will "second revision" "^2 " $k rollout history deploy/web
    has "undo" "rolled back" $k rollout undo deploy/web
    has "rolled back" "web:1" $k get deploy web -o wide
    has "restart" "restarted" $k rollout restart deploy/web
    has "immutable selector" "field is immutable" bash -c "$k get deploy web -o json | sed 's/\"app\": \"web\"/\"app\": \"other\"/' | $k replace -f -"
    has "create configmap" "created" $k create configmap c --from-literal=a=b
    has "create deployment" "created" $k create deployment other --image=x:1
    has "expose" "exposed" $k expose deploy other --port=80
    has "autoscale" "autoscaled" $k autoscale deploy other --max=4 --cpu-percent=50
    has "autoscaler" "^other +Deployment/other +cpu: <unknown>/50%" $k get hpa other
    has "run" "created" $k run once --image=x --restart=Never
    has "explain" "minReplicas" $k explain hpa.spec
    has "can-i" "^yes" $k auth can-i create pods
    has "not found" 'pods "nope" not found' $k get pod nope
    has "no namespace" 'namespaces "nope" not found' $k -n nope create configmap c
    has "inert kinds say so" "nothing acts on it here" $k create role j --verb=get --resource=pods
    will "inert event" "NothingActsOnKind" $k get events
    has "budget" "created" $k create poddisruptionbudget j --selector=app=x --min-available=1
    will "budget's columns" "^j +1 +N/A +0 " $k get pdb j
    has "create job" "created" $k create job j --image=x
    will "job" "^j +(Running +)?0/1" $k get job j
    will "pods of a job" "^j-" $k get pods -l job-name=j
    has "create cronjob" "created" $k create cronjob cj --image=x --schedule="0 0 1 1 *" -- true
    has "cronjob" "^cj +0 0 1 1 " $k get cronjob cj
    has "job from cronjob" "created" $k create job manual --from=cronjob/cj
    will "pods of that job" "^manual-" $k get pods -l job-name=manual
    has "bad schedule" "expected exactly 5 fields, found 1" $k create cronjob bad --image=x --schedule=often
    has "no kubelet" "no kubelet" $k logs once
    has "delete pod" "deleted" $k delete pod once --grace-period=0 --force
    has "delete all" "deployment.apps \"web\" deleted" $k delete deploy,svc,hpa,cronjob,job,pdb,role --all
    has "delete by file" "not found" as_input "delete -f -"
    has "new namespace" "created" $k create namespace n
    $k -n n create configmap c >/dev/null
    has "delete namespace" "deleted" $k delete namespace n
    has "namespace gone" "not found" $k get namespace n
    $k delete configmap c >/dev/null
    $k delete pods --all --grace-period=0 --force >/dev/null 2>&1
}

# Rows as they come: a pod that is made and deleted while a watch runs.
watch() {
    $k get pods -w >"$work/watch" 2>&1 &
    local watcher=$!
    $k run seen --image=x --restart=Never >/dev/null
    will "watch" "^seen +0/1 +Pending" cat "$work/watch"
    $k delete pod seen --grace-period=0 --force >/dev/null 2>&1
    kill $watcher
    wait $watcher 2>/dev/null
    has "one header" "^1$" grep -c "^NAME" "$work/watch"
}

# guides FOLDER: the manifests of the guides, or the guides' own files.
guides() {
    local files=$1 f
    for f in ack/bert-intent-detection ack/hpa-v2 ack/hpa-v2beta1 eks/dcgm-exporter eks/vision-api \
        eks/vision-api-gpu-hpa-seed eks/prometheus-alert-rule k8s-gpu-hpa/cuda-test-deployment \
        k8s-gpu-hpa/cuda-test-hpa k8s-gpu-hpa/cuda-test-prometheusrule gke/gpu-pod; do
        has "$f of $files" "(created|configured)$" $k apply -f "$files/$f.yaml"
        # kubectl says "configured" where the file has a number for a quantity; nothing changes then.
        before=$($k get -f "$files/$f.yaml" -o "jsonpath={..metadata.generation} {..spec}")
        has "$f of $files again" "(unchanged|configured)$" $k apply -f "$files/$f.yaml"
        same "$f of $files is stable" "$before" "$($k get -f "$files/$f.yaml" -o "jsonpath={..metadata.generation} {..spec}")"
    done
    $k delete -f "$files/ack" -f "$files/gke" -f "$files/k8s-gpu-hpa/cuda-test-deployment.yaml" >/dev/null 2>&1
    $k delete deploy,ds,svc,hpa,ingress,servicemonitor,prometheusrule --all >/dev/null 2>&1
}

for k in $kubectls; do
    echo "== $k: $($k version --client 2>&1 | head -1)"
    walk
    watch
    guides "${GPUSCALE_SOURCE_ROOT:-.}/examples/guides"
    originals=${GPUSCALE_SOURCE_ROOT:-.}/../shared/walkthroughs
    [ ! -d "$originals" ] || guides "$originals"
done
exec 9>&-
wait "$server_pid" || { failed=$((failed + 1)); echo "FAIL the server's exit status is $?"; }
[ -s "$work/err" ] && { echo "the server said:"; cat "$work/err"; }
echo "$failed failed"
[ "$failed" = 0 ]
