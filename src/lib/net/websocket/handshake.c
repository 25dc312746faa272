// SPDX-License-Identifier: Apache-2.0
// The opening handshake, RFC 6455 section 4.2.
#include "net/websocket/websocket.h"

#include "base/mem.h"
#include "codec/encoding.h"

#include <gnutls/crypto.h>

enum { KEY_LEN = 16, SHA1_LEN = 20 };

bool websocket_requested(const struct http_exchange *x)
{
    return gs_lists_word(http_header(x, "Upgrade"), "websocket") &&
           gs_lists_word(http_header(x, "Connection"), "upgrade");
}

static bool is_key(const char *key)
{
    GS_AUTO_BUF struct gs_buf bytes = {0};
    GS_AUTO_ERROR struct gs_error *err =
        key && strlen(key) == 24 ? codec_base64_decode(gs_slice_of(key), &bytes) : NULL;
    return !err && bytes.len == KEY_LEN;
}

const char *websocket_handshake(const struct http_exchange *x, char **ret_accept)
{
    const char *key = http_header(x, "Sec-WebSocket-Key");
    const char *version = http_header(x, "Sec-WebSocket-Version");
    uint8_t hash[SHA1_LEN];
    if (!gs_streq(http_method(x), "GET"))
        return "the handshake of WebSocket is a GET request";
    if (!gs_streq(version, "13"))
        return "the only supported Sec-WebSocket-Version is 13";
    if (!is_key(key))
        return "Sec-WebSocket-Key is missing or malformed";
    GS_AUTO_FREE char *text = gs_format("%s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);
    if (gnutls_hash_fast(GNUTLS_DIG_SHA1, text, strlen(text), hash) < 0)
        return "SHA-1 is not available";
    GS_AUTO_BUF struct gs_buf accept = {0};
    codec_base64_encode(gs_slice_make(hash, sizeof(hash)), &accept);
    *ret_accept = gs_buf_take(&accept);
    return NULL;
}

const char *websocket_protocol(const struct http_exchange *x, const char *const *supported,
                               bool *ret_offered)
{
    const char *name;
    *ret_offered = false;
    for (size_t i = 0; http_header_nth(x, i, &name); i++) {
        if (!gs_slice_is_word(gs_slice_of(name), "sec-websocket-protocol"))
            continue;
        struct gs_slice rest = gs_slice_of(http_header_nth(x, i, &name));
        while (rest.data) {
            struct gs_slice offer = gs_slice_trim(gs_slice_cut(&rest, ','));
            *ret_offered = *ret_offered || offer.len;
            for (size_t j = 0; supported[j]; j++)
                if (gs_slice_eq_str(offer, supported[j]))
                    return supported[j];
        }
    }
    return NULL;
}
