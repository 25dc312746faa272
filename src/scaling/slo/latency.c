// SPDX-License-Identifier: Apache-2.0
// The latency that a number of replicas would have: the part of the engine from the measured curve,
// the part of the queue from Sakasegawa's approximation for many servers, and a correction by what
// was measured in the last minutes.
#include "slo/slo_private.h"

#define MAX_CORRECTION    2.0
#define MIN_CORRECTION_S  15.0
#define MIN_GAIN          0.02 // of the target, by one more replica
#define MAX_OF_THROUGHPUT 1.3  // a prediction proposes at most so many times what the load needs

// --- the queue ---

// The percentile of the wait with n replicas of c requests each: the share of requests that wait
// is rho^(sqrt(2(cn+1)) - 1), and their wait is about exponential.
double slo_predict_wait(const struct slo_figures *f, double n)
{
    double c = f->slots, p = f->policy->percent / 100.0;
    if (isnan(c) || !f->has_running || !(f->requests > 0))
        return 0; // no queue has been seen
    double servers = c * n, rho = f->running / servers;
    if (rho >= 1)
        return INFINITY;
    double service = f->running / f->requests; // Little's law
    double waits = pow(rho, sqrt(2 * (servers + 1)) - 1);
    double variability = (1 + f->state->dispersion) / 2;
    if (waits <= 1 - p)
        return 0;
    return log(waits / (1 - p)) * variability * service / (servers * (1 - rho));
}

// --- the whole ---

static bool has_queue_part(enum slo_latency t)
{
    return t != SLO_ITL;
}

static double correction_of(const struct slo_figures *f, enum slo_latency t)
{
    return f->state->correction_s[t] < MIN_CORRECTION_S ? 0 : f->state->correction[t];
}

double slo_predict(const struct slo_figures *f, enum slo_latency t, double n, bool corrected)
{
    const struct slo_fit *fit = &f->fit[t];
    double load = f->work / n;
    if (!fit->found || !isfinite(load) || !(n > 0))
        return NAN;
    double own = slo_fit_latency(fit, load);
    double latency = own + (has_queue_part(t) ? slo_predict_wait(f, n) : 0);
    return corrected ? latency * exp(correction_of(f, t)) : latency;
}

double slo_predict_occupancy(const struct slo_figures *f, double n, bool kv)
{
    const struct slo_fit *fit = kv ? &f->kv_fit : &f->running_fit;
    if (!fit->found || !isfinite(f->load) || !(n > 0) || n >= f->ready)
        return 1;
    double later = slo_fit_latency(fit, f->work / n), now = slo_fit_latency(fit, f->load);
    // More than the line carries: the measurements of now are above it, and say nothing of more.
    return isfinite(now) ? fmax(later / now, 1) : INFINITY;
}

// --- the bound ---

enum { NOT_LEARNED, NOT_CORRECTABLE, NOT_POSSIBLE, FOUND };

// The number from which one more replica gains next to nothing: the curve is flat there, and a
// small error of the prediction would cost many replicas.
static double worth(const struct slo_figures *f, enum slo_latency t, double n)
{
    double least = MIN_GAIN * f->policy->seconds[t], low = fmax(f->ready, 1);
    while (low < n && !(slo_predict(f, t, low, true) - slo_predict(f, t, low + 1, true) < least))
        low = fmax(low + 1, low * 1.02);
    return low;
}

// The smallest number of replicas with which the target is predicted to hold.
static int smallest(const struct slo_figures *f, enum slo_latency t, double *ret_n)
{
    double high = 4.0 * fmax(f->obs->replicas, f->ready) + 16, low = 0;
    struct slo_figures later = *f;
    later.work *= f->growth;
    later.running *= f->growth;
    later.requests *= f->growth;
    if (isnan(slo_predict(&later, t, high, true)))
        return NOT_LEARNED;
    if (fabs(correction_of(f, t)) > log(MAX_CORRECTION))
        return NOT_CORRECTABLE;
    if (!(slo_predict(&later, t, high, true) <= f->policy->seconds[t]))
        return NOT_POSSIBLE;
    for (int i = 0; i < 30 && high - low > 0.01; i++) {
        double middle = (low + high) / 2;
        if (middle > 0 && slo_predict(&later, t, middle, true) <= f->policy->seconds[t])
            high = middle;
        else
            low = middle;
    }
    *ret_n = fmin(high, worth(&later, t, high));
    return FOUND;
}

static void explain_found(const struct slo_figures *f, enum slo_latency t, double n,
                          const struct slo_out *o, char line[SLO_LINE_SIZE])
{
    double ceiling = fmax(ceil(n), 1);
    slo_line(o, line,
             "%s: %.3g s predicted with %g replica%s, target %.3g s; measured / predicted is %.2g, "
             "%.3g s of it in the queue",
             slo_latency_name(f->policy, t), slo_predict(f, t, ceiling, true), ceiling,
             SLO_PLURAL(ceiling), f->policy->seconds[t], exp(correction_of(f, t)),
             slo_predict_wait(f, ceiling));
}

static void explain_abstention(const struct slo_figures *f, enum slo_latency t, int why,
                               const struct slo_out *o, char line[SLO_LINE_SIZE])
{
    const char *name = slo_latency_name(f->policy, t);
    if (why == NOT_CORRECTABLE)
        slo_line(o, line, "%s: measured is %.2g times what is predicted, more than %g", name,
                 exp(correction_of(f, t)), MAX_CORRECTION);
    else if (why == NOT_POSSIBLE)
        slo_line(o, line, "%s: %.3g s are predicted even for an idle replica, target %.3g s", name,
                 slo_fit_latency(&f->fit[t], 0), f->policy->seconds[t]);
    else if (f->unit == SLO_NO_UNIT)
        slo_line(o, line, "%s: no counter of requests or tokens", name);
    else
        slo_line(o, line, "%s: not yet measured at three loads that differ by 1.5 times", name);
}

void slo_bound_latency(const struct slo_figures *f, double limit, const struct slo_out *o)
{
    double most = NAN, n = NAN;
    enum slo_latency decider = SLO_LATENCIES, first = SLO_LATENCIES;
    int first_why = FOUND;
    for (int t = 0; t < SLO_LATENCIES; t++) {
        if (!slo_has_target(f->policy, f->obs->role, (enum slo_latency)t))
            continue;
        int why = smallest(f, (enum slo_latency)t, &n);
        if (why == FOUND && !(n <= most)) {
            most = n;
            decider = (enum slo_latency)t;
        } else if (why != FOUND && first == SLO_LATENCIES) {
            first = (enum slo_latency)t;
            first_why = why;
        }
    }
    if (!isnan(limit) && !isnan(most))
        most = fmin(most, fmax(MAX_OF_THROUGHPUT * limit, f->ready));
    struct slo_bound *b = slo_add_bound(o, "latency", most);
    if (decider != SLO_LATENCIES)
        explain_found(f, decider, most, o, b->text);
    else if (first != SLO_LATENCIES)
        explain_abstention(f, first, first_why, o, b->text);
    else
        slo_line(o, b->text, "no target applies to this role");
}
