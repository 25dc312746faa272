#!/bin/sh
# Checks the manifests of deploy/ without a cluster: configurations are valid, both forms of the
# adapter differ in the source only, and settings for dead nodes are present. tests/e2e applies
# them.
. "${GPUSCALE_SOURCE_ROOT:?}/tests/integration/lib.sh"
deploy=$source/deploy

entry() { # FILE KEY: the text of a ConfigMap's entry
    awk -v key="  $2: |" '$0 == key { on = 1; next } on && !/^    / { exit } on { print substr($0, 5) }' "$deploy/$1"
}
for file in engine adapter-ha; do
    entry $file.yaml prometheus.yml >"$dir/prometheus.yml"
    [ -s "$dir/prometheus.yml" ] || fail "$file.yaml has no prometheus.yml"
    entry $file.yaml alerts.yml >"$dir/alerts.yml"
    # Replaces the files of the ConfigMap and of the service account, which exist only in a pod.
    sed -i "s|/etc/gpuscale/alerts.yml|$dir/alerts.yml|" "$dir/prometheus.yml"
    sed -i 's|/var/run/secrets/kubernetes.io/serviceaccount/|/dev/null|; s|/dev/null[a-z.]*|/dev/null|' "$dir/prometheus.yml"
    "$gpuscale" check config "$dir/prometheus.yml" >"$dir/check.log" 2>&1 || fail "prometheus.yml of $file.yaml"
done
entry adapter.yaml config.yaml >"$dir/config.yaml"
"$gpuscale" check adapter --strict "$dir/config.yaml" >"$dir/check.log" 2>&1 || fail "config.yaml of adapter.yaml"
echo "ok: the configurations"

deployment() { awk '/^kind: Deployment/ { on = 1 } on && /^---/ { exit } on' "$deploy/$1.yaml"; }
without_source() { deployment "$1" | grep -v -e --prometheus-url= -e --metrics-relist-interval= -e engine; }
without_source adapter >"$dir/one"
without_source adapter-ha >"$dir/other"
diff "$dir/one" "$dir/other" || fail "adapter-ha.yaml differs from adapter.yaml in more than the source"
echo "ok: both forms of the adapter"

entry expander.yaml pools.yaml >"$dir/pools.yaml"
"$gpuscale" expander --pools="$dir/pools.yaml" >"$dir/check.log" 2>&1 && fail "the expander starts without a certificate"
grep -q "over TLS only" "$dir/check.log" || fail "pools.yaml of expander.yaml"
echo "ok: the pools of the expander"

for file in adapter engine expander hpa; do
    deployment $file >"$dir/deployment"
    class=$(sed -n 's/^      priorityClassName: //p' "$dir/deployment")
    grep -A3 '^kind: PriorityClass' "$deploy/$file.yaml" | grep -q "^  name: $class$" || fail "$file.yaml: no PriorityClass \"$class\""
    for taint in not-ready unreachable; do
        grep -q "node.kubernetes.io/$taint, operator: Exists, effect: NoExecute, tolerationSeconds: 10}" "$dir/deployment" ||
            fail "$file.yaml tolerates $taint nodes for long"
    done
    [ $file = engine ] || [ $file = expander ] || grep -q 'matchLabelKeys: \[pod-template-hash\]' "$dir/deployment" || fail "$file.yaml counts pods of older revisions"
done
echo "ok: pods of dead nodes are replaced soon, on different nodes"

# Kustomize in kubectl before 1.21 has no such patches.
if kubectl kustomize --help 2>/dev/null | grep -q -e --load-restrictor; then
    kubectl kustomize --load-restrictor LoadRestrictionsNone "$deploy/exporter-runtime-class" >"$dir/exporter.yaml" || fail "the overlay does not fit its base"
    grep -q 'runtimeClassName: nvidia' "$dir/exporter.yaml" || fail "the overlay sets no RuntimeClass"
    ! grep -q -e 'privileged: true' -e 'mountPath: /host' "$dir/exporter.yaml" || fail "the overlay leaves privileges"
    echo "ok: the exporter with the least privileges"
else
    echo "skipped: the overlay of the exporter needs kubectl 1.21 or later"
fi
