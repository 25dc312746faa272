#!/bin/sh
# Builds prometheus and promtool 3 from their Go module into the cache directory, once per version
# (about five minutes on two cores, 220 MB). Prints the directory.
# Usage: prometheus3.sh [--no-build]: --no-build prints the directory only if it exists.
# Exit code 3: there is no Go toolchain, or the modules cannot be downloaded; the reason is on
# stderr.
set -eu
version=${GPUSCALE_PROMETHEUS3_VERSION:-v3.5.0}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpuscale/prometheus-$version
commands="prometheus promtool"

missing=
for c in $commands; do [ -x "$cache/$c" ] || missing="$missing $c"; done
if [ "$missing" ]; then
    [ "${1:-}" != --no-build ] || exit 3
    PATH=$PATH:/usr/local/go/bin
    command -v go >/dev/null || { echo "prometheus3: no Go toolchain on PATH to build$missing with" >&2; exit 3; }
    mkdir -p "$cache/module"
    cd "$cache/module"
    # Prometheus v3.5.0 is v0.305.0 as a module.
    minor=${version#v3.}
    module=v0.$((300 + ${minor%%.*})).${minor#*.}
    export GOFLAGS=-mod=mod GOTOOLCHAIN=local
    [ -f go.mod ] || echo "module peer" >go.mod
    go get "github.com/prometheus/prometheus@$module" >get.log 2>&1 ||
        { tail -n 3 get.log >&2; echo "prometheus3: the module of $version cannot be had" >&2; exit 3; }
    for c in $missing; do
        echo "prometheus3: building $c $version" >&2
        nice -n 19 go build -ldflags "-s -w -X github.com/prometheus/common/version.Version=${version#v}" \
            -o "$cache/$c.new" "github.com/prometheus/prometheus/cmd/$c" >&2 || exit 3
        mv "$cache/$c.new" "$cache/$c"
    done
fi
echo "$cache"
