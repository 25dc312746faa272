// SPDX-License-Identifier: Apache-2.0
// Series hang in hash chains by their label set, and in one list for each metric name, which is
// what nearly every selection starts from. A series keeps its samples in a ring that grows to what
// the retention window holds.
#include "tsdb/ring.h"

#include "base/hmap.h"
#include "base/mem.h"

#define DEFAULT_RETENTION_MS INT64_C(600000)
#define DEFAULT_MAX_SERIES   ((size_t)100000)
#define FIRST_POINTS         ((size_t)16)
#define MAX_POINTS           ((size_t)65536) // of one series, whatever the window

// Prometheus' staleness NaN: a quiet NaN with this payload.
#define STALE_BITS UINT64_C(0x7ff0000000000002)

struct ring_series {
    struct metrics_labels *labels;
    struct ring_series *next_same_hash;
    struct ring_series *next_same_name;
    struct ring_point *points; // ring: the oldest at `start`, `len` of `cap`
    size_t start, len, cap;
};

struct name_entry {
    struct ring_series *first;
};

struct ring {
    int64_t retention_ms;
    size_t max_series, n_series;
    struct gs_hmap *by_hash; // the 8 bytes of the label hash -> first series of the chain
    struct gs_hmap *by_name; // metric name -> struct name_entry
};

double ring_stale_marker(void)
{
    uint64_t bits = STALE_BITS;
    double v;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

int ring_is_stale(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof(bits));
    return bits == STALE_BITS;
}

struct ring *ring_new(const struct ring_config *cfg)
{
    struct ring *db = gs_alloc(sizeof(*db));
    db->retention_ms = cfg && cfg->retention_ms ? cfg->retention_ms : DEFAULT_RETENTION_MS;
    db->max_series = cfg && cfg->max_series ? cfg->max_series : DEFAULT_MAX_SERIES;
    db->by_hash = gs_hmap_new(NULL);
    db->by_name = gs_hmap_new(free);
    return db;
}

static void series_free(struct ring_series *s)
{
    metrics_labels_unref(s->labels);
    free(s->points);
    free(s);
}

void ring_free(struct ring *db)
{
    if (!db)
        return;
    size_t pos = 0;
    void *entry;
    while (gs_hmap_next(db->by_name, &pos, NULL, &entry)) {
        struct ring_series *s = ((struct name_entry *)entry)->first;
        while (s) {
            struct ring_series *next = s->next_same_name;
            series_free(s);
            s = next;
        }
    }
    gs_hmap_free(db->by_hash);
    gs_hmap_free(db->by_name);
    free(db);
}

size_t ring_series_count(const struct ring *db)
{
    return db->n_series;
}

static struct gs_slice hash_key(const uint64_t *hash)
{
    return gs_slice_make(hash, sizeof(*hash));
}

static struct ring_series *find_series(const struct ring *db, const struct metrics_labels *labels)
{
    uint64_t hash = metrics_labels_hash(labels);
    struct ring_series *s = gs_hmap_get(db->by_hash, hash_key(&hash));
    while (s && !metrics_labels_eq(s->labels, labels))
        s = s->next_same_hash;
    return s;
}

static struct ring_series *add_series(struct ring *db, struct metrics_labels *labels)
{
    struct ring_series *s = gs_alloc(sizeof(*s));
    s->labels = metrics_labels_ref(labels);
    uint64_t hash = metrics_labels_hash(labels);
    s->next_same_hash = gs_hmap_get(db->by_hash, hash_key(&hash));
    gs_hmap_put(db->by_hash, hash_key(&hash), s);
    struct gs_slice name = metrics_labels_get(labels, "__name__");
    struct name_entry *entry = gs_hmap_get(db->by_name, name);
    if (!entry) {
        entry = gs_alloc(sizeof(*entry));
        gs_hmap_put(db->by_name, name, entry);
    }
    s->next_same_name = entry->first;
    entry->first = s;
    db->n_series++;
    return s;
}

static struct ring_point *point_at(const struct ring_series *s, size_t i)
{
    return &s->points[(s->start + i) % s->cap];
}

static void drop_oldest(struct ring_series *s)
{
    s->start = (s->start + 1) % s->cap;
    s->len--;
}

static void push_point(struct ring_series *s, struct ring_point p, int64_t retention_ms)
{
    while (s->len && point_at(s, 0)->t_ms < p.t_ms - retention_ms)
        drop_oldest(s);
    if (s->len == s->cap && s->cap == MAX_POINTS)
        drop_oldest(s);
    if (s->len == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : FIRST_POINTS;
        struct ring_point *points = gs_alloc_array(cap, sizeof(*points));
        for (size_t i = 0; i < s->len; i++)
            points[i] = *point_at(s, i);
        free(s->points);
        s->points = points;
        s->start = 0;
        s->cap = cap;
    }
    s->len++;
    *point_at(s, s->len - 1) = p;
}

struct gs_error *ring_append_set(struct ring *db, struct metrics_labels *set, int64_t t_ms,
                                 double value)
{
    struct ring_series *s = find_series(db, set);
    if (!s && ring_is_stale(value)) // nothing that could end
        return NULL;
    if (!s && db->n_series >= db->max_series)
        return gs_error_new(GS_ELIMIT, "the store holds its limit of %zu series", db->max_series);
    if (!s)
        s = add_series(db, set);
    if (s->len && point_at(s, s->len - 1)->t_ms >= t_ms)
        return gs_error_new(GS_ECONFLICT,
                            "the sample is not newer than the last one of its series");
    push_point(s, (struct ring_point){t_ms, value}, db->retention_ms);
    return NULL;
}

struct gs_error *ring_append(struct ring *db, const struct metrics_label *labels, size_t n,
                             int64_t t_ms, double value)
{
    struct metrics_labels *set = metrics_labels_new(labels, n);
    struct gs_error *err = ring_append_set(db, set, t_ms, value);
    metrics_labels_unref(set);
    return err;
}

static bool matches(const struct metrics_labels *labels, const struct ring_matcher *m, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (gs_slice_eq_str(metrics_labels_get(labels, m[i].name), m[i].value) !=
            (m[i].op == RING_EQ))
            return false;
    return true;
}

// The newest point at or before t_ms; false when there is none within the look-back.
static bool newest_at(const struct ring_series *s, int64_t t_ms, int64_t lookback_ms,
                      struct ring_point *ret)
{
    size_t i = s->len;
    while (i && point_at(s, i - 1)->t_ms > t_ms)
        i--;
    if (!i)
        return false;
    struct ring_point p = *point_at(s, i - 1);
    if (p.t_ms <= t_ms - lookback_ms || ring_is_stale(p.value))
        return false;
    *ret = p;
    return true;
}

// Calls fn for what matches among the series of one name. False: stop.
static bool select_named(const struct name_entry *entry, const struct ring_matcher *m, size_t n_m,
                         int64_t t_ms, int64_t lookback_ms,
                         int (*fn)(void *arg, const struct metrics_labels *l, struct ring_point p),
                         void *arg)
{
    for (const struct ring_series *s = entry->first; s; s = s->next_same_name) {
        struct ring_point p;
        if (matches(s->labels, m, n_m) && newest_at(s, t_ms, lookback_ms, &p) &&
            !fn(arg, s->labels, p))
            return false;
    }
    return true;
}

void ring_select(const struct ring *db, const struct ring_matcher *m, size_t n_m, int64_t t_ms,
                 int64_t lookback_ms,
                 int (*fn)(void *arg, const struct metrics_labels *labels, struct ring_point p),
                 void *arg)
{
    for (size_t i = 0; i < n_m; i++) {
        if (m[i].op != RING_EQ || !gs_streq(m[i].name, "__name__"))
            continue;
        const struct name_entry *entry = gs_hmap_get_str(db->by_name, m[i].value);
        if (entry)
            select_named(entry, m, n_m, t_ms, lookback_ms, fn, arg);
        return;
    }
    size_t pos = 0;
    void *entry;
    while (gs_hmap_next(db->by_name, &pos, NULL, &entry))
        if (!select_named(entry, m, n_m, t_ms, lookback_ms, fn, arg))
            return;
}

static void unlink_from_hash(struct ring *db, struct ring_series *dead)
{
    uint64_t hash = metrics_labels_hash(dead->labels);
    struct ring_series *first = gs_hmap_get(db->by_hash, hash_key(&hash));
    if (first != dead) {
        while (first->next_same_hash != dead)
            first = first->next_same_hash;
        first->next_same_hash = dead->next_same_hash;
    } else if (dead->next_same_hash) {
        gs_hmap_put(db->by_hash, hash_key(&hash), dead->next_same_hash);
    } else {
        gs_hmap_remove(db->by_hash, hash_key(&hash));
    }
}

void ring_gc(struct ring *db, int64_t now_ms)
{
    size_t pos = 0;
    void *entry;
    while (gs_hmap_next(db->by_name, &pos, NULL, &entry)) {
        struct ring_series **link = &((struct name_entry *)entry)->first;
        while (*link) {
            struct ring_series *s = *link;
            if (s->len && point_at(s, s->len - 1)->t_ms >= now_ms - db->retention_ms) {
                link = &s->next_same_name;
                continue;
            }
            *link = s->next_same_name;
            unlink_from_hash(db, s);
            series_free(s);
            db->n_series--;
        }
    }
}
