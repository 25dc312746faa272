// SPDX-License-Identifier: Apache-2.0
// The autoscaler of workloads: the controller with the objects, samples and settings of this
// cluster, and what it has learned in earlier runs.
#include "up/up_private.h"

#include "base/clock.h"
#include "base/mem.h"
#include "hpa_controller/explain_api.h"
#include "hpa_controller/learned_store.h"
#include "kube/object.h"
#include "replay/history.h"

static struct http_client *engine_of(void *arg, const char **ret_why)
{
    const struct up_cluster *c = arg;
    (void)ret_why;
    return c->engine_http;
}

static void write_hpa_metrics(void *arg, struct gs_buf *out)
{
    const struct up_cluster *c = arg;
    hpa_controller_write_metrics(c->hpa, out);
}

static void on_learned_read(void *arg)
{
    const struct up_cluster *c = arg;
    hpa_controller_start(c->hpa);
}

// A file is written at once.
static void on_learned_written(void *arg)
{
    (void)arg;
}

// Starts the autoscaler with what it has learned in earlier runs.
static void start_learned(struct up_cluster *c)
{
    c->learned_path = gs_format("%s/" UP_LEARNED_FILE, c->data_dir);
    const struct hpa_learned_store_config cfg = {
        .loop = c->loop, .controller = c->hpa, .path = c->learned_path};
    c->learned = hpa_learned_store_new(&cfg, on_learned_read, c);
}

struct gs_error *up_autoscaler_start(struct up_cluster *c, const struct up_options *o,
                                     hpa_observer observer, void *arg)
{
    struct hpa_controller_config cfg = {.sync_period_ms = o->sync_period / GS_NS_PER_MS,
                                        .decide = hpa_config_default(),
                                        .budgets_ns = "kube-system",
                                        .engine = engine_of,
                                        .engine_arg = c};
    struct gs_error *err =
        hpa_config_follow(&cfg.decide, o->hpa_compat ? o->hpa_compat : KUBE_VERSION);
    if (err)
        return gs_error_wrap(err, "--hpa-compat");
    // The gate HPAScaleToZero is on by default here. --hpa-compat uses the default of its release.
    if (!o->hpa_compat)
        cfg.decide.scale_to_zero = true;
    cfg.decide.downscale_window_ms = o->downscale_window / GS_NS_PER_MS;
    cfg.decide.cpu_init_period_ms = o->cpu_init_period / GS_NS_PER_MS;
    cfg.decide.readiness_delay_ms = o->readiness_delay / GS_NS_PER_MS;
    cfg.decide.tolerance = o->tolerance;
    c->hpa = hpa_controller_new(c->loop, c->client, c->cluster->pods, &cfg);
    hpa_controller_set_observer(c->hpa, observer, arg);
    local_api_mount(c->api, HPA_HISTORY_GROUP, hpa_history_group, hpa_history_handle, c->hpa);
    c->explain = hpa_explain_api_new(c->loop, c->client, c->hpa, &cfg.decide);
    c->history = replay_history_api_new(c->loop, &cfg.decide, cfg.sync_period_ms);
    c->engine_http = http_client_new_loopback(c->loop, engine_handle, c->engine, NULL);
    start_learned(c);
    const struct up_feed_config feed = {.job = "gpuscale-hpa",
                                        .instance = c->node_name,
                                        .interval_ms = UP_RESOURCES_INTERVAL_MS,
                                        .write = write_hpa_metrics,
                                        .arg = c};
    c->hpa_feed = up_feed_new(c->loop, c->engine, &feed);
    return NULL;
}

void up_autoscaler_stop(struct up_cluster *c)
{
    if (c->learned)
        hpa_learned_store_end(c->learned, on_learned_written, c);
}

void up_autoscaler_free(struct up_cluster *c)
{
    hpa_explain_api_free(c->explain);
    replay_history_api_free(c->history);
    up_feed_free(c->hpa_feed);
    hpa_learned_store_free(c->learned);
    free(c->learned_path);
    hpa_controller_free(c->hpa);
    http_client_free(c->engine_http);
}
