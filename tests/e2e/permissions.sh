# Each right of the ClusterRoles in deploy/ taken away, to be sourced after production.sh: a copy of the
# program with all rights but one says what it lacks, goes on with the rest, and has it all when the
# right is back. The copies run at the same time, beside the real ones.

# COMPONENT SUFFIX RESOURCE: applies the copy.
without() {
    kubectl create --dry-run=client -o json -f "$deploy/$1.yaml" | jq -c --arg base "gpuscale-$1" --arg name "gpuscale-$1-$2" --arg resource "$3" '
        select(.kind | IN("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Deployment")) |
        select(.metadata.name | startswith($base)) |
        def renamed: if startswith($base) then $name + .[($base | length):] else . end;
        .metadata.name |= renamed |
        if .kind == "ClusterRole" then .rules |= [.[] | .resources -= [$resource] | select(.resources != [])]
        elif .kind == "Role" then .rules[].resourceNames |= (if . then map(renamed) else empty end)
        elif .roleRef then .roleRef.name |= renamed | .subjects[].name |= renamed
        elif .kind == "Deployment" then
            .spec.replicas = 1 | .spec.template.spec.serviceAccountName |= renamed |
            .spec.selector.matchLabels["app.kubernetes.io/name"] |= renamed | .spec.template.metadata.labels["app.kubernetes.io/name"] |= renamed |
            if $base == "gpuscale-hpa" then .spec.template.spec.containers[0].args += ["--leader-elect-resource-name=" + $name] else . end
        else . end'
}
