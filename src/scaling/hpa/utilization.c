// SPDX-License-Identifier: Apache-2.0
// Metrics that are full at 100 %: they show that a load is too much for the replicas that exist,
// but not by how much.
#include "hpa/hpa.h"

#include "base/mem.h"

#include <strings.h>

// The parts of names of such metrics: DCGM_FI_DEV_GPU_UTIL, DCGM_FI_PROF_GR_ENGINE_ACTIVE,
// gpuscale_inference_kv_cache_usage.
static const char *const parts[] = {"util", "usage", "DCGM_FI_PROF_"};

static bool contains(const char *text, const char *part)
{
    size_t len = strlen(part);
    for (; *text; text++)
        if (strncasecmp(text, part, len) == 0)
            return true;
    return false;
}

static bool is_utilization(const struct hpa_metric_spec *m)
{
    bool named = m->target == HPA_TARGET_UTILIZATION;
    for (size_t i = 0; i < GS_ARRAY_LEN(parts) && !named; i++)
        named = m->name && contains(m->name, parts[i]);
    return named;
}

bool hpa_spec_has_utilization(const struct hpa_spec *spec)
{
    for (size_t i = 0; i < spec->n_metrics; i++)
        if (is_utilization(&spec->metrics[i]))
            return true;
    return false;
}

bool hpa_decision_by_utilization(const struct hpa_spec *spec, const struct hpa_decision *d)
{
    if (d->extra)
        return false;
    for (size_t i = 0; d->metrics && i < d->n_metrics; i++)
        if (d->metrics[i].ok && d->metrics[i].proposal == d->proposal &&
            is_utilization(&spec->metrics[i]))
            return true;
    return false;
}
