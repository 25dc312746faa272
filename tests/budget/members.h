// SPDX-License-Identifier: Apache-2.0
// Members of budgets with one GPU for each replica, and the decision for one of them. Functions are
// inline because each test program uses some of them.
#pragma once

#include "budget/budget.h"

#define HOLD_MS 120000

static inline struct budget_member member(const char *key, double weight, int32_t demand,
                                          int32_t replicas)
{
    return (struct budget_member){.key = key,
                                  .weight = weight,
                                  .gpus = 1,
                                  .demand = demand,
                                  .replicas = replicas,
                                  .live = replicas,
                                  .hold_ms = HOLD_MS};
}

static inline struct budget_result decide(const struct budget_group *g, size_t i,
                                          const struct budget_memory *m, int64_t now_ms)
{
    struct budget_result r;
    budget_decide(g, i, m, now_ms, &r);
    return r;
}
