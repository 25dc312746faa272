// SPDX-License-Identifier: Apache-2.0
// Deletion: grace periods of pods, finalizers, namespaces that empty first, orphans.
#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "kube/object.h"
#include "local/api/api_private.h"
#include "local/api/crd.h"
#include "local/pod.h"

#define DEFAULT_GRACE_S 30

static bool is_core(const struct local_api_resource *res, const char *plural)
{
    return *res->group == '\0' && strcmp(res->plural, plural) == 0;
}

// --- what holds an object back ---

static bool namespace_is_empty(const struct local_api *api, const char *ns)
{
    const struct local_api_resource *res;

    for (size_t i = 0; (res = local_api_nth_resource(api, i)); i++) {
        const char *found_ns = NULL;
        if (!res->namespaced || res->view_of)
            continue;
        size_t bucket = local_api_resource_bucket(res);
        size_t first = local_api_store_seek(api->store, bucket, ns, "");
        if (local_api_store_at(api->store, bucket, first, &found_ns, NULL) &&
            strcmp(found_ns, ns) == 0)
            return false;
    }
    return true;
}

bool local_api_can_vanish(const struct local_api *api, const struct local_api_resource *res,
                          const json_t *obj)
{
    if (json_array_size(codec_json_get(obj, "metadata", "finalizers", NULL)) > 0)
        return false;
    if (is_core(res, "namespaces"))
        return json_array_size(codec_json_get(obj, "spec", "finalizers", NULL)) == 0;
    return codec_json_int(obj, 0, "metadata", "deletionGracePeriodSeconds", NULL) == 0;
}

// --- options ---

struct delete_options {
    int64_t grace_s; // -1: the object's own
    bool orphan, foreground;
    const char *uid, *rv; // preconditions, NULL: none
};

static json_t *read_grace(const struct local_api_request *r, const json_t *body, int64_t *ret)
{
    const char *query = http_query(r->x, "gracePeriodSeconds");
    const json_t *member = json_object_get(body, "gracePeriodSeconds");

    if (json_is_integer(member)) {
        *ret = json_integer_value(member);
    } else if (query && *query) {
        GS_AUTO_ERROR struct gs_error *err =
            gs_parse_i64(gs_slice_of(query), INT32_MIN, INT32_MAX, ret);
        if (err)
            return kube_status_failure(400, "BadRequest", "gracePeriodSeconds must be a number",
                                       NULL);
    }
    // As Kubernetes: a negative grace period is the shortest one.
    if (*ret < -1)
        *ret = 1;
    return NULL;
}

// As in the first releases, unless the request has a policy. kubectl sends one.
static bool orphans_by_default(const struct local_api_resource *res)
{
    return is_core(res, "replicationcontrollers") ||
           (strcmp(res->group, "batch") == 0 && strcmp(res->plural, "jobs") == 0);
}

static json_t *read_delete_options(const struct local_api_request *r, const json_t *body,
                                   struct delete_options *ret)
{
    const char *policy = codec_json_str(body, "propagationPolicy", NULL);

    *ret = (struct delete_options){.grace_s = -1};
    if (!policy)
        policy = http_query(r->x, "propagationPolicy");
    if (policy && strcmp(policy, "Orphan") != 0 && strcmp(policy, "Background") != 0 &&
        strcmp(policy, "Foreground") != 0) {
        GS_AUTO_FREE char *text =
            gs_format("DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported "
                      "value: \"%s\": supported values: \"Foreground\", \"Background\", \"Orphan\"",
                      policy);
        return kube_status_failure(422, "Invalid", text, NULL);
    }
    ret->orphan =
        gs_streq(policy, "Orphan") || codec_json_bool(body, false, "orphanDependents", NULL);
    ret->foreground = gs_streq(policy, "Foreground");
    if (!policy && !json_object_get(body, "orphanDependents") && orphans_by_default(r->res)) {
        ret->orphan = true;
        if (gs_streq(r->res->plural, "jobs"))
            local_api_warning(r, "%s",
                              "child pods are preserved by default when jobs are deleted; set "
                              "propagationPolicy=Background to remove them or set "
                              "propagationPolicy=Orphan to suppress this warning");
    }
    ret->uid = codec_json_str(body, "preconditions", "uid", NULL);
    ret->rv = codec_json_str(body, "preconditions", "resourceVersion", NULL);
    return read_grace(r, body, &ret->grace_s);
}

// The body is optional, and may name dryRun too.
static json_t *read_delete_body(struct local_api_request *r, json_t **ret)
{
    if (http_body(r->x).len == 0)
        return NULL;
    json_t *status = local_api_read_body(r, ret);
    if (!status && !json_is_object(*ret))
        status = kube_status_failure(400, "BadRequest", "the body must be DeleteOptions", NULL);
    if (status)
        return status;
    const char *kind = kube_kind(*ret);
    if (kind && *kind && strcmp(kind, "DeleteOptions") != 0)
        return kube_status_failure(400, "BadRequest", "the body must be of kind DeleteOptions",
                                   NULL);
    if (json_array_size(json_object_get(*ret, "dryRun")) > 0)
        r->dry_run = true;
    return NULL;
}

static json_t *check_delete_preconditions(const struct local_api_request *r, const json_t *obj,
                                          const struct delete_options *o)
{
    GS_AUTO_BUF struct gs_buf resource = {0};
    GS_AUTO_FREE char *why = NULL;

    if (o->uid && !gs_streq(o->uid, kube_uid(obj)))
        why = gs_format("Precondition failed: UID in precondition: %s, UID in object meta: %s",
                        o->uid, kube_uid(obj));
    else if (o->rv && !gs_streq(o->rv, kube_resource_version(obj)))
        why = gs_format("Precondition failed: ResourceVersion in precondition: %s, ResourceVersion "
                        "in object meta: %s",
                        o->rv, kube_resource_version(obj));
    if (!why)
        return NULL;
    local_api_resource_name(r->res, &resource);
    return kube_status_conflict(resource.data, kube_name(obj), why);
}

// --- orphans ---

static json_t *without_owner(const json_t *obj, const char *uid)
{
    json_t *owners = codec_json_get(obj, "metadata", "ownerReferences", NULL);
    json_t *copy = NULL;
    size_t i;
    json_t *owner;

    json_array_foreach (owners, i, owner)
        if (gs_streq(codec_json_str(owner, "uid", NULL), uid)) {
            copy = json_deep_copy(obj);
            json_array_remove(codec_json_get(copy, "metadata", "ownerReferences", NULL), i);
            if (json_array_size(owners) == 1)
                json_object_del(json_object_get(copy, "metadata"), "ownerReferences");
            break;
        }
    return copy;
}

// Dependents of a deleted object live on without it.
static json_t *release_dependents(const struct local_api_request *r, const char *uid)
{
    struct local_api_store *store = r->api->store;
    const struct local_api_resource *res;

    for (size_t n = 0; uid && (res = local_api_nth_resource(r->api, n)); n++) {
        size_t b = local_api_resource_bucket(res);
        for (size_t i = 0; i < local_api_store_len(store, b); i++) {
            json_t *free_one =
                without_owner(local_api_store_at(store, b, i, NULL, NULL)->tree, uid);
            struct gs_error *err = free_one ? local_api_store_put(store, b, free_one, NULL) : NULL;
            if (err)
                return local_api_error_status(err);
        }
    }
    return NULL;
}

// --- deletion ---

// Seconds that the object is kept for its agent: only pods that run somewhere have an agent.
static int64_t grace_of(const struct local_api_resource *res, const json_t *obj, int64_t asked)
{
    if (!is_core(res, "pods") || !kube_pod_node(obj) || kube_pod_has_ended(obj))
        return 0;
    if (asked < 0)
        asked = codec_json_int(obj, DEFAULT_GRACE_S, "spec", "terminationGracePeriodSeconds", NULL);
    return asked < LOCAL_MAX_GRACE_S ? asked : LOCAL_MAX_GRACE_S;
}

// A copy marked as being deleted, or NULL when an earlier deletion already says as much.
static json_t *marked(const json_t *obj, int64_t grace_s)
{
    char buf[GS_RFC3339_SIZE];

    if (kube_is_deleting(obj) &&
        codec_json_int(obj, 0, "metadata", "deletionGracePeriodSeconds", NULL) <= grace_s)
        return NULL;
    json_t *copy = json_deep_copy(obj);
    json_t *meta = json_object_get(copy, "metadata");
    codec_json_set_str(meta, "deletionTimestamp",
                       gs_format_rfc3339(gs_unix_ms() + grace_s * 1000, buf));
    codec_json_set_int(meta, "deletionGracePeriodSeconds", grace_s);
    if (json_object_get(meta, "generation"))
        codec_json_set_int(meta, "generation", codec_json_int(meta, 0, "generation", NULL) + 1);
    return copy;
}

// finalizer: "foregroundDeletion", and the garbage collector deletes the dependents; or "orphan",
// and it releases them. Then it removes the finalizer.
static json_t *held_for_dependents(const json_t *obj, const char *finalizer)
{
    json_t *copy = json_deep_copy(obj);
    json_t *finalizers = codec_json_get(copy, "metadata", "finalizers", NULL);
    if (!json_is_array(finalizers)) {
        finalizers = json_array();
        codec_json_set(copy, finalizers, "metadata", "finalizers", NULL);
    }
    if (!codec_json_has_string(finalizers, finalizer))
        json_array_append_new(finalizers, json_string(finalizer));
    return copy;
}

static json_t *delete_now(const struct local_api_request *r, const json_t *obj, json_t **ret_obj,
                          bool *ret_gone)
{
    const char *ns = kube_namespace(obj);

    struct gs_error *err =
        r->dry_run ? NULL
                   : local_api_store_delete(r->api->store, local_api_resource_bucket(r->res),
                                            ns ? ns : "", kube_name(obj));
    if (err)
        return local_api_error_status(err);
    *ret_gone = true;
    // A pod has the time of its deletion also without a grace period.
    json_t *shown = is_core(r->res, "pods") ? marked(obj, 0) : NULL;
    *ret_obj = shown ? shown : json_incref((json_t *)obj);
    if (ns && !r->dry_run && local_api_has_account_objects(r->res))
        local_api_make_account(r->api, ns);
    if (!r->dry_run && local_api_is_own_service(r->res, obj))
        local_api_make_own_service(r->api);
    return NULL;
}

static json_t *delete_later(const struct local_api_request *r, const json_t *obj, json_t *copy,
                            json_t **ret_obj, bool *ret_gone)
{
    *ret_gone = false;
    if (!copy) {
        *ret_obj = json_incref((json_t *)obj);
        return NULL;
    }
    return local_api_store(r, copy, ret_obj);
}

static json_t *protected_namespace(const char *name)
{
    GS_AUTO_FREE char *text =
        gs_format("namespaces \"%s\" is forbidden: this namespace may not be deleted", name);
    return kube_status_failure(403, "Forbidden", text, NULL);
}

// A namespace stays, Terminating, until its finalizers are gone or it is deleted again while empty.
static json_t *delete_namespace(const struct local_api_request *r, const json_t *obj,
                                json_t **ret_obj, bool *ret_gone)
{
    const char *name = kube_name(obj);

    if (strcmp(name, "default") == 0 || strcmp(name, "kube-system") == 0 ||
        strcmp(name, "kube-public") == 0)
        return protected_namespace(name);
    if (kube_is_deleting(obj) && namespace_is_empty(r->api, name) &&
        json_array_size(codec_json_get(obj, "metadata", "finalizers", NULL)) == 0)
        return delete_now(r, obj, ret_obj, ret_gone);
    json_t *copy = kube_is_deleting(obj) ? NULL : marked(obj, 0);
    if (copy)
        codec_json_set(copy, json_string("Terminating"), "status", "phase", NULL);
    return delete_later(r, obj, copy, ret_obj, ret_gone);
}

json_t *local_api_delete_object(const struct local_api_request *r, const json_t *obj,
                                const json_t *options, json_t **ret_obj, bool *ret_gone)
{
    CODEC_AUTO_JSON json_t *keep = json_incref((json_t *)obj); // store writes drop trees
    struct delete_options o;
    json_t *status = read_delete_options(r, options, &o);

    if (!status)
        status = check_delete_preconditions(r, keep, &o);
    if (!status && o.orphan && !r->dry_run)
        status = release_dependents(r, kube_uid(keep));
    if (status)
        return status;
    if (is_core(r->res, "namespaces"))
        return delete_namespace(r, keep, ret_obj, ret_gone);
    if (strcmp(r->res->plural, "customresourcedefinitions") == 0)
        return local_api_delete_crd(r, keep, ret_obj, ret_gone);
    if ((o.foreground || o.orphan) && !kube_is_deleting(keep) &&
        local_api_resource_is_collected(r->res)) {
        json_t *held_one = held_for_dependents(keep, o.orphan ? "orphan" : "foregroundDeletion");
        json_decref(keep);
        keep = held_one;
    }
    int64_t grace_s = grace_of(r->res, keep, o.grace_s);
    bool held = json_array_size(codec_json_get(keep, "metadata", "finalizers", NULL)) > 0;
    if (grace_s == 0 && !held)
        return delete_now(r, keep, ret_obj, ret_gone);
    return delete_later(r, keep, marked(keep, grace_s), ret_obj, ret_gone);
}

static void reply_deleted(const struct local_api_request *r, const json_t *obj)
{
    CODEC_AUTO_JSON json_t *status = json_object();

    codec_json_set_str(status, "kind", "Status");
    codec_json_set_str(status, "apiVersion", "v1");
    json_object_set_new(status, "metadata", json_object());
    codec_json_set_str(status, "status", "Success");
    codec_json_set(status, json_string(kube_name(obj)), "details", "name", NULL);
    if (*r->res->group)
        codec_json_set(status, json_string(r->res->group), "details", "group", NULL);
    codec_json_set(status, json_string(r->res->plural), "details", "kind", NULL);
    if (kube_uid(obj))
        codec_json_set(status, json_string(kube_uid(obj)), "details", "uid", NULL);
    kube_reply_json(r->x, 200, status);
}

// Kinds whose deletion is answered with the object itself, as kube-apiserver does.
static bool returns_object(const struct local_api_resource *res)
{
    static const char *const core[] = {
        "namespaces",   "persistentvolumeclaims", "persistentvolumes", "pods",
        "podtemplates", "resourcequotas",         "serviceaccounts",   "services"};
    for (size_t i = 0; i < GS_ARRAY_LEN(core); i++)
        if (is_core(res, core[i]))
            return true;
    return !res->custom &&
           (gs_streq(res->group, "storage.k8s.io") || gs_streq(res->group, "resource.k8s.io"));
}

json_t *local_api_delete(const struct local_api_request *request)
{
    struct local_api_request r = *request;
    CODEC_AUTO_JSON json_t *options = NULL;
    CODEC_AUTO_JSON json_t *obj = NULL;
    bool gone = false;

    const struct local_api_store_version *v =
        local_api_store_get(r.api->store, local_api_resource_bucket(r.res), r.ns, r.name);
    if (!v)
        return local_api_not_found(&r);
    json_t *status = read_delete_body(&r, &options);
    if (!status)
        status = local_api_delete_object(&r, v->tree, options, &obj, &gone);
    if (status)
        return status;
    if (gone && !returns_object(r.res))
        reply_deleted(&r, obj);
    else
        // As kube-apiserver, which has 202 for the older form of a policy only.
        local_api_reply_object(
            &r, !gone && json_is_false(json_object_get(options, "orphanDependents")) ? 202 : 200,
            obj);
    return NULL;
}

// --- collections ---

static json_t *collect(const struct local_api_request *r, json_t **ret)
{
    struct local_api_store *store = r->api->store;
    size_t bucket = local_api_resource_bucket(r->res);
    struct local_api_filter filter;
    const char *ns = NULL;
    const struct local_api_store_version *v;

    json_t *status = local_api_filter_init(r, &filter);
    if (status)
        return status;
    json_t *found = json_array();
    for (size_t i = local_api_store_seek(store, bucket, r->ns, "");
         (v = local_api_store_at(store, bucket, i, &ns, NULL)); i++) {
        if (*r->ns && strcmp(ns, r->ns) != 0)
            break;
        if (local_api_filter_matches(&filter, r, v->tree))
            json_array_append(found, v->tree);
    }
    local_api_filter_finish(&filter);
    *ret = found;
    return NULL;
}

json_t *local_api_delete_collection(const struct local_api_request *request)
{
    struct local_api_request r = *request;
    CODEC_AUTO_JSON json_t *options = NULL;
    CODEC_AUTO_JSON json_t *found = NULL;
    size_t i;
    json_t *obj;

    if (is_core(r.res, "namespaces"))
        return local_api_method_not_allowed();
    json_t *status = read_delete_body(&r, &options);
    if (!status)
        status = collect(&r, &found);
    if (status)
        return status;
    json_array_foreach (found, i, obj) {
        CODEC_AUTO_JSON json_t *deleted = NULL;
        bool gone;
        status = local_api_delete_object(&r, obj, options, &deleted, &gone);
        if (status)
            return status;
    }
    CODEC_AUTO_JSON json_t *reply = json_object();
    codec_json_set_str(reply, "kind", "Status");
    codec_json_set_str(reply, "apiVersion", "v1");
    json_object_set_new(reply, "metadata", json_object());
    codec_json_set_str(reply, "status", "Success");
    kube_reply_json(r.x, 200, reply);
    return NULL;
}
