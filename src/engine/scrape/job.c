// SPDX-License-Identifier: Apache-2.0
// One scrape job: its discoveries, and the targets of their groups after relabeling. A reload
// moves discoveries and targets that are unchanged to the new job, so their scrapes continue
// without a gap.
#include "engine/scrape/scrape_private.h"

#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"

// One discovery of the job and its groups. If its configuration is unchanged, a reload moves it to
// the new job.
struct scrape_job_provider {
    struct scrape_job *job;
    char *id;                      // configurations are equal if their ids are equal
    struct gs_hmap *groups;        // source -> struct job_group
    bool reported;                 // has reported its first groups
    struct discovery_provider *sd; // NULL: static targets, or it could not be started
};

struct job_group { // a copy of a group that discovery reported
    struct gs_arena arena;
    struct metrics_label *labels;
    size_t n_labels;
    struct metrics_label **targets;
    size_t *n_target_labels, n_targets;
};

static void target_group_free(void *p)
{
    struct job_group *g = p;
    gs_arena_finish(&g->arena);
    free(g);
}

static void take_group(struct scrape_job_provider *p, const struct discovery_group *g)
{
    void *old = gs_hmap_remove_str(p->groups, g->source);
    if (old)
        target_group_free(old);
    if (!g->n_targets)
        return;
    struct job_group *copy = gs_alloc(sizeof(*copy));
    copy->labels = engine_config_labels_copy(&copy->arena, g->labels, g->n_labels);
    copy->n_labels = g->n_labels;
    copy->targets = gs_arena_alloc(&copy->arena, g->n_targets * sizeof(*copy->targets));
    copy->n_target_labels = gs_arena_alloc(&copy->arena, g->n_targets * sizeof(size_t));
    for (size_t i = 0; i < g->n_targets; i++) {
        copy->targets[i] =
            engine_config_labels_copy(&copy->arena, g->targets[i], g->n_target_labels[i]);
        copy->n_target_labels[i] = g->n_target_labels[i];
    }
    copy->n_targets = g->n_targets;
    gs_hmap_put_str(p->groups, g->source, copy);
}

// --- targets from groups ---

static struct gs_slice target_key_bytes(const uint64_t *key)
{
    return gs_slice_make(key, sizeof(*key));
}

static void keep_dropped(struct scrape_job *j, const struct scrape_target_spec *spec)
{
    size_t limit = j->cfg->keep_dropped_targets;
    if (j->n_dropped++ >=
        (limit && limit < SCRAPE_JOB_MAX_DROPPED ? limit : SCRAPE_JOB_MAX_DROPPED))
        return;
    gs_grow(&j->dropped, &j->dropped_cap, j->n_dropped_kept, sizeof(*j->dropped));
    struct scrape_target_spec copy = {.dropped = true, .n_discovered = spec->n_discovered};
    copy.discovered =
        engine_config_labels_copy(&j->dropped_arena, spec->discovered, spec->n_discovered);
    j->dropped[j->n_dropped_kept++] = copy;
}

// unix_socket: of its server; NULL: a client for servers with addresses.
static struct gs_error *connect_client(struct scrape_job *j, const char *unix_socket,
                                       struct http_client **ret)
{
    // One client for each target keeps its connection open. Connecting costs more than a scrape.
    const struct endpoint_options o = {.tokens = &j->tokens,
                                       .unix_socket = unix_socket,
                                       .idle_connections = ENDPOINT_SCRAPE_CONNECTIONS};
    return endpoint_client_new(j->loop, "", &j->cfg->http, &o, ret);
}

static void free_client(void *client)
{
    http_client_free(client);
}

// A client keeps connections by address, so each socket has its own. NULL: it cannot be created.
static struct http_client *socket_client(struct scrape_job *j, const char *path)
{
    if (!j->sockets)
        j->sockets = gs_hmap_new(free_client);
    struct http_client *c = gs_hmap_get_str(j->sockets, path);
    if (!c) {
        gs_error_free(connect_client(j, path, &c));
        if (c)
            gs_hmap_put_str(j->sockets, path, c);
    }
    return c;
}

static void close_unused_sockets(struct scrape_job *j)
{
    GS_CLEANUP(gs_hmap_freep) struct gs_hmap *before = GS_TAKE(j->sockets);
    size_t pos = 0;
    void *t;
    while (before && gs_hmap_next(j->targets, &pos, NULL, &t)) {
        const char *path = scrape_target_spec(t)->unix_socket;
        void *client = path ? gs_hmap_remove_str(before, path) : NULL;
        if (!client)
            continue;
        if (!j->sockets)
            j->sockets = gs_hmap_new(free_client);
        gs_hmap_put_str(j->sockets, path, client);
    }
}

// If a client cannot be created (for example, because certificate files were removed), the first
// client of the job is used. NULL: the target has a socket, so the first client would connect to
// another server.
static struct http_client *client_for(struct scrape_job *j, const struct scrape_target_spec *spec)
{
    if (spec->unix_socket)
        return socket_client(j, spec->unix_socket);
    struct http_client **c = &j->clients[spec->key % SCRAPE_JOB_CLIENTS];
    if (!*c)
        gs_error_free(connect_client(j, NULL, c));
    return *c ? *c : j->clients[0];
}

// Moves an existing target to the new set, or creates it.
static void want_target(struct scrape_job *j, struct gs_hmap *wanted,
                        const struct scrape_target_spec *spec)
{
    if (gs_hmap_get(wanted, target_key_bytes(&spec->key)))
        return; // discovered by two providers
    struct http_client *client = client_for(j, spec);
    if (!client) {
        gs_warn("scrape", "job %s: no client for the socket %s", j->cfg->job_name,
                spec->unix_socket);
        return; // the target ends
    }
    struct scrape_target *t = gs_hmap_remove(j->targets, target_key_bytes(&spec->key));
    if (!t)
        t = scrape_target_new(j->loop, j->db, j->cfg, client, spec, &j->hooks);
    gs_hmap_put(wanted, target_key_bytes(&spec->key), t);
}

// As in Prometheus, invalid targets are not targets. Only the first one is logged, once.
static void count_invalid(struct scrape_job *j, const struct scrape_target_spec *spec)
{
    if (j->n_invalid++ || gs_streq(j->invalid, spec->invalid))
        return;
    free(j->invalid);
    j->invalid = gs_strdup(spec->invalid);
    gs_warn("scrape", "job %s: a discovered target is ignored: %s", j->cfg->job_name, j->invalid);
}

static bool is_taken(const struct scrape_job *j, const struct scrape_target_spec *spec)
{
    return j->cfg->yields && j->hooks.taken && spec->url && j->hooks.taken(j->hooks.arg, spec->url);
}

static void resolve_group(struct scrape_job *j, struct gs_hmap *wanted, const struct job_group *g)
{
    struct gs_arena arena = {0};
    for (size_t i = 0; i < g->n_targets; i++) {
        struct scrape_target_spec spec;
        gs_arena_clear(&arena);
        scrape_target_resolve(j->cfg, g->labels, g->n_labels, g->targets[i], g->n_target_labels[i],
                              &arena, &spec);
        if (spec.invalid)
            count_invalid(j, &spec);
        else if (spec.dropped || is_taken(j, &spec))
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

static void resolve_groups(struct scrape_job *j, struct gs_hmap *wanted,
                           struct scrape_job_provider *const *providers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t pos = 0;
        void *g;
        while (gs_hmap_next(providers[i]->groups, &pos, NULL, &g))
            resolve_group(j, wanted, g);
    }
}

// As in Prometheus, too many targets fail all targets instead of an arbitrary selection.
static void apply_target_limit(struct scrape_job *j)
{
    size_t n = gs_hmap_len(j->targets), limit = j->cfg->target_limit, pos = 0;
    GS_AUTO_FREE char *error = NULL;
    void *t;
    if (limit && n > limit)
        error = gs_format("target_limit exceeded (number of targets: %zu, limit: %zu)", n, limit);
    while (gs_hmap_next(j->targets, &pos, NULL, &t))
        scrape_target_refuse(t, error);
    if (error)
        gs_warn("scrape", "job %s: %s", j->cfg->job_name, error);
}

void scrape_job_update(struct scrape_job *j)
{
    struct gs_hmap *wanted = gs_hmap_new(NULL);
    j->n_dropped = j->n_dropped_kept = j->n_invalid = 0;
    gs_arena_clear(&j->dropped_arena);
    if (!j->error) {
        resolve_groups(j, wanted, j->providers, j->n_providers);
        resolve_groups(j, wanted, j->leavers, j->n_leavers);
    }
    end_all(j->targets, true);
    j->targets = wanted;
    close_unused_sockets(j);
    apply_target_limit(j);
    if (!j->cfg->yields && j->hooks.changed)
        j->hooks.changed(j->hooks.arg);
}

// --- providers ---

static void provider_free(struct scrape_job_provider *p)
{
    if (!p)
        return;
    discovery_provider_free(p->sd);
    gs_hmap_free(p->groups);
    free(p->id);
    free(p);
}

static void forget_leavers(struct scrape_job *j)
{
    for (size_t i = 0; i < j->n_leavers; i++)
        provider_free(j->leavers[i]);
    j->n_leavers = 0;
}

static void on_scrape_groups(void *arg, const struct discovery_group *groups, size_t n)
{
    struct scrape_job_provider *p = arg;
    struct scrape_job *j = p->job;
    bool all_reported = p->reported = true;
    for (size_t i = 0; i < n; i++)
        take_group(p, &groups[i]);
    for (size_t i = 0; i < j->n_providers; i++)
        all_reported = all_reported && j->providers[i]->reported;
    bool complete = all_reported && j->n_leavers;
    if (complete)
        forget_leavers(j);
    if (n || complete)
        scrape_job_update(j);
}

// Removes a provider with this configuration from the list and returns it. NULL: none.
static struct scrape_job_provider *take_provider(struct scrape_job *old, const char *id)
{
    for (size_t i = 0; old && i < old->n_providers; i++) {
        struct scrape_job_provider *p = old->providers[i];
        if (!gs_streq(p->id, id) || !p->sd)
            continue;
        old->providers[i] = old->providers[--old->n_providers];
        return p;
    }
    return NULL;
}

// Takes ownership of id.
static struct scrape_job_provider *add_provider(struct scrape_job *j, struct scrape_job *old,
                                                char *id)
{
    struct scrape_job_provider *p = take_provider(old, id);
    if (p) {
        free(id);
    } else {
        p = gs_alloc(sizeof(*p));
        p->id = id;
        p->groups = gs_hmap_new(target_group_free);
    }
    p->job = j;
    j->providers[j->n_providers++] = p;
    return p;
}

// --- the job ---

static void take_statics(struct scrape_job *j)
{
    struct scrape_job_provider *p = add_provider(j, NULL, gs_strdup("static"));
    p->reported = true;
    for (size_t i = 0; i < j->cfg->sd.n_statics; i++) {
        const struct engine_config_static_group *s = &j->cfg->sd.statics[i];
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
        const struct discovery_group g = {source,  s->labels, s->n_labels,
                                          targets, counts,    s->n_targets};
        take_group(p, &g);
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

static void start_provider(struct scrape_job *j, struct scrape_job *old,
                           const struct discovery_context *ctx, struct discovery_source source)
{
    struct scrape_job_provider *p = add_provider(j, old, discovery_source_id(source));
    if (p->sd) {
        discovery_provider_reconfigure(p->sd, source);
        return;
    }
    struct gs_error *err = discovery_provider_new(ctx, source, on_scrape_groups, p, &p->sd);
    if (!err)
        return;
    p->reported = true; // other discoveries of the job continue
    gs_err("scrape", "job %s: %s", j->cfg->job_name, gs_error_message(err));
    gs_error_free(err);
}

static void start_providers(struct scrape_job *j, struct scrape_job *old,
                            const struct discovery_context *ctx)
{
    size_t n = discovery_source_count(&j->cfg->sd);
    struct discovery_context own = *ctx;
    own.config = j->cfg->job_name;
    j->providers = gs_alloc_array(n + 1, sizeof(*j->providers));
    take_statics(j);
    for (size_t i = 0; i < n; i++)
        start_provider(j, old, &own, discovery_source_at(&j->cfg->sd, i));
}

// Takes groups of discoveries that the new configuration no longer contains. They are kept until
// the new discoveries have reported, so that targets that both contain continue without a gap.
static void take_leavers(struct scrape_job *j, struct scrape_job *old)
{
    bool all_reported = true;
    for (size_t i = 0; i < j->n_providers; i++)
        all_reported = all_reported && j->providers[i]->reported;
    if (all_reported)
        return;
    j->leavers = gs_alloc_array(old->n_providers + old->n_leavers + 1, sizeof(*j->leavers));
    for (size_t i = 0; i < old->n_leavers; i++)
        j->leavers[j->n_leavers++] = old->leavers[i];
    old->n_leavers = 0;
    for (size_t i = 0; i < old->n_providers;) {
        struct scrape_job_provider *p = old->providers[i];
        if (!p->sd) {
            i++;
            continue;
        }
        discovery_provider_free(GS_TAKE(p->sd));
        p->job = j;
        j->leavers[j->n_leavers++] = p;
        old->providers[i] = old->providers[--old->n_providers];
    }
}

// Takes the targets of the previous job. Their scrape loops continue. A target whose client cannot
// be created ends: another client would connect to another server.
static void take_targets(struct scrape_job *j, struct scrape_job *old)
{
    GS_CLEANUP(gs_hmap_freep) struct gs_hmap *targets = GS_TAKE(old->targets);
    old->targets = gs_hmap_new(NULL);
    size_t pos = 0;
    void *t;
    while (gs_hmap_next(targets, &pos, NULL, &t)) {
        struct http_client *client = client_for(j, scrape_target_spec(t));
        if (!client) {
            scrape_target_free(t, true);
            continue;
        }
        scrape_target_reconfigure(t, j->cfg, client);
        gs_hmap_put(j->targets, target_key_bytes(&scrape_target_spec(t)->key), t);
    }
}

struct scrape_job *scrape_job_new(const struct discovery_context *ctx, struct tsdb *db,
                                  const struct engine_config_scrape_config *cfg,
                                  const struct scrape_target_hooks *hooks, struct scrape_job *old)
{
    struct scrape_job *j = gs_alloc(sizeof(*j));
    j->loop = ctx->loop;
    j->db = db;
    j->cfg = cfg;
    j->hooks = *hooks;
    j->targets = gs_hmap_new(NULL);
    set_error(j, connect_client(j, NULL, &j->clients[0]));
    start_providers(j, old, ctx);
    if (old)
        take_leavers(j, old);
    if (old && !j->error)
        take_targets(j, old);
    scrape_job_update(j);
    return j;
}

static size_t count_targets(struct scrape_job_provider *const *providers, size_t n)
{
    size_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        size_t pos = 0;
        void *g;
        while (gs_hmap_next(providers[i]->groups, &pos, NULL, &g))
            sum += ((const struct job_group *)g)->n_targets;
    }
    return sum;
}

size_t scrape_job_discovered(const struct scrape_job *j)
{
    return count_targets(j->providers, j->n_providers) + count_targets(j->leavers, j->n_leavers);
}

void scrape_job_free(struct scrape_job *j, bool end)
{
    if (!j)
        return;
    for (size_t i = 0; i < j->n_providers; i++)
        provider_free(j->providers[i]);
    free(j->providers);
    forget_leavers(j);
    free(j->leavers);
    end_all(j->targets, end);
    for (size_t i = 0; i < SCRAPE_JOB_CLIENTS; i++)
        if (j->clients[i])
            http_client_free(j->clients[i]);
    gs_hmap_free(j->sockets);
    endpoint_tokens_unref(j->tokens);
    gs_arena_finish(&j->dropped_arena);
    free(j->dropped);
    free(j->invalid);
    free(j->error);
    free(j);
}
