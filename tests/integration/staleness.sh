#!/bin/sh
# track_timestamps_staleness: series with timestamps of their own that a page does not have any more end, or go on,
# as in a Prometheus of version 3.
. "$(dirname "$0")/pages_lib.sh"

{
    printf 'global: {scrape_interval: 1s}\nscrape_configs:\n'
    printf -- '- {job_name: tracked, metrics_path: /page, track_timestamps_staleness: true, static_configs: [{targets: ["%s"]}]}\n' "$pages"
    printf -- '- {job_name: usual, metrics_path: /page, static_configs: [{targets: ["%s"]}]}\n' "$pages"
    printf -- '- {job_name: ignored, metrics_path: /page, track_timestamps_staleness: true, honor_timestamps: false, static_configs: [{targets: ["%s"]}]}\n' "$pages"
} >"$dir/prometheus.yml"
# put NAMES: a page on which these series have the timestamp of now; another one counts the pages.
n=0
put() {
    n=$((n + 1)) now=$(date +%s%3N)
    {
        echo "pages $n"
        for name in $1; do echo "$name 1 $now"; done
    } >"$dir/next"
    page page "$text" <"$dir/next"
}
about() { curl -sS -G "$1/api/v1/query" --data-urlencode 'query={__name__=~"pages|[a-z]"}' | jq -cS '.data.result[] | [.metric.job, .metric.__name__, .value[1]]' | sort; }
# compare EXPECTED: what both have then.
compare() {
    i=0
    until [ "$(sed 's/[]["]//g; /pages/d; s/,1$//' "$dir/got" 2>/dev/null | tr '\n' ' ')" = "$1" ] && same_now; do
        i=$((i + 1))
        [ "$i" -lt 150 ] || { cat "$dir/want" "$dir/got"; fail "not the same, or not $1"; }
        sleep 0.4
        about "$ours" >"$dir/got"
    done
    echo "ok: $1"
}
same_now() {
    about "$theirs" >"$dir/want"
    diff "$dir/want" "$dir/got" >"$dir/diff" && [ "$(grep -c "\"pages\",\"$n\"" "$dir/got")" = 3 ]
}
put 'a b'
start_both
compare 'ignored,a ignored,b tracked,a tracked,b usual,a usual,b '
put a
compare 'ignored,a tracked,a usual,a usual,b '
put 'a b'
compare 'ignored,a ignored,b tracked,a tracked,b usual,a usual,b '
rm "$dir/pages/page"
n=0
gone() { about "$1" >"$dir/now" && ! grep -q 'tracked\|ignored' "$dir/now" && [ "$(grep -c usual "$dir/now")" = 2 ]; }
wait_for 60 "a failed scrape ends the tracked series" gone "$ours"
wait_for 60 "in Prometheus, too" gone "$theirs"
