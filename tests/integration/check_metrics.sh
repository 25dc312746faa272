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

# A client library of Go cannot read a second HELP or TYPE line.
cat >"$dir/second" <<'END'
# HELP clock_hertz Clock.
# TYPE clock_hertz gauge
clock_hertz{gpu="0"} 1410
# HELP clock_hertz Clock.
# TYPE clock_hertz gauge
clock_hertz{gpu="1"} 1410
END
code=0
"$dir/bin/promtool" check metrics <"$dir/second" 2>"$dir/out" || code=$?
echo 'error while linting: text format parsing error in line 4: second HELP line for metric name "clock_hertz"' >"$dir/want"
[ "$code" = 1 ] && diff "$dir/want" "$dir/out" || fail "a second HELP line as promtool: exit code $code"
code=0
"$gpuscale" check metrics "$dir/second" 2>"$dir/out" || code=$?
[ "$code" = 1 ] && grep -q 'line 5: second TYPE line for metric name "clock_hertz", or TYPE reported after samples$' "$dir/out" ||
    fail "a second TYPE line: exit code $code: $(cat "$dir/out")"
code=0
printf 'a_bytes 1\n# TYPE a_bytes gauge\n' | "$gpuscale" check metrics - 2>"$dir/out" || code=$?
[ "$code" = 1 ] && grep -q 'line 2: second TYPE line' "$dir/out" || fail "TYPE after samples: exit code $code"
code=0
printf '# HELP a_bytes x\n# TYPE a_bytes gauge\n# HELP b_bytes x\n# TYPE b_bytes gauge\na_bytes{c="1"} 1\nb_bytes 1\na_bytes{c="2"} 1\n' |
    "$gpuscale" check metrics - 2>"$dir/out" || code=$?
[ "$code" = 3 ] && grep -q '^a_bytes lines of other metrics are between the lines of the metric$' "$dir/out" ||
    fail "a metric in two groups: exit code $code: $(cat "$dir/out")"
head -n 3 "$dir/second" >"$dir/fine"
[ "$("$gpuscale" check metrics "$dir/fine")" = "$dir/fine: 1 metrics, 1 samples" ] || fail "what check metrics has read"
! "$gpuscale" check metrics /dev/null 2>"$dir/out" && grep -q 'the file is empty; expected metrics' "$dir/out" ||
    fail "an empty page: $(cat "$dir/out")"
"$dir/bin/promtool" check metrics </dev/null || fail "an empty page as promtool"

echo 'http_server_config: {http2: false}' >"$dir/web.yml"
echo 'unknown: 1' >"$dir/wrong.yml"
"$gpuscale" check web-config "$dir/web.yml" 2>"$dir/out" || fail "check web-config"
[ "$(cat "$dir/out")" = "$dir/web.yml SUCCESS" ] || fail "check web-config: $(cat "$dir/out")"
! "$dir/bin/promtool" check web-config "$dir/web.yml" "$dir/wrong.yml" 2>"$dir/out" || fail "a wrong web configuration is accepted"
grep -q "^$dir/wrong.yml FAILED: .*unknown" "$dir/out" || fail "check web-config: $(cat "$dir/out")"
echo "ok: texts and exit codes of check metrics and check web-config"
