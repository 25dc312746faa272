// SPDX-License-Identifier: Apache-2.0
// Isolation of readers that pause. A reader holds the series that exist when it starts: they are
// not removed, and later series are not visible to it. Creations and removals have serial numbers.
// A hold stores the number of the last one before it.
#include "tsdb/tsdb_private.h"

#include "base/mem.h"

void tsdb_isolation_begin(struct tsdb *db, struct tsdb_isolation *h)
{
    gs_thread_owner_assert(&db->owner);
    h->since = db->serial;
    TAILQ_INSERT_TAIL(&db->holds, h, all); // ascending by number
}

static void record_event(struct tsdb_isolation_events *e, tsdb_ref ref, uint64_t serial)
{
    gs_grow(&e->items, &e->cap, e->n, sizeof(*e->items));
    e->items[e->n++] = (struct tsdb_isolation_event){ref, serial};
}

static void drop_front(struct tsdb_isolation_events *e, size_t n)
{
    e->n -= n;
    if (n && e->n)
        memmove(e->items, e->items + n, e->n * sizeof(*e->items));
}

// The number of events that are older than all holds.
static size_t count_settled(const struct tsdb *db, const struct tsdb_isolation_events *e)
{
    const struct tsdb_isolation *oldest = TAILQ_FIRST(&db->holds);
    size_t n = oldest ? 0 : e->n;
    while (n < e->n && e->items[n].serial <= oldest->since)
        n++;
    return n;
}

void tsdb_isolation_end(struct tsdb *db, struct tsdb_isolation *h)
{
    gs_thread_owner_assert(&db->owner);
    TAILQ_REMOVE(&db->holds, h, all);
    size_t n = count_settled(db, &db->births);
    for (size_t i = 0; i < n; i++)
        db->series[db->births.items[i].ref].unsettled = false;
    drop_front(&db->births, n);
    n = count_settled(db, &db->deaths);
    for (size_t i = 0; i < n; i++)
        tsdb_series_free(db, db->deaths.items[i].ref);
    drop_front(&db->deaths, n);
}

void tsdb_isolation_series_added(struct tsdb *db, tsdb_ref ref)
{
    if (TAILQ_EMPTY(&db->holds))
        return;
    db->series[ref].unsettled = true;
    record_event(&db->births, ref, ++db->serial);
}

void tsdb_isolation_series_dropped(struct tsdb *db, tsdb_ref ref)
{
    if (TAILQ_EMPTY(&db->holds))
        tsdb_series_free(db, ref);
    else
        record_event(&db->deaths, ref, ++db->serial);
}

void tsdb_isolation_filter(const struct tsdb *db, const struct tsdb_isolation *h,
                           struct tsdb_refs *refs)
{
    const struct tsdb_isolation_events *e = &db->births;
    size_t from = e->n, kept = 0, at = 0;
    while (from && e->items[from - 1].serial > h->since)
        from--;
    size_t n = e->n - from;
    if (!n)
        return;
    GS_AUTO_FREE tsdb_ref *later = gs_alloc_array(n, sizeof(*later));
    for (size_t i = 0; i < n; i++)
        later[i] = e->items[from + i].ref;
    tsdb_refs_sort(later, n);
    for (size_t i = 0; i < refs->len; i++) { // both lists are ascending
        while (at < n && later[at] < refs->items[i])
            at++;
        if (at == n || later[at] != refs->items[i])
            refs->items[kept++] = refs->items[i];
    }
    refs->len = kept;
}
