#!/bin/sh
# The container images: their contents, equal images from two runs, bills of materials, and the programs as the kubelet runs
# them: read-only root, no capabilities, no new privileges, another user. The image for clusters runs the parts of a cluster, the
# complete one (VERSION-full) simulated GPUs and gpuscale up.
. "$(dirname "$0")/lib.sh"
need jq python3 readelf curl kubectl
[ "$(jq -r '.[] | select(.name == "b_sanitize").value' "$build/meson-info/intro-buildoptions.json")" = none ] ||
    skip "the libraries of sanitizers are not for images"
[ -d /usr/share/ca-certificates/mozilla ] && [ -d /usr/share/zoneinfo ] || skip "ca-certificates or tzdata is not installed"

# --- making it ---
export SOURCE_DATE_EPOCH=1700000000
"$source/tools/image" --output "$dir/one" "$build" >"$dir/image.txt" || fail "tools/image"
(umask 077 && TZ=Asia/Tokyo LC_ALL=C.UTF-8 LANGUAGE=fr "$source/tools/image" --output "$dir/two" "$build" >/dev/null) || fail "tools/image again"
version=$("$source/tools/version")
for tag in "$version" "$version-full"; do
    archive=$(echo "$dir/one/gpuscale-$tag"-[!f]*.oci.tar)
    cmp "$archive" "$dir/two/${archive##*/}" || fail "two images of one program differ: $tag"
    echo "ok: two images are equal: $tag"
    [ "$(stat -c %s "$archive")" -lt 40000000 ] || fail "the archive of $tag has $(stat -c %s "$archive") bytes"
done

# use TAG: the image whose files are in $root, and whose configuration is $config.
use() {
    tag=$1 layout=$dir/$1/layout root=$dir/$1/rootfs
    archive=$(echo "$dir/one/gpuscale-$tag"-[!f]*.oci.tar)
    manifest=$(blob "$(jq -r '.manifests[0].digest' "$layout/index.json")")
    config=$(blob "$(jq -r .config.digest "$manifest")")
}
blob() { echo "$layout/blobs/$(echo "$1" | tr : /)"; }

for tag in "$version" "$version-full"; do
    mkdir -p "$dir/$tag/layout" "$dir/$tag/rootfs"
    tar -C "$dir/$tag/layout" -xf "$dir/one/gpuscale-$tag"-[!f]*.oci.tar
    use "$tag"
    (cd "$layout/blobs/sha256" && for b in *; do echo "$b  $b"; done | sha256sum -c --quiet) || fail "a blob has another digest"
    [ "$(jq -r '.manifests[0].annotations["org.opencontainers.image.ref.name"]' "$layout/index.json")" = "ghcr.io/gpuscale/gpuscale:$tag" ] || fail "the name of the image $tag"
    for layer in $(jq -r '.layers[].digest' "$manifest"); do
        tar -C "$root" --no-same-owner -xzf "$(blob "$layer")"
        gzip -dc "$(blob "$layer")" | sha256sum | sed 's/^/sha256:/; s/ .*//'
    done >"$dir/layers"
    [ "$(jq -r '.rootfs.diff_ids[]' "$config")" = "$(cat "$dir/layers")" ] || fail "the configuration lists other layers"
    jq -e --arg version "$version" '.config | .User == "65532:65532" and .Entrypoint == ["/usr/bin/gpuscale"] and .Cmd == ["exporter"]
        and (.Env | index("NVIDIA_VISIBLE_DEVICES=all")) and .Labels["org.opencontainers.image.version"] == $version' "$config" >/dev/null ||
        { jq . "$config"; fail "the configuration"; }
    # docker load reads manifest.json.
    jq -r '.[0].Layers[], .[0].Config' "$layout/manifest.json" | while read -r path; do [ -s "$layout/$path" ] || fail "$path"; done
    if command -v skopeo >/dev/null 2>&1; then
        skopeo inspect "oci-archive:$archive" >"$dir/inspect.json" && skopeo inspect --config "docker-archive:$archive" >/dev/null || fail "skopeo rejects the archive"
    fi

    # --- contents ---
    for path in bin/prometheus bin/promtool adapter usr/bin/dcgm-exporter usr/bin/sleep etc/ssl/certs/ca-certificates.crt usr/share/zoneinfo/Europe/Berlin \
        usr/share/doc/gpuscale/LICENSE usr/share/doc/libc6/copyright usr/share/common-licenses/LGPL-2.1 etc/passwd; do
        [ -s "$root/$path" ] || fail "the image lacks $path"
    done
    [ -n "$(find "$root/usr" -path "*/terminfo/x/xterm-256color")" ] || fail "the image lacks the types of terminals"
    shells=$(find "$root" -regex '.*/\(ba\|da\|k\|z\|\)sh\|.*/\(busybox\|perl.*\|python.*\|apt.*\)' ! -path '*/doc/*')
    [ -z "$shells" ] || fail "the image has $shells"
    special=$(find "$root" -type f -perm /7022 -o -type d -perm /022 ! -path "$root/tmp" ! -path "$root/var/tmp" ! -path "$root/home/nonroot" ! -path "$root/prometheus")
    [ -z "$special" ] || fail "unusual permissions: $special"
    local_files=$(find "$root" -path '*/gpuscale/libgpuscale-*' -o -path '*/libexec/gpuscale/*' | wc -l)
    case $tag in
    *-full) [ "$local_files" = 5 ] || fail "$tag has $local_files files of simulated GPUs and pods" ;;
    *) [ "$local_files" = 0 ] || fail "$tag has files of simulated GPUs and pods" ;;
    esac
    for file in "$root"/usr/share/doc/*; do [ -s "$file/copyright" ] || [ -s "$file/LICENSE" ] || fail "no licence in $file"; done

    # --- bill of materials ---
    bill=$root/usr/share/doc/gpuscale/image.spdx.json
    cmp "$bill" "$dir/one/gpuscale-$tag"-[!f]*.spdx.json || fail "the bill in the image is another one"
    jq -e '.spdxVersion == "SPDX-2.3" and .dataLicense == "CC0-1.0" and .SPDXID == "SPDXRef-DOCUMENT"
        and ([.packages[].SPDXID, .files[].SPDXID, .SPDXID] | . as $all | (unique | length) == ($all | length) and all(test("^SPDXRef-[A-Za-z0-9.-]+$")))
        and ([.packages[].SPDXID, .files[].SPDXID, .SPDXID] as $all
            | [.relationships[] | .spdxElementId, .relatedSpdxElement] | unique | . - $all == [])
        and all(.packages[]; .name and .downloadLocation) and all(.files[]; any(.checksums[]; .algorithm == "SHA1"))
        and any(.packages[]; .name as $name | ($name | test("^libgnutls30(t64)?$")) and (.externalRefs[0].referenceLocator | startswith("pkg:deb/debian/\($name)@")))' "$bill" >/dev/null ||
        fail "the bill of materials"
    # Every file of the image is in it, with its content.
    jq -r '.files[] | (.checksums[] | select(.algorithm == "SHA256").checksumValue) + "  " + .fileName' "$bill" >"$dir/sums"
    (cd "$root" && sha256sum -c --quiet "$dir/sums") || fail "a file differs from the bill"
    listed=$(wc -l <"$dir/sums") files=$(find "$root" -type f ! -path "$bill" ! -path '*/etc/passwd' ! -path '*/etc/group' | wc -l)
    [ "$listed" -ge "$((files - 2))" ] || fail "the bill lists $listed of $files files"
    echo "ok: contents and bill of materials: $tag"
done

# The Containerfile installs the packages of the libraries, by the names of Debian 12.
if grep -q bookworm /etc/os-release; then
    { readelf -d "$gpuscale" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' && echo libcurl-gnutls.so.4; } | while read -r soname; do
        package=$(dpkg-query -S "*/$soname" | grep -v '/usr/lib32\|/libx32\|/lib32' | head -n 1 | cut -d : -f 1)
        case $package in libc6) ;; *) grep -qw -- "$package" "$source/deploy/Containerfile" || fail "the Containerfile lacks $package ($soname)" ;; esac
    done
    echo "ok: packages of the Containerfile"
fi

# --- running it ---
mkdir -m 777 "$dir/mounted"
if [ "$(id -u)" = 0 ]; then
    command -v runc >/dev/null 2>&1 || skip "runc is not installed"
    unshare --mount --pid --fork --mount-proc true 2>/dev/null || skip "this machine or container does not allow mounts"
    chmod 755 "$dir" "$dir/$version" "$dir/$version-full"
    chown 65532:65532 "$dir/mounted"
    # pod ARGUMENTS…: runs the image with these arguments.
    pod() {
        own=$(mktemp -d "$dir/podXXXXXX")
        for word in "$@"; do printf '%s\n' "$word"; done | jq -Rs --arg root "$root" --arg mounted "$dir/mounted" --arg variables "${pod_env:-}" --slurpfile image "$config" '
            ["nosuid", "nodev", "mode=1777"] as $shared | {
            ociVersion: "1.0.2", hostname: "pod", root: {path: $root, readonly: true},
            process: {user: {uid: 65532, gid: 65532}, cwd: $image[0].config.WorkingDir, noNewPrivileges: true,
                args: ($image[0].config.Entrypoint + (split("\n")[:-1] | if . == [] then $image[0].config.Cmd else . end)),
                env: ($image[0].config.Env + ($variables | split(" "))), capabilities: {}},
            mounts: [{destination: "/proc", type: "proc", source: "proc"}, {destination: "/dev", type: "tmpfs", source: "tmpfs", options: ["nosuid", "mode=755"]},
                {destination: "/tmp", type: "tmpfs", source: "tmpfs", options: $shared}, {destination: "/dev/shm", type: "tmpfs", source: "shm", options: $shared},
                {destination: "/mounted", type: "bind", source: $mounted, options: ["bind", "rw"]}],
            linux: {namespaces: ([{type: "pid"}, {type: "ipc"}, {type: "uts"}, {type: "mount"}]), maskedPaths: ["/proc/kcore"], readonlyPaths: ["/proc/sys"]}
            }' >"$own/config.json"
        exec runc --root "$dir/runc" run --bundle "$own" "gpuscale-$$-${own##*/pod}"
    }
    mkdir "$dir/$version/rootfs/mounted" "$dir/$version-full/rootfs/mounted"
else
    command -v bwrap >/dev/null 2>&1 || skip "bwrap is not installed"
    bwrap --unshare-all --uid 65532 --ro-bind / / true 2>/dev/null || skip "this kernel or container does not allow user namespaces"
    mkdir "$dir/$version/rootfs/mounted" "$dir/$version-full/rootfs/mounted"
    pod() {
        [ $# != 0 ] || set -- exporter
        # shellcheck disable=SC2086 # each is a variable
        exec bwrap --unshare-all --share-net --uid 65532 --gid 65532 --cap-drop ALL --die-with-parent --ro-bind "$root" / --proc /proc --dev /dev \
            --tmpfs /tmp --bind "$dir/mounted" /mounted --chdir /home/nonroot --clearenv --setenv PATH /usr/bin \
            $(for pair in ${pod_env:-}; do echo "--setenv ${pair%%=*} ${pair#*=}"; done) /usr/bin/gpuscale "$@"
    }
fi
# start NAME ARGUMENTS…: runs the image in the background. Its output is in NAME.log.
start() {
    log=$dir/$1.log
    shift
    (pod "$@") >"$log" 2>&1 &
    pids="$pids $!"
}
for tag in "$version" "$version-full"; do
    use "$tag"
    (pod --version) >"$dir/version" 2>&1 || { cat "$dir/version"; fail "the image $tag does not run"; }
    grep -qx "gpuscale $version" "$dir/version" || { cat "$dir/version"; fail "the version"; }
done

# Arguments and environment of NVIDIA's chart, with simulated GPUs.
pod_env="DCGM_EXPORTER_LISTEN=127.0.0.1:9400 DCGM_EXPORTER_INTERVAL=1000"
start exporter -f /etc/dcgm-exporter/dcp-metrics-included.csv --simulate=2xTesla-T4
metrics() { curl -s http://127.0.0.1:9400/metrics | grep -q '^DCGM_FI_DEV_GPU_TEMP.*Tesla T4'; }
wait_for "the exporter, with the arguments of NVIDIA's chart" metrics
pod_env=
start named dcgm-exporter --address=127.0.0.1:9401 --simulate=1xL4
named() { curl -s http://127.0.0.1:9401/metrics | grep -q '^DCGM_FI_DEV_GPU_UTIL.*L4'; }
wait_for "the exporter by the name dcgm-exporter" named

# A cluster in a container.
start cluster up --data-dir /mounted/data --api-port 0 --exporter-port 0 --prometheus-port 9091 --gpus 2xTesla-T4 --image vision=intent-api
ready() { grep -q '^Ready:' "$dir/cluster.log"; }
wait_for "gpuscale up" ready
export KUBECONFIG=$dir/mounted/data/kubeconfig
kubectl create deployment vision --image=vision --replicas=1 >"$dir/kubectl.log" 2>&1 || fail "kubectl create"
wait_for "a pod in the cluster of the container" pods_ready vision 1

# The image for clusters names the one that has the command.
use "$version"
! (pod up) >"$dir/up" 2>&1 || fail "the image for clusters runs gpuscale up"
grep -q 'tag that ends in -full' "$dir/up" || { cat "$dir/up"; fail "the error of gpuscale up"; }

# The operator's arguments for Prometheus, and promtool.
printf 'scrape_configs: [{job_name: dcgm, scrape_interval: 1s, static_configs: [{targets: ["127.0.0.1:9400"]}]}]\n' >"$dir/mounted/prometheus.yml"
chmod 644 "$dir/mounted/prometheus.yml"
start prometheus --config.file=/mounted/prometheus.yml --storage.tsdb.path=/mounted/samples --web.listen-address=127.0.0.1:9090 --web.enable-lifecycle \
    --web.console.templates=/etc/prometheus/consoles --web.console.libraries=/etc/prometheus/console_libraries --no-storage.tsdb.wal-compression
answers() { (pod promtool query instant http://127.0.0.1:9090 DCGM_FI_DEV_GPU_TEMP) >"$dir/promtool.txt" 2>&1 && grep -q 'Tesla T4' "$dir/promtool.txt"; }
wait_for "Prometheus' arguments, and promtool" answers

# The arguments of prometheus-adapter's chart.
printf 'rules: [{seriesQuery: "DCGM_FI_DEV_GPU_TEMP", resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}, metricsQuery: "max(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)"}]\n' >"$dir/mounted/config.yaml"
chmod 644 "$dir/mounted/config.yaml"
start adapter /adapter --secure-port=6443 --cert-dir=/tmp/cert --logtostderr=true --prometheus-url=http://127.0.0.1:9090 --metrics-relist-interval=1m --v=4 \
    --config=/mounted/config.yaml --lister-kubeconfig=/mounted/data/kubeconfig --authentication-kubeconfig=/mounted/data/kubeconfig \
    --authorization-kubeconfig=/mounted/data/kubeconfig
healthy() { [ "$(curl -sk https://127.0.0.1:6443/readyz)" = ok ]; }
wait_for "the arguments of prometheus-adapter's chart" healthy
(pod sleep 0.1) || fail "sleep, which preStop hooks call"
