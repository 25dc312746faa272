// SPDX-License-Identifier: Apache-2.0
// http_sd_configs: requests a list of target groups in JSON at each interval. On an error, the last
// list is kept. https://prometheus.io/docs/prometheus/latest/http_sd/
#include "engine/discovery/discovery.h"

#include "base/clock.h"
#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/redact.h"
#include "base/timer.h"
#include "engine/discovery/discovery_private.h"

#include <limits.h>

#define MAX_LIST         ((size_t)32 << 20)
#define DEFAULT_REFRESH  INT64_C(60000) // if the configuration says 0
#define FIRST_REQUEST_MS 1

struct discovery_http {
    uv_loop_t *loop;
    const struct engine_config_http_sd *cfg;
    struct discovery_counter *counter;
    discovery_update_fn fn;
    void *arg;
    struct http_client *client; // NULL: not created yet, or its files cannot be read
    struct http_op *op;         // NULL: no request is in progress
    int64_t begun_ns;
    size_t n_groups;    // of the last valid list
    uint64_t list_hash; // hash of its text; invalid if n_groups is 0
    bool reported;
    char *problem; // the last logged error; NULL: none
    struct gs_timer *timer;
};

// True for application/json, optionally with charset=utf-8.
static bool is_json_type(const char *content_type)
{
    struct gs_slice rest = gs_slice_of(content_type);
    struct gs_slice type = gs_slice_cut(&rest, ';');
    if (!gs_slice_is_word(gs_slice_trim(type), "application/json"))
        return false;
    if (!rest.data)
        return true;
    rest = gs_slice_trim(rest);
    return gs_slice_is_word(rest, "charset=utf-8") || gs_slice_is_word(rest, "charset=\"utf-8\"");
}

struct gs_error *discovery_http_read(const struct http_response *response, const char *url,
                                     size_t n_before, struct discovery_group_list *ret,
                                     size_t *ret_n)
{
    CODEC_AUTO_JSON json_t *list = NULL;
    if (response->status != 200)
        return gs_error_new(GS_EPROTO, "server returned HTTP status %d %s", response->status,
                            http_reason(response->status));
    if (!is_json_type(response->content_type))
        return gs_error_new(GS_EPROTO, "unsupported content type \"%s\"",
                            response->content_type ? response->content_type : "");
    struct gs_error *err = codec_json_parse(response->body, false, &list);
    if (!err)
        err = discovery_groups_check(list);
    if (err)
        return err;
    discovery_groups_add(ret, list, url, "__meta_url", n_before);
    *ret_n = json_array_size(list);
    return NULL;
}

// The URL for log lines: without credentials and query.
static char *shown_url(const char *url)
{
    const char *host = strstr(url, "://") + 3;
    size_t authority = strcspn(host, "/?#");
    const char *at = memrchr(host, '@', authority);
    const char *from = at ? at + 1 : host;
    return gs_format("%.*s%.*s", (int)(host - url), url, (int)strcspn(from, "?#"), from);
}

// Errors of the client begin with the URL, which is replaced by `shown`.
static char *shown_problem(const struct discovery_http *s, const char *shown, const char *text)
{
    GS_AUTO_FREE char *redacted = gs_redact_url(s->cfg->url);
    const char *url = redacted ? redacted : s->cfg->url, *at = strstr(text, url);
    return at ? gs_format("%.*s%s%s", (int)(at - text), text, shown, at + strlen(url))
              : gs_strdup(text);
}

// Logs each error once. Takes ownership of err.
static void report_http_groups(struct discovery_http *s, struct gs_error *err)
{
    GS_AUTO_FREE char *url = shown_url(s->cfg->url);
    GS_AUTO_FREE char *text = err ? shown_problem(s, url, gs_error_message(err)) : NULL;
    if (text && !gs_streq(text, s->problem))
        gs_warn("http_sd", "%s: cannot refresh the target groups, the last ones are kept: %s", url,
                text);
    free(s->problem);
    s->problem = GS_TAKE(text);
    gs_error_free(err);
}

// Takes ownership of err.
static void finish_refresh(struct discovery_http *s, struct discovery_group_list *l,
                           struct gs_error *err)
{
    bool first = !s->reported;
    discovery_stats_refreshed(s->counter, s->begun_ns, err != NULL);
    report_http_groups(s, err);
    s->reported = true;
    if (l->len || first)
        s->fn(s->arg, l->items, l->len);
    discovery_group_list_finish(l);
}

// True if the list has not changed. Its targets are then not relabeled again.
static bool is_unchanged_list(const struct discovery_http *s, const struct http_response *response)
{
    return s->n_groups && response->status == 200 && is_json_type(response->content_type) &&
           gs_hash(response->body.data, response->body.len) == s->list_hash;
}

static void on_target_list(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct discovery_http *s = arg;
    struct discovery_group_list l = {0};
    s->op = NULL;
    if (!err && !is_unchanged_list(s, response)) {
        err = discovery_http_read(response, s->cfg->url, s->n_groups, &l, &s->n_groups);
        if (!err)
            s->list_hash = gs_hash(response->body.data, response->body.len);
    }
    finish_refresh(s, &l, err);
}

static struct gs_error *request_target_list(struct discovery_http *s, int64_t timeout_ms)
{
    static const struct http_callbacks callbacks = {.on_done = on_target_list};
    static const struct endpoint_options options = {0};
    char interval[GS_DOUBLE_SIZE];
    struct gs_error *err =
        s->client ? NULL : endpoint_client_new(s->loop, "", &s->cfg->http, &options, &s->client);
    if (err)
        return err;
    gs_format_double((double)s->cfg->refresh_ms / 1000, interval);
    const struct http_header headers[] = {
        {"Accept", "application/json"}, {"X-Prometheus-Refresh-Interval-Seconds", interval}, {0}};
    const struct http_request request = {
        .path = s->cfg->url, .headers = headers, .timeout_ms = timeout_ms, .max_reply = MAX_LIST};
    s->op = http_send(s->client, &request, &callbacks, s);
    return NULL;
}

static int64_t interval_of(const struct discovery_http *s)
{
    return s->cfg->refresh_ms ? s->cfg->refresh_ms : DEFAULT_REFRESH;
}

static void on_http_refresh(void *arg)
{
    struct discovery_http *s = arg;
    struct discovery_group_list none = {0};
    int64_t interval = interval_of(s);
    if (s->op) // the request ends by its timeout
        return;
    s->begun_ns = gs_mono_ns();
    struct gs_error *err = request_target_list(s, interval);
    if (err)
        finish_refresh(s, &none, err);
}

static void start_http_refresh(struct discovery_http *s)
{
    gs_timer_repeat(s->timer, on_http_refresh, FIRST_REQUEST_MS, (uint64_t)interval_of(s));
}

struct discovery_http *discovery_http_new(uv_loop_t *loop, const struct engine_config_http_sd *cfg,
                                          struct discovery_counter *counter, discovery_update_fn fn,
                                          void *arg)
{
    struct discovery_http *s = gs_alloc(sizeof(*s));
    s->loop = loop;
    s->cfg = cfg;
    s->counter = counter;
    s->fn = fn;
    s->arg = arg;
    s->timer = gs_timer_new(loop, s);
    start_http_refresh(s);
    return s;
}

static void stop_request(struct discovery_http *s)
{
    http_op_cancel(GS_TAKE(s->op));
    http_client_free(GS_TAKE(s->client));
}

void discovery_http_reconfigure(struct discovery_http *s, const struct engine_config_http_sd *cfg)
{
    stop_request(s);
    s->cfg = cfg;
    start_http_refresh(s);
}

void discovery_http_free(struct discovery_http *s)
{
    if (!s)
        return;
    stop_request(s);
    discovery_stats_close(s->counter);
    free(s->problem);
    gs_timer_close(s->timer, free);
}
