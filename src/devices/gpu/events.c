// SPDX-License-Identifier: Apache-2.0
// XID errors, from an event set. Only events after the registration are received.
#include "gpu/gpu_private.h"

#include "base/slice.h"

#include <string.h>

void gpu_backend_watch_events(struct gpu_reader *r, struct gpu_known_device *k)
{
    if (!gpu_backend_wants(r, GPU_F_XID_ERRORS, GPU_F_XID_ERRORS) || k->xid_registered ||
        k->xid_validity == GPU_NOT_SUPPORTED)
        return;
    nvml_event_set set = r->events;
    unsigned long long supported = 0;
    nvml_ret ret = set ? NVML(r, supported_events, k->handle, &supported) : NVML_NOT_SUPPORTED;
    // Registration fails if it includes event types that the device does not support.
    if (ret == NVML_OK && !(supported & NVML_EVENT_XID))
        ret = NVML_NOT_SUPPORTED;
    if (ret == NVML_OK)
        ret = NVML(r, register_events, k->handle, NVML_EVENT_XID, set);
    k->xid_registered = ret == NVML_OK;
    k->xid_validity = set ? gpu_backend_validity(ret) : r->events_validity;
}

nvml_ret gpu_backend_make_events(struct gpu_reader *r, nvml_event_set *ret)
{
    nvml_event_set set = NULL;
    nvml_ret rc = NVML(r, event_set_create, &set);
    if (rc == NVML_OK)
        *ret = set;
    return rc;
}

nvml_ret gpu_backend_take_events(struct gpu_reader *r, struct gpu_worker *w)
{
    w->n_taken = 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(w->taken); i++) {
        struct nvml_event e = {0};
        nvml_ret ret = NVML(r, event_set_wait, r->events, &e, 0);
        if (ret != NVML_OK)
            return ret;
        if (e.type & NVML_EVENT_XID)
            w->taken[w->n_taken++] = (struct gpu_taken_event){e.device, e.data};
    }
    return NVML_OK;
}

// --- coordinator ---

// If there are more XIDs than slots, only the first ones are counted.
static void total_xid(struct gpu_known_device *k, uint32_t xid)
{
    size_t at = 0;
    while (at < k->n_xid_totals && k->xid_totals[at].xid != xid)
        at++;
    if (at == GPU_MAX_XIDS)
        return;
    if (at == k->n_xid_totals)
        k->xid_totals[k->n_xid_totals++] = (struct gpu_xid_count){.xid = xid};
    k->xid_totals[at].count++;
}

static void remember_xid(struct gpu_backend *b, const struct gpu_taken_event *e)
{
    for (size_t i = 0; i < GPU_MAX_DEVICES; i++) {
        struct gpu_worker *w = b->workers[i];
        if (!w || !w->known || w->known->handle != e->device)
            continue;
        struct gpu_known_device *k = w->known;
        k->last_xid = e->xid;
        k->xids[k->next_xid].mono_ns = gs_mono_ns();
        k->xids[k->next_xid].xid = (uint32_t)e->xid;
        k->next_xid = (k->next_xid + 1) % GPU_MAX_XIDS;
        k->n_xids += k->n_xids < GPU_MAX_XIDS;
        total_xid(k, (uint32_t)e->xid);
    }
}

void gpu_backend_remember_events(struct gpu_backend *b)
{
    struct gpu_worker *w = b->event_worker;
    if (!w || !gpu_worker_idle(w))
        return;
    for (size_t i = 0; i < w->n_taken; i++)
        remember_xid(b, &w->taken[i]);
    w->n_taken = 0;
    // A set that contains a lost GPU may return this forever. The next sample creates a new set
    // with the remaining GPUs.
    if (!b->events || w->ret == NVML_OK || w->ret == NVML_TIMEOUT || !gpu_workers_idle(b))
        return;
    NVML(&b->reader, event_set_free, b->events);
    b->events = NULL;
    for (size_t i = 0; i < GPU_MAX_DEVICES; i++)
        if (b->workers[i] && b->workers[i]->known)
            b->workers[i]->known->xid_registered = false;
}

void gpu_backend_fill_xids(const struct gpu_backend *b, const struct gpu_known_device *k,
                           struct gpu_device *d)
{
    int64_t since = gs_mono_ns() - b->cfg.xid_window_ns;
    // If a worker hangs, xid_validity must not be read.
    if (k->xid_watched || (!d->lost && !d->hung))
        d->fields[GPU_F_XID_ERRORS] = (struct gpu_value){
            .validity = k->xid_watched ? GPU_VALID : k->xid_validity,
            .i = (int64_t)k->last_xid,
        };
    memcpy(d->xid_totals, k->xid_totals, sizeof(d->xid_totals));
    d->n_xid_totals = k->n_xid_totals;
    d->n_xids = 0;
    for (size_t i = 0; i < k->n_xids; i++) {
        size_t at = 0;
        if (k->xids[i].mono_ns < since)
            continue;
        while (at < d->n_xids && d->xids[at].xid != k->xids[i].xid)
            at++;
        if (at == d->n_xids)
            d->xids[d->n_xids++] = (struct gpu_xid_count){.xid = k->xids[i].xid};
        d->xids[at].count++;
    }
}
