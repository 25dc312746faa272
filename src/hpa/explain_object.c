// SPDX-License-Identifier: Apache-2.0
// Explains one autoscaler of a cluster: connects, inspects the object and returns the explanation.
#include "hpa/inspect.h"

#include "base/clock.h"
#include "base/mem.h"
#include "hpa/hpa_private.h"
#include "kube/kubeconfig.h"

struct explain_run {
    const struct hpa_explain_options *o;
    uv_loop_t loop;
    uv_timer_t timer;
    struct http_client *http;
    struct kube_client *client;
    struct http_client *controller_http; // NULL: the history is requested from the cluster
    struct kube_client *controller;
    struct hpa_inspection *inspection;
    struct hpa_config cfg;
    json_t *explanation; // NULL after an error
    struct gs_error *err;
};

#define TIMEOUT_MS 30000

static void on_inspected(void *arg, const struct hpa_inspection_result *found, struct gs_error *err)
{
    struct explain_run *r = arg;
    // Without the requested history, a different decision would be explained.
    if (!err && r->o->controller && !found->history)
        err = gs_error_new(GS_EUNAVAIL, "--controller %s: %s", r->o->controller,
                           found->history_error);
    r->err = err;
    if (!err)
        r->explanation = hpa_explanation_json(found, &r->cfg);
    uv_stop(&r->loop);
}

static void on_inspection_timeout(uv_timer_t *t)
{
    struct explain_run *r = t->data;
    r->err = gs_error_new(GS_ETIMEOUT, "the cluster did not answer all requests within %d s",
                          TIMEOUT_MS / 1000);
    uv_stop(&r->loop);
}

static struct gs_error *connect_explained_cluster(struct explain_run *r, char **ret_ns)
{
    GS_CLEANUP(kube_config_finish) struct kube_config k = {0};
    struct gs_error *err = kube_config_load(r->o->kubeconfig, r->o->context, &k);
    if (err)
        return gs_error_wrap(err, "kubeconfig");
    err = kube_config_connect(&k, &r->loop, "gpuscale-explain/" GPUSCALE_VERSION, &r->http);
    if (err)
        return gs_error_wrap(err, "kubeconfig");
    r->client = kube_client_new(r->http);
    *ret_ns = gs_strdup(r->o->ns ? r->o->ns : k.ns ? k.ns : "default");
    return NULL;
}

static struct gs_error *connect_controller(struct explain_run *r)
{
    const struct http_client_config http = {.base_url = r->o->controller,
                                            .user_agent = "gpuscale-explain/" GPUSCALE_VERSION};
    if (!r->o->controller)
        return NULL;
    struct gs_error *err = http_client_new_curl(&r->loop, &http, &r->controller_http);
    if (err)
        return gs_error_wrap(err, "--controller");
    r->controller = kube_client_new(r->controller_http);
    return NULL;
}

static struct gs_error *read_settings(const struct hpa_explain_options *o, struct hpa_config *ret)
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
    if (r->client)
        kube_client_free(r->client);
    if (r->http)
        http_client_free(r->http);
    uv_close((uv_handle_t *)&r->timer, NULL);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&r->loop);
}

struct gs_error *hpa_explain_object(const struct hpa_explain_options *o, const char *name,
                                    json_t **ret)
{
    struct explain_run r = {.o = o};
    GS_AUTO_FREE char *ns = NULL;
    struct gs_error *err = read_settings(o, &r.cfg);
    if (err)
        return err;
    uv_loop_init(&r.loop);
    uv_timer_init(&r.loop, &r.timer);
    r.timer.data = &r;
    r.err = connect_explained_cluster(&r, &ns);
    if (!r.err)
        r.err = connect_controller(&r);
    if (!r.err) {
        r.inspection =
            hpa_inspect_start(&r.loop, r.client, ns, name, r.cfg.release, on_inspected, &r);
        hpa_inspect_fetch_history(r.inspection, r.controller ? r.controller : r.client);
        uv_timer_start(&r.timer, on_inspection_timeout, TIMEOUT_MS, 0);
        uv_run(&r.loop, UV_RUN_DEFAULT);
    }
    finish_explain_run(&r);
    if (!r.err)
        *ret = r.explanation;
    return r.err;
}
