// SPDX-License-Identifier: Apache-2.0
#include "engine/config/reader.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/option.h"

#include <stdarg.h>

void *config_alloc(struct config_reader *r, size_t size)
{
    return gs_arena_alloc(r->arena, size ? size : 1); // the arena has no limit: the file has
}

char *config_format(struct config_reader *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    va_end(ap);
    return gs_arena_strndup(r->arena, text, strlen(text));
}

static char *place_of(const struct config_reader *r, const json_t *value)
{
    struct gs_yaml_mark m = {0, 0};
    if (r->marks && value)
        m = gs_yaml_mark_of(r->marks, value);
    return m.line ? gs_format("%s:%d:%d", r->name, r->first_line + m.line, m.column)
                  : gs_strdup(r->name);
}

void config_fail(struct config_reader *r, const json_t *value, const char *fmt, ...)
{
    if (r->err)
        return;
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    va_end(ap);
    GS_AUTO_FREE char *place = place_of(r, value);
    r->err = gs_error_new(GS_EINVAL, "%s: %s", place, text);
}

const char *config_text(struct config_reader *r, const json_t *value)
{
    if (json_is_string(value))
        return gs_arena_strndup(r->arena, json_string_value(value), json_string_length(value));
    if (!value || json_is_null(value))
        return "";
    if (json_is_boolean(value))
        return json_is_true(value) ? "true" : "false";
    if (json_is_integer(value))
        return config_format(r, "%lld", (long long)json_integer_value(value));
    if (json_is_real(value)) {
        char text[GS_DOUBLE_SIZE];
        return config_format(r, "%s", gs_format_double(json_real_value(value), text));
    }
    config_fail(r, value, "expected a text, not a list or mapping");
    return "";
}

const char *config_path(struct config_reader *r, const char *path)
{
    if (!path || !*path || *path == '/' || !r->base_dir)
        return path;
    return config_format(r, "%s/%s", r->base_dir, path);
}

static bool read_bool(struct config_reader *r, const json_t *value)
{
    const char *text = config_text(r, value);
    if (gs_streq(text, "true") || gs_streq(text, "yes") || gs_streq(text, "on"))
        return true;
    if (!gs_streq(text, "false") && !gs_streq(text, "no") && !gs_streq(text, "off"))
        config_fail(r, value, "\"%s\" is not true or false", text);
    return false;
}

int64_t config_ms(struct config_reader *r, const json_t *value)
{
    const char *text = config_text(r, value);
    int64_t ms = 0;
    if (!*text)
        config_fail(r, value, "empty duration string");
    else if (!engine_duration(text, &ms))
        config_fail(r, value, "not a valid duration string: \"%s\"", text);
    return ms;
}

static size_t read_count(struct config_reader *r, const json_t *value)
{
    const char *text = config_text(r, value);
    uint64_t n = 0;
    struct gs_error *err = gs_parse_u64(gs_slice_of(text), SIZE_MAX, &n);
    if (err)
        config_fail(r, value, "\"%s\" is not a number", text);
    gs_error_free(err);
    return n;
}

static size_t read_bytes(struct config_reader *r, const json_t *value)
{
    static const struct {
        const char *suffix;
        uint64_t factor;
    } units[] = {{"EB", UINT64_C(1) << 60},
                 {"PB", UINT64_C(1) << 50},
                 {"TB", UINT64_C(1) << 40},
                 {"GB", 1 << 30},
                 {"MB", 1 << 20},
                 {"KB", 1 << 10},
                 {"B", 1}};
    struct gs_slice text = gs_slice_of(config_text(r, value));
    if (gs_slice_eq_str(text, "0"))
        return 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(units); i++) {
        size_t len = strlen(units[i].suffix);
        if (!gs_slice_ends(text, units[i].suffix))
            continue;
        uint64_t n, bytes;
        struct gs_error *err =
            gs_parse_u64(gs_slice_make(text.data, text.len - len), UINT64_MAX, &n);
        gs_error_free(err);
        if (err || __builtin_mul_overflow(n, units[i].factor, &bytes))
            break;
        return bytes;
    }
    config_fail(r, value, "\"" GS_SLICE_FMT "\" is not a size such as 10MB", GS_SLICE_ARG(text));
    return 0;
}

void config_ignore(struct config_reader *r, const char *key, const json_t *value, const char *what)
{
    GS_AUTO_FREE char *place = place_of(r, value);
    gs_grow(&r->ignored, &r->ignored_cap, r->n_ignored, sizeof(*r->ignored));
    r->ignored[r->n_ignored++] =
        config_format(r, "%s: %s of %s is not supported and has no effect", place, key, what);
}

static void unknown(struct config_reader *r, const char *key, const json_t *value,
                    const struct config_field *fields, const char *what)
{
    const char *names[64];
    size_t n = 0;
    for (; n < GS_ARRAY_LEN(names) && fields[n].name; n++)
        names[n] = fields[n].name;
    const char *near = gs_suggest(key, names, n);
    config_fail(r, value,
                near ? "unknown field \"%s\" in %s, did you mean \"%s\"?"
                     : "unknown field \"%s\" in %s",
                key, what, near);
}

static void read_field(struct config_reader *r, const struct config_field *f, const json_t *value,
                       const char *what, void *out)
{
    void *at = (char *)out + f->offset;
    switch (f->type) {
    case FIELD_TEXT:
        *(const char **)at = config_text(r, value);
        break;
    case FIELD_PATH:
        *(const char **)at = config_path(r, config_text(r, value));
        break;
    case FIELD_BOOL:
        *(bool *)at = read_bool(r, value);
        break;
    case FIELD_MS:
        *(int64_t *)at = config_ms(r, value);
        break;
    case FIELD_COUNT:
        *(size_t *)at = read_count(r, value);
        break;
    case FIELD_BYTES:
        *(size_t *)at = read_bytes(r, value);
        break;
    case FIELD_READ:
        f->read(r, value, at);
        break;
    case FIELD_IGNORED:
        config_ignore(r, f->name, value, what);
        break;
    case FIELD_URL:
        *(const char **)at = config_text(r, value);
        config_check_url(r, value, *(const char **)at);
        break;
    case FIELD_UNUSED:
        break;
    }
}

static bool read_from(struct config_reader *r, const char *key, const json_t *value,
                      const struct config_field *fields, const char *what, void *out)
{
    for (const struct config_field *f = fields; f->name; f++) {
        if (!gs_streq(f->name, key))
            continue;
        if (!json_is_null(value)) // "key:" without a value leaves the default
            read_field(r, f, value, what, out);
        return true;
    }
    return false;
}

static bool is_mapping(struct config_reader *r, const json_t *obj, const char *what)
{
    if (json_is_object(obj))
        return true;
    if (obj && !json_is_null(obj))
        config_fail(r, obj, "%s must be a mapping", what);
    return false;
}

void config_read(struct config_reader *r, const json_t *obj, const struct config_field *fields,
                 const char *what, void *out)
{
    const char *key;
    json_t *value;
    if (!is_mapping(r, obj, what))
        return;
    json_object_foreach ((json_t *)obj, key, value) {
        if (!r->err && !read_from(r, key, value, fields, what, out))
            unknown(r, key, value, fields, what);
    }
}

void config_read_with_http(struct config_reader *r, const json_t *obj,
                           const struct config_field *fields, const char *what, void *out,
                           struct engine_http *http)
{
    const char *key;
    json_t *value;
    config_http_defaults(http);
    if (!is_mapping(r, obj, what))
        return;
    json_object_foreach ((json_t *)obj, key, value) {
        if (!r->err && !read_from(r, key, value, fields, what, out) &&
            !read_from(r, key, value, config_http_fields, what, http))
            unknown(r, key, value, fields, what);
    }
    config_check_http(r, obj, http);
}

void config_read_list(struct config_reader *r, const json_t *list, size_t size,
                      void (*read)(struct config_reader *r, const json_t *item, void *out),
                      void *ret_items, size_t *ret_n)
{
    if (list && !json_is_null(list) && !json_is_array(list))
        config_fail(r, list, "expected a list");
    size_t n = json_array_size(list);
    char *items = config_alloc(r, n * size);
    for (size_t i = 0; i < n && !r->err; i++)
        read(r, json_array_get(list, i), items + i * size);
    *ret_n = n;
    memcpy(ret_items, &items, sizeof(items));
}

static void read_text(struct config_reader *r, const json_t *item, void *out)
{
    *(const char **)out = config_text(r, item);
}

void config_texts(struct config_reader *r, const json_t *list, const char *const **ret,
                  size_t *ret_n)
{
    config_read_list(r, list, sizeof(const char *), read_text, ret, ret_n);
}

static int compare_labels(const void *a, const void *b)
{
    const struct metrics_label *x = a, *y = b;
    return strcmp(x->name.data, y->name.data);
}

void config_labels(struct config_reader *r, const json_t *map, const struct metrics_label **ret,
                   size_t *ret_n)
{
    const char *key;
    json_t *value;
    size_t n = 0;
    if (!is_mapping(r, map, "labels"))
        return;
    struct metrics_label *labels = config_alloc(r, json_object_size(map) * sizeof(*labels));
    json_object_foreach ((json_t *)map, key, value) {
        const char *text = config_text(r, value);
        if (!*key)
            config_fail(r, value, "\"\" is not a valid label name");
        labels[n++] =
            (struct metrics_label){gs_slice_of(config_format(r, "%s", key)), gs_slice_of(text)};
    }
    if (n)
        qsort(labels, n, sizeof(*labels), compare_labels);
    *ret = labels;
    *ret_n = n;
}
