// SPDX-License-Identifier: Apache-2.0
// Private to net/endpoint and its tests: copies and sections of settings, tokens of the client
// credentials grant, and the messages of that grant (RFC 6749 sections 2.3.1, 4.4 and 5).
#pragma once

#include "net/endpoint/endpoint.h"
#include "net/endpoint/read.h"

// --- settings.c ---

bool endpoint_secret_is_set(const struct endpoint_secret *s);
// Copy into mem. The copies have no oauth2 and no tokens. The first function returns true if a
// setting names a file.
bool endpoint_settings_copy(const struct endpoint_settings *from, struct gs_arena *mem,
                            struct endpoint_settings *ret);
void endpoint_options_copy(const struct endpoint_options *from, struct gs_arena *mem,
                           struct endpoint_options *ret);

// --- read_settings.c, read_oauth2.c: sections of the settings ---

codec_read_fn endpoint_read_oauth2;        // into a const struct endpoint_oauth2 *
codec_read_fn endpoint_read_proxy_headers; // into a struct endpoint_settings
void endpoint_check_proxy(struct codec_reader *r, const json_t *obj,
                          const struct endpoint_settings *h);
void endpoint_check_key(struct codec_reader *r, const json_t *obj,
                        const struct endpoint_settings *h);

// --- oauth2.c: tokens ---

// Reference-counted. Copies the settings. Takes client, which fetches the tokens.
struct endpoint_tokens *endpoint_tokens_new(uv_loop_t *loop, const struct endpoint_oauth2 *cfg,
                                            struct http_client *client);
struct endpoint_tokens *endpoint_tokens_ref(struct endpoint_tokens *t);

// A client that adds an Authorization header and sends its requests with inner, which it takes.
// Requests wait while a token is fetched, at most as long as the timeout of the first of them.
// Takes a reference to the tokens.
struct http_client *endpoint_oauth2_client_new(struct http_client *inner,
                                               struct endpoint_tokens *tokens);

// --- oauth2_messages.c: messages, without I/O ---

#define ENDPOINT_MAX_TOKEN_REPLY ((size_t)1 << 20)

struct endpoint_token {
    char *authorization; // "Bearer …"
    bool expires;
    int64_t lifetime_s;
};
void endpoint_token_finish(struct endpoint_token *t);

// Where the client's name and secret are sent. Servers differ.
enum endpoint_token_style { ENDPOINT_TOKEN_IN_HEADER, ENDPOINT_TOKEN_IN_BODY };

// Returns the body of a request, sorted by name like a form of Go's net/url. GS_EINVAL: a parameter
// would replace one that the grant defines.
struct gs_error *endpoint_token_request_body(const struct endpoint_oauth2 *cfg, const char *secret,
                                             enum endpoint_token_style style, struct gs_buf *out);
// Returns the value of the Authorization header.
void endpoint_token_request_header(const struct endpoint_oauth2 *cfg, const char *secret,
                                   struct gs_buf *out);
// Errors contain the server's error code and no other part of the response.
struct gs_error *endpoint_token_read_answer(const struct http_response *response,
                                            struct endpoint_token *ret);
