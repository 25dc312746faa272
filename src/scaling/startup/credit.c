// SPDX-License-Identifier: Apache-2.0
// A queue at constant load grows by the work that the ready pods do not manage: as fast while its
// pods start as when they were ordered. So its growth shows whether the demand has grown since, and
// its length does not.
#include "startup/credit.h"

#include "base/mem.h"

#include <math.h>

#define SPACING_MS INT64_C(3000)
#define WINDOW_MS  INT64_C(30000)
#define LEAST_MS   INT64_C(5000)
#define DRAIN_MS   INT64_C(60000) // of a backlog, before the time of a start is known
#define FASTER     1.5            // smaller changes of the growth are noise
#define NOISE      0.05           // changes below it say nothing about the rate of a pod
#define MINUTE_S   60.0
#define MAX_AGE_MS (INT64_C(3600) * 1000)

static int32_t to_count(double v)
{
    if (!(v > 0)) // NaN, too
        return 0;
    return v >= (double)INT32_MAX ? INT32_MAX : (int32_t)ceil(v);
}

// --- with known rates ---

int32_t startup_replicas_for(const struct startup_work *w, const struct startup_coming *c,
                             int64_t now_ms)
{
    double all = (double)c->ready + (double)c->starting;
    double wait_s = c->last_ms > now_ms ? (double)(c->last_ms - now_ms) / 1000 : 0;
    double without = (w->arriving + w->backlog / w->drain_s) / w->rate;
    if (without <= all)
        return to_count(without);
    double done = w->rate * (c->ready * (wait_s + w->drain_s) + c->starting * w->drain_s);
    double left = w->backlog + w->arriving * (wait_s + w->drain_s) - done;
    double with = left > 0 ? all + left / (w->rate * w->drain_s) : all;
    double enough = w->arriving / w->rate;
    with = with < without ? with : without;
    return to_count(with > enough ? with : enough);
}

// --- trend ---

static const struct startup_point *point(const struct startup_trend *t, uint32_t back)
{
    return &t->points[(t->n - 1 - back) % STARTUP_TREND];
}

void startup_trend_add(struct startup_trend *t, double value, int64_t now_ms)
{
    if (!isfinite(value))
        return;
    t->newest = (struct startup_point){now_ms, value};
    if (t->n && now_ms - point(t, 0)->at_ms < SPACING_MS)
        return;
    t->points[t->n % STARTUP_TREND] = t->newest;
    t->n++;
}

bool startup_trend_growth(const struct startup_trend *t, double *ret)
{
    uint32_t len = t->n < STARTUP_TREND ? t->n : STARTUP_TREND;
    const struct startup_point *first = NULL;
    for (uint32_t i = 0; i < len; i++) {
        const struct startup_point *p = point(t, i);
        if (t->newest.at_ms - p->at_ms > WINDOW_MS)
            break;
        first = p;
    }
    if (!first || t->newest.at_ms - first->at_ms < LEAST_MS)
        return false;
    *ret = (t->newest.value - first->value) / ((double)(t->newest.at_ms - first->at_ms) / 1000);
    return true;
}

void startup_trend_shift(struct startup_trend *t, int64_t ms)
{
    for (size_t i = 0; i < STARTUP_TREND; i++)
        t->points[i].at_ms += ms;
    t->newest.at_ms += ms;
    t->ordered_ms += ms;
}

static json_t *point_json(const struct startup_point *p, int64_t now_ms)
{
    return json_pack("{s:I, s:f}", "ageMs", (json_int_t)(now_ms - p->at_ms), "value", p->value);
}

json_t *startup_trend_json(const struct startup_trend *t, int64_t now_ms)
{
    json_t *out = json_object(), *points = json_array();
    for (uint32_t i = t->n < STARTUP_TREND ? t->n : STARTUP_TREND; i-- > 0;)
        json_array_append_new(points, point_json(point(t, i), now_ms));
    json_object_set_new(out, "points", points);
    if (t->n)
        json_object_set_new(out, "newest", point_json(&t->newest, now_ms));
    if (t->has_order) {
        json_object_set_new(out, "orderedGrowth", json_real(t->ordered_growth));
        codec_json_set_int(out, "orderedReady", t->ordered_ready);
        codec_json_set_int(out, "orderedAgeMs", now_ms - t->ordered_ms);
    }
    if (t->rate > 0)
        json_object_set_new(out, "rate", json_real(t->rate));
    return out;
}

static void add_point(struct startup_trend *t, const json_t *p, int64_t now_ms)
{
    int64_t age = codec_json_int(p, 0, "ageMs", NULL);
    if (age >= 0 && age <= MAX_AGE_MS)
        startup_trend_add(t, json_number_value(json_object_get(p, "value")), now_ms - age);
}

struct startup_trend startup_trend_from_json(const json_t *in, int64_t now_ms)
{
    struct startup_trend t = {0};
    const json_t *points = json_object_get(in, "points");
    const json_t *growth = json_object_get(in, "orderedGrowth");
    size_t n = json_array_size(points);
    for (size_t i = n > STARTUP_TREND ? n - STARTUP_TREND : 0; i < n; i++)
        add_point(&t, json_array_get(points, i), now_ms);
    if (t.n)
        add_point(&t, json_object_get(in, "newest"), now_ms);
    t.has_order = json_is_number(growth) && isfinite(json_number_value(growth));
    t.ordered_growth = t.has_order ? json_number_value(growth) : 0;
    t.ordered_ready = to_count((double)codec_json_int(in, 0, "orderedReady", NULL));
    int64_t age = codec_json_int(in, 0, "orderedAgeMs", NULL);
    t.ordered_ms = now_ms - (age >= 0 && age <= MAX_AGE_MS ? age : 0);
    t.rate = json_number_value(json_object_get(in, "rate"));
    t.rate = isfinite(t.rate) && t.rate > 0 ? t.rate : 0;
    return t;
}

// --- credit ---

struct credit {
    struct startup_trend *t;
    const struct startup_coming *coming;
    int32_t current, would;
    bool has_growth;
    double growth;
    struct startup_credit *out;
};

static double drain_s(const struct startup_coming *c)
{
    return (double)(c->start_ms > DRAIN_MS ? c->start_ms : DRAIN_MS) / 1000;
}

// What the pods that have started since the order did to the growth. Nothing is learned of an empty
// queue, which cannot fall.
static void learn_rate(const struct credit *k)
{
    struct startup_trend *t = k->t;
    const struct startup_coming *c = k->coming;
    if (!t->has_order || !k->has_growth || c->starting || c->settling)
        return;
    int32_t more = c->ready - t->ordered_ready;
    double change = t->ordered_growth - k->growth, rate = more > 0 ? change / more : 0;
    t->has_order = false;
    if (change > fabs(t->ordered_growth) * NOISE && rate > 0 && t->newest.value > 0)
        t->rate = t->rate > 0 ? (t->rate + rate) / 2 : rate;
}

static void remember_order(const struct credit *k)
{
    k->t->has_order = k->has_growth;
    k->t->ordered_growth = k->has_growth ? k->growth : 0;
    k->t->ordered_ready = k->coming->ready - k->coming->settling;
    k->t->ordered_ms = k->t->newest.at_ms;
}

// Until the growth was measured over a whole window after the order, its highest value counts: the
// window begins before the burst that caused the order.
static void raise_order(const struct credit *k)
{
    if (k->growth > k->t->ordered_growth)
        k->t->ordered_growth = k->growth;
}

// The growth was measured before the pods that have just started showed an effect.
static int32_t needed_by_rate(const struct credit *k)
{
    const struct startup_trend *t = k->t;
    const struct startup_work work = {
        .backlog = t->newest.value,
        .arriving = k->growth + t->rate * (k->coming->ready - k->coming->settling),
        .rate = t->rate,
        .drain_s = drain_s(k->coming),
    };
    return startup_replicas_for(&work, k->coming, t->newest.at_ms);
}

// How many times as fast as at the order the value grows. A value that hardly grew counts as one
// that doubles in a minute.
static double faster(const struct credit *k)
{
    double least = fabs(k->t->newest.value) / MINUTE_S, then = k->t->ordered_growth;
    then = then > least ? then : least;
    return then > 0 ? k->growth / then : 0;
}

// What is justified while pods are coming, at least `current`.
static int32_t most_while_coming(const struct credit *k)
{
    const struct startup_coming *c = k->coming;
    double most = 0;
    if (!k->has_growth)
        return k->current;
    bool fresh = k->t->newest.at_ms - k->t->ordered_ms < WINDOW_MS;
    if (!k->t->has_order)
        remember_order(k);
    else if (fresh)
        raise_order(k);
    if (k->t->rate > 0)
        most = needed_by_rate(k);
    else if (!fresh && faster(k) >= FASTER)
        most = k->current + c->starting * (faster(k) - 1);
    return most > k->current ? to_count(most) : k->current;
}

static void credit_for_coming(const struct credit *k)
{
    const struct startup_coming *c = k->coming;
    int32_t n = c->starting ? c->starting : c->settling, most = most_while_coming(k);
    const char *what = c->starting ? "starting" : "just started";
    if (most > k->current && c->starting)
        remember_order(k);
    if (most >= k->would)
        return;
    k->out->proposal = most;
    k->out->text = gs_format("would be %d, credit for %d %s pod%s: %s %d", k->would, n, what,
                             n == 1 ? "" : "s", most == k->current ? "stays at" : "only", most);
}

static bool is_draining(const struct credit *k)
{
    double value = k->t->newest.value;
    return k->has_growth && k->growth < 0 && value > 0 && value / -k->growth <= drain_s(k->coming);
}

static void credit_for_draining(const struct credit *k)
{
    k->out->proposal = k->current;
    k->out->text = gs_format("would be %d, but the value falls and is 0 in %.0f s, before one more "
                             "pod would help: stays at %d",
                             k->would, k->t->newest.value / -k->growth, k->current);
}

// Nothing is coming: the learned rate says how many more pods the growth and the backlog need.
static void limit_order(const struct credit *k)
{
    remember_order(k);
    if (!k->has_growth || !(k->t->rate > 0))
        return;
    int32_t quarter = k->current / 4 > 1 ? k->current / 4 : 1;
    int32_t most = needed_by_rate(k), least = k->current + quarter;
    most = most > least ? most : least;
    if (most >= k->would)
        return;
    k->out->proposal = most;
    k->out->text = gs_format("would be %d, but one pod manages %.3g per second, and the value "
                             "grows by %.3g per second: only %d",
                             k->would, k->t->rate, k->growth, most);
}

// Pods that have just started count only if they were ordered for this value: the first pod of a
// workload was not.
static bool shows_later(const struct credit *k)
{
    return k->coming->settling && (k->t->has_order || !k->has_growth);
}

void startup_credit_apply(struct startup_trend *t, const struct startup_coming *c, int32_t current,
                          int32_t proposal, struct startup_credit *ret)
{
    struct credit k = {t, c, current, proposal, false, 0, ret};
    *ret = (struct startup_credit){.proposal = proposal};
    k.has_growth = startup_trend_growth(t, &k.growth);
    learn_rate(&k);
    if (proposal <= current)
        return;
    if (c->starting || shows_later(&k))
        credit_for_coming(&k);
    else if (is_draining(&k))
        credit_for_draining(&k);
    else
        limit_order(&k);
}
