// SPDX-License-Identifier: Apache-2.0
// Samples of single series: the rules of appending, and reading.
#include "tsdb/store.h"

#include "base/mem.h"

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

void series_push(struct tsdb *db, struct series *s, int64_t t_ms, double value)
{
    if (stream_empty(&s->samples))
        db->generation++; // from here on it is found
    uint64_t dropped = 0;
    db->bytes_samples += stream_append(&s->samples, t_ms, value);
    db->bytes_samples -= stream_drop(&s->samples, t_ms - db->cfg.retention_ms, &dropped);
    db->samples_held += 1 - dropped;
    if (t_ms > db->newest_ms)
        db->newest_ms = t_ms;
    db->appended++;
}

struct gs_error *tsdb_append_ref(struct tsdb *db, tsdb_ref ref, int64_t t_ms, double value)
{
    struct series *s = &db->series[ref];
    const struct stream *last = stream_empty(&s->samples) ? NULL : &s->samples;
    if (tsdb_is_stale(value) && (!last || tsdb_is_stale(last->last_value)))
        return NULL;
    if (last && last->last_ms > t_ms) {
        db->out_of_order++;
        return gs_error_new(GS_ECONFLICT, "out of order sample");
    }
    if (last && last->last_ms == t_ms) {
        if (bits_of(last->last_value) == bits_of(value))
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

void tsdb_latest(const struct tsdb *db, const tsdb_ref *refs, size_t n, int64_t t_ms,
                 int64_t oldest, double *ret_v, int64_t *ret_t)
{
    for (size_t i = 0; i < n; i++) {
        struct tsdb_point p;
        if (!stream_at(&db->series[refs[i]].samples, t_ms, &p) || p.t_ms <= oldest)
            p = (struct tsdb_point){0, tsdb_stale_marker()};
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
    stream_read(&db->series[ref].samples, mint, maxt, ret);
}
