// SPDX-License-Identifier: Apache-2.0
// Rule files: valid files, files that are rejected with a line, errors that disable one rule.
#include "unit.h"

#include "base/file.h"
#include "base/mem.h"
#include "engine/rules/rules.h"

struct loaded {
    struct rules_set *set;
    struct rules_problems problems;
    struct gs_error *err;
};

static struct loaded load(const char *text)
{
    struct loaded l = {0};
    l.err = rules_parse(gs_slice_of(text), "r.yaml", &l.problems, &l.set);
    return l;
}

static void finish(struct loaded *l)
{
    rules_set_free(l->set);
    rules_problems_finish(&l->problems);
    gs_error_free(l->err);
}

#define GUARD GS_CLEANUP(finish)

static void test_all_fields(void **state)
{
    GUARD struct loaded l = load("groups:\n"
                                 "- name: g\n"
                                 "  interval: 1m30s\n"
                                 "  query_offset: 5s\n"
                                 "  limit: 10\n"
                                 "  labels: {team: infra, a: group}\n"
                                 "  rules:\n"
                                 "  - record: job:up:sum\n"
                                 "    expr: sum by (job) (up)\n"
                                 "    labels: {a: rule, n: 1}\n"
                                 "  - alert: Down\n"
                                 "    expr: up == 0\n"
                                 "    for: 5m\n"
                                 "    keep_firing_for: 1h\n"
                                 "    annotations: {summary: '{{ $labels.job }}'}\n");
    assert_null(l.err);
    assert_int_equal(l.problems.len, 0);
    assert_int_equal(l.set->n_groups, 1);
    const struct rules_group *g = &l.set->groups[0];
    assert_string_equal(g->name, "g");
    assert_string_equal(g->file, "r.yaml");
    assert_int_equal(g->interval_ms, 90000);
    assert_int_equal(g->query_offset_ms, 5000);
    assert_int_equal(g->limit, 10);
    assert_int_equal(g->n_rules, 2);
    const struct rules_rule *r = &g->rules[0];
    assert_int_equal(r->kind, RULES_RECORD);
    assert_int_equal(r->line, 8);
    assert_non_null(r->expr);
    assert_int_equal(r->n_labels, 3); // a of the rule; n and team of the group
    assert_true(gs_slice_eq_str(r->labels[0].value, "rule"));
    assert_true(gs_slice_eq_str(r->labels[1].value, "1"));
    assert_true(gs_slice_eq_str(r->labels[2].value, "infra"));
    r = &g->rules[1];
    assert_int_equal(r->kind, RULES_ALERT);
    assert_int_equal(r->for_ms, 300000);
    assert_int_equal(r->keep_firing_for_ms, 3600000);
    assert_int_equal(r->n_annotations, 1);
}

static void assert_refused(const char *text, const char *reason)
{
    GUARD struct loaded l = load(text);
    if (!l.err)
        fail_msg("loaded: %s", text);
    if (!strstr(gs_error_message(l.err), reason))
        fail_msg("\"%s\" does not contain \"%s\"", gs_error_message(l.err), reason);
}

static void test_structure(void **state)
{
    assert_refused("[1]", "r.yaml:1:1: a rule file must be a mapping");
    assert_refused("groups: 5", "r.yaml:1:9: groups must be a list");
    assert_refused("group: []", "field group not found");
    assert_refused("groups:\n- rules: []\n", "r.yaml:2:3: Groupname must not be empty");
    assert_refused("groups:\n- name: a\n- name: a\n",
                   "r.yaml:3:3: groupname: \"a\" is repeated in the same file");
    assert_refused("groups:\n- name: a\n  interval: 5x\n",
                   "r.yaml:3:13: interval: not a valid duration string: \"5x\"");
    assert_refused("groups:\n- name: a\n  limit: many\n", "r.yaml:3:10: limit:");
    assert_refused("groups:\n- name: a\n  bogus: 1\n", "r.yaml:3:10: field bogus not found");
    assert_refused("groups:\n- name: a\n  labels: {__name__: x}\n", "invalid label name: __name__");
    assert_refused("groups:\n- name: a\n  rules: [5]\n", "a rule must be a mapping");
    assert_refused("kind: Deployment\nspec: {}\n", "of kind Deployment have no rules");
    assert_refused("groups: [\n", "r.yaml:");
}

// The rule is disabled, and the error has its position. The next rule is evaluated.
static void assert_switched_off(const char *fields, const char *reason)
{
    GS_AUTO_FREE char *text = gs_format("groups:\n- name: g\n  rules:\n  - %s\n"
                                        "  - {record: good, expr: up}\n",
                                        fields);
    GUARD struct loaded l = load(text);
    if (l.err)
        fail_msg("%s", gs_error_message(l.err));
    assert_true(l.problems.len > 0);
    if (!strstr(l.problems.items[0].text, reason))
        fail_msg("\"%s\" does not contain \"%s\"", l.problems.items[0].text, reason);
    assert_true(gs_starts(l.problems.items[0].text, "r.yaml:4:"));
    assert_non_null(strstr(l.problems.items[0].text, "group \"g\", rule 1"));
    const struct rules_rule *r = l.set->groups[0].rules;
    assert_null(r[0].expr);
    assert_non_null(r[0].problem);
    assert_non_null(r[1].expr);
    assert_int_equal(l.problems.len, 1);
}

static void test_wrong_rules(void **state)
{
    assert_switched_off("{record: a, alert: b, expr: up}",
                        "only one of 'record' and 'alert' must be set");
    assert_switched_off("{expr: up}", "one of 'record' or 'alert' must be set");
    assert_switched_off("{record: a}", "field 'expr' must be set in rule");
    assert_switched_off("{record: a, expr: 'up >'}",
                        "r.yaml:4:23: group \"g\", rule 1 (a): could not parse expression: 1:5: "
                        "parse error:");
    assert_switched_off("{record: a, expr: 'up[5m]'}", "rule result is not a vector or scalar");
    assert_switched_off("{record: a, expr: up, for: 5m}", "invalid field 'for' in recording rule");
    assert_switched_off("{record: a, expr: up, keep_firing_for: 5m}",
                        "invalid field 'keep_firing_for' in recording rule");
    assert_switched_off("{record: a, expr: up, annotations: {a: b}}",
                        "invalid field 'annotations' in recording rule");
    assert_switched_off("{record: 'a{b=\"c\"}', expr: up}", "braces present in the recording rule");
    assert_switched_off("{alert: a, expr: up, labels: {__name__: b}}",
                        "invalid label name: __name__");
    assert_switched_off("{alert: a, expr: up, for: soon}",
                        "for: not a valid duration string: \"soon\"");
    assert_switched_off("{alert: a, expr: up, bogus: 1}", "field bogus not found in a rule");
    assert_switched_off("{alert: a, expr: up, labels: {b: '{{ nope }}'}}",
                        "label \"b\": template: __alert_a:1: function \"nope\" not defined");
    assert_switched_off("{alert: a, expr: up, annotations: {b: '{{ $x }}'}}",
                        "annotation \"b\": template: __alert_a:1: undefined variable \"$x\"");
}

static void test_scalars_and_nulls(void **state)
{
    GUARD struct loaded l = load("groups:\n- name: g\n  rules:\n"
                                 "  - {alert: A, expr: 1, for: , labels: {a: 1.0, b: yes, c: }}\n");
    assert_null(l.err);
    assert_int_equal(l.problems.len, 0);
    const struct rules_rule *r = l.set->groups[0].rules;
    assert_true(gs_slice_eq_str(r->labels[0].value, "1.0"));
    assert_true(gs_slice_eq_str(r->labels[1].value, "yes"));
    assert_int_equal(r->labels[2].value.len, 0);
}

// A PrometheusRule like that of a guide: one valid rule, and three with an additional bracket.
static void test_prometheus_rule_object(void **state)
{
    GUARD struct loaded l =
        load("apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata: {name: v}\n"
             "spec:\n  groups:\n  - name: gpu_scaling\n    rules:\n"
             "    - alert: vision-api_scaling\n"
             "      expr: ceil(avg(avg_over_time(DCGM_FI_DEV_GPU_UTIL{a=\"b\"}[60s]))) > 30\n"
             "      for: 5s\n"
             "    - alert: vision-api_scaling_avg\n"
             "      expr: DCGM_FI_DEV_GPU_UTIL_AVG{exported_container=\"vision-api\"}[60s]) > 30\n"
             "      for: 5s\n"
             "---\n"
             "groups: [{name: gpu_scaling, rules: []}]\n");
    // The same group name twice in one file.
    assert_error(GS_TAKE(l.err), GS_EINVAL, "r.yaml:15:10: groupname: \"gpu_scaling\" is repeated");
}

static void test_documents(void **state)
{
    GUARD struct loaded l =
        load("kind: PrometheusRule\nspec:\n  groups:\n  - name: a\n"
             "    partial_response_strategy: warn\n    rules:\n"
             "    - alert: X\n      expr: up{a=\"b\"}[60s]) > 30\n"
             "    - alert: Y\n      expr: up > 30\n"
             "---\n"
             "kind: List\nitems:\n- kind: PrometheusRule\n  spec: {groups: [{name: b}]}\n"
             "---\n"
             "groups: [{name: c}]\n");
    assert_null(l.err);
    assert_int_equal(l.set->n_groups, 3);
    assert_int_equal(l.problems.len, 1);
    assert_non_null(
        strstr(l.problems.items[0].text,
               "r.yaml:8:13: group \"a\", rule 1 (X): could not parse expression: 1:16"));
    assert_null(l.set->groups[0].rules[0].expr);
    assert_non_null(l.set->groups[0].rules[1].expr);
}

static void test_files(void **state)
{
    char dir[] = "/tmp/test-rules-XXXXXX";
    assert_non_null(mkdtemp(dir));
    GS_AUTO_FREE char *good = gs_format("%s/a.yaml", dir), *bad = gs_format("%s/b.yaml", dir);
    GS_AUTO_FREE char *pattern = gs_format("%s/*.yaml", dir), *none = gs_format("%s/no.yml", dir);
    assert_ok(gs_file_write_atomic(good, 0600, GS_SLICE("groups: [{name: a}]")));
    assert_ok(gs_file_write_atomic(bad, 0600, GS_SLICE("groups: 1")));
    const char *globs[] = {pattern, none};
    GUARD struct loaded l = {0};
    l.err = rules_load_files(globs, 2, &l.problems, &l.set);
    assert_null(l.err);
    assert_int_equal(l.set->n_groups, 1);
    assert_int_equal(l.problems.len, 2);
    assert_non_null(strstr(l.problems.items[0].text, "b.yaml:1:9: groups must be a list"));
    assert_non_null(strstr(l.problems.items[1].text, "no such rule file"));
    unlink(good);
    unlink(bad);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_fields),
        cmocka_unit_test(test_structure),
        cmocka_unit_test(test_wrong_rules),
        cmocka_unit_test(test_scalars_and_nulls),
        cmocka_unit_test(test_prometheus_rule_object),
        cmocka_unit_test(test_documents),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
