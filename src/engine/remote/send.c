// SPDX-License-Identifier: Apache-2.0
// Requests of the sender, and what becomes of a batch.
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "engine/remote/send_private.h"

#define MAX_RETRY_S INT64_C(3600)
#define SHOWN_BODY  ((size_t)200) // bytes of a response, in the log

static void retry(struct remote_write *w, const char *why, int64_t retry_after_s)
{
    gs_warn("remote_write", "%s: %s; the request is retried", w->cfg->url, why);
    int64_t delay = w->backoff_ms;
    if (retry_after_s > 0)
        delay = (retry_after_s < MAX_RETRY_S ? retry_after_s : MAX_RETRY_S) * 1000;
    w->n_samples.retried += w->batch_samples;
    w->n_exemplars.retried += w->batch_exemplars;
    w->backoff_ms *= 2;
    if (w->backoff_ms > w->cfg->max_backoff_ms)
        w->backoff_ms = w->cfg->max_backoff_ms;
    remote_write_arm(w, remote_write_wait(delay));
}

// --- results ---

// Adds a number of a response to *count, up to max. Returns false if it is absent.
static bool add_written(const struct http_response *a, const char *header, size_t max,
                        size_t *count)
{
    struct gs_slice text = http_response_header(a, header);
    uint64_t n = 0;
    if (!text.len)
        return false;
    GS_AUTO_ERROR struct gs_error *err = gs_parse_u64(text, UINT64_MAX, &n);
    if (err)
        n = 0;
    *count = n < max - *count ? *count + (size_t)n : max;
    return true;
}

// Reads what the receiver has written. A repeated request can write the rest. Returns false if the
// receiver does not report it, as those of 1.0.
static bool read_written(struct remote_write *w, const struct http_response *a)
{
    size_t none = 0; // histograms are not sent
    bool samples = add_written(a, "x-prometheus-remote-write-samples-written", w->batch_samples,
                               &w->written_samples);
    bool exemplars = add_written(a, "x-prometheus-remote-write-exemplars-written",
                                 w->batch_exemplars, &w->written_exemplars);
    return add_written(a, "x-prometheus-remote-write-histograms-written", 0, &none) || samples ||
           exemplars;
}

static void count_batch(struct remote_write *w)
{
    w->n_samples.sent += w->written_samples;
    w->n_samples.failed += w->batch_samples - w->written_samples;
    w->n_exemplars.sent += w->written_exemplars;
    w->n_exemplars.failed += w->batch_exemplars - w->written_exemplars;
    if (w->written_samples || w->written_exemplars)
        w->bytes_sent += w->body.len;
    remote_write_acknowledge(w);
    remote_write_arm(w, 0);
}

static void log_failed(const struct remote_write *w, int status, struct gs_slice cause)
{
    size_t shown = cause.len < SHOWN_BODY ? cause.len : SHOWN_BODY;
    size_t samples = w->batch_samples - w->written_samples,
           exemplars = w->batch_exemplars - w->written_exemplars;
    if (!samples && !exemplars)
        return;
    gs_err("remote_write", "%s: status %d, %zu samples and %zu exemplars dropped: %.*s",
           w->cfg->url, status, samples, exemplars, (int)shown, shown ? cause.data : "");
}

static void on_accepted(struct remote_write *w, const struct http_response *a)
{
    if (!read_written(w, a) && !w->batch_v2) {
        w->written_samples = w->batch_samples;
        w->written_exemplars = w->batch_exemplars;
    }
    // A receiver that ignores the Content-Type reads an empty message of 1.0.
    bool nothing = w->batch_v2 && !w->written_samples && !w->written_exemplars;
    log_failed(w, a->status,
               nothing ? GS_SLICE("the receiver reports no written sample; it may not support "
                                  "remote write 2.0 (protobuf_message)")
                       : GS_SLICE("the receiver reports that it has not written them"));
    count_batch(w);
}

static void on_write_response(void *arg, const struct http_response *a, struct gs_error *err)
{
    struct remote_write *w = arg;
    w->op = NULL;
    if (err) {
        retry(w, gs_error_message(err), 0);
        gs_error_free(err);
    } else if (a->status / 100 == 2) {
        on_accepted(w, a);
    } else if (a->status / 100 == 5 || (a->status == 429 && w->cfg->retry_429)) {
        GS_AUTO_FREE char *why = gs_format("status %d", a->status);
        (void)read_written(w, a);
        retry(w, why, a->retry_after_s);
    } else {
        (void)read_written(w, a);
        log_failed(w, a->status, a->body);
        count_batch(w);
    }
}

// --- requests ---

static void post_batch(struct remote_write *w)
{
    const struct engine_config_remote_write_config *cfg = w->cfg;
    GS_AUTO_FREE struct http_header *headers = gs_alloc_array(cfg->n_headers + 3, sizeof(*headers));
    GS_AUTO_FREE char **own = gs_alloc_array(2 * cfg->n_headers + 1, sizeof(char *));
    size_t n = 0;
    headers[n++] = (struct http_header){"Content-Encoding", "snappy"};
    headers[n++] =
        (struct http_header){"X-Prometheus-Remote-Write-Version", w->batch_v2 ? "2.0.0" : "0.1.0"};
    for (size_t i = 0; i < cfg->n_headers; i++) {
        own[2 * i] = gs_slice_dup(cfg->headers[i].name);
        own[2 * i + 1] = gs_slice_dup(cfg->headers[i].value);
        headers[n++] = (struct http_header){own[2 * i], own[2 * i + 1]};
    }
    static const char v1[] = "application/x-protobuf";
    static const char v2[] = "application/x-protobuf;proto=io.prometheus.write.v2.Request";
    const struct http_request request = {.method = "POST",
                                         .path = "",
                                         .headers = headers,
                                         .body = gs_buf_slice(&w->body),
                                         .content_type = w->batch_v2 ? v2 : v1,
                                         .timeout_ms = (unsigned)cfg->timeout_ms,
                                         .max_reply = 1 << 20,
                                         .keep_headers = true};
    static const struct http_callbacks callbacks = {.on_done = on_write_response};
    w->op = http_send(w->client, &request, &callbacks, w);
    for (size_t i = 0; i < 2 * cfg->n_headers; i++)
        free(own[i]);
}

void remote_write_send(struct remote_write *w)
{
    static const struct endpoint_options options = {0};
    if (w->new_client) {
        http_client_free(w->client);
        w->client = NULL;
        w->new_client = false;
    }
    GS_AUTO_ERROR struct gs_error *err =
        w->client ? NULL
                  : endpoint_client_new(w->loop, w->cfg->url, &w->cfg->http, &options, &w->client);
    if (err)
        retry(w, gs_error_message(err), 0);
    else
        post_batch(w);
}
