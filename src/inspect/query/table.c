// SPDX-License-Identifier: Apache-2.0
// Tables for people. Labels that all series have in common are printed once above the table. For an
// instant vector, each other label is a column. For a range, each time is a row and each series is
// a column.
#include "base/table.h"
#include "base/clock.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "base/num.h"
#include "query/query_private.h"

#include <stdlib.h>
#include <time.h>

void query_add_visible(struct gs_buf *out, struct gs_slice s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.data[i];
        // U+0080 to U+009F in UTF-8 are control characters, too.
        bool c1 = c == 0xc2 && i + 1 < s.len && ((unsigned char)s.data[i + 1] & 0xe0) == 0x80;
        if (c == '\n')
            gs_buf_add_str(out, "\\n");
        else if (c < ' ' || c == 0x7f)
            gs_buf_addf(out, "\\x%02x", c);
        else if (c1)
            gs_buf_addf(out, "\\x%02x", (unsigned char)s.data[++i]);
        else
            gs_buf_add_char(out, (char)c);
    }
}

// --- cells ---

static void add_cell(struct gs_table *t, const char *text)
{
    GS_AUTO_BUF struct gs_buf visible = {0};
    query_add_visible(&visible, gs_slice_of(text ? text : "-"));
    gs_table_add(t, visible.len ? visible.data : "\"\"");
}

static void print_table(const struct gs_table *t, const struct query_print *p, size_t left,
                        struct gs_buf *out)
{
    const struct gs_table_style style = {.gap = 2, .left = left, .bold = p->bold};
    gs_table_print(t, &style, out);
}

// --- what differs ---

static bool same_everywhere(const struct query_result *r, const char *name)
{
    const char *first = query_label_of(&r->series[0], name);
    for (size_t i = 1; i < r->n; i++)
        if (!gs_streq(first, query_label_of(&r->series[i], name)))
            return false;
    return first != NULL;
}

// Moves names whose values differ to the front of `names`. The others become `common`.
static size_t split_names(const struct query_result *r, const struct query_names *names,
                          struct query_label *common, size_t *ret_common)
{
    size_t differ = 0, n = 0;
    for (size_t i = 0; i < names->n; i++) {
        const char *name = names->items[i];
        if (same_everywhere(r, name))
            common[n++] = (struct query_label){name, query_label_of(&r->series[0], name)};
        else
            names->items[differ++] = name;
    }
    *ret_common = n;
    return differ;
}

static void add_time_cell(struct gs_buf *out, int64_t t_ms)
{
    char text[GS_RFC3339_SIZE];
    int64_t ms = ((t_ms % 1000) + 1000) % 1000;
    gs_format_rfc3339(t_ms - ms, text);
    if (!ms) {
        gs_buf_add_str(out, text);
        return;
    }
    size_t n = strlen(text);
    gs_buf_addf(out, "%.*s.%03d%s", (int)n - 1, text, (int)ms, text + n - 1);
}

static void add_table_head(const struct query_label *common, size_t n, struct gs_buf *out)
{
    GS_AUTO_BUF struct gs_buf metric = {0};
    query_add_metric(&metric, common, n);
    query_add_visible(out, gs_buf_slice(&metric));
}

// --- instant values, and lists of series ---

static void print_lines(const struct query_print *p, const struct query_result *r,
                        const struct query_names *names, size_t differ, struct gs_buf *out)
{
    bool values = p->kind == QUERY_VALUES;
    GS_CLEANUP(gs_table_freep)
    struct gs_table *t = differ + values ? gs_table_new(r->n + 1, differ + values) : NULL;
    if (!t)
        return;
    for (size_t c = 0; c < differ; c++)
        add_cell(t, names->items[c]);
    if (values)
        add_cell(t, "VALUE");
    for (size_t i = 0; i < r->n; i++) {
        const struct query_series *s = &r->series[i];
        for (size_t c = 0; c < differ; c++)
            add_cell(t, query_label_of(s, names->items[c]));
        if (values)
            add_cell(t, s->n_points ? s->points[0].value : NULL);
    }
    print_table(t, p, differ, out);
}

// --- ranges ---

static int64_t *all_times(const struct query_result *r, struct gs_arena *arena, size_t *ret_n)
{
    size_t all = 0, n = 0, distinct = 0;
    for (size_t i = 0; i < r->n; i++)
        all += r->series[i].n_points;
    int64_t *times = gs_arena_alloc(arena, (all + 1) * sizeof(*times));
    if (!times)
        return NULL;
    for (size_t i = 0; i < r->n; i++)
        for (size_t k = 0; k < r->series[i].n_points; k++)
            times[n++] = r->series[i].points[k].t_ms;
    if (n)
        qsort(times, n, sizeof(*times), gs_compare_int64s);
    for (size_t i = 0; i < n; i++)
        if (!distinct || times[distinct - 1] != times[i])
            times[distinct++] = times[i];
    *ret_n = distinct;
    return times;
}

static bool distinguishes_all(const struct query_result *r, const char *name, struct gs_hmap *seen,
                              size_t *ret_bytes)
{
    gs_hmap_clear(seen);
    *ret_bytes = 0;
    for (size_t i = 0; i < r->n; i++) {
        const char *value = query_label_of(&r->series[i], name);
        if (!value || gs_hmap_get_str(seen, value))
            return false;
        gs_hmap_put_str(seen, value, seen);
        *ret_bytes += strlen(value);
    }
    return true;
}

// If one label distinguishes all series, it is sufficient as heading. The shortest such label is
// moved to the front.
static size_t choose_titles(const struct query_result *r, struct query_names *names, size_t differ)
{
    GS_CLEANUP(gs_hmap_freep) struct gs_hmap *seen = gs_hmap_new(NULL);
    size_t best = differ, best_bytes = SIZE_MAX, bytes;
    for (size_t i = 0; i < differ; i++)
        if (distinguishes_all(r, names->items[i], seen, &bytes) && bytes < best_bytes) {
            best = i;
            best_bytes = bytes;
        }
    if (best == differ)
        return differ;
    names->items[0] = names->items[best];
    return 1;
}

// a="1",b="2": the labels that distinguish the series from the others.
static void add_title(struct gs_buf *out, const struct query_series *s,
                      const struct query_names *names, size_t n)
{
    const char *sep = "";
    for (size_t c = 0; c < n; c++) {
        const char *value = query_label_of(s, names->items[c]);
        if (!value)
            continue;
        gs_buf_addf(out, "%s%s=\"%s\"", sep, names->items[c], value);
        sep = ",";
    }
    if (!*sep)
        gs_buf_add_str(out, n ? "{}" : "VALUE");
}

static void print_matrix(const struct query_print *p, const struct query_result *r,
                         struct query_names *names, size_t differ, struct gs_arena *arena,
                         struct gs_buf *out)
{
    size_t n_times = 0, n_titles = choose_titles(r, names, differ);
    const int64_t *times = all_times(r, arena, &n_times);
    GS_CLEANUP(gs_table_freep)
    struct gs_table *t = times ? gs_table_new(n_times + 1, r->n + 1) : NULL;
    if (!t)
        return;
    add_cell(t, "TIME");
    for (size_t i = 0; i < n_times; i++) {
        GS_AUTO_BUF struct gs_buf time = {0};
        add_time_cell(&time, times[i]);
        gs_table_seek(t, i + 1, 0);
        add_cell(t, time.data);
    }
    for (size_t c = 0; c < r->n; c++) {
        const struct query_series *s = &r->series[c];
        GS_AUTO_BUF struct gs_buf title = {0};
        add_title(&title, s, names, n_titles);
        gs_table_seek(t, 0, c + 1);
        add_cell(t, title.data);
        for (size_t k = 0; k < s->n_points; k++) {
            const int64_t *row =
                bsearch(&s->points[k].t_ms, times, n_times, sizeof(*times), gs_compare_int64s);
            gs_table_seek(t, (size_t)(row - times) + 1, c + 1);
            add_cell(t, s->points[k].value);
        }
    }
    print_table(t, p, 1, out);
}

void query_print_table(const struct query_print *p, const struct query_result *r,
                       struct gs_arena *arena, struct gs_buf *out)
{
    if (r->type == QUERY_SCALAR || r->type == QUERY_STRING) {
        query_add_visible(out, gs_slice_of(r->series[0].points[0].value));
        gs_buf_add_char(out, '\n');
        return;
    }
    struct query_names names = query_label_names(r, arena);
    struct query_label *common = gs_arena_alloc(arena, (names.n + 1) * sizeof(*common));
    if (!r->n || !common || (names.n && !names.items))
        return;
    size_t n_common = 0, differ = split_names(r, &names, common, &n_common);
    add_table_head(common, n_common, out);
    if (p->kind == QUERY_VALUES && r->type == QUERY_VECTOR && r->series[0].n_points) {
        gs_buf_add_str(out, " at ");
        add_time_cell(out, r->series[0].points[0].t_ms);
    }
    gs_buf_add_char(out, '\n');
    if (r->type == QUERY_MATRIX)
        print_matrix(p, r, &names, differ, arena, out);
    else
        print_lines(p, r, &names, differ, out);
}

// --- metadata ---

void query_print_metadata(const struct query_print *p, const json_t *data, struct gs_buf *out)
{
    static const char *const titles[] = {"METRIC", "TYPE", "UNIT", "HELP"};
    static const char *const keys[] = {"type", "unit", "help"};
    const char *name;
    json_t *list;
    size_t n = 0;
    json_object_foreach ((json_t *)data, name, list)
        n += json_array_size(list);
    GS_CLEANUP(gs_table_freep)
    struct gs_table *t = n ? gs_table_new(n + 1, GS_ARRAY_LEN(titles)) : NULL;
    if (!t)
        return;
    for (size_t i = 0; i < GS_ARRAY_LEN(titles); i++)
        add_cell(t, titles[i]);
    json_object_foreach ((json_t *)data, name, list)
        for (size_t i = 0; i < json_array_size(list); i++) {
            add_cell(t, name);
            for (size_t k = 0; k < GS_ARRAY_LEN(keys); k++) {
                const char *text = codec_json_str(json_array_get(list, i), keys[k], NULL);
                add_cell(t, text && *text ? text : NULL);
            }
        }
    print_table(t, p, SIZE_MAX, out);
}
