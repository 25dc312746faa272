// SPDX-License-Identifier: Apache-2.0
// Reads the facts of a cluster from the Kubernetes API. Everything is optional: what the user must
// not read, or what the cluster does not have, is recorded as such.
#include "base/clock.h"
#include "base/columns.h"
#include "base/mem.h"
#include "budget/budget.h"
#include "codec/encoding.h"
#include "doctor/doctor_private.h"
#include "kube/kubeconfig.h"
#include "kube/object.h"
#include "kube/session.h"
#include "net/tls/tls.h"

#include <string.h>

#define TIMEOUT_MS     10000
#define PAGE           500
#define MAX_PAGES      40
#define MAX_TIMEOUTS   3                  // of lists; then the cluster does not respond
#define MAX_BODY       ((size_t)64 << 20) // the targets of a large Prometheus
#define MAX_LOGS       5                  // of exporters and adapters
#define MAX_OTHER_LOGS 10
#define MAX_CONFIGS    20
#define MAX_EXCERPT    200 // bytes of a response in a report
#define LOG_PATH_QUERY "tailLines=40&limitBytes=16384"

const struct doctor_list doctor_lists[] = {
    {"nodes", "", "v1", "nodes", NULL, NULL},
    {"pods", "", "v1", "pods", NULL, NULL},
    {"services", "", "v1", "services", NULL, NULL},
    {"namespaces", "", "v1", "namespaces", NULL, NULL},
    {"events", "", "v1", "events", NULL, NULL},
    {"endpointslices", "discovery.k8s.io", "v1", "endpointslices", NULL, NULL},
    {"daemonsets", "apps", "v1", "daemonsets", NULL, NULL},
    {"deployments", "apps", "v1", "deployments", NULL, NULL},
    {"statefulsets", "apps", "v1", "statefulsets", NULL, NULL},
    {"hpas", "autoscaling", "v2", "horizontalpodautoscalers", NULL, NULL},
    {"apiservices", "apiregistration.k8s.io", "v1", "apiservices", NULL, NULL},
    {"rolebindings", "rbac.authorization.k8s.io", "v1", "rolebindings", NULL, "kube-system"},
    {"clusterrolebindings", "rbac.authorization.k8s.io", "v1", "clusterrolebindings", NULL, NULL},
    {"servicemonitors", "monitoring.coreos.com", "v1", "servicemonitors", NULL, NULL},
    {"podmonitors", "monitoring.coreos.com", "v1", "podmonitors", NULL, NULL},
    {"prometheuses", "monitoring.coreos.com", "v1", "prometheuses", NULL, NULL},
    {"prometheusagents", "monitoring.coreos.com", "v1alpha1", "prometheusagents", NULL, NULL},
    {"thanosrulers", "monitoring.coreos.com", "v1", "thanosrulers", NULL, NULL},
    {"prometheusrules", "monitoring.coreos.com", "v1", "prometheusrules", NULL, NULL},
    {"scaledobjects", "keda.sh", "v1alpha1", "scaledobjects", NULL, NULL},
    {"verticalpodautoscalers", "autoscaling.k8s.io", "v1", "verticalpodautoscalers", NULL, NULL},
    {"nodeclaims", "karpenter.sh", "v1", "nodeclaims", NULL, NULL},
    {"nodepools", "karpenter.sh", "v1", "nodepools", NULL, NULL},
    {"machinedeployments", "cluster.x-k8s.io", "v1beta1", "machinedeployments", NULL, NULL},
    {"autoscalerstatus", "", "v1", "configmaps",
     "fieldSelector=metadata.name%3Dcluster-autoscaler-status", "kube-system"},
    {"dashboards", "", "v1", "configmaps", "labelSelector=grafana_dashboard", NULL},
    {"budgets", "", "v1", "configmaps", "fieldSelector=metadata.name%3D" BUDGET_CONFIG_MAP, NULL},
    {NULL, NULL, NULL, NULL, NULL, NULL},
};

// --- texts ---

struct fetch {
    bool done;
    int status;
    struct gs_buf *body;
};

static void on_fetched(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct fetch *f = arg;

    f->done = true;
    f->status = response && !err ? response->status : 0;
    if (f->status)
        gs_buf_add_slice(f->body, response->body);
    else if (err)
        gs_buf_add_str(f->body, gs_error_message(err));
    gs_error_free(err);
}

int doctor_get(struct kube_session *s, const char *path, struct gs_buf *ret_body)
{
    return doctor_get_as(s, path, NULL, ret_body);
}

int doctor_get_as(struct kube_session *s, const char *path, const char *accept,
                  struct gs_buf *ret_body)
{
    struct fetch f = {.body = ret_body};
    const struct http_header headers[] = {{"Accept", accept}, {NULL, NULL}};
    const struct http_request request = {.path = path,
                                         .headers = accept ? headers : NULL,
                                         .timeout_ms = TIMEOUT_MS,
                                         .max_reply = MAX_BODY};
    const struct http_callbacks cb = {.on_done = on_fetched};
    struct http_op *op = http_send(kube_client_http(s->client), &request, &cb, &f);
    struct gs_error *err = kube_session_wait(s, &f.done, TIMEOUT_MS + 1000);

    if (err) {
        http_op_cancel(op);
        gs_buf_add_str(ret_body, gs_error_message(err));
        gs_error_free(err);
        return 0;
    }
    return f.status;
}

json_t *doctor_excerpt(int status, const struct gs_buf *body)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    size_t n = body->len < MAX_EXCERPT ? body->len : MAX_EXCERPT;

    if (status)
        gs_buf_addf(&text, "status %d: ", status);
    gs_columns_clean(&text, gs_slice_make(body->data, n));
    return json_string(text.len ? text.data : "no response");
}

// Whether the API server responds to anything. Otherwise *ret_why is the reason; caller frees.
static bool responds(struct kube_session *s, char **ret_why)
{
    GS_AUTO_BUF struct gs_buf body = {0};

    if (doctor_get(s, "/version", &body))
        return true;
    *ret_why = gs_strdup(body.len ? body.data : "no response");
    return false;
}

// --- lists ---

static json_t *unknown(const struct gs_error *why)
{
    json_t *o = json_object();

    if (gs_error_code(why) == GS_ENOTFOUND)
        codec_json_set_bool(o, "absent", true);
    else
        codec_json_set_str(o, "unknown", gs_error_message(why));
    return o;
}

// Moves the items of a page to the list. Returns the query of the next page; NULL: the last one.
static char *add_page(json_t *items, const json_t *page, const char *query)
{
    const char *token = codec_json_str(page, "metadata", "continue", NULL);
    GS_AUTO_BUF struct gs_buf next = {0};

    json_array_extend(items, json_object_get(page, "items"));
    if (!token || !*token)
        return NULL;
    gs_buf_addf(&next, "%s%slimit=%d&continue=", query ? query : "", query ? "&" : "", PAGE);
    http_encode(gs_slice_of(token), &next);
    return gs_buf_take(&next);
}

// A part of a list is not used: the checks also report what is missing.
static struct gs_error *read_pages(struct kube_session *s, const struct doctor_list *l,
                                   json_t *items)
{
    const struct kube_gvr gvr = {l->group, l->version, l->resource};
    char *query = l->query ? gs_format("%s&limit=%d", l->query, PAGE) : gs_format("limit=%d", PAGE);
    struct gs_error *err = NULL;

    for (int page = 0; query && !err; page++) {
        CODEC_AUTO_JSON json_t *list = NULL;
        err = page < MAX_PAGES ? kube_session_list(s, gvr, l->ns, query, TIMEOUT_MS, &list)
                               : gs_error_new(GS_ELIMIT, "more than %d objects", MAX_PAGES * PAGE);
        free(query);
        query = err ? NULL : add_page(items, list, l->query);
    }
    return err;
}

static json_t *read_list(struct kube_session *s, const struct doctor_list *l, size_t *timeouts)
{
    json_t *items = json_array();
    GS_AUTO_ERROR struct gs_error *err =
        *timeouts < MAX_TIMEOUTS
            ? read_pages(s, l, items)
            : gs_error_new(GS_ETIMEOUT, "the cluster does not respond: not requested");

    if (!err)
        return json_pack("{s:o}", "items", items);
    *timeouts += gs_error_code(err) == GS_ETIMEOUT;
    json_decref(items);
    return unknown(err);
}

// --- logs ---

static bool crashes(const json_t *status)
{
    return codec_json_int(status, 0, "restartCount", NULL) > 0 &&
           !codec_json_bool(status, false, "ready", NULL);
}

static void read_log(struct kube_session *s, const json_t *pod, const char *container, json_t *logs)
{
    GS_AUTO_BUF struct gs_buf path = {0}, body = {0};
    GS_AUTO_FREE char *key = gs_format("%s/%s/%s", kube_namespace(pod), kube_name(pod), container);

    gs_buf_addf(&path,
                "/api/v1/namespaces/%s/pods/%s/log?container=%s&previous=true&" LOG_PATH_QUERY,
                kube_namespace(pod), kube_name(pod), container);
    if (doctor_get(s, path.data, &body) == 200)
        codec_json_set_str(logs, key, body.len ? body.data : "");
}

// The last lines of other pods that crash.
static void read_other_logs(struct kube_session *s, const struct doctor_examination *e,
                            json_t *logs)
{
    static const char *const lists[] = {"initContainerStatuses", "containerStatuses"};
    size_t i, k;
    const json_t *pod, *status;

    json_array_foreach (doctor_items(e, "pods"), i, pod)
        for (size_t l = 0; l < GS_ARRAY_LEN(lists); l++)
            json_array_foreach (codec_json_get(pod, "status", lists[l], NULL), k, status) {
                const char *name = codec_json_str(status, "name", NULL);
                if (name && crashes(status) && json_object_size(logs) < MAX_LOGS + MAX_OTHER_LOGS)
                    read_log(s, pod, name, logs);
            }
}

// Logs of pods that crash, first those of exporters and adapters.
static void read_logs(struct kube_session *s, json_t *facts)
{
    struct doctor_examination e = doctor_examination_of(facts);
    json_t *logs = json_object();
    size_t i, n = 0;
    const json_t *pod;

    json_array_foreach (doctor_items(&e, "pods"), i, pod) {
        for (enum doctor_role role = DOCTOR_EXPORTER_ROLE; role <= DOCTOR_PROMETHEUS_ROLE; role++) {
            const char *name = codec_json_str(doctor_container_of(pod, role), "name", NULL);
            if (name && n < MAX_LOGS && crashes(doctor_container_status(pod, name))) {
                read_log(s, pod, name, logs);
                n++;
            }
        }
    }
    read_other_logs(s, &e, logs);
    json_object_set_new(facts, "logs", logs);
}

// The pools of gpuscale up. Other autoscalers do not publish theirs.
static void read_pools(struct kube_session *s, json_t *facts)
{
    GS_AUTO_BUF struct gs_buf body = {0};
    CODEC_AUTO_JSON json_t *state = NULL;
    if (doctor_get(s, "/apis/nodes.gpuscale.dev/v1/autoscaler", &body) != 200)
        return;
    GS_AUTO_ERROR struct gs_error *err = codec_json_parse(gs_buf_slice(&body), false, &state);
    const json_t *pools = err ? NULL : json_object_get(state, "pools");
    if (pools)
        json_object_set(facts, "pools", (json_t *)pools);
}

// --- APIs and certificates ---

static void read_api(struct kube_session *s, const char *group_version, json_t *apis)
{
    GS_AUTO_FREE char *path = gs_format("/apis/%s", group_version);
    GS_AUTO_BUF struct gs_buf body = {0};
    int status = doctor_get(s, path, &body);
    json_t *answer = NULL;
    struct gs_error *err = status ? codec_json_parse(gs_buf_slice(&body), false, &answer) : NULL;

    gs_error_free(err);
    if (status == 200 && answer) {
        json_object_set_new(apis, group_version, answer);
        return;
    }
    json_decref(answer);
    json_t *o = json_object();
    if (status == 404)
        codec_json_set_bool(o, "absent", true);
    else
        json_object_set_new(o, "unknown", doctor_excerpt(status, &body));
    json_object_set_new(apis, group_version, o);
}

static void add_certificate(json_t *out, const char *of, const char *pem)
{
    int64_t from = 0, until = 0;
    GS_AUTO_ERROR struct gs_error *err = tls_cert_validity(pem, &from, &until);
    if (err)
        return;
    json_t *o = json_object();
    codec_json_set_str(o, "of", of);
    codec_json_set_int(o, "from", from);
    codec_json_set_int(o, "until", until);
    json_array_append_new(out, o);
}

static void read_certificates(const struct doctor_options *opts, json_t *facts)
{
    struct doctor_examination e = doctor_examination_of(facts);
    GS_CLEANUP(kube_config_finish) struct kube_config k = {0};
    GS_AUTO_ERROR struct gs_error *err = kube_config_load(opts->kubeconfig, opts->context, &k);
    json_t *out = json_array();
    size_t i;
    const json_t *service;

    if (!err && k.client_cert_pem)
        add_certificate(out, "the client certificate of the kubeconfig", k.client_cert_pem);
    json_array_foreach (doctor_items(&e, "apiservices"), i, service) {
        const char *bundle = codec_json_str(service, "spec", "caBundle", NULL);
        GS_AUTO_FREE char *of = doctor_subject("APIService", service);
        GS_AUTO_BUF struct gs_buf pem = {0};
        struct gs_error *bad = bundle ? codec_base64_decode(gs_slice_of(bundle), &pem) : NULL;
        if (bundle && !bad && pem.len)
            add_certificate(out, of, pem.data);
        gs_error_free(bad);
    }
    json_object_set_new(facts, "certificates", out);
}

// --- configurations of adapters ---

static void add_config(const json_t *map, const char *ns, json_t *out)
{
    const char *key;
    json_t *text;

    json_object_foreach (json_object_get(map, "data"), key, text) {
        if (!json_is_string(text) || json_array_size(out) >= MAX_CONFIGS ||
            (!doctor_contains(json_string_value(text), "ules:") && !gs_streq(key, "config.yaml")))
            continue;
        json_t *o = json_object();
        json_object_set_new(o, "configMap", codec_json_strf("%s/%s", ns, kube_name(map)));
        codec_json_set_str(o, "key", key);
        json_object_set(o, "text", text);
        json_array_append_new(out, o);
    }
}

static void read_config(struct kube_session *s, const char *ns, const char *name, json_t *out)
{
    GS_AUTO_BUF struct gs_buf path = {0}, body = {0};
    CODEC_AUTO_JSON json_t *map = NULL;

    kube_path(&path, KUBE_CONFIGMAPS, ns, name, NULL);
    if (doctor_get(s, path.data, &body) != 200)
        return;
    GS_AUTO_ERROR struct gs_error *err = codec_json_parse(gs_buf_slice(&body), false, &map);
    if (!err)
        add_config(map, ns, out);
}

static void read_configs(struct kube_session *s, json_t *facts)
{
    struct doctor_examination e = doctor_examination_of(facts);
    json_t *out = json_array();
    size_t i, k;
    const json_t *deployment, *volume;

    json_array_foreach (doctor_items(&e, "deployments"), i, deployment) {
        if (!doctor_container_of(deployment, DOCTOR_ADAPTER_ROLE))
            continue;
        json_array_foreach (json_object_get(doctor_pod_spec(deployment), "volumes"), k, volume) {
            const char *name = codec_json_str(volume, "configMap", "name", NULL);
            if (name && k < MAX_CONFIGS)
                read_config(s, kube_namespace(deployment), name, out);
        }
    }
    json_object_set_new(facts, "adapterConfigs", out);
}

// --- the cluster ---

static void read_cluster(struct kube_session *s, const struct doctor_options *o, json_t *facts)
{
    static const char *const apis[] = {"metrics.k8s.io/v1beta1", "custom.metrics.k8s.io/v1beta1",
                                       "custom.metrics.k8s.io/v1beta2",
                                       "external.metrics.k8s.io/v1beta1", NULL};
    json_t *kube = json_object_get(facts, "kubernetes"), *found = json_object();

    size_t timeouts = 0;
    for (const struct doctor_list *l = doctor_lists; l->name; l++)
        json_object_set_new(kube, l->name, read_list(s, l, &timeouts));
    if (timeouts >= MAX_TIMEOUTS) {
        doctor_gather_prometheus(o, NULL, facts);
        return;
    }
    for (size_t i = 0; apis[i]; i++)
        read_api(s, apis[i], found);
    json_object_set_new(facts, "apis", found);
    read_certificates(o, facts);
    read_configs(s, facts);
    read_logs(s, facts);
    read_pools(s, facts);
    doctor_gather_helm(s, facts);
    doctor_gather_exporters(s, facts);
    doctor_gather_metrics(s, facts);
    doctor_gather_prometheus(o, s, facts);
}

void doctor_gather_cluster(const struct doctor_options *o, json_t *facts)
{
    struct kube_session s;
    json_t *kube = json_object();
    GS_CLEANUP(kube_config_finish) struct kube_config k = {0};
    struct gs_error *err = kube_config_load(o->kubeconfig, o->context, &k);

    if (!err)
        codec_json_set_str(kube, "server", k.server);
    gs_error_free(err);
    json_object_set_new(facts, "kubernetes", kube);
    GS_AUTO_FREE char *why = NULL;
    err = kube_session_open(&s, o->kubeconfig, o->context, "doctor");
    if (err || !responds(&s, &why)) {
        codec_json_set_str(kube, "unknown", err ? gs_error_message(err) : why);
        gs_error_free(err);
        doctor_gather_prometheus(o, NULL, facts);
    } else {
        read_cluster(&s, o, facts);
    }
    kube_session_close(&s);
}

json_t *doctor_gather(const struct doctor_options *o)
{
    json_t *facts = json_object();
    char now[GS_RFC3339_SIZE];

    codec_json_set_str(facts, "now", gs_format_rfc3339(gs_unix_ms(), now));
    doctor_gather_node(facts);
    if (!o->this_node)
        doctor_gather_cluster(o, facts);
    return facts;
}
