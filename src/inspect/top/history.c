// SPDX-License-Identifier: Apache-2.0
// The last values of a row, one for each interval, as a ring of TOP_HISTORY values; NAN is no
// value. Drawn with the block characters of Unicode in eighths.
#include "top/top_private.h"

#include <math.h>

static const char *const eighths[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
enum { EIGHTHS = 8 };

void top_history_add(struct top_history *h, int64_t interval, double value)
{
    if (interval <= h->last - TOP_HISTORY || interval <= 0)
        return;
    if (interval > h->last) {
        int64_t from = interval - h->last > TOP_HISTORY ? interval - TOP_HISTORY : h->last;
        for (int64_t i = from + 1; i <= interval; i++)
            h->values[i % TOP_HISTORY] = NAN;
        h->last = interval;
    }
    h->values[interval % TOP_HISTORY] = (float)value;
}

double top_history_at(const struct top_history *h, int64_t interval)
{
    if (!h->last || interval > h->last || interval <= h->last - TOP_HISTORY || interval <= 0)
        return NAN;
    return h->values[interval % TOP_HISTORY];
}

// Eighths of a block that a value fills in a chart of this height; -1: no value. A value above 0 is
// at least one.
static long filled(double value, double max, size_t rows)
{
    double most = (double)(EIGHTHS * rows);
    double n = ceil(value / max * most);
    if (isnan(n) || !(max > 0))
        return -1;
    return n < 0 ? 0 : n > most ? (long)most : (long)n;
}

void top_history_draw(const struct top_history *h, int64_t now, size_t columns, double max,
                      struct gs_buf *out)
{
    for (size_t i = columns; i > 0; i--) {
        long n = filled(top_history_at(h, now - (int64_t)i + 1), max, 1);
        gs_buf_add_str(out, n < 0 ? " " : eighths[n > 0 ? n - 1 : 0]);
    }
}

void top_history_chart(const struct top_history *h, int64_t now, size_t rows, size_t columns,
                       double max, struct gs_buf *out)
{
    for (size_t row = rows; row > 0; row--) {
        for (size_t i = columns; i > 0; i--) {
            long n = filled(top_history_at(h, now - (int64_t)i + 1), max, rows);
            long here = n - (long)((row - 1) * EIGHTHS);
            bool base = row == 1 && n == 0; // a value of 0 differs from no value
            gs_buf_add_str(out, base        ? eighths[0]
                                : here <= 0 ? " "
                                            : eighths[here > EIGHTHS ? EIGHTHS - 1 : here - 1]);
        }
        gs_buf_add_char(out, '\n');
    }
}
