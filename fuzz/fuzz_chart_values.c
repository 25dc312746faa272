// SPDX-License-Identifier: Apache-2.0
// Helm values of kube-prometheus-stack.
#include "engine/chart/chart.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct chart_values v = {0};
    bool found = false;
    struct gs_error *err = chart_values_add(gs_slice_make(size ? (const char *)data : "", size),
                                            "values.yaml", &v, &found);
    if (!err && !found && (v.config || v.objects))
        __builtin_trap();
    if (!err && found) {
        json_decref(chart_release_objects(&v, "prometheus", 9090, "notice"));
        json_decref(chart_release_pod(&v, "prometheus", "engine", 9090));
    }
    gs_error_free(err);
    chart_values_finish(&v);
    return 0;
}
