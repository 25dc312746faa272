// SPDX-License-Identifier: Apache-2.0
// Comments of server-sent events for a client that waits for an event stream, so that proxies with
// time limits keep its connection. The first comment begins the answer: a head with the status 200.
// The head of the endpoint's response is left out, and its events follow as chunks. A response that
// is no event stream becomes one event
// (https://html.spec.whatwg.org/multipage/server-sent-events.html).
#include "activator/gate_parts.h"

#include "base/clock.h"
#include "base/mem.h"
#include "codec/json.h"
#include "net/http/response_reader.h"

#include <strings.h>

#define MAX_TEXT ((size_t)16 * 1024) // of a response that becomes one event

struct activator_stream {
    struct http_response_reader reader;
    struct gs_buf text; // of a response that is no event stream
    bool events;        // the response is one
    bool too_long;      // a part of its text is missing
};

static const struct gs_slice head = GS_SLICE("HTTP/1.1 200 OK\r\n"
                                             "Content-Type: text/event-stream\r\n"
                                             "Cache-Control: no-cache\r\n"
                                             "X-Accel-Buffering: no\r\n"
                                             "Transfer-Encoding: chunked\r\n\r\n");

static void add_chunk(struct gs_buf *out, struct gs_slice data)
{
    if (!data.len)
        return;
    gs_buf_addf(out, "%zx\r\n", data.len);
    gs_buf_add(out, data.data, data.len);
    gs_buf_add_str(out, "\r\n");
}

static void add_end(struct gs_buf *out)
{
    gs_buf_add_str(out, "0\r\n\r\n");
}

// --- comments ---

// At its front only: the time for a body is linear.
static struct gs_slice without_space(struct gs_slice s)
{
    while (s.len && strchr(" \t\r\n", *s.data) && *s.data)
        s = gs_slice_make(s.data + 1, s.len - 1);
    return s;
}

// "stream": true in a JSON body, as APIs of inference engines have it.
static bool body_streams(struct gs_slice body)
{
    static const char name[] = "\"stream\"";
    while (body.len) {
        const char *at = memmem(body.data, body.len, name, strlen(name));
        if (!at)
            return false;
        at += strlen(name);
        body = gs_slice_make(at, body.len - (size_t)(at - body.data));
        struct gs_slice rest = without_space(body);
        if (!gs_slice_starts(rest, ":"))
            continue;
        rest = without_space(gs_slice_make(rest.data + 1, rest.len - 1));
        if (gs_slice_starts(rest, "true"))
            return true;
    }
    return false;
}

bool activator_stream_wanted(struct gs_slice request)
{
    const char *end = memmem(request.data, request.len, "\r\n\r\n", 4);
    if (!end || (!gs_slice_starts(request, "GET ") && !gs_slice_starts(request, "POST ")))
        return false;
    size_t n = (size_t)(end - request.data) + 4;
    struct gs_slice top = gs_slice_make(request.data, n);
    struct gs_slice accept = activator_head_value(top, "accept");
    return (accept.len && memmem(accept.data, accept.len, "text/event-stream", 17)) ||
           body_streams(gs_slice_make(request.data + n, request.len - n));
}

bool activator_stream_comment(struct activator_connection *c, int64_t now_ns)
{
    const struct activator_rules *rules = c->gate->rules;
    int64_t last_ns = c->commented_ns > c->since_ns ? c->commented_ns : c->since_ns;
    if (!rules || !rules->comment_ms || !c->interim ||
        now_ns - last_ns < rules->comment_ms * GS_NS_PER_MS)
        return true;
    GS_AUTO_BUF struct gs_buf out = {0};
    c->commented_ns = now_ns;
    if (!c->stream && !activator_stream_wanted(gs_slice_make(c->bytes, c->len)))
        return true;
    if (!c->stream) {
        c->stream = gs_alloc(sizeof(*c->stream));
        gs_buf_add(&out, head.data, head.len);
    }
    add_chunk(&out, GS_SLICE(": waiting for a pod\n\n"));
    return splice_socket_send(c->client, gs_buf_slice(&out));
}

// --- one event in place of a response ---

// Each line of the text is a line of the event's data.
static void add_event(struct gs_buf *out, const char *type, struct gs_slice text)
{
    GS_AUTO_BUF struct gs_buf event = {0};
    if (type)
        gs_buf_addf(&event, "event: %s\n", type);
    do {
        struct gs_slice line = gs_slice_trim(gs_slice_cut(&text, '\n'));
        gs_buf_add_str(&event, "data: ");
        gs_buf_add(&event, line.data, line.len);
        gs_buf_add_char(&event, '\n');
    } while (text.len);
    gs_buf_add_char(&event, '\n');
    add_chunk(out, gs_buf_slice(&event));
}

void activator_stream_refuse(struct gs_buf *out, int status, const char *text)
{
    CODEC_AUTO_JSON json_t *error =
        json_pack("{s:{s:s, s:s, s:i}}", "error", "message", text, "type",
                  status == 429 ? "too_many_requests" : "service_unavailable", "code", status);
    GS_AUTO_BUF struct gs_buf json = {0};
    codec_json_dump(error, &json);
    add_event(out, "error", gs_buf_slice(&json));
    add_end(out);
}

// --- the endpoint's response ---

static void read_head(struct activator_stream *s)
{
    const char *type = http_response_reader_header(&s->reader, "Content-Type");
    const char *coding = http_response_reader_header(&s->reader, "Content-Encoding");
    s->events = s->reader.status == 200 && !coding && type &&
                strncasecmp(type, "text/event-stream", 17) == 0;
}

static void add_body(struct activator_stream *s, struct gs_slice body, struct gs_buf *out)
{
    size_t left = MAX_TEXT - s->text.len;
    if (s->events)
        add_chunk(out, body);
    else
        gs_buf_add(&s->text, body.data, body.len < left ? body.len : left);
    s->too_long |= !s->events && body.len > left;
}

static void end_response(struct activator_stream *s, struct gs_buf *out)
{
    bool is_error = s->reader.status != 200;
    if (!s->events && s->too_long && !is_error) {
        activator_stream_refuse(out, 502, "the response of the pod is no event stream");
        return;
    }
    if (!s->events)
        add_event(out, is_error ? "error" : NULL, gs_buf_slice(&s->text));
    add_end(out);
}

static struct gs_error *feed(struct activator_stream *s, struct gs_slice *in, struct gs_buf *out)
{
    struct gs_error *err = NULL;
    while (!err && in->len && s->reader.state != HTTP_RESPONSE_DONE) {
        struct gs_slice body;
        bool had_head = s->reader.has_head;
        err = http_response_reader_feed(&s->reader, in, &body);
        if (!had_head && s->reader.has_head)
            read_head(s);
        add_body(s, body, out);
    }
    return err;
}

// The response is complete: what follows it is passed on as it is.
static void end_stream(struct activator_connection *c, struct gs_slice rest, struct gs_buf *out)
{
    gs_buf_add(out, rest.data, rest.len);
    activator_stream_free(GS_TAKE(c->stream));
    splice_send(c->splice, SPLICE_CLIENT, gs_buf_slice(out));
}

// What follows an invalid response cannot be read.
static void fail_stream(struct activator_connection *c, struct gs_buf *out)
{
    struct activator_gate *g = c->gate;
    activator_stream_refuse(out, 502, "the pod ended its response early");
    if (splice_send(c->splice, SPLICE_CLIENT, gs_buf_slice(out)))
        activator_connection_free(c);
    activator_gate_release(g);
}

bool activator_stream_take(void *connection, enum splice_side from, struct gs_slice bytes)
{
    struct activator_connection *c = connection;
    struct activator_stream *s = c->stream;
    GS_AUTO_BUF struct gs_buf out = {0};
    if (from == SPLICE_CLIENT || !s)
        return false;
    bool at_end = !bytes.len;
    GS_AUTO_ERROR struct gs_error *err = feed(s, &bytes, &out);
    if (err || (at_end && !http_response_reader_ended(&s->reader))) {
        fail_stream(c, &out);
    } else if (s->reader.state == HTTP_RESPONSE_DONE) {
        end_response(s, &out);
        end_stream(c, bytes, &out);
    } else {
        splice_send(c->splice, SPLICE_CLIENT, gs_buf_slice(&out));
    }
    return true;
}

void activator_stream_free(struct activator_stream *s)
{
    if (!s)
        return;
    http_response_reader_finish(&s->reader);
    gs_buf_finish(&s->text);
    free(s);
}
