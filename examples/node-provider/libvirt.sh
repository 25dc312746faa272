#!/bin/sh
# Creates virtual machines with virt-install and deletes them with virsh. Each one has a disk on top of an image and, by PCI
# passthrough, GPUs of this host. The image has a container runtime and a kubelet service that reads KUBELET_EXTRA_ARGS from
# /etc/default/kubelet and joins the cluster.
#
#   IMAGE        the image, a qcow2 file
#   DISKS        directory of the disks
#   VCPUS, MEMORY_MIB, NETWORK (default: network=default)
#   GPU_DEVICES  PCI addresses of the GPUs that may be passed through: "65:00.0 b3:00.0"
set -eu
export LIBVIRT_DEFAULT_URI="${LIBVIRT_DEFAULT_URI:-qemu:///system}"
disks=${DISKS:-/var/lib/libvirt/images}

free_gpus() {
    used=$(for name in $(virsh list --all --name); do virsh dumpxml "$name"; done |
        sed -nE "s/.*<address domain='0x0000' bus='0x(..)' slot='0x(..)' function='0x(.)'\/>.*/\1:\2.\3/p")
    for gpu in ${GPU_DEVICES:-}; do
        echo "$used" | grep -qxF "$gpu" || echo "$gpu"
    done
}

create() {
    if virsh domstate "$GPUSCALE_NAME" >/dev/null 2>&1; then
        [ "$(virsh domstate "$GPUSCALE_NAME")" = running ] || virsh start "$GPUSCALE_NAME"
        return
    fi
    set -- --noautoconsole
    if [ "$GPUSCALE_GPUS" -gt 0 ]; then
        gpus=$(free_gpus | head -n "$GPUSCALE_GPUS")
        if [ "$(echo "$gpus" | grep -c .)" -lt "$GPUSCALE_GPUS" ]; then
            echo "this host has fewer than $GPUSCALE_GPUS free GPUs" >&2
            exit 69
        fi
        for gpu in $gpus; do set -- "$@" --hostdev "$gpu"; done
    fi
    user_data=$(mktemp)
    trap 'rm -f "$user_data"' EXIT
    cat >"$user_data" <<END
#cloud-config
hostname: $GPUSCALE_NAME
write_files:
- path: /etc/default/kubelet
  content: |
    KUBELET_EXTRA_ARGS=--provider-id=$GPUSCALE_PROVIDER_ID --node-labels=$GPUSCALE_LABELS --register-with-taints=$GPUSCALE_TAINTS
END
    virt-install --name "$GPUSCALE_NAME" --import --osinfo detect=on,require=off --graphics none \
        --vcpus "${VCPUS:-4}" --memory "${MEMORY_MIB:-16384}" --network "${NETWORK:-network=default}" \
        --disk "path=$disks/$GPUSCALE_NAME.qcow2,size=${DISK_GIB:-60},backing_store=$IMAGE" \
        --cloud-init "user-data=$user_data" "$@" >&2
}

delete() {
    virsh domstate "$GPUSCALE_NAME" >/dev/null 2>&1 || return 0
    virsh destroy "$GPUSCALE_NAME" >&2 || echo "it does not run" >&2
    virsh undefine "$GPUSCALE_NAME" --remove-all-storage --nvram >&2
}

list() {
    virsh list --all --name | while read -r name; do
        case $name in
        "gpuscale-$GPUSCALE_POOL-"?????) ;;
        *) continue ;;
        esac
        case $(virsh domstate "$name") in
        running | idle | paused) echo "$name running" ;;
        'in shutdown') echo "$name deleting" ;;
        *) echo "$name failed" ;;
        esac
    done
}

"$GPUSCALE_ACTION"
