#!/bin/sh
# Runs the examples of the documentation in one `gpuscale up` with the demo service. docs_engine.sh
# runs those of the metrics engine. Also validates the DaemonSet.
. "$(dirname "$0")/lib.sh"
need kubectl curl jq cc nm
cd "$source"
# Replaces the usual ports and directories of the pages.
with_ports() {
    sed -e "s/127\.0\.0\.1:9400/127.0.0.1:$exporter_port/g" -e "s/127\.0\.0\.1:9401/127.0.0.1:$other_port/g" \
        -e "s/127\.0\.0\.1:6443/127.0.0.1:$api_port/g" -e "s#~/\.local/share/gpuscale#$dir/data#g" \
        -e "s# build/\\([^ ]*\\)# '$build/\\1'#g" -e "s#/gpuscale-sim-1000#$GPUSCALE_SIM#g" \
        -e "s# \(\./\)\?hello_gpu# $dir/files/hello_gpu#g" -e "s# proposed\.yaml# $dir/files/proposed.yaml#g" \
        -e "s# \(agent\|report\|crowds\?\|setting\|waiting\)\.yaml# $dir/files/\1.yaml#g" \
        -e "s#^cc #cc $sanitize #"
}
other_port=$(free_port)
# Programs that are linked with sanitized libraries need the sanitizer's library.
sanitize=
! nm "$build/src/libbase.a" | grep -q __asan_init || sanitize="-fsanitize=address,undefined"
. "$(dirname "$0")/docs_lib.sh"

for page in README.md docs/*.md; do
    case $page in docs/engine.md | docs/query.md | docs/rules.md | docs/scaledobjects.md) ;; *) extract "$page" ;; esac
done
# The token of a pod needs mounts.
unshare -Urm true 2>/dev/null || unshare -m true 2>/dev/null || grep -l '^\$ kubectl run ask ' "$dir/blocks"/*.text | xargs rm -f

PATH=$(dirname "$gpuscale"):$PATH
export PATH NO_COLOR=1
start_up --node-name devbox --gpus 4xA100-SXM4-80GB --image "intent-api:*=$intent_api_command" \
    --filename examples/demo/intent-api.yaml
exporter_port=$(sed -n 's/.*exporter: http:..127.0.0.1:\([0-9]*\).*/\1/p' "$dir/up.log" | head -n 1)
api_port=$(sed -n 's/^Ready: .*API https:..127.0.0.1:\([0-9]*\),.*/\1/p' "$dir/up.log")
wait_for "the demo's service is ready" pods_ready intent-api 1
own_gpus docs # for the pages that make some

n=0
for text in "$dir"/blocks/*.text; do
    [ -e "$text" ] || fail "no block has a test comment"
    run_block "${text%.text}"
    n=$((n + 1))
done
[ "$n" -ge 5 ] || fail "only $n blocks have a test comment"
kubectl apply --dry-run=server -f deploy/exporter-daemonset.yaml || fail "deploy/exporter-daemonset.yaml is refused"
stop_up
echo "$n blocks"
