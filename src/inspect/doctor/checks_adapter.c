// SPDX-License-Identifier: Apache-2.0
// Checks of the metrics APIs: adapter, APIServices, certificates, permissions.
#include "base/clock.h"
#include "base/mem.h"
#include "doctor/doctor_private.h"
#include "kube/object.h"

#include <stdlib.h>
#include <string.h>

#define EXPIRY_WARNING_S (14 * 86400)
#define MAX_TIME_S       INT64_C(253402300799) // the year 9999

// --- the APIs ---

static bool api_absent(const struct doctor_examination *e, const char *group_version)
{
    return codec_json_bool(e->facts, false, "apis", group_version, "absent", NULL);
}

static const json_t *api_service(const struct doctor_examination *e, const char *name)
{
    return doctor_find(e, "apiservices", NULL, name);
}

void doctor_check_custom_metrics_missing(struct doctor_examination *e)
{
    if ((!doctor_hpa_uses(e, "Pods", NULL) && !doctor_hpa_uses(e, "Object", NULL)) ||
        !api_absent(e, "custom.metrics.k8s.io/v1beta1") ||
        !api_absent(e, "custom.metrics.k8s.io/v1beta2") ||
        api_service(e, "v1beta1.custom.metrics.k8s.io") ||
        api_service(e, "v1beta2.custom.metrics.k8s.io"))
        return;
    doctor_add(e,
               (struct doctor_finding){
                   "custom.metrics.k8s.io",
                   gs_strdup("Autoscalers use metrics of pods or objects, but no adapter serves "
                             "custom.metrics.k8s.io."),
                   gs_strdup("no APIService v1beta1.custom.metrics.k8s.io"),
                   gs_strdup("helm upgrade -i gpuscale deploy/helm/gpuscale -n monitoring\n"
                             "or: helm upgrade -i prometheus-adapter prometheus-adapter --repo "
                             "https://prometheus-community.github.io/helm-charts -n monitoring")});
}

void doctor_check_external_metrics_missing(struct doctor_examination *e)
{
    if (!doctor_hpa_uses(e, "External", NULL) ||
        !api_absent(e, "external.metrics.k8s.io/v1beta1") ||
        api_service(e, "v1beta1.external.metrics.k8s.io"))
        return;
    doctor_add(
        e, (struct doctor_finding){
               "external.metrics.k8s.io",
               gs_strdup("Autoscalers use external metrics, but nothing serves "
                         "external.metrics.k8s.io."),
               gs_strdup("no APIService v1beta1.external.metrics.k8s.io"),
               gs_strdup("Add externalRules to the adapter's configuration (rules.external of the "
                         "chart prometheus-adapter)")});
}

void doctor_check_resource_metrics_missing(struct doctor_examination *e)
{
    if ((!doctor_hpa_uses(e, "Resource", NULL) && !doctor_hpa_uses(e, "ContainerResource", NULL)) ||
        !api_absent(e, "metrics.k8s.io/v1beta1") || api_service(e, "v1beta1.metrics.k8s.io"))
        return;
    doctor_add(
        e,
        (struct doctor_finding){
            "metrics.k8s.io",
            gs_strdup("Autoscalers use CPU or memory, but nothing serves metrics.k8s.io."),
            gs_strdup("no APIService v1beta1.metrics.k8s.io"),
            gs_strdup("kubectl apply -f https://github.com/kubernetes-sigs/metrics-server/releases/"
                      "latest/download/components.yaml")});
}

enum outage { FINE, NO_SERVICE, NO_ENDPOINTS, CERTIFICATE, OTHER };

static bool is_metrics_api(const char *name)
{
    const char *end = name ? strstr(name, "metrics.k8s.io") : NULL;
    return end && gs_streq(end, "metrics.k8s.io");
}

static enum outage outage_of(const json_t *service)
{
    const json_t *available = kube_condition(service, "Available");
    const char *reason = codec_json_str(available, "reason", NULL);
    const char *message = codec_json_str(available, "message", NULL);

    if (!available || kube_condition_true(service, "Available"))
        return FINE;
    if (gs_streq(reason, "ServiceNotFound"))
        return NO_SERVICE;
    if (gs_streq(reason, "MissingEndpoints") || gs_streq(reason, "EndpointsNotFound"))
        return NO_ENDPOINTS;
    return doctor_contains(message, "x509") || doctor_contains(message, "certificate") ? CERTIFICATE
                                                                                       : OTHER;
}

static const char *target_namespace(const json_t *service)
{
    return doctor_text(codec_json_str(service, "spec", "service", "namespace", NULL));
}

static const char *target_name(const json_t *service)
{
    return doctor_text(codec_json_str(service, "spec", "service", "name", NULL));
}

static char *message_of(const json_t *service)
{
    const json_t *available = kube_condition(service, "Available");
    return gs_format("%s: %.400s", doctor_text(codec_json_str(available, "reason", NULL)),
                     doctor_text(codec_json_str(available, "message", NULL)));
}

static void each_outage(struct doctor_examination *e, enum outage wanted,
                        void (*report)(struct doctor_examination *e, const json_t *service))
{
    size_t i;
    const json_t *service;

    json_array_foreach (doctor_items(e, "apiservices"), i, service)
        if (is_metrics_api(kube_name(service)) && outage_of(service) == wanted)
            report(e, service);
}

// The Service in front of the adapter's pods.
static const json_t *adapter_service(const struct doctor_examination *e)
{
    size_t i, k;
    const json_t *pod, *service;

    json_array_foreach (doctor_items(e, "pods"), i, pod) {
        if (!doctor_container_of(pod, DOCTOR_ADAPTER_ROLE))
            continue;
        json_array_foreach (doctor_items(e, "services"), k, service)
            if (gs_streq(kube_namespace(service), kube_namespace(pod)) &&
                doctor_selects(codec_json_get(service, "spec", "selector", NULL), pod))
                return service;
    }
    return NULL;
}

static void report_no_service(struct doctor_examination *e, const json_t *service)
{
    const json_t *right = adapter_service(e);
    doctor_report(
        e, "APIService", service,
        gs_format("The APIService points to Service %s/%s, which does not exist.",
                  target_namespace(service), target_name(service)),
        message_of(service),
        right ? gs_format("kubectl patch apiservice %s --type=merge -p "
                          "'{\"spec\":{\"service\":{\"namespace\":\"%s\",\"name\":\"%s\"}}}'",
                          kube_name(service), kube_namespace(right), kube_name(right))
              : gs_format("Install the server of this API, or remove it: kubectl delete "
                          "apiservice %s",
                          kube_name(service)));
}

static void report_no_endpoints(struct doctor_examination *e, const json_t *service)
{
    doctor_report(
        e, "APIService", service,
        gs_format("Service %s/%s has no ready pod, so the API is unavailable.",
                  target_namespace(service), target_name(service)),
        message_of(service),
        gs_format("kubectl -n %s get endpointslices,pods\n"
                  "kubectl -n %s get service %s -o jsonpath='{.spec.selector}'   # must match the "
                  "pods",
                  target_namespace(service), target_namespace(service), target_name(service)));
}

static void report_certificate(struct doctor_examination *e, const json_t *service)
{
    doctor_report(
        e, "APIService", service,
        gs_strdup("The API server does not trust the adapter's serving certificate."),
        message_of(service),
        gs_format("Put the CA of the certificate into spec.caBundle, or let cert-manager do it "
                  "(cert-manager.io/inject-ca-from). For a test only:\n"
                  "kubectl patch apiservice %s --type=merge -p "
                  "'{\"spec\":{\"insecureSkipTLSVerify\":true,\"caBundle\":null}}'",
                  kube_name(service)));
}

static void report_outage(struct doctor_examination *e, const json_t *service)
{
    doctor_report(
        e, "APIService", service, gs_strdup("The metrics API is unavailable."), message_of(service),
        gs_format("kubectl -n %s get pods,service,endpointslices\n"
                  "A timeout: the control plane must reach the adapter's port (usually 6443; open "
                  "the firewall, or use hostNetwork)",
                  target_namespace(service)));
}

void doctor_check_apiservice_service(struct doctor_examination *e)
{
    each_outage(e, NO_SERVICE, report_no_service);
}

void doctor_check_apiservice_endpoints(struct doctor_examination *e)
{
    each_outage(e, NO_ENDPOINTS, report_no_endpoints);
}

void doctor_check_apiservice_certificate(struct doctor_examination *e)
{
    each_outage(e, CERTIFICATE, report_certificate);
}

void doctor_check_apiservice_unavailable(struct doctor_examination *e)
{
    each_outage(e, OTHER, report_outage);
}

// --- owners ---

static bool has_external_without_keda(const struct doctor_examination *e, const json_t **ret)
{
    size_t i, k;
    const json_t *hpa, *metric;

    json_array_foreach (doctor_items(e, "hpas"), i, hpa) {
        const json_t *owner = kube_controller_ref(hpa);
        if (gs_streq(codec_json_str(owner, "kind", NULL), "ScaledObject"))
            continue;
        json_array_foreach (codec_json_get(hpa, "spec", "metrics", NULL), k, metric) {
            if (gs_streq(codec_json_str(metric, "type", NULL), "External")) {
                *ret = hpa;
                return true;
            }
        }
    }
    return false;
}

void doctor_check_external_metrics_owner(struct doctor_examination *e)
{
    const json_t *service = api_service(e, "v1beta1.external.metrics.k8s.io"), *hpa = NULL;

    if (!doctor_contains(target_name(service), "keda") || !has_external_without_keda(e, &hpa))
        return;
    doctor_report(
        e, "APIService", service,
        gs_format("KEDA owns external.metrics.k8s.io and serves only the metrics of its "
                  "ScaledObjects, not those of HPA %s/%s.",
                  kube_namespace(hpa), kube_name(hpa)),
        gs_format("spec.service is %s/%s; a cluster has one server for this API",
                  target_namespace(service), target_name(service)),
        gs_strdup("Write the autoscaler as a ScaledObject with a prometheus trigger, or serve the "
                  "metric as a custom metric (rules instead of externalRules)"));
}

void doctor_check_custom_metrics_owner(struct doctor_examination *e)
{
    const json_t *service = api_service(e, "v1beta1.custom.metrics.k8s.io");
    const json_t *right = adapter_service(e);

    if (!service || !right || outage_of(service) == NO_SERVICE || !*target_name(service) ||
        (gs_streq(target_name(service), kube_name(right)) &&
         gs_streq(target_namespace(service), kube_namespace(right))))
        return;
    doctor_report(
        e, "APIService", service,
        gs_format("custom.metrics.k8s.io belongs to Service %s/%s, not to the adapter %s/%s.",
                  target_namespace(service), target_name(service), kube_namespace(right),
                  kube_name(right)),
        gs_strdup("a cluster has one server for this API; the adapter's metrics are not served"),
        gs_format("Remove the other server, then:\nkubectl patch apiservice %s --type=merge -p "
                  "'{\"spec\":{\"service\":{\"namespace\":\"%s\",\"name\":\"%s\"}}}'",
                  kube_name(service), kube_namespace(right), kube_name(right)));
}

// --- the adapter's pods ---

static void report_adapter(struct doctor_examination *e, const json_t *pod, const char *why,
                           const char *remedy)
{
    const char *name = codec_json_str(doctor_container_of(pod, DOCTOR_ADAPTER_ROLE), "name", NULL);
    const json_t *status = name ? doctor_container_status(pod, name) : NULL;
    GS_AUTO_FREE char *key =
        gs_format("%s/%s/%s", kube_namespace(pod), kube_name(pod), doctor_text(name));
    const char *log = doctor_text(codec_json_str(e->facts, "logs", key, NULL));
    size_t n = strlen(log);

    doctor_report(e, "Pod", pod, gs_format("The adapter does not run: %s.", why),
                  gs_format("%lld restarts; log: %s",
                            (long long)codec_json_int(status, 0, "restartCount", NULL),
                            log + (n > 400 ? n - 400 : 0)),
                  gs_format("%s%skubectl -n %s logs %s --previous\n"
                            "Check its configuration: gpuscale check adapter FILE",
                            doctor_text(remedy), remedy ? "\n" : "", kube_namespace(pod),
                            kube_name(pod)));
}

void doctor_check_adapter_not_running(struct doctor_examination *e)
{
    size_t i;
    const json_t *pod;

    json_array_foreach (doctor_items(e, "pods"), i, pod) {
        const json_t *container = doctor_container_of(pod, DOCTOR_ADAPTER_ROLE);
        const char *name = codec_json_str(container, "name", NULL);
        const json_t *status = name ? doctor_container_status(pod, name) : NULL;
        const char *waiting = codec_json_str(status, "state", "waiting", "reason", NULL);
        bool restarts = codec_json_int(status, 0, "restartCount", NULL) > 0;
        bool starts = !waiting || gs_streq(waiting, "ContainerCreating") ||
                      gs_streq(waiting, "PodInitializing");
        const struct doctor_diagnosis *d = doctor_diagnosis_of(e, pod);
        if (container && d)
            report_adapter(e, pod, d->is.text, d->is.remedy);
        else if (status && !codec_json_bool(status, false, "ready", NULL) &&
                 !kube_is_deleting(pod) && (restarts || !starts))
            report_adapter(e, pod, waiting ? waiting : "not ready", NULL);
    }
}

// --- the adapter's source ---

struct service_url {
    char *name, *ns; // ns NULL: not in the URL
    int64_t port;
};

static void finish_service_url(struct service_url *u)
{
    free(u->name);
    free(u->ns);
}

// "http://NAME.NS.svc.cluster.local:9090/prefix". False: the host is not a Service's name.
static bool parse_service_url(const char *url, struct service_url *ret)
{
    const char *host = url ? strstr(url, "://") : NULL;
    if (!host)
        return false;
    host += 3;
    size_t n = strcspn(host, ":/"), first = strcspn(host, ".:/");
    const char *rest = host + first;
    size_t second = first < n ? strcspn(rest + 1, ".:/") : 0;
    const char *after = first < n ? rest + 1 + second : "";

    if (first < n && !(after == host + n || gs_starts(after, ".svc")))
        return false;
    ret->port = host[n] == ':'            ? strtol(host + n + 1, NULL, 10)
                : gs_starts(url, "https") ? 443
                                          : 80;
    ret->name = gs_strndup(host, first);
    ret->ns = first < n ? gs_strndup(rest + 1, second) : NULL;
    return true;
}

static bool listens(const json_t *service, int64_t port)
{
    size_t i;
    const json_t *p;

    json_array_foreach (codec_json_get(service, "spec", "ports", NULL), i, p)
        if (codec_json_int(p, 0, "port", NULL) == port)
            return true;
    return false;
}

static void check_source(struct doctor_examination *e, const json_t *deployment, const char *url)
{
    GS_CLEANUP(finish_service_url) struct service_url u = {0};
    int64_t port = 9090;

    if (!parse_service_url(url, &u))
        return;
    const char *ns = u.ns ? u.ns : kube_namespace(deployment);
    const json_t *service = doctor_find(e, "services", doctor_text(ns), u.name);
    if (service && listens(service, u.port))
        return;
    const json_t *right = doctor_prometheus_service(e, &port);
    char *fix =
        right ? gs_format("--prometheus-url=http://%s.%s.svc:%lld\n"
                          "in values of the chart: prometheus: {url: http://%s.%s.svc, port: %lld}",
                          kube_name(right), kube_namespace(right), (long long)port,
                          kube_name(right), kube_namespace(right), (long long)port)
              : gs_strdup("kubectl get services -A | grep -i prometheus   # then set "
                          "--prometheus-url");
    if (service)
        doctor_report(
            e, "Deployment", deployment,
            gs_format("The adapter reads Prometheus at port %lld, which Service %s/%s does not "
                      "have.",
                      (long long)u.port, ns, u.name),
            gs_format("--prometheus-url=%s", url), fix);
    else
        doctor_report(
            e, "Deployment", deployment,
            gs_format("The adapter reads Prometheus at Service %s/%s, which does not exist.", ns,
                      u.name),
            gs_format("--prometheus-url=%s", url), fix);
}

static void each_adapter(struct doctor_examination *e,
                         void (*check)(struct doctor_examination *e, const json_t *deployment,
                                       const json_t *container))
{
    size_t i;
    const json_t *deployment;

    json_array_foreach (doctor_items(e, "deployments"), i, deployment) {
        const json_t *container = doctor_container_of(deployment, DOCTOR_ADAPTER_ROLE);
        if (container)
            check(e, deployment, container);
    }
}

static void check_url(struct doctor_examination *e, const json_t *deployment,
                      const json_t *container)
{
    const char *url = doctor_flag(container, "--prometheus-url");
    url = url ? url : doctor_flag(container, "--source");
    if (url && doctor_items(e, "services"))
        check_source(e, deployment, url);
}

void doctor_check_adapter_prometheus(struct doctor_examination *e)
{
    each_adapter(e, check_url);
}

static int64_t gpu_interval_ns(const struct doctor_examination *e)
{
    size_t i;
    const json_t *target;

    json_array_foreach (codec_json_get(e->prometheus, "targets", "activeTargets", NULL), i,
                        target) {
        const char *text = codec_json_str(target, "scrapeInterval", NULL);
        int64_t ns = 0;
        struct gs_error *err =
            text && doctor_is_gpu_name(codec_json_str(target, "labels", "job", NULL))
                ? gs_parse_duration(gs_slice_of(text), &ns)
                : NULL;
        gs_error_free(err);
        if (!err && ns)
            return ns;
    }
    return 0;
}

static void check_relist(struct doctor_examination *e, const json_t *deployment,
                         const json_t *container)
{
    const char *text = doctor_flag(container, "--metrics-relist-interval");
    const char *age = doctor_flag(container, "--metrics-max-age");
    int64_t ns = 0, interval = gpu_interval_ns(e);
    const char *window = age ? age : text;
    GS_AUTO_ERROR struct gs_error *err =
        window ? gs_parse_duration(gs_slice_of(window), &ns) : NULL;

    if (!window || err || !interval || ns >= interval ||
        !doctor_contains(codec_json_str(container, "image", NULL), "prometheus-adapter"))
        return;
    doctor_report(
        e, "Deployment", deployment,
        gs_strdup("The adapter looks for series in a window that is shorter than the scrape "
                  "interval, so metrics appear and disappear."),
        gs_format("%s=%s, scrape interval %lld s",
                  age ? "--metrics-max-age" : "--metrics-relist-interval", window,
                  (long long)(interval / GS_NS_PER_SEC)),
        gs_format("--metrics-max-age=%llds", (long long)(4 * interval / GS_NS_PER_SEC)));
}

void doctor_check_adapter_window(struct doctor_examination *e)
{
    each_adapter(e, check_relist);
}

// --- permissions ---

static bool is_bound(const json_t *bindings, const char *role, const char *ns, const char *account)
{
    size_t i, k;
    const json_t *binding, *subject;

    json_array_foreach (bindings, i, binding) {
        const char *name = codec_json_str(binding, "roleRef", "name", NULL);
        if (role && !gs_streq(name, role) && !gs_streq(name, "cluster-admin"))
            continue;
        json_array_foreach (json_object_get(binding, "subjects"), k, subject)
            if (gs_streq(codec_json_str(subject, "name", NULL), account) &&
                gs_streq(codec_json_str(subject, "namespace", NULL), ns))
                return true;
    }
    return false;
}

static const char *account_of(const json_t *deployment)
{
    const char *account = codec_json_str(doctor_pod_spec(deployment), "serviceAccountName", NULL);
    return account ? account : "default";
}

static void check_delegator(struct doctor_examination *e, const json_t *deployment,
                            const json_t *container)
{
    const char *ns = kube_namespace(deployment), *account = account_of(deployment);

    (void)container;
    if (!doctor_items(e, "clusterrolebindings") ||
        is_bound(doctor_items(e, "clusterrolebindings"), "system:auth-delegator", ns, account))
        return;
    doctor_report(
        e, "Deployment", deployment,
        gs_strdup("The adapter may not check the rights of its callers: its service account is not "
                  "bound to system:auth-delegator."),
        gs_format("no ClusterRoleBinding of ServiceAccount %s/%s to system:auth-delegator", ns,
                  account),
        gs_format("kubectl create clusterrolebinding %s:system:auth-delegator "
                  "--clusterrole=system:auth-delegator --serviceaccount=%s:%s",
                  kube_name(deployment), ns, account));
}

static void check_reader(struct doctor_examination *e, const json_t *deployment,
                         const json_t *container)
{
    const char *ns = kube_namespace(deployment), *account = account_of(deployment);

    (void)container;
    if (!doctor_items(e, "rolebindings") ||
        is_bound(doctor_items(e, "rolebindings"), "extension-apiserver-authentication-reader", ns,
                 account) ||
        is_bound(doctor_items(e, "clusterrolebindings"), "cluster-admin", ns, account))
        return;
    doctor_report(
        e, "Deployment", deployment,
        gs_strdup("The adapter may not read how the API server authenticates: its service account "
                  "is not bound to extension-apiserver-authentication-reader."),
        gs_format("no RoleBinding of ServiceAccount %s/%s in kube-system", ns, account),
        gs_format("kubectl -n kube-system create rolebinding %s-auth-reader "
                  "--role=extension-apiserver-authentication-reader --serviceaccount=%s:%s",
                  kube_name(deployment), ns, account));
}

void doctor_check_adapter_delegator(struct doctor_examination *e)
{
    each_adapter(e, check_delegator);
}

void doctor_check_adapter_reader(struct doctor_examination *e)
{
    each_adapter(e, check_reader);
}

// --- certificates ---

static void report_validity(struct doctor_examination *e, const json_t *certificate,
                            const char *what)
{
    int64_t until = codec_json_int(certificate, 0, "until", NULL);
    char time[GS_RFC3339_SIZE];

    doctor_add(
        e, (struct doctor_finding){
               doctor_text(codec_json_str(certificate, "of", NULL)), gs_strdup(what),
               gs_format("notAfter %s", gs_format_rfc3339(until * 1000, time)),
               gs_strdup("APIService: delete the Secret of the serving certificate and restart the "
                         "adapter, or renew it with cert-manager (cmctl renew)\n"
                         "kubeconfig: kubeadm certs renew admin.conf, or log in again")});
}

static void each_certificate(struct doctor_examination *e, bool expired)
{
    size_t i;
    const json_t *certificate;

    json_array_foreach (json_object_get(e->facts, "certificates"), i, certificate) {
        int64_t until = codec_json_int(certificate, 0, "until", NULL);
        int64_t from = codec_json_int(certificate, 0, "from", NULL);
        if (until <= 0 || until > MAX_TIME_S || from < 0 || from > until)
            continue;
        int64_t left = until - e->now_ms / 1000;
        if (expired && left < 0)
            report_validity(e, certificate, "The certificate has expired.");
        // Short-lived certificates are renewed often, so the last part of their time counts.
        if (!expired && left >= 0 && left < EXPIRY_WARNING_S && left < (until - from) / 5)
            report_validity(e, certificate, "The certificate expires within 14 days.");
    }
}

void doctor_check_certificate_expired(struct doctor_examination *e)
{
    each_certificate(e, true);
}

void doctor_check_certificate_expires(struct doctor_examination *e)
{
    each_certificate(e, false);
}
