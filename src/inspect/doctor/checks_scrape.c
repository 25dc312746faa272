// SPDX-License-Identifier: Apache-2.0
// Checks of the way from the exporters to Prometheus: Services, ServiceMonitors, targets.
#include "base/clock.h"
#include "base/mem.h"
#include "doctor/doctor_private.h"
#include "kube/object.h"

#include <string.h>

#define MAX_INTERVAL_NS (60 * GS_NS_PER_SEC)

// --- Prometheus ---

static bool collects_metrics(const json_t *pod)
{
    static const char *const images[] = {"prometheus", "victoria",  "vmagent", "vmsingle",
                                         "alloy",      "agent",     "thanos",  "mimir",
                                         "otel",       "collector", NULL};
    return doctor_pod_has_image(pod, images);
}

static const json_t *pod_of_exporter(const struct doctor_examination *e)
{
    size_t i;
    const json_t *pod;

    json_array_foreach (doctor_items(e, "pods"), i, pod)
        if (doctor_container_of(pod, DOCTOR_EXPORTER_ROLE) && kube_condition_true(pod, "Ready"))
            return pod;
    return NULL;
}

void doctor_check_prometheus_missing(struct doctor_examination *e)
{
    size_t i;
    const json_t *pod;
    bool used = doctor_hpa_uses(e, "Pods", NULL) || doctor_hpa_uses(e, "Object", NULL) ||
                doctor_hpa_uses(e, "External", NULL);

    if (!used || !pod_of_exporter(e) || codec_json_str(e->prometheus, "address", NULL))
        return;
    json_array_foreach (doctor_items(e, "pods"), i, pod)
        if (!doctor_container_of(pod, DOCTOR_EXPORTER_ROLE) &&
            !doctor_container_of(pod, DOCTOR_ADAPTER_ROLE) && collects_metrics(pod))
            return;
    doctor_add(
        e, (struct doctor_finding){
               "Prometheus",
               gs_strdup("No Prometheus runs in the cluster, so nothing scrapes the exporters."),
               gs_strdup("no pod with an image of a Prometheus or a compatible collector"),
               gs_strdup("helm upgrade -i gpuscale deploy/helm/gpuscale -n monitoring "
                         "--create-namespace   # with its engine\n"
                         "or: helm upgrade -i kube-prometheus-stack kube-prometheus-stack --repo "
                         "https://prometheus-community.github.io/helm-charts -n monitoring")});
}

void doctor_check_prometheus_unreachable(struct doctor_examination *e)
{
    const char *why = codec_json_str(e->prometheus, "unknown", NULL);
    const char *address = codec_json_str(e->prometheus, "address", NULL);

    if (!why || !address || doctor_contains(why, "status 403") ||
        doctor_contains(why, "status 401"))
        return;
    doctor_add(e, (struct doctor_finding){address, gs_strdup("Prometheus does not answer."),
                                          gs_format("%.300s", why),
                                          gs_strdup("kubectl get pods -A | grep prometheus\n"
                                                    "kubectl logs of that pod names the cause")});
}

// --- targets ---

static const json_t *targets(const struct doctor_examination *e)
{
    return codec_json_get(e->prometheus, "targets", "activeTargets", NULL);
}

// The pods and targets of a large cluster are many. A set of names and addresses decides which of
// them belong together: an object whose members are the texts.

static void add_key(json_t *set, const char *text)
{
    if (text && *text)
        json_object_set_new(set, text, json_true());
}

static bool has_key(const json_t *set, const char *text)
{
    return text && json_object_get(set, text);
}

// The address of a pod, besides status.podIP; NULL: none.
static const char *host_address(const json_t *pod)
{
    bool host = codec_json_bool(pod, false, "spec", "hostNetwork", NULL);
    return host ? codec_json_str(pod, "status", "hostIP", NULL) : NULL;
}

// The host of scrapeUrl, caller frees.
static char *host_of(const json_t *target)
{
    const char *url = doctor_text(codec_json_str(target, "scrapeUrl", NULL));
    const char *scheme = strstr(url, "://"), *host = scheme ? scheme + strlen("://") : url;

    return *host == '[' ? gs_strndup(host + 1, strcspn(host + 1, "]"))
                        : gs_strndup(host, strcspn(host, ":/?#"));
}

// What is_gpu_target() searches; new reference.
static json_t *keys_of_exporters(const struct doctor_examination *e)
{
    json_t *set = json_object();
    size_t i;
    const json_t *pod;

    json_array_foreach (doctor_items(e, "pods"), i, pod) {
        if (!doctor_container_of(pod, DOCTOR_EXPORTER_ROLE))
            continue;
        add_key(set, kube_name(pod));
        add_key(set, codec_json_str(pod, "status", "podIP", NULL));
        add_key(set, host_address(pod));
    }
    return set;
}

// Jobs that select no Service also find that of the API server in the namespace default.
static bool is_api_server(const json_t *target)
{
    const json_t *labels = json_object_get(target, "discoveredLabels");

    return gs_streq(codec_json_str(labels, "__meta_kubernetes_namespace", NULL), "default") &&
           gs_streq(codec_json_str(labels, "__meta_kubernetes_service_name", NULL), "kubernetes");
}

static bool is_gpu_target(const json_t *exporters, const json_t *target)
{
    GS_AUTO_FREE char *host = host_of(target);

    if (is_api_server(target))
        return false;
    return doctor_is_gpu_name(codec_json_str(target, "labels", "job", NULL)) ||
           doctor_contains(codec_json_str(target, "scrapeUrl", NULL), ":9400/") ||
           has_key(exporters, codec_json_str(target, "labels", "pod", NULL)) ||
           has_key(exporters, host);
}

// What is_scraped() searches; new reference.
static json_t *target_keys(const struct doctor_examination *e)
{
    json_t *set = json_object();
    size_t i;
    const json_t *target;

    json_array_foreach (targets(e), i, target) {
        GS_AUTO_FREE char *host = host_of(target);
        add_key(set, codec_json_str(target, "labels", "pod", NULL));
        add_key(set, host);
    }
    return set;
}

static bool is_scraped(const json_t *scraped, const json_t *pod)
{
    return has_key(scraped, kube_name(pod)) ||
           has_key(scraped, codec_json_str(pod, "status", "podIP", NULL)) ||
           has_key(scraped, host_address(pod));
}

static bool is_timeout(const char *error)
{
    return doctor_contains(error, "deadline exceeded") || doctor_contains(error, "timed out") ||
           doctor_contains(error, "timeout");
}

static void each_down(struct doctor_examination *e, bool timeouts,
                      void (*report)(struct doctor_examination *e, const json_t *target,
                                     const char *error))
{
    CODEC_AUTO_JSON json_t *exporters = keys_of_exporters(e);
    size_t i;
    const json_t *target;

    json_array_foreach (targets(e), i, target) {
        const char *error = codec_json_str(target, "lastError", NULL);
        if (gs_streq(codec_json_str(target, "health", NULL), "down") &&
            is_gpu_target(exporters, target) && is_timeout(error) == timeouts)
            report(e, target, error);
    }
}

static void report_down(struct doctor_examination *e, const json_t *target, const char *error)
{
    const char *url = doctor_text(codec_json_str(target, "scrapeUrl", NULL));
    GS_AUTO_FREE char *subject = gs_format("target %s", url);
    doctor_add(e,
               (struct doctor_finding){
                   subject,
                   gs_format("Prometheus cannot scrape this exporter (job %s).",
                             doctor_text(codec_json_str(target, "labels", "job", NULL))),
                   gs_format("last error: %.300s", doctor_text(error)),
                   gs_format("curl -sS %s | head    # from a pod of the cluster\n"
                             "A refused connection: the exporter does not listen there, or another "
                             "port. No route or a timeout: a NetworkPolicy or firewall.",
                             url)});
}

static void report_timeout(struct doctor_examination *e, const json_t *target, const char *error)
{
    GS_AUTO_FREE char *subject =
        gs_format("target %s", doctor_text(codec_json_str(target, "scrapeUrl", NULL)));
    doctor_add(e, (struct doctor_finding){
                      subject,
                      gs_format("The exporter answers too late: the scrape timeout is %s.",
                                doctor_text(codec_json_str(target, "scrapeTimeout", NULL))),
                      gs_format("last error: %.300s", doctor_text(error)),
                      gs_strdup("endpoints:            # of the ServiceMonitor\n- port: metrics\n"
                                "  interval: 15s\n  scrapeTimeout: 14s\n"
                                "and raise the CPU limit of the exporter")});
}

void doctor_check_target_down(struct doctor_examination *e)
{
    each_down(e, false, report_down);
}

void doctor_check_target_timeout(struct doctor_examination *e)
{
    each_down(e, true, report_timeout);
}

void doctor_check_target_twice(struct doctor_examination *e)
{
    CODEC_AUTO_JSON json_t *exporters = keys_of_exporters(e);
    CODEC_AUTO_JSON json_t *first = json_object(); // URL: the first target with it
    size_t i;
    const json_t *target;

    json_array_foreach (targets(e), i, target) {
        const char *url = codec_json_str(target, "scrapeUrl", NULL);
        json_t *other = url ? json_object_get(first, url) : NULL;
        if (!url || !is_gpu_target(exporters, target))
            continue;
        if (!other) {
            json_object_set(first, url, (json_t *)target);
            continue;
        }
        GS_AUTO_FREE char *subject = gs_format("target %s", url);
        doctor_add(
            e, (struct doctor_finding){
                   subject, gs_strdup("Prometheus scrapes this exporter twice."),
                   gs_format("scrape pools %s and %s",
                             doctor_text(codec_json_str(other, "scrapePool", NULL)),
                             doctor_text(codec_json_str(target, "scrapePool", NULL))),
                   gs_strdup("Remove one of the two: kubectl get servicemonitors,podmonitors -A, "
                             "and additionalScrapeConfigs of the Prometheus")});
    }
}

static int64_t interval_of(const json_t *target)
{
    const char *text = codec_json_str(target, "scrapeInterval", NULL);
    int64_t ns = 0;
    struct gs_error *err = text ? gs_parse_duration(gs_slice_of(text), &ns) : NULL;

    gs_error_free(err);
    return err ? 0 : ns;
}

void doctor_check_scrape_interval(struct doctor_examination *e)
{
    CODEC_AUTO_JSON json_t *exporters = keys_of_exporters(e);
    size_t i;
    const json_t *target;

    json_array_foreach (targets(e), i, target) {
        if (!is_gpu_target(exporters, target) || interval_of(target) <= MAX_INTERVAL_NS)
            continue;
        GS_AUTO_FREE char *subject =
            gs_format("target %s", doctor_text(codec_json_str(target, "scrapeUrl", NULL)));
        doctor_add(e,
                   (struct doctor_finding){
                       subject,
                       gs_format("The exporter is scraped every %s only.",
                                 codec_json_str(target, "scrapeInterval", NULL)),
                       gs_format("scrapeInterval %s; the autoscaler evaluates every 15s",
                                 codec_json_str(target, "scrapeInterval", NULL)),
                       gs_strdup("endpoints:            # of the ServiceMonitor\n- port: metrics\n"
                                 "  interval: 15s")});
        return;
    }
}

void doctor_check_scrape_stalled(struct doctor_examination *e)
{
    CODEC_AUTO_JSON json_t *exporters = keys_of_exporters(e);
    size_t i;
    const json_t *target;

    json_array_foreach (targets(e), i, target) {
        int64_t age = doctor_age_ms(e, codec_json_str(target, "lastScrape", NULL));
        int64_t interval = interval_of(target) / GS_NS_PER_MS;
        if (!is_gpu_target(exporters, target) || !interval || age < 3 * interval + 30000 ||
            gs_starts(doctor_text(codec_json_str(target, "lastScrape", NULL)), "0001-"))
            continue;
        GS_AUTO_FREE char *subject =
            gs_format("target %s", doctor_text(codec_json_str(target, "scrapeUrl", NULL)));
        doctor_add(
            e, (struct doctor_finding){
                   subject,
                   gs_format("The last scrape was %lld s ago, although the interval is %s.",
                             (long long)age / 1000, codec_json_str(target, "scrapeInterval", NULL)),
                   gs_format("lastScrape %s", codec_json_str(target, "lastScrape", NULL)),
                   gs_strdup("Restart the Prometheus, and give it more CPU and memory; compare the "
                             "clocks of its node and of yours")});
    }
}

// --- why an exporter is not scraped ---

enum gap {
    NO_GAP,
    NO_SERVICE,
    NO_MONITOR,
    MONITOR_NAMESPACE,
    MONITOR_PORT,
    MONITOR_NOT_SELECTED,
    MONITOR_NAMESPACE_NOT_SELECTED,
    JOB_NAMESPACE,
};

struct monitor_fault {
    enum gap gap;
    const json_t *pod, *service, *monitor, *prometheus;
    const char *job;
};

static const json_t *service_of(const struct doctor_examination *e, const json_t *pod)
{
    size_t i;
    const json_t *service;

    json_array_foreach (doctor_items(e, "services"), i, service)
        if (gs_streq(kube_namespace(service), kube_namespace(pod)) &&
            doctor_selects(codec_json_get(service, "spec", "selector", NULL), pod))
            return service;
    return NULL;
}

static bool monitor_reaches(const json_t *monitor, const char *ns)
{
    const json_t *selector = codec_json_get(monitor, "spec", "namespaceSelector", NULL);
    const json_t *names = json_object_get(selector, "matchNames");

    if (codec_json_bool(selector, false, "any", NULL))
        return true;
    return json_array_size(names) ? codec_json_has_string(names, doctor_text(ns))
                                  : gs_streq(kube_namespace(monitor), ns);
}

static bool has_port(const json_t *service, const char *name)
{
    size_t i;
    const json_t *port;

    json_array_foreach (codec_json_get(service, "spec", "ports", NULL), i, port)
        if (gs_streq(codec_json_str(port, "name", NULL), name))
            return true;
    return false;
}

static bool monitor_has_port(const json_t *monitor, const json_t *service)
{
    size_t i;
    const json_t *endpoint;

    json_array_foreach (codec_json_get(monitor, "spec", "endpoints", NULL), i, endpoint) {
        const char *port = codec_json_str(endpoint, "port", NULL);
        if (json_object_get(endpoint, "targetPort") || (port && has_port(service, port)))
            return true;
    }
    return false;
}

static enum gap selected_by_prometheus(const struct doctor_examination *e, struct monitor_fault *d)
{
    const json_t *all = doctor_items(e, "prometheuses"), *prometheus;
    enum gap gap = NO_GAP;
    size_t i;

    json_array_foreach (all, i, prometheus) {
        bool labels;
        if (doctor_prometheus_selects(e, prometheus, d->monitor, "serviceMonitorSelector",
                                      "serviceMonitorNamespaceSelector", &labels))
            return NO_GAP;
        d->prometheus = prometheus;
        gap = labels ? MONITOR_NAMESPACE_NOT_SELECTED : MONITOR_NOT_SELECTED;
    }
    return gap;
}

// A scrape job for GPUs that is restricted to other namespaces.
static const char *job_elsewhere(const struct doctor_examination *e, const char *ns)
{
    size_t i, k;
    const json_t *job, *sd;

    json_array_foreach (codec_json_get(e->prometheus, "scrapeConfigs", NULL), i, job) {
        const char *name = codec_json_str(job, "job_name", NULL);
        if (!doctor_is_gpu_name(name))
            continue;
        json_array_foreach (json_object_get(job, "kubernetes_sd_configs"), k, sd) {
            const json_t *names = codec_json_get(sd, "namespaces", "names", NULL);
            if (json_array_size(names) && !codec_json_has_string(names, doctor_text(ns)))
                return name;
        }
    }
    return NULL;
}

static enum gap gap_of_monitors(const struct doctor_examination *e, struct monitor_fault *d)
{
    size_t i;
    const json_t *monitor;
    enum gap gap = NO_MONITOR;

    json_array_foreach (doctor_items(e, "servicemonitors"), i, monitor) {
        if (!doctor_label_selects(codec_json_get(monitor, "spec", "selector", NULL), d->service))
            continue;
        d->monitor = monitor;
        if (!monitor_reaches(monitor, kube_namespace(d->service)))
            gap = MONITOR_NAMESPACE;
        else if (!monitor_has_port(monitor, d->service))
            gap = MONITOR_PORT;
        else
            return selected_by_prometheus(e, d);
    }
    return gap;
}

// The first exporter that no Prometheus scrapes.
static struct monitor_fault diagnose(const struct doctor_examination *e)
{
    struct monitor_fault d = {0};
    size_t i;
    const json_t *pod;

    if (!targets(e) || !doctor_items(e, "services"))
        return d;
    CODEC_AUTO_JSON json_t *scraped = target_keys(e);
    json_array_foreach (doctor_items(e, "pods"), i, pod) {
        int64_t age = doctor_age_ms(e, codec_json_str(pod, "status", "startTime", NULL));
        if (!doctor_container_of(pod, DOCTOR_EXPORTER_ROLE) || !kube_condition_true(pod, "Ready") ||
            is_scraped(scraped, pod) || (age >= 0 && age < 120000))
            continue;
        d.pod = pod;
        d.job = job_elsewhere(e, kube_namespace(pod));
        d.service = service_of(e, pod);
        d.gap = d.job ? JOB_NAMESPACE : d.service ? gap_of_monitors(e, &d) : NO_SERVICE;
        if (d.gap == NO_GAP)
            d.gap = NO_MONITOR;
        return d;
    }
    return d;
}

void doctor_check_exporter_service(struct doctor_examination *e)
{
    struct monitor_fault d = diagnose(e);
    size_t i;
    const json_t *service, *near = NULL;

    if (d.gap != NO_SERVICE)
        return;
    json_array_foreach (doctor_items(e, "services"), i, service)
        if (gs_streq(kube_namespace(service), kube_namespace(d.pod)) &&
            doctor_is_gpu_name(kube_name(service)))
            near = service;
    GS_AUTO_FREE char *labels =
        doctor_labels_text(codec_json_get(d.pod, "metadata", "labels", NULL));
    GS_AUTO_FREE char *yaml = doctor_labels_yaml(codec_json_get(d.pod, "metadata", "labels", NULL));
    GS_AUTO_FREE char *selector =
        doctor_labels_text(codec_json_get(near, "spec", "selector", NULL));
    doctor_report(
        e, near ? "Service" : "Pod", near ? near : d.pod,
        near ? gs_strdup("The exporter's Service selects none of its pods.")
             : gs_strdup("No Service selects the exporter's pods, so a ServiceMonitor cannot "
                         "find them."),
        near ? gs_format("selector %s; labels of Pod %s: %s", selector, kube_name(d.pod), labels)
             : gs_format("labels of the pod: %s", labels),
        near
            ? gs_format("kubectl -n %s edit service %s   # spec.selector", kube_namespace(near),
                        kube_name(near))
            : gs_format("apiVersion: v1\nkind: Service\nmetadata: {name: dcgm-exporter, namespace: "
                        "%s}\nspec:\n  selector: {%s}\n  ports:\n  - {name: metrics, port: 9400}",
                        kube_namespace(d.pod), yaml));
}

// How a ServiceMonitor names the first port of a Service: a single port may have no name.
static char *endpoint_of(const json_t *service)
{
    const json_t *port = json_array_get(codec_json_get(service, "spec", "ports", NULL), 0);
    const char *name = codec_json_str(port, "name", NULL);
    const char *target = codec_json_str(port, "targetPort", NULL); // a name; otherwise a number
    int64_t number = codec_json_int(port, 9400, "port", NULL);

    if (name)
        return gs_format("port: %s", name);
    if (target)
        return gs_format("targetPort: %s", target);
    return gs_format("targetPort: %lld",
                     (long long)codec_json_int(port, number, "targetPort", NULL));
}

void doctor_check_exporter_not_scraped(struct doctor_examination *e)
{
    struct monitor_fault d = diagnose(e);

    if (d.gap != NO_MONITOR)
        return;
    GS_AUTO_FREE char *labels =
        doctor_labels_text(codec_json_get(d.service, "metadata", "labels", NULL));
    GS_AUTO_FREE char *yaml =
        doctor_labels_yaml(codec_json_get(d.service, "metadata", "labels", NULL));
    GS_AUTO_FREE char *port = endpoint_of(d.service);
    doctor_report(
        e, "Service", d.service,
        gs_strdup(
            "Prometheus scrapes none of the exporter's pods: no target has port 9400 of them."),
        gs_format("no active target for Pod %s/%s; labels of the Service: %s",
                  kube_namespace(d.pod), kube_name(d.pod), labels),
        doctor_absent(e, "servicemonitors")
            ? gs_format("scrape_configs:\n- job_name: gpu-metrics\n  kubernetes_sd_configs:\n"
                        "  - role: endpoints\n    namespaces: {names: [%s]}\n  relabel_configs:\n"
                        "  - source_labels: [__meta_kubernetes_service_name]\n    regex: %s\n"
                        "    action: keep",
                        kube_namespace(d.service), kube_name(d.service))
            : gs_format("apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nmetadata: "
                        "{name: %s, "
                        "namespace: %s}\nspec:\n  selector:\n    matchLabels: {%s}\n  endpoints:\n"
                        "  - {%s, interval: 15s}",
                        kube_name(d.service), kube_namespace(d.service), yaml, port));
}

void doctor_check_monitor_namespace(struct doctor_examination *e)
{
    struct monitor_fault d = diagnose(e);

    if (d.gap != MONITOR_NAMESPACE)
        return;
    doctor_report(
        e, "ServiceMonitor", d.monitor,
        gs_format("The ServiceMonitor does not look in namespace %s, where the exporter's "
                  "Service is.",
                  kube_namespace(d.service)),
        gs_format("Service %s/%s has the labels, but spec.namespaceSelector excludes it",
                  kube_namespace(d.service), kube_name(d.service)),
        gs_format("kubectl -n %s patch servicemonitor %s --type=merge -p "
                  "'{\"spec\":{\"namespaceSelector\":{\"matchNames\":[\"%s\"]}}}'",
                  kube_namespace(d.monitor), kube_name(d.monitor), kube_namespace(d.service)));
}

void doctor_check_monitor_port(struct doctor_examination *e)
{
    struct monitor_fault d = diagnose(e);

    if (d.gap != MONITOR_PORT)
        return;
    const json_t *endpoint =
        json_array_get(codec_json_get(d.monitor, "spec", "endpoints", NULL), 0);
    const json_t *port = json_array_get(codec_json_get(d.service, "spec", "ports", NULL), 0);
    const char *wanted = codec_json_str(endpoint, "port", NULL),
               *name = codec_json_str(port, "name", NULL);
    doctor_report(
        e, "ServiceMonitor", d.monitor,
        gs_format("The ServiceMonitor names port %s, which Service %s/%s does not have.",
                  wanted ? wanted : "(none)", kube_namespace(d.service), kube_name(d.service)),
        gs_format("the Service's port is named %s", name ? name : "(no name)"),
        name
            ? gs_format("kubectl -n %s patch servicemonitor %s --type=json -p "
                        "'[{\"op\":\"add\",\"path\":\"/spec/endpoints/0/port\",\"value\":\"%s\"}]'",
                        kube_namespace(d.monitor), kube_name(d.monitor), name)
            : gs_format("kubectl -n %s patch service %s --type=json -p "
                        "'[{\"op\":\"add\",\"path\":\"/spec/ports/0/name\",\"value\":\"%s\"}]'",
                        kube_namespace(d.service), kube_name(d.service),
                        wanted ? wanted : "metrics"));
}

void doctor_check_monitor_not_selected(struct doctor_examination *e)
{
    struct monitor_fault d = diagnose(e);

    if (d.gap != MONITOR_NOT_SELECTED)
        return;
    const json_t *selector = codec_json_get(d.prometheus, "spec", "serviceMonitorSelector", NULL);
    GS_AUTO_FREE char *labels = doctor_labels_words(json_object_get(selector, "matchLabels"));
    GS_AUTO_FREE char *want = codec_json_text(selector ? selector : json_null());
    doctor_report(
        e, "ServiceMonitor", d.monitor,
        gs_format("Prometheus %s/%s ignores the exporter's ServiceMonitor: it lacks the labels "
                  "that serviceMonitorSelector requires.",
                  kube_namespace(d.prometheus), kube_name(d.prometheus)),
        gs_format("serviceMonitorSelector: %s", want),
        gs_format("kubectl -n %s label servicemonitor %s %s", kube_namespace(d.monitor),
                  kube_name(d.monitor), *labels ? labels : "LABEL=VALUE"));
}

void doctor_check_monitor_namespace_not_selected(struct doctor_examination *e)
{
    struct monitor_fault d = diagnose(e);

    if (d.gap != MONITOR_NAMESPACE_NOT_SELECTED)
        return;
    doctor_report(e, "ServiceMonitor", d.monitor,
                  gs_format("Prometheus %s/%s does not read ServiceMonitors of namespace %s.",
                            kube_namespace(d.prometheus), kube_name(d.prometheus),
                            kube_namespace(d.monitor)),
                  gs_strdup("its serviceMonitorNamespaceSelector does not select the namespace"),
                  gs_format("kubectl -n %s patch prometheus %s --type=merge -p "
                            "'{\"spec\":{\"serviceMonitorNamespaceSelector\":{}}}'",
                            kube_namespace(d.prometheus), kube_name(d.prometheus)));
}

void doctor_check_job_namespace(struct doctor_examination *e)
{
    struct monitor_fault d = diagnose(e);

    if (d.gap != JOB_NAMESPACE)
        return;
    GS_AUTO_FREE char *subject = gs_format("scrape job %s", d.job);
    doctor_add(
        e,
        (struct doctor_finding){
            subject,
            gs_format("The scrape job looks for exporters in other namespaces than %s, where they "
                      "run.",
                      kube_namespace(d.pod)),
            gs_format("kubernetes_sd_configs[].namespaces.names lacks %s; Pod %s/%s is no target",
                      kube_namespace(d.pod), kube_namespace(d.pod), kube_name(d.pod)),
            gs_format("additionalScrapeConfigs:\n- job_name: %s\n  kubernetes_sd_configs:\n"
                      "  - role: endpoints\n    namespaces: {names: [%s]}",
                      d.job, kube_namespace(d.pod))});
}
