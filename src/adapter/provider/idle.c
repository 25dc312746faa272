// SPDX-License-Identifier: Apache-2.0
// Finds the rule of a metric that is not served, and the reason.
#include "adapter/provider/provider_private.h"

#include "base/mem.h"

// Finds a rule whose text names the metric and that serves no metrics.
static bool find_idle_rule(const struct provider_call *c, struct provider_registry_rule_state *ret)
{
    const struct provider_registry *r = c->p->o.registry;
    for (size_t i = 0; i < provider_registry_rules(r); i++) {
        GS_AUTO_BUF struct gs_buf name = {0};
        provider_registry_rule(r, i, ret);
        if (ret->rule->external == c->rq.external && !ret->metrics &&
            adapter_config_rule_own_name(ret->rule, &name) && gs_streq(name.data, c->rq.metric))
            return true;
    }
    return false;
}

static void fail_with_idle_rule(struct provider_call *c,
                                const struct provider_registry_rule_state *s)
{
    const struct adapter_config_rule *r = s->rule;
    if (s->error)
        provider_fail(c, PROVIDER_NO_METRIC,
                      "the rule at %s serves it, but its series cannot be listed: %s", r->place,
                      s->error);
    else if (!s->shapes || !s->shapes->series)
        provider_fail(c, PROVIDER_NO_METRIC,
                      "the rule at %s serves it, but no series match its seriesQuery: %s", r->place,
                      r->series_query);
    else
        provider_fail(
            c, PROVIDER_NO_METRIC,
            "the rule at %s serves it, but its series have no label that names a resource",
            r->place);
}

bool provider_fail_idle(struct provider_call *c)
{
    struct provider_registry_rule_state s;
    if (!find_idle_rule(c, &s))
        return false;
    fail_with_idle_rule(c, &s);
    return true;
}
