// SPDX-License-Identifier: Apache-2.0
#include "codec/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct codec_yaml_docs docs = {0};
    struct gs_error *err = codec_yaml_parse(gs_slice_make(data, size), "input", &docs);
    if (!err)
        codec_yaml_docs_finish(&docs);
    gs_error_free(err);
    return 0;
}
