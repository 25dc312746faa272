// SPDX-License-Identifier: Apache-2.0
// DCGM's blanks, codes, ages and implausible values become absence with a reason.
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "dcgm_source/source_private.h"

#include <math.h>
#include <stdlib.h>

#define NOW_US INT64_C(1700000000000000)

static struct dcgm_latest *read_of(struct dcgm_value v)
{
    struct dcgm_latest *l = dcgm_latest_new(1, 1, 64);
    l->mono_ns = 1000;
    l->unix_us = NOW_US;
    l->interval_ns = GS_NS_PER_SEC;
    v.ts_us = v.ts_us ? v.ts_us : NOW_US;
    l->values[0] = v;
    return l;
}

static struct gpu_value value_at(struct dcgm_value v, int64_t now_ns)
{
    struct dcgm_latest *l = read_of(v);
    struct gpu_value ret = dcgm_source_value(l, &l->values[0], now_ns);
    dcgm_latest_free(l);
    return ret;
}

static enum gpu_validity validity_of(struct dcgm_value v)
{
    return value_at(v, 1000).validity;
}

static struct dcgm_value integer(uint16_t field, int64_t i)
{
    return (struct dcgm_value){.field = field, .type = DCGM_TYPE_INT64, .i = i};
}

static struct dcgm_value number(uint16_t field, double d)
{
    return (struct dcgm_value){.field = field, .type = DCGM_TYPE_DOUBLE, .d = d};
}

static void test_values_keep_their_type(void **state)
{
    (void)state;
    struct gpu_value i = value_at(integer(701, -5), 1000), d = value_at(number(1001, 0.25), 1000);
    assert_int_equal(i.validity, GPU_VALID);
    assert_false(i.is_double);
    assert_int_equal(i.i, -5);
    assert_true(d.is_double && d.d == 0.25);
}

static void test_blanks_are_not_values(void **state)
{
    static const enum gpu_validity expected[] = {GPU_UNKNOWN, GPU_NOT_SUPPORTED, GPU_NOT_SUPPORTED,
                                                 GPU_NO_PERMISSION, GPU_FAILED};
    (void)state;
    for (int n = 0; n < 5; n++) {
        assert_int_equal(validity_of(integer(701, DCGM_BLANK_INT64 + n)), expected[n]);
        assert_int_equal(validity_of(number(1110, DCGM_BLANK_DOUBLE + n)), expected[n]);
    }
    for (int n = 0; n < 4; n++)
        assert_int_equal(validity_of(integer(701, DCGM_BLANK_INT32 + n)), expected[n]);
    assert_int_equal(validity_of(integer(701, DCGM_BLANK_INT32 - 1)), GPU_VALID);
    assert_int_equal(validity_of(number(1110, NAN)), GPU_FAILED);
    assert_int_equal(validity_of(number(1110, INFINITY)), GPU_FAILED);
}

static void test_codes_are_reasons(void **state)
{
    static const struct {
        int code;
        enum gpu_validity validity;
    } rows[] = {{-9, GPU_UNKNOWN},        {-14, GPU_UNKNOWN},       {-16, GPU_UNKNOWN},
                {-54, GPU_UNKNOWN},       {-6, GPU_NOT_SUPPORTED},  {-13, GPU_NOT_SUPPORTED},
                {-22, GPU_NOT_SUPPORTED}, {-33, GPU_NOT_SUPPORTED}, {-36, GPU_NOT_SUPPORTED},
                {-45, GPU_NOT_SUPPORTED}, {-46, GPU_NOT_SUPPORTED}, {-17, GPU_NO_PERMISSION},
                {-29, GPU_NO_PERMISSION}, {-18, GPU_LOST},          {-15, GPU_FAILED},
                {-37, GPU_FAILED},        {-38, GPU_FAILED},        {-1000, GPU_FAILED}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dcgm_value v = integer(701, 5);
        v.status = rows[i].code;
        assert_int_equal(validity_of(v), rows[i].validity);
    }
}

static void test_values_expire_by_their_own_time(void **state)
{
    (void)state;
    struct dcgm_value v = integer(701, 5);
    assert_int_equal(value_at(v, 1000 + 2900 * GS_NS_PER_MS).validity, GPU_VALID);
    assert_int_equal(value_at(v, 1000 + 3100 * GS_NS_PER_MS).validity, GPU_FAILED);
    v.ts_us = NOW_US - 3100000; // already old when it was received
    assert_int_equal(validity_of(v), GPU_FAILED);
    v.ts_us = INT64_MIN;
    assert_int_equal(validity_of(v), GPU_FAILED);
}

static void test_ages_follow_the_clock_of_the_engine(void **state)
{
    (void)state;
    struct dcgm_value v = integer(701, 5);
    v.ts_us = NOW_US - 3600000000; // its clock is an hour behind
    struct dcgm_latest *l = read_of(v);
    l->offset_us = 3600000000;
    assert_int_equal(dcgm_source_value(l, &l->values[0], 1000).validity, GPU_VALID);
    assert_int_equal(dcgm_source_value(l, &l->values[0], 4 * GS_NS_PER_SEC).validity, GPU_FAILED);
    dcgm_latest_free(l);
}

static void test_implausible_profiling_values_are_refused(void **state)
{
    (void)state;
    assert_true(value_at(number(1001, 1.05), 1000).d == 1);
    assert_int_equal(validity_of(number(1001, 1.2)), GPU_FAILED);
    assert_int_equal(validity_of(number(1005, -0.1)), GPU_FAILED);
    assert_int_equal(validity_of(integer(1009, INT64_C(1000000000000))), GPU_FAILED);
    assert_int_equal(validity_of(integer(1009, INT64_C(999999999999))), GPU_VALID);
    assert_int_equal(validity_of(integer(1084, INT64_C(5000000000000))), GPU_VALID); // a counter
}

static void test_texts_have_blanks_too(void **state)
{
    (void)state;
    struct dcgm_value v = {.field = 1524, .type = DCGM_TYPE_TEXT, .text = 0};
    struct dcgm_latest *l = read_of(v);
    snprintf(l->texts, l->n_text, "1.2.3");
    assert_string_equal(dcgm_source_text(l, &l->values[0]), "1.2.3");
    assert_int_equal(dcgm_source_value(l, &l->values[0], 1000).validity, GPU_VALID);
    snprintf(l->texts, l->n_text, "<<<NOT_SUPPORTED>>>");
    assert_null(dcgm_source_text(l, &l->values[0]));
    assert_int_equal(dcgm_source_value(l, &l->values[0], 1000).validity, GPU_NOT_SUPPORTED);
    l->values[0].text = UINT32_MAX;
    assert_null(dcgm_source_text(l, &l->values[0]));
    assert_int_equal(dcgm_source_value(l, &l->values[0], 1000).validity, GPU_FAILED);
    l->values[0].type = DCGM_TYPE_BLOB;
    assert_int_equal(dcgm_source_value(l, &l->values[0], 1000).validity, GPU_FAILED);
    dcgm_latest_free(l);
}

static void test_devices_match_by_uuid_or_address(void **state)
{
    (void)state;
    struct gpu_device devices[2] = {{.uuid = "GPU-a", .pci_bus_id = "0000:10:00.0"},
                                    {.uuid = "GPU-b", .pci_bus_id = "00000000:1A:00.0"}};
    struct gpu_snapshot g = {.devices = devices, .n_devices = 2};
    struct dcgm_latest *l = dcgm_latest_new(2, 0, 0);
    l->entities[0] = (struct dcgm_entity){
        DCGM_ENTITY_GPU, 0, DCGM_SOURCE_NO_PARENT, 0, 0, "GPU-b", "00000000:10:00.0"};
    l->entities[1] = (struct dcgm_entity){.group = DCGM_ENTITY_LINK, .id = 0x101, .parent = 0};
    assert_ptr_equal(dcgm_source_device(&g, l, &l->entities[0]), &devices[1]);
    assert_ptr_equal(dcgm_source_device(&g, l, &l->entities[1]), &devices[1]);
    l->entities[0].uuid[0] = 0;
    assert_ptr_equal(dcgm_source_device(&g, l, &l->entities[0]), &devices[0]);
    snprintf(l->entities[0].pci_bus_id, sizeof(l->entities[0].pci_bus_id), "00000000:1a:00.0");
    assert_ptr_equal(dcgm_source_device(&g, l, &l->entities[0]), &devices[1]);
    l->entities[0].pci_bus_id[0] = 0;
    assert_null(dcgm_source_device(&g, l, &l->entities[0]));
    dcgm_latest_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_keep_their_type),
        cmocka_unit_test(test_blanks_are_not_values),
        cmocka_unit_test(test_codes_are_reasons),
        cmocka_unit_test(test_values_expire_by_their_own_time),
        cmocka_unit_test(test_ages_follow_the_clock_of_the_engine),
        cmocka_unit_test(test_implausible_profiling_values_are_refused),
        cmocka_unit_test(test_texts_have_blanks_too),
        cmocka_unit_test(test_devices_match_by_uuid_or_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
