// SPDX-License-Identifier: Apache-2.0
// Peers as a configuration's HTTP settings say: TLS, basic_auth, authorization, oauth2. Files are
// read when they are used, so that rotated secrets are picked up.
#pragma once

#include "base/arena.h"
#include "engine/config/config.h"
#include "net/http/client.h"

// tokens: of oauth2, shared by the clients of these settings: made when the first one needs them,
// and unreferenced by their owner; NULL: the client has its own.
struct http_tokens;
struct gs_error *discovery_peer_client(uv_loop_t *loop, const char *base_url,
                                       const struct engine_config_http *http,
                                       struct http_tokens **tokens, struct http_client **ret);
// Request headers (the last one has a NULL name), their texts in mem.
#define DISCOVERY_PEER_HEADERS (ENGINE_CONFIG_HTTP_MAX_HEADERS + 2)
struct gs_error *discovery_peer_headers(const struct engine_config_http *http, struct gs_arena *mem,
                                        struct http_header ret[DISCOVERY_PEER_HEADERS]);
