#!/bin/sh
# Checks that commands and flags in the documentation exist: `gpuscale COMMAND --help-all` succeeds, and
# each --flag is in the help of a command or belongs to another program.
set -eu
gpuscale=${GPUSCALE_BUILD_ROOT:?}/src/cmd/gpuscale
cd "${GPUSCALE_SOURCE_ROOT:?}"
dir=$(mktemp -d "${TMPDIR:-/tmp}/gpuscale-commands-XXXXXX")
trap 'rm -rf "$dir"' EXIT
pages="README.md CONTRIBUTING.md docs/*.md docs/*/*.md"
wrong=0 n=0

"$gpuscale" --help | awk '/^  [a-z]/ { print $1 }' >"$dir/commands"
# Parts of check are also found by their own names.
printf 'test\nconvert\n' >>"$dir/commands"
while read -r command; do "$gpuscale" "$command" --help-all; done <"$dir/commands" >"$dir/help"
"$gpuscale" sim inference --help-all >>"$dir/help"
"$gpuscale" convert rules --help-all >>"$dir/help"
"$gpuscale" convert scaledobject --help-all >>"$dir/help"

# In code, a command follows the word "gpuscale".
grep -noE '(`|^\$ )gpuscale [a-z][a-z-]*' $pages | sed -E 's/^([^:]*:[0-9]*):.*gpuscale /\1 /' >"$dir/named"
while read -r place command; do
    n=$((n + 1))
    grep -qxF -e "$command" "$dir/commands" || { echo "$place: gpuscale $command does not exist" && wrong=$((wrong + 1)); }
done <"$dir/named"

# Flags of kubectl, meson, SGLang, tools/as-users, tests/hardware/run, the benchmarks and replaced programs.
foreign=' --branch --pause --disable-startup-validate --workloads --minutes --retention-minutes --up --pages --grow --updates --args --cacert --command --containers --copy-to --define --extended --dry-run --field-selector --gpuscale --ignore-not-found --interval --limit-bytes
 --lint --no-headers --now --only --overrides --peer --enable-metrics
 --phase --quick --restart --schedule --seconds --selector --series --server-side --show-labels --since --since-time --suite --tail --type
 --cloud-config --cloud-provider --force-conflicts --hostname-override --load-restrictor --node-labels --no-root --provider-id
 --register-with-taints --rounds --unremovable-node-recheck-timeout --resource --terraform --verb --capacity-buffer-controller-enabled
 --capacity-buffer-pod-injection-enabled --enable-provisioning-requests --set-file --set-string --take-ownership --no-storage.tsdb.wal-compression --only-upgrade --write --held-out --learned --tsdb.path --label --prometheus.url --endpoint --endpoint-strict --query.replica-label '
# Flags of kubectl, helm, docker and podman commands are theirs.
# shellcheck disable=SC2086
awk '{
    gsub(/(kubectl|helm|docker|podman) [^|`]*/, "")
    while (match($0, /(^|[^a-zA-Z0-9-])--[a-z][a-zA-Z0-9.-]*[a-zA-Z0-9]/)) {
        flag = substr($0, RSTART, RLENGTH)
        $0 = substr($0, RSTART + RLENGTH)
        sub(/^[^-]*/, "", flag)
        print FILENAME ":" FNR, flag
    }
}' $pages >"$dir/flags"
while read -r place flag; do
    n=$((n + 1))
    case $foreign in *" $flag "* | *" $flag
"*) continue ;; esac
    grep -qF -e "$flag" "$dir/help" || { echo "$place: no command has the flag $flag" && wrong=$((wrong + 1)); }
done <"$dir/flags"
[ "$n" -ge 200 ] || { echo "only $n commands and flags" && exit 1; }
[ "$wrong" = 0 ] || { echo "$wrong of $n do not exist" && exit 1; }
echo "ok: $n commands and flags"
