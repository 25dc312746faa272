// SPDX-License-Identifier: Apache-2.0
// Bytes of a hostile host engine of DCGM, or of its hostile client. Every message that is accepted
// is written again and must read back the same; so must every value. Without a frame around them,
// the bytes are read as values.
#include "base/mem.h"
#include "dcgm/wire.h"

#include <stdlib.h>

static void check(bool ok)
{
    if (!ok)
        abort();
}

static bool same_value(const struct dcgm_wire_value *a, const struct dcgm_wire_value *b)
{
    return a->entity.group == b->entity.group && a->entity.id == b->entity.id &&
           a->field == b->field && a->type == b->type && a->status == b->status && a->ts == b->ts &&
           a->i64 == b->i64 && !memcmp(&a->dbl, &b->dbl, sizeof(a->dbl));
}

static void read_values(struct gs_slice values)
{
    struct dcgm_wire_value v, again;
    while (values.len) {
        size_t before = values.len;
        GS_AUTO_ERROR struct gs_error *err = dcgm_wire_value_next(&values, &v);
        if (err)
            return;
        check(values.len < before && v.text.len <= before);
        bool number =
            v.type == DCGM_TYPE_DOUBLE || v.type == DCGM_TYPE_INT64 || v.type == DCGM_TYPE_TIME;
        if (!number && v.type != DCGM_TYPE_TEXT)
            continue;
        GS_AUTO_BUF struct gs_buf out = {0};
        dcgm_wire_value_add(&out, &v);
        struct gs_slice written = gs_buf_slice(&out);
        check(!dcgm_wire_value_next(&written, &again) && !written.len);
        check(same_value(&v, &again));
        check(v.text.len > 255 || gs_slice_eq(v.text, again.text));
    }
}

static void read_message(const struct dcgm_wire_frame *f, union dcgm_wire_message *m)
{
    enum dcgm_wire_kind kind;
    struct gs_slice values;
    if (!dcgm_wire_find(f->body, &kind))
        return;
    GS_AUTO_ERROR struct gs_error *err = dcgm_wire_take(f->body, kind, m, &values);
    if (err)
        return;
    read_values(values);
    (void)dcgm_wire_result(kind, m);
    GS_AUTO_BUF struct gs_buf out = {0};
    dcgm_wire_add(&out, kind, f->request, f->status, m, values);
    struct gs_slice stream = gs_buf_slice(&out), again_values;
    struct dcgm_wire_frame again;
    bool complete = false;
    check(!dcgm_wire_cut(&stream, &again, &complete) && complete);
    check(!dcgm_wire_take(again.body, kind, m, &again_values));
    check(gs_slice_eq(values, again_values));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gs_slice stream = gs_slice_make(data, size);
    GS_AUTO_FREE union dcgm_wire_message *m = gs_alloc(sizeof(*m));
    struct dcgm_wire_frame f;
    bool complete = true;
    read_values(stream);
    while (complete) {
        GS_AUTO_ERROR struct gs_error *err = dcgm_wire_cut(&stream, &f, &complete);
        if (err)
            break;
        if (complete)
            read_message(&f, m);
    }
    return 0;
}
