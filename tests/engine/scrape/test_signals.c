// SPDX-License-Identifier: Apache-2.0
// Targets that are pods with an inference engine: the family beside the series of the page.
#include "engine/scrape/scrape.h"

#include "../../kube/loop.h"
#include "base/mem.h"
#include "net/http/server.h"

struct fixture {
    uv_loop_t loop;
    struct http_server *server;
    struct tsdb *db;
    struct signals_table *table;
    struct scrape_manager *manager;
    struct engine_config *config;
    const char *page, *second_page; // of /metrics and /second; NULL: status 500
};

static void serve(void *ctx, struct http_exchange *x)
{
    const struct fixture *f = ctx;
    const char *page = gs_streq(http_path(x), "/second") ? f->second_page : f->page;
    http_reply(x, page ? 200 : 500, "text/plain; version=0.0.4", gs_slice_of(page ? page : ""));
}

static void setup(struct fixture *f)
{
    *f = (struct fixture){.page = NULL};
    uv_loop_init(&f->loop);
    const struct http_server_config cfg = {.address = "127.0.0.1"};
    assert_ok(http_server_start(&f->loop, &cfg, serve, f, &f->server));
    assert_ok(signals_table_load(NULL, &f->table));
    f->db = tsdb_new(NULL);
    const struct scrape_manager_config scraping = {.signals = f->table};
    f->manager = scrape_manager_new(&f->loop, f->db, &scraping);
}

static void finish(struct fixture *f)
{
    scrape_manager_free(f->manager);
    http_server_stop(f->server);
    engine_config_free(f->config);
    loop_finish(&f->loop);
    signals_table_free(f->table);
    tsdb_free(f->db);
}

static void apply(struct fixture *f, const char *format)
{
    struct engine_config *c;
    GS_AUTO_FREE char *port = gs_format("%d", http_server_port(f->server));
    GS_AUTO_BUF struct gs_buf text = {0};
    for (const char *p = format; *p; p++) {
        if (*p == '@')
            gs_buf_addf(&text, "127.0.0.1:%s", port);
        else
            gs_buf_add_char(&text, *p);
    }
    assert_ok(engine_config_parse(gs_buf_slice(&text), "p.yml", ".", &c));
    scrape_manager_apply(f->manager, c);
    engine_config_free(f->config);
    f->config = c;
}

// The number of series with this name and model, and the newest value of one that has not ended, or
// -1.
static double value_of(struct fixture *f, const char *name, const char *model)
{
    const struct tsdb_matcher m[] = {{GS_SLICE("__name__"), gs_slice_of(name), TSDB_EQ, NULL},
                                     {GS_SLICE("model"), gs_slice_of(model), TSDB_EQ, NULL},
                                     {GS_SLICE("pod"), GS_SLICE("llm-0"), TSDB_EQ, NULL},
                                     {GS_SLICE("namespace"), GS_SLICE("ai"), TSDB_EQ, NULL}};
    struct tsdb_refs refs = {0};
    double v = -1;
    assert_ok(tsdb_find(f->db, m, 4, 0, INT64_MAX, 0, &refs));
    assert_in_range(refs.len, 0, 1);
    if (refs.len)
        tsdb_latest(f->db, refs.items, 1, INT64_MAX, 0, &v, NULL);
    tsdb_refs_finish(&refs);
    return tsdb_is_stale(v) ? -1 : v;
}

#define LABELS "labels: {namespace: ai, pod: llm-0}"
#define ONE_JOB                                                                                    \
    "global: {scrape_interval: 50ms, scrape_timeout: 50ms}\n"                                      \
    "scrape_configs:\n"                                                                            \
    "- {job_name: a, static_configs: [{targets: ['@'], " LABELS "}]}\n"
#define TWO_JOBS                                                                                   \
    ONE_JOB "- {job_name: b, metrics_path: /second, static_configs: [{targets: ['@'], " LABELS     \
            "}]}\n"
#define PAGE(waiting)                                                                              \
    "vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} " waiting "\n"                       \
    "vllm:num_requests_waiting{engine=\"1\",model_name=\"m\"} 1\n"                                 \
    "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\"} 0.5\n"

#define WAITING "gpuscale_inference_waiting"

static void test_a_scraped_engine_has_the_family(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    f.page = PAGE("4");
    apply(&f, ONE_JOB);
    loop_until(&f.loop, value_of(&f, WAITING, "m") == 5);
    assert_float_equal(value_of(&f, "gpuscale_inference_kv_used_ratio", "m"), 0.5, 0);
    assert_float_equal(value_of(&f, "gpuscale_inference_running", "m"), -1, 0); // absent
    f.page = PAGE("9");
    loop_until(&f.loop, value_of(&f, WAITING, "m") == 10);
    f.page = NULL; // the series end with the page
    loop_until(&f.loop, value_of(&f, WAITING, "m") == -1);
    f.page = PAGE("2");
    loop_until(&f.loop, value_of(&f, WAITING, "m") == 3);
    apply(&f, "scrape_configs: []\n");
    assert_float_equal(value_of(&f, WAITING, "m"), -1, 0);
    finish(&f);
}

static void test_two_jobs_of_one_pod_store_one_family(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    f.page = PAGE("4");
    apply(&f, ONE_JOB);
    loop_until(&f.loop, value_of(&f, WAITING, "m") == 5);
    f.second_page = PAGE("100");
    apply(&f, TWO_JOBS);
    CODEC_AUTO_JSON json_t *both = NULL;
    loop_until(&f.loop, (json_decref(both), both = scrape_signals_json(f.manager),
                         json_array_size(both) == 2));
    assert_float_equal(value_of(&f, WAITING, "m"), 5, 0);
    f.page = NULL; // the other job goes on
    loop_until(&f.loop, value_of(&f, WAITING, "m") == 101);
    finish(&f);
}

static void test_histograms_keep_the_buckets_of_the_page(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    f.page = "sglang:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"0.5\"} 3\n"
             "sglang:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"+Inf\"} 4\n"
             "sglang:time_to_first_token_seconds_sum{model_name=\"m\"} 2.5\n"
             "sglang:time_to_first_token_seconds_count{model_name=\"m\"} 4\n";
    apply(&f, ONE_JOB);
    loop_until(&f.loop, value_of(&f, "gpuscale_inference_ttft_seconds_count", "m") == 4);
    assert_float_equal(value_of(&f, "gpuscale_inference_ttft_seconds_sum", "m"), 2.5, 0);
    const struct tsdb_matcher m[] = {
        {GS_SLICE("__name__"), GS_SLICE("gpuscale_inference_ttft_seconds_bucket"), TSDB_EQ, NULL}};
    struct tsdb_refs refs = {0};
    assert_ok(tsdb_find(f.db, m, 1, 0, INT64_MAX, 0, &refs));
    assert_int_equal(refs.len, 2);
    tsdb_refs_finish(&refs);
    finish(&f);
}

static void test_relabeling_of_the_series_does_not_change_the_family(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    f.page = PAGE("4");
    apply(&f, "global: {scrape_interval: 50ms, scrape_timeout: 50ms}\n"
              "scrape_configs:\n"
              "- job_name: a\n"
              "  static_configs: [{targets: ['@'], " LABELS "}]\n"
              "  metric_relabel_configs: [{action: drop, source_labels: [__name__], regex: "
              "'vllm:.*'}]\n");
    loop_until(&f.loop, value_of(&f, WAITING, "m") == 5);
    assert_float_equal(value_of(&f, "vllm:num_requests_waiting", ""), -1, 0);
    finish(&f);
}

static void test_a_target_without_a_pod_has_no_family(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    f.page = PAGE("4");
    apply(&f, "global: {scrape_interval: 50ms, scrape_timeout: 50ms}\n"
              "scrape_configs:\n"
              "- {job_name: a, static_configs: [{targets: ['@'], " LABELS "}]}\n"
              "- {job_name: b, static_configs: [{targets: ['@']}]}\n");
    loop_until(&f.loop, value_of(&f, WAITING, "m") == 5);
    CODEC_AUTO_JSON json_t *engines = scrape_signals_json(f.manager);
    assert_int_equal(json_array_size(engines), 1);
    finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_scraped_engine_has_the_family),
        cmocka_unit_test(test_two_jobs_of_one_pod_store_one_family),
        cmocka_unit_test(test_histograms_keep_the_buckets_of_the_page),
        cmocka_unit_test(test_relabeling_of_the_series_does_not_change_the_family),
        cmocka_unit_test(test_a_target_without_a_pod_has_no_family),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
