#!/bin/sh
# Builds prometheus-adapter from its Go module into the cache directory, once per version (some
# minutes). Prints the path of the program.
# Usage: prometheus_adapter.sh [--no-build]: --no-build prints the path only if it exists.
# Exit code 3: there is no Go toolchain, or the module cannot be downloaded; the reason is on
# stderr.
set -eu
version=v0.12.0
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpuscale/prometheus-adapter
program=$cache/adapter-$version
if [ ! -x "$program" ]; then
    [ "${1:-}" != --no-build ] || exit 3
    PATH=$PATH:/usr/local/go/bin
    command -v go >/dev/null || { echo "prometheus-adapter: no Go toolchain on PATH to build it with" >&2; exit 3; }
    mkdir -p "$cache/module"
    cd "$cache/module"
    export GOFLAGS=-mod=mod
    [ -f go.mod ] || echo "module peer" >go.mod
    go get "sigs.k8s.io/prometheus-adapter@$version" >get.log 2>&1 ||
        { tail -n 3 get.log >&2; echo "prometheus-adapter: the module of $version cannot be downloaded" >&2; exit 3; }
    echo "prometheus-adapter: building $version" >&2
    nice -n 19 go build -o "$program.new" sigs.k8s.io/prometheus-adapter/cmd/adapter >&2 || exit 3
    mv "$program.new" "$program"
fi
echo "$program"
