#!/bin/sh
# Builds KEDA's operator and its metrics API server from the Go module into the cache directory, once per version (half an hour
# on two cores), and copies its CRDs. Prints the directory.
# Usage: keda-build.sh [--no-build]: --no-build prints the directory only if it exists.
# Exit code 3: there is no Go toolchain, or the module cannot be downloaded; the reason is on stderr.
set -eu
version=${GPUSCALE_KEDA:-v2.21.0}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpuscale/keda-$version
if ! [ -x "$cache/operator" ] || ! [ -x "$cache/adapter" ]; then
    [ "${1:-}" != --no-build ] || { echo "keda: it is not built (make peers)" >&2; exit 3; }
    PATH=$PATH:/usr/local/go/bin
    command -v go >/dev/null || { echo "keda: no Go toolchain on PATH to build it with" >&2; exit 3; }
    module=$(go mod download -json "github.com/kedacore/keda/v2@$version" 2>/dev/null | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p')
    [ -d "$module" ] || { echo "keda: the module of $version cannot be downloaded" >&2; exit 3; }
    mkdir -p "$cache/crds"
    cp "$module"/config/crd/bases/*.yaml "$cache/crds/"
    echo "keda: building $version" >&2
    for program in operator adapter; do
        (cd "$module" && CGO_ENABLED=0 nice -n 19 go build -mod=readonly -o "$cache/$program.new" ./cmd/$program) >&2 ||
            { echo "keda: $version cannot be built" >&2; exit 3; }
        mv "$cache/$program.new" "$cache/$program"
    done
fi
echo "$cache"
