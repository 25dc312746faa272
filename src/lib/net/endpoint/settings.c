// SPDX-License-Identifier: Apache-2.0
// Settings: copies of them, and the URLs and headers of command lines and configuration files.
#include "base/mem.h"
#include "net/endpoint/endpoint_private.h"

#include <strings.h>

enum { MAX_HEADER_TEXTS = 32 };

bool endpoint_secret_is_set(const struct endpoint_secret *s)
{
    return s->text || (s->file && *s->file) || s->current;
}

// --- copies ---

static void copy_secret(struct gs_arena *mem, struct endpoint_secret *s, bool *has_files)
{
    s->text = gs_arena_strdup(mem, s->text);
    s->file = s->file && *s->file ? gs_arena_strdup(mem, s->file) : NULL;
    *has_files |= s->file || s->current;
}

static void copy_settings_headers(struct gs_arena *mem, struct endpoint_settings *s,
                                  bool *has_files)
{
    struct endpoint_header *own = gs_arena_alloc(mem, (s->n_headers + 1) * sizeof(*own));
    size_t n = 0;
    for (size_t i = 0; i < s->n_headers; i++) {
        own[i] = s->headers[i];
        own[i].name = gs_arena_strdup(mem, own[i].name);
        copy_secret(mem, &own[i].value, has_files);
    }
    s->headers = own;
    while (s->proxy_headers && s->proxy_headers[n].name)
        n++;
    struct http_header *proxy = gs_arena_alloc(mem, (n + 1) * sizeof(*proxy));
    for (size_t i = 0; i < n; i++)
        proxy[i] = (struct http_header){gs_arena_strdup(mem, s->proxy_headers[i].name),
                                        gs_arena_strdup(mem, s->proxy_headers[i].value)};
    s->proxy_headers = proxy;
}

bool endpoint_settings_copy(const struct endpoint_settings *from, struct gs_arena *mem,
                            struct endpoint_settings *ret)
{
    struct endpoint_settings *s = ret;
    struct endpoint_secret *secrets[] = {&s->ca,   &s->cert,     &s->key, &s->credentials,
                                         &s->user, &s->password, NULL};
    bool has_files = false;
    *s = *from;
    for (size_t i = 0; secrets[i]; i++)
        copy_secret(mem, secrets[i], &has_files);
    s->auth_type = gs_arena_strdup(mem, s->auth_type);
    s->server_name = gs_arena_strdup(mem, s->server_name);
    s->proxy_url = gs_arena_strdup(mem, s->proxy_url);
    s->no_proxy = gs_arena_strdup(mem, s->no_proxy);
    s->oauth2 = NULL;
    copy_settings_headers(mem, s, &has_files);
    return has_files;
}

void endpoint_options_copy(const struct endpoint_options *from, struct gs_arena *mem,
                           struct endpoint_options *ret)
{
    const char *agent = from->user_agent ? from->user_agent : "gpuscale/" GPUSCALE_VERSION;
    *ret = *from;
    ret->user_agent = gs_arena_strdup(mem, agent);
    ret->component = gs_arena_strdup(mem, from->component);
    ret->name = gs_arena_strdup(mem, from->name);
    ret->unix_socket = gs_arena_strdup(mem, from->unix_socket);
    ret->tokens = NULL;
}

// --- URLs and headers of users ---

struct split_url {
    char *base;        // without user, query string and trailing slashes
    const char *query; // "?tenant=a", borrowed; "": none
    char *user, *password;
};

static void split_url_finish(struct split_url *u)
{
    free(u->base);
    free(u->user);
    free(u->password);
}

static struct gs_error *split_url(const char *url, struct split_url *ret)
{
    const char *host = strstr(url, "://");
    if (!host || (strncasecmp(url, "http://", 7) != 0 && strncasecmp(url, "https://", 8) != 0))
        return gs_error_new(GS_EINVAL, "\"%s\": want http://HOST[:PORT][/PATH] or https://…", url);
    host += 3;
    const char *rest = host + strcspn(host, "/?#");
    const char *at = memrchr(host, '@', (size_t)(rest - host));
    const char *from = at ? at + 1 : host;
    if (from == rest)
        return gs_error_new(GS_EINVAL, "\"%s\": the host is missing", url);
    size_t path = strcspn(rest, "?#");
    ret->query = rest + path;
    while (path && rest[path - 1] == '/')
        path--;
    ret->base = gs_format("%.*s%.*s", (int)(host - url), url, (int)(rest - from) + (int)path, from);
    if (!at)
        return NULL;
    struct gs_slice password = gs_slice_make(host, (size_t)(at - host));
    struct gs_slice user = gs_slice_cut(&password, ':');
    struct gs_error *err = http_decode_segment(user, &ret->user);
    if (!err)
        err = http_decode_segment(password.data ? password : GS_SLICE(""), &ret->password);
    return err ? gs_error_wrap(err, "user and password of the URL") : NULL;
}

struct gs_error *endpoint_client_open(uv_loop_t *loop, const char *url,
                                      const struct endpoint_settings *settings,
                                      const struct endpoint_options *options,
                                      struct http_client **ret, char **ret_name)
{
    GS_CLEANUP(split_url_finish) struct split_url u = {0};
    struct endpoint_settings s = *settings;
    struct endpoint_options o = *options;
    struct gs_error *err = split_url(url, &u);
    if (err)
        return err;
    if (u.user && !endpoint_secret_is_set(&s.user)) {
        s.user = (struct endpoint_secret){.text = u.user};
        s.password = (struct endpoint_secret){.text = u.password};
    }
    o.name = u.base;
    GS_AUTO_FREE char *whole = gs_format("%s%s", u.base, u.query);
    err = endpoint_client_new(loop, whole, &s, &o, ret);
    if (!err)
        *ret_name = GS_TAKE(u.base);
    return err;
}

struct gs_error *endpoint_add_headers(struct endpoint_settings *settings, const char *const *texts,
                                      size_t n, struct gs_arena *mem)
{
    if (n > MAX_HEADER_TEXTS)
        return gs_error_new(GS_EINVAL, "at most %d headers can be set", MAX_HEADER_TEXTS);
    struct endpoint_header *all = gs_arena_alloc(mem, (settings->n_headers + n + 1) * sizeof(*all));
    size_t len = settings->n_headers;
    if (len)
        memcpy(all, settings->headers, len * sizeof(*all));
    for (size_t i = 0; i < n; i++) {
        size_t name = strcspn(texts[i], "=");
        if (!name)
            return gs_error_new(GS_EINVAL, "header \"%s\": want Key=Value", texts[i]);
        const char *value = texts[i][name] ? texts[i] + name + 1 : "";
        all[len++] = (struct endpoint_header){gs_arena_strndup(mem, texts[i], name),
                                              {.text = gs_arena_strdup(mem, value)}};
    }
    settings->headers = all;
    settings->n_headers = len;
    return NULL;
}
