// SPDX-License-Identifier: Apache-2.0
// CPU time and memory of containers from /proc, under the names of the kubelet's /metrics/resource
// and, with more labels, those of cAdvisor. A container is the supervisor's descendants. The CPU
// time of processes that have ended is in that of the parent that waited for them, at last the
// supervisor, so the sum does not lose it.
#include "base/assert.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "local/kubelet/kubelet_private.h"
#include "local/kubelet/pod_worker.h"
#include "local/kubelet/process.h"
#include "metrics/write.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { STAT_SIZE = 1024, MAX_DEPTH = 64 };

struct usage_process {
    pid_t pid, parent;
    pid_t supervisor; // 0: none of this program
    uint64_t own_ticks, children_ticks, resident_pages;
};

struct usage_table {
    struct usage_process *items; // sorted by pid
    size_t len, cap;
};

static void usage_table_finish(struct usage_table *t)
{
    free(t->items);
}

// The word at position n, from 0, as a number. Words are separated by blanks.
static bool number_at(const char *text, size_t n, uint64_t *ret)
{
    text += strspn(text, " ");
    for (; n; n--) {
        text += strcspn(text, " ");
        text += strspn(text, " ");
    }
    struct gs_error *err = gs_parse_u64(gs_slice_make(text, strcspn(text, " \n")), UINT64_MAX, ret);
    bool ok = !err;
    gs_error_free(err);
    return ok;
}

// Source: proc_pid_stat(5). The name, in parentheses, may have any characters; the state follows
// it.
static bool parse_stat(const char *text, struct usage_process *ret)
{
    enum { PARENT = 1, USER = 11, SYSTEM, CHILDREN_USER, CHILDREN_SYSTEM, RESIDENT = 21 };
    uint64_t parent = 0, user = 0, system = 0, children_user = 0, children_system = 0, resident = 0;
    const char *end = strrchr(text, ')');
    if (!end || !number_at(end + 1, PARENT, &parent) || !number_at(end + 1, USER, &user) ||
        !number_at(end + 1, SYSTEM, &system) ||
        !number_at(end + 1, CHILDREN_USER, &children_user) ||
        !number_at(end + 1, CHILDREN_SYSTEM, &children_system) ||
        !number_at(end + 1, RESIDENT, &resident))
        return false;
    ret->parent = (int)parent;
    ret->own_ticks = user + system;
    ret->children_ticks = children_user + children_system;
    ret->resident_pages = resident;
    return true;
}

static bool read_process(const char *name, struct usage_process *ret)
{
    char path[64], text[STAT_SIZE];
    snprintf(path, sizeof(path), "/proc/%s/stat", name);
    GS_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (n <= 0)
        return false;
    text[n] = '\0';
    ret->pid = (pid_t)strtol(name, NULL, 10);
    return parse_stat(text, ret);
}

static int compare_pids(const void *a, const void *b)
{
    const struct usage_process *x = a, *y = b;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

static void read_processes(struct usage_table *t)
{
    DIR *dir = opendir("/proc");
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir));) {
        struct usage_process p;
        if (e->d_name[0] < '1' || e->d_name[0] > '9' || !read_process(e->d_name, &p))
            continue;
        gs_grow(&t->items, &t->cap, t->len, sizeof(*t->items));
        t->items[t->len++] = p;
    }
    closedir(dir);
    if (t->len > 1)
        qsort(t->items, t->len, sizeof(*t->items), compare_pids);
}

static const struct usage_process *find_process(const struct usage_table *t, pid_t pid)
{
    const struct usage_process key = {.pid = pid};
    return t->len ? bsearch(&key, t->items, t->len, sizeof(*t->items), compare_pids) : NULL;
}

// The child of this program that the process descends from: a supervisor, for those of containers.
static pid_t find_supervisor(const struct usage_table *t, const struct usage_process *p)
{
    const pid_t self = getpid();
    for (int depth = 0; p && depth < MAX_DEPTH; depth++) {
        if (p->parent == self)
            return p->pid;
        p = find_process(t, p->parent);
    }
    return 0;
}

// The counter never decreases, although a parent loses the time of children without a wait().
static void count_cpu(struct kubelet_container *c, pid_t root, uint64_t ticks)
{
    if (c->usage_pid != root) {
        c->usage_pid = root;
        c->usage_seen = c->usage_ticks = 0;
    }
    if (ticks > c->usage_seen) {
        c->usage_ticks += ticks - c->usage_seen;
        c->worker->k->usage_ticks += ticks - c->usage_seen;
    }
    c->usage_seen = ticks;
}

struct container_usage {
    const struct kubelet_container *container;
    double cpu_seconds, memory_bytes;
};

// False: nothing of it runs.
static bool measure_container(const struct usage_table *t, struct kubelet_container *c,
                              struct container_usage *ret)
{
    pid_t root = c->state == KUBELET_RUNNING && c->process ? kubelet_process_pid(c->process) : 0;
    const struct usage_process *shim = root ? find_process(t, root) : NULL;
    uint64_t ticks = shim ? shim->children_ticks : 0, pages = 0;
    if (!shim)
        return false;
    for (size_t i = 0; i < t->len; i++)
        if (t->items[i].supervisor == root && t->items[i].pid != root) {
            ticks += t->items[i].own_ticks + t->items[i].children_ticks;
            pages += t->items[i].resident_pages;
        }
    count_cpu(c, root, ticks);
    *ret = (struct container_usage){.container = c,
                                    .cpu_seconds =
                                        (double)c->usage_ticks / (double)sysconf(_SC_CLK_TCK),
                                    .memory_bytes = (double)pages * (double)sysconf(_SC_PAGESIZE)};
    return true;
}

// --- the nodes ---

static bool read_node_cpu(double *ret_seconds)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    enum { USER, NICE, SYSTEM, IDLE, WAIT, IRQ, SOFT_IRQ, N_TIMES };
    uint64_t times[N_TIMES] = {0};
    struct gs_error *err = gs_file_read("/proc/stat", 1024 * 1024, &text);
    bool ok = !err && !strncmp(text.data, "cpu ", 4);
    for (size_t i = 0; ok && i < N_TIMES; i++)
        ok = number_at(text.data, i + 1, &times[i]);
    gs_error_free(err);
    *ret_seconds =
        (double)(times[USER] + times[NICE] + times[SYSTEM] + times[IRQ] + times[SOFT_IRQ]) /
        (double)sysconf(_SC_CLK_TCK);
    return ok;
}

static bool read_node_memory(double *ret_bytes)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    uint64_t total = 0, available = 0;
    struct gs_error *err = gs_file_read("/proc/meminfo", 64 * 1024, &text);
    const char *total_at = err ? NULL : strstr(text.data, "MemTotal:");
    const char *available_at = err ? NULL : strstr(text.data, "MemAvailable:");
    bool ok = total_at && available_at && number_at(total_at, 1, &total) &&
              number_at(available_at, 1, &available) && available <= total;
    gs_error_free(err);
    *ret_bytes = (double)(total - available) * 1024;
    return ok;
}

// --- the text ---

// The labels of the scrape target are those of one node. Only the series of others name theirs.
static void add_node_labels(struct gs_buf *out, const struct kubelet *k)
{
    gs_buf_addf(out, "instance=\"%s\",node=\"%s\"", k->node_name, k->node_name);
}

// What is measured, and for whom.
struct usage_page {
    struct gs_buf *out;
    const struct kubelet *target;
    bool cadvisor;
    struct container_usage *items;
    size_t n;
};

// By which rules of charts tell containers from the groups above them, which have no image.
static void add_cadvisor_labels(struct gs_buf *out, const struct kubelet_container *c)
{
    gs_buf_addf(out, ",id=\"/kubepods/pod%s/%s\",image=\"", c->worker->uid, c->name);
    metrics_write_label_value(out, gs_slice_of(c->image ? c->image : ""));
    gs_buf_addf(out, "\",name=\"%s\"", c->container_id ? c->container_id : "");
}

// Names of nodes, pods and containers have no character that is escaped.
static void add_family(const struct usage_page *page, const char *name, const char *type,
                       size_t value)
{
    struct gs_buf *out = page->out;
    char text[GS_DOUBLE_SIZE];
    gs_buf_addf(out, "# TYPE %s %s\n", name, type);
    for (size_t i = 0; i < page->n; i++) {
        const struct kubelet_container *c = page->items[i].container;
        double v = *(const double *)(const void *)((const char *)&page->items[i] + value);
        gs_buf_addf(out, "%s{container=\"%s\",namespace=\"%s\",pod=\"%s\"", name, c->name,
                    c->worker->ns, c->worker->name);
        if (page->cadvisor)
            add_cadvisor_labels(out, c);
        if (c->worker->k != page->target) {
            gs_buf_add_char(out, ',');
            add_node_labels(out, c->worker->k);
        }
        gs_buf_addf(out, "} %s\n", gs_format_double(v, text));
    }
}

static void add_node_sample(struct gs_buf *out, const struct kubelet *target, const char *name,
                            const struct kubelet *k, double v)
{
    char text[GS_DOUBLE_SIZE];
    gs_buf_add_str(out, name);
    if (k != target) {
        gs_buf_add_char(out, '{');
        add_node_labels(out, k);
        gs_buf_add_char(out, '}');
    }
    gs_buf_addf(out, " %s\n", gs_format_double(v, text));
}

// The first node is this machine. The others use what their containers use.
static bool node_cpu(const struct kubelet *k, double *ret_seconds)
{
    if (k == k->first)
        return read_node_cpu(ret_seconds);
    *ret_seconds = (double)k->usage_ticks / (double)sysconf(_SC_CLK_TCK);
    return true;
}

static bool node_memory(const struct kubelet *k, double *ret_bytes)
{
    if (k == k->first)
        return read_node_memory(ret_bytes);
    *ret_bytes = k->usage_bytes;
    return true;
}

static void add_node_family(struct gs_buf *out, struct kubelet *const *nodes, size_t n,
                            const struct kubelet *target, const char *name, const char *type,
                            bool (*read)(const struct kubelet *k, double *ret))
{
    double v = 0;
    gs_buf_addf(out, "# TYPE %s %s\n", name, type);
    for (size_t i = 0; i < n; i++)
        if (read(nodes[i], &v))
            add_node_sample(out, target, name, nodes[i], v);
}

struct usage_list {
    struct container_usage *items;
    size_t len, cap;
};

static void measure_kubelet(const struct usage_table *table, struct kubelet *k,
                            struct usage_list *ret)
{
    size_t pos = 0;
    struct gs_slice key;
    void *value;
    k->usage_bytes = 0;
    while (gs_hmap_next(k->workers, &pos, &key, &value)) {
        struct kubelet_worker *w = value;
        struct kubelet_container *c;
        for (size_t i = 0; (c = kubelet_worker_container(w, i)); i++) {
            struct container_usage u;
            if (!measure_container(table, c, &u))
                continue;
            k->usage_bytes += u.memory_bytes;
            gs_grow(&ret->items, &ret->cap, ret->len, sizeof(*ret->items));
            ret->items[ret->len++] = u;
        }
    }
}

static void measure(struct kubelet *const *nodes, size_t n, struct usage_list *ret)
{
    GS_CLEANUP(usage_table_finish) struct usage_table table = {0};
    bool any = false;
    for (size_t i = 0; i < n; i++)
        any = any || gs_hmap_len(nodes[i]->workers);
    if (any)
        read_processes(&table);
    for (size_t i = 0; i < table.len; i++)
        table.items[i].supervisor = find_supervisor(&table, &table.items[i]);
    for (size_t i = 0; i < n; i++)
        measure_kubelet(&table, nodes[i], ret);
}

static void write_metrics(struct kubelet *const *nodes, size_t n_nodes, bool cadvisor,
                          struct gs_buf *out)
{
    const struct kubelet *target = nodes[0];
    struct usage_list list = {0};
    measure(nodes, n_nodes, &list);
    const struct usage_page page = {out, target, cadvisor, list.items, list.len};
    add_family(&page, "container_cpu_usage_seconds_total", "counter",
               offsetof(struct container_usage, cpu_seconds));
    add_family(&page, "container_memory_working_set_bytes", "gauge",
               offsetof(struct container_usage, memory_bytes));
    free(list.items);
    if (cadvisor)
        return;
    add_node_family(out, nodes, n_nodes, target, "node_cpu_usage_seconds_total", "counter",
                    node_cpu);
    add_node_family(out, nodes, n_nodes, target, "node_memory_working_set_bytes", "gauge",
                    node_memory);
}

void kubelet_write_metrics(struct kubelet *first, struct gs_buf *out)
{
    size_t n = 0;
    for (const struct kubelet *k = first; k; k = k->next)
        n++;
    GS_AUTO_FREE struct kubelet **nodes = gs_alloc_array(n + 1, sizeof(struct kubelet *));
    n = 0;
    for (struct kubelet *k = first; k; k = k->next)
        nodes[n++] = k;
    gs_assert(n);
    write_metrics(nodes, n, false, out);
}

void kubelet_write_node_metrics(struct kubelet *k, struct gs_buf *out)
{
    write_metrics(&k, 1, false, out);
}

void kubelet_write_cadvisor_metrics(struct kubelet *k, struct gs_buf *out)
{
    write_metrics(&k, 1, true, out);
}

// --- the summary ---

static json_t *cpu_stats(const char *time, double seconds)
{
    return json_pack("{s:s, s:I}", "time", time, "usageCoreNanoSeconds",
                     (json_int_t)(seconds * 1e9));
}

static json_t *memory_stats(const char *time, double bytes)
{
    return json_pack("{s:s, s:I, s:I}", "time", time, "usageBytes", (json_int_t)bytes,
                     "workingSetBytes", (json_int_t)bytes);
}

// The entry of a pod, which is added at its first container.
static json_t *pod_stats(json_t *pods, const struct kubelet_worker *w)
{
    size_t i;
    json_t *pod;
    json_array_foreach (pods, i, pod)
        if (gs_streq(codec_json_str(pod, "podRef", "uid", NULL), w->uid))
            return pod;
    pod = json_pack("{s:{s:s, s:s, s:s}, s:[]}", "podRef", "name", w->name, "namespace", w->ns,
                    "uid", w->uid, "containers");
    json_array_append_new(pods, pod);
    return pod;
}

json_t *kubelet_stats_summary(struct kubelet *k)
{
    char time[GS_RFC3339_SIZE];
    struct usage_list list = {0};
    double cpu = 0, memory = 0;
    json_t *pods = json_array(), *node = json_object();
    measure(&k, 1, &list);
    GS_AUTO_FREE struct container_usage *items = list.items;
    gs_format_rfc3339(gs_unix_ms(), time);
    codec_json_set_str(node, "nodeName", k->node_name);
    if (node_cpu(k, &cpu))
        json_object_set_new(node, "cpu", cpu_stats(time, cpu));
    if (node_memory(k, &memory))
        json_object_set_new(node, "memory", memory_stats(time, memory));
    for (size_t i = 0; i < list.len; i++) {
        const struct kubelet_container *c = items[i].container;
        json_array_append_new(json_object_get(pod_stats(pods, c->worker), "containers"),
                              json_pack("{s:s, s:o, s:o}", "name", c->name, "cpu",
                                        cpu_stats(time, items[i].cpu_seconds), "memory",
                                        memory_stats(time, items[i].memory_bytes)));
    }
    return json_pack("{s:o, s:o}", "node", node, "pods", pods);
}
