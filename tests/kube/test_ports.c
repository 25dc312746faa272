// SPDX-License-Identifier: Apache-2.0
#include "kube/object.h"

#include "unit.h"

static void test_the_record_names_where_a_port_is_reached(void **state)
{
    (void)state;
    assert_int_equal(kube_port_in("80=8080,443=8443", 80), 8080);
    assert_int_equal(kube_port_in("80=8080,443=8443", 443), 8443);
    assert_int_equal(kube_port_in(" 80 = 8080 , 443=8443", 443), 8443);
    assert_int_equal(kube_port_in("80=8080", 8080), 0);
    assert_int_equal(kube_port_in(NULL, 80), 0);
}

static void test_a_record_that_is_none_moves_nothing(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", ",", "=", "80", "80=", "80=x", "80=0", "80=65536", "80=-1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(kube_port_in(bad[i], 80), 0);
    assert_int_equal(kube_port_in("x=1,80=8080", 80), 8080);
}

static void test_an_object_without_a_record_keeps_its_ports(void **state)
{
    (void)state;
    CODEC_AUTO_JSON json_t *plain = json_pack("{s:{s:s}}", "metadata", "name", "a");
    CODEC_AUTO_JSON json_t *moved =
        json_pack("{s:{s:{s:s}}}", "metadata", "annotations", KUBE_ANN_PORTS, "80=8080");
    assert_int_equal(kube_port(plain, 80), 80);
    assert_int_equal(kube_port(moved, 80), 8080);
    assert_int_equal(kube_port(moved, 81), 81);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_record_names_where_a_port_is_reached),
        cmocka_unit_test(test_a_record_that_is_none_moves_nothing),
        cmocka_unit_test(test_an_object_without_a_record_keeps_its_ports),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
