// SPDX-License-Identifier: Apache-2.0
// Manifests with autoscalers of several API versions and other objects.
#include "unit.h"

#include "base/file.h"
#include "base/mem.h"
#include "hpa/convert.h"

#include <stdlib.h>
#include <unistd.h>

#define OLD                                                                                        \
    "apiVersion: autoscaling/v1\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\n"           \
    "spec:\n"                                                                                      \
    "  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n"                       \
    "  maxReplicas: 10\n  targetCPUUtilizationPercentage: 50\n"
#define OTHER "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other}\n"

static struct gs_error *convert(const char *text, const char *version, json_t **ret)
{
    char path[] = "/tmp/gpuscale-convert-XXXXXX";
    const char *const paths[] = {path};
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_ok(gs_file_write_atomic(path, 0600, gs_slice_of(text)));
    struct gs_error *err = hpa_convert_files(paths, 1, version, ret);
    unlink(path);
    return err;
}

static void test_one_object_is_not_a_list(void **state)
{
    CODEC_AUTO_JSON json_t *out = NULL;
    assert_ok(convert(OLD, "v2", &out));
    assert_string_equal(codec_json_str(out, "apiVersion", NULL), "autoscaling/v2");
    assert_int_equal(json_array_size(codec_json_get(out, "spec", "metrics", NULL)), 1);
    assert_null(json_object_get(out, "status"));
}

static void test_other_objects_stay(void **state)
{
    CODEC_AUTO_JSON json_t *out = NULL;
    assert_ok(convert(OLD "---\n" OTHER, "v2beta2", &out));
    const json_t *items = json_object_get(out, "items");
    assert_string_equal(codec_json_str(out, "kind", NULL), "List");
    assert_int_equal(json_array_size(items), 2);
    assert_string_equal(codec_json_str(json_array_get(items, 0), "apiVersion", NULL),
                        "autoscaling/v2beta2");
    assert_string_equal(codec_json_str(json_array_get(items, 1), "kind", NULL), "ConfigMap");
}

static void test_objects_of_a_list_are_converted(void **state)
{
    CODEC_AUTO_JSON json_t *out = NULL;
    assert_ok(convert("apiVersion: v1\nkind: List\nitems:\n"
                      "- {apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: "
                      "{name: a}, spec: {maxReplicas: 3}}\n",
                      "v2", &out));
    assert_string_equal(codec_json_str(out, "apiVersion", NULL), "autoscaling/v2");
}

static void test_errors_name_the_place(void **state)
{
    json_t *out = NULL;
    struct gs_error *err = convert(OLD, "v3", &out);
    assert_non_null(strstr(gs_error_message(err), "want v2, v1, v2beta2 or v2beta1"));
    gs_error_free(err);
    err = convert(OTHER "---\napiVersion: autoscaling/v9\nkind: HorizontalPodAutoscaler\n"
                        "metadata: {name: web}\n",
                  "v2", &out);
    assert_non_null(err);
    assert_non_null(strstr(gs_error_message(err), ":5: HorizontalPodAutoscaler web"));
    gs_error_free(err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_object_is_not_a_list),
        cmocka_unit_test(test_other_objects_stay),
        cmocka_unit_test(test_objects_of_a_list_are_converted),
        cmocka_unit_test(test_errors_name_the_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
