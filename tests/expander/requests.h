// SPDX-License-Identifier: Apache-2.0
// Requests as the Cluster Autoscaler's releases write them.
#pragma once

#include "base/mem.h"
#include "codec/protobuf.h"
#include "nodes/wire/wire.h"
#include "unit.h"

// A release writes fields for messages (up to 1.33), for bytes (from 1.35), or both (1.34).
enum release { RELEASE_1_33 = 1, RELEASE_1_35 = 2, RELEASE_1_34 = 3 };

struct requested {
    const char *group;
    int nodes;
    int gpus_per_node;
    const char *label_key, *label_value; // of the template; NULL: none
    const json_t *const *pods;
    size_t n_pods;
};

static inline json_t *make_pod(const char *name, int gpus)
{
    GS_AUTO_FREE char *text =
        gs_format("{\"metadata\":{\"name\":\"%s\",\"namespace\":\"default\",\"uid\":\"%s-uid\"},"
                  "\"spec\":{\"containers\":[{\"name\":\"c\",\"resources\":{\"requests\":{\"cpu\":"
                  "\"1\",\"nvidia.com/gpu\":\"%d\"},\"limits\":{\"nvidia.com/gpu\":\"%d\"}}}]}}",
                  name, name, gpus, gpus);
    json_t *pod = json_loads(text, 0, NULL);
    assert_non_null(pod);
    return pod;
}

static inline json_t *make_template(const struct requested *r)
{
    GS_AUTO_FREE char *text = gs_format(
        "{\"metadata\":{\"name\":\"template-%s\"},\"status\":{"
        "\"capacity\":{\"cpu\":\"16\",\"memory\":\"64Gi\",\"pods\":\"110\",\"nvidia.com/gpu\":"
        "\"%d\"},\"allocatable\":{\"cpu\":\"16\",\"memory\":\"64Gi\",\"pods\":\"110\","
        "\"nvidia.com/gpu\":\"%d\"},\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}",
        r->group, r->gpus_per_node, r->gpus_per_node);
    json_t *node = json_loads(text, 0, NULL);
    assert_non_null(node);
    if (r->label_key)
        codec_json_set(node, json_string(r->label_value), "metadata", "labels", r->label_key, NULL);
    return node;
}

static inline void add_template(struct gs_buf *out, uint64_t field, const struct requested *r)
{
    GS_AUTO_BUF struct gs_buf node = {0}, entry = {0};
    CODEC_AUTO_JSON json_t *template = make_template(r);
    assert_ok(wire_write_node(template, &node));
    codec_proto_add_bytes(&entry, 1, gs_slice_of(r->group));
    codec_proto_add_bytes(&entry, 2, gs_buf_slice(&node));
    codec_proto_add_bytes(out, field, gs_buf_slice(&entry));
}

static inline void add_option(struct gs_buf *out, enum release release, const struct requested *r)
{
    GS_AUTO_BUF struct gs_buf option = {0};
    codec_proto_add_bytes(&option, 1, gs_slice_of(r->group));
    codec_proto_add_varint(&option, 2, (uint64_t)r->nodes);
    codec_proto_add_bytes(&option, 3, GS_SLICE("debug"));
    for (uint64_t field = 4; field <= 5; field++)
        for (size_t i = 0; i < r->n_pods && (release & (field - 3)); i++) {
            GS_AUTO_BUF struct gs_buf pod = {0};
            assert_ok(wire_write_pod(r->pods[i], &pod));
            codec_proto_add_bytes(&option, field, gs_buf_slice(&pod));
        }
    codec_proto_add_bytes(out, 1, gs_buf_slice(&option));
}

static inline void make_request(enum release release, const struct requested *options, size_t n,
                                struct gs_buf *out)
{
    for (size_t i = 0; i < n; i++)
        add_option(out, release, &options[i]);
    for (uint64_t field = 2; field <= 3; field++)
        for (size_t i = 0; i < n && (release & (field - 1)); i++)
            add_template(out, field, &options[i]);
}

// The IDs in an answer, each followed by ";".
static inline void read_answer(struct gs_slice answer, struct gs_buf *ret)
{
    while (answer.len) {
        struct codec_proto_token option, field;
        assert_ok(codec_proto_next(&answer, &option));
        assert_int_equal(option.number, 1);
        while (option.bytes.len) {
            assert_ok(codec_proto_next(&option.bytes, &field));
            if (field.number == 1) {
                gs_buf_add_slice(ret, field.bytes);
                gs_buf_add_char(ret, ';');
            }
        }
    }
}
