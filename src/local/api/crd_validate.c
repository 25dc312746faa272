// SPDX-License-Identifier: Apache-2.0
// Values of custom resources against their schema, with kube-apiserver's messages. The number of
// steps is limited, because a schema and an object together can be expensive.
#include "base/clock.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "base/regex.h"
#include "codec/encoding.h"
#include "kube/names.h"
#include "local/api/crd.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <math.h>

#define MAX_STEPS           2000000
#define PATTERN_STEPS       50 // that a match of a pattern counts
#define PATTERN_MATCH_LIMIT 20000
#define PARTS_A_STEP        8 // members, items or choices
#define BYTES_A_STEP        8 // of a text

struct validation {
    struct gs_hmap *patterns;
    struct kube_field_errors *errors;
    long *steps; // left, shared with the alternatives of anyOf and oneOf
};

// Counts work that the schema can repeat with many alternatives.
static void charge(const struct validation *v, size_t work, size_t a_step)
{
    *v->steps -= (long)(work / a_step);
}

static void free_regex(void *arg)
{
    gs_regex_free(arg);
}

struct gs_hmap *local_api_schema_patterns_new(void)
{
    return gs_hmap_new(free_regex);
}

static void check_value(const struct validation *v, const json_t *schema, const json_t *value,
                        const char *path);

// --- types ---

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "object";
    case JSON_ARRAY:
        return "array";
    case JSON_STRING:
        return "string";
    case JSON_INTEGER:
        return "integer";
    case JSON_REAL:
        return "number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "boolean";
    case JSON_NULL:
        break;
    }
    return "null";
}

static bool has_type(const json_t *value, const char *type)
{
    if (strcmp(type, "number") == 0)
        return json_is_number(value);
    if (strcmp(type, "integer") == 0 && json_is_real(value))
        return floor(json_real_value(value)) == json_real_value(value);
    return strcmp(type_name(value), type) == 0;
}

static void wrong_type(const struct validation *v, const json_t *value, const char *path,
                       const char *want)
{
    GS_AUTO_FREE char *quoted = gs_format("\"%s\"", type_name(value));

    kube_field_error(v->errors, "FieldValueTypeInvalid", *path ? path : "<nil>", quoted,
                     "%s in body must be of type %s: \"%s\"", path, want, type_name(value));
}

// False: no further checks of the value.
static bool check_type(const struct validation *v, const json_t *schema, const json_t *value,
                       const char *path)
{
    const char *type = codec_json_str(schema, "type", NULL);

    if (json_is_null(value) && json_is_true(json_object_get(schema, "nullable")))
        return false;
    if (json_is_true(json_object_get(schema, "x-kubernetes-int-or-string"))) {
        if (json_is_integer(value) || json_is_string(value))
            return true;
        wrong_type(v, value, path, "integer,string");
        return false;
    }
    if (!type || !*type || has_type(value, type))
        return true;
    wrong_type(v, value, path, type);
    return false;
}

// --- scalars ---

static char *shown(const json_t *value)
{
    if (json_is_object(value) || json_is_array(value))
        return gs_format("\"%s\"", type_name(value));
    return codec_json_text(value);
}

static void invalid(const struct validation *v, const json_t *value, const char *path,
                    const char *fmt, ...) GS_PRINTF(4, 5);
static void invalid(const struct validation *v, const json_t *value, const char *path,
                    const char *fmt, ...)
{
    GS_AUTO_FREE char *text = shown(value);
    va_list ap;

    va_start(ap, fmt);
    GS_AUTO_FREE char *detail = gs_vformat(fmt, ap);
    va_end(ap);
    kube_field_error(v->errors, "FieldValueInvalid", path, text, "%s in body %s", path, detail);
}

static bool is_choice(const json_t *choice, const json_t *value)
{
    return json_equal(choice, value) || (json_is_number(choice) && json_is_number(value) &&
                                         json_number_value(choice) == json_number_value(value));
}

static void check_enum(const struct validation *v, const json_t *schema, const json_t *value,
                       const char *path)
{
    const json_t *choices = json_object_get(schema, "enum");
    size_t n = json_array_size(choices), i = 0;

    while (i < n && !is_choice(json_array_get(choices, i), value))
        i++;
    charge(v, i, PARTS_A_STEP);
    if (i < n || n == 0)
        return;
    if (kube_field_errors_full(v->errors)) {
        v->errors->len++;
        return;
    }
    GS_AUTO_BUF struct gs_buf list = {0};
    for (i = 0; i < n; i++) {
        const json_t *choice = json_array_get(choices, i);
        GS_AUTO_FREE char *text = codec_json_text(choice);
        gs_buf_addf(&list, json_is_string(choice) ? "%s%s" : "%s\"%s\"", i ? ", " : "", text);
    }
    GS_AUTO_FREE char *text = shown(value);
    kube_field_error(v->errors, "FieldValueNotSupported", path, text, "supported values: %s",
                     list.data);
}

// The number of a limit as Go prints it.
static char *number_text(const json_t *n)
{
    if (json_is_integer(n))
        return gs_format("%" PRId64, (int64_t)json_integer_value(n));
    return gs_format("%.15g", json_number_value(n));
}

static void check_limits(const struct validation *v, const json_t *schema, const json_t *value,
                         const char *path)
{
    const json_t *minimum = json_object_get(schema, "minimum");
    const json_t *maximum = json_object_get(schema, "maximum");
    const json_t *multiple = json_object_get(schema, "multipleOf");
    bool above = json_is_true(json_object_get(schema, "exclusiveMinimum"));
    bool below = json_is_true(json_object_get(schema, "exclusiveMaximum"));
    double n = json_number_value(value);

    if (json_is_number(minimum) &&
        (above ? n <= json_number_value(minimum) : n < json_number_value(minimum))) {
        GS_AUTO_FREE char *limit = number_text(minimum);
        invalid(v, value, path, "should be greater than %s%s", above ? "" : "or equal to ", limit);
    }
    if (json_is_number(maximum) &&
        (below ? n >= json_number_value(maximum) : n > json_number_value(maximum))) {
        GS_AUTO_FREE char *limit = number_text(maximum);
        invalid(v, value, path, "should be less than %s%s", below ? "" : "or equal to ", limit);
    }
    if (json_is_number(multiple) && json_number_value(multiple) > 0) {
        double quotient = n / json_number_value(multiple);
        GS_AUTO_FREE char *limit = number_text(multiple);
        if (fabs(quotient - round(quotient)) > 1e-9)
            invalid(v, value, path, "should be a multiple of %s", limit);
    }
}

static bool is_uuid(const char *text)
{
    size_t digits = 0;

    for (const char *c = text; *c; c++) {
        if (*c == '-')
            continue;
        if (!strchr("0123456789abcdefABCDEF", *c))
            return false;
        digits++;
    }
    return digits == 32;
}

// The formats that are checked here; others are accepted.
static bool fits_format(const char *format, const json_t *value)
{
    const char *text = json_string_value(value);
    unsigned char address[sizeof(struct in6_addr)];
    struct gs_slice s = gs_slice_make(text, json_string_length(value));

    if (strcmp(format, "date-time") == 0) {
        int64_t ms;
        GS_AUTO_ERROR struct gs_error *err = gs_parse_rfc3339(s, &ms);
        return !err;
    }
    if (strcmp(format, "byte") == 0) {
        GS_AUTO_BUF struct gs_buf bytes = {0};
        GS_AUTO_ERROR struct gs_error *err = codec_base64_decode(s, &bytes);
        return !err;
    }
    if (strcmp(format, "duration") == 0) {
        int64_t ns;
        GS_AUTO_ERROR struct gs_error *err = gs_parse_duration(s, &ns);
        return !err;
    }
    if (strcmp(format, "ipv4") == 0)
        return inet_pton(AF_INET, text, address) == 1;
    if (strcmp(format, "ipv6") == 0)
        return inet_pton(AF_INET6, text, address) == 1;
    return strcmp(format, "uuid") != 0 || is_uuid(text);
}

static size_t characters(const json_t *value)
{
    const char *text = json_string_value(value);
    size_t n = 0;

    for (size_t i = 0; i < json_string_length(value); i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

static const struct gs_regex *compiled(const struct validation *v, const char *pattern)
{
    struct gs_regex *regex = gs_hmap_get_str(v->patterns, pattern);

    if (regex)
        return regex;
    const struct gs_regex_options options = {.match_limit = PATTERN_MATCH_LIMIT};
    GS_AUTO_ERROR struct gs_error *err = gs_regex_new(gs_slice_of(pattern), &options, &regex);
    if (!err)
        gs_hmap_put_str(v->patterns, pattern, regex);
    return regex; // NULL: the definition was checked, so this is a pattern beyond a limit
}

static void check_string(const struct validation *v, const json_t *schema, const json_t *value,
                         const char *path)
{
    const json_t *min = json_object_get(schema, "minLength");
    const json_t *max = json_object_get(schema, "maxLength");
    const char *pattern = codec_json_str(schema, "pattern", NULL);
    const char *format = codec_json_str(schema, "format", NULL);

    charge(v, json_string_length(value), BYTES_A_STEP);
    if (json_is_integer(max) && (json_int_t)characters(value) > json_integer_value(max))
        kube_field_error(v->errors, "FieldValueTooLong", path, NULL,
                         "may not be more than %" PRId64 " bytes",
                         (int64_t)json_integer_value(max));
    if (json_is_integer(min) && (json_int_t)characters(value) < json_integer_value(min))
        invalid(v, value, path, "should be at least %" PRId64 " chars long",
                (int64_t)json_integer_value(min));
    if (pattern) {
        const struct gs_regex *regex = compiled(v, pattern);
        *v->steps -= PATTERN_STEPS;
        if (regex && !gs_regex_matches(
                         regex, gs_slice_make(json_string_value(value), json_string_length(value))))
            invalid(v, value, path, "should match '%s'", pattern);
    }
    if (format && !fits_format(format, value)) {
        GS_AUTO_FREE char *text = shown(value);
        invalid(v, value, path, "must be of type %s: %s", format, text);
    }
}

// --- lists ---

static void check_count(const struct validation *v, const json_t *schema, const json_t *value,
                        const char *path, const char *min_key, const char *max_key,
                        const char *what)
{
    const json_t *min = json_object_get(schema, min_key), *max = json_object_get(schema, max_key);
    size_t n = json_is_array(value) ? json_array_size(value) : json_object_size(value);
    GS_AUTO_FREE char *count = gs_format("%zu", n);

    if (json_is_integer(max) && (json_int_t)n > json_integer_value(max))
        kube_field_error(v->errors, "FieldValueTooMany", path, count,
                         "must have at most %" PRId64 " items", (int64_t)json_integer_value(max));
    if (json_is_integer(min) && (json_int_t)n < json_integer_value(min))
        kube_field_error(v->errors, "FieldValueInvalid", path, count,
                         "%s in body should have at least %" PRId64 " %s", path,
                         (int64_t)json_integer_value(min), what);
}

// The part of an item that must be unique; NULL: nothing.
static json_t *identity(const json_t *schema, const json_t *item)
{
    const json_t *keys = json_object_get(schema, "x-kubernetes-list-map-keys");
    const char *list_type = codec_json_str(schema, "x-kubernetes-list-type", NULL);
    size_t i;
    json_t *key;

    if (gs_streq(list_type, "set"))
        return json_incref((json_t *)item);
    if (!gs_streq(list_type, "map") || !json_is_object(item))
        return NULL;
    json_t *id = json_object();
    json_array_foreach ((json_t *)keys, i, key) {
        json_t *value = json_object_get(item, json_string_value(key));
        if (value)
            json_object_set(id, json_string_value(key), value);
    }
    return id;
}

static void check_unique(const struct validation *v, const json_t *schema, const json_t *value,
                         const char *path)
{
    struct gs_hmap *seen = gs_hmap_new(NULL);
    size_t i;
    json_t *item;

    json_array_foreach ((json_t *)value, i, item) {
        CODEC_AUTO_JSON json_t *id = identity(schema, item);
        if (!id)
            continue;
        GS_AUTO_FREE char *text = codec_json_text(id);
        charge(v, strlen(text) + BYTES_A_STEP, BYTES_A_STEP);
        if (gs_hmap_get_str(seen, text)) {
            GS_AUTO_FREE char *field = gs_format("%s[%zu]", path, i);
            kube_field_error(v->errors, "FieldValueDuplicate", field, text, "%s", "");
        }
        gs_hmap_put_str(seen, text, seen);
    }
    gs_hmap_free(seen);
}

static void check_list(const struct validation *v, const json_t *schema, const json_t *value,
                       const char *path)
{
    const json_t *items = json_object_get(schema, "items");
    size_t i;
    json_t *item;

    check_count(v, schema, value, path, "minItems", "maxItems", "items");
    check_unique(v, schema, value, path);
    if (!items)
        return;
    json_array_foreach ((json_t *)value, i, item) {
        GS_AUTO_FREE char *field = gs_format("%s[%zu]", path, i);
        check_value(v, items, item, field);
    }
}

// --- objects ---

static void check_embedded(const struct validation *v, const json_t *value, const char *path)
{
    static const char *const keys[] = {"apiVersion", "kind"};

    for (size_t i = 0; i < GS_ARRAY_LEN(keys); i++) {
        const char *text = codec_json_str(value, keys[i], NULL);
        GS_AUTO_FREE char *field = local_api_schema_field_path(path, keys[i]);
        if (!text || !*text)
            local_api_required(v->errors, field, "");
    }
}

static void check_object(const struct validation *v, const json_t *schema, const json_t *value,
                         const char *path)
{
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *additional = json_object_get(schema, "additionalProperties");
    const char *key;
    json_t *member;
    size_t i;

    charge(v, json_array_size(json_object_get(schema, "required")), PARTS_A_STEP);
    json_array_foreach (json_object_get(schema, "required"), i, member) {
        const char *name = json_string_value(member);
        if (!name || json_object_get(value, name))
            continue;
        GS_AUTO_FREE char *field = local_api_schema_field_path(path, name);
        local_api_required(v->errors, field, "");
    }
    check_count(v, schema, value, path, "minProperties", "maxProperties", "properties");
    if (json_is_true(json_object_get(schema, "x-kubernetes-embedded-resource")))
        check_embedded(v, value, path);
    if (!properties && !additional)
        return;
    charge(v, json_object_size(value), PARTS_A_STEP);
    json_object_foreach ((json_t *)value, key, member) {
        const json_t *of_member = json_object_get(properties, key);
        if (!of_member)
            of_member = additional;
        if (!json_is_object(of_member))
            continue;
        GS_AUTO_FREE char *field = local_api_schema_field_path(path, key);
        check_value(v, of_member, member, field);
    }
}

// --- allOf, anyOf, oneOf, not ---

static void junctor_error(const struct validation *v, const char *path, const char *text)
{
    kube_field_error(v->errors, "FieldValueInvalid", "<nil>", "\"\"", "\"%s\" %s", path, text);
}

static void add_errors(const struct validation *v, const struct kube_field_errors *from)
{
    size_t i;
    json_t *cause;

    json_array_foreach (from->causes, i, cause) {
        const char *field = codec_json_str(cause, "field", NULL);
        const char *type = codec_json_str(cause, "reason", NULL);
        const char *message = codec_json_str(cause, "message", NULL);
        const char *colon = strstr(message, ": ");
        // The message starts with the type's text, which is added again.
        kube_field_error(v->errors, type, field, NULL, "%s", colon ? colon + 2 : "");
    }
}

// Counts the alternatives that fit. ret_best: the errors of the first one with the fewest.
static size_t count_fitting(const struct validation *v, const json_t *list, const json_t *value,
                            const char *path, struct kube_field_errors *ret_best)
{
    size_t fitting = 0, i;
    json_t *alternative;

    json_array_foreach ((json_t *)list, i, alternative) {
        struct kube_field_errors errors = {0};
        const struct validation sub = {v->patterns, &errors, v->steps};
        check_value(&sub, alternative, value, path);
        fitting += errors.len == 0;
        if (i == 0 || errors.len < ret_best->len) {
            kube_field_errors_finish(ret_best);
            *ret_best = errors;
        } else {
            kube_field_errors_finish(&errors);
        }
    }
    return fitting;
}

static void check_junctors(const struct validation *v, const json_t *schema, const json_t *value,
                           const char *path)
{
    const json_t *all = json_object_get(schema, "allOf"), *any = json_object_get(schema, "anyOf");
    const json_t *one = json_object_get(schema, "oneOf"), *not = json_object_get(schema, "not");
    struct kube_field_errors best = {0};

    if (json_array_size(any) > 0 && count_fitting(v, any, value, path, &best) == 0) {
        junctor_error(v, path, "must validate at least one schema (anyOf)");
        add_errors(v, &best);
    }
    kube_field_errors_finish(&best);
    size_t n = json_array_size(one) > 0 ? count_fitting(v, one, value, path, &best) : 1;
    if (n == 0) {
        junctor_error(v, path, "must validate one and only one schema (oneOf). Found none valid");
        add_errors(v, &best);
    } else if (n > 1) {
        GS_AUTO_FREE char *text = gs_format(
            "must validate one and only one schema (oneOf). Found %zu valid alternatives", n);
        junctor_error(v, path, text);
    }
    kube_field_errors_finish(&best);
    n = json_array_size(all);
    if (n > 0 && count_fitting(v, all, value, path, &best) < n) {
        junctor_error(v, path, "must validate all the schemas (allOf)");
        for (size_t i = 0; i < n; i++)
            check_value(v, json_array_get(all, i), value, path);
    }
    kube_field_errors_finish(&best);
    if (json_is_object(not )) {
        CODEC_AUTO_JSON json_t *list = json_array();
        json_array_append(list, (json_t *)not );
        if (count_fitting(v, list, value, path, &best) > 0)
            junctor_error(v, path, "must not validate the schema (not)");
        kube_field_errors_finish(&best);
    }
}

static void check_value(const struct validation *v, const json_t *schema, const json_t *value,
                        const char *path)
{
    if (*v->steps <= 0 || v->errors->len >= KUBE_MAX_FIELD_ERRORS || !json_is_object(schema))
        return;
    --*v->steps;
    if (!check_type(v, schema, value, path))
        return;
    check_enum(v, schema, value, path);
    if (json_is_number(value))
        check_limits(v, schema, value, path);
    else if (json_is_string(value))
        check_string(v, schema, value, path);
    else if (json_is_array(value))
        check_list(v, schema, value, path);
    else if (json_is_object(value))
        check_object(v, schema, value, path);
    // int-or-string: the anyOf of its types says what was checked above.
    if (!json_is_true(json_object_get(schema, "x-kubernetes-int-or-string")))
        check_junctors(v, schema, value, path);
}

void local_api_schema_validate(const json_t *schema, const json_t *obj, struct gs_hmap *patterns,
                               struct kube_field_errors *errors)
{
    long steps = MAX_STEPS;
    const struct validation v = {patterns, errors, &steps};

    check_value(&v, schema, obj, "");
    if (steps <= 0)
        kube_field_error(errors, "FieldValueInvalid", "<nil>", "\"\"",
                         "the validation takes more than %d steps", MAX_STEPS);
}
