// SPDX-License-Identifier: Apache-2.0
// The socket of the stand-ins: each connection is the process of a container, which introduces
// itself once and then gets orders. What it sends is untrusted: its size and time are limited, and
// the pod must exist and run here.
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/object.h"
#include "local/standin/standin_private.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum {
    MAX_SESSIONS = 4096,
    MAX_HELLO = 2 * 1024 * 1024,
    MAX_QUEUE = 64 * 1024 * 1024,
    HELLO_MS = 30000,
    LISTEN_QUEUE = 128,
};

// --- the end of a session ---

static void on_session_closed(uv_handle_t *h)
{
    struct standin_session *s = h->data;
    gs_buf_finish(&s->in);
    json_decref(s->hello);
    json_decref(s->pod);
    free(s);
}

static void close_session(struct standin_session *s)
{
    if (s->closing)
        return;
    s->closing = true;
    standin_ports_close(s);
    if (s->role && s->role->end)
        s->role->end(s);
    gs_timer_free(s->timer);
    TAILQ_REMOVE(&s->server->sessions, s, link);
    s->server->n_sessions--;
    uv_close((uv_handle_t *)&s->pipe, on_session_closed);
}

static void on_timeout(void *arg)
{
    close_session(arg);
}

// --- orders ---

struct order {
    uv_write_t request;
    char *text;
};

static void on_sent(uv_write_t *request, int status)
{
    struct order *o = GS_CONTAINER_OF(request, struct order, request);
    free(o->text);
    free(o);
}

// Steals order.
static void send_order(struct standin_session *s, json_t *order)
{
    GS_AUTO_BUF struct gs_buf line = {0};
    codec_json_dump(order, &line);
    json_decref(order);
    gs_buf_add_char(&line, '\n');
    // A process that is stopped reads nothing.
    if (s->closing || uv_stream_get_write_queue_size((uv_stream_t *)&s->pipe) > MAX_QUEUE)
        return;
    struct order *o = gs_alloc(sizeof(*o));
    size_t len = line.len;
    o->text = gs_buf_take(&line);
    const uv_buf_t bytes = uv_buf_init(o->text, (unsigned)len);
    if (uv_write(&o->request, (uv_stream_t *)&s->pipe, &bytes, 1, on_sent) < 0)
        on_sent(&o->request, 0);
}

void standin_log(struct standin_session *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    va_end(ap);
    json_t *order = json_object();
    codec_json_set_str(order, "log", text);
    send_order(s, order);
}

void standin_exit(struct standin_session *s, int code)
{
    json_t *order = json_object();
    codec_json_set_int(order, "exit", code);
    send_order(s, order);
}

void standin_exec(struct standin_session *s, json_t *words, bool checked)
{
    json_t *order = json_object();
    json_object_set_new(order, "exec", words);
    codec_json_set_bool(order, "checked", checked);
    s->runs_itself = true;
    send_order(s, order);
}

void standin_write(struct standin_session *s, const char *path, const char *text)
{
    json_t *order = json_object();
    codec_json_set_str(order, "write", path);
    if (text)
        codec_json_set_str(order, "text", text);
    send_order(s, order);
}

void standin_watch(struct standin_session *s, const char *folder)
{
    json_t *order = json_object();
    codec_json_set_str(order, "watch", folder);
    send_order(s, order);
}

void standin_event(struct standin_session *s, const char *type, const char *reason, const char *fmt,
                   ...)
{
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *text = gs_vformat(fmt, ap);
    va_end(ap);
    kube_event(s->server->recorder, s->pod, type, reason, "%s", text);
}

// --- the introduction ---

static void find_container(struct standin_session *s, const char *name)
{
    static const char *const lists[] = {"containers", "initContainers", "ephemeralContainers"};
    size_t i;
    json_t *c;
    for (size_t l = 0; l < GS_ARRAY_LEN(lists); l++)
        json_array_foreach (codec_json_get(s->pod, "spec", lists[l], NULL), i, c)
            if (!s->container && name && gs_streq(codec_json_str(c, "name", NULL), name)) {
                s->container = c;
                s->init = l == 1 && !gs_streq(codec_json_str(c, "restartPolicy", NULL), "Always");
            }
}

static struct gs_error *take_hello(struct standin_session *s, json_t *hello)
{
    const char *ns = codec_json_str(hello, "namespace", NULL);
    const char *name = codec_json_str(hello, "pod", NULL),
               *uid = codec_json_str(hello, "uid", NULL);
    const char *role = codec_json_str(hello, "role", NULL);
    s->hello = hello;
    s->address = codec_json_str(hello, "address", NULL);
    s->moved = codec_json_str(hello, "ports", NULL);
    s->args = json_object_get(hello, "args");
    s->role = role ? standin_role_find(role) : NULL;
    if (!s->role)
        return gs_error_new(GS_EINVAL, "gpuscale up has no role \"%.100s\"", role ? role : "");
    const json_t *pod = ns && name ? kube_cache_get(s->server->cfg.cluster->pods, ns, name) : NULL;
    if (!pod || !gs_streq(kube_uid(pod), uid) || !local_is_pod_ip(s->address))
        return gs_error_new(GS_ENOTFOUND, "gpuscale up has no such pod");
    s->pod = json_incref((json_t *)(uintptr_t)pod);
    find_container(s, codec_json_str(hello, "container", NULL));
    if (!s->container)
        return gs_error_new(GS_ENOTFOUND, "the pod has no such container");
    return NULL;
}

static void begin(struct standin_session *s, json_t *hello)
{
    GS_AUTO_ERROR struct gs_error *err = take_hello(s, hello);
    gs_timer_stop(s->timer);
    if (err) {
        s->role = NULL;
        standin_log(s, "gpuscale: %s", gs_error_message(err));
        standin_exit(s, 1);
        return;
    }
    if (s->role->start)
        s->role->start(s);
    if (!s->runs_itself && !s->closing)
        standin_ports_open(s);
}

// --- bytes ---

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *ret)
{
    static char chunk[64 * 1024]; // used within one read callback only
    *ret = uv_buf_init(chunk, sizeof(chunk));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *bytes)
{
    struct standin_session *s = stream->data;
    if (n == 0 || s->closing)
        return;
    // After the introduction, bytes are changes of watched folders.
    if (n < 0 || (s->hello && (!s->role || !s->role->changed))) {
        close_session(s);
        return;
    }
    if (s->hello) {
        s->role->changed(s);
        return;
    }
    gs_buf_add(&s->in, bytes->base, (size_t)n);
    const char *end = s->in.len ? memchr(s->in.data, '\n', s->in.len) : NULL;
    if (s->in.overflow) {
        close_session(s);
    } else if (end) {
        json_t *hello = NULL;
        GS_AUTO_ERROR struct gs_error *err =
            codec_json_parse(gs_slice_make(s->in.data, (size_t)(end - s->in.data)), false, &hello);
        gs_buf_finish(&s->in);
        if (err)
            close_session(s);
        else
            begin(s, hello);
    }
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct standin_server *server = listener->data;
    if (status < 0)
        return;
    struct standin_session *s = gs_alloc(sizeof(*s));
    s->server = server;
    s->in.limit = MAX_HELLO;
    s->timer = gs_timer_new(server->cfg.cluster->loop, s);
    TAILQ_INSERT_TAIL(&server->sessions, s, link);
    server->n_sessions++;
    uv_pipe_init(server->cfg.cluster->loop, &s->pipe, 0);
    s->pipe.data = s;
    if (uv_accept(listener, (uv_stream_t *)&s->pipe) < 0 || server->n_sessions > MAX_SESSIONS ||
        uv_read_start((uv_stream_t *)&s->pipe, on_alloc, on_read) < 0) {
        close_session(s);
        return;
    }
    gs_timer_start(s->timer, on_timeout, HELLO_MS);
}

// --- the socket ---

static struct gs_error *bind_socket(const char *path, int *ret)
{
    struct sockaddr_un address;
    GS_AUTO_CLOSE int dir = -1;
    struct gs_error *err = gs_unix_address(path, &address, &dir);
    if (err)
        return err;
    unlink(path); // of a run that was killed: the data directory is ours
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t mask = umask(0177);
    bool bound = fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
    int reason = errno;
    umask(mask);
    if (bound) {
        *ret = fd;
        return NULL;
    }
    if (fd >= 0)
        close(fd);
    return gs_error_errno(reason, "%s", path);
}

struct gs_error *standin_server_new(const struct standin_config *cfg, struct standin_server **ret)
{
    int fd = -1;
    struct gs_error *err = bind_socket(cfg->socket_path, &fd);
    if (err)
        return gs_error_wrap(err, "the socket of stand-ins");
    struct standin_server *s = gs_alloc(sizeof(*s));
    s->cfg = *cfg;
    TAILQ_INIT(&s->sessions);
    s->recorder = kube_recorder_new(cfg->cluster->client, "stand-in", cfg->cluster->node_name);
    uv_pipe_init(cfg->cluster->loop, &s->listener, 0);
    s->listener.data = s;
    int rc = uv_pipe_open(&s->listener, fd);
    if (rc == 0)
        rc = uv_listen((uv_stream_t *)&s->listener, LISTEN_QUEUE, on_connection);
    if (rc < 0) {
        standin_server_free(s);
        return gs_error_errno(-rc, "the socket of stand-ins");
    }
    *ret = s;
    return NULL;
}

static void on_server_closed(uv_handle_t *h)
{
    free(h->data);
}

void standin_server_free(struct standin_server *s)
{
    if (!s)
        return;
    while (!TAILQ_EMPTY(&s->sessions))
        close_session(TAILQ_FIRST(&s->sessions));
    kube_recorder_free(s->recorder);
    unlink(s->cfg.socket_path);
    uv_close((uv_handle_t *)&s->listener, on_server_closed);
}
