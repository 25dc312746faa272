// SPDX-License-Identifier: Apache-2.0
// Reads responses of Prometheus' HTTP API without a tree. Results have references, since several
// requests share them; they keep the response's body, to which their texts point.
#include "adapter/source/source_private.h"

#include "base/buf.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "base/num.h"
#include "codec/json.h"

enum {
    MAX_LABELS = 512,     // maximum of a series
    MAX_SHOWN_TEXT = 300, // of a body that is not JSON, in an error
};

struct gs_slice source_sample_label(const struct source_sample *s, struct gs_slice name)
{
    for (size_t i = 0; i < s->n_labels; i++)
        if (gs_slice_eq(s->labels[i].name, name))
            return s->labels[i].value;
    return GS_SLICE("");
}

struct source_result *source_result_ref(struct source_result *r)
{
    r->refs++;
    return r;
}

void source_result_unref(struct source_result *r)
{
    if (!r || --r->refs)
        return;
    gs_arena_finish(&r->arena);
    free(r->text);
    free(r);
}

void source_shapes_free(struct source_shapes *s)
{
    if (!s)
        return;
    gs_arena_finish(&s->arena);
    free(s->items);
    free(s);
}

// --- the envelope ---

struct envelope {
    struct gs_slice status, error, error_type, data; // data: raw
};

static bool read_envelope(struct codec_json_pull *j, struct gs_arena *a, struct envelope *ret)
{
    struct gs_slice key;
    if (!codec_json_pull_object(j))
        return false;
    while (codec_json_pull_member(j, a, &key)) {
        if (gs_slice_eq_str(key, "status"))
            codec_json_pull_string(j, a, &ret->status);
        else if (gs_slice_eq_str(key, "error"))
            codec_json_pull_string(j, a, &ret->error);
        else if (gs_slice_eq_str(key, "errorType"))
            codec_json_pull_string(j, a, &ret->error_type);
        else
            codec_json_pull_skip(j, gs_slice_eq_str(key, "data") ? &ret->data : NULL);
    }
    return !j->bad && codec_json_pull_end(j);
}

static enum gs_code code_of(struct gs_slice type)
{
    return gs_slice_eq_str(type, "bad_data")      ? GS_EINVAL
           : gs_slice_eq_str(type, "timeout")     ? GS_ETIMEOUT
           : gs_slice_eq_str(type, "unavailable") ? GS_EUNAVAIL
                                                  : GS_EIO;
}

// Prometheus sends its envelope with these statuses only; others come from a proxy.
static bool has_envelope(int status)
{
    return status / 100 == 2 || status == 400 || status == 422 || status == 503;
}

static struct gs_error *no_envelope(int status, struct gs_slice body)
{
    body = gs_slice_trim(body);
    if (body.len > MAX_SHOWN_TEXT)
        body.len = MAX_SHOWN_TEXT;
    enum gs_code code = status == 401 || status == 403                    ? GS_EPERM
                        : status == 502 || status == 503 || status == 504 ? GS_EUNAVAIL
                                                                          : GS_EPROTO;
    return gs_error_new(code, "HTTP status %d%s" GS_SLICE_FMT, status, body.len ? ": " : "",
                        GS_SLICE_ARG(body));
}

struct gs_error *source_answer_open(int status, struct gs_slice body, struct gs_arena *a,
                                    struct gs_slice *ret_data)
{
    struct codec_json_pull j = codec_json_pull_of(body);
    struct envelope e = {0};
    if (!has_envelope(status))
        return no_envelope(status, body);
    if (!read_envelope(&j, a, &e))
        return status / 100 == 2
                   ? gs_error_new(GS_EPROTO, "not a response of Prometheus: %s at byte %zu", j.bad,
                                  (size_t)(j.p - body.data))
                   : no_envelope(status, body);
    if (gs_slice_eq_str(e.status, "error"))
        return gs_error_new(code_of(e.error_type), GS_SLICE_FMT ": " GS_SLICE_FMT,
                            GS_SLICE_ARG(e.error_type), GS_SLICE_ARG(e.error));
    if (!gs_slice_eq_str(e.status, "success") || !e.data.data)
        return gs_error_new(GS_EPROTO, "not a response of Prometheus: no status or no data");
    *ret_data = e.data;
    return NULL;
}

struct gs_error *source_answer_malformed(const struct codec_json_pull *j)
{
    return gs_error_new(GS_EPROTO, "not a response of Prometheus: %s",
                        j->bad ? j->bad : "malformed");
}

// --- instant queries ---

// [seconds, "value"]
static bool read_point(struct codec_json_pull *j, struct gs_arena *a, struct source_sample *s)
{
    double seconds = 0;
    struct gs_slice text;
    if (!codec_json_pull_array(j) || !codec_json_pull_item(j) ||
        !codec_json_pull_number(j, &seconds) || !codec_json_pull_item(j) ||
        !codec_json_pull_string(j, a, &text) || codec_json_pull_item(j))
        return false;
    if (!(seconds > -1e12 && seconds < 1e12))
        return false;
    s->t_ms = (int64_t)(seconds * 1000 + (seconds < 0 ? -0.5 : 0.5));
    struct gs_error *err = gs_parse_double(text, &s->value);
    gs_error_free(err);
    return !err;
}

// *ret_fits: the sample does not have too many labels.
static bool read_sample_labels(struct codec_json_pull *j, struct gs_arena *a,
                               struct source_sample *s, bool *ret_fits)
{
    struct metrics_label list[MAX_LABELS + 1]; // the last is overwritten
    size_t n = 0;
    *ret_fits = true;
    if (!codec_json_pull_object(j))
        return false;
    struct gs_slice key;
    while (codec_json_pull_member(j, a, &key)) {
        list[n].name = key;
        if (!codec_json_pull_string(j, a, &list[n].value))
            return false;
        if (n < MAX_LABELS)
            n++;
        else
            *ret_fits = false;
    }
    struct metrics_label *copy = gs_arena_alloc(a, (n + 1) * sizeof(*copy));
    if (j->bad || !copy)
        return false;
    if (n)
        memcpy(copy, list, n * sizeof(*copy));
    s->labels = copy;
    s->n_labels = n;
    return true;
}

// *ret_has is false for a native histogram, which has no single value, and for a sample with too
// many labels.
static bool read_sample(struct codec_json_pull *j, struct gs_arena *a, struct source_sample *s,
                        bool *ret_has)
{
    struct gs_slice key;
    bool fits = true;
    *ret_has = false;
    if (!codec_json_pull_object(j))
        return false;
    while (codec_json_pull_member(j, a, &key)) {
        bool ok = true;
        if (gs_slice_eq_str(key, "metric")) {
            ok = read_sample_labels(j, a, s, &fits);
        } else if (gs_slice_eq_str(key, "value")) {
            ok = read_point(j, a, s);
            *ret_has = true;
        } else {
            codec_json_pull_skip(j, NULL);
        }
        if (!ok)
            return false;
    }
    *ret_has = *ret_has && fits;
    return !j->bad;
}

static bool read_vector(struct codec_json_pull *j, struct source_result *r)
{
    struct source_sample *items = NULL;
    size_t n = 0, cap = 0;
    bool ok = codec_json_pull_array(j), has;
    while (ok && codec_json_pull_item(j)) {
        gs_grow(&items, &cap, n, sizeof(*items));
        items[n] = (struct source_sample){0};
        ok = read_sample(j, &r->arena, &items[n], &has);
        n += ok && has;
    }
    ok = ok && !j->bad;
    struct source_sample *copy = gs_arena_alloc(&r->arena, (n + 1) * sizeof(*copy));
    ok = ok && copy;
    if (ok && n)
        memcpy(copy, items, n * sizeof(*copy));
    free(items);
    r->samples = copy;
    r->n = n;
    return ok;
}

static bool read_scalar(struct codec_json_pull *j, struct source_result *r)
{
    struct source_sample *one = gs_arena_alloc(&r->arena, sizeof(*one));
    r->samples = one;
    r->n = 1;
    return one && read_point(j, &r->arena, one);
}

static struct gs_error *read_data(struct gs_slice data, struct source_result *r)
{
    struct codec_json_pull j = codec_json_pull_of(data);
    struct gs_slice key = {0}, type = {0}, result = {0};
    if (!codec_json_pull_object(&j))
        return source_answer_malformed(&j);
    while (codec_json_pull_member(&j, &r->arena, &key)) {
        if (gs_slice_eq_str(key, "resultType"))
            codec_json_pull_string(&j, &r->arena, &type);
        else
            codec_json_pull_skip(&j, gs_slice_eq_str(key, "result") ? &result : NULL);
    }
    if (j.bad || !result.data)
        return source_answer_malformed(&j);
    bool ok = true;
    j = codec_json_pull_of(result);
    if (gs_slice_eq_str(type, "vector")) {
        r->type = SOURCE_VECTOR;
        ok = read_vector(&j, r);
    } else if (gs_slice_eq_str(type, "scalar")) {
        r->type = SOURCE_SCALAR;
        ok = read_scalar(&j, r);
    } else if (gs_slice_eq_str(type, "matrix") || gs_slice_eq_str(type, "string")) {
        r->type = gs_slice_eq_str(type, "matrix") ? SOURCE_MATRIX : SOURCE_STRING;
    } else {
        return gs_error_new(GS_EPROTO, "unknown result type \"" GS_SLICE_FMT "\"",
                            GS_SLICE_ARG(type));
    }
    return ok ? NULL : source_answer_malformed(&j);
}

struct gs_error *source_take_query(int status, struct gs_buf *body, struct source_result **ret)
{
    struct source_result *r = gs_alloc(sizeof(*r));
    size_t len = body->len;
    r->refs = 1;
    r->arena.limit = SOURCE_ANSWER_MAX_ARENA;
    r->text = gs_buf_take(body);
    struct gs_slice data;
    struct gs_error *err =
        source_answer_open(status, gs_slice_make(r->text, len), &r->arena, &data);
    if (!err)
        err = read_data(data, r);
    if (err)
        source_result_unref(r);
    else
        *ret = r;
    return err;
}

struct gs_error *source_read_query(int status, struct gs_slice body, struct source_result **ret)
{
    struct gs_buf copy = {0};
    gs_buf_add_slice(&copy, body);
    return source_take_query(status, &copy, ret);
}

// --- metadata ---

// [{"type": "counter", "help": …}, …]
static bool read_types(struct codec_json_pull *j, struct gs_arena *a, struct gs_slice *ret)
{
    struct gs_slice key, type;
    bool one = true;
    if (!codec_json_pull_array(j))
        return false;
    while (codec_json_pull_item(j)) {
        if (!codec_json_pull_object(j))
            return false;
        while (codec_json_pull_member(j, a, &key)) {
            if (!gs_slice_eq_str(key, "type")) {
                codec_json_pull_skip(j, NULL);
                continue;
            }
            if (!codec_json_pull_string(j, a, &type))
                return false;
            one = one && (!ret->len || gs_slice_eq(*ret, type));
            *ret = type;
        }
    }
    if (!one)
        *ret = GS_SLICE("");
    return !j->bad;
}

struct gs_error *source_read_type(int status, struct gs_slice body, struct gs_slice metric,
                                  struct gs_arena *a, const char **ret_type)
{
    struct gs_slice data, key, type = GS_SLICE("");
    struct gs_error *err = source_answer_open(status, body, a, &data);
    if (err)
        return err;
    struct codec_json_pull j = codec_json_pull_of(data);
    bool ok = codec_json_pull_object(&j);
    while (ok && codec_json_pull_member(&j, a, &key)) {
        if (gs_slice_eq(key, metric))
            ok = read_types(&j, a, &type);
        else
            codec_json_pull_skip(&j, NULL);
    }
    if (!ok || j.bad)
        return source_answer_malformed(&j);
    *ret_type = type.len ? gs_arena_strndup(a, type.data, type.len) : NULL;
    return NULL;
}
