// SPDX-License-Identifier: Apache-2.0
// The methods of the service externalscaler.ExternalScaler.
#include "adapter/keda_scaler/keda_scaler_private.h"

#include "base/log.h"
#include "base/mem.h"

#define SERVICE "/externalscaler.ExternalScaler/"

static const char *const method_names[KEDA_SCALER_N_METHODS] = {
    [KEDA_SCALER_IS_ACTIVE] = "IsActive",
    [KEDA_SCALER_STREAM_IS_ACTIVE] = "StreamIsActive",
    [KEDA_SCALER_GET_METRIC_SPEC] = "GetMetricSpec",
    [KEDA_SCALER_STREAM_METRIC_SPEC] = "StreamMetricSpec",
    [KEDA_SCALER_GET_METRICS] = "GetMetrics",
};

// A call that waits for a value, or a stream of specifications.
struct keda_scaler_call {
    TAILQ_ENTRY(keda_scaler_call) all;
    struct keda_scaler *scaler;
    struct grpc_call *grpc;
    enum keda_scaler_method method;
    struct keda_scaler_trigger trigger;
    char *metric;                  // of GetMetrics
    struct keda_scaler_read *read; // NULL: a stream
};

// --- calls ---

static void call_free(struct keda_scaler_call *c)
{
    TAILQ_REMOVE(&c->scaler->calls, c, all);
    if (c->method == KEDA_SCALER_STREAM_METRIC_SPEC)
        c->scaler->n_spec_streams--;
    keda_scaler_read_cancel(c->read);
    keda_scaler_trigger_finish(&c->trigger);
    free(c->metric);
    free(c);
}

static void on_call_cancel(void *arg)
{
    call_free(arg);
}

// Takes the trigger.
static struct keda_scaler_call *call_new(struct keda_scaler *s, struct grpc_call *grpc,
                                         enum keda_scaler_method method,
                                         struct keda_scaler_trigger *t)
{
    struct keda_scaler_call *c = gs_alloc(sizeof(*c));
    c->scaler = s;
    c->grpc = grpc;
    c->method = method;
    c->trigger = *t;
    *t = (struct keda_scaler_trigger){0};
    TAILQ_INSERT_TAIL(&s->calls, c, all);
    grpc_call_on_cancel(grpc, on_call_cancel, c);
    return c;
}

static void fail(struct keda_scaler *s, struct grpc_call *grpc, enum keda_scaler_method method,
                 enum grpc_status status, const char *why)
{
    s->failures[method]++;
    gs_debug("keda-scaler", "%s: %s", method_names[method], why);
    grpc_call_finish(grpc, status, why);
}

// Reads a request. False: it was answered.
static bool begin(struct keda_scaler *s, struct grpc_call *grpc, enum keda_scaler_method method,
                  struct gs_slice message, struct keda_scaler_trigger *ret, char **ret_metric)
{
    struct keda_scaler_request rq;
    s->requests[method]++;
    GS_AUTO_ERROR struct gs_error *err = method == KEDA_SCALER_GET_METRICS
                                             ? keda_scaler_read_metrics_request(message, &rq)
                                             : keda_scaler_read_ref(message, &rq);
    if (!err)
        err = keda_scaler_trigger_read(&rq, ret);
    if (err)
        fail(s, grpc, method, GRPC_INVALID_ARGUMENT, gs_error_message(err));
    else if (ret_metric)
        *ret_metric = gs_slice_dup(rq.metric.len ? rq.metric : gs_slice_of(ret->metric));
    return !err;
}

// --- values ---

static void on_call_value(void *arg, const struct keda_scaler_value *v)
{
    struct keda_scaler_call *c = arg;
    GS_AUTO_BUF struct gs_buf answer = {0};
    c->read = NULL;
    grpc_call_on_cancel(c->grpc, NULL, NULL);
    if (v->status != GRPC_OK) {
        fail(c->scaler, c->grpc, c->method, v->status, v->why);
        call_free(c);
        return;
    }
    if (c->method == KEDA_SCALER_IS_ACTIVE)
        keda_scaler_write_active(v->value > c->trigger.activation, &answer);
    else
        keda_scaler_write_value(gs_slice_of(c->metric), v->value, &answer);
    grpc_call_send(c->grpc, gs_buf_slice(&answer));
    grpc_call_finish(c->grpc, GRPC_OK, NULL);
    call_free(c);
}

static void answer_value(struct keda_scaler *s, struct grpc_call *grpc,
                         enum keda_scaler_method method, struct gs_slice message)
{
    struct keda_scaler_trigger t;
    char *metric = NULL;
    if (!begin(s, grpc, method, message, &t, method == KEDA_SCALER_GET_METRICS ? &metric : NULL))
        return;
    struct keda_scaler_call *c = call_new(s, grpc, method, &t);
    c->metric = metric;
    struct keda_scaler_read *r = keda_scaler_read_value(s, &c->trigger, on_call_value, c);
    if (r) // otherwise on_call_value() has freed the call
        c->read = r;
}

// False: it was answered. Many connections have no more streams than one may have.
static bool may_stream(struct keda_scaler *s, struct grpc_call *grpc,
                       enum keda_scaler_method method)
{
    if (s->stopping)
        fail(s, grpc, method, GRPC_UNAVAILABLE, "the server is stopping");
    else if (s->n_watches + s->n_spec_streams >= KEDA_SCALER_MAX_STREAMS)
        fail(s, grpc, method, GRPC_RESOURCE_EXHAUSTED, "too many streams are open");
    else
        return true;
    return false;
}

static void handle_is_active(void *arg, struct grpc_call *grpc, struct gs_slice message)
{
    answer_value(arg, grpc, KEDA_SCALER_IS_ACTIVE, message);
}

static void handle_get_metrics(void *arg, struct grpc_call *grpc, struct gs_slice message)
{
    answer_value(arg, grpc, KEDA_SCALER_GET_METRICS, message);
}

static void handle_stream_is_active(void *arg, struct grpc_call *grpc, struct gs_slice message)
{
    struct keda_scaler_trigger t;
    if (!begin(arg, grpc, KEDA_SCALER_STREAM_IS_ACTIVE, message, &t, NULL))
        return;
    if (may_stream(arg, grpc, KEDA_SCALER_STREAM_IS_ACTIVE))
        keda_scaler_watch_new(arg, grpc, &t);
    else
        keda_scaler_trigger_finish(&t);
}

// --- specifications ---

static void send_spec(struct grpc_call *grpc, const struct keda_scaler_trigger *t)
{
    GS_AUTO_BUF struct gs_buf answer = {0};
    keda_scaler_write_spec(gs_slice_of(t->metric), t->threshold, &answer);
    grpc_call_send(grpc, gs_buf_slice(&answer));
}

static void handle_get_spec(void *arg, struct grpc_call *grpc, struct gs_slice message)
{
    struct keda_scaler_trigger t;
    if (!begin(arg, grpc, KEDA_SCALER_GET_METRIC_SPEC, message, &t, NULL))
        return;
    send_spec(grpc, &t);
    grpc_call_finish(grpc, GRPC_OK, NULL);
    keda_scaler_trigger_finish(&t);
}

// A specification follows from the metadata alone, so it changes only with the ScaledObject, for
// which KEDA opens another stream.
static void handle_stream_spec(void *arg, struct grpc_call *grpc, struct gs_slice message)
{
    struct keda_scaler *s = arg;
    struct keda_scaler_trigger t;
    if (!begin(s, grpc, KEDA_SCALER_STREAM_METRIC_SPEC, message, &t, NULL))
        return;
    if (!may_stream(s, grpc, KEDA_SCALER_STREAM_METRIC_SPEC)) {
        keda_scaler_trigger_finish(&t);
        return;
    }
    send_spec(grpc, &t);
    call_new(s, grpc, KEDA_SCALER_STREAM_METRIC_SPEC, &t);
    s->n_spec_streams++;
}

// --- the service ---

struct keda_scaler *keda_scaler_new(uv_loop_t *loop, struct grpc_server *server,
                                    const struct keda_scaler_options *o)
{
    static const grpc_method_fn handlers[KEDA_SCALER_N_METHODS] = {
        [KEDA_SCALER_IS_ACTIVE] = handle_is_active,
        [KEDA_SCALER_STREAM_IS_ACTIVE] = handle_stream_is_active,
        [KEDA_SCALER_GET_METRIC_SPEC] = handle_get_spec,
        [KEDA_SCALER_STREAM_METRIC_SPEC] = handle_stream_spec,
        [KEDA_SCALER_GET_METRICS] = handle_get_metrics,
    };
    struct keda_scaler *s = gs_alloc(sizeof(*s));
    s->loop = loop;
    s->o = *o;
    TAILQ_INIT(&s->calls);
    TAILQ_INIT(&s->watches);
    grpc_server_set_max_streams(server, KEDA_SCALER_MAX_STREAMS);
    grpc_server_set_max_message(server, KEDA_SCALER_MAX_MESSAGE);
    for (size_t i = 0; i < KEDA_SCALER_N_METHODS; i++) {
        GS_AUTO_FREE char *path = gs_format(SERVICE "%s", method_names[i]);
        grpc_server_handle(server, path, handlers[i], s);
    }
    return s;
}

void keda_scaler_end_streams(struct keda_scaler *s)
{
    struct keda_scaler_watch *w;
    s->stopping = true; // a client may open its streams again, on the same connection
    while ((w = TAILQ_FIRST(&s->watches)))
        keda_scaler_watch_end(w);
    for (struct keda_scaler_call *c = TAILQ_FIRST(&s->calls), *next; c; c = next) {
        next = TAILQ_NEXT(c, all);
        if (c->method != KEDA_SCALER_STREAM_METRIC_SPEC)
            continue;
        grpc_call_on_cancel(c->grpc, NULL, NULL);
        grpc_call_finish(c->grpc, GRPC_OK, "");
        call_free(c);
    }
}

void keda_scaler_free(struct keda_scaler *s)
{
    free(s);
}

static void write_counter(const char *name, const char *help, const uint64_t *values,
                          struct gs_buf *out)
{
    gs_buf_addf(out, "# HELP %s %s\n# TYPE %s counter\n", name, help, name);
    for (size_t i = 0; i < KEDA_SCALER_N_METHODS; i++)
        gs_buf_addf(out, "%s{method=\"%s\"} %llu\n", name, method_names[i],
                    (unsigned long long)values[i]);
}

void keda_scaler_write_metrics(const struct keda_scaler *s, struct gs_buf *out)
{
    write_counter("gpuscale_keda_requests_total", "Calls of KEDA.", s->requests, out);
    write_counter("gpuscale_keda_failures_total", "Calls that had an error, such as no value.",
                  s->failures, out);
    gs_buf_addf(out,
                "# HELP gpuscale_keda_streams Open streams.\n"
                "# TYPE gpuscale_keda_streams gauge\n"
                "gpuscale_keda_streams{method=\"StreamIsActive\"} %zu\n"
                "gpuscale_keda_streams{method=\"StreamMetricSpec\"} %zu\n"
                "# HELP gpuscale_keda_activity_changes_total Changes that were pushed.\n"
                "# TYPE gpuscale_keda_activity_changes_total counter\n"
                "gpuscale_keda_activity_changes_total %llu\n",
                s->n_watches, s->n_spec_streams, (unsigned long long)s->n_pushed);
}
