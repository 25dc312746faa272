// SPDX-License-Identifier: Apache-2.0
// Responses of a faulty Prometheus. The first byte selects the status and the kind of response.
#include "adapter/source/source_private.h"
#include "base/hmap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int statuses[] = {200, 400, 422, 503, 502};
    if (size < 1)
        return 0;
    int status = statuses[(data[0] >> 1) % GS_ARRAY_LEN(statuses)];
    struct gs_slice body = gs_slice_make(data + 1, size - 1);
    struct source_result *r = NULL;
    struct source_shapes *s = NULL;
    if ((data[0] & 0x11) == 0x11)
        gs_error_free(source_read_names(status, body, &s));
    else if (data[0] & 1)
        gs_error_free(source_read_series(status, body, &s));
    else
        gs_error_free(source_read_query(status, body, &r));
    // Reads all results, for the sanitizers.
    size_t sum = 0;
    for (size_t i = 0; r && i < r->n; i++)
        for (size_t k = 0; k < r->samples[i].n_labels; k++)
            sum += gs_hash(r->samples[i].labels[k].value.data, r->samples[i].labels[k].value.len);
    for (size_t i = 0; s && i < s->n; i++)
        sum += gs_hash(s->items[i].name.data, s->items[i].name.len);
    for (size_t i = 0; s && i < s->n; i++)
        for (size_t k = 0; k < s->items[i].n_labels; k++)
            sum += gs_hash(s->items[i].labels[k].data, s->items[i].labels[k].len);
    if (sum == SIZE_MAX)
        return 1;
    source_result_unref(r);
    source_shapes_free(s);
    return 0;
}
