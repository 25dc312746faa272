// SPDX-License-Identifier: Apache-2.0
// Private to net/endpoint, and for its tests: tokens of the client credentials grant, and the
// messages of that grant (RFC 6749 sections 2.3.1, 4.4 and 5), which need no input and output.
#pragma once

#include "net/endpoint/endpoint.h"

// --- tokens ---

// Counted. The settings are copied; client, which fetches the tokens, is taken.
struct endpoint_tokens *endpoint_tokens_new(uv_loop_t *loop, const struct endpoint_oauth2 *cfg,
                                            struct http_client *client);
struct endpoint_tokens *endpoint_tokens_ref(struct endpoint_tokens *t);

// What it sends goes through inner, which it takes, with an Authorization header. Requests wait
// while a token is fetched, which may take as long as the first of them may. Takes a reference to
// the tokens.
struct http_client *endpoint_oauth2_client_new(struct http_client *inner,
                                               struct endpoint_tokens *tokens);

// --- messages ---

#define ENDPOINT_MAX_TOKEN_REPLY ((size_t)1 << 20)

struct endpoint_token {
    char *authorization; // "Bearer …"
    bool expires;
    int64_t lifetime_s;
};
void endpoint_token_finish(struct endpoint_token *t);

// Where the client's name and secret are written: servers differ.
enum endpoint_token_style { ENDPOINT_TOKEN_IN_HEADER, ENDPOINT_TOKEN_IN_BODY };

// The body of a request, sorted by name as Go sorts the values of a form. GS_EINVAL: a parameter
// would replace one that it must not replace.
struct gs_error *endpoint_token_request_body(const struct endpoint_oauth2 *cfg, const char *secret,
                                             enum endpoint_token_style style, struct gs_buf *out);
// The value of its Authorization header.
void endpoint_token_request_header(const struct endpoint_oauth2 *cfg, const char *secret,
                                   struct gs_buf *out);
// Errors contain nothing of the answer but the server's error code.
struct gs_error *endpoint_token_read_answer(const struct http_answer *answer,
                                            struct endpoint_token *ret);
