// SPDX-License-Identifier: Apache-2.0
// The list of machines, and the provider of the node autoscaler. Its calls only change the list and
// start timers, so a caller never waits.
#include "local/machines/machines_private.h"

#include "base/file.h"
#include "base/hmap.h"
#include "base/mem.h"

enum { POLL_MS = 100 }; // until the caches are synced

void machines_each(const struct machines *m, void (*fn)(void *arg, const struct machines_info *i),
                   void *arg)
{
    for (size_t p = 0; p < m->cfg.n_pools; p++)
        for (size_t i = 0; i < m->len; i++)
            if (m->items[i]->pool == &m->pools[p]) {
                const struct machines_info info = machines_machine_info(m->items[i]);
                fn(arg, &info);
            }
}

bool machines_started(const struct machines *m)
{
    if (!m->begun)
        return false;
    for (size_t i = 0; i < m->len; i++)
        if (m->items[i]->first && m->items[i]->phase < MACHINES_READY)
            return false;
    return true;
}

// --- the provider ---

static struct machines_pool *pool_named(const struct machines *all, const char *name)
{
    for (size_t i = 0; i < all->cfg.n_pools; i++)
        if (gs_streq(all->pools[i].spec->name, name))
            return &all->pools[i];
    return NULL;
}

static struct gs_error *no_pool(const char *name)
{
    return gs_error_new(GS_ENOTFOUND, "pool \"%s\" does not exist", name);
}

static size_t target(void *ctx, const char *pool)
{
    const struct machines *all = ctx;
    const struct machines_pool *p = pool_named(all, pool);
    size_t n = 0;
    for (size_t i = 0; i < all->len; i++)
        n += all->items[i]->pool == p && all->items[i]->phase != MACHINES_DELETING;
    return n;
}

static struct gs_error *increase(void *ctx, const char *pool, size_t n)
{
    struct machines *all = ctx;
    struct machines_pool *p = pool_named(all, pool);
    if (!p)
        return no_pool(pool);
    size_t now = target(all, pool);
    if (now > p->spec->max || n > p->spec->max - now)
        return gs_error_new(GS_ELIMIT, "pool \"%s\": size increase too large: %zu + %zu, max: %zu",
                            pool, now, n, (size_t)p->spec->max);
    if (n > MACHINES_MAX - all->len)
        return gs_error_new(GS_ELIMIT, "gpuscale up runs at most %d machines", MACHINES_MAX);
    for (size_t i = 0; i < n; i++)
        machines_machine_create(all, p, false);
    return NULL;
}

// The youngest first.
static struct gs_error *decrease_target(void *ctx, const char *pool, size_t n)
{
    struct machines *all = ctx;
    const struct machines_pool *p = pool_named(all, pool);
    size_t creating = 0;
    if (!p)
        return no_pool(pool);
    for (size_t i = 0; i < all->len; i++)
        creating += all->items[i]->pool == p && all->items[i]->phase == MACHINES_PROVISIONING;
    if (n > creating)
        return gs_error_new(GS_EINVAL,
                            "pool \"%s\": cannot decrease the target by %zu: %zu machines are "
                            "being created",
                            pool, n, creating);
    for (size_t i = all->len; i-- && n;)
        if (all->items[i]->pool == p && all->items[i]->phase == MACHINES_PROVISIONING) {
            machines_machine_delete(all->items[i]);
            n--;
        }
    return NULL;
}

static struct gs_error *delete_node(void *ctx, const char *pool, const char *provider_id)
{
    struct machines *all = ctx;
    const struct machines_pool *p = pool_named(all, pool);
    if (!p)
        return no_pool(pool);
    for (size_t i = 0; i < all->len; i++) {
        struct machines_machine *m = all->items[i];
        if (m->pool != p || !gs_streq(m->provider_id, provider_id))
            continue;
        if (m->phase == MACHINES_DELETING)
            return NULL;
        if (m->kubelet && target(all, pool) <= p->spec->min)
            return gs_error_new(GS_ELIMIT,
                                "pool \"%s\": min size reached, nodes will not be deleted", pool);
        machines_machine_delete(m);
        return NULL;
    }
    return gs_error_new(GS_ENOTFOUND, "pool \"%s\" has no machine %s", pool, provider_id);
}

static void each_instance(void *ctx, const char *pool,
                          void (*fn)(void *arg, const struct nodes_instance *i), void *arg)
{
    const struct machines *all = ctx;
    const struct machines_pool *p = pool_named(all, pool);
    for (size_t i = 0; i < all->len; i++) {
        const struct machines_machine *m = all->items[i];
        const struct nodes_instance instance = {
            .provider_id = m->provider_id,
            .state = m->phase == MACHINES_DELETING ? NODES_INSTANCE_DELETING
                     : m->kubelet                  ? NODES_INSTANCE_RUNNING
                                                   : NODES_INSTANCE_CREATING,
            .error_code = m->error_code,
            .error_message = m->error_message,
            .out_of_resources = m->failure == NODES_FAILURE_CAPACITY,
        };
        if (m->pool == p)
            fn(arg, &instance);
    }
}

const struct nodes_provider *machines_provider(const struct machines *m)
{
    return &m->provider;
}

// --- start and stop ---

// The exporters of a killed program may end later than this one starts.
static void remove_former_gpus(const struct machines *all)
{
    GS_AUTO_FREE char *set = machines_set_name(all->cfg.cluster->data_dir);
    GS_AUTO_FREE char *prefix = gs_format("%s-", set);
    nvmlsim_remove_unused(prefix);
}

static void begin(void *arg)
{
    struct machines *all = arg;
    if (!local_cluster_synced(all->cfg.cluster)) {
        gs_timer_start(all->timer, begin, POLL_MS);
        return;
    }
    GS_AUTO_FREE char *dir = gs_format("%s/nodes", all->cfg.cluster->data_dir);
    machines_delete_former(all->cfg.cluster);
    remove_former_gpus(all);
    gs_remove_tree(dir);
    for (size_t p = 0; p < all->cfg.n_pools; p++)
        for (size_t i = 0; i < all->pools[p].spec->min && all->len < MACHINES_MAX; i++)
            machines_machine_create(all, &all->pools[p], true);
    all->begun = true;
}

static void copy_kubelet_config(struct machines *all, const struct local_kubelet_config *k)
{
    all->first = k->first;
    all->self_exe = gs_strdup(k->self_exe);
    all->work_dir = k->work_dir ? gs_strdup(k->work_dir) : NULL;
    for (size_t i = 0; k->extra_env && k->extra_env[i]; i++)
        all->n_env++;
    all->extra_env = gs_alloc_array(all->n_env + 1, sizeof(*all->extra_env));
    for (size_t i = 0; k->extra_env && i < all->n_env; i++)
        all->extra_env[i] = gs_strdup(k->extra_env[i]);
}

struct machines *machines_new(const struct machines_config *cfg)
{
    struct machines *all = gs_alloc(sizeof(*all));
    const char *dir = cfg->cluster->data_dir;
    all->cfg = *cfg;
    copy_kubelet_config(all, cfg->kubelet);
    all->cfg.kubelet = NULL;
    all->pools = gs_alloc_array(cfg->n_pools, sizeof(*all->pools));
    for (size_t i = 0; i < cfg->n_pools; i++)
        all->pools[i].spec = &cfg->pools[i];
    all->next_address = (gs_hash(dir, strlen(dir)) & 0xff) * 256;
    all->timer = gs_timer_new(cfg->cluster->loop, all);
    all->orphans = machines_orphans_new(cfg->cluster);
    all->provider = (struct nodes_provider){.ctx = all,
                                            .target = target,
                                            .increase = increase,
                                            .decrease_target = decrease_target,
                                            .delete_node = delete_node,
                                            .each = each_instance};
    gs_timer_start(all->timer, begin, 0);
    return all;
}

static void on_all_stopped(void *arg)
{
    struct machines *all = arg;
    all->stop_done(all->stop_arg);
}

static void on_one_stopped(void *arg)
{
    struct machines_machine *m = arg;
    if (--m->owner->n_stopping == 0)
        gs_timer_start(m->owner->timer, on_all_stopped, 0);
}

void machines_stop(struct machines *m, unsigned timeout_ms, void (*done)(void *arg), void *arg)
{
    m->stopping = true;
    m->stop_done = done;
    m->stop_arg = arg;
    for (size_t i = 0; i < m->len; i++)
        gs_timer_stop(m->items[i]->timer);
    for (size_t i = 0; i < m->len; i++)
        if (m->items[i]->kubelet) {
            m->n_stopping++;
            kubelet_stop(m->items[i]->kubelet, timeout_ms, on_one_stopped, m->items[i]);
        }
    if (!m->n_stopping)
        gs_timer_start(m->timer, on_all_stopped, 0);
}

void machines_free(struct machines *m)
{
    if (!m)
        return;
    GS_AUTO_FREE char *dir = gs_format("%s/nodes", m->cfg.cluster->data_dir);
    gs_timer_free(m->timer);
    machines_orphans_free(m->orphans);
    for (size_t i = 0; i < m->len; i++)
        machines_machine_free(m->items[i]);
    if (m->len)
        gs_remove_tree(dir);
    remove_former_gpus(m);
    for (size_t i = 0; i < m->n_env; i++)
        free(m->extra_env[i]);
    free(m->extra_env);
    free(m->self_exe);
    free(m->work_dir);
    free(m->items);
    free(m->pools);
    free(m);
}
