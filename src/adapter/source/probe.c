// SPDX-License-Identifier: Apache-2.0
// Whether a source answers: a constant query every five seconds. It decides about readiness, so a
// Prometheus that is slow or restarts does not make the adapter unready before 30 s without an
// answer.
#include "adapter/source/source.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/timer.h"

enum { PERIOD_MS = 5000, TIMEOUT_MS = 5000, SILENCE_MS = 30000 };

struct source_probe {
    struct source_probe_options o;
    struct gs_timer *timer;
    struct source_op *op; // in progress
    int64_t sent_ns;
    char *error; // of the last query; NULL: it succeeded
    char *text;  // result of source_probe_wrong()
};

static void set_error(struct source_probe *p, char *text)
{
    free(p->error);
    p->error = text;
}

static void on_probe_result(void *arg, struct source_result *r, struct gs_error *err)
{
    struct source_probe *p = arg;
    p->op = NULL;
    (void)r;
    set_error(p, err ? gs_strdup(gs_error_message(err)) : NULL);
    gs_error_free(err);
}

// Sets the time explicitly, because queries with a time bypass the cache.
static void send_probe(struct source_probe *p)
{
    p->sent_ns = gs_mono_ns();
    p->op = source_query(p->o.source, "vector(1)", gs_unix_ms(), on_probe_result, p);
}

static void on_source_probe_timer(void *arg)
{
    struct source_probe *p = arg;
    if (p->op && gs_mono_ns() - p->sent_ns < p->o.timeout_ms * GS_NS_PER_MS)
        return;
    if (p->op) {
        source_cancel(GS_TAKE(p->op));
        set_error(p, gs_format("%s: no response within %lld ms", source_name(p->o.source),
                               (long long)p->o.timeout_ms));
    }
    send_probe(p);
}

const char *source_probe_wrong(struct source_probe *p)
{
    struct source_stats s = {0};
    source_stats(p->o.source, &s);
    const char *error = p->error ? p->error : s.last_error;
    if (!s.last_ok_ns)
        return error ? error : "no response yet";
    int64_t silence_ms = (gs_mono_ns() - s.last_ok_ns) / GS_NS_PER_MS;
    if (silence_ms <= p->o.silence_ms)
        return NULL;
    free(p->text);
    p->text = gs_format("no good answer for %lld s%s%s", (long long)(silence_ms / 1000),
                        error ? ": " : "", error ? error : "");
    return p->text;
}

struct source_probe *source_probe_new(uv_loop_t *loop, const struct source_probe_options *o)
{
    struct source_probe *p = gs_alloc(sizeof(*p));
    p->o = *o;
    p->o.period_ms = o->period_ms ? o->period_ms : PERIOD_MS;
    p->o.timeout_ms = o->timeout_ms ? o->timeout_ms : TIMEOUT_MS;
    p->o.silence_ms = o->silence_ms ? o->silence_ms : SILENCE_MS;
    p->timer = gs_timer_new(loop, p);
    gs_timer_repeat(p->timer, on_source_probe_timer, (uint64_t)p->o.period_ms,
                    (uint64_t)p->o.period_ms);
    send_probe(p);
    return p;
}

void source_probe_free(struct source_probe *p)
{
    if (!p)
        return;
    source_cancel(p->op);
    gs_timer_free(p->timer);
    free(p->error);
    free(p->text);
    free(p);
}
