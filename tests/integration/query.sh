#!/bin/sh
# Compares gpuscale query with promtool, on a real Prometheus and on the engine. Also tests formats,
# errors, exit codes, TLS and users.
. "$(dirname "$0")/lib.sh"
need curl jq promtool prometheus openssl perl

unset GPUSCALE_URL PROMETHEUS_URL http_proxy HTTP_PROXY 2>/dev/null || true

# Rules give both servers the same series without targets.
cat >"$dir/rules.yml" <<'Y'
groups:
- name: made
  rules:
  - {record: util, expr: '40 + time() - time()', labels: {gpu: "0", node: a}}
  - {record: util, expr: '60.5 + time() - time()', labels: {gpu: "1", node: a}}
  - {record: far_total, expr: '1e21 + 0 * time()'}
  - {record: far_total, expr: '1.25e-9 + 0 * time()', labels: {is: "s\"mall"}}
Y
echo "{global: {evaluation_interval: 1s}, rule_files: ['$dir/rules.yml']}" >"$dir/prometheus.yml"

start_both prometheus
engine=$ours peer=$theirs
has_rules() { [ "$(curl -s "$1/api/v1/query?query=count(util)" | jq -r '.data.result[0].value[1]')" = 2 ]; }
wait_for "the engine has series" has_rules "$engine"
wait_for "Prometheus has series" has_rules "$peer"

# same WHAT OUTPUT_A OUTPUT_B
same() {
    [ "$2" = "$3" ] || { printf -- '--- %s: gpuscale:\n%s\n--- promtool:\n%s\n' "$1" "$2" "$3"; fail "$1"; }
}
# Waits until samples up to now are complete.
now=$(date +%s)
is_past() { [ "$(curl -s "$1/api/v1/query?query=count(timestamp(util)%3E$now)" | jq -r '.data.result[0].value[1]')" = 2 ]; }
for server in "$engine" "$peer"; do wait_for "$server has evaluated again" is_past "$server"; done
n=0
for server in "$engine" "$peer"; do
    for expr in 'sort_desc(util)' 'sum(util)' 'sum by (gpu) (util)' 'time()' 'sort(far_total)' 'util[3s]' 'vector(1) / 0' \
        '0 - far_total{is=""}'; do
        for o in promql json; do
            # promtool converts numbers in JSON. gpuscale prints them as the server does.
            case $o$expr in json*far*) continue ;; esac
            ours=$("$gpuscale" query --url="$server" -o $o --time="$now" "$expr")
            theirs=$(promtool query -o $o instant --time="$now" "$server" "$expr" 2>"$dir/err") || theirs=
            [ -n "$theirs" ] || { # 2.x has no --time: what does not depend on it
                case $expr in *time* | *']') continue ;; esac
                ours=$("$gpuscale" query --url="$server" -o $o "$expr")
                theirs=$(promtool query -o $o instant "$server" "$expr")
                strip='s/@\[[0-9.]*\]/@/g; s/"value":\[[0-9.]*,/"value":[T,/g'
                ours=$(printf %s "$ours" | sed "$strip") theirs=$(printf %s "$theirs" | sed "$strip")
            }
            same "$server -o $o $expr" "$ours" "$theirs"
            n=$((n + 1))
        done
    done
    for o in promql json; do
        same "range -o $o" "$("$gpuscale" query range --url="$server" -o $o --start=$((now - 3)) --end="$now" --step=1s util)" \
            "$(promtool query -o $o range --start=$((now - 3)) --end="$now" --step=1s "$server" util)"
        same "series -o $o" "$("$gpuscale" query series -o $o "$server" util far_total | tr -d ' ' | sort)" \
            "$(promtool query -o $o series --match=util --match=far_total "$server" | tr -d ' ' | sort)"
        same "labels -o $o" "$("$gpuscale" query labels -o $o "$server" gpu)" "$(promtool query -o $o labels "$server" gpu)"
        n=$((n + 3))
    done
done
[ "$n" -ge 30 ] || fail "only $n comparisons"
echo "ok: $n results are those of promtool"

export GPUSCALE_URL=$engine
[ "$("$gpuscale" query 'sum(util)' | tail -n 1 | tr -d ' ')" = 100.5 ] || fail "GPUSCALE_URL"
"$gpuscale" query util | grep -q '^1 *60.5$' || fail "the table of util"
"$gpuscale" query util --start=-2s --step=1s | grep -q 'TIME  *gpu="0"  *gpu="1"' || fail "the table of a range"
"$gpuscale" query util -o csv | grep -q '^time,__name__,gpu,node,value$' || fail "CSV"
unset GPUSCALE_URL
[ "$(PROMETHEUS_URL=$peer "$gpuscale" query 'count(util)' -o promql | cut -d ' ' -f 3)" = 2 ] || fail "PROMETHEUS_URL"
[ "$(echo 'count(util)' | "$gpuscale" query --url="$engine" - -o csv | cut -d , -f 2 | tail -n 1)" = 2 ] || fail "-"

# ends CODE TEXT ARGUMENTS…: checks the exit code, and a text on stderr.
ends() {
    want=$1 text=$2 code=0
    shift 2
    "$gpuscale" query "$@" >"$dir/out" 2>"$dir/err" || code=$?
    [ "$code" = "$want" ] || { cat "$dir/err"; fail "query $*: exit code $code"; }
    [ -z "$text" ] || grep -qF -- "$text" "$dir/err" || { cat "$dir/err"; fail "query $*: no \"$text\""; }
}
for server in "$engine" "$peer"; do
    ends 2 'parse error' --url="$server" 'sum(util'
    ends 2 '          ^' --url="$server" 'rate(util[5m)'
    ends 2 'parse error' --url="$server" 'rate(util)'
    ends 1 "$server: execution: " --url="$server" 'util * on (node) util'
    ends 0 "no series at $server" --url="$server" 'nosuch'
    ends 2 'bad_data' --url="$server" series 'util{'
done
ends 0 'info: PromQL info: metric might not be a counter' --url="$engine" 'rate(util[1m])'
ends 1 'connect' --url=http://127.0.0.1:1 util
export GPUSCALE_URL=http://127.0.0.1:1
ends 1 'server http://127.0.0.1:1 (of $GPUSCALE_URL)' util
ends 0 '' --url="$engine" util
unset GPUSCALE_URL
ends 2 'one expression' --url="$engine" instant util util
ends 2 '--output' --url="$engine" -o yaml util
ends 2 'cannot read the time' --url="$engine" --start=yesterday util
ends 2 '--start is after --end' --url="$engine" --start=now --end=-1h util
ends 1 'the response is not that of a Prometheus' --url="$engine/nowhere" util
ends 2 '        ^' --format 'sum('
ends 0 "" --url="$engine" -- "-util"
[ "$("$gpuscale" query --format 'sum by(a)(b)' | tr -d '\n')" = 'sum by (a) (b)' ] || fail "--format"
echo "ok: errors and exit codes"

# TLS and users.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$dir/key.pem" -out "$dir/cert.pem" \
    -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 2>/dev/null
hash=$(perl -e 'print crypt("secret", "\$2b\$04\$abcdefghijklmnopqrstuu")')
printf "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\nbasic_auth_users: {grafana: '%s'}\n" "$hash" >"$dir/web.yml"
"$gpuscale" engine --config.file="$dir/prometheus.yml" --web.listen-address=127.0.0.1:0 --web.config.file="$dir/web.yml" \
    >"$dir/tls.log" 2>&1 &
pids="$pids $!"
wait_for "the engine with TLS is ready" grep -q 'is ready' "$dir/tls.log"
tls=$(sed -n 's#.*listening on \(https://127.0.0.1:[0-9]*\).*#\1#p' "$dir/tls.log")
printf 'tls_config: {ca_file: cert.pem}\nbasic_auth: {username: grafana, password: %s}\n' "secret" >"$dir/http.yml"
printf 'tls_config: {ca_file: cert.pem}\nbasic_auth: {username: grafana, password: wrong}\n' >"$dir/wrong.yml"
printf 'oauth2: {client_id: a, client_secret: b, token_url: "http://127.0.0.1:1/token"}\n' >"$dir/oauth.yml"
printf 'sigv4: {region: a}\n' >"$dir/sigv4.yml"
printf 'basic_aut: {username: grafana}\n' >"$dir/unknown.yml"
ends 0 '' --url="$tls" --http.config.file="$dir/http.yml" 'vector(1)'
curl -sS --cacert "$dir/cert.pem" -u grafana:secret "$tls/api/v1/openapi.yaml" | grep -q 'url: .*https://' ||
    fail "with TLS, the default of --web.external-url is not https"
ends 1 '401' --url="$tls" --http.config.file="$dir/wrong.yml" 'vector(1)'
ends 1 'certificate' --url="$tls" 'vector(1)'
ends 1 'oauth2: cannot fetch token' --url="$tls" --http.config.file="$dir/oauth.yml" 'vector(1)'
ends 1 'sigv4' --url="$tls" --http.config.file="$dir/sigv4.yml" 'vector(1)'
ends 1 'unknown field "basic_aut"' --url="$tls" --http.config.file="$dir/unknown.yml" 'vector(1)'
ends 1 'nowhere.yml' --url="$tls" --http.config.file="$dir/nowhere.yml" 'vector(1)'
basic=$(printf grafana:secret | base64)
printf 'tls_config: {insecure_skip_verify: true}\n' >"$dir/insecure.yml"
ends 0 '' --url="$tls" --http.config.file="$dir/insecure.yml" --header="Authorization=Basic $basic" 'vector(1)'
echo "ok: TLS and users"
