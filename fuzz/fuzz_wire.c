// SPDX-License-Identifier: Apache-2.0
// Messages of Nodes (first byte even) and Pods. What is read can be written and read again.
#include "base/mem.h"
#include "nodes/wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CODEC_AUTO_JSON json_t *first = NULL, *second = NULL;
    GS_AUTO_BUF struct gs_buf out = {0};
    if (size == 0)
        return 0;
    bool pod = data[0] % 2;
    struct gs_slice message = gs_slice_make(data + 1, size - 1);
    GS_AUTO_ERROR struct gs_error *err =
        pod ? wire_read_pod(message, &first) : wire_read_node(message, &first);
    if (err)
        return 0;
    GS_AUTO_ERROR struct gs_error *again =
        pod ? wire_write_pod(first, &out) : wire_write_node(first, &out);
    GS_AUTO_ERROR struct gs_error *last = NULL;
    if (!again)
        last = pod ? wire_read_pod(gs_buf_slice(&out), &second)
                   : wire_read_node(gs_buf_slice(&out), &second);
    if (last && gs_error_code(last) != GS_ELIMIT)
        abort();
    return 0;
}
