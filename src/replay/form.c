// SPDX-License-Identifier: Apache-2.0
#include "replay/form.h"

#include "base/mem.h"
#include "hpa/convert.h"
#include "kube/schema.h"
#include "replay/scene.h"

#include <stdlib.h>
#include <string.h>

#define LONG_AGO    1e9 // seconds, 31 years
#define MAX_COUNT   INT32_MAX
#define MAX_ENTRIES 100000
#define END                                                                                        \
    {                                                                                              \
        .kind = REPLAY_SHAPE_END                                                                   \
    }
#define SHAPE(name, ...) static const struct replay_shape name[] = {__VA_ARGS__, END}
#define FIELDS(name, ...)                                                                          \
    static const struct replay_shape_field name##_fields[] = {__VA_ARGS__, {NULL, NULL}}
#define OBJECT(fields_of)                                                                          \
    {                                                                                              \
        .kind = REPLAY_SHAPE_OBJECT, .fields = fields_of##_fields                                  \
    }
#define LIST(of, most)                                                                             \
    {                                                                                              \
        .kind = REPLAY_SHAPE_LIST, .item = (of), .max = (double)(most)                             \
    }
#define MAP(of)                                                                                    \
    {                                                                                              \
        .kind = REPLAY_SHAPE_MAP, .item = (of)                                                     \
    }
#define CHOICE(...)                                                                                \
    {                                                                                              \
        .kind = REPLAY_SHAPE_CHOICE, .choices = (const char *const[])                              \
        {                                                                                          \
            __VA_ARGS__, NULL                                                                      \
        }                                                                                          \
    }
#define KIND(k)                                                                                    \
    {                                                                                              \
        .kind = (k)                                                                                \
    }
#define RANGE(k, low, high)                                                                        \
    {                                                                                              \
        .kind = (k), .min = (low), .max = (high)                                                   \
    }

SHAPE(any, KIND(REPLAY_SHAPE_ANY));
SHAPE(text, KIND(REPLAY_SHAPE_TEXT));
SHAPE(truth, KIND(REPLAY_SHAPE_BOOL));
SHAPE(count, RANGE(REPLAY_SHAPE_COUNT, 0, MAX_COUNT));
SHAPE(whole, RANGE(REPLAY_SHAPE_COUNT, INT32_MIN, MAX_COUNT));
SHAPE(seconds, RANGE(REPLAY_SHAPE_SECONDS, 0, LONG_AGO));
SHAPE(moment, RANGE(REPLAY_SHAPE_SECONDS, -LONG_AGO, LONG_AGO));
SHAPE(moment_or_none, KIND(REPLAY_SHAPE_NULL), RANGE(REPLAY_SHAPE_SECONDS, -LONG_AGO, LONG_AGO));
SHAPE(quantity, KIND(REPLAY_SHAPE_QUANTITY));
SHAPE(quantity_or_none, KIND(REPLAY_SHAPE_NULL), KIND(REPLAY_SHAPE_QUANTITY));

// --- what is observed ---
FIELDS(scale_object, {"spec", count}, {"status", count}, {"selector", text},
       {"selectorError", text}, {"ambiguousWith", text}, {"error", text}, {"scaledToZero", truth});
SHAPE(scale, RANGE(REPLAY_SHAPE_COUNT, 0, MAX_COUNT), OBJECT(scale_object));

SHAPE(resources, MAP(quantity_or_none));
SHAPE(requests_of_containers, MAP(resources));
SHAPE(phase, CHOICE("Pending", "Running", "Succeeded", "Failed", "Unknown"));
SHAPE(ready, KIND(REPLAY_SHAPE_BOOL), CHOICE("True", "False", "Unknown", "absent"));
FIELDS(pod, {"phase", phase}, {"ready", ready}, {"deleting", truth}, {"started", moment_or_none},
       {"readySince", moment}, {"request", quantity_or_none},
       {"containers", requests_of_containers});
SHAPE(pod, OBJECT(pod));
SHAPE(pods, RANGE(REPLAY_SHAPE_COUNT, 0, REPLAY_SCENE_MAX_PODS), LIST(pod, REPLAY_SCENE_MAX_PODS));

FIELDS(sample_object, {"pod", text}, {"value", quantity}, {"containers", resources},
       {"age", moment}, {"window", seconds});
SHAPE(sample, KIND(REPLAY_SHAPE_NULL), KIND(REPLAY_SHAPE_QUANTITY), OBJECT(sample_object));
SHAPE(samples, LIST(sample, REPLAY_SCENE_MAX_PODS));
FIELDS(observed, {"samples", samples}, {"error", text});
SHAPE(observed, OBJECT(observed));
SHAPE(observed_metrics, LIST(observed, REPLAY_SCENE_MAX_METRICS));

// --- what is expected ---
FIELDS(part_of_text, {"contains", text});
SHAPE(expected_text, KIND(REPLAY_SHAPE_TEXT), OBJECT(part_of_text));
SHAPE(status, CHOICE("True", "False", "Unknown"));
FIELDS(condition_object, {"status", status}, {"reason", text}, {"message", expected_text});
SHAPE(condition, KIND(REPLAY_SHAPE_NULL), KIND(REPLAY_SHAPE_TEXT), OBJECT(condition_object));
FIELDS(conditions, {"AbleToScale", condition}, {"ScalingActive", condition},
       {"ScalingLimited", condition}, {"ScaledToZero", condition});
SHAPE(conditions, OBJECT(conditions));
FIELDS(event_object, {"reason", text}, {"message", expected_text});
SHAPE(event, KIND(REPLAY_SHAPE_TEXT), OBJECT(event_object));
SHAPE(events, LIST(event, MAX_ENTRIES));
FIELDS(expected_metric, {"ok", truth}, {"utilization", whole}, {"average", quantity_or_none},
       {"value", quantity_or_none}, {"proposal", whole}, {"description", expected_text},
       {"explanation", expected_text});
SHAPE(expected_metric, OBJECT(expected_metric));
SHAPE(expected_metrics, KIND(REPLAY_SHAPE_NULL), LIST(expected_metric, REPLAY_SCENE_MAX_METRICS));
FIELDS(expect, {"desired", count}, {"proposal", whole}, {"reason", expected_text},
       {"explanation", expected_text}, {"dropScaledToZero", truth}, {"conditions", conditions},
       {"events", events}, {"metrics", expected_metrics});
SHAPE(expect, OBJECT(expect));

// --- cases ---
FIELDS(write_object, {"error", text});
SHAPE(write_result, KIND(REPLAY_SHAPE_BOOL), CHOICE("done"), OBJECT(write_object));
FIELDS(step, {"name", text}, {"at", moment}, {"every", seconds}, {"until", moment},
       {"scale", scale}, {"write", write_result}, {"pods", pods}, {"request", quantity_or_none},
       {"metrics", observed_metrics}, {"expect", expect});
SHAPE(step, OBJECT(step));
SHAPE(steps, LIST(step, MAX_ENTRIES));
FIELDS(recommendation, {"replicas", count}, {"age", seconds});
SHAPE(recommendation, OBJECT(recommendation));
FIELDS(change, {"by", count}, {"age", seconds});
SHAPE(change, OBJECT(change));
SHAPE(recommendations, LIST(recommendation, MAX_ENTRIES));
SHAPE(changes, LIST(change, MAX_ENTRIES));
FIELDS(history, {"recommendations", recommendations}, {"scaleUps", changes},
       {"scaleDowns", changes});
SHAPE(history, OBJECT(history));
SHAPE(tolerance, RANGE(REPLAY_SHAPE_NUMBER, 0, 1000));
FIELDS(config, {"downscaleWindow", seconds}, {"cpuInitPeriod", seconds},
       {"readinessDelay", seconds}, {"tolerance", tolerance}, {"scaleToZero", truth},
       {"compat", text}, {"validate", truth});
SHAPE(config, OBJECT(config));
SHAPE(names, LIST(text, 64));
SHAPE(cells, LIST(any, 65));
SHAPE(rows, LIST(cells, MAX_ENTRIES));
SHAPE(spec, MAP(any));
FIELDS(a_case, {"name", text}, {"spec", spec}, {"config", config}, {"history", history},
       {"steps", steps});
SHAPE(a_case, OBJECT(a_case));
FIELDS(a_table, {"name", text}, {"spec", spec}, {"config", config}, {"history", history},
       {"given", step}, {"columns", names}, {"rows", rows});
SHAPE(a_table, OBJECT(a_table));

// --- the spec ---
// The value that a path such as "spec.metrics[0].pods" leads to, as far as it goes.
static const json_t *follow(const json_t *doc, struct gs_slice path)
{
    const json_t *at = doc;
    while (path.len) {
        size_t n = 0;
        while (n < path.len && !strchr(".[]", path.data[n]))
            n++;
        GS_AUTO_FREE char *name = gs_strndup(path.data, n);
        const json_t *next = json_is_array(at) ? json_array_get(at, strtoul(name, NULL, 10))
                                               : json_object_get(at, name);
        if (n && !next)
            break;
        at = n ? next : at;
        path = gs_slice_make(path.data + n, path.len - n);
        if (path.len)
            path = gs_slice_make(path.data + 1, path.len - 1);
    }
    return at;
}

// `unknown field "spec.foo"`; `… of type int32` names a field of a type, which is a path, too.
static struct gs_error *schema_error(const struct replay_shape_source *src, const json_t *doc,
                                     const char *problem)
{
    const char *from = strchr(problem, '"'), *field = strstr(problem, "field ");
    if (from && gs_starts(problem, "unknown field"))
        from++;
    else
        from = field && strchr(field, '.') ? strchr(field, '.') + 1 : problem;
    size_t n = strcspn(from, "\" ");
    return replay_shape_error(src, follow(doc, gs_slice_make(from, n)), "%s", problem);
}

static struct gs_error *check_schema(const struct replay_shape_source *src, const json_t *doc)
{
    const struct kube_type *type = kube_schema_find("autoscaling/v2", "HorizontalPodAutoscaler");
    CODEC_AUTO_JSON json_t *object = json_object();
    CODEC_AUTO_JSON json_t *unknown = json_array();
    CODEC_AUTO_JSON json_t *wrong = json_array();
    json_object_set(object, "spec", json_object_get(doc, "spec"));
    kube_schema_check(type, object, false, unknown, wrong);
    const json_t *first = json_array_get(json_array_size(unknown) ? unknown : wrong, 0);
    return first ? schema_error(src, doc, json_string_value(first)) : NULL;
}

struct gs_error *replay_form_check_object(const struct replay_shape_source *src, const json_t *doc,
                                          const json_t *object)
{
    struct kube_field_errors errors = {0};
    hpa_validate(object, &errors);
    struct gs_error *err = NULL;
    if (errors.len) {
        const char *field = codec_json_str(json_array_get(errors.causes, 0), "field", NULL);
        err = replay_shape_error(src, follow(doc, gs_slice_of(field ? field : "")), "%s",
                                 errors.text.data);
    }
    kube_field_errors_finish(&errors);
    return err;
}

// --- documents ---
static struct gs_error *check_columns(const struct replay_shape_source *src, const json_t *doc)
{
    const json_t *columns = json_object_get(doc, "columns"), *all = json_object_get(doc, "rows");
    if (!json_array_size(columns) || !json_array_size(all))
        return replay_shape_error(src, doc,
                                  "a table needs \"columns\" and \"rows\" that are not empty");
    return NULL;
}

static struct gs_error *check_steps(const struct replay_shape_source *src, const json_t *doc)
{
    const json_t *list = json_object_get(doc, "steps");
    if (!json_array_size(list))
        return replay_shape_error(src, list ? list : doc, "a case needs \"steps\"");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i), *until = json_object_get(item, "until");
        double every = json_number_value(json_object_get(item, "every"));
        if (until && !(every > 0))
            return replay_shape_error(src, until,
                                      "a step with \"until\" needs \"every\", in seconds");
    }
    return NULL;
}

struct gs_error *replay_form_check(const struct replay_shape_source *src, const json_t *doc)
{
    bool table = json_object_get(doc, "rows") || json_object_get(doc, "columns");
    if (!json_is_object(doc))
        return replay_shape_error(src, doc, "a case must be a mapping");
    struct gs_error *err =
        replay_shape_check(src, doc, table ? a_table : a_case, table ? "a table" : "a case");
    if (!err)
        err = table ? check_columns(src, doc) : check_steps(src, doc);
    return err ? err : check_schema(src, doc);
}

static const struct replay_shape *shape_in(const struct replay_shape_field *fields,
                                           const char *field)
{
    while (!gs_streq(fields->name, field))
        fields++;
    return fields->shape;
}

struct gs_error *replay_form_check_cell(const struct replay_shape_source *src,
                                        enum replay_form_cell place, const char *field,
                                        const json_t *cell)
{
    const struct replay_shape *shape = any;
    switch (place) {
    case REPLAY_FORM_STEP:
        shape = shape_in(step_fields, field);
        break;
    case REPLAY_FORM_EXPECT:
        shape = shape_in(expect_fields, field);
        break;
    case REPLAY_FORM_METRIC:
        shape = shape_in(expected_metric_fields, field);
        break;
    case REPLAY_FORM_CONDITION:
        shape = condition;
        break;
    case REPLAY_FORM_OBSERVED:
        shape = shape_in(observed_fields, field);
        break;
    case REPLAY_FORM_CONFIG:
        shape = shape_in(config_fields, field);
        break;
    case REPLAY_FORM_TARGET:
        shape = quantity;
        break;
    case REPLAY_FORM_SPEC:
        break;
    }
    return replay_shape_check(src, cell, shape, field ? field : "target");
}
