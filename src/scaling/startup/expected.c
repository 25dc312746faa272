// SPDX-License-Identifier: Apache-2.0
// How long the next start is expected to take. Starts on other paths count without the phases that
// this path does not have, until there are starts on this one. Failed starts are counted, but have
// no time: with them as infinitely long, one in ten would make every start endless.
#include "base/num.h"
#include "kube/object.h"
#include "startup/startup_private.h"

#include <stdlib.h>
#include <string.h>

const char *startup_phase_name(enum startup_phase phase)
{
    static const char *const names[STARTUP_PHASES] = {"pending", "node", "pull", "container",
                                                      "load"};
    return names[phase];
}

// --- quantiles ---

struct times {
    int64_t ms[STARTUP_RING * STARTUP_GROUPS];
    size_t n;
};

// The smallest time that at least this share of the times does not exceed.
static int64_t quantile(const struct times *t, size_t percent)
{
    size_t rank = (t->n * percent + 99) / 100;
    return t->ms[rank ? rank - 1 : 0];
}

static struct startup_quantiles quantiles_of(struct times *t)
{
    if (!t->n)
        return (struct startup_quantiles){0};
    qsort(t->ms, t->n, sizeof(*t->ms), gs_compare_int64s);
    return (struct startup_quantiles){t->n, quantile(t, 50), quantile(t, 90), quantile(t, 99)};
}

static void add(struct times *t, int64_t ms)
{
    if (ms >= 0 && t->n < GS_ARRAY_LEN(t->ms))
        t->ms[t->n++] = ms;
}

// --- selection of starts ---

struct selection {
    const struct startup_ring *rings[STARTUP_GROUPS];
    size_t n;
    bool exact, any_path; // exact: only starts on this path
    struct startup_path path;
    int64_t node_ms; // of a start without node phase on a path with one
};

static bool on_path(const struct startup_sample *s, struct startup_path path)
{
    return s->path.node_to_come == path.node_to_come &&
           (path.image == STARTUP_IMAGE_UNKNOWN || s->path.image == path.image ||
            s->path.image == STARTUP_IMAGE_UNKNOWN);
}

static bool is_selected(const struct selection *sel, const struct startup_sample *s)
{
    return !s->failed && (!sel->exact || on_path(s, sel->path));
}

// What the start would have taken on the path.
static int64_t total_on(const struct selection *sel, const struct startup_sample *s)
{
    int64_t ms = s->total_ms;
    if (sel->any_path)
        return ms;
    if (!sel->path.node_to_come)
        ms -= s->ms[STARTUP_NODE];
    else if (!s->path.node_to_come)
        ms += sel->node_ms;
    if (sel->path.image == STARTUP_IMAGE_PRESENT && s->ms[STARTUP_PULL] > 0)
        ms -= s->ms[STARTUP_PULL];
    return ms;
}

static void collect(const struct selection *sel, int phase, struct times *ret)
{
    ret->n = 0;
    for (size_t g = 0; g < sel->n; g++)
        for (size_t i = 0; i < startup_ring_len(sel->rings[g]); i++) {
            const struct startup_sample *s = &sel->rings[g]->items[i];
            if (is_selected(sel, s))
                add(ret, phase < 0 ? total_on(sel, s) : s->ms[phase]);
        }
}

// False: no start is selected.
static bool expect(const struct selection *sel, enum startup_basis basis,
                   struct startup_expected *ret)
{
    struct times t;
    collect(sel, -1, &t);
    if (!t.n)
        return false;
    ret->basis = basis;
    ret->total = quantiles_of(&t);
    for (int p = 0; p < STARTUP_PHASES; p++) {
        collect(sel, p, &t);
        ret->phases[p] = quantiles_of(&t);
    }
    return true;
}

// p90 of the nodes that came, for any workload.
static int64_t node_time(const struct startup_learner *l)
{
    struct times t = {0};
    for (size_t i = 0; i < startup_ring_len(&l->others); i++) {
        const struct startup_sample *s = &l->others.items[i];
        if (!s->failed && s->path.node_to_come)
            add(&t, s->ms[STARTUP_NODE]);
    }
    return t.n ? quantiles_of(&t).p90_ms : STARTUP_NODE_MS;
}

static void select_all(const struct startup_workload *w, struct selection *sel)
{
    sel->n = 0;
    for (size_t i = 0; w && i < w->n; i++)
        sel->rings[sel->n++] = &w->groups[i]->ring;
}

static size_t count_failed(const struct startup_group *g)
{
    size_t n = 0;
    for (size_t i = 0; g && i < startup_ring_len(&g->ring); i++)
        n += g->ring.items[i].failed;
    return n;
}

static void expect_from(const struct startup_learner *l, const struct startup_group *g,
                        const struct startup_workload *w, struct selection *sel,
                        struct startup_expected *ret)
{
    ret->failed = count_failed(g);
    if (g) {
        sel->rings[0] = &g->ring;
        sel->n = 1;
        sel->exact = !sel->any_path;
        if (expect(sel, STARTUP_BASIS_SAME, ret))
            return;
        sel->exact = false;
        if (expect(sel, STARTUP_BASIS_PATHS, ret))
            return;
    }
    sel->exact = false;
    select_all(w, sel);
    if (expect(sel, STARTUP_BASIS_WORKLOAD, ret))
        return;
    sel->rings[0] = &l->others;
    sel->n = 1;
    if (expect(sel, STARTUP_BASIS_OTHERS, ret))
        return;
    ret->basis = STARTUP_BASIS_DEFAULT;
    ret->total =
        (struct startup_quantiles){0, STARTUP_DEFAULT_MS, STARTUP_DEFAULT_MS, STARTUP_DEFAULT_MS};
}

void startup_expected_of_workload(const struct startup_learner *l, const char *ns,
                                  const char *workload, struct startup_expected *ret)
{
    GS_AUTO_FREE char *key = startup_workload_key(ns, workload);
    struct selection sel = {.any_path = true};
    *ret = (struct startup_expected){.any_path = true};
    expect_from(l, startup_group_find(l, key, NULL, "", ""), startup_workload_of(l, key), &sel,
                ret);
}

void startup_expected_of_path(const struct startup_learner *l, const struct startup_workload *w,
                              const struct startup_group *g, struct startup_path path,
                              struct startup_expected *ret)
{
    struct selection sel = {.path = path, .node_ms = node_time(l)};
    *ret = (struct startup_expected){.path = path};
    expect_from(l, g, w, &sel, ret);
}

void startup_expected_of_pod(const struct startup_learner *l, const json_t *pod,
                             struct startup_expected *ret)
{
    const struct startup_record *r = startup_record_of(l, pod);
    char image[STARTUP_NAME], digest[STARTUP_NAME], gpu[STARTUP_NAME];
    GS_AUTO_FREE char *workload = kube_workload(pod);
    GS_AUTO_FREE char *key = startup_workload_key(kube_namespace(pod), workload);
    startup_read_image(pod, image, digest);
    startup_read_gpu(pod, NULL, gpu);
    const struct startup_group *g =
        startup_group_find(l, key, image, digest, r && r->gpu ? r->gpu : gpu);
    startup_expected_of_path(l, startup_workload_of(l, key), g,
                             r ? startup_path_of(r) : (struct startup_path){0}, ret);
}

int64_t startup_late_ms(const struct startup_expected *e)
{
    const int64_t least = 5000;
    int64_t margin = e->total.p90_ms / 4;
    return e->total.p90_ms + (margin > least ? margin : least);
}
