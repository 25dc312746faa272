// SPDX-License-Identifier: Apache-2.0
// The activator on the embedded API, with the Services of `gpuscale up`. Pods are listening sockets
// of the test.
#include "../local/cluster_harness.h"
#include "activator/activator.h"
#include "base/clock.h"
#include "local/services.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#define SLICES  KUBE_GVR(KUBE_RESOURCE_ENDPOINTSLICES)
#define REQUEST "GET / HTTP/1.1\r\nHost: api\r\n\r\n"

static struct cluster k;
static struct local_services *services;
static struct activator *activator;
static int pod_port;

// The activator's connection to the API: its writes fail, or wait for the test.
static struct http_client *api_http;
static struct kube_client *api;
static enum { SERVE, FAIL, HOLD } writes;
static int n_failed;
static size_t max_services; // 0: the default
static unsigned per_endpoint;
static bool no_workloads;  // reading them fails
static const char *second; // the other address
static int n_pod_reads, n_pod_lists, n_node_lists;
static struct http_exchange *held;

static int fails(struct http_exchange *x)
{
    http_reply_text(x, 500, "injected fault");
    return 1;
}

static void serve_activator(void *arg, struct http_exchange *x)
{
    (void)arg;
    n_pod_reads += strstr(http_path(x), "/pods/") != NULL;
    n_pod_lists += strstr(http_path(x), "/default/pods") != NULL;
    n_node_lists += strstr(http_path(x), "/v1/nodes") != NULL;
    if (no_workloads && strstr(http_path(x), "/deployments/"))
        fails(x);
    else if (writes == SERVE || gs_streq(http_method(x), "GET"))
        local_api_handle(k.api, x);
    else if (writes == FAIL)
        n_failed += fails(x);
    else
        held = x;
}

static void open_api(void)
{
    static const char *const groups[] = {"system:masters"};
    const struct http_identity admin = {"system:admin", groups, 1};
    api_http = http_client_new_loopback(&k.loop, serve_activator, NULL, &admin);
    api = kube_client_new(api_http);
    writes = SERVE;
    n_failed = 0;
    max_services = 0;
    per_endpoint = 0;
    no_workloads = false;
    second = NULL;
    n_pod_reads = n_pod_lists = n_node_lists = 0;
}

static void start_activator(void)
{
    struct activator_config cfg = activator_config_default();
    if (max_services)
        cfg.max_services = max_services;
    if (per_endpoint)
        cfg.per_endpoint = per_endpoint;
    cfg.node = "node-1";
    cfg.second = second;
    activator = activator_new(&k.loop, api, &cfg);
}

static void note_stop(void *arg)
{
    *(bool *)arg = true;
}

static void stop_activator(void)
{
    bool stopped = false;
    activator_stop(activator, note_stop, &stopped);
    loop_until(&k.loop, stopped);
    activator_free(GS_TAKE(activator));
}

static int setup(void **state)
{
    (void)state;
    cluster_open(&k);
    services = services_new(k.c);
    open_api();
    start_activator();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    activator_free(GS_TAKE(activator));
    kube_client_free(api);
    http_client_free(api_http);
    services_free(services);
    cluster_close(&k);
    return 0;
}

// --- sockets ---

static struct sockaddr_in address(const char *ip, int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    inet_pton(AF_INET, ip, &a.sin_addr);
    return a;
}

// A port of all addresses of pods.
static int listen_as_pod(const char *ip)
{
    struct sockaddr_in a = address(ip, pod_port);
    socklen_t len = sizeof(a);
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(fd, 16), 0);
    getsockname(fd, (struct sockaddr *)&a, &len);
    pod_port = ntohs(a.sin_port);
    return fd;
}

// Answers one request after the other with this text.
static void serve(int fd, const char *text)
{
    static int c = -1;
    char bytes[256];
    if (c < 0)
        c = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (c < 0 || recv(c, bytes, sizeof(bytes), 0) <= 0)
        return;
    assert_true(send(c, text, strlen(text), MSG_NOSIGNAL) > 0);
    close(c);
    c = -1;
}

static const json_t *service(void)
{
    return kube_cache_get(k.c->services, "default", "api");
}

// The Service listens at its address in gpuscale.dev/address.
static int send_request(void)
{
    const char *at = kube_annotation(service(), LOCAL_ANN_ADDRESS), *colon = strrchr(at, ':');
    GS_AUTO_FREE char *ip = gs_strndup(at, (size_t)(colon - at));
    struct sockaddr_in to = address(ip, (int)strtol(colon + 1, NULL, 10));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    assert_int_equal(send(fd, REQUEST, strlen(REQUEST), MSG_NOSIGNAL), (ssize_t)strlen(REQUEST));
    return fd;
}

static bool is_reset(int client)
{
    char byte;
    ssize_t n = recv(client, &byte, 1, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN);
}

static bool answers(int pod, const char *text, int client)
{
    char bytes[256] = "";
    if (pod >= 0)
        serve(pod, text);
    ssize_t n = recv(client, bytes, sizeof(bytes) - 1, MSG_DONTWAIT);
    if (n >= 0)
        assert_string_equal(bytes, text);
    return n >= 0;
}

// --- objects ---

static void create_service(const char *activate)
{
    GS_AUTO_FREE char *yaml = gs_format(
        "{apiVersion: v1, kind: Service, metadata: {name: api, annotations: "
        "{gpuscale.dev/activate: '%s'}}, spec: {selector: {app: api}, ports: [{name: http, port: "
        "18080, targetPort: %d}]}}",
        activate, pod_port);
    cluster_create(&k, KUBE_SERVICES, yaml);
}

static void create_pod(void)
{
    cluster_create(&k, KUBE_PODS,
                   "{apiVersion: v1, kind: Pod, metadata: {name: api, labels: {app: api}}, spec: "
                   "{containers: [{name: c, image: i}]}}");
}

static int64_t number(const char *field)
{
    CODEC_AUTO_JSON json_t *list = activator_json(activator);
    return codec_json_int(json_array_get(list, 0), -1, field, NULL);
}

static bool has_text(const char *field, const char *part)
{
    CODEC_AUTO_JSON json_t *list = activator_json(activator);
    const char *text = codec_json_str(json_array_get(list, 0), field, NULL);
    return text && strstr(text, part);
}

static const json_t *own_slice(void)
{
    size_t pos = 0;
    const json_t *slice;
    while ((slice = kube_cache_next(k.c->slices, &pos)))
        if (gs_slice_starts(gs_slice_of(kube_name(slice)), "api-activator-"))
            return slice;
    return NULL;
}

static bool is_published(bool ready)
{
    const json_t *e = json_array_get(json_object_get(own_slice(), "endpoints"), 0);
    return e && codec_json_bool(e, !ready, "conditions", "ready", NULL) == ready &&
           codec_json_bool(e, false, "conditions", "serving", NULL) &&
           codec_json_bool(e, ready, "conditions", "terminating", NULL) == !ready;
}

// --- tests ---

static void test_a_request_at_zero_waits_for_the_first_pod(void **state)
{
    (void)state;
    int pod = listen_as_pod("127.64.9.1");
    create_service("Deployment/api");
    loop_until(&k.loop, is_published(true) && kube_annotation(service(), LOCAL_ANN_ADDRESS));
    loop_for_ms(&k.loop, 1);
    int client = send_request();
    loop_until(&k.loop, number("waiting") == 1);
    create_pod();
    loop_until(&k.loop, answers(pod, "pod", client));
    assert_int_equal(number("released"), 1);
    close(client);
    // The pod is ready: the activator is out of the data path.
    loop_until(&k.loop, is_published(false));
    loop_for_ms(&k.loop, 1);
    client = send_request();
    loop_until(&k.loop, answers(pod, "pod", client));
    assert_int_equal(number("arrivals"), 1);
    close(client);
    close(pod);
}

// Between the end of the last pod and the next EndpointSlice, connections find the standby.
static void test_no_connection_is_refused_when_the_last_pod_ends(void **state)
{
    (void)state;
    int pod = listen_as_pod("127.64.9.1");
    create_service("Deployment/api");
    create_pod();
    loop_until(&k.loop, is_published(false) && kube_annotation(service(), LOCAL_ANN_ADDRESS));
    loop_for_ms(&k.loop, 1);
    close(pod); // the process has ended, and the API has not noticed
    int client = send_request();
    loop_until(&k.loop, number("arrivals") == 1);
    cluster_delete(&k, KUBE_PODS, "default", "api");
    loop_until(&k.loop, is_published(true));
    loop_until(&k.loop, number("waiting") == 1);
    close(client);
}

static void test_the_slice_goes_with_the_annotation(void **state)
{
    (void)state;
    create_service("Deployment/api");
    loop_until(&k.loop, is_published(true));
    cluster_patch(&k, KUBE_SERVICES, "api", NULL,
                  "metadata: {annotations: {gpuscale.dev/activate: null}}");
    loop_until(&k.loop, !own_slice());
    assert_int_equal(number("waiting"), -1); // no Service is left
}

// Else clients of the Service would connect to a process that is gone.
static void test_the_slice_goes_if_the_annotation_went_between_two_processes(void **state)
{
    (void)state;
    create_service("Deployment/api");
    loop_until(&k.loop, is_published(true));
    activator_free(GS_TAKE(activator)); // without a stop
    cluster_patch(&k, KUBE_SERVICES, "api", NULL,
                  "metadata: {annotations: {gpuscale.dev/activate: null}}");
    assert_true(is_published(true));
    start_activator();
    loop_until(&k.loop, !own_slice());
}

static void test_a_service_above_the_limit_follows_one_that_leaves(void **state)
{
    (void)state;
    activator_free(GS_TAKE(activator));
    max_services = 1;
    start_activator();
    create_service("Deployment/api");
    loop_until(&k.loop, is_published(true));
    cluster_create(&k, KUBE_SERVICES,
                   "{apiVersion: v1, kind: Service, metadata: {name: next, annotations: "
                   "{gpuscale.dev/activate: Deployment/next}}, spec: {selector: {app: next}, "
                   "ports: [{name: http, port: 18081}]}}");
    loop_until(&k.loop, cluster_event(&k, "NotActivated", "at most 1 Services"));
    assert_true(has_text("service", "api"));
    cluster_delete(&k, KUBE_SERVICES, "default", "api");
    loop_until(&k.loop, has_text("service", "next"));
}

static void test_a_stop_deletes_the_slice(void **state)
{
    (void)state;
    create_service("Deployment/api");
    loop_until(&k.loop, is_published(true));
    stop_activator();
    loop_until(&k.loop, !own_slice());
}

// The pod that starts is lost with its node; the next one serves what waits.
static void test_a_node_that_dies_during_the_start_loses_no_request(void **state)
{
    (void)state;
    int pod = listen_as_pod("127.64.9.1");
    k.ready_budget = 0; // the kubelet of the test leaves the pod, as that of a dead node
    cluster_create(
        &k, KUBE_DEPLOYMENTS,
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: api}, spec: {replicas: "
        "0, selector: {matchLabels: {app: other}}, template: {metadata: {labels: {app: "
        "other}}, spec: {containers: [{name: c, image: i}]}}}}");
    create_service("Deployment/api");
    loop_until(&k.loop, is_published(true) && kube_annotation(service(), LOCAL_ANN_ADDRESS));
    loop_for_ms(&k.loop, 1);
    create_pod();
    cluster_patch(&k, KUBE_PODS, "api", "status",
                  "status: {phase: Pending, conditions: [{type: PodScheduled, status: 'True'}]}");
    int client = send_request();
    loop_until(&k.loop, has_text("starting", "pod api is starting"));
    cluster_patch(&k, KUBE_PODS, "api", "status",
                  "status: {phase: Failed, reason: NodeLost, message: the node is lost}");
    loop_until(&k.loop, !has_text("starting", "pod api is starting"));
    assert_int_equal(number("waiting"), 1);
    cluster_delete(&k, KUBE_PODS, "default", "api");
    k.ready_budget = -1;
    create_pod();
    loop_until(&k.loop, answers(pod, "pod", client));
    assert_int_equal(number("released"), 1);
    close(client);
    close(pod);
}

// After a crash, the slice has the address of a process that is gone.
static void test_a_new_process_takes_over_the_slice_of_the_last_one(void **state)
{
    (void)state;
    create_service("Deployment/api");
    loop_until(&k.loop, is_published(true));
    activator_free(GS_TAKE(activator)); // without a stop
    loop_for_ms(&k.loop, 1);
    assert_true(is_published(true));
    GS_AUTO_FREE char *name = gs_strdup(kube_name(own_slice()));
    start_activator();
    // Until it listens again, clients see a reset and no hang.
    int client = send_request();
    while (number("waiting") != 1) {
        loop_for_ms(&k.loop, 10);
        if (!is_reset(client))
            continue;
        close(client);
        client = send_request();
    }
    assert_string_equal(kube_name(own_slice()), name);
    close(client);
}

static void test_a_changed_slice_is_corrected(void **state)
{
    (void)state;
    create_service("Deployment/api");
    loop_until(&k.loop, is_published(true));
    GS_AUTO_FREE char *name = gs_strdup(kube_name(own_slice()));
    cluster_patch(&k, SLICES, name, NULL, "endpoints: []");
    loop_until(&k.loop, is_published(true));
}

// Of another controller, with one ready endpoint.
static void create_other_slice(void)
{
    cluster_create(&k, SLICES,
                   "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, "
                   "metadata: {name: other, labels: {kubernetes.io/service-name: api, "
                   "endpointslice.kubernetes.io/managed-by: test}}, endpoints: [{addresses: "
                   "[127.0.0.9]}], ports: [{name: http, port: 20000}]}");
    loop_until(&k.loop, number("ready") == 1);
}

static void delete_other_slice(void)
{
    cluster_delete(&k, SLICES, "default", "other");
    loop_until(&k.loop, number("ready") == 0);
}

// What could not be written is not wanted any more when the next attempt comes.
static void test_a_failed_write_does_not_end_the_writes(void **state)
{
    (void)state;
    create_service("Deployment/api");
    loop_until(&k.loop, is_published(true));
    writes = FAIL;
    create_other_slice();
    loop_until(&k.loop, n_failed > 0);
    delete_other_slice();
    loop_for_ms(&k.loop, 1000); // beyond the next attempt
    writes = SERVE;
    create_other_slice();
    loop_until(&k.loop, is_published(false));
}

static void test_a_change_during_a_write_is_written_after_it(void **state)
{
    (void)state;
    create_service("Deployment/api");
    loop_until(&k.loop, is_published(true));
    GS_AUTO_FREE char *name = gs_strdup(kube_name(own_slice()));
    writes = HOLD;
    create_other_slice();
    loop_until(&k.loop, held);
    // It has been written, and the answer comes after the next change.
    cluster_patch(&k, SLICES, name, NULL,
                  "endpoints: [{addresses: [127.0.0.1], conditions: {ready: false, serving: true, "
                  "terminating: true}}]");
    delete_other_slice();
    loop_for_ms(&k.loop, 10);
    writes = SERVE;
    http_reply(GS_TAKE(held), 200, "application/json", GS_SLICE("{}"));
    loop_until(&k.loop, is_published(true));
}

static void test_mistakes_are_reported(void **state)
{
    (void)state;
    create_service("api");
    loop_until(&k.loop, cluster_event(&k, "NotActivated", "write KIND/NAME"));
    cluster_patch(&k, KUBE_SERVICES, "api", NULL,
                  "metadata: {annotations: {gpuscale.dev/activate: null, gpuscale.dev/activated: "
                  "Deployment/api}}");
    loop_until(&k.loop, cluster_event(&k, "NotActivated", "mean gpuscale.dev/activate?"));
    assert_null(own_slice());
}

static void test_metrics_exist_at_zero(void **state)
{
    (void)state;
    create_service("Deployment/api");
    loop_until(&k.loop, is_published(true));
    GS_AUTO_BUF struct gs_buf text = {0};
    activator_write_metrics(activator, &text);
    gs_buf_add_char(&text, '\0');
    assert_non_null(strstr(
        text.data, "\ngpuscale_activator_waiting{namespace=\"default\",service=\"api\"} 0\n"));
    assert_non_null(strstr(text.data, "\ngpuscale_activator_rejected_total{namespace=\"default\","
                                      "service=\"api\",reason=\"limit\"} 0\n"));
}

static void set_pod_status(const char *yaml)
{
    GS_AUTO_FREE char *status = gs_format("status: {%s}", yaml);
    cluster_patch(&k, KUBE_PODS, "api", "status", status);
}

static bool got_reply(int client, struct gs_buf *have, const char *part)
{
    char bytes[1024];
    ssize_t n = recv(client, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (n > 0)
        gs_buf_add(have, bytes, (size_t)n);
    return have->len && memmem(have->data, have->len, part, strlen(part));
}

static void test_callers_get_the_reason_of_a_crash_loop(void **state)
{
    (void)state;
    GS_AUTO_BUF struct gs_buf reply = {0};
    k.ready_budget = 0; // the kubelet of the test leaves the pod
    create_service("StatefulSet/api");
    create_pod();
    loop_until(&k.loop, is_published(true) && kube_annotation(service(), LOCAL_ANN_ADDRESS));
    loop_for_ms(&k.loop, 1);
    set_pod_status("phase: Pending, conditions: [{type: PodScheduled, status: 'True'}]");
    int client = send_request();
    loop_until(&k.loop, has_text("starting", "pod api is starting"));
    assert_int_equal(number("waiting"), 1);
    set_pod_status(
        "phase: Running, containerStatuses: [{name: c, restartCount: 3, ready: false, "
        "image: i, imageID: '', state: {waiting: {reason: CrashLoopBackOff}}, lastState: "
        "{terminated: {exitCode: 3, reason: Error}}}]");
    loop_until(&k.loop, got_reply(client, &reply, "exit code 3"));
    assert_true(gs_slice_starts(gs_buf_slice(&reply), "HTTP/1.1 503 "));
    assert_true(has_text("problem", "exit code 3"));
    loop_until(&k.loop, cluster_event(&k, "CannotActivate", "exit code 3"));
    close(client);
    // The pod is deleted: the next request may wait again.
    cluster_delete(&k, KUBE_PODS, "default", "api");
    loop_until(&k.loop, !has_text("problem", ""));
    client = send_request();
    loop_until(&k.loop, number("waiting") == 1);
    close(client);
}

static void test_a_workload_that_does_not_exist_is_reported(void **state)
{
    (void)state;
    GS_AUTO_BUF struct gs_buf reply = {0};
    create_service("Deployment/api");
    loop_until(&k.loop, is_published(true) && kube_annotation(service(), LOCAL_ANN_ADDRESS));
    loop_for_ms(&k.loop, 1);
    int client = send_request();
    loop_until(&k.loop, got_reply(client, &reply, "the Deployment api does not exist"));
    close(client);
    // The reason stays while the API is away.
    no_workloads = true;
    loop_for_ms(&k.loop, 2500); // two readings
    assert_true(has_text("problem", "the Deployment api does not exist"));
}

// A list of nodes can be long.
static void test_nodes_are_not_listed_for_each_reading(void **state)
{
    (void)state;
    k.ready_budget = 0;
    create_service("StatefulSet/api");
    create_pod();
    loop_until(&k.loop, is_published(true) && kube_annotation(service(), LOCAL_ANN_ADDRESS));
    loop_for_ms(&k.loop, 1);
    int client = send_request();
    loop_until(&k.loop, n_pod_lists == 4);
    assert_true(n_node_lists > 0 && n_node_lists < 3);
    close(client);
}

static size_t n_slices(void)
{
    return kube_cache_len(k.c->slices);
}

static void test_slices_of_pods_that_are_gone_are_deleted(void **state)
{
    (void)state;
    create_service("Deployment/api");
    loop_until(&k.loop, is_published(true));
    cluster_create(
        &k, SLICES,
        "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, "
        "metadata: {name: api-activator-other, labels: {kubernetes.io/service-name: api, "
        "endpointslice.kubernetes.io/managed-by: activator.gpuscale.dev}}, endpoints: "
        "[{addresses: [10.0.0.9], targetRef: {kind: Pod, namespace: default, name: "
        "activator-1}}], ports: [{name: http, port: 20000}]}");
    loop_until(&k.loop, n_slices() == 2);
    loop_until(&k.loop, n_slices() == 1);
    assert_true(is_published(true));
}

static void create_peer_slice(const char *service)
{
    GS_AUTO_FREE char *yaml = gs_format(
        "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, metadata: "
        "{name: %s-other, labels: {kubernetes.io/service-name: %s, "
        "endpointslice.kubernetes.io/managed-by: activator.gpuscale.dev}}, endpoints: "
        "[{addresses: [10.0.0.9], targetRef: {kind: Pod, namespace: default, name: "
        "activator-1}}], ports: [{name: http, port: 20000}]}",
        service, service);
    cluster_create(&k, SLICES, yaml);
}

static void test_a_pod_that_is_gone_is_read_once_for_all_services(void **state)
{
    (void)state;
    activator_free(GS_TAKE(activator));
    create_service("Deployment/api");
    cluster_create(&k, KUBE_SERVICES,
                   "{apiVersion: v1, kind: Service, metadata: {name: next, annotations: "
                   "{gpuscale.dev/activate: Deployment/next}}, spec: {selector: {app: next}, "
                   "ports: [{name: http, port: 18081}]}}");
    create_peer_slice("api");
    create_peer_slice("next");
    loop_until(&k.loop, n_slices() == 2);
    start_activator();
    loop_until(&k.loop, is_published(true) && n_slices() == 2); // the own ones
    assert_true(n_pod_reads <= 2); // the first one may come before all slices are listed
}

// --- ports ---

static int connect_to_activator(const char *port_name)
{
    size_t i;
    const json_t *p;
    int number = 0;
    json_array_foreach (json_object_get(own_slice(), "ports"), i, p)
        if (gs_streq(codec_json_str(p, "name", NULL), port_name))
            number = (int)codec_json_int(p, 0, "port", NULL);
    struct sockaddr_in to = address("127.0.0.1", number);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    assert_int_equal(send(fd, REQUEST, strlen(REQUEST), MSG_NOSIGNAL), (ssize_t)strlen(REQUEST));
    return fd;
}

static bool has_port(const char *name)
{
    size_t i;
    const json_t *p;
    json_array_foreach (json_object_get(own_slice(), "ports"), i, p)
        if (gs_streq(codec_json_str(p, "name", NULL), name))
            return true;
    return false;
}

// A held connection goes to the port of its name, wherever this is in the list.
static void test_a_held_connection_keeps_its_port(void **state)
{
    (void)state;
    int pod = listen_as_pod("127.64.9.1");
    create_service("Deployment/api");
    cluster_patch(
        &k, KUBE_SERVICES, "api", NULL,
        "spec: {selector: null, ports: [{name: a, port: 18080}, {name: b, port: 18081}]}");
    loop_until(&k.loop, has_port("b"));
    int of_a = connect_to_activator("a"), of_b = connect_to_activator("b");
    loop_until(&k.loop, number("waiting") == 2);
    cluster_patch(&k, KUBE_SERVICES, "api", NULL, "spec: {ports: [{name: b, port: 18081}]}");
    GS_AUTO_BUF struct gs_buf reply = {0};
    loop_until(&k.loop, got_reply(of_a, &reply, "HTTP/1.1 503 "));
    assert_int_equal(number("waiting"), 1);
    GS_AUTO_FREE char *yaml =
        gs_format("{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, "
                  "metadata: {name: other, labels: {kubernetes.io/service-name: api}}, endpoints: "
                  "[{addresses: [127.64.9.1]}], ports: [{name: c, port: 1}, {name: b, port: %d}]}",
                  pod_port);
    cluster_create(&k, SLICES, yaml);
    loop_until(&k.loop, answers(pod, "pod", of_b));
    close(of_a);
    close(of_b);
    close(pod);
}

// --- settings of the Service ---

static void test_a_pod_gets_requests_when_its_model_is_loaded(void **state)
{
    (void)state;
    int pod = listen_as_pod("127.64.9.1");
    create_service("Deployment/api");
    cluster_patch(&k, KUBE_SERVICES, "api", NULL,
                  "metadata: {annotations: {gpuscale.dev/activate-ready-path: /v1/models}}");
    loop_until(&k.loop, is_published(true) && kube_annotation(service(), LOCAL_ANN_ADDRESS));
    loop_for_ms(&k.loop, 1);
    int client = send_request();
    loop_until(&k.loop, number("waiting") == 1);
    create_pod();
    // Its answer to the first query is 503.
    int at = -1;
    loop_until(&k.loop, (at = accept4(pod, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0);
    char bytes[64] = "";
    loop_until(&k.loop, recv(at, bytes, sizeof(bytes) - 1, 0) > 0);
    assert_true(gs_starts(bytes, "GET /v1/models HTTP/1.1\r\n"));
    static const char not_yet[] = "HTTP/1.1 503 x\r\nContent-Length: 0\r\n"
                                  "Connection: close\r\n\r\n";
    assert_true(send(at, not_yet, strlen(not_yet), MSG_NOSIGNAL) > 0);
    close(at);
    assert_int_equal(number("waiting"), 1);
    loop_until(&k.loop, has_text("starting", "is ready and loads its model"));
    static const char yes[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    loop_until(&k.loop, answers(pod, yes, client));
    assert_int_equal(number("released"), 1);
    close(client);
    close(pod);
}

// Its limit of time applies: nothing is on its way.
static void test_a_request_that_waits_for_a_busy_pod_waits_for_no_start(void **state)
{
    (void)state;
    stop_activator();
    per_endpoint = 1;
    start_activator();
    int pod = listen_as_pod("127.64.9.1");
    create_service("Deployment/api");
    loop_until(&k.loop, is_published(true) && kube_annotation(service(), LOCAL_ANN_ADDRESS));
    loop_for_ms(&k.loop, 1);
    int first = send_request(), other = send_request();
    loop_until(&k.loop, number("waiting") == 2);
    create_pod();
    loop_until(&k.loop, number("released") == 1);
    int lists = n_pod_lists;
    loop_until(&k.loop, n_pod_lists >= lists + 2); // the first one is complete
    assert_int_equal(number("waiting"), 1);
    assert_false(has_text("starting", ""));
    close(first);
    close(other);
    close(pod);
}

static void test_wrong_annotations_are_reported(void **state)
{
    (void)state;
    create_service("Deployment/api");
    loop_until(&k.loop, is_published(true));
    cluster_patch(&k, KUBE_SERVICES, "api", NULL,
                  "metadata: {annotations: {gpuscale.dev/activate-comments: soon}}");
    loop_until(&k.loop, cluster_event(&k, "InvalidAnnotation", "activate-comments \"soon\""));
    cluster_patch(&k, KUBE_SERVICES, "api", NULL,
                  "metadata: {annotations: {gpuscale.dev/activate-comments: null, "
                  "gpuscale.dev/activate-probe-paths: health}}");
    loop_until(&k.loop, cluster_event(&k, "InvalidAnnotation", "\"health\" is no path"));
    cluster_patch(&k, KUBE_SERVICES, "api", NULL,
                  "metadata: {annotations: {gpuscale.dev/activate-probe-paths: null, "
                  "gpuscale.dev/activate-redy-path: /v1}}");
    loop_until(&k.loop,
               cluster_event(&k, "InvalidAnnotation", "mean gpuscale.dev/activate-ready-"));
    cluster_patch(&k, KUBE_SERVICES, "api", NULL, "spec: {internalTrafficPolicy: Local}");
    loop_until(&k.loop, cluster_event(&k, "NotActivated", "internalTrafficPolicy is Local"));
}

// --- addresses ---

static const json_t *own_slice_of(const char *type)
{
    size_t pos = 0;
    const json_t *slice;
    while ((slice = kube_cache_next(k.c->slices, &pos)))
        if (gs_slice_starts(gs_slice_of(kube_name(slice)), "api-activator-") &&
            gs_streq(codec_json_str(slice, "addressType", NULL), type))
            return slice;
    return NULL;
}

static void test_each_address_family_has_a_slice(void **state)
{
    (void)state;
    activator_free(GS_TAKE(activator));
    second = "fd00::7";
    start_activator();
    create_service("Deployment/api");
    loop_until(&k.loop, own_slice_of("IPv4"));
    assert_null(own_slice_of("IPv6")); // the Service has no such address
    cluster_patch(&k, KUBE_SERVICES, "api", NULL, "spec: {ipFamilies: [IPv4, IPv6]}");
    loop_until(&k.loop, own_slice_of("IPv6"));
    const json_t *e = json_array_get(json_object_get(own_slice_of("IPv6"), "endpoints"), 0);
    assert_string_equal(json_string_value(json_array_get(json_object_get(e, "addresses"), 0)),
                        "fd00::7");
    assert_string_equal(codec_json_str(e, "nodeName", NULL), "node-1");
    stop_activator();
    loop_until(&k.loop, !own_slice());
}

#define ACTIVATOR_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ACTIVATOR_TEST(test_a_request_at_zero_waits_for_the_first_pod),
        ACTIVATOR_TEST(test_no_connection_is_refused_when_the_last_pod_ends),
        ACTIVATOR_TEST(test_the_slice_goes_with_the_annotation),
        ACTIVATOR_TEST(test_the_slice_goes_if_the_annotation_went_between_two_processes),
        ACTIVATOR_TEST(test_a_service_above_the_limit_follows_one_that_leaves),
        ACTIVATOR_TEST(test_a_stop_deletes_the_slice),
        ACTIVATOR_TEST(test_a_node_that_dies_during_the_start_loses_no_request),
        ACTIVATOR_TEST(test_a_new_process_takes_over_the_slice_of_the_last_one),
        ACTIVATOR_TEST(test_a_changed_slice_is_corrected),
        ACTIVATOR_TEST(test_a_failed_write_does_not_end_the_writes),
        ACTIVATOR_TEST(test_a_change_during_a_write_is_written_after_it),
        ACTIVATOR_TEST(test_mistakes_are_reported),
        ACTIVATOR_TEST(test_metrics_exist_at_zero),
        ACTIVATOR_TEST(test_callers_get_the_reason_of_a_crash_loop),
        ACTIVATOR_TEST(test_a_workload_that_does_not_exist_is_reported),
        ACTIVATOR_TEST(test_nodes_are_not_listed_for_each_reading),
        ACTIVATOR_TEST(test_slices_of_pods_that_are_gone_are_deleted),
        ACTIVATOR_TEST(test_a_pod_that_is_gone_is_read_once_for_all_services),
        ACTIVATOR_TEST(test_a_held_connection_keeps_its_port),
        ACTIVATOR_TEST(test_a_pod_gets_requests_when_its_model_is_loaded),
        ACTIVATOR_TEST(test_a_request_that_waits_for_a_busy_pod_waits_for_no_start),
        ACTIVATOR_TEST(test_wrong_annotations_are_reported),
        ACTIVATOR_TEST(test_each_address_family_has_a_slice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
