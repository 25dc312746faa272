// SPDX-License-Identifier: Apache-2.0
// The adapter as one object: sources, rules, API, and readiness. `up` has it in its process with a
// client of its own API server; `gpuscale adapter` connects it to a cluster. All on one loop.
#include "adapter/adapter_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"
#include "base/trim.h"

enum {
    POLL_MS = 5000,
    FIRST_SCRAPES_S = 15, // maximum wait: a cluster may have no targets
};

// --- readiness and metrics ---

// With its own engine, a replica that has just started would answer 404 until the first scrapes:
// those of all targets, because each node has its own pods.
static bool waits_for_scrapes(struct adapter *a)
{
    struct provider_registry *r = a->gpu ? a->gpu : a->now.registry;
    bool found =
        provider_registry_found(a->now.registry) || (a->gpu && provider_registry_found(a->gpu));
    if (!a->own_engine || gs_mono_ns() - a->started_ns >= FIRST_SCRAPES_S * GS_NS_PER_SEC)
        return false;
    if (!found || !scrape_manager_settled(engine_scrapes(a->own_engine)))
        return true;
    if (!a->first_round) {
        a->first_round = provider_registry_rounds(r) + 1;
        provider_registry_relist(r);
    }
    return provider_registry_rounds(r) < a->first_round;
}

const char *adapter_not_ready(struct adapter *a)
{
    const char *own = a->o.not_ready ? a->o.not_ready(a->o.arg) : NULL;
    if (!a->auth_ready)
        return "the configuration of the front proxy is not read yet";
    if (!a->rest_mapper_ready)
        return "the resources of the cluster are not read yet";
    if (!provider_registry_rounds(a->now.registry))
        return "the series of the rules are not listed yet";
    if (own)
        return own;
    if (waits_for_scrapes(a))
        return "the engine has not scraped all targets yet";
    return NULL;
}

static const char *api_not_ready(void *arg)
{
    return adapter_not_ready(arg);
}

static void write_metrics(void *arg, struct gs_buf *out)
{
    const struct adapter *a = arg;
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
                "gpuscale_adapter_config_unknown_resources %zu\n",
                (unsigned long long)a->reloads, (unsigned long long)a->reload_failures,
                (double)a->loaded_ms / 1000, a->wrong_overrides);
    adapter_write_pod_series_metrics(a, out);
    if (a->o.write_metrics)
        a->o.write_metrics(a->o.arg, out);
}

static void add_status(void *arg, json_t *out)
{
    const struct adapter *a = arg;
    json_t *config = json_object();
    if (a->map_name)
        json_object_set_new(config, "from", codec_json_strf("ConfigMap %s", a->map_name));
    else
        codec_json_set_str(config, "from", a->o.config);
    json_object_set_new(config, "loaded", json_real((double)a->loaded_ms / 1000));
    codec_json_set_int(config, "reloads", (int64_t)a->reloads);
    codec_json_set_int(config, "reloadFailures", (int64_t)a->reload_failures);
    codec_json_set_str(config, "error", a->reload_error);
    codec_json_set_int(config, "unknownResources", (int64_t)a->wrong_overrides);
    json_object_set_new(out, "configuration", config);
    if (a->o.add_status)
        a->o.add_status(a->o.arg, out);
}

static void on_poll_timer(void *arg)
{
    struct adapter *a = arg;
    adapter_free_retired(a, ADAPTER_API_LONGEST_MS * GS_NS_PER_MS);
    adapter_adopt_next(a);
    adapter_reload_changed(a);
    adapter_api_forget_old(a->api);
    gs_trim_heap();
}

// --- setup ---

static bool given(const char *s)
{
    return s && *s;
}

static struct gs_error *make_audit(struct adapter *a)
{
    enum { MEGABYTE = 1024 * 1024, DAY_MS = 86400000 };
    const struct adapter_options *o = &a->o;
    const char *mode = given(o->audit_mode) ? o->audit_mode : "blocking";
    bool file = given(o->audit_path), policy = given(o->audit_policy);
    bool batch = gs_streq(mode, "batch");
    if (!batch && !gs_streq(mode, "blocking") && !gs_streq(mode, "blocking-strict"))
        return gs_error_new(
            GS_EINVAL, "--audit-log-mode \"%s\": want batch, blocking or blocking-strict", mode);
    if ((given(o->audit_format) && !gs_streq(o->audit_format, "json")) ||
        (given(o->audit_version) && !gs_streq(o->audit_version, "audit.k8s.io/v1")))
        return gs_error_new(GS_EINVAL, "--audit-log-format and --audit-log-version: only json and "
                                       "audit.k8s.io/v1 are supported");
    if (file != policy)
        gs_warn("adapter",
                "audit logging is off: set both --audit-log-path and --audit-policy-file");
    if (!file || !policy)
        return NULL;
    const struct adapter_api_audit_options audit = {
        .loop = a->loop,
        .policy_file = o->audit_policy,
        .log = {.path = o->audit_path,
                .max_bytes = (uint64_t)o->audit_max_size * MEGABYTE,
                .max_age_ms = o->audit_max_age * DAY_MS,
                .max_old = (uint64_t)o->audit_max_backup},
        .batch = batch};
    return adapter_api_audit_new(&audit, &a->audit);
}

static void on_scraped(void *arg)
{
    struct adapter *a = arg;
    adapter_api_new_samples(a->api);
}

static void make_api(struct adapter *a)
{
    const struct source_probe_options probe = {.source = a->source};
    a->probe = source_probe_new(a->loop, &probe);
    const struct adapter_api_options api = {.loop = a->loop,
                                            .auth = a->auth,
                                            .audit = a->audit,
                                            .delegate_custom = a->delegate_custom,
                                            .delegate_external = a->delegate_external,
                                            .delegate_resource = a->delegate_resource,
                                            .kube = a->kube,
                                            .probe = a->probe,
                                            .not_ready = api_not_ready,
                                            .more_metrics = write_metrics,
                                            .more_status = add_status,
                                            .follows = a->source_is_engine,
                                            .mounted = a->o.trusted,
                                            .arg = a};
    a->api = adapter_api_new(&api);
    if (a->source_is_engine)
        scrape_manager_on_scrape(engine_scrapes(a->engine), on_scraped, a);
}

static struct gs_error *parse_resource_rules(struct adapter *a)
{
    if (!given(a->o.resource_rules))
        return NULL;
    return adapter_config_parse(gs_slice_of(a->o.resource_rules), "(resource metrics)",
                                &a->resource_config);
}

static struct gs_error *make_rules(struct adapter *a)
{
    struct adapter_config *c = NULL;
    struct gs_error *err = parse_resource_rules(a);
    if (!err)
        err = adapter_load_config(a, &c);
    a->loaded_ms = gs_unix_ms();
    a->mapper = provider_rest_mapper_new();
    if (!err)
        err = adapter_connect_clusters(a);
    if (!err)
        err = adapter_make_source(a, c);
    if (!err)
        source_set_aliases(a->source, a->o.dcgm_aliases);
    if (!err)
        err = adapter_make_builtin_rules(a);
    if (!err)
        err = adapter_make_generation(a, c, &a->now);
    if (err && !a->now.config)
        adapter_config_free(c);
    return err;
}

static struct gs_error *open_adapter(struct adapter *a)
{
    struct gs_error *err = make_rules(a);
    if (!err)
        err = adapter_make_auth(a);
    if (!err)
        err = make_audit(a);
    if (!err)
        err = adapter_make_delegates(a);
    if (err)
        return err;
    make_api(a);
    adapter_show_generation(a);
    adapter_watch_resources(a);
    adapter_watch_config_maps(a);
    gs_timer_repeat(a->poll, on_poll_timer, POLL_MS, POLL_MS);
    return NULL;
}

struct gs_error *adapter_new(uv_loop_t *loop, const struct adapter_options *o, struct adapter **ret)
{
    struct adapter *a = gs_alloc(sizeof(*a));
    a->loop = loop;
    a->o = *o;
    a->engine = o->engine;
    a->started_ns = gs_mono_ns();
    a->poll = gs_timer_new(loop, a);
    a->discovery = gs_timer_new(loop, a);
    struct gs_error *err = open_adapter(a);
    if (err)
        adapter_free(a);
    else
        *ret = a;
    return err;
}

void adapter_free(struct adapter *a)
{
    if (!a)
        return;
    gs_timer_free(a->poll);
    gs_timer_free(a->discovery);
    adapter_free_config_maps(a);
    if (a->api && a->source_is_engine)
        scrape_manager_on_scrape(engine_scrapes(a->engine), NULL, NULL);
    adapter_api_free(a->api);
    adapter_api_audit_free(a->audit);
    adapter_free_delegates(a);
    adapter_api_auth_free(a->auth);
    adapter_free_generations(a);
    adapter_free_sources(a);
    adapter_free_clusters(a);
    gs_error_free(a->fatal);
    free(a->discovery_problem);
    free(a->reload_error);
    free(a);
}

// --- use ---

void adapter_handle(void *adapter, struct http_exchange *x)
{
    struct adapter *a = adapter;
    adapter_api_handle(a->api, x);
}

json_t *adapter_describe_group(const struct adapter *a, const char *group)
{
    return adapter_api_describe_group(a->api, group);
}

struct kube_client *adapter_kube(struct adapter *a)
{
    return a->kube;
}

struct gs_error *adapter_fatal(struct adapter *a)
{
    return GS_TAKE(a->fatal);
}

void adapter_stop(struct adapter *a)
{
    adapter_api_stopping(a->api);
}
