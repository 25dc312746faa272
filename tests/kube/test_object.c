// SPDX-License-Identifier: Apache-2.0
#include "kube/kube_private.h"
#include "kube/object.h"
#include "kube/trim.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static json_t *json(const char *text)
{
    json_t *j = NULL;
    struct gs_error *err = codec_json_parse(gs_slice_of(text), true, &j);
    if (err)
        fail_msg("%s: %s", text, gs_error_message(err));
    return j;
}

static void test_accessors(void **state)
{
    CODEC_AUTO_JSON json_t *pod = json(
        "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\",\"namespace\":\"n\","
        "\"uid\":\"u\",\"resourceVersion\":\"7\",\"labels\":{\"l\":\"1\"},\"annotations\":{\"x\":"
        "\"2\"},\"ownerReferences\":[{\"name\":\"no\"},{\"name\":\"yes\",\"controller\":true}]}}");
    assert_string_equal(kube_name(pod), "a");
    assert_string_equal(kube_namespace(pod), "n");
    assert_string_equal(kube_uid(pod), "u");
    assert_string_equal(kube_kind(pod), "Pod");
    assert_string_equal(kube_api_version(pod), "v1");
    assert_string_equal(kube_resource_version(pod), "7");
    assert_string_equal(kube_label(pod, "l"), "1");
    assert_null(kube_label(pod, "m"));
    assert_string_equal(kube_annotation(pod, "x"), "2");
    assert_false(kube_is_deleting(pod));
    assert_string_equal(json_string_value(json_object_get(kube_controller_ref(pod), "name")),
                        "yes");
    GS_AUTO_FREE char *key = kube_key(pod);
    assert_string_equal(key, "n/a");

    CODEC_AUTO_JSON json_t *node = json("{\"metadata\":{\"name\":\"a\",\"namespace\":\"\","
                                        "\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"}}");
    assert_null(kube_namespace(node));
    assert_true(kube_is_deleting(node));
    assert_null(kube_controller_ref(node));
    GS_AUTO_FREE char *node_key = kube_key(node);
    assert_string_equal(node_key, "a");
    assert_null(kube_name(NULL));

    CODEC_AUTO_JSON json_t *ref = kube_make_controller_ref(pod);
    GS_AUTO_BUF struct gs_buf text = {0};
    codec_json_dump(ref, &text);
    assert_string_equal(text.data,
                        "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"a\","
                        "\"uid\":\"u\",\"controller\":true,\"blockOwnerDeletion\":true}");
}

static void test_conditions(void **state)
{
    CODEC_AUTO_JSON json_t *obj = json("{\"status\":{\"conditions\":[]}}");
    json_t *list = json_object_get(json_object_get(obj, "status"), "conditions");
    kube_set_condition(list, "Ready", "False", "A", "first", 0);
    kube_set_condition(list, "Ready", "False", "B", "second", 5000);
    const json_t *ready = kube_condition(obj, "Ready");
    assert_string_equal(json_string_value(json_object_get(ready, "reason")), "B");
    assert_string_equal(json_string_value(json_object_get(ready, "lastTransitionTime")),
                        "1970-01-01T00:00:00Z");
    assert_false(kube_condition_true(obj, "Ready"));
    kube_set_condition(list, "Ready", "True", "C", "third", 9000);
    assert_string_equal(json_string_value(json_object_get(ready, "lastTransitionTime")),
                        "1970-01-01T00:00:09Z");
    assert_true(kube_condition_true(list, "Ready"));
    assert_int_equal(json_array_size(list), 1);
    assert_null(kube_condition(obj, "Other"));
    assert_false(kube_condition_true(obj, "Other"));
}

static void test_trimmed_pods_keep_what_is_read(void **state)
{
    CODEC_AUTO_JSON json_t *pod = NULL, *want = NULL;
    assert_null(codec_json_parse(
        GS_SLICE(
            "{\"metadata\":{\"name\":\"p\",\"labels\":{\"env\":\"x\"},\"managedFields\":[{}]},"
            "\"spec\":{\"nodeName\":\"n\",\"volumes\":[{}],\"containers\":[{\"name\":\"c\",\"env\":"
            "[{}],"
            "\"args\":[\"a\"],\"ports\":[{}],\"resources\":{\"limits\":{}}}],\"tolerations\":[{}]},"
            "\"status\":{\"phase\":\"Running\",\"conditions\":[{\"type\":\"Ready\","
            "\"lastProbeTime\":null}]"
            ",\"containerStatuses\":[{\"name\":\"c\",\"imageID\":\"i\",\"volumeMounts\":[]}]}}"),
        true, &pod));
    assert_null(codec_json_parse(
        GS_SLICE("{\"metadata\":{\"name\":\"p\",\"labels\":{\"env\":\"x\"}},"
                 "\"spec\":{\"nodeName\":\"n\",\"containers\":[{\"name\":\"c\",\"ports\":[{}],"
                 "\"resources\":{\"limits\":{}}}],\"tolerations\":[{}]},"
                 "\"status\":{\"phase\":\"Running\",\"conditions\":[{\"type\":\"Ready\"}],"
                 "\"containerStatuses\":[{\"name\":\"c\",\"imageID\":\"i\"}]}}"),
        true, &want));
    kube_trim_pod(pod);
    assert_true(json_equal(pod, want));
    CODEC_AUTO_JSON json_t *empty = json_object();
    kube_trim_pod(empty); // what a peer sends need not have these members
    kube_trim_node(empty);
    assert_int_equal(json_object_size(empty), 0);
}

static void test_managed_fields_are_cut_of_texts(void **state)
{
    static const struct {
        const char *text, *want; // NULL: as it was
    } cases[] = {
        {"{\"a\":1,\"managedFields\":[{\"manager\":\"m\",\"x\":[1,\"]\"]}],\"b\":2}",
         "{\"a\":1,\"b\":2}"},
        {"{\"managedFields\":[{\"manager\":\"m\"}],\"b\":2}", "{\"b\":2}"},
        {"{\"managedFields\":[{\"manager\":\"m\"}]}", "{}"},
        {"[{\"a\":1,\"managedFields\":[{\"manager\":\"m\"}]},{\"managedFields\":[{\"manager\":"
         "\"n\"}],\"b\":2}]",
         "[{\"a\":1},{\"b\":2}]"},
        {"{\"managedFields\":\"a label\"}", NULL},
        {"{\"a\":\"\\\"managedFields\":[{\\\"manager\\\":1}]\"}", NULL},
        {"{\"managedFields\":[{\"other\":1}]}", NULL},
        {"{\"managedFields\":[{\"manager\":\"m\"", NULL}, // ends early
        {"\"managedFields\":[{\"manager\":\"m\"}]", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_BUF struct gs_buf out = {0};
        bool cut = kube_cut_managed_fields(gs_slice_of(cases[i].text), &out);
        assert_int_equal(cut, cases[i].want != NULL);
        assert_string_equal(cut ? out.data : "", cut ? cases[i].want : "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trimmed_pods_keep_what_is_read),
        cmocka_unit_test(test_managed_fields_are_cut_of_texts),
        cmocka_unit_test(test_accessors),
        cmocka_unit_test(test_conditions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
