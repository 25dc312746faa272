// SPDX-License-Identifier: Apache-2.0
// The pod selectors of all HPAs, to find pods that two HPAs select: Kubernetes then scales neither
// (reason AmbiguousSelector).
#include "hpa_controller/controller_private.h"

#include "base/hmap.h"
#include "base/mem.h"
#include "kube/object.h"

#include <stdlib.h>
#include <string.h>

struct entry {
    char *key;  // "ns/name" of the HPA
    char *text; // of the selector
    struct kube_selector selector;
    struct group *group;
    uint64_t search; // the last one that has visited it
};

// Selectors of a namespace that require the same value of their first label. A pod without it needs
// no comparison with them.
struct group {
    char *key; // "ns/label/value", or "ns/" for those that require no value; NUL instead of "/"
    size_t key_len;
    struct entry **entries;
    size_t n, cap;
};

struct hpa_selectors {
    struct gs_hmap *entries;
    struct gs_hmap *groups;
    uint64_t searches;
};

// --- groups ---

static void free_group(void *value)
{
    struct group *g = value;
    free(g->entries);
    free(g->key);
    free(g);
}

static struct gs_slice group_key(struct gs_buf *out, struct gs_slice ns, const char *label,
                                 const char *value)
{
    gs_buf_clear(out);
    gs_buf_add_slice(out, ns);
    gs_buf_add_char(out, 0);
    gs_buf_add_str(out, label);
    gs_buf_add_char(out, 0);
    gs_buf_add_str(out, value);
    return gs_buf_slice(out);
}

static struct gs_slice namespace_of(const char *key)
{
    const char *slash = strchr(key, '/');
    return gs_slice_make(key, slash ? (size_t)(slash - key) : 0);
}

static void join_group(struct hpa_selectors *s, struct entry *e)
{
    const char *label = "", *value = "";
    GS_AUTO_BUF struct gs_buf text = {0};
    for (size_t i = e->selector.len; i-- > 0;)
        if (e->selector.items[i].op == KUBE_SEL_EQ && e->selector.items[i].n_values == 1) {
            label = e->selector.items[i].key;
            value = e->selector.items[i].values[0];
        }
    struct gs_slice key = group_key(&text, namespace_of(e->key), label, value);
    struct group *g = gs_hmap_get(s->groups, key);
    if (!g) {
        g = gs_alloc(sizeof(*g));
        g->key = gs_slice_dup(key);
        g->key_len = key.len;
        gs_hmap_put(s->groups, key, g);
    }
    gs_grow(&g->entries, &g->cap, g->n, sizeof(struct entry *));
    g->entries[g->n++] = e;
    e->group = g;
}

static void leave_group(struct hpa_selectors *s, const struct entry *e)
{
    struct group *g = e->group;
    for (size_t i = 0; i < g->n; i++)
        if (g->entries[i] == e) {
            g->entries[i] = g->entries[--g->n];
            break;
        }
    if (!g->n)
        free_group(gs_hmap_remove(s->groups, gs_slice_make(g->key, g->key_len)));
}

// --- entries ---

static void free_entry(void *value)
{
    struct entry *e = value;
    kube_selector_finish(&e->selector);
    free(e->key);
    free(e->text);
    free(e);
}

struct hpa_selectors *hpa_selectors_new(void)
{
    struct hpa_selectors *s = gs_alloc(sizeof(*s));
    s->entries = gs_hmap_new(free_entry);
    s->groups = gs_hmap_new(free_group);
    return s;
}

void hpa_selectors_free(struct hpa_selectors *s)
{
    if (!s)
        return;
    gs_hmap_free(s->entries);
    gs_hmap_free(s->groups);
    free(s);
}

void hpa_selectors_remove(struct hpa_selectors *s, const char *key)
{
    struct entry *e = gs_hmap_remove_str(s->entries, key);
    if (!e)
        return;
    leave_group(s, e);
    free_entry(e);
}

struct gs_error *hpa_selectors_put(struct hpa_selectors *s, const char *key, const char *text)
{
    struct kube_selector selector = {0};
    const struct entry *old = gs_hmap_get_str(s->entries, key);
    if (old && gs_streq(old->text, text))
        return NULL;
    struct gs_error *err = kube_selector_parse(text, &selector);
    hpa_selectors_remove(s, key);
    if (err)
        return err;
    struct entry *e = gs_alloc(sizeof(*e));
    e->key = gs_strdup(key);
    e->text = gs_strdup(text);
    e->selector = selector;
    join_group(s, e);
    gs_hmap_put_str(s->entries, key, e);
    return NULL;
}

const struct kube_selector *hpa_selectors_get(const struct hpa_selectors *s, const char *key)
{
    const struct entry *e = gs_hmap_get_str(s->entries, key);
    return e ? &e->selector : NULL;
}

// --- conflicts ---

// Labels of the namespace's pods that the entry selects; borrowed from the cache.
static const json_t **labels_of_pods(const struct entry *e, const char *ns,
                                     const struct kube_cache *pods, size_t *ret_n)
{
    const json_t **out = NULL, *pod;
    size_t n = 0, cap = 0, pos = 0;
    while ((pod = kube_cache_select(pods, ns, &e->selector, &pos))) {
        gs_grow(&out, &cap, n, sizeof(*out));
        out[n++] = codec_json_get(pod, "metadata", "labels", NULL);
    }
    *ret_n = n;
    return out;
}

static bool selects_any(const struct entry *e, const json_t *const *labels, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (kube_selector_matches(&e->selector, labels[i]))
            return true;
    return false;
}

struct search {
    struct hpa_selectors *selectors;
    const char *ns;
    const json_t *const *labels; // of the own pods
    size_t n_labels;
    const char **keys; // found; the first is the own one
    size_t n, cap;
};

static void add_key(struct search *x, const char *key)
{
    gs_grow(&x->keys, &x->cap, x->n, sizeof(*x->keys));
    x->keys[x->n++] = key;
}

static void search_group(struct search *x, const char *label, const char *value)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_slice key = group_key(&text, gs_slice_of(x->ns), label, value);
    const struct group *g = gs_hmap_get(x->selectors->groups, key);
    for (size_t i = 0; g && i < g->n; i++) {
        struct entry *e = g->entries[i];
        if (e->search == x->selectors->searches)
            continue;
        e->search = x->selectors->searches;
        if (selects_any(e, x->labels, x->n_labels))
            add_key(x, e->key);
    }
}

static void search_groups(struct search *x)
{
    search_group(x, "", "");
    for (size_t i = 0; i < x->n_labels; i++) {
        const char *label;
        json_t *value;
        json_object_foreach ((json_t *)(uintptr_t)x->labels[i], label, value)
            if (json_is_string(value))
                search_group(x, label, json_string_value(value));
    }
}

static char *keys_text(const struct search *x)
{
    struct gs_buf out = {0};
    qsort(x->keys, x->n, sizeof(*x->keys), gs_compare_texts);
    for (size_t i = 0; i < x->n; i++)
        gs_buf_addf(&out, "%s%s", i ? " " : "[", x->keys[i]);
    gs_buf_add_char(&out, ']');
    return gs_buf_take(&out);
}

char *hpa_selectors_conflict(struct hpa_selectors *s, const char *key, const char *ns,
                             const struct kube_cache *pods)
{
    struct entry *own = gs_hmap_get_str(s->entries, key);
    if (!own)
        return NULL;
    struct search x = {.selectors = s, .ns = ns};
    x.labels = labels_of_pods(own, ns, pods, &x.n_labels);
    own->search = ++s->searches;
    add_key(&x, own->key);
    search_groups(&x);
    char *text = x.n > 1 ? keys_text(&x) : NULL;
    free((void *)x.labels);
    free(x.keys);
    return text;
}
