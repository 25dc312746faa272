#!/bin/sh
# gpuscale-cluster, the program for clusters: it has the parts of a cluster, neither the one-machine cluster nor simulated GPUs, and
# names the program that has them.
. "$(dirname "$0")/lib.sh"
cluster=$build/src/cmd/gpuscale-cluster

# --- what it refuses ---
# refuses NAME ARGUMENT…: exit code 2, and an error that begins with the name.
refuses() {
    name=$1 code=0
    shift
    "$cluster" "$@" >"$dir/out.txt" 2>"$dir/err.txt" || code=$?
    [ "$code" = 2 ] && [ ! -s "$dir/out.txt" ] || fail "$*: exit code $code: $(cat "$dir/out.txt" "$dir/err.txt")"
    grep -q "^gpuscale: $name: .*the Debian package gpuscale, and the image tag that ends in -full" "$dir/err.txt" || fail "$*: $(cat "$dir/err.txt")"
}
refuses up up
refuses sim sim create
refuses --simulate exporter --simulate=2xTesla-T4
if "$cluster" --help | grep -qE '^  (up|sim) '; then fail "its help lists a command that it does not have"; fi
echo "ok: up, sim and --simulate are refused"

# --- what it has ---
"$gpuscale" --help | sed -n 's/^  \([a-z-]*\) .*/\1/p' | grep -vx 'up\|sim' >"$dir/commands"
for command in exporter engine adapter hpa expander node-provider; do
    grep -qx "$command" "$dir/commands" || fail "gpuscale --help does not list $command"
done
while read -r command; do
    "$cluster" "$command" --help >"$dir/out.txt" 2>&1 && grep -q "^Usage: gpuscale $command " "$dir/out.txt" || fail "$command --help: $(cat "$dir/out.txt")"
done <"$dir/commands"
"$cluster" exporter --help-all | sed -n '/^Not in this program:/,/^$/p' | grep -q -- '--simulate=SPEC' || fail "exporter --help does not say that --simulate is refused"
echo 'scrape_configs: []' >"$dir/prometheus.yml"
"$cluster" engine --config.file="$dir/prometheus.yml" --storage.tsdb.path="$dir/samples" --web.listen-address=127.0.0.1:0 >"$dir/engine.log" 2>&1 &
pids=$!
listening() { grep -q 'listening on http://127' "$dir/engine.log"; }
wait_for "its engine listens" listening
echo "ok: all other commands, and the engine"

# --- what is not in it ---
if [ "$(jq -r '.[] | select(.name == "b_sanitize").value' "$build/meson-info/intro-buildoptions.json")" = none ]; then
    # symbols FILE…: functions and variables that the objects or the program define.
    symbols() { nm --defined-only "$@" | awk 'NF == 3 { print $3 }' | sort -u; }
    symbols --extern-only "$build"/src/libcore.a.p/local_*.o "$build"/src/simulation/nvmlsim/libsimclient.a.p/*.o \
        "$build"/src/simulation/nvmlsim/simulation/libsimulation.a.p/*.o >"$dir/local"
    symbols "$cluster" | comm -12 - "$dir/local" >"$dir/found"
    [ ! -s "$dir/found" ] || fail "symbols of src/local or of simulated GPUs: $(cat "$dir/found")"
    # The complete program has them, so the names are those of the linker.
    symbols "$gpuscale" | comm -12 - "$dir/local" >"$dir/complete"
    grep -q '^kubelet_' "$dir/complete" && grep -q '^nvmlsim_' "$dir/complete" || fail "the complete program has $(wc -l <"$dir/complete") of the symbols"
    echo "ok: none of $(wc -l <"$dir/local") functions and variables of src/local and of simulated GPUs"
fi
