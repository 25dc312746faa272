// SPDX-License-Identifier: Apache-2.0
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

// As Go's %g prints it: with an exponent from 1e6 on.
void promql_annotate_quantile(struct promql_annotations *n, uint32_t pos, double q)
{
    char text[GS_DOUBLE_SIZE];
    double a = fabs(q);
    if (isfinite(q) && a >= 1e6) {
        struct gs_decimal d = gs_shortest_decimal(a);
        char digits[24];
        int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)d.digits);
        snprintf(text, sizeof(text), "%s%c%s%se+%02d", q < 0 ? "-" : "", digits[0],
                 len > 1 ? "." : "", digits + 1, len - 1 + d.exponent);
    } else {
        gs_format_double(q, text);
    }
    promql_annotate_warning(n, pos, "quantile value should be between 0 and 1, got %s", text);
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
