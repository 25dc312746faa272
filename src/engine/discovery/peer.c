// SPDX-License-Identifier: Apache-2.0
#include "engine/discovery/peer.h"

#include "base/file.h"
#include "base/mem.h"
#include "codec/base64.h"
#include "net/http/oauth2.h"
#include "net/tls/tls.h"

// One for each target of a job: a connection a scrape would cost more than the scrape.
#define IDLE_CONNECTIONS 16384
#define MAX_SECRET       ((size_t)1024 * 1024)

static struct gs_error *read_secret(const struct engine_config_secret_file_or_text *s,
                                    struct gs_buf *ret)
{
    if (s->file)
        return gs_file_read(s->file, MAX_SECRET, ret);
    if (s->text)
        gs_buf_add_str(ret, s->text);
    return NULL;
}

static struct gs_error *read_pem(const char *file,
                                 const struct engine_config_secret_file_or_text *s, char **ret)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    struct gs_error *err = file ? gs_file_read(file, MAX_SECRET, &text) : read_secret(s, &text);
    if (!err && text.len)
        *ret = gs_buf_take(&text);
    return err;
}

// Named by their files, where they are in files.
static struct gs_error *check_pems(const struct engine_config_http *http, const char *ca,
                                   const char *cert, const char *key)
{
    struct gs_error *err = ca ? tls_check_certificates(ca) : NULL;
    if (err)
        return gs_error_wrap(err, "%s", http->ca_file ? http->ca_file : "tls_config.ca");
    err = cert && key ? tls_check_pair(cert, key) : NULL;
    return err ? gs_error_wrap(err, "%s", http->cert_file ? http->cert_file : "tls_config.cert")
               : NULL;
}

static struct gs_error *plain_client(uv_loop_t *loop, const char *base,
                                     const struct engine_config_http *http,
                                     struct http_client **ret)
{
    GS_AUTO_FREE char *ca = NULL, *cert = NULL, *key = NULL;
    struct gs_error *err = read_pem(http->ca_file, &http->ca, &ca);
    if (!err)
        err = read_pem(http->cert_file, &http->cert, &cert);
    if (!err)
        err = read_pem(http->key_file, &http->key, &key);
    if (!err)
        err = check_pems(http, ca, cert, key);
    if (err)
        return err;
    // Prometheus leaves the environment's proxy alone unless it is told otherwise.
    const char *proxy = http->proxy_url                ? http->proxy_url
                        : http->proxy_from_environment ? NULL
                                                       : "";
    GS_AUTO_FREE struct http_header *proxy_headers =
        gs_alloc_array(http->n_proxy_headers + 1, sizeof(*proxy_headers));
    for (size_t i = 0; i < http->n_proxy_headers; i++)
        proxy_headers[i] = (struct http_header){http->proxy_headers[i].name.data,
                                                http->proxy_headers[i].value.data};
    struct http_client_config cfg = {.base_url = base,
                                     .ca_pem = ca,
                                     .cert_pem = cert,
                                     .key_pem = key,
                                     .insecure = http->insecure_skip_verify,
                                     .tls_min = http->tls_min,
                                     .tls_max = http->tls_max,
                                     .server_name = http->server_name,
                                     .proxy = proxy,
                                     .no_proxy = http->no_proxy,
                                     .proxy_headers = proxy_headers,
                                     .follow_redirects = http->follow_redirects,
                                     .idle_connections = IDLE_CONNECTIONS,
                                     .user_agent = "gpuscale/" GPUSCALE_VERSION};
    return http_client_new_direct(loop, &cfg, ret);
}

static struct gs_error *make_tokens(uv_loop_t *loop, const struct engine_config_oauth2 *o,
                                    struct http_tokens **ret)
{
    struct http_client *client = NULL;
    GS_AUTO_FREE struct http_header *params = gs_alloc_array(o->n_params + 1, sizeof(*params));
    struct gs_error *err = plain_client(loop, "", &o->http, &client);
    if (err)
        return gs_error_wrap(err, "oauth2");
    for (size_t i = 0; i < o->n_params; i++)
        params[i] = (struct http_header){o->params[i].name.data, o->params[i].value.data};
    const struct http_oauth2_config cfg = {.token_url = o->token_url,
                                           .client_id = o->client_id,
                                           .secret = o->client_secret.text,
                                           .secret_file = o->client_secret.file,
                                           .scopes = o->scopes,
                                           .n_scopes = o->n_scopes,
                                           .params = params,
                                           .n_params = o->n_params};
    *ret = http_tokens_new(loop, &cfg, client);
    return NULL;
}

struct gs_error *discovery_peer_client(uv_loop_t *loop, const char *base,
                                       const struct engine_config_http *http,
                                       struct http_tokens **tokens, struct http_client **ret)
{
    struct http_tokens *own = NULL, **shared = tokens ? tokens : &own;
    struct http_client *client = NULL;
    struct gs_error *err = NULL;
    if (http->oauth2 && !*shared)
        err = make_tokens(loop, http->oauth2, shared);
    if (!err)
        err = plain_client(loop, base, http, &client);
    if (!err)
        *ret = http->oauth2 ? http_client_new_oauth2(client, *shared) : client;
    http_tokens_unref(own);
    return err;
}

static struct gs_error *basic_header(const struct engine_config_http *http, struct gs_arena *mem,
                                     struct http_header *ret)
{
    GS_AUTO_BUF struct gs_buf plain = {0}, user = {0}, password = {0}, text = {0};
    const struct engine_config_secret_file_or_text name = {http->basic_user, http->basic_user_file};
    struct gs_error *err = read_secret(&name, &user);
    if (!err)
        err = read_secret(&http->basic_password, &password);
    if (err)
        return err;
    struct gs_slice secret = gs_slice_trim(gs_buf_slice(&password));
    gs_buf_add_slice(&plain, gs_slice_trim(gs_buf_slice(&user)));
    gs_buf_add_char(&plain, ':');
    gs_buf_add_slice(&plain, secret);
    gs_buf_add_str(&text, "Basic ");
    codec_base64_encode(gs_buf_slice(&plain), &text);
    *ret = (struct http_header){"Authorization", gs_arena_strndup(mem, text.data, text.len)};
    return NULL;
}

static struct gs_error *authorization(const struct engine_config_http *http, struct gs_arena *mem,
                                      struct http_header *ret)
{
    if (http->basic_user || http->basic_user_file)
        return basic_header(http, mem, ret);
    if (!http->auth_credentials.text && !http->auth_credentials.file)
        return NULL;
    GS_AUTO_BUF struct gs_buf secret = {0}, text = {0};
    struct gs_error *err = read_secret(&http->auth_credentials, &secret);
    if (err)
        return err;
    gs_buf_addf(&text, "%s ", http->auth_type ? http->auth_type : "Bearer");
    gs_buf_add_slice(&text, gs_slice_trim(gs_buf_slice(&secret)));
    *ret = (struct http_header){"Authorization", gs_arena_strndup(mem, text.data, text.len)};
    return NULL;
}

static struct gs_error *own_header(const struct engine_config_http_header *h, struct gs_arena *mem,
                                   struct http_header *ret)
{
    GS_AUTO_BUF struct gs_buf secret = {0};
    struct gs_error *err = read_secret(&h->value, &secret);
    if (err)
        return err;
    struct gs_slice text = gs_slice_trim(gs_buf_slice(&secret));
    if (text.len && (memchr(text.data, '\n', text.len) || memchr(text.data, '\r', text.len)))
        return gs_error_new(GS_EINVAL, "the value of header %s has several lines", h->name);
    *ret =
        (struct http_header){h->name, gs_arena_strndup(mem, text.data ? text.data : "", text.len)};
    return NULL;
}

struct gs_error *discovery_peer_headers(const struct engine_config_http *http, struct gs_arena *mem,
                                        struct http_header ret[DISCOVERY_PEER_HEADERS])
{
    memset(ret, 0, DISCOVERY_PEER_HEADERS * sizeof(*ret));
    struct gs_error *err = authorization(http, mem, &ret[0]);
    size_t n = ret[0].name != NULL;
    for (size_t i = 0; i < http->n_headers && !err; i++)
        err = own_header(&http->headers[i], mem, &ret[n++]);
    return err;
}
