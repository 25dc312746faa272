// SPDX-License-Identifier: Apache-2.0
#include "replay/curve.h"

#include "base/mem.h"

void curve_add(struct curve *c, int64_t t_ms, double v)
{
    gs_grow(&c->points, &c->cap, c->n, sizeof(*c->points));
    c->points[c->n++] = (struct curve_point){t_ms, v};
}

double curve_at(const struct curve *c, int64_t t_ms)
{
    if (!c->n)
        return 0;
    if (c->repeat_ms > 0)
        t_ms %= c->repeat_ms;
    size_t low = 0, high = c->n; // the first point behind t_ms
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (c->points[mid].t_ms <= t_ms)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == 0 || low == c->n)
        return c->points[low ? c->n - 1 : 0].v;
    const struct curve_point *a = &c->points[low - 1], *b = &c->points[low];
    return a->v + (b->v - a->v) * (double)(t_ms - a->t_ms) / (double)(b->t_ms - a->t_ms);
}

void curve_finish(struct curve *c)
{
    free(c->points);
    *c = (struct curve){0};
}
