// SPDX-License-Identifier: Apache-2.0
// Reads a YAML document into structs by tables of fields. The first error wins and has the line of
// its value; later calls do nothing, so callers check once. Texts live in the reader's arena.
#include "codec/yaml_reader.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/option.h"

#include <stdarg.h>

void *codec_reader_alloc(struct codec_reader *r, size_t size)
{
    return gs_arena_alloc(r->arena, size ? size : 1); // only the file size limits the arena
}

char *codec_reader_format(struct codec_reader *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    va_end(ap);
    return gs_arena_strdup(r->arena, text);
}

static char *position_of(const struct codec_reader *r, const json_t *value)
{
    struct codec_yaml_mark m = {0, 0};
    if (r->marks && value)
        m = codec_yaml_mark_of(r->marks, value);
    return m.line ? gs_format("%s:%d:%d", r->name, r->first_line + m.line, m.column)
                  : gs_strdup(r->name);
}

void codec_reader_fail(struct codec_reader *r, const json_t *value, const char *fmt, ...)
{
    if (r->err)
        return;
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    va_end(ap);
    GS_AUTO_FREE char *place = position_of(r, value);
    r->err = gs_error_new(GS_EINVAL, "%s: %s", place, text);
}

const char *codec_read_text(struct codec_reader *r, const json_t *value)
{
    if (json_is_string(value))
        return gs_arena_strndup(r->arena, json_string_value(value), json_string_length(value));
    if (!value || json_is_null(value))
        return "";
    if (json_is_boolean(value))
        return json_is_true(value) ? "true" : "false";
    if (json_is_integer(value))
        return codec_reader_format(r, "%lld", (long long)json_integer_value(value));
    if (json_is_real(value)) {
        char text[GS_DOUBLE_SIZE];
        return codec_reader_format(r, "%s", gs_format_double(json_real_value(value), text));
    }
    codec_reader_fail(r, value, "expected a text, not a list or mapping");
    return "";
}

const char *codec_reader_line(struct codec_reader *r, const json_t *value)
{
    struct codec_yaml_mark m = {0, 0};
    if (r->marks && value)
        m = codec_yaml_mark_of(r->marks, value);
    return m.line ? codec_reader_format(r, "%s:%d", r->name, r->first_line + m.line)
                  : codec_reader_format(r, "%s", r->name);
}

const char *codec_reader_path(struct codec_reader *r, const char *path)
{
    if (!path || !*path || *path == '/' || !r->base_dir)
        return path;
    return codec_reader_format(r, "%s/%s", r->base_dir, path);
}

static bool read_bool(struct codec_reader *r, const json_t *value)
{
    const char *text = codec_read_text(r, value);
    if (gs_streq(text, "true") || gs_streq(text, "yes") || gs_streq(text, "on"))
        return true;
    if (!gs_streq(text, "false") && !gs_streq(text, "no") && !gs_streq(text, "off"))
        codec_reader_fail(r, value, "\"%s\" is not true or false", text);
    return false;
}

int64_t codec_read_duration(struct codec_reader *r, const json_t *value)
{
    const char *text = codec_read_text(r, value);
    int64_t ms = 0;
    if (!*text)
        codec_reader_fail(r, value, "empty duration string");
    else if (!codec_parse_duration(text, &ms))
        codec_reader_fail(r, value, "not a valid duration string: \"%s\"", text);
    return ms;
}

static size_t read_count(struct codec_reader *r, const json_t *value)
{
    const char *text = codec_read_text(r, value);
    uint64_t n = 0;
    struct gs_error *err = gs_parse_u64(gs_slice_of(text), SIZE_MAX, &n);
    if (err)
        codec_reader_fail(r, value, "\"%s\" is not a whole number from 0", text);
    gs_error_free(err);
    return n;
}

static size_t read_bytes(struct codec_reader *r, const json_t *value)
{
    const char *text = codec_read_text(r, value);
    size_t n = 0;
    if (!codec_parse_size(text, &n))
        codec_reader_fail(r, value, "\"%s\" is not a size such as 10MB", text);
    return n;
}

void codec_check_url(struct codec_reader *r, const json_t *value, const char *url)
{
    const char *error = codec_url_error(url);
    if (error)
        codec_reader_fail(r, value, "\"%s\" is not a valid URL: %s", url, error);
}

// --- checks ---

void codec_check_bool(struct codec_reader *r, const json_t *value, void *out)
{
    (void)out;
    read_bool(r, value);
}

void codec_check_count(struct codec_reader *r, const json_t *value, void *out)
{
    (void)out;
    read_count(r, value);
}

void codec_check_integer(struct codec_reader *r, const json_t *value, void *out)
{
    const char *text = codec_read_text(r, value);
    int64_t n;
    GS_AUTO_ERROR struct gs_error *err = gs_parse_i64(gs_slice_of(text), INT64_MIN, INT64_MAX, &n);
    (void)out;
    if (err)
        codec_reader_fail(r, value, "\"%s\" is not a whole number", text);
}

void codec_check_number(struct codec_reader *r, const json_t *value, void *out)
{
    const char *text = codec_read_text(r, value);
    double n;
    GS_AUTO_ERROR struct gs_error *err = gs_parse_double(gs_slice_of(text), &n);
    (void)out;
    if (err)
        codec_reader_fail(r, value, "\"%s\" is not a number", text);
}

void codec_check_duration(struct codec_reader *r, const json_t *value, void *out)
{
    (void)out;
    codec_read_duration(r, value);
}

void codec_check_text(struct codec_reader *r, const json_t *value, void *out)
{
    (void)out;
    codec_read_text(r, value);
}

void codec_reader_note(struct codec_reader *r, const json_t *value, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    va_end(ap);
    GS_AUTO_FREE char *place = position_of(r, value);
    gs_grow(&r->ignored, &r->ignored_cap, r->n_ignored, sizeof(*r->ignored));
    r->ignored[r->n_ignored++] = codec_reader_format(r, "%s: %s", place, text);
}

void codec_reader_ignore(struct codec_reader *r, const char *key, const json_t *value,
                         const char *what)
{
    codec_reader_note(r, value, "%s of %s is not supported and has no effect", key, what);
}

static void fail_unknown_field(struct codec_reader *r, const char *key, const json_t *value,
                               const struct codec_field *fields,
                               const struct codec_field *more_fields, const char *what)
{
    const char *names[128];
    size_t n = 0;
    for (; n < GS_ARRAY_LEN(names) && fields->name; fields++)
        names[n++] = fields->name;
    for (; n < GS_ARRAY_LEN(names) && more_fields->name; more_fields++)
        names[n++] = more_fields->name;
    const char *near = gs_suggest(key, names, n);
    codec_reader_fail(r, value,
                      near ? "unknown field \"%s\" in %s, did you mean \"%s\"?"
                           : "unknown field \"%s\" in %s",
                      key, what, near);
}

static bool says_false(const json_t *value)
{
    return json_is_false(value) || gs_streq(json_string_value(value), "false");
}

static void read_field(struct codec_reader *r, const struct codec_field *f, const json_t *value,
                       const char *what, void *out)
{
    void *at = (char *)out + f->offset;
    switch (f->type) {
    case CODEC_FIELD_TEXT:
        *(const char **)at = codec_read_text(r, value);
        break;
    case CODEC_FIELD_PATH:
        *(const char **)at = codec_reader_path(r, codec_read_text(r, value));
        break;
    case CODEC_FIELD_BOOL:
        *(bool *)at = read_bool(r, value);
        break;
    case CODEC_FIELD_DURATION:
        *(int64_t *)at = codec_read_duration(r, value);
        break;
    case CODEC_FIELD_COUNT:
        *(size_t *)at = read_count(r, value);
        break;
    case CODEC_FIELD_BYTES:
        *(size_t *)at = read_bytes(r, value);
        break;
    case CODEC_FIELD_CUSTOM:
        f->read(r, value, at);
        break;
    case CODEC_FIELD_IGNORED:
        if (f->read)
            f->read(r, value, NULL);
        if (!says_false(value))
            codec_reader_ignore(r, f->name, value, what);
        break;
    case CODEC_FIELD_URL:
        *(const char **)at = codec_read_text(r, value);
        codec_check_url(r, value, *(const char **)at);
        break;
    case CODEC_FIELD_UNUSED:
        if (f->read)
            f->read(r, value, NULL);
        break;
    }
}

static bool read_by_table(struct codec_reader *r, const char *key, const json_t *value,
                          const struct codec_field *fields, const char *what, void *out)
{
    for (const struct codec_field *f = fields; f->name; f++) {
        if (!gs_streq(f->name, key))
            continue;
        if (!json_is_null(value)) // "key:" without a value leaves the default
            read_field(r, f, value, what, out);
        return true;
    }
    return false;
}

bool codec_reader_is_mapping(struct codec_reader *r, const json_t *obj, const char *what)
{
    if (json_is_object(obj))
        return true;
    if (obj && !json_is_null(obj))
        codec_reader_fail(r, obj, "%s must be a mapping", what);
    return false;
}

void codec_read_mapping(struct codec_reader *r, const json_t *obj, const struct codec_field *fields,
                        const char *what, void *out)
{
    static const struct codec_field none[] = {{0}};
    codec_read_mapping2(r, obj, fields, out, none, NULL, what);
}

void codec_read_mapping2(struct codec_reader *r, const json_t *obj,
                         const struct codec_field *fields, void *out,
                         const struct codec_field *more_fields, void *more_out, const char *what)
{
    const char *key;
    json_t *value;
    if (!codec_reader_is_mapping(r, obj, what))
        return;
    json_object_foreach ((json_t *)obj, key, value) {
        if (!r->err && !read_by_table(r, key, value, fields, what, out) &&
            !read_by_table(r, key, value, more_fields, what, more_out))
            fail_unknown_field(r, key, value, fields, more_fields, what);
    }
}

void codec_read_list(struct codec_reader *r, const json_t *list, size_t size, codec_read_fn *read,
                     void *ret_items, size_t *ret_n)
{
    if (list && !json_is_null(list) && !json_is_array(list))
        codec_reader_fail(r, list, "expected a list");
    size_t n = json_array_size(list);
    char *items = codec_reader_alloc(r, n * size);
    for (size_t i = 0; i < n && !r->err; i++)
        read(r, json_array_get(list, i), items + i * size);
    *ret_n = n;
    memcpy(ret_items, &items, sizeof(items));
}

static void read_text(struct codec_reader *r, const json_t *item, void *out)
{
    *(const char **)out = codec_read_text(r, item);
}

void codec_read_texts(struct codec_reader *r, const json_t *list, const char *const **ret,
                      size_t *ret_n)
{
    codec_read_list(r, list, sizeof(const char *), read_text, ret, ret_n);
}
