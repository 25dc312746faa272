// SPDX-License-Identifier: Apache-2.0
// Bodies of forms. The first line is the Content-Type, the rest the body.
#include "base/mem.h"
#include "net/http/http_private.h"

static void release(struct http_exchange *x)
{
}

static const struct http_carrier_ops ops = {.release = release};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gs_slice body = gs_slice_make(data, size);
    GS_AUTO_FREE char *type = gs_slice_dup(gs_slice_cut(&body, '\n'));
    const char *name, *value;
    struct http_exchange x;
    http_exchange_init(&x, NULL, &ops);
    http_exchange_add_request_header(&x, "Content-Type", type);
    gs_buf_add_slice(&x.body, body);
    gs_error_free(http_read_form(&x));
    for (size_t i = 0; (value = http_query_nth(&x, i, &name)); i++)
        if (strlen(name) + strlen(value) > size)
            abort();
    http_exchange_unref(&x);
    return 0;
}
