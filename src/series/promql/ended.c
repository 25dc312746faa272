// SPDX-License-Identifier: Apache-2.0
// The series of a cached list that have ended, by the time of their end.
#include "promql/selectors.h"

#include "base/mem.h"

static int compare_ends(const void *a, const void *b)
{
    const struct promql_end *x = a, *y = b;
    return x->t_ms != y->t_ms ? (x->t_ms > y->t_ms) - (x->t_ms < y->t_ms)
                              : (x->ref > y->ref) - (x->ref < y->ref);
}

void promql_ended_add(struct promql_ended *x, struct tsdb *db, struct promql_end *more, size_t n,
                      uint32_t name)
{
    struct tsdb_refs changed = {0};
    struct promql_end *items = gs_alloc_array(x->n + n + 1, sizeof(*items));
    size_t kept = 0, at = 0;
    if (x->n)
        tsdb_changes_read(db, x->changes, &changed);
    if (n)
        qsort(more, n, sizeof(*more), compare_ends);
    for (size_t i = 0; i < x->n; i++) {
        if (tsdb_refs_has(changed.items, changed.len, x->items[i].ref))
            continue;
        while (at < n && more[at].t_ms < x->items[i].t_ms)
            items[kept++] = more[at++];
        items[kept++] = x->items[i];
    }
    while (at < n)
        items[kept++] = more[at++];
    free(x->items);
    if (x->n && x->name != name)
        name = TSDB_NO_SYMBOL;
    *x = (struct promql_ended){items, kept, name, tsdb_changes_end(db)};
    tsdb_refs_finish(&changed);
}

void promql_ended_after(const struct promql_ended *x, struct tsdb *db, int64_t since_ms,
                        struct tsdb_refs *ret)
{
    size_t low = 0, high = x->n, at = 0, kept = 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (x->items[middle].t_ms > since_ms)
            high = middle;
        else
            low = middle + 1;
    }
    size_t n = x->n - low;
    if (!n)
        return;
    struct tsdb_refs changed;
    tsdb_ref *refs = gs_alloc_array(n, sizeof(*refs));
    for (size_t i = 0; i < n; i++)
        refs[i] = x->items[low + i].ref;
    tsdb_refs_sort(refs, n);
    tsdb_changes_read(db, x->changes, &changed);
    for (size_t i = 0; i < n; i++) {
        while (at < changed.len && changed.items[at] < refs[i])
            at++;
        if (at == changed.len || changed.items[at] != refs[i])
            refs[kept++] = refs[i];
    }
    tsdb_refs_finish(&changed);
    *ret = (struct tsdb_refs){refs, kept, n};
}
