// SPDX-License-Identifier: Apache-2.0
// The texts of a calculation on recorded history. They are made from the JSON, so that both agree.
#include "base/mem.h"
#include "base/slice.h"
#include "base/table.h"
#include "replay/history.h"
#include "replay/history_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static double number_of(const json_t *answer, const char *run, const char *field)
{
    const json_t *v = json_object_get(json_object_get(answer, run), field);
    return v ? json_number_value(v) : NAN;
}

// "4 minutes", "2.5 hours"
static void add_time(double seconds, struct gs_buf *out)
{
    double v = fabs(seconds);
    const char *unit = "second";
    if (v >= 7200) {
        v /= 3600;
        unit = "hour";
    } else if (v >= 120) {
        v /= 60;
        unit = "minute";
    }
    char text[32];
    bool fraction = v < 10 && v != floor(v) && *unit != 's';
    snprintf(text, sizeof(text), "%.*f", fraction ? 1 : 0, v);
    gs_buf_addf(out, "%s %s%s", text, unit, gs_streq(text, "1") ? "" : "s");
}

// "target 60, max 20"
static void add_settings(const json_t *answer, struct gs_buf *out)
{
    const char *name, *separator = "";
    json_t *value;
    json_object_foreach (json_object_get((json_t *)answer, "settings"), name, value) {
        bool of = gs_starts(name, "target."), slo = gs_starts(name, "slo.");
        const char *text = json_string_value(value);
        gs_buf_addf(out, "%s%s%s %s", separator, of ? "target of " : "",
                    of    ? name + strlen("target.")
                    : slo ? name + strlen("slo.")
                          : name,
                    *text ? text : "unset");
        separator = ", ";
    }
}

// "used 31 GPU hours less"
static void add_hours(const json_t *answer, struct gs_buf *out)
{
    bool gpus = !isnan(number_of(answer, "present", "gpuHours"));
    const char *field = gpus ? "gpuHours" : "replicaHours";
    double less = number_of(answer, "present", field) - number_of(answer, "changed", field);
    const char *unit = gpus ? "GPU" : "replica";
    if (fabs(less) < 0.005) {
        gs_buf_addf(out, "used the same %s hours", unit);
        return;
    }
    gs_buf_addf(out, "used %.*f %s hours %s", fabs(less) < 10 ? 2 : 0, fabs(less), unit,
                less > 0 ? "less" : "more");
}

static void add_waits(const json_t *answer, struct gs_buf *out)
{
    bool waits = !isnan(number_of(answer, "present", "waitingSeconds"));
    const char *field = waits ? "waitingSeconds" : "aboveTargetSeconds";
    double more = number_of(answer, "changed", field) - number_of(answer, "present", field);
    if (fabs(more) < 0.5) {
        gs_buf_add_str(out, waits ? "waited as long" : "been above the present target as long");
        return;
    }
    gs_buf_add_str(out, waits ? "waited " : "been above the present target ");
    add_time(more, out);
    gs_buf_add_str(out, more > 0 ? " more" : " less");
}

// "97.1 % of the requests within ttft=1s, instead of 93.0 %"
static void add_within(const json_t *answer, struct gs_buf *out)
{
    double before = number_of(answer, "present", "withinPercent");
    double after = number_of(answer, "changed", "withinPercent");
    gs_buf_addf(out, "had %.1f %% of the requests within %s", after,
                codec_json_str(answer, "target", NULL));
    if (fabs(after - before) >= 0.05)
        gs_buf_addf(out, ", instead of %.1f %%", before);
}

void replay_history_add_summary(json_t *answer)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    gs_buf_add_str(&text, "With ");
    add_settings(answer, &text);
    gs_buf_add_str(&text, " you would have ");
    add_hours(answer, &text);
    gs_buf_add_str(&text, " and ");
    if (isnan(number_of(answer, "changed", "withinPercent")))
        add_waits(answer, &text);
    else
        add_within(answer, &text);
    gs_buf_add(&text, ".", 2);
    codec_json_set_str(answer, "summary", text.data);
}

static const struct {
    const char *title, *field;
    int decimals;
    double scale;
} lines[] = {
    {"GPU hours", "gpuHours", 2, 1},
    {"replica hours", "replicaHours", 2, 1},
    {"mean replicas", "meanReplicas", 2, 1},
    {"max replicas", "maxReplicas", 0, 1},
    {"scale-ups", "scaleUps", 0, 1},
    {"scale-downs", "scaleDowns", 0, 1},
    {"work waits, min", "waitingSeconds", 1, 60},
    {"above present target, min", "aboveTargetSeconds", 1, 60},
    {"within the target, %", "withinPercent", 1, 1},
    {"first token, p90, s", "ttftP90Seconds", 3, 1},
    {"between tokens, p90, s", "itlP90Seconds", 4, 1},
};

static bool has_line(const json_t *answer, size_t i)
{
    return !isnan(number_of(answer, "present", lines[i].field));
}

static void add_lines(const json_t *answer, struct gs_buf *out)
{
    static const char *const runs[] = {"recorded", "present", "changed"};
    static const struct gs_table_style style = {.least_first = 26, .least = 12, .left = 1};
    size_t n = 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(lines); i++)
        n += has_line(answer, i);
    GS_CLEANUP(gs_table_freep)
    struct gs_table *t = gs_table_new(n + 1, GS_ARRAY_LEN(runs) + 1);
    if (!t)
        return;
    gs_table_add(t, "");
    for (size_t k = 0; k < GS_ARRAY_LEN(runs); k++)
        gs_table_add(t, runs[k]);
    for (size_t i = 0; i < GS_ARRAY_LEN(lines); i++) {
        if (!has_line(answer, i))
            continue;
        gs_table_add(t, lines[i].title);
        for (size_t k = 0; k < GS_ARRAY_LEN(runs); k++) {
            double v = number_of(answer, runs[k], lines[i].field);
            if (isnan(v))
                gs_table_add(t, NULL);
            else
                gs_table_addf(t, "%.*f", lines[i].decimals, v / lines[i].scale);
        }
    }
    gs_table_print(t, &style, out);
}

void replay_history_text(const json_t *answer, struct gs_buf *out)
{
    const json_t *assumptions = json_object_get(answer, "assumptions");
    gs_buf_addf(out, "%s\n\n%s to %s (", codec_json_str(answer, "summary", NULL),
                codec_json_str(answer, "from", NULL), codec_json_str(answer, "to", NULL));
    add_time(json_number_value(json_object_get(answer, "seconds")), out);
    gs_buf_add_str(out, ")\n\n");
    add_lines(answer, out);
    gs_buf_add_str(out, "\nAssumptions:\n");
    for (size_t i = 0; i < json_array_size(assumptions); i++)
        gs_buf_addf(out, "- %s\n", json_string_value(json_array_get(assumptions, i)));
}
