// SPDX-License-Identifier: Apache-2.0
// JSON by jansson, with a limit of nesting, and access to members by path. A path is a list of
// keys that ends with NULL; a missing step is not an error, but a missing value.
#include "codec/json.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"
#include "codec/encoding.h"

#include <math.h>
#include <stdarg.h>

// jansson recurses per nesting level, with a limit of 2048. A lower limit is checked before
// parsing, so that hostile nesting does not use up the stack.
static bool too_deep(struct gs_slice text, int max_depth)
{
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > max_depth)
                return true;
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return false;
}

static struct gs_error *parse_json(struct gs_slice text, int max_depth, size_t flags, json_t **ret)
{
    if (too_deep(text, max_depth))
        return gs_error_new(GS_ELIMIT, "JSON is nested deeper than %d levels", max_depth);
    json_error_t why;
    json_t *j = json_loadb(text.data ? text.data : "", text.len, JSON_DECODE_ANY | flags, &why);
    if (!j)
        return gs_error_new(GS_EINVAL, "JSON line %d, column %d: %s", why.line, why.column,
                            why.text);
    *ret = j;
    return NULL;
}

struct gs_error *codec_json_parse(struct gs_slice text, bool strict, json_t **ret)
{
    return parse_json(text, CODEC_JSON_MAX_DEPTH, strict ? JSON_REJECT_DUPLICATES : 0, ret);
}

struct gs_error *codec_json_parse_accepted(struct gs_slice text, json_t **ret)
{
    return parse_json(text, 2 * CODEC_JSON_MAX_DEPTH, JSON_ALLOW_NUL, ret);
}

static json_t *walk(const json_t *j, va_list path)
{
    const char *key;
    while (j && (key = va_arg(path, const char *)))
        j = json_object_get(j, key);
    return (json_t *)j;
}

// The sizes of jansson 2.14 with the overhead of malloc.
enum { OBJECT_MEMORY = 224, MEMBER_MEMORY = 96, ARRAY_MEMORY = 128, ITEM_MEMORY = 12 };
enum { STRING_MEMORY = 80, NUMBER_MEMORY = 32 };

size_t codec_json_memory(const json_t *j)
{
    size_t sum = 0, i;
    const char *key;
    json_t *inner;
    switch (json_typeof(j)) {
    case JSON_OBJECT:
        sum = OBJECT_MEMORY;
        json_object_foreach ((json_t *)(uintptr_t)j, key, inner)
            sum += MEMBER_MEMORY + strlen(key) + codec_json_memory(inner);
        return sum;
    case JSON_ARRAY:
        sum = ARRAY_MEMORY + ITEM_MEMORY * json_array_size(j);
        json_array_foreach (j, i, inner)
            sum += codec_json_memory(inner);
        return sum;
    case JSON_STRING:
        return STRING_MEMORY + json_string_length(j);
    case JSON_INTEGER:
    case JSON_REAL:
        return NUMBER_MEMORY;
    case JSON_TRUE:
    case JSON_FALSE:
    case JSON_NULL:
        break;
    }
    return 0;
}

json_t *codec_json_get(const json_t *j, ...)
{
    va_list path;
    va_start(path, j);
    json_t *found = walk(j, path);
    va_end(path);
    return found;
}

const char *codec_json_str(const json_t *j, ...)
{
    va_list path;
    va_start(path, j);
    const char *s = json_string_value(walk(j, path));
    va_end(path);
    return s;
}

int64_t codec_json_int(const json_t *j, int64_t fallback, ...)
{
    va_list path;
    va_start(path, fallback);
    const json_t *found = walk(j, path);
    va_end(path);
    return json_is_integer(found) ? json_integer_value(found) : fallback;
}

bool codec_json_bool(const json_t *j, bool fallback, ...)
{
    va_list path;
    va_start(path, fallback);
    const json_t *found = walk(j, path);
    va_end(path);
    return json_is_boolean(found) ? json_is_true(found) : fallback;
}

double codec_json_sample(const json_t *sample)
{
    const char *text = json_string_value(json_array_get(json_object_get(sample, "value"), 1));
    double v = NAN;
    GS_AUTO_ERROR struct gs_error *err = text ? gs_parse_double(gs_slice_of(text), &v) : NULL;
    return err ? NAN : v;
}

bool codec_json_has_string(const json_t *array, const char *text)
{
    size_t i;
    json_t *item;

    json_array_foreach ((json_t *)array, i, item)
        if (json_is_string(item) && gs_streq(json_string_value(item), text))
            return true;
    return false;
}

void codec_json_set(json_t *j, json_t *value, ...)
{
    va_list path;
    va_start(path, value);
    const char *key = va_arg(path, const char *);
    for (const char *next = va_arg(path, const char *); next; next = va_arg(path, const char *)) {
        json_t *child = json_object_get(j, key);
        if (!json_is_object(child)) {
            child = json_object();
            json_object_set_new(j, key, child);
        }
        j = child;
        key = next;
    }
    va_end(path);
    json_object_set_new(j, key, value);
}

void codec_json_del(json_t *j, ...)
{
    va_list path;
    va_start(path, j);
    const char *key = va_arg(path, const char *);
    for (const char *next = va_arg(path, const char *); next && j;
         next = va_arg(path, const char *)) {
        j = json_object_get(j, key);
        key = next;
    }
    va_end(path);
    if (j)
        json_object_del(j, key);
}

// As in Go's encoder, invalid UTF-8 becomes U+FFFD. The text can contain a response of a peer.
static json_t *any_text(const char *value)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    struct gs_slice rest = gs_slice_of(value);
    json_t *whole = json_string(value);
    if (whole)
        return whole;
    while (rest.len) {
        size_t n = codec_utf8_valid_prefix(rest);
        gs_buf_add(&out, rest.data, n);
        if (n < rest.len) {
            gs_buf_add_str(&out, "\xef\xbf\xbd");
            n++;
        }
        rest = gs_slice_make(rest.data + n, rest.len - n);
    }
    return json_stringn(out.data, out.len);
}

void codec_json_set_str(json_t *obj, const char *key, const char *value)
{
    if (value)
        json_object_set_new(obj, key, any_text(value));
    else
        json_object_del(obj, key);
}

void codec_json_set_int(json_t *obj, const char *key, int64_t value)
{
    json_object_set_new(obj, key, json_integer(value));
}

void codec_json_set_bool(json_t *obj, const char *key, bool value)
{
    json_object_set_new(obj, key, json_boolean(value));
}

json_t *codec_json_strf(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    va_end(ap);
    return json_string(text);
}
