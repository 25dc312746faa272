// SPDX-License-Identifier: Apache-2.0
// Warnings and infos of a query, with the position in its text and the wording of Prometheus. At
// most ten of each kind are kept; the same note for each step of a range counts once.
#include "promql/eval_private.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/shortest.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#define MAX_NOTES ((size_t)10) // of each kind, as in Prometheus' responses

static void add_annotation(const struct promql_annotations *n, char ***list, size_t *len,
                           size_t *cap, const char *kind, uint32_t pos, const char *fmt, va_list ap)
{
    size_t line = 1, start = 0;
    for (size_t i = 0; i < pos && i < n->text.len; i++) {
        if (n->text.data[i] == '\n') {
            line++;
            start = i + 1;
        }
    }
    GS_AUTO_FREE char *what = gs_vformat(fmt, ap);
    char *text = gs_format("PromQL %s: %s (%zu:%zu)", kind, what, line, pos - start + 1);
    size_t same = (size_t)(strrchr(text, '(') - text) + 1; // without the position
    for (size_t i = 0; i < *len; i++) {
        if (strncmp((*list)[i], text, same) == 0) {
            free((*list)[i]);
            (*list)[i] = text;
            return;
        }
    }
    if (*len >= MAX_NOTES) {
        free(text);
        return;
    }
    gs_grow(list, cap, *len, sizeof(**list));
    (*list)[(*len)++] = text;
}

void promql_annotate_warning(struct promql_annotations *n, uint32_t pos, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add_annotation(n, &n->warnings, &n->n_warnings, &n->warnings_cap, "warning", pos, fmt, ap);
    va_end(ap);
}

void promql_annotate_info(struct promql_annotations *n, uint32_t pos, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add_annotation(n, &n->infos, &n->n_infos, &n->infos_cap, "info", pos, fmt, ap);
    va_end(ap);
}

char *promql_format_g(double v, char text[GS_DOUBLE_SIZE])
{
    double a = fabs(v);
    if (!isfinite(v) || a == 0 || (a >= 1e-4 && a < 1e6)) {
        gs_format_double(v, text);
        return text;
    }
    struct gs_decimal d = gs_shortest_decimal(a);
    char digits[24];
    int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)d.digits);
    int exponent = len - 1 + d.exponent;
    snprintf(text, GS_DOUBLE_SIZE, "%s%c%s%se%c%02d", v < 0 ? "-" : "", digits[0],
             len > 1 ? "." : "", digits + 1, exponent < 0 ? '-' : '+', abs(exponent));
    return text;
}

void promql_annotate_quantile(struct promql_annotations *n, uint32_t pos, double q)
{
    char text[GS_DOUBLE_SIZE];
    promql_annotate_warning(n, pos, "quantile value should be between 0 and 1, got %s",
                            promql_format_g(q, text));
}

void promql_annotate_ranged_sort(struct promql_eval *ev, const struct promql_node *call)
{
    if (ev->steps.n > 1)
        promql_annotate_warning(&ev->notes, call->start,
                                "sort is ineffective for range queries since results are always "
                                "ordered by labels");
}

bool promql_annotated(struct promql_annotations *n, uint32_t pos, const void *what)
{
    bool same = n->last_what == what && n->last_pos == pos;
    n->last_what = what;
    n->last_pos = pos;
    return same;
}

void promql_annotations_finish(struct promql_annotations *n)
{
    for (size_t i = 0; i < n->n_warnings; i++)
        free(n->warnings[i]);
    for (size_t i = 0; i < n->n_infos; i++)
        free(n->infos[i]);
    free(n->warnings);
    free(n->infos);
    *n = (struct promql_annotations){0};
}
