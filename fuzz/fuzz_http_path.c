// SPDX-License-Identifier: Apache-2.0
// Path segments and request targets: decoding must be safe, and undo http_encode().
#include "base/mem.h"
#include "net/http/client.h"
#include "net/http/http_private.h"

static void release(struct http_exchange *x)
{
}

static const struct http_carrier_ops ops = {.release = release};

static void check_round_trip(struct gs_slice raw)
{
    GS_AUTO_BUF struct gs_buf encoded = {0};
    GS_AUTO_FREE char *decoded = NULL;
    if (raw.len && memchr(raw.data, '\0', raw.len))
        return;
    http_encode(raw, &encoded);
    GS_AUTO_ERROR struct gs_error *err = http_decode_segment(gs_buf_slice(&encoded), &decoded);
    if (err || !gs_slice_eq_str(raw, decoded))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gs_slice raw = gs_slice_make(data, size);
    GS_AUTO_FREE char *segment = NULL;
    gs_error_free(http_decode_segment(raw, &segment));
    if (segment && strlen(segment) > size)
        abort();
    check_round_trip(raw);

    struct http_exchange x;
    http_exchange_init(&x, NULL, &ops);
    struct gs_error *err = http_exchange_set_target(&x, raw);
    if (!err && http_path(&x)[0] != '/' && strcmp(http_path(&x), "*") != 0)
        abort();
    const char *name;
    for (size_t i = 0; http_query_nth(&x, i, &name); i++)
        if (!http_query(&x, name))
            abort();
    gs_error_free(err);
    http_exchange_unref(&x);
    return 0;
}
