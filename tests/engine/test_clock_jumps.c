// SPDX-License-Identifier: Apache-2.0
// The wall clock is set back and forward in a running engine: scrapes, rules, remote write and
// queries continue.
#include "engine/engine.h"

#include "../kube/loop.h"
#include "base/mem.h"
#include "net/http/client.h"
#include "net/http/server.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HOUR_MS INT64_C(3600000)

static int64_t ahead_ms; // difference from the machine's clock

// Replaces the function of the C library: only the wall clock is changed.
int clock_gettime(clockid_t id, struct timespec *ts)
{
    if (syscall(SYS_clock_gettime, id, ts) != 0)
        return -1;
    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)
        ts->tv_sec += ahead_ms / 1000;
    return 0;
}

struct fixture {
    uv_loop_t loop;
    struct http_server *server;
    struct engine *engine;
    char *config;
    int scrapes, writes;
};

static void serve(void *ctx, struct http_exchange *x)
{
    struct fixture *f = ctx;
    if (gs_streq(http_path(x), "/write")) {
        f->writes++;
        http_reply(x, 204, "text/plain", GS_SLICE(""));
        return;
    }
    f->scrapes++;
    http_reply(x, 200, "text/plain; version=0.0.4", GS_SLICE("util 90\n"));
}

static void start(struct fixture *f)
{
    *f = (struct fixture){0};
    ahead_ms = 0;
    uv_loop_init(&f->loop);
    const struct http_server_config cfg = {.address = "127.0.0.1"};
    assert_ok(http_server_start(&f->loop, &cfg, serve, f, &f->server));
    unsigned port = http_server_port(f->server);
    f->config = gs_format("global: {scrape_interval: 50ms, evaluation_interval: 50ms}\n"
                          "scrape_configs: [{job_name: j, static_configs: [{targets: "
                          "['127.0.0.1:%u']}]}]\n"
                          "remote_write: [{url: 'http://127.0.0.1:%u/write', queue_config: "
                          "{batch_send_deadline: 50ms}}]\n",
                          port, port);
    const struct engine_options o = {.config_text = f->config};
    assert_ok(engine_new(&f->loop, &o, &f->engine));
    struct rules_problems problems = {0};
    struct rules_set *set;
    assert_ok(
        rules_parse(GS_SLICE("groups: [{name: g, interval: 50ms, rules: [{record: half, "
                             "expr: util / 2}, {alert: High, expr: util > 80, for: 100ms}]}]"),
                    "r", &problems, &set));
    assert_int_equal(problems.len, 0);
    rules_manager_apply_extra(engine_rules(f->engine), "extra", set);
    rules_problems_finish(&problems);
}

static void finish(struct fixture *f)
{
    engine_free(f->engine);
    http_server_stop(f->server);
    loop_finish(&f->loop);
    free(f->config);
}

// Samples up to t_ms of the series with this name.
static size_t samples_until(const struct fixture *f, const char *name, int64_t t_ms)
{
    const struct tsdb *db = engine_tsdb(f->engine);
    const struct tsdb_matcher m = {GS_SLICE("__name__"), gs_slice_of(name), TSDB_EQ, NULL};
    struct tsdb_refs refs = {0};
    struct tsdb_samples s = {0};
    size_t n = 0;
    assert_ok(tsdb_find(db, &m, 1, INT64_MIN, INT64_MAX, 0, &refs));
    for (size_t i = 0; i < refs.len; i++) {
        tsdb_read(db, refs.items[i], INT64_MIN, t_ms, &s);
        n += s.n;
    }
    tsdb_refs_finish(&refs);
    tsdb_samples_finish(&s);
    return n;
}

static size_t samples(const struct fixture *f, const char *name)
{
    return samples_until(f, name, INT64_MAX);
}

// The newest value of the series with this name at the current time of the clock.
static double value_now(const struct fixture *f, const char *name)
{
    const struct tsdb *db = engine_tsdb(f->engine);
    const struct tsdb_matcher m = {GS_SLICE("__name__"), gs_slice_of(name), TSDB_EQ, NULL};
    struct tsdb_refs refs = {0};
    double v = -1;
    assert_ok(tsdb_find(db, &m, 1, INT64_MIN, INT64_MAX, 0, &refs));
    if (refs.len)
        tsdb_latest(db, refs.items, 1, gs_unix_ms(), gs_unix_ms() - 5 * 60000, &v, NULL);
    tsdb_refs_finish(&refs);
    return v;
}

static void goes_on(struct fixture *f)
{
    int scrapes = f->scrapes, writes = f->writes;
    size_t ups = samples(f, "up");
    loop_until(&f->loop, f->scrapes >= scrapes + 5);
    loop_until(&f->loop, samples(f, "up") >= ups + 3 || ups > 20);
    loop_until(&f->loop, f->writes > writes);
}

struct metrics_reply {
    const char *line;
    bool done, found;
};

static void metrics_took(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct metrics_reply *r = arg;
    assert_null(err);
    GS_AUTO_FREE char *text = gs_slice_dup(response->body);
    r->found = strstr(text, r->line) != NULL;
    r->done = true;
}

static void test_forward_is_a_gap(void **state)
{
    struct fixture f;
    start(&f);
    loop_until(&f.loop, value_now(&f, "half") == 45);
    goes_on(&f);
    ahead_ms += 30 * 60000;
    assert_true(value_now(&f, "half") != 45); // the samples are old now
    goes_on(&f);
    loop_until(&f.loop, value_now(&f, "half") == 45 && value_now(&f, "up") == 1);
    ahead_ms += 10 * HOUR_MS; // past the retention
    goes_on(&f);
    loop_until(&f.loop, value_now(&f, "half") == 45 && value_now(&f, "up") == 1);
    loop_for_ms(&f.loop, 2500); // wait for a clean-up of the store
    loop_until(&f.loop, value_now(&f, "half") == 45 && value_now(&f, "up") == 1);
    finish(&f);
    (void)state;
}

static size_t evaluations(const struct fixture *f)
{
    return samples(f, "half");
}

static void test_back_and_forth(void **state)
{
    struct fixture f;
    start(&f);
    loop_until(&f.loop, value_now(&f, "half") == 45);
    ahead_ms -= HOUR_MS;
    int scrapes = f.scrapes;
    size_t ups = samples(&f, "up");
    loop_until(&f.loop, f.scrapes >= scrapes + 5);
    // Past samples are kept, and samples in the future are dropped.
    loop_until(&f.loop, samples(&f, "up") >= ups + 5);
    loop_for_ms(&f.loop, 2500); // wait for a clean-up of the store
    ahead_ms += HOUR_MS;
    loop_until(&f.loop, value_now(&f, "up") == 1);
    size_t before = evaluations(&f);
    loop_until(&f.loop, evaluations(&f) > before + 3);
    goes_on(&f);
    finish(&f);
    (void)state;
}

static void test_a_long_way_back_and_on_from_there(void **state)
{
    struct fixture f;
    start(&f);
    loop_until(&f.loop, value_now(&f, "half") == 45);
    ahead_ms -= 24 * 365 * HOUR_MS;
    int scrapes = f.scrapes;
    loop_until(&f.loop, f.scrapes >= scrapes + 20);
    loop_for_ms(&f.loop, 2500);
    ahead_ms += 2 * 24 * 365 * HOUR_MS;
    loop_until(&f.loop, value_now(&f, "half") == 45 && value_now(&f, "up") == 1);
    finish(&f);
    (void)state;
}

static bool fires(const struct fixture *f)
{
    const struct tsdb *db = engine_tsdb(f->engine);
    const struct tsdb_matcher m[] = {{GS_SLICE("__name__"), GS_SLICE("ALERTS"), TSDB_EQ, NULL},
                                     {GS_SLICE("alertstate"), GS_SLICE("firing"), TSDB_EQ, NULL}};
    struct tsdb_refs refs = {0};
    double v = 0;
    assert_ok(tsdb_find(db, m, 2, INT64_MIN, INT64_MAX, 0, &refs));
    if (refs.len)
        tsdb_latest(db, refs.items, 1, gs_unix_ms(), gs_unix_ms() - 5 * 60000, &v, NULL);
    tsdb_refs_finish(&refs);
    return v == 1;
}

static bool metrics_have(struct fixture *f, const char *line)
{
    struct http_client *client = http_client_new_loopback(&f->loop, engine_handle, f->engine, NULL);
    struct metrics_reply r = {.line = line};
    const struct http_callbacks cb = {.on_done = metrics_took};
    http_send(client, &(struct http_request){.path = "/metrics"}, &cb, &r);
    loop_until(&f->loop, r.done);
    http_client_free(client);
    return r.found;
}

// A wrong clock for a short time: scraping continues, nothing is deleted, and no samples remain in
// the future.
static void ahead_for_a_moment(int64_t jump_ms)
{
    struct fixture f;
    start(&f);
    loop_until(&f.loop, value_now(&f, "half") == 45 && fires(&f));
    loop_until(&f.loop, samples(&f, "up") >= 20);
    loop_for_ms(&f.loop, 1200); // the clock is checked once per second
    int64_t before = gs_unix_ms();
    size_t ups = samples_until(&f, "up", before);
    ahead_ms += jump_ms;
    loop_until(&f.loop,
               samples_until(&f, "up", before + jump_ms / 2) < samples_until(&f, "up", INT64_MAX));
    loop_for_ms(&f.loop, 2500); // wait for a clean-up of the store
    assert_true(metrics_have(&f, "\ngpuscale_clock_steps_total 1\n"));
    ahead_ms -= jump_ms;
    loop_until(&f.loop, tsdb_newest_ms(engine_tsdb(f.engine)) <= gs_unix_ms());
    loop_until(&f.loop, value_now(&f, "half") == 45 && value_now(&f, "up") == 1);
    loop_until(&f.loop, fires(&f));
    assert_true(samples_until(&f, "up", before) >= ups);
    assert_true(metrics_have(&f, "\ngpuscale_clock_steps_total 2\n"));
    assert_false(metrics_have(&f, "\ngpuscale_tsdb_ahead_samples_dropped_total 0\n"));
    int writes = f.writes;
    size_t now = samples(&f, "up");
    loop_until(&f.loop, samples(&f, "up") >= now + 10 && f.writes > writes);
    // A scrape or evaluation from before the step back may end after the first clean-up.
    loop_until(&f.loop, tsdb_newest_ms(engine_tsdb(f.engine)) <= gs_unix_ms());
    finish(&f);
}

static void test_a_day_ahead_for_a_moment(void **state)
{
    (void)state;
    ahead_for_a_moment(24 * HOUR_MS);
}

static void test_an_hour_ahead_for_a_moment(void **state)
{
    (void)state;
    ahead_for_a_moment(HOUR_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward_is_a_gap),
        cmocka_unit_test(test_back_and_forth),
        cmocka_unit_test(test_a_day_ahead_for_a_moment),
        cmocka_unit_test(test_an_hour_ahead_for_a_moment),
        cmocka_unit_test(test_a_long_way_back_and_on_from_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
