// SPDX-License-Identifier: Apache-2.0
// A reload of the engine is atomic: after an invalid configuration, targets, rules, Alertmanagers,
// remote writes and the displayed configuration are unchanged.
#include "engine/engine.h"

#include "../kube/loop.h"
#include "base/file.h"
#include "base/mem.h"
#include "filled.h"
#include "net/http/server.h"

struct fixture {
    uv_loop_t loop;
    struct http_server *server;
    struct engine *engine;
    char dir[64], config[96], rules[96];
    int scrapes;
};

static void serve(void *ctx, struct http_exchange *x)
{
    struct fixture *f = ctx;
    f->scrapes += gs_streq(http_path(x), "/metrics");
    http_reply(x, 200, "text/plain; version=0.0.4", GS_SLICE("util 90\n"));
}

static void write_to(const char *path, const char *text)
{
    assert_ok(gs_file_write_atomic(path, 0600, gs_slice_of(text)));
}

static void write_config(struct fixture *f, const char *text)
{
    GS_AUTO_FREE char *yaml = filled_in(f->server, f->dir, text);
    write_to(f->config, yaml);
}

#define RIGHT                                                                                      \
    "global: {scrape_interval: 50ms, evaluation_interval: 50ms}\n"                                 \
    "rule_files: ['DIR/rules.yml']\n"                                                              \
    "scrape_configs: [{job_name: j, static_configs: [{targets: ['127.0.0.1:PORT']}]}]\n"           \
    "alerting: {alertmanagers: [{static_configs: [{targets: ['127.0.0.1:PORT']}]}]}\n"             \
    "remote_write: [{url: 'http://127.0.0.1:PORT/write'}]\n"

static void start(struct fixture *f)
{
    *f = (struct fixture){0};
    uv_loop_init(&f->loop);
    const struct http_server_config cfg = {.address = "127.0.0.1"};
    assert_ok(http_server_start(&f->loop, &cfg, serve, f, &f->server));
    strcpy(f->dir, "/tmp/test-reload-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    (void)snprintf(f->config, sizeof(f->config), "%s/prometheus.yml", f->dir);
    (void)snprintf(f->rules, sizeof(f->rules), "%s/rules.yml", f->dir);
    write_to(f->rules, "groups: [{name: g, rules: [{record: half, expr: util / 2}]}]");
    write_config(f, RIGHT);
    const struct engine_options o = {.config_path = f->config};
    assert_ok(engine_new(&f->loop, &o, &f->engine));
}

static void finish(struct fixture *f)
{
    engine_free(f->engine);
    http_server_stop(f->server);
    loop_finish(&f->loop);
    unlink(f->config);
    unlink(f->rules);
    rmdir(f->dir);
}

// The state that a reload can change, as text.
static char *parts(const struct fixture *f)
{
    struct gs_buf out = {0};
    size_t i;
    json_t *item;
    CODEC_AUTO_JSON json_t *pools = scrape_pools_json(engine_scrapes(f->engine));
    CODEC_AUTO_JSON json_t *targets =
        scrape_targets_json(engine_scrapes(f->engine), "active", NULL);
    CODEC_AUTO_JSON json_t *rules = rules_json(engine_rules(f->engine), NULL);
    CODEC_AUTO_JSON json_t *ams = rules_alertmanagers_json(engine_rules(f->engine));
    codec_json_dump(pools, &out);
    json_array_foreach (codec_json_get(targets, "activeTargets", NULL), i, item)
        gs_buf_addf(&out, " %s", codec_json_str(item, "scrapeUrl", NULL));
    json_array_foreach (codec_json_get(rules, "groups", NULL), i, item)
        gs_buf_addf(&out, " %s/%zu", codec_json_str(item, "name", NULL),
                    json_array_size(codec_json_get(item, "rules", NULL)));
    codec_json_dump(ams, &out);
    return gs_buf_take(&out);
}

static bool has_series(const struct fixture *f, const char *name)
{
    const struct tsdb_matcher m = {GS_SLICE("__name__"), gs_slice_of(name), TSDB_EQ, NULL};
    struct tsdb_refs refs = {0};
    assert_ok(tsdb_find(engine_tsdb(f->engine), &m, 1, INT64_MIN, INT64_MAX, 0, &refs));
    size_t n = refs.len;
    tsdb_refs_finish(&refs);
    return n > 0;
}

struct wrong {
    const char *config, *error;
};

static void test_a_refused_configuration_changes_nothing(void **state)
{
    static const struct wrong cases[] = {
        {"scrape_configs: [\n", ":"},
        {"scrape_configs: [{job_name: other}, {job_name: other}]\n", "multiple scrape configs"},
        {"scrape_configs: [{job_name: other}]\nalerting: {alertmanagers: [{no: 1}]}\n",
         "unknown field \"no\""},
        {"scrape_configs: [{job_name: other}]\nremote_write: [{name: x}]\n",
         "url for remote_write"},
        {"global: {scrape_interval: soon}\n", "not a valid duration"},
        {"rule_files: {a: b}\n", "expected a list"},
        {"- x\n", "must be a mapping"},
    };
    struct fixture f;
    start(&f);
    loop_until(&f.loop, has_series(&f, "half"));
    GS_AUTO_FREE char *before = parts(&f);
    assert_non_null(strstr(before, "[\"j\"]"));
    write_to(f.rules, "groups: [{name: h, rules: [{record: new, expr: '1'}]}]");
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        write_config(&f, cases[i].config);
        struct gs_error *err = engine_reload(f.engine);
        assert_non_null(err);
        if (!strstr(gs_error_message(err), cases[i].error))
            fail_msg("\"%s\" instead of \"%s\"", gs_error_message(err), cases[i].error);
        gs_error_free(err);
        GS_AUTO_FREE char *after = parts(&f);
        assert_string_equal(after, before);
    }
    unlink(f.config);
    assert_error(engine_reload(f.engine), GS_ENOTFOUND, "No such file");
    int scrapes = f.scrapes;
    loop_until(&f.loop, f.scrapes > scrapes + 3);
    assert_false(has_series(&f, "new"));

    write_config(&f, RIGHT);
    assert_ok(engine_reload(f.engine));
    loop_until(&f.loop, has_series(&f, "new"));
    finish(&f);
    (void)state;
}

static size_t samples(const struct fixture *f, const char *name)
{
    const struct tsdb_matcher m = {GS_SLICE("__name__"), gs_slice_of(name), TSDB_EQ, NULL};
    struct tsdb_refs refs = {0};
    struct tsdb_samples s = {0};
    assert_ok(tsdb_find(engine_tsdb(f->engine), &m, 1, INT64_MIN, INT64_MAX, 0, &refs));
    assert_int_equal(refs.len, 1); // one series, not one before and one after
    tsdb_read(engine_tsdb(f->engine), refs.items[0], INT64_MIN, INT64_MAX, &s);
    size_t n = s.n;
    for (size_t i = 0; i < s.n; i++)
        assert_false(tsdb_is_stale(s.v[i]));
    tsdb_refs_finish(&refs);
    tsdb_samples_finish(&s);
    return n;
}

// Also while scrapes, notifications and writes are in progress.
static void test_reloads_one_after_the_other_leave_no_gap(void **state)
{
    struct fixture f;
    start(&f);
    loop_until(&f.loop, has_series(&f, "half"));
    for (int i = 0; i < 50; i++) {
        if (i % 3 == 1)
            write_config(&f, "scrape_configs: [{}]\n");
        else
            write_config(&f, RIGHT);
        struct gs_error *err = engine_reload(f.engine);
        assert_true((err != NULL) == (i % 3 == 1));
        gs_error_free(err);
        loop_for_ms(&f.loop, i % 7);
    }
    size_t n = samples(&f, "up");
    loop_until(&f.loop, samples(&f, "up") > n + 2);
    finish(&f);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_refused_configuration_changes_nothing),
        cmocka_unit_test(test_reloads_one_after_the_other_leave_no_gap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
