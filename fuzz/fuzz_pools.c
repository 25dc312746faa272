// SPDX-License-Identifier: Apache-2.0
// Pools of machines. The first byte chooses: 'o' the text of an option, else a file.
#include "base/mem.h"
#include "nodes/pool.h"
#include "nodes/simulation.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct nodes_pool *p)
{
    const struct nodes_simulation *sim = p->simulation;
    if (!p->name || p->min > p->max || p->max > NODES_MAX_POOL_SIZE ||
        p->startup_p90_ms < p->startup_ms ||
        sim->boot_ms + sim->driver_ms + sim->gpu_ms != p->startup_ms)
        __builtin_trap();
    json_decref(nodes_pool_template(p, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct nodes_pools pools = {0};
    struct nodes_findings findings = {0};
    if (size == 0)
        return 0;
    GS_AUTO_FREE char *text = gs_strndup((const char *)data + 1, size - 1);
    struct gs_error *err =
        data[0] == 'o' ? nodes_pools_add_option(&pools, text)
                       : nodes_pools_parse(&pools, gs_slice_make(data + 1, size - 1), "f", NULL);
    if (err && pools.len)
        __builtin_trap();
    for (size_t i = 0; i < pools.len; i++)
        check(&pools.items[i]);
    nodes_pools_check(&pools, true, &findings);
    nodes_findings_finish(&findings);
    nodes_pools_finish(&pools);
    gs_error_free(err);
    return 0;
}
