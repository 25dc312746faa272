// SPDX-License-Identifier: Apache-2.0
// Values of an evaluation: series as columns over the steps of a query. An instant query has one
// step. Everything of a query lives in its arena, under its byte limit.
#pragma once

#include "base/arena.h"
#include "tsdb/tsdb.h"

// No value at this step. It has the bits of the staleness marker, which never leaves a selector, so
// no computed NaN is mistaken for it: test with promql_absent(), never with isnan().
#define PROMQL_ABSENT_BITS UINT64_C(0x7ff0000000000002)
static inline bool promql_absent(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof(bits));
    return bits == PROMQL_ABSENT_BITS;
}
static inline double promql_absent_value(void)
{
    uint64_t bits = PROMQL_ABSENT_BITS;
    double v;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

struct promql_series {
    // Symbols of the store's table, or of the query's own (texts made by the query); both are read
    // by promql_text(). Equal texts have equal symbols within a query.
    struct tsdb_labels labels;
    double *v; // n_steps columns
};

// A vector (or, with n 1 and no labels, a scalar) over all steps.
struct promql_matrix {
    struct promql_series *series;
    size_t n, cap;
    size_t n_steps;
    uint64_t set; // not 0: which series these are; see cache.h
};

// Warnings and infos of a query, deduplicated, with the position appended: texts as Prometheus'.
struct promql_notes;
void promql_note_warn(struct promql_notes *n, uint32_t pos, const char *fmt, ...) GS_PRINTF(3, 4);
void promql_note_info(struct promql_notes *n, uint32_t pos, const char *fmt, ...) GS_PRINTF(3, 4);
// A quantile that is not between 0 and 1.
void promql_note_quantile(struct promql_notes *n, uint32_t pos, double q);
// Whether the last call was the same, for what is asked at every step. what: any address.
bool promql_noted(struct promql_notes *n, uint32_t pos, const void *what);
