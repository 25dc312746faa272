// SPDX-License-Identifier: Apache-2.0
// Values of series in unit tests of rules.
#include "promql/series.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gs_arena arena = {.limit = 64 << 20};
    struct promql_values values;
    struct gs_error *err =
        promql_parse_values(gs_slice_make(size ? (const char *)data : "", size), &arena, &values);
    if (!err) {
        struct promql_values_reader r = {.values = &values};
        double v;
        bool omitted;
        for (int i = 0; i < 1000 && promql_values_next(&r, &v, &omitted); i++) {
        }
    }
    gs_error_free(err);
    gs_arena_finish(&arena);
    return 0;
}
