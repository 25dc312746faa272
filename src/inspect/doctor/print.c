// SPDX-License-Identifier: Apache-2.0
// The report as text.
#include "base/columns.h"
#include "doctor/doctor_private.h"

#include <stdio.h>
#include <string.h>

// Texts from outside: control characters are not printed.
static void add_text(struct gs_buf *out, const char *text)
{
    gs_columns_clean(out, gs_slice_of(text ? text : ""));
}

// Adds a text with each line indented.
static void add_lines(struct gs_buf *out, const char *title, const char *text)
{
    struct gs_slice rest = gs_slice_of(text);
    if (!rest.len)
        return;
    gs_buf_addf(out, "   %-9s ", title);
    while (rest.data) {
        gs_columns_clean(out, gs_slice_cut(&rest, '\n'));
        if (rest.len)
            gs_buf_add_str(out, "\n             ");
    }
    gs_buf_add_char(out, '\n');
}

// The number of the finding that explains this one; 0: none.
static size_t cause_number(const json_t *findings, const json_t *f)
{
    const json_t *because = json_object_get(f, "because"), *o;
    size_t i;

    json_array_foreach (findings, i, o)
        if (because &&
            gs_streq(codec_json_str(o, "check", NULL), codec_json_str(because, "check", NULL)) &&
            gs_streq(codec_json_str(o, "subject", NULL), codec_json_str(because, "subject", NULL)))
            return i + 1;
    return 0;
}

static void add_finding(struct gs_buf *out, size_t number, const json_t *f, size_t cause)
{
    gs_buf_addf(out, "%zu. [%s] ", number, codec_json_str(f, "link", NULL));
    add_text(out, codec_json_str(f, "subject", NULL));
    gs_buf_add_char(out, '\n');
    add_lines(out, gs_streq(codec_json_str(f, "level", NULL), "risk") ? "risk" : "broken",
              codec_json_str(f, "what", NULL));
    if (cause)
        gs_buf_addf(out, "   %-9s finding %zu\n", "because", cause);
    add_lines(out, "evidence", codec_json_str(f, "evidence", NULL));
    add_lines(out, "why", codec_json_str(f, "why", NULL));
    add_lines(out, "fix", codec_json_str(f, "fix", NULL));
    add_lines(out, "check", codec_json_str(f, "check", NULL));
    gs_buf_add_char(out, '\n');
}

void doctor_report_text(const json_t *report, struct gs_buf *out)
{
    const json_t *findings = json_object_get(report, "findings"), *o;
    const json_t *examined = json_object_get(report, "examined");
    const json_t *missing = json_object_get(report, "notExamined");
    size_t i, n = json_array_size(findings);

    json_array_foreach (findings, i, o)
        add_finding(out, i + 1, o, cause_number(findings, o));
    if (n)
        gs_buf_addf(out, "%zu finding%s, the first broken link first.", n, n == 1 ? "" : "s");
    else
        gs_buf_add_str(out, json_array_size(examined) ? "No findings." : "Nothing was examined.");
    json_array_foreach (examined, i, o) {
        gs_buf_add_str(out, i ? ", " : " Examined: ");
        add_text(out, json_string_value(o));
    }
    gs_buf_add_str(out, json_array_size(examined) ? ".\n" : "\n");
    json_array_foreach (missing, i, o) {
        gs_buf_addf(out, "Not examined: %s: ", codec_json_str(o, "what", NULL));
        add_text(out, codec_json_str(o, "why", NULL));
        gs_buf_add_char(out, '\n');
    }
}
