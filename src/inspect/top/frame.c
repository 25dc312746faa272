// SPDX-License-Identifier: Apache-2.0
// The text of a window: title, summary, panes, and the line of keys.
#include "top/top_private.h"

#include "base/columns.h"
#include "base/mem.h"

#include <math.h>
#include <time.h>

#define BOLD      "\033[1m"
#define DIM       "\033[2m"
#define UNDERLINE "\033[4m"
#define REVERSE   "\033[7m"
#define RED       "\033[31m"
#define RESET     "\033[0m"

enum { BUSY_PERCENT = 5, LEAST_PANE = 3, LEAST_LEFT = 30 };

void top_frame_finish(struct top_frame *f)
{
    gs_buf_finish(&f->text);
}

// --- lines ---

struct drawing {
    struct top_frame *f;
    const struct top_model *m;
    struct top_ui *ui;
    const struct top_status *s;
    size_t rows, columns, n; // n: lines so far
};

// Adds a line of the pane, cut or filled up to the width. style: SGR sequence, "" for none.
static void add_styled(struct drawing *d, const char *style, const char *text, int pane,
                       bool header, size_t row)
{
    if (d->n == d->rows || d->n == TOP_MAX_LINES)
        return;
    d->f->lines[d->n].pane = (signed char)pane;
    d->f->lines[d->n].header = header;
    d->f->lines[d->n++].row = row;
    gs_buf_add_str(&d->f->text, style);
    if (*style)
        gs_columns_pad(&d->f->text, gs_slice_of(text), d->columns);
    else
        gs_columns_fit(&d->f->text, gs_slice_of(text), d->columns);
    gs_buf_add_str(&d->f->text, *style ? RESET "\n" : "\n");
}

static void add_line(struct drawing *d, const char *style, const char *text)
{
    add_styled(d, style, text, -1, false, 0);
}

// A text on the left, which is cut, and one on the right, which is dropped in narrow windows.
static char *both_ends(const char *left, const char *right, size_t columns)
{
    size_t a = gs_columns_width(gs_slice_of(left)), b = gs_columns_width(gs_slice_of(right));
    if (a + 1 + b > columns && columns < b + 1 + LEAST_LEFT)
        return gs_strdup(left);
    if (a + 1 + b > columns) {
        GS_AUTO_BUF struct gs_buf both = {0};
        gs_columns_pad(&both, gs_slice_of(left), columns - b - 1);
        gs_buf_addf(&both, " %s", right);
        return gs_buf_take(&both);
    }
    return gs_format("%s%*s%s", left, (int)(columns - a - b), "", right);
}

// --- title and summary ---

static char *clock_text(int64_t unix_ms)
{
    time_t t = (time_t)(unix_ms / 1000);
    struct tm at;
    char text[16] = "";
    if (localtime_r(&t, &at))
        (void)strftime(text, sizeof(text), "%H:%M:%S", &at);
    return gs_strdup(text);
}

static void add_title(struct drawing *d)
{
    GS_AUTO_FREE char *now = clock_text(d->s->now_ms);
    GS_AUTO_FREE char *left =
        gs_format("gpuscale top  %s%s", d->m->simulated ? "SIMULATED GPUs  " : "", d->s->source);
    GS_AUTO_FREE char *right = gs_format("%severy %g s  %s ", d->ui->paused ? "PAUSED  " : "",
                                         (double)d->ui->interval_ms / 1000, now);
    GS_AUTO_FREE char *title = both_ends(left, right, d->columns);
    add_line(d, REVERSE, title);
}

// Sources without GPUs: the metrics API.
static void summarize_pods(const struct top_model *m, int64_t now_ms, struct gs_buf *out)
{
    double gpus = 0, util = 0;
    size_t n = 0;
    for (size_t i = 0; i < m->n_pods; i++) {
        const struct top_pod *p = m->pods[i];
        gpus += isnan(p->requested) ? 0 : p->requested;
        if (!isnan(p->util) && !top_model_is_stale(m, p->at_ms, now_ms))
            util += p->util, n++;
    }
    gs_buf_addf(out, "%zu %s · %.0f GPUs requested", m->n_pods, m->n_pods == 1 ? "pod" : "pods",
                gpus);
    if (n)
        gs_buf_addf(out, " · mean utilization %.0f%% of %zu with values", util / (double)n, n);
}

void top_frame_summary(const struct top_model *m, int64_t now_ms, struct gs_buf *out)
{
    if (!m->n_gpus && m->n_pods) {
        summarize_pods(m, now_ms, out);
        return;
    }
    size_t n = 0, busy = 0, idle = 0, lost = 0, gone = 0, stale = 0, n_util = 0, n_memory = 0;
    double util = 0, used = 0, total = 0, power = 0;
    bool has_power = false;
    for (size_t i = 0; i < m->n_gpus; i++) {
        const struct top_gpu *g = m->gpus[i];
        n++;
        if (g->gone || g->lost || g->hung) {
            lost += !g->gone;
            gone += g->gone;
            continue;
        }
        if (top_model_is_stale(m, g->at_ms, now_ms)) {
            stale++;
            continue;
        }
        if (!isnan(g->util)) {
            util += g->util, n_util++;
            busy += g->util >= BUSY_PERCENT;
            idle += g->util < BUSY_PERCENT;
        }
        if (!*g->slice && !isnan(g->used_mib) && !isnan(top_gpu_total(g)))
            used += g->used_mib, total += top_gpu_total(g), n_memory++;
        if (!*g->slice && !isnan(g->power))
            power += g->power, has_power = true;
    }
    gs_buf_addf(out, "%zu %s", n, n == 1 ? "GPU" : "GPUs");
    if (n_util)
        gs_buf_addf(out, ": %zu busy, %zu idle", busy, idle);
    if (lost)
        gs_buf_addf(out, ", %zu lost", lost);
    if (gone)
        gs_buf_addf(out, ", %zu gone", gone);
    if (stale)
        gs_buf_addf(out, ", %zu stale", stale);
    if (n_util)
        gs_buf_addf(out, " · utilization %.0f%%", util / (double)n_util);
    if (n_memory)
        gs_buf_addf(out, " · memory %.0f/%.0f GiB", used / 1024, total / 1024);
    if (has_power)
        gs_buf_addf(out, " · %.0f W", power);
    if (m->n_pods)
        gs_buf_addf(out, " · %zu %s", m->n_pods, m->n_pods == 1 ? "pod" : "pods");
    if (m->over_limit)
        gs_buf_addf(out, " · more than %d rows: some are left out", TOP_MAX_ROWS);
}

static void add_summary(struct drawing *d)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    if (d->m->complete)
        top_frame_summary(d->m, d->s->now_ms, &text);
    else if (!d->s->problem)
        gs_buf_add_str(&text, "Waiting for the first values …");
    if (text.len)
        add_line(d, "", text.data);
    if (d->m->note)
        add_line(d, BOLD, d->m->note);
    if (!d->s->problem)
        return;
    GS_AUTO_FREE char *last = clock_text(d->m->refreshed_ms);
    GS_AUTO_FREE char *problem =
        gs_format("%s%s%s: %s", d->m->complete ? "No new values since " : "No values",
                  d->m->complete ? last : "", d->m->complete ? "" : " yet", d->s->problem);
    add_line(d, d->s->colour ? BOLD RED : BOLD, problem);
}

// --- panes ---

static const char *key_of(const struct top_model *m, enum top_pane pane, size_t index)
{
    return pane == TOP_GPUS   ? m->gpus[index]->key
           : pane == TOP_PODS ? m->pods[index]->key
                              : m->processes[index]->key;
}

// The cursor stays on its row when rows move.
static void follow_selection(struct drawing *d, enum top_pane pane, const struct top_rows *rows)
{
    struct top_ui *ui = d->ui;
    bool found = false;
    ui->n_rows[pane] = rows->len;
    for (size_t i = 0; ui->selected[pane] && i < rows->len && !found; i++)
        if ((found = gs_streq(ui->selected[pane], key_of(d->m, pane, rows->items[i]))))
            ui->cursor[pane] = i;
    if (ui->details && ui->selected[pane] && !found)
        return; // the details say that it no longer exists
    if (ui->cursor[pane] >= rows->len)
        ui->cursor[pane] = rows->len ? rows->len - 1 : 0;
    free(ui->selected[pane]);
    ui->selected[pane] =
        rows->len ? gs_strdup(key_of(d->m, pane, rows->items[ui->cursor[pane]])) : NULL;
}

static bool is_current(const struct top_model *m, enum top_pane pane, size_t index, int64_t now_ms)
{
    const struct top_gpu *g = pane == TOP_GPUS ? m->gpus[index] : NULL;
    int64_t at_ms = g                  ? g->at_ms
                    : pane == TOP_PODS ? m->pods[index]->at_ms
                                       : m->processes[index]->at_ms;
    return !(g && (g->gone || g->lost || g->hung)) && !top_model_is_stale(m, at_ms, now_ms);
}

static const char *const nouns[] = {"GPUs", "pods", "processes"};

const char *top_frame_no_rows(enum top_pane pane, const struct top_rows *rows)
{
    static const char *const none[] = {
        "No GPUs: the source has no series DCGM_FI_DEV_… of GPUs",
        "No pods use a GPU, or the source does not name them",
        "No processes, or the source does not list them",
    };
    static const char *const filtered[] = {"No GPUs match the filter", "No pods match the filter",
                                           "No processes match the filter"};
    return rows->total ? filtered[pane] : none[pane];
}

static void draw_pane(struct drawing *d, enum top_pane pane, const struct top_rows *rows,
                      size_t height)
{
    struct top_ui *ui = d->ui;
    size_t shown = height > 1 ? height - 1 : 0;
    struct top_layout *layout = &d->f->layouts[pane];
    bool focused = ui->pane == pane;
    ui->shown[pane] = shown;
    if (ui->cursor[pane] < ui->first[pane])
        ui->first[pane] = ui->cursor[pane];
    if (shown && ui->cursor[pane] >= ui->first[pane] + shown)
        ui->first[pane] = ui->cursor[pane] - shown + 1;
    if (ui->first[pane] + shown > rows->len)
        ui->first[pane] = rows->len > shown ? rows->len - shown : 0;
    top_layout_fit(d->m, pane, rows, d->s->now_ms, d->columns, layout);
    GS_AUTO_BUF struct gs_buf header = {0};
    top_layout_header(pane, layout, &ui->order[pane], &header);
    add_styled(d, focused ? BOLD UNDERLINE : BOLD, header.data ? header.data : "", pane, true, 0);
    if (!rows->len && shown) {
        add_styled(d, "", top_frame_no_rows(pane, rows), pane, false, SIZE_MAX);
    }
    for (size_t i = ui->first[pane]; i < rows->len && i < ui->first[pane] + shown; i++) {
        bool current = !d->s->problem && is_current(d->m, pane, rows->items[i], d->s->now_ms);
        bool selected = focused && i == ui->cursor[pane];
        GS_AUTO_BUF struct gs_buf text = {0};
        top_layout_row(d->m, pane, layout, rows->items[i], d->s->now_ms,
                       d->s->colour && current && !selected, &text);
        add_styled(d,
                   selected  ? REVERSE
                   : current ? ""
                             : DIM,
                   text.data ? text.data : "", pane, false, i);
    }
}

// The heights of the panes: all if they fit, otherwise equal shares, and what is left for the
// pane with the cursor.
static void share_rows(const struct top_ui *ui, const struct top_rows *rows, size_t height,
                       size_t *ret)
{
    bool shown[TOP_PANES];
    size_t n = 0, used = 0, need[TOP_PANES];
    for (int i = 0; i < TOP_PANES; i++) {
        shown[i] = i == (int)ui->pane || (!ui->only_pane && rows[i].total > 0 &&
                                          (i != TOP_PROCESSES || rows[TOP_PODS].total == 0));
        n += shown[i];
        need[i] = 1 + (rows[i].len ? rows[i].len : 1);
    }
    bool alone = height < n * LEAST_PANE;
    for (int i = 0; i < TOP_PANES; i++) {
        ret[i] = alone ? (i == (int)ui->pane ? height : 0) : shown[i] ? height / n : 0;
        ret[i] = ret[i] > need[i] ? need[i] : ret[i];
        used += ret[i];
    }
    for (int turn = 0; turn <= TOP_PANES; turn++) {
        int i = turn ? turn - 1 : (int)ui->pane;
        size_t more = ret[i] && need[i] > ret[i] ? need[i] - ret[i] : 0;
        more = more > height - used ? height - used : more;
        ret[i] += more;
        used += more;
    }
}

static void draw_panes(struct drawing *d, const struct top_rows *rows, size_t height)
{
    size_t heights[TOP_PANES];
    share_rows(d->ui, rows, height, heights);
    for (int i = 0; i < TOP_PANES; i++)
        if (heights[i])
            draw_pane(d, (enum top_pane)i, &rows[i], heights[i]);
}

// --- help ---

static const char *const help[] = {
    "\033[1mKeys\033[0m",
    "",
    "q, Ctrl-C        quit; q closes a page first",
    "?, h             this page",
    "Up, Down, j, k   move the cursor; also PgUp, PgDn, Home, End, g, G",
    "Tab, 1, 2, 3     GPUs, pods, processes",
    "z                the pane with the cursor fills the window",
    "Enter            details of the row, with a longer history",
    "/                filter: rows that contain every word; Enter keeps it, Esc removes it",
    "s, S, <, >       sort by the next or the previous column; also Left, Right",
    "U, M, N          sort by utilization, by memory, in the natural order",
    "r                reverse the order",
    "Space, p         pause and continue",
    "+, -             double or halve the interval",
    "Ctrl-L           draw the window again",
    "Mouse            click a row or a heading, click a row again for its details, wheel",
    "",
    "\033[1mValues\033[0m",
    "",
    "-        the source has no such value: it is never shown as 0",
    "stale    the newest sample of the row has this age; the row is dim",
    "lost     the driver has lost the GPU; hung: its calls do not return;",
    "         gone: the source no longer reports it",
    "~        estimated: the GPU is shared, so the value is not measured for this pod alone",
    "HISTORY  one column for each interval, the newest on the right; blank: no value",
    NULL,
};

static void draw_help(struct drawing *d, size_t height)
{
    size_t n = 0;
    while (help[n])
        n++;
    if (d->ui->scroll + height > n)
        d->ui->scroll = n > height ? n - height : 0;
    for (size_t i = d->ui->scroll; i < n && i < d->ui->scroll + height; i++)
        add_line(d, "", help[i]);
}

// --- details ---

static void draw_details(struct drawing *d, size_t height)
{
    struct top_ui *ui = d->ui;
    GS_AUTO_BUF struct gs_buf text = {0};
    top_details_text(d->m, ui->pane, ui->selected[ui->pane], d->s->now_ms, d->columns, height,
                     &text);
    struct gs_slice rest = gs_slice_make(text.data, text.len ? text.len - 1 : 0);
    size_t n = 0;
    for (size_t i = 0; i < text.len; i++)
        n += text.data[i] == '\n';
    if (ui->scroll + height > n)
        ui->scroll = n > height ? n - height : 0;
    for (size_t i = 0; rest.data; i++) {
        GS_AUTO_FREE char *line = gs_slice_dup(gs_slice_cut(&rest, '\n'));
        if (i >= ui->scroll && i < ui->scroll + height)
            add_line(d, "", line);
    }
}

// --- the line of keys ---

static void add_keys(struct drawing *d)
{
    struct top_ui *ui = d->ui;
    GS_AUTO_BUF struct gs_buf left = {0}, right = {0};
    if (ui->typing) {
        gs_buf_add_str(&left, "Filter: ");
        gs_columns_clean(&left, gs_slice_of(ui->filter));
        gs_buf_add_str(&left, "█");
        gs_buf_add_str(&right, "Enter keep  Esc cancel ");
    } else if (ui->help || ui->details) {
        gs_buf_add_str(&left, "Esc back  Up/Down scroll  q back");
    } else {
        gs_buf_add_str(&left, *ui->filter ? "Filter: " : "");
        gs_columns_clean(&left, gs_slice_of(ui->filter));
        gs_buf_add_str(&left, *ui->filter ? " (Esc removes)  " : "");
        gs_buf_add_str(&left, "q quit  ? help  / filter  s sort  Tab pane  Enter details");
        size_t n = ui->n_rows[ui->pane], first = ui->first[ui->pane], shown = ui->shown[ui->pane];
        if (n > shown)
            gs_buf_addf(&right, "%s %zu-%zu of %zu ", nouns[ui->pane], first + 1,
                        first + shown < n ? first + shown : n, n);
    }
    GS_AUTO_FREE char *line =
        both_ends(left.data ? left.data : "", right.data ? right.data : "", d->columns);
    add_line(d, REVERSE, line);
}

void top_frame_draw(const struct top_model *m, struct top_ui *ui, const struct top_status *s,
                    size_t rows, size_t columns, struct top_frame *ret)
{
    struct drawing d = {ret, m, ui, s, rows, columns, 0};
    struct top_rows selected[TOP_PANES];
    gs_buf_clear(&ret->text);
    for (int i = 0; i < TOP_PANES; i++) {
        top_rows_select(m, (enum top_pane)i, &ui->order[i], ui->filter, s->now_ms, &selected[i]);
        follow_selection(&d, (enum top_pane)i, &selected[i]);
    }
    for (size_t i = 0; i < TOP_MAX_LINES; i++)
        ret->lines[i].pane = -1;
    if (rows > TOP_MAX_LINES)
        d.rows = rows = TOP_MAX_LINES;
    if (rows > 3) {
        add_title(&d);
        add_summary(&d);
    }
    size_t last = rows > 1 ? 1 : 0;
    size_t height = rows > d.n + last ? rows - d.n - last : 0;
    if (ui->help)
        draw_help(&d, height);
    else if (ui->details)
        draw_details(&d, height);
    else
        draw_panes(&d, selected, height);
    while (d.n + last < rows)
        add_line(&d, "", "");
    if (last)
        add_keys(&d);
    for (int i = 0; i < TOP_PANES; i++)
        top_rows_finish(&selected[i]);
}

void top_frame_click(const struct top_frame *f, struct top_ui *ui, size_t line, size_t column)
{
    if (ui->help || ui->details) {
        ui->help = ui->details = false;
        return;
    }
    if (line >= TOP_MAX_LINES || f->lines[line].pane < 0)
        return;
    enum top_pane pane = (enum top_pane)f->lines[line].pane;
    if (f->lines[line].header) {
        const struct top_layout *l = &f->layouts[pane];
        struct top_order *order = &ui->order[pane];
        ui->pane = pane;
        for (size_t i = 0; i < l->n; i++) {
            int c = l->items[i].column;
            if (column < l->items[i].at || column > l->items[i].at + l->items[i].width ||
                top_columns_of(pane)[c].most == TOP_HISTORY)
                continue;
            bool again = order->column == c;
            *order = (struct top_order){c, again && !order->reverse};
            return;
        }
        return;
    }
    if (f->lines[line].row == SIZE_MAX)
        return;
    bool again = ui->pane == pane && ui->cursor[pane] == f->lines[line].row;
    ui->pane = pane;
    ui->cursor[pane] = f->lines[line].row;
    free(ui->selected[pane]);
    ui->selected[pane] = NULL;
    ui->details = again;
    ui->scroll = 0;
}

// --- other character sets ---

void top_frame_ascii(struct gs_slice text, struct gs_buf *out)
{
    static const struct {
        const char *from;
        char to;
    } known[] = {{"▁", '_'}, {"▂", '.'}, {"▃", ':'}, {"▄", '-'}, {"▅", '='}, {"▆", '+'},
                 {"▇", '*'}, {"█", '#'}, {"…", '~'}, {"·", '|'}, {"▲", '^'}, {"▼", 'v'}};
    while (text.len) {
        size_t n = 1;
        while (n < text.len && ((unsigned char)text.data[n] & 0xc0) == 0x80)
            n++;
        struct gs_slice c = gs_slice_make(text.data, (unsigned char)*text.data < 0x80 ? 1 : n);
        char to = '?';
        for (size_t i = 0; i < GS_ARRAY_LEN(known); i++)
            if (gs_slice_eq_str(c, known[i].from))
                to = known[i].to;
        if (c.len == 1 && (unsigned char)*c.data < 0x80)
            gs_buf_add_char(out, *c.data);
        else
            for (size_t i = gs_columns_width(c); i > 0; i--)
                gs_buf_add_char(out, to);
        text = gs_slice_make(text.data + c.len, text.len - c.len);
    }
}
