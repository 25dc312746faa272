// SPDX-License-Identifier: Apache-2.0
// Parses /api/v1/label/__name__/values: the names of the series that match a selector, as shapes
// without labels.
#include "adapter/source/source_private.h"

#include "base/mem.h"

static int compare_shapes(const void *a, const void *b)
{
    const struct source_shape *x = a, *y = b;
    return gs_slice_compare(x->name, y->name);
}

void source_shapes_sort(struct source_shapes *s)
{
    if (s->n > 1)
        qsort(s->items, s->n, sizeof(*s->items), compare_shapes);
}

static bool read_items(struct codec_json_pull *j, struct gs_arena *scratch,
                       struct source_shapes *out)
{
    size_t cap = 0;
    struct gs_slice name;
    if (!codec_json_pull_array(j))
        return false;
    while (codec_json_pull_item(j)) {
        if (!codec_json_pull_string(j, scratch, &name))
            return false;
        const char *copy = gs_arena_strndup(&out->arena, name.data, name.len);
        if (!copy)
            return false;
        gs_grow(&out->items, &cap, out->n, sizeof(*out->items));
        out->items[out->n++] =
            (struct source_shape){.name = gs_slice_make(copy, name.len), .series = 1};
        gs_arena_recycle(scratch);
    }
    return !j->bad;
}

struct gs_error *source_read_names(int status, struct gs_slice body, struct source_shapes **ret)
{
    struct gs_arena texts = {.limit = SOURCE_ANSWER_MAX_ARENA}, scratch = {.limit = body.len + 64};
    struct gs_slice data = {0};
    struct gs_error *err = source_answer_open(status, body, &texts, &data);
    struct source_shapes *out = gs_alloc(sizeof(*out));
    struct codec_json_pull j = codec_json_pull_of(data);
    out->arena.limit = SOURCE_ANSWER_MAX_ARENA;
    if (!err && !read_items(&j, &scratch, out))
        err = source_answer_malformed(&j);
    gs_arena_finish(&scratch);
    gs_arena_finish(&texts);
    if (err) {
        source_shapes_free(out);
        return err;
    }
    out->series = out->n;
    source_shapes_sort(out);
    *ret = out;
    return NULL;
}
