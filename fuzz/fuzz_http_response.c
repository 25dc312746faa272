// SPDX-License-Identifier: Apache-2.0
// Responses of HTTP/1.x servers. The first byte is the size of the pieces.
#include "base/mem.h"
#include "net/http/response_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct http_response_reader r = {0};
    size_t step = size ? (size_t)data[0] + 1 : 1;
    bool failed = false;

    for (size_t i = 1; i < size && !failed; i += step) {
        struct gs_slice in =
            gs_slice_make((const char *)data + i, size - i < step ? size - i : step);
        while (in.len && r.state != HTTP_RESPONSE_DONE && !failed) {
            struct gs_slice body;
            GS_AUTO_ERROR struct gs_error *err = http_response_reader_feed(&r, &in, &body);
            failed = err != NULL;
        }
    }
    for (size_t i = 0; !failed && r.has_head && i < r.n_headers; i++)
        if (gs_has_control(r.headers[i].name) || strchr(r.headers[i].value, '\n'))
            abort();
    http_response_reader_ended(&r);
    http_response_reader_finish(&r);
    return 0;
}
