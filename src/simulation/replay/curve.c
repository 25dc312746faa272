// SPDX-License-Identifier: Apache-2.0
// Curves over time as points with straight lines between them, optionally repeated. A piece is
// kept by the caller, so that reading in order of time needs no search.
#include "replay/replay.h"

#include "base/mem.h"

void replay_curve_add(struct replay_curve *c, int64_t t_ms, double v)
{
    gs_grow(&c->points, &c->cap, c->n, sizeof(*c->points));
    c->points[c->n++] = (struct replay_curve_point){t_ms, v};
}

// The first point after t_ms.
static size_t point_after(const struct replay_curve *c, int64_t t_ms)
{
    size_t low = 0, high = c->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (c->points[mid].t_ms <= t_ms)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

void replay_curve_find_piece(const struct replay_curve *c, int64_t t_ms,
                             struct replay_curve_piece *ret)
{
    int64_t within = c->repeat_ms > 0 ? t_ms % c->repeat_ms : t_ms, start_ms = t_ms - within;
    size_t next = point_after(c, within);
    int64_t end_ms = c->repeat_ms > 0 ? start_ms + c->repeat_ms : INT64_MAX;
    *ret = (struct replay_curve_piece){.from_ms = start_ms, .until_ms = end_ms, .over_ms = 1};
    if (!c->n)
        return;
    if (next)
        ret->from_ms = start_ms + c->points[next - 1].t_ms;
    if (next < c->n && start_ms + c->points[next].t_ms < end_ms)
        ret->until_ms = start_ms + c->points[next].t_ms;
    if (next == 0 || next == c->n) {
        ret->v = c->points[next ? c->n - 1 : 0].v;
        return;
    }
    const struct replay_curve_point *a = &c->points[next - 1], *b = &c->points[next];
    ret->base_ms = start_ms + a->t_ms;
    ret->v = a->v;
    ret->rise = b->v - a->v;
    ret->over_ms = (double)(b->t_ms - a->t_ms);
}

void replay_curve_finish(struct replay_curve *c)
{
    free(c->points);
    *c = (struct replay_curve){0};
}

double replay_curve_mean(const struct replay_curve *c, double empty)
{
    double sum = 0;
    for (size_t i = 0; i < c->n; i++)
        sum += c->points[i].v;
    return c->n ? sum / (double)c->n : empty;
}
