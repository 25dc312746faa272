// SPDX-License-Identifier: Apache-2.0
// A pod's volumes and images: names of images, paths, the files of a volume and subPathExpr. The
// input is an object {"pod", "volume", "sources", "image"}.
#include "base/mem.h"
#include "local/kubelet/images.h"
#include "local/kubelet/kubelet_private.h"
#include "local/kubelet/volumes.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_text(const char *text)
{
    GS_CLEANUP(kubelet_env_finish) struct kubelet_env env = {0};
    GS_AUTO_FREE char *expanded = NULL;
    kubelet_env_set(&env, "NAME", "value");
    (void)kubelet_substitute_index(text);
    (void)kubelet_is_inner_path(text);
    gs_error_free(kubelet_env_expand_strictly(&env, text, &expanded));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CODEC_AUTO_JSON json_t *input = NULL;
    GS_AUTO_FREE char *text = gs_strndup((const char *)data, size);
    try_text(text);
    GS_AUTO_ERROR struct gs_error *bad = codec_json_parse(gs_slice_make(data, size), false, &input);
    if (bad || !json_is_object(input))
        return 0;
    const char *image = codec_json_str(input, "image", NULL);
    if (image)
        try_text(image);
    const struct kubelet_env_context ctx = {
        .pod = json_object_get(input, "pod"),
        .pod_ip = "127.64.0.1",
        .sources = json_object_get(input, "sources"),
    };
    GS_CLEANUP(kubelet_files_finish) struct kubelet_files files = {0};
    CODEC_AUTO_JSON json_t *refs = json_object();
    kubelet_volume_references(ctx.pod, json_object_get(input, "volume"), refs);
    gs_error_free(kubelet_volume_files(&ctx, json_object_get(input, "volume"),
                                       KUBELET_MAX_FILES_BYTES, &files));
    kubelet_files_hash(&files);
    return 0;
}
