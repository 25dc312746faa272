// SPDX-License-Identifier: Apache-2.0
// The manager in a loop: evaluation by timers, alerts to a simulated Alertmanager (and to a real
// one if it is installed), JSON, reload.
#include "patience.h"
#include "unit.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/turn.h"
#include "engine/rules/rules_private.h"
#include "net/http/server.h"

#include <arpa/inet.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

struct world {
    uv_loop_t loop;
    struct tsdb *db;
    struct promql_engine *engine;
    struct rules_manager *m;
    struct http_server *server;
    uv_timer_t tick;
    int64_t until_ms;
    // recorded by the server
    int requests, fail_first;
    size_t alerts, largest;
    json_t *last;
    char auth[128], path[128];
    // configuration
    char dir[64], rules_path[96];
    const char *globs[1], *targets[1];
    struct engine_config_static_group statics;
    struct engine_config_alertmanager_config am;
    struct engine_config cfg;
};

static void on_request(void *ctx, struct http_exchange *x)
{
    struct world *w = ctx;
    w->requests++;
    const char *auth = http_header(x, "Authorization");
    (void)snprintf(w->auth, sizeof(w->auth), "%s", auth ? auth : "");
    (void)snprintf(w->path, sizeof(w->path), "%s", http_path(x));
    if (w->fail_first-- > 0) {
        http_reply_text(x, 503, "not now");
        return;
    }
    json_t *list = NULL;
    assert_ok(codec_json_parse(http_body(x), true, &list));
    w->alerts += json_array_size(list);
    if (json_array_size(list) > w->largest)
        w->largest = json_array_size(list);
    json_decref(w->last);
    w->last = list;
    http_reply_text(x, 200, "{}");
}

static void write_rules(struct world *w, const char *rules)
{
    assert_ok(gs_file_write_atomic(w->rules_path, 0600, gs_slice_of(rules)));
}

static void apply(struct world *w)
{
    struct rules_problems problems = {0};
    assert_ok(rules_manager_apply(w->m, &w->cfg, &problems));
    if (problems.len)
        fail_msg("%s", problems.items[0].text);
    rules_problems_finish(&problems);
}

static void start(struct world *w, const char *rules)
{
    memset(w, 0, sizeof(*w));
    uv_loop_init(&w->loop);
    uv_timer_init(&w->loop, &w->tick);
    w->db = tsdb_new(&(struct tsdb_config){0});
    w->engine = promql_engine_new(w->db, &(struct promql_config){0});
    w->m = rules_manager_new(&w->loop, w->db, w->engine, "http://me:9090");
    assert_ok(http_server_start(&w->loop, &(struct http_server_config){.address = "127.0.0.1"},
                                on_request, w, &w->server));
    strcpy(w->dir, "/tmp/test-rules-XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    (void)snprintf(w->rules_path, sizeof(w->rules_path), "%s/rules.yaml", w->dir);
    write_rules(w, rules);
    static const struct metrics_label external[] = {{GS_SLICE("cluster"), GS_SLICE("c1")}};
    w->globs[0] = w->rules_path;
    w->targets[0] = gs_format("127.0.0.1:%d", http_server_port(w->server));
    w->statics = (struct engine_config_static_group){.targets = w->targets, .n_targets = 1};
    w->am = (struct engine_config_alertmanager_config){
        .scheme = "http",
        .path_prefix = "/base/",
        .timeout_ms = WAIT_MS,
        .http = {.user.text = "u", .password = {.text = "p"}},
        .sd.statics = &w->statics,
        .sd.n_statics = 1};
    w->cfg = (struct engine_config){.evaluation_interval_ms = 200,
                                    .external_labels = external,
                                    .n_external_labels = 1,
                                    .rule_files = w->globs,
                                    .n_rule_files = 1,
                                    .alertmanagers = &w->am,
                                    .n_alertmanagers = 1};
    apply(w);
}

static void stop(struct world *w)
{
    rules_manager_free(w->m);
    http_server_stop(w->server);
    uv_close((uv_handle_t *)&w->tick, NULL);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop), 0);
    promql_engine_free(w->engine);
    tsdb_free(w->db);
    json_decref(w->last);
    free((char *)w->targets[0]);
    unlink(w->rules_path);
    rmdir(w->dir);
}

static void put(struct world *w, const char *gpu, double value)
{
    struct metrics_label l[] = {{GS_SLICE("__name__"), GS_SLICE("util")},
                                {GS_SLICE("gpu"), gs_slice_of(gpu)}};
    assert_ok(tsdb_append(w->db, l, 2, gs_unix_ms(), value));
}

static void on_tick(uv_timer_t *t)
{
}

// Runs the loop until the condition holds; fails after a minute.
static bool run_until(struct world *w, bool (*done)(struct world *w))
{
    int64_t end = gs_mono_ns() + WAIT_NS;
    uv_timer_start(&w->tick, on_tick, 20, 20);
    while (!done(w) && gs_mono_ns() < end)
        uv_run(&w->loop, UV_RUN_ONCE);
    uv_timer_stop(&w->tick);
    return done(w);
}

static bool got_alert(struct world *w)
{
    return w->alerts > 0;
}

static bool evaluated_twice(struct world *w)
{
    return w->m->evaluations >= 2;
}

static bool resolved(struct world *w)
{
    const json_t *a = json_array_get(w->last, 0);
    const char *starts = codec_json_str(a, "startsAt", NULL),
               *ends = codec_json_str(a, "endsAt", NULL);
    int64_t from = 0, to = 0;
    if (!starts || !ends)
        return false;
    assert_ok(gs_parse_rfc3339(gs_slice_of(starts), &from));
    assert_ok(gs_parse_rfc3339(gs_slice_of(ends), &to));
    return to - from < 60000;
}

static const char *const one_alert = "groups: [{name: g, rules: [{record: half, expr: util / 2},\n"
                                     "{alert: High, expr: util > 80, labels: {severity: page},\n"
                                     "annotations: {summary: 'GPU {{ $labels.gpu }}'}}]}]";

static void test_alert_is_sent(void **state)
{
    struct world w;
    start(&w, one_alert);
    w.fail_first = 1; // the second request succeeds
    put(&w, "0", 90);
    assert_true(run_until(&w, got_alert));
    assert_string_equal(w.path, "/base/api/v2/alerts");
    assert_string_equal(w.auth, "Basic dTpw");
    const json_t *a = json_array_get(w.last, 0);
    assert_string_equal(codec_json_str(a, "labels", "alertname", NULL), "High");
    assert_string_equal(codec_json_str(a, "labels", "gpu", NULL), "0");
    assert_string_equal(codec_json_str(a, "labels", "severity", NULL), "page");
    assert_string_equal(codec_json_str(a, "labels", "cluster", NULL), "c1");
    assert_null(json_object_get(json_object_get(a, "labels"), "__name__"));
    assert_string_equal(codec_json_str(a, "annotations", "summary", NULL), "GPU 0");
    assert_string_equal(codec_json_str(a, "generatorURL", NULL),
                        "http://me:9090/graph?g0.expr=util+%3E+80&g0.tab=1");
    assert_false(resolved(&w)); // 4 × the resend delay in the future
    put(&w, "0", 10);
    assert_true(run_until(&w, resolved));
    stop(&w);
}

// 100 steps over 400 series with 300 samples: it pauses hundreds of times.
#define LONG "sum_over_time(sum(stddev_over_time(m[100s]))[100s:1s])"

static void put_long(struct world *w)
{
    int64_t now = gs_unix_ms();
    gs_turn_set_ns(0);
    for (int i = 0; i < 400; i++) {
        char text[8];
        (void)snprintf(text, sizeof(text), "%d", i);
        struct metrics_label l[] = {{GS_SLICE("__name__"), GS_SLICE("m")},
                                    {GS_SLICE("i"), gs_slice_of(text)}};
        for (int k = 0; k < 300; k++)
            assert_ok(tsdb_append(w->db, l, 2, now - (300 - k) * 1000, k % 7));
    }
}

static bool is_pausing(struct world *w)
{
    return w->m->running == NULL && !TAILQ_EMPTY(&w->m->paused);
}

static bool has_sample(struct world *w, const char *name)
{
    const struct tsdb_matcher m = {GS_SLICE("__name__"), gs_slice_of(name), TSDB_EQ, NULL};
    struct tsdb_refs refs = {0};
    assert_ok(tsdb_find(w->db, &m, 1, INT64_MIN, INT64_MAX, 0, &refs));
    bool any = refs.len > 0;
    tsdb_refs_finish(&refs);
    return any;
}

static bool has_long(struct world *w)
{
    return has_sample(w, "long");
}

static bool has_other(struct world *w)
{
    return has_sample(w, "other");
}

// Other groups are evaluated during the pauses. Rules see the results of previous rules.
static void test_a_long_evaluation_pauses(void **state)
{
    struct world w;
    start(&w, "groups: [{name: g, rules: [{record: long, expr: '" LONG "'},\n"
              "{record: next, expr: long * 2}]},\n"
              "{name: short, rules: [{record: other, expr: vector(1)}]}]");
    put_long(&w);
    assert_true(run_until(&w, is_pausing));
    assert_false(has_long(&w));
    assert_true(run_until(&w, has_other));
    assert_true(run_until(&w, has_long));
    assert_true(has_sample(&w, "next"));
    stop(&w);
}

// A reload during an evaluation, and freeing the manager during one.
static void test_a_reload_ends_what_pauses(void **state)
{
    struct world w;
    start(&w, "groups: [{name: g, rules: [{record: long, expr: '" LONG "'}]}]");
    put_long(&w);
    assert_true(run_until(&w, is_pausing));
    write_rules(&w, "groups: [{name: g, rules: [{record: other, expr: vector(1)}]}]");
    apply(&w);
    assert_true(TAILQ_EMPTY(&w.m->paused));
    assert_true(run_until(&w, has_other));
    assert_false(has_long(&w));
    write_rules(&w, "groups: [{name: g, rules: [{record: long, expr: '" LONG "'}]}]");
    apply(&w);
    assert_true(run_until(&w, is_pausing));
    stop(&w);
}

static void test_views(void **state)
{
    struct world w;
    start(&w, one_alert);
    put(&w, "0", 90);
    assert_true(run_until(&w, got_alert));
    CODEC_AUTO_JSON json_t *rules = rules_json(w.m, NULL);
    const json_t *g = json_array_get(json_object_get(rules, "groups"), 0);
    assert_string_equal(codec_json_str(g, "name", NULL), "g");
    assert_string_equal(codec_json_str(g, "file", NULL), w.rules_path);
    assert_true(json_real_value(json_object_get(g, "interval")) == 0.2);
    const json_t *record = json_array_get(json_object_get(g, "rules"), 0);
    assert_string_equal(codec_json_str(record, "type", NULL), "recording");
    assert_string_equal(codec_json_str(record, "query", NULL), "util / 2");
    assert_string_equal(codec_json_str(record, "health", NULL), "ok");
    const json_t *alert = json_array_get(json_object_get(g, "rules"), 1);
    assert_string_equal(codec_json_str(alert, "type", NULL), "alerting");
    assert_string_equal(codec_json_str(alert, "state", NULL), "firing");
    const json_t *active = json_array_get(json_object_get(alert, "alerts"), 0);
    assert_string_equal(codec_json_str(active, "value", NULL), "9e+01");
    assert_string_equal(codec_json_str(active, "state", NULL), "firing");
    CODEC_AUTO_JSON json_t *only = rules_json(w.m, "record");
    assert_int_equal(json_array_size(codec_json_get(
                         json_array_get(json_object_get(only, "groups"), 0), "rules", NULL)),
                     1);
    CODEC_AUTO_JSON json_t *alerts = rules_alerts_json(w.m);
    assert_int_equal(json_array_size(json_object_get(alerts, "alerts")), 1);
    CODEC_AUTO_JSON json_t *ams = rules_alertmanagers_json(w.m);
    GS_AUTO_FREE char *url = gs_format("http://%s/base/api/v2/alerts", w.targets[0]);
    assert_string_equal(
        codec_json_str(json_array_get(json_object_get(ams, "activeAlertmanagers"), 0), "url", NULL),
        url);
    GS_AUTO_BUF struct gs_buf metrics = {0};
    rules_manager_write_metrics(w.m, &metrics);
    assert_non_null(strstr(metrics.data, "prometheus_notifications_alertmanagers_discovered 1\n"));
    assert_non_null(strstr(metrics.data, "prometheus_rule_group_rules{rule_group=\""));
    stop(&w);
}

static bool all_there(struct world *w)
{
    return w->alerts >= 150;
}

static void test_batches(void **state)
{
    struct world w;
    start(&w, "groups: [{name: g, rules: [{alert: Many, expr: util > 0}]}]");
    for (int i = 0; i < 150; i++) {
        char gpu[16];
        (void)snprintf(gpu, sizeof(gpu), "%d", i);
        put(&w, gpu, 1);
    }
    assert_true(run_until(&w, all_there));
    assert_int_equal(w.alerts, 150);
    assert_int_equal(w.largest, 64);
    assert_int_equal(w.requests, 3);
    stop(&w);
}

static void test_reload_keeps_alerts(void **state)
{
    struct world w;
    start(&w, "groups: [{name: g, rules: [{alert: High, expr: util > 80, for: 1h}]}]");
    put(&w, "0", 90);
    assert_true(run_until(&w, evaluated_twice));
    CODEC_AUTO_JSON json_t *before = rules_alerts_json(w.m);
    const char *since =
        codec_json_str(json_array_get(json_object_get(before, "alerts"), 0), "activeAt", NULL);
    assert_non_null(since);
    write_rules(&w, "groups: [{name: g, rules: [{record: new, expr: util},"
                    " {alert: High, expr: util > 70, for: 1h}]}, {name: h}]");
    apply(&w);
    CODEC_AUTO_JSON json_t *after = rules_alerts_json(w.m);
    assert_string_equal(
        codec_json_str(json_array_get(json_object_get(after, "alerts"), 0), "activeAt", NULL),
        since);
    write_rules(&w, "groups: []");
    apply(&w);
    CODEC_AUTO_JSON json_t *none = rules_alerts_json(w.m);
    assert_int_equal(json_array_size(json_object_get(none, "alerts")), 0);
    stop(&w);
}

static void test_an_alert_that_was_not_evaluated_is_unknown(void **state)
{
    struct world w;
    struct rules_problems problems = {0};
    struct rules_set *set = NULL;
    start(&w, "groups: []");
    assert_ok(rules_parse(GS_SLICE("groups: [{name: x, rules: [{alert: A, expr: 1}]}]"), "extra",
                          &problems, &set));
    rules_manager_apply_extra(w.m, "one", set);
    CODEC_AUTO_JSON json_t *rules = rules_json(w.m, NULL);
    const json_t *group = json_array_get(json_object_get(rules, "groups"), 0);
    const json_t *alert = json_array_get(json_object_get(group, "rules"), 0);
    assert_string_equal(codec_json_str(alert, "state", NULL), "unknown");
    stop(&w);
}

static void test_a_removed_group_has_no_metrics(void **state)
{
    struct world w;
    struct rules_problems problems = {0};
    struct rules_set *set = NULL;
    start(&w, "groups: []");
    assert_ok(rules_parse(GS_SLICE("groups: [{name: x, rules: [{record: r, expr: 1}]}]"), "extra",
                          &problems, &set));
    rules_manager_apply_extra(w.m, "one", set);
    GS_AUTO_BUF struct gs_buf metrics = {0};
    rules_manager_write_metrics(w.m, &metrics);
    assert_non_null(strstr(metrics.data, "rule_group=\"extra;x\""));
    rules_manager_apply_extra(w.m, "one", NULL);
    gs_buf_clear(&metrics);
    rules_manager_write_metrics(w.m, &metrics);
    assert_null(metrics.data ? strstr(metrics.data, "extra;x") : NULL);
    stop(&w);
}

static void test_extra_sets(void **state)
{
    struct world w;
    struct rules_problems problems = {0};
    struct rules_set *set = NULL;
    start(&w, "groups: []");
    assert_ok(rules_parse(GS_SLICE("groups: [{name: x, rules: [{record: r, expr: 1}]}]"), "extra",
                          &problems, &set));
    rules_manager_apply_extra(w.m, "one", set);
    assert_true(run_until(&w, evaluated_twice));
    size_t n;
    free(rules_manager_groups(w.m, &n));
    assert_int_equal(n, 1);
    rules_manager_apply_extra(w.m, "one", NULL);
    rules_manager_apply_extra(w.m, "one", NULL);
    free(rules_manager_groups(w.m, &n));
    assert_int_equal(n, 0);
    stop(&w);
}

// --- a real Alertmanager ---

#define ALERTMANAGER "/usr/bin/prometheus-alertmanager"

static void on_alerts(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct world *w = arg;
    if (!err && response->status == 200) {
        json_decref(w->last);
        w->last = NULL;
        gs_error_free(codec_json_parse(response->body, false, &w->last));
    }
    gs_error_free(err);
    w->requests = 0;
}

static struct http_client *asked;

static bool alertmanager_has_it(struct world *w)
{
    static const struct http_callbacks cb = {.on_done = on_alerts};
    const char *name = codec_json_str(json_array_get(w->last, 0), "labels", "alertname", NULL);
    if (gs_streq(name, "High"))
        return true;
    if (!w->requests) {
        w->requests = 1;
        (void)http_send(asked, &(struct http_request){.path = "/api/v2/alerts"}, &cb, w);
    }
    return false;
}

static bool listens(int port)
{
    const struct sockaddr_in at = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0;
    close(fd);
    return ok;
}

static void test_real_alertmanager(void **state)
{
    if (access(ALERTMANAGER, X_OK) != 0) {
        skip_because("%s is not installed", ALERTMANAGER);
        return;
    }
    struct world w;
    pid_t pid;
    start(&w, one_alert);
    GS_AUTO_FREE char *config = gs_format("%s/am.yml", w.dir);
    assert_ok(gs_file_write_atomic(
        config, 0600, GS_SLICE("route: {receiver: none}\nreceivers: [{name: none}]\n")));
    int port = 20000 + getpid() % 20000;
    GS_AUTO_FREE char *listen = gs_format("--web.listen-address=127.0.0.1:%d", port);
    GS_AUTO_FREE char *file = gs_format("--config.file=%s", config);
    GS_AUTO_FREE char *storage = gs_format("--storage.path=%s/data", w.dir);
    char *argv[] = {
        (char *)ALERTMANAGER,        file, storage, listen, (char *)"--cluster.listen-address=",
        (char *)"--log.level=error", NULL};
    assert_int_equal(posix_spawn(&pid, argv[0], NULL, NULL, argv, environ), 0);
    GS_AUTO_FREE char *base = gs_format("http://127.0.0.1:%d", port);
    assert_ok(
        http_client_new_curl(&w.loop, &(struct http_client_config){.base_url = base}, &asked));
    free((char *)w.targets[0]);
    w.targets[0] = gs_format("127.0.0.1:%d", port);
    w.am.path_prefix = NULL;
    w.am.http = (struct endpoint_settings){0};
    for (int64_t end = gs_mono_ns() + WAIT_NS; !listens(port); usleep(50000))
        assert_true(gs_mono_ns() < end);
    apply(&w);
    put(&w, "0", 90);
    w.requests = 0;
    bool there = run_until(&w, alertmanager_has_it);
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    http_client_free(asked);
    GS_AUTO_FREE char *clean = gs_format("rm -rf %s/data %s", w.dir, config);
    assert_int_equal(system(clean), 0);
    assert_true(there);
    assert_string_equal(codec_json_str(json_array_get(w.last, 0), "annotations", "summary", NULL),
                        "GPU 0");
    stop(&w);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alert_is_sent),
        cmocka_unit_test(test_a_long_evaluation_pauses),
        cmocka_unit_test(test_a_reload_ends_what_pauses),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_reload_keeps_alerts),
        cmocka_unit_test(test_extra_sets),
        cmocka_unit_test(test_an_alert_that_was_not_evaluated_is_unknown),
        cmocka_unit_test(test_a_removed_group_has_no_metrics),
        cmocka_unit_test(test_real_alertmanager),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
