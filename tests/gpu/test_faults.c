// SPDX-License-Identifier: Apache-2.0
// Each NVML call that is made, failing with each code, and hanging: for one of two simulated GPUs.
// The other one must not notice, and the first must come back.
#include "patience.h"
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "gpu/gpu.h"
#include "gpu/nvml.h"
#include "nvmlsim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATIENCE_MS = 60 };

struct fixture {
    struct nvmlsim *sim;
    char name[64];
    struct gpu_backend *backend;
    struct gpu_snapshot *s;
};

static const struct gpu_snapshot *sample(struct fixture *f)
{
    gpu_snapshot_free(f->s);
    f->s = NULL;
    assert_ok(gpu_backend_sample(f->backend, &f->s));
    return f->s;
}

static const struct gpu_device *device(const struct gpu_snapshot *s, uint32_t index)
{
    for (size_t i = 0; i < s->n_devices; i++)
        if (s->devices[i].index == index)
            return &s->devices[i];
    return NULL;
}

static bool works(const struct gpu_device *d)
{
    return d && !d->lost && !d->hung && d->fields[GPU_F_POWER_USAGE].validity == GPU_VALID &&
           d->fields[GPU_F_FB_USED].validity == GPU_VALID &&
           d->fields[GPU_F_GPU_TEMP].validity == GPU_VALID;
}

static int open_backend_on(void **state, const char *gpus, int64_t patience_ms)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    struct nvmlsim_spec spec;
    assert_ok(nvmlsim_spec_parse(gpus, &spec));
    snprintf(f->name, sizeof(f->name), "/gpuscale-test-faults-%d", getpid());
    assert_ok(nvmlsim_create(f->name, &spec, &f->sim));
    setenv(NVMLSIM_ENV, f->name, 1);
    GS_AUTO_FREE char *library = gs_format("%s/src/simulation/nvmlsim/libgpuscale-nvmlsim.so",
                                           getenv("GPUSCALE_BUILD_ROOT"));
    bool wanted[GPU_F_COUNT];
    for (int i = 0; i < GPU_F_COUNT; i++)
        wanted[i] = i != GPU_F_PCIE_TX && i != GPU_F_PCIE_RX;
    struct gpu_backend_config cfg = {
        .library = library,
        .simulated_only = true,
        .wanted = wanted,
        .patience_ns = patience_ms * GS_NS_PER_MS,
        .hung_after_ns = 2 * patience_ms * GS_NS_PER_MS,
    };
    assert_ok(gpu_backend_open(&cfg, &f->backend));
    *state = f;
    return 0;
}

static int open_backend(void **state, int64_t patience_ms)
{
    return open_backend_on(state, "2xH100-80GB-HBM3", patience_ms);
}

static int setup(void **state)
{
    return open_backend(state, WAIT_MS);
}

static int setup_rack(void **state)
{
    return open_backend_on(state, "GB200,A100-SXM4-80GB", WAIT_MS);
}

static int setup_impatient(void **state)
{
    return open_backend(state, PATIENCE_MS);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    gpu_snapshot_free(f->s);
    gpu_backend_close(f->backend);
    nvmlsim_detach(f->sim);
    gs_error_free(nvmlsim_unlink(f->name));
    free(f);
    return 0;
}

// The simulated library lacks a few calls; a rule for those is refused.
static bool fails(struct fixture *f, enum nvml_call c, int code)
{
    GS_AUTO_ERROR struct gs_error *err = nvmlsim_fail_call(f->sim, nvml_call_symbol(c), 0, code, 0);
    return !err;
}

static void test_every_call_with_every_code(void **state)
{
    struct fixture *f = *state;
    static const int codes[] = {1,  2,  3,  4,  6,  7,  9,  10, 12, 13, 15,
                                16, 17, 18, 20, 21, 25, 26, 27, 28, 999};
    unsigned tried = 0;
    for (enum nvml_call c = 0; c < NVML_CALL_COUNT; c++) {
        for (size_t i = 0; i < GS_ARRAY_LEN(codes); i++) {
            if (!fails(f, c, codes[i]))
                continue;
            tried++;
            if (!works(device(sample(f), 1)))
                fail_msg("%s: %d of GPU 0 changes GPU 1", nvml_call_symbol(c), codes[i]);
            const struct gpu_device *d = device(f->s, 0);
            for (size_t p = 0; d && p < d->n_processes; p++)
                assert_true(d->processes[p].sm_util <= 100);
            nvmlsim_clear_faults(f->sim);
        }
        if (!works(device(sample(f), 0)))
            fail_msg("GPU 0 does not come back after %s", nvml_call_symbol(c));
    }
    assert_true(tried > 40 * GS_ARRAY_LEN(codes));
}

static void assert_value(const struct gpu_device *d, enum gpu_field field, int64_t v)
{
    assert_int_equal(d->fields[field].validity, GPU_VALID);
    assert_int_equal(d->fields[field].i, v);
}

// A wrong checksum is an answer, and the older form of the fabric's data lacks only the summary.
static void test_integrity_of_board_and_fabric(void **state)
{
    enum { CORRUPTED_INFOROM = 14, VERSION_MISMATCH = 25 };
    struct fixture *f = *state;
    assert_ok(nvmlsim_fail_call(f->sim, "nvmlDeviceValidateInforom", 0, CORRUPTED_INFOROM, 0));
    assert_ok(nvmlsim_fail_call(f->sim, "nvmlDeviceGetGpuFabricInfoV", 0, VERSION_MISMATCH, 1));
    const struct gpu_device *d = device(sample(f), 0), *other = device(f->s, 1);
    assert_value(d, GPU_F_INFOROM_VALID, 0);
    assert_value(other, GPU_F_INFOROM_VALID, 1);
    assert_value(d, GPU_F_FABRIC_STATUS, 3);
    assert_value(d, GPU_F_FABRIC_HEALTH_MASK, 0x1aa);
    assert_int_equal(d->fields[GPU_F_FABRIC_HEALTH_SUMMARY].validity, GPU_NOT_SUPPORTED);
    assert_value(other, GPU_F_FABRIC_HEALTH_SUMMARY, 1);
    assert_value(d, GPU_F_RECOVERY_ACTION, 0);
    assert_int_equal(f->s->n_errors, 0);
    assert_ok(nvmlsim_fail_call(f->sim, "nvmlDeviceGetGpuFabricInfoV", 0, VERSION_MISMATCH, 0));
    d = device(sample(f), 0);
    assert_int_equal(d->fields[GPU_F_FABRIC_STATUS].validity, GPU_NOT_SUPPORTED);
    assert_int_equal(f->s->n_errors, 0);
}

static void assert_reason(const struct gpu_device *d, enum gpu_field field, enum gpu_validity why)
{
    assert_int_equal(d->fields[field].validity, why);
}

// A board of a rack, and one that lacks what it has.
static void test_links_to_the_cpu_and_the_fabric(void **state)
{
    struct fixture *f = *state;
    assert_ok(nvmlsim_set_value(f->sim, 0, NVMLSIM_VALUE_FABRIC_CLIQUE, 7));
    assert_ok(nvmlsim_set_value(f->sim, 0, 233, 9));
    const struct gpu_device *d = device(sample(f), 0), *other = device(f->s, 1);
    assert_value(d, GPU_F_C2C_COUNT, 5);
    assert_value(d, GPU_F_C2C_STATUS, 1);
    assert_value(d, GPU_F_C2C_MAX_BANDWIDTH, 44712);
    assert_value(d, GPU_F_C2C_ERROR_INTR, 0);
    assert_value(d, GPU_F_C2C_ERROR_REPLAY, 0);
    assert_value(d, GPU_F_C2C_ERROR_REPLAY_B2B, 9);
    assert_value(d, GPU_F_C2C_POWER_STATE, 0);
    assert_reason(other, GPU_F_C2C_COUNT, GPU_NOT_SUPPORTED);
    assert_reason(other, GPU_F_C2C_POWER_STATE, GPU_NOT_SUPPORTED);

    assert_value(d, GPU_F_FABRIC_CLIQUE_ID, 7);
    assert_reason(d, GPU_F_FABRIC_CLUSTER_UUID, GPU_VALID);
    assert_string_equal(gpu_field_text(f->s, d, GPU_F_FABRIC_CLUSTER_UUID),
                        "67707573-6361-6c65-2d63-6c7573746572");
    assert_reason(other, GPU_F_FABRIC_CLIQUE_ID, GPU_NOT_SUPPORTED);
    assert_null(gpu_field_text(f->s, other, GPU_F_FABRIC_CLUSTER_UUID));

    // While it registers, neither is known.
    assert_ok(nvmlsim_set_value(f->sim, 0, NVMLSIM_VALUE_FABRIC_STATE, 2));
    d = device(sample(f), 0);
    assert_reason(d, GPU_F_FABRIC_CLIQUE_ID, GPU_NOT_SUPPORTED);
    assert_null(gpu_field_text(f->s, d, GPU_F_FABRIC_CLUSTER_UUID));
    assert_int_equal(f->s->n_errors, 0); // also where the SRAM status is not ours to read
}

static void test_spare_rows_sram_and_margin(void **state)
{
    struct fixture *f = *state;
    assert_ok(nvmlsim_set_value(f->sim, 0, NVMLSIM_VALUE_BANKS_NONE, 2));
    assert_ok(nvmlsim_set_value(f->sim, 0, NVMLSIM_VALUE_SRAM_EXCEEDED, 1));
    const struct gpu_device *d = device(sample(f), 0), *other = device(f->s, 1);
    assert_value(d, GPU_F_BANKS_MAX, 638);
    assert_value(d, GPU_F_BANKS_HIGH, 0);
    assert_value(d, GPU_F_BANKS_PARTIAL, 0);
    assert_value(d, GPU_F_BANKS_LOW, 0);
    assert_value(d, GPU_F_BANKS_NONE, 2);
    assert_value(other, GPU_F_BANKS_NONE, 0);
    if (geteuid() == 0) {
        assert_value(d, GPU_F_SRAM_EXCEEDED, 1);
        assert_value(other, GPU_F_SRAM_EXCEEDED, 0);
    } else {
        assert_reason(d, GPU_F_SRAM_EXCEEDED, GPU_NO_PERMISSION);
    }
    assert_reason(d, GPU_F_TEMP_LIMIT, GPU_VALID);
    assert_in_range(d->fields[GPU_F_TEMP_LIMIT].i, 10, 60); // 52 at idle
    assert_reason(other, GPU_F_TEMP_LIMIT, GPU_NOT_SUPPORTED);
}

// The same times have other ids from one driver to the next, and those ids other meanings before.
static void test_times_of_reduced_clocks_by_driver(void **state)
{
    struct fixture *f = *state;
    static const struct {
        uint32_t branch, first_id;
    } drivers[] = {{575, 251}, {580, 251}, {590, 269}, {610, 269}};
    static const enum gpu_field thermal[] = {GPU_F_CLOCK_NS_SW_THERMAL, GPU_F_CLOCK_NS_HW_THERMAL,
                                             GPU_F_CLOCK_NS_POWER_BRAKE};
    assert_ok(nvmlsim_set_value(f->sim, 0, 74, 740));
    assert_ok(nvmlsim_set_value(f->sim, 0, 76, 760));
    for (uint32_t i = 0; i < 3; i++) {
        assert_ok(nvmlsim_set_value(f->sim, 0, 251 + i, 2510 + i));
        assert_ok(nvmlsim_set_value(f->sim, 0, 269 + i, 2690 + i));
    }
    const struct gpu_device *d = device(sample(f), 0); // R570
    assert_value(d, GPU_F_CLOCK_NS_POWER_CAP, 740);
    assert_value(d, GPU_F_CLOCK_NS_SYNC_BOOST, 760);
    for (size_t i = 0; i < GS_ARRAY_LEN(thermal); i++)
        assert_reason(d, thermal[i], GPU_NOT_SUPPORTED);
    for (size_t k = 0; k < GS_ARRAY_LEN(drivers); k++) {
        assert_ok(nvmlsim_set_value(f->sim, 0, NVMLSIM_VALUE_DRIVER_BRANCH, drivers[k].branch));
        d = device(sample(f), 0);
        assert_int_equal(strtoul(f->s->driver_version, NULL, 10), drivers[k].branch);
        for (size_t i = 0; i < GS_ARRAY_LEN(thermal); i++)
            assert_value(d, thermal[i], (int64_t)(drivers[k].first_id * 10 + i));
    }
}

static void test_nvlink_counters_of_each_link(void **state)
{
    struct fixture *f = *state;
    sample(f);
    usleep(110000); // between two GPM samples there must be as much
    const struct gpu_device *d = device(sample(f), 0), *other = device(f->s, 1);
    assert_value(d, GPU_F_PROF_NVLINK_L0_TX, 0);
    assert_value(d, GPU_F_PROF_NVLINK_L17_RX, 0);
    assert_value(d, GPU_F_PROF_C2C_TX_ALL, 0);
    assert_reason(other, GPU_F_PROF_NVLINK_L0_TX, GPU_NOT_SUPPORTED); // no GPM
    assert_value(d, GPU_F_NVLINK_L17, 0);
    assert_value(d, GPU_F_NVLINK_TX_L17, 0);
    assert_value(d, GPU_F_NVLINK_RX_TOTAL, 0);
    assert_value(other, GPU_F_NVLINK_L11, 0);
    assert_reason(other, GPU_F_NVLINK_L12, GPU_NOT_SUPPORTED); // it has 12
}

// Until GPU 0 works (or is hung) and GPU 1 works: where the machine stands still for a moment, each
// may seem to hang. A hang stays until it is cleared: what it disturbs, too, does not come back by
// itself.
static bool wait_for(struct fixture *f, bool hung)
{
    for (int64_t end = gs_mono_ns() + WAIT_NS; gs_mono_ns() < end; usleep(2000)) {
        const struct gpu_device *d = device(sample(f), 0);
        if (works(device(f->s, 1)) && (hung ? d && d->hung : works(d)))
            return true;
    }
    return false;
}

static void test_every_call_that_hangs(void **state)
{
    struct fixture *f = *state;
    // Calls of every pass that are for a device.
    static const enum nvml_call calls[] = {
        NVML_CALL_handle_by_index,
        NVML_CALL_uuid,
        NVML_CALL_clock_info,
        NVML_CALL_temperature,
        NVML_CALL_power_usage,
        NVML_CALL_total_energy,
        NVML_CALL_pcie_replay,
        NVML_CALL_utilization,
        NVML_CALL_samples,
        NVML_CALL_encoder,
        NVML_CALL_memory_v2,
        NVML_CALL_remapped_rows,
        NVML_CALL_field_values,
        NVML_CALL_mig_mode,
        NVML_CALL_compute_processes_v2,
        NVML_CALL_process_utilization,
        NVML_CALL_gpm_get,
    };
    assert_true(wait_for(f, false));
    for (size_t i = 0; i < GS_ARRAY_LEN(calls); i++) {
        const char *symbol = nvml_call_symbol(calls[i]);
        usleep(110000); // between two GPM samples there must be as much
        assert_ok(nvmlsim_hang_call(f->sim, symbol, 0, 600000, 0));
        if (!wait_for(f, true))
            fail_msg("%s: GPU 0 is not hung, or GPU 1 is disturbed", symbol);
        assert_int_equal(device(f->s, 0)->fields[GPU_F_POWER_USAGE].validity, GPU_HUNG);
        int64_t start, end = gs_mono_ns() + WAIT_NS;
        do { // nobody waits for it any more, as far as the machine lets us see that
            start = gs_mono_ns();
            assert_true(start < end);
            sample(f);
        } while (gs_mono_ns() - start >= PATIENCE_MS * GS_NS_PER_MS);
        nvmlsim_clear_faults(f->sim);
        if (!wait_for(f, false))
            fail_msg("%s: GPU 0 does not come back", symbol);
    }
}

static void assert_same_device(const struct gpu_device *d, const struct gpu_device *before)
{
    assert_non_null(d);
    assert_false(d->lost || d->hung);
    assert_string_equal(d->uuid, before->uuid);
    assert_string_equal(d->name, before->name);
    assert_string_equal(d->pci_bus_id, before->pci_bus_id);
    assert_true(d->has_minor && d->minor == before->minor);
    assert_int_equal(d->memory_total, before->memory_total);
    assert_string_equal(d->texts[GPU_T_SERIAL], before->texts[GPU_T_SERIAL]);
}

static const int passing_codes[] = {10, 17, 20, 23,
                                    999}; // time, system, memory, resources, unknown

// The names are read again whenever other fields are wanted.
static void want_again(struct fixture *f, bool names)
{
    bool wanted[GPU_F_COUNT];
    for (int i = 0; i < GPU_F_COUNT; i++)
        wanted[i] = i != GPU_F_PCIE_TX && i != GPU_F_PCIE_RX;
    if (names)
        gpu_backend_want(f->backend, wanted, NULL);
}

static void test_known_gpus_survive_a_call_that_fails_once(void **state)
{
    struct fixture *f = *state;
    static const enum nvml_call calls[] = {
        NVML_CALL_count,           NVML_CALL_driver_version, NVML_CALL_nvml_version,
        NVML_CALL_handle_by_index, NVML_CALL_uuid,           NVML_CALL_name,
        NVML_CALL_minor,           NVML_CALL_pci_info,       NVML_CALL_serial,
    };
    struct gpu_device before[2] = {*device(sample(f), 0), *device(f->s, 1)};
    char driver[80], nvml[80];
    memcpy(driver, f->s->driver_version, sizeof(driver));
    memcpy(nvml, f->s->nvml_version, sizeof(nvml));
    for (size_t c = 0; c < GS_ARRAY_LEN(calls); c++) {
        for (size_t i = 0; i < 2 * GS_ARRAY_LEN(passing_codes); i++) {
            const char *call = nvml_call_symbol(calls[c]);
            assert_ok(nvmlsim_fail_call(f->sim, call, -1, passing_codes[i / 2], 1));
            want_again(f, i % 2);
            sample(f);
            for (uint32_t k = 0; k < 2; k++) {
                if (!works(device(f->s, k)))
                    fail_msg("GPU %u does not survive %s: %d", k, call, passing_codes[i / 2]);
                assert_same_device(device(f->s, k), &before[k]);
            }
            assert_int_equal(f->s->n_unopened, 0);
            assert_string_equal(f->s->driver_version, driver);
            assert_string_equal(f->s->nvml_version, nvml);
            nvmlsim_clear_faults(f->sim);
        }
    }
}

static void test_names_that_failed_at_first_are_read_again(void **state)
{
    struct fixture *f = *state;
    enum { MEMORY = 20 };
    assert_ok(nvmlsim_fail_call(f->sim, nvml_call_symbol(NVML_CALL_minor), -1, MEMORY, 2));
    assert_ok(nvmlsim_fail_call(f->sim, nvml_call_symbol(NVML_CALL_serial), -1, MEMORY, 2));
    assert_false(device(sample(f), 0)->has_minor);
    assert_null(gpu_field_text(f->s, device(f->s, 0), GPU_F_SERIAL));
    assert_true(device(sample(f), 0)->has_minor);
    assert_non_null(gpu_field_text(f->s, device(f->s, 0), GPU_F_SERIAL));
}

// gpu -1: of all.
static void fail_identification(struct fixture *f, int gpu, int code)
{
    nvmlsim_clear_faults(f->sim);
    assert_ok(nvmlsim_fail_call(f->sim, nvml_call_symbol(NVML_CALL_handle_by_index), gpu, code, 0));
    assert_ok(nvmlsim_fail_call(f->sim, nvml_call_symbol(NVML_CALL_uuid), gpu, code, 0));
}

// Neither by its handle nor by its UUID. It has no values then, and is not lost.
static void test_gpus_that_cannot_be_recognized_keep_their_names(void **state)
{
    enum { RESET_REQUIRED = 16 };
    struct fixture *f = *state;
    const struct gpu_device before = *device(sample(f), 0);
    for (size_t i = 0; i < GS_ARRAY_LEN(passing_codes); i++) {
        fail_identification(f, -1, passing_codes[i]);
        assert_same_device(device(sample(f), 0), &before);
        fail_identification(f, 0, passing_codes[i]);
        const struct gpu_device *d = device(sample(f), 0);
        assert_same_device(d, &before);
        assert_reason(d, GPU_F_POWER_USAGE, GPU_FAILED);
        assert_false(d->processes_valid);
        assert_true(works(device(f->s, 1)));
    }
    fail_identification(f, 0, RESET_REQUIRED);
    assert_null(device(sample(f), 0));
    assert_int_equal(f->s->n_unopened, 1);
    assert_int_equal(f->s->unopened_code, RESET_REQUIRED);
    nvmlsim_clear_faults(f->sim);
    assert_same_device(device(sample(f), 0), &before);
}

static void test_gpus_that_stay_unrecognized_are_reported(void **state)
{
    enum { UNKNOWN = 999 };
    struct fixture *f = *state;
    assert_true(wait_for(f, false));
    fail_identification(f, 0, UNKNOWN);
    for (int64_t end = gs_mono_ns() + WAIT_NS; device(sample(f), 0); usleep(2000))
        assert_true(gs_mono_ns() < end);
    assert_int_equal(f->s->unopened_code, UNKNOWN);
    nvmlsim_clear_faults(f->sim);
    assert_true(wait_for(f, false));
}

// However late: its worker may finish at any point of a later sample.
static void test_gpus_that_answer_late_stay(void **state)
{
    struct fixture *f = *state;
    const char *identify = nvml_call_symbol(NVML_CALL_handle_by_index);
    const char *read = nvml_call_symbol(NVML_CALL_power_usage);
    assert_true(wait_for(f, false));
    for (unsigned i = 0; i < 20; i++) {
        assert_ok(nvmlsim_hang_call(f->sim, identify, 0, PATIENCE_MS + 3 * i, 1));
        assert_ok(nvmlsim_hang_call(f->sim, read, 1, PATIENCE_MS / 2, 0)); // the sample takes long
        for (int k = 0; k < 3; k++)
            if (!device(sample(f), 0) || device(f->s, 0)->lost)
                fail_msg("GPU 0 is missing or lost in sample %d after it was late", k);
        nvmlsim_clear_faults(f->sim);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_call_with_every_code, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_call_that_hangs, setup_impatient, teardown),
        cmocka_unit_test_setup_teardown(test_known_gpus_survive_a_call_that_fails_once, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_names_that_failed_at_first_are_read_again, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_gpus_that_cannot_be_recognized_keep_their_names, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_gpus_that_stay_unrecognized_are_reported,
                                        setup_impatient, teardown),
        cmocka_unit_test_setup_teardown(test_gpus_that_answer_late_stay, setup_impatient, teardown),
        cmocka_unit_test_setup_teardown(test_integrity_of_board_and_fabric, setup, teardown),
        cmocka_unit_test_setup_teardown(test_links_to_the_cpu_and_the_fabric, setup_rack, teardown),
        cmocka_unit_test_setup_teardown(test_spare_rows_sram_and_margin, setup_rack, teardown),
        cmocka_unit_test_setup_teardown(test_times_of_reduced_clocks_by_driver, setup_rack,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_nvlink_counters_of_each_link, setup_rack, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
