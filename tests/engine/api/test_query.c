// SPDX-License-Identifier: Apache-2.0
// The HTTP API on a store with fixed samples, through the loopback client.
#include "harness.h"

// --- query ---

static void test_instant(void **state)
{
    struct harness *h = *state;
    get(h, "/api/v1/query?query=temperature&time=100");
    assert_answer(h, 200,
                  "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":["
                  "{\"metric\":{\"__name__\":\"temperature\",\"gpu\":\"0\",\"host\":\"a\"},"
                  "\"value\":[100,\"40\"]},"
                  "{\"metric\":{\"__name__\":\"temperature\",\"gpu\":\"1\",\"host\":\"a\"},"
                  "\"value\":[100,\"41.5\"]}]}}");
    get(h, "/api/v1/query?query=scalar(temperature%7Bgpu%3D%220%22%7D)&time=100");
    assert_answer(h, 200,
                  "{\"status\":\"success\",\"data\":{\"resultType\":\"scalar\",\"result\":[100,"
                  "\"40\"]}}");
    get(h, "/api/v1/query?query=%22text%22&time=100.25");
    assert_answer(h, 200,
                  "{\"status\":\"success\",\"data\":{\"resultType\":\"string\",\"result\":[100.25,"
                  "\"text\"]}}");
    get(h, "/api/v1/query?query=temperature%7Bgpu%3D%220%22%7D%5B1m%5D&time=100");
    assert_answer(h, 200,
                  "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":["
                  "{\"metric\":{\"__name__\":\"temperature\",\"gpu\":\"0\",\"host\":\"a\"},"
                  "\"values\":[[50,\"38\"],[100,\"40\"]]}]}}");
    get(h, "/api/v1/query?query=absent_metric");
    assert_answer(h, 200,
                  "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[]}}");
}

static void put_neighbour(struct harness *h, const char *const *labels, size_t many,
                          struct gs_buf *want)
{
    struct metrics_label l[100] = {{GS_SLICE("__name__"), GS_SLICE("near")}};
    char names[70][24];
    size_t n = 1;
    gs_buf_addf(want, "%s{\"metric\":{\"__name__\":\"near\"", want->len ? "," : "");
    for (; *labels; labels += 2) {
        l[n++] = (struct metrics_label){gs_slice_of(labels[0]), gs_slice_of(labels[1])};
        gs_buf_addf(want, ",\"%s\":\"%s%s\"", labels[0], strchr(labels[1], '"') ? "\\" : "",
                    labels[1]);
    }
    for (size_t i = 0; i < many; i++) {
        snprintf(names[i], sizeof(names[i]), "x%02zu", i);
        l[n++] = (struct metrics_label){gs_slice_of(names[i]), GS_SLICE("v")};
        gs_buf_addf(want, ",\"%s\":\"v\"", names[i]);
    }
    gs_buf_add_str(want, "},\"value\":[100,\"1\"]}");
    assert_ok(tsdb_append(h->db, l, n, 100000, 1));
}

// Labels that a series has in common with the previous one are copied from its text.
static void test_series_with_labels_in_common(void **state)
{
    struct harness *h = *state;
    struct gs_buf want = {0};
    const char *const sets[][9] = {
        {"a", "1", "b", "2", "c", "3"},
        {"a", "1", "b", "2", "c", "4"},
        {"a", "1", "b", "2"},
        {"a", "1", "b", "2", "c", "4", "d", "5"},
        {NULL},
        {"b", "2"},
        {"a", "1", "b", "\"", "c", "4"},
        {"a", "2", "b", "\"", "c", "4"},
        {"a", "1", "b", "\"", "c", "4", "d", "6"},
        {"a", "1", "bb", "2", "c", "4", "d", "6"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(sets); i++) {
        put_neighbour(h, sets[i], 0, &want);
        const char *const alone[] = {"a", "1", "b", i % 2 ? "7" : "8", "i", sets[i][1], NULL};
        if (i == 5)
            put_neighbour(h, alone, 70, &want); // more labels than are copied
        if (i == 6)
            put_neighbour(h, alone, 0, &want);
    }
    get(h, "/api/v1/query?query=near&time=100");
    GS_AUTO_FREE char *all = gs_format(
        "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[%s]}}", want.data);
    assert_answer(h, 200, all);
    gs_buf_finish(&want);
}

static void test_instant_forms(void **state)
{
    struct harness *h = *state;
    static const char want[] = "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\","
                               "\"result\":[{\"metric\":{},\"value\":[100,\"81.5\"]}]}}";
    get(h, "/api/v1/query?query=sum(temperature)&time=1970-01-01T00:01:40Z");
    assert_answer(h, 200, want);
    post(h, "/api/v1/query", "query=sum(temperature)&time=1e2&timeout=100s");
    assert_answer(h, 200, want);
    // Parameters of the body have precedence.
    post(h, "/api/v1/query?query=nonsense(&time=5", "query=sum(temperature)&time=100");
    assert_answer(h, 200, want);
    get(h, "/api/v1/query?query=temperature&time=100&limit=1");
    assert_contains(h, 200, "\"warnings\":[\"results truncated due to limit\"]");
    get(h, "/api/v1/query?query=temperature&time=100&stats=all");
    assert_contains(h, 200, "\"stats\":{\"timings\":{\"evalTotalTime\":");
    assert_contains(h, 200,
                    "\"samples\":{\"totalQueryableSamples\":2,\"samplesRead\":2,"
                    "\"seriesTouched\":2,\"peakSamples\":2}");
}

static void test_statistics_by_step(void **state)
{
    struct harness *h = *state;
    static const char range[] =
        "/api/v1/query_range?query=sum_over_time(temperature[100s])&start=50&end=150&step=50";
    GS_AUTO_FREE char *basic = gs_format("%s&stats=true", range),
                      *all = gs_format("%s&stats=all", range);
    promql_set_features(PROMQL_PER_STEP_STATS);
    get(h, range);
    assert_null(strstr(h->body.data, "stats"));
    get(h, basic);
    assert_contains(h, 200, "\"samples\":{\"totalQueryableSamples\":6,\"samplesRead\":3,");
    get(h, all);
    assert_contains(h, 200,
                    "\"samples\":{\"totalQueryableSamplesPerStep\":[[50,1],[100,3],[150,2]],"
                    "\"totalQueryableSamples\":6,\"samplesReadPerStep\":[[50,1],[100,2],[150,0]],"
                    "\"samplesRead\":3,");
    promql_set_features(0);
    get(h, all);
    assert_contains(h, 200, "\"samples\":{\"totalQueryableSamples\":6,\"samplesRead\":3,");
}

static void test_lookback_delta(void **state)
{
    struct harness *h = *state;
    get(h, "/api/v1/query?query=count(temperature)&time=200");
    assert_contains(h, 200, "[200,\"2\"]");
    get(h, "/api/v1/query?query=count(temperature)&time=200&lookback_delta=30s");
    assert_contains(h, 200, "\"result\":[]");
    get(h, "/api/v1/query?query=count(temperature)&time=200");
    assert_contains(h, 200, "[200,\"2\"]");
}

static void test_range(void **state)
{
    struct harness *h = *state;
    static const char want[] =
        "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":["
        "{\"metric\":{\"__name__\":\"temperature\",\"gpu\":\"0\",\"host\":\"a\"},"
        "\"values\":[[50,\"38\"],[100,\"40\"]]}]}}";
    get(h, "/api/v1/query_range?query=temperature%7Bgpu%3D%220%22%7D&start=0&end=100&step=50");
    assert_answer(h, 200, want);
    post(h, "/api/v1/query_range",
         "query=temperature%7Bgpu%3D%220%22%7D&start=1970-01-01T00:00:00Z&end=100&step=50s");
    assert_answer(h, 200, want);
}

// The series were created in another order.
static void test_matrices_are_sorted(void **state)
{
    struct harness *h = *state;
    static const char *const gpus[] = {"9", "10", "3"};
    for (size_t i = 0; i < GS_ARRAY_LEN(gpus); i++)
        add(h, "sorted", gpus[i], 100, (double)i);
    get(h, "/api/v1/query_range?query=sorted&start=100&end=100&step=1&limit=2");
    assert_answer(h, 200,
                  "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":["
                  "{\"metric\":{\"__name__\":\"sorted\",\"gpu\":\"10\",\"host\":\"a\"},"
                  "\"values\":[[100,\"1\"]]},"
                  "{\"metric\":{\"__name__\":\"sorted\",\"gpu\":\"3\",\"host\":\"a\"},"
                  "\"values\":[[100,\"2\"]]}]},"
                  "\"warnings\":[\"results truncated due to limit\"]}");
    get(h, "/api/v1/query?query=sorted%5B1s%5D&time=100&limit=1");
    assert_contains(h, 200, "\"gpu\":\"10\"");
}

static void test_wrong_parameters(void **state)
{
    struct harness *h = *state;
    static const struct {
        const char *path;
        int status;
        const char *type, *error;
    } cases[] = {
        {"query", 400, "bad_data",
         "invalid parameter \"query\": unknown position: parse error: no expression found in "
         "input"},
        {"query?query=sum(", 400, "bad_data", "invalid parameter \"query\": "},
        {"query?query=up&time=noon", 400, "bad_data",
         "invalid parameter \"time\": invalid time value for 'time': cannot parse \"noon\" to a "
         "valid timestamp"},
        {"query?query=up&timeout=soon", 400, "bad_data",
         "invalid parameter \"timeout\": cannot parse \"soon\" to a valid duration"},
        {"query?query=up&limit=-1", 400, "bad_data",
         "invalid parameter \"limit\": limit must be non-negative"},
        {"query?query=up&limit=x", 400, "bad_data",
         "invalid parameter \"limit\": strconv.Atoi: parsing \"x\": invalid syntax"},
        {"query?query=up&limit=99999999999999999999", 400, "bad_data",
         "strconv.Atoi: parsing \"99999999999999999999\": value out of range"},
        {"query?query=up&lookback_delta=x", 400, "bad_data",
         "error parsing lookback delta duration: cannot parse \"x\" to a valid duration"},
        {"query_range?query=up&end=1&step=1", 400, "bad_data",
         "invalid parameter \"start\": cannot parse \"\" to a valid timestamp"},
        {"query_range?query=up&start=1&end=0&step=1", 400, "bad_data",
         "invalid parameter \"end\": end timestamp must not be before start time"},
        {"query_range?query=up&start=0&end=1", 400, "bad_data",
         "invalid parameter \"step\": cannot parse \"\" to a valid duration"},
        {"query_range?query=up&start=0&end=1&step=0", 400, "bad_data",
         "invalid parameter \"step\": zero or negative query resolution step widths are not "
         "accepted. Try a positive integer"},
        {"query_range?query=up&start=0&end=1&step=1e30", 400, "bad_data",
         "invalid parameter \"step\": cannot parse \"1e30\" to a valid duration. It overflows "
         "int64"},
        {"query_range?query=up&start=0&end=11001&step=1", 400, "bad_data",
         "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query "
         "resolution (?step=XX)"},
        {"query_range?query=up%5B1m%5D&start=0&end=1&step=1", 400, "bad_data",
         "invalid parameter \"query\": invalid expression type \"range vector\" for range query, "
         "must be Scalar or instant Vector"},
        {"query?query=temperature+%2B+on(host)+temperature&time=100", 422, "execution",
         "many-to-many matching not allowed"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_FREE char *path = gs_format("/api/v1/%s", cases[i].path);
        get(h, path);
        assert_failed(h, cases[i].status, cases[i].type, cases[i].error);
    }
}

static void test_bounds_of_time(void **state)
{
    struct harness *h = *state;
    static const char *const far[] = {"1e300", "-1e300", "Inf", "9223372036854775807"};
    for (size_t i = 0; i < GS_ARRAY_LEN(far); i++) {
        GS_AUTO_FREE char *path = gs_format("/api/v1/query?query=temperature&time=%s", far[i]);
        get(h, path);
        assert_contains(h, 200, "\"result\":[]");
    }
    get(h, "/api/v1/query?query=temperature&time=NaN");
    assert_failed(h, 400, "bad_data", "cannot parse \"NaN\" to a valid timestamp");
}

// --- series, labels, values ---

static void test_series(void **state)
{
    struct harness *h = *state;
    get(h, "/api/v1/series?match[]=temperature");
    assert_answer(h, 200,
                  "{\"status\":\"success\",\"data\":["
                  "{\"__name__\":\"temperature\",\"gpu\":\"0\",\"host\":\"a\"},"
                  "{\"__name__\":\"temperature\",\"gpu\":\"1\",\"host\":\"a\"}]}");
    // Two selectors match the series, which is returned once.
    get(h, "/api/v1/series?match[]=temperature&match[]=%7Bgpu%3D%221%22%7D&limit=1");
    assert_answer(h, 200,
                  "{\"status\":\"success\",\"data\":["
                  "{\"__name__\":\"temperature\",\"gpu\":\"0\",\"host\":\"a\"}],"
                  "\"warnings\":[\"results truncated due to limit\"]}");
    post(h, "/api/v1/series", "match%5B%5D=temperature&start=500");
    assert_answer(h, 200, "{\"status\":\"success\",\"data\":[]}");
    get(h, "/api/v1/series");
    assert_failed(h, 400, "bad_data", "no match[] parameter provided");
    get(h, "/api/v1/series?match[]=%7Bx%3D~%22.*%22%7D");
    assert_failed(h, 400, "bad_data", "must contain at least one non-empty matcher");
    get(h, "/api/v1/series?match[]=sum(up)");
    assert_failed(h, 400, "bad_data", "invalid parameter \"match[]\": ");
}

static void test_labels(void **state)
{
    struct harness *h = *state;
    get(h, "/api/v1/labels");
    assert_answer(
        h, 200, "{\"status\":\"success\",\"data\":[\"__name__\",\"gpu\",\"host\",\"odd.label\"]}");
    get(h, "/api/v1/labels?match[]=temperature&limit=2");
    assert_answer(h, 200,
                  "{\"status\":\"success\",\"data\":[\"__name__\",\"gpu\"],"
                  "\"warnings\":[\"results truncated due to limit\"]}");
    get(h, "/api/v1/label/gpu/values");
    assert_answer(h, 200, "{\"status\":\"success\",\"data\":[\"0\",\"1\"]}");
    get(h, "/api/v1/label/gpu/values?match[]=%7Bgpu%3D%221%22%7D");
    assert_answer(h, 200, "{\"status\":\"success\",\"data\":[\"1\"]}");
    get(h, "/api/v1/label/__name__/values");
    assert_answer(h, 200, "{\"status\":\"success\",\"data\":[\"odd\",\"temperature\"]}");
    get(h, "/api/v1/label/nothing/values");
    assert_answer(h, 200, "{\"status\":\"success\",\"data\":[]}");
    static const char odd[] = "{\"status\":\"success\",\"data\":[\"a\\\"b\\n\"]}";
    get(h, "/api/v1/label/odd.label/values");
    assert_answer(h, 200, odd);
    get(h, "/api/v1/label/U__odd_2e_label/values");
    assert_answer(h, 200, odd);
    get(h, "/api/v1/label/%ff/values");
    assert_failed(h, 400, "bad_data", "invalid label name: \"\\xff\"");
}

// --- federation ---

static void test_federate(void **state)
{
    struct harness *h = *state;
    int64_t now = gs_unix_ms();
    const struct metrics_label l[] = {{GS_SLICE("__name__"), GS_SLICE("fresh")},
                                      {GS_SLICE("host"), GS_SLICE("b\"c")}};
    assert_ok(tsdb_append(h->db, l, 2, now, 1.5));
    get(h, "/federate?match[]=fresh&match[]=%7Bhost!%3D%22%22%7D");
    GS_AUTO_FREE char *want = gs_format("# TYPE fresh untyped\n"
                                        "fresh{host=\"b\\\"c\",instance=\"\"} 1.5 %lld\n",
                                        (long long)now);
    assert_int_equal(h->status, 200);
    assert_string_equal(h->body.data, want);
    get(h, "/federate?match[]=%7Bx%3D~%22.*%22%7D");
    assert_contains(h, 200, "fresh{");
    const struct metrics_label utf8[] = {{GS_SLICE("__name__"), GS_SLICE("gpu.util")},
                                         {GS_SLICE("pod.name"), GS_SLICE("a")}};
    assert_ok(tsdb_append(h->db, utf8, 2, now, 2));
    get(h, "/federate?match[]=%7B%22gpu.util%22%7D"); // a client without an Accept header
    assert_contains(h, 200, "# TYPE gpu_util untyped\ngpu_util{pod_name=\"a\",instance=\"\"} 2 ");
    get(h, "/federate?match[]=fresh(");
    assert_int_equal(h->status, 400);
    get(h, "/federate");
    assert_int_equal(h->status, 200);
    assert_int_equal(h->body.len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_instant, setup, teardown),
        cmocka_unit_test_setup_teardown(test_series_with_labels_in_common, setup, teardown),
        cmocka_unit_test_setup_teardown(test_instant_forms, setup, teardown),
        cmocka_unit_test_setup_teardown(test_statistics_by_step, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lookback_delta, setup, teardown),
        cmocka_unit_test_setup_teardown(test_range, setup, teardown),
        cmocka_unit_test_setup_teardown(test_matrices_are_sorted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wrong_parameters, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bounds_of_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_series, setup, teardown),
        cmocka_unit_test_setup_teardown(test_labels, setup, teardown),
        cmocka_unit_test_setup_teardown(test_federate, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
