// SPDX-License-Identifier: Apache-2.0
// XID errors, by an event set of our own. Only what happens after the registration is seen.
#include "gpu/backend.h"

#include "base/slice.h"

void backend_watch_events(struct gpu_reader *r, struct known_device *k)
{
    if (!backend_wants(r, GPU_F_XID_ERRORS, GPU_F_XID_ERRORS) || k->xid_registered ||
        k->xid_validity == GPU_NOT_SUPPORTED)
        return;
    nvml_event_set set = r->backend->events;
    unsigned long long supported = 0;
    nvml_ret ret = set ? NVML(r, supported_events, k->handle, &supported) : NVML_NOT_SUPPORTED;
    // Types that the device does not have make the registration fail.
    if (ret == NVML_OK && !(supported & NVML_EVENT_XID))
        ret = NVML_NOT_SUPPORTED;
    if (ret == NVML_OK)
        ret = NVML(r, register_events, k->handle, NVML_EVENT_XID, set);
    k->xid_registered = ret == NVML_OK;
    k->xid_validity = set ? backend_validity(ret) : r->backend->events_validity;
}

nvml_ret backend_make_events(struct gpu_reader *r, nvml_event_set *ret)
{
    nvml_event_set set = NULL;
    nvml_ret rc = NVML(r, event_set_create, &set);
    if (rc == NVML_OK)
        *ret = set;
    return rc;
}

nvml_ret backend_take_events(struct gpu_reader *r, struct gpu_worker *w)
{
    w->n_taken = 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(w->taken); i++) {
        struct nvml_event e = {0};
        nvml_ret ret = NVML(r, event_set_wait, r->backend->events, &e, 0);
        if (ret != NVML_OK)
            return ret;
        if (e.type & NVML_EVENT_XID)
            w->taken[w->n_taken++] = (struct taken_event){e.device, e.data};
    }
    return NVML_OK;
}
