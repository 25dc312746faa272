// SPDX-License-Identifier: Apache-2.0
// CustomResourceDefinitions as objects: defaults, validation, accepted names, conditions, deletion.
// Source: apiextensions-apiserver's validation, naming and establishing controllers.
#include "base/clock.h"
#include "base/mem.h"
#include "kube/names.h"
#include "kube/object.h"
#include "local/api/api_private.h"
#include "local/api/crd.h"

#include <ctype.h>

#define MAX_VERSIONS 32
#define MAX_COLUMNS  64

static const json_t *versions_of_crd(const json_t *crd)
{
    return codec_json_get(crd, "spec", "versions", NULL);
}

static const char *storage_version(const json_t *crd)
{
    size_t i;
    json_t *v;

    json_array_foreach ((json_t *)versions_of_crd(crd), i, v)
        if (codec_json_bool(v, false, "storage", NULL))
            return codec_json_str(v, "name", NULL);
    return NULL;
}

// --- defaults ---

void local_api_default_crd(json_t *obj, const json_t *old)
{
    json_t *spec = json_object_get(obj, "spec");
    json_t *names = json_object_get(spec, "names");
    const char *kind = codec_json_str(names, "kind", NULL);

    if (!json_is_object(names))
        return;
    if (kind && *kind) {
        GS_AUTO_FREE char *singular = gs_strdup(kind);
        GS_AUTO_FREE char *list = gs_format("%sList", kind);
        for (char *c = singular; *c; c++)
            *c = (char)tolower((unsigned char)*c);
        local_api_default_str(names, "singular", singular);
        local_api_default_str(names, "listKind", list);
    }
    json_t *conversion = local_api_default_object(spec, "conversion");
    if (conversion)
        local_api_default_str(conversion, "strategy", "None");
}

// --- names and conditions ---

// The value is in use by another definition of the group.
static bool in_use(const struct local_api *api, const json_t *crd, const char *name, bool kinds)
{
    static const char *const kind_keys[] = {"kind", "listKind"};
    static const char *const plural_keys[] = {"plural", "singular"};
    size_t bucket = local_api_resource_bucket(
        local_api_resource_find("apiextensions.k8s.io", "v1", "customresourcedefinitions"));
    const char *group = codec_json_str(crd, "spec", "group", NULL);
    const struct local_api_store_version *v;

    for (size_t i = 0; (v = local_api_store_at(api->store, bucket, i, NULL, NULL)); i++) {
        const json_t *accepted = codec_json_get(v->tree, "status", "acceptedNames", NULL);
        if (gs_streq(kube_name(v->tree), kube_name(crd)) ||
            !gs_streq(codec_json_str(v->tree, "spec", "group", NULL), group))
            continue;
        for (size_t k = 0; k < 2; k++)
            if (gs_streq(codec_json_str(accepted, kinds ? kind_keys[k] : plural_keys[k], NULL),
                         name))
                return true;
        if (!kinds && codec_json_has_string(json_object_get(accepted, "shortNames"), name))
            return true;
    }
    return false;
}

struct naming {
    const struct local_api *api;
    const json_t *crd;
    json_t *accepted;
    const char *reason; // of the first conflict; NULL: none
    struct gs_buf message;
};

static void conflict(struct naming *n, const char *reason, const char *name)
{
    if (n->reason && strcmp(n->reason, reason) != 0)
        return;
    gs_buf_addf(&n->message, "%s\"%s\" is already in use", n->reason ? ", " : "", name);
    n->reason = reason;
}

static void accept_name(struct naming *n, const char *key, bool is_kind, const char *reason)
{
    const char *name = codec_json_str(n->crd, "spec", "names", key, NULL);

    if (!name || !*name)
        json_object_del(n->accepted, key);
    else if (in_use(n->api, n->crd, name, is_kind))
        conflict(n, reason, name);
    else
        codec_json_set_str(n->accepted, key, name);
}

static void accept_short_names(struct naming *n)
{
    json_t *names = codec_json_get(n->crd, "spec", "names", "shortNames", NULL);
    bool free_names = true;
    size_t i;
    json_t *name;

    json_array_foreach (names, i, name)
        if (json_is_string(name) && in_use(n->api, n->crd, json_string_value(name), false)) {
            conflict(n, "ShortNamesConflict", json_string_value(name));
            free_names = false;
        }
    if (json_array_size(names) == 0)
        json_object_del(n->accepted, "shortNames");
    else if (free_names)
        json_object_set_new(n->accepted, "shortNames", json_deep_copy(names));
}

static json_t *accept_names(struct naming *n)
{
    const json_t *old = codec_json_get(n->crd, "status", "acceptedNames", NULL);
    json_t *categories = codec_json_get(n->crd, "spec", "names", "categories", NULL);

    n->accepted = json_is_object(old) ? json_deep_copy(old) : json_object();
    if (!old)
        json_object_update_new(n->accepted, json_pack("{ssss}", "plural", "", "kind", ""));
    accept_name(n, "plural", false, "PluralConflict");
    accept_name(n, "singular", false, "SingularConflict");
    accept_short_names(n);
    accept_name(n, "kind", true, "KindConflict");
    accept_name(n, "listKind", true, "ListKindConflict");
    if (json_array_size(categories) > 0)
        json_object_set_new(n->accepted, "categories", json_deep_copy(categories));
    else
        json_object_del(n->accepted, "categories");
    return n->accepted;
}

static void set_conditions(json_t *status, const struct naming *n)
{
    json_t *conditions = json_object_get(status, "conditions");
    json_t *established = NULL;
    size_t i;
    json_t *c;

    if (!json_is_array(conditions)) {
        conditions = json_array();
        json_object_set_new(status, "conditions", conditions);
    }
    kube_set_condition(conditions, "NamesAccepted", n->reason ? "False" : "True",
                       n->reason ? n->reason : "NoConflicts",
                       n->reason ? n->message.data : "no conflicts found", gs_unix_ms());
    json_array_foreach (conditions, i, c)
        if (gs_streq(codec_json_str(c, "type", NULL), "Established"))
            established = c;
    // A definition stays established when its names change to ones that are in use.
    if (gs_streq(codec_json_str(established, "status", NULL), "True"))
        return;
    kube_set_condition(conditions, "Established", n->reason ? "False" : "True",
                       n->reason ? "NotAccepted" : "InitialNamesAccepted",
                       n->reason ? "not all names are accepted"
                                 : "the initial names have been accepted",
                       gs_unix_ms());
}

bool local_api_crd_set_status(const struct local_api *api, json_t *crd)
{
    struct naming n = {.api = api, .crd = crd};
    json_t *old = json_object_get(crd, "status");
    const char *stored = storage_version(crd);
    json_t *status = json_is_object(old) ? json_deep_copy(old) : json_object();

    if (!json_is_array(json_object_get(status, "storedVersions")))
        json_object_set_new(status, "storedVersions", json_array());
    json_t *versions = json_object_get(status, "storedVersions");
    if (stored && !codec_json_has_string(versions, stored))
        json_array_append_new(versions, json_string(stored));
    json_object_set_new(status, "acceptedNames", accept_names(&n));
    set_conditions(status, &n);
    gs_buf_finish(&n.message);
    bool changed = !codec_json_same(old, status);
    json_object_set_new(crd, "status", status);
    return changed;
}

void local_api_complete_crd(const struct local_api_request *r, json_t *obj, const json_t *old)
{
    const char *strategy = codec_json_str(obj, "spec", "conversion", "strategy", NULL);

    local_api_crd_set_status(r->api, obj);
    if (r->sub || !r->x)
        return;
    if (local_api_schema_has_rules(versions_of_crd(obj)))
        local_api_notice(r, "x-kubernetes-validations",
                         "x-kubernetes-validations are stored, but CEL rules are not evaluated "
                         "here");
    if (gs_streq(strategy, "Webhook"))
        local_api_notice(r, "conversion webhooks",
                         "conversion webhooks are not called here: all versions show the same "
                         "fields");
}

// --- validation ---

static void check_names(const json_t *crd, struct kube_field_errors *errors)
{
    static const char *const keys[] = {"plural", "singular", "kind", "listKind"};
    const json_t *names = codec_json_get(crd, "spec", "names", NULL);

    for (size_t i = 0; i < GS_ARRAY_LEN(keys); i++) {
        GS_AUTO_FREE char *field = gs_format("spec.names.%s", keys[i]);
        GS_AUTO_FREE char *name = gs_strdup(codec_json_str(names, keys[i], NULL));
        GS_AUTO_BUF struct gs_buf why = {0};
        if (!name || !*name) {
            local_api_required(errors, field, "");
            continue;
        }
        for (char *c = name; i >= 2 && *c; c++)
            *c = (char)tolower((unsigned char)*c);
        if (!kube_check_dns1035_label(gs_slice_of(name), &why))
            local_api_invalid(errors, field, codec_json_str(names, keys[i], NULL), "%s", why.data);
    }
    if (gs_streq(codec_json_str(names, "kind", NULL), codec_json_str(names, "listKind", NULL)) &&
        codec_json_str(names, "kind", NULL))
        local_api_invalid(errors, "spec.names.listKind", codec_json_str(names, "listKind", NULL),
                          "kind and listKind may not be the same");
}

static void check_group(const json_t *crd, struct kube_field_errors *errors)
{
    const char *group = codec_json_str(crd, "spec", "group", NULL);
    GS_AUTO_BUF struct gs_buf why = {0};

    if (!group || !*group)
        local_api_required(errors, "spec.group", "");
    else if (!kube_check_dns_subdomain(gs_slice_of(group), &why))
        local_api_invalid(errors, "spec.group", group, "%s", why.data);
    else if (!strchr(group, '.'))
        local_api_invalid(errors, "spec.group", group, "should be a domain with at least one dot");
}

static bool is_column_type(const char *type)
{
    static const char *const types[] = {"boolean", "date", "integer", "number", "string"};

    for (size_t i = 0; type && i < GS_ARRAY_LEN(types); i++)
        if (strcmp(types[i], type) == 0)
            return true;
    return false;
}

static void check_columns(const json_t *columns, const char *path, struct kube_field_errors *errors)
{
    size_t i;
    json_t *column;

    if (json_array_size(columns) > MAX_COLUMNS) {
        local_api_invalid(errors, path, "", "must have at most %d columns", MAX_COLUMNS);
        return;
    }
    json_array_foreach ((json_t *)columns, i, column) {
        const char *name = codec_json_str(column, "name", NULL);
        const char *type = codec_json_str(column, "type", NULL);
        const char *json_path = codec_json_str(column, "jsonPath", NULL);
        GS_AUTO_FREE char *at = gs_format("%s.additionalPrinterColumns[%zu]", path, i);
        GS_AUTO_FREE char *name_field = gs_format("%s.name", at);
        GS_AUTO_FREE char *type_field = gs_format("%s.type", at);
        GS_AUTO_FREE char *path_field = gs_format("%s.JSONPath", at);
        if (!name || !*name)
            local_api_required(errors, name_field, "");
        if (!type || !*type)
            local_api_required(errors, type_field,
                               "must be one of boolean,date,integer,number,string");
        else if (!is_column_type(type))
            local_api_invalid(errors, type_field, type,
                              "must be one of boolean,date,integer,number,string");
        if (!json_path || !*json_path)
            local_api_required(errors, path_field, "");
        else if (*json_path != '.')
            local_api_invalid(errors, path_field, json_path,
                              "must be a simple json path starting with .");
    }
}

static void check_scale(const json_t *scale, const char *path, struct kube_field_errors *errors)
{
    static const char *const keys[] = {"specReplicasPath", "statusReplicasPath"};
    static const char *const starts[] = {".spec.", ".status."};

    for (size_t i = 0; scale && i < GS_ARRAY_LEN(keys); i++) {
        const char *value = codec_json_str(scale, keys[i], NULL);
        GS_AUTO_FREE char *field = gs_format("%s.subresources.scale.%s", path, keys[i]);
        if (!value || !*value)
            local_api_required(errors, field, "");
        else if (!gs_starts(value, starts[i]))
            local_api_invalid(errors, field, value,
                              i == 0 ? "should be a json path under .spec"
                                     : "should be a json path under .status");
    }
}

// only: kube-apiserver reports errors of the only version at the fields of the old v1beta1.
static void check_one_version(const json_t *version, const char *path, bool only,
                              struct kube_field_errors *errors)
{
    const json_t *schema = codec_json_get(version, "schema", "openAPIV3Schema", NULL);
    const char *name = codec_json_str(version, "name", NULL);
    GS_AUTO_FREE char *name_field = gs_format("%s.name", path);
    GS_AUTO_FREE char *schema_field = gs_format("%s.schema.openAPIV3Schema", path);
    const char *parts = only ? "spec" : path;
    GS_AUTO_BUF struct gs_buf why = {0};

    if (!name || !kube_check_dns1035_label(gs_slice_of(name), &why))
        local_api_invalid(errors, name_field, name ? name : "", "%s",
                          why.data ? why.data : "must be a string");
    if (!json_is_object(schema))
        local_api_required(errors, schema_field, "");
    else
        local_api_schema_check(schema, only ? "spec.validation.openAPIV3Schema" : schema_field,
                               errors);
    check_columns(json_object_get(version, "additionalPrinterColumns"), parts, errors);
    check_scale(codec_json_get(version, "subresources", "scale", NULL), parts, errors);
}

static void check_versions(const json_t *crd, struct kube_field_errors *errors)
{
    const json_t *versions = versions_of_crd(crd);
    size_t stored = 0, i, k;
    json_t *version, *other;

    if (json_array_size(versions) == 0 || json_array_size(versions) > MAX_VERSIONS) {
        local_api_invalid(errors, "spec.versions", "", "must have 1 to %d versions", MAX_VERSIONS);
        return;
    }
    json_array_foreach ((json_t *)versions, i, version) {
        GS_AUTO_FREE char *path = gs_format("spec.versions[%zu]", i);
        check_one_version(version, path, json_array_size(versions) == 1, errors);
        stored += codec_json_bool(version, false, "storage", NULL);
        json_array_foreach ((json_t *)versions, k, other)
            if (k < i && gs_streq(codec_json_str(version, "name", NULL),
                                  codec_json_str(other, "name", NULL)))
                local_api_invalid(errors, "spec.versions", "", "must contain unique version names");
    }
    if (stored != 1)
        local_api_invalid(errors, "spec.versions", "",
                          "must have exactly one version marked as storage version");
}

// Versions that objects may be stored in must stay.
static void check_stored_versions(const json_t *crd, struct kube_field_errors *errors)
{
    size_t i, k;
    json_t *stored, *version;

    json_array_foreach (codec_json_get(crd, "status", "storedVersions", NULL), i, stored) {
        bool found = false;
        json_array_foreach ((json_t *)versions_of_crd(crd), k, version)
            found |= gs_streq(codec_json_str(version, "name", NULL), json_string_value(stored));
        if (found || !json_is_string(stored))
            continue;
        GS_AUTO_FREE char *field = gs_format("status.storedVersions[%zu]", i);
        local_api_invalid(errors, field, json_string_value(stored),
                          "missing from spec.versions; %s was previously a storage version, and "
                          "must remain in spec.versions until a storage migration ensures no data "
                          "remains persisted in %s and removes %s from status.storedVersions",
                          json_string_value(stored), json_string_value(stored),
                          json_string_value(stored));
    }
}

static void check_immutable_members(const json_t *crd, const json_t *old,
                                    struct kube_field_errors *errors)
{
    static const char *const keys[] = {"group", "scope"};

    if (!old || !kube_condition_true(old, "Established"))
        return;
    for (size_t i = 0; i < GS_ARRAY_LEN(keys); i++) {
        const char *value = codec_json_str(crd, "spec", keys[i], NULL);
        GS_AUTO_FREE char *field = gs_format("spec.%s", keys[i]);
        if (!gs_streq(value, codec_json_str(old, "spec", keys[i], NULL)))
            local_api_invalid(errors, field, value ? value : "", "field is immutable");
    }
}

void local_api_validate_crd(const json_t *obj, const json_t *old, struct kube_field_errors *errors)
{
    const char *group = codec_json_str(obj, "spec", "group", NULL);
    const char *plural = codec_json_str(obj, "spec", "names", "plural", NULL);
    const char *scope = codec_json_str(obj, "spec", "scope", NULL);
    const char *strategy = codec_json_str(obj, "spec", "conversion", "strategy", NULL);
    GS_AUTO_FREE char *name = gs_format("%s.%s", plural ? plural : "", group ? group : "");

    if (!gs_streq(kube_name(obj), name))
        local_api_invalid(errors, "metadata.name", kube_name(obj) ? kube_name(obj) : "",
                          "must be spec.names.plural+\".\"+spec.group");
    check_group(obj, errors);
    if (!gs_streq(scope, "Namespaced") && !gs_streq(scope, "Cluster"))
        local_api_unsupported(errors, "spec.scope", scope ? scope : "",
                              "\"Cluster\", \"Namespaced\"");
    check_versions(obj, errors);
    check_names(obj, errors);
    check_stored_versions(obj, errors);
    check_immutable_members(obj, old, errors);
    if (strategy && strcmp(strategy, "None") != 0 && strcmp(strategy, "Webhook") != 0)
        local_api_unsupported(errors, "spec.conversion.strategy", strategy,
                              "\"None\", \"Webhook\"");
}

// --- deletion ---

json_t *local_api_delete_crd(const struct local_api_request *r, const json_t *crd, json_t **ret_obj,
                             bool *ret_gone)
{
    *ret_gone = false;
    if (kube_is_deleting(crd)) {
        *ret_obj = json_incref((json_t *)crd);
        return NULL;
    }
    json_t *copy = json_deep_copy(crd);
    json_t *meta = json_object_get(copy, "metadata");
    json_t *finalizers = json_object_get(meta, "finalizers");
    if (!json_is_array(finalizers)) {
        finalizers = json_array();
        json_object_set_new(meta, "finalizers", finalizers);
    }
    json_array_append_new(finalizers, json_string(LOCAL_API_CRD_FINALIZER));
    local_api_now(meta, "deletionTimestamp");
    codec_json_set_int(meta, "deletionGracePeriodSeconds", 0);
    codec_json_set_int(meta, "generation", codec_json_int(meta, 0, "generation", NULL) + 1);
    json_t *conditions = codec_json_get(copy, "status", "conditions", NULL);
    if (json_is_array(conditions))
        kube_set_condition(conditions, "Terminating", "True", "InstanceDeletionInProgress",
                           "CustomResource deletion is in progress", gs_unix_ms());
    return local_api_store(r, copy, ret_obj);
}
