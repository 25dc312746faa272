// SPDX-License-Identifier: Apache-2.0
// All cells are kept until the table is printed, because the widths of columns are known only
// then.
#include "base/table.h"

#include "base/columns.h"
#include "base/mem.h"

#include <stdarg.h>

struct gs_table {
    char **cells; // row by row; NULL: not written
    size_t n_rows, n_columns;
    size_t next;
};

struct gs_table *gs_table_new(size_t rows, size_t columns)
{
    size_t n, size;
    if (__builtin_mul_overflow(rows, columns, &n) ||
        __builtin_mul_overflow(n, sizeof(char *), &size))
        return NULL;
    char **cells = gs_try_alloc(size ? size : 1);
    if (!cells)
        return NULL;
    struct gs_table *t = gs_alloc(sizeof(*t));
    *t = (struct gs_table){.cells = cells, .n_rows = rows, .n_columns = columns};
    return t;
}

void gs_table_free(struct gs_table *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->n_rows * t->n_columns; i++)
        free(t->cells[i]);
    free(t->cells);
    free(t);
}

void gs_table_add(struct gs_table *t, const char *text)
{
    if (t->next >= t->n_rows * t->n_columns)
        return;
    free(t->cells[t->next]);
    t->cells[t->next++] = text ? gs_strdup(text) : NULL;
}

void gs_table_addf(struct gs_table *t, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    GS_AUTO_FREE char *text = gs_vformat(fmt, args);
    va_end(args);
    gs_table_add(t, text);
}

void gs_table_seek(struct gs_table *t, size_t row, size_t column)
{
    t->next = row * t->n_columns + column;
}

static struct gs_slice cell_of(const struct gs_table *t, size_t row, size_t column)
{
    const char *text = t->cells[row * t->n_columns + column];
    return gs_slice_of(text ? text : "-");
}

static void add_blanks(struct gs_buf *out, size_t n)
{
    gs_buf_addf(out, "%*s", (int)n, "");
}

static void print_row(const struct gs_table *t, size_t row, const size_t *widths,
                      const struct gs_table_style *s, struct gs_buf *out)
{
    add_blanks(out, s->indent);
    for (size_t c = 0; c < t->n_columns; c++) {
        struct gs_slice text = cell_of(t, row, c);
        size_t fill = widths[c] - gs_columns_width(text);
        bool right = c >= s->left, last = c + 1 == t->n_columns && !s->fill;
        add_blanks(out, right ? fill : 0);
        gs_buf_add_slice(out, text);
        add_blanks(out, last ? 0 : s->gap + (right ? 0 : fill));
    }
}

void gs_table_print(const struct gs_table *t, const struct gs_table_style *style,
                    struct gs_buf *out)
{
    GS_AUTO_FREE size_t *widths = gs_alloc_array(t->n_columns + 1, sizeof(*widths));
    for (size_t c = 0; c < t->n_columns; c++) {
        widths[c] = c ? style->least : style->least_first;
        for (size_t r = 0; r < t->n_rows; r++) {
            size_t n = gs_columns_width(cell_of(t, r, c));
            widths[c] = n > widths[c] ? n : widths[c];
        }
    }
    for (size_t r = 0; r < t->n_rows; r++) {
        bool bold = style->bold && r == 0;
        gs_buf_add_str(out, bold ? "\x1b[1m" : "");
        print_row(t, r, widths, style, out);
        gs_buf_add_str(out, bold ? "\x1b[0m\n" : "\n");
    }
}
