// SPDX-License-Identifier: Apache-2.0
// One warning per minute and target for series that are left out, with the first of them.
#include "engine/scrape/scrape_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#define MAX_SHOWN    ((size_t)200) // bytes of a series, and of the labels of a target
#define LOG_EVERY_NS (60 * GS_NS_PER_SEC)

void scrape_refused_add(struct scrape_refused *r, size_t n, struct gs_slice first, const char *why)
{
    r->n += n;
    if (r->first)
        return;
    bool whole = first.len <= MAX_SHOWN;
    r->first = gs_format("%.*s%s: %s", (int)(whole ? first.len : MAX_SHOWN), first.data,
                         whole ? "" : "…", why);
}

void scrape_refused_finish(struct scrape_refused *r, const struct scrape_sample_target *target,
                           int64_t *logged_ns)
{
    int64_t now = gs_mono_ns();
    if (r->n && (!*logged_ns || now - *logged_ns >= LOG_EVERY_NS)) {
        GS_AUTO_BUF struct gs_buf labels = {0};
        for (size_t i = 0; i < target->n && labels.len < MAX_SHOWN; i++)
            gs_buf_addf(&labels, "%s" GS_SLICE_FMT "=\"%.*s\"", i ? ", " : "",
                        GS_SLICE_ARG(target->items[i].name),
                        (int)(target->items[i].value.len < MAX_SHOWN ? target->items[i].value.len
                                                                     : MAX_SHOWN),
                        target->items[i].value.data);
        gs_warn("scrape", "target {%s}: %zu series are left out, the first is %s", labels.data,
                r->n, r->first);
        *logged_ns = now;
    }
    free(r->first);
}
