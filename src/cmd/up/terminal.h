// SPDX-License-Identifier: Apache-2.0
// A block of lines that is redrawn in place at the bottom of a terminal, with log lines scrolling
// above it. Where the output is no terminal there is no block, only lines.
#pragma once

#include "base/buf.h"

struct up_terminal;

struct up_terminal *up_terminal_new(int fd);  // becomes the sink of the log
void up_terminal_free(struct up_terminal *t); // takes the block away, the log goes to stderr again
bool up_terminal_live(const struct up_terminal *t);
bool up_terminal_colour(const struct up_terminal *t); // a terminal, and NO_COLOR is not set
void up_terminal_line(struct up_terminal *t, const char *fmt, ...) GS_PRINTF(2, 3);
// The window now. Where the terminal does not say: $LINES and $COLUMNS, else 24 and 80.
void up_terminal_size(const struct up_terminal *t, size_t *ret_rows, size_t *ret_columns);
// Lines end with '\n'. Lines that are longer than the window is wide are cut, and so are rows that
// it does not have. No effect without a terminal. Draw again when the window changes (SIGWINCH).
void up_terminal_draw(struct up_terminal *t, struct gs_slice block);
