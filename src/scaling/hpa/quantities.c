// SPDX-License-Identifier: Apache-2.0
// Quantities of metrics and behavior in canonical form. YAML can have numbers where the API has
// texts.
#include "hpa/hpa_private.h"

#include "base/mem.h"
#include "base/num.h"
#include "kube/quantity.h"

// YAML files contain numbers (`averageValue: 20`). The API stores the string "20".
static struct gs_error *canonical_member(json_t *obj, const char *member, const char *where)
{
    const json_t *v = json_object_get(obj, member);
    if (!v)
        return NULL;
    if (json_is_null(v)) {
        json_object_del(obj, member);
        return NULL;
    }
    char number[GS_DOUBLE_SIZE];
    struct gs_slice text;
    if (json_is_string(v)) {
        text = gs_slice_make(json_string_value(v), json_string_length(v));
    } else if (json_is_integer(v)) {
        snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(v));
        text = gs_slice_of(number);
    } else if (json_is_real(v)) {
        text = gs_slice_of(gs_format_double(json_real_value(v), number));
    } else {
        return gs_error_new(GS_EINVAL, "%s.%s: must be a quantity such as 20, \"500m\" or \"64Mi\"",
                            where, member);
    }
    char canonical[KUBE_QUANTITY_SIZE];
    struct gs_error *err = kube_quantity_canonical(text, canonical);
    if (err)
        return gs_error_wrap(err, "%s.%s", where, member);
    json_object_set_new(obj, member, json_string(canonical));
    return NULL;
}

struct gs_error *hpa_canonical_metrics(json_t *metrics, const char *where, const char *part)
{
    for (size_t i = 0; i < json_array_size(metrics); i++) {
        const json_t *metric = json_array_get(metrics, i);
        for (size_t s = 0; s < HPA_N_SOURCES; s++) {
            json_t *values = codec_json_get(metric, hpa_sources[s].member, part, NULL);
            if (!json_is_object(values))
                continue;
            GS_AUTO_FREE char *path =
                gs_format("%s[%zu].%s.%s", where, i, hpa_sources[s].member, part);
            struct gs_error *err = canonical_member(values, "value", path);
            if (!err)
                err = canonical_member(values, "averageValue", path);
            if (err)
                return err;
        }
    }
    return NULL;
}

struct gs_error *hpa_canonical_behavior(json_t *behavior)
{
    static const char *const directions[] = {"scaleUp", "scaleDown"};
    for (size_t i = 0; i < GS_ARRAY_LEN(directions); i++) {
        json_t *rules = json_object_get(behavior, directions[i]);
        if (!json_is_object(rules))
            continue;
        GS_AUTO_FREE char *path = gs_format("spec.behavior.%s", directions[i]);
        struct gs_error *err = canonical_member(rules, "tolerance", path);
        if (err)
            return err;
    }
    return NULL;
}
