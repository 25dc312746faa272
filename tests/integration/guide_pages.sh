#!/bin/sh
# A page of docs/guides, typed as printed: its `gpuscale up` starts, and each marked block after it must print what the page
# shows (docs_lib.sh). If the guide's own files are available, they are applied, too, and must not change anything.
# Usage: guide_pages.sh PAGE
. "$(dirname "$0")/lib.sh"
page=$source/docs/guides/$1.md
[ -f "$page" ] || fail "there is no $page"
need kubectl curl hey jq
# Pages use the usual ports and the names of one machine.
[ "${GPUSCALE_OWN_NETWORK:-no}" = yes ] || skip "no network namespace can be made, and ports of the page may be in use"
# A clone in which `make build` was run.
mkdir "$dir/clone"
ln -s "$build" "$dir/clone/build"
ln -s "$source/examples" "$dir/clone/examples"
cd "$dir/clone"
PATH=$(dirname "$gpuscale"):$PATH
export PATH NODE_NAME=devbox NO_COLOR=1

# The address of a Service is the one that was printed. Port 80 of an Ingress is 8080 for users who may not bind it.
with_ports() {
    low=$(sed -n 's/^Port 80 of .* is reached at \([0-9]*\):.*/:\1/p' "$dir/up.log")
    sed -e 's#^url=http://127[.].*#url=$(sed -n "s/^Service: //p" "$dir/up.log" | tail -n 1)#' -e "s#ingress\[0\].ip}')#&$low#"
}
. "$(dirname "$0")/docs_lib.sh"
after_command() {
    file=$(printf "%s\n" "$1" | sed -n 's#^kubectl \(apply\|create\) -f examples/guides/\([^ ]*\).*#\2#p')
    [ -z "$file" ] || apply_original "$file"
}

flags=$(awk '/^\$ gpuscale up/ { on = 1 } on { more = sub(/\\$/, ""); print; if (!more) exit }' "$page" | sed '1s/^\$ gpuscale up//' | tr '\n' ' ')
[ -n "$flags" ] || fail "the page does not start gpuscale up"
eval "start_up --api-port 6443 --exporter-port 9400 --prometheus-port 9090 $flags"
extract "$page"
n=0
for text in "$dir"/blocks/*.text; do
    [ -e "$text" ] || fail "no block is marked"
    run_block "${text%.text}"
    n=$((n + 1))
done
stop_up
wait_for "nothing is left" nothing_left
echo "$n blocks"
