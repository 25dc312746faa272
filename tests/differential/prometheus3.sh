#!/bin/sh
# Builds prometheus and promtool 3 from their Go module into the cache directory, once per version
# (about five minutes on two cores, 220 MB). Prints the directory.
# Usage: prometheus3.sh [--no-build | --source]
#   --no-build  prints the directory only if the programs exist
#   --source    downloads only the source, and prints its directory
# GPUSCALE_PROMETHEUS3_VERSION and GPUSCALE_PROMETHEUS3_COMMANDS select another version, and fewer programs.
# Exit code 3: there is no Go toolchain, or the modules cannot be downloaded; the reason is on
# stderr.
set -eu
version=${GPUSCALE_PROMETHEUS3_VERSION:-v3.16.0}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpuscale/prometheus-$version
commands=${GPUSCALE_PROMETHEUS3_COMMANDS:-prometheus promtool}
# Discovery that no test needs is left out: half of the build, and modules that disappear.
tags=remove_all_sd,enable_dns_sd,enable_kubernetes_sd,enable_consul_sd,enable_aws_sd

# Prometheus v3.16.0 is v0.316.0 as a module.
minor=${version#v3.}
module=v0.$((300 + ${minor%%.*})).${minor#*.}
export GOFLAGS=-mod=mod GOTOOLCHAIN=local
PATH=$PATH:/usr/local/go/bin
if [ "${1:-}" = --source ]; then
    if [ ! -d "$cache/source/promql" ]; then
        command -v go >/dev/null || { echo "prometheus3: no Go toolchain on PATH" >&2; exit 3; }
        mkdir -p "$cache"
        json=$(go mod download -json "github.com/prometheus/prometheus@$module" 2>&1) ||
            { echo "prometheus3: the module of $version cannot be downloaded: $json" >&2; exit 3; }
        ln -sfn "$(echo "$json" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')" "$cache/source"
    fi
    echo "$cache/source"
    exit
fi
missing=
for c in $commands; do [ -x "$cache/$c" ] || missing="$missing $c"; done
if [ "$missing" ]; then
    [ "${1:-}" != --no-build ] || exit 3
    command -v go >/dev/null || { echo "prometheus3: no Go toolchain on PATH to build$missing with" >&2; exit 3; }
    mkdir -p "$cache/module"
    cd "$cache/module"
    [ -f go.mod ] || echo "module peer" >go.mod
    go get "github.com/prometheus/prometheus@$module" >get.log 2>&1 ||
        { tail -n 3 get.log >&2; echo "prometheus3: the module of $version cannot be had" >&2; exit 3; }
    for c in $missing; do
        echo "prometheus3: building $c $version" >&2
        nice -n 19 go build -tags "$tags" -ldflags "-s -w -X github.com/prometheus/common/version.Version=${version#v}" \
            -o "$cache/$c.new" "github.com/prometheus/prometheus/cmd/$c" >&2 || exit 3
        mv "$cache/$c.new" "$cache/$c"
    done
fi
echo "$cache"
