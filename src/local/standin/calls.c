// SPDX-License-Identifier: Apache-2.0
// Calls of a URL of the pod, such as that which reloads another container: a second after the first
// change, and its result in the log. An address of the loopback is the pod's, whose ports it
// shares.
#include "base/mem.h"
#include "codec/encoding.h"
#include "local/ports.h"
#include "local/standin/standin_private.h"
#include "net/http/client.h"

enum { DELAY_MS = 1000, TIMEOUT_MS = 10000, RETRIES = 10 };

struct standin_call {
    struct standin_session *session;
    struct gs_timer *timer;
    struct http_client *client;
    struct http_op *op;
    char *url, *path; // of the client, and of the request
    char *method, *authorization;
    unsigned failures;
};

static void send_call(void *arg);

static void on_answer(void *arg, const struct http_response *r, struct gs_error *err)
{
    struct standin_call *c = arg;
    bool failed = err || r->status >= 500;
    c->op = NULL;
    if (failed && ++c->failures <= RETRIES) {
        gs_timer_start(c->timer, send_call, DELAY_MS);
    } else if (err) {
        standin_log(c->session, "gpuscale: %s", gs_error_message(err));
    } else {
        standin_log(c->session, "gpuscale: %s %s%s: %d", c->method, c->url, c->path, r->status);
    }
    gs_error_free(err);
}

static void send_call(void *arg)
{
    static const struct http_callbacks callbacks = {.on_done = on_answer};
    struct standin_call *c = arg;
    const struct http_header headers[] = {
        {c->authorization ? "Authorization" : NULL, c->authorization}, {0}};
    const struct http_request r = {
        .method = c->method, .path = c->path, .headers = headers, .timeout_ms = TIMEOUT_MS};
    if (!c->op)
        c->op = http_send(c->client, &r, &callbacks, c);
}

// "http://localhost:9093/x" -> "http://ADDRESS:9093" and "/x".
static struct gs_error *split_url(const struct standin_session *s, const char *url, char **ret_base,
                                  char **ret_path)
{
    static const char *const hosts[] = {"http://127.0.0.1", "http://localhost"};
    const char *slash = gs_starts(url, "http://") ? strchr(url + 7, '/') : NULL;
    for (size_t i = 0; i < GS_ARRAY_LEN(hosts); i++) {
        size_t len = strlen(hosts[i]);
        long port = url[len < strlen(url) ? len : 0] == ':' ? strtol(url + len + 1, NULL, 10) : 80;
        if (!gs_starts(url, hosts[i]) || !strchr(":/", url[len]) || port <= 0 || port > 65535)
            continue;
        *ret_base = gs_format("http://%s:%d", s->address, local_port_by(s->moved, (int)port));
        *ret_path = gs_strdup(slash ? slash : "/");
        return NULL;
    }
    return gs_error_new(GS_EINVAL, "%.200s is not a URL of this pod", url);
}

struct gs_error *standin_call_new(struct standin_session *s, const char *url, const char *method,
                                  const char *user, const char *password, struct standin_call **ret)
{
    GS_AUTO_FREE char *base = NULL, *path = NULL;
    struct gs_error *err = split_url(s, url, &base, &path);
    if (err)
        return err;
    const struct http_client_config cfg = {.base_url = base, .proxy = ""};
    struct standin_call *c = gs_alloc(sizeof(*c));
    err = http_client_new_curl(s->server->cfg.cluster->loop, &cfg, &c->client);
    if (err) {
        free(c);
        return err;
    }
    c->session = s;
    c->url = GS_TAKE(base);
    c->path = GS_TAKE(path);
    c->method = gs_strdup(method && *method ? method : "POST");
    c->timer = gs_timer_new(s->server->cfg.cluster->loop, c);
    if (user && *user) {
        GS_AUTO_FREE char *both = gs_format("%s:%s", user, password ? password : "");
        GS_AUTO_BUF struct gs_buf encoded = {0};
        codec_base64_encode(gs_slice_of(both), &encoded);
        c->authorization = gs_format("Basic %s", encoded.data);
    }
    *ret = c;
    return NULL;
}

void standin_call_soon(struct standin_call *c)
{
    c->failures = 0;
    if (!gs_timer_is_active(c->timer))
        gs_timer_start(c->timer, send_call, DELAY_MS);
}

void standin_call_free(struct standin_call *c)
{
    if (!c)
        return;
    http_op_cancel(c->op);
    http_client_free(c->client);
    gs_timer_free(c->timer);
    free(c->url);
    free(c->path);
    free(c->method);
    free(c->authorization);
    free(c);
}
