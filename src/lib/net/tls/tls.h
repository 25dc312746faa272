// SPDX-License-Identifier: Apache-2.0
// Certificates: a private CA, and leaves signed by it (ECDSA P-256). PEM text in and out.
#pragma once

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

struct tls_pair {
    char *cert_pem, *key_pem;
};
void tls_pair_finish(struct tls_pair *p); // wipes the key

struct gs_error *tls_make_ca(const char *common_name, unsigned days, struct tls_pair *ret);

struct tls_leaf {
    const char *common_name;
    const char *const *organizations; // groups of a Kubernetes client certificate
    size_t n_organizations;
    const char *const *dns_names;
    size_t n_dns_names;
    const char *const *ip_addresses;
    size_t n_ip_addresses;
    int server; // 1: serverAuth, 0: clientAuth
    unsigned days;
};
struct gs_error *tls_make_leaf(const struct tls_pair *ca, const struct tls_leaf *leaf,
                               struct tls_pair *ret);
// Seconds until the certificate expires; negative after that.
struct gs_error *tls_cert_seconds_left(const char *cert_pem, long *ret);
// Who makes a certificate makes another one in these last days of it.
#define TLS_DAY_S      86400
#define TLS_RENEW_DAYS 30

// Checks that a text contains valid PEM certificates. GS_EINVAL with the reason.
struct gs_error *tls_check_certificates(const char *pem);
// The same, and that the key belongs to the first certificate.
struct gs_error *tls_check_pair(const char *cert_pem, const char *key_pem);
// The same, and the seconds until the certificate expires.
struct gs_error *tls_pair_seconds_left(const char *cert_pem, const char *key_pem, long *ret);
// The validity period of the first certificate of a text, in Unix seconds.
struct gs_error *tls_cert_validity(const char *cert_pem, int64_t *ret_from, int64_t *ret_until);

// Whether a certificate may replace the one that is served (NULL: none). GS_EINVAL if it is broken,
// if the key is not its key, or if it is expired or not yet valid and the served one is valid. An
// expired certificate is better than none, but not better than a valid one.
struct gs_error *tls_check_replacement(const char *served_pem, const char *cert_pem,
                                       const char *key_pem);

// Reads a file of at most 1 MiB; caller frees the text.
struct gs_error *tls_read_pem(const char *path, char **ret);

int tls_secret_equal(const char *a, const char *b); // constant time in the contents
