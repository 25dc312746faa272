// SPDX-License-Identifier: Apache-2.0
// One run of a user's command, in its own process group, with a timeout and bounded output.
//
// The process waits for a line on its standard input before it becomes the command. Meanwhile its
// identity is written to the state file. If gpuscale is killed in between, the process reads the
// end of the file and exits. Therefore no command ever runs that the state file does not contain.
#include "node_provider/node_provider_private.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>

#define MAX_OUTPUT    ((size_t)4 * 1024 * 1024)
#define MAX_LINE      1000 // of standard error, for logs
#define TERM_GRACE_MS 5000 // between SIGTERM and SIGKILL after a timeout
#define OUTPUT_MS     1000 // for the rest of the output after the end; a daemon may hold the pipe
#define POLL_MS       200  // of a process of an earlier run

struct node_provider_command {
    uv_loop_t *loop;
    uv_process_t process;
    uv_pipe_t in, out, err_out;
    uv_write_t release;
    struct gs_timer *timer;
    struct gs_buf output, line;
    char *label, *last_line;
    int64_t timeout_ms, pid;
    int open_handles;
    char *identity; // of an adopted process
    bool adopted, exited, out_ended, timed_out, flooded, done, freed, killed;
    int64_t status;
    int signal;
    node_provider_command_fn cb;
    void *arg;
    char buffer[8192];
};

// --- identity of processes ---

static bool read_start_time(int64_t pid, uint64_t *ret_start, char *ret_state)
{
    char path[64];
    GS_AUTO_BUF struct gs_buf text = {0};
    snprintf(path, sizeof(path), "/proc/%" PRId64 "/stat", pid);
    GS_AUTO_ERROR struct gs_error *err = gs_file_read(path, 4096, &text);
    if (err || !text.data)
        return false;
    // The name, in parentheses, may contain anything. State is field 3, the start time field 22.
    const char *name_end = strrchr(text.data, ')');
    if (!name_end || name_end[1] != ' ')
        return false;
    struct gs_slice rest = gs_slice_of(name_end + 2), field = {0};
    for (int i = 3; i <= 22 && rest.data; i++) {
        field = gs_slice_cut(&rest, ' ');
        if (i == 3 && field.len > 0)
            *ret_state = field.data[0];
    }
    GS_AUTO_ERROR struct gs_error *bad = gs_parse_u64(field, UINT64_MAX, ret_start);
    return !bad;
}

static const char *boot_id(void)
{
    static char id[64];
    if (!*id) {
        GS_AUTO_BUF struct gs_buf text = {0};
        GS_AUTO_ERROR struct gs_error *err =
            gs_file_read("/proc/sys/kernel/random/boot_id", 64, &text);
        const struct gs_slice trimmed = gs_slice_trim(gs_buf_slice(&text));
        snprintf(id, sizeof(id), GS_SLICE_FMT, GS_SLICE_ARG(err ? GS_SLICE("-") : trimmed));
    }
    return id;
}

static char *identity_of(int64_t pid)
{
    uint64_t start = 0;
    char state = 0;
    if (!read_start_time(pid, &start, &state))
        return gs_strdup("");
    return gs_format("%" PRId64 " %" PRIu64 " %s", pid, start, boot_id());
}

static int64_t identity_pid(const char *identity)
{
    return strtoll(identity, NULL, 10);
}

bool node_provider_process_alive(const char *identity)
{
    const int64_t pid = identity_pid(identity);
    uint64_t start = 0;
    char state = 0;
    if (pid <= 1 || !read_start_time(pid, &start, &state) || state == 'Z' || state == 'X')
        return false;
    GS_AUTO_FREE char *now = gs_format("%" PRId64 " %" PRIu64 " %s", pid, start, boot_id());
    return gs_streq(now, identity);
}

// --- end ---

static void release_memory(struct node_provider_command *c)
{
    gs_timer_free(c->timer);
    gs_buf_finish(&c->output);
    gs_buf_finish(&c->line);
    free(c->label);
    free(c->last_line);
    free(c->identity);
    free(c);
}

static void on_handle_closed(uv_handle_t *h)
{
    struct node_provider_command *c = h->data;
    if (--c->open_handles == 0 && c->freed)
        release_memory(c);
}

static void close_handle(void *handle)
{
    uv_handle_t *h = handle;
    if (!uv_is_closing(h))
        uv_close(h, on_handle_closed);
}

static void close_handles(struct node_provider_command *c)
{
    gs_timer_stop(c->timer);
    if (c->adopted)
        return;
    close_handle(&c->process);
    close_handle(&c->in);
    close_handle(&c->out);
    close_handle(&c->err_out);
}

void node_provider_command_free(struct node_provider_command *c)
{
    if (!c)
        return;
    c->freed = true;
    close_handles(c);
    if (c->open_handles == 0)
        release_memory(c);
}

static void flush_line(struct node_provider_command *c)
{
    if (c->line.len == 0)
        return;
    gs_info("node-provider", "%s: %s", c->label, c->line.data);
    free(c->last_line);
    c->last_line = gs_buf_take(&c->line);
}

static char *describe_end(const struct node_provider_command *c)
{
    const char *line = c->last_line ? c->last_line : "";
    const char *sep = *line ? ": " : "";
    if (c->adopted)
        return gs_strdup(c->timed_out ? "the command of an earlier run was killed: timeout"
                                      : "the command belonged to an earlier run of gpuscale");
    if (c->timed_out) {
        char time[GS_RFC3339_SIZE];
        return gs_format("the command did not end within %s and was killed%s%s",
                         gs_format_duration(c->timeout_ms * GS_NS_PER_MS, time), sep, line);
    }
    if (c->flooded)
        return gs_format("the command printed more than %zu MiB and was killed",
                         MAX_OUTPUT / 1024 / 1024);
    if (c->signal)
        return gs_format("the command was killed by signal %d (%s)%s%s", c->signal,
                         strsignal(c->signal), sep, line);
    return c->status ? gs_format("exit status %" PRId64 "%s%s", c->status, sep, line)
                     : gs_strdup("");
}

static void finish_command(struct node_provider_command *c)
{
    if (c->done)
        return;
    c->done = true;
    flush_line(c);
    close_handles(c);
    GS_AUTO_FREE char *text = describe_end(c);
    const struct node_provider_result result = {
        .ok = !c->adopted && !c->timed_out && !c->flooded && c->status == 0 && c->signal == 0,
        .unknown = c->adopted,
        .timed_out = c->timed_out,
        .status = c->status,
        .output = gs_buf_slice(&c->output),
        .text = text,
    };
    if (c->cb)
        c->cb(c->arg, &result);
}

static void on_output_time(void *arg)
{
    finish_command(arg);
}

static void on_exit_status(uv_process_t *p, int64_t status, int signal)
{
    struct node_provider_command *c = p->data;
    c->exited = true;
    c->status = status;
    c->signal = signal;
    if (c->killed) // children that ignore SIGTERM
        (void)kill(-(pid_t)c->pid, SIGKILL);
    if (c->done || c->freed)
        return;
    if (c->out_ended)
        finish_command(c);
    else
        gs_timer_start(c->timer, on_output_time, OUTPUT_MS);
}

// --- timeout ---

static void kill_group(struct node_provider_command *c, int signal)
{
    if (c->adopted ? node_provider_process_alive(c->identity) : !c->exited)
        (void)kill(-(pid_t)c->pid, signal);
}

static void on_kill_time(void *arg)
{
    struct node_provider_command *c = arg;
    kill_group(c, SIGKILL);
}

static void end_group(struct node_provider_command *c)
{
    if (c->killed)
        return;
    c->killed = true;
    kill_group(c, SIGTERM);
    gs_timer_start(c->timer, on_kill_time, TERM_GRACE_MS);
}

static void on_timeout(void *arg)
{
    struct node_provider_command *c = arg;
    c->timed_out = true;
    end_group(c);
}

// --- output ---

static void on_alloc(uv_handle_t *h, size_t size, uv_buf_t *ret)
{
    struct node_provider_command *c = h->data;
    (void)size;
    *ret = uv_buf_init(c->buffer, sizeof(c->buffer));
}

static void on_output(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    struct node_provider_command *c = s->data;
    if (n > 0) {
        if (c->output.len + (size_t)n <= MAX_OUTPUT) {
            gs_buf_add(&c->output, buf->base, (size_t)n);
        } else if (!c->flooded) {
            c->flooded = true;
            end_group(c);
        }
    } else if (n < 0) {
        (void)uv_read_stop(s);
        c->out_ended = true;
        if (c->exited)
            finish_command(c);
    }
}

static void on_errors(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    struct node_provider_command *c = s->data;
    if (n < 0)
        (void)uv_read_stop(s);
    for (ssize_t i = 0; i < n; i++) {
        const unsigned char byte = (unsigned char)buf->base[i];
        if (byte == '\n')
            flush_line(c);
        else if (c->line.len < MAX_LINE && byte != '\r')
            gs_buf_add_char(&c->line, (char)(byte < ' ' || byte == 0x7f ? ' ' : byte));
    }
}

// --- start ---

static char **gate_argv(const struct node_provider_command_spec *spec)
{
    static const char script[] = "IFS= read -r go && exec \"$@\" </dev/null";
    char **argv = gs_alloc_array(spec->n_argv + 5, sizeof(*argv));
    size_t n = 0;
    argv[n++] = gs_strdup("/bin/sh");
    argv[n++] = gs_strdup("-c");
    argv[n++] = gs_strdup(script);
    argv[n++] = gs_strdup("gpuscale");
    for (size_t i = 0; i < spec->n_argv; i++)
        argv[n++] = gs_strdup(spec->argv[i]);
    return argv;
}

// The environment of gpuscale with these variables instead of its own of the same names.
static char **gate_env(const struct node_provider_command_spec *spec)
{
    size_t n = 0, n_own = 0;
    while (environ[n_own])
        n_own++;
    char **env = gs_alloc_array(n_own + spec->n_env + 1, sizeof(*env));
    for (size_t i = 0; i < n_own; i++)
        env[n++] = gs_strdup(environ[i]);
    for (size_t i = 0; i < spec->n_env; i++) {
        const size_t key = (size_t)(strchr(spec->env[i], '=') - spec->env[i]) + 1;
        for (size_t k = 0; k < n; k++)
            if (strncmp(env[k], spec->env[i], key) == 0) {
                free(env[k]);
                env[k] = env[--n];
                env[n] = NULL;
            }
        env[n++] = gs_strdup(spec->env[i]);
    }
    return env;
}

static void free_texts(char **texts)
{
    for (size_t i = 0; texts[i]; i++)
        free(texts[i]);
    free(texts);
}

static void init_pipe(struct node_provider_command *c, uv_pipe_t *p)
{
    uv_pipe_init(c->loop, p, 0);
    p->data = c;
    c->open_handles++;
}

static int spawn_gate(struct node_provider_command *c,
                      const struct node_provider_command_spec *spec)
{
    uv_stdio_container_t stdio[3] = {
        {.flags = UV_CREATE_PIPE | UV_READABLE_PIPE, .data.stream = (uv_stream_t *)&c->in},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&c->out},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&c->err_out},
    };
    char **argv = gate_argv(spec), **env = gate_env(spec);
    const uv_process_options_t options = {
        .exit_cb = on_exit_status,
        .file = argv[0],
        .args = argv,
        .env = env,
        .cwd = spec->cwd,
        .flags = UV_PROCESS_DETACHED, // its own session and process group
        .stdio_count = 3,
        .stdio = stdio,
    };
    const int rc = uv_spawn(c->loop, &c->process, &options);
    free_texts(argv);
    free_texts(env);
    return rc;
}

static struct node_provider_command *new_command(uv_loop_t *loop, const char *label,
                                                 int64_t timeout_ms, node_provider_command_fn cb,
                                                 void *arg)
{
    struct node_provider_command *c = gs_alloc(sizeof(*c));
    c->loop = loop;
    c->label = gs_strdup(label);
    c->timeout_ms = timeout_ms;
    c->timer = gs_timer_new(loop, c);
    c->cb = cb;
    c->arg = arg;
    return c;
}

struct gs_error *node_provider_command_new(uv_loop_t *loop,
                                           const struct node_provider_command_spec *spec,
                                           node_provider_command_fn cb, void *arg,
                                           struct node_provider_command **ret)
{
    struct node_provider_command *c = new_command(loop, spec->label, spec->timeout_ms, cb, arg);
    init_pipe(c, &c->in);
    init_pipe(c, &c->out);
    init_pipe(c, &c->err_out);
    c->process.data = c;
    c->open_handles++;
    const int rc = spawn_gate(c, spec);
    if (rc < 0) {
        node_provider_command_free(c);
        return gs_error_new(GS_EIO, "starting /bin/sh in %s: %s", spec->cwd ? spec->cwd : ".",
                            uv_strerror(rc));
    }
    c->pid = c->process.pid;
    uv_read_start((uv_stream_t *)&c->out, on_alloc, on_output);
    uv_read_start((uv_stream_t *)&c->err_out, on_alloc, on_errors);
    *ret = c;
    return NULL;
}

char *node_provider_command_identity(const struct node_provider_command *c)
{
    return c->adopted ? gs_strdup(c->identity) : identity_of(c->pid);
}

static void on_released(uv_write_t *w, int status)
{
    (void)status; // if the process has ended, its exit status is reported
    struct node_provider_command *c = w->data;
    if (!c->freed)
        close_handle(&c->in);
}

void node_provider_command_release(struct node_provider_command *c)
{
    static char go[] = "go\n";
    const uv_buf_t buf = uv_buf_init(go, 3);
    c->release.data = c;
    (void)uv_write(&c->release, (uv_stream_t *)&c->in, &buf, 1, on_released);
    gs_timer_start(c->timer, on_timeout, (uint64_t)c->timeout_ms);
}

// --- processes of an earlier run ---

static void on_poll(void *arg)
{
    struct node_provider_command *c = arg;
    if (!node_provider_process_alive(c->identity)) {
        finish_command(c);
        return;
    }
    c->timeout_ms -= POLL_MS;
    if (c->timeout_ms <= 0) {
        (void)kill(-(pid_t)c->pid, c->timed_out ? SIGKILL : SIGTERM);
        c->timed_out = true;
        c->timeout_ms = TERM_GRACE_MS;
    }
}

struct node_provider_command *node_provider_command_adopt(uv_loop_t *loop, const char *identity,
                                                          const char *label, int64_t timeout_ms,
                                                          node_provider_command_fn cb, void *arg)
{
    struct node_provider_command *c = new_command(loop, label, timeout_ms, cb, arg);
    c->adopted = true;
    c->identity = gs_strdup(identity);
    c->pid = identity_pid(identity);
    gs_timer_repeat(c->timer, on_poll, 0, POLL_MS);
    return c;
}
