// SPDX-License-Identifier: Apache-2.0
// The table of series: numbers, label sets, and lookup by label set.
#include "tsdb/tsdb_private.h"

#include "base/mem.h"

// Label names and values, each once, of the store: together, and for each series of the limit.
#define TEXT_AT_LEAST   ((size_t)16 << 20)
#define TEXT_PER_SERIES ((size_t)512)

static size_t hash_of(const struct tsdb_label_set *set, uint32_t metric)
{
    uint64_t mixed = (set->hash ^ (uint64_t)metric << 32) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(mixed >> 32);
}

static size_t find_place(const struct tsdb *db, const struct tsdb_label_set *set, uint32_t metric)
{
    size_t mask = db->by_hash_cap - 1, at = hash_of(set, metric) & mask;
    for (; db->by_hash[at]; at = (at + 1) & mask) {
        const struct tsdb_series *s = &db->series[db->by_hash[at] - 1];
        if (s->set == set && s->metric == metric)
            break;
    }
    return at;
}

static size_t home_of(const struct tsdb *db, uint32_t entry)
{
    const struct tsdb_series *s = &db->series[entry - 1];
    return hash_of(s->set, s->metric) & (db->by_hash_cap - 1);
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
        size_t at = home_of(db, old[i]);
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
        size_t home = home_of(db, db->by_hash[at]);
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
        db->first_free = db->series[ref].samples.slot;
        return ref;
    }
    if (db->n_series ==
        db->series_cap) { // by an eighth: doubling would waste a tenth of the memory
        db->series_cap += db->series_cap / 8 + 64;
        db->series = gs_realloc_array(db->series, db->series_cap, sizeof(*db->series));
    }
    return (tsdb_ref)db->n_series++;
}

// Returns the set of the labels without the metric name, and the symbol of that. Each has a
// reference for the caller.
static struct tsdb_label_set *intern_labels(struct tsdb *db, const struct metrics_labels *labels,
                                            uint32_t *ret_metric)
{
    struct tsdb_pair pairs[TSDB_MAX_LABELS];
    size_t n = 0;
    *ret_metric = TSDB_SYMBOL_EMPTY;
    for (size_t i = 0; i < metrics_labels_len(labels); i++) {
        const struct metrics_label *l = metrics_labels_at(labels, i);
        uint32_t value = tsdb_symbol_intern(db->symbols, l->value);
        if (gs_slice_eq_str(l->name, "__name__"))
            *ret_metric = value;
        else
            pairs[n++] = (struct tsdb_pair){tsdb_symbol_intern(db->symbols, l->name), value};
    }
    return tsdb_label_set_take(db, pairs, n);
}

static void unref_labels(struct tsdb *db, struct tsdb_label_set *set, uint32_t metric)
{
    tsdb_label_set_unref(db, set);
    tsdb_symbol_unref(db->symbols, metric);
}

// Takes the references to the set and the symbol.
static tsdb_ref add_series(struct tsdb *db, struct tsdb_label_set *set, uint32_t metric)
{
    tsdb_ref ref = take_number(db);
    db->series[ref] = (struct tsdb_series){.set = set, .metric = metric};
    db->n_live++;
    db->generation++;
    if ((db->n_live + 1) * 4 > db->by_hash_cap * 3)
        grow_table(db);
    db->by_hash[find_place(db, set, metric)] = ref + 1;
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

static struct gs_error *check_series(const struct metrics_label *labels, size_t n)
{
    size_t bytes = 0;
    if (n > TSDB_MAX_LABELS)
        return gs_error_new(GS_EINVAL, "more than %d labels", TSDB_MAX_LABELS);
    for (size_t i = 0; i < n; i++)
        bytes += labels[i].name.len + labels[i].value.len;
    if (bytes > TSDB_MAX_LABEL_BYTES)
        return gs_error_new(GS_EINVAL, "labels of more than %zu bytes", TSDB_MAX_LABEL_BYTES);
    return NULL;
}

struct gs_error *tsdb_series_intern(struct tsdb *db, const struct metrics_label *labels, size_t n,
                                    bool always, tsdb_ref *ret)
{
    struct gs_error *err = check_series(labels, n);
    if (err) {
        db->refused++;
        return err;
    }
    struct metrics_labels *sorted = metrics_labels_new(labels, n);
    uint32_t metric;
    struct tsdb_label_set *set = intern_labels(db, sorted, &metric);
    metrics_labels_free(sorted);
    if (!db->by_hash_cap)
        grow_table(db);
    size_t at = find_place(db, set, metric);
    if (db->by_hash[at]) {
        *ret = db->by_hash[at] - 1;
        unref_labels(db, set, metric);
        return NULL;
    }
    err = always ? NULL : check_limits(db);
    if (err) {
        db->refused++;
        unref_labels(db, set, metric);
        return err;
    }
    *ret = add_series(db, set, metric);
    return NULL;
}

bool tsdb_series_find(const struct tsdb *db, struct tsdb_labels labels, tsdb_ref *ret)
{
    const struct tsdb_label_set *set = tsdb_label_set_find(db, labels.pairs, labels.n);
    size_t at = set && db->by_hash_cap ? find_place(db, set, labels.metric) : 0;
    if (!set || !db->by_hash_cap || !db->by_hash[at])
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
    clear_place(db, find_place(db, s->set, s->metric));
    tsdb_chunks_clear(&s->samples, &db->heap);
    if (s->group)
        tsdb_group_slot_free(s->group, s->samples.slot);
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
    unref_labels(db, s->set, s->metric);
    *s = (struct tsdb_series){.samples.slot = db->first_free};
    db->first_free = ref;
    if (db->wal)
        tsdb_wal_series_gone(db->wal, ref);
}

void tsdb_series_table_finish(struct tsdb *db)
{
    for (size_t i = 0; i < db->n_series; i++)
        tsdb_chunks_clear(&db->series[i].samples, &db->heap);
    tsdb_label_sets_finish(&db->label_sets);
    free(db->series);
    free(db->by_hash);
    free(db->changed);
    free(db->births.items);
    free(db->deaths.items);
}

struct tsdb_labels tsdb_series_labels(const struct tsdb *db, tsdb_ref ref)
{
    const struct tsdb_series *s = &db->series[ref];
    if (!s->set)
        return (struct tsdb_labels){0};
    bool named = s->metric != TSDB_SYMBOL_EMPTY;
    return (struct tsdb_labels){.pairs = s->set->pairs,
                                .metric = s->metric,
                                .n = s->set->n,
                                .before = named ? s->set->before : 0};
}

struct gs_slice tsdb_series_label(const struct tsdb *db, tsdb_ref ref, const char *name)
{
    uint32_t symbol = tsdb_symbol_find(db->symbols, gs_slice_of(name));
    if (symbol == TSDB_NO_SYMBOL)
        return GS_SLICE("");
    return tsdb_symbol_text(db->symbols, tsdb_labels_get(tsdb_series_labels(db, ref), symbol));
}
