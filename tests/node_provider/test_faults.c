// SPDX-License-Identifier: Apache-2.0
// Commands that fail, hang, or print what nobody expects.
#include "harness.h"

static char *first_error(struct harness *h, int *ret_class, char **ret_code)
{
    Externalgrpc__NodesResponse *r = nodes(h, "t4");
    assert_true(r->n_instances > 0);
    const Externalgrpc__ErrorInfo *e = r->instances[0]->status->error_info;
    assert_non_null(e);
    char *text = gs_strdup(e->error_message);
    *ret_class = e->instance_error_class;
    *ret_code = gs_strdup(e->error_code);
    protobuf_c_message_free_unpacked(&r->base, NULL);
    return text;
}

static void expect_error(struct harness *h, const char *text, const char *code, int class)
{
    int its_class = 0;
    GS_AUTO_FREE char *its_code = NULL;
    wait_state(h, "t4", 2, true, 1);
    GS_AUTO_FREE char *its_text = first_error(h, &its_class, &its_code);
    if (!strstr(its_text, text) || !gs_streq(its_code, code) || its_class != class)
        fail_msg("error %s, class %d: %s", its_code, its_class, its_text);
}

// The autoscaler deletes a machine with an error.
static void delete_failed(struct harness *h)
{
    GS_AUTO_FREE char *id = first_id(h, "t4");
    AUTO_ANSWER struct answer a = delete_ids(h, "t4", id, NULL);
    assert_int_equal(a.status, GRPC_OK);
    assert_int_equal(target(h, "t4"), 0);
    wait_state(h, "t4", 3, false, 0);
    assert_int_equal(count_machines(h), 0);
}

static void test_failed_creation_is_an_error_of_the_instance(void **state)
{
    struct harness h;
    setup(&h, NULL);
    write_text(&h, "fail", "first line\nno such image \xff");
    write_text(&h, "status", "7");
    increase(&h, "t4", 1);
    expect_error(&h, "exit status 7: no such image ?", "create-failed", 99);
    assert_int_equal(target(&h, "t4"), 1);
    delete_failed(&h);
    teardown(&h);
}

static void test_exit_status_69_is_a_lack_of_resources(void **state)
{
    struct harness h;
    setup(&h, NULL);
    write_text(&h, "fail", "zone is full");
    write_text(&h, "status", "69");
    increase(&h, "t4", 1);
    expect_error(&h, "zone is full", "out-of-resources", 1);
    delete_failed(&h);
    teardown(&h);
}

static void test_error_in_json_is_a_lack_of_resources(void **state)
{
    struct harness h;
    setup(&h, NULL);
    write_text(&h, "output",
               "{\"error\": {\"code\": \"QUOTA\", \"message\": \"no V100\", "
               "\"outOfResources\": true}}");
    increase(&h, "t4", 1);
    expect_error(&h, "no V100", "QUOTA", 1);
    delete_failed(&h);
    teardown(&h);
}

static void test_command_that_hangs_is_killed_with_its_children(void **state)
{
    struct harness h;
    setup(&h, "commands: {create: [./backend], delete: [./backend], list: [./backend], "
              "createTimeout: 300ms}\n"
              "pools: [{name: t4, max: 3, machine: {cpu: 1, memory: 1Gi}}]\n");
    write_text(&h, "hang", "");
    increase(&h, "t4", 1);
    expect_error(&h, "did not end within 300ms", "timeout", 99);
    delete_failed(&h);
    teardown(&h);
}

static void test_missing_command_is_an_error(void **state)
{
    struct harness h;
    setup(&h, "commands: {create: [./nothing], delete: [./backend], list: [./backend]}\n"
              "pools: [{name: t4, max: 3, machine: {cpu: 1, memory: 1Gi}}]\n");
    increase(&h, "t4", 1);
    expect_error(&h, "exit status 127", "create-failed", 99);
    delete_failed(&h);
    teardown(&h);
}

static void test_provider_id_of_the_create_command_is_used(void **state)
{
    struct harness h;
    setup(&h, NULL);
    write_text(&h, "output", "{\"providerID\": \"metal://rack-7/42\"}");
    increase(&h, "t4", 1);
    wait_state(&h, "t4", 1, false, 1);
    GS_AUTO_FREE char *id = first_id(&h, "t4");
    assert_string_equal(id, "metal://rack-7/42");
    kill_child(&h);
    start_child(&h);
    wait_ready(&h);
    GS_AUTO_FREE char *again = first_id(&h, "t4");
    assert_string_equal(again, id);
    delete_failed(&h);
    teardown(&h);
}

static void test_failed_deletion_is_tried_again(void **state)
{
    struct harness h;
    setup(&h, NULL);
    increase(&h, "t4", 1);
    wait_state(&h, "t4", 1, false, 1);
    write_text(&h, "fail-delete", "");
    delete_failed(&h);
    assert_false(has_file(&h, "fail-delete"));
    teardown(&h);
}

static void test_list_with_garbage_changes_nothing(void **state)
{
    struct harness h;
    setup(&h, NULL);
    increase(&h, "t4", 2);
    wait_state(&h, "t4", 1, false, 2);
    write_text(&h, "garbage", "gpuscale-t4-aaaaa running\n<html>Service Unavailable</html>\n");
    for (int64_t end = gs_mono_ns() + GS_NS_PER_SEC; gs_mono_ns() < end;)
        run_once(&h);
    assert_int_equal(count_state(&h, "t4", 1, false), 2);
    assert_int_equal(target(&h, "t4"), 2);
    teardown(&h);
}

static void test_machine_that_disappears_is_no_longer_reported(void **state)
{
    struct harness h;
    setup(&h, NULL);
    increase(&h, "t4", 2);
    wait_state(&h, "t4", 1, false, 2);
    GS_AUTO_FREE char *command = gs_format("cd %s/m && rm \"$(ls | head -n 1)\"", h.dir);
    assert_int_equal(system(command), 0);
    wait_state(&h, "t4", 1, false, 1);
    assert_int_equal(target(&h, "t4"), 1);
    teardown(&h);
}

static void test_unknown_machine_of_the_list_is_adopted(void **state)
{
    struct harness h;
    setup(&h, NULL);
    write_text(&h, "m/by-hand-t4-1.x", "");
    wait_state(&h, "t4", 1, false, 1);
    assert_int_equal(target(&h, "t4"), 1);
    delete_failed(&h);
    teardown(&h);
}

static void test_minimum_is_created_at_the_start(void **state)
{
    struct harness h;
    setup(&h, "commands: {create: [./backend], delete: [./backend], list: [./backend]}\n"
              "pools: [{name: t4, min: 2, max: 3, machine: {cpu: 1, memory: 1Gi}}]\n");
    wait_state(&h, "t4", 1, false, 2);
    assert_int_equal(count_machines(&h), 2);
    GS_AUTO_FREE char *id = first_id(&h, "t4");
    AUTO_ANSWER struct answer a = delete_ids(&h, "t4", id, NULL);
    assert_int_equal(a.status, GRPC_INVALID_ARGUMENT);
    assert_non_null(strstr(a.message, "min size reached"));
    teardown(&h);
}

static void test_hosts_are_used_once(void **state)
{
    struct harness h;
    setup(&h, "commands: {create: [./backend], delete: [./backend], list: [./backend]}\n"
              "pools: [{name: t4, max: 2, hosts: [gpu-t4-1, gpu-t4-2], machine: {cpu: 1, memory: "
              "1Gi}}]\n");
    increase(&h, "t4", 2);
    wait_state(&h, "t4", 1, false, 2);
    GS_AUTO_FREE char *id = first_id(&h, "t4");
    assert_string_equal(id, "gpuscale://t4/gpu-t4-1");
    AUTO_ANSWER struct answer a = delete_ids(&h, "t4", id, NULL);
    assert_int_equal(a.status, GRPC_OK);
    wait_state(&h, "t4", 3, false, 0);
    increase(&h, "t4", 1);
    wait_state(&h, "t4", 1, false, 2);
    assert_int_equal(count_machines(&h), 2);
    teardown(&h);
}

static void test_second_provider_of_a_state_directory_is_refused(void **state)
{
    struct harness h;
    setup(&h, NULL);
    struct node_provider_state *second = NULL;
    GS_AUTO_FREE char *path = gs_format("%s/state", h.dir);
    assert_error(node_provider_state_open(path, &second), GS_EEXIST, "another node provider");
    teardown(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failed_creation_is_an_error_of_the_instance),
        cmocka_unit_test(test_exit_status_69_is_a_lack_of_resources),
        cmocka_unit_test(test_error_in_json_is_a_lack_of_resources),
        cmocka_unit_test(test_command_that_hangs_is_killed_with_its_children),
        cmocka_unit_test(test_missing_command_is_an_error),
        cmocka_unit_test(test_provider_id_of_the_create_command_is_used),
        cmocka_unit_test(test_failed_deletion_is_tried_again),
        cmocka_unit_test(test_list_with_garbage_changes_nothing),
        cmocka_unit_test(test_machine_that_disappears_is_no_longer_reported),
        cmocka_unit_test(test_unknown_machine_of_the_list_is_adopted),
        cmocka_unit_test(test_minimum_is_created_at_the_start),
        cmocka_unit_test(test_hosts_are_used_once),
        cmocka_unit_test(test_second_provider_of_a_state_directory_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
