// SPDX-License-Identifier: Apache-2.0
// Dashboards of ConfigMaps over HTTP: lists, texts, imports, and requests that must not write.
#include "unit.h"

#include "base/mem.h"
#include "local/api.h"
#include "up/up_private.h"

#include <string.h>

#define BOARD "{\"uid\":\"u1\",\"panels\":[{\"title\":\"no\"}],\"title\":\"GPUs\"}"

struct fixture {
    uv_loop_t loop;
    struct local_api *api;
    struct http_client *http, *peer;
    struct kube_client *client;
    struct up_dashboards *dashboards;
    int status;
    json_t *body;
    bool done;
    size_t n_ok, n_refused;
};

static void handle(void *ctx, struct http_exchange *x)
{
    struct fixture *f = ctx;
    up_dashboards_handle(f->dashboards, x);
}

static int set_up(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    const struct local_api_config cfg = {.node_name = "n"};
    static const char *const groups[] = {"system:masters"};
    const struct http_identity self = {"test", groups, 1};
    uv_loop_init(&f->loop);
    assert_ok(local_api_new(&f->loop, &cfg, &f->api));
    f->http = http_client_new_loopback(&f->loop, local_api_handle, f->api, &self);
    f->client = kube_client_new(f->http);
    f->dashboards = up_dashboards_new(f->client);
    f->peer = http_client_new_loopback(&f->loop, handle, f, NULL);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    http_client_free(f->peer);
    up_dashboards_free(f->dashboards);
    kube_client_free(f->client);
    http_client_free(f->http);
    local_api_free(f->api);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    json_decref(f->body);
    free(f);
    return 0;
}

static void on_reply(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct fixture *f = arg;
    assert_null(err);
    f->status = response->status;
    f->n_ok += response->status == 200;
    f->n_refused += response->status == 429;
    json_decref(f->body);
    f->body = NULL;
    assert_ok(codec_json_parse(response->body, true, &f->body));
    f->done = true;
}

static const json_t *send_request(struct fixture *f, const struct http_request *q)
{
    static const struct http_callbacks cb = {.on_done = on_reply};
    f->done = false;
    http_send(f->peer, q, &cb, f);
    while (!f->done)
        uv_run(&f->loop, UV_RUN_ONCE);
    return json_object_get(f->body, "data");
}

static const json_t *get(struct fixture *f, const char *query)
{
    GS_AUTO_FREE char *path = gs_format(UP_DASHBOARDS_PATH "%s", query);
    return send_request(f, &(struct http_request){.path = path});
}

struct writer {
    const char *host, *origin, *type;
};
static const struct writer page = {"127.0.0.1:9090", "http://127.0.0.1:9090", "application/json"};

static int import_as(struct fixture *f, const struct writer *w, const char *name, const char *text,
                     bool replace)
{
    CODEC_AUTO_JSON json_t *body = json_pack("{s:s, s:s, s:s, s:b}", "namespace", "default", "name",
                                             name, "dashboard", text, "replace", replace);
    GS_AUTO_FREE char *sent = codec_json_text(body);
    const struct http_header headers[] = {
        {"Host", w->host}, {w->origin ? "Origin" : NULL, w->origin}, {NULL, NULL}};
    send_request(f, &(struct http_request){.method = "POST",
                                           .path = UP_DASHBOARDS_PATH,
                                           .headers = headers,
                                           .content_type = w->type,
                                           .body = gs_slice_of(sent)});
    return f->status;
}

static const char *error_of(const struct fixture *f)
{
    const char *text = codec_json_str(f->body, "error", NULL);
    return text ? text : "";
}

struct got {
    bool done;
    json_t *body;
};

static void on_got(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct got *g = arg;
    (void)status;
    g->done = true;
    g->body = json_incref(body);
    gs_error_free(err);
}

static json_t *config_map(struct fixture *f, const char *name)
{
    struct got g = {0};
    kube_get(f->client, KUBE_CONFIGMAPS, "default", name, NULL, on_got, &g);
    while (!g.done)
        uv_run(&f->loop, UV_RUN_ONCE);
    return g.body;
}

static void create(struct fixture *f, const char *name, const char *label, const char *file,
                   const char *text)
{
    CODEC_AUTO_JSON json_t *map = json_object();
    codec_json_set_str(map, "apiVersion", "v1");
    codec_json_set_str(map, "kind", "ConfigMap");
    codec_json_set(map, json_string(name), "metadata", "name", NULL);
    if (label)
        codec_json_set(map, json_string(label), "metadata", "labels", "grafana_dashboard", NULL);
    codec_json_set(map, json_string(text), "data", file, NULL);
    struct got g = {0};
    kube_create(f->client, KUBE_CONFIGMAPS, "default", map, on_got, &g);
    while (!g.done)
        uv_run(&f->loop, UV_RUN_ONCE);
    json_decref(g.body);
}

static void test_config_maps_with_the_label_are_listed(void **state)
{
    struct fixture *f = *state;
    create(f, "a", "1", "gpus.json", BOARD);
    create(f, "broken", "1", "b.json", "{\"title\": 3, \"uid\"");
    create(f, "other", NULL, "o.json", BOARD);
    create(f, "text", "1", "notes.txt", "no dashboard");
    const json_t *data = get(f, "");
    assert_int_equal(f->status, 200);
    const json_t *list = json_object_get(data, "dashboards");
    assert_int_equal(json_array_size(list), 2);
    const json_t *a = json_array_get(list, 0);
    assert_string_equal(codec_json_str(a, "namespace", NULL), "default");
    assert_string_equal(codec_json_str(a, "name", NULL), "a");
    assert_string_equal(codec_json_str(a, "file", NULL), "gpus.json");
    assert_string_equal(codec_json_str(a, "title", NULL), "GPUs");
    assert_string_equal(codec_json_str(a, "uid", NULL), "u1");
    assert_false(codec_json_bool(a, true, "imported", NULL));
    assert_null(codec_json_str(json_array_get(list, 1), "title", NULL));
    assert_int_equal(codec_json_int(data, -1, "omitted", NULL), 0);
}

static void test_only_dashboards_are_read(void **state)
{
    struct fixture *f = *state;
    create(f, "a", "1", "gpus.json", BOARD);
    create(f, "secret", NULL, "o.json", BOARD);
    assert_string_equal(
        codec_json_str(get(f, "?namespace=default&name=a&file=gpus.json"), "text", NULL), BOARD);
    static const struct {
        const char *query;
        int status;
    } rows[] = {
        {"?namespace=default&name=a&file=other.json", 404},
        {"?namespace=default&name=secret&file=o.json", 404},
        {"?namespace=default&name=none&file=o.json", 404},
        {"?namespace=default&name=..%2F..&file=o.json", 400},
        {"?namespace=..&name=a&file=gpus.json", 400},
        {"?namespace=default&name=a", 400},
        {"?name=a", 400},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        get(f, rows[i].query);
        assert_int_equal(f->status, rows[i].status);
    }
}

static void test_an_import_is_a_config_map_that_grafana_takes(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(import_as(f, &page, "mine", BOARD, false), 200);
    assert_string_equal(codec_json_str(f->body, "data", "file", NULL), "mine.json");
    CODEC_AUTO_JSON json_t *map = config_map(f, "mine");
    assert_string_equal(codec_json_str(map, "metadata", "labels", "grafana_dashboard", NULL), "1");
    assert_string_equal(codec_json_str(map, "data", "mine.json", NULL), BOARD);
    const json_t *list = json_object_get(get(f, ""), "dashboards");
    assert_true(codec_json_bool(json_array_get(list, 0), false, "imported", NULL));
}

static void test_an_import_replaces_imports_only(void **state)
{
    struct fixture *f = *state;
    create(f, "theirs", "1", "theirs.json", BOARD);
    assert_int_equal(import_as(f, &page, "theirs", "{}", true), 409);
    assert_non_null(strstr(error_of(f), "ConfigMap default/theirs exists and was not imported"));
    assert_int_equal(import_as(f, &page, "mine", BOARD, false), 200);
    assert_int_equal(import_as(f, &page, "mine", "{}", false), 409);
    assert_non_null(strstr(error_of(f), "exists already"));
    assert_int_equal(import_as(f, &page, "mine", "{}", true), 200);
    CODEC_AUTO_JSON json_t *map = config_map(f, "mine");
    assert_string_equal(codec_json_str(map, "data", "mine.json", NULL), "{}");
    CODEC_AUTO_JSON json_t *kept = config_map(f, "theirs");
    assert_string_equal(codec_json_str(kept, "data", "theirs.json", NULL), BOARD);
}

static void test_pages_of_other_sites_write_nothing(void **state)
{
    struct fixture *f = *state;
    static const struct {
        struct writer writer;
        int status;
    } rows[] = {
        {{"127.0.0.1:9090", "http://evil.example", "application/json"}, 403},
        {{"127.0.0.1:9090", "null", "application/json"}, 403},
        {{"127.0.0.1:9090", "http://127.0.0.1:8080", "application/json"}, 403},
        {{"evil.example:9090", "http://evil.example:9090", "application/json"}, 403},
        {{"127.0.0.1.evil.example", NULL, "application/json"}, 403},
        {{"127.0.0.1:9090", "http://127.0.0.1:9090", "text/plain"}, 400},
        {{"[::1]:9090", "http://[::1]:9090", "application/json"}, 200},
        {{"localhost:8081", "http://localhost:8081", "application/json"}, 200},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        GS_AUTO_FREE char *name = gs_format("d%zu", i);
        assert_int_equal(import_as(f, &rows[i].writer, name, BOARD, false), rows[i].status);
        CODEC_AUTO_JSON json_t *map = config_map(f, name);
        assert_int_equal(json_object_get(map, "data") != NULL, rows[i].status == 200);
    }
    send_request(f, &(struct http_request){.method = "OPTIONS", .path = UP_DASHBOARDS_PATH});
    assert_int_equal(f->status, 405);
}

static void test_texts_that_are_no_dashboards_are_refused(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(import_as(f, &page, "x", "[1]", false), 400);
    assert_non_null(strstr(error_of(f), "it must be a JSON object"));
    assert_int_equal(import_as(f, &page, "x", "{\"a\":", false), 400);
    assert_int_equal(import_as(f, &page, "Not a name", BOARD, false), 400);
    size_t n = 1024 * 1024;
    GS_AUTO_FREE char *large = gs_alloc(n + 16);
    memset(large, ' ', n);
    strcpy(large + n, "{}");
    assert_int_equal(import_as(f, &page, "x", large, false), 413);
}

static void test_few_requests_are_in_progress(void **state)
{
    struct fixture *f = *state;
    static const struct http_callbacks cb = {.on_done = on_reply};
    for (size_t i = 0; i < 20; i++)
        http_send(f->peer, &(struct http_request){.path = UP_DASHBOARDS_PATH}, &cb, f);
    while (f->n_ok + f->n_refused < 20)
        uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(f->n_ok, 16);
    get(f, "");
    assert_int_equal(f->status, 200);
}

static void test_a_peer_that_leaves_gets_no_answer(void **state)
{
    struct fixture *f = *state;
    static const struct http_callbacks cb = {.on_done = on_reply};
    struct http_op *op =
        http_send(f->peer, &(struct http_request){.path = UP_DASHBOARDS_PATH}, &cb, f);
    uv_run(&f->loop, UV_RUN_NOWAIT); // the list of ConfigMaps is requested
    http_op_cancel(op);
    get(f, "");
    assert_int_equal(f->n_ok, 1);
    // The end of the program finds this one in progress.
    http_send(f->peer, &(struct http_request){.path = UP_DASHBOARDS_PATH}, &cb, f);
    uv_run(&f->loop, UV_RUN_NOWAIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_config_maps_with_the_label_are_listed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_only_dashboards_are_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_import_is_a_config_map_that_grafana_takes, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_an_import_replaces_imports_only, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pages_of_other_sites_write_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_few_requests_are_in_progress, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_peer_that_leaves_gets_no_answer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_texts_that_are_no_dashboards_are_refused, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
