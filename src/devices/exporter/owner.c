// SPDX-License-Identifier: Apache-2.0
// The pod of a process, from /proc: cgroup first, environment second. PIDs are reused, so an entry
// counts only with the start time of its process, and a PID is looked up only if its process is
// older than the sample that named it. Runs on the sampler's thread.
#include "exporter/sampler.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/hmap.h"
#include "base/mem.h"
#include "base/num.h"

#include <ctype.h>
#include <dirent.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_STAT = 4096,
    MAX_CGROUP = 64 * 1024,
    MAX_ENVIRON = 1024 * 1024,
    UUID_LEN = 36,
    HASH_LEN = 32, // UID of a static pod: the hash of its manifest
    CONTAINER_ID_LEN = 64,
};

struct entry {
    uint32_t pid;
    uint64_t start_time;
    bool seen;
    struct exporter_owner owner;
};

struct exporter_owner_cache {
    char *proc, *container_logs, *pod_logs;
    struct gs_hmap *entries;                   // PID as bytes -> struct entry
    char own_pod_uid[EXPORTER_OWNER_UID_SIZE]; // of this process; "" outside of pods
    struct exporter_owner gone;
    int64_t ticks_per_s;
    uint64_t resolved[EXPORTER_OWNER_KINDS];
};

const char *exporter_owner_kind_name(enum exporter_owner_kind k)
{
    static const char *const names[EXPORTER_OWNER_KINDS] = {"gone", "host", "unreadable", "pod"};
    return names[k];
}

static void copy(char *to, size_t size, struct gs_slice s)
{
    size_t n = s.len < size - 1 ? s.len : size - 1;
    memcpy(to, s.data, n);
    to[n] = '\0';
}

// --- cgroup ---

// "8-4-4-4-12" with '-' or, in systemd slices, '_'; or 32 hexadecimal digits. Returns its length.
static size_t uid_at(const char *s, size_t len)
{
    size_t i = 0;
    for (; i < len && i < UUID_LEN; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? s[i] != '-' && s[i] != '_' : !isxdigit((unsigned char)s[i]))
            break;
    }
    if (i == UUID_LEN)
        return UUID_LEN;
    for (i = 0; i < len && isxdigit((unsigned char)s[i]); i++)
        ;
    return i == HASH_LEN ? HASH_LEN : 0;
}

static bool find_uid(struct gs_slice path, char *ret, size_t size)
{
    for (size_t i = 0; i + 3 < path.len; i++) {
        if (memcmp(path.data + i, "pod", 3) != 0)
            continue;
        // "kubepods" contains the word, too; a UID follows a separator.
        if (i > 0 && path.data[i - 1] != '/' && path.data[i - 1] != '-')
            continue;
        size_t n = uid_at(path.data + i + 3, path.len - i - 3);
        if (!n)
            continue;
        copy(ret, size, gs_slice_make(path.data + i + 3, n));
        for (char *c = ret; *c; c++)
            if (*c == '_')
                *c = '-';
        return true;
    }
    return false;
}

static void find_container_id(struct gs_slice path, char *ret, size_t size)
{
    size_t run = 0;
    for (size_t i = 0; i <= path.len; i++) {
        if (i < path.len && isxdigit((unsigned char)path.data[i])) {
            run++;
            continue;
        }
        if (run == CONTAINER_ID_LEN) // the last one is the innermost container
            copy(ret, size, gs_slice_make(path.data + i - run, run));
        run = 0;
    }
}

bool exporter_owner_parse_cgroup(struct gs_slice text, struct exporter_owner *ret)
{
    while (text.data) {
        struct gs_slice line = gs_slice_cut(&text, '\n');
        gs_slice_cut(&line, ':'); // hierarchy number
        gs_slice_cut(&line, ':'); // controllers
        char uid[EXPORTER_OWNER_UID_SIZE];
        if (!line.data || !find_uid(line, uid, sizeof(uid)))
            continue;
        memcpy(ret->pod_uid, uid, sizeof(uid));
        find_container_id(line, ret->container_id, sizeof(ret->container_id));
        ret->kind = EXPORTER_OWNER_POD;
        return true;
    }
    return false;
}

// --- environment ---

bool exporter_owner_parse_environ(struct gs_slice text, struct exporter_owner *ret)
{
    struct exporter_owner found = {.kind = EXPORTER_OWNER_POD};
    const struct {
        const char *name;
        char *to;
        size_t size;
    } wanted[] = {
        {"GPUSCALE_POD_UID=", found.pod_uid, sizeof(found.pod_uid)},
        {"GPUSCALE_POD_NAME=", found.pod, sizeof(found.pod)},
        {"GPUSCALE_POD_NAMESPACE=", found.namespace_name, sizeof(found.namespace_name)},
        {"GPUSCALE_CONTAINER_NAME=", found.container, sizeof(found.container)},
    };
    while (text.data) {
        struct gs_slice item = gs_slice_cut(&text, '\0');
        for (size_t i = 0; i < GS_ARRAY_LEN(wanted); i++) {
            size_t n = strlen(wanted[i].name);
            if (gs_slice_starts(item, wanted[i].name))
                copy(wanted[i].to, wanted[i].size, gs_slice_make(item.data + n, item.len - n));
        }
    }
    if (!found.pod_uid[0] || !found.pod[0] || !found.namespace_name[0])
        return false;
    memcpy(found.process_name, ret->process_name, sizeof(found.process_name));
    *ret = found;
    return true;
}

// --- names from the kubelet's log directories ---

// Calls fn with each name in a directory until it returns true. A missing directory is empty.
static bool each_name(const char *dir, bool (*fn)(const char *name, void *arg), void *arg)
{
    DIR *d = opendir(dir);
    if (!d)
        return false;
    bool found = false;
    for (struct dirent *e = readdir(d); e && !found; e = readdir(d))
        found = e->d_name[0] != '.' && fn(e->d_name, arg);
    closedir(d);
    return found;
}

// "<pod>_<namespace>_<container>-<container id>.log"
static bool match_container_log(const char *name, void *arg)
{
    struct exporter_owner *o = arg;
    GS_AUTO_FREE char *suffix = gs_format("-%s.log", o->container_id);
    if (!gs_ends(name, suffix))
        return false;
    struct gs_slice rest = gs_slice_make(name, strlen(name) - strlen(suffix));
    struct gs_slice pod = gs_slice_cut(&rest, '_'), ns = gs_slice_cut(&rest, '_');
    if (!rest.data)
        return false;
    copy(o->pod, sizeof(o->pod), pod);
    copy(o->namespace_name, sizeof(o->namespace_name), ns);
    copy(o->container, sizeof(o->container), rest);
    return true;
}

// "<namespace>_<pod>_<uid>"
static bool match_pod_logs(const char *name, void *arg)
{
    struct exporter_owner *o = arg;
    struct gs_slice rest = gs_slice_of(name);
    struct gs_slice ns = gs_slice_cut(&rest, '_'), pod = gs_slice_cut(&rest, '_');
    if (!rest.data || !gs_slice_eq_str(rest, o->pod_uid))
        return false;
    copy(o->pod, sizeof(o->pod), pod);
    copy(o->namespace_name, sizeof(o->namespace_name), ns);
    return true;
}

static void name_by_logs(const struct exporter_owner_cache *c, struct exporter_owner *o)
{
    if (o->container_id[0] && each_name(c->container_logs, match_container_log, o))
        return;
    each_name(c->pod_logs, match_pod_logs, o);
}

// --- /proc ---

static struct gs_error *read_proc(const struct exporter_owner_cache *c, uint32_t pid,
                                  const char *file, size_t max, struct gs_buf *ret)
{
    GS_AUTO_FREE char *path = gs_format("%s/%u/%s", c->proc, pid, file);
    return gs_file_read(path, max, ret);
}

// Name and start time (field 22) of "pid (name) S 1 …"; the name may contain blanks and
// parentheses.
static bool parse_stat(struct gs_slice text, char *ret_name, size_t size, uint64_t *ret_start)
{
    const char *open = memchr(text.data, '(', text.len);
    const char *close = memrchr(text.data, ')', text.len);
    if (!open || !close || close < open)
        return false;
    copy(ret_name, size, gs_slice_make(open + 1, (size_t)(close - open - 1)));
    struct gs_slice rest = gs_slice_make(close + 1, text.len - (size_t)(close + 1 - text.data));
    rest = gs_slice_trim(rest);
    for (int field = 3; field < 22; field++)
        gs_slice_cut(&rest, ' ');
    GS_AUTO_ERROR struct gs_error *err =
        gs_parse_u64(gs_slice_cut(&rest, ' '), UINT64_MAX, ret_start);
    return err == NULL;
}

static bool read_stat(const struct exporter_owner_cache *c, uint32_t pid, char *ret_name,
                      size_t size, uint64_t *ret_start)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    GS_AUTO_ERROR struct gs_error *err = read_proc(c, pid, "stat", MAX_STAT, &text);
    return !err && text.len && parse_stat(gs_buf_slice(&text), ret_name, size, ret_start);
}

// The cgroup has precedence, because a container can write anything into its environment. If all
// processes share this process's own pod (the one-node cluster inside a container), the cgroup is
// not used.
static void resolve(const struct exporter_owner_cache *c, uint32_t pid, struct exporter_owner *o)
{
    GS_AUTO_BUF struct gs_buf cgroup = {0}, env = {0};
    GS_AUTO_ERROR struct gs_error *cgroup_err = read_proc(c, pid, "cgroup", MAX_CGROUP, &cgroup);
    struct exporter_owner by_cgroup = *o;
    if (!cgroup_err && exporter_owner_parse_cgroup(gs_buf_slice(&cgroup), &by_cgroup) &&
        !gs_streq(by_cgroup.pod_uid, c->own_pod_uid)) {
        *o = by_cgroup;
        return;
    }
    GS_AUTO_ERROR struct gs_error *err = read_proc(c, pid, "environ", MAX_ENVIRON, &env);
    if (err)
        o->kind =
            gs_error_code(err) == GS_ENOTFOUND ? EXPORTER_OWNER_GONE : EXPORTER_OWNER_UNREADABLE;
    else if (!exporter_owner_parse_environ(gs_buf_slice(&env), o))
        o->kind = EXPORTER_OWNER_HOST;
}

static void learn_own_pod(struct exporter_owner_cache *c)
{
    GS_AUTO_BUF struct gs_buf cgroup = {0};
    struct exporter_owner self = {0};
    GS_AUTO_ERROR struct gs_error *err = gs_file_read("/proc/self/cgroup", MAX_CGROUP, &cgroup);
    if (!err && exporter_owner_parse_cgroup(gs_buf_slice(&cgroup), &self))
        memcpy(c->own_pod_uid, self.pod_uid, sizeof(c->own_pod_uid));
}

// --- cache ---

struct exporter_owner_cache *exporter_owner_cache_new(const struct exporter_owner_config *cfg)
{
    struct exporter_owner_cache *c = gs_alloc(sizeof(*c));
    c->proc = gs_strdup(cfg->proc ? cfg->proc : "/proc");
    c->container_logs =
        gs_strdup(cfg->container_logs ? cfg->container_logs : "/var/log/containers");
    c->pod_logs = gs_strdup(cfg->pod_logs ? cfg->pod_logs : "/var/log/pods");
    c->entries = gs_hmap_new(free);
    learn_own_pod(c);
    long ticks = sysconf(_SC_CLK_TCK);
    c->ticks_per_s = ticks > 0 ? ticks : 100;
    return c;
}

void exporter_owner_cache_free(struct exporter_owner_cache *c)
{
    if (!c)
        return;
    gs_hmap_free(c->entries);
    free(c->proc);
    free(c->container_logs);
    free(c->pod_logs);
    free(c);
}

void exporter_owner_cache_begin(struct exporter_owner_cache *c)
{
    size_t pos = 0;
    struct gs_slice key;
    void *value;
    while (gs_hmap_next(c->entries, &pos, &key, &value))
        ((struct entry *)value)->seen = false;
}

// Start times are in clock ticks since boot.
static bool started_after(const struct exporter_owner_cache *c, uint64_t start_time,
                          int64_t named_ns)
{
    struct timespec boot;
    clock_gettime(CLOCK_BOOTTIME, &boot);
    int64_t since_boot = boot.tv_sec * GS_NS_PER_SEC + boot.tv_nsec;
    int64_t named = since_boot - (gs_mono_ns() - named_ns);
    int64_t tick_ns = GS_NS_PER_SEC / c->ticks_per_s;
    return start_time > (uint64_t)(INT64_MAX / tick_ns) || (int64_t)start_time * tick_ns > named;
}

static const struct exporter_owner *gone(struct exporter_owner_cache *c)
{
    c->resolved[EXPORTER_OWNER_GONE]++;
    return &c->gone;
}

// Returns NULL if the PID was reused for another process meanwhile.
static struct entry *lookup_process(struct exporter_owner_cache *c, uint32_t pid,
                                    struct exporter_owner fresh, uint64_t start_time)
{
    char name[sizeof(fresh.process_name)];
    uint64_t still = 0;
    resolve(c, pid, &fresh);
    if (!read_stat(c, pid, name, sizeof(name), &still) || still != start_time)
        return NULL;
    fresh.seen_ns = gs_mono_ns();
    c->resolved[fresh.kind]++;
    struct entry *e = gs_alloc(sizeof(*e));
    *e = (struct entry){.pid = pid, .start_time = start_time, .owner = fresh};
    gs_hmap_put(c->entries, gs_slice_make(&pid, sizeof(pid)), e);
    return e;
}

const struct exporter_owner *exporter_owner_lookup(struct exporter_owner_cache *c, uint32_t pid,
                                                   int64_t named_ns)
{
    struct exporter_owner fresh = {0};
    uint64_t start_time = 0;
    if (!read_stat(c, pid, fresh.process_name, sizeof(fresh.process_name), &start_time) ||
        started_after(c, start_time, named_ns))
        return gone(c);
    struct entry *e = gs_hmap_get(c->entries, gs_slice_make(&pid, sizeof(pid)));
    if (!e || e->start_time != start_time)
        e = lookup_process(c, pid, fresh, start_time);
    if (!e)
        return gone(c);
    e->seen = true;
    if (e->owner.kind == EXPORTER_OWNER_POD &&
        !e->owner.pod[0]) // the logs may appear after the process
        name_by_logs(c, &e->owner);
    return &e->owner;
}

void exporter_owner_cache_end(struct exporter_owner_cache *c)
{
    for (bool again = true; again;) {
        again = false;
        size_t pos = 0;
        struct gs_slice key;
        void *value;
        while (!again && gs_hmap_next(c->entries, &pos, &key, &value)) {
            struct entry *e = value;
            if (e->seen)
                continue;
            uint32_t pid = e->pid;
            free(gs_hmap_remove(c->entries, gs_slice_make(&pid, sizeof(pid))));
            again = true; // the map must not change during an iteration
        }
    }
}

const uint64_t *exporter_owner_cache_resolved(const struct exporter_owner_cache *c)
{
    return c->resolved;
}
