#!/bin/sh
# Compares random regular expressions of selectors with Go's regexp. REGEX_SEED and REGEX_COUNT select
# others.
set -eu
build=${GPUSCALE_BUILD_ROOT:?} here=${GPUSCALE_SOURCE_ROOT:?}/tests/differential
PATH=$PATH:/usr/local/go/bin
command -v go >/dev/null || { echo "skipped: go is not installed"; exit 77; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/gpuscale-regex-XXXXXX")
trap 'rm -rf "$dir"' EXIT
cache=${XDG_CACHE_HOME:-$HOME/.cache}/go-build
HOME=$dir XDG_CONFIG_HOME=$dir GOCACHE=$cache GOFLAGS=-mod=mod GOTOOLCHAIN=local GO111MODULE=off \
    go run "$here/regex.go" "${REGEX_SEED:-1}" "${REGEX_COUNT:-20000}" >"$dir/lines" || { echo "skipped: go does not work"; exit 77; }
"$build/tests/differential/regex" <"$dir/lines"
