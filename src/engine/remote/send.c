// SPDX-License-Identifier: Apache-2.0
// Requests of the sender, and what becomes of a batch.
#include "base/backoff.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "engine/remote/send_private.h"

#define MAX_RETRY_S INT64_C(3600)

static void retry(struct remote_write *w, const char *why, int64_t retry_after_s)
{
    remote_log_retry(&w->log, w->cfg->url, why);
    w->backoff_ms = gs_backoff_next(w->backoff_ms, w->cfg->min_backoff_ms, w->cfg->max_backoff_ms);
    int64_t delay = w->backoff_ms;
    if (retry_after_s > 0)
        delay = (retry_after_s < MAX_RETRY_S ? retry_after_s : MAX_RETRY_S) * 1000;
    w->n_samples.retried += w->batch_samples;
    w->n_exemplars.retried += w->batch_exemplars;
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

// Samples and exemplars that were not written are given up.
static void give_up(struct remote_write *w, int status, enum remote_refusal why,
                    struct gs_slice text)
{
    size_t samples = w->batch_samples - w->written_samples;
    w->refused[why] += samples;
    remote_log_refusal(&w->log, w->cfg->url, status, samples,
                       w->batch_exemplars - w->written_exemplars, text);
    count_batch(w);
}

static enum remote_refusal refusal_of(int status)
{
    switch (status) {
    case 400:
        return REMOTE_BAD_REQUEST;
    case 401:
    case 403:
    case 407:
        return REMOTE_UNAUTHORIZED;
    case 404:
    case 405:
    case 410:
        return REMOTE_NOT_FOUND;
    case 406:
    case 415:
        return REMOTE_UNSUPPORTED;
    case 413:
        return REMOTE_TOO_LARGE;
    case 429:
        return REMOTE_TOO_MANY_REQUESTS;
    default:
        return REMOTE_OTHER_STATUS;
    }
}

// --- negotiation ---

// Whether a response to 2.0 without numbers of written samples, which 2.0 requires, may come from a
// receiver of 1.0. Such receivers refuse the Content-Type or the message, or ignore the type and
// read an empty message.
static bool may_be_v1(int status)
{
    enum remote_refusal why = refusal_of(status);
    return status / 100 == 2 || why == REMOTE_BAD_REQUEST || why == REMOTE_NOT_FOUND ||
           why == REMOTE_UNSUPPORTED || status == 422 || status == 501;
}

static void send_as_v1(struct remote_write *w, int status)
{
    w->negotiation = REMOTE_TRIES_V1;
    w->refused_v2 = status;
    remote_write_discard(w);
    remote_write_arm(w, 0);
}

static void on_accepted(struct remote_write *w, const struct http_response *a, bool counts)
{
    if (w->negotiation == REMOTE_TRIES_V1) {
        w->negotiation = REMOTE_AGREED_V1;
        gs_warn("remote_write",
                "%s: the receiver does not support remote write 2.0 (it answered with status %d); "
                "samples are sent with 1.0 until the configuration is reloaded",
                w->cfg->url, w->refused_v2);
    }
    if (!counts) { // 1.0
        w->written_samples = w->batch_samples;
        w->written_exemplars = w->batch_exemplars;
    }
    if (w->written_samples < w->batch_samples || w->written_exemplars < w->batch_exemplars)
        give_up(w, a->status, REMOTE_NOT_WRITTEN,
                GS_SLICE("the receiver reports that it has not written them"));
    else
        count_batch(w);
}

static void on_refused(struct remote_write *w, const struct http_response *a)
{
    // It refuses both versions: the next batch begins with 2.0 again.
    if (w->negotiation == REMOTE_TRIES_V1)
        w->negotiation = REMOTE_AS_CONFIGURED;
    give_up(w, a->status, refusal_of(a->status), a->body);
}

static void on_response(struct remote_write *w, const struct http_response *a)
{
    bool counts = read_written(w, a);
    if (w->batch_v2 && !counts && !w->written_samples && !w->written_exemplars &&
        may_be_v1(a->status)) {
        send_as_v1(w, a->status);
    } else if (a->status / 100 == 2) {
        on_accepted(w, a, counts);
    } else if (a->status / 100 == 5 || (a->status == 429 && w->cfg->retry_429)) {
        GS_AUTO_FREE char *why = gs_format("status %d", a->status);
        retry(w, why, a->retry_after_s);
    } else {
        on_refused(w, a);
    }
}

static void on_write_response(void *arg, const struct http_response *a, struct gs_error *err)
{
    struct remote_write *w = arg;
    w->op = NULL;
    if (!err) {
        on_response(w, a);
        return;
    }
    retry(w, gs_error_message(err), 0);
    gs_error_free(err);
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
                                         .timeout_ms = cfg->timeout_ms,
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
