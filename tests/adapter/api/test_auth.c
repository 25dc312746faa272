// SPDX-License-Identifier: Apache-2.0
// Authentication and authorization, over a real TLS server and with a fake API server.
#include "adapter/api/auth.h"
#include "base/mem.h"
#include "kube/status.h"
#include "net/endpoint/endpoint.h"
#include "net/http/client.h"
#include "net/http/server.h"
#include "net/tls/tls.h"
#include "unit.h"

#include <stdlib.h>
#include <unistd.h>

static struct tls_pair server_ca, proxy_ca, user_ca, foreign_ca;

struct fixture {
    uv_loop_t loop;
    struct http_client *kube_http;
    struct kube_client *kube;
    struct adapter_api_auth *auth;
    struct http_server *server;
    bool ready;
    int token_reviews, access_reviews, access_status;
    char *last_spec; // of the last access review
    struct gs_error *ready_error;
    int map_status;
    const struct tls_pair *trust; // of clients; NULL: server_ca
    const char *token_file;       // of clients; NULL: none
    const struct tls_pair *leaf;  // of clients, instead of a fresh one
    int64_t ttl_ms;               // 0: an hour
    bool known;                   // the decision for the last request was cached
};

// --- the cluster ---

static json_t *config_map(void)
{
    return json_pack(
        "{s:s, s:s, s:{s:s, s:s}, s:{s:s, s:s, s:s, s:s, s:s, s:s}}", "kind", "ConfigMap",
        "apiVersion", "v1", "metadata", "name", "extension-apiserver-authentication", "namespace",
        "kube-system", "data", "client-ca-file", user_ca.cert_pem, "requestheader-client-ca-file",
        proxy_ca.cert_pem, "requestheader-username-headers", "[\"X-Remote-User\"]",
        "requestheader-group-headers", "[\"X-Remote-Group\"]", "requestheader-extra-headers-prefix",
        "[\"X-Remote-Extra-\"]", "requestheader-allowed-names", "[\"front-proxy\"]");
}

static void on_watch_closed(void *arg)
{
}

static void cluster(void *arg, struct http_exchange *x)
{
    struct fixture *f = arg;
    const char *path = http_path(x);
    CODEC_AUTO_JSON json_t *body = NULL, *reply = NULL;
    gs_error_free(http_body(x).len ? codec_json_parse(http_body(x), true, &body) : NULL);
    if (gs_ends(path, "/tokenreviews")) {
        bool good = gs_streq(codec_json_str(body, "spec", "token", NULL), "good");
        f->token_reviews++;
        reply = good ? json_pack("{s:{s:b, s:{s:s, s:[s]}}}", "status", "authenticated", 1, "user",
                                 "username", "alice", "groups", "team")
                     : json_pack("{s:{s:b}}", "status", "authenticated", 0);
    } else if (gs_ends(path, "/subjectaccessreviews")) {
        const char *user = codec_json_str(body, "spec", "user", NULL);
        f->access_reviews++;
        free(f->last_spec);
        f->last_spec = json_dumps(json_object_get(body, "spec"), JSON_SORT_KEYS | JSON_COMPACT);
        if (f->access_status) {
            kube_reply_failure(x, f->access_status, "Forbidden", "no");
            return;
        }
        reply = json_pack("{s:{s:b, s:s}}", "status", "allowed",
                          gs_streq(user, "alice") || gs_streq(user, "through-proxy"), "reason",
                          "the test says so");
    } else if (gs_ends(path, "/extension-apiserver-authentication")) {
        if (f->map_status) {
            kube_reply_failure(x, f->map_status, "Forbidden", "you may not");
            return;
        }
        reply = config_map();
    } else if (http_query(x, "watch")) {
        (void)http_reply_stream(x, 200, "application/json", on_watch_closed, NULL);
        return; // a watch without events
    } else {
        reply = json_pack("{s:s, s:{s:s}, s:[o]}", "kind", "ConfigMapList", "metadata",
                          "resourceVersion", "1", "items", config_map());
    }
    kube_reply_json(x, 200, reply);
}

// --- the server ---

struct request {
    struct adapter_api_auth_op *op;
    struct adapter_api_path path;
    struct http_exchange *x;
};

static void on_checked(void *arg, const struct adapter_api_auth_decision *d)
{
    struct request *r = arg;
    if (d->allowed)
        http_reply_text(r->x, 200, "ok");
    adapter_api_path_finish(&r->path);
    free(r);
}

static void serve(void *arg, struct http_exchange *x)
{
    struct fixture *f = arg;
    struct request *r = gs_alloc(sizeof(*r));
    r->x = x;
    assert_ok(adapter_api_path_read(http_path(x), &r->path));
    f->known = adapter_api_auth_cached(f->auth, x);
    adapter_api_auth_check(f->auth, x, &r->path, on_checked, r);
}

static void on_ready(void *arg, struct gs_error *err)
{
    struct fixture *f = arg;
    f->ready = true;
    f->ready_error = err;
}

static void start(struct fixture *f)
{
    static const char *const open[] = {"/healthz", "/open*"};
    static const char *const addresses[] = {"127.0.0.1"};
    uv_loop_init(&f->loop);
    f->kube_http = http_client_new_loopback(&f->loop, cluster, f, NULL);
    f->kube = kube_client_new(f->kube_http);
    int64_t ttl_ms = f->ttl_ms ? f->ttl_ms : 3600000;
    const struct adapter_api_auth_options o = {.authn = f->kube,
                                               .authz = f->kube,
                                               .always_allow_paths = open,
                                               .n_always_allow_paths = 2,
                                               .token_ttl_ms = ttl_ms,
                                               .allowed_ttl_ms = ttl_ms,
                                               .denied_ttl_ms = ttl_ms};
    assert_ok(adapter_api_auth_new(&f->loop, &o, on_ready, f, &f->auth));
    while (!f->ready)
        uv_run(&f->loop, UV_RUN_ONCE);
    struct tls_pair leaf = {0};
    const struct tls_leaf want = {.common_name = "server",
                                  .ip_addresses = addresses,
                                  .n_ip_addresses = 1,
                                  .server = 1,
                                  .days = 1};
    assert_ok(tls_make_leaf(&server_ca, &want, &leaf));
    const struct http_server_config server = {.address = "127.0.0.1",
                                              .cert_pem = leaf.cert_pem,
                                              .key_pem = leaf.key_pem,
                                              .request_client_cert = true};
    assert_ok(http_server_start(&f->loop, &server, serve, f, &f->server));
    tls_pair_finish(&leaf);
}

static void stop(struct fixture *f)
{
    http_server_stop(f->server);
    adapter_api_auth_free(f->auth);
    kube_client_free(f->kube);
    http_client_free(f->kube_http);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    free(f->last_spec);
}

// --- requests ---

struct answer {
    int status;
    struct gs_buf body;
};

static void on_done(void *arg, const struct http_response *a, struct gs_error *err)
{
    struct answer *r = arg;
    assert_ok(err);
    gs_buf_clear(&r->body);
    gs_buf_add_slice(&r->body, a->body);
    r->status = a->status;
}

// ca, cn: of the client's certificate; NULL: none.
static int ask(struct fixture *f, const struct tls_pair *ca, const char *cn, const char *path,
               const struct http_header *headers, char **ret_body)
{
    struct tls_pair leaf = {0};
    static const char *const groups[] = {"people"};
    const struct tls_leaf want = {
        .common_name = cn, .organizations = groups, .n_organizations = 1, .days = 1};
    if (ca && !f->leaf)
        assert_ok(tls_make_leaf(ca, &want, &leaf));
    const struct tls_pair *pair = f->leaf && ca ? f->leaf : &leaf;
    GS_AUTO_FREE char *url = gs_format("https://127.0.0.1:%u", http_server_port(f->server));
    const struct endpoint_settings s = {
        .ca.text = (f->trust ? f->trust : &server_ca)->cert_pem,
        .cert.text = pair->cert_pem,
        .key.text = pair->key_pem,
        .credentials = {f->token_file ? "stale" : NULL, f->token_file}};
    const struct endpoint_options options = {.refresh_ms = 60000};
    struct http_client *c = NULL;
    assert_ok(endpoint_client_new(&f->loop, url, &s, &options, &c));
    static const struct http_callbacks callbacks = {.on_done = on_done};
    const struct http_request get = {.path = path, .headers = headers};
    struct answer a = {0};
    http_send(c, &get, &callbacks, &a);
    while (!a.status)
        uv_run(&f->loop, UV_RUN_ONCE);
    http_client_free(c);
    tls_pair_finish(&leaf);
    if (ret_body)
        *ret_body = gs_buf_take(&a.body);
    gs_buf_finish(&a.body);
    return a.status;
}

#define METRIC "/apis/custom.metrics.k8s.io/v1beta1/namespaces/ml/pods/*/gpu"

static void test_front_proxy(void **state)
{
    struct fixture f = {0};
    start(&f);
    const struct http_header headers[] = {{"X-Remote-User", "through-proxy"},
                                          {"X-Remote-Group", "g1"},
                                          {"X-Remote-Group", "g2"},
                                          {"X-Remote-Extra-Scopes%2fa", "s"},
                                          {0}};
    assert_int_equal(ask(&f, &proxy_ca, "front-proxy", METRIC, headers, NULL), 200);
    assert_string_equal(
        f.last_spec,
        "{\"extra\":{\"scopes/a\":[\"s\"]},\"groups\":[\"g1\",\"g2\",\"system:authenticated\"],"
        "\"resourceAttributes\":{\"group\":\"custom.metrics.k8s.io\",\"name\":\"*\",\"namespace\":"
        "\"ml\",\"resource\":\"pods\",\"subresource\":\"gpu\",\"verb\":\"get\",\"version\":"
        "\"v1beta1\"},\"user\":\"through-proxy\"}");
    // system:masters needs no access review.
    const struct http_header masters[] = {
        {"X-Remote-User", "root"}, {"X-Remote-Group", "system:masters"}, {0}};
    assert_int_equal(ask(&f, &proxy_ca, "front-proxy", METRIC, masters, NULL), 200);
    assert_int_equal(f.access_reviews, 1);
    // Another name of the same CA is not the front proxy. An unknown CA is rejected.
    assert_int_equal(ask(&f, &proxy_ca, "somebody", METRIC, masters, NULL), 401);
    assert_int_equal(ask(&f, &foreign_ca, "front-proxy", METRIC, masters, NULL), 401);
    // Without a certificate the headers are ignored.
    char *body = NULL;
    assert_int_equal(ask(&f, NULL, NULL, METRIC, masters, &body), 403);
    assert_non_null(strstr(body, "pods.custom.metrics.k8s.io \\\"*\\\" is forbidden: User "
                                 "\\\"system:anonymous\\\" cannot get resource \\\"pods/gpu\\\" in "
                                 "API group \\\"custom.metrics.k8s.io\\\" in the namespace \\\"ml"
                                 "\\\": the test says so"));
    free(body);
    stop(&f);
}

static void test_certificates_and_tokens(void **state)
{
    struct fixture f = {0};
    const struct http_header good[] = {{"Authorization", "Bearer good"}, {0}};
    const struct http_header bad[] = {{"Authorization", "Bearer bad"}, {0}};
    start(&f);
    assert_int_equal(ask(&f, &user_ca, "alice", METRIC, NULL, NULL), 200);
    assert_non_null(strstr(f.last_spec, "\"groups\":[\"people\",\"system:authenticated\"]"));
    assert_int_equal(ask(&f, &user_ca, "bob", METRIC, NULL, NULL), 403);
    assert_int_equal(ask(&f, NULL, NULL, METRIC, good, NULL), 200);
    assert_int_equal(ask(&f, NULL, NULL, METRIC, good, NULL), 200);
    assert_int_equal(f.token_reviews, 1); // cached
    assert_int_equal(ask(&f, NULL, NULL, METRIC, bad, NULL), 401);
    assert_int_equal(ask(&f, NULL, NULL, METRIC, bad, NULL), 401);
    assert_int_equal(f.token_reviews, 2);
    stop(&f);
}

static void test_open_paths(void **state)
{
    struct fixture f = {0};
    char *body = NULL;
    start(&f);
    assert_int_equal(ask(&f, NULL, NULL, "/healthz", NULL, NULL), 200);
    assert_int_equal(ask(&f, NULL, NULL, "/open/a", NULL, NULL), 200);
    assert_int_equal(f.access_reviews, 0);
    assert_int_equal(ask(&f, NULL, NULL, "/metrics", NULL, &body), 403);
    assert_non_null(strstr(body, "User \\\"system:anonymous\\\" cannot get path \\\"/metrics\\\""));
    free(body);
    // A failed review denies the request.
    f.access_status = 403;
    assert_int_equal(ask(&f, NULL, NULL, "/version", NULL, NULL), 500);
    stop(&f);
}

static void test_no_config_map(void **state)
{
    struct fixture f = {.map_status = 403};
    uv_loop_init(&f.loop);
    f.kube_http = http_client_new_loopback(&f.loop, cluster, &f, NULL);
    f.kube = kube_client_new(f.kube_http);
    struct adapter_api_auth_options o = {.authn = f.kube, .authz = f.kube};
    assert_ok(adapter_api_auth_new(&f.loop, &o, on_ready, &f, &f.auth));
    while (!f.ready)
        uv_run(&f.loop, UV_RUN_ONCE);
    assert_error(f.ready_error, GS_EPERM, "extension-apiserver-authentication-reader");
    stop(&f);
}

// A changed token file is used instead of the first token.
static void test_token_file(void **state)
{
    struct fixture f = {0};
    char path[] = "/tmp/gpuscale-token-XXXXXX";
    int fd = mkstemp(path);
    assert_int_equal(write(fd, "good\n", 5), 5);
    close(fd);
    start(&f);
    f.token_file = path;
    assert_int_equal(ask(&f, NULL, NULL, METRIC, NULL, NULL), 200);
    unlink(path);
    assert_int_equal(ask(&f, NULL, NULL, METRIC, NULL, NULL), 401); // the first one
    stop(&f);
}

// New connections get the new serving certificate. A wrong one changes nothing.
static void test_serving_certificate(void **state)
{
    static const char *const addresses[] = {"127.0.0.1"};
    struct fixture f = {0};
    struct tls_pair leaf = {0};
    const struct tls_leaf want = {
        .common_name = "x", .ip_addresses = addresses, .n_ip_addresses = 1, .server = 1, .days = 1};
    start(&f);
    for (int i = 0; i < 8; i++) {
        f.trust = i % 2 ? &user_ca : &foreign_ca;
        assert_ok(tls_make_leaf(f.trust, &want, &leaf));
        assert_ok(http_server_set_certificate(f.server, leaf.cert_pem, leaf.key_pem));
        assert_error(http_server_set_certificate(f.server, leaf.cert_pem, server_ca.key_pem),
                     GS_EINVAL, "certificate");
        assert_error(http_server_set_certificate(f.server, "x", "y"), GS_EINVAL, "certificate");
        assert_int_equal(ask(&f, NULL, NULL, "/healthz", NULL, NULL), 200);
        tls_pair_finish(&leaf);
        leaf = (struct tls_pair){0};
    }
    stop(&f);
}

// Only allowed requests are cached, and only until a part of the decision changes.
static void test_known_requests(void **state)
{
    struct fixture f = {0};
    struct tls_pair leaf = {0};
    const struct tls_leaf want = {.common_name = "front-proxy", .days = 1};
    const struct http_header user[] = {{"X-Remote-User", "through-proxy"}, {0}};
    const struct http_header other[] = {{"X-Remote-User", "mallory"}, {0}};
    const struct http_header grouped[] = {
        {"X-Remote-User", "through-proxy"}, {"X-Remote-Group", "g1"}, {0}};
    const struct http_header good[] = {{"Authorization", "Bearer good"}, {0}};
    const struct http_header bad[] = {{"Authorization", "Bearer bad"}, {0}};
    const struct http_header unrelated[] = {
        {"X-Remote-User", "through-proxy"}, {"Traceparent", "00-1-2-03"}, {0}};
    const struct {
        const struct tls_pair *ca;
        const struct http_header *headers;
        const char *path;
        int status;
        bool known;
    } steps[] = {
        {&proxy_ca, user, METRIC, 200, false},
        {&proxy_ca, user, METRIC, 200, true},
        {&proxy_ca, unrelated, METRIC, 200, true},
        {&proxy_ca, user, METRIC "?labelSelector=a", 200, true},
        {&proxy_ca, user, METRIC "?watch=1", 200, false},
        {&proxy_ca, user, METRIC "x", 200, false},
        {&proxy_ca, other, METRIC, 403, false},
        {&proxy_ca, other, METRIC, 403, false},
        {&proxy_ca, grouped, METRIC, 200, false},
        {&proxy_ca, NULL, METRIC, 401, false},
        {NULL, user, METRIC, 403, false},
        {NULL, user, METRIC, 403, false},
        {NULL, good, METRIC, 200, false},
        {NULL, good, METRIC, 200, true},
        {NULL, bad, METRIC, 401, false},
        {NULL, bad, METRIC, 401, false},
        {NULL, NULL, METRIC, 403, false},
    };
    start(&f);
    assert_ok(tls_make_leaf(&proxy_ca, &want, &leaf));
    f.leaf = &leaf;
    for (size_t i = 0; i < GS_ARRAY_LEN(steps); i++) {
        int status = ask(&f, steps[i].ca, NULL, steps[i].path, steps[i].headers, NULL);
        if (status != steps[i].status || f.known != steps[i].known)
            fail_msg("step %zu: status %d, known %d", i, status, f.known);
    }
    // Certificates of another CA are not equal.
    f.leaf = NULL;
    assert_int_equal(ask(&f, &foreign_ca, "front-proxy", METRIC, user, NULL), 401);
    assert_false(f.known);
    tls_pair_finish(&leaf);
    stop(&f);
}

static void test_known_requests_end(void **state)
{
    struct fixture f = {.ttl_ms = 100};
    const struct http_header good[] = {{"Authorization", "Bearer good"}, {0}};
    start(&f);
    assert_int_equal(ask(&f, NULL, NULL, METRIC, good, NULL), 200);
    usleep(150000);
    f.access_status = 403;
    assert_int_equal(ask(&f, NULL, NULL, METRIC, good, NULL), 500);
    assert_false(f.known);
    stop(&f);
}

static int make_cas(void **state)
{
    assert_ok(tls_make_ca("server", 1, &server_ca));
    assert_ok(tls_make_ca("proxy", 1, &proxy_ca));
    assert_ok(tls_make_ca("users", 1, &user_ca));
    assert_ok(tls_make_ca("foreign", 1, &foreign_ca));
    return 0;
}

static int drop_cas(void **state)
{
    tls_pair_finish(&server_ca);
    tls_pair_finish(&proxy_ca);
    tls_pair_finish(&user_ca);
    tls_pair_finish(&foreign_ca);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_front_proxy),         cmocka_unit_test(test_certificates_and_tokens),
        cmocka_unit_test(test_open_paths),          cmocka_unit_test(test_token_file),
        cmocka_unit_test(test_serving_certificate), cmocka_unit_test(test_no_config_map),
        cmocka_unit_test(test_known_requests),      cmocka_unit_test(test_known_requests_end),
    };
    return cmocka_run_group_tests(tests, make_cas, drop_cas);
}
