// SPDX-License-Identifier: Apache-2.0
// The source of the adapter: a Prometheus, or an engine in this process that finds the GPU
// exporters of the cluster by their labels.
#include "adapter/adapter_private.h"

#include "adapter/provider/provider.h"
#include "adapter/sources.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/kubeconfig.h"

enum { RELIST_MS = 30000 };

#define EXPORTERS "(.*-)?(dcgm|gpuscale)-exporter"

// Finds the pods of the exporters by the labels that their charts and manifests set.
static const char engine_default_config[] =
    "global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
    "scrape_configs:\n"
    "- job_name: gpu\n"
    "  kubernetes_sd_configs: [{role: pod}]\n"
    "  relabel_configs:\n"
    "  - source_labels: [__meta_kubernetes_pod_label_app, "
    "__meta_kubernetes_pod_label_app_kubernetes_io_name]\n"
    "    regex: '(" EXPORTERS ";.*)|(.*;" EXPORTERS ")'\n"
    "    action: keep\n"
    "  - {source_labels: [__meta_kubernetes_pod_phase], regex: Running, action: keep}\n"
    "  - {source_labels: [__meta_kubernetes_pod_container_port_number], regex: '9400|', "
    "action: keep}\n"
    "  - {source_labels: [__meta_kubernetes_pod_ip], regex: '(.+)', target_label: __address__, "
    "replacement: '$1:9400'}\n"
    "  - {source_labels: [__meta_kubernetes_pod_node_name], target_label: NodeName}\n";

struct gs_error *adapter_need_engine(struct adapter *a)
{
    const struct engine_options o = {
        .config_path = a->o.engine_config,
        .config_text = a->o.engine_config ? NULL : engine_default_config,
        .store = {.retention_ms = a->o.engine_retention_ns / GS_NS_PER_MS},
        .dcgm_aliases = a->o.dcgm_aliases,
        .kube = a->kube,
        .kube_annotations = a->o.engine_annotations,
        .kube_inference_ms = a->o.engine_inference ? ENGINE_INFERENCE_MS : 0,
        .watch_files = true,
    };
    if (a->engine)
        return NULL;
    struct gs_error *err = engine_new(a->loop, &o, &a->own_engine);
    if (err)
        return gs_error_wrap(err, "--engine-config");
    a->engine = a->own_engine;
    return NULL;
}

static struct gs_error *take_engine(struct adapter *a)
{
    struct gs_error *err = adapter_need_engine(a);
    if (err)
        return err;
    a->source = adapter_source_new_engine(a->loop, a->engine, 0, a->o.value_age_ns / GS_NS_PER_MS);
    a->source_is_engine = true;
    gs_info("adapter", "the source is the engine in this process");
    return NULL;
}

static struct gs_error *add_credentials(const struct adapter *a, struct kube_config *k,
                                        struct endpoint_settings *s)
{
    const struct adapter_options *o = &a->o;
    const char *file = o->prometheus_auth_config;
    if (file && *file && o->prometheus_auth_incluster)
        return gs_error_new(GS_EINVAL, "--prometheus-auth-incluster and --prometheus-auth-config "
                                       "cannot both be given");
    // As in prometheus-adapter, a CA file disables these two options.
    if (s->ca.file || ((!file || !*file) && !o->prometheus_auth_incluster))
        return NULL;
    struct gs_error *err = kube_config_load(file && *file ? file : NULL, NULL, k);
    if (!err)
        err = kube_config_login(k);
    if (err)
        return err;
    // The token file is used because it is read again; both would set two headers.
    const struct endpoint_settings cluster = kube_config_endpoint(k);
    s->credentials.text = k->token_file ? NULL : k->token;
    if (k->token_file && !s->credentials.file)
        s->credentials.file = k->token_file;
    if (cluster.credentials.current)
        s->credentials = cluster.credentials;
    s->ca.text = cluster.ca.text;
    s->cert.text = cluster.cert.text;
    s->key.text = cluster.key.text;
    return NULL;
}

struct gs_error *adapter_make_source(struct adapter *a, const struct adapter_config *c)
{
    const struct adapter_options *o = &a->o;
    if (o->engine)
        return take_engine(a);
    const char *url = o->prometheus_url ? o->prometheus_url : c->prometheus_url;
    const char *verb = o->prometheus_verb ? o->prometheus_verb : "GET";
    bool post = gs_streq(verb, "POST");
    if (!post && !gs_streq(verb, "GET"))
        return gs_error_new(GS_EINVAL, "--prometheus-verb \"%s\": want GET or POST", verb);
    if (!url || !*url)
        return take_engine(a);
    GS_CLEANUP(kube_config_finish) struct kube_config k = {0};
    struct gs_arena mem = {0};
    struct source_options remote = {
        .url = url, .post = post, .max_age_ms = a->o.value_age_ns / GS_NS_PER_MS};
    remote.endpoint = (struct endpoint_settings){
        .ca.file = o->prometheus_ca_file && *o->prometheus_ca_file ? o->prometheus_ca_file : NULL,
        .cert.file = o->prometheus_cert_file,
        .key.file = o->prometheus_key_file,
        .credentials.file = o->prometheus_token_file,
        .insecure_skip_verify = o->prometheus_insecure,
        .proxy_from_environment = true,
    };
    struct gs_error *err = endpoint_add_headers(&remote.endpoint, o->prometheus_headers.items,
                                                o->prometheus_headers.len, &mem);
    if (!err)
        err = add_credentials(a, &k, &remote.endpoint);
    if (!err)
        err = source_new_remote(a->loop, &remote, &a->source);
    gs_arena_finish(&mem);
    if (!err)
        gs_info("adapter", "the source is %s", source_name(a->source));
    return err;
}

int64_t adapter_builtin_relist_ms(const struct adapter *a)
{
    if (!a->engine)
        return RELIST_MS;
    return a->o.relist_ns > 0 ? a->o.relist_ns / GS_NS_PER_MS : ADAPTER_ENGINE_RELIST_MS;
}

static struct gs_error *make_gpu(struct adapter *a)
{
    if (!a->o.gpu_metrics)
        return NULL;
    struct gs_error *err =
        adapter_config_parse(gs_slice_of(provider_gpu_rules()), "(GPU metrics)", &a->gpu_config);
    if (err)
        return err;
    const struct provider_registry_options o = {.config = a->gpu_config,
                                                .source = a->source,
                                                .mapper = a->mapper,
                                                .relist_ms = adapter_builtin_relist_ms(a),
                                                .max_age_ms = 60000};
    a->gpu = provider_registry_new(a->loop, &o);
    return NULL;
}

struct gs_error *adapter_make_builtin_rules(struct adapter *a)
{
    struct gs_error *err = make_gpu(a);
    return err ? err : adapter_make_pod_series(a);
}

void adapter_free_sources(struct adapter *a)
{
    provider_registry_free(a->gpu);
    provider_registry_free(a->pod_series);
    adapter_config_free(a->gpu_config);
    adapter_config_free(a->pod_series_config);
    adapter_config_free(a->resource_config);
    provider_rest_mapper_free(a->mapper);
    source_probe_free(a->probe);
    source_free(a->source);
    engine_free(a->own_engine);
}
