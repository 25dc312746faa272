// SPDX-License-Identifier: Apache-2.0
#include "engine/scrape.h"

#include "base/clock.h"
#include "base/mem.h"
#include "engine/scrape_ingest.h"
#include "net/http_client.h"

#define MAX_BODY    ((size_t)64 * 1024 * 1024)
#define GC_EVERY_MS 60000

struct target {
    struct engine_scraper *owner;
    size_t id;
    char *path;
    int64_t interval_ms, timeout_ms;
    struct ingest *ingest;
    struct http_client *client;
    struct http_op *op; // NULL: nothing under way
    uv_timer_t timer;
    int64_t started_ns;
    struct engine_target_state state;
    char *error;
    struct target *next;
};

struct engine_scraper {
    uv_loop_t *loop;
    struct ring *db;
    struct target *targets;
    size_t last_id;
    uv_timer_t *gc_timer;
    void (*on_scrape)(void *arg, size_t id);
    void *on_scrape_arg;
};

static void on_gc(uv_timer_t *timer)
{
    struct engine_scraper *s = timer->data;
    ring_gc(s->db, gs_unix_ms());
}

static void free_handle(uv_handle_t *h)
{
    free(h);
}

struct engine_scraper *engine_scraper_new(uv_loop_t *loop, struct ring *db)
{
    struct engine_scraper *s = gs_alloc(sizeof(*s));
    s->loop = loop;
    s->db = db;
    s->gc_timer = gs_alloc(sizeof(*s->gc_timer));
    uv_timer_init(loop, s->gc_timer);
    s->gc_timer->data = s;
    uv_timer_start(s->gc_timer, on_gc, GC_EVERY_MS, GC_EVERY_MS);
    return s;
}

static void set_error(struct target *t, const char *text)
{
    free(t->error);
    t->error = gs_strdup(text);
    t->state.error = t->error;
    t->state.up = text == NULL;
}

static void finish_scrape(struct target *t, int64_t start_ms, struct gs_error *err, size_t samples)
{
    double seconds = (double)(gs_mono_ns() - t->started_ns) / 1e9;
    set_error(t, err ? gs_error_message(err) : NULL);
    t->state.duration_s = seconds;
    t->state.samples = samples;
    t->state.last_scrape_ms = start_ms;
    ingest_own(t->ingest, "up", start_ms, err ? 0 : 1);
    ingest_own(t->ingest, "scrape_duration_seconds", start_ms, seconds);
    ingest_own(t->ingest, "scrape_samples_scraped", start_ms, (double)samples);
    gs_error_free(err);
    if (t->owner->on_scrape)
        t->owner->on_scrape(t->owner->on_scrape_arg, t->id);
}

static void on_done(void *arg, const struct http_answer *answer, struct gs_error *err)
{
    struct target *t = arg;
    t->op = NULL;
    int64_t now = gs_unix_ms();
    size_t samples = 0;
    if (!err && answer->status != 200)
        err = gs_error_new(GS_EPROTO, "server returned HTTP status %d", answer->status);
    if (err)
        ingest_end_all(t->ingest, now);
    else
        err = ingest_text(t->ingest, answer->body, now, &samples);
    finish_scrape(t, now, err, samples);
}

static void on_timer(uv_timer_t *timer)
{
    struct target *t = timer->data;
    if (t->op) // still busy with the last one: its timeout will end it
        return;
    static const struct http_header headers[] = {
        {"Accept", "text/plain;version=0.0.4;q=1,*/*;q=0.1"}, {NULL, NULL}};
    static const struct http_callbacks callbacks = {.on_done = on_done};
    struct http_call call = {.path = t->path,
                             .headers = headers,
                             .timeout_ms = (unsigned)t->timeout_ms,
                             .max_reply = MAX_BODY};
    t->started_ns = gs_mono_ns();
    t->op = http_send(t->client, &call, &callbacks, t);
}

// "http://host:port/path" in two: what the client connects to, and the path.
static struct gs_error *split_url(const char *url, char **ret_base, char **ret_path)
{
    const char *host = gs_starts(url, "http://")    ? url + strlen("http://")
                       : gs_starts(url, "https://") ? url + strlen("https://")
                                                    : NULL;
    if (!host || !*host || *host == '/')
        return gs_error_new(GS_EINVAL, "\"%s\" is not an http:// or https:// URL", url);
    size_t to_path = (size_t)(host - url) + strcspn(host, "/");
    *ret_base = gs_strndup(url, to_path);
    *ret_path = gs_strdup(url[to_path] ? url + to_path : "/metrics");
    return NULL;
}

static void free_target(uv_handle_t *h)
{
    free(h->data);
}

static void close_target(struct target *t)
{
    http_op_cancel(t->op);
    http_client_free(t->client);
    ingest_free(t->ingest);
    free(t->path);
    free(t->error);
    uv_close((uv_handle_t *)&t->timer, free_target);
}

struct gs_error *engine_scraper_add(struct engine_scraper *s, const struct engine_target *cfg,
                                    size_t *ret_id)
{
    GS_AUTO_FREE char *base = NULL;
    GS_AUTO_FREE char *path = NULL;
    struct http_client *client = NULL;
    struct gs_error *err = split_url(cfg->url, &base, &path);
    if (!err) {
        struct http_client_config http = {.base_url = base,
                                          .unix_socket = cfg->unix_socket,
                                          .user_agent = "gpuscale/" GPUSCALE_VERSION};
        err = http_client_new_curl(s->loop, &http, &client);
    }
    if (err)
        return gs_error_wrap(err, "scrape target %s", cfg->url);
    struct target *t = gs_alloc(sizeof(*t));
    t->owner = s;
    t->id = ++s->last_id;
    t->path = GS_TAKE(path);
    t->client = client;
    t->interval_ms = cfg->interval_ms > 0 ? cfg->interval_ms : 1000;
    t->timeout_ms = cfg->timeout_ms > 0 ? cfg->timeout_ms : t->interval_ms;
    t->ingest = ingest_new(s->db, cfg->labels, cfg->n_labels, cfg->honor_labels);
    t->next = s->targets;
    s->targets = t;
    uv_timer_init(s->loop, &t->timer);
    t->timer.data = t;
    uv_timer_start(&t->timer, on_timer, 0, (uint64_t)t->interval_ms);
    *ret_id = t->id;
    return NULL;
}

void engine_scraper_remove(struct engine_scraper *s, size_t id)
{
    for (struct target **link = &s->targets; *link; link = &(*link)->next) {
        struct target *t = *link;
        if (t->id != id)
            continue;
        *link = t->next;
        ingest_end_all(t->ingest, gs_unix_ms());
        close_target(t);
        return;
    }
}

bool engine_scraper_state(const struct engine_scraper *s, size_t id,
                          struct engine_target_state *ret)
{
    for (const struct target *t = s->targets; t; t = t->next) {
        if (t->id == id) {
            *ret = t->state;
            return true;
        }
    }
    return false;
}

void engine_scraper_on_scrape(struct engine_scraper *s, void (*fn)(void *arg, size_t id), void *arg)
{
    s->on_scrape = fn;
    s->on_scrape_arg = arg;
}

void engine_scraper_free(struct engine_scraper *s)
{
    if (!s)
        return;
    while (s->targets) {
        struct target *t = s->targets;
        s->targets = t->next;
        close_target(t);
    }
    uv_close((uv_handle_t *)s->gc_timer, free_handle);
    free(s);
}
