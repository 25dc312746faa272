// SPDX-License-Identifier: Apache-2.0
// HPA_EXPLAIN_PATH: the explanation of an autoscaler, also for changed settings ("what if").
// Several questions share one inspection of the object for a second. Decisions run on the
// controller's loop, so after each one a pause of four times its duration leaves the loop to the
// controller.
#include "hpa_controller/explain_api.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/slice.h"
#include "base/timer.h"
#include "hpa/zero.h"
#include "hpa_controller/inspect.h"
#include "kube/names.h"
#include "web/reply.h"

#include <string.h>

enum {
    MAX_INSPECTED = 8,
    MAX_QUESTIONS = 32,
    KEEP_MS = 1000, // an inspection is used for this time
    TIMEOUT_MS = 10000,
    SWEEP_MS = 250,
    MAX_EVENTS = 20,
    MAX_LISTED_EVENTS = 500,
    REST = 4, // pause after a decision, as a multiple of its time
};

// An inspected autoscaler. It is removed when it is too old and no question needs it.
struct inspected {
    struct hpa_explain_api *api;
    char *ns, *name;
    int64_t begun_ms; // of the monotonic clock; since its end, when it is done
    struct hpa_inspection *inspection;
    struct hpa_inspection_result found;
    bool inspected, done;
    struct kube_request *events_request;
    json_t *events; // NULL: they could not be read
    struct gs_error *err;
    size_t n_questions;
    struct inspected *next;
};

struct question {
    struct hpa_explain_api *api;
    struct http_exchange *x;
    struct inspected *of;
    struct hpa_setting settings[HPA_MAX_SETTINGS]; // borrowed from the exchange
    size_t n_settings;
    struct question *next;
};

struct hpa_explain_api {
    uv_loop_t *loop;
    struct kube_client *client;
    const struct hpa_controller *controller;
    struct hpa_config cfg;
    struct inspected *inspected;
    struct question *questions; // in the order of their arrival
    size_t n_inspected, n_questions;
    struct gs_timer *work, *sweep;
    int64_t rest_until_ns;
};

static int64_t now_ms(void)
{
    return gs_mono_ns() / GS_NS_PER_MS;
}

// --- questions ---

static void remove_question(struct hpa_explain_api *api, struct question *q)
{
    struct question **at = &api->questions;
    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
    api->n_questions--;
    q->of->n_questions--;
    free(q);
}

static void on_peer_gone(void *arg)
{
    struct question *q = arg;
    remove_question(q->api, q);
}

// The controller of this process has the newest history.
struct own_history {
    json_t *json;
    struct hpa_history *history;
    struct hpa_observation obs;
    struct hpa_extra extra;
    struct startup_coming coming;
    struct hpa_zero_check zero;
};

static void add_own_history(const struct question *q, struct hpa_inspection_result *found,
                            struct own_history *ret)
{
    ret->json = q->api->controller
                    ? hpa_controller_history(q->api->controller, q->of->ns, q->of->name)
                    : NULL;
    GS_AUTO_ERROR struct gs_error *err =
        ret->json ? hpa_history_from_json(ret->json, found->now_ms, &ret->history) : NULL;
    if (!ret->json || err)
        return;
    found->history = ret->history;
    found->latency = json_object_get(ret->json, "slo");
    found->budget = json_object_get(ret->json, "budget");
    ret->obs = *found->obs;
    if (hpa_extra_from_json(found->latency, &ret->extra))
        ret->obs.extra = &ret->extra;
    found->zero = json_object_get(ret->json, "zero");
    if (hpa_zero_check_from_json(found->zero, &ret->zero))
        ret->obs.zero = &ret->zero;
    found->startup = json_object_get(ret->json, "startup");
    if (startup_coming_from_json(json_object_get(found->startup, "coming"), found->now_ms,
                                 &ret->coming))
        ret->obs.coming = &ret->coming;
    found->obs = &ret->obs;
}

static json_t *explanation(const struct question *q, const struct hpa_inspection_result *found,
                           const struct hpa_config *cfg)
{
    json_t *out = hpa_explanation_json(found, cfg);
    GS_AUTO_BUF struct gs_buf text = {0};
    if (q->n_settings) // the status is that of the real settings
        json_object_del(out, "cluster");
    else if (q->of->events)
        json_object_set(out, "events", q->of->events);
    hpa_explanation_text(out, &text);
    gs_buf_add(&text, "", 1);
    codec_json_set_str(out, "text", text.data);
    return out;
}

static void answer(const struct question *q)
{
    struct hpa_inspection_result found = q->of->found;
    struct own_history own = {0};
    struct hpa_spec changed = {0};
    struct hpa_config cfg = q->api->cfg;
    struct gs_error *err = NULL;
    add_own_history(q, &found, &own);
    if (q->n_settings) {
        err = hpa_spec_with(found.spec, q->settings, q->n_settings, &q->api->cfg, &changed, &cfg);
        found.spec = &changed;
    }
    if (err)
        web_reply_failure(q->x, err);
    else
        web_reply_data(q->x, explanation(q, &found, &cfg));
    gs_error_free(err);
    hpa_spec_finish(&changed);
    hpa_history_free(own.history);
    json_decref(own.json);
}

static void schedule(struct hpa_explain_api *api);

// Answers the first question whose object was inspected.
static void work(void *arg)
{
    struct hpa_explain_api *api = arg;
    struct question *q = api->questions;
    while (q && !q->of->done)
        q = q->next;
    if (!q)
        return;
    int64_t begun = gs_mono_ns();
    http_on_abort(q->x, NULL, NULL);
    if (q->of->err)
        web_reply_failure(q->x, q->of->err);
    else
        answer(q);
    remove_question(api, q);
    int64_t end = gs_mono_ns();
    api->rest_until_ns = end + REST * (end - begun);
    schedule(api);
}

static void schedule(struct hpa_explain_api *api)
{
    int64_t rest = api->rest_until_ns - gs_mono_ns();
    if (!gs_timer_is_active(api->work))
        gs_timer_start(api->work, work,
                       rest > 0 ? (uint64_t)(rest + GS_NS_PER_MS - 1) / GS_NS_PER_MS : 0);
}

// --- inspections ---

static void check_complete(struct inspected *in)
{
    if (in->done || !in->inspected || in->events_request)
        return;
    in->done = true;
    in->begun_ms = now_ms();
    schedule(in->api);
}

static void end_inspection(struct inspected *in, struct gs_error *err)
{
    in->inspected = true;
    in->err = err;
    check_complete(in);
}

static void on_inspected(void *arg, const struct hpa_inspection_result *found, struct gs_error *err)
{
    struct inspected *in = arg;
    if (!err)
        in->found = *found; // borrowed from the inspection
    end_inspection(in, err);
}

// Events of the object as [{time, type, reason, message, count}], the newest first. The permission
// to list events is not required.
static json_t *events_json(const json_t *items)
{
    json_t *out = json_array();
    size_t i;
    json_t *e;
    json_array_foreach ((json_t *)items, i, e) {
        const char *last = codec_json_str(e, "lastTimestamp", NULL);
        const char *time = last ? last : codec_json_str(e, "eventTime", NULL);
        json_t *event = json_object();
        size_t at = 0;
        codec_json_set_str(event, "time", time ? time : "");
        codec_json_set_str(event, "type", codec_json_str(e, "type", NULL));
        codec_json_set_str(event, "reason", codec_json_str(e, "reason", NULL));
        codec_json_set_str(event, "message", codec_json_str(e, "message", NULL));
        codec_json_set_int(event, "count", codec_json_int(e, 1, "count", NULL));
        // RFC 3339 in UTC: the order of the texts is that of the times.
        while (at < json_array_size(out) &&
               strcmp(codec_json_str(json_array_get(out, at), "time", NULL), time ? time : "") >= 0)
            at++;
        if (at < MAX_EVENTS)
            json_array_insert(out, at, event);
        if (json_array_size(out) > MAX_EVENTS)
            json_array_remove(out, MAX_EVENTS);
        json_decref(event);
    }
    return out;
}

static void on_events(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct inspected *in = arg;
    in->events_request = NULL;
    if (!err && status == 200)
        in->events = events_json(json_object_get(body, "items"));
    gs_error_free(err);
    check_complete(in);
}

static void list_events(struct inspected *in)
{
    GS_AUTO_BUF struct gs_buf query = {0};
    GS_AUTO_FREE char *fields =
        gs_format("involvedObject.kind=HorizontalPodAutoscaler,involvedObject.name=%s", in->name);
    gs_buf_add_str(&query, "fieldSelector=");
    http_encode(gs_slice_of(fields), &query);
    gs_buf_addf(&query, "&limit=%d", MAX_LISTED_EVENTS);
    in->events_request = kube_list(in->api->client, KUBE_EVENTS, in->ns, query.data, on_events, in);
}

static void free_inspected(struct inspected *in)
{
    kube_request_cancel(in->events_request);
    json_decref(in->events);
    hpa_inspection_free(in->inspection);
    gs_error_free(in->err);
    free(in->ns);
    free(in->name);
    free(in);
}

static bool is_old(const struct inspected *in)
{
    return in->done && now_ms() - in->begun_ms >= KEEP_MS;
}

static void check_timeout(struct inspected *in)
{
    if (in->done || now_ms() - in->begun_ms < TIMEOUT_MS)
        return;
    hpa_inspection_free(in->inspection);
    in->inspection = NULL;
    kube_request_cancel(in->events_request);
    in->events_request = NULL;
    gs_error_free(in->err);
    end_inspection(in, gs_error_new(GS_ETIMEOUT, "%s/%s: no response from the cluster within %d s",
                                    in->ns, in->name, TIMEOUT_MS / 1000));
}

static void sweep(void *arg)
{
    struct hpa_explain_api *api = arg;
    for (struct inspected **at = &api->inspected; *at;) {
        struct inspected *in = *at;
        check_timeout(in);
        if (in->n_questions || !is_old(in)) {
            at = &in->next;
            continue;
        }
        *at = in->next;
        api->n_inspected--;
        free_inspected(in);
    }
    if (!api->inspected)
        gs_timer_stop(api->sweep);
}

// NULL: too many objects are being inspected.
static struct inspected *inspect(struct hpa_explain_api *api, const char *ns, const char *name)
{
    for (struct inspected *in = api->inspected; in; in = in->next)
        if (gs_streq(in->ns, ns) && gs_streq(in->name, name) && !is_old(in))
            return in;
    sweep(api);
    if (api->n_inspected >= MAX_INSPECTED)
        return NULL;
    struct inspected *in = gs_alloc(sizeof(*in));
    in->api = api;
    in->ns = gs_strdup(ns);
    in->name = gs_strdup(name);
    in->begun_ms = now_ms();
    in->next = api->inspected;
    api->inspected = in;
    api->n_inspected++;
    in->inspection =
        hpa_inspect_start(api->loop, api->client, ns, name, api->cfg.release, on_inspected, in);
    if (!api->controller)
        hpa_inspect_fetch_history(in->inspection, api->client);
    list_events(in);
    if (!gs_timer_is_active(api->sweep))
        gs_timer_repeat(api->sweep, sweep, SWEEP_MS, SWEEP_MS);
    return in;
}

// --- requests ---

struct parameters {
    const char *ns, *name;
    struct hpa_setting settings[HPA_MAX_SETTINGS];
    size_t n_settings;
};

static struct gs_error *add_parameter(struct parameters *p, const char *name, const char *value)
{
    const char **text = gs_streq(name, "namespace") ? &p->ns
                        : gs_streq(name, "name")    ? &p->name
                                                    : NULL;
    if (text && *text)
        return gs_error_new(GS_EINVAL, "%s is given twice", name);
    if (text) {
        *text = value;
        return NULL;
    }
    if (!hpa_setting_exists(name))
        return gs_error_new(GS_EINVAL,
                            "unknown parameter \"%s\": want namespace, name, target, "
                            "target.METRIC, min, max or tolerance",
                            name);
    if (p->n_settings == HPA_MAX_SETTINGS)
        return gs_error_new(GS_ELIMIT, "more than %d settings", HPA_MAX_SETTINGS);
    p->settings[p->n_settings++] = (struct hpa_setting){name, value};
    return NULL;
}

static struct gs_error *check_name(const char *parameter, const char *value,
                                   bool (*check)(struct gs_slice s, struct gs_buf *why))
{
    GS_AUTO_BUF struct gs_buf why = {0};
    if (!value || !*value)
        return gs_error_new(GS_EINVAL, "the parameter %s is missing", parameter);
    if (check(gs_slice_of(value), &why))
        return NULL;
    return gs_error_new(GS_EINVAL, "%s: %.*s", parameter, (int)why.len, why.data);
}

static struct gs_error *read_parameters(const struct http_exchange *x, struct parameters *ret)
{
    struct gs_error *err = NULL;
    const char *name, *value;
    for (size_t i = 0; !err && (value = http_query_nth(x, i, &name)); i++)
        err = add_parameter(ret, name, value);
    if (!err)
        err = check_name("namespace", ret->ns, kube_check_dns_label);
    if (!err)
        err = check_name("name", ret->name, kube_check_dns_subdomain);
    return err;
}

static void wait_for(struct hpa_explain_api *api, struct http_exchange *x,
                     const struct parameters *p)
{
    struct inspected *in = api->n_questions < MAX_QUESTIONS ? inspect(api, p->ns, p->name) : NULL;
    if (!in) {
        http_add_header(x, "Retry-After", "1");
        web_reply_error(x, 429, "unavailable",
                        "too many explanations are requested: try again later");
        return;
    }
    struct question *q = gs_alloc(sizeof(*q)), **end = &api->questions;
    q->api = api;
    q->x = x;
    q->of = in;
    memcpy(q->settings, p->settings, sizeof(q->settings));
    q->n_settings = p->n_settings;
    while (*end)
        end = &(*end)->next;
    *end = q;
    api->n_questions++;
    in->n_questions++;
    http_on_abort(x, on_peer_gone, q);
    if (in->done)
        schedule(api);
}

void hpa_explain_api_handle(struct hpa_explain_api *api, struct http_exchange *x)
{
    struct parameters p = {0};
    if (!api->client) {
        web_reply_error(x, 404, "unavailable",
                        "explanations need a cluster: start the engine with --kubeconfig");
        return;
    }
    if (!gs_streq(http_method(x), "GET")) {
        http_add_header(x, "Allow", "GET, HEAD");
        web_reply_error(x, 405, "bad_data", "the method must be GET");
        return;
    }
    GS_AUTO_ERROR struct gs_error *err = read_parameters(x, &p);
    if (err)
        web_reply_error(x, 400, "bad_data", gs_error_message(err));
    else
        wait_for(api, x, &p);
}

// --- life ---

struct hpa_explain_api *hpa_explain_api_new(uv_loop_t *loop, struct kube_client *client,
                                            const struct hpa_controller *controller,
                                            const struct hpa_config *cfg)
{
    struct hpa_explain_api *api = gs_alloc(sizeof(*api));
    api->loop = loop;
    api->client = client;
    api->controller = controller;
    api->cfg = *cfg;
    api->work = gs_timer_new(loop, api);
    api->sweep = gs_timer_new(loop, api);
    return api;
}

void hpa_explain_api_free(struct hpa_explain_api *api)
{
    if (!api)
        return;
    while (api->questions) {
        http_on_abort(api->questions->x, NULL, NULL);
        web_reply_error(api->questions->x, 503, "unavailable", "the server stops");
        remove_question(api, api->questions);
    }
    for (struct inspected *in = api->inspected, *next; in; in = next) {
        next = in->next;
        free_inspected(in);
    }
    gs_timer_free(api->work);
    gs_timer_free(api->sweep);
    free(api);
}
