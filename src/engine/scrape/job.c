// SPDX-License-Identifier: Apache-2.0
#include "engine/scrape/job.h"

#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/discovery/peer.h"

struct job_provider {
    struct scrape_job *job;
    size_t number;
    struct sd_files *files;
    struct sd_kubernetes *kubernetes;
};

struct job_group { // a copy of what discovery gave
    struct gs_arena arena;
    struct metrics_label *labels;
    size_t n_labels;
    struct metrics_label **targets;
    size_t *n_target_labels, n_targets;
};

static void group_free(void *p)
{
    struct job_group *g = p;
    gs_arena_finish(&g->arena);
    free(g);
}

static void take_group(struct scrape_job *j, size_t provider, const struct sd_group *g)
{
    GS_AUTO_FREE char *key = gs_format("%zu/%s", provider, g->source);
    void *old = gs_hmap_remove_str(j->groups, key);
    if (old)
        group_free(old);
    if (!g->n_targets)
        return;
    struct job_group *copy = gs_alloc(sizeof(*copy));
    copy->labels = engine_labels_copy(&copy->arena, g->labels, g->n_labels);
    copy->n_labels = g->n_labels;
    copy->targets = gs_arena_alloc(&copy->arena, g->n_targets * sizeof(*copy->targets));
    copy->n_target_labels = gs_arena_alloc(&copy->arena, g->n_targets * sizeof(size_t));
    for (size_t i = 0; i < g->n_targets; i++) {
        copy->targets[i] = engine_labels_copy(&copy->arena, g->targets[i], g->n_target_labels[i]);
        copy->n_target_labels[i] = g->n_target_labels[i];
    }
    copy->n_targets = g->n_targets;
    gs_hmap_put_str(j->groups, key, copy);
}

// --- targets from groups ---

static struct gs_slice key_of(const uint64_t *key)
{
    return gs_slice_make(key, sizeof(*key));
}

static void keep_dropped(struct scrape_job *j, const struct target_spec *spec)
{
    if (j->n_dropped++ >= JOB_MAX_DROPPED)
        return;
    gs_grow(&j->dropped, &j->dropped_cap, j->n_dropped_kept, sizeof(*j->dropped));
    struct target_spec copy = {.dropped = true, .n_discovered = spec->n_discovered};
    copy.discovered = engine_labels_copy(&j->dropped_arena, spec->discovered, spec->n_discovered);
    j->dropped[j->n_dropped_kept++] = copy;
}

// Moves a target that stays from the old set to the new one, or makes it.
static void want_target(struct scrape_job *j, struct gs_hmap *wanted,
                        const struct target_spec *spec)
{
    if (gs_hmap_get(wanted, key_of(&spec->key)))
        return; // discovered twice
    if (j->cfg->target_limit && gs_hmap_len(wanted) >= j->cfg->target_limit)
        j->over_limit = true;
    struct scrape_target *t = gs_hmap_remove(j->targets, key_of(&spec->key));
    if (!t)
        t = scrape_target_new(j->loop, j->db, j->cfg, j->client, spec, &j->hooks);
    gs_hmap_put(wanted, key_of(&spec->key), t);
}

static void resolve_group(struct scrape_job *j, struct gs_hmap *wanted, const struct job_group *g)
{
    struct gs_arena arena = {0};
    for (size_t i = 0; i < g->n_targets; i++) {
        struct target_spec spec;
        gs_arena_clear(&arena);
        target_resolve(j->cfg, g->labels, g->n_labels, g->targets[i], g->n_target_labels[i], &arena,
                       &spec);
        if (spec.dropped)
            keep_dropped(j, &spec);
        else
            want_target(j, wanted, &spec);
    }
    gs_arena_finish(&arena);
}

static void end_all(struct gs_hmap *targets, bool end)
{
    size_t pos = 0;
    void *t;
    while (gs_hmap_next(targets, &pos, NULL, &t))
        scrape_target_free(t, end);
    gs_hmap_free(targets);
}

static void update(struct scrape_job *j)
{
    struct gs_hmap *wanted = gs_hmap_new(NULL);
    size_t pos = 0;
    void *g;
    j->n_dropped = j->n_dropped_kept = 0;
    j->over_limit = false;
    gs_arena_clear(&j->dropped_arena);
    while (!j->error && gs_hmap_next(j->groups, &pos, NULL, &g))
        resolve_group(j, wanted, g);
    if (j->over_limit) {
        // As in Prometheus, all targets of the job fail rather than some chosen by chance.
        gs_warn("scrape", "job %s: more than target_limit=%zu targets, none is scraped",
                j->cfg->job_name, j->cfg->target_limit);
        end_all(wanted, true);
        wanted = gs_hmap_new(NULL);
    }
    end_all(j->targets, true);
    j->targets = wanted;
}

static void on_groups(void *arg, const struct sd_group *groups, size_t n)
{
    struct job_provider *p = arg;
    for (size_t i = 0; i < n; i++)
        take_group(p->job, p->number, &groups[i]);
    update(p->job);
}

// --- the job ---

static void take_statics(struct scrape_job *j)
{
    for (size_t i = 0; i < j->cfg->n_statics; i++) {
        const struct engine_static_group *s = &j->cfg->statics[i];
        GS_AUTO_FREE struct metrics_label *addresses =
            gs_alloc_array(s->n_targets, sizeof(*addresses));
        GS_AUTO_FREE const struct metrics_label **targets =
            gs_alloc_array(s->n_targets, sizeof(*targets));
        GS_AUTO_FREE size_t *counts = gs_alloc_array(s->n_targets, sizeof(*counts));
        for (size_t k = 0; k < s->n_targets; k++) {
            addresses[k] =
                (struct metrics_label){GS_SLICE("__address__"), gs_slice_of(s->targets[k])};
            targets[k] = &addresses[k];
            counts[k] = 1;
        }
        GS_AUTO_FREE char *source = gs_format("static/%zu", i);
        const struct sd_group g = {source, s->labels, s->n_labels, targets, counts, s->n_targets};
        take_group(j, SIZE_MAX, &g);
    }
}

static void set_error(struct scrape_job *j, struct gs_error *err)
{
    if (!err)
        return;
    gs_err("scrape", "job %s: %s", j->cfg->job_name, gs_error_message(err));
    if (!j->error)
        j->error = gs_strdup(gs_error_message(err));
    gs_error_free(err);
}

static void start_discovery(struct scrape_job *j, struct sd_kubernetes_hub *hub)
{
    const struct engine_scrape_config *c = j->cfg;
    j->providers = gs_alloc_array(c->n_files + c->n_kubernetes + 1, sizeof(*j->providers));
    for (size_t i = 0; i < c->n_files; i++) {
        struct job_provider *p = &j->providers[j->n_providers];
        *p = (struct job_provider){.job = j, .number = j->n_providers++};
        p->files = sd_files_new(j->loop, &c->files[i], on_groups, p);
    }
    for (size_t i = 0; i < c->n_kubernetes; i++) {
        struct job_provider *p = &j->providers[j->n_providers];
        *p = (struct job_provider){.job = j, .number = j->n_providers++};
        struct gs_error *err =
            sd_kubernetes_new(hub, &c->kubernetes[i], on_groups, p, &p->kubernetes);
        if (err) { // the job's other discovery goes on
            gs_err("scrape", "job %s: %s", c->job_name, gs_error_message(err));
            gs_error_free(err);
        }
    }
}

// Targets of the job that this one follows; the groups too, so that nothing ends until discovery
// has spoken again.
static void take_over(struct scrape_job *j, struct scrape_job *old)
{
    struct gs_hmap *targets = j->targets, *groups = j->groups;
    j->targets = old->targets;
    j->groups = old->groups;
    old->targets = targets;
    old->groups = groups;
    size_t pos = 0;
    void *t;
    while (gs_hmap_next(j->targets, &pos, NULL, &t))
        scrape_target_reconfigure(t, j->cfg, j->client);
}

static bool same_discovery(const struct engine_scrape_config *a,
                           const struct engine_scrape_config *b)
{
    return a->n_files == b->n_files && a->n_kubernetes == b->n_kubernetes;
}

static void drop_static_groups(struct scrape_job *j)
{
    GS_AUTO_FREE char *prefix = gs_format("%zu/", SIZE_MAX);
    size_t pos = 0, n = 0;
    struct gs_slice key;
    GS_AUTO_FREE char **keys = gs_alloc_array(gs_hmap_len(j->groups) + 1, sizeof(*keys));
    while (gs_hmap_next(j->groups, &pos, &key, NULL))
        if (gs_slice_starts(key, prefix))
            keys[n++] = gs_slice_dup(key);
    for (size_t i = 0; i < n; i++) {
        group_free(gs_hmap_remove_str(j->groups, keys[i]));
        free(keys[i]);
    }
}

struct scrape_job *scrape_job_new(uv_loop_t *loop, struct tsdb *db, struct sd_kubernetes_hub *hub,
                                  const struct engine_scrape_config *cfg,
                                  const struct target_hooks *hooks, struct scrape_job *old)
{
    struct scrape_job *j = gs_alloc(sizeof(*j));
    j->loop = loop;
    j->db = db;
    j->cfg = cfg;
    j->hooks = *hooks;
    j->groups = gs_hmap_new(group_free);
    j->targets = gs_hmap_new(NULL);
    set_error(j, engine_peer_client(loop, "", &cfg->http, &j->client));
    if (old && !j->error && same_discovery(cfg, old->cfg)) {
        take_over(j, old);
        drop_static_groups(j);
    }
    take_statics(j);
    update(j);
    start_discovery(j, hub);
    return j;
}

void scrape_job_free(struct scrape_job *j, bool end)
{
    if (!j)
        return;
    for (size_t i = 0; i < j->n_providers; i++) {
        sd_files_free(j->providers[i].files);
        sd_kubernetes_free(j->providers[i].kubernetes);
    }
    free(j->providers);
    end_all(j->targets, end);
    gs_hmap_free(j->groups);
    if (j->client)
        http_client_free(j->client);
    gs_arena_finish(&j->dropped_arena);
    free(j->dropped);
    free(j->error);
    free(j);
}
