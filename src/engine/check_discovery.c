// SPDX-License-Identifier: Apache-2.0
// `promtool check service-discovery`: the targets of a job, before and after relabeling.
#include "engine/check.h"

#include "base/clock.h"
#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/config/config.h"
#include "engine/discovery/discovery.h"
#include "engine/scrape/scrape.h"
#include "kube/connection.h"

struct source {
    struct check *check;
    struct discovery_provider *provider;
    bool reported;
};

struct check {
    uv_loop_t loop;
    uv_timer_t timer; // the time limit
    const struct engine_config_scrape_config *job;
    struct discovery_context discovery;
    struct kube_connection cluster;
    struct source *sources;
    size_t n_sources, waiting;
    json_t *results;
    struct gs_hmap *seen; // printed results
};

// A target that two groups have is printed once.
static void add_result(struct check *c, json_t *result)
{
    GS_AUTO_FREE char *key = json_dumps(result, JSON_SORT_KEYS);
    if (key && !gs_hmap_get_str(c->seen, key)) {
        gs_hmap_put_str(c->seen, key, c);
        json_array_append(c->results, result);
    }
    json_decref(result);
}

static void add_static_targets(struct check *c)
{
    for (size_t i = 0; i < c->job->sd.n_statics; i++) {
        const struct engine_config_static_group *g = &c->job->sd.statics[i];
        for (size_t k = 0; k < g->n_targets; k++) {
            const struct metrics_label address = {GS_SLICE("__address__"),
                                                  gs_slice_of(g->targets[k])};
            add_result(c, scrape_target_check(c->job, g->labels, g->n_labels, &address, 1));
        }
    }
}

static void on_check_groups(void *arg, const struct discovery_group *groups, size_t n)
{
    struct source *s = arg;
    struct check *c = s->check;
    if (s->reported)
        return;
    s->reported = true;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < groups[i].n_targets; k++)
            add_result(c, scrape_target_check(c->job, groups[i].labels, groups[i].n_labels,
                                              groups[i].targets[k], groups[i].n_target_labels[k]));
    if (--c->waiting == 0)
        uv_stop(&c->loop);
}

static void on_check_timeout(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

// As in the engine: the cluster of kubernetes_sd_configs without an api_server.
static struct gs_error *connect_own_cluster(struct check *c)
{
    if (!c->job->sd.n_kubernetes || !kube_connection_wanted(NULL))
        return NULL;
    return kube_connection_open(&c->loop, NULL, NULL, "check", &c->cluster);
}

static struct gs_error *start_sources(struct check *c)
{
    const struct engine_config_sd_configs *sd = &c->job->sd;
    struct gs_error *err = connect_own_cluster(c);
    if (err)
        return err;
    c->discovery = (struct discovery_context){
        .loop = &c->loop, .informers = discovery_informers_new(&c->loop, c->cluster.client)};
    c->sources = gs_alloc_array(discovery_source_count(sd) + 1, sizeof(*c->sources));
    for (size_t i = 0; i < discovery_source_count(sd) && !err; i++) {
        struct source *s = &c->sources[c->n_sources++];
        s->check = c;
        c->waiting++;
        err = discovery_provider_new(&c->discovery, discovery_source_at(sd, i), on_check_groups, s,
                                     &s->provider);
    }
    return err;
}

static void check_finish(struct check *c)
{
    for (size_t i = 0; i < c->n_sources; i++)
        discovery_provider_free(c->sources[i].provider);
    if (c->discovery.informers)
        discovery_informers_free(c->discovery.informers);
    kube_connection_close(&c->cluster);
    uv_close((uv_handle_t *)&c->timer, NULL);
    uv_run(&c->loop, UV_RUN_DEFAULT);
    uv_loop_close(&c->loop);
    free(c->sources);
    gs_hmap_free(c->seen);
    json_decref(c->results);
}

static struct gs_error *run_check(const struct engine_config_scrape_config *job, int64_t timeout_ns)
{
    struct check c = {.job = job, .results = json_array(), .seen = gs_hmap_new(NULL)};
    uv_loop_init(&c.loop);
    uv_timer_init(&c.loop, &c.timer);
    uv_timer_start(&c.timer, on_check_timeout, (uint64_t)(timeout_ns / GS_NS_PER_MS), 0);
    add_static_targets(&c);
    struct gs_error *err = start_sources(&c);
    if (!err && c.waiting)
        uv_run(&c.loop, UV_RUN_DEFAULT);
    if (!err && c.waiting)
        gs_warn("check", "%zu of %zu discoveries of the job \"%s\" have not answered", c.waiting,
                c.n_sources, job->job_name);
    GS_AUTO_FREE char *text = err ? NULL : json_dumps(c.results, JSON_INDENT(2) | JSON_SORT_KEYS);
    if (text)
        printf("%s\n", text);
    check_finish(&c);
    return err;
}

int engine_check_discovery(const char *path, const char *job, int64_t timeout_ns)
{
    GS_CLEANUP(engine_config_freep) struct engine_config *cfg = NULL;
    GS_AUTO_ERROR struct gs_error *err = engine_config_load(path, &cfg);
    if (err) {
        fprintf(stderr, "Cannot load config %s\n", gs_error_message(err));
        return 1;
    }
    for (size_t i = 0; i < cfg->n_scrapes; i++) {
        if (!gs_streq(cfg->scrapes[i].job_name, job))
            continue;
        err = run_check(&cfg->scrapes[i], timeout_ns);
        if (err)
            fprintf(stderr, "Could not create new discoverer %s\n", gs_error_message(err));
        return err != NULL;
    }
    fprintf(stderr, "Job %s not found. Select one of:\n", job);
    for (size_t i = 0; i < cfg->n_scrapes; i++)
        fprintf(stderr, "\t%s\n", cfg->scrapes[i].job_name);
    return 1;
}
