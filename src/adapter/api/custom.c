// SPDX-License-Identifier: Apache-2.0
// Serves the values of one metric of custom.metrics.k8s.io or external.metrics.k8s.io. Bodies are
// written directly, in the field order of Kubernetes.
#include "adapter/api/api_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "kube/quantity.h"
#include "kube/status.h"

#include <math.h>

// --- writing ---

void adapter_api_add_json_string(struct gs_buf *out, struct gs_slice s)
{
    codec_json_add_string(out, s, CODEC_JSON_HTML);
}

static void add_member(struct gs_buf *out, const char *name, const char *value)
{
    gs_buf_addf(out, "\"%s\":", name);
    adapter_api_add_json_string(out, gs_slice_of(value));
}

// Adds the request's metricLabelSelector as LabelSelector JSON.
static void add_selector(const struct adapter_api_call *c, struct gs_buf *out)
{
    const struct kube_selector *s = &c->metric_selector;
    static const char *const names[] = {
        [KUBE_SEL_NEQ] = "NotIn",
        [KUBE_SEL_IN] = "In",
        [KUBE_SEL_NOTIN] = "NotIn",
        [KUBE_SEL_EXISTS] = "Exists",
        [KUBE_SEL_NOT_EXISTS] = "DoesNotExist",
    };
    size_t n = 0;
    if (!s->len) {
        gs_buf_add_str(out, "null");
        return;
    }
    gs_buf_add_char(out, '{');
    for (size_t i = 0; i < s->len; i++)
        if (s->items[i].op == KUBE_SEL_EQ) {
            gs_buf_add_str(out, n++ ? "," : "\"matchLabels\":{");
            add_member(out, s->items[i].key, s->items[i].values[0]);
        }
    if (n)
        gs_buf_add_char(out, '}');
    size_t expressions = 0;
    for (size_t i = 0; i < s->len; i++) {
        const struct kube_requirement *q = &s->items[i];
        if (q->op == KUBE_SEL_EQ || q->op == KUBE_SEL_GT || q->op == KUBE_SEL_LT)
            continue;
        gs_buf_add_str(out, expressions++ ? ","
                            : n           ? ",\"matchExpressions\":["
                                          : "\"matchExpressions\":[");
        gs_buf_add_char(out, '{');
        add_member(out, "key", q->key);
        gs_buf_add_char(out, ',');
        add_member(out, "operator", names[q->op]);
        for (size_t k = 0; k < q->n_values; k++) {
            gs_buf_add_str(out, k ? "," : ",\"values\":[");
            adapter_api_add_json_string(out, gs_slice_of(q->values[k]));
        }
        gs_buf_add_str(out, q->n_values ? "]}" : "}");
    }
    gs_buf_add_str(out, expressions ? "]}" : "}");
}

// False: the value is NaN, infinite or too large for a quantity.
static bool format_value(double v, char text[KUBE_QUANTITY_SIZE])
{
    int64_t milli;
    if (!kube_quantity_from_double(v, &milli))
        return false;
    kube_quantity_format_milli(milli, text);
    return true;
}

static void begin_list(struct gs_buf *out, const char *kind, const struct adapter_api_path *p)
{
    gs_buf_addf(out, "{\"kind\":\"%s\",\"apiVersion\":\"%s/%s\",\"metadata\":{},\"items\":[", kind,
                p->group, p->version);
}

// The parts of an item that do not depend on its name, timestamp and value.
struct item_parts {
    struct gs_buf before_name, after_name, after_time, after_value;
};

static void add_window(const struct provider_answer *a, const char *name, struct gs_buf *out)
{
    if (a->window_ms >= 1000)
        gs_buf_addf(out, "\"%s\":%lld,", name, (long long)(a->window_ms / 1000));
}

static void make_parts(const struct adapter_api_call *c, const struct provider_answer *a,
                       struct item_parts *p)
{
    const struct provider_rest_mapping *r = a->resource;
    bool v1 = gs_streq(c->path.version, "v1beta1");
    gs_buf_add_str(&p->before_name, "{\"describedObject\":{");
    add_member(&p->before_name, "kind", r->kind);
    if (c->path.object_ns) {
        gs_buf_add_char(&p->before_name, ',');
        add_member(&p->before_name, "namespace", c->path.object_ns);
    }
    gs_buf_add_str(&p->before_name, ",\"name\":");
    gs_buf_add_str(&p->after_name, ",\"apiVersion\":\"");
    gs_buf_addf(&p->after_name, "%s/%s\"},", r->group, r->version);
    if (v1) {
        add_member(&p->after_name, "metricName", c->path.metric);
        gs_buf_add_str(&p->after_value, ",\"selector\":");
        add_selector(c, &p->after_value);
    } else {
        gs_buf_add_str(&p->after_name, "\"metric\":{");
        add_member(&p->after_name, "name", c->path.metric);
        gs_buf_add_str(&p->after_name, ",\"selector\":");
        add_selector(c, &p->after_name);
        gs_buf_add_char(&p->after_name, '}');
    }
    gs_buf_add_str(&p->after_name, ",\"timestamp\":\"");
    gs_buf_add_str(&p->after_time, "\",");
    add_window(a, v1 ? "window" : "windowSeconds", &p->after_time);
    gs_buf_add_str(&p->after_time, "\"value\":\"");
    gs_buf_add_str(&p->after_value, "}");
}

static void parts_finish(struct item_parts *p)
{
    gs_buf_finish(&p->before_name);
    gs_buf_finish(&p->after_name);
    gs_buf_finish(&p->after_time);
    gs_buf_finish(&p->after_value);
}

// False: no value can be served.
static bool write_custom(const struct adapter_api_call *c, const struct provider_answer *a,
                         struct gs_buf *out)
{
    struct item_parts p = {0};
    size_t n = 0;
    char value[KUBE_QUANTITY_SIZE], when[GS_RFC3339_SIZE];
    make_parts(c, a, &p);
    begin_list(out, "MetricValueList", &c->path);
    for (size_t i = 0; i < a->n; i++) {
        if (!format_value(a->values[i].value, value))
            continue;
        if (n++)
            gs_buf_add_char(out, ',');
        gs_buf_add_slice(out, gs_buf_slice(&p.before_name));
        adapter_api_add_json_string(out, gs_slice_of(a->values[i].name));
        gs_buf_add_slice(out, gs_buf_slice(&p.after_name));
        gs_buf_add_str(out, gs_format_rfc3339(a->values[i].t_ms, when));
        gs_buf_add_slice(out, gs_buf_slice(&p.after_time));
        gs_buf_add_str(out, value);
        gs_buf_add_char(out, '"');
        gs_buf_add_slice(out, gs_buf_slice(&p.after_value));
    }
    gs_buf_add_str(out, "]}\n");
    parts_finish(&p);
    return n > 0 || gs_streq(c->path.object_name, "*");
}

static void write_external(const struct adapter_api_call *c, const struct provider_answer *a,
                           struct gs_buf *out)
{
    char value[KUBE_QUANTITY_SIZE], when[GS_RFC3339_SIZE];
    size_t n = 0;
    begin_list(out, "ExternalMetricValueList", &c->path);
    for (size_t i = 0; i < a->n_samples; i++) {
        const struct source_sample *s = &a->samples[i];
        if (!format_value(s->value, value))
            continue;
        gs_buf_add_str(out, n++ ? ",{" : "{");
        add_member(out, "metricName", c->path.metric);
        gs_buf_add_str(out, ",\"metricLabels\":");
        if (a->scalar)
            gs_buf_add_str(out, "null");
        else
            gs_buf_add_char(out, '{');
        for (size_t k = 0; k < s->n_labels; k++) {
            if (k)
                gs_buf_add_char(out, ',');
            adapter_api_add_json_string(out, s->labels[k].name);
            gs_buf_add_char(out, ':');
            adapter_api_add_json_string(out, s->labels[k].value);
        }
        if (!a->scalar)
            gs_buf_add_char(out, '}');
        gs_buf_addf(out, ",\"timestamp\":\"%s\",", gs_format_rfc3339(s->t_ms, when));
        add_window(a, "window", out);
        gs_buf_addf(out, "\"value\":\"%s\"}", value);
    }
    gs_buf_add_str(out, "]}\n");
}

// --- errors ---

static void reply_internal(struct adapter_api_call *c, const char *what, const char *cause)
{
    GS_AUTO_FREE char *text =
        gs_format("Internal error occurred: %s%s%s", what, *cause ? ": " : "", cause);
    json_t *details = json_pack("{s:[{s:o}]}", "causes", "message",
                                codec_json_strf("%s%s%s", what, *cause ? ": " : "", cause));
    kube_reply_status(c->x, kube_status_failure(500, "InternalError", text, details));
}

static void reply_not_found(struct adapter_api_call *c, const char *object, const char *cause,
                            const char *theirs)
{
    const struct adapter_api_path *p = &c->path;
    bool external = gs_streq(p->group, ADAPTER_API_EXTERNAL);
    const char *resource = p->object_resource;
    if (external)
        resource = gs_streq(p->object_ns, "default") ? "namespaces" : "";
    kube_reply_failure(c->x, 404, "NotFound",
                       "the server could not find the metric %s for %s%s%s%s%s%s%s", p->metric,
                       resource, object ? " " : "", object ? object : "", *cause ? ": " : "", cause,
                       theirs ? "; " : "", theirs ? theirs : "");
}

void adapter_api_reply_not_found(struct adapter_api_call *c, const char *cause, const char *theirs)
{
    reply_not_found(c, NULL, cause, theirs);
}

static void reply_answer(struct adapter_api_call *c, const struct provider_answer *a)
{
    GS_AUTO_BUF struct gs_buf out = {0};
    switch (a->outcome) {
    case PROVIDER_OK:
        break;
    case PROVIDER_NO_METRIC:
        reply_not_found(c, NULL, a->cause, NULL);
        return;
    case PROVIDER_NO_SAMPLE:
        reply_not_found(c, c->path.object_name, a->cause, NULL);
        return;
    case PROVIDER_SOURCE_FAILED:
        reply_internal(c, "unable to fetch metrics", a->cause);
        return;
    case PROVIDER_LIST_FAILED:
        reply_internal(c, "unable to list matching resources", a->cause);
        return;
    }
    bool any = true;
    if (gs_streq(c->path.group, ADAPTER_API_EXTERNAL))
        write_external(c, a, &out);
    else
        any = write_custom(c, a, &out);
    if (any && kube_wants_pretty(c->x)) {
        kube_reply_compact(c->x, 200, gs_buf_slice(&out));
        return;
    }
    if (any) {
        struct http_bytes *body = http_bytes_new(&out);
        adapter_api_response_cache_put(c->a->responses, c->x, body, a->until_ns);
        kube_reply_bytes(c->x, 200, body);
        http_bytes_unref(body);
        return;
    }
    reply_not_found(c, c->path.object_name, "its value is NaN or infinite", NULL);
}

// A later change of the values is reported to clients that follow changes.
static void follow(struct adapter_api_call *c, const struct provider_answer *a)
{
    const struct adapter_api_path *p = &c->path;
    bool external = gs_streq(p->group, ADAPTER_API_EXTERNAL);
    if (!c->a->changes || a->outcome != PROVIDER_OK || !a->query ||
        a->source != c->a->generation.source)
        return;
    struct metric_changes_answer answer = {.ns = p->object_ns,
                                           .resource = external ? NULL : p->object_resource,
                                           .name = external ? NULL : p->object_name,
                                           .metric = p->metric,
                                           .label_selector = http_query(c->x, "labelSelector"),
                                           .selector = c->metric_selector_text,
                                           .query = a->query,
                                           .source = a->source};
    size_t n = external ? a->n_samples : a->n;
    for (size_t i = 0; i < n; i++) {
        double value = external ? a->samples[i].value : a->values[i].value;
        // The others are not in the response, either.
        if (!isfinite(value))
            continue;
        answer.sum += value;
        answer.n++;
    }
    metric_changes_answered(c->a->changes, &answer);
}

static void on_metric_values(void *arg, const struct provider_answer *a)
{
    struct adapter_api_call *c = arg;
    c->value_call = NULL;
    if (adapter_api_wants_explanation(c)) {
        adapter_api_reply_explanation(c, a);
        return;
    }
    if (a->unserved && adapter_api_forward(c, a->cause))
        return;
    follow(c, a);
    reply_answer(c, a);
    adapter_api_call_end(c);
}

// --- the request ---

static void refuse_selector(struct adapter_api_call *c, int code, struct gs_error *err)
{
    kube_reply_failure(c->x, code, code == 400 ? "BadRequest" : NULL, "%s", gs_error_message(err));
    gs_error_free(err);
    adapter_api_call_end(c);
}

// A rule of the previous server comes before the series of pods without a rule.
static bool delegate_lists(const struct adapter_api_call *c)
{
    const struct adapter_api_delegate *p = adapter_api_delegate(c->a, c->path.group);
    GS_AUTO_FREE char *version = gs_format("%s/%s", c->path.group, c->path.version);
    GS_AUTO_FREE char *wanted = gs_format("%s/%s", c->path.object_resource, c->path.metric);
    const json_t *list = p ? adapter_api_delegate_resources(p, version) : NULL, *item;
    size_t i;
    json_array_foreach (list, i, item)
        if (gs_streq(codec_json_str(item, "name", NULL), wanted))
            return true;
    return false;
}

void adapter_api_metric(struct adapter_api_call *c)
{
    const struct adapter_api_path *p = &c->path;
    bool external = gs_streq(p->group, ADAPTER_API_EXTERNAL);
    const char *objects = http_query(c->x, "labelSelector");
    struct kube_selector checked = {0};
    struct gs_error *err = kube_selector_parse(objects, external ? &c->metric_selector : &checked);
    kube_selector_finish(&checked);
    if (err) {
        refuse_selector(c, 400, err);
        return;
    }
    if (!external) {
        c->metric_selector_text = http_query(c->x, "metricLabelSelector");
        err = kube_selector_parse(c->metric_selector_text, &c->metric_selector);
    }
    if (err) {
        refuse_selector(c, 500, err);
        return;
    }
    const struct provider_request rq = {
        .resource = p->object_resource,
        .ns = p->object_ns,
        .name = p->object_name,
        .metric = p->metric,
        .label_selector = external ? NULL : objects,
        .selector = &c->metric_selector,
        .external = external,
        .no_pod_series = !external && delegate_lists(c),
        .trace = adapter_api_wants_explanation(c),
    };
    struct provider_call *value_call =
        provider_request_values(c->a->generation.provider, &rq, on_metric_values, c);
    if (value_call)
        c->value_call = value_call;
}
