#!/bin/sh
# oauth2: scrapes, remote write, Alertmanagers and HTTP service discovery must request and use
# tokens like a Prometheus 3, and never show secrets.
. "$(dirname "$0")/pages_lib.sh"
need python3

python3 "$source/tests/integration/oauth2_server.py" "$dir" >"$dir/oauth2.port" 2>"$dir/oauth2.log" &
echo $! >"$dir/oauth2.pid"
wait_for "tokens are served" test -s "$dir/oauth2.port"
at=127.0.0.1:$(cat "$dir/oauth2.port")
printf 's3cret one\n' >"$dir/secret"

# auth KIND [SETTINGS]
auth() { echo "oauth2: {client_id: 'my id', token_url: 'http://$at/token/$1'${2:+, $2}}"; }
job() {
    printf -- '- {job_name: %s, metrics_path: /page/%s, static_configs: [{targets: ["%s"]}], %s}\n' "$1" "$1" "$at" "$(auth "$@")" >>"$dir/prometheus.yml"
}
S="client_secret: 's3cret & more'"
cat >"$dir/rules.yml" <<'Y'
groups: [{name: g, interval: 1s, rules: [{alert: Always, expr: vector(1)}]}]
Y
# Intervals are long, so that a slow machine does not cause additional requests.
cat >"$dir/prometheus.yml" <<Y
global: {scrape_interval: 5s, evaluation_interval: 1s}
rule_files: [rules.yml]
remote_write: [{url: "http://$at/write/remote", $(auth remote "$S")}]
alerting: {alertmanagers: [{path_prefix: /am, static_configs: [{targets: ["$at"]}], $(auth am "$S")}]}
scrape_configs:
- {job_name: list, scrape_interval: 1h, http_sd_configs: [{url: "http://$at/sd/sd", refresh_interval: 5s, $(auth sd "$S")}]}
Y
job plain "$S"
job body "$S"
job form "$S"
job short "$S"
job text "$S"
job ever
job mac "$S"
job fail "$S"
job none "$S"
job scopes "$S, scopes: [b, 'a c'], endpoint_params: {z: 'x y', audience: 'ü/&'}"
job grant "endpoint_params: {grant_type: password, client_id: other}"
job file "client_secret_file: secret"
printf -- '- {job_name: proxied, metrics_path: /page/proxied, static_configs: [{targets: ["%s"]}], %s}\n' "$at" \
    "oauth2: {client_id: p, token_url: 'http://token.invalid/token/proxied', proxy_url: 'http://$at'}" >>"$dir/prometheus.yml"
start_both "$cache/prometheus"

# Prints each distinct request, and the states of the targets.
about() {
    [ "$1" = "$ours" ] && sort -u "$dir/ours.asked" || sort -u "$dir/theirs.asked"
    curl -sS "$1/api/v1/targets" | jq -cS '.data.activeTargets[] | select(.scrapePool != "list") | [.scrapePool, .health, (.lastError | test("oauth2"))]' | sort
}
for path in 'GET /sd/sd Bearer tok-sd' 'POST /write/remote Bearer tok-remote' 'POST /am/api/v2/alerts Bearer tok-am' 'GET /page/mac MAC tok-mac'; do
    compare "$path" "^$path\$"
done
compare 'all jobs' '"proxied","up"'
all_up() { same && [ "$(grep -c '"up"' "$dir/got")" = 11 ]; }
wait_for "all jobs have their token" all_up
# A valid token is requested once for all users. An expired token is requested again.
[ "$(grep -c '^token /token/plain ' "$dir/ours.asked")" = 1 ] || fail "a token is requested more than once"
wait_for "an expired token is requested again" sh -c "[ \$(grep -c '^token /token/short ' $dir/ours.asked) -gt 2 ]"
# After a change of the secret's file, the new secret is used.
printf 's3cret two\n' >"$dir/secret"
compare 'another secret in the file' '^token /token/file .my+id:s3cret+two'

# No response contains a secret or token.
curl -sS "$ours/api/v1/status/config" >"$dir/shown"
grep -q 'client_secret: <secret>' "$dir/shown" || fail "the configuration does not show oauth2"
! grep -e s3cret -e tok- "$dir/shown" "$dir/engine.log" || fail "a secret is shown"
! curl -sS "$ours/api/v1/targets" | grep -e s3cret -e tok- || fail "the targets show a secret"

O='client_id: a, token_url: "http://t/"'
for s in "$O" 'client_id: a' 'token_url: b' "$O, client_secret: a, client_secret_file: b" "$O, client_secret: ''" "$O, scopes: x" "$O, scopes: [x]" \
    "$O, endpoint_params: {a: 1}" "$O, endpoint_params: [a]" "$O, tls_config: {insecure_skip_verify: true}" "$O, tls_config: {cert: a}" "$O, tls_config: {ca: a, ca_file: b}" \
    "$O, proxy_url: 'http://p'" "$O, no_proxy: a" "$O, proxy_from_environment: true" "$O, proxy_from_environment: true, proxy_url: 'http://p'" "$O, more: 1"; do
    config "scrape_configs: [{job_name: a, oauth2: {$s}}]"
    config "remote_write: [{url: 'http://h/', oauth2: {$s}}]"
    config "scrape_configs: [{job_name: a, http_sd_configs: [{url: 'http://h/', oauth2: {$s}}]}]"
    config "alerting: {alertmanagers: [{oauth2: {$s}}]}"
done
config "scrape_configs: [{job_name: a, oauth2: {$O}, basic_auth: {username: a}}]"
echo "ok: $checked configurations are accepted or rejected by both"
