// SPDX-License-Identifier: Apache-2.0
// Scrape jobs from a ServiceMonitor or PodMonitor: the relabeling that the Prometheus operator
// generates, in its order, so that targets have the same labels. Jobs are checked as a
// configuration before they are used.
#include "engine/monitors/monitors_private.h"

#include "base/mem.h"
#include "kube/object.h"
#include "kube/selector.h"

#define META         "__meta_kubernetes_"
#define MAX_COMPARED 100 // endpoints of one object

static const struct {
    const char *name, *role, *object, *endpoints;
} kinds[] = {
    [MONITORS_SERVICE] = {"serviceMonitor", "endpoints", "service", "endpoints"},
    [MONITORS_POD] = {"podMonitor", "pod", "pod", "podMetricsEndpoints"},
};

char *monitors_name(enum monitors_kind kind, const json_t *obj)
{
    const char *ns = kube_namespace(obj), *name = kube_name(obj);
    return gs_format("%s/%s/%s", kinds[kind].name, ns ? ns : "", name ? name : "");
}

// --- relabelling, one rule each ---

struct rule {
    const char *action, *source, *source2, *separator, *regex, *target, *replacement;
};

static void add_rule(json_t *list, struct rule r)
{
    json_t *rule = json_object();
    codec_json_set_str(rule, "action", r.action);
    if (r.source) {
        json_t *sources = json_array();
        json_array_append_new(sources, json_string(r.source));
        if (r.source2)
            json_array_append_new(sources, json_string(r.source2));
        json_object_set_new(rule, "source_labels", sources);
    }
    codec_json_set_str(rule, "separator", r.separator);
    codec_json_set_str(rule, "regex", r.regex);
    codec_json_set_str(rule, "target_label", r.target);
    codec_json_set_str(rule, "replacement", r.replacement);
    json_array_append_new(list, rule);
}

static void copy_label(json_t *list, const char *source, const char *target)
{
    add_rule(list, (struct rule){.source = source, .target = target});
}

static void set_label(json_t *list, const char *target, const char *value)
{
    add_rule(list, (struct rule){.target = target, .replacement = value});
}

// Replaces characters that label names cannot contain by "_". Caller frees.
static char *sanitized_label(const char *label)
{
    char *out = gs_strdup(label);
    for (char *c = out; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9')))
            *c = '_';
    return out;
}

// Copies a label of the service or pod to the target if it exists.
static void take_label(json_t *list, const char *object, const char *label, const char *target)
{
    GS_AUTO_FREE char *name = sanitized_label(label);
    GS_AUTO_FREE char *source = gs_format(META "%s_label_%s", object, name);
    add_rule(list, (struct rule){.source = source,
                                 .target = target ? target : name,
                                 .regex = "(.+)",
                                 .replacement = "${1}"});
}

static void take_labels(json_t *list, const char *object, const json_t *labels)
{
    size_t i;
    json_t *label;
    json_array_foreach (labels, i, label)
        if (json_string_length(label))
            take_label(list, object, json_string_value(label), NULL);
}

// --- which services or pods ---

static void select_values(json_t *list, const char *object, const char *key, const char *action,
                          const char *values)
{
    GS_AUTO_FREE char *name = sanitized_label(key);
    GS_AUTO_FREE char *label = gs_format(META "%s_label_%s", object, name);
    GS_AUTO_FREE char *present = gs_format(META "%s_labelpresent_%s", object, name);
    GS_AUTO_FREE char *regex = gs_format("(%s);true", values);
    add_rule(list,
             (struct rule){.action = action, .source = label, .source2 = present, .regex = regex});
}

static void select_presence(json_t *list, const char *object, const char *key, const char *action)
{
    GS_AUTO_FREE char *name = sanitized_label(key);
    GS_AUTO_FREE char *present = gs_format(META "%s_labelpresent_%s", object, name);
    add_rule(list, (struct rule){.action = action, .source = present, .regex = "true"});
}

static char *join_labels(const json_t *values)
{
    struct gs_buf out = {0};
    size_t i;
    json_t *value;
    json_array_foreach (values, i, value)
        gs_buf_addf(&out, "%s%s", i ? "|" : "",
                    json_string_value(value) ? json_string_value(value) : "");
    return gs_buf_take(&out);
}

static void select_expression(json_t *list, const char *object, const json_t *e)
{
    const char *key = codec_json_str(e, "key", NULL), *op = codec_json_str(e, "operator", NULL);
    GS_AUTO_FREE char *values = join_labels(codec_json_get(e, "values", NULL));
    if (gs_streq(op, "In"))
        select_values(list, object, key, "keep", values);
    else if (gs_streq(op, "NotIn"))
        select_values(list, object, key, "drop", values);
    else
        select_presence(list, object, key, gs_streq(op, "Exists") ? "keep" : "drop");
}

// The selector is valid: it was checked before.
static void select_objects(json_t *list, const char *object, const json_t *selector)
{
    const char *key;
    json_t *value;
    size_t i;
    json_object_foreach (codec_json_get(selector, "matchLabels", NULL), key, value)
        select_values(list, object, key, "keep", json_string_value(value));
    json_array_foreach (codec_json_get(selector, "matchExpressions", NULL), i, value)
        select_expression(list, object, value);
}

// --- which port ---

static bool is_set(const json_t *port)
{
    return json_is_string(port) ? json_string_length(port) > 0 : json_integer_value(port) != 0;
}

static void keep_port(json_t *list, const char *source, const json_t *port)
{
    CODEC_AUTO_JSON json_t *text = monitors_text(port);
    add_rule(list,
             (struct rule){.action = "keep", .source = source, .regex = json_string_value(text)});
}

static void keep_container_port(json_t *list, const json_t *port)
{
    keep_port(list,
              json_is_string(port) ? META "pod_container_port_name"
                                   : META "pod_container_port_number",
              port);
}

static void select_port(json_t *list, enum monitors_kind kind, const json_t *endpoint)
{
    const json_t *port = json_object_get(endpoint, "port");
    const json_t *number = kind == MONITORS_POD ? json_object_get(endpoint, "portNumber") : NULL;
    const json_t *target = json_object_get(endpoint, "targetPort");
    if (is_set(port))
        keep_port(list,
                  kind == MONITORS_POD ? META "pod_container_port_name" : META "endpoint_port_name",
                  port);
    else if (is_set(number))
        keep_container_port(list, number);
    else if (is_set(target))
        keep_container_port(list, target);
}

// An endpoint with portNumber has no endpoint label.
static void name_endpoint(json_t *list, const json_t *endpoint)
{
    const json_t *port = json_object_get(endpoint, "port");
    const json_t *target = json_object_get(endpoint, "targetPort");
    CODEC_AUTO_JSON json_t *text = monitors_text(is_set(port) ? port : target);
    if (text)
        set_label(list, "endpoint", json_string_value(text));
}

// --- the whole relabelling ---

static void drop_ended_pods(json_t *list, const json_t *endpoint)
{
    if (codec_json_bool(endpoint, true, "filterRunning", NULL))
        add_rule(list, (struct rule){.action = "drop",
                                     .source = META "pod_phase",
                                     .regex = "(Failed|Succeeded)"});
}

static void from_target(json_t *list, const char *regex, const char *label)
{
    add_rule(list, (struct rule){.source = META "endpoint_address_target_kind",
                                 .source2 = META "endpoint_address_target_name",
                                 .separator = ";",
                                 .regex = regex,
                                 .replacement = "${1}",
                                 .target = label});
}

static void service_rules(json_t *list, const json_t *spec, const json_t *endpoint)
{
    const char *job_label = codec_json_str(spec, "jobLabel", NULL);
    select_objects(list, "service", json_object_get(spec, "selector"));
    select_port(list, MONITORS_SERVICE, endpoint);
    from_target(list, "Node;(.*)", "node");
    from_target(list, "Pod;(.*)", "pod");
    copy_label(list, META "namespace", "namespace");
    copy_label(list, META "service_name", "service");
    copy_label(list, META "pod_name", "pod");
    copy_label(list, META "pod_container_name", "container");
    drop_ended_pods(list, endpoint);
    take_labels(list, "service", json_object_get(spec, "targetLabels"));
    take_labels(list, "pod", json_object_get(spec, "podTargetLabels"));
    add_rule(list,
             (struct rule){.source = META "service_name", .target = "job", .replacement = "${1}"});
    if (job_label && *job_label)
        take_label(list, "service", job_label, "job");
    name_endpoint(list, endpoint);
}

static void pod_rules(json_t *list, const json_t *obj, const json_t *spec, const json_t *endpoint)
{
    const char *job_label = codec_json_str(spec, "jobLabel", NULL);
    GS_AUTO_FREE char *job = gs_format("%s/%s", kube_namespace(obj), kube_name(obj));
    drop_ended_pods(list, endpoint);
    select_objects(list, "pod", json_object_get(spec, "selector"));
    select_port(list, MONITORS_POD, endpoint);
    copy_label(list, META "namespace", "namespace");
    copy_label(list, META "pod_container_name", "container");
    copy_label(list, META "pod_name", "pod");
    take_labels(list, "pod", json_object_get(spec, "podTargetLabels"));
    set_label(list, "job", job);
    if (job_label && *job_label)
        take_label(list, "pod", job_label, "job");
    name_endpoint(list, endpoint);
}

// Adds the relabeling rules of the endpoint.
static void add_own(json_t *list, const json_t *rules)
{
    static const struct monitors_rename names[] = {
        {"targetLabel", "target_label"}, {"regex", "regex"}, {"action", "action"}, {0}};
    size_t i;
    json_t *from;
    json_array_foreach (rules, i, from) {
        json_t *rule = json_object();
        json_t *sources = json_object_get(from, "sourceLabels");
        int64_t modulus = codec_json_int(from, 0, "modulus", NULL);
        monitors_copy(from, names, rule);
        if (json_array_size(sources))
            json_object_set(rule, "source_labels", sources);
        if (modulus)
            json_object_set_new(rule, "modulus", codec_json_strf("%lld", (long long)modulus));
        // An empty separator differs from an absent one.
        codec_json_set_str(rule, "separator", codec_json_str(from, "separator", NULL));
        codec_json_set_str(rule, "replacement", codec_json_str(from, "replacement", NULL));
        json_array_append_new(list, rule);
    }
}

static json_t *relabelling(const struct monitors_build *b, const json_t *spec,
                           const json_t *endpoint)
{
    json_t *list = json_array();
    copy_label(list, "job", "__tmp_prometheus_job_name");
    if (b->kind == MONITORS_SERVICE)
        service_rules(list, spec, endpoint);
    else
        pod_rules(list, b->obj, spec, endpoint);
    add_own(list, json_object_get(endpoint, "relabelings"));
    return list;
}

// --- a job ---

static json_t *namespaces(const struct monitors_build *b, const json_t *selector)
{
    size_t i;
    json_t *name, *list = json_array();
    if (codec_json_bool(selector, false, "any", NULL))
        return list;
    json_array_foreach (codec_json_get(selector, "matchNames", NULL), i, name)
        if (json_is_string(name))
            json_array_append(list, name);
    if (!json_array_size(list))
        json_array_append_new(list, json_string(kube_namespace(b->obj)));
    return list;
}

static json_t *discovery(const struct monitors_build *b, const json_t *spec)
{
    json_t *sd = json_pack("{s:s}", "role", kinds[b->kind].role);
    json_t *names = namespaces(b, json_object_get(spec, "namespaceSelector"));
    if (json_array_size(names))
        json_object_set_new(sd, "namespaces", json_pack("{s:O}", "names", names));
    json_decref(names);
    if (codec_json_bool(spec, false, "attachMetadata", "node", NULL))
        json_object_set_new(sd, "attach_metadata", json_pack("{s:s}", "node", "true"));
    return json_pack("[o]", sd);
}

static json_t *make_job(struct monitors_build *b, const json_t *spec, const json_t *endpoint,
                        size_t i)
{
    static const struct monitors_rename limits[] = {
        {"sampleLimit", "sample_limit"},
        {"targetLimit", "target_limit"},
        {"labelLimit", "label_limit"},
        {"labelNameLengthLimit", "label_name_length_limit"},
        {"labelValueLengthLimit", "label_value_length_limit"},
        {"bodySizeLimit", "body_size_limit"},
        {"fallbackScrapeProtocol", "fallback_scrape_protocol"},
        {0},
    };
    json_t *job = json_object(), *metric_rules = json_array();
    GS_AUTO_FREE char *name = monitors_name(b->kind, b->obj);
    json_object_set_new(job, "job_name", codec_json_strf("%s/%zu", name, i));
    json_object_set_new(job, "kubernetes_sd_configs", discovery(b, spec));
    monitors_endpoint(b, endpoint, job);
    monitors_copy(spec, limits, job);
    if (json_array_size(json_object_get(spec, "scrapeProtocols")))
        json_object_set(job, "scrape_protocols", json_object_get(spec, "scrapeProtocols"));
    json_object_set_new(job, "relabel_configs", relabelling(b, spec, endpoint));
    add_own(metric_rules, json_object_get(endpoint, "metricRelabelings"));
    json_object_set_new(job, "metric_relabel_configs", metric_rules);
    if (!b->account_dir)
        return job;
    json_t *own = json_deep_copy(job); // its strings are still those of the object
    json_decref(job);
    engine_config_move_account_files(own, b->account_dir);
    return own;
}

// --- endpoints that scrape the same port ---

static const char *or_default(const json_t *endpoint, const char *key, const char *fallback)
{
    const char *text = codec_json_str(endpoint, key, NULL);
    return text && *text ? text : fallback;
}

// Of the members that select a port; NULL: all ports.
static const char *port_member(enum monitors_kind kind, const json_t *endpoint)
{
    static const char *const members[] = {"port", "portNumber", "targetPort"};
    for (size_t i = 0; i < GS_ARRAY_LEN(members); i++)
        if ((kind == MONITORS_POD || i != 1) && is_set(json_object_get(endpoint, members[i])))
            return members[i];
    return NULL;
}

static bool same_page(const json_t *a, const json_t *b)
{
    const json_t *pa = json_object_get(a, "params"), *pb = json_object_get(b, "params");
    return gs_streq(or_default(a, "path", "/metrics"), or_default(b, "path", "/metrics")) &&
           gs_streq(or_default(a, "scheme", "http"), or_default(b, "scheme", "http")) &&
           (json_object_size(pa) + json_object_size(pb) == 0 || json_equal(pa, pb)) &&
           !json_array_size(json_object_get(a, "relabelings")) &&
           !json_array_size(json_object_get(b, "relabelings"));
}

static char *double_of(enum monitors_kind kind, const json_t *list, size_t i, size_t k)
{
    const json_t *a = json_array_get(list, i), *b = json_array_get(list, k);
    const char *of_a = port_member(kind, a), *of_b = port_member(kind, b);
    const char *name = kinds[kind].endpoints;
    if (!json_is_object(a) || !json_is_object(b) || !same_page(a, b))
        return NULL;
    if (!of_a || !of_b)
        return gs_format("%s[%zu] has no port and scrapes every port of the %s, also that of "
                         "%s[%zu]: each sample is stored twice; remove it, or move its settings "
                         "to %s[%zu]",
                         name, of_b ? i : k, kind == MONITORS_SERVICE ? "Service" : "pod", name,
                         of_b ? k : i, name, of_b ? k : i);
    if (!gs_streq(of_a, of_b) || !json_equal(json_object_get(a, of_a), json_object_get(b, of_b)))
        return NULL;
    CODEC_AUTO_JSON json_t *port = monitors_text(json_object_get(a, of_a));
    return gs_format("%s[%zu] and %s[%zu] scrape the same %s %s: each sample is stored twice; "
                     "remove one of them",
                     name, i, name, k, of_a, json_string_value(port));
}

char *monitors_doubles(enum monitors_kind kind, const json_t *spec)
{
    const json_t *list = json_object_get(spec, kinds[kind].endpoints);
    size_t n = json_array_size(list);
    char *found = NULL;
    for (size_t k = 1; k < n && k < MAX_COMPARED && !found; k++)
        for (size_t i = 0; i < k && !found; i++)
            found = double_of(kind, list, i, k);
    return found;
}

// --- the object ---

static void check_spec(struct monitors_build *b, const json_t *spec)
{
    struct kube_selector selector = {0};
    const json_t *labels = json_object_get(spec, "selector");
    const char *class = codec_json_str(spec, "scrapeClass", NULL);
    if (labels) {
        struct gs_error *err = kube_selector_from_json(labels, &selector);
        if (err)
            monitors_fail(b, gs_error_wrap(err, "selector"));
        kube_selector_finish(&selector);
    }
    // Classes refer to Prometheus objects of the operator.
    if (class && *class)
        monitors_fail(b, gs_error_new(GS_ENOTFOUND, "scrapeClass \"%s\" not found", class));
}

struct gs_error *monitors_config(const struct monitors_build *b, json_t *jobs,
                                 struct engine_config **ret)
{
    CODEC_AUTO_JSON json_t *doc = json_pack("{s:O}", "scrape_configs", jobs);
    if (b->global)
        json_object_set(doc, "global", (json_t *)(uintptr_t)b->global);
    return engine_config_from_json(doc, "spec", ret);
}

static struct gs_error *check_job(const struct monitors_build *b, json_t *job)
{
    GS_CLEANUP(engine_config_freep) struct engine_config *cfg = NULL;
    CODEC_AUTO_JSON json_t *alone = json_pack("[O]", job);
    return monitors_config(b, alone, &cfg);
}

// Adds the job of an endpoint. An error is in b->err.
static void add_endpoint(struct monitors_build *b, const json_t *spec, const json_t *endpoint,
                         size_t i, json_t *jobs)
{
    CODEC_AUTO_JSON json_t *job = NULL;
    if (json_is_object(endpoint))
        job = make_job(b, spec, endpoint, i);
    else
        monitors_fail(b, gs_error_new(GS_EINVAL, "not an object"));
    if (!b->err && !b->pending && b->keep_valid)
        b->err = check_job(b, job);
    if (!b->err)
        json_array_append(jobs, job);
    else
        b->err = gs_error_wrap(b->err, "%s[%zu]", kinds[b->kind].endpoints, i);
}

// One endpoint of several is left out.
static void leave_out(struct monitors_build *b)
{
    struct gs_error *err = GS_TAKE(b->err);
    if (b->left_out)
        gs_error_free(err);
    else
        b->left_out = err;
}

struct gs_error *monitors_jobs(struct monitors_build *b, json_t **ret_jobs)
{
    const json_t *spec = json_object_get(b->obj, "spec");
    const json_t *endpoints = json_object_get(spec, kinds[b->kind].endpoints);
    CODEC_AUTO_JSON json_t *jobs = json_array();
    size_t i;
    json_t *endpoint;
    check_spec(b, spec);
    json_array_foreach (endpoints, i, endpoint) {
        if (b->err)
            break;
        add_endpoint(b, spec, endpoint, i, jobs);
        if (b->err && b->keep_valid)
            leave_out(b);
    }
    if (!b->err && !json_array_size(jobs) && b->left_out)
        return GS_TAKE(b->left_out);
    if (b->err)
        return GS_TAKE(b->err);
    *ret_jobs = b->pending ? NULL : GS_TAKE(jobs);
    return NULL;
}
