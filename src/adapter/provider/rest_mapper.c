// SPDX-License-Identifier: Apache-2.0
// Names of the cluster's resources: plural, singular, kind and group, from discovery. Until it was
// loaded, and for commands without a cluster, the usual built-in resources are there. A new table
// replaces the old one only when it was read.
#include "adapter/provider/rest_mapper.h"

#include "base/arena.h"

#include "base/buf.h"
#include "base/mem.h"
#include "codec/json.h"
#include "kube/resource.h"

#include <ctype.h>
#include <strings.h>

enum { MAX_GROUPS = 1000, MAX_RESOURCES = 20000 };

struct table {
    struct gs_arena arena;
    struct provider_rest_mapping *items;
    size_t n, cap;
};

struct load;
struct provider_rest_mapper {
    struct table now;
    struct load *load; // in progress
};

struct part {
    struct load *load;
    char *path, *group, *version;
    struct kube_request *rq;
    json_t *body;
    bool failed;
};

struct load {
    struct provider_rest_mapper *mapper;
    struct kube_client *kube;
    struct kube_request *groups_rq;
    struct part *parts;
    size_t n, cap, waiting;
    void (*cb)(void *arg, struct gs_error *err);
    void *arg;
};

// --- the table ---

static const char *intern_resource_text(struct table *t, const char *s)
{
    return gs_arena_strdup(&t->arena, s);
}

static const char *keep_lower(struct table *t, const char *s)
{
    char *copy = gs_arena_strdup(&t->arena, s);
    for (char *p = copy; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    return copy;
}

static bool known(const struct table *t, const char *group, const char *resource)
{
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->items[i].group, group) == 0 && strcmp(t->items[i].resource, resource) == 0)
            return true;
    return false;
}

// If a resource is added in several versions, the first one is kept.
static void add_resource_mapping(struct table *t, const struct provider_rest_mapping *r)
{
    if (t->n == MAX_RESOURCES || strchr(r->resource, '/') || known(t, r->group, r->resource))
        return;
    gs_grow(&t->items, &t->cap, t->n, sizeof(*t->items));
    t->items[t->n++] = (struct provider_rest_mapping){
        .group = intern_resource_text(t, r->group),
        .version = intern_resource_text(t, r->version),
        .resource = keep_lower(t, r->resource),
        .singular = keep_lower(t, r->singular && *r->singular ? r->singular : r->kind),
        .kind = intern_resource_text(t, r->kind),
        .namespaced = r->namespaced,
    };
}

static void table_finish(struct table *t)
{
    free(t->items);
    gs_arena_finish(&t->arena);
    *t = (struct table){0};
}

static void add_builtin(struct table *t)
{
    const struct kube_resource *r;
    for (size_t i = 0; (r = kube_resource_nth(i)); i++)
        add_resource_mapping(t,
                             &(struct provider_rest_mapping){r->group, r->version, r->plural,
                                                             r->singular, r->kind, r->namespaced});
}

struct provider_rest_mapper *provider_rest_mapper_new(void)
{
    struct provider_rest_mapper *m = gs_alloc(sizeof(*m));
    add_builtin(&m->now);
    return m;
}

// --- lookups ---

static bool same_name(const struct provider_rest_mapping *r, const char *lower)
{
    return strcmp(r->resource, lower) == 0 || strcmp(r->singular, lower) == 0;
}

const struct provider_rest_mapping *provider_rest_mapper_find(const struct provider_rest_mapper *m,
                                                              struct gs_slice group,
                                                              struct gs_slice resource)
{
    char name[256];
    if (!resource.len || resource.len >= sizeof(name))
        return NULL;
    for (size_t i = 0; i < resource.len; i++)
        name[i] = (char)tolower((unsigned char)resource.data[i]);
    name[resource.len] = '\0';
    const struct provider_rest_mapping *beginning = NULL;
    for (size_t i = 0; i < m->now.n; i++) {
        const struct provider_rest_mapping *r = &m->now.items[i];
        if (!same_name(r, name))
            continue;
        if (!group.len || gs_slice_eq_str(group, r->group))
            return r;
        if (!beginning && strlen(r->group) > group.len &&
            strncasecmp(r->group, group.data, group.len) == 0)
            beginning = r;
    }
    return beginning;
}

const struct provider_rest_mapping *
provider_rest_mapper_find_text(const struct provider_rest_mapper *m, const char *text)
{
    size_t n = strcspn(text, ".");
    return provider_rest_mapper_find(m, gs_slice_of(text[n] ? text + n + 1 : ""),
                                     gs_slice_make(text, n));
}

bool provider_rest_mapper_is_root(const struct provider_rest_mapping *r)
{
    static const char *const roots[] = {"namespaces", "nodes", "persistentvolumes"};
    for (size_t i = 0; i < GS_ARRAY_LEN(roots); i++)
        if (!*r->group && gs_streq(r->resource, roots[i]))
            return true;
    return false;
}

// --- loading from the cluster ---

static void load_free(struct load *l)
{
    kube_request_cancel(l->groups_rq);
    for (size_t i = 0; i < l->n; i++) {
        kube_request_cancel(l->parts[i].rq);
        json_decref(l->parts[i].body);
        free(l->parts[i].path);
        free(l->parts[i].group);
        free(l->parts[i].version);
    }
    free(l->parts);
    free(l);
}

void provider_rest_mapper_free(struct provider_rest_mapper *m)
{
    if (!m)
        return;
    if (m->load)
        load_free(m->load);
    table_finish(&m->now);
    free(m);
}

static void add_list(struct table *t, const struct part *p)
{
    size_t i;
    json_t *r;
    json_array_foreach (json_object_get(p->body, "resources"), i, r) {
        struct provider_rest_mapping row = {
            .group = p->group,
            .version = p->version,
            .resource = codec_json_str(r, "name", NULL),
            .singular = codec_json_str(r, "singularName", NULL),
            .kind = codec_json_str(r, "kind", NULL),
            .namespaced = codec_json_bool(r, false, "namespaced", NULL),
        };
        if (row.resource && row.kind)
            add_resource_mapping(t, &row);
    }
}

static void finish_load(struct load *l, struct gs_error *err)
{
    struct provider_rest_mapper *m = l->mapper;
    m->load = NULL;
    if (!err) {
        struct table fresh = {0};
        for (size_t i = 0; i < l->n; i++)
            add_list(&fresh, &l->parts[i]);
        // A group that failed keeps its resources.
        for (size_t i = 0; i < m->now.n; i++)
            for (size_t k = 0; k < l->n; k++)
                if (l->parts[k].failed && gs_streq(l->parts[k].group, m->now.items[i].group))
                    add_resource_mapping(&fresh, &m->now.items[i]);
        table_finish(&m->now);
        m->now = fresh;
    }
    void (*cb)(void *, struct gs_error *) = l->cb;
    void *arg = l->arg;
    load_free(l);
    cb(arg, err);
}

static void on_part(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct part *p = arg;
    struct load *l = p->load;
    p->rq = NULL;
    p->failed = err != NULL;
    gs_error_free(err);
    if (!p->failed)
        p->body = json_incref(body);
    if (--l->waiting == 0)
        finish_load(l, NULL);
}

static void add_part(struct load *l, const char *group, const char *version)
{
    if (l->n == MAX_GROUPS)
        return;
    gs_grow(&l->parts, &l->cap, l->n, sizeof(*l->parts));
    l->parts[l->n++] = (struct part){
        .load = l,
        .path = *group ? gs_format("/apis/%s/%s", group, version) : gs_format("/api/%s", version),
        .group = gs_strdup(group),
        .version = gs_strdup(version),
    };
}

static void add_group(struct load *l, const json_t *group)
{
    const char *name = codec_json_str(group, "name", NULL);
    const char *preferred = codec_json_str(group, "preferredVersion", "version", NULL);
    size_t i;
    json_t *v;
    // Skips the metrics APIs: they also have pods and nodes, and the adapter often serves them.
    if (!name || gs_ends(name, "metrics.k8s.io"))
        return;
    if (preferred)
        add_part(l, name, preferred);
    json_array_foreach (json_object_get(group, "versions"), i, v) {
        const char *version = codec_json_str(v, "version", NULL);
        if (version && !gs_streq(version, preferred))
            add_part(l, name, version);
    }
}

static void on_groups(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct load *l = arg;
    size_t i;
    json_t *group;
    l->groups_rq = NULL;
    if (err) {
        finish_load(l, gs_error_wrap(err, "the cluster's list of API groups"));
        return;
    }
    add_part(l, "", "v1");
    json_array_foreach (json_object_get(body, "groups"), i, group)
        add_group(l, group);
    l->waiting = l->n;
    for (i = 0; i < l->n; i++)
        l->parts[i].rq = kube_raw_get(l->kube, l->parts[i].path, on_part, &l->parts[i]);
}

void provider_rest_mapper_load(struct provider_rest_mapper *m, struct kube_client *kube,
                               void (*cb)(void *arg, struct gs_error *err), void *arg)
{
    if (m->load)
        load_free(m->load);
    struct load *l = gs_alloc(sizeof(*l));
    l->mapper = m;
    l->kube = kube;
    l->cb = cb;
    l->arg = arg;
    m->load = l;
    l->groups_rq = kube_raw_get(kube, "/apis", on_groups, l);
}
