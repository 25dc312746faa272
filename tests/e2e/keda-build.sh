#!/bin/sh
# Builds programs of KEDA from its Go module into the cache directory, once per version: its operator and its metrics API server, or
# with the argument differential the program of tests/differential/keda, once per source, which runs KEDA's code on values. Of the
# scalers, only a few are built: the others need the clients of 60 systems, and half an hour. Prints the directory of operator,
# adapter and crds, or the path of the program.
# Usage: keda-build.sh [--no-build] [differential]: --no-build prints the path only if it exists.
# Exit code 3: there is no Go toolchain, or the module cannot be downloaded; the reason is on stderr.
set -eu
version=${GPUSCALE_KEDA:-v2.21.0}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpuscale/keda-$version
source=$(cd "$(dirname "$0")/../differential/keda" && pwd)/main.go
build=yes
if [ "${1:-}" = --no-build ]; then
    build=
    shift
fi
case ${1:-} in
'') programs='operator adapter' result=$cache ;;
differential) programs=differential-$(cksum <"$source" | cut -d ' ' -f 1) result=$cache/$programs ;;
*) echo "usage: keda-build.sh [--no-build] [differential]" >&2 && exit 2 ;;
esac
missing=
for program in $programs; do [ -x "$cache/$program" ] || missing="$missing $program"; done
if [ "$missing" ]; then
    [ "$build" ] || { echo "keda: it is not built (make peers)" >&2; exit 3; }
    PATH=$PATH:/usr/local/go/bin
    command -v go >/dev/null || { echo "keda: no Go toolchain on PATH to build it with" >&2; exit 3; }
    module=$(go mod download -json "github.com/kedacore/keda/v2@$version" 2>/dev/null | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p')
    [ -d "$module" ] || { echo "keda: the module of $version cannot be downloaded" >&2; exit 3; }
    mkdir -p "$cache/crds"
    cp "$module"/config/crd/bases/*.yaml "$cache/crds/"
    tree=$(mktemp -d "$cache/module.XXXXXX")
    trap 'rm -rf "$tree"' EXIT
    trap 'exit 130' INT TERM
    for folder in apis cmd controllers pkg version go.mod go.sum; do cp -r "$module/$folder" "$tree/"; done
    chmod -R u+w "$tree"
    mkdir "$tree/cmd/differential"
    cp "$source" "$tree/cmd/differential/"
    cd "$tree"
    # Removes the other scalers, and their lines in the table of triggers.
    python3 - <<'END'
import glob, os, re
keep = ("scaler", "external_scaler", "cpu_memory_scaler", "cron_scaler", "prometheus_scaler", "kubernetes_workload_scaler")
for f in glob.glob("pkg/scalers/*.go"):
    if os.path.basename(f)[:-3] not in keep:
        os.remove(f)
sources = "".join(open(f).read() for f in glob.glob("pkg/scalers/*.go"))
have = set(re.findall(r"^func (New\w+)\(", sources, re.M))
table = open("pkg/scaling/scalers_builder.go").read()
line = r'\tcase "[^\n]*\n\t\treturn scalers\.(New\w+)\([^\n]*\n'
open("pkg/scaling/scalers_builder.go", "w").write(re.sub(line, lambda m: m.group(0) if m.group(1) in have else "", table))
# A constant of one of the removed files.
with open("pkg/scalers/external_metric.go", "w") as f:
    f.write('package scalers\n\nconst externalMetricType = "External"\n')
END
    for program in $missing; do
        echo "keda: building $program of $version" >&2
        nice -n 19 go build -ldflags "-X main.version=$version" -o "$cache/$program.new" "./cmd/${program%-*}" >&2 || { echo "keda: $version cannot be built" >&2; exit 3; }
        mv "$cache/$program.new" "$cache/$program"
    done
fi
echo "$result"
