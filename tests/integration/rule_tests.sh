#!/bin/sh
# Unit tests of rules: `gpuscale test rules` and promtool must agree on each file of a corpus, and
# on the notation of values. pass-… must pass, fail-… must fail. ours-… pass here, but need a
# promtool that is newer than current releases. ….new.yaml need a promtool newer than Debian's 2.x.
# PROMTOOL selects another promtool.
. "$(dirname "$0")/lib.sh"
need promtool
corpus=$source/tests/engine/rules/unit_tests

# outcomes COMMAND… FILES: prints one line for each file.
outcomes() { "$@" 2>&1 | sed -n 's/^  \(SUCCESS\|FAILED\).*/\1/p'; }

# agree NAME FILES…: both results are those in the names of the files.
agree() {
    title=$1
    shift
    for file in "$@"; do
        case ${file##*/} in fail-*) echo FAILED ;; *) echo SUCCESS ;; esac
    done >"$dir/wanted"
    outcomes "$gpuscale" test rules "$@" >"$dir/ours"
    outcomes "${PROMTOOL:-promtool}" test rules "$@" >"$dir/theirs"
    printf '%s\n' "$@" >"$dir/files"
    paste "$dir/files" "$dir/wanted" "$dir/ours" "$dir/theirs" | awk -F '\t' '$2 != $3 || $2 != $4' >"$dir/wrong"
    [ ! -s "$dir/wrong" ] || { echo "file, wanted, ours, promtool:"; cat "$dir/wrong"; fail "$title"; }
    echo "ok: $title: $# files"
}

known() { case $1 in *.new.yaml) [ -n "${PROMTOOL-}" ] ;; esac; }
set --
for file in "$corpus"/pass-*.yaml "$corpus"/fail-*.yaml; do
    if known "$file"; then set -- "$@" "$file"; fi
done
[ $# -ge 30 ] || fail "only $# files of tests"
agree "the corpus" "$@"
for file in "$corpus"/*.yaml; do
    wanted=0
    case ${file##*/} in fail-*) wanted=1 ;; pass-* | ours-*) ;; *) continue ;; esac
    code=0
    "$gpuscale" test rules "$file" >"$dir/said" 2>&1 || code=$?
    [ "$code" = "$wanted" ] || { cat "$dir/said"; fail "$file: exit code $code"; }
done

# Creates a file for each notation. The test expects each minute's sample with its value and no
# other.
awk -v dir="$dir" '
    /^#/ { next }
    {
        at = index($0, " = ")
        notation = substr($0, 1, at - 1); given = substr($0, at + 3)
        file = sprintf("%s/%s-%02d.yaml", dir, given == "!" ? "fail" : "pass", NR)
        gsub(/\047/, "\047\047", notation)
        printf "tests:\n- interval: 1m\n  input_series:\n  - {series: x, values: \047%s\047}\n", notation >file
        printf "  promql_expr_test:\n" >file
        n = split(given, v, " ")
        if (given == "!") { n = 1; v[1] = "_" }
        for (i = 1; i <= n + 1; i++) {
            printf "  - {expr: \047last_over_time(x[30s])\047, eval_time: %dm, exp_samples: [", i - 1 >file
            if (i <= n && v[i] != "_" && v[i] != "S") {
                sub(/Inf/, ".inf", v[i])
                printf "{labels: x, value: %s}", v[i] >file
            }
            printf "]}\n" >file
        }
        close(file)
    }' "$corpus/values.txt"
agree "the notation of values" "$dir"/pass-*.yaml "$dir"/fail-*.yaml

# --run, --diff, --junit, and usage errors.
"$gpuscale" test rules --run '^busy' "$corpus/pass-alerts.yaml" >/dev/null || fail "--run"
"$gpuscale" test rules --run 'no such test' "$corpus/fail-value.yaml" >/dev/null || fail "--run with no test left"
"$gpuscale" test rules --diff --junit "$dir/junit.xml" "$corpus/fail-value.yaml" "$corpus/fail-no-yaml.yaml" \
    >"$dir/said" 2>&1 && fail "fail-value.yaml passes"
grep -q '^        - {} 166$' "$dir/said" && grep -q '^        + {} 165$' "$dir/said" || { cat "$dir/said"; fail "--diff"; }
grep -q 'fail-value.yaml:[0-9]*: expr: "sum(gpu_util)", time: 1m' "$dir/said" || fail "no position"
grep -q 'tests="1" failures="1" errors="0".*<failure>.*tests="1" failures="0" errors="1".*<error>' "$dir/junit.xml" ||
    { cat "$dir/junit.xml"; fail "--junit"; }
"$gpuscale" test rules --ignore-unknown-fields "$corpus/fail-unknown-rule-field.yaml" >/dev/null || fail "--ignore-unknown-fields"
"$gpuscale" check rules --ignore-unknown-fields "$corpus/owned.yaml" >/dev/null || fail "check rules --ignore-unknown-fields"
"$gpuscale" check rules "$corpus/owned.yaml" >/dev/null 2>&1 && fail "check rules of unknown fields"
code=0
"$gpuscale" test rules --run '(' "$corpus/pass-order.yaml" >/dev/null 2>&1 || code=$?
[ "$code" = 1 ] || fail "a wrong --run: exit code $code"
code=0
"$gpuscale" test rule x 2>/dev/null || code=$?
[ "$code" = 2 ] || fail "test rule: exit code $code"
echo "ok: options"
