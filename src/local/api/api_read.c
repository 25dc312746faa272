// SPDX-License-Identifier: Apache-2.0
// Get and list.
#include "base/mem.h"
#include "base/num.h"
#include "codec/encoding.h"
#include "kube/object.h"
#include "local/api/api_private.h"
#include "local/api/table.h"
#include "local/cluster.h"

#include <inttypes.h>

#define MAX_CONTINUE_BYTES 4096

json_t *local_api_get(const struct local_api_request *r)
{
    const struct local_api_store_version *v =
        local_api_store_get(r->api->store, local_api_resource_bucket(r->res), r->ns, r->name);

    if (!v || local_api_is_hidden(r, v->tree))
        return local_api_not_found(r);
    const char *notice = kube_annotation(v->tree, LOCAL_ANN_NOTICE);
    if (notice && *notice)
        local_api_warning(r, "%s", notice);
    if (r->form == LOCAL_API_FORM_OBJECT && !r->res->from_stored)
        http_reply(r->x, 200, "application/json", gs_slice_make(v->text, v->text_len));
    else
        local_api_reply_object(r, 200, v->tree);
    return NULL;
}

// --- filters ---

static const struct local_api_field *find_field(const struct local_api_resource *res,
                                                const char *name)
{
    static const struct local_api_field of_all[] = {{"metadata.name"}, {"metadata.namespace"}};

    for (size_t i = 0; i < GS_ARRAY_LEN(of_all); i++)
        if (strcmp(name, of_all[i].name) == 0)
            return &of_all[i];
    for (const struct local_api_field *f = res->fields; f && f->name; f++)
        if (strcmp(name, f->name) == 0)
            return f;
    return NULL;
}

// Values are in order: "" is the first.
static void match_absent_too(struct kube_requirement *q)
{
    char **values = gs_alloc_array(q->n_values + 1, sizeof *values);

    values[0] = gs_strdup("");
    memcpy(values + 1, q->values, q->n_values * sizeof *values);
    free(q->values);
    q->values = values;
    q->n_values++;
}

static json_t *check_field_labels(const struct local_api_request *r, struct kube_selector *fields)
{
    for (size_t i = 0; i < fields->len; i++) {
        struct kube_requirement *q = &fields->items[i];
        const struct local_api_field *f = find_field(r->res, q->key);
        if (!f) {
            GS_AUTO_FREE char *text = gs_format("field label not supported: %s", q->key);
            return kube_status_failure(400, "BadRequest", text, NULL);
        }
        if (f->path) {
            free(q->key);
            q->key = gs_strdup(f->path);
        }
        // An absent field is matched as "".
        if (f->absent && q->n_values == 1 && strcmp(q->values[0], f->absent) == 0)
            match_absent_too(q);
    }
    return NULL;
}

json_t *local_api_filter_init(const struct local_api_request *r, struct local_api_filter *ret)
{
    struct local_api_filter f = {.ns = r->ns, .name = r->name};

    struct gs_error *err = kube_selector_parse(http_query(r->x, "labelSelector"), &f.labels);
    if (!err)
        err = kube_field_selector_parse(http_query(r->x, "fieldSelector"), &f.fields);
    json_t *status = err ? kube_status_failure(400, "BadRequest", gs_error_message(err), NULL)
                         : check_field_labels(r, &f.fields);
    gs_error_free(err);
    if (status)
        local_api_filter_finish(&f);
    else
        *ret = f;
    return status;
}

void local_api_filter_finish(struct local_api_filter *f)
{
    kube_selector_finish(&f->labels);
    kube_selector_finish(&f->fields);
}

bool local_api_filter_matches(const struct local_api_filter *f, const struct local_api_request *r,
                              const json_t *stored)
{
    if (f->name && !gs_streq(f->name, kube_name(stored)))
        return false;
    if (*f->ns && !gs_streq(f->ns, kube_namespace(stored)))
        return false;
    if (!kube_selector_matches(&f->labels, codec_json_get(stored, "metadata", "labels", NULL)))
        return false;
    if (f->fields.len == 0)
        return true;
    if (!r->res->view_of)
        return kube_field_selector_matches(&f->fields, stored);
    CODEC_AUTO_JSON json_t *served = local_api_to_served(r, stored);
    return kube_field_selector_matches(&f->fields, served);
}

// --- pages ---

struct page {
    int64_t limit;  // 0: none
    char *after_ns; // NULL: from the start
    char *after_name;
    uint64_t rv; // of the list that the first page belongs to, 0: this is it
};

static void page_finish(struct page *p)
{
    free(p->after_ns);
    free(p->after_name);
}

static void make_token(uint64_t rv, const char *ns, const char *name, struct gs_buf *out)
{
    GS_AUTO_BUF struct gs_buf plain = {0};

    gs_buf_addf(&plain, "v1 %" PRIu64 " %s %s", rv, *ns ? ns : "-", name);
    codec_base64_encode(gs_buf_slice(&plain), out);
}

static bool read_token(const char *token, struct page *p)
{
    GS_AUTO_BUF struct gs_buf plain = {0};

    if (strlen(token) > MAX_CONTINUE_BYTES)
        return false;
    GS_AUTO_ERROR struct gs_error *err = codec_base64_decode(gs_slice_of(token), &plain);
    if (err || plain.len == 0 || memchr(plain.data, '\0', plain.len))
        return false;
    struct gs_slice rest = gs_buf_slice(&plain);
    if (!gs_slice_eq_str(gs_slice_cut(&rest, ' '), "v1"))
        return false;
    GS_AUTO_ERROR struct gs_error *bad = gs_parse_u64(gs_slice_cut(&rest, ' '), INT64_MAX, &p->rv);
    struct gs_slice ns = gs_slice_cut(&rest, ' ');
    if (bad || ns.len == 0 || rest.len == 0)
        return false;
    p->after_ns = gs_slice_eq_str(ns, "-") ? gs_strdup("") : gs_slice_dup(ns);
    p->after_name = gs_slice_dup(rest);
    return true;
}

static json_t *read_page(const struct local_api_request *r, struct page *ret)
{
    const char *limit = http_query(r->x, "limit");
    const char *token = http_query(r->x, "continue");

    if (limit && *limit) {
        GS_AUTO_ERROR struct gs_error *err =
            gs_parse_i64(gs_slice_of(limit), 0, INT64_MAX, &ret->limit);
        if (err)
            return kube_status_failure(400, "BadRequest",
                                       "limit must be a number that is not "
                                       "negative",
                                       NULL);
    }
    if (token && *token && !read_token(token, ret))
        return kube_status_failure(400, "BadRequest",
                                   "continue key is not valid: it is not one "
                                   "that this server gave out",
                                   NULL);
    return NULL;
}

// --- lists ---

struct list {
    struct gs_buf items; // of objects, joined by ","
    json_t *table;       // instead, for tables
    size_t n;
    char *continue_token;
    size_t remaining;
};

static void list_finish(struct list *l)
{
    gs_buf_finish(&l->items);
    json_decref(l->table);
    free(l->continue_token);
}

static void list_add(const struct local_api_request *r, const struct local_api_store_version *v,
                     struct list *l)
{
    if (r->form == LOCAL_API_FORM_TABLE) {
        const struct local_api_table *t = r->res->table ? r->res->table : &local_api_table_plain;
        CODEC_AUTO_JSON json_t *served = local_api_to_served(r, v->tree);
        local_api_table_add(l->table, t, r->form_version, v->tree, served, r->include_object);
    } else {
        if (l->n > 0)
            gs_buf_add_char(&l->items, ',');
        if (r->form == LOCAL_API_FORM_OBJECT && !r->res->from_stored) {
            gs_buf_add(&l->items, v->text, v->text_len);
        } else {
            CODEC_AUTO_JSON json_t *shown = local_api_render(r, v->tree, false);
            codec_json_dump(shown, &l->items);
        }
    }
    l->n++;
}

static void note_more(const struct local_api_request *r, struct list *l, const char *ns,
                      const char *name)
{
    GS_AUTO_BUF struct gs_buf token = {0};

    make_token(local_api_store_rv(r->api->store), ns, name, &token);
    l->continue_token = gs_buf_take(&token);
}

static void collect(const struct local_api_request *r, const struct local_api_filter *filter,
                    const struct page *page, struct list *l)
{
    const struct local_api_store *store = r->api->store;
    size_t bucket = local_api_resource_bucket(r->res);
    const char *ns, *name, *last_ns = "", *last_name = "";
    const struct local_api_store_version *v;
    size_t i = local_api_store_seek(store, bucket, page->after_ns ? page->after_ns : r->ns,
                                    page->after_ns ? page->after_name : "");

    for (; (v = local_api_store_at(store, bucket, i, &ns, &name)); i++) {
        if (*r->ns && strcmp(ns, r->ns) != 0)
            break;
        if (page->after_ns && strcmp(ns, page->after_ns) == 0 &&
            strcmp(name, page->after_name) == 0)
            continue;
        if (!local_api_filter_matches(filter, r, v->tree))
            continue;
        if (page->limit > 0 && l->n == (size_t)page->limit) {
            if (l->remaining++ == 0)
                note_more(r, l, last_ns, last_name);
            continue;
        }
        list_add(r, v, l);
        last_ns = ns;
        last_name = name;
    }
}

static json_t *list_metadata(const struct local_api_request *r,
                             const struct local_api_filter *filter, const struct page *page,
                             const struct list *l)
{
    json_t *meta = json_object();
    char rv[24];

    snprintf(rv, sizeof rv, "%" PRIu64, page->rv ? page->rv : local_api_store_rv(r->api->store));
    codec_json_set_str(meta, "resourceVersion", rv);
    if (l->continue_token) {
        codec_json_set_str(meta, "continue", l->continue_token);
        // With selectors Kubernetes does not count what remains.
        if (filter->labels.len == 0 && filter->fields.len == 0)
            codec_json_set_int(meta, "remainingItemCount", (int64_t)l->remaining);
    }
    return meta;
}

static void reply_list(const struct local_api_request *r, json_t *meta, struct list *l)
{
    CODEC_AUTO_JSON json_t *owned = meta;
    GS_AUTO_BUF struct gs_buf text = {0};
    GS_AUTO_BUF struct gs_buf version = {0};

    if (r->form == LOCAL_API_FORM_TABLE) {
        json_object_set(l->table, "metadata", owned);
        kube_reply_json(r->x, 200, l->table);
        return;
    }
    if (r->form == LOCAL_API_FORM_PARTIAL)
        local_api_version("meta.k8s.io", r->form_version, &version);
    else
        local_api_version(r->res->group, r->version, &version);
    gs_buf_addf(&text, "{\"kind\":\"%sList\",\"apiVersion\":\"%s\",\"metadata\":",
                r->form == LOCAL_API_FORM_PARTIAL ? "PartialObjectMetadata" : r->res->kind,
                version.data);
    codec_json_dump(owned, &text);
    gs_buf_add_str(&text, ",\"items\":[");
    gs_buf_add_slice(&text, gs_buf_slice(&l->items));
    gs_buf_add_str(&text, "]}\n");
    http_reply(r->x, 200, "application/json", gs_buf_slice(&text));
}

json_t *local_api_list(const struct local_api_request *r)
{
    GS_CLEANUP(page_finish) struct page page = {0};
    GS_CLEANUP(list_finish) struct list list = {0};
    struct local_api_filter filter;

    json_t *status = local_api_check_list_options(r);
    if (!status)
        status = read_page(r, &page);
    if (!status)
        status = local_api_filter_init(r, &filter);
    if (status)
        return status;
    if (r->form == LOCAL_API_FORM_TABLE)
        list.table = local_api_table_new(r->res->table ? r->res->table : &local_api_table_plain,
                                         r->form_version, true);
    collect(r, &filter, &page, &list);
    reply_list(r, list_metadata(r, &filter, &page, &list), &list);
    local_api_filter_finish(&filter);
    return NULL;
}
