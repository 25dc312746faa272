// SPDX-License-Identifier: Apache-2.0
// Conditions and events of a decision, with Kubernetes' reasons and texts. In terse decisions,
// which searches repeat thousands of times, texts are not made.
#include "hpa/hpa_private.h"

static struct hpa_condition *find_or_add_condition(struct hpa_decision *d,
                                                   enum hpa_condition_type type)
{
    static const char *const names[HPA_CONDITIONS] = {
        [HPA_ABLE_TO_SCALE] = "AbleToScale",
        [HPA_SCALING_ACTIVE] = "ScalingActive",
        [HPA_SCALING_LIMITED] = "ScalingLimited",
        [HPA_SCALED_TO_ZERO] = "ScaledToZero",
        [HPA_FALLBACK_ACTIVE] = "ExternalMetricFallbackActive",
    };
    for (size_t i = 0; i < d->n_conditions; i++)
        if (d->conditions[i].type == names[type])
            return &d->conditions[i];
    struct hpa_condition *c = &d->conditions[d->n_conditions++];
    *c = (struct hpa_condition){.type = names[type]};
    return c;
}

static void set(struct hpa_decision *d, enum hpa_condition_type type, const char *status,
                const char *reason, char *message)
{
    struct hpa_condition *c = find_or_add_condition(d, type);
    free(c->message);
    c->status = status;
    c->reason = reason;
    c->message = message;
}

void hpa_set_fixed_condition(struct hpa_decision *d, enum hpa_condition_type type,
                             const char *status, const char *reason, const char *message)
{
    if (!d->terse)
        set(d, type, status, reason, gs_strdup(message));
}

void hpa_set_decision_condition(struct hpa_decision *d, enum hpa_condition_type type,
                                const char *status, const char *reason, const char *fmt, ...)
{
    if (d->terse)
        return;
    va_list ap;
    va_start(ap, fmt);
    set(d, type, status, reason, gs_vformat(fmt, ap));
    va_end(ap);
}

void hpa_add_event(struct hpa_decision *d, bool warning, const char *reason, const char *message)
{
    d->events = gs_realloc_array(d->events, d->n_events + 1, sizeof(*d->events));
    d->events[d->n_events++] =
        (struct hpa_event){.warning = warning, .reason = reason, .message = gs_strdup(message)};
}

const struct hpa_condition *hpa_decision_condition(const struct hpa_decision *d, const char *type)
{
    for (size_t i = 0; i < d->n_conditions; i++)
        if (gs_streq(d->conditions[i].type, type))
            return &d->conditions[i];
    return NULL;
}

void hpa_decision_finish(struct hpa_decision *d)
{
    for (size_t i = 0; i < d->n_conditions; i++)
        free(d->conditions[i].message);
    for (size_t i = 0; i < d->n_events; i++)
        free(d->events[i].message);
    for (size_t i = 0; i < d->n_metrics; i++) {
        free(d->metrics[i].description);
        free(d->metrics[i].explanation);
    }
    free(d->events);
    if (d->metrics != d->few)
        free(d->metrics);
    free(d->own_reason);
    free(d->extra);
    free(d->explanation);
    *d = (struct hpa_decision){0};
}
