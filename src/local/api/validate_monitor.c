// SPDX-License-Identifier: Apache-2.0
// ServiceMonitors and PodMonitors: the patterns of their relabeling rules, which the Prometheus
// operator refuses later with an event.
#include "base/mem.h"
#include "base/regex.h"
#include "kube/names.h"
#include "local/api/registry.h"

static void check_pattern(const json_t *rule, const char *path, struct kube_field_errors *errors)
{
    const char *pattern = codec_json_str(rule, "regex", NULL);

    if (!pattern)
        return;
    GS_AUTO_ERROR struct gs_error *err = gs_regex_check(gs_slice_of(pattern));
    if (!err)
        return;
    GS_AUTO_BUF struct gs_buf shown = {0};
    kube_quote(gs_slice_of(pattern), &shown);
    kube_field_error(errors, "FieldValueInvalid", path, shown.data, "%s", gs_error_message(err));
}

static void check_rules(const json_t *endpoint, const char *list, size_t at, const char *key,
                        struct kube_field_errors *errors)
{
    size_t i;
    json_t *rule;

    json_array_foreach (json_object_get(endpoint, key), i, rule) {
        GS_AUTO_FREE char *path = gs_format("spec.%s[%zu].%s[%zu].regex", list, at, key, i);
        if (kube_field_errors_full(errors))
            return;
        check_pattern(rule, path, errors);
    }
}

void local_api_validate_monitor(const json_t *obj, const json_t *old,
                                struct kube_field_errors *errors)
{
    static const char *const lists[] = {"endpoints", "podMetricsEndpoints"};
    size_t i;
    json_t *endpoint;

    // A stored object stays changeable, for example by the removal of a finalizer.
    if (old && json_equal(json_object_get(obj, "spec"), json_object_get(old, "spec")))
        return;
    for (size_t l = 0; l < GS_ARRAY_LEN(lists); l++)
        json_array_foreach (codec_json_get(obj, "spec", lists[l], NULL), i, endpoint) {
            check_rules(endpoint, lists[l], i, "relabelings", errors);
            check_rules(endpoint, lists[l], i, "metricRelabelings", errors);
        }
}
