// SPDX-License-Identifier: Apache-2.0
// Samples of single series: the rules of appending, and reading.
#include "tsdb/store.h"

#include "base/mem.h"

#define FIRST_POINTS 16

// Prometheus' staleness NaN: a quiet NaN with this payload.
#define STALE_BITS UINT64_C(0x7ff0000000000002)

static uint64_t bits_of(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof(bits));
    return bits;
}

double tsdb_stale_marker(void)
{
    uint64_t bits = STALE_BITS;
    double v;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

int tsdb_is_stale(double v)
{
    return bits_of(v) == STALE_BITS;
}

struct tsdb_point *series_point(const struct series *s, size_t i)
{
    size_t at = s->start + i;
    return &s->points[at < s->cap ? at : at - s->cap];
}

static void drop_oldest(struct series *s)
{
    s->start = s->start + 1 == s->cap ? 0 : s->start + 1;
    s->len--;
}

static void grow_points(struct tsdb *db, struct series *s)
{
    uint32_t cap = s->cap ? s->cap * 2 : FIRST_POINTS;
    struct tsdb_point *points = gs_alloc_array(cap, sizeof(*points));
    for (size_t i = 0; i < s->len; i++)
        points[i] = *series_point(s, i);
    free(s->points);
    db->bytes_points += (cap - s->cap) * sizeof(*points);
    s->points = points;
    s->start = 0;
    s->cap = cap;
}

void series_push(struct tsdb *db, struct series *s, int64_t t_ms, double value)
{
    while (s->len && series_point(s, 0)->t_ms < t_ms - db->cfg.retention_ms)
        drop_oldest(s);
    if (s->len == s->cap)
        grow_points(db, s);
    if (!s->len)
        db->generation++; // from here on it is found
    s->len++;
    *series_point(s, s->len - 1) = (struct tsdb_point){t_ms, value};
    if (t_ms > db->newest_ms)
        db->newest_ms = t_ms;
    db->appended++;
}

struct gs_error *tsdb_append_ref(struct tsdb *db, tsdb_ref ref, int64_t t_ms, double value)
{
    struct series *s = &db->series[ref];
    const struct tsdb_point *last = s->len ? series_point(s, s->len - 1) : NULL;
    if (tsdb_is_stale(value) && (!last || tsdb_is_stale(last->value)))
        return NULL;
    if (last && last->t_ms > t_ms) {
        db->out_of_order++;
        return gs_error_new(GS_ECONFLICT, "out of order sample");
    }
    if (last && last->t_ms == t_ms) {
        if (bits_of(last->value) == bits_of(value))
            return NULL;
        db->duplicates++;
        return gs_error_new(GS_EEXIST, "duplicate sample for timestamp");
    }
    series_push(db, s, t_ms, value);
    if (db->wal)
        wal_sample(db->wal, db, ref, t_ms, value);
    return NULL;
}

struct gs_error *tsdb_append(struct tsdb *db, const struct metrics_label *labels, size_t n,
                             int64_t t_ms, double value)
{
    tsdb_ref ref;
    struct gs_error *err = tsdb_series_get(db, labels, n, &ref);
    return err ? err : tsdb_append_ref(db, ref, t_ms, value);
}

// --- reading ---

// The number of points at or before t_ms.
static size_t count_until(const struct series *s, int64_t t_ms)
{
    size_t low = 0, high = s->len;
    if (high && series_point(s, high - 1)->t_ms <= t_ms)
        return high;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (series_point(s, mid)->t_ms <= t_ms)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

void tsdb_latest(const struct tsdb *db, const tsdb_ref *refs, size_t n, int64_t t_ms,
                 int64_t oldest, double *ret_v, int64_t *ret_t)
{
    for (size_t i = 0; i < n; i++) {
        const struct series *s = &db->series[refs[i]];
        size_t until = count_until(s, t_ms);
        struct tsdb_point p = {0, tsdb_stale_marker()};
        if (until && series_point(s, until - 1)->t_ms > oldest)
            p = *series_point(s, until - 1);
        ret_v[i] = p.value;
        if (ret_t)
            ret_t[i] = p.t_ms;
    }
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
    const struct series *s = &db->series[ref];
    size_t end = count_until(s, maxt), start = mint > INT64_MIN ? count_until(s, mint - 1) : 0;
    ret->n = end > start ? end - start : 0;
    if (ret->n > ret->cap) {
        ret->cap = ret->n * 2;
        ret->t = gs_realloc_array(ret->t, ret->cap, sizeof(*ret->t));
        ret->v = gs_realloc_array(ret->v, ret->cap, sizeof(*ret->v));
    }
    for (size_t i = 0; i < ret->n; i++) {
        const struct tsdb_point *p = series_point(s, start + i);
        ret->t[i] = p->t_ms;
        ret->v[i] = p->value;
    }
}
