// SPDX-License-Identifier: Apache-2.0
// The series with a label pair. Numbers are stored as differences, because nearly all are small: a
// byte for most series.
#include "tsdb/tsdb_private.h"

#include "base/mem.h"

#define MAX_DIFFERENCE 5 // bytes
#define MAX_LATE       ((uint32_t)1024)

// The difference from the number before, less 1. The number before the first one is -1.
static uint8_t *put(uint8_t *at, uint32_t difference)
{
    for (; difference >= 0x80; difference >>= 7)
        *at++ = (uint8_t)(difference | 0x80);
    *at++ = (uint8_t)difference;
    return at;
}

static inline const uint8_t *get(const uint8_t *at, tsdb_ref *last)
{
    uint32_t difference = *at & 0x7f;
    for (unsigned shift = 7; *at++ & 0x80; shift += 7)
        difference |= (uint32_t)(*at & 0x7f) << shift;
    *last += difference + 1;
    return at;
}

static void make_room(struct tsdb_postings *list, size_t n_bytes)
{
    if (n_bytes <= list->cap)
        return;
    size_t cap = (n_bytes + n_bytes / 8 + 15) / 16 * 16 + 8; // a usable size of the heap
    list->bytes = gs_realloc_array(list->bytes, cap, 1);
    list->cap = (uint32_t)cap;
}

// Adds and removes numbers, both ascending. Only the part of the list between the first and the
// last of them is written again.
static void change(struct tsdb_postings *list, const tsdb_ref *added, size_t n_added,
                   const tsdb_ref *removed, size_t n_removed)
{
    const uint8_t *at = list->bytes, *end = at + list->n_bytes, *next = at;
    tsdb_ref before = UINT32_MAX, ref = UINT32_MAX;
    tsdb_ref first = UINT32_MAX, last = 0;
    if (n_added) {
        first = added[0];
        last = added[n_added - 1];
    }
    if (n_removed && removed[0] < first)
        first = removed[0];
    if (n_removed && removed[n_removed - 1] > last)
        last = removed[n_removed - 1];
    for (; at < end; at = next, before = ref) {
        next = get(at, &ref);
        if (ref >= first)
            break;
    }
    // Room for the numbers up to `last`, and for the one after them.
    size_t kept = (size_t)(at - list->bytes);
    size_t most = n_added * MAX_DIFFERENCE + (size_t)(end - at) + MAX_DIFFERENCE;
    GS_AUTO_FREE uint8_t *changed = gs_alloc(most);
    uint8_t *out = changed;
    uint32_t len = list->len;
    while (at < end || n_added) {
        bool is_new = n_added && (at == end || *added < ref);
        tsdb_ref now = is_new ? *added : ref;
        while (n_removed && *removed < now) {
            removed++;
            n_removed--;
        }
        if (!is_new && now > last && !n_added) {
            out = put(out, now - before - 1);
            before = now;
            at = next;
            break; // those that follow stay as they are
        }
        if (n_removed && *removed == now) {
            len--;
        } else {
            out = put(out, now - before - 1);
            before = now;
        }
        if (is_new) {
            added++;
            n_added--;
            continue;
        }
        at = next;
        if (at < end)
            next = get(at, &ref);
    }
    size_t n = (size_t)(out - changed), rest = (size_t)(end - at), from = list->n_bytes - rest;
    if (!rest)
        list->last = before;
    make_room(list, kept + n + rest);
    memmove(list->bytes + kept + n, list->bytes + from, rest);
    if (n)
        memcpy(list->bytes + kept, changed, n);
    list->n_bytes = (uint32_t)(kept + n + rest);
    list->len = len;
}

static void take_late(struct tsdb_postings *list)
{
    if (!list->n_late)
        return;
    tsdb_refs_sort(list->late, list->n_late);
    change(list, list->late, list->n_late, NULL, 0);
    free(list->late);
    list->late = NULL;
    list->n_late = 0;
}

void tsdb_postings_add(struct tsdb_postings *list, tsdb_ref ref)
{
    list->len++;
    if (list->n_bytes && ref <= list->last) {
        if (list->n_late == MAX_LATE)
            take_late(list);
        if ((list->n_late & (list->n_late - 1)) == 0) // full: it grows at powers of two
            list->late = gs_realloc_array(list->late, list->n_late ? list->n_late * 2 : 1,
                                          sizeof(*list->late));
        list->late[list->n_late++] = ref;
        return;
    }
    make_room(list, list->n_bytes + MAX_DIFFERENCE);
    tsdb_ref before = list->n_bytes ? list->last : UINT32_MAX;
    list->n_bytes = (uint32_t)(put(list->bytes + list->n_bytes, ref - before - 1) - list->bytes);
    list->last = ref;
}

void tsdb_postings_remove(struct tsdb_postings *list, const tsdb_ref *refs, size_t n)
{
    take_late(list);
    if (n && list->n_bytes)
        change(list, NULL, 0, refs, n);
}

void tsdb_postings_read(struct tsdb_postings *list, struct tsdb_refs *ret)
{
    take_late(list);
    if (ret->len + list->len > ret->cap) {
        ret->cap = ret->len + list->len;
        ret->items = gs_realloc_array(ret->items, ret->cap, sizeof(*ret->items));
    }
    tsdb_ref ref = UINT32_MAX;
    for (const uint8_t *at = list->bytes; at < list->bytes + list->n_bytes;) {
        at = get(at, &ref);
        ret->items[ret->len++] = ref;
    }
}

size_t tsdb_postings_bytes(const struct tsdb_postings *list)
{
    return sizeof(*list) + list->cap + list->n_late * sizeof(*list->late);
}

void tsdb_postings_finish(struct tsdb_postings *list)
{
    free(list->bytes);
    free(list->late);
}
