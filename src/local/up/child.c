// SPDX-License-Identifier: Apache-2.0
// A child process whose output becomes lines: started again with exponential backoff, stopped by
// SIGTERM and, after a while, SIGKILL. Memory is freed when all handles are closed, so freeing is
// possible at any time.
#include "up/up_private.h"

#include "base/assert.h"
#include "base/backoff.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/timer.h"

#include <signal.h>
#include <unistd.h>

extern char **environ;

#define FIRST_DELAY_MS 500
#define MAX_DELAY_MS   30000
#define STABLE_NS      (10 * GS_NS_PER_SEC) // longer runs reset the delay
#define KILL_AFTER_MS  UINT64_C(2000)
#define MAX_LINE       ((size_t)8192)

struct up_child {
    uv_loop_t *loop;
    struct up_child_config cfg;
    char **argv, **env;
    uv_process_t process;
    uv_pipe_t pipe;         // both output streams
    struct gs_timer *timer; // restart, or kill
    bool running, pipe_open, process_open, stopping, freed;
    unsigned open_handles;
    int64_t started_ns;
    int64_t delay_ms; // before the last restart; 0: none yet
    struct gs_buf line;
    char chunk[4096];
};

static char **copy_strings(const char *const *list, char *const *base)
{
    size_t n = 0, n_base = 0, k = 0;
    while (list && list[n])
        n++;
    while (base && base[n_base])
        n_base++;
    char **out = gs_alloc_array(n + n_base + 1, sizeof(*out));
    for (size_t i = 0; list && list[i]; i++)
        out[k++] = gs_strdup(list[i]);
    for (size_t i = 0; base && base[i]; i++)
        out[k++] = gs_strdup(base[i]);
    return out;
}

static void free_strings(char **list)
{
    for (size_t i = 0; list && list[i]; i++)
        free(list[i]);
    free(list);
}

static void free_when_closed(struct up_child *c)
{
    if (!c->freed || c->open_handles)
        return;
    free_strings(c->argv);
    free_strings(c->env);
    gs_buf_finish(&c->line);
    free(c);
}

static void on_timer_closed(void *arg)
{
    struct up_child *c = arg;
    gs_assert(c->open_handles > 0);
    c->open_handles--;
    free_when_closed(c);
}

static void on_handle_closed(uv_handle_t *h)
{
    on_timer_closed(h->data);
}

static void close_handle(void *handle, bool *is_open)
{
    if (!*is_open)
        return;
    *is_open = false;
    uv_close(handle, on_handle_closed);
}

static void flush_lines(struct up_child *c, bool end)
{
    for (;;) {
        char *newline = c->line.len ? memchr(c->line.data, '\n', c->line.len) : NULL;
        size_t n = newline ? (size_t)(newline - c->line.data) : c->line.len;
        if (!newline && !(end && n) && n < MAX_LINE)
            return;
        GS_AUTO_FREE char *text = gs_strndup(c->line.data, n);
        gs_buf_consume(&c->line, newline ? n + 1 : n);
        if (c->cfg.on_line && !c->freed)
            c->cfg.on_line(c->cfg.arg, text);
    }
}

static void on_output_buffer(uv_handle_t *h, size_t suggested, uv_buf_t *ret)
{
    (void)suggested;
    struct up_child *c = h->data;
    *ret = uv_buf_init(c->chunk, sizeof(c->chunk));
}

static void on_output(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct up_child *c = stream->data;
    if (n > 0)
        gs_buf_add(&c->line, buf->base, (size_t)n);
    flush_lines(c, n < 0);
    if (n < 0)
        close_handle(&c->pipe, &c->pipe_open);
}

static struct gs_error *spawn_child(struct up_child *c);

static void on_restart_timer(void *arg)
{
    struct up_child *c = arg;
    struct gs_error *err = spawn_child(c);
    if (!err)
        return;
    gs_err("up", "%s", gs_error_message(err));
    gs_error_free(err);
    gs_timer_start(c->timer, on_restart_timer, MAX_DELAY_MS);
}

static void on_exit_status(uv_process_t *process, int64_t status, int term_signal)
{
    struct up_child *c = process->data;
    gs_assert(c->running && c->process_open);
    c->running = false;
    close_handle(&c->process, &c->process_open);
    if (c->freed) // and the timer, too, if this is a later turn of the loop
        return;
    gs_timer_stop(c->timer);
    if (c->cfg.restart && !c->stopping) {
        if (gs_mono_ns() - c->started_ns > STABLE_NS)
            c->delay_ms = 0;
        c->delay_ms = gs_backoff_next(c->delay_ms, FIRST_DELAY_MS, MAX_DELAY_MS);
        gs_warn("up", "%s ended (%s %d); restarting it in %.1f s", c->cfg.name,
                term_signal ? "signal" : "exit code", term_signal ? term_signal : (int)status,
                (double)c->delay_ms / 1e3);
        gs_timer_start(c->timer, on_restart_timer, (uint64_t)c->delay_ms);
    }
    if (c->cfg.on_exit)
        c->cfg.on_exit(c->cfg.arg, status, term_signal);
}

static struct gs_error *spawn_child(struct up_child *c)
{
    gs_assert(!c->running && !c->freed);
    // A grandchild may keep the pipe of the previous run open: close it before it is used again.
    if (c->pipe_open || c->process_open) {
        close_handle(&c->pipe, &c->pipe_open);
        gs_timer_start(c->timer, on_restart_timer, 10);
        return NULL;
    }
    uv_pipe_init(c->loop, &c->pipe, 0);
    c->pipe.data = c;
    c->pipe_open = true;
    c->open_handles++;
    int fds[2]; // one pipe for both streams, so that their lines stay in order
    int rc = uv_pipe(fds, UV_NONBLOCK_PIPE, 0);
    if (rc) {
        close_handle(&c->pipe, &c->pipe_open);
        return gs_error_new(GS_EIO, "a pipe for %s: %s", c->cfg.name, uv_strerror(rc));
    }
    uv_pipe_open(&c->pipe, fds[0]);
    uv_stdio_container_t stdio[3] = {
        {.flags = UV_IGNORE},
        {.flags = UV_INHERIT_FD, .data.fd = fds[1]},
        {.flags = UV_INHERIT_FD, .data.fd = fds[1]},
    };
    uv_process_options_t options = {
        .exit_cb = on_exit_status,
        .file = c->argv[0],
        .args = c->argv,
        .env = c->env,
        .stdio = stdio,
        .stdio_count = 3,
    };
    rc = uv_spawn(c->loop, &c->process, &options);
    c->process_open = true; // the handle needs closing even after a failure
    c->open_handles++;
    close(fds[1]);
    c->process.data = c;
    if (rc) {
        close_handle(&c->pipe, &c->pipe_open);
        close_handle(&c->process, &c->process_open);
        return gs_error_new(GS_EIO, "cannot start %s: %s", c->argv[0], uv_strerror(rc));
    }
    c->running = true;
    c->started_ns = gs_mono_ns();
    uv_read_start((uv_stream_t *)&c->pipe, on_output_buffer, on_output);
    return NULL;
}

struct gs_error *up_child_start(uv_loop_t *loop, const struct up_child_config *cfg,
                                struct up_child **ret)
{
    struct up_child *c = gs_alloc(sizeof(*c));
    c->loop = loop;
    c->cfg = *cfg;
    c->argv = copy_strings(cfg->argv, NULL);
    c->env = copy_strings(cfg->extra_env, environ);
    c->timer = gs_timer_new(loop, c);
    c->open_handles = 1;
    struct gs_error *err = spawn_child(c);
    if (err) {
        up_child_free(c);
        return err;
    }
    *ret = c;
    return NULL;
}

static void on_kill_timer(void *arg)
{
    struct up_child *c = arg;
    if (c->running)
        uv_process_kill(&c->process, SIGKILL);
}

void up_child_stop(struct up_child *c)
{
    if (!c || c->stopping)
        return;
    c->stopping = true;
    gs_timer_stop(c->timer);
    if (!c->running)
        return;
    uv_process_kill(&c->process, SIGTERM);
    gs_timer_start(c->timer, on_kill_timer, KILL_AFTER_MS);
}

void up_child_free(struct up_child *c)
{
    if (!c)
        return;
    c->freed = true;
    if (c->running)
        uv_process_kill(&c->process, SIGKILL);
    else
        close_handle(&c->process, &c->process_open);
    close_handle(&c->pipe, &c->pipe_open);
    gs_timer_close(c->timer, on_timer_closed);
}
