// SPDX-License-Identifier: Apache-2.0
// Triggers of ScaledObjects as metrics of an autoscaler: prometheus as External with a rule of the
// adapter, cpu and memory as Resource. Others have no metric.
#include "adapter/scaledobject/scaledobject_private.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/option.h"
#include "kube/object.h"
#include "kube/quantity.h"
#include "promql/ast.h"

#include <string.h>

// A series that each Prometheus has, so that a rule has its metric even if its query has no result.
#define ANY_SERIES "up"
#define SUFFIX     "-prometheus"

json_t *scaledobject_input_problem(const struct scaledobject_input *t, const char *field,
                                   const char *why)
{
    scaledobject_problem(t->r, t->object, "spec.triggers[%zu]%s: %s", t->i, field, why);
    return NULL;
}

// --- prometheus ---

int scaledobject_trigger_index(const char *metric)
{
    const char *end = gs_ends(metric, SUFFIX) ? metric + strlen(metric) - strlen(SUFFIX) : NULL;
    const char *start = end;
    int64_t i = 0;
    while (start && start > metric && start[-1] >= '0' && start[-1] <= '9')
        start--;
    if (!end || start == end || start - metric < 2 || start[-1] != 's' || start[-2] != '-')
        return -1;
    GS_AUTO_ERROR struct gs_error *err =
        gs_parse_i64(gs_slice_make(start, (size_t)(end - start)), 0, INT16_MAX, &i);
    return err ? -1 : (int)i;
}

static const char *metric_type(const struct scaledobject_input *t)
{
    const char *type = codec_json_str(t->in, "metricType", NULL);
    return type && *type ? type : "AverageValue";
}

// KEDA ignores a misspelled key.
static json_t *missing_threshold(const struct scaledobject_input *t)
{
    static const char *const wanted[] = {"threshold"};
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)t->metadata, key, value) {
        (void)value;
        if (!gs_streq(key, "activationThreshold") && gs_suggest(key, wanted, 1)) {
            GS_AUTO_FREE char *text = gs_format("is missing; \"%.100s\" is no key of KEDA", key);
            return scaledobject_input_problem(t, ".metadata.threshold", text);
        }
    }
    return scaledobject_input_problem(t, ".metadata.threshold", "is missing");
}

json_t *scaledobject_target(const struct scaledobject_input *t)
{
    const char *type = metric_type(t);
    GS_AUTO_FREE char *threshold = scaledobject_text(json_object_get(t->metadata, "threshold"));
    char quantity[KUBE_QUANTITY_SIZE];
    int64_t milli = 0;
    bool average = gs_streq(type, "AverageValue");
    if (!average && !gs_streq(type, "Value"))
        return scaledobject_input_problem(t, ".metricType", "want AverageValue or Value");
    if (!threshold)
        return missing_threshold(t);
    if (!scaledobject_milli(threshold, &milli) || milli <= 0)
        return scaledobject_input_problem(t, ".metadata.threshold",
                                          "want a number from 0.001 to 9e15");
    return json_pack("{s:s, s:s}", "type", type, average ? "averageValue" : "value",
                     kube_quantity_format_milli(milli, quantity));
}

// False: a problem was reported.
static bool is_vector(const struct scaledobject_input *t, const char *query)
{
    struct promql_expr *x = NULL;
    GS_AUTO_ERROR struct gs_error *err = promql_parse(gs_slice_of(query), &x);
    bool vector = !err && promql_expr_root(x)->type == PROMQL_VECTOR;
    if (err)
        scaledobject_input_problem(t, ".metadata.query", gs_error_message(err));
    else if (!vector)
        scaledobject_input_problem(t, ".metadata.query",
                                   "the result is not an instant vector, which KEDA requires");
    promql_expr_free(x);
    return vector;
}

static bool read_activation(const struct scaledobject_input *t, struct scaledobject_query *q)
{
    GS_AUTO_FREE char *text =
        scaledobject_text(json_object_get(t->metadata, "activationThreshold"));
    GS_AUTO_ERROR struct gs_error *err =
        text && *text ? gs_parse_double(gs_slice_of(text), &q->above) : NULL;
    if (err) {
        scaledobject_input_problem(t, ".metadata.activationThreshold", "want a number");
        return false;
    }
    if (t->from_zero && q->above < 0) {
        scaledobject_input_problem(t, ".metadata.activationThreshold",
                                   "want a number of at least 0");
        return false;
    }
    q->activates = t->from_zero && q->above != 0;
    if (q->activates && json_array_size(codec_json_get(t->object, "spec", "triggers", NULL)) > 1) {
        scaledobject_input_problem(
            t, ".metadata.activationThreshold",
            "with several triggers, each of them can activate the object; an autoscaler from "
            "zero has only the values of its metrics");
        return false;
    }
    if (q->above != 0 && !t->from_zero)
        json_object_set_new(t->kept_metadata, "activationThreshold", json_string(text));
    return true;
}

// False: a problem was reported.
static bool read_query(const struct scaledobject_input *t, struct scaledobject_query *q)
{
    GS_AUTO_FREE char *ignore = scaledobject_text(json_object_get(t->metadata, "ignoreNullValues"));
    const char *text = codec_json_str(t->metadata, "query", NULL);
    static const char *const no[] = {"false", "False", "FALSE", "f", "F", "0"};
    q->zero = !gs_is_one_of(ignore, no, GS_ARRAY_LEN(no));
    if (!text || !*text) {
        scaledobject_input_problem(t, ".metadata.query", "is missing");
        return false;
    }
    if (strstr(text, "<<")) {
        scaledobject_input_problem(t, ".metadata.query",
                                   "contains <<, which begins a template in a rule");
        return false;
    }
    q->text = gs_strdup(text);
    return is_vector(t, text) && read_activation(t, q);
}

// What the request to Prometheus needs is a setting of the adapter.
static void keep_connection(const struct scaledobject_input *t)
{
    static const char *const converted[] = {"query", "threshold", "activationThreshold",
                                            "ignoreNullValues"};
    GS_AUTO_BUF struct gs_buf names = {0};
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)t->metadata, key, value) {
        if (gs_is_one_of(key, converted, GS_ARRAY_LEN(converted)))
            continue;
        json_object_set(t->kept_metadata, key, value);
        if (!gs_streq(key, "metricName") && !gs_streq(key, "serverAddress"))
            gs_buf_addf(&names, "%s%s", names.len ? ", " : "", key);
    }
    const char *server = codec_json_str(t->metadata, "serverAddress", NULL);
    scaledobject_note(t->r, t->object,
                      "spec.triggers[%zu]: the rule reads the source of the adapter, which must be "
                      "%s (--prometheus-url)",
                      t->i, server ? server : "the Prometheus of the trigger");
    if (names.len || json_object_get(t->in, "authenticationRef"))
        scaledobject_note(t->r, t->object,
                          "spec.triggers[%zu]: kept, but set it for the source of the adapter: "
                          "%s%s%s",
                          t->i, names.len ? names.data : "",
                          names.len && json_object_get(t->in, "authenticationRef") ? ", " : "",
                          json_object_get(t->in, "authenticationRef") ? "authenticationRef" : "");
}

// NS-NAME of one object can be that of another.
static bool has_rule(const struct scaledobject_result *r, const char *name)
{
    const json_t *rule;
    size_t i;
    json_array_foreach (r->rules, i, rule)
        if (gs_streq(codec_json_str(rule, "name", "as", NULL), name))
            return true;
    return false;
}

static json_t *prometheus_metric(const struct scaledobject_input *t)
{
    struct scaledobject_query q = {0};
    json_t *target = scaledobject_target(t), *out = NULL;
    if (target && read_query(t, &q)) {
        const char *ns = kube_namespace(t->object);
        GS_AUTO_FREE char *query = scaledobject_query_wrap(&q);
        GS_AUTO_FREE char *name =
            gs_format("%s-%s-s%zu" SUFFIX, ns ? ns : "default", kube_name(t->object), t->i);
        if (has_rule(t->r, name)) {
            scaledobject_query_finish(&q);
            json_decref(target);
            return scaledobject_input_problem(
                t, "",
                "another object has a rule of the same name; convert it alone, with a "
                "name that is unique over namespaces");
        }
        keep_connection(t);
        json_array_append_new(t->r->rules, json_pack("{s:s, s:{s:s}, s:s, s:{s:b}}", "seriesQuery",
                                                     ANY_SERIES, "name", "as", name, "metricsQuery",
                                                     query, "resources", "namespaced", 0));
        out = json_pack("{s:s, s:{s:{s:s}, s:O}}", "type", "External", "external", "metric", "name",
                        name, "target", target);
    }
    scaledobject_query_finish(&q);
    json_decref(target);
    return out;
}

// --- cpu and memory ---

static json_t *resource_metric(const struct scaledobject_input *t, const char *resource)
{
    GS_AUTO_FREE char *old_type = scaledobject_text(json_object_get(t->metadata, "type"));
    GS_AUTO_FREE char *value = scaledobject_text(json_object_get(t->metadata, "value"));
    const char *type = codec_json_str(t->in, "metricType", NULL);
    const char *container = codec_json_str(t->metadata, "containerName", NULL);
    int64_t percent = 0;
    char quantity[KUBE_QUANTITY_SIZE];
    json_t *target = NULL;
    type = type && *type ? type : old_type;
    if (t->from_zero)
        return scaledobject_input_problem(
            t, "",
            "an autoscaler with a resource metric does not reach minReplicaCount "
            "0");
    if (!value)
        return scaledobject_input_problem(t, ".metadata.value", "is missing");
    GS_AUTO_ERROR struct gs_error *bad =
        gs_streq(type, "Utilization") ? gs_parse_i64(gs_slice_of(value), 1, INT32_MAX, &percent)
                                      : kube_quantity_canonical(gs_slice_of(value), quantity);
    if (bad)
        return scaledobject_input_problem(t, ".metadata.value", gs_error_message(bad));
    if (gs_streq(type, "Utilization"))
        target = json_pack("{s:s, s:I}", "type", type, "averageUtilization", (json_int_t)percent);
    else if (gs_streq(type, "AverageValue"))
        target = json_pack("{s:s, s:s}", "type", type, "averageValue", quantity);
    else
        return scaledobject_input_problem(t, ".metricType", "want Utilization or AverageValue");
    if (!container)
        return json_pack("{s:s, s:{s:s, s:o}}", "type", "Resource", "resource", "name", resource,
                         "target", target);
    return json_pack("{s:s, s:{s:s, s:s, s:o}}", "type", "ContainerResource", "containerResource",
                     "name", resource, "container", container, "target", target);
}

// --- all triggers ---

// Fields of a trigger beside its metadata.
static void keep_fields(const struct scaledobject_input *t, json_t *kept)
{
    static const char *const converted[] = {"type", "metadata", "metricType"};
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)t->in, key, value)
        if (!gs_is_one_of(key, converted, GS_ARRAY_LEN(converted)))
            json_object_set(kept, key, value);
    if (json_object_size(t->kept_metadata))
        json_object_set(kept, "metadata", t->kept_metadata);
}

json_t *scaledobject_metric(const json_t *object, size_t i, bool from_zero, json_t *kept,
                            struct scaledobject_result *r)
{
    const json_t *in = json_array_get(codec_json_get(object, "spec", "triggers", NULL), i);
    const char *type = codec_json_str(in, "type", NULL);
    CODEC_AUTO_JSON json_t *kept_metadata = json_object();
    const struct scaledobject_input t = {.object = object,
                                         .in = in,
                                         .metadata = json_object_get(in, "metadata"),
                                         .i = i,
                                         .from_zero = from_zero,
                                         .kept_metadata = kept_metadata,
                                         .r = r};
    json_t *out = NULL;
    if (!json_is_object(t.metadata))
        return scaledobject_input_problem(&t, "", "want a type and metadata");
    if (gs_streq(type, "prometheus"))
        out = prometheus_metric(&t);
    else if (gs_streq(type, "cpu") || gs_streq(type, "memory"))
        out = resource_metric(&t, type);
    else if (codec_json_str(t.metadata, "signal", NULL))
        out = scaledobject_signal_metric(&t);
    else
        scaledobject_problem(r, object,
                             "spec.triggers[%zu]: type %s: a HorizontalPodAutoscaler has no metric "
                             "for it (prometheus, cpu, memory and gpuscale's scaler have one)",
                             i, type ? type : "is missing");
    keep_fields(&t, kept);
    return out;
}
