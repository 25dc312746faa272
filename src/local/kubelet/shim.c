// SPDX-License-Identifier: Apache-2.0
// pod-shim: the process between the kubelet and a container's command. It prepares namespaces,
// writes the log and the status file, stops the command with a grace time, and kills all
// descendants at the end (it is their subreaper). If the kubelet dies, the command is ended, too.
#include "local/kubelet/shim.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "local/kubelet.h"
#include "local/kubelet/console.h"
#include "local/kubelet/kept.h"
#include "local/kubelet/mounts.h"
#include "local/ports.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

enum { DEFAULT_GRACE_MS = 30000, REAP_PAUSE_MS = 2, REAP_PAUSE_MAX_MS = 100 };

struct shim_options {
    pid_t parent; // 0: whoever started us
    const char *log, *status, *preload, *staging, *cwd, *hostname;
    char **mounts, **keep; // of argv
    size_t n_mounts, n_keep;
    pid_t join; // 0: no process
    const char *console;
    bool with_stdin, tty;
    bool session, terminal; // the command has our standard streams
    int report_fd;          // -1: none
    int grace_ms;
    char **argv;
};

struct shim_stream {
    const char *name;
    int fd; // -1 after its end
    struct gs_buf pending;
};

struct shim {
    struct shim_options o;
    struct kubelet_shim_status status;
    struct kubelet_shim_log log;
    struct shim_stream streams[2];
    struct kubelet_console console;
    int signal_fd;
    int64_t deadline_ns; // CLOCK_MONOTONIC; 0: none
    bool ended;          // the command's main process
};

static struct gs_error *parse_number(const char *name, const char *text, int *ret)
{
    int64_t v;
    struct gs_error *err = gs_parse_i64(gs_slice_of(text), 0, INT_MAX, &v);
    if (err)
        return gs_error_wrap(err, "pod-shim: --%s", name);
    *ret = (int)v;
    return NULL;
}

static struct gs_error *parse_option(const char *name, const char *value, struct shim_options *o)
{
    if (gs_streq(name, "parent"))
        return parse_number(name, value, &o->parent);
    if (gs_streq(name, "join"))
        return parse_number(name, value, &o->join);
    if (gs_streq(name, "grace"))
        return parse_number(name, value, &o->grace_ms);
    if (gs_streq(name, "report-fd"))
        return parse_number(name, value, &o->report_fd);
    if (gs_streq(name, "log"))
        o->log = value;
    else if (gs_streq(name, "status"))
        o->status = value;
    else if (gs_streq(name, "preload"))
        o->preload = value;
    else if (gs_streq(name, "staging"))
        o->staging = value;
    else if (gs_streq(name, "cwd"))
        o->cwd = value;
    else if (gs_streq(name, "hostname"))
        o->hostname = value;
    else if (gs_streq(name, "mount"))
        o->mounts[o->n_mounts++] = (char *)value;
    else if (gs_streq(name, "keep"))
        o->keep[o->n_keep++] = (char *)value;
    else if (gs_streq(name, "console"))
        o->console = value;
    else if (gs_streq(name, "stdin"))
        o->with_stdin = true;
    else if (gs_streq(name, "tty"))
        o->tty = true;
    else if (gs_streq(name, "session")) {
        o->session = true;
        o->terminal = gs_streq(value, "terminal");
    } else
        return gs_error_new(GS_EINVAL, "pod-shim: unknown option --%s", name);
    return NULL;
}

static struct gs_error *parse_options(int argc, char **argv, struct shim_options *ret)
{
    struct shim_options o = {.report_fd = -1, .grace_ms = DEFAULT_GRACE_MS};
    int i = 1;
    o.mounts = ret->mounts = gs_alloc_array((size_t)argc, sizeof(*o.mounts));
    o.keep = ret->keep = gs_alloc_array((size_t)argc, sizeof(*o.keep));
    for (; i < argc && !gs_streq(argv[i], "--"); i += 2) {
        if (!gs_starts(argv[i], "--") || i + 1 >= argc)
            return gs_error_new(GS_EINVAL, "pod-shim: expected --NAME VALUE, got \"%s\"", argv[i]);
        struct gs_error *err = parse_option(argv[i] + 2, argv[i + 1], &o);
        if (err)
            return err;
    }
    if (i + 1 >= argc)
        return gs_error_new(GS_EINVAL, "pod-shim: no command after \"--\" (this verb is started by "
                                       "gpuscale up)");
    if (o.n_mounts && !o.staging)
        return gs_error_new(GS_EINVAL, "pod-shim: --mount requires --staging");
    o.argv = argv + i + 1;
    *ret = o;
    return NULL;
}

static bool parent_is_gone(const struct shim *s)
{
    return s->o.parent && getppid() != s->o.parent;
}

static struct gs_error *open_signals(int *ret_fd)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, KUBELET_SHIM_SIGNAL_STOP);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return gs_error_errno(errno, "pod-shim: blocking signals");
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return gs_error_errno(errno, "pod-shim: signalfd");
    *ret_fd = fd;
    return NULL;
}

static void preload(const char *library)
{
    const char *others = getenv("LD_PRELOAD");
    GS_AUTO_FREE char *list =
        others && *others ? gs_format("%s:%s", library, others) : gs_strdup(library);
    setenv("LD_PRELOAD", list, 1);
}

// What the child writes into a pipe if the command was not started.
struct start_failure {
    int error; // errno
    char message[KUBELET_SHIM_MAX_MESSAGE];
};

// Root may, and so may an ordinary user in the user namespace of the mounts. Otherwise the command
// has the machine's host name.
static void set_hostname(const char *name)
{
    int ignored = unshare(CLONE_NEWUTS) == 0 ? sethostname(name, strlen(name)) : 0;
    (void)ignored;
}

static struct gs_error *enter_namespaces(const struct shim_options *o)
{
    struct gs_error *err = NULL;
    if (o->join)
        err = kubelet_mounts_join(o->join);
    else if (o->n_mounts)
        err = kubelet_mounts_enter(o->staging, o->mounts, o->n_mounts, o->keep, o->n_keep);
    if (!err && o->hostname)
        set_hostname(o->hostname);
    GS_AUTO_FREE char *cwd = o->cwd ? kubelet_kept_path(o->cwd) : NULL;
    if (!err && cwd && chdir(cwd) < 0)
        err = gs_error_errno(errno, "chdir to cwd (\"%s\")", cwd);
    return err;
}

static bool prepare(const struct shim_options *o, struct start_failure *ret)
{
    GS_AUTO_ERROR struct gs_error *err = enter_namespaces(o);
    if (!err)
        return true;
    ret->error = EINVAL;
    snprintf(ret->message, sizeof(ret->message), "%s", gs_error_message(err));
    for (char *at = ret->message; *at; at++)
        if (*at == '\n')
            *at = ' ';
    return false;
}

// That of this machine's user may be hidden by a volume. Programs then use /tmp.
static void drop_temporary_dir(void)
{
    const char *dir = getenv("TMPDIR");
    if (dir && access(dir, F_OK) < 0)
        unsetenv("TMPDIR");
}

// In the child. Returns the errno of the failure.
static int exec_command(const struct shim_options *o, pid_t shim_pid, const int streams[3])
{
    // After the namespaces, which would clear it.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != shim_pid)
        _exit(KUBELET_SHIM_EXIT_NOT_STARTED);
    setsid();
    for (int sig = 1; sig < NSIG; sig++)
        (void)signal(sig, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (o->session) {
        if (o->terminal && ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0)
            return errno;
    } else {
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
            if (streams[fd] >= 0 && dup2(streams[fd], fd) < 0)
                return errno;
        if (o->tty && ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0)
            return errno;
    }
    if (close_range(STDERR_FILENO + 1, UINT_MAX, CLOSE_RANGE_CLOEXEC) < 0)
        return errno;
    if (o->preload)
        preload(o->preload);
    local_ports_pass_on();
    kubelet_kept_use(o->argv);
    drop_temporary_dir();
    execvp(o->argv[0], o->argv);
    // As a container runtime does: a folder of $PATH that may not be read, or a file in one that is
    // no program, is no different from a folder without the program.
    return errno == EACCES && !strchr(o->argv[0], '/') ? ENOENT : errno;
}

// Those of the command's streams, and one that reports the result of exec: it is closed on success,
// else it has the failure. Each has the end to be read first.
enum { REPORT_PIPE = 3, N_PIPES = 4 };

static void close_pipes(int pipes[N_PIPES][2])
{
    for (size_t i = 0; i < N_PIPES; i++)
        for (size_t j = 0; j < 2; j++) {
            gs_closep(&pipes[i][j]);
            pipes[i][j] = -1;
        }
}

static void read_failure(int fd, struct kubelet_shim_status *ret)
{
    struct start_failure f = {0};
    ssize_t n;
    do
        n = read(fd, &f, sizeof(f));
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof(f))
        return;
    ret->exec_errno = f.error;
    memcpy(ret->message, f.message, sizeof(ret->message));
}

static _Noreturn void run_child(const struct shim_options *o, pid_t shim_pid, int pipes[N_PIPES][2])
{
    struct start_failure f = {0};
    if (prepare(o, &f))
        f.error = exec_command(o, shim_pid,
                               o->tty ? (int[]){pipes[1][1], pipes[1][1], pipes[1][1]}
                                      : (int[]){pipes[0][0], pipes[1][1], pipes[2][1]});
    ssize_t n = write(pipes[REPORT_PIPE][1], &f, sizeof(f));
    _exit(n > 0 ? KUBELET_SHIM_EXIT_NOT_STARTED : 1);
}

// A terminal takes the place of the pipe of stdout.
static struct gs_error *make_pipes(const struct shim_options *o, int pipes[N_PIPES][2])
{
    struct gs_error *err = o->tty ? kubelet_open_terminal(&pipes[1][0], &pipes[1][1]) : NULL;
    const bool wanted[N_PIPES] = {o->with_stdin && !o->tty, !o->tty, !o->tty, true};
    for (size_t i = 0; !err && i < N_PIPES; i++)
        if (wanted[i] && pipe2(pipes[i], O_CLOEXEC) < 0)
            err = gs_error_errno(errno, "pod-shim: pipe");
    return err;
}

static void take_pipes(struct shim *s, int pipes[N_PIPES][2])
{
    for (size_t i = 0; i < 2; i++) {
        s->streams[i].fd = pipes[i + 1][0];
        pipes[i + 1][0] = -1;
        if (s->streams[i].fd >= 0)
            fcntl(s->streams[i].fd, F_SETFL, O_NONBLOCK);
    }
    s->console.terminal = s->o.tty;
    if (s->o.tty && s->o.with_stdin)
        s->console.input_fd = fcntl(s->streams[0].fd, F_DUPFD_CLOEXEC, 0);
    else if (s->o.with_stdin) {
        s->console.input_fd = pipes[0][1];
        pipes[0][1] = -1;
        fcntl(s->console.input_fd, F_SETFL, O_NONBLOCK);
    }
}

static struct gs_error *start_command(struct shim *s)
{
    int pipes[N_PIPES][2] = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
    struct gs_error *err = make_pipes(&s->o, pipes);
    if (err) {
        close_pipes(pipes);
        return err;
    }
    pid_t shim_pid = getpid();
    pid_t pid = fork();
    if (pid < 0) {
        err = gs_error_errno(errno, "pod-shim: fork");
        close_pipes(pipes);
        return err;
    }
    if (pid == 0)
        run_child(&s->o, shim_pid, pipes);
    s->status.pid = pid;
    s->status.start_ticks = kubelet_proc_start_time(pid);
    s->status.started_ms = gs_unix_ms();
    gs_closep(&pipes[REPORT_PIPE][1]);
    pipes[REPORT_PIPE][1] = -1;
    read_failure(pipes[REPORT_PIPE][0], &s->status);
    take_pipes(s, pipes);
    close_pipes(pipes);
    return NULL;
}

// The command alone has the streams of a session, so that they end with it.
static void leave_streams(void)
{
    GS_AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; fd++)
        dup2(null, fd);
}

static void report_session(const struct shim *s)
{
    GS_AUTO_FREE char *text = s->status.exec_errno
                                  ? gs_format("e%d %s", s->status.exec_errno, s->status.message)
                                  : gs_strdup("s");
    if (s->o.report_fd >= 0 && write(s->o.report_fd, text, strlen(text)) < 0)
        return; // the kubelet has ended; the shim will end, too
}

static void report(struct shim *s)
{
    if (s->o.status) {
        // A container outlives a full disk; the kubelet then falls back on our exit code.
        GS_AUTO_ERROR struct gs_error *err = kubelet_shim_status_write(s->o.status, &s->status);
        (void)err;
    }
    if (s->o.report_fd >= 0 && !s->status.finished_ms) {
        ssize_t n = write(s->o.report_fd, "s", 1);
        (void)n;
    }
}

static void write_stdout(struct gs_buf *pending)
{
    size_t done = 0;
    while (done < pending->len) {
        ssize_t n = write(STDOUT_FILENO, pending->data + done, pending->len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break;
        done += (size_t)n;
    }
    gs_buf_clear(pending);
}

static void emit(struct shim *s, struct shim_stream *stream, bool flush)
{
    if (s->o.log)
        kubelet_shim_log_write(&s->log, stream->name, &stream->pending, flush);
    else
        write_stdout(&stream->pending);
}

// One read; false when nothing more is there now.
static bool pump(struct shim *s, struct shim_stream *stream)
{
    char chunk[16384];
    ssize_t n;
    do
        n = read(stream->fd, chunk, sizeof(chunk));
    while (n < 0 && errno == EINTR);
    if (n > 0) {
        kubelet_console_output(
            &s->console, stream == s->streams ? KUBELET_CONSOLE_STDOUT : KUBELET_CONSOLE_STDERR,
            gs_slice_make(chunk, (size_t)n));
        gs_buf_add(&stream->pending, chunk, (size_t)n);
        emit(s, stream, false);
        return true;
    }
    if (n == 0 || errno != EAGAIN) {
        gs_closep(&stream->fd);
        stream->fd = -1;
    }
    return false;
}

static void reap(struct shim *s)
{
    int wait_status;
    for (pid_t pid; (pid = waitpid(-1, &wait_status, WNOHANG)) > 0;) {
        if (pid != s->status.pid || s->ended)
            continue;
        s->ended = true;
        s->status.finished_ms = gs_unix_ms();
        s->status.exit_code =
            WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
    }
}

static bool has_children(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

// Orphans become children of this subreaper, so no descendant is left when it has no child.
static void kill_everything(struct shim *s)
{
    for (int64_t pause_ms = 0;;) {
        reap(s);
        if (!has_children())
            return;
        kubelet_proc_signal_descendants(getpid(), SIGKILL);
        pause_ms = gs_backoff_next(pause_ms, REAP_PAUSE_MS, REAP_PAUSE_MAX_MS);
        poll(NULL, 0, (int)pause_ms);
    }
}

static void terminate(struct shim *s, int64_t grace_ms)
{
    int64_t deadline = gs_mono_ns() + grace_ms * GS_NS_PER_MS;
    if (!s->deadline_ns)
        kill(s->status.pid, SIGTERM);
    if (!s->deadline_ns || deadline < s->deadline_ns)
        s->deadline_ns = deadline;
}

static void handle_signals(struct shim *s)
{
    struct signalfd_siginfo info;
    while (read(s->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGCHLD)
            reap(s);
        else if (s->ended)
            continue;
        else if (parent_is_gone(s))
            terminate(s, 0);
        else if (info.ssi_signo == (uint32_t)KUBELET_SHIM_SIGNAL_STOP)
            terminate(s, info.ssi_int < 0 ? 0 : info.ssi_int);
        else
            terminate(s, s->o.grace_ms);
    }
}

static int poll_timeout(const struct shim *s)
{
    if (!s->deadline_ns)
        return -1;
    int64_t left = s->deadline_ns - gs_mono_ns();
    if (left <= 0)
        return 0;
    int64_t ms = left / GS_NS_PER_MS + 1;
    return ms > INT_MAX ? INT_MAX : (int)ms;
}

static void supervise(struct shim *s)
{
    while (!s->ended) {
        struct pollfd fds[3 + KUBELET_CONSOLE_POLLS] = {
            {.fd = s->signal_fd, .events = POLLIN},
            {.fd = s->streams[0].fd, .events = POLLIN},
            {.fd = s->streams[1].fd, .events = POLLIN},
        };
        kubelet_console_poll(&s->console, fds + 3);
        int n = poll(fds, GS_ARRAY_LEN(fds), poll_timeout(s));
        if (n < 0 && errno != EINTR)
            break;
        for (size_t i = 0; n > 0 && i < 2; i++)
            if (fds[i + 1].revents)
                pump(s, &s->streams[i]);
        if (n > 0)
            kubelet_console_handle(&s->console, fds + 3);
        if (n > 0 && fds[0].revents)
            handle_signals(s);
        if (s->deadline_ns && gs_mono_ns() >= s->deadline_ns)
            break;
    }
    kill_everything(s);
    for (size_t i = 0; i < 2; i++) {
        while (s->streams[i].fd >= 0 && pump(s, &s->streams[i]))
            ;
        emit(s, &s->streams[i], true);
    }
    kubelet_console_finish(&s->console);
}

static struct gs_error *set_up(struct shim *s)
{
    // Before anything else, so that a parent that dies now is not missed.
    if (prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return gs_error_errno(errno, "pod-shim: prctl");
    struct gs_error *err = open_signals(&s->signal_fd);
    if (err)
        return err;
    if (parent_is_gone(s))
        return gs_error_new(GS_EUNAVAIL, "pod-shim: process %d, our parent, has ended",
                            (int)s->o.parent);
    setsid();
    s->status.shim_pid = getpid();
    s->status.shim_start_ticks = kubelet_proc_start_time(getpid());
    // Without its socket a container cannot be attached to, but runs.
    gs_error_free(s->o.console ? kubelet_console_open(&s->console, s->o.console) : NULL);
    return s->o.log ? kubelet_shim_log_open(s->o.log, &s->log) : NULL;
}

static void shim_finish(struct shim *s)
{
    for (size_t i = 0; i < 2; i++) {
        gs_closep(&s->streams[i].fd);
        gs_buf_finish(&s->streams[i].pending);
    }
    kubelet_console_finish(&s->console);
    kubelet_shim_log_finish(&s->log);
    gs_closep(&s->signal_fd);
    free(s->o.mounts);
    free(s->o.keep);
}

static int fail(struct gs_error *err)
{
    fprintf(stderr, "gpuscale %s\n", gs_error_message(err));
    gs_error_free(err);
    return KUBELET_SHIM_EXIT_NOT_STARTED;
}

int kubelet_pod_shim_main(int argc, char **argv)
{
    GS_CLEANUP(shim_finish)
    struct shim s = {
        .log = {.fd = -1},
        .signal_fd = -1,
        .streams = {{.name = "stdout", .fd = -1}, {.name = "stderr", .fd = -1}},
    };
    kubelet_console_init(&s.console);
    struct gs_error *err = parse_options(argc, argv, &s.o);
    if (!err)
        err = set_up(&s);
    if (!err)
        err = start_command(&s);
    if (err)
        return fail(err);
    if (s.o.session) {
        leave_streams();
        report_session(&s);
    } else if (!s.status.exec_errno)
        report(&s);
    else if (!s.o.log)
        dprintf(STDOUT_FILENO, "exec: \"%s\": %s\n", s.o.argv[0],
                *s.status.message ? s.status.message : strerror(s.status.exec_errno));
    supervise(&s);
    if (s.status.exec_errno)
        s.status.exit_code = KUBELET_SHIM_EXIT_NOT_STARTED;
    if (!s.o.session)
        report(&s);
    return s.status.exit_code;
}
