// SPDX-License-Identifier: Apache-2.0
// A set is one allocation: the header, the sorted array of slices, then the bytes of the strings.
#include "metrics/labels.h"

#include "base/hmap.h"
#include "base/mem.h"

struct metrics_labels {
    uint64_t hash;
    size_t len;
    struct metrics_label items[];
};

// Insertion sort: sets are short and mostly sorted already. A later duplicate replaces the earlier.
static size_t sort_unique(struct metrics_label *out, const struct metrics_label *in, size_t n)
{
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        size_t at = len;
        int order = 1;
        while (at > 0 && (order = gs_slice_compare(out[at - 1].name, in[i].name)) > 0)
            at--;
        if (at > 0 && order == 0) {
            out[at - 1] = in[i];
            continue;
        }
        memmove(&out[at + 1], &out[at], (len - at) * sizeof(*out));
        out[at] = in[i];
        len++;
    }
    return len;
}

static struct gs_slice copy_bytes(char **at, struct gs_slice s)
{
    char *start = *at;
    if (s.len)
        memcpy(start, s.data, s.len);
    *at += s.len;
    return gs_slice_make(start, s.len);
}

struct metrics_labels *metrics_labels_new(const struct metrics_label *items, size_t n)
{
    GS_AUTO_FREE struct metrics_label *sorted = gs_alloc_array(n, sizeof(*sorted));
    size_t unique = sort_unique(sorted, items, n), len = 0, bytes = 0;
    for (size_t i = 0; i < unique; i++) {
        if (!sorted[i].value.len) // an empty label is an absent label
            continue;
        bytes += sorted[i].name.len + sorted[i].value.len;
        sorted[len++] = sorted[i];
    }
    size_t head = sizeof(struct metrics_labels) + len * sizeof(struct metrics_label);
    struct metrics_labels *l = gs_alloc(head + bytes);
    l->len = len;
    char *at = (char *)l + head;
    for (size_t i = 0; i < len; i++) {
        l->items[i].name = copy_bytes(&at, sorted[i].name);
        l->items[i].value = copy_bytes(&at, sorted[i].value);
        uint64_t pair[2] = {gs_hash(sorted[i].name.data, sorted[i].name.len),
                            gs_hash(sorted[i].value.data, sorted[i].value.len)};
        l->hash = l->hash * UINT64_C(0x9E3779B97F4A7C15) + gs_hash(pair, sizeof(pair));
    }
    return l;
}

void metrics_labels_free(struct metrics_labels *l)
{
    free(l);
}

size_t metrics_labels_len(const struct metrics_labels *l)
{
    return l->len;
}

const struct metrics_label *metrics_labels_at(const struct metrics_labels *l, size_t i)
{
    return &l->items[i];
}

struct gs_slice metrics_labels_get(const struct metrics_labels *l, const char *name)
{
    struct gs_slice key = gs_slice_of(name);
    size_t low = 0, high = l->len;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = gs_slice_compare(l->items[mid].name, key);
        if (order == 0)
            return l->items[mid].value;
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return (struct gs_slice){NULL, 0};
}

uint64_t metrics_labels_hash(const struct metrics_labels *l)
{
    return l->hash;
}

bool metrics_labels_eq(const struct metrics_labels *a, const struct metrics_labels *b)
{
    if (a == b)
        return true;
    if (a->hash != b->hash || a->len != b->len)
        return false;
    for (size_t i = 0; i < a->len; i++)
        if (!gs_slice_eq(a->items[i].name, b->items[i].name) ||
            !gs_slice_eq(a->items[i].value, b->items[i].value))
            return false;
    return true;
}
