// SPDX-License-Identifier: Apache-2.0
// Nodes of each pool, GPUs and waiting pods over time as an SVG picture.
#include "replay/fleet_private.h"
#include "replay/report_private.h"

#include <math.h>

enum { HEAD = 66, PANELS = 3, FOOT = 44, LEGEND = 150 };
#define RESULT (HEAD + PANELS * (REPLAY_SVG_PANEL + REPLAY_SVG_GAP) - REPLAY_SVG_GAP + FOOT)

// A value of a row. pool: of panels with a line for each pool.
typedef double value_fn(const struct replay_fleet_row *row, size_t pool);

static double nodes_of(const struct replay_fleet_row *row, size_t pool)
{
    return (double)row->pool_nodes[pool];
}

static double gpus_of(const struct replay_fleet_row *row, size_t pool)
{
    (void)pool;
    return (double)row->gpus;
}

static double used_of(const struct replay_fleet_row *row, size_t pool)
{
    (void)pool;
    return (double)row->used;
}

static double stranded_of(const struct replay_fleet_row *row, size_t pool)
{
    (void)pool;
    return row->stranded;
}

static double waiting_of(const struct replay_fleet_row *row, size_t pool)
{
    (void)pool;
    return (double)row->waiting;
}

struct line {
    const char *label, *colour;
    value_fn *value;
    size_t pool;
};

static double largest(const struct replay_fleet_result *r, const struct line *l)
{
    double top = 0;
    for (size_t i = 0; i < r->n_rows; i++)
        top = fmax(top, l->value(&r->rows[i], l->pool));
    return top;
}

static void add_line(const struct replay_fleet_result *r, const struct line *l,
                     const struct replay_svg_scale *s, struct gs_buf *out)
{
    double last_x = -1, last_y = -1;
    gs_buf_addf(out, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\" d=\"", l->colour);
    for (size_t i = 0; i < r->n_rows; i++) {
        double x = replay_svg_x(s, r->rows[i].t_ms);
        double y = replay_svg_y(s, l->value(&r->rows[i], l->pool));
        if (i && fabs(y - last_y) < REPLAY_SVG_NEARLY)
            continue;
        if (!i)
            gs_buf_addf(out, "M%.1f,%.1f", x, y);
        else if (x - last_x < REPLAY_SVG_NEARLY)
            gs_buf_addf(out, "V%.1f", y);
        else
            gs_buf_addf(out, "H%.1fV%.1f", x, y);
        last_x = x;
        last_y = y;
    }
    gs_buf_addf(out, "H%.1f\"/>\n", replay_svg_x(s, s->duration_ms));
}

static void add_legend(const struct line *l, size_t n, int y, struct gs_buf *out)
{
    int room = REPLAY_SVG_WIDTH - REPLAY_SVG_LEFT - REPLAY_SVG_RIGHT - LEGEND;
    int step = n > 1 ? room / (int)n : LEGEND;
    for (size_t i = 0; i < n && l[i].label; i++) {
        int x = REPLAY_SVG_LEFT + LEGEND + (int)i * (step < LEGEND ? step : LEGEND);
        gs_buf_addf(out,
                    "<rect x=\"%d\" y=\"%d\" width=\"10\" height=\"10\" fill=\"%s\"/>"
                    "<text x=\"%d\" y=\"%d\">",
                    x, y - 17, l[i].colour, x + 14, y - 8);
        replay_svg_text(l[i].label, out);
        gs_buf_add_str(out, "</text>\n");
    }
}

static void add_panel(const struct replay_fleet_result *r, const char *title, const struct line *l,
                      size_t n, int y, bool last, struct gs_buf *out)
{
    struct replay_svg_scale s = {.duration_ms = r->fleet->duration_ms, .y = y};
    double top = 0;
    for (size_t i = 0; i < n; i++)
        top = fmax(top, largest(r, &l[i]));
    replay_svg_fit(&s, top);
    replay_svg_axes(title, &s, last, out);
    add_legend(l, n, y, out);
    for (size_t i = 0; i < n; i++)
        add_line(r, &l[i], &s, out);
}

static void add_result(const char *name, const struct replay_fleet_result *r, int y,
                       struct gs_buf *out)
{
    const struct replay_fleet_summary *u = &r->summary;
    struct line pools[REPLAY_MAX_POOLS];
    for (size_t i = 0; i < r->n_pools; i++)
        pools[i] = (struct line){r->pools[i].name, replay_svg_colour(i), nodes_of, i};
    const struct line gpus[] = {{"of ready nodes", replay_svg_colour(0), gpus_of, 0},
                                {"requested by pods", replay_svg_colour(2), used_of, 0},
                                {"stranded", replay_svg_colour(1), stranded_of, 0}};
    const struct line waiting[] = {{NULL, replay_svg_colour(1), waiting_of, 0}};
    gs_buf_addf(out, "<text x=\"%d\" y=\"%d\" font-size=\"15\" font-weight=\"bold\">",
                REPLAY_SVG_LEFT, y + 24);
    replay_svg_text(name, out);
    gs_buf_addf(out,
                "</text><text x=\"%d\" y=\"%d\">%.2f GPU hours, %.2f stranded, price %.2f, %zu "
                "nodes added, wait p50 %g s, p99 %g s</text>\n",
                REPLAY_SVG_LEFT, y + 41, u->gpu_hours, u->stranded_gpu_hours, u->price,
                u->nodes_added, u->waits.p50_s, u->waits.p99_s);
    y += HEAD;
    add_panel(r, "nodes of the pools", pools, r->n_pools, y, false, out);
    y += REPLAY_SVG_PANEL + REPLAY_SVG_GAP;
    add_panel(r, "GPUs", gpus, GS_ARRAY_LEN(gpus), y, false, out);
    y += REPLAY_SVG_PANEL + REPLAY_SVG_GAP;
    add_panel(r, "waiting pods", waiting, GS_ARRAY_LEN(waiting), y, true, out);
}

void replay_fleet_print_svg(const char *const *names, const struct replay_fleet_result *r, size_t n,
                            struct gs_buf *out)
{
    replay_svg_begin((int)n * RESULT, out);
    for (size_t i = 0; i < n; i++)
        add_result(names[i], &r[i], (int)i * RESULT, out);
    gs_buf_add_str(out, "</svg>\n");
}
