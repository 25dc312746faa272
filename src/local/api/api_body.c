// SPDX-License-Identifier: Apache-2.0
// Request bodies: JSON or YAML in, checked against the kind's fields, brought into canonical form.
#include "base/mem.h"
#include "codec/yaml.h"
#include "kube/object.h"
#include "kube/quantity.h"
#include "local/api/api_private.h"
#include "local/api/crd.h"
#include "local/api/proto.h"

static json_t *bad_request(const char *fmt, ...) GS_PRINTF(1, 2);
static json_t *bad_request(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    va_end(ap);
    return kube_status_failure(400, "BadRequest", text, NULL);
}

static bool media_type_is(const char *content_type, const char *type)
{
    struct gs_slice rest = gs_slice_of(content_type);
    return gs_slice_eq_str(gs_slice_trim(gs_slice_cut(&rest, ';')), type);
}

static bool is_yaml(const char *content_type)
{
    return media_type_is(content_type, "application/yaml") ||
           media_type_is(content_type, "application/apply-patch+yaml");
}

static bool is_json(const char *content_type)
{
    struct gs_slice rest = gs_slice_of(content_type);
    struct gs_slice type = gs_slice_trim(gs_slice_cut(&rest, ';'));

    return type.len == 0 || gs_slice_eq_str(type, "application/json") ||
           gs_slice_ends(type, "+json") || gs_slice_eq_str(type, "application/*") ||
           gs_slice_eq_str(type, "*/*");
}

static json_t *parse_yaml(struct gs_slice text, json_t **ret)
{
    GS_CLEANUP(codec_yaml_docs_finish) struct codec_yaml_docs docs = {0};
    GS_AUTO_ERROR struct gs_error *err = codec_yaml_parse(text, "body", &docs);

    if (err)
        return bad_request("error converting YAML to JSON: %s", gs_error_message(err));
    if (docs.len != 1)
        return bad_request("the body holds %zu YAML documents, one is expected", docs.len);
    *ret = json_incref(docs.items[0].value);
    return NULL;
}

static json_t *parse_protobuf(struct gs_slice body, json_t **ret)
{
    GS_AUTO_ERROR struct gs_error *err = local_api_proto_decode(body, ret);

    if (!err)
        return NULL;
    return gs_error_code(err) == GS_ENOTSUP
               ? kube_status_failure(415, "UnsupportedMediaType", gs_error_message(err), NULL)
               : bad_request("%s", gs_error_message(err));
}

json_t *local_api_read_body(const struct local_api_request *r, json_t **ret)
{
    const char *content_type = http_header(r->x, "Content-Type");
    struct gs_slice text = http_body(r->x);

    if (is_yaml(content_type))
        return parse_yaml(text, ret);
    if (media_type_is(content_type, LOCAL_API_PROTO_MEDIA_TYPE))
        return parse_protobuf(text, ret);
    if (!is_json(content_type))
        return kube_status_failure(
            415, "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted "
            "media types include: application/json, application/yaml, " LOCAL_API_PROTO_MEDIA_TYPE,
            NULL);
    if (text.len == 0)
        return bad_request("the body of the request is empty: an object is expected");
    GS_AUTO_ERROR struct gs_error *err =
        codec_json_parse(text, r->field_validation == LOCAL_API_FIELDS_STRICT, ret);
    if (err)
        return bad_request("the object provided is unrecognized (must be of type %s): %s",
                           r->res ? r->res->kind : "object", gs_error_message(err));
    return NULL;
}

// --- kind and version ---

json_t *local_api_check_kind(const json_t *obj, const char *kind)
{
    if (!json_is_object(obj))
        return bad_request("the body of the request must be a JSON object");
    const char *given = kube_kind(obj);
    if (given && *given && strcmp(given, kind) != 0)
        return bad_request("the body is of kind %s, expected is %s", given, kind);
    return NULL;
}

static json_t *check_version(const struct local_api_request *r, json_t *obj)
{
    GS_AUTO_BUF struct gs_buf expected = {0};
    const char *given = kube_api_version(obj);

    local_api_version(r->res->group, r->version, &expected);
    if (given && *given && strcmp(given, expected.data) != 0)
        return bad_request("the API version in the data (%s) does not match the expected API "
                           "version (%s)",
                           given, expected.data);
    codec_json_set_str(obj, "apiVersion", expected.data);
    codec_json_set_str(obj, "kind", r->res->kind);
    return NULL;
}

static json_t *cannot_handle(const struct local_api_request *r, const char *why)
{
    return bad_request("%s in version \"%s\" cannot be handled as a %s: %s", r->res->kind,
                       r->version, r->res->kind, why);
}

// --- fields ---

static json_t *refuse_unknown(const struct local_api_request *r, const json_t *unknown)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    size_t i;
    json_t *problem;

    gs_buf_add_str(&text, "strict decoding error: ");
    json_array_foreach ((json_t *)unknown, i, problem)
        gs_buf_addf(&text, "%s%s", i ? ", " : "", json_string_value(problem));
    return cannot_handle(r, text.data);
}

static json_t *report_unknown(const struct local_api_request *r, const json_t *unknown)
{
    size_t i;
    json_t *problem;

    if (json_array_size(unknown) == 0)
        return NULL;
    if (r->field_validation == LOCAL_API_FIELDS_STRICT)
        return refuse_unknown(r, unknown);
    if (r->field_validation == LOCAL_API_FIELDS_WARN)
        json_array_foreach ((json_t *)unknown, i, problem)
            local_api_warning(r, "%s", json_string_value(problem));
    return NULL;
}

static json_t *check_fields(const struct local_api_request *r, const struct kube_type *type,
                            json_t *obj)
{
    CODEC_AUTO_JSON json_t *unknown = json_array();
    CODEC_AUTO_JSON json_t *wrong = json_array();

    kube_schema_check(type, obj, true, unknown, wrong);
    if (json_array_size(wrong) > 0)
        return cannot_handle(r, json_string_value(json_array_get(wrong, 0)));
    return report_unknown(r, unknown);
}

static json_t *prune_custom(const struct local_api_request *r, json_t *obj)
{
    CODEC_AUTO_JSON json_t *unknown = json_array();

    local_api_custom_prune(r->res->custom, obj, unknown);
    return report_unknown(r, unknown);
}

// --- canonical form ---

// A typed decoder reads null as "left out".
static void drop_nulls(json_t *j)
{
    const char *key;
    json_t *value;
    void *next;
    size_t i;

    if (json_is_object(j)) {
        json_object_foreach_safe (j, next, key, value) {
            if (json_is_null(value))
                json_object_del(j, key);
            else
                drop_nulls(value);
        }
    } else if (json_is_array(j)) {
        json_array_foreach (j, i, value)
            drop_nulls(value);
    }
}

// New string in the quantity's canonical form; NULL: not a quantity.
static json_t *canonical_quantity(const json_t *value)
{
    char buf[KUBE_QUANTITY_SIZE];
    GS_AUTO_BUF struct gs_buf number = {0};
    struct gs_slice text;

    if (json_is_string(value)) {
        text = gs_slice_make(json_string_value(value), json_string_length(value));
    } else {
        codec_json_dump(value, &number);
        text = gs_buf_slice(&number);
    }
    GS_AUTO_ERROR struct gs_error *err = kube_quantity_canonical(text, buf);
    return err ? NULL : json_string(buf);
}

static bool canonicalise(const struct kube_type *type, json_t *obj, unsigned depth);

static bool canonicalise_map(const struct kube_field *f, json_t *map, unsigned depth)
{
    const char *key;
    json_t *value;

    json_object_foreach (map, key, value) {
        if (f->type) {
            if (!canonicalise(f->type, value, depth))
                return false;
        } else if (f->item == KUBE_F_QUANTITY) {
            json_t *canonical = canonical_quantity(value);
            if (!canonical)
                return false;
            json_object_set_new(map, key, canonical);
        }
    }
    return true;
}

static bool canonicalise_field(const struct kube_field *f, json_t *obj, json_t *value,
                               unsigned depth)
{
    size_t i;
    json_t *item;

    switch (f->kind) {
    case KUBE_F_QUANTITY: {
        json_t *canonical = canonical_quantity(value);
        if (!canonical)
            return false;
        json_object_set_new(obj, f->name, canonical);
        return true;
    }
    case KUBE_F_OBJECT:
        return canonicalise(f->type, value, depth);
    case KUBE_F_MAP:
        return canonicalise_map(f, value, depth);
    case KUBE_F_LIST:
        if (f->type)
            json_array_foreach (value, i, item)
                if (!canonicalise(f->type, item, depth))
                    return false;
        return true;
    default:
        return true;
    }
}

// False: the value of a field of quantities is not a quantity.
static bool canonicalise(const struct kube_type *type, json_t *obj, unsigned depth)
{
    if (!type || !json_is_object(obj) || depth > CODEC_JSON_MAX_DEPTH)
        return true;
    for (const struct kube_field *f = type->fields; f->name; f++) {
        json_t *value = json_object_get(obj, f->name);
        if (value && !canonicalise_field(f, obj, value, depth + 1))
            return false;
    }
    return true;
}

// Metadata of kinds without a schema.
static json_t *check_metadata_types(const struct local_api_request *r, const json_t *obj)
{
    static const char *const strings[] = {"name", "namespace", "generateName", "resourceVersion",
                                          "uid"};
    static const char *const maps[] = {"labels", "annotations"};
    const json_t *meta = json_object_get(obj, "metadata");
    const char *key;
    json_t *value;

    if (meta && !json_is_object(meta))
        return cannot_handle(r, "json: cannot unmarshal metadata: it must be an object");
    for (size_t i = 0; i < GS_ARRAY_LEN(strings); i++) {
        value = json_object_get(meta, strings[i]);
        if (value && !json_is_string(value)) {
            GS_AUTO_FREE char *why =
                gs_format("json: cannot unmarshal metadata.%s: it must be a string", strings[i]);
            return cannot_handle(r, why);
        }
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(maps); i++) {
        json_t *map = json_object_get(meta, maps[i]);
        if (map && !json_is_object(map))
            return cannot_handle(r, "json: cannot unmarshal metadata: labels and annotations must "
                                    "be maps of strings");
        json_object_foreach (map, key, value)
            if (!json_is_string(value))
                return cannot_handle(r, "json: cannot unmarshal metadata: labels and annotations "
                                        "must be maps of strings");
    }
    return NULL;
}

static void drop_null_metadata(json_t *obj)
{
    json_t *meta = json_object_get(obj, "metadata");
    drop_nulls(meta);
}

json_t *local_api_check_object(const struct local_api_request *r, json_t *obj)
{
    json_t *status = local_api_check_kind(obj, r->res->kind);
    if (!status)
        status = check_version(r, obj);
    if (status)
        return status;
    const struct kube_type *type = kube_schema_find(kube_api_version(obj), r->res->kind);
    if (type) {
        drop_nulls(obj);
        status = check_fields(r, type, obj);
        if (!status && !canonicalise(type, obj, 0))
            status = cannot_handle(r, "quantities must match the regular expression "
                                      "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'");
    } else {
        drop_null_metadata(obj);
        if (r->res->custom)
            status = prune_custom(r, obj);
    }
    return status ? status : check_metadata_types(r, obj);
}

json_t *local_api_to_stored(const struct local_api_request *r, json_t *obj, json_t **ret)
{
    CODEC_AUTO_JSON json_t *owned = obj;
    json_t *stored = NULL;

    if (!r->res->to_stored) {
        *ret = GS_TAKE(owned);
        return NULL;
    }
    GS_AUTO_ERROR struct gs_error *err = r->res->to_stored(owned, &stored);
    if (err)
        return cannot_handle(r, gs_error_message(err));
    *ret = stored;
    return NULL;
}
