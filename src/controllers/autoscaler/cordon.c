// SPDX-License-Identifier: Apache-2.0
// Early cordons of a plan are written to the nodes.
#include "autoscaler/autoscaler_private.h"

#include "kube/object.h"

static void write_cordon(struct autoscaler *a, struct autoscaler_node *n, bool cordon,
                         const char *why)
{
    if (n->taint_request)
        return;
    CODEC_AUTO_JSON json_t *patch = nodes_cordon_patch(n->object, cordon, why);
    autoscaler_patch_node(n, patch);
    kube_event(a->recorder, n->object, "Normal", nodes_cordon_event(cordon), "%s", why);
    autoscaler_decided(a, "%s node %s: %s", cordon ? "cordoning" : "uncordoning", n->name, why);
}

void autoscaler_cordon(struct autoscaler *a, const struct autoscaler_run *r)
{
    for (size_t i = 0; i < r->plan.cordons.len; i++) {
        const struct nodes_cordon *c = &r->plan.cordons.items[i];
        if (r->nodes[c->node] && r->nodes[c->node]->object)
            write_cordon(a, r->nodes[c->node], c->cordon, c->why);
    }
}
