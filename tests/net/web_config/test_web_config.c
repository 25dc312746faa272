// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"
#include "base/mem.h"
#include "certificates.h"
#include "codec/encoding.h"
#include "net/http/client.h"
#include "net/web_config/web_config.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

struct fixture {
    uv_loop_t loop;
    struct web_config *web;
    struct http_client *client;
    char *folder, *path;
    int status, passed;
};

static void passed(void *ctx, struct http_exchange *x)
{
    ((struct fixture *)ctx)->passed++;
    http_reply_text(x, 200, "in");
}

static void write_file(struct fixture *f, const char *text)
{
    assert_ok(gs_file_write_atomic(f->path, 0600, gs_slice_of(text)));
}

static int setup(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    char folder[] = "/tmp/gpuscale-web-XXXXXX";
    uv_loop_init(&f->loop);
    f->folder = gs_strdup(mkdtemp(folder));
    f->path = gs_format("%s/web.yml", f->folder);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    http_client_free(f->client);
    web_config_free(f->web);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    uv_loop_close(&f->loop);
    unlink(f->path);
    rmdir(f->folder);
    free(f->path);
    free(f->folder);
    free(f);
    return 0;
}

static void load(struct fixture *f, const char *text)
{
    write_file(f, text);
    assert_ok(web_config_load(f->path, &f->web));
    web_config_guard(f->web, passed, f);
    f->client = http_client_new_loopback(&f->loop, web_config_handle, f->web, NULL);
}

static void on_done(void *arg, const struct http_response *response, struct gs_error *err)
{
    ((struct fixture *)arg)->status = response->status;
    gs_error_free(err);
}

static int ask(struct fixture *f, const char *credentials)
{
    static const struct http_callbacks callbacks = {.on_done = on_done};
    GS_AUTO_BUF struct gs_buf value = {0};
    struct http_header headers[2] = {{0}};
    if (credentials) {
        gs_buf_add_str(&value, "Basic ");
        codec_base64_encode(gs_slice_of(credentials), &value);
        headers[0] = (struct http_header){"Authorization", value.data};
    }
    struct http_request request = {.path = "/", .headers = headers};
    f->status = 0;
    http_send(f->client, &request, &callbacks, f);
    for (int i = 0; i < 100 && !f->status; i++)
        uv_run(&f->loop, UV_RUN_NOWAIT);
    return f->status;
}

// The hash is of "secret".
static const char users[] =
    "basic_auth_users:\n"
    "  alice: '$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW'\n";

static void test_users(void **state)
{
    struct fixture *f = *state;
    load(f, users);
    assert_int_equal(ask(f, NULL), 401);
    assert_int_equal(ask(f, "alice:wrong"), 401);
    assert_int_equal(ask(f, "bob:secret"), 401);
    assert_int_equal(ask(f, "alice"), 401);
    assert_int_equal(f->passed, 0);
    assert_int_equal(ask(f, "alice:secret"), 200);
    assert_int_equal(ask(f, "alice:secret"), 200);
    assert_int_equal(ask(f, "alice:secret2"), 401);
    assert_int_equal(f->passed, 2);
}

// Guesses are not checked without end, and who is known gets in meanwhile.
static void test_guessing(void **state)
{
    struct fixture *f = *state;
    load(f, users);
    assert_int_equal(ask(f, "alice:secret"), 200);
    for (int i = 0; i < 200; i++) {
        GS_AUTO_FREE char *guess = gs_format("alice:%d", i);
        assert_int_equal(ask(f, guess), 401);
    }
    assert_int_equal(ask(f, "alice:secret"), 200);
}

static void test_none(void **state)
{
    struct fixture *f = *state;
    load(f, "# nothing\n");
    assert_false(web_config_tls(f->web));
    assert_int_equal(ask(f, NULL), 200);
}

static void test_wrong_files(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"tls_config: {}\n", "unsupported key \"tls_config\""},
        {"tls_server_config: {cert: x}\n", "a certificate and its key are required"},
        {"tls_server_config: {cert: x, key: k, cipher_suites: [a]}\n", "\"cipher_suites\""},
        {"tls_server_config: {cert: x, key: k, min_version: TLS13}\n", "TLS 1.2 and 1.3"},
        {"tls_server_config: {cert: x, key: k, client_auth_type: Sometimes}\n", "\"Sometimes\""},
        {"tls_server_config: {cert: x, key: k, client_ca: z}\n",
         "a client CA requires client_auth_type"},
        {"tls_server_config: {cert_file: gone.pem, key: k}\n", "gone.pem"},
        {"basic_auth_users: {alice: secret}\n", "alice: want a bcrypt hash"},
        {"basic_auth_users: {alice: 5}\n", "alice: want a bcrypt hash"},
        {"http_server_config: {rate_limit: {}}\n", "\"rate_limit\""},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct web_config *w = NULL;
        write_file(f, cases[i].text);
        struct gs_error *err = web_config_load(f->path, &w);
        if (!err || !strstr(gs_error_message(err), cases[i].error))
            fail_msg("%s gives: %s", cases[i].text, err ? gs_error_message(err) : "no error");
        gs_error_free(err);
    }
}

static char *indented(const char *pem)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    for (const char *line = pem; *line;) {
        size_t n = strcspn(line, "\n");
        gs_buf_addf(&out, "    %.*s\n", (int)n, line);
        line += n + (line[n] == '\n');
    }
    return gs_buf_take(&out);
}

static void write_pair(struct fixture *f, const char *cert_pem, const char *key_pem)
{
    GS_AUTO_FREE char *cert = indented(cert_pem);
    GS_AUTO_FREE char *key = indented(key_pem);
    GS_AUTO_FREE char *text = gs_format("tls_server_config:\n  cert: |\n%s  key: |\n%s", cert, key);
    write_file(f, text);
}

static const char *served(const struct web_config *w)
{
    struct http_server_config cfg = {0};
    web_config_apply(w, &cfg);
    return cfg.cert_pem;
}

// A certificate that is expired, not yet valid or of another key does not replace a valid one.
static void test_renewal(void **state)
{
    struct fixture *f = *state;
    GS_CLEANUP(tls_pair_finish)
    struct tls_pair good = {0}, better = {0}, expired = {0}, future = {0};
    make_certificate(-1, 100, &good);
    make_certificate(-1, 200, &better);
    make_certificate(-3, -1, &expired);
    make_certificate(1, 100, &future);
    write_pair(f, expired.cert_pem, expired.key_pem); // better than none
    assert_ok(web_config_load(f->path, &f->web));
    write_pair(f, good.cert_pem, good.key_pem);
    assert_ok(web_config_renew(f->web, f->path, NULL, 0));
    assert_string_equal(served(f->web), good.cert_pem);
    write_pair(f, expired.cert_pem, expired.key_pem);
    assert_error(web_config_renew(f->web, f->path, NULL, 0), GS_EINVAL, "expired at");
    write_pair(f, future.cert_pem, future.key_pem);
    assert_error(web_config_renew(f->web, f->path, NULL, 0), GS_EINVAL, "is not valid before");
    write_pair(f, better.cert_pem, good.key_pem);
    assert_error(web_config_renew(f->web, f->path, NULL, 0), GS_EINVAL, "key");
    assert_string_equal(served(f->web), good.cert_pem);
    write_pair(f, better.cert_pem, better.key_pem);
    assert_ok(web_config_renew(f->web, f->path, NULL, 0));
    assert_string_equal(served(f->web), better.cert_pem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_users, setup, teardown),
        cmocka_unit_test_setup_teardown(test_guessing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_none, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wrong_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_renewal, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
