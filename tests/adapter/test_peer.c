// SPDX-License-Identifier: Apache-2.0
// How a source is reached: URL, headers, credentials and certificates that change while it runs.
#include "adapter/source/peer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "net/http/server.h"
#include "net/tls/tls.h"
#include "unit.h"

#include <stdlib.h>

enum { LOOK_MS = 1 };

struct fixture {
    uv_loop_t loop;
    char folder[40];
    struct http_server *server;
    char *authorization, *tenant, *path; // of the last request
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
    f->authorization = gs_strdup(http_header(x, "Authorization"));
    f->tenant = gs_strdup(http_header(x, "X-Scope-OrgID"));
    f->path = gs_strdup(http_path(x));
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
    const struct http_server_config cfg = {
        .address = "127.0.0.1", .cert_pem = leaf.cert_pem, .key_pem = leaf.key_pem};
    assert_ok(http_server_start(&f->loop, &cfg, serve, f, &f->server));
}

static void stop(struct fixture *f)
{
    static const char *const names[] = {"ca", "token", "password"};
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
}

static void on_done(void *arg, const struct http_answer *a, struct gs_error *err)
{
    struct fixture *f = arg;
    f->done = true;
    f->status = err ? 0 : a->status;
    f->error = err ? gs_error_code(err) : 0;
    gs_error_free(err);
}

static int ask(struct fixture *f, struct source_peer *p)
{
    static const struct http_callbacks callbacks = {.on_done = on_done};
    static const struct http_header headers[] = {{"X-Own", "1"}, {0}};
    const struct http_call call = {.path = "/api", .headers = headers};
    f->done = false;
    source_peer_send(p, &call, &callbacks, f);
    while (!f->done)
        uv_run(&f->loop, UV_RUN_ONCE);
    return f->status;
}

static struct source_peer *make(struct fixture *f, struct source_peer_options *o, const char *login)
{
    struct source_peer *p = NULL;
    GS_AUTO_FREE char *url =
        gs_format("https://%s127.0.0.1:%u/pre/?x=1", login, http_server_port(f->server));
    o->url = url;
    o->look_ms = LOOK_MS;
    assert_ok(source_peer_new(&f->loop, o, &p));
    o->url = NULL;
    assert_null(strstr(source_peer_name(p), "secret"));
    return p;
}

static void test_credentials(void **state)
{
    struct fixture f = {0};
    static const char *const headers[] = {"X-Scope-OrgID=team=1"};
    start(&f);
    struct source_peer_options o = {.ca_pem = f.ca.cert_pem, .headers = headers, .n_headers = 1};
    struct source_peer *p = make(&f, &o, "us%20er:secret@");
    assert_int_equal(ask(&f, p), 200);
    assert_string_equal(f.authorization, "Basic dXMgZXI6c2VjcmV0");
    assert_string_equal(f.tenant, "team=1");
    assert_string_equal(f.path, "/pre/api");
    source_peer_free(p);
    GS_AUTO_FREE char *token = file(&f, "token");
    GS_AUTO_FREE char *password = file(&f, "password");
    write_file(&f, "token", "first\n");
    o.token_file = token;
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
    source_peer_free(p);
    write_file(&f, "password", "p1");
    o.token_file = NULL;
    o.user = "u";
    o.password_file = password;
    p = make(&f, &o, "other:secret@"); // what is given beside the URL counts
    assert_int_equal(ask(&f, p), 200);
    assert_string_equal(f.authorization, "Basic dTpwMQ==");
    write_file(&f, "password", "p2");
    assert_int_equal(ask(&f, p), 200);
    assert_string_equal(f.authorization, "Basic dTpwMg==");
    source_peer_free(p);
    stop(&f);
}

static void test_new_ca(void **state)
{
    struct fixture f = {0};
    start(&f);
    GS_AUTO_FREE char *ca = file(&f, "ca");
    write_file(&f, "ca", f.other_ca.cert_pem);
    struct source_peer_options o = {.ca_file = ca};
    struct source_peer *p = make(&f, &o, "");
    assert_int_equal(ask(&f, p), 0); // verified, and of another CA
    write_file(&f, "ca", f.ca.cert_pem);
    assert_int_equal(ask(&f, p), 200);
    write_file(&f, "ca", "nonsense");
    (void)ask(&f, p);
    write_file(&f, "ca", f.ca.cert_pem);
    // Under way with the old ones while new ones come.
    static const struct http_callbacks callbacks = {.on_done = on_done};
    const struct http_call call = {.path = "/old"};
    source_peer_send(p, &call, &callbacks, &f);
    GS_AUTO_FREE char *both = gs_format("%s%s", f.ca.cert_pem, f.other_ca.cert_pem);
    write_file(&f, "ca", both);
    f.done = false;
    struct source_peer_op *gone = source_peer_send(p, &call, &callbacks, &f);
    source_peer_cancel(gone);
    while (!f.done)
        uv_run(&f.loop, UV_RUN_ONCE);
    assert_int_equal(f.status, 200);
    source_peer_free(p);
    stop(&f);
}

// Certificates that cannot be read end the start, and are named by their files.
static void test_broken_certificates(void **state)
{
    struct fixture f = {0};
    struct source_peer *p = NULL;
    start(&f);
    GS_AUTO_FREE char *ca = file(&f, "ca"), *token = file(&f, "token"),
                      *password = file(&f, "password");
    write_file(&f, "ca", "nonsense");
    write_file(&f, "token", f.ca.cert_pem);
    write_file(&f, "password", f.other_ca.key_pem);
    struct source_peer_options o = {.url = "https://h", .ca_file = ca};
    assert_error(source_peer_new(&f.loop, &o, &p), GS_EINVAL, ca);
    o = (struct source_peer_options){.url = "https://h", .ca_pem = "nonsense"};
    assert_error(source_peer_new(&f.loop, &o, &p), GS_EINVAL, "the CA certificate: ");
    o = (struct source_peer_options){.url = "https://h", .cert_file = ca, .key_file = password};
    assert_error(source_peer_new(&f.loop, &o, &p), GS_EINVAL, ca);
    o = (struct source_peer_options){.url = "https://h", .cert_file = token, .key_file = password};
    assert_error(source_peer_new(&f.loop, &o, &p), GS_EINVAL, "the key does not belong");
    stop(&f);
}

static void test_empty_header(void **state)
{
    static const char *const headers[] = {"X-Scope-OrgID"};
    static const char *const equals[] = {"X-Scope-OrgID="};
    struct fixture f = {0};
    start(&f);
    for (int i = 0; i < 2; i++) {
        struct source_peer_options o = {
            .ca_pem = f.ca.cert_pem, .headers = i ? equals : headers, .n_headers = 1};
        struct source_peer *p = make(&f, &o, "");
        assert_int_equal(ask(&f, p), 200);
        assert_non_null(f.tenant);
        assert_string_equal(f.tenant, "");
        source_peer_free(p);
    }
    stop(&f);
}

static void test_wrong(void **state)
{
    uv_loop_t loop;
    struct source_peer *p = NULL;
    uv_loop_init(&loop);
    static const char *const headers[] = {"=x"};
    struct source_peer_options o = {.url = "ftp://x"};
    assert_error(source_peer_new(&loop, &o, &p), GS_EINVAL, "want http://");
    o.url = "http://u:p@/x";
    assert_error(source_peer_new(&loop, &o, &p), GS_EINVAL, "host is missing");
    o.url = "http://u%zz@h";
    assert_error(source_peer_new(&loop, &o, &p), GS_EINVAL, "user and password");
    o = (struct source_peer_options){.url = "http://h", .headers = headers, .n_headers = 1};
    assert_error(source_peer_new(&loop, &o, &p), GS_EINVAL, "want Key=Value");
    o = (struct source_peer_options){.url = "http://h", .token_file = "/nonexistent/token"};
    assert_error(source_peer_new(&loop, &o, &p), GS_ENOTFOUND, "/nonexistent/token");
    o = (struct source_peer_options){.url = "https://h", .ca_file = "/nonexistent/ca"};
    assert_error(source_peer_new(&loop, &o, &p), GS_ENOTFOUND, "/nonexistent/ca");
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_credentials),
        cmocka_unit_test(test_new_ca),
        cmocka_unit_test(test_broken_certificates),
        cmocka_unit_test(test_empty_header),
        cmocka_unit_test(test_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
