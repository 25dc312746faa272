#!/bin/sh
# The configurations of docs/beyond-one-machine.md with the real programs: an engine sends to Prometheus, Thanos, VictoriaMetrics and
# vmagent. Each must have each sample, also after an outage of AWAY seconds, and the staleness markers. With LONG=1, the receivers
# also hang for this time and are killed, and the age of the adapter's values is measured.
. "$(dirname "$0")/lib.sh"
need curl jq python3
cd "$source"
. "$source/tests/integration/docs_lib.sh"
extract docs/beyond-one-machine.md
away=${AWAY:-6}
peers=$source/tests/differential
thanos=$("$peers/go_programs.sh" thanos --no-build 2>/dev/null) || thanos=
victoria=$("$peers/go_programs.sh" victoriametrics --no-build 2>/dev/null) || victoria=
[ "$thanos$victoria" ] || skip "neither Thanos nor VictoriaMetrics has been built (make peers)"
prometheus=$(GPUSCALE_PROMETHEUS3_COMMANDS=prometheus "$peers/prometheus3.sh" --no-build 2>/dev/null) || prometheus=
[ "$prometheus" ] || command -v prometheus >/dev/null || skip "prometheus is not installed"
PATH=$prometheus:$thanos:$victoria:$PATH
receivers=prometheus
[ ! "$thanos" ] || receivers="$receivers thanos"
[ ! "$victoria" ] || receivers="$receivers victoriametrics vmagent"

# --- programs: each address of the page is a port of this machine ---

for address in exporter:9400 engine:9090 prometheus:9090 thanos-receive:19291 thanos-receive:10901 thanos-receive:10902 thanos-sidecar:10901 thanos-sidecar:10902 \
    thanos-query:10901 thanos-query:10902 victoria-metrics:8428 vmagent:8429 vmagent:8430; do
    echo "s/$address/127.0.0.1:$(free_port)/g"
done >"$dir/addresses.sed"
amazon=https://aps-workspaces.eu-west-1.amazonaws.com
echo "s#$amazon#http://127.0.0.1:$(free_port)#g; s#/etc/azure/secret#$dir/secret#" >>"$dir/addresses.sed"
echo secret >"$dir/secret"
# at ADDRESS
at() { echo "$1" | sed -f "$dir/addresses.sed"; }
for file in "$dir"/files/*; do
    sed -f "$dir/addresses.sed" "$file" >"$dir/file"
    mv "$dir/file" "$file"
done

# begin NAME FILE PATTERN FLAGS…: starts the command in FILE of the page that begins with PATTERN, with these additional flags.
begin() {
    name=$1 command=$(grep "^$3" "$dir/files/$2.sh" | sed "s#=data#=$dir/data-$1#g; s#=server.yml#=$dir/server.yml#")
    shift 3
    [ "$command" ] || fail "the page has no command for $name"
    eval "exec $command \"\$@\"" >>"$dir/$name.log" 2>&1 &
    echo $! >"$dir/$name.pid"
}
# end NAME [SIGNAL]
end() {
    kill "-${2:-TERM}" "$(cat "$dir/$1.pid")"
    wait "$(cat "$dir/$1.pid")" || true
    rm "$dir/$1.pid"
}
start_prometheus() { begin prometheus prometheus prometheus --web.listen-address="$(at prometheus:9090)" --storage.tsdb.path="$dir/data-prometheus" --log.level=warn; }
start_thanos() {
    begin thanos thanos 'thanos receive' --http-address="$(at thanos-receive:10902)" --grpc-address="$(at thanos-receive:10901)" \
        --remote-write.address="$(at thanos-receive:19291)" --log.level=warn
}
start_thanos_sidecar() {
    begin thanos_sidecar thanos 'thanos sidecar' --http-address="$(at thanos-sidecar:10902)" --grpc-address="$(at thanos-sidecar:10901)" --log.level=warn \
        --tsdb.path="$dir"
}
start_thanos_query() { begin thanos_query thanos 'thanos query' --http-address="$(at thanos-query:10902)" --grpc-address="$(at thanos-query:10901)" --log.level=warn "$@"; }
start_victoriametrics() { begin victoriametrics victoriametrics victoria -httpListenAddr="$(at victoria-metrics:8428)" -loggerLevel=WARN "$@"; }
start_vmagent() {
    begin vmagent vmagent vmagent -httpListenAddr="$(at vmagent:8429)" -loggerLevel=WARN -remoteWrite.label=via=vmagent \
        -remoteWrite.tmpDataPath="$dir/data-vmagent"
}
# start_engine NAME ADDRESS
start_engine() {
    "$gpuscale" engine --config.file="$dir/$1.yml" --web.listen-address="$2" >>"$dir/$1.log" 2>&1 &
    echo $! >"$dir/$1.pid"
}
start_exporter() {
    "$gpuscale" exporter --simulate 2xA100-SXM4-80GB --address "$(at exporter:9400)" >>"$dir/exporter.log" 2>&1 &
    echo $! >"$dir/exporter.pid"
}
# url RECEIVER: where its samples are queried.
url() {
    case $1 in
    prometheus) echo "http://$(at prometheus:9090)" ;;
    thanos) echo "http://$(at thanos-query:10902)" ;;
    *) echo "http://$(at victoria-metrics:8428)" ;;
    esac
}
# series RECEIVER: what selects the series that it got.
series() { case $1 in vmagent) echo '{job="gpu",replica="a",via="vmagent"}' ;; *) echo '{job="gpu",replica="a",via=""}' ;; esac }
# value URL QUERY [TIME]
value() { curl -sS -G "$1/api/v1/query" --data-urlencode "query=$2" -d "time=${3:-$(date +%s.%N)}" | jq -r '.data.result[0].value[1] // empty'; }

printf 'global: {}\n' >"$dir/server.yml"
{
    cat "$dir/files/engine.yml"
    echo 'remote_write:'
    for r in $receivers; do grep -v '^remote_write:' "$dir/files/$r.yml"; done
} >"$dir/engine.yml"
sed 's/replica: a/replica: b/' "$dir/engine.yml" >"$dir/engine_b.yml"
{
    [ ! "$victoria" ] || sed -e '/^remote_write:/d; s/name: vmagent/name: amazon/' -e "s/$(at vmagent:8429)/$(at vmagent:8430)/" "$dir/files/vmagent.yml"
} >>"$dir/engine.yml"
for file in "$dir"/files/*.yml "$dir/engine.yml"; do
    "$gpuscale" check config "$file" >"$dir/check.txt" 2>&1 && ! grep -i warn "$dir/check.txt" || { cat "$dir/check.txt"; fail "check config $file"; }
done
own_gpus beyond
start_exporter
for r in $receivers; do "start_$r"; done
[ ! "$thanos" ] || start_thanos_query
start_engine engine "$(at engine:9090)"
engine_url=http://$(at engine:9090)

# --- every sample, also of the time of an outage ---

arrived() { [ -n "$(value "$(url "$1")" "count($(series "$1"))")" ]; }
for r in $receivers; do wait_for "samples arrive at $r" arrived "$r"; done
from=$(date +%s)
up_at() { value "$engine_url" "max(timestamp(up{job=\"gpu\"}) >= $1)"; }
# compare RECEIVER FROM TO
compare() {
    python3 -B "$source/tests/integration/compare_samples.py" "$engine_url" "$(url "$1")" "$2" "$3" '{job="gpu"}' "$(series "$1")" >"$dir/diff" 2>&1
}
# all_equal WHAT: each receiver has the samples from the start until now.
all_equal() {
    to=$(date +%s)
    later() { [ -n "$(up_at "$((to + 1))")" ]; }
    wait_for "the engine has newer samples" later
    for r in $receivers; do
        same() { compare "$r" "$from" "$to"; }
        wait_same "$r has the samples of the engine $1"
        echo "ok: $r $1: $(head -n 1 "$dir/diff")"
    done
}
sleep 3
all_equal "at first"
for r in $receivers; do end "$r"; done
sleep "$away"
for r in $receivers; do "start_$r"; done
all_equal "after an outage of $away s"
if [ "${LONG:-}" ]; then
    for r in $receivers; do kill -STOP "$(cat "$dir/$r.pid")"; done
    sleep "$away"
    for r in $receivers; do kill -CONT "$(cat "$dir/$r.pid")"; done
    all_equal "after it hung for $away s"
    # VictoriaMetrics keeps received samples in memory for up to five seconds.
    for r in $receivers; do end "$r" KILL; done
    for r in $receivers; do "start_$r"; done
    for r in $receivers; do wait_for "$r receives again" arrived "$r"; done
    to=$(date +%s)
    sleep 15
    for r in $receivers; do
        compare "$r" "$from" "$to" || true
        echo "after kill -9, $r: $(head -n 1 "$dir/diff")"
    done
    from=$to
fi

# --- what doctor finds ---

# doctor_finds URL CHECK: the first finding, or `healthy`.
doctor_finds() {
    "$gpuscale" doctor --prometheus="$1" -o json >"$dir/report.json" || true
    [ "$(jq -r '.findings[0].check // .result' "$dir/report.json")" = "$2" ]
}
for r in $receivers; do wait_for "doctor finds nothing at $r" doctor_finds "$(url "$r")" healthy; done
if [ "$victoria" ]; then
    end victoriametrics
    start_victoriametrics -search.latencyOffset=30s # the default
    wait_for "doctor finds the default of VictoriaMetrics" doctor_finds "$(url victoriametrics)" source-delay
    wait_for "but not if the URL of the page is used" doctor_finds "$(url victoriametrics)/?nocache=1" healthy
    end victoriametrics
    start_victoriametrics
    wait_for "doctor finds nothing with the documented flag" doctor_finds "$(url victoriametrics)" healthy
fi

# --- the age of the values of an adapter ---

# ages COMMAND…: calls a command that prints the time of a sample 40 times, at any time of the second, and prints how old it is.
ages() {
    for n in $(seq 40); do
        echo "$(date +%s.%N) $("$@")"
        sleep "0.$(shuf -i 10-99 -n 1)"
    done | awk '$2 { printf "%.2f\n", $1 - $2 }' | sort -n |
        awk '{ a[NR] = $1 } END { printf "of %d values: %.2f s at p50, %.2f s at p90, %.2f s at most", NR, a[int((NR + 1) / 2)], a[int(NR * 0.9)], a[NR] }'
}
newest() { value "$1" "max(timestamp(DCGM_FI_DEV_GPU_TEMP))"; }
served() {
    curl -sk --cert "$dir/client-certificate.pem" --key "$dir/client-key.pem" "https://127.0.0.1:$adapter/apis/external.metrics.k8s.io/v1beta1/namespaces/default/sampled" |
        jq -r '.items[0].value // empty | if endswith("m") then (.[:-1] | tonumber / 1000) else . end'
}
if [ "${LONG:-}" ]; then
    start_up --gpus none
    for name in certificate-authority client-certificate client-key; do
        awk -v key="$name-data:" '$1 == key { print $2; exit }' "$KUBECONFIG" | base64 -d >"$dir/$name.pem"
    done
    cat >"$dir/rules.yaml" <<'Y'
externalRules:
- seriesQuery: DCGM_FI_DEV_GPU_TEMP
  name: {as: sampled}
  resources: {namespaced: false}
  metricsQuery: max(timestamp(<<.Series>>{<<.LabelMatchers>>}))
Y
    for r in engine $receivers; do
        [ "$r" != vmagent ] || continue
        source_url=$engine_url
        [ "$r" = engine ] || source_url=$(url "$r")
        adapter=$(free_port)
        "$gpuscale" adapter --config="$dir/rules.yaml" --prometheus-url="$source_url" --secure-port="$adapter" --bind-address=127.0.0.1 \
            --cert-dir="$dir/cert-$r" --lister-kubeconfig="$KUBECONFIG" --authentication-kubeconfig="$KUBECONFIG" --authorization-kubeconfig="$KUBECONFIG" \
            --authentication-skip-lookup --client-ca-file="$dir/certificate-authority.pem" --metrics-relist-interval=1s >"$dir/adapter.log" 2>&1 &
        echo $! >"$dir/adapter.pid"
        serves() { [ "$(served)" ]; }
        wait_for "the adapter serves from $r" serves
        echo "age in $r $(ages newest "$source_url")"
        echo "age in an adapter of $r $(ages served)"
        end adapter
    done
    stop_up
fi

# --- two replicas ---

start_engine engine_b "127.0.0.1:$(free_port)"
has_both() { [ "$(value "$(url "$1")" 'count(count by (replica) (up{job="gpu"}))')" = 2 ]; }
wait_for "Prometheus has both replicas" has_both prometheus
wait_for "doctor finds the replicas" doctor_finds "$(url prometheus)" source-replicas
if [ "$thanos" ]; then
    start_thanos_sidecar
    of_sidecar=http://127.0.0.1:$(free_port)
    begin thanos_query_sidecar thanos 'thanos query' --http-address="${of_sidecar#http://}" --grpc-address="127.0.0.1:$(free_port)" --log.level=warn \
        --endpoint-strict="$(at thanos-sidecar:10901)"
    to=$(date +%s)
    same() {
        python3 -B "$source/tests/integration/compare_samples.py" "$engine_url" "$of_sidecar?dedup=false" "$from" "$to" '{job="gpu"}' \
            '{job="gpu",receive=""}' >"$dir/diff" 2>&1
    }
    wait_same "the sidecar has the samples of the engine"
    echo "ok: sidecar: $(head -n 1 "$dir/diff")"
    end thanos_query_sidecar
    end thanos_sidecar

    gpus() { [ "$(value "$(url thanos)" "count(DCGM_FI_DEV_GPU_TEMP)")" = 2 ]; }
    wait_for "Thanos has one series of each GPU" gpus
    wait_for "doctor finds nothing at Thanos" doctor_finds "$(url thanos)" healthy
    wait_for "doctor finds the replicas if they are not joined" doctor_finds "$(url thanos)/?dedup=false" source-replicas
    end thanos
    wait_for "doctor finds that Thanos lacks a store" doctor_finds "$(url thanos)" source-partial
    start_thanos
fi
end engine_b

# --- Amazon: requests are signed with static keys, and with the credentials of a role of a workload identity ---

if [ "$victoria" ]; then
    echo -n 'identity of the pod' >"$dir/token"
    amazon=$(at "$amazon")
    python3 -B "$source/tests/integration/sigv4_server.py" "${amazon##*:}" "$dir/token" >"$dir/amazon.log" 2>&1 &
    echo $! >"$dir/amazon.pid"
    # accepted KEY: samples of this access key
    accepted() { curl -sS "$amazon/state" >"$dir/state.json" && [ "$(jq ".samples.$1 // 0" "$dir/state.json")" -gt 0 ]; }
    start_amazon() {
        begin vmagent_amazon amazon vmagent -httpListenAddr="$(at vmagent:8430)" -loggerLevel=WARN -remoteWrite.tmpDataPath="$dir/data-amazon" "$@"
    }
    wait_for "Amazon" curl -sS "$amazon/state"
    export AWS_ACCESS_KEY_ID=AKIDSTATIC AWS_SECRET_ACCESS_KEY=static+secret/key
    start_amazon
    wait_for "requests are signed with the access key" accepted AKIDSTATIC
    end vmagent_amazon
    unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
    export AWS_WEB_IDENTITY_TOKEN_FILE="$dir/token" AWS_ROLE_ARN=arn:aws:iam::123456789012:role/gpuscale
    start_amazon -remoteWrite.aws.stsEndpoint="$amazon/"
    wait_for "requests are signed with the credentials of the role" accepted ASIAROLE
    end vmagent_amazon
    unset AWS_WEB_IDENTITY_TOKEN_FILE AWS_ROLE_ARN
    jq -e '.refused == [] and (.roles | unique == ["arn:aws:iam::123456789012:role/gpuscale"])' "$dir/state.json" >/dev/null ||
        { cat "$dir/state.json"; fail "refused requests"; }
fi

# --- federation, and shards ---

sed 's/15s/1s/' "$dir/files/federation.yml" >"$dir/federation.yml"
federating=http://127.0.0.1:$(free_port)
start_engine federation "${federating#http://}"
federated() { [ "$(value "$federating" 'count(DCGM_FI_DEV_GPU_TEMP)')" = 2 ]; }
wait_for "federation" federated
end federation
all_targets=$(seq 20 | sed 's/.*/127.0.0.1:&/')
for shard in 0 1; do
    sed -e "s/targets: [^]]*\]/targets: [$(echo "$all_targets" | sed 's/.*/"&"/' | paste -sd,)]/; s/regex: \"0\"/regex: \"$shard\"/" "$dir/files/shard.yml" >"$dir/shard$shard.yml"
    port=$(free_port)
    echo "http://127.0.0.1:$port/api/v1/targets?state=active" >>"$dir/shards"
    start_engine "shard$shard" "127.0.0.1:$port"
done
targets_of_shard() { curl -sS "$1" | jq -er '.data.activeTargets | if . == [] then error else .[].labels.instance end'; }
each_once() {
    { targets_of_shard "$(head -n 1 "$dir/shards")" && targets_of_shard "$(tail -n 1 "$dir/shards")"; } >"$dir/targets" &&
        [ "$(sort "$dir/targets")" = "$(echo "$all_targets" | sort)" ]
}
wait_for "each target is in one of the shards" each_once
end shard0
end shard1

# --- staleness: the series end with the scrape that fails ---

end exporter
# The times of the last scrape that succeeded and the first one that failed.
scrapes() {
    curl -sS -G "$engine_url/api/v1/query" --data-urlencode 'query=up{job="gpu"}[5m]' |
        jq -er '.data.result[0].values | [(map(select(.[1] == "1")) | last), (map(select(.[1] == "0")) | first) | .[0] // error] | @tsv' >"$dir/scrapes"
}
wait_for "a scrape fails" scrapes
read -r good bad <"$dir/scrapes"
for r in $receivers; do
    labels=$(series "$r" | tr -d '{}')
    has_failed() { [ "$(value "$(url "$r")" "up{$labels}" "$bad")" = 0 ]; }
    wait_for "$r has the failed scrape" has_failed
    [ -z "$(value "$(url "$r")" "count(DCGM_FI_DEV_GPU_TEMP{$labels})" "$bad")" ] || fail "$r has a value of an exporter that is gone"
    [ "$(value "$(url "$r")" "count(DCGM_FI_DEV_GPU_TEMP{$labels})" "$good")" = 2 ] || fail "$r lacks the values before"
done
echo "ok: the series end with the scrape that fails"
