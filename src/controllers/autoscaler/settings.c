// SPDX-License-Identifier: Apache-2.0
// Defaults and limits of the autoscaler's flags. They are those of the Cluster Autoscaler, except
// for the expander. Durations are nanoseconds, shares are 0 to 1.
#include "autoscaler/autoscaler.h"

#include "base/clock.h"
#include "nodes/plan.h"

#define MINUTE (60 * GS_NS_PER_SEC)

// What the plan needs has the plan's defaults.
static void set_plan_defaults(struct autoscaler_settings *s)
{
    struct nodes_plan_settings p;
    nodes_plan_settings_init(&p);
    s->expander = nodes_policy_name(p.policy);
    s->expendable_priority = p.expendable_priority;
    s->max_nodes_per_scale_up = (int64_t)p.max_nodes_per_choice;
    s->max_provision_time = p.max_provision_ms * GS_NS_PER_MS;
    s->scale_down = p.scale_down;
    s->unneeded_time = p.unneeded_ms * GS_NS_PER_MS;
    s->unready_time = p.unready_ms * GS_NS_PER_MS;
    s->delay_after_add = p.delay_after_add_ms * GS_NS_PER_MS;
    s->delay_after_failure = p.delay_after_failure_ms * GS_NS_PER_MS;
    s->utilization_threshold = p.threshold;
    s->gpu_utilization_threshold = p.gpu_threshold;
    s->max_parallelism = (int64_t)p.max_parallelism;
    s->max_drain_parallelism = (int64_t)p.max_drain_parallelism;
    s->skip_local_storage = p.skip_local_storage;
    s->skip_system_pods = p.skip_system_pods;
}

void autoscaler_settings_init(struct autoscaler_settings *ret)
{
    *ret = (struct autoscaler_settings){
        .scan_interval = 10 * GS_NS_PER_SEC,
        .max_startup_time = 15 * MINUTE,
        .backoff_initial = NODES_BACKOFF_INITIAL_MS * GS_NS_PER_MS,
        .backoff_max = NODES_BACKOFF_MAX_MS * GS_NS_PER_MS,
        .backoff_reset = NODES_BACKOFF_RESET_MS * GS_NS_PER_MS,
        .max_unready_percentage = 45,
        .ok_unready_count = 3,
        .max_graceful_termination_s = 600,
        .max_eviction_time = 2 * MINUTE,
        .delay_after_taint = 5 * GS_NS_PER_SEC,
        .max_soft_taints = 10,
        .evict_daemonsets = true,
    };
    set_plan_defaults(ret);
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
