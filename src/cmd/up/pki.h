// SPDX-License-Identifier: Apache-2.0
// The private keys and certificates of one data directory: a CA, the API server's certificate for
// loopback, the administrator's client certificate and a bearer token. Made once, renewed a month
// before they end; files are mode 0600 in a folder of mode 0700.
#pragma once

#include "net/tls/tls.h"

struct up_pki {
    struct tls_pair ca, server, client;
    char *token;
};

struct gs_error *up_pki_load(const char *dir, struct up_pki *ret);
void up_pki_finish(struct up_pki *p); // wipes the keys
