// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/mem.h"
#include "net/http/response_reader.h"

// Parses text in pieces of this size. Returns the body; NULL after an error.
static char *parse(struct http_response_reader *r, const char *text, size_t step)
{
    struct gs_buf body = {0};
    size_t len = strlen(text);
    for (size_t i = 0; i < len; i += step) {
        struct gs_slice in = gs_slice_make(text + i, len - i < step ? len - i : step);
        while (in.len && r->state != HTTP_RESPONSE_DONE) {
            struct gs_slice piece = {0};
            struct gs_error *err = http_response_reader_feed(r, &in, &piece);
            if (err) {
                gs_error_free(err);
                gs_buf_finish(&body);
                return NULL;
            }
            gs_buf_add_slice(&body, piece);
        }
    }
    return gs_buf_take(&body);
}

static void test_bodies(void **state)
{
    static const struct {
        const char *text, *body;
        bool done; // without the end of the connection
    } cases[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcIGNORED", "abc", true},
        {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", true},
        {"HTTP/1.0 200\r\n\r\nto the end", "to the end", false},
        {"HTTP/1.1 200 OK\nContent-Length: 2\n\nab", "ab", true},
        {"HTTP/1.1 204 No Content\r\n\r\n", "", true},
        {"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", "", true},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0"
         "\r\nTrailer: x\r\n\r\n",
         "abc0123456789", true},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n1\r\nx\r\n0"
         "\r\n\r\n",
         "x", true},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n"
         "Content-Length: 1\r\n\r\ny",
         "y", true},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++)
        for (size_t step = 1; step < 80; step += 13) {
            struct http_response_reader r = {0};
            GS_AUTO_FREE char *body = parse(&r, cases[i].text, step);
            assert_non_null(body);
            assert_string_equal(body, cases[i].body);
            assert_true(r.has_head);
            assert_int_equal(r.state == HTTP_RESPONSE_DONE, cases[i].done);
            assert_true(http_response_reader_ended(&r));
            http_response_reader_finish(&r);
        }
}

static void test_headers(void **state)
{
    struct http_response_reader r = {0};
    GS_AUTO_FREE char *body = parse(&r,
                                    "HTTP/1.1 404 Not Found\r\nSet-Cookie: a=1\r\nset-cookie:b=2  "
                                    "\r\nEmpty:\r\nContent-Length:2\r\n\r\nab",
                                    7);
    assert_int_equal(r.status, 404);
    assert_int_equal(r.length, 2);
    assert_int_equal(r.n_headers, 4);
    assert_string_equal(r.headers[0].value, "a=1");
    assert_string_equal(r.headers[1].name, "set-cookie");
    assert_string_equal(r.headers[1].value, "b=2");
    assert_string_equal(http_response_reader_header(&r, "EMPTY"), "");
    assert_null(http_response_reader_header(&r, "None"));
    http_response_reader_finish(&r);
}

static void test_bad_responses_are_refused(void **state)
{
    static const char *const bad[] = {
        "nonsense\r\n\r\n",
        "HTTP/2 200\r\n\r\n",
        "HTTP/1.1 2x0 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nbad name: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\na: b\rc\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++)
        for (size_t step = 1; step < 80; step += 13) {
            struct http_response_reader r = {0};
            GS_AUTO_FREE char *body = parse(&r, bad[i], step);
            if (body)
                fail_msg("accepted: %s", bad[i]);
            http_response_reader_finish(&r);
        }
}

static void test_responses_to_head_have_no_body(void **state)
{
    static const struct {
        const char *text;
        int64_t length;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\n", 300},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", -1},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nIGNORED", -1},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct http_response_reader r = {.no_body = true};
        GS_AUTO_FREE char *body = parse(&r, cases[i].text, 7);
        assert_string_equal(body, "");
        assert_int_equal(r.state, HTTP_RESPONSE_DONE);
        assert_int_equal(r.length, cases[i].length);
        http_response_reader_finish(&r);
    }
}

static void test_a_cut_response_is_not_complete(void **state)
{
    static const char *const cut[] = {
        "HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"};
    for (size_t i = 0; i < GS_ARRAY_LEN(cut); i++) {
        struct http_response_reader r = {0};
        GS_AUTO_FREE char *body = parse(&r, cut[i], 100);
        assert_non_null(body);
        assert_false(http_response_reader_ended(&r));
        http_response_reader_finish(&r);
    }
}

static void test_long_heads_are_refused(void **state)
{
    struct http_response_reader r = {0};
    struct gs_buf text = {0};
    gs_buf_add_str(&text, "HTTP/1.1 200 OK\r\nA: ");
    for (int i = 0; i < 70000; i++)
        gs_buf_add_char(&text, 'a');
    assert_null(parse(&r, text.data, 4096));
    gs_buf_finish(&text);
    http_response_reader_finish(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_bad_responses_are_refused),
        cmocka_unit_test(test_responses_to_head_have_no_body),
        cmocka_unit_test(test_a_cut_response_is_not_complete),
        cmocka_unit_test(test_long_heads_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
