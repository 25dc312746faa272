// SPDX-License-Identifier: Apache-2.0
// Watches, samples and profiling values of the simulated DCGM.
#include "dcgmtest.h"

enum { GR_ENGINE = 1001, DRAM = 1005, PCIE_TX = 1009, TEMPERATURE = 150, DRIVER = 1 };

static void busy(void *arg)
{
    struct nvmlsim_ctx *ctx = NULL;
    ok(nvmlsim_ctx_open(0, &ctx));
    for (;;)
        ok(nvmlsim_kernel_run(ctx, 20000, 1));
}

static void test_a_field_without_a_watch_has_no_value(void **state)
{
    struct nvmlsim *s = make_sim("A10");
    dcgm_handle h = embed();
    uint16_t field = TEMPERATURE;
    struct dcgm_entity_pair e = gpu(0);
    struct watch w;
    struct dcgm_value_v2 v = read_latest(h, e, field);
    assert_int_equal(v.status, DCGM_NOT_WATCHED);
    assert_int_equal(v.value.i64, DCGM_BLANK_INT64);
    v = read_flagged(h, e, field, DCGM_READ_LIVE);
    assert_int_equal(v.status, 0);
    assert_in_range(v.value.i64, 20, 100);
    assert_int_equal(try_watch(h, &e, 1, &field, 1, &w), 0);
    v = await_value(h, e, field);
    assert_in_range(v.ts, gs_unix_us() - 60000000, gs_unix_us());
    end_watch(&w);
    assert_int_equal(read_latest(h, e, field).status, DCGM_NOT_WATCHED);
    end_embedded(h);
    drop_sim(s);
}

static void test_a_field_of_the_machine_has_one_value(void **state)
{
    struct nvmlsim *s = make_sim("2xA10");
    dcgm_handle h = embed();
    uint16_t field = DRIVER;
    struct dcgm_entity_pair e = gpu(1);
    struct watch w;
    assert_int_equal(try_watch(h, &e, 1, &field, 1, &w), 0);
    assert_int_equal(dc.dcgmUpdateAllFields(h, 1), 0);
    struct dcgm_value_v2 v = read_latest(h, gpu(0), field);
    assert_int_equal(v.field_type, DCGM_TYPE_TEXT);
    assert_string_equal(v.value.str, "570.124.06-simulated");
    end_embedded(h);
    drop_sim(s);
}

struct count {
    int n;
    int64_t last;
};

static int count_value(uint32_t group, uint32_t id, struct dcgm_value_v1 *v, int n, void *arg)
{
    struct count *c = arg;
    assert_true(v->ts > c->last);
    c->last = v->ts;
    c->n += n;
    return 0;
}

static void test_samples_are_taken_at_the_interval_and_kept(void **state)
{
    struct nvmlsim *s = make_sim("A10");
    dcgm_handle h = embed();
    uint16_t field = TEMPERATURE;
    struct dcgm_entity_pair e = gpu(0);
    struct watch w;
    assert_int_equal(try_watch(h, &e, 1, &field, 1, &w), 0);
    struct count c = {0};
    long long next = 0;
    for (int i = 0; i < 3000 && c.n < 5; i++) { // in parts, each sample once
        assert_int_equal(
            dc.dcgmGetValuesSince_v2(h, w.group, w.fields, next, &next, count_value, &c), 0);
        sleep_ms(5);
    }
    assert_true(c.n >= 5);
    assert_int_equal(dc.dcgmWatchFields(h, w.group, w.fields, 10000, 60, 2), 0);
    sleep_ms(50);
    c = (struct count){0};
    assert_int_equal(dc.dcgmGetValuesSince_v2(h, w.group, w.fields, 0, &next, count_value, &c), 0);
    assert_in_range(c.n, 1, 2);
    end_embedded(h);
    drop_sim(s);
}

// A manual engine samples only when it is told to.
static void test_profiling_values_are_blank_in_the_first_interval(void **state)
{
    struct nvmlsim *s = make_sim("A10");
    uint16_t field = GR_ENGINE;
    struct dcgm_entity_pair e = gpu(0);
    struct watch w;
    dcgm_handle h = 0;
    assert_int_equal(dc.dcgmInit(), 0);
    assert_int_equal(dc.dcgmStartEmbedded(DCGM_MODE_MANUAL, &h), 0);
    assert_int_equal(try_watch(h, &e, 1, &field, 1, &w), 0);
    assert_int_equal(read_latest(h, e, field).status, DCGM_NO_DATA);
    assert_int_equal(dc.dcgmUpdateAllFields(h, 1), 0);
    struct dcgm_value_v2 v = read_latest(h, e, field);
    assert_int_equal(v.status, 0);
    assert_true(v.value.dbl == DCGM_BLANK_DOUBLE);
    sleep_ms(20);
    assert_int_equal(dc.dcgmUpdateAllFields(h, 1), 0);
    assert_true(read_latest(h, e, field).value.dbl == 0);
    end_embedded(h);
    drop_sim(s);
}

static double await_activity(dcgm_handle h, struct dcgm_entity_pair e)
{
    for (int i = 0; i < 3000; i++) {
        struct dcgm_value_v2 v = await_value(h, e, GR_ENGINE);
        if (v.value.dbl > 0.5)
            return v.value.dbl;
        sleep_ms(10);
    }
    fail_msg("the counters count nothing");
    return 0;
}

static void test_each_architecture_since_volta_has_profiling(void **state)
{
    static const char *const models[] = {"Tesla-V100-SXM2-16GB", "Tesla-T4", "A10",
                                         "A100-SXM4-80GB",       "L4",       "H100-80GB-HBM3"};
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        struct nvmlsim *s = make_sim(models[i]);
        pid_t load = start_child(busy, NULL);
        dcgm_handle h = embed();
        static const uint16_t fields[] = {GR_ENGINE, DRAM, PCIE_TX};
        struct dcgm_metric_groups groups = {.version = DCGM_METRIC_GROUPS};
        struct dcgm_entity_pair e = gpu(0);
        struct watch w;
        assert_int_equal(dc.dcgmProfGetSupportedMetricGroups(h, &groups), 0);
        assert_true(groups.count >= 4);
        assert_int_equal(try_watch(h, &e, 1, fields, 3, &w), 0);
        assert_true(await_activity(h, e) <= 1);
        assert_int_equal(await_value(h, e, PCIE_TX).value.i64, 0);
        end_embedded(h);
        end_child(load, SIGKILL);
        drop_sim(s);
    }
}

static void test_a_gpu_before_volta_has_no_profiling(void **state)
{
    struct nvmlsim *s = make_sim("Tesla-P100-PCIE-16GB");
    dcgm_handle h = embed();
    struct dcgm_metric_groups groups = {.version = DCGM_METRIC_GROUPS};
    uint16_t field = GR_ENGINE;
    struct dcgm_entity_pair e = gpu(0);
    struct watch w;
    assert_int_equal(dc.dcgmProfGetSupportedMetricGroups(h, &groups), DCGM_PROFILING_NOT_SUPPORTED);
    assert_int_equal(try_watch(h, &e, 1, &field, 1, &w), DCGM_PROFILING_NOT_SUPPORTED);
    end_embedded(h);
    drop_sim(s);
}

static void test_paused_and_dead_counters(void **state)
{
    struct nvmlsim *s = make_sim("A10");
    pid_t load = start_child(busy, NULL);
    dcgm_handle h = embed();
    uint16_t field = GR_ENGINE;
    struct dcgm_entity_pair e = gpu(0);
    struct watch w;
    assert_int_equal(try_watch(h, &e, 1, &field, 1, &w), 0);
    await_activity(h, e);
    assert_int_equal(dc.dcgmProfPause(h), 0);
    for (int i = 0; i < 3000 && read_latest(h, e, field).value.dbl != DCGM_BLANK_DOUBLE; i++)
        sleep_ms(10);
    assert_true(read_latest(h, e, field).value.dbl == DCGM_BLANK_DOUBLE);
    assert_int_equal(dc.dcgmProfResume(h), 0);
    await_activity(h, e);
    ok(nvmlsim_kill_counters(s, 0, true));
    for (int i = 0; i < 3000 && await_value(h, e, field).value.dbl > 0; i++)
        sleep_ms(10);
    assert_true(await_value(h, e, field).value.dbl == 0);
    nvmlsim_clear_faults(s);
    await_activity(h, e);
    end_embedded(h);
    end_child(load, SIGKILL);
    drop_sim(s);
}

static void own_counters(void *arg)
{
    uint16_t field = GR_ENGINE;
    struct dcgm_entity_pair e = gpu(0);
    struct watch w;
    dcgm_handle h = embed();
    int rc = try_watch(h, &e, 1, &field, 1, &w);
    while (rc == DCGM_PROFILING_FAILED) { // the parent tries, too
        sleep_ms(5);
        rc = dc.dcgmWatchFields(h, w.group, w.fields, 10000, 60, 0);
    }
    for (;;)
        pause();
}

// Another program (prof-owner), and another engine until it dies.
static void test_the_counters_have_one_owner(void **state)
{
    struct nvmlsim *s = make_sim("T4");
    uint16_t field = GR_ENGINE, plain = TEMPERATURE;
    struct dcgm_entity_pair e = gpu(0);
    struct watch w, other;
    dcgm_handle h = embed();
    nvmlsim_own_counters(s, true);
    assert_int_equal(try_watch(h, &e, 1, &field, 1, &w), DCGM_PROFILING_FAILED);
    assert_int_equal(try_watch(h, &e, 1, &plain, 1, &other), 0);
    nvmlsim_own_counters(s, false);
    assert_int_equal(dc.dcgmWatchFields(h, w.group, w.fields, 10000, 60, 0), 0);
    end_embedded(h);

    pid_t owner = start_child(own_counters, NULL);
    h = embed();
    int rc = 0;
    for (int i = 0; i < 3000 && rc == 0; i++) { // until the child has them
        rc = try_watch(h, &e, 1, &field, 1, &w);
        if (rc == 0)
            end_watch(&w);
        sleep_ms(10);
    }
    assert_int_equal(rc, DCGM_PROFILING_FAILED);
    end_child(owner, SIGKILL);
    assert_int_equal(dc.dcgmWatchFields(h, w.group, w.fields, 10000, 60, 0), 0);
    end_embedded(h);
    drop_sim(s);
}

// The clients of the host engine share the counters, and an embedded engine gets none.
static void test_the_host_engine_shares_the_counters(void **state)
{
    struct nvmlsim *s = make_sim("T4");
    uint16_t field = GR_ENGINE;
    struct dcgm_entity_pair e = gpu(0);
    struct watch w, other;
    dcgm_handle connected = 0, h = 0;
    nvmlsim_engine_control(s, NVMLSIM_ENGINE_START);
    setenv("GPUSCALE_SIM_DCGM_HOSTENGINE", "1", 1);
    pid_t owner = start_child(own_counters, NULL);
    for (int i = 0; i < 3000; i++) { // until the child has them
        unsetenv("GPUSCALE_SIM_DCGM_HOSTENGINE");
        h = embed();
        int rc = try_watch(h, &e, 1, &field, 1, &w);
        end_embedded(h);
        if (rc == DCGM_PROFILING_FAILED)
            break;
        assert_int_equal(rc, 0);
        sleep_ms(10);
    }
    assert_int_equal(try_connect(&connected), 0);
    assert_int_equal(try_watch(connected, &e, 1, &field, 1, &other), 0);
    assert_int_equal(dc.dcgmDisconnect(connected), 0);
    assert_int_equal(dc.dcgmShutdown(), 0);
    end_child(owner, SIGKILL);
    drop_sim(s);
}

static void test_since_hopper_the_counters_have_no_owner(void **state)
{
    struct nvmlsim *s = make_sim("H100-80GB-HBM3");
    uint16_t field = GR_ENGINE;
    struct dcgm_entity_pair e = gpu(0);
    struct watch w;
    dcgm_handle h = embed();
    nvmlsim_own_counters(s, true);
    assert_int_equal(try_watch(h, &e, 1, &field, 1, &w), 0);
    end_embedded(h);
    drop_sim(s);
}

static void test_a_lost_gpu_has_no_values(void **state)
{
    struct nvmlsim *s = make_sim("A10");
    dcgm_handle h = embed();
    int status = 0;
    ok(nvmlsim_lose_gpu(s, 0, true));
    assert_int_equal(read_flagged(h, gpu(0), TEMPERATURE, DCGM_READ_LIVE).status, DCGM_GPU_LOST);
    assert_int_equal(dc.dcgmGetGpuStatus(h, 0, &status), 0);
    assert_int_equal(status, 5);
    end_embedded(h);
    drop_sim(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_field_without_a_watch_has_no_value),
        cmocka_unit_test(test_a_field_of_the_machine_has_one_value),
        cmocka_unit_test(test_samples_are_taken_at_the_interval_and_kept),
        cmocka_unit_test(test_profiling_values_are_blank_in_the_first_interval),
        cmocka_unit_test(test_each_architecture_since_volta_has_profiling),
        cmocka_unit_test(test_a_gpu_before_volta_has_no_profiling),
        cmocka_unit_test(test_paused_and_dead_counters),
        cmocka_unit_test(test_the_counters_have_one_owner),
        cmocka_unit_test(test_the_host_engine_shares_the_counters),
        cmocka_unit_test(test_since_hopper_the_counters_have_no_owner),
        cmocka_unit_test(test_a_lost_gpu_has_no_values),
    };
    return cmocka_run_group_tests(tests, load_dcgm, unload_dcgm);
}
