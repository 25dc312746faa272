// SPDX-License-Identifier: Apache-2.0
// The labels of a scraped sample in the store. Private to the room.
#pragma once

#include "engine/config/relabel.h"

struct scrape_sample_target {
    struct metrics_label *items;
    size_t n;
};

// Scraped labels (with __name__) and the target's, into b: with honor_labels the scraped ones win,
// else they go to exported_… .
void scrape_sample_labels_merge(const struct scrape_sample_target *target, bool honor_labels,
                                const struct metrics_label *scraped, size_t n,
                                struct engine_config_label_builder *b);
// label_limit, label_name_length_limit, label_value_length_limit, and that there is a name.
struct gs_error *scrape_sample_labels_check(const struct engine_config_scrape_config *cfg,
                                            const struct engine_config_label_builder *b);
