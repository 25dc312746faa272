// SPDX-License-Identifier: Apache-2.0
// Texts of queries to an engine or a Prometheus, and of their errors.
#pragma once

#include "base/buf.h"
#include "codec/json.h"
#include "net/http/client.h"

// A pattern that matches these names of objects, as part of a string of PromQL.
void hpa_query_names(const char *const *names, size_t n, struct gs_buf *out);
// Evaluates an expression now; the response is that of /api/v1/query, after at most five seconds.
struct http_op *hpa_query_send(struct http_client *engine, const struct gs_buf *expression,
                               const struct http_callbacks *callbacks, void *arg);
// An expression as one row of several, joined by "or": the value of the label `name` is in the
// label "name", and a number that says what the row is in "of".
void hpa_query_add_row(const char *expression, const char *name, int of, struct gs_buf *out);
// The number of the row of a series of the result; -1: none below n.
int hpa_query_row_of(const json_t *series, int n);
// "HTTP status 422: REASON". body: of the response; NULL: it is no JSON. Caller frees.
char *hpa_query_refused(int status, const json_t *body);
