// SPDX-License-Identifier: Apache-2.0
// Reads the rows of an engine's report, and groups them again with other prices.
#include "report/report_private.h"

#include "base/clock.h"
#include "base/mem.h"

#include <math.h>

double report_number(const json_t *row, const char *key)
{
    double v = json_number_value(json_object_get(row, key));
    return isfinite(v) ? v : 0;
}

static const char *text_or_empty(const json_t *row, const char *key)
{
    const char *text = codec_json_str(row, key, NULL);
    return text ? text : "";
}

// Rows by day have no hour.
static struct gs_error *read_hour(const json_t *row, int64_t *ret)
{
    const char *hour = codec_json_str(row, "hour", NULL), *day = codec_json_str(row, "day", NULL);
    if (gs_streq(hour ? hour : day, LEDGER_OTHER)) {
        *ret = LEDGER_OTHER_HOURS;
        return NULL;
    }
    GS_AUTO_FREE char *of_day = gs_format("%sT00:00:00Z", day ? day : "1970-01-01");
    return gs_parse_rfc3339(gs_slice_of(hour ? hour : of_day), ret);
}

static struct gs_error *read_row(const json_t *row, struct ledger_report *report)
{
    struct ledger_key key;
    struct ledger_amount a;
    int64_t hour_ms = 0;
    struct gs_error *err = read_hour(row, &hour_ms);
    if (err)
        return err;
    for (enum ledger_dimension d = 0; d < LEDGER_N_DIMENSIONS; d++)
        key.text[d] = text_or_empty(row, ledger_dimension_name(d));
    for (enum ledger_state s = 0; s < LEDGER_N_STATES; s++)
        a.ms[s] = report_number(row, ledger_state_name(s)) * (double)LEDGER_HOUR_MS;
    a.used_ms = report_number(row, "used") * (double)LEDGER_HOUR_MS;
    a.saved_ms = report_number(row, "saved") * (double)LEDGER_HOUR_MS;
    ledger_report_add(report, hour_ms, &key, &a);
    return NULL;
}

static struct gs_error *read_idle(const json_t *item, struct ledger_report *report)
{
    int64_t since = 0;
    double seconds = report_number(item, "seconds");
    struct gs_error *err = gs_parse_rfc3339(gs_slice_of(text_or_empty(item, "since")), &since);
    if (err)
        return err;
    const struct ledger_gpu g = {
        .id = "",
        .uuid = text_or_empty(item, "UUID"),
        .gpu = text_or_empty(item, "gpu"),
        .node = text_or_empty(item, "node"),
        .pool = text_or_empty(item, "pool"),
        .machine = text_or_empty(item, "machine"),
        .model = text_or_empty(item, "model"),
        .ns = text_or_empty(item, "namespace"),
        .pod = text_or_empty(item, "pod"),
        .workload = text_or_empty(item, "workload"),
        .owner = text_or_empty(item, "owner"),
        .share = report_number(item, "gpus"),
        .idle_since_ms = since,
        .idle_ms = seconds > 0 && seconds < 1e12 ? (int64_t)(seconds * 1000) : 0,
    };
    ledger_report_add_idle(report, &g);
    return NULL;
}

struct gs_error *report_regroup(const json_t *data, const struct ledger_report_options *o,
                                json_t **ret)
{
    GS_CLEANUP(ledger_report_freep) struct ledger_report *report = ledger_report_new(o);
    const json_t *rows = json_object_get(data, "rows");
    struct gs_error *err =
        json_is_array(rows) ? NULL : gs_error_new(GS_EPROTO, "the response has no rows");
    size_t i;
    json_t *row;
    json_array_foreach ((json_t *)rows, i, row) {
        if (!err)
            err = read_row(row, report);
    }
    json_array_foreach (json_object_get(data, "idle"), i, row) {
        if (!err)
            err = read_idle(row, report);
    }
    if (err)
        return gs_error_wrap(err, "the report of the engine");
    *ret = ledger_report_json(report);
    return NULL;
}
