// SPDX-License-Identifier: Apache-2.0
// Remote read with the response type SAMPLES. Series are retained while the query pauses
// (tsdb_isolation_begin). The response is compressed in parts that are independent of each other,
// which Snappy's format allows.
#include "engine/remote/remote_read.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/turn.h"
#include "codec/encoding.h"
#include "codec/protobuf.h"
#include "engine/remote/remote_private.h"
#include "tsdb/matcher.h"

#define MAX_REQUEST  ((size_t)1 << 20)  // bytes, decompressed
#define MAX_RESPONSE ((size_t)32 << 20) // bytes before compression
#define MAX_QUERIES  64
#define MAX_MATCHERS 64                // of a query
#define PART         ((size_t)1 << 20) // that is compressed at once

// Numbers of fields.
enum {
    REQUEST_QUERIES = 1,
    REQUEST_TYPES = 2,
    QUERY_START = 1,
    QUERY_END = 2,
    QUERY_MATCHERS = 3,
    MATCHER_TYPE = 1,
    MATCHER_NAME = 2,
    MATCHER_VALUE = 3,
    RESPONSE_RESULTS = 1,
};

struct query {
    int64_t start_ms, end_ms;
    struct tsdb_matcher matchers[MAX_MATCHERS];
    size_t n_matchers;
};

struct reader {
    const struct remote_read_options *o;
    int64_t turn_ns;
    struct gs_buf raw, result; // the response, and the series of a query
    struct tsdb_samples samples;
    struct metrics_label *labels; // of a series
    size_t labels_cap;
};

static struct gs_error *go_on(struct reader *r)
{
    if (!r->o->go_on || gs_mono_ns() - r->turn_ns < gs_turn_ns())
        return NULL;
    bool ok = r->o->go_on(r->o->arg);
    r->turn_ns = gs_mono_ns();
    return ok ? NULL : gs_error_new(GS_ECONFLICT, "the client has disconnected");
}

static bool goes_on(void *arg)
{
    struct gs_error *err = go_on(arg);
    gs_error_free(err);
    return !err;
}

// --- request ---

static struct gs_error *want(const struct codec_proto_token *t, enum codec_proto_wire wire)
{
    return t->wire == wire ? NULL
                           : gs_error_new(GS_EINVAL, "proto: wrong wireType = %d", (int)t->wire);
}

static struct gs_error *read_matcher(struct gs_slice message, struct tsdb_matcher *m)
{
    static const enum tsdb_match ops[] = {TSDB_EQ, TSDB_NEQ, TSDB_RE, TSDB_NRE};
    uint64_t type = 0;
    *m = (struct tsdb_matcher){.name = GS_SLICE(""), .value = GS_SLICE("")};
    while (message.len) {
        struct codec_proto_token t;
        struct gs_error *err = codec_proto_next(&message, &t);
        bool number = !err && t.number == MATCHER_TYPE;
        if (number || (!err && (t.number == MATCHER_NAME || t.number == MATCHER_VALUE)))
            err = want(&t, number ? CODEC_PROTO_VARINT : CODEC_PROTO_BYTES);
        if (err)
            return err;
        if (number)
            type = t.varint;
        else if (t.number == MATCHER_NAME)
            m->name = t.bytes;
        else if (t.number == MATCHER_VALUE)
            m->value = t.bytes;
    }
    if (type >= GS_ARRAY_LEN(ops))
        return gs_error_new(GS_EINVAL, "invalid matcher type");
    m->op = ops[type];
    return m->op == TSDB_RE || m->op == TSDB_NRE ? tsdb_regex_new(m->value, &m->regex) : NULL;
}

static bool is_external(const struct reader *r, const struct tsdb_matcher *m)
{
    for (size_t i = 0; i < r->o->n_external_labels; i++)
        if (m->op == TSDB_EQ && gs_slice_eq(r->o->external_labels[i].name, m->name) &&
            gs_slice_eq(r->o->external_labels[i].value, m->value))
            return true;
    return false;
}

static void query_finish(struct query *q)
{
    for (size_t i = 0; i < q->n_matchers; i++)
        tsdb_regex_free(q->matchers[i].regex);
}

static struct gs_error *read_query(const struct reader *r, struct gs_slice message, struct query *q)
{
    while (message.len) {
        struct codec_proto_token t;
        struct gs_error *err = codec_proto_next(&message, &t);
        if (!err && (t.number == QUERY_START || t.number == QUERY_END)) {
            err = want(&t, CODEC_PROTO_VARINT);
            *(t.number == QUERY_START ? &q->start_ms : &q->end_ms) = (int64_t)t.varint;
        } else if (!err && t.number == QUERY_MATCHERS) {
            err = want(&t, CODEC_PROTO_BYTES);
            if (!err && q->n_matchers == MAX_MATCHERS)
                err = gs_error_new(GS_ELIMIT, "more than %d matchers in a query", MAX_MATCHERS);
            if (!err)
                err = read_matcher(t.bytes, &q->matchers[q->n_matchers]);
            if (!err && !is_external(r, &q->matchers[q->n_matchers]))
                q->n_matchers++;
        }
        if (err)
            return err;
    }
    return NULL;
}

// An empty list of types means samples, which have the number 0.
static struct gs_error *check_types(struct gs_slice request)
{
    bool listed = false, samples = false;
    size_t queries = 0;
    while (request.len) {
        struct codec_proto_token t;
        struct gs_error *err = codec_proto_next(&request, &t);
        if (err)
            return err;
        if (t.number == REQUEST_QUERIES && ++queries > MAX_QUERIES)
            return gs_error_new(GS_ELIMIT, "more than %d queries in a request", MAX_QUERIES);
        if (t.number != REQUEST_TYPES)
            continue;
        listed = true;
        samples = samples || (t.wire == CODEC_PROTO_VARINT && t.varint == 0) ||
                  (t.wire == CODEC_PROTO_BYTES && memchr(t.bytes.data, 0, t.bytes.len));
    }
    return samples || !listed ? NULL
                              : gs_error_new(GS_EINVAL, "server does not support any of the "
                                                        "requested response types; supported: "
                                                        "[SAMPLES]");
}

// --- response ---

static void add_label(struct reader *r, size_t *n, struct metrics_label label)
{
    gs_grow(&r->labels, &r->labels_cap, *n, sizeof(*r->labels));
    r->labels[(*n)++] = label;
}

// The labels of the series, and the external labels that it lacks, sorted.
static size_t read_labels(struct reader *r, tsdb_ref ref)
{
    const struct tsdb_symbols *symbols = tsdb_symbols(r->o->db);
    struct tsdb_labels l = tsdb_series_labels(r->o->db, ref);
    size_t n = 0, e = 0;
    for (size_t i = 0; i < tsdb_labels_len(l); i++) {
        struct metrics_label own = tsdb_labels_text_at(symbols, l, i);
        int order = 1;
        while (e < r->o->n_external_labels &&
               (order = gs_slice_compare(r->o->external_labels[e].name, own.name)) < 0)
            add_label(r, &n, r->o->external_labels[e++]);
        e += e < r->o->n_external_labels && order == 0;
        add_label(r, &n, own);
    }
    while (e < r->o->n_external_labels)
        add_label(r, &n, r->o->external_labels[e++]);
    return n;
}

static struct gs_error *add_series(struct reader *r, const struct query *q, tsdb_ref ref)
{
    tsdb_read(r->o->db, ref, q->start_ms, q->end_ms, &r->samples);
    if (!r->samples.n)
        return go_on(r);
    size_t n = read_labels(r, ref);
    remote_encode_series(&r->result, r->labels, n, r->samples.t, r->samples.v, r->samples.n);
    if (r->raw.len + r->result.len > MAX_RESPONSE)
        return gs_error_new(GS_ELIMIT,
                            "the response would have more than %zu bytes; select fewer series or a "
                            "shorter time",
                            MAX_RESPONSE);
    return go_on(r);
}

static struct gs_error *answer_query(struct reader *r, const struct query *q,
                                     const struct tsdb_isolation *hold)
{
    GS_CLEANUP(tsdb_answers_finish) struct tsdb_answers answers;
    GS_CLEANUP(tsdb_refs_finish) struct tsdb_refs refs = {0};
    gs_buf_clear(&r->result);
    struct gs_error *err =
        tsdb_answers_collect(r->o->db, q->matchers, q->n_matchers, NULL, goes_on, r, &answers);
    if (!err && q->start_ms <= q->end_ms)
        err = tsdb_find(r->o->db, answers.matchers, answers.n, q->start_ms, q->end_ms, 0, &refs);
    if (!err)
        tsdb_isolation_filter(r->o->db, hold, &refs);
    if (!err)
        err = go_on(r);
    for (size_t i = 0; i < refs.len && !err; i++)
        err = add_series(r, q, refs.items[i]);
    if (!err)
        codec_proto_add_bytes(&r->raw, RESPONSE_RESULTS, gs_buf_slice(&r->result));
    return err;
}

static struct gs_error *answer(struct reader *r, struct gs_slice request)
{
    struct gs_error *err = check_types(request);
    struct tsdb_isolation hold;
    tsdb_isolation_begin(r->o->db, &hold);
    while (!err && request.len) {
        struct codec_proto_token t;
        GS_CLEANUP(query_finish) struct query q = {0};
        err = codec_proto_next(&request, &t);
        if (err || t.number != REQUEST_QUERIES)
            continue;
        err = want(&t, CODEC_PROTO_BYTES);
        if (!err)
            err = read_query(r, t.bytes, &q);
        if (!err)
            err = answer_query(r, &q, &hold);
    }
    tsdb_isolation_end(r->o->db, &hold);
    return err;
}

// A block of Snappy in parts, each of which refers only to itself, so that others can run between
// them. Before the first part is the size of all.
static struct gs_error *compress(struct reader *r, struct gs_buf *ret)
{
    GS_AUTO_BUF struct gs_buf part = {0};
    struct gs_slice rest = gs_buf_slice(&r->raw);
    struct gs_error *err = NULL;
    uint64_t size = rest.len;
    gs_buf_clear(ret);
    for (; size >= 0x80; size >>= 7)
        gs_buf_add_char(ret, (char)(size | 0x80));
    gs_buf_add_char(ret, (char)size);
    while (rest.len && !err) {
        size_t n = rest.len < PART ? rest.len : PART;
        uint64_t own_size;
        remote_compress(gs_slice_make(rest.data, n), &part);
        struct gs_slice block = gs_buf_slice(&part);
        err = codec_proto_varint(&block, &own_size);
        if (!err)
            gs_buf_add_slice(ret, block);
        rest = gs_slice_make(rest.data + n, rest.len - n);
        if (!err)
            err = go_on(r);
    }
    return err;
}

struct gs_error *remote_read(const struct remote_read_options *o, struct gs_slice body,
                             struct gs_buf *ret)
{
    GS_AUTO_BUF struct gs_buf request = {0};
    struct reader r = {.o = o, .turn_ns = gs_mono_ns()};
    struct gs_error *err = codec_unsnappy(body, MAX_REQUEST, NULL, NULL, &request);
    if (!err)
        err = answer(&r, gs_buf_slice(&request));
    if (!err)
        err = compress(&r, ret);
    gs_buf_finish(&r.raw);
    gs_buf_finish(&r.result);
    tsdb_samples_finish(&r.samples);
    free(r.labels);
    return err;
}
