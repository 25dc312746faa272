// SPDX-License-Identifier: Apache-2.0
// Compares a real Prometheus and src/series/promql with the same samples and queries.
#pragma once

#include "promql/promql.h"

#include <jansson.h>

// data.c: the samples, equal in each call. Times are never whole seconds, so that ranges with and
// without their start contain the same samples.
#define DATA_START_MS INT64_C(1700000000000)
#define DATA_END_MS   (DATA_START_MS + 90 * 60 * 1000)
void data_each(void (*fn)(void *arg, const struct metrics_label *labels, size_t n, int64_t t_ms,
                          double v),
               void *arg);

// peer.c: sends a form by POST to http://127.0.0.1:port. Returns the JSON response; exits on
// failure.
json_t *peer_post(int port, const char *path, const char *form);
void peer_form(struct gs_buf *form, const char *name, const char *value);

// random.c: the query of a seed.
void random_query(uint64_t seed, struct gs_buf *out);
