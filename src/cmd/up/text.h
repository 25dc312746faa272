// SPDX-License-Identifier: Apache-2.0
// Text in columns of a terminal. Escape sequences and combining characters take no column, wide
// characters take two.
#pragma once

#include "base/buf.h"

size_t up_text_width(struct gs_slice s); // columns
// The text, cut to `width` columns; what is cut ends with "…".
void up_text_fit(struct gs_buf *out, struct gs_slice s, size_t width);
// The same, filled up with blanks to exactly `width` columns.
void up_text_column(struct gs_buf *out, struct gs_slice s, size_t width);
// Takes the next line of at most `width` columns off *rest, at a blank where there is one.
struct gs_slice up_text_wrap(struct gs_slice *rest, size_t width);
