// SPDX-License-Identifier: Apache-2.0
// An autoscaler with other settings, for "what if".
#include "hpa/whatif.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/slice.h"
#include "hpa/convert.h"
#include "hpa/hpa_private.h"
#include "kube/quantity.h"

#include <string.h>

#define TARGET        "target"
#define TARGET_OF     "target."
#define MAX_TOLERANCE 100.0

bool hpa_setting_exists(const char *name)
{
    return gs_streq(name, TARGET) || (gs_starts(name, TARGET_OF) && name[strlen(TARGET_OF)]) ||
           gs_streq(name, "min") || gs_streq(name, "max") || gs_streq(name, "tolerance");
}

// --- target ---

// The metric with that name, or at that position (from 1).
static struct gs_error *find_metric(const struct hpa_spec *spec, const char *name, size_t *ret)
{
    uint64_t position = 0;
    size_t found = 0, at = 0;
    for (size_t i = 0; i < spec->n_metrics; i++) {
        if (!gs_streq(spec->metrics[i].name, name))
            continue;
        at = i;
        found++;
    }
    GS_AUTO_ERROR struct gs_error *err =
        gs_parse_u64(gs_slice_of(name), spec->n_metrics, &position);
    if (found > 1)
        return gs_error_new(GS_EINVAL,
                            "several metrics are named \"%s\": use their position, from "
                            "1 to %zu",
                            name, spec->n_metrics);
    if (!found && (err || !position))
        return gs_error_new(GS_ENOTFOUND, "the autoscaler has no metric \"%s\"", name);
    *ret = found ? at : (size_t)position - 1;
    return NULL;
}

static const char *member_of(const struct hpa_metric_spec *m)
{
    for (size_t i = 0; i < HPA_N_SOURCES; i++)
        if (gs_streq(m->type_text, hpa_sources[i].type))
            return hpa_sources[i].member;
    return "";
}

// Utilization is a whole number of percent, everything else a quantity.
static struct gs_error *parse_target(const struct hpa_metric_spec *m, const char *value,
                                     json_t **ret)
{
    char text[KUBE_QUANTITY_SIZE];
    int64_t number = 0;
    if (m->has_utilization) {
        struct gs_error *err = gs_parse_i64(gs_slice_of(value), 1, INT32_MAX, &number);
        if (!err)
            *ret = json_integer(number);
        return err;
    }
    struct gs_error *err = kube_quantity_parse_milli(gs_slice_of(value), &number);
    if (!err && number <= 0)
        err = gs_error_new(GS_EINVAL, "want more than 0");
    if (!err)
        *ret = json_string(kube_quantity_format_milli(number, text));
    return err;
}

static struct gs_error *set_target(const struct hpa_spec *spec, json_t *object, const char *metric,
                                   const char *value)
{
    size_t at = 0;
    json_t *target = NULL;
    if (!metric && spec->n_metrics != 1)
        return gs_error_new(GS_EINVAL, "the autoscaler has %zu metrics: use " TARGET_OF "NAME",
                            spec->n_metrics);
    struct gs_error *err = metric ? find_metric(spec, metric, &at) : NULL;
    if (!err)
        err = parse_target(&spec->metrics[at], value, &target);
    if (err)
        return err;
    const struct hpa_metric_spec *m = &spec->metrics[at];
    json_t *in = json_array_get(codec_json_get(object, "spec", "metrics", NULL), at);
    const char *field = m->has_utilization     ? "averageUtilization"
                        : m->has_average_value ? "averageValue"
                                               : "value";
    codec_json_set(in, target, member_of(m), "target", field, NULL);
    return NULL;
}

// --- the others ---

static struct gs_error *set_count(json_t *object, const char *field, const char *value)
{
    int64_t n = 0;
    struct gs_error *err = gs_parse_i64(gs_slice_of(value), 0, INT32_MAX, &n);
    if (!err)
        codec_json_set(object, json_integer(n), "spec", field, NULL);
    return err;
}

// The tolerance of the controller, and those of the object, which have precedence.
static struct gs_error *set_tolerance(const struct hpa_spec *spec, json_t *object,
                                      const char *value, struct hpa_config *cfg)
{
    double v = 0;
    struct gs_error *err = gs_parse_double(gs_slice_of(value), &v);
    if (!err && !(v >= 0 && v <= MAX_TOLERANCE))
        err = gs_error_new(GS_EINVAL, "want 0 to %g", MAX_TOLERANCE);
    if (err)
        return err;
    cfg->tolerance = v;
    if (spec->up.has_tolerance)
        codec_json_del(object, "spec", "behavior", "scaleUp", "tolerance", NULL);
    if (spec->down.has_tolerance)
        codec_json_del(object, "spec", "behavior", "scaleDown", "tolerance", NULL);
    return NULL;
}

static struct gs_error *apply(const struct hpa_spec *spec, json_t *object,
                              const struct hpa_setting *s, struct hpa_config *cfg)
{
    struct gs_error *err;
    if (gs_streq(s->name, TARGET))
        err = set_target(spec, object, NULL, s->value);
    else if (gs_starts(s->name, TARGET_OF))
        err = set_target(spec, object, s->name + strlen(TARGET_OF), s->value);
    else if (gs_streq(s->name, "min"))
        err = set_count(object, "minReplicas", s->value);
    else if (gs_streq(s->name, "max"))
        err = set_count(object, "maxReplicas", s->value);
    else if (gs_streq(s->name, "tolerance"))
        err = set_tolerance(spec, object, s->value, cfg);
    else
        return gs_error_new(GS_EINVAL,
                            "unknown setting \"%s\": want target, target.METRIC, min, max or "
                            "tolerance",
                            s->name);
    return err ? gs_error_wrap(err, "%s=%s", s->name, s->value) : NULL;
}

struct gs_error *hpa_spec_with(const struct hpa_spec *spec, const struct hpa_setting *settings,
                               size_t n, const struct hpa_config *cfg, struct hpa_spec *ret,
                               struct hpa_config *ret_cfg)
{
    CODEC_AUTO_JSON json_t *object = json_deep_copy(spec->object);
    GS_CLEANUP(kube_field_errors_finish) struct kube_field_errors wrong = {0};
    struct hpa_config changed = *cfg;
    for (size_t i = 0; i < n; i++) {
        struct gs_error *err = apply(spec, object, &settings[i], &changed);
        if (err)
            return err;
    }
    hpa_validate(object, &wrong);
    if (wrong.len)
        return gs_error_new(GS_EINVAL, "%.*s", (int)wrong.text.len, wrong.text.data);
    struct gs_error *err = hpa_spec_parse(object, ret);
    if (!err)
        *ret_cfg = changed;
    return err;
}
