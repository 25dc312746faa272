// SPDX-License-Identifier: Apache-2.0
// The adapter's API with a fake Prometheus and a fake API server, all in this process.
#pragma once

#include "adapter/api/api.h"
#include "adapter/provider/provider.h"
#include "base/mem.h"
#include "kube/status.h"
#include "net/http/client.h"
#include "patience.h"
#include "unit.h"

#define VECTOR(items)                                                                              \
    "{\"status\":\"success\",\"data\":{\"resultType\":\"vector\",\"result\":[" items "]}}"
#define SAMPLE(labels, value) "{\"metric\":{" labels "},\"value\":[1700000000,\"" value "\"]}"

struct api_fixture {
    uv_loop_t loop;
    const char *rules;    // the configuration
    const char *series;   // series of the fake Prometheus, a JSON array
    bool gpu;             // with the rules of GPU metrics
    http_handler queries; // serves /api/v1/query; arg: the fixture
    http_handler cluster; // the Kubernetes API
    const char *user;     // who asks; NULL: "admin"
    int64_t value_age_ms;
    struct adapter_api_options options;
    struct source_probe_options probe; // period_ms 0: there is none
    // Set by start:
    struct http_client *prometheus, *kube_http, *client;
    struct kube_client *kube;
    struct source *source;
    struct provider_rest_mapper *mapper;
    struct adapter_config *config, *gpu_config;
    struct provider_registry *registry, *gpu_registry;
    struct provider *provider;
    struct adapter_api_auth *auth;
    struct adapter_api *api;
    bool down; // the fake Prometheus returns errors
    bool hung; // it accepts requests and never responds
    int n_queries;
    bool posted; // the last query
    struct gs_buf last_query;
    // The last response:
    bool done;
    int status;
    struct gs_buf body, type;
};

static inline void fixture_json(struct http_exchange *x, const char *text)
{
    http_reply(x, 200, "application/json", gs_slice_of(text));
}

static inline void fixture_left(void *arg)
{
    (void)arg; // the client has disconnected: no response is needed
}

static inline void fixture_prometheus(void *arg, struct http_exchange *x)
{
    struct api_fixture *f = arg;
    gs_error_free(http_read_form(x));
    const char *query = http_query(x, "query");
    if (f->hung) {
        http_on_abort(x, fixture_left, f);
        return;
    }
    if (f->down) {
        http_reply_text(x, 502, "gone");
    } else if (query) {
        f->n_queries++;
        gs_buf_clear(&f->last_query);
        gs_buf_add_str(&f->last_query, query);
        f->posted = gs_streq(http_method(x), "POST");
        f->queries(f, x);
    } else {
        GS_AUTO_FREE char *text = gs_format("{\"status\":\"success\",\"data\":%s}", f->series);
        fixture_json(x, text);
    }
}

static inline void fixture_ready(void *arg, struct gs_error *err)
{
    assert_ok(err);
}

static inline struct provider_registry *fixture_registry(struct api_fixture *f,
                                                         const struct adapter_config *c)
{
    const struct provider_registry_options o = {
        .config = c, .source = f->source, .mapper = f->mapper, .relist_ms = 3600000};
    struct provider_registry *r = provider_registry_new(&f->loop, &o);
    while (!provider_registry_rounds(r))
        uv_run(&f->loop, UV_RUN_ONCE);
    return r;
}

// The caller initializes f->loop.
static inline void fixture_start(struct api_fixture *f)
{
    static const char *const groups[] = {"system:masters"};
    const struct http_identity admin = {f->user ? f->user : "admin", groups, 1};
    f->prometheus = http_client_new_loopback(&f->loop, fixture_prometheus, f, NULL);
    f->kube_http = http_client_new_loopback(&f->loop, f->cluster, f, NULL);
    f->kube = kube_client_new(f->kube_http);
    const struct source_options s = {.url = "http://test", .max_age_ms = f->value_age_ms};
    f->source = source_new_client(&f->loop, f->prometheus, "", &s);
    f->mapper = provider_rest_mapper_new();
    assert_ok(adapter_config_parse(gs_slice_of(f->rules), "rules.yaml", &f->config));
    assert_ok(adapter_config_parse(gs_slice_of(provider_gpu_rules()), "(GPU)", &f->gpu_config));
    f->registry = fixture_registry(f, f->config);
    f->gpu_registry = f->gpu ? fixture_registry(f, f->gpu_config) : NULL;
    const struct provider_options p = {.config = f->config,
                                       .source = f->source,
                                       .mapper = f->mapper,
                                       .registry = f->registry,
                                       .gpu = f->gpu_registry,
                                       .list_age_ms = f->value_age_ms,
                                       .kube = f->kube};
    f->provider = provider_new(&p);
    const struct adapter_api_auth_options a = {.skip_lookup = true};
    assert_ok(adapter_api_auth_new(&f->loop, &a, fixture_ready, NULL, &f->auth));
    f->probe.source = f->source;
    if (f->probe.period_ms)
        f->options.probe = source_probe_new(&f->loop, &f->probe);
    f->options.loop = &f->loop;
    f->options.auth = f->auth;
    f->options.kube = f->kube;
    f->api = adapter_api_new(&f->options);
    const struct adapter_api_generation w = {
        .config = f->config,
        .registry = f->registry,
        .gpu = f->gpu_registry,
        .provider = f->provider,
        .source = f->source,
        .mapper = f->mapper,
        .resource = f->config->resource.present ? &f->config->resource : NULL};
    adapter_api_set_generation(f->api, &w);
    f->client = http_client_new_loopback(&f->loop, adapter_api_handle, f->api, &admin);
}

static inline void fixture_stop(struct api_fixture *f)
{
    http_client_free(f->client);
    adapter_api_free(f->api);
    adapter_api_auth_free(f->auth);
    provider_free(f->provider);
    provider_registry_free(f->registry);
    provider_registry_free(f->gpu_registry);
    source_probe_free(f->options.probe);
    source_free(f->source);
    provider_rest_mapper_free(f->mapper);
    adapter_config_free(f->config);
    adapter_config_free(f->gpu_config);
    kube_client_free(f->kube);
    http_client_free(f->kube_http);
    http_client_free(f->prometheus);
    gs_buf_finish(&f->body);
    gs_buf_finish(&f->type);
    gs_buf_finish(&f->last_query);
}

static inline void fixture_close_loop(struct api_fixture *f)
{
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
}

static inline void fixture_done(void *arg, const struct http_response *a, struct gs_error *err)
{
    struct api_fixture *f = arg;
    assert_ok(err);
    f->done = true;
    f->status = a->status;
    gs_buf_clear(&f->body);
    gs_buf_add_slice(&f->body, a->body);
    gs_buf_add_str(&f->body, "");
    gs_buf_clear(&f->type);
    gs_buf_add_str(&f->type, a->content_type ? a->content_type : "");
}

// headers may be NULL. Stores the response in f and returns its status.
static inline int fixture_send(struct api_fixture *f, const char *method, const char *path,
                               const struct http_header *headers)
{
    static const struct http_callbacks callbacks = {.on_done = fixture_done};
    const struct http_request request = {.method = method, .path = path, .headers = headers};
    f->done = false;
    http_send(f->client, &request, &callbacks, f);
    while (!f->done)
        uv_run(&f->loop, UV_RUN_ONCE);
    return f->status;
}

static inline int fixture_get(struct api_fixture *f, const char *path,
                              const struct http_header *headers)
{
    return fixture_send(f, "GET", path, headers);
}

static inline void fixture_has(const struct api_fixture *f, const char *text)
{
    if (!f->body.data || !strstr(f->body.data, text))
        fail_msg("\"%s\" is not in the answer: %s", text, f->body.data ? f->body.data : "");
}
