#!/bin/sh
# The configurations of docs/beyond-one-machine.md with the real programs: an engine sends to Prometheus, Thanos, VictoriaMetrics,
# vmagent and a cluster of VictoriaMetrics. Each must have each sample, also after an outage of AWAY seconds, and the staleness
# markers. With LONG=1, the receivers also hang for this time and are killed. With AGES=NUMBER, the age of this number of values is
# measured.
# VICTORIAMETRICS_CLUSTER=DIRECTORY: also with vminsert, vmselect and vmstorage of a release.
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
vmcluster=${VICTORIAMETRICS_CLUSTER:-}
PATH=$prometheus:$thanos:$victoria:$vmcluster:$PATH
receivers=prometheus
[ ! "$thanos" ] || receivers="$receivers thanos"
[ ! "$victoria" ] || receivers="$receivers victoriametrics vmagent"
[ ! "$vmcluster" ] || receivers="$receivers vmcluster"
# The programs of a receiver, in the order of their start.
programs() { case $1 in vmcluster) echo vmstorage_0 vmstorage_1 vmcluster ;; *) echo "$1" ;; esac }

# --- programs: each address of the page is a port of this machine ---

for address in exporter:9400 engine:9090 engine-a:9090 engine-b:9090 joined:9090 prometheus:9090 thanos-receive:19291 thanos-receive:10901 thanos-receive:10902 thanos-sidecar:10901 thanos-sidecar:10902 \
    thanos-query:10901 thanos-query:10902 victoria-metrics:8428 vmagent:8429 vmagent:8430 vminsert:8480 vmselect:8481 \
    vmstorage-0:8400 vmstorage-0:8401 vmstorage-0:8482 vmstorage-1:8400 vmstorage-1:8401 vmstorage-1:8482; do
    echo "s/$address/127.0.0.1:$(free_port)/g"
done >"$dir/addresses.sed"
amazon=https://aps-workspaces.eu-west-1.amazonaws.com
azure=http://127.0.0.1:$(free_port)
{
    echo "s#$amazon#http://127.0.0.1:$(free_port)#g; s#/etc/azure/secret#$dir/secret#; s#/etc/store/token#$dir/store-token#"
    echo "s#https://WORKSPACE[^/]*#$azure#; s#https://login.microsoftonline.com#$azure#; s#https://store.example#$azure#"
} >>"$dir/addresses.sed"
echo secret >"$dir/secret"
echo first >"$dir/store-token"
# at ADDRESS
at() { echo "$1" | sed -f "$dir/addresses.sed"; }
for file in "$dir"/files/*; do
    sed -f "$dir/addresses.sed" "$file" >"$dir/file"
    mv "$dir/file" "$file"
done

# begin NAME FILE PATTERN FLAGS…: starts the command in FILE of the page that begins with PATTERN, with these additional flags.
begin() {
    name=$1 command=$(grep "^$3" "$dir/files/$2.sh" | sed "s#^gpuscale #'$gpuscale' #; s#=data#='$dir/data-$1'#g; s#=\([a-z-]*\.yml\)#='$dir/\1'#g")
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
start_vmstorage_0() { start_vmstorage 0; }
start_vmstorage_1() { start_vmstorage 1; }
start_vmstorage() {
    begin "vmstorage_$1" vmcluster vmstorage -httpListenAddr="$(at "vmstorage-$1:8482")" -vminsertAddr="$(at "vmstorage-$1:8400")" \
        -vmselectAddr="$(at "vmstorage-$1:8401")" -loggerLevel=WARN
}
start_vmcluster() { begin vmcluster vmcluster vminsert -httpListenAddr="$(at vminsert:8480)" -loggerLevel=WARN; }
# start RECEIVER
start() { for program in $(programs "$1"); do "start_$program"; done; }
# stop RECEIVER [SIGNAL]: vminsert before the nodes that it sends to.
stop() { for program in $(programs "$1" | tr ' ' '\n' | tac); do end "$program" "${2:-TERM}"; done; }
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
    vmcluster) echo "http://$(at vmselect:8481)/select/0/prometheus" ;;
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
mv "$dir"/files/*-server.yml "$dir"/files/pools*.yml "$dir"
for file in "$dir"/files/*.yml "$dir/engine.yml"; do
    "$gpuscale" check config "$file" >"$dir/check.txt" 2>&1 && ! grep -i warn "$dir/check.txt" || { cat "$dir/check.txt"; fail "check config $file"; }
done
own_gpus beyond
start_exporter
for r in $receivers; do start "$r"; done
[ ! "$thanos" ] || start_thanos_query
[ ! "$vmcluster" ] || begin vmselect vmcluster vmselect -httpListenAddr="$(at vmselect:8481)" -loggerLevel=WARN
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
for r in $receivers; do stop "$r"; done
sleep "$away"
for r in $receivers; do start "$r"; done
all_equal "after an outage of $away s"
if [ "${LONG:-}" ]; then
    # signal_all SIGNAL
    signal_all() { for r in $receivers; do for program in $(programs "$r"); do kill "-$1" "$(cat "$dir/$program.pid")"; done; done; }
    signal_all STOP
    sleep "$away"
    signal_all CONT
    all_equal "after it hung for $away s"
    # VictoriaMetrics keeps received samples in memory for up to ten seconds.
    for r in $receivers; do stop "$r" KILL; done
    for r in $receivers; do start "$r"; done
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
# doctor_says URL TEXT: a finding has this text.
doctor_says() {
    "$gpuscale" doctor --prometheus="$1" -o json >"$dir/report.json" || true
    jq -e --arg text "$2" '[.findings[]? | tostring | contains($text)] | any' "$dir/report.json" >/dev/null
}
is_victoria() { case $1 in v*) return 0 ;; *) return 1 ;; esac }
for r in $receivers; do is_victoria "$r" || wait_for "doctor finds nothing at $r" doctor_finds "$(url "$r")" healthy; done
if [ "$victoria" ]; then
    end victoriametrics
    start_victoriametrics -search.latencyOffset=30s # the default
    wait_for "doctor finds the default of VictoriaMetrics" doctor_says "$(url victoriametrics)" -search.latencyOffset=1s
    corrected() { doctor_finds "$1" healthy || doctor_says "$1" 'up to 4 s later'; }
    wait_for "but not if the URL of the page is used" corrected "$(url victoriametrics)/?nocache=1"
    end victoriametrics
    start_victoriametrics
fi
if [ "$vmcluster" ]; then
    partial() { [ "$(curl -sS "$(url vmcluster)/api/v1/query?query=up" | jq .isPartial)" = "$1" ]; }
    from_of_node=$(date +%s)
    end vmstorage_1
    wait_for "a response without a node is partial" partial true
    wait_for "doctor finds that the cluster lacks a node" doctor_finds "$(url vmcluster)" source-partial
    refused() { [ "$(curl -sS -o "$dir/answer" -w '%{http_code}' "$(url vmcluster)/api/v1/query?query=up&deny_partial_response=1")" = 503 ]; }
    wait_for "and is refused with the URL of the page" refused
    sleep "$away"
    start_vmstorage_1
    wait_for "all nodes answer" partial false
    to=$(date +%s)
    same() { compare vmcluster "$from_of_node" "$to"; }
    wait_same "the cluster has all samples of the time without a node"
    echo "ok: vmcluster without a node for $away s: $(head -n 1 "$dir/diff")"
fi

# --- the age of the values of an adapter ---

# start_api: an API server for adapters, and the certificate of a client.
start_api() {
    start_up --gpus none
    for name in certificate-authority client-certificate client-key; do
        awk -v key="$name-data:" '$1 == key { print $2; exit }' "$KUBECONFIG" | base64 -d >"$dir/$name.pem"
    done
}
# start_adapter NAME FILE PATTERN FLAGS…: as begin. Writes its address into $dir/NAME.address.
start_adapter() {
    name=$1 file=$2 pattern=$3 adapter=$(free_port)
    shift 3
    echo "https://127.0.0.1:$adapter/apis/external.metrics.k8s.io/v1beta1/namespaces/default" >"$dir/$name.address"
    begin "adapter_$name" "$file" "$pattern" --secure-port="$adapter" --bind-address=127.0.0.1 --cert-dir="$dir/cert-$name" \
        --lister-kubeconfig="$KUBECONFIG" --authentication-kubeconfig="$KUBECONFIG" --authorization-kubeconfig="$KUBECONFIG" \
        --authentication-skip-lookup --client-ca-file="$dir/certificate-authority.pem" --metrics-relist-interval=1s --metrics-max-age=1m "$@"
}
# served NAME METRIC: the adapter has a value.
served() {
    curl -sk --cert "$dir/client-certificate.pem" --key "$dir/client-key.pem" "$(cat "$dir/$1.address")/$2" | jq -e '.items[0].value'
}
if [ "${AGES:-}" ]; then
    start_api
    cat >"$dir/rules.yaml" <<'Y'
externalRules:
- seriesQuery: DCGM_FI_DEV_GPU_TEMP
  name: {as: sampled}
  resources: {namespaced: false}
  metricsQuery: max(timestamp(<<.Series>>{<<.LabelMatchers>>}))
Y
    set --
    for r in engine $receivers; do
        [ "$r" != vmagent ] || continue
        source_url=$engine_url
        [ "$r" = engine ] || source_url=$(url "$r")
        start_adapter "$r" adapter 'gpuscale adapter' --config="$dir/rules.yaml" --prometheus-url="$source_url"
        wait_for "the adapter serves from $r" served "$r" sampled
        [ "$r" = engine ] ||
            set -- "$@" "sent to $r=$engine_url/metrics#prometheus_remote_storage_queue_highest_sent_timestamp_seconds{[^}]*remote_name=\"$r\"[^}]*}"
        set -- "$@" "$r=$source_url/api/v1/query?query=max(timestamp(DCGM_FI_DEV_GPU_TEMP))" "adapter of $r=$(cat "$dir/$r.address")/sampled"
    done
    echo "load average before: $(cut -d ' ' -f 1-2 /proc/loadavg)"
    python3 -B "$source/tests/integration/sample_ages.py" "$AGES" "$dir" "$@"
    echo "load average after: $(cut -d ' ' -f 1-2 /proc/loadavg)"
    for r in engine $receivers; do [ "$r" = vmagent ] || end "adapter_$r"; done
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

# --- Azure, and a token in a file: each request has a valid token ---

python3 -B "$source/tests/integration/token_server.py" "${azure##*:}" secret "$dir/store-token" >"$dir/azure.log" 2>&1 &
echo $! >"$dir/azure.pid"
wait_for "Azure" curl -sS "$azure"
{
    cat "$dir/files/engine.yml"
    echo 'remote_write:'
    for r in azure token; do grep -v '^remote_write:' "$dir/files/$r.yml"; done
} >"$dir/engine_tokens.yml"
start_engine engine_tokens "127.0.0.1:$(free_port)"
# counts JQ: this expression is true of the accepted samples by token.
counts() { curl -sS "$azure" >"$dir/state.json" && jq -e ".samples | $1" "$dir/state.json" >/dev/null; }
wait_for "samples are accepted with the token of the file" counts '.first > 0'
wait_for "samples are accepted with several issued tokens" counts '[keys[] | select(startswith("issued"))] | length > 2'
[ "$(jq -c .refused "$dir/state.json")" = '[]' ] || { cat "$dir/state.json"; fail "refused requests"; }
echo second >"$dir/store-token"
wait_for "samples are accepted with the new token of the file" counts '.second > 0'
end engine_tokens

# --- federation, and shards ---

sed 's/15s/1s/' "$dir/files/federation.yml" >"$dir/federation.yml"
federating=http://127.0.0.1:$(free_port)
start_engine federation "${federating#http://}"
federated() { [ "$(value "$federating" 'count(DCGM_FI_DEV_GPU_TEMP)')" = 2 ]; }
wait_for "federation" federated
end federation
# All loopback addresses reach this exporter.
targets_port=$(free_port)
"$gpuscale" exporter --simulate 2xA100-SXM4-80GB --address "0.0.0.0:$targets_port" >>"$dir/exporter_of_shards.log" 2>&1 &
echo $! >"$dir/exporter_of_shards.pid"
all_targets=$(seq 20 | sed "s/.*/127.0.0.&:$targets_port/")
begin joined joined 'gpuscale engine' --web.listen-address="$(at joined:9090)" --storage.path="$dir/data-joined"
for shard in 0 1; do
    sed -e "s/targets: [^]]*\]/targets: [$(echo "$all_targets" | sed 's/.*/"&"/' | paste -sd,)]/; s/regex: \"0\"/regex: \"$shard\"/" "$dir/files/shard.yml" >"$dir/shard$shard.yml"
    name=engine-$(echo "$shard" | tr 01 ab)
    echo "http://$(at "$name:9090")/api/v1/targets?state=active" >>"$dir/shards"
    start_engine "shard$shard" "$(at "$name:9090")"
done
targets_of_shard() { curl -sS "$1" | jq -er '.data.activeTargets | if . == [] then error else .[].labels.instance end'; }
each_once() {
    { targets_of_shard "$(head -n 1 "$dir/shards")" && targets_of_shard "$(tail -n 1 "$dir/shards")"; } >"$dir/targets" &&
        [ "$(sort "$dir/targets")" = "$(echo "$all_targets" | sort)" ]
}
wait_for "each target is in one of the shards" each_once
joined() { [ "$(value "http://$(at joined:9090)" 'count(DCGM_FI_DEV_GPU_UTIL)')" = 40 ] && [ -z "$(value "http://$(at joined:9090)" 'DCGM_FI_DEV_GPU_TEMP')" ]; }
wait_for "the joined engine has the series of rules of both shards" joined
end shard0
end shard1
end joined

# --- one adapter and the engines of two node pools ---

for pool in a b; do
    echo "scrape_configs: [{job_name: gpu, scrape_interval: 1s, static_configs: [{targets: ['127.0.0.1:$targets_port'], labels: {pool: $pool}}]}]" >"$dir/pool_$pool.yml"
    start_engine "pool_$pool" "$(at "engine-$pool:9090")"
done
start_api
start_adapter pools pools 'gpuscale adapter'
for pool in a b; do wait_for "the adapter serves from the engine of pool $pool" served pools "gpu_temperature_pool_$pool"; done
end pool_b
from_one() { served pools gpu_temperature_pool_a && ! served pools gpu_temperature_pool_b; }
wait_for "without the engine of a pool, only its rules have no values" from_one
end pool_a
end adapter_pools
stop_up
end exporter_of_shards

# The samples of a minute show that one comes each second.
for r in $receivers; do
    ! is_victoria "$r" || wait_for "doctor finds the buffer of VictoriaMetrics ($r)" doctor_says "$(url "$r")" 'up to 4 s later'
done

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
    # The nodes of a cluster show samples at different times.
    has_ended() { [ -z "$(value "$(url "$r")" "count(DCGM_FI_DEV_GPU_TEMP{$labels})" "$bad")" ]; }
    wait_for "$r has no value of an exporter that is gone" has_ended
    [ "$(value "$(url "$r")" "count(DCGM_FI_DEV_GPU_TEMP{$labels})" "$good")" = 2 ] || fail "$r lacks the values before"
done
echo "ok: the series end with the scrape that fails"
