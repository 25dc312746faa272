// SPDX-License-Identifier: Apache-2.0
// Which versions and cipher suites the HTTPS servers agree on, with a client that offers one kind
// each.
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "net/http/server.h"
#include "net/tls/tls.h"
#include "patience.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

struct fixture {
    uv_loop_t loop;
    struct http_server *server;
    struct tls_pair ca, leaf;
};

static void handle(void *ctx, struct http_exchange *x)
{
    (void)ctx;
    http_reply_text(x, 200, "ok");
}

static int setup(void **state)
{
    static const char *const addresses[] = {"127.0.0.1"};
    const struct tls_leaf want = {
        .common_name = "s", .ip_addresses = addresses, .n_ip_addresses = 1, .server = 1, .days = 1};
    struct fixture *f = gs_alloc(sizeof(*f));
    (void)signal(SIGPIPE, SIG_IGN);
    uv_loop_init(&f->loop);
    assert_ok(tls_make_ca("ca", 1, &f->ca));
    assert_ok(tls_make_leaf(&f->ca, &want, &f->leaf));
    const struct http_server_config cfg = {
        .address = "127.0.0.1", .cert_pem = f->leaf.cert_pem, .key_pem = f->leaf.key_pem};
    assert_ok(http_server_start(&f->loop, &cfg, handle, f, &f->server));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    http_server_stop(f->server);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    uv_loop_close(&f->loop);
    tls_pair_finish(&f->ca);
    tls_pair_finish(&f->leaf);
    free(f);
    return 0;
}

// The result of a handshake with these priorities: 0 or GnuTLS' error.
static int shake_hands(struct fixture *f, const char *priorities)
{
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons(http_server_port(f->server)),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(gnutls_certificate_allocate_credentials(&credentials), 0);
    assert_int_equal(gnutls_init(&session, GNUTLS_CLIENT | GNUTLS_NONBLOCK), 0);
    assert_int_equal(gnutls_priority_set_direct(session, priorities, NULL), 0);
    assert_int_equal(gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials), 0);
    gnutls_transport_set_int2(session, fd, fd);
    int64_t deadline = gs_mono_ns() + WAIT_NS;
    int rc;
    // The server runs in this thread, so its socket must not block here.
    while ((rc = gnutls_handshake(session)) == GNUTLS_E_AGAIN || rc == GNUTLS_E_INTERRUPTED) {
        assert_true(gs_mono_ns() < deadline);
        uv_run(&f->loop, UV_RUN_NOWAIT);
        usleep(200);
    }
    gnutls_deinit(session);
    gnutls_certificate_free_credentials(credentials);
    close(fd);
    return rc;
}

#define TLS12 "NORMAL:-VERS-ALL:+VERS-TLS1.2:-CIPHER-ALL:"

static void test_authenticated_encryption_is_accepted(void **state)
{
    static const char *const good[] = {
        TLS12 "+AES-128-GCM",
        TLS12 "+AES-256-GCM",
        TLS12 "+CHACHA20-POLY1305",
        "NORMAL:-VERS-ALL:+VERS-TLS1.3",
        "NORMAL",
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(good); i++) {
        int rc = shake_hands(*state, good[i]);
        if (rc)
            fail_msg("%s: %s", good[i], gnutls_strerror(rc));
    }
}

static void test_cbc_and_old_versions_are_refused(void **state)
{
    static const char *const bad[] = {
        TLS12 "+AES-128-CBC:+MAC-ALL",
        TLS12 "+AES-256-CBC:+MAC-ALL",
        TLS12 "+AES-128-CBC:+AES-256-CBC:+CAMELLIA-128-CBC:+3DES-CBC:+MAC-ALL",
        TLS12 "+AES-128-CCM:+AES-256-CCM",
        TLS12 "+AES-128-GCM:+AES-256-GCM:-KX-ALL:+RSA", // no forward secrecy
        "NORMAL:-VERS-ALL:+VERS-TLS1.1",
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++)
        if (shake_hands(*state, bad[i]) == 0)
            fail_msg("accepted: %s", bad[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_authenticated_encryption_is_accepted),
        cmocka_unit_test(test_cbc_and_old_versions_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
