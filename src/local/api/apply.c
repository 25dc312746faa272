// SPDX-License-Identifier: Apache-2.0
// Field managers: which of them owns which fields, conflicts, and apply patches.
#include "local/api/apply.h"

#include "base/mem.h"
#include "kube/names.h"
#include "kube/object.h"
#include "local/api/api_private.h"
#include "local/api/crd.h"

#define MAX_MANAGER_BYTES   128
#define MAX_UPDATE_MANAGERS 10 // the oldest ones are merged, as in kube-apiserver
#define ANCIENT_MANAGER     "ancient-changes"
#define FIRST_MANAGER       "before-first-apply"
#define APPLY               "Apply"
#define UPDATE              "Update"

// --- the type of an object ---

// served: an object in the request's version.
static struct local_api_applied_type applied_type(const struct local_api_request *r,
                                                  const json_t *served)
{
    return (struct local_api_applied_type){
        .type = r->res->custom ? NULL : kube_schema_find(kube_api_version(served), r->res->kind),
        .schema = r->res->custom ? local_api_custom_schema(r->res->custom) : NULL,
        .custom = r->res->custom || !kube_schema_find(kube_api_version(served), r->res->kind),
    };
}

static bool is_tracked(const struct local_api_request *r)
{
    return strcmp(r->res->plural, "events") != 0; // many, and nobody applies them
}

// A main request cannot change the status, and a status request nothing else.
static void drop_other_parts(const struct local_api_request *r, json_t *set)
{
    if (gs_streq(r->sub, "status")) {
        json_object_del(set, "f:spec");
        json_object_del(set, "f:metadata");
    } else if (local_api_resource_has(r->res, LOCAL_API_R_STATUS)) {
        json_object_del(set, "f:status");
    }
}

// --- managers: entries of managedFields, with sets as trees in "fieldsV1" ---

struct manager {
    const char *name, *operation, *version, *subresource; // subresource "": none
};

static const char *query_manager(const struct local_api_request *r)
{
    const char *name = r->x ? http_query(r->x, "fieldManager") : NULL;
    return name && *name ? name : NULL;
}

// Caller frees.
static char *manager_name(const struct local_api_request *r)
{
    const char *agent = r->x ? http_header(r->x, "User-Agent") : NULL;
    struct gs_slice rest = gs_slice_of(agent ? agent : "");

    if (query_manager(r))
        return gs_strdup(query_manager(r));
    struct gs_slice name = gs_slice_cut(&rest, '/');
    if (name.len > MAX_MANAGER_BYTES)
        name.len = MAX_MANAGER_BYTES;
    return name.len ? gs_slice_dup(name) : gs_strdup("gpuscale");
}

static bool is_entry_of(const json_t *entry, const struct manager *m)
{
    const char *sub = codec_json_str(entry, "subresource", NULL);

    return gs_streq(codec_json_str(entry, "manager", NULL), m->name) &&
           gs_streq(codec_json_str(entry, "operation", NULL), m->operation) &&
           gs_streq(codec_json_str(entry, "apiVersion", NULL), m->version) &&
           strcmp(sub ? sub : "", m->subresource) == 0;
}

static bool is_valid_entry(const json_t *entry)
{
    const char *operation = codec_json_str(entry, "operation", NULL);

    return codec_json_str(entry, "manager", NULL) && codec_json_str(entry, "apiVersion", NULL) &&
           (gs_streq(operation, APPLY) || gs_streq(operation, UPDATE)) &&
           json_is_object(json_object_get(entry, "fieldsV1"));
}

static json_t *read_entries(const json_t *obj)
{
    json_t *entries = json_array();
    size_t i;
    json_t *entry;

    json_array_foreach (codec_json_get(obj, "metadata", "managedFields", NULL), i, entry) {
        if (!is_valid_entry(entry))
            continue;
        json_t *copy = json_copy(entry);
        json_object_set_new(copy, "fieldsV1",
                            local_api_fields_read(json_object_get(entry, "fieldsV1")));
        json_array_append_new(entries, copy);
    }
    return entries;
}

static json_t *set_of(const json_t *entry)
{
    return json_object_get(entry, "fieldsV1");
}

static json_t *find_entry(const json_t *entries, const struct manager *m)
{
    size_t i;
    json_t *entry;

    json_array_foreach ((json_t *)entries, i, entry)
        if (is_entry_of(entry, m))
            return entry;
    return NULL;
}

static json_t *add_entry(json_t *entries, const struct manager *m)
{
    json_t *entry = json_object();

    codec_json_set_str(entry, "manager", m->name);
    codec_json_set_str(entry, "operation", m->operation);
    codec_json_set_str(entry, "apiVersion", m->version);
    local_api_now(entry, "time");
    codec_json_set_str(entry, "fieldsType", "FieldsV1");
    json_object_set_new(entry, "fieldsV1", json_object());
    if (*m->subresource)
        codec_json_set_str(entry, "subresource", m->subresource);
    json_array_append_new(entries, entry);
    return entry;
}

static int by_time(const void *a, const void *b)
{
    const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
    const char *keys[] = {"operation", "time", "manager"};

    for (size_t i = 0; i < GS_ARRAY_LEN(keys); i++) {
        const char *p = codec_json_str(x, keys[i], NULL), *q = codec_json_str(y, keys[i], NULL);
        int c = strcmp(p ? p : "", q ? q : "");
        if (c != 0)
            return c;
    }
    return 0;
}

// Without empty entries, in kube-apiserver's order. entries is stolen.
static json_t *sorted_entries(json_t *entries)
{
    size_t n = json_array_size(entries), used = 0;
    GS_AUTO_FREE json_t **list = gs_alloc_array(n + 1, sizeof(json_t *));
    json_t *sorted = json_array();

    for (size_t i = 0; i < n; i++)
        if (json_object_size(set_of(json_array_get(entries, i))) > 0)
            list[used++] = json_array_get(entries, i);
    qsort(list, used, sizeof(json_t *), by_time);
    for (size_t i = 0; i < used; i++)
        json_array_append(sorted, list[i]);
    json_decref(entries);
    return sorted;
}

static bool is_update(const json_t *entry)
{
    return gs_streq(codec_json_str(entry, "operation", NULL), UPDATE);
}

// sorted: updates are last, the oldest one first.
static void merge_ancient(json_t *sorted)
{
    size_t first = 0;

    while (first < json_array_size(sorted) && !is_update(json_array_get(sorted, first)))
        first++;
    while (json_array_size(sorted) - first > MAX_UPDATE_MANAGERS) {
        json_t *kept = json_array_get(sorted, first);
        local_api_fields_add(set_of(kept), set_of(json_array_get(sorted, first + 1)));
        codec_json_set_str(kept, "manager", ANCIENT_MANAGER);
        json_array_remove(sorted, first + 1);
    }
}

// As metadata.managedFields; NULL if empty. entries is stolen.
static json_t *write_entries(json_t *entries)
{
    json_t *sorted = sorted_entries(entries);
    size_t i;
    json_t *entry;

    merge_ancient(sorted);
    json_array_foreach (sorted, i, entry)
        json_object_set_new(entry, "fieldsV1", local_api_fields_write(set_of(entry)));
    if (json_array_size(sorted) > 0)
        return sorted;
    json_decref(sorted);
    return NULL;
}

static void set_managed_fields(json_t *obj, json_t *managed)
{
    if (managed)
        codec_json_set(obj, managed, "metadata", "managedFields", NULL);
    else
        codec_json_del(obj, "metadata", "managedFields", NULL);
}

// --- writes that are not applies ---

// Clients may change the list themselves: kubectl does so when a client-side applied object is
// first applied on the server. An object without the list keeps the old one.
static json_t *entries_before(const json_t *old, const json_t *obj)
{
    const json_t *given = codec_json_get(obj, "metadata", "managedFields", NULL);
    return read_entries(old && !json_is_array(given) ? old : obj);
}

static void update_entries(json_t *entries, const struct manager *m, const json_t *changed,
                           const json_t *removed)
{
    json_t *own = find_entry(entries, m);
    size_t i;
    json_t *entry;

    json_array_foreach (entries, i, entry) {
        local_api_fields_remove(set_of(entry), removed);
        if (entry != own)
            local_api_fields_remove(set_of(entry), changed);
    }
    if (json_object_size(changed) == 0)
        return;
    if (!own)
        own = add_entry(entries, m);
    json_t *before = json_deep_copy(set_of(own));
    local_api_fields_add(set_of(own), changed);
    if (!json_equal(before, set_of(own)))
        local_api_now(own, "time");
    json_decref(before);
}

void local_api_track_fields(const struct local_api_request *r, const json_t *old, json_t *obj)
{
    if (r->managed_fields || !is_tracked(r)) {
        set_managed_fields(obj, json_incref((json_t *)r->managed_fields));
        return;
    }
    CODEC_AUTO_JSON json_t *before = old ? local_api_to_served(r, old) : NULL;
    CODEC_AUTO_JSON json_t *after = local_api_to_served(r, obj);
    const struct local_api_applied_type type = applied_type(r, after);
    CODEC_AUTO_JSON json_t *changed = NULL;
    CODEC_AUTO_JSON json_t *removed = NULL;
    GS_AUTO_FREE char *name = manager_name(r);
    json_t *entries = entries_before(old, obj);

    local_api_fields_differ(&type, before, after, &changed, &removed);
    drop_other_parts(r, changed);
    drop_other_parts(r, removed);
    update_entries(entries,
                   &(struct manager){name, UPDATE, kube_api_version(after), r->sub ? r->sub : ""},
                   changed, removed);
    set_managed_fields(obj, write_entries(entries));
}

// --- conflicts ---

struct conflicts {
    json_t *causes;   // of the Status
    json_t *by_owner; // {owner's text: [path …]}
    size_t n;
};

static char *owner_text(const json_t *entry)
{
    const char *sub = codec_json_str(entry, "subresource", NULL);
    GS_AUTO_BUF struct gs_buf text = {0};

    kube_quote(gs_slice_of(codec_json_str(entry, "manager", NULL)), &text);
    if (sub)
        gs_buf_addf(&text, " with subresource \"%s\"", sub);
    if (is_update(entry))
        gs_buf_addf(&text, " using %s", codec_json_str(entry, "apiVersion", NULL));
    return gs_buf_take(&text);
}

static void add_conflicts(struct conflicts *c, const json_t *entry, const json_t *fields)
{
    CODEC_AUTO_JSON json_t *paths = local_api_fields_paths(fields);
    GS_AUTO_FREE char *owner = owner_text(entry);
    size_t i;
    json_t *path;

    if (!json_object_get(c->by_owner, owner))
        json_object_set_new(c->by_owner, owner, json_array());
    json_array_foreach (paths, i, path) {
        json_array_append(json_object_get(c->by_owner, owner), path);
        json_t *cause = json_object();
        codec_json_set_str(cause, "reason", "FieldManagerConflict");
        json_object_set_new(cause, "message", codec_json_strf("conflict with %s", owner));
        json_object_set(cause, "field", path);
        json_array_append_new(c->causes, cause);
        c->n++;
    }
}

static json_t *conflict_status(struct conflicts *c)
{
    size_t n = json_object_size(c->by_owner), k = 0, i;
    GS_AUTO_FREE const char **owners = gs_alloc_array(n + 1, sizeof *owners);
    GS_AUTO_BUF struct gs_buf text = {0};
    const char *owner;
    json_t *paths, *path;

    gs_buf_addf(&text, "Apply failed with %zu conflict%s: ", c->n, c->n == 1 ? "" : "s");
    json_object_foreach (c->by_owner, owner, paths)
        owners[k++] = owner;
    qsort(owners, n, sizeof *owners, gs_compare_texts);
    for (k = 0; k < n; k++) {
        paths = json_object_get(c->by_owner, owners[k]);
        bool one = c->n == 1;
        gs_buf_addf(&text, "%sconflict%s with %s:", k ? "\n" : "", one ? "" : "s", owners[k]);
        json_array_foreach (paths, i, path)
            gs_buf_addf(&text, one ? " %s" : "\n- %s", json_string_value(path));
    }
    json_t *details = json_object();
    json_object_set(details, "causes", c->causes);
    return kube_status_failure(409, "Conflict", text.data, details);
}

// --- apply ---

static json_t *bad_apply(const char *text)
{
    return kube_status_failure(400, "BadRequest", text, NULL);
}

static json_t *invalid_options(const char *type, const char *field, const char *text)
{
    struct kube_field_errors errors = {0};

    kube_field_error(&errors, type, field, NULL, "%s", text);
    json_t *status = kube_status_invalid("PatchOptions.meta.k8s.io", "", &errors);
    kube_field_errors_finish(&errors);
    return status;
}

static json_t *check_options(const struct local_api_request *r)
{
    const char *name = query_manager(r);

    if (!name)
        return invalid_options("FieldValueRequired", "fieldManager", "is required for apply patch");
    if (strlen(name) > MAX_MANAGER_BYTES)
        return invalid_options("FieldValueTooLong", "fieldManager",
                               "may not be more than 128 bytes");
    return NULL;
}

static json_t *check_identity(const struct local_api_request *r, const json_t *config)
{
    const char *version = kube_api_version(config), *kind = kube_kind(config);
    const char *name = kube_name(config);

    if (!json_is_object(config) || !version || !*version || !kind || !*kind) {
        GS_AUTO_FREE char *text = gs_format("invalid object type: %s, Kind=%s",
                                            version && *version ? version : "/", kind ? kind : "");
        return bad_apply(text);
    }
    if (json_object_get(json_object_get(config, "metadata"), "managedFields"))
        return bad_apply("metadata.managedFields must be nil");
    if (name && strcmp(name, r->name) != 0) {
        GS_AUTO_FREE char *text = gs_format(
            "the name of the object (%s) does not match the name on the URL (%s)", name, r->name);
        return bad_apply(text);
    }
    return NULL;
}

// An applied field that the schema lacks could never be owned.
static json_t *check_declared(const struct local_api_request *r, const json_t *config)
{
    const struct kube_type *type = kube_schema_find(kube_api_version(config), r->res->kind);
    CODEC_AUTO_JSON json_t *copy = json_deep_copy(config);
    CODEC_AUTO_JSON json_t *unknown = json_array();
    CODEC_AUTO_JSON json_t *wrong = json_array();

    if (r->res->custom)
        local_api_custom_prune(r->res->custom, copy, unknown);
    else if (type)
        kube_schema_check(type, copy, true, unknown, wrong);
    if (json_array_size(unknown) == 0)
        return NULL;
    // The text is: unknown field "spec.x".
    struct gs_slice field = gs_slice_of(json_string_value(json_array_get(unknown, 0)));
    gs_slice_cut(&field, '"');
    struct gs_slice path = gs_slice_cut(&field, '"');
    GS_AUTO_FREE char *text =
        gs_format("failed to create typed patch object (%s/%s; %s, Kind=%s): .%.*s: field not "
                  "declared in schema",
                  r->ns, r->name, kube_api_version(config), r->res->kind, (int)path.len, path.data);
    return kube_status_failure(500, NULL, text, NULL);
}

static json_t *read_config(const struct local_api_request *r, json_t **ret)
{
    json_t *status = check_options(r);

    if (!status)
        status = local_api_read_body(r, ret);
    if (!status)
        status = check_identity(r, *ret);
    if (!status)
        status = check_declared(r, *ret);
    if (!status)
        status = local_api_check_object(r, *ret);
    if (!status)
        codec_json_set(*ret, json_string(r->name), "metadata", "name", NULL);
    return status;
}

struct application {
    const struct local_api_request *r;
    struct local_api_applied_type type;
    struct manager manager;
    json_t *entries; // owned
    bool force;
};

static void add_first_manager(struct application *a, const json_t *live)
{
    const struct manager first = {FIRST_MANAGER, UPDATE, a->manager.version, ""};
    CODEC_AUTO_JSON json_t *set = local_api_fields_of(&a->type, live);

    drop_other_parts(a->r, set);
    local_api_fields_add(set_of(add_entry(a->entries, &first)), set);
}

// Takes fields from other managers, or reports conflicts.
static json_t *settle_owners(struct application *a, const json_t *own, const json_t *changed,
                             const json_t *removed)
{
    struct conflicts c = {json_array(), json_object(), 0};
    size_t i;
    json_t *entry;
    json_t *status = NULL;

    json_array_foreach (a->entries, i, entry) {
        if (entry == own)
            continue;
        CODEC_AUTO_JSON json_t *common = local_api_fields_common(set_of(entry), changed);
        if (json_object_size(common) > 0 && a->force)
            local_api_fields_remove(set_of(entry), common);
        else if (json_object_size(common) > 0)
            add_conflicts(&c, entry, common);
        local_api_fields_remove(set_of(entry), removed);
    }
    if (c.n > 0)
        status = conflict_status(&c);
    json_decref(c.causes);
    json_decref(c.by_owner);
    return status;
}

static json_t *owned_by_all(const struct application *a, const json_t *own, const json_t *set)
{
    json_t *owned = json_deep_copy(set);
    size_t i;
    json_t *entry;

    json_array_foreach (a->entries, i, entry)
        if (entry != own)
            local_api_fields_add(owned, set_of(entry));
    return owned;
}

// ret: the object after the apply, in the served version. live may be NULL.
static json_t *apply_config(struct application *a, const json_t *live, const json_t *config,
                            json_t **ret)
{
    CODEC_AUTO_JSON json_t *set = local_api_fields_of(&a->type, config);
    CODEC_AUTO_JSON json_t *changed = NULL;
    CODEC_AUTO_JSON json_t *removed = NULL;
    CODEC_AUTO_JSON json_t *merged =
        live ? local_api_fields_merge(&a->type, live, config) : json_deep_copy(config);
    json_t *own = find_entry(a->entries, &a->manager);

    drop_other_parts(a->r, set);
    if (own) {
        CODEC_AUTO_JSON json_t *owned = owned_by_all(a, own, set);
        local_api_fields_prune(&a->type, merged, set_of(own), owned);
    }
    local_api_fields_differ(&a->type, live, merged, &changed, &removed);
    drop_other_parts(a->r, changed);
    json_t *status = settle_owners(a, own, changed, removed);
    if (status)
        return status;
    if (!own)
        own = add_entry(a->entries, &a->manager);
    if (!json_equal(set_of(own), set))
        local_api_now(own, "time");
    json_object_set(own, "fieldsV1", set);
    *ret = GS_TAKE(merged);
    return NULL;
}

static json_t *store_applied(const struct local_api_request *r, const json_t *live, json_t *merged)
{
    CODEC_AUTO_JSON json_t *stored = NULL;
    json_t *next = NULL;

    if (!live)
        return local_api_create_object(r, merged);
    json_t *status = local_api_to_stored(r, merged, &next);
    if (!status)
        status = local_api_replace(r, live, next, &stored);
    if (!status)
        local_api_reply_object(r, 200, stored);
    return status;
}

json_t *local_api_apply(const struct local_api_request *r)
{
    const struct local_api_store_version *v =
        local_api_store_get(r->api->store, local_api_resource_bucket(r->res), r->ns, r->name);
    bool is_live = v && !local_api_is_stand_in(r->res, v->tree);
    CODEC_AUTO_JSON json_t *live = is_live ? json_incref(v->tree) : NULL;
    CODEC_AUTO_JSON json_t *served = live ? local_api_to_served(r, live) : NULL;
    CODEC_AUTO_JSON json_t *config = NULL;
    json_t *merged = NULL;
    json_t *status = read_config(r, &config);

    if (!status && !live && r->sub)
        status = local_api_not_found(r);
    if (status)
        return status;
    struct application a = {
        .r = r,
        .type = applied_type(r, config),
        .manager = {query_manager(r), APPLY, kube_api_version(config), r->sub ? r->sub : ""},
        .entries = read_entries(live),
        .force = local_api_query_bool(r->x, "force"),
    };
    if (live && json_array_size(a.entries) == 0)
        add_first_manager(&a, served);
    status = apply_config(&a, served, config, &merged);
    if (status) {
        json_decref(a.entries);
        return status;
    }
    CODEC_AUTO_JSON json_t *managed = write_entries(a.entries);
    struct local_api_request applied = *r;
    CODEC_AUTO_JSON json_t *none = json_array();
    applied.managed_fields = managed ? managed : none;
    return store_applied(&applied, live, merged);
}
