// SPDX-License-Identifier: Apache-2.0
// A ScaledObject or a HorizontalPodAutoscaler as JSON, in both directions. The adapter accepts the
// rules of what is converted.
#include "adapter/scaledobject/scaledobject.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct adapter_config *load_rules(const json_t *rules)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct adapter_config *config = NULL;
    CODEC_AUTO_JSON json_t *all = json_pack("{s:O}", "externalRules", rules);
    codec_json_dump(all, &text);
    GS_AUTO_ERROR struct gs_error *err =
        adapter_config_parse(gs_buf_slice(&text), "rules", &config);
    if (err)
        abort();
    return config;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CODEC_AUTO_JSON json_t *object = NULL;
    struct scaledobject_result there, back;
    GS_AUTO_ERROR struct gs_error *err =
        codec_json_parse(gs_slice_make(data, size), false, &object);
    if (err)
        return 0;
    scaledobject_result_init(&there);
    scaledobject_result_init(&back);
    scaledobject_to_hpa(object, &there);
    struct scaledobject_sources sources = {.server = "http://p", .scaler = "s:1"};
    scaledobject_from_hpa(object, &sources, &back);
    if (json_array_size(there.objects)) {
        struct adapter_config *rules = load_rules(there.rules);
        sources.rules = rules;
        scaledobject_from_hpa(json_array_get(there.objects, 0), &sources, &back);
        adapter_config_free(rules);
    }
    scaledobject_result_finish(&there);
    scaledobject_result_finish(&back);
    return 0;
}
