// SPDX-License-Identifier: Apache-2.0
// Tests of the table of DCGM's fields: order, names of each release, and the two sides of the
// renames of DCGM 4.7.
#include "dcgm/abi.h"
#include "dcgm/fields.h"

#include "base/mem.h"
#include "base/slice.h"
#include "unit.h"

static void test_rows_are_in_order(void **state)
{
    (void)state;
    unsigned last = 0;
    size_t n = 0;
    for (const struct dcgm_field *f; (f = dcgm_field_at(n)); n++) {
        assert_true(f->id > last);
        last = f->id;
        assert_ptr_equal(dcgm_field_by_id(f->id), f);
        assert_non_null(strchr("idsb", f->type));
        assert_true(f->since >= DCGM_RELEASE_OLDEST && f->since <= DCGM_RELEASE_BASE_UNITS);
        assert_true(!f->renamed || f->renamed_since >= DCGM_RELEASE_RENAMED);
    }
    assert_true(n > 600);
    assert_null(dcgm_field_by_id(0));
    assert_null(dcgm_field_by_id(999));
}

static void test_each_name_is_of_one_field(void **state)
{
    (void)state;
    const struct dcgm_field *f;
    for (size_t i = 0; (f = dcgm_field_at(i)); i++) {
        assert_ptr_equal(dcgm_field_by_name(f->name), f);
        if (f->renamed)
            assert_ptr_equal(dcgm_field_by_name(f->renamed), f);
    }
    assert_null(dcgm_field_by_name("DCGM_FI_NO_SUCH"));
    assert_null(dcgm_field_by_name("DEV_GPU_UTIL"));
    assert_int_equal(dcgm_field_by_name("DCGM_FI_DEV_NVSWITCH_LINK_DEVICE_UUID")->id, 878);
    assert_int_equal(dcgm_field_by_name("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS")->id, 112);
}

static void test_levels_and_types(void **state)
{
    (void)state;
    static const struct {
        unsigned id;
        char type;
        enum dcgm_entity_group level;
    } rows[] = {
        {1, 's', DCGM_ENTITY_NONE},        {150, 'i', DCGM_ENTITY_GPU},
        {155, 'd', DCGM_ENTITY_GPU},       {858, 'i', DCGM_ENTITY_SWITCH},
        {780, 'i', DCGM_ENTITY_LINK},      {1001, 'd', DCGM_ENTITY_GPU_CI},
        {1005, 'd', DCGM_ENTITY_GPU_I},    {1009, 'i', DCGM_ENTITY_GPU},
        {1040, 'i', DCGM_ENTITY_GPU},      {1100, 'd', DCGM_ENTITY_CPU_CORE},
        {1110, 'd', DCGM_ENTITY_CPU},      {1141, 's', DCGM_ENTITY_CPU},
        {1300, 'i', DCGM_ENTITY_CONNECTX}, {1603, 'i', DCGM_ENTITY_GPU},
        {1613, 'd', DCGM_ENTITY_GPU},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        const struct dcgm_field *f = dcgm_field_by_id(rows[i].id);
        assert_int_equal(f->type, rows[i].type);
        assert_int_equal(f->level, rows[i].level);
    }
}

static void check_rename(const char *name, const char *old_name, const char *new_name,
                         double factor)
{
    struct dcgm_rename r;
    assert_true(dcgm_rename_of(name, &r));
    assert_string_equal(r.old_name, old_name);
    assert_string_equal(r.new_name, new_name);
    assert_true(r.factor == factor);
}

// The default metrics of dcgm-exporter 4.8 and 4.9: 23 have another name, 11 another unit.
static void test_default_metrics_of_both_releases(void **state)
{
    (void)state;
    static const struct {
        const char *old_name, *new_name;
        double factor;
    } rows[] = {
        {"DEV_SM_CLOCK", "DEV_SM_CLOCK_HERTZ", 1e6},
        {"DEV_MEM_CLOCK", "DEV_MEMORY_CLOCK_HERTZ", 1e6},
        {"DEV_MEMORY_TEMP", "DEV_MEMORY_TEMP_CELSIUS", 1},
        {"DEV_GPU_TEMP", "DEV_GPU_TEMP_CELSIUS", 1},
        {"DEV_POWER_USAGE", "DEV_BOARD_POWER_WATTS", 1},
        {"DEV_TOTAL_ENERGY_CONSUMPTION", "DEV_GPU_ENERGY_JOULES_TOTAL", 1e-3},
        {"DEV_PCIE_REPLAY_COUNTER", "DEV_PCIE_REPLAY_TOTAL", 1},
        {"DEV_GPU_UTIL", "DEV_GPU_UTIL_RATIO", 0.01},
        {"DEV_MEM_COPY_UTIL", "DEV_MEMORY_UTIL_RATIO", 0.01},
        {"DEV_ENC_UTIL", "DEV_ENC_UTIL_RATIO", 0.01},
        {"DEV_DEC_UTIL", "DEV_DEC_UTIL_RATIO", 0.01},
        {"DEV_XID_ERRORS", "DEV_XID_ERROR", 1},
        {"DEV_FB_FREE", "DEV_FB_FREE_BYTES", 1048576},
        {"DEV_FB_USED", "DEV_FB_USED_BYTES", 1048576},
        {"DEV_FB_RESERVED", "DEV_FB_RESERVED_BYTES", 1048576},
        {"DEV_UNCORRECTABLE_REMAPPED_ROWS", "DEV_ROW_REMAP_UNCORRECTABLE_TOTAL", 1},
        {"DEV_CORRECTABLE_REMAPPED_ROWS", "DEV_ROW_REMAP_CORRECTABLE_TOTAL", 1},
        {"DEV_ROW_REMAP_FAILURE", "DEV_ROW_REMAP_FAILED", 1},
        {"DEV_NVLINK_BANDWIDTH_TOTAL", "DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND", 1024000},
        {"PROF_GR_ENGINE_ACTIVE", "PROF_GR_ENGINE_UTIL_RATIO", 1},
        {"PROF_PIPE_TENSOR_ACTIVE", "PROF_TENSOR_UTIL_RATIO", 1},
        {"PROF_DRAM_ACTIVE", "PROF_DRAM_UTIL_RATIO", 1},
        {"DRIVER_VERSION", "SYSTEM_DRIVER_VERSION", 1},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        GS_AUTO_FREE char *old_name = gs_format("%s%s", DCGM_FIELD_PREFIX, rows[i].old_name);
        GS_AUTO_FREE char *new_name = gs_format("%s%s", DCGM_FIELD_PREFIX, rows[i].new_name);
        check_rename(old_name, old_name, new_name, rows[i].factor);
        check_rename(new_name, old_name, new_name, rows[i].factor);
    }
}

static void test_names_between_the_releases(void **state)
{
    (void)state;
    struct dcgm_rename r;
    assert_true(dcgm_rename_of("DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL", &r));
    assert_string_equal(r.middle_name, "DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL");
    assert_int_equal(r.old_id, 449);
    assert_int_equal(r.new_id, 1648);
    // DCGM 4.6 calls 203 (percent) so; 4.7 has an id for the ratio.
    assert_int_equal(dcgm_field_by_name("DCGM_FI_DEV_GPU_UTIL_RATIO")->id, 1613);
    assert_true(dcgm_rename_of("DCGM_FI_DEV_GPU_UTIL", &r));
    assert_null(r.middle_name);
    assert_false(dcgm_rename_of("DCGM_FI_PROF_PCIE_TX_BYTES", &r));
    assert_false(dcgm_rename_of("DCGM_FI_NO_SUCH", &r));
}

static void test_unit_changes_are_pairs_of_known_fields(void **state)
{
    (void)state;
    const struct dcgm_unit_change *u;
    size_t n = 0;
    for (; (u = dcgm_unit_change_at(n)); n++) {
        assert_non_null(dcgm_field_by_id(u->old_id));
        assert_non_null(dcgm_field_by_id(u->new_id));
        assert_ptr_equal(dcgm_unit_change_of(u->old_id), u);
        assert_ptr_equal(dcgm_unit_change_of(u->new_id), u);
        assert_true(u->factor > 0);
    }
    for (unsigned id = 1600; id < 1650; id++)
        assert_non_null(dcgm_unit_change_of(id));
    assert_int_equal(n, 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_in_order),
        cmocka_unit_test(test_each_name_is_of_one_field),
        cmocka_unit_test(test_levels_and_types),
        cmocka_unit_test(test_default_metrics_of_both_releases),
        cmocka_unit_test(test_names_between_the_releases),
        cmocka_unit_test(test_unit_changes_are_pairs_of_known_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
