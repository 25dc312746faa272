// SPDX-License-Identifier: Apache-2.0
// The arguments that the HTTP API passes to scraping and rules, and the filters that it applies.
#include "harness.h"

static int setup_parts(void **state)
{
    static struct scrape_manager scrapes;
    static struct rules_manager rules;
    return setup_with(state, &(struct engine_api_config){.scrapes = &scrapes, .rules = &rules});
}

static void assert_data(struct harness *h, const char *path, const char *data)
{
    GS_AUTO_FREE char *full = gs_format("/api/v1/%s", path);
    GS_AUTO_FREE char *want = gs_format("{\"status\":\"success\",\"data\":%s}", data);
    get(h, full);
    assert_answer(h, 200, want);
}

static void test_parameters_passed_on(void **state)
{
    struct harness *h = *state;
    assert_data(h, "targets", "{\"state\":\"any\",\"pool\":\"all\"}");
    assert_data(h, "targets?state=Active&scrapePool=p", "{\"state\":\"active\",\"pool\":\"p\"}");
    assert_data(h, "metadata", "{\"metric\":\"all\",\"limit\":-1,\"per\":-1}");
    assert_data(h, "metadata?metric=up&limit=2&limit_per_metric=3",
                "{\"metric\":\"up\",\"limit\":2,\"per\":3}");
    assert_data(h, "targets/metadata?match_target=%7Bjob%3D%22a%22%7D&metric=m&limit=1",
                "[1,\"m\",1]");
    get(h, "/api/v1/targets/metadata?match_target=(");
    assert_failed(h, 400, "bad_data", "invalid parameter \"match_target\": ");
    assert_data(h, "scrape_pools", "{\"scrapePools\":[\"a\"]}");
    assert_data(h, "alerts", "{\"alerts\":[1]}");
    get(h, "/metrics");
    assert_contains(h, 200, "prometheus_target_scrapes_total 1\n");
    assert_contains(h, 200, "prometheus_rule_evaluations_total 1\n");
}

// Compares the names of the rules in the response, by group.
static void assert_rules(struct harness *h, const char *query, const char *want)
{
    GS_AUTO_FREE char *path = gs_format("/api/v1/rules?%s", query);
    GS_AUTO_BUF struct gs_buf got = {0};
    json_t *j = NULL, *group, *rule;
    size_t i, k;
    get(h, path);
    assert_ok(codec_json_parse(gs_buf_slice(&h->body), true, &j));
    gs_buf_add_str(&got, "");
    json_array_foreach (codec_json_get(j, "data", "groups", NULL), i, group) {
        gs_buf_addf(&got, "%s%s:", i ? " " : "", codec_json_str(group, "name", NULL));
        json_array_foreach (json_object_get(group, "rules"), k, rule)
            gs_buf_add_str(&got, codec_json_str(rule, "name", NULL));
    }
    json_decref(j);
    assert_string_equal(got.data, want);
}

static void test_rule_filters(void **state)
{
    struct harness *h = *state;
    assert_rules(h, "", "g1:rA g2:r g1:s");
    assert_rules(h, "type=record", "g1:r");
    assert_rules(h, "rule_name[]=r", "g1:r g2:r");
    assert_rules(h, "rule_name[]=r&rule_name[]=s", "g1:r g2:r g1:s");
    assert_rules(h, "rule_group[]=g1", "g1:rA g1:s");
    assert_rules(h, "rule_group[]=g1&file[]=b.yml", "g1:s");
    assert_rules(h, "rule_name[]=nothing", "");
    assert_rules(h, "match[]=%7Bteam%3D%22y%22%7D", "g1:A");
    assert_rules(h, "match[]=%7Bteam%3D~%22x%7Cy%22%7D", "g1:rA");
    get(h, "/api/v1/rules?rule_name[]=A&exclude_alerts=true");
    assert_contains(h, 200, "\"alerts\":null");
    get(h, "/api/v1/rules?rule_name[]=A&exclude_alerts=false");
    assert_contains(h, 200, "\"alerts\":[{}]");
    get(h, "/api/v1/rules?exclude_alerts=perhaps");
    assert_failed(h, 400, "bad_data",
                  "invalid parameter \"exclude_alerts\": error converting exclude_alerts: "
                  "strconv.ParseBool: parsing \"perhaps\": invalid syntax");
}

static void test_rule_pages(void **state)
{
    struct harness *h = *state;
    static const char *const pages[] = {"g1:rA", "g2:r", "g1:s"};
    GS_AUTO_FREE char *token = gs_strdup("");
    for (size_t i = 0; i < GS_ARRAY_LEN(pages); i++) {
        GS_AUTO_FREE char *query = *token ? gs_format("group_limit=1&group_next_token=%s", token)
                                          : gs_strdup("group_limit=1");
        json_t *j = NULL;
        assert_rules(h, query, pages[i]);
        assert_ok(codec_json_parse(gs_buf_slice(&h->body), true, &j));
        const char *next = codec_json_str(j, "data", "groupNextToken", NULL);
        assert_int_equal(next != NULL, i < 2);
        free(token);
        token = gs_strdup(next ? next : "");
        json_decref(j);
    }
    assert_rules(h, "group_limit=5", "g1:rA g2:r g1:s");
    get(h, "/api/v1/rules?group_limit=1&group_next_token=zz");
    assert_failed(h, 400, "bad_data",
                  "invalid parameter \"group_next_token\": invalid group_next_token 'zz'. were "
                  "rule groups changed?");
    get(h, "/api/v1/rules?group_limit=0");
    assert_failed(h, 400, "bad_data", "group_limit needs to be greater than 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_parameters_passed_on, setup_parts, teardown),
        cmocka_unit_test_setup_teardown(test_rule_filters, setup_parts, teardown),
        cmocka_unit_test_setup_teardown(test_rule_pages, setup_parts, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
