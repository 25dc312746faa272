// SPDX-License-Identifier: Apache-2.0
// The table of series: numbers, label sets, and lookup by label set.
#include "tsdb/tsdb_private.h"

#include "base/hmap.h"
#include "base/mem.h"

#define MAX_LABELS ((size_t)256)
// Label names and values, each once, of the store: together, and for each series of the limit.
#define TEXT_AT_LEAST   ((size_t)16 << 20)
#define TEXT_PER_SERIES ((size_t)512)

static uint32_t hash_pairs(const struct tsdb_pair *pairs, size_t n)
{
    return (uint32_t)gs_hash(pairs, n * sizeof(*pairs));
}

static size_t find_place(const struct tsdb *db, const struct tsdb_pair *pairs, size_t n,
                         uint32_t hash)
{
    size_t mask = db->by_hash_cap - 1, at = hash & mask;
    for (; db->by_hash[at]; at = (at + 1) & mask) {
        const struct tsdb_series *s = &db->series[db->by_hash[at] - 1];
        if (s->hash == hash && s->n_pairs == n && memcmp(s->pairs, pairs, n * sizeof(*pairs)) == 0)
            break;
    }
    return at;
}

static void grow_table(struct tsdb *db)
{
    size_t old_cap = db->by_hash_cap, cap = old_cap ? old_cap * 2 : 1024;
    uint32_t *old = db->by_hash;
    db->by_hash = gs_alloc_array(cap, sizeof(*db->by_hash));
    db->by_hash_cap = cap;
    for (size_t i = 0; i < old_cap; i++) {
        if (!old[i])
            continue;
        size_t at = db->series[old[i] - 1].hash & (cap - 1);
        while (db->by_hash[at])
            at = (at + 1) & (cap - 1);
        db->by_hash[at] = old[i];
    }
    free(old);
}

static void clear_place(struct tsdb *db, size_t hole)
{
    size_t mask = db->by_hash_cap - 1;
    db->by_hash[hole] = 0;
    for (size_t at = (hole + 1) & mask; db->by_hash[at]; at = (at + 1) & mask) {
        size_t home = db->series[db->by_hash[at] - 1].hash & mask;
        if (((at - home) & mask) < ((at - hole) & mask))
            continue;
        db->by_hash[hole] = db->by_hash[at];
        db->by_hash[at] = 0;
        hole = at;
    }
}

static tsdb_ref take_number(struct tsdb *db)
{
    tsdb_ref ref = db->first_free;
    if (ref != TSDB_NO_REF) {
        db->first_free = db->series[ref].slot;
        return ref;
    }
    if (db->n_series ==
        db->series_cap) { // by an eighth: doubling would waste a tenth of the memory
        db->series_cap += db->series_cap / 8 + 64;
        db->series = gs_realloc_array(db->series, db->series_cap, sizeof(*db->series));
    }
    return (tsdb_ref)db->n_series++;
}

// Interns the pairs, sorted by the text of the names. Each pair holds a reference to its symbols.
static size_t intern_pairs(struct tsdb *db, const struct metrics_labels *set, struct tsdb_pair *ret)
{
    size_t n = metrics_labels_len(set);
    for (size_t i = 0; i < n; i++) {
        const struct metrics_label *l = metrics_labels_at(set, i);
        ret[i] = (struct tsdb_pair){tsdb_symbol_intern(db->symbols, l->name),
                                    tsdb_symbol_intern(db->symbols, l->value)};
    }
    return n;
}

static void unref_pairs(struct tsdb *db, const struct tsdb_pair *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        tsdb_symbol_unref(db->symbols, pairs[i].name);
        tsdb_symbol_unref(db->symbols, pairs[i].value);
    }
}

static tsdb_ref add_series(struct tsdb *db, const struct tsdb_pair *pairs, size_t n, uint32_t hash)
{
    tsdb_ref ref = take_number(db);
    struct tsdb_pair *copy = gs_alloc_array(n ? n : 1, sizeof(*copy));
    if (n)
        memcpy(copy, pairs, n * sizeof(*copy));
    db->series[ref] = (struct tsdb_series){.pairs = copy, .n_pairs = (uint32_t)n, .hash = hash};
    db->bytes_labels += n * sizeof(*copy);
    db->n_live++;
    db->generation++;
    if ((db->n_live + 1) * 4 > db->by_hash_cap * 3)
        grow_table(db);
    db->by_hash[find_place(db, pairs, n, hash)] = ref + 1;
    tsdb_index_add(db, ref);
    tsdb_changes_record(db, ref);
    tsdb_isolation_series_added(db, ref);
    return ref;
}

// The labels of the next series have been interned.
static struct gs_error *check_limits(const struct tsdb *db)
{
    size_t max_text = SIZE_MAX;
    if (db->n_live >= db->cfg.max_series)
        return gs_error_new(GS_ELIMIT, "the store holds its limit of %zu series",
                            db->cfg.max_series);
    if (db->cfg.max_series < SIZE_MAX / TEXT_PER_SERIES)
        max_text = db->cfg.max_series * TEXT_PER_SERIES;
    if (max_text < TEXT_AT_LEAST)
        max_text = TEXT_AT_LEAST;
    if (tsdb_symbols_text_bytes(db->symbols) > max_text)
        return gs_error_new(GS_ELIMIT,
                            "the label names and values of the store exceed their limit of %zu MiB",
                            max_text >> 20);
    return NULL;
}

struct gs_error *tsdb_series_intern(struct tsdb *db, const struct metrics_label *labels, size_t n,
                                    bool always, tsdb_ref *ret)
{
    if (n > MAX_LABELS)
        return gs_error_new(GS_ELIMIT, "more than %zu labels", MAX_LABELS);
    struct metrics_labels *set = metrics_labels_new(labels, n);
    struct tsdb_pair pairs[MAX_LABELS];
    n = intern_pairs(db, set, pairs);
    metrics_labels_free(set);
    uint32_t hash = hash_pairs(pairs, n);
    if (!db->by_hash_cap)
        grow_table(db);
    size_t at = find_place(db, pairs, n, hash);
    if (db->by_hash[at]) {
        *ret = db->by_hash[at] - 1;
        unref_pairs(db, pairs, n);
        return NULL;
    }
    struct gs_error *err = always ? NULL : check_limits(db);
    if (err) {
        db->refused++;
        unref_pairs(db, pairs, n);
        return err;
    }
    *ret = add_series(db, pairs, n, hash);
    return NULL;
}

bool tsdb_series_find(const struct tsdb *db, const struct tsdb_pair *pairs, size_t n, tsdb_ref *ret)
{
    size_t at = db->by_hash_cap ? find_place(db, pairs, n, hash_pairs(pairs, n)) : 0;
    if (!db->by_hash_cap || !db->by_hash[at])
        return false;
    *ret = db->by_hash[at] - 1;
    return true;
}

struct gs_error *tsdb_series_get(struct tsdb *db, const struct metrics_label *labels, size_t n,
                                 tsdb_ref *ret)
{
    return tsdb_series_intern(db, labels, n, false, ret);
}

static void drop_series(struct tsdb *db, tsdb_ref ref)
{
    struct tsdb_series *s = &db->series[ref];
    clear_place(db, find_place(db, s->pairs, s->n_pairs, s->hash));
    tsdb_chunks_clear(&s->samples, &db->heap);
    if (s->group)
        tsdb_group_slot_free(s->group, s->slot);
    s->group = NULL;
    db->n_live--;
    db->generation++;
    tsdb_changes_record(db, ref);
    tsdb_isolation_series_dropped(db, ref);
}

void tsdb_series_drop_all(struct tsdb *db, const tsdb_ref *refs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        db->series[refs[i]].shared_by = TSDB_SERIES_DEAD;
    tsdb_index_remove_all(db, refs, n);
    for (size_t i = n; i > 0; i--) // lowest number last, so that it is reused first
        drop_series(db, refs[i - 1]);
}

void tsdb_series_free(struct tsdb *db, tsdb_ref ref)
{
    struct tsdb_series *s = &db->series[ref];
    unref_pairs(db, s->pairs, s->n_pairs);
    db->bytes_labels -= s->n_pairs * sizeof(*s->pairs);
    free(s->pairs);
    *s = (struct tsdb_series){.slot = db->first_free};
    db->first_free = ref;
    if (db->wal)
        tsdb_wal_series_gone(db->wal, ref);
}

void tsdb_series_table_finish(struct tsdb *db)
{
    for (size_t i = 0; i < db->n_series; i++) {
        free(db->series[i].pairs);
        tsdb_chunks_clear(&db->series[i].samples, &db->heap);
    }
    free(db->series);
    free(db->by_hash);
    free(db->changed);
    free(db->births.items);
    free(db->deaths.items);
}

struct tsdb_labels tsdb_series_labels(const struct tsdb *db, tsdb_ref ref)
{
    return (struct tsdb_labels){db->series[ref].pairs, db->series[ref].n_pairs};
}

struct gs_slice tsdb_series_label(const struct tsdb *db, tsdb_ref ref, const char *name)
{
    uint32_t symbol = tsdb_symbol_find(db->symbols, gs_slice_of(name));
    if (symbol == TSDB_NO_SYMBOL)
        return GS_SLICE("");
    return tsdb_symbol_text(db->symbols, tsdb_labels_get(tsdb_series_labels(db, ref), symbol));
}
