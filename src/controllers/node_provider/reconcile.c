// SPDX-License-Identifier: Apache-2.0
// The list command, and what its result means for the machines of the state file.
#include "base/clock.h"
#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "node_provider/node_provider_private.h"

#define MISSED_LISTS 2                           // before a created machine counts as gone
#define TOMBSTONE_MS (24 * 3600 * INT64_C(1000)) // a creation that was given up may end that late

static void save(struct node_provider_machine *m, enum node_provider_step step)
{
    struct gs_error *err = node_provider_set_step(m, step);
    if (err)
        node_provider_log_state_error(m->pool, err);
}

static void set_gone(struct node_provider_machine *m, const char *why)
{
    gs_info("node-provider", "%s/%s: gone: %s", m->pool_name, m->name, why);
    m->retry_ms = 0;
    save(m, NODE_PROVIDER_GONE);
    const struct node_provider_fleet_config *c = &m->pool->fleet->config;
    if (m->step == NODE_PROVIDER_GONE && c->on_gone)
        c->on_gone(c->arg, m);
}

// --- machines that the list contains ---

static void take_id(struct node_provider_machine *m, const struct node_provider_listed *l)
{
    if (!l->provider_id || gs_streq(l->provider_id, m->provider_id))
        return;
    gs_info("node-provider", "%s/%s: provider ID %s", m->pool_name, m->name, l->provider_id);
    node_provider_set_id(m, l->provider_id);
    save(m, m->step);
}

static bool is_fixed_host(const struct node_provider_machine *m)
{
    return m->pool->spec->n_hosts > 0;
}

static void see_creating(struct node_provider_machine *m, const struct node_provider_listed *l)
{
    if (m->command || l->state == NODE_PROVIDER_LISTED_CREATING)
        return;
    if (l->state == NODE_PROVIDER_LISTED_FAILED) {
        node_provider_set_error(m, l->error_code ? l->error_code : "create-failed",
                                l->error_message ? l->error_message : "the list reports a failure",
                                l->out_of_resources);
        m->pool->failed_ms = gs_unix_ms();
        gs_warn("node-provider", "%s/%s: not created: %s", m->pool_name, m->name, m->error_message);
        save(m, NODE_PROVIDER_FAILED);
    } else if (l->state == NODE_PROVIDER_LISTED_RUNNING) {
        gs_info("node-provider", "%s/%s: exists, provider ID %s", m->pool_name, m->name,
                m->provider_id);
        save(m, NODE_PROVIDER_CREATED);
    }
}

// The machine of a command that was given up, or one that a person has started again.
static void see_gone(struct node_provider_machine *m)
{
    if (is_fixed_host(m)) {
        gs_warn("node-provider", "%s/%s: is there again; it counts as created", m->pool_name,
                m->name);
        save(m, NODE_PROVIDER_CREATED);
        return;
    }
    gs_warn("node-provider", "%s/%s: appeared after it was deleted; it is deleted again",
            m->pool_name, m->name);
    m->retry_ms = 0;
    save(m, NODE_PROVIDER_DELETING);
}

static void see_machine(struct node_provider_machine *m, const struct node_provider_listed *l,
                        unsigned number)
{
    m->missed = 0;
    if (number < m->list_after)
        return;
    if (!m->command)
        take_id(m, l);
    switch (m->step) {
    case NODE_PROVIDER_CREATING:
        see_creating(m, l);
        break;
    case NODE_PROVIDER_CREATED:
        if (l->state == NODE_PROVIDER_LISTED_FAILED)
            see_creating(m, l);
        break;
    case NODE_PROVIDER_DELETING:
        if (l->state != NODE_PROVIDER_LISTED_DELETING && !m->command)
            m->deleted_ok = false; // the command runs again at its retry time
        break;
    case NODE_PROVIDER_GONE:
        if (l->state != NODE_PROVIDER_LISTED_DELETING)
            see_gone(m);
        break;
    default:
        break;
    }
}

static void adopt_unknown(struct node_provider_pool *p, const struct node_provider_listed *l)
{
    if (p->spec->ignore_unknown || l->state == NODE_PROVIDER_LISTED_DELETING) {
        gs_debug("node-provider", "%s/%s: ignored: not in the state file", p->spec->name, l->name);
        return;
    }
    GS_AUTO_FREE char *id =
        l->provider_id ? gs_strdup(l->provider_id) : node_provider_default_id(p->spec, l->name);
    struct node_provider_machine *m =
        node_provider_add_machine(p, l->name, id, NODE_PROVIDER_CREATED);
    struct gs_error *err = node_provider_state_put(p->fleet->config.state, m);
    if (err) {
        node_provider_log_state_error(p, err);
        return; // it stays in memory, and the next change writes it
    }
    gs_warn("node-provider",
            "%s/%s: the list contains a machine that this provider has not created; it counts as "
            "one of the pool from now on (unknownMachines: adopt)",
            p->spec->name, l->name);
}

// --- machines that the list does not contain ---

static void miss_machine(struct node_provider_machine *m, unsigned number)
{
    if (m->command || number < m->list_after)
        return;
    if (m->step == NODE_PROVIDER_DELETING && m->attempts > 0) {
        set_gone(m, m->deleted_ok ? "deleted" : "the list does not contain it");
    } else if (m->step == NODE_PROVIDER_CREATED && ++m->missed >= MISSED_LISTS &&
               gs_unix_ms() - m->changed_ms >= m->pool->fleet->config.missed_ms) {
        gs_warn("node-provider", "%s/%s: disappeared without a request to delete it", m->pool_name,
                m->name);
        set_gone(m, "the list does not contain it");
    }
}

static void drop_old(struct node_provider_pool *p)
{
    const int64_t now = gs_unix_ms();
    for (size_t i = p->len; i-- > 0;) {
        struct node_provider_machine *m = p->machines[i];
        if (m->step == NODE_PROVIDER_GONE && now - m->changed_ms > TOMBSTONE_MS && !m->has_node)
            node_provider_forget_machine(m);
    }
}

static void apply_list(struct node_provider_pool *p, const struct node_provider_list *list,
                       unsigned number)
{
    GS_CLEANUP(gs_hmap_freep) struct gs_hmap *listed = gs_hmap_new(NULL);
    GS_CLEANUP(gs_hmap_freep) struct gs_hmap *known = gs_hmap_new(NULL);
    for (size_t i = 0; i < list->len; i++)
        gs_hmap_put_str(listed, list->items[i].name, &list->items[i]);
    const size_t n = p->len; // without those that are adopted below
    for (size_t i = 0; i < n; i++) {
        struct node_provider_machine *m = p->machines[i];
        const struct node_provider_listed *l = gs_hmap_get_str(listed, m->name);
        gs_hmap_put_str(known, m->name, m);
        if (l)
            see_machine(m, l, number);
        else
            miss_machine(m, number);
    }
    for (size_t i = 0; i < list->len; i++)
        if (!gs_hmap_get_str(known, list->items[i].name))
            adopt_unknown(p, &list->items[i]);
    drop_old(p);
}

// --- the command ---

static void set_list_error(struct node_provider_pool *p, const char *text)
{
    if (text && !gs_streq(text, p->list_error))
        gs_warn("node-provider", "%s: the list command fails: %s", p->spec->name, text);
    if (!text && p->list_error)
        gs_info("node-provider", "%s: the list command works again", p->spec->name);
    free(p->list_error);
    p->list_error = gs_strdup(text);
    if (text)
        p->failures[NODE_PROVIDER_LIST]++;
}

static void read_list(struct node_provider_pool *p, const struct node_provider_result *r)
{
    GS_CLEANUP(node_provider_list_finish) struct node_provider_list list = {0};
    struct gs_error *err =
        r->ok ? node_provider_parse_list(r->output, &list) : gs_error_new(GS_EIO, "%s", r->text);
    if (err) {
        set_list_error(p, gs_error_message(err));
        gs_error_free(err);
        return;
    }
    set_list_error(p, NULL);
    p->listed = true;
    apply_list(p, &list, p->list_number);
}

static void on_listed(void *arg, const struct node_provider_result *r)
{
    struct node_provider_pool *p = arg;
    read_list(p, r);
    p->list_tried = true;
    node_provider_command_free(p->lister);
    p->lister = NULL;
    p->listed_ms = gs_unix_ms();
    if (p->list_again) {
        p->list_again = false;
        node_provider_list_now(p);
    }
    if (p->listed)
        node_provider_keep_minimum(p);
    node_provider_schedule(p);
}

void node_provider_list_now(struct node_provider_pool *p)
{
    if (p->lister) {
        p->list_again = true;
        return;
    }
    GS_CLEANUP(gs_arena_finish) struct gs_arena arena = {0};
    const struct node_provider_command_spec spec =
        node_provider_command_spec(p, NODE_PROVIDER_LIST, NULL, &arena);
    struct gs_error *err =
        node_provider_command_new(p->fleet->config.loop, &spec, on_listed, p, &p->lister);
    p->list_number++;
    p->commands[NODE_PROVIDER_LIST]++;
    if (err) {
        p->list_tried = true;
        p->listed_ms = gs_unix_ms();
        set_list_error(p, gs_error_message(err));
        gs_error_free(err);
        return;
    }
    node_provider_command_release(p->lister);
}
