// SPDX-License-Identifier: Apache-2.0
// Samples of any labels become hours whose sum is the time of the GPUs, and any report of an engine
// can be grouped again and printed. Input: {"samples": [[SERIES, {LABELS}, VALUE], …]} or the data
// of a report.
#include "report/report_private.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_LABELS = 32, MINUTE_MS = 60000 };

static void add_one(struct ledger_observation *o, const json_t *sample)
{
    struct metrics_label labels[MAX_LABELS];
    int64_t series = json_integer_value(json_array_get(sample, 0));
    const char *name;
    json_t *value;
    size_t n = 0;
    if (series < 0 || series >= LEDGER_N_SERIES)
        return;
    json_object_foreach (json_array_get(sample, 1), name, value) {
        if (json_is_string(value) && n < MAX_LABELS)
            labels[n++] =
                (struct metrics_label){gs_slice_of(name), gs_slice_of(json_string_value(value))};
    }
    const json_t *v = json_array_get(sample, 2);
    ledger_observation_add(o, (enum ledger_series)series, labels, n,
                           json_is_number(v) ? json_number_value(v) : NAN);
}

static bool check_row(void *arg, int64_t hour_ms, const struct ledger_key *key,
                      const struct ledger_amount *a)
{
    double *sum = arg;
    (void)hour_ms, (void)key;
    for (size_t i = 0; i < LEDGER_N_STATES; i++)
        if (!(a->ms[i] >= 0))
            abort();
    *sum += ledger_total_ms(a);
    return true;
}

static void try_samples(const json_t *samples)
{
    struct ledger_observation *o = ledger_observation_new("team");
    struct ledger_meter *m = ledger_meter_new();
    struct ledger_table *t = ledger_table_new(100);
    const struct ledger_gpu *g;
    double sum = 0, known = 0;
    size_t i;
    json_t *sample;
    json_array_foreach ((json_t *)samples, i, sample)
        add_one(o, sample);
    ledger_meter_observe(m, o, 0, MINUTE_MS, t);
    ledger_table_each(t, check_row, &sum);
    for (size_t pos = 0; (g = ledger_meter_next(m, &pos));)
        known += g->share;
    // More if parts of partitioned GPUs are stranded.
    if (sum < known * MINUTE_MS - 1)
        abort();
    ledger_meter_gap(m, MINUTE_MS, (int64_t)2 * MINUTE_MS);
    ledger_meter_observe(m, o, (int64_t)2 * MINUTE_MS, (int64_t)3 * MINUTE_MS, t);
    ledger_table_free(t);
    ledger_meter_free(m);
    ledger_observation_free(o);
}

static void try_report(const json_t *report)
{
    struct ledger_report_options o = {.until_ms = MINUTE_MS};
    CODEC_AUTO_JSON json_t *again = NULL;
    GS_AUTO_BUF struct gs_buf out = {0};
    gs_error_free(ledger_parse_by("namespace,day", o.by, &o.n_by));
    gs_error_free(report_regroup(report, &o, &again));
    const json_t *const both[] = {report, again};
    for (size_t i = 0; i < 2; i++) {
        report_print_table(both[i], &out);
        report_print_csv(both[i], &out);
        report_print_html(both[i], &out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CODEC_AUTO_JSON json_t *input = NULL;
    struct gs_error *err = codec_json_parse(gs_slice_make(data, size), false, &input);
    const json_t *samples = json_object_get(input, "samples");
    if (samples)
        try_samples(samples);
    else if (json_is_object(input))
        try_report(input);
    gs_error_free(err);
    return 0;
}
