// SPDX-License-Identifier: Apache-2.0
// Keeps the status of PodDisruptionBudgets: how many of their pods are healthy, and how many
// evictions are allowed now. Rules and texts are those of Kubernetes' disruption controller.
#include "local/disruption.h"
#include "base/clock.h"
#include "base/mem.h"
#include "kube/object.h"
#include "local/controllers/controllers_private.h"
#include "local/pod.h"

struct controllers_disruption {
    struct local_cluster *cluster;
    struct kube_recorder *recorder;
    struct local_workqueue *queue; // of budgets
};

// What a budget requires of its pods.
struct expectation {
    int64_t expected; // pods; of the scales of their controllers unless minAvailable is a number
    int64_t desired_healthy;
    bool unmanaged; // a pod without controller is not in `expected`
};

// --- the scale of the pods' controllers ---

// The object of a controller reference; NULL: absent, or another object with that name.
static const json_t *owner_in(const struct kube_cache *cache, const char *ns, const json_t *ref)
{
    const char *name = codec_json_str(ref, "name", NULL);
    const json_t *owner = name ? kube_cache_get(cache, ns, name) : NULL;

    return owner && gs_streq(kube_uid(owner), codec_json_str(ref, "uid", NULL)) ? owner : NULL;
}

static bool is_ref_to(const json_t *ref, const char *group, const char *kind)
{
    struct gs_slice version = gs_slice_of(codec_json_str(ref, "apiVersion", NULL));
    struct gs_slice of = {"", 0};

    if (version.len && memchr(version.data, '/', version.len))
        of = gs_slice_cut(&version, '/');
    return gs_slice_eq_str(of, group) && gs_streq(codec_json_str(ref, "kind", NULL), kind);
}

// The object whose scale counts: a Deployment instead of its ReplicaSet.
static const json_t *scaled_owner(const struct local_cluster *c, const char *ns, const json_t *ref)
{
    const json_t *owner = NULL;

    if (is_ref_to(ref, "apps", "ReplicaSet")) {
        owner = owner_in(c->replicasets, ns, ref);
        const json_t *above = owner ? kube_controller_ref(owner) : NULL;
        if (is_ref_to(above, "apps", "Deployment"))
            owner = owner_in(c->deployments, ns, above);
    } else if (is_ref_to(ref, "apps", "StatefulSet")) {
        owner = owner_in(c->statefulsets, ns, ref);
    } else if (is_ref_to(ref, "", "ReplicationController")) {
        owner = owner_in(c->replicationcontrollers, ns, ref);
    }
    return owner;
}

static struct gs_error *no_scale(const json_t *pod, const json_t *ref)
{
    if (is_ref_to(ref, "apps", "DaemonSet"))
        return gs_error_new(GS_EINVAL, "daemonsets.apps does not implement the scale subresource");
    if (is_ref_to(ref, "batch", "Job"))
        return gs_error_new(GS_EINVAL, "jobs.batch does not implement the scale subresource");
    return gs_error_new(GS_ENOTFOUND, "found no controllers for pod \"%s\"", kube_name(pod));
}

static bool counted(const struct controllers_pods *owners, const json_t *owner)
{
    for (size_t i = 0; i < owners->len; i++)
        if (owners->items[i] == owner)
            return true;
    return false;
}

// The sum of the scales of all controllers of the pods.
static struct gs_error *expected_scale(const struct local_cluster *c,
                                       const struct controllers_pods *pods, struct expectation *ret)
{
    GS_CLEANUP(controllers_pods_finish) struct controllers_pods owners = {0};

    for (size_t i = 0; i < pods->len; i++) {
        const json_t *pod = pods->items[i];
        const json_t *ref = kube_controller_ref(pod);
        if (!ref) {
            ret->unmanaged = true;
            continue;
        }
        const json_t *owner = scaled_owner(c, kube_namespace(pod), ref);
        if (!owner)
            return no_scale(pod, ref);
        if (counted(&owners, owner))
            continue;
        controllers_pods_add(&owners, owner);
        ret->expected += codec_json_int(owner, 1, "spec", "replicas", NULL);
    }
    return NULL;
}

static struct gs_error *expect(const struct local_cluster *c, const json_t *budget,
                               const struct controllers_pods *pods, struct expectation *ret)
{
    const json_t *min = codec_json_get(budget, "spec", "minAvailable", NULL);
    const json_t *max = codec_json_get(budget, "spec", "maxUnavailable", NULL);
    struct gs_error *err = NULL;

    *ret = (struct expectation){0};
    if (max) {
        err = expected_scale(c, pods, ret);
        ret->desired_healthy = ret->expected - local_scaled(max, ret->expected, true, 0);
        if (ret->desired_healthy < 0)
            ret->desired_healthy = 0;
    } else if (json_is_integer(min)) {
        ret->expected = (int64_t)pods->len;
        ret->desired_healthy = json_integer_value(min);
    } else if (min) {
        err = expected_scale(c, pods, ret);
        ret->desired_healthy = local_scaled(min, ret->expected, true, 0);
    }
    return err;
}

// --- pods ---

static bool selects(const json_t *budget, const json_t *pod)
{
    GS_CLEANUP(kube_selector_finish) struct kube_selector selector = {0};
    GS_AUTO_ERROR struct gs_error *err = kube_selector_of(budget, &selector);

    return !err && pod &&
           kube_selector_matches(&selector, codec_json_get(pod, "metadata", "labels", NULL));
}

static struct gs_error *find_pods(const struct local_cluster *c, const json_t *budget,
                                  struct controllers_pods *ret)
{
    GS_CLEANUP(kube_selector_finish) struct kube_selector selector = {0};
    struct gs_error *err = kube_selector_of(budget, &selector);
    size_t pos = 0;
    const json_t *pod;

    while (!err && (pod = kube_cache_next(c->pods, &pos)))
        if (gs_streq(kube_namespace(pod), kube_namespace(budget)) &&
            kube_selector_matches(&selector, codec_json_get(pod, "metadata", "labels", NULL)))
            controllers_pods_add(ret, pod);
    return err;
}

// The time until which an evicted pod counts as disrupted; 0: it is not among the disrupted pods.
static int64_t disrupted_until(const json_t *budget, const json_t *pod)
{
    const json_t *since = codec_json_get(budget, "status", "disruptedPods", kube_name(pod), NULL);

    return since ? kube_time_ms(since, 0) + LOCAL_DISRUPTION_TIMEOUT_MS : 0;
}

// The entries of status.disruptedPods whose deletion is not visible yet. New reference.
static json_t *disrupted_pods(struct controllers_disruption *d, struct local_reconcile *w,
                              const json_t *budget, const struct controllers_pods *pods,
                              int64_t now_ms)
{
    json_t *out = json_object();

    for (size_t i = 0; i < pods->len; i++) {
        const json_t *pod = pods->items[i];
        int64_t until = disrupted_until(budget, pod);
        if (until == 0 || kube_is_deleting(pod))
            continue;
        if (until < now_ms) {
            kube_event(d->recorder, pod, "Warning", "NotDeleted",
                       "Pod was expected by PDB %s/%s to be deleted but it wasn't",
                       kube_namespace(budget), kube_name(budget));
            continue;
        }
        json_object_set(out, kube_name(pod),
                        codec_json_get(budget, "status", "disruptedPods", kube_name(pod), NULL));
        local_reconcile_requeue(w, until - now_ms + 1);
    }
    return out;
}

static int64_t count_healthy(const json_t *budget, const struct controllers_pods *pods,
                             int64_t now_ms)
{
    int64_t n = 0;

    for (size_t i = 0; i < pods->len; i++) {
        const json_t *pod = pods->items[i];
        n += !kube_is_deleting(pod) && disrupted_until(budget, pod) <= now_ms &&
             local_pod_ready(pod);
    }
    return n;
}

// --- status ---

// The status before; its counts are always there.
static json_t *new_status(const json_t *budget)
{
    static const char *const counts[] = {"disruptionsAllowed", "currentHealthy", "desiredHealthy",
                                         "expectedPods"};
    const json_t *current = json_object_get(budget, "status");
    json_t *status = json_is_object(current) ? json_deep_copy(current) : json_object();

    for (size_t i = 0; i < GS_ARRAY_LEN(counts); i++)
        if (!json_object_get(status, counts[i]))
            codec_json_set_int(status, counts[i], 0);
    return status;
}

// No eviction is allowed while it is unknown how many pods are expected.
static void write_failure(struct local_reconcile *w, const json_t *budget,
                          const struct gs_error *err)
{
    CODEC_AUTO_JSON json_t *status = new_status(budget);

    codec_json_set_int(status, "disruptionsAllowed", 0);
    local_disruption_set_condition(status, false, "SyncFailed", gs_error_message(err));
    controllers_write_status(w, KUBE_PODDISRUPTIONBUDGETS, budget, status);
}

static void write_counts(struct controllers_disruption *d, struct local_reconcile *w,
                         const json_t *budget, const struct controllers_pods *pods,
                         const struct expectation *e)
{
    int64_t now_ms = gs_unix_ms();
    CODEC_AUTO_JSON json_t *status = new_status(budget);
    json_t *disrupted = disrupted_pods(d, w, budget, pods, now_ms);
    int64_t healthy = count_healthy(budget, pods, now_ms);
    int64_t allowed = healthy - e->desired_healthy;

    codec_json_set_int(status, "currentHealthy", healthy);
    codec_json_set_int(status, "desiredHealthy", e->desired_healthy);
    codec_json_set_int(status, "expectedPods", e->expected);
    // A budget without pods allows nothing: its first pods are not counted yet when they appear.
    codec_json_set_int(status, "disruptionsAllowed", e->expected > 0 && allowed > 0 ? allowed : 0);
    codec_json_set_int(status, "observedGeneration",
                       codec_json_int(budget, 1, "metadata", "generation", NULL));
    if (json_object_size(disrupted) > 0)
        json_object_set(status, "disruptedPods", disrupted);
    else
        json_object_del(status, "disruptedPods");
    json_decref(disrupted);
    local_disruption_set_allowed(status);
    controllers_write_status(w, KUBE_PODDISRUPTIONBUDGETS, budget, status);
}

// --- events ---

// Go's text of a LabelSelector, as in Kubernetes' event.
static void add_selector_text(const json_t *selector, struct gs_buf *out)
{
    const char *key;
    json_t *value, *item;
    size_t i, k;

    if (!selector) {
        gs_buf_add_str(out, "nil");
        return;
    }
    gs_buf_add_str(out, "&LabelSelector{MatchLabels:map[string]string{");
    json_object_foreach (json_object_get(selector, "matchLabels"), key, value)
        gs_buf_addf(out, "%s: %s,", key, json_is_string(value) ? json_string_value(value) : "");
    gs_buf_add_str(out, "},MatchExpressions:[]LabelSelectorRequirement{");
    json_array_foreach (json_object_get(selector, "matchExpressions"), i, item) {
        const char *op = codec_json_str(item, "operator", NULL);
        const char *name = codec_json_str(item, "key", NULL);
        gs_buf_addf(out, "LabelSelectorRequirement{Key:%s,Operator:%s,Values:[", name ? name : "",
                    op ? op : "");
        json_array_foreach (json_object_get(item, "values"), k, value)
            gs_buf_addf(out, "%s%s", k ? " " : "",
                        json_is_string(value) ? json_string_value(value) : "");
        gs_buf_add_str(out, "],},");
    }
    gs_buf_add_str(out, "},}");
}

static void report_unmanaged(struct controllers_disruption *d, const json_t *budget)
{
    GS_AUTO_BUF struct gs_buf selector = {0};

    add_selector_text(codec_json_get(budget, "spec", "selector", NULL), &selector);
    kube_event(d->recorder, budget, "Warning", "UnmanagedPods",
               "Pods selected by this PodDisruptionBudget (selector: %s) were found to be "
               "unmanaged. As a result, the status of the PDB cannot be calculated correctly, "
               "which may result in undefined behavior. To account for these pods please set "
               "\".spec.minAvailable\" field of the PDB to an integer value.",
               selector.data);
}

// --- reconciliation ---

static void sync_budget(void *arg, struct local_reconcile *w, const char *ns, const char *name)
{
    struct controllers_disruption *d = arg;
    GS_CLEANUP(controllers_pods_finish) struct controllers_pods pods = {0};
    struct expectation e;

    const json_t *budget = kube_cache_get(d->cluster->budgets, ns, name);
    if (!budget)
        return;
    GS_AUTO_ERROR struct gs_error *err = find_pods(d->cluster, budget, &pods);
    if (err) {
        kube_event(d->recorder, budget, "Warning", "NoPods", "Failed to get pods: %s",
                   gs_error_message(err));
        write_failure(w, budget, err);
        return;
    }
    if (pods.len == 0)
        kube_event(d->recorder, budget, "Normal", "NoPods", "No matching pods found");
    err = expect(d->cluster, budget, &pods, &e);
    if (err) {
        kube_event(d->recorder, budget, "Warning", "CalculateExpectedPodCountFailed",
                   "Failed to calculate the number of expected pods: %s", gs_error_message(err));
        write_failure(w, budget, err);
        return;
    }
    if (e.unmanaged)
        report_unmanaged(d, budget);
    write_counts(d, w, budget, &pods, &e);
}

// --- changes that reconcile a budget ---

static void budget_changed(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct controllers_disruption *d = arg;

    if (new_obj)
        local_workqueue_add_object(d->queue, new_obj);
}

static void pod_changed(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct controllers_disruption *d = arg;
    const char *ns = kube_namespace(new_obj ? new_obj : old_obj);
    size_t pos = 0;
    const json_t *budget;

    while ((budget = kube_cache_next(d->cluster->budgets, &pos)))
        if (gs_streq(kube_namespace(budget), ns) &&
            (selects(budget, new_obj) || selects(budget, old_obj)))
            local_workqueue_add_object(d->queue, budget);
}

// The scale of an owner counts for the budgets of its namespace.
static void owner_changed(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct controllers_disruption *d = arg;
    const char *ns = kube_namespace(new_obj ? new_obj : old_obj);
    size_t pos = 0;
    const json_t *budget;

    if (old_obj && new_obj &&
        codec_json_int(old_obj, 1, "spec", "replicas", NULL) ==
            codec_json_int(new_obj, 1, "spec", "replicas", NULL))
        return;
    while ((budget = kube_cache_next(d->cluster->budgets, &pos)))
        if (gs_streq(kube_namespace(budget), ns))
            local_workqueue_add_object(d->queue, budget);
}

struct controllers_disruption *controllers_disruption_new(struct local_cluster *c)
{
    struct kube_cache *const owners[] = {c->replicasets, c->deployments, c->statefulsets,
                                         c->replicationcontrollers};
    struct controllers_disruption *d = gs_alloc(sizeof(*d));

    *d = (struct controllers_disruption){
        .cluster = c,
        .recorder = kube_recorder_new(c->client, "controllermanager", NULL),
    };
    d->queue = local_workqueue_new(c->loop, c->client, "disruption", sync_budget, d);
    kube_cache_add_handlers(c->budgets,
                            &(struct kube_cache_handlers){.on_change = budget_changed, .arg = d});
    kube_cache_add_handlers(c->pods,
                            &(struct kube_cache_handlers){.on_change = pod_changed, .arg = d});
    for (size_t i = 0; i < GS_ARRAY_LEN(owners); i++)
        kube_cache_add_handlers(
            owners[i], &(struct kube_cache_handlers){.on_change = owner_changed, .arg = d});
    return d;
}

void controllers_disruption_free(struct controllers_disruption *d)
{
    if (!d)
        return;
    struct kube_cache *const caches[] = {
        d->cluster->budgets,     d->cluster->pods,         d->cluster->replicasets,
        d->cluster->deployments, d->cluster->statefulsets, d->cluster->replicationcontrollers};
    for (size_t i = 0; i < GS_ARRAY_LEN(caches); i++)
        kube_cache_remove_handlers(caches[i], d);
    local_workqueue_free(d->queue);
    kube_recorder_free(d->recorder);
    free(d);
}
