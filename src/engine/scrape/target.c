// SPDX-License-Identifier: Apache-2.0
// One target and its scrape loop. Scrapes have a fixed offset within the interval, by the target's
// hash, so that they are spread and a restart does not move them.
// States: idle -> requesting (op) -> parsing (a task, only for large bodies) -> idle. A scrape
// that is due while another one is in progress is skipped.
#include "engine/scrape/scrape_private.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/timer.h"
#include "codec/encoding.h"

#include <stdlib.h>

#define MAX_BODY ((size_t)256 << 20) // the limit without body_size_limit; also after decompression
// Scrape times are aligned to this step, so that one wake-up of the process serves several targets.
#define STEP_MS 20
// As in Prometheus, a scrape that is at most this late, and at most a hundredth of the interval,
// gets its scheduled time as timestamp. The distances between samples are then equal to the
// interval.
#define ADJUST_MS 2
#define ONE_GO    ((size_t)1024 * 1024) // smaller bodies are parsed without a pause

struct scrape_target {
    struct gs_arena arena; // owns the strings of spec
    struct scrape_target_spec spec;
    const struct engine_config_scrape_config *cfg;
    struct http_client *client;
    struct scrape_ingest *ingest;
    struct scrape_signals *signals; // NULL: not a pod
    struct scrape_target_hooks hooks;
    struct http_op *op; // NULL: no request is in progress
    struct gs_timer *timer;
    int64_t due_ms;   // time of the next scrape
    char timeout[24]; // value of the timeout header
    bool compress;    // request gzip
    int64_t started_ns, started_ms;
    struct scrape_target_state state;
    char *error, *refused;

    // The response, while a task parses it.
    struct scrape_task task;
    struct gs_buf reply; // owns the body
    struct gs_slice body;
    char *content_type;
    struct gs_error *failed;
};

// A target is idle, or waits for a response (op), or ingests a response in a task.
static bool is_idle(const struct scrape_target *t)
{
    gs_assert(!(t->op && t->task.fiber));
    return !t->op && !t->task.fiber;
}

static void finish_scrape(struct scrape_target *t, struct gs_error *err)
{
    gs_assert(is_idle(t));
    t->state.duration_s = (double)(gs_mono_ns() - t->started_ns) / 1e9;
    t->state.last_ms = t->started_ms;
    t->state.scraped = true;
    t->state.scrapes++;
    t->state.up = !err;
    free(t->error);
    t->error = err ? gs_strdup(gs_error_message(err)) : NULL;
    t->state.error = t->error;
    gs_error_free(err);
    if (t->hooks.scraped)
        t->hooks.scraped(t->hooks.arg);
}

static double seconds_since(const struct scrape_target *t)
{
    return (double)(gs_mono_ns() - t->started_ns) / 1e9;
}

static size_t body_limit(const struct scrape_target *t)
{
    return t->cfg->body_size_limit ? t->cfg->body_size_limit : MAX_BODY;
}

// A text exposition cannot begin with the magic number of gzip.
static bool is_gzip(struct gs_slice body)
{
    return body.len > 2 && (unsigned char)body.data[0] == 0x1f &&
           (unsigned char)body.data[1] == 0x8b;
}

static void store_failed(struct scrape_target *t, double seconds)
{
    scrape_ingest_failed(t->ingest, t->started_ms, seconds);
    if (t->signals)
        scrape_signals_failed(t->signals, t->started_ms);
}

static struct gs_error *store_text(struct scrape_target *t, struct gs_slice body,
                                   const char *content_type, double seconds)
{
    if (t->signals)
        signals_page_begin(scrape_signals_page(t->signals), t->started_ms);
    struct gs_error *err =
        scrape_ingest_text(t->ingest, body, content_type, t->started_ms, seconds);
    if (t->signals && err) {
        scrape_signals_failed(t->signals, t->started_ms);
    } else if (t->signals) {
        signals_page_end(scrape_signals_page(t->signals));
        scrape_signals_store(t->signals, t->started_ms);
    }
    return err;
}

static bool go_on(void *arg)
{
    struct scrape_target *t = arg;
    return scrape_task_yield(&t->task);
}

// Reports the same error as for an uncompressed body that is too large.
static struct gs_error *inflate_body(struct scrape_target *t, struct gs_slice body,
                                     struct gs_buf *ret)
{
    struct gs_error *err = codec_gunzip(body, body_limit(t), go_on, t, ret);
    if (!err || gs_error_code(err) != GS_ELIMIT)
        return err;
    gs_error_free(err);
    return gs_error_new(GS_ELIMIT, "body size limit exceeded");
}

static void read_large(void *arg)
{
    struct scrape_target *t = arg;
    GS_AUTO_BUF struct gs_buf plain = {0};
    double seconds = seconds_since(t);
    bool packed = is_gzip(t->body);
    t->failed = packed ? inflate_body(t, t->body, &plain) : NULL;
    if (packed && !t->task.canceled) {
        gs_buf_finish(&t->reply);
        t->body = gs_buf_slice(&plain);
    }
    if (t->task.canceled)
        return;
    if (t->failed) {
        store_failed(t, seconds);
        return;
    }
    scrape_ingest_on_pause(t->ingest, go_on, t);
    t->failed = store_text(t, t->body, t->content_type, seconds);
    scrape_ingest_on_pause(t->ingest, NULL, NULL);
}

static struct gs_error *end_task(struct scrape_target *t)
{
    gs_buf_finish(&t->reply);
    free(GS_TAKE(t->content_type));
    return GS_TAKE(t->failed);
}

static void on_large_read(void *arg)
{
    struct scrape_target *t = arg;
    finish_scrape(t, end_task(t));
}

static void cancel_task(struct scrape_target *t)
{
    if (!t->task.fiber)
        return;
    scrape_task_cancel(&t->task);
    gs_error_free(end_task(t));
}

// A compressed body may be large even if the response is small.
static bool needs_task(const struct scrape_target *t, const struct http_response *response)
{
    return t->hooks.scheduler && (response->body.len > ONE_GO || is_gzip(response->body));
}

static void read_in_task(struct scrape_target *t, const struct http_response *response)
{
    gs_assert(is_idle(t) && !t->content_type && !t->failed);
    t->body = response->body;
    if (response->buffer) {
        t->reply = *response->buffer;
        *response->buffer = (struct gs_buf){0};
    } else {
        gs_buf_add_slice(&t->reply, response->body);
        t->body = gs_buf_slice(&t->reply);
    }
    t->content_type = gs_strdup(response->content_type);
    t->task.run = read_large;
    t->task.done = on_large_read;
    t->task.arg = t;
    scrape_scheduler_start(t->hooks.scheduler, &t->task);
}

static struct gs_error *take_body(struct scrape_target *t, const struct http_response *response)
{
    GS_AUTO_BUF struct gs_buf plain = {0};
    struct gs_slice body = response->body;
    double seconds = seconds_since(t);
    struct gs_error *err = is_gzip(body) ? inflate_body(t, body, &plain) : NULL;
    if (err) {
        store_failed(t, seconds);
        return err;
    }
    if (plain.data)
        body = gs_buf_slice(&plain);
    return store_text(t, body, response->content_type, seconds);
}

static void on_scrape_response(void *arg, const struct http_response *response,
                               struct gs_error *err)
{
    struct scrape_target *t = arg;
    gs_assert(!t->task.fiber);
    t->op = NULL;
    if (!err && response->status != 200)
        err = gs_error_new(GS_EPROTO, "server returned HTTP status %d %s", response->status,
                           http_reason(response->status));
    if (err && gs_error_code(err) == GS_ELIMIT) {
        gs_error_free(err);
        err = gs_error_new(GS_ELIMIT, "body size limit exceeded");
    }
    if (!err && needs_task(t, response)) {
        read_in_task(t, response);
        return;
    }
    if (err)
        store_failed(t, seconds_since(t));
    else
        err = take_body(t, response);
    finish_scrape(t, err);
}

// Decompression costs more than parsing, so gzip is not requested from this host.
static bool is_local(const char *url)
{
    const char *host = strstr(url, "://") + 3;
    return gs_starts(host, "127.") || gs_starts(host, "localhost") || gs_starts(host, "[::1]");
}

static void send_scrape_request(struct scrape_target *t)
{
    static const struct http_callbacks callbacks = {.on_done = on_scrape_response};
    const struct http_header headers[] = {{"Accept", t->cfg->accept},
                                          {"X-Prometheus-Scrape-Timeout-Seconds", t->timeout},
                                          {t->compress ? "Accept-Encoding" : NULL, "gzip"},
                                          {0}};
    const struct http_request request = {.path = t->spec.url,
                                         .headers = headers,
                                         .timeout_ms = t->spec.timeout_ms,
                                         .max_reply = body_limit(t)};
    t->op = http_send(t->client, &request, &callbacks, t);
}

// The scrapes of all targets are spread over the interval. Each target has a fixed offset.
static int64_t place_after(const struct scrape_target_spec *s, int64_t t_ms)
{
    int64_t interval = s->interval_ms, offset = (int64_t)(s->key % (uint64_t)interval);
    int64_t step = interval / 100 < STEP_MS ? interval / 100 : STEP_MS;
    if (step)
        offset -= offset % step;
    return t_ms + 1 + (offset - (t_ms + 1) % interval + interval) % interval;
}

static void on_scrape_timer(void *arg);

// A timer may be slightly early. If the clock was set back, the target does not wait until the
// previously planned time.
static void wait_for_next(struct scrape_target *t, int64_t now)
{
    bool early = now < t->due_ms && t->due_ms - now <= t->spec.interval_ms / 2;
    t->due_ms = place_after(&t->spec, early ? t->due_ms : now);
    gs_timer_start(t->timer, on_scrape_timer, (uint64_t)(t->due_ms - now));
}

static void on_scrape_timer(void *arg)
{
    struct scrape_target *t = arg;
    int64_t now = gs_unix_ms(), due = t->due_ms;
    wait_for_next(t, now);
    if (!is_idle(t)) // the last scrape is still in progress
        return;
    if (llabs(now - due) <= ADJUST_MS && llabs(now - due) <= t->spec.interval_ms / 100)
        now = due;
    // If the clock was set back, scraping continues: samples get a time after the newest sample,
    // until samples in the future have been dropped.
    t->started_ms = scrape_ingest_time(t->ingest, now);
    t->started_ns = gs_mono_ns();
    const char *wrong = t->spec.error ? t->spec.error : t->refused;
    if (!wrong) {
        send_scrape_request(t);
        return;
    }
    store_failed(t, 0);
    finish_scrape(t, gs_error_new(GS_EINVAL, "%s", wrong));
}

static void copy_spec(struct scrape_target *t, const struct scrape_target_spec *s)
{
    t->spec = *s;
    t->spec.discovered = engine_config_labels_copy(&t->arena, s->discovered, s->n_discovered);
    t->spec.labels = engine_config_labels_copy(&t->arena, s->labels, s->n_labels);
    t->spec.url = gs_arena_strdup(&t->arena, s->url);
    if (s->unix_socket)
        t->spec.unix_socket = gs_arena_strdup(&t->arena, s->unix_socket);
    if (s->error)
        t->spec.error = gs_arena_strdup(&t->arena, s->error);
    (void)snprintf(t->timeout, sizeof(t->timeout), "%g", (double)s->timeout_ms / 1000);
}

static void configure(struct scrape_target *t, const struct engine_config_scrape_config *cfg,
                      struct http_client *client)
{
    t->cfg = cfg;
    t->client = client;
    t->compress = cfg->enable_compression && !is_local(t->spec.url);
}

struct scrape_target *scrape_target_new(uv_loop_t *loop, struct tsdb *db,
                                        const struct engine_config_scrape_config *cfg,
                                        struct http_client *client,
                                        const struct scrape_target_spec *spec,
                                        const struct scrape_target_hooks *hooks)
{
    struct scrape_target *t = gs_alloc(sizeof(*t));
    copy_spec(t, spec);
    configure(t, cfg, client);
    t->hooks = *hooks;
    t->ingest = scrape_ingest_new(db, cfg, t->spec.labels, t->spec.n_labels);
    t->signals = scrape_signals_new(hooks->signals, &t->spec);
    scrape_ingest_read_signals(t->ingest, scrape_signals_page(t->signals));
    t->timer = gs_timer_new(loop, t);
    wait_for_next(t, gs_unix_ms());
    return t;
}

void scrape_target_reconfigure(struct scrape_target *t,
                               const struct engine_config_scrape_config *cfg,
                               struct http_client *client)
{
    if (t->client != client && t->op) { // the request uses the old client, which is freed
        http_op_cancel(GS_TAKE(t->op));
    }
    cancel_task(t);
    configure(t, cfg, client);
    scrape_ingest_reconfigure(t->ingest, cfg);
}

void scrape_target_refuse(struct scrape_target *t, const char *why)
{
    free(t->refused);
    t->refused = gs_strdup(why);
}

static void free_target(void *arg)
{
    struct scrape_target *t = arg;
    gs_arena_finish(&t->arena);
    free(t);
}

void scrape_target_free(struct scrape_target *t, bool end)
{
    if (!t)
        return;
    http_op_cancel(t->op);
    cancel_task(t);
    if (end)
        scrape_ingest_end(t->ingest, gs_unix_ms());
    if (end && t->signals)
        scrape_signals_end(t->signals, gs_unix_ms());
    scrape_ingest_free(t->ingest);
    scrape_signals_free(t->signals);
    free(t->error);
    free(t->refused);
    gs_timer_close(t->timer, free_target);
}

const struct scrape_target_spec *scrape_target_spec(const struct scrape_target *t)
{
    return &t->spec;
}

void scrape_target_state(const struct scrape_target *t, struct scrape_target_state *ret)
{
    *ret = t->state;
}

const struct scrape_ingest *scrape_target_ingest(const struct scrape_target *t)
{
    return t->ingest;
}

struct scrape_signals *scrape_target_signals(const struct scrape_target *t)
{
    return t->signals;
}
