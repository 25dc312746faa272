// SPDX-License-Identifier: Apache-2.0
// The three connections of the adapter to a cluster (objects, authentication, authorization), each
// with its own kubeconfig, and the discovery of resources every five minutes.
#include "adapter/adapter_private.h"

#include "adapter/provider/rest_mapper.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"

enum { DISCOVERY_MS = 300000 };

static struct gs_error *connect_adapter_cluster(struct adapter *a, const char *path,
                                                const char *flag, struct kube_connection *ret)
{
    const char *given = path && *path ? path : NULL;
    if (!kube_connection_wanted(given))
        return gs_error_new(GS_EINVAL, "--%s is required outside a cluster", flag);
    struct gs_error *err = kube_connection_open(a->loop, given, NULL, "adapter", ret);
    return err ? gs_error_wrap(err, "--%s", flag) : NULL;
}

static void warn_override(void *arg, const struct adapter_config_override *o)
{
    const struct adapter *a = arg;
    GS_AUTO_FREE char *text = provider_override_wrong(o, a->mapper);
    gs_warn("adapter", "%s: %s; it has no effect", o->place, text ? text : "");
}

// Logs wrong overrides of a new configuration, and logs them again when their number changes: CRDs
// come and go.
void adapter_check_overrides(struct adapter *a, const struct adapter_config *c, bool again)
{
    if (!a->rest_mapper_ready || !c)
        return;
    size_t wrong = provider_overrides_check(c, a->mapper, NULL, NULL);
    if (again || wrong != a->wrong_overrides)
        provider_overrides_check(c, a->mapper, warn_override, a);
    a->wrong_overrides = wrong;
}

static void on_discovery_timer(void *arg);

// Each reason once, because a cluster that cannot be reached is queried every two seconds.
static void log_discovery(struct adapter *a, const struct gs_error *err)
{
    const char *text = err ? gs_error_message(err) : NULL;
    if (text && !gs_streq(text, a->discovery_problem))
        gs_warn("adapter", "%s", text);
    if (!err && (a->discovery_problem || !a->rest_mapper_ready))
        gs_info("adapter", "discovered the resources of the cluster");
    free(a->discovery_problem);
    a->discovery_problem = gs_strdup(text);
}

static void on_resources_loaded(void *arg, struct gs_error *err)
{
    struct adapter *a = arg;
    log_discovery(a, err);
    a->rest_mapper_ready = a->rest_mapper_ready || !err;
    gs_error_free(err);
    adapter_check_overrides(a, a->now.config, false);
    if (a->now.registry)
        provider_registry_rebuild(a->now.registry);
    if (a->gpu)
        provider_registry_rebuild(a->gpu);
    if (a->pod_series)
        provider_registry_rebuild(a->pod_series);
    int64_t ms = a->o.discovery_interval_ns / GS_NS_PER_MS;
    uint64_t wait = a->rest_mapper_ready ? (uint64_t)(ms ? ms : DISCOVERY_MS) : 2000;
    gs_timer_start(a->discovery, on_discovery_timer, wait);
}

static void on_discovery_timer(void *arg)
{
    struct adapter *a = arg;
    provider_rest_mapper_load(a->mapper, a->kube, on_resources_loaded, a);
}

static void on_auth_ready(void *arg, struct gs_error *err)
{
    struct adapter *a = arg;
    a->auth_ready = !err;
    if (!err)
        return;
    a->fatal = err;
    if (a->o.on_fatal)
        a->o.on_fatal(a->o.arg);
}

// Splits values with commas into separate entries.
static const char *const *split_values(struct adapter *a, size_t at, const struct gs_opt_list *list,
                                       const char *fallback, size_t *ret_n)
{
    GS_AUTO_BUF struct gs_buf all = {0};
    for (size_t i = 0; i < list->len; i++)
        gs_buf_addf(&all, "%s%s", i ? "," : "", list->items[i]);
    if (!list->len && fallback)
        gs_buf_add_str(&all, fallback);
    char *text = all.data ? gs_buf_take(&all) : gs_strdup("");
    size_t n = 1, used = 0;
    for (const char *p = text; *p; p++)
        n += *p == ',';
    const char **items = gs_alloc_array(n, sizeof(*items));
    for (char *p = text; p;) {
        char *comma = strchr(p, ',');
        if (comma)
            *comma = '\0';
        if (*p)
            items[used++] = p;
        p = comma ? comma + 1 : NULL;
    }
    a->lists[at] = items;
    a->list_texts[at] = text;
    *ret_n = used;
    return items;
}

struct gs_error *adapter_make_auth(struct adapter *a)
{
    const struct adapter_options *o = &a->o;
    struct adapter_api_auth_options auth = {.authn = a->authn.client,
                                            .authz = a->authz.client,
                                            .client_ca_file = o->client_ca_file,
                                            .requestheader_ca_file = o->requestheader_ca_file,
                                            .token_ttl_ms = o->token_ttl_ns / GS_NS_PER_MS,
                                            .allowed_ttl_ms = o->allowed_ttl_ns / GS_NS_PER_MS,
                                            .denied_ttl_ms = o->denied_ttl_ns / GS_NS_PER_MS,
                                            .skip_lookup = o->skip_lookup,
                                            .tolerate_lookup_failure = o->tolerate_lookup_failure,
                                            .off = o->trusted};
    auth.username_headers =
        split_values(a, 0, &o->username_headers, "x-remote-user", &auth.n_username_headers);
    auth.group_headers =
        split_values(a, 1, &o->group_headers, "x-remote-group", &auth.n_group_headers);
    auth.extra_prefixes =
        split_values(a, 2, &o->extra_prefixes, "x-remote-extra-", &auth.n_extra_prefixes);
    auth.allowed_names = split_values(a, 3, &o->allowed_names, NULL, &auth.n_allowed_names);
    auth.always_allow_paths = split_values(a, 4, &o->always_allow_paths, "/healthz,/readyz,/livez",
                                           &auth.n_always_allow_paths);
    return adapter_api_auth_new(a->loop, &auth, on_auth_ready, a, &a->auth);
}

struct gs_error *adapter_connect_clusters(struct adapter *a)
{
    const struct adapter_options *o = &a->o;
    if (o->kube) {
        a->kube = o->kube;
        return NULL;
    }
    const char *flag = o->kubeconfig_flag ? o->kubeconfig_flag : "lister-kubeconfig";
    struct gs_error *err = connect_adapter_cluster(a, o->lister_kubeconfig, flag, &a->lister);
    a->kube = a->lister.client;
    if (!err && !o->trusted)
        err =
            connect_adapter_cluster(a, o->authn_kubeconfig, "authentication-kubeconfig", &a->authn);
    if (!err && !o->trusted)
        err =
            connect_adapter_cluster(a, o->authz_kubeconfig, "authorization-kubeconfig", &a->authz);
    return err;
}

void adapter_watch_resources(struct adapter *a)
{
    provider_rest_mapper_load(a->mapper, a->kube, on_resources_loaded, a);
    gs_timer_start(a->discovery, on_discovery_timer, DISCOVERY_MS);
}

void adapter_free_clusters(struct adapter *a)
{
    kube_connection_close(&a->lister);
    kube_connection_close(&a->authn);
    kube_connection_close(&a->authz);
    for (size_t i = 0; i < GS_ARRAY_LEN(a->lists); i++) {
        free(a->lists[i]);
        free(a->list_texts[i]);
    }
}
