// SPDX-License-Identifier: Apache-2.0
// The ConfigMap kube-system/cluster-autoscaler-status, as the Cluster Autoscaler writes it: keys in
// the order of the alphabet, as its YAML library prints them. Events about the whole cluster are
// recorded on it.
#include "autoscaler/autoscaler_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "codec/yaml.h"
#include "kube/object.h"

#include <time.h>

void autoscaler_condition_set(struct autoscaler_condition *c, const char *status, int64_t now_ms)
{
    if (gs_streq(c->status, status))
        return;
    c->status = status;
    c->since_ms = now_ms;
}

// "2026-01-02 15:04:05.25 +0000 UTC", as Go prints it.
static void format_time(int64_t ms, char buf[64])
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    gmtime_r(&seconds, &tm);
    size_t n = strftime(buf, 64, "%Y-%m-%d %H:%M:%S", &tm);
    int rest = (int)(ms % 1000);
    if (rest) {
        n += (size_t)snprintf(buf + n, 64 - n, ".%03d", rest);
        while (buf[n - 1] == '0')
            n--;
    }
    snprintf(buf + n, 64 - n, " +0000 UTC");
}

static void add_times(json_t *o, const struct autoscaler_condition *c, int64_t now_ms)
{
    char text[GS_RFC3339_SIZE];
    codec_json_set_str(o, "lastProbeTime", gs_format_rfc3339(now_ms, text));
    codec_json_set_str(o, "lastTransitionTime", gs_format_rfc3339(c->since_ms, text));
}

struct counts {
    size_t registered, ready, not_started, being_deleted, unready, resource_unready;
    size_t unregistered, long_unregistered;
};

static void add_counts(struct counts *sum, const struct autoscaler_pool *p)
{
    sum->registered += p->registered;
    sum->ready += p->ready;
    sum->not_started += p->not_started;
    sum->being_deleted += p->being_deleted;
    sum->unready += p->unready;
    sum->resource_unready += p->resource_unready;
    sum->unregistered += p->unregistered;
    sum->long_unregistered += p->long_unregistered;
}

static json_t *counts_json(const struct counts *c)
{
    json_t *registered = json_object();
    if (c->being_deleted)
        codec_json_set_int(registered, "beingDeleted", (int64_t)c->being_deleted);
    codec_json_set_int(registered, "notStarted", (int64_t)c->not_started);
    codec_json_set_int(registered, "ready", (int64_t)c->ready);
    codec_json_set_int(registered, "suspended", 0);
    codec_json_set_int(registered, "total", (int64_t)c->registered);
    json_object_set_new(registered, "unready",
                        json_pack("{s:I, s:I}", "resourceUnready", (json_int_t)c->resource_unready,
                                  "total", (json_int_t)c->unready));
    return json_pack("{s:I, s:o, s:I}", "longUnregistered", (json_int_t)c->long_unregistered,
                     "registered", registered, "unregistered", (json_int_t)c->unregistered);
}

static json_t *scale_down_json(const struct autoscaler_condition *c, size_t candidates,
                               int64_t now_ms)
{
    json_t *o = json_object();
    if (candidates)
        codec_json_set_int(o, "candidates", (int64_t)candidates);
    add_times(o, c, now_ms);
    codec_json_set_str(o, "status", c->status);
    return o;
}

static json_t *pool_json(const struct autoscaler_pool *p, int64_t now_ms)
{
    struct counts counts = {0};
    add_counts(&counts, p);
    json_t *health = json_object();
    codec_json_set_int(health, "cloudProviderTarget", (int64_t)p->target);
    add_times(health, &p->health, now_ms);
    codec_json_set_int(health, "maxSize", (int64_t)p->pool->max);
    codec_json_set_int(health, "minSize", (int64_t)p->pool->min);
    json_object_set_new(health, "nodeCounts", counts_json(&counts));
    codec_json_set_str(health, "status", p->health.status);

    json_t *backoff = json_object();
    if (nodes_backoff_active(&p->backoff, now_ms)) {
        codec_json_set_str(backoff, "errorCode", p->error_code);
        codec_json_set_str(backoff, "errorMessage", p->error_message);
    }
    json_t *scale_up = json_object();
    json_object_set_new(scale_up, "backoffInfo", backoff);
    add_times(scale_up, &p->scale_up, now_ms);
    codec_json_set_str(scale_up, "status", p->scale_up.status);
    return json_pack("{s:o, s:s, s:o, s:o}", "health", health, "name", p->pool->name, "scaleDown",
                     scale_down_json(&p->scale_down, p->unneeded, now_ms), "scaleUp", scale_up);
}

static json_t *cluster_json(struct autoscaler *a, int64_t now_ms)
{
    struct counts counts = {0};
    size_t scaling = 0;
    for (size_t i = 0; i < a->cfg.n_pools; i++) {
        add_counts(&counts, &a->pools[i]);
        scaling += a->pools[i].scaling;
    }
    autoscaler_condition_set(&a->scale_up, scaling ? "InProgress" : "NoActivity", now_ms);
    autoscaler_condition_set(&a->scale_down, a->n_unneeded ? "CandidatesPresent" : "NoCandidates",
                             now_ms);
    json_t *health = json_object();
    add_times(health, &a->health, now_ms);
    json_object_set_new(health, "nodeCounts", counts_json(&counts));
    codec_json_set_str(health, "status", a->health.status);
    json_t *scale_up = json_object();
    add_times(scale_up, &a->scale_up, now_ms);
    codec_json_set_str(scale_up, "status", a->scale_up.status);
    return json_pack("{s:o, s:o, s:o}", "health", health, "scaleDown",
                     scale_down_json(&a->scale_down, a->n_unneeded, now_ms), "scaleUp", scale_up);
}

static char *status_yaml(struct autoscaler *a, int64_t now_ms, const char *time)
{
    json_t *pools = json_array();
    for (size_t i = 0; i < a->cfg.n_pools; i++)
        json_array_append_new(pools, pool_json(&a->pools[i], now_ms));
    CODEC_AUTO_JSON json_t *status =
        json_pack("{s:s, s:o, s:o, s:s}", "autoscalerStatus", "Running", "clusterWide",
                  cluster_json(a, now_ms), "nodeGroups", pools, "time", time);
    GS_AUTO_BUF struct gs_buf out = {0};
    codec_yaml_dump(status, &out);
    return gs_buf_take(&out);
}

// --- the ConfigMap ---

static json_t *config_map_json(const char *time, const char *yaml)
{
    return json_pack("{s:s, s:s, s:{s:s, s:s, s:{s:s}}, s:{s:s}}", "apiVersion", "v1", "kind",
                     "ConfigMap", "metadata", "namespace", AUTOSCALER_STATUS_NAMESPACE, "name",
                     AUTOSCALER_STATUS_CONFIG_MAP, "annotations", NODES_ANN "last-updated", time,
                     "data", "status", yaml);
}

static void status_written(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct autoscaler *a = arg;
    a->status_request = NULL;
    if (!err) {
        json_decref(a->config_map);
        a->config_map = json_incref(body);
    } else if (status == 404 && a->status_pending) {
        a->status_request = kube_create(a->client, KUBE_CONFIGMAPS, AUTOSCALER_STATUS_NAMESPACE,
                                        a->status_pending, status_written, a);
        json_decref(GS_TAKE(a->status_pending)); // a create that fails is not repeated
    } else {
        gs_debug("autoscaler", "cannot write ConfigMap %s/%s: %s", AUTOSCALER_STATUS_NAMESPACE,
                 AUTOSCALER_STATUS_CONFIG_MAP, gs_error_message(err));
    }
    gs_error_free(err);
}

void autoscaler_write_status(struct autoscaler *a)
{
    if (a->status_request)
        return;
    int64_t now_ms = autoscaler_now(a);
    char time[64];
    format_time(now_ms, time);
    GS_AUTO_FREE char *yaml = status_yaml(a, now_ms, time);
    json_decref(a->status_pending);
    a->status_pending = config_map_json(time, yaml);
    a->status_request = kube_patch(a->client, KUBE_CONFIGMAPS, AUTOSCALER_STATUS_NAMESPACE,
                                   AUTOSCALER_STATUS_CONFIG_MAP, NULL, KUBE_MERGE_PATCH,
                                   a->status_pending, status_written, a);
}

void autoscaler_event(struct autoscaler *a, const char *type, const char *reason, const char *fmt,
                      ...)
{
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    va_end(ap);
    CODEC_AUTO_JSON json_t *about =
        a->config_map ? json_incref(a->config_map) : config_map_json("", "");
    kube_event(a->recorder, about, type, reason, "%s", text);
}
