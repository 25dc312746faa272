#!/bin/sh
# `check metrics` and `check web-config`, also as promtool: texts and exit codes are those of promtool 3, if it has been built.
. "$(dirname "$0")/lib.sh"
cat >"$dir/page" <<'END'
# HELP good_total A counter.
# TYPE good_total counter
good_total{a="b"} 1
# TYPE bad counter
bad 1
# HELP temp_kilobytes A gauge.
# TYPE temp_kilobytes gauge
temp_kilobytes{someLabel="x",le="1",quantile="2"} 5
# HELP x:gauge_ms_total A gauge.
# TYPE x:gauge_ms_total gauge
x:gauge_ms_total 1
noType 5
noType 5
# HELP lat_seconds A histogram.
# TYPE lat_seconds histogram
lat_seconds_bucket{aB="c",le="1"} 1
lat_seconds_bucket{aB="c",le="+Inf"} 2
lat_seconds_sum{aB="c"} 1
lat_seconds_count{aB="c"} 1
# TYPE foo_sum gauge
foo_sum 1
# TYPE no_samples gauge
END
cat >"$dir/want" <<'END'
bad counter metrics should have "_total" suffix
bad no help text
foo_sum no help text
foo_sum non-histogram and non-summary metrics should not have "_sum" suffix
lat_seconds label names should be written in 'snake_case' not 'camelCase'
noType metric names should be written in 'snake_case' not 'camelCase'
noType metric not unique
noType no help text
temp_kilobytes label names should be written in 'snake_case' not 'camelCase'
temp_kilobytes non-histogram metrics should not have "le" label
temp_kilobytes non-summary metrics should not have "quantile" label
temp_kilobytes use base unit "bytes" instead of "kilobytes"
x:gauge_ms_total metric names should not contain ':'
x:gauge_ms_total metric names should not contain abbreviated units
x:gauge_ms_total non-counter metrics should not have "_total" suffix
END
mkdir "$dir/bin"
ln -s "$gpuscale" "$dir/bin/promtool"
code=0
"$gpuscale" check metrics "$dir/page" 2>"$dir/out" || code=$?
[ "$code" = 3 ] || fail "exit code $code instead of 3"
diff "$dir/want" "$dir/out" || fail "check metrics"
code=0
"$dir/bin/promtool" check metrics <"$dir/page" 2>"$dir/out" || code=$?
[ "$code" = 3 ] && diff "$dir/want" "$dir/out" || fail "check metrics as promtool: exit code $code"
if cache=$("$source/tests/differential/prometheus3.sh" --no-build 2>/dev/null); then
    "$cache/promtool" check metrics <"$dir/page" 2>"$dir/theirs" || true
    diff "$dir/theirs" "$dir/out" || fail "promtool 3 says something else"
fi
head -n 3 "$dir/page" | "$gpuscale" check metrics - || fail "a page without problems"
code=0
echo 'bad{' | "$gpuscale" check metrics - 2>"$dir/out" || code=$?
[ "$code" = 1 ] && grep -q '^error while linting: line 1' "$dir/out" || fail "a wrong page: exit code $code: $(cat "$dir/out")"

echo 'http_server_config: {http2: false}' >"$dir/web.yml"
echo 'unknown: 1' >"$dir/wrong.yml"
"$gpuscale" check web-config "$dir/web.yml" 2>"$dir/out" || fail "check web-config"
[ "$(cat "$dir/out")" = "$dir/web.yml SUCCESS" ] || fail "check web-config: $(cat "$dir/out")"
! "$dir/bin/promtool" check web-config "$dir/web.yml" "$dir/wrong.yml" 2>"$dir/out" || fail "a wrong web configuration is accepted"
grep -q "^$dir/wrong.yml FAILED: .*unknown" "$dir/out" || fail "check web-config: $(cat "$dir/out")"
echo "ok: texts and exit codes of check metrics and check web-config"
