// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "engine/inference_targets/inference_targets_private.h"

#include "base/mem.h"

static struct signals_table *table;

static int load(void **state)
{
    (void)state;
    assert_ok(signals_table_load(NULL, &table));
    return 0;
}

static int unload(void **state)
{
    (void)state;
    signals_table_free(table);
    return 0;
}

// The addresses of a pod, with blanks between them, or why it has none.
static char *addresses_of(const char *pod_json)
{
    CODEC_AUTO_JSON json_t *pod = NULL;
    struct inference_targets_addresses a = {.n = 0};
    const char *wrong = NULL;
    struct gs_buf out = {0};
    assert_ok(codec_json_parse(gs_slice_of(pod_json), true, &pod));
    inference_targets_addresses_of(pod, table, &a, &wrong);
    for (size_t i = 0; i < a.n; i++)
        gs_buf_addf(&out, "%s%s", i ? " " : "", a.items[i]);
    if (wrong)
        gs_buf_add_str(&out, wrong);
    inference_targets_addresses_finish(&a);
    return gs_buf_take(&out);
}

static void expect(const char *pod, const char *addresses)
{
    GS_AUTO_FREE char *found = addresses_of(pod);
    assert_string_equal(found, addresses);
}

#define GPU "\"resources\":{\"limits\":{\"nvidia.com/gpu\":\"1\"}}"

static void test_a_pod_with_a_gpu_is_tried_at_its_ports(void **state)
{
    (void)state;
    expect("{\"spec\":{\"containers\":[{" GPU ",\"ports\":[{\"containerPort\":9000},"
           "{\"containerPort\":53,\"protocol\":\"UDP\"}]}]}}",
           "9000/metrics 9000/prometheus/metrics 9000/v1/metrics");
}

static void test_a_pod_without_ports_is_tried_at_the_usual_ones(void **state)
{
    (void)state;
    GS_AUTO_FREE char *found = addresses_of("{\"spec\":{\"containers\":[{" GPU "}]}}");
    assert_non_null(strstr(found, "8000/metrics 30000/metrics"));
    assert_non_null(strstr(found, "8000/prometheus/metrics"));
}

static void test_kinds_of_gpus(void **state)
{
    (void)state;
#define PORT "\"ports\":[{\"containerPort\":1}]"
#define ALL  "1/metrics 1/prometheus/metrics 1/v1/metrics"
    expect("{\"spec\":{\"containers\":[{\"resources\":{\"limits\":{\"nvidia.com/"
           "mig-1g.10gb\":1}}," PORT "}]}}",
           ALL);
    expect("{\"spec\":{\"containers\":[{\"resources\":{\"requests\":{\"amd.com/gpu\":1}}," PORT
           "}]}}",
           ALL);
    expect("{\"spec\":{\"resourceClaims\":[{\"name\":\"gpu\"}],\"containers\":[{" PORT "}]}}", ALL);
    expect("{\"spec\":{\"containers\":[{\"resources\":{\"limits\":{\"cpu\":1}}," PORT "}]}}", "");
}

static void expect_annotated(const char *text, const char *addresses)
{
    GS_AUTO_FREE char *pod =
        gs_format("{\"metadata\":{\"annotations\":{\"gpuscale.dev/inference\":\"%s\"}},\"spec\":{"
                  "\"containers\":[{\"ports\":[{\"containerPort\":8080,\"name\":\"http\"}]}]}}",
                  text);
    expect(pod, addresses);
}

static void test_an_annotation_names_the_address(void **state)
{
    (void)state;
    expect_annotated("vllm:8000/metrics", "8000/metrics");
    expect_annotated("8000/a/b", "8000/a/b");
    expect_annotated("8000", "8000/metrics 8000/prometheus/metrics 8000/v1/metrics");
    expect_annotated("http/m", "8080/m");
    expect_annotated("vllm:http/m", "8080/m");
    expect_annotated("false", "");
}

static void test_a_wrong_annotation_has_a_reason(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",    "vllm",        "vllm:0/m", "vllm:99999/m",
                                        ":/m", "vllm:none/m", "8000/a b", "8000/a#b"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        GS_AUTO_FREE char *pod = gs_format(
            "{\"metadata\":{\"annotations\":{\"gpuscale.dev/inference\":\"%s\"}}}", wrong[i]);
        GS_AUTO_FREE char *found = addresses_of(pod);
        assert_non_null(strstr(found, "gpuscale.dev/inference"));
    }
}

static void test_a_moved_port_is_used(void **state)
{
    (void)state;
    expect("{\"metadata\":{\"annotations\":{\"gpuscale.dev/ports\":\"80=8080\"}},"
           "\"spec\":{\"containers\":[{" GPU ",\"ports\":[{\"containerPort\":80}]}]}}",
           "8080/metrics 8080/prometheus/metrics 8080/v1/metrics");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pod_with_a_gpu_is_tried_at_its_ports),
        cmocka_unit_test(test_a_pod_without_ports_is_tried_at_the_usual_ones),
        cmocka_unit_test(test_kinds_of_gpus),
        cmocka_unit_test(test_an_annotation_names_the_address),
        cmocka_unit_test(test_a_wrong_annotation_has_a_reason),
        cmocka_unit_test(test_a_moved_port_is_used),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
