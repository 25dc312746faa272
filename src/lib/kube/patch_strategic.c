// SPDX-License-Identifier: Apache-2.0
// Strategic merge patch: a merge patch whose lists are merged item by item if the type defines it.
// Source: Kubernetes' API conventions and kubectl's documentation of the directives. A merged list
// contains the items of the patch (or of its $setElementOrder) in that order. Items that only the
// server has keep their place relative to the others.
#include "kube/patch.h"

#include "base/mem.h"

#define DELETE_PREFIX "$deleteFromPrimitiveList/"
#define ORDER_PREFIX  "$setElementOrder/"

// Merging compares each item with each other item.
enum { MAX_COMPARISONS = 16 << 20 };

static struct gs_error *merge_object(const struct kube_type *t, json_t *obj, const json_t *patch,
                                     int depth);

// Formats a decoded JSON value like %v of Go.
static void go_print(const json_t *j, struct gs_buf *out)
{
    if (json_is_object(j)) {
        size_t n = 0;
        GS_AUTO_FREE const char **keys = gs_alloc_array(json_object_size(j) + 1, sizeof(*keys));
        const char *key;
        json_t *v;
        json_object_foreach ((json_t *)j, key, v)
            keys[n++] = key;
        qsort(keys, n, sizeof(*keys), gs_compare_texts);
        gs_buf_add_str(out, "map[");
        for (size_t i = 0; i < n; i++) {
            gs_buf_addf(out, "%s%s:", i ? " " : "", keys[i]);
            go_print(json_object_get(j, keys[i]), out);
        }
        gs_buf_add_char(out, ']');
    } else if (json_is_array(j)) {
        size_t i;
        json_t *v;
        gs_buf_add_char(out, '[');
        json_array_foreach (j, i, v) {
            gs_buf_add_str(out, i ? " " : "");
            go_print(v, out);
        }
        gs_buf_add_char(out, ']');
    } else if (json_is_string(j)) {
        gs_buf_add_str(out, json_string_value(j));
    } else {
        GS_AUTO_FREE char *text = codec_json_text(j);
        gs_buf_add_str(out, json_is_null(j) ? "<nil>" : text);
    }
}

static struct gs_error *no_merge_key(const json_t *item, const char *key)
{
    GS_AUTO_BUF struct gs_buf text = {.limit = 4096};
    go_print(item, &text);
    return gs_error_new(GS_EINVAL, "map: %s does not contain declared merge key: %s",
                        text.data ? text.data : "", key);
}

static struct gs_error *bad_directive(const json_t *directive, const json_t *item)
{
    GS_AUTO_BUF struct gs_buf text = {.limit = 4096};
    gs_buf_add_str(&text, "unknown patch type: ");
    go_print(directive, &text);
    gs_buf_add_str(&text, " in map: ");
    go_print(item, &text);
    return gs_error_new(GS_EINVAL, "%s", text.data);
}

static struct gs_error *bad_type(const char *expected, const json_t *have)
{
    const char *got = json_is_object(have)    ? "map[string]interface {}"
                      : json_is_array(have)   ? "[]interface {}"
                      : json_is_string(have)  ? "string"
                      : json_is_number(have)  ? "number"
                      : json_is_boolean(have) ? "bool"
                                              : "<nil>";
    return gs_error_new(GS_EINVAL, "expected a %s, but received a %s", expected, got);
}

static bool has_prefix(const char *key, const char *prefix)
{
    return *key == '$' && gs_starts(key, prefix);
}

// Returns the patch's value without nulls in objects and without directives.
static json_t *without_directives(const json_t *patch)
{
    if (json_is_object(patch)) {
        json_t *out = json_object();
        const char *key;
        json_t *v;
        json_object_foreach ((json_t *)patch, key, v) {
            bool directive = strcmp(key, "$patch") == 0 || strcmp(key, "$retainKeys") == 0 ||
                             has_prefix(key, DELETE_PREFIX) || has_prefix(key, ORDER_PREFIX);
            const char *own = json_string_value(json_object_get(v, "$patch"));
            if (!directive && !json_is_null(v) && !gs_streq(own, "delete"))
                json_object_set_new(out, key, without_directives(v));
        }
        return out;
    }
    if (json_is_array(patch)) {
        json_t *out = json_array();
        size_t i;
        json_t *v;
        json_array_foreach (patch, i, v) {
            const char *own = json_string_value(json_object_get(v, "$patch"));
            bool marker =
                gs_streq(own, "delete") || (gs_streq(own, "replace") && json_object_size(v) == 1);
            if (!marker)
                json_array_append_new(out, without_directives(v));
        }
        return out;
    }
    return json_deep_copy(patch);
}

// Returns the position of the item of `list` that equals `item`: by the member `key`, or the whole
// item if key is "".
static ssize_t find_list_item(const json_t *list, const json_t *item, const char *key)
{
    const json_t *wanted = *key ? json_object_get(item, key) : item;
    size_t i;
    json_t *v;
    json_array_foreach (list, i, v)
        if (json_equal(*key ? json_object_get(v, key) : v, (json_t *)wanted))
            return (ssize_t)i;
    return -1;
}

static struct gs_error *check_merge_keys(const json_t *list, const char *key)
{
    size_t i;
    json_t *v;
    json_array_foreach (list, i, v) {
        if (*key ? !json_is_object(v) : json_is_object(v) || json_is_array(v))
            return bad_type(*key ? "map[string]interface {}" : "scalar", v);
        const char *own = json_string_value(json_object_get(v, "$patch"));
        if (*key && !json_object_get(v, key) && !gs_streq(own, "replace"))
            return no_merge_key(v, key);
    }
    return NULL;
}

// The items of a list patch must have the same order in $setElementOrder.
static struct gs_error *check_order(const json_t *patch, const json_t *order, const char *key)
{
    if (json_array_size(order) == 0)
        return NULL;
    size_t i, at = 0;
    json_t *v;
    json_array_foreach (patch, i, v) {
        if (json_object_get(v, "$patch"))
            continue;
        const json_t *wanted = *key ? json_object_get(v, key) : v;
        for (; at < json_array_size(order); at++) {
            json_t *o = json_array_get(order, at);
            if (json_equal(*key ? json_object_get(o, key) : o, (json_t *)wanted))
                break;
        }
        if (at++ >= json_array_size(order)) {
            GS_AUTO_BUF struct gs_buf text = {.limit = 8192};
            gs_buf_add_str(&text, "The order in patch list:\n");
            go_print(patch, &text);
            gs_buf_add_str(&text, "\n doesn't match $setElementOrder list:\n");
            go_print(order, &text);
            return gs_error_new(GS_EINVAL, "%s", text.data);
        }
    }
    return NULL;
}

// Applies the list elements {"$patch": …}. *ret_replace: the patch's items replace the list.
static struct gs_error *apply_markers(json_t *list, const json_t *patch, const char *key,
                                      bool *ret_replace)
{
    size_t i;
    json_t *v;
    bool replace = false;
    json_array_foreach (patch, i, v) {
        const json_t *directive = json_object_get(v, "$patch");
        if (!directive || gs_streq(json_string_value(directive), "merge"))
            continue;
        if (gs_streq(json_string_value(directive), "replace")) {
            replace = true;
        } else if (gs_streq(json_string_value(directive), "delete")) {
            ssize_t at;
            while ((at = find_list_item(list, v, key)) >= 0)
                json_array_remove(list, (size_t)at);
        } else {
            return bad_directive(directive, v);
        }
    }
    *ret_replace = replace;
    return NULL;
}

static bool is_marker(const json_t *item)
{
    const char *own = json_string_value(json_object_get(item, "$patch"));
    return own && strcmp(own, "merge") != 0;
}

// Merges the patch's items into list, in place; new ones go to the end.
static struct gs_error *merge_items(const struct kube_field *f, json_t *list, const json_t *patch,
                                    int depth)
{
    size_t i;
    json_t *v;
    json_array_foreach (patch, i, v) {
        if (is_marker(v))
            continue;
        ssize_t at = find_list_item(list, v, f->merge_key);
        if (at < 0) {
            json_array_append_new(list, without_directives(v));
        } else if (*f->merge_key) {
            struct gs_error *err =
                merge_object(f->type, json_array_get(list, (size_t)at), v, depth + 1);
            if (err)
                return err;
        }
    }
    return NULL;
}

// list: the merged items. The items in `order` get this order. The others (the server's) are placed
// before the item that they preceded in `before`.
static json_t *in_order(const json_t *list, const json_t *order, const json_t *before,
                        const char *key)
{
    json_t *out = json_array();
    CODEC_AUTO_JSON json_t *others = json_array();
    size_t n = json_array_size(list), next = 0, i, o;
    GS_AUTO_FREE ssize_t *rank = gs_alloc_array(n + 1, sizeof(*rank));
    json_t *v, *named;
    json_array_foreach (list, i, v) {
        rank[i] = find_list_item(order, v, key);
        if (rank[i] < 0)
            json_array_append(others, v);
    }
    json_array_foreach (order, o, named) {
        ssize_t place = find_list_item(before, named, key);
        for (; next < json_array_size(others); next++) {
            ssize_t other = find_list_item(before, json_array_get(others, next), key);
            if (other < 0 || place < 0 || other > place)
                break;
            json_array_append(out, json_array_get(others, next));
        }
        json_array_foreach (list, i, v)
            if (rank[i] == (ssize_t)o)
                json_array_append(out, v);
    }
    for (; next < json_array_size(others); next++)
        json_array_append(out, json_array_get(others, next));
    return out;
}

static void shorten_text(json_t *list, size_t len)
{
    while (json_array_size(list) > len)
        json_array_remove(list, json_array_size(list) - 1);
}

// have: the current list (changed), patch and order may be NULL. *ret: the new list.
static struct gs_error *merge_list(const struct kube_field *f, json_t *have, const json_t *patch,
                                   const json_t *order, int depth, json_t **ret)
{
    const char *key = f->merge_key;
    size_t length = json_array_size(have);
    size_t n = json_array_size(have) + json_array_size(patch);
    if (n * (n + json_array_size(order)) > MAX_COMPARISONS)
        return gs_error_new(GS_ELIMIT, "%s: lists of %zu items are too long to merge", f->name, n);
    struct gs_error *err = check_merge_keys(have, key);
    if (!err)
        err = check_merge_keys(patch, key);
    if (!err && order)
        err = check_merge_keys(order, key);
    if (!err && order)
        err = check_order(patch, order, key);
    bool replace = false;
    if (!err && *key)
        err = apply_markers(have, patch, key, &replace);
    if (err)
        return err;
    if (replace)
        json_array_clear(have);
    size_t kept = json_array_size(have);
    err = merge_items(f, have, patch, depth);
    if (err)
        return err;
    CODEC_AUTO_JSON json_t *before = json_copy(have);
    // With an order, kube-apiserver lets new items take the places of deleted ones before it sorts.
    // Without one, it sorts by the items that were kept.
    shorten_text(before, order && !replace && length > kept ? length : kept);
    *ret = in_order(have, order ? order : patch, before, key);
    return NULL;
}

static const struct kube_field *field_of(const struct kube_type *t, const char *name)
{
    return t ? kube_schema_field(t, name) : NULL;
}

static struct gs_error *patch_list(const struct kube_type *t, json_t *obj, const char *name,
                                   const json_t *patch, const json_t *order, int depth)
{
    const struct kube_field *f = field_of(t, name);
    json_t *have = json_object_get(obj, name);
    if (have && !json_is_array(have) && !json_is_null(have) && order)
        return bad_type("[]interface {}", have);
    bool fresh = !json_is_array(have) && !order;
    if (patch && (!f || !f->merge_key || fresh)) {
        json_object_set_new(obj, name, without_directives(patch));
        return NULL;
    }
    if (!f || !f->merge_key || (!json_is_array(have) && !patch))
        return NULL;
    CODEC_AUTO_JSON json_t *empty = json_array();
    json_t *merged = NULL;
    struct gs_error *err =
        merge_list(f, json_is_array(have) ? have : empty, patch, order, depth, &merged);
    if (!err)
        json_object_set_new(obj, name, merged);
    return err;
}

static struct gs_error *retain_keys(json_t *obj, const json_t *patch)
{
    const json_t *keep = json_object_get(patch, "$retainKeys");
    if (!keep)
        return NULL;
    const char *key;
    json_t *v;
    CODEC_AUTO_JSON json_t *kept = json_object();
    size_t i;
    json_array_foreach (keep, i, v)
        if (json_is_string(v))
            json_object_set_new(kept, json_string_value(v), json_true());
    bool ok = json_is_array(keep) && json_object_size(kept) == json_array_size(keep);
    json_object_foreach ((json_t *)patch, key, v) {
        bool directive = strcmp(key, "$retainKeys") == 0 || has_prefix(key, DELETE_PREFIX) ||
                         has_prefix(key, ORDER_PREFIX);
        if (!directive && !json_is_null(v) && !json_object_get(kept, key))
            ok = false;
    }
    if (!ok)
        return gs_error_new(GS_EINVAL, "invalid patch format of retainKeys");
    void *next;
    json_object_foreach_safe (obj, next, key, v)
        if (!json_object_get(kept, key))
            json_object_del(obj, key);
    return NULL;
}

static struct gs_error *apply_orders(const struct kube_type *t, json_t *obj, const json_t *patch,
                                     int depth)
{
    const char *key;
    json_t *order;
    json_object_foreach ((json_t *)patch, key, order) {
        if (!has_prefix(key, ORDER_PREFIX))
            continue;
        const char *name = key + sizeof(ORDER_PREFIX) - 1;
        const json_t *list = json_object_get(patch, name);
        if (!json_is_array(order))
            return gs_error_new(GS_EINVAL, "invalid patch format of setElementOrder list");
        if (list && !json_is_array(list) && !json_is_null(list))
            return bad_type("[]interface {}", list);
        if (json_is_null(list))
            continue; // remove the list
        struct gs_error *err = patch_list(t, obj, name, list, order, depth);
        if (err)
            return err;
    }
    return NULL;
}

static struct gs_error *delete_primitives(json_t *obj, const char *name, const json_t *gone)
{
    if (!json_is_array(gone))
        return gs_error_new(GS_EINVAL, "invalid patch format of primitive list");
    json_t *list = json_object_get(obj, name);
    if (json_array_size(list) * json_array_size(gone) > MAX_COMPARISONS)
        return gs_error_new(GS_ELIMIT, "%s: lists are too long to merge", name);
    for (size_t i = json_array_size(list); i-- > 0;)
        if (find_list_item(gone, json_array_get(list, i), "") >= 0)
            json_array_remove(list, i);
    return NULL;
}

static bool has_order(const json_t *patch, const char *name)
{
    GS_AUTO_FREE char *key = gs_format(ORDER_PREFIX "%s", name);
    return json_object_get(patch, key) != NULL;
}

static struct gs_error *patch_member(const struct kube_type *t, json_t *obj, const char *key,
                                     const json_t *v, int depth)
{
    json_t *have = json_object_get(obj, key);
    if (json_is_null(v)) {
        json_object_del(obj, key);
        return NULL;
    }
    if (json_is_array(v))
        return patch_list(t, obj, key, v, NULL, depth);
    if (json_is_object(v) && json_is_object(have)) {
        const struct kube_field *f = field_of(t, key);
        return merge_object(f && f->kind == KUBE_F_OBJECT ? f->type : NULL, have, v, depth + 1);
    }
    if (gs_streq(json_string_value(json_object_get(v, "$patch")), "delete"))
        json_object_del(obj, key);
    else
        json_object_set_new(obj, key, without_directives(v));
    return NULL;
}

// Changes obj. t NULL: the type of its members is unknown, so lists are replaced.
static struct gs_error *merge_object(const struct kube_type *t, json_t *obj, const json_t *patch,
                                     int depth)
{
    if (depth > CODEC_JSON_MAX_DEPTH)
        return gs_error_new(GS_ELIMIT, "patch is nested more than %d levels deep",
                            CODEC_JSON_MAX_DEPTH);
    const json_t *directive = json_object_get(patch, "$patch");
    const char *how = json_string_value(directive);
    if (gs_streq(how, "delete") || gs_streq(how, "replace")) {
        json_object_clear(obj);
        if (*how == 'r') {
            CODEC_AUTO_JSON json_t *own = without_directives(patch);
            json_object_update(obj, own);
        }
        return NULL;
    }
    if (directive && !gs_streq(how, "merge"))
        return bad_directive(directive, patch);
    struct gs_error *err = retain_keys(obj, patch);
    if (!err)
        err = apply_orders(t, obj, patch, depth);
    const char *key;
    json_t *v;
    json_object_foreach ((json_t *)patch, key, v) {
        if (err)
            return err;
        if (has_prefix(key, DELETE_PREFIX))
            err = delete_primitives(obj, key + sizeof(DELETE_PREFIX) - 1, v);
        else if (!has_prefix(key, ORDER_PREFIX) && strcmp(key, "$patch") != 0 &&
                 strcmp(key, "$retainKeys") != 0 && !(json_is_array(v) && has_order(patch, key)))
            err = patch_member(t, obj, key, v, depth);
    }
    return err;
}

struct gs_error *kube_patch_strategic(const struct kube_type *type, const json_t *target,
                                      const json_t *patch, json_t **ret)
{
    if (!json_is_object(patch))
        return bad_type("map[string]interface {}", patch);
    if (!json_is_object(target))
        return bad_type("map[string]interface {}", target);
    CODEC_AUTO_JSON json_t *copy = json_deep_copy(target);
    struct gs_error *err = merge_object(type, copy, patch, 0);
    if (err)
        return err;
    *ret = GS_TAKE(copy);
    return NULL;
}
