// SPDX-License-Identifier: Apache-2.0
// The scraper against a real HTTP server on a free port.
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "engine/scrape.h"
#include "net/http_server.h"

#include <signal.h>

struct fixture {
    uv_loop_t loop;
    struct ring *db;
    struct engine_scraper *scraper;
    struct http_server *server;
    char *url;
    int status; // what the target answers; 0: nothing at all
    const char *body;
    int requests;
    size_t scrapes;
};

static void gone(void *arg)
{
}

static void serve(void *ctx, struct http_exchange *x)
{
    struct fixture *f = ctx;
    f->requests++;
    if (f->status)
        http_reply(x, f->status, "text/plain", gs_slice_of(f->body));
    else
        http_on_abort(x, gone, NULL); // never answers
}

static void on_scrape(void *arg, size_t id)
{
    struct fixture *f = arg;
    f->scrapes++;
}

static int set_up(void **state)
{
    signal(SIGPIPE, SIG_IGN);
    struct fixture *f = gs_alloc(sizeof(*f));
    const struct http_server_config cfg = {.address = "127.0.0.1"};
    uv_loop_init(&f->loop);
    f->db = ring_new(NULL);
    f->scraper = engine_scraper_new(&f->loop, f->db);
    engine_scraper_on_scrape(f->scraper, on_scrape, f);
    assert_ok(http_server_start(&f->loop, &cfg, serve, f, &f->server));
    f->url = gs_format("http://127.0.0.1:%u/metrics", http_server_port(f->server));
    f->status = 200;
    f->body = "util{gpu=\"0\"} 40\n";
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    engine_scraper_free(f->scraper);
    http_server_stop(f->server);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    ring_free(f->db);
    free(f->url);
    free(f);
    return 0;
}

static size_t add_target(struct fixture *f, int64_t timeout_ms)
{
    const struct metrics_label job = {GS_SLICE("job"), GS_SLICE("test")};
    const struct engine_target t = {
        .url = f->url, .interval_ms = 20, .timeout_ms = timeout_ms, .labels = &job, .n_labels = 1};
    size_t id;
    assert_ok(engine_scraper_add(f->scraper, &t, &id));
    return id;
}

static void run_scrapes(struct fixture *f, size_t more)
{
    for (size_t until = f->scrapes + more; f->scrapes < until;)
        uv_run(&f->loop, UV_RUN_ONCE);
}

struct sample {
    bool found;
    double value;
};

static int on_found(void *arg, const struct metrics_labels *labels, struct ring_point p)
{
    assert_true(gs_slice_eq_str(metrics_labels_get(labels, "job"), "test"));
    *(struct sample *)arg = (struct sample){true, p.value};
    return 0;
}

static struct sample latest(struct fixture *f, const char *name)
{
    const struct ring_matcher m = {"__name__", RING_EQ, name};
    struct sample s = {0};
    ring_select(f->db, &m, 1, gs_unix_ms() + 1000, 300000, on_found, &s);
    return s;
}

static void test_a_target_goes_down_and_comes_back(void **state)
{
    struct fixture *f = *state;
    size_t id = add_target(f, 1000);
    struct engine_target_state seen;
    run_scrapes(f, 2);
    assert_true(latest(f, "util").value == 40);
    assert_true(latest(f, "up").value == 1);
    assert_true(engine_scraper_state(f->scraper, id, &seen));
    assert_true(seen.up && seen.samples == 1 && !seen.error);

    f->status = 503;
    run_scrapes(f, 2);
    assert_false(latest(f, "util").found);
    assert_true(latest(f, "up").found);
    assert_true(latest(f, "up").value == 0);
    assert_true(engine_scraper_state(f->scraper, id, &seen));
    assert_non_null(strstr(seen.error, "503"));

    f->status = 200;
    f->body = "util{gpu=\"0\"} oops\n";
    run_scrapes(f, 2);
    assert_false(latest(f, "util").found);
    assert_true(engine_scraper_state(f->scraper, id, &seen));
    assert_non_null(strstr(seen.error, "line 1, column 15"));

    f->body = "util{gpu=\"0\"} 0\n";
    run_scrapes(f, 2);
    assert_true(latest(f, "util").found);
    assert_true(latest(f, "util").value == 0);

    engine_scraper_remove(f->scraper, id);
    assert_false(latest(f, "util").found);
    assert_false(engine_scraper_state(f->scraper, id, &seen));
}

static void test_a_silent_target_times_out(void **state)
{
    struct fixture *f = *state;
    f->status = 0;
    size_t id = add_target(f, 50);
    struct engine_target_state seen;
    run_scrapes(f, 1);
    assert_true(latest(f, "up").value == 0);
    assert_true(engine_scraper_state(f->scraper, id, &seen));
    assert_non_null(seen.error);
}

static void test_bad_urls_are_refused(void **state)
{
    struct fixture *f = *state;
    static const char *const bad[] = {"", "127.0.0.1:9400", "ftp://x/", "http://",
                                      "http:///metrics"};
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
        const struct engine_target t = {.url = bad[i], .interval_ms = 1000};
        size_t id;
        assert_error(engine_scraper_add(f->scraper, &t, &id), GS_EINVAL, "scrape target");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_target_goes_down_and_comes_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_silent_target_times_out, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bad_urls_are_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
