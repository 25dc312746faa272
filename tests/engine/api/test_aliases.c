// SPDX-License-Identifier: Apache-2.0
// The variables and queries of a dashboard with names of dcgm-exporter 4.8 on series of 4.9.
#include "harness.h"

#include "aliases/aliases.h"

static int set_up(void **state)
{
    setup_with(state, &(struct engine_api_config){.dcgm_aliases = true});
    struct harness *h = *state;
    promql_engine_set_substitute(h->promql, aliases_substitute, h->db);
    add(h, "DCGM_FI_DEV_GPU_UTIL_RATIO", "0", 100, 0.25);
    add(h, "DCGM_FI_DEV_GPU_UTIL_RATIO", "1", 100, 0.5);
    return 0;
}

#define UTIL "DCGM_FI_DEV_GPU_UTIL"

static void test_query(void **state)
{
    get(*state, "/api/v1/query?time=100&query=" UTIL "%7Bgpu%3D%221%22%7D");
    assert_answer(*state, 200,
                  "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[{"
                  "\"metric\":{\"__name__\":\"" UTIL "\",\"gpu\":\"1\",\"host\":\"a\"},"
                  "\"value\":[100,\"50\"]}]}}");
}

static void test_variables(void **state)
{
    get(*state, "/api/v1/label/gpu/values?match[]=" UTIL);
    assert_answer(*state, 200, "{\"status\":\"success\",\"data\":[\"0\",\"1\"]}");
    get(*state, "/api/v1/labels?match[]=" UTIL);
    assert_answer(*state, 200, "{\"status\":\"success\",\"data\":[\"__name__\",\"gpu\",\"host\"]}");
    get(*state, "/api/v1/label/__name__/values?match[]=" UTIL);
    assert_answer(*state, 200, "{\"status\":\"success\",\"data\":[\"" UTIL "\"]}");
}

static void test_series(void **state)
{
    static const char one[] =
        "{\"status\":\"success\",\"data\":[{\"__name__\":\"" UTIL "\",\"gpu\":\"1\",\"host\":\"a\"}"
        "]}";
    get(*state, "/api/v1/series?match[]=" UTIL "%7Bgpu%3D%221%22%7D");
    assert_answer(*state, 200, one);
    // With both names, each series is listed once.
    get(*state, "/api/v1/series?match[]=" UTIL "&match[]=" UTIL "_RATIO%7Bgpu%3D%221%22%7D");
    assert_answer(*state, 200,
                  "{\"status\":\"success\",\"data\":[{\"__name__\":\"" UTIL
                  "_RATIO\",\"gpu\":\"1\",\"host\":\"a\"}]}");
}

static void test_limit_of_series(void **state)
{
    get(*state, "/api/v1/series?limit=1&match[]=" UTIL);
    assert_contains(*state, 200, "\"data\":[{\"__name__\":\"" UTIL "\",\"gpu\":\"0\"");
    assert_contains(*state, 200, "\"warnings\":[\"results truncated due to limit\"]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_query, set_up, teardown),
        cmocka_unit_test_setup_teardown(test_variables, set_up, teardown),
        cmocka_unit_test_setup_teardown(test_series, set_up, teardown),
        cmocka_unit_test_setup_teardown(test_limit_of_series, set_up, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
