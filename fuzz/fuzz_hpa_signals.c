// SPDX-License-Identifier: Apache-2.0
// The samples of a latency target: any response of an engine or a Prometheus.
#include "base/mem.h"
#include "hpa_controller/signals.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hpa_signals all = {0};
    struct slo_pod pods[2] = {{.name = "a"}, {.name = "b"}};
    struct slo_policy p;
    GS_AUTO_ERROR struct gs_error *err = slo_policy_parse("ttft=1s,queue=1s", &p);
    if (err)
        abort();
    bool ok = hpa_signals_read(gs_slice_make(size ? (const char *)data : "", size), &all);
    if (!ok && all.n)
        abort();
    struct slo_reading *r = slo_reading_new(&p, pods, 2);
    for (size_t i = 0; i < all.n; i++) {
        const struct hpa_signal *s = &all.items[i];
        slo_reading_add(r, s->name, s->pod, s->le, s->role, s->value, s->t_ms);
    }
    (void)slo_reading_end(r);
    slo_reading_free(r);
    hpa_signals_finish(&all);
    return 0;
}
