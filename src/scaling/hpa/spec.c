// SPDX-License-Identifier: Apache-2.0
// An HPA object as a struct: metrics, limits, rules. Texts point into the object, which the struct
// holds a reference to. Values are milli-units, ratios are plain numbers.
#include "hpa/release.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/slice.h"
#include "hpa/hpa_private.h"
#include "kube/object.h"
#include "kube/quantity.h"

#include <math.h>
#include <string.h>

static const char *or_empty(const char *s)
{
    return s ? s : "";
}

static struct gs_error *get_int32(const json_t *obj, const char *name, const char *where,
                                  bool *ret_has, int32_t *ret)
{
    const json_t *v = json_object_get(obj, name);
    *ret_has = v && !json_is_null(v);
    if (!*ret_has)
        return NULL;
    if (!json_is_integer(v) || json_integer_value(v) < INT32_MIN ||
        json_integer_value(v) > INT32_MAX)
        return gs_error_new(GS_EINVAL, "%s.%s: must be a whole number of 32 bits", where, name);
    *ret = (int32_t)json_integer_value(v);
    return NULL;
}

static struct gs_error *get_milli(const json_t *obj, const char *name, const char *where,
                                  bool *ret_has, int64_t *ret)
{
    const json_t *v = json_object_get(obj, name);
    *ret_has = v && !json_is_null(v);
    if (!*ret_has)
        return NULL;
    if (!json_is_string(v))
        return gs_error_new(GS_EINVAL, "%s.%s: must be a quantity", where, name);
    struct gs_error *err = kube_quantity_parse_milli(gs_slice_of(json_string_value(v)), ret);
    return err ? gs_error_wrap(err, "%s.%s", where, name) : NULL;
}

// Like Quantity.AsApproximateFloat64: mantissa times a power of ten, so that 30m is 0.03.
static struct gs_error *get_ratio(const json_t *obj, const char *name, const char *where,
                                  bool *ret_has, double *ret)
{
    int64_t milli = 0;
    struct gs_error *err = get_milli(obj, name, where, ret_has, &milli);
    if (err || !*ret_has)
        return err;
    struct gs_slice text = gs_slice_of(json_string_value(json_object_get(obj, name)));
    static const char suffixes[] = "num";
    static const double scales[] = {1e-9, 1e-6, 1e-3};
    const char *suffix = text.len ? strchr(suffixes, text.data[text.len - 1]) : NULL;
    double mantissa;
    if (suffix && *suffix)
        text.len--;
    GS_AUTO_ERROR struct gs_error *not_plain = gs_parse_double(text, &mantissa);
    if (not_plain)
        *ret = (double)milli * 1e-3;
    else
        *ret = suffix && *suffix ? mantissa * scales[suffix - suffixes] : mantissa;
    return NULL;
}

static enum hpa_metric_type target_type_of(const char *text)
{
    static const enum hpa_metric_type types[HPA_N_SOURCES] = {
        HPA_METRIC_OBJECT,   HPA_METRIC_EXTERNAL,           HPA_METRIC_PODS,
        HPA_METRIC_RESOURCE, HPA_METRIC_CONTAINER_RESOURCE,
    };
    for (size_t i = 0; i < HPA_N_SOURCES; i++)
        if (gs_streq(text, hpa_sources[i].type))
            return types[i];
    return HPA_METRIC_UNKNOWN;
}

static const char *spec_member(const char *type)
{
    for (size_t i = 0; i < HPA_N_SOURCES; i++)
        if (gs_streq(type, hpa_sources[i].type))
            return hpa_sources[i].member;
    return NULL;
}

// Pods metrics are averages. For External and Resource the field that is set decides, for Object
// target.type.
static void choose_target(struct hpa_metric_spec *m, const char *type_text)
{
    switch (m->type) {
    case HPA_METRIC_RESOURCE:
    case HPA_METRIC_CONTAINER_RESOURCE:
        m->target = m->has_average_value ? HPA_TARGET_AVERAGE_VALUE : HPA_TARGET_UTILIZATION;
        break;
    case HPA_METRIC_EXTERNAL:
        m->target = m->has_average_value ? HPA_TARGET_AVERAGE_VALUE : HPA_TARGET_VALUE;
        break;
    case HPA_METRIC_OBJECT:
        m->target = gs_streq(type_text, "Value")          ? HPA_TARGET_VALUE
                    : gs_streq(type_text, "AverageValue") ? HPA_TARGET_AVERAGE_VALUE
                                                          : HPA_TARGET_UTILIZATION;
        break;
    case HPA_METRIC_PODS:
    case HPA_METRIC_UNKNOWN:
        m->target = HPA_TARGET_AVERAGE_VALUE;
        break;
    }
}

static struct gs_error *parse_metric(const json_t *in, size_t index, struct hpa_metric_spec *m)
{
    m->type_text = or_empty(codec_json_str(in, "type", NULL));
    m->type = target_type_of(m->type_text);
    m->name = m->container = m->object_kind = m->object_name = m->object_api_version = "";
    const char *member = spec_member(m->type_text);
    if (!member)
        return NULL;
    const json_t *source = json_object_get(in, member);
    if (m->type == HPA_METRIC_RESOURCE || m->type == HPA_METRIC_CONTAINER_RESOURCE) {
        m->name = or_empty(codec_json_str(source, "name", NULL));
        m->container = or_empty(codec_json_str(source, "container", NULL));
    } else {
        m->name = or_empty(codec_json_str(source, "metric", "name", NULL));
        m->selector = codec_json_get(source, "metric", "selector", NULL);
        if (!json_is_object(m->selector))
            m->selector = NULL;
        m->object_kind = or_empty(codec_json_str(source, "describedObject", "kind", NULL));
        m->object_name = or_empty(codec_json_str(source, "describedObject", "name", NULL));
        m->object_api_version =
            or_empty(codec_json_str(source, "describedObject", "apiVersion", NULL));
    }
    const json_t *target = json_object_get(source, "target");
    GS_AUTO_FREE char *where = gs_format("spec.metrics[%zu].%s.target", index, member);
    struct gs_error *err = get_milli(target, "value", where, &m->has_value, &m->value);
    if (!err)
        err = get_milli(target, "averageValue", where, &m->has_average_value, &m->average_value);
    if (!err)
        err = get_int32(target, "averageUtilization", where, &m->has_utilization, &m->utilization);
    if (!err)
        choose_target(m, codec_json_str(target, "type", NULL));
    return err;
}

static struct gs_error *parse_policy(const json_t *in, const char *where, struct hpa_policy *ret)
{
    bool has;
    const char *type = codec_json_str(in, "type", NULL);
    if (!gs_streq(type, "Percent") && !gs_streq(type, "Pods"))
        return gs_error_new(GS_EINVAL, "%s.type: must be Percent or Pods", where);
    ret->percent = gs_streq(type, "Percent");
    struct gs_error *err = get_int32(in, "value", where, &has, &ret->value);
    if (!err)
        err = get_int32(in, "periodSeconds", where, &has, &ret->period_seconds);
    return err;
}

static struct gs_error *parse_rules(const json_t *in, const char *where, struct hpa_rules *r)
{
    bool has;
    r->window_seconds = -1;
    struct gs_error *err =
        get_int32(in, "stabilizationWindowSeconds", where, &has, &r->window_seconds);
    if (!err)
        err = get_ratio(in, "tolerance", where, &r->has_tolerance, &r->tolerance);
    if (err)
        return err;
    const char *select = codec_json_str(in, "selectPolicy", NULL);
    r->select = gs_streq(select, "Min")        ? HPA_SELECT_MIN
                : gs_streq(select, "Disabled") ? HPA_SELECT_DISABLED
                                               : HPA_SELECT_MAX;
    const json_t *policies = json_object_get(in, "policies");
    size_t n = json_array_size(policies);
    r->policies = gs_alloc_array(n ? n : 1, sizeof(*r->policies));
    for (size_t i = 0; i < n && !err; i++) {
        GS_AUTO_FREE char *path = gs_format("%s.policies[%zu]", where, i);
        err = parse_policy(json_array_get(policies, i), path, &r->policies[r->n_policies++]);
    }
    return err;
}

static struct gs_error *parse_spec(const json_t *spec, struct hpa_spec *s)
{
    bool has_max;
    struct gs_error *err = get_int32(spec, "minReplicas", "spec", &s->has_min, &s->min_replicas);
    if (!err)
        err = get_int32(spec, "maxReplicas", "spec", &has_max, &s->max_replicas);
    if (err)
        return err;
    const json_t *ref = json_object_get(spec, "scaleTargetRef");
    s->target_api_version = or_empty(codec_json_str(ref, "apiVersion", NULL));
    s->target_kind = or_empty(codec_json_str(ref, "kind", NULL));
    s->target_name = or_empty(codec_json_str(ref, "name", NULL));
    const json_t *metrics = json_object_get(spec, "metrics");
    size_t n = json_array_size(metrics);
    s->metrics = gs_alloc_array(n ? n : 1, sizeof(*s->metrics));
    for (size_t i = 0; i < n && !err; i++)
        err = parse_metric(json_array_get(metrics, i), i, &s->metrics[s->n_metrics++]);
    const json_t *behavior = json_object_get(spec, "behavior");
    s->has_behavior = json_is_object(behavior);
    if (!err)
        err = parse_rules(json_object_get(behavior, "scaleUp"), "spec.behavior.scaleUp", &s->up);
    if (!err)
        err = parse_rules(json_object_get(behavior, "scaleDown"), "spec.behavior.scaleDown",
                          &s->down);
    return err;
}

struct gs_error *hpa_spec_parse(json_t *v2_object, struct hpa_spec *ret)
{
    const json_t *spec = json_object_get(v2_object, "spec");
    if (!json_is_object(spec))
        return gs_error_new(GS_EINVAL, "HorizontalPodAutoscaler: spec must be an object");
    struct hpa_spec s = {.object = json_incref(v2_object)};
    s.ns = or_empty(kube_namespace(v2_object));
    s.name = or_empty(kube_name(v2_object));
    s.uid = or_empty(kube_uid(v2_object));
    struct gs_error *err = parse_spec(spec, &s);
    if (err) {
        err = gs_error_wrap(err, "HorizontalPodAutoscaler %s/%s", s.ns, s.name);
        hpa_spec_finish(&s);
        return err;
    }
    hpa_read_fallback(v2_object, &s);
    hpa_read_protection(v2_object, &s);
    *ret = s;
    return NULL;
}

static bool is_cpu_utilization(const struct hpa_metric_spec *m)
{
    return m->type == HPA_METRIC_RESOURCE && m->has_utilization && gs_streq(m->name, "cpu");
}

// autoscaling/v1 has a field for CPU utilization, and an annotation for the other metrics. The
// metrics of the annotation come first.
size_t hpa_metric_at(const struct hpa_spec *s, int release, size_t k)
{
    size_t cpu = 0;
    if (hpa_since(release, HPA_SINCE_V2))
        return k;
    while (cpu < s->n_metrics && !is_cpu_utilization(&s->metrics[cpu]))
        cpu++;
    if (k < cpu)
        return k;
    return k + 1 < s->n_metrics ? k + 1 : cpu;
}

void hpa_spec_finish(struct hpa_spec *s)
{
    free(s->metrics);
    free(s->up.policies);
    free(s->down.policies);
    free(s->load_names);
    json_decref(s->object);
    *s = (struct hpa_spec){0};
}
