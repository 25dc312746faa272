# Control mode on a cluster: two replicas of gpuscale and the cluster's own controller. First the
# cluster's controller scales an object, then gpuscale, then one replica is killed. Their requests
# are in the audit log.
kubectl delete namespace ours theirs --wait=false >/dev/null
kubectl create namespace shop >/dev/null
kubectl -n shop create rolebinding hpa --clusterrole=$role --serviceaccount=$account >/dev/null
load() { echo "{\"load\": [\"$1\"]}" >"$dir/load.next" && mv "$dir/load.next" "$dir/load.json"; }
load 20
start scripted python3 "$side/metrics_api.py" "$scripted_port" "$dir/scripted.crt" "$dir/scripted.key" "$dir/load.json"
kubectl -n shop create deployment web --image=any --replicas=1 >/dev/null
kubectl apply -f - >/dev/null <<END
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 20
  metrics: [{type: External, external: {metric: {name: load}, target: {type: AverageValue, averageValue: 10}}}]
END
has_web() { [ "$(kubectl -n shop get deployment web -o jsonpath='{.spec.replicas}')" = "$1" ]; }
able() { kubectl -n shop get hpa web -o json | jq -r '.status.conditions[]? | select(.type == "AbleToScale") | .reason'; }
rests() { [ "$(able)" = ReadyForNewScale ]; }
writers() { kubectl -n shop get deployment web -o json --show-managed-fields | jq -r '[.metadata.managedFields[] | select(.subresource == "scale") | .manager] | join(" ")'; }
# Requests of our service account since the line $1 of the audit log, as "VERB GROUP/RESOURCE/SUBRESOURCE CODE".
asked_since() {
    tail -n "+$1" "$dir/audit.log" | jq -r 'select(.user.username == "system:serviceaccount:monitoring:gpuscale-hpa" and .objectRef != null)
        | (.objectRef.apiGroup // "") as $g
        | "\(.verb) \($g)/\(if $g | test("^(custom|external).metrics") then "*" else .objectRef.resource + (if .objectRef.subresource then "/" + .objectRef.subresource else "" end) end) \(.responseStatus.code)"'
}
audit_line() { echo $(($(wc -l <"$dir/audit.log") + 1)); }
wait_for "the cluster's controller scales to 2" has_web 2
wait_for "it rests" rests

# The shadow.
line=$(audit_line)
# shellcheck disable=SC2086
start shadow "$gpuscale" hpa $(echo "$hpa_flags" | sed 's/--mode=control/--mode=shadow/') --namespace=shop -o json
shadow_decided() { grep -q '"name":"web"' "$dir/shadow.log"; }
wait_for "the shadow decides" shadow_decided
load 40
wait_for "the cluster's controller scales to 4" has_web 4
shadow_follows() { [ "$(grep '^{' "$dir/shadow.log" | tail -n 1 | jq -r .desired)" = 4 ]; }
wait_for "the shadow says 4" shadow_follows
stop shadow
sleep 1
asked_since "$line" >"$dir/shadow-asked"
grep -q '^list external' "$dir/shadow-asked" || fail "the audit log does not contain the requests of the shadow"
! grep -vE '^(get|list|watch) ' "$dir/shadow-asked" || fail "the shadow writes"
ok "shadow: $(wc -l <"$dir/shadow-asked") requests, all of them reads"

# Two in control: an object that rests in the hands of the cluster's controller is not taken.
wait_for "it rests" rests
line=$(audit_line)
# A dry run of a budget, which needs the GPUs of a replica.
kubectl -n monitoring create configmap gpuscale-budgets --from-literal=budgets.yaml='budgets: [{name: shop, gpus: 100, namespaces: [shop]}]' >/dev/null
kubectl -n shop label hpa web gpuscale.dev/autoscaler=true >/dev/null
# shellcheck disable=SC2086
start control-a "$gpuscale" hpa $hpa_flags --state-config-map=gpuscale-hpa-learned --identity=a
# shellcheck disable=SC2086
start control-b "$gpuscale" hpa $hpa_flags --state-config-map=gpuscale-hpa-learned --identity=b
told() { kubectl -n shop get events -o json | jq -e '.items[] | select(.reason == "ControlledByAnother" and (.message | test("kube-controller-manager")))'; }
wait_for "an event reports the other controller" told
load 60
wait_for "the cluster's controller scales to 6" has_web 6
wait_for "it rests" rests
[ "$(writers)" = kube-controller-manager ] || fail "who scaled: $(writers)"
! asked_since "$line" | grep 'update apps/deployments/scale' || fail "ours writes the scale of the other's object"
ok "control: an object of the cluster's controller is left alone, with an event"

# The other controller has ended: with a new label, gpuscale scales the object.
kubectl -n shop delete rolebinding hpa >/dev/null
sleep 3
kubectl -n shop label hpa web gpuscale.dev/autoscaler- >/dev/null
kubectl -n shop label hpa web gpuscale.dev/autoscaler=true >/dev/null
load 80
wait_for "ours scales to 8" has_web 8
writers | grep -q gpuscale-hpa || fail "who scaled: $(writers)"
ok "control: given up by the cluster's controller it is scaled by ours"

# An object whose decisions need the starts of its pods: their events and nodes are read.
kubectl -n shop create deployment idle --image=any --replicas=1 >/dev/null
kubectl apply -f - >/dev/null <<END
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: idle, namespace: shop, annotations: {gpuscale.dev/autoscaler: "true", gpuscale.dev/credit: "true"}}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: idle}
  maxReplicas: 2
  metrics: [{type: External, external: {metric: {name: load}, target: {type: AverageValue, averageValue: 1000}}}]
END
has_idle() { kubectl -n shop get hpa idle -o json | jq -e '.status.conditions[]? | select(.type == "ScalingActive" and .status == "True")'; }
wait_for "ours evaluates an object with credit" has_idle

# The leader dies.
holder() { kubectl -n monitoring get lease gpuscale-hpa -o jsonpath='{.spec.holderIdentity}'; }
leader=$(holder)
case $leader in
a) other=b ;;
b) other=a ;;
*) fail "the Lease is held by \"$leader\"" ;;
esac
eval "kill -9 \$pid_control_$leader"
load 100
wait_for "the other one scales to 10" has_web 10
[ "$(holder)" = $other ] || fail "after the death of $leader the Lease is held by $(holder)"
ok "control: after SIGKILL of the leader $leader, $other continues"
stop "control-$other"
kubectl -n monitoring get configmap gpuscale-hpa-learned >/dev/null || fail "what was learned is not written"

# Its rights: nothing was refused, and nothing is granted that was not used. Objects are read singly
# only after a conflict of two writes, and the kinds of scales are alike.
sleep 1
asked_since 1 | sort -u >"$dir/asked"
# In the namespaces of the side-by-side test the script refuses, they have a kind without rights, and they end. Each process looks
# once for objects that deploy/hpa-capacity.yaml, which is optional, lets it create.
refused=$(jq -c 'select(.user.username == "system:serviceaccount:monitoring:gpuscale-hpa" and .responseStatus.code == 403 and (.objectRef.namespace | IN("ours", "theirs") | not) and (.requestURI | contains("capacity-of") | not)) | [.verb, .requestURI, .responseStatus.message]' "$dir/audit.log")
[ -z "$refused" ] || fail "deploy/hpa.yaml grants too little: $refused"
for kind in clusterrole role; do
    kubectl -n monitoring get $kind gpuscale-hpa -o json | jq -r '.rules[] | .verbs[] as $v | .apiGroups[] as $g | .resources[] | "\($v) \($g)/\(.)"'
done | sort -u >"$dir/granted"
sed 's/ [0-9]*$//' "$dir/asked" | sort -u >"$dir/used"
unused=$(grep -vxF -f "$dir/used" "$dir/granted" | grep -vE '^get autoscaling/horizontalpodautoscalers$|apps/(replicasets|statefulsets)(/scale)?$') || true
[ -z "$unused" ] || fail "deploy/hpa.yaml grants what is not used: $unused"
ok "deploy/hpa.yaml grants what is needed and no more"
