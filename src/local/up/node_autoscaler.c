// SPDX-License-Identifier: Apache-2.0
// The loop that adds machines to the pools of `gpuscale up` and removes them.
#include "up/up_private.h"

#include "local/api.h"

enum { METRICS_INTERVAL_MS = 5000 };

struct gs_error *up_node_autoscaler_check(const struct up_options *o)
{
    return autoscaler_settings_check(&o->autoscaler);
}

static void write_metrics(void *autoscaler, struct gs_buf *out)
{
    autoscaler_metrics(autoscaler, out);
}

// The DaemonSets of the cluster use part of each machine, so their cache is needed, too.
void up_node_autoscaler_start(struct up_cluster *c)
{
    if (!c->machines)
        return;
    const struct autoscaler_config cfg = {
        .pools = c->pools.items,
        .n_pools = c->pools.len,
        .provider = machines_provider(up_machines_of(c->machines)),
        .settings = c->options->autoscaler,
        .pods = c->cluster->pods,
        .nodes = c->cluster->nodes,
        .daemonsets = c->cluster->daemonsets,
    };
    c->node_autoscaler = autoscaler_new(c->loop, c->client, &cfg);
    local_api_mount(c->api, AUTOSCALER_GROUP, autoscaler_group, autoscaler_handle,
                    c->node_autoscaler);
    const struct up_feed_config feed = {.job = "cluster-autoscaler",
                                        .instance = c->node_name,
                                        .interval_ms = METRICS_INTERVAL_MS,
                                        .write = write_metrics,
                                        .arg = c->node_autoscaler};
    c->autoscaler_feed = up_feed_new(c->loop, c->engine, &feed);
    autoscaler_start(c->node_autoscaler);
}
