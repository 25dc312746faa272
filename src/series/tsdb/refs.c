// SPDX-License-Identifier: Apache-2.0
// Lists of numbers of series.
#include "tsdb/tsdb_private.h"

#include "base/mem.h"

#define FEW ((size_t)256) // numbers that qsort() sorts as fast

void tsdb_refs_finish(struct tsdb_refs *r)
{
    free(r->items);
    *r = (struct tsdb_refs){0};
}

static int compare_refs(const void *a, const void *b)
{
    tsdb_ref x = *(const tsdb_ref *)a, y = *(const tsdb_ref *)b;
    return (x > y) - (x < y);
}

// By digits, which takes a tenth of the time of qsort().
static void sort_many(tsdb_ref *refs, size_t n)
{
    enum { BITS = 11, DIGITS = 1 << BITS };
    GS_AUTO_FREE tsdb_ref *sorted = gs_alloc_array(n, sizeof(*sorted));
    for (unsigned shift = 0; shift < 32; shift += BITS) {
        size_t place[DIGITS + 1] = {0};
        for (size_t i = 0; i < n; i++)
            place[(refs[i] >> shift) % DIGITS + 1]++;
        for (size_t i = 0; i < DIGITS; i++)
            place[i + 1] += place[i];
        for (size_t i = 0; i < n; i++)
            sorted[place[(refs[i] >> shift) % DIGITS]++] = refs[i];
        memcpy(refs, sorted, n * sizeof(*refs));
    }
}

void tsdb_refs_sort(tsdb_ref *refs, size_t n)
{
    if (n > FEW)
        sort_many(refs, n);
    else if (n)
        qsort(refs, n, sizeof(*refs), compare_refs);
}

bool tsdb_refs_has(const tsdb_ref *refs, size_t n, tsdb_ref ref)
{
    return n && bsearch(&ref, refs, n, sizeof(*refs), compare_refs);
}
