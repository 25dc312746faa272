// SPDX-License-Identifier: Apache-2.0
// Bodies that were given a moment ago and would be the same now: values are shared for about one
// scrape, and so is what is written of them.
#pragma once

#include "net/http.h"

struct ready;
struct ready *ready_new(void);
void ready_free(struct ready *r);
// The body for such a request; borrowed. NULL: none, or it is too old.
struct http_bytes *ready_find(struct ready *r, const struct http_exchange *x);
void ready_put(struct ready *r, const struct http_exchange *x, struct http_bytes *body,
               int64_t until_ns);
void ready_forget_old(struct ready *r); // now and then
void ready_clear(struct ready *r);
