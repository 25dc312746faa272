// SPDX-License-Identifier: Apache-2.0
// The program itself: `gpuscale exporter` with simulated GPUs, a kubelet that is us, and workloads
// that are the test started again with the argument "load".
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "net/grpc/grpc.h"
#include "net/http/client.h"
#include "nvmlsim/client.h"
#include "nvmlsim/sim.h"
#include "patience.h"
#include "podresources_fixture.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_LOADS = 4 };

struct fixture {
    uv_loop_t loop;
    char dir[64], sim_name[64], socket[128];
    struct nvmlsim *sim;
    char uuid[2][96];
    struct grpc_server *kubelet;
    struct gs_buf list, allocatable;
    pid_t exporter, loads[MAX_LOADS];
    uid_t uid;    // that it runs as; 0: ours
    char bin[64]; // a folder with copies of the program and the library that this user may enter
    int log_fd;
    struct gs_buf log;
    char base_url[64];
    struct http_client *client;
    // The last reply.
    bool done;
    int status;
    struct gs_buf body;
};

// --- the kubelet ---

static inline void on_list(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    struct fixture *f = ctx;
    (void)request;
    grpc_call_send(call, gs_buf_slice(&f->list));
    grpc_call_finish(call, GRPC_OK, "");
}

static inline void on_allocatable(void *ctx, struct grpc_call *call, struct gs_slice request)
{
    struct fixture *f = ctx;
    (void)request;
    grpc_call_send(call, gs_buf_slice(&f->allocatable));
    grpc_call_finish(call, GRPC_OK, "");
}

static inline void start_kubelet(struct fixture *f)
{
    f->kubelet = grpc_server_new(&f->loop);
    grpc_server_handle(f->kubelet, "/v1.PodResourcesLister/List", on_list, f);
    grpc_server_handle(f->kubelet, "/v1.PodResourcesLister/GetAllocatableResources", on_allocatable,
                       f);
    struct gs_error *err = grpc_server_listen_unix(f->kubelet, f->socket);
    if (err)
        fail_msg("%s", gs_error_message(err));
}

// --- processes ---

static inline int run_load(void)
{
    struct nvmlsim_ctx *c = NULL;
    struct nvmlsim_alloc *a = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (nvmlsim_ctx_open(0, &c) || nvmlsim_mem_alloc(c, (uint64_t)512 << 20, &a))
        return 1;
    for (;;)
        if (nvmlsim_kernel_run(c, 3600ULL * 1000000, 1.0)) // also while this process stands still
            return 1;
}

// A workload on GPU `gpu` in the environment of a local pod.
static inline pid_t start_load(struct fixture *f, unsigned slot, unsigned gpu, const char *pod)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv("CUDA_VISIBLE_DEVICES", f->uuid[gpu], 1);
        setenv("GPUSCALE_POD_UID", "11111111-2222-3333-4444-555555555555", 1);
        setenv("GPUSCALE_POD_NAME", pod, 1);
        setenv("GPUSCALE_POD_NAMESPACE", "default", 1);
        setenv("GPUSCALE_CONTAINER_NAME", "main", 1);
        execl("/proc/self/exe", "load", "load", (char *)NULL);
        _exit(127);
    }
    f->loads[slot] = pid;
    return pid;
}

static inline void stop_load(struct fixture *f, unsigned slot)
{
    if (f->loads[slot] > 0) {
        kill(f->loads[slot], SIGKILL);
        waitpid(f->loads[slot], NULL, 0);
    }
    f->loads[slot] = 0;
}

static inline char *program(void)
{
    return gs_format("%s/src/cmd/gpuscale", getenv("GPUSCALE_BUILD_ROOT"));
}

static inline void copy_file(const char *from, const char *folder, const char *name)
{
    GS_AUTO_FREE char *to = gs_format("%s/%s", folder, name);
    GS_AUTO_BUF struct gs_buf content = {0};
    struct gs_error *err = gs_file_read(from, (size_t)1 << 30, &content);
    if (!err)
        err = gs_file_write_atomic(to, 0755, gs_buf_slice(&content));
    if (err)
        fail_msg("%s", gs_error_message(err));
}

// From here on the exporter runs as another user. The build folder may be one that only root can
// enter, hence the copies.
static inline void run_as(struct fixture *f, uid_t uid)
{
    GS_AUTO_FREE char *exe = program();
    GS_AUTO_FREE char *library = gs_format("%s/src/simulation/nvmlsim/libgpuscale-nvmlsim.so",
                                           getenv("GPUSCALE_BUILD_ROOT"));
    f->uid = uid;
    strcpy(f->bin, "/tmp/gpuscale-bin-XXXXXX");
    assert_non_null(mkdtemp(f->bin));
    assert_int_equal(chmod(f->bin, 0755), 0);
    copy_file(exe, f->bin, "gpuscale");
    copy_file(library, f->bin, "libgpuscale-nvmlsim.so");
}

static inline void remove_copies(const struct fixture *f)
{
    static const char *const names[] = {"gpuscale", "libgpuscale-nvmlsim.so"};
    for (size_t i = 0; f->bin[0] && i < GS_ARRAY_LEN(names); i++) {
        GS_AUTO_FREE char *path = gs_format("%s/%s", f->bin, names[i]);
        unlink(path);
    }
    if (f->bin[0])
        rmdir(f->bin);
}

// Starts `gpuscale exporter` with its stderr in f->log_fd.
static inline void spawn(struct fixture *f, const char *const *args)
{
    GS_AUTO_FREE char *exe = f->bin[0] ? gs_format("%s/gpuscale", f->bin) : program();
    const char *argv[40] = {exe, "exporter"};
    for (size_t i = 0; args[i]; i++)
        argv[i + 2] = args[i];
    int pipe_fds[2];
    assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
    f->exporter = fork();
    assert_true(f->exporter >= 0);
    if (f->exporter == 0) {
        dup2(pipe_fds[1], STDERR_FILENO);
        if (f->uid && setuid(f->uid) < 0)
            _exit(126);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execv(exe, (char **)argv);
        _exit(127);
    }
    close(pipe_fds[1]);
    if (f->log_fd >= 0)
        close(f->log_fd);
    f->log_fd = pipe_fds[0];
    gs_buf_clear(&f->log);
}

// Reads the log until it holds `text` or ends. Returns where it is, or NULL.
static inline const char *read_log(struct fixture *f, const char *text)
{
    int64_t deadline = gs_mono_ns() + WAIT_NS;
    for (;;) {
        const char *at = f->log.data ? strstr(f->log.data, text) : NULL;
        if (at || gs_mono_ns() > deadline)
            return at;
        struct pollfd p = {f->log_fd, POLLIN, 0};
        char chunk[1024];
        ssize_t n = poll(&p, 1, 1000) > 0 ? read(f->log_fd, chunk, sizeof(chunk)) : -1;
        if (n == 0)
            return strstr(f->log.data ? f->log.data : "", text);
        if (n > 0)
            gs_buf_add(&f->log, chunk, (size_t)n);
    }
}

// Waits for the end; -1 when it was a signal.
static inline int wait_exporter(struct fixture *f)
{
    int status = 0;
    int64_t deadline = gs_mono_ns() + WAIT_NS;
    pid_t done;
    while ((done = waitpid(f->exporter, &status, WNOHANG)) == 0 && gs_mono_ns() < deadline)
        usleep(5000);
    if (done == 0)
        fail_msg("the exporter does not end; its log:\n%s", f->log.data ? f->log.data : "");
    f->exporter = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// --- HTTP ---

static inline void on_done(void *arg, const struct http_response *response, struct gs_error *err)
{
    struct fixture *f = arg;
    f->done = true;
    f->status = err ? 0 : response->status;
    gs_buf_clear(&f->body);
    gs_buf_add(&f->body, "", 0);
    if (!err)
        gs_buf_add_slice(&f->body, response->body);
    gs_error_free(err);
}

static inline int get(struct fixture *f, const char *path)
{
    struct http_request request = {.path = path, .timeout_ms = WAIT_MS};
    struct http_callbacks callbacks = {.on_done = on_done};
    f->done = false;
    http_send(f->client, &request, &callbacks, f);
    while (!f->done)
        uv_run(&f->loop, UV_RUN_ONCE);
    return f->status;
}

// The value on the first line of /metrics that holds all of the parts; NAN when there is none.
static inline double value_of(struct fixture *f, const char *name, const char *part,
                              const char *part2)
{
    struct gs_slice rest = gs_buf_slice(&f->body);
    while (rest.data) {
        GS_AUTO_FREE char *line = gs_slice_dup(gs_slice_cut(&rest, '\n'));
        double v;
        if (!gs_starts(line, name) || !strstr(line, part) || !strstr(line, part2))
            continue;
        GS_AUTO_ERROR struct gs_error *err =
            gs_parse_double(gs_slice_of(strrchr(line, ' ') + 1), &v);
        if (!err)
            return v;
    }
    return __builtin_nan("");
}

// Fetches the page until the condition on it holds.
#define WAIT_FOR(f, path, condition)                                                               \
    do {                                                                                           \
        int64_t deadline_ = gs_mono_ns() + WAIT_NS;                                                \
        do {                                                                                       \
            get((f), (path));                                                                      \
            usleep(20000);                                                                         \
        } while (!(condition) && gs_mono_ns() < deadline_);                                        \
        if (!(condition))                                                                          \
            fail_msg("did not come true: %s; last page (%d):\n%s", #condition, (f)->status,        \
                     (f)->body.data);                                                              \
    } while (0)

// --- set up ---

static inline int setup(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    f->log_fd = -1;
    uv_loop_init(&f->loop);
    strcpy(f->dir, "/tmp/gpuscale-exporter-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->socket, sizeof(f->socket), "%s/kubelet.sock", f->dir);
    snprintf(f->sim_name, sizeof(f->sim_name), "/gpuscale-test-exporter-%d", getpid());
    struct nvmlsim_spec spec;
    assert_null(nvmlsim_spec_parse("2xTesla-T4", &spec));
    assert_null(nvmlsim_create(f->sim_name, &spec, &f->sim));
    setenv(NVMLSIM_ENV, f->sim_name, 1);
    for (unsigned i = 0; i < 2; i++) {
        struct nvmlsim_gpu_info info;
        nvmlsim_gpu_info(f->sim, i, &info);
        memcpy(f->uuid[i], info.uuid, sizeof(info.uuid));
    }
    start_kubelet(f);
    *state = f;
    return 0;
}

static inline int teardown(void **state)
{
    struct fixture *f = *state;
    for (unsigned i = 0; i < MAX_LOADS; i++)
        stop_load(f, i);
    if (f->exporter > 0) {
        kill(f->exporter, SIGKILL);
        waitpid(f->exporter, NULL, 0);
    }
    if (f->log_fd >= 0)
        close(f->log_fd);
    http_client_free(f->client);
    grpc_server_free(f->kubelet);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    uv_loop_close(&f->loop);
    nvmlsim_detach(f->sim);
    gs_error_free(nvmlsim_unlink(f->sim_name));
    unlink(f->socket);
    rmdir(f->dir);
    remove_copies(f);
    gs_buf_finish(&f->log);
    gs_buf_finish(&f->body);
    gs_buf_finish(&f->list);
    gs_buf_finish(&f->allocatable);
    free(f);
    return 0;
}

// Waits until it listens, and talks to it from then on.
static inline void connect_listener(struct fixture *f)
{
    const char *url = read_log(f, "/metrics\n");
    if (!url)
        fail_msg("no address in the log: %s", f->log.data ? f->log.data : "");
    url = strstr(f->log.data, "http://");
    snprintf(f->base_url, sizeof(f->base_url), "%.*s", (int)strcspn(url + 7, "/") + 7, url);
    struct http_client_config cfg = {.base_url = f->base_url};
    http_client_free(f->client);
    assert_null(http_client_new_curl(&f->loop, &cfg, &f->client));
}

// Likewise until it serves.
static inline void connect_exporter(struct fixture *f)
{
    connect_listener(f);
    WAIT_FOR(f, "/health", f->status == 200);
}

// extra: more arguments, ends with NULL.
static inline void start_exporter_with(struct fixture *f, const char *const *extra)
{
    const char *args[32] = {"--simulate",   "2xTesla-T4",
                            "--address",    "127.0.0.1:0",
                            "--kubernetes", "--pod-resources-kubelet-socket",
                            f->socket,      "--pod-resources-interval",
                            "200ms",        "--collect-interval",
                            "200",          "--driver-timeout",
                            "10m",          "--node-name",
                            "node-1",       NULL};
    for (size_t i = 0; extra[i]; i++)
        args[15 + i] = extra[i];
    spawn(f, args);
    connect_exporter(f);
}

static inline void start_exporter(struct fixture *f)
{
    const char *const none[] = {NULL};
    start_exporter_with(f, none);
}

static inline void give(struct fixture *f, const char *pod0, const char *ids0, const char *pod1,
                        const char *ids1)
{
    const struct pod_row rows[] = {
        {"default", pod0, "main", "nvidia.com/gpu", ids0},
        {"default", pod1, "main", "nvidia.com/gpu", ids1},
    };
    pack_list(rows, pod1 ? 2 : 1, &f->list);
}
