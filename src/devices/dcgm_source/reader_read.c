// SPDX-License-Identifier: Apache-2.0
// One read of all watches into the shared memory, in slices: a value has 4 KB in the library's
// array.
#include "dcgm_source/reader_private.h"

#include "base/clock.h"
#include "base/mem.h"

#include <string.h>

enum { SLICE_VALUES = 256 };

static void add_text(struct dcgm_source_half *half, const struct dcgm_value_v2 *v,
                     struct dcgm_value *ret)
{
    size_t n = strnlen(v->value.str, sizeof(v->value.str));
    ret->text = UINT32_MAX;
    if (half->n_text + n + 1 > DCGM_SOURCE_MAX_TEXT)
        return;
    ret->text = half->n_text;
    memcpy(half->texts + half->n_text, v->value.str, n);
    half->texts[half->n_text + n] = 0;
    half->n_text += (uint32_t)n + 1;
}

static void add_value(struct dcgm_source_half *half, uint32_t entity, uint16_t field, int code,
                      const struct dcgm_value_v2 *v)
{
    if (half->n_values == DCGM_SOURCE_MAX_VALUES)
        return;
    struct dcgm_value *to = &half->values[half->n_values];
    *to = (struct dcgm_value){.entity = entity,
                              .field = field,
                              .type = (char)v->field_type,
                              .status = code == DCGM_OK ? v->status : code,
                              .ts_us = v->ts};
    if (to->type == DCGM_TYPE_TEXT)
        add_text(half, v, to);
    else
        memcpy(&to->i, &v->value, sizeof(to->i));
    half->n_values++;
}

static int read_slice(struct dcgm_reader *r, struct dcgm_reader_watch *w, uint32_t first,
                      uint32_t n, struct dcgm_source_half *half)
{
    struct dcgm_entity_pair pairs[SLICE_VALUES];
    for (uint32_t i = 0; i < n; i++) {
        const struct dcgm_entity *e = &r->entities.items[w->entities[first + i]];
        pairs[i] = (struct dcgm_entity_pair){e->group, e->id};
    }
    for (uint32_t i = 0; i < n * w->n_fields; i++) // a value that is not filled in has no type
        memset(&r->values[i], 0, offsetof(struct dcgm_value_v2, value) + sizeof(int64_t));
    int code = r->lib.read(r->handle, pairs, n, w->fields, w->n_fields, 0, r->values);
    dcgm_reader_beat(r);
    if (dcgm_reader_is_fatal(code) || code == DCGM_TIMEOUT)
        return code;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < w->n_fields; k++)
            add_value(half, w->entities[first + i], w->fields[k], code,
                      &r->values[i * w->n_fields + k]);
    return DCGM_OK;
}

static int read_watch(struct dcgm_reader *r, struct dcgm_reader_watch *w,
                      struct dcgm_source_half *half)
{
    uint32_t step = SLICE_VALUES / w->n_fields;
    for (uint32_t i = 0; i < w->n_entities; i += step) {
        uint32_t n = w->n_entities - i < step ? w->n_entities - i : step;
        int code = read_slice(r, w, i, n, half);
        if (code != DCGM_OK)
            return code;
    }
    return DCGM_OK;
}

int dcgm_reader_read_all(struct dcgm_reader *r)
{
    int64_t start = gs_mono_ns();
    struct dcgm_source_half *half = dcgm_source_shared_begin(r->shared);
    if (!r->values)
        r->values = gs_alloc_array(SLICE_VALUES, sizeof(*r->values));
    half->n_entities = r->entities.len;
    memcpy(half->entities, r->entities.items, r->entities.len * sizeof(*half->entities));
    for (size_t i = 0; i < r->n_watches; i++) {
        int code = r->watches[i].watched ? read_watch(r, &r->watches[i], half) : DCGM_OK;
        if (code != DCGM_OK)
            return code; // the half is not published
    }
    half->read_ns = gs_mono_ns() - start;
    dcgm_source_shared_end(r->shared);
    return DCGM_OK;
}
