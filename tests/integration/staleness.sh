#!/bin/sh
# track_timestamps_staleness: series with timestamps that disappear from a page must end or continue
# as in a Prometheus 3.
. "$(dirname "$0")/pages_lib.sh"

{
    printf 'global: {scrape_interval: 2s}\nscrape_configs:\n'
    printf -- '- {job_name: tracked, metrics_path: /page, track_timestamps_staleness: true, static_configs: [{targets: ["%s"]}]}\n' "$pages"
    printf -- '- {job_name: usual, metrics_path: /page, static_configs: [{targets: ["%s"]}]}\n' "$pages"
    printf -- '- {job_name: ignored, metrics_path: /page, track_timestamps_staleness: true, honor_timestamps: false, static_configs: [{targets: ["%s"]}]}\n' "$pages"
} >"$dir/prometheus.yml"
# put NAMES: writes a page with these series and the current time as timestamp. Another series
# counts the pages.
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
# compare NAMES EXPECTED: both must have the result. A late scrape ends tracked series until there
# are newer timestamps, so the page is updated from time to time.
compare() {
    names=$1 expected=$2 tries=0
    put "$names"
    wait_same "not the same, or not $expected"
    echo "ok: $expected"
}
same() {
    about "$theirs" >"$dir/want"
    about "$ours" >"$dir/got"
    diff "$dir/want" "$dir/got" >"$dir/diff" && [ "$(grep -c "\"pages\",\"$n\"" "$dir/got")" = 3 ] &&
        [ "$(sed 's/[]["]//g; /pages/d; s/,1$//' "$dir/got" | tr '\n' ' ')" = "$expected" ] && return
    tries=$((tries + 1))
    [ $((tries % 25)) != 0 ] || put "$names"
    return 1
}
put 'a b'
start_both "$cache/prometheus"
compare 'a b' 'ignored,a ignored,b tracked,a tracked,b usual,a usual,b '
compare a 'ignored,a tracked,a usual,a usual,b '
compare 'a b' 'ignored,a ignored,b tracked,a tracked,b usual,a usual,b '
rm "$dir/pages/page"
n=0
gone() { about "$1" >"$dir/now" && ! grep -q 'tracked\|ignored' "$dir/now" && [ "$(grep -c usual "$dir/now")" = 2 ]; }
wait_for "a failed scrape ends the tracked series" gone "$ours"
wait_for "in Prometheus, too" gone "$theirs"
