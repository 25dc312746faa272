// SPDX-License-Identifier: Apache-2.0
// The DaemonSet controller: one pod on each node that the pod's node selector, affinity and
// tolerations allow. The pods are bound by the scheduler, through a node affinity that names the
// node.
#include "base/backoff.h"
#include "base/clock.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "kube/object.h"
#include "local/controllers/controllers_private.h"
#include "local/pod.h"
#include "nodes/scheduling.h"

#define BURST             250 // pods created or deleted in one reconciliation
#define LOOK_AGAIN_MS     1000
#define BACKOFF_FIRST_MS  1000 // of failed pods, per node
#define BACKOFF_LAST_MS   (15 * 60 * 1000)
#define GENERATION_LABEL  "pod-template-generation"
#define GENERATION_SOURCE "deprecated.daemonset.template.generation"

struct backoff {
    int64_t delay_ms, last_ms;
};

struct controllers_daemonsets {
    struct controllers_owned owned;
    struct gs_hmap *backoffs; // "uid of the DaemonSet/node" -> struct backoff
    struct gs_hmap *no_node;  // uid -> reason in the last event about a DaemonSet without nodes
};

struct daemon_node { // a node in one reconciliation
    const json_t *node;
    const char *name;
    bool run;     // the pod should run there
    bool keep;    // a running pod may stay
    char *reason; // why not
    struct controllers_pods pods;
};

struct daemon_sync {
    struct controllers_daemonsets *d;
    struct local_reconcile *work;
    const json_t *ds;
    const char *hash; // of the current template
    struct daemon_node *nodes;
    size_t len, cap;
    size_t writes; // pods created and deleted
};

// --- nodes ---

static void add_toleration(json_t *list, const char *key, const char *effect)
{
    size_t i;
    json_t *t;
    json_array_foreach (list, i, t) {
        if (gs_streq(codec_json_str(t, "key", NULL), key) &&
            gs_streq(codec_json_str(t, "operator", NULL), "Exists") &&
            gs_streq(codec_json_str(t, "effect", NULL), effect))
            return;
    }
    t = json_object();
    codec_json_set_str(t, "key", key);
    codec_json_set_str(t, "operator", "Exists");
    codec_json_set_str(t, "effect", effect);
    json_array_append_new(list, t);
}

static void add_tolerations(json_t *pod)
{
    static const char *const always[][2] = {
        {"node.kubernetes.io/not-ready", "NoExecute"},
        {"node.kubernetes.io/unreachable", "NoExecute"},
        {"node.kubernetes.io/disk-pressure", "NoSchedule"},
        {"node.kubernetes.io/memory-pressure", "NoSchedule"},
        {"node.kubernetes.io/pid-pressure", "NoSchedule"},
        {"node.kubernetes.io/unschedulable", "NoSchedule"},
    };
    json_t *list = codec_json_get(pod, "spec", "tolerations", NULL);
    if (!json_is_array(list)) {
        list = json_array();
        codec_json_set(pod, list, "spec", "tolerations", NULL);
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(always); i++)
        add_toleration(list, always[i][0], always[i][1]);
    if (codec_json_bool(pod, false, "spec", "hostNetwork", NULL))
        add_toleration(list, "node.kubernetes.io/network-unavailable", "NoSchedule");
}

static json_t *make_pod(const struct daemon_sync *s)
{
    json_t *pod =
        controllers_pod_from_template(s->ds, codec_json_get(s->ds, "spec", "template", NULL));
    add_tolerations(pod);
    if (!codec_json_get(pod, "metadata", "labels", NULL))
        codec_json_set(pod, json_object(), "metadata", "labels", NULL);
    json_t *labels = codec_json_get(pod, "metadata", "labels", NULL);
    codec_json_set_str(labels, CONTROLLERS_REVISION_LABEL, s->hash);
    const char *generation = kube_annotation(s->ds, GENERATION_SOURCE);
    if (generation)
        codec_json_set_str(labels, GENERATION_LABEL, generation);
    return pod;
}

// The scheduler binds the pod to the node that its affinity names.
static void target_node(json_t *pod, const char *node)
{
    json_t *terms = json_pack("[{s:[{s:s, s:s, s:[s]}]}]", "matchFields", "key", "metadata.name",
                              "operator", "In", "values", node);
    codec_json_set(pod, terms, "spec", "affinity", "nodeAffinity",
                   "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", NULL);
}

static const char *node_of(const json_t *pod)
{
    const char *bound = kube_pod_node(pod);
    if (bound && *bound)
        return bound;
    const json_t *terms =
        codec_json_get(pod, "spec", "affinity", "nodeAffinity",
                       "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", NULL);
    const json_t *field =
        json_array_get(json_object_get(json_array_get(terms, 0), "matchFields"), 0);
    if (!gs_streq(codec_json_str(field, "key", NULL), "metadata.name"))
        return NULL;
    return json_string_value(json_array_get(json_object_get(field, "values"), 0));
}

static void judge_node(struct daemon_node *n, const json_t *pod)
{
    const char *fixed = kube_pod_node(pod);
    if ((fixed && *fixed && !gs_streq(fixed, n->name)) || !nodes_selects(pod, n->node)) {
        n->reason = gs_strdup(NODES_NOT_SELECTED);
        return;
    }
    n->reason = nodes_untolerated_taint(pod, n->node, false);
    n->run = !n->reason;
    GS_AUTO_FREE char *evicts = nodes_untolerated_taint(pod, n->node, true);
    n->keep = !evicts;
}

static int compare_nodes(const void *pa, const void *pb)
{
    const struct daemon_node *a = pa, *b = pb;
    return strcmp(a->name, b->name);
}

static void read_nodes(struct daemon_sync *s)
{
    CODEC_AUTO_JSON json_t *pod = make_pod(s);
    size_t pos = 0;
    const json_t *node;
    while ((node = kube_cache_next(s->d->owned.cluster->nodes, &pos))) {
        gs_grow(&s->nodes, &s->cap, s->len, sizeof(*s->nodes));
        struct daemon_node *n = &s->nodes[s->len++];
        *n = (struct daemon_node){.node = node, .name = kube_name(node)};
        judge_node(n, pod);
    }
    if (s->len)
        qsort(s->nodes, s->len, sizeof(*s->nodes), compare_nodes);
}

static struct daemon_node *node_named(struct daemon_sync *s, const char *name)
{
    for (size_t i = 0; name && i < s->len; i++)
        if (strcmp(s->nodes[i].name, name) == 0)
            return &s->nodes[i];
    return NULL;
}

static void sync_finish(struct daemon_sync *s)
{
    for (size_t i = 0; i < s->len; i++) {
        controllers_pods_finish(&s->nodes[i].pods);
        free(s->nodes[i].reason);
    }
    free(s->nodes);
}

// --- pods of a node ---

static bool is_current(const struct daemon_sync *s, const json_t *pod)
{
    return gs_streq(kube_label(pod, CONTROLLERS_REVISION_LABEL), s->hash);
}

static bool is_available(const struct daemon_sync *s, const json_t *pod)
{
    return controllers_pod_available(s->work, pod,
                                     codec_json_int(s->ds, 0, "spec", "minReadySeconds", NULL));
}

static void delete_pod(struct daemon_sync *s, const json_t *pod)
{
    if (kube_is_deleting(pod) || s->writes >= BURST)
        return;
    s->writes++;
    controllers_owned_delete(&s->d->owned, s->work, s->ds, pod);
}

static void create_pod(struct daemon_sync *s, const struct daemon_node *n)
{
    if (s->writes >= BURST)
        return;
    s->writes++;
    CODEC_AUTO_JSON json_t *pod = make_pod(s);
    target_node(pod, n->name);
    controllers_owned_create(&s->d->owned, s->work, s->ds, pod);
}

// A failed pod is deleted, so that another one replaces it: at most once per back-off period.
static void replace_failed(struct daemon_sync *s, const struct daemon_node *n, const json_t *pod)
{
    GS_AUTO_FREE char *key = gs_format("%s/%s", kube_uid(s->ds), n->name);
    struct backoff *b = gs_hmap_get_str(s->d->backoffs, key);
    int64_t now = gs_mono_ns() / GS_NS_PER_MS;
    if (!b) {
        b = gs_alloc(sizeof(*b));
        gs_hmap_put_str(s->d->backoffs, key, b);
    } else if (now - b->last_ms < b->delay_ms) {
        local_reconcile_requeue(s->work, b->delay_ms - (now - b->last_ms));
        return;
    }
    if (now - b->last_ms > 2 * (int64_t)BACKOFF_LAST_MS)
        b->delay_ms = 0;
    b->delay_ms = gs_backoff_next(b->delay_ms, BACKOFF_FIRST_MS, BACKOFF_LAST_MS);
    b->last_ms = now;
    kube_event(s->d->owned.recorder, s->ds, "Warning", "FailedDaemonPod",
               "Found failed daemon pod %s/%s on node %s, will try to kill it", kube_namespace(pod),
               kube_name(pod), n->name);
    delete_pod(s, pod);
}

struct pair { // of a node with one current and one old pod, at most
    const json_t *current, *old;
    bool valid;
};

static struct pair live_pods(const struct daemon_sync *s, const struct daemon_node *n)
{
    struct pair p = {0};
    for (size_t i = 0; i < n->pods.len; i++) {
        const json_t *pod = n->pods.items[i];
        const json_t **slot = is_current(s, pod) ? &p.current : &p.old;
        if (kube_is_deleting(pod))
            continue;
        if (*slot)
            return (struct pair){0};
        *slot = pod;
    }
    p.valid = p.current || p.old;
    return p;
}

// --- one pod on each node ---

static int64_t max_surge(const struct daemon_sync *s, int64_t desired)
{
    const json_t *update = codec_json_get(s->ds, "spec", "updateStrategy", NULL);
    if (!gs_streq(codec_json_str(update, "type", NULL), "RollingUpdate"))
        return 0;
    return local_scaled(codec_json_get(update, "rollingUpdate", "maxSurge", NULL), desired, true,
                        0);
}

static int64_t max_unavailable(const struct daemon_sync *s, int64_t desired)
{
    const json_t *value =
        codec_json_get(s->ds, "spec", "updateStrategy", "rollingUpdate", "maxUnavailable", NULL);
    return local_scaled(value, desired, true, 1);
}

// Keeps the oldest pod. During a surge, keeps the oldest current and the oldest old one, until the
// current one is available.
static void drop_surplus(struct daemon_sync *s, struct controllers_pods *running, bool surge)
{
    if (running->len < 2)
        return;
    controllers_pods_sort_by_age(running);
    if (!surge) {
        for (size_t i = 1; i < running->len; i++)
            delete_pod(s, running->items[i]);
        return;
    }
    const json_t *current = NULL, *old = NULL;
    for (size_t i = 0; i < running->len; i++) {
        const json_t **slot = is_current(s, running->items[i]) ? &current : &old;
        if (!*slot)
            *slot = running->items[i];
        else
            delete_pod(s, running->items[i]);
    }
    if (current && old && (is_available(s, current) || !local_pod_ready(old)))
        delete_pod(s, old);
}

static void manage_node(struct daemon_sync *s, struct daemon_node *n, bool surge)
{
    GS_CLEANUP(controllers_pods_finish) struct controllers_pods running = {0};
    if (n->run && n->pods.len == 0) {
        create_pod(s, n);
        return;
    }
    for (size_t i = 0; i < n->pods.len; i++) {
        const json_t *pod = n->pods.items[i];
        if (kube_is_deleting(pod))
            continue;
        if (!n->keep || gs_streq(local_pod_phase(pod), "Succeeded"))
            delete_pod(s, pod);
        else if (gs_streq(local_pod_phase(pod), "Failed"))
            replace_failed(s, n, pod);
        else
            controllers_pods_add(&running, pod);
    }
    drop_surplus(s, &running, surge);
}

// --- rolling update ---

static void replace_old_pods(struct daemon_sync *s, int64_t limit)
{
    int64_t unavailable = 0;
    GS_CLEANUP(controllers_pods_finish) struct controllers_pods candidates = {0};
    for (size_t i = 0; i < s->len; i++) {
        if (!s->nodes[i].pods.len)
            continue;
        struct pair p = live_pods(s, &s->nodes[i]);
        if (!p.valid || (p.current && p.old)) {
            unavailable++; // the next reconciliations create or delete pods there
        } else if (p.current) {
            unavailable += !is_available(s, p.current);
        } else if (is_available(s, p.old)) {
            controllers_pods_add(&candidates, p.old);
        } else {
            unavailable++;
            delete_pod(s, p.old);
        }
    }
    for (size_t i = 0; i < candidates.len && unavailable < limit; i++, unavailable++)
        delete_pod(s, candidates.items[i]);
}

static void surge_new_pods(struct daemon_sync *s, int64_t limit)
{
    int64_t surging = 0;
    for (size_t i = 0; i < s->len; i++) {
        struct pair p = live_pods(s, &s->nodes[i]);
        surging += s->nodes[i].pods.len > 0 && (!p.valid || (p.current && p.old));
    }
    for (size_t i = 0; i < s->len; i++) {
        struct daemon_node *n = &s->nodes[i];
        struct pair p = live_pods(s, n);
        if (!p.valid || !n->run || !p.old)
            continue;
        if (p.current) {
            if (is_available(s, p.current))
                delete_pod(s, p.old);
        } else if (!is_available(s, p.old)) {
            create_pod(s, n); // nothing is lost
        } else if (surging < limit) {
            surging++;
            create_pod(s, n);
        }
    }
}

static void manage(struct daemon_sync *s)
{
    int64_t desired = 0;
    for (size_t i = 0; i < s->len; i++)
        desired += s->nodes[i].run;
    int64_t surge = max_surge(s, desired), unavailable = max_unavailable(s, desired);
    for (size_t i = 0; i < s->len; i++)
        manage_node(s, &s->nodes[i], surge > 0);
    if (s->writes ||
        !gs_streq(codec_json_str(s->ds, "spec", "updateStrategy", "type", NULL), "RollingUpdate"))
        return;
    if (surge > 0)
        surge_new_pods(s, surge);
    else
        replace_old_pods(s, unavailable > 0 ? unavailable : 1);
}

// --- status ---

struct daemon_counts {
    int64_t desired, current, misscheduled, ready, available, updated;
};

static void count_node(const struct daemon_sync *s, struct daemon_node *n,
                       struct daemon_counts *counts)
{
    bool scheduled = n->pods.len > 0;
    if (!n->run) {
        counts->misscheduled += scheduled;
        return;
    }
    counts->desired++;
    if (!scheduled)
        return;
    counts->current++;
    controllers_pods_sort_by_age(&n->pods);
    const json_t *pod = n->pods.items[0];
    for (size_t i = 0; i < n->pods.len; i++)
        if (local_pod_active(n->pods.items[i])) {
            pod = n->pods.items[i];
            break;
        }
    counts->updated += is_current(s, pod);
    if (!local_pod_ready(pod))
        return;
    counts->ready++;
    counts->available += is_available(s, pod);
}

static void write_status(struct daemon_sync *s, const struct daemon_counts *n)
{
    const json_t *old = json_object_get(s->ds, "status");
    CODEC_AUTO_JSON json_t *status = json_is_object(old) ? json_deep_copy(old) : json_object();
    codec_json_set_int(status, "currentNumberScheduled", n->current);
    codec_json_set_int(status, "numberMisscheduled", n->misscheduled);
    codec_json_set_int(status, "desiredNumberScheduled", n->desired);
    codec_json_set_int(status, "numberReady", n->ready);
    codec_json_set_int(status, "observedGeneration",
                       codec_json_int(s->ds, 1, "metadata", "generation", NULL));
    controllers_set_count(status, "updatedNumberScheduled", n->updated);
    controllers_set_count(status, "numberAvailable", n->available);
    controllers_set_count(status, "numberUnavailable", n->desired - n->available);
    controllers_write_status(s->work, KUBE_DAEMONSETS, s->ds, status);
}

// Kubernetes does not report this: a DaemonSet without nodes has desired 0 and looks complete.
static void report_no_node(struct daemon_sync *s, int64_t desired)
{
    const char *uid = kube_uid(s->ds);
    if (desired > 0 || s->len == 0) {
        free(gs_hmap_remove_str(s->d->no_node, uid));
        return;
    }
    struct nodes_reasons reasons = {0};
    for (size_t i = 0; i < s->len; i++)
        nodes_reasons_add(&reasons, s->nodes[i].reason, 1);
    GS_AUTO_FREE char *why = nodes_reasons_text(s->len, &reasons);
    nodes_reasons_finish(&reasons);
    struct gs_buf text = {0};
    gs_buf_addf(&text, "The DaemonSet runs on no node. %s", why);
    const char *key;
    json_t *value;
    const char *separator = " Its nodeSelector is ";
    json_object_foreach (codec_json_get(s->ds, "spec", "template", "spec", "nodeSelector", NULL),
                         key, value) {
        gs_buf_addf(&text, "%s%s=%s", separator, key,
                    json_string_value(value) ? json_string_value(value) : "");
        separator = ",";
    }
    if (*separator == ',')
        gs_buf_add_char(&text, '.');
    char *message = gs_buf_take(&text);
    if (!gs_streq(gs_hmap_get_str(s->d->no_node, uid), message))
        kube_event(s->d->owned.recorder, s->ds, "Warning", "NoNodeSelected", "%s", message);
    gs_hmap_put_str(s->d->no_node, uid, message);
}

// --- one DaemonSet ---

static void sync_daemonset(void *arg, struct local_reconcile *w, const json_t *ds,
                           const struct kube_selector *selector)
{
    struct controllers_daemonsets *d = arg;
    GS_CLEANUP(controllers_revisions_finish) struct controllers_revisions revisions = {0};
    GS_CLEANUP(controllers_pods_finish) struct controllers_pods pods = {0};
    if (kube_is_deleting(ds))
        return;
    bool claimed = controllers_owned_claim(&d->owned, w, ds, selector, false, &pods);
    if (!controllers_revisions_sync(d->owned.cluster, w, ds, selector, &revisions))
        return; // the change of the revision reconciles the DaemonSet again
    GS_CLEANUP(sync_finish)
    struct daemon_sync s = {
        .d = d, .work = w, .ds = ds, .hash = controllers_revision_hash(revisions.latest)};
    read_nodes(&s);
    for (size_t i = 0; i < pods.len; i++) {
        struct daemon_node *n = node_named(&s, node_of(pods.items[i]));
        if (n)
            controllers_pods_add(&n->pods, pods.items[i]);
    }
    if (!controllers_owned_settled(&d->owned, ds))
        local_reconcile_requeue(w, LOOK_AGAIN_MS);
    else if (claimed)
        local_reconcile_requeue(w, 0);
    else if (!local_namespace_goes(d->owned.cluster, kube_namespace(ds)))
        manage(&s);
    struct daemon_counts counts = {0};
    for (size_t i = 0; i < s.len; i++)
        count_node(&s, &s.nodes[i], &counts);
    controllers_revisions_truncate(w, ds, &revisions, &pods, NULL);
    report_no_node(&s, counts.desired);
    write_status(&s, &counts);
}

// --- changes that reconcile DaemonSets ---

// Heartbeats change only the status of a node.
static void node_changed(void *arg, const json_t *old_node, const json_t *new_node)
{
    struct controllers_daemonsets *d = arg;
    if (old_node && new_node &&
        json_equal(codec_json_get(old_node, "metadata", "labels", NULL),
                   codec_json_get(new_node, "metadata", "labels", NULL)) &&
        json_equal(codec_json_get(old_node, "spec", "taints", NULL),
                   codec_json_get(new_node, "spec", "taints", NULL)))
        return;
    size_t pos = 0;
    const json_t *ds;
    while ((ds = kube_cache_next(d->owned.cluster->daemonsets, &pos)))
        local_workqueue_add_object(d->owned.queue, ds);
}

static void daemonset_gone(void *arg, const json_t *ds)
{
    struct controllers_daemonsets *d = arg;
    GS_AUTO_FREE char *prefix = gs_format("%s/", kube_uid(ds));
    struct gs_slice key;
    size_t pos = 0;
    free(gs_hmap_remove_str(d->no_node, kube_uid(ds)));
    while (gs_hmap_next(d->backoffs, &pos, &key, NULL))
        if (gs_slice_starts(key, prefix)) {
            GS_AUTO_FREE char *dup = gs_slice_dup(key);
            free(gs_hmap_remove_str(d->backoffs, dup));
            pos = 0;
        }
}

struct controllers_daemonsets *controllers_daemonsets_new(struct local_cluster *c)
{
    struct controllers_daemonsets *d = gs_alloc(sizeof(*d));
    const struct controllers_owned_kind kind = {
        .kind = "DaemonSet",
        .component = "daemonset-controller",
        .queue = "daemonset",
        .owners = c->daemonsets,
        .revisions = true,
        .sync = sync_daemonset,
        .owner_gone = daemonset_gone,
        .arg = d,
    };
    d->backoffs = gs_hmap_new(free);
    d->no_node = gs_hmap_new(free);
    controllers_owned_init(&d->owned, c, &kind);
    struct kube_cache_handlers of_nodes = {.on_change = node_changed, .arg = d};
    kube_cache_add_handlers(c->nodes, &of_nodes);
    return d;
}

void controllers_daemonsets_free(struct controllers_daemonsets *d)
{
    if (!d)
        return;
    kube_cache_remove_handlers(d->owned.cluster->nodes, d);
    controllers_owned_finish(&d->owned);
    gs_hmap_free(d->backoffs);
    gs_hmap_free(d->no_node);
    free(d);
}
