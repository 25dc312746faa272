// SPDX-License-Identifier: Apache-2.0
// /api/v1/write and /api/v1/otlp/v1/metrics: samples that others push.
#include "engine/api/api_private.h"

#include <stdio.h>

// The receiver is behind if more requests or bytes than this wait.
#define MAX_WAITING       64
#define MAX_WAITING_BYTES ((size_t)32 << 20)

static void reply_busy(struct engine_api_request *r)
{
    http_add_header(r->x, "Retry-After", "1");
    engine_api_reply_text(r, 429, "too many pushed requests are waiting; try again\n");
}

static void receive(struct engine_api_request *r,
                    void (*write)(struct remote_receiver *, const struct remote_receiver_request *,
                                  struct remote_receiver_reply *))
{
    struct remote_receiver_reply reply;
    const struct remote_receiver_request q = {
        .peer = http_peer(r->x),
        .content_type = http_header(r->x, "Content-Type"),
        .content_encoding = http_header(r->x, "Content-Encoding"),
        .body = http_body(r->x),
        .go_on = engine_api_queue_pause,
        .arg = r->api->writes,
    };
    write(r->api->receiver, &q, &reply);
    if (!r->x || !reply.status) { // the client has disconnected
        gs_buf_finish(&reply.text);
        return;
    }
    if (reply.has_counts) {
        char samples[24], exemplars[24];
        snprintf(samples, sizeof(samples), "%zu", reply.samples);
        snprintf(exemplars, sizeof(exemplars), "%zu", reply.exemplars);
        http_add_header(r->x, "X-Prometheus-Remote-Write-Samples-Written", samples);
        http_add_header(r->x, "X-Prometheus-Remote-Write-Histograms-Written", "0");
        http_add_header(r->x, "X-Prometheus-Remote-Write-Exemplars-Written", exemplars);
    }
    if (reply.status == 429)
        http_add_header(r->x, "Retry-After", "1");
    if (reply.status >= 400)
        engine_api_make_utf8(&reply.text);
    if (reply.status == 204)
        engine_api_reply_body(r, 204, NULL, GS_SLICE(""));
    else if (reply.type)
        engine_api_reply_body(r, reply.status, reply.type, gs_buf_slice(&reply.text));
    else
        engine_api_reply_text(r, reply.status, "%s\n", reply.text.data ? reply.text.data : "");
    gs_buf_finish(&reply.text);
}

void engine_api_write(struct engine_api_request *r)
{
    receive(r, remote_receiver_write);
}

void engine_api_otlp(struct engine_api_request *r)
{
    receive(r, remote_receiver_otlp);
}

void engine_api_queue_write(struct engine_api_request *r)
{
    struct engine_api_queue *q = r->api->writes;
    bool otlp = gs_slice_eq_str(r->path, "/api/v1/otlp/v1/metrics");
    unsigned messages = otlp ? REMOTE_MESSAGE_OTLP : REMOTE_MESSAGE_V1 | REMOTE_MESSAGE_V2;
    if (!(r->api->cfg.write_messages & messages)) {
        engine_api_reply_text(
            r, 404,
            otlp ? "otlp write receiver needs to be enabled with --web.enable-otlp-receiver\n"
                 : "remote write receiver needs to be enabled with "
                   "--web.enable-remote-write-receiver\n");
        return;
    }
    size_t len = engine_api_queue_len(q);
    if (len >= MAX_WAITING ||
        (len && engine_api_queue_bytes(q) + http_body(r->x).len > MAX_WAITING_BYTES))
        reply_busy(r);
    else
        engine_api_queue_run(q, r);
}

void engine_api_refuse_write(struct engine_api_request *r, enum engine_api_error type,
                             const char *why)
{
    (void)type, (void)why;
    reply_busy(r);
}
