// SPDX-License-Identifier: Apache-2.0
// Appending to single series, and reading of samples.
#include "tsdb/tsdb_private.h"

#include "base/mem.h"
#include "tsdb/chunk.h"

double tsdb_stale_marker(void)
{
    return tsdb_decimal_of_bits(TSDB_STALE_BITS);
}

int tsdb_is_stale(double v)
{
    return tsdb_decimal_bits(v) == TSDB_STALE_BITS;
}

static bool series_at(const struct tsdb_series *s, int64_t t_ms, struct tsdb_point *ret)
{
    return (s->group && tsdb_group_at(s->group, s->samples.slot, t_ms, ret)) ||
           tsdb_chunks_find(&s->samples, t_ms, ret);
}

bool tsdb_series_span(const struct tsdb_series *s, int64_t *ret_first, int64_t *ret_last)
{
    bool any = !tsdb_chunks_empty(&s->samples);
    if (any) {
        *ret_first = tsdb_chunks_first_ms(&s->samples);
        *ret_last = tsdb_chunks_last_ms(&s->samples);
    }
    return (s->group && tsdb_group_span(s->group, s->samples.slot, !any, ret_first, ret_last)) ||
           any;
}

bool tsdb_series_set_aside(struct tsdb *db, tsdb_ref ref, int64_t until_ms, int64_t *ret_ms)
{
    gs_thread_owner_assert(&db->owner);
    struct tsdb_series *s = &db->series[ref];
    struct tsdb_point p;
    if ((s->group && tsdb_group_slot_live(s->group, s->samples.slot)) ||
        !series_at(s, INT64_MAX, &p) || !tsdb_is_stale(p.value) || p.t_ms > until_ms)
        return false;
    s->set_aside = true;
    *ret_ms = p.t_ms;
    return true;
}

void tsdb_series_expire(struct tsdb *db, struct tsdb_series *s, int64_t oldest_ms)
{
    uint64_t dropped = 0;
    tsdb_chunks_drop(&s->samples, oldest_ms, &dropped, &db->heap);
    db->samples_held -= dropped;
}

struct gs_error *tsdb_series_append(struct tsdb *db, struct tsdb_series *s, int64_t t_ms,
                                    double value, bool *ret)
{
    bool empty = tsdb_chunks_empty(&s->samples);
    int64_t last_ms = empty ? INT64_MIN : tsdb_chunks_last_ms(&s->samples);
    double last = empty ? tsdb_stale_marker() : s->samples.open->last_value;
    *ret = false;
    if (tsdb_is_stale(value) && tsdb_is_stale(last))
        return NULL;
    if (last_ms > t_ms) {
        db->out_of_order++;
        return gs_error_new(GS_ECONFLICT, "out of order sample");
    }
    if (!empty && last_ms == t_ms) {
        if (tsdb_decimal_bits(last) == tsdb_decimal_bits(value))
            return NULL;
        db->duplicates++;
        return gs_error_new(GS_EEXIST, "duplicate sample for timestamp");
    }
    tsdb_chunks_append(&s->samples, t_ms, value, &db->heap);
    tsdb_series_expire(db, s, t_ms - db->cfg.retention_ms);
    db->generation += empty; // the series becomes visible to queries
    tsdb_changes_returned(db, (tsdb_ref)(s - db->series));
    db->samples_held++;
    db->appended++;
    if (t_ms > db->newest_ms)
        db->newest_ms = t_ms;
    *ret = true;
    return NULL;
}

struct gs_error *tsdb_append_ref(struct tsdb *db, tsdb_ref ref, int64_t t_ms, double value)
{
    gs_thread_owner_assert(&db->owner);
    gs_assert_debug(ref < db->n_series && db->series[ref].set);
    struct tsdb_series *s = &db->series[ref];
    bool appended;
    if (s->shared_by == TSDB_SERIES_DEAD)
        return gs_error_new(GS_ENOTFOUND, "the series was dropped");
    if (s->group)
        tsdb_group_detach(s->group, s->samples.slot);
    struct gs_error *err = tsdb_series_append(db, s, t_ms, value, &appended);
    if (appended && db->wal)
        tsdb_wal_sample(db->wal, db, ref, t_ms, value);
    return err;
}

struct gs_error *tsdb_append(struct tsdb *db, const struct metrics_label *labels, size_t n,
                             int64_t t_ms, double value)
{
    tsdb_ref ref;
    struct gs_error *err = tsdb_series_get(db, labels, n, &ref);
    return err ? err : tsdb_append_ref(db, ref, t_ms, value);
}

// --- reading ---

// The value of the group's last row if its time is not after t_ms.
static bool last_pass(const struct tsdb_series *s, int64_t t_ms, struct tsdb_point *ret)
{
    const double *row = s->group ? tsdb_group_last_row(s->group) : NULL;
    if (!row || s->group->last_ms > t_ms || tsdb_is_absent(row[s->samples.slot]))
        return false;
    *ret = (struct tsdb_point){s->group->last_ms, row[s->samples.slot]};
    return true;
}

void tsdb_latest(const struct tsdb *db, const tsdb_ref *refs, size_t n, int64_t t_ms,
                 int64_t oldest, double *ret_v, int64_t *ret_t)
{
    for (size_t i = 0; i < n; i++) {
        const struct tsdb_series *s = &db->series[refs[i]];
        struct tsdb_point p;
        if ((!last_pass(s, t_ms, &p) && !series_at(s, t_ms, &p)) || p.t_ms <= oldest)
            p = (struct tsdb_point){0, tsdb_stale_marker()};
        ret_v[i] = p.value;
        if (ret_t)
            ret_t[i] = p.t_ms;
    }
}

void tsdb_each_latest(const struct tsdb *db, const struct tsdb_matcher *m, size_t n_m, int64_t t_ms,
                      int64_t oldest, bool (*fn)(void *arg, tsdb_ref ref, struct tsdb_point p),
                      void *arg)
{
    struct tsdb_refs refs = {0};
    gs_error_free(tsdb_find(db, m, n_m, oldest, t_ms, 0, &refs)); // cannot fail without a limit
    bool more = true;
    for (size_t i = 0; more && i < refs.len; i++) {
        struct tsdb_point p;
        tsdb_latest(db, &refs.items[i], 1, t_ms, oldest, &p.value, &p.t_ms);
        if (!tsdb_is_stale(p.value))
            more = fn(arg, refs.items[i], p);
    }
    tsdb_refs_finish(&refs);
}

void tsdb_samples_finish(struct tsdb_samples *s)
{
    free(s->t);
    free(s->v);
    *s = (struct tsdb_samples){0};
}

void tsdb_read(const struct tsdb *db, tsdb_ref ref, int64_t mint, int64_t maxt,
               struct tsdb_samples *ret)
{
    const struct tsdb_series *s = &db->series[ref];
    ret->n = 0;
    tsdb_chunks_read(&s->samples, mint, maxt, ret);
    if (s->group)
        tsdb_group_read(s->group, s->samples.slot, mint, maxt, ret);
}

// Always inlined: GCC removes calls of functions that only prefetch, because they have no effect.
#define FETCH __attribute__((always_inline)) static inline void

enum { LINE = 64 }; // bytes

FETCH tsdb_fetch_bytes(const uint8_t *data, size_t len)
{
    for (size_t i = 0; i < len; i += LINE)
        __builtin_prefetch(data + i);
}

FETCH tsdb_fetch_rows(const struct tsdb_group *g, uint32_t slot)
{
    for (size_t i = 0; g->held && i < TSDB_GROUP_ROWS; i++)
        __builtin_prefetch(&g->rows[i][slot]);
}

FETCH tsdb_fetch_lists(const struct tsdb_series *s)
{
    __builtin_prefetch(s->samples.open);
    __builtin_prefetch(s->group);
    if (s->samples.n_sealed)
        __builtin_prefetch(&s->samples.sealed[s->samples.n_sealed - 1]);
}

FETCH tsdb_fetch_samples(const struct tsdb_series *s, int64_t mint)
{
    const struct tsdb_head_chunk *open = s->samples.open;
    if (s->group && s->samples.slot % 4 == 0) // the next series are mostly the next slots
        tsdb_fetch_rows(s->group, s->samples.slot);
    if (!open)
        return;
    tsdb_fetch_bytes(open->data, open->len);
    if (s->samples.n_sealed && !open->times->packed && open->times->at[open->first] > mint) {
        const struct tsdb_chunk *before = &s->samples.sealed[s->samples.n_sealed - 1];
        tsdb_fetch_bytes(before->data, before->len);
    }
}

// Reading a series needs three dependent memory accesses. Each is prefetched some series ahead.
void tsdb_read_ahead(const struct tsdb *db, const tsdb_ref *refs, size_t i, size_t n, int64_t mint)
{
    enum { SERIES = 14, LISTS = 9, SAMPLES = 4 };
    if (i + SERIES < n) {
        __builtin_prefetch(&db->series[refs[i + SERIES]]);
        __builtin_prefetch(&db->series[refs[i + SERIES]].samples.n_sealed);
    }
    if (i + LISTS < n)
        tsdb_fetch_lists(&db->series[refs[i + LISTS]]);
    if (i + SAMPLES < n)
        tsdb_fetch_samples(&db->series[refs[i + SAMPLES]], mint);
}
