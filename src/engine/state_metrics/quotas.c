// SPDX-License-Identifier: Apache-2.0
// Metrics of ResourceQuotas and LimitRanges.
#include "engine/state_metrics/state_metrics_private.h"

// One sample for each entry of a resource list. Resources have their own names here, such as
// "requests.nvidia.com/gpu".
static void write_amounts(struct state_metrics_writer *w, const json_t *obj, const json_t *list,
                          const char *type, const char *constraint)
{
    const char *resource;
    json_t *quantity;
    double v;

    json_object_foreach ((json_t *)list, resource, quantity) {
        if (!state_metrics_amount(quantity, &v))
            continue;
        state_metrics_begin(w);
        state_metrics_identify(w, obj, w->field->kind);
        state_metrics_label(w, "resource", resource);
        state_metrics_label(w, "type", type);
        state_metrics_label(w, "constraint", constraint);
        state_metrics_end(w, v);
    }
}

static void write_quota(struct state_metrics_writer *w, const json_t *quota)
{
    static const char *const types[] = {"hard", "used"};

    for (size_t i = 0; i < GS_ARRAY_LEN(types); i++)
        write_amounts(w, quota, codec_json_get(quota, "status", types[i], NULL), types[i], NULL);
}

static void write_limits(struct state_metrics_writer *w, const json_t *range)
{
    static const char *const constraints[] = {"min", "max", "default", "defaultRequest",
                                              "maxLimitRequestRatio"};
    const json_t *limit;
    size_t i;

    json_array_foreach (codec_json_get(range, "spec", "limits", NULL), i, limit)
        for (size_t k = 0; k < GS_ARRAY_LEN(constraints); k++)
            write_amounts(w, range, json_object_get(limit, constraints[k]),
                          codec_json_str(limit, "type", NULL), constraints[k]);
}

const struct state_metrics_family state_metrics_quota_families[] = {
    STATE_METRICS_CREATED("kube_resourcequota_created", "resourcequota"),
    {"kube_resourcequota",
     "Limit and use of a resource in a namespace.",
     METRICS_GAUGE,
     write_quota,
     {"resourcequota"}},
    {0},
};

const struct state_metrics_family state_metrics_limit_range_families[] = {
    STATE_METRICS_CREATED("kube_limitrange_created", "limitrange"),
    {"kube_limitrange",
     "Constraints of the resources of pods, containers and claims.",
     METRICS_GAUGE,
     write_limits,
     {"limitrange"}},
    {0},
};
