// SPDX-License-Identifier: Apache-2.0
// Certificates that are valid from one day to another, relative to today.
#pragma once

#include "base/mem.h"
#include "net/tls/tls.h"
#include "unit.h"

#include <gnutls/x509.h>
#include <time.h>

static inline void make_certificate(int from_days, int until_days, struct tls_pair *ret)
{
    gnutls_datum_t cert = {0}, key_pem = {0};
    gnutls_x509_crt_t crt;
    gnutls_x509_privkey_t key;
    const time_t now = time(NULL), day = 86400;
    static unsigned char serial = 1;
    assert_int_equal(gnutls_x509_crt_init(&crt), 0);
    assert_int_equal(gnutls_x509_privkey_init(&key), 0);
    assert_int_equal(gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA, 256, 0), 0);
    gnutls_x509_crt_set_version(crt, 3);
    gnutls_x509_crt_set_serial(crt, &serial, 1);
    gnutls_x509_crt_set_dn(crt, "CN=test", NULL);
    gnutls_x509_crt_set_activation_time(crt, now + from_days * day);
    gnutls_x509_crt_set_expiration_time(crt, now + until_days * day);
    gnutls_x509_crt_set_key(crt, key);
    assert_int_equal(gnutls_x509_crt_sign2(crt, crt, key, GNUTLS_DIG_SHA256, 0), 0);
    assert_int_equal(gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_PEM, &cert), 0);
    assert_int_equal(gnutls_x509_privkey_export2_pkcs8(key, GNUTLS_X509_FMT_PEM, NULL,
                                                       GNUTLS_PKCS_PLAIN, &key_pem),
                     0);
    ret->cert_pem = gs_strndup((const char *)cert.data, cert.size);
    ret->key_pem = gs_strndup((const char *)key_pem.data, key_pem.size);
    gnutls_free(cert.data);
    gnutls_free(key_pem.data);
    gnutls_x509_crt_deinit(crt);
    gnutls_x509_privkey_deinit(key);
}
