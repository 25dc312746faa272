// SPDX-License-Identifier: Apache-2.0
// The stream of changed metrics through the API server, one JSON object per line. An API server
// without it answers 404, 403 or 405; it is tried again after some minutes.
#include "hpa_controller/hints.h"

#include "base/backoff.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"

#define API_PATH "/apis/custom.metrics.k8s.io/v1beta1"

enum {
    MAX_LINE = 64 * 1024,
    FIRST_PAUSE_MS = 1000,
    MAX_PAUSE_MS = 300000,
    SILENCE_MS = 90000, // three of the adapter's bookmarks
};

struct hpa_hints {
    struct kube_client *client;
    char *path;
    void (*fn)(void *arg, const struct hpa_hint *hint);
    void *arg;
    struct gs_timer *timer; // of the next attempt, or of a stream without data
    struct http_op *op;     // NULL: no stream
    struct gs_buf line;
    bool followed; // the current stream had data
    int64_t pause_ms;
};

static void open_stream(void *arg);

static void wait_and_open(struct hpa_hints *h)
{
    h->pause_ms = gs_backoff_next(h->pause_ms, FIRST_PAUSE_MS, MAX_PAUSE_MS);
    gs_timer_start(h->timer, open_stream, (uint64_t)h->pause_ms);
}

static void on_silence(void *arg)
{
    struct hpa_hints *h = arg;
    http_op_cancel(GS_TAKE(h->op));
    wait_and_open(h);
}

// --- reading ---

bool hpa_hint_read(json_t *event, struct hpa_hint *ret)
{
    const json_t *o = json_object_get(event, "object");
    const json_t *sum = json_object_get(o, "sum");
    if (!gs_streq(codec_json_str(event, "type", NULL), "MODIFIED") || !json_is_number(sum))
        return false;
    const char *resource = codec_json_str(o, "resource", NULL);
    const char *selector = codec_json_str(o, "selector", NULL);
    *ret = (struct hpa_hint){.ns = codec_json_str(o, "metadata", "namespace", NULL),
                             .metric = codec_json_str(o, "metric", NULL),
                             .external = !resource,
                             .pods = gs_streq(resource, "pods") &&
                                     gs_streq(codec_json_str(o, "name", NULL), "*"),
                             .selector = selector ? selector : "",
                             .sum = json_number_value(sum),
                             .items = codec_json_int(o, 0, "items", NULL)};
    return ret->ns && ret->metric && ret->items >= 0;
}

// Events of other kinds and broken lines are skipped: the period finds what they would have
// reported.
static void take_line(struct hpa_hints *h, struct gs_slice line)
{
    CODEC_AUTO_JSON json_t *event = NULL;
    struct hpa_hint hint;
    GS_AUTO_ERROR struct gs_error *err = codec_json_parse_accepted(line, &event);
    if (!err && hpa_hint_read(event, &hint))
        h->fn(h->arg, &hint);
}

static void on_hint_data(void *arg, struct gs_slice bytes)
{
    struct hpa_hints *h = arg;
    h->followed = true;
    h->pause_ms = 0;
    gs_timer_start(h->timer, on_silence, SILENCE_MS);
    while (bytes.len) {
        const char *end = memchr(bytes.data, '\n', bytes.len);
        size_t n = end ? (size_t)(end - bytes.data) : bytes.len;
        gs_buf_add(&h->line, bytes.data, n);
        if (!end)
            return;
        if (!h->line.overflow)
            take_line(h, gs_buf_slice(&h->line));
        gs_buf_clear(&h->line);
        h->line.overflow = false;
        bytes = gs_slice_make(end + 1, bytes.len - n - 1);
    }
}

static void on_hints_done(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct hpa_hints *h = arg;
    h->op = NULL;
    if (!h->followed)
        gs_debug("hpa", "no stream of changed metrics (%s): values are read in each period",
                 err ? gs_error_message(err) : http_reason(response->status));
    gs_error_free(err);
    wait_and_open(h);
}

static void open_stream(void *arg)
{
    struct hpa_hints *h = arg;
    static const struct http_header headers[] = {{"Accept", "application/json"}, {0}};
    static const struct http_callbacks callbacks = {.on_data = on_hint_data,
                                                    .on_done = on_hints_done};
    const struct http_request request = {
        .path = h->path, .headers = headers, .timeout_ms = HTTP_NO_TIMEOUT};
    gs_buf_clear(&h->line);
    h->line.overflow = false;
    h->followed = false;
    h->op = http_send(kube_client_http(h->client), &request, &callbacks, h);
    gs_timer_start(h->timer, on_silence, SILENCE_MS);
}

struct hpa_hints *hpa_hints_new(uv_loop_t *loop, struct kube_client *client, const char *ns,
                                void (*fn)(void *arg, const struct hpa_hint *hint), void *arg)
{
    struct hpa_hints *h = gs_alloc(sizeof(*h));
    h->client = client;
    h->path = ns ? gs_format(API_PATH "/namespaces/%s/changes?watch=true", ns)
                 : gs_strdup(API_PATH "/changes?watch=true");
    h->fn = fn;
    h->arg = arg;
    h->line.limit = MAX_LINE;
    h->timer = gs_timer_new(loop, h);
    open_stream(h);
    return h;
}

void hpa_hints_free(struct hpa_hints *h)
{
    if (!h)
        return;
    http_op_cancel(h->op);
    gs_timer_free(h->timer);
    gs_buf_finish(&h->line);
    free(h->path);
    free(h);
}
