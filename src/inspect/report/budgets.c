// SPDX-License-Identifier: Apache-2.0
// What became of the GPUs of budgets, from the counters of gpuscale hpa that the server has stored.
// Without them, a report is complete. Counters show no time in which nothing was observed.
#include "report/report_private.h"

#include "base/mem.h"
#include "base/slice.h"

#include <inttypes.h>
#include <math.h>

#define MAX_BUDGETS 1024
// Of one budget.
#define MAX_WORKLOADS 20000
#define MAX_MOVES     1024

#define INDEX "byName" // of the workloads of a budget, while series are read

// The queries: a function of the range of the report, and how its results are grouped.
enum series { SIZE, ENFORCED, SIMULATED, GPU_SECONDS, LIMITED, MOVED, N_SERIES };
static const struct {
    const char *group, *function, *metric;
} queries[N_SERIES] = {
    [SIZE] = {"max by (budget)", "last_over_time", "gpuscale_budget_gpus"},
    [ENFORCED] = {"max by (budget)", "last_over_time", "gpuscale_budget_enforced"},
    [SIMULATED] = {"max", "last_over_time", "gpuscale_exporter_simulated"},
    [GPU_SECONDS] = {"sum by (budget, namespace, horizontalpodautoscaler, kind)", "increase",
                     "gpuscale_budget_gpu_seconds_total"},
    [LIMITED] = {"sum by (budget, namespace, horizontalpodautoscaler)", "increase",
                 "gpuscale_budget_limited_seconds_total"},
    [MOVED] = {"sum by (budget, from, to, idle)", "increase", "gpuscale_budget_moved_gpus_total"},
};

static const char *label_of(const json_t *series, const char *name)
{
    return codec_json_str(series, "metric", name, NULL);
}

static json_t *budget_named(const json_t *data, const char *name)
{
    const json_t *list = json_object_get(data, "budgets");
    size_t i;
    json_t *b;
    json_array_foreach ((json_t *)(uintptr_t)list, i, b)
        if (gs_streq(codec_json_str(b, "name", NULL), name))
            return b;
    return NULL;
}

// The budget itself, or one of its workloads, which is added. NULL: too many.
static json_t *holder_of(json_t *budget, const json_t *series)
{
    const char *ns = label_of(series, "namespace");
    const char *name = label_of(series, "horizontalpodautoscaler");
    json_t *index = json_object_get(budget, INDEX);
    if (!ns || !name)
        return budget;
    GS_AUTO_FREE char *key = gs_format("%s/%s", ns, name);
    json_t *w = json_object_get(index, key);
    if (w || json_object_size(index) >= MAX_WORKLOADS)
        return w;
    w = json_pack("{s:s, s:s}", "namespace", ns, "autoscaler", name);
    json_object_set(index, key, w);
    json_array_append_new(json_object_get(budget, "workloads"), w);
    return w;
}

static bool is_kind(const char *kind)
{
    static const char *const kinds[] = {"granted", "used", "refused", "over"};
    return gs_is_one_of(kind, kinds, GS_ARRAY_LEN(kinds));
}

static void add_number(json_t *to, const char *key, double v)
{
    json_object_set_new(to, key, json_real(report_number(to, key) + v));
}

static void read_size(json_t *data, const json_t *series, double v)
{
    const char *name = label_of(series, "budget");
    json_t *list = json_object_get(data, "budgets");
    if (name && json_array_size(list) < MAX_BUDGETS && !budget_named(data, name))
        json_array_append_new(list,
                              json_pack("{s:s, s:I, s:[], s:[], s:{}}", "name", name, "gpus",
                                        (json_int_t)fmin(v, 1e15), "workloads", "moves", INDEX));
}

static void read_gpu_seconds(json_t *budget, const json_t *series, double v)
{
    const char *kind = label_of(series, "kind");
    json_t *holder = holder_of(budget, series);
    double hours = v / 3600;
    if (holder == budget && gs_streq(kind, "budget"))
        add_number(budget, "hours", hours);
    if (!holder || !is_kind(kind)) // any text can be a label
        return;
    if (holder != budget)
        add_number(holder, kind, hours);
    else if (gs_streq(kind, "used"))
        add_number(budget, "others", hours);
    // Those of the budget are those of its workloads together.
    if (holder != budget || gs_streq(kind, "used"))
        add_number(budget, kind, hours);
}

static void read_move(json_t *budget, const json_t *series, double v)
{
    const char *from = label_of(series, "from"), *to = label_of(series, "to");
    json_t *moves = json_object_get(budget, "moves");
    if (from && to && v >= 0.5 && json_array_size(moves) < MAX_MOVES)
        json_array_append_new(moves, json_pack("{s:s, s:s, s:b, s:I}", "from", from, "to", to,
                                               "idle", gs_streq(label_of(series, "idle"), "true"),
                                               "gpus", (json_int_t)llround(fmin(v, 1e15))));
}

static void read_budget_series(json_t *data, enum series s, const json_t *series)
{
    double v = codec_json_sample(series);
    json_t *budget = budget_named(data, label_of(series, "budget")), *holder;
    if (!isfinite(v) || v < 0)
        return;
    if (s == SIZE)
        read_size(data, series, v);
    else if (s == SIMULATED)
        codec_json_set_bool(data, "simulated", v > 0);
    else if (budget && s == ENFORCED)
        codec_json_set_str(budget, "mode", v > 0 ? "enforce" : "dryRun");
    else if (budget && s == GPU_SECONDS)
        read_gpu_seconds(budget, series, v);
    else if (budget && s == LIMITED && (holder = holder_of(budget, series)))
        add_number(holder, "limited", v / 3600);
    else if (budget && s == MOVED)
        read_move(budget, series, v);
}

// Numbers that were not read are not 0.
void report_set_budgets_unknown(json_t *data, const char *why)
{
    json_object_del(data, "budgets");
    codec_json_set_str(data, "budgetsUnknown", why);
}

void report_read_budgets(const json_t *const *answers, json_t *data)
{
    json_object_set_new(data, "budgets", json_array());
    for (enum series s = 0; s < N_SERIES; s++) {
        const json_t *result = codec_json_get(answers[s], "data", "result", NULL);
        size_t i;
        json_t *series;
        json_array_foreach ((json_t *)(uintptr_t)result, i, series)
            read_budget_series(data, s, series);
    }
    size_t k;
    json_t *budget;
    json_array_foreach (json_object_get(data, "budgets"), k, budget)
        json_object_del(budget, INDEX);
    if (!json_array_size(json_object_get(data, "budgets")))
        json_object_del(data, "budgets");
}

static struct gs_error *fetch(const struct query_peer *peer, enum series s, int64_t seconds,
                              int64_t until_ms, json_t **ret)
{
    GS_AUTO_BUF struct gs_buf query = {0};
    GS_AUTO_BUF struct gs_buf parameters = {0};
    gs_buf_addf(&query, "%s (%s(%s[%" PRId64 "s]))", queries[s].group, queries[s].function,
                queries[s].metric, seconds);
    query_add_param(&parameters, "query", gs_buf_slice(&query));
    gs_buf_add_str(&parameters, "&time=");
    query_add_seconds(&parameters, until_ms);
    return query_fetch(peer, "/api/v1/query", gs_buf_slice(&parameters), ret);
}

void report_fetch_budgets(const struct query_peer *peer, int64_t since_ms, int64_t until_ms,
                          json_t *data)
{
    json_t *answers[N_SERIES] = {0};
    int64_t seconds = (until_ms - since_ms + 999) / 1000;
    struct gs_error *err = NULL;
    for (enum series s = 0; s < N_SERIES && !err; s++) {
        err = fetch(peer, s, seconds, until_ms, &answers[s]);
        // Without budgets, the others have nothing.
        if (s == SIZE && !json_array_size(codec_json_get(answers[s], "data", "result", NULL)))
            break;
    }
    if (!err)
        report_read_budgets((const json_t *const *)answers, data);
    else
        report_set_budgets_unknown(data, gs_error_message(err));
    gs_error_free(err);
    for (enum series s = 0; s < N_SERIES; s++)
        json_decref(answers[s]);
}
