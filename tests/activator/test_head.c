// SPDX-License-Identifier: Apache-2.0
// What the activator reads of the first bytes of a connection.
#include "activator/gate_private.h"
#include "base/mem.h"
#include "unit.h"

#define HEAD(agent) GS_SLICE("GET / HTTP/1.1\r\nHost: api\r\nUser-Agent: " agent "\r\n\r\n")

static enum activator_protocol protocol(const char *bytes)
{
    return activator_head_protocol(gs_slice_of(bytes));
}

static void test_protocols(void **state)
{
    (void)state;
    assert_int_equal(protocol("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), ACTIVATOR_HTTP);
    assert_int_equal(protocol("POST /v1/x HTTP/1.0\n\n{}"), ACTIVATOR_HTTP);
    assert_int_equal(protocol(""), ACTIVATOR_PART);
    assert_int_equal(protocol("PO"), ACTIVATOR_PART);
    assert_int_equal(protocol("POST /v1/x HTTP/1.1\r\nHost"), ACTIVATOR_PART);
    // A TLS client hello, the preface of HTTP/2, and a text protocol.
    assert_int_equal(protocol("\x16\x03\x01"), ACTIVATOR_OTHER);
    assert_int_equal(protocol("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), ACTIVATOR_OTHER);
    assert_int_equal(protocol("GET key\r\n\r\n"), ACTIVATOR_OTHER);
}

static void test_a_head_without_end_is_too_long(void **state)
{
    (void)state;
    struct gs_buf head = {0};
    gs_buf_add_str(&head, "GET / HTTP/1.1\r\nX: ");
    while (head.len < ACTIVATOR_MAX_HEAD)
        gs_buf_add_str(&head, "aaaaaaaaaaaaaaaa");
    assert_int_equal(activator_head_protocol(gs_buf_slice(&head)), ACTIVATOR_TOO_LONG);
    gs_buf_finish(&head);
}

static void test_health_checks_are_recognized(void **state)
{
    (void)state;
    assert_true(activator_head_is_probe(HEAD("kube-probe/1.34"), NULL));
    assert_true(activator_head_is_probe(HEAD("GoogleHC/1.0"), NULL));
    assert_true(activator_head_is_probe(HEAD("ELB-HealthChecker/2.0"), NULL));
    assert_true(activator_head_is_probe(HEAD("Prometheus/3.5.0"), NULL));
    assert_false(activator_head_is_probe(HEAD("curl/8.1"), NULL));
    assert_false(
        activator_head_is_probe(GS_SLICE("GET / HTTP/1.1\r\n\r\nUser-Agent: kube-probe/"), NULL));
    assert_false(activator_head_is_probe(GS_SLICE("GET / HTTP/1.1\r\n\r\n"), NULL));
}

static void test_health_checks_of_rules(void **state)
{
    (void)state;
    char path[] = "/health", agent[] = "Uptime/";
    char *paths[] = {path, NULL}, *agents[] = {agent, NULL};
    const struct activator_rules rules = {.probe_paths = paths, .probe_agents = agents};
    assert_true(activator_head_is_probe(HEAD("Uptime/2"), &rules));
    assert_true(activator_head_is_probe(HEAD("kube-probe/1.34"), &rules));
    assert_true(activator_head_is_probe(GS_SLICE("GET /health?x=1 HTTP/1.1\r\n\r\n"), &rules));
    assert_false(activator_head_is_probe(GS_SLICE("GET /healthy HTTP/1.1\r\n\r\n"), &rules));
    assert_false(activator_head_is_probe(GS_SLICE("POST /health HTTP/1.1\r\n\r\n"), &rules));
    assert_false(activator_head_is_probe(HEAD("curl/8.1"), &rules));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_protocols),
        cmocka_unit_test(test_a_head_without_end_is_too_long),
        cmocka_unit_test(test_health_checks_are_recognized),
        cmocka_unit_test(test_health_checks_of_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
