// SPDX-License-Identifier: Apache-2.0
// Bodies that were given a moment ago and would be the same now: values are shared for about one
// scrape, and so is what is written of them.
#pragma once

#include "net/http/http.h"

struct adapter_api_ready;
struct adapter_api_ready *adapter_api_ready_new(void);
void adapter_api_ready_free(struct adapter_api_ready *r);
// The body for such a request; borrowed. NULL: none, or it is too old.
struct http_bytes *adapter_api_ready_find(struct adapter_api_ready *r,
                                          const struct http_exchange *x);
void adapter_api_ready_put(struct adapter_api_ready *r, const struct http_exchange *x,
                           struct http_bytes *body, int64_t until_ns);
void adapter_api_ready_forget_old(struct adapter_api_ready *r); // now and then
void adapter_api_ready_clear(struct adapter_api_ready *r);
