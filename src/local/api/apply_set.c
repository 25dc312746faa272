// SPDX-License-Identifier: Apache-2.0
// Sets of fields (FieldsV1) as trees of JSON objects. The keys are path elements: "f:NAME" a
// member, "k:{…}" a list item by its keys, "v:…" an item of a set. Here a node that is itself in
// the set has the member "."; the stored form leaves it out of nodes without children.
#include "local/api/apply.h"

#include "base/mem.h"

#define MAX_DEPTH CODEC_JSON_MAX_DEPTH

json_t *local_api_fields_child(json_t *set, const char *element)
{
    json_t *child = json_object_get(set, element);

    if (!child) {
        child = json_object();
        json_object_set_new(set, element, child);
    }
    return child;
}

void local_api_fields_mark(json_t *set)
{
    json_object_set_new(set, ".", json_object());
}

bool local_api_fields_marked(const json_t *set)
{
    return json_object_get(set, ".") != NULL;
}

void local_api_fields_tidy(json_t *set)
{
    const char *key;
    json_t *child;
    void *next;

    json_object_foreach_safe (set, next, key, child) {
        if (strcmp(key, ".") == 0)
            continue;
        local_api_fields_tidy(child);
        if (json_object_size(child) == 0)
            json_object_del(set, key);
    }
}

static json_t *expand(const json_t *stored, unsigned depth)
{
    json_t *set = json_object();
    const char *key;
    json_t *child;

    if (json_object_size(stored) == 0 || depth > MAX_DEPTH)
        local_api_fields_mark(set);
    else
        json_object_foreach ((json_t *)stored, key, child)
            json_object_set_new(set, key,
                                strcmp(key, ".") == 0 ? json_object() : expand(child, depth + 1));
    return set;
}

json_t *local_api_fields_read(const json_t *stored)
{
    return json_object_size(stored) > 0 ? expand(stored, 0) : json_object();
}

json_t *local_api_fields_write(const json_t *set)
{
    json_t *stored = json_object();
    size_t n = json_object_size(set), i = 0;
    GS_AUTO_FREE const char **keys = gs_alloc_array(n + 1, sizeof *keys);
    const char *key;
    json_t *child;

    json_object_foreach ((json_t *)set, key, child)
        keys[i++] = key;
    qsort(keys, n, sizeof *keys, gs_compare_texts);
    if (n == 1 && strcmp(keys[0], ".") == 0)
        return stored;
    for (i = 0; i < n; i++)
        json_object_set_new(stored, keys[i], local_api_fields_write(json_object_get(set, keys[i])));
    return stored;
}

void local_api_fields_add(json_t *set, const json_t *other)
{
    const char *key;
    json_t *child;

    json_object_foreach ((json_t *)other, key, child)
        local_api_fields_add(local_api_fields_child(set, key), child);
}

// Removes the member `key` of both.
static void remove_member(json_t *set, const json_t *other, const char *key)
{
    json_t *mine = json_object_get(set, key);
    const json_t *child = json_object_get(other, key);

    if (!mine || !child)
        return;
    if (strcmp(key, ".") != 0)
        local_api_fields_remove(mine, child);
    if (json_object_size(mine) == 0) // also "."
        json_object_del(set, key);
}

// Walks the smaller set: an object can have thousands of managers with few fields each, and one
// change can have thousands of fields.
void local_api_fields_remove(json_t *set, const json_t *other)
{
    const char *key;
    json_t *child;
    void *next;

    if (json_object_size(set) < json_object_size(other))
        json_object_foreach_safe (set, next, key, child)
            remove_member(set, other, key);
    else
        json_object_foreach ((json_t *)other, key, child)
            remove_member(set, other, key);
}

json_t *local_api_fields_common(const json_t *a, const json_t *b)
{
    json_t *set = json_object();
    const json_t *walked = json_object_size(a) < json_object_size(b) ? a : b;
    const char *key;
    json_t *child;

    json_object_foreach ((json_t *)walked, key, child) {
        const json_t *p = json_object_get(a, key), *q = json_object_get(b, key);
        if (!p || !q)
            continue;
        json_t *common = strcmp(key, ".") == 0 ? json_object() : local_api_fields_common(p, q);
        if (strcmp(key, ".") == 0 || json_object_size(common) > 0)
            json_object_set(set, key, common);
        json_decref(common);
    }
    return set;
}

// --- texts ---

static void add_element(const char *element, struct gs_buf *path)
{
    CODEC_AUTO_JSON json_t *id = NULL;
    const char *key;
    json_t *value;
    bool first = true;

    if (element[0] == 'f') {
        gs_buf_addf(path, ".%s", element + 2);
        return;
    }
    GS_AUTO_ERROR struct gs_error *err =
        element[0] == 'k' ? codec_json_parse(gs_slice_of(element + 2), false, &id) : NULL;
    if (err || !json_is_object(id)) {
        gs_buf_addf(path, "[=%s]", element + 2);
        return;
    }
    json_object_foreach (id, key, value) {
        GS_AUTO_FREE char *text = codec_json_text(value);
        gs_buf_addf(path, "%s%s=%s", first ? "[" : ",", key, text);
        first = false;
    }
    gs_buf_add_str(path, "]");
}

static void add_paths(const json_t *set, const char *prefix, json_t *paths)
{
    const char *key;
    json_t *child;

    json_object_foreach ((json_t *)set, key, child) {
        GS_AUTO_BUF struct gs_buf path = {0};
        if (strcmp(key, ".") == 0)
            continue;
        gs_buf_add_str(&path, prefix);
        add_element(key, &path);
        if (local_api_fields_marked(child))
            json_array_append_new(paths, json_string(path.data));
        add_paths(child, path.data, paths);
    }
}

json_t *local_api_fields_paths(const json_t *set)
{
    json_t *paths = json_array();

    add_paths(set, "", paths);
    return paths;
}
