// SPDX-License-Identifier: Apache-2.0
// Rows of paths: which one a request takes, and the answers to requests that no row takes.
#include "unit.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/slice.h"
#include "net/http/client.h"
#include "net/http/routes.h"

static void handle_exact(void *ctx, struct http_exchange *x)
{
    http_reply_text(x, 200, "%s: exact", (const char *)ctx);
}

static void handle_below(void *ctx, struct http_exchange *x)
{
    http_reply_text(x, 200, "%s: below", (const char *)ctx);
}

static void write_body(void *ctx, struct gs_buf *out)
{
    gs_buf_addf(out, "{\"ctx\":\"%s\"}", (const char *)ctx);
}

static const struct http_route more_rows[] = {
    {.path = "/labels/*/values", .handle = handle_exact},
    {.path = "/body", .handle = handle_exact, .methods = HTTP_POST, .max_body = 4},
    {0},
};

static const struct http_route rows[] = {
    {.path = "/exact", .handle = handle_exact},
    {.path = "/below/**", .handle = handle_below, .methods = HTTP_ANY},
    {.path = "/json", .write = write_body, .type = HTTP_TYPE_JSON, .unlisted = true},
    {.path = "/write", .handle = handle_exact, .methods = HTTP_POST | HTTP_PUT},
    {0},
};

static struct http_routes more = {.rows = more_rows, .ctx = (void *)"second"};
static struct http_routes routes = {.rows = rows, .ctx = (void *)"first", .more = &more};

struct response {
    bool done;
    int status;
    struct gs_buf body, allow, type;
};

static void on_done(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct response *r = arg;
    assert_ok(err);
    r->done = true;
    r->status = response->status;
    gs_buf_add_slice(&r->body, response->body);
    gs_buf_add_slice(&r->allow, http_response_header(response, "allow"));
    gs_buf_add_str(&r->type, response->content_type ? response->content_type : "");
}

static void response_finish(struct response *r)
{
    gs_buf_finish(&r->body);
    gs_buf_finish(&r->allow);
    gs_buf_finish(&r->type);
}

static void send_request(const char *method, const char *path, const char *body,
                         struct response *ret)
{
    uv_loop_t loop;
    uv_loop_init(&loop);
    struct http_client *c = http_client_new_loopback(&loop, http_routes_handle, &routes, NULL);
    const struct http_request request = {
        .method = method, .path = path, .body = gs_slice_of(body), .keep_headers = true};
    http_send(c, &request, &(struct http_callbacks){.on_done = on_done}, ret);
    while (!ret->done)
        uv_run(&loop, UV_RUN_ONCE);
    http_client_free(c);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void test_each_request_takes_the_first_row(void **state)
{
    static const struct {
        const char *method, *path, *body;
        int status;
        const char *want, *allow;
    } cases[] = {
        {"GET", "/exact", "", 200, "first: exact", ""},
        {"GET", "/exact?x=1", "", 200, "first: exact", ""},
        {"POST", "/exact", "", 405, "Method Not Allowed\n", "GET, HEAD"},
        {"GET", "/exact/", "", 404, NULL, ""},
        {"GET", "/below/a/b", "", 200, "first: below", ""},
        {"PATCH", "/below/", "", 200, "first: below", ""},
        {"GET", "/below", "", 404, NULL, ""},
        {"GET", "/json", "", 200, "{\"ctx\":\"first\"}", ""},
        {"GET", "/write", "", 405, "Method Not Allowed\n", "POST, PUT"},
        {"PUT", "/write", "", 200, "first: exact", ""},
        {"GET", "/labels/a/values", "", 200, "second: exact", ""},
        {"GET", "/labels//values", "", 404, NULL, ""},
        {"GET", "/labels/a/b/values", "", 404, NULL, ""},
        {"POST", "/body", "1234", 200, "second: exact", ""},
        {"POST", "/body", "12345", 413, "the body has more than 4 bytes\n", ""},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        const char *want = cases[i].want ? cases[i].want
                                         : "not found; the paths are /exact, /below/**, /write, "
                                           "/labels/*/values, /body\n";
        GS_CLEANUP(response_finish) struct response r = {0};
        send_request(cases[i].method, cases[i].path, cases[i].body, &r);
        if (r.status != cases[i].status || !gs_slice_eq_str(gs_buf_slice(&r.body), want) ||
            !gs_slice_eq_str(gs_buf_slice(&r.allow), cases[i].allow))
            fail_msg("%s %s: %d \"%s\"", cases[i].method, cases[i].path, r.status, r.body.data);
    }
}

static void test_written_bodies_have_a_type(void **state)
{
    GS_CLEANUP(response_finish) struct response r = {0};
    send_request("GET", "/json", "", &r);
    assert_string_equal(r.type.data, "application/json");
}

static void test_text_of_not_found(void **state)
{
    GS_CLEANUP(response_finish) struct response r = {0};
    routes.not_found = "404 page not found\n";
    send_request("GET", "/nothing", "", &r);
    routes.not_found = NULL;
    assert_int_equal(r.status, 404);
    assert_string_equal(r.body.data, "404 page not found\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_request_takes_the_first_row),
        cmocka_unit_test(test_written_bodies_have_a_type),
        cmocka_unit_test(test_text_of_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
