// SPDX-License-Identifier: Apache-2.0
// How long pods of the workloads of a report take to start, by phase: from the series of the engine
// (gpuscale_workload_startup_seconds). Without them, a report is complete.
#include "report/report_private.h"

#include "base/columns.h"
#include "base/mem.h"
#include "base/slice.h"

#include <math.h>

#define SERIES     "gpuscale_workload_startup_seconds"
#define MAX_LISTED 20 // in a table

static const char *const phases[] = {"pending", "image", "ready", "total"};

// Only of workloads that are rows: others have no GPU.
static bool is_row(const json_t *data, const char *ns, const char *workload)
{
    const json_t *rows = json_object_get(data, "rows"), *row;
    size_t i;
    json_array_foreach ((json_t *)rows, i, row)
        if (gs_streq(codec_json_str(row, "namespace", NULL), ns) &&
            gs_streq(codec_json_str(row, "workload", NULL), workload))
            return true;
    return false;
}

static json_t *start_of(json_t *list, const char *ns, const char *workload)
{
    json_t *item;
    size_t i;
    json_array_foreach (list, i, item)
        if (gs_streq(codec_json_str(item, "namespace", NULL), ns) &&
            gs_streq(codec_json_str(item, "workload", NULL), workload))
            return item;
    item = json_pack("{s:s, s:s, s:{}}", "namespace", ns, "workload", workload, "p90Seconds");
    json_array_append_new(list, item);
    return item;
}

static void read_series(const json_t *data, const json_t *series, json_t *list)
{
    const json_t *metric = json_object_get(series, "metric");
    const char *ns = codec_json_str(metric, "namespace", NULL);
    const char *workload = codec_json_str(metric, "workload", NULL);
    const char *phase = codec_json_str(metric, "phase", NULL);
    double v = codec_json_sample(series);
    if (!isfinite(v) || v < 0 || !ns || !workload || !phase || !is_row(data, ns, workload))
        return;
    json_t *item = start_of(list, ns, workload);
    if (codec_json_str(metric, "quantile", NULL))
        json_object_set_new(json_object_get(item, "p90Seconds"), phase, json_real(v));
    else if (gs_streq(phase, "total"))
        codec_json_set_int(item, "n", (int64_t)fmin(v, 1e15));
}

void report_read_starts(const json_t *answer, json_t *data)
{
    const json_t *result = codec_json_get(answer, "data", "result", NULL), *series;
    json_t *list = json_array();
    size_t i;
    json_array_foreach ((json_t *)result, i, series)
        read_series(data, series, list);
    if (json_array_size(list))
        json_object_set(data, "starts", list);
    json_decref(list);
}

void report_fetch_starts(const struct query_peer *peer, json_t *data)
{
    CODEC_AUTO_JSON json_t *answer = NULL;
    GS_AUTO_ERROR struct gs_error *err =
        query_fetch(peer, "/api/v1/query",
                    GS_SLICE("query=%7B__name__%3D~%22" SERIES
                             "%28_count%29%3F%22%2Cquantile%3D~%220.9%7C%22%7D"),
                    &answer);
    if (!err)
        report_read_starts(answer, data);
}

static void print_start(const json_t *start, struct gs_buf *out)
{
    GS_AUTO_FREE char *name = gs_format("  %s/%s:", codec_json_str(start, "namespace", NULL),
                                        codec_json_str(start, "workload", NULL));
    int64_t n = codec_json_int(start, 0, "n", NULL);
    gs_columns_clean(out, gs_slice_of(name));
    for (size_t i = 0; i < GS_ARRAY_LEN(phases); i++) {
        const json_t *s = codec_json_get(start, "p90Seconds", phases[i], NULL);
        if (s)
            gs_buf_addf(out, " %s %.1fs", phases[i], json_number_value(s));
    }
    if (n > 0)
        gs_buf_addf(out, ", from %lld start%s", (long long)n, n == 1 ? "" : "s");
    gs_buf_add_char(out, '\n');
}

void report_print_starts(const json_t *data, struct gs_buf *out)
{
    const json_t *list = json_object_get(data, "starts"), *start;
    size_t i, n = json_array_size(list);
    if (n)
        gs_buf_add_str(out, "\nStarts of pods, nine of ten within:\n");
    json_array_foreach ((json_t *)list, i, start)
        if (i < MAX_LISTED)
            print_start(start, out);
    if (n > MAX_LISTED)
        gs_buf_addf(out, "  and of %zu more workloads\n", n - MAX_LISTED);
}
