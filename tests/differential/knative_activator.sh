#!/bin/sh
# Builds Knative's activator from its Go module into the cache directory, once per version. Prints the path of the program,
# and that of the module's source, which has its resource definitions.
# Usage: knative_activator.sh [--no-build]: --no-build prints the paths only if the program exists.
# Exit code 3: there is no Go toolchain, or the module cannot be downloaded; the reason is on stderr.
set -eu
# The modules that later versions need are not in the module proxy.
version=v0.42.2
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpuscale/knative/activator
program=$cache/activator-$version
PATH=$PATH:/usr/local/go/bin
command -v go >/dev/null || { echo "knative: no Go toolchain on PATH to build it with" >&2; exit 3; }
if [ ! -x "$program" ]; then
    [ "${1:-}" != --no-build ] || { echo "knative: its activator is not built (tests/differential/knative_activator.sh)" >&2; exit 3; }
    mkdir -p "$cache"
    cd "$cache"
    [ -f go.mod ] || echo "module peer" >go.mod
    GOFLAGS=-mod=mod go get "knative.dev/serving/cmd/activator@$version" >get.log 2>&1 ||
        { tail -n 3 get.log >&2; echo "knative: the module of $version cannot be downloaded" >&2; exit 3; }
    echo "knative: building the activator of $version" >&2
    GOFLAGS=-mod=mod nice -n 19 go build -p 1 -o "$program.new" knative.dev/serving/cmd/activator >&2 || exit 3
    mv "$program.new" "$program"
fi
echo "$program"
cd "$cache"
GOFLAGS=-mod=mod go list -m -f '{{.Dir}}' knative.dev/serving
