// SPDX-License-Identifier: Apache-2.0
// HTTPS servers behind the API's proxy: one client for each, whose place is reused when it has no
// open request. Certificates are not checked, as kube-apiserver's proxy does not check those of
// pods either.
#include "local/api/proxy.h"

#include "base/mem.h"
#include "kube/status.h"
#include "local/api/aggregate.h"

enum { MAX_SERVERS = 32 };

struct tls_server {
    char *url;
    struct local_api_proxy proxy;
};

struct local_api_tls_servers {
    uv_loop_t *loop;
    struct tls_server items[MAX_SERVERS];
    size_t len;
};

struct local_api_tls_servers *local_api_tls_servers_new(uv_loop_t *loop)
{
    struct local_api_tls_servers *s = gs_alloc(sizeof *s);
    s->loop = loop;
    return s;
}

static void server_finish(struct tls_server *server)
{
    local_api_proxy_finish(&server->proxy);
    free(server->url);
}

void local_api_tls_servers_free(struct local_api_tls_servers *s)
{
    for (size_t i = 0; s && i < s->len; i++)
        server_finish(&s->items[i]);
    free(s);
}

// A free place: a new one, or that of a server without open requests. NULL: all places are in use.
static struct tls_server *find_place(struct local_api_tls_servers *s)
{
    if (s->len < MAX_SERVERS)
        return &s->items[s->len++];
    for (size_t i = 0; i < s->len; i++)
        if (s->items[i].proxy.n == 0) {
            server_finish(&s->items[i]);
            return &s->items[i];
        }
    return NULL;
}

static struct gs_error *open_server(struct local_api_tls_servers *s, const char *url,
                                    struct tls_server **ret)
{
    const struct http_client_config cfg = {
        .base_url = url, .insecure = true, .proxy = "", .user_agent = "gpuscale-proxy"};
    struct http_client *client = NULL;
    struct gs_error *err = http_client_new_curl(s->loop, &cfg, &client);
    struct tls_server *server = err ? NULL : find_place(s);

    if (!err && !server) {
        http_client_free(client);
        err = gs_error_new(GS_ELIMIT, "requests for %d servers are in progress", MAX_SERVERS);
    }
    if (err)
        return err;
    *server = (struct tls_server){.url = gs_strdup(url), .proxy = {.client = client}};
    *ret = server;
    return NULL;
}

void local_api_tls_servers_forward(struct local_api_tls_servers *s, struct http_exchange *x,
                                   const struct local_api_forward *to)
{
    GS_AUTO_FREE char *url =
        gs_format(strchr(to->ip, ':') ? "https://[%s]:%u" : "https://%s:%u", to->ip, to->port);
    struct tls_server *server = NULL;

    for (size_t i = 0; i < s->len && !server; i++)
        if (gs_streq(s->items[i].url, url))
            server = &s->items[i];
    GS_AUTO_ERROR struct gs_error *err = server ? NULL : open_server(s, url, &server);
    if (err)
        kube_reply_failure(x, 503, "ServiceUnavailable", "error trying to reach service: %s",
                           gs_error_message(err));
    else
        local_api_proxy_forward(&server->proxy, x, to);
}
