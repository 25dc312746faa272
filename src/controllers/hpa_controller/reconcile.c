// SPDX-License-Identifier: Apache-2.0
// One sync of one HPA, in the order of kube-controller-manager's reconcileAutoscaler: read the
// scale, find pods, fetch metrics, decide, write the scale, write the status. Each step is a
// callback; freeing the reconciliation cancels the step that is in progress.
#include "hpa_controller/controller_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "hpa/observe.h"
#include "kube/object.h"

#define STATUS_TRIES 3

struct hpa_reconcile {
    const struct hpa_reconcile_env *env;
    struct hpa_history *history;
    struct hpa_target_status *target;
    struct hpa_latency *latency;
    struct hpa_zero *zero;
    struct hpa_zero_fetch *use; // of the last replica; NULL: not needed, or no_signals
    bool waits;                 // for the status of the target
    void (*done)(void *arg, const struct hpa_spec *spec, const struct hpa_decision *d);
    void *arg;

    char *key; // "ns/name"
    struct hpa_spec spec;
    struct hpa_scale *scale;
    struct hpa_fetch *fetch;
    struct hpa_signals_fetch *signals; // of a latency target
    char *no_signals;                  // why there are none: there is no engine
    // The other workload of a latency target, with prefill and decode in two.
    struct hpa_spec peer_spec;
    struct hpa_scale *peer; // NULL: none
    bool peer_read;
    int32_t peer_replicas; // -1: unknown
    struct kube_request *request;
    struct startup_coming coming;
    struct hpa_observation obs; // strings are owned by the reconciliation
    char *scale_error, *selector_error, *ambiguous_with;
    struct hpa_decision decision;
    size_t n_recorded; // events recorded so far
    json_t *status;
    unsigned status_tries;
};

void hpa_reconcile_free(struct hpa_reconcile *r)
{
    if (!r)
        return;
    hpa_fetch_free(r->fetch);
    hpa_signals_free(r->signals);
    hpa_zero_fetch_free(r->use);
    hpa_scale_free(r->peer);
    hpa_scale_free(r->scale);
    kube_request_cancel(r->request);
    hpa_decision_finish(&r->decision);
    hpa_spec_finish(&r->spec);
    json_decref(r->status);
    free(r->no_signals);
    free(r->key);
    free(r->scale_error);
    free(r->selector_error);
    free(r->ambiguous_with);
    free(r);
}

static void record_events(struct hpa_reconcile *r)
{
    if (r->env->shadow)
        return;
    for (; r->n_recorded < r->decision.n_events; r->n_recorded++) {
        const struct hpa_event *e = &r->decision.events[r->n_recorded];
        kube_event(r->env->recorder, r->spec.object, e->warning ? "Warning" : "Normal", e->reason,
                   "%s", e->message);
    }
}

static void end_reconciliation(struct hpa_reconcile *r)
{
    r->done(r->arg, &r->spec, &r->decision);
}

// --- status ---
static void send_status(struct hpa_reconcile *r, const json_t *object);

static void on_object_reread(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct hpa_reconcile *r = arg;
    r->request = NULL;
    // The object was deleted or replaced: there is no status to write.
    if (err || !gs_streq(kube_uid(body), r->spec.uid)) {
        gs_error_free(err);
        end_reconciliation(r);
        return;
    }
    send_status(r, body);
}

static void on_status_written(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct hpa_reconcile *r = arg;
    r->request = NULL;
    if (status == 409 && ++r->status_tries < STATUS_TRIES) {
        gs_error_free(err);
        r->request = kube_get(r->env->client, KUBE_HPAS, r->spec.ns, r->spec.name, NULL,
                              on_object_reread, r);
        return;
    }
    if (err && status != 404)
        kube_event(r->env->recorder, r->spec.object, "Warning", "FailedUpdateStatus", "%s",
                   gs_error_message(err));
    gs_error_free(err);
    end_reconciliation(r);
}

static void send_status(struct hpa_reconcile *r, const json_t *object)
{
    CODEC_AUTO_JSON json_t *copy = json_deep_copy(object);
    json_object_set(copy, "status", r->status);
    r->request = kube_update(r->env->client, KUBE_HPAS, r->spec.ns, r->spec.name, "status", copy,
                             on_status_written, r);
}

static void write_status(struct hpa_reconcile *r)
{
    r->status = hpa_status_build(&r->spec, &r->decision);
    if (hpa_status_differs(json_object_get(r->spec.object, "status"), r->status))
        send_status(r, r->spec.object);
    else
        end_reconciliation(r);
}

// --- decision ---
static void on_scale_written(void *arg, struct gs_error *err)
{
    struct hpa_reconcile *r = arg;
    struct hpa_decision *d = &r->decision;
    hpa_decision_written(&r->spec, &r->env->decide, err ? gs_error_message(err) : NULL, d);
    if (!err)
        hpa_history_scaled(r->history, &r->spec, d->current, d->desired, gs_unix_ms());
    if (!err && r->env->budgets)
        hpa_budgets_written(r->env->budgets, d, r->key);
    gs_error_free(err);
    record_events(r);
    write_status(r);
}

static void decide_latency(struct hpa_reconcile *r, const struct kube_selector *selector)
{
    const struct hpa_latency_input in = {.spec = &r->spec,
                                         .replicas = r->obs.spec_replicas,
                                         .starts = r->env->starts,
                                         .selector = selector,
                                         .signals = r->signals ? hpa_signals_of(r->signals) : NULL,
                                         .error = r->no_signals,
                                         .peer_replicas = r->peer ? r->peer_replicas : -1,
                                         .now_ms = gs_unix_ms()};
    r->obs.extra = hpa_latency_decide(r->latency, &in);
}

static void decide_and_write(struct hpa_reconcile *r)
{
    struct gs_arena arena = {0};
    const struct kube_selector *selector = hpa_selectors_get(r->env->selectors, r->key);
    if (r->fetch) {
        r->obs.metrics = hpa_fetch_observations(r->fetch);
        r->obs.loads = r->obs.metrics + r->spec.n_metrics;
        if (selector)
            hpa_observe_pods(&r->spec, r->env->pods, selector, r->env->decide.release, &arena,
                             &r->obs.pods, &r->obs.n_pods);
        if (r->spec.credit &&
            hpa_starts_coming(r->env->starts, r->spec.ns, selector, gs_unix_ms(), &r->coming))
            r->obs.coming = &r->coming;
        decide_latency(r, selector);
    } else {
        hpa_latency_skip(r->latency);
    }
    r->obs.zero = hpa_zero_checked(r->zero, &r->spec, r->obs.spec_replicas, r->use, r->no_signals);
    hpa_decide(&r->spec, &r->obs, &r->env->decide, r->history, gs_unix_ms(), &r->decision);
    gs_arena_finish(&arena);
    if (r->env->budgets)
        hpa_budgets_decide(r->env->budgets, &r->spec, &r->obs, &r->decision);
    record_events(r);
    if (r->env->shadow)
        end_reconciliation(r);
    else if (r->decision.rescale)
        hpa_scale_write(r->scale, r->decision.desired, on_scale_written, r);
    else
        write_status(r);
}

static bool has_fetched(const struct hpa_reconcile *r)
{
    return r->fetch && hpa_fetch_finished(r->fetch) &&
           (!r->signals || hpa_signals_finished(r->signals)) && (!r->peer || r->peer_read) &&
           (!r->use || hpa_zero_fetch_finished(r->use));
}

static void on_fetched(void *arg)
{
    struct hpa_reconcile *r = arg;
    if (has_fetched(r))
        decide_and_write(r);
}

// --- samples of a latency target ---
static void on_peer_read(void *arg, struct gs_error *err)
{
    struct hpa_reconcile *r = arg;
    r->peer_read = true;
    r->peer_replicas = err ? -1 : hpa_scale_spec_replicas(r->peer);
    gs_error_free(err);
    on_fetched(r);
}

// It has the kind of the target.
static void read_peer(struct hpa_reconcile *r, const char *name)
{
    r->peer_spec = r->spec;
    r->peer_spec.target_name = name;
    r->peer = hpa_scale_new(r->env->loop, r->env->client, r->env->resources, &r->peer_spec);
    hpa_scale_read(r->peer, on_peer_read, r);
}

static void query_pods(struct hpa_reconcile *r, struct http_client *engine,
                       const struct kube_selector *selector, struct hpa_signals_query *query)
{
    const char **names = NULL;
    size_t pos = 0, cap = 0;
    const json_t *pod;
    while ((pod = kube_cache_select(r->env->pods, r->spec.ns, selector, &pos))) {
        gs_grow(&names, &cap, query->n_pods, sizeof(*names));
        names[query->n_pods++] = kube_name(pod);
    }
    query->pods = names;
    if (query->n_pods)
        r->signals = hpa_signals_start(engine, query, on_fetched, r);
    free(names);
}

// NULL: no engine is known, for the reason in no_signals.
static struct http_client *find_engine(struct hpa_reconcile *r)
{
    const char *why = "no engine is configured";
    struct http_client *engine = r->env->engine ? r->env->engine(r->env->engine_arg, &why) : NULL;
    if (!engine && !r->no_signals)
        r->no_signals = gs_strdup(why);
    return engine;
}

// Before the last replica ends.
static void fetch_use(struct hpa_reconcile *r)
{
    struct http_client *engine =
        hpa_zero_wanted(&r->spec, r->obs.spec_replicas) ? find_engine(r) : NULL;
    struct gs_arena arena = {0};
    struct hpa_zero_query query;
    if (!engine)
        return;
    hpa_zero_query_of(&r->spec, r->env->pods, hpa_selectors_get(r->env->selectors, r->key), &arena,
                      &query);
    if (query.n_pods || query.n_services)
        r->use = hpa_zero_fetch_start(engine, &query, on_fetched, r);
    gs_arena_finish(&arena);
}

static void fetch_signals(struct hpa_reconcile *r)
{
    const struct kube_selector *selector = hpa_selectors_get(r->env->selectors, r->key);
    struct hpa_signals_query query = {.policy = hpa_latency_policy(r->latency),
                                      .ns = r->spec.ns,
                                      .interval_ms = hpa_latency_interval_ms(r->latency)};
    if (!query.policy || !selector)
        return;
    if (*query.policy->peer)
        read_peer(r, query.policy->peer);
    struct http_client *engine = find_engine(r);
    if (engine)
        query_pods(r, engine, selector, &query);
}

// --- observation ---
static void observe_selector(struct hpa_reconcile *r)
{
    struct hpa_selectors *selectors = r->env->selectors;
    r->obs.selector = hpa_scale_selector(r->scale);
    if (!*r->obs.selector) {
        hpa_selectors_remove(selectors, r->key);
        return;
    }
    GS_AUTO_ERROR struct gs_error *err = hpa_selectors_put(selectors, r->key, r->obs.selector);
    if (err) {
        r->selector_error = gs_strdup(gs_error_message(err));
        r->obs.selector_error = r->selector_error;
        return;
    }
    r->ambiguous_with = hpa_selectors_conflict(selectors, r->key, r->spec.ns, r->env->pods);
    r->obs.ambiguous_with = r->ambiguous_with;
}

static void observe_zero(struct hpa_reconcile *r)
{
    const json_t *condition = kube_condition(r->spec.object, "ScaledToZero");
    r->obs.has_scaled_to_zero = condition != NULL;
    r->obs.scaled_to_zero = kube_condition_true(r->spec.object, "ScaledToZero");
}

static bool waits_for_status(struct hpa_reconcile *r)
{
    struct hpa_target_status *t = r->target;
    int64_t now_ns = gs_mono_ns();
    t->seen = t->seen || r->obs.spec_replicas == 0 || r->obs.status_replicas > 0;
    if (!t->since_ns)
        t->since_ns = now_ns;
    return !t->seen && now_ns - t->since_ns < r->env->status_wait_ms * GS_NS_PER_MS;
}

bool hpa_reconcile_waits(const struct hpa_reconcile *r)
{
    return r->waits;
}

static void on_scale_read(void *arg, struct gs_error *err)
{
    struct hpa_reconcile *r = arg;
    if (err) {
        *r->target = (struct hpa_target_status){0};
        if (r->env->budgets && gs_error_code(err) == GS_ENOTFOUND)
            hpa_budgets_forget(r->env->budgets, r->key);
        r->scale_error = gs_strdup(gs_error_message(err));
        r->obs.scale_error = r->scale_error;
        gs_error_free(err);
        decide_and_write(r);
        return;
    }
    r->obs.scale_found = true;
    r->obs.spec_replicas = hpa_scale_spec_replicas(r->scale);
    r->obs.status_replicas = hpa_scale_status_replicas(r->scale);
    r->waits = waits_for_status(r);
    if (r->waits) {
        end_reconciliation(r);
        return;
    }
    if (r->env->shadow)
        hpa_history_observe_replicas(r->history, &r->spec, r->obs.spec_replicas, gs_unix_ms());
    observe_selector(r);
    observe_zero(r);
    if (!hpa_wants_metrics(&r->spec, &r->obs, &r->env->decide)) {
        decide_and_write(r);
        return;
    }
    fetch_signals(r);
    fetch_use(r);
    r->fetch = hpa_fetch_start(r->env->metrics, &r->spec, r->obs.selector,
                               hpa_latency_policy(r->latency) != NULL, on_fetched, r);
    if (has_fetched(r))
        decide_and_write(r);
}

struct hpa_reconcile *hpa_reconcile_start(
    const struct hpa_reconcile_env *env, json_t *object, struct hpa_history *history,
    struct hpa_target_status *target, struct hpa_latency *latency, struct hpa_zero *zero,
    void (*done)(void *arg, const struct hpa_spec *spec, const struct hpa_decision *d), void *arg)
{
    struct hpa_spec spec;
    GS_AUTO_ERROR struct gs_error *err = hpa_spec_parse(object, &spec);
    if (err) {
        kube_event(env->recorder, object, "Warning", "FailedConvertHPA", "%s",
                   gs_error_message(err));
        gs_warn("hpa", "%s", gs_error_message(err));
        return NULL;
    }
    struct hpa_reconcile *r = gs_alloc(sizeof(*r));
    r->env = env;
    r->history = history;
    r->target = target;
    r->latency = latency;
    r->zero = zero;
    r->done = done;
    r->arg = arg;
    r->spec = spec;
    r->key = kube_key(object);
    r->scale = hpa_scale_new(env->loop, env->client, env->resources, &r->spec);
    hpa_scale_read(r->scale, on_scale_read, r);
    return r;
}
