// SPDX-License-Identifier: Apache-2.0
// Reads the value of a trigger from the provider, as the metrics API does for the same object.
#include "adapter/keda_scaler/keda_scaler_private.h"

#include "base/mem.h"

#include <math.h>

struct keda_scaler_read {
    struct keda_scaler *scaler;
    const struct keda_scaler_trigger *trigger;
    keda_scaler_value_fn fn;
    void *arg;
    struct provider_call *call;
};

// False: no finite value. Values of an external metric are added up, as the autoscaler does.
static bool combine(const struct provider_answer *a, bool external, double *ret)
{
    size_t n = external ? a->n_samples : a->n, found = 0;
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double v = external ? a->samples[i].value : a->values[i].value;
        if (!isfinite(v))
            continue;
        sum += v;
        found++;
    }
    *ret = sum;
    return found > 0 && isfinite(sum);
}

static char *subject(const struct keda_scaler_trigger *t)
{
    if (!t->name)
        return gs_format("external metric %s in namespace %s", t->signal, t->ns);
    return gs_format("metric %s of %s %s/%s", t->signal, t->resource, t->ns, t->name);
}

// For an object that the metadata does not name.
static const char *hint(const struct keda_scaler_trigger *t, const char *cause)
{
    return t->name && !t->named && gs_ends(cause, "not found")
               ? "; the metadata \"object\" (KIND/NAME) names another object"
               : "";
}

static void report_absent(const struct keda_scaler_read *r, const struct provider_answer *a)
{
    bool failed = a->outcome == PROVIDER_SOURCE_FAILED || a->outcome == PROVIDER_LIST_FAILED;
    const char *cause = a->cause && *a->cause       ? a->cause
                        : a->outcome == PROVIDER_OK ? "no series has a finite value"
                                                    : provider_outcome_text(a->outcome);
    GS_AUTO_FREE char *what = subject(r->trigger);
    GS_AUTO_FREE char *why = gs_format("%s: %s%s", what, cause, hint(r->trigger, cause));
    r->fn(r->arg, &(struct keda_scaler_value){.status = failed ? GRPC_UNAVAILABLE : GRPC_NOT_FOUND,
                                              .why = why,
                                              .query = a->query,
                                              .source = a->source});
}

static void on_values(void *arg, const struct provider_answer *a)
{
    struct keda_scaler_read *r = arg;
    double value;
    if (a->outcome == PROVIDER_OK && combine(a, !r->trigger->name, &value))
        r->fn(r->arg,
              &(struct keda_scaler_value){.value = value, .query = a->query, .source = a->source});
    else
        report_absent(r, a);
    free(r);
}

struct keda_scaler_read *keda_scaler_read_value(struct keda_scaler *s,
                                                const struct keda_scaler_trigger *t,
                                                keda_scaler_value_fn fn, void *arg)
{
    const char *not_ready = s->o.not_ready ? s->o.not_ready(s->o.arg) : NULL;
    if (not_ready) {
        fn(arg, &(struct keda_scaler_value){
                    .status = GRPC_UNAVAILABLE, .why = not_ready, .starting = true});
        return NULL;
    }
    const struct provider_request rq = {.resource = t->resource,
                                        .ns = t->ns,
                                        .name = t->name,
                                        .metric = t->signal,
                                        .selector = &t->selector,
                                        .external = !t->name};
    struct keda_scaler_read *r = gs_alloc(sizeof(*r));
    *r = (struct keda_scaler_read){.scaler = s, .trigger = t, .fn = fn, .arg = arg};
    struct provider_call *call =
        provider_request_values(s->o.provider(s->o.arg), &rq, on_values, r);
    if (!call) // on_values() has freed it
        return NULL;
    r->call = call;
    return r;
}

void keda_scaler_read_cancel(struct keda_scaler_read *r)
{
    if (!r)
        return;
    provider_cancel(r->call);
    free(r);
}
