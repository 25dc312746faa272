// SPDX-License-Identifier: Apache-2.0
// spec.behavior in the annotation of API versions without this field. Kubernetes writes its
// internal type, with capitalised names. The reader ignores case, as Go's decoder does.
#include "hpa/hpa_private.h"

#include "base/buf.h"

#include <strings.h>

static const json_t *get_any_case(const json_t *obj, const char *name)
{
    const json_t *v = json_object_get(obj, name);
    const char *key;
    json_t *member;
    if (!v) {
        json_object_foreach ((json_t *)obj, key, member) {
            if (strcasecmp(key, name) == 0)
                v = member;
        }
    }
    return json_is_null(v) ? NULL : v;
}

static void copy_any_case(const json_t *from, json_t *to, const char *name)
{
    const json_t *v = get_any_case(from, name);
    if (v)
        json_object_set_new(to, name, json_deep_copy(v));
}

static json_t *rules_from_annotation(const json_t *in)
{
    json_t *out = json_object();
    copy_any_case(in, out, "stabilizationWindowSeconds");
    copy_any_case(in, out, "selectPolicy");
    copy_any_case(in, out, "tolerance");
    const json_t *policies = get_any_case(in, "policies");
    // Defaults do not apply to an annotation: it is invalid without policies.
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(policies); i++) {
        json_t *policy = json_object();
        copy_any_case(json_array_get(policies, i), policy, "type");
        copy_any_case(json_array_get(policies, i), policy, "value");
        copy_any_case(json_array_get(policies, i), policy, "periodSeconds");
        json_array_append_new(list, policy);
    }
    json_object_set_new(out, "policies", list);
    return out;
}

json_t *hpa_behavior_from_annotation(const char *text)
{
    CODEC_AUTO_JSON json_t *in = NULL;
    GS_AUTO_ERROR struct gs_error *err = codec_json_parse(gs_slice_of(text), false, &in);
    if (err || !json_is_object(in))
        return NULL;
    CODEC_AUTO_JSON json_t *out = json_object();
    const json_t *up = get_any_case(in, "scaleUp"), *down = get_any_case(in, "scaleDown");
    if (json_is_object(up))
        json_object_set_new(out, "scaleUp", rules_from_annotation(up));
    if (json_is_object(down))
        json_object_set_new(out, "scaleDown", rules_from_annotation(down));
    if (!json_object_size(out))
        return NULL;
    err = hpa_canonical_behavior(out);
    return err ? NULL : json_incref(out);
}

static json_t *or_null(const json_t *v)
{
    return v ? json_deep_copy(v) : json_null();
}

static json_t *rules_to_annotation(const json_t *in)
{
    if (!json_is_object(in))
        return json_null();
    json_t *out = json_object();
    json_object_set_new(out, "StabilizationWindowSeconds",
                        or_null(json_object_get(in, "stabilizationWindowSeconds")));
    json_object_set_new(out, "SelectPolicy", or_null(json_object_get(in, "selectPolicy")));
    const json_t *policies = json_object_get(in, "policies");
    json_t *list = json_is_array(policies) ? json_array() : json_null();
    for (size_t i = 0; i < json_array_size(policies); i++) {
        const json_t *p = json_array_get(policies, i);
        json_t *policy = json_object();
        json_object_set_new(policy, "Type", or_null(json_object_get(p, "type")));
        json_object_set_new(policy, "Value", or_null(json_object_get(p, "value")));
        json_object_set_new(policy, "PeriodSeconds", or_null(json_object_get(p, "periodSeconds")));
        json_array_append_new(list, policy);
    }
    json_object_set_new(out, "Policies", list);
    json_object_set_new(out, "Tolerance", or_null(json_object_get(in, "tolerance")));
    return out;
}

char *hpa_behavior_to_annotation(const json_t *behavior)
{
    CODEC_AUTO_JSON json_t *out = json_object();
    json_object_set_new(out, "ScaleUp", rules_to_annotation(json_object_get(behavior, "scaleUp")));
    json_object_set_new(out, "ScaleDown",
                        rules_to_annotation(json_object_get(behavior, "scaleDown")));
    struct gs_buf text = {0};
    codec_json_dump(out, &text);
    return gs_buf_take(&text);
}
