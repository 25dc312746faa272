// SPDX-License-Identifier: Apache-2.0
#include "adapter/extra_sources.h"

#include "adapter/engine_source.h"
#include "base/mem.h"

static const char *either(const char *a, const char *b)
{
    return a && *a ? a : b;
}

// The settings that scrape configs have, as far as they say how a server is reached.
static void take_http(const struct engine_config_http *h, struct source_peer_options *o)
{
    o->ca_file = either(h->ca_file, h->ca.file);
    o->cert_file = either(h->cert_file, h->cert.file);
    o->key_file = either(h->key_file, h->key.file);
    o->ca_pem = h->ca.text;
    o->cert_pem = h->cert.text;
    o->key_pem = h->key.text;
    o->server_name = h->server_name;
    o->insecure = h->insecure_skip_verify;
    o->auth_type = h->auth_type;
    o->token = h->auth_credentials.text;
    o->token_file = h->auth_credentials.file;
    o->user = h->basic_user;
    o->user_file = h->basic_user_file;
    o->password = h->basic_password.text;
    o->password_file = h->basic_password.file;
    o->proxy = h->proxy_from_environment ? NULL : h->proxy_url ? h->proxy_url : "";
    o->no_proxy = h->no_proxy;
}

static struct gs_error *make(uv_loop_t *loop, const struct adapter_config_source *s,
                             struct engine *engine, int64_t max_age_ms, struct source **ret)
{
    struct source_options o = {
        .post = s->post, .timeout_ms = s->timeout_ms, .max_age_ms = max_age_ms};
    if (s->engine && !engine)
        return gs_error_new(GS_EINVAL, "there is no engine in this process");
    if (s->engine) {
        *ret = adapter_source_new_engine(loop, engine, s->timeout_ms, max_age_ms);
        return NULL;
    }
    take_http(&s->http, &o.peer);
    o.peer.url = s->url;
    o.peer.headers = s->headers;
    o.peer.n_headers = s->n_headers;
    return source_new_remote(loop, &o, ret);
}

struct gs_error *extra_sources_new(uv_loop_t *loop, const struct adapter_config *c,
                                   struct engine *engine, int64_t max_age_ms, struct source ***ret)
{
    if (!c->n_sources)
        return NULL;
    struct source **list = gs_alloc_array(c->n_sources, sizeof(struct source *));
    for (size_t i = 0; i < c->n_sources; i++) {
        const struct adapter_config_source *s = &c->sources[i];
        struct gs_error *err = make(loop, s, engine, max_age_ms, &list[i]);
        if (err) {
            extra_sources_free(list, i);
            return gs_error_wrap(err, "%s: source %s", s->place, s->name);
        }
    }
    *ret = list;
    return NULL;
}

void extra_sources_free(struct source **others, size_t n)
{
    for (size_t i = 0; others && i < n; i++)
        source_free(others[i]);
    free(others);
}

bool extra_sources_need_engine(const struct adapter_config *c)
{
    for (size_t i = 0; i < c->n_sources; i++)
        if (c->sources[i].engine)
            return true;
    return false;
}
