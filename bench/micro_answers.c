// SPDX-License-Identifier: Apache-2.0
// Answers of the engine with many series as JSON: an instant vector, and a range of 60 steps.
#include "micro.h"

#include "base/mem.h"
#include "engine/api/api_private.h"

#include <stdio.h>

enum { GPUS = 8, NODES = 500, METRICS = 5, LABELS = 13, STEPS = 60 };
#define LAST_MS INT64_C(1700000000123)

static void fill_series(struct metrics_label labels[LABELS], char texts[LABELS][64], int metric,
                        int gpu)
{
    static const char *const metrics[METRICS] = {"SM_CLOCK", "MEM_CLOCK", "POWER_USAGE", "GPU_UTIL",
                                                 "PIPE_TENSOR_ACTIVE"};
    int node = gpu / GPUS, index = gpu % GPUS;
    size_t n = 0;
#define LABEL(key, ...)                                                                            \
    snprintf(texts[n], sizeof(texts[n]), __VA_ARGS__);                                             \
    labels[n] = (struct metrics_label){GS_SLICE(key), gs_slice_of(texts[n])};                      \
    n++
    LABEL("__name__", "DCGM_FI_DEV_%s", metrics[metric]);
    LABEL("DCGM_FI_DRIVER_VERSION", "550.54.15");
    LABEL("Hostname", "node-%04d", node);
    LABEL("UUID", "GPU-%08x-52ab-4f2e-9c4e-%012x", gpu, node);
    LABEL("container", "inference");
    LABEL("device", "nvidia%d", index);
    LABEL("gpu", "%d", index);
    LABEL("instance", "10.0.%d.%d:9400", node / 256, node % 256);
    LABEL("job", "gpu");
    LABEL("modelName", "NVIDIA H100 80GB HBM3");
    LABEL("namespace", "team-%d", node % 20);
    LABEL("pci_bus_id", "00000000:%02X:00.0", index);
    LABEL("pod", "inference-%d-%d", node, index);
#undef LABEL
}

static double value_of(int metric, int gpu, int step)
{
    unsigned random = ((unsigned)gpu * 7919 + (unsigned)step) * UINT32_C(2654435761) >> 8;
    switch (metric) {
    case 0:
        return 210.0 * (1 + gpu % 9);
    case 1:
        return 1593;
    case 2:
        return 60 + (double)(random % 640000) / 1000;
    case 3:
        return random % 101;
    default:
        return (double)(random % 1000000) / 1e6;
    }
}

// The series of a node are neighbours, as after a scrape.
static void fill_store(struct tsdb *db)
{
    struct metrics_label labels[LABELS];
    char texts[LABELS][64];
    for (int node = 0; node < NODES; node++)
        for (int metric = 0; metric < METRICS; metric++)
            for (int gpu = node * GPUS; gpu < (node + 1) * GPUS; gpu++) {
                fill_series(labels, texts, metric, gpu);
                for (int step = 0; step < STEPS; step++)
                    bench_check(tsdb_append(db, labels, LABELS,
                                            LAST_MS - (STEPS - 1 - step) * INT64_C(1000),
                                            value_of(metric, gpu, step)));
            }
}

struct answer {
    struct promql_result result;
    struct gs_buf out;
};

static void write_answer(void *arg)
{
    struct answer *a = arg;
    bool truncated;
    gs_buf_clear(&a->out);
    engine_api_write_result(&a->out, &a->result, 0, NULL, NULL, &truncated);
}

static void measure_answer(const char *what, struct answer *a, double seconds)
{
    char figure[80];
    double each = micro_time(seconds, write_answer, a);
    snprintf(figure, sizeof(figure), "%.2f ms, %.0f ns a series (%zu series, %.1f MB)", each * 1e3,
             each * 1e9 / (double)a->result.matrix.n, a->result.matrix.n, (double)a->out.len / 1e6);
    micro_row(what, figure, NULL, true);
    gs_buf_finish(&a->out);
    promql_result_finish(&a->result);
}

void micro_answers(double seconds)
{
    struct tsdb *db = tsdb_new(NULL);
    struct promql_engine *e = promql_engine_new(db, NULL);
    struct promql_expr *all, *some;
    struct answer a = {0};
    fill_store(db);
    bench_check(promql_parse(GS_SLICE("{job=\"gpu\"}"), &all));
    bench_check(promql_parse(GS_SLICE("{job=\"gpu\",namespace=\"team-7\"}"), &some));
    bench_check(promql_instant(e, all, LAST_MS, &a.result));
    measure_answer("engine: write an instant vector", &a, seconds);
    bench_check(
        promql_range(e, some, LAST_MS - (STEPS - 1) * INT64_C(1000), LAST_MS, 1000, &a.result));
    measure_answer("engine: write a range of 60 steps", &a, seconds);
    promql_expr_free(all);
    promql_expr_free(some);
    promql_engine_free(e);
    tsdb_free(db);
}
