// SPDX-License-Identifier: Apache-2.0
// Builds lists of __meta labels in an arena. Empty values are left out: for relabeling, an empty
// label is an absent one.
#include "engine/discovery/discovery_private.h"

#include "base/mem.h"
#include "kube/object.h"

void discovery_labels_add(struct discovery_labels *l, const char *name, const char *value)
{
    if (!value || !*value)
        return;
    if (l->len == l->cap) {
        size_t cap = l->cap ? l->cap * 2 : 16;
        struct metrics_label *items = gs_arena_alloc(l->arena, cap * sizeof(*items));
        if (l->len)
            memcpy(items, l->items, l->len * sizeof(*items));
        l->items = items;
        l->cap = cap;
    }
    l->items[l->len++] = (struct metrics_label){gs_slice_of(name), gs_slice_of(value)};
}

static char *vformat(struct gs_arena *a, const char *fmt, va_list ap)
{
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    return gs_arena_strdup(a, text);
}

char *discovery_format(struct gs_arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = vformat(a, fmt, ap);
    va_end(ap);
    return text;
}

void discovery_labels_addf(struct discovery_labels *l, const char *name, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text = vformat(l->arena, fmt, ap);
    va_end(ap);
    discovery_labels_add(l, name, text);
}

// __meta_kubernetes_PREFIX_KEY; other characters than letters, digits and underscores of the key
// are underscores.
static char *label_name(struct gs_arena *a, const char *prefix, const char *key)
{
    char *name = discovery_format(a, "__meta_kubernetes_%s_%s", prefix, key);
    for (char *c = name + strlen(name) - strlen(key); *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9')))
            *c = '_';
    return name;
}

void discovery_labels_add_map(struct discovery_labels *l, const char *prefix, const char *value,
                              const json_t *map)
{
    const char *key;
    json_t *own;
    json_object_foreach ((json_t *)map, key, own) {
        discovery_labels_add(l, label_name(l->arena, prefix, key),
                             value ? value : json_string_value(own));
    }
}

static void to_lower(char *text)
{
    for (; *text; text++)
        if (*text >= 'A' && *text <= 'Z')
            *text = (char)(*text - 'A' + 'a');
}

void discovery_labels_add_lower(struct discovery_labels *l, const char *prefix, const char *key,
                                const char *value)
{
    char *name = label_name(l->arena, prefix, key), *text = gs_arena_strdup(l->arena, value);
    to_lower(name);
    to_lower(text);
    discovery_labels_add(l, name, text);
}

void discovery_labels_add_maps(struct discovery_labels *l, const char *role, const json_t *obj)
{
    static const char *const maps[][2] = {{"labels", "label"}, {"annotations", "annotation"}};
    for (size_t i = 0; i < GS_ARRAY_LEN(maps); i++) {
        const json_t *map = codec_json_get(obj, "metadata", maps[i][0], NULL);
        GS_AUTO_FREE char *values = gs_format("%s_%s", role, maps[i][1]);
        GS_AUTO_FREE char *present = gs_format("%s_%spresent", role, maps[i][1]);
        discovery_labels_add_map(l, values, NULL, map);
        discovery_labels_add_map(l, present, "true", map);
    }
}

void discovery_labels_add_meta(struct discovery_labels *l, const char *role, const json_t *obj)
{
    discovery_labels_add(l, discovery_format(l->arena, "__meta_kubernetes_%s_name", role),
                         kube_name(obj));
    discovery_labels_add_maps(l, role, obj);
}

const char *discovery_join_host_port(struct gs_arena *a, const char *host, int64_t port)
{
    return discovery_format(a, strchr(host, ':') ? "[%s]:%lld" : "%s:%lld", host, (long long)port);
}
