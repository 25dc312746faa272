// SPDX-License-Identifier: Apache-2.0
// The Service of an engine or a Prometheus in a cluster, by the labels of the charts that create
// them: gpuscale's, kube-prometheus-stack's and that of the prometheus-community.
#include "kube/engine_url.h"

#include "base/mem.h"
#include "kube/kube_private.h"
#include "kube/object.h"
#include "kube/session.h"

enum { TIMEOUT_MS = 5000 };

// In the order of preference. In one namespace, they are Services of the same server.
static const char *const selectors[] = {
    "app.kubernetes.io/name=gpuscale-engine",
    "app in (kube-prometheus-stack-prometheus,prometheus-operator-prometheus)",
    "app.kubernetes.io/name=prometheus",
    "app=prometheus,component=server",
    "operated-prometheus=true",
};
enum {
    ENGINE = 0,   // a gpuscale in the cluster is preferred to any Prometheus
    OPERATED = 4, // always headless; others are beside a Service with an address
};

const json_t *kube_engine_service_port(const json_t *service)
{
    static const char *const names[] = {"http-web", "web", "http"};
    const json_t *ports = codec_json_get(service, "spec", "ports", NULL), *port;
    size_t i;
    json_array_foreach (ports, i, port)
        if (codec_json_int(port, 0, "port", NULL) == 9090)
            return port;
    for (size_t k = 0; k < GS_ARRAY_LEN(names); k++) {
        json_array_foreach (ports, i, port)
            if (gs_streq(codec_json_str(port, "name", NULL), names[k]))
                return port;
    }
    return json_array_size(ports) == 1 ? json_array_get(ports, 0) : NULL;
}

char *kube_engine_service_path(const json_t *service)
{
    const json_t *port = kube_engine_service_port(service);
    const char *name = codec_json_str(port, "name", NULL);
    int64_t number = codec_json_int(port, 9090, "port", NULL);
    bool tls = number == 443 || gs_streq(name, "https") || gs_streq(name, "https-web");
    return gs_format("/api/v1/namespaces/%s/services/%s%s:%lld/proxy", kube_namespace(service),
                     tls ? "https:" : "", kube_name(service), (long long)number);
}

struct search {
    json_t *found;     // Services; at most one rank of each namespace
    json_t *namespace; // of each: the rank with which it was found
};

static void add_found(struct search *s, const json_t *list, size_t rank)
{
    size_t i;
    json_t *service;
    json_array_foreach (json_object_get(list, "items"), i, service) {
        const char *ns = kube_namespace(service);
        const json_t *earlier = ns ? json_object_get(s->namespace, ns) : NULL;
        bool headless = gs_streq(codec_json_str(service, "spec", "clusterIP", NULL), "None");
        if (!ns || !kube_name(service) || !kube_engine_service_port(service) ||
            (earlier && json_integer_value(earlier) < (json_int_t)rank) ||
            (headless && rank != OPERATED))
            continue;
        codec_json_set_int(s->namespace, ns, (int64_t)rank);
        json_array_append(s->found, service);
    }
}

// Without the right to list those of all namespaces: of the context's namespace.
static struct gs_error *list_services(struct kube_session *k, const char *selector, json_t **ret)
{
    GS_AUTO_BUF struct gs_buf query = {0};
    gs_buf_add_str(&query, "limit=500&labelSelector=");
    http_encode(gs_slice_of(selector), &query);
    struct gs_error *err = kube_session_list(k, KUBE_SERVICES, NULL, query.data, TIMEOUT_MS, ret);
    if (!err || gs_error_code(err) != GS_EPERM)
        return err;
    gs_error_free(err);
    return kube_session_list(k, KUBE_SERVICES, k->ns, query.data, TIMEOUT_MS, ret);
}

static struct gs_error *search_all(struct kube_session *k, struct search *s)
{
    struct gs_error *err = NULL;
    for (size_t i = 0; !err && i < GS_ARRAY_LEN(selectors); i++) {
        CODEC_AUTO_JSON json_t *list = NULL;
        err = list_services(k, selectors[i], &list);
        if (!err)
            add_found(s, list, i);
        if (i == ENGINE && json_array_size(s->found))
            return NULL;
    }
    return err;
}

static struct gs_error *choose(const json_t *found, const char *server, const json_t **ret)
{
    GS_AUTO_BUF struct gs_buf names = {0};
    size_t i;
    const json_t *service;
    json_array_foreach (found, i, service)
        gs_buf_addf(&names, "%s%s/%s", i ? ", " : "", kube_namespace(service), kube_name(service));
    if (!json_array_size(found))
        return gs_error_new(GS_ENOTFOUND, "no Service of gpuscale or Prometheus in the cluster %s",
                            server);
    if (json_array_size(found) > 1)
        return gs_error_new(
            GS_EINVAL,
            "the cluster %s has several Services of a Prometheus: %s. Name one with "
            "its URL, such as that of kubectl port-forward",
            server, names.data);
    *ret = json_array_get(found, 0);
    return NULL;
}

struct gs_error *kube_engine_service_find(struct kube_session *k, json_t **ret)
{
    struct search s = {.found = json_array(), .namespace = json_object()};
    const json_t *service = NULL;
    struct gs_error *err = search_all(k, &s);
    if (!err)
        err = choose(s.found, k->connection.server, &service);
    if (!err)
        *ret = json_incref((json_t *)(uintptr_t)service);
    json_decref(s.found);
    json_decref(s.namespace);
    return err;
}
