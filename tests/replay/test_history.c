// SPDX-License-Identifier: Apache-2.0
// An autoscaler with other settings on recorded history, as a function and over HTTP.
#include "base/clock.h"
#include "base/mem.h"
#include "net/http/client.h"
#include "patience.h"
#include "replay/history.h"
#include "unit.h"

#define STEP_S 15
#define T0     1700000000.0
#define SPEC(metric)                                                                               \
    "{\"scaleTargetRef\":{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"name\":\"web\"},"   \
    "\"maxReplicas\":10,\"metrics\":[" metric "]}"
#define PODS(name)                                                                                 \
    "{\"type\":\"Pods\",\"pods\":{\"metric\":{\"name\":\"" name "\"},\"target\":{\"type\":"        \
    "\"AverageValue\",\"averageValue\":\"50\"}}}"
#define EXTERNAL                                                                                   \
    "{\"type\":\"External\",\"external\":{\"metric\":{\"name\":\"queue\"},\"target\":{\"type\":"   \
    "\"AverageValue\",\"averageValue\":\"50\"}}}"
#define UTIL SPEC(PODS("gpu_util"))

// A constant value, each 15 s. Samples from gap_at, gap_n of them, are missing.
static json_t *series(double value, size_t n, size_t gap_at, size_t gap_n)
{
    json_t *out = json_array();
    for (size_t i = 0; i < n; i++)
        if (i < gap_at || i >= gap_at + gap_n)
            json_array_append_new(
                out, json_pack("[f, o]", T0 + (double)(i * STEP_S), codec_json_strf("%g", value)));
    return out;
}

// Four replicas for two hours.
static json_t *question(const char *spec, double value, const char *setting, const char *to)
{
    return json_pack("{s:s, s:s, s:o, s:{s:s}, s:[o], s:o, s:i, s:i}", "namespace", "shop", "name",
                     "web", "spec", json_loads(spec, 0, NULL), "settings", setting, to, "metrics",
                     series(value, 481, 0, 0), "replicas", series(4, 481, 0, 0), "gpusPerReplica",
                     2, "startupSeconds", 30);
}

static json_t *answer_to(json_t *q)
{
    const struct hpa_config cfg = hpa_config_default();
    struct replay_history *h = NULL;
    struct gs_error *err = replay_history_new(q, &cfg, STEP_S * 1000, &h);
    if (err)
        fail_msg("%s", gs_error_message(err));
    json_decref(q);
    replay_history_run(h);
    json_t *answer = replay_history_answer(h);
    replay_history_free(h);
    return answer;
}

static double number(const json_t *answer, const char *run, const char *field)
{
    return json_number_value(codec_json_get(answer, run, field, NULL));
}

static void assert_near(double got, double want)
{
    if (!(got > want - 0.02 * want - 0.02 && got < want + 0.02 * want + 0.02))
        fail_msg("%g instead of %g", got, want);
}

static void assert_says(const json_t *answer, const char *part)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    replay_history_text(answer, &text);
    gs_buf_add(&text, "", 1);
    if (!strstr(text.data, part))
        fail_msg("no \"%s\" in:\n%s", part, text.data);
}

// A load of 200: four replicas at 50 %, or two that are full, after the window of five minutes.
static void test_a_higher_target_needs_fewer_gpus(void **state)
{
    (void)state;
    CODEC_AUTO_JSON json_t *a = answer_to(question(UTIL, 50, "target", "100"));
    assert_string_equal(codec_json_str(a, "model", NULL), "utilization");
    assert_near(number(a, "recorded", "gpuHours"), 16);
    assert_near(number(a, "present", "gpuHours"), 16);
    assert_near(number(a, "changed", "meanReplicas"), 2 + 2 * 5 / 120.0);
    assert_near(number(a, "changed", "gpuHours"), 8 + 8 * 5 / 120.0);
    assert_near(number(a, "changed", "waitingSeconds"), 0);
    assert_says(a, "With target 100 you would have used 7.6");
    assert_says(a, "GPU hours less and waited as long.");
    assert_says(a, "A new replica is ready after 30 s.");
}

static void test_too_few_replicas_let_work_wait(void **state)
{
    (void)state;
    CODEC_AUTO_JSON json_t *a = answer_to(question(UTIL, 50, "max", "1"));
    assert_near(number(a, "changed", "meanReplicas"), 1);
    assert_near(number(a, "present", "waitingSeconds"), 0);
    assert_near(number(a, "changed", "waitingSeconds"), 7200);
    assert_near(number(a, "changed", "aboveTargetSeconds"), 7200);
    assert_says(a, "and waited 2");
    assert_says(a, "hours more.");
}

static void test_other_metrics_are_divided_among_the_replicas(void **state)
{
    (void)state;
    CODEC_AUTO_JSON json_t *a = answer_to(question(SPEC(PODS("requests")), 50, "target", "100"));
    assert_string_equal(codec_json_str(a, "model", NULL), "division");
    assert_null(codec_json_get(a, "changed", "waitingSeconds", NULL));
    assert_near(number(a, "changed", "meanReplicas"), 2 + 2 * 5 / 120.0);
    assert_near(number(a, "changed", "aboveTargetSeconds"), 7200 - 300);
    assert_near(number(a, "present", "aboveTargetSeconds"), 0);
    assert_says(a, "and been above the present target");
    // Above 100, it is no utilization.
    json_decref(a);
    a = answer_to(question(UTIL, 150, "target", "100"));
    assert_string_equal(codec_json_str(a, "model", NULL), "division");
    assert_near(number(a, "changed", "meanReplicas"), 6);
}

static void test_an_external_average_is_a_total(void **state)
{
    (void)state;
    CODEC_AUTO_JSON json_t *a = answer_to(question(SPEC(EXTERNAL), 50, "target", "25"));
    assert_near(number(a, "present", "meanReplicas"), 4);
    assert_near(number(a, "changed", "meanReplicas"), 8);
}

static void test_missing_samples_are_reported(void **state)
{
    (void)state;
    json_t *q = question(UTIL, 50, "target", "100");
    json_array_set_new(json_object_get(q, "metrics"), 0, series(50, 481, 100, 120));
    CODEC_AUTO_JSON json_t *a = answer_to(q);
    assert_near(json_number_value(json_object_get(a, "coverage")), 0.75);
    assert_says(a, "Samples are missing in 25 % of the time");
}

static void test_a_saturated_metric_is_reported(void **state)
{
    (void)state;
    CODEC_AUTO_JSON json_t *a = answer_to(question(UTIL, 100, "target", "60"));
    assert_says(a, "The metric was at its maximum in 100 % of the samples");
}

static void assert_refused(json_t *q, const char *part)
{
    const struct hpa_config cfg = hpa_config_default();
    struct replay_history *h = NULL;
    GS_AUTO_ERROR struct gs_error *err = replay_history_new(q, &cfg, STEP_S * 1000, &h);
    json_decref(q);
    if (!err)
        fail_msg("accepted; want \"%s\"", part);
    if (!strstr(gs_error_message(err), part))
        fail_msg("no \"%s\" in: %s", part, gs_error_message(err));
}

static json_t *with(json_t *q, const char *key, json_t *value)
{
    json_object_set_new(q, key, value);
    return q;
}

static json_t *usual(void)
{
    return question(UTIL, 50, "target", "100");
}

static void test_wrong_questions_are_refused(void **state)
{
    (void)state;
    assert_refused(json_array(), "want an object");
    assert_refused(with(usual(), "spec", json_string("x")), "want an object");
    assert_refused(with(usual(), "spec", json_object()), "spec.");
    assert_refused(with(usual(), "settings", json_object()), "at least one");
    assert_refused(with(usual(), "settings", json_pack("{s:i}", "target", 1)), "want a string");
    assert_refused(with(usual(), "settings", json_pack("{s:s}", "x", "1")), "unknown setting");
    assert_refused(with(usual(), "settings", json_pack("{s:s}", "max", "2000000000")),
                   "at most 10000");
    assert_refused(with(usual(), "metrics", json_array()), "0 series of metrics");
    assert_refused(with(usual(), "metrics", json_pack("[[]]")), "fewer than two samples");
    assert_refused(with(usual(), "metrics", json_pack("[[[s, s]]]", "a", "b")), "want [seconds");
    assert_refused(with(usual(), "metrics", json_pack("[[[i, s], [i, s]]]", 2, "1", 1, "1")),
                   "not in order");
    assert_refused(with(usual(), "metrics", json_pack("[[[i, s], [i, s]]]", 1, "NaN", 2, "-1")),
                   "fewer than two samples");
    assert_refused(with(usual(), "metrics", json_pack("[[[i, s], [i, s]]]", 1, "1", 2, "1")),
                   "in common");
    assert_refused(with(usual(), "replicas", series(1e9, 481, 0, 0)), "more than 10000");
    assert_refused(with(usual(), "replicas", series(4, 11001, 0, 0)), "at most 11000");
    json_t *q =
        with(usual(), "replicas", json_pack("[[f, s], [f, s]]", T0, "4", T0 + 40 * 86400, "4"));
    json_array_set_new(json_object_get(q, "metrics"), 0,
                       json_pack("[[f, s], [f, s]]", T0, "5", T0 + 40 * 86400, "5"));
    assert_refused(q, "40 days; at most 31");
    q = with(usual(), "replicas", json_pack("[[f, s], [f, s]]", T0, "4", T0 + 30 * 86400, "4"));
    json_array_set_new(json_object_get(q, "metrics"), 0,
                       json_pack("[[f, s], [f, s]]", T0, "5", T0 + 30 * 86400, "5"));
    assert_refused(with(q, "settings", json_pack("{s:s}", "max", "1000")), "choose a shorter time");
}

// --- over HTTP ---

struct bench {
    uv_loop_t loop;
    struct replay_history_api *api;
    struct http_client *peer;
    size_t n_replies, n_refused, n_good;
};

static void handle(void *ctx, struct http_exchange *x)
{
    struct bench *b = ctx;
    replay_history_api_handle(b->api, x);
}

static int set_up(void **state)
{
    struct bench *b = gs_alloc(sizeof(*b));
    const struct hpa_config cfg = hpa_config_default();
    uv_loop_init(&b->loop);
    b->api = replay_history_api_new(&b->loop, &cfg, STEP_S * 1000);
    b->peer = http_client_new_loopback(&b->loop, handle, b, NULL);
    *state = b;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *b = *state;
    http_client_free(b->peer);
    replay_history_api_free(b->api);
    uv_run(&b->loop, UV_RUN_DEFAULT);
    int rc = uv_loop_close(&b->loop);
    free(b);
    return rc;
}

static void on_reply(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct bench *b = arg;
    assert_null(err);
    b->n_replies++;
    b->n_refused += response->status == 429;
    b->n_good += response->status == 200;
}

static struct http_op *post(struct bench *b, const char *method, const char *body)
{
    static const struct http_callbacks callbacks = {.on_done = on_reply};
    return http_send(b->peer,
                     &(struct http_request){.method = method,
                                            .path = REPLAY_HISTORY_PATH,
                                            .body = gs_slice_of(body),
                                            .content_type = "application/json"},
                     &callbacks, b);
}

static void wait_replies(struct bench *b, size_t n)
{
    const int64_t deadline = gs_mono_ns() + WAIT_NS;
    while (b->n_replies < n && gs_mono_ns() < deadline)
        uv_run(&b->loop, UV_RUN_ONCE);
    assert_int_equal(b->n_replies, n);
}

static void test_questions_over_http(void **state)
{
    struct bench *b = *state;
    CODEC_AUTO_JSON json_t *q = usual();
    GS_AUTO_FREE char *body = codec_json_text(q);
    post(b, "POST", body);
    wait_replies(b, 1);
    assert_int_equal(b->n_good, 1);
    post(b, "GET", "");
    post(b, "POST", "{");
    post(b, "POST", "[]");
    wait_replies(b, 4);
    assert_int_equal(b->n_good, 1);
}

static void test_few_questions_wait(void **state)
{
    struct bench *b = *state;
    CODEC_AUTO_JSON json_t *q = usual();
    GS_AUTO_FREE char *body = codec_json_text(q);
    for (int i = 0; i < 12; i++)
        post(b, "POST", body);
    wait_replies(b, 12);
    assert_true(b->n_refused <= 4);
    assert_int_equal(b->n_good, 12 - b->n_refused);
}

static void test_askers_may_leave_and_the_server_may_stop(void **state)
{
    struct bench *b = *state;
    CODEC_AUTO_JSON json_t *q = usual();
    GS_AUTO_FREE char *body = codec_json_text(q);
    struct http_op *ops[4];
    for (size_t i = 0; i < GS_ARRAY_LEN(ops); i++)
        ops[i] = post(b, "POST", body);
    uv_run(&b->loop, UV_RUN_NOWAIT);
    for (size_t i = 0; i < GS_ARRAY_LEN(ops) && b->n_replies == 0; i++)
        http_op_cancel(ops[i]);
    post(b, "POST", body);
    uv_run(&b->loop, UV_RUN_NOWAIT); // tear_down() frees it while it waits or runs
}

// --- inference services ---

#define WAITING SPEC(PODS("gpuscale_inference_waiting"))

// Six requests per second of 500 + 100 tokens. itl: mean time between tokens; 0: not recorded.
static json_t *service_question(double rate, double itl)
{
    json_t *q = question(WAITING, 0, "slo.ttft", "1s");
    json_t *signals =
        json_pack("{s:s, s:s, s:o, s:o, s:o}", "model", "org/Llama-8B", "gpu",
                  "NVIDIA H100 80GB HBM3", "requests", series(rate, 481, 0, 0), "promptTokens",
                  series(500 * rate, 481, 0, 0), "generationTokens", series(100 * rate, 481, 0, 0));
    if (itl > 0) {
        json_object_set_new(signals, "running", series(4, 481, 0, 0));
        json_object_set_new(signals, "itl", series(itl, 481, 0, 0));
    }
    json_object_set_new(q, "inference", signals);
    json_object_set_new(q, "metrics", json_pack("[n]"));
    return q;
}

static void test_a_latency_target_is_calculated_on_simulated_engines(void **state)
{
    (void)state;
    json_t *q = service_question(6, 0);
    json_object_set_new(json_object_get(q, "spec"), "minReplicas", json_integer(4));
    json_object_set_new(json_object_get(q, "settings"), "min", json_string("1"));
    CODEC_AUTO_JSON json_t *a = answer_to(q);
    assert_string_equal(codec_json_str(a, "model", NULL), "engines");
    assert_string_equal(codec_json_str(a, "target", NULL), "ttft=1s");
    assert_near(number(a, "recorded", "gpuHours"), 16);
    assert_near(number(a, "present", "gpuHours"), 16);
    assert_near(number(a, "present", "withinPercent"), 100);
    assert_true(number(a, "changed", "gpuHours") < 12);
    assert_true(number(a, "changed", "withinPercent") > 95);
    assert_near(number(a, "changed", "requests"), number(a, "present", "requests"));
    assert_null(codec_json_get(a, "changed", "aboveTargetSeconds", NULL));
    assert_says(a, "GPU hours less and had ");
    assert_says(a, "% of the requests within ttft=1s");
    assert_says(a, "SIMULATED: the recorded requests are served by a model of org/Llama-8B on "
                   "H100-80GB-HBM3.");
    assert_says(a, "Its speed could not be compared");
}

static void test_the_engines_have_the_recorded_speed(void **state)
{
    (void)state;
    // The model gives about 6.5 ms with one running request on an H100.
    CODEC_AUTO_JSON json_t *a = answer_to(service_question(1, 0.013));
    double itl = number(a, "present", "itlP90Seconds");
    assert_true(itl > 0.009 && itl < 0.026); // within a bucket of the engine
    assert_says(a, "Its speed was multiplied by 0.5");
}

static void test_a_target_of_the_annotation_is_the_present_one(void **state)
{
    (void)state;
    json_t *q = service_question(1, 0);
    json_object_set_new(q, "slo", json_string("ttft=5s,p=95"));
    json_object_set_new(q, "settings", json_pack("{s:s}", "slo.ttft", ""));
    CODEC_AUTO_JSON json_t *a = answer_to(q);
    assert_string_equal(codec_json_str(a, "target", NULL), "ttft=5s,p=95");
    assert_says(a, "With ttft unset you would have ");
}

static void test_a_target_without_signals_is_refused(void **state)
{
    (void)state;
    const struct hpa_config cfg = hpa_config_default();
    struct replay_history *h = NULL;
    CODEC_AUTO_JSON json_t *q = question(UTIL, 50, "slo.ttft", "1s");
    GS_AUTO_ERROR struct gs_error *err = replay_history_new(q, &cfg, 15000, &h);
    assert_non_null(err);
    assert_non_null(strstr(gs_error_message(err), "gpuscale_inference_"));
    CODEC_AUTO_JSON json_t *many = service_question(1e6, 0);
    GS_AUTO_ERROR struct gs_error *limit = replay_history_new(many, &cfg, 15000, &h);
    assert_non_null(limit);
    assert_non_null(strstr(gs_error_message(limit), "choose a shorter time"));
    CODEC_AUTO_JSON json_t *wrong = service_question(1, 0);
    codec_json_set(wrong, json_string("fast"), "inference", "requests", NULL);
    GS_AUTO_ERROR struct gs_error *series_err = replay_history_new(wrong, &cfg, 15000, &h);
    assert_non_null(series_err);
    assert_non_null(strstr(gs_error_message(series_err), "inference.requests"));
    assert_true(replay_history_has_setting("slo.itl") && replay_history_has_setting("slo"));
    assert_false(replay_history_has_setting("slo.") || replay_history_has_setting("target"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_higher_target_needs_fewer_gpus),
        cmocka_unit_test(test_too_few_replicas_let_work_wait),
        cmocka_unit_test(test_other_metrics_are_divided_among_the_replicas),
        cmocka_unit_test(test_an_external_average_is_a_total),
        cmocka_unit_test(test_missing_samples_are_reported),
        cmocka_unit_test(test_a_saturated_metric_is_reported),
        cmocka_unit_test(test_wrong_questions_are_refused),
        cmocka_unit_test_setup_teardown(test_questions_over_http, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_few_questions_wait, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_askers_may_leave_and_the_server_may_stop, set_up,
                                        tear_down),
        cmocka_unit_test(test_a_latency_target_is_calculated_on_simulated_engines),
        cmocka_unit_test(test_the_engines_have_the_recorded_speed),
        cmocka_unit_test(test_a_target_of_the_annotation_is_the_present_one),
        cmocka_unit_test(test_a_target_without_signals_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
