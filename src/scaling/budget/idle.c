// SPDX-License-Identifier: Apache-2.0
// Whether the GPUs of a workload were idle, from what was measured of them. A busy GPU that is
// taken costs more than an idle one that is kept, so each doubt counts as busy.
#include "budget/budget.h"

#include "base/clock.h"

#include <math.h>

#define MINUTE_MS 60000

// NULL: it was idle.
static const char *busy_sign(const struct budget_idle_pod *p, int64_t after_ms)
{
    int64_t minutes = after_ms / MINUTE_MS;
    bool fresh = p->measured >= (double)p->gpus, whole = p->minutes > (double)minutes;
    if (p->gpus < 1 || !fresh)
        return "has a GPU without a sample in the last minute";
    if (!whole || isnan(p->util) || isnan(p->memory))
        return "has no samples of the whole time";
    if (p->util > 0)
        return "used a GPU";
    if (p->process > 0)
        return "has a busy process";
    return p->memory != 0 ? "changed its GPU memory" : NULL;
}

bool budget_is_idle(const struct budget_idle_pod *pods, size_t n, int64_t after_ms,
                    struct gs_buf *ret)
{
    char after[GS_RFC3339_SIZE];
    gs_format_units(after_ms * GS_NS_PER_MS, after);
    for (size_t i = 0; i < n; i++) {
        const char *sign = busy_sign(&pods[i], after_ms);
        if (!sign)
            continue;
        gs_buf_addf(ret, "not idle for %s: pod %s %s", after, pods[i].name, sign);
        return false;
    }
    if (!n)
        gs_buf_addf(ret, "not idle for %s: it has no pods", after);
    else
        gs_buf_addf(ret, "idle for %s: no busy process, utilization 0, constant memory", after);
    return n > 0;
}
