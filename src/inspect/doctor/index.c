// SPDX-License-Identifier: Apache-2.0
// Objects by name and by namespace: checks of each autoscaler look for others among tens of
// thousands of pods.
#include "base/buf.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "doctor/doctor_private.h"
#include "kube/object.h"

// Keys of both maps begin with the name of the list, which alone is the key of a list that was
// read.
struct doctor_index {
    struct gs_hmap *objects; // "LIST NAMESPACE/NAME", and "LIST /NAME" for the first in any
    struct gs_hmap *groups;  // "LIST NAMESPACE": array
};

static void free_json(void *value)
{
    json_decref(value);
}

struct doctor_index *doctor_index_new(void)
{
    struct doctor_index *x = gs_alloc(sizeof(*x));
    x->objects = gs_hmap_new(free_json);
    x->groups = gs_hmap_new(free_json);
    return x;
}

void doctor_index_free(struct doctor_index *x)
{
    if (!x)
        return;
    gs_hmap_free(x->objects);
    gs_hmap_free(x->groups);
    free(x);
}

// The first one of a name remains, as in a search from the beginning.
static void add_object(struct doctor_index *x, struct gs_buf *key, json_t *obj)
{
    if (!gs_hmap_get(x->objects, gs_buf_slice(key)))
        gs_hmap_put(x->objects, gs_buf_slice(key), json_incref(obj));
}

static void add_to_group(struct doctor_index *x, struct gs_buf *key, json_t *obj)
{
    json_t *group = gs_hmap_get(x->groups, gs_buf_slice(key));
    if (!group) {
        group = json_array();
        gs_hmap_put(x->groups, gs_buf_slice(key), group);
    }
    json_array_append(group, obj);
}

static void read_list(struct doctor_index *x, const json_t *items, const char *list)
{
    GS_AUTO_BUF struct gs_buf key = {0};
    json_t *obj;
    size_t i;
    if (gs_hmap_get_str(x->groups, list))
        return;
    gs_hmap_put_str(x->groups, list, json_true());
    json_array_foreach ((json_t *)items, i, obj) {
        const char *ns = doctor_text(kube_namespace(obj)), *name = doctor_text(kube_name(obj));
        gs_buf_clear(&key);
        gs_buf_addf(&key, "%s %s", list, ns);
        add_to_group(x, &key, obj);
        gs_buf_addf(&key, "/%s", name);
        add_object(x, &key, obj);
        gs_buf_clear(&key);
        gs_buf_addf(&key, "%s /%s", list, name);
        add_object(x, &key, obj);
    }
}

const json_t *doctor_index_find(struct doctor_index *x, const json_t *items, const char *list,
                                const char *ns, const char *name)
{
    GS_AUTO_FREE char *key = gs_format("%s %s/%s", list, doctor_text(ns), name);
    read_list(x, items, list);
    return gs_hmap_get_str(x->objects, key);
}

const json_t *doctor_index_group(struct doctor_index *x, const json_t *items, const char *list,
                                 const char *ns)
{
    GS_AUTO_FREE char *key = gs_format("%s %s", list, doctor_text(ns));
    read_list(x, items, list);
    return gs_hmap_get_str(x->groups, key);
}
