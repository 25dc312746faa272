// SPDX-License-Identifier: Apache-2.0
// Parses a list of series incrementally, because it may have a hundred megabytes and only its
// shapes are kept. Each object in an array of the outermost object is a series; it is parsed when
// it is complete, then discarded. The rest is the envelope, which is parsed at the end. A series
// with too many labels, or that is too large, is left out.
#include "adapter/source/source_private.h"

#include "base/hmap.h"
#include "base/mem.h"
#include "base/slice.h"
#include "codec/json.h"

enum { MAX_LABELS = 512, MAX_ELEMENT = 1024 * 1024, MAX_ENVELOPE = 1024 * 1024 };

enum place {
    OUTSIDE,       // not in an array of the outermost object
    ARRAY_START,   // after [
    AFTER_ELEMENT, // after an object
    AFTER_COMMA,   // after a comma
    OTHER_ARRAY,   // an array of other values
    ELEMENT,
};

struct source_series_reader {
    struct source_shapes *out;
    struct gs_hmap *index; // name and label names -> index + 1
    size_t cap;
    struct gs_arena scratch; // for one series
    struct gs_slice labels[MAX_LABELS];
    size_t n_labels;
    struct gs_slice name;
    struct gs_buf key;
    // Parser state at the next byte.
    enum place place;
    size_t depth;
    bool in_string, escaped;
    struct gs_buf element; // the received part of a series
    bool skipping;         // it is too large: its rest is not kept
    struct gs_buf envelope;
};

// --- one series ---

static int compare_names(const void *a, const void *b)
{
    return gs_slice_compare(*(const struct gs_slice *)a, *(const struct gs_slice *)b);
}

static struct gs_slice copy_series_text(struct gs_arena *a, struct gs_slice s)
{
    const char *copy = gs_arena_strndup(a, s.data, s.len);
    return gs_slice_make(copy, copy ? s.len : 0);
}

// *ret_fits: the series does not have too many labels.
static bool read_label_names(struct codec_json_pull *j, struct source_series_reader *r,
                             bool *ret_fits)
{
    struct gs_slice key;
    *ret_fits = true;
    r->n_labels = 0;
    r->name = GS_SLICE("");
    if (!codec_json_pull_object(j))
        return false;
    while (codec_json_pull_member(j, &r->scratch, &key)) {
        if (gs_slice_eq_str(key, "__name__")) {
            if (!codec_json_pull_string(j, &r->scratch, &r->name))
                return false;
            continue;
        }
        if (r->n_labels < MAX_LABELS)
            r->labels[r->n_labels++] = key;
        else
            *ret_fits = false;
        codec_json_pull_skip(j, NULL);
    }
    return !j->bad;
}

static bool add_shape(struct source_series_reader *r)
{
    struct source_shapes *o = r->out;
    gs_grow(&o->items, &r->cap, o->n, sizeof(*o->items));
    struct source_shape *s = &o->items[o->n];
    struct gs_slice *labels = gs_arena_alloc(&o->arena, (r->n_labels + 1) * sizeof(*labels));
    if (!labels)
        return false;
    for (size_t i = 0; i < r->n_labels; i++)
        labels[i] = copy_series_text(&o->arena, r->labels[i]);
    *s = (struct source_shape){
        .name = copy_series_text(&o->arena, r->name), .labels = labels, .n_labels = r->n_labels};
    o->n++;
    gs_hmap_put(r->index, gs_buf_slice(&r->key), (void *)(uintptr_t)o->n);
    return s->name.data != NULL;
}

static bool count_series(struct source_series_reader *r)
{
    qsort(r->labels, r->n_labels, sizeof(*r->labels), compare_names);
    gs_buf_clear(&r->key);
    gs_buf_add_slice(&r->key, r->name);
    for (size_t i = 0; i < r->n_labels; i++) {
        gs_buf_add_char(&r->key, '\0');
        gs_buf_add_slice(&r->key, r->labels[i]);
    }
    size_t at = (size_t)(uintptr_t)gs_hmap_get(r->index, gs_buf_slice(&r->key));
    if (!at && !add_shape(r))
        return false;
    struct source_shape *s = &r->out->items[at ? at - 1 : r->out->n - 1];
    s->series++;
    s->last_seen = ++r->out->series;
    return true;
}

static struct gs_error *read_element(struct source_series_reader *r, struct gs_slice text)
{
    struct codec_json_pull j = codec_json_pull_of(text);
    bool fits, ok = read_label_names(&j, r, &fits) && codec_json_pull_end(&j) &&
                    (!fits || count_series(r));
    gs_arena_recycle(&r->scratch);
    return ok ? NULL : source_answer_malformed(&j);
}

// --- splitting the text ---

// Returns true if c belongs to a string, including its quotes.
static bool is_of_string(struct source_series_reader *r, char c)
{
    bool was = r->in_string;
    if (!was)
        r->in_string = c == '"';
    else if (r->escaped)
        r->escaped = false;
    else if (c == '\\')
        r->escaped = true;
    else if (c == '"')
        r->in_string = false;
    return was || r->in_string;
}

// Returns the end of the object that starts or continues at text; text.len: it does not end here.
static size_t scan_element(struct source_series_reader *r, struct gs_slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        if (is_of_string(r, c))
            continue;
        if (c == '{' || c == '[') {
            r->depth++;
        } else if (c == '}' || c == ']') {
            if (--r->depth == 2)
                return i + 1;
        }
    }
    return text.len;
}

static struct gs_error *take_element(struct source_series_reader *r, struct gs_slice *rest)
{
    struct gs_error *err = NULL;
    size_t n = scan_element(r, *rest);
    struct gs_slice part = gs_slice_make(rest->data, n);
    bool whole = r->depth == 2;
    *rest = gs_slice_make(rest->data + n, rest->len - n);
    r->skipping = r->skipping || n > MAX_ELEMENT - r->element.len;
    if (!r->skipping && (!whole || r->element.len)) {
        gs_buf_add_slice(&r->element, part);
        part = gs_buf_slice(&r->element);
    }
    if (whole) {
        if (!r->skipping)
            err = read_element(r, part);
        gs_buf_clear(&r->element);
        r->skipping = false;
        r->place = AFTER_ELEMENT;
    }
    return err;
}

static struct gs_error *take_envelope(struct source_series_reader *r, char c)
{
    if (r->envelope.len >= MAX_ENVELOPE)
        return gs_error_new(GS_ELIMIT,
                            "not a response of Prometheus: more than %d bytes beside the "
                            "series",
                            MAX_ENVELOPE);
    gs_buf_add_char(&r->envelope, c);
    if (is_of_string(r, c))
        return NULL;
    if (c == '{' || c == '[') {
        r->depth++;
        r->place = r->depth == 2 && c == '[' ? ARRAY_START : r->place;
    } else if ((c == '}' || c == ']') && r->depth) {
        r->depth--;
        r->place = r->depth < 2 ? OUTSIDE : r->place;
    }
    return NULL;
}

// A byte between the series of an array.
static struct gs_error *take_between(struct source_series_reader *r, char c, bool *ret_element)
{
    *ret_element = false;
    if (gs_is_blank(c))
        return NULL;
    if (c == '{' && r->place != AFTER_ELEMENT) {
        r->place = ELEMENT;
        *ret_element = true;
        return NULL;
    }
    if (c == ',' && r->place == AFTER_ELEMENT) {
        r->place = AFTER_COMMA;
        return NULL;
    }
    bool end = c == ']' && r->place != AFTER_COMMA;
    if (!end && r->place != ARRAY_START)
        return gs_error_new(GS_EPROTO, "not a response of Prometheus: malformed list of series");
    if (!end)
        r->place = OTHER_ARRAY;
    return take_envelope(r, c);
}

struct gs_error *source_series_reader_feed(struct source_series_reader *r, struct gs_slice bytes)
{
    struct gs_error *err = NULL;
    while (bytes.len && !err) {
        bool element = r->place == ELEMENT;
        if (!element && (r->place == OUTSIDE || r->place == OTHER_ARRAY))
            err = take_envelope(r, bytes.data[0]);
        else if (!element)
            err = take_between(r, bytes.data[0], &element);
        if (!err && element)
            err = take_element(r, &bytes);
        else
            bytes = gs_slice_make(bytes.data + 1, bytes.len - 1);
    }
    return err;
}

struct gs_error *source_series_reader_end(struct source_series_reader *r, int status,
                                          struct source_shapes **ret)
{
    struct gs_slice data = {0};
    struct gs_arena texts = {.limit = (size_t)2 * 1024 * 1024};
    struct gs_error *err = source_answer_open(status, gs_buf_slice(&r->envelope), &texts, &data);
    if (!err && (!data.len || data.data[0] != '[')) // null is not a list
        err = gs_error_new(GS_EPROTO, "not a response of Prometheus: it has no list of series");
    if (!err) {
        struct codec_json_pull j = codec_json_pull_of(data);
        if (!codec_json_pull_array(&j) || codec_json_pull_item(&j))
            err = gs_error_new(GS_EPROTO,
                               "not a response of Prometheus: its list does not contain series");
    }
    gs_arena_finish(&texts);
    if (!err)
        *ret = GS_TAKE(r->out);
    return err;
}

struct source_series_reader *source_series_reader_new(void)
{
    struct source_series_reader *r = gs_alloc(sizeof(*r));
    r->out = gs_alloc(sizeof(*r->out));
    r->out->arena.limit = SOURCE_ANSWER_MAX_ARENA;
    r->index = gs_hmap_new(NULL);
    r->scratch.limit = (size_t)16 * 1024 * 1024;
    return r;
}

void source_series_reader_free(struct source_series_reader *r)
{
    if (!r)
        return;
    source_shapes_free(r->out);
    gs_hmap_free(r->index);
    gs_arena_finish(&r->scratch);
    gs_buf_finish(&r->key);
    gs_buf_finish(&r->element);
    gs_buf_finish(&r->envelope);
    free(r);
}

struct gs_error *source_read_series(int status, struct gs_slice body, struct source_shapes **ret)
{
    struct source_series_reader *r = source_series_reader_new();
    struct gs_error *err = source_series_reader_feed(r, body);
    if (err && status != 200) {
        gs_error_free(err);
        err = NULL;
    }
    if (!err)
        err = source_series_reader_end(r, status, ret);
    source_series_reader_free(r);
    return err;
}
