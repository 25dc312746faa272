#!/bin/sh
# metric_name_validation_scheme, metric_name_escaping_scheme and scrape_protocols: the engine and a
# Prometheus 3 must send the same Accept headers, accept and reject the same names, and report the
# same errors in configurations.
. "$(dirname "$0")/pages_lib.sh"

jobs=
plain='a:b{c="ü"} 1\nd 2\n'
utf8='a 1\n{"gpu.util","pod.name"="a",b="ü"} 3\n'
# job PAGE NAME [SETTINGS]
job() {
    printf "$1" | page "$2" "$text"
    shift
    jobs="$jobs
- {job_name: $1, metrics_path: /$1, static_configs: [{targets: [\"$pages\"]}]${2:+, $2}}"
}
legacy='metric_name_validation_scheme: legacy'
job "$plain" usual
job "$utf8" usual_utf8
job "$plain" legacy_underscores "$legacy, metric_name_escaping_scheme: underscores"
job "$utf8" legacy_metric "$legacy, metric_name_escaping_scheme: underscores"
job 'a 1\nb{"c.d"="x"} 1\n' legacy_label "$legacy, metric_name_escaping_scheme: dots"
job 'a{"c:d"="x"} 1\n' legacy_colon "$legacy, metric_name_escaping_scheme: values"
# Names after relabeling count.
job "$utf8" legacy_mended "$legacy, metric_name_escaping_scheme: values,
   metric_relabel_configs: [{source_labels: [__name__], regex: '(.*)[.](.*)', target_label: __name__, replacement: '\${1}_\$2'}, {regex: pod.name, action: labeldrop}]"
job "$utf8" legacy_dropped "$legacy, metric_name_escaping_scheme: values, metric_relabel_configs: [{source_labels: [__name__], regex: '.*[.].*', action: drop}]"
job "$plain" legacy_broken "$legacy, metric_name_escaping_scheme: values, metric_relabel_configs: [{action: labelmap, regex: '(a)', replacement: 'x\$1'}]"
job "$utf8" utf8_underscores "metric_name_escaping_scheme: underscores"
job "$utf8" utf8_dots "metric_name_escaping_scheme: dots"
job "$utf8" utf8_values "metric_name_escaping_scheme: values"
job "$utf8" utf8_allowed "metric_name_validation_scheme: utf8, metric_name_escaping_scheme: allow-utf-8"
job "$plain" protocols_one "scrape_protocols: [PrometheusText0.0.4]"
job "$plain" protocols_two "scrape_protocols: [PrometheusText1.0.0, OpenMetricsText0.0.1], metric_name_escaping_scheme: values"
job "$plain" protocols_turned "scrape_protocols: [PrometheusText0.0.4, PrometheusText1.0.0, OpenMetricsText0.0.1, OpenMetricsText1.0.0]"

# about URL
about() {
    curl -sS "$1/api/v1/targets" | jq -cS '.data.activeTargets[] | [.scrapePool, .health, .lastError]' | sort
    curl -sS -G "$1/api/v1/query" --data-urlencode 'query={job!="",__name__!~"scrape_duration_seconds|scrape_series_added"}' |
        jq -cS '.data.result[] | [.metric, .value[1]]' | sort
    for f in "$dir"/accept/*; do echo "$(basename "$f"): $(sort -u "$f")"; done
}
all_scraped() {
    curl -sS "$1/api/v1/targets" | jq -e '[.data.activeTargets[].health] | length > 10 and all(. != "unknown")' >/dev/null
}
# under GLOBAL: runs both with the jobs and these global settings.
under() {
    rm -rf "$dir/accept" "$dir/data" && mkdir "$dir/accept"
    printf 'global: {scrape_interval: 4s%s}\nscrape_configs:%s\n' "${1:+, $1}" "$jobs" >"$dir/prometheus.yml"
    start_both "$cache/prometheus"
    wait_for "the engine has scraped all pages" all_scraped "$ours"
    wait_for "Prometheus has scraped all pages" all_scraped "$theirs"
    compare "names under global {$1}" '"up"'
    [ "$(sort -u "$dir"/accept/* | wc -l)" -gt 5 ] || fail "schemes and protocols are without effect"
    # Both have requested each page with the same headers.
    for f in "$dir"/accept/*; do
        [ "$(sort -u "$f" | wc -l)" = 1 ] && [ "$(wc -l <"$f")" -ge 2 ] || { cat "$f"; fail "$(basename "$f"): the Accept headers differ"; }
    done
    stop_both
}
under ''
grep -q '^\["legacy_metric","down","invalid metric name or label names' "$dir/got" || fail "legacy names do not refuse others"
grep -q '"gpu.util"' "$dir/got" || fail "there are no UTF-8 names"
under "$legacy"
under 'metric_name_escaping_scheme: dots, scrape_protocols: [PrometheusText1.0.0, PrometheusText0.0.4]'

# Both must accept the configuration, or reject it with the same error. Protocols may have no effect
# here.
strict=
for v in '' utf8 legacy UTF8 x; do
    for e in '' allow-utf-8 underscores dots values x; do
        for g in 'scrape_interval: 1m' 'metric_name_validation_scheme: legacy' 'metric_name_validation_scheme: utf8, metric_name_escaping_scheme: values' 'metric_name_escaping_scheme: x' \
            'metric_name_validation_scheme: legacy, metric_name_escaping_scheme: allow-utf-8' 'metric_name_validation_scheme: x'; do
            config "global: {$g}
scrape_configs: [{job_name: a${v:+, metric_name_validation_scheme: $v}${e:+, metric_name_escaping_scheme: $e}}]"
        done
    done
done
for p in '[]' null '[PrometheusText0.0.4]' '[PrometheusProto]' '[PrometheusText0.0.4, PrometheusText0.0.4]' '[PrometheusProto, prometheusproto]' '[text]' '[""]' text; do
    config "global: {scrape_protocols: $p}"
    config "scrape_configs: [{job_name: a, scrape_protocols: $p}]"
done
for p in '' null PrometheusText0.0.4 PrometheusText1.0.0 OpenMetricsText0.0.1 OpenMetricsText1.0.0 PrometheusProto openmetricstext1.0.0 text; do
    config "scrape_configs: [{job_name: a, fallback_scrape_protocol: $p}]"
done
config 'global: {metric_name_validation_scheme: x, metric_name_escaping_scheme: y}'
# UTF-8 names in rules and labels of targets stay valid with the legacy scheme.
printf 'groups: [{name: g, rules: [{record: "a.b", expr: up, labels: {"c.d": e}}]}]\n' >"$dir/rules.yml"
config 'global: {metric_name_validation_scheme: legacy}
rule_files: [rules.yml]
scrape_configs: [{job_name: a, static_configs: [{targets: [], labels: {"e.f": g}}]}]'
config 'global: {metric_name_validation_scheme: legacy, external_labels: {"a.b": c}}'
# Targets and replacements of relabeling, for all places of relabel configs.
for relabel in 'source_labels: [x.y], target_label: z.z' 'target_label: "z${1}_$2"' 'target_label: "z$"' 'target_label: "$1.a"' \
    'target_label: "${1"' 'target_label: "9$1"' 'target_label: "$1$2"' 'target_label: 9a' 'target_label: a9' \
    'action: labelmap, regex: "(.+)", replacement: "l.$1"' 'action: labelmap, regex: "(.+)", replacement: "l_$1"' \
    'action: lowercase, source_labels: [a], target_label: a.b' 'action: lowercase, source_labels: [a], target_label: "a$1"' \
    'action: hashmod, modulus: 2, source_labels: [a], target_label: a.b' 'action: keepequal, source_labels: [a], target_label: a.b' \
    'action: keep, source_labels: [a], target_label: a.b' 'action: labeldrop, regex: a.b'; do
    for at in 'scrape_configs: [{job_name: a, relabel_configs: [{%s}]}]' 'scrape_configs: [{job_name: a, metric_relabel_configs: [{%s}]}]' \
        'remote_write: [{url: "http://h", write_relabel_configs: [{%s}]}]' 'alerting: {alert_relabel_configs: [{%s}]}' \
        'alerting: {alertmanagers: [{relabel_configs: [{%s}]}]}' 'alerting: {alertmanagers: [{alert_relabel_configs: [{%s}]}]}'; do
        config "global: {metric_name_validation_scheme: legacy}
$(printf "$at" "$relabel")"
    done
done
echo "ok: $checked configurations are accepted or rejected by both"
