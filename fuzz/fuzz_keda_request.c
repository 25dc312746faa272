// SPDX-License-Identifier: Apache-2.0
// Requests of KEDA: a GetMetricsRequest (first byte odd) or a ScaledObjectRef. A trigger that is
// accepted has all that a read needs.
#include "adapter/keda_scaler/keda_scaler_private.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    struct gs_slice message = gs_slice_make(data + 1, size - 1);
    struct keda_scaler_request rq;
    struct keda_scaler_trigger t = {0};
    GS_AUTO_ERROR struct gs_error *err = data[0] & 1
                                             ? keda_scaler_read_metrics_request(message, &rq)
                                             : keda_scaler_read_ref(message, &rq);
    if (!err)
        err = keda_scaler_trigger_read(&rq, &t);
    if (err)
        return 0;
    if (!*t.ns || !*t.signal || strchr(t.signal, '/') || strlen(t.metric) != strlen(t.signal) ||
        (t.name && (!*t.name || !*t.resource)) || !(t.threshold > 0) || !isfinite(t.activation))
        abort();
    keda_scaler_trigger_finish(&t);
    return 0;
}
