// SPDX-License-Identifier: Apache-2.0
// Certificates by GnuTLS: creating a CA and leaves (ECDSA P-256), and checking pairs. Secrets are
// wiped before they are freed. Certificates begin an hour early for peers with a slow clock.
#include "net/tls/tls.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/random.h"

#include <arpa/inet.h>
#include <gnutls/abstract.h>
#include <gnutls/x509.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

enum { SERIAL_BYTES = 16, BACKDATE_S = 3600, DAY_S = 86400 };

// A GnuTLS call that must succeed: the first failure is kept, later calls are skipped.
struct steps {
    int rc;
    const char *what;
};

#define STEP(s, call)                                                                              \
    do {                                                                                           \
        if ((s)->rc >= 0 && ((s)->rc = (call)) < 0)                                                \
            (s)->what = #call;                                                                     \
    } while (0)

static struct gs_error *steps_error(const struct steps *s, const char *doing, const char *name)
{
    if (s->rc >= 0)
        return NULL;
    const char *end = strchr(s->what, '(');
    return gs_error_new(GS_EIO, "%s for \"%s\": %.*s: %s", doing, name,
                        end ? (int)(end - s->what) : 0, s->what, gnutls_strerror(s->rc));
}

static void wipe_and_free(char *secret)
{
    if (secret)
        gnutls_memset(secret, 0, strlen(secret));
    free(secret);
}

void tls_pair_finish(struct tls_pair *p)
{
    free(p->cert_pem);
    wipe_and_free(p->key_pem);
    *p = (struct tls_pair){0};
}

static char *take_datum(gnutls_datum_t *d)
{
    char *text = gs_strndup((const char *)d->data, d->size);
    gnutls_memset(d->data, 0, d->size);
    gnutls_free(d->data);
    d->data = NULL;
    return text;
}

static void set_serial(struct steps *s, gnutls_x509_crt_t crt)
{
    uint8_t serial[SERIAL_BYTES];
    gs_random_bytes(serial, sizeof(serial));
    if (s->rc < 0)
        return;
    serial[0] = (uint8_t)((serial[0] & 0x7f) | 0x40); // positive, and never shortened
    STEP(s, gnutls_x509_crt_set_serial(crt, serial, sizeof(serial)));
}

// The common part of CA and leaf. Backdated, so that a peer with a slow clock accepts it.
static void set_basics(struct steps *s, gnutls_x509_crt_t crt, gnutls_x509_privkey_t key,
                       const char *common_name, unsigned days)
{
    time_t now = time(NULL);
    uint8_t key_id[64];
    size_t key_id_size = sizeof(key_id);
    STEP(s, gnutls_x509_privkey_generate2(key, GNUTLS_PK_ECDSA,
                                          GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0, NULL,
                                          0));
    STEP(s, gnutls_x509_crt_set_version(crt, 3));
    set_serial(s, crt);
    STEP(s, gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, common_name,
                                          (unsigned)strlen(common_name)));
    STEP(s, gnutls_x509_crt_set_activation_time(crt, now - BACKDATE_S));
    STEP(s, gnutls_x509_crt_set_expiration_time(crt, now + (time_t)days * DAY_S));
    STEP(s, gnutls_x509_crt_set_key(crt, key));
    STEP(s, gnutls_x509_crt_get_key_id(crt, GNUTLS_KEYID_USE_SHA1, key_id, &key_id_size));
    STEP(s, gnutls_x509_crt_set_subject_key_id(crt, key_id, key_id_size));
}

static void export_pair(struct steps *s, gnutls_x509_crt_t crt, gnutls_x509_privkey_t key,
                        struct tls_pair *ret)
{
    gnutls_datum_t cert_pem = {0}, key_pem = {0};
    STEP(s, gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_PEM, &cert_pem));
    STEP(s, gnutls_x509_privkey_export2_pkcs8(key, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN,
                                              &key_pem));
    if (s->rc >= 0) {
        ret->cert_pem = take_datum(&cert_pem);
        ret->key_pem = take_datum(&key_pem);
    } else {
        gnutls_free(cert_pem.data);
    }
}

struct gs_error *tls_make_ca(const char *common_name, unsigned days, struct tls_pair *ret)
{
    struct steps s = {0};
    gnutls_x509_crt_t crt = NULL;
    gnutls_x509_privkey_t key = NULL;
    STEP(&s, gnutls_x509_crt_init(&crt));
    STEP(&s, gnutls_x509_privkey_init(&key));
    set_basics(&s, crt, key, common_name, days);
    STEP(&s, gnutls_x509_crt_set_basic_constraints(crt, 1, 0));
    STEP(&s, gnutls_x509_crt_set_key_usage(crt, GNUTLS_KEY_KEY_CERT_SIGN | GNUTLS_KEY_CRL_SIGN |
                                                    GNUTLS_KEY_DIGITAL_SIGNATURE));
    STEP(&s, gnutls_x509_crt_sign2(crt, crt, key, GNUTLS_DIG_SHA256, 0));
    export_pair(&s, crt, key, ret);
    if (key)
        gnutls_x509_privkey_deinit(key);
    if (crt)
        gnutls_x509_crt_deinit(crt);
    return steps_error(&s, "making a CA certificate", common_name);
}

static struct gs_error *set_names(struct steps *s, gnutls_x509_crt_t crt,
                                  const struct tls_leaf *leaf)
{
    for (size_t i = 0; i < leaf->n_organizations; i++)
        STEP(s, gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_ORGANIZATION_NAME, 0,
                                              leaf->organizations[i],
                                              (unsigned)strlen(leaf->organizations[i])));
    for (size_t i = 0; i < leaf->n_dns_names; i++)
        STEP(s, gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_DNSNAME, leaf->dns_names[i],
                                                     (unsigned)strlen(leaf->dns_names[i]),
                                                     GNUTLS_FSAN_APPEND));
    for (size_t i = 0; i < leaf->n_ip_addresses; i++) {
        uint8_t ip[16];
        bool v4 = inet_pton(AF_INET, leaf->ip_addresses[i], ip) == 1;
        if (!v4 && inet_pton(AF_INET6, leaf->ip_addresses[i], ip) != 1)
            return gs_error_new(GS_EINVAL,
                                "\"%s\" is not an IP address; a certificate needs a numeric one",
                                leaf->ip_addresses[i]);
        STEP(s, gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_IPADDRESS, ip, v4 ? 4 : 16,
                                                     GNUTLS_FSAN_APPEND));
    }
    return NULL;
}

static void sign_leaf(struct steps *s, gnutls_x509_crt_t crt, gnutls_x509_crt_t ca_crt,
                      gnutls_x509_privkey_t ca_key, bool server)
{
    uint8_t id[64];
    size_t id_size = sizeof(id);
    STEP(s, gnutls_x509_crt_set_basic_constraints(crt, 0, -1));
    STEP(s, gnutls_x509_crt_set_key_usage(crt, GNUTLS_KEY_DIGITAL_SIGNATURE));
    STEP(s, gnutls_x509_crt_set_key_purpose_oid(
                crt, server ? GNUTLS_KP_TLS_WWW_SERVER : GNUTLS_KP_TLS_WWW_CLIENT, 0));
    STEP(s, gnutls_x509_crt_get_subject_key_id(ca_crt, id, &id_size, NULL));
    STEP(s, gnutls_x509_crt_set_authority_key_id(crt, id, id_size));
    STEP(s, gnutls_x509_crt_sign2(crt, ca_crt, ca_key, GNUTLS_DIG_SHA256, 0));
}

static gnutls_datum_t datum_of(const char *text)
{
    return (gnutls_datum_t){(unsigned char *)text, (unsigned)strlen(text)};
}

struct gs_error *tls_make_leaf(const struct tls_pair *ca, const struct tls_leaf *leaf,
                               struct tls_pair *ret)
{
    struct steps s = {0};
    gnutls_x509_crt_t crt = NULL, ca_crt = NULL;
    gnutls_x509_privkey_t key = NULL, ca_key = NULL;
    gnutls_datum_t ca_crt_pem = datum_of(ca->cert_pem), ca_key_pem = datum_of(ca->key_pem);
    STEP(&s, gnutls_x509_crt_init(&crt));
    STEP(&s, gnutls_x509_crt_init(&ca_crt));
    STEP(&s, gnutls_x509_privkey_init(&key));
    STEP(&s, gnutls_x509_privkey_init(&ca_key));
    STEP(&s, gnutls_x509_crt_import(ca_crt, &ca_crt_pem, GNUTLS_X509_FMT_PEM));
    STEP(&s, gnutls_x509_privkey_import(ca_key, &ca_key_pem, GNUTLS_X509_FMT_PEM));
    set_basics(&s, crt, key, leaf->common_name, leaf->days);
    struct gs_error *err = s.rc >= 0 ? set_names(&s, crt, leaf) : NULL;
    if (!err) {
        sign_leaf(&s, crt, ca_crt, ca_key, leaf->server);
        export_pair(&s, crt, key, ret);
        err = steps_error(&s, "making a certificate", leaf->common_name);
    }
    if (ca_key)
        gnutls_x509_privkey_deinit(ca_key);
    if (key)
        gnutls_x509_privkey_deinit(key);
    if (ca_crt)
        gnutls_x509_crt_deinit(ca_crt);
    if (crt)
        gnutls_x509_crt_deinit(crt);
    return err;
}

struct gs_error *tls_cert_validity(const char *cert_pem, int64_t *ret_from, int64_t *ret_until)
{
    struct steps s = {0};
    gnutls_x509_crt_t crt = NULL;
    gnutls_datum_t pem = datum_of(cert_pem);
    STEP(&s, gnutls_x509_crt_init(&crt));
    STEP(&s, gnutls_x509_crt_import(crt, &pem, GNUTLS_X509_FMT_PEM));
    int64_t from = s.rc >= 0 ? (int64_t)gnutls_x509_crt_get_activation_time(crt) : 0;
    int64_t until = s.rc >= 0 ? (int64_t)gnutls_x509_crt_get_expiration_time(crt) : 0;
    if (crt)
        gnutls_x509_crt_deinit(crt);
    if (s.rc < 0)
        return gs_error_new(GS_EINVAL, "not a PEM certificate: %s", gnutls_strerror(s.rc));
    *ret_from = from;
    *ret_until = until;
    return NULL;
}

struct gs_error *tls_cert_seconds_left(const char *cert_pem, long *ret)
{
    int64_t from, until;
    struct gs_error *err = tls_cert_validity(cert_pem, &from, &until);
    if (!err)
        *ret = (long)(until - (int64_t)time(NULL));
    return err;
}

struct gs_error *tls_check_certificates(const char *pem)
{
    gnutls_x509_crt_t *list = NULL;
    unsigned n = 0;
    gnutls_datum_t text = datum_of(pem);
    int rc = gnutls_x509_crt_list_import2(&list, &n, &text, GNUTLS_X509_FMT_PEM, 0);
    for (unsigned i = 0; rc >= 0 && i < n; i++)
        gnutls_x509_crt_deinit(list[i]);
    if (rc >= 0)
        gnutls_free(list);
    return rc >= 0 ? NULL
                   : gs_error_new(GS_EINVAL, "not a PEM certificate: %s", gnutls_strerror(rc));
}

struct gs_error *tls_check_pair(const char *cert_pem, const char *key_pem)
{
    gnutls_certificate_credentials_t c = NULL;
    gnutls_datum_t cert = datum_of(cert_pem), key = datum_of(key_pem);
    struct gs_error *err = tls_check_certificates(cert_pem);
    if (err)
        return err;
    int rc = gnutls_certificate_allocate_credentials(&c);
    if (rc >= 0)
        rc = gnutls_certificate_set_x509_key_mem2(c, &cert, &key, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (c)
        gnutls_certificate_free_credentials(c);
    if (rc == GNUTLS_E_CERTIFICATE_KEY_MISMATCH)
        return gs_error_new(GS_EINVAL, "the key does not belong to the certificate");
    return rc >= 0 ? NULL : gs_error_new(GS_EINVAL, "the key: %s", gnutls_strerror(rc));
}

struct gs_error *tls_pair_seconds_left(const char *cert_pem, const char *key_pem, long *ret)
{
    struct gs_error *err = tls_check_pair(cert_pem, key_pem);
    return err ? err : tls_cert_seconds_left(cert_pem, ret);
}

static bool is_valid_now(int64_t from, int64_t until)
{
    int64_t now = (int64_t)time(NULL);
    return now >= from && now < until;
}

static bool is_served_valid(const char *served_pem)
{
    int64_t from = 0, until = 0;
    GS_AUTO_ERROR struct gs_error *err =
        served_pem ? tls_cert_validity(served_pem, &from, &until) : NULL;
    return served_pem && !err && is_valid_now(from, until);
}

struct gs_error *tls_check_replacement(const char *served_pem, const char *cert_pem,
                                       const char *key_pem)
{
    char when[GS_RFC3339_SIZE];
    int64_t from = 0, until = 0;
    struct gs_error *err = tls_check_pair(cert_pem, key_pem);
    if (!err)
        err = tls_cert_validity(cert_pem, &from, &until);
    if (err || is_valid_now(from, until) || !is_served_valid(served_pem))
        return err;
    bool expired = (int64_t)time(NULL) >= until;
    return gs_error_new(GS_EINVAL, "the certificate %s %s; the one in use is still valid",
                        expired ? "expired at" : "is not valid before",
                        gs_format_rfc3339((expired ? until : from) * 1000, when));
}

struct gs_error *tls_read_pem(const char *path, char **ret)
{
    enum { MAX_PEM = 1024 * 1024 };
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_error *err = gs_file_read(path, MAX_PEM, &text);
    if (!err)
        *ret = gs_buf_take(&text);
    return err;
}

int tls_secret_equal(const char *a, const char *b)
{
    size_t len = strlen(a);
    return len == strlen(b) && gnutls_memcmp(a, b, len) == 0;
}
