// SPDX-License-Identifier: Apache-2.0
// DCGM_EXP_GPU_HEALTH_STATUS: findings from values, from what moved within a minute, from XIDs.
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "exporter/health.h"

#include <stdio.h>

struct fixture {
    struct health *health;
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
    f->health = health_new();
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
    health_free(f->health);
    free(f);
    return 0;
}

static void pass_time(struct fixture *f, int seconds)
{
    for (int i = 0; i < seconds; i++) {
        f->now += GS_NS_PER_SEC;
        health_take(f->health, &f->snapshot, f->now);
    }
}

static void assert_health(struct fixture *f, enum health_watch w, int level, const char *code)
{
    pass_time(f, 1);
    const struct health_result *r = health_of(f->health, "GPU-1");
    assert_non_null(r);
    assert_string_equal(r[w].code, code);
    assert_int_equal(r[w].level, level);
}

static void assert_all_fine(struct fixture *f)
{
    for (enum health_watch w = 0; w < HEALTH_WATCHES; w++)
        assert_health(f, w, 0, "DCGM_FR_OK");
}

static void a_gpu_without_anything_is_fine(void **state)
{
    struct fixture *f = *state;
    assert_all_fine(f);
    assert_null(health_of(f->health, "GPU-2"));
    assert_null(health_of(NULL, "GPU-1"));
    assert_string_equal(health_watch_name(HEALTH_PCIE), "PCIE");
    assert_string_equal(health_watch_name(HEALTH_ALL), "ALL");
    // Values that count up from before are no findings.
    set(f, GPU_F_PCIE_REPLAY, 5000);
    set(f, GPU_F_THERMAL_VIOLATION, 5000);
    set(f, GPU_F_NVLINK_REPLAY, 5000);
    assert_all_fine(f);
}

static void states_of_memory(void **state)
{
    struct fixture *f = *state;
    set(f, GPU_F_RETIRED_PENDING, 1);
    assert_health(f, HEALTH_MEM, 10, "DCGM_FR_PENDING_PAGE_RETIREMENTS");
    set(f, GPU_F_UNCORRECTABLE_REMAPPED, 511);
    set(f, GPU_F_RETIRED_SBE, 62);
    set(f, GPU_F_RETIRED_DBE, 0);
    assert_health(f, HEALTH_MEM, 10, "DCGM_FR_PENDING_PAGE_RETIREMENTS");
    set(f, GPU_F_RETIRED_PENDING, 0);
    set(f, GPU_F_UNCORRECTABLE_REMAPPED, 512);
    assert_health(f, HEALTH_MEM, 10, "DCGM_FR_UNCORRECTABLE_ROW_REMAP_LIMIT");
    set(f, GPU_F_RETIRED_DBE, 1);
    assert_health(f, HEALTH_MEM, 20, "DCGM_FR_RETIRED_PAGES_LIMIT");
    set(f, GPU_F_RETIRED_SBE, 0);
    set(f, GPU_F_RETIRED_DBE, 16);
    assert_health(f, HEALTH_MEM, 20, "DCGM_FR_RETIRED_PAGES_DBE_LIMIT");
    set(f, GPU_F_ROW_REMAP_FAILURE, 1);
    assert_health(f, HEALTH_MEM, 20, "DCGM_FR_ROW_REMAP_FAILURE");
    set(f, GPU_F_ECC_DBE_VOL, 1);
    assert_health(f, HEALTH_MEM, 20, "DCGM_FR_VOLATILE_DBE_DETECTED");
    assert_health(f, HEALTH_THERMAL, 0, "DCGM_FR_OK");
}

static void what_moved_within_a_minute(void **state)
{
    struct fixture *f = *state;
    set(f, GPU_F_THERMAL_VIOLATION, 700);
    set(f, GPU_F_POWER_VIOLATION, 700);
    assert_all_fine(f);
    set(f, GPU_F_THERMAL_VIOLATION, 701);
    assert_health(f, HEALTH_THERMAL, 10, "DCGM_FR_CLOCK_THROTTLE_THERMAL");
    pass_time(f, 50);
    assert_health(f, HEALTH_THERMAL, 10, "DCGM_FR_CLOCK_THROTTLE_THERMAL");
    pass_time(f, 20); // more than a minute without movement
    assert_health(f, HEALTH_THERMAL, 0, "DCGM_FR_OK");
    set(f, GPU_F_POWER_VIOLATION, 0); // the driver was loaded anew
    assert_health(f, HEALTH_POWER, 0, "DCGM_FR_OK");
    f->device.fields[GPU_F_POWER_USAGE].validity = GPU_FAILED;
    assert_health(f, HEALTH_POWER, 10, "DCGM_FR_POWER_UNREADABLE");
}

static void replays_by_generation_and_lanes(void **state)
{
    struct fixture *f = *state;
    set(f, GPU_F_PCIE_GEN, 4); // 0.96 a minute and lane
    set(f, GPU_F_PCIE_WIDTH, 16);
    set(f, GPU_F_PCIE_REPLAY, 100);
    pass_time(f, 1);
    set(f, GPU_F_PCIE_REPLAY, 115);
    assert_health(f, HEALTH_PCIE, 0, "DCGM_FR_OK");
    set(f, GPU_F_PCIE_REPLAY, 116);
    assert_health(f, HEALTH_PCIE, 10, "DCGM_FR_PCI_REPLAY_RATE");
    f->device.fields[GPU_F_PCIE_WIDTH].validity = GPU_NOT_SUPPORTED; // no limit is known
    assert_health(f, HEALTH_PCIE, 0, "DCGM_FR_OK");
}

static void links(void **state)
{
    struct fixture *f = *state;
    set(f, GPU_F_NVLINK_CRC_FLIT, 0);
    set(f, GPU_F_NVLINK_RECOVERY, 0);
    pass_time(f, 1);
    set(f, GPU_F_NVLINK_CRC_FLIT, 1);
    assert_health(f, HEALTH_NVLINK, 10, "DCGM_FR_NVLINK_ERROR_THRESHOLD");
    set(f, GPU_F_NVLINK_CRC_FLIT, 6000);
    assert_health(f, HEALTH_NVLINK, 20, "DCGM_FR_NVLINK_CRC_ERROR_THRESHOLD");
    set(f, GPU_F_NVLINK_CRC_FLIT, 0);
    set(f, GPU_F_NVLINK_RECOVERY, 1);
    assert_health(f, HEALTH_NVLINK, 20, "DCGM_FR_NVLINK_ERROR_CRITICAL");
}

// They count until the exporter ends, as in DCGM until its engine ends.
static void inforom_and_recovery(void **state)
{
    static const struct {
        int64_t action;
        int level;
        const char *code;
    } rows[] = {
        {1, HEALTH_FAIL, "DCGM_FR_GPU_RECOVERY_RESET"},
        {2, HEALTH_FAIL, "DCGM_FR_GPU_RECOVERY_REBOOT"},
        {3, HEALTH_WARN, "DCGM_FR_GPU_RECOVERY_DRAIN_P2P"},
        {4, HEALTH_FAIL, "DCGM_FR_GPU_RECOVERY_DRAIN_RESET"},
        {5, HEALTH_PASS, "DCGM_FR_OK"}, // of a newer driver
        {0, HEALTH_PASS, "DCGM_FR_OK"},
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        set(f, GPU_F_RECOVERY_ACTION, rows[i].action);
        assert_health(f, HEALTH_DRIVER, rows[i].level, rows[i].code);
    }
    set(f, GPU_F_INFOROM_VALID, 1);
    assert_all_fine(f);
    set(f, GPU_F_INFOROM_VALID, 0);
    assert_health(f, HEALTH_INFOROM, HEALTH_WARN, "DCGM_FR_CORRUPT_INFOROM");
}

static void fabric_of_switches(void **state)
{
    static const struct {
        int64_t status, mask;
        int level;
        const char *code;
    } rows[] = {
        {3, 0x1aa, HEALTH_PASS, "DCGM_FR_OK"},
        {3, 0, HEALTH_PASS, "DCGM_FR_OK"}, // nothing told
        {1, 0x1aa, HEALTH_FAIL, "DCGM_FR_FABRIC_PROBE_STATE"},
        {2, 0x1aa, HEALTH_WARN, "DCGM_FR_FABRIC_PROBE_STATE"},
        {4, 0x1aa, HEALTH_FAIL, "DCGM_FR_FABRIC_PROBE_STATE"},
        {5, 0x1aa, HEALTH_FAIL, "DCGM_FR_FABRIC_PROBE_STATE"},
        {3, 0x1a9, HEALTH_FAIL, "DCGM_FR_FIELD_VIOLATION"}, // bandwidth is degraded
        {3, 0x1a6, HEALTH_FAIL, "DCGM_FR_FIELD_VIOLATION"}, // a route recovers
        {3, 0x19a, HEALTH_FAIL, "DCGM_FR_FIELD_VIOLATION"}, // a route is unhealthy
        {3, 0x16a, HEALTH_FAIL, "DCGM_FR_FIELD_VIOLATION"}, // recovery of an access
        {3, 0x4aa, HEALTH_FAIL, "DCGM_FR_FIELD_VIOLATION"}, // no partition
    };
    struct fixture *f = *state;
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        set(f, GPU_F_FABRIC_STATUS, rows[i].status);
        set(f, GPU_F_FABRIC_HEALTH_MASK, rows[i].mask);
        assert_health(f, HEALTH_NVLINK, rows[i].level, rows[i].code);
    }
}

static void xids_stay(void **state)
{
    struct fixture *f = *state;
    set(f, GPU_F_XID_ERRORS, 31);
    assert_health(f, HEALTH_MEM, 10, "DCGM_FR_XID_ERROR");
    f->device.xids[0] = (struct gpu_xid_count){.xid = 79, .count = 1};
    f->device.n_xids = 1;
    assert_health(f, HEALTH_ALL, 20, "DCGM_FR_FALLEN_OFF_BUS");
    f->device.n_xids = 0;
    set(f, GPU_F_XID_ERRORS, 13); // an application's
    pass_time(f, 400);
    assert_health(f, HEALTH_MEM, 10, "DCGM_FR_XID_ERROR");
    assert_health(f, HEALTH_ALL, 20, "DCGM_FR_FALLEN_OFF_BUS");
    f->snapshot.n_devices = 0; // taken out
    pass_time(f, 1);
    assert_null(health_of(f->health, "GPU-1"));
}

static void lost_and_hung(void **state)
{
    struct fixture *f = *state;
    f->device.lost = true;
    for (int i = 0; i < GPU_F_COUNT; i++)
        f->device.fields[i] = (struct gpu_value){.validity = GPU_LOST};
    assert_health(f, HEALTH_ALL, 20, "DCGM_FR_FALLEN_OFF_BUS");
    f->device.lost = false;
    f->device.hung = true;
    pass_time(f, 1);
    assert_null(health_of(f->health, "GPU-1")); // nothing can be said
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_gpu_without_anything_is_fine),
        TEST(states_of_memory),
        TEST(what_moved_within_a_minute),
        TEST(replays_by_generation_and_lanes),
        TEST(links),
        TEST(inforom_and_recovery),
        TEST(fabric_of_switches),
        TEST(xids_stay),
        TEST(lost_and_hung),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
