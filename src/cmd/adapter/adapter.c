// SPDX-License-Identifier: Apache-2.0
// gpuscale adapter: the metrics APIs as an aggregated API server, under prometheus-adapter's flags.
#include "adapter/api/api.h"
#include "adapter/provider/gpu.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/adapter/options.h"
#include "cmd/adapter/serving.h"
#include "cmd/verbs.h"
#include "engine/engine.h"
#include "kube/kubeconfig.h"
#include "net/http_server.h"

#include <signal.h>
#include <sys/stat.h>

enum {
    DEFAULT_RELIST_MS = 600000,
    GPU_RELIST_MS = 30000,
    ENGINE_RELIST_MS = 10000,
    POLL_MS = 5000,
    DISCOVERY_MS = 300000,
    MAX_RETIRED = 32,
    DRAIN_STEP_MS = 20,
    DRAIN_MS = 5000,
    MAX_CONFIG = 16 * 1024 * 1024,
};

// A configuration with what was made from it.
struct world {
    struct adapter_config *config;
    struct registry *registry;
    struct provider *provider;
    int64_t retired_ns; // no new request comes to it
};

struct cluster {
    struct http_client *http;
    struct kube_client *kube;
};

struct run {
    const struct adapter_flags *f;
    uv_loop_t loop;
    uv_signal_t signals[3];
    uv_timer_t poll, discovery;
    struct cluster lister, authn, authz;
    struct engine *engine;
    struct http_client *engine_http;
    struct source *source;
    struct mapper *mapper;
    struct adapter_config *gpu_config;
    struct registry *gpu;
    struct world now, next; // next: loaded, its first round is under way
    struct auth *auth;
    struct api *api;
    struct serving *serving;
    struct http_server *server;
    const char **lists[5];
    char *memory[5];
    struct timespec config_time;
    struct world retired[MAX_RETIRED];
    size_t n_retired;
    int64_t stop_ns;
    uint64_t reloads, reload_failures;
    int64_t loaded_ms;
    bool auth_ready, mapper_ready, stopping;
    struct gs_error *fatal;
};

// --- worlds ---

static void world_free(struct world *w)
{
    provider_free(w->provider);
    registry_free(w->registry);
    adapter_config_free(w->config);
    *w = (struct world){0};
}

// Requests that began in it end in it.
static void retire(struct run *r, struct world *w)
{
    if (!w->registry)
        return;
    if (r->n_retired == MAX_RETIRED) {
        world_free(&r->retired[0]);
        memmove(r->retired, r->retired + 1, --r->n_retired * sizeof(r->retired[0]));
    }
    registry_stop(w->registry);
    w->retired_ns = gs_mono_ns();
    r->retired[r->n_retired++] = *w;
    *w = (struct world){0};
}

static void free_retired(struct run *r, int64_t age_ns)
{
    while (r->n_retired && gs_mono_ns() - r->retired[0].retired_ns >= age_ns) {
        world_free(&r->retired[0]);
        memmove(r->retired, r->retired + 1, --r->n_retired * sizeof(r->retired[0]));
    }
}

static void show_world(struct run *r)
{
    const struct api_world w = {.config = r->now.config,
                                .registry = r->now.registry,
                                .gpu = r->gpu,
                                .provider = r->now.provider,
                                .source = r->source,
                                .mapper = r->mapper};
    api_set_world(r->api, &w);
}

static int64_t relist_ms(const struct run *r, const struct adapter_config *c)
{
    int64_t ns = r->f->relist_ns;
    if (ns <= 0 && c->relist_interval)
        gs_error_free(gs_parse_duration(gs_slice_of(c->relist_interval), &ns));
    if (ns > 0)
        return ns / GS_NS_PER_MS;
    return r->engine ? ENGINE_RELIST_MS : DEFAULT_RELIST_MS;
}

static void on_round(void *arg)
{
    struct run *r = arg;
    if (!r->next.registry)
        return;
    // The first answers of a new configuration are in: from now on it is the one that is served.
    struct world old = r->now;
    r->now = r->next;
    r->next = (struct world){0};
    show_world(r);
    retire(r, &old);
}

static struct gs_error *make_world(struct run *r, struct adapter_config *c, struct world *ret)
{
    int64_t relist = relist_ms(r, c), age = r->f->max_age_ns / GS_NS_PER_MS;
    if (age && age < relist && c->n_rules)
        return gs_error_new(GS_EINVAL, "--metrics-max-age is less than --metrics-relist-interval");
    const struct registry_options registry = {.config = c,
                                              .source = r->source,
                                              .mapper = r->mapper,
                                              .relist_ms = relist,
                                              .max_age_ms = age,
                                              .on_round = on_round,
                                              .arg = r};
    ret->config = c;
    ret->registry = registry_new(&r->loop, &registry);
    const struct provider_options provider = {.config = c,
                                              .source = r->source,
                                              .mapper = r->mapper,
                                              .registry = ret->registry,
                                              .kube = r->lister.kube,
                                              .list_age_ms = r->f->value_age_ns / GS_NS_PER_MS,
                                              .gpu = r->gpu};
    ret->provider = provider_new(&provider);
    return NULL;
}

static struct gs_error *load_config(const struct run *r, struct adapter_config **ret)
{
    if (r->f->config)
        return adapter_config_load(r->f->config, ret);
    return adapter_config_parse(GS_SLICE("{}"), "(no configuration)", ret);
}

static struct timespec config_time(const struct run *r)
{
    struct stat st;
    return r->f->config && stat(r->f->config, &st) == 0 ? st.st_mtim : (struct timespec){0};
}

static void reload(struct run *r)
{
    struct adapter_config *c = NULL;
    r->config_time = config_time(r);
    struct gs_error *err = load_config(r, &c);
    struct world w = {0};
    if (!err)
        err = make_world(r, c, &w);
    r->reloads++;
    if (err) {
        r->reload_failures++;
        gs_err("adapter", "the old configuration stays: %s", gs_error_message(err));
        gs_error_free(err);
        adapter_config_free(c);
        return;
    }
    world_free(&r->next);
    r->next = w;
    r->loaded_ms = gs_unix_ms();
    gs_info("adapter", "configuration loaded again: %zu rules", c->n_rules);
    if (!c->n_rules)
        on_round(r);
}

// --- what is told ---

static const char *not_ready(void *arg)
{
    const struct run *r = arg;
    if (!r->auth_ready)
        return "the front proxy's configuration is not read yet";
    if (!r->mapper_ready)
        return "the cluster's resources are not known yet";
    if (!registry_rounds(r->now.registry))
        return "the series of the rules are not listed yet";
    return NULL;
}

static void more_metrics(void *arg, struct gs_buf *out)
{
    const struct run *r = arg;
    gs_buf_addf(out,
                "# HELP gpuscale_adapter_config_reloads_total Times the configuration was loaded "
                "again.\n# TYPE gpuscale_adapter_config_reloads_total counter\n"
                "gpuscale_adapter_config_reloads_total %llu\n"
                "# HELP gpuscale_adapter_config_reload_failures_total Those that left the old one "
                "in force.\n# TYPE gpuscale_adapter_config_reload_failures_total counter\n"
                "gpuscale_adapter_config_reload_failures_total %llu\n"
                "# HELP gpuscale_adapter_config_last_reload_success_timestamp_seconds When the one "
                "in force was loaded.\n"
                "# TYPE gpuscale_adapter_config_last_reload_success_timestamp_seconds gauge\n"
                "gpuscale_adapter_config_last_reload_success_timestamp_seconds %.3f\n",
                (unsigned long long)r->reloads, (unsigned long long)r->reload_failures,
                (double)r->loaded_ms / 1000);
}

// --- the cluster ---

static struct gs_error *connect_cluster(struct run *r, const char *path, const char *flag,
                                        struct cluster *ret)
{
    GS_CLEANUP(kube_config_finish) struct kube_config k = {0};
    bool given = path && *path;
    if (!given && !getenv("KUBERNETES_SERVICE_HOST"))
        return gs_error_new(GS_EINVAL, "outside of a cluster --%s is needed", flag);
    struct gs_error *err = kube_config_load(given ? path : NULL, NULL, &k);
    struct http_client_config http = {.base_url = k.server,
                                      .ca_pem = k.ca_pem,
                                      .cert_pem = k.client_cert_pem,
                                      .key_pem = k.client_key_pem,
                                      .bearer_token = k.token,
                                      .bearer_token_file = k.token_file,
                                      .insecure = k.insecure != 0,
                                      .user_agent = "gpuscale-adapter/" GPUSCALE_VERSION};
    if (!err)
        err = http_client_new_curl(&r->loop, &http, &ret->http);
    if (err)
        return gs_error_wrap(err, "--%s", flag);
    ret->kube = kube_client_new(ret->http);
    return NULL;
}

static void cluster_finish(struct cluster *c)
{
    if (c->kube)
        kube_client_free(c->kube);
    http_client_free(c->http);
}

static void on_mapper(void *arg, struct gs_error *err)
{
    struct run *r = arg;
    if (err)
        gs_warn("adapter", "%s", gs_error_message(err));
    bool first = !err && !r->mapper_ready;
    r->mapper_ready = r->mapper_ready || !err;
    gs_error_free(err);
    if (r->now.registry)
        registry_rebuild(r->now.registry);
    if (r->gpu)
        registry_rebuild(r->gpu);
    int64_t ms = r->f->discovery_interval_ns / GS_NS_PER_MS;
    uint64_t wait = r->mapper_ready ? (uint64_t)(ms ? ms : DISCOVERY_MS) : 2000;
    if (first)
        gs_info("adapter", "the cluster's resources are known");
    uv_timer_set_repeat(&r->discovery, wait);
    uv_timer_again(&r->discovery);
}

static void on_discovery(uv_timer_t *t)
{
    struct run *r = t->data;
    uv_timer_stop(t);
    mapper_load(r->mapper, r->lister.kube, on_mapper, r);
}

static void on_auth_ready(void *arg, struct gs_error *err)
{
    struct run *r = arg;
    r->auth_ready = !err;
    if (!err)
        return;
    r->fatal = err;
    uv_stop(&r->loop);
}

static const char *const *split(struct run *r, size_t i, const struct gs_opt_list *given,
                                const char *fallback, size_t *ret_n)
{
    const char *one[] = {fallback};
    const struct gs_opt_list def = {.items = one, .len = fallback ? 1 : 0};
    const char *const *list = adapter_split(given->len ? given : &def, ret_n, &r->memory[i]);
    r->lists[i] = (const char **)(uintptr_t)list;
    return list;
}

static struct gs_error *make_auth(struct run *r)
{
    const struct adapter_flags *f = r->f;
    struct auth_options o = {.authn = r->authn.kube,
                             .authz = r->authz.kube,
                             .client_ca_file = f->client_ca_file,
                             .requestheader_ca_file = f->requestheader_ca_file,
                             .token_ttl_ms = f->token_ttl_ns / GS_NS_PER_MS,
                             .allowed_ttl_ms = f->allowed_ttl_ns / GS_NS_PER_MS,
                             .denied_ttl_ms = f->denied_ttl_ns / GS_NS_PER_MS,
                             .skip_lookup = f->skip_lookup,
                             .tolerate_lookup_failure = f->tolerate_lookup_failure};
    o.username_headers = split(r, 0, &f->username_headers, "x-remote-user", &o.n_username_headers);
    o.group_headers = split(r, 1, &f->group_headers, "x-remote-group", &o.n_group_headers);
    o.extra_prefixes = split(r, 2, &f->extra_prefixes, "x-remote-extra-", &o.n_extra_prefixes);
    o.allowed_names = split(r, 3, &f->allowed_names, NULL, &o.n_allowed_names);
    o.always_allow_paths =
        split(r, 4, &f->always_allow_paths, "/healthz,/readyz,/livez", &o.n_always_allow_paths);
    return auth_new(&r->loop, &o, on_auth_ready, r, &r->auth);
}

// --- the source ---

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

static struct gs_error *make_engine(struct run *r)
{
    struct engine_options o = {
        .config_path = r->f->engine_config,
        .config_text = r->f->engine_config ? NULL : engine_default_config,
        .store = {.retention_ms = r->f->engine_retention_ns / GS_NS_PER_MS},
        .kube = r->lister.kube,
        .watch_files = true,
    };
    struct gs_error *err = engine_new(&r->loop, &o, &r->engine);
    if (err)
        return gs_error_wrap(err, "--engine-config");
    r->engine_http = http_client_new_loopback(&r->loop, engine_handle, r->engine, NULL);
    const struct source_options s = {.max_age_ms = r->f->value_age_ns / GS_NS_PER_MS};
    r->source = source_new_client(&r->loop, r->engine_http, "", &s);
    gs_info("adapter", "the source is the engine in this process");
    return NULL;
}

static struct gs_error *add_credentials(const struct run *r, struct kube_config *k,
                                        struct source_options *o)
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

static struct gs_error *make_source(struct run *r, const struct adapter_config *c)
{
    const struct adapter_flags *f = r->f;
    const char *url = f->prometheus_url ? f->prometheus_url : c->prometheus_url;
    bool post = gs_streq(f->prometheus_verb, "POST");
    if (!post && !gs_streq(f->prometheus_verb, "GET"))
        return gs_error_new(GS_EINVAL, "--prometheus-verb \"%s\": want GET or POST",
                            f->prometheus_verb);
    if (!url || !*url)
        return make_engine(r);
    GS_CLEANUP(kube_config_finish) struct kube_config k = {0};
    struct source_options o = {
        .url = url,
        .post = post,
        .headers = f->prometheus_headers.items,
        .n_headers = f->prometheus_headers.len,
        .ca_file = f->prometheus_ca_file && *f->prometheus_ca_file ? f->prometheus_ca_file : NULL,
        .cert_file = f->prometheus_cert_file,
        .key_file = f->prometheus_key_file,
        .token_file = f->prometheus_token_file,
        .insecure = f->prometheus_insecure,
        .max_age_ms = f->value_age_ns / GS_NS_PER_MS,
    };
    struct gs_error *err = add_credentials(r, &k, &o);
    if (!err)
        err = source_new_remote(&r->loop, &o, &r->source);
    if (!err)
        gs_info("adapter", "the source is %s", source_name(r->source));
    return err;
}

static struct gs_error *make_gpu(struct run *r)
{
    if (!r->f->gpu_metrics)
        return NULL;
    struct gs_error *err =
        adapter_config_parse(gs_slice_of(gpu_rules()), "(GPU metrics)", &r->gpu_config);
    if (err)
        return err;
    const struct registry_options o = {.config = r->gpu_config,
                                       .source = r->source,
                                       .mapper = r->mapper,
                                       .relist_ms = r->engine ? ENGINE_RELIST_MS : GPU_RELIST_MS,
                                       .max_age_ms = 60000};
    r->gpu = registry_new(&r->loop, &o);
    return NULL;
}

// --- running ---

static void on_poll(uv_timer_t *t)
{
    struct run *r = t->data;
    struct timespec now = config_time(r);
    serving_poll(r->serving, r->server);
    free_retired(r, API_LONGEST_MS * GS_NS_PER_MS);
    if (r->f->config &&
        (now.tv_sec != r->config_time.tv_sec || now.tv_nsec != r->config_time.tv_nsec))
        reload(r);
}

// Requests that are under way are answered before the end.
static void on_drain(uv_timer_t *t)
{
    struct run *r = t->data;
    if (api_idle(r->api) || gs_mono_ns() - r->stop_ns > DRAIN_MS * GS_NS_PER_MS)
        uv_stop(&r->loop);
}

static void on_signal(uv_signal_t *s, int number)
{
    struct run *r = s->data;
    if (number == SIGHUP) {
        reload(r);
        return;
    }
    bool again = r->stop_ns != 0;
    gs_info("adapter", "%s: ending", strsignal(number));
    r->stop_ns = gs_mono_ns();
    if (again || !r->api) {
        uv_stop(&r->loop);
        return;
    }
    api_stopping(r->api);
    uv_timer_start(&r->poll, on_drain, 0, DRAIN_STEP_MS);
}

static void watch(struct run *r)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    for (size_t i = 0; i < GS_ARRAY_LEN(numbers); i++) {
        uv_signal_init(&r->loop, &r->signals[i]);
        r->signals[i].data = r;
        uv_signal_start(&r->signals[i], on_signal, numbers[i]);
    }
    uv_timer_init(&r->loop, &r->poll);
    uv_timer_init(&r->loop, &r->discovery);
    r->poll.data = r->discovery.data = r;
}

static struct gs_error *serve(struct run *r)
{
    const struct adapter_flags *f = r->f;
    const struct serving_options serving = {
        .cert_file = f->tls_cert_file, .key_file = f->tls_key_file, .cert_dir = f->cert_dir};
    struct gs_error *err = serving_new(&serving, &r->serving);
    struct http_server_config server = {.address =
                                            gs_streq(f->bind_address, "::") ? "" : f->bind_address,
                                        .port = (uint16_t)f->secure_port,
                                        .ask_client_cert = true,
                                        .max_connections = (unsigned)f->max_connections};
    if (err)
        return err;
    serving_apply(r->serving, &server);
    err = http_server_start(&r->loop, &server, api_handle, r->api, &r->server);
    if (err)
        return gs_error_wrap(err, "--secure-port");
    gs_info("adapter", "listening on https://%s:%u", f->bind_address, http_server_port(r->server));
    return NULL;
}

static struct gs_error *start(struct run *r)
{
    const struct adapter_flags *f = r->f;
    struct adapter_config *c = NULL;
    struct gs_error *err = load_config(r, &c);
    r->config_time = config_time(r);
    r->loaded_ms = gs_unix_ms();
    if (!err)
        err = connect_cluster(r, f->lister_kubeconfig, "lister-kubeconfig", &r->lister);
    if (!err)
        err = connect_cluster(r, f->authn_kubeconfig, "authentication-kubeconfig", &r->authn);
    if (!err)
        err = connect_cluster(r, f->authz_kubeconfig, "authorization-kubeconfig", &r->authz);
    if (!err)
        err = make_source(r, c);
    r->mapper = mapper_new();
    if (!err)
        err = make_gpu(r);
    if (!err)
        err = make_world(r, c, &r->now);
    if (err && !r->now.config)
        adapter_config_free(c);
    if (!err)
        err = make_auth(r);
    if (err)
        return err;
    const struct api_options api = {.auth = r->auth,
                                    .kube = r->lister.kube,
                                    .not_ready = not_ready,
                                    .more_metrics = more_metrics,
                                    .arg = r};
    r->api = api_new(&api);
    show_world(r);
    mapper_load(r->mapper, r->lister.kube, on_mapper, r);
    uv_timer_start(&r->discovery, on_discovery, DISCOVERY_MS, DISCOVERY_MS);
    uv_timer_start(&r->poll, on_poll, POLL_MS, POLL_MS);
    return serve(r);
}

static void finish(struct run *r)
{
    http_server_stop(r->server);
    api_free(r->api);
    auth_free(r->auth);
    free_retired(r, 0);
    world_free(&r->next);
    world_free(&r->now);
    registry_free(r->gpu);
    adapter_config_free(r->gpu_config);
    mapper_free(r->mapper);
    source_free(r->source);
    http_client_free(r->engine_http);
    if (r->engine)
        engine_free(r->engine);
    cluster_finish(&r->lister);
    cluster_finish(&r->authn);
    cluster_finish(&r->authz);
    for (size_t i = 0; i < GS_ARRAY_LEN(r->signals); i++)
        uv_close((uv_handle_t *)&r->signals[i], NULL);
    uv_close((uv_handle_t *)&r->poll, NULL);
    uv_close((uv_handle_t *)&r->discovery, NULL);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    uv_loop_close(&r->loop);
    serving_free(r->serving);
    for (size_t i = 0; i < GS_ARRAY_LEN(r->lists); i++) {
        free(r->lists[i]);
        free(r->memory[i]);
    }
}

static struct gs_error *run(const void *arg, int argc, char **argv, int *ret_exit)
{
    const struct adapter_flags *f = arg;
    adapter_warn_ignored(f);
    if (f->v >= 6)
        gs_error_free(gs_log_configure_text("debug", "text"));
    struct run r = {.f = f};
    uv_loop_init(&r.loop);
    watch(&r);
    struct gs_error *err = start(&r);
    if (!err && !r.fatal)
        uv_run(&r.loop, UV_RUN_DEFAULT);
    finish(&r);
    if (!err)
        err = r.fatal;
    return err;
}

const struct gs_verb verb_adapter = {
    .name = "adapter",
    .summary = "Serve Kubernetes' custom and external metrics, with prometheus-adapter's rules.",
    .description =
        "An aggregated API server for custom.metrics.k8s.io (v1beta1, v1beta2), "
        "external.metrics.k8s.io and metrics.k8s.io. It takes prometheus-adapter's place: the same "
        "flags, the same configuration, the same answers. Numbers come from a "
        "Prometheus-compatible "
        "server or from the engine in this process, which scrapes the cluster's GPU exporters.\n\n"
        "GPU series that no rule serves are served for pods, namespaces and nodes, and as the "
        "average of their pods for Deployments, StatefulSets, ReplicaSets, DaemonSets, Jobs and "
        "Services; METRIC_MAX and METRIC_MIN are the largest and the smallest of them.\n\n"
        "Each rule stands for itself: one whose series cannot be listed keeps those that it found "
        "last. /readyz is good when the source answers; /metrics tells the state of each rule. The "
        "configuration and the certificates are read again when their files change, or on SIGHUP; "
        "a wrong configuration leaves the old one in force.\n\n"
        "gpuscale check adapter FILE shows what the rules of a file would do; gpuscale explain "
        "metric PATH shows how one request is answered.",
    .examples =
        "gpuscale adapter --config=/etc/adapter/config.yaml "
        "--prometheus-url=http://prometheus:9090 "
        "--secure-port=6443 --cert-dir=/tmp/cert\n"
        "gpuscale adapter --config=values.yaml --secure-port=6443 --lister-kubeconfig=kubeconfig "
        "--authentication-kubeconfig=kubeconfig --authorization-kubeconfig=kubeconfig",
    .opts = adapter_option_rows,
    .opts_size = sizeof(struct adapter_flags),
    .max_args = 0,
    .run = run,
};
