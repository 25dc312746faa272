#!/bin/sh
# Checks small valid and invalid configurations: `gpuscale check config` and promtool must agree.
. "$(dirname "$0")/lib.sh"
need promtool

cases=$source/tests/differential/configs.txt
awk -v dir="$dir" '/^--- / { n++; file = sprintf("%s/%03d.yml", dir, n); printf "" > file; print substr($0, 5) > (file ".name"); next } n { print > file }' "$cases"
total=0 wrong=0
accepts() {
    "$@" >"$dir/out" 2>&1 && echo ok || echo no
}
for file in "$dir"/*.yml; do
    name=$(cat "$file.name") total=$((total + 1))
    case ${name%% *} in
    ok) ours=ok theirs=ok ;;
    no) ours=no theirs=no ;;
    strict) ours=no theirs=ok ;;
    kind) ours=ok theirs=no ;;
    v3 | kubernetes) ours=ok theirs=any ;;
    *) fail "no expected result: $name" ;;
    esac
    got=$(accepts "$gpuscale" check config "$file")
    [ "$got" = "$ours" ] || { echo "gpuscale says $got: $name" && cat "$dir/out"; wrong=$((wrong + 1)); }
    got=$(accepts promtool check config --syntax-only "$file")
    [ "$theirs" = any ] || [ "$got" = "$theirs" ] || { echo "promtool says $got: $name" && cat "$dir/out"; wrong=$((wrong + 1)); }
done
[ "$total" -ge 100 ] || fail "only $total configurations"
[ "$wrong" = 0 ] || fail "$wrong disagree"
echo "ok: $total configurations"
