// SPDX-License-Identifier: Apache-2.0
// Decodes messages of remote write 1.0 and 2.0 without a tree. The whole message is checked before
// its first series is stored, so a malformed request stores nothing. Slices point into the
// message.
#include "base/mem.h"
#include "codec/protobuf.h"
#include "engine/remote/remote_private.h"

#define STEPS_A_CALL 64 // fields between two calls of go_on
#define MAX_REFS     (2 * REMOTE_MAX_LABELS)
#define SHOWN_REFS   20 // references in an error text

// Numbers of fields. The names are those of the specification.
enum {
    V1_TIMESERIES = 1,
    V2_SYMBOLS = 4,
    V2_TIMESERIES = 5,

    SERIES_LABELS = 1, // 2.0: references
    SERIES_SAMPLES = 2,
    V1_SERIES_EXEMPLARS = 3,
    V1_SERIES_HISTOGRAMS = 4,
    V2_SERIES_HISTOGRAMS = 3,
    V2_SERIES_EXEMPLARS = 4,
    V2_SERIES_METADATA = 5,

    LABEL_NAME = 1,
    LABEL_VALUE = 2,
    SAMPLE_VALUE = 1,
    SAMPLE_TIMESTAMP = 2,
    EXEMPLAR_LABELS = 1, // 2.0: references
    EXEMPLAR_VALUE = 2,
    EXEMPLAR_TIMESTAMP = 3,
    METADATA_TYPE = 1,
    METADATA_HELP = 3,
    METADATA_UNIT = 4,
};

static struct gs_error *want(const struct codec_proto_token *t, enum codec_proto_wire wire,
                             const char *field)
{
    if (t->wire == wire)
        return NULL;
    return gs_error_new(GS_EPROTO, "proto: wrong wireType = %d for field %s", (int)t->wire, field);
}

// Called for each field, so that no message delays the loop.
static struct gs_error *step(struct remote_decoder *d)
{
    if (!d->stopped && ++d->steps % STEPS_A_CALL == 0 && d->go_on)
        d->stopped = !d->go_on(d->arg);
    return d->stopped ? gs_error_new(GS_ECONFLICT, "stopped") : NULL;
}

static struct gs_error *next_field(struct remote_decoder *d, struct gs_slice *message,
                                   struct codec_proto_token *ret)
{
    struct gs_error *err = step(d);
    return err ? err : codec_proto_next(message, ret);
}

// --- parts of a series ---

static struct gs_error *read_label(struct remote_decoder *d, struct gs_slice message,
                                   struct metrics_label *ret)
{
    struct metrics_label label = {GS_SLICE(""), GS_SLICE("")};
    while (message.len) {
        struct codec_proto_token t;
        struct gs_error *err = next_field(d, &message, &t);
        if (!err && t.number == LABEL_NAME) {
            err = want(&t, CODEC_PROTO_BYTES, "Name");
            label.name = t.bytes;
        } else if (!err && t.number == LABEL_VALUE) {
            err = want(&t, CODEC_PROTO_BYTES, "Value");
            label.value = t.bytes;
        }
        if (err)
            return err;
    }
    *ret = label;
    return NULL;
}

static struct gs_error *read_double(const struct codec_proto_token *t, double *ret)
{
    uint64_t bits = 0;
    struct gs_error *err = want(t, CODEC_PROTO_64, "Value");
    if (err)
        return err;
    for (size_t i = 0; i < sizeof(bits); i++)
        bits |= (uint64_t)(unsigned char)t->bytes.data[i] << 8 * i;
    memcpy(ret, &bits, sizeof(bits)); // a stale marker is a NaN with a payload
    return NULL;
}

static struct gs_error *read_sample(struct remote_decoder *d, struct gs_slice message,
                                    int64_t *ret_t, double *ret_v)
{
    uint64_t time = 0;
    *ret_v = 0;
    while (message.len) {
        struct codec_proto_token t;
        struct gs_error *err = next_field(d, &message, &t);
        if (!err && t.number == SAMPLE_VALUE) {
            err = read_double(&t, ret_v);
        } else if (!err && t.number == SAMPLE_TIMESTAMP) {
            err = want(&t, CODEC_PROTO_VARINT, "Timestamp");
            time = t.varint;
        }
        if (err)
            return err;
    }
    *ret_t = (int64_t)time;
    return NULL;
}

struct metadata {
    uint64_t type, help, unit;
};

static struct gs_error *read_metadata(struct remote_decoder *d, struct gs_slice message,
                                      struct metadata *m)
{
    while (message.len) {
        struct codec_proto_token t;
        struct gs_error *err = next_field(d, &message, &t);
        uint64_t *to = NULL;
        if (!err && t.number == METADATA_TYPE)
            to = &m->type;
        else if (!err && t.number == METADATA_HELP)
            to = &m->help;
        else if (!err && t.number == METADATA_UNIT)
            to = &m->unit;
        if (to) {
            err = want(&t, CODEC_PROTO_VARINT, "Metadata");
            *to = t.varint;
        }
        if (err)
            return err;
    }
    return NULL;
}

// --- references of 2.0 ---

struct refs {
    uint64_t items[MAX_REFS];
    size_t n; // may be more
};

static void add_ref(struct refs *r, uint64_t ref)
{
    if (r->n < MAX_REFS)
        r->items[r->n] = ref;
    r->n++;
}

// They are packed, or single numbers.
static struct gs_error *read_refs(struct remote_decoder *d, const struct codec_proto_token *t,
                                  struct refs *ret)
{
    if (t->wire == CODEC_PROTO_VARINT) {
        add_ref(ret, t->varint);
        return NULL;
    }
    struct gs_error *err = want(t, CODEC_PROTO_BYTES, "LabelsRefs");
    struct gs_slice list = t->bytes;
    while (!err && list.len) {
        uint64_t ref;
        err = codec_proto_varint(&list, &ref);
        if (!err)
            add_ref(ret, ref);
        if (!err)
            err = step(d);
    }
    return err;
}

static void print_refs(const struct refs *r, struct gs_buf *out)
{
    for (size_t i = 0; i < r->n && i < SHOWN_REFS; i++)
        gs_buf_addf(out, "%s%llu", i ? " " : "[", (unsigned long long)r->items[i]);
    gs_buf_add_str(out, !r->n ? "[]" : r->n > SHOWN_REFS ? " …]" : "]");
}

static struct gs_error *labels_of_refs(const struct remote_decoder *d, const struct refs *r,
                                       struct metrics_label *ret)
{
    size_t n = r->n < MAX_REFS ? r->n : MAX_REFS;
    if (r->n % 2)
        return gs_error_new(GS_EINVAL, "invalid labelRefs length %zu", r->n);
    for (size_t i = 0; i < n; i += 2) {
        uint64_t name = r->items[i], value = r->items[i + 1];
        if (name >= d->n_symbols || value >= d->n_symbols)
            return gs_error_new(
                GS_EINVAL,
                "labelRefs %llu (name) = %llu (value) outside of symbols table (size %zu)",
                (unsigned long long)name, (unsigned long long)value, d->n_symbols);
        ret[i / 2] = (struct metrics_label){d->symbols[name], d->symbols[value]};
    }
    return NULL;
}

static struct gs_error *check_metadata(const struct remote_decoder *d, const struct metadata *m)
{
    const char *what = m->unit >= d->n_symbols ? "unit" : m->help >= d->n_symbols ? "help" : NULL;
    if (!what)
        return NULL;
    return gs_error_new(GS_EINVAL, "metadata %s_ref %llu outside of symbols table (size %zu)", what,
                        (unsigned long long)(m->unit >= d->n_symbols ? m->unit : m->help),
                        d->n_symbols);
}

// --- exemplars ---

// labels: the first REMOTE_MAX_LABELS of 1.0; refs: those of 2.0.
static struct gs_error *read_exemplar(struct remote_decoder *d, struct gs_slice message,
                                      struct remote_decoder_exemplar *ret,
                                      struct metrics_label *labels, size_t *n, struct refs *refs)
{
    *ret = (struct remote_decoder_exemplar){.message = message};
    *n = refs->n = 0;
    while (message.len) {
        struct codec_proto_token t;
        struct gs_error *err = next_field(d, &message, &t);
        if (!err && t.number == EXEMPLAR_LABELS && d->v2) {
            err = read_refs(d, &t, refs);
        } else if (!err && t.number == EXEMPLAR_LABELS) {
            struct metrics_label label = {0};
            err = want(&t, CODEC_PROTO_BYTES, "Labels");
            if (!err)
                err = read_label(d, t.bytes, &label);
            if (!err && *n < REMOTE_MAX_LABELS)
                labels[*n] = label;
            ++*n;
        } else if (!err && t.number == EXEMPLAR_VALUE) {
            err = read_double(&t, &ret->value);
        } else if (!err && t.number == EXEMPLAR_TIMESTAMP) {
            err = want(&t, CODEC_PROTO_VARINT, "Timestamp");
            ret->t_ms = (int64_t)t.varint;
        }
        if (err)
            return err;
    }
    return NULL;
}

static struct gs_error *check_exemplar(struct remote_decoder *d, struct gs_slice message)
{
    struct remote_decoder_exemplar e;
    struct metrics_label labels[REMOTE_MAX_LABELS];
    struct refs refs;
    size_t n;
    return read_exemplar(d, message, &e, labels, &n, &refs);
}

bool remote_decoder_exemplar(struct remote_decoder *d, struct remote_decoder_series *s,
                             struct remote_decoder_exemplar *ret)
{
    const unsigned number = d->v2 ? V2_SERIES_EXEMPLARS : V1_SERIES_EXEMPLARS;
    struct metrics_label labels[REMOTE_MAX_LABELS];
    struct refs refs;
    size_t n;
    while (s->exemplars.len) {
        struct codec_proto_token t;
        struct gs_error *err = next_field(d, &s->exemplars, &t);
        bool found = !err && t.number == number;
        if (found)
            err = read_exemplar(d, t.bytes, ret, labels, &n, &refs);
        if (err) { // the message was checked: go_on returned false
            gs_error_free(err);
            return false;
        }
        if (found)
            return true;
    }
    return false;
}

struct gs_error *remote_decoder_exemplar_labels(struct remote_decoder *d,
                                                const struct remote_decoder_exemplar *e,
                                                struct metrics_label ret[REMOTE_MAX_LABELS],
                                                size_t *ret_n)
{
    struct remote_decoder_exemplar again;
    struct refs refs;
    struct gs_error *err = read_exemplar(d, e->message, &again, ret, ret_n, &refs);
    if (err || !d->v2)
        return err;
    *ret_n = refs.n / 2;
    return labels_of_refs(d, &refs, ret);
}

// --- series ---

static int compare_labels(const void *a, const void *b)
{
    const struct metrics_label *x = a, *y = b;
    return gs_slice_compare(x->name, y->name);
}

void remote_sort_labels(struct metrics_label *labels, size_t n)
{
    size_t i = 1;
    while (i < n && compare_labels(&labels[i - 1], &labels[i]) <= 0)
        i++;
    if (i < n)
        qsort(labels, n, sizeof(*labels), compare_labels);
}

// checking: the samples are read, too, to find malformed ones.
static struct gs_error *read_field(struct remote_decoder *d, const struct codec_proto_token *t,
                                   bool checking, struct remote_decoder_series *s,
                                   struct refs *refs, struct metadata *m)
{
    const unsigned histograms = d->v2 ? V2_SERIES_HISTOGRAMS : V1_SERIES_HISTOGRAMS;
    const unsigned exemplars = d->v2 ? V2_SERIES_EXEMPLARS : V1_SERIES_EXEMPLARS;
    struct gs_error *err = NULL;
    if (t->number == SERIES_LABELS && d->v2)
        return read_refs(d, t, refs);
    if (t->number == SERIES_LABELS) {
        struct metrics_label label = {0};
        err = want(t, CODEC_PROTO_BYTES, "Labels");
        if (!err)
            err = read_label(d, t->bytes, &label);
        if (!err && s->n_labels < REMOTE_MAX_LABELS)
            s->labels[s->n_labels] = label;
        s->n_labels++;
    } else if (t->number == SERIES_SAMPLES) {
        int64_t time;
        double value;
        s->n_samples++;
        err = checking ? want(t, CODEC_PROTO_BYTES, "Samples") : NULL;
        if (!err && checking)
            err = read_sample(d, t->bytes, &time, &value);
    } else if (t->number == histograms) {
        err = want(t, CODEC_PROTO_BYTES, "Histograms");
        s->n_histograms++;
    } else if (t->number == exemplars) {
        err = checking ? want(t, CODEC_PROTO_BYTES, "Exemplars") : NULL;
        if (!err && checking)
            err = check_exemplar(d, t->bytes);
        s->n_exemplars++;
    } else if (t->number == V2_SERIES_METADATA && d->v2) {
        err = want(t, CODEC_PROTO_BYTES, "Metadata");
        if (!err)
            err = read_metadata(d, t->bytes, m);
    }
    return err;
}

static struct gs_error *read_series(struct remote_decoder *d, struct gs_slice message,
                                    bool checking, struct remote_decoder_series *ret)
{
    struct refs refs;
    struct metadata m = {0};
    refs.n = 0;
    ret->n_labels = ret->n_samples = ret->n_histograms = ret->n_exemplars = 0;
    ret->labels_error = ret->metadata_error = NULL;
    ret->samples = ret->exemplars = message;
    while (message.len) {
        struct codec_proto_token t;
        struct gs_error *err = next_field(d, &message, &t);
        if (!err)
            err = read_field(d, &t, checking, ret, &refs, &m);
        if (err)
            return err;
    }
    if (checking)
        return NULL;
    if (d->v2) {
        ret->n_labels = refs.n / 2;
        ret->labels_error = labels_of_refs(d, &refs, ret->labels);
        ret->metadata_error = check_metadata(d, &m);
        ret->has_metadata =
            !ret->metadata_error && (m.type || d->symbols[m.help].len || d->symbols[m.unit].len);
    }
    if (ret->labels_error) {
        GS_AUTO_BUF struct gs_buf text = {0};
        print_refs(&refs, &text);
        ret->labels_error =
            gs_error_wrap(ret->labels_error, "parsing labels for series %s", text.data);
    } else if (ret->metadata_error) {
        GS_AUTO_BUF struct gs_buf text = {0};
        print_refs(&refs, &text);
        ret->metadata_error =
            gs_error_wrap(ret->metadata_error, "parsing metadata for series %s", text.data);
    }
    return NULL;
}

bool remote_decoder_sample(struct remote_decoder *d, struct remote_decoder_series *s,
                           int64_t *ret_t, double *ret_v)
{
    while (s->samples.len) {
        struct codec_proto_token t;
        struct gs_error *err = next_field(d, &s->samples, &t);
        bool found = !err && t.number == SERIES_SAMPLES;
        if (found)
            err = read_sample(d, t.bytes, ret_t, ret_v);
        if (err) { // the message was checked: go_on returned false
            gs_error_free(err);
            return false;
        }
        if (found)
            return true;
    }
    return false;
}

void remote_decoder_series_finish(struct remote_decoder_series *s)
{
    gs_error_free(GS_TAKE(s->labels_error));
    gs_error_free(GS_TAKE(s->metadata_error));
}

// --- messages ---

static bool is_series(const struct remote_decoder *d, const struct codec_proto_token *t)
{
    return t->number == (d->v2 ? V2_TIMESERIES : V1_TIMESERIES);
}

static struct gs_error *add_symbol(struct remote_decoder *d, struct gs_slice symbol)
{
    if (d->n_symbols >= REMOTE_MAX_SYMBOLS)
        return gs_error_new(GS_ELIMIT, "more than %zu symbols", REMOTE_MAX_SYMBOLS);
    gs_grow(&d->symbols, &d->symbols_cap, d->n_symbols, sizeof(*d->symbols));
    d->symbols[d->n_symbols++] = symbol;
    return NULL;
}

static struct gs_error *check_message(struct remote_decoder *d)
{
    struct remote_decoder_series series;
    struct gs_slice message = d->rest;
    while (message.len) {
        struct codec_proto_token t;
        struct gs_error *err = next_field(d, &message, &t);
        if (!err && is_series(d, &t)) {
            err = want(&t, CODEC_PROTO_BYTES, "Timeseries");
            if (!err)
                err = read_series(d, t.bytes, true, &series);
        } else if (!err && d->v2 && t.number == V2_SYMBOLS) {
            err = want(&t, CODEC_PROTO_BYTES, "Symbols");
            if (!err)
                err = add_symbol(d, t.bytes);
        }
        if (err)
            return err;
    }
    return NULL;
}

struct gs_error *remote_decoder_init(struct remote_decoder *d, bool v2, struct gs_slice message,
                                     bool (*go_on)(void *arg), void *arg)
{
    *d = (struct remote_decoder){.rest = message, .v2 = v2, .go_on = go_on, .arg = arg};
    struct gs_error *err = check_message(d);
    if (err)
        remote_decoder_finish(d);
    return err;
}

void remote_decoder_finish(struct remote_decoder *d)
{
    free(d->symbols);
    *d = (struct remote_decoder){0};
}

struct gs_error *remote_decoder_next(struct remote_decoder *d, struct remote_decoder_series *ret,
                                     bool *ret_more)
{
    bool found = false;
    while (d->rest.len && !found) {
        struct codec_proto_token t;
        struct gs_error *err = next_field(d, &d->rest, &t);
        found = !err && is_series(d, &t);
        if (found)
            err = read_series(d, t.bytes, false, ret);
        if (err)
            return err;
    }
    *ret_more = found;
    return NULL;
}
