// SPDX-License-Identifier: Apache-2.0
// Compares evaluation with Prometheus: results are written as a unit test for promtool, which
// evaluates the same rules on the same series and reports differences.
#include "unit.h"

#include "base/file.h"
#include "base/mem.h"
#include "engine/rules/rules_private.h"

#include <stdlib.h>
#include <sys/wait.h>

enum { MINUTE = 60000, STEPS = 40 };

#define PROMTOOL "/usr/bin/promtool"

// No range starts at a sample, because Prometheus 2 and 3 differ there.
static const char *const rules_text =
    "groups:\n"
    "- name: record\n"
    "  rules:\n"
    "  - {record: 'gpu:util:avg', expr: 'avg by (gpu) (util)', labels: {by: us}}\n"
    "  - {record: 'gpu:util:max', expr: 'max_over_time(gpu:util:avg[4m30s])'}\n"
    "  - {record: total, expr: 'sum(util)'}\n"
    "  - {record: scaled, expr: 'scalar(total) / 2'}\n"
    "  - {record: 'renamed', expr: 'label_replace(util, \"x\", \"g$1\", \"gpu\", \"(.*)\")'}\n"
    "- name: alerts\n"
    "  rules:\n"
    "  - alert: High\n"
    "    expr: util > 80\n"
    "    for: 3m\n"
    "    labels: {severity: page, pod: 'pod-{{ $labels.gpu }}'}\n"
    "    annotations: {summary: 'GPU {{ $labels.gpu }} at {{ $value | humanize }}',\n"
    "      percent: '{{ $value | humanizePercentage }} {{ printf \"%.2f\" $value }}'}\n"
    "  - alert: Kept\n"
    "    expr: util > 90\n"
    "    for: 1m\n"
    "    keep_firing_for: 4m\n"
    "  - alert: Now\n"
    "    expr: gpu:util:avg{gpu=\"1\"} > 50\n"
    "    annotations: {a: '{{ range query \"total\" }}{{ .Value }}{{ end }}'}\n"
    "  - alert: Gone\n"
    "    expr: absent(util{gpu=\"2\"})\n"
    "    for: 2m\n";

// Saw teeth that cross the thresholds at different times. Series 2 has gaps.
static bool value_at(int gpu, int i, double *ret)
{
    if (gpu == 2 && i % 13 > 7)
        return false;
    *ret = (i * (7 + 4 * gpu) + 31 * gpu) % 101 + (i % 4) * 0.25;
    return true;
}

struct world {
    struct tsdb *db;
    struct promql_engine *engine;
    struct rules_runner_config cfg;
    struct gs_buf out;
};

static void put_series(struct world *w, int i)
{
    for (int gpu = 0; gpu < 3; gpu++) {
        char name[8];
        double v;
        (void)snprintf(name, sizeof(name), "%d", gpu);
        struct metrics_label l[] = {{GS_SLICE("__name__"), GS_SLICE("util")},
                                    {GS_SLICE("gpu"), gs_slice_of(name)}};
        bool there = value_at(gpu, i, &v);
        assert_ok(tsdb_append(w->db, l, 2, (int64_t)i * MINUTE, there ? v : tsdb_stale_marker()));
    }
}

static void write_labels(struct gs_buf *out, const struct metrics_label *l, size_t n, bool yaml)
{
    gs_buf_add_char(out, '{');
    for (size_t i = 0; i < n; i++)
        gs_buf_addf(out,
                    yaml ? "%s" GS_SLICE_FMT ": '" GS_SLICE_FMT "'"
                         : "%s" GS_SLICE_FMT "=\"" GS_SLICE_FMT "\"",
                    i ? "," : "", GS_SLICE_ARG(l[i].name), GS_SLICE_ARG(l[i].value));
    gs_buf_add_char(out, '}');
}

static size_t write_query(struct world *w, const char *query, int i)
{
    struct promql_expr *x = NULL;
    struct gs_arena arena = {0};
    struct rules_sample *items = NULL;
    size_t n = 0;
    assert_ok(promql_parse(gs_slice_of(query), &x));
    assert_ok(rules_query(&w->cfg, x, (int64_t)i * MINUTE, &arena, &items, &n));
    gs_buf_addf(&w->out, "  - expr: '%s'\n    eval_time: %dm\n    exp_samples:%s\n", query, i,
                n ? "" : " []");
    for (size_t k = 0; k < n; k++) {
        gs_buf_add_str(&w->out, "    - labels: '");
        write_labels(&w->out, items[k].labels, items[k].n_labels, false);
        gs_buf_addf(&w->out, "'\n      value: %.17g\n", items[k].value);
    }
    promql_expr_free(x);
    gs_arena_finish(&arena);
    return n;
}

struct alert_writer {
    struct gs_buf *out;
    const char *name;
    size_t n;
};

static void write_alert(void *arg, const struct rules_alert *a)
{
    struct alert_writer *aw = arg;
    struct metrics_label labels[16];
    size_t n = 0;
    if (a->state != RULES_ALERT_FIRING || !gs_streq(a->rule->name, aw->name))
        return;
    for (size_t i = 0; i < a->n_labels; i++)
        if (!gs_slice_eq_str(a->labels[i].name, "alertname"))
            labels[n++] = a->labels[i];
    gs_buf_addf(aw->out, "%s    - exp_labels: ", aw->n++ ? "" : "\n");
    write_labels(aw->out, labels, n, true);
    gs_buf_add_str(aw->out, "\n      exp_annotations: ");
    write_labels(aw->out, a->annotations, a->n_annotations, true);
    gs_buf_add_char(aw->out, '\n');
}

static size_t write_alerts(struct gs_buf *out, const struct rules_runner *r, int i)
{
    static const char *const names[] = {"High", "Kept", "Now", "Gone"};
    size_t all = 0;
    for (size_t k = 0; k < GS_ARRAY_LEN(names); k++) {
        gs_buf_addf(out, "  - eval_time: %dm\n    alertname: %s\n    exp_alerts:", i, names[k]);
        struct alert_writer aw = {.out = out, .name = names[k]};
        rules_runner_alerts(r, write_alert, &aw);
        if (!aw.n)
            gs_buf_add_str(out, " []\n");
        all += aw.n;
    }
    return all;
}

static void write_head(struct gs_buf *out)
{
    // Without an order, promtool evaluates groups in any order. The alerts use recorded series.
    gs_buf_add_str(out, "rule_files: [rules.yaml]\nevaluation_interval: 1m\n"
                        "group_eval_order: [record, alerts]\ntests:\n"
                        "- interval: 1m\n  input_series:\n");
    for (int gpu = 0; gpu < 3; gpu++) {
        gs_buf_addf(out, "  - series: 'util{gpu=\"%d\"}'\n    values: '", gpu);
        for (int i = 0; i < STEPS; i++) {
            double v;
            if (value_at(gpu, i, &v))
                gs_buf_addf(out, "%.17g ", v);
            else
                gs_buf_add_str(out, "stale ");
        }
        gs_buf_add_str(out, "'\n");
    }
}

static int run_promtool(const char *dir)
{
    GS_AUTO_FREE char *command =
        gs_format(PROMTOOL " test rules %s/test.yaml > %s/out 2>&1", dir, dir);
    int rc = system(command);
    if (rc) {
        GS_AUTO_FREE char *path = gs_format("%s/out", dir);
        GS_AUTO_BUF struct gs_buf said = {0};
        gs_error_free(gs_file_read(path, 1 << 22, &said));
        fprintf(stderr, "%.6000s\n", said.data ? said.data : "");
    }
    return rc;
}

static void test_promtool_agrees(void **state)
{
    if (access(PROMTOOL, X_OK) != 0) {
        skip_because("%s is not installed", PROMTOOL);
        return;
    }
    struct world w = {.db = tsdb_new(&(struct tsdb_config){0})};
    w.engine = promql_engine_new(w.db, &(struct promql_config){0});
    w.cfg = (struct rules_runner_config){.db = w.db, .engine = w.engine};
    struct rules_problems problems = {0};
    struct rules_set *set = NULL;
    assert_ok(rules_parse(gs_slice_of(rules_text), "rules.yaml", &problems, &set));
    assert_int_equal(problems.len, 0);
    struct rules_runner *record = rules_runner_new(&w.cfg, &set->groups[0], MINUTE);
    struct rules_runner *alerts = rules_runner_new(&w.cfg, &set->groups[1], MINUTE);
    GS_AUTO_BUF struct gs_buf alert_tests = {0}, all = {0};
    size_t samples = 0, fired = 0;
    for (int i = 0; i < STEPS; i++) {
        static const char *const queries[] = {"gpu:util:avg",    "gpu:util:max", "total",
                                              "scaled",          "renamed",      "ALERTS",
                                              "ALERTS_FOR_STATE"};
        put_series(&w, i);
        rules_runner_eval(record, (int64_t)i * MINUTE);
        rules_runner_eval(alerts, (int64_t)i * MINUTE);
        for (size_t q = 0; q < GS_ARRAY_LEN(queries); q++)
            samples += write_query(&w, queries[q], i);
        fired += write_alerts(&alert_tests, alerts, i);
    }
    assert_true(samples > 500 && fired > 30); // the scenario is not trivial
    write_head(&all);
    gs_buf_add_str(&all, "  promql_expr_test:\n");
    gs_buf_add_slice(&all, gs_buf_slice(&w.out));
    gs_buf_add_str(&all, "  alert_rule_test:\n");
    gs_buf_add_slice(&all, gs_buf_slice(&alert_tests));
    char dir[] = "/tmp/test-rules-XXXXXX";
    assert_non_null(mkdtemp(dir));
    GS_AUTO_FREE char *test = gs_format("%s/test.yaml", dir),
                      *rules = gs_format("%s/rules.yaml", dir);
    GS_AUTO_FREE char *clean = gs_format("rm -rf %s", dir);
    assert_ok(gs_file_write_atomic(test, 0600, gs_buf_slice(&all)));
    assert_ok(gs_file_write_atomic(rules, 0600, gs_slice_of(rules_text)));
    int rc = run_promtool(dir);
    if (getenv("KEEP") == NULL)
        assert_int_equal(system(clean), 0);
    assert_int_equal(rc, 0);
    rules_runner_free(record);
    rules_runner_free(alerts);
    rules_set_free(set);
    gs_buf_finish(&w.out);
    promql_engine_free(w.engine);
    tsdb_free(w.db);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_promtool_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
