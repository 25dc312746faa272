// SPDX-License-Identifier: Apache-2.0
// TLS of a connection. GnuTLS reads and writes buffers here, never the socket, so a peer that is
// slow blocks nobody. The connection feeds received bytes and sends what GnuTLS has encrypted.
#include "net/tls/tls.h"
#include "base/mem.h"
#include "base/timer.h"
#include "net/grpc/grpc_private.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>

enum {
    HANDSHAKE_MS = 10000,            // a peer that is slower is disconnected
    MAX_HANDSHAKE_BYTES = 64 * 1024, // of one handshake message: certificate chains
    RECORD = 16 * 1024,
};

// As the HTTP servers: authenticated encryption and forward secrecy only, which HTTP/2 requires,
// too (RFC 9113, section 9.2).
#define PRIORITIES                                                                                 \
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:-CIPHER-ALL:+AES-256-GCM:+AES-128-GCM:"       \
    "+CHACHA20-POLY1305"

struct grpc_tls_credentials {
    unsigned refs; // the owner's, and one for each connection
    bool server, verifies;
    char *server_name;
    gnutls_certificate_credentials_t certificates;
    gnutls_priority_t priorities;
};

struct grpc_tls_session {
    struct grpc_conn *conn;
    struct grpc_tls_credentials *credentials;
    gnutls_session_t session;
    struct gs_timer *deadline; // of the handshake
    struct gs_buf in, out;     // encrypted: received and not yet read, not yet sent
    size_t in_read;
    bool secured;
    char plain[RECORD];
};

// --- credentials ---

void grpc_tls_credentials_unref(struct grpc_tls_credentials *c)
{
    if (!c || --c->refs > 0)
        return;
    if (c->certificates)
        gnutls_certificate_free_credentials(c->certificates);
    if (c->priorities)
        gnutls_priority_deinit(c->priorities);
    free(c->server_name);
    free(c);
}

static gnutls_datum_t datum_of(const char *text)
{
    return (gnutls_datum_t){(unsigned char *)(uintptr_t)text, (unsigned)strlen(text)};
}

static struct gs_error *load_pair(struct grpc_tls_credentials *c, const struct grpc_tls *tls)
{
    struct gs_error *err = tls_check_pair(tls->cert_pem, tls->key_pem);
    if (err)
        return gs_error_wrap(err, "the certificate");
    gnutls_datum_t cert = datum_of(tls->cert_pem), key = datum_of(tls->key_pem);
    int rc = gnutls_certificate_set_x509_key_mem2(c->certificates, &cert, &key, GNUTLS_X509_FMT_PEM,
                                                  NULL, 0);
    return rc >= 0 ? NULL : gs_error_new(GS_EINVAL, "the certificate: %s", gnutls_strerror(rc));
}

static struct gs_error *load_ca(struct grpc_tls_credentials *c, const char *ca_pem)
{
    struct gs_error *err = tls_check_certificates(ca_pem);
    gnutls_datum_t ca = datum_of(ca_pem);
    int rc =
        err ? 0 : gnutls_certificate_set_x509_trust_mem(c->certificates, &ca, GNUTLS_X509_FMT_PEM);
    if (!err && rc <= 0)
        err = gs_error_new(GS_EINVAL, "no certificate of an authority in it (%s)",
                           gnutls_strerror(rc));
    return err ? gs_error_wrap(err, "the CA") : NULL;
}

struct gs_error *grpc_tls_credentials_new(const struct grpc_tls *tls, bool server,
                                          struct grpc_tls_credentials **ret)
{
    if ((server && !tls->cert_pem) || !tls->cert_pem != !tls->key_pem)
        return gs_error_new(GS_EINVAL, "TLS requires a certificate and its key");
    if (!server && (!tls->ca_pem || !tls->server_name))
        return gs_error_new(GS_EINVAL, "TLS requires the server's CA and name");
    struct grpc_tls_credentials *c = gs_alloc(sizeof(*c));
    struct gs_error *err = NULL;
    c->refs = 1;
    c->server = server;
    c->verifies = tls->ca_pem != NULL;
    c->server_name = gs_strdup(tls->server_name);
    int rc = gnutls_certificate_allocate_credentials(&c->certificates);
    if (rc >= 0)
        rc = gnutls_priority_init(&c->priorities, PRIORITIES, NULL);
    if (rc < 0)
        err = gs_error_new(GS_ELIMIT, "TLS: %s", gnutls_strerror(rc));
    if (!err && tls->cert_pem)
        err = load_pair(c, tls);
    if (!err && tls->ca_pem)
        err = load_ca(c, tls->ca_pem);
    if (err) {
        grpc_tls_credentials_unref(c);
        return err;
    }
    *ret = c;
    return NULL;
}

// --- the socket's side ---

static ssize_t pull(gnutls_transport_ptr_t arg, void *out, size_t max)
{
    struct grpc_tls_session *t = arg;
    size_t n = t->in.len - t->in_read < max ? t->in.len - t->in_read : max;
    if (n == 0) {
        gnutls_transport_set_errno(t->session, EAGAIN);
        return -1;
    }
    memcpy(out, t->in.data + t->in_read, n);
    t->in_read += n;
    if (t->in_read == t->in.len) {
        gs_buf_clear(&t->in);
        t->in_read = 0;
    }
    return (ssize_t)n;
}

static ssize_t push(gnutls_transport_ptr_t arg, const void *data, size_t len)
{
    struct grpc_tls_session *t = arg;
    gs_buf_add(&t->out, data, len);
    return (ssize_t)len;
}

static int pull_is_ready(gnutls_transport_ptr_t arg, unsigned ms)
{
    struct grpc_tls_session *t = arg;
    return t->in.len > t->in_read;
}

// --- life ---

static int set_up(struct grpc_tls_session *t)
{
    const struct grpc_tls_credentials *c = t->credentials;
    const gnutls_datum_t h2 = {(unsigned char *)(uintptr_t) "h2", 2};
    const char *name = c->server_name;
    int rc = gnutls_init(&t->session, (c->server ? GNUTLS_SERVER : GNUTLS_CLIENT) |
                                          GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL);
    if (rc >= 0)
        rc = gnutls_priority_set(t->session, c->priorities);
    if (rc >= 0)
        rc = gnutls_credentials_set(t->session, GNUTLS_CRD_CERTIFICATE, c->certificates);
    if (rc >= 0)
        rc = gnutls_alpn_set_protocols(t->session, &h2, 1, GNUTLS_ALPN_MANDATORY);
    struct in6_addr address;
    bool is_address = name && (inet_pton(AF_INET, name, &address) == 1 ||
                               inet_pton(AF_INET6, name, &address) == 1);
    if (rc >= 0 && name && !is_address) // an address is never sent as a name (RFC 6066)
        rc = gnutls_server_name_set(t->session, GNUTLS_NAME_DNS, name, strlen(name));
    if (rc < 0)
        return rc;
    if (c->server && c->verifies)
        gnutls_certificate_server_set_request(t->session, GNUTLS_CERT_REQUIRE);
    gnutls_handshake_set_max_packet_length(t->session, MAX_HANDSHAKE_BYTES);
    gnutls_transport_set_ptr(t->session, t);
    gnutls_transport_set_pull_function(t->session, pull);
    gnutls_transport_set_pull_timeout_function(t->session, pull_is_ready);
    gnutls_transport_set_push_function(t->session, push);
    return 0;
}

static void on_handshake_deadline(void *arg)
{
    struct grpc_tls_session *t = arg;
    grpc_conn_close(t->conn, "TLS: the handshake was not complete within 10 s");
}

bool grpc_tls_start(struct grpc_conn *conn, struct grpc_tls_credentials *c)
{
    struct grpc_tls_session *t = gs_alloc(sizeof(*t));
    t->conn = conn;
    t->credentials = c;
    c->refs++;
    t->deadline = gs_timer_new(conn->loop, t);
    conn->tls = t;
    int rc = set_up(t);
    if (rc < 0) {
        grpc_conn_close(conn, gnutls_strerror(rc));
        return false;
    }
    gs_timer_start(t->deadline, on_handshake_deadline, HANDSHAKE_MS);
    return true;
}

void grpc_tls_free(struct grpc_tls_session *t)
{
    if (!t)
        return;
    if (t->session)
        gnutls_deinit(t->session);
    gs_timer_free(t->deadline);
    grpc_tls_credentials_unref(t->credentials);
    gs_buf_finish(&t->in);
    gs_buf_finish(&t->out);
    free(t);
}

struct gs_buf *grpc_tls_out(struct grpc_tls_session *t)
{
    return &t->out;
}

void grpc_tls_end(struct grpc_tls_session *t)
{
    gs_timer_stop(t->deadline);
    if (t->secured)
        gnutls_bye(t->session, GNUTLS_SHUT_WR);
}

// --- handshake ---

// The certificate of the peer: GnuTLS has received it, but not yet judged it.
static struct gs_error *verify_peer(struct grpc_tls_session *t)
{
    const struct grpc_tls_credentials *c = t->credentials;
    const char *purpose = c->server ? GNUTLS_KP_TLS_WWW_CLIENT : GNUTLS_KP_TLS_WWW_SERVER;
    gnutls_typed_vdata_st data[] = {
        {GNUTLS_DT_KEY_PURPOSE_OID, (unsigned char *)(uintptr_t)purpose, 0},
        {GNUTLS_DT_DNS_HOSTNAME, (unsigned char *)c->server_name, 0},
    };
    unsigned status = 0;
    if (!c->verifies)
        return NULL;
    int rc = gnutls_certificate_verify_peers(t->session, data, c->server ? 1 : 2, &status);
    if (rc < 0)
        return gs_error_new(GS_EPERM, "the peer's certificate: %s", gnutls_strerror(rc));
    if (status == 0)
        return NULL;
    gnutls_datum_t text = {0};
    rc = gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &text, 0);
    struct gs_slice why = gs_slice_trim(gs_slice_make(text.data, rc >= 0 ? text.size : 0));
    struct gs_error *err =
        gs_error_new(GS_EPERM, "the peer's certificate: %.*s", GS_SLICE_ARG(why));
    gnutls_free(text.data);
    return err;
}

static const char *describe(struct grpc_tls_session *t, int rc)
{
    switch (rc) {
    case GNUTLS_E_UNSUPPORTED_VERSION_PACKET:
    case GNUTLS_E_UNEXPECTED_PACKET:
    case GNUTLS_E_UNEXPECTED_PACKET_LENGTH:
    case GNUTLS_E_RECORD_OVERFLOW:
        return "the peer does not speak TLS 1.2 or 1.3";
    case GNUTLS_E_NO_CERTIFICATE_FOUND:
    case GNUTLS_E_CERTIFICATE_REQUIRED:
        return "the peer sent no certificate";
    case GNUTLS_E_NO_APPLICATION_PROTOCOL:
        return "the peer does not offer HTTP/2 (ALPN \"h2\")";
    case GNUTLS_E_FATAL_ALERT_RECEIVED:
        return gnutls_alert_get_name(gnutls_alert_get(t->session));
    default:
        return gnutls_strerror(rc);
    }
}

static void fail(struct grpc_tls_session *t, int rc, const char *why)
{
    char reason[sizeof(t->conn->reason)];
    (void)snprintf(reason, sizeof(reason), "TLS: %s", why ? why : describe(t, rc));
    if (rc != GNUTLS_E_FATAL_ALERT_RECEIVED)
        gnutls_alert_send_appropriate(t->session, rc);
    grpc_conn_send_last(t->conn, &t->out);
    grpc_conn_close(t->conn, reason);
}

// True: the handshake is complete.
static bool shake_hands(struct grpc_tls_session *t)
{
    int rc;
    gnutls_datum_t protocol = {0};
    do // warnings of the peer; each needs received bytes
        rc = gnutls_handshake(t->session);
    while (rc < 0 && rc != GNUTLS_E_AGAIN && !gnutls_error_is_fatal(rc));
    if (rc == GNUTLS_E_AGAIN)
        return false;
    if (rc < 0) {
        fail(t, rc, NULL);
        return false;
    }
    GS_AUTO_ERROR struct gs_error *err = verify_peer(t);
    if (err) {
        fail(t, GNUTLS_E_CERTIFICATE_ERROR, gs_error_message(err));
        return false;
    }
    if (gnutls_alpn_get_selected_protocol(t->session, &protocol) < 0) {
        fail(t, GNUTLS_E_NO_APPLICATION_PROTOCOL, NULL);
        return false;
    }
    gs_timer_stop(t->deadline);
    t->secured = true;
    t->conn->on_secured(t->conn);
    return !t->conn->closing;
}

// --- data ---

static void read_records(struct grpc_tls_session *t)
{
    while (!t->conn->closing) {
        ssize_t n = gnutls_record_recv(t->session, t->plain, sizeof(t->plain));
        if (n > 0)
            grpc_conn_feed(t->conn, gs_slice_make(t->plain, (size_t)n));
        else if (n == GNUTLS_E_AGAIN)
            return;
        else if (n == 0)
            grpc_conn_close(t->conn, "the peer closed the connection");
        else if (n == GNUTLS_E_REHANDSHAKE || gnutls_error_is_fatal((int)n))
            fail(t, (int)n, NULL);
    }
}

void grpc_tls_feed(struct grpc_tls_session *t, struct gs_slice bytes)
{
    gs_buf_add_slice(&t->in, bytes);
    if (t->secured || shake_hands(t))
        read_records(t);
}

void grpc_tls_shake(struct grpc_tls_session *t)
{
    shake_hands(t);
}

bool grpc_tls_encrypt(struct grpc_tls_session *t, struct gs_slice bytes)
{
    while (bytes.len) {
        ssize_t n = gnutls_record_send(t->session, bytes.data, bytes.len);
        if (n < 0)
            return false;
        bytes = gs_slice_make(bytes.data + n, bytes.len - (size_t)n);
    }
    return true;
}
