// SPDX-License-Identifier: Apache-2.0
// Rows of text that fit into a window. Sections are shown in the order in which they are added.
// When there are more rows than the window has, the important sections keep theirs.
#pragma once

#include "base/buf.h"

struct up_block;

struct up_section {
    unsigned importance; // the highest gets its rows first
    size_t least;        // rows that come before all details of other sections
    const char *more;    // what is counted when it is cut ("… 3 more GPUs"); NULL: not counted
};

// rows: at most that many; 0: no limit. columns: of each row.
struct up_block *up_block_new(size_t rows, size_t columns);
void up_block_free(struct up_block *b);
size_t up_block_columns(const struct up_block *b);
size_t up_block_rows(const struct up_block *b);
// What is added afterwards belongs to it. `more` is borrowed.
void up_block_section(struct up_block *b, struct up_section s);
// An entry: one row, cut with "…" where it is too long.
void up_block_entry(struct up_block *b, struct gs_slice text);
// A text in as many rows as it needs, up to four, where there is room: an entry of its own when
// rank is 0, else more about the last entry. Rows of rank 1 come before all other rows of the
// section's entries. first and next are the indentations of its first row and of the others.
void up_block_text(struct up_block *b, unsigned rank, const char *first, const char *next,
                   struct gs_slice text);
// The rows, each with '\n'.
void up_block_print(const struct up_block *b, struct gs_buf *out);
