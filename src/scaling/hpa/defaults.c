// SPDX-License-Identifier: Apache-2.0
// Defaults of autoscaling/v2, as kube-apiserver sets them on creation.
#include "hpa/convert.h"

static bool absent(const json_t *obj, const char *name)
{
    const json_t *v = json_object_get(obj, name);
    return !v || json_is_null(v);
}

static void add_policy(json_t *policies, const char *type, int value, int period_seconds)
{
    json_t *p = json_object();
    json_object_set_new(p, "type", json_string(type));
    codec_json_set_int(p, "value", value);
    codec_json_set_int(p, "periodSeconds", period_seconds);
    json_array_append_new(policies, p);
}

// Sets each absent field. A list of policies that is set is kept, even an empty one.
static void default_rules(json_t *behavior, const char *direction, bool up)
{
    if (absent(behavior, direction))
        json_object_set_new(behavior, direction, json_object());
    json_t *rules = json_object_get(behavior, direction);
    if (!json_is_object(rules))
        return;
    // The scale-down window has no default here: the controller's flag sets it.
    if (up && absent(rules, "stabilizationWindowSeconds"))
        codec_json_set_int(rules, "stabilizationWindowSeconds", 0);
    if (absent(rules, "selectPolicy"))
        codec_json_set_str(rules, "selectPolicy", "Max");
    if (!absent(rules, "policies"))
        return;
    json_t *policies = json_array();
    if (up)
        add_policy(policies, "Pods", 4, 15);
    add_policy(policies, "Percent", 100, 15);
    json_object_set_new(rules, "policies", policies);
}

void hpa_default(json_t *v2)
{
    json_t *spec = codec_json_get(v2, "spec", NULL);
    if (!json_is_object(spec))
        return;
    if (absent(spec, "minReplicas"))
        codec_json_set_int(spec, "minReplicas", 1);
    const json_t *metrics = json_object_get(spec, "metrics");
    if (absent(spec, "metrics") || (json_is_array(metrics) && json_array_size(metrics) == 0)) {
        json_t *metric = json_object();
        json_object_set_new(metric, "type", json_string("Resource"));
        codec_json_set(metric, json_string("cpu"), "resource", "name", NULL);
        codec_json_set(metric, json_string("Utilization"), "resource", "target", "type", NULL);
        codec_json_set(metric, json_integer(80), "resource", "target", "averageUtilization", NULL);
        json_t *list = json_array();
        json_array_append_new(list, metric);
        json_object_set_new(spec, "metrics", list);
    }
    json_t *behavior = json_object_get(spec, "behavior");
    if (json_is_null(behavior)) {
        json_object_del(spec, "behavior");
    } else if (json_is_object(behavior)) {
        default_rules(behavior, "scaleUp", true);
        default_rules(behavior, "scaleDown", false);
    }
}
