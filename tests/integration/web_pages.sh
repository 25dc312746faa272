#!/bin/sh
# All pages of the web interface in Debian's Chromium, under a route prefix and with a password.
. "$(dirname "$0")/lib.sh"
need curl chromium chromedriver
/usr/bin/python3 -c 'import selenium' 2>/dev/null || skip "python3-selenium is not installed (tools/install-deps web)"

own_gpus web
"$gpuscale" exporter --simulate 4xA100-SXM4-80GB --address 127.0.0.1:29400 >"$dir/exporter.log" 2>&1 &
pids=$!
wait_for "the simulated exporter listens" grep -q 'http://127.0.0.1:29400/metrics' "$dir/exporter.log"

cat >"$dir/rules.yml" <<'Y'
groups:
- name: '<img src=x onerror=window.hacked=1>'
  rules:
  - {record: 'gpu:util:avg', expr: 'avg by (gpu) (DCGM_FI_DEV_GPU_UTIL)'}
  - alert: TargetDown
    expr: up == 0
    labels: {severity: '<img src=x onerror=window.hacked=1>'}
    annotations: {summary: 'Target <img src=x onerror=window.hacked=1>'}
  - {alert: GpuIdle, expr: DCGM_FI_DEV_GPU_UTIL < 50, for: 1h}
Y
cat >"$dir/prometheus.yml" <<Y
global: {scrape_interval: 500ms, evaluation_interval: 500ms}
rule_files: ["$dir/rules.yml"]
scrape_configs:
- {job_name: gpu, static_configs: [{targets: ["127.0.0.1:29400"]}]}
- job_name: hostile
  static_configs: [{targets: ["127.0.0.1:29500"], labels: {target: '<img src=x onerror=window.hacked=1>'}}]
- {job_name: slow, scrape_interval: 25s, scrape_timeout: 25s, metrics_path: /slow, static_configs: [{targets: ["127.0.0.1:29500"]}]}
- {job_name: dead, static_configs: [{targets: ["127.0.0.1:1"]}]}
- job_name: dropped
  static_configs: [{targets: ["127.0.0.1:2"]}]
  relabel_configs: [{action: drop, source_labels: [__address__], regex: .*}]
Y
# The cluster of pages.py.
cat >"$dir/kubeconfig" <<'Y'
{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "http://127.0.0.1:29501"}}], contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {}}]}
Y
# The password "secret".
cat >"$dir/web.yml" <<'Y'
basic_auth_users: {reader: '$2b$04$vCsYbLG0Ap.UYUEjRAa6cezpV0HGzYrp4KM8yyTpkfYv4iKeZttcy'}
Y
/usr/bin/python3 "$source/tests/web/pages.py" "$dir" 29090 "$gpuscale" engine --config.file="$dir/prometheus.yml" \
    --web.listen-address=127.0.0.1:29090 --web.external-url=http://127.0.0.1:29090/sub/ --web.config.file="$dir/web.yml" --kubeconfig="$dir/kubeconfig" ||
    fail "the pages: see above"
