// SPDX-License-Identifier: Apache-2.0
// Options by simulation: for each group, new nodes are added to the snapshot until the pods are
// placed, first-fit decreasing as the Cluster Autoscaler's estimator, and removed again.
#include "base/mem.h"
#include "base/num.h"
#include "nodes/nodes_private.h"

#define DEFAULT_PER_CHOICE 1000

// --- the contest ---

void nodes_contest_init(struct nodes_contest *c, struct nodes_snapshot *s, size_t n,
                        const struct nodes_choice_settings *settings, struct nodes_decision *ret)
{
    *ret = (struct nodes_decision){.policy = settings->policy, .chosen = NODES_NONE};
    ret->options = gs_alloc_array(n + 1, sizeof(*ret->options));
    ret->n_options = n;
    *c = (struct nodes_contest){.s = s, .settings = settings, .d = ret};
    c->bids = gs_alloc_array(n + 1, sizeof(*c->bids));
    c->pending = gs_alloc_array(s->n_forms + 1, sizeof(size_t));
    for (size_t i = 0; i < n; i++)
        c->bids[i] = (struct nodes_bid){.option = &ret->options[i], .node = NODES_NONE};
}

void nodes_contest_finish(struct nodes_contest *c)
{
    for (size_t i = 0; i < c->d->n_options; i++) {
        free(c->bids[i].mix);
        free(c->bids[i].alternatives);
    }
    free(c->bids);
    free(c->pending);
    free(c->slots);
    free(c->slot_forms);
    free(c->best);
    free(c->needs);
}

// --- new nodes ---

// Resources of pods that will run on every node of the group. The node may share its status.
static void reserve(json_t *node, const struct nodes_choice_settings *settings)
{
    json_object_set_new(node, "status", json_deep_copy(json_object_get(node, "status")));
    for (size_t i = 0; i < settings->n_daemons; i++)
        nodes_reserve_daemon(node, settings->daemons[i]);
}

json_t *nodes_group_node(const struct nodes_group *g, const struct nodes_choice_settings *settings)
{
    json_t *node = g->node   ? json_copy((json_t *)g->node)
                   : g->pool ? nodes_pool_template(g->pool, NULL)
                             : NULL;
    if (node && settings->n_daemons &&
        json_is_object(codec_json_get(node, "status", "allocatable", NULL)))
        reserve(node, settings);
    return node;
}

static size_t add_new(struct nodes_snapshot *s, const struct nodes_group *g, const json_t *node,
                      size_t number)
{
    GS_AUTO_FREE char *name = gs_format("%s-new-%zu", g->name, number);
    return nodes_snapshot_add_template(s, node, name);
}

// --- placing ---

struct order_item {
    size_t pod, form;
    double size;
};

static int compare_items(const void *pa, const void *pb)
{
    const struct order_item *a = pa, *b = pb;
    if (a->size != b->size)
        return a->size > b->size ? -1 : 1;
    if (a->form != b->form)
        return a->form < b->form ? -1 : 1;
    return a->pod < b->pod ? -1 : a->pod > b->pod;
}

static double share(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

// The largest first: by GPUs, then by CPU and memory. The models order by CPU and memory only.
static double size_of(const struct nodes_contest *c, size_t pod, size_t node)
{
    const struct nodes_snapshot *s = c->s;
    double size = share(nodes_request(s, pod, "cpu"), nodes_allocatable(s, node, "cpu")) +
                  share(nodes_request(s, pod, "memory"), nodes_allocatable(s, node, "memory"));
    if (c->settings->policy < NODES_POLICY_LEAST_WASTE)
        size += 10.0 * (double)nodes_gpu_request(s, pod);
    return size;
}

// Places pods on the nodes [first, end) in first-fit order. Pods of a form without rules between
// pods continue where the last one of the form fitted.
struct placer {
    struct nodes_snapshot *s;
    size_t first;
    size_t form, cursor;
};

static bool place_on_existing(struct placer *p, size_t pod, size_t end)
{
    size_t form = p->s->pods[pod].form;
    if (form != p->form || p->s->forms[form]->rules || p->s->forms[form]->n_ports) {
        p->form = form;
        p->cursor = p->first;
    }
    for (; p->cursor < end; p->cursor++) {
        if (nodes_fits(p->s, pod, p->cursor, NULL)) {
            nodes_place(p->s, pod, p->cursor);
            return true;
        }
    }
    return false;
}

// --- one group ---

static size_t room_of(const struct nodes_contest *c, const struct nodes_group *g, size_t n_nodes)
{
    const struct nodes_choice_settings *t = c->settings;
    size_t room = g->max > g->size ? g->max - g->size : 0;
    size_t per_choice = t->max_nodes_per_choice ? t->max_nodes_per_choice : DEFAULT_PER_CHOICE;
    if (room > per_choice)
        room = per_choice;
    if (t->max_nodes_total) {
        size_t left = t->max_nodes_total > n_nodes ? t->max_nodes_total - n_nodes : 0;
        room = room < left ? room : left;
    }
    return room;
}

static void fill(struct nodes_contest *c, size_t bid, const json_t *node,
                 const struct order_item *items, size_t n, size_t room)
{
    struct nodes_snapshot *s = c->s;
    const struct nodes_group *g = c->bids[bid].option->group;
    size_t first = s->n_nodes, count = 0, hopeless = NODES_NONE;
    struct placer p = {.s = s, .first = first, .form = NODES_NONE};
    for (size_t i = 0; i < n; i++) {
        size_t pod = items[i].pod;
        if (items[i].form == hopeless || place_on_existing(&p, pod, s->n_nodes))
            continue;
        bool last_is_empty = count && s->nodes[s->n_nodes - 1].n_pods == 0;
        if (count == room || last_is_empty) {
            if (!s->forms[items[i].form]->rules)
                hopeless = items[i].form;
            continue;
        }
        size_t added = add_new(s, g, node, ++count);
        if (nodes_fits(s, pod, added, NULL))
            nodes_place(s, pod, added);
    }
}

static int compare_indexes(const void *pa, const void *pb)
{
    size_t a = *(const size_t *)pa, b = *(const size_t *)pb;
    return a < b ? -1 : a > b;
}

// The pods on each new node, as lists.
struct node_pods {
    size_t *start, *pods; // pods of node i: pods[start[i]] … pods[start[i + 1] - 1]
};

static struct node_pods group_by_node(const struct nodes_snapshot *s,
                                      const struct order_item *items, size_t n, size_t first)
{
    size_t n_new = s->n_nodes - first;
    struct node_pods l = {gs_alloc_array(n_new + 2, sizeof(size_t)),
                          gs_alloc_array(n + 1, sizeof(size_t))};
    for (size_t i = 0; i < n; i++)
        if (s->pods[items[i].pod].node != UINT32_MAX)
            l.start[s->pods[items[i].pod].node - first + 2]++;
    for (size_t i = 2; i < n_new + 2; i++)
        l.start[i] += l.start[i - 1];
    for (size_t i = 0; i < n; i++)
        if (s->pods[items[i].pod].node != UINT32_MAX)
            l.pods[l.start[s->pods[items[i].pod].node - first + 1]++] = items[i].pod;
    return l;
}

static void take_node(struct nodes_option *o, const size_t *pods, size_t n)
{
    o->count++;
    for (size_t i = 0; i < n; i++)
        o->pods[o->n_pods++] = pods[i];
}

static bool is_outbid(const struct nodes_contest *c, size_t bid, const size_t *pods, size_t n)
{
    GS_AUTO_FREE struct nodes_share *mix = NULL;
    size_t n_mix = nodes_count_forms(c->s, pods, n, &mix);
    return nodes_contest_outbid(c, bid, mix, n_mix);
}

// Nodes that other groups serve better are left out, unless all are.
static void collect(struct nodes_contest *c, size_t bid, const struct order_item *items, size_t n,
                    size_t first)
{
    struct nodes_bid *b = &c->bids[bid];
    size_t n_new = c->s->n_nodes - first, kept = 0;
    struct node_pods l = group_by_node(c->s, items, n, first);
    bool *keep = gs_alloc_array(n_new + 1, sizeof(bool));
    b->option->pods = gs_alloc_array(n + 1, sizeof(size_t));
    for (size_t i = 0; i < n_new; i++) {
        size_t from = l.start[i], len = l.start[i + 1] - from;
        keep[i] = len && !is_outbid(c, bid, l.pods + from, len);
        kept += keep[i];
    }
    for (size_t i = 0; i < n_new; i++) {
        size_t from = l.start[i], len = l.start[i + 1] - from;
        if (len && (keep[i] || !kept))
            take_node(b->option, l.pods + from, len);
    }
    qsort(b->option->pods, b->option->n_pods, sizeof(size_t), compare_indexes);
    b->n_mix = nodes_count_forms(c->s, b->option->pods, b->option->n_pods, &b->mix);
    if (!b->option->n_pods)
        b->option->state = NODES_OPTION_FITS_NO_POD;
    free(keep);
    free(l.start);
    free(l.pods);
}

static void simulate(struct nodes_contest *c, size_t bid, const json_t *node, const size_t *pending,
                     size_t n_pending, size_t n_nodes)
{
    struct nodes_bid *b = &c->bids[bid];
    struct order_item *items = gs_alloc_array(n_pending + 1, sizeof(*items));
    size_t n = 0;
    for (size_t i = 0; i < n_pending; i++) {
        size_t form = c->s->pods[pending[i]].form;
        if (c->s->pods[pending[i]].node == UINT32_MAX && b->alternatives[c->slots[form]] < 1e300)
            items[n++] = (struct order_item){pending[i], form, size_of(c, pending[i], b->node)};
    }
    if (n)
        qsort(items, n, sizeof(*items), compare_items);
    size_t checkpoint = nodes_checkpoint(c->s), first = c->s->n_nodes;
    fill(c, bid, node, items, n, room_of(c, b->option->group, n_nodes));
    collect(c, bid, items, n, first);
    nodes_restore(c->s, checkpoint);
    free(items);
}

// --- all groups ---

static void set_state(const struct nodes_contest *c, struct nodes_option *o, size_t n_nodes)
{
    const struct nodes_group *g = o->group;
    if (g->blocked)
        o->state = NODES_OPTION_BLOCKED;
    else if (nodes_backoff_active(&g->backoff, c->settings->now_ms))
        o->state = NODES_OPTION_BACKOFF;
    else if (!room_of(c, g, n_nodes))
        o->state = NODES_OPTION_FULL;
    else
        o->state = NODES_OPTION_USABLE;
}

static void add_upcoming(struct nodes_snapshot *s, const struct nodes_group *g, const json_t *node)
{
    for (size_t i = 0; node && i < g->upcoming && i < NODES_MAX_POOL_SIZE; i++) {
        GS_AUTO_FREE char *name = gs_format("%s-upcoming-%zu", g->name, i);
        nodes_snapshot_add_template(s, node, name);
    }
}

// Pods that fit on nodes that exist or come need no new node.
static size_t settle(struct nodes_contest *c, size_t *pending, size_t n)
{
    struct nodes_snapshot *s = c->s;
    struct order_item *items = gs_alloc_array(n + 1, sizeof(*items));
    struct placer p = {.s = s, .form = NODES_NONE};
    size_t left = 0;
    for (size_t i = 0; i < n; i++)
        items[i] = (struct order_item){pending[i], s->pods[pending[i]].form,
                                       (double)nodes_gpu_request(s, pending[i])};
    if (n)
        qsort(items, n, sizeof(*items), compare_items);
    for (size_t i = 0; i < n; i++)
        if (!place_on_existing(&p, items[i].pod, s->n_nodes))
            pending[left++] = items[i].pod;
    if (left)
        qsort(pending, left, sizeof(*pending), compare_indexes);
    free(items);
    return left;
}

static size_t count_helpless(const struct nodes_contest *c, const size_t *pending, size_t n)
{
    size_t helpless = 0;
    for (size_t i = 0; i < n; i++)
        helpless += c->best[c->slots[c->s->pods[pending[i]].form]] > 1e300;
    return helpless;
}

void nodes_decide(struct nodes_snapshot *s, const struct nodes_group *groups, size_t n_groups,
                  const struct nodes_choice_settings *settings, struct nodes_decision *ret)
{
    struct nodes_contest c;
    nodes_contest_init(&c, s, n_groups, settings, ret);
    json_t **nodes = gs_alloc_array(n_groups + 1, sizeof(*nodes));
    size_t *pending = gs_alloc_array(s->n_pods + 1, sizeof(*pending)), n = 0;
    for (size_t i = 0; i < s->n_pods; i++)
        if (s->pods[i].node == UINT32_MAX)
            pending[n++] = i;
    ret->n_pending = n;
    size_t checkpoint = nodes_checkpoint(s);
    for (size_t i = 0; i < n_groups; i++) {
        ret->options[i].group = &groups[i];
        nodes[i] = nodes_group_node(&groups[i], settings);
        add_upcoming(s, &groups[i], nodes[i]);
    }
    size_t n_nodes = s->n_nodes, left = settle(&c, pending, n);
    ret->n_waiting = n - left;
    for (size_t i = 0; i < left; i++)
        c.pending[s->pods[pending[i]].form]++;
    for (size_t i = 0; i < n_groups; i++) {
        set_state(&c, &ret->options[i], n_nodes);
        if (!nodes[i])
            continue;
        c.bids[i].node = add_new(s, &groups[i], nodes[i], 0);
        nodes_exclude(s, c.bids[i].node, true);
    }
    nodes_contest_weigh(&c);
    ret->n_helpless = count_helpless(&c, pending, left);
    for (size_t i = 0; i < n_groups; i++) {
        if (ret->options[i].state != NODES_OPTION_USABLE)
            continue;
        ret->options[i].state = NODES_OPTION_FITS_NO_POD;
        if (c.bids[i].node == NODES_NONE || !left)
            continue;
        ret->options[i].state = NODES_OPTION_USABLE;
        simulate(&c, i, nodes[i], pending, left, n_nodes);
    }
    nodes_contest_judge(&c);
    nodes_restore(s, checkpoint);
    for (size_t i = 0; i < n_groups; i++)
        json_decref(nodes[i]);
    free(nodes);
    free(pending);
    nodes_contest_finish(&c);
}

void nodes_group_reasons(struct nodes_snapshot *s, size_t pod, const struct nodes_group *group,
                         const struct nodes_choice_settings *settings,
                         struct nodes_reasons *reasons)
{
    if (nodes_backoff_active(&group->backoff, settings->now_ms)) {
        nodes_reasons_add(reasons, "in backoff after failed scale-up", 1);
        return;
    }
    if (group->blocked) {
        nodes_reasons_add(reasons, group->blocked, 1);
        return;
    }
    if (group->size >= group->max) {
        nodes_reasons_add(reasons, "max node group size reached", 1);
        return;
    }
    json_t *node = nodes_group_node(group, settings);
    if (!node)
        return;
    size_t checkpoint = nodes_checkpoint(s);
    nodes_fits(s, pod, add_new(s, group, node, 0), reasons);
    nodes_restore(s, checkpoint);
    json_decref(node);
}
