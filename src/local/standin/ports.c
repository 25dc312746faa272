// SPDX-License-Identifier: Apache-2.0
// The listeners of a container with a stand-in: one for each TCP port that it declares or that a
// probe uses, at the pod's address. HTTPS is served where a probe or the arguments say so.
#include "local/ports.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/object.h"
#include "kube/selector.h"
#include "local/standin/standin_private.h"
#include "net/http/routes.h"

enum { MAX_PORTS = 32, LEAF_DAYS = 3650, MAX_NAMES = 64, MAX_CONNECTIONS = 128 };

struct standin_port {
    struct standin_port *next;
    struct standin_session *session;
    int number; // that the container declares
    bool tls;
    struct http_server *server; // or
    struct services_tunnel *tunnel;
};

static const char *const probes[] = {"readinessProbe", "livenessProbe", "startupProbe"};

// --- requests ---

static bool is_probed(const struct standin_session *s, const char *path)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(probes); i++) {
        const char *probed = codec_json_str(s->container, probes[i], "httpGet", "path", NULL);
        if (probed && gs_streq(probed, path))
            return true;
    }
    return false;
}

static bool is_health(const char *path)
{
    static const char *const paths[] = {"/healthz", "/readyz",    "/livez",
                                        "/-/ready", "/-/healthy", "/health-check"};
    for (size_t i = 0; i < GS_ARRAY_LEN(paths); i++)
        if (gs_streq(path, paths[i]))
            return true;
    return false;
}

static void reply_metrics(const struct standin_session *s, int port, struct http_exchange *x)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    gs_buf_addf(&out,
                "# HELP gpuscale_standin_info What runs in place of a container's image.\n"
                "# TYPE gpuscale_standin_info gauge\n"
                "gpuscale_standin_info{role=\"%s\"} 1\n",
                codec_json_str(s->hello, "role", NULL));
    if (s->role->write_metrics)
        s->role->write_metrics(s, port, &out);
    http_reply(x, 200, HTTP_TYPE_METRICS, gs_buf_slice(&out));
}

static void on_request(void *ctx, struct http_exchange *x)
{
    const struct standin_port *p = ctx;
    struct standin_session *s = p->session;
    const char *path = http_path(x);
    if (s->role->answer && s->role->answer(s, p->number, x))
        return;
    if (gs_streq(path, "/metrics"))
        reply_metrics(s, p->number, x);
    else if (is_health(path) || is_probed(s, path))
        http_reply_text(x, 200, "ok\n");
    else
        http_reply_text(
            x, 404,
            "gpuscale %s: a part of gpuscale up runs in place of this container's image "
            "and does not have the path %.200s\n",
            codec_json_str(s->hello, "role", NULL), path);
}

// --- certificates ---

static void add_name(char **names, size_t *n, char *name)
{
    if (*n < MAX_NAMES)
        names[(*n)++] = name;
    else
        free(name);
}

// The names of the Services that select the pod, and of the pod.
static size_t service_names(const struct standin_session *s, char **names)
{
    size_t n = 0, pos = 0;
    const char *ns = standin_namespace(s);
    const json_t *labels = codec_json_get(s->pod, "metadata", "labels", NULL);
    add_name(names, &n, gs_strdup("localhost"));
    for (const json_t *svc; (svc = kube_cache_next(s->server->cfg.cluster->services, &pos));) {
        const json_t *map = codec_json_get(svc, "spec", "selector", NULL);
        GS_CLEANUP(kube_selector_finish) struct kube_selector selector = {0};
        if (json_object_size(map) == 0 || !gs_streq(kube_namespace(svc), ns))
            continue;
        kube_selector_from_map(map, &selector);
        if (!kube_selector_matches(&selector, labels))
            continue;
        add_name(names, &n, gs_format("%s.%s.svc", kube_name(svc), ns));
        add_name(names, &n, gs_format("%s.%s.svc.cluster.local", kube_name(svc), ns));
        add_name(names, &n, gs_format("%s.%s", kube_name(svc), ns));
        add_name(names, &n, gs_strdup(kube_name(svc)));
    }
    return n;
}

static struct gs_error *make_certificate(const struct standin_session *s, struct tls_pair *ret)
{
    char *names[MAX_NAMES];
    size_t n = service_names(s, names);
    const struct tls_leaf leaf = {.common_name = "gpuscale-stand-in",
                                  .dns_names = (const char *const *)names,
                                  .n_dns_names = n,
                                  .ip_addresses = &s->address,
                                  .n_ip_addresses = 1,
                                  .server = 1,
                                  .days = LEAF_DAYS};
    struct gs_error *err = tls_make_leaf(s->server->cfg.ca, &leaf, ret);
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    return err;
}

static struct gs_error *choose_certificate(struct standin_session *s, struct tls_pair *ret)
{
    static const char *const flags[][2] = {
        {"web.cert-file", "web.key-file"},
        {"tls-cert-file", "tls-private-key-file"},
        {"validating-webhook-certificate", "validating-webhook-key"}};
    for (size_t i = 0; i < GS_ARRAY_LEN(flags); i++) {
        const char *cert = standin_file(s, flags[i][0]), *key = standin_file(s, flags[i][1]);
        GS_AUTO_ERROR struct gs_error *err = cert && key ? tls_check_pair(cert, key) : NULL;
        if (err)
            standin_log(s, "gpuscale: --%s is not used: %s", flags[i][0], gs_error_message(err));
        if (!cert || !key || err)
            continue;
        ret->cert_pem = gs_strdup(cert);
        ret->key_pem = gs_strdup(key);
        return NULL;
    }
    return make_certificate(s, ret);
}

// --- which ports ---

static int number_of(const struct standin_session *s, const json_t *port)
{
    const char *name = json_string_value(port);
    size_t i;
    json_t *entry;
    json_array_foreach (codec_json_get(s->container, "ports", NULL), i, entry)
        if (name && gs_streq(codec_json_str(entry, "name", NULL), name))
            return (int)codec_json_int(entry, 0, "containerPort", NULL);
    int64_t number = name ? strtol(name, NULL, 10) : json_integer_value(port);
    return number > 0 && number < 65536 ? (int)number : 0;
}

static bool ends_with_port(const char *address, int number)
{
    const char *colon = address ? strrchr(address, ':') : NULL;
    return colon && strtol(colon + 1, NULL, 10) == number;
}

// A probe or an argument of the container says that the port has HTTPS.
static bool has_tls(const struct standin_session *s, int number)
{
    const char *secure = standin_flag(s, "secure-port");
    for (size_t i = 0; i < GS_ARRAY_LEN(probes); i++) {
        const json_t *get = codec_json_get(s->container, probes[i], "httpGet", NULL);
        if (gs_streq(codec_json_str(get, "scheme", NULL), "HTTPS") &&
            number_of(s, json_object_get(get, "port")) == number)
            return true;
    }
    if (secure && strtol(secure, NULL, 10) == number)
        return true;
    if (standin_flag_bool(s, "web.enable-tls", false) &&
        ends_with_port(standin_flag(s, "web.listen-address"), number))
        return true;
    return ends_with_port(standin_flag(s, "validating-webhook"), number) ||
           ends_with_port(standin_flag(s, "secure-listen-address"), number);
}

static struct gs_error *serve(struct standin_port *p, uint16_t port)
{
    struct standin_session *s = p->session;
    const struct standin_config *cfg = &s->server->cfg;
    static const char *const public_paths[] = {"/healthz", "/livez", "/readyz", NULL};
    struct http_server_config http = {0};
    struct tls_pair pair = {0};
    GS_AUTO_FREE char *authorities = NULL;
    if (s->role->authenticates && p->tls) {
        http = cfg->api_server;
        http.public_paths = public_paths;
        authorities = gs_format("%s%s", http.client_ca_pem,
                                cfg->front_proxy_authority ? cfg->front_proxy_authority : "");
        http.client_ca_pem = authorities;
    }
    http.address = s->address;
    http.port = port;
    http.max_connections = MAX_CONNECTIONS;
    struct gs_error *err = p->tls ? choose_certificate(s, &pair) : NULL;
    http.cert_pem = pair.cert_pem;
    http.key_pem = pair.key_pem;
    if (!err)
        err = http_server_start(cfg->cluster->loop, &http, on_request, p, &p->server);
    tls_pair_finish(&pair);
    return err;
}

static void open_port(struct standin_session *s, int number)
{
    size_t n = 0;
    for (const struct standin_port *p = s->ports; p; p = p->next, n++)
        if (p->number == number)
            return;
    if (number <= 0 || n >= MAX_PORTS)
        return;
    struct standin_port *p = gs_alloc(sizeof(*p));
    *p = (struct standin_port){
        .next = s->ports, .session = s, .number = number, .tls = has_tls(s, number)};
    s->ports = p;
    uint16_t at = (uint16_t)local_port_by(s->moved, number);
    uint16_t to = s->role->forward ? s->role->forward(s, number) : 0;
    GS_AUTO_ERROR struct gs_error *err =
        to ? services_tunnel_open(s->server->cfg.services, s->address, at, to, &p->tunnel)
           : serve(p, at);
    if (err)
        standin_log(s, "gpuscale: port %d: %s", number, gs_error_message(err));
}

void standin_ports_open(struct standin_session *s)
{
    size_t i;
    json_t *entry;
    json_array_foreach (codec_json_get(s->container, "ports", NULL), i, entry) {
        const char *protocol = codec_json_str(entry, "protocol", NULL);
        if (!protocol || gs_streq(protocol, "TCP"))
            open_port(s, (int)codec_json_int(entry, 0, "containerPort", NULL));
    }
    for (i = 0; i < GS_ARRAY_LEN(probes); i++) {
        const json_t *probe = codec_json_get(s->container, probes[i], NULL);
        open_port(s, number_of(s, codec_json_get(probe, "httpGet", "port", NULL)));
        open_port(s, number_of(s, codec_json_get(probe, "tcpSocket", "port", NULL)));
    }
    if (!s->ports && s->role->port)
        open_port(s, s->role->port);
}

void standin_ports_close(struct standin_session *s)
{
    while (s->ports) {
        struct standin_port *p = s->ports;
        s->ports = p->next;
        http_server_stop(p->server);
        services_tunnel_close(p->tunnel);
        free(p);
    }
}
