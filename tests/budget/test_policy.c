// SPDX-License-Identifier: Apache-2.0
// The ConfigMap with the budgets: what it accepts, and where a mistake is.
#include "unit.h"

#include "base/mem.h"
#include "base/slice.h"
#include "budget/budget.h"

static const char whole[] = "mode: enforce\n"
                            "priorityClasses: {production: 10, batch: 0.5}\n"
                            "budgets:\n"
                            "- name: h100\n"
                            "  namespaces: [chat, search]\n"
                            "  gpu: H100\n"
                            "  gpus: 16\n"
                            "  idleAfter: 30m\n"
                            "- name: labs\n"
                            "  selector:\n"
                            "    matchLabels: {team: labs}\n"
                            "  gpus: 4\n"
                            "- name: text\n"
                            "  selector: team in (a, b)\n"
                            "  gpus: 0\n";

static struct gs_error *parse(const char *text, struct budget_policy *ret)
{
    return budget_policy_parse(gs_slice_of(text), "f", ret);
}

static void test_a_whole_policy_is_read(void **state)
{
    struct budget_policy p;
    assert_ok(parse(whole, &p));
    assert_true(p.enforce);
    assert_int_equal(p.n_scopes, 3);
    assert_int_equal(p.scopes[0].gpus, 16);
    assert_int_equal(p.scopes[0].n_namespaces, 2);
    assert_int_equal(p.scopes[0].idle_after_ms, 30 * 60 * 1000);
    assert_int_equal(p.scopes[1].idle_after_ms, 0); // nothing is lent
    budget_policy_finish(&p);
}

static void test_a_policy_is_a_dry_run_unless_it_says_enforce(void **state)
{
    struct budget_policy p;
    assert_ok(parse("budgets: [{name: a, gpus: 1}]", &p));
    assert_false(p.enforce);
    budget_policy_finish(&p);
}

static void test_a_scope_matches_by_namespace_labels_and_model(void **state)
{
    struct budget_policy p;
    CODEC_AUTO_JSON json_t *labs = json_pack("{s:s}", "team", "labs");
    CODEC_AUTO_JSON json_t *a = json_pack("{s:s}", "team", "a");
    const char *h100 = "NVIDIA-H100-80GB-HBM3";
    assert_ok(parse(whole, &p));
    assert_true(budget_scope_matches(&p.scopes[0], "chat", NULL, h100));
    assert_false(budget_scope_matches(&p.scopes[0], "other", NULL, h100));
    assert_false(budget_scope_matches(&p.scopes[0], "chat", NULL, "NVIDIA-H200"));
    assert_false(budget_scope_matches(&p.scopes[0], "chat", NULL, NULL));
    assert_true(budget_scope_matches(&p.scopes[1], "any", labs, NULL));
    assert_false(budget_scope_matches(&p.scopes[1], "any", NULL, NULL));
    assert_true(budget_scope_matches(&p.scopes[2], "any", a, NULL));
    assert_false(budget_scope_matches(&p.scopes[2], "any", labs, NULL));
    budget_policy_finish(&p);
}

static void test_a_model_is_matched_by_whole_words(void **state)
{
    struct budget_policy p;
    assert_ok(parse("budgets: [{name: a, gpu: a10, gpus: 1}]", &p));
    assert_true(budget_scope_matches(&p.scopes[0], "n", NULL, "NVIDIA A10"));
    assert_true(budget_scope_matches(&p.scopes[0], "n", NULL, "A10-24GB"));
    assert_false(budget_scope_matches(&p.scopes[0], "n", NULL, "NVIDIA-A100-SXM4-80GB"));
    assert_false(budget_scope_matches(&p.scopes[0], "n", NULL, "NVIDIA-RA10"));
    budget_policy_finish(&p);
}

static void test_the_annotation_has_precedence_over_the_priority_class(void **state)
{
    struct budget_policy p;
    double weight;
    assert_ok(parse(whole, &p));
    assert_ok(budget_weight(&p, NULL, NULL, &weight));
    assert_true(weight == 1);
    assert_ok(budget_weight(&p, NULL, "production", &weight));
    assert_true(weight == 10);
    assert_ok(budget_weight(&p, "3", "production", &weight));
    assert_true(weight == 3);
    assert_error(budget_weight(&p, "high", "production", &weight), GS_EINVAL, "priority");
    assert_true(weight == 10);
    assert_error(budget_weight(&p, "0", NULL, &weight), GS_EINVAL, "above 0");
    assert_error(budget_weight(&p, "NaN", NULL, &weight), GS_EINVAL, "above 0");
    budget_policy_finish(&p);
}

static void test_a_mistake_is_reported_with_its_line(void **state)
{
    static const struct {
        const char *text, *problem;
    } wrong[] = {
        {"mode: on\nbudgets: []\n", "f:1:7: mode \"on\""},
        {"mode: enforce\n", "budgets are missing"},
        {"budgets:\n- gpus: 1\n", "f:2:3: a budget needs a name"},
        {"budgets:\n- name: a\n", "gpus is missing"},
        {"budgets:\n- {name: a, gpus: 1}\n- {name: a, gpus: 1}\n", "given twice"},
        {"budgets:\n- {name: a, gpus: 1, gpu: ''}\n", "gpu is empty"},
        {"budgets:\n- {name: a, gpus: 1000001}\n", "want gpus: 0 to 1000000"},
        {"budgets:\n- {name: a, gpus: -1}\n", "f:2"},
        {"budgets:\n- {name: a, gpus: 1, namespaces: [B_]}\n", "no name of a namespace"},
        {"budgets:\n- {name: a, gpus: 1, selector: 'a in'}\n", "selector"},
        {"budgets:\n- {name: a, gpus: 1, selector: {matchLabels: 3}}\n", "matchLabels"},
        {"budgets:\n- {name: a, gpus: 1, selector: {app: b}}\n", "app"},
        {"budgets:\n- {name: a, gpus: 1, limit: 3}\n", "limit"},
        {"budgets:\n- {name: a, gpus: 1, idleAfter: 1m}\n", "f:2"},
        {"budgets:\n- {name: a, gpus: 1, idleAfter: 25h}\n", "want a duration from 5m to 24h"},
        {"budgets:\n- {name: a, gpus: 1, idleAfter: []}\n", "want a duration from 5m to 24h"},
        {"budgets:\n- {name: a, gpus: }\n", "f:2:3: gpus has no value"},
        {"budgets:\n- name: a\n  gpus: 1\n  namespaces:\n", "f:2:3: namespaces has no value"},
        {"budgets:\n- {name: a, gpus: 1, namespaces: []}\n", "f:2:34: namespaces is empty"},
        {"budgets:\n- {name: a, gpus: 4.5}\n", "\"4.5\" is not a whole number"},
        {"priorityClasses: {a: -1}\nbudgets: []\n", "priority class a"},
        {"budgets: {}\n", "want a list"},
        {"- a\n", "f:1"},
        {"", "one YAML document"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(wrong); i++) {
        struct budget_policy p;
        assert_error(parse(wrong[i].text, &p), GS_EINVAL, wrong[i].problem);
    }
}

static void test_a_config_map_without_the_key_is_refused(void **state)
{
    struct budget_policy p;
    CODEC_AUTO_JSON json_t *map =
        json_pack("{s:{s:s,s:s}}", "metadata", "namespace", "n", "name", "gpuscale-budgets");
    assert_error(budget_policy_of(map, &p), GS_ENOTFOUND, "ConfigMap n/gpuscale-budgets has no");
    json_object_set_new(map, "data", json_pack("{s:s}", BUDGET_KEY, "mode: on\nbudgets: []\n"));
    assert_error(budget_policy_of(map, &p), GS_EINVAL,
                 "ConfigMap n/gpuscale-budgets: budgets.yaml");
}

static void test_a_record_names_the_budgets_that_made_it(void **state)
{
    static const struct {
        const char *text;
        bool valid, others;
    } cases[] = {
        {"maxReplicas=8,set=3", true, false},
        {"maxReplicas=8,set=3,by=ops", true, false},
        {"maxReplicas=8,set=3,by=team", true, true},
        {"maxReplicas=8,set=4,by=team", false, true}, // somebody has set 3 since
        {"maxReplicas=8,set=3,by=", false, false},
        {"maxReplicas=8,set=3,to=ops", false, false},
        {"maxReplicas=0,set=3", false, false},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct budget_record r;
        CODEC_AUTO_JSON json_t *hpa =
            json_pack("{s:{s:{s:s}}, s:{s:i}}", "metadata", "annotations", BUDGET_RECORD_ANNOTATION,
                      cases[i].text, "spec", "maxReplicas", 3);
        assert_int_equal(budget_record_of(hpa, &r), cases[i].valid);
        assert_int_equal(budget_record_of_others(hpa, "ops"), cases[i].others);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_whole_policy_is_read),
        cmocka_unit_test(test_a_policy_is_a_dry_run_unless_it_says_enforce),
        cmocka_unit_test(test_a_scope_matches_by_namespace_labels_and_model),
        cmocka_unit_test(test_a_model_is_matched_by_whole_words),
        cmocka_unit_test(test_the_annotation_has_precedence_over_the_priority_class),
        cmocka_unit_test(test_a_mistake_is_reported_with_its_line),
        cmocka_unit_test(test_a_config_map_without_the_key_is_refused),
        cmocka_unit_test(test_a_record_names_the_budgets_that_made_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
