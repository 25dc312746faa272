// SPDX-License-Identifier: Apache-2.0
// Texts of queries to an engine or a Prometheus, and of their errors.
#pragma once

#include "base/buf.h"
#include "codec/json.h"

// A pattern that matches these names of objects, as part of a string of PromQL.
void hpa_query_names(const char *const *names, size_t n, struct gs_buf *out);
// "HTTP status 422: REASON". body: of the response; NULL: it is no JSON. Caller frees.
char *hpa_query_refused(int status, const json_t *body);
