// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/mem.h"
#include "up/console/console.h"
#include "up/console/console_private.h"

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
    assert_true(isnan(console_status_gpu_percent(db, 1000)));
    put(db, "DCGM_FI_DEV_GPU_UTIL", "0", "", 60);
    put(db, "DCGM_FI_DEV_GPU_UTIL", "1", "", 20);
    put(db, "DCGM_FI_DEV_GPU_UTIL", "2", "", 0);
    assert_true(isnan(console_status_gpu_percent(db, 1000)));
    put(db, "DCGM_CUSTOM_PROCESS_MEM_USED", "0", "w-0", 100);
    put(db, "DCGM_CUSTOM_PROCESS_MEM_USED", "1", "w-1", 100);
    assert_true(console_status_gpu_percent(db, 1000) == 40);
    // Old samples are not "now".
    assert_true(isnan(console_status_gpu_percent(db, 60000)));
    tsdb_free(db);
}

static const char *pools; // lines of pools in the block

struct window {
    size_t rows, columns;
};

// The block of a window, with what `all` has.
static char *render(const struct tsdb *db, struct console_decisions *decisions, int64_t now_ms,
                    struct window w)
{
    struct kube_cache *pods = kube_cache_new(uv_default_loop(), NULL, KUBE_PODS, NULL, NULL);
    const struct console_status_source s = {
        .headline = "node n, 2 GPUs",
        .hints = {"export KUBECONFIG=/home/you/.local/share/gpuscale/kubeconfig", "short hint"},
        .service_url = "http://127.97.1.1",
        .pools = pools,
        .simulated = true,
        .db = db,
        .pods = pods,
        .decisions = decisions};
    struct gs_buf out = {0};
    console_status_render(&s, now_ms, w.rows, w.columns, &out);
    kube_cache_free(pods);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    return gs_buf_take(&out);
}

static void block_has(const struct tsdb *db, int64_t now_ms, const char *part)
{
    struct console_decisions *decisions = console_decisions_new();
    GS_AUTO_FREE char *out = render(db, decisions, now_ms, (struct window){0, 100});
    if (!strstr(out, part))
        fail_msg("no \"%s\" in:\n%s", part, out);
    console_decisions_free(decisions);
}

static void test_gpus_without_data_are_not_hidden(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    block_has(db, 1000, "── gpuscale up [SIMULATED GPUs]: node n, 2 GPUs\n");
    block_has(db, 1000, "GPUs: no sample yet\n");
    put(db, "DCGM_FI_DEV_GPU_UTIL", "0", "", 60);
    put(db, "gpuscale_exporter_gpu_lost", "0", "", 0);
    put(db, "gpuscale_exporter_gpu_lost", "1", "", 1);
    block_has(db, 1000, " 60 %\n");
    block_has(db, 1000, " lost\n");
    block_has(db, 60000, "GPUs: the exporter returns no data\n");
    tsdb_free(db);
}

static void put_on_node(struct tsdb *db, const char *node, const char *uuid, double v)
{
    const struct metrics_label labels[] = {L("__name__", "DCGM_FI_DEV_GPU_UTIL"),
                                           L("NodeName", node), L("UUID", uuid), L("gpu", "0"),
                                           L("modelName", "Tesla T4")};
    assert_ok(tsdb_append(db, labels, GS_ARRAY_LEN(labels), 1000, v));
}

static void test_gpus_of_several_nodes_have_their_names(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    put_on_node(db, "gpuscale-t4-bbbbb", "GPU-a", 60);
    block_has(db, 1000, "  GPU 0  Tesla T4");
    put_on_node(db, "gpuscale-t4-ccccc", "GPU-b", 20);
    block_has(db, 1000, "  t4-bbbbb GPU 0  Tesla T4");
    block_has(db, 1000, "  t4-ccccc GPU 0  Tesla T4");
    tsdb_free(db);
}

static void test_pools_have_a_line_each(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    pools = "  Pool t4: 1 of 0..8 nodes, 1 GPU\n    gpuscale-t4-bbbbb: ready, 1 GPU\n";
    block_has(db, 1000,
              "\n  Pool t4: 1 of 0..8 nodes, 1 GPU\n    gpuscale-t4-bbbbb: ready, 1 GPU\n");
    pools = NULL;
    tsdb_free(db);
}

// A board's memory is also what its driver keeps: 80 GiB, not 79.
static void test_memory_is_that_of_the_board(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    put(db, "DCGM_FI_DEV_FB_USED", "0", "", 1331);
    put(db, "DCGM_FI_DEV_FB_FREE", "0", "", 79965);
    block_has(db, 1000, "1.3/79 GiB");
    put(db, "DCGM_FI_DEV_FB_RESERVED", "0", "", 624);
    block_has(db, 1000, "1.3/80 GiB");
    tsdb_free(db);
}

static void test_names_of_dcgm_exporter_4_9(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    put(db, "DCGM_FI_DEV_FB_USED_BYTES", "0", "", 1331 * 1048576.0);
    put(db, "DCGM_FI_DEV_FB_FREE_BYTES", "0", "", 79965 * 1048576.0);
    put(db, "DCGM_FI_DEV_GPU_UTIL_RATIO", "0", "", 0.42);
    block_has(db, 1000, "1.3/79 GiB");
    block_has(db, 1000, "  42 %  1.3/79 GiB");
    tsdb_free(db);
}

static void example(struct tsdb *db, struct console_decisions *decisions)
{
    static struct hpa_metric_spec metric = {.has_average_value = true, .average_value = 20000};
    static const struct hpa_spec spec = {.ns = "default",
                                         .name = "intent-api",
                                         .target_kind = "Deployment",
                                         .target_name = "intent-api",
                                         .max_replicas = 8,
                                         .metrics = &metric,
                                         .n_metrics = 1};
    struct hpa_metric_result result = {.ok = true,
                                       .has_average_value = true,
                                       .average_value = 17250,
                                       .proposal = 4,
                                       .explanation =
                                           (char *)"average 17.25 of 2 pods (target 20)"};
    const struct hpa_decision d = {.current = 2,
                                   .desired = 4,
                                   .proposal = 4,
                                   .metrics = &result,
                                   .n_metrics = 1,
                                   .decided_ms = 0};
    console_decisions_record(decisions, &spec, &d);
    for (int i = 0; i < 12; i++) {
        char index[4];
        snprintf(index, sizeof(index), "%d", i);
        put(db, "DCGM_FI_DEV_GPU_UTIL", index, "", i == 9 ? 62 : 0);
        put(db, "DCGM_FI_DEV_FB_USED", index, "", 1024);
        put(db, "DCGM_FI_DEV_FB_FREE", index, "", 14336);
    }
    put(db, "DCGM_CUSTOM_PROCESS_MEM_USED", "9", "intent-api-66f7d99c55-vtw84", 1024);
}

static void assert_fits(const char *block, struct window w)
{
    size_t n = 0;
    for (struct gs_slice rest = gs_slice_of(block); rest.len; n++) {
        struct gs_slice line = gs_slice_cut(&rest, '\n');
        if (gs_columns_width(line) > w.columns)
            fail_msg("wider than %zu: " GS_SLICE_FMT, w.columns, GS_SLICE_ARG(line));
    }
    if (n > w.rows)
        fail_msg("%zu rows in a window of %zu", n, w.rows);
}

static void test_what_is_important_stays_in_small_windows(void **state)
{
    static const struct {
        struct window window;
        const char *parts[8];
    } cases[] = {
        {{30, 99},
         {"  GPU 0   Tesla T4  ", "  GPU 11  Tesla T4  ",
          "  HPA intent-api → Deployment/intent-api  17.25/20  2 → 4 replicas of 1..8, decided 1 s",
          "      average 17.25 of 2 pods (target 20)\n", "  Service: http://127.97.1.1\n",
          "export KUBECONFIG=", "short hint"}},
        {{14, 79},
         {"  GPU 9   Tesla T4", " more GPUs\n",
          "  HPA intent-api → Deployment/intent-api  17.25/20  2 → 4 replicas of 1..8\n",
          "      average 17.25", "export KUBECONFIG="}},
        {{16, 59},
         {"62 %  1.0/15 GiB  intent-ap", " more GPUs\n",
          "  HPA intent-api  17.25/20  2 → 4 replicas of 1..8\n", "http://127.97.1.1"}},
        {{8, 39},
         {"SIMULATED", "  GPU 9     62 %  1.0/15 GiB  intent-a…\n", "  … 10 more GPUs\n",
          "  Pods: no pods\n", "  HPA intent-…  17.25/20  2 → 4 of 1..8\n",
          "  Service: http://127.97.1.1\n"}},
        {{4, 29}, {"SIMULATED", "  Pods: ", "  HPA …  17.25/20  2 → 4 of …", "  … 12 GPUs\n"}},
        {{1, 12}, {"── gpuscale…\n"}},
    };
    struct tsdb *db = tsdb_new(NULL);
    struct console_decisions *decisions = console_decisions_new();
    example(db, decisions);
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_FREE char *block = render(db, decisions, 1000, cases[i].window);
        assert_fits(block, cases[i].window);
        for (size_t k = 0; cases[i].parts[k]; k++)
            if (!strstr(block, cases[i].parts[k]))
                fail_msg("no \"%s\" in %zux%zu:\n%s", cases[i].parts[k], cases[i].window.columns,
                         cases[i].window.rows, block);
    }
    console_decisions_free(decisions);
    tsdb_free(db);
}

static void test_no_window_is_too_small(void **state)
{
    struct tsdb *db = tsdb_new(NULL);
    struct console_decisions *decisions = console_decisions_new();
    example(db, decisions);
    for (size_t rows = 1; rows < 28; rows += 3)
        for (size_t columns = 1; columns < 130; columns += 4) {
            const struct window w = {rows, columns};
            GS_AUTO_FREE char *block = render(db, decisions, 1000, w);
            assert_fits(block, w);
        }
    console_decisions_free(decisions);
    tsdb_free(db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_gpus_in_use_count),
        cmocka_unit_test(test_gpus_without_data_are_not_hidden),
        cmocka_unit_test(test_gpus_of_several_nodes_have_their_names),
        cmocka_unit_test(test_pools_have_a_line_each),
        cmocka_unit_test(test_memory_is_that_of_the_board),
        cmocka_unit_test(test_names_of_dcgm_exporter_4_9),
        cmocka_unit_test(test_what_is_important_stays_in_small_windows),
        cmocka_unit_test(test_no_window_is_too_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
