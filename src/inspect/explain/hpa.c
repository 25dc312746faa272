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
    if (!err)
        r->nodes = nodes_of(found);
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
    json_decref(r.nodes);
    finish_explain_run(&r);
    if (!err)
        err = r.err;
    if (!err)
        *ret = r.explanation;
    const struct explain_cluster cluster = {o->ns, o->kubeconfig, o->context};
    return err ? explain_not_found(&cluster, KUBE_HPAS, name, err) : NULL;
}
