// SPDX-License-Identifier: Apache-2.0
// /api/v1/openapi.yaml describes what the API serves.
#include "codec/yaml.h"
#include "engine/api/api_private.h"
#include "harness.h"

static int setup_parts(void **state)
{
    static struct scrape_manager scrapes;
    static struct rules_manager rules;
    return setup_with(state, &(struct engine_api_config){.scrapes = &scrapes, .rules = &rules});
}

static json_t *read_document(struct harness *h, const char *path)
{
    struct codec_yaml_docs docs = {0};
    get(h, path);
    assert_int_equal(h->status, 200);
    assert_ok(codec_yaml_parse(gs_buf_slice(&h->body), "openapi.yaml", &docs));
    assert_int_equal(docs.len, 1);
    json_t *document = json_incref(docs.items[0].value);
    codec_yaml_docs_finish(&docs);
    return document;
}

static const char *example(const char *parameter)
{
    static const char *const examples[][2] = {
        {"query", "temperature"},
        {"match[]", "temperature"},
        {"start", "0"},
        {"end", "100"},
        {"step", "50"},
        {"scrapePool", "a"},
        {"labels", "{\"a\":\"b\"}"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(examples); i++)
        if (gs_streq(examples[i][0], parameter))
            return examples[i][1];
    fail_msg("no example of %s", parameter);
    return NULL;
}

static void add_parameter(struct gs_buf *out, const char *name)
{
    gs_buf_addf(out, "%s%s=", out->len ? "&" : "", name);
    http_encode(gs_slice_of(example(name)), out);
}

static void assert_type(struct harness *h, const char *method, const char *path,
                        const json_t *operation)
{
    const char *schema = codec_json_str(operation, "responses", "200", "content",
                                        "application/json", "schema", "$ref", NULL);
    if (h->status != 200 || !schema)
        return;
    json_t *body = NULL;
    assert_ok(codec_json_parse(gs_buf_slice(&h->body), true, &body));
    json_type want = gs_ends(schema, "/List")     ? JSON_ARRAY
                     : gs_ends(schema, "/String") ? JSON_STRING
                                                  : JSON_OBJECT;
    const json_t *data = json_object_get(body, "data");
    if (!data || json_typeof(data) != want)
        fail_msg("%s %s is not a %s: %s", method, path, schema, h->body.data);
    json_decref(body);
}

static void try_operation(struct harness *h, const char *method, const char *template,
                          const json_t *operation)
{
    const char *name = strstr(template, "{name}"), *key;
    GS_AUTO_FREE char *path =
        name ? gs_format("%.*sgpu%s", (int)(name - template), template, name + strlen("{name}"))
             : gs_strdup(template);
    GS_AUTO_BUF struct gs_buf query = {0}, form = {0};
    json_t *p;
    size_t i;
    json_array_foreach (json_object_get(operation, "parameters"), i, p)
        if (codec_json_bool(p, false, "required", NULL) &&
            gs_streq(codec_json_str(p, "in", NULL), "query"))
            add_parameter(&query, codec_json_str(p, "name", NULL));
    const json_t *schema = codec_json_get(operation, "requestBody", "content",
                                          "application/x-www-form-urlencoded", "schema", NULL);
    json_array_foreach (json_object_get(schema, "required"), i, p)
        add_parameter(&form, json_string_value(p));
    json_object_foreach (json_object_get(schema, "properties"), key, p)
        assert_non_null(codec_json_str(p, "type", NULL));
    GS_AUTO_FREE char *full =
        gs_format("%s%s%s", path, query.len ? "?" : "", query.data ? query.data : "");
    send_request(h, method, full, form.data);
    bool empty =
        codec_json_get(operation, "requestBody", "content", "application/x-protobuf", NULL);
    bool unknown_pool = strstr(h->body.data, "scrape pool \\\"a\\\" not found");
    if ((h->status == 400 && !unknown_pool && !empty) || h->status == 405 ||
        strstr(h->body.data, "404 page not found"))
        fail_msg("%s %s: %d %s", method, full, h->status, h->body.data);
    assert_type(h, method, full, operation);
}

static void test_each_operation_answers(void **state)
{
    static const char *const methods[][2] = {{"get", "GET"}, {"post", "POST"}, {"put", "PUT"}};
    struct harness *h = *state;
    CODEC_AUTO_JSON json_t *document = read_document(h, "/api/v1/openapi.yaml");
    CODEC_AUTO_JSON json_t *ids = json_object();
    json_t *item;
    const char *path;
    size_t n = 0;
    json_object_foreach (json_object_get(document, "paths"), path, item)
        for (size_t i = 0; i < GS_ARRAY_LEN(methods); i++) {
            const json_t *operation = json_object_get(item, methods[i][0]);
            const char *id = codec_json_str(operation, "operationId", NULL);
            if (!operation)
                continue;
            if (json_object_get(ids, id))
                fail_msg("the operationId %s is repeated", id);
            codec_json_set_bool(ids, id, true);
            try_operation(h, methods[i][1], path, operation);
            n++;
        }
    assert_true(n > 40);
}

static bool is_off(struct harness *h, size_t route, const char *path)
{
    send_request(h, engine_api_route_takes(route, "GET") ? "GET" : "POST", path, "");
    return strstr(h->body.data, " disabled\"");
}

static void test_each_path_is_described(void **state)
{
    struct harness *h = *state;
    CODEC_AUTO_JSON json_t *document = read_document(h, "/api/v1/openapi.yaml");
    const json_t *paths = json_object_get(document, "paths");
    const char *path;
    size_t n = 0;
    for (size_t i = 0; (path = engine_api_route_path(i)); i++) {
        if (gs_streq(path, "/*")) // of requests without a route
            continue;
        bool described = json_object_get(
            paths, gs_streq(path, "/api/v1/label/*/values") ? "/api/v1/label/{name}/values" : path);
        if (described == is_off(h, i, path))
            fail_msg("%s is %s", path, described ? "off" : "not described");
        n += described;
    }
    assert_int_equal(json_object_size(paths), n);
}

static void test_version_and_server(void **state)
{
    struct harness *h = *state;
    CODEC_AUTO_JSON json_t *first = read_document(h, "/api/v1/openapi.yaml?openapi_version=x");
    CODEC_AUTO_JSON json_t *second = read_document(h, "/api/v1/openapi.yaml?openapi_version=3.2");
    assert_string_equal(codec_json_str(first, "openapi", NULL), "3.1.0");
    assert_string_equal(codec_json_str(second, "openapi", NULL), "3.2.0");
    assert_string_equal(
        codec_json_str(json_array_get(json_object_get(first, "servers"), 0), "url", NULL), "/");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_operation_answers, setup_parts, teardown),
        cmocka_unit_test_setup_teardown(test_each_path_is_described, setup_parts, teardown),
        cmocka_unit_test_setup_teardown(test_version_and_server, setup_parts, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
