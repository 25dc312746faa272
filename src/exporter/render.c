// SPDX-License-Identifier: Apache-2.0
#include "exporter/render_impl.h"

#include "base/mem.h"

void render_gpus(const struct render_names *given, const struct sample *sample,
                 const struct device_map *map, const struct device_replicas *replicas,
                 struct gs_buf *out)
{
    GS_CLEANUP(counters_finish) struct counters defaults = {0};
    struct render_names names = *given;
    if (!names.counters) {
        counters_default(&defaults);
        names.counters = &defaults;
    }
    const struct render_ctx ctx = {&names, sample->gpus};
    struct entities entities = {0};
    render_list_entities(&names, sample->gpus, map, &entities);
    render_sum_pods(sample, &entities);
    for (size_t i = 0; i < names.counters->n_families; i++) {
        const struct counter *c = &names.counters->rows[i];
        if (c->kind == COUNTER_FIELD)
            render_write_family(&ctx, &entities, c, out);
        else
            render_write_computed(&ctx, &entities, c, out);
    }
    render_write_custom(&ctx, sample, &entities, map != NULL, replicas, out);
    render_entities_finish(&entities);
}
