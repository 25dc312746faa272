// SPDX-License-Identifier: Apache-2.0
// Replies whole, byte by byte and cut at each place; what is refused as odd.
#include "net/http/http_private.h"
#include "unit.h"

#include <stdio.h>

struct outcome {
    enum http_reply_state state;
    int status;
    bool keep;
    char body[64], type[64];
    int64_t retry_after_s;
};

static struct outcome outcome_of(struct http_reply *r, enum http_reply_state state)
{
    struct outcome o = {.state = state};
    if (state != HTTP_REPLY_DONE)
        return o;
    struct gs_slice body = http_reply_body(r);
    const char *type = http_reply_content_type(r);
    o.status = r->status;
    o.keep = r->keep;
    o.retry_after_s = r->retry_after_s;
    snprintf(o.body, sizeof(o.body), GS_SLICE_FMT, GS_SLICE_ARG(body));
    snprintf(o.type, sizeof(o.type), "%s", type ? type : "");
    return o;
}

// In pieces of that size, then the end.
static struct outcome feed(const char *text, size_t piece, size_t max_body)
{
    struct http_reply r = {.max_body = max_body};
    enum http_reply_state state = HTTP_REPLY_MORE;
    size_t len = strlen(text);
    for (size_t at = 0; at < len && state == HTTP_REPLY_MORE; at += piece) {
        gs_buf_add(&r.bytes, text + at, len - at < piece ? len - at : piece);
        state = http_reply_step(&r, false);
    }
    if (state == HTTP_REPLY_MORE)
        state = http_reply_step(&r, true);
    struct outcome o = outcome_of(&r, state);
    gs_buf_finish(&r.bytes);
    return o;
}

static void assert_reply(const char *text, int status, bool keep, const char *body)
{
    for (size_t piece = 1; piece <= strlen(text); piece++) {
        struct outcome o = feed(text, piece, 1000);
        assert_int_equal(o.state, HTTP_REPLY_DONE);
        assert_int_equal(o.status, status);
        assert_int_equal(o.keep, keep);
        assert_string_equal(o.body, body);
    }
}

static void test_lengths(void **state)
{
    assert_reply("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, true, "hello");
    assert_reply("HTTP/1.1 200\r\nCONTENT-LENGTH:0\r\n\r\n", 200, true, "");
    assert_reply("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", 200, false,
                 "ok");
    assert_reply("HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", 404, true, "no");
    assert_reply("HTTP/1.1 204 No Content\r\n\r\n", 204, true, "");
    assert_reply("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, false, "ok");
    assert_reply("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nok", 200,
                 true, "ok");
}

static void test_until_the_end(void **state)
{
    assert_reply("HTTP/1.0 200 OK\r\nServer: x\r\n\r\nall of it", 200, false, "all of it");
    assert_reply("HTTP/1.1 200 OK\r\n\r\nall of it", 200, false, "all of it");
}

static void test_chunks(void **state)
{
    assert_reply("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                 "5\r\nhello\r\n1;name=value\r\n \r\n0005\r\nworld\r\n0\r\n\r\n",
                 200, true, "hello world");
    assert_reply("HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n"
                 "a\r\n0123456789\r\n0\r\nTrailer: x\r\nOther: y\r\n\r\n",
                 200, true, "0123456789");
}

static void test_bytes_behind_the_reply_end_the_connection(void **state)
{
    struct outcome o = feed("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200", 1000, 9);
    assert_int_equal(o.state, HTTP_REPLY_DONE);
    assert_string_equal(o.body, "ok");
    assert_false(o.keep);
    o = feed("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nmore", 1000, 9);
    assert_int_equal(o.state, HTTP_REPLY_DONE);
    assert_false(o.keep);
}

static void test_fields(void **state)
{
    struct outcome o = feed("HTTP/1.1 503 Busy\r\nContent-Type:  text/plain; version=0.0.4 \r\n"
                            "Retry-After: 17\r\nContent-Length: 0\r\n\r\n",
                            1000, 9);
    assert_string_equal(o.type, "text/plain; version=0.0.4");
    assert_int_equal(o.retry_after_s, 17);
    o = feed("HTTP/1.1 503 Busy\r\nRetry-After: Fri, 31 Dec 1999 23:59:59 GMT\r\n"
             "Content-Length: 0\r\n\r\n",
             1000, 9);
    assert_int_equal(o.retry_after_s, 0);
}

static void test_odd(void **state)
{
    static const char *const texts[] = {
        "",
        "HTTP/1.1 200 OK\r\n",                                                   // cut
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",                       // cut
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",   // cut
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0", // no line end
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y",        // cut
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\nx\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n11111111111111111\r\nx",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nContent-Length: 1000000000000000000\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nServer: x\r\n folded\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nServer : x\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 0\n\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 101 Upgrade\r\nConnection: upgrade\r\n\r\n",
        "HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 20x OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/2 200 OK\r\nContent-Length: 0\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n\r\n",
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++)
        for (size_t piece = 1; piece <= strlen(texts[i]) + 1; piece++)
            if (feed(texts[i], piece, 1000).state != HTTP_REPLY_ODD)
                fail_msg("in pieces of %zu bytes not found odd: %s", piece, texts[i]);
}

static void test_large(void **state)
{
    static const char *const texts[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\nsix by",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n",
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++)
        for (size_t piece = 1; piece <= strlen(texts[i]); piece++)
            assert_int_equal(feed(texts[i], piece, 5).state, HTTP_REPLY_LARGE);
}

static void test_endless_head(void **state)
{
    struct http_reply r = {.max_body = 10};
    enum http_reply_state s = HTTP_REPLY_MORE;
    gs_buf_add_str(&r.bytes, "HTTP/1.1 200 OK\r\n");
    for (int i = 0; i < 100000 && s == HTTP_REPLY_MORE; i++) {
        gs_buf_add_str(&r.bytes, "X: y\r\n");
        s = http_reply_step(&r, false);
    }
    assert_int_equal(s, HTTP_REPLY_ODD);
    assert_true(r.bytes.len < (size_t)70 * 1024);
    gs_buf_finish(&r.bytes);
}

// Many small chunks take the memory of what they carry.
static void test_chunk_lines_do_not_pile_up(void **state)
{
    struct http_reply r = {.max_body = 100000};
    gs_buf_add_str(&r.bytes, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 10000; i++) {
        gs_buf_add_str(&r.bytes, "0000000000001;x=0123456789\r\na\r\n");
        assert_int_equal(http_reply_step(&r, false), HTTP_REPLY_MORE);
    }
    assert_true(r.bytes.len < 11000);
    gs_buf_finish(&r.bytes);
}

static void test_urls(void **state)
{
    static const struct {
        const char *text, *authority, *host;
        int port;
        const char *target;
    } right[] = {
        {"http://node-1:9400/metrics", "node-1:9400", "node-1", 9400, "/metrics"},
        {"HTTP://10.0.0.1/a?b=c%20d", "10.0.0.1", "10.0.0.1", 80, "/a?b=c%20d"},
        {"http://[fe80::1]:9/x", "[fe80::1]:9", "fe80::1", 9, "/x"},
        {"http://[::1]", "[::1]", "::1", 80, "/"},
        {"http://h:", "h:", "h", 80, "/"},
    };
    struct http_url u;
    for (size_t i = 0; i < GS_ARRAY_LEN(right); i++) {
        assert_true(http_url_parse(right[i].text, &u));
        assert_true(gs_slice_eq_str(u.authority, right[i].authority));
        assert_true(gs_slice_eq_str(u.target, right[i].target));
        assert_string_equal(u.host, right[i].host);
        assert_int_equal(u.port, right[i].port);
    }
    static const char *const wrong[] = {
        "https://h/",    "h:80/metrics",    "http://",
        "http:///x",     "http://a@h/",     "http://h/#x",
        "http://h?x",    "http://h:99999/", "http://h:0/",
        "http://h:1:2/", "http://[::1/",    "http://[::1]x/",
        "http://h/a b",  "http://h/\r\nX",  "http://h/\xc3\xa9",
        "http://h\r\n/", "http://h%41/",    "",
        "http://[]/",    "http://h:-1/",
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(wrong); i++)
        if (http_url_parse(wrong[i], &u))
            fail_msg("taken: %s", wrong[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_until_the_end),
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_bytes_behind_the_reply_end_the_connection),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_odd),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_endless_head),
        cmocka_unit_test(test_chunk_lines_do_not_pile_up),
        cmocka_unit_test(test_urls),
    };
    return cmocka_run_group_tests_name("net/http_reply", tests, NULL, NULL);
}
