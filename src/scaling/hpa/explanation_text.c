// SPDX-License-Identifier: Apache-2.0
// The text of an explanation. It is made from the JSON, so that both agree.
#include "hpa/explanation.h"
#include "hpa/zero.h"

#include "base/mem.h"
#include "base/slice.h"
#include "base/table.h"
#include "nodes/inspect/inspect.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_ROWS 40 // pods in the text; the JSON has all

static const char *text_of(const json_t *obj, const char *name, const char *fallback)
{
    const char *text = codec_json_str(obj, name, NULL);
    return text ? text : fallback;
}

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

static void add_head(const json_t *r, struct gs_buf *out)
{
    const json_t *counts = json_object_get(r, "replicas");
    int64_t current = codec_json_int(counts, -1, "current", NULL);
    gs_buf_addf(out, "%s/%s: %s", text_of(r, "namespace", ""), text_of(r, "name", ""),
                text_of(r, "target", ""));
    if (current >= 0)
        gs_buf_addf(out, " has %lld replica%s (allowed: %lld to %lld)", (long long)current,
                    plural(current), (long long)codec_json_int(counts, 0, "min", NULL),
                    (long long)codec_json_int(counts, 0, "max", NULL));
    gs_buf_add_str(out, "\n");
}

// --- samples ---

static void add_pods(const json_t *pods, struct gs_buf *out)
{
    static const char *const titles[] = {"POD", "OWNER", "VALUE", "AGE", "HOW"};
    static const struct gs_table_style style = {.indent = 2, .gap = 2, .left = SIZE_MAX};
    size_t n = json_array_size(pods), shown = n < MAX_ROWS ? n : MAX_ROWS;
    GS_CLEANUP(gs_table_freep)
    struct gs_table *t = n ? gs_table_new(shown + 1, GS_ARRAY_LEN(titles)) : NULL;
    if (!t)
        return;
    for (size_t i = 0; i < GS_ARRAY_LEN(titles); i++)
        gs_table_add(t, titles[i]);
    for (size_t i = 0; i < shown; i++) {
        const json_t *pod = json_array_get(pods, i), *age = json_object_get(pod, "ageSeconds");
        gs_table_add(t, text_of(pod, "name", ""));
        gs_table_add(t, text_of(pod, "owner", NULL));
        gs_table_add(t, text_of(pod, "value", NULL));
        if (age)
            gs_table_addf(t, "%gs", json_number_value(age));
        else
            gs_table_add(t, NULL);
        gs_table_add(t, text_of(pod, "how", ""));
    }
    gs_table_print(t, &style, out);
    if (n > shown)
        gs_buf_addf(out, "  and %zu more\n", n - shown);
}

static void add_series(const json_t *series, struct gs_buf *out)
{
    size_t n = json_array_size(series);
    for (size_t i = 0; i < n && i < MAX_ROWS; i++) {
        const json_t *s = json_array_get(series, i);
        gs_buf_addf(out, "  %s, %gs old\n", text_of(s, "value", "-"),
                    json_number_value(json_object_get(s, "ageSeconds")));
    }
    if (n > MAX_ROWS)
        gs_buf_addf(out, "  and %zu more\n", n - MAX_ROWS);
}

static void add_threshold(const json_t *metric, const char *name, struct gs_buf *out)
{
    const json_t *turn = json_object_get(metric, name);
    int64_t desired = codec_json_int(turn, 0, "desired", NULL);
    if (turn)
        gs_buf_addf(out, "  at %s it scales to %lld replica%s\n", text_of(turn, "at", ""),
                    (long long)desired, plural(desired));
}

static void add_metric_text(const json_t *metric, struct gs_buf *out)
{
    gs_buf_addf(out, "\n%s metric %s\n", text_of(metric, "type", ""),
                text_of(metric, "explanation", ""));
    add_pods(json_object_get(metric, "pods"), out);
    add_series(json_object_get(metric, "series"), out);
    add_threshold(metric, "below", out);
    add_threshold(metric, "above", out);
}

// Of metrics that fail; the metric itself says so when the fallback is active.
static void add_fallback_text(const json_t *fallback, struct gs_buf *out)
{
    const json_t *metrics = json_object_get(fallback, "metrics"), *m;
    size_t i;
    json_array_foreach (metrics, i, m) {
        const char *since = codec_json_str(m, "firstFailureTime", NULL);
        int64_t replicas = codec_json_int(m, 0, "replicas", NULL);
        if (since && gs_streq(text_of(m, "fallbackStatus", ""), "Normal"))
            gs_buf_addf(out,
                        "  %s: fails since %s; from %lld s on, its fallback is %lld replica%s\n",
                        text_of(m, "name", ""), since,
                        (long long)codec_json_int(m, 0, "failureDurationSeconds", NULL),
                        (long long)replicas, plural(replicas));
    }
}

// A table of these titles and n rows, which the caller adds; NULL: n is 0.
static struct gs_table *new_table(size_t n, const char *const *titles, size_t n_titles)
{
    struct gs_table *t = n ? gs_table_new(n + 1, n_titles) : NULL;
    for (size_t i = 0; t && i < n_titles; i++)
        gs_table_add(t, titles[i]);
    return t;
}

// --- the latency target ---

static void add_bounds(const json_t *bounds, struct gs_buf *out)
{
    static const char *const titles[] = {"BOUND", "REPLICAS", "HOW"};
    static const struct gs_table_style style = {.indent = 2, .gap = 2, .left = SIZE_MAX};
    size_t n = json_array_size(bounds);
    GS_CLEANUP(gs_table_freep)
    struct gs_table *t = new_table(n, titles, GS_ARRAY_LEN(titles));
    if (!t)
        return;
    for (size_t i = 0; i < n; i++) {
        const json_t *b = json_array_get(bounds, i), *replicas = json_object_get(b, "proposal");
        gs_table_add(t, text_of(b, "name", ""));
        if (replicas)
            gs_table_addf(t, "%lld", (long long)json_integer_value(replicas));
        else
            gs_table_add(t, NULL);
        gs_table_add(t, text_of(b, "text", text_of(b, "abstains", "")));
    }
    gs_table_print(t, &style, out);
}

static void add_latency_text(const json_t *latency, struct gs_buf *out)
{
    static const char *const parts[] = {"credit", "guard", "forecast"};
    const char *error = text_of(latency, "error", NULL);
    if (!latency)
        return;
    gs_buf_addf(
        out, "\nLatency target %s%s\n", text_of(latency, "annotation", ""),
        codec_json_bool(latency, false, "applied", NULL) || error ? "" : ", which is not applied");
    if (error) {
        gs_buf_addf(out, "  %s\n", error);
        return;
    }
    add_bounds(json_object_get(latency, "bounds"), out);
    if (json_is_number(json_object_get(latency, "pressure")))
        gs_buf_addf(out, "  pressure %.2f\n",
                    json_number_value(json_object_get(latency, "pressure")));
    for (size_t i = 0; i < GS_ARRAY_LEN(parts); i++) {
        const char *text = codec_json_str(latency, parts[i], "text", NULL);
        if (text && *text)
            gs_buf_addf(out, "  %s: %s\n", parts[i], text);
    }
    gs_buf_addf(out, "  %s, %.1f s ago\n", text_of(latency, "explanation", ""),
                (double)codec_json_int(latency, 0, "ageMs", NULL) / 1000);
}

// --- GPU budgets ---

static void add_budget_members(const json_t *members, struct gs_buf *out)
{
    static const char *const titles[] = {"AUTOSCALER", "PRIORITY", "GPUS",
                                         "REPLICAS",   "WANTED",   "SHARE"};
    static const char *const counts[] = {"gpus", "replicas", "demand", "share"};
    static const struct gs_table_style style = {.indent = 2, .gap = 2, .left = SIZE_MAX};
    size_t n = json_array_size(members);
    GS_CLEANUP(gs_table_freep)
    struct gs_table *t = new_table(n, titles, GS_ARRAY_LEN(titles));
    if (!t)
        return;
    for (size_t i = 0; i < n; i++) {
        const json_t *m = json_array_get(members, i);
        gs_table_add(t, text_of(m, "name", ""));
        gs_table_addf(t, "%g", json_number_value(json_object_get(m, "priority")));
        for (size_t k = 0; k < GS_ARRAY_LEN(counts); k++)
            gs_table_addf(t, "%lld", (long long)codec_json_int(m, 0, counts[k], NULL));
    }
    gs_table_print(t, &style, out);
}

static void add_moves(const json_t *moves, struct gs_buf *out)
{
    for (size_t i = 0; i < json_array_size(moves); i++) {
        const json_t *m = json_array_get(moves, i);
        int64_t n = codec_json_int(m, 0, "replicas", NULL);
        gs_buf_addf(out, "  %.0f s ago: %lld replica%s, from %s to %s\n",
                    (double)codec_json_int(m, 0, "ageMs", NULL) / 1000, (long long)n, plural(n),
                    text_of(m, "from", ""), text_of(m, "to", ""));
    }
}

static void add_budget_text(const json_t *budget, struct gs_buf *out)
{
    const json_t *list = json_object_get(budget, "budgets");
    const char *rival = text_of(budget, "enforcedBy", NULL);
    bool enforced = gs_streq(text_of(budget, "mode", NULL), "enforce");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *b = json_array_get(list, i);
        int64_t others = codec_json_int(b, 0, "others", NULL);
        gs_buf_addf(out, "\n%s%s\n", text_of(b, "text", ""),
                    enforced ? "" : " (dry run: nothing is limited)");
        if (rival)
            gs_buf_addf(out, "  not limited here: %s enforces the budgets\n", rival);
        add_budget_members(json_object_get(b, "members"), out);
        if (others > 0)
            gs_buf_addf(out, "  pods without an autoscaler: %lld GPU%s\n", (long long)others,
                        plural(others));
        if (json_object_get(b, "idle"))
            gs_buf_addf(out, "  %s\n", text_of(b, "idle", ""));
        add_moves(json_object_get(b, "moves"), out);
    }
    if (json_object_get(budget, "error"))
        gs_buf_addf(out, "%s the newest budgets are not used: %s\n",
                    json_array_size(list) ? " " : "\nGPU budget:", text_of(budget, "error", ""));
}

static void add_result(const json_t *r, struct gs_buf *out)
{
    const char *reason = text_of(r, "reason", ""), *held = text_of(r, "held", "");
    const json_t *counts = json_object_get(r, "replicas");
    int64_t desired = codec_json_int(counts, -1, "desired", NULL);
    gs_buf_add_str(out, "\nResult: ");
    if (desired >= 0)
        gs_buf_addf(out, "%lld replica%s", (long long)desired, plural(desired));
    else
        gs_buf_add_str(out, "none");
    if (*reason)
        gs_buf_addf(out, ": %s", reason);
    if (*held)
        gs_buf_addf(out, "; %s", held);
    gs_buf_add_str(out, "\n");
}

// --- history ---

static void add_recommendations(const json_t *list, struct gs_buf *out)
{
    int64_t lowest = INT64_MAX, highest = 0, oldest_ms = 0;
    size_t n = json_array_size(list);
    for (size_t i = 0; i < n; i++) {
        const json_t *r = json_array_get(list, i);
        int64_t replicas = codec_json_int(r, 0, "replicas", NULL);
        int64_t age_ms = codec_json_int(r, 0, "ageMs", NULL);
        lowest = replicas < lowest ? replicas : lowest;
        highest = replicas > highest ? replicas : highest;
        oldest_ms = age_ms > oldest_ms ? age_ms : oldest_ms;
    }
    if (!n)
        gs_buf_add_str(out, "no recommendation yet");
    else
        gs_buf_addf(out, "%zu recommendation%s of the last %.0f s, ", n, n == 1 ? "" : "s",
                    (double)oldest_ms / 1000);
    if (n && lowest < highest)
        gs_buf_addf(out, "%lld to ", (long long)lowest);
    if (n)
        gs_buf_addf(out, "%lld replica%s", (long long)highest, plural(highest));
}

static void add_events(const json_t *list, const char *sign, struct gs_buf *out)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *e = json_array_get(list, i);
        gs_buf_addf(out, "; %s%lld %.0f s ago", sign, (long long)codec_json_int(e, 0, "by", NULL),
                    (double)codec_json_int(e, 0, "ageMs", NULL) / 1000);
    }
}

static void add_history(const json_t *history, struct gs_buf *out)
{
    if (!history) {
        gs_buf_add_str(out,
                       "The controller's history (earlier recommendations, scale events) is not "
                       "available: the decision is calculated without it.\n");
        return;
    }
    gs_buf_add_str(out, "The controller's history: ");
    add_recommendations(json_object_get(history, "recommendations"), out);
    add_events(json_object_get(history, "scaleUps"), "+", out);
    add_events(json_object_get(history, "scaleDowns"), "-", out);
    gs_buf_add_str(out, ".\n");
}

static void add_startup(const json_t *explanation, struct gs_buf *out)
{
    const json_t *startup = json_object_get(explanation, "startup");
    const char *pool;
    json_t *of_pool;
    const json_t *coming = json_object_get(startup, "coming");
    if (startup) {
        gs_buf_add_str(out, "Start of a new replica: ");
        if (coming)
            startup_expected_text(startup, out);
        else
            inspect_startup_text(startup, out);
        gs_buf_add_str(out, ".\n");
    }
    if (coming) {
        gs_buf_add_str(out, "Pods: ");
        startup_coming_text(coming, out);
        gs_buf_add_str(out, ".\n");
    }
    json_object_foreach (json_object_get((json_t *)explanation, "nodeStartup"), pool, of_pool) {
        gs_buf_addf(out, "Start of a new node of pool %s: ", pool);
        inspect_pool_startup_text(of_pool, out);
        gs_buf_add_str(out, ".\n");
    }
}

void hpa_explanation_text(const json_t *explanation, struct gs_buf *out)
{
    const json_t *metrics = json_object_get(explanation, "metrics");
    const json_t *differences = codec_json_get(explanation, "cluster", "differences", NULL);
    add_head(explanation, out);
    for (size_t i = 0; i < json_array_size(metrics); i++)
        add_metric_text(json_array_get(metrics, i), out);
    add_fallback_text(json_object_get(explanation, "fallback"), out);
    add_latency_text(json_object_get(explanation, "slo"), out);
    add_budget_text(json_object_get(explanation, "budget"), out);
    add_result(explanation, out);
    hpa_zero_text(json_object_get(explanation, "zero"), out);
    add_history(json_object_get(explanation, "memory"), out);
    add_startup(explanation, out);
    if (!differences)
        return;
    if (!json_array_size(differences)) {
        gs_buf_add_str(out, "The cluster's status agrees.\n");
        return;
    }
    gs_buf_add_str(out, "The cluster's status differs:\n");
    for (size_t i = 0; i < json_array_size(differences); i++)
        gs_buf_addf(out, "  %s\n", json_string_value(json_array_get(differences, i)));
}
