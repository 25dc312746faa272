// SPDX-License-Identifier: Apache-2.0
#include "adapter/config/config.h"
#include "base/mem.h"
#include "unit.h"

// The rule with these members after seriesQuery.
static struct adapter_config *parse_rule(const char *series, const char *members)
{
    struct adapter_config *c = NULL;
    GS_AUTO_FREE char *text = gs_format("rules:\n- seriesQuery: '%s'\n%s", series, members);
    assert_ok(adapter_config_parse(gs_slice_of(text), "rules.yaml", &c));
    return c;
}

static void add_fault(void *arg, const struct adapter_config_fault *f)
{
    gs_buf_addf(arg, "%s: %s|%s\n", f->place, f->text, f->fix ? f->fix : "");
}

// text NULL: no fault.
static void expect_fault(const char *series, const char *members, const char *text, const char *fix)
{
    struct adapter_config *c = parse_rule(series, members);
    GS_AUTO_BUF struct gs_buf all = {0};
    adapter_config_rule_faults(&c->rules[0], add_fault, &all);
    if (!text && all.len)
        fail_msg("%s: %s", members, all.data);
    if (text && (!all.data || !strstr(all.data, text) || !strstr(all.data, fix)))
        fail_msg("%s: %s instead of %s", members, all.data ? all.data : "nothing", text);
    adapter_config_free(c);
}

#define QUERY "  metricsQuery: 'sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)'\n"

static void test_queries_that_are_no_promql_name_the_parts_of_the_template(void **state)
{
    expect_fault("a", QUERY, NULL, NULL);
    expect_fault(
        "a",
        "  metricsQuery: 'max(<<.Series>>{<<.LabelMatchers>>queue=\"a\"}) by "
        "(<<.GroupBy>>)'\n",
        "rules.yaml:3: metricsQuery is not PromQL when <<.Series>>, <<.LabelMatchers>> and "
        "<<.GroupBy>> are replaced",
        "write a comma between <<.LabelMatchers>> and the matcher");
    expect_fault("a",
                 "  metricsQuery: 'max(<<.Series>>{queue=\"a\"<<.LabelMatchers>>}) by "
                 "(<<.GroupBy>>)'\n",
                 "metricsQuery is not PromQL", "write a comma between <<.LabelMatchers>>");
    expect_fault("a", "  metricsQuery: 'max({{.Series}}{{{.LabelMatchers}}}) by ({{.GroupBy}})'\n",
                 "metricsQuery is not PromQL", "the delimiters of the template are << and >>");
    expect_fault(
        "a", "  metricsQuery: 'sum(<<.Series>>{<<.LabelMatcher>>}) by (<<.GroupBy>>)'\n",
        "unknown field .LabelMatcher, did you mean .LabelMatchers? The fields are .Series, "
        ".LabelMatchers, .LabelValuesByName, .GroupBy, .GroupBySlice",
        "");
    expect_fault("a", "  metricsQuery: 'sum(<<.Series>>{<<.LabelMatchers>>}) by <<.GroupBy>>'\n",
                 "metricsQuery is not PromQL", "");
    expect_fault("a",
                 "  metricsQuery: '<<range .GroupBySlice>>sum by(<<.>>) (x)<<end>> * "
                 "scalar(y{p=\"<<index .LabelValuesByName \"pod\">>\"})'\n",
                 NULL, NULL);
}

static void test_series_queries_must_be_selectors(void **state)
{
    expect_fault("sum(a)", QUERY, "rules.yaml:2: seriesQuery is not a series selector", "");
    expect_fault("{__name__=~\"^(?!a).*\"}", QUERY, "invalid or unsupported Perl syntax: `(?!`",
                 "");
    expect_fault("{__name__=~\"^a_.*\",pod!=\"\"}", QUERY, NULL, NULL);
}

static void test_names_that_are_empty(void **state)
{
    expect_fault("a_total", "  name: {matches: '^(.*)_total$', as: '$1_x'}\n" QUERY,
                 "rules.yaml:3: name.as: $1_x is replaced by nothing, because name.matches has no "
                 "group 1_x",
                 "write ${1}_x");
    expect_fault("a_total", "  name: {matches: '^(.*)_total$', as: '$2'}\n" QUERY, "has no group 2",
                 "");
    expect_fault("a_total", "  name: {matches: '(x*)', as: '$1'}\n" QUERY,
                 "the name of the metric is empty for the series a_total", "anchor name.matches");
    expect_fault("{__name__=~\"a.*\"}", "  name: {matches: '(_seconds)?', as: ''}\n" QUERY,
                 "the name of the metric is empty", "anchor");
    expect_fault("a_total", "  name: {matches: '^(?P<n>.*)_total$', as: '${n}_per_$$_$0'}\n" QUERY,
                 NULL, NULL);
}

static void expect_counter(const char *series, const char *query, const char *counter)
{
    GS_AUTO_FREE char *members = gs_format("  metricsQuery: '%s'\n", query);
    struct adapter_config *c = parse_rule(series, members);
    GS_AUTO_FREE char *found = adapter_config_raw_counter(&c->rules[0], gs_slice_of(series), NULL);
    if (!gs_streq(found, counter))
        fail_msg("%s: %s", query, found ? found : "none");
    adapter_config_free(c);
}

static void test_counters_without_rate_are_found(void **state)
{
    static const struct {
        const char *series, *query, *counter;
    } cases[] = {
        {"a_total", "sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)", "a_total"},
        {"a_total", "sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)", NULL},
        {"a_total", "sum(increase(<<.Series>>{<<.LabelMatchers>>}[2m])) by (<<.GroupBy>>)", NULL},
        {"a_total", "max_over_time(rate(<<.Series>>[2m])[5m:])", NULL},
        {"a_total", "avg(max_over_time(<<.Series>>{<<.LabelMatchers>>}[5m]))", "a_total"},
        {"a_total", "100 * (<<.Series>>) > 5", "a_total"},
        {"a_total", "count(<<.Series>>)", NULL},
        {"a_sum", "sum(a_sum{<<.LabelMatchers>>}) / sum(a_count{<<.LabelMatchers>>})", NULL},
        {"a_sum", "a_sum - a_sum offset 1m", NULL},
        {"a", "sum(<<.Series>>{<<.LabelMatchers>>})", NULL},
        {"a", "sum(b_bucket{<<.LabelMatchers>>})", "b_bucket"},
        {"ts_queue_latency_microseconds", "sum(<<.Series>>)", "ts_queue_latency_microseconds"},
        {"a", "{__name__=\"a_total\"}", "a_total"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++)
        expect_counter(cases[i].series, cases[i].query, cases[i].counter);
    (void)state;
}

static void test_a_type_can_make_a_counter(void **state)
{
    struct adapter_config *c = parse_rule("requests", QUERY);
    GS_AUTO_FREE char *found =
        adapter_config_raw_counter(&c->rules[0], GS_SLICE("requests"), "counter");
    assert_string_equal(found, "requests");
    assert_null(adapter_config_raw_counter(&c->rules[0], GS_SLICE("requests"), NULL));
    assert_null(adapter_config_raw_counter(&c->rules[0], GS_SLICE("requests"), "unknown"));
    assert_null(adapter_config_raw_counter(&c->rules[0], GS_SLICE("gpus_total"), "gauge"));
    GS_AUTO_FREE char *named =
        adapter_config_raw_counter(&c->rules[0], GS_SLICE("gpus_total"), "unknown");
    assert_string_equal(named, "gpus_total");
    adapter_config_free(c);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queries_that_are_no_promql_name_the_parts_of_the_template),
        cmocka_unit_test(test_series_queries_must_be_selectors),
        cmocka_unit_test(test_names_that_are_empty),
        cmocka_unit_test(test_counters_without_rate_are_found),
        cmocka_unit_test(test_a_type_can_make_a_counter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
