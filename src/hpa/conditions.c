// SPDX-License-Identifier: Apache-2.0
#include "hpa/decide_internal.h"

#include "base/slice.h"

#define CONDITIONS 4 // types there are; room is made for so many at once

static struct hpa_condition *find(struct hpa_decision *d, const char *type)
{
    for (size_t i = 0; i < d->n_conditions; i++)
        if (gs_streq(d->conditions[i].type, type))
            return &d->conditions[i];
    if (d->n_conditions % CONDITIONS == 0)
        d->conditions =
            gs_realloc_array(d->conditions, d->n_conditions + CONDITIONS, sizeof(*d->conditions));
    struct hpa_condition *c = &d->conditions[d->n_conditions++];
    *c = (struct hpa_condition){.type = type};
    return c;
}

void hpa_set_decision_condition(struct hpa_decision *d, const char *type, const char *status,
                                const char *reason, const char *fmt, ...)
{
    char *message = NULL;
    if (!d->terse) {
        va_list ap;
        va_start(ap, fmt);
        message = gs_vformat(fmt, ap);
        va_end(ap);
    }
    struct hpa_condition *c = find(d, type);
    free(c->message);
    c->status = status;
    c->reason = reason;
    c->message = message;
}

void hpa_add_event(struct hpa_decision *d, bool warning, const char *reason, const char *message)
{
    d->events = gs_realloc_array(d->events, d->n_events + 1, sizeof(*d->events));
    d->events[d->n_events++] =
        (struct hpa_event){.warning = warning, .reason = reason, .message = gs_strdup(message)};
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
    free(d->conditions);
    free(d->events);
    free(d->metrics);
    free(d->reason);
    free(d->explanation);
    *d = (struct hpa_decision){0};
}
