// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/adapter/run.h"

#include <sys/stat.h>

enum { DEFAULT_RELIST_MS = 600000 };

static void world_free(struct world *w)
{
    provider_free(w->provider);
    provider_registry_free(w->registry);
    if (w->config)
        others_free(w->others, w->config->n_sources);
    adapter_config_free(w->config);
    *w = (struct world){0};
}

// Requests that began in it end in it.
static void retire(struct run *r, struct world *w)
{
    if (!w->registry)
        return;
    if (r->n_retired == RUN_MAX_RETIRED) {
        world_free(&r->retired[0]);
        memmove(r->retired, r->retired + 1, --r->n_retired * sizeof(r->retired[0]));
    }
    provider_registry_stop(w->registry);
    w->retired_ns = gs_mono_ns();
    r->retired[r->n_retired++] = *w;
    *w = (struct world){0};
}

void run_free_retired(struct run *r, int64_t age_ns)
{
    while (r->n_retired && gs_mono_ns() - r->retired[0].retired_ns >= age_ns) {
        world_free(&r->retired[0]);
        memmove(r->retired, r->retired + 1, --r->n_retired * sizeof(r->retired[0]));
    }
}

void run_show_world(struct run *r)
{
    const struct adapter_api_world w = {.config = r->now.config,
                                        .registry = r->now.registry,
                                        .gpu = r->gpu,
                                        .provider = r->now.provider,
                                        .source = r->source,
                                        .others = r->now.others,
                                        .mapper = r->mapper};
    adapter_api_set_world(r->api, &w);
}

static int64_t relist_ms(const struct run *r, const struct adapter_config *c)
{
    int64_t ns = r->f->relist_ns;
    if (ns <= 0 && c->relist_interval)
        gs_error_free(gs_parse_duration(gs_slice_of(c->relist_interval), &ns));
    if (ns > 0)
        return ns / GS_NS_PER_MS;
    return r->engine || others_need_engine(c) ? ENGINE_RELIST_MS : DEFAULT_RELIST_MS;
}

static void on_round(void *arg)
{
    struct run *r = arg;
    if (!r->next.registry)
        return;
    // The first answers of a new configuration are in: from now on it is the one that is served.
    struct world old = r->now;
    r->now = r->next;
    r->next = (struct world){0};
    run_show_world(r);
    retire(r, &old);
}

static struct gs_error *read_times(const char *text, enum provider_times *ret)
{
    static const char *const names[] = {[PROVIDER_TIMES_AUTO] = "auto",
                                        [PROVIDER_TIMES_ALWAYS] = "always",
                                        [PROVIDER_TIMES_NEVER] = "never"};
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++)
        if (gs_streq(text, names[i])) {
            *ret = (enum provider_times)i;
            return NULL;
        }
    return gs_error_new(GS_EINVAL, "--sample-times \"%s\": want auto, always or never", text);
}

struct gs_error *run_make_world(struct run *r, struct adapter_config *c, struct world *ret)
{
    int64_t relist = relist_ms(r, c), age = r->f->max_age_ns / GS_NS_PER_MS;
    // The engine looks at samples where Prometheus looks at blocks of two hours: what queries see
    // by its look-back is listed.
    if (!age && r->engine && relist < ENGINE_MAX_AGE_MS)
        age = ENGINE_MAX_AGE_MS;
    if (age && age < relist && c->n_rules)
        return gs_error_new(GS_EINVAL, "--metrics-max-age is less than --metrics-relist-interval");
    enum provider_times times = PROVIDER_TIMES_AUTO;
    struct gs_error *err = read_times(r->f->sample_times, &times);
    if (!err && others_need_engine(c))
        err = run_need_engine(r);
    if (!err)
        err = others_new(&r->loop, c, r->engine, r->f->value_age_ns / GS_NS_PER_MS, &ret->others);
    if (err)
        return err;
    const struct provider_registry_options registry = {.config = c,
                                                       .source = r->source,
                                                       .others = ret->others,
                                                       .mapper = r->mapper,
                                                       .relist_ms = relist,
                                                       .max_age_ms = age,
                                                       .on_round = on_round,
                                                       .arg = r};
    ret->config = c;
    ret->registry = provider_registry_new(&r->loop, &registry);
    const struct provider_options provider = {.config = c,
                                              .source = r->source,
                                              .others = ret->others,
                                              .mapper = r->mapper,
                                              .registry = ret->registry,
                                              .kube = r->lister.kube,
                                              .times = times,
                                              .list_age_ms = r->f->value_age_ns / GS_NS_PER_MS,
                                              .gpu = r->gpu};
    ret->provider = provider_new(&provider);
    return NULL;
}

static struct timespec time_of(const char *path)
{
    struct stat st;
    return path && stat(path, &st) == 0 ? st.st_mtim : (struct timespec){0};
}

static bool differs(struct timespec a, struct timespec b)
{
    return a.tv_sec != b.tv_sec || a.tv_nsec != b.tv_nsec;
}

struct gs_error *run_load_config(struct run *r, struct adapter_config **ret)
{
    r->config_time = time_of(r->f->config);
    r->sources_time = time_of(r->f->sources);
    return adapter_config_load_with(r->f->config, r->f->sources, ret);
}

void run_reload(struct run *r)
{
    struct adapter_config *c = NULL;
    struct gs_error *err = run_load_config(r, &c);
    struct world w = {0};
    if (!err)
        err = run_make_world(r, c, &w);
    r->reloads++;
    if (err) {
        r->reload_failures++;
        gs_err("adapter", "the old configuration stays: %s", gs_error_message(err));
        gs_error_free(err);
        adapter_config_free(c);
        return;
    }
    world_free(&r->next);
    r->next = w;
    r->loaded_ms = gs_unix_ms();
    gs_info("adapter", "configuration loaded again: %zu rules", c->n_rules);
    run_check_overrides(r, c, true);
    if (!c->n_rules)
        on_round(r);
}

// Not to an empty file, as one that is being written is.
static bool has_changed(const char *path, struct timespec known)
{
    struct stat st;
    bool empty = path && stat(path, &st) == 0 && st.st_size == 0;
    return !empty && differs(time_of(path), known);
}

void run_reload_changed(struct run *r)
{
    if (has_changed(r->f->config, r->config_time) || has_changed(r->f->sources, r->sources_time))
        run_reload(r);
}

void run_free_worlds(struct run *r)
{
    run_free_retired(r, 0);
    world_free(&r->next);
    world_free(&r->now);
}
