// SPDX-License-Identifier: Apache-2.0
// Values of Secrets, which the API writes in base64.
#include "kube/secret.h"

#include "base/mem.h"
#include "codec/encoding.h"

char *kube_secret_text(const json_t *secret, const char *key)
{
    GS_AUTO_BUF struct gs_buf plain = {0};
    const char *text = codec_json_str(secret, "data", key, NULL);
    GS_AUTO_ERROR struct gs_error *err =
        text ? codec_base64_decode(gs_slice_of(text), &plain) : NULL;
    return text && !err ? gs_buf_take(&plain) : NULL;
}

void kube_secret_set_text(json_t *secret, const char *key, const char *text)
{
    GS_AUTO_BUF struct gs_buf encoded = {0};
    codec_base64_encode(gs_slice_of(text), &encoded);
    codec_json_set(secret, json_string(encoded.data ? encoded.data : ""), "data", key, NULL);
}
