// SPDX-License-Identifier: Apache-2.0
// A quantity's canonical form must parse to the same value, and be its own canonical form.
#include "kube/quantity.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gs_slice text = gs_slice_make(data, size);
    char once[KUBE_QUANTITY_SIZE], twice[KUBE_QUANTITY_SIZE];
    int64_t milli, again, value;
    GS_AUTO_ERROR struct gs_error *err = kube_quantity_parse_milli(text, &milli);
    if (err)
        return 0;
    if (kube_quantity_parse_value(text, &value) || kube_quantity_canonical(text, once) ||
        kube_quantity_parse_milli(gs_slice_of(once), &again) || again != milli ||
        kube_quantity_canonical(gs_slice_of(once), twice) || strcmp(once, twice) != 0)
        abort();
    kube_quantity_format_milli(milli, once);
    if (kube_quantity_parse_milli(gs_slice_of(once), &again) || again != milli)
        abort();
    kube_quantity_format_bytes(value, once);
    // Binary quantities end at -INT64_MAX.
    if (value != INT64_MIN &&
        (kube_quantity_parse_value(gs_slice_of(once), &again) || again != value))
        abort();
    return 0;
}
