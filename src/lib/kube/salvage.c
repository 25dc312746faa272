// SPDX-License-Identifier: Apache-2.0
// Texts of lists and watch events. They are split without building values, and each object is
// parsed alone, so that one that cannot be parsed does not hide the others of its kind: a number
// that no double holds, a key with NUL, nesting without end. What is removed of an object is free
// memory for the next one; a page of whole objects would leave holes between the members that are
// kept.
#include "base/arena.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/kube_private.h"

#define MAX_LOGGED 10 // objects of a list

static struct codec_json_pull split(struct gs_slice text)
{
    struct codec_json_pull j = codec_json_pull_of(text);
    j.max_depth = CODEC_JSON_MAX_PULL_DEPTH;
    return j;
}

// Moves to the value of a member of the object at the cursor. False: it has no such member.
static bool find_member(struct codec_json_pull *j, struct gs_arena *arena, const char *name)
{
    struct gs_slice key;
    if (codec_json_pull_peek(j) != '{' || !codec_json_pull_object(j))
        return false;
    while (codec_json_pull_member(j, arena, &key)) {
        if (gs_slice_eq_str(key, name))
            return true;
        if (!codec_json_pull_skip(j, NULL))
            return false;
    }
    return false;
}

// A member of metadata; NULL: it has none.
static const char *metadata_of(struct gs_slice object, struct gs_arena *arena, const char *name)
{
    struct codec_json_pull j = split(object);
    struct gs_slice text;
    if (!find_member(&j, arena, "metadata") || !find_member(&j, arena, name) ||
        codec_json_pull_peek(&j) != '"' || !codec_json_pull_string(&j, arena, &text))
        return NULL;
    return gs_arena_strndup(arena, text.data, text.len);
}

char *kube_raw_key(struct gs_slice object)
{
    struct gs_arena arena = {0};
    const char *ns = metadata_of(object, &arena, "namespace");
    const char *name = metadata_of(object, &arena, "name");
    char *key = !name || !*name ? NULL : ns && *ns ? gs_format("%s/%s", ns, name) : gs_strdup(name);
    gs_arena_finish(&arena);
    return key;
}

void kube_log_left_out(const char *path, struct gs_slice object, const struct gs_error *why)
{
    GS_AUTO_FREE char *key = kube_raw_key(object);
    gs_warn("kube", "%s: object %s cannot be read and is left out: %s", path,
            key ? key : "without a name", gs_error_message(why));
}

// At the array of items.
static json_t *read_items(struct codec_json_pull *j, const char *path, kube_take take, void *arg)
{
    json_t *items = json_array();
    size_t bad = 0;
    if (codec_json_pull_array(j))
        while (codec_json_pull_item(j)) {
            struct gs_slice raw;
            json_t *item = NULL;
            if (!codec_json_pull_skip(j, &raw))
                break;
            GS_AUTO_ERROR struct gs_error *err = codec_json_parse_accepted(raw, &item);
            if (!err && take)
                take(arg, item);
            if (!err)
                json_array_append_new(items, item);
            else if (++bad <= MAX_LOGGED)
                kube_log_left_out(path, raw, err);
        }
    if (bad > MAX_LOGGED)
        gs_warn("kube", "%s: %zu more objects are left out", path, bad - MAX_LOGGED);
    return items;
}

json_t *kube_read_list(struct gs_slice text, const char *path, kube_take take, void *arg)
{
    struct codec_json_pull j = split(text);
    struct gs_arena arena = {0};
    struct gs_slice key, raw;
    bool is_list = false, good = true;
    json_t *list = json_object();
    if (codec_json_pull_peek(&j) == '{' && codec_json_pull_object(&j))
        while (good && codec_json_pull_member(&j, &arena, &key)) {
            json_t *value = NULL;
            if (gs_slice_eq_str(key, "items") && codec_json_pull_peek(&j) == '[') {
                value = read_items(&j, path, take, arg);
                is_list = true;
            } else if (codec_json_pull_skip(&j, &raw)) {
                gs_error_free(codec_json_parse_accepted(raw, &value));
            }
            good = value && json_object_setn_new(list, key.data, key.len, value) == 0;
        }
    good = good && is_list && codec_json_pull_end(&j);
    gs_arena_finish(&arena);
    if (good)
        return list;
    json_decref(list);
    return NULL;
}

bool kube_salvage_event(struct gs_slice text, char **ret_type, struct gs_slice *ret_object)
{
    struct codec_json_pull type = split(text), object = type, whole = type;
    struct gs_arena arena = {0};
    struct gs_slice name;
    bool good = codec_json_pull_skip(&whole, NULL) && codec_json_pull_end(&whole) &&
                find_member(&type, &arena, "type") &&
                codec_json_pull_string(&type, &arena, &name) &&
                find_member(&object, &arena, "object") && codec_json_pull_peek(&object) == '{' &&
                codec_json_pull_skip(&object, ret_object);
    if (good)
        *ret_type = gs_slice_dup(name);
    gs_arena_finish(&arena);
    return good;
}
