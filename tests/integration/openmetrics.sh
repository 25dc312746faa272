#!/bin/sh
# Valid and invalid OpenMetrics and UTF-8 pages: the engine and a Prometheus (version 3 if it has
# been built, see tests/differential/prometheus3.sh) must have the same series, the same metadata
# and the same health for each page.
. "$(dirname "$0")/pages_lib.sh"

page types "$om" <<'P'
# HELP requests Requests.
# TYPE requests counter
# UNIT requests seconds
# EOF
P
page kinds "$om" <<'P'
# HELP c_seconds A counter with a unit.
# TYPE c_seconds counter
# UNIT c_seconds seconds
c_seconds_total{a="x"} 17 1700000000.5 # {trace_id="KOO5S4vxi0o"} 0.67
c_seconds_created{a="x"} 1700000000.123
c_seconds_total{a="y"} 18.5 # {trace_id="b",span="c"} 9.8 1700000000.1
# TYPE build info
# HELP build About the build.
build_info{version="1",commit="a\"b\\c\nd"} 1
# TYPE state stateset
state{state="on"} 1
state{state="off"} 0
# TYPE gh gaugehistogram
gh_bucket{le="0.5"} 1
gh_bucket{le="1"} 2
gh_bucket{le="+Inf"} 3
gh_gcount 3
gh_gsum 2.5
# TYPE h histogram
h_bucket{le="1"} 2 # {trace_id="x"} 0.5
h_bucket{le="1e1"} 2
h_bucket{le="+Inf"} 3
h_count 3
h_sum 2.5
h_created 1700000000
# TYPE s summary
s{quantile="0.5"} 1
s{quantile="1"} 2
s_count 4
s_sum 5
# TYPE u unknown
u NaN
plain -Inf
# EOF
P
page utf8 "$om" <<'P'
# HELP "gpu.util" With a dot.
# TYPE "gpu.util" gauge
{"gpu.util","pod.name"="a",plain="b"} 3
{"größe",x="y"} 4
# EOF
P
page utf8_text "$text" <<'P'
# HELP "gpu.util" With a dot.
# TYPE "gpu.util" gauge
{"gpu.util","pod.name"="a",plain="b"} 3
{"größe",x="y"} 4
P
# wrong TYPE: adds a page that may be invalid or unusual.
wrong() { page "wrong$(find "$dir/pages" -name 'wrong*' | wc -l)" "$1"; }
printf 'a 1\n' | wrong "$om"                      # no EOF
printf 'a 1\n# EOF' | wrong "$om"                 # no end of line
printf 'a 1\n# EOF\n\n' | wrong "$om"             # an empty line after # EOF
printf 'a 1\n# EOF\nb 1\n' | wrong "$om"          # a sample after # EOF
printf 'a  1\n# EOF\n' | wrong "$om"              # two blanks
printf 'a{b="c",} 1\n# EOF\n' | wrong "$om"       # a comma too many
printf 'a{b="c" } 1\n# EOF\n' | wrong "$om"
printf '\na 1\n# EOF\n' | wrong "$om"             # an empty line
printf '# a comment\na 1\n# EOF\n' | wrong "$om"
printf '# TYPE a untyped\na 1\n# EOF\n' | wrong "$om"
printf '# TYPE a gauge\n# UNIT a seconds\na 1\n# EOF\n' | wrong "$om"
printf 'a 1 1700000000123456\n# EOF\n' | wrong "$om"
printf 'a 1 # {b="c"} x\n# EOF\n' | wrong "$om"
printf 'a 1 # {b="c"}\n# EOF\n' | wrong "$om"
printf 'a 1 # {b="c"} 1 2 3\n# EOF\n' | wrong "$om"
printf 'a 0x1p3\n# EOF\n' | wrong "$om"
printf 'a 1_000\n# EOF\n' | wrong "$om"
printf '# EOF\n' | wrong "$om"
printf '' | wrong "$om"
printf '# TYPE a counter\na 1\n' | wrong "$text"
printf 'a 1 1.5\n' | wrong "$text"
printf 'a{b="\\x"} 1\n' | wrong "$text"
printf '# TYPE a info\na 1\n' | wrong "$text"
printf 'a 1' | wrong "$text"
printf '{} 1\n' | wrong "$text"
printf '{"a"} 1\n{"a","b"} 1\n' | wrong "$text"
printf '{"a",b="c","d"="e"} 1\n' | wrong "$text"
printf 'a{"b"="c"} 1\n' | wrong "$text"
printf 'a{"b"} 1\n' | wrong "$text"
printf '{"\\"a\\n"} 1\n' | wrong "$text"
printf 'a 1\n' | wrong 'text/html'
printf 'a 1\n' | wrong 'application/json'

page accept "$text" <<'P'
a 1
P
{
    printf 'global: {scrape_interval: 5s}\nscrape_configs:\n'
    for name in "$dir"/pages/*; do
        name=$(basename "$name")
        printf -- '- {job_name: %s, metrics_path: /%s, fallback_scrape_protocol: PrometheusText0.0.4, static_configs: [{targets: ["%s"]}]}\n' "$name" "$name" "$pages"
    done
} >"$dir/prometheus.yml"

start_both "$cache/prometheus"

# about URL: health of the pages, series with values, metadata of the targets.
about() {
    curl -sS "$1/api/v1/targets" | jq -cS '.data.activeTargets[] | [.scrapePool, .health]' | sort
    curl -sS -G "$1/api/v1/query" --data-urlencode 'query={job=~"kinds|utf8.*|wrong.*",__name__!~"scrape_duration_seconds|scrape_series_added"}' |
        jq -cS '.data.result[] | [.metric, .value[1]]' | sort
    curl -sS "$1/api/v1/targets/metadata" | jq -cS '.data[]' | sort
}
all_scraped() {
    curl -sS "$1/api/v1/targets" | jq -e '[.data.activeTargets[].health] | length > 10 and all(. != "unknown")' >/dev/null
}
wait_for "the engine has scraped all pages" all_scraped "$ours"
wait_for "Prometheus has scraped all pages" all_scraped "$theirs"
compare "facts about $(ls "$dir/pages" | wc -l) pages" h_bucket
[ "$(grep -c '"h_bucket"' "$dir/got")" = 3 ] || fail "the histogram is not there"
[ "$(sort -u "$dir/accept/accept" | wc -l)" = 1 ] || { cat "$dir/accept/accept"; fail "the Accept headers differ"; }
echo "ok: the Accept headers are the same"
for query in 'query=h_bucket&start=1700000000&end=1700000001' 'query=up(&start=1&end=2' 'start=1&end=2'; do
    for url in "$theirs" "$ours"; do curl -sS "$url/api/v1/query_exemplars?$query" | jq -cS 'del(.error)'; done | uniq | wc -l | grep -qx 1 || fail "query_exemplars?$query"
done
echo "ok: both return no exemplars"
