// SPDX-License-Identifier: Apache-2.0
// The admission plug-in LimitRanger for pods: defaults, minimum, maximum and ratio of containers
// and pods. Source: Kubernetes 1.36, plugin/pkg/admission/limitranger.
#include "base/mem.h"
#include "kube/object.h"
#include "kube/quantity.h"
#include "local/api/admission.h"

#define ANN_LIMIT_RANGER "kubernetes.io/limit-ranger"

// --- defaults of the LimitRange itself ---

static void fill(json_t *to, const json_t *from)
{
    const char *key;
    json_t *value;

    json_object_foreach ((json_t *)from, key, value)
        if (!json_object_get(to, key))
            json_object_set(to, key, value);
}

void local_api_default_limit_range(json_t *obj, const json_t *old)
{
    size_t i;
    json_t *item;

    json_array_foreach (codec_json_get(obj, "spec", "limits", NULL), i, item) {
        if (!gs_streq(codec_json_str(item, "type", NULL), "Container"))
            continue;
        json_t *limits = local_api_default_object(item, "default");
        json_t *requests = local_api_default_object(item, "defaultRequest");
        if (!limits || !requests)
            continue;
        fill(limits, json_object_get(item, "max"));
        fill(requests, limits);
        fill(requests, json_object_get(item, "min"));
        if (json_object_size(limits) == 0)
            json_object_del(item, "default");
        if (json_object_size(requests) == 0)
            json_object_del(item, "defaultRequest");
    }
}

// --- defaults of containers ---

// Adds the missing quantities, and their names to `names`.
static void add_missing(json_t *container, const char *kind, const json_t *from,
                        struct gs_buf *names)
{
    json_t *resources = local_api_default_object(container, "resources");
    const char *key;
    json_t *value;

    json_object_foreach ((json_t *)from, key, value) {
        json_t *to = resources ? local_api_default_object(resources, kind) : NULL;
        if (!to || json_object_get(to, key))
            continue;
        json_object_set(to, key, value);
        gs_buf_addf(names, "%s%s", names->len ? ", " : "", key);
    }
}

static void note_set(struct gs_buf *out, const struct gs_buf *names, const char *kind,
                     const json_t *container, bool init)
{
    if (names->len)
        gs_buf_addf(out, "%s%s %s for %scontainer %s", out->len ? "; " : "", names->data, kind,
                    init ? "init " : "", codec_json_str(container, "name", NULL));
}

static void add_defaults(json_t *pod, const json_t *item, struct gs_buf *out)
{
    static const char *const lists[] = {"containers", "initContainers"};
    size_t i;
    json_t *container;

    for (size_t l = 0; l < GS_ARRAY_LEN(lists); l++)
        json_array_foreach (codec_json_get(pod, "spec", lists[l], NULL), i, container) {
            GS_AUTO_BUF struct gs_buf requests = {0}, limits = {0};
            add_missing(container, "limits", json_object_get(item, "default"), &limits);
            add_missing(container, "requests", json_object_get(item, "defaultRequest"), &requests);
            note_set(out, &requests, "request", container, l == 1);
            note_set(out, &limits, "limit", container, l == 1);
        }
}

// --- checks ---

struct amounts {
    bool has_request, has_limit;
    int64_t request, limit;
};

struct check {
    const char *type; // "Container", "Pod"
    struct gs_buf *problems;
    size_t n;
};

static GS_PRINTF(2, 3) void add_problem(struct check *c, const char *fmt, ...)
{
    va_list ap;

    if (c->n++)
        gs_buf_add_str(c->problems, ", ");
    va_start(ap, fmt);
    gs_buf_vaddf(c->problems, fmt, ap);
    va_end(ap);
}

static void check_minimum(struct check *c, const char *resource, int64_t bound,
                          const struct amounts *a)
{
    char want[KUBE_QUANTITY_SIZE], have[KUBE_QUANTITY_SIZE];

    local_api_amount_text(resource, bound, want);
    local_api_amount_text(resource, a->has_request && a->request < bound ? a->request : a->limit,
                          have);
    if (!a->has_request)
        add_problem(c, "minimum %s usage per %s is %s.  No request is specified", resource, c->type,
                    want);
    else if (a->request < bound)
        add_problem(c, "minimum %s usage per %s is %s, but request is %s", resource, c->type, want,
                    have);
    else if (a->has_limit && a->limit < bound)
        add_problem(c, "minimum %s usage per %s is %s, but limit is %s", resource, c->type, want,
                    have);
}

static void check_maximum(struct check *c, const char *resource, int64_t bound,
                          const struct amounts *a)
{
    char want[KUBE_QUANTITY_SIZE], have[KUBE_QUANTITY_SIZE];

    local_api_amount_text(resource, bound, want);
    local_api_amount_text(resource, a->has_limit && a->limit > bound ? a->limit : a->request, have);
    if (!a->has_limit)
        add_problem(c, "maximum %s usage per %s is %s.  No limit is specified", resource, c->type,
                    want);
    else if (a->limit > bound)
        add_problem(c, "maximum %s usage per %s is %s, but limit is %s", resource, c->type, want,
                    have);
    else if (a->has_request && a->request > bound)
        add_problem(c, "maximum %s usage per %s is %s, but request is %s", resource, c->type, want,
                    have);
}

static void check_ratio(struct check *c, const char *resource, int64_t bound,
                        const struct amounts *a)
{
    char want[KUBE_QUANTITY_SIZE];

    kube_quantity_format_milli(bound, want);
    if (!a->has_request || a->request <= 0)
        add_problem(c,
                    "%s max limit to request ratio per %s is %s, but no request is specified or "
                    "request is 0",
                    resource, c->type, want);
    else if (!a->has_limit || a->limit <= 0)
        add_problem(c,
                    "%s max limit to request ratio per %s is %s, but no limit is specified or "
                    "limit is 0",
                    resource, c->type, want);
    else if ((double)a->limit / (double)a->request > (double)bound / 1000)
        add_problem(c, "%s max limit to request ratio per %s is %s, but provided ratio is %f",
                    resource, c->type, want, (double)a->limit / (double)a->request);
}

typedef bool (*amount_fn)(const json_t *obj, const char *kind, const char *resource,
                          int64_t *ret_milli);

static void check_item(struct check *c, const json_t *item, const json_t *obj, amount_fn amount)
{
    static const struct {
        const char *key;
        void (*check)(struct check *c, const char *resource, int64_t bound,
                      const struct amounts *a);
    } checks[] = {
        {"min", check_minimum}, {"max", check_maximum}, {"maxLimitRequestRatio", check_ratio}};
    const char *resource;
    json_t *value;

    for (size_t i = 0; i < GS_ARRAY_LEN(checks); i++)
        json_object_foreach (json_object_get(item, checks[i].key), resource, value) {
            struct amounts a = {0};
            int64_t bound = 0;
            a.has_request = amount(obj, "requests", resource, &a.request);
            a.has_limit = amount(obj, "limits", resource, &a.limit);
            if (local_api_amount(value, &bound))
                checks[i].check(c, resource, bound, &a);
        }
}

static void check_limits(const json_t *limits, const json_t *pod, struct check *c)
{
    size_t i, k;
    json_t *item, *container;

    json_array_foreach ((json_t *)limits, i, item) {
        c->type = codec_json_str(item, "type", NULL);
        if (gs_streq(c->type, "Container")) {
            json_array_foreach (codec_json_get(pod, "spec", "containers", NULL), k, container)
                check_item(c, item, container, local_api_container_amount);
            json_array_foreach (codec_json_get(pod, "spec", "initContainers", NULL), k, container)
                check_item(c, item, container, local_api_container_amount);
        } else if (gs_streq(c->type, "Pod")) {
            check_item(c, item, pod, local_api_pod_amount);
        }
    }
}

// --- admission ---

static json_t *limits_of(const struct local_api_request *r)
{
    size_t bucket = local_api_resource_bucket(local_api_resource_find("", "v1", "limitranges"));
    const struct local_api_store_version *v;
    const char *ns;
    size_t k;
    json_t *all = json_array(), *item;

    for (size_t i = local_api_store_seek(r->api->store, bucket, r->ns, "");
         (v = local_api_store_at(r->api->store, bucket, i, &ns, NULL)) && strcmp(ns, r->ns) == 0;
         i++)
        json_array_foreach (codec_json_get(v->tree, "spec", "limits", NULL), k, item)
            json_array_append(all, item);
    return all;
}

json_t *local_api_admit_limits(const struct local_api_request *r, json_t *pod)
{
    CODEC_AUTO_JSON json_t *limits = limits_of(r);
    GS_AUTO_BUF struct gs_buf set = {0}, problems = {0};
    struct check c = {.problems = &problems};
    size_t i;
    json_t *item;

    json_array_foreach (limits, i, item)
        if (gs_streq(codec_json_str(item, "type", NULL), "Container"))
            add_defaults(pod, item, &set);
    if (set.len) {
        codec_json_set(pod, codec_json_strf("LimitRanger plugin set: %s", set.data), "metadata",
                       "annotations", ANN_LIMIT_RANGER, NULL);
        local_api_set_qos(pod);
    }
    check_limits(limits, pod, &c);
    if (!c.n)
        return NULL;
    GS_AUTO_FREE char *why = c.n > 1 ? gs_format("[%s]", problems.data) : gs_strdup(problems.data);
    return local_api_forbidden(r, pod, why);
}
