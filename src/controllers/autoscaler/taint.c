// SPDX-License-Identifier: Apache-2.0
// Taints of nodes. A write carries the resourceVersion of the node that was read, so that a taint
// which another client adds at the same time is not lost; after a conflict the next run tries
// again.
#include "autoscaler/autoscaler_private.h"

#include "base/log.h"
#include "base/mem.h"
#include "kube/object.h"

static void taint_written(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct autoscaler_node *n = arg;
    (void)body;
    n->taint_request = NULL;
    if (err && status != 409 && status != 404)
        gs_warn("autoscaler", "cannot write the taints of node %s: %s", n->name,
                gs_error_message(err));
    gs_error_free(err);
    autoscaler_deletions_step(n->owner);
}

void autoscaler_patch_node(struct autoscaler_node *n, json_t *patch)
{
    codec_json_set(patch, json_string(kube_resource_version(n->object)), "metadata",
                   "resourceVersion", NULL);
    n->taint_request = kube_patch(n->owner->client, KUBE_NODES, NULL, n->name, NULL,
                                  KUBE_MERGE_PATCH, patch, taint_written, n);
}

bool autoscaler_taint(struct autoscaler *a, struct autoscaler_node *n, const char *key,
                      const char *value, const char *effect)
{
    (void)a;
    if (n->taint_request || !n->object)
        return false;
    json_t *taints = json_array();
    size_t i;
    json_t *taint;
    json_array_foreach (codec_json_get(n->object, "spec", "taints", NULL), i, taint) {
        if (!gs_streq(codec_json_str(taint, "key", NULL), key))
            json_array_append(taints, taint);
    }
    if (value)
        json_array_append_new(
            taints, json_pack("{s:s, s:s, s:s}", "key", key, "value", value, "effect", effect));
    CODEC_AUTO_JSON json_t *patch = json_object();
    codec_json_set(patch, taints, "spec", "taints", NULL);
    autoscaler_patch_node(n, patch);
    return true;
}
