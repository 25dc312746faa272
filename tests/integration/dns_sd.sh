#!/bin/sh
# dns_sd_configs: the engine and a Prometheus 3 must create the same targets from the same name
# server, and report the same errors in configurations. Runs with its own network and resolv.conf.
if [ -z "${DNS_SD_INSIDE:-}" ]; then
    unshare -rnm true 2>/dev/null || { echo "skipped: no namespaces"; exit 77; }
    command -v ip >/dev/null || { echo "skipped: ip is not installed"; exit 77; }
    exec unshare -rnm env DNS_SD_INSIDE=1 "$0"
fi
ip link set lo up
. "$(dirname "$0")/pages_lib.sh"
need python3

printf 'nameserver 127.0.0.9\nnameserver 127.0.0.1\nsearch one.example two.example\n' >"$dir/resolv.conf"
mount --bind "$dir/resolv.conf" /etc/resolv.conf || skip "resolv.conf cannot be replaced"
cat >"$dir/zone" <<'Z'
gpu.two.example A 10.0.0.1
gpu.two.example A 10.0.0.2
gpu.two.example AAAA fd00::1
gpu.two.example AAAA ::ffff:10.0.0.3
_metrics._tcp.gpu.example SRV 0 5 9400 node0.gpu.example
_metrics._tcp.gpu.example SRV 0 5 9401 node1.gpu.example
mail.example MX 10 mx1.example
zone.example NS ns1.example
alias.example CNAME gpu.two.example
alias.example A 10.0.0.9
empty.example AAAA fd00::9
sick.example SERVFAIL
sick.one.example SERVFAIL
silent.one.example NONE
silent.two.example A 10.0.0.7
Z
for i in $(seq 1 200); do echo "big.example SRV 0 5 $((9000 + i)) node-with-a-long-name-$i.gpu.example"; done >>"$dir/zone"
python3 "$source/tests/integration/dns_server.py" "$dir/zone" >"$dir/dns.out" 2>"$dir/dns.log" &
echo $! >"$dir/dns.pid"
wait_for "names are served" grep -q serving "$dir/dns.out"

printf 'global: {scrape_interval: 5m}\nscrape_configs:\n' >"$dir/prometheus.yml"
job() { printf -- '- {job_name: %s, dns_sd_configs: [{refresh_interval: 1s, %s}]}\n' "$1" "$2" >>"$dir/prometheus.yml"; }
job a 'names: [gpu], type: A, port: 9400'
job aaaa 'names: [gpu.two.example.], type: aaaa, port: 9400'
job srv 'names: [_metrics._tcp.gpu.example]'
job srv_port 'names: [_metrics._tcp.gpu.example], type: SRV, port: 1'
job mx 'names: [mail.example], type: MX, port: 25'
job ns 'names: [zone.example], type: NS, port: 53'
job alias 'names: [alias.example], type: A, port: 9400'
job empty 'names: [empty.example, empty.example.], type: A, port: 9400'
job none 'names: [none.example, nowhere], type: A, port: 9400'
job sick 'names: [sick.example, sick, gpu], type: A, port: 9400'
job silent 'names: [silent], type: A, port: 9400'
job big 'names: [big.example]'
job odd 'names: ["a..b", "gpu", ""], type: A, port: 99999'
start_both "$cache/prometheus"

about() {
    curl -sS "$1/api/v1/targets" >"$dir/targets"
    jq -cS '.data.activeTargets[] | [.scrapePool, .scrapeUrl, .labels, .discoveredLabels]' "$dir/targets" | sort
    jq -cS '.data.droppedTargets[], .data.droppedTargetCounts' "$dir/targets" | sort
    curl -sS "$1/metrics" | sed -n '/^prometheus_sd_discovered_targets.*scrape/p; /^prometheus_sd_dns_/s/ .*//p; /^prometheus_sd_refresh_.*dns/s/ [^ ]*$//p' | grep -v quantile | sort
}
compare 'answers at the start' '10.0.0.7:9400'
[ "$(grep -c '"job":"big"' "$dir/got")" = 200 ] || fail "a response over TCP is incomplete"

# On NXDOMAIN, targets are removed. On a failed lookup, they are kept.
sed -i '/^gpu.two.example A /d; s/^_metrics._tcp.gpu.example.*/_metrics._tcp.gpu.example SERVFAIL/' "$dir/zone"
echo 'mail.example MX 20 mx2.example' >>"$dir/zone"
compare 'other answers' 'mx2.example:25'
compare 'other answers' '"job":"srv"'
wait_for "lookups that fail are counted" sh -c "curl -sS $ours/metrics | grep -q '^prometheus_sd_dns_lookup_failures_total [1-9]'"

for s in 'names: [a]' '' 'names: []' 'names: a' 'names: [a], type: A' 'names: [a], type: A, port: 1' 'names: [a], type: x' 'names: [a], type: ""' 'names: [a], type: srv' \
    'names: [a], type: mx, port: 0' 'names: [a], refresh_interval: x' 'names: [a], refresh_interval: 1m' 'names: [a], more: 1' 'names: [1, true]' 'names: [a], port: x'; do
    config "scrape_configs: [{job_name: a, dns_sd_configs: [{$s}]}]"
    config "alerting: {alertmanagers: [{dns_sd_configs: [{$s}]}]}"
done
config "scrape_configs: [{job_name: a, dns_sd_configs: [null]}]"
echo "ok: $checked configurations are accepted or rejected by both"
