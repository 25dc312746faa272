// SPDX-License-Identifier: Apache-2.0
// RFC 7386.
#include "kube/patch.h"

static struct gs_error *too_deep(void)
{
    return gs_error_new(GS_ELIMIT, "patch is nested more than %d levels deep",
                        CODEC_JSON_MAX_DEPTH);
}

// target: a new value that is changed, or NULL; taken. *ret is the merged value.
static struct gs_error *merge_value(json_t *target, const json_t *patch, int depth, json_t **ret)
{
    if (depth > CODEC_JSON_MAX_DEPTH) {
        json_decref(target);
        return too_deep();
    }
    if (!json_is_object(patch)) {
        json_decref(target);
        *ret = json_deep_copy(patch);
        return NULL;
    }
    if (!json_is_object(target)) {
        json_decref(target);
        target = json_object();
    }
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)patch, key, value) {
        if (json_is_null(value)) {
            json_object_del(target, key);
            continue;
        }
        json_t *merged;
        struct gs_error *err =
            merge_value(json_incref(json_object_get(target, key)), value, depth + 1, &merged);
        if (err) {
            json_decref(target);
            return err;
        }
        json_object_set_new(target, key, merged);
    }
    *ret = target;
    return NULL;
}

struct gs_error *kube_patch_merge(const json_t *target, const json_t *patch, json_t **ret)
{
    return merge_value(json_deep_copy(target), patch, 0, ret);
}
