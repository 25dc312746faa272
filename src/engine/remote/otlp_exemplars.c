// SPDX-License-Identifier: Apache-2.0
// Exemplars of OTLP points, stored as in Prometheus.
// https://opentelemetry.io/docs/specs/otel/metrics/data-model/#exemplars
#include "codec/protobuf.h"
#include "engine/remote/remote_private.h"

#include "base/mem.h"
#include "base/num.h"
#include "tsdb/exemplars.h"

#include <math.h>

static const char trace_id[] = "trace_id";
static const char span_id[] = "span_id";

void remote_otlp_exemplars_clear(struct remote_otlp *x)
{
    x->n_exemplars = 0;
}

void remote_otlp_exemplars_collect(struct remote_otlp *x, struct gs_slice message)
{
    struct remote_decoder_exemplar e = {.message = message};
    struct codec_proto_token t;
    bool has_value = false;
    if (!tsdb_exemplars_max(x->w.r->db) || x->n_exemplars == REMOTE_MAX_EXEMPLARS) {
        x->w.r->exemplars++;
        return;
    }
    while (remote_otlp_next(x, &message, &t)) {
        if (t.number == OTLP_EXEMPLAR_TIME) {
            e.t_ms = (int64_t)(remote_otlp_bits_of(t.bytes) / 1000000);
        } else if (t.number == OTLP_EXEMPLAR_DOUBLE) {
            e.value = remote_otlp_double_of(t.bytes);
            has_value = true;
        } else if (t.number == OTLP_EXEMPLAR_INT) {
            e.value = (double)(int64_t)remote_otlp_bits_of(t.bytes);
            has_value = true;
        }
    }
    if (!has_value) {
        x->w.r->exemplars++;
        return;
    }
    gs_grow(&x->exemplars, &x->exemplars_cap, x->n_exemplars, sizeof(*x->exemplars));
    x->exemplars[x->n_exemplars++] = e;
}

static int compare_values(const void *a, const void *b)
{
    const struct remote_decoder_exemplar *x = a, *y = b;
    // NaN is after all bounds.
    if (isnan(x->value) || isnan(y->value))
        return isnan(x->value) - isnan(y->value);
    return (x->value > y->value) - (x->value < y->value);
}

void remote_otlp_exemplars_sort(struct remote_otlp *x)
{
    if (x->n_exemplars)
        qsort(x->exemplars, x->n_exemplars, sizeof(*x->exemplars), compare_values);
}

size_t remote_otlp_exemplars_up_to(const struct remote_otlp *x, size_t from, double bound)
{
    while (from < x->n_exemplars && x->exemplars[from].value <= bound)
        from++;
    return from;
}

// --- labels ---

// Zeros mean that there is no identifier.
static void add_id(struct gs_arena *a, const char *name, struct gs_slice id,
                   struct remote_label_set *labels)
{
    bool any = false;
    for (size_t i = 0; i < id.len; i++)
        any = any || id.data[i];
    char *text = any && id.len <= TSDB_EXEMPLAR_MAX_CHARS ? gs_arena_alloc(a, 2 * id.len) : NULL;
    if (!text)
        return;
    gs_put_hex(text, id.data, id.len);
    labels->items[labels->n++] =
        (struct metrics_label){gs_slice_of(name), gs_slice_make(text, 2 * id.len)};
}

static bool has_name(const struct remote_label_set *labels, size_t n, struct gs_slice name)
{
    for (size_t i = 0; i < n; i++)
        if (gs_slice_eq(labels->items[i].name, name))
            return true;
    return false;
}

// The trace and the span, then the attributes that have other names. ret_ids: the number of the
// former.
static void read_labels(struct remote_otlp *x, struct gs_slice message,
                        struct remote_label_set *ret, size_t *ret_ids)
{
    struct gs_arena *arena = &x->exemplar_arena;
    ret->n = 0;
    gs_arena_recycle(arena);
    add_id(arena, trace_id, remote_otlp_field_of(x, message, OTLP_EXEMPLAR_TRACE), ret);
    add_id(arena, span_id, remote_otlp_field_of(x, message, OTLP_EXEMPLAR_SPAN), ret);
    size_t ids = *ret_ids = ret->n;
    remote_otlp_read_attributes(x, message, OTLP_EXEMPLAR_ATTRIBUTES, &x->point);
    if (x->point.n > REMOTE_MAX_LABELS - ids)
        return;
    for (size_t i = 0; i < x->point.n; i++) {
        const struct remote_attribute *a = &x->point.items[i];
        struct gs_slice value;
        if (has_name(ret, ids, a->key))
            continue;
        GS_AUTO_ERROR struct gs_error *err = remote_otlp_value(arena, a->value, &value);
        if (err) { // too long
            ret->n = ids;
            return;
        }
        ret->items[ret->n++] = (struct metrics_label){a->key, value};
    }
}

static enum tsdb_exemplar_result store(struct remote_otlp *x, tsdb_ref *ref,
                                       const struct remote_decoder_exemplar *e)
{
    struct remote_label_set *labels = &x->exemplar_labels;
    size_t ids;
    read_labels(x, e->message, labels, &ids);
    struct tsdb_exemplar all = {labels->items, labels->n, e->value, e->t_ms, e->t_ms != 0};
    enum tsdb_exemplar_result result = remote_incoming_exemplar(&x->w, ref, &all);
    if (result == TSDB_EXEMPLAR_TOO_LONG) { // the trace matters most
        all.n_labels = ids;
        result = remote_incoming_exemplar(&x->w, ref, &all);
    }
    return result;
}

void remote_otlp_exemplars_store(struct remote_otlp *x, size_t from, size_t to)
{
    tsdb_ref ref = TSDB_NO_REF;
    if (from == to)
        return;
    qsort(x->exemplars + from, to - from, sizeof(*x->exemplars), remote_compare_exemplars);
    x->w.paused = true; // to look up the series
    for (size_t i = from; i < to && !x->stopped; i++) {
        enum tsdb_exemplar_result result = store(x, &ref, &x->exemplars[i]);
        if (result == TSDB_EXEMPLAR_ADDED || result == TSDB_EXEMPLAR_DUPLICATE)
            x->w.reply->exemplars++;
        else
            x->w.r->exemplars++;
    }
}
