#!/bin/sh
# Targets after relabeling, files and defaults: the engine and a Prometheus 3 must have the same
# active and dropped targets, with the same addresses, labels and times.
. "$(dirname "$0")/pages_lib.sh"

i=0
job() {
    i=$((i + 1))
    printf -- '- {job_name: j%02d, %s}\n' "$i" "$1" >>"$dir/prometheus.yml"
}
S='static_configs: [{targets: [h, "h:80", "h:443", "1.2.3.4", "[::1]", "[::1]:9", "h:x", "h:"], labels: {a: b, __x: y}}]'
printf 'global: {scrape_interval: 30s}\nscrape_configs:\n' >"$dir/prometheus.yml"
job "$S"
job "$S, scheme: https"
job "$S, scheme: gopher"
job "$S, metrics_path: 'm?a=b'"
job "$S, metrics_path: '/m?a=b', params: {z: ['1', '2'], a: ['x y/ü']}"
job "$S, relabel_configs: [{target_label: __scheme__, replacement: https}]"
job "$S, relabel_configs: [{target_label: __metrics_path__, replacement: '/x y'}]"
job "$S, relabel_configs: [{target_label: __param_a, replacement: 'q&r'}]"
job "$S, relabel_configs: [{target_label: __scrape_interval__, replacement: 7s}]"
job "$S, relabel_configs: [{target_label: __scrape_interval__, replacement: x}]"
job "$S, relabel_configs: [{target_label: __scrape_interval__, replacement: '0s'}]"
job "$S, relabel_configs: [{target_label: __scrape_timeout__, replacement: '1h'}]"
job "$S, relabel_configs: [{target_label: __scrape_timeout__, replacement: ''}]"
job "$S, relabel_configs: [{target_label: __address__, replacement: ''}]"
job "$S, relabel_configs: [{target_label: __address__, replacement: 'a/b'}]"
job "$S, relabel_configs: [{target_label: instance, replacement: me}]"
job "$S, relabel_configs: [{target_label: instance, replacement: ''}]"
job "$S, relabel_configs: [{target_label: job, replacement: other}]"
job "$S, relabel_configs: [{target_label: job, replacement: ''}]"
job "$S, relabel_configs: [{action: labelmap, regex: '__(x)', replacement: 'm_\$1'}]"
job "$S, relabel_configs: [{action: labeldrop, regex: '__.*'}]"
job "$S, relabel_configs: [{action: labelkeep, regex: '__address__|a'}]"
job "$S, relabel_configs: [{source_labels: [a], regex: '(.)', target_label: '\${1}x', replacement: 'v\$1\$2\$\$'}]"
job "$S, relabel_configs: [{source_labels: [a], regex: '(?P<n>.)', target_label: 'k', replacement: '\${n}\$n \$nn'}]"
job "$S, relabel_configs: [{source_labels: [a, nothing], separator: '', target_label: 'k'}]"
job "$S, relabel_configs: [{source_labels: [a], regex: nomatch, target_label: a, replacement: ''}]"
job "$S, relabel_configs: [{source_labels: [__address__], modulus: 7, target_label: m, action: hashmod}]"
job "$S, relabel_configs: [{source_labels: [a], target_label: U, action: uppercase}, {source_labels: [U], target_label: a, action: keepequal}]"
job "$S, relabel_configs: [{target_label: __tmp_q, replacement: z}, {source_labels: [__tmp_q], target_label: 'utf.8', replacement: 'ü'}]"
job "static_configs: [{targets: ['d:1','d:1']},{targets: ['d:1'], labels: {job: mine, instance: i, __scheme__: https, __metrics_path__: /own, __param_p: v, __scrape_interval__: 3s}}]"
job "scrape_interval: 1h, scrape_timeout: 90s, static_configs: [{targets: ['d:1']}]"
job "scrape_interval: 1500ms, static_configs: [{targets: ['d:1']}]"
job "file_sd_configs: [{files: [sd/a.json]}]"
job "file_sd_configs: [{files: ['sd/a2.json', 'sd/*.yml', 'sd/none*.json']}]"
mkdir "$dir/sd"
cat >"$dir/sd/a.json" <<'J'
[{"targets":["f1:1","f2"],"labels":{"x":"1","__meta_y":"z","n":5}},{"targets":["f3:1"]},{"targets":[]}]
J
cat >"$dir/sd/a2.json" <<'J'
[{"targets":["f1:1","f2"],"labels":{"x":"1","__meta_y":"z"}},{"targets":["f3:1"]},{"targets":[],"labels":{"a":"b"}}]
J
cat >"$dir/sd/b.yml" <<'J'
- targets: ['y1:1', "y1:1"]
  labels: {a: 5, b: true, c: 1.0}
- targets: [y2:99999]
J
start_both "$cache/prometheus"
# about URL
about() {
    curl -sS "$1/api/v1/targets" >"$dir/targets"
    jq -cS '.data.activeTargets[] | [.scrapePool, .scrapeUrl, .globalUrl, .labels, .discoveredLabels, .scrapeInterval, .scrapeTimeout]' "$dir/targets" | sort
    jq -cS '.data.droppedTargets[], .data.droppedTargetCounts' "$dir/targets" | sort
}
compare 'the targets' y1:1
[ "$(wc -l <"$dir/got")" -gt 100 ] || fail "there are only few"
