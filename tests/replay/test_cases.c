// SPDX-License-Identifier: Apache-2.0
// The decision tables of tests/hpa/cases, and what wrong tables give.
#include "base/file.h"
#include "base/mem.h"
#include "replay/decisions.h"
#include "unit.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

static size_t run_file(const char *path)
{
    struct replay_case_results r = {0};
    assert_ok(replay_run_cases(path, NULL, &r));
    for (size_t i = 0; i < r.n; i++)
        for (size_t k = 0; k < r.items[i].n_failures; k++)
            print_error("%s: %s\n", r.items[i].name, r.items[i].failures[k]);
    assert_int_equal(r.n_failed, 0);
    size_t n = r.n;
    replay_case_results_finish(&r);
    return n;
}

static void the_tables_hold(void **state)
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

static void a_difference_is_told(void **state)
{
    struct temp t;
    struct replay_case_results r = {0};
    write_table(&t,
                "name: good\n" SPEC
                "steps: [{at: 0, scale: 2, pods: 2, metrics: [{samples: [20, 20]}], "
                "expect: {desired: 4}}]\n"
                "---\nname: bad\n" SPEC
                "steps: [{at: 30, scale: 2, pods: 2, metrics: [{samples: [20, 20]}], "
                "expect: {desired: 5, conditions: {ScalingLimited: 'True TooManyReplicas'}}}]\n");
    assert_ok(replay_run_cases(t.path, NULL, &r));
    assert_int_equal(r.n, 2);
    assert_int_equal(r.n_failed, 1);
    assert_int_equal(r.items[1].n_failures, 2);
    assert_string_equal(r.items[1].failures[0], "at 30 s: desired: want 5, got 4");
    assert_non_null(strstr(r.items[1].failures[1], "want: True TooManyReplicas"));
    replay_case_results_finish(&r);
    assert_ok(replay_run_cases(t.path, "oo", &r));
    assert_int_equal(r.n, 1);
    replay_case_results_finish(&r);
    unlink(t.path);
    (void)state;
}

static void a_wrong_table_names_the_place(void **state)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"name: x\nsteps: []\n" SPEC, "1 x: a case needs \"steps\""},
        {"name: x\n" SPEC "step: []\n", "a case has no field \"step\""},
        {"name: x\n" SPEC "steps: [{at: 0, expect: {desird: 1}}]\n",
         "expect has no field \"desird\""},
        {"name: x\n" SPEC "steps: [{at: 0, until: 5}]\n", "needs \"every\""},
        {"name: x\n" SPEC "steps: [{at: 0, scale: 1, pods: 1, metrics: [{samples: [1z]}]}]\n",
         "quantity \"1z\""},
        {"- 1\n", "a case must be a mapping"},
        {"name: x\n" SPEC "columns: [scale]\nrows: [[1, a, b]]\n", "a row has 3 cells for 1"},
        {"name: x\n" SPEC "columns: [size]\nrows: [[1]]\n", "no column is called \"size\""},
        {"name: x\n" SPEC "config: {compat: \"1.4\"}\nsteps: [{at: 0}]\n",
         "release \"1.4\": want 1.20 to 1.38"},
        {"a: [\n", ":"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        struct temp t;
        struct replay_case_results r = {0};
        write_table(&t, cases[i].text);
        assert_error(replay_run_cases(t.path, NULL, &r), GS_EINVAL, cases[i].want);
        replay_case_results_finish(&r);
        unlink(t.path);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tables_hold),
        cmocka_unit_test(a_difference_is_told),
        cmocka_unit_test(a_wrong_table_names_the_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
