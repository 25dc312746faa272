// SPDX-License-Identifier: Apache-2.0
// Checks of the GPU nodes and of the exporter's workload on them.
#include "base/mem.h"
#include "diagnosis/diagnosis.h"
#include "doctor/doctor_private.h"
#include "kube/object.h"
#include "kube/quantity.h"
#include "nodes/pool.h"
#include "nodes/scheduling.h"

#include <string.h>

#define POD_RESOURCES "/var/lib/kubelet/pod-resources"

// --- nodes ---

static bool is_ready_gpu_node(const json_t *node)
{
    return doctor_is_gpu_node(node) && doctor_node_ready(node);
}

static bool runs_on(const struct doctor_examination *e, const json_t *node, enum doctor_role role)
{
    size_t i;
    const json_t *pod;

    json_array_foreach (doctor_items(e, "pods"), i, pod)
        if (gs_streq(kube_pod_node(pod), kube_name(node)) && doctor_container_of(pod, role))
            return true;
    return false;
}

void doctor_check_gpus_not_allocatable(struct doctor_examination *e)
{
    size_t i;
    const json_t *node;

    json_array_foreach (doctor_items(e, "nodes"), i, node) {
        if (!is_ready_gpu_node(node) ||
            doctor_gpus(codec_json_get(node, "status", "capacity", NULL)) > 0)
            continue;
        bool plugin = runs_on(e, node, DOCTOR_PLUGIN_ROLE);
        GS_AUTO_FREE char *subject = doctor_subject("Node", node);
        doctor_add(
            e,
            (struct doctor_finding){
                .subject = subject,
                .what = gs_format("The node's labels say that it has NVIDIA GPUs, but its "
                                  "status.capacity has no nvidia.com/gpu."),
                .evidence = gs_format("device plug-in on this node: %s",
                                      plugin ? "a pod runs, but has registered no GPU" : "no pod"),
                .fix = plugin ? gs_format("kubectl get pods -A -o wide --field-selector "
                                          "spec.nodeName=%s | grep device-plugin\n"
                                          "kubectl logs of that pod names the cause; usually the "
                                          "NVIDIA container runtime is not the default "
                                          "(nvidia-ctk runtime configure)",
                                          kube_name(node))
                              : gs_strdup("helm upgrade -i nvdp nvidia-device-plugin --repo "
                                          "https://nvidia.github.io/k8s-device-plugin "
                                          "-n nvidia-device-plugin --create-namespace")});
    }
}

void doctor_check_gpus_unhealthy(struct doctor_examination *e)
{
    size_t i;
    const json_t *node;

    json_array_foreach (doctor_items(e, "nodes"), i, node) {
        int64_t all = doctor_gpus(codec_json_get(node, "status", "capacity", NULL));
        int64_t usable = doctor_gpus(codec_json_get(node, "status", "allocatable", NULL));
        if (usable >= all)
            continue;
        GS_AUTO_FREE char *subject = doctor_subject("Node", node);
        doctor_add(e, (struct doctor_finding){
                          .subject = subject,
                          .what = gs_format("%lld of %lld GPUs are not allocatable: the device "
                                            "plug-in reports them as unhealthy.",
                                            (long long)(all - usable), (long long)all),
                          .evidence = gs_format("capacity %lld, allocatable %lld", (long long)all,
                                                (long long)usable),
                          .fix = gs_format("dmesg | grep -i xid      # on the node\n"
                                           "kubectl drain %s --ignore-daemonsets "
                                           "--delete-emptydir-data   # then reset or reboot",
                                           kube_name(node))});
    }
}

void doctor_check_node_not_ready(struct doctor_examination *e)
{
    size_t i;
    const json_t *node;

    json_array_foreach (doctor_items(e, "nodes"), i, node) {
        const json_t *ready = kube_condition(node, "Ready");
        int64_t age = doctor_age_ms(e, codec_json_str(ready, "lastTransitionTime", NULL));
        if (!doctor_is_gpu_node(node) || doctor_node_ready(node) || (age >= 0 && age < 300000))
            continue;
        GS_AUTO_FREE char *subject = doctor_subject("Node", node);
        const char *message = codec_json_str(ready, "message", NULL);
        doctor_add(
            e, (struct doctor_finding){
                   .subject = subject,
                   .what = gs_strdup("The GPU node is not ready."),
                   .evidence = gs_format("Ready=%s: %s",
                                         ready ? codec_json_str(ready, "status", NULL) : "absent",
                                         message ? message : ""),
                   .fix = gs_format("kubectl describe node %s\n"
                                    "journalctl -u kubelet    # on the node",
                                    kube_name(node))});
    }
}

// --- the exporter's workload ---

static bool has_embedded_exporter(const struct doctor_examination *e)
{
    size_t i;
    const json_t *node;

    json_array_foreach (doctor_items(e, "nodes"), i, node)
        if (nodes_is_embedded(node))
            return true;
    return false;
}

static size_t gpu_nodes(const struct doctor_examination *e)
{
    size_t i, n = 0;
    const json_t *node;

    json_array_foreach (doctor_items(e, "nodes"), i, node)
        n += is_ready_gpu_node(node);
    return n;
}

static const json_t *daemonset_of_exporter(const struct doctor_examination *e)
{
    size_t i;
    const json_t *set;

    json_array_foreach (doctor_items(e, "daemonsets"), i, set)
        if (doctor_container_of(set, DOCTOR_EXPORTER_ROLE))
            return set;
    return NULL;
}

static bool has_exporter(const struct doctor_examination *e)
{
    size_t i;
    const json_t *pod;

    json_array_foreach (doctor_items(e, "pods"), i, pod)
        if (doctor_container_of(pod, DOCTOR_EXPORTER_ROLE))
            return true;
    // An exporter outside of pods, such as a service of systemd, is visible by its series.
    return daemonset_of_exporter(e) || json_array_size(doctor_query(e, "gpus")) > 0;
}

void doctor_check_monitoring_crds(struct doctor_examination *e)
{
    if (!doctor_absent(e, "servicemonitors") || !doctor_items(e, "nodes") || has_exporter(e) ||
        has_embedded_exporter(e) || !gpu_nodes(e) || !doctor_known(e, "daemonsets"))
        return;
    doctor_add(
        e,
        (struct doctor_finding){
            .subject = "monitoring.coreos.com",
            .what = gs_strdup("The cluster has no ServiceMonitor resource, and no exporter. The "
                              "chart of dcgm-exporter creates a ServiceMonitor by default, so "
                              "its installation fails."),
            .evidence = gs_strdup("GET /apis/monitoring.coreos.com/v1/servicemonitors: 404; helm "
                                  "reports: no matches for kind \"ServiceMonitor\" in version "
                                  "\"monitoring.coreos.com/v1\""),
            .fix = gs_strdup("helm upgrade -i kube-prometheus-stack kube-prometheus-stack --repo "
                             "https://prometheus-community.github.io/helm-charts "
                             "-n monitoring --create-namespace\n"
                             "or, without the Prometheus Operator, install the exporter with "
                             "--set serviceMonitor.enabled=false")});
}

void doctor_check_exporter_missing(struct doctor_examination *e)
{
    size_t n = gpu_nodes(e);

    if (!n || !doctor_items(e, "pods") || !doctor_known(e, "daemonsets") || has_exporter(e) ||
        has_embedded_exporter(e) || doctor_absent(e, "servicemonitors"))
        return;
    doctor_add(
        e,
        (struct doctor_finding){
            .subject = "exporter",
            .what = gs_format("%zu node%s with GPUs, and no exporter of GPU metrics.", n,
                              n == 1 ? "" : "s"),
            .evidence = gs_strdup("no DaemonSet and no pod runs dcgm-exporter or gpuscale "
                                  "exporter"),
            .fix = gs_strdup("helm upgrade -i gpuscale deploy/helm/gpuscale -n monitoring "
                             "--create-namespace\n"
                             "or: helm upgrade -i dcgm-exporter dcgm-exporter --repo "
                             "https://nvidia.github.io/dcgm-exporter/helm-charts -n monitoring")});
}

// The nodes that a template selects and the first reason why a GPU node is not one of them.
static size_t nodes_selected(const struct doctor_examination *e, const json_t *template)
{
    size_t i, n = 0;
    const json_t *node;

    json_array_foreach (doctor_items(e, "nodes"), i, node)
        n += doctor_is_gpu_node(node) && nodes_selects(template, node);
    return n;
}

static const json_t *first_gpu_node(const struct doctor_examination *e)
{
    size_t i;
    const json_t *node;

    json_array_foreach (doctor_items(e, "nodes"), i, node)
        if (is_ready_gpu_node(node))
            return node;
    return NULL;
}

void doctor_check_exporter_selects_no_node(struct doctor_examination *e)
{
    const json_t *set = daemonset_of_exporter(e), *node = first_gpu_node(e);
    const json_t *template = codec_json_get(set, "spec", "template", NULL);
    const json_t *selector = codec_json_get(template, "spec", "nodeSelector", NULL);

    if (!set || !node || nodes_selected(e, template))
        return;
    GS_AUTO_FREE char *subject = doctor_subject("DaemonSet", set);
    GS_AUTO_FREE char *labels = doctor_labels_text(selector);
    GS_AUTO_FREE char *words = doctor_labels_words(selector);
    doctor_add(
        e,
        (struct doctor_finding){
            .subject = subject,
            .what = gs_format("The exporter's DaemonSet selects no GPU node: nodeSelector %s.",
                              *labels ? labels : "or affinity"),
            .evidence = gs_format(
                "desiredNumberScheduled %lld; Node %s has GPUs and no such label",
                (long long)codec_json_int(set, 0, "status", "desiredNumberScheduled", NULL),
                kube_name(node)),
            .fix = *labels ? gs_format("kubectl label node %s %s\n"
                                       "or remove the selector: kubectl -n %s patch daemonset %s "
                                       "--type=json -p '[{\"op\":\"remove\",\"path\":\"/spec/"
                                       "template/spec/nodeSelector\"}]'",
                                       kube_name(node), words, kube_namespace(set), kube_name(set))
                           : gs_format("kubectl -n %s edit daemonset %s   # nodeAffinity",
                                       kube_namespace(set), kube_name(set))});
}

static void report_uncovered(struct doctor_examination *e, const json_t *set, const json_t *node)
{
    const json_t *template = codec_json_get(set, "spec", "template", NULL);
    GS_AUTO_FREE char *subject = doctor_subject("Node", node);
    GS_AUTO_FREE char *taint = nodes_untolerated_taint(template, node, false);
    bool selected = nodes_selects(template, node);
    struct doctor_finding f = {.subject = subject};

    f.what = gs_format("No exporter runs on this GPU node.");
    if (!selected) {
        const json_t *selector = codec_json_get(template, "spec", "nodeSelector", NULL);
        GS_AUTO_FREE char *labels = doctor_labels_text(selector);
        GS_AUTO_FREE char *words = doctor_labels_words(selector);
        f.evidence = gs_format("DaemonSet %s/%s: its nodeSelector %s does not select the node",
                               kube_namespace(set), kube_name(set), labels);
        f.fix =
            gs_format("kubectl label node %s %s", kube_name(node), *words ? words : "KEY=VALUE");
    } else if (taint) {
        f.evidence = gs_format("DaemonSet %s/%s: %s", kube_namespace(set), kube_name(set), taint);
        f.fix = gs_format("kubectl -n %s patch daemonset %s -p '{\"spec\":{\"template\":{\"spec\":"
                          "{\"tolerations\":[{\"operator\":\"Exists\"}]}}}}'",
                          kube_namespace(set), kube_name(set));
    } else {
        f.evidence = gs_format("DaemonSet %s/%s selects the node, but has no pod there",
                               kube_namespace(set), kube_name(set));
        f.fix = gs_format("kubectl -n %s describe daemonset %s   # events name the cause",
                          kube_namespace(set), kube_name(set));
    }
    doctor_add(e, f);
}

void doctor_check_exporter_coverage(struct doctor_examination *e)
{
    const json_t *set = daemonset_of_exporter(e), *node;
    size_t i;

    if (!set || !doctor_items(e, "pods") ||
        !nodes_selected(e, codec_json_get(set, "spec", "template", NULL)))
        return;
    json_array_foreach (doctor_items(e, "nodes"), i, node) {
        int64_t age = doctor_age_ms(e, kube_created(node));
        if (is_ready_gpu_node(node) && !runs_on(e, node, DOCTOR_EXPORTER_ROLE) &&
            !nodes_is_embedded(node) && (age < 0 || age > 120000))
            report_uncovered(e, set, node);
    }
}

// --- pods that do not run ---

static const char *log_of(const struct doctor_examination *e, const json_t *pod,
                          const char *container)
{
    GS_AUTO_FREE char *key = gs_format("%s/%s/%s", kube_namespace(pod), kube_name(pod), container);
    return codec_json_str(e->facts, "logs", key, NULL);
}

enum trouble { FINE, PROFILING, MEMORY, LIVENESS, OTHER };

static const char *waiting_reason(const json_t *status)
{
    return codec_json_str(status, "state", "waiting", "reason", NULL);
}

static const char *end_reason(const json_t *status)
{
    const char *reason = codec_json_str(status, "lastState", "terminated", "reason", NULL);
    return reason ? reason : codec_json_str(status, "state", "terminated", "reason", NULL);
}

// evidence: borrowed from the facts.
static enum trouble trouble_of(const struct doctor_examination *e, const json_t *pod,
                               const json_t *status, const char **evidence)
{
    const char *name = codec_json_str(status, "name", NULL);
    const char *log = name ? log_of(e, pod, name) : NULL;
    const char *waiting = waiting_reason(status);
    bool restarts = codec_json_int(status, 0, "restartCount", NULL) > 0;
    bool ready = codec_json_bool(status, false, "ready", NULL);

    *evidence = NULL;
    if (!ready && (doctor_contains(log, "Profiling module returned an unrecoverable error") ||
                   doctor_contains(log, "profiling module is in use") ||
                   doctor_contains(log, "Resource is in use"))) {
        *evidence = log;
        return PROFILING;
    }
    if (restarts && gs_streq(end_reason(status), "OOMKilled"))
        return MEMORY;
    const char *liveness = restarts ? doctor_event_with(e, pod, "Liveness probe failed") : NULL;
    if (liveness) {
        *evidence = liveness;
        return LIVENESS;
    }
    if (ready || (!waiting && !restarts))
        return FINE;
    if (!restarts &&
        (gs_streq(waiting, "ContainerCreating") || gs_streq(waiting, "PodInitializing")))
        return FINE;
    *evidence = log;
    return OTHER;
}

// Calls report for each exporter pod with this trouble.
static void each_trouble(struct doctor_examination *e, enum trouble wanted,
                         void (*report)(struct doctor_examination *e, const json_t *pod,
                                        const json_t *container, const json_t *status,
                                        const char *evidence))
{
    size_t i;
    const json_t *pod;

    json_array_foreach (doctor_items(e, "pods"), i, pod) {
        const json_t *container = doctor_container_of(pod, DOCTOR_EXPORTER_ROLE);
        const json_t *status =
            container ? doctor_container_status(pod, codec_json_str(container, "name", NULL))
                      : NULL;
        const char *evidence = NULL;
        if (status && !kube_is_deleting(pod) && trouble_of(e, pod, status, &evidence) == wanted)
            report(e, pod, container, status, evidence);
    }
}

static void report_profiling(struct doctor_examination *e, const json_t *pod,
                             const json_t *container, const json_t *status, const char *evidence)
{
    GS_AUTO_FREE char *subject = doctor_subject("Pod", pod);
    GS_AUTO_FREE char *line = diagnosis_last_log_line(gs_slice_of(evidence ? evidence : ""));
    (void)container;
    doctor_add(
        e,
        (struct doctor_finding){
            .subject = subject,
            .what = gs_strdup("The exporter ends because another process holds the GPUs' "
                              "profiling module."),
            .evidence = gs_format("%lld restarts; log: %s",
                                  (long long)codec_json_int(status, 0, "restartCount", NULL), line),
            .fix = gs_format("On node %s, find the other client (a second exporter, "
                             "nv-hostengine, Nsight, dynolog) and stop it:\n"
                             "ps -eo pid,args | grep -E 'nv-hostengine|dcgm|nsys|dynolog'\n"
                             "or remove the DCGM_FI_PROF_* rows of the exporter's counters",
                             kube_pod_node(pod) ? kube_pod_node(pod) : "?")});
}

static void report_memory(struct doctor_examination *e, const json_t *pod, const json_t *container,
                          const json_t *status, const char *evidence)
{
    GS_AUTO_FREE char *subject = doctor_subject("Pod", pod);
    const char *limit = codec_json_str(container, "resources", "limits", "memory", NULL);
    (void)evidence;
    doctor_add(
        e, (struct doctor_finding){
               .subject = subject,
               .what = gs_format("The exporter exceeds its memory limit of %s and is killed.",
                                 limit ? limit : "?"),
               .evidence = gs_format("last state: OOMKilled; %lld restarts",
                                     (long long)codec_json_int(status, 0, "restartCount", NULL)),
               .fix = gs_strdup("resources:\n  limits:\n    memory: 1Gi")});
}

static void report_liveness(struct doctor_examination *e, const json_t *pod,
                            const json_t *container, const json_t *status, const char *evidence)
{
    GS_AUTO_FREE char *subject = doctor_subject("Pod", pod);
    const json_t *probe = json_object_get(container, "livenessProbe");
    doctor_add(
        e, (struct doctor_finding){
               .subject = subject,
               .what = gs_format("The liveness probe restarts the exporter before it has started: "
                                 "initialDelaySeconds is %lld, timeoutSeconds is %lld.",
                                 (long long)codec_json_int(probe, 0, "initialDelaySeconds", NULL),
                                 (long long)codec_json_int(probe, 1, "timeoutSeconds", NULL)),
               .evidence =
                   gs_format("%lld restarts; event: %.300s",
                             (long long)codec_json_int(status, 0, "restartCount", NULL), evidence),
               .fix = gs_strdup("livenessProbe:\n  initialDelaySeconds: 60\n  timeoutSeconds: 10\n"
                                "  failureThreshold: 6")});
}

static void report_not_running(struct doctor_examination *e, const json_t *pod,
                               const json_t *container, const json_t *status, const char *evidence)
{
    GS_AUTO_FREE char *subject = doctor_subject("Pod", pod);
    GS_AUTO_FREE char *line = diagnosis_last_log_line(gs_slice_of(evidence ? evidence : ""));
    const char *waiting = waiting_reason(status), *end = end_reason(status);
    const char *message = codec_json_str(status, "state", "waiting", "message", NULL);
    const struct doctor_diagnosis *d = doctor_diagnosis_of(e, pod);
    doctor_add(e,
               (struct doctor_finding){
                   .subject = subject,
                   .what = gs_format("The exporter does not run: %s%s%s.",
                                     waiting ? waiting
                                     : end   ? end
                                             : "?",
                                     d ? ": " : "", d ? d->is.text : ""),
                   .evidence = gs_format("%lld restarts%s%s%s%s",
                                         (long long)codec_json_int(status, 0, "restartCount", NULL),
                                         *line ? "; log: " : "", line, message ? "; " : "",
                                         message ? message : ""),
                   .fix = gs_format("%s%skubectl -n %s logs %s -c %s --previous\n"
                                    "kubectl -n %s describe pod %s",
                                    d ? d->is.remedy : "", d ? "\n" : "", kube_namespace(pod),
                                    kube_name(pod), codec_json_str(container, "name", NULL),
                                    kube_namespace(pod), kube_name(pod))});
}

void doctor_check_exporter_profiling(struct doctor_examination *e)
{
    each_trouble(e, PROFILING, report_profiling);
}

void doctor_check_exporter_memory(struct doctor_examination *e)
{
    each_trouble(e, MEMORY, report_memory);
}

void doctor_check_exporter_liveness(struct doctor_examination *e)
{
    each_trouble(e, LIVENESS, report_liveness);
}

void doctor_check_exporter_not_running(struct doctor_examination *e)
{
    each_trouble(e, OTHER, report_not_running);
    for (size_t i = 0; i < e->n_diagnoses; i++) { // pods without a node have no container status
        const struct doctor_diagnosis *d = &e->diagnoses[i];
        if (doctor_container_of(d->pod, DOCTOR_EXPORTER_ROLE) &&
            !codec_json_get(d->pod, "status", "containerStatuses", NULL))
            doctor_report(e, "Pod", d->pod, gs_format("The exporter does not run: %s.", d->is.text),
                          gs_strdup(d->is.reason), gs_strdup(d->is.remedy));
    }
}

// --- two collectors ---

// The second exporter pod of a node: it collects the same GPUs again.
static void report_second(struct doctor_examination *e, const char *node, const json_t *a,
                          const json_t *b)
{
    const json_t *owner_a = kube_controller_ref(a), *owner_b = kube_controller_ref(b);
    GS_AUTO_FREE char *subject = gs_format("Node %s", node);
    doctor_add(
        e, (struct doctor_finding){
               .subject = subject,
               .what = gs_format("Two exporters collect the GPUs of this node: %s/%s and %s/%s.",
                                 kube_namespace(a), kube_name(a), kube_namespace(b), kube_name(b)),
               .evidence = gs_format("owners: %s and %s",
                                     owner_a ? codec_json_str(owner_a, "name", NULL) : "none",
                                     owner_b ? codec_json_str(owner_b, "name", NULL) : "none"),
               .fix = gs_format("Keep one. To remove the second: kubectl -n %s delete %s %s",
                                kube_namespace(b), owner_b ? "daemonset" : "pod",
                                owner_b ? codec_json_str(owner_b, "name", NULL) : kube_name(b))});
}

void doctor_check_second_collector(struct doctor_examination *e)
{
    CODEC_AUTO_JSON json_t *first = json_object(); // node: its first exporter
    size_t i;
    json_t *pod;

    json_array_foreach ((json_t *)doctor_items(e, "pods"), i, pod) {
        const char *node = kube_pod_node(pod);
        if (!node || kube_is_deleting(pod) || !doctor_container_of(pod, DOCTOR_EXPORTER_ROLE))
            continue;
        const json_t *other = json_object_get(first, node);
        if (!other)
            json_object_set(first, node, pod);
        else if (!gs_streq(codec_json_str(kube_controller_ref(other), "uid", NULL),
                           codec_json_str(kube_controller_ref(pod), "uid", NULL)))
            report_second(e, node, other, pod);
    }
}
