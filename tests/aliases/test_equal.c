// SPDX-License-Identifier: Apache-2.0
// Queries of dashboards, rules and autoscalers have equal results on a page of dcgm-exporter 4.8,
// on one of 4.9, and in a fleet with both: as written with aliases, and after a conversion.
#include "aliases/aliases.h"

#include "base/mem.h"
#include "promql/promql.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>

enum { GPUS = 4, SAMPLES = 61, STEP_S = 10 };
#define END_MS ((int64_t)(SAMPLES - 1) * STEP_S * 1000)

// The values of 4.8 of one GPU at one time. Those of 4.9 are the same measurement: whole MiB and
// joules, so that no rounding differs.
static const struct {
    const char *old, *new;
    double factor, first, by, by_gpu;
} metrics[] = {
    {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO", 0.01, 10, 1, 7},
    {"DCGM_FI_DEV_MEM_COPY_UTIL", "DCGM_FI_DEV_MEMORY_UTIL_RATIO", 0.01, 3, 1, 2},
    {"DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS", 1, 40, 0.5, 3},
    {"DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_BOARD_POWER_WATTS", 1, 71.25, 2, 11},
    {"DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_SM_CLOCK_HERTZ", 1e6, 210, 15, 30},
    {"DCGM_FI_DEV_MEM_CLOCK", "DCGM_FI_DEV_MEMORY_CLOCK_HERTZ", 1e6, 405, 1, 30},
    {"DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_USED_BYTES", 1048576, 1024, 64, 256},
    {"DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_FREE_BYTES", 1048576, 80000, -64, 256},
    {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", 1e-3, 5000,
     3000, 9000},
    {"DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR", 1, 0, 0, 31},
    {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_TENSOR_UTIL_RATIO", 1, 0.1, 0.01, 0.05},
    {"DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", 1, 0.2, 0.01, 0.05},
    {"DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_PROF_DRAM_UTIL_RATIO", 1, 0.3, 0.01, 0.05},
    {"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND",
     1024000, 12.5, 0.5, 1},
};

struct store {
    struct tsdb *db;
    struct promql_engine *engine;
};

static void put(struct tsdb *db, size_t metric, int gpu, int i, bool new)
{
    char uuid[32], number[16], pod[32], node[32];
    snprintf(uuid, sizeof(uuid), "GPU-%d", gpu);
    snprintf(number, sizeof(number), "%d", gpu % 2);
    snprintf(pod, sizeof(pod), "pod-%d", gpu / 2);
    snprintf(node, sizeof(node), "node%d:9400", gpu / 2);
    const struct metrics_label labels[] = {
        {GS_SLICE("__name__"), gs_slice_of(new ? metrics[metric].new : metrics[metric].old)},
        {GS_SLICE("UUID"), gs_slice_of(uuid)},
        {GS_SLICE("gpu"), gs_slice_of(number)},
        {GS_SLICE("pod"), gs_slice_of(pod)},
        {GS_SLICE("exported_container"), GS_SLICE("vision-api")},
        {GS_SLICE("instance"), gs_slice_of(node)},
        {gs_slice_of(new ? "DCGM_FI_SYSTEM_DRIVER_VERSION" : "DCGM_FI_DRIVER_VERSION"),
         GS_SLICE("580.1")},
    };
    double v = metrics[metric].first + metrics[metric].by * i + metrics[metric].by_gpu * gpu;
    assert_ok(tsdb_append(db, labels, GS_ARRAY_LEN(labels), (int64_t)i * STEP_S * 1000,
                          new ? v *metrics[metric].factor : v));
}

// GPUs from first_new on have the names of 4.9, those up to last_old those of 4.8.
static void open_store(struct store *s, int last_old, int first_new, bool aliases)
{
    s->db = tsdb_new(NULL);
    s->engine = promql_engine_new(s->db, NULL);
    if (aliases)
        promql_engine_set_substitute(s->engine, aliases_substitute, s->db);
    for (size_t m = 0; m < GS_ARRAY_LEN(metrics); m++)
        for (int gpu = 0; gpu < GPUS; gpu++)
            for (int i = 0; i < SAMPLES; i++) {
                if (gpu <= last_old)
                    put(s->db, m, gpu, i, false);
                if (gpu >= first_new)
                    put(s->db, m, gpu, i, true);
            }
}

static void close_store(struct store *s)
{
    promql_engine_free(s->engine);
    tsdb_free(s->db);
}

// --- results as sorted lines of labels and values ---

struct row {
    char *labels;
    double *v;
    size_t n;
};
struct rows {
    struct row *items;
    size_t len;
};

static int compare_rows(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    return strcmp(x->labels, y->labels);
}

static bool is_ignored(struct gs_slice label, bool names)
{
    return gs_slice_ends(label, "DRIVER_VERSION") || (!names && gs_slice_eq_str(label, "__name__"));
}

static struct rows run(const struct store *s, const char *query, bool names)
{
    struct promql_expr *x = NULL;
    struct promql_result r = {0};
    assert_ok(promql_parse(gs_slice_of(query), &x));
    assert_ok(promql_range(s->engine, x, END_MS - 60000, END_MS, 30000, &r));
    struct rows out = {gs_alloc_array(r.matrix.n + 1, sizeof(*out.items)), r.matrix.n};
    for (size_t i = 0; i < out.len; i++) {
        GS_AUTO_BUF struct gs_buf labels = {0};
        struct tsdb_labels l = r.matrix.series[i].labels;
        for (size_t k = 0; k < tsdb_labels_len(l); k++) {
            struct metrics_label label = promql_label_at(&r, l, k);
            if (!is_ignored(label.name, names))
                gs_buf_addf(&labels, GS_SLICE_FMT "=" GS_SLICE_FMT ",", GS_SLICE_ARG(label.name),
                            GS_SLICE_ARG(label.value));
        }
        out.items[i] = (struct row){gs_buf_take(&labels), NULL, r.n_steps};
        out.items[i].v = gs_alloc_array(r.n_steps, sizeof(double));
        memcpy(out.items[i].v, r.matrix.series[i].v, r.n_steps * sizeof(double));
    }
    qsort(out.items, out.len, sizeof(*out.items), compare_rows);
    promql_result_finish(&r);
    promql_expr_free(x);
    return out;
}

static void rows_finish(struct rows *r)
{
    for (size_t i = 0; i < r->len; i++) {
        free(r->items[i].labels);
        free(r->items[i].v);
    }
    free(r->items);
}

static bool is_close(double a, double b)
{
    return promql_absent(a) || promql_absent(b) ? promql_absent(a) == promql_absent(b)
                                                : fabs(a - b) <= 1e-9 * fabs(a);
}

static void assert_equal_rows(const struct rows *a, const struct rows *b, const char *query)
{
    if (a->len != b->len)
        fail_msg("%s: %zu and %zu series", query, a->len, b->len);
    for (size_t i = 0; i < a->len; i++) {
        assert_string_equal(a->items[i].labels, b->items[i].labels);
        for (size_t k = 0; k < a->items[i].n; k++)
            if (!is_close(a->items[i].v[k], b->items[i].v[k]))
                fail_msg("%s: %.17g and %.17g", query, a->items[i].v[k], b->items[i].v[k]);
    }
}

static void compare(const struct store *a, const char *query_a, const struct store *b,
                    const char *query_b, bool names)
{
    struct rows x = run(a, query_a, names), y = run(b, query_b, names);
    assert_equal_rows(&x, &y, query_a);
    rows_finish(&x);
    rows_finish(&y);
}

// --- queries ---

// Of the dashboard 12239 and of NVIDIA's own, of the rules and adapters of the guides, and of this
// project's dashboards and alerts. $ is a variable of Grafana.
static const char *const queries[] = {
    "DCGM_FI_DEV_GPU_TEMP{instance=~\".+\", gpu=~\"0|1\"}",
    "avg(DCGM_FI_DEV_GPU_TEMP{instance=~\".+\", gpu=~\"0|1\"})",
    "DCGM_FI_DEV_POWER_USAGE{instance=~\".+\", gpu=~\"0|1\"}",
    "sum(DCGM_FI_DEV_POWER_USAGE{instance=~\".+\", gpu=~\"0|1\"})",
    "DCGM_FI_DEV_SM_CLOCK{instance=~\".+\", gpu=~\"0|1\"} * 1000000",
    "DCGM_FI_DEV_GPU_UTIL{instance=~\".+\", gpu=~\"0|1\"}",
    "DCGM_FI_DEV_FB_USED{instance=~\".+\", gpu=~\"0|1\"}",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{instance=~\".+\", gpu=~\"0|1\"}",
    "ceil(avg(avg_over_time(DCGM_FI_DEV_GPU_UTIL{exported_container=\"vision-api\"}[60s]))) > 30",
    "avg(round(avg_over_time(DCGM_FI_DEV_GPU_UTIL{pod!=\"\"}[1m]) * 100) / 100)",
    "max by (pod) (max_over_time(DCGM_FI_DEV_GPU_UTIL{exported_container=\"vision-api\"}[60s]))",
    "avg by (instance, exported_container) (round(avg_over_time(DCGM_FI_DEV_GPU_UTIL[1m])))",
    "min by (instance, exported_container) (round(min_over_time(DCGM_FI_DEV_GPU_UTIL[1m])))",
    "max by (instance, exported_container) (round(max_over_time(DCGM_FI_DEV_GPU_UTIL[1m])))",
    "avg(DCGM_FI_DEV_GPU_UTIL{instance=~\"node0:9400|node1:9400\"}) by (instance)",
    "sum(DCGM_FI_DEV_FB_USED{instance=~\"node0:9400|node1:9400\"}) by (instance)",
    "avg by (pod) (DCGM_FI_DEV_GPU_UTIL)",
    "sum by (pod) (DCGM_FI_DEV_FB_USED)",
    "sum by (pod) (DCGM_FI_DEV_FB_USED) / sum by (pod) (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)",
    "100 * DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE) > 5",
    "sum(rate(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION[5m])) / 1000",
    "increase(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION[5m]) / 3600000",
    "DCGM_FI_DEV_XID_ERRORS > 0",
    "topk(2, DCGM_FI_DEV_GPU_UTIL)",
    "count(DCGM_FI_DEV_GPU_UTIL < 30) or vector(0)",
    "quantile_over_time(0.9, DCGM_FI_DEV_GPU_UTIL[5m])",
    "predict_linear(DCGM_FI_DEV_FB_FREE[5m], 3600) < 100000",
    "deriv(DCGM_FI_DEV_GPU_TEMP[2m])",
    "stddev_over_time(DCGM_FI_DEV_SM_CLOCK[2m])",
    "stdvar_over_time(DCGM_FI_DEV_GPU_UTIL[2m])",
    "count_over_time(DCGM_FI_DEV_GPU_UTIL[2m])",
    "max_over_time(avg by (pod) (DCGM_FI_DEV_GPU_UTIL)[2m:30s])",
    "DCGM_FI_DEV_GPU_UTIL - DCGM_FI_DEV_GPU_UTIL offset 1m",
    "DCGM_FI_DEV_GPU_UTIL * on (UUID) group_left DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_GPU_TEMP * on (UUID) group_right DCGM_FI_DEV_FB_USED",
    "avg(DCGM_FI_PROF_GR_ENGINE_ACTIVE) + avg(DCGM_FI_PROF_DRAM_ACTIVE)",
    "sum by (instance) (DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL)",
    "absent(DCGM_FI_DEV_GPU_UTIL) or absent(DCGM_FI_DEV_GPU_UTIL{gpu=\"9\"})",
    "timestamp(DCGM_FI_DEV_GPU_UTIL)",
    "min(DCGM_FI_DEV_MEM_CLOCK) - min(DCGM_FI_DEV_MEM_COPY_UTIL)",
};

static void test_aliases_give_equal_results(void **state)
{
    (void)state;
    struct store old, new, mixed, twice;
    open_store(&old, GPUS - 1, GPUS, false);
    open_store(&new, -1, 0, true);
    open_store(&mixed, 1, 2, true);
    open_store(&twice, 2, 1, true); // two GPUs have series with both names
    for (size_t i = 0; i < GS_ARRAY_LEN(queries); i++) {
        compare(&old, queries[i], &new, queries[i], true);
        compare(&old, queries[i], &mixed, queries[i], true);
        compare(&old, queries[i], &twice, queries[i], true);
    }
    close_store(&old);
    close_store(&new);
    close_store(&mixed);
    close_store(&twice);
}

static char *converted(const char *query, enum aliases_release to)
{
    GS_AUTO_BUF struct gs_buf text = {0}, changes = {0}, problem = {0};
    assert_ok(aliases_convert(gs_slice_of(query), to, &text, &changes, &problem));
    if (problem.len)
        fail_msg("%s", problem.data);
    return text.len ? gs_buf_take(&text) : gs_strdup(query);
}

static void test_conversions_give_equal_results(void **state)
{
    (void)state;
    struct store old, new;
    open_store(&old, GPUS - 1, GPUS, false);
    open_store(&new, -1, 0, false);
    for (size_t i = 0; i < GS_ARRAY_LEN(queries); i++) {
        GS_AUTO_FREE char *to_new = converted(queries[i], ALIASES_4_9);
        GS_AUTO_FREE char *to_old = converted(to_new, ALIASES_4_8);
        assert_string_not_equal(to_new, queries[i]);
        compare(&old, queries[i], &new, to_new, false);
        compare(&old, queries[i], &old, to_old, false);
    }
    close_store(&old);
    close_store(&new);
}

static void test_new_names_read_old_series(void **state)
{
    (void)state;
    struct store old, new;
    open_store(&old, GPUS - 1, GPUS, true);
    open_store(&new, -1, 0, false);
    for (size_t i = 0; i < GS_ARRAY_LEN(queries); i++) {
        GS_AUTO_FREE char *query = converted(queries[i], ALIASES_4_9);
        compare(&new, query, &old, query, true);
    }
    close_store(&old);
    close_store(&new);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_aliases_give_equal_results),
        cmocka_unit_test(test_conversions_give_equal_results),
        cmocka_unit_test(test_new_names_read_old_series),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
