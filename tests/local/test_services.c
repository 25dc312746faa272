// SPDX-License-Identifier: Apache-2.0
// Services on the embedded API, with real sockets: a pod of these tests is a listening socket that
// says its own address.
#include "cluster_harness.h"
#include "kube/object.h"
#include "local/ports.h"
#include "local/services.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

static struct local_services *s;

// --- sockets of the test: non-blocking, looked at between turns of the loop ---

static int try_listen(const char *ip, int port, int *ret_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t len = sizeof(at);
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    inet_pton(AF_INET, ip, &at.sin_addr);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(fd, 16) != 0) {
        close(fd);
        return -1;
    }
    getsockname(fd, (struct sockaddr *)&at, &len);
    if (ret_port)
        *ret_port = ntohs(at.sin_port);
    return fd;
}

static int listen_on(const char *ip, int port, int *ret_port)
{
    int fd = try_listen(ip, port, ret_port);
    if (fd < 0)
        fail_msg("listening on %s:%d: %s", ip, port, strerror(errno));
    return fd;
}

static int free_port(const char *ip)
{
    int port, fd = listen_on(ip, 0, &port);
    close(fd);
    return port;
}

struct backend {
    int fd;
    char ip[32];
};
static struct backend backends[8];
static size_t n_backends;

static void serve_backends(void)
{
    for (size_t i = 0; i < n_backends; i++) {
        int c = accept(backends[i].fd, NULL, NULL);
        if (c < 0)
            continue;
        assert_true(write(c, backends[i].ip, strlen(backends[i].ip)) > 0);
        close(c);
    }
}

static void backend_start(const char *ip, int port)
{
    struct backend *b = &backends[n_backends++];
    b->fd = listen_on(ip, port, NULL);
    assert_true(strlen(ip) < sizeof(b->ip));
    memcpy(b->ip, ip, strlen(ip) + 1);
}

static void backends_stop(void)
{
    for (size_t i = 0; i < n_backends; i++)
        close(backends[i].fd);
    n_backends = 0;
}

// What a connection to there says; "" when it is closed without a word; NULL: refused.
static const char *ask(struct cluster *k, const char *ip, int port)
{
    static char said[64];
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    inet_pton(AF_INET, ip, &to.sin_addr);
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0) {
        close(fd);
        return NULL;
    }
    fcntl(fd, F_SETFL, O_NONBLOCK);
    size_t len = 0;
    ssize_t n = -1;
    loop_until(&k->loop, (serve_backends(), (n = read(fd, said + len, sizeof(said) - 1 - len)) > 0
                                                ? (len += (size_t)n, false)
                                                : n == 0 || errno != EAGAIN));
    close(fd);
    said[len] = '\0';
    return said;
}

// The listener points at the endpoints a moment after they are in the API.
static void await_answer(struct cluster *k, const char *ip, int port, const char *want)
{
    loop_until(&k->loop, gs_streq(ask(k, ip, port), want));
}

// --- fixture ---

static void setup(struct cluster *k)
{
    cluster_open(k);
    k->ready_budget = 0;
    s = services_new(k->c);
}

static void finish(struct cluster *k)
{
    services_free(s);
    cluster_close(k);
    backends_stop();
}

static const json_t *service(struct cluster *k, const char *name)
{
    return kube_cache_get(k->c->services, "default", name);
}

static const char *cluster_ip(struct cluster *k, const char *name)
{
    return codec_json_str(service(k, name), "spec", "clusterIP", NULL);
}

static const json_t *ingress(struct cluster *k, const char *name)
{
    return json_array_get(
        codec_json_get(service(k, name), "status", "loadBalancer", "ingress", NULL), 0);
}

static int64_t node_port(struct cluster *k, const char *name)
{
    return codec_json_int(
        json_array_get(codec_json_get(service(k, name), "spec", "ports", NULL), 0), 0, "nodePort",
        NULL);
}

static void make_service(struct cluster *k, const char *name, const char *type, int port,
                         const char *target)
{
    GS_AUTO_FREE char *yaml = gs_format(
        "{apiVersion: v1, kind: Service, metadata: {name: %s}, spec: {type: %s, selector: {app: "
        "web}, ports: [{port: %d, targetPort: %s}]}}",
        name, type, port, target);
    cluster_create(k, KUBE_SERVICES, yaml);
}

static void make_pod(struct cluster *k, const char *name, const char *ip, int port, bool ready)
{
    GS_AUTO_FREE char *yaml = gs_format(
        "{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {app: web}}, spec: {nodeName: "
        "node-1, containers: [{name: c, image: i, ports: [{name: http, containerPort: %d}]}]}}",
        name, port);
    cluster_create(k, KUBE_PODS, yaml);
    GS_AUTO_FREE char *status =
        gs_format("status: {phase: Running, podIP: %s, conditions: [{type: Ready, status: '%s'}]}",
                  ip, ready ? "True" : "False");
    cluster_patch(k, KUBE_PODS, name, "status", status);
}

static size_t addresses(struct cluster *k, const char *name, const char *list)
{
    const json_t *e = kube_cache_get(k->c->endpoints, "default", name);
    size_t n = 0, i;
    json_t *subset;
    json_array_foreach (json_object_get(e, "subsets"), i, subset)
        n += json_array_size(json_object_get(subset, list));
    return n;
}

// --- tests ---

static void test_connections_reach_the_ready_pods(void **state)
{
    struct cluster k;
    setup(&k);
    int target = free_port("127.64.9.1"), port = free_port("127.96.0.1");
    GS_AUTO_FREE char *target_text = gs_format("%d", target);
    backend_start("127.64.9.1", target);
    backend_start("127.64.9.2", target);
    make_service(&k, "web", "ClusterIP", port, target_text);
    make_pod(&k, "a", "127.64.9.1", target, true);
    make_pod(&k, "b", "127.64.9.2", target, false);
    loop_until(&k.loop, addresses(&k, "web", "addresses") == 1 &&
                            addresses(&k, "web", "notReadyAddresses") == 1);
    loop_until(&k.loop, kube_annotation(service(&k, "web"), LOCAL_ANN_ADDRESS));
    const char *ip = cluster_ip(&k, "web");
    assert_true(gs_starts(ip, "127.96."));
    await_answer(&k, ip, port, "127.64.9.1");
    for (int i = 0; i < 3; i++)
        assert_string_equal(ask(&k, ip, port), "127.64.9.1");
    cluster_patch(&k, KUBE_PODS, "b", "status",
                  "status: {conditions: [{type: Ready, status: 'True'}]}");
    loop_until(&k.loop, addresses(&k, "web", "addresses") == 2);
    await_answer(&k, ip, port, "127.64.9.2");
    bool a = false, b = false;
    for (int i = 0; i < 4; i++) {
        const char *said = ask(&k, ip, port);
        a = a || gs_streq(said, "127.64.9.1");
        b = b || gs_streq(said, "127.64.9.2");
    }
    assert_true(a && b);
    cluster_delete(&k, KUBE_PODS, "default", "a");
    cluster_delete(&k, KUBE_PODS, "default", "b");
    loop_until(&k.loop, addresses(&k, "web", "addresses") == 0);
    await_answer(&k, ip, port, ""); // no endpoints: closed at once
    cluster_delete(&k, KUBE_SERVICES, "default", "web");
    loop_until(&k.loop, !kube_cache_get(k.c->endpoints, "default", "web"));
    loop_for_ms(&k.loop, 50);
    assert_null(ask(&k, "127.96.0.1", port));
    finish(&k);
}

static void test_every_type_has_its_addresses(void **state)
{
    struct cluster k;
    setup(&k);
    int target = free_port("127.64.9.1"), port = free_port("127.97.0.1");
    backend_start("127.64.9.1", target);
    make_pod(&k, "a", "127.64.9.1", target, true);
    make_service(&k, "lb", "LoadBalancer", port, "http"); // by the port's name
    make_service(&k, "np", "NodePort", port, "http");
    loop_until(&k.loop, ingress(&k, "lb") && node_port(&k, "np") &&
                            addresses(&k, "lb", "addresses") == 1 &&
                            addresses(&k, "np", "addresses") == 1);
    loop_for_ms(&k.loop, 50);
    const char *lb = codec_json_str(ingress(&k, "lb"), "ip", NULL);
    assert_true(gs_starts(lb, "127.97."));
    const json_t *shown = json_array_get(json_object_get(ingress(&k, "lb"), "ports"), 0);
    assert_int_equal(codec_json_int(shown, 0, "port", NULL), port);
    GS_AUTO_FREE char *where = gs_format("%s:%d", lb, port);
    assert_string_equal(kube_annotation(service(&k, "lb"), LOCAL_ANN_ADDRESS), where);
    await_answer(&k, lb, port, "127.64.9.1");
    await_answer(&k, cluster_ip(&k, "lb"), port, "127.64.9.1");
    assert_in_range(node_port(&k, "np"), 30000, 32767);
    assert_int_not_equal(node_port(&k, "np"), node_port(&k, "lb"));
    assert_string_not_equal(cluster_ip(&k, "np"), cluster_ip(&k, "lb"));
    await_answer(&k, LOCAL_NODE_IP, (int)node_port(&k, "np"), "127.64.9.1");
    // A service that becomes internal gives its outer address back.
    cluster_patch(&k, KUBE_SERVICES, "lb", NULL, "spec: {type: ClusterIP}");
    loop_until(&k.loop, !ingress(&k, "lb"));
    loop_for_ms(&k.loop, 50);
    assert_null(ask(&k, "127.97.0.1", port));
    finish(&k);
}

static void test_addresses_survive_a_restart(void **state)
{
    struct cluster k;
    setup(&k);
    int port = free_port("127.97.0.1");
    make_service(&k, "one", "LoadBalancer", port, "80");
    make_service(&k, "two", "LoadBalancer", port, "80");
    loop_until(&k.loop, ingress(&k, "one") && ingress(&k, "two"));
    GS_AUTO_FREE char *ip1 = gs_strdup(codec_json_str(ingress(&k, "one"), "ip", NULL));
    GS_AUTO_FREE char *ip2 = gs_strdup(codec_json_str(ingress(&k, "two"), "ip", NULL));
    assert_string_not_equal(ip1, ip2);
    services_free(s);
    cluster_forget(&k);
    cluster_watch(&k);
    s = services_new(k.c);
    make_service(&k, "three", "LoadBalancer", port, "80");
    loop_until(&k.loop, service(&k, "three") && ingress(&k, "three"));
    assert_string_equal(codec_json_str(ingress(&k, "one"), "ip", NULL), ip1);
    assert_string_equal(codec_json_str(ingress(&k, "two"), "ip", NULL), ip2);
    const char *ip3 = codec_json_str(ingress(&k, "three"), "ip", NULL);
    assert_string_not_equal(ip3, ip1);
    assert_string_not_equal(ip3, ip2);
    assert_string_equal(ask(&k, ip1, port), "");
    finish(&k);
}

static void test_a_busy_port_is_moved_and_said(void **state)
{
    struct cluster k;
    setup(&k);
    int port, fd = listen_on("0.0.0.0", 0, &port); // a server of the machine, on all addresses
    while (port + 8000 > 65535) {
        close(fd);
        fd = listen_on("0.0.0.0", 0, &port);
    }
    make_service(&k, "web", "LoadBalancer", port, "80");
    int other = free_port("127.96.0.1");
    make_service(&k, "other", "ClusterIP", other, "80");
    loop_until(&k.loop,
               ingress(&k, "web") && kube_annotation(service(&k, "other"), LOCAL_ANN_ADDRESS));
    const char *ip = codec_json_str(ingress(&k, "web"), "ip", NULL);
    const json_t *shown = json_array_get(json_object_get(ingress(&k, "web"), "ports"), 0);
    assert_int_equal(codec_json_int(shown, 0, "port", NULL), port + 8000);
    assert_string_equal(ask(&k, ip, port + 8000), "");
    assert_true(cluster_event(&k, "PortMoved", "another program of this machine has it"));
    assert_string_equal(ask(&k, cluster_ip(&k, "other"), other), "");
    close(fd);
    finish(&k);
}

// As for an ordinary user, whoever runs the test.
static void test_low_ports_are_one_address_everywhere(void **state)
{
    struct cluster k;
    local_ports_set_first(1024);
    setup(&k);
    backend_start("127.64.9.1", 8080);
    make_pod(&k, "a", "127.64.9.1", 80, true);
    make_service(&k, "web", "LoadBalancer", 80, "http");
    loop_until(&k.loop, ingress(&k, "web") && addresses(&k, "web", "addresses") == 1);
    const json_t *subsets =
        json_object_get(kube_cache_get(k.c->endpoints, "default", "web"), "subsets");
    const json_t *port = json_array_get(json_object_get(json_array_get(subsets, 0), "ports"), 0);
    assert_int_equal(codec_json_int(port, 0, "port", NULL), 8080);
    port = json_array_get(json_object_get(ingress(&k, "web"), "ports"), 0);
    int real = (int)codec_json_int(port, 0, "port", NULL);
    assert_int_equal(real % 8000, 80); // 8080, unless a program of the machine has it
    assert_int_equal(kube_port(service(&k, "web"), 80), real);
    assert_true(cluster_event(&k, "PortMoved", "of port 80: "));
    await_answer(&k, codec_json_str(ingress(&k, "web"), "ip", NULL), real, "127.64.9.1");
    await_answer(&k, cluster_ip(&k, "web"), real, "127.64.9.1");
    finish(&k);
    local_ports_set_first(0);
    (void)state;
}

// Not only the first choice.
static void test_a_moved_port_that_is_busy_moves_on(void **state)
{
    struct cluster k;
    setup(&k);
    int port, first = -1, second = -1;
    do {
        close(first);
        close(second);
        first = listen_on("0.0.0.0", 0, &port);
        second = port + 16000 <= 65535 ? try_listen("0.0.0.0", port + 8000, NULL) : -1;
    } while (second < 0);
    make_service(&k, "web", "LoadBalancer", port, "80");
    loop_until(&k.loop, ingress(&k, "web"));
    assert_int_equal(kube_port(service(&k, "web"), port) % 8000, port % 8000);
    assert_true(kube_port(service(&k, "web"), port) >= port + 16000);
    close(first);
    close(second);
    finish(&k);
    (void)state;
}

static size_t count_node_ports(struct cluster *k, const char *name, bool *used)
{
    size_t i, n = 0;
    json_t *port;
    json_array_foreach (codec_json_get(service(k, name), "spec", "ports", NULL), i, port) {
        int64_t at = codec_json_int(port, 0, "nodePort", NULL) - 30000;
        if (at < 0)
            continue;
        assert_in_range(at, 0, 2767);
        assert_false(used && used[at]);
        if (used)
            used[at] = true;
        n++;
    }
    return n;
}

// The free node ports were searched for again for each port, among all ports of all services.
static void test_many_ports_have_different_node_ports(void **state)
{
    struct cluster k;
    bool used[2768] = {false};
    (void)state;
    setup(&k);
    for (int i = 0; i < 2; i++) {
        GS_AUTO_BUF struct gs_buf yaml = {0};
        gs_buf_addf(&yaml,
                    "{apiVersion: v1, kind: Service, metadata: {name: many-%d}, spec: {type: "
                    "NodePort, selector: {app: web}, ports: [",
                    i);
        for (int p = 0; p < 60; p++)
            gs_buf_addf(&yaml, "%s{name: p%d, port: %d}", p ? ", " : "", p, 9000 + p);
        gs_buf_add_str(&yaml, "]}}");
        cluster_create(&k, KUBE_SERVICES, yaml.data);
    }
    loop_until(&k.loop, count_node_ports(&k, "many-0", NULL) == 60 &&
                            count_node_ports(&k, "many-1", NULL) == 60);
    (void)count_node_ports(&k, "many-0", used);
    (void)count_node_ports(&k, "many-1", used);
    finish(&k);
}

static void test_a_busy_node_port_is_waited_for(void **state)
{
    struct cluster k;
    setup(&k);
    int port = free_port("127.96.0.1"), busy = 30000 + (int)(gs_mono_ns() % 2000), fd;
    while ((fd = try_listen(LOCAL_NODE_IP, busy, NULL)) < 0)
        busy++;
    GS_AUTO_FREE char *yaml = gs_format(
        "{apiVersion: v1, kind: Service, metadata: {name: np}, spec: {type: NodePort, selector: "
        "{app: web}, ports: [{port: %d, nodePort: %d}]}}",
        port, busy);
    cluster_create(&k, KUBE_SERVICES, yaml);
    loop_until(&k.loop, kube_annotation(service(&k, "np"), LOCAL_ANN_ADDRESS));
    loop_for_ms(&k.loop, 50);
    assert_true(cluster_event(&k, "PortBusy", "already in use"));
    assert_string_equal(ask(&k, cluster_ip(&k, "np"), port), ""); // the rest works
    close(fd);
    loop_until(&k.loop, ask(&k, LOCAL_NODE_IP, busy) != NULL);
    finish(&k);
}

static void make_balancer(struct cluster *k, const char *name, int port, const char *ip)
{
    GS_AUTO_FREE char *yaml =
        gs_format("{apiVersion: v1, kind: Service, metadata: {name: %s}, spec: {type: "
                  "LoadBalancer, loadBalancerIP: '%s', ports: [{port: %d}]}}",
                  name, ip, port);
    cluster_create(k, KUBE_SERVICES, yaml);
    loop_until(&k->loop, ingress(k, name));
}

// Not that of a program of the machine, and not that of another service.
static void test_a_wanted_address_is_given_when_it_is_free(void **state)
{
    struct cluster k;
    setup(&k);
    int port = free_port("127.0.0.1");
    make_balancer(&k, "mine", port, "127.97.77.7");
    assert_string_equal(codec_json_str(ingress(&k, "mine"), "ip", NULL), "127.97.77.7");
    static const char *const bad[][2] = {{"machine", "127.0.0.1"},
                                         {"cluster", "127.96.0.1"},
                                         {"taken", "127.97.77.7"},
                                         {"elsewhere", "192.0.2.1"}};
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
        make_balancer(&k, bad[i][0], port, bad[i][1]);
        const char *ip = codec_json_str(ingress(&k, bad[i][0]), "ip", NULL);
        assert_true(gs_starts(ip, "127.97."));
        assert_string_not_equal(ip, "127.97.77.7");
        assert_true(cluster_event(&k, "LoadBalancerIPIgnored", bad[i][1]));
    }
    loop_for_ms(&k.loop, 50);
    assert_null(ask(&k, "127.0.0.1", port));
    finish(&k);
    (void)state;
}

// Whoever writes the status does not choose where we listen.
static void test_an_address_in_the_status_is_checked(void **state)
{
    struct cluster k;
    setup(&k);
    int port = free_port("127.0.0.1");
    make_service(&k, "web", "LoadBalancer", port, "80");
    loop_until(&k.loop, ingress(&k, "web"));
    cluster_patch(&k, KUBE_SERVICES, "web", "status",
                  "status: {loadBalancer: {ingress: [{ip: 127.0.0.1}]}}");
    loop_for_ms(&k.loop, 50);
    loop_until(&k.loop, gs_starts(codec_json_str(ingress(&k, "web"), "ip", NULL), "127.97."));
    assert_null(ask(&k, "127.0.0.1", port));
    finish(&k);
    (void)state;
}

static void test_external_addresses_are_not_served(void **state)
{
    struct cluster k;
    setup(&k);
    cluster_create(&k, KUBE_SERVICES,
                   "{apiVersion: v1, kind: Service, metadata: {name: ext}, spec: {externalIPs: "
                   "[192.0.2.1], ports: [{port: 8000}]}}");
    loop_until(&k.loop, cluster_event(&k, "ExternalIPsNotServed", "not served here"));
    finish(&k);
    (void)state;
}

static void test_headless_and_external_names_get_no_address(void **state)
{
    struct cluster k;
    setup(&k);
    make_pod(&k, "a", "127.64.9.1", 8080, true);
    cluster_create(&k, KUBE_SERVICES,
                   "{apiVersion: v1, kind: Service, metadata: {name: hl}, spec: {clusterIP: None, "
                   "selector: {app: web}, ports: [{port: 80, targetPort: http}]}}");
    cluster_create(&k, KUBE_SERVICES,
                   "{apiVersion: v1, kind: Service, metadata: {name: ext}, spec: {type: "
                   "ExternalName, externalName: example.com}}");
    loop_until(&k.loop, addresses(&k, "hl", "addresses") == 1);
    loop_for_ms(&k.loop, 50);
    assert_string_equal(cluster_ip(&k, "hl"), "None");
    assert_null(kube_annotation(service(&k, "hl"), LOCAL_ANN_ADDRESS));
    const char *ip = cluster_ip(&k, "ext");
    assert_true(!ip || !*ip);
    finish(&k);
}

static void test_endpoints_of_others_are_used_as_they_are(void **state)
{
    struct cluster k;
    setup(&k);
    int target, port = free_port("127.96.0.1");
    int fd = listen_on("127.0.0.1", 0, &target);
    close(fd);
    backend_start("127.0.0.1", target);
    GS_AUTO_FREE char *yaml = gs_format(
        "{apiVersion: v1, kind: Service, metadata: {name: db}, spec: {ports: [{port: %d}]}}", port);
    GS_AUTO_FREE char *endpoints = gs_format(
        "{apiVersion: v1, kind: Endpoints, metadata: {name: db}, subsets: [{addresses: [{ip: "
        "127.0.0.1}], ports: [{port: %d}]}]}",
        target);
    cluster_create(&k, KUBE_SERVICES, yaml);
    cluster_create(&k, KUBE_ENDPOINTS, endpoints);
    loop_until(&k.loop, kube_annotation(service(&k, "db"), LOCAL_ANN_ADDRESS) &&
                            addresses(&k, "db", "addresses") == 1);
    loop_for_ms(&k.loop, 50);
    assert_string_equal(ask(&k, cluster_ip(&k, "db"), port), "127.0.0.1");
    cluster_delete(&k, KUBE_SERVICES, "default", "db");
    loop_for_ms(&k.loop, 100);
    assert_int_equal(addresses(&k, "db", "addresses"), 1); // not ours to delete
    finish(&k);
}

// The port of a pod moves for an ordinary user, and the slice has the declared one.
// A port below 1024 whose moved one no other program uses: 8080 is popular.
static int low_port(const char *ip)
{
    for (int port = 80; port < 1024; port++) {
        int fd = try_listen(ip, port + LOCAL_PORT_SHIFT, NULL);
        if (fd < 0)
            continue;
        close(fd);
        return port;
    }
    fail_msg("no free port");
    return 0;
}

static void test_a_low_port_in_a_slice_of_others_is_the_moved_one(void **state)
{
    struct cluster k;
    local_ports_set_first(1024);
    setup(&k);
    int port = free_port("127.96.0.1"), low = low_port("127.64.9.1");
    backend_start("127.64.9.1", low + LOCAL_PORT_SHIFT);
    GS_AUTO_FREE char *yaml = gs_format(
        "{apiVersion: v1, kind: Service, metadata: {name: db}, spec: {ports: [{port: %d}]}}", port);
    cluster_create(&k, KUBE_SERVICES, yaml);
    GS_AUTO_FREE char *slice =
        gs_format("{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, "
                  "metadata: {name: db-1, labels: {kubernetes.io/service-name: db, "
                  "endpointslice.kubernetes.io/managed-by: test}}, endpoints: [{addresses: "
                  "[127.64.9.1]}], ports: [{name: '', port: %d}]}",
                  low);
    cluster_create(&k, KUBE_GVR(KUBE_RESOURCE_ENDPOINTSLICES), slice);
    loop_until(&k.loop, kube_annotation(service(&k, "db"), LOCAL_ANN_ADDRESS));
    await_answer(&k, cluster_ip(&k, "db"), port, "127.64.9.1");
    finish(&k);
    local_ports_set_first(0);
    (void)state;
}

static void test_changed_ports_are_followed(void **state)
{
    struct cluster k;
    setup(&k);
    int first = free_port("127.96.0.1"), second = free_port("127.96.0.1");
    make_service(&k, "web", "ClusterIP", first, "80");
    loop_until(&k.loop, kube_annotation(service(&k, "web"), LOCAL_ANN_ADDRESS));
    assert_string_equal(ask(&k, cluster_ip(&k, "web"), first), "");
    GS_AUTO_FREE char *patch = gs_format("spec: {ports: [{port: %d, targetPort: 80}]}", second);
    cluster_patch(&k, KUBE_SERVICES, "web", NULL, patch);
    GS_AUTO_FREE char *where = gs_format("%s:%d", cluster_ip(&k, "web"), second);
    loop_until(&k.loop, gs_streq(kube_annotation(service(&k, "web"), LOCAL_ANN_ADDRESS), where));
    assert_string_equal(ask(&k, cluster_ip(&k, "web"), second), "");
    assert_null(ask(&k, cluster_ip(&k, "web"), first));
    finish(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connections_reach_the_ready_pods),
        cmocka_unit_test(test_every_type_has_its_addresses),
        cmocka_unit_test(test_addresses_survive_a_restart),
        cmocka_unit_test(test_a_busy_port_is_moved_and_said),
        cmocka_unit_test(test_low_ports_are_one_address_everywhere),
        cmocka_unit_test(test_a_moved_port_that_is_busy_moves_on),
        cmocka_unit_test(test_many_ports_have_different_node_ports),
        cmocka_unit_test(test_a_busy_node_port_is_waited_for),
        cmocka_unit_test(test_a_wanted_address_is_given_when_it_is_free),
        cmocka_unit_test(test_an_address_in_the_status_is_checked),
        cmocka_unit_test(test_external_addresses_are_not_served),
        cmocka_unit_test(test_headless_and_external_names_get_no_address),
        cmocka_unit_test(test_endpoints_of_others_are_used_as_they_are),
        cmocka_unit_test(test_a_low_port_in_a_slice_of_others_is_the_moved_one),
        cmocka_unit_test(test_changed_ports_are_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
