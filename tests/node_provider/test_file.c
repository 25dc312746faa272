// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "base/mem.h"
#include "node_provider/node_provider_private.h"

#define COMMANDS "commands: {create: [./c], delete: [./d], list: [./l]}\n"
#define MACHINE  "machine: {cpu: 4, memory: 16Gi}"

static void refuse(const char *text, const char *why)
{
    struct node_provider_file *f = NULL;
    assert_error(node_provider_file_parse("p.yaml", gs_slice_of(text), &f), GS_EINVAL, why);
}

static void test_pool_commands_override_those_of_the_file(void **state)
{
    struct node_provider_file *f = NULL;
    assert_ok(node_provider_file_parse(
        "/etc/x/p.yaml",
        GS_SLICE(COMMANDS
                 "pools:\n"
                 "- name: a\n"
                 "  max: 2\n"
                 "  machine: {cpu: 4, memory: 16Gi, gpus: 1}\n"
                 "  labels: {team: ml}\n"
                 "  taints: ['a=b:NoSchedule']\n"
                 "  commands: {create: 'echo $GPUSCALE_NAME', timeout: 5s, listTimeout: 1s, "
                 "concurrency: 3, env: {A: b}}\n"
                 "- {name: b, max: 2, " MACHINE ", unknownMachines: ignore}\n"),
        &f));
    assert_string_equal(f->dir, "/etc/x");
    const struct node_provider_spec *a = &f->specs[0], *b = &f->specs[1];
    assert_int_equal(a->commands.argv[NODE_PROVIDER_CREATE].n, 3);
    assert_string_equal(a->commands.argv[NODE_PROVIDER_CREATE].items[0], "/bin/sh");
    assert_string_equal(a->commands.argv[NODE_PROVIDER_DELETE].items[0], "./d");
    assert_int_equal(a->commands.timeout_ms[NODE_PROVIDER_CREATE], 5000);
    assert_int_equal(a->commands.timeout_ms[NODE_PROVIDER_LIST], 1000);
    assert_int_equal(b->commands.timeout_ms[NODE_PROVIDER_CREATE], 600000);
    assert_int_equal(a->commands.concurrency, 3);
    assert_string_equal(a->commands.env[0], "A=b");
    assert_true(b->ignore_unknown);
    assert_non_null(strstr(a->labels, "team=ml"));
    assert_non_null(strstr(a->labels, "gpuscale.dev/accelerator=gpu"));
    assert_null(strstr(b->labels, "accelerator"));
    assert_string_equal(a->taints, "a=b:NoSchedule");
    node_provider_file_free(f);
}

static void test_wrong_files_have_a_position(void **state)
{
    refuse("pools: [{name: a, max: 2, " MACHINE "}]\n", "pool a has no create command");
    refuse(COMMANDS "pools:\n- name: a\n  max: 2\n  " MACHINE "\n  commands: {timeout: 0s}\n",
           "p.yaml:6:23: want a timeout between");
    refuse("commands: {create: []}\npools: []\n", "p.yaml:1:");
    refuse("commands: {creat: [a]}\npools: []\n", "p.yaml:1:");
    refuse(COMMANDS "pools: [{name: a, max: 3, hosts: [x, y], " MACHINE "}]\n",
           "max is 3, but there are 2 hosts");
    refuse(COMMANDS "pools: [{name: a, max: 1, hosts: [x, x], " MACHINE "}]\n",
           "host x is listed twice");
    refuse(COMMANDS "pools: [{name: a, max: 1, hosts: [x], " MACHINE
                    "}, {name: b, max: 1, hosts: [x], " MACHINE "}]\n",
           "host x belongs to the pool a, too");
    refuse(COMMANDS "pools: [{name: a, max: 1, providerID: 'x://1', " MACHINE "}]\n",
           "contains $NAME");
    refuse(COMMANDS "pools: [{name: a, max: 1, unknownMachines: delete, " MACHINE "}]\n",
           "want adopt or ignore");
    refuse(COMMANDS "gpuLabel: 'a b'\npools: [{name: a, max: 1, " MACHINE "}]\n", "gpuLabel");
    refuse(COMMANDS "pools: []\n", "no pools");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pool_commands_override_those_of_the_file),
        cmocka_unit_test(test_wrong_files_have_a_position),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
