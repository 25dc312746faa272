// SPDX-License-Identifier: Apache-2.0
// Requests with a token of the client credentials grant (RFC 6749 section 4.4), which is fetched
// when it is needed and kept until ten seconds before it expires.
#pragma once

#include "net/http/client.h"

struct http_oauth2_config {
    const char *token_url, *client_id;
    const char *secret, *secret_file; // at most one; the file is read again for each request
    const char *const *scopes;
    size_t n_scopes;
    const struct http_header *params; // further ones of the token's request
    size_t n_params;
};

// Tokens for clients of the same settings; counted. cfg is copied; client, which asks for tokens,
// is taken.
struct http_tokens;
struct http_tokens *http_tokens_new(uv_loop_t *loop, const struct http_oauth2_config *cfg,
                                    struct http_client *client);
struct http_tokens *http_tokens_ref(struct http_tokens *t);
void http_tokens_unref(struct http_tokens *t); // NULL is fine

// What it sends goes through inner, which it takes, with an Authorization header. While a token is
// fetched, which may take as long as the first request that waits for it, requests wait. Takes a
// reference to the tokens.
struct http_client *http_client_new_oauth2(struct http_client *inner, struct http_tokens *tokens);
