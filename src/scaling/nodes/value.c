// SPDX-License-Identifier: Apache-2.0
// The value of the requests of a pod.
//
// For the policy packing, it is the smallest share of a node that the pod takes in any group, if
// pods like it fill the node: a pod that uses half of the cores of a node with eight GPUs takes
// four GPUs.
//
// For the policies cost and price, it is what the requests cost on average. The prices of a GPU, a
// core and a GiB are those that explain the prices of the groups' nodes best (non-negative least
// squares of the relative errors), so a pod that takes much CPU of a GPU node is worth more than
// one that takes little.
#include "base/mem.h"
#include "nodes/nodes_private.h"

#include <math.h>

#define SWEEPS 300
// The price of resources that all nodes have in equal proportion belongs to the GPUs.
#define RIDGE_GPU   1e-6
#define RIDGE_OTHER 1e-3

static void amounts_of(const struct nodes_snapshot *s, size_t node, double ret[NODES_UNITS])
{
    ret[0] = (double)nodes_gpus(s, node);
    ret[1] = (double)nodes_allocatable(s, node, "cpu") / 1000;
    ret[2] = (double)nodes_allocatable(s, node, "memory") / 1000 / (1 << 30);
}

// One step of coordinate descent for the unit k. x: amounts per price.
static void improve(const double (*x)[NODES_UNITS], size_t n, const double scale[NODES_UNITS],
                    double units[NODES_UNITS], size_t k)
{
    double gradient = 0, curvature = (k ? RIDGE_OTHER : RIDGE_GPU) * (double)n;
    for (size_t i = 0; i < n; i++) {
        double others = 1;
        for (size_t j = 0; j < NODES_UNITS; j++)
            if (j != k)
                others -= x[i][j] * scale[j] * units[j];
        gradient += x[i][k] * scale[k] * others;
        curvature += x[i][k] * scale[k] * x[i][k] * scale[k];
    }
    units[k] = fmax(0, gradient / curvature);
}

void nodes_fit_units(const double (*x)[NODES_UNITS], size_t n, double ret[NODES_UNITS])
{
    double scale[NODES_UNITS] = {0}, units[NODES_UNITS] = {0};
    for (size_t k = 0; k < NODES_UNITS; k++) {
        for (size_t i = 0; i < n; i++)
            scale[k] = fmax(scale[k], x[i][k]);
        scale[k] = scale[k] > 0 ? 1 / scale[k] : 0;
    }
    for (size_t sweep = 0; sweep < SWEEPS; sweep++)
        for (size_t k = 0; k < NODES_UNITS; k++)
            improve(x, n, scale, units, k);
    for (size_t k = 0; k < NODES_UNITS; k++)
        ret[k] = units[k] * scale[k];
}

void nodes_contest_value(struct nodes_contest *c)
{
    double(*x)[NODES_UNITS] = gs_alloc_array(c->d->n_options + 1, sizeof(*x));
    size_t n = 0;
    for (size_t i = 0; i < c->d->n_options; i++) {
        const struct nodes_bid *b = &c->bids[i];
        if (b->node == NODES_NONE || b->option->state != NODES_OPTION_USABLE ||
            !(b->weight < NODES_NO_PRICE) || b->weight <= 0)
            continue;
        amounts_of(c->s, b->node, x[n]);
        for (size_t k = 0; k < NODES_UNITS; k++)
            x[n][k] /= b->weight;
        n++;
    }
    nodes_fit_units(x, n, c->units);
    free(x);
}

double nodes_form_value(const struct nodes_contest *c, size_t form)
{
    const struct nodes_form *f = c->s->forms[form];
    double value = 0;
    if (c->settings->policy == NODES_POLICY_PACKING)
        return c->needs[c->slots[form]];
    for (size_t i = 0; i < f->n_requests; i++) {
        const char *name = c->s->resources.items[f->requests[i].name];
        double milli = (double)f->requests[i].milli;
        if (gs_streq(name, NODES_GPU) || gs_streq(name, NODES_GPU_SHARED))
            value += c->units[0] * milli / 1000;
        else if (gs_streq(name, "cpu"))
            value += c->units[1] * milli / 1000;
        else if (gs_streq(name, "memory"))
            value += c->units[2] * milli / 1000 / (1 << 30);
    }
    return fmax(value, c->best[c->slots[form]] / 1000); // also of pods that request nothing
}
