// SPDX-License-Identifier: Apache-2.0
// TLS with real sockets: a server on a TCP port, and clients that it must accept or refuse.
#include "certificates.h"
#include "patience.h"

#include "base/file.h"
#include "net/grpc/grpc.h"
#include "net/grpc/tls_files.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

struct fixture {
    uv_loop_t loop;
    struct grpc_server *server;
    struct tls_pair ca, other_ca, serving, client, stranger;
    char target[64];
    uint16_t port;
};

struct result {
    int done;
    enum grpc_status status;
    char *message;
    struct gs_buf body;
};

static void handle_echo(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    grpc_call_send(call, request);
    grpc_call_finish(call, GRPC_OK, NULL);
}

static void make_leaf(const struct tls_pair *ca, bool server, struct tls_pair *ret)
{
    static const char *const names[] = {"plug.example"}, *const addresses[] = {"127.0.0.1"};
    const struct tls_leaf leaf = {.common_name = server ? "server" : "client",
                                  .dns_names = names,
                                  .n_dns_names = 1,
                                  .ip_addresses = addresses,
                                  .n_ip_addresses = 1,
                                  .server = server,
                                  .days = 1};
    assert_ok(tls_make_leaf(ca, &leaf, ret));
}

static struct fixture *setup(void)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    (void)signal(SIGPIPE, SIG_IGN);
    uv_loop_init(&f->loop);
    assert_ok(tls_make_ca("ca", 1, &f->ca));
    assert_ok(tls_make_ca("another ca", 1, &f->other_ca));
    make_leaf(&f->ca, true, &f->serving);
    make_leaf(&f->ca, false, &f->client);
    make_leaf(&f->other_ca, false, &f->stranger);
    f->server = grpc_server_new(&f->loop);
    grpc_server_handle(f->server, "/t.T/Echo", handle_echo, f);
    assert_ok(grpc_server_listen_tcp(f->server, "127.0.0.1", 0, &f->port));
    (void)snprintf(f->target, sizeof(f->target), "127.0.0.1:%u", f->port);
    return f;
}

static void teardown(struct fixture *f)
{
    grpc_server_free(f->server);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    struct tls_pair *pairs[] = {&f->ca, &f->other_ca, &f->serving, &f->client, &f->stranger};
    for (size_t i = 0; i < GS_ARRAY_LEN(pairs); i++)
        tls_pair_finish(pairs[i]);
    free(f);
}

static void serve(struct fixture *f, const struct tls_pair *pair, const char *client_ca)
{
    const struct grpc_tls tls = {
        .cert_pem = pair->cert_pem, .key_pem = pair->key_pem, .ca_pem = client_ca};
    assert_ok(grpc_server_set_tls(f->server, &tls));
}

static void on_reply(void *arg, const struct grpc_reply *reply)
{
    struct result *r = arg;
    r->done++;
    r->status = reply->status;
    r->message = gs_strdup(reply->message);
    gs_buf_add_slice(&r->body, reply->body);
}

static void drop(struct result *r)
{
    free(r->message);
    gs_buf_finish(&r->body);
    *r = (struct result){0};
}

static void call(struct fixture *f, struct grpc_client *c, struct gs_slice request,
                 struct result *ret)
{
    grpc_client_call(c, "/t.T/Echo", request, WAIT_MS, on_reply, ret);
    while (!ret->done)
        uv_run(&f->loop, UV_RUN_ONCE);
}

// tls NULL: cleartext.
static struct grpc_client *connect_to(struct fixture *f, const struct grpc_tls *tls)
{
    struct grpc_client *c = NULL;
    assert_ok(grpc_client_new(&f->loop, f->target, &c));
    if (tls)
        assert_ok(grpc_client_set_tls(c, tls));
    return c;
}

static void expect(struct fixture *f, const struct grpc_tls *tls, enum grpc_status status,
                   const char *message)
{
    struct grpc_client *c = connect_to(f, tls);
    struct result r = {0};
    call(f, c, GS_SLICE("hello"), &r);
    if (r.status != status || !strstr(r.message, message))
        fail_msg("status %d: %s; expected %d: %s", (int)r.status, r.message, (int)status, message);
    if (status == GRPC_OK)
        assert_string_equal(r.body.data, "hello");
    drop(&r);
    grpc_client_free(c);
}

// --- tests ---

static void test_server_certificate(void **state)
{
    struct fixture *f = setup();
    serve(f, &f->serving, NULL);
    struct grpc_tls tls = {.ca_pem = f->ca.cert_pem, .server_name = "127.0.0.1"};
    expect(f, &tls, GRPC_OK, "");
    tls.server_name = "plug.example";
    expect(f, &tls, GRPC_OK, "");
    tls.server_name = "other.example";
    expect(f, &tls, GRPC_UNAVAILABLE, "name in the certificate does not match");
    tls.server_name = "plug.example";
    tls.ca_pem = f->other_ca.cert_pem;
    expect(f, &tls, GRPC_UNAVAILABLE, "issuer is unknown");
    teardown(f);
}

static void test_client_certificate_is_required_and_verified(void **state)
{
    struct fixture *f = setup();
    serve(f, &f->serving, f->ca.cert_pem);
    struct grpc_tls tls = {.ca_pem = f->ca.cert_pem,
                           .server_name = "plug.example",
                           .cert_pem = f->client.cert_pem,
                           .key_pem = f->client.key_pem};
    expect(f, &tls, GRPC_OK, "");
    tls.cert_pem = f->stranger.cert_pem;
    tls.key_pem = f->stranger.key_pem;
    expect(f, &tls, GRPC_UNAVAILABLE, f->target);
    tls.cert_pem = f->serving.cert_pem; // of the right CA, but not a client's
    tls.key_pem = f->serving.key_pem;
    expect(f, &tls, GRPC_UNAVAILABLE, f->target);
    tls.cert_pem = tls.key_pem = NULL;
    expect(f, &tls, GRPC_UNAVAILABLE, f->target);
    teardown(f);
}

static void test_expired_certificate(void **state)
{
    struct fixture *f = setup();
    GS_CLEANUP(tls_pair_finish) struct tls_pair expired = {0};
    make_certificate(-3, -1, &expired);
    serve(f, &expired, NULL);
    const struct grpc_tls tls = {.ca_pem = expired.cert_pem, .server_name = "test"};
    expect(f, &tls, GRPC_UNAVAILABLE, "expired");
    teardown(f);
}

static void test_plaintext_peers(void **state)
{
    struct fixture *f = setup();
    const struct grpc_tls tls = {.ca_pem = f->ca.cert_pem, .server_name = "plug.example"};
    expect(f, &tls, GRPC_UNAVAILABLE, f->target); // the server speaks plain HTTP/2
    serve(f, &f->serving, NULL);
    expect(f, NULL, GRPC_UNAVAILABLE, f->target);
    expect(f, &tls, GRPC_OK, "");
    teardown(f);
}

static void test_messages_of_any_size(void **state)
{
    struct fixture *f = setup();
    const size_t max = GRPC_MAX_MESSAGE, more = max + max / 2;
    serve(f, &f->serving, NULL);
    const struct grpc_tls tls = {.ca_pem = f->ca.cert_pem, .server_name = "plug.example"};
    GS_AUTO_FREE char *big = gs_alloc(more);
    for (size_t i = 0; i < more; i++)
        big[i] = (char)(i * 7);
    const size_t sizes[] = {0, 1, 16383, 16384, 16385, 1000000, max};
    struct grpc_client *c = connect_to(f, &tls);
    for (size_t i = 0; i < GS_ARRAY_LEN(sizes); i++) {
        struct result r = {0};
        call(f, c, gs_slice_make(big, sizes[i]), &r);
        assert_int_equal(r.status, GRPC_OK);
        assert_int_equal(r.body.len, sizes[i]);
        assert_true(sizes[i] == 0 || memcmp(r.body.data, big, sizes[i]) == 0);
        drop(&r);
    }
    grpc_client_free(c);

    struct result r = {0};
    c = connect_to(f, &tls);
    grpc_client_set_max_message(c, 2 * max);
    call(f, c, gs_slice_make(big, more), &r);
    assert_int_equal(r.status, GRPC_RESOURCE_EXHAUSTED);
    assert_string_equal(r.message, "the message is larger than the limit of 16 MiB");
    drop(&r);
    grpc_client_free(c);

    grpc_server_set_max_message(f->server, 2 * max);
    c = connect_to(f, &tls);
    grpc_client_set_max_message(c, 2 * max);
    call(f, c, gs_slice_make(big, more), &r);
    assert_int_equal(r.status, GRPC_OK);
    assert_int_equal(r.body.len, more);
    drop(&r);
    grpc_client_free(c);
    teardown(f);
}

static int open_socket(const struct fixture *f)
{
    struct sockaddr_in sa = {
        .sin_family = AF_INET, .sin_port = htons(f->port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    return fd;
}

// Peers that say nothing, or half of something, or nonsense.
static void test_bad_peers_do_not_stop_others(void **state)
{
    static const char half[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    struct fixture *f = setup();
    int fds[60];
    serve(f, &f->serving, f->ca.cert_pem);
    for (size_t i = 0; i < GS_ARRAY_LEN(fds); i++) {
        fds[i] = open_socket(f);
        if (i % 3 == 1)
            assert_int_equal(write(fds[i], half, sizeof(half) - 1), sizeof(half) - 1);
        else if (i % 3 == 2)
            assert_int_equal(write(fds[i], "GET / HTTP/1.1\r\n\r\n", 18), 18);
    }
    const struct grpc_tls tls = {.ca_pem = f->ca.cert_pem,
                                 .server_name = "plug.example",
                                 .cert_pem = f->client.cert_pem,
                                 .key_pem = f->client.key_pem};
    expect(f, &tls, GRPC_OK, "");
    char bytes[256];
    ssize_t n;
    int64_t end = gs_mono_ns() + WAIT_NS;
    do { // nonsense: an alert, then the end
        uv_run(&f->loop, UV_RUN_NOWAIT);
        n = recv(fds[2], bytes, sizeof(bytes), MSG_DONTWAIT);
    } while ((n > 0 || (n < 0 && errno == EAGAIN)) && gs_mono_ns() < end);
    assert_true(n == 0 || (n < 0 && errno == ECONNRESET));
    expect(f, &tls, GRPC_OK, "");
    for (size_t i = 0; i < GS_ARRAY_LEN(fds); i++)
        close(fds[i]);
    teardown(f);
}

static void test_broken_settings(void **state)
{
    struct fixture *f = setup();
    struct grpc_tls tls = {.cert_pem = f->serving.cert_pem};
    assert_error(grpc_server_set_tls(f->server, &tls), GS_EINVAL, "a certificate and its key");
    tls.key_pem = f->client.key_pem;
    assert_error(grpc_server_set_tls(f->server, &tls), GS_EINVAL, "does not belong");
    tls.key_pem = f->serving.key_pem;
    tls.ca_pem = "no certificate";
    assert_error(grpc_server_set_tls(f->server, &tls), GS_EINVAL, "the CA");
    struct grpc_client *c = connect_to(f, NULL);
    tls = (struct grpc_tls){.ca_pem = f->ca.cert_pem};
    assert_error(grpc_client_set_tls(c, &tls), GS_EINVAL, "CA and name");
    grpc_client_free(c);
    expect(f, NULL, GRPC_OK, ""); // nothing changed
    teardown(f);
}

// --- files ---

struct folder {
    char dir[64], cert[96], key[96], ca[96];
};

static void write_pair(const struct folder *d, const struct tls_pair *pair)
{
    assert_ok(gs_file_write_atomic(d->cert, 0644, gs_slice_of(pair->cert_pem)));
    assert_ok(gs_file_write_atomic(d->key, 0600, gs_slice_of(pair->key_pem)));
}

static void make_folder(struct folder *d)
{
    (void)snprintf(d->dir, sizeof(d->dir), "/tmp/gs-grpc-tls-XXXXXX");
    assert_non_null(mkdtemp(d->dir));
    (void)snprintf(d->cert, sizeof(d->cert), "%s/tls.crt", d->dir);
    (void)snprintf(d->key, sizeof(d->key), "%s/tls.key", d->dir);
    (void)snprintf(d->ca, sizeof(d->ca), "%s/ca.crt", d->dir);
}

static void remove_folder(const struct folder *d)
{
    unlink(d->cert);
    unlink(d->key);
    unlink(d->ca);
    assert_int_equal(rmdir(d->dir), 0);
}

static void test_renewed_files(void **state)
{
    struct fixture *f = setup();
    struct folder d;
    struct grpc_tls_files *files = NULL;
    make_folder(&d);
    const struct grpc_tls_paths paths = {d.cert, d.key, d.ca};
    assert_error(grpc_tls_files_new(&f->loop, f->server, &paths, &files), GS_ENOTFOUND, d.cert);
    write_pair(&d, &f->serving);
    assert_ok(gs_file_write_atomic(d.ca, 0644, gs_slice_of(f->ca.cert_pem)));
    assert_ok(grpc_tls_files_new(&f->loop, f->server, &paths, &files));
    struct grpc_tls tls = {.ca_pem = f->ca.cert_pem,
                           .server_name = "plug.example",
                           .cert_pem = f->client.cert_pem,
                           .key_pem = f->client.key_pem};
    expect(f, &tls, GRPC_OK, "");

    // A broken certificate does not replace the one in use; a good one does.
    assert_ok(gs_file_write_atomic(d.cert, 0644, GS_SLICE("garbage")));
    for (int i = 0; i < 100; i++)
        uv_run(&f->loop, UV_RUN_NOWAIT);
    expect(f, &tls, GRPC_OK, "");
    GS_CLEANUP(tls_pair_finish) struct tls_pair renewed = {0};
    make_leaf(&f->other_ca, true, &renewed);
    write_pair(&d, &renewed);
    tls.ca_pem = f->other_ca.cert_pem;
    int64_t end = gs_mono_ns() + WAIT_NS;
    enum grpc_status status = GRPC_UNKNOWN;
    while (status != GRPC_OK && gs_mono_ns() < end) {
        struct grpc_client *c = connect_to(f, &tls);
        struct result r = {0};
        call(f, c, GS_SLICE("hello"), &r);
        status = r.status;
        drop(&r);
        grpc_client_free(c);
        usleep(10000);
    }
    assert_int_equal(status, GRPC_OK);
    grpc_tls_files_free(files);
    remove_folder(&d);
    teardown(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_server_certificate),
        cmocka_unit_test(test_client_certificate_is_required_and_verified),
        cmocka_unit_test(test_expired_certificate),
        cmocka_unit_test(test_plaintext_peers),
        cmocka_unit_test(test_messages_of_any_size),
        cmocka_unit_test(test_bad_peers_do_not_stop_others),
        cmocka_unit_test(test_broken_settings),
        cmocka_unit_test(test_renewed_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
