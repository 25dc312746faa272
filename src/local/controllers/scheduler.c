// SPDX-License-Identifier: Apache-2.0
// A scheduling cycle checks all pending pods in order of priority and age. It runs after any change
// of pods or nodes and ends when its bindings are answered. A bound pod that the cache still shows
// as pending is "assumed" and counts as bound. All other state is rebuilt from the caches in each
// cycle. Devices come from the annotations of live pods, so a restart loses and doubles nothing.
#include "local/scheduler.h"

#include "base/clock.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "diagnosis/diagnosis.h"
#include "kube/object.h"
#include "local/controllers/controllers_private.h"
#include "local/pod.h"
#include "local/workqueue.h"
#include "nodes/scheduling.h"

// A new pod has this long to be noticed by the scheduler that it names.
#define UNHEEDED_MS 6000

// A condition that changes for many pending pods at once is written in portions.
#define MAX_LEFT_PENDING 64

#define NO_CLAIMS                                                                                  \
    "cannot allocate all claims (dynamic resource allocation is not supported here: request "      \
    "nvidia.com/gpu instead)"

struct assumed {
    struct local_scheduler *scheduler;
    char *uid, *ns, *name;
    char *node;
    json_t *gpus; // may be NULL
    bool answered;
};

struct local_scheduler {
    struct local_cluster *cluster;
    struct kube_recorder *recorder;
    struct local_workqueue *queue; // of the one key "pass"
    struct gs_hmap *devices;       // struct controllers_filter_devices by node name
    struct gs_hmap *assumed;       // by pod uid
    struct gs_hmap *unheeded; // uid of a pod that no scheduler takes, and has an event -> its key
    const json_t *pools;      // borrowed; NULL: not known
};

struct pass {
    struct local_scheduler *s;
    struct local_reconcile *work;
    struct nodes_snapshot *nodes;
    const json_t **pending;
    size_t n_pending, pending_cap;
    size_t n_left_pending;        // conditions written by this cycle
    json_t *all_nodes, *all_pods; // for diagnoses; NULL: not needed yet
};

// --- assumed pods ---

static void assumed_free(void *p)
{
    struct assumed *a = p;
    free(a->uid);
    free(a->ns);
    free(a->name);
    free(a->node);
    json_decref(a->gpus);
    free(a);
}

static void assumed_drop(struct assumed *a)
{
    assumed_free(gs_hmap_remove_str(a->scheduler->assumed, a->uid));
}

static void bound(void *arg, const json_t *body, const struct gs_error *err)
{
    struct assumed *a = arg;
    a->answered = true;
    if (err)
        assumed_drop(a);
}

// Those that the cache shows as bound, or as gone, need no assuming any more.
static void drop_settled(struct local_scheduler *s)
{
    CODEC_AUTO_JSON json_t *settled = json_array();
    size_t pos = 0, i;
    struct gs_slice key;
    void *v;
    while (gs_hmap_next(s->assumed, &pos, &key, &v)) {
        const struct assumed *a = v;
        const json_t *pod = kube_cache_get(s->cluster->pods, a->ns, a->name);
        if (a->answered && (!pod || !gs_streq(kube_uid(pod), a->uid) || kube_pod_node(pod)))
            json_array_append_new(settled, json_stringn(key.data, key.len));
    }
    json_t *uid;
    json_array_foreach (settled, i, uid) {
        assumed_free(gs_hmap_remove_str(s->assumed, json_string_value(uid)));
    }
}

// --- why a pod waits ---

static const json_t *objects_of(json_t **kept, const struct kube_cache *cache)
{
    if (!*kept)
        *kept = kube_cache_objects(cache);
    return *kept;
}

static bool diagnose(struct pass *p, const json_t *pod, struct diagnosis *ret)
{
    const struct diagnosis_input in = {.pod = pod,
                                       .nodes = objects_of(&p->all_nodes, p->s->cluster->nodes),
                                       .pods = objects_of(&p->all_pods, p->s->cluster->pods),
                                       .pools = p->s->pools,
                                       .now_ms = gs_unix_ms()};
    return diagnosis_of(&in, ret);
}

// Kubernetes' message and, if waiting does not help, why. conditions: what the pod will have.
static void tell(struct pass *p, const json_t *pod, json_t *conditions, const char *message)
{
    DIAGNOSIS_AUTO struct diagnosis d = {0};
    CODEC_AUTO_JSON json_t *next = json_copy((json_t *)pod);
    json_object_set_new(next, "status",
                        json_pack("{s:s, s:O}", "phase", "Pending", "conditions", conditions));
    if (diagnose(p, next, &d) && diagnosis_lasts(d.cause) && strcmp(d.text, message) != 0)
        kube_event(p->s->recorder, pod, "Warning", "FailedScheduling",
                   "%s Cause: %s. What to do: %s.", message, d.text, d.remedy);
    else
        kube_event(p->s->recorder, pod, "Warning", "FailedScheduling", "%s", message);
}

// A pod with the name of another scheduler. If that one does not run, nothing else reports it.
static void take_unheeded(struct pass *p, const json_t *pod)
{
    const char *uid = kube_uid(pod);
    int64_t now = gs_unix_ms();
    int64_t age = now - kube_created_ms(pod, now);
    if (!uid || kube_condition(pod, "PodScheduled") || gs_hmap_get_str(p->s->unheeded, uid))
        return;
    DIAGNOSIS_AUTO struct diagnosis d = {0};
    if (diagnose(p, pod, &d) && d.cause == DIAGNOSIS_SCHEDULER) {
        gs_hmap_put_str(p->s->unheeded, uid, kube_key(pod));
        kube_event(p->s->recorder, pod, "Warning", "FailedScheduling", "%s. What to do: %s.",
                   d.text, d.remedy);
    } else if (age < UNHEEDED_MS) {
        local_reconcile_requeue(p->work, UNHEEDED_MS - age);
    }
}

static void forget_unheeded(struct local_scheduler *s)
{
    size_t pos = 0;
    struct gs_slice uid;
    void *key;
    CODEC_AUTO_JSON json_t *gone = json_array();
    while (gs_hmap_next(s->unheeded, &pos, &uid, &key)) {
        GS_AUTO_FREE char *ns = gs_strndup(key, strcspn(key, "/"));
        const json_t *pod = kube_cache_get(s->cluster->pods, ns, strchr(key, '/') + 1);
        if (!pod || !gs_slice_eq(uid, gs_slice_of(kube_uid(pod))))
            json_array_append_new(gone, json_stringn(uid.data, uid.len));
    }
    size_t i;
    json_t *id;
    json_array_foreach (gone, i, id)
        free(gs_hmap_remove_str(s->unheeded, json_string_value(id)));
}

// --- the state of the nodes ---

static void pass_finish(struct pass *p)
{
    nodes_snapshot_free(p->nodes);
    free(p->pending);
    json_decref(p->all_nodes);
    json_decref(p->all_pods);
}

static void use_devices(struct pass *p, const char *node, const json_t *gpus)
{
    struct controllers_filter_devices *devices = gs_hmap_get_str(p->s->devices, node);
    if (devices)
        controllers_filter_devices_take(devices, gpus);
}

static bool wants_us(const json_t *pod)
{
    const char *name = codec_json_str(pod, "spec", "schedulerName", NULL);
    return !name || !*name || gs_streq(name, "default-scheduler");
}

static void take_pod(struct pass *p, const json_t *pod)
{
    if (kube_pod_has_ended(pod))
        return;
    const char *node = kube_pod_node(pod);
    if (node) {
        const char *text = kube_annotation(pod, LOCAL_ANN_GPUS);
        CODEC_AUTO_JSON json_t *gpus = NULL;
        if (text)
            gs_error_free(codec_json_parse(gs_slice_of(text), false, &gpus));
        nodes_snapshot_add_pod(p->nodes, pod);
        use_devices(p, node, gpus);
        return;
    }
    const char *uid = kube_uid(pod);
    if (kube_is_deleting(pod) || !uid || gs_hmap_get_str(p->s->assumed, uid))
        return;
    if (!wants_us(pod)) {
        take_unheeded(p, pod);
        return;
    }
    gs_grow(&p->pending, &p->pending_cap, p->n_pending, sizeof(*p->pending));
    p->pending[p->n_pending++] = pod;
}

static void take_assumed(struct pass *p)
{
    size_t pos = 0;
    void *v;
    while (gs_hmap_next(p->s->assumed, &pos, NULL, &v)) {
        const struct assumed *a = v;
        const json_t *pod = kube_cache_get(p->s->cluster->pods, a->ns, a->name);
        // One that the cache shows as bound has been counted as such.
        if (!pod || !gs_streq(kube_uid(pod), a->uid) || kube_pod_node(pod))
            continue;
        size_t index = nodes_snapshot_add_pod(p->nodes, pod), node = nodes_find(p->nodes, a->node);
        if (node != NODES_NONE)
            nodes_place(p->nodes, index, node);
        use_devices(p, a->node, a->gpus);
    }
}

static int compare_pods(const void *pa, const void *pb)
{
    const json_t *a = *(const json_t *const *)pa, *b = *(const json_t *const *)pb;
    int64_t pr_a = codec_json_int(a, 0, "spec", "priority", NULL);
    int64_t pr_b = codec_json_int(b, 0, "spec", "priority", NULL);
    if (pr_a != pr_b)
        return pr_a > pr_b ? -1 : 1;
    int64_t t_a = kube_created_ms(a, 0);
    int64_t t_b = kube_created_ms(b, 0);
    if (t_a != t_b)
        return t_a < t_b ? -1 : 1;
    int c = strcmp(kube_namespace(a), kube_namespace(b));
    return c ? c : strcmp(kube_name(a), kube_name(b));
}

static void pass_init(struct pass *p, struct local_scheduler *s, struct local_reconcile *w)
{
    *p = (struct pass){.s = s, .work = w, .nodes = nodes_snapshot_new()};
    size_t pos = 0;
    const json_t *obj;
    while ((obj = kube_cache_next(s->cluster->nodes, &pos)))
        nodes_snapshot_add_node(p->nodes, obj);
    void *devices;
    for (pos = 0; gs_hmap_next(s->devices, &pos, NULL, &devices);)
        controllers_filter_devices_release_all(devices);
    pos = 0;
    while ((obj = kube_cache_next(s->cluster->pods, &pos)))
        take_pod(p, obj);
    take_assumed(p);
    if (p->n_pending)
        qsort(p->pending, p->n_pending, sizeof(*p->pending), compare_pods);
}

// --- outcomes ---

static void bind_pod(struct pass *p, const json_t *pod, const char *node_name, json_t *gpus)
{
    struct local_scheduler *s = p->s;
    const char *ns = kube_namespace(pod), *name = kube_name(pod);
    struct assumed *a = gs_alloc(sizeof(*a));
    *a = (struct assumed){
        .scheduler = s,
        .uid = gs_strdup(kube_uid(pod)),
        .ns = gs_strdup(ns),
        .name = gs_strdup(name),
        .node = gs_strdup(node_name),
        .gpus = json_incref(gpus),
    };
    gs_hmap_put_str(s->assumed, a->uid, a);

    CODEC_AUTO_JSON json_t *binding = json_object();
    codec_json_set_str(binding, "apiVersion", "v1");
    codec_json_set_str(binding, "kind", "Binding");
    codec_json_set(binding, json_string(name), "metadata", "name", NULL);
    codec_json_set(binding, json_string(ns), "metadata", "namespace", NULL);
    codec_json_set(binding, json_string(kube_uid(pod)), "metadata", "uid", NULL);
    if (gpus) { // the API puts a binding's annotations on the pod: both at once or neither
        GS_AUTO_BUF struct gs_buf text = {0};
        codec_json_dump(gpus, &text);
        codec_json_set(binding, json_string(text.data), "metadata", "annotations", LOCAL_ANN_GPUS,
                       NULL);
    }
    codec_json_set(binding, json_string("v1"), "target", "apiVersion", NULL);
    codec_json_set(binding, json_string("Node"), "target", "kind", NULL);
    codec_json_set(binding, json_string(node_name), "target", "name", NULL);
    local_reconcile_create_sub(p->work, KUBE_PODS, ns, name, "binding", binding, bound, a);
    local_reconcile_event(p->work, s->recorder, pod, "Scheduled",
                          "Successfully assigned %s/%s to %s", ns, name, node_name);
}

static void leave_pending(struct pass *p, const json_t *pod, const char *reason,
                          const char *message)
{
    const json_t *was = kube_condition(pod, "PodScheduled");
    if (gs_streq(codec_json_str(was, "status", NULL), "False") &&
        gs_streq(codec_json_str(was, "reason", NULL), reason) &&
        gs_streq(codec_json_str(was, "message", NULL), message))
        return;
    if (p->n_left_pending == MAX_LEFT_PENDING) {
        local_reconcile_requeue(p->work, 0);
        return;
    }
    p->n_left_pending++;
    const json_t *current = codec_json_get(pod, "status", "conditions", NULL);
    json_t *conditions = json_is_array(current) ? json_deep_copy(current) : json_array();
    kube_set_condition(conditions, "PodScheduled", "False", reason, message, gs_unix_ms());
    CODEC_AUTO_JSON json_t *patch = json_object();
    codec_json_set(patch, conditions, "status", "conditions", NULL);
    codec_json_set(patch, json_string(kube_uid(pod)), "metadata", "uid", NULL);
    local_reconcile_patch(p->work, KUBE_PODS, kube_namespace(pod), kube_name(pod), "status", patch,
                          NULL, NULL);
    if (gs_streq(reason, "Unschedulable"))
        tell(p, pod, conditions, message);
}

// --- one pod ---

static bool try_node(struct pass *p, size_t pod, size_t node, struct nodes_reasons *reasons)
{
    if (!nodes_fits(p->nodes, pod, node, reasons))
        return false;
    CODEC_AUTO_JSON json_t *gpus = NULL;
    const char *name = nodes_name(p->nodes, node);
    struct controllers_filter_devices *devices = gs_hmap_get_str(p->s->devices, name);
    // As the node offers them.
    if (devices)
        devices->slices_renamed = nodes_allocatable(p->nodes, node, NODES_GPU_SHARED) > 0;
    if (devices && !controllers_filter_devices_assign(devices, nodes_pod(p->nodes, pod), &gpus)) {
        nodes_reasons_add(reasons, "Insufficient " NODES_GPU, 1);
        return false;
    }
    nodes_place(p->nodes, pod, node);
    bind_pod(p, nodes_pod(p->nodes, pod), name, gpus);
    return true;
}

// The cluster's first node is preferred.
static bool try_nodes(struct pass *p, size_t pod, struct nodes_reasons *reasons)
{
    size_t first = nodes_find(p->nodes, p->s->cluster->node_name);
    if (first != NODES_NONE && try_node(p, pod, first, reasons))
        return true;
    for (size_t i = 0; i < nodes_count(p->nodes); i++)
        if (i != first && try_node(p, pod, i, reasons))
            return true;
    return false;
}

static void schedule(struct pass *p, const json_t *pod)
{
    if (json_array_size(codec_json_get(pod, "spec", "schedulingGates", NULL)) > 0) {
        leave_pending(p, pod, "SchedulingGated",
                      "Scheduling is blocked due to non-empty scheduling gates");
        return;
    }
    struct nodes_reasons reasons = {0};
    bool is_bound = false;
    // Without its devices, the pod must not run.
    if (json_array_size(codec_json_get(pod, "spec", "resourceClaims", NULL)) > 0)
        nodes_reasons_add(&reasons, NO_CLAIMS, nodes_count(p->nodes));
    else
        is_bound = try_nodes(p, nodes_snapshot_add_pod(p->nodes, pod), &reasons);
    if (!is_bound) {
        GS_AUTO_FREE char *message = nodes_reasons_text(nodes_count(p->nodes), &reasons);
        leave_pending(p, pod, "Unschedulable", message);
    }
    nodes_reasons_finish(&reasons);
}

static void run_pass(void *arg, struct local_reconcile *w, const char *ns, const char *key)
{
    struct local_scheduler *s = arg;
    if (!local_cluster_synced(s->cluster)) {
        local_reconcile_requeue(w, 100);
        return;
    }
    GS_CLEANUP(pass_finish) struct pass p;
    drop_settled(s);
    forget_unheeded(s);
    pass_init(&p, s, w);
    for (size_t i = 0; i < p.n_pending; i++)
        schedule(&p, p.pending[i]);
}

// --- changes that start a scheduling cycle ---

static void changed(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct local_scheduler *s = arg;
    local_workqueue_add(s->queue, NULL, "pass");
}

static void devices_free(void *p)
{
    controllers_filter_devices_finish(p);
    free(p);
}

static void add_devices(struct local_scheduler *s, const char *node, const char *const *ids,
                        size_t n)
{
    struct controllers_filter_devices *devices = gs_alloc(sizeof(*devices));
    controllers_filter_devices_init(devices, ids, n);
    gs_hmap_put_str(s->devices, node, devices);
}

struct local_scheduler *controllers_scheduler_new(struct local_cluster *c,
                                                  const char *const *device_ids, size_t n_devices)
{
    struct local_scheduler *s = gs_alloc(sizeof(*s));
    s->cluster = c;
    s->recorder = kube_recorder_new(c->client, "default-scheduler", NULL);
    s->assumed = gs_hmap_new(assumed_free);
    s->unheeded = gs_hmap_new(free);
    s->devices = gs_hmap_new(devices_free);
    s->queue = local_workqueue_new(c->loop, c->client, "scheduler", run_pass, s);
    struct kube_cache_handlers h = {.on_change = changed, .arg = s};
    kube_cache_add_handlers(c->pods, &h);
    kube_cache_add_handlers(c->nodes, &h);
    add_devices(s, c->node_name, device_ids, n_devices);
    return s;
}

void controllers_scheduler_set_devices(struct local_scheduler *s, const char *node,
                                       const char *const *device_ids, size_t n)
{
    struct controllers_filter_devices *old = gs_hmap_remove_str(s->devices, node);
    if (old)
        devices_free(old);
    if (n)
        add_devices(s, node, device_ids, n);
    local_workqueue_add(s->queue, NULL, "pass");
}

void controllers_scheduler_set_pools(struct local_scheduler *s, const json_t *pools)
{
    s->pools = pools;
}

void controllers_scheduler_free(struct local_scheduler *s)
{
    if (!s)
        return;
    kube_cache_remove_handlers(s->cluster->pods, s);
    kube_cache_remove_handlers(s->cluster->nodes, s);
    local_workqueue_free(s->queue);
    kube_recorder_free(s->recorder);
    gs_hmap_free(s->assumed);
    gs_hmap_free(s->unheeded);
    gs_hmap_free(s->devices);
    free(s);
}
