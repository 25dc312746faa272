#!/bin/sh
# Builds the program of bench/latency-peers/knative with Knative's autoscaler from its Go module into the cache directory,
# once per version and source. Prints the path of the program.
# Usage: knative.sh [--no-build]: --no-build prints the path only if it exists.
# Exit code 3: there is no Go toolchain, or the module cannot be downloaded; the reason is on stderr.
set -eu
# The modules that later versions need are not in the module proxy.
version=v0.42.2
source=$(cd "$(dirname "$0")/../.." && pwd)/bench/latency-peers/knative/main.go
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpuscale/knative
program=$cache/kpa-$version-$(cksum <"$source" | cut -d ' ' -f 1)
if [ ! -x "$program" ]; then
    [ "${1:-}" != --no-build ] || { echo "knative: it is not built (make peers)" >&2; exit 3; }
    PATH=$PATH:/usr/local/go/bin
    command -v go >/dev/null || { echo "knative: no Go toolchain on PATH to build it with" >&2; exit 3; }
    mkdir -p "$cache/module"
    cp "$source" "$cache/module/main.go"
    cd "$cache/module"
    export GOFLAGS=-mod=mod
    [ -f go.mod ] || echo "module peer" >go.mod
    go get "knative.dev/serving@$version" >get.log 2>&1 ||
        { tail -n 3 get.log >&2; echo "knative: the module of $version cannot be downloaded" >&2; exit 3; }
    echo "knative: building $version" >&2
    nice -n 19 go build -o "$program.new" . >&2 || exit 3
    mv "$program.new" "$program"
fi
echo "$program"
