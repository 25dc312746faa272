// SPDX-License-Identifier: Apache-2.0
// Metrics from a ConfigMap, read once at the start as in dcgm-exporter. While the API server
// cannot be reached, requests are repeated with exponential backoff, and the exporter runs
// without.
#include "exporter/daemon/daemon_private.h"

#include "base/backoff.h"
#include "base/mem.h"
#include "base/timer.h"

#include <string.h>

enum { FIRST_PAUSE_MS = 1000, MAX_PAUSE_MS = 16000 };

struct daemon_configmap {
    struct daemon_configmap_config cfg;
    char *ns, *source;
    const char *object; // points into cfg.name
    struct gs_timer *timer;
    struct kube_client *kube;
    struct kube_request *request;
    char *problem;    // the last one reported; NULL: none
    int64_t pause_ms; // before the last retry; 0: none yet
    bool answered;
};

static void request_configmap(struct daemon_configmap *c);

static void on_retry_timer(void *arg)
{
    request_configmap(arg);
}

static void take_problem(struct daemon_configmap *c, struct gs_error *err)
{
    GS_AUTO_FREE char *text =
        gs_format("--configmap-data: %s: %s", c->source, gs_error_message(err));
    gs_error_free(err);
    bool same = gs_streq(text, c->problem);
    free(c->problem);
    c->problem = gs_strdup(text);
    c->pause_ms = gs_backoff_next(c->pause_ms, FIRST_PAUSE_MS, MAX_PAUSE_MS);
    gs_timer_start(c->timer, on_retry_timer, (uint64_t)c->pause_ms);
    if (!same)
        c->cfg.on_problem(c->cfg.arg, text);
}

static void on_configmap_response(void *arg, int status, json_t *body, struct gs_error *err)
{
    struct daemon_configmap *c = arg;
    (void)status;
    c->request = NULL;
    c->answered = true;
    const char *text = err ? NULL : codec_json_str(json_object_get(body, "data"), "metrics", NULL);
    if (!err && !text)
        err = gs_error_new(GS_ENOTFOUND, "the ConfigMap has no key \"metrics\"");
    if (!err)
        err = c->cfg.on_text(c->cfg.arg, c->source, gs_slice_of(text));
    if (err)
        take_problem(c, err);
}

static void request_configmap(struct daemon_configmap *c)
{
    struct gs_error *err = c->kube ? NULL : c->cfg.connect(c->cfg.arg, &c->kube);
    if (err) {
        c->answered = true;
        take_problem(c, err);
        return;
    }
    c->request =
        kube_get(c->kube, KUBE_CONFIGMAPS, c->ns, c->object, NULL, on_configmap_response, c);
}

struct daemon_configmap *daemon_configmap_start(uv_loop_t *loop,
                                                const struct daemon_configmap_config *cfg)
{
    struct daemon_configmap *c = gs_alloc(sizeof(*c));
    const char *colon = strchr(cfg->name, ':');
    c->cfg = *cfg;
    c->ns = gs_strndup(cfg->name, (size_t)(colon - cfg->name));
    c->object = colon + 1;
    c->source = gs_format("ConfigMap %s/%s", c->ns, c->object);
    c->timer = gs_timer_new(loop, c);
    request_configmap(c);
    return c;
}

bool daemon_configmap_answered(const struct daemon_configmap *c)
{
    return c->answered;
}

void daemon_configmap_stop(struct daemon_configmap *c)
{
    if (!c)
        return;
    if (c->request)
        kube_request_cancel(c->request);
    gs_timer_free(c->timer);
    free(c->ns);
    free(c->source);
    free(c->problem);
    free(c);
}
