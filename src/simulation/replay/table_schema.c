// SPDX-License-Identifier: Apache-2.0
// The schema of cases and tables, and the checks that a schema cannot express. The spec is checked
// as the API server checks it.
#include "replay/tables_private.h"

#include "base/mem.h"
#include "hpa/convert.h"
#include "kube/schema.h"

#include <stdlib.h>
#include <string.h>

#define LONG_AGO    1e9 // seconds, 31 years
#define MAX_COUNT   INT32_MAX
#define MAX_ENTRIES 100000
#define END                                                                                        \
    {                                                                                              \
        .kind = REPLAY_SCHEMA_END                                                                  \
    }
#define SCHEMA(name, ...) static const struct replay_schema name[] = {__VA_ARGS__, END}
#define FIELDS(name, ...)                                                                          \
    static const struct replay_schema_field name##_fields[] = {__VA_ARGS__, {NULL, NULL}}
#define OBJECT(fields_of)                                                                          \
    {                                                                                              \
        .kind = REPLAY_SCHEMA_OBJECT, .fields = fields_of##_fields                                 \
    }
#define LIST(of, most)                                                                             \
    {                                                                                              \
        .kind = REPLAY_SCHEMA_LIST, .item = (of), .max = (double)(most)                            \
    }
#define MAP(of)                                                                                    \
    {                                                                                              \
        .kind = REPLAY_SCHEMA_MAP, .item = (of)                                                    \
    }
#define CHOICE(...)                                                                                \
    {                                                                                              \
        .kind = REPLAY_SCHEMA_CHOICE, .choices = (const char *const[])                             \
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

SCHEMA(any, KIND(REPLAY_SCHEMA_ANY));
SCHEMA(text, KIND(REPLAY_SCHEMA_TEXT));
SCHEMA(truth, KIND(REPLAY_SCHEMA_BOOL));
SCHEMA(count, RANGE(REPLAY_SCHEMA_COUNT, 0, MAX_COUNT));
SCHEMA(whole, RANGE(REPLAY_SCHEMA_COUNT, INT32_MIN, MAX_COUNT));
SCHEMA(seconds, RANGE(REPLAY_SCHEMA_SECONDS, 0, LONG_AGO));
SCHEMA(moment, RANGE(REPLAY_SCHEMA_SECONDS, -LONG_AGO, LONG_AGO));
SCHEMA(moment_or_none, KIND(REPLAY_SCHEMA_NULL), RANGE(REPLAY_SCHEMA_SECONDS, -LONG_AGO, LONG_AGO));
SCHEMA(quantity, KIND(REPLAY_SCHEMA_QUANTITY));
SCHEMA(quantity_or_none, KIND(REPLAY_SCHEMA_NULL), KIND(REPLAY_SCHEMA_QUANTITY));

// --- observations ---
FIELDS(scale_object, {"spec", count}, {"status", count}, {"selector", text},
       {"selectorError", text}, {"ambiguousWith", text}, {"error", text}, {"scaledToZero", truth});
SCHEMA(scale, RANGE(REPLAY_SCHEMA_COUNT, 0, MAX_COUNT), OBJECT(scale_object));

SCHEMA(resources, MAP(quantity_or_none));
SCHEMA(requests_of_containers, MAP(resources));
SCHEMA(phase, CHOICE("Pending", "Running", "Succeeded", "Failed", "Unknown"));
SCHEMA(ready, KIND(REPLAY_SCHEMA_BOOL), CHOICE("True", "False", "Unknown", "absent"));
FIELDS(pod, {"phase", phase}, {"ready", ready}, {"deleting", truth}, {"started", moment_or_none},
       {"readySince", moment}, {"request", quantity_or_none},
       {"containers", requests_of_containers});
SCHEMA(pod, OBJECT(pod));
SCHEMA(pods, RANGE(REPLAY_SCHEMA_COUNT, 0, REPLAY_OBSERVATION_MAX_PODS),
       LIST(pod, REPLAY_OBSERVATION_MAX_PODS));

FIELDS(sample_object, {"pod", text}, {"value", quantity}, {"containers", resources},
       {"age", moment}, {"window", seconds});
SCHEMA(sample, KIND(REPLAY_SCHEMA_NULL), KIND(REPLAY_SCHEMA_QUANTITY), OBJECT(sample_object));
SCHEMA(samples, LIST(sample, REPLAY_OBSERVATION_MAX_PODS));
FIELDS(observed, {"samples", samples}, {"error", text});
SCHEMA(observed, OBJECT(observed));
SCHEMA(observed_metrics, LIST(observed, REPLAY_OBSERVATION_MAX_METRICS));

// --- expectations ---
FIELDS(part_of_text, {"contains", text});
SCHEMA(expected_text, KIND(REPLAY_SCHEMA_TEXT), OBJECT(part_of_text));
SCHEMA(status, CHOICE("True", "False", "Unknown"));
FIELDS(condition_object, {"status", status}, {"reason", text}, {"message", expected_text});
SCHEMA(condition, KIND(REPLAY_SCHEMA_NULL), KIND(REPLAY_SCHEMA_TEXT), OBJECT(condition_object));
FIELDS(conditions, {"AbleToScale", condition}, {"ScalingActive", condition},
       {"ScalingLimited", condition}, {"ScaledToZero", condition});
SCHEMA(conditions, OBJECT(conditions));
FIELDS(event_object, {"reason", text}, {"message", expected_text});
SCHEMA(event, KIND(REPLAY_SCHEMA_TEXT), OBJECT(event_object));
SCHEMA(events, LIST(event, MAX_ENTRIES));
FIELDS(expected_metric, {"ok", truth}, {"utilization", whole}, {"average", quantity_or_none},
       {"value", quantity_or_none}, {"proposal", whole}, {"description", expected_text},
       {"explanation", expected_text});
SCHEMA(expected_metric, OBJECT(expected_metric));
SCHEMA(expected_metrics, KIND(REPLAY_SCHEMA_NULL),
       LIST(expected_metric, REPLAY_OBSERVATION_MAX_METRICS));
FIELDS(expect, {"desired", count}, {"proposal", whole}, {"reason", expected_text},
       {"explanation", expected_text}, {"dropScaledToZero", truth}, {"conditions", conditions},
       {"events", events}, {"metrics", expected_metrics});
SCHEMA(expect, OBJECT(expect));

// --- cases ---
FIELDS(write_object, {"error", text});
SCHEMA(write_result, KIND(REPLAY_SCHEMA_BOOL), CHOICE("done"), OBJECT(write_object));
FIELDS(coming, {"ready", count}, {"starting", count}, {"settling", count}, {"late", count},
       {"unschedulable", count}, {"failed", count}, {"start", seconds});
SCHEMA(coming, OBJECT(coming));
SCHEMA(loads, LIST(observed, HPA_MAX_LOADS));
FIELDS(step, {"name", text}, {"at", moment}, {"every", seconds}, {"until", moment},
       {"scale", scale}, {"write", write_result}, {"pods", pods}, {"request", quantity_or_none},
       {"metrics", observed_metrics}, {"coming", coming}, {"loads", loads}, {"expect", expect});
SCHEMA(step, OBJECT(step));
SCHEMA(steps, LIST(step, MAX_ENTRIES));
FIELDS(recommendation, {"replicas", count}, {"age", seconds});
SCHEMA(recommendation, OBJECT(recommendation));
FIELDS(change, {"by", count}, {"age", seconds});
SCHEMA(change, OBJECT(change));
SCHEMA(recommendations, LIST(recommendation, MAX_ENTRIES));
SCHEMA(changes, LIST(change, MAX_ENTRIES));
FIELDS(history, {"recommendations", recommendations}, {"scaleUps", changes},
       {"scaleDowns", changes});
SCHEMA(history, OBJECT(history));
SCHEMA(tolerance, RANGE(REPLAY_SCHEMA_NUMBER, 0, 1000));
FIELDS(config, {"downscaleWindow", seconds}, {"cpuInitPeriod", seconds},
       {"readinessDelay", seconds}, {"tolerance", tolerance}, {"scaleToZero", truth},
       {"compat", text}, {"validate", truth});
SCHEMA(config, OBJECT(config));
SCHEMA(names, LIST(text, 64));
SCHEMA(cells, LIST(any, 65));
SCHEMA(rows, LIST(cells, MAX_ENTRIES));
SCHEMA(spec, MAP(any));
SCHEMA(annotations, MAP(text));
FIELDS(a_case, {"name", text}, {"annotations", annotations}, {"spec", spec}, {"config", config},
       {"history", history}, {"steps", steps});
SCHEMA(a_case, OBJECT(a_case));
FIELDS(a_table, {"name", text}, {"spec", spec}, {"config", config}, {"history", history},
       {"given", step}, {"columns", names}, {"rows", rows});
SCHEMA(a_table, OBJECT(a_table));

// --- the spec ---
// The value at a path such as "spec.metrics[0].pods", or the innermost value that exists on it.
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

// Finds the path in `unknown field "spec.foo"` and in `… of type int32`.
static struct gs_error *schema_error(const struct replay_document *src, const json_t *doc,
                                     const char *problem)
{
    const char *from = strchr(problem, '"'), *field = strstr(problem, "field ");
    if (from && gs_starts(problem, "unknown field"))
        from++;
    else
        from = field && strchr(field, '.') ? strchr(field, '.') + 1 : problem;
    size_t n = strcspn(from, "\" ");
    return replay_schema_error(src, follow(doc, gs_slice_make(from, n)), "%s", problem);
}

static struct gs_error *check_schema(const struct replay_document *src, const json_t *doc)
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

struct gs_error *replay_table_check_object(const struct replay_document *src, const json_t *doc,
                                           const json_t *object)
{
    struct kube_field_errors errors = {0};
    hpa_validate(object, &errors);
    struct gs_error *err = NULL;
    if (errors.len) {
        const char *field = codec_json_str(json_array_get(errors.causes, 0), "field", NULL);
        err = replay_schema_error(src, follow(doc, gs_slice_of(field ? field : "")), "%s",
                                  errors.text.data);
    }
    kube_field_errors_finish(&errors);
    return err;
}

// --- documents ---
static struct gs_error *check_columns(const struct replay_document *src, const json_t *doc)
{
    const json_t *columns = json_object_get(doc, "columns"), *all = json_object_get(doc, "rows");
    if (!json_array_size(columns) || !json_array_size(all))
        return replay_schema_error(src, doc,
                                   "a table needs \"columns\" and \"rows\" that are not empty");
    return NULL;
}

static struct gs_error *check_steps(const struct replay_document *src, const json_t *doc)
{
    const json_t *list = json_object_get(doc, "steps");
    if (!json_array_size(list))
        return replay_schema_error(src, list ? list : doc, "a case needs \"steps\"");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i), *until = json_object_get(item, "until");
        double every = json_number_value(json_object_get(item, "every"));
        if (until && !(every > 0))
            return replay_schema_error(src, until,
                                       "a step with \"until\" needs \"every\", in seconds");
    }
    return NULL;
}

struct gs_error *replay_table_check(const struct replay_document *src, const json_t *doc)
{
    bool table = json_object_get(doc, "rows") || json_object_get(doc, "columns");
    if (!json_is_object(doc))
        return replay_schema_error(src, doc, "a case must be a mapping");
    struct gs_error *err =
        replay_schema_check(src, doc, table ? a_table : a_case, table ? "a table" : "a case");
    if (!err)
        err = table ? check_columns(src, doc) : check_steps(src, doc);
    return err ? err : check_schema(src, doc);
}

static const struct replay_schema *schema_in(const struct replay_schema_field *fields,
                                             const char *field)
{
    while (!gs_streq(fields->name, field))
        fields++;
    return fields->schema;
}

struct gs_error *replay_table_check_cell(const struct replay_document *src,
                                         enum replay_table_cell place, const char *field,
                                         const json_t *cell)
{
    const struct replay_schema *schema = any;
    switch (place) {
    case REPLAY_CELL_STEP:
        schema = schema_in(step_fields, field);
        break;
    case REPLAY_CELL_EXPECT:
        schema = schema_in(expect_fields, field);
        break;
    case REPLAY_CELL_METRIC:
        schema = schema_in(expected_metric_fields, field);
        break;
    case REPLAY_CELL_CONDITION:
        schema = condition;
        break;
    case REPLAY_CELL_OBSERVED:
        schema = schema_in(observed_fields, field);
        break;
    case REPLAY_CELL_CONFIG:
        schema = schema_in(config_fields, field);
        break;
    case REPLAY_CELL_TARGET:
        schema = quantity;
        break;
    case REPLAY_CELL_SPEC:
        break;
    }
    return replay_schema_check(src, cell, schema, field ? field : "target");
}
