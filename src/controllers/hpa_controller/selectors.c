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
    char *key;
    struct kube_selector selector;
};

struct hpa_selectors {
    struct gs_hmap *entries;
};

static void free_entry(void *value)
{
    struct entry *e = value;
    kube_selector_finish(&e->selector);
    free(e->key);
    free(e);
}

struct hpa_selectors *hpa_selectors_new(void)
{
    struct hpa_selectors *s = gs_alloc(sizeof(*s));
    s->entries = gs_hmap_new(free_entry);
    return s;
}

void hpa_selectors_free(struct hpa_selectors *s)
{
    if (!s)
        return;
    gs_hmap_free(s->entries);
    free(s);
}

void hpa_selectors_remove(struct hpa_selectors *s, const char *key)
{
    struct entry *e = gs_hmap_remove_str(s->entries, key);
    if (e)
        free_entry(e);
}

struct gs_error *hpa_selectors_put(struct hpa_selectors *s, const char *key, const char *text)
{
    struct kube_selector selector = {0};
    struct gs_error *err = kube_selector_parse(text, &selector);
    if (err) {
        hpa_selectors_remove(s, key);
        return err;
    }
    struct entry *e = gs_alloc(sizeof(*e));
    e->key = gs_strdup(key);
    e->selector = selector;
    gs_hmap_put_str(s->entries, key, e);
    return NULL;
}

const struct kube_selector *hpa_selectors_get(const struct hpa_selectors *s, const char *key)
{
    const struct entry *e = gs_hmap_get_str(s->entries, key);
    return e ? &e->selector : NULL;
}

static bool in_namespace(const char *key, const char *ns)
{
    size_t n = strlen(ns);
    return strncmp(key, ns, n) == 0 && key[n] == '/';
}

// Labels of the namespace's pods that the entry selects; borrowed from the cache.
static const json_t **labels_of_pods(const struct entry *e, const char *ns,
                                     const struct kube_cache *pods, size_t *ret_n)
{
    const json_t **out = NULL, *pod;
    size_t n = 0, cap = 0, pos = 0;
    while ((pod = kube_cache_next(pods, &pos))) {
        const json_t *labels = codec_json_get(pod, "metadata", "labels", NULL);
        if (!gs_streq(kube_namespace(pod), ns) || !kube_selector_matches(&e->selector, labels))
            continue;
        gs_grow(&out, &cap, n, sizeof(*out));
        out[n++] = labels;
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

char *hpa_selectors_conflict(const struct hpa_selectors *s, const char *key, const char *ns,
                             const struct kube_cache *pods)
{
    const struct entry *own = gs_hmap_get_str(s->entries, key);
    if (!own)
        return NULL;
    const char **keys = gs_alloc_array(gs_hmap_len(s->entries) + 1, sizeof(*keys));
    size_t n = 0, n_pods = 0, pos = 0;
    const json_t **labels = labels_of_pods(own, ns, pods, &n_pods);
    struct gs_slice name;
    void *value;
    keys[n++] = own->key;
    while (gs_hmap_next(s->entries, &pos, &name, &value)) {
        const struct entry *other = value;
        if (other != own && in_namespace(other->key, ns) && selects_any(other, labels, n_pods))
            keys[n++] = other->key;
    }
    char *text = NULL;
    if (n > 1) {
        qsort(keys, n, sizeof(*keys), gs_compare_texts);
        struct gs_buf out = {0};
        for (size_t i = 0; i < n; i++)
            gs_buf_addf(&out, "%s%s", i ? " " : "[", keys[i]);
        gs_buf_add_char(&out, ']');
        text = gs_buf_take(&out);
    }
    free(labels);
    free(keys);
    return text;
}
