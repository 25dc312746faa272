// SPDX-License-Identifier: Apache-2.0
// Checks a document of cases against a schema: alternatives of types, ranges, and names of fields
// with suggestions. Errors have the path in the document and the line.
#include "replay/schema.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/option.h"
#include "kube/quantity.h"

#include <math.h>
#include <stdarg.h>

struct gs_error *replay_schema_error(const struct replay_document *src, const json_t *value,
                                     const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    va_end(ap);
    struct codec_yaml_mark at = codec_yaml_mark_of(src->marks, value);
    if (at.line)
        return gs_error_new(GS_EINVAL, "%s:%d:%d: %s", src->file, at.line, at.column, text);
    return gs_error_new(GS_EINVAL, "%s:%d: %s", src->file, src->line, text);
}

static bool is_of_kind(const json_t *v, enum replay_schema_kind kind)
{
    switch (kind) {
    case REPLAY_SCHEMA_NULL:
        return json_is_null(v);
    case REPLAY_SCHEMA_BOOL:
        return json_is_boolean(v);
    case REPLAY_SCHEMA_COUNT:
        return json_is_integer(v);
    case REPLAY_SCHEMA_NUMBER:
    case REPLAY_SCHEMA_SECONDS:
        return json_is_number(v);
    case REPLAY_SCHEMA_QUANTITY:
        return json_is_number(v) || json_is_string(v);
    case REPLAY_SCHEMA_TEXT:
    case REPLAY_SCHEMA_CHOICE:
        return json_is_string(v);
    case REPLAY_SCHEMA_OBJECT:
    case REPLAY_SCHEMA_MAP:
        return json_is_object(v);
    case REPLAY_SCHEMA_LIST:
        return json_is_array(v);
    case REPLAY_SCHEMA_ANY:
        return true;
    case REPLAY_SCHEMA_END:
        break;
    }
    return false;
}

static void add_choices(const struct replay_schema *s, struct gs_buf *out)
{
    for (size_t i = 0; s->choices[i]; i++)
        gs_buf_addf(out, "%s%s", i ? " or " : "", s->choices[i]);
}

// "a whole number, null or a mapping"
static void add_wanted(const struct replay_schema *s, struct gs_buf *out)
{
    static const char *const names[] = {
        [REPLAY_SCHEMA_NULL] = "null",
        [REPLAY_SCHEMA_BOOL] = "true or false",
        [REPLAY_SCHEMA_COUNT] = "a whole number without quotes",
        [REPLAY_SCHEMA_NUMBER] = "a number such as 0.1",
        [REPLAY_SCHEMA_SECONDS] = "a number of seconds without a unit, such as 60",
        [REPLAY_SCHEMA_QUANTITY] = "a quantity such as 250m",
        [REPLAY_SCHEMA_TEXT] = "a text",
        [REPLAY_SCHEMA_OBJECT] = "a mapping",
        [REPLAY_SCHEMA_MAP] = "a mapping",
        [REPLAY_SCHEMA_LIST] = "a list",
        [REPLAY_SCHEMA_ANY] = "a value",
    };
    for (const struct replay_schema *a = s; a->kind != REPLAY_SCHEMA_END; a++) {
        if (a > s)
            gs_buf_add_str(out, a[1].kind == REPLAY_SCHEMA_END ? " or " : ", ");
        if (a->kind == REPLAY_SCHEMA_CHOICE)
            add_choices(a, out);
        else
            gs_buf_add_str(out, names[a->kind]);
    }
}

static struct gs_error *wrong_type(const struct replay_document *src, const json_t *value,
                                   const struct replay_schema *s, const char *path)
{
    GS_AUTO_BUF struct gs_buf wanted = {0}, shown = {0};
    add_wanted(s, &wanted);
    if (json_is_object(value) || json_is_array(value))
        gs_buf_add_str(&shown, json_is_object(value) ? "a mapping" : "a list");
    else
        codec_json_dump(value, &shown);
    return replay_schema_error(src, value, "%s: want %s, not %s", path, wanted.data, shown.data);
}

static struct gs_error *check_range(const struct replay_document *src, const json_t *value,
                                    const struct replay_schema *s, const char *path)
{
    double v = json_number_value(value);
    if (v >= s->min && v <= s->max)
        return NULL;
    char low[GS_DOUBLE_SIZE], high[GS_DOUBLE_SIZE], got[GS_DOUBLE_SIZE];
    return replay_schema_error(src, value, "%s: want %s to %s, not %s", path,
                               gs_format_double(s->min, low), gs_format_double(s->max, high),
                               gs_format_double(v, got));
}

static struct gs_error *check_quantity(const struct replay_document *src, const json_t *value,
                                       const char *path)
{
    int64_t milli;
    if (!json_is_string(value))
        return NULL;
    GS_AUTO_ERROR struct gs_error *err =
        kube_quantity_parse_milli(gs_slice_of(json_string_value(value)), &milli);
    return err ? replay_schema_error(src, value, "%s: \"%s\" is not a quantity: %s", path,
                                     json_string_value(value), gs_error_message(err))
               : NULL;
}

static struct gs_error *check_choice(const struct replay_document *src, const json_t *value,
                                     const struct replay_schema *s, const char *path)
{
    for (size_t i = 0; s->choices[i]; i++)
        if (gs_streq(s->choices[i], json_string_value(value)))
            return NULL;
    GS_AUTO_BUF struct gs_buf wanted = {0};
    add_choices(s, &wanted);
    return replay_schema_error(src, value, "%s: want %s, not \"%s\"", path, wanted.data,
                               json_string_value(value));
}

static struct gs_error *unknown_field(const struct replay_document *src, const json_t *value,
                                      const struct replay_schema *s, const char *path,
                                      const char *key)
{
    const char *names[32];
    size_t n = 0;
    for (; n < GS_ARRAY_LEN(names) && s->fields[n].name; n++)
        names[n] = s->fields[n].name;
    const char *near = gs_suggest(key, names, n);
    return replay_schema_error(src, value,
                               near ? "%s has no field \"%s\", did you mean \"%s\"?"
                                    : "%s has no field \"%s\"",
                               path, key, near);
}

static const struct replay_schema *field_schema(const struct replay_schema *s, const char *key)
{
    if (s->kind == REPLAY_SCHEMA_MAP)
        return s->item;
    for (const struct replay_schema_field *f = s->fields; f->name; f++)
        if (gs_streq(f->name, key))
            return f->schema;
    return NULL;
}

static struct gs_error *check_members(const struct replay_document *src, const json_t *value,
                                      const struct replay_schema *s, const char *path)
{
    const char *key;
    json_t *v;
    json_object_foreach ((json_t *)value, key, v) {
        const struct replay_schema *of = field_schema(s, key);
        if (!of)
            return unknown_field(src, json_is_null(v) ? value : v, s, path, key);
        GS_AUTO_FREE char *inner = gs_format("%s.%s", path, key);
        struct gs_error *err = replay_schema_check(src, v, of, inner);
        if (err)
            return err;
    }
    return NULL;
}

static struct gs_error *check_items(const struct replay_document *src, const json_t *value,
                                    const struct replay_schema *s, const char *path)
{
    if ((double)json_array_size(value) > s->max)
        return replay_schema_error(src, value, "%s: more than %.0f entries", path, s->max);
    for (size_t i = 0; i < json_array_size(value); i++) {
        GS_AUTO_FREE char *inner = gs_format("%s[%zu]", path, i);
        struct gs_error *err = replay_schema_check(src, json_array_get(value, i), s->item, inner);
        if (err)
            return err;
    }
    return NULL;
}

struct gs_error *replay_schema_check(const struct replay_document *src, const json_t *value,
                                     const struct replay_schema *schema, const char *path)
{
    const struct replay_schema *s = schema;
    while (s->kind != REPLAY_SCHEMA_END && !is_of_kind(value, s->kind))
        s++;
    switch (s->kind) {
    case REPLAY_SCHEMA_END:
        return wrong_type(src, value, schema, path);
    case REPLAY_SCHEMA_COUNT:
    case REPLAY_SCHEMA_NUMBER:
    case REPLAY_SCHEMA_SECONDS:
        return check_range(src, value, s, path);
    case REPLAY_SCHEMA_QUANTITY:
        return check_quantity(src, value, path);
    case REPLAY_SCHEMA_CHOICE:
        return check_choice(src, value, s, path);
    case REPLAY_SCHEMA_OBJECT:
    case REPLAY_SCHEMA_MAP:
        return check_members(src, value, s, path);
    case REPLAY_SCHEMA_LIST:
        return check_items(src, value, s, path);
    case REPLAY_SCHEMA_NULL:
    case REPLAY_SCHEMA_BOOL:
    case REPLAY_SCHEMA_TEXT:
    case REPLAY_SCHEMA_ANY:
        break;
    }
    return NULL;
}
