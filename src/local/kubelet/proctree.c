// SPDX-License-Identifier: Apache-2.0
// Reads /proc: start times, which tell a process from a later one with the same number,
// descendants, and processes by a mark in their environment.
#include "local/kubelet/shim.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"

#include <dirent.h>
#include <signal.h>

#define MAX_ENVIRON (2u * 1024 * 1024)

struct proc {
    pid_t pid, parent;
    bool descends;
};

struct proc_list {
    struct proc *items;
    size_t len, cap;
};

static void proc_list_finish(struct proc_list *l)
{
    free(l->items);
}

// The n-th blank-separated field (1-based, as proc(5) counts) of a stat line. The second one, the
// command name, may hold blanks and parentheses, so counting starts after its last ')'.
static bool stat_field(struct gs_slice stat, size_t n, uint64_t *ret)
{
    const char *end = stat.len ? memrchr(stat.data, ')', stat.len) : NULL;
    if (!end || (size_t)(end - stat.data) + 2 > stat.len)
        return false;
    struct gs_slice rest = gs_slice_make(end + 2, stat.len - (size_t)(end - stat.data) - 2);
    struct gs_slice field = {0};
    for (size_t i = 3; i <= n && rest.data; i++)
        field = gs_slice_cut(&rest, ' ');
    GS_AUTO_ERROR struct gs_error *err = gs_parse_u64(field, UINT64_MAX, ret);
    return !err;
}

static bool read_stat_field(pid_t pid, size_t n, uint64_t *ret)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    GS_AUTO_BUF struct gs_buf stat = {0};
    GS_AUTO_ERROR struct gs_error *err = gs_file_read(path, 4096, &stat);
    return !err && stat_field(gs_buf_slice(&stat), n, ret);
}

// The next process of a /proc listing; 0 at the end.
static pid_t next_pid(DIR *dir)
{
    for (struct dirent *e; (e = readdir(dir));) {
        int64_t pid;
        GS_AUTO_ERROR struct gs_error *err =
            gs_parse_i64(gs_slice_of(e->d_name), 1, INT32_MAX, &pid);
        if (!err)
            return (pid_t)pid;
    }
    return 0;
}

static void list_processes(struct proc_list *l)
{
    DIR *dir = opendir("/proc");
    if (!dir)
        return;
    for (pid_t pid; (pid = next_pid(dir));) {
        uint64_t parent;
        if (!read_stat_field(pid, 4, &parent))
            continue;
        gs_grow(&l->items, &l->cap, l->len, sizeof(*l->items));
        l->items[l->len++] = (struct proc){.pid = pid, .parent = (pid_t)parent};
    }
    closedir(dir);
}

static bool descends_from(const struct proc_list *l, pid_t parent, pid_t root)
{
    if (parent == root)
        return true;
    for (size_t i = 0; i < l->len; i++)
        if (l->items[i].pid == parent)
            return l->items[i].descends;
    return false;
}

size_t kubelet_proc_signal_descendants(pid_t root, int sig)
{
    GS_CLEANUP(proc_list_finish) struct proc_list list = {0};
    list_processes(&list);
    size_t n = 0;
    // A child may have a smaller pid than its parent: repeat until nothing is added.
    for (size_t before = SIZE_MAX; before != n;) {
        before = n;
        for (size_t i = 0; i < list.len; i++) {
            struct proc *p = &list.items[i];
            if (p->descends || p->pid == root || !descends_from(&list, p->parent, root))
                continue;
            p->descends = true;
            n++;
            kill(p->pid, sig);
        }
    }
    return n;
}

uint64_t kubelet_proc_start_time(pid_t pid)
{
    uint64_t ticks;
    return read_stat_field(pid, 22, &ticks) ? ticks : 0;
}

static bool environ_holds(struct gs_slice entries, const char *entry)
{
    while (entries.data && entries.len)
        if (gs_slice_eq_str(gs_slice_cut(&entries, '\0'), entry))
            return true;
    return false;
}

static bool is_marked(pid_t pid, const char *first, const char *second)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    GS_AUTO_BUF struct gs_buf content = {0};
    GS_AUTO_ERROR struct gs_error *err = gs_file_read(path, MAX_ENVIRON, &content);
    return !err && environ_holds(gs_buf_slice(&content), first) &&
           (!second || environ_holds(gs_buf_slice(&content), second));
}

size_t kubelet_proc_kill_marked(const char *first, const char *second)
{
    size_t n = 0;
    DIR *dir = opendir("/proc");
    if (!dir)
        return 0;
    for (pid_t pid; (pid = next_pid(dir));)
        if (pid != getpid() && is_marked(pid, first, second) && kill(pid, SIGKILL) == 0)
            n++;
    closedir(dir);
    return n;
}
