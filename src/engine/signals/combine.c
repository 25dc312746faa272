// SPDX-License-Identifier: Apache-2.0
// Combines the cells of a page into the values of its models. Of the names that a quantity has had
// over the releases, the first one on the page is used. Ranks are added up, or the maximum or
// minimum counts, as the table says.
#include "engine/signals/page_private.h"

#include "base/mem.h"

#include <math.h>

enum { MAX_BOUNDS = 64, WINDOW_MS = SIGNALS_WINDOW_SLOTS * SIGNALS_WINDOW_SLOT_MS };

static bool is_current(const struct signals_page *p, const struct signals_cell *c)
{
    return c->seen == p->epoch && c->source->engine == p->engine;
}

static bool is_used(const struct signals_model *r, const struct signals_cell *c)
{
    return r->from[c->source->quantity] == c->source;
}

static bool is_counter(size_t q)
{
    return q < SIGNALS_N_SOURCES &&
           signals_quantity_type((enum signals_quantity)q) == METRICS_COUNTER;
}

// --- which source ---

static void begin_row(struct signals_model *r)
{
    r->view = (struct signals_row){.model = gs_slice_of(r->model), .role = gs_slice_of(r->role)};
    memset(r->from, 0, sizeof(r->from));
    memset(r->samples, 0, sizeof(r->samples));
}

static void choose_sources(struct signals_page *p)
{
    for (size_t i = 0; i < p->n_cells; i++) {
        const struct signals_cell *c = &p->cells[i];
        const struct signals_source **from = &p->rows[c->row]->from[c->source->quantity];
        if (is_current(p, c) && (!*from || c->source->order < (*from)->order))
            *from = c->source;
    }
}

// --- values ---

static double combined(enum signals_over_ranks how, double a, double b)
{
    switch (how) {
    case SIGNALS_MAX:
        return b > a ? b : a;
    case SIGNALS_MIN:
        return b < a ? b : a;
    case SIGNALS_SUM:
        break;
    }
    return a + b;
}

static void add_value(struct signals_model *r, const struct signals_cell *c)
{
    size_t q = c->source->quantity;
    bool *has = q < SIGNALS_N_SOURCES ? &r->view.has[q] : &r->has_block_tokens;
    double *at = q < SIGNALS_N_SOURCES ? &r->view.value[q] : &r->block_tokens;
    *at = *has ? combined(c->source->over_ranks, *at, c->value) : c->value;
    *has = true;
    r->view.present = true;
}

static void add_values(struct signals_page *p)
{
    for (size_t i = 0; i < p->n_rows; i++)
        p->rows[i]->has_block_tokens = false;
    for (size_t i = 0; i < p->n_cells; i++) {
        const struct signals_cell *c = &p->cells[i];
        if (is_current(p, c) && c->part == SIGNALS_VALUE && is_used(p->rows[c->row], c))
            add_value(p->rows[c->row], c);
    }
}

// The capacity of engines that count blocks is known only with the size of a block.
static void apply_blocks(struct signals_model *r)
{
    const struct signals_source *s = r->from[SIGNALS_KV_CAPACITY_TOKENS];
    if (!s || !s->of_blocks)
        return;
    r->view.has[SIGNALS_KV_CAPACITY_TOKENS] = r->has_block_tokens;
    r->view.value[SIGNALS_KV_CAPACITY_TOKENS] *= r->block_tokens;
}

// --- counters of ranks that restart ---

struct restarts {
    size_t n, restarted; // cells of the counter; those that were larger before
    double lost;
};

static void count_cell(const struct signals_page *p, const struct signals_cell *c,
                       struct restarts *s)
{
    bool on_this = c->seen == p->epoch;
    bool on_last = on_this ? c->seen_before == p->last_epoch : c->seen == p->last_epoch;
    double before = on_this ? c->before : c->value;
    s->n += on_this;
    if (!on_last || !p->last_epoch || (on_this && c->value >= before))
        return;
    s->restarted += on_this;
    s->lost += before;
}

// A sum must not decrease because one of several ranks restarted: rate() would count the others
// again. If all of them restarted, the counter begins again.
static void carry_counters(struct signals_page *p, size_t row)
{
    struct restarts all[SIGNALS_N_SOURCES] = {0};
    struct signals_model *r = p->rows[row];
    for (size_t i = 0; i < p->n_cells; i++) {
        const struct signals_cell *c = &p->cells[i];
        if (c->row == row && is_counter(c->source->quantity) && is_used(r, c))
            count_cell(p, c, &all[c->source->quantity]);
    }
    for (size_t q = 0; q < SIGNALS_N_SOURCES; q++) {
        if (!is_counter(q))
            continue;
        r->carry[q] = all[q].n > all[q].restarted ? r->carry[q] + all[q].lost : 0;
        r->view.value[q] += r->carry[q];
    }
}

// --- histograms ---

static size_t find_bound(const double *bounds, size_t n, double bound)
{
    size_t i = 0;
    while (i < n && bounds[i] < bound)
        i++;
    return i;
}

// Returns false if there are too many. A new bound begins the window again.
static bool add_bound(struct signals_model *r, size_t h, double bound)
{
    size_t n = r->windows[h].n, at = find_bound(r->bounds[h], n, bound);
    if (at < n && r->bounds[h][at] == bound)
        return true;
    if (n == MAX_BOUNDS)
        return false;
    gs_grow(&r->bounds[h], &r->bounds_cap[h], n, sizeof(double));
    r->counts[h] = gs_realloc_array(r->counts[h], r->bounds_cap[h], sizeof(double));
    memmove(r->bounds[h] + at + 1, r->bounds[h] + at, (n - at) * sizeof(double));
    r->bounds[h][at] = bound;
    signals_window_reset(&r->windows[h], n + 1);
    return true;
}

struct growth {
    double by[MAX_BOUNDS]; // cumulative
    bool known;            // all cells are on the last page, too, and none has restarted
};

static void add_bucket(const struct signals_page *p, struct signals_model *r, size_t h,
                       const struct signals_cell *c, struct growth *g)
{
    size_t i = find_bound(r->bounds[h], r->windows[h].n, c->bound);
    r->counts[h][i] += c->value;
    g->by[i] += c->value - c->before;
    g->known =
        g->known && p->last_epoch && c->seen_before == p->last_epoch && c->value >= c->before;
}

static void add_part(const struct signals_page *p, struct signals_model *r, size_t h,
                     const struct signals_cell *c, struct growth *g)
{
    struct signals_histogram *out = &r->view.histogram[h];
    if (c->part == SIGNALS_SUM_PART)
        out->sum += c->value;
    else if (c->part == SIGNALS_COUNT_PART)
        out->count += c->value;
    else if (c->part == SIGNALS_BUCKET)
        add_bucket(p, r, h, c, g);
}

static bool read_bounds(struct signals_page *p, size_t row, const struct signals_source *s,
                        size_t h)
{
    for (size_t i = 0; i < p->n_cells; i++) {
        const struct signals_cell *c = &p->cells[i];
        if (c->row == row && c->source == s && c->seen == p->epoch && c->part == SIGNALS_BUCKET &&
            !add_bound(p->rows[row], h, c->bound))
            return false;
    }
    size_t n = p->rows[row]->windows[h].n;
    return n > 1 && isinf(p->rows[row]->bounds[h][n - 1]);
}

static void add_percentile(const struct signals_page *p, struct signals_model *r, size_t h,
                           const struct growth *g)
{
    size_t q = SIGNALS_TTFT_P90_SECONDS + h;
    struct signals_window *w = &r->windows[h];
    signals_window_advance(w, p->t_ms);
    if (g->known && p->t_ms - p->last_ms <= WINDOW_MS)
        signals_window_add(w, g->by);
    r->samples[h] = signals_window_count(w);
    r->view.has[q] = signals_window_quantile(w, r->bounds[h], 0.9, &r->view.value[q]);
}

static void combine_histogram(struct signals_page *p, size_t row, size_t h)
{
    struct signals_model *r = p->rows[row];
    size_t q = SIGNALS_TTFT_SECONDS + h;
    const struct signals_source *s = r->from[q];
    struct growth g = {.known = true};
    if (!s || !read_bounds(p, row, s, h))
        return;
    memset(r->counts[h], 0, r->windows[h].n * sizeof(double));
    for (size_t i = 0; i < p->n_cells; i++)
        if (p->cells[i].row == row && p->cells[i].source == s && p->cells[i].seen == p->epoch)
            add_part(p, r, h, &p->cells[i], &g);
    r->view.has[q] = r->view.present = true;
    r->view.histogram[h].bounds = r->bounds[h];
    r->view.histogram[h].counts = r->counts[h];
    r->view.histogram[h].n = r->windows[h].n;
    add_percentile(p, r, h, &g);
}

// --- values without a model ---

static void take_absent(struct signals_model *r, const struct signals_model *other)
{
    for (size_t q = 0; q < SIGNALS_N_QUANTITIES; q++) {
        if (r->view.has[q] || !other->view.has[q])
            continue;
        r->view.has[q] = true;
        r->view.value[q] = other->view.value[q];
        if (q < SIGNALS_N_SOURCES)
            r->from[q] = other->from[q];
    }
    for (size_t h = 0; h < SIGNALS_N_HISTOGRAMS; h++)
        if (!r->view.histogram[h].n) {
            r->view.histogram[h] = other->view.histogram[h];
            r->samples[h] = other->samples[h];
        }
}

// Whether b names the model or the role of a more exactly.
static bool is_part_of(const struct signals_model *a, const struct signals_model *b)
{
    return a != b && b->view.present && (!*a->model || gs_streq(a->model, b->model)) &&
           (!*a->role || gs_streq(a->role, b->role));
}

// Some engines name their model or role in a part of their series only. If one row alone can be
// meant, its values are in that row.
static void join_nameless(struct signals_page *p)
{
    for (size_t i = 0; i < p->n_rows; i++) {
        struct signals_model *r = p->rows[i], *whole = NULL;
        size_t n = 0;
        for (size_t k = 0; r->view.present && k < p->n_rows; k++)
            if (is_part_of(r, p->rows[k])) {
                whole = p->rows[k];
                n++;
            }
        if (n != 1)
            continue;
        take_absent(whole, r);
        r->view.present = false;
    }
}

void signals_page_combine(struct signals_page *p)
{
    bool any = false;
    for (size_t i = 0; i < p->n_rows; i++)
        begin_row(p->rows[i]);
    choose_sources(p);
    add_values(p);
    for (size_t i = 0; i < p->n_rows; i++) {
        carry_counters(p, i);
        apply_blocks(p->rows[i]);
        for (size_t h = 0; h < SIGNALS_N_HISTOGRAMS; h++)
            combine_histogram(p, i, h);
        any = any || p->rows[i]->view.present;
    }
    join_nameless(p); // those without a role
    join_nameless(p); // those without a model, too
    if (any)
        return;
    uint32_t row = signals_page_find_row(p, GS_SLICE(""), GS_SLICE("")); // for the reasons
    if (row != UINT32_MAX) {
        begin_row(p->rows[row]);
        p->rows[row]->view.present = true;
    }
}
