// SPDX-License-Identifier: Apache-2.0
// The ConfigMap with the budgets. What is accepted divides GPUs without exceeding them.
#include "base/mem.h"
#include "base/slice.h"
#include "budget/budget.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void divide(const struct budget_policy *p, size_t scope, double weight)
{
    const struct budget_member m[] = {
        {.key = "n/a", .weight = weight, .gpus = 3, .floor = 1, .demand = 1000000},
        {.key = "n/b", .weight = 1, .gpus = 1, .demand = INT32_MAX, .replicas = 1, .live = 1},
    };
    const struct budget_group g = {p->scopes[scope].name, (int64_t)p->scopes[scope].gpus, 1, m, 2};
    int32_t shares[2];
    budget_share(&g, shares);
    if (g.gpus > 0 && (int64_t)3 * shares[0] + shares[1] > g.gpus - g.others)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct budget_policy p;
    GS_AUTO_FREE char *text = gs_strndup((const char *)data, size);
    GS_AUTO_ERROR struct gs_error *err =
        budget_policy_parse(gs_slice_make((const char *)data, size), "f", &p);
    if (err)
        return 0;
    CODEC_AUTO_JSON json_t *labels = json_pack("{s:s}", "app", "a");
    for (size_t i = 0; i < p.n_scopes; i++) {
        double weight;
        const char *first = p.n_classes ? p.classes[0].name : NULL;
        GS_AUTO_ERROR struct gs_error *wrong = budget_weight(&p, text, first, &weight);
        budget_scope_matches(&p.scopes[i], "n", labels, "NVIDIA-H100-80GB-HBM3");
        divide(&p, i, weight);
    }
    budget_policy_finish(&p);
    return 0;
}
