// SPDX-License-Identifier: Apache-2.0
// Conversion of files with rules and dashboards: only the texts that change are replaced.
#include "aliases/documents.h"

#include "unit.h"

static void check_to(enum aliases_release to, const char *file, const char *expected,
                     const char *problems)
{
    ALIASES_AUTO_REPORT struct aliases_report r = {{0}};
    GS_AUTO_BUF struct gs_buf text = {0};
    assert_ok(aliases_convert_document(gs_slice_of(file), "f", to, &r, &text));
    assert_string_equal(text.data, expected);
    assert_string_equal(r.problems.data ? r.problems.data : "", problems);
}

static void check(const char *file, const char *expected, const char *problems)
{
    check_to(ALIASES_4_9, file, expected, problems);
}

static void test_styles_of_yaml(void **state)
{
    (void)state;
    check("- expr: max(DCGM_FI_DEV_GPU_UTIL) > 80  # busy\n"
          "  for: 5m # five\n"
          "- {expr: max(DCGM_FI_DEV_GPU_UTIL), record: 'é', \"expr2\": 'x'}\n"
          "- expr: max(DCGM_FI_DEV_GPU_TEMP{a=\"b\"})\n"
          "- expr: 'DCGM_FI_DEV_GPU_TEMP{a=''b''}'\n"
          "- expr: \"DCGM_FI_DEV_GPU_TEMP{a=\\\"b\\\"}\"\n",
          "- expr: max(DCGM_FI_DEV_GPU_UTIL_RATIO * 100) > 80  # busy\n"
          "  for: 5m # five\n"
          "- {expr: max(DCGM_FI_DEV_GPU_UTIL_RATIO * 100), record: 'é', \"expr2\": 'x'}\n"
          "- expr: max(DCGM_FI_DEV_GPU_TEMP_CELSIUS{a=\"b\"})\n"
          "- expr: 'DCGM_FI_DEV_GPU_TEMP_CELSIUS{a=''b''}'\n"
          "- expr: \"DCGM_FI_DEV_GPU_TEMP_CELSIUS{a=\\\"b\\\"}\"\n",
          "");
}

static void test_blocks_of_yaml(void **state)
{
    (void)state;
    check("- expr: |-\n"
          "    sum(\n"
          "      DCGM_FI_DEV_GPU_UTIL # all\n"
          "    )\n"
          "\n"
          "  for: 1m\n"
          "- expr: >\n"
          "    max(DCGM_FI_DEV_GPU_TEMP)\n"
          "    by (pod)\n"
          "- expr: max(DCGM_FI_DEV_GPU_TEMP)\n"
          "    by (pod)\n"
          "  for: 2m\n",
          "- expr: |-\n"
          "    sum(\n"
          "      DCGM_FI_DEV_GPU_UTIL_RATIO * 100 # all\n"
          "    )\n"
          "\n"
          "  for: 1m\n"
          "- expr: |\n"
          "    max(DCGM_FI_DEV_GPU_TEMP_CELSIUS) by (pod)\n"
          "- expr: max(DCGM_FI_DEV_GPU_TEMP_CELSIUS) by (pod)\n"
          "  for: 2m\n",
          "");
}

static void test_templates_of_rules(void **state)
{
    (void)state;
    check("annotations:\n"
          "  a: '{{ $labels.DCGM_FI_DRIVER_VERSION }} of DCGM_FI_DEV_GPU_UTIL'\n"
          "  b: '{{ query \"DCGM_FI_DEV_GPU_UTIL\" }}'\n",
          "annotations:\n"
          "  a: '{{ $labels.DCGM_FI_SYSTEM_DRIVER_VERSION }} of DCGM_FI_DEV_GPU_UTIL'\n"
          "  b: '{{ query \"DCGM_FI_DEV_GPU_UTIL\" }}'\n",
          "f:3: a query in a template is not converted\n");
}

static void test_dashboard(void **state)
{
    (void)state;
    check(
        "{\n\t\"list\": [{\"query\": \"label_values(DCGM_FI_DEV_GPU_UTIL{a=\\\"$a\\\"}, gpu)\"}],\n"
        "\t\"targets\": [\n"
        "\t\t{\"expr\": \"rate(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION[$__rate_interval]) > $x\"},\n"
        "\t\t{\"expr\": \"topk($n, avg by ($by, [[more]]) (DCGM_FI_DEV_FB_USED offset $o))\",\n"
        "\t\t \"legendFormat\": \"{{gpu}} {{DCGM_FI_DRIVER_VERSION}}\"}]}\n",
        "{\n\t\"list\": [{\"query\": \"label_values(DCGM_FI_DEV_GPU_UTIL_RATIO{a=\\\"$a\\\"}, "
        "gpu)\"}],\n"
        "\t\"targets\": [\n"
        "\t\t{\"expr\": \"rate(DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL[$__rate_interval]) * 1000 > "
        "$x\"},\n"
        "\t\t{\"expr\": \"topk($n, avg by ($by, [[more]]) (DCGM_FI_DEV_FB_USED_BYTES offset $o / "
        "1048576))\",\n"
        "\t\t \"legendFormat\": \"{{gpu}} {{DCGM_FI_SYSTEM_DRIVER_VERSION}}\"}]}\n",
        "");
}

static void test_dashboard_in_a_config_map(void **state)
{
    (void)state;
    check("kind: ConfigMap\n"
          "data:\n"
          "  gpu.json: |\n"
          "    {\n"
          "      \"panels\": [{\"expr\": \"DCGM_FI_DEV_GPU_UTIL\"}]\n"
          "    }\n"
          "  other: x\n",
          "kind: ConfigMap\n"
          "data:\n"
          "  gpu.json: |\n"
          "    {\n"
          "      \"panels\": [{\"expr\": \"DCGM_FI_DEV_GPU_UTIL_RATIO * 100\"}]\n"
          "    }\n"
          "  other: x\n",
          "");
}

static void test_what_is_not_converted(void **state)
{
    (void)state;
    static const char file[] = "- expr: DCGM_FI_DEV_$metric\n"
                               "- expr: sum(DCGM_FI_DEV_GPU_UTIL\n"
                               "- query: metrics(DCGM_FI_.*)\n"
                               "- seriesQuery: DCGM_FI_DEV_GPU_UTIL{}\n"
                               "- expr: up\n"
                               "- text: DCGM_FI_DEV_GPU_UTIL\n";
    check(file, file,
          "f:1: not converted: a variable is part of the name of a metric\n"
          "f:2: not converted: 1:25: parse error: unclosed left parenthesis\n"
          "f:3: not converted: lists of names are not converted\n"
          "f:4: rules of the adapter are not converted; its --dcgm-aliases reads both names\n");
}

static void test_other_direction(void **state)
{
    (void)state;
    check_to(ALIASES_4_8, "- expr: DCGM_FI_DEV_GPU_UTIL_RATIO > 0.8\n",
             "- expr: DCGM_FI_DEV_GPU_UTIL / 100 > 0.8\n", "");
}

static void test_anchors(void **state)
{
    (void)state;
    check("- expr: &e max(DCGM_FI_DEV_GPU_TEMP)\n- expr: *e\n",
          "- expr: &e max(DCGM_FI_DEV_GPU_TEMP_CELSIUS)\n- expr: *e\n", "");
}

static void test_files_that_are_neither(void **state)
{
    (void)state;
    ALIASES_AUTO_REPORT struct aliases_report r = {{0}};
    GS_AUTO_BUF struct gs_buf text = {0};
    assert_error(aliases_convert_document(GS_SLICE("a: ["), "f", ALIASES_4_9, &r, &text), GS_EINVAL,
                 "f:2:1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_styles_of_yaml),
        cmocka_unit_test(test_blocks_of_yaml),
        cmocka_unit_test(test_templates_of_rules),
        cmocka_unit_test(test_dashboard),
        cmocka_unit_test(test_dashboard_in_a_config_map),
        cmocka_unit_test(test_what_is_not_converted),
        cmocka_unit_test(test_other_direction),
        cmocka_unit_test(test_anchors),
        cmocka_unit_test(test_files_that_are_neither),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
