// SPDX-License-Identifier: Apache-2.0
#include "bench.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/slice.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STOP_WAIT_NS (10 * GS_NS_PER_SEC)
#define START_WAIT_S 60
#define MAX_FILE     ((size_t)1 << 20)

enum { MAX_CHILDREN = 16 };

static struct child {
    pid_t pid;
    char *log;
} children[MAX_CHILDREN];

static char *dir;

// --- the end ---

_Noreturn void bench_fail(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)fflush(stdout);
    fputs("bench: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(1);
}

void bench_check(struct gs_error *err)
{
    if (err)
        bench_fail("%s", gs_error_message(err));
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    remove(path);
    return 0;
}

static void clean_up(void)
{
    for (size_t i = 0; i < MAX_CHILDREN; i++)
        if (children[i].pid)
            bench_stop(children[i].pid);
    if (dir)
        nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(GS_TAKE(dir));
}

// In its own thread, in which exit() and its handlers are safe.
static void *wait_for_signal(void *signals)
{
    int number;
    sigwait(signals, &number);
    exit(1);
}

static void watch_signals(void)
{
    static sigset_t signals;
    pthread_t thread;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    if (pthread_create(&thread, NULL, wait_for_signal, &signals) != 0)
        bench_fail("no thread");
    pthread_detach(thread);
}

void bench_begin(void)
{
    const char *tmp = getenv("TMPDIR");
    dir = gs_format("%s/gpuscale-bench-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(dir))
        bench_fail("%s: %s", dir, strerror(errno));
    atexit(clean_up);
    watch_signals();
}

const char *bench_dir(void)
{
    return dir;
}

void bench_sleep(int64_t ns)
{
    struct timespec t = {ns / GS_NS_PER_SEC, ns % GS_NS_PER_SEC};
    while (nanosleep(&t, &t) < 0 && errno == EINTR)
        continue;
}

int bench_main(const struct gs_command *command, int argc, char **argv)
{
    GS_AUTO_FREE void *opts = gs_alloc(command->opts_size);
    struct gs_common_opts common;
    int n_args = 0, code = 0;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    bench_check(gs_options_parse(command, argc - 1, argv + 1, opts, &common, &n_args));
    if (common.help)
        gs_options_print_help(command, "bench", true, stdout);
    else
        bench_check(command->run(opts, n_args, argv, &code));
    gs_options_finish(command, opts);
    return code;
}

// --- children ---

static struct child *find_child(pid_t pid)
{
    for (size_t i = 0; i < MAX_CHILDREN; i++)
        if (children[i].pid == pid)
            return &children[i];
    bench_fail("more than %d children", MAX_CHILDREN);
}

static _Noreturn void run_child(const char *log, const char *const *argv)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    int null = open("/dev/null", O_RDONLY);
    if (fd >= 0 && null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(fd, STDOUT_FILENO) >= 0 &&
        dup2(fd, STDERR_FILENO) >= 0)
        execv(argv[0], (char *const *)argv);
    fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

pid_t bench_start(const char *log, const char *const *argv)
{
    struct child *c = find_child(0);
    char *path = gs_format("%s/%s", dir, log);
    (void)unlink(path); // of an earlier child: its text is not that of this one
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        bench_fail("fork: %s", strerror(errno));
    if (pid == 0)
        run_child(path, argv);
    *c = (struct child){pid, path};
    return pid;
}

void bench_stop(pid_t pid)
{
    struct child *c = find_child(pid);
    kill(pid, SIGTERM);
    int64_t deadline = gs_mono_ns() + STOP_WAIT_NS;
    while (waitpid(pid, NULL, WNOHANG) == 0) {
        if (gs_mono_ns() > deadline)
            kill(pid, SIGKILL);
        bench_sleep(10 * GS_NS_PER_MS);
    }
    free(c->log);
    *c = (struct child){0};
}

void bench_kill(pid_t pid)
{
    struct child *c = find_child(pid);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    free(c->log);
    *c = (struct child){0};
}

void bench_check_running(pid_t pid)
{
    if (waitpid(pid, NULL, WNOHANG) == 0)
        return;
    struct child *c = find_child(pid);
    GS_AUTO_BUF struct gs_buf text = {0};
    gs_error_free(gs_file_read(c->log, MAX_FILE, &text));
    c->pid = 0;
    bench_fail("a program that is measured has ended; its output:\n%s", text.data ? text.data : "");
}

char *bench_wait_for_text(pid_t pid, const char *text)
{
    return bench_wait_for_text_long(pid, text, START_WAIT_S);
}

char *bench_wait_for_text_long(pid_t pid, const char *text, int seconds)
{
    const struct child *c = find_child(pid);
    GS_AUTO_BUF struct gs_buf log = {0};
    for (int64_t deadline = gs_mono_ns() + seconds * GS_NS_PER_SEC; gs_mono_ns() < deadline;) {
        bench_check_running(pid);
        gs_buf_finish(&log);
        gs_error_free(gs_file_read(c->log, MAX_FILE, &log));
        const char *at = log.data ? strstr(log.data, text) : NULL;
        if (at && strchr(at, '\n')) {
            at += strlen(text);
            return gs_strndup(at, strcspn(at, "\n"));
        }
        bench_sleep(50 * GS_NS_PER_MS);
    }
    bench_fail("no \"%s\" within %d s; the output so far:\n%s", text, seconds,
               log.data ? log.data : "");
}

uint16_t bench_free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, len) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) < 0)
        bench_fail("no free port: %s", strerror(errno));
    close(fd);
    return ntohs(a.sin_port);
}

// --- /proc ---

static bool read_proc(struct gs_buf *text, const char *fmt, ...) GS_PRINTF(2, 3);

static bool read_proc(struct gs_buf *text, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *path = gs_vformat(fmt, ap);
    va_end(ap);
    gs_buf_finish(text);
    GS_AUTO_ERROR struct gs_error *err = gs_file_read(path, MAX_FILE, text);
    return !err && text->len;
}

int64_t bench_cpu_ns(pid_t pid)
{
    GS_AUTO_FREE char *path = gs_format("/proc/%d/task", (int)pid);
    GS_AUTO_BUF struct gs_buf text = {0};
    DIR *tasks = opendir(path);
    int64_t sum = 0;
    if (!tasks)
        bench_fail("process %d does not exist any more", (int)pid);
    for (struct dirent *e; (e = readdir(tasks));)
        if (e->d_name[0] != '.' && read_proc(&text, "%s/%s/schedstat", path, e->d_name))
            sum += strtoll(text.data, NULL, 10);
    closedir(tasks);
    return sum;
}

static int64_t field_kib(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at ? strtoll(at + strlen(name), NULL, 10) : 0;
}

struct bench_memory bench_memory(pid_t pid)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    if (!read_proc(&text, "/proc/%d/smaps_rollup", (int)pid))
        bench_fail("process %d does not exist any more", (int)pid);
    return (struct bench_memory){
        .rss_kib = field_kib(text.data, "\nRss:"),
        .pss_kib = field_kib(text.data, "\nPss:"),
        .private_kib =
            field_kib(text.data, "\nPrivate_Clean:") + field_kib(text.data, "\nPrivate_Dirty:"),
    };
}

int64_t bench_status_kib(pid_t pid, const char *field)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    GS_AUTO_FREE char *line = gs_format("\n%s:", field);
    if (!read_proc(&text, "/proc/%d/status", (int)pid))
        bench_fail("process %d does not exist any more", (int)pid);
    return field_kib(text.data, line);
}

int64_t bench_peak_kib(pid_t pid)
{
    return bench_status_kib(pid, "VmHWM");
}

static pid_t parent_of(pid_t pid)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    if (!read_proc(&text, "/proc/%d/status", (int)pid))
        return 0;
    return (pid_t)field_kib(text.data, "\nPPid:");
}

size_t bench_children(pid_t parent, pid_t *ret, size_t max)
{
    DIR *proc = opendir("/proc");
    size_t n = 0;
    for (struct dirent *e; proc && (e = readdir(proc));) {
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        if (pid > 0 && n < max && parent_of(pid) == parent)
            ret[n++] = pid;
    }
    if (proc)
        closedir(proc);
    return n;
}

bool bench_is_command(pid_t pid, const char *command)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    if (!read_proc(&text, "/proc/%d/cmdline", (int)pid))
        return false;
    size_t first = strlen(text.data) + 1;
    return first < text.len && gs_streq(text.data + first, command);
}

// --- figures ---

void bench_add(struct bench_series *s, double value)
{
    gs_grow(&s->items, &s->cap, s->len, sizeof(*s->items));
    s->items[s->len++] = value;
}

double bench_percentile(struct bench_series *s, double percent)
{
    if (!s->len)
        return NAN;
    qsort(s->items, s->len, sizeof(*s->items), gs_compare_doubles);
    size_t rank = (size_t)ceil(percent / 100 * (double)s->len);
    return s->items[rank ? rank - 1 : 0];
}

void bench_series_finish(struct bench_series *s)
{
    free(s->items);
    *s = (struct bench_series){0};
}

const char *bench_verdict(bool met)
{
    return met ? "met" : "MISSED";
}
