// SPDX-License-Identifier: Apache-2.0
// The waiting pods of a plan: where they fit, and the orders for those that fit nowhere. One plan
// grows one group, or groups that are similar; the next plan considers what is left.
#include "base/clock.h"
#include "base/mem.h"
#include "kube/object.h"
#include "nodes/plan_private.h"

// --- which pods wait ---

static int64_t delay_ms(const json_t *pod, const struct nodes_plan_settings *s)
{
    int64_t ns = 0;
    const char *text = kube_annotation(pod, NODES_ANN "pod-scale-up-delay");
    GS_AUTO_ERROR struct gs_error *err = text ? gs_parse_duration(gs_slice_of(text), &ns) : NULL;
    int64_t ms = err ? 0 : ns / GS_NS_PER_MS;
    return ms > s->new_pod_delay_ms ? ms : s->new_pod_delay_ms;
}

bool nodes_pod_is_unschedulable(const json_t *pod)
{
    const json_t *scheduled = kube_condition(pod, "PodScheduled");
    // No machine here has devices for resource claims.
    return gs_streq(codec_json_str(scheduled, "status", NULL), "False") &&
           gs_streq(codec_json_str(scheduled, "reason", NULL), "Unschedulable") &&
           !json_array_size(codec_json_get(pod, "spec", "resourceClaims", NULL));
}

bool nodes_pod_waits(const json_t *pod, const struct nodes_plan_settings *s, int64_t now_ms)
{
    return nodes_pod_is_unschedulable(pod) && !kube_is_deleting(pod) &&
           !nodes_is_daemonset_pod(pod) &&
           codec_json_int(pod, 0, "spec", "priority", NULL) >= s->expendable_priority &&
           now_ms - kube_created_ms(pod, 0) >= delay_ms(pod, s);
}

// --- their order ---

struct waiting {
    size_t pod, gpus;
    int64_t priority, created_ms;
    const char *uid;
};

// Pods with a higher priority first, then those that request more GPUs, then the older ones.
static int compare_waiting(const void *x, const void *y)
{
    const struct waiting *a = x, *b = y;
    if (a->priority != b->priority)
        return a->priority > b->priority ? -1 : 1;
    if (a->gpus != b->gpus)
        return a->gpus > b->gpus ? -1 : 1;
    if (a->created_ms != b->created_ms)
        return a->created_ms < b->created_ms ? -1 : 1;
    if (a->uid && b->uid)
        return strcmp(a->uid, b->uid);
    return a->pod < b->pod ? -1 : a->pod > b->pod;
}

void nodes_plan_list_pods(struct nodes_planner *p)
{
    struct waiting *list = gs_alloc_array(p->s->n_pods + 1, sizeof(*list));
    struct nodes_plan *plan = p->plan;
    size_t n = 0;
    p->waiting = gs_alloc_array(p->s->n_pods + 1, sizeof(*p->waiting));
    for (size_t i = 0; i < p->s->n_pods; i++) {
        const json_t *pod = p->s->pods[i].object;
        p->waiting[i] = NODES_NONE;
        if (p->s->pods[i].node == UINT32_MAX)
            list[n++] = (struct waiting){i, nodes_gpu_request(p->s, i),
                                         codec_json_int(pod, 0, "spec", "priority", NULL),
                                         kube_created_ms(pod, 0), kube_uid(pod)};
    }
    if (n)
        qsort(list, n, sizeof(*list), compare_waiting);
    plan->pods = gs_alloc_array(n + 1, sizeof(*plan->pods));
    plan->n_pods = n;
    for (size_t i = 0; i < n; i++) {
        plan->pods[i] = (struct nodes_pod_plan){list[i].pod, NODES_WAITS_FOR_POOL, NODES_NONE};
        p->waiting[list[i].pod] = i;
    }
    free(list);
}

// --- minimum sizes ---

static void add_upcoming(struct nodes_planner *p, size_t group)
{
    const struct nodes_choice_settings settings = nodes_plan_choice(p->in, 0);
    CODEC_AUTO_JSON json_t *node = nodes_group_node(&p->groups[group], &settings);
    if (!node)
        return;
    GS_AUTO_FREE char *name = gs_format("minimum-%zu-of-%s", p->n_added, p->groups[group].name);
    nodes_snapshot_add_template(p->s, node, name);
    gs_grow(&p->added, &p->added_cap, p->n_added, sizeof(*p->added));
    p->added[p->n_added++] = group;
}

void nodes_plan_minimum(struct nodes_planner *p)
{
    for (size_t i = 0; i < p->in->n_groups; i++) {
        const struct nodes_group *g = &p->groups[i];
        size_t min = g->pool ? g->pool->min : 0;
        if (!p->in->settings.enforce_min_size || g->size >= min ||
            nodes_backoff_active(&g->backoff, p->in->now_ms))
            continue;
        size_t missing = min - g->size;
        nodes_plan_add_order(p, NODES_CAUSE_MINIMUM, i, missing);
        for (size_t k = 0; k < missing; k++)
            add_upcoming(p, i);
    }
}

// --- early cordons ---

static void add_cordon(struct nodes_planner *p, size_t node, bool cordon, char *why) // takes why
{
    struct nodes_cordons *c = &p->plan->cordons;
    gs_grow(&c->items, &c->cap, c->len, sizeof(*c->items));
    c->items[c->len++] = (struct nodes_cordon){node, cordon, why};
}

static bool may_be_cordoned(const struct nodes_planner *p, size_t node)
{
    const struct nodes_plan_node *n = node < p->in->n_nodes ? &p->in->nodes[node] : NULL;
    return n && n->group != NODES_NONE &&
           (n->condition == NODES_READY || n->condition == NODES_UNREADY);
}

static void end_all_cordons(struct nodes_planner *p)
{
    for (size_t i = 0; i < p->in->n_nodes; i++)
        if (may_be_cordoned(p, i) && kube_annotation(p->s->nodes[i].object, NODES_ANN_EARLY_CORDON))
            add_cordon(p, i, false, gs_strdup(NODES_CORDON_DISABLED));
}

// Pods that wait for the node are placed on this copy in the rest of the plan.
static void open_copy(struct nodes_planner *p, size_t node)
{
    CODEC_AUTO_JSON json_t *copy = nodes_uncordoned(p->s->nodes[node].object);
    nodes_snapshot_add_template(p->s, copy, p->s->nodes[node].name);
}

static void take_cordon(struct nodes_planner *p, struct nodes_cordon *c)
{
    if (!may_be_cordoned(p, c->node))
        return;
    add_cordon(p, c->node, c->cordon, GS_TAKE(c->why));
    if (c->cordon) {
        nodes_exclude(p->s, c->node, true);
        return;
    }
    p->plan->nodes[c->node].unneeded_since_ms = 0;
    p->plan->awaited = true;
    open_copy(p, c->node);
}

void nodes_plan_early_cordons(struct nodes_planner *p)
{
    if (!p->in->settings.early_cordon) {
        end_all_cordons(p);
        return;
    }
    const struct nodes_choice_settings settings = nodes_plan_choice(p->in, 0);
    struct nodes_cordons found = {0};
    nodes_find_cordons(p->s, p->groups, p->in->n_groups, &settings, &found);
    for (size_t i = 0; i < found.len; i++)
        take_cordon(p, &found.items[i]);
    nodes_cordons_finish(&found);
    // A pod that waits for the end of a cordon needs no new node.
    if (nodes_reserve_cordoned(p->s, p->groups, p->in->n_groups, &settings))
        p->plan->awaited = true;
}

// --- places ---

// Existing nodes in the order of the snapshot, then upcoming ones by group: the caller frees it.
static size_t *order_of_places(const struct nodes_planner *p)
{
    size_t n = p->s->n_nodes, len = 0, *places = gs_alloc_array(n + 1, sizeof(*places));
    GS_AUTO_FREE size_t *starts = gs_alloc_array(p->in->n_groups + 2, sizeof(*starts));
    for (size_t i = 0; i < n; i++) {
        size_t group = nodes_plan_upcoming(p, i);
        if (group == NODES_NONE)
            places[len++] = i;
        else
            starts[group + 1]++;
    }
    starts[0] = len;
    for (size_t i = 1; i <= p->in->n_groups; i++)
        starts[i] += starts[i - 1];
    for (size_t i = 0; i < n; i++) {
        size_t group = nodes_plan_upcoming(p, i);
        if (group != NODES_NONE)
            places[starts[group]++] = i;
    }
    return places;
}

// The first place on which the pod fits. *cursor: before it, no pod of this form fits.
static size_t first_place(struct nodes_planner *p, const size_t *places, size_t pod, size_t *cursor)
{
    const struct nodes_form *f = p->s->forms[p->s->pods[pod].form];
    if (f->rules) // a pod may fit because another one was placed
        *cursor = 0;
    for (; *cursor < p->s->n_nodes; (*cursor)++)
        if (nodes_fits(p->s, pod, places[*cursor], NULL))
            return places[*cursor];
    return NODES_NONE;
}

static void place(struct nodes_planner *p, struct nodes_pod_plan *w, size_t node)
{
    w->group = nodes_plan_upcoming(p, node);
    w->wait = w->group != NODES_NONE   ? NODES_WAITS_FOR_UPCOMING
              : node >= p->in->n_nodes ? NODES_WAITS_FOR_CORDON
                                       : NODES_WAITS_FOR_SCHEDULER;
}

struct pass {
    size_t placed, left;
    bool rules; // a pod that is left depends on where others are
};

static struct pass place_each(struct nodes_planner *p, const size_t *places, size_t *cursors)
{
    struct pass pass = {0};
    for (size_t i = 0; i < p->plan->n_pods; i++) {
        struct nodes_pod_plan *w = &p->plan->pods[i];
        size_t form = p->s->pods[w->pod].form, node = nodes_of_pod(p->s, w->pod);
        if (node == NODES_NONE) {
            node = first_place(p, places, w->pod, &cursors[form]);
            if (node != NODES_NONE) {
                nodes_place(p->s, w->pod, node);
                pass.placed++;
            }
        }
        if (node != NODES_NONE) {
            place(p, w, node);
        } else {
            pass.left++;
            pass.rules |= p->s->forms[form]->rules != NULL;
        }
    }
    return pass;
}

// Returns how many pods fit nowhere.
static size_t place_waiting(struct nodes_planner *p)
{
    if (!p->plan->n_pods)
        return 0;
    GS_AUTO_FREE size_t *cursors = gs_alloc_array(p->s->n_forms + 1, sizeof(*cursors));
    GS_AUTO_FREE size_t *places = order_of_places(p);
    struct pass pass = place_each(p, places, cursors);
    while (pass.placed && pass.rules)
        pass = place_each(p, places, cursors);
    return pass.left;
}

// --- orders ---

struct nodes_choice_settings nodes_plan_choice(const struct nodes_plan_input *in, size_t room)
{
    return (struct nodes_choice_settings){
        .policy = in->settings.policy,
        .now_ms = in->now_ms,
        .max_nodes_per_choice = room,
        .seed = in->settings.seed,
    };
}

static size_t headroom(const struct nodes_planner *p)
{
    const struct nodes_plan_settings *s = &p->in->settings;
    size_t total = p->in->n_total + p->n_added;
    if (!s->max_nodes_total)
        return s->max_nodes_per_choice;
    size_t left = total < s->max_nodes_total ? s->max_nodes_total - total : 0;
    return left < s->max_nodes_per_choice ? left : s->max_nodes_per_choice;
}

// Pods of the option in proportion to the new nodes of the parts.
static void order(struct nodes_planner *p, const struct nodes_option *o,
                  const struct nodes_part *parts, size_t n_parts)
{
    size_t nodes = 0, until = 0, first = p->plan->n_orders, at = first;
    for (size_t i = 0; i < n_parts; i++) {
        nodes += parts[i].count;
        nodes_plan_add_order(p, NODES_CAUSE_PODS, parts[i].group, parts[i].count)->pods =
            gs_alloc_array(o->n_pods + 1, sizeof(size_t));
    }
    for (size_t i = 0; i < o->n_pods; i++) {
        while (at < first + n_parts && i * nodes >= until * o->n_pods)
            until += p->plan->orders[at++].count;
        struct nodes_order *order = &p->plan->orders[at - 1];
        struct nodes_pod_plan *w = &p->plan->pods[p->waiting[o->pods[i]]];
        order->pods[order->n_pods++] = o->pods[i];
        w->wait = NODES_WAITS_FOR_ORDER;
        w->group = order->group;
    }
}

static void set_unplaced(struct nodes_planner *p, enum nodes_wait wait)
{
    for (size_t i = 0; i < p->plan->n_pods; i++)
        if (nodes_of_pod(p->s, p->plan->pods[i].pod) == NODES_NONE)
            p->plan->pods[i].wait = wait;
}

static void await_backoffs(struct nodes_planner *p)
{
    for (size_t i = 0; i < p->in->n_groups; i++)
        if (nodes_backoff_active(&p->groups[i].backoff, p->in->now_ms))
            nodes_plan_again_at(p, p->groups[i].backoff.until_ms + 1);
}

void nodes_plan_pods(struct nodes_planner *p)
{
    struct nodes_plan *plan = p->plan;
    plan->n_unschedulable = place_waiting(p);
    if (!plan->n_unschedulable)
        return;
    size_t room = headroom(p);
    if (!room) {
        set_unplaced(p, NODES_WAITS_FOR_LIMIT);
        return;
    }
    const struct nodes_choice_settings settings = nodes_plan_choice(p->in, room);
    nodes_decide(p->s, p->groups, p->in->n_groups, &settings, &plan->decision);
    plan->decided = true;
    size_t chosen = plan->decision.chosen;
    if (chosen == NODES_NONE || !plan->decision.options[chosen].count) {
        await_backoffs(p);
        return;
    }
    GS_AUTO_FREE struct nodes_part *parts = NULL;
    size_t n_parts = 1;
    if (p->in->settings.balance_similar) {
        n_parts =
            nodes_balance(p->s, p->groups, p->in->n_groups, &plan->decision, &settings, &parts);
    } else {
        parts = gs_alloc_array(1, sizeof(*parts));
        parts[0] = (struct nodes_part){chosen, plan->decision.options[chosen].count};
    }
    set_unplaced(p, NODES_WAITS_FOR_TURN);
    order(p, &plan->decision.options[chosen], parts, n_parts);
}
