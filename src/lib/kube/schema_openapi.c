// SPDX-License-Identifier: Apache-2.0
// OpenAPI documents, versions 2 and 3, from the schemas: `kubectl explain`, validation and
// strategic merge patches of clients read them. Version 2 lacks some of what version 3 can
// express.
#include "kube/schema.h"

#include "base/hmap.h"
#include "base/mem.h"

#include <inttypes.h>

#define QUANTITY_NAME "io.k8s.apimachinery.pkg.api.resource.Quantity"
#define INTORSTR_NAME "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
#define TIME_NAME     "io.k8s.apimachinery.pkg.apis.meta.v1.Time"

// One document under construction. The versions differ in the place of schemas and the form of
// bodies.
struct doc {
    bool v3;
    json_t *schemas, *paths;
};

static json_t *typed_schema(const char *type, const char *format)
{
    json_t *s = json_object();
    codec_json_set_str(s, "type", type);
    codec_json_set_str(s, "format", format);
    return s;
}

static json_t *schema_reference(const struct doc *d, const char *name)
{
    json_t *s = json_object();
    json_object_set_new(
        s, "$ref", codec_json_strf("#/%s/%s", d->v3 ? "components/schemas" : "definitions", name));
    return s;
}

static void add_type(struct doc *d, const struct kube_type *t);

static json_t *named_schema(struct doc *d, const char *name, const char *type, const char *format)
{
    if (!json_object_get(d->schemas, name))
        json_object_set_new(d->schemas, name, typed_schema(type, format));
    return schema_reference(d, name);
}

static json_t *value_schema(struct doc *d, enum kube_field_kind kind, const struct kube_field *f)
{
    json_t *s;
    switch (kind) {
    case KUBE_F_STRING:
        return typed_schema("string", NULL);
    case KUBE_F_INT:
        return typed_schema("integer", "int32");
    case KUBE_F_INT64:
        return typed_schema("integer", "int64");
    case KUBE_F_NUMBER:
        return typed_schema("number", "double");
    case KUBE_F_BOOL:
        return typed_schema("boolean", NULL);
    case KUBE_F_BYTES:
        return typed_schema("string", "byte");
    case KUBE_F_QUANTITY:
        return named_schema(d, QUANTITY_NAME, "string", NULL);
    case KUBE_F_INTORSTR:
        return named_schema(d, INTORSTR_NAME, "string", "int-or-string");
    case KUBE_F_TIME:
        return named_schema(d, TIME_NAME, "string", "date-time");
    case KUBE_F_OBJECT:
        add_type(d, f->type);
        return schema_reference(d, f->type->name);
    case KUBE_F_LIST:
        s = typed_schema("array", NULL);
        json_object_set_new(s, "items", value_schema(d, f->item, f));
        return s;
    case KUBE_F_MAP:
        s = typed_schema("object", NULL);
        json_object_set_new(s, "additionalProperties", value_schema(d, f->item, f));
        return s;
    case KUBE_F_ANY: // a RawExtension; kubectl explain fails on a schema without a type
        return typed_schema("object", NULL);
    }
    return json_object();
}

static json_t *field_schema(struct doc *d, const struct kube_field *f)
{
    json_t *s = value_schema(d, f->kind, f);
    bool extended = f->doc || f->merge_key || f->retain_keys;
    if (d->v3 && extended && json_object_get(s, "$ref")) {
        // In version 3, members beside $ref are ignored.
        json_t *around = json_object();
        json_object_set_new(around, "allOf", json_pack("[o]", s));
        s = around;
    }
    codec_json_set_str(s, "description", f->doc);
    if (f->merge_key && *f->merge_key)
        codec_json_set_str(s, "x-kubernetes-patch-merge-key", f->merge_key);
    if (f->merge_key || f->retain_keys)
        codec_json_set_str(s, "x-kubernetes-patch-strategy",
                           !f->merge_key     ? "retainKeys"
                           : !f->retain_keys ? "merge"
                                             : "merge,retainKeys");
    return s;
}

static void add_type(struct doc *d, const struct kube_type *t)
{
    if (json_object_get(d->schemas, t->name))
        return;
    json_t *s = typed_schema("object", NULL);
    json_object_set_new(d->schemas, t->name, s);
    json_t *properties = json_object();
    json_t *required = json_array();
    json_object_set_new(s, "properties", properties);
    for (const struct kube_field *f = t->fields; f->name; f++) {
        json_object_set_new(properties, f->name, field_schema(d, f));
        if (f->required)
            json_array_append_new(required, json_string(f->name));
    }
    if (json_array_size(required))
        json_object_set(s, "required", required);
    json_decref(required);
}

static json_t *group_version_kind(const struct kube_openapi_resource *r)
{
    return json_pack("{ssssss}", "group", r->group, "version", r->version, "kind", r->kind);
}

static char *api_version_of(const struct kube_openapi_resource *r)
{
    return gs_format("%s%s%s", r->group, *r->group ? "/" : "", r->version);
}

// What version 2 of OpenAPI lacks. Free-form objects have no properties there, so that old clients
// do not reject their members.
static void reduce_to_v2(json_t *schema, unsigned depth)
{
    static const char *const keys[] = {
        "nullable", "oneOf", "anyOf", "not", "allOf", "default", "additionalProperties"};
    const char *key;
    json_t *member;
    if (!json_is_object(schema) || depth > CODEC_JSON_MAX_DEPTH)
        return;
    bool free_form = json_is_true(json_object_get(schema, "x-kubernetes-preserve-unknown-fields"));
    bool int_or_string = json_is_true(json_object_get(schema, "x-kubernetes-int-or-string"));
    bool nullable = json_is_true(json_object_get(schema, "nullable"));
    for (size_t i = 0; i < GS_ARRAY_LEN(keys); i++)
        if (!json_is_object(json_object_get(schema, keys[i])))
            json_object_del(schema, keys[i]);
    json_object_del(schema, "not");
    if (free_form || int_or_string || nullable) {
        json_object_del(schema, "type");
        json_object_del(schema, "properties");
        json_object_del(schema, "items");
    }
    json_object_foreach (json_object_get(schema, "properties"), key, member)
        reduce_to_v2(member, depth + 1);
    reduce_to_v2(json_object_get(schema, "items"), depth + 1);
    reduce_to_v2(json_object_get(schema, "additionalProperties"), depth + 1);
}

// The schema of a custom resource, with the members that each object has.
static json_t *custom_schema(struct doc *d, const json_t *schema)
{
    static const struct {
        const char *name, *doc;
    } strings[] = {
        {"apiVersion", "The version of this representation of an object."},
        {"kind", "The kind of the object."},
    };
    json_t *s = json_deep_copy(schema);
    if (!d->v3)
        reduce_to_v2(s, 0);
    json_t *properties = json_object_get(s, "properties");
    if (!json_is_object(properties))
        return s;
    for (size_t i = 0; i < GS_ARRAY_LEN(strings); i++) {
        json_t *member = typed_schema("string", NULL);
        codec_json_set_str(member, "description", strings[i].doc);
        json_object_set_new(properties, strings[i].name, member);
    }
    const struct kube_field *meta =
        kube_schema_field(kube_schema_find("v1", "ConfigMap"), "metadata");
    add_type(d, meta->type);
    json_object_set_new(properties, "metadata", field_schema(d, meta));
    return s;
}

// "com.example.stable.v1.CronTab"
static char *custom_schema_name(const struct kube_openapi_resource *r)
{
    GS_AUTO_BUF struct gs_buf name = {0};
    size_t end = strlen(r->group);
    while (end > 0) {
        size_t start = end;
        while (start > 0 && r->group[start - 1] != '.')
            start--;
        gs_buf_addf(&name, "%.*s.", (int)(end - start), r->group + start);
        end = start > 0 ? start - 1 : 0;
    }
    gs_buf_addf(&name, "%s.%s", r->version, r->kind);
    return gs_buf_take(&name);
}

// Adds the schema of the resource. The caller owns the name.
static char *add_resource_schema(struct doc *d, const struct kube_openapi_resource *r)
{
    GS_AUTO_FREE char *api_version = api_version_of(r);
    const struct kube_type *t = kube_schema_find(api_version, r->kind);
    char *name = r->schema ? custom_schema_name(r)
                 : t       ? gs_strdup(t->name)
                     : gs_format("%s.%s.%s", *r->group ? r->group : "core", r->version, r->kind);
    if (r->schema) {
        json_object_set_new(d->schemas, name, custom_schema(d, r->schema));
    } else if (t) {
        add_type(d, t);
    } else {
        json_t *free_form = typed_schema("object", NULL);
        json_object_set_new(free_form, "x-kubernetes-preserve-unknown-fields", json_true());
        json_object_set_new(d->schemas, name, free_form);
    }
    json_t *s = json_object_get(d->schemas, name);
    const char *key = "x-kubernetes-group-version-kind";
    if (!json_object_get(s, key))
        json_object_set_new(s, key, json_array());
    json_array_append_new(json_object_get(s, key), group_version_kind(r));
    return name;
}

static json_t *openapi_parameter(const struct doc *d, const char *name, const char *in)
{
    json_t *p = json_object();
    codec_json_set_str(p, "name", name);
    codec_json_set_str(p, "in", in);
    if (strcmp(in, "path") == 0)
        json_object_set_new(p, "required", json_true());
    if (d->v3)
        json_object_set_new(p, "schema", typed_schema("string", NULL));
    else
        codec_json_set_str(p, "type", "string");
    return p;
}

struct operation {
    const char *method, *action; // "patch", "patch"; "get", "list" …
    const char *const *consumes; // NULL-terminated, or NULL without a body
};

static json_t *operation_of(const struct doc *d, const struct operation *op,
                            const struct kube_openapi_resource *r, const char *schema)
{
    json_t *o = json_object();
    json_t *parameters = json_array();
    json_t *content = json_object();
    json_t *consumes = json_array();
    bool writes = strcmp(op->method, "get") != 0;
    json_object_set_new(o, "operationId", codec_json_strf("%s_%s", op->action, r->plural));
    if (writes)
        json_array_append_new(parameters, openapi_parameter(d, "dryRun", "query"));
    for (size_t i = 0; op->consumes && op->consumes[i]; i++) {
        json_object_set_new(content, op->consumes[i],
                            json_pack("{so}", "schema",
                                      strcmp(op->method, "patch") == 0
                                          ? typed_schema("object", NULL)
                                          : schema_reference(d, schema)));
        json_array_append_new(consumes, json_string(op->consumes[i]));
    }
    if (op->consumes)
        json_array_append_new(parameters, openapi_parameter(d, "fieldValidation", "query"));
    json_object_set_new(o, "parameters", parameters);
    if (op->consumes && d->v3)
        json_object_set_new(o, "requestBody", json_pack("{sO}", "content", content));
    if (op->consumes && !d->v3)
        json_object_set(o, "consumes", consumes);
    json_object_set_new(o, "responses", json_pack("{s{ss}}", "200", "description", "OK"));
    codec_json_set_str(o, "x-kubernetes-action", op->action);
    json_object_set_new(o, "x-kubernetes-group-version-kind", group_version_kind(r));
    json_decref(content);
    json_decref(consumes);
    return o;
}

static void add_path(struct doc *d, const struct kube_openapi_resource *r, const char *schema,
                     bool item, const struct operation *ops, size_t n_ops)
{
    json_t *path = json_object();
    json_t *parameters = json_array();
    for (size_t i = 0; i < n_ops; i++)
        json_object_set_new(path, ops[i].method, operation_of(d, &ops[i], r, schema));
    if (item)
        json_array_append_new(parameters, openapi_parameter(d, "name", "path"));
    if (r->namespaced)
        json_array_append_new(parameters, openapi_parameter(d, "namespace", "path"));
    if (json_array_size(parameters))
        json_object_set(path, "parameters", parameters);
    json_decref(parameters);
    GS_AUTO_FREE char *name =
        gs_format("/%s%s/%s%s/%s%s", *r->group ? "apis/" : "api", r->group, r->version,
                  r->namespaced ? "/namespaces/{namespace}" : "", r->plural, item ? "/{name}" : "");
    json_object_set_new(d->paths, name, path);
}

static void add_resource_paths(struct doc *d, const struct kube_openapi_resource *r)
{
    static const char *const bodies[] = {"application/json", "application/yaml", NULL};
    static const char *const patches[] = {"application/json-patch+json",
                                          "application/merge-patch+json",
                                          "application/strategic-merge-patch+json", NULL};
    static const char *const free_patches[] = {"application/json-patch+json",
                                               "application/merge-patch+json", NULL};
    GS_AUTO_FREE char *schema = add_resource_schema(d, r);
    GS_AUTO_FREE char *api_version = api_version_of(r);
    const struct kube_type *t = kube_schema_find(api_version, r->kind);
    const struct operation collection[] = {
        {"get", "list", NULL},
        {"post", "post", bodies},
        {"delete", "deletecollection", NULL},
    };
    const struct operation item[] = {
        {"get", "get", NULL},
        {"put", "put", bodies},
        {"patch", "patch", t && !t->custom ? patches : free_patches},
        {"delete", "delete", NULL},
    };
    add_path(d, r, schema, false, collection, GS_ARRAY_LEN(collection));
    add_path(d, r, schema, true, item, GS_ARRAY_LEN(item));
}

static json_t *document_info(void)
{
    return json_pack("{ssss}", "title", "gpuscale, the Kubernetes API of one machine", "version",
                     GPUSCALE_VERSION);
}

json_t *kube_openapi_v3(const char *group, const char *version,
                        const struct kube_openapi_resource *r, size_t n)
{
    struct doc d = {.v3 = true, .schemas = json_object(), .paths = json_object()};
    for (size_t i = 0; i < n; i++)
        if (gs_streq(r[i].group, group) && gs_streq(r[i].version, version))
            add_resource_paths(&d, &r[i]);
    return json_pack("{sssosos{so}}", "openapi", "3.0.0", "info", document_info(), "paths", d.paths,
                     "components", "schemas", d.schemas);
}

json_t *kube_openapi_v3_index(const struct kube_openapi_resource *r, size_t n)
{
    json_t *paths = json_object();
    for (size_t i = 0; i < n; i++) {
        GS_AUTO_FREE char *name =
            gs_format("%s%s/%s", *r[i].group ? "apis/" : "api", r[i].group, r[i].version);
        if (json_object_get(paths, name))
            continue;
        CODEC_AUTO_JSON json_t *document = kube_openapi_v3(r[i].group, r[i].version, r, n);
        GS_AUTO_BUF struct gs_buf text = {0};
        codec_json_dump(document, &text);
        json_t *url =
            codec_json_strf("/openapi/v3/%s?hash=%016" PRIX64, name, gs_hash(text.data, text.len));
        json_object_set_new(paths, name, json_pack("{so}", "serverRelativeURL", url));
    }
    return json_pack("{so}", "paths", paths);
}

json_t *kube_openapi_v2(const struct kube_openapi_resource *r, size_t n)
{
    struct doc d = {.v3 = false, .schemas = json_object(), .paths = json_object()};
    for (size_t i = 0; i < n; i++)
        add_resource_paths(&d, &r[i]);
    return json_pack("{sssososo}", "swagger", "2.0", "info", document_info(), "paths", d.paths,
                     "definitions", d.schemas);
}
