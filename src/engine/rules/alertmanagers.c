// SPDX-License-Identifier: Apache-2.0
// The current Alertmanagers: static and discovered targets after relabeling, each with an HTTP
// client.
#include "engine/rules/rules_private.h"

#include "base/log.h"
#include "base/mem.h"
#include "engine/config/config.h"

struct am_group {
    char *source;
    size_t n;
    struct metrics_label **targets; // copies; the last label has an empty name
};

struct rules_alertmanager_discovery {
    struct rules_alertmanager_set *set;
    uv_loop_t *loop;
    struct discovery_provider *provider;
    bool reported; // discovery has reported its first groups, or has failed
    struct am_group *groups;
    size_t n, cap;
};

// --- targets ---

static void target_free(struct rules_alertmanager *t)
{
    http_op_cancel(t->op);
    if (t->client)
        http_client_free(t->client);
    gs_buf_finish(&t->body);
    free(t->url);
    free(t->path);
    free(t);
}

// Adds the default port: "host" → "host:80", as in Prometheus.
static char *address_with_port(struct gs_slice address, bool https)
{
    const char *bracket = address.len ? memrchr(address.data, ']', address.len) : NULL;
    const char *colon = address.len ? memrchr(address.data, ':', address.len) : NULL;
    if (colon && (!bracket || colon > bracket))
        return gs_slice_dup(address);
    return gs_format(GS_SLICE_FMT ":%d", GS_SLICE_ARG(address), https ? 443 : 80);
}

static void add_alertmanager(struct rules_alertmanager_set *s, uv_loop_t *loop,
                             const struct engine_config_label_builder *labels)
{
    struct gs_slice scheme = engine_config_labels_get(labels, GS_SLICE("__scheme__"));
    struct gs_slice path = engine_config_labels_get(labels, GS_SLICE("__alerts_path__"));
    GS_AUTO_FREE char *address =
        address_with_port(engine_config_labels_get(labels, GS_SLICE("__address__")),
                          gs_slice_eq_str(scheme, "https"));
    GS_AUTO_FREE char *base = gs_format(GS_SLICE_FMT "://%s", GS_SLICE_ARG(scheme), address);
    GS_AUTO_FREE char *url = gs_format("%s" GS_SLICE_FMT, base, GS_SLICE_ARG(path));
    for (size_t i = 0; i < s->n; i++)
        if (gs_streq(s->targets[i]->url, url)) {
            s->targets[i]->keep = true;
            return;
        }
    struct rules_alertmanager *t = gs_alloc(sizeof(*t));
    const struct endpoint_options options = {.tokens = &s->tokens};
    GS_AUTO_ERROR struct gs_error *err =
        endpoint_client_new(loop, base, &s->cfg->http, &options, &t->client);
    if (err) {
        gs_err("notify", "Alertmanager %s: %s", url, gs_error_message(err));
        free(t);
        return;
    }
    t->set = s;
    t->notifier = s->notifier;
    t->url = GS_TAKE(url);
    t->path = gs_slice_dup(path);
    t->keep = true;
    gs_grow(&s->targets, &s->cap, s->n, sizeof(struct rules_alertmanager *));
    s->targets[s->n++] = t;
}

static char *alerts_path(const struct rules_alertmanager_set *s)
{
    const char *prefix = s->cfg->path_prefix ? s->cfg->path_prefix : "";
    size_t len = strlen(prefix);
    while (len && prefix[len - 1] == '/')
        len--;
    while (len && *prefix == '/') {
        prefix++;
        len--;
    }
    return gs_format("%s%.*s/api/v2/alerts", len ? "/" : "", (int)len, prefix);
}

static void add_relabelled(struct rules_alertmanager_set *s, uv_loop_t *loop,
                           struct engine_config_label_builder *b)
{
    GS_AUTO_FREE char *path = alerts_path(s);
    const char *scheme = s->cfg->scheme ? s->cfg->scheme : "http";
    engine_config_labels_set(b, GS_SLICE("__scheme__"), gs_slice_of(scheme));
    engine_config_labels_set(b, GS_SLICE("__alerts_path__"), gs_slice_of(path));
    struct gs_slice address = engine_config_labels_get(b, GS_SLICE("__address__"));
    GS_AUTO_FREE char *before =
        gs_format("%s://" GS_SLICE_FMT "%s", scheme, GS_SLICE_ARG(address), path);
    if (engine_config_relabel(&s->cfg->relabel, b) &&
        engine_config_labels_get(b, GS_SLICE("__address__")).len) {
        add_alertmanager(s, loop, b);
        return;
    }
    gs_grow(&s->dropped, &s->cap_dropped, s->n_dropped, sizeof(char *));
    s->dropped[s->n_dropped++] = GS_TAKE(before);
}

static void add_statics(struct rules_alertmanager_set *s, uv_loop_t *loop)
{
    for (size_t g = 0; g < s->cfg->sd.n_statics; g++) {
        const struct engine_config_static_group *group = &s->cfg->sd.statics[g];
        for (size_t i = 0; i < group->n_targets; i++) {
            struct engine_config_label_builder b = {0};
            for (size_t l = 0; l < group->n_labels; l++)
                engine_config_labels_set(&b, group->labels[l].name, group->labels[l].value);
            engine_config_labels_set(&b, GS_SLICE("__address__"), gs_slice_of(group->targets[i]));
            add_relabelled(s, loop, &b);
            engine_config_labels_finish(&b);
        }
    }
}

static void add_alertmanager_group(struct rules_alertmanager_set *s, uv_loop_t *loop,
                                   const struct am_group *g)
{
    for (size_t i = 0; i < g->n; i++) {
        struct engine_config_label_builder b = {0};
        for (const struct metrics_label *l = g->targets[i]; l->name.data; l++)
            engine_config_labels_set(&b, l->name, l->value);
        add_relabelled(s, loop, &b);
        engine_config_labels_finish(&b);
    }
}

// Updates the list of targets. Targets in both lists keep their connection and counters.
static void rebuild(struct rules_alertmanager_set *s, uv_loop_t *loop)
{
    for (size_t i = 0; i < s->n_dropped; i++)
        free(s->dropped[i]);
    s->n_dropped = 0;
    for (size_t i = 0; i < s->n; i++)
        s->targets[i]->keep = false;
    add_statics(s, loop);
    for (size_t f = 0; f < s->n_discoveries; f++)
        for (size_t g = 0; g < s->discoveries[f].n; g++)
            add_alertmanager_group(s, loop, &s->discoveries[f].groups[g]);
    size_t kept = 0;
    for (size_t i = 0; i < s->n; i++) {
        // A target with a request in progress is removed later.
        if (s->targets[i]->keep || s->targets[i]->op)
            s->targets[kept++] = s->targets[i];
        else
            target_free(s->targets[i]);
    }
    s->n = kept;
}

// --- discovery ---

static void group_clear(struct am_group *g)
{
    for (size_t i = 0; i < g->n; i++)
        free(g->targets[i]);
    free(g->targets);
    g->targets = NULL;
    g->n = 0;
}

// The labels of a target and its group in one allocation. The target's labels have precedence. The
// last label has an empty name.
static struct metrics_label *copy_target(const struct discovery_group *from, size_t target)
{
    size_t n = from->n_labels + from->n_target_labels[target], bytes = 0;
    for (size_t i = 0; i < n; i++) {
        const struct metrics_label *l =
            i < from->n_labels ? &from->labels[i] : &from->targets[target][i - from->n_labels];
        bytes += l->name.len + l->value.len + 2;
    }
    struct metrics_label *out = gs_alloc((n + 1) * sizeof(*out) + bytes);
    char *p = (char *)&out[n + 1];
    for (size_t i = 0; i < n; i++) {
        const struct metrics_label *l =
            i < from->n_labels ? &from->labels[i] : &from->targets[target][i - from->n_labels];
        memcpy(p, l->name.data, l->name.len);
        out[i].name = gs_slice_make(p, l->name.len);
        p += l->name.len + 1;
        if (l->value.len)
            memcpy(p, l->value.data, l->value.len);
        out[i].value = gs_slice_make(p, l->value.len);
        p += l->value.len + 1;
    }
    return out;
}

static struct am_group *group_of(struct rules_alertmanager_discovery *f, const char *source)
{
    for (size_t i = 0; i < f->n; i++)
        if (gs_streq(f->groups[i].source, source))
            return &f->groups[i];
    gs_grow(&f->groups, &f->cap, f->n, sizeof(*f->groups));
    f->groups[f->n] = (struct am_group){.source = gs_strdup(source)};
    return &f->groups[f->n++];
}

static void on_alertmanager_groups(void *arg, const struct discovery_group *groups, size_t n)
{
    struct rules_alertmanager_discovery *f = arg;
    for (size_t i = 0; i < n; i++) {
        struct am_group *g = group_of(f, groups[i].source);
        group_clear(g);
        g->targets = gs_alloc_array(groups[i].n_targets + 1, sizeof(struct metrics_label *));
        for (; g->n < groups[i].n_targets; g->n++)
            g->targets[g->n] = copy_target(&groups[i], g->n);
    }
    f->reported = true;
    rebuild(f->set, f->loop);
    rules_notifier_flush(f->set->notifier); // alerts that waited for discovery
}

static void start_discovery(struct rules_alertmanager_set *s, const struct discovery_context *ctx,
                            struct discovery_source source)
{
    struct rules_alertmanager_discovery *d = &s->discoveries[s->n_discoveries++];
    *d = (struct rules_alertmanager_discovery){.set = s, .loop = ctx->loop};
    GS_AUTO_ERROR struct gs_error *err =
        discovery_provider_new(ctx, source, on_alertmanager_groups, d, &d->provider);
    d->reported = err != NULL; // discovery failed: do not wait for it
    if (err)
        gs_err("notify", "Alertmanagers: %s", gs_error_message(err));
}

struct rules_alertmanager_set *
rules_alertmanager_set_new(struct rules_notifier *n, const struct discovery_context *ctx,
                           const struct engine_config_alertmanager_config *cfg)
{
    struct rules_alertmanager_set *s = gs_alloc(sizeof(*s));
    size_t n_sources = discovery_source_count(&cfg->sd);
    s->notifier = n;
    s->cfg = cfg;
    rebuild(s, ctx->loop);
    s->discoveries = gs_alloc_array(n_sources + 1, sizeof(*s->discoveries));
    for (size_t i = 0; i < n_sources; i++)
        start_discovery(s, ctx, discovery_source_at(&cfg->sd, i));
    return s;
}

bool rules_alertmanager_set_pending(const struct rules_alertmanager_set *s)
{
    for (size_t i = 0; i < s->n_discoveries; i++)
        if (!s->discoveries[i].reported)
            return true;
    return false;
}

static void discovery_finish(struct rules_alertmanager_discovery *d)
{
    discovery_provider_free(d->provider);
    for (size_t g = 0; g < d->n; g++) {
        group_clear(&d->groups[g]);
        free(d->groups[g].source);
    }
    free(d->groups);
}

void rules_alertmanager_set_free(struct rules_alertmanager_set *s)
{
    for (size_t i = 0; i < s->n_discoveries; i++)
        discovery_finish(&s->discoveries[i]);
    free(s->discoveries);
    for (size_t i = 0; i < s->n; i++)
        target_free(s->targets[i]);
    for (size_t i = 0; i < s->n_dropped; i++)
        free(s->dropped[i]);
    endpoint_tokens_unref(s->tokens);
    free(s->targets);
    free(s->dropped);
    free(s);
}
