// SPDX-License-Identifier: Apache-2.0
#include "adapter/source/peer.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "codec/base64.h"
#include "net/tls/tls.h"

#include <strings.h>
#include <sys/stat.h>

enum { MAX_HEADERS = 32, LOOK_MS = 10000 };
enum { CA, CERT, KEY, PEMS };
#define MAX_SECRET ((size_t)1024 * 1024)

// A client with the certificates of one moment, used until its last operation is over.
struct link {
    struct http_client *client;
    bool owned;
    unsigned refs;
};

struct secret {
    char *text, *file; // file NULL: the text never changes
};

struct source_peer {
    uv_loop_t *loop;
    char *name, *base, *prefix;
    struct link *link;
    struct http_header headers[MAX_HEADERS + 2]; // with one for the credentials, and the end
    size_t n_headers;
    char *auth_type, *authorization;
    struct secret token, user, password, pems[PEMS];
    struct timespec pem_times[PEMS];
    char *server_name, *proxy, *no_proxy;
    bool insecure;
    int64_t look_ns, looked_ns;
};

struct source_peer_op {
    struct link *link;
    struct http_op *http;
    struct http_callbacks cb;
    void *arg;
};

// --- secrets ---

static struct gs_error *secret_read(struct secret *s)
{
    GS_AUTO_BUF struct gs_buf b = {0};
    if (!s->file)
        return NULL;
    struct gs_error *err = gs_file_read(s->file, MAX_SECRET, &b);
    if (err)
        return err;
    struct gs_slice text = gs_slice_trim(gs_buf_slice(&b));
    free(s->text);
    s->text = gs_slice_dup(text);
    return NULL;
}

static void secret_set(struct secret *s, const char *text, const char *file)
{
    s->text = gs_strdup(text);
    s->file = file && *file ? gs_strdup(file) : NULL;
}

static void secret_finish(struct secret *s)
{
    free(s->text);
    free(s->file);
}

static void complain(const struct source_peer *p, struct gs_error *err)
{
    if (err)
        gs_warn("adapter", "credentials for %s: %s", p->name, gs_error_message(err));
    gs_error_free(err);
}

// The header of what is known now.
static void set_authorization(struct source_peer *p)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    if (p->token.text) {
        gs_buf_addf(&text, "%s %s", p->auth_type, p->token.text);
    } else if (p->user.text) {
        GS_AUTO_FREE char *pair =
            gs_format("%s:%s", p->user.text, p->password.text ? p->password.text : "");
        gs_buf_add_str(&text, "Basic ");
        codec_base64_encode(gs_slice_of(pair), &text);
    }
    free(p->authorization);
    p->authorization = text.len ? gs_buf_take(&text) : NULL;
    p->headers[p->n_headers] =
        (struct http_header){p->authorization ? "Authorization" : NULL, p->authorization};
}

// --- TLS ---

static void link_unref(struct link *l)
{
    if (!l || --l->refs)
        return;
    if (l->owned)
        http_client_free(l->client);
    free(l);
}

static struct link *link_new(struct http_client *client, bool owned)
{
    struct link *l = gs_alloc(sizeof(*l));
    *l = (struct link){client, owned, 1};
    return l;
}

static struct timespec time_of(const struct secret *s)
{
    struct stat st;
    return s->file && stat(s->file, &st) == 0 ? st.st_mtim : (struct timespec){0};
}

// Broken ones are named by their files, where they are in files.
static struct gs_error *check_pems(const struct source_peer *p)
{
    const struct secret *ca = &p->pems[CA], *cert = &p->pems[CERT], *key = &p->pems[KEY];
    struct gs_error *err = ca->text ? tls_check_certificates(ca->text) : NULL;
    if (err)
        return gs_error_wrap(err, "%s", ca->file ? ca->file : "the CA certificate");
    err = cert->text && key->text ? tls_check_pair(cert->text, key->text) : NULL;
    return err ? gs_error_wrap(err, "%s", cert->file ? cert->file : "the client certificate")
               : NULL;
}

static struct gs_error *connect_again(struct source_peer *p)
{
    struct http_client *client = NULL;
    struct gs_error *err = NULL;
    for (int i = 0; i < PEMS && !err; i++) {
        p->pem_times[i] = time_of(&p->pems[i]);
        err = secret_read(&p->pems[i]);
    }
    if (!err)
        err = check_pems(p);
    const struct http_client_config cfg = {
        .base_url = p->base,
        .ca_pem = p->pems[CA].text,
        .cert_pem = p->pems[CERT].text,
        .key_pem = p->pems[KEY].text,
        .insecure = p->insecure,
        .server_name = p->server_name,
        .proxy = p->proxy,
        .no_proxy = p->no_proxy,
        .user_agent = "gpuscale-adapter/" GPUSCALE_VERSION,
    };
    if (!err)
        err = http_client_new_curl(p->loop, &cfg, &client);
    if (err)
        return err;
    link_unref(p->link);
    p->link = link_new(client, true);
    return NULL;
}

static bool pems_changed(const struct source_peer *p)
{
    for (int i = 0; i < PEMS; i++) {
        struct timespec now = time_of(&p->pems[i]);
        if (now.tv_sec != p->pem_times[i].tv_sec || now.tv_nsec != p->pem_times[i].tv_nsec)
            return true;
    }
    return false;
}

static void look_at_files(struct source_peer *p)
{
    int64_t now = gs_mono_ns();
    if (!p->loop || now - p->looked_ns < p->look_ns)
        return;
    p->looked_ns = now;
    complain(p, secret_read(&p->token));
    complain(p, secret_read(&p->user));
    complain(p, secret_read(&p->password));
    set_authorization(p);
    if (pems_changed(p))
        complain(p, connect_again(p));
}

// --- life ---

static void add_header(struct source_peer *p, const char *name, const char *value)
{
    p->headers[p->n_headers++] = (struct http_header){gs_strdup(name), gs_strdup(value)};
}

static struct gs_error *add_headers(struct source_peer *p, const struct source_peer_options *o)
{
    if (o->n_headers > MAX_HEADERS)
        return gs_error_new(GS_EINVAL, "at most %d headers of one's own", MAX_HEADERS);
    for (size_t i = 0; i < o->n_headers; i++) {
        const char *equals = strchr(o->headers[i], '=');
        GS_AUTO_FREE char *name = gs_strndup(o->headers[i], strcspn(o->headers[i], "="));
        if (!*name)
            return gs_error_new(GS_EINVAL, "header \"%s\": want Key=Value", o->headers[i]);
        add_header(p, name, equals ? equals + 1 : "");
    }
    return NULL;
}

// Cuts user:password@ out of the URL; the path is kept apart, the query string is dropped.
static struct gs_error *split_url(struct source_peer *p, const char *url)
{
    const char *host = strstr(url, "://");
    if (!host || (strncasecmp(url, "http://", 7) != 0 && strncasecmp(url, "https://", 8) != 0))
        return gs_error_new(GS_EINVAL, "\"%s\": want http://HOST[:PORT][/PATH] or https://…", url);
    host += 3;
    size_t n = strcspn(host, "/?#");
    const char *at = memrchr(host, '@', n);
    const char *rest = host + n;
    const char *from = at ? at + 1 : host;
    if (from == rest)
        return gs_error_new(GS_EINVAL, "\"%s\": the host is missing", url);
    size_t path = strcspn(rest, "?#");
    while (path && rest[path - 1] == '/')
        path--;
    p->base = gs_format("%.*s%.*s", (int)(host - url), url, (int)(rest - from), from);
    p->prefix = gs_strndup(rest, path);
    p->name = gs_format("%s%s", p->base, p->prefix);
    if (!at || p->user.text || p->user.file)
        return NULL;
    const char *colon = memchr(host, ':', (size_t)(at - host));
    GS_AUTO_FREE char *user = gs_strndup(host, (size_t)((colon ? colon : at) - host));
    GS_AUTO_FREE char *password =
        gs_strndup(colon ? colon + 1 : at, colon ? (size_t)(at - colon) - 1 : 0);
    struct gs_error *err = http_decode_segment(gs_slice_of(user), &p->user.text);
    free(GS_TAKE(p->password.text));
    if (!err)
        err = http_decode_segment(gs_slice_of(password), &p->password.text);
    return err ? gs_error_wrap(err, "user and password of the URL") : NULL;
}

static struct gs_error *start(struct source_peer *p, const struct source_peer_options *o)
{
    struct gs_error *err = split_url(p, o->url);
    if (!err)
        err = add_headers(p, o);
    if (!err)
        err = secret_read(&p->token);
    if (!err)
        err = secret_read(&p->user);
    if (!err)
        err = secret_read(&p->password);
    if (err)
        return err;
    p->looked_ns = gs_mono_ns();
    set_authorization(p);
    return connect_again(p);
}

struct gs_error *source_peer_new(uv_loop_t *loop, const struct source_peer_options *o,
                                 struct source_peer **ret)
{
    struct source_peer *p = gs_alloc(sizeof(*p));
    p->loop = loop;
    p->auth_type = gs_strdup(o->auth_type ? o->auth_type : "Bearer");
    p->server_name = gs_strdup(o->server_name);
    p->proxy = gs_strdup(o->proxy);
    p->no_proxy = gs_strdup(o->no_proxy);
    p->insecure = o->insecure;
    p->look_ns = (o->look_ms ? o->look_ms : LOOK_MS) * GS_NS_PER_MS;
    secret_set(&p->token, o->token, o->token_file);
    secret_set(&p->user, o->user, o->user_file);
    secret_set(&p->password, o->password, o->password_file);
    secret_set(&p->pems[CA], o->ca_pem, o->ca_file);
    secret_set(&p->pems[CERT], o->cert_pem, o->cert_file);
    secret_set(&p->pems[KEY], o->key_pem, o->key_file);
    struct gs_error *err = start(p, o);
    if (err)
        source_peer_free(p);
    else
        *ret = p;
    return err;
}

struct source_peer *source_peer_new_client(struct http_client *client, const char *name,
                                           const char *prefix)
{
    struct source_peer *p = gs_alloc(sizeof(*p));
    p->name = gs_strdup(name);
    p->prefix = gs_strdup(prefix);
    p->link = link_new(client, false);
    return p;
}

void source_peer_free(struct source_peer *p)
{
    if (!p)
        return;
    link_unref(p->link);
    for (size_t i = 0; i < p->n_headers; i++) {
        free((char *)(uintptr_t)p->headers[i].name);
        free((char *)(uintptr_t)p->headers[i].value);
    }
    secret_finish(&p->token);
    secret_finish(&p->user);
    secret_finish(&p->password);
    for (int i = 0; i < PEMS; i++)
        secret_finish(&p->pems[i]);
    char *texts[] = {p->name,          p->base,        p->prefix, p->auth_type,
                     p->authorization, p->server_name, p->proxy,  p->no_proxy};
    for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++)
        free(texts[i]);
    free(p);
}

const char *source_peer_name(const struct source_peer *p)
{
    return p->name;
}

// --- sending ---

static void op_free(struct source_peer_op *op)
{
    link_unref(op->link);
    free(op);
}

static void on_done(void *arg, const struct http_answer *answer, struct gs_error *err)
{
    struct source_peer_op *op = arg;
    op->cb.on_done(op->arg, answer, err);
    op_free(op);
}

static void on_data(void *arg, struct gs_slice bytes)
{
    struct source_peer_op *op = arg;
    op->cb.on_data(op->arg, bytes);
}

struct source_peer_op *source_peer_send(struct source_peer *p, const struct http_call *call,
                                        const struct http_callbacks *cb, void *arg)
{
    look_at_files(p);
    size_t n = 0, own = p->n_headers + (p->authorization != NULL);
    while (call->headers && call->headers[n].name)
        n++;
    struct http_header *headers = gs_alloc_array(own + n + 1, sizeof(*headers));
    memcpy(headers, p->headers, own * sizeof(*headers));
    if (n)
        memcpy(headers + own, call->headers, n * sizeof(*headers));
    GS_AUTO_FREE char *path = gs_format("%s%s", p->prefix, call->path);
    struct http_call whole = *call;
    whole.path = path;
    whole.headers = headers;
    struct source_peer_op *op = gs_alloc(sizeof(*op));
    *op = (struct source_peer_op){.link = p->link, .cb = *cb, .arg = arg};
    op->link->refs++;
    const struct http_callbacks callbacks = {cb->on_data ? on_data : NULL, on_done};
    op->http = http_send(op->link->client, &whole, &callbacks, op);
    free(headers);
    return op;
}

void source_peer_cancel(struct source_peer_op *op)
{
    if (!op)
        return;
    http_op_cancel(op->http);
    op_free(op);
}
