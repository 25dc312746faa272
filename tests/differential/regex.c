// SPDX-License-Identifier: Apache-2.0
// Reads the lines of regex.go and compares the results with those of matchers in selectors.
#include "promql/ast.h"

#include "base/buf.h"
#include "base/error.h"
#include "base/slice.h"

#include <stdio.h>
#include <stdlib.h>

// Decodes hexadecimal digits up to `end`, in place.
static struct gs_slice unhex(char *text, char end, char **ret_rest)
{
    size_t n = 0;
    char *at = text;
    for (; at[0] != end && at[0] && at[1]; at += 2) {
        const char digits[3] = {at[0], at[1], '\0'};
        text[n++] = (char)strtoul(digits, NULL, 16);
    }
    *ret_rest = *at ? at + 1 : at;
    return gs_slice_make(text, n);
}

static void add_string(struct gs_buf *out, struct gs_slice s)
{
    gs_buf_add_char(out, '"');
    for (size_t i = 0; i < s.len; i++)
        gs_buf_addf(out, "\\x%02x", (unsigned char)s.data[i]);
    gs_buf_add_char(out, '"');
}

// "1", "0" or "E" and the reason.
static void run(struct gs_slice pattern, struct gs_slice text, struct gs_buf *out)
{
    struct promql_expr *x = NULL;
    GS_AUTO_BUF struct gs_buf selector = {0};
    gs_buf_add_str(&selector, "{a=~");
    add_string(&selector, pattern);
    gs_buf_add_char(&selector, '}');
    struct gs_error *err = promql_parse_selector(gs_buf_slice(&selector), &x);
    if (err) {
        const char *reason = strstr(gs_error_message(err), "error parsing regexp: ");
        gs_buf_addf(out, "E%s", reason ? reason : gs_error_message(err));
        gs_error_free(err);
        return;
    }
    bool is = tsdb_matcher_matches(&promql_expr_root(x)->u.selector.matchers[0], text);
    gs_buf_add_str(out, is ? "1" : "0");
    promql_expr_free(x);
}

int main(void)
{
    char line[4096];
    int n = 0, wrong = 0, other_text = 0;
    while (fgets(line, sizeof(line), stdin)) {
        char *rest;
        struct gs_slice pattern = unhex(line, '/', &rest);
        struct gs_slice text = unhex(rest, '/', &rest);
        GS_AUTO_BUF struct gs_buf got = {0}, want = {0};
        run(pattern, text, &got);
        gs_buf_add_char(&want, *rest);
        if (*rest == 'E')
            gs_buf_add_slice(&want, unhex(rest + 1, '\n', &rest));
        n++;
        bool same = got.data[0] == want.data[0];
        wrong += !same;
        other_text += same && !gs_slice_eq(gs_buf_slice(&got), gs_buf_slice(&want));
        if (!same)
            printf("DIFFERS: " GS_SLICE_FMT " on \"" GS_SLICE_FMT "\": %s, in Go " GS_SLICE_FMT
                   "\n",
                   GS_SLICE_ARG(pattern), GS_SLICE_ARG(text), got.data,
                   GS_SLICE_ARG(gs_buf_slice(&want)));
    }
    printf("%d regular expressions, %d differ, %d errors have another text\n", n, wrong,
           other_text);
    return wrong || !n;
}
