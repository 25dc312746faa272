// SPDX-License-Identifier: Apache-2.0
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

// Replaces characters other than letters, digits and underscores by underscores.
static char *label_name(struct gs_arena *a, const char *role, const char *what, const char *key)
{
    char *name = discovery_format(a, "__meta_kubernetes_%s_%s_%s", role, what, key);
    for (char *c = name + strlen(name) - strlen(key); *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9')))
            *c = '_';
    return name;
}

static void add_map(struct discovery_labels *l, const char *role, const char *what,
                    const json_t *map)
{
    GS_AUTO_FREE char *present = gs_format("%spresent", what);
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)map, key, value) {
        discovery_labels_add(l, label_name(l->arena, role, what, key), json_string_value(value));
        discovery_labels_add(l, label_name(l->arena, role, present, key), "true");
    }
}

void discovery_labels_add_meta(struct discovery_labels *l, const char *role, const json_t *obj)
{
    discovery_labels_add(l, discovery_format(l->arena, "__meta_kubernetes_%s_name", role),
                         kube_name(obj));
    add_map(l, role, "label", codec_json_get(obj, "metadata", "labels", NULL));
    add_map(l, role, "annotation", codec_json_get(obj, "metadata", "annotations", NULL));
}

const char *discovery_join_host_port(struct gs_arena *a, const char *host, int64_t port)
{
    return discovery_format(a, strchr(host, ':') ? "[%s]:%lld" : "%s:%lld", host, (long long)port);
}
