// SPDX-License-Identifier: Apache-2.0
// DCGM_EXP_GPU_HEALTH_STATUS: findings from values, from what moved within a minute, from XIDs.
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "exporter/render.h"
#include "nvmlsim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct fixture {
    struct exporter_health *health;
    struct gpu_snapshot snapshot;
    struct gpu_device device;
    int64_t now;
};

static void set(struct fixture *f, enum gpu_field field, int64_t v)
{
    f->device.fields[field] = (struct gpu_value){.validity = GPU_VALID, .i = v};
}

static int setup(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    f->health = exporter_health_new();
    f->snapshot.devices = &f->device;
    f->snapshot.n_devices = 1;
    f->now = 1000 * GS_NS_PER_SEC;
    strcpy(f->device.uuid, "GPU-1");
    for (int i = 0; i < GPU_F_COUNT; i++)
        f->device.fields[i].validity = GPU_NOT_SUPPORTED;
    set(f, GPU_F_XID_ERRORS, 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    exporter_health_free(f->health);
    free(f);
    return 0;
}

static void pass_time(struct fixture *f, int seconds)
{
    for (int i = 0; i < seconds; i++) {
        f->now += GS_NS_PER_SEC;
        exporter_health_update(f->health, &f->snapshot, f->now);
    }
}

static void assert_health(struct fixture *f, enum exporter_health_watch w, int level,
                          const char *code)
{
    pass_time(f, 1);
    const struct exporter_health_result *r = exporter_health_of(f->health, "GPU-1");
    assert_non_null(r);
    assert_string_equal(r[w].code, code);
    assert_int_equal(r[w].level, level);
}

static void assert_all_fine(struct fixture *f)
{
    for (enum exporter_health_watch w = 0; w < EXPORTER_HEALTH_WATCHES; w++)
        assert_health(f, w, 0, "DCGM_FR_OK");
}

static void test_a_gpu_without_anything_is_fine(void **state)
{
    struct fixture *f = *state;
    assert_all_fine(f);
    assert_null(exporter_health_of(f->health, "GPU-2"));
    assert_null(exporter_health_of(NULL, "GPU-1"));
    assert_string_equal(exporter_health_watch_name(EXPORTER_HEALTH_PCIE), "PCIE");
    assert_string_equal(exporter_health_watch_name(EXPORTER_HEALTH_ALL), "ALL");
    // Values that count up from before are no findings.
    set(f, GPU_F_PCIE_REPLAY, 5000);
    set(f, GPU_F_THERMAL_VIOLATION, 5000);
    set(f, GPU_F_NVLINK_REPLAY, 5000);
    assert_all_fine(f);
}

static void test_states_of_memory(void **state)
{
    struct fixture *f = *state;
    set(f, GPU_F_MEMORY_UNREPAIRABLE, 1);
    assert_health(f, EXPORTER_HEALTH_MEM, 20, "DCGM_FR_FAULTY_MEMORY");
    set(f, GPU_F_MEMORY_UNREPAIRABLE, 0);
    set(f, GPU_F_RETIRED_PENDING, 1);
    assert_health(f, EXPORTER_HEALTH_MEM, 10, "DCGM_FR_PENDING_PAGE_RETIREMENTS");
    set(f, GPU_F_UNCORRECTABLE_REMAPPED, 511);
    set(f, GPU_F_RETIRED_SBE, 62);
    set(f, GPU_F_RETIRED_DBE, 0);
    assert_health(f, EXPORTER_HEALTH_MEM, 10, "DCGM_FR_PENDING_PAGE_RETIREMENTS");
    set(f, GPU_F_RETIRED_PENDING, 0);
    set(f, GPU_F_UNCORRECTABLE_REMAPPED, 512);
    assert_health(f, EXPORTER_HEALTH_MEM, 10, "DCGM_FR_UNCORRECTABLE_ROW_REMAP_LIMIT");
    set(f, GPU_F_RETIRED_DBE, 1);
    assert_health(f, EXPORTER_HEALTH_MEM, 20, "DCGM_FR_RETIRED_PAGES_LIMIT");
    set(f, GPU_F_RETIRED_SBE, 0);
    set(f, GPU_F_RETIRED_DBE, 16);
    assert_health(f, EXPORTER_HEALTH_MEM, 20, "DCGM_FR_RETIRED_PAGES_DBE_LIMIT");
    set(f, GPU_F_ROW_REMAP_FAILURE, 1);
    assert_health(f, EXPORTER_HEALTH_MEM, 20, "DCGM_FR_ROW_REMAP_FAILURE");
    set(f, GPU_F_ECC_DBE_VOL, 1);
    assert_health(f, EXPORTER_HEALTH_MEM, 20, "DCGM_FR_VOLATILE_DBE_DETECTED");
    assert_health(f, EXPORTER_HEALTH_THERMAL, 0, "DCGM_FR_OK");
}

static void test_what_moved_within_a_minute(void **state)
{
    struct fixture *f = *state;
    set(f, GPU_F_THERMAL_VIOLATION, 700);
    set(f, GPU_F_POWER_VIOLATION, 700);
    assert_all_fine(f);
    set(f, GPU_F_THERMAL_VIOLATION, 701);
    assert_health(f, EXPORTER_HEALTH_THERMAL, 10, "DCGM_FR_CLOCK_THROTTLE_THERMAL");
    pass_time(f, 50);
    assert_health(f, EXPORTER_HEALTH_THERMAL, 10, "DCGM_FR_CLOCK_THROTTLE_THERMAL");
    pass_time(f, 20); // more than a minute without movement
    assert_health(f, EXPORTER_HEALTH_THERMAL, 0, "DCGM_FR_OK");
    set(f, GPU_F_POWER_VIOLATION, 0); // the driver was loaded anew
    assert_health(f, EXPORTER_HEALTH_POWER, 0, "DCGM_FR_OK");
    f->device.fields[GPU_F_POWER_USAGE].validity = GPU_FAILED;
    assert_health(f, EXPORTER_HEALTH_POWER, 10, "DCGM_FR_POWER_UNREADABLE");
}

static void test_replays_by_generation_and_lanes(void **state)
{
    struct fixture *f = *state;
    set(f, GPU_F_PCIE_GEN, 4); // 0.96 a minute and lane
    set(f, GPU_F_PCIE_WIDTH, 16);
    set(f, GPU_F_PCIE_REPLAY, 100);
    pass_time(f, 1);
    set(f, GPU_F_PCIE_REPLAY, 115);
    assert_health(f, EXPORTER_HEALTH_PCIE, 0, "DCGM_FR_OK");
    set(f, GPU_F_PCIE_REPLAY, 116);
    assert_health(f, EXPORTER_HEALTH_PCIE, 10, "DCGM_FR_PCI_REPLAY_RATE");
    f->device.fields[GPU_F_PCIE_WIDTH].validity = GPU_NOT_SUPPORTED; // no limit is known
    assert_health(f, EXPORTER_HEALTH_PCIE, 0, "DCGM_FR_OK");
}

static void test_links(void **state)
{
    struct fixture *f = *state;
    set(f, GPU_F_NVLINK_CRC_FLIT, 0);
    set(f, GPU_F_NVLINK_RECOVERY, 0);
    pass_time(f, 1);
    set(f, GPU_F_NVLINK_CRC_FLIT, 1);
    assert_health(f, EXPORTER_HEALTH_NVLINK, 10, "DCGM_FR_NVLINK_ERROR_THRESHOLD");
    set(f, GPU_F_NVLINK_CRC_FLIT, 6000);
    assert_health(f, EXPORTER_HEALTH_NVLINK, 20, "DCGM_FR_NVLINK_CRC_ERROR_THRESHOLD");
    set(f, GPU_F_NVLINK_CRC_FLIT, 0);
    set(f, GPU_F_NVLINK_RECOVERY, 1);
    assert_health(f, EXPORTER_HEALTH_NVLINK, 20, "DCGM_FR_NVLINK_ERROR_CRITICAL");
}

static void test_links_that_are_down(void **state)
{
    struct fixture *f = *state;
    set(f, GPU_F_NVLINKS_DOWN, 0);
    set(f, GPU_F_MIG_MODE, 0);
    assert_all_fine(f);
    set(f, GPU_F_NVLINKS_DOWN, 2);
    assert_health(f, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_FAIL, "DCGM_FR_NVLINK_DOWN");
    set(f, GPU_F_MIG_MODE, 1); // they are down by design then
    assert_all_fine(f);
    set(f, GPU_F_MIG_MODE, 0);
    f->device.n_instances = 1;
    assert_all_fine(f);
}

static void test_counters_before_blackwell(void **state)
{
    static const enum gpu_field fields[] = {GPU_F_NVLINK_DL_CRC, GPU_F_NVLINK_DL_RECOVERY,
                                            GPU_F_NVLINK_DL_REPLAY};
    struct fixture *f = *state;
    for (size_t i = 0; i < GS_ARRAY_LEN(fields); i++) {
        set(f, fields[i], 1); // since the driver was loaded
        assert_health(f, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_FAIL,
                      "DCGM_FR_NVLINK_ERROR_CRITICAL");
        pass_time(f, 70);
        assert_health(f, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_FAIL,
                      "DCGM_FR_NVLINK_ERROR_CRITICAL");
        set(f, fields[i], 0);
        assert_all_fine(f);
    }
    set(f, GPU_F_NVLINK5_RECOVERY_FAILED, 0); // deprecated there
    set(f, GPU_F_NVLINK_DL_CRC, 1);
    assert_all_fine(f);
}

static void test_counters_of_nvlink5(void **state)
{
    static const enum gpu_field moving[] = {
        GPU_F_NVLINK5_RX_MALFORMED,      GPU_F_NVLINK5_RX_OVERRUN,
        GPU_F_NVLINK5_RX_ERRORS,         GPU_F_NVLINK5_RX_REMOTE_ERRORS,
        GPU_F_NVLINK5_RX_GENERAL_ERRORS, GPU_F_NVLINK5_INTEGRITY_ERRORS,
        GPU_F_NVLINK5_RECOVERIES,        GPU_F_NVLINK5_SYMBOL_ERRORS,
        GPU_F_NVLINK5_EFFECTIVE_ERRORS,  GPU_F_NVLINK_ECC_DATA,
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < GS_ARRAY_LEN(moving); i++)
        set(f, moving[i], 1000);
    set(f, GPU_F_NVLINK5_RECOVERED, 0);
    set(f, GPU_F_NVLINK5_RECOVERY_FAILED, 0);
    assert_all_fine(f);
    for (size_t i = 0; i < GS_ARRAY_LEN(moving); i++) {
        set(f, moving[i], 1001);
        assert_health(f, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_FAIL,
                      "DCGM_FR_NVLINK_ERROR_CRITICAL");
        pass_time(f, 70);
        assert_all_fine(f);
    }
    set(f, GPU_F_NVLINK5_RECOVERED, 3); // since the driver was loaded
    pass_time(f, 70);
    assert_health(f, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_WARN, "DCGM_FR_NVLINK_ERROR_CRITICAL");
    set(f, GPU_F_NVLINK5_RECOVERY_FAILED, 1);
    assert_health(f, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_FAIL, "DCGM_FR_NVLINK_ERROR_CRITICAL");
}

static void test_bit_error_rates(void **state)
{
    enum { NONE = 15 << 8 | 255 };
    static const struct {
        bool nvlink5;
        int effective, symbol;
        const char *code; // NULL: fine
    } rows[] = {
        {true, NONE, NONE, NULL},
        {true, 1 << 8 | 12, NONE, NULL},
        {true, 2 << 8 | 12, NONE, "DCGM_FR_NVLINK_EFFECTIVE_BER_THRESHOLD"},
        {true, 10 << 8 | 13, NONE, NULL},
        {true, 11 << 8 | 13, NONE, "DCGM_FR_NVLINK_EFFECTIVE_BER_THRESHOLD"},
        {true, 15 << 8 | 14, NONE, NULL},
        {true, 1 << 8 | 11, NONE, "DCGM_FR_NVLINK_EFFECTIVE_BER_THRESHOLD"},
        {true, NONE, 15 << 8 | 238, NULL},
        {true, NONE, 1 << 8 | 237, "DCGM_FR_NVLINK_SYMBOL_BER_THRESHOLD"},
        {true, NONE, 237, NULL},
        {false, NONE, 15 << 8 | 254, "DCGM_FR_NVLINK_SYMBOL_BER_THRESHOLD"},
        {false, NONE, 1 << 8 | 255, NULL},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        f->device.fields[GPU_F_NVLINK5_RECOVERY_FAILED] =
            (struct gpu_value){.validity = rows[i].nvlink5 ? GPU_VALID : GPU_NOT_SUPPORTED};
        set(f, GPU_F_NVLINK5_EFFECTIVE_BER, rows[i].effective);
        set(f, GPU_F_NVLINK5_SYMBOL_BER, rows[i].symbol);
        assert_health(f, EXPORTER_HEALTH_NVLINK,
                      rows[i].code ? EXPORTER_HEALTH_FAIL : EXPORTER_HEALTH_PASS,
                      rows[i].code ? rows[i].code : "DCGM_FR_OK");
    }
    struct gpu_ber b = gpu_nvlink_ber(5 << 8 | 9);
    assert_true(b.ratio > 4.9e-9 && b.ratio < 5.1e-9);
}

// The same from the simulated library on: what NVML says of a board becomes a finding.
static void test_boards_by_nvml(void **state)
{
    static const struct {
        unsigned gpu; // 0: Hopper, 1: Blackwell
        uint32_t what;
        uint64_t value;
        enum exporter_health_watch watch;
        int level;
        const char *code;
    } rows[] = {
        {0, NVMLSIM_VALUE_LINKS_DOWN, 1 << 17, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_FAIL,
         "DCGM_FR_NVLINK_DOWN"},
        {1, NVMLSIM_VALUE_LINKS_DOWN, 5, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_FAIL,
         "DCGM_FR_NVLINK_DOWN"},
        {0, NVMLSIM_VALUE_FABRIC_STATE, 2, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_WARN,
         "DCGM_FR_FABRIC_PROBE_STATE"},
        {0, NVMLSIM_VALUE_FABRIC_STATUS, 999, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_FAIL,
         "DCGM_FR_FABRIC_PROBE_STATE"},
        {1, NVMLSIM_VALUE_FABRIC_HEALTH, 0x1a9, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_FAIL,
         "DCGM_FR_FIELD_VIOLATION"},
        {1, NVMLSIM_VALUE_UNREPAIRABLE, 1, EXPORTER_HEALTH_MEM, EXPORTER_HEALTH_FAIL,
         "DCGM_FR_FAULTY_MEMORY"},
        {1, 214, 1, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_FAIL, "DCGM_FR_NVLINK_ERROR_CRITICAL"},
        {1, 213, 1, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_WARN, "DCGM_FR_NVLINK_ERROR_CRITICAL"},
        {1, 220, 2 << 8 | 12, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_FAIL,
         "DCGM_FR_NVLINK_EFFECTIVE_BER_THRESHOLD"},
        {0, 163, 1, EXPORTER_HEALTH_NVLINK, EXPORTER_HEALTH_FAIL, "DCGM_FR_NVLINK_ERROR_CRITICAL"},
        {1, 230, 2, EXPORTER_HEALTH_DRIVER, EXPORTER_HEALTH_FAIL, "DCGM_FR_GPU_RECOVERY_REBOOT"},
        {0, 4, 1, EXPORTER_HEALTH_MEM, EXPORTER_HEALTH_FAIL, "DCGM_FR_VOLATILE_DBE_DETECTED"},
    };
    struct fixture *f = *state;
    struct nvmlsim_spec spec;
    struct nvmlsim *sim = NULL;
    GS_AUTO_FREE char *name = gs_format("/gpuscale-test-health-%d", getpid());
    GS_AUTO_FREE char *library = gs_format("%s/src/simulation/nvmlsim/libgpuscale-nvmlsim.so",
                                           getenv("GPUSCALE_BUILD_ROOT"));
    setenv(NVMLSIM_ENV, name, 1);
    assert_ok(nvmlsim_spec_parse("1xH100-80GB-HBM3,1xB200", &spec));
    assert_ok(nvmlsim_create(name, &spec, &sim));
    bool wanted[GPU_F_COUNT] = {0};
    exporter_health_wanted(wanted);
    struct gpu_backend_config cfg = {.library = library,
                                     .wanted = wanted,
                                     .patience_ns = 60 * GS_NS_PER_SEC,
                                     .hung_after_ns = 60 * GS_NS_PER_SEC};
    for (size_t i = 0; i <= GS_ARRAY_LEN(rows); i++) {
        bool fine = i == GS_ARRAY_LEN(rows);
        struct gpu_backend *backend = NULL;
        struct gpu_snapshot *s = NULL;
        if (!fine)
            assert_ok(nvmlsim_set_value(sim, rows[i].gpu, rows[i].what, rows[i].value));
        assert_ok(gpu_backend_open(&cfg, &backend));
        assert_ok(gpu_backend_sample(backend, &s));
        assert_int_equal(s->n_devices, 2);
        assert_int_equal(s->n_errors, 0);
        exporter_health_update(f->health, s, gs_mono_ns());
        for (unsigned gpu = 0; gpu < 2; gpu++) {
            const struct exporter_health_result *r =
                exporter_health_of(f->health, s->devices[gpu].uuid);
            for (enum exporter_health_watch w = 0; w < EXPORTER_HEALTH_WATCHES; w++) {
                bool bad = !fine && gpu == rows[i].gpu && w == rows[i].watch;
                if (r[w].level != (bad ? rows[i].level : EXPORTER_HEALTH_PASS))
                    fail_msg("row %zu: GPU %u: %s is %d, %s", i, gpu, exporter_health_watch_name(w),
                             r[w].level, r[w].code);
                assert_string_equal(r[w].code, bad ? rows[i].code : "DCGM_FR_OK");
            }
        }
        gpu_snapshot_free(s);
        gpu_backend_close(backend);
        nvmlsim_clear_faults(sim);
    }
    nvmlsim_detach(sim);
    gs_error_free(nvmlsim_unlink(name));
}

// They count until the exporter ends, as in DCGM until its engine ends.
static void test_inforom_and_recovery(void **state)
{
    static const struct {
        int64_t action;
        int level;
        const char *code;
    } rows[] = {
        {1, EXPORTER_HEALTH_FAIL, "DCGM_FR_GPU_RECOVERY_RESET"},
        {2, EXPORTER_HEALTH_FAIL, "DCGM_FR_GPU_RECOVERY_REBOOT"},
        {3, EXPORTER_HEALTH_WARN, "DCGM_FR_GPU_RECOVERY_DRAIN_P2P"},
        {4, EXPORTER_HEALTH_FAIL, "DCGM_FR_GPU_RECOVERY_DRAIN_RESET"},
        {5, EXPORTER_HEALTH_PASS, "DCGM_FR_OK"}, // of a newer driver
        {0, EXPORTER_HEALTH_PASS, "DCGM_FR_OK"},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        set(f, GPU_F_RECOVERY_ACTION, rows[i].action);
        assert_health(f, EXPORTER_HEALTH_DRIVER, rows[i].level, rows[i].code);
    }
    set(f, GPU_F_INFOROM_VALID, 1);
    assert_all_fine(f);
    set(f, GPU_F_INFOROM_VALID, 0);
    assert_health(f, EXPORTER_HEALTH_INFOROM, EXPORTER_HEALTH_WARN, "DCGM_FR_CORRUPT_INFOROM");
}

static void test_fabric_of_switches(void **state)
{
    static const struct {
        int64_t status, mask;
        int level;
        const char *code;
    } rows[] = {
        {3, 0x1aa, EXPORTER_HEALTH_PASS, "DCGM_FR_OK"},
        {3, 0, EXPORTER_HEALTH_PASS, "DCGM_FR_OK"}, // nothing told
        {1, 0x1aa, EXPORTER_HEALTH_FAIL, "DCGM_FR_FABRIC_PROBE_STATE"},
        {2, 0x1aa, EXPORTER_HEALTH_WARN, "DCGM_FR_FABRIC_PROBE_STATE"},
        {4, 0x1aa, EXPORTER_HEALTH_FAIL, "DCGM_FR_FABRIC_PROBE_STATE"},
        {5, 0x1aa, EXPORTER_HEALTH_FAIL, "DCGM_FR_FABRIC_PROBE_STATE"},
        {3, 0x1a9, EXPORTER_HEALTH_FAIL, "DCGM_FR_FIELD_VIOLATION"}, // bandwidth is degraded
        {3, 0x1a6, EXPORTER_HEALTH_FAIL, "DCGM_FR_FIELD_VIOLATION"}, // a route recovers
        {3, 0x19a, EXPORTER_HEALTH_FAIL, "DCGM_FR_FIELD_VIOLATION"}, // a route is unhealthy
        {3, 0x16a, EXPORTER_HEALTH_FAIL, "DCGM_FR_FIELD_VIOLATION"}, // recovery of an access
        {3, 0x4aa, EXPORTER_HEALTH_FAIL, "DCGM_FR_FIELD_VIOLATION"}, // no partition
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        set(f, GPU_F_FABRIC_STATUS, rows[i].status);
        set(f, GPU_F_FABRIC_HEALTH_MASK, rows[i].mask);
        assert_health(f, EXPORTER_HEALTH_NVLINK, rows[i].level, rows[i].code);
    }
}

static void test_xids_stay(void **state)
{
    struct fixture *f = *state;
    set(f, GPU_F_XID_ERRORS, 31);
    assert_health(f, EXPORTER_HEALTH_MEM, 10, "DCGM_FR_XID_ERROR");
    f->device.xids[0] = (struct gpu_xid_count){.xid = 79, .count = 1};
    f->device.n_xids = 1;
    assert_health(f, EXPORTER_HEALTH_ALL, 20, "DCGM_FR_FALLEN_OFF_BUS");
    f->device.n_xids = 0;
    set(f, GPU_F_XID_ERRORS, 13); // an application's
    pass_time(f, 400);
    assert_health(f, EXPORTER_HEALTH_MEM, 10, "DCGM_FR_XID_ERROR");
    assert_health(f, EXPORTER_HEALTH_ALL, 20, "DCGM_FR_FALLEN_OFF_BUS");
    f->snapshot.n_devices = 0; // taken out
    pass_time(f, 1);
    assert_null(exporter_health_of(f->health, "GPU-1"));
}

static void test_lost_and_hung(void **state)
{
    struct fixture *f = *state;
    f->device.lost = true;
    for (int i = 0; i < GPU_F_COUNT; i++)
        f->device.fields[i] = (struct gpu_value){.validity = GPU_LOST};
    assert_health(f, EXPORTER_HEALTH_ALL, 20, "DCGM_FR_FALLEN_OFF_BUS");
    f->device.lost = false;
    f->device.hung = true;
    pass_time(f, 1);
    assert_null(exporter_health_of(f->health, "GPU-1")); // nothing can be said
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_a_gpu_without_anything_is_fine),
        TEST(test_states_of_memory),
        TEST(test_what_moved_within_a_minute),
        TEST(test_replays_by_generation_and_lanes),
        TEST(test_links),
        TEST(test_links_that_are_down),
        TEST(test_counters_before_blackwell),
        TEST(test_counters_of_nvlink5),
        TEST(test_bit_error_rates),
        TEST(test_boards_by_nvml),
        TEST(test_inforom_and_recovery),
        TEST(test_fabric_of_switches),
        TEST(test_xids_stay),
        TEST(test_lost_and_hung),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
