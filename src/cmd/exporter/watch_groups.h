// SPDX-License-Identifier: Apache-2.0
// collection.watchGroups of --config-file: fields that are read less often than the others. Which
// ones is said by patterns of names as Go's path.Match has them: * ? [a-z] [^a-z] and \.
#pragma once

#include "base/error.h"
#include "exporter/counters.h"

#include <jansson.h>

struct watch_group {
    char *name;
    int64_t interval_ms;
    char **patterns;
    size_t n_patterns;
};

struct watch_groups {
    struct watch_group *items;
    size_t len;
};

// groups: the list of the file, or NULL.
struct gs_error *watch_groups_read(const json_t *groups, struct watch_groups *ret);
void watch_groups_finish(struct watch_groups *g);
// The shortest interval; 0: no group.
int64_t watch_groups_shortest_ms(const struct watch_groups *g);
// Sets every_ns of the rows: that of their group, of the others base_ms. A field that two groups
// name is an error; a group that names none is told.
struct gs_error *watch_groups_apply(const struct watch_groups *g, int64_t base_ms,
                                    struct exporter_counters *c);
