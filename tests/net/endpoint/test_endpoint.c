// SPDX-License-Identifier: Apache-2.0
// An endpoint whose credentials and certificates change while it is used.
#include "net/endpoint/endpoint.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "net/http/server.h"
#include "net/tls/tls.h"
#include "unit.h"

#include <stdlib.h>

enum { REFRESH_MS = 1 };

struct fixture {
    uv_loop_t loop;
    char folder[40];
    struct http_server *server;
    char *authorization, *tenant, *path, *user; // of the last request
    char *query;                                // x, y and q of its query string
    struct tls_pair ca, other_ca;
    bool done;
    int status;
    enum gs_code error;
};

static void serve(void *arg, struct http_exchange *x)
{
    struct fixture *f = arg;
    free(f->authorization);
    free(f->tenant);
    free(f->path);
    free(f->user);
    free(f->query);
    const char *q = http_query(x, "q"), *y = http_query(x, "y");
    f->query = gs_format("x=%s y=%s q=%s", http_query(x, "x"), y ? y : "-", q ? q : "-");
    f->authorization = gs_strdup(http_header(x, "Authorization"));
    f->tenant = gs_strdup(http_header(x, "X-Scope-OrgID"));
    f->path = gs_strdup(http_path(x));
    f->user = gs_strdup(http_identity(x)->user);
    http_reply_text(x, 200, "ok");
}

static char *file(const struct fixture *f, const char *name)
{
    return gs_format("%s/%s", f->folder, name);
}

// Another time of change in any case: file systems count in larger steps than a test takes.
static void write_file(const struct fixture *f, const char *name, const char *text)
{
    GS_AUTO_FREE char *path = file(f, name);
    assert_ok(gs_file_write_atomic(path, 0600, gs_slice_of(text)));
    usleep(20000);
}

static void make_leaf(const struct tls_pair *ca, struct tls_pair *ret)
{
    static const char *const addresses[] = {"127.0.0.1"};
    const struct tls_leaf want = {
        .common_name = "s", .ip_addresses = addresses, .n_ip_addresses = 1, .server = 1, .days = 1};
    assert_ok(tls_make_leaf(ca, &want, ret));
}

static void start(struct fixture *f)
{
    GS_CLEANUP(tls_pair_finish) struct tls_pair leaf = {0};
    uv_loop_init(&f->loop);
    strcpy(f->folder, "/tmp/gpuscale-peer-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    assert_ok(tls_make_ca("one", 1, &f->ca));
    assert_ok(tls_make_ca("two", 1, &f->other_ca));
    make_leaf(&f->ca, &leaf);
    const struct http_server_config cfg = {.address = "127.0.0.1",
                                           .cert_pem = leaf.cert_pem,
                                           .key_pem = leaf.key_pem,
                                           .client_ca_pem = f->ca.cert_pem};
    assert_ok(http_server_start(&f->loop, &cfg, serve, f, &f->server));
}

static void stop(struct fixture *f)
{
    static const char *const names[] = {"ca", "token", "password", "cert", "key"};
    http_server_stop(f->server);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        GS_AUTO_FREE char *path = file(f, names[i]);
        (void)unlink(path);
    }
    rmdir(f->folder);
    tls_pair_finish(&f->ca);
    tls_pair_finish(&f->other_ca);
    free(f->authorization);
    free(f->tenant);
    free(f->path);
    free(f->user);
    free(f->query);
}

static void on_done(void *arg, const struct http_response *a, struct gs_error *err)
{
    struct fixture *f = arg;
    f->done = true;
    f->status = err ? 0 : a->status;
    f->error = err ? gs_error_code(err) : 0;
    gs_error_free(err);
}

static int ask_for(struct fixture *f, struct http_client *client, const char *method,
                   const char *path)
{
    static const struct http_callbacks callbacks = {.on_done = on_done};
    static const struct http_header headers[] = {{"X-Own", "1"}, {0}};
    const struct http_request request = {.method = method, .path = path, .headers = headers};
    f->done = false;
    http_send(client, &request, &callbacks, f);
    while (!f->done)
        uv_run(&f->loop, UV_RUN_ONCE);
    return f->status;
}

static int ask(struct fixture *f, struct http_client *client)
{
    return ask_for(f, client, NULL, "/api");
}

static const struct endpoint_options options = {.refresh_ms = REFRESH_MS};

static struct http_client *make(struct fixture *f, const struct endpoint_settings *s,
                                const char *login)
{
    struct http_client *client = NULL;
    char *name = NULL;
    GS_AUTO_FREE char *url =
        gs_format("https://%s127.0.0.1:%u/pre/?x=1", login, http_server_port(f->server));
    assert_ok(endpoint_client_open(&f->loop, url, s, &options, &client, &name));
    assert_null(strstr(name, "secret"));
    free(name);
    return client;
}

static struct gs_error *open_client(uv_loop_t *loop, const char *url,
                                    const struct endpoint_settings *s)
{
    struct http_client *client = NULL;
    char *name = NULL;
    return endpoint_client_open(loop, url, s, &options, &client, &name);
}

static void test_credentials(void **state)
{
    struct fixture f = {0};
    static const char *const headers[] = {"X-Scope-OrgID=team=1"};
    start(&f);
    struct gs_arena mem = {0};
    struct endpoint_settings o = {.ca.text = f.ca.cert_pem};
    assert_ok(endpoint_add_headers(&o, headers, 1, &mem));
    struct http_client *p = make(&f, &o, "us%20er:secret@");
    assert_int_equal(ask(&f, p), 200);
    assert_string_equal(f.authorization, "Basic dXMgZXI6c2VjcmV0");
    assert_string_equal(f.tenant, "team=1");
    assert_string_equal(f.path, "/pre/api");
    http_client_free(p);
    GS_AUTO_FREE char *token = file(&f, "token");
    GS_AUTO_FREE char *password = file(&f, "password");
    write_file(&f, "token", "first\n");
    o.credentials.file = token;
    p = make(&f, &o, "");
    assert_int_equal(ask(&f, p), 200);
    assert_string_equal(f.authorization, "Bearer first");
    write_file(&f, "token", "second\n");
    assert_int_equal(ask(&f, p), 200);
    assert_string_equal(f.authorization, "Bearer second");
    assert_int_equal(unlink(token), 0); // the last one goes on
    usleep(2000);
    assert_int_equal(ask(&f, p), 200);
    assert_string_equal(f.authorization, "Bearer second");
    http_client_free(p);
    write_file(&f, "password", "p1");
    o.credentials.file = NULL;
    o.user.text = "u";
    o.password.file = password;
    p = make(&f, &o, "other:secret@"); // what is given beside the URL counts
    assert_int_equal(ask(&f, p), 200);
    assert_string_equal(f.authorization, "Basic dTpwMQ==");
    write_file(&f, "password", "p2");
    assert_int_equal(ask(&f, p), 200);
    assert_string_equal(f.authorization, "Basic dTpwMg==");
    http_client_free(p);
    gs_arena_finish(&mem);
    stop(&f);
}

static void test_new_ca(void **state)
{
    struct fixture f = {0};
    start(&f);
    GS_AUTO_FREE char *ca = file(&f, "ca");
    write_file(&f, "ca", f.other_ca.cert_pem);
    const struct endpoint_settings o = {.ca.file = ca};
    struct http_client *p = make(&f, &o, "");
    assert_int_equal(ask(&f, p), 0); // verified, and of another CA
    write_file(&f, "ca", f.ca.cert_pem);
    assert_int_equal(ask(&f, p), 200);
    write_file(&f, "ca", "nonsense");
    (void)ask(&f, p);
    write_file(&f, "ca", f.ca.cert_pem);
    // Under way with the old ones while new ones come.
    static const struct http_callbacks callbacks = {.on_done = on_done};
    const struct http_request request = {.path = "/old"};
    http_send(p, &request, &callbacks, &f);
    GS_AUTO_FREE char *both = gs_format("%s%s", f.ca.cert_pem, f.other_ca.cert_pem);
    write_file(&f, "ca", both);
    f.done = false;
    struct http_op *gone = http_send(p, &request, &callbacks, &f);
    http_op_cancel(gone);
    while (!f.done)
        uv_run(&f.loop, UV_RUN_ONCE);
    assert_int_equal(f.status, 200);
    http_client_free(p);
    stop(&f);
}

static void write_client_certificate(struct fixture *f, const char *user)
{
    GS_CLEANUP(tls_pair_finish) struct tls_pair pair = {0};
    const struct tls_leaf want = {.common_name = user, .days = 1};
    assert_ok(tls_make_leaf(&f->ca, &want, &pair));
    write_file(f, "cert", pair.cert_pem);
    write_file(f, "key", pair.key_pem);
}

// A kept connection with the previous certificate is not used.
static void test_new_client_certificate(void **state)
{
    struct fixture f = {0};
    start(&f);
    GS_AUTO_FREE char *cert = file(&f, "cert"), *key = file(&f, "key");
    const struct endpoint_settings o = {
        .ca.text = f.ca.cert_pem, .cert.file = cert, .key.file = key};
    write_client_certificate(&f, "first");
    struct http_client *p = make(&f, &o, "");
    assert_int_equal(ask(&f, p), 200);
    assert_string_equal(f.user, "first");
    write_client_certificate(&f, "second");
    assert_int_equal(ask(&f, p), 200);
    assert_string_equal(f.user, "second");
    http_client_free(p);
    stop(&f);
}

// Certificates that cannot be read end the start, and are named by their files.
static void test_broken_certificates(void **state)
{
    struct fixture f = {0};
    start(&f);
    GS_AUTO_FREE char *ca = file(&f, "ca"), *token = file(&f, "token"),
                      *password = file(&f, "password");
    write_file(&f, "ca", "nonsense");
    write_file(&f, "token", f.ca.cert_pem);
    write_file(&f, "password", f.other_ca.key_pem);
    struct endpoint_settings o = {.ca.file = ca};
    assert_error(open_client(&f.loop, "https://h", &o), GS_EINVAL, ca);
    o = (struct endpoint_settings){.ca.text = "nonsense"};
    assert_error(open_client(&f.loop, "https://h", &o), GS_EINVAL, "the CA certificate: ");
    o = (struct endpoint_settings){.cert.file = ca, .key.file = password};
    assert_error(open_client(&f.loop, "https://h", &o), GS_EINVAL, ca);
    o = (struct endpoint_settings){.cert.file = token, .key.file = password};
    assert_error(open_client(&f.loop, "https://h", &o), GS_EINVAL, "the key does not belong");
    stop(&f);
}

static void test_parameters_of_the_url_are_in_each_request(void **state)
{
    static const char *const methods[] = {"GET", "POST"};
    struct fixture f = {0};
    (void)state;
    start(&f);
    const struct endpoint_settings s = {.ca.text = f.ca.cert_pem};
    struct http_client *client = make(&f, &s, "");
    for (size_t i = 0; i < GS_ARRAY_LEN(methods); i++) {
        assert_int_equal(ask_for(&f, client, methods[i], "/api"), 200);
        assert_string_equal(f.path, "/pre/api");
        assert_string_equal(f.query, "x=1 y=- q=-");
        assert_int_equal(ask_for(&f, client, methods[i], "/api?q=up"), 200);
        assert_string_equal(f.query, "x=1 y=- q=up");
    }
    http_client_free(client);
    GS_AUTO_FREE char *url =
        gs_format("https://127.0.0.1:%u/write?x=1&y=2#f", http_server_port(f.server));
    assert_ok(endpoint_client_new(&f.loop, url, &s, &options, &client));
    assert_int_equal(ask_for(&f, client, "POST", ""), 200);
    assert_string_equal(f.path, "/write");
    assert_string_equal(f.query, "x=1 y=2 q=-");
    http_client_free(client);
    GS_AUTO_FREE char *fragment = // which is not sent
        gs_format("https://127.0.0.1:%u/write/?x=4#f?y=5", http_server_port(f.server));
    GS_AUTO_FREE char *name = NULL;
    assert_ok(endpoint_client_open(&f.loop, fragment, &s, &options, &client, &name));
    assert_int_equal(ask_for(&f, client, "POST", ""), 200);
    assert_string_equal(f.path, "/write");
    assert_string_equal(f.query, "x=4 y=- q=-");
    http_client_free(client);
    stop(&f);
}

static void test_empty_header(void **state)
{
    static const char *const headers[] = {"X-Scope-OrgID"};
    static const char *const equals[] = {"X-Scope-OrgID="};
    struct fixture f = {0};
    start(&f);
    for (int i = 0; i < 2; i++) {
        struct gs_arena mem = {0};
        struct endpoint_settings o = {.ca.text = f.ca.cert_pem};
        assert_ok(endpoint_add_headers(&o, i ? equals : headers, 1, &mem));
        struct http_client *p = make(&f, &o, "");
        gs_arena_finish(&mem);
        assert_int_equal(ask(&f, p), 200);
        assert_non_null(f.tenant);
        assert_string_equal(f.tenant, "");
        http_client_free(p);
    }
    stop(&f);
}

static void test_wrong(void **state)
{
    uv_loop_t loop;
    struct gs_arena mem = {0};
    static const char *const headers[] = {"=x"};
    struct endpoint_settings o = {0};
    uv_loop_init(&loop);
    assert_error(open_client(&loop, "ftp://x", &o), GS_EINVAL, "want http://");
    assert_error(open_client(&loop, "http://u:p@/x", &o), GS_EINVAL, "host is missing");
    assert_error(open_client(&loop, "http://u%zz@h", &o), GS_EINVAL, "user and password");
    assert_error(endpoint_add_headers(&o, headers, 1, &mem), GS_EINVAL, "want Key=Value");
    gs_arena_finish(&mem);
    o = (struct endpoint_settings){.credentials.file = "/nonexistent/token"};
    assert_error(open_client(&loop, "http://h", &o), GS_ENOTFOUND, "/nonexistent/token");
    o = (struct endpoint_settings){.ca.file = "/nonexistent/ca"};
    assert_error(open_client(&loop, "https://h", &o), GS_ENOTFOUND, "/nonexistent/ca");
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

// Without a refresh interval a request fails when a file cannot be read, and is sent with what the
// file contains when it is there again.
static void test_files_for_each_request(void **state)
{
    static const struct endpoint_options each = {0};
    struct fixture f = {0};
    struct http_client *client = NULL;
    start(&f);
    GS_AUTO_FREE char *ca = file(&f, "ca"), *token = file(&f, "token");
    GS_AUTO_FREE char *url = gs_format("https://127.0.0.1:%u", http_server_port(f.server));
    write_file(&f, "ca", f.ca.cert_pem);
    const struct endpoint_settings o = {.ca.file = ca, .credentials.file = token};
    assert_ok(endpoint_client_new(&f.loop, url, &o, &each, &client));
    assert_int_equal(ask(&f, client), 0);
    assert_int_equal(f.error, GS_ENOTFOUND);
    write_file(&f, "token", "t");
    assert_int_equal(ask(&f, client), 200);
    assert_string_equal(f.authorization, "Bearer t");
    write_file(&f, "ca", "nonsense");
    assert_int_equal(ask(&f, client), 0);
    assert_int_equal(ask(&f, client), 0);
    write_file(&f, "ca", f.ca.cert_pem);
    assert_int_equal(ask(&f, client), 200);
    assert_int_equal(unlink(token), 0);
    // A request that has failed already can be cancelled, and goes with its client.
    static const struct http_callbacks callbacks = {.on_done = on_done};
    const struct http_request request = {.path = "/"};
    f.done = false;
    http_op_cancel(http_send(client, &request, &callbacks, &f));
    http_send(client, &request, &callbacks, &f);
    http_client_free(client);
    stop(&f);
    assert_false(f.done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_credentials),
        cmocka_unit_test(test_new_ca),
        cmocka_unit_test(test_new_client_certificate),
        cmocka_unit_test(test_broken_certificates),
        cmocka_unit_test(test_parameters_of_the_url_are_in_each_request),
        cmocka_unit_test(test_empty_header),
        cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_files_for_each_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
