// SPDX-License-Identifier: Apache-2.0
// Test results as JUnit XML, in the form that `promtool test rules --junit` writes.
#include "base/file.h"
#include "codec/test_report.h"

#include <time.h>

static void add_xml_text(struct gs_buf *out, const char *s)
{
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '<')
            gs_buf_add_str(out, "&lt;");
        else if (c == '>')
            gs_buf_add_str(out, "&gt;");
        else if (c == '&')
            gs_buf_add_str(out, "&amp;");
        else if (c == '"')
            gs_buf_add_str(out, "&#34;");
        else if (c == '\n')
            gs_buf_add_str(out, "&#xA;");
        else if (c >= ' ' || c == '\t')
            gs_buf_add_char(out, (char)c);
        else // XML forbids other control characters
            gs_buf_add_str(out, "\xef\xbf\xbd");
    }
}

static void add_element(struct gs_buf *out, const char *name, const char *text)
{
    gs_buf_addf(out, "<%s>", name);
    add_xml_text(out, text);
    gs_buf_addf(out, "</%s>", name);
}

static void add_case(struct gs_buf *out, const struct codec_test_case *c)
{
    gs_buf_add_str(out, "<testcase name=\"");
    add_xml_text(out, c->name);
    gs_buf_add_str(out, "\">");
    for (size_t i = 0; i < c->n_failures; i++)
        add_element(out, "failure", c->failures[i]);
    gs_buf_add_str(out, "</testcase>");
}

void codec_junit_begin(struct gs_buf *out)
{
    gs_buf_add_str(out, "<testsuites>");
}

void codec_junit_add(struct gs_buf *out, const char *file, const struct codec_test_report *r,
                     const char *error)
{
    size_t failures = 0;
    for (size_t i = 0; i < r->n_cases; i++)
        failures += r->cases[i].n_failures;
    time_t now = time(NULL);
    struct tm tm;
    char when[32] = "";
    if (!error && localtime_r(&now, &tm))
        (void)strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
    gs_buf_add_str(out, "<testsuite name=\"");
    add_xml_text(out, file);
    gs_buf_addf(out,
                "\" tests=\"%zu\" failures=\"%zu\" errors=\"%d\" skipped=\"0\" timestamp=\"%s\">",
                r->n_cases + (error != NULL), failures, error != NULL, when);
    for (size_t i = 0; i < r->n_cases; i++)
        add_case(out, &r->cases[i]);
    if (error) {
        gs_buf_add_str(out, "<testcase name=\"unknown\">");
        add_element(out, "error", error);
        gs_buf_add_str(out, "</testcase>");
    }
    gs_buf_add_str(out, "</testsuite>");
}

struct gs_error *codec_junit_end(struct gs_buf *out, const struct codec_test_options *o)
{
    gs_buf_add_str(out, "</testsuites>");
    return o->junit ? gs_file_write_atomic(o->junit, 0666, gs_buf_slice(out)) : NULL;
}
