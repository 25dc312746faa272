// SPDX-License-Identifier: Apache-2.0
// Nodes and pods from short YAML.
#pragma once

#include "unit.h"

#include "base/mem.h"
#include "codec/yaml.h"
#include "nodes/scheduling.h"

static inline json_t *yaml(const char *text)
{
    struct codec_yaml_docs docs = {0};
    assert_ok(codec_yaml_parse(gs_slice_of(text), "test", &docs));
    json_t *value = json_incref(docs.items[0].value);
    codec_yaml_docs_finish(&docs);
    return value;
}

// allocatable: "cpu: 8, memory: 32Gi"; more: further fields after status, or "".
static inline json_t *make_node(const char *name, const char *allocatable, const char *labels,
                                const char *spec)
{
    GS_AUTO_FREE char *text = gs_format(
        "{metadata: {name: '%s', labels: {kubernetes.io/hostname: '%s' %s}}, spec: {%s}, status: "
        "{allocatable: {%s %s}, conditions: [{type: Ready, status: 'True'}]}}",
        name, name, labels, spec, strstr(allocatable, "pods") ? "" : "pods: '110',", allocatable);
    return yaml(text);
}

static inline size_t add_node(struct nodes_snapshot *s, const char *name, const char *allocatable,
                              const char *labels, const char *spec)
{
    json_t *node = make_node(name, allocatable, labels, spec);
    size_t index = nodes_snapshot_add_node(s, node);
    json_decref(node);
    return index;
}

// requests: "cpu: 1"; spec: further fields, each with a comma before it.
static inline size_t add_pod(struct nodes_snapshot *s, const char *name, const char *labels,
                             const char *requests, const char *spec)
{
    GS_AUTO_FREE char *text = gs_format(
        "{metadata: {name: '%s', namespace: default, labels: {%s}}, spec: {containers: [{name: c, "
        "resources: {requests: {%s}}}] %s}}",
        name, labels, requests, spec);
    json_t *pod = yaml(text);
    size_t index = nodes_snapshot_add_pod(s, pod);
    json_decref(pod);
    return index;
}

// The text of a failure on all nodes; "fits" if one fits. Caller frees.
static inline char *why(struct nodes_snapshot *s, size_t pod)
{
    struct nodes_reasons r = {0};
    size_t node = nodes_best(s, pod, NODES_FIRST, &r);
    char *text = node == NODES_NONE ? nodes_reasons_text(nodes_count(s), &r) : gs_strdup("fits");
    nodes_reasons_finish(&r);
    return text;
}

#define assert_why(s, pod, expected)                                                               \
    do {                                                                                           \
        GS_AUTO_FREE char *why_text_ = why(s, pod);                                                \
        assert_string_equal(why_text_, expected);                                                  \
    } while (0)
