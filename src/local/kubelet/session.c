// SPDX-License-Identifier: Apache-2.0
// A command under a supervisor process (shim.h) that has pipes or a terminal of its own. Pipes are
// real ones, not the socket pairs of libuv: programs open /dev/stdin.
#include "local/kubelet/streaming.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "local/kubelet/console.h"
#include "local/kubelet/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { MAX_REPORT = 4096 };
enum { REPORT = 3, N_PIPES = 4 }; // in the order of the supervisor's descriptors

struct session_pipe {
    struct kubelet_session *s;
    uv_pipe_t uv;
    bool has_handle;
    bool reading; // its end has not come
};

struct kubelet_session {
    struct kubelet_session_callbacks cb;
    void *arg;
    uv_process_t child;
    bool has_child;
    struct session_pipe pipes[N_PIPES];
    bool tty;
    int master; // of the terminal, of pipes[0]; -1: none
    uv_write_t write;
    bool writing, input_ended;
    struct gs_buf sent, queue;
    struct gs_buf report;
    bool paused, exited, freed;
    int exit_code;
    int n_handles; // not yet closed
};

// --- the end ---

static void session_destroy(struct kubelet_session *s)
{
    gs_buf_finish(&s->sent);
    gs_buf_finish(&s->queue);
    gs_buf_finish(&s->report);
    free(s);
}

static void on_child_closed(uv_handle_t *handle)
{
    struct kubelet_session *s = handle->data;
    if (--s->n_handles == 0 && s->freed)
        session_destroy(s);
}

static void on_pipe_closed(uv_handle_t *handle)
{
    struct session_pipe *pipe = handle->data;
    struct kubelet_session *s = pipe->s;
    if (--s->n_handles == 0 && s->freed)
        session_destroy(s);
}

static void close_pipe(struct session_pipe *pipe)
{
    pipe->reading = false;
    if (pipe->has_handle && !uv_is_closing((uv_handle_t *)&pipe->uv))
        uv_close((uv_handle_t *)&pipe->uv, on_pipe_closed);
}

// The supervisor may outlive us for a moment; its exit is still waited for.
static void release(struct kubelet_session *s)
{
    for (size_t i = 0; i < N_PIPES; i++)
        close_pipe(&s->pipes[i]);
    if (s->has_child && s->exited && !uv_is_closing((uv_handle_t *)&s->child))
        uv_close((uv_handle_t *)&s->child, on_child_closed);
    if (s->n_handles == 0 && s->freed)
        session_destroy(s);
}

void kubelet_session_free(struct kubelet_session *s)
{
    if (!s)
        return;
    s->freed = true;
    union sigval now = {.sival_int = 0};
    if (s->has_child && !s->exited)
        sigqueue(s->child.pid, KUBELET_SHIM_SIGNAL_STOP, now);
    release(s);
}

// "e2 message"
static int exec_errno(const struct kubelet_session *s, const char **ret_message)
{
    int64_t number = 0;
    *ret_message = "";
    if (s->report.len < 2 || s->report.data[0] != 'e')
        return 0;
    struct gs_slice rest = gs_slice_make(s->report.data + 1, s->report.len - 1);
    GS_AUTO_ERROR struct gs_error *err = gs_parse_i64(gs_slice_cut(&rest, ' '), 0, 4096, &number);
    if (rest.data)
        *ret_message = rest.data; // the buffer has a NUL after it
    return err ? 0 : (int)number;
}

static void maybe_over(struct kubelet_session *s)
{
    if (!s->exited || s->freed)
        return;
    for (size_t i = 0; i < N_PIPES; i++)
        if (s->pipes[i].reading)
            return;
    const char *message;
    int error = exec_errno(s, &message);
    s->cb.on_exit(s->arg, s->exit_code, error, message);
}

static void on_session_exit(uv_process_t *child, int64_t exit_status, int term_signal)
{
    struct kubelet_session *s = child->data;
    s->exited = true;
    s->exit_code = term_signal ? 128 + term_signal : (int)exit_status;
    if (s->freed)
        release(s);
    else
        maybe_over(s);
}

// --- output ---

static void on_session_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    static char chunk[32 * 1024]; // used up before the next read: one loop, one thread
    *buf = uv_buf_init(chunk, sizeof(chunk));
}

static void on_session_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct session_pipe *pipe = stream->data;
    struct kubelet_session *s = pipe->s;
    size_t i = (size_t)(pipe - s->pipes);
    if (n > 0 && i == REPORT && s->report.len + (size_t)n < MAX_REPORT)
        gs_buf_add(&s->report, buf->base, (size_t)n);
    else if (n > 0 && i != REPORT)
        s->cb.on_output(s->arg, i == STDERR_FILENO ? KUBELET_STDERR : KUBELET_STDOUT,
                        gs_slice_make(buf->base, (size_t)n));
    if (n >= 0)
        return;
    // A terminal gives EIO when its last user is gone. What is written to it is then lost, too.
    close_pipe(pipe);
    maybe_over(s);
}

static void set_reading(struct session_pipe *pipe, bool on)
{
    if (!pipe->reading)
        return;
    if (on)
        uv_read_start((uv_stream_t *)&pipe->uv, on_session_alloc, on_session_read);
    else
        uv_read_stop((uv_stream_t *)&pipe->uv);
}

void kubelet_session_pause(struct kubelet_session *s, bool pause)
{
    if (s->paused == pause)
        return;
    s->paused = pause;
    for (size_t i = 0; i < REPORT; i++)
        set_reading(&s->pipes[i], !pause);
}

// --- input ---

static void write_input(struct kubelet_session *s);

static void on_input_written(uv_write_t *w, int status)
{
    struct kubelet_session *s = w->data;
    s->writing = false;
    gs_buf_clear(&s->sent);
    if (s->freed)
        return;
    if (status < 0) { // the command has closed its stdin
        gs_buf_clear(&s->queue);
        if (!s->tty)
            close_pipe(&s->pipes[0]);
    }
    write_input(s);
    if (!s->writing)
        s->cb.on_drained(s->arg);
}

static void write_input(struct kubelet_session *s)
{
    struct session_pipe *pipe = &s->pipes[0];
    if (s->writing)
        return;
    if (!pipe->has_handle || uv_is_closing((uv_handle_t *)&pipe->uv)) {
        gs_buf_clear(&s->queue);
        return;
    }
    if (!s->queue.len) {
        if (s->input_ended)
            close_pipe(pipe);
        return;
    }
    struct gs_buf swap = s->sent;
    s->sent = s->queue;
    s->queue = swap;
    uv_buf_t buf = uv_buf_init(s->sent.data, (unsigned)s->sent.len);
    s->write.data = s;
    s->writing = uv_write(&s->write, (uv_stream_t *)&pipe->uv, &buf, 1, on_input_written) == 0;
}

void kubelet_session_write(struct kubelet_session *s, struct gs_slice bytes)
{
    if (s->input_ended)
        return;
    gs_buf_add_slice(&s->queue, bytes);
    write_input(s);
}

void kubelet_session_end_input(struct kubelet_session *s)
{
    if (s->tty)
        return;
    s->input_ended = true;
    write_input(s);
}

size_t kubelet_session_pending(const struct kubelet_session *s)
{
    return s->queue.len + (s->writing ? s->sent.len : 0);
}

void kubelet_session_resize(struct kubelet_session *s, uint16_t columns, uint16_t rows)
{
    struct winsize size = {.ws_col = columns, .ws_row = rows};
    if (s->master >= 0 && s->pipes[0].reading)
        ioctl(s->master, TIOCSWINSZ, &size);
}

// --- the start ---

// The descriptors of both sides; -1: none.
struct ends {
    int ours[N_PIPES], theirs[N_PIPES];
};

static void ends_finish(struct ends *e)
{
    for (size_t i = 0; i < N_PIPES; i++) {
        gs_closep(&e->ours[i]);
        if (i == 0 || e->theirs[i] != e->theirs[0])
            gs_closep(&e->theirs[i]);
    }
}

static struct gs_error *make_pipe(struct ends *e, size_t i)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return gs_error_errno(errno, "pipe");
    e->ours[i] = fds[i == 0 ? 1 : 0];
    e->theirs[i] = fds[i == 0 ? 0 : 1];
    return NULL;
}

static struct gs_error *make_terminal(struct ends *e)
{
    int slave = -1;
    struct gs_error *err = kubelet_open_terminal(&e->ours[0], &slave);
    e->theirs[0] = e->theirs[1] = e->theirs[2] = slave;
    return err;
}

static struct gs_error *make_ends(const struct kubelet_remote_options *o, struct ends *e)
{
    struct gs_error *err = make_pipe(e, REPORT);
    if (!err && o->tty)
        return make_terminal(e);
    if (!err && o->has_stdin)
        err = make_pipe(e, 0);
    if (!err && o->has_stdout)
        err = make_pipe(e, 1);
    if (!err && o->has_stderr)
        err = make_pipe(e, 2);
    return err;
}

struct session_args {
    const char **items;
    size_t len, cap;
};

static void session_args_finish(struct session_args *l)
{
    free(l->items);
}

static void add_session_arg(struct session_args *l, const char *s)
{
    gs_grow(&l->items, &l->cap, l->len, sizeof(*l->items));
    l->items[l->len++] = s;
}

static void add_session_option(struct session_args *l, const char *name, const char *value)
{
    if (!value)
        return;
    add_session_arg(l, name);
    add_session_arg(l, value);
}

static int spawn(uv_loop_t *loop, struct kubelet_session *s,
                 const struct kubelet_session_spec *spec, const struct ends *e)
{
    char parent[16], join[16];
    snprintf(parent, sizeof(parent), "%d", (int)getpid());
    snprintf(join, sizeof(join), "%d", (int)spec->join);
    GS_CLEANUP(session_args_finish) struct session_args args = {0};
    add_session_arg(&args, spec->self_exe);
    add_session_arg(&args, "pod-shim");
    add_session_option(&args, "--parent", parent);
    add_session_option(&args, "--report-fd", "3");
    add_session_option(&args, "--session", s->tty ? "terminal" : "pipes");
    add_session_option(&args, "--hostname", spec->hostname);
    add_session_option(&args, "--join", spec->join ? join : NULL);
    add_session_option(&args, "--cwd", spec->cwd);
    add_session_option(&args, "--preload", spec->preload);
    add_session_arg(&args, "--");
    for (size_t i = 0; spec->argv[i]; i++)
        add_session_arg(&args, spec->argv[i]);
    add_session_arg(&args, NULL);
    uv_stdio_container_t stdio[N_PIPES];
    for (size_t i = 0; i < N_PIPES; i++) {
        stdio[i].flags = e->theirs[i] < 0 ? UV_IGNORE : UV_INHERIT_FD;
        stdio[i].data.fd = e->theirs[i];
    }
    uv_process_options_t options = {
        .exit_cb = on_session_exit,
        .file = spec->self_exe,
        .args = (char **)args.items,
        .env = (char **)spec->env,
        .cwd = "/",
        .stdio = stdio,
        .stdio_count = N_PIPES,
    };
    s->child.data = s;
    s->has_child = true;
    s->n_handles++;
    return uv_spawn(loop, &s->child, &options);
}

static int open_pipes(uv_loop_t *loop, struct kubelet_session *s, struct ends *e)
{
    for (size_t i = 0; i < N_PIPES; i++) {
        struct session_pipe *pipe = &s->pipes[i];
        if (e->ours[i] < 0)
            continue;
        uv_pipe_init(loop, &pipe->uv, 0);
        pipe->uv.data = pipe;
        pipe->has_handle = true;
        s->n_handles++;
        int rc = uv_pipe_open(&pipe->uv, e->ours[i]);
        if (rc < 0)
            return rc;
        e->ours[i] = -1;
        pipe->reading = i != 0 || s->tty;
        set_reading(pipe, true);
    }
    return 0;
}

struct gs_error *kubelet_session_start(uv_loop_t *loop, const struct kubelet_session_spec *spec,
                                       const struct kubelet_session_callbacks *cb, void *arg,
                                       struct kubelet_session **ret)
{
    GS_CLEANUP(ends_finish)
    struct ends e = {.ours = {-1, -1, -1, -1}, .theirs = {-1, -1, -1, -1}};
    struct gs_error *err = make_ends(&spec->streams, &e);
    if (err)
        return err;
    struct kubelet_session *s = gs_alloc(sizeof(*s));
    s->cb = *cb;
    s->arg = arg;
    s->tty = spec->streams.tty;
    s->master = s->tty ? e.ours[0] : -1;
    for (size_t i = 0; i < N_PIPES; i++)
        s->pipes[i].s = s;
    int rc = spawn(loop, s, spec, &e);
    if (rc < 0)
        s->exited = true;
    else
        rc = open_pipes(loop, s, &e);
    if (rc < 0) {
        kubelet_session_free(s);
        return gs_error_errno(-rc, "starting %s", spec->self_exe);
    }
    *ret = s;
    return NULL;
}
