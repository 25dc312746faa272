// SPDX-License-Identifier: Apache-2.0
// Create, update and patch: one way into the store, with Kubernetes' order of checks.
#include "base/mem.h"
#include "kube/object.h"
#include "kube/patch.h"
#include "local/api/admission.h"
#include "local/api/api_private.h"
#include "local/api/apply.h"
#include "local/api/crd.h"
#include "local/api/registry.h"

// etcd's default limit of a request, and so the limit of an object in other clusters, too.
#define MAX_OBJECT_BYTES ((size_t)1536 << 10)

// A text of empty objects takes a hundred times its length.
#define MAX_OBJECT_MEMORY ((size_t)32 << 20)
// Of all objects but events, on average. What is there is written in any case if it has at most
// SMALL_OBJECT bytes, for its status, or if it is marked as being deleted by this.
#define MEMORY_PER_OBJECT ((size_t)26 << 10)
#define MIN_MEMORY        ((size_t)64 << 20)
#define SMALL_OBJECT      ((size_t)64 << 10)

static size_t bucket_of_events(void)
{
    return local_api_resource_bucket(local_api_resource_find("", "v1", "events"));
}

// Its deletion begins with this change.
static bool is_marked(const struct local_api_store_version *old, const json_t *obj)
{
    if (!kube_is_deleting(obj))
        return false;
    CODEC_AUTO_JSON json_t *tree = local_api_store_version_tree(old);
    return !kube_is_deleting(tree);
}

// Objects of one client must not fill the memory, in which everything else runs.
static json_t *check_memory(const struct local_api_request *r, const json_t *obj)
{
    const struct local_api_store *store = r->api->store;
    size_t bucket = local_api_resource_bucket(r->res), events = bucket_of_events();
    const char *ns = kube_namespace(obj);
    const struct local_api_store_version *old =
        local_api_store_get(store, bucket, ns ? ns : "", kube_name(obj));
    size_t used = local_api_store_total_memory(store) - local_api_store_memory(store, events);
    size_t share = r->api->max_objects * MEMORY_PER_OBJECT;
    size_t limit = share > MIN_MEMORY ? share : MIN_MEMORY;

    if (bucket == events) // bounded by removing the oldest
        return NULL;
    size_t wanted = local_api_store_memory_of(obj), had = old ? old->memory : 0;
    if (wanted <= had || used + wanted - had <= limit ||
        (old && (wanted <= SMALL_OBJECT || is_marked(old, obj))))
        return NULL;
    GS_AUTO_FREE char *why = gs_format(
        "exceeded quota: gpuscale, requested: memory=%zu, used: memory=%zu, limited: memory=%zu "
        "(delete some objects, or start gpuscale with a larger --max-objects)",
        wanted - had, used, limit);
    return local_api_forbidden(r, obj, why);
}

json_t *local_api_store(const struct local_api_request *r, json_t *obj, json_t **ret)
{
    CODEC_AUTO_JSON json_t *owned = obj;
    json_t *status = check_memory(r, owned);

    if (status)
        return status;

    if (r->dry_run) {
        if (ret)
            *ret = GS_TAKE(owned);
        return NULL;
    }
    struct gs_error *err = local_api_store_put(r->api->store, local_api_resource_bucket(r->res),
                                               json_incref(owned), NULL);
    if (err)
        return local_api_error_status(err);
    if (ret)
        *ret = GS_TAKE(owned);
    return NULL;
}

static json_t *too_large(size_t limit, const char *what)
{
    GS_AUTO_FREE char *text =
        gs_format("Request entity too large: limit is %zu bytes%s for an object", limit, what);
    return kube_status_failure(413, "RequestEntityTooLarge", text, NULL);
}

static json_t *check_size(const json_t *obj)
{
    size_t size = json_dumpb(obj, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY);

    if (size > MAX_OBJECT_BYTES)
        return too_large(MAX_OBJECT_BYTES, "");
    return codec_json_memory(obj) <= MAX_OBJECT_MEMORY ? NULL
                                                       : too_large(MAX_OBJECT_MEMORY, " of memory");
}

// The defaults of a definition can make an object many thousand times larger, so they end at the
// size of an object.
static json_t *set_custom_defaults(const struct local_api_request *r, json_t *obj)
{
    bool fits = !r->res->custom || local_api_custom_default(r->res->custom, obj, MAX_OBJECT_BYTES);

    return fits ? NULL : too_large(MAX_OBJECT_BYTES, "");
}

static json_t *validate(const struct local_api_request *r, const json_t *obj, const json_t *old)
{
    struct kube_field_errors errors = {0};
    GS_AUTO_BUF struct gs_buf kind = {0};
    json_t *status = NULL;

    local_api_meta_validate(r, obj, &errors);
    if (gs_streq(r->sub, LOCAL_API_EPHEMERAL))
        local_api_validate_ephemeral_update(obj, old, &errors);
    else if (r->res->validate)
        r->res->validate(obj, old, &errors);
    if (r->res->custom)
        local_api_custom_validate(r->res->custom, obj, &errors);
    if (strcmp(r->res->plural, "services") == 0 && !gs_streq(r->sub, "status"))
        local_api_check_service(r, obj, old, &errors);
    if (errors.len > 0) {
        local_api_resource_kind_name(r->res, &kind);
        status = kube_status_invalid(kind.data, kube_name(obj) ? kube_name(obj) : "", &errors);
    }
    kube_field_errors_finish(&errors);
    return status ? status : check_size(obj);
}

// --- create ---

static void use_stored_version(const struct local_api_request *r, json_t *obj)
{
    GS_AUTO_BUF struct gs_buf version = {0};
    const char *kind;

    local_api_resource_stored_as(r->res, &version, &kind);
    codec_json_set_str(obj, "apiVersion", version.data);
    codec_json_set_str(obj, "kind", kind);
}

static json_t *over_quota(const struct local_api_request *r, const char *name, const char *what,
                          size_t used, size_t limit, const char *flag)
{
    GS_AUTO_BUF struct gs_buf resource = {0};

    local_api_resource_name(r->res, &resource);
    GS_AUTO_FREE char *advice =
        flag ? gs_format("delete some, or start gpuscale with a larger --%s", flag)
             : gs_strdup("delete some");
    GS_AUTO_FREE char *text = gs_format(
        "%s \"%s\" is forbidden: exceeded quota: gpuscale, requested: %s=1, used: %s=%zu, limited: "
        "%s=%zu (%s)",
        resource.data, name, what, what, used, what, limit, advice);
    return kube_status_failure(403, "Forbidden", text, NULL);
}

// One mistake, such as a Deployment of two thousand million replicas, must not fill the memory and
// stop everything else. What is there already stays and can be changed.
static json_t *check_quota(const struct local_api_request *r, const char *name)
{
    const struct local_api *api = r->api;
    size_t bucket = local_api_resource_bucket(r->res);
    size_t events = bucket_of_events();
    size_t pods = local_api_resource_bucket(local_api_resource_find("", "v1", "pods"));
    size_t objects = local_api_store_total(api->store) - local_api_store_len(api->store, events);

    if (bucket == events) // bounded by removing the oldest
        return NULL;
    if (bucket == pods && local_api_store_len(api->store, pods) >= api->max_pods)
        return over_quota(r, name, "pods", local_api_store_len(api->store, pods), api->max_pods,
                          "pod-quota");
    if (r->res->max_objects && local_api_store_len(api->store, bucket) >= r->res->max_objects)
        return over_quota(r, name, r->res->plural, local_api_store_len(api->store, bucket),
                          r->res->max_objects, NULL);
    if (objects >= api->max_objects)
        return over_quota(r, name, "objects", objects, api->max_objects, "max-objects");
    return NULL;
}

static json_t *already_exists(const struct local_api_request *r, const char *name)
{
    GS_AUTO_BUF struct gs_buf resource = {0};

    local_api_resource_name(r->res, &resource);
    return kube_status_already_exists(resource.data, name);
}

// obj: a checked object in the served version; stolen.
static json_t *create_object(const struct local_api_request *r, json_t *obj, json_t **ret)
{
    CODEC_AUTO_JSON json_t *stored = NULL;
    json_t *status = local_api_to_stored(r, obj, &stored);

    if (!status)
        status = local_api_meta_for_create(r, stored);
    if (!status && *r->ns)
        status = local_api_check_namespace(r, r->ns);
    if (!status && r->res->custom && local_api_custom_is_terminating(r->res->custom))
        status = kube_status_failure(
            405, "MethodNotAllowed",
            "create not allowed while custom resource definition is terminating", NULL);
    if (status)
        return status;
    use_stored_version(r, stored);
    if (local_api_resource_has(r->res, LOCAL_API_R_STATUS) &&
        !local_api_resource_has(r->res, LOCAL_API_R_AGENT))
        json_object_del(stored, "status");
    if (r->res->set_defaults)
        r->res->set_defaults(stored, NULL);
    status = set_custom_defaults(r, stored);
    if (status)
        return status;
    if (r->res->complete)
        r->res->complete(r, stored, NULL);
    status = local_api_admit(r, stored);
    if (status)
        return status;
    local_api_track_fields(r, NULL, stored);
    status = validate(r, stored, NULL);
    if (status)
        return status;
    const struct local_api_store_version *old = local_api_store_get(
        r->api->store, local_api_resource_bucket(r->res), r->ns, kube_name(stored));
    if (old && !local_api_is_stand_in(r->res, old->tree))
        return already_exists(r, kube_name(stored));
    status = check_quota(r, kube_name(stored));
    if (!status)
        status = local_api_admit_quota(r, stored);
    if (status)
        return status;
    return local_api_store(r, GS_TAKE(stored), ret);
}

json_t *local_api_create_object(const struct local_api_request *r, json_t *obj)
{
    CODEC_AUTO_JSON json_t *stored = NULL;
    json_t *status = create_object(r, obj, &stored);

    if (status)
        return status;
    if (local_api_resource_has(r->res, LOCAL_API_R_INERT))
        local_api_notice_inert(r, stored);
    local_api_bound_events(r);
    if (strcmp(r->res->plural, "namespaces") == 0 && !r->dry_run)
        local_api_make_account(r->api, kube_name(stored));
    local_api_reply_object(r, 201, stored);
    return NULL;
}

json_t *local_api_create(const struct local_api_request *r)
{
    CODEC_AUTO_JSON json_t *obj = NULL;
    json_t *status = local_api_read_body(r, &obj);

    if (!status)
        status = local_api_check_object(r, obj);
    return status ? status : local_api_create_object(r, GS_TAKE(obj));
}

// --- replace ---

static void copy_member(json_t *to, const json_t *from, const char *key)
{
    json_t *value = json_object_get(from, key);

    if (value)
        json_object_set_new(to, key, json_deep_copy(value));
    else
        json_object_del(to, key);
}

// A status write may not change the spec, and of the metadata only labels and annotations of Pods
// and Nodes, where agents write some, and annotations of Deployments: their controller counts the
// revisions there.
static json_t *with_status_only(const struct local_api_request *r, const json_t *old,
                                const json_t *next)
{
    json_t *merged = json_deep_copy(old);
    bool agents = strcmp(r->res->plural, "pods") == 0 || strcmp(r->res->plural, "nodes") == 0;

    const json_t *meta = json_object_get(next, "metadata");

    copy_member(merged, next, "status");
    if (agents && meta)
        copy_member(json_object_get(merged, "metadata"), meta, "labels");
    if ((agents || strcmp(r->res->plural, "deployments") == 0) && meta)
        copy_member(json_object_get(merged, "metadata"), meta, "annotations");
    return merged;
}

// A write of the subresource of ephemeral containers changes nothing else.
static json_t *with_ephemeral_only(const json_t *old, const json_t *next)
{
    json_t *merged = json_deep_copy(old);

    copy_member(json_object_get(merged, "spec"), json_object_get(next, "spec"),
                "ephemeralContainers");
    return merged;
}

static void count_generation(const struct local_api_request *r, const json_t *old, json_t *next)
{
    bool changed = !codec_json_same(json_object_get(old, "spec"), json_object_get(next, "spec"));

    if (!local_api_resource_has(r->res, LOCAL_API_R_GENERATION) || gs_streq(r->sub, "status"))
        return;
    // A Deployment's annotations are copied to its ReplicaSets, so its controller must sync.
    if (strcmp(r->res->plural, "deployments") == 0 &&
        !codec_json_same(codec_json_get(old, "metadata", "annotations", NULL),
                         codec_json_get(next, "metadata", "annotations", NULL)))
        changed = true;
    if (changed)
        codec_json_set(next,
                       json_integer(codec_json_int(old, 0, "metadata", "generation", NULL) + 1),
                       "metadata", "generation", NULL);
}

// Empty lists and maps in metadata say the same as none.
static void drop_empty_metadata(json_t *obj)
{
    static const char *const keys[] = {"labels", "annotations", "finalizers", "ownerReferences"};
    json_t *meta = json_object_get(obj, "metadata");

    for (size_t i = 0; i < GS_ARRAY_LEN(keys); i++) {
        json_t *value = json_object_get(meta, keys[i]);
        if (value && json_object_size(value) == 0 && json_array_size(value) == 0)
            json_object_del(meta, keys[i]);
    }
}

static json_t *remove_now(const struct local_api_request *r, const json_t *obj)
{
    const char *ns = kube_namespace(obj);

    if (r->dry_run)
        return NULL;
    struct gs_error *err = local_api_store_delete(r->api->store, local_api_resource_bucket(r->res),
                                                  ns ? ns : "", kube_name(obj));
    return err ? local_api_error_status(err) : NULL;
}

json_t *local_api_replace(const struct local_api_request *r, const json_t *old, json_t *next,
                          json_t **ret)
{
    CODEC_AUTO_JSON json_t *before = json_incref((json_t *)old); // a store write may drop the tree
    CODEC_AUTO_JSON json_t *obj = next;
    bool status_write = gs_streq(r->sub, "status");

    json_t *status = local_api_meta_for_update(r, before, obj);
    if (status)
        return status;
    use_stored_version(r, obj);
    if (status_write || gs_streq(r->sub, LOCAL_API_EPHEMERAL)) {
        json_t *merged =
            status_write ? with_status_only(r, before, obj) : with_ephemeral_only(before, obj);
        json_decref(obj);
        obj = merged;
    } else if (local_api_resource_has(r->res, LOCAL_API_R_STATUS)) {
        copy_member(obj, before, "status");
    }
    drop_empty_metadata(obj);
    // Defaults carry a namespace's spec over, which is just what finalize changes.
    if (r->res->set_defaults && !gs_streq(r->sub, "finalize"))
        r->res->set_defaults(obj, before);
    status = set_custom_defaults(r, obj);
    if (status)
        return status;
    if (r->res->complete)
        r->res->complete(r, obj, before);
    count_generation(r, before, obj);
    local_api_track_fields(r, before, obj);
    status = validate(r, obj, before);
    if (status)
        return status;
    if (kube_is_deleting(obj) && local_api_can_vanish(r->api, r->res, obj)) {
        status = remove_now(r, before);
        if (!status)
            *ret = GS_TAKE(obj);
        return status;
    }
    if (json_equal(before, obj)) {
        *ret = GS_TAKE(obj);
        return NULL;
    }
    return local_api_store(r, GS_TAKE(obj), ret);
}

json_t *local_api_update(const struct local_api_request *r)
{
    CODEC_AUTO_JSON json_t *body = NULL;
    json_t *next = NULL;
    json_t *status = local_api_read_body(r, &body);

    if (!status)
        status = local_api_check_object(r, body);
    if (!status)
        status = local_api_to_stored(r, GS_TAKE(body), &next);
    if (status)
        return status;
    const struct local_api_store_version *old =
        local_api_store_get(r->api->store, local_api_resource_bucket(r->res), r->ns, r->name);
    if (!old) {
        json_decref(next);
        return local_api_not_found(r);
    }
    CODEC_AUTO_JSON json_t *stored = NULL;
    status = local_api_replace(r, old->tree, next, &stored);
    if (!status)
        local_api_reply_object(r, 200, stored);
    return status;
}

// --- patch ---

enum patch_kind { PATCH_MERGE, PATCH_STRATEGIC, PATCH_JSON, PATCH_APPLY, PATCH_UNKNOWN };

static enum patch_kind patch_kind_of(const struct local_api_request *r)
{
    static const struct {
        const char *type;
        enum patch_kind kind;
    } kinds[] = {
        {"application/merge-patch+json", PATCH_MERGE},
        {"application/strategic-merge-patch+json", PATCH_STRATEGIC},
        {"application/json-patch+json", PATCH_JSON},
        {"application/apply-patch+yaml", PATCH_APPLY},
    };
    struct gs_slice rest = gs_slice_of(http_header(r->x, "Content-Type"));
    struct gs_slice type = gs_slice_trim(gs_slice_cut(&rest, ';'));

    for (size_t i = 0; i < GS_ARRAY_LEN(kinds); i++)
        if (gs_slice_eq_str(type, kinds[i].type))
            return kinds[i].kind;
    return PATCH_UNKNOWN;
}

bool local_api_is_apply(const struct local_api_request *r)
{
    return patch_kind_of(r) == PATCH_APPLY;
}

static json_t *unknown_patch_type(const struct kube_type *type)
{
    return kube_status_failure(
        415, "UnsupportedMediaType",
        type ? "the body of the request was in an unknown format - accepted media types include: "
               "application/json-patch+json, application/merge-patch+json, "
               "application/strategic-merge-patch+json, application/apply-patch+yaml"
             : "the body of the request was in an unknown format - accepted media types include: "
               "application/json-patch+json, application/merge-patch+json, "
               "application/apply-patch+yaml",
        NULL);
}

static json_t *patch_failed(enum patch_kind kind, struct gs_error *err)
{
    GS_AUTO_ERROR struct gs_error *owned = err;
    // A JSON patch that does not fit the object is the request's content, not its syntax.
    bool content = kind == PATCH_JSON;

    return kube_status_failure(content ? 422 : 400, content ? "Invalid" : "BadRequest",
                               gs_error_message(owned), NULL);
}

json_t *local_api_apply_patch(const struct local_api_request *r, const struct kube_type *type,
                              const json_t *target, json_t **ret)
{
    enum patch_kind kind = patch_kind_of(r);
    CODEC_AUTO_JSON json_t *patch = NULL;
    CODEC_AUTO_JSON json_t *patched = NULL;
    struct gs_error *err;

    if (kind == PATCH_UNKNOWN || (kind == PATCH_STRATEGIC && !type))
        return unknown_patch_type(type);
    json_t *status = local_api_read_body(r, &patch);
    if (status)
        return status;
    if (kind == PATCH_JSON)
        err = kube_patch_json(target, patch, &patched);
    else if (kind == PATCH_MERGE || !type)
        err = kube_patch_merge(target, patch, &patched);
    else
        err = kube_patch_strategic(type, target, patch, &patched);
    if (err)
        return patch_failed(kind, err);
    // The result may share parts with the stored object, and is about to be changed in place.
    *ret = json_deep_copy(patched);
    return *ret ? NULL
                : kube_status_failure(400, "BadRequest", "the patched object is too deep", NULL);
}

json_t *local_api_patch(const struct local_api_request *r)
{
    const struct local_api_store_version *old =
        local_api_store_get(r->api->store, local_api_resource_bucket(r->res), r->ns, r->name);
    CODEC_AUTO_JSON json_t *patched = NULL;
    json_t *next = NULL;

    if (local_api_is_apply(r))
        return local_api_apply(r);
    const char *force = http_query(r->x, "force");
    if (force && *force)
        return kube_status_failure(422, "Invalid",
                                   "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: "
                                   "may not be specified for non-apply patch",
                                   NULL);
    if (!old)
        return local_api_not_found(r);
    CODEC_AUTO_JSON json_t *before = json_incref(old->tree);
    CODEC_AUTO_JSON json_t *served = local_api_to_served(r, before);
    const struct kube_type *type = kube_schema_find(kube_api_version(served), r->res->kind);
    json_t *status = local_api_apply_patch(r, type && type->custom ? NULL : type, served, &patched);
    if (!status)
        status = local_api_check_object(r, patched);
    if (!status)
        status = local_api_to_stored(r, GS_TAKE(patched), &next);
    if (status)
        return status;
    CODEC_AUTO_JSON json_t *stored = NULL;
    status = local_api_replace(r, before, next, &stored);
    if (!status)
        local_api_reply_object(r, 200, stored);
    return status;
}
