// SPDX-License-Identifier: Apache-2.0
#include "base/mem.h"
#include "replay/replay.h"

#include <math.h>
#include <stdio.h>

static void add_time(struct gs_buf *out, int64_t t_ms)
{
    long long s = (long long)(t_ms / 1000);
    gs_buf_addf(out, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
}

// --- table ---

static void add_summary(const struct replay_scenario *s, const struct replay_summary *u,
                        struct gs_buf *out)
{
    gs_buf_addf(out, "replicas %d to %d, mean %.2f; %zu scale-ups, %zu scale-downs in %zu passes\n",
                u->min_replicas, u->max_replicas, u->mean_replicas, u->ups, u->downs, u->passes);
    gs_buf_addf(out, "GPU hours %.2f of the replicas", u->gpu_hours);
    if (s->gpus_per_node)
        gs_buf_addf(out, ", %.2f of the nodes", u->node_gpu_hours);
    if (s->price > 0)
        gs_buf_addf(out, "; price %.2f", u->price);
    gs_buf_addf(out,
                "\nabove the target for %.0f s; over %g %% or queueing for %.0f s; longest queue "
                "%.6g; mean wait %.3g s; served "
                "%.6g of %.6g\n",
                u->over_target_s, s->level, u->over_level_s, u->queue_max, u->wait_s, u->served,
                u->offered);
    if (u->pending_s > 0)
        gs_buf_addf(out, "replicas waited %.0f s for nodes, all together\n", u->pending_s);
}

void replay_print_table(const struct replay_scenario *s, const struct replay_result *r,
                        struct gs_buf *out)
{
    gs_buf_addf(out, "%s\n%9s %10s %6s %8s %8s %6s%s  %s\n", s->name, "time", "load", "util%",
                "queue", "replicas", "ready", s->gpus_per_node ? "  nodes" : "", "why");
    for (size_t i = 0; i < r->n; i++) {
        const struct replay_row *w = &r->rows[i];
        if (i && i + 1 < r->n && !w->why)
            continue;
        GS_AUTO_BUF struct gs_buf time = {0};
        add_time(&time, w->t_ms);
        gs_buf_addf(out, "%9s %10.6g %6.0f %8.6g %8d %6d", time.data, w->load, w->utilization,
                    w->queue, w->desired, w->ready);
        if (s->gpus_per_node)
            gs_buf_addf(out, " %6zu", w->nodes);
        gs_buf_addf(out, "  %s\n", w->why ? w->why : "");
    }
    gs_buf_add_char(out, '\n');
    add_summary(s, &r->summary, out);
}

void replay_print_csv(const struct replay_result *r, struct gs_buf *out)
{
    gs_buf_add_str(out, "seconds,load,utilization,queue,desired,running,ready,nodes,why\n");
    for (size_t i = 0; i < r->n; i++) {
        const struct replay_row *w = &r->rows[i];
        gs_buf_addf(out, "%lld,%.10g,%.6g,%.10g,%d,%d,%d,%zu,", (long long)(w->t_ms / 1000),
                    w->load, w->utilization, w->queue, w->desired, w->running, w->ready, w->nodes);
        if (w->why) {
            gs_buf_add_char(out, '"');
            for (const char *c = w->why; *c; c++)
                gs_buf_addf(out, "%s%c", *c == '"' ? "\"" : "", *c);
            gs_buf_add_char(out, '"');
        }
        gs_buf_add_char(out, '\n');
    }
}

// --- JSON ---

static json_t *summary_json(const struct replay_summary *u)
{
    return json_pack(
        "{s:I, s:I, s:f, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}",
        "minReplicas", (json_int_t)u->min_replicas, "maxReplicas", (json_int_t)u->max_replicas,
        "meanReplicas", u->mean_replicas, "scaleUps", (json_int_t)u->ups, "scaleDowns",
        (json_int_t)u->downs, "passes", (json_int_t)u->passes, "gpuHours", u->gpu_hours,
        "nodeGpuHours", u->node_gpu_hours, "price", u->price, "secondsOverLevel", u->over_level_s,
        "secondsOverTarget", u->over_target_s, "longestQueue", u->queue_max, "meanWaitSeconds",
        u->wait_s, "offered", u->offered, "served", u->served, "podSecondsWithoutNode",
        u->pending_s);
}

json_t *replay_json(const struct replay_scenario *s, const struct replay_result *r)
{
    json_t *passes = json_array();
    for (size_t i = 0; i < r->n; i++) {
        const struct replay_row *w = &r->rows[i];
        json_t *row =
            json_pack("{s:I, s:f, s:f, s:f, s:i, s:i, s:i, s:I}", "seconds",
                      (json_int_t)(w->t_ms / 1000), "load", w->load, "utilization", w->utilization,
                      "queue", w->queue, "desired", (int)w->desired, "running", (int)w->running,
                      "ready", (int)w->ready, "nodes", (json_int_t)w->nodes);
        if (w->why)
            json_object_set_new(row, "why", json_string(w->why));
        json_array_append_new(passes, row);
    }
    return json_pack("{s:s, s:o, s:o}", "name", s->name, "summary", summary_json(&r->summary),
                     "passes", passes);
}

// --- side by side ---

void replay_print_summaries(const char *const *names, const struct replay_summary *const *s,
                            size_t n, struct gs_buf *out)
{
    gs_buf_addf(out, "%-32s %9s %9s %9s %9s %7s %8s %10s %9s\n", "", "GPU hours", "price", "over s",
                "target s", "events", "mean", "max queue", "wait s");
    for (size_t i = 0; i < n; i++)
        gs_buf_addf(out, "%-32s %9.2f %9.2f %9.0f %9.0f %7zu %8.2f %10.6g %9.3g\n", names[i],
                    s[i]->node_gpu_hours > 0 ? s[i]->node_gpu_hours : s[i]->gpu_hours, s[i]->price,
                    s[i]->over_level_s, s[i]->over_target_s, s[i]->ups + s[i]->downs,
                    s[i]->mean_replicas, s[i]->queue_max, s[i]->wait_s);
}

// --- picture ---

enum { WIDTH = 900, PANEL = 160, LEFT = 60, GAP = 34, TOP = 40, RIGHT = 20 };

struct panel {
    const char *title, *colour;
    double (*value)(const struct replay_row *w);
    bool steps;
};

static double load_of(const struct replay_row *w)
{
    return w->load;
}
static double utilization_of(const struct replay_row *w)
{
    return w->utilization;
}
static double desired_of(const struct replay_row *w)
{
    return w->desired;
}
static double ready_of(const struct replay_row *w)
{
    return w->ready;
}
static double queue_of(const struct replay_row *w)
{
    return w->queue;
}

static double top_of(const struct replay_result *r, double (*value)(const struct replay_row *w))
{
    double top = 0;
    for (size_t i = 0; i < r->n; i++)
        top = fmax(top, value(&r->rows[i]));
    return top > 0 ? top : 1;
}

static void add_line(const struct replay_result *r, const struct panel *p, double top, int y,
                     int64_t duration_ms, struct gs_buf *out)
{
    gs_buf_addf(out, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" d=\"", p->colour);
    for (size_t i = 0; i < r->n; i++) {
        double x = LEFT + (double)r->rows[i].t_ms / (double)duration_ms * (WIDTH - LEFT - RIGHT);
        double h = y + PANEL - p->value(&r->rows[i]) / top * PANEL;
        if (i && p->steps)
            gs_buf_addf(out, "H%.1f", x);
        gs_buf_addf(out, "%s%.1f,%.1f", i ? "L" : "M", x, h);
    }
    gs_buf_add_str(out, "\"/>\n");
}

static void add_frame(const char *title, double top, int y, struct gs_buf *out)
{
    gs_buf_addf(out,
                "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" "
                "stroke=\"#999\"/>\n"
                "<text x=\"%d\" y=\"%d\">%s</text>\n"
                "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.4g</text>\n"
                "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">0</text>\n",
                LEFT, y, WIDTH - LEFT - RIGHT, PANEL, LEFT, y - 6, title, LEFT - 6, y + 10, top,
                LEFT - 6, y + PANEL);
}

static void add_escaped(const char *s, struct gs_buf *out)
{
    for (; *s; s++) {
        if (*s == '<')
            gs_buf_add_str(out, "&lt;");
        else if (*s == '&')
            gs_buf_add_str(out, "&amp;");
        else
            gs_buf_add_char(out, *s);
    }
}

void replay_print_svg(const struct replay_scenario *s, const struct replay_result *r,
                      struct gs_buf *out)
{
    static const struct panel panels[] = {
        {"load", "#1f77b4", load_of, false},
        {"utilization of the ready replicas, %", "#d62728", utilization_of, false},
        {"replicas: wanted (dark), ready (light)", "#2ca02c", desired_of, true},
        {"queue", "#9467bd", queue_of, false},
    };
    const struct panel ready = {NULL, "#98df8a", ready_of, true};
    size_t n = GS_ARRAY_LEN(panels);
    int height = TOP + (int)n * (PANEL + GAP) + 20;
    gs_buf_addf(out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                "font-family=\"sans-serif\" font-size=\"12\">\n"
                "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n<text x=\"%d\" y=\"16\" "
                "font-size=\"14\">",
                WIDTH, height, LEFT);
    add_escaped(s->name, out);
    gs_buf_add_str(out, "</text>\n");
    for (size_t i = 0; i < n; i++) {
        int y = TOP + (int)i * (PANEL + GAP);
        double top = top_of(r, panels[i].value);
        add_frame(panels[i].title, top, y, out);
        if (panels[i].value == desired_of)
            add_line(r, &ready, top, y, s->duration_ms, out);
        add_line(r, &panels[i], top, y, s->duration_ms, out);
    }
    GS_AUTO_BUF struct gs_buf end = {0};
    add_time(&end, s->duration_ms);
    gs_buf_addf(out,
                "<text x=\"%d\" y=\"%d\">0:00:00</text><text x=\"%d\" y=\"%d\" "
                "text-anchor=\"end\">%s</text>\n</svg>\n",
                LEFT, height - 24, WIDTH - RIGHT, height - 24, end.data);
}
