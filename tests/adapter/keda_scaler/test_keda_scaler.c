// SPDX-License-Identifier: Apache-2.0
// KEDA's calls, over a socket, to an adapter with an engine in the same process.
#include "adapter/adapter_private.h"
#include "adapter/keda_scaler/keda_scaler.h"
#include "base/mem.h"
#include "codec/protobuf.h"
#include "engine/engine.h"
#include "kube/client.h"
#include "local/api_harness.h"
#include "patience.h"

#include <unistd.h>

#define SERVICE "/externalscaler.ExternalScaler/"
#define QUEUE   "signal=gpuscale_activator_waiting;object=service/api;threshold=8"
#define OTHER   "signal=gpuscale_activator_waiting;object=service/other;threshold=8"
#define GPU     "signal=DCGM_FI_DEV_GPU_UTIL;object=deployment/w;threshold=80"

struct fixture {
    struct harness h;
    struct http_client *cluster;
    struct kube_client *kube;
    bool fails; // reading Deployments
    size_t n_failed;
    struct engine *engine;
    struct adapter *adapter;
    struct grpc_server *server;
    struct grpc_client *client;
    struct keda_scaler *scaler;
    const char *not_ready;
    int64_t sample_ms; // of the last sample: a series has one in a millisecond
};

// --- the fixture ---

static struct provider *provider(void *arg)
{
    return ((struct fixture *)arg)->adapter->now.provider;
}

static const char *not_ready(void *arg)
{
    return ((struct fixture *)arg)->not_ready;
}

static void serve(struct fixture *f)
{
    uint16_t port = 0;
    const struct keda_scaler_options o = {.provider = provider,
                                          .not_ready = not_ready,
                                          .changes = adapter_api_changes(f->adapter->api),
                                          .source = f->adapter->source,
                                          .arg = f};
    f->server = grpc_server_new(&f->h.loop);
    f->scaler = keda_scaler_new(&f->h.loop, f->server, &o);
    assert_null(grpc_server_listen_tcp(f->server, "127.0.0.1", 0, &port));
    GS_AUTO_FREE char *target = gs_format("127.0.0.1:%u", port);
    assert_null(grpc_client_new(&f->h.loop, target, &f->client));
}

static void serve_cluster(void *arg, struct http_exchange *x)
{
    struct fixture *f = arg;
    if (!f->fails || !strstr(http_path(x), "/deployments")) {
        local_api_handle(f->h.api, x);
        return;
    }
    f->n_failed++;
    http_reply_text(x, 500, "injected fault");
}

static void open_cluster(struct fixture *f)
{
    static const char *const groups[] = {"system:masters"};
    const struct http_identity admin = {"system:admin", groups, 1};
    harness_open(&f->h, NULL);
    f->cluster = http_client_new_loopback(&f->h.loop, serve_cluster, f, &admin);
    f->kube = kube_client_new(f->cluster);
}

static char config[32]; // the file of rules; "": none

static int set_up(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    open_cluster(f);
    assert_null(engine_new(&f->h.loop, &(struct engine_options){0}, &f->engine));
    const struct adapter_options o = {.kube = f->kube,
                                      .engine = f->engine,
                                      .config = *config ? config : NULL,
                                      .trusted = true,
                                      .gpu_metrics = true,
                                      .relist_ns = 3600 * GS_NS_PER_SEC};
    assert_null(adapter_new(&f->h.loop, &o, &f->adapter));
    serve(f);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    grpc_client_free(f->client);
    grpc_server_free(f->server);
    keda_scaler_free(f->scaler);
    adapter_free(f->adapter);
    engine_free(f->engine);
    kube_client_free(f->kube);
    http_client_free(f->cluster);
    harness_close(&f->h);
    free(f);
    return 0;
}

// A rule whose query has all Services, whichever is requested.
static int set_up_rule(void **state)
{
    static const char rule[] =
        "rules: [{seriesQuery: 'queue{namespace!=\"\",service!=\"\"}', resources: {template: "
        "'<<.Resource>>'}, metricsQuery: 'sum by (namespace, service) (queue)'}]\n";
    snprintf(config, sizeof(config), "/tmp/keda-rules.XXXXXX");
    int fd = mkstemp(config);
    assert_int_equal(write(fd, rule, strlen(rule)), strlen(rule));
    close(fd);
    return set_up(state);
}

static int tear_down_rule(void **state)
{
    tear_down(state);
    unlink(config);
    *config = '\0';
    return 0;
}

// --- samples and objects ---

static void append(struct fixture *f, const struct metrics_label *labels, size_t n, double v)
{
    int64_t now = gs_unix_ms();
    f->sample_ms = now > f->sample_ms ? now : f->sample_ms + 1;
    assert_null(tsdb_append(engine_tsdb(f->engine), labels, n, f->sample_ms, v));
    adapter_api_new_samples(f->adapter->api);
}

static void put_of(struct fixture *f, const char *name, const char *service, double v)
{
    const struct metrics_label labels[] = {{GS_SLICE("__name__"), gs_slice_of(name)},
                                           {GS_SLICE("namespace"), GS_SLICE("default")},
                                           {GS_SLICE("service"), gs_slice_of(service)}};
    append(f, labels, GS_ARRAY_LEN(labels), v);
}

static void put_queue_of(struct fixture *f, const char *service, double v)
{
    put_of(f, "gpuscale_activator_waiting", service, v);
}

static void put_queue(struct fixture *f, double v)
{
    put_queue_of(f, "api", v);
}

static void put_gpu(struct fixture *f, const char *pod, double v)
{
    const struct metrics_label labels[] = {{GS_SLICE("__name__"), GS_SLICE("DCGM_FI_DEV_GPU_UTIL")},
                                           {GS_SLICE("UUID"), gs_slice_of(pod)},
                                           {GS_SLICE("namespace"), GS_SLICE("default")},
                                           {GS_SLICE("pod"), gs_slice_of(pod)}};
    append(f, labels, GS_ARRAY_LEN(labels), v);
}

static void create(struct fixture *f, const char *path, const char *body)
{
    struct reply r AUTO_REPLY = request(&f->h, "POST", path, body);
    assert_int_equal(r.status, 201);
}

#define TEMPLATE "{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}"

static void create_workload(struct fixture *f)
{
    create(
        f, "/apis/apps/v1/namespaces/default/deployments",
        "{\"metadata\":{\"name\":\"w\"},\"spec\":{\"selector\":{\"matchLabels\":{\"app\":\"w\"}},"
        "\"template\":{\"metadata\":{\"labels\":{\"app\":\"w\"}},\"spec\":" TEMPLATE "}}}");
    for (int i = 0; i < 2; i++) {
        GS_AUTO_FREE char *pod = gs_format("{\"metadata\":{\"name\":\"w-%d\",\"labels\":{\"app\":"
                                           "\"w\"}},\"spec\":" TEMPLATE "}",
                                           i);
        create(f, "/api/v1/namespaces/default/pods", pod);
    }
}

// --- calls ---

struct call {
    bool done;
    enum grpc_status status;
    char *message;
    struct gs_buf body; // of the reply, or of all messages of a stream, each with a "|" after it
    size_t n;
    struct grpc_pending *pending;
};

static void call_finish(struct call *c)
{
    if (!c->done)
        grpc_pending_cancel(c->pending);
    free(c->message);
    gs_buf_finish(&c->body);
}
#define AUTO_CALL GS_CLEANUP(call_finish)

static void on_reply(void *arg, const struct grpc_reply *reply)
{
    struct call *c = arg;
    c->done = true;
    c->status = reply->status;
    c->message = gs_strdup(reply->message);
    gs_buf_add_slice(&c->body, reply->body);
}

static void on_message(void *arg, struct gs_slice message)
{
    struct call *c = arg;
    gs_buf_add_slice(&c->body, message);
    gs_buf_add_char(&c->body, '|');
    c->n++;
}

static void wait_done(struct fixture *f, const struct call *c)
{
    const int64_t deadline = gs_mono_ns() + WAIT_NS;
    while (!c->done && gs_mono_ns() < deadline)
        uv_run(&f->h.loop, UV_RUN_ONCE);
    assert_true(c->done);
}

static void wait_messages(struct fixture *f, const struct call *c, size_t n)
{
    const int64_t deadline = gs_mono_ns() + WAIT_NS;
    while (c->n < n && !c->done && gs_mono_ns() < deadline)
        uv_run(&f->h.loop, UV_RUN_ONCE);
    assert_true(c->n >= n);
}

// metadata: "key=value;key=value".
static void make_ref(const char *metadata, struct gs_buf *out)
{
    struct gs_slice rest = gs_slice_of(metadata);
    codec_proto_add_bytes(out, 1, GS_SLICE("so"));
    codec_proto_add_bytes(out, 2, GS_SLICE("default"));
    while (rest.data && rest.len) {
        GS_AUTO_BUF struct gs_buf pair = {0};
        struct gs_slice value = gs_slice_cut(&rest, ';'), key = gs_slice_cut(&value, '=');
        codec_proto_add_bytes(&pair, 1, key);
        codec_proto_add_bytes(&pair, 2, value);
        codec_proto_add_bytes(out, 3, gs_buf_slice(&pair));
    }
}

static void make_request(const char *method, const char *metadata, struct gs_buf *out)
{
    GS_AUTO_BUF struct gs_buf ref = {0};
    make_ref(metadata, &ref);
    if (!gs_streq(method, "GetMetrics")) {
        gs_buf_add_slice(out, gs_buf_slice(&ref));
        return;
    }
    codec_proto_add_bytes(out, 1, gs_buf_slice(&ref));
    codec_proto_add_bytes(out, 2, GS_SLICE("m"));
}

static void call(struct fixture *f, const char *method, const char *metadata, struct call *c)
{
    GS_AUTO_BUF struct gs_buf rq = {0};
    GS_AUTO_FREE char *path = gs_format(SERVICE "%s", method);
    make_request(method, metadata, &rq);
    *c = (struct call){0};
    grpc_client_call(f->client, path, gs_buf_slice(&rq), WAIT_MS, on_reply, c);
    wait_done(f, c);
}

static void open_stream(struct fixture *f, const char *method, const char *metadata, struct call *c)
{
    GS_AUTO_BUF struct gs_buf rq = {0};
    GS_AUTO_FREE char *path = gs_format(SERVICE "%s", method);
    make_request(method, metadata, &rq);
    c->pending = grpc_client_call_stream(f->client, path, gs_buf_slice(&rq), UINT32_MAX, on_message,
                                         on_reply, c);
}

// The float of the only MetricValue or MetricSpec.
static double number_of(const struct call *c)
{
    struct gs_slice rest = gs_buf_slice(&c->body);
    struct codec_proto_token t;
    double v = -1;
    assert_null(codec_proto_next(&rest, &t));
    for (rest = t.bytes; rest.len;) {
        assert_null(codec_proto_next(&rest, &t));
        if (t.number == 3)
            memcpy(&v, t.bytes.data, sizeof(v));
    }
    return v;
}

// Repeats the call until the registry has listed the series.
static void call_until(struct fixture *f, const char *method, const char *metadata,
                       enum grpc_status status, struct call *c)
{
    const int64_t deadline = gs_mono_ns() + WAIT_NS;
    call(f, method, metadata, c);
    while (c->status != status && gs_mono_ns() < deadline) {
        call_finish(c);
        uv_run(&f->h.loop, UV_RUN_ONCE);
        call(f, method, metadata, c);
    }
    if (c->status != status)
        fail_msg("%s: status %d: %s", method, c->status, c->message);
}

#define ACTIVE "\x08\x01"

static bool is_active(struct fixture *f, const char *metadata)
{
    AUTO_CALL struct call c = {0};
    call_until(f, "IsActive", metadata, GRPC_OK, &c);
    return gs_slice_eq_str(gs_buf_slice(&c.body), ACTIVE);
}

// --- tests ---

static void test_a_queue_has_a_value_and_activity(void **state)
{
    struct fixture *f = *state;
    put_queue(f, 3);
    AUTO_CALL struct call c = {0};
    call_until(f, "GetMetrics", QUEUE, GRPC_OK, &c);
    assert_true(number_of(&c) == 3);
    assert_true(is_active(f, QUEUE));
    assert_false(is_active(f, QUEUE ";activationThreshold=3"));
    assert_true(is_active(f, QUEUE ";activationThreshold=2.9"));
}

static void test_the_value_of_a_workload_is_that_of_the_metrics_api(void **state)
{
    struct fixture *f = *state;
    create_workload(f);
    put_gpu(f, "w-0", 40);
    put_gpu(f, "w-1", 60);
    AUTO_CALL struct call c = {0};
    call_until(f, "GetMetrics", GPU, GRPC_OK, &c);
    assert_true(number_of(&c) == 50);
}

static void test_the_specification_needs_no_value(void **state)
{
    struct fixture *f = *state;
    AUTO_CALL struct call c = {0};
    call(f, "GetMetricSpec", GPU, &c);
    assert_int_equal(c.status, GRPC_OK);
    assert_true(number_of(&c) == 80);
    AUTO_CALL struct call s = {0};
    open_stream(f, "StreamMetricSpec", GPU, &s);
    wait_messages(f, &s, 1);
    assert_false(s.done);
}

// KEDA takes an empty list, 0 and false for idleness.
static void test_an_absent_value_is_an_error_with_the_reason(void **state)
{
    struct fixture *f = *state;
    static const char *const methods[] = {"IsActive", "GetMetrics"};
    put_queue(f, 3);
    put_gpu(f, "p", 50);
    assert_true(is_active(f, QUEUE));
    AUTO_CALL struct call pod = {0};
    call_until(f, "GetMetrics", "signal=DCGM_FI_DEV_GPU_UTIL;object=pod/p;threshold=8", GRPC_OK,
               &pod);
    for (size_t i = 0; i < GS_ARRAY_LEN(methods); i++) {
        AUTO_CALL struct call c = {0};
        call(f, methods[i], OTHER, &c);
        assert_int_equal(c.status, GRPC_NOT_FOUND);
        assert_non_null(strstr(c.message, "service default/other"));
        assert_int_equal(c.body.len, 0);
        AUTO_CALL struct call wrong = {0};
        call(f, methods[i], "signal=DCGM_FI_DEV_GPU_UTIL;threshold=8", &wrong);
        assert_int_equal(wrong.status, GRPC_NOT_FOUND);
        assert_non_null(strstr(wrong.message, "default/so"));
        assert_non_null(strstr(wrong.message, "\"object\""));
    }
}

static void test_wrong_metadata_is_an_invalid_argument(void **state)
{
    struct fixture *f = *state;
    static const char *const methods[] = {"IsActive", "GetMetrics", "GetMetricSpec",
                                          "StreamIsActive", "StreamMetricSpec"};
    for (size_t i = 0; i < GS_ARRAY_LEN(methods); i++) {
        AUTO_CALL struct call c = {0};
        call(f, methods[i], "signal=a;treshold=1", &c);
        assert_int_equal(c.status, GRPC_INVALID_ARGUMENT);
        assert_non_null(strstr(c.message, "treshold"));
    }
}

static void test_before_the_adapter_is_ready_values_are_unavailable(void **state)
{
    struct fixture *f = *state;
    f->not_ready = "the series are not listed yet";
    AUTO_CALL struct call c = {0};
    call(f, "GetMetrics", QUEUE, &c);
    assert_int_equal(c.status, GRPC_UNAVAILABLE);
    assert_string_equal(c.message, f->not_ready);
}

static void test_activity_is_pushed_when_a_sample_changes_it(void **state)
{
    struct fixture *f = *state;
    put_queue(f, 0);
    assert_false(is_active(f, QUEUE));
    AUTO_CALL struct call s = {0};
    open_stream(f, "StreamIsActive", QUEUE, &s);
    wait_messages(f, &s, 1);
    put_queue(f, 2);
    wait_messages(f, &s, 2);
    put_queue(f, 7); // still active: no message
    put_queue(f, 0);
    wait_messages(f, &s, 3);
    assert_true(gs_slice_eq(gs_buf_slice(&s.body), GS_SLICE("\x08\0|\x08\x01|\x08\0|")));
    assert_int_equal(s.n, 3);
}

// A queue that has no series yet, as before the Service has the annotation of the activator.
static void test_the_first_value_of_a_stream_is_pushed_when_it_exists(void **state)
{
    struct fixture *f = *state;
    put_queue(f, 5);
    assert_true(is_active(f, QUEUE));
    AUTO_CALL struct call s = {0}, other = {0};
    open_stream(f, "StreamIsActive", OTHER, &other);
    open_stream(f, "StreamIsActive", QUEUE, &s);
    wait_messages(f, &s, 1);
    AUTO_CALL struct call c = {0};
    call(f, "IsActive", OTHER, &c);
    assert_int_equal(c.status, GRPC_NOT_FOUND);
    assert_int_equal(other.n, 0);
    assert_false(other.done);
    put_queue_of(f, "other", 1);
    wait_messages(f, &other, 1);
    assert_true(gs_slice_eq_str(gs_buf_slice(&other.body), ACTIVE "|"));
}

// One connection of KEDA has two streams for each ScaledObject.
static void test_one_connection_has_many_streams(void **state)
{
    enum { STREAMS = 300 };
    struct fixture *f = *state;
    struct call *streams = gs_alloc_array(STREAMS, sizeof(*streams));
    put_queue(f, 1);
    assert_true(is_active(f, QUEUE));
    for (size_t i = 0; i < STREAMS; i++)
        open_stream(f, i % 2 ? "StreamIsActive" : "StreamMetricSpec", QUEUE, &streams[i]);
    for (size_t i = 0; i < STREAMS; i++)
        wait_messages(f, &streams[i], 1);
    keda_scaler_end_streams(f->scaler);
    for (size_t i = 0; i < STREAMS; i++) {
        wait_done(f, &streams[i]);
        assert_int_equal(streams[i].status, GRPC_OK); // otherwise KEDA logs an error
        call_finish(&streams[i]);
    }
    free(streams);
    GS_AUTO_BUF struct gs_buf metrics = {0};
    keda_scaler_write_metrics(f->scaler, &metrics);
    assert_non_null(strstr(metrics.data, "gpuscale_keda_streams{method=\"StreamIsActive\"} 0\n"));
    assert_non_null(strstr(metrics.data, "gpuscale_keda_streams{method=\"StreamMetricSpec\"} 0\n"));
}

static void test_a_client_that_goes_ends_its_calls(void **state)
{
    struct fixture *f = *state;
    put_queue(f, 1);
    assert_true(is_active(f, QUEUE));
    AUTO_CALL struct call s = {0};
    open_stream(f, "StreamIsActive", QUEUE, &s);
    wait_messages(f, &s, 1);
    grpc_pending_cancel(s.pending);
    s.done = true;
    put_queue(f, 0);
    const int64_t deadline = gs_mono_ns() + WAIT_NS;
    GS_AUTO_BUF struct gs_buf metrics = {0};
    do {
        uv_run(&f->h.loop, UV_RUN_NOWAIT);
        gs_buf_clear(&metrics);
        keda_scaler_write_metrics(f->scaler, &metrics);
    } while (!strstr(metrics.data, "gpuscale_keda_streams{method=\"StreamIsActive\"} 0\n") &&
             gs_mono_ns() < deadline);
    assert_non_null(strstr(metrics.data, "gpuscale_keda_streams{method=\"StreamIsActive\"} 0\n"));
}

// The only series of the query is that of another object: the value of this one is absent.
static void test_a_value_of_another_object_is_not_pushed(void **state)
{
    struct fixture *f = *state;
    AUTO_CALL struct call s = {0};
    put_of(f, "queue", "other", 1);
    assert_true(is_active(f, "signal=queue;object=service/other;threshold=8"));
    open_stream(f, "StreamIsActive", "signal=queue;object=service/api;threshold=8", &s);
    const int64_t deadline = gs_mono_ns() + GS_NS_PER_SEC;
    for (double v = 2; gs_mono_ns() < deadline && !s.n; v++) {
        put_of(f, "queue", "other", v);
        uv_run(&f->h.loop, UV_RUN_NOWAIT);
        uv_sleep(20);
    }
    assert_int_equal(s.n, 0);
    // Its own value is pushed when it exists.
    put_of(f, "queue", "api", 1);
    wait_messages(f, &s, 1);
    assert_true(gs_slice_eq_str(gs_buf_slice(&s.body), ACTIVE "|"));
}

// A thousand streams would load an API server that has trouble with a thousand reads a second.
static void test_streams_do_not_hurry_while_the_api_server_fails(void **state)
{
    struct fixture *f = *state;
    AUTO_CALL struct call s = {0};
    create_workload(f);
    put_gpu(f, "w-0", 10);
    assert_true(is_active(f, GPU));
    f->fails = true;
    open_stream(f, "StreamIsActive", GPU, &s);
    const int64_t start = gs_mono_ns();
    while ((!f->n_failed || gs_mono_ns() - start < 2 * GS_NS_PER_SEC) &&
           gs_mono_ns() - start < WAIT_NS) {
        uv_run(&f->h.loop, UV_RUN_NOWAIT);
        uv_sleep(5);
    }
    assert_int_equal(f->n_failed, 1); // the next one is after 15 s
}

// Otherwise the process would wait for a stream that lasts.
static void test_a_stop_refuses_streams_that_are_opened_again(void **state)
{
    static const char *const methods[] = {"StreamIsActive", "StreamMetricSpec"};
    struct fixture *f = *state;
    put_queue(f, 1);
    assert_true(is_active(f, QUEUE));
    keda_scaler_end_streams(f->scaler);
    for (size_t i = 0; i < GS_ARRAY_LEN(methods); i++) {
        AUTO_CALL struct call again = {0};
        open_stream(f, methods[i], QUEUE, &again);
        wait_done(f, &again);
        assert_int_equal(again.status, GRPC_UNAVAILABLE);
        assert_int_equal(again.n, 0);
    }
    assert_true(is_active(f, QUEUE));
}

// A client cancels many streams at once when ScaledObjects are deleted, or read again.
static void test_many_cancelled_streams_end_no_other(void **state)
{
    enum { STREAMS = 1500 };
    struct fixture *f = *state;
    struct call *streams = gs_alloc_array(STREAMS, sizeof(*streams));
    AUTO_CALL struct call other = {0}, after = {0};
    open_stream(f, "StreamMetricSpec", QUEUE, &other);
    wait_messages(f, &other, 1);
    for (size_t i = 0; i < STREAMS; i++)
        open_stream(f, "StreamMetricSpec", QUEUE, &streams[i]);
    for (size_t i = 0; i < STREAMS; i++)
        wait_messages(f, &streams[i], 1);
    for (size_t i = 0; i < STREAMS; i++)
        call_finish(&streams[i]);
    free(streams);
    call(f, "GetMetricSpec", QUEUE, &after);
    assert_int_equal(after.status, GRPC_OK);
    assert_false(other.done);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_queue_has_a_value_and_activity),
        TEST(test_the_value_of_a_workload_is_that_of_the_metrics_api),
        TEST(test_the_specification_needs_no_value),
        TEST(test_an_absent_value_is_an_error_with_the_reason),
        TEST(test_wrong_metadata_is_an_invalid_argument),
        TEST(test_before_the_adapter_is_ready_values_are_unavailable),
        TEST(test_activity_is_pushed_when_a_sample_changes_it),
        TEST(test_the_first_value_of_a_stream_is_pushed_when_it_exists),
        TEST(test_one_connection_has_many_streams),
        TEST(test_a_client_that_goes_ends_its_calls),
        cmocka_unit_test_setup_teardown(test_a_value_of_another_object_is_not_pushed, set_up_rule,
                                        tear_down_rule),
        TEST(test_streams_do_not_hurry_while_the_api_server_fails),
        TEST(test_a_stop_refuses_streams_that_are_opened_again),
        TEST(test_many_cancelled_streams_end_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
