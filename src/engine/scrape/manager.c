// SPDX-License-Identifier: Apache-2.0
// Sets of jobs by name: the set of the configuration, and one for each object that has jobs of its
// own. Applying a set passes each old job to the new one of the same name.
#include "engine/scrape/scrape_private.h"

#include "base/hmap.h"
#include "base/mem.h"
#include "base/timer.h"

enum { YIELD_MS = 200 }; // changes of this time are decided at once

// --- jobs that yield ---

static void add_urls(struct gs_hmap *urls, const struct scrape_job *j)
{
    size_t pos = 0;
    void *t;
    while (gs_hmap_next(j->targets, &pos, NULL, &t)) {
        const char *url = scrape_target_spec(t)->url;
        if (url)
            gs_hmap_put_str(urls, url, urls);
    }
}

static bool is_taken(void *arg, const char *url)
{
    struct scrape_manager *m = arg;
    for (const struct scrape_set *s = m->taken ? NULL : m->sets; s; s = s->next) {
        if (!m->taken)
            m->taken = gs_hmap_new(NULL);
        for (size_t i = 0; i < s->n; i++)
            if (!s->jobs[i]->cfg->yields)
                add_urls(m->taken, s->jobs[i]);
    }
    return m->taken && gs_hmap_get_str(m->taken, url);
}

static void on_yield_timer(void *arg)
{
    struct scrape_manager *m = arg;
    for (struct scrape_set *s = m->sets; s; s = s->next)
        for (size_t i = 0; i < s->n; i++)
            if (s->jobs[i]->cfg->yields)
                scrape_job_update(s->jobs[i]);
}

static void on_targets_changed(void *arg)
{
    struct scrape_manager *m = arg;
    gs_hmap_free(GS_TAKE(m->taken));
    gs_timer_start(m->yields, on_yield_timer, YIELD_MS);
}

// --- sets ---

struct scrape_manager *scrape_manager_new(uv_loop_t *loop, struct tsdb *db,
                                          const struct scrape_manager_config *cfg)
{
    struct scrape_manager *m = gs_alloc(sizeof(*m));
    m->db = db;
    m->scheduler = scrape_scheduler_new(loop);
    m->discovery.loop = loop;
    m->discovery.informers = discovery_informers_new(loop, cfg ? cfg->kube : NULL);
    m->discovery.stats = cfg ? cfg->sd_stats : NULL;
    if (cfg && cfg->signals)
        m->signals = scrape_signals_shared_new(db, cfg->signals);
    m->yields = gs_timer_new(loop, m);
    return m;
}

static void free_set(struct scrape_set *s, bool end)
{
    for (size_t i = 0; i < s->n; i++)
        scrape_job_free(s->jobs[i], end);
    free(s->jobs);
    free(s->name);
    free(s);
}

void scrape_manager_free(struct scrape_manager *m)
{
    if (!m)
        return;
    while (m->sets) {
        struct scrape_set *next = m->sets->next;
        free_set(m->sets, false);
        m->sets = next;
    }
    scrape_signals_shared_free(m->signals);
    gs_timer_free(m->yields);
    gs_hmap_free(m->taken);
    scrape_scheduler_free(m->scheduler);
    discovery_informers_free(m->discovery.informers);
    free(m);
}

static void on_scraped(void *arg)
{
    struct scrape_manager *m = arg;
    m->scrapes++;
    scrape_manager_fed(m);
}

void scrape_manager_fed(const struct scrape_manager *m)
{
    if (m->on_scrape)
        m->on_scrape(m->on_scrape_arg);
}

static struct scrape_set **find_set(struct scrape_manager *m, const char *name)
{
    struct scrape_set **link = &m->sets;
    while (*link && !gs_streq((*link)->name, name))
        link = &(*link)->next;
    return link;
}

static struct scrape_job *find_job(const struct scrape_set *s, const char *name)
{
    for (size_t i = 0; s && i < s->n; i++)
        if (gs_streq(s->jobs[i]->cfg->job_name, name))
            return s->jobs[i];
    return NULL;
}

static void apply_jobs(struct scrape_manager *m, const char *name,
                       const struct engine_config_scrape_config *scrapes, size_t n)
{
    struct scrape_set **link = find_set(m, name), *old = *link;
    const struct scrape_target_hooks hooks = {.scraped = on_scraped,
                                              .arg = m,
                                              .scheduler = m->scheduler,
                                              .changed = on_targets_changed,
                                              .taken = is_taken,
                                              .signals = m->signals};
    struct scrape_set *set = gs_alloc(sizeof(*set));
    set->name = gs_strdup(name);
    set->jobs = gs_alloc_array(n + 1, sizeof(*set->jobs));
    for (size_t i = 0; i < n; i++)
        set->jobs[set->n++] = scrape_job_new(&m->discovery, m->db, &scrapes[i], &hooks,
                                             find_job(old, scrapes[i].job_name));
    set->next = old ? old->next : NULL;
    *link = set;
    if (old)
        free_set(old, true); // end the jobs that were not taken over
    on_targets_changed(m);
}

void scrape_manager_apply(struct scrape_manager *m, const struct engine_config *cfg)
{
    apply_jobs(m, NULL, cfg->scrapes, cfg->n_scrapes);
}

void scrape_manager_apply_extra(struct scrape_manager *m, const char *name,
                                const struct engine_config_scrape_config *scrapes, size_t n)
{
    if (scrapes) {
        apply_jobs(m, name, scrapes, n);
        return;
    }
    struct scrape_set **link = find_set(m, name), *old = *link;
    if (!old)
        return;
    *link = old->next;
    free_set(old, true);
    on_targets_changed(m);
}

static bool job_settled(const struct scrape_job *j)
{
    size_t pos = 0;
    void *t;
    while (gs_hmap_next(j->targets, &pos, NULL, &t)) {
        struct scrape_target_state state;
        scrape_target_state(t, &state);
        if (!state.scraped && !scrape_target_spec(t)->error)
            return false;
    }
    return true;
}

bool scrape_manager_settled(const struct scrape_manager *m)
{
    for (const struct scrape_set *s = m->sets; s; s = s->next)
        for (size_t i = 0; i < s->n; i++)
            if (!job_settled(s->jobs[i]))
                return false;
    return true;
}

void scrape_manager_on_scrape(struct scrape_manager *m, void (*fn)(void *arg), void *arg)
{
    m->on_scrape = fn;
    m->on_scrape_arg = arg;
}
