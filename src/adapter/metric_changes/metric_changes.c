// SPDX-License-Identifier: Apache-2.0
// The remembered requests and their evaluation in rounds: at most one round in 50 ms, and pauses of
// ten times the CPU time of a round, so that many requests cost at most a tenth of the process. The
// duration would grow on a machine with other work, and with it the delay.
#include "adapter/metric_changes/metric_changes_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "codec/json.h"

#include <math.h>

enum {
    MAX_WATCHED = 1024,
    MAX_PENDING = 16,  // queries of a round at the same time
    SETTLE_MS = 5,     // several targets are often scraped at the same time
    MIN_PAUSE_MS = 50, // between rounds
    MAX_PAUSE_MS = 2000,
    PAUSE_FACTOR = 10,
};
#define KEEP_NS (INT64_C(3660) * GS_NS_PER_SEC) // longer than the longest sync period
// A change within the tolerance of the autoscaler cannot change its decision by itself.
#define NOTABLE 0.1

struct totals {
    double sum;
    size_t n;
};

// A request whose result is followed, or a follower in this process.
struct metric_changes_follower {
    TAILQ_ENTRY(metric_changes_follower) all;
    struct metric_changes *changes;
    struct gs_slice key; // of a request, stored after the struct
    char *ns;            // NULL: root-scoped
    char *query, *head;  // head: the event up to the value
    struct source *source;
    struct source_op *op; // NULL: no query is pending
    struct totals reported;
    int64_t answered_ns;
    metric_changes_fn fn; // NULL: a request
    void *arg;
    bool evaluated; // a follower's query has had a result
};

static struct metric_changes_follower *after(const struct metric_changes_follower *w)
{
    struct metric_changes_follower *next = TAILQ_NEXT(w, all);
    return next || w->fn ? next : TAILQ_FIRST(&w->changes->followers);
}

static void drop(struct metric_changes_follower *w)
{
    struct metric_changes *c = w->changes;
    if (c->next == w)
        c->next = after(w);
    if (w->op)
        c->n_pending--;
    source_cancel(w->op);
    if (w->fn)
        TAILQ_REMOVE(&c->followers, w, all);
    else
        TAILQ_REMOVE(&c->watched, w, all);
    if (!w->fn)
        gs_hmap_remove(c->by_key, w->key);
    free(w->ns);
    free(w->query);
    free(w->head);
    free(w);
}

static void go_on(struct metric_changes *c);

// A query was dropped: the round goes on without it, or there is nothing left to evaluate.
static void go_on_without(struct metric_changes *c)
{
    if (!TAILQ_EMPTY(&c->watched) || !TAILQ_EMPTY(&c->followers)) {
        go_on(c);
        return;
    }
    gs_timer_stop(c->round);
    c->running = c->again = false;
}

void metric_changes_forget(struct metric_changes *c)
{
    for (struct metric_changes_follower *r = TAILQ_FIRST(&c->watched), *next; r; r = next) {
        next = TAILQ_NEXT(r, all);
        drop(r);
    }
    go_on_without(c);
}

// --- rounds ---

static void start_round(void *arg);

static void wait_for_round(struct metric_changes *c)
{
    int64_t wait_ms = (c->next_round_ns - gs_mono_ns()) / GS_NS_PER_MS;
    gs_timer_start(c->round, start_round, (uint64_t)(wait_ms > SETTLE_MS ? wait_ms : SETTLE_MS));
}

static struct totals totals_of(const struct source_result *r)
{
    struct totals t = {0};
    for (size_t i = 0; i < r->n; i++) {
        if (!isfinite(r->samples[i].value))
            continue;
        t.sum += r->samples[i].value;
        t.n++;
    }
    return t;
}

static bool is_notable(const struct metric_changes_follower *w, struct totals is)
{
    double tolerance = w->fn ? 0 : NOTABLE * fabs(w->reported.sum);
    return (w->fn && !w->evaluated) || w->reported.n != is.n ||
           fabs(is.sum - w->reported.sum) > tolerance;
}

static void report(struct metric_changes_follower *w)
{
    struct metric_changes *c = w->changes;
    if (w->fn) {
        if (c->on_change)
            c->on_change(c->arg);
        w->fn(w->arg, w->reported.sum, w->reported.n);
        return;
    }
    char sum[GS_DOUBLE_SIZE];
    GS_AUTO_FREE char *event = gs_format("%s\"sum\":%s,\"items\":%zu}}\n", w->head,
                                         gs_format_double(w->reported.sum, sum), w->reported.n);
    if (c->on_change)
        c->on_change(c->arg);
    c->n_events++;
    metric_changes_send(c, w->ns ? w->ns : "", event);
}

static void end_round(struct metric_changes *c)
{
    int64_t pause = (gs_thread_cpu_ns() - c->round_cpu_ns) * PAUSE_FACTOR;
    pause = pause < MIN_PAUSE_MS * GS_NS_PER_MS ? MIN_PAUSE_MS * GS_NS_PER_MS : pause;
    pause = pause > MAX_PAUSE_MS * GS_NS_PER_MS ? MAX_PAUSE_MS * GS_NS_PER_MS : pause;
    c->next_round_ns = c->round_ns + pause;
    c->running = false;
    if (c->again)
        wait_for_round(c);
    c->again = false;
}

static void on_result(void *arg, struct source_result *r, struct gs_error *err)
{
    struct metric_changes_follower *w = arg;
    struct metric_changes *c = w->changes;
    w->op = NULL;
    c->n_pending--;
    // An error is not a change: the next request of a client reports it.
    if (!err) {
        struct totals now = totals_of(r);
        bool notable = is_notable(w, now);
        w->evaluated = true;
        if (notable) {
            w->reported = now;
            report(w);
        }
    }
    gs_error_free(err);
    go_on(c);
}

// Starts further queries of the round, or ends it.
static void go_on(struct metric_changes *c)
{
    while (c->next && c->n_pending < MAX_PENDING) {
        struct metric_changes_follower *w = c->next;
        c->next = after(w);
        if (w->op)
            continue;
        c->n_pending++;
        // The explicit time keeps the query from getting a response that others share.
        w->op = source_query(w->source, w->query, gs_unix_ms(), on_result, w);
        c->n_queries++;
    }
    if (c->running && !c->n_pending && !c->next)
        end_round(c);
}

static void start_round(void *arg)
{
    struct metric_changes *c = arg;
    int64_t now = gs_mono_ns();
    for (struct metric_changes_follower *w = TAILQ_FIRST(&c->watched);
         w && now - w->answered_ns > KEEP_NS; w = TAILQ_FIRST(&c->watched))
        drop(w);
    c->round_ns = now;
    c->round_cpu_ns = gs_thread_cpu_ns();
    c->running = true;
    c->next = TAILQ_FIRST(&c->watched) ? TAILQ_FIRST(&c->watched) : TAILQ_FIRST(&c->followers);
    go_on(c);
}

void metric_changes_new_samples(struct metric_changes *c)
{
    if (TAILQ_EMPTY(&c->watched) && TAILQ_EMPTY(&c->followers))
        return;
    if (c->running)
        c->again = true;
    else if (!gs_timer_is_active(c->round))
        wait_for_round(c);
}

// --- requests ---

static void add_text(struct gs_buf *key, const char *text)
{
    gs_buf_add_str(key, text ? text : "");
    gs_buf_add_char(key, '\n');
}

static void add_member(struct gs_buf *out, const char *name, const char *value)
{
    gs_buf_addf(out, "\"%s\":", name);
    codec_json_add_string(out, gs_slice_of(value), CODEC_JSON_HTML);
    gs_buf_add_char(out, ',');
}

static char *head_of(const struct metric_changes_answer *a)
{
    struct gs_buf out = {0};
    gs_buf_add_str(&out, "{\"type\":\"MODIFIED\",\"object\":{\"kind\":\"MetricChange\","
                         "\"apiVersion\":\"custom.metrics.k8s.io/v1beta1\",\"metadata\":{");
    if (a->ns) {
        add_member(&out, "namespace", a->ns);
        out.len--; // the comma
    }
    gs_buf_add_str(&out, "},");
    if (a->resource) {
        add_member(&out, "resource", a->resource);
        add_member(&out, "name", a->name);
    }
    add_member(&out, "metric", a->metric);
    add_member(&out, "selector", a->label_selector ? a->label_selector : "");
    return gs_buf_take(&out);
}

static struct metric_changes_follower *watch(struct metric_changes *c, struct gs_slice key,
                                             const struct metric_changes_answer *a)
{
    if (gs_hmap_len(c->by_key) >= MAX_WATCHED) {
        drop(TAILQ_FIRST(&c->watched));
        go_on(c);
    }
    struct metric_changes_follower *w = gs_alloc(sizeof(*w) + key.len);
    memcpy(w + 1, key.data, key.len);
    w->key = gs_slice_make((const char *)(w + 1), key.len);
    w->changes = c;
    w->ns = a->ns ? gs_strdup(a->ns) : NULL;
    w->head = head_of(a);
    gs_hmap_put(c->by_key, w->key, w);
    TAILQ_INSERT_TAIL(&c->watched, w, all);
    return w;
}

void metric_changes_answered(struct metric_changes *c, const struct metric_changes_answer *a)
{
    if (!c->streams)
        return;
    gs_buf_clear(&c->key);
    add_text(&c->key, a->ns);
    add_text(&c->key, a->resource);
    add_text(&c->key, a->name);
    add_text(&c->key, a->metric);
    add_text(&c->key, a->label_selector);
    add_text(&c->key, a->selector);
    struct gs_slice key = gs_buf_slice(&c->key);
    struct metric_changes_follower *w = gs_hmap_get(c->by_key, key);
    if (!w)
        w = watch(c, key, a);
    w->answered_ns = gs_mono_ns();
    // The least recently answered request is first. One that waits for its turn keeps its place.
    if (!c->running) {
        TAILQ_REMOVE(&c->watched, w, all);
        TAILQ_INSERT_TAIL(&c->watched, w, all);
    }
    w->source = a->source;
    if (gs_streq(w->query, a->query))
        return;
    // The query names its objects, so another query is about others.
    free(w->query);
    w->query = gs_strdup(a->query);
    w->reported = (struct totals){a->sum, a->n};
    if (w->op) {
        source_cancel(GS_TAKE(w->op));
        c->n_pending--;
        go_on(c);
    }
}

// --- followers ---

struct metric_changes_follower *metric_changes_follow(struct metric_changes *c,
                                                      struct source *source, const char *query,
                                                      metric_changes_fn fn, void *arg)
{
    struct metric_changes_follower *w = gs_alloc(sizeof(*w));
    w->changes = c;
    w->source = source;
    w->query = gs_strdup(query);
    w->fn = fn;
    w->arg = arg;
    TAILQ_INSERT_TAIL(&c->followers, w, all);
    return w;
}

void metric_changes_unfollow(struct metric_changes_follower *f)
{
    if (!f)
        return;
    struct metric_changes *c = f->changes;
    drop(f);
    go_on_without(c);
}

// --- the object ---

struct metric_changes *metric_changes_new(uv_loop_t *loop, void (*on_change)(void *arg), void *arg)
{
    struct metric_changes *c = gs_alloc(sizeof(*c));
    c->loop = loop;
    c->on_change = on_change;
    c->arg = arg;
    c->by_key = gs_hmap_new(NULL);
    TAILQ_INIT(&c->watched);
    TAILQ_INIT(&c->followers);
    c->round = gs_timer_new(loop, c);
    c->alive = gs_timer_new(loop, c);
    return c;
}

void metric_changes_free(struct metric_changes *c)
{
    if (!c)
        return;
    metric_changes_end_streams(c);
    metric_changes_forget(c);
    gs_timer_free(c->round);
    gs_timer_free(c->alive);
    gs_hmap_free(c->by_key);
    gs_buf_finish(&c->key);
    free(c);
}

void metric_changes_write_metrics(const struct metric_changes *c, struct gs_buf *out)
{
    gs_buf_addf(out,
                "# HELP gpuscale_adapter_change_streams Clients that follow changes of metrics.\n"
                "# TYPE gpuscale_adapter_change_streams gauge\n"
                "gpuscale_adapter_change_streams %zu\n"
                "# HELP gpuscale_adapter_change_requests Requests whose result is followed.\n"
                "# TYPE gpuscale_adapter_change_requests gauge\n"
                "gpuscale_adapter_change_requests %zu\n"
                "# HELP gpuscale_adapter_change_queries_total Queries that follow results.\n"
                "# TYPE gpuscale_adapter_change_queries_total counter\n"
                "gpuscale_adapter_change_queries_total %llu\n"
                "# HELP gpuscale_adapter_changes_total Changes that were reported.\n"
                "# TYPE gpuscale_adapter_changes_total counter\n"
                "gpuscale_adapter_changes_total %llu\n",
                c->n_streams, gs_hmap_len(c->by_key), (unsigned long long)c->n_queries,
                (unsigned long long)c->n_events);
}
