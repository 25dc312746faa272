// SPDX-License-Identifier: Apache-2.0
#include "engine/rules/rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rules_problems problems = {0};
    struct rules_set *set = NULL;
    struct gs_error *err = rules_parse(gs_slice_make(data, size), "input", &problems, &set);
    if (!err)
        rules_set_free(set);
    gs_error_free(err);
    rules_problems_finish(&problems);
    return 0;
}
