// SPDX-License-Identifier: Apache-2.0
// The controller of ReplicaSets and ReplicationControllers creates and deletes pods until their
// number is spec.replicas.
#include "base/clock.h"
#include "base/mem.h"
#include "kube/object.h"
#include "kube/selector.h"
#include "local/controllers/controllers_private.h"
#include "local/pod.h"

#define BURST         64 // pods created or deleted in one reconciliation
#define LOOK_AGAIN_MS 1000

struct controllers_replicasets {
    struct controllers_owned owned;
    struct kube_gvr gvr;
};

static void manage(struct controllers_replicasets *r, struct local_reconcile *w, const json_t *rs,
                   struct controllers_pods *pods)
{
    int64_t wanted = codec_json_int(rs, 1, "spec", "replicas", NULL);
    int64_t missing = wanted - (int64_t)pods->len;
    if (missing > BURST || missing < -BURST) {
        missing = missing > 0 ? BURST : -BURST;
        local_reconcile_requeue(w, LOOK_AGAIN_MS);
    }
    // After a refusal, such as by a quota, a single pod finds out whether more is allowed again.
    if (missing > 1 && controllers_owned_failure(&r->owned, rs))
        missing = 1;
    for (int64_t i = 0; i < missing; i++) {
        CODEC_AUTO_JSON json_t *pod =
            controllers_pod_from_template(rs, codec_json_get(rs, "spec", "template", NULL));
        controllers_owned_create(&r->owned, w, rs, pod);
    }
    if (missing >= 0 || !pods->len)
        return;
    controllers_pods_sort_for_deletion(pods);
    for (int64_t i = 0; i < -missing; i++)
        controllers_owned_delete(&r->owned, w, rs, pods->items[i]);
}

struct counts {
    int64_t replicas, labeled, ready, available;
};

static struct counts count(struct local_reconcile *w, const json_t *rs,
                           const struct controllers_pods *pods)
{
    struct counts n = {.replicas = (int64_t)pods->len};
    int64_t min_ready = codec_json_int(rs, 0, "spec", "minReadySeconds", NULL);
    GS_CLEANUP(kube_selector_finish) struct kube_selector labels = {0};
    kube_selector_from_map(codec_json_get(rs, "spec", "template", "metadata", "labels", NULL),
                           &labels);
    for (size_t i = 0; i < pods->len; i++) {
        const json_t *pod = pods->items[i];
        n.labeled +=
            kube_selector_matches(&labels, codec_json_get(pod, "metadata", "labels", NULL));
        n.ready += local_pod_ready(pod);
        n.available += controllers_pod_available(w, pod, min_ready);
    }
    return n;
}

static void set_failure(json_t *status, const char *why)
{
    json_t *conditions = json_object_get(status, "conditions");
    if (!json_is_array(conditions)) {
        if (!why)
            return;
        conditions = json_array();
        json_object_set_new(status, "conditions", conditions);
    }
    if (why) {
        kube_set_condition(conditions, "ReplicaFailure", "True", "FailedCreate", why, gs_unix_ms());
        return;
    }
    for (size_t i = json_array_size(conditions); i-- > 0;)
        if (gs_streq(codec_json_str(json_array_get(conditions, i), "type", NULL), "ReplicaFailure"))
            json_array_remove(conditions, i);
    if (json_array_size(conditions) == 0)
        json_object_del(status, "conditions");
}

static void update_status(struct controllers_replicasets *r, struct local_reconcile *w,
                          const json_t *rs, const struct counts *n)
{
    const json_t *current = json_object_get(rs, "status");
    CODEC_AUTO_JSON json_t *status =
        json_is_object(current) ? json_deep_copy(current) : json_object();
    codec_json_set_int(status, "replicas", n->replicas);
    controllers_set_count(status, "fullyLabeledReplicas", n->labeled);
    controllers_set_count(status, "readyReplicas", n->ready);
    controllers_set_count(status, "availableReplicas", n->available);
    codec_json_set_int(status, "observedGeneration",
                       codec_json_int(rs, 1, "metadata", "generation", NULL));
    set_failure(status, controllers_owned_failure(&r->owned, rs));
    controllers_write_status(w, r->gvr, rs, status);
}

static void sync_replicaset(void *arg, struct local_reconcile *w, const json_t *rs,
                            const struct kube_selector *selector)
{
    struct controllers_replicasets *r = arg;
    GS_CLEANUP(controllers_pods_finish) struct controllers_pods pods = {0};
    bool claimed = controllers_owned_claim(&r->owned, w, rs, selector, true, &pods);
    struct counts n = count(w, rs, &pods);
    if (!controllers_owned_settled(&r->owned, rs))
        local_reconcile_requeue(w, LOOK_AGAIN_MS);
    else if (claimed)
        local_reconcile_requeue(w, 0); // the counts are right after the adoptions and releases
    else if (!kube_is_deleting(rs) && !local_namespace_goes(r->owned.cluster, kube_namespace(rs)))
        manage(r, w, rs, &pods);
    update_status(r, w, rs, &n);
}

static struct controllers_replicasets *new_controller(struct local_cluster *c, struct kube_gvr gvr,
                                                      struct controllers_owned_kind kind)
{
    struct controllers_replicasets *r = gs_alloc(sizeof(*r));
    r->gvr = gvr;
    kind.sync = sync_replicaset;
    kind.arg = r;
    controllers_owned_init(&r->owned, c, &kind);
    return r;
}

struct controllers_replicasets *controllers_replicasets_new(struct local_cluster *c)
{
    return new_controller(c, KUBE_REPLICASETS,
                          (struct controllers_owned_kind){
                              .kind = "ReplicaSet",
                              .component = "replicaset-controller",
                              .queue = "replicaset",
                              .owners = c->replicasets,
                          });
}

struct controllers_replicasets *controllers_replication_controllers_new(struct local_cluster *c)
{
    return new_controller(c, KUBE_REPLICATIONCONTROLLERS,
                          (struct controllers_owned_kind){
                              .kind = "ReplicationController",
                              .component = "replication-controller",
                              .queue = "replicationcontroller",
                              .owners = c->replicationcontrollers,
                          });
}

void controllers_replicasets_free(struct controllers_replicasets *r)
{
    if (!r)
        return;
    controllers_owned_finish(&r->owned);
    free(r);
}
