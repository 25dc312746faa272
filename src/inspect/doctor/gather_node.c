// SPDX-License-Identifier: Apache-2.0
// Reads the facts of this machine: the driver, the kubelet's socket, processes that collect GPU
// metrics, and the exporter's page. The driver is called in a child process, because its calls can
// hang.
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "doctor/doctor_private.h"
#include "gpu/gpu.h"
#include "net/http/client.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define DRIVER_LIMIT_NS  (15 * GS_NS_PER_SEC)
#define MAX_DRIVER_FACTS ((size_t)1 << 20)
#define MAX_PROCESSES    100000
#define MAX_PAGE         ((size_t)64 << 20)
#define KUBELET          "/var/lib/kubelet"
#define EXPORTER_URL     "http://127.0.0.1:9400"

// --- the driver ---

static json_t *device_facts(const struct gpu_device *d)
{
    json_t *o = json_object();
    codec_json_set_int(o, "index", d->index);
    codec_json_set_str(o, "uuid", d->uuid);
    codec_json_set_str(o, "name", d->name);
    codec_json_set_bool(o, "lost", d->lost);
    codec_json_set_bool(o, "hung", d->hung);
    codec_json_set_str(o, "utilization", gpu_validity_text(d->fields[GPU_F_GPU_UTIL].validity));
    codec_json_set_int(o, "instances", (int64_t)d->n_instances);
    return o;
}

static json_t *snapshot_facts(const struct gpu_snapshot *s)
{
    json_t *o = json_object(), *devices = json_array();

    codec_json_set_str(o, "version", s->driver_version);
    codec_json_set_bool(o, "simulated", s->simulated);
    codec_json_set_int(o, "unopened", (int64_t)s->n_unopened);
    if (s->n_unopened)
        codec_json_set_str(o, "unopenedError", gpu_nvml_error_name(s->unopened_code));
    for (size_t i = 0; i < s->n_devices; i++)
        json_array_append_new(devices, device_facts(&s->devices[i]));
    json_object_set_new(o, "gpus", devices);
    return o;
}

static json_t *driver_facts(void)
{
    const struct gpu_backend_config cfg = {0};
    struct gpu_backend *backend = gpu_backend_new(&cfg);
    struct gpu_snapshot *snapshot = NULL;
    GS_AUTO_ERROR struct gs_error *err = gpu_backend_sample(backend, &snapshot);
    json_t *o = err ? json_object() : snapshot_facts(snapshot);

    codec_json_set_str(o, "state", gpu_driver_name(gpu_backend_driver(backend)));
    if (err)
        codec_json_set_str(o, "error", gs_error_message(err));
    if (!err)
        gpu_snapshot_free(snapshot);
    return o; // the process ends, so nothing else is released: that could hang
}

static void run_child(int fd)
{
    CODEC_AUTO_JSON json_t *facts = driver_facts();
    GS_AUTO_BUF struct gs_buf text = {0};
    size_t sent = 0;

    codec_json_dump(facts, &text);
    while (sent < text.len) {
        ssize_t n = write(fd, text.data + sent, text.len - sent);
        if (n <= 0)
            break;
        sent += (size_t)n;
    }
    _exit(0);
}

// Reads until the end of file. False: at the time limit.
static bool read_until(int fd, int64_t deadline_ns, struct gs_buf *out)
{
    char chunk[4096];

    for (;;) {
        int64_t left = deadline_ns - gs_mono_ns();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (left <= 0)
            return false;
        int ready = poll(&p, 1, (int)(left / GS_NS_PER_MS) + 1);
        if (ready <= 0)
            continue;
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n <= 0)
            return true;
        if (out->len + (size_t)n <= MAX_DRIVER_FACTS)
            gs_buf_add(out, chunk, (size_t)n);
    }
}

static json_t *hung_facts(void)
{
    json_t *o = json_object();
    codec_json_set_str(o, "state", "hung");
    return o;
}

static json_t *read_driver(void)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    json_t *facts = NULL;
    static pid_t hung; // of an earlier examination: it may end later
    int fds[2];

    if (pipe(fds) != 0)
        return NULL;
    (void)fflush(NULL);
    if (hung > 0 && waitpid(hung, NULL, WNOHANG) != 0)
        hung = 0;
    pid_t pid = fork();
    if (pid == 0) {
        close(fds[0]);
        run_child(fds[1]);
    }
    close(fds[1]);
    bool ended = pid > 0 && read_until(fds[0], gs_mono_ns() + DRIVER_LIMIT_NS, &text);
    close(fds[0]);
    if (pid < 0)
        return NULL;
    kill(pid, SIGKILL);
    // A process in an uninterruptible call of the driver does not end; it is not waited for.
    if (waitpid(pid, NULL, ended ? 0 : WNOHANG) == 0)
        hung = pid;
    if (!ended)
        return hung_facts();
    GS_AUTO_ERROR struct gs_error *err = codec_json_parse(gs_buf_slice(&text), false, &facts);
    return err ? NULL : facts;
}

// --- processes ---

static const char *const collectors[] = {"nv-hostengine", "dcgm-exporter", "nsys",
                                         "ncu",           "dynolog",       NULL};

// The base name of the program of a command line, without its path.
static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// gpuscale replaces programs by their names, too.
static bool is_gpuscale(const char *pid)
{
    GS_AUTO_FREE char *path = gs_format("/proc/%s/exe", pid);
    char target[4096];
    ssize_t n = readlink(path, target, sizeof target - 1);

    target[n > 0 ? n : 0] = '\0';
    return gs_streq(base_name(target), "gpuscale");
}

static void add_process(const char *pid, json_t *out)
{
    GS_AUTO_FREE char *path = gs_format("/proc/%s/cmdline", pid);
    GS_AUTO_BUF struct gs_buf line = {0};
    GS_AUTO_ERROR struct gs_error *err = gs_file_read(path, 64 * 1024, &line);

    if (err || !line.len)
        return;
    const char *name = base_name(line.data);
    const char *second = strlen(line.data) + 1 < line.len ? line.data + strlen(line.data) + 1 : "";
    bool ours = (is_gpuscale(pid) || gs_streq(name, "gpuscale")) &&
                (gs_streq(second, "exporter") || gs_streq(name, "dcgm-exporter"));
    for (size_t i = 0; collectors[i] && !ours; i++)
        if (gs_streq(name, collectors[i]))
            break;
        else if (!collectors[i + 1])
            return;
    for (size_t i = 0; i + 1 < line.len; i++)
        if (!line.data[i])
            line.data[i] = ' ';
    json_t *o = json_object();
    codec_json_set_str(o, "program", ours ? "gpuscale exporter" : name);
    codec_json_set_int(o, "pid", strtol(pid, NULL, 10));
    codec_json_set_str(o, "command", line.data);
    json_array_append_new(out, o);
}

static json_t *read_processes(void)
{
    json_t *out = json_array();
    DIR *dir = opendir("/proc");
    size_t n = 0;

    for (struct dirent *e; dir && n < MAX_PROCESSES && (e = readdir(dir));) {
        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        n++;
        add_process(e->d_name, out);
    }
    if (dir)
        closedir(dir);
    return out;
}

// --- the kubelet ---

static json_t *read_kubelet(void)
{
    struct stat st;
    const char *state = "ok";

    if (stat(KUBELET, &st) != 0)
        return NULL;
    if (stat(KUBELET "/pod-resources/kubelet.sock", &st) != 0)
        state = errno == ENOENT ? "absent" : "denied";
    json_t *o = json_object();
    codec_json_set_str(o, "socket", state);
    return o;
}

// --- the exporter's page ---

struct page {
    bool done;
    int status;
    struct gs_buf body;
    struct gs_error *err;
};

static void on_page(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct page *p = arg;
    p->done = true;
    p->err = err;
    p->status = response ? response->status : 0;
    if (!err && response)
        gs_buf_add_slice(&p->body, response->body);
}

static json_t *page_facts(const struct page *p)
{
    json_t *o = doctor_page_facts(p->status, gs_buf_slice(&p->body));

    codec_json_set_str(o, "address", EXPORTER_URL "/metrics");
    if (p->err)
        codec_json_set_str(o, "error", gs_error_message(p->err));
    return o;
}

static json_t *read_page(void)
{
    const struct http_client_config cfg = {.base_url = EXPORTER_URL, .proxy = ""};
    const struct http_request request = {
        .path = "/metrics", .timeout_ms = 10000, .max_reply = MAX_PAGE};
    const struct http_callbacks cb = {.on_done = on_page};
    struct http_client *client = NULL;
    struct page p = {0};
    json_t *facts = NULL;
    uv_loop_t loop;

    uv_loop_init(&loop);
    GS_AUTO_ERROR struct gs_error *err = http_client_new_curl(&loop, &cfg, &client);
    if (!err) {
        (void)http_send(client, &request, &cb, &p);
        uv_run(&loop, UV_RUN_DEFAULT);
        facts = page_facts(&p);
    }
    http_client_free(client);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    gs_error_free(p.err);
    gs_buf_finish(&p.body);
    return facts;
}

static void set(json_t *o, const char *key, json_t *value)
{
    if (value)
        json_object_set_new(o, key, value);
}

void doctor_gather_node(json_t *facts)
{
    json_t *o = json_object(), *driver = read_driver();

    json_object_set_new(facts, "node", o);
    if (!driver || gs_streq(codec_json_str(driver, "state", NULL), "no_device")) {
        codec_json_set_str(o, "unknown",
                           driver ? "it has no NVIDIA GPU" : "the driver cannot be examined");
        json_decref(driver);
        return;
    }
    json_object_set_new(o, "driver", driver);
    set(o, "processes", read_processes());
    set(o, "kubelet", read_kubelet());
    set(o, "exporter", read_page());
}
