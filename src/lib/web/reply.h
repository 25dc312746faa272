// SPDX-License-Identifier: Apache-2.0
// Answers of endpoints that the pages read, in the form of Prometheus' API: {"status": "success",
// "data": …} or {"status": "error", "errorType": …, "error": …}.
#pragma once

#include "codec/json.h"
#include "net/http/http.h"

void web_reply_data(struct http_exchange *x, json_t *data); // steals data
// type: of Prometheus' API, such as "bad_data" or "unavailable".
void web_reply_error(struct http_exchange *x, int status, const char *type, const char *text);
// The status and type follow from the code: 400 bad_data, 403 and 404, 413, 504 timeout, otherwise
// 502 unavailable. err is borrowed.
void web_reply_failure(struct http_exchange *x, const struct gs_error *err);
