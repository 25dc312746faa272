// SPDX-License-Identifier: Apache-2.0
// Pools, their nodes and checks of them.
#include "nodes/nodes_private.h"

#include "base/mem.h"
#include "base/num.h"
#include "kube/object.h"
#include "kube/quantity.h"

void nodes_pools_finish(struct nodes_pools *p)
{
    free(p->items);
    gs_arena_finish(&p->arena);
    *p = (struct nodes_pools){0};
}

const struct nodes_pool *nodes_pools_find(const struct nodes_pools *p, const char *name)
{
    for (size_t i = 0; i < p->len; i++)
        if (gs_streq(p->items[i].name, name))
            return &p->items[i];
    return NULL;
}

// --- nodes ---

char *nodes_pool_provider_id(const struct nodes_pool *pool, const char *name)
{
    return gs_format("gpuscale://%s/%s", pool->name, name);
}

static void add_labels(const struct nodes_pool *p, const char *name, json_t *l)
{
    codec_json_set_str(l, "kubernetes.io/hostname", name);
    codec_json_set_str(l, "kubernetes.io/os", "linux");
    codec_json_set_str(l, "kubernetes.io/arch", "amd64");
    codec_json_set_str(l, NODES_POOL_LABEL, p->name);
    codec_json_set_str(l, "cloud.google.com/gke-nodepool", p->name);
    codec_json_set_str(l, "node.kubernetes.io/instance-type",
                       p->machine_type ? p->machine_type : p->name);
    if (p->zone)
        codec_json_set_str(l, "topology.kubernetes.io/zone", p->zone);
    if (p->spot)
        codec_json_set_str(l, "cloud.google.com/gke-spot", "true");
    if (p->has_price) {
        char price[GS_DOUBLE_SIZE];
        codec_json_set_str(l, NODES_PRICE_LABEL, gs_format_double(p->price, price));
    }
    if (p->gpus) {
        codec_json_set_str(l, "nvidia.com/gpu.present", "true");
        json_object_set_new(l, "nvidia.com/gpu.count", codec_json_strf("%zu", p->gpus));
    }
    if (p->gpus && p->gpu_model) {
        GS_AUTO_FREE char *product = gs_strdup(p->gpu_model);
        for (char *c = product; *c; c++)
            if (*c == ' ')
                *c = '-'; // as GPU feature discovery writes it
        codec_json_set_str(l, "nvidia.com/gpu.product", product);
    }
    for (size_t i = 0; i < p->n_labels; i++)
        codec_json_set_str(l, p->labels[i].key, p->labels[i].value);
}

static json_t *taints_of(const struct nodes_pool *p)
{
    json_t *out = json_array();
    for (size_t i = 0; i < p->n_taints; i++) {
        json_t *t = json_object();
        codec_json_set_str(t, "key", p->taints[i].key);
        if (*p->taints[i].value)
            codec_json_set_str(t, "value", p->taints[i].value);
        codec_json_set_str(t, "effect", p->taints[i].effect);
        json_array_append_new(out, t);
    }
    return out;
}

static json_t *amounts_of(const struct nodes_pool *p)
{
    char text[KUBE_QUANTITY_SIZE];
    json_t *out = json_object();
    codec_json_set_str(out, "cpu", kube_quantity_format_milli(p->cpu_milli, text));
    codec_json_set_str(out, "memory", kube_quantity_format_bytes(p->memory_bytes, text));
    json_object_set_new(out, "pods", codec_json_strf("%zu", p->max_pods));
    if (p->gpus)
        json_object_set_new(out, p->gpu_resource, codec_json_strf("%zu", p->gpus));
    for (size_t i = 0; i < p->n_resources; i++)
        codec_json_set_str(out, p->resources[i].name,
                           kube_quantity_format_milli(p->resources[i].milli, text));
    return out;
}

const char *const nodes_pool_labels[] = {NODES_POOL_LABEL,
                                         "karpenter.sh/nodepool",
                                         "cloud.google.com/gke-nodepool",
                                         "eks.amazonaws.com/nodegroup",
                                         "alpha.eksctl.io/nodegroup-name",
                                         "kubernetes.azure.com/agentpool",
                                         "agentpool",
                                         "alibabacloud.com/nodepool-id",
                                         NULL};

const char *nodes_pool_label(const json_t *node)
{
    for (size_t i = 0; nodes_pool_labels[i]; i++) {
        const char *pool = kube_label(node, nodes_pool_labels[i]);
        if (pool && *pool)
            return pool;
    }
    return NULL;
}

json_t *nodes_pool_template(const struct nodes_pool *p, const char *name)
{
    GS_AUTO_FREE char *made_up = name ? NULL : gs_format("template-node-for-%s", p->name);
    if (!name)
        name = made_up;
    json_t *node = json_object(), *labels = json_object();
    codec_json_set_str(node, "apiVersion", "v1");
    codec_json_set_str(node, "kind", "Node");
    codec_json_set(node, json_string(name), "metadata", "name", NULL);
    add_labels(p, name, labels);
    codec_json_set(node, labels, "metadata", "labels", NULL);
    GS_AUTO_FREE char *id = nodes_pool_provider_id(p, name);
    codec_json_set(node, json_string(id), "spec", "providerID", NULL);
    if (p->n_taints)
        codec_json_set(node, taints_of(p), "spec", "taints", NULL);
    codec_json_set(node, amounts_of(p), "status", "capacity", NULL);
    codec_json_set(node, amounts_of(p), "status", "allocatable", NULL);
    json_t *conditions = json_array();
    kube_set_condition(conditions, "Ready", "True", "KubeletReady",
                       "kubelet is posting ready status", 0);
    codec_json_set(node, conditions, "status", "conditions", NULL);
    return node;
}

// --- explanations ---

json_t *nodes_pool_json(const struct nodes_pool *p)
{
    json_t *o = json_object();
    codec_json_set_str(o, "name", p->name);
    codec_json_set_int(o, "max", (int64_t)p->max);
    codec_json_set_int(o, "gpus", (int64_t)p->gpus);
    codec_json_set_str(o, "gpuResource", p->gpu_resource);
    json_object_set_new(o, "node", nodes_pool_template(p, NULL));
    return o;
}

json_t *nodes_pools_json(const struct nodes_pool *pools, size_t n)
{
    json_t *out = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(out, nodes_pool_json(&pools[i]));
    return out;
}

static bool keeps_off(const char *effect)
{
    return gs_streq(effect, "NoSchedule") || gs_streq(effect, "NoExecute");
}

bool nodes_pool_attracts(const json_t *pool, const json_t *requests)
{
    const char *resource = codec_json_str(pool, "gpuResource", NULL);
    size_t i;
    json_t *taint;
    if (codec_json_int(pool, 0, "gpus", NULL) <= 0 ||
        (resource && codec_json_int(requests, 0, resource, NULL) > 0))
        return false;
    json_array_foreach (codec_json_get(pool, "node", "spec", "taints", NULL), i, taint)
        if (keeps_off(codec_json_str(taint, "effect", NULL)))
            return false;
    return true;
}

bool nodes_pool_is_open(const struct nodes_pool *pool)
{
    for (size_t i = 0; i < pool->n_taints; i++)
        if (keeps_off(pool->taints[i].effect))
            return false;
    return pool->gpus > 0;
}

bool nodes_is_embedded(const json_t *node)
{
    const char *version = codec_json_str(node, "status", "nodeInfo", "kubeletVersion", NULL);
    return version && strstr(version, "-gpuscale.");
}

// --- checks ---

void nodes_findings_finish(struct nodes_findings *f)
{
    for (size_t i = 0; i < f->len; i++)
        free(f->items[i].text);
    free(f->items);
    *f = (struct nodes_findings){0};
}

static void find(struct nodes_findings *f, enum nodes_severity severity, char *text)
{
    gs_grow(&f->items, &f->cap, f->len, sizeof(*f->items));
    f->items[f->len++] = (struct nodes_finding){severity, text};
}

// Labels by which node autoscalers recognize GPU nodes. Such a node without GPUs never counts as
// ready for them.
static bool is_gpu_label(const char *key)
{
    static const char *const keys[] = {
        "cloud.google.com/gke-accelerator",
        "k8s.amazonaws.com/accelerator",
        "kubernetes.azure.com/accelerator",
        "aliyun.accelerator/nvidia_name",
        "cloud.tencent.com/tke-accelerator",
        "nvidia.com/gpu.present",
        "nvidia.com/gpu.product",
        "nvidia.com/gpu.count",
        "node.kubernetes.ovhcloud.com/gpu",
        "cloud.digitalocean.com/gpu-node",
        "magnum.openstack.org/gpu",
        "k8s.scw.cloud/gpu",
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(keys); i++)
        if (gs_streq(key, keys[i]))
            return true;
    return false;
}

static void check_labels(const struct nodes_pool *p, struct nodes_findings *f)
{
    for (size_t i = 0; i < p->n_labels; i++) {
        if (!p->gpus && is_gpu_label(p->labels[i].key))
            find(f, NODES_ERROR,
                 gs_format("%s: pool %s has the GPU label %s but no GPUs: its nodes would never "
                           "count as ready; set machine.gpus or remove the label",
                           p->where, p->name, p->labels[i].key));
    }
}

static bool same_machine(const struct nodes_pool *a, const struct nodes_pool *b)
{
    if (a->gpus != b->gpus || a->spot != b->spot || !gs_streq(a->zone, b->zone) ||
        !gs_streq(a->gpu_model, b->gpu_model) || a->cpu_milli != b->cpu_milli ||
        a->memory_bytes != b->memory_bytes || a->n_labels != b->n_labels ||
        a->n_taints != b->n_taints)
        return false;
    for (size_t i = 0; i < a->n_labels; i++)
        if (!gs_streq(a->labels[i].key, b->labels[i].key) ||
            !gs_streq(a->labels[i].value, b->labels[i].value))
            return false;
    return true;
}

static void check_currency(const struct nodes_pool *first, const struct nodes_pool *p,
                           struct nodes_findings *f)
{
    if (p->has_price && !gs_streq(first->currency, p->currency))
        find(f, NODES_ERROR,
             gs_format("%s: the price of pool %s is in %s, that of pool %s in %s: prices in "
                       "several currencies cannot be compared",
                       p->where, p->name, p->currency, first->name, first->currency));
}

// The Cluster Autoscaler, too, adds such machines for pods that request no GPU.
static void check_attraction(const struct nodes_pool *p, struct nodes_findings *f)
{
    if (!p->max || !nodes_pool_is_open(p))
        return;
    find(
        f, NODES_WARNING,
        gs_format("%s: pool %s has GPUs and no taint: pods that request no GPU run there, too, and "
                  "make it grow; the taint " NODES_GPU_TAINT " keeps them off",
                  p->where, p->name));
}

static void check_pool(const struct nodes_pool *p, bool needs_price, struct nodes_findings *f)
{
    check_labels(p, f);
    check_attraction(p, f);
    if (needs_price && !p->has_price)
        find(f, NODES_WARNING,
             gs_format("%s: pool %s has no price: the policy \"cost\" uses it only if no pool with "
                       "a price can place the pods",
                       p->where, p->name));
    if (p->max == 0)
        find(f, NODES_WARNING,
             gs_format("%s: pool %s never gets a node: max is 0", p->where, p->name));
    for (size_t i = 0; i < p->n_taints; i++)
        if (!p->gpus && gs_streq(p->taints[i].key, NODES_GPU))
            find(f, NODES_WARNING,
                 gs_format("%s: pool %s has the taint %s but no GPUs: pods without GPU requests do "
                           "not tolerate it",
                           p->where, p->name, NODES_GPU));
}

void nodes_pools_check(const struct nodes_pools *p, bool needs_price, struct nodes_findings *ret)
{
    const struct nodes_pool *priced = NULL;
    for (size_t i = 0; i < p->len; i++) {
        const struct nodes_pool *pool = &p->items[i];
        check_pool(pool, needs_price, ret);
        if (!priced && pool->has_price)
            priced = pool;
        if (priced)
            check_currency(priced, pool, ret);
        for (size_t k = 0; k < i; k++) {
            const struct nodes_pool *other = &p->items[k];
            if (pool->has_price && other->has_price && pool->price != other->price &&
                same_machine(other, pool))
                find(ret, NODES_WARNING,
                     gs_format("%s: pool %s has the same machine as pool %s but another price",
                               pool->where, pool->name, other->name));
        }
    }
}
