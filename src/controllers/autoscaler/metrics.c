// SPDX-License-Identifier: Apache-2.0
// Metrics with the names and help texts of the Cluster Autoscaler, and the reasons of nodes.
#include "autoscaler/autoscaler_private.h"

#include "metrics/write.h"

#define PREFIX "cluster_autoscaler_"

struct labelled {
    const char *name, *value;
};

static void sample(struct gs_buf *out, const char *name, struct labelled l, double value)
{
    const struct metrics_label label = {gs_slice_of(l.name), gs_slice_of(l.value)};
    metrics_write_sample(out, name, &label, l.name ? 1 : 0, value);
}

static void gauge(struct gs_buf *out, const char *name, const char *help, double value)
{
    metrics_write_family(out, name, METRICS_GAUGE, help);
    sample(out, name, (struct labelled){0}, value);
}

static void counter(struct gs_buf *out, const char *name, const char *help)
{
    metrics_write_family(out, name, METRICS_COUNTER, help);
}

static void write_nodes(const struct autoscaler *a, struct gs_buf *out)
{
    double ready = 0, unready = 0, not_started = 0, unregistered = 0, late = 0;
    for (size_t i = 0; i < a->cfg.n_pools; i++) {
        const struct autoscaler_pool *p = &a->pools[i];
        ready += (double)p->ready;
        unready += (double)p->unready;
        not_started += (double)p->not_started;
        unregistered += (double)p->unregistered;
        late += (double)p->long_unregistered;
    }
    const char *name = PREFIX "nodes_count";
    metrics_write_family(out, name, METRICS_GAUGE, "Number of nodes in cluster.");
    sample(out, name, (struct labelled){"state", "ready"}, ready);
    sample(out, name, (struct labelled){"state", "unready"}, unready);
    sample(out, name, (struct labelled){"state", "notStarted"}, not_started);
    sample(out, name, (struct labelled){"state", "unregistered"}, unregistered);
    sample(out, name, (struct labelled){"state", "longUnregistered"}, late);
}

static void write_pools(const struct autoscaler *a, struct gs_buf *out)
{
    static const struct {
        const char *name, *help;
    } families[] = {
        {PREFIX "node_group_min_count", "Minimum number of nodes in the node group"},
        {PREFIX "node_group_max_count", "Maximum number of nodes in the node group"},
        {PREFIX "node_group_target_count", "Target number of nodes in the node group by CA."},
        {PREFIX "node_group_healthiness",
         "Whether or not node group is healthy enough for autoscaling. 1 if it is, 0 otherwise."},
        {PREFIX "node_group_backoff_status",
         "Whether or not node group is backoff for not autoscaling. 1 if it is, 0 otherwise."},
    };
    int64_t now_ms = autoscaler_now(a);
    for (size_t f = 0; f < sizeof(families) / sizeof(*families); f++) {
        metrics_write_family(out, families[f].name, METRICS_GAUGE, families[f].help);
        for (size_t i = 0; i < a->cfg.n_pools; i++) {
            const struct autoscaler_pool *p = &a->pools[i];
            const double values[] = {(double)p->pool->min, (double)p->pool->max, (double)p->target,
                                     p->healthy, nodes_backoff_active(&p->backoff, now_ms)};
            sample(out, families[f].name, (struct labelled){"node_group", p->pool->name},
                   values[f]);
        }
    }
}

// Numbers that change all the time would make a new series each time.
static void write_reasons(const struct autoscaler *a, struct gs_buf *out)
{
    static const char name[] = "gpuscale_node_plan_info";
    size_t pos = 0;
    struct gs_slice key;
    void *value;
    metrics_write_family(out, name, METRICS_GAUGE,
                         "Why the node is removed or stays, as decided by the last plan.");
    while (gs_hmap_next(a->nodes, &pos, &key, &value)) {
        const struct autoscaler_node *n = value;
        const char *fixed = nodes_verdict_text(n->verdict), *reason = fixed ? fixed : n->reason;
        const struct metrics_label labels[] = {{gs_slice_of("node"), gs_slice_of(n->name)},
                                               {gs_slice_of("reason"), gs_slice_of(reason)}};
        if (n->reason)
            metrics_write_sample(out, name, labels, GS_ARRAY_LEN(labels), 1);
    }
}

static void write_counters(const struct autoscaler *a, struct gs_buf *out)
{
    const struct autoscaler_counters *c = &a->counters;
    counter(out, PREFIX "scaled_up_nodes_total", "Number of nodes added by CA.");
    sample(out, PREFIX "scaled_up_nodes_total", (struct labelled){0}, c->scaled_up);
    counter(out, PREFIX "scaled_up_gpu_nodes_total",
            "Number of GPU nodes added by CA, by GPU name.");
    sample(out, PREFIX "scaled_up_gpu_nodes_total", (struct labelled){0}, c->scaled_up_gpu);
    counter(out, PREFIX "failed_scale_ups_total", "Number of times scale-up operation has failed.");
    sample(out, PREFIX "failed_scale_ups_total",
           (struct labelled){"reason", "instanceCreationError"}, c->failed_capacity);
    sample(out, PREFIX "failed_scale_ups_total", (struct labelled){"reason", "timeout"},
           c->failed_timeout);
    sample(out, PREFIX "failed_scale_ups_total", (struct labelled){"reason", "cloudProviderError"},
           c->failed_scale_ups - c->failed_capacity - c->failed_timeout);
    counter(out, PREFIX "scaled_down_nodes_total", "Number of nodes removed by CA.");
    sample(out, PREFIX "scaled_down_nodes_total", (struct labelled){"reason", "empty"},
           c->scaled_down_empty);
    sample(out, PREFIX "scaled_down_nodes_total", (struct labelled){"reason", "underutilized"},
           c->scaled_down_underutilized);
    sample(out, PREFIX "scaled_down_nodes_total", (struct labelled){"reason", "unready"},
           c->scaled_down_unready);
    counter(out, PREFIX "evicted_pods_total", "Number of pods evicted by CA");
    sample(out, PREFIX "evicted_pods_total", (struct labelled){"eviction_result", "succeeded"},
           c->evicted);
    counter(out, PREFIX "old_unregistered_nodes_removed_count",
            "Number of unregistered nodes removed by CA.");
    sample(out, PREFIX "old_unregistered_nodes_removed_count", (struct labelled){0},
           c->old_unregistered);
}

void autoscaler_metrics(const struct autoscaler *a, struct gs_buf *out)
{
    double max = 0;
    for (size_t i = 0; i < a->cfg.n_pools; i++)
        max += (double)a->pools[i].pool->max;
    gauge(out, PREFIX "cluster_safe_to_autoscale",
          "Whether or not cluster is healthy enough for autoscaling. 1 if it is, 0 otherwise.",
          a->healthy);
    write_nodes(a, out);
    gauge(out, PREFIX "node_groups_count", "Number of node groups managed by CA.",
          (double)a->cfg.n_pools);
    gauge(out, PREFIX "unschedulable_pods_count", "Number of unschedulable pods in the cluster.",
          (double)a->n_unschedulable);
    gauge(out, PREFIX "max_nodes_count", "Maximum number of nodes in all node groups", max);
    gauge(out, PREFIX "unneeded_nodes_count",
          "Number of nodes currently considered unneeded by CA.", (double)a->n_unneeded);
    gauge(out, PREFIX "unremovable_nodes_count",
          "Number of nodes currently considered unremovable by CA.", (double)a->n_unremovable);
    gauge(out, PREFIX "pending_node_deletions",
          "Number of nodes that haven't been removed or aborted after finished scale-down phase.",
          (double)a->n_deletions);
    gauge(out, PREFIX "scale_down_in_cooldown",
          "Whether or not the scale down is in cooldown. 1 if its, 0 otherwise.", a->in_cooldown);
    write_pools(a, out);
    write_reasons(a, out);
    write_counters(a, out);
}
