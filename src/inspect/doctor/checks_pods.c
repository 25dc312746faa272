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
#define RECENT_MS  600000

// --- pods that do not run ---

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

// Exporters and adapters have checks of their own.
static bool has_own_check(const json_t *pod)
{
    return doctor_container_of(pod, DOCTOR_EXPORTER_ROLE) ||
           doctor_container_of(pod, DOCTOR_ADAPTER_ROLE);
}

// "0/3 nodes are available: …; 3 restarts; 2 pods": what the API says.
static char *evidence_of(const struct doctor_diagnosis *d)
{
    const char *scheduler = codec_json_str(kube_condition(d->pod, "PodScheduled"), "message", NULL);
    const char *node = kube_pod_node(d->pod);
    const json_t *status = doctor_container_status(d->pod, doctor_text(d->is.container));
    int64_t restarts = codec_json_int(status, 0, "restartCount", NULL);
    struct gs_buf out = {0};

    gs_buf_addf(&out, "%s", d->is.reason);
    if (d->is.container)
        gs_buf_addf(&out, ", container %s", d->is.container);
    if (restarts)
        gs_buf_addf(&out, ", %lld restarts", (long long)restarts);
    if (scheduler && *scheduler && strcmp(scheduler, d->is.text) != 0)
        gs_buf_addf(&out, "; %.300s", scheduler);
    if (node)
        gs_buf_addf(&out, "; on node %s", node);
    if (d->n_pods > 1)
        gs_buf_addf(&out, "; %zu pods of the same owner", d->n_pods);
    return gs_buf_take(&out);
}

static bool is_of(const struct doctor_diagnosis *d, const enum diagnosis_cause *causes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (causes[i] == d->is.cause)
            return true;
    return false;
}

static void report_diagnosis(struct doctor_examination *e, const struct doctor_diagnosis *d)
{
    doctor_report(e, "Pod", d->pod, gs_format("The pod does not run: %s.", d->is.text),
                  evidence_of(d), gs_strdup(d->is.remedy));
}

// Reports the pods whose cause is in the list, those with GPUs or those without if wanted.
enum which { ANY, GPU, NO_GPU };

static void report_causes(struct doctor_examination *e, const enum diagnosis_cause *causes,
                          size_t n, enum which which)
{
    for (size_t i = 0; i < e->n_diagnoses; i++) {
        const struct doctor_diagnosis *d = &e->diagnoses[i];
        if (is_of(d, causes, n) && !has_own_check(d->pod) &&
            (which == ANY || wants_gpu(d->pod) == (which == GPU)))
            report_diagnosis(e, d);
    }
}
#define REPORT(e, which, ...)                                                                      \
    report_causes((e), (const enum diagnosis_cause[]){__VA_ARGS__},                                \
                  sizeof((const enum diagnosis_cause[]){__VA_ARGS__}) /                            \
                      sizeof(enum diagnosis_cause),                                                \
                  (which))

void doctor_check_pod_image(struct doctor_examination *e)
{
    REPORT(e, ANY, DIAGNOSIS_IMAGE);
}

void doctor_check_pod_object_missing(struct doctor_examination *e)
{
    REPORT(e, ANY, DIAGNOSIS_MISSING);
}

void doctor_check_workload_not_running(struct doctor_examination *e)
{
    REPORT(e, ANY, DIAGNOSIS_CONFIG, DIAGNOSIS_VOLUME, DIAGNOSIS_SANDBOX, DIAGNOSIS_MEMORY,
           DIAGNOSIS_CRASH, DIAGNOSIS_PROBE, DIAGNOSIS_READINESS_GATE, DIAGNOSIS_OTHER);
}

void doctor_check_pod_scheduler(struct doctor_examination *e)
{
    REPORT(e, ANY, DIAGNOSIS_SCHEDULER);
}

void doctor_check_pod_held(struct doctor_examination *e)
{
    REPORT(e, ANY, DIAGNOSIS_GATED, DIAGNOSIS_CLAIM, DIAGNOSIS_NODE_GONE);
}

// The nodes of a cluster without GPUs are another matter than a name that none has.
static bool lacks_gpus(const struct doctor_diagnosis *d)
{
    return d->is.cause == DIAGNOSIS_RESOURCE && gs_streq(d->is.identity, NODES_GPU);
}

// "nvidia.com/gpu, nvidia.com/mig-1g.5gb": the names of NVIDIA that nodes offer.
static char *offered(const struct doctor_examination *e)
{
    GS_AUTO_BUF struct gs_buf have = {0};
    size_t i;
    const json_t *node;

    json_array_foreach (doctor_items(e, "nodes"), i, node) {
        const char *name;
        json_t *value;
        json_object_foreach (codec_json_get(node, "status", "capacity", NULL), name, value)
            if (gs_starts(name, "nvidia.com/") && !doctor_contains(have.data, name) &&
                have.len < 300)
                gs_buf_addf(&have, "%s%s", have.len ? ", " : "", name);
    }
    return have.len ? gs_buf_take(&have) : gs_strdup("no GPU resource");
}

void doctor_check_pending_resource_name(struct doctor_examination *e)
{
    for (size_t i = 0; i < e->n_diagnoses; i++) {
        const struct doctor_diagnosis *d = &e->diagnoses[i];
        if (d->is.cause != DIAGNOSIS_RESOURCE || lacks_gpus(d) || has_own_check(d->pod))
            continue;
        GS_AUTO_FREE char *have = offered(e);
        GS_AUTO_FREE char *evidence = evidence_of(d);
        doctor_report(e, "Pod", d->pod, gs_format("The pod does not run: %s.", d->is.text),
                      gs_format("the nodes have %s; %s", have, evidence), gs_strdup(d->is.remedy));
    }
}

void doctor_check_pending_selector(struct doctor_examination *e)
{
    REPORT(e, ANY, DIAGNOSIS_SELECTOR);
}

void doctor_check_pending_taint(struct doctor_examination *e)
{
    REPORT(e, ANY, DIAGNOSIS_TAINT);
}

void doctor_check_pending_max_nodes(struct doctor_examination *e)
{
    REPORT(e, ANY, DIAGNOSIS_POOL_FULL);
}

void doctor_check_pending_too_large(struct doctor_examination *e)
{
    REPORT(e, ANY, DIAGNOSIS_TOO_LARGE);
}

void doctor_check_pending_no_gpus(struct doctor_examination *e)
{
    REPORT(e, GPU, DIAGNOSIS_BUSY, DIAGNOSIS_PREEMPTS);
    for (size_t i = 0; i < e->n_diagnoses; i++)
        if (lacks_gpus(&e->diagnoses[i]) && !has_own_check(e->diagnoses[i].pod))
            report_diagnosis(e, &e->diagnoses[i]);
}

void doctor_check_pending_busy(struct doctor_examination *e)
{
    REPORT(e, NO_GPU, DIAGNOSIS_BUSY, DIAGNOSIS_PREEMPTS);
}

// --- workloads ---

// Other owners than Deployments have no condition.
static void check_refused_by_events(struct doctor_examination *e)
{
    size_t i;
    const json_t *event;

    json_array_foreach (doctor_items(e, "events"), i, event) {
        const json_t *about = json_object_get(event, "involvedObject");
        const char *kind = doctor_text(codec_json_str(about, "kind", NULL));
        const char *name = doctor_text(codec_json_str(about, "name", NULL));
        const char *ns = doctor_text(codec_json_str(about, "namespace", NULL));
        const char *message = codec_json_str(event, "message", NULL);
        int64_t age = doctor_age_ms(e, codec_json_str(event, "lastTimestamp", NULL));
        if (!gs_streq(codec_json_str(event, "reason", NULL), "FailedCreate") || age < 0 ||
            age > RECENT_MS || gs_streq(kind, "ReplicaSet") || !doctor_contains(message, "pods"))
            continue;
        GS_AUTO_FREE char *subject = gs_format("%s %s/%s", kind, ns, name);
        GS_AUTO_FREE char *owner = gs_format("%s %s -n %s", kind, name, ns);
        doctor_add(e, (struct doctor_finding){
                          subject, gs_format("The pods of this %s cannot be created.", kind),
                          gs_format("FailedCreate: %.400s", message),
                          diagnosis_of_refusal(message, ns, owner)});
    }
}

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
        GS_AUTO_FREE char *owner =
            gs_format("deployment %s -n %s", kube_name(deployment), kube_namespace(deployment));
        doctor_report(e, "Deployment", deployment,
                      quota ? gs_strdup("A ResourceQuota refuses further pods of this Deployment.")
                            : gs_strdup("The pods of this Deployment cannot be created."),
                      gs_format("%s: %.400s", doctor_text(codec_json_str(failure, "reason", NULL)),
                                doctor_text(message)),
                      diagnosis_of_refusal(message, kube_namespace(deployment), owner));
    }
    check_refused_by_events(e);
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
    for (size_t i = 0; i < e->n_diagnoses; i++)
        if (!kube_condition_true(e->diagnoses[i].pod, "PodScheduled") &&
            wants_gpu(e->diagnoses[i].pod))
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
        int64_t age = doctor_age_ms(e, kube_created(node));
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
