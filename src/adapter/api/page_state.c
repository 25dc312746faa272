// SPDX-License-Identifier: Apache-2.0
// The page of the adapter, and the state that it shows. Two parts of the state are looked up when a
// page is open, at most once in KEEP_MS: the registrations of the APIs, and the times of the newest
// samples.
#include "adapter/api/api_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/timer.h"
#include "web/reply.h"
#include "web/web.h"

#include <stdio.h>

enum {
    KEEP_MS = 10000,
    TIMEOUT_MS = 5000,
    MAX_SOURCES = 16, // that are queried for times
    MAX_SERIES = 64,  // names in one query
};

static const struct kube_gvr apiservices = {"apiregistration.k8s.io", "v1", "apiservices"};

const struct adapter_api_service adapter_api_services[ADAPTER_API_N_SERVICES] = {
    {"v1beta1." ADAPTER_API_CUSTOM, ADAPTER_API_CUSTOM},
    {"v1beta2." ADAPTER_API_CUSTOM, ADAPTER_API_CUSTOM},
    {"v1beta1." ADAPTER_API_EXTERNAL, ADAPTER_API_EXTERNAL},
    {"v1beta1." ADAPTER_API_RESOURCE, ADAPTER_API_RESOURCE},
};

struct service_lookup {
    struct adapter_api_status *status;
    size_t at; // in adapter_api_services
    struct kube_request *request;
};

struct time_lookup {
    struct adapter_api_status *status;
    size_t source;
    char *series[MAX_SERIES];
    size_t n;
    struct source_op *op;
};

struct adapter_api_status {
    struct adapter_api *a;
    struct web *web;
    struct gs_timer *timeout;
    int64_t read_ns; // when the last lookups ended; 0: never
    struct service_lookup services[ADAPTER_API_N_SERVICES];
    struct time_lookup times[MAX_SOURCES];
    bool reading;
    struct gs_hmap *newest; // "SOURCE SERIES": int64_t, Unix time in ms
    json_t *found[ADAPTER_API_N_SERVICES];
};

// --- results ---

static void time_key(struct gs_buf *out, size_t source, struct gs_slice series)
{
    gs_buf_addf(out, "%zu ", source);
    gs_buf_add_slice(out, series);
}

int64_t adapter_api_status_newest(const struct adapter_api_status *s, size_t source,
                                  struct gs_slice series)
{
    GS_AUTO_BUF struct gs_buf key = {0};
    time_key(&key, source, series);
    const int64_t *t = s->newest ? gs_hmap_get(s->newest, gs_buf_slice(&key)) : NULL;
    return t ? *t : 0;
}

const json_t *adapter_api_status_service(const struct adapter_api_status *s, size_t i)
{
    return s->found[i];
}

// --- the end of lookups ---

static void answer_waiting(struct adapter_api *a)
{
    struct adapter_api_call *c;
    do {
        TAILQ_FOREACH (c, &a->calls, all)
            if (c->waits_for_status)
                break;
        if (c) {
            web_reply_data(c->x, adapter_api_status_json(a));
            adapter_api_call_end(c);
        }
    } while (c);
}

static void end_reading(struct adapter_api_status *s)
{
    s->reading = false;
    s->read_ns = gs_mono_ns();
    gs_timer_stop(s->timeout);
    answer_waiting(s->a);
}

static void check_reading(struct adapter_api_status *s)
{
    for (size_t i = 0; i < ADAPTER_API_N_SERVICES; i++)
        if (s->services[i].request)
            return;
    for (size_t i = 0; i < MAX_SOURCES; i++)
        if (s->times[i].op)
            return;
    if (s->reading)
        end_reading(s);
}

static void cancel_reading(struct adapter_api_status *s)
{
    for (size_t i = 0; i < ADAPTER_API_N_SERVICES; i++)
        kube_request_cancel(GS_TAKE(s->services[i].request));
    for (size_t i = 0; i < MAX_SOURCES; i++)
        source_cancel(GS_TAKE(s->times[i].op));
}

static void on_status_timeout(void *arg)
{
    struct adapter_api_status *s = arg;
    cancel_reading(s);
    end_reading(s);
}

// --- registrations ---

static json_t *describe_service(int status, const json_t *body)
{
    json_t *out = json_object(), *condition;
    size_t i;
    const char *state = status == 404   ? "absent"
                        : status == 403 ? "forbidden"
                        : status == 200 ? "unavailable"
                                        : "unknown";
    if (status == 200) {
        codec_json_set_str(out, "namespace",
                           codec_json_str(body, "spec", "service", "namespace", NULL));
        codec_json_set_str(out, "service", codec_json_str(body, "spec", "service", "name", NULL));
    }
    json_array_foreach (codec_json_get(body, "status", "conditions", NULL), i, condition) {
        if (status != 200 || !gs_streq(codec_json_str(condition, "type", NULL), "Available"))
            continue;
        if (gs_streq(codec_json_str(condition, "status", NULL), "True"))
            state = "available";
        codec_json_set_str(out, "message", codec_json_str(condition, "message", NULL));
    }
    codec_json_set_str(out, "state", state);
    return out;
}

static void on_service(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct service_lookup *l = arg;
    l->request = NULL;
    json_decref(l->status->found[l->at]);
    l->status->found[l->at] = describe_service(status, body);
    if (err && status != 404 && status != 403)
        codec_json_set_str(l->status->found[l->at], "message", gs_error_message(err));
    gs_error_free(err);
    check_reading(l->status);
}

static void look_up_services(struct adapter_api_status *s)
{
    for (size_t i = 0; i < ADAPTER_API_N_SERVICES; i++) {
        struct service_lookup *l = &s->services[i];
        if (!adapter_api_has_group(s->a, adapter_api_services[i].group))
            continue;
        *l = (struct service_lookup){.status = s, .at = i};
        l->request = kube_get(s->a->o.kube, apiservices, NULL, adapter_api_services[i].name, NULL,
                              on_service, l);
    }
}

// --- times of samples ---

static void on_times(void *arg, struct source_result *r, struct gs_error *err)
{
    struct time_lookup *l = arg;
    struct adapter_api_status *s = l->status;
    l->op = NULL;
    gs_error_free(err); // the state of the source contains it
    for (size_t i = 0; r && i < r->n; i++) {
        GS_AUTO_FREE char *number =
            gs_slice_dup(source_sample_label(&r->samples[i], GS_SLICE("series")));
        size_t at = strtoul(number, NULL, 10);
        GS_AUTO_BUF struct gs_buf key = {0};
        if (at >= l->n || !(r->samples[i].value > 0 && r->samples[i].value < 1e12))
            continue;
        int64_t *t = gs_alloc(sizeof(*t));
        *t = (int64_t)(r->samples[i].value * 1000);
        time_key(&key, l->source, gs_slice_of(l->series[at]));
        gs_hmap_put(s->newest, gs_buf_slice(&key), t);
    }
    check_reading(s);
}

static void add_series(struct adapter_api_status *s, const struct provider_registry_metric *m)
{
    struct time_lookup *l = m->rule->source < MAX_SOURCES ? &s->times[m->rule->source] : NULL;
    for (size_t i = 0; l && i < l->n; i++)
        if (gs_slice_eq_str(m->series, l->series[i]))
            return;
    if (l && l->n < MAX_SERIES && m->series.len)
        l->series[l->n++] = gs_slice_dup(m->series);
}

static void add_registry(struct adapter_api_status *s, const struct provider_registry *r)
{
    const struct provider_registry_metric *m;
    for (int external = 0; external < 2; external++)
        for (size_t i = 0; r && (m = provider_registry_nth(r, external, i)); i++)
            add_series(s, m);
}

static void forget_series(struct time_lookup *l)
{
    while (l->n)
        free(l->series[--l->n]);
}

// One query returns the newest time of each series, with its number as a label.
static void send_times(struct adapter_api_status *s, size_t source)
{
    struct time_lookup *l = &s->times[source];
    const struct adapter_api_generation *g = &s->a->generation;
    GS_AUTO_BUF struct gs_buf query = {0};
    if (!l->n || !g->source || (source && source > g->config->n_sources))
        return;
    l->status = s;
    l->source = source;
    for (size_t i = 0; i < l->n; i++) {
        gs_buf_addf(&query, "%slabel_replace(max(timestamp({__name__=", i ? " or " : "");
        adapter_api_add_json_string(&query, gs_slice_of(l->series[i]));
        gs_buf_addf(&query, "})), \"series\", \"%zu\", \"\", \"\")", i);
    }
    gs_buf_add(&query, "", 1);
    l->op =
        source_query(source_pick(g->source, g->extra_sources, source), query.data, 0, on_times, l);
}

static void look_up_times(struct adapter_api_status *s)
{
    gs_hmap_free(s->newest);
    s->newest = gs_hmap_new(free);
    for (size_t i = 0; i < MAX_SOURCES; i++)
        forget_series(&s->times[i]);
    add_registry(s, s->a->generation.registry);
    add_registry(s, s->a->generation.gpu);
    add_registry(s, s->a->generation.pod_series);
    for (size_t i = 0; i < MAX_SOURCES; i++)
        send_times(s, i);
}

// --- requests ---

static void reply_status(struct adapter_api_call *c)
{
    struct adapter_api_status *s = c->a->status;
    c->waits_for_status = true;
    if (s->reading)
        return;
    if (s->read_ns && gs_mono_ns() - s->read_ns < KEEP_MS * GS_NS_PER_MS) {
        answer_waiting(c->a);
        return;
    }
    s->reading = true;
    gs_timer_start(s->timeout, on_status_timeout, TIMEOUT_MS);
    if (s->a->o.kube && !s->a->o.mounted)
        look_up_services(s);
    if (s->a->generation.config)
        look_up_times(s);
    check_reading(s);
}

static bool wants_page(const struct http_exchange *x)
{
    const char *accept = http_header(x, "Accept");
    return accept && strstr(accept, "text/html");
}

bool adapter_api_page(struct adapter_api_call *c)
{
    const char *path = http_path(c->x);
    if (!c->a->status)
        return false;
    if (gs_streq(path, ADAPTER_API_STATUS_PATH)) {
        reply_status(c);
        return true;
    }
    // API servers list their paths at "/". Browsers get the page.
    if (gs_streq(path, "/")) {
        http_add_header(c->x, "Vary", "Accept");
        if (!wants_page(c->x))
            return false;
    }
    if (!web_handle(c->a->status->web, c->x, gs_slice_of(path)))
        return false;
    adapter_api_call_end(c);
    return true;
}

struct adapter_api_status *adapter_api_status_new(struct adapter_api *a)
{
    const struct web_options web = {.loop = a->o.loop, .only_page = "adapter.html"};
    struct adapter_api_status *s = gs_alloc(sizeof(*s));
    s->a = a;
    s->web = web_new(&web);
    s->timeout = gs_timer_new(a->o.loop, s);
    return s;
}

void adapter_api_status_free(struct adapter_api_status *s)
{
    if (!s)
        return;
    cancel_reading(s);
    for (size_t i = 0; i < MAX_SOURCES; i++)
        forget_series(&s->times[i]);
    for (size_t i = 0; i < ADAPTER_API_N_SERVICES; i++)
        json_decref(s->found[i]);
    gs_hmap_free(s->newest);
    gs_timer_free(s->timeout);
    web_free(s->web);
    free(s);
}
