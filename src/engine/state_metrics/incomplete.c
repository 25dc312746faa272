// SPDX-License-Identifier: Apache-2.0
// The objects whose series a limit has shortened: their number, and log lines with their names. An
// object is logged when it is first found. At most MAX_LINES objects are logged each minute.
#include "engine/state_metrics/state_metrics_private.h"

#include "base/clock.h"
#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/object.h"

#define MINUTE_NS (60 * GS_NS_PER_SEC)
#define MAX_LINES 10

struct state_metrics_incomplete {
    struct gs_hmap *now, *before; // "pods default/web" -> itself; of this text and the last one
    int64_t minute_ns;            // start of the current minute; 0: none
    unsigned lines, unlogged;     // in it
};

struct state_metrics_incomplete *state_metrics_incomplete_new(void)
{
    struct state_metrics_incomplete *i = gs_alloc(sizeof(*i));
    i->now = gs_hmap_new(NULL);
    i->before = gs_hmap_new(NULL);
    return i;
}

void state_metrics_incomplete_free(struct state_metrics_incomplete *i)
{
    if (!i)
        return;
    gs_hmap_free(i->now);
    gs_hmap_free(i->before);
    free(i);
}

void state_metrics_incomplete_begin(struct state_metrics_incomplete *i)
{
    struct gs_hmap *last = i->now;
    i->now = i->before;
    i->before = last;
    gs_hmap_clear(i->now);
}

static bool may_log(struct state_metrics_incomplete *i)
{
    int64_t now = gs_mono_ns();
    if (!i->minute_ns || now - i->minute_ns >= MINUTE_NS) {
        if (i->unlogged)
            gs_warn("kube-state", "the series of %u more objects are not complete", i->unlogged);
        i->minute_ns = now;
        i->lines = i->unlogged = 0;
    }
    if (i->lines == MAX_LINES) {
        i->unlogged++;
        return false;
    }
    i->lines++;
    return true;
}

void state_metrics_incomplete_add(struct state_metrics_incomplete *i, const char *resource,
                                  const json_t *obj, const char *family, const char *why)
{
    GS_AUTO_FREE char *name = kube_key(obj);
    GS_AUTO_FREE char *key = gs_format("%s %s", resource, name);
    if (gs_hmap_get_str(i->now, key))
        return;
    gs_hmap_put_str(i->now, key, i);
    if (!gs_hmap_get_str(i->before, key) && may_log(i))
        gs_warn("kube-state", "%s: %s is not complete: %s", key, family, why);
}

size_t state_metrics_incomplete_count(const struct state_metrics_incomplete *i)
{
    return gs_hmap_len(i->now);
}
