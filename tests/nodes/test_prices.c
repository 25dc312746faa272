// SPDX-License-Identifier: Apache-2.0
#include "unit.h"

#include "nodes/prices.h"

static void test_price_of_machine_precedes_pool_and_model(void **state)
{
    CODEC_AUTO_JSON json_t *table = json_pack(
        "{s:{s:f, s:f, s:f}, s:{s:{s:i, s:f}, s:{s:i, s:f}}}", "gpus", "H100", 2.5, "A10", 1.0,
        "A100", 1.3, "instances", "p5", "gpus", 8, "price", 44.0, "spot", "gpus", 2, "price", 1.0);
    static const struct {
        const char *machine, *pool, *model;
        double price; // 0: none
    } cases[] = {
        {"p5", "spot", "NVIDIA H100 80GB HBM3", 5.5},
        {"", "spot", "NVIDIA H100 80GB HBM3", 0.5},
        {"other", "other", "NVIDIA H100 80GB HBM3", 2.5},
        {"", "", "NVIDIA A100-SXM4-80GB", 1.3},
        {"", "", "NVIDIA A10", 1.0},
        {"", "", "NVIDIA A10G", 0},
        {"", "", "", 0},
    };
    (void)state;
    assert_ok(nodes_prices_check(table));
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        double price = 0;
        bool found =
            nodes_prices_find(table, cases[i].machine, cases[i].pool, cases[i].model, &price);
        assert_int_equal(found, cases[i].price > 0);
        assert_true(price == cases[i].price);
    }
    double price;
    assert_false(nodes_prices_find(NULL, "p5", "", "H100", &price));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_price_of_machine_precedes_pool_and_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
