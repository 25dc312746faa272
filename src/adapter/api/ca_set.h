// SPDX-License-Identifier: Apache-2.0
// Certificate authorities that client certificates are verified against.
#pragma once

#include "base/error.h"
#include "base/slice.h"

#include <stdbool.h>

struct adapter_api_ca_set;
struct gs_error *adapter_api_ca_set_new(const char *pem, struct adapter_api_ca_set **ret);
void adapter_api_ca_set_free(struct adapter_api_ca_set *s);
// The chain (DER, the peer's own first) leads to one of them and is meant for clients.
bool adapter_api_ca_set_verify(const struct adapter_api_ca_set *s, const struct gs_slice *chain,
                               size_t n);

// CN and O of a certificate. Caller frees both; groups ends with NULL. False: no CN.
bool adapter_api_ca_read_subject(struct gs_slice der, char **ret_name, char ***ret_groups);
void adapter_api_ca_groups_free(char **groups);
