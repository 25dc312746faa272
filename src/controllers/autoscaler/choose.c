// SPDX-License-Identifier: Apache-2.0
// The choice of the pool that grows, by nodes_decide().
#include "autoscaler/autoscaler_private.h"

#include "base/mem.h"

struct nodes_group *autoscaler_groups(const struct autoscaler *a)
{
    struct nodes_group *groups = gs_alloc_array(a->cfg.n_pools + 1, sizeof(*groups));
    for (size_t i = 0; i < a->cfg.n_pools; i++) {
        const struct autoscaler_pool *p = &a->pools[i];
        groups[i] = (struct nodes_group){
            .name = p->pool->name,
            .pool = p->pool,
            .node = p->template,
            .size = p->target,
            .max = p->pool->max,
            .backoff = p->backoff,
            .blocked = p->healthy ? NULL : "not ready for scale-up",
        };
    }
    return groups;
}

static struct nodes_choice_settings settings_of(const struct autoscaler *a,
                                                const struct autoscaler_run *r, size_t room)
{
    return (struct nodes_choice_settings){
        .policy = a->policy,
        .now_ms = r->now_ms,
        .max_nodes_per_choice = room,
        .seed = (uint64_t)a->runs,
    };
}

void autoscaler_choice_finish(struct autoscaler_choice *c)
{
    nodes_decision_finish(&c->decision);
    free(c->groups);
}

bool autoscaler_choose(struct autoscaler *a, struct autoscaler_run *r, size_t room,
                       struct autoscaler_choice *ret)
{
    const struct nodes_choice_settings settings = settings_of(a, r, room);
    ret->groups = autoscaler_groups(a);
    nodes_decide(r->snapshot, ret->groups, a->cfg.n_pools, &settings, &ret->decision);
    if (ret->decision.chosen == NODES_NONE)
        return false;
    ret->option = &ret->decision.options[ret->decision.chosen];
    ret->pool = &a->pools[ret->decision.chosen];
    return ret->option->count > 0;
}

char *autoscaler_rejection(struct autoscaler *a, struct autoscaler_run *r, size_t pod)
{
    const struct nodes_choice_settings settings = settings_of(a, r, 1);
    struct nodes_reasons reasons = {0};
    struct nodes_group *groups = autoscaler_groups(a);
    for (size_t i = 0; i < a->cfg.n_pools; i++)
        nodes_group_reasons(r->snapshot, pod, &groups[i], &settings, &reasons);
    free(groups);
    GS_AUTO_BUF struct gs_buf text = {0};
    gs_buf_add_str(&text, "pod didn't trigger scale-up: ");
    for (size_t i = 0; i < reasons.len; i++)
        gs_buf_addf(&text, "%s%zu %s", i ? ", " : "", reasons.items[i].nodes,
                    reasons.items[i].text);
    nodes_reasons_finish(&reasons);
    return gs_buf_take(&text);
}
