// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "cmd/up/status.h"

#include <math.h>

#define L(n, v)                                                                                    \
    {                                                                                              \
        GS_SLICE(n), gs_slice_of(v)                                                                \
    }

static void put(struct tsdb *db, const char *metric, const char *gpu, const char *pod, double v)
{
    const struct metrics_label labels[] = {L("__name__", metric), L("gpu", gpu),
                                           L("modelName", "Tesla T4"), L("PodName", pod)};
    assert_ok(tsdb_append(db, labels, GS_ARRAY_LEN(labels), 1000, v));
}

static void test_only_gpus_in_use_count(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    assert_true(isnan(up_status_gpu_percent(db, 1000)));
    put(db, "DCGM_FI_DEV_GPU_UTIL", "0", "", 60);
    put(db, "DCGM_FI_DEV_GPU_UTIL", "1", "", 20);
    put(db, "DCGM_FI_DEV_GPU_UTIL", "2", "", 0);
    assert_true(isnan(up_status_gpu_percent(db, 1000)));
    put(db, "DCGM_CUSTOM_PROCESS_MEM_USED", "0", "w-0", 100);
    put(db, "DCGM_CUSTOM_PROCESS_MEM_USED", "1", "w-1", 100);
    assert_true(up_status_gpu_percent(db, 1000) == 40);
    // Old samples are not "now".
    assert_true(isnan(up_status_gpu_percent(db, 60000)));
    tsdb_free(db);
}

static void block_has(const struct tsdb *db, int64_t now_ms, const char *part)
{
    struct kube_cache *pods = kube_cache_new(uv_default_loop(), NULL, KUBE_PODS, NULL, NULL);
    struct up_decisions *decisions = up_decisions_new();
    const struct up_status_source s = {.headline = "node n",
                                       .hint = "hint",
                                       .simulated = true,
                                       .db = db,
                                       .pods = pods,
                                       .decisions = decisions};
    GS_AUTO_BUF struct gs_buf out = {0};
    up_status_render(&s, now_ms, &out);
    if (!strstr(out.data, part))
        fail_msg("no \"%s\" in:\n%s", part, out.data);
    up_decisions_free(decisions);
    kube_cache_free(pods);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
}

static void test_gpus_without_data_are_not_hidden(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    block_has(db, 1000, "── gpuscale up [SIMULATED GPUs]: node n\n");
    block_has(db, 1000, "GPUs: no sample yet\n");
    put(db, "DCGM_FI_DEV_GPU_UTIL", "0", "", 60);
    put(db, "gpuscale_exporter_gpu_lost", "0", "", 0);
    put(db, "gpuscale_exporter_gpu_lost", "1", "", 1);
    block_has(db, 1000, " 60 %\n");
    block_has(db, 1000, " lost\n");
    block_has(db, 60000, "GPUs: the exporter gives no data at present\n");
    tsdb_free(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_gpus_in_use_count),
        cmocka_unit_test(test_gpus_without_data_are_not_hidden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
