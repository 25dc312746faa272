// SPDX-License-Identifier: Apache-2.0
// ECDSA signatures with P-256 and SHA-256 in the form of JSON Web Signature (RFC 7518 section
// 3.4): r and s, 32 bytes each. GnuTLS has them as DER.
#include "net/tls/signature.h"

#include "base/mem.h"
#include "base/num.h"

#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <string.h>

enum { HALF = TLS_SIGNATURE_SIZE / 2, KEY_ID_SIZE = 32 };

struct tls_signing_key {
    gnutls_privkey_t secret;
    gnutls_pubkey_t public;
    char id[2 * KEY_ID_SIZE + 1];
};

static struct gs_error *failed(const char *what, int rc)
{
    return gs_error_new(GS_EIO, "%s: %s", what, gnutls_strerror(rc));
}

struct gs_error *tls_signing_key_create(char **ret_pem)
{
    gnutls_x509_privkey_t key = NULL;
    gnutls_datum_t pem = {0};
    int rc = gnutls_x509_privkey_init(&key);
    if (rc >= 0)
        rc = gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA,
                                          GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0);
    if (rc >= 0)
        rc = gnutls_x509_privkey_export2_pkcs8(key, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN,
                                               &pem);
    if (key)
        gnutls_x509_privkey_deinit(key);
    if (rc < 0)
        return failed("making a signing key", rc);
    *ret_pem = gs_strndup((const char *)pem.data, pem.size);
    gnutls_memset(pem.data, 0, pem.size);
    gnutls_free(pem.data);
    return NULL;
}

static int set_id(struct tls_signing_key *k)
{
    unsigned char raw[KEY_ID_SIZE];
    size_t size = sizeof(raw);
    int rc = gnutls_pubkey_get_key_id(k->public, GNUTLS_KEYID_USE_SHA256, raw, &size);
    if (rc < 0)
        return rc;
    *gs_put_hex(k->id, raw, size) = '\0';
    return 0;
}

static int read_pem(struct tls_signing_key *k, const char *pem)
{
    const gnutls_datum_t text = {(unsigned char *)pem, (unsigned)strlen(pem)};
    gnutls_ecc_curve_t curve = GNUTLS_ECC_CURVE_INVALID;
    int rc = gnutls_privkey_init(&k->secret);
    if (rc >= 0)
        rc = gnutls_pubkey_init(&k->public);
    if (rc >= 0)
        rc = gnutls_privkey_import_x509_raw(k->secret, &text, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (rc >= 0)
        rc = gnutls_privkey_export_ecc_raw2(k->secret, &curve, NULL, NULL, NULL,
                                            GNUTLS_EXPORT_FLAG_NO_LZ);
    if (rc >= 0 && curve != GNUTLS_ECC_CURVE_SECP256R1)
        rc = GNUTLS_E_ECC_UNSUPPORTED_CURVE;
    if (rc >= 0)
        rc = gnutls_pubkey_import_privkey(k->public, k->secret, 0, 0);
    return rc < 0 ? rc : set_id(k);
}

struct gs_error *tls_signing_key_read(const char *pem, struct tls_signing_key **ret)
{
    struct tls_signing_key *k = gs_alloc(sizeof(*k));
    int rc = read_pem(k, pem);
    if (rc < 0) {
        tls_signing_key_free(k);
        return gs_error_new(GS_EINVAL, "not the PEM text of an ECDSA key of P-256: %s",
                            gnutls_strerror(rc));
    }
    *ret = k;
    return NULL;
}

void tls_signing_key_free(struct tls_signing_key *k)
{
    if (!k)
        return;
    if (k->secret)
        gnutls_privkey_deinit(k->secret);
    if (k->public)
        gnutls_pubkey_deinit(k->public);
    free(k);
}

const char *tls_signing_key_id(const struct tls_signing_key *k)
{
    return k->id;
}

// Right-aligned in 32 bytes. False: longer than that.
static bool put_half(const gnutls_datum_t *n, unsigned char *out)
{
    const unsigned char *data = n->data;
    size_t len = n->size;
    for (; len && *data == 0; data++)
        len--;
    if (len > HALF)
        return false;
    memset(out, 0, HALF);
    memcpy(out + HALF - len, data, len);
    return true;
}

struct gs_error *tls_sign(const struct tls_signing_key *k, struct gs_slice text,
                          unsigned char ret[TLS_SIGNATURE_SIZE])
{
    const gnutls_datum_t data = {(unsigned char *)text.data, (unsigned)text.len};
    gnutls_datum_t der = {0}, r = {0}, s = {0};
    int rc = gnutls_privkey_sign_data2(k->secret, GNUTLS_SIGN_ECDSA_SHA256, 0, &data, &der);
    if (rc >= 0)
        rc = gnutls_decode_rs_value(&der, &r, &s);
    if (rc >= 0 && (!put_half(&r, ret) || !put_half(&s, ret + HALF)))
        rc = GNUTLS_E_INTERNAL_ERROR;
    gnutls_free(der.data);
    gnutls_free(r.data);
    gnutls_free(s.data);
    return rc < 0 ? failed("signing", rc) : NULL;
}

bool tls_verify(const struct tls_signing_key *k, struct gs_slice text, struct gs_slice signature)
{
    if (signature.len != TLS_SIGNATURE_SIZE)
        return false;
    const gnutls_datum_t data = {(unsigned char *)text.data, (unsigned)text.len};
    const gnutls_datum_t r = {(unsigned char *)signature.data, HALF};
    const gnutls_datum_t s = {(unsigned char *)signature.data + HALF, HALF};
    gnutls_datum_t der = {0};
    int rc = gnutls_encode_rs_value(&der, &r, &s);
    if (rc >= 0)
        rc = gnutls_pubkey_verify_data2(k->public, GNUTLS_SIGN_ECDSA_SHA256, 0, &data, &der);
    gnutls_free(der.data);
    return rc >= 0;
}
