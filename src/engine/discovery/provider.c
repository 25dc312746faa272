// SPDX-License-Identifier: Apache-2.0
// One discovery of any mechanism behind the same functions. The ID of a source is its
// configuration as text: a reload keeps the providers, and their targets, whose IDs stay.
#include "engine/discovery/discovery.h"

#include "base/mem.h"

struct discovery_provider {
    enum discovery_kind kind;
    union {
        struct discovery_files *files;
        struct discovery_kubernetes *kubernetes;
        struct discovery_http *http;
        struct discovery_dns *dns;
    };
};

// --- sources ---

size_t discovery_source_count(const struct engine_config_sd_configs *c)
{
    return c->n_files + c->n_kubernetes + c->n_http + c->n_dns;
}

struct discovery_source discovery_source_at(const struct engine_config_sd_configs *c, size_t i)
{
    if (i < c->n_files)
        return (struct discovery_source){DISCOVERY_KIND_FILE, &c->files[i]};
    i -= c->n_files;
    if (i < c->n_kubernetes)
        return (struct discovery_source){DISCOVERY_KIND_KUBERNETES, &c->kubernetes[i]};
    i -= c->n_kubernetes;
    if (i < c->n_http)
        return (struct discovery_source){DISCOVERY_KIND_HTTP, &c->http[i]};
    return (struct discovery_source){DISCOVERY_KIND_DNS, &c->dns[i - c->n_http]};
}

static void add_id_text(struct gs_buf *id, const char *text)
{
    gs_buf_addf(id, "\n%s", text ? text : "");
}

static void id_of_files(const struct engine_config_file_sd *f, struct gs_buf *id)
{
    gs_buf_add_str(id, "files");
    for (size_t i = 0; i < f->n_files; i++)
        add_id_text(id, f->files[i]);
}

static void id_of_kubernetes(const struct engine_config_kubernetes_sd *k, struct gs_buf *id)
{
    gs_buf_addf(id, "kubernetes %d %d %d%d%d%d%d", (int)k->role, k->own_namespace, k->attach.node,
                k->attach.namespace_, k->attach.deployment, k->attach.job, k->attach.cronjob);
    add_id_text(id, k->api_server);
    add_id_text(id, k->kubeconfig_file);
    for (size_t i = 0; i < ENGINE_CONFIG_SD_N_ROLES; i++) {
        add_id_text(id, k->selectors[i].label);
        add_id_text(id, k->selectors[i].field);
    }
    for (size_t i = 0; i < k->n_namespaces; i++)
        add_id_text(id, k->namespaces[i]);
}

static void id_of_dns(const struct engine_config_dns_sd *d, struct gs_buf *id)
{
    gs_buf_addf(id, "dns %d %zu", d->type, d->port);
    for (size_t i = 0; i < d->n_names; i++)
        add_id_text(id, d->names[i]);
}

char *discovery_source_id(struct discovery_source s)
{
    struct gs_buf id = {0};
    switch (s.kind) {
    case DISCOVERY_KIND_FILE:
        id_of_files(s.cfg, &id);
        break;
    case DISCOVERY_KIND_KUBERNETES:
        id_of_kubernetes(s.cfg, &id);
        break;
    case DISCOVERY_KIND_HTTP:
        gs_buf_add_str(&id, "http");
        add_id_text(&id, ((const struct engine_config_http_sd *)s.cfg)->url);
        break;
    case DISCOVERY_KIND_DNS:
        id_of_dns(s.cfg, &id);
        break;
    }
    return gs_buf_take(&id);
}

// --- providers ---

struct gs_error *discovery_provider_new(const struct discovery_context *ctx,
                                        struct discovery_source s, discovery_update_fn fn,
                                        void *arg, struct discovery_provider **ret)
{
    struct discovery_provider *p = gs_alloc(sizeof(*p));
    struct gs_error *err = NULL;
    p->kind = s.kind;
    switch (s.kind) {
    case DISCOVERY_KIND_FILE:
        p->files = discovery_files_new(ctx->loop, s.cfg, fn, arg);
        break;
    case DISCOVERY_KIND_KUBERNETES:
        err = discovery_kubernetes_new(ctx->informers, s.cfg, fn, arg, &p->kubernetes);
        break;
    case DISCOVERY_KIND_HTTP:
        p->http = discovery_http_new(
            ctx->loop, s.cfg, discovery_stats_open(ctx->stats, "http", ctx->config), fn, arg);
        break;
    case DISCOVERY_KIND_DNS:
        p->dns = discovery_dns_new(ctx->loop, s.cfg, ctx->dns, ctx->stats,
                                   discovery_stats_open(ctx->stats, "dns", ctx->config), fn, arg);
        break;
    }
    if (err)
        free(p);
    else
        *ret = p;
    return err;
}

void discovery_provider_reconfigure(struct discovery_provider *p, struct discovery_source s)
{
    if (p->kind == DISCOVERY_KIND_HTTP)
        discovery_http_reconfigure(p->http, s.cfg);
    else if (p->kind == DISCOVERY_KIND_DNS)
        discovery_dns_reconfigure(p->dns, s.cfg);
}

void discovery_provider_free(struct discovery_provider *p)
{
    if (!p)
        return;
    switch (p->kind) {
    case DISCOVERY_KIND_FILE:
        discovery_files_free(p->files);
        break;
    case DISCOVERY_KIND_KUBERNETES:
        discovery_kubernetes_free(p->kubernetes);
        break;
    case DISCOVERY_KIND_HTTP:
        discovery_http_free(p->http);
        break;
    case DISCOVERY_KIND_DNS:
        discovery_dns_free(p->dns);
        break;
    }
    free(p);
}
