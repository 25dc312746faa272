// SPDX-License-Identifier: Apache-2.0
// Results of the commands that test: cases, their failures, and warnings. Names and texts that are
// added belong to the report.
#include "codec/test_report.h"

#include "base/mem.h"

struct codec_test_case *codec_test_report_add(struct codec_test_report *r, char *name)
{
    gs_grow(&r->cases, &r->cap_cases, r->n_cases, sizeof(*r->cases));
    r->cases[r->n_cases] = (struct codec_test_case){.name = name};
    return &r->cases[r->n_cases++];
}

void codec_test_report_warn(struct codec_test_report *r, char *text)
{
    gs_grow(&r->warnings, &r->cap_warnings, r->n_warnings, sizeof(*r->warnings));
    r->warnings[r->n_warnings++] = text;
}

void codec_test_case_fail(struct codec_test_case *c, char *text)
{
    gs_grow(&c->failures, &c->cap_failures, c->n_failures, sizeof(*c->failures));
    c->failures[c->n_failures++] = text;
}

void codec_test_case_finish(struct codec_test_case *c)
{
    for (size_t i = 0; i < c->n_failures; i++)
        free(c->failures[i]);
    free(c->failures);
    free(c->name);
    *c = (struct codec_test_case){0};
}

void codec_test_report_print(const struct codec_test_report *r, FILE *out)
{
    for (size_t i = 0; i < r->n_cases; i++) {
        if (r->cases[i].n_failures)
            fprintf(out, "    name: %s\n", r->cases[i].name);
        for (size_t k = 0; k < r->cases[i].n_failures; k++)
            fprintf(out, "%s\n", r->cases[i].failures[k]);
    }
}

void codec_test_report_finish(struct codec_test_report *r)
{
    for (size_t i = 0; i < r->n_cases; i++)
        codec_test_case_finish(&r->cases[i]);
    free(r->cases);
    for (size_t i = 0; i < r->n_warnings; i++)
        free(r->warnings[i]);
    free(r->warnings);
    *r = (struct codec_test_report){0};
}

char *codec_test_pattern(const struct codec_test_options *o)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    for (size_t i = 0; i < o->run.len; i++)
        gs_buf_addf(&out, "%s%s", i ? "|" : "", o->run.items[i]);
    return o->run.len ? gs_buf_take(&out) : NULL;
}
