// SPDX-License-Identifier: Apache-2.0
// Tests of the names and ids of fields: those that NVML provides are fields of DCGM with the same
// id, name and type.
#include "gpu/gpu.h"

#include "base/slice.h"
#include "dcgm/fields.h"
#include "unit.h"

enum { FIRST_OWN_ID = 9000 }; // fields of gpuscale

static char type_of(enum gpu_kind kind)
{
    return kind == GPU_TEXT ? 's' : kind == GPU_DOUBLE ? 'd' : 'i';
}

static void test_fields_agree_with_those_of_dcgm(void **state)
{
    (void)state;
    for (enum gpu_field f = 0; f < GPU_F_COUNT; f++) {
        const struct gpu_field_info *info = gpu_field_info(f);
        if (info->id >= FIRST_OWN_ID)
            continue;
        const struct dcgm_field *d = dcgm_field_by_id((unsigned)info->id);
        if (!d || dcgm_field_by_name(info->name) != d || d->type != type_of(info->kind))
            fail_msg("%s (%d) is not the field of DCGM", info->name, info->id);
        assert_int_equal(gpu_field_by_id(info->id), f);
        assert_int_equal(gpu_field_by_name(d->name), f);
        if (d->renamed)
            assert_int_equal(gpu_field_by_name(d->renamed), f);
    }
    assert_int_equal(gpu_field_by_id(858), GPU_F_COUNT);
}

// NVML provides both sides of each change of a unit but that of vGPUs.
static void test_both_units_are_provided(void **state)
{
    (void)state;
    const struct dcgm_unit_change *u;
    size_t n = 0, both = 0;
    for (; (u = dcgm_unit_change_at(n)); n++)
        both +=
            gpu_field_by_id(u->old_id) != GPU_F_COUNT && gpu_field_by_id(u->new_id) != GPU_F_COUNT;
    assert_int_equal(both, n - 1);
    assert_true(gpu_field_is_dcgm_only("DCGM_FI_DEV_VGPU_FB_USED_BYTES"));
    assert_false(gpu_field_is_dcgm_only("DCGM_FI_DEV_FB_USED_BYTES"));
    assert_false(gpu_field_is_dcgm_only("DCGM_FI_NO_SUCH"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields_agree_with_those_of_dcgm),
        cmocka_unit_test(test_both_units_are_provided),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
