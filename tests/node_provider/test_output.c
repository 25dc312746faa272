// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "node_provider/node_provider_private.h"

static struct node_provider_list parse(const char *text)
{
    struct node_provider_list list = {0};
    assert_ok(node_provider_parse_list(gs_slice_of(text), &list));
    return list;
}

static void refuse(const char *text, const char *why)
{
    struct node_provider_list list = {0};
    assert_error(node_provider_parse_list(gs_slice_of(text), &list), GS_EPROTO, why);
}

static void test_lines_have_name_state_and_id(void **state)
{
    struct node_provider_list l =
        parse("# machines\n gpu-1\n\ngpu-2\tcreating\r\ngpu-3 running metal://3\n");
    assert_int_equal(l.len, 3);
    assert_string_equal(l.items[0].name, "gpu-1");
    assert_int_equal(l.items[0].state, NODE_PROVIDER_LISTED_RUNNING);
    assert_null(l.items[0].provider_id);
    assert_int_equal(l.items[1].state, NODE_PROVIDER_LISTED_CREATING);
    assert_string_equal(l.items[2].provider_id, "metal://3");
    node_provider_list_finish(&l);
}

static void test_json_may_be_an_array_or_lines(void **state)
{
    static const char *const texts[] = {
        "[{\"name\": \"a\", \"state\": \"failed\", \"error\": {\"code\": \"C\", \"message\": "
        "\"m\", "
        "\"outOfResources\": true}, \"power\": 1},\n \"b\"]",
        "{\"name\": \"a\", \"state\": \"failed\", \"error\": {\"code\": \"C\", \"message\": \"m\", "
        "\"outOfResources\": true}}\n\"b\"\n",
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++) {
        struct node_provider_list l = parse(texts[i]);
        assert_int_equal(l.len, 2);
        assert_int_equal(l.items[0].state, NODE_PROVIDER_LISTED_FAILED);
        assert_string_equal(l.items[0].error_code, "C");
        assert_string_equal(l.items[0].error_message, "m");
        assert_true(l.items[0].out_of_resources);
        assert_string_equal(l.items[1].name, "b");
        node_provider_list_finish(&l);
    }
}

static void test_empty_list_has_no_machines(void **state)
{
    static const char *const texts[] = {"", "\n \n", "[]", "# none\n"};
    for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++) {
        struct node_provider_list l = parse(texts[i]);
        assert_int_equal(l.len, 0);
        node_provider_list_finish(&l);
    }
}

static void test_wrong_lists_name_the_line(void **state)
{
    refuse("a\nB\n", "line 2: \"B\" is not the name of a machine");
    refuse("a on", "line 1: unknown state \"on\"");
    refuse("a running x y", "line 1: more than three words");
    refuse("a\na", "machine a is listed twice");
    refuse("[{\"state\": \"running\"}]", "machine 1: a machine without a name");
    refuse("[1]", "machine 1: a machine is neither an object nor a name");
    refuse("[{\"name\": \"a\", \"providerID\": \"a b\"}]", "is not a provider ID");
    refuse("<html>", "line 1: \"<html>\" is not the name");
    struct node_provider_list list = {0};
    assert_error(node_provider_parse_list(GS_SLICE("{\"name\":"), &list), GS_EINVAL, "line 1");
}

static void test_create_commands_may_print_anything(void **state)
{
    struct node_provider_listed l = {0};
    assert_ok(node_provider_parse_created(GS_SLICE("Domain gpu-1 started\n"), &l));
    assert_null(l.provider_id);
    assert_ok(node_provider_parse_created(GS_SLICE(" {\"providerID\": \"x://1\"}\n"), &l));
    assert_string_equal(l.provider_id, "x://1");
    node_provider_listed_finish(&l);
    assert_error(node_provider_parse_created(GS_SLICE("{\"providerID\": \" \"}"), &l), GS_EPROTO,
                 "is not a provider ID");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_have_name_state_and_id),
        cmocka_unit_test(test_json_may_be_an_array_or_lines),
        cmocka_unit_test(test_empty_list_has_no_machines),
        cmocka_unit_test(test_wrong_lists_name_the_line),
        cmocka_unit_test(test_create_commands_may_print_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
