// SPDX-License-Identifier: Apache-2.0
// A value that parses must be equal after it is written and parsed again.
#include "codec/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CODEC_AUTO_JSON json_t *j = NULL;
    GS_AUTO_ERROR struct gs_error *err = codec_json_parse(gs_slice_make(data, size), true, &j);
    if (err)
        return 0;
    GS_AUTO_BUF struct gs_buf text = {0};
    codec_json_dump(j, &text);
    CODEC_AUTO_JSON json_t *again = NULL;
    GS_AUTO_ERROR struct gs_error *err2 = codec_json_parse(gs_buf_slice(&text), true, &again);
    if (err2 || !json_equal(j, again))
        __builtin_trap();
    return 0;
}
