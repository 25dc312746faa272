// SPDX-License-Identifier: Apache-2.0
// Stand-ins on the embedded API: real processes of containers (forked from this test), real
// sockets, and programs of this machine that are scripts of the test.
#include "base/file.h"
#include "base/mem.h"
#include "cluster_harness.h"
#include "codec/encoding.h"
#include "local/ports.h"
#include "local/services.h"
#include "local/standin/standin.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define POD_IP  "127.64.9.1" // the first of the harness
#define UP_TEXT "the tests"

static struct cluster k;
static struct local_services *services;
static struct standin_server *server;
static struct tls_pair ca;
static char dir[64], *socket_path;
static unsigned reloads;

// --- the parts of `up` ---

static void serve_web(void *ctx, struct http_exchange *x)
{
    http_reply_text(x, 200, "web %s", http_target(x));
}

static void write_kube_state(void *arg, struct gs_buf *out)
{
    gs_buf_add_str(out, "kube_pod_info 1\n");
}

static void write_autoscaler(void *arg, struct gs_buf *out)
{
    gs_buf_add_str(out, "cluster_autoscaler_nodes_count 1\n");
}

static void reload(void *arg)
{
    reloads++;
}

// The engine of the tests: one connection at a time, whose first bytes are answered.
static int engine_fd;
static uint16_t engine_port;

static void start_engine(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    engine_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(engine_fd, (struct sockaddr *)&at, len), 0);
    assert_int_equal(listen(engine_fd, 8), 0);
    getsockname(engine_fd, (struct sockaddr *)&at, &len);
    engine_port = ntohs(at.sin_port);
}

static void serve_engine(void)
{
    static const char reply[] = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\n"
                                "engine";
    static int c = -1;
    char bytes[1024];
    if (c < 0)
        c = accept4(engine_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (c < 0 || (read(c, bytes, sizeof(bytes)) < 0 && errno == EAGAIN))
        return;
    assert_true(write(c, reply, sizeof(reply) - 1) > 0);
    close(c);
    c = -1;
}

// --- set-up ---

static void make_script(const char *name, const char *text)
{
    GS_AUTO_FREE char *path = gs_format("%s/%s", dir, name);
    assert_ok(gs_file_write_atomic(path, 0755, gs_slice_of(text)));
}

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/gpuscale-standin-XXXXXX");
    assert_non_null(mkdtemp(dir));
    socket_path = gs_format("%s/" LOCAL_STANDIN_SOCKET, dir);
    reloads = 0;
    cluster_open(&k);
    services = services_new(k.c);
    start_engine();
    assert_ok(tls_make_ca("test", 10, &ca));
    make_script("self", "#!/bin/sh\necho self \"$@\"\n");
    GS_AUTO_FREE char *path = gs_format("%s:/usr/bin:/bin", dir);
    setenv("PATH", path, 1);
    static char self[96];
    snprintf(self, sizeof(self), "%s/self", dir);
    const struct standin_config cfg = {
        .cluster = k.c,
        .services = services,
        .socket_path = socket_path,
        .self_exe = self,
        .ca = &ca,
        .api_server = {.bearer_token = "secret", .require_identity = true},
        .api = {local_api_handle, k.api},
        .web = {serve_web, NULL},
        .engine_port = engine_port,
        .write_kube_state = write_kube_state,
        .write_autoscaler = write_autoscaler,
        .reload = reload};
    assert_ok(standin_server_new(&cfg, &server));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    standin_server_free(server);
    services_free(services);
    cluster_close(&k);
    close(engine_fd);
    tls_pair_finish(&ca);
    free(socket_path);
    gs_remove_tree(dir);
    return 0;
}

// --- processes ---

struct process {
    pid_t pid;
    int fd; // its output
    struct gs_buf output;
    int status; // -1: it runs
};

// The words after the role end with NULL.
static void start(struct process *p, const char *pod, const char *container, const char *role, ...)
{
    int ends[2];
    char *argv[32] = {(char *)(uintptr_t) "pod-standin", (char *)(uintptr_t)role};
    int argc = 2;
    va_list ap;
    va_start(ap, role);
    for (char *word; (word = va_arg(ap, char *));)
        argv[argc++] = word;
    va_end(ap);
    const json_t *object = kube_cache_get(k.c->pods, "default", pod);
    const char *uid = kube_uid(object);
    *p = (struct process){.status = -1};
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    p->pid = fork();
    assert_true(p->pid >= 0);
    if (p->pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        setenv(LOCAL_ENV_STANDIN_SOCKET, socket_path, 1);
        setenv(LOCAL_ENV_STANDIN_IMAGE, "quay.io/x/y:1", 1);
        setenv(LOCAL_ENV_STANDIN_TEXT, UP_TEXT, 1);
        setenv(LOCAL_ENV_POD_NS, "default", 1);
        setenv(LOCAL_ENV_POD_NAME, pod, 1);
        setenv(LOCAL_ENV_POD_UID, uid ? uid : "unknown", 1);
        setenv(LOCAL_ENV_CONTAINER, container, 1);
        setenv(LOCAL_ENV_POD_IP, POD_IP, 1);
        _exit(standin_main(argc, argv));
    }
    close(ends[1]);
    p->fd = ends[0];
    fcntl(p->fd, F_SETFL, O_NONBLOCK);
}

static bool read_output(struct process *p)
{
    char chunk[4096];
    ssize_t n;
    while ((n = read(p->fd, chunk, sizeof(chunk))) > 0)
        gs_buf_add(&p->output, chunk, (size_t)n);
    return n == 0;
}

static bool says(struct process *p, const char *text)
{
    read_output(p);
    return p->output.len && strstr(p->output.data, text);
}

static bool ended(struct process *p)
{
    int status;
    if (!read_output(p))
        return false;
    if (p->status < 0 && waitpid(p->pid, &status, 0) == p->pid)
        p->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    return true;
}

static void finish(struct process *p)
{
    if (p->status < 0) {
        kill(p->pid, SIGTERM);
        waitpid(p->pid, NULL, 0);
    }
    close(p->fd);
    gs_buf_finish(&p->output);
}

static int run_to_end(struct process *p)
{
    loop_until(&k.loop, ended(p));
    return p->status;
}

static void make_pod(const char *name, const char *more)
{
    GS_AUTO_FREE char *yaml =
        gs_format("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, labels: {app: web}}\n"
                  "spec:\n  containers:\n  - name: main\n    image: quay.io/x/y:1\n%s\n",
                  name, more);
    cluster_create(&k, KUBE_PODS, yaml);
    loop_until(&k.loop, kube_cache_get(k.c->pods, "default", name));
}

// --- requests ---

struct call {
    bool done;
    int status;
    struct gs_buf body;
    char location[64];
};

static void on_reply(void *arg, const struct http_response *r, struct gs_error *err)
{
    struct call *c = arg;
    c->done = true;
    c->status = err ? 0 : r->status;
    if (!err) {
        gs_buf_add_slice(&c->body, r->body);
        struct gs_slice to = http_response_header(r, "location");
        snprintf(c->location, sizeof(c->location), GS_SLICE_FMT, GS_SLICE_ARG(to));
    }
    gs_error_free(err);
}

// base: "http://" or "https://". Repeated until the port listens.
static void request(struct call *c, const char *base, int port, const char *method,
                    const char *path, const char *token, const char *body)
{
    static const struct http_callbacks callbacks = {.on_done = on_reply};
    GS_AUTO_FREE char *url = gs_format("%s" POD_IP ":%d", base, port);
    GS_AUTO_FREE char *bearer = gs_format("Bearer %s", token ? token : "");
    const struct http_header headers[] = {{token ? "Authorization" : NULL, bearer}, {0}};
    const struct http_client_config cfg = {.base_url = url, .ca_pem = ca.cert_pem, .proxy = ""};
    const struct http_request r = {.method = method,
                                   .path = path,
                                   .headers = headers,
                                   .body = gs_slice_of(body),
                                   .keep_headers = true};
    struct http_client *client = NULL;
    assert_ok(http_client_new_curl(&k.loop, &cfg, &client));
    *c = (struct call){0};
    for (int64_t end = gs_mono_ns() + WAIT_NS; !c->status && gs_mono_ns() < end;) {
        c->done = false;
        http_send(client, &r, &callbacks, c);
        loop_until(&k.loop, (serve_engine(), c->done));
    }
    http_client_free(client);
    gs_buf_add(&c->body, "", 0);
}

static void assert_reply(const char *base, int port, const char *path, int status, const char *text)
{
    struct call c;
    request(&c, base, port, NULL, path, NULL, NULL);
    assert_int_equal(c.status, status);
    if (!c.body.data || !strstr(c.body.data, text))
        fail_msg("%s: \"%s\" does not contain \"%s\"", path, c.body.data ? c.body.data : "", text);
    gs_buf_finish(&c.body);
}

static bool listens(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    inet_pton(AF_INET, POD_IP, &to.sin_addr);
    bool is = connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0;
    close(fd);
    return is;
}

// --- tests ---

static void test_the_first_line_names_the_image(void **state)
{
    struct process p;
    make_pod("a", "");
    start(&p, "a", "main", "sleep", NULL);
    loop_until(&k.loop, says(&p, "gpuscale: this container is not quay.io/x/y:1; " UP_TEXT
                                 " runs in its place (docs/up.md#stand-ins)\n"));
    finish(&p);
}

static void test_the_port_of_prometheus_is_the_engine(void **state)
{
    struct process p;
    make_pod("prom", "    ports: [{containerPort: 19090}]");
    start(&p, "prom", "main", "prometheus", NULL);
    assert_reply("http://", 19090, "/", 200, "engine");
    finish(&p);
}

static void test_ports_close_with_the_process(void **state)
{
    struct process p;
    make_pod("a", "    ports: [{containerPort: 18080}]");
    start(&p, "a", "main", "kube-state-metrics", NULL);
    loop_until(&k.loop, listens(18080));
    kill(p.pid, SIGTERM);
    loop_until(&k.loop, ended(&p));
    loop_until(&k.loop, !listens(18080));
    finish(&p);
}

// A container with a configuration of its own does not get the engine of `up`.
static void test_a_prometheus_of_the_user_runs_with_its_arguments(void **state)
{
    struct process p;
    make_pod("mine", "");
    start(&p, "mine", "main", "prometheus", "--config.file=/x.yml", "--web.enable-lifecycle", NULL);
    assert_int_equal(run_to_end(&p), 0);
    assert_true(says(&p, "self engine --config.file=/x.yml --web.enable-lifecycle\n"));
    finish(&p);
}

static void test_health_metrics_and_unknown_paths(void **state)
{
    struct process p;
    make_pod("ksm", "    ports: [{containerPort: 18080}, {containerPort: 8081}]\n"
                    "    readinessProbe: {httpGet: {path: /own, port: 18080}}");
    start(&p, "ksm", "main", "kube-state-metrics", "--port=18080", NULL);
    assert_reply("http://", 18080, "/healthz", 200, "ok");
    assert_reply("http://", 18080, "/own", 200, "ok");
    assert_reply("http://", 18080, "/metrics", 200, "kube_pod_info 1");
    assert_reply("http://", 8081, "/metrics", 200,
                 "gpuscale_standin_info{role=\"kube-state-metrics\"} 1");
    assert_reply("http://", 8081, "/nothing", 404, "does not have the path /nothing");
    struct call c;
    request(&c, "http://", 8081, NULL, "/metrics", NULL, NULL);
    assert_null(strstr(c.body.data, "kube_pod_info"));
    gs_buf_finish(&c.body);
    finish(&p);
}

static void test_https_has_a_certificate_of_the_services(void **state)
{
    struct process p;
    cluster_create(&k, KUBE_SERVICES,
                   "apiVersion: v1\nkind: Service\nmetadata: {name: metrics}\n"
                   "spec: {selector: {app: web}, ports: [{port: 443}]}");
    make_pod("ms", "    ports: [{containerPort: 10250}]\n"
                   "    readinessProbe: {httpGet: {path: /readyz, port: 10250, scheme: HTTPS}}");
    start(&p, "ms", "main", "metrics-server", "--secure-port=10250", "--metric-resolution=15s",
          NULL);
    assert_reply("https://", 10250, "/readyz", 200, "ok"); // the client checks the address
    loop_until(&k.loop, says(&p, "--metric-resolution=15s is not used"));
    struct call c;
    request(&c, "https://", 10250, NULL, "/apis", NULL, NULL);
    assert_int_equal(c.status, 401);
    gs_buf_finish(&c.body);
    request(&c, "https://", 10250, NULL, "/apis", "secret", NULL);
    assert_int_equal(c.status, 200);
    assert_non_null(strstr(c.body.data, "APIGroupList"));
    gs_buf_finish(&c.body);
    finish(&p);
}

static void test_apis_need_users_without_https_too(void **state)
{
    struct process p;
    make_pod("plain", "    ports: [{containerPort: 18080}]");
    start(&p, "plain", "main", "metrics-server", NULL);
    assert_reply("http://", 18080, "/api", 401, "Unauthorized");
    assert_reply("http://", 18080, "/apis/apps/v1/deployments", 401, "Unauthorized");
    finish(&p);
}

static void test_a_proxy_passes_requests_of_users_on(void **state)
{
    struct process p;
    struct services_tunnel *tunnel = NULL;
    GS_AUTO_FREE char *upstream = gs_format("--upstream=http://127.0.0.1:%d/", engine_port);
    make_pod("p", "    ports: [{containerPort: 18443}]");
    start(&p, "p", "main", "kube-rbac-proxy", "--secure-listen-address=0.0.0.0:18443", upstream,
          NULL);
    assert_ok(services_tunnel_open(services, POD_IP, engine_port, engine_port, &tunnel));
    struct call c;
    request(&c, "https://", 18443, NULL, "/metrics", NULL, NULL);
    assert_int_equal(c.status, 401);
    gs_buf_finish(&c.body);
    request(&c, "https://", 18443, NULL, "/metrics", "secret", NULL);
    assert_int_equal(c.status, 200);
    assert_string_equal(c.body.data, "engine");
    gs_buf_finish(&c.body);
    services_tunnel_close(tunnel);
    finish(&p);
}

static void test_https_uses_the_files_of_the_arguments(void **state)
{
    struct process p;
    static const char *const names[] = {"localhost"};
    static const char *const addresses[] = {POD_IP};
    struct tls_pair leaf = {0}, other = {0};
    const struct tls_leaf spec = {.common_name = "x",
                                  .dns_names = names,
                                  .n_dns_names = 1,
                                  .ip_addresses = addresses,
                                  .n_ip_addresses = 1,
                                  .server = 1,
                                  .days = 1};
    assert_ok(tls_make_ca("other", 10, &other));
    assert_ok(tls_make_leaf(&other, &spec, &leaf));
    GS_AUTO_FREE char *cert = gs_format("%s/cert", dir), *key = gs_format("%s/key", dir);
    GS_AUTO_FREE char *cert_flag = gs_format("--web.cert-file=%s", cert);
    assert_ok(gs_file_write_atomic(cert, 0600, gs_slice_of(leaf.cert_pem)));
    assert_ok(gs_file_write_atomic(key, 0600, gs_slice_of(leaf.key_pem)));
    make_pod("op", "    ports: [{containerPort: 10250}]");
    start(&p, "op", "main", "prometheus-operator", "--web.enable-tls=true", cert_flag,
          "--web.key-file", key, "--web.listen-address=:10250", NULL);
    tls_pair_finish(&ca);
    ca = other; // what the client trusts
    assert_reply("https://", 10250, "/healthz", 200, "ok");
    tls_pair_finish(&leaf);
    finish(&p);
}

static void test_the_reloader_reloads(void **state)
{
    struct process p;
    struct call c;
    make_pod("r", "    ports: [{containerPort: 18080}]");
    start(&p, "r", "main", "config-reloader", NULL);
    request(&c, "http://", 18080, "POST", "/-/reload", NULL, "");
    assert_int_equal(c.status, 200);
    assert_int_equal(reloads, 1);
    gs_buf_finish(&c.body);
    assert_reply("http://", 18080, "/-/reload", 405, "Method Not Allowed");
    assert_int_equal(reloads, 1);
    finish(&p);
}

static const char print_arguments[] =
    "#!/bin/sh\n"
    "if [ \"$1\" = --help ]; then echo '  --config.file=X --web.listen-address=:9093 "
    "--cluster.listen-address=X --path.procfs=/proc --[no-]collector.new --collector.old'; exit; "
    "fi\n"
    "for a; do echo \"arg $a\"; done\n";

// Alertmanager in the pod is called when its Secret changes; the engine follows by itself.
static void test_other_programs_of_the_pod_are_reloaded(void **state)
{
    struct process p;
    GS_AUTO_FREE char *watched = gs_format("--watched-dir=%s/config", dir);
    GS_AUTO_FREE char *url = gs_format("--reload-url=http://127.0.0.1:%d/-/reload", engine_port);
    GS_AUTO_FREE char *folder = gs_format("%s/config", dir);
    GS_AUTO_FREE char *said = gs_format("POST http://" POD_IP ":%d/-/reload: 200", engine_port);
    assert_ok(gs_mkdir_p(folder, 0700));
    make_pod("am", "");
    start(&p, "am", "main", "config-reloader", url, watched, NULL);
    // The engine of the test listens at the pod's address, too.
    struct services_tunnel *tunnel = NULL;
    assert_ok(services_tunnel_open(services, POD_IP, engine_port, engine_port, &tunnel));
    // A change before the process watches has no effect.
    loop_until(&k.loop,
               (make_script("config/alertmanager.yaml", "a: 1"), serve_engine(), says(&p, said)));
    assert_int_equal(reloads, 0);
    services_tunnel_close(tunnel);
    finish(&p);
}

static void create_map(const char *name, const char *key, const char *value)
{
    GS_AUTO_FREE char *yaml = gs_format("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, "
                                        "labels: {dash: '1'}}\ndata: {%s: '%s'}\n",
                                        name, key, value);
    cluster_create(&k, KUBE_CONFIGMAPS, yaml);
}

static bool file_is(const char *name, const char *text)
{
    GS_AUTO_FREE char *path = gs_format("%s/%s", dir, name);
    GS_AUTO_BUF struct gs_buf content = {0};
    GS_AUTO_ERROR struct gs_error *err = gs_file_read(path, 1000, &content);
    return text ? !err && gs_streq(content.data, text) : err && gs_error_code(err) == GS_ENOTFOUND;
}

static void test_the_sidecar_writes_files_for_grafana(void **state)
{
    struct process p;
    GS_AUTO_FREE char *folder = gs_format("%s/dashboards", dir);
    make_script("grafana", print_arguments);
    make_pod("g", "");
    create_map("one", "a.json", "x");
    setenv("LABEL", "dash", 1);
    setenv("LABEL_VALUE", "1", 1);
    setenv("FOLDER", folder, 1);
    start(&p, "g", "main", "k8s-sidecar", NULL);
    loop_until(&k.loop, file_is("dashboards/a.json", "x"));
    create_map("two", "b.json", "y");
    loop_until(&k.loop, file_is("dashboards/b.json", "y"));
    cluster_patch(&k, KUBE_CONFIGMAPS, "one", NULL, "data: {a.json: z}");
    loop_until(&k.loop, file_is("dashboards/a.json", "z"));
    cluster_delete(&k, KUBE_CONFIGMAPS, "default", "two");
    loop_until(&k.loop, file_is("dashboards/b.json", NULL));
    finish(&p);
    setenv("METHOD", "LIST", 1); // as an init container
    start(&p, "g", "main", "k8s-sidecar", NULL);
    assert_int_equal(run_to_end(&p), 0);
    finish(&p);
    unsetenv("LABEL");
    unsetenv("LABEL_VALUE");
    unsetenv("FOLDER");
    unsetenv("METHOD");
}

static void test_init_containers_end(void **state)
{
    static const char *const roles[] = {"config-reloader", "sleep", "device-plugin", "k8s-sidecar"};
    make_pod("i", "  initContainers: [{name: first, image: quay.io/x/y:1}]");
    for (size_t i = 0; i < GS_ARRAY_LEN(roles); i++) {
        struct process p;
        start(&p, "i", "first", roles[i], NULL);
        assert_int_equal(run_to_end(&p), 0);
        finish(&p);
    }
}

static json_t *get(struct kube_gvr gvr, const char *ns, const char *name)
{
    kube_get(k.client, gvr, ns, name, NULL, call_took, &k);
    return await(&k) == 200 ? k.body : NULL;
}

#define SECRETS  KUBE_GVR(KUBE_RESOURCE_SECRETS)
#define WEBHOOKS KUBE_GVR(KUBE_RESOURCE_VALIDATINGWEBHOOKCONFIGURATIONS)

static void create_webhook(void)
{
    CODEC_AUTO_JSON json_t *hook =
        json_pack("{s:s, s:s, s:{s:s}, s:[{s:s, s:{s:{s:s, s:s}}, s:[s], s:s, s:s}]}", "apiVersion",
                  "admissionregistration.k8s.io/v1", "kind", "ValidatingWebhookConfiguration",
                  "metadata", "name", "hooks", "webhooks", "name", "a.example.com", "clientConfig",
                  "service", "name", "svc", "namespace", "default", "admissionReviewVersions", "v1",
                  "sideEffects", "None", "failurePolicy", "Ignore");
    kube_create(k.client, WEBHOOKS, NULL, hook, call_took, &k);
    assert_int_equal(await(&k), 201);
}

static const json_t *first_webhook(const json_t *configuration)
{
    return json_array_get(json_object_get(configuration, "webhooks"), 0);
}

static void test_certgen_creates_a_secret_once_and_patches(void **state)
{
    struct process p;
    make_pod("job", "");
    start(&p, "job", "main", "certgen", "create", "--host=svc,svc.default.svc",
          "--namespace=", "--secret-name=s", NULL);
    assert_int_equal(run_to_end(&p), 0);
    assert_true(says(&p, "creating new secret"));
    finish(&p);
    const json_t *secret = get(SECRETS, "default", "s");
    GS_AUTO_FREE char *first = gs_strdup(codec_json_str(secret, "data", "ca", NULL));
    GS_AUTO_BUF struct gs_buf cert = {0}, key = {0};
    assert_ok(
        codec_base64_decode(gs_slice_of(codec_json_str(secret, "data", "cert", NULL)), &cert));
    assert_ok(codec_base64_decode(gs_slice_of(codec_json_str(secret, "data", "key", NULL)), &key));
    assert_ok(tls_check_pair(cert.data, key.data));

    start(&p, "job", "main", "certgen", "create", "--host=svc", "--secret-name", "s", NULL);
    assert_int_equal(run_to_end(&p), 0);
    assert_true(says(&p, "secret already exists"));
    finish(&p);
    assert_string_equal(codec_json_str(get(SECRETS, "default", "s"), "data", "ca", NULL), first);

    create_webhook();
    start(&p, "job", "main", "certgen", "patch", "--webhook-name=hooks", "--secret-name=s",
          "--patch-mutating=false", "--patch-failure-policy=", NULL);
    assert_int_equal(run_to_end(&p), 0);
    assert_true(says(&p, "successfully patched webhooks"));
    finish(&p);
    const json_t *hook = first_webhook(get(WEBHOOKS, NULL, "hooks"));
    assert_string_equal(codec_json_str(hook, "clientConfig", "caBundle", NULL), first);
    assert_string_equal(codec_json_str(hook, "failurePolicy", NULL), "Ignore");

    start(&p, "job", "main", "certgen", "patch", "--webhook-name=hooks", "--secret-name=s",
          "--patch-failure-policy=Fail", NULL); // there is no mutating one
    assert_int_equal(run_to_end(&p), 1);
    finish(&p);
    start(&p, "job", "main", "certgen", "patch", "--webhook-name=hooks", "--secret-name=s",
          "--patch-mutating=false", "--patch-failure-policy=Fail", NULL);
    assert_int_equal(run_to_end(&p), 0);
    finish(&p);
    hook = first_webhook(get(WEBHOOKS, NULL, "hooks"));
    assert_string_equal(codec_json_str(hook, "failurePolicy", NULL), "Fail");
}

static void test_a_wrong_certgen_fails(void **state)
{
    struct process p;
    make_pod("job", "");
    start(&p, "job", "main", "certgen", "remove", NULL);
    assert_int_equal(run_to_end(&p), 1);
    assert_true(says(&p, "\"remove\" is neither create nor patch"));
    finish(&p);
    start(&p, "job", "main", "certgen", "create", "--secret-name=s", NULL);
    assert_int_equal(run_to_end(&p), 1);
    assert_true(says(&p, "--host is not given"));
    finish(&p);
    start(&p, "job", "main", "certgen", "patch", "--secret-name=absent", NULL);
    assert_int_equal(run_to_end(&p), 1);
    finish(&p);
}

static void test_alertmanager_is_the_program_of_this_machine(void **state)
{
    struct process p;
    make_script("prometheus-alertmanager", print_arguments);
    make_pod("am", "");
    start(&p, "am", "main", "alertmanager", "--config.file=/a.yml", "--web.listen-address=:19093",
          "--cluster.listen-address=", "--log.future=1", NULL);
    assert_int_equal(run_to_end(&p), 0);
    assert_true(says(&p, "arg --config.file=/a.yml\n"));
    assert_true(says(&p, "arg --web.listen-address=" POD_IP ":19093\n"));
    assert_true(says(&p, "arg --cluster.listen-address=\n"));
    assert_false(says(&p, "arg --web.listen-address=:19093"));
    assert_false(says(&p, "arg --log.future=1"));
    assert_true(says(&p, "gpuscale: --log.future=1 is not used"));
    finish(&p);
    start(&p, "am", "main", "alertmanager", "--config.file=/a.yml", "--cluster.listen-address",
          "[1.2.3.4]:19094", NULL);
    assert_int_equal(run_to_end(&p), 0);
    assert_true(says(&p, "arg --cluster.listen-address=" POD_IP ":19094\n"));
    assert_true(says(&p, "arg --web.listen-address=" POD_IP ":9093\n"));
    finish(&p);
}

static void test_node_exporter_reads_the_machine_where_nothing_is_mounted(void **state)
{
    struct process p;
    GS_AUTO_FREE char *there = gs_format("--path.procfs=%s", dir);
    make_script("prometheus-node-exporter", print_arguments);
    make_pod("ne", "");
    start(&p, "ne", "main", "node-exporter", "--path.procfs=/host/proc", "--no-collector.new",
          "--no-collector.old", "--collector.older", "--web.listen-address=[0.0.0.0]:19100", NULL);
    assert_int_equal(run_to_end(&p), 0);
    assert_true(says(&p, "arg --path.procfs=/proc\n"));
    assert_true(says(&p, "arg --no-collector.new\narg --no-collector.old\n"));
    assert_true(says(&p, "gpuscale: --collector.older is not used"));
    assert_true(says(&p, "arg --web.listen-address=" POD_IP ":19100\n"));
    finish(&p);
    start(&p, "ne", "main", "node-exporter", there, NULL);
    assert_int_equal(run_to_end(&p), 0);
    GS_AUTO_FREE char *kept = gs_format("arg %s\n", there);
    assert_true(says(&p, kept));
    finish(&p);
}

// Other folders of PATH may have the program.
static void hide_programs(void)
{
    setenv("PATH", dir, 1);
}

static void test_a_missing_program_is_reported(void **state)
{
    struct process p;
    hide_programs();
    make_pod("am", "    ports: [{containerPort: 19093}]");
    start(&p, "am", "main", "alertmanager", NULL);
    loop_until(&k.loop, says(&p, "prometheus-alertmanager is not installed: apt-get install"));
    loop_until(&k.loop, cluster_event(&k, "NotInstalled", "apt-get install prometheus-alertm"));
    assert_false(listens(19093));
    finish(&p);
    start(&p, "am", "main", "node-exporter", NULL);
    loop_until(&k.loop, says(&p, "prometheus-node-exporter is not installed"));
    assert_reply("http://", 19093, "/metrics", 200, "gpuscale_standin_info");
    finish(&p);
}

static void test_webhooks_admit_and_convert(void **state)
{
    struct process p;
    struct call c;
    make_pod("op", "    ports: [{containerPort: 18080}]");
    start(&p, "op", "main", "prometheus-operator", NULL);
    request(&c, "http://", 18080, "POST", "/admission-prometheusrules/validate", NULL,
            "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\","
            "\"request\":{\"uid\":\"u1\"}}");
    assert_string_equal(c.body.data,
                        "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\","
                        "\"response\":{\"uid\":\"u1\",\"allowed\":true}}");
    gs_buf_finish(&c.body);
    request(&c, "http://", 18080, "POST", "/convert", NULL,
            "{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"ConversionReview\","
            "\"request\":{\"uid\":\"u2\",\"desiredAPIVersion\":\"g/v2\","
            "\"objects\":[{\"apiVersion\":\"g/v1\",\"x\":1}]}}");
    assert_non_null(strstr(c.body.data, "\"convertedObjects\":[{\"apiVersion\":\"g/v2\",\"x\":1}],"
                                        "\"result\":{\"status\":\"Success\"}"));
    gs_buf_finish(&c.body);
    request(&c, "http://", 18080, "POST", "/convert", NULL, "{}");
    assert_int_equal(c.status, 400);
    gs_buf_finish(&c.body);
    finish(&p);
}

static void test_grafana_without_grafana_is_the_web_interface(void **state)
{
    struct process p;
    struct call c;
    hide_programs();
    make_pod("g", "    ports: [{containerPort: 3000}]");
    start(&p, "g", "main", "grafana", NULL);
    assert_reply("http://", 3000, "/api/health", 200, "\"database\":\"ok\"");
    assert_reply("http://", 3000, "/dashboards/view?name=a", 200, "web /dashboards/view?name=a");
    assert_reply("http://", 3000, "/metrics", 200, "gpuscale_standin_info{role=\"grafana\"} 1");
    request(&c, "http://", 3000, NULL, "/login", NULL, NULL);
    assert_int_equal(c.status, 302);
    assert_string_equal(c.location, "/");
    gs_buf_finish(&c.body);
    request(&c, "http://", 3000, NULL, "/", NULL, NULL);
    assert_string_equal(c.location, "/dashboards");
    gs_buf_finish(&c.body);
    finish(&p);
}

static void test_grafana_of_this_machine_runs(void **state)
{
    struct process p;
    make_script("grafana", print_arguments);
    make_pod("g", "    ports: [{containerPort: 3000}]");
    start(&p, "g", "main", "grafana", NULL);
    assert_int_equal(run_to_end(&p), 0);
    assert_true(says(&p, "arg server\n"));
    assert_true(says(&p, "arg cfg:server.http_addr=" POD_IP "\n"));
    finish(&p);
}

static void test_parts_of_a_gpu_operator(void **state)
{
    struct process p;
    cluster_node(&k, "3");
    make_pod("o", "    ports: [{containerPort: 8085}]\n  nodeName: node-1");
    start(&p, "o", "main", "device-plugin", NULL);
    loop_until(&k.loop, says(&p, "with Kubelet: built in, 3 devices"));
    finish(&p);
    start(&p, "o", "main", "nfd", "nfd-master", "-prune", NULL);
    assert_int_equal(run_to_end(&p), 0);
    finish(&p);
    start(&p, "o", "main", "gpu-operator", "/usr/bin/manage-crds", "apply", NULL);
    assert_int_equal(run_to_end(&p), 0);
    finish(&p);
    start(&p, "o", "main", "cluster-autoscaler", "./cluster-autoscaler", "--nodes=1:2:x", NULL);
    assert_reply("http://", 8085, "/health-check", 200, "ok");
    assert_reply("http://", 8085, "/metrics", 200, "cluster_autoscaler_nodes_count 1");
    loop_until(&k.loop, says(&p, "no --pool: nothing to scale"));
    loop_until(&k.loop, says(&p, "--nodes=1:2:x is not used"));
    finish(&p);
}

#define POLICIES ((struct kube_gvr){"nvidia.com", "v1", "clusterpolicies"})

static void test_cluster_policies_become_ready(void **state)
{
    struct process p;
    CODEC_AUTO_JSON json_t *crd = NULL, *policy = NULL;
    assert_ok(codec_json_parse(
        GS_SLICE(
            "{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"CustomResourceDefinition\","
            "\"metadata\":{\"name\":\"clusterpolicies.nvidia.com\"},\"spec\":{"
            "\"group\":\"nvidia.com\",\"scope\":\"Cluster\",\"names\":{\"kind\":"
            "\"ClusterPolicy\",\"plural\":\"clusterpolicies\"},\"versions\":[{\"name\":\"v1\","
            "\"served\":true,\"storage\":true,\"subresources\":{\"status\":{}},\"schema\":{"
            "\"openAPIV3Schema\":{\"type\":\"object\","
            "\"x-kubernetes-preserve-unknown-fields\":true}}}]}}"),
        true, &crd));
    assert_ok(codec_json_parse(GS_SLICE("{\"apiVersion\":\"nvidia.com/v1\",\"kind\":"
                                        "\"ClusterPolicy\",\"metadata\":{\"name\":\"p\"},"
                                        "\"spec\":{\"dcgmExporter\":{\"version\":\"4.5.3\"}}}"),
                               true, &policy));
    kube_create(k.client, KUBE_GVR(KUBE_RESOURCE_CUSTOMRESOURCEDEFINITIONS), NULL, crd, call_took,
                &k);
    assert_int_equal(await(&k), 201);
    kube_create(k.client, POLICIES, NULL, policy, call_took, &k);
    assert_int_equal(await(&k), 201);
    make_pod("o", "");
    start(&p, "o", "main", "gpu-operator", "gpu-operator", "--leader-elect", NULL);
    loop_until(&k.loop, gs_streq(codec_json_str(get(POLICIES, NULL, "p"), "status", "state", NULL),
                                 "ready"));
    assert_true(kube_condition_true(get(POLICIES, NULL, "p"), "Ready"));
    loop_until(&k.loop, get(KUBE_SERVICES, "default", "nvidia-dcgm-exporter"));
    const json_t *set = get(KUBE_DAEMONSETS, "default", "nvidia-dcgm-exporter");
    const json_t *containers = codec_json_get(set, "spec", "template", "spec", "containers", NULL);
    assert_string_equal(codec_json_str(json_array_get(containers, 0), "image", NULL),
                        "nvcr.io/nvidia/k8s/dcgm-exporter:4.5.3");
    assert_true(kube_is_controlled_by(set, "ClusterPolicy"));
    finish(&p);
}

static void test_the_router_answers_on_the_ports_of_the_controller(void **state)
{
    struct process p;
    make_pod("c", "    ports: [{containerPort: 80}, {containerPort: 18254}]\n"
                  "    readinessProbe: {httpGet: {path: /healthz, port: 18254}}");
    start(&p, "c", "main", "ingress-nginx", "/nginx-ingress-controller", "--ingress-class=nginx",
          NULL);
    assert_reply("http://", 18254, "/healthz", 200, "ok");
    assert_reply("http://", local_port_by(NULL, 80), "/", 404, "404"); // no Ingress has a rule
    finish(&p);
}

static void test_unknown_pods_roles_and_bytes_are_refused(void **state)
{
    struct process p;
    make_pod("a", "");
    start(&p, "absent", "main", "sleep", NULL);
    assert_int_equal(run_to_end(&p), 1);
    assert_true(says(&p, "gpuscale up has no such pod"));
    finish(&p);
    start(&p, "a", "other", "sleep", NULL);
    assert_int_equal(run_to_end(&p), 1);
    assert_true(says(&p, "the pod has no such container"));
    finish(&p);
    start(&p, "a", "main", "king", NULL);
    assert_int_equal(run_to_end(&p), 1);
    assert_true(says(&p, "gpuscale up has no role \"king\""));
    finish(&p);
}

static void test_bytes_that_are_no_introduction_end_the_connection(void **state)
{
    static const char *const texts[] = {"x\n",
                                        "\n",
                                        "[1]\n",
                                        "{}\n{}\n",
                                        "{\"role\":1}\n",
                                        "{\"role\":\"sleep\",\"pod\":{},\"args\":{}}\n"};
    for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++) {
        struct sockaddr_un to;
        int folder, fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        char chunk[1024];
        ssize_t n = -1;
        assert_ok(gs_unix_address(socket_path, &to, &folder));
        assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
        close(folder);
        assert_true(write(fd, texts[i], strlen(texts[i])) > 0);
        fcntl(fd, F_SETFL, O_NONBLOCK);
        // Closed, or the order to end.
        loop_until(&k.loop, (n = read(fd, chunk, sizeof(chunk))) >= 0 || errno != EAGAIN);
        chunk[n > 0 ? n : 0] = '\0';
        assert_true(n <= 0 || strstr(chunk, "\"log\":\"gpuscale: "));
        close(fd);
    }
}

static void test_the_socket_is_ours_alone(void **state)
{
    struct stat st;
    assert_int_equal(stat(socket_path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_first_line_names_the_image),
        TEST(test_the_port_of_prometheus_is_the_engine),
        TEST(test_ports_close_with_the_process),
        TEST(test_a_prometheus_of_the_user_runs_with_its_arguments),
        TEST(test_health_metrics_and_unknown_paths),
        TEST(test_https_has_a_certificate_of_the_services),
        TEST(test_apis_need_users_without_https_too),
        TEST(test_a_proxy_passes_requests_of_users_on),
        TEST(test_https_uses_the_files_of_the_arguments),
        TEST(test_the_reloader_reloads),
        TEST(test_other_programs_of_the_pod_are_reloaded),
        TEST(test_the_sidecar_writes_files_for_grafana),
        TEST(test_init_containers_end),
        TEST(test_certgen_creates_a_secret_once_and_patches),
        TEST(test_a_wrong_certgen_fails),
        TEST(test_alertmanager_is_the_program_of_this_machine),
        TEST(test_node_exporter_reads_the_machine_where_nothing_is_mounted),
        TEST(test_a_missing_program_is_reported),
        TEST(test_webhooks_admit_and_convert),
        TEST(test_grafana_without_grafana_is_the_web_interface),
        TEST(test_grafana_of_this_machine_runs),
        TEST(test_parts_of_a_gpu_operator),
        TEST(test_cluster_policies_become_ready),
        TEST(test_the_router_answers_on_the_ports_of_the_controller),
        TEST(test_unknown_pods_roles_and_bytes_are_refused),
        TEST(test_bytes_that_are_no_introduction_end_the_connection),
        TEST(test_the_socket_is_ours_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
