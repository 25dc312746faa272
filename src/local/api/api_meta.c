// SPDX-License-Identifier: Apache-2.0
// Object metadata: fields that the server sets, allowed changes, syntax of names and labels.
#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "kube/names.h"
#include "kube/object.h"
#include "local/api/api_private.h"
#include "local/api/registry.h"

#define MAX_GENERATED_PREFIX  58
#define GENERATED_SUFFIX      5
#define MAX_ANNOTATIONS_BYTES 262144
#define MAX_MANAGERS          1000 // field managers of an object

char *local_api_new_uid(void)
{
    unsigned char b[16];

    gs_random_bytes(b, sizeof b);
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
    return gs_format("%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
                     b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12],
                     b[13], b[14], b[15]);
}

void local_api_now(json_t *obj, const char *key)
{
    char buf[GS_RFC3339_SIZE];
    codec_json_set_str(obj, key, gs_format_rfc3339(gs_unix_ms(), buf));
}

static json_t *metadata_of(json_t *obj)
{
    json_t *meta = json_object_get(obj, "metadata");

    if (!meta) {
        meta = json_object();
        json_object_set_new(obj, "metadata", meta);
    }
    return meta;
}

static json_t *bad_request(const char *text)
{
    return kube_status_failure(400, "BadRequest", text, NULL);
}

// The namespace of the path is the object's.
static json_t *settle_namespace(const struct local_api_request *r, json_t *meta)
{
    const char *given = codec_json_str(meta, "namespace", NULL);

    if (given && *given && strcmp(given, r->ns) != 0)
        return bad_request("the namespace of the provided object does not match the namespace "
                           "sent on the request");
    codec_json_set_str(meta, "namespace", *r->ns ? r->ns : NULL);
    return NULL;
}

static char *generate_name(const char *prefix)
{
    char suffix[GENERATED_SUFFIX + 1];

    gs_random_suffix(suffix, GENERATED_SUFFIX);
    return gs_format("%.*s%s", MAX_GENERATED_PREFIX, prefix, suffix);
}

static void settle_name(const struct local_api_request *r, json_t *meta)
{
    const char *name = codec_json_str(meta, "name", NULL);
    const char *prefix = codec_json_str(meta, "generateName", NULL);

    if ((name && *name) || !prefix || !*prefix)
        return;
    for (int attempt = 0; attempt < 8; attempt++) {
        GS_AUTO_FREE char *generated = generate_name(prefix);
        codec_json_set_str(meta, "name", generated);
        if (!local_api_store_get(r->api->store, local_api_resource_bucket(r->res), r->ns,
                                 generated))
            return;
    }
}

json_t *local_api_meta_for_create(const struct local_api_request *r, json_t *obj)
{
    static const char *const not_the_clients[] = {"deletionTimestamp", "deletionGracePeriodSeconds",
                                                  "selfLink", "managedFields", "generation"};
    json_t *meta = metadata_of(obj);
    const char *rv = codec_json_str(meta, "resourceVersion", NULL);

    if (rv && *rv && strcmp(rv, "0") != 0)
        return bad_request("resourceVersion should not be set on objects to be created");
    json_t *status = settle_namespace(r, meta);
    if (status)
        return status;
    settle_name(r, meta);
    for (size_t i = 0; i < GS_ARRAY_LEN(not_the_clients); i++)
        json_object_del(meta, not_the_clients[i]);
    GS_AUTO_FREE char *uid = local_api_new_uid();
    codec_json_set_str(meta, "uid", uid);
    local_api_now(meta, "creationTimestamp");
    if (local_api_resource_has(r->res, LOCAL_API_R_GENERATION))
        codec_json_set_int(meta, "generation", 1);
    return NULL;
}

// Stale writes are refused; a write that names no version means "whatever is there".
static json_t *check_preconditions(const struct local_api_request *r, const json_t *old,
                                   const json_t *meta)
{
    const char *uid = codec_json_str(meta, "uid", NULL);
    const char *rv = codec_json_str(meta, "resourceVersion", NULL);
    GS_AUTO_BUF struct gs_buf resource = {0};

    local_api_resource_name(r->res, &resource);
    if (uid && *uid && !gs_streq(uid, kube_uid(old))) {
        GS_AUTO_FREE char *why =
            gs_format("Precondition failed: UID in precondition: %s, UID in object meta: %s", uid,
                      kube_uid(old));
        return kube_status_conflict(resource.data, r->name, why);
    }
    if (rv && *rv && strcmp(rv, "0") != 0 && !gs_streq(rv, kube_resource_version(old)))
        return kube_status_conflict(resource.data, r->name,
                                    "the object has been modified; please apply your changes to "
                                    "the latest version and try again");
    return NULL;
}

json_t *local_api_meta_for_update(const struct local_api_request *r, const json_t *old,
                                  json_t *next)
{
    static const char *const servers[] = {
        "uid",        "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
        "generation", "resourceVersion"};
    json_t *meta = metadata_of(next);
    const json_t *old_meta = json_object_get(old, "metadata");
    const char *name = codec_json_str(meta, "name", NULL);

    if (name && *name && strcmp(name, r->name) != 0) {
        GS_AUTO_FREE char *text = gs_format(
            "the name of the object (%s) does not match the name on the URL (%s)", name, r->name);
        return bad_request(text);
    }
    codec_json_set_str(meta, "name", r->name);
    json_t *status = settle_namespace(r, meta);
    if (!status)
        status = check_preconditions(r, old, meta);
    if (status)
        return status;
    json_object_del(meta, "selfLink");
    for (size_t i = 0; i < GS_ARRAY_LEN(servers); i++) {
        json_t *value = json_object_get(old_meta, servers[i]);
        if (value)
            json_object_set(meta, servers[i], value);
        else
            json_object_del(meta, servers[i]);
    }
    return NULL;
}

// --- validation ---

static void validate_name(const struct local_api_request *r, const json_t *meta,
                          struct kube_field_errors *errors)
{
    const char *name = codec_json_str(meta, "name", NULL);
    GS_AUTO_BUF struct gs_buf why = {0};

    if (!name || !*name)
        local_api_required(errors, "metadata.name", "name or generateName is required");
    else if (!local_api_check_name(r->res->name_rule, name, &why))
        local_api_invalid(errors, "metadata.name", name, "%s", why.data);
}

// Annotation keys may have capitals in their prefix, unlike those of labels.
static char *lower_case(const char *text)
{
    char *lower = gs_strdup(text);

    for (char *c = lower; *c; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c - 'A' + 'a');
    return lower;
}

static void validate_annotations(const json_t *annotations, struct kube_field_errors *errors)
{
    const char *key;
    json_t *value;
    size_t total = 0;

    json_object_foreach ((json_t *)annotations, key, value) {
        GS_AUTO_BUF struct gs_buf why = {0};
        GS_AUTO_FREE char *lower = lower_case(key);
        if (!kube_check_label_key(gs_slice_of(lower), &why))
            local_api_invalid(errors, "metadata.annotations", key, "%s", why.data);
        total += strlen(key) + json_string_length(value);
    }
    if (total > MAX_ANNOTATIONS_BYTES)
        kube_field_error(errors, "FieldValueTooLong", "metadata.annotations", NULL,
                         "may not be more than %d bytes", MAX_ANNOTATIONS_BYTES);
}

static void validate_owners(const json_t *owners, struct kube_field_errors *errors)
{
    static const char *const required[] = {"apiVersion", "kind", "name", "uid"};
    size_t i;
    json_t *owner;

    json_array_foreach ((json_t *)owners, i, owner)
        for (size_t k = 0; k < GS_ARRAY_LEN(required); k++) {
            const char *value = codec_json_str(owner, required[k], NULL);
            if (value && *value)
                continue;
            GS_AUTO_FREE char *field =
                gs_format("metadata.ownerReferences[%zu].%s", i, required[k]);
            local_api_invalid(errors, field, "", "must not be empty");
        }
}

// Each write reads and writes the fields of all managers.
static void validate_managers(const json_t *managers, struct kube_field_errors *errors)
{
    if (json_array_size(managers) > MAX_MANAGERS)
        kube_field_error(errors, "FieldValueTooMany", "metadata.managedFields", NULL,
                         "must have at most %d items", MAX_MANAGERS);
}

void local_api_meta_validate(const struct local_api_request *r, const json_t *obj,
                             struct kube_field_errors *errors)
{
    const json_t *meta = json_object_get(obj, "metadata");

    validate_name(r, meta, errors);
    local_api_validate_labels(json_object_get(meta, "labels"), "metadata.labels", errors);
    validate_annotations(json_object_get(meta, "annotations"), errors);
    validate_owners(json_object_get(meta, "ownerReferences"), errors);
    validate_managers(json_object_get(meta, "managedFields"), errors);
}

json_t *local_api_check_namespace(const struct local_api_request *r, const char *ns)
{
    const struct local_api_resource *namespaces = local_api_resource_find("", "v1", "namespaces");
    const struct local_api_store_version *v =
        local_api_store_get(r->api->store, local_api_resource_bucket(namespaces), "", ns);

    if (!v)
        return kube_status_not_found("namespaces", ns);
    if (!kube_is_deleting(v->tree))
        return NULL;
    GS_AUTO_BUF struct gs_buf resource = {0};
    local_api_resource_name(r->res, &resource);
    GS_AUTO_FREE char *text =
        gs_format("%s is forbidden: unable to create new content in namespace %s because it is "
                  "being terminated",
                  resource.data, ns);
    return kube_status_failure(403, "Forbidden", text, NULL);
}
