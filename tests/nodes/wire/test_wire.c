// SPDX-License-Identifier: Apache-2.0
// node.pb and pod.pb are made by Kubernetes' own types from the JSON files (objects.go).
#include "codec/protobuf.h"
#include "unit.h"

#include "base/file.h"
#include "base/mem.h"
#include "kube/proto.h"
#include "nodes/wire/wire.h"

#include <stdlib.h>

typedef struct gs_error *(*read_fn)(struct gs_slice message, json_t **ret);
typedef struct gs_error *(*write_fn)(const json_t *obj, struct gs_buf *out);

static void read_test_file(const char *name, struct gs_buf *ret)
{
    GS_AUTO_FREE char *path =
        gs_format("%s/tests/nodes/wire/%s", getenv("GPUSCALE_SOURCE_ROOT"), name);
    assert_ok(gs_file_read(path, WIRE_MAX_OBJECT, ret));
}

static json_t *read_json(const char *name)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    read_test_file(name, &text);
    json_t *v = json_loadb(text.data, text.len, 0, NULL);
    assert_non_null(v);
    return v;
}

static void expect_equal(const json_t *got, const json_t *want)
{
    GS_AUTO_FREE char *a = json_dumps(got, JSON_SORT_KEYS), *b = json_dumps(want, JSON_SORT_KEYS);
    assert_string_equal(a, b);
}

static void check_object(const char *json, const char *message, read_fn read, write_fn write)
{
    GS_AUTO_BUF struct gs_buf recorded = {0}, written = {0};
    CODEC_AUTO_JSON json_t *want = read_json(json), *got = NULL, *again = NULL;
    read_test_file(message, &recorded);
    assert_ok(read(gs_buf_slice(&recorded), &got));
    expect_equal(got, want);
    assert_ok(write(want, &written));
    assert_ok(read(gs_buf_slice(&written), &again));
    expect_equal(again, want);
}

static void test_messages_of_kubernetes(void **state)
{
    check_object("pod.json", "pod.pb", wire_read_pod, wire_write_pod);
    check_object("node.json", "node.pb", wire_read_node, wire_write_node);
}

static void test_unknown_fields_are_skipped(void **state)
{
    GS_AUTO_BUF struct gs_buf message = {0}, spec = {0};
    CODEC_AUTO_JSON json_t *got = NULL;
    codec_proto_add_bytes(&spec, 5000, GS_SLICE("new"));
    codec_proto_add_bytes(&spec, 10, GS_SLICE("node-1"));
    codec_proto_add_varint(&spec, 5001, UINT64_MAX);
    codec_proto_add_bytes(&message, 2, gs_buf_slice(&spec));
    codec_proto_add_bytes(&message, 77, GS_SLICE("\xff"));
    assert_ok(wire_read_pod(gs_buf_slice(&message), &got));
    CODEC_AUTO_JSON json_t *want = json_pack("{s:s, s:s, s:{s:s}}", "apiVersion", "v1", "kind",
                                             "Pod", "spec", "nodeName", "node-1");
    expect_equal(got, want);
}

static void test_only_what_scheduling_needs_is_read(void **state)
{
    GS_AUTO_BUF struct gs_buf message = {0};
    CODEC_AUTO_JSON json_t *got = NULL, *want = NULL;
    CODEC_AUTO_JSON json_t *pod = json_loads(
        "{\"spec\":{\"volumes\":[{\"name\":\"v\",\"emptyDir\":{\"sizeLimit\":\"1Gi\"}}],"
        "\"containers\":[{\"name\":\"c\",\"command\":[\"sleep\"],\"env\":[{\"name\":\"A\","
        "\"value\":\"secret\"}],\"volumeMounts\":[{\"name\":\"v\",\"mountPath\":\"/v\"}]}]}}",
        0, NULL);
    want = json_loads("{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"spec\":{\"containers\":"
                      "[{\"name\":\"c\"}]}}",
                      0, NULL);
    assert_ok(wire_write_pod(pod, &message));
    assert_non_null(memmem(message.data, message.len, "secret", 6));
    assert_ok(wire_read_pod(gs_buf_slice(&message), &got));
    expect_equal(got, want);
}

static void expect_refusal(struct gs_slice message, enum gs_code code, const char *text)
{
    json_t *got = NULL;
    assert_error(wire_read_pod(message, &got), code, text);
    assert_null(got);
}

static void test_broken_messages(void **state)
{
    GS_AUTO_BUF struct gs_buf recorded = {0}, spec = {0}, many = {0};
    read_test_file("pod.pb", &recorded);
    for (size_t n = 0; n < recorded.len; n++) { // neither crash nor a partial result
        json_t *got = NULL;
        struct gs_error *err = wire_read_pod(gs_slice_make(recorded.data, n), &got);
        assert_true((err == NULL) == (got != NULL));
        gs_error_free(err);
        json_decref(got);
    }
    expect_refusal(GS_SLICE("\x0a\x7f"), GS_EPROTO, "ends in the middle");
    expect_refusal(GS_SLICE("\x0f\x01"), GS_EPROTO, "wire type 7");
    expect_refusal(GS_SLICE("\x08\x01"), GS_EPROTO, "metadata has the wrong wire type");
    expect_refusal(GS_SLICE("\x0a\x03\x0a\x01\xff"), GS_EPROTO, "not UTF-8");
    expect_refusal(GS_SLICE("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), GS_EPROTO, "64 bits");
    GS_AUTO_FREE char *large = gs_alloc(WIRE_MAX_OBJECT + 1);
    expect_refusal(gs_slice_make(large, WIRE_MAX_OBJECT + 1), GS_ELIMIT, "the limit is 2097152");
    for (int i = 0; i <= KUBE_PROTO_MAX_VALUES; i++)
        codec_proto_add_bytes(&spec, 22, (struct gs_slice){0}); // tolerations
    codec_proto_add_bytes(&many, 2, gs_buf_slice(&spec));
    expect_refusal(gs_buf_slice(&many), GS_ELIMIT, "more than 200000 values");
}

static void test_wrong_values_are_not_written(void **state)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    CODEC_AUTO_JSON json_t *node = json_pack("{s:{s:s}}", "spec", "unschedulable", "yes");
    CODEC_AUTO_JSON json_t *pod = json_pack("{s:{s:i}}", "spec", "containers", 1);
    assert_error(wire_write_node(node, &out), GS_EINVAL, "a Node: field unschedulable");
    assert_error(wire_write_pod(pod, &out), GS_EINVAL, "field containers");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_of_kubernetes),
        cmocka_unit_test(test_unknown_fields_are_skipped),
        cmocka_unit_test(test_only_what_scheduling_needs_is_read),
        cmocka_unit_test(test_broken_messages),
        cmocka_unit_test(test_wrong_values_are_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
