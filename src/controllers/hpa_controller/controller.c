// SPDX-License-Identifier: Apache-2.0
// The HPAs and the schedule of their syncs. Each HPA has an item with its own timer. Its syncs
// start at multiples of the sync period after the first one, and do not overlap.
#include "hpa_controller/controller.h"

#include "base/assert.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "hpa_controller/capacity.h"
#include "hpa_controller/controller_private.h"
#include "hpa_controller/hints.h"
#include "hpa_controller/learned.h"
#include "hpa_controller/placeholder.h"
#include "kube/cache.h"
#include "kube/object.h"

#include <sys/queue.h>

// Hints of a changed value arrive in groups. An object is evaluated at most once in this time.
#define HINT_PAUSE_MS 250

// Until a metric without a value is read again; then twice as long, up to the period. No hint can
// be given of a value that no request has returned yet.
#define FIRST_RETRY_MS 1000

// Until a target that has no status yet is read again.
#define STATUS_LOOK_MS 250

// Evaluations at the same time; further ones wait in order. Their requests need about as many
// connections, and a request that waits for a connection would reach its timeout in a cluster with
// thousands of autoscalers.
enum { MAX_RUNNING = 64 };
// A decision is published for so many periods, at least so long.
#define PUBLISHED_PERIODS 3
#define PUBLISHED_MS      45000

#define LATENCY_ANNOTATION "gpuscale.dev/slo"

struct hpa_controller {
    struct hpa_reconcile_env env;
    struct hpa_controller_config cfg;
    struct kube_cache *hpas;
    struct kube_watch_errors *hpa_errors, *pod_errors;
    struct hpa_hints *hints;            // NULL: not started
    struct gs_hmap *items;              // "ns/name" to struct item
    struct hpa_learned *learned;        // of another process
    struct hpa_capacity_search *search; // for objects of another process; NULL: not started
    size_t n_running;                   // items with a sync in progress
    TAILQ_HEAD(, item) waiting;
    hpa_observer observer;
    void *observer_arg;
    bool started;
};

struct item {
    struct hpa_controller *controller;
    char *key;
    json_t *object; // the newest
    struct hpa_history *history;
    struct hpa_target_status target;
    struct hpa_latency *latency;
    struct hpa_zero *zero;
    struct hpa_capacity *capacity;
    struct hpa_reconcile *run; // NULL between syncs
    TAILQ_ENTRY(item) waiting;
    bool waits; // for the end of another sync
    bool again; // the spec or a value changed during the sync
    struct gs_timer *timer;
    struct hpa_seen *seen; // of the last sync; NULL: none
    struct hpa_hint_budget budget;
    bool hinted;                        // the last sync was by a hint
    double queue;                       // requests that wait, at the last hint
    struct kube_request *queue_request; // NULL: none is pending
    bool queue_followed;                // by the adapter
    struct gs_timer *hint_timer;        // of the sync by a hint
    int64_t started_ns;                 // monotonic time of the last sync
    int64_t retry_ms;                   // while a metric has no value; 0: all have one
    int64_t due_ns;                     // monotonic time of the next sync
    struct hpa_clock clock;             // at the last sync
};

static void sync_item(struct item *i);
static void start_sync(struct item *i);

// --- the number of syncs at a time ---
static void stop_waiting(struct item *i)
{
    if (i->waits)
        TAILQ_REMOVE(&i->controller->waiting, i, waiting);
    i->waits = false;
}

static void begin_waiting(struct item *i)
{
    if (!i->waits)
        TAILQ_INSERT_TAIL(&i->controller->waiting, i, waiting);
    i->waits = true;
}

static void end_sync(struct item *i)
{
    struct hpa_controller *c = i->controller;
    hpa_reconcile_free(GS_TAKE(i->run));
    c->n_running--;
    while (c->n_running < MAX_RUNNING && !TAILQ_EMPTY(&c->waiting))
        start_sync(TAILQ_FIRST(&c->waiting));
}

// --- items ---
static void free_item(void *arg)
{
    struct item *i = arg;
    free(i->key);
    free(i);
}

static void on_sync_timer_closed(void *arg)
{
    struct item *i = arg;
    gs_timer_close(i->hint_timer, free_item);
}

static void item_free(void *value)
{
    struct item *i = value;
    i->controller->n_running -= i->run != NULL;
    stop_waiting(i);
    hpa_reconcile_free(i->run);
    hpa_history_free(i->history);
    hpa_latency_free(i->latency);
    hpa_zero_free(i->zero);
    hpa_capacity_free(i->capacity);
    hpa_seen_free(i->seen);
    kube_request_cancel(i->queue_request);
    json_decref(i->object);
    hpa_selectors_remove(i->controller->env.selectors, i->key);
    if (i->controller->env.budgets)
        hpa_budgets_forget(i->controller->env.budgets, i->key);
    i->run = NULL;
    gs_timer_stop(i->hint_timer);
    gs_timer_close(i->timer, on_sync_timer_closed);
}

static void on_sync_timer(void *arg)
{
    sync_item(arg);
}

// The period of the object's annotation if it is valid, else the configured period.
static int64_t period_ms(const struct item *i)
{
    int64_t ms = i->controller->cfg.sync_period_ms;
    gs_error_free(hpa_sync_period(i->object, &ms));
    return ms;
}

// A late sync does not delay the following ones, and missed syncs are skipped.
static void schedule_next(struct item *i)
{
    int64_t period_ns = period_ms(i) * GS_NS_PER_MS, now_ns = gs_mono_ns();
    i->due_ns += period_ns;
    if (i->due_ns <= now_ns)
        i->due_ns += (now_ns - i->due_ns) / period_ns * period_ns + period_ns;
    int64_t wait_ms = (i->due_ns - now_ns + GS_NS_PER_MS - 1) / GS_NS_PER_MS;
    gs_timer_start(i->timer, on_sync_timer, (uint64_t)wait_ms);
}

// Windows measure elapsed time, so records are shifted when the clock was set.
static void follow_clock(struct item *i)
{
    int64_t unix_ms = gs_unix_ms(), step = hpa_clock_step(&i->clock, unix_ms);
    if (!step)
        return;
    hpa_history_shift(i->history, step);
    hpa_latency_shift(i->latency, step, unix_ms);
    hpa_zero_shift(i->zero, step);
}

static void look_again(struct item *i)
{
    int64_t wait_ms = i->controller->env.status_wait_ms;
    i->due_ns = gs_mono_ns();
    gs_timer_start(i->timer, on_sync_timer,
                   (uint64_t)(wait_ms < STATUS_LOOK_MS ? wait_ms : STATUS_LOOK_MS));
}

static bool has_latency_target(const struct item *i)
{
    return kube_annotation(i->object, LATENCY_ANNOTATION) != NULL;
}

// What the next hints are compared with.
static void remember(struct item *i, const struct hpa_spec *spec, const struct hpa_decision *d)
{
    const struct hpa_reconcile_env *env = &i->controller->env;
    const struct kube_selector *selector = hpa_selectors_get(env->selectors, i->key);
    GS_AUTO_BUF struct gs_buf text = {0};
    if (selector)
        kube_selector_format(selector, &text);
    hpa_seen_free(i->seen);
    i->seen = hpa_seen_new(spec, d, text.data, env->decide.tolerance);
}

static void on_queue(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct item *i = arg;
    (void)body;
    i->queue_request = NULL;
    i->queue_followed = status == 200;
    gs_error_free(err);
}

// The request names the pods, so it is repeated in each evaluation.
static void follow_queue(struct item *i)
{
    const struct hpa_reconcile_env *env = &i->controller->env;
    if (has_latency_target(i) && !i->queue_request)
        i->queue_request = hpa_queue_follow(env->client, kube_namespace(i->object),
                                            hpa_selectors_get(env->selectors, i->key), on_queue, i);
}

static void on_hint_timer(void *arg);

static void retry_soon(struct item *i, const struct hpa_decision *d)
{
    bool missing = has_latency_target(i) && !i->queue_followed;
    for (size_t k = 0; k < d->n_metrics; k++)
        missing = missing || !d->metrics[k].ok || d->metrics[k].fallback;
    i->retry_ms = missing ? gs_backoff_next(i->retry_ms, FIRST_RETRY_MS, period_ms(i)) : 0;
    if (missing && i->retry_ms < period_ms(i))
        gs_timer_start(i->hint_timer, on_hint_timer, (uint64_t)i->retry_ms);
}

static bool is_limited_by_budget(const struct hpa_decision *d)
{
    for (size_t k = 0; k < d->n_conditions; k++)
        if (gs_streq(d->conditions[k].reason, "GPUBudget"))
            return true;
    return false;
}

static void follow_capacity(struct item *i, const struct hpa_spec *spec,
                            const struct hpa_decision *d)
{
    struct hpa_latency_outlook outlook;
    bool has_scale = d->outcome != HPA_OUTCOME_NO_SCALE;
    bool known = has_scale && hpa_latency_outlook(i->latency, &outlook);
    int32_t replicas = !has_scale                                 ? -1
                       : d->write == HPA_WRITE_DONE && d->rescale ? d->desired
                                                                  : d->current;
    hpa_capacity_follow(i->capacity, spec, known ? &outlook : NULL, replicas,
                        is_limited_by_budget(d), gs_unix_ms());
}

static void on_reconciled(void *arg, const struct hpa_spec *spec, const struct hpa_decision *d)
{
    struct item *i = arg;
    struct hpa_controller *c = i->controller;
    gs_assert(i->run);
    if (hpa_reconcile_waits(i->run)) {
        end_sync(i);
        i->again = false;
        look_again(i);
        return;
    }
    if (d->rescale && d->write == HPA_WRITE_DONE) {
        gs_info("hpa", "%s: %d to %d replicas: %s%s%s", i->key, d->current, d->desired, d->reason,
                d->keeps_existing ? "; " : "", d->keeps_existing ? d->explanation : "");
        // Policies often have the period of the syncs. Earlier than a whole period after the write,
        // the next sync would find this change within the period, and scale only in every other
        // sync.
        i->due_ns = gs_mono_ns();
        schedule_next(i);
        hpa_hint_budget_fill(&i->budget);
    }
    remember(i, spec, d);
    hpa_zero_observe(i->zero, spec, d, c->env.starts, hpa_selectors_get(c->env.selectors, i->key),
                     gs_unix_ms());
    follow_capacity(i, spec, d);
    retry_soon(i, d);
    follow_queue(i);
    i->hinted = i->hinted && i->again;
    if (c->observer)
        c->observer(c->observer_arg, spec, d);
    end_sync(i);
    if (i->again) {
        i->again = false;
        sync_item(i);
    }
}

static void sync_item(struct item *i)
{
    // The timer continues during a long sync; the next sync starts after the end of this one.
    if (!gs_timer_is_active(i->timer))
        schedule_next(i);
    if (i->run)
        return;
    if (i->controller->n_running < MAX_RUNNING)
        start_sync(i);
    else
        begin_waiting(i);
}

static void start_sync(struct item *i)
{
    stop_waiting(i);
    follow_clock(i);
    i->started_ns = gs_mono_ns();
    gs_timer_stop(i->hint_timer);
    i->run = hpa_reconcile_start(&i->controller->env, i->object, i->history, &i->target, i->latency,
                                 i->zero, on_reconciled, i);
    i->controller->n_running += i->run != NULL;
}

// Owns err; NULL: the annotation is right.
static void report_annotation(const struct item *i, struct gs_error *error)
{
    GS_AUTO_ERROR struct gs_error *err = error;
    if (!err)
        return;
    gs_warn("hpa", "%s: %s", i->key, gs_error_message(err));
    if (!i->controller->env.shadow)
        kube_event(i->controller->env.recorder, i->object, "Warning", "InvalidAnnotation", "%s",
                   gs_error_message(err));
}

static void read_annotations(struct item *i)
{
    hpa_starts_want(i->controller->env.starts, i->object);
    report_annotation(i, hpa_check_annotations(i->object));
    report_annotation(i, hpa_check_protection(i->object));
    report_annotation(i, hpa_check_fallback(i->object));
    report_annotation(i, hpa_check_priority(i->object));
    int64_t ignored;
    report_annotation(i, hpa_sync_period(i->object, &ignored));
    report_annotation(i, hpa_latency_update(i->latency, i->object));
    report_annotation(i, hpa_capacity_update(i->capacity, i->object));
}

// Without the list of pods, every metric has no pods. Without the budgets, nothing limits growth.
static bool is_ready(const struct hpa_controller *c)
{
    return kube_cache_synced(c->env.pods) && (!c->env.budgets || hpa_budgets_ready(c->env.budgets));
}

static void new_item(struct hpa_controller *c, const json_t *object)
{
    struct item *i = gs_alloc(sizeof(*i));
    i->controller = c;
    i->key = kube_key(object);
    i->object = json_incref((json_t *)object);
    i->history = hpa_history_new();
    i->latency = hpa_latency_new();
    i->zero = hpa_zero_new();
    i->capacity = hpa_capacity_new(c->env.client, c->env.resources, c->env.shadow);
    read_annotations(i);
    hpa_learned_claim(c->learned, i->key, i->latency, gs_unix_ms());
    i->timer = gs_timer_new(c->env.loop, i);
    i->hint_timer = gs_timer_new(c->env.loop, i);
    i->due_ns = gs_mono_ns();
    struct item *old = gs_hmap_remove_str(c->items, i->key);
    if (old)
        item_free(old);
    gs_hmap_put_str(c->items, i->key, i);
    if (is_ready(c))
        sync_item(i);
}

static void update_item(struct hpa_controller *c, struct item *i, const json_t *object)
{
    if (!gs_streq(kube_uid(i->object), kube_uid(object))) {
        new_item(c, object);
        return;
    }
    bool spec_changed =
        !json_equal(codec_json_get(i->object, "spec", NULL), codec_json_get(object, "spec", NULL));
    bool annotated = !codec_json_same(codec_json_get(i->object, "metadata", "annotations", NULL),
                                      codec_json_get(object, "metadata", "annotations", NULL));
    bool target_changed = !gs_streq(kube_annotation(i->object, SLO_ANNOTATION),
                                    kube_annotation(object, SLO_ANNOTATION));
    json_decref(i->object);
    i->object = json_incref((json_t *)object);
    if (annotated)
        read_annotations(i);
    spec_changed |= target_changed;
    if (!spec_changed || !is_ready(c))
        return;
    if (i->run)
        i->again = true;
    else
        sync_item(i);
}

// --- hints ---
static void on_hint_timer(void *arg)
{
    struct item *i = arg;
    i->hinted = true;
    if (i->run)
        i->again = true; // it may have read the value before the change
    else
        sync_item(i);
}

static bool matters(struct item *i, const struct hpa_hint *hint)
{
    const struct kube_selector *selector = hpa_selectors_get(i->controller->env.selectors, i->key);
    return gs_streq(kube_namespace(i->object), hint->ns) &&
           ((has_latency_target(i) && hpa_queue_grows(hint, selector, &i->queue)) ||
            (i->seen && hpa_seen_matters(i->seen, hint)));
}

static void take_hint(struct item *i, const struct hpa_hint *hint)
{
    int64_t now_ns = gs_mono_ns();
    int64_t wait_ms = HINT_PAUSE_MS - (now_ns - i->started_ns) / GS_NS_PER_MS;
    // A longer wait is that of a metric without a value.
    bool waits = gs_timer_is_active(i->hint_timer) &&
                 (int64_t)gs_timer_due_in(i->hint_timer) <= HINT_PAUSE_MS;
    if (!matters(i, hint) || waits || i->again ||
        !hpa_hint_budget_take(&i->budget, period_ms(i), now_ns))
        return;
    if (wait_ms > 0)
        gs_timer_start(i->hint_timer, on_hint_timer, (uint64_t)wait_ms);
    else
        on_hint_timer(i);
}

static void on_hint(void *arg, const struct hpa_hint *hint)
{
    struct hpa_controller *c = arg;
    size_t pos = 0;
    struct gs_slice key;
    void *value;
    while (gs_hmap_next(c->items, &pos, &key, &value))
        take_hint(value, hint);
}

static bool is_own(void *arg, const char *key)
{
    const struct hpa_controller *c = arg;
    return gs_hmap_get_str(c->items, key) != NULL;
}

// Evaluations that others need. They come in groups, as hints do.
static void on_wake(void *arg, const char *key)
{
    struct hpa_controller *c = arg;
    struct item *i = gs_hmap_get_str(c->items, key);
    if (i &&
        !(gs_timer_is_active(i->hint_timer) && gs_timer_due_in(i->hint_timer) <= HINT_PAUSE_MS))
        gs_timer_start(i->hint_timer, on_hint_timer, HINT_PAUSE_MS);
}

// --- caches ---
static void on_hpa_changed(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct hpa_controller *c = arg;
    GS_AUTO_FREE char *key = kube_key(new_obj ? new_obj : old_obj);
    struct item *i = gs_hmap_get_str(c->items, key);
    if (!new_obj && c->cfg.on_deleted)
        c->cfg.on_deleted(c->cfg.arg, old_obj);
    if (!new_obj && c->env.budgets)
        hpa_budgets_forget(c->env.budgets, key);
    bool exists = new_obj != NULL;
    if (new_obj && c->cfg.wanted && !c->cfg.wanted(c->cfg.arg, new_obj))
        new_obj = NULL;
    if (!new_obj) {
        if (i && exists)
            hpa_capacity_release(i->capacity);
        if (i)
            item_free(gs_hmap_remove_str(c->items, key));
    } else if (i) {
        update_item(c, i, new_obj);
    } else {
        new_item(c, new_obj);
    }
}

static void on_placeholder_found(void *arg, const json_t *object, struct kube_gvr resource)
{
    const struct hpa_controller *c = arg;
    const char *ns = kube_namespace(object), *name = kube_label(object, HPA_CAPACITY_LABEL);
    GS_AUTO_FREE char *key = ns && name ? gs_format("%s/%s", ns, name) : NULL;
    struct item *i = key ? gs_hmap_get_str(c->items, key) : NULL;
    if (i)
        hpa_capacity_found(i->capacity, object, resource);
}

static void on_hpas_listed(void *arg)
{
    struct hpa_controller *c = arg;
    if (!c->search && !c->env.shadow)
        c->search = hpa_capacity_search_start(c->env.loop, c->env.client, c->cfg.ns,
                                              on_placeholder_found, c);
}

// The pods and the budgets were read.
static void on_ready(void *arg)
{
    struct hpa_controller *c = arg;
    if (!is_ready(c))
        return;
    size_t pos = 0;
    struct gs_slice key;
    void *value;
    while (gs_hmap_next(c->items, &pos, &key, &value)) {
        struct item *i = value;
        if (!i->run && !gs_timer_is_active(i->timer))
            sync_item(i);
    }
}

// --- public functions ---
struct hpa_controller *hpa_controller_new(uv_loop_t *loop, struct kube_client *client,
                                          struct kube_cache *pods,
                                          const struct hpa_controller_config *cfg)
{
    struct hpa_controller *c = gs_alloc(sizeof(*c));
    c->cfg = *cfg;
    if (c->cfg.sync_period_ms < 1)
        c->cfg.sync_period_ms = 1;
    c->items = gs_hmap_new(item_free);
    TAILQ_INIT(&c->waiting);
    c->learned = hpa_learned_new();
    c->hpas = kube_cache_new(loop, client, KUBE_HPAS, cfg->ns, NULL);
    struct hpa_resources *resources = hpa_resources_new(client);
    c->env = (struct hpa_reconcile_env){
        .loop = loop,
        .client = client,
        .pods = pods,
        .recorder = kube_recorder_new(client, "horizontal-pod-autoscaler", NULL),
        .resources = resources,
        .metrics =
            hpa_metrics_source_new(client, resources, c->cfg.sync_period_ms, cfg->decide.release),
        .selectors = hpa_selectors_new(),
        .starts = hpa_starts_new(loop, client, pods, cfg->ns),
        .engine = cfg->engine,
        .engine_arg = cfg->engine_arg,
        .decide = cfg->decide,
        .shadow = cfg->shadow,
        .status_wait_ms = c->cfg.sync_period_ms,
    };
    const struct hpa_budgets_config budgets = {.loop = loop,
                                               .client = client,
                                               .pods = pods,
                                               .hpas = c->hpas,
                                               .resources = resources,
                                               .starts = c->env.starts,
                                               .ns = cfg->budgets_ns,
                                               .shadow = cfg->shadow,
                                               .wake = on_wake,
                                               .ready = on_ready,
                                               .is_own = is_own,
                                               .engine = cfg->engine,
                                               .engine_arg = cfg->engine_arg,
                                               .period_ms = c->cfg.sync_period_ms,
                                               .arg = c};
    if (cfg->budgets_ns && !cfg->ns)
        c->env.budgets = hpa_budgets_new(&budgets);
    return c;
}

void hpa_controller_set_observer(struct hpa_controller *c, hpa_observer fn, void *arg)
{
    c->observer = fn;
    c->observer_arg = arg;
}

struct gs_error *hpa_controller_restore(struct hpa_controller *c, const json_t *document)
{
    struct gs_error *err = hpa_learned_read(c->learned, document, gs_unix_ms());
    if (err)
        return err;
    hpa_starts_restore(c->env.starts, hpa_learned_starts(c->learned));
    size_t pos = 0;
    void *value;
    while (gs_hmap_next(c->items, &pos, NULL, &value)) {
        struct item *i = value;
        hpa_learned_claim(c->learned, i->key, i->latency, gs_unix_ms());
    }
    return NULL;
}

json_t *hpa_controller_learned(const struct hpa_controller *c)
{
    int64_t now_ms = gs_unix_ms();
    json_t *out = hpa_learned_begin();
    size_t pos = 0;
    void *value;
    while (gs_hmap_next(c->items, &pos, NULL, &value)) {
        const struct item *i = value;
        hpa_learned_add(out, i->key, i->latency, now_ms);
    }
    hpa_learned_end(out, c->learned, c->env.starts, now_ms);
    return out;
}

void hpa_controller_start(struct hpa_controller *c)
{
    if (c->started)
        return;
    c->started = true;
    const struct kube_cache_handlers on_hpas = {
        .on_change = on_hpa_changed, .on_synced = on_hpas_listed, .arg = c};
    const struct kube_cache_handlers on_pods = {.on_synced = on_ready, .arg = c};
    kube_cache_add_handlers(c->hpas, &on_hpas);
    kube_cache_add_handlers(c->env.pods, &on_pods);
    kube_cache_start(c->hpas);
    if (c->env.budgets)
        hpa_budgets_start(c->env.budgets);
    c->hpa_errors = kube_watch_errors_new(c->env.loop, c->hpas, "hpa", "horizontalpodautoscalers");
    c->pod_errors = kube_watch_errors_new(c->env.loop, c->env.pods, "hpa", "pods");
    c->hints = hpa_hints_new(c->env.loop, c->env.client, c->cfg.ns, on_hint, c);
}

void hpa_controller_requeue(struct hpa_controller *c, const char *ns, const char *name)
{
    const json_t *object = kube_cache_get(c->hpas, ns, name);
    if (object)
        on_hpa_changed(c, object, object);
}

json_t *hpa_controller_history(const struct hpa_controller *c, const char *ns, const char *name)
{
    GS_AUTO_FREE char *key = gs_format("%s/%s", ns, name);
    const struct item *i = gs_hmap_get_str(c->items, key);
    if (!i)
        return NULL;
    json_t *out = hpa_history_json(i->history, gs_unix_ms());
    json_t *startup =
        hpa_starts_json(c->env.starts, ns, hpa_selectors_get(c->env.selectors, key), gs_unix_ms());
    json_t *latency = hpa_latency_json(i->latency, gs_unix_ms());
    json_t *zero = hpa_zero_history_json(i->zero);
    if (startup)
        json_object_set_new(out, "startup", startup);
    if (latency)
        json_object_set_new(out, "slo", latency);
    if (zero)
        json_object_set_new(out, "zero", zero);
    json_t *capacity = hpa_capacity_json(i->capacity);
    if (capacity && latency)
        json_object_set_new(latency, "capacity", capacity);
    else
        json_decref(capacity);
    json_t *budget = c->env.budgets ? hpa_budgets_json(c->env.budgets, key, gs_unix_ms()) : NULL;
    if (budget)
        json_object_set_new(out, "budget", budget);
    return out;
}

// An old number would keep another controller from using its other metrics.
static int64_t published_since(const struct item *i)
{
    int64_t age_ms = PUBLISHED_PERIODS * period_ms(i);
    return gs_unix_ms() - (age_ms > PUBLISHED_MS ? age_ms : PUBLISHED_MS);
}

void hpa_controller_write_metrics(const struct hpa_controller *c, struct gs_buf *out)
{
    for (int f = 0; f < HPA_LATENCY_FAMILIES; f++) {
        hpa_latency_write_head((enum hpa_latency_family)f, out);
        size_t pos = 0;
        void *value;
        while (gs_hmap_next(c->items, &pos, NULL, &value)) {
            const struct item *i = value;
            if (hpa_latency_has_target(i->latency)) // its period is text of the object
                hpa_latency_write(i->latency, (enum hpa_latency_family)f, published_since(i), out);
        }
    }
    if (c->env.budgets)
        hpa_budgets_write_metrics(c->env.budgets, out);
}

void hpa_controller_release(struct hpa_controller *c, void (*done)(void *arg), void *arg)
{
    if (c->env.budgets && c->started)
        hpa_budgets_release(c->env.budgets, done, arg);
    else
        done(arg);
}

void hpa_controller_free(struct hpa_controller *c)
{
    if (!c)
        return;
    if (c->started)
        kube_cache_remove_handlers(c->env.pods, c);
    hpa_hints_free(c->hints);
    kube_watch_errors_free(c->hpa_errors);
    kube_watch_errors_free(c->pod_errors);
    hpa_capacity_search_free(c->search);
    gs_hmap_free(c->items);
    hpa_budgets_free(c->env.budgets);
    kube_cache_free(c->hpas);
    hpa_metrics_source_free(c->env.metrics);
    hpa_resources_free(c->env.resources);
    kube_recorder_free(c->env.recorder);
    hpa_selectors_free(c->env.selectors);
    hpa_starts_free(c->env.starts);
    hpa_learned_free(c->learned);
    free(c);
}
