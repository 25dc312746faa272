// SPDX-License-Identifier: Apache-2.0
// Any expression, read under the other names of its metrics and converted in both directions: the
// results are expressions of the same type. Any file, converted: the function compares the result
// with what it should contain, and only says that it cannot edit a file.
#include "aliases/documents.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// All names exist, except those whose length is a multiple of three.
static bool exists(void *some, struct gs_slice metric)
{
    return !some || metric.len % 3;
}

static void check(const struct promql_expr *x, const struct gs_buf *text, const char *how)
{
    struct promql_expr *y = NULL;
    if (!text->len)
        return;
    GS_AUTO_ERROR struct gs_error *err = promql_parse(gs_buf_slice(text), &y);
    if (err && gs_error_code(err) == GS_ELIMIT) // it can be longer or deeper than the original
        return;
    if (err || promql_expr_root(x)->type != promql_expr_root(y)->type) {
        fprintf(stderr, "%s: " GS_SLICE_FMT "\n%s\n%s\n", how, GS_SLICE_ARG(promql_expr_text(x)),
                text->data, err ? gs_error_message(err) : "another type");
        abort();
    }
    promql_expr_free(y);
}

static void read_names(const struct promql_expr *x)
{
    for (unsigned i = 0; i < 4; i++) {
        const struct aliases_source s = {exists, i & 1 ? &i : NULL, (i & 2) != 0};
        GS_AUTO_BUF struct gs_buf text = {0}, notes = {0};
        aliases_read(x, &s, &text, &notes);
        check(x, &text, "read");
    }
}

static void convert_names(const struct promql_expr *x)
{
    for (int i = 0; i < 2; i++) {
        GS_AUTO_BUF struct gs_buf text = {0}, changes = {0}, problem = {0};
        GS_AUTO_ERROR struct gs_error *err = aliases_convert(
            promql_expr_text(x), i ? ALIASES_4_9 : ALIASES_4_8, &text, &changes, &problem);
        if (!err)
            check(x, &text, "convert");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gs_slice text = gs_slice_make(size ? (const char *)data : "", size);
    struct promql_expr *x = NULL;
    promql_set_features(PROMQL_EXPERIMENTAL_FUNCTIONS | PROMQL_FILL | PROMQL_UTF8_NAMES);
    GS_AUTO_ERROR struct gs_error *err = promql_parse(text, &x);
    if (!err) {
        read_names(x);
        convert_names(x);
        promql_expr_free(x);
    }
    ALIASES_AUTO_REPORT struct aliases_report report = {{0}};
    GS_AUTO_BUF struct gs_buf out = {0};
    gs_error_free(aliases_convert_document(text, "f", ALIASES_4_9, &report, &out));
    return 0;
}
