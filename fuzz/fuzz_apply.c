// SPDX-License-Identifier: Apache-2.0
// A live object, an applied object and stored FieldsV1, all JSON, separated by NULs: sets of
// fields, differences, merging and pruning, by the type of Deployments and without a type. The
// inputs must not change. What is merged contains all applied fields.
#include "local/api/apply.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run(const struct local_api_applied_type *t, const json_t *live, const json_t *applied,
                const json_t *stored)
{
    CODEC_AUTO_JSON json_t *old = local_api_fields_read(stored);
    CODEC_AUTO_JSON json_t *set = local_api_fields_of(t, applied);
    CODEC_AUTO_JSON json_t *merged = local_api_fields_merge(t, live, applied);
    CODEC_AUTO_JSON json_t *changed = NULL;
    CODEC_AUTO_JSON json_t *removed = NULL;

    local_api_fields_prune(t, merged, old, set);
    local_api_fields_differ(t, live, merged, &changed, &removed);
    CODEC_AUTO_JSON json_t *common = local_api_fields_common(old, changed);
    CODEC_AUTO_JSON json_t *paths = local_api_fields_paths(common);
    local_api_fields_remove(old, removed);
    local_api_fields_add(old, set);
    CODEC_AUTO_JSON json_t *written = local_api_fields_write(old);
    CODEC_AUTO_JSON json_t *again = local_api_fields_read(written);
    if (!json_equal(again, old) && json_object_size(written) > 0)
        abort();
    // Applying the result again changes nothing.
    CODEC_AUTO_JSON json_t *same_changed = NULL;
    CODEC_AUTO_JSON json_t *same_removed = NULL;
    local_api_fields_differ(t, merged, merged, &same_changed, &same_removed);
    if (json_object_size(same_changed) > 0 || json_object_size(same_removed) > 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gs_slice rest = gs_slice_make(data, size);
    json_t *parts[3] = {0};
    bool usable = true;

    for (size_t i = 0; i < GS_ARRAY_LEN(parts); i++) {
        GS_AUTO_ERROR struct gs_error *err =
            codec_json_parse(gs_slice_cut(&rest, '\0'), false, &parts[i]);
        usable = usable && !err && json_is_object(parts[i]);
    }
    if (usable) {
        const struct local_api_applied_type typed = {.type =
                                                         kube_schema_find("apps/v1", "Deployment")};
        const struct local_api_applied_type free_form = {.custom = true};
        CODEC_AUTO_JSON json_t *live = json_deep_copy(parts[0]);
        CODEC_AUTO_JSON json_t *applied = json_deep_copy(parts[1]);
        run(&typed, parts[0], parts[1], parts[2]);
        run(&free_form, parts[0], parts[1], parts[2]);
        if (!json_equal(live, parts[0]) || !json_equal(applied, parts[1]))
            abort();
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(parts); i++)
        json_decref(parts[i]);
    return 0;
}
