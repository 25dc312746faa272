// SPDX-License-Identifier: Apache-2.0
// The certificates of a server. They can be replaced while it runs.
#include "base/mem.h"
#include "net/http/server_private.h"

static void certificate_free(struct http_server_certificate *c)
{
    if (!c)
        return;
    for (unsigned i = 0; i < c->n; i++)
        gnutls_pcert_deinit(&c->chain[i]);
    if (c->key)
        gnutls_privkey_deinit(c->key);
    free(c);
}

void http_server_certificates_finish(struct http_server *s)
{
    for (size_t i = 0; i < HTTP_SERVER_KEPT_CERTIFICATES; i++)
        certificate_free(GS_TAKE(s->certificates[i]));
}

// GnuTLS checks that the key belongs to the certificate if it receives both.
static int check_pair(const gnutls_datum_t *cert, const gnutls_datum_t *key)
{
    gnutls_certificate_credentials_t both;
    int rc = gnutls_certificate_allocate_credentials(&both);
    if (rc < 0)
        return rc;
    rc = gnutls_certificate_set_x509_key_mem(both, cert, key, GNUTLS_X509_FMT_PEM);
    gnutls_certificate_free_credentials(both);
    return rc < 0 ? rc : 0;
}

static int load_pair(struct http_server_certificate *c, const gnutls_datum_t *cert,
                     const gnutls_datum_t *key)
{
    unsigned n = GS_ARRAY_LEN(c->chain);
    int rc = check_pair(cert, key);
    if (rc == 0)
        rc = gnutls_pcert_list_import_x509_raw(c->chain, &n, cert, GNUTLS_X509_FMT_PEM, 0);
    if (rc < 0)
        return rc;
    c->n = n;
    rc = gnutls_privkey_init(&c->key);
    return rc < 0 ? rc : gnutls_privkey_import_x509_raw(c->key, key, GNUTLS_X509_FMT_PEM, NULL, 0);
}

struct gs_error *http_server_set_certificate(struct http_server *s, const char *cert_pem,
                                             const char *key_pem)
{
    const gnutls_datum_t cert = {(unsigned char *)(uintptr_t)cert_pem, (unsigned)strlen(cert_pem)};
    const gnutls_datum_t key = {(unsigned char *)(uintptr_t)key_pem, (unsigned)strlen(key_pem)};
    struct http_server_certificate *c = gs_alloc(sizeof(*c));
    int rc = load_pair(c, &cert, &key);
    if (rc < 0) {
        certificate_free(c);
        return gs_error_new(GS_EINVAL,
                            "the HTTP server's certificate: check that certificate, key and client "
                            "CA are valid PEM and that the key is the certificate's (%s)",
                            gnutls_strerror(rc));
    }
    certificate_free(s->certificates[HTTP_SERVER_KEPT_CERTIFICATES - 1]);
    memmove(s->certificates + 1, s->certificates,
            (HTTP_SERVER_KEPT_CERTIFICATES - 1) * sizeof(s->certificates[0]));
    s->certificates[0] = c;
    return NULL;
}

int http_server_pick_certificate(gnutls_session_t session, const gnutls_datum_t *issuers,
                                 int n_issuers, const gnutls_pk_algorithm_t *algorithms,
                                 int n_algorithms, gnutls_pcert_st **ret_chain, unsigned *ret_n,
                                 gnutls_privkey_t *ret_key)
{
    const struct http_server *s = gnutls_session_get_ptr(session);
    const struct http_server_certificate *c = s ? s->certificates[0] : NULL;
    if (!c)
        return -1;
    *ret_chain = (gnutls_pcert_st *)(uintptr_t)c->chain;
    *ret_n = c->n;
    *ret_key = c->key;
    return 0;
}
