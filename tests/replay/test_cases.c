// SPDX-License-Identifier: Apache-2.0
// The decision tables of tests/hpa/cases, and errors in tables.
#include "base/file.h"
#include "base/mem.h"
#include "replay/decision_tables.h"
#include "unit.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static size_t run_file(const char *path)
{
    struct codec_test_report r = {0};
    assert_ok(replay_run_cases(path, NULL, &r));
    for (size_t i = 0; i < r.n_cases; i++)
        for (size_t k = 0; k < r.cases[i].n_failures; k++)
            print_error("%s: %s\n", r.cases[i].name, r.cases[i].failures[k]);
    assert_int_equal(r.n_failed, 0);
    size_t n = r.n_cases;
    codec_test_report_finish(&r);
    return n;
}

static void test_the_tables_hold(void **state)
{
    const char *root = getenv("GPUSCALE_SOURCE_ROOT");
    GS_AUTO_FREE char *dir = gs_format("%s/tests/hpa/cases", root ? root : ".");
    struct dirent **entries;
    int n = scandir(dir, &entries, NULL, alphasort);
    size_t cases = 0;
    assert_true(n > 0);
    for (int i = 0; i < n; i++) {
        GS_AUTO_FREE char *path = gs_format("%s/%s", dir, entries[i]->d_name);
        if (gs_ends(path, ".yaml"))
            cases += run_file(path);
        free(entries[i]);
    }
    free(entries);
    assert_true(cases >= 1000);
    (void)state;
}

struct temp {
    char path[64];
};

static void write_table(struct temp *t, const char *text)
{
    strcpy(t->path, "/tmp/gpuscale-cases-XXXXXX");
    int fd = mkstemp(t->path);
    assert_true(fd >= 0);
    close(fd);
    assert_ok(gs_file_write_atomic(t->path, 0600, gs_slice_of(text)));
}

#define SPEC                                                                                       \
    "spec: {maxReplicas: 9, metrics: [{type: Pods, pods: {metric: {name: q}, "                     \
    "target: {type: AverageValue, averageValue: 10}}}]}\n"

static void test_a_difference_is_told(void **state)
{
    struct temp t;
    struct codec_test_report r = {0};
    write_table(&t,
                "name: good\n" SPEC
                "steps: [{at: 0, scale: 2, pods: 2, metrics: [{samples: [20, 20]}], "
                "expect: {desired: 4}}]\n"
                "---\nname: bad\n" SPEC
                "steps: [{at: 30, scale: 2, pods: 2, metrics: [{samples: [20, 20]}], "
                "expect: {desired: 5, conditions: {ScalingLimited: 'True TooManyReplicas'}}}]\n");
    assert_ok(replay_run_cases(t.path, NULL, &r));
    assert_int_equal(r.n_cases, 2);
    assert_int_equal(r.n_failed, 1);
    assert_int_equal(r.cases[1].n_failures, 2);
    assert_string_equal(r.cases[1].failures[0], "at 30 s: desired: want 5, got 4");
    assert_non_null(strstr(r.cases[1].failures[1], "want: True TooManyReplicas"));
    codec_test_report_finish(&r);
    assert_ok(replay_run_cases(t.path, "oo", &r));
    assert_int_equal(r.n_cases, 1);
    codec_test_report_finish(&r);
    unlink(t.path);
    (void)state;
}

// The only failure of the only case in the file.
static void expect_refusal(const char *text, const char *want)
{
    struct temp t;
    struct codec_test_report r = {0};
    write_table(&t, text);
    assert_ok(replay_run_cases(t.path, NULL, &r));
    assert_int_equal(r.n_cases, 1);
    assert_int_equal(r.n_failed, 1);
    assert_int_equal(r.cases[0].n_failures, 1);
    const char *got = r.cases[0].failures[0];
    if (!gs_starts(got, t.path) || !strstr(got, want))
        fail_msg("want %s\n got %s", want, got);
    codec_test_report_finish(&r);
    unlink(t.path);
}

#define HEAD "name: x\n" SPEC
#define STEP "steps:\n- at: 0\n  scale: 1\n  pods: 1\n  metrics: [{samples: [1]}]\n  "

static void test_a_wrong_case_names_the_place(void **state)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"name: x\nsteps: []\n" SPEC, ": a case needs \"steps\""},
        {HEAD "step: []\n", ":3:7: a case has no field \"step\", did you mean \"steps\"?"},
        {HEAD STEP "expect: {desird: 1}\n",
         ":8:20: a case.steps[0].expect has no field \"desird\", did you mean \"desired\"?"},
        {HEAD "steps: [{at: 0, until: 5}]\n", ":3:24: a step with \"until\" needs \"every\""},
        {HEAD "steps: [{at: 0, scale: 1, pods: 1, metrics: [{samples: [1z]}]}]\n",
         ":3:57: a case.steps[0].metrics[0].samples[0]: \"1z\" is not a quantity"},
        {"- 1\n", ":1:1: a case must be a mapping"},
        {HEAD "steps: [{at: 0, pods: [{phas: Running}]}]\n",
         ":3:31: a case.steps[0].pods[0] has no field \"phas\", did you mean \"phase\"?"},
        {HEAD "steps: [{at: 0, pods: [{phase: Runnig}]}]\n",
         "want Pending or Running or Succeeded or Failed or Unknown, not \"Runnig\""},
        {HEAD "steps: [{at: 0, pods: [{ready: yess}]}]\n", "not \"yess\""},
        {HEAD "steps: [{at: 0, pods: -1}]\n", ":3:23: a case.steps[0].pods: want 0 to 10000"},
        {HEAD "steps: [{at: 0, scale: {sepc: 1}}]\n",
         "has no field \"sepc\", did you mean \"spec\""},
        {HEAD "steps: [{at: 0, scale: 1.5}]\n", "want a whole number without quotes or a mapping"},
        {HEAD "steps: [{at: 0, pods: 1, metrics: [{sample: [1]}]}]\n", "did you mean \"samples\""},
        {HEAD "steps: [{at: 0, pods: 1, metrics: [{samples: [{valu: 1}]}]}]\n", "\"valu\""},
        {HEAD "steps: [{at: 0, pods: 1, metrics: [{samples: [{age: 1}]}]}]\n",
         "a sample needs either \"value\" or \"containers\""},
        {HEAD "steps: [{at: 0, pods: 1, metrics: [{samples: [1]}, {samples: [1]}]}]\n",
         "metrics: 2 entries for the 1 metrics of the spec"},
        {HEAD "steps: [{at: 15s}]\n",
         ":3:14: a case.steps[0].at: want a number of seconds without a unit, such as 60, not "
         "\"15s\""},
        {HEAD "config: {downscaleWindow: 1m}\n" STEP,
         ":3:27: a case.config.downscaleWindow: want a number of seconds"},
        {HEAD "config: {tolerance: 10%}\n" STEP,
         "a case.config.tolerance: want a number such as 0.1, not \"10%\""},
        {HEAD "config: {compat: 1.29}\n" STEP, "a case.config.compat: want a text, not 1.29"},
        {HEAD "config: {compat: \"1.4\"}\n" STEP, ":3:18: config.compat: release \"1.4\""},
        {HEAD STEP "expect: {desired: \"6\"}\n",
         "a case.steps[0].expect.desired: want a whole number without quotes, not \"6\""},
        {HEAD STEP "expect: {conditions: {ScalingActiv: True ValidMetricFound}}\n",
         "did you mean \"ScalingActive\"?"},
        {HEAD STEP "expect: {metrics: [{utilisation: 5}]}\n", "did you mean \"utilization\"?"},
        {HEAD STEP "expect: {metrics: [{average: [1]}]}\n", "want null or a quantity such as 250m"},
        {HEAD STEP "expect: {reason: {contain: x}}\n", "did you mean \"contains\"?"},
        {"name: x\nspec: {minReplicas: 5, maxReplicas: 2}\n" STEP,
         ":2:37: spec.maxReplicas: Invalid value: 2"},
        {"name: x\nspec: {maxReplica: 5}\n" STEP, ":2:20: unknown field \"spec.maxReplica\""},
        {"name: x\nspec: {maxReplicas: \"5\"}\n" STEP, ":2:21: json: cannot unmarshal string"},
        {HEAD "history: {recommendations: [{replicas: 5, ageMs: 3}]}\n" STEP,
         "a case.history.recommendations[0] has no field \"ageMs\""},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++)
        expect_refusal(cases[i].text, cases[i].want);
    (void)state;
}

static void test_a_wrong_row_names_the_place(void **state)
{
    expect_refusal(HEAD "columns: [scale]\nrows: [[1, a, b]]\n", ":4:8: a row has 3 cells for 1");
    expect_refusal(HEAD "columns: [size]\nrows: [[1]]\n", ":3:11: no column is called \"size\"");
    expect_refusal(HEAD "columns: [scale]\nrows: []\n", "that are not empty");
    expect_refusal(HEAD "columns: [scale]\nrows: [[\"1\"]]\n", ":4:9: scale: want a whole number");
    expect_refusal(HEAD "columns: [tolerance]\nrows: [[10%]]\n", "tolerance: want a number");
    expect_refusal(HEAD "columns: [limited]\nrows: [[[x]]]\n", "ScalingLimited: want null, a text");
    expect_refusal(HEAD "columns: [scale]\ngiven: {pod: 1}\nrows: [[1]]\n",
                   "a table.given has no field \"pod\"");
    expect_refusal(HEAD "columns: [min]\nrows: [[20]]\n", "spec.maxReplicas: Invalid value");
    (void)state;
}

static void test_a_file_that_cannot_be_parsed_is_an_error(void **state)
{
    static const struct {
        const char *text, *want;
    } files[] = {
        {"a: [\n", ":2:"},
        {"", "the file has no cases"},
        {"# nothing\n---\n", "the file has no cases"},
        {HEAD "name: y\n", ":3:1: key \"name\" is already set"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(files); i++) {
        struct temp t;
        struct codec_test_report r = {0};
        write_table(&t, files[i].text);
        assert_error(replay_run_cases(t.path, NULL, &r), GS_EINVAL, files[i].want);
        unlink(t.path);
    }
    (void)state;
}

static void test_cases_after_a_malformed_one_are_run(void **state)
{
    struct temp t;
    struct codec_test_report r = {0};
    write_table(&t, "name: bad\n" SPEC "stepss: []\n---\nname: good\n" SPEC
                    "steps: [{at: 0, scale: 2, pods: 2, metrics: [{samples: [20, 20]}], "
                    "expect: {desired: 4}}]\n");
    assert_ok(replay_run_cases(t.path, NULL, &r));
    assert_int_equal(r.n_cases, 2);
    assert_int_equal(r.n_failed, 1);
    assert_int_equal(r.cases[1].n_failures, 0);
    codec_test_report_finish(&r);
    unlink(t.path);
    (void)state;
}

// Every form of `contains` finds what is there and reports what is not; a step's name is shown.
static void test_parts_of_messages_are_compared(void **state)
{
    struct temp t;
    struct codec_test_report r = {0};
    write_table(&t, HEAD
                "steps:\n- {at: 0, name: doubled, scale: 2, pods: 2, write: done,\n"
                "   metrics: [{samples: [20, 20]}], expect: {\n"
                "   reason: {contains: metric q}, explanation: {contains: nowhere},\n"
                "   conditions: {AbleToScale: {status: 'True', reason: SucceededRescale,\n"
                "     message: {contains: scale to 4}}, ScalingActive: {reason: Wrong}},\n"
                "   events: [{reason: SuccessfulRescale, message: {contains: 'size: 4'}}]}}\n");
    assert_ok(replay_run_cases(t.path, NULL, &r));
    assert_int_equal(r.n_cases, 1);
    assert_int_equal(r.cases[0].n_failures, 2);
    assert_non_null(strstr(r.cases[0].failures[0], "at 0 s, doubled: explanation"));
    assert_non_null(strstr(r.cases[0].failures[0], "want: … nowhere"));
    assert_non_null(strstr(r.cases[0].failures[1], "condition ScalingActive"));
    codec_test_report_finish(&r);
    unlink(t.path);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_tables_hold),
        cmocka_unit_test(test_a_difference_is_told),
        cmocka_unit_test(test_a_wrong_case_names_the_place),
        cmocka_unit_test(test_a_wrong_row_names_the_place),
        cmocka_unit_test(test_a_file_that_cannot_be_parsed_is_an_error),
        cmocka_unit_test(test_cases_after_a_malformed_one_are_run),
        cmocka_unit_test(test_parts_of_messages_are_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
