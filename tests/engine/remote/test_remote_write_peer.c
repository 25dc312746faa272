// SPDX-License-Identifier: Apache-2.0
// remote_write to Prometheus, which is stopped for a while: afterwards it must have all samples.
// Skipped if prometheus is not installed.
#include "patience.h"
#include "unit.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "codec/json.h"
#include "engine/remote/remote_write.h"
#include "net/http/client.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define SERIES 30

struct world {
    uv_loop_t loop;
    uv_timer_t clock;
    bool times_up;
    char dir[64], url[64], address[32];
    pid_t pid;
    struct tsdb *db;
    struct http_client *client;
    struct gs_buf reply;
    int status; // of the last GET; -1: in progress
    int round;
};

static unsigned free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&a, len) == 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    close(fd);
    return ntohs(a.sin_port);
}

static void start_prometheus(struct world *w)
{
    GS_AUTO_FREE char *config = gs_format("--config.file=%s/prometheus.yml", w->dir);
    GS_AUTO_FREE char *storage = gs_format("--storage.tsdb.path=%s/data", w->dir);
    GS_AUTO_FREE char *listen = gs_format("--web.listen-address=%s", w->address);
    w->pid = fork();
    assert_true(w->pid >= 0);
    if (!w->pid) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 1);
        dup2(null, 2);
        execlp("prometheus", "prometheus", config, storage, listen,
               "--web.enable-remote-write-receiver", (char *)NULL);
        _exit(127);
    }
}

static void stop_prometheus(struct world *w)
{
    kill(w->pid, SIGTERM);
    waitpid(w->pid, NULL, 0);
}

static void on_time(uv_timer_t *t)
{
    ((struct world *)t->data)->times_up = true;
}

static void run_for(struct world *w, unsigned ms)
{
    w->times_up = false;
    uv_timer_start(&w->clock, on_time, ms, 0);
    while (!w->times_up)
        uv_run(&w->loop, UV_RUN_ONCE);
}

static void on_reply(void *arg, const struct http_response *a, struct gs_error *err)
{
    struct world *w = arg;
    w->status = err ? 0 : a->status;
    gs_buf_clear(&w->reply);
    if (!err)
        gs_buf_add_slice(&w->reply, a->body);
    gs_error_free(err);
}

static int get(struct world *w, const char *path)
{
    static const struct http_callbacks callbacks = {.on_done = on_reply};
    const struct http_request request = {.path = path};
    w->status = -1;
    http_send(w->client, &request, &callbacks, w);
    while (w->status < 0)
        uv_run(&w->loop, UV_RUN_ONCE);
    return w->status;
}

static void wait_ready(struct world *w)
{
    for (int64_t end = gs_mono_ns() + WAIT_NS; get(w, "/-/ready") != 200; run_for(w, 200))
        assert_true(gs_mono_ns() < end);
}

static void append_round(struct world *w, int64_t base)
{
    for (int s = 0; s < SERIES; s++) {
        char id[16];
        snprintf(id, sizeof(id), "%d", s);
        const struct metrics_label labels[] = {{GS_SLICE("__name__"), GS_SLICE("m")},
                                               {GS_SLICE("id"), gs_slice_of(id)}};
        bool stale = w->round % 13 == 12 && s % 5 == 0;
        assert_ok(tsdb_append(w->db, labels, 2, base + w->round * 100,
                              stale ? tsdb_stale_marker() : w->round + s / 7.0));
    }
    w->round++;
}

static void append_for(struct world *w, int64_t base, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        append_round(w, base);
        run_for(w, 100);
    }
}

// Queries of Prometheus omit stale markers, so the other samples are compared.
static void compare_series(struct world *w, json_t *values, tsdb_ref ref, size_t *total)
{
    struct tsdb_samples all = {0};
    size_t n = 0;
    tsdb_read(w->db, ref, INT64_MIN, INT64_MAX, &all);
    for (size_t i = 0; i < all.n; i++) {
        if (tsdb_is_stale(all.v[i]))
            continue;
        json_t *pair = json_array_get(values, n++);
        double t = json_number_value(json_array_get(pair, 0));
        assert_int_equal(llround(t * 1000), all.t[i]);
        assert_true(strtod(json_string_value(json_array_get(pair, 1)), NULL) == all.v[i]);
    }
    assert_int_equal(json_array_size(values), n);
    *total += n;
    tsdb_samples_finish(&all);
}

static size_t count_received(struct world *w)
{
    assert_int_equal(get(w, "/api/v1/query?query=sum(count_over_time(m%5B1h%5D))"), 200);
    CODEC_AUTO_JSON json_t *doc = json_loadb(w->reply.data, w->reply.len, 0, NULL);
    json_t *first = json_array_get(codec_json_get(doc, "data", "result", NULL), 0);
    const char *text = json_string_value(json_array_get(json_object_get(first, "value"), 1));
    return text ? strtoul(text, NULL, 10) : 0;
}

static size_t compare(struct world *w)
{
    assert_int_equal(get(w, "/api/v1/query?query=m%5B1h%5D"), 200);
    json_t *doc = json_loadb(w->reply.data, w->reply.len, 0, NULL);
    json_t *result = json_object_get(json_object_get(doc, "data"), "result");
    assert_int_equal(json_array_size(result), SERIES);
    size_t total = 0, i;
    json_t *series;
    json_array_foreach (result, i, series) {
        json_t *metric = json_object_get(series, "metric");
        assert_string_equal(json_string_value(json_object_get(metric, "cluster")), "c");
        const struct metrics_label labels[] = {
            {GS_SLICE("__name__"), GS_SLICE("m")},
            {GS_SLICE("id"), gs_slice_of(json_string_value(json_object_get(metric, "id")))}};
        tsdb_ref ref;
        assert_ok(tsdb_series_get(w->db, labels, 2, &ref));
        compare_series(w, json_object_get(series, "values"), ref, &total);
    }
    json_decref(doc);
    return total;
}

static void test_prometheus_has_every_sample(void **state)
{
    if (system("command -v prometheus >/dev/null 2>&1") != 0)
        skip_because("prometheus is not installed");
    (void)signal(SIGPIPE, SIG_IGN);
    struct world w = {0};
    uv_loop_init(&w.loop);
    uv_timer_init(&w.loop, &w.clock);
    w.clock.data = &w;
    strcpy(w.dir, "/tmp/gpuscale-remote-XXXXXX");
    assert_non_null(mkdtemp(w.dir));
    snprintf(w.address, sizeof(w.address), "127.0.0.1:%u", free_port());
    snprintf(w.url, sizeof(w.url), "http://%s", w.address);
    GS_AUTO_FREE char *config = gs_format("%s/prometheus.yml", w.dir);
    GS_AUTO_FREE char *write_url = gs_format("%s/api/v1/write", w.url);
    assert_ok(gs_file_write_atomic(config, 0600, GS_SLICE("global: {}\n")));
    const struct http_client_config client = {.base_url = w.url};
    assert_ok(http_client_new_curl(&w.loop, &client, &w.client));
    w.db = tsdb_new(NULL);
    start_prometheus(&w);
    wait_ready(&w);

    const struct engine_config_remote_write_config cfg = {.url = write_url,
                                                          .timeout_ms = WAIT_MS,
                                                          .max_samples_per_send = 100,
                                                          .batch_deadline_ms = 200,
                                                          .min_backoff_ms = 30,
                                                          .max_backoff_ms = 500};
    static const struct metrics_label external[] = {{GS_SLICE("cluster"), GS_SLICE("c")}};
    struct remote_write *r = remote_write_new(&w.loop, w.db, &cfg, external, 1);
    int64_t base = gs_unix_ms() + 1;
    append_for(&w, base, 10);
    stop_prometheus(&w);
    append_for(&w, base, 30);
    start_prometheus(&w);
    wait_ready(&w);
    append_for(&w, base, 10);
    const size_t all = 50 * SERIES - 3 * SERIES / 5;
    for (int64_t end = gs_mono_ns() + WAIT_NS; count_received(&w) < all; run_for(&w, 200))
        assert_true(gs_mono_ns() < end);
    assert_int_equal(compare(&w), all);

    remote_write_free(r);
    http_client_free(w.client);
    stop_prometheus(&w);
    uv_close((uv_handle_t *)&w.clock, NULL);
    uv_run(&w.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w.loop), 0);
    tsdb_free(w.db);
    gs_buf_finish(&w.reply);
    GS_AUTO_FREE char *clean = gs_format("rm -rf '%s'", w.dir);
    assert_int_equal(system(clean), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_prometheus_has_every_sample)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
