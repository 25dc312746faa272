// SPDX-License-Identifier: Apache-2.0
// gpuscale adapter: the metrics APIs as an aggregated API server, under prometheus-adapter's flags.
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/trim.h"
#include "cmd/adapter/run.h"
#include "cmd/verbs.h"

#include <signal.h>

enum {
    POLL_MS = 5000,
    DRAIN_STEP_MS = 5,
    DRAIN_MS = 25000,
    FIRST_SCRAPES_S = 15, // a cluster may have nothing to scrape
};

// --- what is told ---

// Of the engine in this process: a replica that has just started would answer 404 for a moment.
static bool waits_for_scrapes(const struct run *r)
{
    bool found =
        provider_registry_found(r->now.registry) || (r->gpu && provider_registry_found(r->gpu));
    return r->engine && !found && gs_mono_ns() - r->started_ns < FIRST_SCRAPES_S * GS_NS_PER_SEC;
}

static const char *not_ready(void *arg)
{
    const struct run *r = arg;
    if (!r->auth_ready)
        return "the front proxy's configuration is not read yet";
    if (!r->mapper_ready)
        return "the cluster's resources are not known yet";
    if (!provider_registry_rounds(r->now.registry))
        return "the series of the rules are not listed yet";
    if (r->rotation && rotation_wrong(r->rotation))
        return rotation_wrong(r->rotation);
    if (waits_for_scrapes(r))
        return "the engine has not scraped any series yet";
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
                "gpuscale_adapter_config_last_reload_success_timestamp_seconds %.3f\n"
                "# HELP gpuscale_adapter_config_unknown_resources Overrides that name a resource "
                "that the cluster does not have.\n"
                "# TYPE gpuscale_adapter_config_unknown_resources gauge\n"
                "gpuscale_adapter_config_unknown_resources %zu\n"
                "# HELP gpuscale_adapter_certificate_expiry_timestamp_seconds When the serving "
                "certificate expires.\n"
                "# TYPE gpuscale_adapter_certificate_expiry_timestamp_seconds gauge\n"
                "gpuscale_adapter_certificate_expiry_timestamp_seconds %lld\n",
                (unsigned long long)r->reloads, (unsigned long long)r->reload_failures,
                (double)r->loaded_ms / 1000, r->wrong_overrides,
                (long long)serving_expiry(r->serving));
}

// --- running ---

static void on_poll(uv_timer_t *t)
{
    struct run *r = t->data;
    serving_poll(r->serving);
    run_free_retired(r, ADAPTER_API_LONGEST_MS * GS_NS_PER_MS);
    run_reload_changed(r);
    adapter_api_forget_old(r->api);
    gs_trim_heap();
    if (!r->trimmed && !not_ready(r)) {
        r->trimmed = true;
        gs_trim_memory();
    }
}

// Requests that are under way are answered before the end.
static void on_drain(uv_timer_t *t)
{
    struct run *r = t->data;
    if (adapter_api_idle(r->api) || gs_mono_ns() - r->stop_ns > DRAIN_MS * GS_NS_PER_MS)
        uv_stop(&r->loop);
}

static void on_signal(uv_signal_t *s, int number)
{
    struct run *r = s->data;
    if (number == SIGHUP) {
        if (r->server)
            serving_poll(r->serving);
        run_reload(r);
        return;
    }
    bool again = r->stop_ns != 0;
    gs_info("adapter", "%s: ending", strsignal(number));
    r->stop_ns = gs_mono_ns();
    if (again || !r->api) {
        uv_stop(&r->loop);
        return;
    }
    adapter_api_stopping(r->api);
    http_server_drain(r->server);
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
    bool rotates = f->tls_service && *f->tls_service;
    const struct serving_options serving = {.cert_file = f->tls_cert_file,
                                            .key_file = f->tls_key_file,
                                            .cert_dir = f->cert_dir,
                                            .handed = rotates};
    struct gs_error *err = rotates ? rotation_check_service(f->tls_service) : NULL;
    if (!err)
        err = serving_new(&serving, &r->serving);
    struct http_server_config server = {.address =
                                            gs_streq(f->bind_address, "::") ? "" : f->bind_address,
                                        .port = (uint16_t)f->secure_port,
                                        .ask_client_cert = true,
                                        .max_connections = (unsigned)f->max_connections};
    if (err)
        return err;
    serving_apply(r->serving, &server);
    err = http_server_start(&r->loop, &server, adapter_api_handle, r->api, &r->server);
    if (err)
        return gs_error_wrap(err, "--secure-port");
    serving_set_server(r->serving, r->server);
    const struct rotation_options rotation = {
        .kube = r->lister.kube, .serving = r->serving, .service = f->tls_service};
    if (rotates)
        r->rotation = rotation_new(&r->loop, &rotation);
    gs_info("adapter", "listening on https://%s:%u", f->bind_address, http_server_port(r->server));
    return NULL;
}

static struct gs_error *make_audit(struct run *r)
{
    enum { MEGABYTE = 1024 * 1024, DAY_MS = 86400000 };
    const struct adapter_flags *f = r->f;
    const char *mode = f->audit_mode;
    bool file = f->audit_path && *f->audit_path, policy = f->audit_policy && *f->audit_policy;
    bool batch = gs_streq(mode, "batch");
    if (!batch && !gs_streq(mode, "blocking") && !gs_streq(mode, "blocking-strict"))
        return gs_error_new(
            GS_EINVAL, "--audit-log-mode \"%s\": want batch, blocking or blocking-strict", mode);
    if (!gs_streq(f->audit_format, "json") || !gs_streq(f->audit_version, "audit.k8s.io/v1"))
        return gs_error_new(GS_EINVAL, "audit events are written as json of audit.k8s.io/v1 only");
    if (file != policy)
        gs_warn("adapter", "nothing is audited: --audit-log-path and --audit-policy-file belong "
                           "together");
    if (!file || !policy)
        return NULL;
    const struct adapter_api_audit_options o = {
        .loop = &r->loop,
        .policy_file = f->audit_policy,
        .log = {.path = f->audit_path,
                .max_bytes = (uint64_t)f->audit_max_size * MEGABYTE,
                .max_age_ms = f->audit_max_age * DAY_MS,
                .max_old = (uint64_t)f->audit_max_backup},
        .batch = batch};
    return adapter_api_audit_new(&o, &r->audit);
}

static struct gs_error *start(struct run *r)
{
    struct adapter_config *c = NULL;
    struct gs_error *err = run_load_config(r, &c);
    r->loaded_ms = gs_unix_ms();
    r->mapper = provider_mapper_new();
    if (!err)
        err = run_connect_clusters(r);
    if (!err)
        err = run_make_source(r, c);
    if (!err)
        err = run_make_gpu(r);
    if (!err)
        err = run_make_world(r, c, &r->now);
    if (err && !r->now.config)
        adapter_config_free(c);
    if (!err)
        err = run_make_auth(r);
    if (!err)
        err = make_audit(r);
    if (!err)
        err = run_make_owners(r);
    if (err)
        return err;
    const struct source_probe_options probe = {.source = r->source};
    r->probe = source_probe_new(&r->loop, &probe);
    const struct adapter_api_options api = {.loop = &r->loop,
                                            .auth = r->auth,
                                            .audit = r->audit,
                                            .previous_custom = r->previous_custom,
                                            .previous_external = r->previous_external,
                                            .previous_resource = r->previous_resource,
                                            .kube = r->lister.kube,
                                            .probe = r->probe,
                                            .not_ready = not_ready,
                                            .more_metrics = more_metrics,
                                            .arg = r};
    err = adapter_api_new(&api, &r->api);
    if (err)
        return err;
    run_show_world(r);
    run_watch_resources(r);
    uv_timer_start(&r->poll, on_poll, POLL_MS, POLL_MS);
    return serve(r);
}

static void finish(struct run *r)
{
    rotation_free(r->rotation);
    http_server_stop(r->server);
    adapter_api_free(r->api);
    adapter_api_audit_free(r->audit);
    run_free_owners(r);
    adapter_api_auth_free(r->auth);
    run_free_worlds(r);
    run_free_sources(r);
    run_free_clusters(r);
    for (size_t i = 0; i < GS_ARRAY_LEN(r->signals); i++)
        uv_close((uv_handle_t *)&r->signals[i], NULL);
    uv_close((uv_handle_t *)&r->poll, NULL);
    uv_close((uv_handle_t *)&r->discovery, NULL);
    uv_run(&r->loop, UV_RUN_DEFAULT);
    uv_loop_close(&r->loop);
    serving_free(r->serving);
}

static struct gs_error *run(const void *arg, int argc, char **argv, int *ret_exit)
{
    const struct adapter_flags *f = arg;
    adapter_warn_ignored(f);
    gs_raise_file_limit();
    if (f->v >= 6)
        gs_error_free(gs_log_configure_text("debug", "text"));
    struct run r = {.f = f, .started_ns = gs_mono_ns()};
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
        "--previous-owner passes on what no rule here serves to who served the API group before: "
        "another adapter, KEDA, metrics-server.\n\n"
        "gpuscale check adapter FILE shows what the rules of a file would do; gpuscale explain "
        "metric PATH shows how one request is answered.",
    .examples =
        "gpuscale adapter --config=/etc/adapter/config.yaml "
        "--prometheus-url=http://prometheus:9090 "
        "--secure-port=6443 --cert-dir=/tmp/cert\n"
        "gpuscale adapter --config=values.yaml --secure-port=6443 --lister-kubeconfig=kubeconfig "
        "--authentication-kubeconfig=kubeconfig --authorization-kubeconfig=kubeconfig\n"
        "gpuscale adapter "
        "--previous-owner=external.metrics.k8s.io=keda/keda-operator-metrics-apiserver "
        "--previous-owner-ca-file=/etc/keda/ca.crt --secure-port=6443 --cert-dir=/tmp/cert",
    .opts = adapter_option_rows,
    .opts_size = sizeof(struct adapter_flags),
    .max_args = 0,
    .run = run,
};
