// SPDX-License-Identifier: Apache-2.0
// The methods of externalgrpc, as the Cluster Autoscaler up to 1.33, of 1.34 and from 1.35 calls
// them.
#include "harness.h"

#include "kube/object.h"
#include "nodes/wire/wire.h"

enum generation { OLD, BOTH, NEW, N_GENERATIONS };

static void check_status(struct answer a, enum grpc_status status, const char *text)
{
    if (a.status != status || !strstr(a.message, text))
        fail_msg("status %d: %s; want %d: %s", a.status, a.message, status, text);
    answer_finish(&a);
}

static char *group_of(struct harness *h, const char *provider_id, const char *name)
{
    Externalgrpc__Node node = EXTERNALGRPC__NODE__INIT;
    Externalgrpc__NodeRequest m = EXTERNALGRPC__NODE_REQUEST__INIT;
    node.provider_id = (char *)provider_id;
    node.name = (char *)name;
    m.node = &node;
    AUTO_ANSWER struct answer a = call(h, "NodeGroupForNode", &m);
    Externalgrpc__NodeGroupResponse *r =
        unpacked(&a, &externalgrpc__node_group_response__descriptor);
    assert_non_null(r->node_group);
    char *id = gs_strdup(r->node_group->id);
    protobuf_c_message_free_unpacked(&r->base, NULL);
    return id;
}

// --- groups and sizes ---

static void test_groups_have_the_limits_of_the_file(void **state)
{
    struct harness h;
    setup(&h, NULL);
    AUTO_ANSWER struct answer a = call(&h, "NodeGroups", NULL);
    Externalgrpc__NodeGroupsResponse *r =
        unpacked(&a, &externalgrpc__node_groups_response__descriptor);
    assert_int_equal(r->n_node_groups, 2);
    assert_string_equal(r->node_groups[0]->id, "t4");
    assert_int_equal(r->node_groups[0]->min_size, 0);
    assert_int_equal(r->node_groups[0]->max_size, 20);
    assert_string_equal(r->node_groups[0]->debug, "t4 (0:20)");
    protobuf_c_message_free_unpacked(&r->base, NULL);
    check_status(ask_group(&h, "NodeGroupTargetSize", "none"), GRPC_NOT_FOUND, "none");
    check_status(call(&h, "Cleanup", NULL), GRPC_OK, "");
    check_status(call(&h, "NoSuchMethod", NULL), GRPC_UNIMPLEMENTED, "");
    teardown(&h);
}

static void test_machines_are_created_and_belong_to_their_group(void **state)
{
    struct harness h;
    setup(&h, NULL);
    increase(&h, "t4", 2);
    assert_int_equal(target(&h, "t4"), 2);
    wait_state(&h, "t4", 1, false, 2);
    assert_int_equal(count_machines(&h), 2);
    assert_int_equal(target(&h, "cpu"), 0);
    GS_AUTO_FREE char *id = first_id(&h, "t4");
    assert_true(gs_starts(id, "gpuscale://t4/gpuscale-t4-"));
    GS_AUTO_FREE char *group = group_of(&h, id, "any");
    assert_string_equal(group, "t4");
    // A Node that the autoscaler makes up for a machine without a Node.
    GS_AUTO_FREE char *made_up = group_of(&h, "", id);
    assert_string_equal(made_up, "t4");
    GS_AUTO_FREE char *foreign = group_of(&h, "aws:///eu/i-1", "node-1");
    assert_string_equal(foreign, "");
    teardown(&h);
}

static void test_sizes_outside_the_limits_are_refused(void **state)
{
    struct harness h;
    setup(&h, NULL);
    check_status(change(&h, "NodeGroupIncreaseSize", "t4", 21), GRPC_INVALID_ARGUMENT,
                 "size increase too large - desired: 21 max: 20");
    check_status(change(&h, "NodeGroupIncreaseSize", "t4", 0), GRPC_INVALID_ARGUMENT, "positive");
    check_status(change(&h, "NodeGroupIncreaseSize", "t4", -1), GRPC_INVALID_ARGUMENT, "positive");
    check_status(change(&h, "NodeGroupIncreaseSize", "t4", INT32_MAX), GRPC_INVALID_ARGUMENT,
                 "too large");
    check_status(change(&h, "NodeGroupDecreaseTargetSize", "t4", 1), GRPC_INVALID_ARGUMENT,
                 "negative");
    check_status(change(&h, "NodeGroupDecreaseTargetSize", "t4", INT32_MIN), GRPC_INVALID_ARGUMENT,
                 "attempt to delete existing nodes");
    assert_int_equal(target(&h, "t4"), 0);
    teardown(&h);
}

static void test_machines_that_have_not_started_can_be_given_up(void **state)
{
    struct harness h;
    GS_AUTO_FREE char *pools = gs_format("%s", "commands:\n"
                                               "  create: [./backend]\n"
                                               "  delete: [./backend]\n"
                                               "  list: [./backend]\n"
                                               "  concurrency: 1\n"
                                               "  createTimeout: 500ms\n"
                                               "pools: [{name: t4, max: 20, machine: {cpu: 1, "
                                               "memory: 1Gi}}]\n");
    setup(&h, pools);
    write_text(&h, "hang", "");
    increase(&h, "t4", 4);
    check_status(change(&h, "NodeGroupDecreaseTargetSize", "t4", -4), GRPC_INVALID_ARGUMENT,
                 "attempt to delete existing nodes");
    check_status(change(&h, "NodeGroupDecreaseTargetSize", "t4", -2), GRPC_OK, "");
    assert_int_equal(target(&h, "t4"), 2);
    wait_state(&h, "t4", 2, true, 2); // both that remain run into the timeout
    teardown(&h);
}

// --- deletion ---

static void test_deletion_lowers_the_target_at_once(void **state)
{
    struct harness h;
    setup(&h, NULL);
    increase(&h, "t4", 3);
    wait_state(&h, "t4", 1, false, 3);
    Externalgrpc__NodesResponse *r = nodes(&h, "t4");
    check_status(delete_ids(&h, "t4", r->instances[0]->id, r->instances[1]->id), GRPC_OK, "");
    assert_int_equal(target(&h, "t4"), 1);
    // A repeated call, after a timeout for example, changes nothing.
    check_status(delete_ids(&h, "t4", r->instances[0]->id, NULL), GRPC_OK, "");
    assert_int_equal(target(&h, "t4"), 1);
    wait_machines(&h, 1);
    wait_state(&h, "t4", 3, false, 0);
    GS_AUTO_FREE char *id = first_id(&h, "t4");
    assert_string_equal(id, r->instances[2]->id);
    check_status(delete_ids(&h, "t4", r->instances[0]->id, NULL), GRPC_OK, "");
    assert_int_equal(target(&h, "t4"), 1);
    GS_AUTO_FREE char *gone = group_of(&h, r->instances[0]->id, "any");
    assert_string_equal(gone, "");
    protobuf_c_message_free_unpacked(&r->base, NULL);
    teardown(&h);
}

static void test_foreign_nodes_are_never_deleted(void **state)
{
    struct harness h;
    setup(&h, NULL);
    increase(&h, "t4", 1);
    wait_state(&h, "t4", 1, false, 1);
    GS_AUTO_FREE char *id = first_id(&h, "t4");
    check_status(delete_ids(&h, "t4", id, "aws:///eu/i-1"), GRPC_INVALID_ARGUMENT,
                 "does not belong to a pool");
    check_status(delete_ids(&h, "cpu", id, NULL), GRPC_INVALID_ARGUMENT,
                 "belongs to t4, not to cpu");
    assert_int_equal(target(&h, "t4"), 1);
    assert_int_equal(count_machines(&h), 1);
    teardown(&h);
}

// --- templates ---

static json_t *read_node_of(ProtobufCBinaryData data)
{
    json_t *node = NULL;
    assert_ok(wire_read_node(gs_slice_make(data.data, data.len), &node));
    return node;
}

static void test_template_is_in_the_fields_of_all_generations(void **state)
{
    struct harness h;
    setup(&h, NULL);
    AUTO_ANSWER struct answer a = ask_group(&h, "NodeGroupTemplateNodeInfo", "t4");
    Externalgrpc__TemplateResponse *r = unpacked(&a, &externalgrpc__template_response__descriptor);
    CODEC_AUTO_JSON json_t *old_form = read_node_of(r->node_info),
                           *form = read_node_of(r->node_bytes);
    assert_true(json_equal(old_form, form));
    assert_string_equal(codec_json_str(form, "status", "allocatable", "nvidia.com/gpu", NULL), "2");
    assert_string_equal(codec_json_str(form, "status", "allocatable", "memory", NULL), "16Gi");
    assert_string_equal(kube_label(form, "gpuscale.dev/accelerator"), "Tesla-T4");
    assert_string_equal(
        codec_json_str(json_array_get(codec_json_get(form, "spec", "taints", NULL), 0), "key",
                       NULL),
        "nvidia.com/gpu");
    protobuf_c_message_free_unpacked(&r->base, NULL);
    teardown(&h);
}

static void test_gpu_label_is_only_on_pools_with_gpus(void **state)
{
    struct harness h;
    setup(&h, NULL);
    AUTO_ANSWER struct answer label = call(&h, "GPULabel", NULL);
    Externalgrpc__GpuLabelResponse *l =
        unpacked(&label, &externalgrpc__gpu_label_response__descriptor);
    assert_string_equal(l->label, "gpuscale.dev/accelerator");
    AUTO_ANSWER struct answer types = call(&h, "GetAvailableGPUTypes", NULL);
    Externalgrpc__GpuTypesResponse *t =
        unpacked(&types, &externalgrpc__gpu_types_response__descriptor);
    assert_int_equal(t->n_gpu_types, 1);
    assert_string_equal(t->gpu_types[0]->key, "Tesla-T4");
    AUTO_ANSWER struct answer a = ask_group(&h, "NodeGroupTemplateNodeInfo", "cpu");
    Externalgrpc__TemplateResponse *r = unpacked(&a, &externalgrpc__template_response__descriptor);
    CODEC_AUTO_JSON json_t *node = read_node_of(r->node_bytes);
    assert_null(kube_label(node, "gpuscale.dev/accelerator"));
    protobuf_c_message_free_unpacked(&r->base, NULL);
    protobuf_c_message_free_unpacked(&t->base, NULL);
    protobuf_c_message_free_unpacked(&l->base, NULL);
    teardown(&h);
}

// --- prices ---

static double price(struct harness *h, const char *method, const void *message)
{
    AUTO_ANSWER struct answer a = call(h, method, message);
    Externalgrpc__PriceResponse *r = unpacked(&a, &externalgrpc__price_response__descriptor);
    const double value = r->price;
    protobuf_c_message_free_unpacked(&r->base, NULL);
    return value;
}

static void test_node_price_has_the_period_of_each_generation(void **state)
{
    struct harness h;
    setup(&h, NULL);
    for (enum generation g = OLD; g < N_GENERATIONS; g++) {
        Externalgrpc__Node node = EXTERNALGRPC__NODE__INIT;
        Externalgrpc__Label label = EXTERNALGRPC__LABEL__INIT, *labels[] = {&label};
        Externalgrpc__Time from = EXTERNALGRPC__TIME__INIT, until = EXTERNALGRPC__TIME__INIT;
        Externalgrpc__PricingNodeRequest m = EXTERNALGRPC__PRICING_NODE_REQUEST__INIT;
        from.seconds = 1790000000;
        until.seconds = from.seconds + 5400;
        label.key = (char *)"gpuscale.dev/pool";
        label.value = (char *)"t4";
        node.labels = labels;
        node.n_labels = 1;
        m.node = &node;
        if (g != NEW)
            m.old_start = &from, m.old_end = &until;
        if (g != OLD)
            m.start = &from, m.end = &until;
        assert_true(price(&h, "PricingNodePrice", &m) == 3.0);
        label.value = (char *)"cpu"; // no price in the file
        check_status(call(&h, "PricingNodePrice", &m), GRPC_UNIMPLEMENTED, "price");
    }
    teardown(&h);
}

static void test_pod_price_is_its_share_of_a_machine(void **state)
{
    struct harness h;
    setup(&h, NULL);
    static const char text[] = "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"name\":"
                               "\"c\",\"resources\":{\"requests\":{\"cpu\":\"1\","
                               "\"nvidia.com/gpu\":\"1\"}}}]}}";
    CODEC_AUTO_JSON json_t *pod = NULL;
    GS_AUTO_BUF struct gs_buf bytes = {0};
    assert_ok(codec_json_parse(GS_SLICE(text), true, &pod));
    assert_ok(wire_write_pod(pod, &bytes));
    for (enum generation g = OLD; g < N_GENERATIONS; g++) {
        Externalgrpc__Time from = EXTERNALGRPC__TIME__INIT, until = EXTERNALGRPC__TIME__INIT;
        Externalgrpc__PricingPodRequest m = EXTERNALGRPC__PRICING_POD_REQUEST__INIT;
        const ProtobufCBinaryData data = {.data = (uint8_t *)bytes.data, .len = bytes.len};
        until.seconds = 3600;
        if (g != NEW)
            m.old_start = &from, m.old_end = &until, m.old_pod = data;
        if (g != OLD)
            m.start = &from, m.end = &until, m.pod = data;
        assert_true(price(&h, "PricingPodPrice", &m) == 1.0); // one of two GPUs
    }
    teardown(&h);
}

// --- options ---

static void set_defaults(enum generation g, Externalgrpc__Options *o,
                         Externalgrpc__OldDuration *old_time, Externalgrpc__Duration *time)
{
    externalgrpc__options__init(o);
    externalgrpc__old_duration__init(old_time);
    externalgrpc__duration__init(time);
    old_time->nanoseconds = 600 * GS_NS_PER_SEC;
    time->seconds = 600;
    o->scale_down_utilization_threshold = 0.5;
    o->scale_down_gpu_utilization_threshold = 0.5;
    if (g != NEW)
        o->old_unneeded = o->old_unready = o->old_provision = old_time;
    if (g != OLD)
        o->unneeded = o->unready = o->provision = time;
}

static void test_options_are_unimplemented_by_default(void **state)
{
    struct harness h;
    setup(&h, NULL);
    Externalgrpc__OptionsRequest m = EXTERNALGRPC__OPTIONS_REQUEST__INIT;
    Externalgrpc__Options defaults = EXTERNALGRPC__OPTIONS__INIT;
    m.id = (char *)"t4";
    m.defaults = &defaults;
    check_status(call(&h, "NodeGroupGetOptions", &m), GRPC_UNIMPLEMENTED, "");
    teardown(&h);
}

static void test_options_of_a_pool_keep_the_other_defaults(void **state)
{
    struct harness h;
    setup(&h, "commands: {create: [./backend], delete: [./backend], list: [./backend]}\n"
              "pools:\n"
              "- name: t4\n"
              "  max: 3\n"
              "  machine: {cpu: 4, memory: 16Gi}\n"
              "  options: {scaleDownUnneededTime: 90s, scaleDownGpuUtilizationThreshold: 0.3}\n");
    for (enum generation g = OLD; g < N_GENERATIONS; g++) {
        Externalgrpc__OptionsRequest m = EXTERNALGRPC__OPTIONS_REQUEST__INIT;
        Externalgrpc__Options defaults;
        Externalgrpc__OldDuration old_time;
        Externalgrpc__Duration time;
        set_defaults(g, &defaults, &old_time, &time);
        m.id = (char *)"t4";
        m.defaults = &defaults;
        AUTO_ANSWER struct answer a = call(&h, "NodeGroupGetOptions", &m);
        Externalgrpc__OptionsResponse *r =
            unpacked(&a, &externalgrpc__options_response__descriptor);
        const Externalgrpc__Options *o = r->options;
        assert_true(o->scale_down_utilization_threshold == 0.5);
        assert_true(o->scale_down_gpu_utilization_threshold == 0.3);
        assert_int_equal(o->old_unneeded != NULL, g != NEW);
        assert_int_equal(o->unneeded != NULL, g != OLD);
        if (g != NEW) {
            assert_int_equal(o->old_unneeded->nanoseconds, 90 * GS_NS_PER_SEC);
            assert_int_equal(o->old_provision->nanoseconds, 600 * GS_NS_PER_SEC);
        }
        if (g != OLD) {
            assert_int_equal(o->unneeded->seconds, 90);
            assert_int_equal(o->provision->seconds, 600);
        }
        protobuf_c_message_free_unpacked(&r->base, NULL);
    }
    teardown(&h);
}

static void on_raw(void *arg, const struct grpc_reply *reply)
{
    *(int *)arg = (int)reply->status;
}

static void test_malformed_requests_are_refused(void **state)
{
    static const char *const methods[] = {"NodeGroupForNode",      "NodeGroupTargetSize",
                                          "NodeGroupIncreaseSize", "NodeGroupDeleteNodes",
                                          "NodeGroupNodes",        "NodeGroupDecreaseTargetSize",
                                          "NodeGroupGetOptions",   "NodeGroupTemplateNodeInfo",
                                          "PricingNodePrice",      "PricingPodPrice"};
    struct harness h;
    setup(&h, NULL);
    for (size_t i = 0; i < GS_ARRAY_LEN(methods); i++) {
        int status = -1;
        GS_AUTO_FREE char *path = gs_format(SERVICE "%s", methods[i]);
        (void)grpc_client_call(h.client, path, GS_SLICE("\xff\xff\xff\xff"), WAIT_MS, on_raw,
                               &status);
        while (status < 0)
            run_once(&h);
        assert_int_equal(status, GRPC_INVALID_ARGUMENT);
    }
    teardown(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_have_the_limits_of_the_file),
        cmocka_unit_test(test_machines_are_created_and_belong_to_their_group),
        cmocka_unit_test(test_sizes_outside_the_limits_are_refused),
        cmocka_unit_test(test_machines_that_have_not_started_can_be_given_up),
        cmocka_unit_test(test_deletion_lowers_the_target_at_once),
        cmocka_unit_test(test_foreign_nodes_are_never_deleted),
        cmocka_unit_test(test_template_is_in_the_fields_of_all_generations),
        cmocka_unit_test(test_gpu_label_is_only_on_pools_with_gpus),
        cmocka_unit_test(test_node_price_has_the_period_of_each_generation),
        cmocka_unit_test(test_pod_price_is_its_share_of_a_machine),
        cmocka_unit_test(test_options_are_unimplemented_by_default),
        cmocka_unit_test(test_options_of_a_pool_keep_the_other_defaults),
        cmocka_unit_test(test_malformed_requests_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
