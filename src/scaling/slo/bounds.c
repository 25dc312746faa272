// SPDX-License-Identifier: Apache-2.0
// Bounds that follow from the demand: the KV cache and the running requests that it fills, and the
// work that replicas have shown they can process. All are absolute numbers of replicas, so replicas
// that are still starting are credited without a rule of their own.
#include "slo/slo_private.h"

#include <stdarg.h>
#include <stdio.h>

#define QUEUE_DRAIN_S 300.0 // a queue of unknown throughput that falls so fast needs no more

// --- lines ---

void slo_line(const struct slo_out *o, char line[SLO_LINE_SIZE], const char *fmt, ...)
{
    va_list ap;
    if (o->terse)
        return;
    va_start(ap, fmt);
    vsnprintf(line, SLO_LINE_SIZE, fmt, ap);
    va_end(ap);
}

const char *slo_number(double v, char text[SLO_NUMBER_SIZE])
{
    double unit = v >= 1000 && v < 1e15 ? pow(10, floor(log10(v)) - 2) : 0;
    if (unit > 0)
        snprintf(text, SLO_NUMBER_SIZE, "%.0f", round(v / unit) * unit);
    else
        snprintf(text, SLO_NUMBER_SIZE, "%.3g", v);
    return text;
}

struct slo_bound *slo_add_bound(const struct slo_out *o, const char *name, double value)
{
    struct slo_bound *b = &o->d->bounds[o->d->n_bounds++];
    b->name = name;
    b->value = value;
    b->text[0] = '\0';
    b->proposal = isfinite(value) ? (int32_t)fmin(fmax(ceil(value - 1e-9), 1), INT32_MAX / 2) : -1;
    return b;
}

// --- demand ---

// How long a request occupies its place; SLO_DRAIN_S if that is unknown.
static double service_seconds(const struct slo_figures *f)
{
    return f->has_running && f->requests > 0 && f->running > 0
               ? fmin(f->running / f->requests, SLO_DRAIN_S)
               : SLO_DRAIN_S;
}

// Requests of the backlog that have to run at the same time, so that it is gone in SLO_DRAIN_S.
static double backlog_at_once(const struct slo_figures *f)
{
    return f->coming * service_seconds(f) / SLO_DRAIN_S;
}

// What one request takes of a KV cache.
static double kv_of_request(const struct slo_figures *f)
{
    const struct slo_state *st = f->state;
    if (f->has_running && f->running >= 1 && f->kv > 0)
        return f->kv / f->running;
    if (f->has_capacity && f->capacity > 0 && st->sum_requests >= 1)
        return st->sum_prompt / st->sum_requests / f->capacity;
    return 0;
}

static void explain_kv(const struct slo_figures *f, double backlog, const struct slo_out *o,
                       struct slo_bound *b)
{
    if (f->has_capacity)
        slo_line(
            o, b->text,
            "%.0f tokens in KV caches and %.0f of the backlog, %.0f %% of %.0f for each replica",
            f->kv * f->capacity, backlog * f->capacity, SLO_KV_SUPPLY * 100, f->capacity);
    else
        slo_line(o, b->text,
                 "KV caches are filled %.2g times and %.2g by the backlog, %.0f %% for each "
                 "replica",
                 f->kv, backlog, SLO_KV_SUPPLY * 100);
}

static double kv_replicas(const struct slo_figures *f, double *ret_backlog)
{
    double base = f->kv * f->growth;
    *ret_backlog =
        fmin(backlog_at_once(f) * kv_of_request(f), fmax(SLO_BACKLOG_CAP * base, SLO_KV_SUPPLY));
    return (base + *ret_backlog) / SLO_KV_SUPPLY;
}

static double slot_replicas(const struct slo_figures *f, double slots)
{
    double base = f->running * f->growth;
    double more = fmin(backlog_at_once(f), fmax(SLO_BACKLOG_CAP * base, SLO_LOAD_LIMIT * slots));
    return (base + more) / (SLO_LOAD_LIMIT * slots);
}

// While a queue drains, all caches are full, whatever the demand is.
static double cap_of_queue(const struct slo_figures *f, double limit)
{
    bool queued = f->backlog > 0;
    for (size_t i = 0; i < SLO_K && i < f->state->n_slots; i++)
        queued |= slo_slot_back(f->state, i)->waiting > slo_slot_back(f->state, i)->ready;
    return queued && !isnan(limit) ? fmax((1 + SLO_BACKLOG_CAP) * limit, f->ready) : INFINITY;
}

void slo_bound_demand(const struct slo_figures *f, double limit, const struct slo_out *o)
{
    double slots = f->slots, backlog = 0;
    double by_kv = f->has_kv && f->fresh ? kv_replicas(f, &backlog) : NAN;
    double by_slots = f->has_running && !isnan(slots) ? slot_replicas(f, slots) : NAN;
    double most = fmax(by_kv, by_slots); // of a NAN, the other
    double cap = cap_of_queue(f, limit);
    struct slo_bound *b = slo_add_bound(o, "demand", isnan(most) ? NAN : fmin(most, cap));
    if (isnan(most))
        slo_line(o, b->text, "no KV cache is reported, and no replica has had a queue yet");
    else if (most > cap)
        slo_line(o, b->text,
                 "a queue fills all KV caches and places, but the throughput needs no more");
    else if (most == by_kv)
        explain_kv(f, backlog, o, b);
    else
        slo_line(o, b->text, "%.0f requests run, %.0f wait too long, a replica runs %.0f at a time",
                 f->running, f->backlog, slots);
}

// --- throughput ---

static const char *unit_name(const struct slo_figures *f)
{
    return f->unit == SLO_BY_TOKENS ? "tokens/s" : "requests/s";
}

static void explain_throughput(const struct slo_figures *f, double backlog, const struct slo_out *o,
                               struct slo_bound *b)
{
    char more[64] = "", grows[48] = "", arrive[SLO_NUMBER_SIZE], carries[SLO_NUMBER_SIZE];
    if (o->terse)
        return;
    if (backlog > 0)
        snprintf(more, sizeof(more), " and a backlog of %.0f requests, %.0f soon", f->backlog,
                 f->coming);
    if (f->growth > 1)
        snprintf(grows, sizeof(grows), ", %.2g times that are forecast", f->growth);
    slo_number(f->work, arrive);
    if (f->carries < f->rate * SLO_LOAD_LIMIT || isnan(f->rate))
        slo_line(o, b->text, "%s %s arrive%s%s; a replica held the target up to %s", arrive,
                 unit_name(f), grows, more, slo_number(f->carries, carries));
    else
        slo_line(o, b->text, "%s %s arrive%s%s; a replica has processed %s, %.0f %% of it count",
                 arrive, unit_name(f), grows, more, slo_number(f->rate, carries),
                 SLO_LOAD_LIMIT * 100);
}

double slo_bound_throughput(const struct slo_figures *f, const struct slo_out *o)
{
    double base = f->work * f->growth / f->carries, more = 0;
    struct slo_bound *b;
    if (isnan(base)) {
        b = slo_add_bound(o, "throughput", NAN);
        slo_line(o, b->text,
                 f->unit == SLO_NO_UNIT ? "no counter of requests or tokens"
                 : isnan(f->work)       ? "the rate of two samples is not known yet"
                                        : "no replica has reached its limit yet");
        return NAN;
    }
    if (f->backlog > 0 && isfinite(f->request_work)) {
        double spare = (f->ready + f->starting) - base;
        more = f->coming * f->request_work / SLO_DRAIN_S / f->carries;
        // Pods that are ready or start will drain it.
        more = more <= spare ? 0 : fmin(more, fmax(SLO_BACKLOG_CAP * base, 1));
    }
    b = slo_add_bound(o, "throughput", base + more);
    explain_throughput(f, more, o, b);
    return base;
}

// --- services with fewer signals ---

// Of a queue whose throughput is unknown only its growth says whether the replicas suffice.
void slo_bound_queue(const struct slo_figures *f, const struct slo_out *o)
{
    const struct slo_state *st = f->state;
    if (!f->has_waiting || f->unit != SLO_NO_UNIT)
        return;
    bool drains = st->queue_growth < 0 && f->waiting / -st->queue_growth < QUEUE_DRAIN_S;
    bool settled = f->now_ms - st->ready_ms >= SLO_FAST_S * 1000;
    double step = fmax(ceil(SLO_BACKLOG_CAP * f->ready), 1);
    bool more = f->waiting > f->ready && !drains;
    double n = !more ? NAN : settled ? f->ready + step : f->obs->replicas;
    struct slo_bound *b = slo_add_bound(o, "queue", n);
    if (!more)
        slo_line(o, b->text, "%.0f requests wait%s", f->waiting,
                 drains ? ", and will be processed within five minutes" : "");
    else
        slo_line(o, b->text, "%.0f requests wait for %d ready replica%s, %+.2g a second%s",
                 f->waiting, f->ready, SLO_PLURAL(f->ready), st->queue_growth,
                 settled ? "" : "; the number of ready replicas has just changed");
}

void slo_bound_utilization(const struct slo_figures *f, const struct slo_out *o)
{
    bool measured = false;
    for (size_t t = 0; t < SLO_LATENCIES; t++)
        measured |= isfinite(f->latency[t]);
    // With better signals a busy GPU means nothing: one request makes it busy.
    if (!f->has_utilization || f->has_kv || f->unit == SLO_BY_TOKENS)
        return;
    double n = measured ? NAN : f->utilization * f->growth / SLO_UTILIZATION_OK;
    struct slo_bound *b = slo_add_bound(o, "utilization", n);
    slo_line(o, b->text, "%.0f %% of %d ready replica%s%s", 100 * f->utilization / f->ready,
             f->ready, SLO_PLURAL(f->ready), measured ? ": the latency decides on more" : "");
}
