// SPDX-License-Identifier: Apache-2.0
// The subresource eviction of pods: a deletion that PodDisruptionBudgets can refuse. Rules and
// texts are those of kube-apiserver.
#include "base/clock.h"
#include "base/mem.h"
#include "kube/names.h"
#include "kube/object.h"
#include "local/api/api_private.h"
#include "local/disruption.h"
#include "local/pod.h"

#define MAX_DISRUPTED_PODS 2000
#define RETRY_AFTER_S      10

struct preconditions {
    const char *uid, *rv; // NULL: none
};

static const struct local_api_resource *budgets(void)
{
    return local_api_resource_find("policy", "v1", "poddisruptionbudgets");
}

static bool budget_matches(const json_t *budget, const json_t *pod)
{
    GS_CLEANUP(kube_selector_finish) struct kube_selector selector = {0};
    GS_AUTO_ERROR struct gs_error *err = kube_selector_of(budget, &selector);

    return !err &&
           kube_selector_matches(&selector, codec_json_get(pod, "metadata", "labels", NULL));
}

// The number of budgets that select the pod; *ret: the first, a new reference.
static size_t find_budgets(const struct local_api_request *r, const json_t *pod, json_t **ret)
{
    const struct local_api_store *store = r->api->store;
    size_t bucket = local_api_resource_bucket(budgets());
    const char *ns = NULL;
    const struct local_api_store_version *v;
    size_t n = 0;

    for (size_t i = local_api_store_seek(store, bucket, r->ns, "");
         (v = local_api_store_at(store, bucket, i, &ns, NULL)) && strcmp(ns, r->ns) == 0; i++)
        if (budget_matches(v->tree, pod) && n++ == 0)
            *ret = json_incref(v->tree);
    return n;
}

// --- refusals ---

static json_t *too_many_requests(int64_t retry_after_s, const char *cause)
{
    json_t *item = json_object();
    json_t *causes = json_array();
    json_t *details = json_object();

    codec_json_set_str(item, "reason", "DisruptionBudget");
    codec_json_set_str(item, "message", cause);
    json_array_append_new(causes, item);
    json_object_set_new(details, "causes", causes);
    if (retry_after_s > 0)
        codec_json_set_int(details, "retryAfterSeconds", retry_after_s);
    return kube_status_failure(429, "TooManyRequests",
                               "Cannot evict pod as it would violate the pod's disruption budget.",
                               details);
}

static json_t *still_processed(const struct local_api_request *r, const char *budget)
{
    GS_AUTO_FREE char *cause =
        gs_format("The disruption budget %s is still being processed by the server.", budget);

    http_add_header(r->x, "Retry-After", "10");
    return too_many_requests(RETRY_AFTER_S, cause);
}

static json_t *forbidden(const char *budget, const char *why)
{
    GS_AUTO_FREE char *text =
        gs_format("poddisruptionbudget.policy \"%s\" is forbidden: %s", budget, why);
    json_t *details = json_object();

    codec_json_set_str(details, "name", budget);
    codec_json_set_str(details, "group", "policy");
    codec_json_set_str(details, "kind", "poddisruptionbudget");
    return kube_status_failure(403, "Forbidden", text, details);
}

static json_t *not_allowed(const json_t *budget)
{
    const json_t *condition = kube_condition(budget, "DisruptionAllowed");
    const char *reason = codec_json_str(condition, "reason", NULL);
    const char *message = codec_json_str(condition, "message", NULL);
    bool refused =
        condition && message && *message && !kube_condition_true(budget, "DisruptionAllowed");
    int64_t healthy = codec_json_int(budget, 0, "status", "currentHealthy", NULL);
    int64_t desired = codec_json_int(budget, 0, "status", "desiredHealthy", NULL);
    const char *name = kube_name(budget);
    GS_AUTO_FREE char *cause = NULL;

    if (refused && gs_streq(reason, "SyncFailed"))
        cause = gs_format("The disruption budget %s does not allow evicting pods currently because "
                          "it failed sync: %s",
                          name, message);
    else if (healthy <= desired)
        cause = gs_format("The disruption budget %s needs %lld healthy pods and has %lld currently",
                          name, (long long)desired, (long long)healthy);
    else if (refused)
        cause =
            gs_format("The disruption budget %s does not allow evicting pods currently (%s): %s",
                      name, reason ? reason : "", message);
    else
        cause = gs_format("The disruption budget %s does not allow evicting pods currently", name);
    return too_many_requests(0, cause);
}

// --- budgets ---

// One allowed disruption less, and the pod among the disrupted ones.
static json_t *use_budget(const struct local_api_request *r, const json_t *budget)
{
    const char *name = kube_name(budget);
    int64_t allowed = codec_json_int(budget, 0, "status", "disruptionsAllowed", NULL);
    const json_t *disrupted = codec_json_get(budget, "status", "disruptedPods", NULL);

    if (codec_json_int(budget, 0, "status", "observedGeneration", NULL) <
        codec_json_int(budget, 0, "metadata", "generation", NULL))
        return still_processed(r, name);
    if (allowed < 0)
        return forbidden(name, "pdb disruptions allowed is negative");
    if (json_object_size(disrupted) > MAX_DISRUPTED_PODS)
        return forbidden(name, "DisruptedPods map too big - too many evictions not confirmed by "
                               "PDB controller");
    if (allowed == 0)
        return not_allowed(budget);
    if (r->dry_run)
        return NULL;
    char now[GS_RFC3339_SIZE];
    json_t *next = json_deep_copy(budget);
    json_t *status = json_object_get(next, "status");
    codec_json_set_int(status, "disruptionsAllowed", allowed - 1);
    if (allowed == 1)
        local_disruption_set_allowed(status);
    codec_json_set(next, json_string(gs_format_rfc3339(gs_unix_ms(), now)), "status",
                   "disruptedPods", r->name, NULL);
    struct gs_error *err =
        local_api_store_put(r->api->store, local_api_resource_bucket(budgets()), next, NULL);
    return err ? local_api_error_status(err) : NULL;
}

// An unready pod whose deletion does not disrupt the application more than it already is.
static bool unready_may_go(const json_t *budget, const json_t *pod)
{
    int64_t desired = codec_json_int(budget, 0, "status", "desiredHealthy", NULL);

    if (local_pod_ready(pod))
        return false;
    return gs_streq(codec_json_str(budget, "spec", "unhealthyPodEvictionPolicy", NULL),
                    "AlwaysAllow") ||
           (desired > 0 && codec_json_int(budget, 0, "status", "currentHealthy", NULL) >= desired);
}

static json_t *check_budgets(const struct local_api_request *r, const json_t *pod)
{
    CODEC_AUTO_JSON json_t *budget = NULL;
    const char *phase = local_pod_phase(pod);

    if (kube_pod_has_ended(pod) || strcmp(phase, "Pending") == 0 || kube_is_deleting(pod))
        return NULL;
    size_t n = find_budgets(r, pod, &budget);
    if (n > 1) {
        json_t *status = kube_status_failure(
            500, "",
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does "
            "not support.",
            NULL);
        json_object_del(status, "reason");
        return status;
    }
    return n == 0 || unready_may_go(budget, pod) ? NULL : use_budget(r, budget);
}

// --- the deletion ---

static json_t *check_preconditions(const json_t *pod, const struct preconditions *p)
{
    GS_AUTO_FREE char *why = NULL;

    if (p->uid && *p->uid && !gs_streq(p->uid, kube_uid(pod)))
        why = gs_format("the UID in the precondition (%s) does not match the UID in record (%s). "
                        "The object might have been deleted and then recreated",
                        p->uid, kube_uid(pod));
    else if (p->rv && *p->rv && !gs_streq(p->rv, kube_resource_version(pod)))
        why = gs_format("the ResourceVersion in the precondition (%s) does not match the "
                        "ResourceVersion in record (%s). The object might have been modified",
                        p->rv, kube_resource_version(pod));
    return why ? kube_status_conflict("Pod", kube_name(pod), why) : NULL;
}

static json_t *add_condition(const struct local_api_request *r, const json_t *pod, json_t **ret)
{
    json_t *next = json_deep_copy(pod);
    json_t *conditions = codec_json_get(next, "status", "conditions", NULL);

    if (!json_is_array(conditions)) {
        conditions = json_array();
        codec_json_set(next, conditions, "status", "conditions", NULL);
    }
    kube_set_condition(conditions, "DisruptionTarget", "True", "EvictionByEvictionAPI",
                       "Eviction API: evicting", gs_unix_ms());
    return local_api_store(r, next, ret);
}

// options without the resourceVersion that was checked: the condition has changed it.
static json_t *without_version(const json_t *options)
{
    json_t *copy = json_deep_copy(options);

    json_object_del(codec_json_get(copy, "preconditions", NULL), "resourceVersion");
    return copy;
}

static json_t *delete_pod(const struct local_api_request *r, const json_t *pod,
                          const json_t *options)
{
    CODEC_AUTO_JSON json_t *marked = NULL;
    CODEC_AUTO_JSON json_t *deleted = NULL;
    CODEC_AUTO_JSON json_t *rest = without_version(options);
    bool gone;

    json_t *status = r->dry_run ? NULL : add_condition(r, pod, &marked);
    return status ? status
                  : local_api_delete_object(r, marked ? marked : pod, rest, &deleted, &gone);
}

static json_t *read_eviction(const struct local_api_request *r, json_t **ret)
{
    json_t *status = local_api_read_body(r, ret);

    if (!status)
        status = local_api_check_kind(*ret, "Eviction");
    if (status)
        return status;
    const char *ns = kube_namespace(*ret);
    if (ns && *ns && strcmp(ns, r->ns) != 0) {
        GS_AUTO_FREE char *text = gs_format("the namespace of the provided object does not match "
                                            "the namespace sent on the request");
        return kube_status_failure(400, "BadRequest", text, NULL);
    }
    if (!gs_streq(kube_name(*ret), r->name))
        return kube_status_failure(400, "BadRequest",
                                   "name in URL does not match name in Eviction object", NULL);
    return NULL;
}

json_t *local_api_evict(const struct local_api_request *request)
{
    struct local_api_request r = *request;
    CODEC_AUTO_JSON json_t *eviction = NULL;

    json_t *status = read_eviction(&r, &eviction);
    if (status)
        return status;
    const struct local_api_store_version *v =
        local_api_store_get(r.api->store, local_api_resource_bucket(r.res), r.ns, r.name);
    if (!v)
        return local_api_not_found(&r);
    CODEC_AUTO_JSON json_t *pod = json_incref(v->tree); // store writes drop trees
    const json_t *options = json_object_get(eviction, "deleteOptions");
    const struct preconditions p = {
        codec_json_str(options, "preconditions", "uid", NULL),
        codec_json_str(options, "preconditions", "resourceVersion", NULL)};
    if (json_array_size(json_object_get(options, "dryRun")) > 0)
        r.dry_run = true;
    status = check_preconditions(pod, &p);
    if (!status)
        status = check_budgets(&r, pod);
    return status ? status : delete_pod(&r, pod, options);
}
