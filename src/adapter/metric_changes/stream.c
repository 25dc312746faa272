// SPDX-License-Identifier: Apache-2.0
// The streams of events. A client that does not read gets no further events and loses its stream,
// so it costs a limited amount of memory and delays nobody.
#include "adapter/metric_changes/metric_changes_private.h"

#include "base/mem.h"
#include "kube/status.h"

enum {
    MAX_STREAMS = 64,
    ALIVE_MS = 30000,
    MAX_PENDING_BYTES = 64 * 1024, // of a stream
    STALL_MS = 60000,
};

struct metric_changes_stream {
    struct metric_changes *changes; // NULL: it has ended
    struct http_stream *http;
    char *ns; // NULL: all
    struct metric_changes_stream *prev, *next;
};

static void unlink_stream(struct metric_changes_stream *s)
{
    struct metric_changes *c = s->changes;
    *(s->prev ? &s->prev->next : &c->streams) = s->next;
    if (s->next)
        s->next->prev = s->prev;
    s->changes = NULL;
    if (--c->n_streams)
        return;
    gs_timer_stop(c->alive);
    metric_changes_forget(c);
}

static void on_stream_closed(void *arg)
{
    struct metric_changes_stream *s = arg;
    if (s->changes)
        unlink_stream(s);
    free(s->ns);
    free(s);
}

void metric_changes_send(struct metric_changes *c, const char *ns, const char *event)
{
    for (struct metric_changes_stream *s = c->streams; s; s = s->next)
        if ((!ns || !s->ns || gs_streq(ns, s->ns)) &&
            http_stream_pending(s->http) < MAX_PENDING_BYTES)
            http_stream_write(s->http, gs_slice_of(event));
}

static const char bookmark[] = "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"MetricChange\","
                               "\"apiVersion\":\"custom.metrics.k8s.io/v1beta1\"}}\n";

static void on_alive_timer(void *arg)
{
    metric_changes_send(arg, NULL, bookmark);
}

void metric_changes_open(struct metric_changes *c, struct http_exchange *x, const char *ns)
{
    if (c->n_streams >= MAX_STREAMS) {
        http_add_header(x, "Retry-After", "60");
        kube_reply_failure(x, 429, "TooManyRequests", "%d clients follow changes already",
                           MAX_STREAMS);
        return;
    }
    struct metric_changes_stream *s = gs_alloc(sizeof(*s));
    s->changes = c;
    s->ns = ns ? gs_strdup(ns) : NULL;
    s->next = c->streams;
    if (s->next)
        s->next->prev = s;
    c->streams = s;
    s->http = http_reply_stream(x, 200, "application/json", on_stream_closed, s);
    http_stream_limit_stall(s->http, STALL_MS);
    http_stream_write(s->http, gs_slice_of(bookmark));
    if (c->n_streams++ == 0)
        gs_timer_repeat(c->alive, on_alive_timer, ALIVE_MS, ALIVE_MS);
}

void metric_changes_end_streams(struct metric_changes *c)
{
    for (struct metric_changes_stream *s = c->streams, *next; s; s = next) {
        next = s->next;
        unlink_stream(s);
        http_stream_end(s->http);
    }
}
