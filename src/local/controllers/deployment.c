// SPDX-License-Identifier: Apache-2.0
// The Deployment controller keeps a ReplicaSet for each template, with the hash of the template in
// its name. rollout.c calculates the sizes. Annotations contain the revisions, and the number of
// old ReplicaSets is limited.
#include "base/mem.h"
#include "base/num.h"
#include "kube/object.h"
#include "kube/selector.h"
#include "local/controllers/controllers_private.h"
#include "local/pod.h"

#define HISTORY_LIMIT 10

struct controllers_deployments {
    struct local_cluster *cluster;
    struct kube_recorder *recorder;
    struct local_workqueue *queue;
};

// --- templates ---

// The template without the label that the controller adds.
static json_t *plain_template(const json_t *owner)
{
    json_t *t = json_deep_copy(codec_json_get(owner, "spec", "template", NULL));
    codec_json_del(t, "metadata", "labels", CONTROLLERS_ROLLOUT_HASH_LABEL, NULL);
    if (json_is_null(codec_json_get(t, "metadata", "creationTimestamp", NULL)))
        codec_json_del(t, "metadata", "creationTimestamp", NULL);
    return t;
}

static void template_hash(const json_t *deployment, char out[16])
{
    CODEC_AUTO_JSON json_t *t = plain_template(deployment);
    GS_AUTO_FREE char *text = json_dumps(t, JSON_COMPACT | JSON_SORT_KEYS);
    int64_t collisions = codec_json_int(deployment, 0, "status", "collisionCount", NULL);
    GS_AUTO_FREE char *salted =
        collisions ? gs_format("%s%lld", text, (long long)collisions) : gs_strdup(text);
    controllers_template_hash(salted, out);
}

static int64_t revision_of(const json_t *obj)
{
    const char *text = kube_annotation(obj, CONTROLLERS_ROLLOUT_ANN_REVISION);
    int64_t n = 0;
    if (text)
        gs_error_free(gs_parse_i64(gs_slice_of(text), 0, INT64_MAX, &n));
    return n;
}

static int64_t next_revision(const struct controllers_rollout *r)
{
    int64_t most = 0;
    for (size_t i = 0; i < r->len; i++) {
        int64_t n = revision_of(r->all[i].obj);
        if (&r->all[i] != r->current && n > most)
            most = n;
    }
    return most + 1;
}

// --- the ReplicaSets of a Deployment ---

static int compare_age(const void *pa, const void *pb)
{
    const json_t *a = ((const struct controllers_rollout_rs *)pa)->obj,
                 *b = ((const struct controllers_rollout_rs *)pb)->obj;
    int64_t ta = kube_created_ms(a, 0);
    int64_t tb = kube_created_ms(b, 0);
    if (ta != tb)
        return ta < tb ? -1 : 1;
    return strcmp(kube_name(a), kube_name(b));
}

static void add_replicaset(struct controllers_rollout *r, const json_t *rs)
{
    gs_grow(&r->all, &r->cap, r->len, sizeof(*r->all));
    r->all[r->len++] = (struct controllers_rollout_rs){
        .obj = rs,
        .spec = codec_json_int(rs, 1, "spec", "replicas", NULL),
        .replicas = codec_json_int(rs, 0, "status", "replicas", NULL),
        .ready = codec_json_int(rs, 0, "status", "readyReplicas", NULL),
        .available = codec_json_int(rs, 0, "status", "availableReplicas", NULL),
    };
}

// False if ReplicaSets were adopted: the rest waits until the cache shows that.
static bool find_replicasets(struct controllers_deployments *d, struct controllers_rollout *r,
                             const struct kube_selector *selector)
{
    bool settled = true;
    size_t pos = 0;
    const json_t *rs;
    while ((rs = kube_cache_next(d->cluster->replicasets, &pos))) {
        if (!gs_streq(kube_namespace(rs), kube_namespace(r->deployment)))
            continue;
        const json_t *owner = kube_controller_ref(rs);
        if (owner && gs_streq(codec_json_str(owner, "uid", NULL), kube_uid(r->deployment))) {
            add_replicaset(r, rs);
        } else if (!owner && !kube_is_deleting(rs) && !kube_is_deleting(r->deployment) &&
                   kube_selector_matches(selector,
                                         codec_json_get(rs, "metadata", "labels", NULL))) {
            controllers_patch_owners(r->work, KUBE_REPLICASETS, rs, r->deployment, NULL);
            settled = false;
        }
    }
    if (r->len)
        qsort(r->all, r->len, sizeof(*r->all), compare_age);
    CODEC_AUTO_JSON json_t *wanted = plain_template(r->deployment);
    for (size_t i = 0; i < r->len && !r->current; i++) {
        CODEC_AUTO_JSON json_t *have = plain_template(r->all[i].obj);
        if (json_equal(have, wanted))
            r->current = &r->all[i];
    }
    return settled;
}

// --- the ReplicaSet of the current template ---

static void copy_annotations(const json_t *deployment, json_t *to)
{
    static const char *const own[] = {
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        CONTROLLERS_ROLLOUT_ANN_REVISION,
        CONTROLLERS_ROLLOUT_ANN_HISTORY,
        CONTROLLERS_ROLLOUT_ANN_DESIRED,
        CONTROLLERS_ROLLOUT_ANN_MAX,
    };
    const char *key;
    json_t *value;
    json_object_foreach (codec_json_get(deployment, "metadata", "annotations", NULL), key, value) {
        bool skip = false;
        for (size_t i = 0; i < GS_ARRAY_LEN(own); i++)
            skip = skip || gs_streq(key, own[i]);
        if (!skip)
            json_object_set(to, key, value);
    }
}

static json_t *make_replicaset(const struct controllers_rollout *r, const char *name,
                               const char *hash)
{
    const json_t *d = r->deployment;
    const char *ns = kube_namespace(d);
    json_t *template = plain_template(d);
    codec_json_set(template, json_string(hash), "metadata", "labels",
                   CONTROLLERS_ROLLOUT_HASH_LABEL, NULL);
    json_t *selector = json_deep_copy(codec_json_get(d, "spec", "selector", NULL));
    codec_json_set(selector, json_string(hash), "matchLabels", CONTROLLERS_ROLLOUT_HASH_LABEL,
                   NULL);
    json_t *annotations = json_object();
    copy_annotations(d, annotations);
    json_object_set_new(annotations, CONTROLLERS_ROLLOUT_ANN_REVISION,
                        codec_json_strf("%lld", (long long)next_revision(r)));
    json_object_set_new(annotations, CONTROLLERS_ROLLOUT_ANN_DESIRED,
                        codec_json_strf("%lld", (long long)r->replicas));
    long long most = r->replicas + r->max_surge;
    json_object_set_new(annotations, CONTROLLERS_ROLLOUT_ANN_MAX, codec_json_strf("%lld", most));

    json_t *rs = json_object();
    codec_json_set_str(rs, "apiVersion", "apps/v1");
    codec_json_set_str(rs, "kind", "ReplicaSet");
    codec_json_set(rs, json_string(name), "metadata", "name", NULL);
    codec_json_set(rs, json_string(ns), "metadata", "namespace", NULL);
    codec_json_set(rs, json_deep_copy(codec_json_get(template, "metadata", "labels", NULL)),
                   "metadata", "labels", NULL);
    codec_json_set(rs, annotations, "metadata", "annotations", NULL);
    codec_json_set(rs, json_pack("[o]", kube_make_controller_ref(d)), "metadata", "ownerReferences",
                   NULL);
    codec_json_set(rs, json_integer(controllers_rollout_current_target(r, 0)), "spec", "replicas",
                   NULL);
    int64_t min_ready = codec_json_int(d, 0, "spec", "minReadySeconds", NULL);
    if (min_ready > 0)
        codec_json_set(rs, json_integer(min_ready), "spec", "minReadySeconds", NULL);
    codec_json_set(rs, selector, "spec", "selector", NULL);
    codec_json_set(rs, template, "spec", "template", NULL);
    return rs;
}

static void create_current(struct controllers_deployments *d, struct controllers_rollout *r)
{
    char hash[16];
    template_hash(r->deployment, hash);
    const char *ns = kube_namespace(r->deployment);
    GS_AUTO_FREE char *name = gs_format("%s-%s", kube_name(r->deployment), hash);
    if (kube_cache_get(d->cluster->replicasets, ns, name)) {
        // Another template or owner has the name: the next reconciliation tries another hash.
        int64_t n = codec_json_int(r->status, 0, "collisionCount", NULL);
        codec_json_set_int(r->status, "collisionCount", n + 1);
        return;
    }
    CODEC_AUTO_JSON json_t *rs = make_replicaset(r, name, hash);
    int64_t replicas = codec_json_int(rs, 0, "spec", "replicas", NULL);
    local_reconcile_create(r->work, KUBE_REPLICASETS, ns, rs, NULL, NULL);
    if (replicas > 0)
        local_reconcile_event(r->work, r->recorder, r->deployment, "ScalingReplicaSet",
                              "Scaled up replica set %s from 0 to %lld", name, (long long)replicas);
    GS_AUTO_FREE char *text = gs_format("Created new replica set \"%s\"", name);
    controllers_rollout_set_condition(r, "Progressing", "True", "NewReplicaSetCreated", text);
}

static void append_history(json_t *annotations, int64_t old_revision)
{
    const char *history =
        json_string_value(json_object_get(annotations, CONTROLLERS_ROLLOUT_ANN_HISTORY));
    if (old_revision > 0)
        json_object_set_new(annotations, CONTROLLERS_ROLLOUT_ANN_HISTORY,
                            history && *history
                                ? codec_json_strf("%s,%lld", history, (long long)old_revision)
                                : codec_json_strf("%lld", (long long)old_revision));
}

// Updates annotations, revision and minReadySeconds of the current ReplicaSet. True: it was
// written.
static bool refresh_current(struct controllers_rollout *r)
{
    const json_t *rs = r->current->obj;
    CODEC_AUTO_JSON json_t *changed = json_deep_copy(rs);
    json_t *annotations = codec_json_get(changed, "metadata", "annotations", NULL);
    if (!annotations) {
        annotations = json_object();
        codec_json_set(changed, annotations, "metadata", "annotations", NULL);
    }
    copy_annotations(r->deployment, annotations);
    int64_t revision = next_revision(r), had = revision_of(rs);
    if (had < revision) {
        append_history(annotations, had);
        json_object_set_new(annotations, CONTROLLERS_ROLLOUT_ANN_REVISION,
                            codec_json_strf("%lld", (long long)revision));
    }
    int64_t min_ready = codec_json_int(r->deployment, 0, "spec", "minReadySeconds", NULL);
    if (min_ready != codec_json_int(rs, 0, "spec", "minReadySeconds", NULL))
        codec_json_set(changed, json_integer(min_ready), "spec", "minReadySeconds", NULL);
    if (json_equal(changed, rs))
        return false;
    local_reconcile_update(r->work, KUBE_REPLICASETS, changed, NULL, NULL, NULL);
    return true;
}

// True: the Deployment was written, and the reconciliation ends.
static bool copy_revision(struct controllers_rollout *r)
{
    const char *have = kube_annotation(r->deployment, CONTROLLERS_ROLLOUT_ANN_REVISION);
    const char *want = kube_annotation(r->current->obj, CONTROLLERS_ROLLOUT_ANN_REVISION);
    if (!want || gs_streq(have, want))
        return false;
    CODEC_AUTO_JSON json_t *patch = json_object();
    codec_json_set(patch, json_string(want), "metadata", "annotations",
                   CONTROLLERS_ROLLOUT_ANN_REVISION, NULL);
    local_reconcile_patch(r->work, KUBE_DEPLOYMENTS, kube_namespace(r->deployment),
                          kube_name(r->deployment), "status", patch, NULL, NULL);
    return true;
}

static void note_found(struct controllers_rollout *r)
{
    if (kube_condition(r->deployment, "Progressing"))
        return;
    GS_AUTO_FREE char *text = gs_format("Found new replica set \"%s\"", kube_name(r->current->obj));
    controllers_rollout_set_condition(r, "Progressing", "True", "FoundNewReplicaSet", text);
}

// --- history ---

static void delete_old(struct controllers_rollout *r)
{
    int64_t limit =
        codec_json_int(r->deployment, HISTORY_LIMIT, "spec", "revisionHistoryLimit", NULL);
    int64_t excess = (int64_t)r->len - (r->current ? 1 : 0) - limit;
    for (size_t i = 0; i < r->len && excess > 0; i++) {
        const struct controllers_rollout_rs *rs = &r->all[i];
        if (rs == r->current)
            continue;
        excess--;
        bool seen = codec_json_int(rs->obj, 0, "metadata", "generation", NULL) <=
                    codec_json_int(rs->obj, 0, "status", "observedGeneration", NULL);
        if (rs->spec == 0 && rs->replicas == 0 && seen && !kube_is_deleting(rs->obj))
            local_reconcile_delete(r->work, KUBE_REPLICASETS, kube_namespace(rs->obj),
                                   kube_name(rs->obj), NULL, NULL);
    }
}

// --- one Deployment ---

static bool old_pods_running(struct controllers_deployments *d, const struct controllers_rollout *r)
{
    size_t pos = 0;
    const json_t *pod;
    while ((pod = kube_cache_next(d->cluster->pods, &pos))) {
        if (kube_pod_has_ended(pod))
            continue;
        const char *owner = codec_json_str(kube_controller_ref(pod), "uid", NULL);
        for (size_t i = 0; owner && i < r->len; i++)
            if (&r->all[i] != r->current && gs_streq(owner, kube_uid(r->all[i].obj)))
                return true;
    }
    return false;
}

static void recreate(struct controllers_deployments *d, struct controllers_rollout *r)
{
    if (controllers_rollout_recreate_down(r))
        return;
    if (old_pods_running(d, r)) {
        local_reconcile_requeue(r->work, 500); // the end of a pod reconciles only its ReplicaSet
        return;
    }
    if (!r->current)
        create_current(d, r);
    else
        controllers_rollout_scale(r, r->current, r->replicas);
}

static void rolling_update(struct controllers_deployments *d, struct controllers_rollout *r)
{
    if (!r->current)
        create_current(d, r);
    else
        controllers_rollout_rolling_step(r);
}

static void step(struct controllers_deployments *d, struct controllers_rollout *r)
{
    bool paused = codec_json_bool(r->deployment, false, "spec", "paused", NULL);
    if (r->current) {
        if (refresh_current(r) || copy_revision(r))
            return; // the change reconciles the Deployment again
        note_found(r);
    }
    controllers_rollout_check_paused(r);
    if (paused || controllers_rollout_is_scaling(r))
        controllers_rollout_scale_proportionally(r);
    else if (r->recreate)
        recreate(d, r);
    else
        rolling_update(d, r);
    controllers_rollout_count(r);
    if (!paused)
        controllers_rollout_progress(r);
    if (paused || controllers_rollout_complete(r))
        delete_old(r);
    controllers_rollout_write_status(r);
}

static void sync_deployment(void *arg, struct local_reconcile *w, const char *ns, const char *name)
{
    struct controllers_deployments *d = arg;
    if (!local_cluster_synced(d->cluster)) {
        local_reconcile_requeue(w, 100);
        return;
    }
    const json_t *obj = kube_cache_get(d->cluster->deployments, ns, name);
    if (!obj)
        return;
    GS_CLEANUP(kube_selector_finish) struct kube_selector selector = {0};
    struct gs_error *err =
        kube_selector_from_json(codec_json_get(obj, "spec", "selector", NULL), &selector);
    if (err) {
        local_reconcile_fail(w, gs_error_wrap(err, "spec.selector"));
        return;
    }
    struct controllers_rollout r = {.work = w, .recorder = d->recorder, .deployment = obj};
    CODEC_AUTO_JSON json_t *status = json_deep_copy(json_object_get(obj, "status"));
    if (!status)
        status = json_object();
    r.status = status;
    controllers_rollout_read_spec(&r);
    if (find_replicasets(d, &r, &selector)) {
        if (kube_is_deleting(obj) || local_namespace_goes(d->cluster, ns)) {
            controllers_rollout_count(&r);
            controllers_rollout_write_status(&r);
        } else {
            step(d, &r);
        }
    }
    free(r.all);
}

// --- changes that reconcile a Deployment ---

static void deployment_changed(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct controllers_deployments *d = arg;
    local_workqueue_add_object(d->queue, new_obj ? new_obj : old_obj);
}

static void add_owner(struct controllers_deployments *d, const json_t *rs)
{
    const json_t *owner = kube_controller_ref(rs);
    if (gs_streq(codec_json_str(owner, "kind", NULL), "Deployment"))
        local_workqueue_add(d->queue, kube_namespace(rs), codec_json_str(owner, "name", NULL));
}

static void add_matching(struct controllers_deployments *d, const json_t *rs)
{
    size_t pos = 0;
    const json_t *obj;
    while ((obj = kube_cache_next(d->cluster->deployments, &pos))) {
        if (!gs_streq(kube_namespace(rs), kube_namespace(obj)))
            continue;
        GS_CLEANUP(kube_selector_finish) struct kube_selector s = {0};
        struct gs_error *err =
            kube_selector_from_json(codec_json_get(obj, "spec", "selector", NULL), &s);
        if (!err && kube_selector_matches(&s, codec_json_get(rs, "metadata", "labels", NULL)))
            local_workqueue_add_object(d->queue, obj);
        gs_error_free(err);
    }
}

static void replicaset_changed(void *arg, const json_t *old_rs, const json_t *new_rs)
{
    struct controllers_deployments *d = arg;
    if (old_rs)
        add_owner(d, old_rs);
    if (!new_rs)
        return;
    if (kube_controller_ref(new_rs))
        add_owner(d, new_rs);
    else
        add_matching(d, new_rs);
}

struct controllers_deployments *controllers_deployments_new(struct local_cluster *c)
{
    struct controllers_deployments *d = gs_alloc(sizeof(*d));
    d->cluster = c;
    d->recorder = kube_recorder_new(c->client, "deployment-controller", NULL);
    d->queue = local_workqueue_new(c->loop, c->client, "deployment", sync_deployment, d);
    struct kube_cache_handlers own = {.on_change = deployment_changed, .arg = d};
    struct kube_cache_handlers of_rs = {.on_change = replicaset_changed, .arg = d};
    kube_cache_add_handlers(c->deployments, &own);
    kube_cache_add_handlers(c->replicasets, &of_rs);
    return d;
}

void controllers_deployments_free(struct controllers_deployments *d)
{
    if (!d)
        return;
    kube_cache_remove_handlers(d->cluster->deployments, d);
    kube_cache_remove_handlers(d->cluster->replicasets, d);
    local_workqueue_free(d->queue);
    kube_recorder_free(d->recorder);
    free(d);
}
