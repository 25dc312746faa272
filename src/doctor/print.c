// SPDX-License-Identifier: Apache-2.0
// The report as text.
#include "doctor/doctor_private.h"

#include <stdio.h>
#include <string.h>

// Adds a text with each line indented. Control characters of outside texts are not printed.
static void add_lines(struct gs_buf *out, const char *title, const char *text)
{
    if (!text || !*text)
        return;
    gs_buf_addf(out, "   %-9s ", title);
    for (const char *c = text; *c; c++) {
        if (*c == '\n' && c[1])
            gs_buf_add_str(out, "\n             ");
        else if (*c == '\n')
            continue;
        else
            gs_buf_add(out, (unsigned char)*c < ' ' || *c == 0x7f ? "?" : c, 1);
    }
    gs_buf_add_char(out, '\n');
}

static void add_finding(struct gs_buf *out, size_t number, const json_t *f)
{
    const char *subject = codec_json_str(f, "subject", NULL);

    gs_buf_addf(out, "%zu. [%s] %s\n", number, codec_json_str(f, "link", NULL),
                subject ? subject : "");
    add_lines(out, gs_streq(codec_json_str(f, "level", NULL), "risk") ? "risk" : "broken",
              codec_json_str(f, "what", NULL));
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
        add_finding(out, i + 1, o);
    if (n)
        gs_buf_addf(out, "%zu finding%s, the first broken link first.", n, n == 1 ? "" : "s");
    else
        gs_buf_add_str(out, json_array_size(examined) ? "No findings." : "Nothing was examined.");
    json_array_foreach (examined, i, o)
        gs_buf_addf(out, "%s%s", i ? ", " : " Examined: ", json_string_value(o));
    gs_buf_add_str(out, json_array_size(examined) ? ".\n" : "\n");
    json_array_foreach (missing, i, o)
        gs_buf_addf(out, "Not examined: %s: %s\n", codec_json_str(o, "what", NULL),
                    codec_json_str(o, "why", NULL));
}
