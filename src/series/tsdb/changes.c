// SPDX-License-Identifier: Apache-2.0
// The newest births and deaths of series, and returns of series that ended, for readers that keep
// lists of series up to date.
#include "tsdb/tsdb_private.h"

#include "base/mem.h"

// A reader that has missed more changes than this searches again, which takes no longer than
// reading so many changes.
#define KEPT ((size_t)32768) // a power of two

void tsdb_changes_record(struct tsdb *db, tsdb_ref ref)
{
    if (db->changed)
        db->changed[db->n_changes++ & (KEPT - 1)] = ref;
}

void tsdb_changes_returned(struct tsdb *db, tsdb_ref ref)
{
    if (!db->series[ref].set_aside)
        return;
    db->series[ref].set_aside = false;
    tsdb_changes_record(db, ref);
}

void tsdb_changes_forget(struct tsdb *db)
{
    if (db->changed)
        db->n_changes += KEPT + 1;
}

uint64_t tsdb_changes_end(struct tsdb *db)
{
    gs_thread_owner_assert(&db->owner);
    if (!db->changed)
        db->changed = gs_alloc_array(KEPT, sizeof(*db->changed));
    return db->n_changes;
}

bool tsdb_changes_kept(const struct tsdb *db, uint64_t from)
{
    return db->changed && from <= db->n_changes && db->n_changes - from <= KEPT;
}

tsdb_ref tsdb_change_at(const struct tsdb *db, uint64_t place)
{
    gs_assert_debug(place < db->n_changes && db->n_changes - place <= KEPT);
    return db->changed[place & (KEPT - 1)];
}

void tsdb_changes_read(struct tsdb *db, uint64_t from, struct tsdb_refs *ret)
{
    size_t n = (size_t)(tsdb_changes_end(db) - from), kept = 0;
    tsdb_ref *refs = gs_alloc_array(n + 1, sizeof(*refs));
    for (size_t i = 0; i < n; i++)
        refs[i] = tsdb_change_at(db, from + i);
    tsdb_refs_sort(refs, n);
    for (size_t i = 0; i < n; i++)
        if (!i || refs[i] != refs[i - 1])
            refs[kept++] = refs[i];
    *ret = (struct tsdb_refs){refs, kept, n + 1};
}

uint64_t tsdb_names_gone(const struct tsdb *db)
{
    return db->names_gone;
}
