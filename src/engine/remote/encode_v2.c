// SPDX-License-Identifier: Apache-2.0
// Writes messages of remote write 2.0: labels are references to a table of symbols, which is
// unique to a message. Symbol 0 is the empty text, as the specification demands.
#include "base/hmap.h"
#include "codec/protobuf.h"
#include "engine/remote/send_private.h"

// Numbers of fields. The names are those of the specification.
enum {
    REQUEST_SYMBOLS = 4,
    REQUEST_TIMESERIES = 5,
    SERIES_LABELS_REFS = 1,
    SERIES_SAMPLES = 2,
    SERIES_EXEMPLARS = 4,
    SERIES_METADATA = 5,
    SAMPLE_VALUE = 1,
    SAMPLE_TIMESTAMP = 2,
    EXEMPLAR_LABELS_REFS = 1,
    EXEMPLAR_VALUE = 2,
    EXEMPLAR_TIMESTAMP = 3,
    METADATA_TYPE = 1,
    METADATA_HELP_REF = 3,
    METADATA_UNIT_REF = 4,
};

// --- symbols ---

static uint64_t symbol(struct remote_encoder *e, struct gs_slice text)
{
    uintptr_t number = (uintptr_t)gs_hmap_get(e->numbers, text); // plus 1
    if (!number) {
        number = ++e->n_symbols;
        gs_hmap_put(e->numbers, text, (void *)number);
        codec_proto_add_bytes(&e->symbols, REQUEST_SYMBOLS, text);
    }
    return number - 1;
}

// --- series ---

// A packed list.
static void add_refs(struct remote_encoder *e, struct gs_buf *out, unsigned number,
                     const struct metrics_label *labels, size_t n)
{
    gs_buf_clear(&e->refs);
    for (size_t i = 0; i < n; i++) {
        codec_proto_add_number(&e->refs, symbol(e, labels[i].name));
        codec_proto_add_number(&e->refs, symbol(e, labels[i].value));
    }
    if (n)
        codec_proto_add_bytes(out, number, gs_buf_slice(&e->refs));
}

void remote_encoder_begin_series(struct remote_encoder *e, const struct metrics_label *labels,
                                 size_t n)
{
    gs_buf_clear(&e->series);
    add_refs(e, &e->series, SERIES_LABELS_REFS, labels, n);
}

void remote_encoder_sample(struct remote_encoder *e, int64_t t_ms, double v)
{
    gs_buf_clear(&e->part);
    codec_proto_add_double(&e->part, SAMPLE_VALUE, v);
    codec_proto_add_varint(&e->part, SAMPLE_TIMESTAMP, (uint64_t)t_ms);
    codec_proto_add_bytes(&e->series, SERIES_SAMPLES, gs_buf_slice(&e->part));
}

void remote_encoder_exemplar(struct remote_encoder *e, const struct tsdb_exemplar *x)
{
    gs_buf_clear(&e->part);
    add_refs(e, &e->part, EXEMPLAR_LABELS_REFS, x->labels, x->n_labels);
    codec_proto_add_double(&e->part, EXEMPLAR_VALUE, x->value);
    codec_proto_add_varint(&e->part, EXEMPLAR_TIMESTAMP, (uint64_t)x->t_ms);
    codec_proto_add_bytes(&e->series, SERIES_EXEMPLARS, gs_buf_slice(&e->part));
}

static uint64_t type_number(const char *name)
{
    static const char *const names[] = {"unknown",        "counter", "gauge", "histogram",
                                        "gaugehistogram", "summary", "info",  "stateset"};
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++)
        if (gs_streq(names[i], name))
            return i;
    return 0;
}

void remote_encoder_metadata(struct remote_encoder *e, const struct metrics_metadata *m)
{
    gs_buf_clear(&e->part);
    codec_proto_add_varint(&e->part, METADATA_TYPE, type_number(m->type_name));
    codec_proto_add_varint(&e->part, METADATA_HELP_REF, symbol(e, m->help));
    codec_proto_add_varint(&e->part, METADATA_UNIT_REF, symbol(e, m->unit));
    codec_proto_add_bytes(&e->series, SERIES_METADATA, gs_buf_slice(&e->part));
}

void remote_encoder_end_series(struct remote_encoder *e)
{
    codec_proto_add_bytes(&e->all, REQUEST_TIMESERIES, gs_buf_slice(&e->series));
}

// --- messages ---

void remote_encoder_begin(struct remote_encoder *e)
{
    gs_buf_clear(&e->all);
    gs_buf_clear(&e->symbols);
    if (!e->numbers)
        e->numbers = gs_hmap_new(NULL);
    gs_hmap_clear(e->numbers);
    e->n_symbols = 0;
    (void)symbol(e, GS_SLICE("")); // must be the first
}

bool remote_encoder_is_empty(const struct remote_encoder *e)
{
    return !e->all.len;
}

void remote_encoder_end(struct remote_encoder *e, struct gs_buf *ret)
{
    gs_buf_add_slice(&e->symbols, gs_buf_slice(&e->all));
    remote_compress(gs_buf_slice(&e->symbols), ret);
}

void remote_encoder_finish(struct remote_encoder *e)
{
    struct gs_buf *const buffers[] = {&e->all, &e->symbols, &e->series, &e->part, &e->refs};
    for (size_t i = 0; i < GS_ARRAY_LEN(buffers); i++)
        gs_buf_finish(buffers[i]);
    gs_hmap_free(e->numbers);
}
