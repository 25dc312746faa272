// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "up/up_private.h"

static struct machines_gpus devices_of(const char *product, unsigned slices)
{
    return (struct machines_gpus){.product = (char *)product,
                                  .n = 2,
                                  .n_whole = 2,
                                  .slices = slices,
                                  .memory_mib = 15360,
                                  .cuda_version = 12080,
                                  .driver_version = "570.124.06-simulated"};
}

static void assert_label(const json_t *labels, const char *key, const char *want)
{
    const char *value = json_string_value(json_object_get(labels, key));
    if (!gs_streq(value, want))
        fail_msg("%s is %s, expected %s", key, value ? value : "absent", want ? want : "absent");
}

static void test_labels_of_gpu_feature_discovery(void **state)
{
    const struct machines_gpus d = devices_of("Tesla-T4", 1);
    CODEC_AUTO_JSON json_t *l = machines_gpu_labels(&d);
    assert_label(l, "nvidia.com/gpu.present", "true");
    assert_label(l, "nvidia.com/gpu.product", "Tesla-T4");
    assert_label(l, "nvidia.com/gpu.count", "2");
    assert_label(l, "nvidia.com/gpu.memory", "15360");
    assert_label(l, "nvidia.com/gpu.family", "turing");
    assert_label(l, "nvidia.com/gpu.compute.major", "7");
    assert_label(l, "nvidia.com/gpu.compute.minor", "5");
    assert_label(l, "nvidia.com/gpu.replicas", "1");
    assert_label(l, "nvidia.com/mig.capable", "false");
    assert_label(l, "nvidia.com/cuda.driver.major", "570");
    assert_label(l, "nvidia.com/cuda.driver.minor", "124");
    assert_label(l, "nvidia.com/cuda.driver.rev", "06");
    assert_label(l, "nvidia.com/cuda.driver-version.full", "570.124.06");
    assert_label(l, "nvidia.com/cuda.runtime.major", "12");
    assert_label(l, "nvidia.com/cuda.runtime.minor", "8");
    assert_label(l, "cloud.google.com/gke-accelerator", "nvidia-tesla-t4");
    assert_label(l, "accelerator", "nvidia-gpu");
}

static void test_models(void **state)
{
    static const struct {
        const char *product, *family, *gke;
    } cases[] = {
        {"NVIDIA-A100-SXM4-80GB", "ampere", "nvidia-a100-80gb"},
        {"NVIDIA-A100-SXM4-40GB", "ampere", "nvidia-tesla-a100"},
        {"NVIDIA-A10", "ampere", NULL},
        {"NVIDIA-L4", "ada-lovelace", "nvidia-l4"},
        {"NVIDIA-L40S", "ada-lovelace", NULL},
        {"NVIDIA-H100-80GB-HBM3", "hopper", "nvidia-h100-80gb"},
        {"Tesla-V100-SXM2-16GB", "volta", "nvidia-tesla-v100"},
        {"NVIDIA-GB200", "blackwell", "nvidia-gb200"},
        {"NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "blackwell", "nvidia-rtx-pro-6000"},
        {"NVIDIA-Something-New", NULL, NULL},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        const struct machines_gpus d = devices_of(cases[i].product, 1);
        CODEC_AUTO_JSON json_t *l = machines_gpu_labels(&d);
        assert_label(l, "nvidia.com/gpu.family", cases[i].family);
        assert_label(l, "cloud.google.com/gke-accelerator", cases[i].gke);
    }
}

static void test_shared_gpus(void **state)
{
    const struct machines_gpus d = devices_of("Tesla-T4", 4);
    CODEC_AUTO_JSON json_t *l = machines_gpu_labels(&d);
    assert_label(l, "nvidia.com/gpu.product", "Tesla-T4-SHARED");
    assert_label(l, "nvidia.com/gpu.replicas", "4");
    assert_label(l, "nvidia.com/gpu.sharing-strategy", "time-slicing");
}

static void test_a_node_without_gpus_has_no_gpu_labels(void **state)
{
    const struct machines_gpus d = {0};
    CODEC_AUTO_JSON json_t *l = machines_gpu_labels(&d);
    assert_int_equal(json_object_size(l), 0);
}

static struct gs_error *parse(const char *label, const char *taint, json_t *labels, json_t *taints)
{
    struct up_options o = {0};
    if (label)
        o.node_labels = (struct gs_opt_list){.items = &label, .len = 1};
    if (taint)
        o.node_taints = (struct gs_opt_list){.items = &taint, .len = 1};
    return up_node_parse(&o, labels, taints);
}

// karpenter's chart spreads its pods over zones.
static void test_the_node_has_a_zone(void **state)
{
    CODEC_AUTO_JSON json_t *labels = json_object(), *taints = json_array();
    struct nodes_pool pool = {.zone = "a"};
    const struct nodes_pools none = {0}, zoned = {.items = &pool, .len = 1};
    up_node_defaults(labels, true, &zoned);
    assert_label(labels, "topology.kubernetes.io/zone", NULL);
    json_object_clear(labels);
    up_node_defaults(labels, false, &none);
    assert_label(labels, "topology.kubernetes.io/zone", "local-a");
    assert_label(labels, "topology.kubernetes.io/region", "local");
    assert_label(labels, "node.kubernetes.io/instance-type", NULL);
    assert_ok(parse("topology.kubernetes.io/zone=eu-1a", NULL, labels, taints));
    assert_label(labels, "topology.kubernetes.io/zone", "eu-1a");
}

static void test_flags(void **state)
{
    CODEC_AUTO_JSON json_t *labels = json_object(), *taints = json_array();
    assert_ok(parse("example.com/pool=a", "nvidia.com/gpu=present:NoSchedule", labels, taints));
    assert_ok(parse("empty=", "gpu:NoExecute", labels, taints));
    CODEC_AUTO_JSON json_t *want_labels =
        json_pack("{s:s,s:s}", "example.com/pool", "a", "empty", "");
    CODEC_AUTO_JSON json_t *want_taints =
        json_pack("[{s:s,s:s,s:s},{s:s,s:s}]", "key", "nvidia.com/gpu", "value", "present",
                  "effect", "NoSchedule", "key", "gpu", "effect", "NoExecute");
    assert_true(json_equal(labels, want_labels));
    assert_true(json_equal(taints, want_taints));
}

static void test_wrong_flags_are_refused(void **state)
{
    static const struct {
        const char *label, *taint, *part;
    } cases[] = {
        {"a b=c", NULL, "--node-label a b=c: "},
        {"a=b c", NULL, "--node-label a=b c: "},
        {"", NULL, "--node-label"},
        {NULL, "gpu", "--node-taint gpu: write KEY=VALUE:EFFECT"},
        {NULL, "gpu=a:Never", "--node-taint gpu=a:Never: write KEY=VALUE:EFFECT"},
        {NULL, "=a:NoSchedule", "--node-taint =a:NoSchedule: "},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        CODEC_AUTO_JSON json_t *labels = json_object(), *taints = json_array();
        struct gs_error *err = parse(cases[i].label, cases[i].taint, labels, taints);
        assert_non_null(err);
        if (!strstr(gs_error_message(err), cases[i].part))
            fail_msg("no \"%s\" in: %s", cases[i].part, gs_error_message(err));
        gs_error_free(err);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_labels_of_gpu_feature_discovery),
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_shared_gpus),
        cmocka_unit_test(test_a_node_without_gpus_has_no_gpu_labels),
        cmocka_unit_test(test_the_node_has_a_zone),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_wrong_flags_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
