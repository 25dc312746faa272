// SPDX-License-Identifier: Apache-2.0
// A table of texts in columns that are as wide as their widest cell, for terminals. Widths are
// those of base/columns.h. Cells are printed as they are: the caller makes texts of others
// harmless.
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>

struct gs_table;

struct gs_table_style {
    size_t indent, gap;        // blanks before a row and between two cells
    size_t least_first, least; // minimum width of the first column and of the other ones
    size_t left;               // this number of columns is left-aligned, the others right-aligned
    bool fill;                 // the last column is filled with blanks, and followed by a gap
    bool bold;                 // the first row is bold
};

// NULL: more than the memory can hold.
struct gs_table *gs_table_new(size_t rows, size_t columns);
void gs_table_free(struct gs_table *t); // accepts NULL
GS_DEFINE_CLEANUP(struct gs_table *, gs_table_free)

// Writes the cell after the last one that was written, row by row. The text is copied; NULL: "-".
// Cells behind the last row are ignored, those that were never written are "-".
void gs_table_add(struct gs_table *t, const char *text);
void gs_table_addf(struct gs_table *t, const char *fmt, ...) GS_PRINTF(2, 3);
// Continues at this cell.
void gs_table_seek(struct gs_table *t, size_t row, size_t column);

void gs_table_print(const struct gs_table *t, const struct gs_table_style *style,
                    struct gs_buf *out);
