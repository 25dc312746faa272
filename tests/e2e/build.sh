#!/bin/sh
# Builds the programs of a Kubernetes control plane from their Go modules into the cache directory,
# once per version (about ten minutes on two cores, 400 MB). Prints the directory. Exit code 3:
# there is no Go toolchain, or the modules cannot be downloaded; the reason is on stderr.
# GPUSCALE_KUBERNETES=v1.28.15 builds another version. The kubelets with containers (node) are made for the default one; if
# they do not compile with another version, the guides are skipped and everything else works.
set -eu
version=${GPUSCALE_KUBERNETES:-v1.36.3}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpuscale/kubernetes-$version
# Arguments: further programs, such as kube-proxy.
commands="kube-apiserver kube-controller-manager kube-scheduler kubemark $*"

missing=
here=$(dirname "$(realpath "$0")")
for c in $commands; do [ -x "$cache/$c" ] || missing="$missing $c"; done
# The program of tests/e2e/node is built again when its sources change.
sum=$(cat "$here"/node/*.go | sha256sum | cut -c1-16)
[ -x "$cache/node-$sum" ] || [ -e "$cache/node-$sum.failed" ] || missing="$missing node"
if [ "$missing" ]; then
    PATH=$PATH:/usr/local/go/bin
    command -v go >/dev/null || { echo "e2e: no Go toolchain on PATH to build$missing with" >&2; exit 3; }
    mkdir -p "$cache/module"
    cd "$cache/module"
    export GOFLAGS=-mod=mod
    source=$(go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/^\t"GoMod": "\(.*\)",*$/\1/p')
    [ -f "$source" ] || { echo "e2e: the module k8s.io/kubernetes@$version cannot be downloaded" >&2; exit 3; }
    # Staging modules have another version: v1.36.3 is v0.36.3 there.
    {
        echo "module e2e"
        sed -n 's/^go /go /p' "$source"
        echo "require k8s.io/kubernetes $version"
        sed -n "s|^[[:space:]]*\(k8s.io/[a-z0-9-]*\) => ./staging/.*|replace \1 => \1 v0.${version#v1.}|p" "$source"
    } >go.mod
    # The module itself does not import some packages. Their versions are those in its go.mod.
    sed -n '/^require/,/^)/p' "$source" >>go.mod
    for c in $missing; do
        echo "e2e: building $c $version" >&2
        package=k8s.io/kubernetes/cmd/$c
        if [ $c = node ]; then
            mkdir -p node
            cp "$here"/node/*.go node/
            package=./node
        fi
        CGO_ENABLED=0 nice -n 19 go build -o "$cache/$c.new" -ldflags "-X k8s.io/component-base/version.gitVersion=$version -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=$(echo "$version" | cut -d. -f2)" "$package" >&2 || {
            [ $c = node ] && [ "${GPUSCALE_KUBERNETES:-}" ] || exit 1
            echo "e2e: kubelets with containers do not compile with $version" >&2
            : >"$cache/node-$sum.failed"
            continue
        }
        [ $c != node ] || { find "$cache" -name "node-*" -mtime +1 -delete; mv "$cache/node.new" "$cache/node-$sum"; continue; }
        mv "$cache/$c.new" "$cache/$c"
    done
fi
[ ! -x "$cache/node-$sum" ] || ln -sf "node-$sum" "$cache/node"
echo "$cache"
