// SPDX-License-Identifier: Apache-2.0
// /api/v1/features: what the engine can do, for clients such as the completion of the query page.
#include "engine/api/api_private.h"

#include "promql/functions.h"

static json_t *functions_json(void)
{
    json_t *all = json_object();
    const struct promql_function *f;
    for (size_t i = 0; (f = promql_function_nth(i)); i++)
        json_object_set_new(
            all, f->name,
            json_boolean(!f->experimental || (promql_features() & PROMQL_EXPERIMENTAL_FUNCTIONS)));
    return all;
}

// Prometheus counts aggregations and the keywords of matching among the operators.
static json_t *operators_json(void)
{
    static const char *const others[] = {"=~", "!~", "@", "="};
    json_t *all = json_object();
    for (int op = PROMQL_ADD; op <= PROMQL_UNLESS; op++)
        json_object_set_new(all, promql_op_text((enum promql_op)op), json_true());
    for (int agg = PROMQL_SUM; agg <= PROMQL_LIMIT_RATIO; agg++)
        json_object_set_new(all, promql_agg_name((enum promql_agg)agg),
                            json_boolean(agg < PROMQL_LIMITK ||
                                         (promql_features() & PROMQL_EXPERIMENTAL_FUNCTIONS)));
    for (size_t i = 0; i < GS_ARRAY_LEN(others); i++)
        json_object_set_new(all, others[i], json_true());
    return all;
}

static json_t *words_json(const char *const *words, size_t n)
{
    json_t *all = json_object();
    for (size_t i = 0; i < n; i++)
        json_object_set_new(all, words[i], json_true());
    return all;
}

void engine_api_features(struct engine_api_request *r)
{
    static const char *const promql[] = {
        "anchored",   "at_modifier", "bool",       "by",     "duration_expr",
        "group_left", "group_right", "ignoring",   "offset", "negative_offset",
        "on",         "smoothed",    "subqueries", "without"};
    static const char *const fills[] = {"fill", "fill_left", "fill_right"};
    json_t *words = words_json(promql, GS_ARRAY_LEN(promql));
    for (size_t i = 0; i < GS_ARRAY_LEN(fills); i++)
        json_object_set_new(words, fills[i], json_boolean(promql_features() & PROMQL_FILL));
    engine_api_reply_json(r, json_pack("{s:o,s:o,s:o}", "promql", words, "promql_functions",
                                       functions_json(), "promql_operators", operators_json()));
}
