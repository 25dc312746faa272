// SPDX-License-Identifier: Apache-2.0
// Requests and usage by container. They are converted to objects of the API, so that the
// controller's readers decide what is missing.
#include "base/mem.h"
#include "hpa/observe.h"
#include "hpa/release.h"
#include "replay/tables_private.h"

// {resource: quantity} as in the API; null values are omitted.
static json_t *quantities(const json_t *in)
{
    json_t *out = json_object(), *v;
    const char *name;
    json_object_foreach ((json_t *)in, name, v) {
        char text[REPLAY_OBSERVATION_QUANTITY_SIZE];
        if (replay_observation_quantity_text(v, text))
            json_object_set_new(out, name, json_string(text));
    }
    return out;
}

void replay_observation_container_requests(struct gs_arena *arena, const struct hpa_spec *spec,
                                           int release, const char *pod, const json_t *requests,
                                           struct hpa_pod *ret)
{
    CODEC_AUTO_JSON json_t *containers = json_array();
    const char *name;
    json_t *v;
    json_object_foreach ((json_t *)requests, name, v)
        json_array_append_new(containers, json_pack("{s:s, s:{s:o}}", "name", name, "resources",
                                                    "requests", quantities(v)));
    CODEC_AUTO_JSON json_t *items =
        json_pack("[{s:{s:s, s:s}, s:{s:O}}]", "metadata", "namespace", spec->ns, "name", pod,
                  "spec", "containers", containers);
    const struct hpa_pod *pods;
    const json_t **objects;
    size_t n;
    hpa_observe_list(spec, items, release, arena, &pods, &objects, &n);
    ret->requests_milli = pods[0].requests_milli;
    ret->request_errors = pods[0].request_errors;
}

bool replay_observation_container_usage(struct gs_arena *arena, const struct hpa_metric_spec *m,
                                        int release, const json_t *usage, struct hpa_sample *sample,
                                        const char **ret_error)
{
    CODEC_AUTO_JSON json_t *containers = json_array();
    const char *name;
    json_t *v;
    json_object_foreach ((json_t *)usage, name, v) {
        CODEC_AUTO_JSON json_t *one = json_pack("{s:O}", m->name, v);
        json_array_append_new(containers,
                              json_pack("{s:s, s:o}", "name", name, "usage", quantities(one)));
    }
    CODEC_AUTO_JSON json_t *body = json_pack("{s:[{s:{s:s}, s:O}]}", "items", "metadata", "name",
                                             sample->pod, "containers", containers);
    struct hpa_values values = {0};
    size_t n_items;
    GS_AUTO_ERROR struct gs_error *err =
        hpa_read_resource(body, m->name, m->container, arena, 0, &values, &n_items);
    bool found = !err && values.len;
    if (found)
        sample->value = values.items[0].value;
    free(values.items);
    GS_AUTO_ERROR struct gs_error *absent =
        m->type == HPA_METRIC_CONTAINER_RESOURCE && !hpa_since(release, HPA_SINCE_CONTAINER_MISSING)
            ? hpa_check_container(body, m->container)
            : NULL;
    if (absent)
        *ret_error = gs_arena_strdup(arena, gs_error_message(absent));
    return found;
}
