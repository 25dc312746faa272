#!/bin/sh
# gpuscale up --kube-context: kubectl finds the cluster without KUBECONFIG while it runs, beside the
# contexts of others, and has its former context afterwards, also when gpuscale up was killed.
. "$(dirname "$0")/lib.sh"
need kubectl jq
unset KUBECONFIG GPUSCALE_URL PROMETHEUS_URL 2>/dev/null || true
up() { name=$1 && shift && "$gpuscale" up --data-dir "$dir/$name" --api-port 0 --exporter-port 0 --prometheus-port 0 --gpus none --detach "$@" >"$dir/$name.log" 2>&1; }
stop() { "$gpuscale" up --stop --data-dir "$dir/$1"; }
also_stop() { for name in a b; do stop "$name" >/dev/null 2>&1 || true; done; }
trap 'code=$? && set +e && also_stop; (exit "$code"); finish' EXIT
same() { [ "$(kubectl config view --raw -o json | jq -S .)" = "$before" ]; }

kubectl config set-cluster work --server=https://work.example:6443
kubectl config set-credentials me --token=007
kubectl config set-context work --cluster=work --user=me
kubectl config use-context work
chmod 640 "$HOME/.kube/config"
before=$(kubectl config view --raw -o json | jq -S .)

up a --kube-context || fail "up --kube-context: $(cat "$dir/a.log")"
grep -q "kubectl uses it: context gpuscale in $HOME/.kube/config" "$dir/a.log" || { cat "$dir/a.log" && fail "it does not name the context"; }
[ "$(kubectl config current-context)" = gpuscale ] || fail "the context is $(kubectl config current-context)"
kubectl get nodes || fail "kubectl does not reach the cluster"
"$gpuscale" query 'vector(1)' 2>"$dir/err" || fail "query"
grep -q "of the kubeconfig" "$dir/err" || fail "query does not find the engine by ~/.kube/config: $(cat "$dir/err")"
kubectl config get-contexts work || fail "the user's context is gone"
[ "$(stat -c %a "$HOME/.kube/config")" = 640 ] || fail "the mode changed"
# A second cluster needs a name of its own.
! up b --kube-context || fail "a second cluster took the name"
grep -q "choose another name with --kube-context=NAME" "$dir/b.log" || { cat "$dir/b.log" && fail "the error does not say what to do"; }
up b --kube-context=two || fail "a second name: $(cat "$dir/b.log")"
[ "$(kubectl config current-context)" = gpuscale-two ] || fail "the second context"
stop b
[ "$(kubectl config current-context)" = gpuscale ] || fail "the first context is not the current one again"
stop a
same || { kubectl config view --raw && fail "the kubeconfig is not as before"; }
echo "ok: contexts come and go"

# A credential plug-in gets the same as from kubectl, and its token is used.
up a || fail "$(cat "$dir/a.log")"
cat >"$dir/plugin" <<END
#!/bin/sh
echo "\$KUBERNETES_EXEC_INFO" >>"$dir/info"
printf '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1","status":{"token":"%s"}}' "\$(cat "$dir/a/pki/token")"
END
chmod 755 "$dir/plugin"
kubectl --kubeconfig "$dir/a/kubeconfig" config view --raw -o json |
    jq '.users[0].user = {exec: {apiVersion: "client.authentication.k8s.io/v1beta1", command: "./plugin", provideClusterInfo: true}}' >"$dir/config"
kubectl --kubeconfig "$dir/config" get nodes -o name >"$dir/nodes" || fail "kubectl with a plug-in"
KUBECONFIG=$dir/config "$gpuscale" nodes -o json >"$dir/out" 2>&1 || fail "nodes with a plug-in: $(cat "$dir/out")"
grep -q "$(sed 's#^node/##' "$dir/nodes")" "$dir/out" || fail "nodes with a plug-in: $(cat "$dir/out")"
[ "$(jq -c . "$dir/info" | wc -l)" = 2 ] && [ "$(jq -cS . "$dir/info" | sort -u | wc -l)" = 1 ] || fail "the plug-in gets something else than from kubectl: $(cat "$dir/info")"
stop a
echo "ok: credential plug-ins"

# Killed: --stop removes what is left.
up a --kube-context=one || fail "$(cat "$dir/a.log")"
kill -KILL "$(tail -n 1 "$dir/a/lock")"
others_ended() { ! pgrep -f "$dir/a/"; }
wait_for "the other processes of the cluster end" others_ended
! same || fail "nothing is left to remove"
stop a
same || { kubectl config view --raw && fail "--stop leaves the context of a killed cluster"; }

# A file that cannot be read is not changed, and the cluster does not start.
printf 'clusters: [\n' >"$HOME/.kube/config"
! up a --kube-context || fail "a broken kubeconfig is accepted"
grep -q "cannot be read, and is not changed" "$dir/a.log" || { cat "$dir/a.log" && fail "the error"; }
[ "$(cat "$HOME/.kube/config")" = "clusters: [" ] || fail "a broken kubeconfig was changed"
code=0
"$gpuscale" up --kube-context=a/b >"$dir/out" 2>&1 || code=$?
[ "$code" = 2 ] && grep -q "want at most 63 letters" "$dir/out" || fail "the name a/b: $code, $(cat "$dir/out")"
