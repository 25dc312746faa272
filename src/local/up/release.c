// SPDX-License-Identifier: Apache-2.0
// The engine as the release of kube-prometheus-stack that --values describes: its Services, a
// static pod, and the log of that pod.
#include "up/up_private.h"

#include "base/log.h"
#include "base/mem.h"

#define NAMESPACE "prometheus" // that of the guides

struct up_release {
    struct kubelet_log *log;
    char *log_path;
};

// Of the log lines of this program, those of the engine.
static void on_release_line(void *arg, const char *component, const char *line, size_t len)
{
    static const char *const parts[] = {"engine",   "scrape",     "rules",        "notify",
                                        "monitors", "discovery",  "dns_sd",       "http_sd",
                                        "file_sd",  "kube-state", "remote_write", "tsdb"};
    struct up_release *r = arg;
    for (size_t i = 0; i < GS_ARRAY_LEN(parts); i++)
        if (gs_streq(component, parts[i]))
            kubelet_log_add(r->log, gs_slice_make(line, len));
}

static const char *namespace_of(const struct up_options *o)
{
    return o->release_namespace ? o->release_namespace : NAMESPACE;
}

struct gs_error *up_release_new(const struct up_values *v, const char *data_dir,
                                struct up_release **ret)
{
    if (!v->chart.release.found)
        return NULL;
    struct up_release *r = gs_alloc(sizeof(*r));
    r->log_path = gs_format("%s/engine.log", data_dir);
    struct gs_error *err = kubelet_log_open(r->log_path, &r->log);
    if (err) {
        up_release_free(r);
        return err;
    }
    gs_log_set_observer(on_release_line, r);
    *ret = r;
    return NULL;
}

void up_release_show(const struct up_release *r, const struct up_cluster *c)
{
    if (!r)
        return;
    GS_AUTO_FREE char *name = gs_format("gpuscale-engine-%s", c->node_name);
    CODEC_AUTO_JSON json_t *pod =
        chart_release_pod(&c->values->chart, namespace_of(c->options), name, c->prometheus_port);
    kubelet_add_static_pod(c->kubelet, pod, r->log_path);
}

struct gs_error *up_release_apply(const struct up_release *r, const struct up_cluster *c,
                                  struct up_apply *a)
{
    if (!r)
        return NULL;
    CODEC_AUTO_JSON json_t *objects = chart_release_objects(
        &c->values->chart, namespace_of(c->options), c->prometheus_port, LOCAL_ANN_NOTICE);
    return up_apply_add(a, objects, "--values");
}

void up_release_free(struct up_release *r)
{
    if (!r)
        return;
    gs_log_set_observer(NULL, NULL);
    kubelet_log_close(r->log);
    free(r->log_path);
    free(r);
}
