// SPDX-License-Identifier: Apache-2.0
// Requests to the expander. An answer never has options that the request does not have, and is not
// empty if the request has options.
#include "base/mem.h"
#include "codec/protobuf.h"
#include "expander/expander_private.h"

#include <stdlib.h>

static size_t count_options(struct gs_slice message)
{
    size_t n = 0;
    struct codec_proto_token t;
    while (message.len) {
        GS_AUTO_ERROR struct gs_error *err = codec_proto_next(&message, &t);
        if (err)
            abort();
        n += t.number == 1;
    }
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gs_slice request = gs_slice_make(data, size);
    GS_AUTO_BUF struct gs_buf answer = {0};
    GS_AUTO_FREE char *why = NULL;
    struct expander e = {.policy = NODES_POLICY_PACKING, .record = expander_record_new(1)};
    if (expander_answer(&e, request, &answer, &why) != EXPANDER_REFUSED) {
        size_t asked = count_options(request), answered = count_options(gs_buf_slice(&answer));
        if (answered > asked || (asked && !answered))
            abort();
    }
    expander_record_free(e.record);
    return 0;
}
