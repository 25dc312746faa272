// SPDX-License-Identifier: Apache-2.0
// http_sd_configs with a scripted server: the resulting groups as lines of text.
#include "engine/discovery/discovery.h"

#include "../../kube/loop.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/discovery/discovery_private.h"
#include "net/http/server.h"

struct fixture {
    uv_loop_t loop;
    struct http_server *server;
    char *url;
    const char *body, *type;
    int status;
    char *interval, *accept, *authorization; // headers of the last request
    int requests, updates;
    struct gs_buf heard; // of the last update
    struct discovery_stats stats;
    struct engine_config_http_sd cfg;
    struct discovery_provider *sd;
};

static void keep(char **slot, const char *value)
{
    free(*slot);
    *slot = gs_strdup(value);
}

static void serve(void *ctx, struct http_exchange *x)
{
    struct fixture *f = ctx;
    f->requests++;
    keep(&f->interval, http_header(x, "X-Prometheus-Refresh-Interval-Seconds"));
    keep(&f->accept, http_header(x, "Accept"));
    keep(&f->authorization, http_header(x, "Authorization"));
    http_reply(x, f->status, f->type, gs_slice_of(f->body));
}

static void hear_labels(struct gs_buf *out, const struct metrics_label *l, size_t n)
{
    for (size_t i = 0; i < n; i++)
        gs_buf_addf(out, " " GS_SLICE_FMT "=" GS_SLICE_FMT, GS_SLICE_ARG(l[i].name),
                    GS_SLICE_ARG(l[i].value));
}

// "0: a=b __meta_url=u | __address__=x:1
// "; without the URL before the number.
static void hear(struct gs_buf *out, const char *url, const struct discovery_group *groups,
                 size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_true(gs_starts(groups[i].source, url));
        gs_buf_addf(out, "%s:", groups[i].source + strlen(url) + 1);
        hear_labels(out, groups[i].labels, groups[i].n_labels);
        for (size_t k = 0; k < groups[i].n_targets; k++) {
            gs_buf_add_str(out, " |");
            hear_labels(out, groups[i].targets[k], groups[i].n_target_labels[k]);
        }
        gs_buf_add_char(out, '\n');
    }
}

static void on_update(void *arg, const struct discovery_group *groups, size_t n)
{
    struct fixture *f = arg;
    f->updates++;
    gs_buf_clear(&f->heard);
    hear(&f->heard, f->url, groups, n);
    gs_buf_add_char(&f->heard, '\0');
}

static void setup(struct fixture *f)
{
    *f = (struct fixture){.status = 200, .type = "application/json", .body = "[]"};
    uv_loop_init(&f->loop);
    const struct http_server_config cfg = {.address = "127.0.0.1"};
    assert_ok(http_server_start(&f->loop, &cfg, serve, f, &f->server));
    f->url = gs_format("http://127.0.0.1:%d/sd?x=1", http_server_port(f->server));
    f->cfg = (struct engine_config_http_sd){.url = f->url, .refresh_ms = 50};
}

static void start(struct fixture *f)
{
    const struct discovery_context ctx = {.loop = &f->loop, .stats = &f->stats, .config = "gpu"};
    assert_ok(discovery_provider_new(&ctx, (struct discovery_source){DISCOVERY_KIND_HTTP, &f->cfg},
                                     on_update, f, &f->sd));
}

static void finish(struct fixture *f)
{
    discovery_provider_free(f->sd);
    http_server_stop(f->server);
    loop_finish(&f->loop);
    gs_buf_finish(&f->heard);
    free(f->url);
    free(f->interval);
    free(f->accept);
    free(f->authorization);
}

static void test_a_list_becomes_groups_and_what_it_drops_goes(void **state)
{
    struct fixture f;
    setup(&f);
    f.body = "[{\"targets\":[\"a:1\",\"b:2\"],\"labels\":{\"x\":\"y\",\"__meta_url\":\"lie\"}},"
             "{\"targets\":[\"c:3\"]}]";
    start(&f);
    loop_until(&f.loop, f.heard.len > 0);
    GS_AUTO_FREE char *both = gs_format("0: x=y __meta_url=lie __meta_url=%s | __address__=a:1 | "
                                        "__address__=b:2\n1: __meta_url=%s | __address__=c:3\n",
                                        f.url, f.url);
    assert_string_equal(f.heard.data, both);
    assert_string_equal(f.interval, "0.05");
    assert_string_equal(f.accept, "application/json");
    f.body = "[{\"targets\":[]}]";
    int updates = f.updates;
    loop_until(&f.loop, f.updates > updates && strstr(f.heard.data, "\n1:\n"));
    f.body = "null";
    loop_until(&f.loop, strcmp(f.heard.data, "0:\n") == 0);
    finish(&f);
    (void)state;
}

// As in Prometheus: a label without a value is absent, a target without one has no address.
static void test_null_labels_and_targets_are_empty(void **state)
{
    struct fixture f;
    setup(&f);
    f.body = "[{\"targets\":[null,\"a:1\"],\"labels\":{\"x\":null,\"y\":\"z\"}},"
             "{\"targets\":null,\"labels\":null}]";
    start(&f);
    loop_until(&f.loop, f.heard.len > 0);
    GS_AUTO_FREE char *want =
        gs_format("0: y=z __meta_url=%s | | __address__=a:1\n1: __meta_url=%s\n", f.url, f.url);
    assert_string_equal(f.heard.data, want);
    finish(&f);
    (void)state;
}

static void test_failures_keep_the_list_and_are_counted(void **state)
{
    struct fixture f;
    setup(&f);
    f.body = "[{\"targets\":[\"a:1\"]}]";
    start(&f);
    loop_until(&f.loop, f.stats.http.count >= 3);
    assert_int_equal(f.updates, 1); // an unchanged list is not reported
    f.status = 500;
    loop_until(&f.loop, f.stats.http.failures >= 2);
    int updates = f.updates;
    loop_until(&f.loop, f.stats.http.failures >= 4);
    assert_int_equal(f.updates, updates);
    assert_true(f.stats.http.count >= f.stats.http.failures + 2);
    f.status = 200;
    f.body = "[{\"targets\":[\"b:1\"]}]";
    loop_until(&f.loop, f.updates > updates);
    assert_non_null(strstr(f.heard.data, "b:1"));
    GS_AUTO_BUF struct gs_buf text = {0};
    discovery_stats_write(&f.stats, &text);
    assert_non_null(strstr(text.data, "\nprometheus_sd_http_failures_total "));
    assert_non_null(strstr(
        text.data, "prometheus_sd_refresh_failures_total{config=\"gpu\",mechanism=\"http\"} "));
    assert_non_null(strstr(text.data, "prometheus_sd_refresh_duration_histogram_seconds_bucket{"
                                      "mechanism=\"http\",le=\"+Inf\"} "));
    discovery_provider_free(GS_TAKE(f.sd));
    assert_null(f.stats.counters);
    finish(&f);
    (void)state;
}

// Parts that wait for the first groups must not wait forever.
static void test_a_first_failure_is_told_as_no_groups(void **state)
{
    struct fixture f;
    setup(&f);
    f.status = 404;
    start(&f);
    loop_until(&f.loop, f.stats.http.failures >= 2);
    assert_int_equal(f.updates, 1);
    assert_string_equal(f.heard.data, "");
    finish(&f);
    (void)state;
}

static void keep_line(void *arg, const char *line, size_t len)
{
    gs_buf_add(arg, line, len);
}

static void test_the_log_has_no_secrets_of_the_url(void **state)
{
    struct fixture f;
    GS_AUTO_BUF struct gs_buf log = {0};
    setup(&f);
    f.cfg.url = "http://name:word@127.0.0.1:1/sd?token=word#word";
    gs_log_set_sink(keep_line, &log);
    start(&f);
    loop_until(&f.loop, f.stats.http.failures >= 1);
    gs_log_set_sink(NULL, NULL);
    assert_non_null(strstr(log.data, "GET http://127.0.0.1:1/sd: "));
    assert_null(strstr(log.data, "word"));
    finish(&f);
    (void)state;
}

static void test_other_settings_are_used_at_once(void **state)
{
    struct fixture f;
    setup(&f);
    f.cfg.refresh_ms = 3600000;
    start(&f);
    loop_until(&f.loop, f.updates == 1);
    assert_null(f.authorization);
    const struct engine_config_http_sd other = {
        .url = f.url,
        .refresh_ms = 3600000,
        .http = {.auth_type = "Bearer", .credentials.text = "t"}};
    discovery_provider_reconfigure(f.sd, (struct discovery_source){DISCOVERY_KIND_HTTP, &other});
    loop_until(&f.loop, f.requests == 2 && f.authorization);
    assert_string_equal(f.authorization, "Bearer t");
    const struct engine_config_http_sd unreadable = {
        .url = f.url, .refresh_ms = 3600000, .http.ca.file = "/nonexistent/ca"};
    discovery_provider_reconfigure(f.sd,
                                   (struct discovery_source){DISCOVERY_KIND_HTTP, &unreadable});
    loop_until(&f.loop, f.stats.http.failures == 1);
    assert_int_equal(f.requests, 2);
    finish(&f);
    (void)state;
}

static struct gs_error *read_answer(int status, const char *type, const char *body)
{
    struct discovery_group_list l = {0};
    size_t n = 0;
    const struct http_response response = {
        .status = status, .content_type = type, .body = gs_slice_of(body)};
    struct gs_error *err = discovery_http_read(&response, "u", 0, &l, &n);
    discovery_group_list_finish(&l);
    return err;
}

static void test_content_types_are_those_of_json(void **state)
{
    static const char *const good[] = {"application/json", "Application/JSON ",
                                       "application/json; charset=utf-8",
                                       "application/json;charset=\"UTF-8\""};
    static const char *const bad[] = {NULL,
                                      "",
                                      "text/plain",
                                      "application/jsonx",
                                      "application/json; charset=latin1",
                                      "application/json; a=b",
                                      "application/json;"};
    for (size_t i = 0; i < GS_ARRAY_LEN(good); i++)
        assert_ok(read_answer(200, good[i], "[]"));
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++)
        assert_error(read_answer(200, bad[i], "[]"), GS_EPROTO, "unsupported content type");
    assert_error(read_answer(503, good[0], "[]"), GS_EPROTO,
                 "server returned HTTP status 503 Service Unavailable");
    (void)state;
}

static void test_wrong_lists_are_refused_whole(void **state)
{
    static const char *const bad[] = {"",
                                      "{}",
                                      "[1]",
                                      "[null]",
                                      "[{\"targets\":[\"a\"]},null]",
                                      "[{\"targets\":\"a\"}]",
                                      "[{\"targets\":[1]}]",
                                      "[{\"targets\":[\"a\"],\"labels\":[]}]",
                                      "[{\"targets\":[\"a\"],\"labels\":{\"n\":1}}]",
                                      "[{\"targets\":[\"a\"],\"labels\":{\"\":\"x\"}}]",
                                      "[{\"targets\":[\"a\"],\"other\":1}]",
                                      "[] []"};
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++)
        assert_error(read_answer(200, "application/json", bad[i]), GS_EINVAL, "");
    assert_ok(read_answer(200, "application/json", "[{\"targets\":null,\"labels\":null},{}]"));
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_list_becomes_groups_and_what_it_drops_goes),
        cmocka_unit_test(test_null_labels_and_targets_are_empty),
        cmocka_unit_test(test_failures_keep_the_list_and_are_counted),
        cmocka_unit_test(test_a_first_failure_is_told_as_no_groups),
        cmocka_unit_test(test_the_log_has_no_secrets_of_the_url),
        cmocka_unit_test(test_other_settings_are_used_at_once),
        cmocka_unit_test(test_content_types_are_those_of_json),
        cmocka_unit_test(test_wrong_lists_are_refused_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
