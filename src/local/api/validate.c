// SPDX-License-Identifier: Apache-2.0
// ConfigMaps, Secrets, Events, HorizontalPodAutoscalers.
#include "local/api/registry.h"

#include "base/mem.h"
#include "codec/encoding.h"
#include "hpa/convert.h"
#include "kube/object.h"

// --- ConfigMaps and Secrets ---

static void check_keys(const json_t *data, const char *member, struct kube_field_errors *errors)
{
    const char *key;
    json_t *value;

    json_object_foreach ((json_t *)data, key, value) {
        const char *problem = local_api_config_key_problem(key);
        if (!problem)
            continue;
        GS_AUTO_FREE char *field = gs_format("%s[%s]", member, key);
        local_api_invalid(errors, field, key, "%s", problem);
    }
}

static void check_immutable(const json_t *obj, const json_t *old, const char *const *members,
                            size_t n, struct kube_field_errors *errors)
{
    if (!codec_json_bool(old, false, "immutable", NULL))
        return;
    if (!codec_json_bool(obj, false, "immutable", NULL))
        kube_field_error(errors, "FieldValueForbidden", "immutable", NULL,
                         "field is immutable when `immutable` is set");
    for (size_t i = 0; i < n; i++)
        if (!codec_json_same(json_object_get(obj, members[i]), json_object_get(old, members[i])))
            kube_field_error(errors, "FieldValueForbidden", members[i], NULL,
                             "field is immutable when `immutable` is set");
}

void local_api_validate_configmap(const json_t *obj, const json_t *old,
                                  struct kube_field_errors *errors)
{
    static const char *const members[] = {"data", "binaryData"};

    check_keys(json_object_get(obj, "data"), "data", errors);
    check_keys(json_object_get(obj, "binaryData"), "binaryData", errors);
    check_immutable(obj, old, members, GS_ARRAY_LEN(members), errors);
}

void local_api_validate_secret(const json_t *obj, const json_t *old,
                               struct kube_field_errors *errors)
{
    static const char *const members[] = {"data"};
    const char *key;
    json_t *value;

    check_keys(json_object_get(obj, "data"), "data", errors);
    json_object_foreach (json_object_get(obj, "data"), key, value) {
        GS_AUTO_BUF struct gs_buf plain = {0};
        GS_AUTO_ERROR struct gs_error *err = codec_base64_decode(
            gs_slice_make(json_string_value(value), json_string_length(value)), &plain);
        if (!err)
            continue;
        GS_AUTO_FREE char *field = gs_format("data[%s]", key);
        kube_field_error(errors, "FieldValueInvalid", field, "<secret contents redacted>",
                         "illegal base64 data: %s", gs_error_message(err));
    }
    if (old && !codec_json_same(json_object_get(obj, "type"), json_object_get(old, "type")))
        local_api_invalid(errors, "type", codec_json_str(obj, "type", NULL), "field is immutable");
    check_immutable(obj, old, members, GS_ARRAY_LEN(members), errors);
}

// --- the rest ---

void local_api_validate_event(const json_t *obj, const json_t *old,
                              struct kube_field_errors *errors)
{
    const char *about = codec_json_str(obj, "involvedObject", "namespace", NULL);
    const char *ns = kube_namespace(obj);
    bool cluster_scoped = !about || !*about;

    if (cluster_scoped ? !gs_streq(ns, "default") && !gs_streq(ns, "kube-system")
                       : !gs_streq(ns, about))
        local_api_invalid(errors, "involvedObject.namespace", about ? about : "",
                          "does not match event.namespace");
}

void local_api_validate_hpa(const json_t *obj, const json_t *old, struct kube_field_errors *errors)
{
    hpa_validate(obj, errors);
}
