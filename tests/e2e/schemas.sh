#!/bin/sh
# Copies the OpenAPI schemas of three Kubernetes versions (the oldest supported one, one in the middle, the newest) from the
# module k8s.io/kubernetes into the cache directory, once per version (each module has 40 MB). Prints the directory of
# VERSION.json.
# Usage: schemas.sh [--no-build]: --no-build prints the directory only if it is complete.
# Exit code 3: there is no Go toolchain, or a module cannot be downloaded; the reason is on stderr.
set -eu
versions=${GPUSCALE_SCHEMAS:-v1.28.15 v1.33.13 v1.36.3}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpuscale/kubernetes-schemas
PATH=$PATH:/usr/local/go/bin

for version in $versions; do
    [ ! -f "$cache/$version.json" ] || continue
    [ "${1:-}" != --no-build ] || { echo "schemas: $cache/$version.json does not exist (make peers gets it)" >&2; exit 3; }
    command -v go >/dev/null || { echo "schemas: no Go toolchain on PATH to download Kubernetes $version with" >&2; exit 3; }
    mkdir -p "$cache"
    folder=$(GOFLAGS=-mod=mod go mod download -json "k8s.io/kubernetes@$version" 2>/dev/null | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p')
    [ -f "$folder/api/openapi-spec/swagger.json" ] || { echo "schemas: the module k8s.io/kubernetes@$version cannot be downloaded" >&2; exit 3; }
    cp "$folder/api/openapi-spec/swagger.json" "$cache/$version.new"
    mv "$cache/$version.new" "$cache/$version.json"
done
echo "$cache"
