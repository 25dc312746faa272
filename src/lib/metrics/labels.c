// SPDX-License-Identifier: Apache-2.0
// A set is one allocation: the header, the sorted array of slices, then the bytes of the strings.
#include "metrics/labels.h"

#include "base/hmap.h"
#include "base/mem.h"

struct metrics_labels {
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
