// SPDX-License-Identifier: Apache-2.0
// Tables of cases: each row becomes a case, whose cells go to the places that their columns name.
#include "replay/tables_private.h"

#include "base/mem.h"
#include "base/slice.h"

static const struct column {
    const char *name, *field;
    enum replay_table_cell place;
} columns[] = {
    {"scale", "scale", REPLAY_CELL_STEP},
    {"pods", "pods", REPLAY_CELL_STEP},
    {"request", "request", REPLAY_CELL_STEP},
    {"metrics", "metrics", REPLAY_CELL_STEP},
    {"samples", "samples", REPLAY_CELL_OBSERVED},
    {"error", "error", REPLAY_CELL_OBSERVED},
    {"min", "minReplicas", REPLAY_CELL_SPEC},
    {"max", "maxReplicas", REPLAY_CELL_SPEC},
    {"behavior", "behavior", REPLAY_CELL_SPEC},
    {"target", NULL, REPLAY_CELL_TARGET},
    {"compat", "compat", REPLAY_CELL_CONFIG},
    {"tolerance", "tolerance", REPLAY_CELL_CONFIG},
    {"desired", "desired", REPLAY_CELL_EXPECT},
    {"proposal", "proposal", REPLAY_CELL_EXPECT},
    {"reason", "reason", REPLAY_CELL_EXPECT},
    {"explanation", "explanation", REPLAY_CELL_EXPECT},
    {"events", "events", REPLAY_CELL_EXPECT},
    {"conditions", "conditions", REPLAY_CELL_EXPECT},
    {"utilization", "utilization", REPLAY_CELL_METRIC},
    {"average", "average", REPLAY_CELL_METRIC},
    {"value", "value", REPLAY_CELL_METRIC},
    {"able", "AbleToScale", REPLAY_CELL_CONDITION},
    {"active", "ScalingActive", REPLAY_CELL_CONDITION},
    {"limited", "ScalingLimited", REPLAY_CELL_CONDITION},
};

static const struct column *find_column(const char *name)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(columns); i++)
        if (gs_streq(columns[i].name, name))
            return &columns[i];
    return NULL;
}

// obj[name], created if it is absent.
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

// The field of the target that is set.
static struct gs_error *set_target(json_t *doc, json_t *v)
{
    static const char *const fields[] = {"averageUtilization", "averageValue", "value"};
    json_t *metric = json_array_get(codec_json_get(doc, "spec", "metrics", NULL), 0), *source;
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
    case REPLAY_CELL_STEP:
        where = step;
        break;
    case REPLAY_CELL_EXPECT:
        where = expect;
        break;
    case REPLAY_CELL_METRIC:
        where = first_in(expect, "metrics");
        break;
    case REPLAY_CELL_CONDITION:
        where = object_in(expect, "conditions");
        break;
    case REPLAY_CELL_OBSERVED:
        where = first_in(step, "metrics");
        break;
    case REPLAY_CELL_SPEC:
        where = object_in(doc, "spec");
        break;
    case REPLAY_CELL_CONFIG:
        where = object_in(doc, "config");
        break;
    case REPLAY_CELL_TARGET:
        return set_target(doc, v);
    }
    json_object_set(where, c->field, v);
    return NULL;
}

// "_" is an empty cell, because null is a value.
static bool is_blank(const json_t *v)
{
    return gs_streq(json_string_value(v), "_");
}

static struct gs_error *fill(const struct replay_document *src, json_t *doc, json_t *step,
                             const json_t *names, const json_t *cells)
{
    size_t n = json_array_size(names), n_cells = json_array_size(cells);
    struct gs_error *err = NULL;
    if (n_cells < n || n_cells > n + 1)
        return replay_schema_error(src, cells,
                                   "a row has %zu cells for %zu columns (one more may be its name)",
                                   n_cells, n);
    if (n_cells > n && !json_is_string(json_array_get(cells, n)))
        return replay_schema_error(src, json_array_get(cells, n),
                                   "the name of a row must be a string");
    for (size_t i = 0; !err && i < n; i++) {
        const json_t *cell = json_array_get(cells, i);
        const struct column *c = find_column(json_string_value(json_array_get(names, i)));
        if (!c)
            return replay_schema_error(src, json_array_get(names, i), "no column is called \"%s\"",
                                       json_string_value(json_array_get(names, i)));
        if (is_blank(cell))
            continue;
        err = replay_table_check_cell(src, c->place, c->field, cell);
        if (!err)
            err = set_cell(doc, step, c, (json_t *)cell);
    }
    return err;
}

struct gs_error *replay_table_expand_row(const struct replay_document *src, const json_t *doc,
                                         size_t row, json_t **ret)
{
    CODEC_AUTO_JSON json_t *out = json_deep_copy(doc);
    const json_t *names = json_object_get(doc, "columns");
    const json_t *cells = json_array_get(json_object_get(doc, "rows"), row);
    const json_t *given = json_object_get(doc, "given");
    json_t *step = given ? json_deep_copy(given) : json_object();
    json_object_set_new(out, "steps", json_pack("[o]", step));
    json_object_del(out, "given");
    json_object_del(out, "columns");
    json_object_del(out, "rows");
    struct gs_error *err = fill(src, out, step, names, cells);
    if (err)
        return err;
    *ret = GS_TAKE(out);
    return NULL;
}
