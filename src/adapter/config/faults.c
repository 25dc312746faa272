// SPDX-License-Identifier: Apache-2.0
// Finds what is wrong with a rule without its series: names that are empty, queries that are not
// PromQL, selectors that select nothing.
#include "adapter/config/config.h"

#include "base/mem.h"
#include "promql/ast.h"

#include <ctype.h>

#define PROBE_SERIES   "series_name"
#define PROBE_MATCHERS "namespace=\"ns\",pod=\"name\""
#define PROBE_GROUP_BY "pod"

struct report {
    const struct adapter_config_rule *rule;
    adapter_config_fault_fn *found;
    void *arg;
};

static void report_fault(const struct report *r, const char *place, const char *fix,
                         const char *fmt, ...) GS_PRINTF(4, 5);
static void report_fault(const struct report *r, const char *place, const char *fix,
                         const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    va_end(ap);
    const struct adapter_config_fault f = {place ? place : r->rule->place, text, fix};
    r->found(r->arg, &f);
}

// --- the query ---

struct gs_error *adapter_config_rule_probe(const struct adapter_config_rule *r,
                                           struct gs_slice series, struct gs_buf *ret_query)
{
    static const struct metrics_label values[] = {{GS_SLICE("namespace"), GS_SLICE("ns")},
                                                  {GS_SLICE("pod"), GS_SLICE("name")}};
    const struct gs_slice by[] = {GS_SLICE(PROBE_GROUP_BY)};
    const struct adapter_config_query_data d = {
        .series = series.len ? series : GS_SLICE(PROBE_SERIES),
        .matchers = GS_SLICE(PROBE_MATCHERS),
        .group_by = GS_SLICE(PROBE_GROUP_BY),
        .values = values,
        .n_values = GS_ARRAY_LEN(values),
        .group_by_list = by,
        .n_group_by = GS_ARRAY_LEN(by),
    };
    return adapter_config_query_expand(r->query, &d, ret_query);
}

// Whether a matcher touches <<.LabelMatchers>> without a comma.
static bool lacks_comma(const char *query)
{
    const char *at = strstr(query, "LabelMatchers");
    const char *end = at ? strstr(at, ">>") : NULL;
    const char *begin = at;
    while (begin && begin > query && *begin != '<')
        begin--;
    if (!end || begin == query)
        return false;
    for (end += 2; *end == ' ';)
        end++;
    for (begin -= 2; begin > query && *begin == ' ';)
        begin--;
    return isalpha((unsigned char)*end) || *end == '_' || *begin == '"' || *begin == '\'';
}

static const char *query_fix(const char *query)
{
    if (strstr(query, "{{"))
        return "write <<.Series>>, <<.LabelMatchers>> and <<.GroupBy>>: the delimiters of the "
               "template are << and >>";
    if (lacks_comma(query))
        return "write a comma between <<.LabelMatchers>> and the matcher beside it";
    return NULL;
}

static void check_query(const struct report *r)
{
    GS_AUTO_BUF struct gs_buf query = {0};
    GS_CLEANUP(promql_expr_freep) struct promql_expr *x = NULL;
    const char *text = r->rule->query_text, *place = r->rule->query_place;
    if (!*text)
        return;
    struct gs_error *err = adapter_config_rule_probe(r->rule, GS_SLICE(""), &query);
    if (err) {
        report_fault(r, place, NULL, "metricsQuery: %s", gs_error_message(err));
        gs_error_free(err);
        return;
    }
    err = promql_parse(gs_buf_slice(&query), &x);
    if (err)
        report_fault(r, place, query_fix(text),
                     "metricsQuery is not PromQL when <<.Series>>, <<.LabelMatchers>> and "
                     "<<.GroupBy>> are replaced: %s: %s",
                     query.data, gs_error_message(err));
    gs_error_free(err);
}

// --- series ---

static void check_series_query(const struct report *r)
{
    struct promql_expr *x = NULL;
    GS_AUTO_ERROR struct gs_error *err =
        promql_parse_selector(gs_slice_of(r->rule->series_query), &x);
    if (err)
        report_fault(r, r->rule->series_place, NULL, "seriesQuery is not a series selector: %s",
                     gs_error_message(err));
    promql_expr_free(x);
}

// --- names ---

static void check_references(const struct report *r)
{
    struct gs_slice name;
    if (!gs_regex_unknown_group(r->rule->matches, gs_slice_of(r->rule->as), &name))
        return;
    size_t digits = 0;
    while (digits < name.len && isdigit((unsigned char)name.data[digits]))
        digits++;
    GS_AUTO_FREE char *fix = digits && digits < name.len
                                 ? gs_format("write ${%.*s}%.*s", (int)digits, name.data,
                                             (int)(name.len - digits), name.data + digits)
                                 : NULL;
    report_fault(r, r->rule->name_place, fix,
                 "name.as: $" GS_SLICE_FMT " is replaced by nothing, because name.matches has no "
                 "group " GS_SLICE_FMT,
                 GS_SLICE_ARG(name), GS_SLICE_ARG(name));
}

static void check_empty_name(const struct report *r)
{
    const struct adapter_config_filter *filter;
    GS_AUTO_BUF struct gs_buf name = {0}, series = {0};
    if (!adapter_config_rule_own_series(r->rule, &series))
        gs_buf_add_str(&series, PROBE_SERIES);
    if (adapter_config_rule_name(r->rule, gs_buf_slice(&series), &name, &filter) && !name.len)
        report_fault(r, r->rule->name_place, "anchor name.matches, as in ^(.+)_total$",
                     "the name of the metric is empty for the series %s", series.data);
}

void adapter_config_rule_faults(const struct adapter_config_rule *rule,
                                adapter_config_fault_fn *found, void *arg)
{
    const struct report r = {rule, found, arg};
    check_series_query(&r);
    check_references(&r);
    check_empty_name(&r);
    check_query(&r);
}
