// SPDX-License-Identifier: Apache-2.0
// Selectors: the newest sample of each series at each step. The look-back is left-open: a sample
// exactly at its start is excluded.
#include "promql/eval_private.h"

#include "base/mem.h"

int64_t promql_shifted(const struct promql_eval *ev, const struct promql_shift *s, int64_t t_ms)
{
    switch (s->at) {
    case PROMQL_AT_TIME:
        t_ms = s->at_ms;
        break;
    case PROMQL_AT_START:
        t_ms = ev->query_start_ms;
        break;
    case PROMQL_AT_END:
        t_ms = ev->query_end_ms;
        break;
    case PROMQL_AT_NONE:
        break;
    }
    return t_ms - s->offset_ms;
}

struct gs_error *promql_eval_find(struct promql_eval *ev, const struct promql_node *n, int64_t mint,
                                  int64_t maxt, struct tsdb_refs *ret)
{
    struct gs_error *err =
        tsdb_find(ev->engine->db, n->u.selector.matchers, n->u.selector.n_matchers, mint, maxt,
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

// For this query only.
static struct gs_error *list_series(struct promql_eval *ev, const struct tsdb_refs *refs,
                                    struct promql_cached_series **ret)
{
    struct promql_cached_series *k;
    struct gs_error *err = promql_eval_alloc(ev, 1, sizeof(*k), &k);
    if (!err)
        err = promql_eval_alloc(ev, refs->len, sizeof(*k->refs), &k->refs);
    if (!err)
        err = promql_eval_alloc(ev, refs->len, sizeof(*k->labels), &k->labels);
    if (err)
        return err;
    for (size_t i = 0; i < refs->len; i++)
        set_series(ev->engine->db, k, refs->items[i]);
    *ret = k;
    return NULL;
}

static void cached_series_free(struct promql_entry *e)
{
    struct promql_cached_series *k = GS_CONTAINER_OF(e, struct promql_cached_series, entry);
    free(k->refs);
    free(k->labels);
    free(k);
}

// A list for n series, for the cache. NULL: no room.
static struct promql_cached_series *new_list(struct promql_eval *ev, size_t n)
{
    struct promql_cached_series *k;
    size_t bytes = sizeof(*k) + n * (sizeof(*k->refs) + sizeof(*k->labels));
    if (!promql_cache_has_room(ev->view, bytes))
        return NULL;
    k = gs_alloc(sizeof(*k));
    k->entry.free = cached_series_free;
    k->entry.bytes = bytes;
    k->refs = gs_realloc_array(NULL, n + 1, sizeof(*k->refs));
    k->labels = gs_realloc_array(NULL, n + 1, sizeof(*k->labels));
    k->changes = tsdb_changes_end(ev->engine->db);
    return k;
}

// --- keeping lists up to date ---

static int compare_refs(const void *a, const void *b)
{
    tsdb_ref x = *(const tsdb_ref *)a, y = *(const tsdb_ref *)b;
    return (x > y) - (x < y);
}

static void sort_unique(struct tsdb_refs *r)
{
    size_t kept = 0;
    if (r->len)
        qsort(r->items, r->len, sizeof(*r->items), compare_refs);
    for (size_t i = 0; i < r->len; i++)
        if (!i || r->items[i] != r->items[i - 1])
            r->items[kept++] = r->items[i];
    r->len = kept;
}

// False: a new search costs less.
static bool can_follow(const struct tsdb *db, const struct promql_node *n,
                       const struct promql_cached_series *k, uint64_t end)
{
    bool selective = false; // an equality matcher, whose list the search reads
    for (size_t i = 0; i < n->u.selector.n_matchers; i++)
        selective = selective || (n->u.selector.matchers[i].op == TSDB_EQ &&
                                  n->u.selector.matchers[i].value.len);
    return tsdb_changes_kept(db, k->changes) && (!selective || end - k->changes <= k->n + 256);
}

// The numbers that changed (ascending), and those of them that match now.
static void look_at_changes(const struct tsdb *db, const struct promql_node *n, uint64_t from,
                            uint64_t end, struct tsdb_refs *ret_changed, struct tsdb_refs *ret_now)
{
    size_t len = (size_t)(end - from);
    tsdb_ref *changed = gs_alloc_array(len, sizeof(*changed));
    for (size_t i = 0; i < len; i++)
        changed[i] = tsdb_change_at(db, from + i);
    *ret_changed = (struct tsdb_refs){changed, len, len};
    sort_unique(ret_changed);
    len = ret_changed->len;
    tsdb_ref *now = gs_alloc_array(len, sizeof(*now));
    memcpy(now, changed, len * sizeof(*now));
    *ret_now = (struct tsdb_refs){now, len, len};
    tsdb_filter(db, n->u.selector.matchers, n->u.selector.n_matchers, ret_now);
}

static bool concerned(const struct promql_cached_series *k, const struct tsdb_refs *changed)
{
    for (size_t i = 0; i < changed->len && k->n; i++)
        if (bsearch(&changed->items[i], k->refs, k->n, sizeof(*k->refs), compare_refs))
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

// Other queries may hold the old list, so it is replaced. NULL: it must be made anew.
static struct promql_cached_series *follow(struct promql_eval *ev, const struct promql_node *n,
                                           const struct gs_buf *key, struct promql_cached_series *k)
{
    struct tsdb *db = ev->engine->db;
    uint64_t end = tsdb_changes_end(db);
    struct promql_cached_series *ret = k;
    if (k->changes == end)
        return k;
    if (!can_follow(db, n, k, end))
        return NULL;
    struct tsdb_refs changed, now;
    look_at_changes(db, n, k->changes, end, &changed, &now);
    if (now.len || concerned(k, &changed)) {
        ret = new_list(ev, k->n + now.len);
        if (ret) {
            merge(db, k, &changed, &now, ret);
            promql_cache_put(ev->view, key, &ret->entry);
        }
    } else {
        k->changes = end;
    }
    tsdb_refs_finish(&changed);
    tsdb_refs_finish(&now);
    return ret;
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
    // A series that gets its first sample later must be in the list.
    struct gs_error *err = tsdb_find_any(ev->engine->db, n->u.selector.matchers,
                                         n->u.selector.n_matchers, ev->cfg.max_samples, &refs);
    if (!err)
        tsdb_isolation_filter(ev->engine->db, &ev->hold, &refs);
    // Later queries would lack the series that are hidden from this one.
    if (!err && tsdb_changes_end(ev->engine->db) == promql_cache_changes(ev->view))
        k = new_list(ev, refs.len);
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
                                             struct promql_cached_series **ret)
{
    GS_AUTO_BUF struct gs_buf key = {0};
    selector_key(n, &key);
    struct promql_entry *e = promql_cache_get(ev->view, &key);
    struct promql_cached_series *k =
        e ? follow(ev, n, &key, GS_CONTAINER_OF(e, struct promql_cached_series, entry)) : NULL;
    return k ? without_later(ev, k, ret) : search(ev, n, &key, ret);
}

// --- instant selectors ---

static struct gs_error *latest(struct promql_eval *ev, struct promql_cached_series *k, int64_t t_ms,
                               int64_t oldest, bool times, struct promql_matrix *ret)
{
    double *v;
    uint32_t *members;
    int64_t *t = NULL;
    struct gs_error *err = promql_eval_matrix(ev, ret, k->n);
    if (!err)
        err = promql_eval_alloc(ev, k->n, sizeof(*v), &v);
    if (!err)
        err = promql_eval_alloc(ev, k->n, sizeof(*members), &members);
    if (!err && times)
        err = promql_eval_alloc(ev, k->n, sizeof(*t), &t);
    if (err)
        return err;
    tsdb_latest(ev->engine->db, k->refs, k->n, t_ms, oldest, v, t);
    for (size_t i = 0; i < k->n; i++) {
        if (promql_absent(v[i]))
            continue;
        if (times)
            v[i] = (double)t[i] / 1000;
        members[ret->n] = k->refs[i];
        ret->series[ret->n++] = (struct promql_series){k->labels[i], &v[i], false};
    }
    err = promql_eval_set(ev, NULL, members, ret);
    return err ? err : promql_eval_count(ev, ret->n);
}

// Reads the values of a series at all steps. Returns false if it has none.
static bool fill_steps(struct promql_eval *ev, const struct promql_shift *shift, bool times,
                       double *v)
{
    const struct tsdb_samples *s = &ev->scratch;
    bool any = false;
    for (size_t i = 0, at = 0; i < ev->steps.n; i++) {
        int64_t t = promql_shifted(ev, shift, promql_step_time(&ev->steps, i));
        while (at < s->n && s->t[at] <= t)
            at++;
        if (!at || s->t[at - 1] <= t - ev->cfg.lookback_ms || promql_absent(s->v[at - 1]))
            continue;
        v[i] = times ? (double)s->t[at - 1] / 1000 : s->v[at - 1];
        any = true;
    }
    return any;
}

static struct gs_error *columns(struct promql_eval *ev, const struct promql_node *n,
                                struct promql_cached_series *k, int64_t mint, int64_t maxt,
                                bool times, struct promql_matrix *ret)
{
    uint32_t *members = NULL;
    struct gs_error *err = promql_eval_matrix(ev, ret, k->n);
    if (!err)
        err = promql_eval_alloc(ev, k->n, sizeof(*members), &members);
    double *v = NULL;
    for (size_t i = 0; i < k->n && !err; i++) {
        tsdb_read(ev->engine->db, k->refs[i], mint, maxt, &ev->scratch);
        if (!ev->scratch.n)
            continue;
        if (!v)
            err = promql_eval_column(ev, &v);
        if (!err && fill_steps(ev, &n->u.selector.shift, times, v)) {
            members[ret->n] = k->refs[i];
            ret->series[ret->n++] = (struct promql_series){k->labels[i], v, false};
            v = NULL;
        }
        if (!err)
            err = promql_eval_count(ev, ev->steps.n);
    }
    return err ? err : promql_eval_set(ev, NULL, members, ret);
}

// As in Prometheus, timestamp() with @ uses the time of @ without the offset, but reads only the
// samples that the offset selects.
static struct gs_error *fixed_times(struct promql_eval *ev, struct promql_cached_series *k,
                                    const struct promql_shift *shift, struct promql_matrix *ret)
{
    struct promql_steps steps = ev->steps;
    int64_t shifted = promql_shifted(ev, shift, 0), at = shifted + shift->offset_ms;
    int64_t oldest = (shifted > at ? shifted : at) - ev->cfg.lookback_ms;
    ev->steps.n = 1;
    struct gs_error *err = latest(ev, k, shifted < at ? shifted : at, oldest, true, ret);
    ev->steps = steps;
    return err || steps.n == 1 ? err : promql_eval_broadcast(ev, ret);
}

struct gs_error *promql_eval_selector(struct promql_eval *ev, const struct promql_node *n,
                                      bool times, struct promql_matrix *ret)
{
    const struct promql_shift *shift = &n->u.selector.shift;
    int64_t lookback = ev->cfg.lookback_ms;
    int64_t last = promql_shifted(ev, shift, promql_step_time(&ev->steps, ev->steps.n - 1));
    int64_t first = promql_shifted(ev, shift, ev->steps.start_ms) - lookback + 1;
    struct promql_cached_series *k;
    struct gs_error *err = promql_cached_series_select(ev, n, &k);
    if (err)
        return err;
    if (n->u.selector.extension == PROMQL_SMOOTHED && !times)
        return promql_eval_smoothed(ev, n, k, ret);
    if (times && shift->at != PROMQL_AT_NONE)
        return fixed_times(ev, k, shift, ret);
    return ev->steps.n == 1 ? latest(ev, k, last, last - lookback, times, ret)
                            : columns(ev, n, k, first, last, times, ret);
}

struct gs_error *promql_eval_sample_times(struct promql_eval *ev,
                                          const struct promql_node *selector,
                                          struct promql_matrix *ret)
{
    return promql_eval_selector(ev, selector, true, ret);
}
