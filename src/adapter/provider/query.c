// SPDX-License-Identifier: Apache-2.0
// Builds the query of one request from a rule's template, as prometheus-adapter does: matchers for
// objects, namespace and selector, and the labels to group by. Values are quoted; a name of an
// object cannot leave its matcher.
#include "adapter/provider/provider.h"

#include "base/mem.h"
#include "kube/names.h"

#define MAX_MATCHERS ((size_t)8 * 1024 * 1024)

bool provider_query_label_for(const struct adapter_config_resources *r,
                              const struct provider_rest_mapper *m,
                              const struct provider_rest_mapping *resource, struct gs_buf *out)
{
    for (size_t i = 0; i < r->n_overrides; i++) {
        const struct adapter_config_override *o = &r->overrides[i];
        const struct provider_rest_mapping *named =
            provider_rest_mapper_find(m, gs_slice_of(o->group), gs_slice_of(o->resource));
        if (named == resource) {
            gs_buf_add_str(out, o->label);
            return true;
        }
    }
    if (!r->label_template)
        return false;
    GS_AUTO_FREE char *group = gs_strdup(resource->group);
    for (char *p = group; *p; p++)
        if (*p == '.' || *p == '-')
            *p = '_';
    struct gs_error *err = adapter_config_label_expand(r->label_template, gs_slice_of(group),
                                                       gs_slice_of(resource->singular), out);
    gs_error_free(err);
    return !err;
}

// --- matchers ---

struct parts {
    struct gs_buf matchers;
    struct gs_arena arena;
    struct metrics_label *values;
    size_t max;
    size_t n;
};

static struct gs_slice join_values(struct gs_arena *a, const char *const *values, size_t n)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    for (size_t i = 0; i < n; i++)
        gs_buf_addf(&text, "%s%s", i ? "|" : "", values[i]);
    const char *copy = gs_arena_strndup(a, text.data ? text.data : "", text.len);
    return gs_slice_make(copy, text.len);
}

static void add_query_matcher(struct parts *p, struct gs_slice label, const char *op,
                              struct gs_slice value)
{
    if (p->matchers.len)
        gs_buf_add_char(&p->matchers, ',');
    gs_buf_add_slice(&p->matchers, label);
    gs_buf_add_str(&p->matchers, op);
    kube_quote(value, &p->matchers);
    for (size_t i = 0; i < p->n; i++)
        if (gs_slice_eq(p->values[i].name, label)) {
            p->values[i].value = value;
            return;
        }
    if (p->n < p->max)
        p->values[p->n++] = (struct metrics_label){label, value};
}

static struct gs_error *add_requirement(struct parts *p, const struct kube_requirement *r)
{
    bool several = r->n_values > 1;
    const char *op = NULL;
    switch (r->op) {
    case KUBE_SEL_EQ:
        op = several ? "=~" : "=";
        break;
    case KUBE_SEL_NEQ:
        op = several ? "!~" : "!=";
        break;
    case KUBE_SEL_IN:
        op = "=~";
        break;
    case KUBE_SEL_NOTIN:
        op = "!~";
        break;
    case KUBE_SEL_EXISTS:
        op = "!=";
        break;
    case KUBE_SEL_NOT_EXISTS:
        op = "=";
        break;
    case KUBE_SEL_GT:
    case KUBE_SEL_LT:
        break;
    }
    if (!op)
        return gs_error_new(GS_EINVAL,
                            "the selector compares %s with < or >, which no matcher of Prometheus "
                            "can do",
                            r->key);
    add_query_matcher(p, gs_slice_of(r->key), op,
                      join_values(&p->arena, (const char *const *)r->values, r->n_values));
    return NULL;
}

static struct gs_error *add_namespace(struct parts *p, const struct provider_query_request *q,
                                      struct gs_buf *label)
{
    const struct provider_rest_mapping *namespaces =
        provider_rest_mapper_find_text(q->mapper, "namespaces");
    if (!namespaces || !provider_query_label_for(q->resources, q->mapper, namespaces, label))
        return gs_error_new(GS_EINVAL,
                            "the rule maps no label to namespaces, and the request has one");
    add_query_matcher(p, gs_buf_slice(label), "=", gs_slice_of(q->ns));
    return NULL;
}

static int compare_values(const void *a, const void *b)
{
    const struct metrics_label *x = a, *y = b;
    size_t n = x->name.len < y->name.len ? x->name.len : y->name.len;
    int c = n ? memcmp(x->name.data, y->name.data, n) : 0;
    return c ? c : (x->name.len > y->name.len) - (x->name.len < y->name.len);
}

static struct gs_error *expand_query(struct parts *p, const struct provider_query_request *q,
                                     const struct gs_buf *label, struct gs_buf *ret_query)
{
    struct gs_slice by[2];
    size_t n_by = 0;
    GS_AUTO_BUF struct gs_buf group_by = {0};
    if (q->resource)
        by[n_by++] = gs_buf_slice(label);
    if (q->extra_group_by)
        by[n_by++] = gs_slice_of(q->extra_group_by);
    for (size_t i = 0; i < n_by; i++) {
        if (i)
            gs_buf_add_char(&group_by, ',');
        gs_buf_add_slice(&group_by, by[i]);
    }
    if (p->n)
        qsort(p->values, p->n, sizeof(*p->values), compare_values);
    const struct adapter_config_query_data d = {
        .series = q->series,
        .matchers = gs_buf_slice(&p->matchers),
        .group_by = gs_buf_slice(&group_by),
        .values = p->values,
        .n_values = p->n,
        .group_by_list = by,
        .n_group_by = n_by,
    };
    struct gs_error *err = adapter_config_query_expand(q->template_, &d, ret_query);
    if (!err && p->matchers.overflow)
        err = gs_error_new(GS_ELIMIT, "the matchers are longer than %zu bytes", MAX_MATCHERS);
    if (!err && !ret_query->len)
        err = gs_error_new(GS_EINVAL, "the rule's metricsQuery is empty");
    return err;
}

static struct gs_error *build_provider_query(struct parts *p,
                                             const struct provider_query_request *q,
                                             struct gs_buf *ret_query, struct gs_buf *ret_label)
{
    struct gs_error *err = NULL;
    GS_AUTO_BUF struct gs_buf ns_label = {0};
    for (size_t i = 0; q->selector && i < q->selector->len && !err; i++)
        err = add_requirement(p, &q->selector->items[i]);
    if (!err && q->ns && *q->ns)
        err = add_namespace(p, q, &ns_label);
    if (!err && q->resource &&
        !provider_query_label_for(q->resources, q->mapper, q->resource, ret_label))
        err = gs_error_new(GS_EINVAL, "the rule maps no label to %s", q->resource->resource);
    if (err)
        return err;
    if (q->resource)
        add_query_matcher(p, gs_buf_slice(ret_label), q->n_names > 1 ? "=~" : "=",
                          join_values(&p->arena, q->names, q->n_names));
    if (q->matchers)
        gs_buf_add_slice(q->matchers, gs_buf_slice(&p->matchers));
    return expand_query(p, q, ret_label, ret_query);
}

struct gs_error *provider_query_build(const struct provider_query_request *q,
                                      struct gs_buf *ret_query, struct gs_buf *ret_label)
{
    struct parts *p = gs_alloc(sizeof(*p));
    p->matchers.limit = MAX_MATCHERS;
    p->max = (q->selector ? q->selector->len : 0) + 2; // the namespace, the object
    p->values = gs_alloc_array(p->max, sizeof(*p->values));
    struct gs_error *err = build_provider_query(p, q, ret_query, ret_label);
    gs_buf_finish(&p->matchers);
    gs_arena_finish(&p->arena);
    free(p->values);
    free(p);
    return err;
}
