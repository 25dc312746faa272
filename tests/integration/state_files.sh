#!/bin/sh
# Files of the data directory that are empty or cut, as after a full disk or a power failure: gpuscale up starts, names
# each file whose content is lost, and scaling works.
. "$(dirname "$0")/lib.sh"
need kubectl jq
data=$dir/data

start_up --gpus 1xTesla-T4
stop_up
find "$data" -type f -size +0 >"$dir/files"
[ "$(wc -l <"$dir/files")" -ge 11 ] || fail "files of the data directory are missing: $(cat "$dir/files")"

# The CA is damaged, too, so the other certificates are made again without a message of their own.
lost='state\.db ledger\.db skipped-pods\.json pki/ca\.crt pki/token pki/sa\.key'
for size in 0 7; do
    echo '{"skipped": {}}' >"$data/skipped-pods.json"
    while read -r file; do truncate -s "$size" "$file"; done <"$dir/files"
    truncate -s "$size" "$data/skipped-pods.json"
    start_up --gpus 1xTesla-T4
    for name in $lost; do
        grep -E "(warn|error) .*/$name" "$dir/up.log" >"$dir/line" || fail "$name of $size bytes is not named"
    done
    kubectl get nodes >"$dir/nodes" 2>&1 || fail "the kubeconfig does not work: $(cat "$dir/nodes")"
    echo "ok: files of $size bytes"
    [ "$size" = 0 ] || scaling_works
    stop_up
done

# The losses are reported once.
start_up --gpus 1xTesla-T4
for name in $lost; do
    [ "$name" != 'ledger\.db' ] || continue # a damaged one is left for its owner
    ! grep -E "(warn|error) .*/$name" "$dir/up.log" || fail "$name is named at the next start, too"
done
stop_up
