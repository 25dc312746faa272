// SPDX-License-Identifier: Apache-2.0
// The line and the JSON of a decision: the GPUs of each member, and the moves between members.
#include "unit.h"

#include "base/mem.h"
#include "budget/budget.h"

static void test_the_line_names_who_has_the_gpus_and_who_took_them(void **state)
{
    struct budget_memory *memory = budget_memory_new();
    struct budget_member m[] = {
        {.key = "n/chat", .weight = 10, .gpus = 2, .demand = 6, .replicas = 2, .hold_ms = 60000},
        {.key = "n/batch", .weight = 1, .gpus = 1, .demand = 8, .replicas = 8, .hold_ms = 60000},
    };
    const struct budget_group group = {"h100", 12, 0, m, 2};
    struct budget_result r;
    GS_AUTO_BUF struct gs_buf text = {0};
    budget_decide(&group, 1, memory, 1000, &r);
    assert_int_equal(r.replicas, 2);
    budget_note(memory, &group, 1, r.replicas, 1000);
    m[1].replicas = 2;
    budget_decide(&group, 1, memory, 6000, &r);
    budget_result_text(&group, 1, memory, &r, 6000, &text);
    assert_string_equal(text.data, "GPU budget h100: 2 of 8 wanted replicas; n/chat has 4 of 12 "
                                   "GPUs; 6 replicas were taken for n/chat 5 s ago");
    CODEC_AUTO_JSON json_t *json = budget_result_json(&group, 1, memory, &r, 6000);
    assert_int_equal(codec_json_int(json, -1, "free", NULL), 6);
    assert_string_equal(codec_json_str(json, "reason", NULL), "share");
    const json_t *move = json_array_get(json_object_get(json, "moves"), 0);
    assert_string_equal(codec_json_str(move, "from", NULL), "n/batch");
    assert_string_equal(codec_json_str(move, "to", NULL), "n/chat");
    const json_t *first = json_array_get(json_object_get(json, "members"), 0);
    assert_string_equal(codec_json_str(first, "name", NULL), "n/chat");
    budget_memory_free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_line_names_who_has_the_gpus_and_who_took_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
