// SPDX-License-Identifier: Apache-2.0
// The policies: weights of nodes, scores of options, and the choice.
//
// The policies cost and packing divide the weight of an option's nodes by the value of the requests
// of its pods (value.c): the weight is the price, or mostly the GPUs. 1 is the average, less is
// better.
#include "base/mem.h"
#include "base/num.h"
#include "base/option.h"
#include "nodes/nodes_private.h"

#include <math.h>

#define TIE        0.01 // scores that differ less are equal
#define PRICE_PART 0.1  // of the price in the weight of the policy packing; a GPU has 1

static const char *const names[NODES_POLICIES] = {
    "cost",      "speed", "packing",  "least-waste", "least-nodes",
    "most-pods", "price", "priority", "random",
};

const char *nodes_policy_name(enum nodes_policy p)
{
    return names[p];
}

struct gs_error *nodes_policy_parse(const char *name, enum nodes_policy *ret)
{
    for (size_t i = 0; i < NODES_POLICIES; i++) {
        if (gs_streq(name, names[i]) ||
            (i == NODES_POLICY_LEAST_WASTE && gs_streq(name, "waste"))) {
            *ret = (enum nodes_policy)i;
            return NULL;
        }
    }
    const char *near = gs_suggest(name, names, NODES_POLICIES);
    if (near)
        return gs_error_new(GS_EINVAL, "unknown policy \"%s\", did you mean \"%s\"?", name, near);
    return gs_error_new(
        GS_EINVAL,
        "unknown policy \"%s\"; the policies are cost, speed, packing, least-waste, "
        "least-nodes, most-pods, price, priority and random",
        name);
}

int64_t nodes_group_startup_ms(const struct nodes_group *g)
{
    return g->startup_ms ? g->startup_ms : g->pool ? g->pool->startup_ms : 0;
}

// --- weights ---

static double size_of(const struct nodes_snapshot *s, size_t node)
{
    return (double)nodes_gpus(s, node) + (double)nodes_allocatable(s, node, "cpu") / 1e6;
}

// A machine is paid while it starts, and failures delay it.
static double cost_of(const struct nodes_group *g)
{
    double hours = (double)nodes_group_startup_ms(g) / 3600000.0;
    return g->pool->price * (1 + hours) * (1 + 0.1 * (double)g->backoff.failures);
}

// GPUs count most. The price, if all groups have one, decides between equal numbers of GPUs.
static double packing_weight(const struct nodes_contest *c, const struct nodes_bid *b)
{
    const struct nodes_group *g = b->option->group;
    if (!c->all_priced || !(c->cheapest_gpu > 0))
        return size_of(c->s, b->node);
    return (double)nodes_gpus(c->s, b->node) + PRICE_PART * g->pool->price / c->cheapest_gpu;
}

static double weight_of(const struct nodes_contest *c, const struct nodes_bid *b)
{
    const struct nodes_group *g = b->option->group;
    bool by_price =
        c->settings->policy == NODES_POLICY_COST || c->settings->policy == NODES_POLICY_PRICE;
    if (c->settings->policy == NODES_POLICY_PACKING)
        return packing_weight(c, b);
    if (!by_price || !c->any_price)
        return size_of(c->s, b->node);
    if (!g->pool || !g->pool->has_price)
        return NODES_NO_PRICE * size_of(c->s, b->node);
    double price = c->settings->policy == NODES_POLICY_COST ? cost_of(g) : g->pool->price;
    return price > 0 ? price : 1e-6;
}

// How many pods of this form a node of the group can run.
static size_t capacity_for(const struct nodes_snapshot *s, const struct nodes_form *f, size_t node)
{
    int64_t n = s->nodes[node].max_pods;
    for (size_t i = 0; i < f->n_requests; i++) {
        int column = s->columns[f->requests[i].name];
        int64_t total = column < 0 ? 0 : s->allocatable[node * s->stride + (size_t)column];
        if (total == 0 && gs_streq(s->resources.items[f->requests[i].name], "ephemeral-storage"))
            continue;
        if (total / f->requests[i].milli < n)
            n = total / f->requests[i].milli;
    }
    return n > 0 ? (size_t)n : 0;
}

static double alternative(const struct nodes_contest *c, const struct nodes_bid *b, size_t form)
{
    struct nodes_form *f = c->s->forms[form];
    if (b->node == NODES_NONE || b->option->state != NODES_OPTION_USABLE ||
        nodes_static_reason(c->s, f, b->node))
        return INFINITY;
    size_t n = capacity_for(c->s, f, b->node);
    if (!n)
        return INFINITY;
    c->needs[c->slots[form]] = fmin(c->needs[c->slots[form]], b->weight / (double)n);
    if (n > c->pending[form])
        n = c->pending[form];
    return b->weight / (double)n;
}

static void number_forms(struct nodes_contest *c)
{
    size_t n = c->s->n_forms;
    c->slots = gs_alloc_array(n + 1, sizeof(*c->slots));
    c->slot_forms = gs_alloc_array(n + 1, sizeof(*c->slot_forms));
    for (size_t f = 0; f < n; f++) {
        if (!c->pending[f])
            continue;
        c->slots[f] = (uint32_t)c->n_slots;
        c->slot_forms[c->n_slots++] = f;
    }
    c->best = gs_alloc_array(c->n_slots + 1, sizeof(double));
    c->needs = gs_alloc_array(c->n_slots + 1, sizeof(double));
    for (size_t i = 0; i < c->n_slots; i++)
        c->best[i] = c->needs[i] = INFINITY;
}

// What the weights depend on: prices and start-up times of the groups that can grow.
static void survey(struct nodes_contest *c)
{
    c->all_priced = true;
    for (size_t i = 0; i < c->d->n_options; i++) {
        const struct nodes_bid *b = &c->bids[i];
        const struct nodes_group *g = b->option->group;
        if (b->option->state != NODES_OPTION_USABLE || b->node == NODES_NONE)
            continue;
        bool priced = g->pool && g->pool->has_price;
        size_t gpus = nodes_gpus(c->s, b->node);
        c->any_price |= priced;
        c->all_priced &= priced;
        if (priced && gpus && (!c->cheapest_gpu || g->pool->price / (double)gpus < c->cheapest_gpu))
            c->cheapest_gpu = g->pool->price / (double)gpus;
        if (nodes_group_startup_ms(g) > c->slowest_ms)
            c->slowest_ms = nodes_group_startup_ms(g);
    }
}

void nodes_contest_weigh(struct nodes_contest *c)
{
    number_forms(c);
    survey(c);
    for (size_t i = 0; i < c->d->n_options; i++) {
        struct nodes_bid *b = &c->bids[i];
        b->alternatives = gs_alloc_array(c->n_slots + 1, sizeof(double));
        b->weight = b->node == NODES_NONE ? INFINITY : weight_of(c, b);
        for (size_t k = 0; k < c->n_slots; k++) {
            b->alternatives[k] = alternative(c, b, c->slot_forms[k]);
            c->best[k] = fmin(c->best[k], b->alternatives[k]);
        }
    }
    nodes_contest_value(c);
}

bool nodes_contest_outbid(const struct nodes_contest *c, size_t bid, const struct nodes_share *mix,
                          size_t n_mix)
{
    double elsewhere = 0;
    if (c->settings->policy != NODES_POLICY_COST && c->settings->policy != NODES_POLICY_PACKING)
        return false;
    for (size_t i = 0; i < n_mix; i++) {
        double best = INFINITY;
        for (size_t k = 0; k < c->d->n_options; k++)
            if (k != bid)
                best = fmin(best, c->bids[k].alternatives[c->slots[mix[i].form]]);
        elsewhere += best * (double)mix[i].n;
    }
    return elsewhere < c->bids[bid].weight * (1 - TIE);
}

static int compare_forms(const void *pa, const void *pb)
{
    size_t a = *(const size_t *)pa, b = *(const size_t *)pb;
    return a < b ? -1 : a > b;
}

size_t nodes_count_forms(const struct nodes_snapshot *s, const size_t *pods, size_t n,
                         struct nodes_share **ret)
{
    GS_AUTO_FREE size_t *forms = gs_alloc_array(n + 1, sizeof(*forms));
    struct nodes_share *mix = gs_alloc_array(n + 1, sizeof(*mix));
    size_t n_mix = 0;
    for (size_t i = 0; i < n; i++)
        forms[i] = s->pods[pods[i]].form;
    if (n)
        qsort(forms, n, sizeof(*forms), compare_forms);
    for (size_t i = 0; i < n; i++) {
        if (i && forms[i] == forms[i - 1])
            mix[n_mix - 1].n++;
        else
            mix[n_mix++] = (struct nodes_share){forms[i], 1};
    }
    *ret = mix;
    return n_mix;
}

// --- scores ---

static double value_of(const struct nodes_contest *c, const struct nodes_bid *b)
{
    double sum = 0;
    for (size_t i = 0; i < b->n_mix; i++)
        sum += nodes_form_value(c, b->mix[i].form) * (double)b->mix[i].n;
    return sum;
}

static int64_t request_of(const struct nodes_snapshot *s, size_t form, const char *resource)
{
    const struct nodes_form *f = s->forms[form];
    for (size_t i = 0; i < f->n_requests; i++)
        if (gs_streq(s->resources.items[f->requests[i].name], resource))
            return f->requests[i].milli;
    return 0;
}

// The share of a resource of the new nodes that no pod requests.
static double wasted(const struct nodes_contest *c, const struct nodes_bid *b, const char *resource)
{
    double used = 0;
    for (size_t i = 0; i < b->n_mix; i++)
        used += (double)request_of(c->s, b->mix[i].form, resource) * (double)b->mix[i].n;
    double total = (double)nodes_allocatable(c->s, b->node, resource) * (double)b->option->count;
    return total > 0 ? (total - used) / total : 0;
}

// The mean wait of all pods in seconds. Those that the option does not place are taken to wait for
// the slowest group, which the next decision can choose.
static double mean_wait(const struct nodes_contest *c, const struct nodes_bid *b)
{
    const struct nodes_option *o = b->option;
    size_t all = c->d->n_pending - c->d->n_waiting - c->d->n_helpless;
    int64_t startup = nodes_group_startup_ms(o->group);
    double own = (double)(startup ? startup : c->slowest_ms);
    own *= 1 + (double)o->group->backoff.failures;
    double share = all > o->n_pods ? (double)o->n_pods / (double)all : 1;
    double others = fmax(own, (double)(c->slowest_ms ? c->slowest_ms : 1));
    return (share * own + (1 - share) * others) / 1000;
}

static double random_score(const struct nodes_contest *c, const struct nodes_bid *b)
{
    const char *name = b->option->group->name;
    struct {
        uint64_t seed, name;
    } mixed = {c->settings->seed, gs_hash(name, strlen(name))};
    return (double)(gs_hash(&mixed, sizeof(mixed)) >> 11);
}

static double score_of(const struct nodes_contest *c, const struct nodes_bid *b)
{
    const struct nodes_option *o = b->option;
    switch (c->settings->policy) {
    case NODES_POLICY_COST:
    case NODES_POLICY_PACKING:
    case NODES_POLICY_PRICE: {
        double sum = value_of(c, b);
        return isfinite(b->weight) && sum > 0 ? b->weight * (double)o->count / sum : INFINITY;
    }
    case NODES_POLICY_SPEED:
        return mean_wait(c, b);
    case NODES_POLICY_LEAST_WASTE:
        return wasted(c, b, "cpu") + wasted(c, b, "memory");
    case NODES_POLICY_LEAST_NODES:
        return (double)o->count;
    case NODES_POLICY_MOST_PODS:
        return -(double)o->n_pods;
    case NODES_POLICY_PRIORITY:
        return -(double)(o->group->priority ? o->group->priority
                         : o->group->pool   ? o->group->pool->priority
                                            : 0);
    case NODES_POLICY_RANDOM:
        break;
    }
    return random_score(c, b);
}

// --- the choice ---

static bool is_model(enum nodes_policy p)
{
    return p >= NODES_POLICY_LEAST_WASTE;
}

static int compare(double a, double b)
{
    return a < b ? -1 : a > b;
}

// Negative: a is better. Ties of the models are random, as those of the Cluster Autoscaler.
static int compare_bids(const struct nodes_contest *c, const struct nodes_bid *a,
                        const struct nodes_bid *b)
{
    const struct nodes_option *oa = a->option, *ob = b->option;
    double sa = oa->score, sb = ob->score;
    bool model = is_model(c->settings->policy);
    bool equal = sa == sb || (!model && isfinite(sa) && isfinite(sb) &&
                              fabs(sa - sb) <= TIE * fmax(fabs(sa), fabs(sb)));
    if (!equal)
        return compare(sa, sb);
    if (model)
        return compare(random_score(c, a), random_score(c, b));
    if (oa->n_pods != ob->n_pods)
        return oa->n_pods > ob->n_pods ? -1 : 1;
    if (oa->has_price && ob->has_price && oa->price != ob->price)
        return compare(oa->price, ob->price);
    if (oa->unused_gpus != ob->unused_gpus)
        return oa->unused_gpus < ob->unused_gpus ? -1 : 1;
    if (oa->ready_ms != ob->ready_ms)
        return oa->ready_ms < ob->ready_ms ? -1 : 1;
    return sa != sb ? compare(sa, sb) : strcmp(oa->group->name, ob->group->name);
}

static void fill_option(const struct nodes_contest *c, struct nodes_bid *b)
{
    struct nodes_option *o = b->option;
    const struct nodes_group *g = o->group;
    o->gpus = nodes_gpus(c->s, b->node) * o->count;
    int64_t used = 0;
    for (size_t i = 0; i < b->n_mix; i++)
        used = gs_add_clamped(used, request_of(c->s, b->mix[i].form, NODES_GPU) / 1000 *
                                        (int64_t)b->mix[i].n);
    o->unused_gpus = (size_t)used < o->gpus ? o->gpus - (size_t)used : 0;
    o->has_price = g->pool && g->pool->has_price;
    o->price = o->has_price ? g->pool->price * (double)o->count : 0;
    o->ready_ms = nodes_group_startup_ms(g);
    o->score = score_of(c, b);
}

void nodes_contest_judge(struct nodes_contest *c)
{
    struct nodes_decision *d = c->d;
    d->chosen = NODES_NONE;
    for (size_t i = 0; i < d->n_options; i++) {
        struct nodes_bid *b = &c->bids[i];
        if (b->option->state != NODES_OPTION_USABLE)
            continue;
        fill_option(c, b);
        if (d->chosen == NODES_NONE || compare_bids(c, b, &c->bids[d->chosen]) < 0)
            d->chosen = i;
    }
    nodes_contest_explain(c);
}
