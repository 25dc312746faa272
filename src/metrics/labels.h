// SPDX-License-Identifier: Apache-2.0
// Label sets: sorted by name, interned as one immutable counted object, so that equal sets of one
// table are the same pointer. The metric name is the label __name__.
#pragma once

#include "base/slice.h"

#include <stdint.h>

struct metrics_label {
    struct gs_slice name, value;
};

struct metrics_labels; // immutable

struct metrics_labels *metrics_labels_ref(struct metrics_labels *l);
void metrics_labels_unref(struct metrics_labels *l);
// Sorts and copies. The last of duplicate names wins; empty values are dropped.
struct metrics_labels *metrics_labels_new(const struct metrics_label *items, size_t n);
size_t metrics_labels_len(const struct metrics_labels *l);
const struct metrics_label *metrics_labels_at(const struct metrics_labels *l, size_t i);
struct gs_slice metrics_labels_get(const struct metrics_labels *l,
                                   const char *name); // empty: absent
uint64_t metrics_labels_hash(const struct metrics_labels *l);
bool metrics_labels_eq(const struct metrics_labels *a, const struct metrics_labels *b);
