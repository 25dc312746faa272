// SPDX-License-Identifier: Apache-2.0
// Misspelled annotations.
#include "codec/json.h"
#include "kube/annotations.h"
#include "unit.h"

static const char *const known[] = {"gpuscale.dev/slo", "gpuscale.dev/zero-after",
                                    "gpuscale.dev/priority"};

static struct gs_error *check(const char *name)
{
    CODEC_AUTO_JSON json_t *obj = json_pack("{s:{s:{s:s}}}", "metadata", "annotations", name, "1");
    return kube_check_annotations(obj, known, GS_ARRAY_LEN(known));
}

static void test_a_misspelled_annotation_is_found(void **state)
{
    (void)state;
    assert_error(check("gpuscale.dev/zeroafter"), GS_EINVAL,
                 "annotation gpuscale.dev/zeroafter is unknown and has no effect, did you mean "
                 "gpuscale.dev/zero-after?");
    assert_error(check("gpuscale.dev/SLO"), GS_EINVAL, "mean gpuscale.dev/slo?");
    assert_error(check("gpuscale.dev/prioritty"), GS_EINVAL, "mean gpuscale.dev/priority?");
}

static void test_known_and_foreign_annotations_are_right(void **state)
{
    (void)state;
    CODEC_AUTO_JSON json_t *none = json_object();
    assert_ok(kube_check_annotations(none, known, GS_ARRAY_LEN(known)));
    assert_ok(check("gpuscale.dev/slo"));
    assert_ok(check("gpuscale.dev/address"));
    assert_ok(check("gpuscale.dev/scaledobject"));
    assert_ok(check("example.com/slos"));
    assert_ok(check("gpuscale.dev/"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_misspelled_annotation_is_found),
        cmocka_unit_test(test_known_and_foreign_annotations_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
