// SPDX-License-Identifier: Apache-2.0
// The Node that a machine of a pool becomes: for scale-up from zero, and for the kubelet's flags.
#include "base/mem.h"
#include "node_provider/node_provider_private.h"

#define MAX_LABEL_VALUE 63

// The resources by which the Cluster Autoscaler recognizes a node with GPUs.
static bool is_known_gpu(const char *resource)
{
    static const char *const names[] = {"nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi",
                                        "gpu.intel.com/xe", "microsoft.com/directx"};
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++)
        if (gs_streq(resource, names[i]))
            return true;
    return false;
}

static char *label_value(const char *model)
{
    model = model ? model : "gpu";
    char *value = gs_strndup(model, strnlen(model, MAX_LABEL_VALUE));
    for (char *c = value; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9')))
            *c = '-';
    for (size_t n = strlen(value); n > 0 && value[n - 1] == '-'; n--)
        value[n - 1] = 0;
    return value;
}

json_t *node_provider_template(const struct nodes_pool *p, const char *gpu_label)
{
    json_t *node = nodes_pool_template(p, NULL);
    json_t *labels = codec_json_get(node, "metadata", "labels", NULL);
    if (p->gpus > 0 && *gpu_label && is_known_gpu(p->gpu_resource) &&
        !json_object_get(labels, gpu_label)) {
        GS_AUTO_FREE char *value = label_value(p->gpu_model);
        codec_json_set_str(labels, gpu_label, value);
    }
    return node;
}

const char *node_provider_labels_text(struct gs_arena *arena, const json_t *node)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    const char *key;
    json_t *value;
    json_object_foreach (codec_json_get(node, "metadata", "labels", NULL), key, value) {
        if (gs_starts(key, "kubernetes.io/")) // the kubelet sets these
            continue;
        gs_buf_addf(&out, "%s%s=%s", out.len ? "," : "", key, json_string_value(value));
    }
    return gs_arena_strndup(arena, out.data ? out.data : "", out.len);
}

const char *node_provider_taints_text(struct gs_arena *arena, const struct nodes_pool *p)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    for (size_t i = 0; i < p->n_taints; i++)
        gs_buf_addf(&out, "%s%s=%s:%s", i ? "," : "", p->taints[i].key, p->taints[i].value,
                    p->taints[i].effect);
    return gs_arena_strndup(arena, out.data ? out.data : "", out.len);
}
