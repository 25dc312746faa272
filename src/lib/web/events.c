// SPDX-License-Identifier: Apache-2.0
// Server-sent events: each open page has a stream, on which it is notified of new data. The page
// then reads what it shows.
#include "web/web_private.h"

#include "base/mem.h"

enum {
    MAX_STREAMS = 64,        // further pages poll
    TICK_MS = 1000,          // pages are notified at most once in this time
    ALIVE_TICKS = 15,        // a comment after this many ticks without an event
    MAX_PENDING = 16 * 1024, // bytes; a peer that does not read gets no further events
    STALL_MS = 30000,        // then its stream is closed, for other pages
};

struct web_stream {
    struct web *web; // NULL: it has ended
    struct http_stream *http;
    struct web_stream *prev, *next;
};

static void unlink_stream(struct web_stream *s)
{
    struct web *w = s->web;
    *(s->prev ? &s->prev->next : &w->streams) = s->next;
    if (s->next)
        s->next->prev = s->prev;
    s->web = NULL;
    if (--w->n_streams == 0)
        gs_timer_stop(w->timer);
}

static void on_stream_closed(void *arg)
{
    struct web_stream *s = arg;
    if (s->web)
        unlink_stream(s);
    free(s);
}

static void write_all(struct web *w, const char *text)
{
    for (struct web_stream *s = w->streams; s; s = s->next)
        if (http_stream_pending(s->http) < MAX_PENDING)
            http_stream_write(s->http, gs_slice_of(text));
}

static void on_tick(void *arg)
{
    struct web *w = arg;
    uint64_t version = w->o.version(w->o.arg);
    if (version != w->version) {
        GS_AUTO_FREE char *event = gs_format("data: %llu\n\n", (unsigned long long)version);
        w->version = version;
        w->quiet = 0;
        write_all(w, event);
    } else if (++w->quiet >= ALIVE_TICKS) {
        w->quiet = 0;
        write_all(w, ":\n\n");
    }
}

void web_events_open(struct web *w, struct http_exchange *x)
{
    http_add_header(x, "X-Content-Type-Options", "nosniff");
    http_add_header(x, "Cache-Control", "no-store");
    if (!w->o.version || w->n_streams >= MAX_STREAMS) {
        http_add_header(x, "Retry-After", "60");
        http_reply_text(x, 503, "%s\n",
                        w->o.version ? "too many open pages: this one polls" : "no events");
        return;
    }
    struct web_stream *s = gs_alloc(sizeof(*s));
    s->web = w;
    s->next = w->streams;
    if (s->next)
        s->next->prev = s;
    w->streams = s;
    s->http = http_reply_stream(x, 200, "text/event-stream", on_stream_closed, s);
    http_stream_limit_stall(s->http, STALL_MS);
    // The first event also proves that the stream works through proxies.
    GS_AUTO_FREE char *first =
        gs_format("retry: 3000\ndata: %llu\n\n", (unsigned long long)w->o.version(w->o.arg));
    http_stream_write(s->http, gs_slice_of(first));
    if (w->n_streams++ > 0)
        return;
    w->version = w->o.version(w->o.arg);
    w->quiet = 0;
    if (!w->timer)
        w->timer = gs_timer_new(w->o.loop, w);
    gs_timer_repeat(w->timer, on_tick, TICK_MS, TICK_MS);
}

void web_events_finish(struct web *w)
{
    for (struct web_stream *s = w->streams, *next; s; s = next) {
        next = s->next;
        unlink_stream(s);
        http_stream_end(s->http);
    }
    gs_timer_free(w->timer);
}
