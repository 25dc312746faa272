// SPDX-License-Identifier: Apache-2.0
// Engines, connections, groups and faults of the simulated DCGM.
#include "dcgmtest.h"

static void test_says_that_it_is_simulated(void **state)
{
    assert_int_equal(dc.is_simulated(), 1);
    assert_string_equal(dc.error_string(DCGM_CONNECTION_LOST),
                        "Host engine connection invalid/disconnected");
    assert_string_equal(dc.error_string(-59), "Unknown error");
}

static void test_an_embedded_engine_lists_the_gpus(void **state)
{
    struct nvmlsim *s = make_sim("2xA10");
    dcgm_handle h = embed();
    uint32_t ids[DCGM_MAX_GPUS];
    int n = 0;
    assert_int_equal(dc.dcgmGetAllDevices(h, ids, &n), 0);
    assert_int_equal(n, 2);
    assert_int_equal(ids[1], 1);
    struct dcgm_attributes a = {.version = DCGM_ATTRIBUTES};
    struct nvmlsim_gpu_info info;
    nvmlsim_gpu_info(s, 1, &info);
    assert_int_equal(dc.dcgmGetDeviceAttributes(h, 1, &a), 0);
    assert_string_equal(a.identifiers.uuid, info.uuid);
    assert_string_equal(a.identifiers.pci_bus_id, "00000000:18:00.0");
    assert_string_equal(a.identifiers.name, "NVIDIA A10");
    assert_int_equal(a.memory.fb_total, 23028);
    a.version = 1;
    assert_int_equal(dc.dcgmGetDeviceAttributes(h, 1, &a), DCGM_VERSION_MISMATCH);
    assert_int_equal(dc.dcgmGetDeviceAttributes(h, 2, &a), DCGM_BAD_PARAMETER);
    end_embedded(h);
    assert_int_equal(dc.dcgmGetAllDevices(h, ids, &n), DCGM_UNINITIALIZED);
    drop_sim(s);
}

static void test_without_simulated_gpus_nothing_starts(void **state)
{
    dcgm_handle h = 0;
    unsetenv(NVMLSIM_ENV);
    assert_int_equal(dc.dcgmInit(), 0);
    assert_int_equal(dc.dcgmStartEmbedded(DCGM_MODE_AUTO, &h), DCGM_NVML_NOT_LOADED);
    assert_int_equal(try_connect(&h), DCGM_CONNECTION_LOST);
    assert_int_equal(dc.dcgmShutdown(), 0);
}

static void test_a_connection_needs_the_host_engine(void **state)
{
    struct nvmlsim *s = make_sim("A10");
    dcgm_handle h = 0;
    assert_int_equal(try_connect(&h), DCGM_CONNECTION_LOST);
    nvmlsim_engine_control(s, NVMLSIM_ENGINE_START);
    assert_int_equal(try_connect(&h), 0);
    struct dcgm_version_info v = {.version = DCGM_VERSION_INFO};
    assert_int_equal(dc.dcgmHostengineVersionInfo(h, &v), 0);
    assert_non_null(strstr(v.raw, "version:4.6.1;"));
    nvmlsim_engine_control(s, NVMLSIM_ENGINE_RESTART);
    assert_int_equal(dc.dcgmHostengineVersionInfo(h, &v), DCGM_CONNECTION_LOST);
    assert_int_equal(dc.dcgmDisconnect(h), 0);
    assert_int_equal(try_connect(&h), 0);
    nvmlsim_engine_control(s, NVMLSIM_ENGINE_STOP);
    assert_int_equal(dc.dcgmHostengineVersionInfo(h, &v), DCGM_CONNECTION_LOST);
    assert_int_equal(dc.dcgmDisconnect(h), 0);
    assert_int_equal(dc.dcgmShutdown(), 0);
    drop_sim(s);
}

// A restart takes the groups and watches of a connection, and numbers are free again.
static void test_a_thousand_restarts_use_up_nothing(void **state)
{
    struct nvmlsim *s = make_sim("A10");
    uint16_t field = 150;
    nvmlsim_engine_control(s, NVMLSIM_ENGINE_START);
    for (int i = 0; i < 1000; i++) {
        dcgm_handle h = 0;
        struct watch w;
        struct dcgm_entity_pair e = gpu(0);
        assert_int_equal(try_connect(&h), 0);
        assert_int_equal(try_watch(h, &e, 1, &field, 1, &w), 0);
        nvmlsim_engine_control(s, NVMLSIM_ENGINE_RESTART);
        assert_int_equal(dc.dcgmUnwatchFields(h, w.group, w.fields), DCGM_CONNECTION_LOST);
        assert_int_equal(dc.dcgmDisconnect(h), 0);
    }
    assert_int_equal(dc.dcgmShutdown(), 0);
    drop_sim(s);
}

static void test_calls_fail_and_hang_as_the_rules_say(void **state)
{
    struct nvmlsim *s = make_sim("A10");
    dcgm_handle h = embed();
    uint32_t ids[DCGM_MAX_GPUS];
    int n = 0;
    ok(nvmlsim_fail_call(s, "dcgmGetAllDevices", -1, DCGM_TIMEOUT, 1));
    assert_int_equal(dc.dcgmGetAllDevices(h, ids, &n), DCGM_TIMEOUT);
    assert_int_equal(dc.dcgmGetAllDevices(h, ids, &n), 0);
    ok(nvmlsim_fail_call(s, "dcgm*", -1, DCGM_GENERIC, 1));
    assert_int_equal(dc.dcgmGetAllDevices(h, ids, &n), DCGM_GENERIC);
    ok(nvmlsim_fail_call(s, "*", -1, NVML_ERROR_UNKNOWN, 0)); // of NVML alone
    assert_int_equal(dc.dcgmGetAllDevices(h, ids, &n), 0);
    nvmlsim_clear_faults(s);
    ok(nvmlsim_hang_call(s, "dcgmGetAllDevices", -1, 50, 1));
    int64_t start = gs_mono_ns();
    assert_int_equal(dc.dcgmGetAllDevices(h, ids, &n), 0);
    assert_true(gs_mono_ns() - start >= 50 * GS_NS_PER_MS);
    fails(nvmlsim_fail_call(s, "dcgmGetAllDevises", -1, -1, 0), GS_EINVAL, "dcgmGetAllDevices");
    fails(nvmlsim_fail_call(s, "dcgmGetAllDevices", -1, 15, 0), GS_EINVAL, "error code of DCGM");
    fails(nvmlsim_crash_call(s, "nvmlInit_v2", 0), GS_EINVAL, "only calls of DCGM");
    end_embedded(h);
    drop_sim(s);
}

static void crash(void *arg)
{
    uint32_t ids[DCGM_MAX_GPUS];
    int n = 0;
    dcgm_handle h = embed();
    dc.dcgmGetAllDevices(h, ids, &n);
}

static void test_a_crashing_call_ends_its_process(void **state)
{
    struct nvmlsim *s = make_sim("A10");
    int status = 0;
    ok(nvmlsim_crash_call(s, "dcgmGetAllDevices", 1));
    pid_t pid = start_child(crash, NULL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    drop_sim(s);
}

static void test_unknown_fields_and_groups_are_refused(void **state)
{
    struct nvmlsim *s = make_sim("A10");
    dcgm_handle h = embed();
    dcgm_field_group f = 0, other = 0;
    dcgm_group g = 0;
    uint16_t known = 150, unknown[] = {150, 899};
    assert_int_equal(dc.dcgmFieldGroupCreate(h, 2, unknown, "a", &f), DCGM_BAD_PARAMETER);
    assert_int_equal(dc.dcgmFieldGroupCreate(h, 1, &known, "a", &f), 0);
    assert_int_equal(dc.dcgmFieldGroupCreate(h, 1, &known, "a", &other), DCGM_DUPLICATE);
    assert_int_equal(dc.dcgmGroupCreate(h, DCGM_GROUP_EMPTY, "g", &g), 0);
    assert_int_equal(dc.dcgmWatchFields(h, g, f, 1000000, 10, 0), DCGM_EMPTY_GROUP);
    assert_int_equal(dc.dcgmGroupAddDevice(h, g, 1), DCGM_BAD_PARAMETER);
    assert_int_equal(dc.dcgmGroupAddDevice(h, g, 0), 0);
    assert_int_equal(dc.dcgmGroupAddDevice(h, g, 0), DCGM_BAD_PARAMETER);
    assert_int_equal(dc.dcgmWatchFields(h, g + 1, f, 1000000, 10, 0), DCGM_NOT_CONFIGURED);
    assert_int_equal(dc.dcgmWatchFields(h, g, f, 0, 10, 0), DCGM_BAD_PARAMETER);
    assert_int_equal(dc.dcgmUnwatchFields(h, g, f), DCGM_NOT_WATCHED);
    struct dcgm_group_info_v3 info = {.version = DCGM_GROUP_INFO_V3};
    assert_int_equal(dc.dcgmGroupGetInfo(h, g, &info), 0);
    assert_int_equal(info.count, 1);
    assert_string_equal(info.name, "g");
    end_embedded(h);
    drop_sim(s);
}

static void test_groups_have_a_limit(void **state)
{
    struct nvmlsim *s = make_sim("A10");
    dcgm_handle h = embed();
    dcgm_group g = 0;
    for (int i = 0; i < 64; i++)
        assert_int_equal(dc.dcgmGroupCreate(h, DCGM_GROUP_ALL_GPUS, "g", &g), 0);
    assert_int_equal(dc.dcgmGroupCreate(h, DCGM_GROUP_ALL_GPUS, "g", &g), DCGM_LIMIT);
    assert_int_equal(dc.dcgmGroupDestroy(h, g), 0);
    assert_int_equal(dc.dcgmGroupCreate(h, DCGM_GROUP_ALL_GPUS, "g", &g), 0);
    end_embedded(h);
    drop_sim(s);
}

static void test_an_older_release_has_fewer_fields_and_structures(void **state)
{
    struct nvmlsim *s = make_sim("H100-80GB-HBM3");
    dcgm_handle h = embed();
    struct dcgm_link_status_v5 *links = gs_alloc(sizeof(*links));
    links->version = DCGM_LINK_STATUS_V5;
    assert_non_null(dc.field_by_id(1603));
    assert_null(dc.field_by_id(1613)); // 4.7
    assert_int_equal(dc.dcgmGetNvLinkLinkStatus(h, links), 0);
    setenv("GPUSCALE_SIM_DCGM_VERSION", "4.5.3", 1);
    assert_null(dc.field_by_id(1603));
    assert_int_equal(dc.dcgmGetNvLinkLinkStatus(h, links), DCGM_VERSION_MISMATCH);
    links->version = DCGM_LINK_STATUS_V4;
    assert_int_equal(dc.dcgmGetNvLinkLinkStatus(h, links), 0);
    setenv("GPUSCALE_SIM_DCGM_VERSION", "4.7.0", 1);
    assert_non_null(dc.field_by_id(1613));
    unsetenv("GPUSCALE_SIM_DCGM_VERSION");
    free(links);
    end_embedded(h);
    drop_sim(s);
}

static void test_a_field_has_its_type_and_level(void **state)
{
    const struct dcgm_field_meta *m = dc.field_by_id(155);
    assert_int_equal(m->field_id, 155);
    assert_int_equal(m->field_type, 'd');
    assert_int_equal(m->entity_level, DCGM_ENTITY_GPU);
    assert_int_equal(m->scope, 1);
    assert_string_equal(m->tag, "power_usage");
    assert_int_equal(dc.field_by_id(1)->scope, 0);
    assert_int_equal(dc.field_by_id(780)->entity_level, DCGM_ENTITY_LINK);
    assert_int_equal(dc.field_by_id(1005)->entity_level, DCGM_ENTITY_GPU_I);
    assert_null(dc.field_by_id(899));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_says_that_it_is_simulated),
        cmocka_unit_test(test_an_embedded_engine_lists_the_gpus),
        cmocka_unit_test(test_without_simulated_gpus_nothing_starts),
        cmocka_unit_test(test_a_connection_needs_the_host_engine),
        cmocka_unit_test(test_a_thousand_restarts_use_up_nothing),
        cmocka_unit_test(test_calls_fail_and_hang_as_the_rules_say),
        cmocka_unit_test(test_a_crashing_call_ends_its_process),
        cmocka_unit_test(test_unknown_fields_and_groups_are_refused),
        cmocka_unit_test(test_groups_have_a_limit),
        cmocka_unit_test(test_an_older_release_has_fewer_fields_and_structures),
        cmocka_unit_test(test_a_field_has_its_type_and_level),
    };
    return cmocka_run_group_tests(tests, load_dcgm, unload_dcgm);
}
