// SPDX-License-Identifier: Apache-2.0
// The cases of tests/nodes/cases, and errors in cases.
#include "base/file.h"
#include "base/mem.h"
#include "replay/node_tables.h"
#include "unit.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

static size_t run_file(const char *path)
{
    struct codec_test_report r = {0};
    assert_ok(replay_run_node_cases(path, NULL, &r));
    for (size_t i = 0; i < r.n_cases; i++)
        for (size_t k = 0; k < r.cases[i].n_failures; k++)
            print_error("%s: %s\n", r.cases[i].name, r.cases[i].failures[k]);
    assert_int_equal(r.n_failed, 0);
    size_t n = r.n_cases;
    codec_test_report_finish(&r);
    return n;
}

static void test_the_cases_hold(void **state)
{
    const char *root = getenv("GPUSCALE_SOURCE_ROOT");
    GS_AUTO_FREE char *dir = gs_format("%s/tests/nodes/cases", root ? root : ".");
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
    assert_true(cases >= 200);
    (void)state;
}

static void run_text(const char *text, const char *only, struct codec_test_report *ret)
{
    char path[] = "/tmp/gpuscale-cases-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_ok(gs_file_write_atomic(path, 0600, gs_slice_of(text)));
    assert_ok(replay_run_node_cases(path, only, ret));
    unlink(path);
}

// The failures of the only case, in one text. Caller frees.
static char *failures_of(const char *text)
{
    struct codec_test_report r = {0};
    GS_AUTO_BUF struct gs_buf all = {0};
    run_text(text, NULL, &r);
    assert_int_equal(r.n_cases, 1);
    gs_buf_add_str(&all, "");
    for (size_t i = 0; i < r.cases[0].n_failures; i++)
        gs_buf_addf(&all, "%s\n", r.cases[0].failures[i]);
    codec_test_report_finish(&r);
    return all.data ? gs_buf_take(&all) : gs_strdup("");
}

#define POOL "name: x\npools: [{name: g, max: 4, machine: {cpu: 16, memory: 64Gi, gpus: 4}}]\n"
#define IDLE POOL "nodes: [{name: a, pool: g, unneeded: 20m}]\n"

static void test_a_difference_is_told(void **state)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {IDLE "expect: {removals: [a]}\n", ""},
        {IDLE "expect: {}\n", "removals\n  want: \n  got:  a"},
        {IDLE "expect: {removals: [a, b]}\n", "removals\n  want: a, b\n  got:  a"},
        {IDLE "expect: {drains: [a]}\n", "drains\n  want: a\n  got:  "},
        {IDLE "expect: {removals: [a], orders: [1 of g for p]}\n", "want: 1 of g for p\n  got:  "},
        {IDLE "expect: {removals: [a], cordons: {a: idle}}\n", "cordons: want 1 nodes, got 0"},
        {IDLE "expect: {removals: [a], uncordons: {a: busy}}\n", "uncordons: want 1 nodes, got 0"},
        {IDLE "expect: {removals: [a], nodes: {a: it is busy}}\n",
         "node a\n  want: it is busy\n  got:  unneeded for 20m0s; empty"},
        {IDLE "expect: {removals: [a], nodes: {b: x}}\n", "node b\n  want: x\n  got:  (none)"},
        {IDLE "expect: {removals: [a], pods: {p: x}}\n", "pod p\n  want: x\n  got:  (none)"},
        {IDLE "expect: {removals: [a], unneeded: {a: 19m}}\n",
         "unneeded: node a: want 19m, got 20m0s"},
        {IDLE "expect: {removals: [a], unneeded: {}}\n",
         "unneeded: node a: want it is needed, got 20m0s"},
        {IDLE "expect: {removals: [a], again: 1m0s}\n", "again\n  want: 1m0s\n  got:  never"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_FREE char *got = failures_of(cases[i].text);
        if (*cases[i].want ? !strstr(got, cases[i].want) : *got != 0)
            fail_msg("case %zu: want %s\n got %s", i, cases[i].want, got);
    }
    (void)state;
}

static void test_a_wrong_case_names_the_place(void **state)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"- 1\n", "a case"},
        {"name: x\nnode: []\n", ":2:"},
        {"name: x\nnow: noon\n", ":2:6:"},
        {"name: x\nsettings: {scale-down-unneeded-tim: 1m}\n", "scale-down-unneeded-tim"},
        {"name: x\nsettings: {scale-down-utilization-threshold: 2}\n", "want a share from 0 to 1"},
        {"name: x\nsettings: {expander: cheap}\n", "cheap"},
        {"name: x\ncluster: {lastAd: 1m}\n", "lastAd"},
        {"name: x\npools: [{name: g, maxx: 1}]\n", "maxx"},
        {"name: x\npools: [{name: g, size: -1}]\n", "size"},
        {"name: x\nnodes: {}\n", "nodes: want a list"},
        {"name: x\nnodes: [{pool: g}]\n", "a node needs a name of its own"},
        {"name: x\nnodes: [{name: a}, {name: a}]\n", ":2:"},
        {"name: x\nnodes: [{name: a, pool: g}]\n", "no pool has the name \"g\""},
        {"name: x\nnodes: [{name: a, condition: redy}]\n", "not \"redy\""},
        {"name: x\npods: [{gpus: 1}]\n", "a pod needs a name"},
        {"name: x\npods: [{name: p, node: a}]\n", "no node has the name \"a\""},
        {"name: x\npods: [{name: p, cpu: 1z}]\n", ":2:"},
        {"name: x\npods: [{name: p, priority: high}]\n", ":2:"},
        {"name: x\nbudgets: [{allowed: 1}]\n", "a budget needs labels"},
        {"name: x\nexpect: {removal: [a]}\n", "removal"},
        {"name: x\nexpect: {removals: a}\n", ":2:"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
        GS_AUTO_FREE char *got = failures_of(cases[i].text);
        if (!strstr(got, cases[i].want))
            fail_msg("case %zu: want %s\n got %s", i, cases[i].want, got);
    }
    (void)state;
}

static void test_rows_change_a_case(void **state)
{
    struct codec_test_report r = {0};
    run_text(IDLE "settings: {scale-down-unneeded-time: 30m}\nexpect: {unneeded: {a: 20m}}\nrows:\n"
                  "- {name: as it is}\n"
                  "- {name: sooner, settings: {scale-down-unneeded-time: 1m}, expect: {removals: "
                  "[a]}}\n"
                  "- {name: other nodes, nodes: [], expect: {unneeded: {}}}\n",
             NULL, &r);
    assert_int_equal(r.n_cases, 3);
    assert_int_equal(r.n_failed, 0);
    assert_non_null(strstr(r.cases[1].name, ":8 x: sooner"));
    codec_test_report_finish(&r);
    run_text(IDLE "rows: [{name: a}, {name: b}]\n", "x: b", &r);
    assert_int_equal(r.n_cases, 1);
    codec_test_report_finish(&r);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_cases_hold),
        cmocka_unit_test(test_a_difference_is_told),
        cmocka_unit_test(test_a_wrong_case_names_the_place),
        cmocka_unit_test(test_rows_change_a_case),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
