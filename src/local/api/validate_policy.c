// SPDX-License-Identifier: Apache-2.0
// PodDisruptionBudgets: defaults and validation.
#include "base/mem.h"
#include "kube/object.h"
#include "kube/selector.h"
#include "local/api/registry.h"

void local_api_default_budget(json_t *obj, const json_t *old)
{
    static const char *const counts[] = {"currentHealthy", "desiredHealthy", "disruptionsAllowed",
                                         "expectedPods"};
    json_t *status = local_api_default_object(obj, "status");

    for (size_t i = 0; status && i < GS_ARRAY_LEN(counts); i++)
        local_api_default_int(status, counts[i], 0);
}

// The spec as kube-apiserver prints it: with the members of its internal type.
static char *shown_spec(const json_t *spec)
{
    static const struct {
        const char *key, *shown;
    } members[] = {{"minAvailable", "MinAvailable"},
                   {"selector", "Selector"},
                   {"maxUnavailable", "MaxUnavailable"},
                   {"unhealthyPodEvictionPolicy", "UnhealthyPodEvictionPolicy"}};
    CODEC_AUTO_JSON json_t *out = json_object();

    for (size_t i = 0; i < GS_ARRAY_LEN(members); i++) {
        json_t *value = json_object_get(spec, members[i].key);
        json_object_set_new(out, members[i].shown, value ? json_incref(value) : json_null());
    }
    return codec_json_text(out);
}

static void check_selector(const json_t *obj, struct kube_field_errors *errors)
{
    const json_t *selector = codec_json_get(obj, "spec", "selector", NULL);
    GS_CLEANUP(kube_selector_finish) struct kube_selector parsed = {0};

    if (!selector)
        return;
    GS_AUTO_ERROR struct gs_error *err = kube_selector_of(obj, &parsed);
    if (err) {
        GS_AUTO_FREE char *text = codec_json_text(selector);
        kube_field_error(errors, "FieldValueInvalid", "spec.selector", text, "%s",
                         gs_error_message(err));
    }
    local_api_validate_labels(json_object_get(selector, "matchLabels"), "spec.selector.matchLabels",
                              errors);
}

static void check_status(const json_t *status, struct kube_field_errors *errors)
{
    static const char *const counts[] = {"disruptionsAllowed", "currentHealthy", "desiredHealthy",
                                         "expectedPods"};

    for (size_t i = 0; i < GS_ARRAY_LEN(counts); i++)
        local_api_validate_range(status, counts[i], 0, INT32_MAX, "status", LOCAL_API_NOT_NEGATIVE,
                                 errors);
}

void local_api_validate_budget(const json_t *obj, const json_t *old,
                               struct kube_field_errors *errors)
{
    static const char *const shares[] = {"minAvailable", "maxUnavailable"};
    const json_t *spec = json_object_get(obj, "spec");
    const char *policy = codec_json_str(spec, "unhealthyPodEvictionPolicy", NULL);

    if (json_object_get(spec, "minAvailable") && json_object_get(spec, "maxUnavailable")) {
        GS_AUTO_FREE char *text = shown_spec(spec);
        kube_field_error(errors, "FieldValueInvalid", "spec", text,
                         "minAvailable and maxUnavailable cannot be both set");
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(shares); i++) {
        local_api_validate_share(spec, "spec", shares[i], errors);
        local_api_validate_share_limit(spec, "spec", shares[i], errors);
    }
    check_selector(obj, errors);
    if (policy && strcmp(policy, "AlwaysAllow") != 0 && strcmp(policy, "IfHealthyBudget") != 0)
        local_api_unsupported(errors, "spec.unhealthyPodEvictionPolicy", policy,
                              "\"AlwaysAllow\", \"IfHealthyBudget\"");
    check_status(json_object_get(obj, "status"), errors);
}
