// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "kube/client.h"
#include "loop.h"

struct fixture {
    uv_loop_t loop;
    struct http_client *http;
    struct kube_client *client;
    char *seen;         // "METHOD path body"
    int status;         // to answer with
    const char *answer; // body
    bool hold;          // never answer
    bool aborted;       // the caller left
    // what came back
    bool done;
    int got_status;
    json_t *body;
    enum gs_code code;
    char *message;
};

static void left(void *arg)
{
    struct fixture *f = arg;
    f->aborted = true;
}

static void serve(void *ctx, struct http_exchange *x)
{
    struct fixture *f = ctx;
    const char *type = http_header(x, "Content-Type");
    free(f->seen);
    f->seen = gs_format("%s %s %s " GS_SLICE_FMT, http_method(x), http_path(x), type ? type : "-",
                        GS_SLICE_ARG(http_body(x)));
    if (f->hold)
        http_on_abort(x, left, f);
    else
        http_reply(x, f->status, "application/json", gs_slice_of(f->answer));
}

static void took(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct fixture *f = arg;
    f->done = true;
    f->got_status = status;
    f->body = json_incref(body);
    if (err) {
        f->code = gs_error_code(err);
        f->message = gs_strdup(gs_error_message(err));
    }
    gs_error_free(err);
}

static void setup(struct fixture *f)
{
    *f = (struct fixture){.status = 200, .answer = "{}"};
    uv_loop_init(&f->loop);
    f->http = http_client_new_loopback(&f->loop, serve, f, NULL);
    f->client = kube_client_new(f->http);
}

static void forget(struct fixture *f)
{
    json_decref(f->body);
    free(f->message);
    f->body = NULL;
    f->message = NULL;
    f->code = 0;
    f->done = false;
}

static void finish(struct fixture *f)
{
    forget(f);
    free(f->seen);
    kube_client_free(f->client);
    http_client_free(f->http);
    loop_finish(&f->loop);
}

static void test_paths(void **state)
{
    static const struct {
        struct kube_gvr gvr;
        const char *ns, *name, *sub, *path;
    } cases[] = {
        {KUBE_PODS, "a", "p", NULL, "/api/v1/namespaces/a/pods/p"},
        {KUBE_PODS, NULL, NULL, NULL, "/api/v1/pods"},
        {KUBE_NODES, NULL, "n", "status", "/api/v1/nodes/n/status"},
        {KUBE_DEPLOYMENTS, "x", "d", "scale", "/apis/apps/v1/namespaces/x/deployments/d/scale"},
        {KUBE_LEASES, "x", "a b/c", NULL,
         "/apis/coordination.k8s.io/v1/namespaces/x/leases/a%20b%2Fc"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_BUF struct gs_buf b = {0};
        kube_path(&b, cases[i].gvr, cases[i].ns, cases[i].name, cases[i].sub);
        assert_string_equal(b.data, cases[i].path);
    }
}

static void test_requests_carry_method_path_and_body(void **state)
{
    struct fixture f;
    setup(&f);
    CODEC_AUTO_JSON json_t *obj = json_pack("{s:s}", "a", "b");

    kube_create(f.client, KUBE_PODS, "n", obj, took, &f);
    loop_until(&f.loop, f.done);
    assert_string_equal(f.seen, "POST /api/v1/namespaces/n/pods application/json {\"a\":\"b\"}");
    forget(&f);
    kube_update(f.client, KUBE_PODS, "n", "p", "status", obj, took, &f);
    loop_until(&f.loop, f.done);
    assert_string_equal(f.seen,
                        "PUT /api/v1/namespaces/n/pods/p/status application/json {\"a\":\"b\"}");
    forget(&f);
    kube_patch(f.client, KUBE_PODS, "n", "p", NULL, KUBE_STRATEGIC_PATCH, obj, took, &f);
    loop_until(&f.loop, f.done);
    assert_string_equal(f.seen, "PATCH /api/v1/namespaces/n/pods/p "
                                "application/strategic-merge-patch+json {\"a\":\"b\"}");
    forget(&f);
    kube_delete(f.client, KUBE_PODS, "n", "p", 0, took, &f);
    loop_until(&f.loop, f.done);
    assert_non_null(strstr(f.seen, "DELETE /api/v1/namespaces/n/pods/p"));
    assert_non_null(strstr(f.seen, "\"gracePeriodSeconds\":0"));
    forget(&f);
    kube_delete(f.client, KUBE_PODS, "n", "p", -1, took, &f);
    loop_until(&f.loop, f.done);
    assert_null(strstr(f.seen, "gracePeriodSeconds"));
    finish(&f);
}

static void test_a_list_with_a_limit_is_one_page(void **state)
{
    struct fixture f;
    setup(&f);
    f.answer = "{\"metadata\":{\"continue\":\"more\"},\"items\":[{}]}";
    kube_list_pages(f.client, "/api/v1/pods?limit=1", NULL, took, &f);
    loop_until(&f.loop, f.done);
    assert_int_equal(json_array_size(json_object_get(f.body, "items")), 1);
    assert_string_equal(codec_json_str(f.body, "metadata", "continue", NULL), "more");
    finish(&f);
}

static void test_failures_have_code_and_text(void **state)
{
    static const struct {
        int status;
        const char *body;
        enum gs_code code;
        const char *text;
    } cases[] = {
        {404, "{\"message\":\"pods \\\"x\\\" not found\",\"reason\":\"NotFound\"}", GS_ENOTFOUND,
         "pods \"x\" not found"},
        {409, "{\"message\":\"m\",\"reason\":\"AlreadyExists\"}", GS_EEXIST, "m"},
        {409, "{\"message\":\"m\",\"reason\":\"Conflict\"}", GS_ECONFLICT, "m"},
        {403, "{\"message\":\"m\"}", GS_EPERM, "m"},
        {422, "{\"message\":\"m\"}", GS_EINVAL, "m"},
        {500, "oh no", GS_EUNAVAIL,
         "an error on the server (\"oh no\") has prevented the request from succeeding (get pods "
         "x)"},
        {404, "404 page not found", GS_ENOTFOUND,
         "the server could not find the requested resource (get pods x)"},
        {503, "", GS_EUNAVAIL, "the server is currently unable to handle the request (get pods x)"},
        {200, "{broken", GS_EINVAL, "reading the API server's reply"},
    };
    struct fixture f;
    setup(&f);
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        f.status = cases[i].status;
        f.answer = cases[i].body;
        kube_get(f.client, KUBE_PODS, "n", "x", NULL, took, &f);
        loop_until(&f.loop, f.done);
        assert_int_equal(f.got_status, cases[i].status);
        assert_int_equal(f.code, cases[i].code);
        assert_non_null(strstr(f.message, cases[i].text));
        forget(&f);
    }
    finish(&f);
}

static void test_cancelled_requests_do_not_call_back(void **state)
{
    struct fixture f;
    setup(&f);
    f.hold = true;
    struct kube_request *r = kube_get(f.client, KUBE_PODS, "n", "x", NULL, took, &f);
    loop_until(&f.loop, f.seen != NULL);
    kube_request_cancel(r);
    loop_until(&f.loop, f.aborted);
    kube_get(f.client, KUBE_PODS, "n", "y", NULL, took, &f);
    finish(&f); // cancels the second
    assert_false(f.done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_requests_carry_method_path_and_body),
        cmocka_unit_test(test_a_list_with_a_limit_is_one_page),
        cmocka_unit_test(test_failures_have_code_and_text),
        cmocka_unit_test(test_cancelled_requests_do_not_call_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
