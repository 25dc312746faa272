// SPDX-License-Identifier: Apache-2.0
// Logs what happens to GPUs once: XIDs, GPUs that are lost or hang. XIDs that repeat are logged
// once a minute with their number.
#include "exporter/render.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/slice.h"

#include <inttypes.h>
#include <string.h>

#define REPEAT_NS (60 * GS_NS_PER_SEC)
enum { NAME_SIZE = 160 };

struct logged_xid {
    uint32_t xid, count; // total at the last log line
    int64_t ns;
};

struct gpu_state {
    char uuid[96];
    bool lost, hung;
    struct logged_xid xids[GPU_MAX_XIDS];
    size_t n_xids;
};

struct exporter_gpu_events {
    struct gpu_state gpus[GPU_MAX_DEVICES];
    size_t n, next; // next: the slot to replace when all are used
};

struct exporter_gpu_events *exporter_gpu_events_new(void)
{
    return gs_alloc(sizeof(struct exporter_gpu_events));
}

void exporter_gpu_events_free(struct exporter_gpu_events *e)
{
    free(e);
}

static const char *name_of(const struct gpu_device *d, char ret[static NAME_SIZE])
{
    if (!d->uuid[0])
        snprintf(ret, NAME_SIZE, "GPU %u", d->index);
    else
        snprintf(ret, NAME_SIZE, "GPU %u (%s%s%s)", d->index, d->uuid, d->pci_bus_id[0] ? ", " : "",
                 d->pci_bus_id);
    return ret;
}

// --- log ---

static struct gpu_state *state_of(struct exporter_gpu_events *e, const char *uuid)
{
    for (size_t i = 0; i < e->n; i++)
        if (gs_streq(e->gpus[i].uuid, uuid))
            return &e->gpus[i];
    struct gpu_state *g = &e->gpus[e->next];
    e->next = (e->next + 1) % GPU_MAX_DEVICES;
    e->n += e->n < GPU_MAX_DEVICES;
    *g = (struct gpu_state){0};
    memcpy(g->uuid, uuid, strlen(uuid) + 1);
    return g;
}

static struct logged_xid *logged_of(struct gpu_state *g, uint32_t xid)
{
    for (size_t i = 0; i < g->n_xids; i++)
        if (g->xids[i].xid == xid)
            return &g->xids[i];
    if (g->n_xids == GPU_MAX_XIDS)
        return NULL;
    g->xids[g->n_xids] = (struct logged_xid){.xid = xid};
    return &g->xids[g->n_xids++];
}

static void log_xid(struct gpu_state *g, const struct gpu_device *d,
                    const struct gpu_xid_count *total, int64_t now)
{
    char name[NAME_SIZE];
    struct logged_xid *l = logged_of(g, total->xid);
    if (!l || total->count <= l->count || (l->count && now - l->ns < REPEAT_NS))
        return;
    uint32_t n = total->count - l->count;
    if (n == 1)
        gs_warn("exporter", "%s: XID %u: %s", name_of(d, name), total->xid,
                exporter_render_xid_text(total->xid));
    else
        gs_warn("exporter", "%s: XID %u: %s (%u times)", name_of(d, name), total->xid,
                exporter_render_xid_text(total->xid), n);
    l->count = total->count;
    l->ns = now;
}

static void log_state(struct gpu_state *g, const struct gpu_device *d)
{
    char name[NAME_SIZE], xid[40] = "";
    const struct gpu_value *last = &d->fields[GPU_F_XID_ERRORS];
    if (last->validity == GPU_VALID && last->i)
        snprintf(xid, sizeof(xid), "; its last XID is %" PRId64, last->i);
    if (d->lost && !g->lost)
        gs_err("exporter",
               "%s is lost: the driver returns GPU_IS_LOST%s; the other GPUs are sampled",
               name_of(d, name), xid);
    if (d->hung && !g->hung)
        gs_err("exporter",
               "%s does not respond: a driver call does not return%s; the other GPUs are sampled",
               name_of(d, name), xid);
    if (!d->lost && !d->hung && g->lost)
        gs_info("exporter", "%s is available again", name_of(d, name));
    if (!d->lost && !d->hung && g->hung)
        gs_info("exporter", "%s responds again", name_of(d, name));
    g->lost = d->lost;
    g->hung = d->hung;
}

void exporter_gpu_events_update(struct exporter_gpu_events *e, const struct gpu_snapshot *s,
                                int64_t now_ns)
{
    for (size_t i = 0; i < s->n_devices; i++) {
        const struct gpu_device *d = &s->devices[i];
        struct gpu_state *g = state_of(e, d->uuid);
        for (size_t k = 0; k < d->n_xid_totals; k++)
            log_xid(g, d, &d->xid_totals[k], now_ns);
        log_state(g, d);
    }
}

// --- /health ---

static bool is_lost(const struct gpu_device *d)
{
    return d->lost;
}

static bool is_hung(const struct gpu_device *d)
{
    return d->hung;
}

static bool add_gpu_problem(const struct gpu_snapshot *s, bool (*has)(const struct gpu_device *),
                            const char *what, struct gs_buf *out)
{
    GS_AUTO_BUF struct gs_buf names = {0};
    size_t n = 0;
    for (size_t i = 0; i < s->n_devices; i++) {
        char name[NAME_SIZE];
        if (has(&s->devices[i]))
            gs_buf_addf(&names, "%s%s", n++ ? ", " : "", name_of(&s->devices[i], name));
    }
    if (n)
        gs_buf_addf(out, "%s%zu of %zu GPUs %s: %s", out->len ? "; " : "", n, s->n_devices, what,
                    names.data);
    return n > 0;
}

bool exporter_gpu_events_problems(const struct gpu_snapshot *s, struct gs_buf *out)
{
    bool lost = add_gpu_problem(s, is_lost, "are lost", out);
    bool hung = add_gpu_problem(s, is_hung, "do not respond", out);
    return lost || hung;
}
