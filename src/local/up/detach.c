// SPDX-License-Identifier: Apache-2.0
// `gpuscale up --detach`: the cluster runs in a process without a terminal, whose output is in
// DIR/up.log; the process that was started waits until it is ready. Both are one fork of the
// program before its loop and its threads exist.
#include "up/up_private.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/columns.h"
#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    TAIL_LINES = 20,
    TAIL_BYTES = 16384,
    MAX_LOG = 8 << 20, // then the log begins again, and the last one is kept
    MAX_READY = 65536,
    SHOWN_COLUMNS = 60,
};

// --- the log ---

static struct gs_error *open_log(const char *path, int *ret)
{
    GS_AUTO_FREE char *old = gs_format("%s.1", path);
    if (rename(path, old) < 0 && errno != ENOENT)
        return gs_error_errno(errno, "%s", path);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return gs_error_errno(errno, "%s", path);
    *ret = fd;
    return NULL;
}

static struct gs_error *write_to_log(const char *path)
{
    int fd = -1;
    struct gs_error *err = open_log(path, &fd);
    if (err)
        return err;
    if (dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
        err = gs_error_errno(errno, "%s", path);
    close(fd);
    return err;
}

void up_detach_rotate(const struct up_detached *d)
{
    struct stat st;
    if (!d->log_path || fstat(STDERR_FILENO, &st) < 0 || st.st_size < MAX_LOG)
        return;
    gs_error_free(write_to_log(d->log_path)); // a full disk: the old file stays in use
}

// The last lines, each with an indentation.
static void read_tail(const char *path, size_t max_lines, struct gs_buf *out)
{
    char text[TAIL_BYTES];
    GS_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return;
    off_t from = st.st_size > TAIL_BYTES ? st.st_size - TAIL_BYTES : 0;
    ssize_t n = pread(fd, text, sizeof(text), from);
    size_t len = n > 0 ? (size_t)n : 0, at = len, lines = 0;
    while (at && (lines < max_lines || text[at - 1] != '\n'))
        lines += text[--at] == '\n' && at + 1 < len;
    struct gs_slice rest = gs_slice_make(text + at, len - at);
    rest = gs_slice_trim(rest);
    while (rest.data) {
        struct gs_slice line = gs_slice_cut(&rest, '\n');
        gs_buf_addf(out, "%s  " GS_SLICE_FMT, out->len ? "\n" : "", GS_SLICE_ARG(line));
    }
}

// --- the process in the background ---

// Other descriptors of the caller, such as a pipe of a script that waits for its end, are closed.
static void close_others(int a, int b)
{
    unsigned low = (unsigned)(a < b ? a : b), high = (unsigned)(a < b ? b : a);
    if (low > 3)
        (void)close_range(3, low - 1, 0);
    if (high > low + 1)
        (void)close_range(low + 1, high - 1, 0);
    (void)close_range(high + 1, ~0U, 0);
}

static bool replace_standard_files(int log)
{
    GS_AUTO_CLOSE int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(log, STDOUT_FILENO) >= 0 &&
           dup2(log, STDERR_FILENO) >= 0;
}

static struct gs_error *become_detached(int lock, int log, struct up_detached *d)
{
    if (!replace_standard_files(log))
        return gs_error_errno(errno, "standard files of the process in the background");
    (void)setsid();
    close_others(lock, d->ready);
    return up_datadir_claim(lock);
}

void up_detach_ready(struct up_detached *d, const char *text)
{
    if (d->ready < 0)
        return;
    size_t len = strlen(text), sent = 0;
    while (sent < len) {
        ssize_t n = write(d->ready, text + sent, len - sent);
        if (n < 0 && errno != EINTR)
            break; // nobody waits
        sent += n > 0 ? (size_t)n : 0;
    }
    close(d->ready);
    d->ready = -1;
}

void up_detach_finish(struct up_detached *d)
{
    if (d->ready >= 0)
        close(d->ready);
    free(d->log_path);
    *d = (struct up_detached){.ready = -1};
}

// --- the process that waits ---

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
    (void)number;
    interrupted = 1;
}

static void show_progress(const char *log, int64_t since_ns)
{
    GS_AUTO_BUF struct gs_buf last = {0}, clean = {0}, shown = {0};
    if (!isatty(STDERR_FILENO))
        return;
    read_tail(log, 1, &last);
    gs_columns_clean(&clean, gs_slice_trim(gs_buf_slice(&last)));
    gs_columns_fit(&shown, gs_buf_slice(&clean), SHOWN_COLUMNS);
    fprintf(stderr, "\r\033[KStarting, %d s: %s", (int)((gs_mono_ns() - since_ns) / GS_NS_PER_SEC),
            shown.data ? shown.data : "");
}

// Reads what the other process sends until it closes the pipe. An interrupt ends it.
static void wait_for_ready(int fd, pid_t pid, const char *log, struct gs_buf *out)
{
    char piece[1024];
    int64_t since = gs_mono_ns();
    bool ended = false;
    while (out->len < MAX_READY) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (interrupted && !ended) {
            (void)kill(pid, SIGTERM);
            ended = true;
        }
        if (poll(&p, 1, 1000) <= 0) {
            show_progress(log, since);
            continue;
        }
        ssize_t n = read(fd, piece, sizeof(piece));
        if (n == 0 || (n < 0 && errno != EINTR))
            break;
        gs_buf_add(out, piece, n > 0 ? (size_t)n : 0);
    }
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
}

static struct gs_error *why_not_ready(pid_t pid, const char *log)
{
    int status = 0;
    GS_AUTO_BUF struct gs_buf tail = {0};
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    read_tail(log, TAIL_LINES, &tail);
    bool usage = WIFEXITED(status) && WEXITSTATUS(status) == 2;
    return gs_error_new(usage ? GS_EINVAL : GS_EUNAVAIL,
                        "gpuscale up %s before it was ready; the end of its log %s:\n%s",
                        interrupted ? "was stopped" : "ended", log,
                        tail.data ? tail.data : "  (empty)");
}

static struct gs_error *wait_for(int fd, pid_t pid, const char *log)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    const struct sigaction action = {.sa_handler = on_interrupt}; // poll() returns
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    fprintf(stderr, "Starting gpuscale up in the background; its log is %s\n", log);
    wait_for_ready(fd, pid, log, &text);
    if (!text.len)
        return why_not_ready(pid, log);
    fprintf(stderr, "%s", text.data);
    return NULL;
}

// Waits in the calling process, and returns at once in the new one. The ends are those of the pipe.
static struct gs_error *divide(int lock, int log, const int ends[2], struct up_detached *d,
                               bool *ret_waits)
{
    (void)fflush(NULL); // otherwise both would write it
    pid_t pid = fork();
    if (pid < 0)
        return gs_error_errno(errno, "starting a process");
    *ret_waits = pid > 0;
    if (pid == 0) {
        d->ready = ends[1];
        return become_detached(lock, log, d);
    }
    close(ends[1]);
    return wait_for(ends[0], pid, d->log_path);
}

struct gs_error *up_detach(const char *dir, int lock, struct up_detached *ret, bool *ret_waits)
{
    int ends[2] = {-1, -1}, log = -1;
    struct up_detached d = {.ready = -1, .log_path = gs_format("%s/up.log", dir)};
    *ret_waits = true;
    struct gs_error *err = open_log(d.log_path, &log);
    if (!err && pipe2(ends, O_CLOEXEC) < 0)
        err = gs_error_errno(errno, "pipe");
    if (!err)
        err = divide(lock, log, ends, &d, ret_waits);
    if (!*ret_waits) { // the new process has no other files
        *ret = d;
        return err;
    }
    gs_closep(&log);
    gs_closep(&ends[0]);
    up_detach_finish(&d);
    return err;
}
