// SPDX-License-Identifier: Apache-2.0
// The StatefulSet controller keeps pods with stable names, NAME-0, NAME-1 …, and their claims. With
// OrderedReady, a pod waits until those with lower numbers are ready, and pods are deleted from the
// highest number down.
#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "kube/object.h"
#include "local/controllers/controllers_private.h"
#include "local/pod.h"

#include <string.h>

#define BURST         64 // pods created or deleted in one reconciliation
#define LOOK_AGAIN_MS 1000
#define CLAIMS_MS     5 // until new claims are in the cache
#define NAME_LABEL    "statefulset.kubernetes.io/pod-name"
#define INDEX_LABEL   "apps.kubernetes.io/pod-index"

struct controllers_statefulsets {
    struct controllers_owned owned;
};

struct set_sync {
    struct controllers_statefulsets *d;
    struct local_reconcile *work;
    const json_t *set;
    const json_t *current, *update; // ControllerRevisions; the same without an update
    int64_t start, wanted;          // the first ordinal, and the number of pods
    bool ordered;
    struct controllers_pods condemned; // beyond the wanted ones, highest ordinal first
    const json_t **replicas;           // by ordinal - start; NULL: missing
    size_t n_replicas;                 // at most `wanted`, and not more than can be created at once
    json_t *status;
    size_t writes;
};

// --- names ---

int64_t controllers_statefulset_ordinal(const json_t *set, const json_t *pod)
{
    size_t n = strlen(kube_name(set));
    const char *name = kube_name(pod);
    int64_t ordinal = -1;
    if (strncmp(name, kube_name(set), n) != 0 || name[n] != '-' || !name[n + 1] ||
        strspn(name + n + 1, "0123456789") != strlen(name + n + 1))
        return -1;
    gs_error_free(gs_parse_i64(gs_slice_of(name + n + 1), 0, INT32_MAX, &ordinal));
    return ordinal;
}

static bool adopts(const json_t *set, const json_t *pod)
{
    return controllers_statefulset_ordinal(set, pod) >= 0;
}

// --- states of pods ---

static const char *revision_of(const json_t *pod)
{
    return kube_label(pod, CONTROLLERS_REVISION_LABEL);
}

static bool is_running_and_ready(const json_t *pod)
{
    return gs_streq(local_pod_phase(pod), "Running") && local_pod_ready(pod);
}

static bool is_available(const struct set_sync *s, const json_t *pod)
{
    return is_running_and_ready(pod) &&
           controllers_pod_available(s->work, pod,
                                     codec_json_int(s->set, 0, "spec", "minReadySeconds", NULL));
}

static bool is_healthy(const struct set_sync *s, const json_t *pod)
{
    return pod && !kube_is_deleting(pod) && is_available(s, pod);
}

// --- claims ---

static char *claim_name(const struct set_sync *s, const json_t *template, int64_t ordinal)
{
    return gs_format("%s-%s-%lld", kube_name(template) ? kube_name(template) : "",
                     kube_name(s->set), (long long)ordinal);
}

static bool retention_is(const struct set_sync *s, const char *when, const char *policy)
{
    return gs_streq(
        codec_json_str(s->set, "spec", "persistentVolumeClaimRetentionPolicy", when, NULL), policy);
}

// A refused claim is retried with the back-off of the queue.
static void on_claim_created(void *arg, const json_t *body, const struct gs_error *err)
{
    if (!err)
        local_reconcile_requeue(arg, CLAIMS_MS);
}

static void create_claim(struct set_sync *s, const json_t *template, const char *name,
                         const char *pod)
{
    const char *ns = kube_namespace(s->set);
    CODEC_AUTO_JSON json_t *claim = json_deep_copy(template);
    const char *key;
    json_t *value;
    codec_json_set_str(claim, "apiVersion", "v1");
    codec_json_set_str(claim, "kind", "PersistentVolumeClaim");
    json_object_del(claim, "status");
    codec_json_set(claim, json_string(name), "metadata", "name", NULL);
    codec_json_set(claim, json_string(ns), "metadata", "namespace", NULL);
    json_object_foreach (codec_json_get(s->set, "spec", "selector", "matchLabels", NULL), key,
                         value) {
        codec_json_set(claim, json_incref(value), "metadata", "labels", key, NULL);
    }
    if (retention_is(s, "whenDeleted", "Delete"))
        codec_json_set(claim, json_pack("[o]", kube_make_controller_ref(s->set)), "metadata",
                       "ownerReferences", NULL);
    local_reconcile_create(s->work, KUBE_CLAIMS, ns, claim, on_claim_created, s->work);
    local_reconcile_event(s->work, s->d->owned.recorder, s->set, "SuccessfulCreate",
                          "create Claim %s Pod %s in StatefulSet %s success", name, pod,
                          kube_name(s->set));
}

// Creates the missing claims of a pod. Returns whether there were any.
static bool create_claims(struct set_sync *s, int64_t ordinal, const char *pod)
{
    bool any = false;
    size_t i;
    json_t *template;
    json_array_foreach (codec_json_get(s->set, "spec", "volumeClaimTemplates", NULL), i, template) {
        GS_AUTO_FREE char *name = claim_name(s, template, ordinal);
        if (kube_cache_get(s->d->owned.cluster->claims, kube_namespace(s->set), name))
            continue;
        create_claim(s, template, name, pod);
        any = true;
    }
    return any;
}

// With whenScaled: Delete, the claims of a surplus pod are deleted with it.
static void tie_claims(struct set_sync *s, const json_t *pod)
{
    int64_t ordinal = controllers_statefulset_ordinal(s->set, pod);
    size_t i;
    json_t *template;
    if (!retention_is(s, "whenScaled", "Delete"))
        return;
    json_array_foreach (codec_json_get(s->set, "spec", "volumeClaimTemplates", NULL), i, template) {
        GS_AUTO_FREE char *name = claim_name(s, template, ordinal);
        const json_t *claim =
            kube_cache_get(s->d->owned.cluster->claims, kube_namespace(s->set), name);
        if (claim)
            controllers_patch_owners(s->work, KUBE_CLAIMS, claim, pod, s->set);
    }
}

// --- creation and deletion ---

// A volume of a claim replaces the template's volume of the same name.
static void add_claim_volumes(const struct set_sync *s, json_t *pod, int64_t ordinal)
{
    size_t i, k;
    json_t *template, *volume;
    json_array_foreach (codec_json_get(s->set, "spec", "volumeClaimTemplates", NULL), i, template) {
        GS_AUTO_FREE char *claim = claim_name(s, template, ordinal);
        json_t *volumes = codec_json_get(pod, "spec", "volumes", NULL);
        if (!json_is_array(volumes)) {
            volumes = json_array();
            codec_json_set(pod, volumes, "spec", "volumes", NULL);
        }
        json_array_foreach (volumes, k, volume) {
            if (gs_streq(codec_json_str(volume, "name", NULL), kube_name(template))) {
                json_array_remove(volumes, k);
                break;
            }
        }
        volume = json_object();
        codec_json_set_str(volume, "name", kube_name(template));
        codec_json_set(volume, json_string(claim), "persistentVolumeClaim", "claimName", NULL);
        json_array_append_new(volumes, volume);
    }
}

static json_t *make_pod(const struct set_sync *s, int64_t ordinal)
{
    const json_t *strategy = codec_json_get(s->set, "spec", "updateStrategy", NULL);
    int64_t partition = codec_json_int(strategy, 0, "rollingUpdate", "partition", NULL);
    bool old = gs_streq(codec_json_str(strategy, "type", NULL), "RollingUpdate") &&
               ordinal - s->start < partition;
    const json_t *revision = old ? s->current : s->update;
    CODEC_AUTO_JSON json_t *template = controllers_revision_template(revision);
    json_t *pod = controllers_pod_from_template(s->set, template);
    const char *subdomain = codec_json_str(s->set, "spec", "serviceName", NULL);
    GS_AUTO_FREE char *name = gs_format("%s-%lld", kube_name(s->set), (long long)ordinal);
    if (!codec_json_get(pod, "metadata", "labels", NULL))
        codec_json_set(pod, json_object(), "metadata", "labels", NULL);
    json_t *labels = codec_json_get(pod, "metadata", "labels", NULL);
    codec_json_set(pod, json_string(name), "metadata", "name", NULL);
    GS_AUTO_FREE char *generate = gs_format("%s-", kube_name(s->set));
    codec_json_set(pod, json_string(generate), "metadata", "generateName", NULL);
    codec_json_set_str(labels, NAME_LABEL, name);
    json_object_set_new(labels, INDEX_LABEL, codec_json_strf("%lld", (long long)ordinal));
    codec_json_set_str(labels, CONTROLLERS_REVISION_LABEL, kube_name(revision));
    codec_json_set(pod, json_string(name), "spec", "hostname", NULL);
    if (subdomain && *subdomain)
        codec_json_set(pod, json_string(subdomain), "spec", "subdomain", NULL);
    add_claim_volumes(s, pod, ordinal);
    return pod;
}

static void create_pod(struct set_sync *s, int64_t ordinal)
{
    CODEC_AUTO_JSON json_t *pod = make_pod(s, ordinal);
    // A pod is created after its claims, so that it never runs without one that was refused.
    if (create_claims(s, ordinal, kube_name(pod)))
        return;
    if (!controllers_owned_create(&s->d->owned, s->work, s->set, pod))
        return;
    s->writes++;
    local_reconcile_event(s->work, s->d->owned.recorder, s->set, "SuccessfulCreate",
                          "create Pod %s in StatefulSet %s successful", kube_name(pod),
                          kube_name(s->set));
}

static void delete_pod(struct set_sync *s, const json_t *pod)
{
    if (!controllers_owned_delete(&s->d->owned, s->work, s->set, pod))
        return;
    s->writes++;
    local_reconcile_event(s->work, s->d->owned.recorder, s->set, "SuccessfulDelete",
                          "delete Pod %s in StatefulSet %s successful", kube_name(pod),
                          kube_name(s->set));
}

// --- one reconciliation ---

// True: the pods after this one wait.
static bool process_replica(struct set_sync *s, size_t i)
{
    const json_t *pod = s->replicas[i];
    if (!pod) {
        create_pod(s, s->start + (int64_t)i);
        return s->ordered;
    }
    if (kube_pod_has_ended(pod)) {
        if (!kube_is_deleting(pod)) {
            kube_event(s->d->owned.recorder, s->set, "Warning", "RecreatingFailedPod",
                       "StatefulSet %s/%s is recreating failed Pod %s", kube_namespace(s->set),
                       kube_name(s->set), kube_name(pod));
            delete_pod(s, pod);
        }
        return true;
    }
    if (gs_streq(local_pod_phase(pod), "Pending"))
        create_claims(s, s->start + (int64_t)i, kube_name(pod));
    return s->ordered && !is_healthy(s, pod);
}

// True: the pods with lower numbers, and updates, wait.
static bool process_condemned(struct set_sync *s, const json_t *pod)
{
    if (kube_is_deleting(pod))
        return s->ordered;
    tie_claims(s, pod);
    delete_pod(s, pod);
    return s->ordered;
}

// Replaces the pod with the highest number that has an old template, if those above it are healthy.
static void update_pods(struct set_sync *s)
{
    int64_t partition =
        codec_json_int(s->set, 0, "spec", "updateStrategy", "rollingUpdate", "partition", NULL);
    for (size_t i = s->n_replicas; i-- > 0 && (int64_t)i >= partition;) {
        const json_t *pod = s->replicas[i];
        if (pod && !kube_is_deleting(pod) && !gs_streq(revision_of(pod), kube_name(s->update))) {
            delete_pod(s, pod);
            return;
        }
        if (!is_healthy(s, pod))
            return;
    }
}

static void manage(struct set_sync *s)
{
    for (size_t i = 0; i < s->n_replicas; i++) {
        if (s->writes >= BURST) {
            local_reconcile_requeue(s->work, LOOK_AGAIN_MS);
            return;
        }
        if (process_replica(s, i))
            return;
    }
    for (size_t i = 0; i < s->condemned.len && s->writes < BURST; i++)
        if (process_condemned(s, s->condemned.items[i]))
            return;
    if (!s->writes && !s->condemned.len &&
        gs_streq(codec_json_str(s->set, "spec", "updateStrategy", "type", NULL), "RollingUpdate"))
        update_pods(s);
}

// --- status ---

static void count(struct set_sync *s, const struct controllers_pods *pods)
{
    int64_t replicas = 0, ready = 0, available = 0, current = 0, updated = 0;
    for (size_t i = 0; i < pods->len; i++) {
        const json_t *pod = pods->items[i];
        replicas++;
        ready += is_running_and_ready(pod);
        available += is_available(s, pod);
        if (kube_is_deleting(pod))
            continue;
        current += gs_streq(revision_of(pod), kube_name(s->current));
        updated += gs_streq(revision_of(pod), kube_name(s->update));
    }
    const char *type = codec_json_str(s->set, "spec", "updateStrategy", "type", NULL);
    bool complete = gs_streq(type, "RollingUpdate") && updated == replicas && ready == replicas;
    codec_json_set_int(s->status, "observedGeneration",
                       codec_json_int(s->set, 1, "metadata", "generation", NULL));
    codec_json_set_int(s->status, "replicas", replicas);
    codec_json_set_int(s->status, "availableReplicas", available);
    codec_json_set_int(s->status, "collisionCount", 0);
    controllers_set_count(s->status, "readyReplicas", ready);
    controllers_set_count(s->status, "currentReplicas", complete ? updated : current);
    controllers_set_count(s->status, "updatedReplicas", updated);
    codec_json_set_str(s->status, "updateRevision", kube_name(s->update));
    codec_json_set_str(s->status, "currentRevision", kube_name(complete ? s->update : s->current));
}

// --- one StatefulSet ---

static void sync_finish(struct set_sync *s)
{
    controllers_pods_finish(&s->condemned);
    free(s->replicas);
    json_decref(s->status);
}

static void find_current(struct set_sync *s, const struct controllers_revisions *revisions)
{
    const char *name = codec_json_str(s->set, "status", "currentRevision", NULL);
    s->update = s->current = revisions->latest;
    for (size_t i = 0; i < revisions->len; i++)
        if (gs_streq(kube_name(revisions->items[i]), name))
            s->current = revisions->items[i];
}

static void sort_pods(struct set_sync *s, const struct controllers_pods *pods)
{
    // Pods are created in order, so that not more than these can follow.
    size_t most = pods->len + BURST;
    s->n_replicas = s->wanted < (int64_t)most ? (size_t)s->wanted : most;
    s->replicas = gs_alloc_array(s->n_replicas + 1, sizeof(*s->replicas));
    for (size_t i = 0; i < pods->len; i++) {
        int64_t index = controllers_statefulset_ordinal(s->set, pods->items[i]) - s->start;
        if (index >= 0 && index < (int64_t)s->n_replicas)
            s->replicas[index] = pods->items[i];
        else if (index < 0 || index >= s->wanted)
            controllers_pods_add(&s->condemned, pods->items[i]);
    }
    for (size_t i = 0; i < s->condemned.len; i++) // few: an insertion sort
        for (size_t k = i;
             k > 0 && controllers_statefulset_ordinal(s->set, s->condemned.items[k]) >
                          controllers_statefulset_ordinal(s->set, s->condemned.items[k - 1]);
             k--) {
            const json_t *pod = s->condemned.items[k];
            s->condemned.items[k] = s->condemned.items[k - 1];
            s->condemned.items[k - 1] = pod;
        }
}

static void sync_statefulset(void *arg, struct local_reconcile *w, const json_t *set,
                             const struct kube_selector *selector)
{
    struct controllers_statefulsets *d = arg;
    GS_CLEANUP(controllers_revisions_finish) struct controllers_revisions revisions = {0};
    GS_CLEANUP(controllers_pods_finish) struct controllers_pods all = {0}, pods = {0};
    if (kube_is_deleting(set))
        return;
    bool claimed = controllers_owned_claim(&d->owned, w, set, selector, false, &all);
    for (size_t i = 0; i < all.len; i++)
        if (controllers_statefulset_ordinal(set, all.items[i]) >= 0)
            controllers_pods_add(&pods, all.items[i]);
    if (!controllers_revisions_sync(d->owned.cluster, w, set, selector, &revisions))
        return; // the change of the revision reconciles the StatefulSet again
    const json_t *status = json_object_get(set, "status");
    GS_CLEANUP(sync_finish)
    struct set_sync s = {
        .d = d,
        .work = w,
        .set = set,
        .start = codec_json_int(set, 0, "spec", "ordinals", "start", NULL),
        .wanted = codec_json_int(set, 1, "spec", "replicas", NULL),
        .ordered = !gs_streq(codec_json_str(set, "spec", "podManagementPolicy", NULL), "Parallel"),
        .status = json_is_object(status) ? json_deep_copy(status) : json_object(),
    };
    find_current(&s, &revisions);
    sort_pods(&s, &pods);
    if (!controllers_owned_settled(&d->owned, set))
        local_reconcile_requeue(w, LOOK_AGAIN_MS);
    else if (claimed)
        local_reconcile_requeue(w, 0);
    else if (!local_namespace_goes(d->owned.cluster, kube_namespace(set)))
        manage(&s);
    count(&s, &pods);
    controllers_revisions_truncate(w, set, &revisions, &pods, kube_name(s.current));
    controllers_write_status(w, KUBE_STATEFULSETS, set, s.status);
}

struct controllers_statefulsets *controllers_statefulsets_new(struct local_cluster *c)
{
    struct controllers_statefulsets *d = gs_alloc(sizeof(*d));
    const struct controllers_owned_kind kind = {
        .kind = "StatefulSet",
        .component = "statefulset-controller",
        .queue = "statefulset",
        .owners = c->statefulsets,
        .own_events = true,
        .revisions = true,
        .sync = sync_statefulset,
        .adopts = adopts,
        .arg = d,
    };
    controllers_owned_init(&d->owned, c, &kind);
    return d;
}

void controllers_statefulsets_free(struct controllers_statefulsets *d)
{
    if (!d)
        return;
    controllers_owned_finish(&d->owned);
    free(d);
}
