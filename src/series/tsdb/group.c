// SPDX-License-Identifier: Apache-2.0
// Series that are appended together, one row per scrape.
#include "tsdb/tsdb_private.h"

#include "base/mem.h"

#include <assert.h>

struct tsdb_group *tsdb_group_new(struct tsdb *db)
{
    struct tsdb_group *g = gs_alloc(sizeof(*g));
    g->db = db;
    g->last_ms = g->floor_ms = INT64_MIN;
    // The first column of each group has a different length. Otherwise all chunks of a store would
    // be complete at the same time, and its memory would vary by a whole chunk of each series.
    enum { LENGTHS = TSDB_TIMESTAMPS_MAX / TSDB_GROUP_ROWS };
    g->column = TSDB_GROUP_ROWS * (LENGTHS - db->groups_made++ * 7 % LENGTHS);
    if (db->wal)
        g->wal_number = tsdb_wal_group_new(db->wal);
    TAILQ_INSERT_TAIL(&db->groups, g, all);
    return g;
}

static bool is_live(double v)
{
    // The two values differ in one bit.
    return (tsdb_decimal_bits(v) | 1) != (TSDB_ABSENT_BITS | TSDB_STALE_BITS);
}

static size_t row_of_next(const struct tsdb_group *g)
{
    return g->times ? g->times->n % TSDB_GROUP_ROWS : 0;
}

// The row before the first one has absent values.
static double *row_before(const struct tsdb_group *g)
{
    return g->rows[(row_of_next(g) + TSDB_GROUP_ROWS - 1) % TSDB_GROUP_ROWS];
}

const double *tsdb_group_last_row(const struct tsdb_group *g)
{
    return g->times ? row_before(g) : NULL;
}

// --- capacity: a multiple of eight ---

// There are many groups, and doubling would waste an eighth of the memory of a store.
static void grow_slots(void *p, size_t *cap, size_t n, size_t size)
{
    if (n < *cap)
        return;
    void **array = p;
    *cap = (n + n / 8 + 8) / 8 * 8;
    *array = gs_realloc_array(*array, *cap, size);
    memset((char *)*array + n * size, 0, (*cap - n) * size);
}

static void shrink_slots(void *p, size_t *cap, size_t to, size_t size)
{
    void **array = p;
    *array = gs_realloc_array(*array, to, size);
    *cap = to;
}

void tsdb_group_release_slots(struct tsdb_group *g)
{
    size_t cap = (g->n + 7) / 8 * 8;
    if (g->refs_cap > cap)
        shrink_slots(&g->refs, &g->refs_cap, cap, sizeof(*g->refs));
    if (g->loose_cap > cap)
        shrink_slots(&g->loose, &g->loose_cap, cap, sizeof(*g->loose));
    for (size_t i = 0; i < TSDB_GROUP_ROWS; i++) {
        if (g->rows_cap[i] <= cap)
            continue;
        g->db->heap.bytes -= (ptrdiff_t)((g->rows_cap[i] - cap) * sizeof(double));
        shrink_slots(&g->rows[i], &g->rows_cap[i], cap, sizeof(double));
    }
    g->row = g->rows[row_of_next(g)]; // the rows may have been reallocated
}

// --- slots ---

void tsdb_group_detach(struct tsdb_group *g, uint32_t slot)
{
    struct tsdb_series *s = &g->db->series[g->refs[slot]];
    tsdb_group_flush_slot(g, slot);
    tsdb_heads_leave(&s->samples, &g->db->heap);
    s->group = NULL;
    s->shared_by++;
    g->loose[slot] = true;
    g->n_loose++;
}

void tsdb_group_slot_free(struct tsdb_group *g, uint32_t slot)
{
    g->refs[slot] = TSDB_NO_REF;
    gs_grow(&g->free_slots, &g->free_cap, g->n_free, sizeof(*g->free_slots));
    g->free_slots[g->n_free++] = slot;
    g->map_version++;
    g->epoch++;
}

static uint32_t take_slot(struct tsdb_group *g)
{
    g->whole = false;
    if (g->n_reusable) {
        uint32_t slot = g->free_slots[--g->n_reusable];
        g->free_slots[g->n_reusable] = g->free_slots[--g->n_free];
        return slot;
    }
    grow_slots(&g->refs, &g->refs_cap, g->n, sizeof(*g->refs));
    grow_slots(&g->loose, &g->loose_cap, g->n, sizeof(*g->loose));
    if (g->n / TSDB_HEADS == g->blocks_cap)
        grow_slots(&g->blocks, &g->blocks_cap, g->n / TSDB_HEADS, sizeof(*g->blocks));
    for (size_t i = 0; i < TSDB_GROUP_ROWS; i++) {
        size_t before = g->rows_cap[i];
        grow_slots(&g->rows[i], &g->rows_cap[i], g->n, sizeof(double));
        g->db->heap.bytes += (ptrdiff_t)((g->rows_cap[i] - before) * sizeof(double));
    }
    g->row = g->rows[row_of_next(g)]; // the rows may have been reallocated
    return (uint32_t)g->n++;
}

static bool find_loose(const struct tsdb_group *g, tsdb_ref ref, uint32_t *ret)
{
    for (size_t i = 0; g->n_loose && i < g->n; i++) {
        if (g->loose[i] && g->refs[i] == ref) {
            *ret = (uint32_t)i;
            return true;
        }
    }
    return false;
}

static uint32_t add_slot(struct tsdb_group *g, tsdb_ref ref)
{
    struct tsdb_series *s = &g->db->series[ref];
    uint32_t slot = take_slot(g);
    int64_t first, last;
    if (s->group)
        tsdb_group_detach(s->group, s->samples.slot);
    g->refs[slot] = ref;
    g->loose[slot] = s->shared_by > 0;
    for (size_t i = 0; i < TSDB_GROUP_ROWS; i++)
        g->rows[i][slot] = tsdb_absent();
    if (s->shared_by) {
        s->shared_by++;
        g->n_loose++;
    } else {
        s->group = g;
        s->samples.slot = slot;
        if (tsdb_series_span(s, &first, &last) && last > g->floor_ms)
            g->floor_ms = last;
    }
    g->map_version++;
    return slot;
}

static struct gs_error *find_slot(struct tsdb_group *g, const struct metrics_label *labels,
                                  size_t n, bool always, uint32_t *ret_slot)
{
    tsdb_ref ref;
    struct gs_error *err = tsdb_series_intern(g->db, labels, n, always, &ref);
    if (err)
        return err;
    const struct tsdb_series *s = &g->db->series[ref];
    if (s->group == g)
        *ret_slot = s->samples.slot;
    else if (!s->shared_by || !find_loose(g, ref, ret_slot))
        *ret_slot = add_slot(g, ref);
    return NULL;
}

struct gs_error *tsdb_group_slot(struct tsdb_group *g, const struct metrics_label *labels, size_t n,
                                 uint32_t *ret_slot)
{
    return find_slot(g, labels, n, false, ret_slot);
}

struct gs_error *tsdb_group_slot_always(struct tsdb_group *g, const struct metrics_label *labels,
                                        size_t n, uint32_t *ret_slot)
{
    return find_slot(g, labels, n, true, ret_slot);
}

tsdb_ref tsdb_group_ref(const struct tsdb_group *g, uint32_t slot)
{
    return g->refs[slot];
}

void tsdb_group_free(struct tsdb_group *g)
{
    if (!g)
        return;
    tsdb_group_flush(g);
    tsdb_group_free_blocks(g);
    for (size_t i = 0; i < g->n; i++) {
        if (g->refs[i] == TSDB_NO_REF)
            continue;
        struct tsdb_series *s = &g->db->series[g->refs[i]];
        if (g->loose[i])
            s->shared_by--;
        else
            s->group = NULL;
    }
    for (size_t i = 0; i < TSDB_GROUP_ROWS; i++) {
        g->db->heap.bytes -= (ptrdiff_t)(g->rows_cap[i] * sizeof(double));
        free(g->rows[i]);
    }
    g->db->heap.bytes -= (ptrdiff_t)tsdb_timestamps_unref(g->times);
    TAILQ_REMOVE(&g->db->groups, g, all);
    free(g->refs);
    free(g->loose);
    free(g->free_slots);
    free(g);
}

// --- a pass ---

// Clears blocks of eight. The capacity is a multiple of eight.
static void clear_row(double *row, size_t n)
{
    for (size_t i = 0; i < n; i += 8)
        for (size_t k = 0; k < 8; k++)
            row[i + k] = tsdb_absent();
}

struct gs_error *tsdb_group_begin(struct tsdb_group *g, int64_t t_ms)
{
    gs_thread_owner_assert(&g->db->owner);
    if (t_ms <= g->last_ms)
        return gs_error_new(GS_ECONFLICT, "the row is not newer than the previous one");
    g->t_ms = t_ms;
    g->row = g->rows[row_of_next(g)];
    g->n_reusable = g->n_free;
    clear_row(g->row, g->n);
    return NULL;
}

void tsdb_group_count_rejected(struct tsdb_group *g, size_t n)
{
    g->db->out_of_order += n;
}

bool tsdb_group_put(struct tsdb_group *g, uint32_t slot, double value)
{
    gs_assert_debug(slot < g->n && g->refs[slot] != TSDB_NO_REF);
    double *at = &g->row[slot];
    if (!tsdb_is_absent(*at)) {
        g->db->duplicates++;
        return false;
    }
    *at = value;
    return true;
}

void tsdb_group_rollback(struct tsdb_group *g)
{
    clear_row(g->row, g->n);
}

static void push_time(struct tsdb_group *g)
{
    struct tsdb *db = g->db;
    if (!g->times || g->times->n == g->column) {
        if (g->times)
            g->column = TSDB_TIMESTAMPS_MAX;
        db->heap.bytes -= (ptrdiff_t)tsdb_timestamps_unref(g->times);
        g->times = tsdb_timestamps_new(g->column);
        db->heap.bytes += (ptrdiff_t)tsdb_timestamps_bytes(g->times);
    }
    g->times = tsdb_timestamps_append(g->times, g->t_ms);
    g->last_ms = g->t_ms;
    g->held++;
    if (g->t_ms > db->newest_ms)
        db->newest_ms = g->t_ms;
}

// Drops values of series that have samples newer than this row.
static void refuse_older(struct tsdb_group *g, double *row)
{
    for (size_t i = 0; i < g->n; i++) {
        int64_t first, last;
        if (tsdb_is_absent(row[i]) || g->refs[i] == TSDB_NO_REF || g->loose[i] ||
            !tsdb_series_span(&g->db->series[g->refs[i]], &first, &last) || last < g->t_ms)
            continue;
        row[i] = tsdb_absent();
        g->db->out_of_order++;
    }
}

static void put_loose(struct tsdb_group *g, const double *row, size_t *added, size_t *fresh)
{
    for (size_t i = 0; i < g->n; i++) {
        if (!g->loose[i] || g->refs[i] == TSDB_NO_REF || tsdb_is_absent(row[i]))
            continue;
        struct tsdb_series *s = &g->db->series[g->refs[i]];
        bool appended, first = tsdb_chunks_empty(&s->samples);
        // Another group continues the series that this group ends.
        if (tsdb_is_stale_inline(row[i]) && !first && tsdb_chunks_last_ms(&s->samples) >= g->t_ms)
            continue;
        gs_error_free(tsdb_series_append(g->db, s, g->t_ms, row[i], &appended));
        *added += appended && !tsdb_is_stale_inline(row[i]);
        *fresh += appended && first;
    }
}

// True if a series that gets a sample in this row had none before.
static bool is_first_sample(const struct tsdb_group *g, size_t slot)
{
    bool first = tsdb_chunks_empty(&g->db->series[g->refs[slot]].samples);
    for (size_t i = 1; first && i <= g->held; i++)
        first = tsdb_is_absent(g->rows[(g->times->n - i) % TSDB_GROUP_ROWS][slot]);
    return first;
}

// Ends the series without a value in the row, and counts: `added` and `ended` do not include loose
// series.
static void close_row(struct tsdb_group *g, double *row, size_t *added, size_t *ended,
                      size_t *fresh)
{
    const double *before = row_before(g);
    for (size_t i = 0; i < g->n; i++) {
        bool had = is_live(before[i]);
        if (g->refs[i] == TSDB_NO_REF)
            row[i] = tsdb_absent(); // by a caller that did not check the epoch
        else if (tsdb_is_absent(row[i]) && had)
            row[i] = tsdb_stale_marker();
        if (tsdb_is_absent(row[i]) || g->loose[i])
            continue;
        bool is_end = tsdb_is_stale_inline(row[i]);
        *added += !is_end;
        *ended += is_end;
        if (had)
            continue;
        *fresh += is_first_sample(g, i);
        tsdb_changes_returned(g->db, g->refs[i]);
    }
}

static bool is_whole(const struct tsdb_group *g, const double *row)
{
    size_t live = 0;
    for (size_t i = 0; i < g->n; i++)
        live += is_live(row[i]);
    return live == g->n && !g->n_loose && !g->n_free;
}

void tsdb_group_commit(struct tsdb_group *g, size_t *ret_added, size_t *ret_new)
{
    gs_thread_owner_assert(&g->db->owner);
    gs_assert(g->t_ms > g->last_ms); // begun, not committed yet
    struct tsdb *db = g->db;
    double *row = g->rows[row_of_next(g)];
    size_t added = 0, ended = 0, fresh = 0;
    if (g->t_ms <= g->floor_ms)
        refuse_older(g, row);
    bool whole = is_whole(g, row);
    if (whole && g->whole)
        added = g->n; // no series were added or ended
    else if (g->n)
        close_row(g, row, &added, &ended, &fresh);
    g->whole = whole;
    if (db->wal)
        tsdb_wal_pass(db->wal, db, g->wal_number, g->map_version, g->refs, row, g->n, g->t_ms);
    db->generation += fresh;
    db->appended += added + ended;
    db->samples_held += added + ended;
    if (g->n_loose)
        put_loose(g, row, &added, &fresh);
    push_time(g);
    if (g->held == TSDB_GROUP_ROWS || g->times->n == g->column)
        tsdb_group_flush(g);
    *ret_added = added;
    *ret_new = fresh;
}

int64_t tsdb_group_last_ms(const struct tsdb_group *g)
{
    return g->last_ms;
}

static void swap_rows(struct tsdb_group *g, size_t a, size_t b)
{
    double *row = g->rows[a];
    size_t cap = g->rows_cap[a];
    g->rows[a] = g->rows[b];
    g->rows_cap[a] = g->rows_cap[b];
    g->rows[b] = row;
    g->rows_cap[b] = cap;
}

// Moves the time of the rows back. The last row remains the previous one, so that series without a
// value in the next row are ended. A row that is being filled is kept.
void tsdb_group_restart(struct tsdb_group *g, int64_t t_ms)
{
    if (g->last_ms <= t_ms)
        return;
    size_t next = row_of_next(g);
    while (next) { // swap: the order of the others is irrelevant
        for (size_t i = 0; i + 1 < TSDB_GROUP_ROWS; i++)
            swap_rows(g, i, i + 1);
        next--;
    }
    for (size_t i = 1; i + 1 < TSDB_GROUP_ROWS; i++)
        clear_row(g->rows[i], g->n);
    g->db->heap.bytes -= (ptrdiff_t)tsdb_timestamps_unref(GS_TAKE(g->times));
    g->last_ms = t_ms;
    if (g->floor_ms > t_ms)
        g->floor_ms = t_ms;
    g->whole = false;
}

uint64_t tsdb_group_epoch(const struct tsdb_group *g)
{
    return g->epoch;
}

bool tsdb_group_slot_is_free(const struct tsdb_group *g, uint32_t slot)
{
    return g->refs[slot] == TSDB_NO_REF;
}

// --- reading what is in rows ---

bool tsdb_group_slot_live(const struct tsdb_group *g, uint32_t slot)
{
    return is_live(row_before(g)[slot]);
}

bool tsdb_group_slot_idle(const struct tsdb_group *g, uint32_t slot)
{
    for (size_t i = 0; i < TSDB_GROUP_ROWS; i++)
        if (!tsdb_is_absent(g->rows[i][slot]))
            return false;
    return true;
}

void tsdb_group_read(const struct tsdb_group *g, uint32_t slot, int64_t mint, int64_t maxt,
                     struct tsdb_samples *ret)
{
    if (!g->held)
        return;
    tsdb_samples_reserve(ret, g->held);
    size_t n = ret->n;
    for (size_t at = g->times->n - g->held; at < g->times->n; at++) {
        ret->t[n] = g->times->at[at];
        ret->v[n] = g->rows[at % TSDB_GROUP_ROWS][slot];
        n += ret->t[n] >= mint && ret->t[n] <= maxt && !tsdb_is_absent(ret->v[n]);
    }
    ret->n = n;
}

bool tsdb_group_at(const struct tsdb_group *g, uint32_t slot, int64_t t_ms, struct tsdb_point *ret)
{
    for (size_t i = 1; i <= g->held; i++) {
        size_t at = g->times->n - i;
        double v = g->rows[at % TSDB_GROUP_ROWS][slot];
        if (g->times->at[at] > t_ms || tsdb_is_absent(v))
            continue;
        *ret = (struct tsdb_point){g->times->at[at], v};
        return true;
    }
    return false;
}

bool tsdb_group_span(const struct tsdb_group *g, uint32_t slot, bool want_first, int64_t *ret_first,
                     int64_t *ret_last)
{
    bool any = false;
    for (size_t i = 1; i <= g->held; i++) {
        size_t at = g->times->n - i;
        if (tsdb_is_absent(g->rows[at % TSDB_GROUP_ROWS][slot]))
            continue;
        if (!any)
            *ret_last = g->times->at[at];
        if (want_first)
            *ret_first = g->times->at[at];
        any = true;
        if (!want_first)
            break;
    }
    return any;
}
