// SPDX-License-Identifier: Apache-2.0
// Amounts by hour and key, in memory.
#include "ledger/ledger_private.h"

#include <inttypes.h>

enum { MAX_HOURS = 4 }; // full hours that a table holds, if they cannot be written

struct row {
    int64_t hour_ms;
    struct ledger_key key;
    struct ledger_amount amount;
};

struct ledger_table {
    struct gs_hmap *rows;   // hour and texts -> struct row
    struct gs_hmap *counts; // hour -> size_t: its rows
    struct gs_arena mem;    // of the texts
    struct gs_buf key;
    size_t max_rows;
};

static const char *const state_names[LEDGER_N_STATES] = {"busy", "idle", "free", "stranded",
                                                         "missing"};
static const char *const dimension_names[LEDGER_N_DIMENSIONS] = {
    "namespace", "workload", "owner", "node", "pool", "machine", "model", "confidence"};
static const struct ledger_key others = {{LEDGER_OTHER, LEDGER_OTHER, LEDGER_OTHER, LEDGER_OTHER,
                                          LEDGER_OTHER, LEDGER_OTHER, LEDGER_OTHER, LEDGER_OTHER}};

const char *ledger_state_name(enum ledger_state s)
{
    return state_names[s];
}

const char *ledger_dimension_name(enum ledger_dimension d)
{
    return dimension_names[d];
}

double ledger_total_ms(const struct ledger_amount *a)
{
    double sum = 0;
    for (size_t i = 0; i < LEDGER_N_STATES; i++)
        sum += a->ms[i];
    return sum;
}

void ledger_amount_add(struct ledger_amount *to, const struct ledger_amount *a)
{
    for (size_t i = 0; i < LEDGER_N_STATES; i++)
        to->ms[i] += a->ms[i];
    to->used_ms += a->used_ms;
    to->saved_ms += a->saved_ms;
}

struct ledger_table *ledger_table_new(size_t max_rows)
{
    struct ledger_table *t = gs_alloc(sizeof(*t));
    t->rows = gs_hmap_new(free);
    t->counts = gs_hmap_new(free);
    t->max_rows = max_rows;
    return t;
}

void ledger_table_free(struct ledger_table *t)
{
    if (!t)
        return;
    gs_hmap_free(t->rows);
    gs_hmap_free(t->counts);
    gs_arena_finish(&t->mem);
    gs_buf_finish(&t->key);
    free(t);
}

static int64_t hour_of(int64_t t_ms)
{
    return t_ms - t_ms % LEDGER_HOUR_MS;
}

static bool has_row_of(const struct ledger_table *t, int64_t hour_ms)
{
    return gs_hmap_get(t->counts, gs_slice_make(&hour_ms, sizeof(hour_ms))) != NULL;
}

void ledger_table_written(struct ledger_table *t, int64_t now_ms)
{
    void *value;
    if (!has_row_of(t, hour_of(now_ms))) {
        gs_hmap_clear(t->rows);
        gs_hmap_clear(t->counts);
        gs_arena_clear(&t->mem);
        return;
    }
    for (size_t pos = 0; gs_hmap_next(t->rows, &pos, NULL, &value);)
        ((struct row *)value)->amount = (struct ledger_amount){0};
}

size_t ledger_table_len(const struct ledger_table *t)
{
    return gs_hmap_len(t->rows);
}

static void write_key(struct ledger_table *t, int64_t hour_ms, const struct ledger_key *key)
{
    gs_buf_clear(&t->key);
    gs_buf_addf(&t->key, "%" PRId64, hour_ms);
    for (size_t i = 0; i < LEDGER_N_DIMENSIONS; i++) {
        gs_buf_add_str(&t->key, LEDGER_SEP);
        gs_buf_add_str(&t->key, key->text[i]);
    }
}

static size_t *count_of(struct ledger_table *t, int64_t hour_ms)
{
    struct gs_slice name = gs_slice_make(&hour_ms, sizeof(hour_ms));
    size_t *n = gs_hmap_get(t->counts, name);
    if (!n) {
        n = gs_alloc(sizeof(*n));
        gs_hmap_put(t->counts, name, n);
    }
    return n;
}

static struct row *row_of(struct ledger_table *t, int64_t hour_ms, const struct ledger_key *key)
{
    write_key(t, hour_ms, key);
    struct row *r = gs_hmap_get(t->rows, gs_buf_slice(&t->key));
    if (r)
        return r;
    size_t *n = count_of(t, hour_ms);
    bool full = *n >= t->max_rows || gs_hmap_len(t->rows) >= MAX_HOURS * t->max_rows;
    if (full && key != &others)
        return row_of(t, hour_ms, &others);
    ++*n;
    r = gs_alloc(sizeof(*r));
    r->hour_ms = hour_ms;
    for (size_t i = 0; i < LEDGER_N_DIMENSIONS; i++)
        r->key.text[i] = gs_arena_strdup(&t->mem, key->text[i]);
    gs_hmap_put(t->rows, gs_buf_slice(&t->key), r);
    return r;
}

// Up to the end of the hour of from_ms.
static int64_t end_of(int64_t from_ms, int64_t to_ms)
{
    int64_t end = hour_of(from_ms) + LEDGER_HOUR_MS;
    return end < to_ms ? end : to_ms;
}

void ledger_table_add_saved(struct ledger_table *t, int64_t from_ms, int64_t to_ms,
                            const struct ledger_key *key, double gpus)
{
    for (int64_t at = from_ms, end; at < to_ms; at = end) {
        end = end_of(at, to_ms);
        row_of(t, hour_of(at), key)->amount.saved_ms += (double)(end - at) * gpus;
    }
}

void ledger_table_add(struct ledger_table *t, int64_t from_ms, int64_t to_ms,
                      const struct ledger_key *key, enum ledger_state state, double share,
                      double used)
{
    for (int64_t at = from_ms; at < to_ms;) {
        int64_t end = end_of(at, to_ms);
        struct row *r = row_of(t, hour_of(at), key);
        double ms = (double)(end - at) * share;
        r->amount.ms[state] += ms;
        r->amount.used_ms += ms * used;
        at = end;
    }
}

void ledger_table_each(const struct ledger_table *t, ledger_row_fn fn, void *arg)
{
    void *value;
    for (size_t pos = 0; gs_hmap_next(t->rows, &pos, NULL, &value);) {
        const struct row *r = value;
        if ((ledger_total_ms(&r->amount) > 0 || r->amount.saved_ms > 0) &&
            !fn(arg, r->hour_ms, &r->key, &r->amount))
            return;
    }
}
