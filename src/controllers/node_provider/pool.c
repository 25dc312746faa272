// SPDX-License-Identifier: Apache-2.0
// The pools with their machines, and the calls of the autoscaler that change them.
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "node_provider/node_provider_private.h"

#include <inttypes.h>

#define TICK_MS    1000
#define MINIMUM_MS 300000 // after a failure until the minimum is restored
#define NAME_LEN   5      // of the random part

// --- lookup ---

struct node_provider_pool *node_provider_find_pool(const struct node_provider_fleet *f,
                                                   const char *name)
{
    for (size_t i = 0; i < f->n_pools; i++)
        if (gs_streq(f->pools[i].spec->name, name))
            return &f->pools[i];
    return NULL;
}

struct node_provider_machine *node_provider_find_machine(const struct node_provider_fleet *f,
                                                         const char *provider_id)
{
    return gs_hmap_get_str(f->by_id, provider_id);
}

struct node_provider_machine *node_provider_find_named(const struct node_provider_pool *p,
                                                       const char *name)
{
    for (size_t i = 0; i < p->len; i++)
        if (gs_streq(p->machines[i]->name, name))
            return p->machines[i];
    return NULL;
}

size_t node_provider_count(const struct node_provider_pool *p, enum node_provider_step step)
{
    size_t n = 0;
    for (size_t i = 0; i < p->len; i++)
        n += p->machines[i]->step == step;
    return n;
}

size_t node_provider_target(const struct node_provider_pool *p)
{
    return p->len - node_provider_count(p, NODE_PROVIDER_DELETING) -
           node_provider_count(p, NODE_PROVIDER_GONE);
}

bool node_provider_fleet_ready(const struct node_provider_fleet *f)
{
    for (size_t i = 0; i < f->n_pools; i++)
        if (!f->pools[i].list_tried)
            return false;
    return true;
}

// --- machines of a pool ---

void node_provider_set_id(struct node_provider_machine *m, const char *id)
{
    struct gs_hmap *by_id = m->pool->fleet->by_id;
    if (m->provider_id && gs_hmap_get_str(by_id, m->provider_id) == m)
        (void)gs_hmap_remove_str(by_id, m->provider_id);
    char *copy = gs_strdup(id);
    free(m->provider_id);
    m->provider_id = copy;
    gs_hmap_put_str(by_id, copy, m);
}

static void attach_machine(struct node_provider_pool *p, struct node_provider_machine *m)
{
    m->pool = p;
    gs_grow(&p->machines, &p->cap, p->len, sizeof(struct node_provider_machine *));
    p->machines[p->len++] = m;
    gs_hmap_put_str(p->fleet->by_id, m->provider_id, m);
}

struct node_provider_machine *node_provider_add_machine(struct node_provider_pool *p,
                                                        const char *name, const char *id,
                                                        enum node_provider_step step)
{
    struct node_provider_machine *m = gs_alloc(sizeof(*m));
    m->name = gs_strdup(name);
    m->pool_name = gs_strdup(p->spec->name);
    m->provider_id = gs_strdup(id);
    m->step = step;
    m->created_ms = m->changed_ms = gs_unix_ms();
    attach_machine(p, m);
    return m;
}

static void detach_machine(struct node_provider_machine *m)
{
    struct node_provider_pool *p = m->pool;
    size_t i = 0;
    while (p->machines[i] != m)
        i++;
    memmove(&p->machines[i], &p->machines[i + 1],
            (p->len - i - 1) * sizeof(struct node_provider_machine *));
    p->len--;
    if (gs_hmap_get_str(p->fleet->by_id, m->provider_id) == m)
        (void)gs_hmap_remove_str(p->fleet->by_id, m->provider_id);
    node_provider_machine_free(m);
}

void node_provider_forget_machine(struct node_provider_machine *m)
{
    struct gs_error *err = node_provider_state_delete(m->pool->fleet->config.state, m->name);
    if (err)
        node_provider_log_state_error(m->pool, err);
    else
        detach_machine(m);
}

char *node_provider_default_id(const struct node_provider_spec *spec, const char *name)
{
    struct gs_buf out = {0};
    for (const char *p = spec->provider_id; *p;) {
        if (gs_starts(p, "$NAME")) {
            gs_buf_add_str(&out, name);
            p += 5;
        } else if (gs_starts(p, "$POOL")) {
            gs_buf_add_str(&out, spec->name);
            p += 5;
        } else {
            gs_buf_add_char(&out, *p++);
        }
    }
    return gs_buf_take(&out);
}

// --- names ---

// A name must be free in all pools: it is the key of the state file and the name of a Node.
static bool is_taken(const struct node_provider_fleet *f, const char *name)
{
    for (size_t i = 0; i < f->n_pools; i++)
        if (node_provider_find_named(&f->pools[i], name))
            return true;
    return false;
}

static struct gs_error *generate_name(const struct node_provider_pool *p, char **ret)
{
    for (int tries = 0; tries < 100; tries++) {
        char part[NAME_LEN + 1];
        gs_random_suffix(part, NAME_LEN);
        GS_AUTO_FREE char *name = gs_format("gpuscale-%s-%s", p->spec->name, part);
        if (!is_taken(p->fleet, name)) {
            *ret = GS_TAKE(name);
            return NULL;
        }
    }
    return gs_error_new(GS_ELIMIT, "no free name for a machine of %s", p->spec->name);
}

// A machine that is gone keeps its name until its Node is removed.
static bool is_free_machine(const struct node_provider_pool *p, const char *name)
{
    const struct node_provider_machine *m = node_provider_find_named(p, name);
    return !m || (m->step == NODE_PROVIDER_GONE && !m->has_node);
}

static struct gs_error *choose_machine(struct node_provider_pool *p, char **ret)
{
    for (size_t i = 0; i < p->spec->n_hosts; i++) {
        const char *name = p->spec->hosts[i];
        if (!is_free_machine(p, name))
            continue;
        struct node_provider_machine *old = node_provider_find_named(p, name);
        if (old)
            detach_machine(old); // its row is replaced
        *ret = gs_strdup(name);
        return NULL;
    }
    return gs_error_new(GS_ELIMIT, "%s: all %zu hosts are in use", p->spec->name, p->spec->n_hosts);
}

static struct gs_error *choose_name(struct node_provider_pool *p, char **ret)
{
    return p->spec->n_hosts > 0 ? choose_machine(p, ret) : generate_name(p, ret);
}

// --- calls of the autoscaler ---

static struct gs_error *insert_machines(struct node_provider_pool *p, size_t n, size_t *ret_added)
{
    struct node_provider_state *state = p->fleet->config.state;
    struct gs_error *err = node_provider_state_begin(state);
    if (err)
        return err;
    for (size_t i = 0; !err && i < n; i++) {
        GS_AUTO_FREE char *name = NULL;
        err = choose_name(p, &name);
        if (err)
            break;
        GS_AUTO_FREE char *id = node_provider_default_id(p->spec, name);
        err = node_provider_state_put(state,
                                      node_provider_add_machine(p, name, id, NODE_PROVIDER_WANTED));
        ++*ret_added;
    }
    return node_provider_state_end(state, err);
}

struct gs_error *node_provider_increase(struct node_provider_pool *p, size_t n)
{
    const size_t target = node_provider_target(p);
    if (n == 0)
        return gs_error_new(GS_EINVAL, "%s: size increase must be positive", p->spec->name);
    if (n > p->spec->max || target + n > p->spec->max)
        return gs_error_new(GS_EINVAL, "%s: size increase too large - desired: %zu max: %zu",
                            p->spec->name, target + n, p->spec->max);
    if (!p->listed)
        return gs_error_new(GS_EUNAVAIL, "%s: the machines are not known yet: %s", p->spec->name,
                            p->list_error ? p->list_error : "the list command has not ended");
    size_t added = 0;
    struct gs_error *err = insert_machines(p, n, &added);
    if (err) {
        while (added-- > 0)
            detach_machine(p->machines[p->len - 1]);
        return err;
    }
    gs_info("node-provider", "%s: %zu -> %zu machines (max: %zu)", p->spec->name, target,
            target + n, p->spec->max);
    node_provider_schedule(p);
    return NULL;
}

struct gs_error *node_provider_decrease(struct node_provider_pool *p, size_t n)
{
    const size_t wanted = node_provider_count(p, NODE_PROVIDER_WANTED),
                 target = node_provider_target(p);
    if (n == 0)
        return gs_error_new(GS_EINVAL, "%s: size decrease must be negative", p->spec->name);
    if (n > wanted)
        return gs_error_new(
            GS_EINVAL,
            "%s: attempt to delete existing nodes: target %zu, decrease %zu, %zu machines exist or "
            "are being created",
            p->spec->name, target, n, target - wanted);
    struct node_provider_state *state = p->fleet->config.state;
    struct gs_error *err = node_provider_state_begin(state);
    size_t left = n;
    for (size_t i = p->len; !err && left > 0 && i-- > 0;)
        if (p->machines[i]->step == NODE_PROVIDER_WANTED) {
            err = node_provider_state_delete(state, p->machines[i]->name);
            left--;
        }
    err = node_provider_state_end(state, err);
    if (err)
        return err;
    for (size_t i = p->len; n > 0 && i-- > 0;)
        if (p->machines[i]->step == NODE_PROVIDER_WANTED) {
            detach_machine(p->machines[i]);
            n--;
        }
    gs_info("node-provider", "%s: %zu -> %zu machines", p->spec->name, target,
            node_provider_target(p));
    return NULL;
}

static struct gs_error *check_deletions(struct node_provider_pool *p, const char *const *ids,
                                        size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct node_provider_machine *m = node_provider_find_machine(p->fleet, ids[i]);
        if (!m)
            return gs_error_new(GS_EINVAL, "%s does not belong to a pool of this provider", ids[i]);
        if (m->pool != p)
            return gs_error_new(GS_EINVAL, "%s belongs to %s, not to %s", ids[i], m->pool_name,
                                p->spec->name);
    }
    return NULL;
}

// The autoscaler removes failed machines below the minimum, too. Working ones it may not.
static struct gs_error *check_minimum(struct node_provider_pool *p, const char *const *ids,
                                      size_t n)
{
    size_t working = 0;
    for (size_t i = 0; i < n; i++) {
        const struct node_provider_machine *m = node_provider_find_machine(p->fleet, ids[i]);
        working += m->step == NODE_PROVIDER_CREATED && (m->has_node || !p->fleet->watches_nodes);
    }
    const size_t target = node_provider_target(p);
    if (working == 0 || target >= p->spec->min + working)
        return NULL;
    return gs_error_new(GS_EINVAL,
                        "%s: min size reached, nodes will not be deleted (target %zu, "
                        "min %zu)",
                        p->spec->name, target, p->spec->min);
}

static struct gs_error *request_deletion(struct node_provider_machine *m)
{
    if (m->step == NODE_PROVIDER_DELETING || m->step == NODE_PROVIDER_GONE)
        return NULL;
    m->retry_ms = 0;
    m->deleted_ok = false;
    gs_info("node-provider", "%s/%s: to be deleted", m->pool_name, m->name);
    // Its command has not started, and nothing exists.
    return node_provider_set_step(m, m->step == NODE_PROVIDER_WANTED ? NODE_PROVIDER_GONE
                                                                     : NODE_PROVIDER_DELETING);
}

struct gs_error *node_provider_delete(struct node_provider_pool *p, const char *const *ids,
                                      size_t n)
{
    struct gs_error *err = check_deletions(p, ids, n);
    if (!err)
        err = check_minimum(p, ids, n);
    for (size_t i = 0; !err && i < n; i++)
        err = request_deletion(node_provider_find_machine(p->fleet, ids[i]));
    node_provider_schedule(p);
    return err;
}

void node_provider_keep_minimum(struct node_provider_pool *p)
{
    const size_t target = node_provider_target(p);
    if (target >= p->spec->min || gs_unix_ms() - p->failed_ms < MINIMUM_MS)
        return;
    gs_info("node-provider", "%s: fewer machines than the minimum of %zu", p->spec->name,
            p->spec->min);
    struct gs_error *err = node_provider_increase(p, p->spec->min - target);
    if (err) {
        p->failed_ms = gs_unix_ms();
        gs_warn("node-provider", "%s", gs_error_message(err));
        gs_error_free(err);
    }
}

// --- fleet ---

static void report_unregistered(struct node_provider_machine *m, int64_t now)
{
    if (m->step != NODE_PROVIDER_CREATED || m->has_node || m->reported_missing ||
        !m->pool->fleet->watches_nodes || now - m->changed_ms < m->pool->fleet->config.provision_ms)
        return;
    char time[GS_RFC3339_SIZE];
    m->reported_missing = true;
    gs_warn("node-provider",
            "%s/%s: no Node with the provider ID %s has registered for %s. Check that the kubelet "
            "runs with --provider-id=%s. The Cluster Autoscaler deletes the machine after its "
            "--max-node-provision-time",
            m->pool_name, m->name, m->provider_id,
            gs_format_duration((now - m->changed_ms) / 1000 * 1000 * GS_NS_PER_MS, time),
            m->provider_id);
}

static void on_tick(void *arg)
{
    struct node_provider_fleet *f = arg;
    const int64_t now = gs_unix_ms();
    for (size_t i = 0; i < f->n_pools; i++) {
        struct node_provider_pool *p = &f->pools[i];
        if (!p->lister && llabs(now - p->listed_ms) >= f->config.list_interval_ms)
            node_provider_list_now(p);
        node_provider_schedule(p);
        for (size_t k = 0; k < p->len; k++)
            report_unregistered(p->machines[k], now);
    }
}

static void on_row(void *arg, struct node_provider_machine *m)
{
    struct node_provider_fleet *f = arg;
    struct node_provider_pool *p = node_provider_find_pool(f, m->pool_name);
    if (p && m->step >= NODE_PROVIDER_WANTED && m->step < NODE_PROVIDER_N_STEPS) {
        attach_machine(p, m);
        return;
    }
    if (m->step != NODE_PROVIDER_GONE) {
        gs_warn("node-provider",
                "machine %s belongs to the pool %s, which the file does not contain; it is left "
                "alone",
                m->name, m->pool_name);
        f->n_orphans++;
    }
    node_provider_machine_free(m);
}

struct gs_error *node_provider_fleet_new(const struct node_provider_fleet_config *config,
                                         struct node_provider_fleet **ret)
{
    struct node_provider_fleet *f = gs_alloc(sizeof(*f));
    f->config = *config;
    f->by_id = gs_hmap_new(NULL);
    f->timer = gs_timer_new(config->loop, f);
    f->n_pools = config->file->pools.len;
    f->pools = gs_alloc_array(f->n_pools, sizeof(*f->pools));
    for (size_t i = 0; i < f->n_pools; i++) {
        f->pools[i].spec = &config->file->specs[i];
        f->pools[i].fleet = f;
    }
    struct gs_error *err = node_provider_state_load(config->state, on_row, f);
    if (err) {
        node_provider_fleet_free(f);
        return err;
    }
    *ret = f;
    return NULL;
}

void node_provider_fleet_start(struct node_provider_fleet *f)
{
    for (size_t i = 0; i < f->n_pools; i++) {
        struct node_provider_pool *p = &f->pools[i];
        for (size_t k = 0; k < p->len; k++)
            node_provider_adopt(p->machines[k]);
        node_provider_list_now(p);
    }
    gs_timer_repeat(f->timer, on_tick, TICK_MS, TICK_MS);
}

void node_provider_fleet_set_paused(struct node_provider_fleet *f, bool paused)
{
    f->paused = paused;
}

bool node_provider_fleet_idle(const struct node_provider_fleet *f)
{
    for (size_t i = 0; i < f->n_pools; i++)
        if (f->pools[i].running > 0)
            return false;
    return true;
}

void node_provider_fleet_inherit(struct node_provider_fleet *f,
                                 const struct node_provider_fleet *old)
{
    for (size_t i = 0; i < f->n_pools; i++) {
        struct node_provider_pool *p = &f->pools[i];
        const struct node_provider_pool *o = node_provider_find_pool(old, p->spec->name);
        if (!o)
            continue;
        p->list_tried = o->list_tried;
        p->listed = o->listed;
        p->failed_ms = o->failed_ms;
        memcpy(p->commands, o->commands, sizeof(p->commands));
        memcpy(p->failures, o->failures, sizeof(p->failures));
    }
}

void node_provider_fleet_free(struct node_provider_fleet *f)
{
    if (!f)
        return;
    for (size_t i = 0; i < f->n_pools; i++) {
        struct node_provider_pool *p = &f->pools[i];
        for (size_t k = 0; k < p->len; k++)
            node_provider_machine_free(p->machines[k]);
        node_provider_command_free(p->lister);
        free(p->machines);
        free(p->list_error);
    }
    gs_timer_free(f->timer);
    gs_hmap_free(f->by_id);
    free(f->pools);
    free(f);
}
