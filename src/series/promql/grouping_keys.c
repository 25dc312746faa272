// SPDX-License-Identifier: Apache-2.0
// Numbers for label sets that are equal in some of their labels: for grouping and for matching.
// Symbols are compared, not texts; the table is open addressing over the first series of each id.
#include "promql/grouping.h"

#include "promql/eval_private.h"
#include "promql/label_cache.h"

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
    if (r->with_name && !in_rule(r, TSDB_SYMBOL_NAME))
        out[n++] = l.metric;
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

// --- cached keys ---

void promql_eval_rule_key(const struct promql_eval *ev, const struct promql_key_rule *rule,
                          struct gs_buf *key)
{
    gs_buf_add_char(key, rule->on ? 'o' : 'i');
    for (size_t i = 0; i < GS_ARRAY_LEN(ev->metadata); i++) {
        bool own = ev->metadata[i] & PROMQL_OWN_SYMBOL;
        const uint32_t symbol = own ? TSDB_NO_SYMBOL : ev->metadata[i];
        gs_buf_add(key, &symbol, sizeof(symbol));
    }
    for (size_t i = 0; i < rule->n; i++) {
        // No stored series has a name that is a symbol of the query. The text is part of the key,
        // because a symbol that no series has as a name can get another text.
        uint32_t name = rule->names[i] & PROMQL_OWN_SYMBOL ? TSDB_NO_SYMBOL : rule->names[i];
        struct gs_slice text = promql_eval_text(ev, rule->names[i]);
        gs_buf_add(key, &name, sizeof(name));
        gs_buf_add(key, &text.len, sizeof(text.len));
        gs_buf_add_slice(key, text);
    }
}

struct gs_error *promql_eval_set(struct promql_eval *ev, const struct promql_label_table *table,
                                 const uint32_t *elements, struct promql_matrix *m)
{
    struct promql_set *set;
    struct gs_error *err = promql_eval_alloc(ev, 1, sizeof(*set), &set);
    if (err)
        return err;
    *set = (struct promql_set){table, elements};
    m->set = set;
    return NULL;
}

struct gs_error *promql_eval_numbers(struct promql_eval *ev, const struct promql_key_rule *rule,
                                     const struct promql_matrix *m, uint32_t *numbers,
                                     struct promql_label_table **ret)
{
    GS_AUTO_BUF struct gs_buf key = {0};
    gs_buf_add_char(&key, 'T');
    promql_eval_rule_key(ev, rule, &key);
    *ret = NULL;
    struct promql_label_table *t = promql_label_table(ev->view, &key);
    struct promql_label_memo *memo =
        t ? promql_label_memo(ev, m->set->table, (const uint64_t[2]){t->number, 0}) : NULL;
    if (!memo)
        return NULL;
    for (size_t i = 0; i < m->n; i++) {
        uint32_t *at = promql_label_memo_at(ev->view, memo, m->set->elements[i]);
        if (at && !*at) {
            struct tsdb_labels l;
            struct gs_error *err = promql_eval_key_labels(ev, rule, m->series[i].labels, &l);
            if (err)
                return err;
            *at = promql_label_number(ev->view, t, l) + 1; // PROMQL_NO_NUMBER + 1 is 0
        }
        if (!at || !*at)
            return NULL;
        numbers[i] = *at - 1;
    }
    *ret = t;
    return NULL;
}

// Numbers in the order of the first series from those of the table.
static void number_in_order(const uint32_t *numbers, size_t n, uint32_t *id_of,
                            uint32_t *numbers_of, uint32_t *first, struct promql_keys *ret,
                            size_t *n_ids)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t *id = &id_of[numbers[i]];
        if (!*id) {
            numbers_of[*n_ids] = numbers[i];
            first[*n_ids] = (uint32_t)i;
            *id = (uint32_t)++ * n_ids;
        }
        ret->ids[i] = *id - 1;
    }
    ret->first = first;
    ret->numbers = numbers_of;
}

static struct gs_error *number_cached(struct promql_eval *ev, const struct promql_key_rule *rule,
                                      const struct promql_matrix *a, const struct promql_matrix *b,
                                      struct promql_keys *ret_a, struct promql_keys *ret_b,
                                      bool *ret_done)
{
    struct promql_label_table *t = NULL;
    struct promql_keys of_a = {0}, of_b = {0};
    uint32_t *in_a, *in_b = NULL, *id_of, *numbers_of, *first;
    size_t n_ids = 0, total = a->n + (b ? b->n : 0);
    struct gs_error *err = promql_eval_alloc(ev, total, sizeof(*in_a), &in_a);
    if (!err)
        err = promql_eval_numbers(ev, rule, a, in_a, &t);
    if (!err && b && t) {
        in_b = in_a + a->n;
        err = promql_eval_numbers(ev, rule, b, in_b, &t);
    }
    *ret_done = !err && t;
    if (!*ret_done)
        return err;
    err = promql_eval_alloc(ev, t->n, sizeof(*id_of), &id_of);
    if (!err)
        err = promql_eval_alloc(ev, total, sizeof(*numbers_of), &numbers_of);
    if (!err)
        err = promql_eval_alloc(ev, total, sizeof(*first), &first);
    if (!err)
        err = promql_eval_alloc(ev, a->n, sizeof(*of_a.ids), &of_a.ids);
    if (!err && b)
        err = promql_eval_alloc(ev, b->n, sizeof(*of_b.ids), &of_b.ids);
    if (err)
        return err;
    number_in_order(in_a, a->n, id_of, numbers_of, first, &of_a, &n_ids);
    if (b)
        number_in_order(in_b, b->n, id_of, numbers_of, first, &of_b, &n_ids);
    promql_label_table_used(ev->view, t, n_ids);
    of_a.n_ids = of_b.n_ids = n_ids;
    of_a.table = of_b.table = t;
    *ret_a = of_a;
    if (b)
        *ret_b = of_b;
    return NULL;
}

struct gs_error *promql_eval_keys(struct promql_eval *ev, const struct promql_key_rule *rule,
                                  const struct promql_matrix *a, const struct promql_matrix *b,
                                  struct promql_keys *ret_a, struct promql_keys *ret_b)
{
    bool done = false;
    struct gs_error *err = NULL;
    if (a->set && (!b || b->set) && !rule->with_name)
        err = number_cached(ev, rule, a, b, ret_a, ret_b, &done);
    return err || done ? err : number_both(ev, rule, a, b, ret_a, ret_b);
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
    struct gs_error *err = promql_eval_alloc(ev, (size_t)from.n + 1, sizeof(*pairs), &pairs);
    if (err)
        return err;
    size_t n = 0;
    uint32_t metric = rule->on && in_rule(rule, TSDB_SYMBOL_NAME) ? from.metric : TSDB_SYMBOL_EMPTY;
    for (size_t i = 0; i < from.n; i++) {
        bool named = in_rule(rule, from.pairs[i].name);
        bool keep = rule->on ? named : !named && !promql_is_metadata(ev, from.pairs[i].name);
        if (keep)
            pairs[n++] = from.pairs[i];
    }
    return promql_eval_labels(ev, pairs, n, metric, ret);
}
