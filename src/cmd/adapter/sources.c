// SPDX-License-Identifier: Apache-2.0
#include "adapter/engine_source.h"
#include "adapter/provider/gpu.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/adapter/run.h"
#include "kube/kubeconfig.h"

enum { GPU_RELIST_MS = 30000 };

#define EXPORTERS "(.*-)?(dcgm|gpuscale)-exporter"

// Every exporter's pods by the names that their charts and manifests give them.
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

struct gs_error *run_need_engine(struct run *r)
{
    const struct engine_options o = {
        .config_path = r->f->engine_config,
        .config_text = r->f->engine_config ? NULL : engine_default_config,
        .store = {.retention_ms = r->f->engine_retention_ns / GS_NS_PER_MS},
        .kube = r->lister.kube,
        .watch_files = true,
    };
    if (r->engine)
        return NULL;
    struct gs_error *err = engine_new(&r->loop, &o, &r->engine);
    if (err)
        return gs_error_wrap(err, "--engine-config");
    return NULL;
}

static struct gs_error *take_engine(struct run *r)
{
    struct gs_error *err = run_need_engine(r);
    if (err)
        return err;
    r->source =
        adapter_source_new_engine(&r->loop, r->engine, 0, r->f->value_age_ns / GS_NS_PER_MS);
    gs_info("adapter", "the source is the engine in this process");
    return NULL;
}

static struct gs_error *add_credentials(const struct run *r, struct kube_config *k,
                                        struct source_peer_options *o)
{
    const struct adapter_flags *f = r->f;
    const char *file = f->prometheus_auth_config;
    if (file && *file && f->prometheus_auth_incluster)
        return gs_error_new(GS_EINVAL, "--prometheus-auth-incluster and --prometheus-auth-config "
                                       "cannot both be given");
    // As in prometheus-adapter: with a CA file these two are not looked at.
    if (o->ca_file || ((!file || !*file) && !f->prometheus_auth_incluster))
        return NULL;
    struct gs_error *err = kube_config_load(file && *file ? file : NULL, NULL, k);
    // The file is read again; both together would be two headers.
    o->token = k->token_file ? NULL : k->token;
    if (k->token_file && !o->token_file)
        o->token_file = k->token_file;
    o->ca_pem = k->ca_pem;
    o->cert_pem = k->client_cert_pem;
    o->key_pem = k->client_key_pem;
    return err;
}

struct gs_error *run_make_source(struct run *r, const struct adapter_config *c)
{
    const struct adapter_flags *f = r->f;
    const char *url = f->prometheus_url ? f->prometheus_url : c->prometheus_url;
    bool post = gs_streq(f->prometheus_verb, "POST");
    if (!post && !gs_streq(f->prometheus_verb, "GET"))
        return gs_error_new(GS_EINVAL, "--prometheus-verb \"%s\": want GET or POST",
                            f->prometheus_verb);
    if (!url || !*url)
        return take_engine(r);
    GS_CLEANUP(kube_config_finish) struct kube_config k = {0};
    struct source_options o = {.post = post, .max_age_ms = r->f->value_age_ns / GS_NS_PER_MS};
    o.peer = (struct source_peer_options){
        .url = url,
        .headers = f->prometheus_headers.items,
        .n_headers = f->prometheus_headers.len,
        .ca_file = f->prometheus_ca_file && *f->prometheus_ca_file ? f->prometheus_ca_file : NULL,
        .cert_file = f->prometheus_cert_file,
        .key_file = f->prometheus_key_file,
        .token_file = f->prometheus_token_file,
        .insecure = f->prometheus_insecure,
    };
    struct gs_error *err = add_credentials(r, &k, &o.peer);
    if (!err)
        err = source_new_remote(&r->loop, &o, &r->source);
    if (!err)
        gs_info("adapter", "the source is %s", source_name(r->source));
    return err;
}

struct gs_error *run_make_gpu(struct run *r)
{
    if (!r->f->gpu_metrics)
        return NULL;
    struct gs_error *err =
        adapter_config_parse(gs_slice_of(provider_gpu_rules()), "(GPU metrics)", &r->gpu_config);
    if (err)
        return err;
    const struct provider_registry_options o = {.config = r->gpu_config,
                                                .source = r->source,
                                                .mapper = r->mapper,
                                                .relist_ms =
                                                    r->engine ? ENGINE_RELIST_MS : GPU_RELIST_MS,
                                                .max_age_ms = 60000};
    r->gpu = provider_registry_new(&r->loop, &o);
    return NULL;
}

void run_free_sources(struct run *r)
{
    provider_registry_free(r->gpu);
    adapter_config_free(r->gpu_config);
    provider_mapper_free(r->mapper);
    source_probe_free(r->probe);
    source_free(r->source);
    if (r->engine)
        engine_free(r->engine);
}
