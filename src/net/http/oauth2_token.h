// SPDX-License-Identifier: Apache-2.0
// Messages of the client credentials grant: RFC 6749 sections 2.3.1, 4.4 and 5. Without input and
// output. Private to the room, and for fuzzing.
#pragma once

#include "net/http/client.h"
#include "net/http/oauth2.h"

#define HTTP_OAUTH2_MAX_REPLY ((size_t)1 << 20)

struct http_oauth2_token {
    char *authorization; // "Bearer …"
    bool expires;
    int64_t lifetime_s;
};
void http_oauth2_token_finish(struct http_oauth2_token *t);

// Where the client's name and secret stand: servers differ.
enum http_oauth2_style { HTTP_OAUTH2_IN_HEADER, HTTP_OAUTH2_IN_BODY };

// The body of a request, sorted by name as a form's values are in Go. GS_EINVAL: a parameter would
// change what it may not.
struct gs_error *http_oauth2_request_body(const struct http_oauth2_config *cfg, const char *secret,
                                          enum http_oauth2_style style, struct gs_buf *out);
// The value of its Authorization header.
void http_oauth2_request_header(const struct http_oauth2_config *cfg, const char *secret,
                                struct gs_buf *out);
// Errors hold nothing of the answer but the server's error code.
struct gs_error *http_oauth2_read_answer(const struct http_answer *answer,
                                         struct http_oauth2_token *ret);
