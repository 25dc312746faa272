// SPDX-License-Identifier: Apache-2.0
// Received OTLP metrics: the series that they become, replies, and hostile bodies.
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/turn.h"
#include "codec/encoding.h"
#include "engine/remote/receiver.h"
#include "engine/remote/remote_private.h"
#include "tsdb/exemplars.h"

struct fixture {
    struct tsdb *db;
    struct remote_receiver *r;
    struct remote_receiver_reply reply;
    int64_t now;
};

static int set_up(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    f->db = tsdb_new(&(struct tsdb_config){.retention_ms = 3600000, .max_series = 1000});
    f->r = remote_receiver_new(f->db, REMOTE_MESSAGE_OTLP, 3600000, 0);
    f->now = gs_unix_ms();
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    gs_buf_finish(&f->reply.text);
    remote_receiver_free(f->r);
    tsdb_free(f->db);
    free(f);
    return 0;
}

static void push(struct fixture *f, const char *type, const char *encoding, struct gs_slice body)
{
    const struct remote_receiver_request q = {
        .peer = "test", .content_type = type, .content_encoding = encoding, .body = body};
    gs_buf_finish(&f->reply.text);
    remote_receiver_otlp(f->r, &q, &f->reply);
}

// Pushes one metric. Text: the rest of the metric after its name; NOW is the time.
static void push_metric(struct fixture *f, const char *name, const char *text)
{
    GS_AUTO_BUF struct gs_buf body = {0};
    gs_buf_addf(&body,
                "{\"resourceMetrics\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\","
                "\"value\":{\"stringValue\":\"s\"}}]},\"scopeMetrics\":[{\"metrics\":[{\"name\":"
                "\"%s\",",
                name);
    for (const char *at = text; *at; at++) {
        if (strncmp(at, "NOW", 3) == 0) {
            gs_buf_addf(&body, "\"%lld000000\"", (long long)f->now);
            at += 2;
        } else {
            gs_buf_add_char(&body, *at);
        }
    }
    gs_buf_add_str(&body, "}]}]}]}");
    push(f, "application/json", NULL, gs_buf_slice(&body));
}

static void assert_reply(const struct fixture *f, int status, const char *text)
{
    assert_int_equal(f->reply.status, status);
    assert_string_equal(f->reply.text.data ? f->reply.text.data : "", text);
}

static void assert_value(struct fixture *f, const char *name, const char *label, const char *value,
                         double v)
{
    const struct metrics_label labels[] = {{GS_SLICE("__name__"), gs_slice_of(name)},
                                           {GS_SLICE("job"), GS_SLICE("s")},
                                           {gs_slice_of(label), gs_slice_of(value)}};
    tsdb_ref ref;
    double got;
    assert_ok(tsdb_series_get(f->db, labels, *label ? 3 : 2, &ref));
    tsdb_latest(f->db, &ref, 1, INT64_MAX, INT64_MIN, &got, NULL);
    assert_memory_equal(&got, &v, sizeof(v));
}

static void test_translation_strategies(void **state)
{
    static const struct {
        const char *strategy, *metric, *labels[4];
    } cases[] = {
        {"UnderscoreEscapingWithSuffixes", "a_b_seconds_total", {"k_x", "key_9", "key_a", "a__b"}},
        {"UnderscoreEscapingWithoutSuffixes", "a_b", {"k_x", "key_9", "key_a", "a__b"}},
        {"NoUTF8EscapingWithSuffixes", "a.b_seconds_total", {"k.x", "9", "_a", "a__b"}},
        {"NoTranslation", "a.b", {"k.x", "9", "_a", "a__b"}},
    };
    static const char *const labels[] = {"k.x", "9", "_a", "a__b"};
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_FREE char *text = gs_format("otlp: {translation_strategy: %s}", cases[i].strategy);
        GS_AUTO_BUF struct gs_buf name = {0};
        struct engine_config *cfg;
        assert_ok(engine_config_parse(gs_slice_of(text), "c", ".", &cfg));
        assert_ok(remote_otlp_metric_name(&cfg->otlp, GS_SLICE("a.b"), GS_SLICE("s"),
                                          REMOTE_OTLP_COUNTER, &name));
        assert_string_equal(name.data, cases[i].metric);
        for (size_t k = 0; k < GS_ARRAY_LEN(labels); k++) {
            gs_buf_clear(&name);
            assert_ok(remote_otlp_label_name(&cfg->otlp, gs_slice_of(labels[k]), &name));
            assert_string_equal(name.data, cases[i].labels[k]);
        }
        engine_config_free(cfg);
    }
    (void)state;
}

static void test_scope_metadata_becomes_labels(void **state)
{
    struct fixture *f = *state;
    const struct metrics_label want[] = {
        {GS_SLICE("__name__"), GS_SLICE("m")},
        {GS_SLICE("otel_scope_name"), GS_SLICE("lib")},
        {GS_SLICE("otel_scope_part"), GS_SLICE("p")},
        {GS_SLICE("otel_scope_schema_url"), GS_SLICE("u")},
        {GS_SLICE("otel_scope_version"), GS_SLICE("2")},
    };
    GS_AUTO_FREE char *body = gs_format(
        "{\"resourceMetrics\":[{\"scopeMetrics\":[{\"scope\":{\"name\":\"lib\",\"version\":\"2\","
        "\"attributes\":[{\"key\":\"part\",\"value\":{\"stringValue\":\"p\"}}]},\"schemaUrl\":"
        "\"u\",\"metrics\":[{\"name\":\"m\",\"gauge\":{\"dataPoints\":[{\"timeUnixNano\":"
        "\"%lld000000\",\"asInt\":7}]}}]}]}]}",
        (long long)f->now);
    struct engine_config *cfg;
    struct tsdb_stats stats;
    assert_ok(
        engine_config_parse(GS_SLICE("otlp: {promote_scope_metadata: true}"), "c", ".", &cfg));
    remote_receiver_set_otlp(f->r, &cfg->otlp);
    engine_config_free(cfg);
    push(f, "application/json", NULL, gs_slice_of(body));
    assert_reply(f, 200, "{}");
    tsdb_stats(f->db, &stats);
    assert_int_equal(stats.series, 1);
    tsdb_ref ref;
    assert_ok(tsdb_series_get(f->db, want, GS_ARRAY_LEN(want), &ref));
    tsdb_stats(f->db, &stats);
    assert_int_equal(stats.series, 1); // it was that one
}

static void test_a_metric_without_points_does_not_end_the_request(void **state)
{
    struct fixture *f = *state;
    push_metric(f, "empty",
                "\"sum\":{\"aggregationTemporality\":2}},{\"name\":\"m\",\"gauge\":{"
                "\"dataPoints\":[{\"timeUnixNano\":NOW,\"asInt\":7,\"attributes\":[{\"key\":"
                "\"__name__\",\"value\":{\"stringValue\":\"x\"}}]}]}");
    assert_reply(f, 200, "{}");
    assert_value(f, "m", "", "", 7); // the attribute is not the name
}

static void test_bounds_that_end_at_infinity(void **state)
{
    struct fixture *f = *state;
    struct tsdb_stats stats;
    push_metric(f, "lat",
                "\"histogram\":{\"aggregationTemporality\":2,\"dataPoints\":[{\"timeUnixNano\":NOW,"
                "\"count\":\"6\",\"sum\":4,\"bucketCounts\":[1,2,3],\"explicitBounds\":[0.5,"
                "\"Infinity\"]}]}");
    assert_reply(f, 200, "{}");
    assert_value(f, "lat_bucket", "le", "0.5", 1);
    assert_value(f, "lat_bucket", "le", "+Inf", 6);
    tsdb_stats(f->db, &stats);
    assert_int_equal(stats.out_of_order + stats.duplicates, 0);
}

static void test_types_of_metrics(void **state)
{
    struct fixture *f = *state;
    push_metric(f, "queue.length",
                "\"gauge\":{\"dataPoints\":[{\"timeUnixNano\":NOW,\"asInt\":7}]}");
    assert_reply(f, 200, "{}");
    assert_value(f, "queue_length", "", "", 7);
    push_metric(f, "sent",
                "\"unit\":\"By\",\"sum\":{\"isMonotonic\":true,\"aggregationTemporality\":2,"
                "\"dataPoints\":[{\"timeUnixNano\":NOW,\"asDouble\":2.5}]}");
    assert_value(f, "sent_bytes_total", "", "", 2.5);
    push_metric(
        f, "lat",
        "\"unit\":\"s\",\"histogram\":{\"aggregationTemporality\":"
        "\"AGGREGATION_TEMPORALITY_CUMULATIVE\",\"dataPoints\":[{\"timeUnixNano\":NOW,"
        "\"count\":\"6\",\"sum\":4,\"bucketCounts\":[1,\"2\",3],\"explicitBounds\":[0.5,1e22]}"
        "]}");
    assert_reply(f, 200, "{}");
    assert_value(f, "lat_seconds_bucket", "le", "0.5", 1);
    assert_value(f, "lat_seconds_bucket", "le", "10000000000000000000000", 3);
    assert_value(f, "lat_seconds_bucket", "le", "+Inf", 6);
    assert_value(f, "lat_seconds_sum", "", "", 4);
    push_metric(f, "q",
                "\"summary\":{\"data_points\":[{\"time_unix_nano\":NOW,\"count\":3,\"sum\":1,"
                "\"quantileValues\":[{\"quantile\":0.5,\"value\":8}],\"flags\":1}]}");
    assert_value(f, "q", "quantile", "0.5", tsdb_stale_marker());
    push_metric(f, "e",
                "\"exponentialHistogram\":{\"aggregationTemporality\":2,\"dataPoints\":["
                "{\"timeUnixNano\":NOW},{\"timeUnixNano\":NOW}]}");
    assert_reply(f, 200,
                 "{\"partialSuccess\":{\"rejectedDataPoints\":\"2\",\"errorMessage\":\"exponential "
                 "histograms are not stored\"}}");
}

static void test_refused_metrics(void **state)
{
    struct fixture *f = *state;
    push_metric(f, "d", "\"sum\":{\"aggregationTemporality\":1,\"dataPoints\":[{}]}");
    assert_reply(f, 500, "invalid temporality and type combination for metric \"d\"");
    push_metric(f, "...", "\"gauge\":{\"dataPoints\":[{\"timeUnixNano\":NOW}]}");
    assert_reply(f, 500, "normalization for metric \"...\" resulted in empty name");
    push_metric(f, "old", "\"gauge\":{\"dataPoints\":[{\"timeUnixNano\":\"1\"}]}");
    assert_reply(f, 400, "out of bounds");
    push_metric(f, "l",
                "\"gauge\":{\"dataPoints\":[{\"timeUnixNano\":NOW,\"attributes\":[{\"key\":"
                "\"\"}]}]}");
    assert_reply(f, 500, "label name is empty");
}

static void test_bodies(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_BUF struct gs_buf deep = {0}, packed = {0};
    push(f, "text/plain", NULL, GS_SLICE(""));
    assert_reply(f, 400,
                 "unsupported content type: text/plain, supported: [application/json, "
                 "application/x-protobuf]");
    push(f, "application/json", "br", GS_SLICE("{}"));
    assert_reply(f, 400, "unsupported compression: br. Only \"gzip\" or no compression supported");
    assert_ok(codec_gzip(GS_SLICE("{}"), NULL, NULL, &packed));
    push(f, "application/json; charset=utf-8", "gzip", gs_buf_slice(&packed));
    assert_reply(f, 200, "{}");
    push(f, "application/x-protobuf", NULL, GS_SLICE(""));
    assert_reply(f, 200, "");
    push(f, "application/x-protobuf", NULL,
         GS_SLICE("\x0a\x05"
                  "abc"));
    assert_int_equal(f->reply.status, 400);
    push(f, "application/json", NULL, GS_SLICE("{\"resourceMetrics\":[{\"resource\":5}]}"));
    assert_int_equal(f->reply.status, 400);
    gs_buf_add_str(&deep, "{\"resourceMetrics\":[{\"resource\":{\"attributes\":[{\"value\":");
    for (int i = 0; i < 80; i++)
        gs_buf_add_str(&deep, "{\"arrayValue\":{\"values\":[");
    push(f, "application/json", NULL, gs_buf_slice(&deep));
    assert_int_equal(f->reply.status, 400);
}

static bool stop(void *arg)
{
    (*(int *)arg)++;
    return false;
}

// A long request ends when its peer disconnects.
static void test_the_peer_disconnects(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_BUF struct gs_buf body = {0};
    int calls = 0;
    gs_turn_set_ns(0);
    for (size_t i = 0; i < 40000; i++)
        gs_buf_add(&body, "\x0a\x00", 2);
    const struct remote_receiver_request q = {.peer = "test",
                                              .content_type = "application/x-protobuf",
                                              .body = gs_buf_slice(&body),
                                              .go_on = stop,
                                              .arg = &calls};
    remote_receiver_otlp(f->r, &q, &f->reply);
    assert_int_equal(f->reply.status, 0);
    assert_int_equal(calls, 1);
}

// --- exemplars ---

static void print_exemplar(void *arg, const struct tsdb_exemplar_series *s,
                           const struct tsdb_exemplar *e, bool is_first)
{
    struct gs_buf *out = arg;
    for (size_t i = 0; is_first && i < s->n_labels; i++)
        if (!gs_slice_eq_str(s->labels[i].name, "job"))
            gs_buf_addf(out, GS_SLICE_FMT " ", GS_SLICE_ARG(s->labels[i].value));
    for (size_t i = 0; i < e->n_labels; i++)
        gs_buf_addf(out, GS_SLICE_FMT "=" GS_SLICE_FMT " ", GS_SLICE_ARG(e->labels[i].name),
                    GS_SLICE_ARG(e->labels[i].value));
    gs_buf_addf(out, "%g; ", e->value);
}

static void assert_exemplars(struct fixture *f, const char *expected)
{
    const struct tsdb_exemplar_selector all = {NULL, 0};
    GS_AUTO_BUF struct gs_buf out = {0};
    gs_buf_add_str(&out, "");
    tsdb_exemplars_select(f->db, &all, 1, INT64_MIN, INT64_MAX, print_exemplar, &out);
    assert_string_equal(out.data, expected);
}

#define TRACE "\"traceId\":\"0123456789abcdef0123456789ABCDEF\""

static void test_exemplars_of_sums(void **state)
{
    static const char text[] =
        "\"sum\":{\"isMonotonic\":true,\"aggregationTemporality\":2,\"dataPoints\":[{"
        "\"timeUnixNano\":NOW,\"asInt\":3,\"exemplars\":[{\"timeUnixNano\":NOW,\"asInt\":-2," TRACE
        ",\"spanId\":\"0000000000000000\",\"filteredAttributes\":[{\"key\":\"user\",\"value\":"
        "{\"stringValue\":\"u\"}},{\"key\":\"trace_id\",\"value\":{\"stringValue\":\"x\"}}]},"
        "{\"timeUnixNano\":NOW}]}]}";
    struct fixture *f = *state;
    push_metric(f, "n", text); // none are stored
    assert_reply(f, 200, "{}");
    assert_int_equal(f->r->exemplars, 2);
    tsdb_exemplars_set_max(f->db, 10);
    push_metric(f, "n", text);
    assert_reply(f, 200, "{}");
    assert_int_equal(f->reply.exemplars, 1);
    assert_int_equal(f->r->exemplars, 3); // that without a value
    assert_exemplars(f, "n_total trace_id=0123456789abcdef0123456789abcdef user=u -2; ");
    push_metric(f, "g",
                "\"gauge\":{\"dataPoints\":[{\"timeUnixNano\":NOW,\"asInt\":3,\"exemplars\":["
                "{\"timeUnixNano\":NOW,\"asInt\":1}]}]}");
    assert_int_equal(f->reply.exemplars, 0); // as in Prometheus
    push_metric(f, "n",
                "\"sum\":{\"aggregationTemporality\":2,\"dataPoints\":[{\"timeUnixNano\":NOW,"
                "\"exemplars\":[{\"traceId\":\"0x\"}]}]}");
    assert_reply(f, 400, "traceId: not hexadecimal");
}

static void test_exemplars_of_buckets(void **state)
{
    struct fixture *f = *state;
    tsdb_exemplars_set_max(f->db, 10);
    push_metric(f, "h",
                "\"histogram\":{\"aggregationTemporality\":2,\"dataPoints\":[{\"timeUnixNano\":NOW,"
                "\"count\":6,\"bucketCounts\":[1,2,3],\"explicitBounds\":[0.5,2],\"exemplars\":["
                "{\"timeUnixNano\":NOW,\"asDouble\":9},{\"timeUnixNano\":\"1\",\"asDouble\":2},"
                "{\"timeUnixNano\":NOW,\"asDouble\":1},{\"timeUnixNano\":NOW,\"asDouble\":\"NaN\"},"
                "{\"timeUnixNano\":NOW,\"asDouble\":0.5}]}]}");
    assert_reply(f, 200, "{}");
    assert_exemplars(f, "h_bucket +Inf 9; nan; h_bucket 0.5 0.5; h_bucket 2 2; 1; ");
}

static void test_attributes_that_are_too_long_leave_the_trace(void **state)
{
    struct fixture *f = *state;
    tsdb_exemplars_set_max(f->db, 10);
    push_metric(f, "n",
                "\"sum\":{\"aggregationTemporality\":2,\"dataPoints\":[{\"timeUnixNano\":NOW,"
                "\"exemplars\":[{\"timeUnixNano\":NOW,\"asInt\":1," TRACE ",\"filteredAttributes\":"
                "[{\"key\":\"long\",\"value\":{\"stringValue\":\"123456789012345678901234567890"
                "1234567890123456789012345678901234567890123456789012345678901234567890\"}}]}]}]}");
    assert_reply(f, 200, "{}");
    assert_exemplars(f, "n trace_id=0123456789abcdef0123456789abcdef 1; ");
}

static void test_exemplars_of_refused_points_are_counted(void **state)
{
#define POINT                                                                                      \
    "\"aggregationTemporality\":2,\"dataPoints\":[{\"timeUnixNano\":NOW,\"attributes\":[{\"key\":" \
    "\"\"}],\"exemplars\":[{\"timeUnixNano\":NOW,\"asInt\":1},{\"timeUnixNano\":NOW,\"asInt\":2}]" \
    "}]}"
    struct fixture *f = *state;
    tsdb_exemplars_set_max(f->db, 10);
    push_metric(f, "n", "\"sum\":{" POINT);
    assert_reply(f, 500, "label name is empty");
    assert_int_equal(f->r->exemplars, 2);
    push_metric(f, "h", "\"histogram\":{" POINT);
    assert_int_equal(f->r->exemplars, 4);
    assert_exemplars(f, "");
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
    const struct CMUnitTest tests[] = {TEST(test_types_of_metrics),
                                       TEST(test_translation_strategies),
                                       TEST(test_scope_metadata_becomes_labels),
                                       TEST(test_a_metric_without_points_does_not_end_the_request),
                                       TEST(test_bounds_that_end_at_infinity),
                                       TEST(test_refused_metrics),
                                       TEST(test_bodies),
                                       TEST(test_the_peer_disconnects),
                                       TEST(test_exemplars_of_sums),
                                       TEST(test_exemplars_of_buckets),
                                       TEST(test_exemplars_of_refused_points_are_counted),
                                       TEST(test_attributes_that_are_too_long_leave_the_trace)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
