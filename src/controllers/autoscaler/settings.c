// SPDX-License-Identifier: Apache-2.0
#include "autoscaler/autoscaler.h"

#include "base/clock.h"
#include "nodes/choice.h"

#define MINUTE (60 * GS_NS_PER_SEC)

void autoscaler_settings_init(struct autoscaler_settings *ret)
{
    *ret = (struct autoscaler_settings){
        .scan_interval = 10 * GS_NS_PER_SEC,
        .expander = "cost",
        .expendable_priority = -10,
        .max_nodes_per_scale_up = 1000,
        .max_provision_time = 15 * MINUTE,
        .max_startup_time = 15 * MINUTE,
        .backoff_initial = 5 * MINUTE,
        .backoff_max = 30 * MINUTE,
        .backoff_reset = 180 * MINUTE,
        .max_unready_percentage = 45,
        .ok_unready_count = 3,
        .scale_down = true,
        .unneeded_time = 10 * MINUTE,
        .unready_time = 20 * MINUTE,
        .delay_after_add = 10 * MINUTE,
        .delay_after_failure = 3 * MINUTE,
        .utilization_threshold = 0.5,
        .gpu_utilization_threshold = 0.5,
        .max_parallelism = 10,
        .max_drain_parallelism = 1,
        .max_graceful_termination_s = 600,
        .max_eviction_time = 2 * MINUTE,
        .delay_after_taint = 5 * GS_NS_PER_SEC,
        .max_soft_taints = 10,
        .evict_daemonsets = true,
        .skip_local_storage = true,
        .skip_system_pods = true,
    };
}

static struct gs_error *too_small(const char *flag, const char *least)
{
    return gs_error_new(GS_EINVAL, "--%s must be at least %s", flag, least);
}

static bool is_share(double v)
{
    return v >= 0 && v <= 1;
}

struct gs_error *autoscaler_settings_check(const struct autoscaler_settings *s)
{
    const struct {
        const char *flag;
        int64_t ns;
    } durations[] = {
        {"new-pod-scale-up-delay", s->new_pod_scale_up_delay},
        {"max-node-provision-time", s->max_provision_time},
        {"max-node-startup-time", s->max_startup_time},
        {"initial-node-group-backoff-duration", s->backoff_initial},
        {"max-node-group-backoff-duration", s->backoff_max},
        {"node-group-backoff-reset-timeout", s->backoff_reset},
        {"scale-down-unneeded-time", s->unneeded_time},
        {"scale-down-unready-time", s->unready_time},
        {"scale-down-delay-after-add", s->delay_after_add},
        {"scale-down-delay-after-delete", s->delay_after_delete},
        {"scale-down-delay-after-failure", s->delay_after_failure},
        {"max-pod-eviction-time", s->max_eviction_time},
        {"node-delete-delay-after-taint", s->delay_after_taint},
    };
    for (size_t i = 0; i < sizeof(durations) / sizeof(*durations); i++)
        if (durations[i].ns < 0)
            return too_small(durations[i].flag, "0s");
    if (s->scan_interval < GS_NS_PER_SEC / 10)
        return too_small("scan-interval", "100ms");
    if (s->max_parallelism < 1)
        return too_small("max-scale-down-parallelism", "1");
    if (s->max_drain_parallelism < 1)
        return too_small("max-drain-parallelism", "1");
    if (s->max_nodes_per_scale_up < 1)
        return too_small("max-nodes-per-scaleup", "1");
    if (!is_share(s->utilization_threshold))
        return gs_error_new(GS_EINVAL, "--scale-down-utilization-threshold must be from 0 to 1");
    if (!is_share(s->gpu_utilization_threshold))
        return gs_error_new(GS_EINVAL,
                            "--scale-down-gpu-utilization-threshold must be from 0 to 1");
    if (!(s->max_unready_percentage >= 0 && s->max_unready_percentage <= 100))
        return gs_error_new(GS_EINVAL, "--max-total-unready-percentage must be from 0 to 100");
    enum nodes_policy policy;
    struct gs_error *err = nodes_policy_parse(s->expander, &policy);
    return err ? gs_error_wrap(err, "--expander") : NULL;
}
