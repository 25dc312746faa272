// SPDX-License-Identifier: Apache-2.0
// The set of custom resources follows the stored CustomResourceDefinitions: at once when one is
// written, so that a definition and its objects can be created in one go. Slower work (the deletion
// of objects, the conditions of other definitions) is done in the next turn of the event loop.
#include "local/api/crd.h"

#include "base/hmap.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "kube/object.h"
#include "local/api/api_private.h"

#include <ctype.h>

#define DELETIONS_PER_TURN 200

struct local_api_custom {
    struct local_api_resource resource; // first: what the registry returns
    char *definition;                   // name of the CustomResourceDefinition
    json_t *spec, *accepted;            // of the definition; own the strings of `resource`
    const json_t *schema, *scale;
    const char *versions[2], *stored_version;
    size_t bucket;
    struct local_api_table *table;
    struct gs_hmap *patterns;
    bool terminating;
    struct local_api_custom *next_retired;
};

struct local_api_crds {
    struct local_api *api;
    struct local_api_custom **items; // in order of definition, then version
    size_t len, cap;
    struct local_api_custom *retired; // until the next turn of the event loop
    struct gs_timer *timer;
};

// --- one version of a definition ---

static void custom_free(struct local_api_custom *c)
{
    local_api_custom_table_free(c->table);
    gs_hmap_free(c->patterns);
    free((void *)c->resource.short_names);
    free((void *)c->resource.categories);
    json_decref(c->spec);
    json_decref(c->accepted);
    free(c->definition);
    free(c);
}

// NULL-terminated array of borrowed strings; NULL if the list is empty.
static const char *const *borrow_strings(const json_t *list)
{
    size_t n = json_array_size(list), i, used = 0;
    json_t *item;

    if (n == 0)
        return NULL;
    const char **texts = gs_alloc_array(n + 1, sizeof *texts);
    json_array_foreach ((json_t *)list, i, item)
        if (json_is_string(item))
            texts[used++] = json_string_value(item);
    return texts;
}

static bool has_several_versions(const json_t *crd)
{
    return json_array_size(codec_json_get(crd, "spec", "versions", NULL)) > 1 ||
           json_array_size(codec_json_get(crd, "status", "storedVersions", NULL)) > 1;
}

static struct local_api_custom *custom_new(struct local_api_crds *owner, const json_t *crd,
                                           const json_t *version, const char *stored_version)
{
    struct local_api_custom *c = gs_alloc(sizeof *c);
    struct local_api_resource *r = &c->resource;

    c->definition = gs_strdup(kube_name(crd));
    c->spec = json_incref(json_object_get(crd, "spec"));
    c->accepted = json_incref(codec_json_get(crd, "status", "acceptedNames", NULL));
    c->schema = codec_json_get(version, "schema", "openAPIV3Schema", NULL);
    c->scale = codec_json_get(version, "subresources", "scale", NULL);
    c->versions[0] = codec_json_str(version, "name", NULL);
    c->stored_version = stored_version;
    c->table = local_api_custom_table_new(json_object_get(version, "additionalPrinterColumns"));
    c->patterns = local_api_schema_patterns_new();
    c->terminating = kube_is_deleting(crd);
    r->group = codec_json_str(c->spec, "group", NULL);
    r->versions = c->versions;
    r->plural = codec_json_str(c->accepted, "plural", NULL);
    r->singular = codec_json_str(c->accepted, "singular", NULL);
    r->kind = codec_json_str(c->accepted, "kind", NULL);
    r->short_names = borrow_strings(json_object_get(c->accepted, "shortNames"));
    r->categories = borrow_strings(json_object_get(c->accepted, "categories"));
    r->flags = LOCAL_API_R_GENERATION;
    if (gs_streq(codec_json_str(c->spec, "scope", NULL), "Namespaced"))
        r->namespaced = true;
    if (codec_json_get(version, "subresources", "status", NULL))
        r->flags |= LOCAL_API_R_STATUS;
    if (c->scale)
        r->flags |= LOCAL_API_R_SCALE;
    r->from_stored = has_several_versions(crd) ? local_api_change_version : NULL;
    r->table = c->table;
    r->custom = c;
    GS_AUTO_FREE char *bucket = gs_format("%s/%s", r->group, r->plural);
    c->bucket = local_api_store_bucket(owner->api->store, bucket);
    return c;
}

size_t local_api_custom_bucket(const struct local_api_custom *c)
{
    return c->bucket;
}

const char *local_api_custom_stored_version(const struct local_api_custom *c)
{
    return c->stored_version;
}

const json_t *local_api_custom_schema(const struct local_api_custom *c)
{
    return c->schema;
}

const json_t *local_api_custom_scale(const struct local_api_custom *c)
{
    return c->scale;
}

bool local_api_custom_is_terminating(const struct local_api_custom *c)
{
    return c->terminating;
}

void local_api_custom_prune(const struct local_api_custom *c, json_t *obj, json_t *ret_unknown)
{
    if (c->schema && !codec_json_bool(c->spec, false, "preserveUnknownFields", NULL))
        local_api_schema_prune(c->schema, obj, ret_unknown);
}

bool local_api_custom_default(const struct local_api_custom *c, json_t *obj, size_t max_bytes)
{
    return local_api_schema_default(c->schema, obj, max_bytes);
}

void local_api_custom_validate(const struct local_api_custom *c, const json_t *obj,
                               struct kube_field_errors *errors)
{
    local_api_schema_validate(c->schema, obj, c->patterns, errors);
}

// --- the set ---

static void crds_work(void *arg);

// The definition's resources are no longer found; watches of them end.
static void retire_definition(struct local_api_crds *c, const char *name)
{
    size_t kept = 0;

    for (size_t i = 0; i < c->len; i++) {
        struct local_api_custom *item = c->items[i];
        if (strcmp(item->definition, name) != 0) {
            c->items[kept++] = item;
            continue;
        }
        local_api_watch_end_resource(c->api, &item->resource);
        item->next_retired = c->retired;
        c->retired = item;
    }
    c->len = kept;
}

static void add_custom(struct local_api_crds *c, struct local_api_custom *item)
{
    gs_grow(&c->items, &c->cap, c->len, sizeof *c->items);
    c->items[c->len++] = item;
}

// Built-in resources are never replaced: the definitions of monitoring.coreos.com can be applied,
// as Helm charts do.
static bool is_servable(const json_t *crd)
{
    const char *group = codec_json_str(crd, "spec", "group", NULL);
    const char *plural = codec_json_str(crd, "status", "acceptedNames", "plural", NULL);
    const char *kind = codec_json_str(crd, "status", "acceptedNames", "kind", NULL);

    return group && plural && kind && *plural && kube_condition_true(crd, "Established") &&
           !local_api_resource_is_built_in(group, plural, kind);
}

static int by_preference(const void *a, const void *b)
{
    const struct local_api_custom *const *x = a, *const *y = b;
    int c = strcmp((*x)->definition, (*y)->definition);
    return c ? c : local_api_compare_versions((*x)->versions[0], (*y)->versions[0]);
}

static void add_definition(struct local_api_crds *c, const json_t *crd)
{
    const json_t *versions = codec_json_get(crd, "spec", "versions", NULL);
    const char *stored_version = NULL;
    size_t i;
    json_t *v;

    if (!is_servable(crd))
        return;
    json_array_foreach ((json_t *)versions, i, v)
        if (codec_json_bool(v, false, "storage", NULL))
            stored_version = codec_json_str(v, "name", NULL);
    json_array_foreach ((json_t *)versions, i, v)
        if (stored_version && codec_json_bool(v, false, "served", NULL) &&
            codec_json_str(v, "name", NULL))
            add_custom(c, custom_new(c, crd, v, stored_version));
    if (c->len > 0)
        qsort(c->items, c->len, sizeof(struct local_api_custom *), by_preference);
}

// Status updates leave the resources as they are, so that watches go on.
static bool is_current(const struct local_api_crds *c, const json_t *crd)
{
    for (size_t i = 0; i < c->len; i++)
        if (strcmp(c->items[i]->definition, kube_name(crd)) == 0)
            return c->items[i]->terminating == kube_is_deleting(crd) && is_servable(crd) &&
                   codec_json_same(c->items[i]->spec, json_object_get(crd, "spec")) &&
                   codec_json_same(c->items[i]->accepted,
                                   codec_json_get(crd, "status", "acceptedNames", NULL)) &&
                   (c->items[i]->resource.from_stored != NULL) == has_several_versions(crd);
    return false;
}

static size_t crd_bucket(void)
{
    return local_api_resource_bucket(
        local_api_resource_find("apiextensions.k8s.io", "v1", "customresourcedefinitions"));
}

static void definition_changed(struct local_api_crds *c,
                               const struct local_api_store_change *change)
{
    CODEC_AUTO_JSON json_t *crd = local_api_store_version_tree(change->after);
    bool deleted = change->type == LOCAL_API_STORE_DELETED;

    if (!deleted && is_current(c, crd))
        return;
    retire_definition(c, kube_name(crd));
    if (!deleted)
        add_definition(c, crd);
    gs_hmap_free(c->api->openapi);
    c->api->openapi = NULL;
    gs_timer_start(c->timer, crds_work, 0);
}

void local_api_crds_changed(struct local_api_crds *c, const struct local_api_store_change *change)
{
    if (change->bucket == crd_bucket())
        definition_changed(c, change);
    else if (change->type == LOCAL_API_STORE_DELETED && change->bucket >= local_api_n_resources)
        gs_timer_start(c->timer, crds_work, 0); // perhaps the last object of a deleted definition
}

void local_api_crds_load(struct local_api_crds *c)
{
    const struct local_api_store_version *v;

    for (size_t i = 0; (v = local_api_store_at(c->api->store, crd_bucket(), i, NULL, NULL)); i++)
        add_definition(c, v->tree);
    gs_timer_start(c->timer, crds_work, 0);
}

struct local_api_crds *local_api_crds_new(struct local_api *api)
{
    struct local_api_crds *c = gs_alloc(sizeof *c);

    c->api = api;
    c->timer = gs_timer_new(api->loop, c);
    return c;
}

static void free_retired(struct local_api_crds *c)
{
    while (c->retired) {
        struct local_api_custom *item = c->retired;
        c->retired = item->next_retired;
        custom_free(item);
    }
}

void local_api_crds_free(struct local_api_crds *c)
{
    if (!c)
        return;
    gs_timer_free(c->timer);
    free_retired(c);
    for (size_t i = 0; i < c->len; i++)
        custom_free(c->items[i]);
    free(c->items);
    free(c);
}

const struct local_api_resource *local_api_find_resource(const struct local_api *api,
                                                         const char *group, const char *version,
                                                         const char *plural)
{
    const struct local_api_resource *r = local_api_resource_find(group, version, plural);

    for (size_t i = 0; !r && i < api->crds->len; i++) {
        const struct local_api_resource *custom = &api->crds->items[i]->resource;
        if (strcmp(custom->group, group) == 0 && strcmp(custom->plural, plural) == 0 &&
            strcmp(custom->versions[0], version) == 0)
            r = custom;
    }
    return r;
}

const struct local_api_resource *local_api_nth_resource(const struct local_api *api, size_t i)
{
    if (i < local_api_n_resources)
        return &local_api_resources[i];
    i -= local_api_n_resources;
    return i < api->crds->len ? &api->crds->items[i]->resource : NULL;
}

// --- work after a change ---

static void report(struct gs_error *err, const char *what)
{
    if (err)
        gs_warn("api", "%s: %s", what, gs_error_message(err));
    gs_error_free(err);
}

static json_t *without_finalizer(const json_t *crd)
{
    json_t *copy = json_deep_copy(crd);
    json_t *finalizers = codec_json_get(copy, "metadata", "finalizers", NULL);

    for (size_t i = json_array_size(finalizers); i-- > 0;)
        if (gs_streq(json_string_value(json_array_get(finalizers, i)), LOCAL_API_CRD_FINALIZER))
            json_array_remove(finalizers, i);
    return copy;
}

static struct gs_error *delete_object(struct local_api *api, size_t bucket, const json_t *obj)
{
    const char *ns = kube_namespace(obj);

    if (json_array_size(codec_json_get(obj, "metadata", "finalizers", NULL)) == 0)
        return local_api_store_delete(api->store, bucket, ns ? ns : "", kube_name(obj));
    if (kube_is_deleting(obj))
        return NULL;
    json_t *copy = json_deep_copy(obj);
    local_api_now(json_object_get(copy, "metadata"), "deletionTimestamp");
    codec_json_set(copy, json_integer(0), "metadata", "deletionGracePeriodSeconds", NULL);
    return local_api_store_put(api->store, bucket, copy, NULL);
}

// Deletes the objects of a definition that is being deleted, a limited number at a time. Returns
// how many remain.
static size_t delete_objects(struct local_api_crds *c, const json_t *crd)
{
    const struct local_api_custom *item = NULL;
    CODEC_AUTO_JSON json_t *some = json_array();
    const struct local_api_store_version *v;
    size_t i;
    json_t *obj;

    for (i = 0; i < c->len; i++)
        if (strcmp(c->items[i]->definition, kube_name(crd)) == 0)
            item = c->items[i];
    if (!item)
        return 0;
    for (i = 0; i < DELETIONS_PER_TURN &&
                (v = local_api_store_at(c->api->store, item->bucket, i, NULL, NULL));
         i++)
        json_array_append(some, v->tree);
    size_t bucket = item->bucket;
    json_array_foreach (some, i, obj)
        report(delete_object(c->api, bucket, obj), "an object of a deleted definition");
    return local_api_store_len(c->api->store, bucket);
}

static void finish_deletion(struct local_api_crds *c, const json_t *crd)
{
    json_t *next = without_finalizer(crd);

    if (json_array_size(codec_json_get(next, "metadata", "finalizers", NULL)) > 0) {
        if (!json_equal(next, crd))
            report(local_api_store_put(c->api->store, crd_bucket(), json_incref(next), NULL),
                   "a CustomResourceDefinition");
    } else {
        report(local_api_store_delete(c->api->store, crd_bucket(), "", kube_name(crd)),
               "a CustomResourceDefinition");
    }
    json_decref(next);
}

static void update_conditions(struct local_api_crds *c, const json_t *crd)
{
    json_t *next = json_deep_copy(crd);

    if (local_api_crd_set_status(c->api, next))
        report(local_api_store_put(c->api->store, crd_bucket(), json_incref(next), NULL),
               "a CustomResourceDefinition");
    json_decref(next);
}

static void crds_work(void *arg)
{
    struct local_api_crds *c = arg;
    CODEC_AUTO_JSON json_t *all = json_array();
    const struct local_api_store_version *v;
    size_t i;
    json_t *crd;

    free_retired(c);
    for (i = 0; (v = local_api_store_at(c->api->store, crd_bucket(), i, NULL, NULL)); i++)
        json_array_append(all, v->tree);
    json_array_foreach (all, i, crd) {
        // Names that were accepted stay so, whatever happens to other definitions.
        if (!kube_is_deleting(crd) && !kube_condition_true(crd, "NamesAccepted"))
            update_conditions(c, crd);
        else if (!kube_is_deleting(crd))
            continue;
        else if (delete_objects(c, crd) == 0)
            finish_deletion(c, crd);
    }
}

// --- versions ---

struct version_rank {
    int stability; // 3: stable, 2: beta, 1: alpha, 0: not of the form v1beta2
    long major, minor;
};

static struct version_rank rank_of(const char *version)
{
    static const char *const words[] = {"", "alpha", "beta"};
    struct version_rank r = {0};
    char *end;

    if (version[0] != 'v' || !isdigit((unsigned char)version[1]))
        return r;
    r.major = strtol(version + 1, &end, 10);
    if (!*end)
        r.stability = 3;
    for (int i = 1; *end && i <= 2 && !r.stability; i++)
        if (gs_starts(end, words[i]) && isdigit((unsigned char)end[strlen(words[i])])) {
            r.minor = strtol(end + strlen(words[i]), &end, 10);
            r.stability = *end ? 0 : i;
            break;
        }
    return r;
}

int local_api_compare_versions(const char *a, const char *b)
{
    struct version_rank x = rank_of(a), y = rank_of(b);

    if (x.stability != y.stability)
        return y.stability - x.stability;
    if (x.stability == 0)
        return strcmp(a, b);
    if (x.major != y.major)
        return x.major < y.major ? 1 : -1;
    return x.minor < y.minor ? 1 : x.minor > y.minor ? -1 : 0;
}
