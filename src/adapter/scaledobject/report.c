// SPDX-License-Identifier: Apache-2.0
// Results of conversions: objects, rules, and lines about fields; and values of fields that KEDA
// reads as texts.
#include "adapter/scaledobject/scaledobject_private.h"

#include "base/num.h"
#include "kube/object.h"

#include <math.h>

void scaledobject_result_init(struct scaledobject_result *r)
{
    *r = (struct scaledobject_result){.objects = json_array(), .rules = json_array()};
}

void scaledobject_result_finish(struct scaledobject_result *r)
{
    json_decref(r->objects);
    json_decref(r->rules);
    gs_buf_finish(&r->notes);
    gs_buf_finish(&r->problems);
    *r = (struct scaledobject_result){0};
}

static void add_line(struct gs_buf *out, const json_t *object, const char *fmt, va_list ap)
{
    const char *kind = kube_kind(object), *ns = kube_namespace(object), *name = kube_name(object);
    gs_buf_addf(out, "%s %s%s%s: ", kind ? kind : "object", ns ? ns : "", ns ? "/" : "",
                name ? name : "without a name");
    gs_buf_vaddf(out, fmt, ap);
    gs_buf_add_char(out, '\n');
}

void scaledobject_note(struct scaledobject_result *r, const json_t *object, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add_line(&r->notes, object, fmt, ap);
    va_end(ap);
}

void scaledobject_problem(struct scaledobject_result *r, const json_t *object, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add_line(&r->problems, object, fmt, ap);
    va_end(ap);
    r->n_problems++;
}

char *scaledobject_text(const json_t *value)
{
    if (json_is_string(value))
        return gs_strdup(json_string_value(value));
    return json_is_number(value) || json_is_boolean(value) ? codec_json_text(value) : NULL;
}

bool scaledobject_is_false(const char *text)
{
    static const char *const no[] = {"false", "False", "FALSE", "f", "F", "0"};
    return gs_is_one_of(text, no, GS_ARRAY_LEN(no));
}

bool scaledobject_milli(const char *text, int64_t *ret)
{
    double v = 0;
    GS_AUTO_ERROR struct gs_error *err = gs_parse_double(gs_slice_of(text), &v);
    if (err || !isfinite(v) || fabs(v) > 9e15)
        return false;
    *ret = llround(v * 1000);
    return true;
}

int64_t scaledobject_failure_seconds(int64_t times)
{
    int64_t seconds = times * SCALEDOBJECT_READ_SECONDS;
    return seconds > SCALEDOBJECT_LEAST_FAILURE ? seconds : SCALEDOBJECT_LEAST_FAILURE;
}
