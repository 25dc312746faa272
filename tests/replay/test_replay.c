// SPDX-License-Identifier: Apache-2.0
// Scenarios with results that can be computed by hand, and errors in scenarios.
#include "base/file.h"
#include "base/mem.h"
#include "replay/replay.h"
#include "replay/wait_times.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static struct gs_error *load_text(const char *text, struct replay_scenario **ret)
{
    char path[] = "/tmp/gpuscale-scenario-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_ok(gs_file_write_atomic(path, 0600, gs_slice_of(text)));
    struct gs_error *err = replay_scenario_load(path, ret);
    unlink(path);
    return err;
}

#define HPA(metric_spec)                                                                           \
    "hpa: {apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, spec: {minReplicas: 1, "     \
    "maxReplicas: 10, metrics: [" metric_spec "]}}\n"
#define UTILIZATION                                                                                \
    "{type: Pods, pods: {metric: {name: util}, target: {type: AverageValue, averageValue: 50}}}"
#define QUEUE                                                                                      \
    "{type: External, external: {metric: {name: q}, target: {type: AverageValue, averageValue: "   \
    "10}}}"

static const struct replay_row *row_at(const struct replay_result *r, int64_t seconds)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->rows[i].t_ms == seconds * 1000)
            return &r->rows[i];
    fail_msg("no pass at %lld s", (long long)seconds);
    return NULL;
}

// One replica uses 60 of 100, target 50: ceil(60 / 50) = 2 replicas at 30 %. They stay, because one
// replica would be above the target.
static void test_the_formula_decides(void **state)
{
    struct replay_scenario *s;
    struct replay_result r;
    assert_ok(
        load_text(HPA(UTILIZATION) "duration: 10m\ndelay: 0s\n"
                                   "workload: {capacity: 100, startup: 20s, load: [[0s, 60]]}\n",
                  &s));
    replay_run(s, &r);
    assert_int_equal(row_at(&r, 0)->desired, 2);
    assert_int_equal(row_at(&r, 0)->ready, 1);
    assert_int_equal(row_at(&r, 15)->ready, 1); // 20 s until it is ready
    assert_int_equal(row_at(&r, 30)->ready, 2);
    assert_true(row_at(&r, 30)->utilization == 30);
    assert_int_equal(r.rows[r.n - 1].desired, 2);
    assert_int_equal(r.summary.ups, 1);
    assert_int_equal(r.summary.downs, 0);
    // Two replicas of one GPU for ten minutes.
    assert_true(fabs(r.summary.gpu_hours - 2 * 600 / 3600.0) < 0.01);
    assert_true(r.summary.served == r.summary.offered && r.summary.queue_max == 0);
    replay_result_finish(&r);
    replay_scenario_free(s);
    (void)state;
}

// Nodes of two GPUs: the third replica waits for its node.
static void test_replicas_wait_for_nodes(void **state)
{
    struct replay_scenario *s;
    struct replay_result r;
    assert_ok(load_text(
        HPA(UTILIZATION) "duration: 33m\ndelay: 0s\nprice: 2\n"
                         "workload: {capacity: 100, startup: 10s, load: [[0s, 150], [20m, 150], "
                         "[20m, 0]]}\n"
                         "nodes: {gpusPerNode: 2, min: 1, max: 3, provision: 60s, idle: 5m}\n",
        &s));
    replay_run(s, &r);
    assert_int_equal(row_at(&r, 15)->nodes, 1);
    assert_true(row_at(&r, 30)->desired > 2 && row_at(&r, 30)->running == 2);
    assert_int_equal(row_at(&r, 90)->nodes, 2);
    assert_true(r.summary.pending_s > 0);
    assert_true(r.summary.queue_max > 0 && r.summary.over_level_s > 0);
    // Back at one replica five minutes after the load, its node alone after five more.
    assert_int_equal(r.rows[r.n - 1].desired, 1);
    assert_int_equal(r.rows[r.n - 1].nodes, 1);
    assert_true(r.summary.node_gpu_hours > r.summary.gpu_hours);
    assert_true(r.summary.price == 2 * r.summary.node_gpu_hours);
    replay_result_finish(&r);
    replay_scenario_free(s);
    (void)state;
}

// A recorded metric is independent of the replicas; with recorded replicas it depends on them.
static void test_a_recorded_metric_leads(void **state)
{
    struct replay_scenario *s;
    struct replay_result r;
    assert_ok(
        load_text(HPA(UTILIZATION) "duration: 5m\ndelay: 0s\n"
                                   "metrics: {util: {series: [[0s, 50], [1m, 50], [1m, 100]]}}\n"
                                   "workload: {startup: 0s}\n",
                  &s));
    replay_run(s, &r);
    assert_int_equal(row_at(&r, 45)->desired, 1);
    assert_int_equal(row_at(&r, 60)->desired, 2);
    assert_int_equal(r.rows[r.n - 1].desired, 10); // it stays at twice the target
    replay_result_finish(&r);
    replay_scenario_free(s);
    assert_ok(
        load_text(HPA(UTILIZATION) "duration: 5m\ndelay: 0s\n"
                                   "metrics: {util: {series: [[0s, 75]], replicas: [[0s, 2]]}}\n"
                                   "workload: {startup: 0s}\n",
                  &s));
    replay_run(s, &r);
    assert_int_equal(r.rows[r.n - 1].desired, 3); // 150 in all over 50
    replay_result_finish(&r);
    replay_scenario_free(s);
    (void)state;
}

static void test_a_queue_scales(void **state)
{
    struct replay_scenario *s;
    struct replay_result r;
    assert_ok(load_text(HPA(QUEUE) "duration: 20m\nmetrics: {q: queue}\n"
                                   "workload: {capacity: 10, startup: 5s, load: [[0s, 35]]}\n",
                        &s));
    replay_run(s, &r);
    assert_true(r.summary.max_replicas >= 4);
    assert_true(r.summary.served > 0.95 * r.summary.offered);
    replay_result_finish(&r);
    replay_scenario_free(s);
    (void)state;
}

static void test_settings_change_it(void **state)
{
    struct replay_scenario *s;
    assert_ok(load_text(HPA(UTILIZATION) "workload: {capacity: 100, load: [[0s, 60]]}\n", &s));
    assert_ok(replay_scenario_set(s, "target", "20"));
    assert_int_equal(s->spec.metrics[0].average_value, 20000);
    assert_ok(replay_scenario_set(s, "max", "4"));
    assert_ok(replay_scenario_set(s, "downscaleWindow", "90s"));
    assert_int_equal(s->controller.downscale_window_ms, 90000);
    assert_error(replay_scenario_set(s, "max", "0"), GS_EINVAL, "max cannot be 0");
    assert_error(replay_scenario_set(s, "colour", "0"), GS_EINVAL, "\"colour\" cannot be set");
    assert_error(replay_scenario_set(s, "sync", "soon"), GS_EINVAL, "sync");
    replay_scenario_free(s);
    (void)state;
}

static void test_wrong_scenarios_name_the_place(void **state)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"duration: 1h\n", "a scenario needs \"hpa\""},
        {HPA(UTILIZATION) "durration: 1h\n", ":2:"},
        {HPA(UTILIZATION) "workload: {load: [[5m, 1], [1m, 2]]}\n", "in the order of their times"},
        {HPA(UTILIZATION) "workload: {load: [[5m]]}\n", "a point is [TIME, VALUE]"},
        {HPA(UTILIZATION) "metrics: {other: load}\n", "has no metric \"other\""},
        {HPA(UTILIZATION) "metrics: {util: lod}\n", "want utilization, load, queue"},
        {HPA(UTILIZATION) "workload: {capacity: 0}\n", "workload.capacity"},
        {HPA(UTILIZATION) "workload: {gpusPerReplica: 4}\nnodes: {gpusPerNode: 2}\n",
         "fits on no node"},
        {"hpa: {apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, spec: {maxReplicas: "
         "0}}\n",
         "spec.maxReplicas"},
        {"hpa: nowhere.yaml\n", "nowhere.yaml"},
        {HPA(UTILIZATION) "prices: {gpu: {A: 1}}\n", "prices have no field \"gpu\""},
        {HPA(UTILIZATION) "prices: {gpus: {A: x}}\n", "gpus: A: want the price of an hour"},
        {HPA(UTILIZATION) "prices: {instances: {a: {gpus: 0, price: 1}}}\n", "instances: a: want"},
        {HPA(UTILIZATION) "prices: {gpus: {A: 1}}\nworkload: {gpu: B}\n", "prices exist for: A"},
        {HPA(UTILIZATION) "workload: {gpu: B}\n",
         "no price for the GPU \"B\"; prices exist for: none"},
        {HPA(UTILIZATION) "prices: none.yaml\n", "none.yaml"},
        {"[]\n", "one YAML mapping"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct replay_scenario *s = NULL;
        GS_AUTO_ERROR struct gs_error *err = load_text(cases[i].text, &s);
        if (!err || !strstr(gs_error_message(err), cases[i].want))
            fail_msg("%s\nwant: %s\ngot:  %s", cases[i].text, cases[i].want,
                     err ? gs_error_message(err) : "no error");
    }
    (void)state;
}

// A user scales the target to 6, of which 30 % are too few. Two replicas fail. Without metrics for
// two minutes, nothing is scaled.
static void test_things_happen(void **state)
{
    struct replay_scenario *s;
    struct replay_result r;
    assert_ok(load_text(
        HPA(UTILIZATION) "duration: 30m\ndelay: 0s\nreplicas: 2\n"
                         "workload: {capacity: 100, startup: 20s, load: [[0s, 100], [20m, 100], "
                         "[20m, 300]]}\n"
                         "events: [{at: 1m, scale: 6}, {at: 10m, lose: 2}, {at: 20m, noMetrics: "
                         "true, for: 2m}]\n",
        &s));
    replay_run(s, &r);
    assert_int_equal(row_at(&r, 45)->desired, 2);
    assert_int_equal(row_at(&r, 75)->running, 6);
    // The pass at 75 s, when the new ones are not ready, still recommends six: five minutes of it.
    assert_int_equal(row_at(&r, 375)->desired, 6);
    assert_int_equal(row_at(&r, 390)->desired, 2);
    assert_int_equal(row_at(&r, 600)->ready, 0); // both are new
    assert_int_equal(row_at(&r, 630)->ready, 2);
    assert_int_equal(row_at(&r, 1305)->desired, 2); // no metrics
    assert_true(row_at(&r, 1320)->desired > 2);
    assert_true(r.summary.over_target_s > 0);
    replay_result_finish(&r);
    replay_scenario_free(s);
    (void)state;
}

// Skipping seconds changes only the rounding: a load that is never a straight line for two seconds
// gives the same result as a straight line.
static void test_quiet_seconds_are_served_too(void **state)
{
    GS_AUTO_BUF struct gs_buf dense = {0};
    struct replay_scenario *s[2];
    struct replay_result r[2];
    gs_buf_add_str(&dense, HPA(UTILIZATION) "duration: 20m\nworkload: {capacity: 10, load: [");
    for (int i = 0; i <= 1200; i++)
        gs_buf_addf(&dense, "%s[%ds, %.10g]", i ? ", " : "", i, 2 + i * 0.05);
    gs_buf_add_str(&dense, "]}\n");
    assert_ok(load_text(dense.data, &s[0]));
    assert_ok(load_text(HPA(UTILIZATION) "duration: 20m\n"
                                         "workload: {capacity: 10, load: [[0s, 2], [1200s, 62]]}\n",
                        &s[1]));
    for (int i = 0; i < 2; i++)
        replay_run(s[i], &r[i]);
    assert_int_equal(r[0].n, r[1].n);
    for (size_t i = 0; i < r[0].n; i++) {
        assert_int_equal(r[0].rows[i].desired, r[1].rows[i].desired);
        assert_true(fabs(r[0].rows[i].utilization - r[1].rows[i].utilization) < 1e-6);
    }
    assert_true(fabs(r[0].summary.served - r[1].summary.served) < 1e-6 * r[0].summary.served);
    assert_true(fabs(r[0].summary.gpu_hours - r[1].summary.gpu_hours) < 1e-9);
    assert_true(r[0].summary.over_level_s == r[1].summary.over_level_s);
    for (int i = 0; i < 2; i++) {
        replay_result_finish(&r[i]);
        replay_scenario_free(s[i]);
    }
    (void)state;
}

// A load that restarts in the middle of its line falls immediately, without a slope.
static void test_a_repeated_load_starts_over(void **state)
{
    struct replay_scenario *s;
    struct replay_summary sum;
    assert_ok(
        load_text(HPA(UTILIZATION) "duration: 1h\n"
                                   "workload: {capacity: 1000, load: [[0s, 0], [2000s, 200]], "
                                   "repeat: 1000s}\n",
                  &s));
    replay_summarize(s, &sum);
    double wanted = 0;
    for (int t = 1; t <= 3600; t++)
        wanted += t % 1000 * 0.1;
    assert_true(fabs(sum.offered - wanted) < 1e-6 * wanted);
    replay_scenario_free(s);
    (void)state;
}

// Work of 100 per second arrives for ten seconds, and 50 per second are served: the last work waits
// for 10 s, half of the work for at most 5 s.
static void test_waits_are_those_of_a_queue(void **state)
{
    struct replay_waits w = {0};
    double queue = 0;
    for (int64_t t = 1; t <= 20; t++) {
        double load = t <= 10 ? 100 : 0;
        queue += load - 50;
        replay_waits_add(&w, t, load);
        replay_waits_serve(&w, t, 50);
    }
    assert_true(queue == 0);
    assert_true(replay_waits_quantile(&w, 1) == 10);
    assert_true(replay_waits_quantile(&w, 0.5) == 5);
    assert_true(replay_waits_quantile(&w, 0) == 0);
    replay_waits_serve_at_once(&w, 9000);
    assert_true(replay_waits_quantile(&w, 0.5) == 0);
    assert_true(replay_waits_quantile(&w, 0.99) ==
                9); // the 100 of 10,000 with the longest wait begin there
    replay_waits_finish(&w);
    assert_true(replay_waits_quantile(&w, 0.5) == 0);
    (void)state;
}

// A terminating replica keeps its GPUs and its node for the drain time.
static void test_replicas_drain(void **state)
{
    static const char *const drains[] = {"0s", "4m"};
    struct replay_summary sum[2];
    for (int i = 0; i < 2; i++) {
        struct replay_scenario *s;
        GS_AUTO_FREE char *text = gs_format(
            HPA(UTILIZATION) "duration: 1h\ndelay: 0s\nreplicas: 4\n"
                             "controller: {downscaleWindow: 5m}\n"
                             "workload: {capacity: 100, startup: 10s, drain: %s, load: [[0s, "
                             "50]]}\n"
                             "nodes: {gpusPerNode: 2, min: 1, max: 3, idle: 0s}\nprice: 3\n",
            drains[i]);
        assert_ok(load_text(text, &s));
        replay_summarize(s, &sum[i]);
        replay_scenario_free(s);
    }
    assert_int_equal(sum[0].max_replicas, 4);
    assert_int_equal(sum[0].min_replicas, 1);
    assert_int_equal(sum[0].nodes_removed, 1);
    assert_true(sum[0].drain_gpu_hours == 0);
    // Three replicas of one GPU for four minutes, and the node that held two of them.
    assert_true(fabs(sum[1].drain_gpu_hours - 3 * 240 / 3600.0) < 0.002);
    assert_true(fabs(sum[1].gpu_hours - sum[0].gpu_hours - 3 * 240 / 3600.0) < 0.002);
    assert_true(fabs(sum[1].node_gpu_hours - sum[0].node_gpu_hours - 2 * 240 / 3600.0) < 0.002);
    assert_true(fabs(sum[1].price - 3 * sum[1].node_gpu_hours) < 1e-9);
    (void)state;
}

#define PRICES                                                                                     \
    "prices: {currency: EUR, gpus: {H100: 2.5, A100: 1}, instances: {big: {gpus: 8, price: 16}, "  \
    "small: {gpus: 2, price: 5}}}\n"

static void test_prices_come_from_a_table(void **state)
{
    struct replay_scenario *s;
    struct replay_summary sum;
    assert_ok(load_text(HPA(UTILIZATION) "duration: 1h\n" PRICES
                                         "workload: {capacity: 100, gpu: H100, load: [[0s, 50]]}\n",
                        &s));
    replay_summarize(s, &sum);
    assert_true(sum.gpu_hours > 0 && fabs(sum.price - 2.5 * sum.gpu_hours) < 1e-9);
    assert_string_equal(replay_currency(s), "EUR");
    assert_ok(replay_scenario_set(s, "gpu", "A100"));
    replay_summarize(s, &sum);
    assert_true(fabs(sum.price - sum.gpu_hours) < 1e-9);
    // The price of a node does not depend on the number of GPUs in use.
    assert_ok(replay_scenario_set(s, "instance", "big"));
    replay_summarize(s, &sum);
    assert_true(fabs(sum.node_hours - 1) < 1e-6 && fabs(sum.price - 16) < 1e-4);
    assert_true(fabs(sum.node_gpu_hours - 8) < 1e-5);
    assert_error(replay_scenario_set(s, "instance", "huge"), GS_ENOTFOUND,
                 "no price for the instance \"huge\"; prices exist for: big, small");
    replay_scenario_free(s);
    (void)state;
}

// Parallel runs give the same results as sequential runs, in the same order.
static void test_many_at_once_are_the_same(void **state)
{
    enum { N = 9 };
    struct replay_scenario *s[N];
    struct replay_summary all[N];
    for (int i = 0; i < N; i++) {
        GS_AUTO_FREE char *target = gs_format("%d", 10 + 10 * i);
        assert_ok(load_text(HPA(UTILIZATION) "duration: 2h\nworkload: {capacity: 50, load: [[0s, "
                                             "20], [1h, 300], [2h, 10]]}\n",
                            &s[i]));
        assert_ok(replay_scenario_set(s[i], "target", target));
    }
    replay_summarize_all((const struct replay_scenario *const *)s, N, all);
    for (int i = 0; i < N; i++) {
        struct replay_summary one;
        replay_summarize(s[i], &one);
        assert_true(one.gpu_hours == all[i].gpu_hours && one.ups == all[i].ups);
        assert_true(one.wait_s == all[i].wait_s && one.served == all[i].served);
        replay_scenario_free(s[i]);
    }
    assert_true(all[0].gpu_hours > all[N - 1].gpu_hours);
    (void)state;
}

static void test_a_comparison_has_all_figures(void **state)
{
    struct replay_scenario *s;
    struct replay_result r[2];
    GS_AUTO_BUF struct gs_buf table = {0};
    GS_AUTO_BUF struct gs_buf svg = {0};
    assert_ok(
        load_text("name: a <b> & c\n" HPA(UTILIZATION) "workload: {capacity: 100, load: [[0s, "
                                                       "150]]}\n",
                  &s));
    replay_run(s, &r[0]);
    assert_ok(replay_scenario_set(s, "target", "25"));
    replay_run(s, &r[1]);
    const struct replay_outcome shown[] = {{s, &r[0]}, {s, &r[1]}};
    replay_print_comparison(shown, 2, &table);
    assert_non_null(strstr(table.data, "GPU hours of the replicas"));
    assert_non_null(strstr(table.data, "wait of 99 % of the work, s"));
    assert_null(strstr(table.data, "GPU hours of the nodes")); // there are none
    replay_print_svg(shown, 2, &svg);
    assert_non_null(strstr(svg.data, "a &lt;b> &amp; c"));
    assert_null(strstr(svg.data, "nan"));
    CODEC_AUTO_JSON json_t *j = replay_comparison_json(shown, 2);
    assert_int_equal(json_array_size(j), 2);
    assert_true(json_number_value(codec_json_get(json_array_get(j, 1), "summary", "gpuHours",
                                                 NULL)) == r[1].summary.gpu_hours);
    for (int i = 0; i < 2; i++)
        replay_result_finish(&r[i]);
    replay_scenario_free(s);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_things_happen),
        cmocka_unit_test(test_quiet_seconds_are_served_too),
        cmocka_unit_test(test_the_formula_decides),
        cmocka_unit_test(test_replicas_wait_for_nodes),
        cmocka_unit_test(test_a_recorded_metric_leads),
        cmocka_unit_test(test_a_queue_scales),
        cmocka_unit_test(test_a_repeated_load_starts_over),
        cmocka_unit_test(test_waits_are_those_of_a_queue),
        cmocka_unit_test(test_replicas_drain),
        cmocka_unit_test(test_prices_come_from_a_table),
        cmocka_unit_test(test_many_at_once_are_the_same),
        cmocka_unit_test(test_a_comparison_has_all_figures),
        cmocka_unit_test(test_settings_change_it),
        cmocka_unit_test(test_wrong_scenarios_name_the_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
