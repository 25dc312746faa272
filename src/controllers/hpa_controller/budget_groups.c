// SPDX-License-Identifier: Apache-2.0
// The workloads of one budget as the input of a decision.
#include "hpa_controller/budgets_private.h"

#include "base/clock.h"

void hpa_budget_set_init(const struct hpa_budgets *b, size_t scope,
                         const struct hpa_budget_workload *w, struct hpa_budget_set *ret)
{
    size_t n = 0, pos = 0, all = gs_hmap_len(b->workloads);
    int64_t now_ms = gs_unix_ms();
    void *value;
    *ret = (struct hpa_budget_set){.members = gs_alloc_array(all + 1, sizeof(*ret->members)),
                                   .workloads = gs_alloc_array(all + 1, sizeof(*ret->workloads))};
    while (gs_hmap_next(b->workloads, &pos, NULL, &value)) {
        struct hpa_budget_workload *other = value;
        if (!hpa_budget_has_scope(other->scopes, scope))
            continue;
        if (other == w)
            ret->self = n;
        ret->members[n] = other->member;
        if (now_ms >= other->settles_ms)
            ret->members[n].settling = 0;
        ret->members[n].idle = hpa_budget_is_idle(other, scope);
        ret->members[n].live = other->live;
        ret->members[n].ending = other->ending;
        ret->workloads[n++] = other;
    }
    ret->group = (struct budget_group){.name = b->policy.scopes[scope].name,
                                       .gpus = (int64_t)b->policy.scopes[scope].gpus,
                                       .others = b->others[scope],
                                       .members = ret->members,
                                       .n = n};
}

void hpa_budget_set_finish(struct hpa_budget_set *s)
{
    free(s->members);
    free(s->workloads);
}
