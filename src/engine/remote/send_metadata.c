// SPDX-License-Identifier: Apache-2.0
// A lookup may search the targets of all jobs, so its result is kept for a while, also if there is
// none.
#include "base/clock.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "codec/encoding.h"
#include "engine/remote/send_private.h"

#define KEEP_NS     (60 * GS_NS_PER_SEC)
#define MAX_METRICS ((size_t)100000)
#define MAX_TEXT    ((size_t)1024) // longer ones are left out, so that requests stay small

// Returns its end.
static char *copy(char *to, struct gs_slice *text)
{
    memcpy(to, text->data, text->len);
    text->data = to;
    return to + text->len;
}

static void limit_text(struct gs_slice *text)
{
    if (!text->data || text->len > MAX_TEXT || codec_utf8_valid_prefix(*text) != text->len)
        *text = GS_SLICE("");
}

static struct metrics_metadata *look_up(const struct remote_metadata *m, struct gs_slice metric)
{
    struct metrics_metadata found = {0};
    if (!m->find(m->arg, metric, &found))
        found = (struct metrics_metadata){0};
    limit_text(&found.help);
    limit_text(&found.unit);
    struct metrics_metadata *item = gs_alloc(sizeof(*item) + found.help.len + found.unit.len);
    *item = found;
    item->family = GS_SLICE("");
    (void)copy(copy((char *)(item + 1), &item->help), &item->unit);
    return item;
}

const struct metrics_metadata *remote_metadata_of(struct remote_metadata *m, struct gs_slice metric)
{
    int64_t now = gs_mono_ns();
    if (!m->find)
        return NULL;
    if (!m->items)
        m->items = gs_hmap_new(free);
    if (now >= m->until_ns || gs_hmap_len(m->items) >= MAX_METRICS) {
        gs_hmap_clear(m->items);
        m->until_ns = now + KEEP_NS;
    }
    struct metrics_metadata *item = gs_hmap_get(m->items, metric);
    if (!item) {
        item = look_up(m, metric);
        gs_hmap_put(m->items, metric, item);
    }
    return item->type_name ? item : NULL;
}

void remote_metadata_finish(struct remote_metadata *m)
{
    gs_hmap_free(m->items);
}
