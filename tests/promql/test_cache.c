// SPDX-License-Identifier: Apache-2.0
// While series come and go, queries with a cache, with a cache that is too small, and without one
// have equal results. CACHE_SEED=N selects another sequence of births and deaths.
#include "promql/promql.h"

#include "base/buf.h"
#include "base/mem.h"
#include "unit.h"

#include <stdlib.h>

enum { PODS = 40, TARGETS = 3, STEP_MS = 5000, RETENTION_MS = 60000 };

static const char *const queries[] = {
    "use",
    "use{gpu=\"0\"}",
    "use{pod=~\"p-.*[13]\"}",
    "{pod!=\"\",gpu!~\"1|\"}",
    "{__name__=~\"use|heat\"}",
    "absent(use{pod=\"p-3\"})",
    "sum(use)",
    "avg by (ns) (use)",
    "sum by (ns, pod) (use)",
    "sum by (pod, ns) ({__name__=~\"use|heat\"})",
    "count by (__name__) ({pod!=\"\"})",
    "max without (gpu) (use)",
    "max without (odd1, odd2, pod) (use)",
    "count by (odd1) ({pod!=\"\"})",
    "group by (odd2, pod) ({pod!=\"\"})",
    "topk by (ns) (2, use)",
    "quantile by (ns) (0.3, heat)",
    "count_values(\"v\", heat)",
    "-use",
    "abs({__name__=~\"use|heat\"})",
    "rate(use[20s])",
    "sum by (pod) (avg_over_time(heat[15s]))",
    "sum by (ns) (sum by (ns, pod) (use))",
    "use + heat",
    "use > heat",
    "use >= bool on (pod, gpu) heat",
    "use + ignoring (gpu) group_left heat{gpu=\"0\"}",
    "use * on (pod) group_left (app) labels",
    "labels * on (pod) group_right (app) use",
    "labels{app=\"a\"} * on (pod) group_right (app, odd1) use",
    "max by (ns, pod) (use) * on (pod) group_left (app) max by (pod, app) (labels)",
    "avg(max by (gpu, pod, ns) (use) * on (pod) group_left (app) max by (pod, app) (labels))",
    "sum by (pod) (use) / on (pod) sum by (pod) (heat)",
    "use and on (pod) labels{app=\"b\"}",
    "use or heat",
    "use unless on (pod) labels{app=\"b\"}",
    "use * on () group_left max(heat)",
    "use * on (ns) heat",
    "sum by (nowhere) (use) + on (nowhere) sum by (nowhere) (heat)",
    "label_replace(use, \"pod\", \"$1\", \"pod\", \"p-(.).*\")",
    "sort_desc(sum by (app) (labels))",
    "use + on (pod, gpu) fill (0) heat{gpu=\"0\"}",
    "use - on (pod) group_left fill_right (7) labels",
    "sum by (pod) (use) + fill_left (3) sum by (pod) (labels)",
    "limitk(3, use)",
    "limitk by (ns) (1, {__name__=~\"use|heat\"})",
    "limit_ratio(0.4, use)",
    "count by (ns) (limit_ratio(-0.3, heat))",
    "first_over_time(use[15s])",
    "rate(use[20s] anchored)",
    "changes(heat[15s] anchored)",
    "increase(run[20s] smoothed)",
    "use smoothed",
    "sum by (ns) (run smoothed)",
    "info(run)",
    "info(run, {app=\"a\"})",
    "info(rate(run[20s]), {__name__=~\"target_.*\"})",
    "run",
    "sum by (ns) (run)",
    "avg_over_time(run[10s])",
    "{__name__=~\"run|use\"}",
    "timestamp(run)",
    // in the past
    "use offset 10s",
    "sum by (ns) (run offset 25s)",
    "run offset -10s",
    "use @ 1200",
    "avg by (ns) (run @ 1300.5)",
    "use @ start()",
    "run @ end() offset 20s",
    "timestamp(run @ end() offset 10s)",
    "timestamp(use @ start() offset -10s)",
    "timestamp(run offset 15s)",
    "rate(use[20s] offset 25s)",
    "last_over_time(run[20s] @ end())",
    "count_over_time(run[15s] offset -5s)",
    "run smoothed offset 20s",
    "delta(run[15s] smoothed offset 20s)",
    "increase(use[10s] anchored @ start())",
    "max_over_time(sum by (ns) (run)[40s:5s])",
    "sum by (pod) (min_over_time(last_over_time(run[10s])[30s:10s] offset 20s))",
    "sum_over_time(run[30s:10s] offset 20s)",
    "use * on (pod) group_left (app) (labels offset 20s)",
    "run - run offset 15s",
    "(run offset 20s) unless run",
    "absent(run{pod=\"p-3\"} offset 30s)",
    "info(run offset 20s)",
};
enum { N_QUERIES = sizeof(queries) / sizeof(*queries) };

struct pod {
    unsigned name, app, odd; // odd: which unusual label names it has
    bool ended;
};

struct fixture {
    struct tsdb *db;
    struct promql_engine *cached, *small, *none;
    struct promql_expr *parsed[N_QUERIES];
    struct pod pods[PODS];
    struct tsdb_group *targets[TARGETS];
    uint64_t random;
    unsigned seed, born;
    int64_t now_ms;
};

static unsigned pick(struct fixture *f, unsigned n)
{
    f->random = f->random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (unsigned)(f->random >> 33) % n;
}

// --- the store ---

static size_t put(struct metrics_label *l, size_t n, const char *name, const char *value)
{
    l[n] = (struct metrics_label){gs_slice_of(name), gs_slice_of(value)};
    return n + 1;
}

static void append(struct fixture *f, const struct pod *p, const char *metric, unsigned gpu,
                   double v)
{
    char pod[16], ns[16], device[16], odd[16];
    struct metrics_label l[8];
    bool about = !strcmp(metric, "labels");
    size_t n = put(l, 0, "__name__", metric);
    snprintf(pod, sizeof(pod), "p-%u", p->name);
    snprintf(ns, sizeof(ns), "n%u", p->name % 5);
    snprintf(device, sizeof(device), "%u", gpu);
    snprintf(odd, sizeof(odd), p->odd == 9 ? "__type__" : "odd%u", p->odd);
    n = put(l, n, "pod", pod);
    n = put(l, n, "ns", ns);
    if (about)
        n = put(l, n, "app", p->app % 2 ? "a" : "b");
    else
        n = put(l, n, "gpu", device);
    if (p->odd)
        n = put(l, n, odd, pod);
    gs_error_free(tsdb_append(f->db, l, n, f->now_ms, v)); // a pod may come back within a step
    tsdb_ref ref;
    l[0].value = GS_SLICE("empty"); // never gets a sample
    if (!pick(f, 50))
        assert_ok(tsdb_series_get(f->db, l, n, &ref));
}

static void sample(struct fixture *f, const struct pod *p, bool last)
{
    double stale = tsdb_stale_marker();
    for (unsigned gpu = 0; gpu < 2; gpu++) {
        append(f, p, "use", gpu, last ? stale : pick(f, 100));
        append(f, p, "heat", gpu, last ? stale : pick(f, 4));
    }
    if (p->app)
        append(f, p, "labels", 0, last ? stale : 1);
}

// --- targets ---

static void put_run(struct fixture *f, struct tsdb_group *g, const struct pod *p,
                    const char *metric)
{
    char pod[16], ns[16];
    struct metrics_label l[6];
    bool about = !strcmp(metric, "target_info");
    uint32_t slot;
    snprintf(pod, sizeof(pod), "p-%u", p->name);
    snprintf(ns, sizeof(ns), "n%u", p->name % 5);
    size_t n = put(l, 0, "__name__", metric);
    n = put(l, n, "instance", pod);
    n = put(l, n, "job", "j");
    n = put(l, n, about ? "app" : "pod", about ? (p->app % 2 ? "a" : "b") : pod);
    n = put(l, n, "ns", ns);
    assert_ok(tsdb_group_slot(g, l, n, &slot));
    tsdb_group_put(g, slot, about ? 1 : pick(f, 100));
}

// Some pods are in two targets. Targets are unavailable at times, and are replaced.
static void scrape(struct fixture *f, unsigned i)
{
    size_t added, fresh;
    bool available = pick(f, 5) > 0;
    if (!pick(f, 20)) {
        tsdb_group_free(f->targets[i]);
        f->targets[i] = tsdb_group_new(f->db);
    }
    struct tsdb_group *g = f->targets[i];
    assert_ok(tsdb_group_begin(g, f->now_ms));
    for (size_t k = 0; k < PODS && available; k++) {
        const struct pod *p = &f->pods[k];
        if (!p->name || (p->name % TARGETS != i && p->name % (4 + i)))
            continue;
        put_run(f, g, p, "run");
        put_run(f, g, p, "target_info");
    }
    tsdb_group_commit(g, &added, &fresh);
}

// Some names come back, and with them numbers of series and symbols.
static void replace(struct fixture *f, struct pod *p)
{
    if (p->name)
        sample(f, p, true);
    *p = (struct pod){.name = 1 + (pick(f, 3) ? pick(f, 3 * PODS) : ++f->born + 3 * PODS),
                      .app = pick(f, 3),
                      .odd = pick(f, 6) ? 0 : 1 + pick(f, 9)};
}

static void step(struct fixture *f)
{
    f->now_ms += STEP_MS;
    unsigned n = pick(f, 8) ? pick(f, 4) : pick(f, PODS); // sometimes many at once
    for (unsigned i = 0; i < n; i++)
        replace(f, &f->pods[pick(f, PODS)]);
    for (size_t i = 0; i < PODS; i++)
        if (f->pods[i].name)
            sample(f, &f->pods[i], false);
    for (unsigned i = 0; i < TARGETS; i++)
        if (pick(f, 4))
            scrape(f, i);
    if (!pick(f, 3))
        tsdb_gc(f->db, f->now_ms);
}

// --- queries ---

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *line_of(const struct promql_result *r, const struct promql_series *s)
{
    struct gs_buf b = {0};
    for (size_t i = 0; i < s->labels.n; i++)
        gs_buf_addf(&b, GS_SLICE_FMT "=" GS_SLICE_FMT ",",
                    GS_SLICE_ARG(promql_text(r, s->labels.pairs[i].name)),
                    GS_SLICE_ARG(promql_text(r, s->labels.pairs[i].value)));
    for (size_t i = 0; i < r->matrix.n_steps; i++) {
        uint64_t bits;
        memcpy(&bits, &s->v[i], sizeof(bits));
        gs_buf_addf(&b, " %llx", (unsigned long long)bits);
    }
    gs_buf_add_char(&b, '\n');
    return b.data;
}

// The result as text: series of an instant query in their order, those of a range sorted.
static char *ask(struct promql_engine *e, const struct promql_expr *x, int64_t start_ms,
                 int64_t end_ms)
{
    struct promql_result r;
    struct gs_error *err = start_ms == end_ms ? promql_instant(e, x, end_ms, &r)
                                              : promql_range(e, x, start_ms, end_ms, STEP_MS, &r);
    if (err) {
        char *text = gs_format("error: %s", gs_error_message(err));
        // Which of several duplicates it names depends on the order of the evaluation.
        char *group = strstr(text, "for the match group");
        if (group)
            *group = '\0';
        gs_error_free(err);
        return text;
    }
    struct gs_buf b = {0};
    gs_buf_addf(&b, "%zu series\n", r.matrix.n);
    char **lines = gs_alloc_array(r.matrix.n + 1, sizeof(*lines));
    for (size_t i = 0; i < r.matrix.n; i++)
        lines[i] = line_of(&r, &r.matrix.series[i]);
    if (start_ms != end_ms)
        qsort(lines, r.matrix.n, sizeof(*lines), compare_lines);
    for (size_t i = 0; i < r.matrix.n; i++) {
        gs_buf_add_str(&b, lines[i]);
        free(lines[i]);
    }
    free(lines);
    promql_result_finish(&r);
    return b.data;
}

static void compare(struct fixture *f, size_t q, int64_t start_ms, int64_t end_ms)
{
    GS_AUTO_FREE char *cached = ask(f->cached, f->parsed[q], start_ms, end_ms);
    GS_AUTO_FREE char *small = ask(f->small, f->parsed[q], start_ms, end_ms);
    GS_AUTO_FREE char *none = ask(f->none, f->parsed[q], start_ms, end_ms);
    if (strcmp(cached, none) != 0 || strcmp(small, none) != 0)
        fail_msg("CACHE_SEED=%u: %s\nat %lld to %lld\nwith a cache: %s\nsmall: %s\nwithout: %s",
                 f->seed, queries[q], (long long)start_ms, (long long)end_ms, cached, small, none);
}

static int setup_with(void **state, int64_t lookback_ms)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    const char *seed = getenv("CACHE_SEED");
    const struct tsdb_config cfg = {.retention_ms = RETENTION_MS};
    f->seed = seed ? (unsigned)strtoul(seed, NULL, 10) : 1;
    f->random = f->seed;
    f->now_ms = 1000000;
    f->db = tsdb_new(&cfg);
    struct promql_config with = {.lookback_ms = lookback_ms};
    f->cached = promql_engine_new(f->db, &with);
    with.cache_bytes = 20000;
    f->small = promql_engine_new(f->db, &with);
    with.cache_bytes = 1;
    f->none = promql_engine_new(f->db, &with);
    promql_set_features(PROMQL_EXPERIMENTAL_FUNCTIONS | PROMQL_FILL);
    for (size_t i = 0; i < N_QUERIES; i++)
        assert_ok(promql_parse(gs_slice_of(queries[i]), &f->parsed[i]));
    for (unsigned i = 0; i < TARGETS; i++)
        f->targets[i] = tsdb_group_new(f->db);
    for (size_t i = 0; i < PODS; i++)
        replace(f, &f->pods[i]);
    *state = f;
    return 0;
}

static int setup(void **state)
{
    return setup_with(state, 12000);
}

// Series that ended are set aside later, and less often: many of them return or vanish meanwhile.
static int setup_long_lookback(void **state)
{
    return setup_with(state, 120000);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < N_QUERIES; i++)
        promql_expr_free(f->parsed[i]);
    promql_engine_free(f->cached);
    promql_engine_free(f->small);
    promql_engine_free(f->none);
    for (unsigned i = 0; i < TARGETS; i++)
        tsdb_group_free(f->targets[i]);
    tsdb_free(f->db);
    free(f);
    return 0;
}

static void test_results_do_not_depend_on_the_cache(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 150; i++) {
        step(f);
        for (size_t q = 0; q < N_QUERIES; q++) {
            unsigned kind = pick(f, 12);
            int64_t past_ms = f->now_ms - pick(f, 14) * STEP_MS + pick(f, 2);
            if (kind < 7)
                compare(f, q, f->now_ms, f->now_ms);
            else if (kind == 7)
                compare(f, q, f->now_ms - 6 * STEP_MS, f->now_ms);
            else if (kind == 8)
                compare(f, q, past_ms, past_ms);
            else if (kind == 9)
                compare(f, q, past_ms - 4 * STEP_MS, past_ms);
        }
        if (!pick(f, 30)) { // the clock is set back
            f->now_ms -= 4 * STEP_MS;
            tsdb_delete_after(f->db, f->now_ms);
        }
    }
}

// More changes between two queries than the store remembers.
static void test_forgotten_changes(void **state)
{
    struct fixture *f = *state;
    for (int round = 0; round < 2; round++) {
        step(f);
        for (size_t q = 0; q < N_QUERIES; q++)
            compare(f, q, f->now_ms, f->now_ms);
        for (int i = 0; i < 12000; i++)
            replace(f, &f->pods[pick(f, PODS)]);
        f->now_ms += 2 * RETENTION_MS;
        while (tsdb_series_count(f->db)) {
            size_t before = tsdb_series_count(f->db);
            tsdb_gc(f->db, f->now_ms);
            if (tsdb_series_count(f->db) == before)
                break;
        }
    }
}

// A result is read while its query's lists are replaced, and series of it were dropped.
static void test_results_stay_while_series_go(void **state)
{
    struct fixture *f = *state;
    enum { GROUPS = 8 }; // sum by (ns, pod)
    step(f);
    struct promql_result r;
    for (int i = 0; i < 3; i++) {
        GS_AUTO_FREE char *expected = ask(f->none, f->parsed[GROUPS], f->now_ms, f->now_ms);
        assert_ok(promql_instant(f->cached, f->parsed[GROUPS], f->now_ms, &r));
        assert_true(r.matrix.n > 0);
        for (int k = 0; k < 30; k++) {
            step(f);
            compare(f, GROUPS, f->now_ms, f->now_ms);
        }
        struct gs_buf now = {0};
        gs_buf_addf(&now, "%zu series\n", r.matrix.n);
        for (size_t k = 0; k < r.matrix.n; k++) {
            GS_AUTO_FREE char *line = line_of(&r, &r.matrix.series[k]);
            gs_buf_add_str(&now, line);
        }
        assert_string_equal(now.data, expected);
        gs_buf_finish(&now);
        promql_result_finish(&r);
    }
}

static void add(struct fixture *f, const char *metric, const char *name, const char *value)
{
    const struct metrics_label l[] = {{GS_SLICE("__name__"), gs_slice_of(metric)},
                                      {gs_slice_of(name), gs_slice_of(value)}};
    assert_ok(tsdb_append(f->db, l, 2, f->now_ms, 1));
}

// The symbol of a label name gets the text of another one, which belongs elsewhere in label sets.
static void test_a_label_name_vanishes(void **state)
{
    struct fixture *f = *state;
    struct promql_expr *x;
    assert_ok(promql_parse(
        GS_SLICE("max without (nothing) (many) * on () group_left (lm) max by (lm) (one)"), &x));
    add(f, "many", "zz", "1");
    for (int i = 0; i < 2; i++) {
        add(f, "one", "lm", "v");
        add(f, "keep", "text", "many");
        add(f, "keep", "text", "1");
        GS_AUTO_FREE char *cached = ask(f->cached, x, f->now_ms, f->now_ms);
        assert_string_equal(cached, i ? "1 series\naa=1,lm=v, 3ff0000000000000\n"
                                      : "1 series\nlm=v,zz=1, 3ff0000000000000\n");
        f->now_ms += 3 * RETENTION_MS / 4;
        add(f, "one", "lm", "v");
        add(f, "keep", "text", "many");
        add(f, "keep", "text", "1");
        f->now_ms += RETENTION_MS / 2;
        tsdb_gc(f->db, f->now_ms);
        if (!i)
            add(f, "many", "aa", "1");
    }
    promql_expr_free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_results_do_not_depend_on_the_cache, setup, teardown),
        cmocka_unit_test_setup_teardown(test_results_do_not_depend_on_the_cache,
                                        setup_long_lookback, teardown),
        cmocka_unit_test_setup_teardown(test_forgotten_changes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_label_name_vanishes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_results_stay_while_series_go, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
