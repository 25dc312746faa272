#!/bin/sh
# Downloads the Terraform providers of deploy/ into the cache directory, once (about 400 MB), so that
# tests/integration/cluster_files.sh can validate the configurations without a network. Prints the directory. Exit code 3: there
# is no Terraform, or the registry cannot be reached; the reason is on stderr.
set -eu
here=$(dirname "$(realpath "$0")")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpuscale/terraform-providers
command -v terraform >/dev/null || { echo "terraform-providers: terraform is not installed" >&2; exit 3; }
for configuration in gke eks/terraform; do
    case $configuration in gke) provider=google ;; *) provider=aws ;; esac
    [ ! -d "$cache/registry.terraform.io/hashicorp/$provider" ] || continue
    mkdir -p "$cache"
    CHECKPOINT_DISABLE=1 timeout 600 terraform -chdir="$here/../../deploy/$configuration" providers mirror "$cache" >&2 </dev/null ||
        { echo "terraform-providers: hashicorp/$provider cannot be downloaded" >&2; missing=yes; }
done
[ -z "${missing:-}" ] || exit 3
echo "$cache"
