// SPDX-License-Identifier: Apache-2.0
// Explains one autoscaler of a cluster: connects, inspects the object and returns the explanation.
#include "explain/explain_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "hpa_controller/inspect.h"
#include "kube/object.h"

struct explain_run {
    const struct explain_hpa_options *o;
    struct kube_session cluster;
    struct http_client *controller_http; // NULL: the history is requested from the cluster
    struct kube_client *controller;
    struct hpa_inspection *inspection;
    struct hpa_config cfg;
    bool done;
    json_t *explanation; // NULL after an error
    json_t *nodes;       // names of the nodes of the pods
    json_t *lacking;     // what explain_metric_diagnosis() needs of metrics without a value
    struct gs_error *err;
};

static json_t *nodes_of(const struct hpa_inspection_result *found)
{
    json_t *out = json_array();
    for (size_t i = 0; i < found->obs->n_pods; i++) {
        const char *node = kube_pod_node(found->pods[i]);
        if (node)
            json_array_append_new(out, json_string(node));
    }
    return out;
}

// --- metrics without a value ---

// Whether the pods of the target have the metric.
static bool is_of_pods(const struct hpa_metric_spec *m)
{
    static const char *const owners[] = {"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet",
                                         "Service"};
    if (m->type == HPA_METRIC_PODS)
        return true;
    for (size_t i = 0; m->type == HPA_METRIC_OBJECT && i < GS_ARRAY_LEN(owners); i++)
        if (gs_streq(m->object_kind, owners[i]))
            return true;
    return false;
}

static json_t *lacking_metrics(const struct hpa_inspection_result *found)
{
    json_t *out = json_object(), *list = json_array();
    const struct hpa_spec *spec = found->spec;
    codec_json_set_str(out, "ns", spec->ns);
    codec_json_set_str(out, "kind", spec->target_kind);
    codec_json_set_str(out, "name", spec->target_name);
    codec_json_set_str(out, "selector", found->obs->selector);
    if (found->obs->n_pods)
        json_object_set(out, "pod", (json_t *)(uintptr_t)found->pods[0]);
    for (size_t i = 0; found->obs->scale_found && i < spec->n_metrics; i++) {
        const struct hpa_metric_observation *o = &found->obs->metrics[i];
        if (is_of_pods(&spec->metrics[i]) && (o->error || !o->n_samples))
            json_array_append_new(list, json_pack("{s:I, s:s}", "index", (json_int_t)i, "metric",
                                                  spec->metrics[i].name));
    }
    json_object_set_new(out, "metrics", list);
    return out;
}

static void diagnose_metrics(struct explain_run *r)
{
    const json_t *all = json_object_get(r->explanation, "metrics"), *item;
    size_t i;
    json_array_foreach (json_object_get(r->lacking, "metrics"), i, item) {
        const struct explain_metric_of of = {.ns = codec_json_str(r->lacking, "ns", NULL),
                                             .kind = codec_json_str(r->lacking, "kind", NULL),
                                             .name = codec_json_str(r->lacking, "name", NULL),
                                             .metric = codec_json_str(item, "metric", NULL),
                                             .selector =
                                                 codec_json_str(r->lacking, "selector", NULL),
                                             .pod = json_object_get(r->lacking, "pod")};
        json_t *metric = json_array_get(all, (size_t)codec_json_int(item, 0, "index", NULL));
        json_t *d = metric ? explain_metric_diagnosis(&r->cluster, &of) : NULL;
        if (d)
            json_object_set_new(metric, "diagnosis", d);
    }
}

// --- the inspection ---

static struct gs_error *explain_with(const struct hpa_inspection_result *found,
                                     const struct explain_hpa_options *o,
                                     const struct hpa_config *cfg, json_t **ret)
{
    struct hpa_inspection_result other = *found;
    struct hpa_config other_cfg;
    struct hpa_spec spec = {0};
    if (!o->n_settings) {
        *ret = hpa_explanation_json(found, cfg);
        return NULL;
    }
    struct gs_error *err =
        hpa_spec_with(found->spec, o->settings, o->n_settings, cfg, &spec, &other_cfg);
    if (err)
        return gs_error_wrap(err, "--what-if");
    other.spec = &spec;
    *ret = hpa_explanation_json(&other, &other_cfg);
    json_object_del(*ret, "cluster"); // its status is that of the real settings
    hpa_spec_finish(&spec);
    return NULL;
}

static void on_inspected(void *arg, const struct hpa_inspection_result *found, struct gs_error *err)
{
    struct explain_run *r = arg;
    // Without the requested history, a different decision would be explained.
    if (!err && r->o->controller && !found->history)
        err = gs_error_new(GS_EUNAVAIL, "--controller %s: %s", r->o->controller,
                           found->history_error);
    if (!err)
        err = explain_with(found, r->o, &r->cfg, &r->explanation);
    if (!err) {
        r->nodes = nodes_of(found);
        r->lacking = lacking_metrics(found);
    }
    r->err = err;
    r->done = true;
}

static struct gs_error *connect_controller(struct explain_run *r)
{
    const struct http_client_config http = {.base_url = r->o->controller,
                                            .user_agent = "gpuscale-explain/" GPUSCALE_VERSION};
    if (!r->o->controller)
        return NULL;
    struct gs_error *err = http_client_new_curl(&r->cluster.loop, &http, &r->controller_http);
    if (err)
        return gs_error_wrap(err, "--controller");
    r->controller = kube_client_new(r->controller_http);
    return NULL;
}

struct gs_error *explain_hpa_config(const struct explain_hpa_options *o, struct hpa_config *ret)
{
    struct hpa_config c = hpa_config_default();
    struct gs_error *err = o->compat ? hpa_config_follow(&c, o->compat) : NULL;
    if (err)
        return gs_error_wrap(err, "--compat");
    c.downscale_window_ms = o->downscale_window / GS_NS_PER_MS;
    c.cpu_init_period_ms = o->cpu_init_period / GS_NS_PER_MS;
    c.readiness_delay_ms = o->readiness_delay / GS_NS_PER_MS;
    c.tolerance = o->tolerance;
    *ret = c;
    return NULL;
}

static void finish_explain_run(struct explain_run *r)
{
    hpa_inspection_free(r->inspection);
    if (r->controller)
        kube_client_free(r->controller);
    if (r->controller_http)
        http_client_free(r->controller_http);
    kube_session_close(&r->cluster);
}

struct gs_error *explain_hpa(const struct explain_hpa_options *o, const char *name, json_t **ret)
{
    struct explain_run r = {.o = o};
    struct gs_error *err = explain_hpa_config(o, &r.cfg);
    if (err)
        return err;
    err = kube_session_open(&r.cluster, o->kubeconfig, o->context, "explain");
    if (!err)
        err = connect_controller(&r);
    if (!err) {
        r.inspection =
            hpa_inspect_start(&r.cluster.loop, r.cluster.client, o->ns ? o->ns : r.cluster.ns, name,
                              r.cfg.release, on_inspected, &r);
        hpa_inspect_fetch_history(r.inspection, r.controller ? r.controller : r.cluster.client);
        err = kube_session_wait(&r.cluster, &r.done, EXPLAIN_TIMEOUT_MS);
    }
    json_t *startup = err ? NULL : explain_node_startup(&r.cluster, r.nodes);
    if (startup)
        json_object_set_new(r.explanation, "nodeStartup", startup);
    if (!err && r.explanation)
        diagnose_metrics(&r);
    json_decref(r.nodes);
    json_decref(r.lacking);
    finish_explain_run(&r);
    if (!err)
        err = r.err;
    if (!err)
        *ret = r.explanation;
    const struct explain_cluster cluster = {o->ns, o->kubeconfig, o->context};
    return err ? explain_not_found(&cluster, KUBE_HPAS, name, err) : NULL;
}

void explain_hpa_text(const json_t *explanation, struct gs_buf *out)
{
    size_t i;
    const json_t *metric;
    hpa_explanation_text(explanation, out);
    json_array_foreach (json_object_get(explanation, "metrics"), i, metric) {
        const json_t *d = json_object_get(metric, "diagnosis");
        if (!d)
            continue;
        gs_buf_addf(out, "\nMetric %s\n", codec_json_str(metric, "name", NULL));
        explain_metric_add_diagnosis(d, out);
    }
}
