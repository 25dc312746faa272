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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_only_gpus_in_use_count)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
