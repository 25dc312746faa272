// SPDX-License-Identifier: Apache-2.0
#include "replay/rows.h"

#include "base/mem.h"
#include "base/slice.h"

enum place {
    STEP,      // field of the step
    EXPECT,    // … of expect
    METRIC,    // … of the first metric that is expected
    CONDITION, // … of the conditions that are expected
    OBSERVED,  // … of the first metric that is observed
    SPEC,
    CONFIG,
    TARGET, // the number that the first metric of the spec aims at
};

static const struct column {
    const char *name, *field;
    enum place place;
} columns[] = {
    {"scale", "scale", STEP},
    {"pods", "pods", STEP},
    {"request", "request", STEP},
    {"metrics", "metrics", STEP},
    {"samples", "samples", OBSERVED},
    {"error", "error", OBSERVED},
    {"min", "minReplicas", SPEC},
    {"max", "maxReplicas", SPEC},
    {"behavior", "behavior", SPEC},
    {"target", NULL, TARGET},
    {"compat", "compat", CONFIG},
    {"tolerance", "tolerance", CONFIG},
    {"desired", "desired", EXPECT},
    {"proposal", "proposal", EXPECT},
    {"reason", "reason", EXPECT},
    {"explanation", "explanation", EXPECT},
    {"events", "events", EXPECT},
    {"conditions", "conditions", EXPECT},
    {"utilization", "utilization", METRIC},
    {"average", "average", METRIC},
    {"value", "value", METRIC},
    {"able", "AbleToScale", CONDITION},
    {"active", "ScalingActive", CONDITION},
    {"limited", "ScalingLimited", CONDITION},
};

static const struct column *find_column(const char *name)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(columns); i++)
        if (gs_streq(columns[i].name, name))
            return &columns[i];
    return NULL;
}

// obj[name], made when it is not there.
static json_t *object_in(json_t *obj, const char *name)
{
    if (!json_is_object(json_object_get(obj, name)))
        json_object_set_new(obj, name, json_object());
    return json_object_get(obj, name);
}

static json_t *first_in(json_t *obj, const char *name)
{
    if (!json_array_size(json_object_get(obj, name)))
        json_object_set_new(obj, name, json_pack("[{}]"));
    return json_array_get(json_object_get(obj, name), 0);
}

// The one of the target's fields that is set.
static struct gs_error *set_target(json_t *doc, json_t *v)
{
    static const char *const fields[] = {"averageUtilization", "averageValue", "value"};
    json_t *metric = json_array_get(gs_json_get(doc, "spec", "metrics", NULL), 0), *source;
    const char *key;
    json_object_foreach (metric, key, source) {
        json_t *target = json_object_get(source, "target");
        for (size_t i = 0; i < GS_ARRAY_LEN(fields); i++)
            if (json_object_get(target, fields[i])) {
                json_object_set(target, fields[i], v);
                return NULL;
            }
    }
    return gs_error_new(GS_EINVAL, "column \"target\": the first metric has no target");
}

static struct gs_error *set_cell(json_t *doc, json_t *step, const struct column *c, json_t *v)
{
    json_t *expect = object_in(step, "expect"), *where = NULL;
    switch (c->place) {
    case STEP:
        where = step;
        break;
    case EXPECT:
        where = expect;
        break;
    case METRIC:
        where = first_in(expect, "metrics");
        break;
    case CONDITION:
        where = object_in(expect, "conditions");
        break;
    case OBSERVED:
        where = first_in(step, "metrics");
        break;
    case SPEC:
        where = object_in(doc, "spec");
        break;
    case CONFIG:
        where = object_in(doc, "config");
        break;
    case TARGET:
        return set_target(doc, v);
    }
    json_object_set(where, c->field, v);
    return NULL;
}

// "_" leaves a cell out, so that null can be a value.
static bool is_blank(const json_t *v)
{
    return gs_streq(json_string_value(v), "_");
}

static struct gs_error *fill(json_t *doc, json_t *step, const json_t *names, const json_t *cells)
{
    size_t n = json_array_size(names);
    struct gs_error *err = NULL;
    if (!n || json_array_size(cells) < n || json_array_size(cells) > n + 1)
        return gs_error_new(GS_EINVAL,
                            "a row has %zu cells for %zu columns (one more may be its name)",
                            json_array_size(cells), n);
    for (size_t i = 0; !err && i < n; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        const struct column *c = find_column(name ? name : "");
        if (!c)
            return gs_error_new(GS_EINVAL, "no column is called \"%s\"", name ? name : "");
        if (!is_blank(json_array_get(cells, i)))
            err = set_cell(doc, step, c, json_array_get(cells, i));
    }
    return err;
}

struct gs_error *rows_expand(const json_t *doc, size_t row, json_t **ret)
{
    GS_AUTO_JSON json_t *out = json_deep_copy(doc);
    const json_t *names = json_object_get(doc, "columns");
    const json_t *cells = json_array_get(json_object_get(doc, "rows"), row);
    json_t *given = json_object_get(doc, "given");
    json_t *step = json_is_object(given) ? json_deep_copy(given) : json_object();
    json_object_set_new(out, "steps", json_pack("[o]", step));
    json_object_del(out, "given");
    json_object_del(out, "columns");
    json_object_del(out, "rows");
    if (given && !json_is_object(given))
        return gs_error_new(GS_EINVAL, "given must be a mapping");
    struct gs_error *err = fill(out, step, names, cells);
    if (err)
        return gs_error_wrap(err, "row %zu", row + 1);
    *ret = GS_TAKE(out);
    return NULL;
}
