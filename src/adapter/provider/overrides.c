// SPDX-License-Identifier: Apache-2.0
// Finds overrides in rules whose resource the cluster does not serve: they have no effect, and
// prometheus-adapter says nothing about them.
#include "adapter/provider/rest_mapper.h"

#include "base/mem.h"

char *provider_override_wrong(const struct adapter_config_override *o,
                              const struct provider_rest_mapper *m)
{
    if (provider_rest_mapper_find(m, gs_slice_of(o->group), gs_slice_of(o->resource)))
        return NULL;
    const struct provider_rest_mapping *other =
        provider_rest_mapper_find(m, GS_SLICE(""), gs_slice_of(o->resource));
    struct gs_buf text = {0};
    gs_buf_addf(&text, "the override of label %s names the resource \"%s\"", o->label, o->resource);
    if (*o->group)
        gs_buf_addf(&text, " of the group \"%s\"", o->group);
    gs_buf_add_str(&text, ", which does not exist");
    if (other)
        gs_buf_addf(&text, "; %s is in the group \"%s\"", other->resource, other->group);
    return gs_buf_take(&text);
}

static size_t check_overrides(const struct adapter_config_resources *r,
                              const struct provider_rest_mapper *m, provider_overrides_fn cb,
                              void *arg)
{
    size_t wrong = 0;
    for (size_t i = 0; i < r->n_overrides; i++) {
        const struct adapter_config_override *o = &r->overrides[i];
        if (provider_rest_mapper_find(m, gs_slice_of(o->group), gs_slice_of(o->resource)))
            continue;
        wrong++;
        if (cb)
            cb(arg, o);
    }
    return wrong;
}

size_t provider_overrides_check(const struct adapter_config *c,
                                const struct provider_rest_mapper *m, provider_overrides_fn cb,
                                void *arg)
{
    size_t wrong = 0;
    for (size_t i = 0; i < c->n_rules; i++)
        wrong += check_overrides(&c->rules[i].resources, m, cb, arg);
    wrong += check_overrides(&c->resource.cpu.resources, m, cb, arg);
    return wrong + check_overrides(&c->resource.memory.resources, m, cb, arg);
}
