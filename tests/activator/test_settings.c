// SPDX-License-Identifier: Apache-2.0
// The annotation with the workload of a Service: what it accepts, and what is wrong.
#include "activator/activator_private.h"
#include "base/mem.h"
#include "kube/object.h"
#include "unit.h"

static json_t *service_of(const char *target, const char *protocol)
{
    return json_pack("{s:{s:s, s:s, s:{s:s}}, s:{s:[{s:i, s:s}]}}", "metadata", "namespace", "n",
                     "name", "api", "annotations", ACTIVATOR_ANNOTATION, target, "spec", "ports",
                     "port", 80, "protocol", protocol);
}

static void accepts(const char *target, const char *kind, const char *name)
{
    CODEC_AUTO_JSON json_t *service = service_of(target, "TCP");
    struct activator_target t = {0};
    assert_ok(activator_target_read(service, &t));
    assert_string_equal(t.kind, kind);
    assert_string_equal(t.name, name);
    activator_target_finish(&t);
}

static void refuse(const char *target, const char *protocol, const char *problem)
{
    CODEC_AUTO_JSON json_t *service = service_of(target, protocol);
    struct activator_target t = {0};
    assert_error(activator_target_read(service, &t), GS_EINVAL, problem);
    assert_null(t.kind);
}

// kubectl accepts these words, too. The workload is read to find out why its pods do not start.
static void test_a_kind_in_lower_case_is_that_of_kubernetes(void **state)
{
    (void)state;
    accepts("Deployment/api", "Deployment", "api");
    accepts("deployment/api", "Deployment", "api");
    accepts("deployments/api", "Deployment", "api");
    accepts("statefulset/api.v2", "StatefulSet", "api.v2");
    accepts("LeaderWorkerSet/api", "LeaderWorkerSet", "api");
    accepts("DeploymentConfig/api", "DeploymentConfig", "api");
    accepts("AdvancedStatefulSet/api", "AdvancedStatefulSet", "api");
    accepts("ReplicaGroup/api", "ReplicaGroup", "api");
}

static void test_a_kind_that_cannot_exist_is_refused(void **state)
{
    (void)state;
    refuse("Deploymet/api", "TCP", "unknown kind, did you mean \"Deployment\"?");
    refuse("rollout/api", "TCP", "write the kind as in the field \"kind\"");
    refuse("Größe/api", "TCP", "write the kind");
}

static void test_a_target_that_cannot_exist_is_refused(void **state)
{
    (void)state;
    refuse("", "TCP", "write KIND/NAME");
    refuse("api", "TCP", "write KIND/NAME");
    refuse("Deployment/", "TCP", "write KIND/NAME");
    refuse("Deployment/a/b", "TCP", "write KIND/NAME");
    refuse("Deployment/größe", "TCP", "no workload can have this name");
    refuse("Deployment/api ", "TCP", "no workload can have this name");
}

static void test_a_service_without_a_tcp_port_is_refused(void **state)
{
    (void)state;
    refuse("Deployment/api", "UDP", "it has no TCP port");
}

// Those that gpuscale up writes.
static void test_annotations_of_gpuscale_are_no_mistakes(void **state)
{
    static const char *const others[] = {"address", "ports", "notice", "activate",
                                         "activate-comments"};
    (void)state;
    for (size_t i = 0; i < GS_ARRAY_LEN(others); i++) {
        GS_AUTO_FREE char *name = gs_format("gpuscale.dev/%s", others[i]);
        CODEC_AUTO_JSON json_t *service =
            json_pack("{s:{s:{s:s}}}", "metadata", "annotations", name, "x");
        assert_ok(activator_check_annotations(service));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_kind_in_lower_case_is_that_of_kubernetes),
        cmocka_unit_test(test_a_kind_that_cannot_exist_is_refused),
        cmocka_unit_test(test_a_target_that_cannot_exist_is_refused),
        cmocka_unit_test(test_a_service_without_a_tcp_port_is_refused),
        cmocka_unit_test(test_annotations_of_gpuscale_are_no_mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
