// SPDX-License-Identifier: Apache-2.0
// Evaluates groups by timers. Each evaluation runs in a fiber and pauses in its queries, so that
// scrapes, requests and other groups are not delayed. Each source of rules (the files of the
// configuration, and each additional set) is replaced as a whole. Groups that exist in both
// versions keep their state.
#include "engine/rules/rules_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"

enum { DEFAULT_INTERVAL_MS = 60000, EVALS_BEFORE_RESTORE = 2 };

struct rules_manager *rules_manager_new(uv_loop_t *loop, struct tsdb *db,
                                        struct promql_engine *engine, const char *external_url)
{
    struct rules_manager *m = gs_alloc(sizeof(*m));
    m->loop = loop;
    m->external_url = gs_strdup(external_url ? external_url : "");
    m->runner_cfg = (struct rules_runner_config){.db = db,
                                                 .engine = engine,
                                                 .external_url = m->external_url,
                                                 .timing = RULES_TIMING_DEFAULT};
    m->interval_ms = DEFAULT_INTERVAL_MS;
    m->notifier = rules_notifier_new(loop, m->external_url);
    TAILQ_INIT(&m->paused);
    m->turn = gs_alloc(sizeof(*m->turn));
    uv_idle_init(loop, m->turn);
    m->turn->data = m;
    return m;
}

void rules_manager_set_timing(struct rules_manager *m, const struct rules_timing *timing)
{
    m->runner_cfg.timing = *timing;
}

void rules_manager_set_discovery(struct rules_manager *m, struct kube_client *kube,
                                 struct discovery_stats *stats)
{
    rules_notifier_set_discovery(m->notifier, kube, stats);
}

// --- timers ---

static void free_handle(uv_handle_t *h)
{
    free(h);
}

static int64_t floor_mod(int64_t a, int64_t b)
{
    int64_t r = a % b;
    return r < 0 ? r + b : r;
}

// The evaluation time at or before now. Groups are spread over their interval by a hash of their
// name.
static int64_t slot_before(const struct rules_managed_group *g, int64_t now_ms)
{
    int64_t interval = g->runner->interval_ms;
    int64_t offset = (int64_t)(g->hash % (uint64_t)interval);
    return now_ms - floor_mod(now_ms - offset, interval);
}

static void on_evaluation_timer(void *arg);

static void schedule_evaluation(struct rules_managed_group *g)
{
    int64_t now = gs_unix_ms(), wait = g->next_ms - now;
    if (wait > g->runner->interval_ms) { // the clock was set back
        g->next_ms = slot_before(g, now) + g->runner->interval_ms;
        wait = g->next_ms - now;
    }
    gs_timer_start(g->timer, on_evaluation_timer, wait > 0 ? (uint64_t)wait : 0);
}

static void add_due(void *arg, const struct rules_alert *a, int64_t valid_until_ms)
{
    struct rules_manager *m = arg;
    rules_notifier_add(m->notifier, a, valid_until_ms);
}

// --- evaluations ---

static bool pause_eval(void *arg)
{
    const struct rules_manager *m = arg;
    const struct rules_managed_group *g = m->running;
    if (!g->runner->canceled)
        gs_fiber_pause(g->fiber);
    return !g->runner->canceled;
}

static void run_eval(void *arg)
{
    struct rules_managed_group *g = arg;
    rules_runner_eval(g->runner, g->eval_ms);
    if (!g->runner->canceled && g->evals_to_restore > 0 && --g->evals_to_restore == 0)
        rules_runner_restore(g->runner, gs_unix_ms());
}

static void evaluated(struct rules_managed_group *g)
{
    struct rules_manager *m = g->manager;
    m->seconds += (double)g->runner->duration_ns / 1e9;
    m->evaluations++;
    rules_runner_due(g->runner, g->eval_ms, m->runner_cfg.timing.resend_delay_ms, add_due, m);
    rules_notifier_flush(m->notifier);
    g->next_ms = g->eval_ms + g->runner->interval_ms;
    schedule_evaluation(g);
}

static void give_fiber_back(struct rules_manager *m, struct gs_fiber *f)
{
    if (m->spare)
        gs_fiber_free(f);
    else
        m->spare = f;
}

// Runs the evaluation until its next pause or its end. Returns true if it has ended.
static bool run_evaluation_step(struct rules_managed_group *g, bool first)
{
    struct rules_manager *m = g->manager;
    // A reload may run within an evaluation of another group.
    struct rules_managed_group *outer = m->running;
    struct promql_pause ours = {pause_eval, m};
    struct promql_pause before = promql_engine_swap_pause(m->runner_cfg.engine, ours);
    m->running = g;
    bool done = first ? gs_fiber_start(g->fiber, run_eval, g) : gs_fiber_resume(g->fiber);
    m->running = outer;
    promql_engine_swap_pause(m->runner_cfg.engine, before);
    if (done)
        give_fiber_back(m, GS_TAKE(g->fiber));
    return done;
}

static void on_turn(uv_idle_t *h)
{
    struct rules_manager *m = h->data;
    struct rules_managed_group *g = TAILQ_FIRST(&m->paused);
    TAILQ_REMOVE(&m->paused, g, paused);
    if (run_evaluation_step(g, false))
        evaluated(g);
    else
        TAILQ_INSERT_TAIL(&m->paused, g, paused);
    if (TAILQ_EMPTY(&m->paused))
        uv_idle_stop(h);
}

static void begin_eval(struct rules_managed_group *g)
{
    struct rules_manager *m = g->manager;
    g->fiber = GS_TAKE(m->spare);
    struct gs_error *err = g->fiber ? NULL : gs_fiber_new(&g->fiber);
    if (err) { // no memory for a fiber: evaluate without pauses
        gs_error_free(err);
        struct promql_pause before =
            promql_engine_swap_pause(m->runner_cfg.engine, (struct promql_pause){NULL, NULL});
        run_eval(g);
        promql_engine_swap_pause(m->runner_cfg.engine, before);
        evaluated(g);
    } else if (run_evaluation_step(g, true)) {
        evaluated(g);
    } else {
        TAILQ_INSERT_TAIL(&m->paused, g, paused);
        uv_idle_start(m->turn, on_turn);
    }
}

// Must be called before the rules of the group are freed.
static void cancel_eval(struct rules_managed_group *g)
{
    struct rules_manager *m = g->manager;
    if (!g->fiber)
        return;
    TAILQ_REMOVE(&m->paused, g, paused);
    if (TAILQ_EMPTY(&m->paused))
        uv_idle_stop(m->turn);
    g->runner->canceled = true;
    while (!run_evaluation_step(g, false))
        ;
    g->runner->canceled = false;
}

static void on_evaluation_timer(void *arg)
{
    struct rules_managed_group *g = arg;
    struct rules_runner *r = g->runner;
    int64_t now = gs_unix_ms(), late = now - g->next_ms;
    if (g->fiber) // the timer is set at the end of the evaluation
        return;
    if (late < 0) { // timers of the loop can be early because of rounding
        schedule_evaluation(g);
        return;
    }
    int64_t missed = late > 0 ? late / r->interval_ms : 0;
    r->missed += (uint64_t)missed;
    r->iterations += (uint64_t)missed;
    g->next_ms += missed * r->interval_ms;
    g->eval_ms = g->next_ms;
    begin_eval(g);
}

// --- groups ---

static struct rules_managed_group *group_new(struct rules_manager *m,
                                             const struct rules_group *from)
{
    struct rules_managed_group *g = gs_alloc(sizeof(*g));
    int64_t interval = from->interval_ms > 0 ? from->interval_ms : m->interval_ms;
    g->manager = m;
    g->runner = rules_runner_new(&m->runner_cfg, from, interval);
    GS_AUTO_FREE char *key = gs_format("%s;%s", from->file, from->name);
    g->hash = gs_hash(key, strlen(key));
    g->timer = gs_timer_new(m->loop, g);
    return g;
}

static void managed_group_free(struct rules_managed_group *g)
{
    cancel_eval(g);
    gs_timer_free(g->timer);
    rules_runner_free(g->runner);
    free(g);
}

static void start_group(struct rules_managed_group *g)
{
    g->next_ms = slot_before(g, gs_unix_ms()) + g->runner->interval_ms;
    schedule_evaluation(g);
}

static struct rules_managed_group *find_group(struct rules_file_source *s,
                                              const struct rules_group *like)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->groups[i] && gs_streq(s->groups[i]->runner->group->name, like->name) &&
            gs_streq(s->groups[i]->runner->group->file, like->file))
            return s->groups[i];
    return NULL;
}

static void take_over(struct rules_managed_group *g, struct rules_managed_group *old)
{
    cancel_eval(old);
    rules_runner_take_over(g->runner, old->runner);
    g->evals_to_restore = old->evals_to_restore;
    if (g->runner->interval_ms != old->runner->interval_ms) {
        start_group(g);
        return;
    }
    g->next_ms = old->next_ms;
    schedule_evaluation(g);
}

static void source_clear(struct rules_file_source *s, bool end_series)
{
    for (size_t i = 0; i < s->n; i++) {
        cancel_eval(s->groups[i]);
        if (end_series)
            rules_runner_end_series(s->groups[i]->runner, gs_unix_ms());
        managed_group_free(s->groups[i]);
    }
    free(s->groups);
    rules_set_free(s->set);
    s->groups = NULL;
    s->set = NULL;
    s->n = 0;
}

// Takes ownership of set. Its groups replace those of the source.
static void source_replace(struct rules_manager *m, struct rules_file_source *s,
                           struct rules_set *set)
{
    struct rules_file_source old = *s;
    s->set = set;
    s->n = 0;
    s->groups = gs_alloc_array(set->n_groups + 1, sizeof(struct rules_managed_group *));
    for (size_t i = 0; i < set->n_groups; i++) {
        struct rules_managed_group *g = group_new(m, &set->groups[i]);
        struct rules_managed_group *before = find_group(&old, &set->groups[i]);
        s->groups[s->n++] = g;
        if (before) {
            take_over(g, before);
            continue;
        }
        if (!s->loaded) {
            rules_runner_await_restore(g->runner);
            g->evals_to_restore = EVALS_BEFORE_RESTORE;
        }
        start_group(g);
    }
    s->loaded = true;
    source_clear(&old, true); // groups that were taken over have no series to end
}

static struct rules_file_source *find_source(struct rules_manager *m, const char *name, bool make)
{
    for (size_t i = 0; i < m->n_extras; i++)
        if (gs_streq(m->extras[i].name, name))
            return &m->extras[i];
    if (!make)
        return NULL;
    gs_grow(&m->extras, &m->cap_extras, m->n_extras, sizeof(*m->extras));
    m->extras[m->n_extras] = (struct rules_file_source){.name = gs_strdup(name)};
    return &m->extras[m->n_extras++];
}

void rules_manager_apply_extra(struct rules_manager *m, const char *name, struct rules_set *set)
{
    struct rules_file_source *s = find_source(m, name, set != NULL);
    if (set) {
        source_replace(m, s, set);
        return;
    }
    if (!s)
        return;
    source_clear(s, true);
    free(s->name);
    *s = m->extras[--m->n_extras];
}

// Passes the settings of the configuration to the additional sets.
static void update_extras(struct rules_manager *m)
{
    for (size_t i = 0; i < m->n_extras; i++)
        for (size_t j = 0; j < m->extras[i].n; j++) {
            struct rules_managed_group *g = m->extras[i].groups[j];
            g->runner->cfg = m->runner_cfg;
            if (!g->runner->group->interval_ms && g->runner->interval_ms != m->interval_ms) {
                g->runner->interval_ms = m->interval_ms;
                start_group(g);
            }
        }
}

struct gs_error *rules_manager_apply(struct rules_manager *m, const struct engine_config *cfg,
                                     struct rules_problems *problems)
{
    struct rules_set *set = NULL;
    struct gs_error *err = rules_load_files(cfg->rule_files, cfg->n_rule_files, problems, &set);
    if (err)
        return err;
    m->interval_ms =
        cfg->evaluation_interval_ms > 0 ? cfg->evaluation_interval_ms : DEFAULT_INTERVAL_MS;
    m->runner_cfg.external_labels = cfg->external_labels;
    m->runner_cfg.n_external_labels = cfg->n_external_labels;
    m->runner_cfg.query_offset_ms = cfg->rule_query_offset_ms;
    source_replace(m, &m->files, set);
    update_extras(m);
    rules_notifier_apply(m->notifier, cfg);
    return NULL;
}

void rules_manager_free(struct rules_manager *m)
{
    if (!m)
        return;
    source_clear(&m->files, false);
    for (size_t i = 0; i < m->n_extras; i++) {
        source_clear(&m->extras[i], false);
        free(m->extras[i].name);
    }
    free(m->extras);
    gs_fiber_free(m->spare);
    uv_close((uv_handle_t *)m->turn, free_handle);
    rules_notifier_free(m->notifier);
    free(m->external_url);
    free(m);
}
