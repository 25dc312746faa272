// SPDX-License-Identifier: Apache-2.0
// Relabelling:
// https://prometheus.io/docs/prometheus/latest/configuration/configuration/#relabel_config
#pragma once

#include "engine/config/config.h"

// A label set that is being changed: sorted by name, unique, no empty values.
struct engine_config_label_builder {
    struct gs_arena arena;
    struct metrics_label *items;
    size_t len, cap;
};
void engine_config_labels_set(struct engine_config_label_builder *b, struct gs_slice name,
                              struct gs_slice value);
struct gs_slice engine_config_labels_get(const struct engine_config_label_builder *b,
                                         struct gs_slice name);
void engine_config_labels_clear(struct engine_config_label_builder *b);
void engine_config_labels_finish(struct engine_config_label_builder *b);

// False: dropped.
bool engine_config_relabel(const struct engine_config_relabels *r,
                           struct engine_config_label_builder *b);

// A copy of labels and their texts.
struct metrics_label *engine_config_labels_copy(struct gs_arena *arena,
                                                const struct metrics_label *l, size_t n);
