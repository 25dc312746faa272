// SPDX-License-Identifier: Apache-2.0
// Autoscalers that another controller evaluates. They are visited one after the other in each
// period, and limited by their maxReplicas while the GPUs do not suffice for all. An annotation
// records the maxReplicas that they had, so that any later process can give it back.
#include "hpa_controller/budgets_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/slice.h"
#include "base/timer.h"
#include "hpa/status.h"
#include "kube/object.h"

struct hpa_budget_visits {
    struct hpa_budgets *budgets;
    struct gs_timer *timer;
    json_t *objects; // of this round; NULL: it has ended
    size_t next;
    // the visit
    struct hpa_spec spec;
    bool has_spec;
    struct hpa_scale *scale;
    struct kube_request *patch;
    bool refused;     // the last patch was, which was logged
    int32_t from, to; // replicas of the workload, if the patch is a move
    bool moves;
    bool releases;
    void (*released)(void *arg);
    void *arg;
};

// --- one visit ---

static void visit_next(void *arg);

static void drop_visit(struct hpa_budget_visits *v)
{
    kube_request_cancel(GS_TAKE(v->patch));
    hpa_scale_free(GS_TAKE(v->scale));
    if (v->has_spec)
        hpa_spec_finish(&v->spec);
    v->has_spec = false;
    v->moves = false;
}

static void end_visit(struct hpa_budget_visits *v)
{
    drop_visit(v);
    gs_timer_start(v->timer, visit_next, 0);
}

// An autoscaler that was deleted during its visit is no member any more.
static struct hpa_budget_workload *workload_of(const struct hpa_budget_visits *v)
{
    bool exists = kube_cache_get(v->budgets->cfg.hpas, v->spec.ns, v->spec.name) != NULL;
    return exists ? hpa_budget_workload(v->budgets, &v->spec) : NULL;
}

static void on_patched(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct hpa_budget_visits *v = arg;
    (void)body;
    v->patch = NULL;
    // Another writer came first: the next round sees its object.
    if (err && status != 409 && status != 404 && !v->refused) {
        gs_warn("hpa", "%s/%s: its maxReplicas cannot be changed for a GPU budget: %s", v->spec.ns,
                v->spec.name, gs_error_message(err));
        v->refused = true;
    }
    const struct hpa_budget_workload *w = !err && v->moves ? workload_of(v) : NULL;
    if (w)
        hpa_budget_note(v->budgets, w, v->from, v->to, gs_unix_ms());
    gs_error_free(err);
    end_visit(v);
}

// The annotation says nothing any more, because somebody has set another maxReplicas.
static void remove_annotation(struct hpa_budget_visits *v)
{
    CODEC_AUTO_JSON json_t *body = json_object();
    codec_json_set(body, json_string(kube_resource_version(v->spec.object)), "metadata",
                   "resourceVersion", NULL);
    codec_json_set(body, json_null(), "metadata", "annotations", BUDGET_RECORD_ANNOTATION, NULL);
    v->patch = kube_patch(v->budgets->cfg.client, KUBE_HPAS, v->spec.ns, v->spec.name, NULL,
                          KUBE_MERGE_PATCH, body, on_patched, v);
}

// set 0: gives back what it had.
static void patch(struct hpa_budget_visits *v, int32_t had, int32_t set)
{
    CODEC_AUTO_JSON json_t *body = json_object();
    json_t *text =
        set ? codec_json_strf("maxReplicas=%d,set=%d,by=%s", had, set, v->budgets->cfg.ns)
            : json_null();
    codec_json_set(body, json_string(kube_resource_version(v->spec.object)), "metadata",
                   "resourceVersion", NULL);
    codec_json_set(body, text, "metadata", "annotations", BUDGET_RECORD_ANNOTATION, NULL);
    codec_json_set(body, json_integer(set ? set : had), "spec", "maxReplicas", NULL);
    gs_info("hpa", "%s/%s: maxReplicas %d to %d%s", v->spec.ns, v->spec.name, v->spec.max_replicas,
            set ? set : had, set ? " for a GPU budget" : " again");
    v->patch = kube_patch(v->budgets->cfg.client, KUBE_HPAS, v->spec.ns, v->spec.name, NULL,
                          KUBE_MERGE_PATCH, body, on_patched, v);
}

// Whether the budgets suffice for all that it may take without a limit, and nobody waits.
static bool fits(struct hpa_budgets *b, const struct hpa_budget_workload *w, int32_t most)
{
    bool all = true;
    for (size_t i = 0; i < b->policy.n_scopes && all; i++) {
        struct hpa_budget_set s;
        if (!hpa_budget_has_scope(w->scopes, i))
            continue;
        hpa_budget_set_init(b, i, w, &s);
        s.members[s.self].replicas = most;
        all = budget_free(&s.group) >= 0;
        for (size_t k = 0; k < s.group.n; k++)
            all = all && (k == s.self || !s.workloads[k]->waits);
        hpa_budget_set_finish(&s);
    }
    return all;
}

// The maxReplicas that it may have now; 0: its own.
static int32_t limit_of(struct hpa_budget_visits *v, struct hpa_budget_workload *w, int32_t had,
                        int64_t now_ms)
{
    struct hpa_budgets *b = v->budgets;
    struct hpa_budget_outcome out = hpa_budget_decide(b, w, now_ms, true);
    int32_t least = w->member.floor > 1 ? w->member.floor : 1;
    int32_t limit = out.replicas > least ? out.replicas : least;
    bool unlimited = !w->scopes || limit >= had || fits(b, w, had);
    w->waits = out.text && out.replicas < w->member.demand;
    free(out.text);
    v->moves = !unlimited && limit != w->member.replicas;
    v->from = w->member.replicas;
    v->to = limit;
    w->member.replicas = unlimited ? had : limit;
    return unlimited ? 0 : limit;
}

// A limit that was set counts as if all its replicas were set: the other controller may use it at
// any time.
static void decide(struct hpa_budget_visits *v)
{
    struct hpa_budgets *b = v->budgets;
    const struct hpa_observation obs = {.scale_found = true,
                                        .spec_replicas = hpa_scale_spec_replicas(v->scale),
                                        .status_replicas = hpa_scale_status_replicas(v->scale),
                                        .selector = hpa_scale_selector(v->scale)};
    struct budget_record record = {0};
    bool limited = budget_record_of(v->spec.object, &record);
    int32_t had = limited ? record.had : v->spec.max_replicas;
    int64_t now_ms = gs_unix_ms();
    struct hpa_budget_workload *w = workload_of(v);
    if (!w) {
        end_visit(v);
        return;
    }
    hpa_budget_follow_clock(b, now_ms);
    hpa_budget_pods_refresh(b);
    int32_t wanted = hpa_status_demand(&v->spec, obs.spec_replicas, had);
    hpa_budget_read(b, w, &v->spec, &obs,
                    budget_demand(wanted, obs.spec_replicas, hpa_spec_has_utilization(&v->spec),
                                  limited && w->waits, &w->hidden),
                    now_ms);
    if (!hpa_budget_enforced(b) || !w->known) {
        end_visit(v);
        return;
    }
    if (limited && record.set > w->member.replicas)
        w->member.replicas = record.set;
    int32_t set = limit_of(v, w, had, now_ms);
    if (set == (limited ? record.set : 0))
        end_visit(v);
    else
        patch(v, had, set);
}

static void on_scale(void *arg, struct gs_error *err)
{
    struct hpa_budget_visits *v = arg;
    GS_AUTO_FREE char *key = kube_key(v->spec.object);
    if (!err) {
        decide(v);
        return;
    }
    if (gs_error_code(err) == GS_ENOTFOUND)
        hpa_budgets_forget(v->budgets, key);
    end_visit(v);
    gs_error_free(err);
}

// --- a round ---

static void begin_round(void *arg);

static void end_round(struct hpa_budget_visits *v)
{
    json_decref(GS_TAKE(v->objects));
    if (v->releases) {
        v->released(v->arg);
        return;
    }
    gs_timer_start(v->timer, begin_round, (uint64_t)v->budgets->cfg.period_ms);
}

// Whether it is limited although it must not be.
static bool is_left_over(const struct hpa_budget_visits *v, const json_t *hpa, bool own,
                         struct budget_record *ret)
{
    return budget_record_of(hpa, ret) && (own || !hpa_budget_enforced(v->budgets));
}

// Whether no budget can have the workload, so that its scale need not be read. What a workload
// needs is read again from time to time.
static bool is_outside(const struct hpa_budgets *b, const char *key, const json_t *hpa)
{
    const struct hpa_budget_workload *w = gs_hmap_get_str(b->workloads, key);
    bool named = false;
    for (size_t i = 0; i < b->policy.n_scopes && !named; i++)
        named = budget_scope_has_namespace(&b->policy.scopes[i], kube_namespace(hpa));
    return !named || (w && !w->scopes && w->template && hpa_budget_is_fresh(w, gs_unix_ms()));
}

// True: a visit has begun, which continues with end_visit().
static bool visit(struct hpa_budget_visits *v, json_t *hpa)
{
    struct hpa_budgets *b = v->budgets;
    struct budget_record record;
    GS_AUTO_FREE char *key = kube_key(hpa);
    if (b->holder && !hpa_budget_holds(b) && (!v->releases || hpa_budget_rival(b)))
        return false; // another process enforces them, or may
    bool own = b->cfg.is_own(b->cfg.arg, key), left = is_left_over(v, hpa, own, &record);
    bool stale = kube_annotation(hpa, BUDGET_RECORD_ANNOTATION) && !budget_record_of(hpa, &record);
    bool recorded = left || stale;
    if (budget_record_of_others(hpa, b->cfg.ns))
        return false; // the budgets of another ConfigMap
    if (!recorded && (own || !b->has_policy || v->releases ||
                      (!kube_annotation(hpa, BUDGET_RECORD_ANNOTATION) && is_outside(b, key, hpa))))
        return false;
    GS_AUTO_ERROR struct gs_error *err = hpa_spec_parse(hpa, &v->spec);
    if (err)
        return false;
    v->has_spec = true;
    if (recorded) {
        if (left)
            patch(v, record.had, 0);
        else
            remove_annotation(v);
        return true;
    }
    v->scale = hpa_scale_new(b->cfg.loop, b->cfg.client, b->cfg.resources, &v->spec);
    hpa_scale_read(v->scale, on_scale, v);
    return true;
}

static void visit_next(void *arg)
{
    struct hpa_budget_visits *v = arg;
    while (v->next < json_array_size(v->objects))
        if (visit(v, json_array_get(v->objects, v->next++)))
            return;
    end_round(v);
}

static void begin_round(void *arg)
{
    struct hpa_budget_visits *v = arg;
    bool ready = kube_cache_synced(v->budgets->cfg.hpas) && hpa_budget_policy_known(v->budgets);
    v->next = 0;
    v->objects = ready ? kube_cache_objects(v->budgets->cfg.hpas) : json_array();
    visit_next(v);
}

struct hpa_budget_visits *hpa_budget_visits_new(struct hpa_budgets *b)
{
    struct hpa_budget_visits *v = gs_alloc(sizeof(*v));
    v->budgets = b;
    v->timer = gs_timer_new(b->cfg.loop, v);
    return v;
}

void hpa_budget_visits_start(struct hpa_budget_visits *v)
{
    gs_timer_start(v->timer, begin_round, (uint64_t)v->budgets->cfg.period_ms);
}

void hpa_budget_visits_release(struct hpa_budget_visits *v, void (*done)(void *arg), void *arg)
{
    v->releases = true;
    v->released = done;
    v->arg = arg;
    gs_timer_stop(v->timer); // of the round that ends here
    drop_visit(v);
    json_decref(GS_TAKE(v->objects));
    begin_round(v);
}

void hpa_budget_visits_free(struct hpa_budget_visits *v)
{
    if (!v)
        return;
    drop_visit(v);
    json_decref(v->objects);
    gs_timer_free(v->timer);
    free(v);
}
