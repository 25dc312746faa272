// SPDX-License-Identifier: Apache-2.0
// The index: for each label pair, an ascending list of series; for each label name, the set of its
// values.
#include "tsdb/tsdb_private.h"

#include "base/hmap.h"
#include "base/mem.h"

enum { FEW = 16 };

struct value_set { // the values of a label name that series use
    uint32_t *symbols;
    size_t len, cap;
};

static void postings_free(void *p)
{
    tsdb_postings_finish(p);
    free(p);
}

static void values_free(void *p)
{
    struct value_set *v = p;
    free(v->symbols);
    free(v);
}

static struct gs_slice key_of_pair(const struct tsdb_pair *p)
{
    return gs_slice_make(p, sizeof(*p));
}

static struct gs_slice key_of_symbol(const uint32_t *s)
{
    return gs_slice_make(s, sizeof(*s));
}

static void add_label_value(struct tsdb *db, const struct tsdb_pair *pair)
{
    struct value_set *v = gs_hmap_get(db->names, key_of_symbol(&pair->name));
    if (!v) {
        v = gs_alloc(sizeof(*v));
        gs_hmap_put(db->names, key_of_symbol(&pair->name), v);
    }
    gs_grow(&v->symbols, &v->cap, v->len, sizeof(*v->symbols));
    v->symbols[v->len++] = pair->value;
}

void tsdb_index_add(struct tsdb *db, tsdb_ref ref)
{
    struct tsdb_labels l = tsdb_series_labels(db, ref);
    for (size_t i = 0; i < tsdb_labels_len(l); i++) {
        const struct tsdb_pair pair = tsdb_labels_at(l, i);
        struct tsdb_postings *list = gs_hmap_get(db->postings, key_of_pair(&pair));
        if (!list) {
            list = gs_alloc(sizeof(*list));
            gs_hmap_put(db->postings, key_of_pair(&pair), list);
            add_label_value(db, &pair);
        }
        tsdb_postings_add(list, ref);
    }
}

// --- removal ---

struct touched { // by the removal of several series
    struct tsdb_pair *pairs;
    size_t n, cap;
};

static void note_leaving(struct tsdb *db, tsdb_ref ref, struct touched *t)
{
    struct tsdb_labels l = tsdb_series_labels(db, ref);
    for (size_t i = 0; i < tsdb_labels_len(l); i++) {
        const struct tsdb_pair pair = tsdb_labels_at(l, i);
        struct tsdb_postings *list = gs_hmap_get(db->postings, key_of_pair(&pair));
        if (list->going++)
            continue;
        gs_grow(&t->pairs, &t->cap, t->n, sizeof(*t->pairs));
        t->pairs[t->n++] = pair;
    }
}

// Removes the series from the list of the pair. Returns true if the list is empty.
static bool shorten(struct tsdb *db, const tsdb_ref *refs, size_t n, const struct tsdb_pair *pair)
{
    struct tsdb_postings *list = gs_hmap_get(db->postings, key_of_pair(pair));
    if (list->going == list->len) {
        postings_free(gs_hmap_remove(db->postings, key_of_pair(pair)));
        return true;
    }
    list->going = 0;
    tsdb_postings_remove(list, refs, n);
    return false;
}

static void drop_few_values(struct value_set *v, const struct tsdb_pair *removed, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t at = 0;
        while (v->symbols[at] != removed[i].value)
            at++;
        v->symbols[at] = v->symbols[--v->len];
    }
}

static void drop_many_values(struct value_set *v, const struct tsdb_pair *removed, size_t n)
{
    uint32_t last = removed[n - 1].value; // the highest symbol
    GS_AUTO_FREE unsigned char *bits = gs_alloc(last / 8 + 1);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        bits[removed[i].value / 8] |= (unsigned char)(1u << removed[i].value % 8);
    for (size_t i = 0; i < v->len; i++) {
        uint32_t value = v->symbols[i];
        if (value > last || !(bits[value / 8] >> value % 8 & 1))
            v->symbols[kept++] = value;
    }
    v->len = kept;
}

static int compare_pairs(const void *a, const void *b)
{
    const struct tsdb_pair *x = a, *y = b;
    if (x->name != y->name)
        return x->name > y->name ? 1 : -1;
    return (x->value > y->value) - (x->value < y->value);
}

// Sorts `removed`.
static void drop_values(struct tsdb *db, struct touched *removed)
{
    if (removed->n)
        qsort(removed->pairs, removed->n, sizeof(*removed->pairs), compare_pairs);
    for (size_t i = 0, n; i < removed->n; i += n) {
        uint32_t name = removed->pairs[i].name;
        struct value_set *v = gs_hmap_get(db->names, key_of_symbol(&name));
        for (n = 1; i + n < removed->n && removed->pairs[i + n].name == name;)
            n++;
        if (n == v->len) {
            values_free(gs_hmap_remove(db->names, key_of_symbol(&name)));
            db->names_gone++;
        } else if (n > FEW) {
            drop_many_values(v, &removed->pairs[i], n);
        } else {
            drop_few_values(v, &removed->pairs[i], n);
        }
    }
}

void tsdb_index_remove_all(struct tsdb *db, const tsdb_ref *refs, size_t n)
{
    struct touched t = {0};
    for (size_t i = 0; i < n; i++)
        note_leaving(db, refs[i], &t);
    size_t removed = 0;
    for (size_t i = 0; i < t.n; i++)
        if (shorten(db, refs, n, &t.pairs[i]))
            t.pairs[removed++] = t.pairs[i];
    t.n = removed;
    drop_values(db, &t);
    free(t.pairs);
}

void tsdb_index_init(struct tsdb *db)
{
    db->postings = gs_hmap_new(postings_free);
    db->names = gs_hmap_new(values_free);
}

void tsdb_index_finish(struct tsdb *db)
{
    gs_hmap_free(db->postings);
    gs_hmap_free(db->names);
}

size_t tsdb_index_bytes(const struct tsdb *db)
{
    size_t pos = 0, bytes = gs_hmap_len(db->postings) * 40;
    void *value;
    while (gs_hmap_next(db->postings, &pos, NULL, &value))
        bytes += tsdb_postings_bytes(value);
    return bytes + db->by_hash_cap * sizeof(*db->by_hash);
}

static struct tsdb_postings *find_list(const struct tsdb *db, uint32_t name, uint32_t value)
{
    const struct tsdb_pair pair = {name, value};
    return gs_hmap_get(db->postings, key_of_pair(&pair));
}

// --- selecting ---

static void add_ref(struct tsdb_refs *r, tsdb_ref ref)
{
    gs_grow(&r->items, &r->cap, r->len, sizeof(*r->items));
    r->items[r->len++] = ref;
}

static bool matches_symbol(const struct tsdb *db, const struct tsdb_matcher *m, uint32_t value)
{
    if (value < m->n_answers && m->answers[value] != TSDB_ANSWER_UNKNOWN)
        return m->answers[value] == TSDB_ANSWER_YES;
    return tsdb_matcher_matches(m, tsdb_symbol_text(db->symbols, value));
}

static bool matches_empty(const struct tsdb *db, const struct tsdb_matcher *m)
{
    return matches_symbol(db, m, TSDB_SYMBOL_EMPTY);
}

// The series whose label has a matching value. The pattern is evaluated once for each distinct
// value.
static void union_of_values(const struct tsdb *db, const struct tsdb_matcher *m, uint32_t name,
                            struct tsdb_refs *ret)
{
    const struct value_set *v = gs_hmap_get(db->names, key_of_symbol(&name));
    size_t lists = 0;
    for (size_t i = 0; v && i < v->len; i++) {
        if (!matches_symbol(db, m, v->symbols[i]))
            continue;
        tsdb_postings_read(find_list(db, name, v->symbols[i]), ret);
        lists++;
    }
    if (lists > 1)
        tsdb_refs_sort(ret->items, ret->len);
}

static void all_series(const struct tsdb *db, struct tsdb_refs *ret)
{
    for (size_t i = 0; i < db->n_series; i++)
        if (db->series[i].set)
            add_ref(ret, (tsdb_ref)i);
}

struct compiled { // a matcher with symbols
    const struct tsdb_matcher *m;
    uint32_t name, value; // value: for TSDB_EQ and TSDB_NEQ
    uint32_t last_symbol; // cache of the last result, because neighbours often have equal values
    bool last_answer;
};

static bool series_matches(const struct tsdb *db, tsdb_ref ref, struct compiled *c)
{
    uint32_t value = TSDB_SYMBOL_EMPTY;
    if (c->name != TSDB_NO_SYMBOL)
        value = tsdb_labels_get(tsdb_series_labels(db, ref), c->name);
    if (c->m->op == TSDB_EQ)
        return value == c->value;
    if (c->m->op == TSDB_NEQ)
        return value != c->value;
    if (value != c->last_symbol) {
        c->last_symbol = value;
        c->last_answer = matches_symbol(db, c->m, value);
    }
    return c->last_answer;
}

static size_t cost_of(const struct tsdb *db, const struct compiled *c)
{
    if (matches_empty(db, c->m))
        return SIZE_MAX;
    if (c->m->op == TSDB_EQ) {
        const struct tsdb_postings *list = find_list(db, c->name, c->value);
        return list ? list->len : 0;
    }
    return db->n_live; // a union is used only without an equality matcher
}

// Selects candidates with the most selective matcher. The other matchers are then evaluated for
// each candidate.
static void candidates(const struct tsdb *db, const struct compiled *c, size_t n,
                       struct tsdb_refs *ret, size_t *ret_done)
{
    size_t best = SIZE_MAX, best_cost = SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        size_t cost = cost_of(db, &c[i]);
        if (cost < best_cost) {
            best = i;
            best_cost = cost;
        }
    }
    *ret_done = best;
    if (best == SIZE_MAX) {
        all_series(db, ret);
    } else if (c[best].m->op == TSDB_EQ) {
        struct tsdb_postings *list = find_list(db, c[best].name, c[best].value);
        if (list)
            tsdb_postings_read(list, ret);
    } else {
        union_of_values(db, c[best].m, c[best].name, ret);
    }
}

bool tsdb_index_equal(const struct tsdb *db, const struct tsdb_matcher *m, size_t n_m,
                      struct tsdb_refs *ret)
{
    struct tsdb_postings *rarest = NULL;
    for (size_t i = 0; i < n_m; i++) {
        if (m[i].op != TSDB_EQ || !m[i].value.len)
            continue;
        struct tsdb_postings *list = find_list(db, tsdb_symbol_find(db->symbols, m[i].name),
                                               tsdb_symbol_find(db->symbols, m[i].value));
        if (!list)
            return true; // no series matches
        if (!rarest || list->len < rarest->len)
            rarest = list;
    }
    if (rarest)
        tsdb_postings_read(rarest, ret);
    return rarest != NULL;
}

uint32_t *tsdb_index_values(const struct tsdb *db, uint32_t name, size_t *ret_n)
{
    const struct value_set *v = gs_hmap_get(db->names, key_of_symbol(&name));
    *ret_n = v ? v->len : 0;
    uint32_t *values = gs_alloc_array(*ret_n + 1, sizeof(*values));
    if (v)
        memcpy(values, v->symbols, v->len * sizeof(*values));
    return values;
}

static struct compiled *compile(const struct tsdb *db, const struct tsdb_matcher *m, size_t n_m)
{
    struct compiled *c = gs_alloc_array(n_m + 1, sizeof(*c));
    for (size_t i = 0; i < n_m; i++)
        c[i] = (struct compiled){&m[i], tsdb_symbol_find(db->symbols, m[i].name),
                                 tsdb_symbol_find(db->symbols, m[i].value), TSDB_NO_SYMBOL, false};
    return c;
}

static bool matches_all(const struct tsdb *db, tsdb_ref ref, struct compiled *c, size_t n,
                        size_t done)
{
    bool ok = true;
    for (size_t k = 0; ok && k < n; k++)
        ok = k == done || series_matches(db, ref, &c[k]);
    return ok;
}

static bool is_alive(const struct tsdb_series *s)
{
    return s->set && s->shared_by != TSDB_SERIES_DEAD;
}

void tsdb_filter(const struct tsdb *db, const struct tsdb_matcher *m, size_t n_m,
                 struct tsdb_refs *refs)
{
    gs_thread_owner_assert(&db->owner);
    GS_AUTO_FREE struct compiled *c = compile(db, m, n_m);
    size_t kept = 0;
    for (size_t i = 0; i < refs->len; i++) {
        tsdb_ref ref = refs->items[i];
        if (is_alive(&db->series[ref]) && matches_all(db, ref, c, n_m, SIZE_MAX))
            refs->items[kept++] = ref;
    }
    refs->len = kept;
}

static struct gs_error *find(const struct tsdb *db, const struct tsdb_matcher *m, size_t n_m,
                             bool (*in_time)(const struct tsdb_series *s, const int64_t span[2]),
                             const int64_t span[2], size_t max_series, struct tsdb_refs *ret)
{
    gs_thread_owner_assert(&db->owner);
    GS_AUTO_FREE struct compiled *c = compile(db, m, n_m);
    struct tsdb_refs found = {0};
    size_t done, kept = 0;
    candidates(db, c, n_m, &found, &done);
    for (size_t i = 0; i < found.len; i++) {
        tsdb_ref ref = found.items[i];
        if (in_time(&db->series[ref], span) && matches_all(db, ref, c, n_m, done))
            found.items[kept++] = ref;
    }
    found.len = kept;
    if (max_series && kept > max_series) {
        tsdb_refs_finish(&found);
        return gs_error_new(GS_ELIMIT, "more than %zu series match", max_series);
    }
    *ret = found;
    return NULL;
}

static bool overlaps(const struct tsdb_series *s, const int64_t span[2])
{
    int64_t first, last;
    return tsdb_series_span(s, &first, &last) && first <= span[1] && last >= span[0];
}

struct gs_error *tsdb_find(const struct tsdb *db, const struct tsdb_matcher *m, size_t n_m,
                           int64_t mint, int64_t maxt, size_t max_series, struct tsdb_refs *ret)
{
    return find(db, m, n_m, overlaps, (const int64_t[2]){mint, maxt}, max_series, ret);
}

static bool at_any_time(const struct tsdb_series *s, const int64_t span[2])
{
    (void)span;
    return is_alive(s);
}

struct gs_error *tsdb_find_any(const struct tsdb *db, const struct tsdb_matcher *m, size_t n_m,
                               size_t max_series, struct tsdb_refs *ret)
{
    return find(db, m, n_m, at_any_time, NULL, max_series, ret);
}

// --- label names and values ---

struct gs_error *tsdb_label_values(const struct tsdb *db, struct gs_slice name,
                                   const struct tsdb_matcher *m, size_t n_m, int64_t mint,
                                   int64_t maxt, void (*fn)(void *arg, struct gs_slice value),
                                   void *arg)
{
    struct tsdb_refs refs = {0};
    struct gs_error *err = tsdb_find(db, m, n_m, mint, maxt, 0, &refs);
    if (err)
        return err;
    uint32_t symbol = name.len ? tsdb_symbol_find(db->symbols, name) : TSDB_NO_SYMBOL;
    struct gs_hmap *seen = gs_hmap_new(NULL);
    for (size_t i = 0; i < refs.len; i++) {
        struct tsdb_labels l = tsdb_series_labels(db, refs.items[i]);
        for (size_t k = 0; k < tsdb_labels_len(l); k++) {
            const struct tsdb_pair pair = tsdb_labels_at(l, k);
            if (name.len && pair.name != symbol)
                continue;
            const uint32_t *found = name.len ? &pair.value : &pair.name;
            if (gs_hmap_get(seen, key_of_symbol(found)))
                continue;
            gs_hmap_put(seen, key_of_symbol(found), seen);
            fn(arg, tsdb_symbol_text(db->symbols, *found));
        }
    }
    gs_hmap_free(seen);
    tsdb_refs_finish(&refs);
    return NULL;
}

void tsdb_count_by_label(const struct tsdb *db, struct gs_slice label,
                         void (*fn)(void *arg, struct gs_slice value, size_t series), void *arg)
{
    uint32_t name = tsdb_symbol_find(db->symbols, label);
    const struct value_set *v =
        name == TSDB_NO_SYMBOL ? NULL : gs_hmap_get(db->names, key_of_symbol(&name));
    for (size_t i = 0; v && i < v->len; i++)
        fn(arg, tsdb_symbol_text(db->symbols, v->symbols[i]),
           find_list(db, name, v->symbols[i])->len);
}
