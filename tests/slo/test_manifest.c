// SPDX-License-Identifier: Apache-2.0
// Mistakes of autoscalers with a latency target.
#include "slo/manifest.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define OF(type, source, name, more, target)                                                       \
    "{\"type\":\"" type "\",\"" source "\":{\"metric\":{\"name\":\"" name "\"" more                \
    "},\"target\":" target "}}"
#define SELECTED ",\"selector\":{\"matchLabels\":{\"horizontalpodautoscaler\":\"web\"}}"
#define ONE      "{\"type\":\"AverageValue\",\"averageValue\":\"1\"}"
#define TWO      "{\"type\":\"AverageValue\",\"averageValue\":\"2\"}"
#define VALUE    "{\"type\":\"Value\",\"value\":\"1\"}"
#define DESIRED  "gpuscale_desired_replicas"
#define PRESSURE "gpuscale_slo_pressure"
#define GOOD     OF("External", "external", DESIRED, SELECTED, ONE)
#define QUEUE    OF("External", "external", "queue", "", TWO)

static const struct {
    const char *annotation, *metrics;
    int max;
    const char *behavior; // NULL: none
    bool error;
    const char *problem; // a part of it; NULL: none
} cases[] = {
    {"ttft=1s", GOOD, 10, NULL, false, NULL},
    {"ttft=1s", QUEUE, 100, NULL, false, NULL},
    {NULL, QUEUE, 100, NULL, false, NULL},
    {"ttft=1s", OF("Object", "object", DESIRED, "", ONE), 10, NULL, false, NULL},
    {"ttft=1s", OF("Object", "object", PRESSURE, "", VALUE), 100, NULL, false, NULL},
    {"ttft=1s", GOOD, 40, "{\"scaleUp\":{\"tolerance\":\"0\"}}", false, NULL},
    {"ttft=1s,tpot=1s", QUEUE, 10, NULL, true, "tpot"},
    {"ttft=1s", OF("External", "external", DESIRED, SELECTED, VALUE), 10, NULL, true,
     "multiplies the number of replicas"},
    {"ttft=1s", OF("External", "external", DESIRED, SELECTED, TWO), 10, NULL, true, "is not 1"},
    {"ttft=1s", OF("Object", "object", PRESSURE, "", ONE), 10, NULL, true, "divides the pressure"},
    {"ttft=1s", OF("External", "external", DESIRED, "", ONE), 10, NULL, false, "no selector"},
    {NULL, GOOD, 10, NULL, true, "nothing calculates it"},
    {"ttft=1s,mode=shadow", GOOD, 10, NULL, true, "which applies the decision"},
    {"ttft=1s", GOOD, 11, NULL, false, "no more than a tenth"},
    {"ttft=1s", "", 10, NULL, false, "80 % of the CPU"},
};

static void test_mistakes(void **state)
{
    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_FREE char *metrics = gs_format("[%s]", cases[i].metrics);
        CODEC_AUTO_JSON json_t *items = json_array();
        CODEC_AUTO_JSON json_t *hpa =
            json_pack("{s:{s:i, s:o}}", "spec", "maxReplicas", cases[i].max, "metrics",
                      json_loads(metrics, 0, NULL));
        if (cases[i].annotation)
            codec_json_set(hpa, json_string(cases[i].annotation), "metadata", "annotations",
                           "gpuscale.dev/slo", NULL);
        if (cases[i].behavior)
            codec_json_set(hpa, json_loads(cases[i].behavior, 0, NULL), "spec", "behavior", NULL);
        slo_manifest_mistakes(hpa, items);
        const json_t *first = json_array_get(items, 0);
        const char *problem = codec_json_str(first, "problem", NULL);
        if (!cases[i].problem && problem)
            fail_msg("case %zu: %s", i, problem);
        if (!cases[i].problem)
            continue;
        assert_int_equal(json_array_size(items), 1);
        if (!strstr(problem, cases[i].problem))
            fail_msg("case %zu: %s", i, problem);
        assert_int_equal(codec_json_bool(first, false, "error", NULL), cases[i].error);
        assert_non_null(codec_json_str(first, "fix", NULL));
    }
}

// Objects that nobody has checked.
static void test_strange_objects(void **state)
{
    static const char *const objects[] = {
        "{}",
        "[]",
        "{\"metadata\":{\"annotations\":{\"gpuscale.dev/slo\":1}},\"spec\":3}",
        "{\"spec\":{\"metrics\":[1,{\"external\":[]},{\"object\":{\"metric\":7}}]}}",
    };
    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(objects); i++) {
        CODEC_AUTO_JSON json_t *hpa = json_loads(objects[i], 0, NULL), *items = json_array();
        slo_manifest_mistakes(hpa, items);
        assert_int_equal(json_array_size(items), 0);
    }
}

static void test_a_wrong_capacity_is_a_mistake(void **state)
{
    CODEC_AUTO_JSON json_t *items = json_array();
    CODEC_AUTO_JSON json_t *hpa =
        json_pack("{s:{s:{s:s}}}", "metadata", "annotations", "gpuscale.dev/capacity", "pods");
    (void)state;
    slo_manifest_mistakes(hpa, items);
    assert_int_equal(json_array_size(items), 1);
    assert_non_null(strstr(codec_json_str(json_array_get(items, 0), "problem", NULL),
                           "gpuscale.dev/capacity needs gpuscale.dev/slo"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_a_wrong_capacity_is_a_mistake),
        cmocka_unit_test(test_strange_objects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
