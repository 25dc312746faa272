// SPDX-License-Identifier: Apache-2.0
// The table pods.yaml: pods that do not run, and why.
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "codec/yaml.h"
#include "diagnosis/diagnosis.h"
#include "kube/patch.h"

#include <stdlib.h>

static json_t *load_table(void)
{
    GS_CLEANUP(codec_yaml_docs_finish) struct codec_yaml_docs docs = {0};
    GS_AUTO_FREE char *path =
        gs_format("%s/tests/diagnosis/pods.yaml", getenv("GPUSCALE_SOURCE_ROOT"));
    assert_ok(codec_yaml_load_file(path, &docs));
    return json_incref(docs.items[0].value);
}

static int64_t time_of(const json_t *facts, const char *name)
{
    int64_t ms = 0;
    assert_ok(gs_parse_rfc3339(gs_slice_of(codec_json_str(facts, name, NULL)), &ms));
    return ms;
}

static void add_status(json_t *pod, const char *list, const char *name, const json_t *status)
{
    if (!status)
        return;
    json_t *s = json_deep_copy(status);
    codec_json_set_str(s, "name", name);
    if (!json_object_get(s, "image"))
        codec_json_set_str(s, "image", "api:1");
    codec_json_set(pod, json_pack("[o]", s), "status", list, NULL);
}

static json_t *pod_of(const json_t *facts, const json_t *c)
{
    const char *message = codec_json_str(c, "unschedulable", NULL);
    json_t *pod = NULL;
    assert_ok(kube_patch_merge(json_object_get(facts, "pod"), json_object_get(c, "pod"), &pod));
    add_status(pod, "containerStatuses", "c", json_object_get(c, "status"));
    add_status(pod, "initContainerStatuses", "i", json_object_get(c, "init"));
    if (message)
        codec_json_set(pod,
                       json_pack("[{s:s, s:s, s:s, s:s}]", "type", "PodScheduled", "status",
                                 "False", "reason", "Unschedulable", "message", message),
                       "status", "conditions", NULL);
    return pod;
}

// The word "pool" stands for the pool of the facts.
static json_t *pools_of(const json_t *facts, const json_t *c)
{
    const json_t *names = codec_json_get(c, "cluster", "pools", NULL);
    json_t *out = names ? json_array() : NULL;
    for (size_t i = 0; i < json_array_size(names); i++)
        json_array_append(out, json_object_get(facts, "pool"));
    return out;
}

static const char *last_line(void *arg, const json_t *pod, const json_t *status)
{
    (void)pod;
    (void)status;
    const char *line = codec_json_str(arg, "line", NULL);
    return line ? line : "";
}

static bool contains(const char *text, const char *part)
{
    return !part || strstr(text, part);
}

static bool check_case(const json_t *facts, json_t *c)
{
    const json_t *cluster = json_object_get(c, "cluster");
    const json_t *nodes = json_object_get(cluster, "nodes");
    CODEC_AUTO_JSON json_t *pod = pod_of(facts, c), *pools = pools_of(facts, c);
    const struct diagnosis_input in = {
        .pod = pod,
        .events = json_object_get(c, "events"),
        .nodes = nodes ? nodes : json_object_get(facts, "nodes"),
        .pods = json_object_get(cluster, "pods"),
        .pools = pools,
        .last_line = last_line,
        .arg = c,
        .now_ms = time_of(facts, "now"),
        .start_ms = time_of(facts, "start"),
    };
    DIAGNOSIS_AUTO struct diagnosis d = {0};
    const char *want = codec_json_str(c, "cause", NULL), *not = codec_json_str(c, "not", NULL);
    const char *reason = codec_json_str(c, "reason", NULL);
    bool found = diagnosis_of(&in, &d);
    const char *cause = found ? diagnosis_cause_name(d.cause) : "none";
    if (gs_streq(cause, want) && (!found || (*d.text && *d.remedy && d.identity)) &&
        (!reason || gs_streq(d.reason, reason)) &&
        contains(d.text, codec_json_str(c, "text", NULL)) &&
        contains(d.remedy, codec_json_str(c, "remedy", NULL)) && (!not || !strstr(d.remedy, not )))
        return true;
    print_error("%s: %s %s\n  text: %s\n  remedy: %s\n", codec_json_str(c, "name", NULL), cause,
                found ? d.reason : "", found ? d.text : "", found ? d.remedy : "");
    return false;
}

static void test_each_pod_has_its_cause_and_remedy(void **state)
{
    CODEC_AUTO_JSON json_t *table = load_table();
    const json_t *facts = json_object_get(table, "facts");
    size_t i, bad = 0;
    json_t *c;
    (void)state;
    json_array_foreach (json_object_get(table, "cases"), i, c)
        bad += !check_case(facts, c);
    assert_int_equal(bad, 0);
    assert_true(i >= 50);
}

static void test_each_cause_is_in_the_table(void **state)
{
    CODEC_AUTO_JSON json_t *table = load_table();
    (void)state;
    for (enum diagnosis_cause cause = 0; cause < DIAGNOSIS_OTHER; cause++) {
        bool found = false;
        size_t i;
        json_t *c;
        json_array_foreach (json_object_get(table, "cases"), i, c)
            found =
                found || gs_streq(codec_json_str(c, "cause", NULL), diagnosis_cause_name(cause));
        if (!found)
            fail_msg("no case has the cause %s", diagnosis_cause_name(cause));
    }
}

static void test_each_refusal_has_its_remedy(void **state)
{
    CODEC_AUTO_JSON json_t *table = load_table();
    size_t i;
    json_t *c;
    (void)state;
    json_array_foreach (json_object_get(table, "refusals"), i, c) {
        const char *message = codec_json_str(c, "message", NULL);
        GS_AUTO_FREE char *remedy = diagnosis_of_refusal(message, "ml", "replicaset web-6f");
        if (!strstr(remedy, codec_json_str(c, "remedy", NULL)))
            fail_msg("%s: %s", message, remedy);
    }
}

static void test_long_messages_are_cut(void **state)
{
    CODEC_AUTO_JSON json_t *table = load_table();
    GS_AUTO_BUF struct gs_buf message = {0};
    (void)state;
    for (int i = 0; i < 500; i++)
        gs_buf_add_str(&message, "Größe\n");
    CODEC_AUTO_JSON json_t *c = json_pack(
        "{s:{s:{s:s}}, s:{s:{s:{s:s, s:s}}}}", "pod", "spec", "nodeName", "gpu-a", "status",
        "state", "waiting", "reason", "CreateContainerError", "message", message.data);
    CODEC_AUTO_JSON json_t *pod = pod_of(json_object_get(table, "facts"), c);
    const struct diagnosis_input in = {.pod = pod, .now_ms = 1};
    DIAGNOSIS_AUTO struct diagnosis d = {0};
    assert_true(diagnosis_of(&in, &d));
    assert_true(strlen(d.text) < 500);
    assert_null(strchr(d.text, '\n'));
    assert_non_null(strstr(d.text, "…"));
}

static void test_the_last_log_line_is_printable(void **state)
{
    (void)state;
    GS_AUTO_FREE char *line =
        diagnosis_last_log_line(gs_slice_of("first\nValueError: \033[1mno\n\n"));
    assert_string_equal(line, "ValueError:  [1mno");
    GS_AUTO_FREE char *none = diagnosis_last_log_line((struct gs_slice){NULL, 0});
    assert_string_equal(none, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_pod_has_its_cause_and_remedy),
        cmocka_unit_test(test_each_cause_is_in_the_table),
        cmocka_unit_test(test_each_refusal_has_its_remedy),
        cmocka_unit_test(test_long_messages_are_cut),
        cmocka_unit_test(test_the_last_log_line_is_printable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
