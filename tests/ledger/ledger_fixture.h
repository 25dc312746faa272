// SPDX-License-Identifier: Apache-2.0
// Samples of a moment, written as series.
#pragma once

#include "unit.h"

#include "base/mem.h"
#include "ledger/ledger.h"

#include <math.h>

#define MINUTE INT64_C(60000)
#define T0     INT64_C(1767319200000) // 2026-01-02T02:00:00Z

// labels: "a=1,b=2".
static inline void add_sample(struct ledger_observation *o, enum ledger_series s,
                              const char *labels, double v)
{
    struct metrics_label l[16];
    size_t n = 0;
    struct gs_slice rest = gs_slice_of(labels);
    while (rest.data && rest.len) {
        struct gs_slice value = gs_slice_cut(&rest, ',');
        struct gs_slice name = gs_slice_cut(&value, '=');
        l[n++] = (struct metrics_label){name, value};
    }
    ledger_observation_add(o, s, l, n, v);
}

struct sum {
    const char *text; // of a dimension; NULL: all rows
    enum ledger_dimension dimension;
    struct ledger_amount amount;
    size_t rows;
};

static bool add_to_sum(void *arg, int64_t hour_ms, const struct ledger_key *key,
                       const struct ledger_amount *a)
{
    struct sum *s = arg;
    (void)hour_ms;
    if (s->text && strcmp(key->text[s->dimension], s->text) != 0)
        return true;
    ledger_amount_add(&s->amount, a);
    s->rows++;
    return true;
}

static inline double minutes_of(const struct ledger_table *t, enum ledger_dimension d,
                                const char *text, enum ledger_state state)
{
    struct sum s = {.text = text, .dimension = d};
    ledger_table_each(t, add_to_sum, &s);
    return s.amount.ms[state] / (double)MINUTE;
}

static inline double all_minutes(const struct ledger_table *t, enum ledger_state state)
{
    return minutes_of(t, LEDGER_NODE, NULL, state);
}

// Of workloads at zero.
static inline double saved_minutes(const struct ledger_table *t, enum ledger_dimension d,
                                   const char *text)
{
    struct sum s = {.text = text, .dimension = d};
    ledger_table_each(t, add_to_sum, &s);
    return s.amount.saved_ms / (double)MINUTE;
}

#define assert_near(a, b) assert_true(fabs((a) - (b)) < 1e-6)
