// SPDX-License-Identifier: Apache-2.0
// What server-side apply does with the fields of objects: the fields of an object, the differences
// of two objects, merging, and the removal of fields that are no longer applied. Follows
// structured-merge-diff.
#include "local/api/apply.h"

#include "base/mem.h"
#include "codec/json.h"

#define MAX_DEPTH CODEC_JSON_MAX_DEPTH

// --- how a field merges ---

enum shape {
    SHAPE_ATOMIC, // scalars, and what is replaced as a whole
    SHAPE_STRUCT, // members have types of their own
    SHAPE_MAP,    // all members have the same type
    SHAPE_KEYED,  // a list whose items are identified by some members
    SHAPE_SET,    // a list of distinct scalars
};

// Where a value is in the schema. Without a type and a schema, the value itself decides.
struct place {
    const struct kube_type *type;   // of a struct
    const struct kube_field *field; // that holds the value; NULL: root or item
    const json_t *schema;           // of a custom resource
    bool custom_root;
};

// Types with x-kubernetes-map-type: atomic.
static bool is_atomic_type(const struct kube_type *t)
{
    static const char *const names[] = {"LabelSelector",        "LocalObjectReference",
                                        "ObjectReference",      "TypedLocalObjectReference",
                                        "ConfigMapKeySelector", "SecretKeySelector",
                                        "ObjectFieldSelector",  "ResourceFieldSelector",
                                        "NodeSelector",         "NodeSelectorTerm",
                                        "OwnerReference",       "TypedObjectReference",
                                        "SecretReference",      "FileKeySelector"};
    const char *dot = t ? strrchr(t->name, '.') : NULL;

    return gs_is_one_of(dot ? dot + 1 : NULL, names, GS_ARRAY_LEN(names));
}

static bool is_atomic_field(const struct place *p)
{
    static const char *const names[] = {"nodeSelector", "selector"};
    // Maps of strings: PodSpec.nodeSelector, ServiceSpec.selector.
    return p->field && p->field->kind == KUBE_F_MAP &&
           gs_is_one_of(p->field->name, names, GS_ARRAY_LEN(names));
}

static enum shape shape_by_schema(const json_t *schema, const json_t *value)
{
    const char *list = codec_json_str(schema, "x-kubernetes-list-type", NULL);

    if (json_is_object(value)) {
        if (gs_streq(codec_json_str(schema, "x-kubernetes-map-type", NULL), "atomic"))
            return SHAPE_ATOMIC;
        return json_object_get(schema, "properties") ? SHAPE_STRUCT : SHAPE_MAP;
    }
    if (!json_is_array(value))
        return SHAPE_ATOMIC;
    return gs_streq(list, "map") ? SHAPE_KEYED : gs_streq(list, "set") ? SHAPE_SET : SHAPE_ATOMIC;
}

static enum shape shape_of(const struct place *p, const json_t *value)
{
    if (!json_is_object(value) && !json_is_array(value))
        return SHAPE_ATOMIC;
    if (p->schema)
        return shape_by_schema(p->schema, value);
    if (json_is_object(value))
        return is_atomic_type(p->type) || is_atomic_field(p) ? SHAPE_ATOMIC
               : p->type                                     ? SHAPE_STRUCT
                                                             : SHAPE_MAP;
    if (!p->field || !p->field->merge_key)
        return SHAPE_ATOMIC;
    return *p->field->merge_key ? SHAPE_KEYED : SHAPE_SET;
}

static const struct kube_field *meta_field(void)
{
    return kube_schema_field(kube_schema_find("v1", "ConfigMap"), "metadata");
}

static struct place member_place(const struct place *p, const char *key)
{
    if (p->custom_root && strcmp(key, "metadata") == 0)
        return (struct place){.type = meta_field()->type};
    if (p->schema) {
        const json_t *s = codec_json_get(p->schema, "properties", key, NULL);
        if (!s)
            s = json_object_get(p->schema, "additionalProperties");
        return (struct place){.schema = json_is_object(s) ? s : NULL};
    }
    if (p->type) {
        const struct kube_field *f = kube_schema_field(p->type, key);
        return (struct place){.type = f && f->kind == KUBE_F_OBJECT ? f->type : NULL, .field = f};
    }
    // A member of a map has the map's item type.
    return (struct place){.type = p->field && p->field->kind == KUBE_F_MAP ? p->field->type : NULL};
}

static struct place item_place(const struct place *p)
{
    if (p->schema)
        return (struct place){.schema = json_object_get(p->schema, "items")};
    return (struct place){.type = p->field ? p->field->type : NULL};
}

// --- path elements ---

// The keys of built-in lists that server-side apply identifies by more members than the strategic
// merge patch.
static const char *second_key(const char *key)
{
    static const char *const pairs[][2] = {
        {"containerPort", "protocol"},
        {"port", "protocol"},
        {"topologyKey", "whenUnsatisfiable"},
    };

    for (size_t i = 0; i < GS_ARRAY_LEN(pairs); i++)
        if (strcmp(pairs[i][0], key) == 0)
            return pairs[i][1];
    return NULL;
}

static json_t *key_of(const struct place *p, const json_t *item, const char *key)
{
    json_t *value = json_object_get(item, key);

    if (value)
        return json_incref(value);
    if (p->schema)
        value = codec_json_get(p->schema, "items", "properties", key, "default", NULL);
    if (value)
        return json_incref(value);
    return !p->schema && strcmp(key, "protocol") == 0 ? json_string("TCP") : NULL;
}

// "k:{"name":"c"}": the keys are in alphabetical order. Caller frees. NULL: the item lacks its
// keys.
static char *keyed_element(const struct place *p, const json_t *item)
{
    const json_t *list = json_object_get(p->schema, "x-kubernetes-list-map-keys");
    const char *keys[8] = {0};
    size_t n = 0;
    CODEC_AUTO_JSON json_t *id = json_object();

    if (!json_is_object(item))
        return NULL;
    for (size_t i = 0; i < json_array_size(list) && n < GS_ARRAY_LEN(keys); i++)
        if (json_is_string(json_array_get(list, i)))
            keys[n++] = json_string_value(json_array_get(list, i));
    if (!p->schema) {
        keys[n++] = p->field->merge_key;
        if (second_key(p->field->merge_key))
            keys[n++] = second_key(p->field->merge_key);
    }
    qsort(keys, n, sizeof *keys, gs_compare_texts);
    for (size_t i = 0; i < n; i++) {
        json_t *value = key_of(p, item, keys[i]);
        if (!value)
            return NULL;
        json_object_set_new(id, keys[i], value);
    }
    GS_AUTO_FREE char *text = codec_json_text(id);
    return gs_format("k:%s", text);
}

static char *element_of(const struct place *p, enum shape shape, const json_t *item)
{
    if (shape == SHAPE_KEYED)
        return keyed_element(p, item);
    GS_AUTO_FREE char *text = codec_json_text(item);
    return gs_format("v:%s", text);
}

// {element: index} of a list, so that large lists are compared in linear time. Caller frees.
static json_t *index_list(const struct place *p, enum shape shape, const json_t *list)
{
    json_t *index = json_object();
    size_t i;
    json_t *item;

    json_array_foreach ((json_t *)list, i, item) {
        GS_AUTO_FREE char *element = element_of(p, shape, item);
        if (element && !json_object_get(index, element))
            json_object_set_new(index, element, json_integer((json_int_t)i));
    }
    return index;
}

// NULL: the list has no such item.
static json_t *indexed(const json_t *index, const json_t *list, const char *element)
{
    const json_t *at = element ? json_object_get(index, element) : NULL;
    return at ? json_array_get(list, (size_t)json_integer_value(at)) : NULL;
}

// --- the fields of an object ---

static void collect(const struct place *p, const json_t *value, json_t *set, unsigned depth);

static void collect_list(const struct place *p, enum shape shape, const json_t *list, json_t *set,
                         unsigned depth)
{
    const struct place below = item_place(p);
    size_t i;
    json_t *item;

    json_array_foreach ((json_t *)list, i, item) {
        GS_AUTO_FREE char *element = element_of(p, shape, item);
        if (!element) {
            local_api_fields_mark(set);
            continue;
        }
        json_t *child = local_api_fields_child(set, element);
        local_api_fields_mark(child);
        if (shape == SHAPE_KEYED)
            collect(&below, item, child, depth + 1);
    }
}

static void collect(const struct place *p, const json_t *value, json_t *set, unsigned depth)
{
    enum shape shape = shape_of(p, value);
    const char *key;
    json_t *member;

    if (shape == SHAPE_ATOMIC || depth > MAX_DEPTH) {
        local_api_fields_mark(set);
    } else if (shape == SHAPE_KEYED || shape == SHAPE_SET) {
        collect_list(p, shape, value, set, depth);
    } else {
        json_object_foreach ((json_t *)value, key, member) {
            const struct place below = member_place(p, key);
            GS_AUTO_FREE char *element = gs_format("f:%s", key);
            json_t *child = local_api_fields_child(set, element);
            if (json_is_object(member) && json_object_size(member) == 0)
                local_api_fields_mark(child);
            else
                collect(&below, member, child, depth + 1);
        }
    }
}

static struct place root_of(const struct local_api_applied_type *t)
{
    return (struct place){.type = t->type, .schema = t->schema, .custom_root = t->custom};
}

// Nobody owns the identity of an object.
static void drop_identity(json_t *set)
{
    static const char *const keys[] = {"f:name",
                                       "f:namespace",
                                       "f:uid",
                                       "f:resourceVersion",
                                       "f:creationTimestamp",
                                       "f:generation",
                                       "f:managedFields",
                                       "f:selfLink",
                                       "f:deletionTimestamp",
                                       "f:deletionGracePeriodSeconds",
                                       "f:generateName",
                                       "."};
    json_t *meta = json_object_get(set, "f:metadata");

    json_object_del(set, ".");
    json_object_del(set, "f:apiVersion");
    json_object_del(set, "f:kind");
    for (size_t i = 0; i < GS_ARRAY_LEN(keys); i++)
        json_object_del(meta, keys[i]);
    local_api_fields_tidy(set);
}

json_t *local_api_fields_of(const struct local_api_applied_type *t, const json_t *obj)
{
    const struct place root = root_of(t);
    json_t *set = json_object();

    collect(&root, obj, set, 0);
    drop_identity(set);
    return set;
}

// --- differences ---

struct difference {
    json_t *changed, *removed;
};

static void differ(const struct place *p, const json_t *a, const json_t *b,
                   const struct difference *d, unsigned depth);

// All fields below an added or removed value, and the containers themselves.
static void collect_all(const struct place *p, const json_t *value, json_t *set, unsigned depth)
{
    enum shape shape = shape_of(p, value);

    collect(p, value, set, depth);
    // A struct in a fixed place of its parent always exists in a Go type.
    bool fixed = p->field && p->field->kind == KUBE_F_OBJECT && depth <= 4;
    bool members = shape == SHAPE_STRUCT || shape == SHAPE_MAP;
    if (members ? !fixed : shape == SHAPE_KEYED || shape == SHAPE_SET)
        local_api_fields_mark(set);
    if (!members)
        return;
    const char *key;
    json_t *member;
    json_object_foreach ((json_t *)value, key, member) {
        const struct place below = member_place(p, key);
        GS_AUTO_FREE char *element = gs_format("f:%s", key);
        if (depth < MAX_DEPTH)
            collect_all(&below, member, local_api_fields_child(set, element), depth + 1);
    }
}

static void differ_list(const struct place *p, enum shape shape, const json_t *a, const json_t *b,
                        const struct difference *d, unsigned depth)
{
    const struct place below = item_place(p);
    CODEC_AUTO_JSON json_t *in_a = index_list(p, shape, a);
    CODEC_AUTO_JSON json_t *in_b = index_list(p, shape, b);
    size_t i;
    json_t *item;

    json_array_foreach ((json_t *)b, i, item) {
        GS_AUTO_FREE char *element = element_of(p, shape, item);
        const json_t *before = indexed(in_a, a, element);
        if (!element) {
            local_api_fields_mark(d->changed);
        } else if (!before) {
            local_api_fields_mark(local_api_fields_child(d->changed, element));
            if (shape == SHAPE_KEYED)
                collect_all(&below, item, local_api_fields_child(d->changed, element), depth + 1);
        } else if (shape == SHAPE_KEYED) {
            const struct difference sub = {local_api_fields_child(d->changed, element),
                                           local_api_fields_child(d->removed, element)};
            differ(&below, before, item, &sub, depth + 1);
        }
    }
    json_array_foreach ((json_t *)a, i, item) {
        GS_AUTO_FREE char *element = element_of(p, shape, item);
        if (!element || json_object_get(in_b, element))
            continue;
        local_api_fields_mark(local_api_fields_child(d->removed, element));
        if (shape == SHAPE_KEYED)
            collect_all(&below, item, local_api_fields_child(d->removed, element), depth + 1);
    }
}

static void differ_members(const struct place *p, const json_t *a, const json_t *b,
                           const struct difference *d, unsigned depth)
{
    const char *key;
    json_t *member;

    json_object_foreach ((json_t *)b, key, member) {
        const struct place below = member_place(p, key);
        GS_AUTO_FREE char *element = gs_format("f:%s", key);
        const json_t *before = json_object_get(a, key);
        if (!before) {
            collect_all(&below, member, local_api_fields_child(d->changed, element), depth + 1);
        } else {
            const struct difference sub = {local_api_fields_child(d->changed, element),
                                           local_api_fields_child(d->removed, element)};
            differ(&below, before, member, &sub, depth + 1);
        }
    }
    json_object_foreach ((json_t *)a, key, member) {
        const struct place below = member_place(p, key);
        GS_AUTO_FREE char *element = gs_format("f:%s", key);
        if (!json_object_get(b, key))
            collect_all(&below, member, local_api_fields_child(d->removed, element), depth + 1);
    }
}

static void differ(const struct place *p, const json_t *a, const json_t *b,
                   const struct difference *d, unsigned depth)
{
    enum shape shape = shape_of(p, b);

    if (json_equal(a, b))
        return;
    if (shape != shape_of(p, a) || shape == SHAPE_ATOMIC || depth > MAX_DEPTH)
        local_api_fields_mark(d->changed);
    else if (shape == SHAPE_KEYED || shape == SHAPE_SET)
        differ_list(p, shape, a, b, d, depth);
    else
        differ_members(p, a, b, d, depth);
}

void local_api_fields_differ(const struct local_api_applied_type *t, const json_t *before,
                             const json_t *after, json_t **ret_changed, json_t **ret_removed)
{
    const struct place root = root_of(t);
    CODEC_AUTO_JSON json_t *nothing = json_object();
    const struct difference d = {json_object(), json_object()};

    differ(&root, before ? before : nothing, after, &d, 0);
    drop_identity(d.changed);
    drop_identity(d.removed);
    *ret_changed = d.changed;
    *ret_removed = d.removed;
}

// --- merging ---

static json_t *merge(const struct place *p, const json_t *live, const json_t *applied,
                     unsigned depth);

static json_t *merge_list(const struct place *p, enum shape shape, const json_t *live,
                          const json_t *applied, unsigned depth)
{
    const struct place below = item_place(p);
    CODEC_AUTO_JSON json_t *index = index_list(p, shape, live);
    json_t *list = json_copy((json_t *)live);
    size_t i;
    json_t *item;

    json_array_foreach ((json_t *)applied, i, item) {
        GS_AUTO_FREE char *element = element_of(p, shape, item);
        const json_t *there = indexed(index, list, element);
        if (!there)
            json_array_append_new(list, json_deep_copy(item));
        else if (shape == SHAPE_KEYED)
            json_array_set_new(list, (size_t)json_integer_value(json_object_get(index, element)),
                               merge(&below, there, item, depth + 1));
    }
    return list;
}

static json_t *merge(const struct place *p, const json_t *live, const json_t *applied,
                     unsigned depth)
{
    enum shape shape = shape_of(p, applied);
    const char *key;
    json_t *member;

    if (!live || shape != shape_of(p, live) || shape == SHAPE_ATOMIC || depth > MAX_DEPTH)
        return json_deep_copy(applied);
    if (shape == SHAPE_KEYED || shape == SHAPE_SET)
        return merge_list(p, shape, live, applied, depth);
    json_t *merged = json_copy((json_t *)live);
    json_object_foreach ((json_t *)applied, key, member) {
        const struct place below = member_place(p, key);
        json_object_set_new(merged, key,
                            merge(&below, json_object_get(live, key), member, depth + 1));
    }
    return merged;
}

json_t *local_api_fields_merge(const struct local_api_applied_type *t, const json_t *live,
                               const json_t *applied)
{
    const struct place root = root_of(t);
    CODEC_AUTO_JSON json_t *merged = merge(&root, live, applied, 0);
    return json_deep_copy(merged);
}

// --- removal of fields that are no longer applied ---

static void prune_fields(const struct place *p, json_t *value, const json_t *old,
                         const json_t *owned, unsigned depth);

// child: of the old set. owned: by anybody, at or below the field; NULL: by nobody.
static bool is_abandoned(const json_t *child, const json_t *owned)
{
    return local_api_fields_marked(child) && !owned;
}

static bool is_emptied(const json_t *value, const json_t *owned)
{
    return (json_is_object(value) || json_is_array(value)) && json_object_size(value) == 0 &&
           json_array_size(value) == 0 && !local_api_fields_marked(owned);
}

static void prune_member(const struct place *p, json_t *value, const char *element,
                         const json_t *old, const json_t *owned, unsigned depth)
{
    const char *key = element + strlen("f:");
    const struct place below = member_place(p, key);
    json_t *member = json_object_get(value, key);

    if (!member)
        return;
    if (is_abandoned(old, owned)) {
        json_object_del(value, key);
        return;
    }
    prune_fields(&below, member, old, owned, depth + 1);
    bool held_fields = json_object_size(old) > (local_api_fields_marked(old) ? 1 : 0);
    if (held_fields && is_emptied(member, owned))
        json_object_del(value, key);
}

static void prune_list(const struct place *p, enum shape shape, json_t *list, const json_t *old,
                       const json_t *owned, unsigned depth)
{
    const struct place below = item_place(p);
    json_t *kept = json_array();
    size_t i;
    json_t *item;

    json_array_foreach (list, i, item) {
        GS_AUTO_FREE char *element = element_of(p, shape, item);
        const json_t *was = element ? json_object_get(old, element) : NULL;
        const json_t *is = element ? json_object_get(owned, element) : NULL;
        if (was && is_abandoned(was, is))
            continue;
        if (was)
            prune_fields(&below, item, was, is, depth + 1);
        json_array_append(kept, item);
    }
    json_array_clear(list);
    json_array_extend(list, kept);
    json_decref(kept);
}

static void prune_fields(const struct place *p, json_t *value, const json_t *old,
                         const json_t *owned, unsigned depth)
{
    enum shape shape = shape_of(p, value);
    const char *element;
    json_t *child;

    if (shape == SHAPE_ATOMIC || depth > MAX_DEPTH)
        return;
    if (shape == SHAPE_KEYED || shape == SHAPE_SET) {
        prune_list(p, shape, value, old, owned, depth);
        return;
    }
    json_object_foreach ((json_t *)old, element, child)
        if (gs_starts(element, "f:"))
            prune_member(p, value, element, child, json_object_get(owned, element), depth);
}

void local_api_fields_prune(const struct local_api_applied_type *t, json_t *obj, const json_t *old,
                            const json_t *owned)
{
    const struct place root = root_of(t);
    prune_fields(&root, obj, old, owned, 0);
}
