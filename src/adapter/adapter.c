// SPDX-License-Identifier: Apache-2.0
// Paths, errors and bodies of custom.metrics.k8s.io as prometheus-adapter has them (see
// docs/custom-metrics.md for the few differences: the timestamp is the sample's own).
#include "adapter/adapter.h"

#include "adapter/collect.h"
#include "base/clock.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "kube/object.h"
#include "kube/quantity.h"
#include "kube/status.h"

#define GROUP        "custom.metrics.k8s.io"
#define ROOT         "/apis/" GROUP
#define MAX_SEGMENTS 6

struct adapter {
    struct tsdb *db;
    struct kube_cache *pods;
};

struct adapter *adapter_new(struct tsdb *db, struct kube_cache *pods)
{
    struct adapter *a = gs_alloc(sizeof(*a));
    a->db = db;
    a->pods = pods;
    return a;
}

void adapter_free(struct adapter *a)
{
    free(a);
}

// --- one request ---

enum target { TARGET_PODS, TARGET_NAMESPACE, TARGET_NODE };

struct request {
    struct adapter *a;
    struct http_exchange *x;
    const char *version; // "v1beta1"
    enum target target;
    const char *ns, *name, *resource; // resource: as written in the path
    const char *selector_text;        // metricLabelSelector, NULL: none
    struct kube_selector selector;
    struct adapter_request rq;
    json_t *items;
};

static void reply_not_found(const struct request *r)
{
    bool one = r->name && !gs_streq(r->name, "*");
    kube_reply_failure(r->x, 404, "NotFound", "the server could not find the metric %s for %s%s%s",
                       r->rq.metric, r->resource, one ? " " : "", one ? r->name : "");
}

// LabelSelector JSON of what was asked for; null without a selector.
static json_t *selector_json(const struct request *r)
{
    if (!r->selector_text)
        return json_null();
    json_t *out = json_object();
    for (size_t i = 0; i < r->selector.len; i++) {
        const struct kube_requirement *q = &r->selector.items[i];
        if (q->op == KUBE_SEL_EQ) {
            codec_json_set(out, json_string(q->values[0]), "matchLabels", q->key, NULL);
            continue;
        }
        static const char *const names[] = {
            [KUBE_SEL_NEQ] = "NotIn",
            [KUBE_SEL_IN] = "In",
            [KUBE_SEL_NOTIN] = "NotIn",
            [KUBE_SEL_EXISTS] = "Exists",
            [KUBE_SEL_NOT_EXISTS] = "DoesNotExist",
        };
        json_t *expressions = json_object_get(out, "matchExpressions");
        if (!expressions) {
            expressions = json_array();
            json_object_set_new(out, "matchExpressions", expressions);
        }
        json_t *e = json_pack("{s:s, s:s}", "key", q->key, "operator", names[q->op]);
        if (q->n_values) {
            json_t *values = json_array();
            for (size_t k = 0; k < q->n_values; k++)
                json_array_append_new(values, json_string(q->values[k]));
            json_object_set_new(e, "values", values);
        }
        json_array_append_new(expressions, e);
    }
    return out;
}

static void add_item(struct request *r, const char *kind, const char *ns, const char *name,
                     struct adapter_value v)
{
    int64_t milli;
    if (!kube_quantity_from_double(v.value, &milli))
        return; // NaN, infinite: not a value that may be served as a number
    char quantity[KUBE_QUANTITY_SIZE], when[GS_RFC3339_SIZE];
    kube_quantity_format_milli(milli, quantity);
    gs_format_rfc3339(v.t_ms, when);
    json_t *object = json_pack("{s:s}", "kind", kind);
    if (ns)
        codec_json_set_str(object, "namespace", ns);
    codec_json_set_str(object, "name", name);
    codec_json_set_str(object, "apiVersion", "/v1");
    json_t *item = json_pack("{s:o}", "describedObject", object);
    bool v1 = gs_streq(r->version, "v1beta1");
    if (v1)
        codec_json_set_str(item, "metricName", r->rq.metric);
    else
        json_object_set_new(
            item, "metric",
            json_pack("{s:s, s:o}", "name", r->rq.metric, "selector", selector_json(r)));
    codec_json_set_str(item, "timestamp", when);
    codec_json_set_str(item, "value", quantity);
    if (v1)
        json_object_set_new(item, "selector", selector_json(r));
    json_array_append_new(r->items, item);
}

static void reply_items(struct request *r)
{
    CODEC_AUTO_JSON json_t *body =
        json_pack("{s:s, s:o, s:{}, s:O}", "kind", "MetricValueList", "apiVersion",
                  codec_json_strf(GROUP "/%s", r->version), "metadata", "items", r->items);
    kube_reply_json(r->x, 200, body);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Names of the namespace's pods that the labelSelector picks, sorted, as a list of the API would
// be.
static size_t select_pods(const struct request *r, const struct kube_selector *labels,
                          const char ***ret_names)
{
    const char **names = gs_alloc_array(kube_cache_len(r->a->pods), sizeof(*names));
    size_t n = 0, pos = 0;
    for (const json_t *pod; (pod = kube_cache_next(r->a->pods, &pos));)
        if (gs_streq(kube_namespace(pod), r->ns) &&
            kube_selector_matches(labels, codec_json_get(pod, "metadata", "labels", NULL)))
            names[n++] = kube_name(pod);
    if (n)
        qsort(names, n, sizeof(*names), compare_names);
    *ret_names = names;
    return n;
}

// Whether discovery lists the metric for pods.
static bool is_listed(const struct request *r)
{
    struct adapter_names pods = {0}, nodes = {0};
    adapter_list_metrics(r->a->db, r->rq.now_ms, &pods, &nodes);
    bool found = false;
    for (size_t i = 0; i < pods.len && !found; i++)
        found = gs_streq(pods.items[i], r->rq.metric);
    adapter_names_finish(&pods);
    adapter_names_finish(&nodes);
    return found;
}

// A metric that exists and has no value for these pods is an empty list. A metric that does not
// exist is an error, so that a typing error is seen.
static void answer_all_pods(struct request *r)
{
    struct kube_selector labels = {0};
    struct gs_error *err = kube_selector_parse(http_query(r->x, "labelSelector"), &labels);
    if (err) {
        kube_reply_failure(r->x, 400, "BadRequest", "%s", gs_error_message(err));
        gs_error_free(err);
        return;
    }
    GS_AUTO_FREE const char **names = NULL;
    size_t n = select_pods(r, &labels, &names);
    kube_selector_finish(&labels);
    struct gs_hmap *values = adapter_collect_pods(r->a->db, &r->rq);
    for (size_t i = 0; i < n; i++) {
        const struct adapter_value *v = gs_hmap_get_str(values, names[i]);
        if (v)
            add_item(r, "Pod", r->ns, names[i], *v);
    }
    gs_hmap_free(values);
    if (json_array_size(r->items) || (n && is_listed(r)))
        reply_items(r);
    else
        reply_not_found(r);
}

static void answer_one(struct request *r)
{
    bool found = false;
    struct adapter_value v = {0};
    if (r->target == TARGET_PODS) {
        struct gs_hmap *values = adapter_collect_pods(r->a->db, &r->rq);
        const struct adapter_value *own = gs_hmap_get_str(values, r->name);
        found = own != NULL;
        if (own)
            v = *own;
        gs_hmap_free(values);
    } else if (r->target == TARGET_NAMESPACE) {
        found = adapter_collect_namespace(r->a->db, &r->rq, &v);
    } else {
        found = adapter_collect_node(r->a->db, &r->rq, r->name, &v);
    }
    if (found) {
        static const char *const kinds[] = {"Pod", "Namespace", "Node"};
        add_item(r, kinds[r->target], r->target == TARGET_PODS ? r->ns : NULL, r->name, v);
    }
    if (json_array_size(r->items))
        reply_items(r);
    else
        reply_not_found(r);
}

// > and < have no counterpart among Prometheus' matchers, nor in a LabelSelector.
static bool has_comparison(const struct kube_selector *s)
{
    for (size_t i = 0; i < s->len; i++)
        if (s->items[i].op == KUBE_SEL_GT || s->items[i].op == KUBE_SEL_LT)
            return true;
    return false;
}

static void answer(struct request *r)
{
    r->selector_text = http_query(r->x, "metricLabelSelector");
    struct gs_error *err = kube_selector_parse(r->selector_text, &r->selector);
    if (err) {
        kube_reply_failure(r->x, 400, "BadRequest", "%s", gs_error_message(err));
        gs_error_free(err);
        return;
    }
    if (has_comparison(&r->selector)) {
        kube_reply_failure(
            r->x, 400, "BadRequest",
            "metricLabelSelector: operators > and < are not supported by Prometheus");
        kube_selector_finish(&r->selector);
        return;
    }
    r->rq.selector = &r->selector;
    r->rq.ns = r->ns;
    r->rq.now_ms = gs_unix_ms();
    r->items = json_array();
    if (r->target == TARGET_PODS && gs_streq(r->name, "*"))
        answer_all_pods(r);
    else
        answer_one(r);
    json_decref(r->items);
    kube_selector_finish(&r->selector);
}

// --- discovery ---

static void add_resource(json_t *list, const char *prefix, const char *metric, bool namespaced)
{
    json_array_append_new(list, json_pack("{s:o, s:s, s:b, s:s, s:[s]}", "name",
                                          codec_json_strf("%s/%s", prefix, metric), "singularName",
                                          "", "namespaced", namespaced, "kind", "MetricValueList",
                                          "verbs", "get"));
}

static void reply_resources(struct adapter *a, struct http_exchange *x, const char *version)
{
    struct adapter_names pods = {0}, nodes = {0};
    adapter_list_metrics(a->db, gs_unix_ms(), &pods, &nodes);
    json_t *list = json_array();
    for (size_t i = 0; i < pods.len; i++) {
        add_resource(list, "pods", pods.items[i], true);
        add_resource(list, "namespaces", pods.items[i], false);
    }
    for (size_t i = 0; i < nodes.len; i++)
        add_resource(list, "nodes", nodes.items[i], false);
    adapter_names_finish(&pods);
    adapter_names_finish(&nodes);
    CODEC_AUTO_JSON json_t *body =
        json_pack("{s:s, s:s, s:o, s:o}", "kind", "APIResourceList", "apiVersion", "v1",
                  "groupVersion", codec_json_strf(GROUP "/%s", version), "resources", list);
    kube_reply_json(x, 200, body);
}

json_t *adapter_group(void)
{
    return json_pack("{s:s, s:s, s:s, s:[{s:s, s:s}, {s:s, s:s}], s:{s:s, s:s}}", "kind",
                     "APIGroup", "apiVersion", "v1", "name", GROUP, "versions", "groupVersion",
                     GROUP "/v1beta1", "version", "v1beta1", "groupVersion", GROUP "/v1beta2",
                     "version", "v1beta2", "preferredVersion", "groupVersion", GROUP "/v1beta1",
                     "version", "v1beta1");
}

// --- routing ---

// The path's segments below /apis/GROUP, decoded. 0 with an error reply sent when one is bad.
struct segments {
    char *items[MAX_SEGMENTS];
    size_t len;
};

static void segments_finish(struct segments *s)
{
    for (size_t i = 0; i < s->len; i++)
        free(s->items[i]);
}

static struct gs_error *split_path(const char *path, struct segments *ret)
{
    struct gs_slice rest = gs_slice_of(path);
    while (rest.data) {
        struct gs_slice part = gs_slice_cut(&rest, '/');
        if (!part.len)
            continue;
        if (ret->len == MAX_SEGMENTS)
            return gs_error_new(GS_EINVAL, "invalid request path");
        struct gs_error *err = http_decode_segment(part, &ret->items[ret->len]);
        if (err)
            return err;
        ret->len++;
    }
    return NULL;
}

// "pods", "pod" and the forms with a group suffix name the same resource.
static bool is_resource(const char *text, const char *plural, const char *singular)
{
    size_t n = strcspn(text, ".");
    struct gs_slice head = gs_slice_make(text, n);
    return gs_slice_eq_str(head, plural) || gs_slice_eq_str(head, singular);
}

// What the path below the version names. False: no such shape.
static bool read_target(char *const *v, size_t n, struct request *r)
{
    bool in_namespace = gs_streq(v[0], "namespaces");
    if (in_namespace && n == 4 && gs_streq(v[2], "metrics")) {
        r->target = TARGET_NAMESPACE;
        r->ns = r->name = v[1];
        r->resource = "namespaces";
    } else if (in_namespace && n == 5) {
        r->target = TARGET_PODS;
        r->ns = v[1];
        r->resource = v[2];
        r->name = v[3];
    } else if (n == 3 && !in_namespace) {
        r->target = TARGET_NODE;
        r->resource = v[0];
        r->name = v[1];
    } else {
        return false;
    }
    r->rq.metric = v[n - 1];
    return true;
}

static void route_metric(struct adapter *a, struct http_exchange *x, const struct segments *s)
{
    struct request r = {.a = a, .x = x, .version = s->items[0]};
    if (!read_target(s->items + 1, s->len - 1, &r)) {
        kube_reply_failure(x, 400, "BadRequest", "invalid request path");
        return;
    }
    bool served = r.target == TARGET_NAMESPACE ||
                  (r.target == TARGET_PODS && is_resource(r.resource, "pods", "pod")) ||
                  (r.target == TARGET_NODE && is_resource(r.resource, "nodes", "node"));
    if (served)
        answer(&r);
    else
        reply_not_found(&r);
}

static bool known_version(const char *v)
{
    return gs_streq(v, "v1beta1") || gs_streq(v, "v1beta2");
}

static void route(struct adapter *a, struct http_exchange *x, const struct segments *s)
{
    if (s->len == 0) {
        CODEC_AUTO_JSON json_t *group = adapter_group();
        kube_reply_json(x, 200, group);
    } else if (!known_version(s->items[0])) {
        kube_reply_failure(x, 404, "NotFound", "the server could not find the requested resource");
    } else if (s->len == 1) {
        reply_resources(a, x, s->items[0]);
    } else {
        route_metric(a, x, s);
    }
}

void adapter_handle(void *adapter, struct http_exchange *x)
{
    if (!gs_streq(http_method(x), "GET")) {
        kube_reply_failure(x, 405, "MethodNotAllowed",
                           "the server does not allow this method on the requested resource");
        return;
    }
    struct segments s = {0};
    struct gs_error *err = split_path(http_path(x) + strlen(ROOT), &s);
    if (err)
        kube_reply_failure(x, 400, "BadRequest", "%s", gs_error_message(err));
    else
        route(adapter, x, &s);
    gs_error_free(err);
    segments_finish(&s);
}
