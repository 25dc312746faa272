// SPDX-License-Identifier: Apache-2.0
// Checks of the pods that wait, and of the node groups that should take them.
#include "base/mem.h"
#include "doctor/doctor_private.h"
#include "kube/object.h"
#include "nodes/inspect/inspect.h"
#include "nodes/scheduling.h"

#include <string.h>

#define WAIT_MS    120000
#define STARTUP_MS 600000

// --- Pending ---

enum wait { FINE, RESOURCE_NAME, SELECTOR, TAINT, MAX_NODES, TOO_LARGE, NO_GPUS };

static bool wants_gpu(const json_t *pod)
{
    CODEC_AUTO_JSON json_t *requests = nodes_pod_requests(pod);
    const char *name;
    json_t *value;

    json_object_foreach (requests, name, value)
        if (gs_starts(name, "nvidia.com/") || doctor_is_gpu_name(name))
            return true;
    return false;
}

static bool waits(const struct doctor_examination *e, const json_t *pod)
{
    const json_t *scheduled = kube_condition(pod, "PodScheduled");
    int64_t age = doctor_age_ms(e, codec_json_str(scheduled, "lastTransitionTime", NULL));

    return gs_streq(codec_json_str(pod, "status", "phase", NULL), "Pending") &&
           gs_streq(codec_json_str(scheduled, "reason", NULL), "Unschedulable") && age >= WAIT_MS &&
           wants_gpu(pod);
}

// The resource of the pod that no node has; borrowed from requests. NULL: nodes have all.
static const char *unknown_resource(const struct doctor_examination *e, const json_t *requests)
{
    const char *name;
    json_t *value;

    json_object_foreach ((json_t *)requests, name, value) {
        bool found = false;
        size_t i;
        const json_t *node;
        if (!strchr(name, '/'))
            continue;
        json_array_foreach (doctor_items(e, "nodes"), i, node)
            found = found || codec_json_get(node, "status", "capacity", name, NULL);
        if (!found)
            return name;
    }
    return NULL;
}

struct fit {
    size_t gpu_nodes, selected, tolerated;
    int64_t largest; // GPUs of the largest node that is selected and tolerated
    const json_t *unselected, *tainted;
};

static struct fit fit_of(const struct doctor_examination *e, const json_t *pod)
{
    struct fit f = {0};
    size_t i;
    const json_t *node;

    json_array_foreach (doctor_items(e, "nodes"), i, node) {
        int64_t gpus = doctor_gpus(codec_json_get(node, "status", "allocatable", NULL));
        if (gpus <= 0)
            continue;
        f.gpu_nodes++;
        if (!nodes_selects(pod, node)) {
            f.unselected = node;
            continue;
        }
        f.selected++;
        GS_AUTO_FREE char *taint = nodes_untolerated_taint(pod, node, false);
        if (taint) {
            f.tainted = node;
            continue;
        }
        f.tolerated++;
        f.largest = gpus > f.largest ? gpus : f.largest;
    }
    return f;
}

static bool has_gpu_resource(const struct doctor_examination *e)
{
    size_t i;
    const json_t *node;

    json_array_foreach (doctor_items(e, "nodes"), i, node)
        if (doctor_gpus(codec_json_get(node, "status", "capacity", NULL)) > 0)
            return true;
    return false;
}

static enum wait wait_of(const struct doctor_examination *e, const json_t *pod, struct fit *f)
{
    CODEC_AUTO_JSON json_t *requests = nodes_pod_requests(pod);

    *f = fit_of(e, pod);
    if (has_gpu_resource(e) && unknown_resource(e, requests))
        return RESOURCE_NAME;
    if (f->gpu_nodes && !f->selected)
        return SELECTOR;
    if (f->gpu_nodes && !f->tolerated)
        return TAINT;
    if (doctor_event_with(e, pod, "max node group size reached") ||
        doctor_event_with(e, pod, "max cluster"))
        return MAX_NODES;
    if (f->tolerated && doctor_pod_gpus(pod) > f->largest)
        return TOO_LARGE;
    return NO_GPUS;
}

static void each_waiting(struct doctor_examination *e, enum wait wanted,
                         void (*report)(struct doctor_examination *e, const json_t *pod,
                                        const struct fit *f, const char *message))
{
    size_t i;
    const json_t *pod;

    json_array_foreach (doctor_items(e, "pods"), i, pod) {
        struct fit f;
        if (waits(e, pod) && wait_of(e, pod, &f) == wanted)
            report(
                e, pod, &f,
                doctor_text(codec_json_str(kube_condition(pod, "PodScheduled"), "message", NULL)));
    }
}

static void report_resource_name(struct doctor_examination *e, const json_t *pod,
                                 const struct fit *f, const char *message)
{
    CODEC_AUTO_JSON json_t *requests = nodes_pod_requests(pod);
    GS_AUTO_BUF struct gs_buf have = {0};
    size_t i;
    const json_t *node;

    (void)f;
    json_array_foreach (doctor_items(e, "nodes"), i, node) {
        const char *name;
        json_t *value;
        json_object_foreach (codec_json_get(node, "status", "capacity", NULL), name, value)
            if (gs_starts(name, "nvidia.com/") && !doctor_contains(have.data, name) &&
                have.len < 300)
                gs_buf_addf(&have, "%s%s", have.len ? ", " : "", name);
    }
    doctor_report(
        e, "Pod", pod,
        gs_format("The pod requests %s, which no node has.", unknown_resource(e, requests)),
        gs_format("the nodes have %s; %s", have.len ? have.data : "no GPU resource", message),
        gs_strdup("resources:\n  limits:\n    nvidia.com/gpu: 1   # or configure MIG: the label "
                  "nvidia.com/mig.config of the node"));
}

static void report_selector(struct doctor_examination *e, const json_t *pod, const struct fit *f,
                            const char *message)
{
    const json_t *selector = codec_json_get(pod, "spec", "nodeSelector", NULL);
    GS_AUTO_FREE char *want = doctor_labels_text(selector);
    GS_AUTO_FREE char *words = doctor_labels_words(selector);
    doctor_report(
        e, "Pod", pod,
        gs_format("The pod's node selector matches no GPU node: %s.",
                  *want ? want : "its required node affinity"),
        gs_format("%zu GPU nodes, such as %s; %s", f->gpu_nodes, kube_name(f->unselected), message),
        *want ? gs_format("kubectl label node %s %s\nor correct the nodeSelector of the workload",
                          kube_name(f->unselected), words)
              : gs_format("kubectl get node %s --show-labels   # then correct the affinity",
                          kube_name(f->unselected)));
}

// The key of the first taint that the pod does not tolerate; NULL: none.
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

static void report_taint(struct doctor_examination *e, const json_t *pod, const struct fit *f,
                         const char *message)
{
    GS_AUTO_FREE char *taint = nodes_untolerated_taint(pod, f->tainted, false);
    const char *key = untolerated_key(pod, f->tainted);
    doctor_report(
        e, "Pod", pod, gs_strdup("The pod tolerates the taint of no GPU node."),
        gs_format("Node %s: %s; %s", kube_name(f->tainted), doctor_text(taint), message),
        codec_json_bool(f->tainted, false, "spec", "unschedulable", NULL)
            ? gs_format("kubectl uncordon %s", kube_name(f->tainted))
            : gs_format("tolerations:        # in the template of the workload\n- key: %s\n"
                        "  operator: Exists",
                        key ? key : NODES_GPU));
}

static void report_max_nodes(struct doctor_examination *e, const json_t *pod, const struct fit *f,
                             const char *message)
{
    const char *event = doctor_event_with(e, pod, "max node group size reached");

    (void)f;
    event = event ? event : doctor_event_with(e, pod, "max cluster");
    doctor_report(
        e, "Pod", pod, gs_strdup("The pod needs a node, but the node group has its maximum size."),
        gs_format("%.300s; %s", doctor_text(event), message),
        gs_strdup(
            "Raise the maximum of the GPU node group, or lower maxReplicas of the autoscaler\n"
            "eksctl scale nodegroup --nodes-max=N, gcloud container node-pools update "
            "--max-nodes=N"));
}

static void report_too_large(struct doctor_examination *e, const json_t *pod, const struct fit *f,
                             const char *message)
{
    doctor_report(
        e, "Pod", pod,
        gs_format("The pod requests %lld GPUs, but the largest node has %lld.",
                  (long long)doctor_pod_gpus(pod), (long long)f->largest),
        gs_strdup(message),
        gs_strdup("Request fewer GPUs for each pod, or add a node group of larger machines"));
}

static void report_no_gpus(struct doctor_examination *e, const json_t *pod, const struct fit *f,
                           const char *message)
{
    const char *event = doctor_event_with(e, pod, "pod didn't trigger scale-up");
    doctor_report(
        e, "Pod", pod,
        f->gpu_nodes ? gs_format("All GPUs are in use, and the pod needs %lld.",
                                 (long long)doctor_pod_gpus(pod))
                     : gs_strdup("The pod needs a GPU, and no node has one."),
        gs_format("%s%s%.300s", message, event ? "; " : "", doctor_text(event)),
        gs_strdup("gpuscale nodes            # who uses the GPUs\n"
                  "Add a node, enable a node autoscaler for GPU nodes, or lower maxReplicas"));
}

void doctor_check_pending_resource_name(struct doctor_examination *e)
{
    each_waiting(e, RESOURCE_NAME, report_resource_name);
}

void doctor_check_pending_selector(struct doctor_examination *e)
{
    each_waiting(e, SELECTOR, report_selector);
}

void doctor_check_pending_taint(struct doctor_examination *e)
{
    each_waiting(e, TAINT, report_taint);
}

void doctor_check_pending_max_nodes(struct doctor_examination *e)
{
    each_waiting(e, MAX_NODES, report_max_nodes);
}

void doctor_check_pending_too_large(struct doctor_examination *e)
{
    each_waiting(e, TOO_LARGE, report_too_large);
}

void doctor_check_pending_no_gpus(struct doctor_examination *e)
{
    each_waiting(e, NO_GPUS, report_no_gpus);
}

// --- workloads ---

void doctor_check_quota(struct doctor_examination *e)
{
    size_t i;
    const json_t *deployment;

    json_array_foreach (doctor_items(e, "deployments"), i, deployment) {
        const json_t *failure = kube_condition(deployment, "ReplicaFailure");
        const char *message = codec_json_str(failure, "message", NULL);
        if (!kube_condition_true(deployment, "ReplicaFailure"))
            continue;
        bool quota = doctor_contains(message, "exceeded quota");
        doctor_report(
            e, "Deployment", deployment,
            quota ? gs_strdup("A ResourceQuota refuses further pods of this Deployment.")
                  : gs_strdup("The pods of this Deployment cannot be created."),
            gs_format("%s: %.400s", doctor_text(codec_json_str(failure, "reason", NULL)),
                      doctor_text(message)),
            gs_format(quota
                          ? "kubectl -n %s describe resourcequota   # raise requests.nvidia.com/gpu"
                          : "kubectl -n %s get events --field-selector reason=FailedCreate",
                      kube_namespace(deployment)));
    }
}

static const char *bad_state(const json_t *status)
{
    static const char *const reasons[] = {"CrashLoopBackOff",
                                          "ImagePullBackOff",
                                          "ErrImagePull",
                                          "InvalidImageName",
                                          "CreateContainerConfigError",
                                          "CreateContainerError",
                                          "RunContainerError",
                                          NULL};
    const char *waiting = codec_json_str(status, "state", "waiting", "reason", NULL);

    for (size_t i = 0; reasons[i]; i++)
        if (gs_streq(waiting, reasons[i]))
            return waiting;
    return NULL;
}

static void check_pods_of(struct doctor_examination *e, const json_t *target)
{
    size_t i, k;
    const json_t *pod, *status;

    json_array_foreach (doctor_items(e, "pods"), i, pod) {
        if (!gs_streq(kube_namespace(pod), kube_namespace(target)) || kube_is_deleting(pod) ||
            !doctor_label_selects(codec_json_get(target, "spec", "selector", NULL), pod))
            continue;
        json_array_foreach (codec_json_get(pod, "status", "containerStatuses", NULL), k, status) {
            const char *reason = bad_state(status);
            if (!reason)
                continue;
            const char *message = codec_json_str(status, "state", "waiting", "message", NULL);
            doctor_report(
                e, "Pod", pod,
                gs_format("A replica does not run: container %s, %s.",
                          doctor_text(codec_json_str(status, "name", NULL)), reason),
                gs_format("%lld restarts; %.300s",
                          (long long)codec_json_int(status, 0, "restartCount", NULL),
                          doctor_text(message)),
                codec_json_int(status, 0, "restartCount", NULL) > 0
                    ? gs_format("kubectl -n %s describe pod %s\nkubectl -n %s logs %s --previous",
                                kube_namespace(pod), kube_name(pod), kube_namespace(pod),
                                kube_name(pod))
                    : gs_format("kubectl -n %s describe pod %s", kube_namespace(pod),
                                kube_name(pod)));
            return;
        }
    }
}

void doctor_check_workload_not_running(struct doctor_examination *e)
{
    size_t i;
    const json_t *hpa;

    json_array_foreach (doctor_items(e, "hpas"), i, hpa) {
        const json_t *target = doctor_hpa_target(e, hpa);
        if (target)
            check_pods_of(e, target);
    }
}

// --- node groups ---

static const json_t *autoscaler_status(const struct doctor_examination *e)
{
    return json_array_get(doctor_items(e, "autoscalerstatus"), 0);
}

void doctor_check_node_group_failing(struct doctor_examination *e)
{
    const json_t *map = autoscaler_status(e);
    CODEC_AUTO_JSON json_t *groups = map ? inspect_status_groups(map) : NULL;
    const char *name;
    json_t *group;

    json_object_foreach (groups, name, group) {
        const char *state = codec_json_str(group, "scaleUp", NULL);
        const char *error = codec_json_str(group, "error", NULL);
        if (!error && !gs_streq(state, "Backoff"))
            continue;
        GS_AUTO_FREE char *subject = gs_format("node group %s", name);
        doctor_add(
            e,
            (struct doctor_finding){
                subject,
                gs_strdup("The last scale-up of this node group failed; the Cluster Autoscaler "
                          "waits before it tries again."),
                gs_format("scaleUp %s%s%.300s", doctor_text(state), error ? ": " : "",
                          doctor_text(error)),
                gs_strdup("Out of capacity: add a node group in another zone or of another machine "
                          "type. Quota: raise it at the cloud provider.")});
    }
}

void doctor_check_node_claim_failing(struct doctor_examination *e)
{
    static const char *const types[] = {"Launched", "Registered", "Initialized", NULL};
    size_t i;
    const json_t *claim;

    json_array_foreach (doctor_items(e, "nodeclaims"), i, claim) {
        for (size_t k = 0; types[k]; k++) {
            const json_t *c = kube_condition(claim, types[k]);
            int64_t age = doctor_age_ms(e, codec_json_str(c, "lastTransitionTime", NULL));
            if (!c || gs_streq(codec_json_str(c, "status", NULL), "True") ||
                age < (k ? STARTUP_MS : WAIT_MS))
                continue;
            doctor_report(
                e, "NodeClaim", claim,
                gs_format("The node does not come: %s is %s for %lld minutes.", types[k],
                          doctor_text(codec_json_str(c, "status", NULL)), (long long)age / 60000),
                gs_format("%s: %.300s", doctor_text(codec_json_str(c, "reason", NULL)),
                          doctor_text(codec_json_str(c, "message", NULL))),
                gs_format("kubectl describe nodeclaim %s\nAllow more instance types and zones in "
                          "the NodePool's requirements",
                          kube_name(claim)));
            break;
        }
    }
}

static bool pods_wait(const struct doctor_examination *e)
{
    size_t i;
    const json_t *pod;

    json_array_foreach (doctor_items(e, "pods"), i, pod)
        if (waits(e, pod))
            return true;
    return false;
}

void doctor_check_node_pool_limit(struct doctor_examination *e)
{
    size_t i;
    const json_t *pool;

    json_array_foreach (doctor_items(e, "nodepools"), i, pool) {
        int64_t limit = doctor_gpus(codec_json_get(pool, "spec", "limits", NULL));
        int64_t used = doctor_gpus(codec_json_get(pool, "status", "resources", NULL));
        if (!codec_json_get(pool, "spec", "limits", NODES_GPU, NULL) || used < limit ||
            !pods_wait(e))
            continue;
        doctor_report(e, "NodePool", pool,
                      gs_format("The NodePool has reached its limit of %lld GPUs while pods wait.",
                                (long long)limit),
                      gs_format("spec.limits %lld, status.resources %lld of nvidia.com/gpu",
                                (long long)limit, (long long)used),
                      gs_format("kubectl patch nodepool %s --type=merge -p "
                                "'{\"spec\":{\"limits\":{\"nvidia.com/gpu\":\"%lld\"}}}'",
                                kube_name(pool),
                                (long long)(limit < INT32_MAX ? limit * 2 : limit)));
    }
}

// The label by which the Cluster Autoscaler recognizes GPU nodes of a cloud; NULL: unknown cloud.
static const char *label_of_cloud(const json_t *node)
{
    const char *id = doctor_text(codec_json_str(node, "spec", "providerID", NULL));
    return gs_starts(id, "aws://")     ? "k8s.amazonaws.com/accelerator"
           : gs_starts(id, "gce://")   ? "cloud.google.com/gke-accelerator"
           : gs_starts(id, "azure://") ? "accelerator"
                                       : NULL;
}

void doctor_check_gpu_label(struct doctor_examination *e)
{
    size_t i;
    const json_t *node;

    if (!autoscaler_status(e))
        return;
    json_array_foreach (doctor_items(e, "nodes"), i, node) {
        const char *label = label_of_cloud(node);
        if (!label || kube_label(node, label) ||
            doctor_gpus(codec_json_get(node, "status", "capacity", NULL)) <= 0)
            continue;
        doctor_report(
            e, "Node", node, gs_format("The GPU node lacks the label %s.", label),
            gs_strdup(
                "until the device plug-in has registered the GPUs, the Cluster Autoscaler takes "
                "such a node for one without GPUs, and adds another one"),
            gs_format("Set the label before the node registers: --node-labels=%s=MODEL of the "
                      "kubelet, or labels of the node group (eksctl: labels: {%s: MODEL})",
                      label, label));
    }
}

void doctor_check_scale_from_zero(struct doctor_examination *e)
{
    size_t i;
    const json_t *group;

    json_array_foreach (doctor_items(e, "machinedeployments"), i, group) {
        const char *min =
            kube_annotation(group, "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size");
        if (!gs_streq(min, "0") || codec_json_int(group, 0, "spec", "replicas", NULL) > 0 ||
            !doctor_is_gpu_name(kube_name(group)) ||
            kube_annotation(group, "capacity.cluster-autoscaler.kubernetes.io/gpu-count"))
            continue;
        doctor_report(
            e, "MachineDeployment", group,
            gs_strdup(
                "The empty GPU node group does not state its GPUs, so it is never scaled from "
                "zero."),
            gs_strdup("annotation capacity.cluster-autoscaler.kubernetes.io/gpu-count is absent"),
            gs_format("kubectl -n %s annotate machinedeployment %s "
                      "capacity.cluster-autoscaler.kubernetes.io/gpu-count=1 "
                      "capacity.cluster-autoscaler.kubernetes.io/gpu-type=nvidia.com/gpu",
                      kube_namespace(group), kube_name(group)));
    }
}

static bool is_startup_taint(const char *key)
{
    size_t n = key ? strlen(key) : 0;
    return n && !gs_streq(key, "node.kubernetes.io/not-ready") &&
           ((n > 9 && gs_streq(key + n - 9, "not-ready")) ||
            gs_streq(key, "node.cloudprovider.kubernetes.io/uninitialized") ||
            gs_streq(key, "karpenter.sh/unregistered"));
}

void doctor_check_startup_taint(struct doctor_examination *e)
{
    size_t i, k;
    const json_t *node, *taint;

    json_array_foreach (doctor_items(e, "nodes"), i, node) {
        int64_t age = doctor_age_ms(e, codec_json_str(node, "metadata", "creationTimestamp", NULL));
        json_array_foreach (codec_json_get(node, "spec", "taints", NULL), k, taint) {
            const char *key = codec_json_str(taint, "key", NULL);
            if (!is_startup_taint(key) || age < STARTUP_MS || !doctor_is_gpu_node(node))
                continue;
            doctor_report(
                e, "Node", node,
                gs_format("The GPU node still has the start-up taint %s after %lld minutes.", key,
                          (long long)age / 60000),
                gs_format("effect %s", doctor_text(codec_json_str(taint, "effect", NULL))),
                gs_format("Start the component that removes it; to remove it by hand:\n"
                          "kubectl taint node %s %s-",
                          kube_name(node), key));
        }
    }
}
