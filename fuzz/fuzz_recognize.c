// SPDX-License-Identifier: Apache-2.0
// The recognition of files by their content.
#include "recognize/recognize.h"

#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gs_slice text = gs_slice_make(size ? (const char *)data : "", size);
    struct recognize_result found = recognize_text(text);
    GS_AUTO_FREE char *foreign = recognize_foreign(text, RECOGNIZE_CONFIG, "a configuration");
    if (foreign && (!found.text || (found.own & RECOGNIZE_CONFIG)))
        __builtin_trap();
    free(found.text);
    return 0;
}
