// SPDX-License-Identifier: Apache-2.0
// Watches pods and asks those that can have an inference engine for its page, one address after
// another. A recognized page becomes a target of a set of jobs of its own, which keeps only the
// names that the table reads.
#include "engine/inference_targets/inference_targets_private.h"

#include "base/clock.h"
#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "kube/cache.h"
#include "kube/object.h"
#include "net/endpoint/endpoint.h"

enum {
    TICK_MS = 1000,
    MAX_REQUESTS = 16, // at once
    MAX_PODS = 20000,
    TIMEOUT_MS = 5000,
    FIRST_PAUSE_MS = 2000, // between two rounds over the addresses of a pod; doubles
    LAST_PAUSE_MS = 30000,
};
#define MAX_PAGE ((size_t)16 << 20)
#define SET      "inference"

struct candidate {
    struct inference_targets *owner;
    char *key, *ns, *pod, *ip;
    struct inference_targets_addresses addresses;
    const char *wrong;  // why it has none; static; NULL: nothing
    size_t at;          // the address that is tried next, or that is recognized
    const char *engine; // of the recognized page, borrowed from the table; NULL: not recognized
    bool elsewhere;     // another job scrapes it
    bool found;         // another job does, by the search that runs
    struct http_op *op; // NULL: no request is in progress
    char url[512];
    int64_t next_ms, pause_ms; // monotonic
    char *reason;              // of the last round, the most telling one
    int rank;                  // of the reason
};

struct inference_targets {
    uv_loop_t *loop;
    struct scrape_manager *scrapes;
    const struct signals_table *table;
    int64_t interval_ms;
    struct kube_cache *cache;
    struct kube_watch_errors *errors;
    struct http_client *http;
    struct gs_timer *timer;
    struct gs_hmap *pods; // "ns/pod" -> struct candidate
    size_t n_requests;
    char *names;                  // regular expression of the names to keep
    bool changed;                 // the set of targets
    struct engine_config *config; // of the set
};

// --- the set of targets ---

static json_t *group_of(const struct candidate *c)
{
    const char *address = c->addresses.items[c->at], *path = strchr(address, '/');
    json_t *target = codec_json_strf(strchr(c->ip, ':') ? "[%s]:%.*s" : "%s:%.*s", c->ip,
                                     (int)(path - address), address);
    return json_pack("{s:[o], s:{s:s, s:s, s:s}}", "targets", target, "labels", "namespace", c->ns,
                     "pod", c->pod, "__metrics_path__", path);
}

static json_t *job_of(const struct inference_targets *t)
{
    json_t *groups = json_array();
    size_t pos = 0;
    void *value;
    while (gs_hmap_next(t->pods, &pos, NULL, &value)) {
        const struct candidate *c = value;
        if (c->engine && !c->elsewhere)
            json_array_append_new(groups, group_of(c));
    }
    return json_pack("{s:s, s:o, s:s, s:o, s:[{s:s, s:[s], s:s}]}", "job_name",
                     INFERENCE_TARGETS_JOB, "scrape_interval",
                     codec_json_strf("%lldms", (long long)t->interval_ms), "body_size_limit",
                     "16MB", "static_configs", groups, "metric_relabel_configs", "action", "keep",
                     "source_labels", "__name__", "regex", t->names);
}

static void apply(struct inference_targets *t)
{
    struct engine_config *config = NULL;
    CODEC_AUTO_JSON json_t *doc = json_pack("{s:[o]}", "scrape_configs", job_of(t));
    struct gs_error *err = engine_config_from_json(doc, "targets of inference engines", &config);
    t->changed = false;
    if (err) {
        gs_err("inference", "%s", gs_error_message(err));
        gs_error_free(err);
        return;
    }
    engine_config_set_yields(config); // to a job that scrapes the same address
    scrape_manager_apply_extra(t->scrapes, SET, config->scrapes, config->n_scrapes);
    engine_config_free(t->config);
    t->config = config;
}

// --- requests ---

// The reason that helps most is kept: an answer says more than a refused connection.
static void set_reason(struct candidate *c, int rank, const char *fmt, ...) GS_PRINTF(3, 4);
static void set_reason(struct candidate *c, int rank, const char *fmt, ...)
{
    va_list ap;
    if (c->reason && rank < c->rank)
        return;
    va_start(ap, fmt);
    free(c->reason);
    c->reason = gs_vformat(fmt, ap);
    va_end(ap);
    c->rank = rank;
}

static void judge_page(struct candidate *c, const struct http_response *response)
{
    enum metrics_format format = METRICS_TEXT;
    GS_CLEANUP(signals_page_freep) struct signals_page *p = signals_page_new(c->owner->table);
    GS_AUTO_ERROR struct gs_error *err = metrics_format_of(response->content_type, &format);
    GS_AUTO_ERROR struct gs_error *wrong =
        err ? NULL : signals_page_read(p, response->body, format, 1);
    if (err || wrong)
        set_reason(c, 2, "%s is not a metrics page: %s", c->url,
                   gs_error_message(err ? err : wrong));
    else if (!signals_page_engine(p))
        set_reason(c, 3, "%s is not the page of an inference engine that the table has", c->url);
    else
        c->engine = signals_page_engine(p);
}

static void judge(struct candidate *c, const struct http_response *response,
                  const struct gs_error *err)
{
    if (err)
        set_reason(c, 0, "%s: %s", c->url, gs_error_message(err));
    else if (response->status == 401 || response->status == 403)
        set_reason(c, 4, "%s needs a token (status %d): write a PodMonitor with its authorization",
                   c->url, response->status);
    else if (response->status == 404)
        set_reason(c, 1,
                   "%s does not exist (status 404): SGLang serves metrics with --enable-metrics, "
                   "llama.cpp with --metrics",
                   c->url);
    else if (response->status != 200)
        set_reason(c, 1, "%s answers with status %d", c->url, response->status);
    else
        judge_page(c, response);
}

static void on_page(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct candidate *c = arg;
    struct inference_targets *t = c->owner;
    c->op = NULL;
    t->n_requests--;
    judge(c, response, err);
    gs_error_free(err);
    if (c->engine) {
        gs_info("inference", "%s is the page of %s in pod %s", c->url, c->engine, c->key);
        t->changed = true;
        return;
    }
    if (++c->at < c->addresses.n)
        return;
    c->at = 0;
    c->next_ms = gs_mono_ns() / GS_NS_PER_MS + c->pause_ms;
    c->pause_ms = c->pause_ms * 2 < LAST_PAUSE_MS ? c->pause_ms * 2 : LAST_PAUSE_MS;
}

static void request_page(struct candidate *c)
{
    static const struct http_callbacks callbacks = {.on_done = on_page};
    static const struct http_header headers[] = {
        {"Accept", "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"}, {0}};
    const struct http_request request = {
        .path = c->url, .headers = headers, .timeout_ms = TIMEOUT_MS, .max_reply = MAX_PAGE};
    (void)snprintf(c->url, sizeof(c->url), strchr(c->ip, ':') ? "http://[%s]:%s" : "http://%s:%s",
                   c->ip, c->addresses.items[c->at]);
    if (c->at == 0) {
        free(c->reason);
        c->reason = NULL;
    }
    c->owner->n_requests++;
    c->op = http_send(c->owner->http, &request, &callbacks, c);
}

// --- pods ---

static void candidate_free(void *arg)
{
    struct candidate *c = arg;
    if (c->op) {
        http_op_cancel(c->op);
        c->owner->n_requests--;
    }
    c->owner->changed = c->owner->changed || c->engine;
    inference_targets_addresses_finish(&c->addresses);
    free(c->reason);
    free(c->key);
    free(c->ns);
    free(c->pod);
    free(c->ip);
    free(c);
}

static bool same_addresses(const struct inference_targets_addresses *a,
                           const struct inference_targets_addresses *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!gs_streq(a->items[i], b->items[i]))
            return false;
    return true;
}

static void add_candidate(struct inference_targets *t, const json_t *pod, const char *ip,
                          struct inference_targets_addresses *addresses, const char *wrong)
{
    GS_AUTO_FREE char *key = kube_key(pod);
    struct candidate *c = gs_hmap_get_str(t->pods, key);
    if (c && gs_streq(c->ip, ip) && same_addresses(&c->addresses, addresses) && c->wrong == wrong) {
        inference_targets_addresses_finish(addresses);
        return;
    }
    if (!c && gs_hmap_len(t->pods) >= MAX_PODS) {
        inference_targets_addresses_finish(addresses);
        return;
    }
    c = gs_alloc(sizeof(*c));
    c->owner = t;
    c->key = gs_strdup(key);
    c->ns = gs_strdup(kube_namespace(pod));
    c->pod = gs_strdup(kube_name(pod));
    c->ip = gs_strdup(ip);
    c->addresses = *addresses;
    c->wrong = wrong;
    c->pause_ms = FIRST_PAUSE_MS;
    gs_hmap_put_str(t->pods, key, c);
}

static void remove_candidate(struct inference_targets *t, const json_t *pod)
{
    GS_AUTO_FREE char *key = kube_key(pod);
    void *c = gs_hmap_remove_str(t->pods, key);
    if (c)
        candidate_free(c);
}

static void on_pod(void *arg, const json_t *old_pod, const json_t *pod)
{
    struct inference_targets *t = arg;
    struct inference_targets_addresses addresses = {.n = 0};
    const char *ip = codec_json_str(pod, "status", "podIP", NULL), *wrong = NULL;
    bool runs = pod && ip && gs_streq(kube_phase(pod), "Running") && kube_namespace(pod);
    if (runs)
        inference_targets_addresses_of(pod, t->table, &addresses, &wrong);
    if (addresses.n || wrong)
        add_candidate(t, pod, ip, &addresses, wrong);
    else
        remove_candidate(t, pod ? pod : old_pod);
}

// Clusters have many pods, and most of them have no GPU.
static void trim_pod(json_t *pod)
{
    static const char *const kept[] = {"containers", "resourceClaims"};
    json_t *spec = json_object_get(pod, "spec"), *small = json_object();
    for (size_t i = 0; i < GS_ARRAY_LEN(kept); i++)
        if (json_object_get(spec, kept[i]))
            json_object_set(small, kept[i], json_object_get(spec, kept[i]));
    size_t i;
    json_t *container;
    json_array_foreach (json_object_get(small, "containers"), i, container) {
        static const char *const dropped[] = {"env",          "envFrom",       "args",
                                              "command",      "volumeMounts",  "livenessProbe",
                                              "startupProbe", "readinessProbe"};
        for (size_t k = 0; k < GS_ARRAY_LEN(dropped); k++)
            json_object_del(container, dropped[k]);
    }
    json_object_set_new(pod, "spec", small);
    codec_json_del(pod, "metadata", "managedFields", NULL);
    codec_json_del(pod, "status", "containerStatuses", NULL);
    codec_json_del(pod, "status", "conditions", NULL);
}

// --- what others scrape ---

static void note_other(void *arg, const char *ns, const char *pod, const char *url,
                       const char *engine)
{
    struct inference_targets *t = arg;
    GS_AUTO_FREE char *key = gs_format("%s/%s", ns, pod);
    struct candidate *c = gs_hmap_get_str(t->pods, key);
    if (c && (engine || (c->engine && gs_streq(url, c->url))))
        c->found = true;
}

static void find_others(struct inference_targets *t)
{
    size_t pos = 0;
    void *value;
    while (gs_hmap_next(t->pods, &pos, NULL, &value))
        ((struct candidate *)value)->found = false;
    scrape_manager_each_pod(t->scrapes, SET, note_other, t);
    pos = 0;
    while (gs_hmap_next(t->pods, &pos, NULL, &value)) {
        struct candidate *c = value;
        t->changed = t->changed || c->found != c->elsewhere;
        c->elsewhere = c->found;
    }
}

static void on_tick(void *arg)
{
    struct inference_targets *t = arg;
    int64_t now = gs_mono_ns() / GS_NS_PER_MS;
    size_t pos = 0;
    void *value;
    if (!gs_hmap_len(t->pods) && !t->changed)
        return;
    find_others(t);
    while (t->n_requests < MAX_REQUESTS && gs_hmap_next(t->pods, &pos, NULL, &value)) {
        struct candidate *c = value;
        if (!c->engine && !c->elsewhere && !c->op && c->addresses.n && now >= c->next_ms)
            request_page(c);
    }
    if (t->changed)
        apply(t);
}

// --- life ---

struct inference_targets *inference_targets_new(uv_loop_t *loop, struct kube_client *client,
                                                struct scrape_manager *scrapes,
                                                const struct signals_table *table,
                                                int64_t interval_ms)
{
    struct inference_targets *t = gs_alloc(sizeof(*t));
    const struct endpoint_settings settings = {.proxy_url = NULL};
    const struct endpoint_options options = {.idle_connections = MAX_REQUESTS};
    t->loop = loop;
    t->scrapes = scrapes;
    t->table = table;
    t->interval_ms = interval_ms;
    t->names = signals_table_names(table);
    t->pods = gs_hmap_new(candidate_free);
    struct gs_error *err = endpoint_client_new(loop, "", &settings, &options, &t->http);
    if (err) { // without certificates there is nothing to fail
        gs_err("inference", "%s", gs_error_message(err));
        gs_error_free(err);
        inference_targets_free(t);
        return NULL;
    }
    t->cache = kube_cache_new(loop, client, KUBE_PODS, NULL, NULL);
    kube_cache_set_trim(t->cache, trim_pod);
    const struct kube_cache_handlers handlers = {on_pod, NULL, t};
    kube_cache_add_handlers(t->cache, &handlers);
    kube_cache_start(t->cache);
    t->errors = kube_watch_errors_new(loop, t->cache, "inference", "Pods");
    t->timer = gs_timer_new(loop, t);
    gs_timer_repeat(t->timer, on_tick, TICK_MS / 4, TICK_MS / 4);
    return t;
}

void inference_targets_free(struct inference_targets *t)
{
    if (!t)
        return;
    gs_timer_free(t->timer);
    kube_watch_errors_free(t->errors);
    kube_cache_free(t->cache);
    gs_hmap_free(t->pods);
    http_client_free(t->http);
    engine_config_free(t->config);
    free(t->names);
    free(t);
}

static json_t *candidate_json(const struct candidate *c)
{
    json_t *out = json_pack("{s:s, s:s, s:s}", "namespace", c->ns, "pod", c->pod, "state",
                            c->elsewhere ? "scraped by another job"
                            : c->engine  ? "recognized"
                                         : "searching");
    if (c->engine) {
        codec_json_set_str(out, "url", c->url);
        codec_json_set_str(out, "engine", c->engine);
        return out;
    }
    json_t *tried = json_array();
    for (size_t i = 0; i < c->addresses.n; i++)
        json_array_append_new(tried, codec_json_strf("http://%s:%s", c->ip, c->addresses.items[i]));
    json_object_set_new(out, "tried", tried);
    codec_json_set_str(out, "reason", c->wrong ? c->wrong : c->reason ? c->reason : "");
    return out;
}

json_t *inference_targets_json(const struct inference_targets *t)
{
    json_t *list = json_array();
    size_t pos = 0;
    void *c;
    while (gs_hmap_next(t->pods, &pos, NULL, &c))
        json_array_append_new(list, candidate_json(c));
    return list;
}
