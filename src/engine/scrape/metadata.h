// SPDX-License-Identifier: Apache-2.0
// What a target says of its metric families in # HELP, # TYPE and # UNIT.
#pragma once

#include "metrics/reader.h"

struct scrape_metadata; // of one target

struct scrape_metadata *scrape_metadata_new(void);
void scrape_metadata_free(struct scrape_metadata *m);
// Parts that m does not have (help, unit, type_name) leave what is known as it is.
void scrape_metadata_set(struct scrape_metadata *m, const struct metrics_metadata *part);
// Families that are gone: what is set between the two calls stays, the rest is forgotten.
void scrape_metadata_begin_sweep(struct scrape_metadata *m);
void scrape_metadata_sweep(struct scrape_metadata *m);
// In unspecified order. help and unit are unescaped; type_name is never NULL ("unknown").
void scrape_metadata_each(const struct scrape_metadata *m,
                          void (*fn)(void *arg, const struct metrics_metadata *m), void *arg);
size_t scrape_metadata_len(const struct scrape_metadata *m);
