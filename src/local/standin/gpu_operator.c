// SPDX-License-Identifier: Apache-2.0
// NVIDIA's gpu-operator: what its operands do is built in, except for dcgm-exporter, which users
// scrape. The operator creates that and reports each ClusterPolicy as ready.
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

// --- dcgm-exporter ---

#define EXPORTER "nvidia-dcgm-exporter"

static const char *setting(const json_t *exporter, const char *name, const char *fallback)
{
    const char *value = codec_json_str(exporter, name, NULL);
    return value && *value ? value : fallback;
}

// An object of the operator's namespace that goes with the policy.
static json_t *make_object(const struct standin_session *s, const json_t *policy,
                           const char *api_version, const char *kind, json_t *spec)
{
    json_t *object = json_pack("{s:s, s:s, s:{s:s, s:s, s:{s:s}}, s:o}", "apiVersion", api_version,
                               "kind", kind, "metadata", "name", EXPORTER, "namespace",
                               standin_namespace(s), "labels", "app", EXPORTER, "spec", spec);
    json_t *owners = json_array();
    json_array_append_new(owners, kube_make_controller_ref(policy));
    codec_json_set(object, owners, "metadata", "ownerReferences", NULL);
    return object;
}

static json_t *daemonset_spec(const json_t *exporter)
{
    GS_AUTO_FREE char *image = gs_format(
        "%s/%s:%s", setting(exporter, "repository", "nvcr.io/nvidia/k8s"),
        setting(exporter, "image", "dcgm-exporter"), setting(exporter, "version", "latest"));
    json_t *container =
        json_pack("{s:s, s:s, s:[{s:s, s:i}], s:{s:{s:s, s:s}}}", "name", EXPORTER, "image", image,
                  "ports", "name", "metrics", "containerPort", 9400, "readinessProbe", "httpGet",
                  "path", "/health", "port", "metrics");
    return json_pack("{s:{s:{s:s}}, s:{s:{s:{s:s}}, s:{s:{s:s}, s:[o]}}}", "selector",
                     "matchLabels", "app", EXPORTER, "template", "metadata", "labels", "app",
                     EXPORTER, "spec", "nodeSelector", "nvidia.com/gpu.present", "true",
                     "containers", container);
}

static json_t *service_spec(void)
{
    return json_pack("{s:{s:s}, s:[{s:s, s:i, s:s}]}", "selector", "app", EXPORTER, "ports", "name",
                     "gpu-metrics", "port", 9400, "targetPort", "metrics");
}

// Objects that exist stay as they are: the answer is not awaited.
static void create(const struct standin_session *s, struct kube_gvr gvr, json_t *object)
{
    kube_create(s->server->cfg.cluster->client, gvr, standin_namespace(s), object, NULL, NULL);
    json_decref(object);
}

static void deploy_exporter(struct standin_session *s, const json_t *policy)
{
    const json_t *exporter = codec_json_get(policy, "spec", "dcgmExporter", NULL);
    if (!codec_json_bool(exporter, true, "enabled", NULL))
        return;
    create(s, KUBE_DAEMONSETS,
           make_object(s, policy, "apps/v1", "DaemonSet", daemonset_spec(exporter)));
    create(s, KUBE_SERVICES, make_object(s, policy, "v1", "Service", service_spec()));
}

// --- policies ---

static void on_policy(void *arg, const json_t *old_policy, const json_t *policy)
{
    struct standin_session *s = arg;
    if (!policy || kube_is_deleting(policy))
        return;
    if (!old_policy)
        deploy_exporter(s, policy);
    if (!is_reported(policy))
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
                   "GFD, validator; dcgm-exporter is deployed");
    const struct kube_cache_handlers handlers = {.on_change = on_policy, .arg = s};
    struct kube_cache *policies =
        kube_cache_new(cfg->cluster->loop, cfg->cluster->client, CLUSTER_POLICIES, NULL, NULL);
    s->state = policies;
    kube_cache_add_handlers(policies, &handlers);
    kube_cache_start(policies);
}

void standin_gpu_operator_end(struct standin_session *s)
{
    kube_cache_free(s->state);
}
