// SPDX-License-Identifier: Apache-2.0
// A container's process as the kubelet sees it: a supervisor (pod-shim) that it starts, with a
// pipe for reports. The exit and the ends of the pipes arrive in any order; the process has ended
// when all have.
#include "local/kubelet/process.h"

#include "base/clock.h"
#include "base/mem.h"
#include "local/kubelet/shim.h"

#include <limits.h>
#include <signal.h>
#include <unistd.h>

enum { REPORT_FD = 3 };

struct kubelet_process {
    uv_process_t child; // the supervisor
    uv_pipe_t report, output;
    struct kubelet_process_callbacks cb;
    void *arg;
    char *status_path;
    int64_t started_ms;
    int64_t exit_status;
    int term_signal;
    int n_handles; // not yet closed
    bool exited, report_open, output_open, detached, freed;
};

pid_t kubelet_process_pid(const struct kubelet_process *p)
{
    return (pid_t)p->child.pid;
}

static void destroy(struct kubelet_process *p)
{
    free(p->status_path);
    free(p);
}

static void on_closed(uv_handle_t *handle)
{
    struct kubelet_process *p = handle->data;
    if (--p->n_handles == 0 && p->freed)
        destroy(p);
}

static void close_handle(void *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, on_closed);
}

static void release(struct kubelet_process *p)
{
    p->freed = true;
    close_handle(&p->child);
    close_handle(&p->report);
    close_handle(&p->output);
    if (p->n_handles == 0)
        destroy(p);
}

// The result borrows the message of ret_status.
static struct kubelet_process_exit describe_exit(const struct kubelet_process *p,
                                                 struct kubelet_shim_status *ret_status)
{
    struct kubelet_process_exit e = {
        .exit_code = p->term_signal ? 128 + p->term_signal : (int)p->exit_status,
        .started_ms = p->started_ms,
        .finished_ms = gs_unix_ms(),
        .supervisor_died = p->term_signal != 0,
    };
    struct kubelet_shim_status *s = ret_status;
    if (!p->status_path)
        return e;
    GS_AUTO_ERROR struct gs_error *err = kubelet_shim_status_read(p->status_path, s);
    if (err)
        return e;
    e.started_ms = s->started_ms;
    if (s->finished_ms) {
        e.finished_ms = s->finished_ms;
        e.exit_code = s->exit_code;
        e.exec_errno = s->exec_errno;
        e.message = s->message;
    }
    return e;
}

// The exit and the ends of the pipes come in any order.
static void maybe_ended(struct kubelet_process *p)
{
    if (!p->exited || p->report_open || p->output_open)
        return;
    if (p->detached) {
        release(p);
        return;
    }
    struct kubelet_shim_status s = {0};
    struct kubelet_process_exit e = describe_exit(p, &s);
    p->cb.on_exit(p->arg, &e);
}

static void on_child_exit(uv_process_t *child, int64_t exit_status, int term_signal)
{
    struct kubelet_process *p = child->data;
    p->exited = true;
    p->exit_status = exit_status;
    p->term_signal = term_signal;
    maybe_ended(p);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    static char chunk[16384]; // used up before the next read: one loop, one thread
    (void)handle, (void)suggested;
    *buf = uv_buf_init(chunk, sizeof(chunk));
}

static void on_report(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct kubelet_process *p = stream->data;
    (void)buf;
    if (n > 0 && !p->detached && p->cb.on_started)
        p->cb.on_started(p->arg);
    if (n >= 0)
        return;
    uv_read_stop(stream);
    p->report_open = false;
    maybe_ended(p);
}

static void on_output(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct kubelet_process *p = stream->data;
    if (n > 0 && !p->detached && p->cb.on_output)
        p->cb.on_output(p->arg, gs_slice_make(buf->base, (size_t)n));
    if (n >= 0)
        return;
    uv_read_stop(stream);
    p->output_open = false;
    maybe_ended(p);
}

struct arg_list {
    const char **items;
    size_t len, cap;
};

static void arg_list_finish(struct arg_list *l)
{
    free(l->items);
}

static void add_arg(struct arg_list *l, const char *s)
{
    gs_grow(&l->items, &l->cap, l->len, sizeof(*l->items));
    l->items[l->len++] = s;
}

static void add_option(struct arg_list *l, const char *name, const char *value)
{
    if (!value)
        return;
    add_arg(l, name);
    add_arg(l, value);
}

static int spawn(uv_loop_t *loop, struct kubelet_process *p,
                 const struct kubelet_process_spec *spec)
{
    char parent[16], grace[16], fd[16], join[16];
    snprintf(parent, sizeof(parent), "%d", (int)getpid());
    snprintf(grace, sizeof(grace), "%u", spec->grace_ms > INT_MAX ? INT_MAX : spec->grace_ms);
    snprintf(fd, sizeof(fd), "%d", REPORT_FD);
    snprintf(join, sizeof(join), "%d", (int)spec->join);
    GS_CLEANUP(arg_list_finish) struct arg_list args = {0};
    add_arg(&args, spec->self_exe);
    add_arg(&args, "pod-shim");
    add_option(&args, "--parent", parent);
    add_option(&args, "--grace", grace);
    add_option(&args, "--report-fd", fd);
    add_option(&args, "--log", spec->log_path);
    add_option(&args, "--status", spec->status_path);
    add_option(&args, "--console", spec->console_path);
    add_option(&args, "--stdin", spec->with_stdin ? "yes" : NULL);
    add_option(&args, "--tty", spec->tty ? "yes" : NULL);
    add_option(&args, "--preload", spec->preload);
    add_option(&args, "--cwd", spec->inner_cwd);
    add_option(&args, "--hostname", spec->hostname);
    add_option(&args, "--join", spec->join ? join : NULL);
    add_option(&args, "--staging", spec->staging);
    for (size_t i = 0; spec->mounts && i < spec->mounts->len; i++)
        add_option(&args, "--mount", spec->mounts->items[i]);
    for (size_t i = 0; spec->keep && i < spec->keep->len; i++)
        add_option(&args, "--keep", spec->keep->items[i]);
    add_arg(&args, "--");
    for (size_t i = 0; spec->argv[i]; i++)
        add_arg(&args, spec->argv[i]);
    add_arg(&args, NULL);
    uv_stdio_container_t stdio[REPORT_FD + 1] = {
        {.flags = UV_IGNORE},
        {.flags = UV_IGNORE},
        {.flags = UV_IGNORE},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&p->report},
    };
    if (!spec->log_path)
        stdio[1] = (uv_stdio_container_t){.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE,
                                          .data.stream = (uv_stream_t *)&p->output};
    uv_process_options_t options = {
        .exit_cb = on_child_exit,
        .file = spec->self_exe,
        .args = (char **)args.items,
        .env = (char **)spec->env,
        .cwd = spec->cwd,
        .stdio = stdio,
        .stdio_count = GS_ARRAY_LEN(stdio),
    };
    return uv_spawn(loop, &p->child, &options);
}

struct gs_error *kubelet_process_start(uv_loop_t *loop, const struct kubelet_process_spec *spec,
                                       const struct kubelet_process_callbacks *cb, void *arg,
                                       struct kubelet_process **ret)
{
    struct kubelet_process *p = gs_alloc(sizeof(*p));
    *p = (struct kubelet_process){
        .cb = *cb,
        .arg = arg,
        .status_path = gs_strdup(spec->status_path),
        .started_ms = gs_unix_ms(),
        .n_handles = 3,
    };
    uv_pipe_init(loop, &p->report, 0);
    uv_pipe_init(loop, &p->output, 0);
    p->child.data = p->report.data = p->output.data = p;
    int rc = spawn(loop, p, spec);
    if (rc < 0) {
        release(p);
        return gs_error_errno(-rc, "starting %s in %s", spec->self_exe, spec->cwd);
    }
    p->report_open = true;
    uv_read_start((uv_stream_t *)&p->report, on_alloc, on_report);
    if (!spec->log_path) {
        p->output_open = true;
        uv_read_start((uv_stream_t *)&p->output, on_alloc, on_output);
    }
    *ret = p;
    return NULL;
}

void kubelet_process_stop(struct kubelet_process *p, int64_t grace_ms)
{
    if (p->exited)
        return;
    union sigval value = {.sival_int = grace_ms > INT_MAX ? INT_MAX : (int)grace_ms};
    sigqueue(p->child.pid, KUBELET_SHIM_SIGNAL_STOP, value);
}

void kubelet_process_free(struct kubelet_process *p)
{
    if (!p)
        return;
    p->detached = true;
    kubelet_process_stop(p, 0);
    if (p->exited && !p->report_open && !p->output_open)
        release(p);
}
