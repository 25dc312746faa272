// SPDX-License-Identifier: Apache-2.0
// Shares by water-filling: the level rises until the GPUs are spent, and a member stops at its
// demand. The level is found by sorting, so that a group of thousands takes one pass.
#include "budget/budget_private.h"

#include "base/mem.h"
#include "base/num.h"

#include <math.h>

// Below this, a fraction of a replica is an error of the arithmetic.
#define TINY 1e-9

struct part {
    const struct budget_member *member;
    size_t index;
    int32_t base, want;  // replicas: before the level rises, and at most
    double weight, room; // GPUs above the base that it can use
    double exact;        // replicas at the level
};

static int32_t floor_of(const struct budget_member *m)
{
    return m->floor < m->demand ? m->floor : m->demand;
}

// What it counts with, while others want GPUs.
static int32_t want_of(const struct budget_member *m)
{
    int32_t kept = m->floor > 1 ? m->floor : 1;
    return m->idle && m->demand > kept ? kept : m->demand;
}

static int64_t gpus_of(const struct budget_member *m, int32_t replicas)
{
    return (int64_t)m->gpus * replicas;
}

// Higher weights first; of equal ones the first of the group, so that the result is always the
// same.
static int by_weight(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    int order = gs_compare_doubles(&y->member->weight, &x->member->weight);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

// Those that are full at the lowest level first.
static int by_level(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    double level = x->room / x->weight, other = y->room / y->weight;
    int order = gs_compare_doubles(&level, &other);
    return order ? order : by_weight(a, b);
}

// Rounded, so that equal members have equal remainders.
static double remainder_of(const struct part *p)
{
    return round((p->exact - floor(p->exact + TINY)) / TINY) * TINY;
}

static int by_remainder(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    double rest = remainder_of(x), other = remainder_of(y);
    int order = gs_compare_doubles(&other, &rest);
    return order ? order : by_weight(a, b);
}

// --- steps ---

static void fill(struct part *parts, size_t n, double left)
{
    double weights = 0;
    for (size_t i = 0; i < n; i++)
        weights += parts[i].weight;
    qsort(parts, n, sizeof(*parts), by_level);
    for (size_t i = 0; i < n; i++) {
        double part = weights > 0 ? left * parts[i].weight / weights : 0;
        if (part > parts[i].room)
            part = parts[i].room;
        weights -= parts[i].weight;
        left -= part;
        parts[i].exact = parts[i].base + part / parts[i].member->gpus;
    }
}

static bool fits(const struct part *p, int64_t left, const int32_t *ret)
{
    return p->member->gpus <= left && ret[p->index] < p->want;
}

// The member with the lowest level of those that can take one more replica; n: none can.
static size_t lowest(const struct part *parts, size_t n, int64_t left, const int32_t *ret)
{
    size_t best = n;
    double best_level = 0;
    for (size_t i = 0; i < n; i++) {
        const struct budget_member *m = parts[i].member;
        double level =
            (double)gpus_of(m, ret[parts[i].index] - floor_of(m)) / fmax(parts[i].weight, TINY);
        if (fits(&parts[i], left, ret) && (best == n || level < best_level)) {
            best = i;
            best_level = level;
        }
    }
    return best;
}

static void give_rest(const struct part *parts, size_t n, int64_t left, int32_t *ret)
{
    for (size_t i; left > 0 && (i = lowest(parts, n, left, ret)) < n;) {
        ret[parts[i].index]++;
        left -= parts[i].member->gpus;
    }
}

static void give_floors(struct part *parts, size_t n, int64_t left, int32_t *ret)
{
    qsort(parts, n, sizeof(*parts), by_weight);
    for (size_t i = 0; i < n; i++) {
        const struct budget_member *m = parts[i].member;
        int64_t fits = left / m->gpus, most = floor_of(m);
        ret[parts[i].index] = (int32_t)(fits < most ? fits : most);
        left -= gpus_of(m, ret[parts[i].index]);
    }
    give_rest(parts, n, left, ret);
}

static void give_whole(struct part *parts, size_t n, int64_t left, int32_t *ret)
{
    for (size_t i = 0; i < n; i++) {
        ret[parts[i].index] = (int32_t)floor(parts[i].exact + TINY);
        left -= gpus_of(parts[i].member, ret[parts[i].index]);
    }
    qsort(parts, n, sizeof(*parts), by_remainder);
    for (size_t i = 0; i < n && left > 0 && remainder_of(&parts[i]) > TINY; i++) {
        if (!fits(&parts[i], left, ret))
            continue;
        ret[parts[i].index]++;
        left -= parts[i].member->gpus;
    }
    give_rest(parts, n, left, ret);
}

// What is left after the others have what they want.
static void give_idle(struct part *parts, size_t n, int64_t left, int32_t *ret)
{
    size_t n_idle = 0;
    double bases = 0;
    for (size_t i = 0; i < n; i++) {
        struct part p = parts[i];
        p.base = ret[p.index];
        p.want = p.member->demand;
        p.room = (double)gpus_of(p.member, p.want - p.base);
        if (!p.member->idle || p.room <= 0) {
            left -= gpus_of(p.member, p.base);
            continue;
        }
        bases += (double)gpus_of(p.member, p.base);
        parts[i] = parts[n_idle];
        parts[n_idle++] = p;
    }
    if ((double)left <= bases)
        return;
    fill(parts, n_idle, (double)left - bases);
    give_whole(parts, n_idle, left, ret);
}

void budget_share(const struct budget_group *group, int32_t *ret)
{
    int64_t left = group->gpus > group->others ? group->gpus - group->others : 0, floors = 0;
    GS_AUTO_FREE struct part *parts = gs_alloc_array(group->n + 1, sizeof(*parts));
    for (size_t i = 0; i < group->n; i++) {
        const struct budget_member *m = &group->members[i];
        parts[i] = (struct part){.member = m, .index = i, .base = floor_of(m), .want = want_of(m)};
        parts[i].room = (double)gpus_of(m, parts[i].want - parts[i].base);
        parts[i].weight = m->weight * (double)gpus_of(m, parts[i].want);
        floors += gpus_of(m, floor_of(m));
    }
    if (floors >= left) {
        give_floors(parts, group->n, left, ret);
        give_idle(parts, group->n, left, ret);
        return;
    }
    // Without demand there is no weight. Such a member has no share.
    size_t n = 0;
    for (size_t i = 0; i < group->n; i++) {
        ret[i] = 0;
        if (parts[i].member->demand > 0)
            parts[n++] = parts[i];
    }
    fill(parts, n, (double)(left - floors));
    give_whole(parts, n, left, ret);
    give_idle(parts, n, left, ret);
}

int64_t budget_used(const struct budget_member *m)
{
    int64_t set = gpus_of(m, m->settling > m->replicas ? m->settling : m->replicas);
    return m->ending + (set > m->live ? set : m->live);
}

int64_t budget_free(const struct budget_group *group)
{
    int64_t free = group->gpus - group->others;
    for (size_t i = 0; i < group->n; i++)
        free -= budget_used(&group->members[i]);
    return free;
}

int32_t budget_demand(int32_t wanted, int32_t replicas, bool by_utilization, bool refused,
                      int32_t *demand)
{
    bool hidden = by_utilization && refused && wanted > replicas;
    *demand = hidden && *demand > wanted ? *demand : wanted;
    return *demand;
}
