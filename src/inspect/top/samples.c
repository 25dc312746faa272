// SPDX-License-Identifier: Apache-2.0
// The samples of a refresh, from any source, with limits in number and memory: a server may send
// anything.
#include "top/top_private.h"

#include "base/columns.h"
#include "base/mem.h"

#define MAX_TIME_MS                                                                                \
    INT64_C(10000000000000) // in nanoseconds, it does not exceed 64 bits with a sign

void top_samples_finish(struct top_samples *s)
{
    gs_arena_finish(&s->arena);
    free(s->items);
    *s = (struct top_samples){0};
}

static bool copy_text(struct gs_arena *arena, struct gs_slice text, struct gs_slice *ret)
{
    const char *copy = gs_arena_strndup(arena, text.data ? text.data : "", text.len);
    *ret = gs_slice_make(copy, text.len);
    return copy != NULL;
}

struct gs_error *top_samples_add(struct top_samples *s, const struct top_sample *sample)
{
    s->arena.limit = TOP_MAX_BYTES;
    if (s->len == TOP_MAX_SAMPLES || sample->n_labels > TOP_MAX_LABELS)
        return gs_error_new(GS_ELIMIT, "more than %d samples, or more than %d labels of one",
                            TOP_MAX_SAMPLES, TOP_MAX_LABELS);
    struct top_sample copy = *sample;
    // Times of others are not trusted: differences of two cannot overflow.
    if (copy.t_ms < 0 || copy.t_ms > MAX_TIME_MS)
        copy.t_ms = 0;
    struct top_label *labels = gs_arena_alloc(&s->arena, (sample->n_labels + 1) * sizeof(*labels));
    bool ok = labels && copy_text(&s->arena, sample->name, &copy.name);
    for (size_t i = 0; ok && i < sample->n_labels; i++)
        ok = copy_text(&s->arena, sample->labels[i].name, &labels[i].name) &&
             copy_text(&s->arena, sample->labels[i].value, &labels[i].value);
    if (!ok)
        return gs_error_new(GS_ELIMIT, "the samples have more than %d MiB", TOP_MAX_BYTES >> 20);
    copy.labels = labels;
    gs_grow(&s->items, &s->cap, s->len, sizeof(*s->items));
    s->items[s->len++] = copy;
    return NULL;
}

struct gs_slice top_sample_label(const struct top_sample *s, const char *name)
{
    for (size_t i = 0; i < s->n_labels; i++)
        if (gs_slice_eq_str(s->labels[i].name, name))
            return s->labels[i].value;
    return (struct gs_slice){0};
}

void top_samples_note(struct top_samples *s, const char *text)
{
    GS_AUTO_BUF struct gs_buf clean = {0};
    gs_columns_clean(&clean, gs_slice_of(text));
    if (!s->note && clean.len)
        s->note = gs_arena_strndup(&s->arena, clean.data, clean.len);
}
