// SPDX-License-Identifier: Apache-2.0
// attach: the output of a running container from now on, and its input and terminal if its spec has
// them (stdin, tty). The session is a connection to the container's supervisor (console.h).
#include "local/kubelet/streaming.h"

#include "base/file.h"
#include "base/mem.h"
#include "kube/status.h"
#include "local/kubelet/console.h"

#include <errno.h>
#include <sys/socket.h>

struct kubelet_attach {
    struct kubelet_stream stream;
    struct kubelet_remote *remote; // NULL: the client is gone
    struct kubelet_remote_options options;
    bool has_input;  // of the container
    bool ends_input; // stdinOnce: the input ends with this session
    uv_pipe_t pipe;
    bool has_pipe, closing;
    uv_write_t write;
    bool writing;
    struct gs_buf sent, queue, in;
};

// --- the end ---

static void attach_free(struct kubelet_attach *a)
{
    kubelet_stream_remove(&a->stream);
    gs_buf_finish(&a->sent);
    gs_buf_finish(&a->queue);
    gs_buf_finish(&a->in);
    free(a);
}

static void on_pipe_closed(uv_handle_t *handle)
{
    struct kubelet_attach *a = handle->data;
    a->has_pipe = false;
    if (!a->remote)
        attach_free(a);
}

static void close_pipe(struct kubelet_attach *a)
{
    if (!a->has_pipe || a->closing)
        return;
    a->closing = true;
    uv_close((uv_handle_t *)&a->pipe, on_pipe_closed);
}

// --- to the supervisor ---

static void send_frames(struct kubelet_attach *a);

static void on_frames_sent(uv_write_t *w, int status)
{
    struct kubelet_attach *a = w->data;
    a->writing = false;
    gs_buf_clear(&a->sent);
    if (status < 0)
        gs_buf_clear(&a->queue);
    send_frames(a);
    if (!a->writing && a->remote)
        kubelet_remote_pause(a->remote, false);
}

static void send_frames(struct kubelet_attach *a)
{
    if (a->writing || a->closing || !a->has_pipe)
        return;
    if (!a->queue.len) {
        if (!a->remote) // its last frames are sent
            close_pipe(a);
        return;
    }
    struct gs_buf swap = a->sent;
    a->sent = a->queue;
    a->queue = swap;
    uv_buf_t buf = uv_buf_init(a->sent.data, (unsigned)a->sent.len);
    a->write.data = a;
    a->writing = uv_write(&a->write, (uv_stream_t *)&a->pipe, &buf, 1, on_frames_sent) == 0;
}

static void send_frame(struct kubelet_attach *a, enum kubelet_console_type type,
                       struct gs_slice payload)
{
    kubelet_console_add_frame(&a->queue, type, payload);
    send_frames(a);
}

// --- from the supervisor ---

static void on_pipe_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    static char chunk[32 * 1024]; // used up before the next read: one loop, one thread
    *buf = uv_buf_init(chunk, sizeof(chunk));
}

static void take_output(struct kubelet_attach *a)
{
    struct gs_slice rest = gs_buf_slice(&a->in), payload;
    enum kubelet_console_type type;
    bool bad;
    while (kubelet_console_take_frame(&rest, &type, &payload, &bad)) {
        bool is_error = type == KUBELET_CONSOLE_STDERR;
        if (is_error ? a->options.has_stderr : a->options.has_stdout)
            kubelet_remote_write(a->remote, is_error ? KUBELET_STDERR : KUBELET_STDOUT, payload);
    }
    gs_buf_consume(&a->in, a->in.len - rest.len);
}

static void on_pipe_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct kubelet_attach *a = stream->data;
    if (!a->remote)
        return;
    if (n > 0) {
        gs_buf_add(&a->in, buf->base, (size_t)n);
        take_output(a);
        if (kubelet_remote_pending(a->remote) > KUBELET_STREAM_HIGH)
            uv_read_stop(stream);
    } else if (n < 0) { // the container has ended
        close_pipe(a);
        kubelet_remote_finish(a->remote, 0, NULL);
    }
}

// --- from the client ---

static void on_open(void *arg)
{
    struct kubelet_attach *a = arg;
    if (a->has_pipe)
        uv_read_start((uv_stream_t *)&a->pipe, on_pipe_alloc, on_pipe_read);
}

static void on_stdin(void *arg, struct gs_slice bytes)
{
    struct kubelet_attach *a = arg;
    if (!a->has_input)
        return;
    send_frame(a, KUBELET_CONSOLE_INPUT, bytes);
    if (a->queue.len > KUBELET_STREAM_HIGH)
        kubelet_remote_pause(a->remote, true);
}

static void on_stdin_end(void *arg)
{
    struct kubelet_attach *a = arg;
    if (a->ends_input)
        send_frame(a, KUBELET_CONSOLE_END, (struct gs_slice){0});
}

static void on_resize(void *arg, uint16_t columns, uint16_t rows)
{
    const uint8_t size[] = {(uint8_t)(columns >> 8), (uint8_t)columns, (uint8_t)(rows >> 8),
                            (uint8_t)rows};
    send_frame(arg, KUBELET_CONSOLE_SIZE, gs_slice_make(size, sizeof(size)));
}

static void on_remote_drained(void *arg)
{
    struct kubelet_attach *a = arg;
    if (a->has_pipe && !a->closing)
        uv_read_start((uv_stream_t *)&a->pipe, on_pipe_alloc, on_pipe_read);
}

static void on_remote_close(void *arg)
{
    struct kubelet_attach *a = arg;
    a->remote = NULL;
    if (!a->has_pipe) {
        attach_free(a);
        return;
    }
    if (a->closing)
        return;
    uv_read_stop((uv_stream_t *)&a->pipe);
    if (a->ends_input)
        kubelet_console_add_frame(&a->queue, KUBELET_CONSOLE_END, (struct gs_slice){0});
    send_frames(a);
}

static const struct kubelet_remote_callbacks remote_callbacks = {
    .on_open = on_open,
    .on_stdin = on_stdin,
    .on_stdin_end = on_stdin_end,
    .on_resize = on_resize,
    .on_drained = on_remote_drained,
    .on_close = on_remote_close,
};

// --- the request ---

// The supervisor closes its connections when its container ends.
static void end_attach(struct kubelet_stream *stream)
{
}

static struct gs_error *connect_to(const char *path, int *ret)
{
    struct sockaddr_un address;
    GS_AUTO_CLOSE int dir = -1;
    struct gs_error *err = gs_unix_address(path, &address, &dir);
    if (err)
        return err;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return gs_error_errno(errno, "socket");
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
        err = gs_error_errno(errno, "%s", path);
        close(fd);
        return err;
    }
    *ret = fd;
    return NULL;
}

static bool open_pipe(struct kubelet_attach *a, struct kubelet *k, int fd)
{
    uv_pipe_init(k->cluster->loop, &a->pipe, 0);
    a->pipe.data = a;
    a->has_pipe = true;
    if (uv_pipe_open(&a->pipe, fd) == 0)
        return true;
    close(fd);
    close_pipe(a);
    return false;
}

void kubelet_attach(struct kubelet *k, struct kubelet_container *c, struct http_exchange *x)
{
    const json_t *spec = kubelet_container_spec(c);
    struct kubelet_remote_options options;
    GS_AUTO_FREE char *path = kubelet_container_file(c, c->restart_count, "console");
    int fd = -1;
    GS_AUTO_ERROR struct gs_error *err = kubelet_remote_options(x, &options);
    if (err) {
        kube_reply_failure(x, 400, "BadRequest", "%s", gs_error_message(err));
        return;
    }
    err = connect_to(path, &fd);
    if (err) {
        http_reply_text(x, 500, "attaching to container \"%s\": %s", c->name,
                        gs_error_message(err));
        return;
    }
    struct kubelet_attach *a = gs_alloc(sizeof(*a));
    a->stream.end = end_attach;
    a->options = options;
    a->has_input = codec_json_bool(spec, false, "stdin", NULL);
    a->ends_input =
        options.has_stdin && a->has_input && codec_json_bool(spec, false, "stdinOnce", NULL);
    a->remote = kubelet_remote_open(k->cluster->loop, x, &options, &remote_callbacks, a);
    if (!a->remote) {
        close(fd);
        attach_free(a);
        return;
    }
    kubelet_stream_add(k, &a->stream, c->worker, c->container_id);
    if (!open_pipe(a, k, fd))
        kubelet_remote_finish(a->remote, 0, "attaching to the container failed");
}
