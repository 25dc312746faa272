// SPDX-License-Identifier: Apache-2.0
// Load, utilization, replicas and queue over time as an SVG picture. Several scenarios have one
// line each, in different colours.
#include "base/mem.h"
#include "replay/report_private.h"
#include "replay/service.h"

#include <math.h>
#include <stdio.h>

enum {
    WIDTH = REPLAY_SVG_WIDTH,
    LEFT = REPLAY_SVG_LEFT,
    RIGHT = REPLAY_SVG_RIGHT,
    PANEL = REPLAY_SVG_PANEL,
    GAP = REPLAY_SVG_GAP,
    HEAD = 58,
    LINE = 18,
    FOOT = 40,
    PANELS = 4
};
#define PLOT        (WIDTH - LEFT - RIGHT)
#define MAX_TICKS   5
#define MAX_TIMES   10
#define NEARLY      REPLAY_SVG_NEARLY
#define TEXT        "#333"
#define MAX_LETTERS 90

static const char *const colours[] = {"#1f77b4", "#d9541e", "#2c8c4a", "#8250b4", "#a8701c",
                                      "#17909c", "#c2418a", "#6f7d1c", "#5b6470", "#b0222b"};

const char *replay_svg_colour(size_t i)
{
    return colours[i % GS_ARRAY_LEN(colours)];
}

static const char *const lights[] = {"#a9cbe6", "#f3bfa6", "#a9d6b8", "#cdb8e6", "#dcc7a0",
                                     "#a6d5da", "#e8b5d2", "#cdd3a3", "#c3c8ce", "#e3a9ad"};

struct panel {
    const char *title;
    double (*value)(const struct replay_row *row);
    double (*background)(const struct replay_row *row); // in a light colour; NULL: none
    bool steps;
    double (*level)(const struct replay_scenario *s); // that should not be exceeded; NULL: none
    const char *unit;                                 // of the level
};

static double load_of(const struct replay_row *row)
{
    return row->load;
}
static double utilization_of(const struct replay_row *row)
{
    return row->utilization;
}
static double desired_of(const struct replay_row *row)
{
    return row->desired;
}
static double ready_of(const struct replay_row *row)
{
    return row->ready;
}
static double queue_of(const struct replay_row *row)
{
    return row->queue;
}

static double ttft_of(const struct replay_row *row)
{
    return row->ttft_p90_s;
}
static double running_of(const struct replay_row *row)
{
    return row->running;
}
static double level_of(const struct replay_scenario *s)
{
    return s->level;
}
static double ttft_level_of(const struct replay_scenario *s)
{
    return s->service->has_goal ? s->service->goal_policy.seconds[SLO_TTFT] : 0;
}

void replay_svg_text(const char *s, struct gs_buf *out)
{
    size_t letters = 0;
    for (; *s; s++) {
        letters += ((unsigned char)*s & 0xC0) != 0x80;
        if (letters > MAX_LETTERS) {
            gs_buf_add_str(out, "…");
            return;
        }
        if (*s == '<')
            gs_buf_add_str(out, "&lt;");
        else if (*s == '&')
            gs_buf_add_str(out, "&amp;");
        else if ((unsigned char)*s >= ' ')
            gs_buf_add_char(out, *s);
    }
}

// 1, 2 or 5 times a power of ten.
static double nice_step(double top)
{
    double rough = top / MAX_TICKS, power = pow(10, floor(log10(rough)));
    double times = rough / power;
    return power * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10);
}

void replay_svg_fit(struct replay_svg_scale *s, double top)
{
    if (!(top > 0) || !isfinite(top))
        top = 1;
    s->step = nice_step(top);
    s->top = s->step * ceil(top / s->step - 1e-9);
}

static struct replay_svg_scale scale_of(const struct replay_outcome *shown, size_t n,
                                        const struct panel *p, int y)
{
    struct replay_svg_scale s = {.y = y};
    double top = 0;
    for (size_t k = 0; k < n; k++) {
        const struct replay_result *r = shown[k].result;
        for (size_t i = 0; i < r->n; i++) {
            top = fmax(top, p->value(&r->rows[i]));
            top = p->background ? fmax(top, p->background(&r->rows[i])) : top;
        }
        if (shown[k].scenario->duration_ms > s.duration_ms)
            s.duration_ms = shown[k].scenario->duration_ms;
    }
    replay_svg_fit(&s, top);
    return s;
}

double replay_svg_x(const struct replay_svg_scale *s, int64_t t_ms)
{
    return LEFT + (double)t_ms / (double)s->duration_ms * PLOT;
}

double replay_svg_y(const struct replay_svg_scale *s, double v)
{
    return s->y + PANEL - v / s->top * PANEL;
}

// --- axes ---

static void add_number(double v, struct gs_buf *out)
{
    if (v >= 1e6)
        gs_buf_addf(out, "%gM", v / 1e6);
    else if (v >= 1e4)
        gs_buf_addf(out, "%gk", v / 1e3);
    else
        gs_buf_addf(out, "%g", v);
}

static void add_values(const struct replay_svg_scale *s, struct gs_buf *out)
{
    for (int i = 0; i <= 2 * MAX_TICKS && i * s->step <= s->top * (1 + 1e-9); i++) {
        double y = replay_svg_y(s, i * s->step);
        gs_buf_addf(out,
                    "<path d=\"M%d,%.1fH%d\" stroke=\"%s\"/>"
                    "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">",
                    LEFT, y, WIDTH - RIGHT, i ? "#e6e6e6" : "#888", LEFT - 8, y + 4);
        add_number(i * s->step, out);
        gs_buf_add_str(out, "</text>\n");
    }
}

static int64_t time_step(int64_t duration_ms)
{
    static const int64_t minutes[] = {1,   2,   5,    10,   15,   30,    60,    120,   180,
                                      360, 720, 1440, 2880, 7200, 14400, 43200, 86400, 172800};
    for (size_t i = 0; i < GS_ARRAY_LEN(minutes); i++)
        if (duration_ms <= minutes[i] * 60000 * MAX_TIMES)
            return minutes[i] * 60000;
    return duration_ms;
}

static void add_axis_time(int64_t t_ms, int64_t step_ms, struct gs_buf *out)
{
    const int64_t day_ms = INT64_C(86400000);
    if (step_ms % day_ms == 0)
        gs_buf_addf(out, "day %lld", (long long)(t_ms / day_ms));
    else
        gs_buf_addf(out, "%lld:%02lld", (long long)(t_ms / 3600000),
                    (long long)(t_ms / 60000 % 60));
}

// Lines in every panel, the times below the last one.
static void add_times(const struct replay_svg_scale *s, bool with_text, struct gs_buf *out)
{
    int64_t step = time_step(s->duration_ms);
    for (int64_t t = 0; t <= s->duration_ms; t += step) {
        double x = replay_svg_x(s, t);
        gs_buf_addf(out, "<path d=\"M%.1f,%dV%d\" stroke=\"#eee\"/>\n", x, s->y, s->y + PANEL);
        if (!with_text)
            continue;
        gs_buf_addf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">", x, s->y + PANEL + 18,
                    x > WIDTH - RIGHT - 20 ? "end" : "middle");
        add_axis_time(t, step, out);
        gs_buf_add_str(out, "</text>\n");
    }
}

// --- lines ---

static void add_line(const struct replay_result *r, double (*value)(const struct replay_row *row),
                     bool steps, const char *colour, const struct replay_svg_scale *s,
                     struct gs_buf *out)
{
    double last_x = -1, last_y = -1;
    gs_buf_addf(out, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\" d=\"", colour);
    for (size_t i = 0; i < r->n; i++) {
        double x = replay_svg_x(s, r->rows[i].t_ms), y = replay_svg_y(s, value(&r->rows[i]));
        bool same = fabs(y - last_y) < NEARLY, ends = i == 0 || i + 1 == r->n;
        bool turns = !ends && fabs(replay_svg_y(s, value(&r->rows[i + 1])) - y) >= NEARLY;
        if (!ends && same && (x - last_x < NEARLY || !turns))
            continue;
        if (i && steps && !same)
            gs_buf_addf(out, "H%.1fV%.1f", x, y);
        else
            gs_buf_addf(out, "%c%.1f,%.1f", i ? 'L' : 'M', x, y);
        last_x = x;
        last_y = y;
    }
    gs_buf_add_str(out, "\"/>\n");
}

static void add_level(const struct replay_outcome *shown, const struct panel *p,
                      const struct replay_svg_scale *s, struct gs_buf *out)
{
    double level = p->level(shown->scenario), y = replay_svg_y(s, level);
    if (!(level > 0) || level > s->top)
        return;
    gs_buf_addf(out,
                "<path d=\"M%d,%.1fH%d\" stroke=\"#c33\" stroke-dasharray=\"5 4\"/>"
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" fill=\"#c33\">%g %s</text>\n",
                LEFT, y, WIDTH - RIGHT, WIDTH - RIGHT - 4, y + LINE < s->y + PANEL ? y + 13 : y - 5,
                level, p->unit);
}

void replay_svg_axes(const char *title, const struct replay_svg_scale *s, bool with_times,
                     struct gs_buf *out)
{
    gs_buf_addf(out, "<text x=\"%d\" y=\"%d\" font-weight=\"bold\">%s</text>\n", LEFT, s->y - 8,
                title);
    add_times(s, with_times, out);
    add_values(s, out);
}

static void add_panel(const struct replay_outcome *shown, size_t n, const struct panel *p,
                      const struct replay_svg_scale *s, bool last, struct gs_buf *out)
{
    replay_svg_axes(p->title, s, last, out);
    if (p->level)
        add_level(&shown[0], p, s, out);
    for (size_t k = 0; p->background && k < n; k++)
        add_line(shown[k].result, p->background, true, lights[k % GS_ARRAY_LEN(lights)], s, out);
    for (size_t k = 0; k < n; k++)
        add_line(shown[k].result, p->value, p->steps, colours[k % GS_ARRAY_LEN(colours)], s, out);
}

// --- head ---

static void add_service_figures(const struct replay_outcome *one, struct gs_buf *out)
{
    const struct replay_summary *u = &one->result->summary;
    gs_buf_addf(out, "SIMULATED: %.2f GPU hours, %zu changes, ", u->gpu_hours, u->ups + u->downs);
    if (one->scenario->service->has_goal)
        gs_buf_addf(out, "%.1f %% of the requests within the target, ", u->within_percent);
    gs_buf_addf(out, "first token p50 %.2g s, p99 %.2g s", u->ttft_p50_s, u->ttft_p99_s);
}

static void add_figures(const struct replay_outcome *one, struct gs_buf *out)
{
    const struct replay_summary *u = &one->result->summary;
    const char *currency = replay_currency(one->scenario);
    gs_buf_addf(out, "%.2f GPU hours",
                one->scenario->gpus_per_node ? u->node_gpu_hours : u->gpu_hours);
    if (u->price > 0) {
        gs_buf_addf(out, ", %.2f ", u->price);
        replay_svg_text(*currency ? currency : "to pay", out);
    }
    gs_buf_addf(out, ", %zu changes, %.0f s above the target, wait p50 %g s, p99 %g s",
                u->ups + u->downs, u->over_target_s, u->wait_p50_s, u->wait_p99_s);
}

static void add_head(const struct replay_outcome *shown, size_t n, struct gs_buf *out)
{
    for (size_t k = 0; k < n; k++) {
        int y = 26 + (int)k * LINE * 2;
        gs_buf_addf(out,
                    "<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" fill=\"%s\"/>"
                    "<text x=\"%d\" y=\"%d\" font-size=\"15\" font-weight=\"bold\">",
                    LEFT, y - 11, colours[k % GS_ARRAY_LEN(colours)], LEFT + 20, y);
        replay_svg_text(shown[k].scenario->name, out);
        gs_buf_addf(out, "</text><text x=\"%d\" y=\"%d\">", LEFT + 20, y + 16);
        if (shown[k].scenario->service)
            add_service_figures(&shown[k], out);
        else
            add_figures(&shown[k], out);
        gs_buf_add_str(out, "</text>\n");
    }
}

void replay_svg_begin(int height, struct gs_buf *out)
{
    gs_buf_addf(out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
                "height=\"%d\" font-family=\"sans-serif\" font-size=\"12\" fill=\"" TEXT "\">\n"
                "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                WIDTH, height, WIDTH, height);
}

void replay_print_svg(const struct replay_outcome *shown, size_t n, struct gs_buf *out)
{
    static const struct panel of_load[PANELS] = {
        {"load", load_of, NULL, false, NULL, ""},
        {"utilization of the ready replicas, %", utilization_of, NULL, false, level_of, "%"},
        {"replicas: wanted (dark), ready (light)", desired_of, ready_of, true, NULL, ""},
        {"queue", queue_of, NULL, false, NULL, ""},
    };
    static const struct panel of_service[PANELS] = {
        {"requests per second", load_of, NULL, false, NULL, ""},
        {"replicas: ready (dark), with those that start (light)", ready_of, running_of, true, NULL,
         ""},
        {"waiting requests", queue_of, NULL, false, NULL, ""},
        {"time to the first token, 90th percentile, s", ttft_of, NULL, false, ttft_level_of, "s"},
    };
    const struct panel *panels = shown[0].scenario->service ? of_service : of_load;
    int top = HEAD + (int)n * LINE * 2;
    int height = top + PANELS * (PANEL + GAP) - GAP + FOOT;
    replay_svg_begin(height, out);
    add_head(shown, n, out);
    for (size_t i = 0; i < PANELS; i++) {
        struct replay_svg_scale s = scale_of(shown, n, &panels[i], top + (int)i * (PANEL + GAP));
        add_panel(shown, n, &panels[i], &s, i + 1 == PANELS, out);
    }
    gs_buf_add_str(out, "</svg>\n");
}
