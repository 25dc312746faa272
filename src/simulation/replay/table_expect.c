// SPDX-License-Identifier: Apache-2.0
// Compares a decision with what a case expects. Only what the case names is compared; each
// difference is a failure with both values.
#include "replay/tables_private.h"

#include "base/mem.h"
#include "kube/quantity.h"

#include <stdarg.h>
#include <string.h>

struct comparison {
    const struct hpa_spec *spec;
    const char *where;
    struct codec_test_case *result;
};

static void differs(struct comparison *c, const char *fmt, ...) GS_PRINTF(2, 3);
static void differs(struct comparison *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    va_end(ap);
    codec_test_case_fail(c->result, gs_format("%s: %s", c->where, text));
}

// "text", or {contains: part}.
static bool text_fits(const json_t *want, const char *got)
{
    const char *part = codec_json_str(want, "contains", NULL);
    if (json_is_object(want))
        return !part || (got && strstr(got, part));
    return gs_streq(json_string_value(want), got);
}

static void expect_text(struct comparison *c, const char *what, const json_t *want, const char *got)
{
    const char *part = codec_json_str(want, "contains", NULL);
    if (want && !text_fits(want, got))
        differs(c, "%s\n  want: %s%s\n  got:  %s", what, part ? "… " : "",
                part ? part : json_string_value(want), got ? got : "(none)");
}

static void expect_int(struct comparison *c, const char *what, const json_t *want, int64_t got)
{
    if (want && json_integer_value(want) != got)
        differs(c, "%s: want %lld, got %lld", what, (long long)json_integer_value(want),
                (long long)got);
}

static void expect_bool(struct comparison *c, const char *what, const json_t *want, bool got)
{
    if (want && json_is_true(want) != got)
        differs(c, "%s: want %s, got %s", what, got ? "false" : "true", got ? "true" : "false");
}

// null: it must be absent.
static void expect_quantity(struct comparison *c, const char *what, const json_t *want, bool has,
                            int64_t got)
{
    if (!want)
        return;
    char text[KUBE_QUANTITY_SIZE] = "none";
    int64_t milli = 0;
    if (has)
        kube_quantity_format_milli(got, text);
    GS_AUTO_ERROR struct gs_error *err =
        json_is_null(want) ? NULL : replay_observation_milli(want, &milli);
    if (json_is_null(want) ? has : err || !has || milli != got) {
        GS_AUTO_FREE char *shown = codec_json_text(want);
        differs(c, "%s: want %s, got %s", what, shown, text);
    }
}

// The text form: "True Reason", or "True Reason: message" to compare the message, too.
static bool condition_text_fits(const char *want, const struct hpa_condition *got, char **ret_got)
{
    bool with_message = strchr(want, ':') != NULL;
    *ret_got = gs_format("%s %s%s%s", got->status, got->reason, with_message ? ": " : "",
                         with_message ? got->message : "");
    return gs_streq(want, *ret_got);
}

static void check_condition(struct comparison *c, const char *type, const json_t *want,
                            const struct hpa_condition *got)
{
    GS_AUTO_FREE char *shown = NULL;
    GS_AUTO_FREE char *what = gs_format("condition %s", type);
    if (json_is_null(want) || !got) {
        if (!json_is_null(want) || got)
            differs(c, "%s: want %s, got %s", what, json_is_null(want) ? "none" : "one",
                    got ? got->reason : "none");
    } else if (json_is_object(want)) {
        expect_text(c, what, json_object_get(want, "status"), got->status);
        expect_text(c, what, json_object_get(want, "reason"), got->reason);
        expect_text(c, what, json_object_get(want, "message"), got->message);
    } else if (!condition_text_fits(json_string_value(want), got, &shown)) {
        differs(c, "%s\n  want: %s\n  got:  %s", what, json_string_value(want), shown);
    }
}

static void check_conditions(struct comparison *c, const json_t *want, const struct hpa_decision *d)
{
    const char *type;
    json_t *v;
    json_object_foreach ((json_t *)want, type, v)
        check_condition(c, type, v, hpa_decision_condition(d, type));
}

static void check_event(struct comparison *c, const json_t *want, const struct hpa_event *got)
{
    const char *text = json_string_value(want);
    if (!text) {
        expect_text(c, "event", json_object_get(want, "reason"), got->reason);
        expect_text(c, "event", json_object_get(want, "message"), got->message);
        return;
    }
    bool with_message = strchr(text, ':') != NULL;
    GS_AUTO_FREE char *shown = gs_format("%s%s%s", got->reason, with_message ? ": " : "",
                                         with_message ? got->message : "");
    if (!gs_streq(text, shown))
        differs(c, "event\n  want: %s\n  got:  %s", text, shown);
}

static void check_events(struct comparison *c, const json_t *want, const struct hpa_decision *d)
{
    if (want && json_array_size(want) != d->n_events) {
        differs(c, "events: want %zu, got %zu%s%s", json_array_size(want), d->n_events,
                d->n_events ? ", the first: " : "", d->n_events ? d->events[0].message : "");
        return;
    }
    for (size_t i = 0; i < json_array_size(want); i++)
        check_event(c, json_array_get(want, i), &d->events[i]);
}

static void check_metric(struct comparison *c, const json_t *want,
                         const struct hpa_metric_result *m)
{
    expect_text(c, "description", json_object_get(want, "description"), m->description);
    expect_text(c, "explanation of the metric", json_object_get(want, "explanation"),
                m->explanation);
    expect_bool(c, "ok", json_object_get(want, "ok"), m->ok);
    expect_int(c, "utilization", json_object_get(want, "utilization"), m->utilization);
    expect_int(c, "proposal of the metric", json_object_get(want, "proposal"), m->proposal);
    expect_quantity(c, "average", json_object_get(want, "average"), m->has_average_value,
                    m->average_value);
    expect_quantity(c, "value", json_object_get(want, "value"), m->has_value, m->value);
}

static void check_metrics(struct comparison *c, const json_t *want, const struct hpa_decision *d)
{
    if (json_is_null(want) && d->metrics)
        differs(c, "metrics were computed");
    for (size_t i = 0; i < json_array_size(want); i++) {
        if (!d->metrics || i >= d->n_metrics)
            differs(c, "metrics: there is no number %zu", i);
        else
            check_metric(c, json_array_get(want, i),
                         &d->metrics[hpa_metric_at(c->spec, d->release, i)]);
    }
}

void replay_table_check_decision(const json_t *want, const struct hpa_spec *spec,
                                 const struct hpa_decision *d, const char *where,
                                 struct codec_test_case *result)
{
    struct comparison comparison = {.spec = spec, .where = where, .result = result};
    struct comparison *c = &comparison;
    expect_int(c, "desired", json_object_get(want, "desired"), d->desired);
    expect_int(c, "proposal", json_object_get(want, "proposal"), d->proposal);
    expect_text(c, "reason", json_object_get(want, "reason"), d->reason);
    expect_text(c, "explanation", json_object_get(want, "explanation"), d->explanation);
    expect_bool(c, "dropScaledToZero", json_object_get(want, "dropScaledToZero"),
                d->drop_scaled_to_zero);
    check_conditions(c, json_object_get(want, "conditions"), d);
    check_events(c, json_object_get(want, "events"), d);
    if (json_object_get(want, "metrics"))
        check_metrics(c, json_object_get(want, "metrics"), d);
    if (d->rescale != (d->desired != d->current))
        differs(c, "rescale is %s from %d to %d", d->rescale ? "true" : "false", d->current,
                d->desired);
}
