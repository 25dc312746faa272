// SPDX-License-Identifier: Apache-2.0
// Windows, tables and JSON as text.
#include "unit.h"

#include "base/columns.h"
#include "base/mem.h"
#include "top_samples.h"

#include <stdlib.h>
#include <time.h>

#define NOW INT64_C(1700000000000)

struct fixture {
    struct top_model model;
    struct top_ui ui;
    struct top_frame frame;
    struct top_status status;
    char *plain; // the last frame without styles
};

static int setup(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    setenv("TZ", "UTC", 1);
    tzset();
    top_model_init(&f->model, 2000);
    f->ui.interval_ms = 2000;
    for (int i = 0; i < TOP_PANES; i++)
        f->ui.order[i].column = -1;
    f->status = (struct top_status){.source = "http://node-1:9400/metrics", .now_ms = NOW};
    feed(&f->model, three_gpus, NOW);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    top_model_finish(&f->model);
    top_ui_finish(&f->ui);
    top_frame_finish(&f->frame);
    free(f->plain);
    free(f);
    return 0;
}

// Without styles, and without blanks at the ends of lines.
static char *plain_text(struct gs_slice s)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    for (size_t i = 0; i < s.len; i++) {
        if (s.data[i] == '\033')
            while (s.data[i] != 'm')
                i++;
        else if (s.data[i] == '\n') {
            while (out.len && out.data[out.len - 1] == ' ')
                out.len--;
            gs_buf_add_char(&out, '\n');
        } else {
            gs_buf_add_char(&out, s.data[i]);
        }
    }
    return gs_buf_take(&out);
}

static const char *draw(struct fixture *f, size_t rows, size_t columns)
{
    top_frame_draw(&f->model, &f->ui, &f->status, rows, columns, &f->frame);
    struct gs_slice rest = gs_buf_slice(&f->frame.text);
    size_t n = 0;
    while (rest.len) {
        assert_true(gs_columns_width(gs_slice_cut(&rest, '\n')) <= columns);
        n++;
    }
    assert_int_equal(n, rows);
    free(f->plain);
    f->plain = plain_text(gs_buf_slice(&f->frame.text));
    return f->plain;
}

static void test_a_window_shows_gpus_pods_and_keys(void **state)
{
    const char *text = draw(*state, 12, 100);
    assert_non_null(strstr(text, "gpuscale top  SIMULATED GPUs  http://node-1:9400/metrics"));
    assert_non_null(strstr(text, "every 2 s  22:13:20"));
    assert_non_null(strstr(
        text,
        "3 GPUs: 1 busy, 1 idle, 1 lost · utilization 42% · memory 40/159 GiB · 312 W · 1 pod"));
    assert_non_null(strstr(text, "   0 A100-SXM4-80GB   83% "));
    assert_non_null(strstr(text, "40.0/80G"));
    assert_non_null(strstr(text, " lost "));
    assert_non_null(strstr(text, "ml/train-0\n"));
    assert_non_null(strstr(text, "\nNAMESPACE"));
    assert_non_null(strstr(text, "q quit  ? help  / filter"));
}

static void test_every_window_size_is_drawn(void **state)
{
    for (size_t rows = 1; rows < 40; rows++)
        for (size_t columns = 1; columns < 140; columns += 3)
            (void)draw(*state, rows, columns);
    (void)draw(*state, 1000, 1000);
    struct fixture *f = *state;
    f->ui.help = true;
    (void)draw(f, 3, 20);
    f->ui.help = false;
    f->ui.details = true;
    for (size_t rows = 1; rows < 60; rows += 7)
        (void)draw(f, rows, rows * 2);
}

static void test_sixty_columns_show_what_matters(void **state)
{
    const char *text = draw(*state, 12, 60);
    assert_non_null(strstr(text, " 83%"));
    assert_non_null(strstr(text, "40.0/80G"));
    assert_non_null(strstr(text, "64C"));
    assert_non_null(strstr(text, "train-0"));
}

static void test_rows_are_sorted_and_missing_values_are_last(void **state)
{
    struct fixture *f = *state;
    struct top_rows rows;
    struct top_order order = {.column = top_columns_find(TOP_GPUS, "util")};
    for (int reverse = 0; reverse < 2; reverse++) {
        order.reverse = reverse;
        top_rows_select(&f->model, TOP_GPUS, &order, NULL, NOW, &rows);
        assert_int_equal(rows.len, 3);
        assert_int_equal(rows.items[0], reverse ? 1 : 0);
        assert_int_equal(rows.items[2], 2); // lost
        top_rows_finish(&rows);
    }
}

static void test_a_filter_needs_all_words(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *filter;
        size_t gpus, pods;
    } cases[] = {{"", 3, 1},     {"A100", 2, 0}, {"a100 train", 1, 0}, {"TRAIN", 1, 1},
                 {"gpu1", 1, 0}, {"lost", 1, 0}, {"nothing", 0, 0},    {"  ", 3, 1}};
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct top_order order = {.column = -1};
        struct top_rows rows;
        top_rows_select(&f->model, TOP_GPUS, &order, cases[i].filter, NOW, &rows);
        assert_int_equal(rows.len, cases[i].gpus);
        top_rows_finish(&rows);
        top_rows_select(&f->model, TOP_PODS, &order, cases[i].filter, NOW, &rows);
        assert_int_equal(rows.len, cases[i].pods);
        top_rows_finish(&rows);
    }
    memcpy(f->ui.filter, "nothing", 8);
    assert_non_null(strstr(draw(f, 12, 100), "No GPUs match the filter"));
    assert_non_null(strstr(f->plain, "Filter: nothing (Esc removes)"));
}

static void test_the_cursor_follows_its_row(void **state)
{
    struct fixture *f = *state;
    (void)draw(f, 12, 100);
    assert_string_equal(f->ui.selected[TOP_GPUS], f->model.gpus[0]->key);
    top_ui_key(&f->ui, TOP_KEY_DOWN);
    (void)draw(f, 12, 100);
    assert_string_equal(f->ui.selected[TOP_GPUS], f->model.gpus[1]->key);
    top_ui_key(&f->ui, 'U');
    (void)draw(f, 12, 100);
    assert_int_equal(f->ui.cursor[TOP_GPUS], 1);
    top_ui_key(&f->ui, 'r');
    (void)draw(f, 12, 100);
    assert_int_equal(f->ui.cursor[TOP_GPUS], 0);
}

static void test_a_source_that_does_not_respond_is_reported(void **state)
{
    struct fixture *f = *state;
    f->status.problem = "connection refused";
    f->status.now_ms = NOW + 60000;
    const char *text = draw(f, 12, 100);
    assert_non_null(strstr(text, "No new values since 22:13:20: connection refused"));
    assert_non_null(strstr(text, "83%")); // the last value
    assert_non_null(strstr(text, "stale 60s"));
    assert_non_null(strstr(text, "2 stale"));
    f->model.complete = false;
    assert_non_null(strstr(draw(f, 12, 100), "No values yet: connection refused"));
}

static void test_details_have_charts_and_related_rows(void **state)
{
    struct fixture *f = *state;
    (void)draw(f, 12, 100);
    top_ui_key(&f->ui, TOP_KEY_ENTER);
    const char *text = draw(f, 60, 100);
    assert_non_null(strstr(text, "GPU 0  A100-SXM4-80GB  (simulated)"));
    assert_non_null(strstr(text, "Memory         40960 MiB used of 81920 MiB"));
    assert_non_null(strstr(text, "SM clock       -"));
    assert_non_null(strstr(text, "\nPods\n"));
    assert_non_null(strstr(text, "\nProcesses\n"));
    assert_non_null(strstr(text, "python3"));
    f->ui.scroll = 1000000; // ends at the last line
    assert_non_null(strstr(draw(f, 20, 100), "python3"));
    feed(&f->model, "", NOW + 3600000);
    assert_non_null(strstr(draw(f, 20, 100), "It no longer exists."));
    f->ui.details = false;
    top_ui_key(&f->ui, '2');
    feed(&f->model, three_gpus, NOW);
    (void)draw(f, 12, 100);
    top_ui_key(&f->ui, TOP_KEY_ENTER);
    assert_non_null(strstr(draw(f, 60, 100), "Pod ml/train-0"));
    f->ui.details = false;
    top_ui_key(&f->ui, '3');
    (void)draw(f, 12, 100);
    top_ui_key(&f->ui, TOP_KEY_ENTER);
    assert_non_null(strstr(draw(f, 60, 100), "Process 4711  python3"));
}

static size_t line_of(const struct fixture *f, const char *text)
{
    const char *at = strstr(f->plain, text);
    size_t n = 0;
    assert_non_null(at);
    for (const char *c = f->plain; c < at; c++)
        n += *c == '\n';
    return n;
}

static void test_clicks_select_sort_and_open(void **state)
{
    struct fixture *f = *state;
    (void)draw(f, 14, 100);
    size_t line = line_of(f, "Tesla T4");
    top_frame_click(&f->frame, &f->ui, line, 10);
    (void)draw(f, 14, 100);
    assert_int_equal(f->ui.cursor[TOP_GPUS], 2);
    assert_false(f->ui.details);
    top_frame_click(&f->frame, &f->ui, line, 10);
    assert_true(f->ui.details);
    assert_non_null(strstr(draw(f, 14, 100), "Tesla T4"));
    top_frame_click(&f->frame, &f->ui, 5, 10);
    assert_false(f->ui.details);
    (void)draw(f, 14, 100);
    line = line_of(f, " GPU MODEL");
    top_frame_click(&f->frame, &f->ui, line, 5);
    assert_int_equal(f->ui.order[TOP_GPUS].column, top_columns_find(TOP_GPUS, "model"));
    (void)draw(f, 14, 100);
    top_frame_click(&f->frame, &f->ui, line, 5);
    assert_true(f->ui.order[TOP_GPUS].reverse);
    top_frame_click(&f->frame, &f->ui, 5000, 5);
    top_frame_click(&f->frame, &f->ui, 0, 5000);
}

static void test_many_rows_scroll(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_BUF struct gs_buf text = {0};
    for (int i = 0; i < 3000; i++)
        gs_buf_addf(&text,
                    "DCGM_FI_DEV_GPU_UTIL{gpu=\"%d\",UUID=\"G%d\",hostname=\"node-%d\"} %d\n",
                    i % 8, i, i / 8, i % 101);
    feed(&f->model, text.data, NOW + 1000);
    f->status.now_ms = NOW + 1000;
    top_ui_key(&f->ui, TOP_KEY_END);
    (void)draw(f, 20, 80);
    top_ui_key(&f->ui, TOP_KEY_END);
    const char *window = draw(f, 20, 100);
    assert_non_null(strstr(window, "of 3003"));
    assert_non_null(strstr(window, "node-374"));
    assert_int_equal(f->ui.cursor[TOP_GPUS], 3002);
}

static void test_wide_names_keep_the_columns(void **state)
{
    struct fixture *f = *state;
    feed(&f->model,
         "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"x\",hostname=\"模型模型模型模型模型模型模型\","
         "namespace=\"n\",pod=\"\xef\xbf\xbdé模\"} 5\n"
         "DCGM_FI_DEV_GPU_UTIL{gpu=\"1\",UUID=\"y\",hostname=\"\033]0;title\007\",namespace=\"n\","
         "pod=\"a\\nb\"} 5\n",
         NOW);
    for (size_t columns = 10; columns < 120; columns++)
        (void)draw(f, 12, columns);
}

static void test_the_table_has_no_history(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_BUF struct gs_buf out = {0};
    top_print_table(&f->model, &f->ui, &f->status, 1 << 20, &out);
    assert_string_equal(out.data,
                        " GPU MODEL           UTIL  MEM   MEMORY  TEMP  POWER  AGE PODS\n"
                        "   0 A100-SXM4-80GB   83%  50% 40.0/80G   64C   312W   0s ml/train-0\n"
                        "   1 A100-SXM4-80GB    0%   0%  0.0/79G     -      -   0s -\n"
                        "   2 Tesla T4        lost    -        -     -      -   0s -\n"
                        "\n"
                        "NAMESPACE  POD      GPUS  UTIL  MEMORY  AGE\n"
                        "ml         train-0     1   83%   40.0G    -\n"
                        "\n"
                        " GPU  PID TYPE   UTIL  MEMORY PROCESS  POD\n"
                        "   0 4711 C       81%   39.1G python3  ml/train-0\n");
}

static void test_json_has_null_for_missing_values(void **state)
{
    struct fixture *f = *state;
    CODEC_AUTO_JSON json_t *j = top_print_json(&f->model, &f->ui, &f->status);
    const json_t *gpu = json_array_get(json_object_get(j, "gpus"), 1);
    assert_int_equal(json_array_size(json_object_get(j, "gpus")), 3);
    assert_true(json_is_true(json_object_get(j, "simulated")));
    assert_int_equal(codec_json_int(gpu, -1, "utilizationPercent", NULL), 0);
    assert_true(json_is_null(json_object_get(gpu, "temperatureCelsius")));
    assert_string_equal(
        codec_json_str(json_array_get(json_object_get(j, "gpus"), 2), "state", NULL), "lost");
    assert_string_equal(codec_json_str(json_array_get(json_object_get(j, "pods"), 0), "name", NULL),
                        "train-0");
    assert_int_equal(json_array_size(json_object_get(j, "processes")), 1);
}

static void test_a_source_without_gpus_summarizes_pods(void **state)
{
    struct fixture *f = *state;
    struct top_model m;
    struct top_samples s = {0};
    struct top_label labels[] = {{GS_SLICE("namespace"), GS_SLICE("ml")},
                                 {GS_SLICE("pod"), GS_SLICE("a")}};
    static const struct {
        const char *name;
        double value;
    } samples[] = {{"kube_pod_container_resource_requests", 2},
                   {TOP_POD_UTIL, 40},
                   {TOP_POD_UTIL, 90}, // the first metric counts
                   {TOP_POD_USED, 2048}};
    for (size_t i = 0; i < GS_ARRAY_LEN(samples); i++) {
        struct top_sample x = {gs_slice_of(samples[i].name), labels, 2, samples[i].value, NOW};
        assert_ok(top_samples_add(&s, &x));
    }
    top_samples_note(&s, "some values\033 are missing");
    top_samples_note(&s, "another note");
    top_model_init(&m, 2000);
    top_model_update(&m, &s, NOW);
    f->ui.pane = TOP_PODS;
    top_frame_draw(&m, &f->ui, &f->status, 10, 100, &f->frame);
    free(f->plain);
    f->plain = plain_text(gs_buf_slice(&f->frame.text));
    assert_non_null(
        strstr(f->plain, "1 pod · 2 GPUs requested · mean utilization 40% of 1 with values\n"));
    assert_non_null(strstr(f->plain, "some values\xef\xbf\xbd are missing\n"));
    assert_non_null(strstr(f->plain, "2.0G"));
    assert_null(strstr(f->plain, "No GPUs"));
    top_model_finish(&m);
    top_samples_finish(&s);
}

static void test_other_character_sets_get_ascii_of_the_same_width(void **state)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    top_frame_ascii(GS_SLICE("a ▁▄█ … ▼ 模 é\xff \033[1mx\n"), &out);
    assert_string_equal(out.data, "a _-# ~ v ?? ?? \033[1mx\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_window_shows_gpus_pods_and_keys, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_window_size_is_drawn, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sixty_columns_show_what_matters, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rows_are_sorted_and_missing_values_are_last, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_filter_needs_all_words, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_cursor_follows_its_row, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_source_that_does_not_respond_is_reported, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_details_have_charts_and_related_rows, setup, teardown),
        cmocka_unit_test_setup_teardown(test_clicks_select_sort_and_open, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_rows_scroll, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wide_names_keep_the_columns, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_table_has_no_history, setup, teardown),
        cmocka_unit_test_setup_teardown(test_json_has_null_for_missing_values, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_source_without_gpus_summarizes_pods, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_other_character_sets_get_ascii_of_the_same_width,
                                        setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
