// SPDX-License-Identifier: Apache-2.0
// `gpuscale activator`. After a stop, its EndpointSlices are deleted, so that no new connection
// comes. The program ends when all connections have ended, or after the time that connections are
// held.
#include "activator/program.h"

#include "activator/activator.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/timer.h"
#include "kube/connection.h"
#include "net/program/program.h"

#include <unistd.h>

#define DRAIN_CHECK_MS 250
#define WITHDRAW_MS    (INT64_C(5) * 1000) // for the deletion of EndpointSlices, without connections

struct server {
    const struct activator_server_options *o;
    struct program *program;
    struct kube_connection cluster;
    struct activator *activator;
    struct gs_timer *stop_timer;
    bool withdrawn;
    int64_t stopping_ns; // monotonic time of the begin of a stop
    char *advertise;     // the first address of --advertise-address
};

// --- options ---

// "20000-20999"
static struct gs_error *read_ports(const char *text, struct activator_config *cfg)
{
    uint64_t first = 0, last = 0;
    struct gs_slice rest = gs_slice_of(text), from = gs_slice_cut(&rest, '-');
    struct gs_error *err = gs_parse_u64(from, UINT16_MAX, &first);
    if (!err)
        err = gs_parse_u64(rest, UINT16_MAX, &last);
    if (!err && (first == 0 || last < first))
        err = gs_error_new(GS_EINVAL, "the range is empty");
    if (err)
        return gs_error_wrap(err, "--ports \"%s\": want FIRST-LAST", text);
    cfg->first_port = (uint16_t)first;
    cfg->last_port = (uint16_t)last;
    return NULL;
}

static struct gs_error *check_address(const char *flag, const char *text)
{
    struct sockaddr_in a;
    struct sockaddr_in6 b;
    if (text && (uv_ip4_addr(text, 1, &a) == 0 || uv_ip6_addr(text, 1, &b) == 0))
        return NULL;
    return gs_error_new(GS_EINVAL, "--%s \"%s\": want a numeric address, such as that of the pod",
                        flag, text ? text : "");
}

// "10.0.0.7" or "10.0.0.7,fd00::7", as the field status.podIPs has them.
static struct gs_error *read_addresses(struct server *s, struct activator_config *cfg)
{
    const char *text = s->o->advertise, *comma = text ? strchr(text, ',') : NULL;
    s->advertise = text ? gs_strndup(text, comma ? (size_t)(comma - text) : strlen(text)) : NULL;
    cfg->advertise = s->advertise;
    cfg->second = comma ? comma + 1 : NULL;
    struct gs_error *err = check_address("advertise-address", cfg->advertise);
    if (!err && cfg->second)
        err = check_address("advertise-address", cfg->second);
    if (!err && cfg->second && !strchr(cfg->advertise, ':') == !strchr(cfg->second, ':'))
        err = gs_error_new(GS_EINVAL, "--advertise-address \"%s\": want one address of each family",
                           text);
    // An address of IPv6 is reached through a listener that serves both families.
    if (!err && !s->o->listen)
        cfg->listen = strchr(text, ':') ? "::" : "0.0.0.0";
    return err;
}

static struct gs_error *read_options(struct server *s, struct activator_config *cfg)
{
    const struct activator_server_options *o = s->o;
    *cfg = activator_config_default();
    cfg->ns = o->ns;
    cfg->identity = o->identity;
    cfg->pod_ns = o->pod_ns;
    cfg->listen = o->listen;
    cfg->node = o->node;
    cfg->max_services = (size_t)o->max_services;
    cfg->max_held = (size_t)o->max_held;
    cfg->max_bytes = (size_t)o->max_bytes;
    cfg->max_total_bytes = o->max_total_bytes;
    cfg->per_endpoint = (unsigned)o->per_pod;
    cfg->hold_ms = o->hold / GS_NS_PER_MS;
    cfg->silent_ms = o->silent / GS_NS_PER_MS;
    cfg->idle_ms = o->idle / GS_NS_PER_MS;
    cfg->max_open = (size_t)o->max_open;
    struct gs_error *err = o->listen ? check_address("listen-address", o->listen) : NULL;
    if (!err)
        err = read_addresses(s, cfg);
    if (!err)
        err = read_ports(o->ports, cfg);
    return err;
}

// --- HTTP ---

static void write_metrics(void *arg, struct gs_buf *out)
{
    const struct server *s = arg;
    activator_write_metrics(s->activator, out);
}

static void write_services(void *arg, struct gs_buf *out)
{
    const struct server *s = arg;
    CODEC_AUTO_JSON json_t *list = activator_json(s->activator);
    codec_json_dump(list, out);
}

static const struct http_route routes[] = {
    {.path = "/metrics", .write = write_metrics, .type = HTTP_TYPE_METRICS},
    {.path = "/api/v1/services", .write = write_services, .type = HTTP_TYPE_JSON},
    {0},
};

static struct gs_error *start_http(struct server *s)
{
    const struct program_listener l = {.flag = "--web.listen-address",
                                       .address = s->o->web_listen,
                                       .optional = true,
                                       .path = "/metrics",
                                       .rows = routes,
                                       .ctx = s};
    return program_listen(s->program, &l, NULL);
}

static bool is_healthy(void *arg, bool readiness, struct gs_buf *details)
{
    const struct server *s = arg;
    if (!readiness || !s->activator || activator_synced(s->activator))
        return true;
    gs_buf_add_str(details, "Services: not listed yet\n");
    return false;
}

// --- stop ---

// Without the API server, the EndpointSlices cannot be deleted: the next start takes them over, or
// another activator deletes them.
static bool is_stopped(const struct server *s, size_t connections)
{
    int64_t for_ns = gs_mono_ns() - s->stopping_ns;
    return (connections == 0 && (s->withdrawn || for_ns >= WITHDRAW_MS * GS_NS_PER_MS)) ||
           for_ns >= s->o->hold;
}

static void check_drained(void *arg)
{
    struct server *s = arg;
    size_t n = activator_connections(s->activator);
    if (!is_stopped(s, n)) {
        gs_timer_start(s->stop_timer, check_drained, DRAIN_CHECK_MS);
        return;
    }
    if (n || !s->withdrawn)
        gs_warn("activator", "stops with %zu connections%s", n,
                s->withdrawn ? "" : "; its EndpointSlices could not be deleted");
    program_stopped(s->program);
}

static void on_withdrawn(void *arg)
{
    struct server *s = arg;
    s->withdrawn = true;
    check_drained(s);
}

static void on_stop(void *arg)
{
    struct server *s = arg;
    s->stopping_ns = gs_mono_ns();
    gs_timer_start(s->stop_timer, check_drained, DRAIN_CHECK_MS);
    activator_stop(s->activator, on_withdrawn, s);
}

// --- run ---

static char *default_identity(void)
{
    char host[256] = "";
    gethostname(host, sizeof(host) - 1);
    return gs_format("%s", *host ? host : "activator");
}

static struct gs_error *start(struct server *s, struct activator_config *cfg)
{
    uv_loop_t *loop = program_loop(s->program);
    GS_AUTO_FREE char *identity = default_identity();
    struct gs_error *err =
        kube_connection_open(loop, s->o->kubeconfig, NULL, "activator", &s->cluster);
    if (err)
        return gs_error_wrap(err, "--kubeconfig");
    if (!cfg->identity)
        cfg->identity = identity;
    s->activator = activator_new(loop, s->cluster.client, cfg);
    gs_info("activator", "cluster %s: %s advertises %s", s->cluster.server, cfg->identity,
            cfg->advertise);
    return start_http(s);
}

struct gs_error *activator_server_run(const struct activator_server_options *o)
{
    struct server s = {.o = o};
    struct activator_config cfg;
    const struct program_config program = {
        .name = "activator", .stop = on_stop, .health = is_healthy, .arg = &s};
    struct gs_error *err = read_options(&s, &cfg);
    if (err) {
        free(s.advertise);
        return err;
    }
    s.program = program_new(&program);
    s.stop_timer = gs_timer_new(program_loop(s.program), &s);
    err = start(&s, &cfg);
    if (!err)
        err = program_run(s.program);
    program_close(s.program);
    activator_free(s.activator);
    kube_connection_close(&s.cluster);
    gs_timer_free(s.stop_timer);
    program_free(s.program);
    free(s.advertise);
    return err;
}
