#!/bin/sh
# Builds programs of another project from its Go module into the cache directory, once per version: Thanos (some ten minutes on
# two cores), or victoria-metrics and vmagent of VictoriaMetrics (as long). Prints the directory.
# Usage: go_programs.sh thanos|victoriametrics [--no-build]: --no-build prints the directory only if the programs exist.
# Exit code 3: there is no Go toolchain, or the module cannot be downloaded; the reason is on stderr.
set -eu
# Later versions need a later Go.
case $1 in
thanos) module=github.com/thanos-io/thanos version=v0.42.4 programs=thanos from=cmd tags=slicelabels ;; # as its releases
victoriametrics) module=github.com/VictoriaMetrics/VictoriaMetrics version=v1.151.0 programs='vmagent victoria-metrics' from=app tags= ;;
*) echo "usage: go_programs.sh thanos|victoriametrics [--no-build]" >&2 && exit 2 ;;
esac
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpuscale/$1-$version
missing=
for p in $programs; do [ -x "$cache/$p" ] || missing="$missing $p"; done
if [ "$missing" ]; then
    [ "${2:-}" != --no-build ] || { echo "$1: not built (make peers)" >&2; exit 3; }
    PATH=$PATH:/usr/local/go/bin
    command -v go >/dev/null || { echo "$1: no Go toolchain on PATH to build it with" >&2; exit 3; }
    export GOFLAGS=-mod=mod GOTOOLCHAIN=local
    mkdir -p "$cache"
    json=$(cd / && go mod download -json "$module@$version" 2>&1) ||
        { echo "$1: the module of $version cannot be downloaded: $json" >&2; exit 3; }
    # As the main module, because its go.mod replaces modules.
    rm -rf "$cache/source"
    cp -r "$(echo "$json" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')" "$cache/source"
    chmod -R u+w "$cache/source"
    cd "$cache/source"
    for p in $missing; do
        echo "$1: building $p $version" >&2
        nice -n 19 go build -p 1 -tags "$tags" -ldflags '-s -w' -o "$cache/$p.new" "./$from/$p" >&2 || exit 3
        mv "$cache/$p.new" "$cache/$p"
    done
    rm -rf "$cache/source"
fi
echo "$cache"
