// SPDX-License-Identifier: Apache-2.0
// What `check adapter` and `explain metric` need of an adapter: a source and a mapper on a loop of
// their own that runs until each answer has arrived.
#include "adapter/dry_run/dry_run_private.h"

#include "base/clock.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "kube/kubeconfig.h"

enum { SERIES_AGE_MS = 3600000 };

struct answer {
    bool done;
    struct source_result *result;
    struct source_shapes *shapes;
    char *type;
    struct gs_error *err;
};

static void on_vector(void *arg, struct source_result *r, struct gs_error *err)
{
    struct answer *a = arg;
    a->done = true;
    a->err = err;
    a->result = err ? NULL : source_result_ref(r);
}

static void on_shapes(void *arg, struct source_shapes *shapes, struct gs_error *err)
{
    struct answer *a = arg;
    a->done = true;
    a->err = err;
    a->shapes = shapes;
}

static void on_type(void *arg, const char *type, struct gs_error *err)
{
    struct answer *a = arg;
    a->done = true;
    a->err = err;
    a->type = type ? gs_strdup(type) : NULL;
}

static void on_mapper(void *arg, struct gs_error *err)
{
    struct answer *a = arg;
    a->done = true;
    a->err = err;
}

static void wait_for(struct dry_run *l, const struct answer *a)
{
    while (!a->done)
        uv_run(&l->loop, UV_RUN_ONCE);
}

static struct gs_error *open_cluster(struct dry_run *l, const char *path)
{
    GS_CLEANUP(kube_config_finish) struct kube_config k = {0};
    struct gs_error *err = kube_config_load(path, NULL, &k);
    if (!err)
        err = kube_config_connect(&k, &l->loop, NULL, &l->kube_http);
    if (err)
        return err;
    l->kube = kube_client_new(l->kube_http);
    struct answer a = {0};
    provider_rest_mapper_load(l->mapper, l->kube, on_mapper, &a);
    wait_for(l, &a);
    return a.err;
}

struct gs_error *dry_run_open(const char *url, const char *kubeconfig,
                              const struct adapter_config *c, struct dry_run *ret)
{
    *ret = (struct dry_run){.mapper = provider_rest_mapper_new()};
    uv_loop_init(&ret->loop);
    const struct source_options o = {.url = url, .endpoint.proxy_from_environment = true};
    struct gs_error *err = url ? source_new_remote(&ret->loop, &o, &ret->source) : NULL;
    if (!err && url && adapter_extra_sources_need_engine(c))
        err = gs_error_new(GS_EINVAL, "a source of the configuration is the adapter's own engine, "
                                      "which is not in this process: give it a URL to try it");
    if (!err && url)
        err = adapter_extra_sources_new(&ret->loop, c, NULL, 0, &ret->extra_sources);
    if (!err && url)
        ret->n_extra = c->n_sources;
    if (!err && kubeconfig)
        err = open_cluster(ret, kubeconfig);
    if (err)
        dry_run_close(ret);
    return err;
}

void dry_run_close(struct dry_run *l)
{
    source_free(l->source);
    adapter_extra_sources_free(l->extra_sources, l->n_extra);
    if (l->kube)
        kube_client_free(l->kube);
    http_client_free(l->kube_http);
    provider_rest_mapper_free(l->mapper);
    gs_hmap_free(l->metrics);
    uv_run(&l->loop, UV_RUN_DEFAULT);
    uv_loop_close(&l->loop);
}

struct gs_error *dry_run_query(struct dry_run *l, size_t at, const char *promql,
                               struct source_result **ret)
{
    struct answer a = {0};
    source_query(source_pick(l->source, l->extra_sources, at), promql, 0, on_vector, &a);
    wait_for(l, &a);
    *ret = a.result;
    return a.err;
}

struct gs_error *dry_run_series(struct dry_run *l, size_t at, const char *selector,
                                struct source_shapes **ret)
{
    struct answer a = {0};
    source_series(source_pick(l->source, l->extra_sources, at), selector,
                  gs_unix_ms() - SERIES_AGE_MS, on_shapes, &a);
    wait_for(l, &a);
    *ret = a.shapes;
    return a.err;
}

struct gs_error *dry_run_type(struct dry_run *l, size_t at, const char *metric, char **ret)
{
    struct answer a = {0};
    source_type_of(source_pick(l->source, l->extra_sources, at), metric, on_type, &a);
    wait_for(l, &a);
    *ret = a.type;
    return a.err;
}
