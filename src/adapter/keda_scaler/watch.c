// SPDX-License-Identifier: Apache-2.0
// A stream of activity. The value is read periodically, and its query is evaluated after each
// scrape of the engine in this process. While the value is absent nothing is sent: absence is not
// inactivity, and KEDA reads the reason by IsActive.
#include "adapter/keda_scaler/keda_scaler_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"

enum {
    READ_MS = 15000, // and up to a quarter more, so that streams spread over time
    NOT_READY_MS = 1000,
    MIN_READ_MS = 5000, // of a value that does not follow from one series
};

struct keda_scaler_watch {
    TAILQ_ENTRY(keda_scaler_watch) all;
    struct keda_scaler *scaler;
    struct grpc_call *call;
    struct keda_scaler_trigger trigger;
    struct keda_scaler_read *read; // NULL: none is pending
    struct metric_changes_follower *follower;
    char *followed; // its query
    struct gs_timer *timer;
    int64_t read_ns;   // gs_mono_ns() of the last read
    size_t n_followed; // series of the query at the last change; at first, those expected
    bool has_value;    // the last read had one
    bool sent, active;
};

static void read_now(void *arg);

static void watch_free(struct keda_scaler_watch *w)
{
    TAILQ_REMOVE(&w->scaler->watches, w, all);
    w->scaler->n_watches--;
    keda_scaler_read_cancel(w->read);
    metric_changes_unfollow(w->follower);
    gs_timer_free(w->timer);
    keda_scaler_trigger_finish(&w->trigger);
    free(w->followed);
    free(w);
}

static void on_stream_cancel(void *arg)
{
    watch_free(arg);
}

void keda_scaler_watch_end(struct keda_scaler_watch *w)
{
    grpc_call_on_cancel(w->call, NULL, NULL);
    grpc_call_finish(w->call, GRPC_OK, "");
    watch_free(w);
}

static void push(struct keda_scaler_watch *w, double value)
{
    bool active = value > w->trigger.activation;
    if (w->sent && active == w->active)
        return;
    GS_AUTO_BUF struct gs_buf message = {0};
    keda_scaler_write_active(active, &message);
    w->sent = true;
    w->active = active;
    w->scaler->n_pushed++;
    grpc_call_send(w->call, gs_buf_slice(&message));
}

// --- changes ---

static void read_later(struct keda_scaler_watch *w, uint64_t ms)
{
    gs_timer_start(w->timer, read_now, ms);
}

// At least so long after the last read.
static void read_soon(struct keda_scaler_watch *w, int64_t least_ms)
{
    int64_t age_ms = (gs_mono_ns() - w->read_ns) / GS_NS_PER_MS;
    if (age_ms >= least_ms)
        read_later(w, 0);
    else if (gs_timer_due_in(w->timer) > (uint64_t)(least_ms - age_ms))
        read_later(w, (uint64_t)(least_ms - age_ms));
}

// The only series of a query has the value of the object, if the object has one: the query of a
// rule may have series of other objects. Several ones are combined by the provider, which may need
// objects of the cluster: not after each scrape.
static void on_change(void *arg, double sum, size_t n)
{
    struct keda_scaler_watch *w = arg;
    size_t before = w->n_followed;
    w->n_followed = n;
    if (n == 1 && before == 1 && w->has_value)
        push(w, sum);
    else if (n)
        read_soon(w, n == 1 && before != 1 ? NOT_READY_MS : MIN_READ_MS);
}

static void follow(struct keda_scaler_watch *w, const struct keda_scaler_value *v)
{
    const struct keda_scaler_options *o = &w->scaler->o;
    const char *query = o->changes && v->source == o->source ? v->query : NULL;
    if (gs_streq(w->followed, query))
        return;
    metric_changes_unfollow(GS_TAKE(w->follower));
    free(GS_TAKE(w->followed));
    if (!query)
        return;
    w->followed = gs_strdup(query);
    w->n_followed = w->has_value;
    w->follower = metric_changes_follow(o->changes, o->source, query, on_change, w);
}

// --- reads ---

static void on_value(void *arg, const struct keda_scaler_value *v)
{
    struct keda_scaler_watch *w = arg;
    w->read = NULL;
    uint8_t spread;
    gs_random_bytes(&spread, sizeof(spread));
    if (v->status == GRPC_OK)
        push(w, v->value);
    if (v->status != GRPC_UNAVAILABLE)
        w->has_value = v->status == GRPC_OK;
    if (v->status != GRPC_UNAVAILABLE)
        follow(w, v);
    read_later(w, v->starting ? NOT_READY_MS : READ_MS + READ_MS / 4 * spread / UINT8_MAX);
}

static void read_now(void *arg)
{
    struct keda_scaler_watch *w = arg;
    if (w->read)
        return;
    w->read_ns = gs_mono_ns();
    struct keda_scaler_read *r = keda_scaler_read_value(w->scaler, &w->trigger, on_value, w);
    if (r)
        w->read = r;
}

void keda_scaler_watch_new(struct keda_scaler *s, struct grpc_call *call,
                           struct keda_scaler_trigger *t)
{
    struct keda_scaler_watch *w = gs_alloc(sizeof(*w));
    w->scaler = s;
    w->call = call;
    w->trigger = *t;
    *t = (struct keda_scaler_trigger){0};
    w->timer = gs_timer_new(s->loop, w);
    TAILQ_INSERT_TAIL(&s->watches, w, all);
    s->n_watches++;
    grpc_call_on_cancel(call, on_stream_cancel, w);
    read_now(w);
}
