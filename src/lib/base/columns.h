// SPDX-License-Identifier: Apache-2.0
// Text in columns of a terminal. Escape sequences and combining characters take no column, wide
// characters take two. The text is UTF-8; a byte that is not UTF-8 counts as one character.
#pragma once

#include "base/buf.h"

size_t gs_columns_width(struct gs_slice s); // columns
// The text, cut to `width` columns; what is cut ends with "…".
void gs_columns_fit(struct gs_buf *out, struct gs_slice s, size_t width);
// The same, filled up with blanks to exactly `width` columns.
void gs_columns_pad(struct gs_buf *out, struct gs_slice s, size_t width);
// Takes the next line of at most `width` columns off *rest, at a blank where there is one.
struct gs_slice gs_columns_wrap(struct gs_slice *rest, size_t width);
// Text of others, such as the value of a label, in a form that cannot control the terminal or move
// other text: control characters, bidirectional controls, characters without a width and bytes that
// are not UTF-8 become U+FFFD.
void gs_columns_clean(struct gs_buf *out, struct gs_slice s);
