// SPDX-License-Identifier: Apache-2.0
// Reads rules from a ConfigMap that prometheus-adapter's manifests or Helm chart create. It is
// found by its name or label: the chart names its ConfigMap after the release and sets the label.
#include "adapter/adapter_private.h"

#include "base/log.h"
#include "base/mem.h"
#include "kube/object.h"

#define KEY "config.yaml"

static bool is_adapter_config_map(const json_t *map)
{
    static const char *const names[] = {"adapter-config", "prometheus-adapter", "gpuscale-adapter"};
    static const char *const labels[] = {"app.kubernetes.io/name", "app"};
    if (!codec_json_str(map, "data", KEY, NULL))
        return false;
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++)
        if (gs_streq(kube_name(map), names[i]))
            return true;
    for (size_t i = 0; i < GS_ARRAY_LEN(labels); i++)
        if (gs_streq(kube_label(map, labels[i]), "prometheus-adapter"))
            return true;
    return false;
}

// Chooses the first one by namespace and name, so that the order of events does not matter.
static const json_t *choose_config_map(const struct adapter *a, size_t *ret_n)
{
    const json_t *best = NULL;
    size_t pos = 0;
    *ret_n = 0;
    for (const json_t *m; (m = kube_cache_next(a->config_maps, &pos));) {
        if (!is_adapter_config_map(m))
            continue;
        GS_AUTO_FREE char *key = kube_key(m), *best_key = best ? kube_key(best) : NULL;
        ++*ret_n;
        if (!best || strcmp(key, best_key) < 0)
            best = m;
    }
    return best;
}

static void take_config_map(struct adapter *a)
{
    size_t n = 0;
    const json_t *map = choose_config_map(a, &n);
    const char *text = map ? codec_json_str(map, "data", KEY, NULL) : NULL;
    GS_AUTO_FREE char *name = map ? kube_key(map) : NULL;
    if (gs_streq(name, a->map_name) && gs_streq(text, a->map_text))
        return;
    if (n > 1)
        gs_warn("adapter", "%zu ConfigMaps have rules; those of %s are used", n, name);
    else if (!map && a->map_name)
        gs_info("adapter", "ConfigMap %s was deleted; its rules are removed", a->map_name);
    free(a->map_name);
    free(a->map_text);
    a->map_name = GS_TAKE(name);
    a->map_text = gs_strdup(text);
    adapter_reload(a);
}

// Saves memory: the data of other ConfigMaps is never used.
static void trim_config_map(json_t *map)
{
    if (is_adapter_config_map(map))
        return;
    json_object_del(map, "data");
    json_object_del(map, "binaryData");
}

static void on_config_map(void *arg, const json_t *old_map, const json_t *new_map)
{
    struct adapter *a = arg;
    bool concerns =
        (old_map && is_adapter_config_map(old_map)) || (new_map && is_adapter_config_map(new_map));
    if (concerns && kube_cache_synced(a->config_maps))
        take_config_map(a);
}

static void on_config_maps_synced(void *arg)
{
    take_config_map(arg);
}

void adapter_watch_config_maps(struct adapter *a)
{
    bool file = a->o.config && *a->o.config;
    if (!a->o.config_maps || file)
        return;
    a->config_maps = kube_cache_new(a->loop, a->kube, KUBE_CONFIGMAPS, NULL, NULL);
    kube_cache_set_trim(a->config_maps, trim_config_map);
    kube_cache_add_handlers(a->config_maps,
                            &(struct kube_cache_handlers){.on_change = on_config_map,
                                                          .on_synced = on_config_maps_synced,
                                                          .arg = a});
    kube_cache_start(a->config_maps);
}

void adapter_free_config_maps(struct adapter *a)
{
    if (a->config_maps)
        kube_cache_free(a->config_maps);
    free(a->map_name);
    free(a->map_text);
}
