// SPDX-License-Identifier: Apache-2.0
// Signatures of short texts: ECDSA with P-256 and SHA-256, which JSON Web Signatures call ES256
// (RFC 7518 section 3.4).
#pragma once

#include "base/error.h"
#include "base/slice.h"

#include <stdbool.h>

#define TLS_SIGNATURE_SIZE 64 // r and s, 32 bytes each, big-endian

struct tls_signing_key;

// A new key as PEM text, which the caller wipes and frees. GS_EIO: no random bytes.
struct gs_error *tls_signing_key_create(char **ret_pem);
// GS_EINVAL: not PEM, or another kind of key.
struct gs_error *tls_signing_key_read(const char *pem, struct tls_signing_key **ret);
void tls_signing_key_free(struct tls_signing_key *k);
// The SHA-256 of the public key in hexadecimal digits. Borrowed.
const char *tls_signing_key_id(const struct tls_signing_key *k);

struct gs_error *tls_sign(const struct tls_signing_key *k, struct gs_slice text,
                          unsigned char ret[TLS_SIGNATURE_SIZE]);
bool tls_verify(const struct tls_signing_key *k, struct gs_slice text, struct gs_slice signature);
