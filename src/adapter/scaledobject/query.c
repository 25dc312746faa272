// SPDX-License-Identifier: Apache-2.0
// The query of a trigger, and one that returns what KEDA passes on: 0 instead of negative values
// and of no value, and the activation threshold of an object that may have zero replicas.
#include "adapter/scaledobject/scaledobject_private.h"

#include "base/num.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define OR_ZERO    " < Inf) or on() vector(0)"
#define OR_MINUS   ") or on() (("
#define TIMES_ZERO ") * 0)"
#define CLAMP      "clamp_min(("
#define CLAMP_END  ") > -Inf, 0)"

void scaledobject_query_finish(struct scaledobject_query *q)
{
    free(q->text);
    *q = (struct scaledobject_query){0};
}

// Without white space at the end. A comment ends with a line.
static char *trimmed(const char *text)
{
    size_t len = strlen(text);
    while (len && isspace((unsigned char)text[len - 1]))
        len--;
    return gs_format("%.*s%s", (int)len, text, memchr(text, '#', len) ? "\n" : "");
}

char *scaledobject_query_wrap(const struct scaledobject_query *q)
{
    char above[GS_DOUBLE_SIZE] = "0";
    GS_AUTO_FREE char *text = trimmed(q->text);
    if (q->activates)
        gs_format_double(q->above, above);
    if (q->zero)
        return gs_format("((%s) > %s" OR_ZERO, text, above);
    if (q->activates)
        return gs_format("((%s) > %s" OR_MINUS "%s" TIMES_ZERO, text, above, text);
    return gs_format(CLAMP "%s" CLAMP_END, text);
}

// "((TEXT) > ABOVE…": the text and the number before `end`.
static bool split(const char *text, const char *end, struct scaledobject_query *ret)
{
    const char *sign = NULL;
    if (!gs_starts(text, "(("))
        return false;
    for (const char *p = strstr(text, ") > "); p && p < end; p = strstr(p + 1, ") > "))
        sign = p;
    if (!sign)
        return false;
    GS_AUTO_ERROR struct gs_error *err =
        gs_parse_double(gs_slice_make(sign + 4, (size_t)(end - sign - 4)), &ret->above);
    if (err)
        return false;
    ret->text = gs_strndup(text + 2, (size_t)(sign - text - 2));
    return true;
}

void scaledobject_query_unwrap(const char *text, struct scaledobject_query *ret)
{
    const char *zero = gs_ends(text, OR_ZERO) ? text + strlen(text) - strlen(OR_ZERO) : NULL;
    const char *minus = gs_ends(text, TIMES_ZERO) ? strstr(text, OR_MINUS) : NULL;
    *ret = (struct scaledobject_query){0};
    ret->zero = zero && split(text, zero, ret);
    if (ret->zero)
        ret->activates = ret->above != 0;
    else if (minus && split(text, minus, ret))
        ret->activates = true;
    else if (gs_starts(text, CLAMP) && gs_ends(text, CLAMP_END))
        ret->text =
            gs_strndup(text + strlen(CLAMP), strlen(text) - strlen(CLAMP) - strlen(CLAMP_END));
    else
        ret->text = gs_strdup(text);
}
