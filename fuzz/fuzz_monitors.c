// SPDX-License-Identifier: Apache-2.0
// ServiceMonitor and PodMonitor objects as configurations. The input is also the content of
// Secrets.
#include "engine/config/config.h"
#include "engine/monitors/monitors_private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// The object itself is used as the Secret, with `data` from the input.
static const json_t *look_up(void *arg, enum monitors_asset kind, const char *name,
                             bool *ret_pending)
{
    *ret_pending = name[0] == 'p' && kind == MONITORS_CONFIGMAP;
    return name[0] == 'n' ? NULL : arg;
}

static void try(enum monitors_kind kind, json_t *obj)
{
    struct monitors_build b = {.kind = kind, .obj = obj, .lookup = look_up, .arg = obj};
    json_t *jobs = NULL;
    struct gs_error *err = monitors_jobs(&b, &jobs);
    if (!err && !jobs && !b.pending)
        __builtin_trap();
    if (!err && jobs) {
        CODEC_AUTO_JSON json_t *doc = json_pack("{s:o}", "scrape_configs", jobs);
        struct engine_config *cfg = NULL;
        err = engine_config_from_json(doc, "spec", &cfg);
        if (!err && cfg->n_scrapes != json_array_size(json_object_get(doc, "scrape_configs")))
            __builtin_trap();
        engine_config_free(cfg);
    }
    gs_error_free(err);
    free(monitors_doubles(kind, json_object_get(obj, "spec")));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CODEC_AUTO_JSON json_t *obj = NULL;
    struct gs_error *err = codec_json_parse(gs_slice_make(data, size), false, &obj);
    if (!err && json_is_object(obj)) {
        try(MONITORS_SERVICE, obj);
        try(MONITORS_POD, obj);
    }
    gs_error_free(err);
    return 0;
}
