// SPDX-License-Identifier: Apache-2.0
// `gpuscale explain metric PATH`: shows each step of one request of the metrics APIs.
#include "adapter/dry_run/dry_run_private.h"

#include "adapter/api/path.h"
#include "adapter/provider/provider.h"
#include "base/mem.h"
#include "base/num.h"
#include "kube/quantity.h"

#include <stdio.h>

enum { MAX_AGE_MS = 3600000, NEVER_MS = 86400000 };

struct explain {
    struct dry_run *dry_run;
    struct adapter_config *config, *gpu_config, *pod_series_config;
    struct provider_registry *registry, *gpu, *pod_series;
    struct provider *provider;
    const char *config_path, *url;
    bool done, good;
};

static char *query_of(const char *path, const char *name)
{
    const char *at = strchr(path, '?');
    size_t n = strlen(name);
    char *value = NULL;
    while (at && *at) {
        at++;
        size_t len = strcspn(at, "&");
        if (len > n && strncmp(at, name, n) == 0 && at[n] == '=') {
            GS_AUTO_FREE char *raw = gs_strndup(at + n + 1, len - n - 1);
            for (char *p = raw; *p; p++)
                if (*p == '+')
                    *p = ' ';
            gs_error_free(http_decode_segment(gs_slice_of(raw), &value));
            return value;
        }
        at += len;
    }
    return NULL;
}

static void show_value(double v, const char *of)
{
    char text[GS_DOUBLE_SIZE], quantity[KUBE_QUANTITY_SIZE];
    int64_t milli;
    if (kube_quantity_from_double(v, &milli))
        printf("value   %s (%s)%s%s\n", kube_quantity_format_milli(milli, quantity),
               gs_format_double(v, text), of ? " of " : "", of ? of : "");
    else
        printf("value   %s%s%s: not a number that is served\n", gs_format_double(v, text),
               of ? " of " : "", of ? of : "");
}

static void on_explained_answer(void *arg, const struct provider_answer *a)
{
    struct explain *x = arg;
    printf("%s", a->trace);
    for (size_t i = 0; i < a->n; i++)
        show_value(a->values[i].value, a->values[i].name);
    for (size_t i = 0; i < a->n_samples; i++)
        show_value(a->samples[i].value, NULL);
    printf("answer  %s%s%s\n", provider_outcome_text(a->outcome), *a->cause ? ": " : "", a->cause);
    if (a->outcome == PROVIDER_NO_METRIC && x->config_path && *x->config_path)
        printf("fix     gpuscale check adapter %s --source=%s: what each rule finds, and what to "
               "change\n",
               x->config_path, x->url);
    x->good = a->outcome == PROVIDER_OK;
    x->done = true;
}

static struct provider_registry *list(struct explain *x, const struct adapter_config *c)
{
    const struct provider_registry_options o = {.config = c,
                                                .names_only = c == x->pod_series_config,
                                                .source = x->dry_run->source,
                                                .extra_sources = x->dry_run->extra_sources,
                                                .mapper = x->dry_run->mapper,
                                                .relist_ms = NEVER_MS,
                                                .max_age_ms = MAX_AGE_MS};
    struct provider_registry *r = provider_registry_new(&x->dry_run->loop, &o);
    while (!provider_registry_rounds(r))
        uv_run(&x->dry_run->loop, UV_RUN_ONCE);
    return r;
}

static struct gs_error *request_path(struct explain *x, const char *path)
{
    struct adapter_api_path p = {0};
    GS_AUTO_FREE char *bare = gs_strndup(path, strcspn(path, "?"));
    GS_AUTO_FREE char *objects = query_of(path, "labelSelector");
    GS_AUTO_FREE char *series = query_of(path, "metricLabelSelector");
    struct kube_selector selector = {0};
    struct gs_error *err = adapter_api_path_read(bare, &p);
    bool external = !err && gs_streq(p.group, ADAPTER_API_EXTERNAL);
    if (!err && p.kind != ADAPTER_API_METRIC)
        err = gs_error_new(GS_EINVAL, "%s is not the path of a custom or external metric", path);
    if (!err)
        err = kube_selector_parse(external ? objects : series, &selector);
    const struct provider_request rq = {.resource = p.object_resource,
                                        .ns = p.object_ns,
                                        .name = p.object_name,
                                        .metric = p.metric,
                                        .label_selector = external ? NULL : objects,
                                        .selector = &selector,
                                        .external = external,
                                        .trace = true};
    if (!err) {
        provider_request_values(x->provider, &rq, on_explained_answer, x);
        while (!x->done)
            uv_run(&x->dry_run->loop, UV_RUN_ONCE);
    }
    kube_selector_finish(&selector);
    adapter_api_path_finish(&p);
    return err;
}

static struct gs_error *explain(struct explain *x, const struct dry_run_explain_options *f,
                                const char *path)
{
    struct gs_error *err = adapter_config_load(f->config, f->sources, &x->config);
    if (!err)
        err = adapter_config_parse(gs_slice_of(provider_gpu_rules()), "(GPU metrics)",
                                   &x->gpu_config);
    GS_AUTO_FREE char *rules = provider_pod_series_rules(PROVIDER_POD_SERIES_WINDOW_MS);
    if (!err)
        err = adapter_config_parse(gs_slice_of(rules), "(pod series)", &x->pod_series_config);
    if (err)
        return err;
    const char *url = f->source ? f->source : x->config->prometheus_url;
    if (!url)
        return gs_error_new(GS_EINVAL, "--source=URL is needed");
    x->config_path = f->config;
    x->url = url;
    err = dry_run_open(url, f->kubeconfig, x->config, x->dry_run);
    if (err)
        return err;
    x->registry = list(x, x->config);
    x->gpu = list(x, x->gpu_config);
    x->pod_series = list(x, x->pod_series_config);
    const struct provider_options o = {.config = x->config,
                                       .source = x->dry_run->source,
                                       .extra_sources = x->dry_run->extra_sources,
                                       .mapper = x->dry_run->mapper,
                                       .registry = x->registry,
                                       .gpu = x->gpu,
                                       .pod_series = x->pod_series,
                                       .kube = x->dry_run->cluster.client};
    x->provider = provider_new(&o);
    err = request_path(x, path);
    provider_free(x->provider);
    provider_registry_free(x->registry);
    provider_registry_free(x->gpu);
    provider_registry_free(x->pod_series);
    dry_run_close(x->dry_run);
    return err;
}

struct gs_error *dry_run_explain(const struct dry_run_explain_options *o, const char *path,
                                 int *ret_exit)
{
    struct dry_run *dry_run = gs_alloc(sizeof(*dry_run));
    struct explain x = {.dry_run = dry_run};
    struct gs_error *err = explain(&x, o, path);
    adapter_config_free(x.config);
    adapter_config_free(x.gpu_config);
    adapter_config_free(x.pod_series_config);
    free(dry_run);
    *ret_exit = x.good ? 0 : 1;
    return err;
}
