// SPDX-License-Identifier: Apache-2.0
// Evaluation of groups on a store: recorded series, states of alerts, limits, restore, reload.
#include "unit.h"

#include "base/mem.h"
#include "engine/rules/rules_private.h"

enum { STEP = 10000 };

struct world {
    struct tsdb *db;
    struct promql_engine *engine;
    struct rules_set *set;
    struct rules_runner *runner;
    struct rules_runner_config cfg;
};

static const struct metrics_label external[] = {{GS_SLICE("cluster"), GS_SLICE("c1")}};

static struct rules_set *parse(const char *text)
{
    struct rules_problems problems = {0};
    struct rules_set *set = NULL;
    assert_ok(rules_parse(gs_slice_of(text), "r.yaml", &problems, &set));
    if (problems.len)
        fail_msg("%s", problems.items[0].text);
    rules_problems_finish(&problems);
    return set;
}

static void start(struct world *w, const char *rules)
{
    *w = (struct world){.db = tsdb_new(&(struct tsdb_config){0})};
    w->engine = promql_engine_new(w->db, &(struct promql_config){0});
    w->cfg = (struct rules_runner_config){.db = w->db,
                                          .engine = w->engine,
                                          .external_labels = external,
                                          .n_external_labels = 1,
                                          .external_url = "http://me:9090",
                                          .timing = RULES_TIMING_DEFAULT};
    w->set = parse(rules);
    w->runner = rules_runner_new(&w->cfg, &w->set->groups[0], STEP);
}

static void stop(struct world *w)
{
    rules_runner_free(w->runner);
    rules_set_free(w->set);
    promql_engine_free(w->engine);
    tsdb_free(w->db);
}

static void put(struct world *w, const char *gpu, int64_t t, double value)
{
    struct metrics_label l[] = {{GS_SLICE("__name__"), GS_SLICE("util")},
                                {GS_SLICE("gpu"), gs_slice_of(gpu)}};
    assert_ok(tsdb_append(w->db, l, 2, t, value));
}

// The vector of a query, "{labels} value" a line, in the order of the store.
static char *ask(struct world *w, const char *query, int64_t t)
{
    struct promql_expr *x = NULL;
    struct gs_arena arena = {0};
    struct rules_sample *items = NULL;
    size_t n = 0;
    GS_AUTO_BUF struct gs_buf out = {0};
    assert_ok(promql_parse(gs_slice_of(query), &x));
    assert_ok(rules_query(&w->cfg, x, t, &arena, &items, &n));
    for (size_t i = 0; i < n; i++) {
        gs_buf_addf(&out, "%s{", i ? " " : "");
        for (size_t k = 0; k < items[i].n_labels; k++)
            gs_buf_addf(&out, "%s" GS_SLICE_FMT "=" GS_SLICE_FMT, k ? "," : "",
                        GS_SLICE_ARG(items[i].labels[k].name),
                        GS_SLICE_ARG(items[i].labels[k].value));
        gs_buf_addf(&out, "} %g", items[i].value);
    }
    promql_expr_free(x);
    gs_arena_finish(&arena);
    return gs_buf_take(&out);
}

#define assert_answer(w, query, t, want)                                                           \
    do {                                                                                           \
        GS_AUTO_FREE char *got_ = ask(w, query, t);                                                \
        assert_string_equal(got_, want);                                                           \
    } while (0)

// As in Prometheus: old samples are rejected and counted, and the rule has an error until the clock
// has advanced.
static void test_the_clock_is_set_back(void **state)
{
    struct world w;
    struct tsdb_stats stats;
    start(&w, "groups: [{name: g, rules: [{record: all, expr: sum(util)}]}]");
    put(&w, "0", 5000, 3);
    rules_runner_eval(w.runner, 20000);
    assert_int_equal(w.runner->rules[0].health, RULES_OK);
    rules_runner_eval(w.runner, 10000);
    assert_int_equal(w.runner->rules[0].health, RULES_ERR);
    assert_string_equal(w.runner->rules[0].last_error, "out of order sample");
    tsdb_stats(w.db, &stats);
    assert_int_equal(stats.out_of_order, 1);
    rules_runner_eval(w.runner, 30000);
    assert_int_equal(w.runner->rules[0].health, RULES_OK);
    assert_null(w.runner->rules[0].last_error);
    assert_answer(&w, "count_over_time(all[1m])", 30000, "{} 2");
    stop(&w);
    (void)state;
}

static void test_record(void **state)
{
    struct world w;
    start(&w, "groups: [{name: g, rules: [{record: all, expr: sum(util), labels: {by: us}},\n"
              "{record: next, expr: all * 2}, {record: each, expr: util + 1}]}]");
    put(&w, "0", 10000, 3);
    put(&w, "1", 10000, 4);
    rules_runner_eval(w.runner, 10000);
    assert_answer(&w, "all", 10000, "{__name__=all,by=us} 7");
    // Uses the result of the previous rule.
    assert_answer(&w, "next", 10000, "{__name__=next,by=us} 14");
    assert_answer(&w, "sum(each)", 10000, "{} 9");
    put(&w, "0", 20000, tsdb_stale_marker());
    put(&w, "1", 20000, 5);
    rules_runner_eval(w.runner, 20000);
    assert_answer(&w, "all", 20000, "{__name__=all,by=us} 5");
    assert_answer(&w, "each", 20000, "{__name__=each,gpu=1} 6"); // gpu 0 has ended
    put(&w, "1", 30000, tsdb_stale_marker());
    rules_runner_eval(w.runner, 30000);
    assert_answer(&w, "all or next or each", 30000, "");
    assert_int_equal(w.runner->failures, 0);
    stop(&w);
}

static void test_errors(void **state)
{
    struct world w;
    start(&w, "groups: [{name: g, limit: 1, rules: [{record: same, expr: util, labels: {gpu: x}},\n"
              "{record: many, expr: util}, {record: one, expr: sum(util)}]}]");
    put(&w, "0", 10000, 3);
    put(&w, "1", 10000, 4);
    rules_runner_eval(w.runner, 10000);
    assert_int_equal(w.runner->rules[0].health, RULES_ERR);
    assert_string_equal(
        w.runner->rules[0].last_error,
        "vector contains metrics with the same labelset after applying rule labels");
    assert_string_equal(w.runner->rules[1].last_error, "exceeded limit of 1 with 2 series");
    assert_int_equal(w.runner->rules[2].health, RULES_OK);
    assert_null(w.runner->rules[2].last_error);
    assert_int_equal(w.runner->failures, 2);
    assert_answer(&w, "same or many", 10000, "");
    stop(&w);
}

static const char *const alert_rules =
    "groups: [{name: g, rules: [{alert: High, expr: util > 80, for: 20s, keep_firing_for: 20s,\n"
    "labels: {severity: page, pod: 'pod-{{ $labels.gpu }}'},\n"
    "annotations: {summary: 'GPU {{ $labels.gpu }} at {{ $value }} in "
    "{{ $externalLabels.cluster }}'}}]}]";

static const struct rules_active_alert *only_alert(struct world *w)
{
    size_t pos = 0;
    struct gs_slice key;
    void *value = NULL;
    assert_int_equal(gs_hmap_len(w->runner->rules[0].active), 1);
    assert_true(gs_hmap_next(w->runner->rules[0].active, &pos, &key, &value));
    return value;
}

#define ALERT(state)                                                                               \
    "{__name__=ALERTS,alertname=High,alertstate=" state ",gpu=0,pod=pod-0,severity=page} 1"

static void test_alert_life(void **state)
{
    struct world w;
    start(&w, alert_rules);
    put(&w, "0", 10000, 90);
    rules_runner_eval(w.runner, 10000);
    const struct rules_active_alert *a = only_alert(&w);
    assert_int_equal(a->a.state, RULES_ALERT_PENDING);
    assert_int_equal(a->a.active_at_ms, 10000);
    assert_true(gs_slice_eq_str(a->a.annotations[0].value, "GPU 0 at 90 in c1"));
    assert_answer(&w, "ALERTS", 10000, ALERT("pending"));
    put(&w, "0", 20000, 95);
    rules_runner_eval(w.runner, 20000);
    assert_int_equal(only_alert(&w)->a.state, RULES_ALERT_PENDING);
    assert_true(gs_slice_eq_str(only_alert(&w)->a.annotations[0].value, "GPU 0 at 95 in c1"));
    put(&w, "0", 30000, 96);
    rules_runner_eval(w.runner, 30000); // for: 20s
    assert_int_equal(only_alert(&w)->a.state, RULES_ALERT_FIRING);
    assert_int_equal(only_alert(&w)->a.fired_at_ms, 30000);
    assert_answer(&w, "ALERTS", 30000, ALERT("firing")); // the pending series has ended
    assert_answer(&w, "ALERTS_FOR_STATE", 30000,
                  "{__name__=ALERTS_FOR_STATE,alertname=High,gpu=0,pod=pod-0,severity=page} 10");
    put(&w, "0", 40000, 5);
    rules_runner_eval(w.runner, 40000); // kept firing
    assert_int_equal(only_alert(&w)->a.state, RULES_ALERT_FIRING);
    assert_int_equal(only_alert(&w)->a.keep_firing_since_ms, 40000);
    assert_answer(&w, "ALERTS", 40000, ALERT("firing"));
    rules_runner_eval(w.runner, 60000); // keep_firing_for: 20s
    assert_int_equal(only_alert(&w)->a.state, RULES_ALERT_INACTIVE);
    assert_int_equal(only_alert(&w)->a.resolved_at_ms, 60000);
    assert_answer(&w, "ALERTS", 60000, "");
    rules_runner_eval(w.runner, 60000 + 15 * 60000);
    assert_int_equal(gs_hmap_len(w.runner->rules[0].active), 1);
    rules_runner_eval(w.runner, 60000 + 15 * 60000 + STEP); // kept for 15 minutes
    assert_int_equal(gs_hmap_len(w.runner->rules[0].active), 0);
    stop(&w);
}

static void test_pending_goes_away(void **state)
{
    struct world w;
    start(&w, alert_rules);
    put(&w, "0", 10000, 90);
    rules_runner_eval(w.runner, 10000);
    put(&w, "0", 20000, 10);
    rules_runner_eval(w.runner, 20000);
    assert_int_equal(gs_hmap_len(w.runner->rules[0].active), 0);
    assert_answer(&w, "ALERTS", 20000, "");
    stop(&w);
}

struct sent {
    int n;
    int64_t valid_until_ms, resolved_at_ms;
};

static void on_due(void *arg, const struct rules_alert *a, int64_t valid_until_ms)
{
    struct sent *s = arg;
    s->n++;
    s->valid_until_ms = valid_until_ms;
    s->resolved_at_ms = a->resolved_at_ms;
}

static void test_what_is_sent(void **state)
{
    struct world w;
    struct sent s = {0};
    start(&w, "groups: [{name: g, rules: [{alert: High, expr: util > 80}]}]");
    put(&w, "0", 100000, 90);
    rules_runner_eval(w.runner, 100000); // without `for`: fires immediately
    rules_runner_due(w.runner, 100000, 60000, on_due, &s);
    assert_int_equal(s.n, 1);
    assert_int_equal(s.valid_until_ms, 100000 + 4 * 60000);
    rules_runner_due(w.runner, 160000, 60000, on_due, &s);
    assert_int_equal(s.n, 1);
    rules_runner_due(w.runner, 160001, 60000, on_due, &s); // again after the resend delay
    assert_int_equal(s.n, 2);
    put(&w, "0", 170000, 1);
    rules_runner_eval(w.runner, 170000);
    rules_runner_due(w.runner, 170000, 60000, on_due, &s); // resolved: sent immediately
    assert_int_equal(s.n, 3);
    assert_int_equal(s.resolved_at_ms, 170000);
    stop(&w);
}

static void test_limit_of_alerts(void **state)
{
    struct world w;
    start(&w, "groups: [{name: g, limit: 1, rules: [{alert: High, expr: util > 80}]}]");
    put(&w, "0", 10000, 90);
    put(&w, "1", 10000, 90);
    rules_runner_eval(w.runner, 10000);
    assert_string_equal(w.runner->rules[0].last_error, "exceeded limit of 1 with 2 alerts");
    assert_int_equal(gs_hmap_len(w.runner->rules[0].active), 0);
    assert_answer(&w, "ALERTS", 10000, "");
    stop(&w);
}

static void test_query_offset(void **state)
{
    struct world w;
    start(&w, "groups: [{name: g, query_offset: 10s, rules: [{record: r, expr: util}]}]");
    put(&w, "0", 10000, 1);
    put(&w, "0", 20000, 2);
    rules_runner_eval(w.runner, 20000);
    assert_answer(&w, "r", 10000, "{__name__=r,gpu=0} 1");
    assert_answer(&w, "timestamp(r)", 20000, "{gpu=0} 10");
    stop(&w);
    // rule_query_offset applies to groups without their own offset, which may be 0.
    start(&w, "groups: [{name: g, rules: [{record: r, expr: util}]}, "
              "{name: h, query_offset: 0s, rules: [{record: s, expr: util}]}]");
    w.cfg.query_offset_ms = 5000;
    struct rules_runner *none = rules_runner_new(&w.cfg, &w.set->groups[0], STEP);
    struct rules_runner *zero = rules_runner_new(&w.cfg, &w.set->groups[1], STEP);
    assert_int_equal(rules_runner_offset(none), 5000);
    assert_int_equal(rules_runner_offset(zero), 0);
    rules_runner_free(none);
    rules_runner_free(zero);
    stop(&w);
}

// A new process restores the time at which the alert became active, after an outage.
static void restored_at(const char *rule, double for_state, int64_t down_at, int64_t now,
                        int64_t want_active_at, enum rules_alert_state want)
{
    struct world w;
    GS_AUTO_FREE char *text = gs_format("groups: [{name: g, rules: [{alert: High, "
                                        "expr: util > 80, %s}]}]",
                                        rule);
    start(&w, text);
    struct metrics_label l[] = {{GS_SLICE("__name__"), GS_SLICE("ALERTS_FOR_STATE")},
                                {GS_SLICE("alertname"), GS_SLICE("High")},
                                {GS_SLICE("gpu"), GS_SLICE("0")},
                                {GS_SLICE("of"), GS_SLICE("gpu 0")}};
    size_t n_labels = strstr(rule, "labels") ? 4 : 3;
    assert_ok(tsdb_append(w.db, l, n_labels, down_at, for_state));
    put(&w, "0", now, 90);
    rules_runner_await_restore(w.runner);
    rules_runner_eval(w.runner, now);
    assert_answer(&w, "count(ALERTS)", now, ""); // nothing is recorded before the restore
    rules_runner_restore(w.runner, now);
    assert_int_equal(only_alert(&w)->a.active_at_ms, want_active_at);
    put(&w, "0", now + STEP, 90);
    rules_runner_eval(w.runner, now + STEP);
    assert_answer(&w, "count(ALERTS)", now + STEP, "{} 1");
    assert_int_equal(only_alert(&w)->a.state, want);
    stop(&w);
}

static void test_restore(void **state)
{
    const int64_t minute = 60000, t0 = 100 * minute;
    // 5 of 30 minutes had passed, outage of 2 minutes: the outage does not count.
    restored_at("for: 30m", 6000, t0 + 5 * minute, t0 + 7 * minute, t0 + 2 * minute,
                RULES_ALERT_PENDING);
    // 25 of 30 minutes had passed: fires after the grace period of 10 minutes.
    restored_at("for: 30m", 6000, t0 + 25 * minute, t0 + 27 * minute, t0 + 7 * minute,
                RULES_ALERT_PENDING);
    // It was firing.
    restored_at("for: 30m", 6000, t0 + 35 * minute, t0 + 37 * minute, t0, RULES_ALERT_FIRING);
    (void)state;
}

static void test_a_firing_alert_with_a_short_for_survives_a_restart(void **state)
{
    const int64_t second = 1000, t0 = 6000 * second;
    restored_at("for: 10s", 6000, t0 + 40 * second, t0 + 60 * second, t0, RULES_ALERT_FIRING);
    // It was pending: `for` starts again.
    restored_at("for: 30s", 6000, t0 + 20 * second, t0 + 60 * second, t0 + 60 * second,
                RULES_ALERT_PENDING);
    (void)state;
}

static void test_an_alert_with_a_template_in_its_labels_survives_a_restart(void **state)
{
    restored_at("for: 10s, labels: {of: 'gpu {{ $labels.gpu }}'}", 6000, 6040000, 6060000, 6000000,
                RULES_ALERT_FIRING);
    (void)state;
}

// Replaces the only alert's `for` by a reload, and evaluates again.
static void reload_for(struct world *w, const char *for_text, int64_t t)
{
    GS_AUTO_FREE char *text = gs_format("groups: [{name: g, rules: [{alert: High, expr: util > 80,"
                                        " for: %s}]}]",
                                        for_text);
    struct rules_set *set = parse(text);
    struct rules_runner *next = rules_runner_new(&w->cfg, &set->groups[0], STEP);
    rules_runner_take_over(next, w->runner);
    rules_runner_free(w->runner);
    rules_set_free(w->set);
    w->runner = next;
    w->set = set;
    put(w, "0", t, 90);
    rules_runner_eval(w->runner, t);
}

static void test_a_longer_for_returns_a_young_alert_to_pending(void **state)
{
    struct world w;
    start(&w, "groups: [{name: g, rules: [{alert: High, expr: util > 80, for: 10s}]}]");
    put(&w, "0", 10000, 90);
    rules_runner_eval(w.runner, 10000);
    put(&w, "0", 30000, 90);
    rules_runner_eval(w.runner, 30000);
    assert_int_equal(only_alert(&w)->a.state, RULES_ALERT_FIRING);
    reload_for(&w, "25s", 40000); // active for 30 s
    assert_int_equal(only_alert(&w)->a.state, RULES_ALERT_FIRING);
    reload_for(&w, "60s", 50000);
    assert_int_equal(only_alert(&w)->a.state, RULES_ALERT_PENDING);
    assert_int_equal(only_alert(&w)->a.fired_at_ms, 0);
    assert_answer(&w, "count(ALERTS{alertstate=\"firing\"})", 50000, "");
    reload_for(&w, "60s", 70000);
    assert_int_equal(only_alert(&w)->a.state, RULES_ALERT_FIRING);
    assert_int_equal(only_alert(&w)->a.fired_at_ms, 70000);
    stop(&w);
    (void)state;
}

static void test_take_over(void **state)
{
    struct world w;
    start(&w,
          "groups: [{name: g, rules: [{record: gone, expr: util}, {alert: High, expr: util > 80,"
          " for: 20s}]}]");
    put(&w, "0", 10000, 90);
    rules_runner_eval(w.runner, 10000);
    struct rules_set *set = parse("groups: [{name: g, rules: [{alert: High, expr: util > 70,"
                                  " for: 20s}]}]");
    struct rules_runner *next = rules_runner_new(&w.cfg, &set->groups[0], STEP);
    rules_runner_take_over(next, w.runner);
    rules_runner_free(w.runner);
    rules_set_free(w.set);
    w.runner = next;
    w.set = set;
    assert_int_equal(only_alert(&w)->a.active_at_ms, 10000);
    put(&w, "0", 30000, 90);
    rules_runner_eval(w.runner, 30000);
    assert_int_equal(only_alert(&w)->a.state, RULES_ALERT_FIRING);
    assert_int_equal(only_alert(&w)->a.active_at_ms, 10000);
    assert_answer(&w, "gone", 30000, ""); // its rule was removed
    rules_runner_end_series(w.runner, 40000);
    assert_answer(&w, "ALERTS", 40000, "");
    stop(&w);
}

static void test_bad_template_shows(void **state)
{
    struct world w;
    start(&w, "groups: [{name: g, rules: [{alert: High, expr: util > 80,"
              " annotations: {a: 'x {{ humanize $labels.gpu }}'}}]}]");
    put(&w, "zero", 10000, 90);
    rules_runner_eval(w.runner, 10000);
    struct gs_slice text = only_alert(&w)->a.annotations[0].value;
    assert_true(gs_slice_starts(text, "<error expanding template: error executing template "
                                      "__alert_High: template: __alert_High:1:117: executing "));
    stop(&w);
}

static void test_template_query(void **state)
{
    struct world w;
    start(&w, "groups: [{name: g, rules: [{alert: High, expr: util > 80, annotations: {a: "
              "'{{ with query \"sum(util)\" }}{{ . | first | value }}{{ end }}'}}]}]");
    put(&w, "0", 10000, 90);
    put(&w, "1", 10000, 10);
    rules_runner_eval(w.runner, 10000);
    assert_true(gs_slice_eq_str(only_alert(&w)->a.annotations[0].value, "100"));
    stop(&w);
}

// Two rules with the same series: the first sample is kept.
static void test_two_rules_one_series(void **state)
{
    struct world w;
    start(&w, "groups: [{name: g, rules: [{record: r, expr: sum(util)},\n"
              "{record: r, expr: sum(util) + 1}]}]");
    for (int64_t t = 10000; t <= 50000; t += STEP) {
        put(&w, "0", t, 1);
        rules_runner_eval(w.runner, t);
        GS_AUTO_FREE char *got = ask(&w, "count(r)", t);
        assert_string_equal(got, "{} 1");
    }
    stop(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_record),
        cmocka_unit_test(test_the_clock_is_set_back),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_alert_life),
        cmocka_unit_test(test_pending_goes_away),
        cmocka_unit_test(test_what_is_sent),
        cmocka_unit_test(test_limit_of_alerts),
        cmocka_unit_test(test_query_offset),
        cmocka_unit_test(test_restore),
        cmocka_unit_test(test_a_firing_alert_with_a_short_for_survives_a_restart),
        cmocka_unit_test(test_an_alert_with_a_template_in_its_labels_survives_a_restart),
        cmocka_unit_test(test_a_longer_for_returns_a_young_alert_to_pending),
        cmocka_unit_test(test_take_over),
        cmocka_unit_test(test_bad_template_shows),
        cmocka_unit_test(test_template_query),
        cmocka_unit_test(test_two_rules_one_series),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
