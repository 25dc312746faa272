// SPDX-License-Identifier: Apache-2.0
// Sends alerts to Alertmanagers (API v2). One batch is in progress at a time, to all Alertmanagers
// at once; an alert counts as dropped only if no Alertmanager of a set took it. The queue is
// bounded and loses the oldest alerts first.
#include "engine/rules/rules_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/config/config.h"
#include "metrics/write.h"
#include "template/template.h"

#include <time.h>

enum { QUEUE_CAPACITY = 10000, BATCH_MAX = 64, DEFAULT_TIMEOUT_MS = 10000 };

struct rules_notifier {
    char *external_url;
    const struct engine_config *cfg; // NULL: not configured yet
    struct discovery_context discovery;
    struct rules_alertmanager_set **sets;
    size_t n_sets;
    json_t *queue[QUEUE_CAPACITY]; // ring buffer
    size_t head, len;
    json_t *batch;     // alerts that are being sent, an array
    size_t n_requests; // requests of the batch without a response
    uint64_t dropped;
};

struct rules_notifier *rules_notifier_new(uv_loop_t *loop, const char *external_url)
{
    struct rules_notifier *n = gs_alloc(sizeof(*n));
    n->external_url = gs_strdup(external_url ? external_url : "");
    n->discovery.loop = loop;
    n->discovery.informers = discovery_informers_new(loop, NULL);
    return n;
}

void rules_notifier_set_discovery(struct rules_notifier *n, struct kube_client *kube,
                                  struct discovery_stats *stats)
{
    discovery_informers_free(n->discovery.informers);
    n->discovery.informers = discovery_informers_new(n->discovery.loop, kube);
    n->discovery.stats = stats;
}

static void free_sets(struct rules_notifier *n)
{
    for (size_t i = 0; i < n->n_sets; i++)
        rules_alertmanager_set_free(n->sets[i]);
    free(n->sets);
    n->sets = NULL;
    n->n_sets = 0;
}

void rules_notifier_free(struct rules_notifier *n)
{
    if (!n)
        return;
    free_sets(n);
    discovery_informers_free(n->discovery.informers);
    for (size_t i = 0; i < n->len; i++)
        json_decref(n->queue[(n->head + i) % QUEUE_CAPACITY]);
    json_decref(n->batch);
    free(n->external_url);
    free(n);
}

// --- queue ---

static void set_json_time(json_t *obj, const char *key, int64_t unix_ms)
{
    char text[48];
    time_t t = (time_t)(unix_ms / 1000);
    struct tm tm;
    size_t len = gmtime_r(&t, &tm) ? strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm) : 0;
    (void)snprintf(text + len, sizeof(text) - len, ".%03dZ", (int)(unix_ms % 1000));
    codec_json_set_str(obj, key, text);
}

static void set_json_text(json_t *obj, struct gs_slice name, struct gs_slice value)
{
    json_t *text = json_stringn(value.data ? value.data : "", value.len);
    if (text)
        json_object_setn_new(obj, name.data, name.len, text);
}

static void add_external(const struct engine_config *cfg, struct engine_config_label_builder *b)
{
    for (size_t i = 0; cfg && i < cfg->n_external_labels; i++)
        if (!engine_config_labels_get(b, cfg->external_labels[i].name).len)
            engine_config_labels_set(b, cfg->external_labels[i].name,
                                     cfg->external_labels[i].value);
}

static json_t *alert_labels_json(const struct engine_config_label_builder *b)
{
    json_t *obj = json_object();
    for (size_t i = 0; i < b->len; i++)
        set_json_text(obj, b->items[i].name, b->items[i].value);
    return obj;
}

static char *generator_url(const struct rules_notifier *n, const struct rules_rule *rule)
{
    GS_AUTO_BUF struct gs_buf expr = {0}, url = {0};
    if (rule->expr)
        promql_print(promql_expr_root(rule->expr), &expr);
    gs_buf_add_str(&url, n->external_url);
    template_table_link(gs_buf_slice(&expr), &url);
    return gs_buf_take(&url);
}

// NULL: relabeling dropped the alert.
static json_t *alert_json(const struct rules_notifier *n, const struct rules_alert *a,
                          int64_t valid_until_ms)
{
    struct engine_config_label_builder b = {0};
    for (size_t i = 0; i < a->n_labels; i++)
        engine_config_labels_set(&b, a->labels[i].name, a->labels[i].value);
    add_external(n->cfg, &b);
    json_t *obj = NULL;
    if (!n->cfg || engine_config_relabel(&n->cfg->alert_relabel, &b)) {
        obj = json_object();
        json_object_set_new(obj, "labels", alert_labels_json(&b));
        json_t *notes = json_object();
        for (size_t i = 0; i < a->n_annotations; i++)
            set_json_text(notes, a->annotations[i].name, a->annotations[i].value);
        json_object_set_new(obj, "annotations", notes);
        set_json_time(obj, "startsAt", a->fired_at_ms);
        set_json_time(obj, "endsAt", a->resolved_at_ms ? a->resolved_at_ms : valid_until_ms);
        GS_AUTO_FREE char *url = generator_url(n, a->rule);
        codec_json_set_str(obj, "generatorURL", url);
    }
    engine_config_labels_finish(&b);
    return obj;
}

void rules_notifier_add(struct rules_notifier *n, const struct rules_alert *a,
                        int64_t valid_until_ms)
{
    json_t *obj = alert_json(n, a, valid_until_ms);
    if (!obj)
        return;
    if (n->len == QUEUE_CAPACITY) { // drop the oldest alert: newer ones are more useful
        json_decref(n->queue[n->head]);
        n->head = (n->head + 1) % QUEUE_CAPACITY;
        n->len--;
        n->dropped++;
    }
    n->queue[(n->head + n->len++) % QUEUE_CAPACITY] = obj;
}

// --- sending ---

// The batch after alert_relabel_configs of the set. New reference. NULL: empty.
static json_t *batch_for(const struct rules_alertmanager_set *s, json_t *batch)
{
    if (!s->cfg->alert_relabel.n)
        return json_incref(batch);
    json_t *out = json_array();
    size_t i;
    json_t *alert, *value;
    const char *name;
    json_array_foreach (batch, i, alert) {
        struct engine_config_label_builder b = {0};
        json_object_foreach (json_object_get(alert, "labels"), name, value)
            engine_config_labels_set(&b, gs_slice_of(name), gs_slice_of(json_string_value(value)));
        if (engine_config_relabel(&s->cfg->alert_relabel, &b)) {
            json_t *copy = json_copy(alert);
            json_object_set_new(copy, "labels", alert_labels_json(&b));
            json_array_append_new(out, copy);
        }
        engine_config_labels_finish(&b);
    }
    if (json_array_size(out))
        return out;
    json_decref(out);
    return NULL;
}

static void post_alerts(struct rules_alertmanager *t);

static void batch_done(struct rules_notifier *n)
{
    for (size_t i = 0; i < n->n_sets; i++)
        if (n->sets[i]->attempted && !n->sets[i]->delivered) {
            n->dropped += json_array_size(n->batch);
            break;
        }
    json_decref(n->batch);
    n->batch = NULL;
    rules_notifier_flush(n);
}

static void count_batch(struct rules_alertmanager *t)
{
    struct rules_notifier *n = t->notifier;
    gs_buf_clear(&t->body);
    if (--n->n_requests == 0)
        batch_done(n);
}

static void on_alertmanager_response(void *arg, const struct http_response *response,
                                     struct gs_error *err)
{
    struct rules_alertmanager *t = arg;
    GS_AUTO_ERROR struct gs_error *own = err;
    bool ok = !err && response->status / 100 == 2;
    bool worth_retry = err || response->status >= 500;
    t->op = NULL;
    t->answers++;
    t->seconds += (double)(gs_mono_ns() - t->begun_ns) / 1e9;
    if (!ok && worth_retry && !t->retried) {
        t->retried = true;
        post_alerts(t);
        return;
    }
    t->sent += t->n_alerts;
    if (ok) {
        t->set->delivered = true;
    } else {
        t->errors += t->n_alerts;
        if (err)
            gs_err("notify", "Alertmanager %s: %zu alerts not sent: %s", t->url, t->n_alerts,
                   gs_error_message(err));
        else
            gs_err("notify", "Alertmanager %s: %zu alerts not sent: bad response status %d", t->url,
                   t->n_alerts, response->status);
    }
    count_batch(t);
}

static void post_alerts(struct rules_alertmanager *t)
{
    static const struct http_callbacks callbacks = {.on_done = on_alertmanager_response};
    const struct engine_config_alertmanager_config *cfg = t->set->cfg;
    struct http_request request = {.method = "POST",
                                   .path = t->path,
                                   .body = gs_buf_slice(&t->body),
                                   .content_type = "application/json",
                                   .timeout_ms =
                                       cfg->timeout_ms > 0 ? cfg->timeout_ms : DEFAULT_TIMEOUT_MS,
                                   .max_reply = 1 << 20};
    t->begun_ns = gs_mono_ns();
    t->op = http_send(t->client, &request, &callbacks, t);
}

static void send_to_set(struct rules_notifier *n, struct rules_alertmanager_set *s)
{
    s->attempted = s->delivered = false;
    if (!s->n)
        return;
    CODEC_AUTO_JSON json_t *batch = batch_for(s, n->batch);
    if (!batch)
        return;
    s->attempted = true;
    for (size_t i = 0; i < s->n; i++) {
        struct rules_alertmanager *t = s->targets[i];
        gs_buf_clear(&t->body);
        codec_json_dump(batch, &t->body);
        t->n_alerts = json_array_size(batch);
        t->retried = false;
        post_alerts(t);
        n->n_requests++;
    }
}

// No Alertmanager is discovered yet, but discovery is still running.
static bool discovery_pending(const struct rules_notifier *n)
{
    bool pending = false;
    for (size_t i = 0; i < n->n_sets; i++) {
        if (n->sets[i]->n)
            return false;
        pending = pending || rules_alertmanager_set_pending(n->sets[i]);
    }
    return pending;
}

void rules_notifier_flush(struct rules_notifier *n)
{
    while (!n->batch && n->len && !discovery_pending(n)) {
        n->batch = json_array();
        while (n->len && json_array_size(n->batch) < BATCH_MAX) {
            json_array_append_new(n->batch, n->queue[n->head]);
            n->head = (n->head + 1) % QUEUE_CAPACITY;
            n->len--;
        }
        n->n_requests = 0;
        for (size_t i = 0; i < n->n_sets; i++)
            send_to_set(n, n->sets[i]);
        if (n->n_requests)
            return;
        for (size_t i = 0; i < n->n_sets; i++)
            if (n->sets[i]->attempted) {
                n->dropped += json_array_size(n->batch);
                break;
            }
        json_decref(n->batch); // there is no Alertmanager
        n->batch = NULL;
    }
}

void rules_notifier_apply(struct rules_notifier *n, const struct engine_config *cfg)
{
    // The current batch is sent to the new Alertmanagers again: they deduplicate alerts.
    if (n->batch) {
        size_t i;
        json_t *alert;
        json_array_foreach (n->batch, i, alert)
            if (n->len < QUEUE_CAPACITY)
                n->queue[(n->head + n->len++) % QUEUE_CAPACITY] = json_incref(alert);
        json_decref(n->batch);
        n->batch = NULL;
    }
    free_sets(n);
    n->cfg = cfg;
    n->sets = gs_alloc_array(cfg->n_alertmanagers + 1, sizeof(struct rules_alertmanager_set *));
    for (size_t i = 0; i < cfg->n_alertmanagers; i++) {
        GS_AUTO_FREE char *name = gs_format("config-%zu", i);
        n->discovery.config = name;
        n->sets[n->n_sets++] = rules_alertmanager_set_new(n, &n->discovery, &cfg->alertmanagers[i]);
        n->discovery.config = NULL;
    }
    rules_notifier_flush(n);
}

// --- views ---

static void add_url(json_t *list, const char *url)
{
    json_array_append_new(list, json_pack("{s:s}", "url", url));
}

json_t *rules_notifier_json(const struct rules_notifier *n)
{
    json_t *active = json_array(), *dropped = json_array();
    for (size_t i = 0; i < n->n_sets; i++) {
        for (size_t t = 0; t < n->sets[i]->n; t++)
            add_url(active, n->sets[i]->targets[t]->url);
        for (size_t d = 0; d < n->sets[i]->n_dropped; d++)
            add_url(dropped, n->sets[i]->dropped[d]);
    }
    return json_pack("{s:o,s:o}", "activeAlertmanagers", active, "droppedAlertmanagers", dropped);
}

static void per_target(const struct rules_notifier *n, struct gs_buf *out, const char *name,
                       double (*value)(const struct rules_alertmanager *t))
{
    for (size_t i = 0; i < n->n_sets; i++)
        for (size_t t = 0; t < n->sets[i]->n; t++) {
            const struct rules_alertmanager *am = n->sets[i]->targets[t];
            struct metrics_label l = {GS_SLICE("alertmanager"), gs_slice_of(am->url)};
            metrics_write_sample(out, name, &l, 1, value(am));
        }
}

static double value_sent(const struct rules_alertmanager *t)
{
    return (double)t->sent;
}
static double value_errors(const struct rules_alertmanager *t)
{
    return (double)t->errors;
}
static double value_seconds(const struct rules_alertmanager *t)
{
    return t->seconds;
}
static double value_answers(const struct rules_alertmanager *t)
{
    return (double)t->answers;
}

static void write_metric(struct gs_buf *out, const char *name, enum metrics_type type,
                         const char *help, double value)
{
    metrics_write_family(out, name, type, help);
    metrics_write_sample(out, name, NULL, 0, value);
}

void rules_notifier_write_metrics(const struct rules_notifier *n, struct gs_buf *out)
{
    size_t found = 0;
    for (size_t i = 0; i < n->n_sets; i++)
        found += n->sets[i]->n;
    write_metric(out, "prometheus_notifications_alertmanagers_discovered", METRICS_GAUGE,
                 "Alertmanagers that alerts are sent to.", (double)found);
    write_metric(out, "prometheus_notifications_dropped_total", METRICS_COUNTER,
                 "Alerts that were not sent to any Alertmanager.", (double)n->dropped);
    write_metric(out, "prometheus_notifications_queue_capacity", METRICS_GAUGE,
                 "Alerts that the queue can hold.", QUEUE_CAPACITY);
    write_metric(out, "prometheus_notifications_queue_length", METRICS_GAUGE,
                 "Alerts that wait in the queue.", (double)n->len);
    if (!found)
        return;
    metrics_write_family(out, "prometheus_notifications_errors_total", METRICS_COUNTER,
                         "Alerts that could not be sent.");
    per_target(n, out, "prometheus_notifications_errors_total", value_errors);
    metrics_write_family(out, "prometheus_notifications_sent_total", METRICS_COUNTER,
                         "Alerts sent, failures included.");
    per_target(n, out, "prometheus_notifications_sent_total", value_sent);
    metrics_write_family(out, "prometheus_notifications_latency_seconds", METRICS_SUMMARY,
                         "Durations of requests.");
    per_target(n, out, "prometheus_notifications_latency_seconds_sum", value_seconds);
    per_target(n, out, "prometheus_notifications_latency_seconds_count", value_answers);
}
