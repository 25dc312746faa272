// SPDX-License-Identifier: Apache-2.0
// Target groups in the form of file_sd and http_sd: lists of {targets, labels}. A list is checked
// as a whole before it replaces the previous one.
#include "engine/discovery/discovery_private.h"

#include "base/mem.h"

void discovery_group_list_add(struct discovery_group_list *l, struct discovery_group g)
{
    gs_grow(&l->items, &l->cap, l->len, sizeof(*l->items));
    l->items[l->len++] = g;
}

void discovery_group_list_finish(struct discovery_group_list *l)
{
    free(l->items);
    gs_arena_finish(&l->arena);
    *l = (struct discovery_group_list){0};
}

// --- what is wrong ---

static bool is_none(const json_t *j)
{
    return !j || json_is_null(j);
}

// As in Prometheus, null is an empty text.
static struct gs_error *check_text(const json_t *value)
{
    return json_is_string(value) || json_is_null(value)
               ? NULL
               : gs_error_new(GS_EINVAL, "targets and values of labels must be strings");
}

static const char *text_of(const json_t *value)
{
    return json_is_string(value) ? json_string_value(value) : "";
}

static struct gs_error *check_labels(const json_t *labels)
{
    const char *name;
    json_t *value;
    if (!is_none(labels) && !json_is_object(labels))
        return gs_error_new(GS_EINVAL, "labels must be a mapping");
    json_object_foreach ((json_t *)(uintptr_t)labels, name, value) {
        if (!*name)
            return gs_error_new(GS_EINVAL, "\"\" is not a valid label name");
        struct gs_error *err = check_text(value);
        if (err)
            return err;
    }
    return NULL;
}

static struct gs_error *check_targets(const json_t *targets)
{
    size_t i;
    json_t *target;
    if (!is_none(targets) && !json_is_array(targets))
        return gs_error_new(GS_EINVAL, "targets must be a list");
    json_array_foreach (targets, i, target) {
        struct gs_error *err = check_text(target);
        if (err)
            return err;
    }
    return NULL;
}

static struct gs_error *check_group(const json_t *group)
{
    const char *key;
    json_t *value;
    if (is_none(group))
        return gs_error_new(GS_EINVAL, "nil target group item found");
    if (!json_is_object(group))
        return gs_error_new(GS_EINVAL, "a group must be a mapping of targets and labels");
    json_object_foreach ((json_t *)(uintptr_t)group, key, value)
        if (!gs_streq(key, "targets") && !gs_streq(key, "labels"))
            return gs_error_new(GS_EINVAL, "unknown field \"%s\"", key);
    struct gs_error *err = check_targets(json_object_get(group, "targets"));
    return err ? err : check_labels(json_object_get(group, "labels"));
}

struct gs_error *discovery_groups_check(const json_t *list)
{
    size_t i;
    json_t *group;
    if (is_none(list))
        return NULL;
    if (!json_is_array(list))
        return gs_error_new(GS_EINVAL, "expected a list of {targets, labels}");
    json_array_foreach (list, i, group) {
        struct gs_error *err = check_group(group);
        if (err)
            return gs_error_wrap(err, "target group %zu", i);
    }
    return NULL;
}

// --- groups ---

static struct discovery_group group_of(struct gs_arena *arena, const json_t *item, const char *from,
                                       const char *from_label, size_t n)
{
    struct discovery_labels labels = {.arena = arena};
    const json_t *list = json_object_get(item, "targets");
    json_t *value, *target;
    const char *key;
    size_t i;
    json_object_foreach (json_object_get(item, "labels"), key, value)
        discovery_labels_addf(&labels, discovery_format(arena, "%s", key), "%s", text_of(value));
    discovery_labels_add(&labels, from_label, from);
    const struct metrics_label **targets =
        gs_arena_alloc(arena, (json_array_size(list) + 1) * sizeof(*targets));
    size_t *counts = gs_arena_alloc(arena, (json_array_size(list) + 1) * sizeof(*counts));
    json_array_foreach (list, i, target) {
        struct discovery_labels one = {.arena = arena};
        discovery_labels_addf(&one, "__address__", "%s", text_of(target));
        targets[i] = one.items;
        counts[i] = one.len;
    }
    return (struct discovery_group){discovery_format(arena, "%s:%zu", from, n),
                                    labels.items,
                                    labels.len,
                                    targets,
                                    counts,
                                    json_array_size(list)};
}

void discovery_groups_add(struct discovery_group_list *l, const json_t *list, const char *from,
                          const char *from_label, size_t n_before)
{
    size_t n = json_array_size(list);
    const char *kept = gs_arena_strdup(&l->arena, from);
    for (size_t i = 0; i < n; i++)
        discovery_group_list_add(l,
                                 group_of(&l->arena, json_array_get(list, i), kept, from_label, i));
    for (size_t i = n; i < n_before; i++)
        discovery_group_list_add(
            l, (struct discovery_group){.source = discovery_format(&l->arena, "%s:%zu", kept, i)});
}
