// SPDX-License-Identifier: Apache-2.0
// Structural schemas of CustomResourceDefinitions: their rules, pruning and defaults. Source:
// apiextensions-apiserver's schema package.
#include "base/mem.h"
#include "base/regex.h"
#include "kube/schema.h"
#include "local/api/crd.h"

#define MAX_SCHEMA_DEPTH 100

static bool is_true(const json_t *schema, const char *key)
{
    return json_is_true(json_object_get(schema, key));
}

static bool preserves(const json_t *schema)
{
    return is_true(schema, "x-kubernetes-preserve-unknown-fields");
}

static bool is_embedded(const json_t *schema)
{
    return is_true(schema, "x-kubernetes-embedded-resource");
}

static bool is_identity(const char *key)
{
    return strcmp(key, "apiVersion") == 0 || strcmp(key, "kind") == 0 ||
           strcmp(key, "metadata") == 0;
}

char *local_api_schema_field_path(const char *path, const char *key)
{
    return gs_format("%s%s%s", path, *path ? "." : "", key);
}

// --- pruning ---

static void report_unknown(json_t *unknown, const char *path, const char *key)
{
    GS_AUTO_FREE char *field = local_api_schema_field_path(path, key);

    if (json_array_size(unknown) < KUBE_SCHEMA_MAX_PROBLEMS)
        json_array_append_new(unknown, codec_json_strf("unknown field \"%s\"", field));
}

static void prune(const json_t *schema, json_t *value, const char *path, bool root, json_t *unknown,
                  unsigned depth);

static void prune_object(const json_t *schema, json_t *value, const char *path, bool root,
                         json_t *unknown, unsigned depth)
{
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *additional = json_object_get(schema, "additionalProperties");
    const char *key;
    json_t *member;
    void *next;

    json_object_foreach_safe (value, next, key, member) {
        const json_t *of_member = json_object_get(properties, key);
        if ((root || is_embedded(schema)) && is_identity(key))
            continue;
        if (!of_member)
            of_member = additional;
        if (!of_member && preserves(schema))
            continue;
        if (of_member) {
            GS_AUTO_FREE char *field = local_api_schema_field_path(path, key);
            prune(of_member, member, field, false, unknown, depth + 1);
        } else {
            report_unknown(unknown, path, key);
            json_object_del(value, key);
        }
    }
}

static void prune(const json_t *schema, json_t *value, const char *path, bool root, json_t *unknown,
                  unsigned depth)
{
    size_t i;
    json_t *item;

    if (depth > CODEC_JSON_MAX_DEPTH || !json_is_object(schema))
        return;
    if (json_is_object(value)) {
        prune_object(schema, value, path, root, unknown, depth);
    } else if (json_is_array(value) && json_object_get(schema, "items")) {
        json_array_foreach (value, i, item) {
            GS_AUTO_FREE char *field = gs_format("%s[%zu]", path, i);
            prune(json_object_get(schema, "items"), item, field, false, unknown, depth + 1);
        }
    }
}

void local_api_schema_prune(const json_t *schema, json_t *obj, json_t *ret_unknown)
{
    prune(schema, obj, "", true, ret_unknown, 0);
}

// --- defaults ---

struct defaulting {
    size_t room; // bytes of JSON that may still be added
    bool full;
};

static void set_defaults(struct defaulting *d, const json_t *schema, json_t *value, unsigned depth);

static void add_default(struct defaulting *d, json_t *object, const char *key,
                        const json_t *fallback)
{
    size_t size = strlen(key) + json_dumpb(fallback, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY);

    d->full = d->full || size > d->room;
    if (d->full)
        return;
    d->room -= size;
    json_object_set_new(object, key, json_deep_copy(fallback));
}

static void default_object(struct defaulting *d, const json_t *schema, json_t *value,
                           unsigned depth)
{
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *additional = json_object_get(schema, "additionalProperties");
    const char *key;
    json_t *of_member, *member;

    json_object_foreach ((json_t *)properties, key, of_member) {
        const json_t *fallback = json_object_get(of_member, "default");
        member = json_object_get(value, key);
        if (fallback && (!member || (json_is_null(member) && !is_true(of_member, "nullable"))))
            add_default(d, value, key, fallback);
        set_defaults(d, of_member, json_object_get(value, key), depth + 1);
    }
    if (json_is_object(additional))
        json_object_foreach (value, key, member)
            if (!json_object_get(properties, key))
                set_defaults(d, additional, member, depth + 1);
}

static void set_defaults(struct defaulting *d, const json_t *schema, json_t *value, unsigned depth)
{
    size_t i;
    json_t *item;

    if (d->full || depth > CODEC_JSON_MAX_DEPTH || !json_is_object(schema))
        return;
    if (json_is_object(value))
        default_object(d, schema, value, depth);
    else if (json_is_array(value))
        json_array_foreach (value, i, item)
            set_defaults(d, json_object_get(schema, "items"), item, depth + 1);
}

bool local_api_schema_default(const json_t *schema, json_t *obj, size_t max_bytes)
{
    struct defaulting d = {.room = max_bytes};

    set_defaults(&d, schema, obj, 0);
    return !d.full;
}

// --- rules of schemas ---

struct check {
    struct kube_field_errors *errors;
    bool junctor; // below allOf, anyOf, oneOf or not
};

static void check_schema(const struct check *c, const json_t *schema, const char *path,
                         unsigned depth);

static void required_error(const struct check *c, const char *path, const char *key,
                           const char *detail)
{
    GS_AUTO_FREE char *field = local_api_schema_field_path(path, key);
    local_api_required(c->errors, field, detail);
}

static void forbidden_error(const struct check *c, const char *path, const char *key,
                            const char *detail)
{
    GS_AUTO_FREE char *field = local_api_schema_field_path(path, key);
    kube_field_error(c->errors, "FieldValueForbidden", field, NULL, "%s", detail);
}

static void check_type(const struct check *c, const json_t *schema, const char *path, bool root)
{
    static const char *const types[] = {"array",  "boolean", "integer",
                                        "number", "object",  "string"};
    const char *type = codec_json_str(schema, "type", NULL);
    bool free_form = is_true(schema, "x-kubernetes-int-or-string") || preserves(schema);

    for (size_t i = 0; type && i < GS_ARRAY_LEN(types); i++)
        if (strcmp(type, types[i]) == 0)
            return;
    if (type && *type) {
        GS_AUTO_FREE char *field = local_api_schema_field_path(path, "type");
        local_api_unsupported(
            c->errors, field, type,
            "\"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\"");
    } else if (!free_form && !c->junctor) {
        required_error(c, path, "type",
                       root ? "must not be empty at the root"
                            : "must not be empty for specified object fields");
    }
}

static void check_pattern(const struct check *c, const json_t *schema, const char *path)
{
    const char *pattern = codec_json_str(schema, "pattern", NULL);
    struct gs_regex *regex = NULL;

    if (!pattern)
        return;
    GS_AUTO_ERROR struct gs_error *err = gs_regex_new(gs_slice_of(pattern), NULL, &regex);
    gs_regex_free(regex);
    if (!err)
        return;
    GS_AUTO_FREE char *field = local_api_schema_field_path(path, "pattern");
    local_api_invalid(c->errors, field, pattern,
                      "must be a valid regular expression, but isn't: %s", gs_error_message(err));
}

static void check_list(const struct check *c, const json_t *schema, const char *path)
{
    const char *list_type = codec_json_str(schema, "x-kubernetes-list-type", NULL);
    bool is_array = gs_streq(codec_json_str(schema, "type", NULL), "array");

    if (is_array && !json_is_object(json_object_get(schema, "items")) && !c->junctor)
        required_error(c, path, "items", "must be specified");
    if (is_true(schema, "uniqueItems"))
        forbidden_error(
            c, path, "uniqueItems",
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic");
    if (list_type && strcmp(list_type, "atomic") != 0 && strcmp(list_type, "set") != 0 &&
        strcmp(list_type, "map") != 0) {
        GS_AUTO_FREE char *field = local_api_schema_field_path(path, "x-kubernetes-list-type");
        local_api_unsupported(c->errors, field, list_type, "\"atomic\", \"map\", \"set\"");
    }
    if (gs_streq(list_type, "map") &&
        json_array_size(json_object_get(schema, "x-kubernetes-list-map-keys")) == 0)
        required_error(c, path, "x-kubernetes-list-map-keys",
                       "must not be empty if x-kubernetes-list-type is map");
}

// Below a junctor only value checks are allowed.
static void check_junctor_rules(const struct check *c, const json_t *schema, const char *path)
{
    static const char *const structure[] = {"type",
                                            "default",
                                            "nullable",
                                            "additionalProperties",
                                            "title",
                                            "description",
                                            "x-kubernetes-preserve-unknown-fields",
                                            "x-kubernetes-embedded-resource"};

    for (size_t i = 0; i < GS_ARRAY_LEN(structure); i++) {
        const json_t *value = json_object_get(schema, structure[i]);
        if (!value || json_is_false(value))
            continue;
        if (strcmp(structure[i], "type") == 0 && is_true(schema, "x-kubernetes-int-or-string"))
            continue;
        forbidden_error(c, path, structure[i], "must be empty to be structural");
    }
}

static void check_members(const struct check *c, const json_t *schema, const char *path,
                          unsigned depth)
{
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *additional = json_object_get(schema, "additionalProperties");
    const char *key;
    json_t *member;

    if (json_object_size(properties) > 0 && json_is_object(additional))
        forbidden_error(c, path, "additionalProperties",
                        "additionalProperties and properties are mutual exclusive");
    json_object_foreach ((json_t *)properties, key, member) {
        GS_AUTO_FREE char *field = gs_format("%s.properties[%s]", path, key);
        check_schema(c, member, field, depth + 1);
    }
    if (json_is_object(additional)) {
        GS_AUTO_FREE char *field = local_api_schema_field_path(path, "additionalProperties");
        check_schema(c, additional, field, depth + 1);
    }
    if (json_is_object(json_object_get(schema, "items"))) {
        GS_AUTO_FREE char *field = local_api_schema_field_path(path, "items");
        check_schema(c, json_object_get(schema, "items"), field, depth + 1);
    }
}

static void check_junctors(const struct check *c, const json_t *schema, const char *path,
                           unsigned depth)
{
    static const char *const lists[] = {"allOf", "anyOf", "oneOf"};
    // "type" is allowed in the anyOf of an int-or-string.
    const struct check below = {c->errors, true};
    bool int_or_string = is_true(schema, "x-kubernetes-int-or-string");
    size_t i;
    json_t *item;

    for (size_t l = 0; l < GS_ARRAY_LEN(lists); l++)
        json_array_foreach (json_object_get(schema, lists[l]), i, item) {
            GS_AUTO_FREE char *field = gs_format("%s.%s[%zu]", path, lists[l], i);
            if (int_or_string)
                continue;
            check_schema(&below, item, field, depth + 1);
        }
    if (json_is_object(json_object_get(schema, "not"))) {
        GS_AUTO_FREE char *field = local_api_schema_field_path(path, "not");
        check_schema(&below, json_object_get(schema, "not"), field, depth + 1);
    }
}

static void check_schema(const struct check *c, const json_t *schema, const char *path,
                         unsigned depth)
{
    if (!json_is_object(schema)) {
        local_api_invalid(c->errors, path, "", "must be a schema object");
        return;
    }
    if (depth > MAX_SCHEMA_DEPTH) {
        local_api_invalid(c->errors, path, "", "schemas may be nested at most %d times",
                          MAX_SCHEMA_DEPTH);
        return;
    }
    if (c->errors->len >= KUBE_MAX_FIELD_ERRORS)
        return;
    if (json_object_get(schema, "$ref"))
        forbidden_error(c, path, "$ref", "$ref is not supported");
    check_type(c, schema, path, depth == 0);
    if (c->junctor)
        check_junctor_rules(c, schema, path);
    check_pattern(c, schema, path);
    check_list(c, schema, path);
    check_members(c, schema, path, depth);
    check_junctors(c, schema, path, depth);
}

void local_api_schema_check(const json_t *schema, const char *path,
                            struct kube_field_errors *errors)
{
    const struct check c = {errors, false};
    const char *type = codec_json_str(schema, "type", NULL);

    if (type && strcmp(type, "object") != 0) {
        GS_AUTO_FREE char *field = local_api_schema_field_path(path, "type");
        local_api_invalid(errors, field, type, "must be object at the root");
        return;
    }
    check_schema(&c, schema, path, 0);
}

bool local_api_schema_has_rules(const json_t *schema)
{
    const char *key;
    json_t *member;
    size_t i;

    if (json_is_array(schema)) {
        json_array_foreach ((json_t *)schema, i, member)
            if (local_api_schema_has_rules(member))
                return true;
    } else if (json_is_object(schema)) {
        if (json_array_size(json_object_get(schema, "x-kubernetes-validations")) > 0)
            return true;
        json_object_foreach ((json_t *)schema, key, member)
            if (local_api_schema_has_rules(member))
                return true;
    }
    return false;
}
