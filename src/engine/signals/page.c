// SPDX-License-Identifier: Apache-2.0
// The pages of one target. A line that the table reads belongs to a cell: a series without the
// labels over which an engine only repeats a value. The cells of a model, one for each rank and
// part, are combined at the end of a page.
#include "engine/signals/page_private.h"

#include "base/mem.h"
#include "base/num.h"
#include "metrics/labels.h"

#include <math.h>

enum {
    MAX_CELLS = 4096, // of a page; about 150 for an engine with one rank
    MAX_LINES = 8192,
    MAX_ROWS = 64,
    MAX_MODEL = 256, // bytes of a model's name
};
#define MARKER                                                                                     \
    UINT32_C(0x80000000) // in struct signals_cached_line: the number is that of an engine

struct signals_page *signals_page_new(const struct signals_table *table)
{
    struct signals_page *p = gs_alloc(sizeof(*p));
    p->table = table;
    p->engine = table->n_engines;
    p->engine_seen = gs_alloc_array(table->n_engines, sizeof(*p->engine_seen));
    return p;
}

static void row_finish(struct signals_model *r)
{
    for (size_t h = 0; h < SIGNALS_N_HISTOGRAMS; h++)
        signals_window_finish(&r->windows[h]);
    for (size_t h = 0; h < SIGNALS_N_HISTOGRAMS; h++)
        free(r->bounds[h]);
    for (size_t h = 0; h < SIGNALS_N_HISTOGRAMS; h++)
        free(r->counts[h]);
    free(r->model);
    free(r->role);
    free(r);
}

void signals_page_free(struct signals_page *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->n_rows; i++)
        row_finish(p->rows[i]);
    free(p->rows);
    free(p->cells);
    free(p->lines);
    free(p->engine_seen);
    free(p);
}

// --- lines ---

static void lines_put(struct signals_page *p, uint64_t hash, uint32_t to)
{
    size_t mask = p->lines_cap - 1, at = hash & mask;
    while (p->lines[at].used)
        at = (at + 1) & mask;
    p->lines[at] = (struct signals_cached_line){hash, to, true};
    p->n_lines++;
}

static void lines_resize(struct signals_page *p, size_t cap)
{
    struct signals_cached_line *old = p->lines;
    size_t n = p->lines_cap;
    p->lines = gs_alloc_array(cap, sizeof(*p->lines));
    p->lines_cap = cap;
    p->n_lines = 0;
    for (size_t i = 0; i < n; i++)
        if (old[i].used)
            lines_put(p, old[i].hash, old[i].to);
    free(old);
}

static void lines_add(struct signals_page *p, uint64_t hash, uint32_t to)
{
    if (p->n_lines >= MAX_LINES) {
        p->limited = true;
        return;
    }
    if ((p->n_lines + 1) * 2 > p->lines_cap)
        lines_resize(p, p->lines_cap ? p->lines_cap * 2 : 64);
    lines_put(p, hash, to);
}

static void cell_put(struct signals_page *p, struct signals_cell *c, double value)
{
    if (isnan(value)) // as if the line were absent
        return;
    if (c->seen == p->epoch) {
        if (value > c->value)
            c->value = value;
        return;
    }
    c->before = c->value;
    c->seen_before = c->seen;
    c->value = value;
    c->seen = p->epoch;
}

// The value of a line in the unit of its quantity.
static double value_of(const struct signals_cell *c, double value)
{
    if (c->part == SIGNALS_BUCKET || c->part == SIGNALS_COUNT_PART)
        return value;
    if (c->factor >= 0) // an information series, whose labels are the value
        return value > 0 ? c->factor : NAN;
    value *= c->source->scale;
    return c->source->invert ? 1 - value : value;
}

// Returns whether the line is cached.
static bool cached_line(struct signals_page *p, const struct metrics_line *l)
{
    bool found = false;
    if (!p->lines_cap)
        return false;
    size_t mask = p->lines_cap - 1;
    for (size_t at = l->hash & mask; p->lines[at].used; at = (at + 1) & mask) {
        const struct signals_cached_line *k = &p->lines[at];
        if (k->hash != l->hash)
            continue;
        found = true;
        p->n_seen++;
        if (k->to & MARKER) {
            p->engine_seen[k->to & ~MARKER] = p->epoch;
            continue;
        }
        struct signals_cell *c = &p->cells[k->to];
        p->engine_seen[c->source->engine] = p->epoch;
        cell_put(p, c, value_of(c, l->value));
    }
    return found;
}

// --- new lines ---

struct labels {
    const struct metrics_label *items;
    size_t n;
};

static struct gs_slice label_of(const struct labels *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++)
        if (gs_slice_eq_str(l->items[i].name, name))
            return l->items[i].value;
    return (struct gs_slice){0};
}

static struct gs_slice first_label(const struct labels *l, const struct signals_texts *names)
{
    struct gs_slice found = {0};
    for (size_t i = 0; i < names->n && !found.len; i++)
        found = label_of(l, names->items[i]);
    return found;
}

static bool in_list(const struct signals_texts *names, struct gs_slice name)
{
    for (size_t i = 0; i < names->n; i++)
        if (gs_slice_eq_str(name, names->items[i]))
            return true;
    return false;
}

static bool is_left_out(const struct signals_source *s, const struct labels *l)
{
    if (s->without && label_of(l, s->without).len)
        return true;
    return s->match_label && !gs_slice_eq_str(label_of(l, s->match_label), s->match_value);
}

uint32_t signals_page_find_row(struct signals_page *p, struct gs_slice model, struct gs_slice role)
{
    for (size_t i = 0; i < p->n_rows; i++)
        if (gs_slice_eq_str(model, p->rows[i]->model) && gs_slice_eq_str(role, p->rows[i]->role))
            return (uint32_t)i;
    if (p->n_rows >= MAX_ROWS || model.len > MAX_MODEL || role.len > MAX_MODEL)
        return UINT32_MAX;
    gs_grow(&p->rows, &p->rows_cap, p->n_rows, sizeof(*p->rows));
    struct signals_model *r = p->rows[p->n_rows] = gs_alloc(sizeof(*r));
    r->model = gs_slice_dup(model);
    r->role = gs_slice_dup(role);
    p->version++;
    return (uint32_t)p->n_rows++;
}

// Labels that only repeat a value are no part of the identity, nor is the bucket.
static uint64_t identity(const struct signals_engine *e, const struct labels *l)
{
    uint64_t h = 0;
    for (size_t i = 0; i < l->n; i++) {
        struct gs_slice name = l->items[i].name, value = l->items[i].value;
        if (in_list(&e->repeat, name) || gs_slice_eq_str(name, "le") ||
            gs_slice_eq_str(name, "__name__"))
            continue;
        h = metrics_hash(name.data, name.len, h);
        h = metrics_hash(value.data, value.len, h);
    }
    return h;
}

// False: a label is not a number ("None" until the engine has measured its memory).
static bool read_factor(const struct signals_source *s, const struct labels *l, double *ret)
{
    double product = 1, one = 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(s->times_label) && s->times_label[i]; i++) {
        GS_AUTO_ERROR struct gs_error *err = gs_parse_double(label_of(l, s->times_label[i]), &one);
        if (err || !(one >= 0) || isinf(one))
            return false;
        product *= one;
    }
    *ret = s->times_label[0] ? product : -1;
    return true;
}

static bool same_cell(const struct signals_cell *a, const struct signals_cell *b)
{
    return a->identity == b->identity && a->source == b->source && a->row == b->row &&
           a->part == b->part && a->bound == b->bound;
}

// UINT32_MAX: the line is not read, or there are too many.
static uint32_t find_cell(struct signals_page *p, const struct signals_source *s,
                          enum signals_part part, const struct labels *l)
{
    const struct signals_engine *e = &p->table->engines[s->engine];
    struct signals_cell c = {.source = s, .part = part, .identity = identity(e, l)};
    if (is_left_out(s, l) || !read_factor(s, l, &c.factor))
        return UINT32_MAX;
    if (part == SIGNALS_BUCKET) { // its bound, instead of the factor
        GS_AUTO_ERROR struct gs_error *err = gs_parse_double(label_of(l, "le"), &c.bound);
        c.bound *= s->scale;
        if (err || isnan(c.bound))
            return UINT32_MAX;
    }
    c.row = signals_page_find_row(p, first_label(l, &e->model), first_label(l, &e->role));
    if (c.row == UINT32_MAX || p->n_cells >= MAX_CELLS) {
        p->limited = true;
        return UINT32_MAX;
    }
    for (size_t i = 0; i < p->n_cells; i++)
        if (same_cell(&p->cells[i], &c))
            return (uint32_t)i;
    p->cells = gs_realloc_array(p->cells, p->n_cells + 1, sizeof(*p->cells));
    p->cells[p->n_cells] = c;
    return (uint32_t)p->n_cells++;
}

static struct gs_slice name_of(struct gs_slice identity_text)
{
    size_t n = 0;
    while (n < identity_text.len && identity_text.data[n] != '{' &&
           !gs_is_blank(identity_text.data[n]))
        n++;
    return gs_slice_make(identity_text.data, n);
}

static void add_marker(struct signals_page *p, struct gs_slice name, const struct metrics_line *l,
                       const struct labels *labels)
{
    size_t e = signals_table_engine_of(p->table, name, labels->items, labels->n);
    if (e == p->table->n_engines || p->engine_seen[e] == p->epoch)
        return;
    p->engine_seen[e] = p->epoch;
    lines_add(p, l->hash, MARKER | (uint32_t)e);
}

static void new_line(struct signals_page *p, struct metrics_reader *r, const struct metrics_line *l)
{
    enum signals_part part;
    struct labels labels = {0};
    struct gs_slice name = name_of(l->identity);
    const struct signals_source *s = signals_table_find(p->table, name, &part);
    if (!s && signals_table_engine_of(p->table, name, NULL, 0) == p->table->n_engines)
        return;
    GS_AUTO_ERROR struct gs_error *err = metrics_reader_labels(r, l, &labels.items, &labels.n);
    if (err) // the reader's caller reports it
        return;
    add_marker(p, name, l, &labels);
    for (; s; s = s->next) {
        uint32_t cell = find_cell(p, s, part, &labels);
        if (cell == UINT32_MAX)
            continue;
        lines_add(p, l->hash, cell);
        cell_put(p, &p->cells[cell], value_of(&p->cells[cell], l->value));
        p->n_seen++;
    }
}

void signals_page_line(struct signals_page *p, struct metrics_reader *r,
                       const struct metrics_line *l, bool is_new)
{
    if (!cached_line(p, l) && is_new)
        new_line(p, r, l);
}

// --- a page ---

void signals_page_begin(struct signals_page *p, int64_t t_ms)
{
    p->epoch++;
    p->t_ms = t_ms;
    p->n_seen = 0;
    p->limited = false;
}

static void forget_values(struct signals_page *p)
{
    for (size_t i = 0; i < p->n_rows; i++) {
        memset(p->rows[i]->view.has, 0, sizeof(p->rows[i]->view.has));
        p->rows[i]->view.present = false;
    }
}

void signals_page_failed(struct signals_page *p)
{
    forget_values(p);
    p->engine = p->table->n_engines;
}

// Series with new labels on each page would otherwise be cached for ever.
static void drop_unseen(struct signals_page *p)
{
    if (p->n_lines <= 2 * p->n_seen + 64)
        return;
    GS_AUTO_FREE uint32_t *moved = gs_alloc_array(p->n_cells + 1, sizeof(*moved));
    struct signals_cached_line *old = p->lines;
    size_t kept = 0, n = p->lines_cap;
    for (size_t i = 0; i < p->n_cells; i++) {
        moved[i] = p->cells[i].seen == p->epoch ? (uint32_t)kept : UINT32_MAX;
        if (moved[i] != UINT32_MAX)
            p->cells[kept++] = p->cells[i];
    }
    p->n_cells = kept;
    p->lines = NULL;
    p->lines_cap = p->n_lines = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t to = old[i].to;
        if (!old[i].used)
            continue;
        if (to & MARKER ? p->engine_seen[to & ~MARKER] == p->epoch : moved[to] != UINT32_MAX)
            lines_add(p, old[i].hash, to & MARKER ? to : moved[to]);
    }
    free(old);
}

void signals_page_end(struct signals_page *p)
{
    p->engine = 0;
    while (p->engine < p->table->n_engines && p->engine_seen[p->engine] != p->epoch)
        p->engine++;
    forget_values(p);
    if (p->engine < p->table->n_engines)
        signals_page_combine(p);
    drop_unseen(p);
    p->last_epoch = p->epoch;
    p->last_ms = p->t_ms;
}

struct gs_error *signals_page_read(struct signals_page *p, struct gs_slice text,
                                   enum metrics_format format, int64_t t_ms)
{
    struct metrics_reader *r = metrics_reader_new();
    static const struct metrics_limits limits = {.max_line = 65536, .skip_over_limits = true};
    struct gs_error *err = NULL;
    struct metrics_line l;
    bool more = true;
    metrics_reader_start(r, text, format, &limits);
    signals_page_begin(p, t_ms);
    while (!err) {
        err = metrics_reader_next(r, &l, &more);
        if (err || !more)
            break;
        signals_page_line(p, r, &l, true);
    }
    if (err)
        signals_page_failed(p);
    else
        signals_page_end(p);
    metrics_reader_free(r);
    return err;
}

// --- results ---

const char *signals_page_engine(const struct signals_page *p)
{
    return p->engine < p->table->n_engines ? p->table->engines[p->engine].name : NULL;
}

const struct signals_row *signals_page_row(const struct signals_page *p, size_t i)
{
    return i < p->n_rows ? &p->rows[i]->view : NULL;
}

uint64_t signals_page_version(const struct signals_page *p)
{
    return p->version;
}
