// SPDX-License-Identifier: Apache-2.0
// The messages of KEDA and the metadata of triggers, without a server.
#include "unit.h"

#include "adapter/keda_scaler/keda_scaler_private.h"
#include "base/mem.h"
#include "codec/protobuf.h"

static void add_pair(struct gs_buf *ref, const char *key, const char *value)
{
    GS_AUTO_BUF struct gs_buf pair = {0};
    codec_proto_add_bytes(&pair, 1, gs_slice_of(key));
    codec_proto_add_bytes(&pair, 2, gs_slice_of(value));
    codec_proto_add_bytes(ref, 3, gs_buf_slice(&pair));
}

// metadata: "key=value;key=value".
static void make_ref(const char *metadata, struct gs_buf *out)
{
    struct gs_slice rest = gs_slice_of(metadata);
    codec_proto_add_bytes(out, 1, GS_SLICE("chat"));
    codec_proto_add_bytes(out, 2, GS_SLICE("shop"));
    while (rest.data && rest.len) {
        struct gs_slice value = gs_slice_cut(&rest, ';'), key = gs_slice_cut(&value, '=');
        GS_AUTO_FREE char *k = gs_slice_dup(key), *v = gs_slice_dup(value);
        add_pair(out, k, v);
    }
}

static struct gs_error *read_trigger(const char *metadata, struct keda_scaler_trigger *ret)
{
    GS_AUTO_BUF struct gs_buf ref = {0};
    struct keda_scaler_request rq;
    make_ref(metadata, &ref);
    assert_null(keda_scaler_read_ref(gs_buf_slice(&ref), &rq));
    return keda_scaler_trigger_read(&rq, ret);
}

static void expect_error(const char *metadata, const char *part)
{
    struct keda_scaler_trigger t = {0};
    GS_AUTO_ERROR struct gs_error *err = read_trigger(metadata, &t);
    if (!err)
        fail_msg("%s: no error", metadata);
    else if (!strstr(gs_error_message(err), part))
        fail_msg("%s: \"%s\" does not contain \"%s\"", metadata, gs_error_message(err), part);
    assert_null(t.signal);
}

static void test_the_object_is_the_deployment_with_the_name_of_the_scaled_object(void **state)
{
    struct keda_scaler_trigger t;
    (void)state;
    assert_null(
        read_trigger("signal=vllm:num_requests_waiting;threshold=2.5;scalerAddress=a:1", &t));
    assert_string_equal(t.ns, "shop");
    assert_string_equal(t.resource, "deployment.apps");
    assert_string_equal(t.name, "chat");
    assert_string_equal(t.metric, "vllm-num_requests_waiting");
    assert_true(t.threshold == 2.5 && t.activation == 0 && !t.named);
    keda_scaler_trigger_finish(&t);
}

static void test_all_keys(void **state)
{
    struct keda_scaler_trigger t;
    (void)state;
    assert_null(read_trigger("signal=queue;object=service/api;selector=model in (a,b);"
                             "thresholdFromEnv=8;activationThreshold=-1;enableTLS=true",
                             &t));
    assert_string_equal(t.resource, "service");
    assert_string_equal(t.name, "api");
    assert_int_equal(t.selector.len, 1);
    assert_true(t.threshold == 8 && t.activation == -1 && t.named);
    keda_scaler_trigger_finish(&t);
    assert_null(read_trigger("signal=queue;external=true;threshold=1", &t));
    assert_null(t.name);
    assert_null(t.resource);
    keda_scaler_trigger_finish(&t);
}

static void test_wrong_metadata(void **state)
{
    (void)state;
    expect_error("threshold=1", "signal");
    expect_error("signal=a/b;threshold=1", "signal");
    expect_error("signal=a", "threshold");
    expect_error("signal=a;threshold=0", "threshold");
    expect_error("signal=a;threshold=-3", "threshold");
    expect_error("signal=a;threshold=nan", "threshold");
    expect_error("signal=a;threshold=1;activationThreshold=inf", "activationThreshold");
    expect_error("signal=a;threshold=many", "threshold");
    expect_error("signal=a;treshold=1", "unknown metadata \"treshold\"");
    expect_error("signal=a;threshold=1;namespace=other", "unknown metadata");
    expect_error("signal=a;threshold=1;object=chat", "KIND/NAME");
    expect_error("signal=a;threshold=1;object=/chat", "KIND/NAME");
    expect_error("signal=a;threshold=1;object=deployment/../x", "KIND/NAME");
    expect_error("signal=a;threshold=1;object=pod/a;external=true", "external");
    expect_error("signal=a;threshold=1;external=maybe", "external");
    expect_error("signal=a;threshold=1;selector=a in (", "selector");
    expect_error("signal=a\n;threshold=1", "control character");
}

static void test_a_request_without_a_namespace_is_refused(void **state)
{
    struct keda_scaler_request rq = {.name = GS_SLICE("chat")};
    struct keda_scaler_trigger t = {0};
    rq.metadata[0] = (struct keda_scaler_pair){GS_SLICE("signal"), GS_SLICE("a")};
    rq.metadata[1] = (struct keda_scaler_pair){GS_SLICE("threshold"), GS_SLICE("1")};
    rq.n_metadata = 2;
    (void)state;
    GS_AUTO_ERROR struct gs_error *err = keda_scaler_trigger_read(&rq, &t);
    assert_non_null(err);
    assert_non_null(strstr(gs_error_message(err), "namespace"));
}

static void test_metadata_has_a_limit(void **state)
{
    GS_AUTO_BUF struct gs_buf ref = {0};
    struct keda_scaler_request rq;
    (void)state;
    for (size_t i = 0; i < KEDA_SCALER_MAX_METADATA; i++)
        add_pair(&ref, "a", "b");
    assert_null(keda_scaler_read_ref(gs_buf_slice(&ref), &rq));
    add_pair(&ref, "a", "b");
    GS_AUTO_ERROR struct gs_error *err = keda_scaler_read_ref(gs_buf_slice(&ref), &rq);
    assert_non_null(err);
}

static void test_a_request_that_ends_too_early_is_an_error(void **state)
{
    GS_AUTO_BUF struct gs_buf ref = {0}, message = {0};
    struct keda_scaler_request rq;
    (void)state;
    make_ref("signal=a;threshold=1", &ref);
    codec_proto_add_bytes(&message, 1, gs_buf_slice(&ref));
    codec_proto_add_bytes(&message, 2, GS_SLICE("name"));
    assert_null(keda_scaler_read_metrics_request(gs_buf_slice(&message), &rq));
    assert_true(gs_slice_eq_str(rq.metric, "name"));
    assert_int_equal(rq.n_metadata, 2);
    struct gs_slice half = gs_slice_make(message.data, message.len / 2);
    GS_AUTO_ERROR struct gs_error *err = keda_scaler_read_metrics_request(half, &rq);
    assert_non_null(err);
}

// Reads both numbers of a MetricValue or MetricSpec.
static void read_numbers(struct gs_slice message, int64_t *ret_integer, double *ret_float)
{
    struct codec_proto_token t;
    assert_null(codec_proto_next(&message, &t));
    for (struct gs_slice rest = t.bytes; rest.len;) {
        struct codec_proto_token field;
        assert_null(codec_proto_next(&rest, &field));
        if (field.number == 2)
            *ret_integer = (int64_t)field.varint;
        else if (field.number == 3)
            memcpy(ret_float, field.bytes.data, sizeof(*ret_float));
    }
}

// KEDA uses the integer if the float is not above 0.
static void test_numbers_are_written_as_integer_and_float(void **state)
{
    static const struct {
        double value;
        int64_t value_integer, target_integer;
    } rows[] = {{2.5, 3, 3},
                {0.2, 0, 1},
                {0, 0, 1},
                {-3.4, -3, 1},
                {1e300, INT64_C(1) << 53, INT64_C(1) << 53}};
    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        GS_AUTO_BUF struct gs_buf value = {0}, spec = {0};
        int64_t integer = -1;
        double number = -1;
        keda_scaler_write_value(GS_SLICE("m"), rows[i].value, &value);
        read_numbers(gs_buf_slice(&value), &integer, &number);
        assert_int_equal(integer, rows[i].value_integer);
        assert_true(number == rows[i].value);
        keda_scaler_write_spec(GS_SLICE("m"), rows[i].value, &spec);
        read_numbers(gs_buf_slice(&spec), &integer, &number);
        assert_int_equal(integer, rows[i].target_integer);
        assert_true(number == rows[i].value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_object_is_the_deployment_with_the_name_of_the_scaled_object),
        cmocka_unit_test(test_all_keys),
        cmocka_unit_test(test_wrong_metadata),
        cmocka_unit_test(test_a_request_without_a_namespace_is_refused),
        cmocka_unit_test(test_metadata_has_a_limit),
        cmocka_unit_test(test_a_request_that_ends_too_early_is_an_error),
        cmocka_unit_test(test_numbers_are_written_as_integer_and_float),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
