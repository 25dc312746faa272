// SPDX-License-Identifier: Apache-2.0
// Label lists under construction, in an arena. Private to the room.
#pragma once

#include "base/arena.h"
#include "codec/json.h"
#include "metrics/labels.h"

struct discovery_labels {
    struct gs_arena *arena;
    struct metrics_label *items;
    size_t len, cap;
};

// name and value are borrowed; NULL or "" values are left out, which is the same as absent.
void discovery_labels_add(struct discovery_labels *l, const char *name, const char *value);
void discovery_labels_addf(struct discovery_labels *l, const char *name, const char *fmt, ...)
    GS_PRINTF(3, 4);
void discovery_labels_add_all(struct discovery_labels *l, const struct discovery_labels *from);
// __meta_kubernetes_<role>_name, _label_*, _labelpresent_*, _annotation_*, _annotationpresent_*
void discovery_labels_add_meta(struct discovery_labels *l, const char *role, const json_t *obj);

char *discovery_format(struct gs_arena *a, const char *fmt, ...) GS_PRINTF(2, 3);
// "10.0.0.1:80", "[fd00::1]:80"
const char *discovery_join_host_port(struct gs_arena *a, const char *host, int64_t port);
