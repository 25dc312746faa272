// SPDX-License-Identifier: Apache-2.0
// A generation is one configuration with all that was made from it: registry, provider, sources. A
// reload makes the next one, which replaces the current one when it has listed its series; before,
// requests would get 404. Old generations are kept as long as a request may use them.
#include "adapter/adapter_private.h"

#include "base/clock.h"
#include "base/file_watch.h"
#include "base/log.h"
#include "base/mem.h"

enum { DEFAULT_RELIST_MS = 600000 };
#define LEAST_RELIST_NS (GS_NS_PER_SEC / 10)

static void generation_free(struct adapter_generation *g)
{
    provider_free(g->provider);
    provider_registry_free(g->registry);
    if (g->config)
        adapter_extra_sources_free(g->extra_sources, g->config->n_sources);
    adapter_config_free(g->config);
    *g = (struct adapter_generation){0};
}

// Keeps a generation for the requests that started with it.
static void retire(struct adapter *a, struct adapter_generation *g)
{
    if (!g->registry)
        return;
    provider_registry_stop(g->registry);
    g->retired_ns = gs_mono_ns();
    a->retired[a->n_retired++] = *g;
    *g = (struct adapter_generation){0};
}

void adapter_free_retired(struct adapter *a, int64_t age_ns)
{
    while (a->n_retired && gs_mono_ns() - a->retired[0].retired_ns >= age_ns) {
        generation_free(&a->retired[0]);
        memmove(a->retired, a->retired + 1, --a->n_retired * sizeof(a->retired[0]));
    }
}

// Returns the configuration's resource rules, else the default ones. NULL: metrics.k8s.io is not
// served.
static const struct adapter_config_resource_rules *resource_rules(const struct adapter *a,
                                                                  const struct adapter_config *c)
{
    if (c->resource.present)
        return &c->resource;
    return a->resource_config ? &a->resource_config->resource : NULL;
}

void adapter_show_generation(struct adapter *a)
{
    const struct adapter_api_generation g = {.config = a->now.config,
                                             .registry = a->now.registry,
                                             .gpu = a->gpu,
                                             .pod_series = a->pod_series,
                                             .provider = a->now.provider,
                                             .source = a->source,
                                             .extra_sources = a->now.extra_sources,
                                             .mapper = a->mapper,
                                             .resource = resource_rules(a, a->now.config)};
    adapter_api_set_generation(a->api, &g);
}

static int64_t relist_ms(const struct adapter *a, const struct adapter_config *c)
{
    int64_t ns = a->o.relist_ns;
    if (ns <= 0 && c->relist_interval)
        gs_error_free(gs_parse_duration(gs_slice_of(c->relist_interval), &ns));
    if (ns > 0) // an interval of Helm values can be shorter than the flag may be
        return ns > LEAST_RELIST_NS ? ns / GS_NS_PER_MS : LEAST_RELIST_NS / GS_NS_PER_MS;
    return a->engine || adapter_extra_sources_need_engine(c) ? ADAPTER_ENGINE_RELIST_MS
                                                             : DEFAULT_RELIST_MS;
}

// After many reloads in a short time, the next generation waits until an old one can be freed:
// requests may still use each of them.
void adapter_adopt_next(struct adapter *a)
{
    const struct adapter_generation *g = &a->next;
    bool listed = g->registry && (!g->config->n_rules || provider_registry_rounds(g->registry) > 0);
    if (!listed || a->n_retired == ADAPTER_MAX_RETIRED)
        return;
    // The new configuration has listed its series, so it can replace the old one without 404s.
    struct adapter_generation old = a->now;
    a->now = a->next;
    a->next = (struct adapter_generation){0};
    adapter_show_generation(a);
    retire(a, &old);
    a->shadows_logged = false;
    adapter_check_pod_series(a);
}

static void on_round(void *arg)
{
    adapter_adopt_next(arg);
}

static struct gs_error *read_times(const char *text, enum provider_times *ret)
{
    if (!text || !*text)
        return NULL;
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

struct gs_error *adapter_make_generation(struct adapter *a, struct adapter_config *c,
                                         struct adapter_generation *ret)
{
    int64_t relist = relist_ms(a, c), age = a->o.max_age_ns / GS_NS_PER_MS;
    // The engine looks at samples where Prometheus looks at blocks of two hours: what queries see
    // by its look-back is listed.
    if (!age && a->engine && relist < ADAPTER_ENGINE_MAX_AGE_MS)
        age = ADAPTER_ENGINE_MAX_AGE_MS;
    if (age && age < relist && c->n_rules)
        return gs_error_new(GS_EINVAL, "--metrics-max-age is less than --metrics-relist-interval");
    enum provider_times times = PROVIDER_TIMES_AUTO;
    struct gs_error *err = read_times(a->o.sample_times, &times);
    if (!err && adapter_extra_sources_need_engine(c))
        err = adapter_need_engine(a);
    if (!err)
        err = adapter_extra_sources_new(a->loop, c, a->engine, a->o.value_age_ns / GS_NS_PER_MS,
                                        &ret->extra_sources);
    if (err)
        return err;
    for (size_t i = 0; i < c->n_sources; i++)
        source_set_aliases(ret->extra_sources[i], a->o.dcgm_aliases);
    const struct provider_registry_options registry = {.config = c,
                                                       .source = a->source,
                                                       .extra_sources = ret->extra_sources,
                                                       .mapper = a->mapper,
                                                       .relist_ms = relist,
                                                       .max_age_ms = age,
                                                       .on_round = on_round,
                                                       .arg = a};
    ret->config = c;
    ret->registry = provider_registry_new(a->loop, &registry);
    const struct provider_options provider = {.config = c,
                                              .source = a->source,
                                              .extra_sources = ret->extra_sources,
                                              .mapper = a->mapper,
                                              .registry = ret->registry,
                                              .kube = a->kube,
                                              .times = times,
                                              .list_age_ms = a->o.value_age_ns / GS_NS_PER_MS,
                                              .gpu = a->gpu,
                                              .pod_series = a->pod_series};
    ret->provider = provider_new(&provider);
    return NULL;
}

// Called before the files are read, so that a change during reading is detected.
static void watch_config(struct adapter *a)
{
    static const struct gs_file_watch_options o = {.missing_is_change = true};
    const char *const files[] = {a->o.config, a->o.sources};
    if (!a->config_watch)
        a->config_watch = gs_file_watch_new(&o);
    gs_file_watch_set(a->config_watch, files, GS_ARRAY_LEN(files));
}

struct gs_error *adapter_load_config(struct adapter *a, struct adapter_config **ret)
{
    watch_config(a);
    if (!a->map_text)
        return adapter_config_load(a->o.config, a->o.sources, ret);
    GS_AUTO_FREE char *name = gs_format("ConfigMap %s", a->map_name);
    return adapter_config_parse(gs_slice_of(a->map_text), name, ret);
}

void adapter_reload(struct adapter *a)
{
    struct adapter_config *c = NULL;
    struct gs_error *err = adapter_load_config(a, &c);
    struct adapter_generation g = {0};
    if (!err)
        err = adapter_make_generation(a, c, &g);
    a->reloads++;
    free(a->reload_error);
    a->reload_error = err ? gs_strdup(gs_error_message(err)) : NULL;
    if (err) {
        a->reload_failures++;
        gs_err("adapter", "reload failed, the previous configuration stays in use: %s",
               gs_error_message(err));
        gs_error_free(err);
        adapter_config_free(c);
        return;
    }
    generation_free(&a->next);
    a->next = g;
    a->loaded_ms = gs_unix_ms();
    gs_info("adapter", "reloaded the configuration: %zu rules", c->n_rules);
    adapter_check_overrides(a, c, true);
    adapter_adopt_next(a);
}

void adapter_reload_changed(struct adapter *a)
{
    if (a->config_watch && gs_file_watch_check(a->config_watch))
        adapter_reload(a);
}

void adapter_free_generations(struct adapter *a)
{
    gs_file_watch_free(GS_TAKE(a->config_watch));
    adapter_free_retired(a, 0);
    generation_free(&a->next);
    generation_free(&a->now);
}
