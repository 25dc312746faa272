// SPDX-License-Identifier: Apache-2.0
// Numbers for label sets that are equal in some of their labels: for grouping and for matching.
// Symbols are compared, not texts; the table is open addressing over the first series of each id.
#include "promql/eval_private.h"

static bool in_rule(const struct promql_key_rule *r, uint32_t name)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->names[i] == name)
            return true;
    return false;
}

// The key as words: values in the order of the rule's names, or the remaining pairs.
static size_t key_words(const struct promql_eval *ev, const struct promql_key_rule *r,
                        struct tsdb_labels l, uint32_t *out)
{
    size_t n = 0;
    if (r->on) {
        for (size_t i = 0; i < r->n; i++)
            out[n++] = tsdb_labels_get(l, r->names[i]);
        return n;
    }
    for (size_t i = 0; i < l.n; i++) {
        uint32_t name = l.pairs[i].name;
        if ((!r->with_name && promql_is_metadata(ev, name)) || in_rule(r, name))
            continue;
        out[n++] = l.pairs[i].name;
        out[n++] = l.pairs[i].value;
    }
    return n;
}

struct entry { // of the table
    uint64_t hash;
    uint32_t words, n_words; // into the store of words
    uint32_t id;
    bool used;
};

struct table {
    struct entry *entries;
    size_t mask;
    uint32_t *words;
    size_t n_words, words_cap;
    size_t n_ids;
};

static struct gs_error *append_words(struct promql_eval *ev, struct table *t, const uint32_t *words,
                                     size_t n)
{
    if (t->n_words + n > t->words_cap) {
        size_t cap = (t->n_words + n) * 2 + 1024;
        uint32_t *grown;
        struct gs_error *err = promql_eval_alloc(ev, cap, sizeof(*grown), &grown);
        if (err)
            return err;
        if (t->n_words)
            memcpy(grown, t->words, t->n_words * sizeof(*grown));
        t->words = grown;
        t->words_cap = cap;
    }
    if (n)
        memcpy(t->words + t->n_words, words, n * sizeof(*words));
    t->n_words += n;
    return NULL;
}

static uint64_t hash_words(const uint32_t *words, size_t n)
{
    uint64_t h = n * UINT64_C(0x9E3779B97F4A7C15);
    for (size_t i = 0; i < n; i++) {
        h = (h ^ words[i]) * UINT64_C(0xff51afd7ed558ccd);
        h ^= h >> 32;
    }
    return h;
}

static struct gs_error *find_id(struct promql_eval *ev, struct table *t, const uint32_t *words,
                                size_t n, uint32_t *ret_id, bool *ret_new)
{
    uint64_t hash = hash_words(words, n);
    size_t at = hash & t->mask;
    for (; t->entries[at].used; at = (at + 1) & t->mask) {
        const struct entry *e = &t->entries[at];
        if (e->hash == hash && e->n_words == n &&
            (!n || memcmp(t->words + e->words, words, n * sizeof(*words)) == 0)) {
            *ret_id = e->id;
            *ret_new = false;
            return NULL;
        }
    }
    uint32_t start = (uint32_t)t->n_words;
    struct gs_error *err = append_words(ev, t, words, n);
    if (err)
        return err;
    t->entries[at] = (struct entry){hash, start, (uint32_t)n, (uint32_t)t->n_ids, true};
    *ret_id = (uint32_t)t->n_ids++;
    *ret_new = true;
    return NULL;
}

static size_t most_labels(const struct promql_matrix *m)
{
    size_t most = 0;
    for (size_t i = 0; m && i < m->n; i++)
        if (m->series[i].labels.n > most)
            most = m->series[i].labels.n;
    return most;
}

static struct gs_error *number_series(struct promql_eval *ev, const struct promql_key_rule *rule,
                                      struct table *t, uint32_t *words,
                                      const struct promql_matrix *m, uint32_t *first,
                                      struct promql_keys *ret)
{
    struct gs_error *err = promql_eval_alloc(ev, m->n, sizeof(*ret->ids), &ret->ids);
    for (size_t i = 0; i < m->n && !err; i++) {
        bool is_new = false;
        size_t n = key_words(ev, rule, m->series[i].labels, words);
        err = find_id(ev, t, words, n, &ret->ids[i], &is_new);
        if (is_new)
            first[ret->ids[i]] = (uint32_t)i;
    }
    ret->first = first;
    return err;
}

static struct gs_error *number_both(struct promql_eval *ev, const struct promql_key_rule *rule,
                                    const struct promql_matrix *a, const struct promql_matrix *b,
                                    struct promql_keys *ret_a, struct promql_keys *ret_b)
{
    struct table t = {0};
    size_t total = a->n + (b ? b->n : 0), cap = 16, most = most_labels(a);
    if (most_labels(b) > most)
        most = most_labels(b);
    while (cap < total * 2)
        cap *= 2;
    t.mask = cap - 1;
    uint32_t *words, *first;
    struct gs_error *err = promql_eval_alloc(ev, cap, sizeof(*t.entries), &t.entries);
    if (!err)
        err = promql_eval_alloc(ev, rule->n + most * 2 + 1, sizeof(*words), &words);
    if (!err)
        err = promql_eval_alloc(ev, total + 1, sizeof(*first), &first);
    if (!err)
        err = number_series(ev, rule, &t, words, a, first, ret_a);
    if (!err && b)
        err = number_series(ev, rule, &t, words, b, first, ret_b);
    if (err)
        return err;
    ret_a->n_ids = t.n_ids;
    if (ret_b)
        ret_b->n_ids = t.n_ids;
    return NULL;
}

// --- kept keys ---

struct kept_keys {
    struct promql_keys a, b;
};

void promql_eval_rule_key(const struct promql_key_rule *rule, struct gs_buf *key)
{
    gs_buf_add_char(key, rule->on ? 'o' : 'i');
    gs_buf_add_char(key, rule->with_name ? 'n' : '-');
    for (size_t i = 0; i < rule->n; i++) {
        // No stored series has a name that is a symbol of the query.
        uint32_t name = rule->names[i] & PROMQL_OWN_SYMBOL ? TSDB_NO_SYMBOL : rule->names[i];
        gs_buf_add(key, &name, sizeof(name));
    }
}

static bool keep_one(struct promql_entry *e, const struct promql_matrix *m,
                     const struct promql_keys *from, struct promql_keys *ret)
{
    *ret = *from;
    ret->ids = promql_entry_copy(e, from->ids, m->n, sizeof(*from->ids));
    ret->first = promql_entry_copy(e, from->first, from->n_ids, sizeof(*from->first));
    return ret->ids && ret->first;
}

static void keep_keys(struct promql_eval *ev, const struct gs_buf *key,
                      const struct promql_matrix *a, const struct promql_matrix *b,
                      const struct promql_keys *of_a, const struct promql_keys *of_b)
{
    struct promql_entry *e = promql_entry_new(ev->view);
    if (!e)
        return;
    struct kept_keys *k = gs_arena_alloc(&e->arena, sizeof(*k));
    if (!k || !keep_one(e, a, of_a, &k->a) || (b && !keep_one(e, b, of_b, &k->b))) {
        promql_entry_free(e);
        return;
    }
    promql_cache_put(ev->view, key, e, k);
}

struct gs_error *promql_eval_keys(struct promql_eval *ev, const struct promql_key_rule *rule,
                                  const struct promql_matrix *a, const struct promql_matrix *b,
                                  struct promql_keys *ret_a, struct promql_keys *ret_b)
{
    if (!a->set || (b && !b->set))
        return number_both(ev, rule, a, b, ret_a, ret_b);
    GS_AUTO_BUF struct gs_buf key = {0};
    uint64_t sets[2] = {a->set, b ? b->set : 0};
    gs_buf_add_char(&key, 'K');
    gs_buf_add(&key, sets, sizeof(sets));
    promql_eval_rule_key(rule, &key);
    const struct kept_keys *k = promql_cache_get(ev->view, &key);
    if (k) {
        *ret_a = k->a;
        if (ret_b)
            *ret_b = k->b;
        return NULL;
    }
    struct gs_error *err = number_both(ev, rule, a, b, ret_a, ret_b);
    if (!err)
        keep_keys(ev, &key, a, b, ret_a, ret_b);
    return err;
}

struct gs_error *promql_eval_whole_keys(struct promql_eval *ev, const struct promql_matrix *m,
                                        struct promql_keys *ret)
{
    const struct promql_key_rule rule = {.with_name = true};
    return promql_eval_keys(ev, &rule, m, NULL, ret, NULL);
}

struct gs_error *promql_eval_names(struct promql_eval *ev, struct promql_names names,
                                   const uint32_t **ret)
{
    uint32_t *symbols;
    struct gs_error *err = promql_eval_alloc(ev, names.n + 1, sizeof(*symbols), &symbols);
    for (size_t i = 0; i < names.n && !err; i++)
        err = promql_eval_intern(ev, names.items[i], &symbols[i]);
    if (!err)
        *ret = symbols;
    return err;
}

struct gs_error *promql_eval_key_labels(struct promql_eval *ev, const struct promql_key_rule *rule,
                                        struct tsdb_labels from, struct tsdb_labels *ret)
{
    struct tsdb_pair *pairs;
    struct gs_error *err = promql_eval_alloc(ev, from.n + 1, sizeof(*pairs), &pairs);
    if (err)
        return err;
    size_t n = 0;
    for (size_t i = 0; i < from.n; i++) {
        bool named = in_rule(rule, from.pairs[i].name);
        bool keep = rule->on ? named : !named && !promql_is_metadata(ev, from.pairs[i].name);
        if (keep)
            pairs[n++] = from.pairs[i];
    }
    *ret = (struct tsdb_labels){pairs, n};
    return NULL;
}
