// SPDX-License-Identifier: Apache-2.0
// A target and a patch, both JSON, separated by a NUL: all three patch forms, and the type check of
// the result. The inputs must not change.
#include "kube/patch.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(struct gs_error *err, json_t *result)
{
    if ((err != NULL) == (result != NULL))
        abort();
    gs_error_free(err);
    GS_AUTO_BUF struct gs_buf text = {0};
    if (result)
        codec_json_dump(result, &text);
    json_decref(result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct kube_type *deployment;
    if (!deployment)
        deployment = kube_schema_find("apps/v1", "Deployment");
    struct gs_slice patch_text = gs_slice_make(data, size);
    struct gs_slice target_text = gs_slice_cut(&patch_text, '\0');
    CODEC_AUTO_JSON json_t *target = NULL;
    CODEC_AUTO_JSON json_t *patch = NULL;
    GS_AUTO_ERROR struct gs_error *bad_target = codec_json_parse(target_text, false, &target);
    if (bad_target)
        return 0;
    GS_AUTO_ERROR struct gs_error *bad_patch = codec_json_parse(patch_text, false, &patch);
    if (bad_patch)
        return 0;
    CODEC_AUTO_JSON json_t *target_before = json_deep_copy(target);
    CODEC_AUTO_JSON json_t *patch_before = json_deep_copy(patch);

    json_t *result = NULL;
    struct gs_error *err = kube_patch_merge(target, patch, &result);
    use(err, result);
    result = NULL;
    err = kube_patch_json(target, patch, &result);
    use(err, result);
    result = NULL;
    err = kube_patch_strategic(NULL, target, patch, &result);
    use(err, result);
    result = NULL;
    err = kube_patch_strategic(deployment, target, patch, &result);
    if (result) {
        CODEC_AUTO_JSON json_t *unknown = json_array();
        CODEC_AUTO_JSON json_t *wrong = json_array();
        kube_schema_check(deployment, result, true, unknown, wrong);
    }
    use(err, result);
    if (!json_equal(target, target_before) || !json_equal(patch, patch_before))
        abort();
    return 0;
}
