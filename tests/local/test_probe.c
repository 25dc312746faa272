// SPDX-License-Identifier: Apache-2.0
// Probes of running pods against real sockets and commands.
#include "local/kubelet_fixture.h"

#include "local/ports.h"
#include "net/grpc/grpc.h"
#include "net/http/server.h"

struct server {
    struct http_server *http;
    int code;
    unsigned hits;
    char *host, *agent, *custom;
};

static void serve(void *ctx, struct http_exchange *x)
{
    struct server *s = ctx;
    s->hits++;
    free(s->host);
    free(s->agent);
    free(s->custom);
    s->host = gs_strdup(http_header(x, "Host"));
    s->agent = gs_strdup(http_header(x, "User-Agent"));
    s->custom = gs_strdup(http_header(x, "X-Custom"));
    if (s->code == 200 && strcmp(http_path(x), "/healthz") != 0)
        http_reply_text(x, 404, "no such page\n");
    else
        http_reply_text(x, s->code, "answer\n");
}

static void server_open(struct fixture *f, struct server *s, int code)
{
    *s = (struct server){.code = code};
    const struct http_server_config cfg = {.address = "127.0.0.1"};
    struct gs_error *err = http_server_start(&f->h.loop, &cfg, serve, s, &s->http);
    if (err)
        fail_msg("%s", gs_error_message(err));
}

static void server_close(struct server *s)
{
    http_server_stop(s->http);
    free(s->host);
    free(s->agent);
    free(s->custom);
}

static void create_probed_pod(struct fixture *f, const char *probes)
{
    GS_AUTO_FREE char *spec =
        gs_format("'terminationGracePeriodSeconds':1,'containers':[{'name':'c','image':'any',"
                  "'command':['sleep','1000'],%s}]",
                  probes);
    create_pod(f, "p", "", spec);
}

static bool is_unready(const json_t *pod, const void *arg)
{
    (void)arg;
    return kube_condition(pod, "Ready") && !kube_condition_true(pod, "Ready");
}

static bool is_unready_but_running(const json_t *pod, const void *arg)
{
    return is_unready(pod, arg) &&
           codec_json_get(container_status(pod, 0), "state", "running", NULL);
}

static void test_readiness_by_http(void **state)
{
    struct fixture *f = *state;
    struct server s;
    server_open(f, &s, 503);
    GS_AUTO_FREE char *probe = gs_format(
        "'readinessProbe':{'httpGet':{'host':'127.0.0.1','port':%d,'path':'/healthz','httpHeaders':"
        "[{'name':'X-Custom','value':'yes'}]},'periodSeconds':1,'failureThreshold':1}",
        http_server_port(s.http));
    create_probed_pod(f, probe);
    wait_event(f, "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503");
    CODEC_AUTO_JSON json_t *unready = wait_pod(f, "p", "unready", is_unready_but_running, NULL);
    const json_t *ready = kube_condition(unready, "Ready");
    assert_string_equal(codec_json_str(ready, "reason", NULL), "ContainersNotReady");
    assert_string_equal(codec_json_str(ready, "message", NULL),
                        "containers with unready status: [c]");
    assert_true(gs_starts(s.agent, "kube-probe/"));
    assert_string_equal(s.custom, "yes");

    s.code = 200;
    await_pod(f, "p", "ready", is_ready, NULL);
    s.code = 500;
    CODEC_AUTO_JSON json_t *again = wait_pod(f, "p", "unready", is_unready_but_running, NULL);
    assert_int_equal(codec_json_int(container_status(again, 0), -1, "restartCount", NULL), 0);
    server_close(&s);
}

static void test_http_to_a_closed_port(void **state)
{
    struct fixture *f = *state;
    struct server s;
    server_open(f, &s, 200);
    int port = http_server_port(s.http);
    server_close(&s);
    GS_AUTO_FREE char *probe =
        gs_format("'readinessProbe':{'httpGet':{'host':'127.0.0.1','port':%d,"
                  "'path':'/healthz'},'periodSeconds':1}",
                  port);
    create_probed_pod(f, probe);
    GS_AUTO_FREE char *want =
        gs_format("Readiness probe failed: Get \"http://127.0.0.1:%d/healthz\": dial tcp "
                  "127.0.0.1:%d: connect: connection refused",
                  port, port);
    wait_event(f, "Unhealthy", want);
}

// Only the pod's own ports move where low ones cannot be bound: as for an ordinary user.
static void test_ports_of_other_hosts_stay(void **state)
{
    struct fixture *f = *state;
    struct server s;
    server_open(f, &s, 200);
    local_ports_set_first(http_server_port(s.http) + 1);
    GS_AUTO_FREE char *probe =
        gs_format("'readinessProbe':{'httpGet':{'host':'127.0.0.1','port':%d,'path':'/healthz'},"
                  "'periodSeconds':1}",
                  http_server_port(s.http));
    create_probed_pod(f, probe);
    await_pod(f, "p", "ready", is_ready, NULL);
    assert_true(s.hits > 0);
    local_ports_set_first(0);
    server_close(&s);
}

static void test_liveness_by_command(void **state)
{
    struct fixture *f = *state;
    static const int once = 1;
    GS_AUTO_FREE char *probe =
        gs_format("'livenessProbe':{'exec':{'command':['sh','-c','echo sick; test -e %s/well']},"
                  "'periodSeconds':1,'failureThreshold':1}",
                  f->dir);
    create_probed_pod(f, probe);
    wait_event(f, "Unhealthy", "Liveness probe failed: sick");
    wait_event(f, "Killing", "Container c failed liveness probe, will be restarted");
    GS_AUTO_FREE char *well = gs_format("%s/well", f->dir);
    fclose(fopen(well, "w"));
    await_pod(f, "p", "restarted", has_restarts, &once);
}

static void test_a_command_that_takes_too_long(void **state)
{
    struct fixture *f = *state;
    create_probed_pod(f, "'readinessProbe':{'exec':{'command':['sleep','900']},'periodSeconds':1}");
    wait_event(f, "Unhealthy",
               "Readiness probe failed: command timed out: \"sleep 900\" timed out after 1s");
}

static void test_startup_by_tcp_comes_first(void **state)
{
    struct fixture *f = *state;
    struct server s, late;
    server_open(f, &late, 200);
    int port = http_server_port(late.http);
    server_close(&late);
    server_open(f, &s, 200);
    GS_AUTO_FREE char *probes = gs_format(
        "'startupProbe':{'tcpSocket':{'host':'127.0.0.1','port':%d},'periodSeconds':1,"
        "'failureThreshold':100},'readinessProbe':{'httpGet':{'host':'127.0.0.1','port':%d,'path':"
        "'/healthz'},'periodSeconds':1}",
        port, http_server_port(s.http));
    create_probed_pod(f, probes);
    GS_AUTO_FREE char *want =
        gs_format("Startup probe failed: dial tcp 127.0.0.1:%d: connect: connection refused", port);
    wait_event(f, "Unhealthy", want);
    assert_int_equal(s.hits, 0);
    AUTO_REPLY struct reply now = get_pod(f, "p");
    assert_false(codec_json_bool(container_status(now.body, 0), true, "started", NULL));

    const struct http_server_config cfg = {.address = "127.0.0.1", .port = (uint16_t)port};
    late = (struct server){.code = 200};
    assert_null(http_server_start(&f->h.loop, &cfg, serve, &late, &late.http));
    CODEC_AUTO_JSON json_t *pod = wait_pod(f, "p", "ready", is_ready, NULL);
    assert_true(codec_json_bool(container_status(pod, 0), false, "started", NULL));
    assert_true(s.hits > 0);
    server_close(&s);
    server_close(&late);
}

static void test_a_failed_startup_restarts(void **state)
{
    struct fixture *f = *state;
    create_probed_pod(f, "'startupProbe':{'exec':{'command':['false']},'periodSeconds':1,"
                         "'failureThreshold':2}");
    wait_event(f, "Killing", "Container c failed startup probe, will be restarted");
}

static void test_a_port_that_is_not_there(void **state)
{
    struct fixture *f = *state;
    create_probed_pod(f, "'readinessProbe':{'tcpSocket':{'port':'web'},'periodSeconds':1}");
    wait_event(f, "Unhealthy", "Readiness probe failed: couldn't find port: web");
}

static void on_health(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    const bool *serving = ctx;
    assert_true(gs_slice_eq(request, GS_SLICE("\x0a\x03svc"))); // field 1: the service
    grpc_call_send(call, *serving ? GS_SLICE("\x08\x01") : GS_SLICE("\x08\x02"));
    grpc_call_finish(call, GRPC_OK, "");
}

static void test_readiness_by_grpc(void **state)
{
    struct fixture *f = *state;
    bool serving = false;
    uint16_t port;
    struct grpc_server *s = grpc_server_new(&f->h.loop);
    grpc_server_handle(s, "/grpc.health.v1.Health/Check", on_health, &serving);
    // Not in the pod, but at the pod's address too.
    assert_null(grpc_server_listen_tcp(s, "0.0.0.0", 0, &port));
    GS_AUTO_FREE char *probe =
        gs_format("'readinessProbe':{'grpc':{'port':%d,'service':'svc'},'periodSeconds':1}", port);
    create_probed_pod(f, probe);
    wait_event(f, "Unhealthy",
               "Readiness probe failed: service unhealthy (responded with \"NOT_SERVING\")");
    serving = true;
    await_pod(f, "p", "ready", is_ready, NULL);
    grpc_server_free(s);
}

static void test_lifecycle_hooks(void **state)
{
    struct fixture *f = *state;
    struct server s;
    server_open(f, &s, 200);
    GS_AUTO_FREE char *hooks = gs_format(
        "'lifecycle':{'postStart':{'exec':{'command':['touch','%s/began']}},'preStop':{'httpGet':"
        "{'host':'127.0.0.1','port':%d,'path':'/healthz'}}}",
        f->dir, http_server_port(s.http));
    create_probed_pod(f, hooks);
    await_pod(f, "p", "ready", is_ready, NULL);
    GS_AUTO_FREE char *began = gs_format("%s/began", f->dir);
    assert_int_equal(access(began, F_OK), 0);
    assert_int_equal(s.hits, 0);
    delete_pod(f, "p", "?gracePeriodSeconds=30");
    wait_pod_gone(f, "p");
    assert_int_equal(s.hits, 1);
    server_close(&s);
}

static void test_a_failed_post_start_hook(void **state)
{
    struct fixture *f = *state;
    create_probed_pod(f, "'lifecycle':{'postStart':{'exec':{'command':['no-such-thing']}}}");
    wait_event(f, "FailedPostStartHook",
               "PostStartHook failed: exec: \"no-such-thing\": No such file or directory");
    wait_event(f, "Killing", "FailedPostStartHook");
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, fixture_open, fixture_close)
    const struct CMUnitTest tests[] = {
        T(test_readiness_by_http),
        T(test_http_to_a_closed_port),
        T(test_ports_of_other_hosts_stay),
        T(test_liveness_by_command),
        T(test_a_command_that_takes_too_long),
        T(test_startup_by_tcp_comes_first),
        T(test_a_failed_startup_restarts),
        T(test_a_port_that_is_not_there),
        T(test_readiness_by_grpc),
        T(test_lifecycle_hooks),
        T(test_a_failed_post_start_hook),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
