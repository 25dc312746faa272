// SPDX-License-Identifier: Apache-2.0
// Why a pod has no node. The words of the scheduler say what is short now; nodes and pools
// (places.c) say whether waiting, more nodes or a change of the pod helps.
#include "nodes/scheduling.h"
#include "base/mem.h"
#include "diagnosis/diagnosis_private.h"
#include "kube/object.h"
#include "nodes/pool.h"

enum {
    OWN_PATIENCE_MS = 5000,     // of another scheduler: time to look at a new pod
    DEFAULT_PATIENCE_MS = 30000 // of a busy kube-scheduler
};

#define DEFAULT_SCHEDULER "default-scheduler"

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
    diagnosis_set(
        d, DIAGNOSIS_GATED, "SchedulingGated",
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
    diagnosis_set(
        d, DIAGNOSIS_CLAIM, "Unschedulable", diagnosis_excerpt(message),
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
    diagnosis_set(
        d, DIAGNOSIS_VOLUME, "Unschedulable", diagnosis_excerpt(message),
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
    diagnosis_set(d, DIAGNOSIS_PREEMPTS, "Unschedulable",
                  gs_format("it waits until pods with a lower priority have left node %s", node),
                  gs_strdup("wait for their terminationGracePeriodSeconds"));
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
    if (!up || (no && kube_time_ms(json_object_get(no, "lastTimestamp"), 0) >
                          kube_time_ms(json_object_get(up, "lastTimestamp"), 0)))
        return false;
    GS_AUTO_FREE char *name = diagnosis_pod_name(in);
    const char *pool =
        wasted_pool(in, diagnosis_str(codec_json_str(up, "message", NULL)), requests);
    GS_AUTO_FREE char *waste =
        pool ? gs_format("; the pod requests no GPU: the taint " NODES_GPU_TAINT
                         " keeps such pods off pool %s",
                         pool)
             : gs_strdup("");
    diagnosis_set(
        d, DIAGNOSIS_COMING, "Unschedulable", diagnosis_excerpt(message),
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

static bool find_full(const struct diagnosis_input *in, const char *message, const json_t *requests,
                      struct diagnosis *d)
{
    const json_t *no = diagnosis_event(in, "NotTriggerScaleUp", "", 0);
    const char *event = diagnosis_str(codec_json_str(no, "message", NULL));
    const json_t *pool = diagnosis_full_pool(in, requests);
    if (!pool && !says_full(event))
        return false;
    GS_AUTO_FREE char *words = diagnosis_excerpt(message);
    GS_AUTO_FREE char *which = pool ? gs_format("pool %s has its maximum of %lld nodes",
                                                codec_json_str(pool, "name", NULL),
                                                (long long)codec_json_int(pool, 0, "max", NULL))
                                    : diagnosis_excerpt(event);
    diagnosis_set(
        d, DIAGNOSIS_POOL_FULL, "Unschedulable", gs_format("%s %s", words, which),
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
    bool others_may_come = !in->pools && diagnosis_event(in, "NotTriggerScaleUp", "", 0);
    if (find_coming(in, message, requests, d) || find_preemption(in, d) ||
        find_claim(in, message, d) || find_volume(in, message, d) ||
        (others_may_come && find_full(in, message, requests, d)))
        return true;
    if (diagnosis_find_in_places(in, requests, d))
        return true;
    if (find_full(in, message, requests, d))
        return true;
    diagnosis_set(d, DIAGNOSIS_BUSY, "Unschedulable", diagnosis_excerpt(message),
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
            gs_streq(kube_phase(pod), "Running"))
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
    bool some =
        json_array_size(in->nodes) && diagnosis_unknown_resources(in, requests, &names, &first);
    d->text = some ? gs_format("%s, and nothing provides %s", text, names.data) : gs_strdup(text);
    d->remedy = some ? gs_format("%s; %s: %s", remedy, first, diagnosis_provider_of(first))
                     : gs_strdup(remedy);
}

static bool find_scheduler(const struct diagnosis_input *in, struct diagnosis *d)
{
    const char *name = scheduler_of(in);
    int64_t created = kube_created_ms(in->pod, 0);
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
    diagnosis_set(d, DIAGNOSIS_SCHEDULER, "NoScheduler", text, remedy);
    add_unknown_resources(in, d);
    return true;
}

// --- all ---

static bool find_node_gone(const struct diagnosis_input *in, const char *node, struct diagnosis *d)
{
    size_t i;
    json_t *n;
    if (!json_array_size(in->nodes) || !gs_streq(kube_phase(in->pod), "Pending"))
        return false;
    json_array_foreach ((json_t *)in->nodes, i, n)
        if (gs_streq(kube_name(n), node))
            return false;
    diagnosis_set(
        d, DIAGNOSIS_NODE_GONE, "NodeNotFound",
        gs_format("its spec.nodeName is %s, and there is no such node", node),
        gs_strdup("remove nodeName from the manifest, so that a scheduler chooses the node"));
    return true;
}

bool diagnosis_find_unscheduled(const struct diagnosis_input *in, struct diagnosis *d)
{
    const char *node = kube_pod_node(in->pod);
    if (node)
        return find_node_gone(in, node, d);
    if (!gs_streq(kube_phase(in->pod), "Pending") ||
        codec_json_get(in->pod, "status", "containerStatuses", NULL))
        return false;
    if (find_scheduling_gate(in, d) || find_scheduler(in, d))
        return true;
    return gs_streq(condition_text(in, "status"), "False") && *condition_text(in, "reason") &&
           find_unschedulable(in, condition_text(in, "message"), d);
}
