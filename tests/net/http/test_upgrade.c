// SPDX-License-Identifier: Apache-2.0
// Connections that change to another protocol, without and with TLS.
#include "patience.h"

#include "base/mem.h"
#include "net/http/server.h"
#include "net/tls/tls.h"
#include "raw_socket.h"

#include <gnutls/gnutls.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define HEAD "GET /echo HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"

struct fixture {
    uv_loop_t loop;
    struct http_server *server;
    struct tls_pair ca, pair;
    struct http_upgrade *upgrade;
    bool silent; // keeps what arrives
    size_t received;
    int drained, closed;
};

static void turn(struct fixture *f)
{
    uv_run(&f->loop, UV_RUN_NOWAIT);
    usleep(200);
}

#define wait_until(f, condition)                                                                   \
    do {                                                                                           \
        for (int64_t end_ = gs_mono_ns() + WAIT_NS; !(condition); turn(f))                         \
            assert_true(gs_mono_ns() < end_);                                                      \
    } while (0)

static void on_data(void *arg, struct gs_slice bytes)
{
    struct fixture *f = arg;
    f->received += bytes.len;
    if (!f->silent)
        http_upgrade_write(f->upgrade, bytes);
    if (bytes.len && bytes.data[bytes.len - 1] == '!')
        http_upgrade_end(f->upgrade);
}

static void on_drained(void *arg)
{
    ((struct fixture *)arg)->drained++;
}

static void on_close(void *arg)
{
    struct fixture *f = arg;
    f->upgrade = NULL;
    f->closed++;
}

static void handle(void *ctx, struct http_exchange *x)
{
    static const struct http_upgrade_callbacks callbacks = {on_data, on_drained, on_close};
    struct fixture *f = ctx;
    http_add_header(x, "X-Chosen", "yes");
    f->upgrade = http_reply_upgrade(x, "echo", &callbacks, f);
    assert_non_null(f->upgrade);
}

static void start(struct fixture *f, bool tls)
{
    struct http_server_config cfg = {.address = "127.0.0.1"};
    if (tls) {
        const struct tls_leaf leaf = {.common_name = "server", .server = 1, .days = 1};
        assert_null(tls_make_ca("test CA", 1, &f->ca));
        assert_null(tls_make_leaf(&f->ca, &leaf, &f->pair));
        cfg.cert_pem = f->pair.cert_pem;
        cfg.key_pem = f->pair.key_pem;
    }
    assert_null(http_server_start(&f->loop, &cfg, handle, f, &f->server));
}

static int setup(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    uv_loop_init(&f->loop);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    http_server_stop(f->server);
    wait_until(f, uv_loop_alive(&f->loop) == 0);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    tls_pair_finish(&f->ca);
    tls_pair_finish(&f->pair);
    free(f);
    return 0;
}

// Appends what has arrived; false at the end.
static bool take(int fd, struct gs_buf *out)
{
    char chunk[65536];
    ssize_t n = recv(fd, chunk, sizeof(chunk), 0);
    if (n > 0)
        gs_buf_add(out, chunk, (size_t)n);
    return n != 0;
}

static int open_echo(struct fixture *f, struct gs_buf *in)
{
    int fd = raw_connect(f->server);
    assert_true(raw_send(fd, HEAD));
    wait_until(f, take(fd, in) && in->len && strstr(in->data, "\r\n\r\n"));
    assert_true(gs_starts(in->data, "HTTP/1.1 101 "));
    assert_non_null(strstr(in->data, "\r\nConnection: Upgrade\r\n"));
    assert_non_null(strstr(in->data, "\r\nUpgrade: echo\r\n"));
    assert_non_null(strstr(in->data, "\r\nX-Chosen: yes\r\n"));
    gs_buf_clear(in);
    return fd;
}

static void test_bytes_go_both_ways(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_BUF struct gs_buf in = {0};
    start(f, false);
    int fd = open_echo(f, &in);
    assert_true(raw_send(fd, "hello"));
    wait_until(f, take(fd, &in) && in.len == 5);
    assert_true(raw_send(fd, " bye!"));
    wait_until(f, !take(fd, &in));
    assert_string_equal(in.data, "hello bye!");
    close(fd);
    wait_until(f, f->closed == 1);
}

static void test_the_end_of_the_peer_closes(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_BUF struct gs_buf in = {0};
    start(f, false);
    int fd = open_echo(f, &in);
    close(fd);
    wait_until(f, f->closed == 1);
}

static void test_a_peer_that_leaves_while_reading_is_paused_closes(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_BUF struct gs_buf in = {0};
    start(f, false);
    int fd = open_echo(f, &in);
    http_upgrade_pause(f->upgrade, true);
    assert_true(raw_send(fd, "nobody reads this"));
    close(fd);
    wait_until(f, f->closed == 1);
}

static void test_nothing_is_read_while_paused(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_BUF struct gs_buf in = {0};
    start(f, false);
    int fd = open_echo(f, &in);
    http_upgrade_pause(f->upgrade, true);
    assert_true(raw_send(fd, "later"));
    for (int i = 0; i < 50; i++)
        turn(f);
    assert_int_equal(f->received, 0);
    http_upgrade_pause(f->upgrade, false);
    wait_until(f, take(fd, &in) && in.len == 5);
    close(fd);
    wait_until(f, f->closed == 1);
}

static void test_a_peer_that_reads_nothing_is_closed_at_the_limit(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_BUF struct gs_buf in = {0};
    GS_AUTO_FREE char *block = gs_alloc(1024 * 1024);
    start(f, false);
    int fd = open_echo(f, &in);
    for (int i = 0; i < 64 && f->upgrade; i++) {
        http_upgrade_write(f->upgrade, gs_slice_make(block, 1024 * 1024));
        turn(f);
    }
    wait_until(f, f->closed == 1);
    close(fd);
}

static void test_drained_follows_a_full_socket(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_BUF struct gs_buf in = {0};
    GS_AUTO_FREE char *block = gs_alloc(1024 * 1024);
    start(f, false);
    int fd = open_echo(f, &in);
    size_t sent = 0;
    while (!http_upgrade_pending(f->upgrade)) {
        http_upgrade_write(f->upgrade, gs_slice_make(block, 1024 * 1024));
        sent += 1024 * 1024;
    }
    wait_until(f, take(fd, &in) && in.len == sent);
    wait_until(f, f->drained > 0);
    assert_int_equal(http_upgrade_pending(f->upgrade), 0);
    close(fd);
    wait_until(f, f->closed == 1);
}

static void test_a_stop_of_the_server_closes(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_BUF struct gs_buf in = {0};
    start(f, false);
    int fd = open_echo(f, &in);
    http_server_stop(f->server);
    f->server = NULL;
    assert_int_equal(f->closed, 1);
    wait_until(f, !take(fd, &in));
    close(fd);
}

static void test_tls_carries_any_amount(void **state)
{
    enum { TOTAL = 3 * 1024 * 1024 };
    struct fixture *f = *state;
    gnutls_certificate_credentials_t trust;
    gnutls_session_t session;
    GS_AUTO_FREE char *block = gs_alloc(TOTAL);
    char chunk[32768];
    start(f, true);
    int fd = raw_connect(f->server);
    gnutls_certificate_allocate_credentials(&trust);
    gnutls_init(&session, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);
    gnutls_set_default_priority(session);
    gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, trust);
    gnutls_transport_set_int(session, fd);
    wait_until(f, gnutls_handshake(session) == 0);
    wait_until(f, gnutls_record_send(session, HEAD, strlen(HEAD)) > 0);
    ssize_t n;
    wait_until(f, (n = gnutls_record_recv(session, chunk, sizeof(chunk))) > 0);
    assert_memory_equal(chunk, "HTTP/1.1 101 ", 13);
    for (size_t i = 0; i < TOTAL; i++)
        block[i] = (char)(i * 31 >> 3);
    size_t sent = 0, got = 0;
    for (int64_t end = gs_mono_ns() + WAIT_NS; got < TOTAL; turn(f)) {
        assert_true(gs_mono_ns() < end);
        n = sent < TOTAL ? gnutls_record_send(session, block + sent, TOTAL - sent) : 0;
        sent += n > 0 ? (size_t)n : 0;
        while ((n = gnutls_record_recv(session, chunk, sizeof(chunk))) > 0) {
            assert_memory_equal(chunk, block + got, (size_t)n);
            got += (size_t)n;
        }
    }
    http_upgrade_end(f->upgrade);
    wait_until(f, gnutls_record_recv(session, chunk, sizeof(chunk)) == 0);
    gnutls_deinit(session);
    gnutls_certificate_free_credentials(trust);
    close(fd);
    wait_until(f, f->closed == 1);
}

int main(void)
{
#define UPGRADE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        UPGRADE_TEST(test_bytes_go_both_ways),
        UPGRADE_TEST(test_the_end_of_the_peer_closes),
        UPGRADE_TEST(test_a_peer_that_leaves_while_reading_is_paused_closes),
        UPGRADE_TEST(test_nothing_is_read_while_paused),
        UPGRADE_TEST(test_a_peer_that_reads_nothing_is_closed_at_the_limit),
        UPGRADE_TEST(test_drained_follows_a_full_socket),
        UPGRADE_TEST(test_a_stop_of_the_server_closes),
        UPGRADE_TEST(test_tls_carries_any_amount),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
