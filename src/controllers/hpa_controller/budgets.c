// SPDX-License-Identifier: Apache-2.0
// The ConfigMap with the budgets, and what it means for one decision after the other. Growth that
// was decided counts at once, so that two autoscalers do not take the same GPUs.
#include "hpa_controller/budgets_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/slice.h"
#include "base/timer.h"
#include "hpa/observe.h"
#include "kube/object.h"

#include <ctype.h>

#define READY_MS   50 // pause between looks whether the ConfigMap was read
#define GIVE_UP_NS (60 * GS_NS_PER_SEC)

// A template is read again after this time.
#define TEMPLATE_MS 60000
// How long a workload controller may still act on a number that was replaced.
#define SETTLE_MS 5000
// A replica that was moved stays for so many starts, and at least for a time in which a metric can
// show the effect.
#define HOLD_STARTS   2
#define HOLD_LEAST_MS 60000

// --- the ConfigMap ---

static struct budget_memory *memory_named(struct budget_memory **memories,
                                          const struct budget_policy *p, const char *name)
{
    for (size_t i = 0; i < p->n_scopes; i++)
        if (gs_streq(p->scopes[i].name, name))
            return GS_TAKE(memories[i]);
    return NULL;
}

static uint32_t scopes_of(const struct hpa_budgets *b, const struct hpa_budget_workload *w);

// The places of the scopes of a policy mean nothing in another one. Workloads count in the new ones
// before they are evaluated again.
static void find_scopes_again(struct hpa_budgets *b)
{
    size_t pos = 0;
    void *value;
    hpa_budget_pods_refresh(b); // knows the models of the nodes
    while (gs_hmap_next(b->workloads, &pos, NULL, &value)) {
        struct hpa_budget_workload *w = value;
        w->scopes = scopes_of(b, w);
        w->idle = 0;
    }
}

// Moves keep binding if a budget keeps its name.
static void use_policy(struct hpa_budgets *b, struct budget_policy *fresh)
{
    struct budget_memory *memories[BUDGET_MAX_SCOPES] = {0};
    for (size_t i = 0; i < fresh->n_scopes; i++) {
        memories[i] = memory_named(b->memories, &b->policy, fresh->scopes[i].name);
        if (!memories[i])
            memories[i] = budget_memory_new();
    }
    for (size_t i = 0; i < BUDGET_MAX_SCOPES; i++)
        budget_memory_free(b->memories[i]);
    memcpy(b->memories, memories, sizeof(memories));
    budget_policy_finish(&b->policy);
    b->policy = *fresh;
    b->has_policy = true;
    hpa_budget_usage_prune(b);
    gs_info("hpa", "GPU budgets: %zu, %s", fresh->n_scopes,
            fresh->enforce ? "enforced" : "dry run: nothing is limited");
    hpa_budget_holder_update(b);
    hpa_budget_pods_start(b);
    find_scopes_again(b);
    if (b->idle) {
        hpa_budget_idle_free(b->idle); // what it measures belongs to the scopes before
        b->idle = hpa_budget_idle_new(b);
    }
}

static void drop_policy(struct hpa_budgets *b)
{
    size_t pos = 0;
    void *value;
    if (b->has_policy)
        gs_info("hpa", "GPU budgets: the ConfigMap was deleted");
    budget_policy_finish(&b->policy);
    b->has_policy = false;
    hpa_budget_holder_update(b);
    while (gs_hmap_next(b->workloads, &pos, NULL, &value))
        ((struct hpa_budget_workload *)value)->scopes = 0;
}

// The last valid policy stays in force while a newer text is wrong.
static void on_map(void *arg, const json_t *old_obj, const json_t *new_obj)
{
    struct hpa_budgets *b = arg;
    struct budget_policy fresh;
    (void)old_obj;
    free(GS_TAKE(b->error));
    GS_AUTO_ERROR struct gs_error *err = new_obj ? budget_policy_of(new_obj, &fresh) : NULL;
    if (err) {
        gs_warn("hpa", "%s; %s", gs_error_message(err),
                b->has_policy ? "the budgets before it stay" : "no budget is applied");
        b->error = gs_strdup(gs_error_message(err));
    } else if (new_obj) {
        use_policy(b, &fresh);
    } else {
        drop_policy(b);
    }
}

static void free_workload(void *arg)
{
    struct hpa_budget_workload *w = arg;
    kube_request_cancel(w->request);
    kube_selector_finish(&w->selector);
    json_decref(w->template);
    json_decref(w->pod_labels);
    free(w->selector_text);
    free(w->list_key);
    free(w->idle_text);
    free(w->target);
    free(w->model);
    free(w->key);
    free(w->ns);
    free(w);
}

struct hpa_budgets *hpa_budgets_new(const struct hpa_budgets_config *cfg)
{
    struct hpa_budgets *b = gs_alloc(sizeof(*b));
    const struct kube_cache_handlers on_maps = {.on_change = on_map, .arg = b};
    b->cfg = *cfg;
    b->workloads = gs_hmap_new(free_workload);
    b->index = gs_hmap_new(free);
    b->uses = gs_hmap_new(free);
    b->maps = kube_cache_new(cfg->loop, cfg->client, KUBE_CONFIGMAPS, cfg->ns,
                             "fieldSelector=metadata.name%3D" BUDGET_CONFIG_MAP);
    kube_cache_add_handlers(b->maps, &on_maps);
    if (!cfg->shadow)
        b->visits = hpa_budget_visits_new(b);
    return b;
}

bool hpa_budget_policy_known(const struct hpa_budgets *b)
{
    return kube_cache_synced(b->maps) || kube_cache_denied(b->maps);
}

// A list that fails once does not mean that there are no budgets.
bool hpa_budgets_ready(const struct hpa_budgets *b)
{
    bool waited = b->started_ns && gs_mono_ns() - b->started_ns > GIVE_UP_NS;
    return hpa_budget_policy_known(b) || (waited && kube_cache_error(b->maps));
}

static void check_ready(void *arg)
{
    struct hpa_budgets *b = arg;
    if (!hpa_budgets_ready(b))
        return;
    gs_timer_stop(b->timer);
    b->cfg.ready(b->cfg.arg);
}

void hpa_budgets_start(struct hpa_budgets *b)
{
    b->started_ns = gs_mono_ns();
    kube_cache_start(b->maps);
    b->timer = gs_timer_new(b->cfg.loop, b);
    gs_timer_repeat(b->timer, check_ready, 0, READY_MS);
    if (b->visits)
        hpa_budget_visits_start(b->visits);
    b->idle = hpa_budget_idle_new(b);
    hpa_budget_usage_start(b);
    b->errors =
        kube_watch_errors_new(b->cfg.loop, b->maps, "hpa", "the ConfigMap " BUDGET_CONFIG_MAP);
}

void hpa_budgets_free(struct hpa_budgets *b)
{
    if (!b)
        return;
    hpa_budget_visits_free(b->visits);
    hpa_budget_holder_free(b->holder);
    hpa_budget_idle_free(b->idle);
    hpa_budget_pods_stop(b);
    gs_timer_free(b->timer);
    kube_watch_errors_free(b->errors);
    kube_cache_free(b->maps);
    gs_hmap_free(b->workloads);
    gs_hmap_free(b->index);
    gs_hmap_free(b->uses);
    gs_timer_free(b->usage_timer);
    budget_policy_finish(&b->policy);
    for (size_t i = 0; i < BUDGET_MAX_SCOPES; i++)
        budget_memory_free(b->memories[i]);
    free(b->error);
    free(b);
}

void hpa_budgets_release(struct hpa_budgets *b, void (*done)(void *arg), void *arg)
{
    b->released = true;
    if (b->visits)
        hpa_budget_visits_release(b->visits, done, arg);
    else
        done(arg);
}

// --- the clock ---

// Holds measure elapsed time.
void hpa_budget_follow_clock(struct hpa_budgets *b, int64_t now_ms)
{
    int64_t step = hpa_clock_step(&b->clock, now_ms);
    size_t pos = 0;
    void *value;
    if (!step)
        return;
    for (size_t i = 0; i < b->policy.n_scopes; i++)
        budget_memory_shift(b->memories[i], step);
    while (gs_hmap_next(b->workloads, &pos, NULL, &value))
        ((struct hpa_budget_workload *)value)->settles_ms += step;
}

// --- what a workload needs ---

static void on_target(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct hpa_budget_workload *w = arg;
    bool first = !w->known;
    (void)status;
    w->request = NULL;
    w->known = true;
    if (!err) {
        json_decref(w->template);
        w->template =
            json_incref((json_t *)(uintptr_t)codec_json_get(body, "spec", "template", NULL));
    } else if (first) {
        gs_warn("hpa",
                "%s: its template cannot be read, so that GPU budgets know its pods only: %s",
                w->key, gs_error_message(err));
    }
    gs_error_free(err);
    if (first)
        w->budgets->cfg.wake(w->budgets->cfg.arg, w->key);
}

bool hpa_budget_is_fresh(const struct hpa_budget_workload *w, int64_t now_ms)
{
    return w->read_ms && now_ms - w->read_ms < TEMPLATE_MS && now_ms >= w->read_ms;
}

static void read_target(struct hpa_budgets *b, struct hpa_budget_workload *w,
                        const struct hpa_spec *spec, int64_t now_ms)
{
    struct kube_gvr resource;
    bool known = false;
    if (hpa_budget_is_fresh(w, now_ms) || w->request)
        return;
    GS_AUTO_ERROR struct gs_error *err = hpa_resources_get(
        b->cfg.resources, spec->target_api_version, spec->target_kind, &known, &resource);
    if (err || !known)
        return;
    w->read_ms = now_ms;
    w->request = kube_get(b->cfg.client, resource, w->ns, spec->target_name, NULL, on_target, w);
}

static void read_selector(struct hpa_budgets *b, struct hpa_budget_workload *w, const char *text)
{
    if (gs_streq(text, w->selector_text))
        return;
    free(w->selector_text);
    w->selector_text = gs_strdup(text);
    kube_selector_finish(&w->selector);
    w->selector = (struct kube_selector){.nothing = true};
    GS_AUTO_ERROR struct gs_error *err =
        text && *text ? kube_selector_parse(text, &w->selector) : NULL;
    if (text && *text && !err)
        w->selector.nothing = false;
    hpa_budget_index_put(b, w);
    hpa_budget_pods_claim(b, w);
}

static void read_weight(const struct hpa_budgets *b, struct hpa_budget_workload *w,
                        const struct hpa_spec *spec)
{
    const char *class = codec_json_str(w->template, "spec", "priorityClassName", NULL);
    GS_AUTO_ERROR struct gs_error *err =
        budget_weight(&b->policy, kube_annotation(spec->object, BUDGET_PRIORITY_ANNOTATION), class,
                      &w->member.weight);
    if (err)
        gs_debug("hpa", "%s: %s", w->key, gs_error_message(err));
}

static uint32_t scopes_of(const struct hpa_budgets *b, const struct hpa_budget_workload *w)
{
    const json_t *labels =
        w->template ? codec_json_get(w->template, "metadata", "labels", NULL) : w->pod_labels;
    const char *model = w->model ? w->model : startup_gpu_model(w->template, NULL);
    return w->member.gpus > 0 ? hpa_budget_scopes(b, w->ns, labels, model ? model : b->sole_model)
                              : 0;
}

struct hpa_budget_workload *hpa_budget_workload(struct hpa_budgets *b, const struct hpa_spec *spec)
{
    GS_AUTO_FREE char *key = gs_format("%s/%s", spec->ns, spec->name);
    struct hpa_budget_workload *w = gs_hmap_get_str(b->workloads, key);
    if (w)
        return w;
    w = gs_alloc(sizeof(*w));
    w->budgets = b;
    w->ns = gs_strdup(spec->ns);
    w->target = gs_format("%s/%s", spec->target_kind, spec->target_name);
    for (char *c = w->target; *c != '/'; c++)
        *c = (char)tolower((unsigned char)*c);
    w->selector.nothing = true;
    w->member.key = w->key = GS_TAKE(key);
    gs_hmap_put_str(b->workloads, w->key, w);
    return w;
}

void hpa_budget_read(struct hpa_budgets *b, struct hpa_budget_workload *w,
                     const struct hpa_spec *spec, const struct hpa_observation *obs, int32_t demand,
                     int64_t now_ms)
{
    struct budget_member *m = &w->member;
    read_target(b, w, spec, now_ms);
    read_selector(b, w, obs->selector);
    read_weight(b, w, spec);
    int64_t gpus = w->template ? hpa_gpus_of_pod(w->template) : w->pod_gpus;
    m->gpus = (int32_t)(gpus > BUDGET_MAX_GPUS ? BUDGET_MAX_GPUS : gpus);
    m->floor = spec->has_min ? spec->min_replicas : 1;
    m->demand = demand;
    m->replicas = obs->spec_replicas;
    if (now_ms >= w->settles_ms || m->settling <= m->replicas)
        m->settling = 0;
    m->hold_ms = HOLD_STARTS * hpa_starts_expected_ms(b->cfg.starts, w->ns, w->target);
    if (m->hold_ms < HOLD_LEAST_MS)
        m->hold_ms = HOLD_LEAST_MS;
    w->scopes = scopes_of(b, w);
}

void hpa_budgets_forget(struct hpa_budgets *b, const char *key)
{
    struct hpa_budget_workload *w = gs_hmap_remove_str(b->workloads, key);
    if (!w)
        return;
    hpa_budget_index_remove(b, w);
    hpa_budget_usage_forget(b, key);
    if (b->pods)
        hpa_budget_pods_release(b, w);
    free_workload(w);
}

// --- decisions ---

// Members with more than their share, if this one waits for it.
static void wake_holders(const struct hpa_budgets *b, const struct hpa_budget_set *s)
{
    GS_AUTO_FREE int32_t *shares = gs_alloc_array(s->group.n + 1, sizeof(*shares));
    budget_share(&s->group, shares);
    for (size_t i = 0; i < s->group.n; i++)
        if (i != s->self && shares[i] < s->members[i].replicas)
            b->cfg.wake(b->cfg.arg, s->workloads[i]->key);
}

struct hpa_budget_outcome hpa_budget_decide(const struct hpa_budgets *b,
                                            struct hpa_budget_workload *w, int64_t now_ms,
                                            bool wakes)
{
    struct hpa_budget_outcome out = {.replicas = w->member.demand};
    for (size_t i = 0; i < b->policy.n_scopes; i++) {
        struct hpa_budget_set s;
        struct budget_result r;
        GS_AUTO_BUF struct gs_buf text = {0};
        if (!hpa_budget_has_scope(w->scopes, i))
            continue;
        hpa_budget_set_init(b, i, w, &s);
        budget_decide(&s.group, s.self, b->memories[i], now_ms, &r);
        if (r.replicas < out.replicas) {
            budget_result_text(&s.group, s.self, b->memories[i], &r, now_ms, &text);
            free(out.text);
            out = (struct hpa_budget_outcome){r.replicas, gs_buf_take(&text)};
        }
        if (wakes && r.reason == BUDGET_WAITS)
            wake_holders(b, &s);
        hpa_budget_set_finish(&s);
    }
    return out;
}

void hpa_budget_note(const struct hpa_budgets *b, const struct hpa_budget_workload *w, int32_t from,
                     int32_t to, int64_t now_ms)
{
    for (size_t i = 0; i < b->policy.n_scopes; i++) {
        struct hpa_budget_set s;
        if (!hpa_budget_has_scope(w->scopes, i))
            continue;
        hpa_budget_set_init(b, i, w, &s);
        s.members[s.self].replicas = from;
        budget_note(b->memories[i], &s.group, s.self, to, now_ms);
        hpa_budget_set_finish(&s);
    }
}

// What the caller writes next.
static void commit(struct hpa_budget_workload *w, const struct hpa_observation *obs,
                   int32_t replicas, int64_t now_ms)
{
    struct budget_member *m = &w->member;
    bool follows = obs->status_replicas >= m->replicas;
    if (replicas < m->replicas && !follows) {
        m->settling = m->settling > m->replicas ? m->settling : m->replicas;
        w->settles_ms = now_ms + SETTLE_MS;
    }
    m->replicas = replicas;
}

static bool limits_own(const struct hpa_budgets *b)
{
    return b->policy.enforce && !b->cfg.shadow && !hpa_budget_rival(b);
}

bool hpa_budget_enforced(const struct hpa_budgets *b)
{
    return limits_own(b) && !b->released && hpa_budget_holds(b);
}

void hpa_budgets_decide(struct hpa_budgets *b, const struct hpa_spec *spec,
                        const struct hpa_observation *obs, struct hpa_decision *d)
{
    int64_t now_ms = gs_unix_ms();
    if (!b->has_policy || !obs->scale_found)
        return;
    struct hpa_budget_workload *w = hpa_budget_workload(b, spec);
    hpa_budget_follow_clock(b, now_ms);
    hpa_budget_pods_refresh(b);
    bool refused = w->waits && limits_own(b);
    int32_t demand = budget_demand(d->desired, d->current, hpa_decision_by_utilization(spec, d),
                                   refused, &w->hidden);
    hpa_budget_read(b, w, spec, obs, demand, now_ms);
    // Until its GPUs and labels are known, it does not grow.
    w->moves = false;
    bool unknown = !w->known && w->request && d->desired > d->current;
    if (unknown && limits_own(b)) {
        hpa_decision_cap(d, d->current, "GPU budgets: the GPUs of a replica are not known yet");
        return;
    }
    struct hpa_budget_outcome out = hpa_budget_decide(b, w, now_ms, limits_own(b));
    w->waits = out.text && out.replicas < w->member.demand;
    if (limits_own(b)) {
        if (out.text)
            hpa_decision_cap(d, out.replicas, out.text);
        w->moves = d->rescale;
    }
    if (!b->cfg.shadow)
        commit(w, obs, d->desired, now_ms);
    free(out.text);
}

void hpa_budgets_written(struct hpa_budgets *b, const struct hpa_decision *d, const char *key)
{
    struct hpa_budget_workload *w = gs_hmap_get_str(b->workloads, key);
    if (w && w->moves)
        hpa_budget_note(b, w, d->current, d->desired, gs_unix_ms());
}

// --- reports ---

json_t *hpa_budgets_json(const struct hpa_budgets *b, const char *key, int64_t now_ms)
{
    struct hpa_budget_workload *w = gs_hmap_get_str(b->workloads, key);
    json_t *out = json_object(), *list = json_array();
    if (b->error)
        codec_json_set_str(out, "error", b->error);
    for (size_t i = 0; w && i < b->policy.n_scopes; i++) {
        struct hpa_budget_set s;
        struct budget_result r;
        if (!hpa_budget_has_scope(w->scopes, i))
            continue;
        hpa_budget_set_init(b, i, w, &s);
        budget_decide(&s.group, s.self, b->memories[i], now_ms, &r);
        json_t *result = budget_result_json(&s.group, s.self, b->memories[i], &r, now_ms);
        const char *idle = hpa_budget_idle_text(w);
        if (b->policy.scopes[i].idle_after_ms && idle)
            codec_json_set_str(result, "idle", idle);
        json_array_append_new(list, result);
        hpa_budget_set_finish(&s);
    }
    if (!w || !json_array_size(list)) {
        if (b->error) { // the budgets may be meant for it
            json_object_set_new(out, "budgets", list);
            return out;
        }
        json_decref(list);
        json_decref(out);
        return NULL;
    }
    struct hpa_budget_outcome result = hpa_budget_decide(b, w, now_ms, false);
    if (b->policy.enforce && hpa_budget_rival(b))
        codec_json_set_str(out, "enforcedBy", hpa_budget_rival(b));
    codec_json_set_str(out, "mode", b->policy.enforce ? "enforce" : "dryRun");
    codec_json_set_bool(out, "applied", limits_own(b) && result.text);
    codec_json_set_int(out, "replicas", result.replicas);
    codec_json_set_str(out, "text", result.text ? result.text : "");
    json_object_set_new(out, "budgets", list);
    free(result.text);
    return out;
}

static void write_family(const char *name, const char *help, struct gs_buf *out)
{
    gs_buf_addf(out, "# HELP %s %s\n# TYPE %s gauge\n", name, help, name);
}

static void write_scopes(const struct hpa_budgets *b, const char *name, const char *help, bool used,
                         struct gs_buf *out)
{
    write_family(name, help, out);
    for (size_t i = 0; i < b->policy.n_scopes; i++) {
        struct hpa_budget_set s;
        hpa_budget_set_init(b, i, NULL, &s);
        int64_t gpus = used ? s.group.gpus - budget_free(&s.group) : s.group.gpus;
        gs_buf_addf(out, "%s{budget=\"%s\"} %lld\n", name, s.group.name, (long long)gpus);
        hpa_budget_set_finish(&s);
    }
}

static void write_members(const struct hpa_budgets *b, const char *name, const char *help,
                          bool share, struct gs_buf *out)
{
    write_family(name, help, out);
    for (size_t i = 0; i < b->policy.n_scopes; i++) {
        struct hpa_budget_set s;
        hpa_budget_set_init(b, i, NULL, &s);
        GS_AUTO_FREE int32_t *shares = gs_alloc_array(s.group.n + 1, sizeof(*shares));
        budget_share(&s.group, shares);
        for (size_t k = 0; k < s.group.n; k++)
            gs_buf_addf(out,
                        "%s{budget=\"%s\",namespace=\"%s\",horizontalpodautoscaler=\"%s\"} %d\n",
                        name, s.group.name, s.workloads[k]->ns,
                        s.workloads[k]->key + strlen(s.workloads[k]->ns) + 1,
                        share ? shares[k] : s.members[k].demand);
        hpa_budget_set_finish(&s);
    }
}

void hpa_budgets_write_metrics(const struct hpa_budgets *b, struct gs_buf *out)
{
    if (!b->has_policy)
        return;
    write_scopes(b, "gpuscale_budget_gpus", "GPUs of a budget.", false, out);
    write_scopes(b, "gpuscale_budget_used_gpus",
                 "GPUs of a budget that pods have, or that set replicas will take.", true, out);
    write_members(b, "gpuscale_budget_wanted_replicas",
                  "Replicas that an autoscaler wants, before the budget.", false, out);
    write_members(b, "gpuscale_budget_share_replicas", "Replicas by the share of a budget.", true,
                  out);
    hpa_budget_usage_write(b, out);
}
