// SPDX-License-Identifier: Apache-2.0
// The series of a selector: found by a search, kept in the cache, and followed while series come
// and go.
#include "promql/selectors.h"

#include "base/mem.h"
#include "promql/eval_private.h"
#include "promql/label_cache.h"

// --- searches ---

struct search {
    struct promql_eval *ev;
    struct gs_error *err;
};

static bool goes_on(void *arg)
{
    struct search *s = arg;
    s->err = promql_eval_check_time(s->ev);
    return !s->err;
}

// Before a search, which has no pauses. among NULL: it searches all series.
static struct gs_error *collect_answers(struct promql_eval *ev, const struct promql_node *n,
                                        const struct tsdb_refs *among, struct tsdb_answers *ret)
{
    struct search s = {.ev = ev};
    struct gs_error *err = tsdb_answers_collect(ev->engine->db, n->u.selector.matchers,
                                                n->u.selector.n_matchers, among, goes_on, &s, ret);
    if (!s.err)
        return err;
    gs_error_free(err);
    return s.err;
}

struct gs_error *promql_eval_find(struct promql_eval *ev, const struct promql_node *n, int64_t mint,
                                  int64_t maxt, struct tsdb_refs *ret)
{
    GS_CLEANUP(tsdb_answers_finish) struct tsdb_answers answers;
    struct gs_error *err = collect_answers(ev, n, NULL, &answers);
    if (!err)
        err = tsdb_find(ev->engine->db, answers.matchers, n->u.selector.n_matchers, mint, maxt,
                        ev->cfg.max_samples, ret);
    if (!err)
        tsdb_isolation_filter(ev->engine->db, &ev->hold, ret);
    return err;
}

// --- the series of a selector ---

static void selector_key(const struct promql_node *n, struct gs_buf *key)
{
    gs_buf_add_char(key, 'S');
    for (size_t i = 0; i < n->u.selector.n_matchers; i++) {
        const struct tsdb_matcher *m = &n->u.selector.matchers[i];
        size_t head[3] = {(size_t)m->op, m->name.len, m->value.len};
        gs_buf_add(key, head, sizeof(head));
        gs_buf_add_slice(key, m->name);
        gs_buf_add_slice(key, m->value);
    }
}

static uint32_t common_name(const struct promql_cached_series *k, struct tsdb_labels l, size_t i)
{
    uint32_t name = tsdb_labels_get(l, TSDB_SYMBOL_NAME);
    return !i || k->name == name ? name : TSDB_NO_SYMBOL;
}

static void set_series(const struct tsdb *db, struct promql_cached_series *k, tsdb_ref ref)
{
    k->refs[k->n] = ref;
    k->labels[k->n] = tsdb_series_labels(db, ref);
    k->name = common_name(k, k->labels[k->n], k->n);
    k->n++;
}

// For n series, for this query only.
static struct gs_error *query_list(struct promql_eval *ev, size_t n,
                                   struct promql_cached_series **ret)
{
    struct promql_cached_series *k;
    struct gs_error *err = promql_eval_alloc(ev, 1, sizeof(*k), &k);
    if (!err)
        err = promql_eval_alloc(ev, n, sizeof(*k->refs), &k->refs);
    if (!err)
        err = promql_eval_alloc(ev, n, sizeof(*k->labels), &k->labels);
    if (err)
        return err;
    k->changes = promql_cache_changes(ev->view);
    *ret = k;
    return NULL;
}

static struct gs_error *list_series(struct promql_eval *ev, const struct tsdb_refs *refs,
                                    struct promql_cached_series **ret)
{
    struct gs_error *err = query_list(ev, refs->len, ret);
    for (size_t i = 0; i < refs->len && !err; i++)
        set_series(ev->engine->db, *ret, refs->items[i]);
    return err;
}

static void cached_series_free(struct promql_entry *e)
{
    struct promql_cached_series *k = GS_CONTAINER_OF(e, struct promql_cached_series, entry);
    free(k->refs);
    free(k->labels);
    free(k->ended.items);
    free(k);
}

// A list for n series and some that ended, for the cache. NULL: no room.
static struct promql_cached_series *new_list(struct promql_eval *ev, size_t n, size_t n_ended)
{
    struct promql_cached_series *k;
    size_t bytes = sizeof(*k) + n * (sizeof(*k->refs) + sizeof(*k->labels)) +
                   n_ended * sizeof(*k->ended.items);
    if (!promql_cache_has_room(ev->view, bytes))
        return NULL;
    k = gs_alloc(sizeof(*k));
    k->entry.free = cached_series_free;
    k->entry.bytes = bytes;
    k->refs = gs_realloc_array(NULL, n + 1, sizeof(*k->refs));
    k->labels = gs_realloc_array(NULL, n + 1, sizeof(*k->labels));
    k->changes = tsdb_changes_end(ev->engine->db);
    k->next_look_ms = INT64_MIN;
    return k;
}

// --- keeping lists up to date ---

// False: a new search costs less.
static bool can_follow(const struct tsdb *db, const struct promql_node *n,
                       const struct promql_cached_series *k, uint64_t end)
{
    bool selective = false; // an equality matcher, whose list the search reads
    for (size_t i = 0; i < n->u.selector.n_matchers; i++)
        selective = selective || (n->u.selector.matchers[i].op == TSDB_EQ &&
                                  n->u.selector.matchers[i].value.len);
    return tsdb_changes_kept(db, k->changes) &&
           (!k->ended.n || tsdb_changes_kept(db, k->ended.changes)) &&
           (!selective || end - k->changes <= k->n + k->ended.n + 256);
}

// The numbers that changed (ascending), and those of them that match now.
static void look_at_changes(struct tsdb *db, const struct tsdb_matcher *m, size_t n_m,
                            uint64_t from, struct tsdb_refs *ret_changed, struct tsdb_refs *ret_now)
{
    tsdb_changes_read(db, from, ret_changed);
    size_t len = ret_changed->len;
    tsdb_ref *now = gs_alloc_array(len, sizeof(*now));
    memcpy(now, ret_changed->items, len * sizeof(*now));
    *ret_now = (struct tsdb_refs){now, len, len};
    tsdb_filter(db, m, n_m, ret_now);
}

static bool concerned(const struct promql_cached_series *k, const struct tsdb_refs *changed)
{
    for (size_t i = 0; i < changed->len && k->n; i++)
        if (tsdb_refs_has(k->refs, k->n, changed->items[i]))
            return true;
    return false;
}

// The list without the changed numbers, and with those that match now.
static void merge(const struct tsdb *db, const struct promql_cached_series *k,
                  const struct tsdb_refs *changed, const struct tsdb_refs *now,
                  struct promql_cached_series *ret)
{
    size_t c = 0, add = 0;
    for (size_t i = 0; i < k->n; i++) {
        while (add < now->len && now->items[add] <= k->refs[i])
            set_series(db, ret, now->items[add++]);
        while (c < changed->len && changed->items[c] < k->refs[i])
            c++;
        if (c < changed->len && changed->items[c] == k->refs[i])
            continue;
        ret->refs[ret->n] = k->refs[i];
        ret->labels[ret->n++] = k->labels[i];
        if (ret->n == 1)
            ret->name = k->name;
        else if (ret->name != k->name)
            ret->name = TSDB_NO_SYMBOL;
    }
    while (add < now->len)
        set_series(db, ret, now->items[add++]);
}

// Other queries may hold the old list, so it is replaced. They have read what ended already.
static void replace_list(struct promql_eval *ev, const struct gs_buf *key,
                         struct promql_cached_series *old, struct promql_cached_series *k)
{
    k->ended = old->ended;
    k->next_look_ms = old->next_look_ms;
    old->ended = (struct promql_ended){0};
    promql_cache_put(ev->view, key, &k->entry);
}

// NULL: it must be made again. m: the matchers of the selector, perhaps with answers.
static struct promql_cached_series *follow(struct promql_eval *ev, const struct promql_node *n,
                                           const struct tsdb_matcher *m, const struct gs_buf *key,
                                           struct promql_cached_series *k)
{
    struct tsdb *db = ev->engine->db;
    uint64_t end = tsdb_changes_end(db);
    struct promql_cached_series *ret = k;
    if (k->changes == end)
        return k;
    if (!can_follow(db, n, k, end))
        return NULL;
    struct tsdb_refs changed, now;
    look_at_changes(db, m, n->u.selector.n_matchers, k->changes, &changed, &now);
    if (now.len || concerned(k, &changed)) {
        ret = new_list(ev, k->n + now.len, k->ended.n);
        if (ret) {
            merge(db, k, &changed, &now, ret);
            replace_list(ev, key, k, ret);
        }
    } else {
        k->changes = end;
    }
    tsdb_refs_finish(&changed);
    tsdb_refs_finish(&now);
    return ret;
}

static struct promql_cached_series *cached_list(struct promql_eval *ev, const struct gs_buf *key)
{
    struct promql_entry *e = promql_cache_get(ev->view, key);
    return e ? GS_CONTAINER_OF(e, struct promql_cached_series, entry) : NULL;
}

// Evaluates slow regular expressions for the series that follow() checks.
static struct gs_error *collect_changes(struct promql_eval *ev, const struct promql_node *n,
                                        const struct promql_cached_series *k,
                                        struct tsdb_answers *ret)
{
    struct tsdb *db = ev->engine->db;
    const struct tsdb_matcher *m = n->u.selector.matchers;
    GS_CLEANUP(tsdb_refs_finish) struct tsdb_refs changed = {0};
    *ret = (struct tsdb_answers){.matchers = m};
    if (!tsdb_matchers_can_be_slow(m, n->u.selector.n_matchers) ||
        !can_follow(db, n, k, tsdb_changes_end(db)))
        return NULL;
    tsdb_changes_read(db, k->changes, &changed);
    return collect_answers(ev, n, &changed, ret);
}

// The list of an earlier query, with what has changed since. *ret NULL: it must be made again.
static struct gs_error *follow_cached(struct promql_eval *ev, const struct promql_node *n,
                                      const struct gs_buf *key, struct promql_cached_series **ret)
{
    GS_CLEANUP(tsdb_answers_finish) struct tsdb_answers answers = {0};
    struct promql_cached_series *k = cached_list(ev, key);
    struct gs_error *err = k ? collect_changes(ev, n, k, &answers) : NULL;
    if (answers.db) // there may have been pauses, and other queries
        k = cached_list(ev, key);
    *ret = k && !err ? follow(ev, n, answers.matchers, key, k) : NULL;
    return err;
}

// Sets series aside that ended. Those that ended recently may return, like all series of a target
// when its next scrape succeeds.
static struct promql_cached_series *
set_ended_aside(struct promql_eval *ev, const struct gs_buf *key, struct promql_cached_series *k)
{
    struct tsdb *db = ev->engine->db;
    int64_t newest = tsdb_newest_ms(db), recent = ev->engine->usual_lookback_ms / 8, until, next;
    if (!k->entry.cached || newest < k->next_look_ms ||
        __builtin_sub_overflow(newest, recent, &until) ||
        __builtin_add_overflow(newest, recent / 2 + 1, &next))
        return k;
    GS_AUTO_FREE struct promql_end *ends = NULL;
    size_t n = 0, cap = 0, at = 0;
    int64_t t_ms;
    k->next_look_ms = next;
    for (size_t i = 0; i < k->n; i++) {
        if (!tsdb_series_set_aside(db, k->refs[i], until, &t_ms))
            continue;
        gs_grow(&ends, &cap, n, sizeof(*ends));
        ends[n++] = (struct promql_end){t_ms, k->refs[i]};
    }
    if (!n && k->ended.n && k->ended.changes != k->changes)
        promql_ended_add(&k->ended, db, NULL, 0, k->ended.name);
    struct promql_cached_series *ret = n ? new_list(ev, k->n - n, k->ended.n + n) : NULL;
    if (!ret)
        return k;
    for (size_t i = 0; i < k->n; i++) {
        if (at < n && ends[at].ref == k->refs[i]) {
            at++;
            continue;
        }
        ret->name = !ret->n || ret->name == k->name ? k->name : TSDB_NO_SYMBOL;
        ret->refs[ret->n] = k->refs[i];
        ret->labels[ret->n++] = k->labels[i];
    }
    replace_list(ev, key, k, ret);
    promql_ended_add(&ret->ended, db, ends, n, k->name);
    return ret;
}

static struct gs_error *add_ended(struct promql_eval *ev, int64_t since_ms,
                                  struct promql_cached_series **k)
{
    const struct promql_cached_series *others = *k;
    struct tsdb_refs ended = {0};
    struct promql_cached_series *all;
    promql_ended_after(&others->ended, ev->engine->db, since_ms, &ended);
    struct gs_error *err = ended.len ? query_list(ev, others->n + ended.len, &all) : NULL;
    for (size_t i = 0, at = 0; ended.len && !err && all->n < others->n + ended.len; all->n++) {
        bool has_ended = at < ended.len && (i == others->n || ended.items[at] < others->refs[i]);
        all->refs[all->n] = has_ended ? ended.items[at] : others->refs[i];
        all->labels[all->n] =
            has_ended ? tsdb_series_labels(ev->engine->db, ended.items[at]) : others->labels[i];
        at += has_ended;
        i += !has_ended;
    }
    if (ended.len && !err) {
        all->name = TSDB_NO_SYMBOL; // reading the labels of all would take longer than the query
        if (!others->n || others->name == others->ended.name)
            all->name = others->ended.name;
        all->changes = others->changes;
        *k = all;
    }
    tsdb_refs_finish(&ended);
    return err;
}

// Series that were born after the query began are not part of it.
static struct gs_error *without_later(struct promql_eval *ev, struct promql_cached_series *k,
                                      struct promql_cached_series **ret)
{
    *ret = k;
    if (k->changes == promql_cache_changes(ev->view))
        return NULL;
    struct tsdb_refs refs = {gs_alloc_array(k->n + 1, sizeof(*refs.items)), k->n, k->n + 1};
    memcpy(refs.items, k->refs, k->n * sizeof(*refs.items));
    tsdb_isolation_filter(ev->engine->db, &ev->hold, &refs);
    struct gs_error *err = refs.len < k->n ? list_series(ev, &refs, ret) : NULL;
    tsdb_refs_finish(&refs);
    return err;
}

static struct gs_error *search(struct promql_eval *ev, const struct promql_node *n,
                               const struct gs_buf *key, struct promql_cached_series **ret)
{
    struct tsdb_refs refs = {0};
    struct promql_cached_series *k = NULL;
    GS_CLEANUP(tsdb_answers_finish) struct tsdb_answers answers;
    struct gs_error *err = collect_answers(ev, n, NULL, &answers);
    // A series that gets its first sample later must be in the list.
    if (!err)
        err = tsdb_find_any(ev->engine->db, answers.matchers, n->u.selector.n_matchers,
                            ev->cfg.max_samples, &refs);
    if (!err)
        tsdb_isolation_filter(ev->engine->db, &ev->hold, &refs);
    // Later queries would lack the series that are hidden from this one.
    if (!err && tsdb_changes_end(ev->engine->db) == promql_cache_changes(ev->view))
        k = new_list(ev, refs.len, 0);
    for (size_t i = 0; k && i < refs.len; i++)
        set_series(ev->engine->db, k, refs.items[i]);
    if (k)
        promql_cache_put(ev->view, key, &k->entry);
    else if (!err)
        err = list_series(ev, &refs, &k);
    tsdb_refs_finish(&refs);
    *ret = k;
    return err;
}

struct gs_error *promql_cached_series_select(struct promql_eval *ev, const struct promql_node *n,
                                             int64_t since_ms, struct promql_cached_series **ret)
{
    GS_AUTO_BUF struct gs_buf key = {0};
    selector_key(n, &key);
    struct promql_cached_series *k;
    struct gs_error *err = follow_cached(ev, n, &key, &k);
    if (!err && !k)
        err = search(ev, n, &key, &k);
    if (err)
        return err;
    k = set_ended_aside(ev, &key, k);
    err = add_ended(ev, since_ms, &k);
    return err ? err : without_later(ev, k, ret);
}
