// SPDX-License-Identifier: Apache-2.0
#include "ledger_fixture.h"

#include "base/clock.h"
#include "report/report_private.h"

#include <unistd.h>

static const struct ledger_key rows[] = {
    {.text = {"ml", "deployment/web", "vision", "a", "p", "", "NVIDIA H100", "exclusive"}},
    {.text = {"ml", "job/train", "vision", "b", "p", "", "NVIDIA H100", "attributed"}},
    {.text = {"", "", "", "b", "", "", "Tesla T4", ""}},
};

static json_t *example_report(const char *by, const json_t *prices)
{
    struct ledger_report_options o = {.since_ms = T0,
                                      .until_ms = T0 + 48 * LEDGER_HOUR_MS,
                                      .prices = prices,
                                      .idle_after_ms = LEDGER_HOUR_MS};
    assert_ok(ledger_parse_by(by, o.by, &o.n_by));
    struct ledger_report *r = ledger_report_new(&o);
    const double hour = (double)LEDGER_HOUR_MS;
    ledger_report_add(r, T0, &rows[0], &(struct ledger_amount){{hour, 2 * hour}, hour / 2});
    ledger_report_add(r, T0 + 23 * LEDGER_HOUR_MS, &rows[1],
                      &(struct ledger_amount){{3 * hour, hour / 2, 0, 0, hour}, hour});
    ledger_report_add(r, T0, &rows[2], &(struct ledger_amount){{0, 0, hour, hour / 4, 0}, 0});
    const struct ledger_gpu g = {.id = "",
                                 .uuid = "GPU-1",
                                 .gpu = "3",
                                 .node = "a",
                                 .pool = "p",
                                 .machine = "",
                                 .model = "NVIDIA H100",
                                 .ns = "ml",
                                 .pod = "web-1",
                                 .workload = "deployment/web",
                                 .owner = "vision",
                                 .share = 1,
                                 .idle_since_ms = T0,
                                 .idle_ms = 2 * LEDGER_HOUR_MS};
    struct ledger_gpu recent = g;
    recent.idle_ms = MINUTE;
    ledger_report_add_idle(r, &g);
    ledger_report_add_idle(r, &recent);
    json_t *out = ledger_report_json(r);
    ledger_report_free(r);
    return out;
}

static json_t *price_table(void)
{
    return json_pack("{s:s, s:{s:f}}", "currency", "USD", "gpus", "H100", 24.0);
}

static void test_totals_agree_with_the_rows(void **state)
{
    static const char *const groups[] = {"namespace,workload", "owner", "node",
                                         "day,pool",           "none",  "hour,model,confidence"};
    CODEC_AUTO_JSON json_t *prices = price_table();
    (void)state;
    for (size_t i = 0; i < sizeof(groups) / sizeof(*groups); i++) {
        CODEC_AUTO_JSON json_t *data = example_report(groups[i], prices);
        const char *key;
        json_t *total, *row;
        size_t k;
        json_object_foreach (json_object_get(data, "total"), key, total) {
            double sum = 0;
            json_array_foreach (json_object_get(data, "rows"), k, row)
                sum += report_number(row, key);
            assert_near(sum, json_number_value(total));
        }
        const json_t *all = json_object_get(data, "total");
        assert_near(report_number(all, "hours"), 8.75);
        assert_near(report_number(all, "allocated"), 7.5);
        assert_near(report_number(all, "cost"), 7.5 * 24);
        assert_near(report_number(all, "idleCost"), 2.5 * 24);
        assert_near(report_number(all, "withoutPrice"), 1.25);
    }
}

// They are no hours of a GPU. Reports without them have no such column.
static void test_saved_hours_have_a_price(void **state)
{
    CODEC_AUTO_JSON json_t *prices = price_table();
    struct ledger_report_options o = {
        .since_ms = T0, .until_ms = T0 + 48 * LEDGER_HOUR_MS, .prices = prices};
    GS_AUTO_BUF struct gs_buf table = {0};
    GS_AUTO_BUF struct gs_buf csv = {0};
    GS_AUTO_BUF struct gs_buf without = {0};
    (void)state;
    assert_ok(ledger_parse_by("workload", o.by, &o.n_by));
    struct ledger_report *r = ledger_report_new(&o);
    ledger_report_add(r, T0, &rows[0],
                      &(struct ledger_amount){.ms = {(double)LEDGER_HOUR_MS},
                                              .saved_ms = 3 * (double)LEDGER_HOUR_MS});
    ledger_report_add(r, T0, &rows[2], &(struct ledger_amount){.ms = {(double)LEDGER_HOUR_MS}});
    CODEC_AUTO_JSON json_t *report = ledger_report_json(r);
    ledger_report_free(r);
    const json_t *total = json_object_get(report, "total");
    assert_near(report_number(total, "hours"), 2);
    assert_near(report_number(total, "saved"), 3);
    assert_near(report_number(total, "savedCost"), 72);
    assert_near(report_number(total, "cost"), 24);
    report_print_table(report, &table);
    gs_buf_add_char(&table, '\0');
    assert_non_null(strstr(table.data, "SAVED   SAVED COST"));
    report_print_csv(report, &csv);
    gs_buf_add_char(&csv, '\0');
    assert_non_null(strstr(csv.data, "idleCost,saved,savedCost,currency"));
    CODEC_AUTO_JSON json_t *regrouped = NULL;
    assert_ok(report_regroup(report, &o, &regrouped));
    assert_near(report_number(json_object_get(regrouped, "total"), "saved"), 3);
    CODEC_AUTO_JSON json_t *plain = example_report("workload", prices);
    report_print_csv(plain, &without);
    gs_buf_add_char(&without, '\0');
    assert_null(strstr(without.data, "saved"));
}

static void test_starts_of_the_workloads_of_a_report(void **state)
{
    static const char answer_text[] = "{\"data\":{\"result\":["
#define START(name, workload, phase, more, value)                                                  \
    "{\"metric\":{\"__name__\":\"" name "\",\"namespace\":\"ml\",\"workload\":\"" workload         \
    "\",\"phase\":\"" phase "\"" more "},\"value\":[1,\"" value "\"]}"
#define Q ",\"quantile\":\"0.9\""
        START("s", "deployment/web", "pending", Q, "1") "," START(
            "s", "deployment/web", "total", Q,
            "52.25") "," START("s_count", "deployment/web", "total", "",
                               "5") "," START("s", "deployment/other", "total", Q,
                                              "3") "," START("s", "deployment/web", "ready", Q,
                                                             "NaN") "]}}";
    CODEC_AUTO_JSON json_t *answer = json_loads(answer_text, 0, NULL);
    CODEC_AUTO_JSON json_t *report = example_report("namespace,workload", NULL);
    CODEC_AUTO_JSON json_t *by_node = example_report("node", NULL);
    GS_AUTO_BUF struct gs_buf out = {0};
    (void)state;
    assert_non_null(answer);
    report_read_starts(answer, report);
    report_print_starts(report, &out);
    gs_buf_add_char(&out, '\0');
    assert_string_equal(out.data, "\nStarts of pods, nine of ten within:\n"
                                  "  ml/deployment/web: pending 1.0s total 52.2s, from 5 starts\n");
    report_read_starts(answer, by_node);
    assert_null(json_object_get(by_node, "starts"));
}

static void test_rows_that_waste_most_are_first(void **state)
{
    CODEC_AUTO_JSON json_t *data = example_report("workload", NULL);
    const json_t *first = json_array_get(json_object_get(data, "rows"), 0);
    (void)state;
    assert_string_equal(codec_json_str(first, "workload", NULL), "deployment/web");
    assert_null(json_object_get(first, "cost"));
    assert_error(ledger_parse_by("workload,team", (unsigned[LEDGER_N_BY]){0}, &(size_t){0}),
                 GS_EINVAL, "cannot group by \"team\"");
}

static void test_table_names_idle_gpus_and_their_costs(void **state)
{
    CODEC_AUTO_JSON json_t *prices = price_table();
    CODEC_AUTO_JSON json_t *data = example_report("namespace,workload", prices);
    GS_AUTO_BUF struct gs_buf out = {0};
    (void)state;
    report_print_table(data, &out);
    assert_string_equal(
        out.data,
        "GPU hours from 2026-01-02T02:00:00Z to 2026-01-04T02:00:00Z\n"
        "\n"
        "NAMESPACE         WORKLOAD         GPU HOURS   ALLOCATED   BUSY   IDLE   FREE   STRANDED  "
        " "
        "MISSING     COST   IDLE COST\n"
        "ml                deployment/web        3.00        3.00   1.00   2.00   0.00       0.00  "
        " "
        "   0.00    72.00       48.00\n"
        "ml                job/train             4.50        4.50   3.00   0.50   0.00       0.00  "
        " "
        "   1.00   108.00       12.00\n"
        "(not allocated)                         1.25        0.00   0.00   0.00   1.00       0.25  "
        " "
        "   0.00        -           -\n"
        "total                                   8.75        7.50   4.00   2.50   1.00       0.25  "
        " "
        "   1.00   180.00       60.00\n"
        "Costs are in USD.\n"
        "1.25 GPU hours have no price.\n"
        "\n"
        "Idle now:\n"
        "  ml/deployment/web (pod web-1), GPU 3 of node a (NVIDIA H100): idle for 2 hours, 48.00 "
        "USD so far\n");
}

static void test_texts_of_labels_are_quoted(void **state)
{
    struct ledger_report_options o = {.until_ms = T0};
    const struct ledger_key key = {.text = {"<b>&\"", "=cmd()", "", "a\x1b[1m", "", "", "", ""}};
    (void)state;
    assert_ok(ledger_parse_by("namespace,workload,node", o.by, &o.n_by));
    struct ledger_report *r = ledger_report_new(&o);
    ledger_report_add(r, T0, &key, &(struct ledger_amount){{1}, 0});
    CODEC_AUTO_JSON json_t *data = ledger_report_json(r);
    ledger_report_free(r);
    GS_AUTO_BUF struct gs_buf table = {0};
    GS_AUTO_BUF struct gs_buf csv = {0};
    GS_AUTO_BUF struct gs_buf html = {0};
    report_print_table(data, &table);
    report_print_csv(data, &csv);
    report_print_html(data, &html);
    assert_null(strchr(table.data, '\x1b'));
    assert_non_null(strstr(csv.data, "\n\"<b>&\"\"\",\"'=cmd()\","));
    assert_null(strstr(html.data, "<b>"));
    assert_non_null(strstr(html.data, "&lt;b&gt;&amp;&#34;"));
}

static void test_texts_of_an_engine_cannot_control_the_terminal(void **state)
{
    CODEC_AUTO_JSON json_t *data =
        json_pack("{s:s, s:s, s:s, s:[s], s:[{s:s, s:f}], s:{s:f}}", "since", "\x1b[2J", "until",
                  "\xc2\x9b"
                  "2J",
                  "currency", "\x1b]0;x\x07", "by", "node", "rows", "node", "a\xe2\x80\xae",
                  "hours", 1.0, "total", "cost", 1.0);
    GS_AUTO_BUF struct gs_buf table = {0};
    (void)state;
    report_print_table(data, &table);
    assert_null(strchr(table.data, '\x1b'));
    assert_null(strstr(table.data, "\xc2\x9b"));
    assert_null(strstr(table.data, "\xe2\x80\xae"));
    assert_non_null(strstr(table.data, "Costs are in "));
}

static void test_rows_that_an_engine_has_added_up_stay_so(void **state)
{
    CODEC_AUTO_JSON json_t *prices = price_table();
    static const char *const by[] = {"hour", "day", "namespace"};
    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(by); i++) {
        CODEC_AUTO_JSON json_t *data =
            json_pack("{s:[{s:s, s:f}]}", "rows", by[i], LEDGER_OTHER, "busy", 1.0);
        CODEC_AUTO_JSON json_t *again = NULL;
        struct ledger_report_options o = {.since_ms = T0, .until_ms = T0, .prices = prices};
        assert_ok(ledger_parse_by(by[i], o.by, &o.n_by));
        assert_ok(report_regroup(data, &o, &again));
        const json_t *row = json_array_get(json_object_get(again, "rows"), 0);
        assert_string_equal(codec_json_str(row, by[i], NULL), LEDGER_OTHER);
        assert_near(report_number(row, "busy"), 1);
    }
}

static void test_free_hours_of_others_are_not_allocated(void **state)
{
    const double hour = (double)LEDGER_HOUR_MS;
    const struct ledger_key others = {.text = {LEDGER_OTHER, LEDGER_OTHER, LEDGER_OTHER,
                                               LEDGER_OTHER, LEDGER_OTHER, LEDGER_OTHER,
                                               LEDGER_OTHER, LEDGER_OTHER}};
    struct ledger_report_options o = {.since_ms = T0, .until_ms = T0};
    (void)state;
    assert_ok(ledger_parse_by("namespace", o.by, &o.n_by));
    GS_CLEANUP(ledger_report_freep) struct ledger_report *r = ledger_report_new(&o);
    ledger_report_add(r, T0, &others, &(struct ledger_amount){{hour, hour, hour, hour}, hour});
    CODEC_AUTO_JSON json_t *data = ledger_report_json(r);
    assert_near(report_number(json_object_get(data, "total"), "hours"), 4);
    assert_near(report_number(json_object_get(data, "total"), "allocated"), 2);
}

// Returns how many GPUs are idle according to the file of a ledger.
static size_t idle_of_file(const char *path, int64_t written_ms)
{
    const struct ledger_gpu g = {.id = "1",
                                 .uuid = "GPU-1",
                                 .gpu = "1",
                                 .node = "a",
                                 .pool = "",
                                 .machine = "",
                                 .model = "",
                                 .ns = "ml",
                                 .pod = "web-1",
                                 .workload = "",
                                 .owner = "",
                                 .share = 1,
                                 .seen_ms = written_ms,
                                 .idle_since_ms = written_ms - 2 * LEDGER_HOUR_MS,
                                 .idle_ms = 2 * LEDGER_HOUR_MS};
    const struct report_options o = {.file = path};
    const struct report_request request = {
        .o = &o, .report = {.since_ms = T0, .until_ms = T0 + 1, .idle_after_ms = LEDGER_HOUR_MS}};
    GS_CLEANUP(ledger_table_freep) struct ledger_table *t = ledger_table_new(1);
    GS_CLEANUP(ledger_meter_freep) struct ledger_meter *m = ledger_meter_new();
    struct ledger_store *s;
    CODEC_AUTO_JSON json_t *data = NULL;
    ledger_meter_restore(m, &g);
    assert_ok(ledger_store_open(path, &s));
    assert_ok(ledger_store_write(s, t, m, written_ms));
    assert_ok(report_from_file(&request, &data));
    ledger_store_close(s);
    return json_array_size(json_object_get(data, "idle"));
}

static void test_old_file_lists_no_gpu_as_idle_now(void **state)
{
    char dir[] = "/tmp/ledger-XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(dir));
    GS_AUTO_FREE char *path = gs_format("%s/ledger.db", dir);
    assert_int_equal(idle_of_file(path, gs_unix_ms()), 1);
    assert_int_equal(idle_of_file(path, gs_unix_ms() - LEDGER_HOUR_MS), 0);
    assert_int_equal(unlink(path), 0); // the last writer has removed its log
    assert_int_equal(rmdir(dir), 0);
}

static void test_report_of_an_engine_is_grouped_again(void **state)
{
    CODEC_AUTO_JSON json_t *prices = price_table();
    CODEC_AUTO_JSON json_t *fine = example_report("owner,namespace,machine,pool,model", NULL);
    CODEC_AUTO_JSON json_t *again = NULL;
    struct ledger_report_options o = {.since_ms = T0, .until_ms = T0, .prices = prices};
    (void)state;
    assert_ok(ledger_parse_by("owner", o.by, &o.n_by));
    assert_ok(report_regroup(fine, &o, &again));
    const json_t *row = json_array_get(json_object_get(again, "rows"), 0);
    assert_string_equal(codec_json_str(row, "owner", NULL), "vision");
    assert_near(report_number(row, "cost"), 7.5 * 24);
    assert_near(report_number(json_array_get(json_object_get(again, "idle"), 0), "cost"), 48);
    CODEC_AUTO_JSON json_t *wrong = json_pack("{s:[{s:s}]}", "rows", "hour", "noon");
    CODEC_AUTO_JSON json_t *none = NULL;
    assert_error(report_regroup(wrong, &o, &none), GS_EINVAL, "the report of the engine");
    assert_error(report_regroup(NULL, &o, &none), GS_EPROTO, "no rows");
}

// --- budgets ---

static json_t *answer_of(const char *result)
{
    GS_AUTO_FREE char *text = gs_format("{\"data\":{\"result\":[%s]}}", result);
    json_t *out = json_loads(text, 0, NULL);
    assert_non_null(out);
    return out;
}

#define OF_WEB "\"namespace\":\"chat\",\"horizontalpodautoscaler\":\"web\""
#define SERIES(labels, value)                                                                      \
    "{\"metric\":{\"budget\":\"h100\"" labels "},\"value\":[1,\"" value "\"]}"

static json_t *report_with_budgets(void)
{
    static const char *const results[] = {
        SERIES("", "16"),
        SERIES("", "1"),
        SERIES("", "1"),
        SERIES(",\"kind\":\"budget\"", "57600") "," SERIES(",\"kind\":\"used\"", "3600") "," //
        SERIES("," OF_WEB ",\"kind\":\"granted\"", "7200") ","                               //
        SERIES("," OF_WEB ",\"kind\":\"used\"", "5400") ","                                  //
        SERIES("," OF_WEB ",\"kind\":\"refused\"", "1800"),
        SERIES("", "900") "," SERIES("," OF_WEB, "900"),
        SERIES(",\"from\":\"batch/a\",\"to\":\"chat/web\",\"idle\":\"true\"", "2.02") "," SERIES(
            ",\"from\":\"batch/b\",\"to\":\"chat/web\",\"idle\":\"false\"", "NaN"),
    };
    json_t *answers[GS_ARRAY_LEN(results)], *data = example_report("namespace", NULL);
    for (size_t i = 0; i < GS_ARRAY_LEN(results); i++)
        answers[i] = answer_of(results[i]);
    report_read_budgets((const json_t *const *)answers, data);
    for (size_t i = 0; i < GS_ARRAY_LEN(results); i++)
        json_decref(answers[i]);
    return data;
}

static void test_budgets_have_their_hours_by_workload_and_who_took_what(void **state)
{
    CODEC_AUTO_JSON json_t *data = report_with_budgets();
    const json_t *b = json_array_get(json_object_get(data, "budgets"), 0);
    const json_t *web = json_array_get(json_object_get(b, "workloads"), 0);
    GS_AUTO_BUF struct gs_buf table = {0};
    (void)state;
    assert_true(codec_json_bool(data, false, "simulated", NULL));
    assert_string_equal(codec_json_str(b, "mode", NULL), "enforce");
    assert_near(report_number(b, "hours"), 16);
    assert_near(report_number(b, "others"), 1);
    assert_near(report_number(b, "used"), 2.5);
    assert_near(report_number(web, "granted"), 2);
    assert_near(report_number(web, "refused"), 0.5);
    assert_near(report_number(web, "limited"), 0.25);
    assert_int_equal(json_array_size(json_object_get(b, "moves")), 1);
    report_print_table(data, &table);
    assert_non_null(strstr(table.data, "Budget h100: 16 GPUs, 16.00 GPU hours, simulated GPUs\n"));
    assert_non_null(strstr(table.data, "  chat/web "));
    assert_non_null(strstr(table.data, "  chat/web took 2 GPUs from batch/a, which were idle\n"));
}

static void test_budgets_are_in_csv_and_html(void **state)
{
    CODEC_AUTO_JSON json_t *data = report_with_budgets();
    GS_AUTO_BUF struct gs_buf csv = {0};
    GS_AUTO_BUF struct gs_buf html = {0};
    (void)state;
    report_print_budgets_csv(data, &csv);
    assert_string_equal(
        csv.data,
        "budget,mode,simulated,autoscaler,took from,idle,granted,used,refused,over,limited,taken "
        "gpus\n"
        "h100,enforce,true,,,,2.000000,2.500000,0.500000,0.000000,0.250000,\n"
        "h100,enforce,true,chat/web,,,2.000000,1.500000,0.500000,0.000000,0.250000,\n"
        "h100,enforce,true,(pods without one),,,0.000000,1.000000,0.000000,0.000000,0.000000,\n"
        "h100,enforce,true,chat/web,batch/a,true,,,,,,2\n");
    report_print_html(data, &html);
    assert_non_null(strstr(html.data, "<h2>Budget h100: 16 GPUs"));
    assert_non_null(strstr(html.data, "<li>chat/web took 2 GPUs from batch/a"));
}

// With a look at all workloads for each series, this takes a minute.
static void test_a_budget_of_many_workloads(void **state)
{
    static const char *const kinds[] = {"granted", "used", "refused", "over"};
    const json_t *answers[6] = {0};
    CODEC_AUTO_JSON json_t *data = example_report("namespace", NULL);
    CODEC_AUTO_JSON json_t *size = answer_of(SERIES("", "16"));
    CODEC_AUTO_JSON json_t *result = json_array();
    (void)state;
    for (int i = 0; i < 100000; i++)
        json_array_append_new(result,
                              json_pack("{s:{s:s, s:s, s:o, s:s}, s:[i, s]}", "metric", "budget",
                                        "h100", "namespace", "chat", "horizontalpodautoscaler",
                                        codec_json_strf("web-%d", i / 4), "kind", kinds[i % 4],
                                        "value", 1, "3600"));
    CODEC_AUTO_JSON json_t *seconds = json_pack("{s:{s:O}}", "data", "result", result);
    answers[0] = size;
    answers[3] = seconds;
    report_read_budgets(answers, data);
    const json_t *b = json_array_get(json_object_get(data, "budgets"), 0);
    const json_t *list = json_object_get(b, "workloads");
    assert_int_equal(json_array_size(list), 20000);
    assert_near(report_number(json_array_get(list, 19999), "over"), 1);
    assert_near(report_number(b, "granted"), 20000);
    assert_null(json_object_get(b, "byName"));
}

static json_t *report_with_kinds_of(const char *hostile)
{
    static const char format[] = SERIES("," OF_WEB ",\"kind\":\"%s\"", "7200") "," //
        SERIES(",\"kind\":\"%s\"", "7200") ","                                     //
        SERIES("," OF_WEB ",\"kind\":\"granted\"", "3600");
    const json_t *answers[6] = {0};
    json_t *data = example_report("namespace", NULL);
    GS_AUTO_FREE char *text = gs_format(format, hostile, hostile);
    CODEC_AUTO_JSON json_t *size = answer_of(SERIES("", "16"));
    CODEC_AUTO_JSON json_t *seconds = answer_of(text);
    answers[0] = size;
    answers[3] = seconds;
    report_read_budgets(answers, data);
    return data;
}

static void test_a_kind_of_any_text_changes_nothing(void **state)
{
    static const char *const kinds[] = {"workloads", "moves", "name",   "namespace",
                                        "others",    "hours", "limited"};
    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(kinds); i++) {
        CODEC_AUTO_JSON json_t *data = report_with_kinds_of(kinds[i]);
        const json_t *b = json_array_get(json_object_get(data, "budgets"), 0);
        const json_t *web = json_array_get(json_object_get(b, "workloads"), 0);
        assert_string_equal(codec_json_str(b, "name", NULL), "h100");
        assert_true(json_is_array(json_object_get(b, "moves")));
        assert_near(report_number(b, "hours") + report_number(b, "others"), 0);
        assert_string_equal(codec_json_str(web, "namespace", NULL), "chat");
        assert_near(report_number(web, "granted"), 1);
        assert_near(report_number(web, "limited"), 0);
    }
}

static void test_budgets_of_a_query_that_failed_are_not_0(void **state)
{
    CODEC_AUTO_JSON json_t *data = report_with_budgets();
    GS_AUTO_BUF struct gs_buf table = {0};
    GS_AUTO_BUF struct gs_buf html = {0};
    (void)state;
    report_set_budgets_unknown(data, "HTTP status 503: <busy>");
    report_print_table(data, &table);
    assert_null(strstr(table.data, "Budget h100"));
    assert_non_null(strstr(table.data, "\nGPU budgets are unknown: HTTP status 503: <busy>\n"));
    report_print_html(data, &html);
    assert_non_null(strstr(html.data, "GPU budgets are unknown: HTTP status 503: &lt;busy&gt;"));
}

static void test_a_budget_without_counters_has_no_hours(void **state)
{
    const json_t *answers[6] = {0};
    CODEC_AUTO_JSON json_t *data = example_report("namespace", NULL);
    CODEC_AUTO_JSON json_t *size = answer_of(SERIES("", "16"));
    GS_AUTO_BUF struct gs_buf table = {0};
    GS_AUTO_BUF struct gs_buf csv = {0};
    GS_AUTO_BUF struct gs_buf html = {0};
    (void)state;
    answers[0] = size;
    report_read_budgets(answers, data);
    report_print_budgets(data, &table);
    assert_string_equal(table.data, "\nBudget h100: 16 GPUs, GPU hours unknown: no series\n");
    report_print_budgets_csv(data, &csv);
    assert_non_null(strstr(csv.data, "\nh100,,false,,,,,,,,,\n"));
    report_print_budgets_html(data, &html);
    assert_null(strstr(html.data, "0.00"));
}

static void test_a_report_without_budgets_has_none(void **state)
{
    const json_t *answers[6] = {0};
    CODEC_AUTO_JSON json_t *data = example_report("namespace", NULL);
    (void)state;
    report_read_budgets(answers, data);
    assert_null(json_object_get(data, "budgets"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_totals_agree_with_the_rows),
        cmocka_unit_test(test_saved_hours_have_a_price),
        cmocka_unit_test(test_starts_of_the_workloads_of_a_report),
        cmocka_unit_test(test_rows_that_waste_most_are_first),
        cmocka_unit_test(test_table_names_idle_gpus_and_their_costs),
        cmocka_unit_test(test_texts_of_labels_are_quoted),
        cmocka_unit_test(test_texts_of_an_engine_cannot_control_the_terminal),
        cmocka_unit_test(test_rows_that_an_engine_has_added_up_stay_so),
        cmocka_unit_test(test_free_hours_of_others_are_not_allocated),
        cmocka_unit_test(test_old_file_lists_no_gpu_as_idle_now),
        cmocka_unit_test(test_report_of_an_engine_is_grouped_again),
        cmocka_unit_test(test_budgets_have_their_hours_by_workload_and_who_took_what),
        cmocka_unit_test(test_budgets_are_in_csv_and_html),
        cmocka_unit_test(test_a_budget_of_many_workloads),
        cmocka_unit_test(test_a_kind_of_any_text_changes_nothing),
        cmocka_unit_test(test_budgets_of_a_query_that_failed_are_not_0),
        cmocka_unit_test(test_a_budget_without_counters_has_no_hours),
        cmocka_unit_test(test_a_report_without_budgets_has_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
