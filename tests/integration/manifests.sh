#!/bin/sh
# The files that are made from the Helm chart are up to date: its README, the plain manifests of deploy/, the kustomize base. The
# base can be composed with all its components.
. "${GPUSCALE_SOURCE_ROOT:?}/tests/integration/lib.sh"

"$source/tools/chart-readme" --check >"$dir/readme.diff" 2>&1 || fail "README.md of the chart: $(cat "$dir/readme.diff")"
! grep -E '^\|.*\| +\|$' "$source/deploy/helm/gpuscale/README.md" || fail "values.yaml: a key without a comment"
echo "ok: README.md of the chart"

alerts=$source/deploy/helm/gpuscale/files/alerts.yml
"$gpuscale" check rules --strict "$alerts" >"$dir/alerts.log" 2>&1 || fail "alerts: $(cat "$dir/alerts.log")"
"$gpuscale" test rules "$source/tests/chart/alerts.test.yml" >"$dir/alerts.log" 2>&1 || fail "alerts: $(cat "$dir/alerts.log")"
for alert in $(sed -n 's/^  - alert: //p' "$alerts"); do
    grep -q "^## $alert\$" "$source/docs/runbooks.md" || fail "docs/runbooks.md has no section $alert"
    grep -q "runbook_url: .*/docs/runbooks.md#$(echo "$alert" | tr '[:upper:]' '[:lower:]')\$" "$alerts" || fail "$alert has no link to its section"
    grep -q "$alert" "$source/tests/chart/alerts.test.yml" || fail "no test fires $alert"
done
echo "ok: each alert fires in a test and has a runbook"

if kubectl kustomize --help 2>/dev/null | grep -q -e --load-restrictor; then
    cp -r "$source/deploy/kustomize" "$dir/kustomize"
    mkdir "$dir/overlay"
    {
        echo 'resources: [../kustomize/base]'
        echo 'components:'
        for component in "$dir"/kustomize/components/*; do echo "- ../kustomize/components/$(basename "$component")"; done
        echo 'images: [{name: ghcr.io/gpuscale/gpuscale, newName: registry.example/gpuscale, newTag: test}]'
    } >"$dir/overlay/kustomization.yaml"
    kubectl kustomize "$dir/overlay" >"$dir/all.yaml" || fail "the base with all components"
    ! grep 'image:' "$dir/all.yaml" | grep -v 'image: registry.example/gpuscale:test$' || fail "an image that the overlay does not change"
    grep -q -e --engine-config=/etc/adapter-engine/prometheus.yml "$dir/all.yaml" || fail "the component ha has no effect"
    for group in v1beta1.custom v1beta2.custom v1beta1.external; do
        grep -q "^  name: $group.metrics.k8s.io$" "$dir/all.yaml" || fail "no APIService $group.metrics.k8s.io"
    done
    echo "ok: the kustomize base and its components"
else
    echo "skipped: the kustomize base needs kubectl 1.21 or later"
fi

status=0
"$source/tools/render-manifests" --check >"$dir/manifests.diff" 2>"$dir/render.log" || status=$?
[ $status != 3 ] || skip "$(cat "$dir/render.log")"
[ $status = 0 ] || fail "deploy/ differs from the chart: $(cat "$dir/manifests.diff" "$dir/render.log")"
echo "ok: the manifests of deploy/"
