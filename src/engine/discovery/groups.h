// SPDX-License-Identifier: Apache-2.0
// Lists of target groups as files and HTTP servers give them: [{"targets": [...], "labels":
// {...}}].
#pragma once

#include "base/arena.h"
#include "codec/json.h"
#include "engine/discovery/discovery.h"

struct sd_group_list {
    struct gs_arena arena;
    struct sd_group *items;
    size_t len, cap;
};
void sd_group_list_add(struct sd_group_list *l, struct sd_group g);
void sd_group_list_finish(struct sd_group_list *l);

// What Prometheus refuses of such a list. NULL is an empty one.
struct gs_error *sd_groups_check(const json_t *list);
// The groups of a list that was checked, their sources "FROM:0", "FROM:1" …, with the label that
// tells from where; and empty ones for those that the earlier list had more.
void sd_groups_add(struct sd_group_list *l, const json_t *list, const char *from,
                   const char *from_label, size_t n_before);
