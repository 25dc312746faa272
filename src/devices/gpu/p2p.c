// SPDX-License-Identifier: Apache-2.0
// Finds the GPUs that can use NVLink peer to peer.
#include "gpu/gpu_private.h"

#include <string.h>

#define AGAIN_NS (60 * GS_NS_PER_SEC)
enum { P2P_INDEX_NVLINK = 2 };

static void read_links(struct gpu_reader *r, struct gpu_known_device *k, uint32_t index)
{
    uint64_t reached = 0;
    nvml_ret failed = NVML_OK;
    bool any = false;
    for (uint32_t i = 0; i < GPU_MAX_DEVICES; i++) {
        int status = 0;
        if (i == index || !k->p2p_peers[i])
            continue;
        nvml_ret ret = NVML(r, p2p_status, k->handle, k->p2p_peers[i], P2P_INDEX_NVLINK, &status);
        if (ret != NVML_OK) { // only for this pair; the others may succeed
            failed = ret;
            continue;
        }
        any = true;
        k->p2p[i] = status >= 0 && status < GPU_P2P_UNKNOWN ? (uint8_t)status : GPU_P2P_UNKNOWN;
        reached |= (uint64_t)(status == GPU_P2P_OK) << i;
    }
    k->p2p_value = gpu_backend_integer(any ? NVML_OK : failed, reached);
}

void gpu_backend_read_p2p(struct gpu_reader *r, struct gpu_known_device *k,
                          const nvml_device *peers, struct gpu_device *d)
{
    if (!r->backend->wants_group[GPU_G_P2P])
        return;
    int64_t now = gs_mono_ns();
    if (!k->p2p_ns || now - k->p2p_ns > AGAIN_NS || k->p2p_value.validity == GPU_FAILED ||
        memcmp(k->p2p_peers, peers, sizeof(k->p2p_peers)) != 0) {
        memcpy(k->p2p_peers, peers, sizeof(k->p2p_peers));
        memset(k->p2p, GPU_P2P_NONE, sizeof(k->p2p));
        read_links(r, k, d->index);
        k->p2p_ns = now;
    }
    memcpy(d->p2p, k->p2p, sizeof(d->p2p));
    d->fields[GPU_F_NVLINK_P2P] = k->p2p_value;
}
