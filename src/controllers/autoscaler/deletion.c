// SPDX-License-Identifier: Apache-2.0
// The removal of a node, in steps: taint, wait until schedulers have seen it, evict the pods, wait
// until they have ended, delete the machine. Each step reads the caches, so a lost response delays
// it at most. A failure removes the taint.
#include "autoscaler/autoscaler_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/object.h"

#define EVICTION_RETRY_MS    10000
#define TERMINATION_SPARE_MS 30000 // beyond the grace period
#define TAINT_LIMIT_MS       60000
#define STEP_MS              250
#define DISAPPEAR_LIMIT_MS   300000 // of a Node whose machine was deleted

enum phase { TAINTING, SETTLING, EVICTING, LEAVING, DELETED };

struct eviction {
    struct autoscaler_deletion *deletion;
    json_t *pod;
    bool waits; // the removal waits for it: not of a DaemonSet
    bool accepted;
    int64_t next_ms; // of the next attempt
    char *error;     // of the last attempt
    struct kube_request *request;
};

struct autoscaler_deletion {
    struct autoscaler *a;
    struct autoscaler_node *node;
    struct autoscaler_pool *pool;
    json_t *object; // of the node
    bool drain;
    const char *reason; // for the metric
    enum phase phase;
    int64_t phase_since_ms;
    struct eviction **evictions;
    size_t n_evictions, cap;
    int64_t grace_ms; // the longest of its pods
};

bool autoscaler_deletion_is_drain(const struct autoscaler_deletion *d)
{
    return d->drain && d->phase < DELETED;
}

bool autoscaler_deletion_counts(const struct autoscaler_deletion *d,
                                const struct autoscaler_pool *p)
{
    return d->pool == p && d->phase < DELETED;
}

static void enter(struct autoscaler_deletion *d, enum phase phase)
{
    d->phase = phase;
    d->phase_since_ms = autoscaler_now(d->a);
}

static int64_t phase_age_ms(const struct autoscaler_deletion *d)
{
    return autoscaler_now(d->a) - d->phase_since_ms;
}

// --- end ---

static void deletion_free(struct autoscaler_deletion *d)
{
    for (size_t i = 0; i < d->n_evictions; i++) {
        kube_request_cancel(d->evictions[i]->request);
        json_decref(d->evictions[i]->pod);
        free(d->evictions[i]->error);
        free(d->evictions[i]);
    }
    free(d->evictions);
    json_decref(d->object);
    d->node->deletion = NULL;
    free(d);
}

static void end(struct autoscaler_deletion *d)
{
    struct autoscaler *a = d->a;
    for (size_t i = 0; i < a->n_deletions; i++) {
        if (a->deletions[i] != d)
            continue;
        a->deletions[i] = a->deletions[--a->n_deletions];
        break;
    }
    deletion_free(d);
}

static void fail(struct autoscaler_deletion *d, const char *why)
{
    struct autoscaler *a = d->a;
    kube_event(a->recorder, d->object, "Warning", "ScaleDownFailed", "%s: %s",
               d->drain ? "failed to drain and delete node" : "failed to delete empty node", why);
    autoscaler_decided(a, "node %s stays: %s", d->node->name, why);
    a->last_failure_ms = autoscaler_now(a);
    d->node->unneeded_since_ms = 0;
    autoscaler_taint(a, d->node, AUTOSCALER_HARD_TAINT, NULL, NULL);
    end(d);
}

// --- start ---

static bool runs_on(const json_t *pod, const struct autoscaler_deletion *d)
{
    return gs_streq(kube_pod_node(pod), d->node->name);
}

static char *pod_names(const struct autoscaler_deletion *d)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    size_t pos = 0;
    const json_t *pod;
    while ((pod = kube_cache_next(d->a->cfg.pods, &pos)))
        if (runs_on(pod, d) && !nodes_is_daemonset_pod(pod))
            gs_buf_addf(&out, "%s%s", out.len ? "," : "", kube_name(pod));
    return gs_buf_take(&out);
}

static void write_hard_taint(struct autoscaler_deletion *d)
{
    GS_AUTO_FREE char *value = gs_format("%lld", (long long)(autoscaler_now(d->a) / 1000));
    autoscaler_taint(d->a, d->node, AUTOSCALER_HARD_TAINT, value, "NoSchedule");
}

void autoscaler_delete(struct autoscaler *a, struct autoscaler_node *n, bool drain)
{
    struct autoscaler_deletion *d = gs_alloc(sizeof(*d));
    *d = (struct autoscaler_deletion){
        .a = a,
        .node = n,
        .pool = n->pool,
        .object = json_incref((json_t *)n->object),
        .drain = drain,
        .reason = n->readiness == AUTOSCALER_UNREADY ? "unready"
                  : drain                            ? "underutilized"
                                                     : "empty",
    };
    n->deletion = d;
    gs_grow(&a->deletions, &a->deletions_cap, a->n_deletions, sizeof(struct autoscaler_deletion *));
    a->deletions[a->n_deletions++] = d;
    enter(d, TAINTING);
    GS_AUTO_FREE char *pods = pod_names(d);
    if (drain)
        autoscaler_event(
            a, "Normal", "ScaleDown",
            "Scale-down: removing node %s, utilization: {%s %.4g}, pods to reschedule: "
            "%s",
            n->name, n->utilization_of, n->utilization, pods);
    else
        autoscaler_event(a, "Normal", "ScaleDownEmpty", "Scale-down: removing empty node \"%s\"",
                         n->name);
    char unneeded[GS_RFC3339_SIZE];
    gs_format_duration((autoscaler_now(a) - n->unneeded_since_ms) * GS_NS_PER_MS, unneeded);
    autoscaler_decided(a, "removing node %s of pool %s: %s, unneeded for %s%s%s", n->name,
                       n->pool->pool->name, d->reason, unneeded, drain ? ", moving " : "",
                       drain ? pods : "");
    write_hard_taint(d);
}

static void taint_step(struct autoscaler_deletion *d)
{
    if (d->node->object && autoscaler_has_taint(d->node->object, AUTOSCALER_HARD_TAINT)) {
        kube_event(d->a->recorder, d->object, "Normal", "ScaleDown",
                   "marked the node as toBeDeleted/unschedulable");
        enter(d, SETTLING);
    } else if (phase_age_ms(d) > TAINT_LIMIT_MS) {
        fail(d, "the taint could not be written");
    } else {
        write_hard_taint(d);
    }
}

// --- eviction ---

static int64_t grace_s(const struct autoscaler_deletion *d, const json_t *pod)
{
    int64_t s = codec_json_int(pod, 30, "spec", "terminationGracePeriodSeconds", NULL);
    int64_t max = d->a->cfg.settings.max_graceful_termination_s;
    return max > 0 && s > max ? max : s;
}

static void add_eviction(struct autoscaler_deletion *d, const json_t *pod, bool waits)
{
    struct eviction *e = gs_alloc(sizeof(*e));
    e->deletion = d;
    e->pod = json_incref((json_t *)pod);
    e->waits = waits;
    e->accepted = kube_is_deleting(pod);
    if (waits && grace_s(d, pod) * 1000 > d->grace_ms)
        d->grace_ms = grace_s(d, pod) * 1000;
    gs_grow(&d->evictions, &d->cap, d->n_evictions, sizeof(struct eviction *));
    d->evictions[d->n_evictions++] = e;
    if (!e->accepted)
        kube_event(d->a->recorder, pod, "Normal", "ScaleDown", "deleting pod for node scale down");
}

static void evicted(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct eviction *e = arg;
    struct autoscaler *a = e->deletion->a;
    (void)body;
    e->request = NULL;
    if (!err || status == 404) {
        e->accepted = true;
        a->counters.evicted++;
    } else {
        free(e->error);
        e->error = gs_strdup(gs_error_message(err));
        e->next_ms = autoscaler_now(a) + EVICTION_RETRY_MS;
    }
    gs_error_free(err);
    autoscaler_deletions_step(a);
}

static void evict(struct eviction *e)
{
    const char *ns = kube_namespace(e->pod), *name = kube_name(e->pod);
    CODEC_AUTO_JSON json_t *eviction =
        json_pack("{s:s, s:s, s:{s:s, s:s}, s:{s:I}}", "apiVersion", "policy/v1", "kind",
                  "Eviction", "metadata", "namespace", ns, "name", name, "deleteOptions",
                  "gracePeriodSeconds", (json_int_t)grace_s(e->deletion, e->pod));
    e->request = kube_create_sub(e->deletion->a->client, KUBE_PODS, ns, name, "eviction", eviction,
                                 evicted, e);
}

static bool is_gone(const struct autoscaler_deletion *d, const json_t *pod)
{
    const json_t *now = kube_cache_get(d->a->cfg.pods, kube_namespace(pod), kube_name(pod));
    return !now || !gs_streq(kube_uid(now), kube_uid(pod)) || !runs_on(now, d);
}

// Decides again which pods have to move: some may have been scheduled before the taint.
static void settle_step(struct autoscaler_deletion *d)
{
    struct autoscaler *a = d->a;
    if (phase_age_ms(d) < a->cfg.settings.delay_after_taint / GS_NS_PER_MS)
        return;
    struct nodes_budgets *budgets = autoscaler_budgets(a);
    const struct nodes_plan_settings settings = autoscaler_plan_settings(a);
    size_t pos = 0;
    const json_t *pod;
    char *why = NULL;
    while (!why && (pod = kube_cache_next(a->cfg.pods, &pos))) {
        if (!runs_on(pod, d) || kube_pod_is_mirror(pod))
            continue;
        enum nodes_keeper keeper = NODES_KEEPER_NONE;
        enum nodes_movability move =
            nodes_may_move(pod, &settings, budgets, autoscaler_now(a), &keeper);
        if (move == NODES_BLOCK)
            why = nodes_keeper_text(keeper, pod);
        else if (move == NODES_MOVE && !d->drain)
            why = gs_format("node was empty but has pod %s/%s now", kube_namespace(pod),
                            kube_name(pod));
        else if (move == NODES_MOVE)
            add_eviction(d, pod, true);
        else if (move == NODES_STAY && d->drain && a->cfg.settings.evict_daemonsets &&
                 nodes_is_daemonset_pod(pod) &&
                 !gs_streq(kube_annotation(pod, NODES_ANN "enable-ds-eviction"), "false"))
            add_eviction(d, pod, false);
    }
    nodes_budgets_free(budgets);
    if (why)
        fail(d, why);
    else
        enter(d, EVICTING);
    free(why);
}

static void evict_step(struct autoscaler_deletion *d)
{
    int64_t now_ms = autoscaler_now(d->a);
    bool late = phase_age_ms(d) > d->a->cfg.settings.max_eviction_time / GS_NS_PER_MS;
    size_t open = 0;
    const struct eviction *refused = NULL;
    for (size_t i = 0; i < d->n_evictions; i++) {
        struct eviction *e = d->evictions[i];
        if (e->accepted || (is_gone(d, e->pod) && !e->request))
            continue;
        if (e->waits) {
            open++;
            refused = e;
        }
        if (!e->request && now_ms >= e->next_ms)
            evict(e);
    }
    if (!open) {
        enter(d, LEAVING);
    } else if (late) {
        kube_event(d->a->recorder, refused->pod, "Warning", "ScaleDownFailed",
                   "failed to delete pod for ScaleDown");
        GS_AUTO_FREE char *why =
            gs_format("failed to evict pod %s/%s within allowed timeout (last error: %s)",
                      kube_namespace(refused->pod), kube_name(refused->pod),
                      refused->error ? refused->error : "no response");
        fail(d, why);
    }
}

// --- the machine ---

static void delete_machine(struct autoscaler_deletion *d)
{
    struct autoscaler *a = d->a;
    const char *id = codec_json_str(d->object, "spec", "providerID", NULL);
    GS_AUTO_ERROR struct gs_error *err =
        a->provider.delete_node(a->provider.ctx, d->pool->pool->name, id);
    if (err) {
        fail(d, gs_error_message(err));
        return;
    }
    a->last_delete_ms = autoscaler_now(a);
    *(gs_streq(d->reason, "empty")     ? &a->counters.scaled_down_empty
      : gs_streq(d->reason, "unready") ? &a->counters.scaled_down_unready
                                       : &a->counters.scaled_down_underutilized) += 1;
    kube_event(a->recorder, d->object, "Normal", "ScaleDown",
               "nodes removed by cluster autoscaler");
    if (d->drain)
        autoscaler_event(a, "Normal", "ScaleDown", "Scale-down: node %s removed with drain",
                         d->node->name);
    else
        autoscaler_event(a, "Normal", "ScaleDownEmpty", "Scale-down: empty node %s removed",
                         d->node->name);
    autoscaler_decided(a, "node %s of pool %s is removed", d->node->name, d->pool->pool->name);
    enter(d, DELETED);
}

static void leave_step(struct autoscaler_deletion *d)
{
    for (size_t i = 0; i < d->n_evictions; i++) {
        const struct eviction *e = d->evictions[i];
        if (!e->waits || is_gone(d, e->pod))
            continue;
        if (phase_age_ms(d) > d->grace_ms + TERMINATION_SPARE_MS)
            fail(d, "pods remaining after timeout");
        return;
    }
    delete_machine(d);
}

// --- steps ---

static void deletion_step(struct autoscaler_deletion *d)
{
    const json_t *object = kube_cache_get(d->a->cfg.nodes, NULL, d->node->name);
    if (!object || !gs_streq(kube_uid(object), kube_uid(d->object))) {
        end(d);
        return;
    }
    d->node->object = object;
    if (d->phase == TAINTING)
        taint_step(d);
    else if (d->phase == SETTLING)
        settle_step(d);
    else if (d->phase == EVICTING)
        evict_step(d);
    else if (d->phase == LEAVING)
        leave_step(d);
    else if (phase_age_ms(d) > DISAPPEAR_LIMIT_MS)
        end(d);
}

static void on_step(void *arg)
{
    autoscaler_deletions_step(arg);
}

void autoscaler_deletions_step(struct autoscaler *a)
{
    if (a->stopped)
        return;
    for (size_t i = a->n_deletions; i-- > 0;) // a step may remove its deletion
        if (i < a->n_deletions)
            deletion_step(a->deletions[i]);
    if (a->n_deletions && !gs_timer_is_active(a->steps))
        gs_timer_start(a->steps, on_step, STEP_MS);
}

void autoscaler_deletions_finish(struct autoscaler *a)
{
    for (size_t i = 0; i < a->n_deletions; i++)
        deletion_free(a->deletions[i]);
    free(a->deletions);
}
