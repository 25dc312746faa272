// SPDX-License-Identifier: Apache-2.0
// Sending of alerts: discovered Alertmanagers, relabeled alerts, a full queue, failing
// Alertmanagers. Alertmanager and Kubernetes API are simulated.
#include "engine/rules/rules_private.h"

#include "../../kube/loop.h"
#include "../filled.h"
#include "base/file.h"
#include "base/mem.h"
#include "kube/client.h"
#include "net/http/server.h"

struct fixture {
    uv_loop_t loop;
    struct http_server *server;
    struct rules_notifier *n;
    struct engine_config *cfg;
    struct http_client *kube_http;
    struct kube_client *kube;
    struct http_exchange *held; // the list request without a response
    bool hold;
    char dir[64];
    // what the server saw
    int requests, fail; // fail: with 503, that many times
    size_t alerts;
    json_t *last;
};

static void on_request(void *ctx, struct http_exchange *x)
{
    struct fixture *f = ctx;
    f->requests++;
    if (f->fail-- > 0) {
        http_reply_text(x, 503, "not now");
        return;
    }
    json_decref(f->last);
    f->last = NULL;
    assert_ok(codec_json_parse(http_body(x), true, &f->last));
    f->alerts += json_array_size(f->last);
    http_reply_text(x, 200, "{}");
}

static void reply_endpoints(struct fixture *f, struct http_exchange *x)
{
    GS_AUTO_FREE char *list = gs_format(
        "{\"kind\":\"List\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"1\"},"
        "\"items\":[{\"metadata\":{\"name\":\"am\",\"namespace\":\"m\",\"resourceVersion\":\"1\"},"
        "\"subsets\":[{\"addresses\":[{\"ip\":\"127.0.0.1\"}],\"ports\":[{\"name\":\"web\","
        "\"port\":%d}]}]}]}",
        http_server_port(f->server));
    http_reply(x, 200, "application/json", gs_slice_of(list));
}

static void closed(void *arg)
{
    (void)arg;
}

static void serve_kube(void *ctx, struct http_exchange *x)
{
    struct fixture *f = ctx;
    if (http_query(x, "watch"))
        http_reply_stream(x, 200, "application/json", closed, f);
    else if (!strstr(http_path(x), "/endpoints"))
        http_reply(x, 200, "application/json",
                   GS_SLICE("{\"metadata\":{\"resourceVersion\":\"1\"},\"items\":[]}"));
    else if (f->hold)
        f->held = x;
    else
        reply_endpoints(f, x);
}

static void start(struct fixture *f)
{
    *f = (struct fixture){0};
    uv_loop_init(&f->loop);
    const struct http_server_config cfg = {.address = "127.0.0.1"};
    assert_ok(http_server_start(&f->loop, &cfg, on_request, f, &f->server));
    f->kube_http = http_client_new_loopback(&f->loop, serve_kube, f, NULL);
    f->kube = kube_client_new(f->kube_http);
    f->n = rules_notifier_new(&f->loop, "http://me:9090");
    rules_notifier_set_discovery(f->n, f->kube, NULL);
    strcpy(f->dir, "/tmp/test-notify-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
}

static void finish(struct fixture *f)
{
    rules_notifier_free(f->n);
    kube_client_free(f->kube);
    http_client_free(f->kube_http);
    http_server_stop(f->server);
    loop_finish(&f->loop);
    engine_config_free(f->cfg);
    json_decref(f->last);
    rmdir(f->dir);
}

static void apply(struct fixture *f, const char *yaml)
{
    GS_AUTO_FREE char *text = filled_in(f->server, f->dir, yaml);
    struct engine_config *cfg;
    assert_ok(engine_config_parse(gs_slice_of(text), "p.yml", ".", &cfg));
    rules_notifier_apply(f->n, cfg);
    engine_config_free(f->cfg);
    f->cfg = cfg;
}

static void add_alert(struct fixture *f, const char *name, const char *team)
{
    const struct rules_rule rule = {0};
    const struct metrics_label labels[] = {{GS_SLICE("alertname"), gs_slice_of(name)},
                                           {GS_SLICE("team"), gs_slice_of(team)}};
    const struct rules_alert a = {.state = RULES_ALERT_FIRING,
                                  .rule = &rule,
                                  .labels = labels,
                                  .n_labels = 2,
                                  .fired_at_ms = 1000};
    rules_notifier_add(f->n, &a, 5000);
}

static const char *label(const struct fixture *f, size_t i, const char *name)
{
    return codec_json_str(json_array_get(f->last, i), "labels", name, NULL);
}

static double metric(const struct fixture *f, const char *name)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    rules_notifier_write_metrics(f->n, &out);
    GS_AUTO_FREE char *at = gs_format("\n%s", name);
    const char *line = strstr(out.data, at);
    const char *value = line ? strchr(line + 1, ' ') : NULL;
    return value ? strtod(value, NULL) : -1;
}

static void test_static_alertmanagers_get_relabelled_alerts(void **state)
{
    struct fixture f;
    start(&f);
    apply(&f, "global: {external_labels: {site: lab, replica: a}}\n"
              "alerting:\n"
              "  alert_relabel_configs:\n"
              "  - {regex: replica, action: labeldrop}\n"
              "  - {source_labels: [team], regex: quiet, action: drop}\n"
              "  alertmanagers:\n"
              "  - static_configs: [{targets: ['127.0.0.1:PORT']}]\n"
              "    alert_relabel_configs:\n"
              "    - {source_labels: [team], target_label: owner, replacement: 'the-$1'}\n");
    add_alert(&f, "A", "ml");
    add_alert(&f, "B", "quiet");
    rules_notifier_flush(f.n);
    loop_until(&f.loop, f.alerts == 1);
    assert_string_equal(label(&f, 0, "alertname"), "A");
    assert_string_equal(label(&f, 0, "owner"), "the-ml");
    assert_string_equal(label(&f, 0, "site"), "lab");
    assert_null(label(&f, 0, "replica"));
    finish(&f);
    (void)state;
}

static void test_one_of_two_sets_relabels_for_itself_alone(void **state)
{
    struct fixture f;
    start(&f);
    apply(&f, "alerting:\n"
              "  alertmanagers:\n"
              "  - static_configs: [{targets: ['127.0.0.1:PORT']}]\n"
              "    path_prefix: /one\n"
              "    alert_relabel_configs: [{source_labels: [team], regex: ml, action: drop}]\n"
              "  - static_configs: [{targets: ['127.0.0.1:PORT']}]\n"
              "    path_prefix: /two\n");
    add_alert(&f, "A", "ml");
    add_alert(&f, "B", "web");
    rules_notifier_flush(f.n);
    loop_until(&f.loop, f.requests == 2);
    assert_int_equal(f.alerts, 3);
    finish(&f);
    (void)state;
}

static void test_alertmanagers_of_files_are_found_and_waited_for(void **state)
{
    struct fixture f;
    start(&f);
    GS_AUTO_FREE char *path = gs_format("%s/am.json", f.dir);
    GS_AUTO_FREE char *list = filled_in(f.server, f.dir,
                                        "[{\"targets\":[\"127.0.0.1:PORT\",\"gone:1\"],"
                                        "\"labels\":{\"kind\":\"am\"}}]");
    assert_ok(gs_file_write_atomic(path, 0600, gs_slice_of(list)));
    apply(&f, "alerting: {alertmanagers: [{file_sd_configs: [{files: ['DIR/*.json']}],\n"
              "  relabel_configs: [{source_labels: [__address__], regex: 'gone.*', action: drop},\n"
              "  {source_labels: [kind], regex: am, action: keep}]}]}");
    add_alert(&f, "A", "ml");
    rules_notifier_flush(f.n); // before the file was read
    loop_until(&f.loop, f.alerts == 1);
    CODEC_AUTO_JSON json_t *view = rules_notifier_json(f.n);
    assert_int_equal(json_array_size(codec_json_get(view, "activeAlertmanagers", NULL)), 1);
    assert_int_equal(json_array_size(codec_json_get(view, "droppedAlertmanagers", NULL)), 1);
    unlink(path);
    finish(&f);
    (void)state;
}

#define KUBERNETES_AM                                                                              \
    "alerting: {alertmanagers: [{kubernetes_sd_configs: [{role: endpoints, namespaces: {names: "   \
    "[m]}}],\n"                                                                                    \
    "  relabel_configs: [{source_labels: [__meta_kubernetes_endpoint_port_name], regex: web,"      \
    " action: keep}]}]}"

static void test_alertmanagers_of_a_cluster_are_found(void **state)
{
    struct fixture f;
    start(&f);
    apply(&f, KUBERNETES_AM);
    add_alert(&f, "A", "ml");
    rules_notifier_flush(f.n);
    loop_until(&f.loop, metric(&f, "prometheus_notifications_sent_total") == 1);
    // After a reload, they are discovered again. Due alerts wait.
    apply(&f, KUBERNETES_AM);
    add_alert(&f, "B", "ml");
    rules_notifier_flush(f.n);
    loop_until(&f.loop, f.alerts == 2);
    assert_string_equal(label(&f, 0, "alertname"), "B");
    assert_true(metric(&f, "prometheus_notifications_dropped_total") == 0);
    finish(&f);
    (void)state;
}

// The API does not respond: the newest 10000 alerts wait.
static void test_a_full_queue_drops_the_oldest(void **state)
{
    struct fixture f;
    start(&f);
    f.hold = true;
    apply(&f, KUBERNETES_AM);
    for (int i = 0; i < 10100; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "A%d", i);
        add_alert(&f, name, "ml");
        rules_notifier_flush(f.n);
    }
    loop_until(&f.loop, f.held);
    assert_int_equal(f.alerts, 0);
    assert_true(metric(&f, "prometheus_notifications_queue_length") == 10000);
    assert_true(metric(&f, "prometheus_notifications_dropped_total") == 100);
    f.hold = false;
    reply_endpoints(&f, f.held);
    loop_until(&f.loop, f.alerts > 0);
    assert_string_equal(label(&f, 0, "alertname"), "A100");
    loop_until(&f.loop, f.alerts == 10000);
    assert_string_equal(label(&f, json_array_size(f.last) - 1, "alertname"), "A10099");
    finish(&f);
    (void)state;
}

static void test_a_failure_is_tried_again_once_and_then_counted(void **state)
{
    struct fixture f;
    start(&f);
    apply(&f, "alerting: {alertmanagers: [{static_configs: [{targets: ['127.0.0.1:PORT']}]}]}");
    f.fail = 1;
    add_alert(&f, "A", "ml");
    rules_notifier_flush(f.n);
    loop_until(&f.loop, f.alerts == 1);
    assert_true(metric(&f, "prometheus_notifications_dropped_total") == 0);
    f.fail = 2;
    add_alert(&f, "B", "ml");
    rules_notifier_flush(f.n);
    loop_until(&f.loop, metric(&f, "prometheus_notifications_dropped_total") == 1);
    assert_int_equal(f.requests, 4);
    add_alert(&f, "C", "ml"); // requests succeed again
    rules_notifier_flush(f.n);
    loop_until(&f.loop, f.alerts == 2);
    finish(&f);
    (void)state;
}

static void test_nobody_configured_is_no_drop(void **state)
{
    struct fixture f;
    start(&f);
    apply(&f, "");
    add_alert(&f, "A", "ml");
    rules_notifier_flush(f.n);
    assert_true(metric(&f, "prometheus_notifications_queue_length") == 0);
    assert_true(metric(&f, "prometheus_notifications_dropped_total") == 0);
    finish(&f);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_static_alertmanagers_get_relabelled_alerts),
        cmocka_unit_test(test_one_of_two_sets_relabels_for_itself_alone),
        cmocka_unit_test(test_alertmanagers_of_files_are_found_and_waited_for),
        cmocka_unit_test(test_alertmanagers_of_a_cluster_are_found),
        cmocka_unit_test(test_a_full_queue_drops_the_oldest),
        cmocka_unit_test(test_a_failure_is_tried_again_once_and_then_counted),
        cmocka_unit_test(test_nobody_configured_is_no_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
