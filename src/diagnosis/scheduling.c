// SPDX-License-Identifier: Apache-2.0
// Why a pod has no node. The words of the scheduler say what is short now; nodes and pools say
// whether waiting, more nodes or a change of the pod helps.
#include "nodes/scheduling.h"
#include "base/mem.h"
#include "diagnosis/diagnosis_private.h"
#include "kube/object.h"
#include "kube/quantity.h"
#include "nodes/pool.h"

enum {
    OWN_PATIENCE_MS = 5000,     // of another scheduler: time to look at a new pod
    DEFAULT_PATIENCE_MS = 30000 // of a busy kube-scheduler
};

#define DEFAULT_SCHEDULER "default-scheduler"

// The scheduler's message, and what d gets; all causes fill it by set().
static void set(struct diagnosis *d, enum diagnosis_cause cause, const char *reason, char *text,
                char *remedy)
{
    d->cause = cause;
    d->reason = reason;
    d->text = text;
    d->remedy = remedy;
    d->identity = gs_strdup(text);
}

static const char *condition_text(const struct diagnosis_input *in, const char *member)
{
    return diagnosis_str(codec_json_str(kube_condition(in->pod, "PodScheduled"), member, NULL));
}

// --- gates, claims, volumes, preemption ---

static bool find_scheduling_gate(const struct diagnosis_input *in, struct diagnosis *d)
{
    const json_t *gates = codec_json_get(in->pod, "spec", "schedulingGates", NULL);
    GS_AUTO_BUF struct gs_buf names = {0};
    bool kueue = false;
    size_t i;
    json_t *gate;
    json_array_foreach ((json_t *)gates, i, gate) {
        const char *name = diagnosis_str(codec_json_str(gate, "name", NULL));
        gs_buf_addf(&names, "%s%s", i ? ", " : "", name);
        kueue = kueue || gs_starts(name, "kueue.x-k8s.io/");
    }
    if (!names.len)
        return false;
    set(d, DIAGNOSIS_GATED, "SchedulingGated",
        gs_format("it is held by spec.schedulingGates: %s", names.data),
        gs_strdup(
            kueue
                ? "Kueue removes the gate when it admits the workload: kubectl get workloads"
                : "remove its schedulingGates when it may run: the controller that set them does"));
    return true;
}

static bool find_claim(const struct diagnosis_input *in, const char *message, struct diagnosis *d)
{
    if (!json_array_size(codec_json_get(in->pod, "spec", "resourceClaims", NULL)) ||
        (!strstr(message, "claim") && !strstr(message, "Claim")))
        return false;
    set(d, DIAGNOSIS_CLAIM, "Unschedulable", diagnosis_excerpt(message),
        gs_strdup(
            diagnosis_is_embedded(in)
                ? "replace resourceClaims by nvidia.com/gpu in resources.limits"
                : "kubectl get resourceclaims,deviceclasses,resourceslices: a DRA driver must "
                  "publish devices that the claim selects"));
    return true;
}

static bool find_volume(const struct diagnosis_input *in, const char *message, struct diagnosis *d)
{
    if (diagnosis_find_missing(in, "Unschedulable", message, d))
        return true;
    bool unbound = strstr(message, "unbound immediate PersistentVolumeClaims");
    bool conflict = strstr(message, "volume node affinity conflict");
    if (!unbound && !conflict)
        return false;
    set(d, DIAGNOSIS_VOLUME, "Unschedulable", diagnosis_excerpt(message),
        gs_strdup(
            unbound
                ? "kubectl get pvc,storageclass: no volume and no StorageClass provides the claim"
                : "the volume is in another zone or on another node: add nodes there, or "
                  "create the claim again with volumeBindingMode: WaitForFirstConsumer"));
    return true;
}

static bool find_preemption(const struct diagnosis_input *in, struct diagnosis *d)
{
    const char *node = codec_json_str(in->pod, "status", "nominatedNodeName", NULL);
    if (!node || !*node)
        return false;
    set(d, DIAGNOSIS_PREEMPTS, "Unschedulable",
        gs_format("it waits until pods with a lower priority have left node %s", node),
        gs_strdup("wait for their terminationGracePeriodSeconds"));
    return true;
}

// --- nodes and machines of pools ---

// Nodes come first, then a machine of each pool. NULL: past the end.
static const json_t *place_at(const struct diagnosis_input *in, size_t i)
{
    size_t n = json_array_size(in->nodes);
    return i < n ? json_array_get(in->nodes, i)
                 : json_object_get(json_array_get(in->pools, i - n), "node");
}

static size_t n_places(const struct diagnosis_input *in)
{
    return json_array_size(in->nodes) + json_array_size(in->pools);
}

// "no node and no pool has"; pools that are not known are not named.
static const char *nothing_has(const struct diagnosis_input *in)
{
    return json_array_size(in->pools) ? "no node and no pool has" : "no node has";
}

static int64_t offer(const json_t *place, const char *resource)
{
    return nodes_milli_of(codec_json_get(place, "status", "allocatable", resource, NULL));
}

static int64_t largest_offer(const struct diagnosis_input *in, const char *resource)
{
    int64_t most = 0;
    for (size_t i = 0; i < n_places(in); i++) {
        int64_t milli = offer(place_at(in, i), resource);
        most = milli > most ? milli : most;
    }
    return most;
}

// Whether an empty place has what the pod requests. CPU, memory and storage that it does not list
// do not limit it, as in kube-scheduler.
static bool suits(const json_t *place, const json_t *requests)
{
    const char *name;
    json_t *milli;
    json_object_foreach ((json_t *)requests, name, milli) {
        bool listed = codec_json_get(place, "status", "allocatable", name, NULL);
        if ((listed || strchr(name, '/')) && json_integer_value(milli) > offer(place, name))
            return false;
    }
    return true;
}

// The first place that suits, from *pos on; NULL: no further one.
static const json_t *next_suitable(const struct diagnosis_input *in, const json_t *requests,
                                   size_t *pos)
{
    while (*pos < n_places(in)) {
        const json_t *place = place_at(in, (*pos)++);
        if (suits(place, requests))
            return place;
    }
    return NULL;
}

static bool pool_fits(const struct diagnosis_input *in, const json_t *pool, const json_t *requests)
{
    const json_t *node = json_object_get(pool, "node");
    GS_AUTO_FREE char *taint = nodes_untolerated_taint(in->pod, node, false);
    return !taint && nodes_selects(in->pod, node) && suits(node, requests);
}

// --- resources ---

static char *resource_remedy(const struct diagnosis_input *in, const char *resource)
{
    if (gs_streq(resource, NODES_GPU) && diagnosis_is_embedded(in))
        return gs_strdup("start with GPUs (--gpus) or a pool of machines with GPUs (--pool)");
    if (gs_streq(resource, NODES_GPU))
        return gs_strdup(
            "add a node with GPUs and the NVIDIA device plugin; gpuscale doctor checks both");
    return gs_format("more nodes do not help by themselves: %s", diagnosis_provider_of(resource));
}

// The names of resources that nothing offers; ret_first: the one that decides on the advice, which
// is not nvidia.com/gpu if there is another. Returns how many.
static size_t unknown_resources(const struct diagnosis_input *in, const json_t *requests,
                                struct gs_buf *names, const char **ret_first)
{
    const char *name, *first = NULL;
    size_t n = 0;
    json_t *milli;
    json_object_foreach ((json_t *)requests, name, milli) {
        bool extended = strchr(name, '/') || gs_starts(name, "hugepages-");
        if (!extended || json_integer_value(milli) <= 0 || largest_offer(in, name) > 0)
            continue;
        gs_buf_addf(names, "%s%s", n++ ? ", " : "", name);
        if (!first || gs_streq(first, NODES_GPU))
            first = name;
    }
    *ret_first = first;
    return n;
}

static bool find_unknown_resource(const struct diagnosis_input *in, const json_t *requests,
                                  struct diagnosis *d)
{
    GS_AUTO_BUF struct gs_buf names = {0};
    const char *first;
    size_t n = unknown_resources(in, requests, &names, &first);
    if (!n)
        return false;
    set(d, DIAGNOSIS_RESOURCE, "Unschedulable",
        gs_format("nothing here provides %s: %s %s", names.data, nothing_has(in),
                  n > 1 ? "these resources" : "this resource"),
        resource_remedy(in, first));
    free(d->identity);
    d->identity = gs_strdup(first);
    return true;
}

static char *amount(const char *resource, int64_t milli)
{
    char text[KUBE_QUANTITY_SIZE];
    bool bytes = gs_streq(resource, "memory") || gs_streq(resource, "ephemeral-storage");
    return gs_strdup(bytes ? kube_quantity_format_bytes(milli / 1000, text)
                           : kube_quantity_format_milli(milli, text));
}

static bool find_too_large(const struct diagnosis_input *in, const json_t *requests,
                           struct diagnosis *d)
{
    const char *name;
    json_t *milli;
    json_object_foreach ((json_t *)requests, name, milli) {
        int64_t most = largest_offer(in, name);
        if (most <= 0 || json_integer_value(milli) <= most)
            continue;
        GS_AUTO_FREE char *want = amount(name, json_integer_value(milli)),
                          *have = amount(name, most);
        set(d, DIAGNOSIS_TOO_LARGE, "Unschedulable",
            gs_format("it requests %s %s, and the largest node%s has %s", want, name,
                      json_array_size(in->pools) ? " or machine of a pool" : "", have),
            gs_format("request at most %s for each pod, or %s", have,
                      diagnosis_is_embedded(in) ? "start with larger machines (--gpus, --pool)"
                                                : "add larger nodes"));
        return true;
    }
    size_t pos = 0;
    if (next_suitable(in, requests, &pos))
        return false;
    set(d, DIAGNOSIS_TOO_LARGE, "Unschedulable",
        gs_format("%s all that it requests together", nothing_has(in)),
        gs_strdup(
            "request less for each pod, or add larger nodes: compare with kubectl describe nodes"));
    return true;
}

// --- selectors ---

// "there are nvidia-l4, nvidia-tesla-v100": the values of a label, at most three; "": none.
static char *values_of(const struct diagnosis_input *in, const char *key)
{
    CODEC_AUTO_JSON json_t *seen = json_object();
    GS_AUTO_BUF struct gs_buf out = {0};
    for (size_t i = 0; i < n_places(in) && json_object_size(seen) < 3; i++) {
        const char *value = kube_label(place_at(in, i), key);
        if (!value || json_object_get(seen, value))
            continue;
        gs_buf_addf(&out, "%s%s", out.len ? ", " : "; they have ", value);
        json_object_set_new(seen, value, json_true());
    }
    return out.len ? gs_buf_take(&out) : gs_strdup("");
}

static bool any_has_label(const struct diagnosis_input *in, const json_t *requests, const char *key,
                          const char *value)
{
    size_t pos = 0;
    for (const json_t *place; (place = next_suitable(in, requests, &pos));)
        if (gs_streq(kube_label(place, key), value))
            return true;
    return false;
}

static char *selector_text(const struct diagnosis_input *in, const json_t *requests,
                           char **ret_label)
{
    static const char and_resources[] = " and the resources that it requests";
    const char *key;
    json_t *value;
    json_object_foreach (codec_json_get(in->pod, "spec", "nodeSelector", NULL), key, value) {
        const char *want = diagnosis_str(json_string_value(value));
        if (any_has_label(in, requests, key, want))
            continue;
        CODEC_AUTO_JSON json_t *nothing = json_object();
        bool too_small = any_has_label(in, nothing, key, want);
        GS_AUTO_FREE char *others = too_small ? gs_strdup("") : values_of(in, key);
        *ret_label = gs_format("%s=%s", key, want);
        return gs_format("%s the label %s=%s of its nodeSelector%s%s", nothing_has(in), key, want,
                         too_small ? and_resources : "", others);
    }
    return gs_format("%s all labels of its nodeSelector and node affinity%s", nothing_has(in),
                     json_object_size(requests) ? and_resources : "");
}

static bool find_selector(const struct diagnosis_input *in, const json_t *requests,
                          struct diagnosis *d)
{
    GS_AUTO_FREE char *label = NULL;
    size_t pos = 0;
    for (const json_t *place; (place = next_suitable(in, requests, &pos));)
        if (nodes_selects(in->pod, place))
            return false;
    char *text = selector_text(in, requests, &label);
    bool pools = diagnosis_is_embedded(in);
    char *remedy =
        label ? gs_format("correct the nodeSelector, or kubectl label node NODE %s%s%s", label,
                          pools ? ", or start with --pool …,label=" : "", pools ? label : "")
              : gs_strdup(
                    "compare its nodeSelector and affinity with kubectl get nodes --show-labels");
    set(d, DIAGNOSIS_SELECTOR, "Unschedulable", text, remedy);
    return true;
}

// --- taints ---

static const char *untolerated_key(const json_t *pod, const json_t *node)
{
    const json_t *taint;
    size_t i;
    json_array_foreach (codec_json_get(node, "spec", "taints", NULL), i, taint) {
        CODEC_AUTO_JSON json_t *alone = json_pack("{s:{s:[O]}}", "spec", "taints", taint);
        GS_AUTO_FREE char *text = nodes_untolerated_taint(pod, alone, false);
        if (text)
            return codec_json_str(taint, "key", NULL);
    }
    return NULL;
}

static char *taint_remedy(const json_t *place, const char *key)
{
    if (codec_json_bool(place, false, "spec", "unschedulable", NULL) ||
        gs_streq(key, "node.kubernetes.io/unschedulable"))
        return gs_format("kubectl uncordon %s", kube_name(place));
    if (gs_starts(key, "node.kubernetes.io/"))
        return gs_format("kubectl describe node %s: the taint goes when the node has recovered",
                         kube_name(place));
    return gs_format("add a toleration to the pod (tolerations: [{key: %s, operator: Exists}]), or "
                     "remove the taint with kubectl taint",
                     key);
}

// All nodes and pools that the pod selects are closed to it.
static bool find_taint(const struct diagnosis_input *in, const json_t *requests,
                       struct diagnosis *d)
{
    const json_t *closed = NULL;
    size_t pos = 0;
    for (const json_t *place; (place = next_suitable(in, requests, &pos));) {
        if (!nodes_selects(in->pod, place))
            continue;
        bool cordoned = codec_json_bool(place, false, "spec", "unschedulable", NULL);
        GS_AUTO_FREE char *taint = nodes_untolerated_taint(in->pod, place, false);
        if (!taint && !cordoned)
            return false;
        closed = closed ? closed : place;
    }
    if (!closed)
        return false;
    const char *key = untolerated_key(in->pod, closed);
    const char *shown = key ? key : "node.kubernetes.io/unschedulable";
    set(d, DIAGNOSIS_TAINT, "Unschedulable",
        gs_format("it tolerates the taints of no node%s: %s of %s",
                  json_array_size(in->pools) ? " and no pool" : "", shown, kube_name(closed)),
        taint_remedy(closed, shown));
    return true;
}

// --- pools ---

// Adds the name of the pool that was ordered for the pod if it has GPUs, which the pod does not
// request: "[{t4 0->1 (max: 8)}]".
static const char *wasted_pool(const struct diagnosis_input *in, const char *message,
                               const json_t *requests)
{
    size_t i;
    json_t *pool;
    json_array_foreach ((json_t *)in->pools, i, pool) {
        const char *name = diagnosis_str(codec_json_str(pool, "name", NULL));
        GS_AUTO_FREE char *head = gs_format("{%s ", name);
        if (strstr(message, head) && nodes_pool_attracts(pool, requests))
            return name;
    }
    return NULL;
}

static bool find_coming(const struct diagnosis_input *in, const char *message,
                        const json_t *requests, struct diagnosis *d)
{
    const json_t *up = diagnosis_event(in, "TriggeredScaleUp", "", 0);
    const json_t *no = diagnosis_event(in, "NotTriggerScaleUp", "", 0);
    if (!up || (no && diagnosis_time(no, "lastTimestamp") > diagnosis_time(up, "lastTimestamp")))
        return false;
    GS_AUTO_FREE char *name = diagnosis_pod_name(in);
    const char *pool =
        wasted_pool(in, diagnosis_str(codec_json_str(up, "message", NULL)), requests);
    GS_AUTO_FREE char *waste =
        pool ? gs_format("; the pod requests no GPU: the taint " NODES_GPU_TAINT
                         " keeps such pods off pool %s",
                         pool)
             : gs_strdup("");
    set(d, DIAGNOSIS_COMING, "Unschedulable", diagnosis_excerpt(message),
        gs_format("wait for the node that was triggered: gpuscale explain pod %s%s", name, waste));
    free(d->identity);
    d->identity = gs_strdup("scale-up"); // the message changes with each new node
    return true;
}

// The Cluster Autoscaler's words for limits.
static bool says_full(const char *event)
{
    return strstr(event, "max node group size reached") || strstr(event, "max total nodes") ||
           strstr(event, "max cluster");
}

static int64_t pool_size(const struct diagnosis_input *in, const json_t *pool)
{
    int64_t n = 0;
    size_t i;
    json_t *node;
    json_array_foreach ((json_t *)in->nodes, i, node)
        n += gs_streq(nodes_pool_label(node), codec_json_str(pool, "name", NULL));
    return n;
}

// The first pool that could take the pod and is at its maximum; NULL: none.
static const json_t *full_pool(const struct diagnosis_input *in, const json_t *requests)
{
    size_t i;
    json_t *pool;
    json_array_foreach ((json_t *)in->pools, i, pool)
        if (pool_size(in, pool) >= codec_json_int(pool, 0, "max", NULL) &&
            pool_fits(in, pool, requests))
            return pool;
    return NULL;
}

static bool find_full(const struct diagnosis_input *in, const char *message, const json_t *requests,
                      struct diagnosis *d)
{
    const json_t *no = diagnosis_event(in, "NotTriggerScaleUp", "", 0);
    const char *event = diagnosis_str(codec_json_str(no, "message", NULL));
    const json_t *pool = full_pool(in, requests);
    if (!pool && !says_full(event))
        return false;
    GS_AUTO_FREE char *words = diagnosis_excerpt(message);
    GS_AUTO_FREE char *which = pool ? gs_format("pool %s has its maximum of %lld nodes",
                                                codec_json_str(pool, "name", NULL),
                                                (long long)codec_json_int(pool, 0, "max", NULL))
                                    : diagnosis_excerpt(event);
    set(d, DIAGNOSIS_POOL_FULL, "Unschedulable", gs_format("%s %s", words, which),
        gs_strdup(
            diagnosis_is_embedded(in)
                ? "raise the maximum of the pool (--pool), or lower replicas or maxReplicas"
                : "raise the maximum of the node group (eksctl scale nodegroup --nodes-max=N, "
                  "gcloud container node-pools update --max-nodes=N), or lower replicas or "
                  "maxReplicas"));
    return true;
}

// --- what is in use ---

static const char *busy_remedy(const struct diagnosis_input *in, const char *message)
{
    bool embedded = diagnosis_is_embedded(in);
    if (strstr(message, "Insufficient nvidia.com/gpu"))
        return embedded
                   ? "start with more GPUs or time slices (--gpus) or a pool (--pool), or request "
                     "fewer: replicas, maxReplicas, limits"
                   : "gpuscale nodes shows who uses the GPUs; add GPU nodes, or lower replicas or "
                     "maxReplicas";
    if (strstr(message, "Insufficient"))
        return "lower the requests of the pods, or the number of pods, or add nodes";
    if (strstr(message, "Too many pods"))
        return "lower the number of pods, or add nodes";
    if (strstr(message, "taint"))
        return "add a toleration, or remove the taint with kubectl taint";
    return "compare its nodeSelector and affinity with kubectl get nodes --show-labels";
}

static bool find_unschedulable(const struct diagnosis_input *in, const char *message,
                               struct diagnosis *d)
{
    CODEC_AUTO_JSON json_t *requests = nodes_pod_requests(in->pod);
    bool known = json_array_size(in->nodes) > 0;
    bool others_may_come = !in->pools && diagnosis_event(in, "NotTriggerScaleUp", "", 0);
    if (find_coming(in, message, requests, d) || find_preemption(in, d) ||
        find_claim(in, message, d) || find_volume(in, message, d) ||
        (others_may_come && find_full(in, message, requests, d)))
        return true;
    if (known && (find_unknown_resource(in, requests, d) || find_too_large(in, requests, d) ||
                  find_selector(in, requests, d) || find_taint(in, requests, d)))
        return true;
    if (find_full(in, message, requests, d))
        return true;
    set(d, DIAGNOSIS_BUSY, "Unschedulable", diagnosis_excerpt(message),
        gs_strdup(busy_remedy(in, message)));
    return true;
}

// --- no scheduler ---

static const char *scheduler_of(const struct diagnosis_input *in)
{
    const char *name = codec_json_str(in->pod, "spec", "schedulerName", NULL);
    return name && *name ? name : DEFAULT_SCHEDULER;
}

static bool has_event_of(const struct diagnosis_input *in, const char *component)
{
    size_t i;
    json_t *e;
    json_array_foreach ((json_t *)in->events, i, e)
        if (gs_streq(codec_json_str(e, "source", "component", NULL), component) ||
            gs_streq(codec_json_str(e, "reportingComponent", NULL), component))
            return true;
    return false;
}

// A running pod whose name says that it is this scheduler ("volcano-scheduler-5d…").
static const json_t *scheduler_pod(const struct diagnosis_input *in, const char *name)
{
    size_t i;
    json_t *pod;
    json_array_foreach ((json_t *)in->pods, i, pod) {
        const char *pod_name = diagnosis_str(kube_name(pod));
        if (pod != in->pod && strstr(pod_name, name) && strstr(pod_name, "scheduler") &&
            gs_streq(codec_json_str(pod, "status", "phase", NULL), "Running"))
            return pod;
    }
    return NULL;
}

static char *scheduler_remedy(const struct diagnosis_input *in, const char *name)
{
    bool embedded = diagnosis_is_embedded(in);
    if (gs_streq(name, DEFAULT_SCHEDULER))
        return gs_strdup("check kube-scheduler: kubectl get pods -n kube-system");
    return gs_format(
        "remove schedulerName from the pod%s, or correct its name, or start that scheduler",
        embedded ? " (gpuscale up runs " DEFAULT_SCHEDULER ")" : "");
}

// The pod would wait with another scheduler, too.
static void add_unknown_resources(const struct diagnosis_input *in, struct diagnosis *d)
{
    CODEC_AUTO_JSON json_t *requests = nodes_pod_requests(in->pod);
    GS_AUTO_BUF struct gs_buf names = {0};
    GS_AUTO_FREE char *text = d->text, *remedy = d->remedy;
    const char *first;
    bool some = json_array_size(in->nodes) && unknown_resources(in, requests, &names, &first);
    d->text = some ? gs_format("%s, and nothing provides %s", text, names.data) : gs_strdup(text);
    d->remedy = some ? gs_format("%s; %s: %s", remedy, first, diagnosis_provider_of(first))
                     : gs_strdup(remedy);
}

static bool find_scheduler(const struct diagnosis_input *in, struct diagnosis *d)
{
    const char *name = scheduler_of(in);
    int64_t created = diagnosis_time(json_object_get(in->pod, "metadata"), "creationTimestamp");
    int64_t patience = gs_streq(name, DEFAULT_SCHEDULER) ? DEFAULT_PATIENCE_MS : OWN_PATIENCE_MS;
    if (!created || kube_condition(in->pod, "PodScheduled") || in->now_ms - created < patience ||
        has_event_of(in, name))
        return false;
    const json_t *runs = scheduler_pod(in, name);
    char *text = runs ? gs_format("the scheduler %s has not looked at the pod", name)
                      : gs_format("no scheduler named %s runs here", name);
    char *remedy = runs ? gs_format("kubectl logs %s -n %s", kube_name(runs),
                                    diagnosis_str(kube_namespace(runs)))
                        : scheduler_remedy(in, name);
    set(d, DIAGNOSIS_SCHEDULER, "NoScheduler", text, remedy);
    add_unknown_resources(in, d);
    return true;
}

// --- all ---

static bool find_node_gone(const struct diagnosis_input *in, const char *node, struct diagnosis *d)
{
    size_t i;
    json_t *n;
    if (!json_array_size(in->nodes) ||
        !gs_streq(codec_json_str(in->pod, "status", "phase", NULL), "Pending"))
        return false;
    json_array_foreach ((json_t *)in->nodes, i, n)
        if (gs_streq(kube_name(n), node))
            return false;
    set(d, DIAGNOSIS_NODE_GONE, "NodeNotFound",
        gs_format("its spec.nodeName is %s, and there is no such node", node),
        gs_strdup("remove nodeName from the manifest, so that a scheduler chooses the node"));
    return true;
}

bool diagnosis_find_unscheduled(const struct diagnosis_input *in, struct diagnosis *d)
{
    const char *node = codec_json_str(in->pod, "spec", "nodeName", NULL);
    if (node && *node)
        return find_node_gone(in, node, d);
    if (!gs_streq(codec_json_str(in->pod, "status", "phase", NULL), "Pending") ||
        codec_json_get(in->pod, "status", "containerStatuses", NULL))
        return false;
    if (find_scheduling_gate(in, d) || find_scheduler(in, d))
        return true;
    return gs_streq(condition_text(in, "status"), "False") && *condition_text(in, "reason") &&
           find_unschedulable(in, condition_text(in, "message"), d);
}
