#!/bin/sh
# Builds Helm 3 and Helm 4 from their Go modules into the cache directory, once per version (about five minutes on two cores,
# 130 MB). Prints the path of each program in a line, the older one first.
# Usage: helm.sh [--no-build]: --no-build prints only what exists.
# Exit code 3: there is no Go toolchain, or a module cannot be downloaded or built; the reason is on stderr.
set -eu
versions=${GPUSCALE_HELM:-v3.22.0 v4.3.1}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpuscale
PATH=$PATH:/usr/local/go/bin
export GOFLAGS=-mod=mod GOTOOLCHAIN=local CGO_ENABLED=0

for version in $versions; do
    folder=$cache/helm-$version
    if ! [ -x "$folder/helm" ]; then
        [ "${1:-}" != --no-build ] || { echo "helm: $folder/helm is not built (make peers builds it)" >&2; exit 3; }
        command -v go >/dev/null || { echo "helm: no Go toolchain on PATH to build Helm $version with" >&2; exit 3; }
        module=helm.sh/helm/${version%%.*}
        mkdir -p "$folder/module"
        (
            cd "$folder/module"
            [ -f go.mod ] || echo "module peer" >go.mod
            go get "$module/cmd/helm@$version" >get.log 2>&1 ||
                { tail -n 3 get.log >&2; echo "helm: the module of Helm $version cannot be downloaded" >&2; exit 3; }
            # Helm assumes the capabilities of the Kubernetes version of its client library, as its own releases do.
            client=$(go list -m -f '{{.Version}}' k8s.io/client-go) minor=${client#v0.}
            minor=${minor%%.*}
            internal=$module/internal/version lint=$module/pkg/lint/rules
            [ "${version%%.*}" != v4 ] || lint=$module/pkg/chart/v2/lint/rules
            common=$module/pkg/chart/common
            [ "${version%%.*}" != v3 ] || common=$module/pkg/chartutil
            echo "helm: building Helm $version" >&2
            nice -n 15 go build -trimpath -o ../helm.new -ldflags "-s -w -X $internal.version=$version -X $internal.metadata= \
                -X $lint.k8sVersionMajor=1 -X $lint.k8sVersionMinor=$minor \
                -X $common.k8sVersionMajor=1 -X $common.k8sVersionMinor=$minor" "$module/cmd/helm" >&2 ||
                { echo "helm: Helm $version cannot be built" >&2; exit 3; }
        ) || exit 3
        mv "$folder/helm.new" "$folder/helm"
    fi
    echo "$folder/helm"
done
