// SPDX-License-Identifier: Apache-2.0
// What the gate reads of a held connection's first bytes, and how it refuses one in HTTP.
#pragma once

#include "activator/gate.h"

#include "base/slice.h"

enum activator_protocol {
    ACTIVATOR_OTHER,    // TLS, HTTP/2 or anything else: bytes only
    ACTIVATOR_HTTP,     // the head of an HTTP/1 request, complete
    ACTIVATOR_PART,     // what may become one
    ACTIVATOR_TOO_LONG, // the head of an HTTP/1 request that is above the limit
};

#define ACTIVATOR_MAX_HEAD (16u * 1024)

enum activator_protocol activator_head_protocol(struct gs_slice bytes);
// Whether a complete head is that of a health check or a scrape, which must not start a workload.
// rules: may be NULL.
bool activator_head_is_probe(struct gs_slice head, const struct activator_rules *rules);
bool activator_head_is_1_1(struct gs_slice head); // of HTTP/1.1
// The value of the first header with this name in small letters; empty: it has none.
struct gs_slice activator_head_value(struct gs_slice head, const char *name);
// Whether the answer to a GET or POST request may be an event stream, by its head, or by its body
// as far as it is there.
bool activator_stream_wanted(struct gs_slice request);
// Appends an HTTP response with the status, "Connection: close" and a text.
void activator_head_refuse(struct gs_buf *out, int status, int retry_seconds, const char *text);
