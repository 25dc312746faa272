// SPDX-License-Identifier: Apache-2.0
// Checks of the series: attribution to pods, duplicates, ages, rules.
#include "base/hmap.h"
#include "base/mem.h"
#include "doctor/doctor_private.h"
#include "kube/object.h"
#include "nodes/pool.h"

#include <math.h>
#include <string.h>

#define POD_RESOURCES "/var/lib/kubelet/pod-resources"
#define MAX_AGE_S     90
#define MAX_SERIES    5000

// --- series ---

static const json_t *gpu_targets_up(const struct doctor_examination *e)
{
    size_t i;
    const json_t *target;

    json_array_foreach (codec_json_get(e->prometheus, "targets", "activeTargets", NULL), i, target)
        if (gs_streq(codec_json_str(target, "health", NULL), "up") &&
            (doctor_is_gpu_name(codec_json_str(target, "labels", "job", NULL)) ||
             doctor_contains(codec_json_str(target, "scrapeUrl", NULL), ":9400/")))
            return target;
    return NULL;
}

void doctor_check_exporter_page(struct doctor_examination *e)
{
    size_t i;
    const json_t *page;

    json_array_foreach (json_object_get(e->facts, "exporters"), i, page) {
        int64_t status = codec_json_int(page, 0, "status", NULL);
        const char *ns = doctor_text(codec_json_str(page, "namespace", NULL));
        const char *pod = doctor_text(codec_json_str(page, "pod", NULL));
        // Other statuses may be those of the API server: 403, 404 without a proxy, 503.
        bool empty = status == 200 && codec_json_int(page, 0, "series", NULL) == 0;
        if (!empty && status != 500)
            continue;
        GS_AUTO_FREE char *subject = gs_format("Pod %s/%s", ns, pod);
        doctor_add(
            e, (struct doctor_finding){
                   subject,
                   gs_strdup(empty ? "The exporter's page has no series of a GPU."
                                   : "The exporter answers /metrics with an error."),
                   gs_format("GET /metrics: %lld, %lld series DCGM_FI_*", (long long)status,
                             (long long)codec_json_int(page, 0, "series", NULL)),
                   gs_format(
                       "kubectl -n %s logs %s     # which GPUs and fields it found\n"
                       "kubectl -n %s delete pod %s   # after a failed reload of its counters file",
                       ns, pod, ns, pod)});
    }
}

void doctor_check_gpu_series_missing(struct doctor_examination *e)
{
    const json_t *series = doctor_query(e, "gpus"), *target = gpu_targets_up(e);

    if (!series || json_array_size(series) || !target)
        return;
    GS_AUTO_FREE char *subject =
        gs_format("target %s", doctor_text(codec_json_str(target, "scrapeUrl", NULL)));
    doctor_add(
        e,
        (struct doctor_finding){
            subject, gs_strdup("The exporter is scraped, but Prometheus has no GPU series."),
            gs_strdup("DCGM_FI_DEV_FB_USED, DCGM_FI_DEV_GPU_UTIL, dcgm_gpu_utilization: no series"),
            gs_format("curl -s %s | grep -c '^DCGM_'\n"
                      "0: the exporter finds no GPU, or its counters file lacks the fields. "
                      "Otherwise metricRelabelings of the ServiceMonitor drop them.",
                      doctor_text(codec_json_str(target, "scrapeUrl", NULL)))});
}

void doctor_check_utilization_missing(struct doctor_examination *e)
{
    const json_t *gpus = doctor_query(e, "gpus"), *utilization = doctor_query(e, "utilization");
    bool used = doctor_hpa_uses(e, NULL, "DCGM_FI_DEV_GPU_UTIL");

    if (!json_array_size(gpus) || !utilization || json_array_size(utilization) || !used)
        return;
    doctor_add(
        e, (struct doctor_finding){
               "DCGM_FI_DEV_GPU_UTIL",
               gs_strdup("An autoscaler uses DCGM_FI_DEV_GPU_UTIL, but no exporter provides it."),
               gs_format("%zu GPUs have other series; GPU_UTIL has none: it does not exist for MIG "
                         "devices, or the counters file lacks it",
                         json_array_size(gpus)),
               gs_strdup("Use DCGM_FI_PROF_GR_ENGINE_ACTIVE for MIG devices, or add to the "
                         "exporter's counters file:\n"
                         "DCGM_FI_DEV_GPU_UTIL, gauge, GPU utilization (in %).")});
}

void doctor_check_samples_old(struct doctor_examination *e)
{
    size_t i;
    const json_t *sample;

    json_array_foreach (doctor_query(e, "age"), i, sample) {
        double age = doctor_sample_value(sample);
        if (!(age > MAX_AGE_S))
            continue;
        GS_AUTO_FREE char *subject =
            gs_format("instance %s", doctor_text(doctor_sample_label(sample, "instance")));
        doctor_add(
            e, (struct doctor_finding){
                   subject, gs_format("The newest GPU sample is %.0f s old.", age),
                   gs_format("time() - timestamp(DCGM_FI_DEV_FB_USED) = %.0f s, job %s", age,
                             doctor_text(doctor_sample_label(sample, "job"))),
                   gs_strdup("Check the target's state: the exporter's pod is gone, its node is "
                             "unreachable, or its metrics carry old timestamps (honorTimestamps: "
                             "false)")});
    }
}

void doctor_check_xid_errors(struct doctor_examination *e)
{
    // Errors of the hardware or the driver. Others are errors of the application.
    static const int fatal[] = {46, 48, 61, 62, 63, 64, 74, 79, 95, 119, 120, 140, 0};
    size_t i;
    const json_t *sample;

    json_array_foreach (doctor_query(e, "xid"), i, sample) {
        double xid = doctor_sample_value(sample);
        bool known = false;
        for (size_t k = 0; fatal[k]; k++)
            known = known || xid == fatal[k];
        if (!known)
            continue;
        GS_AUTO_FREE char *subject =
            gs_format("GPU %s", doctor_text(doctor_sample_label(sample, "UUID")));
        const char *host = doctor_sample_label(sample, "Hostname");
        host = host ? host : doctor_sample_label(sample, "hostname");
        doctor_add(
            e, (struct doctor_finding){
                   subject,
                   gs_format("The GPU reported Xid %.0f, an error of the hardware or the driver.",
                             xid),
                   gs_format("DCGM_FI_DEV_XID_ERRORS %.0f on %s", xid,
                             host ? host : "an unnamed node"),
                   gs_format("kubectl drain %s --ignore-daemonsets --delete-emptydir-data\n"
                             "nvidia-smi --gpu-reset   # on the node; after Xid 79 reboot",
                             host ? host : "NODE")});
    }
}

static bool same_label(const json_t *a, const json_t *b, const char *label)
{
    return gs_streq(doctor_sample_label(a, label), doctor_sample_label(b, label));
}

// The same metric of one GPU from two instances or jobs. Two exporters that share the work, each
// with metrics of its own, double nothing.
static bool doubles(const json_t *a, const json_t *b)
{
    return same_label(a, b, "UUID") && same_label(a, b, "__name__") &&
           same_label(a, b, "GPU_I_ID") &&
           !(same_label(a, b, "instance") && same_label(a, b, "job"));
}

// Reports the first pair. False: no pair exists.
static bool find_double(struct doctor_examination *e, const json_t *all)
{
    size_t i, n = json_array_size(all) < MAX_SERIES ? json_array_size(all) : MAX_SERIES;
    const json_t *a;

    json_array_foreach (all, i, a) {
        const char *uuid = doctor_sample_label(a, "UUID");
        for (size_t k = i + 1; uuid && i < n && k < n; k++) {
            const json_t *b = json_array_get(all, k);
            if (!doubles(a, b))
                continue;
            GS_AUTO_FREE char *subject = gs_format("GPU %s", uuid);
            doctor_add(
                e,
                (struct doctor_finding){
                    subject, gs_strdup("Prometheus has this GPU twice: two collectors export it."),
                    gs_format("%s of job %s instance %s, and of job %s instance %s",
                              doctor_text(doctor_sample_label(a, "__name__")),
                              doctor_text(doctor_sample_label(a, "job")),
                              doctor_text(doctor_sample_label(a, "instance")),
                              doctor_text(doctor_sample_label(b, "job")),
                              doctor_text(doctor_sample_label(b, "instance"))),
                    gs_strdup("Stop one exporter of the node (also look for one outside of "
                              "Kubernetes: systemctl status dcgm-exporter nv-hostengine), or "
                              "remove one of the two scrape jobs")});
            return true;
        }
    }
    return false;
}

void doctor_check_gpu_twice(struct doctor_examination *e)
{
    if (!find_double(e, doctor_query(e, "gpus")))
        find_double(e, doctor_query(e, "utilization"));
}

// --- attribution ---

enum blame { FINE, MOUNT, FLAG, ID_TYPE, DROPPED, OTHER };

static const json_t *gpu_pod(const struct doctor_examination *e)
{
    size_t i;
    const json_t *pod;

    json_array_foreach (doctor_items(e, "pods"), i, pod) {
        int64_t age = doctor_age_ms(e, codec_json_str(pod, "status", "startTime", NULL));
        if (gs_streq(kube_phase(pod), "Running") && age > 120000 && doctor_pod_gpus(pod) > 0)
            return pod;
    }
    return NULL;
}

static bool mounts_pod_resources(const json_t *exporter)
{
    size_t i;
    const json_t *volume;

    json_array_foreach (json_object_get(doctor_pod_spec(exporter), "volumes"), i, volume)
        if (gs_starts(doctor_text(codec_json_str(volume, "hostPath", "path", NULL)),
                      "/var/lib/kubelet") ||
            gs_streq(codec_json_str(volume, "hostPath", "path", NULL), "/"))
            return true;
    return false;
}

static bool is_enabled(const json_t *container)
{
    const char *env = doctor_env(container, "DCGM_EXPORTER_KUBERNETES");
    static const char *const flags[] = {"-k", "--kubernetes", "--kubernetes=true", "-k=true", NULL};

    for (size_t i = 0; flags[i]; i++)
        if (codec_json_has_string(json_object_get(container, "args"), flags[i]) ||
            codec_json_has_string(json_object_get(container, "command"), flags[i]))
            return true;
    return gs_streq(env, "true") || gs_streq(env, "1") || gs_streq(env, "TRUE");
}

static bool is_on_gke(const struct doctor_examination *e)
{
    size_t i;
    const json_t *node;

    json_array_foreach (doctor_items(e, "nodes"), i, node)
        if (kube_label(node, "cloud.google.com/gke-accelerator") && !nodes_is_embedded(node))
            return true;
    return false;
}

// Whether the page of an exporter has the labels that Prometheus does not have.
static bool page_has_pods(const struct doctor_examination *e)
{
    size_t i;
    const json_t *page;

    json_array_foreach (json_object_get(e->facts, "exporters"), i, page)
        if (codec_json_int(page, 0, "attributed", NULL) > 0)
            return true;
    return false;
}

static enum blame blame_of(const struct doctor_examination *e, const json_t **ret_exporter)
{
    const json_t *series = doctor_query(e, "gpus"), *sample, *pod, *container = NULL;
    size_t i;

    if (!json_array_size(series) || !gpu_pod(e))
        return FINE;
    json_array_foreach (series, i, sample)
        if (doctor_gpu_owner(e, sample).pod.len)
            return FINE;
    *ret_exporter = NULL;
    json_array_foreach (doctor_items(e, "pods"), i, pod) {
        container = doctor_container_of(pod, DOCTOR_EXPORTER_ROLE);
        if (container) {
            *ret_exporter = pod;
            break;
        }
    }
    if (!container)
        return OTHER;
    if (page_has_pods(e))
        return DROPPED;
    if (!mounts_pod_resources(*ret_exporter))
        return MOUNT;
    if (!is_enabled(container) && doctor_contains(codec_json_str(container, "image", NULL), "dcgm"))
        return FLAG;
    const char *type = doctor_flag(container, "--kubernetes-gpu-id-type");
    type = type ? type : doctor_env(container, "DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE");
    return is_on_gke(e) && !gs_streq(type, "device-name") ? ID_TYPE : OTHER;
}

static void report_attribution(struct doctor_examination *e, enum blame wanted, const char *what,
                               const char *fix)
{
    const json_t *exporter = NULL, *pod = gpu_pod(e);

    if (blame_of(e, &exporter) != wanted)
        return;
    char *evidence =
        gs_format("Pod %s/%s has GPUs, but none of %zu GPU series names a pod", kube_namespace(pod),
                  kube_name(pod), json_array_size(doctor_query(e, "gpus")));
    if (exporter)
        doctor_report(e, "Pod", exporter, gs_strdup(what), evidence, gs_strdup(fix));
    else
        doctor_add(e,
                   (struct doctor_finding){"exporter", gs_strdup(what), evidence, gs_strdup(fix)});
}

void doctor_check_pod_resources_mount(struct doctor_examination *e)
{
    report_attribution(
        e, MOUNT,
        "The exporter does not mount the kubelet's PodResources socket, so it does not know "
        "which pod uses a GPU.",
        "volumeMounts:\n- {name: pod-resources, mountPath: " POD_RESOURCES ", readOnly: true}\n"
        "volumes:\n- {name: pod-resources, hostPath: {path: " POD_RESOURCES "}}");
}

void doctor_check_kubernetes_flag(struct doctor_examination *e)
{
    report_attribution(e, FLAG, "The exporter's attribution to pods is not enabled.",
                       "env:\n- {name: DCGM_EXPORTER_KUBERNETES, value: \"true\"}");
}

void doctor_check_gpu_id_type(struct doctor_examination *e)
{
    report_attribution(
        e, ID_TYPE,
        "On GKE the kubelet names GPUs by device (nvidia0), but the exporter compares UUIDs.",
        "args: [\"--kubernetes-gpu-id-type\", \"device-name\"]");
}

void doctor_check_labels_dropped(struct doctor_examination *e)
{
    report_attribution(
        e, DROPPED, "The exporter's page names the pods, but the series in Prometheus do not.",
        "Remove the relabeling that drops the labels: metricRelabelings of the ServiceMonitor, "
        "metric_relabel_configs of the job (labeldrop of pod or exported_pod)");
}

void doctor_check_attribution_missing(struct doctor_examination *e)
{
    report_attribution(
        e, OTHER, "Pods use GPUs, but no GPU series has the label of a pod.",
        "The exporter's log names the cause: the socket, the name of the resource (shared or MIG "
        "GPUs have other names), or the type of the GPU IDs\n"
        "kubectl logs of the exporter's pod");
}

// --- the node's name ---

void doctor_check_hostname_label(struct doctor_examination *e)
{
    size_t i;
    const json_t *sample;

    json_array_foreach (doctor_query(e, "gpus"), i, sample) {
        const char *host = doctor_sample_label(sample, "Hostname");
        host = host ? host : doctor_sample_label(sample, "hostname");
        const json_t *pod = host ? doctor_find(e, "pods", NULL, host) : NULL;
        if (!pod || !doctor_container_of(pod, DOCTOR_EXPORTER_ROLE))
            continue;
        doctor_report(
            e, "Pod", pod,
            gs_strdup(
                "The host name of the GPU series is that of the exporter's pod, not that of the "
                "node."),
            gs_format("Hostname=\"%s\"", host),
            gs_strdup("env:                    # of the exporter\n- name: NODE_NAME\n  valueFrom: "
                      "{fieldRef: {fieldPath: spec.nodeName}}"));
        return;
    }
}

// --- rules ---

static const json_t *rules(const struct doctor_examination *e)
{
    return codec_json_get(e->prometheus, "rules", "groups", NULL);
}

static bool is_relevant(const struct doctor_examination *e, const json_t *rule)
{
    const char *name = codec_json_str(rule, "name", NULL);
    return doctor_is_gpu_name(name) || doctor_is_gpu_name(codec_json_str(rule, "query", NULL)) ||
           (name && doctor_hpa_uses(e, NULL, name));
}

void doctor_check_rule_failing(struct doctor_examination *e)
{
    size_t i, k;
    const json_t *group, *rule;

    json_array_foreach (rules(e), i, group) {
        json_array_foreach (json_object_get(group, "rules"), k, rule) {
            const char *error = codec_json_str(rule, "lastError", NULL);
            if (!gs_streq(codec_json_str(rule, "health", NULL), "err") || !is_relevant(e, rule))
                continue;
            GS_AUTO_FREE char *subject =
                gs_format("rule %s", doctor_text(codec_json_str(rule, "name", NULL)));
            doctor_add(
                e, (struct doctor_finding){
                       subject, gs_strdup("The rule cannot be evaluated."),
                       gs_format("%.300s\n%.300s", doctor_text(error),
                                 doctor_text(codec_json_str(rule, "query", NULL))),
                       gs_strdup(doctor_contains(error, "many-to-many") ||
                                         doctor_contains(error, "duplicate series")
                                     ? "Aggregate the side with several series: max by (namespace, "
                                       "pod) (…) instead of the bare metric"
                                     : "Test the expression with gpuscale query or in Prometheus' "
                                       "Graph page, and correct it in the PrometheusRule")});
        }
    }
}

static bool is_empty(const struct doctor_examination *e, const char *query)
{
    const json_t *result = doctor_query(e, query);
    return result && !json_array_size(result);
}

// Calls report for each recording rule of an autoscaler's metric that has no result.
static void each_empty_rule(struct doctor_examination *e, bool for_pod_labels,
                            void (*report)(struct doctor_examination *e, const json_t *rule))
{
    size_t i, k;
    const json_t *group, *rule;

    json_array_foreach (rules(e), i, group) {
        json_array_foreach (json_object_get(group, "rules"), k, rule) {
            const char *name = codec_json_str(rule, "name", NULL);
            const json_t *result =
                name ? codec_json_get(e->prometheus, "records", name, "result", NULL) : NULL;
            bool labels = doctor_contains(codec_json_str(rule, "query", NULL), "kube_pod_labels") &&
                          is_empty(e, "pod_labels");
            if (result && !json_array_size(result) && doctor_hpa_uses(e, NULL, name) &&
                gs_streq(codec_json_str(rule, "health", NULL), "ok") && labels == for_pod_labels)
                report(e, rule);
        }
    }
}

static void report_pod_labels(struct doctor_examination *e, const json_t *rule)
{
    GS_AUTO_FREE char *subject = gs_format("rule %s", codec_json_str(rule, "name", NULL));
    bool server = is_empty(e, "state_metrics");
    doctor_add(
        e,
        (struct doctor_finding){
            subject, gs_strdup("The rule has no result, because kube_pod_labels does not exist."),
            gs_format("count(kube_pod_labels): no series; kube-state-metrics %s",
                      server ? "is not scraped" : "runs, but exports no labels"),
            gs_strdup("kube-state-metrics:                # values of kube-prometheus-stack\n"
                      "  metricLabelsAllowlist: [\"pods=[*]\"]")});
}

static void report_empty(struct doctor_examination *e, const json_t *rule)
{
    GS_AUTO_FREE char *subject = gs_format("rule %s", codec_json_str(rule, "name", NULL));
    doctor_add(
        e,
        (struct doctor_finding){
            subject,
            gs_strdup("An autoscaler uses this recording rule, but the rule has no result."),
            gs_format("%.400s", doctor_text(codec_json_str(rule, "query", NULL))),
            gs_strdup("Evaluate the parts of the expression one after the other; usually a label "
                      "name differs (pod or exported_pod) or a join has no match")});
}

void doctor_check_pod_labels_missing(struct doctor_examination *e)
{
    each_empty_rule(e, true, report_pod_labels);
}

void doctor_check_rule_without_result(struct doctor_examination *e)
{
    each_empty_rule(e, false, report_empty);
}

static bool is_loaded(const struct doctor_examination *e, const json_t *object)
{
    const json_t *groups = codec_json_get(object, "spec", "groups", NULL), *want, *have;
    size_t i, k;

    json_array_foreach (groups, i, want)
        json_array_foreach (rules(e), k, have)
            if (gs_streq(codec_json_str(want, "name", NULL), codec_json_str(have, "name", NULL)))
                return true;
    return !json_array_size(groups);
}

void doctor_check_rules_not_loaded(struct doctor_examination *e)
{
    size_t i;
    const json_t *object;

    if (!rules(e) || !json_array_size(doctor_items(e, "prometheuses")))
        return;
    json_array_foreach (doctor_items(e, "prometheusrules"), i, object) {
        GS_AUTO_FREE char *text = codec_json_text(json_object_get(object, "spec"));
        if (!doctor_is_gpu_name(text) || is_loaded(e, object))
            continue;
        const json_t *prometheus = json_array_get(doctor_items(e, "prometheuses"), 0);
        const json_t *selector = codec_json_get(prometheus, "spec", "ruleSelector", NULL);
        GS_AUTO_FREE char *labels = doctor_labels_words(json_object_get(selector, "matchLabels"));
        doctor_report(
            e, "PrometheusRule", object,
            gs_format("Prometheus %s/%s has not loaded the rules.", kube_namespace(prometheus),
                      kube_name(prometheus)),
            gs_format("its ruleSelector requires %s", *labels ? labels : "(see its spec)"),
            gs_format("kubectl -n %s label prometheusrule %s %s", kube_namespace(object),
                      kube_name(object), *labels ? labels : "LABEL=VALUE"));
    }
}
