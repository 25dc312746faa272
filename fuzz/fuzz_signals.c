// SPDX-License-Identifier: Apache-2.0
// Pages of inference engines with the default table: two pages of one target, before and after a
// line "----". A text that begins with "engines:" is a table instead.
#include "engine/signals/signals.h"

#include "base/assert.h"
#include "base/mem.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_rows(const struct signals_page *p)
{
    const struct signals_row *r;
    for (size_t i = 0; signals_page_engine(p) && (r = signals_page_row(p, i)); i++) {
        for (size_t q = 0; r->present && q < SIGNALS_N_QUANTITIES; q++) {
            GS_AUTO_FREE char *why =
                r->has[q] ? NULL : signals_page_absent(p, i, (enum signals_quantity)q);
            gs_assert(r->has[q] || *why);
        }
        for (size_t h = 0; r->present && h < SIGNALS_N_HISTOGRAMS; h++)
            for (size_t k = 1; k < r->histogram[h].n; k++)
                gs_assert(r->histogram[h].bounds[k] > r->histogram[h].bounds[k - 1]);
    }
}

static void read_pages(const struct signals_table *t, struct gs_slice text)
{
    struct signals_page *p = signals_page_new(t);
    struct gs_slice second = {0};
    const char *line = memmem(text.data, text.len, "----\n", 5);
    if (line) {
        second = gs_slice_make(line + 5, text.len - (size_t)(line - text.data) - 5);
        text.len = (size_t)(line - text.data);
    }
    for (int i = 1; i < 4; i++) {
        gs_error_free(signals_page_read(p, i == 2 && line ? second : text, METRICS_TEXT, i * 1000));
        check_rows(p);
        CODEC_AUTO_JSON json_t *j = signals_page_json(p);
    }
    signals_page_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct signals_table *table;
    struct gs_slice text = gs_slice_make(data, size);
    if (!table)
        gs_error_free(signals_table_load(NULL, &table));
    if (!gs_slice_starts(text, "engines:")) {
        read_pages(table, text);
        return 0;
    }
    struct signals_table *own = NULL;
    GS_AUTO_ERROR struct gs_error *err = signals_table_parse(text, "table", &own);
    if (!err)
        read_pages(own, GS_SLICE("a 1\na{le=\"1\"} 2\na_bucket{le=\"+Inf\"} 3\n"));
    signals_table_free(own);
    return 0;
}
