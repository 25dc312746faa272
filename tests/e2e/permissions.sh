# Removes each permission that deploy/ grants; to be sourced after production.sh. A copy of the
# program with all other permissions must report what is missing, continue with the rest, and resume
# when the permission is restored. The copies run in parallel to the real programs. docs/cluster.md
# has the tables.

objects() { # COMPONENT: of its manifest, as JSON
    [ -f "$dir/objects-$1.json" ] || kubectl create --dry-run=client -o json -f "$deploy/$1.yaml" >"$dir/objects-$1.json"
    cat "$dir/objects-$1.json"
}
# COMPONENT SUFFIX [GROUP/RESOURCE]: the objects of the manifest as a copy without a permission.
# Without the third argument, with all permissions.
copy() {
    objects "$1" | jq -c --arg base "gpuscale-$1" --arg name "gpuscale-$1-$2" --arg right "${3:-}" '
        select(.kind | IN("ServiceAccount", "Secret", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Deployment")) |
        select(.metadata.name | startswith($base)) |
        def renamed: if startswith($base) then $name + .[($base | length):] else . end;
        .metadata.name |= renamed |
        if .kind == "ClusterRole" or .kind == "Role" then
            .rules |= [.[] | if .nonResourceURLs then select(.nonResourceURLs[0] != $right) else
                .apiGroups[] as $g | .resources[] as $r | select("\($g)/\($r)" != $right) |
                {apiGroups: [$g], resources: [$r], verbs} + if .resourceNames then {resourceNames: (.resourceNames | map(renamed))} else {} end end]
        elif .roleRef then .roleRef.name |= renamed | .subjects[].name |= renamed |
            if .roleRef.name == $right then .subjects = [] else . end
        elif .kind == "Deployment" then
            .spec.replicas = 1 | .spec.template.spec.serviceAccountName |= renamed |
            .spec.selector.matchLabels["app.kubernetes.io/name"] |= renamed | .spec.template.metadata.labels["app.kubernetes.io/name"] |= renamed |
            (.spec.template.spec.containers[0].args[] | select(startswith("--tls-service="))) = "--tls-service=monitoring/" + $name |
            if $base == "gpuscale-hpa" then .spec.template.spec.containers[0].args += ["--leader-elect-resource-name=" + $name, "--state-config-map=" + $name + "-learned", "--namespace=" + $name] else . end
        else . end'
}
rights() { # COMPONENT: lines of SUFFIX RIGHT, of its roles
    objects "$1" | jq -r --arg name "gpuscale-$1" '
        select((.kind == "ClusterRole" or .kind == "Role") and .metadata.name == $name) | .rules[] |
        if .nonResourceURLs then .nonResourceURLs[] else .apiGroups[] as $g | .resources[] | "\($g)/\(.)" end' |
        sort -u | while read -r right; do
        echo "$(echo "$right" | sed 's|\*|all|; s|^/||; s|[./]|-|g') $right"
    done
}
log_of() { cat "$dir"/containers/monitoring_gpuscale-"$1-$2"-*.log 2>/dev/null; } # COMPONENT SUFFIX
logged() { log_of "$1" "$2" | grep -q "$3"; }
address_of() { kubectl -n monitoring get pods -l "app.kubernetes.io/name=gpuscale-$1-$2" -o jsonpath='{.items[0].status.podIP}'; }
ready() { kubectl -n monitoring wait --for=condition=Ready pod -l "app.kubernetes.io/name=gpuscale-$1-$2" --timeout=1s; }
# COMPONENT: restores all permissions of its copies.
give_back() {
    rights "$1" | while read -r suffix right; do copy "$1" "no-$suffix"; done | kubectl apply -f - >/dev/null
}
take_away() {
    rights "$1" | while read -r suffix right; do copy "$1" "no-$suffix" "$right"; done | kubectl apply -f - >/dev/null
}
none_restarted() { # COMPONENT; the adapter without the front proxy's CA may be
    restarts=$(kubectl -n monitoring get pods -o json | jq --arg name "gpuscale-$1-no-" '[.items[] | select(.metadata.name | startswith($name) and (contains("-no-reader-") | not)) | .status.containerStatuses[].restartCount] | add')
    [ "$restarts" = 0 ] || fail "copies of $1 without a right were restarted: $restarts"
}
remove() {
    kubectl -n monitoring get deployments -o name | grep "gpuscale-$1-no-" | xargs kubectl -n monitoring delete --wait=false >/dev/null
}

apply_exporter # guides put others in its place
kubectl -n monitoring rollout status daemonset/gpuscale-exporter --timeout=300s >/dev/null || fail "the exporter does not roll out"
for component in ${COMPONENTS:-exporter engine adapter hpa}; do . "$source/tests/e2e/permissions-$component.sh"; done
