# Compares the API of `gpuscale up` with kube-apiserver: the CRDs of KEDA, an object of them, and
# server-side apply. Both get the same commands, and their output must be equal but for times.
# To be sourced after the control plane was started.
module=github.com/kedacore/keda/v2@v2.17.2
keda=$(GOFLAGS=-mod=mod PATH=$PATH:/usr/local/go/bin go mod download -json $module 2>/dev/null | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p')
[ -d "$keda" ] || { say "skipped: custom resources: $module cannot be downloaded"; return 0; }
start up "$gpuscale" up --data-dir "$dir/up" --api-port 0 --exporter-port 0 --prometheus-port 0
wait_for "gpuscale up is ready" test -s "$dir/up/kubeconfig"
wait_for "its API answers" kubectl --kubeconfig "$dir/up/kubeconfig" get namespaces

cat >"$dir/scaled.yaml" <<END
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: gpu, namespace: default}
spec:
  scaleTargetRef: {name: web}
  minReplicaCount: 1
  maxReplicaCount: 5
  triggers: [{type: prometheus, metadata: {serverAddress: "http://x", query: "avg(x)", threshold: "5"}}]
END
sed 's/maxReplicaCount: 5/maxReplicaCount: many/' "$dir/scaled.yaml" >"$dir/wrong.yaml"
sed 's/minReplicaCount/minimum/' "$dir/scaled.yaml" >"$dir/unknown.yaml"
cat >"$dir/setting.yaml" <<END
apiVersion: v1
kind: ConfigMap
metadata: {name: setting, namespace: default}
data: {size: "1", color: red}
END
sed 's/, color: red//' "$dir/setting.yaml" >"$dir/smaller.yaml"

normal() { sed -E -e 's/ [0-9]+[sm]$/ AGE/' -e 's/[0-9]{4}-[0-9-]+T[0-9:]+Z/TIME/g' -e 's/ +/ /g' -e 's/ $//'; }
order=cat
same() { # COMMAND…: of kubectl
    kubectl "$@" 2>&1 | normal | $order >"$dir/real.out" || true
    kubectl --kubeconfig "$dir/up/kubeconfig" "$@" 2>&1 | normal | $order >"$dir/up.out" || true
    diff "$dir/real.out" "$dir/up.out" >"$dir/difference" || fail "kubectl $*: kube-apiserver (<) and gpuscale up (>) differ:
$(cat "$dir/difference")"
}
same create -f "$keda/config/crd/bases"
kubectl wait --for=condition=Established crd --all --timeout=300s >/dev/null || fail "the CRDs of KEDA are not established"
wait_for "the resources of KEDA" kubectl get scaledobjects
same get crd scaledobjects.keda.sh -o 'jsonpath={.status.acceptedNames}{.status.storedVersions}{.spec.names}{.status.conditions[*].reason}'
same api-resources --api-group=keda.sh
same create -f "$dir/scaled.yaml"
same get so
same get so gpu -o 'jsonpath={.spec}{.metadata.generation}'
same create -f "$dir/wrong.yaml"
same create -f "$dir/unknown.yaml"
same patch so gpu --type=merge -p '{"spec":{"maxReplicaCount":7}}'
same patch so gpu --type=merge -p '{"spec":{"maxReplicaCount":"x"}}'
same patch so gpu -p '{"spec":{}}'
same get so gpu -o 'jsonpath={.spec}{.metadata.generation}'
# gpuscale up describes kinds as 1.36 does: kubectl prints an empty line more than with older API servers.
[ "$release" != 1.36 ] || same explain scaledobject.spec.triggers.authenticationRef
same apply --server-side --field-manager=one -f "$dir/setting.yaml"
same patch configmap setting --type=merge -p '{"data":{"size":"2"}}'
same apply --server-side --field-manager=one -f "$dir/setting.yaml"
same apply --server-side --field-manager=one --force-conflicts -f "$dir/setting.yaml"
same apply --server-side --field-manager=one -f "$dir/smaller.yaml"
same get configmap setting -o 'jsonpath={.data}'
same apply --server-side --field-manager=two -f "$dir/scaled.yaml"
# Managers are listed by time, so their order depends on the second in which they wrote.
same_lines() { order=sort && same "$@" && order=cat; }
same_lines get configmap setting -o 'jsonpath={range .metadata.managedFields[*]}{.manager} {.operation} {.fieldsV1}{"\n"}{end}'
cat >"$dir/web.yaml" <<END
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default, labels: {app: web}, annotations: {a: b}}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: c, image: x, args: [a], env: [{name: E, value: "1"}, {name: F, value: "1"}], ports: [{containerPort: 80}]}
      nodeSelector: {disk: ssd}
END
sed -e 's/image: x/image: other/' -e 's/{name: E, value: "1"}, //' "$dir/web.yaml" >"$dir/web2.yaml"
fields='{range .metadata.managedFields[?(@.operation=="Apply")]}{.manager} {.fieldsV1}{"\n"}{end}'
same apply --server-side --field-manager=one -f "$dir/web.yaml"
same_lines get deployment web -o "jsonpath=$fields"
same apply --server-side --field-manager=two -f "$dir/web2.yaml"
same apply --server-side --field-manager=two --force-conflicts -f "$dir/web2.yaml"
same_lines get deployment web -o "jsonpath=$fields"
same apply --server-side --field-manager=one -f "$dir/web2.yaml"
same get deployment web -o 'jsonpath={.spec.template.spec}'
same_lines get deployment web -o "jsonpath=$fields"
same scale deployment web --replicas=1
same apply --server-side --field-manager=one -f "$dir/web.yaml"
same delete deployment web
same delete so gpu
same delete crd scaledobjects.keda.sh
kubectl delete -f "$keda/config/crd/bases" --ignore-not-found >/dev/null
kubectl delete configmap setting >/dev/null
stop up
ok "custom resources and server-side apply of gpuscale up answer like kube-apiserver"
