// SPDX-License-Identifier: Apache-2.0
// XID errors, by an event set of our own. Only what happens after the registration is seen.
#include "gpu/backend.h"

enum { MAX_EVENTS_PER_PASS = 64 };

void backend_watch_events(struct gpu_backend *b, struct known_device *k)
{
    if (k->xid_registered || k->xid_validity == GPU_NOT_SUPPORTED)
        return;
    nvml_ret ret = b->events ? NVML_OK : NVML(b, event_set_create, &b->events);
    unsigned long long supported = 0;
    if (ret == NVML_OK)
        ret = NVML(b, supported_events, k->handle, &supported);
    // Types that the device does not have make the registration fail.
    if (ret == NVML_OK && !(supported & NVML_EVENT_XID))
        ret = NVML_NOT_SUPPORTED;
    if (ret == NVML_OK)
        ret = NVML(b, register_events, k->handle, NVML_EVENT_XID, b->events);
    k->xid_registered = ret == NVML_OK;
    k->xid_validity = backend_validity(ret);
}

static void take_event(struct gpu_backend *b, const struct nvml_event *e)
{
    if (!(e->type & NVML_EVENT_XID))
        return;
    for (size_t i = 0; i < GPU_MAX_DEVICES; i++)
        if (b->known[i].used && b->known[i].handle == e->device)
            b->known[i].last_xid = e->data;
}

void backend_take_events(struct gpu_backend *b)
{
    if (!b->events)
        return;
    for (int i = 0; i < MAX_EVENTS_PER_PASS; i++) {
        struct nvml_event e = {0};
        nvml_ret ret = NVML(b, event_set_wait, b->events, &e, 0);
        if (ret == NVML_TIMEOUT)
            return;
        if (ret != NVML_OK) {
            // A set with a lost GPU in it may answer with that for ever: the next pass makes a new
            // one of the GPUs that are there.
            backend_stop_events(b);
            return;
        }
        take_event(b, &e);
    }
}

void backend_stop_events(struct gpu_backend *b)
{
    if (b->events)
        NVML(b, event_set_free, b->events);
    b->events = NULL;
    for (size_t i = 0; i < GPU_MAX_DEVICES; i++)
        b->known[i].xid_registered = false;
}
