// SPDX-License-Identifier: Apache-2.0
// Events of events.k8s.io are the core events under other names of members; only the core form is
// stored.
#include "local/api/registry.h"

static const struct {
    const char *core, *view;
} renamed[] = {
    {"involvedObject", "regarding"},
    {"message", "note"},
    {"source", "deprecatedSource"},
    {"firstTimestamp", "deprecatedFirstTimestamp"},
    {"lastTimestamp", "deprecatedLastTimestamp"},
    {"count", "deprecatedCount"},
    {"reportingComponent", "reportingController"},
};

static const char *translate(const char *key, bool to_core)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(renamed); i++) {
        const char *from = to_core ? renamed[i].view : renamed[i].core;
        if (strcmp(key, from) == 0)
            return to_core ? renamed[i].core : renamed[i].view;
    }
    return key;
}

static json_t *rename_members(const json_t *event, bool to_core)
{
    json_t *out = json_object();
    const char *key;
    json_t *value;

    json_object_foreach ((json_t *)event, key, value)
        json_object_set(out, translate(key, to_core), value);
    return out;
}

struct gs_error *local_api_event_to_core(const json_t *event, json_t **ret)
{
    json_t *core = rename_members(event, true);

    codec_json_set_str(core, "apiVersion", "v1");
    *ret = core;
    return NULL;
}

struct gs_error *local_api_event_from_core(const json_t *core, const char *version, json_t **ret)
{
    json_t *event = rename_members(core, false);

    json_object_set_new(event, "apiVersion", codec_json_strf("events.k8s.io/%s", version));
    *ret = event;
    return NULL;
}
