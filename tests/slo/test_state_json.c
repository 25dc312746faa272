// SPDX-License-Identifier: Apache-2.0
// What was learned survives a restart of the controller.
#include "unit.h"

#include "slo/service.h"

static double throughput(struct service *s)
{
    return service_bound(s, "throughput")->value;
}

static void test_what_was_learned_is_there_after_a_restart(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "ttft=1s,itl=50ms", 2);
    s.rate = 60;
    service_follow(&s, 900, 60);
    service_run(&s, 120);
    double before = throughput(&s);
    assert_true(before > 0);
    CODEC_AUTO_JSON json_t *saved = slo_state_json(s.state, s.now_ms);
    slo_state_free(s.state);
    assert_ok(slo_state_from_json(saved, s.now_ms, &s.state));
    service_run(&s, 60);
    assert_true(fabs(throughput(&s) / before - 1) < 0.2);
    CODEC_AUTO_JSON json_t *again = slo_state_json(s.state, s.now_ms);
    assert_int_equal(json_array_size(json_object_get(again, "learned")), 1);
    service_finish(&s);
}

static void test_another_image_has_to_show_its_throughput(void **state)
{
    (void)state;
    struct service s;
    service_init(&s, "ttft=1s,itl=50ms", 2);
    s.obs.identity = "sha256:1 H100";
    s.rate = 60;
    service_follow(&s, 600, 60);
    service_run(&s, 60);
    assert_true(throughput(&s) > 0);
    s.obs.identity = "sha256:2 H100";
    service_step(&s);
    assert_true(isnan(throughput(&s)));
    s.obs.identity = "sha256:1 H100"; // a rollback
    service_step(&s);
    assert_true(throughput(&s) > 0);
    service_finish(&s);
}

static void test_hostile_numbers_are_dropped(void **state)
{
    (void)state;
    static const char text[] =
        "{\"learned\":[{\"identity\":\"\",\"ageMs\":-5,\"promptWeight\":1e300,\"rates\":[1e300,-4,"
        "\"x\"],\"anchor\":-1,\"slots\":1e99,\"slotsWeight\":7,\"loads\":[{\"load\":-1},{\"load\":"
        "5,"
        "\"weight\":100,\"within\":[9,9],\"target\":[1],\"inverse\":[-3],\"quiet\":[1e5]},7]},{},4,"
        "null,{},{},{}]}";
    struct service s;
    service_init(&s, "ttft=1s,itl=50ms", 2);
    CODEC_AUTO_JSON json_t *in = json_loads(text, 0, NULL);
    slo_state_free(s.state);
    assert_ok(slo_state_from_json(in, s.now_ms, &s.state));
    s.rate = 10;
    service_run(&s, 120);
    assert_in_range(s.decision.proposal, 1, 4);
    service_finish(&s);
}

static void test_other_objects_are_refused(void **state)
{
    (void)state;
    struct slo_state *st = NULL;
    CODEC_AUTO_JSON json_t *in = json_loads("{\"learned\":{}}", 0, NULL);
    assert_error(slo_state_from_json(in, 1, &st), GS_EINVAL, "list \"learned\"");
    assert_error(slo_state_from_json(NULL, 1, &st), GS_EINVAL, "list \"learned\"");
    assert_null(st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_learned_is_there_after_a_restart),
        cmocka_unit_test(test_another_image_has_to_show_its_throughput),
        cmocka_unit_test(test_hostile_numbers_are_dropped),
        cmocka_unit_test(test_other_objects_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
