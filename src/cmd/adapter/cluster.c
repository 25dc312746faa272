// SPDX-License-Identifier: Apache-2.0
#include "adapter/provider/overrides.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/adapter/run.h"
#include "kube/kubeconfig.h"

enum { DISCOVERY_MS = 300000 };

static struct gs_error *connect_cluster(struct run *r, const char *path, const char *flag,
                                        struct cluster *ret)
{
    GS_CLEANUP(kube_config_finish) struct kube_config k = {0};
    bool given = path && *path;
    if (!given && !getenv("KUBERNETES_SERVICE_HOST"))
        return gs_error_new(GS_EINVAL, "outside of a cluster --%s is needed", flag);
    struct gs_error *err = kube_config_load(given ? path : NULL, NULL, &k);
    if (!err)
        err = kube_config_connect(&k, &r->loop, "gpuscale-adapter/" GPUSCALE_VERSION, &ret->http);
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

static void warn_override(void *arg, const struct adapter_config_override *o)
{
    const struct run *r = arg;
    GS_AUTO_FREE char *text = provider_override_wrong(o, r->mapper);
    gs_warn("adapter", "%s: %s; it has no effect", o->place, text ? text : "");
}

// Logged for a new configuration, and when the number changes: resources come and go.
void run_check_overrides(struct run *r, const struct adapter_config *c, bool again)
{
    if (!r->mapper_ready || !c)
        return;
    size_t wrong = provider_overrides_check(c, r->mapper, NULL, NULL);
    if (again || wrong != r->wrong_overrides)
        provider_overrides_check(c, r->mapper, warn_override, r);
    r->wrong_overrides = wrong;
}

static void on_mapper(void *arg, struct gs_error *err)
{
    struct run *r = arg;
    if (err)
        gs_warn("adapter", "%s", gs_error_message(err));
    bool first = !err && !r->mapper_ready;
    r->mapper_ready = r->mapper_ready || !err;
    gs_error_free(err);
    run_check_overrides(r, r->now.config, false);
    if (r->now.registry)
        provider_registry_rebuild(r->now.registry);
    if (r->gpu)
        provider_registry_rebuild(r->gpu);
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
    provider_mapper_load(r->mapper, r->lister.kube, on_mapper, r);
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

struct gs_error *run_make_auth(struct run *r)
{
    const struct adapter_flags *f = r->f;
    struct adapter_api_auth_options o = {.authn = r->authn.kube,
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
    return adapter_api_auth_new(&r->loop, &o, on_auth_ready, r, &r->auth);
}

struct gs_error *run_connect_clusters(struct run *r)
{
    const struct adapter_flags *f = r->f;
    struct gs_error *err =
        connect_cluster(r, f->lister_kubeconfig, "lister-kubeconfig", &r->lister);
    if (!err)
        err = connect_cluster(r, f->authn_kubeconfig, "authentication-kubeconfig", &r->authn);
    if (!err)
        err = connect_cluster(r, f->authz_kubeconfig, "authorization-kubeconfig", &r->authz);
    return err;
}

void run_watch_resources(struct run *r)
{
    provider_mapper_load(r->mapper, r->lister.kube, on_mapper, r);
    uv_timer_start(&r->discovery, on_discovery, DISCOVERY_MS, DISCOVERY_MS);
}

void run_free_clusters(struct run *r)
{
    cluster_finish(&r->lister);
    cluster_finish(&r->authn);
    cluster_finish(&r->authz);
    for (size_t i = 0; i < GS_ARRAY_LEN(r->lists); i++) {
        free(r->lists[i]);
        free(r->memory[i]);
    }
}
