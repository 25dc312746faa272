#!/bin/sh
# Checks small valid and invalid configurations with keys of Prometheus 3: its promtool (if it has
# been built, see tests/differential/prometheus3.sh) and `gpuscale check config` must agree, also on
# the errors.
. "$(dirname "$0")/lib.sh"
cache=$("$source/tests/differential/prometheus3.sh" --no-build) || skip "no Prometheus 3 has been built (make peers)"

total=0 wrong=0
complain() {
    wrong=$((wrong + 1))
    printf '%s: %s\n' "$1" "$line"
    sed 's/^/    /' "$dir/theirs" "$dir/ours" | grep FAILED || true
}
while IFS= read -r line; do
    case $line in '#'*) continue ;; esac
    total=$((total + 1)) differs=
    case $line in '!'*) differs=1 line=${line#!} ;; esac
    printf '%s\n' "$line" | tr '#' '\n' >"$dir/c.yml"
    "$cache/promtool" check config --syntax-only "$dir/c.yml" >"$dir/theirs" 2>&1 && theirs=ok || theirs=no
    "$gpuscale" check config "$dir/c.yml" >"$dir/ours" 2>&1 && ours=ok || ours=no
    if [ "$differs" ]; then
        [ "$theirs" != "$ours" ] || complain "does not differ any more"
    elif [ "$theirs" != "$ours" ]; then
        complain "promtool says $theirs, gpuscale $ours"
    elif [ "$theirs" = no ] && ! grep -qE 'unmarshal errors|units: unknown unit' "$dir/theirs"; then
        sed -n 's/.*FAILED: parsing YAML file [^ ]*: //p' "$dir/theirs" >"$dir/text"
        grep -qF "$(cat "$dir/text")" "$dir/ours" || complain "in other words"
    fi
done <"$source/tests/integration/configs3.txt"
[ "$total" -gt 100 ] || fail "only $total configurations"
[ "$wrong" = 0 ] || fail "$wrong of $total"
echo "ok: $total configurations"
