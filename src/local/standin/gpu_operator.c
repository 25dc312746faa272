// SPDX-License-Identifier: Apache-2.0
// NVIDIA's gpu-operator: what its operands do is built in, so the operator only reports that each
// ClusterPolicy is ready.
#include "base/clock.h"
#include "base/mem.h"
#include "kube/cache.h"
#include "kube/object.h"
#include "local/standin/standin_private.h"

#define CLUSTER_POLICIES ((struct kube_gvr){"nvidia.com", "v1", "clusterpolicies"})

static bool is_reported(const json_t *policy)
{
    return gs_streq(codec_json_str(policy, "status", "state", NULL), "ready");
}

static void report(struct standin_session *s, const json_t *policy)
{
    CODEC_AUTO_JSON json_t *patch = json_object();
    json_t *conditions = json_array();
    int64_t now = gs_unix_ms();
    kube_set_condition(conditions, "Ready", "True", "Reconciled",
                       "the operands are built into gpuscale up", now);
    kube_set_condition(conditions, "Error", "False", "Reconciled", "", now);
    codec_json_set(patch, json_string("ready"), "status", "state", NULL);
    codec_json_set(patch, codec_json_strf("%s", standin_namespace(s)), "status", "namespace", NULL);
    codec_json_set(patch, conditions, "status", "conditions", NULL);
    kube_patch(s->server->cfg.cluster->client, CLUSTER_POLICIES, NULL, kube_name(policy), "status",
               KUBE_MERGE_PATCH, patch, NULL, NULL);
    standin_log(s, "gpuscale: ClusterPolicy %s is ready", kube_name(policy));
}

static void on_policy(void *arg, const json_t *old_policy, const json_t *policy)
{
    struct standin_session *s = arg;
    if (policy && !is_reported(policy) && !kube_is_deleting(policy))
        report(s, policy);
}

void standin_gpu_operator_start(struct standin_session *s)
{
    const struct standin_config *cfg = &s->server->cfg;
    if (gs_streq(standin_word(s), "manage-crds")) {
        standin_log(s, "gpuscale: the CustomResourceDefinitions are those of the chart");
        standin_exit(s, 0);
        return;
    }
    standin_log(s, "gpuscale: operands are built in: driver, toolkit, device plugin, "
                   "dcgm-exporter, GFD, validator");
    const struct kube_cache_handlers handlers = {.on_change = on_policy, .arg = s};
    struct kube_cache *policies =
        kube_cache_new(cfg->cluster->loop, cfg->cluster->client, CLUSTER_POLICIES, NULL, NULL);
    s->state = policies;
    kube_cache_add_handlers(policies, &handlers);
    kube_cache_start(policies);
}

void standin_gpu_operator_end(struct standin_session *s)
{
    if (s->state)
        kube_cache_free(s->state);
}
