// SPDX-License-Identifier: Apache-2.0
// Conversion, defaulting and validation, with the tables in tests/hpa/objects.
#include "base/mem.h"
#include "codec/yaml.h"
#include "hpa/convert.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void load(const char *file, struct codec_yaml_docs *ret)
{
    const char *root = getenv("GPUSCALE_SOURCE_ROOT");
    GS_AUTO_FREE char *path = gs_format("%s/tests/hpa/objects/%s", root ? root : ".", file);
    struct gs_error *err = codec_yaml_load_file(path, ret);
    if (err)
        fail_msg("%s", gs_error_message(err));
    assert_true(ret->len > 0);
}

static void expect_json(const char *name, const char *what, const json_t *want, const json_t *got)
{
    if (json_equal(want, got))
        return;
    GS_AUTO_BUF struct gs_buf a = {0};
    GS_AUTO_BUF struct gs_buf b = {0};
    codec_json_dump(want, &a);
    codec_json_dump(got, &b);
    fail_msg("%s: %s\n  want: %s\n  got:  %s", name, what, a.data, b.data);
}

static void convert_one(const json_t *doc)
{
    const char *name = codec_json_str(doc, "name", NULL),
               *error = codec_json_str(doc, "error", NULL);
    const json_t *from = json_object_get(doc, "from");
    CODEC_AUTO_JSON json_t *before = json_deep_copy(from);
    CODEC_AUTO_JSON json_t *v2 = NULL;
    GS_AUTO_ERROR struct gs_error *err = hpa_to_v2(from, &v2);
    expect_json(name, "the input", before, from);
    if (error) {
        if (!err || !strstr(gs_error_message(err), error))
            fail_msg("%s: want error %s, got %s", name, error,
                     err ? gs_error_message(err) : "none");
        return;
    }
    if (err)
        fail_msg("%s: %s", name, gs_error_message(err));
    expect_json(name, "v2", json_object_get(doc, "v2"), v2);
    const char *version;
    json_t *want;
    json_object_foreach (json_object_get(doc, "to"), version, want) {
        CODEC_AUTO_JSON json_t *out = NULL;
        GS_AUTO_ERROR struct gs_error *back = hpa_from_v2(v2, version, &out);
        if (back)
            fail_msg("%s: to %s: %s", name, version, gs_error_message(back));
        expect_json(name, version, want, out);
    }
}

static void test_conversions(void **state)
{
    struct codec_yaml_docs docs = {0};
    load("convert.yaml", &docs);
    for (size_t i = 0; i < docs.len; i++)
        convert_one(docs.items[i].value);
    codec_yaml_docs_finish(&docs);
}

// Every version keeps all fields of v2: v1 and v2beta1 use annotations.
static void test_round_trips(void **state)
{
    struct codec_yaml_docs docs = {0};
    load("convert.yaml", &docs);
    for (size_t i = 0; i < docs.len; i++) {
        const json_t *v2 = json_object_get(docs.items[i].value, "v2");
        static const char *const versions[] = {"v1", "v2beta1", "v2"};
        for (size_t v = 0; v2 && v < GS_ARRAY_LEN(versions); v++) {
            CODEC_AUTO_JSON json_t *out = NULL;
            CODEC_AUTO_JSON json_t *back = NULL;
            assert_null(hpa_from_v2(v2, versions[v], &out));
            assert_null(hpa_to_v2(out, &back));
            const json_t *want = codec_json_get(v2, "spec", "behavior", NULL);
            const json_t *got = codec_json_get(back, "spec", "behavior", NULL);
            if (want)
                expect_json(versions[v], "behavior", want, got);
            else
                assert_null(got);
            assert_int_equal(json_array_size(codec_json_get(v2, "spec", "metrics", NULL)),
                             json_array_size(codec_json_get(back, "spec", "metrics", NULL)));
        }
    }
    codec_yaml_docs_finish(&docs);
}

static void test_hostile_shapes(void **state)
{
    static const char *const texts[] = {
        "[]",
        "7",
        "{\"apiVersion\":\"autoscaling/v1\",\"metadata\":7,\"spec\":null,\"status\":null}",
        "{\"apiVersion\":\"autoscaling/v1\",\"metadata\":{\"annotations\":[]},\"spec\":{}}",
        "{\"apiVersion\":\"autoscaling/v2beta1\",\"spec\":{\"metrics\":[null,7,[],{\"type\":7},"
        "{\"type\":\"Pods\",\"pods\":[]},{\"type\":\"Object\",\"object\":{\"target\":7}}]}}",
        "{\"apiVersion\":\"autoscaling/"
        "v2\",\"spec\":{\"metrics\":[null,{\"pods\":{\"target\":[]}}],"
        "\"behavior\":[],\"scaleTargetRef\":7,\"minReplicas\":\"x\"},\"status\":{"
        "\"currentMetrics\":"
        "7,\"conditions\":{}}}",
        "{\"apiVersion\":\"autoscaling/v2\",\"spec\":{\"behavior\":{\"scaleUp\":[],\"scaleDown\":{"
        "\"policies\":{\"a\":1}}}}}",
    };
    static const char *const versions[] = {"v1", "v2beta1", "v2beta2", "v2"};
    for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++) {
        CODEC_AUTO_JSON json_t *in = json_loads(texts[i], JSON_DECODE_ANY, NULL);
        assert_non_null(in);
        CODEC_AUTO_JSON json_t *v2 = NULL;
        GS_AUTO_ERROR struct gs_error *err = hpa_to_v2(in, &v2);
        if (err)
            continue;
        struct kube_field_errors errors = {0};
        hpa_validate(v2, &errors);
        kube_field_errors_finish(&errors);
        hpa_default(v2);
        for (size_t v = 0; v < GS_ARRAY_LEN(versions); v++) {
            CODEC_AUTO_JSON json_t *out = NULL;
            gs_error_free(hpa_from_v2(v2, versions[v], &out));
        }
    }
}

static void test_defaults(void **state)
{
    struct codec_yaml_docs docs = {0};
    load("default.yaml", &docs);
    for (size_t i = 0; i < docs.len; i++) {
        const json_t *doc = docs.items[i].value;
        CODEC_AUTO_JSON json_t *object = json_pack("{s:O}", "spec", json_object_get(doc, "spec"));
        hpa_default(object);
        expect_json(codec_json_str(doc, "name", NULL), "spec", json_object_get(doc, "defaulted"),
                    json_object_get(object, "spec"));
    }
    codec_yaml_docs_finish(&docs);
}

static void check_errors(const char *name, const json_t *want, const struct kube_field_errors *got)
{
    size_t n = json_array_size(got->causes);
    for (size_t i = 0; i < json_array_size(want) || i < n; i++) {
        const json_t *cause = json_array_get(got->causes, i);
        GS_AUTO_FREE char *text = cause ? gs_format("%s: %s", codec_json_str(cause, "field", NULL),
                                                    codec_json_str(cause, "message", NULL))
                                        : gs_strdup("(none)");
        const char *expected = json_string_value(json_array_get(want, i));
        if (!expected || strcmp(expected, text) != 0)
            fail_msg("%s: error %zu\n  want: %s\n  got:  %s", name, i,
                     expected ? expected : "(none)", text);
    }
}

static void test_validation(void **state)
{
    struct codec_yaml_docs docs = {0};
    load("validate.yaml", &docs);
    for (size_t i = 0; i < docs.len; i++) {
        const json_t *doc = docs.items[i].value;
        CODEC_AUTO_JSON json_t *object =
            json_pack("{s:o}", "spec", json_deep_copy(json_object_get(doc, "spec")));
        if (!codec_json_get(object, "spec", "scaleTargetRef", NULL))
            codec_json_set(object,
                           json_pack("{s:s, s:s, s:s}", "apiVersion", "apps/v1", "kind",
                                     "Deployment", "name", "web"),
                           "spec", "scaleTargetRef", NULL);
        struct kube_field_errors errors = {0};
        hpa_validate(object, &errors);
        check_errors(codec_json_str(doc, "name", NULL), json_object_get(doc, "errors"), &errors);
        kube_field_errors_finish(&errors);
    }
    codec_yaml_docs_finish(&docs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conversions),    cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_hostile_shapes), cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_validation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
