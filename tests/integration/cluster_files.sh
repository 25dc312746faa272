#!/bin/sh
# Checks the files for GKE, EKS, GPU nodes, the scheduler and the autoscalers in deploy/ without a cloud: Terraform's format and
# validation, YAML, consistent names, and that docs/ mentions each file. tests/e2e applies the Kubernetes objects to a real API
# server.
. "${GPUSCALE_SOURCE_ROOT:?}/tests/integration/lib.sh"
deploy=$source/deploy
need kubectl jq

cd "$deploy"
for file in $(find cluster-autoscaler eks gke gpu-nodes *.yaml -type f | sort); do
    base=$(basename "$file")
    grep -rqE "deploy/$file|\`$base\`" "$source/docs" "$source/README.md" || fail "no page in docs/ mentions deploy/$file"
done
cd "$dir"
echo "ok: docs/ mentions each manifest of deploy/"

# Any YAML file as JSON: kubectl reads it as an object of an unknown kind, without a server.
as_json() { # FILE
    { printf 'apiVersion: test/v1\nkind: Any\nmetadata: {name: any}\ncontent:\n' && sed 's/^/  /' "$1"; } >"$dir/any.yaml"
    kubectl annotate --local -f "$dir/any.yaml" test=yes -o json 2>"$dir/yaml.log" | jq -e .content
}
values="eks/cluster eks/aws-load-balancer-controller eks/cluster-autoscaler eks/karpenter gpu-nodes/device-plugin
    gpu-nodes/device-plugin-time-slicing gpu-nodes/gpu-operator gpu-nodes/gpu-operator-time-slicing"
for file in $values; do
    as_json "$deploy/$file.yaml" >"$dir/$(basename "$file").json" || fail "deploy/$file.yaml: $(cat "$dir/yaml.log")"
done
echo "ok: YAML of $(echo "$values" | wc -w) files with values"

# The guides' pools, which scale up from zero: labels and taints of the nodes that do not exist yet.
jq -e '.availabilityZones | length >= 2 and all(. != "ap-northeast-2b")' "$dir/cluster.json" >/dev/null || fail "cluster.yaml: zones"
jq -e '.iamIdentityMappings | length > 0' "$dir/cluster.json" >/dev/null || fail "cluster.yaml: no IAM identity mapping"
jq -e '[.managedNodeGroups[] | select(.name | startswith("gpu-"))] | length == 3 and all(
    .minSize == 0 and .maxSize == 8 and .spot and .propagateASGTags and .labels.accelerator == "nvidia-gpu" and
    .labels["gpuscale.dev/pool"] == .name and "gpu-" + .labels["gpuscale.dev/pool-gpus"] == .name and
    .taints == [{key: "nvidia.com/gpu", value: "present", effect: "NoSchedule"}])' "$dir/cluster.json" >/dev/null || fail "cluster.yaml: GPU groups"
jq -e '[.managedNodeGroups[] | select(.name == "cpu-1")] | length == 1 and .[0].minSize >= 1' "$dir/cluster.json" >/dev/null ||
    fail "cluster.yaml: a cluster needs a CPU node"
name=$(jq -r .metadata.name "$dir/cluster.json") region=$(jq -r .metadata.region "$dir/cluster.json")
[ "$(jq -r '.clusterName, .region' "$dir/aws-load-balancer-controller.json" | xargs)" = "$name $region" ] || fail "aws-load-balancer-controller.yaml: cluster"
[ "$(jq -r '.autoDiscovery.clusterName, .awsRegion' "$dir/cluster-autoscaler.json" | xargs)" = "$name $region" ] || fail "cluster-autoscaler.yaml: cluster"
[ "$(jq -r .settings.clusterName "$dir/karpenter.json")" = "$name" ] || fail "karpenter.yaml: cluster"
grep -q "default *= \"$name\"" "$deploy/eks/terraform/variables.tf" || fail "eks/terraform: cluster"
grep -q "default *= \"$region\"" "$deploy/eks/terraform/variables.tf" || fail "eks/terraform: region"
jq -e --arg name "$name" '.iam.podIdentityAssociations | map(.serviceAccountName) | sort == ["aws-load-balancer-controller", "cluster-autoscaler"]' \
    "$dir/cluster.json" >/dev/null || fail "cluster.yaml: service accounts"
for file in device-plugin-time-slicing:.config.map.default gpu-operator-time-slicing:.devicePlugin.config.data.any; do
    jq -r "${file#*:}" "$dir/${file%:*}.json" >"$dir/slicing.yaml"
    as_json "$dir/slicing.yaml" | jq -e '.sharing.timeSlicing | .renameByDefault == false and .resources == [{name: "nvidia.com/gpu", replicas: 4}]' >/dev/null ||
        fail "${file%:*}.yaml: time slicing"
done
echo "ok: names, zones, pools and time slicing are consistent"

for script in eks/uninstall; do
    [ -x "$deploy/$script" ] && sh -n "$deploy/$script" || fail "deploy/$script"
done

command -v terraform >/dev/null || { echo "skipped: terraform is not installed"; exit 0; }
export CHECKPOINT_DISABLE=1 TF_IN_AUTOMATION=1
terraform fmt -check -recursive -diff "$deploy" >"$dir/fmt.log" 2>&1 || fail "terraform fmt: see fmt.log"
echo "ok: terraform fmt"
cache=$XDG_CACHE_HOME/gpuscale/terraform-providers
for configuration in gke:google eks/terraform:aws; do
    path=${configuration%:*} provider=${configuration#*:}
    if [ ! -d "$cache/registry.terraform.io/hashicorp/$provider" ]; then
        echo "skipped: terraform validate of deploy/$path: the provider hashicorp/$provider is not in $cache (make peers downloads it)"
        continue
    fi
    cp -r "$deploy/$path" "$dir/configuration"
    terraform -chdir="$dir/configuration" init -input=false -plugin-dir="$cache" >"$dir/init.log" 2>&1 || fail "terraform init: $path"
    terraform -chdir="$dir/configuration" validate >"$dir/validate.log" 2>&1 || fail "terraform validate: $path"
    rm -rf "$dir/configuration"
    echo "ok: terraform validate of deploy/$path"
done
