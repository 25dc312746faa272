// SPDX-License-Identifier: Apache-2.0
// Converts the parser's events to JSON values with a stack of open containers. Aliases copy the
// anchored value; the total number of values is limited against nested aliases.
#include "codec/yaml.h"

#include "base/file.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "codec/encoding.h"

#include <libfyaml.h>

#define MAX_VALUES 1000000
#define MAX_FILE   ((size_t)64 * 1024 * 1024)

struct level {
    json_t *container; // object or array
    char *key;         // pending key of an object
    bool key_merges;   // it is "<<"
    json_t *merged;    // keys merged by "<<": defaults for keys not set here; NULL: none
    char *anchor;      // to be recorded when the container closes
    struct codec_yaml_mark at;
};

struct builder {
    const char *name;
    struct level stack[CODEC_JSON_MAX_DEPTH];
    size_t depth;
    json_t *root;
    int root_line;
    struct gs_hmap *anchors;
    size_t n_values;
    struct codec_yaml_docs docs;
    struct codec_yaml_marks *marks; // NULL: none are kept
    bool texts;                     // plain scalars are strings
};

struct codec_yaml_marks {
    struct gs_hmap *by_value; // address of the value -> struct codec_yaml_mark
};

static struct gs_slice mark_key(const json_t *const *value)
{
    return gs_slice_make(value, sizeof(*value));
}

// Booleans and null are shared by all documents, so they have no position.
static void set_mark(struct builder *b, const json_t *value, struct codec_yaml_mark at)
{
    if (!b->marks || !at.line || json_is_null(value) || json_is_boolean(value))
        return;
    struct codec_yaml_mark *mark = gs_alloc(sizeof(*mark));
    *mark = at;
    gs_hmap_put(b->marks->by_value, mark_key(&value), mark);
}

static struct codec_yaml_mark event_mark(struct fy_event *ev)
{
    const struct fy_mark *m = fy_event_start_mark(ev);
    return m ? (struct codec_yaml_mark){m->line + 1, m->column + 1} : (struct codec_yaml_mark){0};
}

static void free_json(void *j)
{
    json_decref(j);
}

static struct gs_error *fail_at(const struct builder *b, struct fy_event *ev, const char *what)
{
    const struct fy_mark *m = ev ? fy_event_start_mark(ev) : NULL;
    return gs_error_new(GS_EINVAL, "%s:%d:%d: %s", b->name, m ? m->line + 1 : 1,
                        m ? m->column + 1 : 1, what);
}

static void pop_level(struct builder *b)
{
    struct level *l = &b->stack[--b->depth];
    json_decref(l->container);
    json_decref(l->merged);
    free(l->key);
    free(l->anchor);
    *l = (struct level){0};
}

static void reset_document(struct builder *b)
{
    while (b->depth)
        pop_level(b);
    json_decref(b->root);
    b->root = NULL;
    gs_hmap_clear(b->anchors);
}

static char *anchor_name(struct fy_event *ev)
{
    struct fy_token *t = fy_event_get_anchor_token(ev);
    size_t len;
    const char *text = t ? fy_token_get_text(t, &len) : NULL;
    return text ? gs_strndup(text, len) : NULL;
}

// "<<", the merge key of YAML 1.1, merges one or several mappings, of which earlier ones win. If
// "<<" is repeated, the last one wins, as in Go's packages.
static bool merge_mapping(struct level *l, const json_t *value)
{
    CODEC_AUTO_JSON json_t *given = json_object();
    size_t i;
    json_t *item;
    if (!json_is_object(value) && !json_is_array(value))
        return false;
    if (json_is_object(value))
        json_object_update(given, (json_t *)value);
    json_array_foreach (value, i, item)
        if (!json_is_object(item) || json_object_update_missing(given, item) != 0)
            return false;
    if (l->merged)
        json_object_update_missing(given, l->merged);
    json_decref(l->merged);
    l->merged = GS_TAKE(given);
    return true;
}

// A quoted "<<" is an ordinary key.
static bool is_merge_key(struct fy_event *ev, const char *key)
{
    struct fy_token *t = ev->type == FYET_SCALAR ? fy_event_get_token(ev) : NULL;
    return t && fy_token_scalar_style(t) == FYSS_PLAIN && gs_streq(key, "<<");
}

// Adds a finished value to its container. Steals it.
static struct gs_error *place(struct builder *b, struct fy_event *ev, json_t *value)
{
    CODEC_AUTO_JSON json_t *own = value;
    if (++b->n_values > MAX_VALUES)
        return fail_at(b, ev, "too many values (nested aliases?)");
    if (!b->depth) {
        b->root = json_incref(own);
        return NULL;
    }
    struct level *l = &b->stack[b->depth - 1];
    if (json_is_array(l->container)) {
        json_array_append(l->container, own);
        return NULL;
    }
    if (!l->key) { // the scalar is a key
        if (json_is_object(own) || json_is_array(own))
            return fail_at(b, ev, "a mapping key must be a scalar");
        GS_AUTO_BUF struct gs_buf text = {0};
        if (json_is_string(own))
            gs_buf_add_str(&text, json_string_value(own));
        else
            codec_json_dump(own, &text);
        l->key = gs_buf_take(&text);
        l->key_merges = is_merge_key(ev, l->key);
        if (json_object_get(l->container, l->key)) {
            GS_AUTO_FREE char *what =
                gs_format("key \"%s\" is already set in this mapping", l->key);
            return fail_at(b, ev, what);
        }
        return NULL;
    }
    GS_AUTO_FREE char *key = GS_TAKE(l->key);
    if (l->key_merges)
        return merge_mapping(l, own) ? NULL
                                     : fail_at(b, ev, "<< needs a mapping or a list of mappings");
    json_object_set(l->container, key, own);
    return NULL;
}

// A copy of an anchored value has the positions of the original.
static void copy_marks(struct builder *b, const json_t *from, const json_t *to)
{
    const char *key;
    size_t i;
    json_t *v;
    if (!b->marks)
        return;
    set_mark(b, to, codec_yaml_mark_of(b->marks, from));
    json_object_foreach ((json_t *)from, key, v)
        copy_marks(b, v, json_object_get(to, key));
    json_array_foreach (from, i, v)
        copy_marks(b, v, json_array_get(to, i));
}

// Adds the number of values to n_values. Returns false if there are too many or they are nested
// deeper than depth.
static bool count_values(struct builder *b, const json_t *j, size_t depth)
{
    const char *key;
    size_t i;
    json_t *v;
    if (++b->n_values > MAX_VALUES)
        return false;
    if (!json_is_object(j) && !json_is_array(j))
        return true;
    if (!depth)
        return false;
    json_object_foreach ((json_t *)j, key, v)
        if (!count_values(b, v, depth - 1))
            return false;
    json_array_foreach (j, i, v)
        if (!count_values(b, v, depth - 1))
            return false;
    return true;
}

static json_t *plain_scalar(const struct builder *b, struct gs_slice s)
{
    if (!b->texts)
        return codec_yaml_plain_scalar(s);
    json_t *typed = codec_yaml_plain_scalar(s);
    if (!typed || json_is_null(typed))
        return typed;
    json_decref(typed);
    return json_stringn(s.data, s.len);
}

static struct gs_error *on_scalar(struct builder *b, struct fy_event *ev)
{
    struct fy_token *t = fy_event_get_token(ev);
    size_t len = 0;
    const char *text = t ? fy_token_get_text(t, &len) : NULL;
    struct gs_slice s = gs_slice_make(text ? text : "", text ? len : 0);
    struct fy_token *tag = fy_event_get_tag_token(ev);
    size_t tag_len = 0;
    const char *tag_text = tag ? fy_token_get_text(tag, &tag_len) : NULL;
    bool force_string = tag_text && gs_slice_ends(gs_slice_make(tag_text, tag_len), "str");
    GS_AUTO_BUF struct gs_buf binary = {0};
    if (tag_text && gs_slice_eq_str(gs_slice_make(tag_text, tag_len), "tag:yaml.org,2002:binary")) {
        GS_AUTO_ERROR struct gs_error *err = codec_base64_decode(s, &binary);
        if (err)
            return fail_at(b, ev, "!!binary value contains invalid base64 data");
        s = gs_slice_make(binary.data ? binary.data : "", binary.len);
        force_string = true;
    }
    bool plain = !t || fy_token_scalar_style(t) == FYSS_PLAIN;
    bool is_key =
        b->depth && json_is_object(b->stack[b->depth - 1].container) && !b->stack[b->depth - 1].key;
    json_t *value =
        plain && !force_string && !is_key ? plain_scalar(b, s) : json_stringn(s.data, s.len);
    if (!value)
        return fail_at(b, ev, "the text is not valid UTF-8");
    if (!is_key && memchr(s.data, '\0', s.len)) {
        json_decref(value);
        return fail_at(b, ev, "a NUL character is not allowed");
    }
    char *anchor = anchor_name(ev);
    if (anchor)
        gs_hmap_put_str(b->anchors, anchor, json_incref(value));
    free(anchor);
    struct codec_yaml_mark at = event_mark(ev);
    enum fy_scalar_style style = t ? fy_token_scalar_style(t) : FYSS_PLAIN;
    // The parser's mark is after the quote.
    at.column -= (style == FYSS_SINGLE_QUOTED || style == FYSS_DOUBLE_QUOTED) && at.column > 1;
    if (!is_key)
        set_mark(b, value, at);
    return place(b, ev, value);
}

static struct gs_error *on_alias(struct builder *b, struct fy_event *ev)
{
    struct fy_token *t = fy_event_get_token(ev);
    size_t len = 0;
    const char *text = t ? fy_token_get_text(t, &len) : NULL;
    json_t *value = text ? gs_hmap_get(b->anchors, gs_slice_make(text, len)) : NULL;
    if (!value)
        return fail_at(b, ev, "unknown alias");
    if (!count_values(b, value, CODEC_JSON_MAX_DEPTH - b->depth))
        return fail_at(b, ev,
                       b->n_values > MAX_VALUES ? "too many values (nested aliases?)"
                                                : "nested too deeply");
    json_t *copy = json_deep_copy(value);
    copy_marks(b, value, copy);
    return place(b, ev, copy);
}

static struct gs_error *on_open(struct builder *b, struct fy_event *ev, json_t *container)
{
    if (b->depth == CODEC_JSON_MAX_DEPTH) {
        json_decref(container);
        return fail_at(b, ev, "nested too deeply");
    }
    struct level *parent = b->depth ? &b->stack[b->depth - 1] : NULL;
    if (parent && json_is_object(parent->container) && !parent->key) {
        json_decref(container);
        return fail_at(b, ev, "a mapping key must be a scalar");
    }
    b->stack[b->depth++] =
        (struct level){.container = container, .anchor = anchor_name(ev), .at = event_mark(ev)};
    return NULL;
}

static struct gs_error *on_close(struct builder *b, struct fy_event *ev)
{
    struct level *l = &b->stack[b->depth - 1];
    json_t *done = json_incref(l->container);
    if (l->merged)
        json_object_update_missing(done, l->merged);
    set_mark(b, done, l->at);
    if (l->anchor)
        gs_hmap_put_str(b->anchors, l->anchor, json_incref(done));
    pop_level(b);
    return place(b, ev, done);
}

static void end_document(struct builder *b)
{
    if (b->root && !json_is_null(b->root)) {
        gs_grow(&b->docs.items, &b->docs.cap, b->docs.len, sizeof(*b->docs.items));
        b->docs.items[b->docs.len++] =
            (struct codec_yaml_doc){.value = json_incref(b->root), .line = b->root_line};
    }
    reset_document(b);
}

static struct gs_error *on_event(struct builder *b, struct fy_event *ev)
{
    enum { LINE_UNSET = 0 };
    if (b->root_line == LINE_UNSET && !b->depth &&
        (ev->type == FYET_MAPPING_START || ev->type == FYET_SEQUENCE_START ||
         ev->type == FYET_SCALAR)) {
        const struct fy_mark *m = fy_event_start_mark(ev);
        b->root_line = m ? m->line + 1 : 1;
    }
    switch (ev->type) {
    case FYET_MAPPING_START:
        return on_open(b, ev, json_object());
    case FYET_SEQUENCE_START:
        return on_open(b, ev, json_array());
    case FYET_MAPPING_END:
    case FYET_SEQUENCE_END:
        return on_close(b, ev);
    case FYET_SCALAR:
        return on_scalar(b, ev);
    case FYET_ALIAS:
        return on_alias(b, ev);
    case FYET_DOCUMENT_END:
        end_document(b);
        b->root_line = LINE_UNSET;
        return NULL;
    default:
        return NULL;
    }
}

// The first error that the parser collected, as file:line:column.
static struct gs_error *stream_error(const struct builder *b, struct fy_diag *diag)
{
    void *iter = NULL;
    for (struct fy_diag_error *e; (e = fy_diag_errors_iterate(diag, &iter));)
        if (e->type == FYET_ERROR)
            return gs_error_new(GS_EINVAL, "%s:%d:%d: %s", b->name, e->line, e->column, e->msg);
    return gs_error_new(GS_EINVAL, "%s: not valid YAML", b->name);
}

// libfyaml 0.7 can loop forever on bytes that YAML does not allow, so they are rejected first.
static struct gs_error *check_characters(struct gs_slice text, const char *name)
{
    size_t valid = codec_utf8_valid_prefix(text), line = 1;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (i == valid)
            return gs_error_new(GS_EINVAL, "%s:%zu: the text is not valid UTF-8", name, line);
        if ((c < 0x20 && c != '\n' && c != '\r' && c != '\t') || c == 0x7f)
            return gs_error_new(GS_EINVAL, "%s:%zu: the control character 0x%02x is not allowed",
                                name, line, c);
        line += c == '\n';
    }
    return NULL;
}

static struct gs_error *parse_stream(struct gs_slice text, const char *name, bool texts,
                                     struct codec_yaml_marks *marks, struct codec_yaml_docs *ret)
{
    struct gs_error *err = check_characters(text, name);
    if (err)
        return err;
    struct fy_diag_cfg diag_cfg;
    fy_diag_cfg_default(&diag_cfg);
    diag_cfg.fp = NULL;
    diag_cfg.output_fn = NULL;
    struct fy_diag *diag = fy_diag_create(&diag_cfg);
    fy_diag_set_collect_errors(diag, true);
    struct fy_parse_cfg cfg = {.flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG |
                                        FYPCF_ALLOW_DUPLICATE_KEYS | FYPCF_JSON_NONE |
                                        FYPCF_SLOPPY_FLOW_INDENTATION,
                               .diag = diag};
    struct fy_parser *parser = fy_parser_create(&cfg);
    struct builder b = {
        .name = name, .anchors = gs_hmap_new(free_json), .marks = marks, .texts = texts};
    if (!parser || fy_parser_set_string(parser, text.data ? text.data : "", text.len) != 0)
        err = gs_error_new(GS_EIO, "%s: cannot start the YAML parser", name);
    bool end = err != NULL;
    while (!end) {
        struct fy_event *ev = fy_parser_parse(parser);
        if (!ev) {
            if (fy_parser_get_stream_error(parser))
                err = stream_error(&b, diag);
            break;
        }
        err = on_event(&b, ev);
        end = err || ev->type == FYET_STREAM_END;
        fy_parser_event_free(parser, ev);
    }
    if (parser)
        fy_parser_destroy(parser);
    fy_diag_destroy(diag);
    reset_document(&b);
    gs_hmap_free(b.anchors);
    if (err) {
        codec_yaml_docs_finish(&b.docs);
        return err;
    }
    *ret = b.docs;
    return NULL;
}

struct gs_error *codec_yaml_parse(struct gs_slice text, const char *name,
                                  struct codec_yaml_docs *ret)
{
    return parse_stream(text, name, false, NULL, ret);
}

static struct gs_error *parse_with_marks(struct gs_slice text, const char *name, bool texts,
                                         struct codec_yaml_docs *ret,
                                         struct codec_yaml_marks **ret_marks)
{
    struct codec_yaml_marks *marks = gs_alloc(sizeof(*marks));
    marks->by_value = gs_hmap_new(free);
    struct gs_error *err = parse_stream(text, name, texts, marks, ret);
    if (err) {
        codec_yaml_marks_free(marks);
        return err;
    }
    *ret_marks = marks;
    return NULL;
}

struct gs_error *codec_yaml_parse_marked(struct gs_slice text, const char *name,
                                         struct codec_yaml_docs *ret,
                                         struct codec_yaml_marks **ret_marks)
{
    return parse_with_marks(text, name, false, ret, ret_marks);
}

struct gs_error *codec_yaml_parse_texts(struct gs_slice text, const char *name,
                                        struct codec_yaml_docs *ret,
                                        struct codec_yaml_marks **ret_marks)
{
    return parse_with_marks(text, name, true, ret, ret_marks);
}

struct codec_yaml_mark codec_yaml_mark_of(const struct codec_yaml_marks *m, const json_t *value)
{
    const struct codec_yaml_mark *mark =
        m && value ? gs_hmap_get(m->by_value, mark_key(&value)) : NULL;
    return mark ? *mark : (struct codec_yaml_mark){0};
}

void codec_yaml_marks_free(struct codec_yaml_marks *m)
{
    if (!m)
        return;
    gs_hmap_free(m->by_value);
    free(m);
}

struct gs_error *codec_yaml_load_file(const char *path, struct codec_yaml_docs *ret)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_error *err = gs_file_read(path, MAX_FILE, &text);
    return err ? err : codec_yaml_parse(gs_buf_slice(&text), path, ret);
}

void codec_yaml_docs_finish(struct codec_yaml_docs *docs)
{
    for (size_t i = 0; i < docs->len; i++)
        json_decref(docs->items[i].value);
    free(docs->items);
    *docs = (struct codec_yaml_docs){0};
}
