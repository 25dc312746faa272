// SPDX-License-Identifier: Apache-2.0
// Pages, files, headers and events of the web interface, read from a socket. The server has the
// route prefix /p.
#include "web/web.h"

#include "base/mem.h"
#include "codec/encoding.h"
#include "net/http/raw_socket.h"
#include "patience.h"
#include "unit.h"

#include <unistd.h>

#define PREFIX "/p"

struct fixture {
    uv_loop_t loop;
    struct http_server *server;
    struct web *web;
    uint64_t version;
    struct gs_buf reply;
};

static uint64_t read_version(void *arg)
{
    return ((struct fixture *)arg)->version;
}

static void handle(void *ctx, struct http_exchange *x)
{
    struct fixture *f = ctx;
    const char *path = http_path(x) + strlen(PREFIX);
    bool known = gs_starts(http_path(x), PREFIX) &&
                 (web_handle(f->web, x, gs_slice_of(*path ? path : "/")) ||
                  web_handle_unknown(x, gs_slice_of(path)));
    if (!known)
        http_reply_text(x, 404, "no page\n");
}

static int setup(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    uv_loop_init(&f->loop);
    f->version = 7;
    f->web = web_new(&(struct web_options){.loop = &f->loop, .version = read_version, .arg = f});
    const struct http_server_config cfg = {.address = "127.0.0.1"};
    assert_ok(http_server_start(&f->loop, &cfg, handle, f, &f->server));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    http_server_stop(f->server);
    web_free(f->web);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    gs_buf_finish(&f->reply);
    free(f);
    return 0;
}

// Adds what has arrived to the reply. False: the server has closed the connection.
static bool read_some(struct fixture *f, int fd)
{
    char chunk[65536];
    ssize_t n = recv(fd, chunk, sizeof(chunk), MSG_DONTWAIT);
    if (n > 0)
        gs_buf_add(&f->reply, chunk, (size_t)n);
    uv_run(&f->loop, UV_RUN_NOWAIT);
    usleep(200);
    return n != 0;
}

static bool has(const struct fixture *f, const char *text)
{
    return f->reply.len && memmem(f->reply.data, f->reply.len, text, strlen(text));
}

static int request(struct fixture *f, const char *method, const char *path, const char *headers)
{
    GS_AUTO_FREE char *text = gs_format("%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s\r\n",
                                        method, path, headers);
    int fd = raw_connect(f->server);
    gs_buf_clear(&f->reply);
    assert_true(raw_send(fd, text));
    return fd;
}

// Sends a request and returns the status of the complete reply.
static int status_of(struct fixture *f, const char *method, const char *path, const char *headers)
{
    int fd = request(f, method, path, headers);
    for (int64_t end = gs_mono_ns() + WAIT_NS; read_some(f, fd);)
        assert_true(gs_mono_ns() < end);
    close(fd);
    gs_buf_add(&f->reply, "", 1);
    f->reply.len--;
    int status = 0;
    assert_int_equal(sscanf(f->reply.data, "HTTP/1.1 %d", &status), 1);
    return status;
}

static void wait_for(struct fixture *f, int fd, const char *text)
{
    for (int64_t end = gs_mono_ns() + WAIT_NS; !has(f, text); read_some(f, fd))
        assert_true(gs_mono_ns() < end);
}

static struct gs_slice body_of(const struct fixture *f)
{
    const char *end = strstr(f->reply.data, "\r\n\r\n");
    assert_non_null(end);
    return gs_slice_make(end + 4, (size_t)(f->reply.data + f->reply.len - end - 4));
}

static void test_pages_have_the_paths_of_prometheus(void **state)
{
    static const char *const paths[] = {"/graph?g0.expr=up&g0.tab=1",
                                        "/query?g0.expr=up",
                                        "/alerts",
                                        "/rules",
                                        "/targets",
                                        "/service-discovery",
                                        "/alertmanager-discovery",
                                        "/config",
                                        "/flags",
                                        "/status",
                                        "/tsdb-status",
                                        "/report",
                                        "/workloads",
                                        "/gpus",
                                        "/nodes",
                                        "/inference",
                                        "/dashboards",
                                        "/dashboard?name=ns/a&file=a.json",
                                        "/gpu?uuid=GPU-1",
                                        "/node?name=n"};
    struct fixture *f = *state;
    for (size_t i = 0; i < GS_ARRAY_LEN(paths); i++) {
        GS_AUTO_FREE char *path = gs_format(PREFIX "%s", paths[i]);
        assert_int_equal(status_of(f, "GET", path, ""), 200);
        assert_true(has(f, "Content-Type: text/html; charset=utf-8\r\n"));
        assert_true(has(f, "<script type=\"module\" src=\"assets/"));
    }
}

static void test_pages_contain_no_code_and_allow_none(void **state)
{
    struct fixture *f = *state;
    status_of(f, "GET", PREFIX "/query", "");
    assert_true(has(f, "Content-Security-Policy: default-src 'self'; object-src 'none'; "));
    assert_true(has(f, "X-Content-Type-Options: nosniff\r\n"));
    assert_true(has(f, "Referrer-Policy: no-referrer\r\n"));
    assert_false(has(f, "'unsafe"));
    assert_false(has(f, "<style"));
    assert_false(has(f, "<script>"));
    assert_false(has(f, "style="));
    assert_false(has(f, "http://"));
    assert_false(has(f, "https://"));
}

static void test_page_without_javascript_links_to_the_data(void **state)
{
    struct fixture *f = *state;
    status_of(f, "GET", PREFIX "/alerts", "");
    assert_true(has(f, "<noscript>"));
    assert_true(has(f, "href=\"api/v1/alerts\""));
}

static void test_home_leads_to_a_page_under_each_prefix(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(status_of(f, "GET", PREFIX "/", ""), 200);
    assert_true(has(f, "/main.js"));
    // Relative links need the slash.
    assert_int_equal(status_of(f, "GET", PREFIX, ""), 302);
    assert_true(has(f, "Location: p/\r\n"));
}

static void test_addresses_in_folders_lead_to_their_page(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(status_of(f, "GET", PREFIX "/dashboards/view?name=ns/a&file=a.json", ""), 302);
    assert_true(has(f, "Location: ../dashboard?name=ns/a&file=a.json\r\n"));
    assert_int_equal(status_of(f, "GET", PREFIX "/dashboard/import", ""), 302);
    assert_true(has(f, "Location: ../dashboards\r\n"));
    assert_int_equal(status_of(f, "GET", PREFIX "/dashboards/other", ""), 404);
}

static void test_file_has_its_type_and_revalidates_by_its_tag(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(status_of(f, "GET", PREFIX "/assets/main.js", ""), 200);
    assert_true(has(f, "Content-Type: text/javascript; charset=utf-8\r\n"));
    assert_true(has(f, "Cache-Control: no-cache\r\n"));
    const char *tag = strstr(f->reply.data, "ETag: ");
    assert_non_null(tag);
    GS_AUTO_FREE char *etag = gs_strndup(tag + 6, strcspn(tag + 6, "\r"));
    GS_AUTO_FREE char *same = gs_format("If-None-Match: \"other\", W/%s\r\n", etag);
    assert_int_equal(status_of(f, "GET", PREFIX "/assets/main.js", same), 304);
    assert_int_equal(body_of(f).len, 0);
    assert_int_equal(status_of(f, "GET", PREFIX "/assets/main.js", "If-None-Match: \"other\"\r\n"),
                     200);
    assert_int_equal(status_of(f, "GET", PREFIX "/assets/style.css", ""), 200);
    assert_true(has(f, "Content-Type: text/css; charset=utf-8\r\n"));
}

static void test_files_that_a_page_names_are_kept_by_browsers(void **state)
{
    struct fixture *f = *state;
    status_of(f, "GET", PREFIX "/query", "");
    const char *name = strstr(f->reply.data, "src=\"assets/");
    assert_non_null(name);
    GS_AUTO_FREE char *path = gs_format(PREFIX "/%.*s", (int)strcspn(name + 5, "\""), name + 5);
    assert_int_equal(status_of(f, "GET", path, ""), 200);
    assert_true(has(f, "Cache-Control: private, max-age=31536000, immutable\r\n"));
    // The page of another version of the program.
    assert_int_equal(status_of(f, "GET", PREFIX "/assets/0123456789ab/main.js", ""), 200);
    assert_true(has(f, "Cache-Control: no-cache\r\n"));
    assert_int_equal(status_of(f, "GET", PREFIX "/assets/0123456789xy/main.js", ""), 404);
    assert_int_equal(status_of(f, "GET", PREFIX "/assets/0123456789ab/../main.js", ""), 404);
}

static void test_compressed_file_has_the_same_content(void **state)
{
    struct fixture *f = *state;
    GS_AUTO_BUF struct gs_buf plain = {0}, unpacked = {0};
    status_of(f, "GET", PREFIX "/assets/dygraph.min.js", "Accept-Encoding: gzip;q=0\r\n");
    assert_false(has(f, "Content-Encoding"));
    gs_buf_add_slice(&plain, body_of(f));
    status_of(f, "GET", PREFIX "/assets/dygraph.min.js", "Accept-Encoding: br, gzip\r\n");
    assert_true(has(f, "Content-Encoding: gzip\r\n"));
    assert_true(has(f, "Vary: Accept-Encoding\r\n"));
    struct gs_slice packed = body_of(f);
    assert_true(packed.len < plain.len / 2);
    assert_ok(codec_gunzip(packed, plain.len, NULL, NULL, &unpacked));
    assert_int_equal(unpacked.len, plain.len);
    assert_memory_equal(unpacked.data, plain.data, plain.len);
}

static void test_other_paths_are_not_answered(void **state)
{
    static const char *const paths[] = {
        "/assets/",
        "/assets/nothing.js",
        "/assets/../page.html",
        "/assets/../../../../etc/passwd",
        "/assets/%2e%2e/main.js",
        "/assets//main.js",
        "/assets/main.js/",
        "/queryx",
        "/query/",
        "/api/v1/query",
        "//",
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < GS_ARRAY_LEN(paths); i++) {
        GS_AUTO_FREE char *path = gs_format(PREFIX "%s", paths[i]);
        if (status_of(f, "GET", path, "") != 404)
            fail_msg("%s: %s", path, f->reply.data);
        assert_true(has(f, "no page\n"));
    }
}

static void test_browsers_get_a_page_with_a_way_back(void **state)
{
    static const struct {
        const char *path, *headers;
        bool page;
    } cases[] = {
        {"/nothing", "Accept: text/html,*/*\r\n", true},
        {"/nothing", "Accept: */*\r\n", false},
        {"/nothing", "", false},
        {"/api/v1/nothing", "Accept: text/html\r\n", false},
        {"/assets/nothing.js", "Accept: text/html\r\n", false},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_FREE char *path = gs_format(PREFIX "%s", cases[i].path);
        assert_int_equal(status_of(f, "GET", path, cases[i].headers), 404);
        assert_int_equal(has(f, "<a href=\"./\">Overview</a>"), cases[i].page);
    }
    assert_int_equal(status_of(f, "GET", PREFIX "/a/b/c?<x>", "Accept: text/html\r\n"), 404);
    assert_true(has(f, "<a href=\"./../../\">Overview</a>"));
    assert_false(has(f, "<x>"));
    assert_int_equal(status_of(f, "POST", PREFIX "/nothing", "Accept: text/html\r\n"), 404);
    assert_false(has(f, "Overview"));
}

static void test_only_get_and_head_are_allowed(void **state)
{
    static const char *const paths[] = {"/query", "/assets/main.js", "/events", "/"};
    struct fixture *f = *state;
    for (size_t i = 0; i < GS_ARRAY_LEN(paths); i++) {
        GS_AUTO_FREE char *path = gs_format(PREFIX "%s", paths[i]);
        assert_int_equal(status_of(f, "DELETE", path, ""), 405);
        assert_true(has(f, "Allow: GET, HEAD\r\n"));
    }
    assert_int_equal(status_of(f, "HEAD", PREFIX "/query", ""), 200);
    assert_int_equal(body_of(f).len, 0);
}

static void test_stream_reports_new_data(void **state)
{
    struct fixture *f = *state;
    int fd = request(f, "GET", PREFIX "/events", "");
    wait_for(f, fd, "data: 7\n\n");
    assert_true(has(f, "Content-Type: text/event-stream"));
    f->version = 8;
    wait_for(f, fd, "data: 8\n\n");
    close(fd);
}

static void test_further_streams_are_refused(void **state)
{
    enum { MOST = 64 };
    struct fixture *f = *state;
    int fds[MOST];
    for (size_t i = 0; i < MOST; i++) {
        fds[i] = request(f, "GET", PREFIX "/events", "");
        wait_for(f, fds[i], "data: 7\n\n");
    }
    assert_int_equal(status_of(f, "GET", PREFIX "/events", ""), 503);
    assert_true(has(f, "Retry-After: 60\r\n"));
    // A stream that a page has closed makes room.
    close(fds[0]);
    bool opened = false;
    for (int64_t end = gs_mono_ns() + WAIT_NS; !opened && gs_mono_ns() < end;) {
        fds[0] = request(f, "GET", PREFIX "/events", "");
        while (!has(f, "data: 7\n\n") && read_some(f, fds[0])) {
        }
        opened = has(f, "data: 7\n\n");
        if (!opened)
            close(fds[0]);
    }
    assert_true(opened);
    for (size_t i = 0; i < MOST; i++)
        close(fds[i]);
}

static void test_streams_end_with_the_server(void **state)
{
    struct fixture *f = *state;
    int fd = request(f, "GET", PREFIX "/events", "");
    wait_for(f, fd, "data: 7\n\n");
    (void)fd; // teardown() stops the server with the open stream
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pages_have_the_paths_of_prometheus, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pages_contain_no_code_and_allow_none, setup, teardown),
        cmocka_unit_test_setup_teardown(test_page_without_javascript_links_to_the_data, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_home_leads_to_a_page_under_each_prefix, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_addresses_in_folders_lead_to_their_page, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_file_has_its_type_and_revalidates_by_its_tag, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_files_that_a_page_names_are_kept_by_browsers, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_compressed_file_has_the_same_content, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_paths_are_not_answered, setup, teardown),
        cmocka_unit_test_setup_teardown(test_browsers_get_a_page_with_a_way_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_only_get_and_head_are_allowed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stream_reports_new_data, setup, teardown),
        cmocka_unit_test_setup_teardown(test_further_streams_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_streams_end_with_the_server, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
