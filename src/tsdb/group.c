// SPDX-License-Identifier: Apache-2.0
// Series that are appended together, a pass at a time.
#include "tsdb/store.h"

#include "base/mem.h"

struct tsdb_group {
    struct tsdb *db;
    tsdb_ref *refs; // by slot; TSDB_NO_REF: the series went to another group or away
    double *values; // of the pass under way; the stale marker: none
    bool *had;      // in the last committed pass
    size_t n, refs_cap, values_cap, had_cap;
    int64_t t_ms, last_ms;
    uint64_t map_version;
    uint32_t wal_number;
};

struct tsdb_group *tsdb_group_new(struct tsdb *db)
{
    struct tsdb_group *g = gs_alloc(sizeof(*g));
    g->db = db;
    g->last_ms = INT64_MIN;
    if (db->wal)
        g->wal_number = wal_group_new(db->wal);
    return g;
}

void tsdb_group_free(struct tsdb_group *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->n; i++)
        if (g->refs[i] != TSDB_NO_REF)
            g->db->series[g->refs[i]].group = NULL;
    free(g->refs);
    free(g->values);
    free(g->had);
    free(g);
}

static void leave(struct tsdb_group *g, tsdb_ref ref)
{
    uint32_t slot = g->db->series[ref].slot;
    g->refs[slot] = TSDB_NO_REF;
    g->had[slot] = false;
    g->map_version++;
}

struct gs_error *tsdb_group_slot(struct tsdb_group *g, const struct metrics_label *labels, size_t n,
                                 uint32_t *ret_slot)
{
    tsdb_ref ref;
    struct gs_error *err = tsdb_series_get(g->db, labels, n, &ref);
    if (err)
        return err;
    struct series *s = &g->db->series[ref];
    if (s->group == g) {
        *ret_slot = s->slot;
        return NULL;
    }
    if (s->group)
        leave(s->group, ref);
    gs_grow(&g->refs, &g->refs_cap, g->n, sizeof(*g->refs));
    gs_grow(&g->values, &g->values_cap, g->n, sizeof(*g->values));
    gs_grow(&g->had, &g->had_cap, g->n, sizeof(*g->had));
    g->refs[g->n] = ref;
    g->values[g->n] = tsdb_stale_marker();
    g->had[g->n] = false;
    s->group = g;
    s->slot = (uint32_t)g->n;
    g->map_version++;
    *ret_slot = (uint32_t)g->n++;
    return NULL;
}

struct gs_error *tsdb_group_begin(struct tsdb_group *g, int64_t t_ms)
{
    if (t_ms <= g->last_ms)
        return gs_error_new(GS_ECONFLICT, "the pass is not newer than the last one");
    g->t_ms = t_ms;
    for (size_t i = 0; i < g->n; i++)
        g->values[i] = tsdb_stale_marker();
    return NULL;
}

bool tsdb_group_put(struct tsdb_group *g, uint32_t slot, double value)
{
    if (!tsdb_is_stale(g->values[slot])) {
        g->db->duplicates++;
        return false;
    }
    g->values[slot] = value;
    return true;
}

void tsdb_group_rollback(struct tsdb_group *g)
{
    for (size_t i = 0; i < g->n; i++)
        g->values[i] = tsdb_stale_marker();
}

void tsdb_group_commit(struct tsdb_group *g, size_t *ret_added, size_t *ret_new)
{
    struct tsdb *db = g->db;
    size_t added = 0, fresh = 0;
    if (db->wal)
        wal_pass(db->wal, db, g->wal_number, g->map_version, g->refs, g->values, 1, g->n, g->t_ms);
    for (size_t i = 0; i < g->n; i++) {
        bool has = !tsdb_is_stale(g->values[i]);
        if (g->refs[i] == TSDB_NO_REF || (!has && !g->had[i]))
            continue;
        g->had[i] = has;
        struct series *s = &db->series[g->refs[i]];
        if (!stream_empty(&s->samples) && s->samples.last_ms >= g->t_ms) {
            db->out_of_order++;
            continue;
        }
        fresh += stream_empty(&s->samples);
        added += has;
        series_push(db, s, g->t_ms, g->values[i]);
    }
    g->last_ms = g->t_ms;
    *ret_added = added;
    *ret_new = fresh;
}

uint64_t tsdb_group_epoch(const struct tsdb_group *g)
{
    (void)g; // slots are never given to another series
    return 0;
}
