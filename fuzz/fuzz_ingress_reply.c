// SPDX-License-Identifier: Apache-2.0
// Responses of backends of an Ingress. The first byte is the size of the pieces.
#include "base/mem.h"
#include "local/services/services_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct services_ingress_reply r = {0};
    size_t step = size ? (size_t)data[0] + 1 : 1;
    bool failed = false;

    for (size_t i = 1; i < size && !failed; i += step) {
        struct gs_slice in =
            gs_slice_make((const char *)data + i, size - i < step ? size - i : step);
        while (in.len && r.state != SERVICES_INGRESS_DONE && !failed) {
            struct gs_slice body;
            GS_AUTO_ERROR struct gs_error *err = services_ingress_reply_feed(&r, &in, &body);
            failed = err != NULL;
        }
    }
    for (size_t i = 0; !failed && r.has_head && i < r.n_headers; i++)
        if (gs_has_control(r.headers[i].name) || strchr(r.headers[i].value, '\n'))
            abort();
    services_ingress_reply_ended(&r);
    services_ingress_reply_finish(&r);
    return 0;
}
