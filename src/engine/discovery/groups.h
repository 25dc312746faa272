// SPDX-License-Identifier: Apache-2.0
// Lists of target groups as files and HTTP servers give them: [{"targets": [...], "labels":
// {...}}].
#pragma once

#include "base/arena.h"
#include "codec/json.h"
#include "engine/discovery/discovery.h"

struct discovery_group_list {
    struct gs_arena arena;
    struct discovery_group *items;
    size_t len, cap;
};
void discovery_group_list_add(struct discovery_group_list *l, struct discovery_group g);
void discovery_group_list_finish(struct discovery_group_list *l);

// What Prometheus refuses of such a list. NULL is an empty one.
struct gs_error *discovery_groups_check(const json_t *list);
// The groups of a list that was checked, their sources "FROM:0", "FROM:1" …, with the label that
// tells from where; and empty ones for those that the earlier list had more.
void discovery_groups_add(struct discovery_group_list *l, const json_t *list, const char *from,
                          const char *from_label, size_t n_before);
