// SPDX-License-Identifier: Apache-2.0
// The texts of a calculation on recorded history. They are made from the JSON, so that both agree.
#include "base/mem.h"
#include "base/slice.h"
#include "replay/history.h"
#include "replay/replay_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { COLUMN = 12 };

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
        bool of = gs_starts(name, "target.");
        gs_buf_addf(out, "%s%s%s %s", separator, of ? "target of " : "",
                    of ? name + strlen("target.") : name, json_string_value(value));
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

void replay_history_add_summary(json_t *answer)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    gs_buf_add_str(&text, "With ");
    add_settings(answer, &text);
    gs_buf_add_str(&text, " you would have ");
    add_hours(answer, &text);
    gs_buf_add_str(&text, " and ");
    add_waits(answer, &text);
    gs_buf_add(&text, ".", 2);
    codec_json_set_str(answer, "summary", text.data);
}

static void add_line(const json_t *answer, const char *title, const char *field, int decimals,
                     double scale, struct gs_buf *out)
{
    static const char *const runs[] = {"recorded", "present", "changed"};
    if (isnan(number_of(answer, "present", field)))
        return;
    gs_buf_addf(out, "%-26s", title);
    for (size_t i = 0; i < GS_ARRAY_LEN(runs); i++) {
        double v = number_of(answer, runs[i], field);
        char text[32] = "-";
        if (!isnan(v))
            snprintf(text, sizeof(text), "%.*f", decimals, v / scale);
        gs_buf_addf(out, "%*s", COLUMN, text);
    }
    gs_buf_add_char(out, '\n');
}

void replay_history_text(const json_t *answer, struct gs_buf *out)
{
    const json_t *assumptions = json_object_get(answer, "assumptions");
    gs_buf_addf(out, "%s\n\n%s to %s (", codec_json_str(answer, "summary", NULL),
                codec_json_str(answer, "from", NULL), codec_json_str(answer, "to", NULL));
    add_time(json_number_value(json_object_get(answer, "seconds")), out);
    gs_buf_addf(out, ")\n\n%-26s%*s%*s%*s\n", "", COLUMN, "recorded", COLUMN, "present", COLUMN,
                "changed");
    add_line(answer, "GPU hours", "gpuHours", 2, 1, out);
    add_line(answer, "replica hours", "replicaHours", 2, 1, out);
    add_line(answer, "mean replicas", "meanReplicas", 2, 1, out);
    add_line(answer, "max replicas", "maxReplicas", 0, 1, out);
    add_line(answer, "scale-ups", "scaleUps", 0, 1, out);
    add_line(answer, "scale-downs", "scaleDowns", 0, 1, out);
    add_line(answer, "work waits, min", "waitingSeconds", 1, 60, out);
    add_line(answer, "above present target, min", "aboveTargetSeconds", 1, 60, out);
    gs_buf_add_str(out, "\nAssumptions:\n");
    for (size_t i = 0; i < json_array_size(assumptions); i++)
        gs_buf_addf(out, "- %s\n", json_string_value(json_array_get(assumptions, i)));
}
