// SPDX-License-Identifier: Apache-2.0
#include "adapter/source/source_private.h"
#include "base/mem.h"
#include "unit.h"

#include <math.h>

static void wrong(int status, const char *body, enum gs_code code, const char *text)
{
    struct source_result *r = NULL;
    assert_error(source_read_query(status, gs_slice_of(body), &r), code, text);
}

static void test_vector(void **state)
{
    struct source_result *r = NULL;
    const char *body =
        " {\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[{\"metric\":{"
        "\"__name__\":\"a\",\"l\":\"x\\u00e9\\n\\\"\"},\"value\":[1700000000.5,\"1.5\"]},{"
        "\"metric\":"
        "{},\"value\":[1,\"NaN\"]},{\"metric\":{},\"histogram\":[1,{}]}]},\"warnings\":[\"w\"]}\n";
    assert_ok(source_read_query(200, gs_slice_of(body), &r));
    assert_int_equal(r->type, SOURCE_VECTOR);
    assert_int_equal(r->n, 2);
    assert_int_equal(r->samples[0].n_labels, 2);
    assert_true(gs_slice_eq_str(r->samples[0].labels[1].value, "x\xc3\xa9\n\""));
    assert_int_equal(r->samples[0].t_ms, 1700000000500);
    assert_true(r->samples[0].value == 1.5);
    assert_true(isnan(r->samples[1].value));
    source_result_unref(r);
}

static void test_scalar_and_empty(void **state)
{
    struct source_result *r = NULL;
    assert_ok(source_read_query(200,
                                GS_SLICE("{\"data\":{\"result\":[2,\"+Inf\"],\"resultType\":"
                                         "\"scalar\"},\"status\":\"success\"}"),
                                &r));
    assert_int_equal(r->type, SOURCE_SCALAR);
    assert_true(isinf(r->samples[0].value));
    source_result_unref(r);
    assert_ok(source_read_query(
        200,
        GS_SLICE("{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[]}}"),
        &r));
    assert_int_equal(r->n, 0);
    source_result_unref(r);
}

static void test_errors(void **state)
{
    wrong(400, "{\"status\":\"error\",\"errorType\":\"bad_data\",\"error\":\"parse error\"}",
          GS_EINVAL, "parse error");
    wrong(503, "{\"status\":\"error\",\"errorType\":\"timeout\",\"error\":\"late\"}", GS_ETIMEOUT,
          "late");
    wrong(422, "{\"status\":\"error\",\"errorType\":\"execution\",\"error\":\"many\"}", GS_EIO,
          "many");
    wrong(401, "no", GS_EPERM, "401");
    wrong(502, "<html>", GS_EUNAVAIL, "502");
    wrong(200, "<html>", GS_EPROTO, "not a response");
    wrong(200, "{\"status\":\"success\"}", GS_EPROTO, "no data");
    wrong(200, "{\"status\":\"success\",\"data\":null}", GS_EPROTO, "object");
    wrong(200, "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[{]}}",
          GS_EPROTO, "");
    wrong(200,
          "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[{\"metric\":{},"
          "\"value\":[1,\"x\"]}]}}",
          GS_EPROTO, "malformed");
    wrong(200, "{\"status\":\"success\",\"data\":{\"resultType\":\"v\",\"result\":[]}}", GS_EPROTO,
          "unknown result type");
    wrong(200, "", GS_EPROTO, "");
}

static void test_series(void **state)
{
    struct source_shapes *s = NULL;
    const char *body = "{\"status\":\"success\",\"data\":[{\"__name__\":\"a\",\"x\":\"1\",\"b\":"
                       "\"2\"},{\"__name__\":\"b\"},{\"b\":\"3\",\"__name__\":\"a\",\"x\":\"9\"}]}";
    assert_ok(source_read_series(200, gs_slice_of(body), &s));
    assert_int_equal(s->series, 3);
    assert_int_equal(s->n, 2);
    assert_int_equal(s->items[0].series, 2);
    assert_int_equal(s->items[0].last_seen, 3);
    assert_int_equal(s->items[0].n_labels, 2);
    assert_true(gs_slice_eq_str(s->items[0].labels[0], "b"));
    assert_true(gs_slice_eq_str(s->items[1].name, "b"));
    source_shapes_free(s);
    s = NULL;
    assert_ok(source_read_series(200, GS_SLICE("{\"status\":\"success\",\"data\":[]}"), &s));
    assert_int_equal(s->n, 0);
    source_shapes_free(s);
    assert_error(source_read_series(200, GS_SLICE("{\"status\":\"success\",\"data\":null}"), &s),
                 GS_EPROTO, "no list of series");
}

static void test_names(void **state)
{
    struct source_shapes *s = NULL;
    assert_ok(source_read_names(
        200, GS_SLICE("{\"status\":\"success\",\"data\":[\"b\",\"a:\\u0041\"]}"), &s));
    assert_int_equal(s->n, 2);
    assert_true(gs_slice_eq_str(s->items[0].name, "a:A"));
    assert_true(gs_slice_eq_str(s->items[1].name, "b"));
    assert_int_equal(s->items[0].n_labels, 0);
    source_shapes_free(s);
    assert_error(source_read_names(200, GS_SLICE("{\"status\":\"success\",\"data\":[1]}"), &s),
                 GS_EPROTO, "expected a string");
    assert_error(source_read_names(200, GS_SLICE("{\"status\":\"success\",\"data\":null}"), &s),
                 GS_EPROTO, "");
    assert_error(source_read_names(502, GS_SLICE("<html>"), &s), GS_EUNAVAIL, "502");
}

// {"a":"b", …}
static char *wide_metric(const char *name, int labels, size_t value)
{
    struct gs_buf out = {0};
    gs_buf_addf(&out, "{\"__name__\":\"%s\"", name);
    for (int i = 0; i < labels; i++) {
        gs_buf_addf(&out, ",\"l%d\":\"", i);
        for (size_t k = 0; k < value; k++)
            gs_buf_add_char(&out, 'v');
        gs_buf_add_char(&out, '"');
    }
    gs_buf_add_char(&out, '}');
    return gs_buf_take(&out);
}

// A series with too many labels, or with too much text, leaves the others of the response.
static void test_a_series_over_a_limit_is_left_out(void **state)
{
    GS_AUTO_FREE char *wide = wide_metric("wide", 600, 1),
                      *large = wide_metric("large", 1, 2 << 20);
    GS_AUTO_FREE char *list = gs_format(
        "{\"status\":\"success\",\"data\":[{\"__name__\":\"a\"},%s,%s,{\"__name__\":\"b\"}]}", wide,
        large);
    GS_AUTO_FREE char *answer = gs_format(
        "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[{\"metric\":%s,"
        "\"value\":[1,\"1\"]},{\"metric\":{\"__name__\":\"b\"},\"value\":[1,\"2\"]}]}}",
        wide);
    struct source_shapes *s = NULL;
    struct source_result *r = NULL;
    assert_ok(source_read_series(200, gs_slice_of(list), &s));
    assert_int_equal(s->n, 2);
    assert_true(gs_slice_eq_str(s->items[1].name, "b"));
    source_shapes_free(s);
    assert_ok(source_read_query(200, gs_slice_of(answer), &r));
    assert_int_equal(r->n, 1);
    assert_true(r->samples[0].value == 2);
    source_result_unref(r);
}

static struct gs_error *read_in_parts(const char *body, size_t size, struct source_shapes **ret)
{
    struct source_series_reader *r = source_series_reader_new();
    struct gs_error *err = NULL;
    size_t len = strlen(body);
    for (size_t at = 0; at < len && !err; at += size)
        err = source_series_reader_feed(
            r, gs_slice_make(body + at, len - at < size ? len - at : size));
    if (!err)
        err = source_series_reader_end(r, 200, ret);
    source_series_reader_free(r);
    return err;
}

// The boundaries of the parts of a list do not change the result or the error.
static void test_series_in_parts(void **state)
{
    static const char good[] = " {\"warnings\":[\"a ] } \\\" {\", \"b\"], \"status\" : "
                               "\"success\", \"data\": [ {\"__name__\":"
                               "\"a\",\"x\":\"}]\\\\\\\"{\"} ,\n{\"__name__\":\"b\"}, "
                               "{\"x\":\"9\",\"__name__\":\"a\"}],\"infos\":"
                               "[]}\n";
    static const char *const bad[] = {
        "{\"status\":\"success\",\"data\":[{\"__name__\":\"a\"},]}",
        "{\"status\":\"success\",\"data\":[{\"__name__\":\"a\"}{\"__name__\":\"b\"}]}",
        "{\"status\":\"success\",\"data\":[{\"__name__\":\"a\"}",
        "{\"status\":\"success\",\"data\":[{\"__name__\":\"a\"},3]}",
        "{\"status\":\"success\",\"data\":[3,{\"__name__\":\"a\"}]}",
        "{\"status\":\"success\",\"data\":[{\"__name__\":4}]}",
        "{\"status\":\"success\",\"data\":[{\"__name__\":\"a\"]}}",
        "{\"status\":\"success\",\"data\":{\"a\":\"b\"}}",
        "[[{\"__name__\":\"a\"}]]",
        "}]}]",
    };
    for (size_t size = 1; size < sizeof(good) + 1; size++) {
        struct source_shapes *s = NULL;
        assert_ok(read_in_parts(good, size, &s));
        assert_int_equal(s->series, 3);
        assert_int_equal(s->n, 2);
        assert_int_equal(s->items[0].last_seen, 3);
        assert_true(gs_slice_eq_str(s->items[0].labels[0], "x"));
        source_shapes_free(s);
    }
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++)
        for (size_t size = 1; size < 80; size++) {
            struct source_shapes *s = NULL;
            assert_error(read_in_parts(bad[i], size, &s), GS_EPROTO, "");
        }
}

static void expect_type(const char *data, const char *want)
{
    struct gs_arena arena = {.limit = 100000};
    const char *type = "none";
    GS_AUTO_FREE char *body = gs_format("{\"status\":\"success\",\"data\":%s}", data);
    assert_ok(source_read_type(200, gs_slice_of(body), GS_SLICE("m"), &arena, &type));
    if (!gs_streq(type, want))
        fail_msg("%s: %s", data, type ? type : "unknown");
    gs_arena_finish(&arena);
}

static void test_types(void **state)
{
    struct gs_arena arena = {.limit = 100000};
    const char *type = NULL;
    expect_type("{}", NULL);
    expect_type("{\"m\":[]}", NULL);
    expect_type("{\"x\":[{\"type\":\"gauge\"}],\"m\":[{\"help\":\"h\",\"type\":\"counter\","
                "\"unit\":\"\"},{\"type\":\"counter\",\"help\":\"other\"}]}",
                "counter");
    expect_type("{\"m\":[{\"type\":\"counter\"},{\"type\":\"gauge\"}]}", NULL);
    assert_error(source_read_type(200,
                                  GS_SLICE("{\"status\":\"success\",\"data\":{\"m\":[{\"type\":"
                                           "1}]}}"),
                                  GS_SLICE("m"), &arena, &type),
                 GS_EPROTO, "not a response of Prometheus");
    assert_error(source_read_type(404, GS_SLICE("none"), GS_SLICE("m"), &arena, &type), GS_EPROTO,
                 "404");
    gs_arena_finish(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vector),
        cmocka_unit_test(test_scalar_and_empty),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_series),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_a_series_over_a_limit_is_left_out),
        cmocka_unit_test(test_series_in_parts),
        cmocka_unit_test(test_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
