// SPDX-License-Identifier: Apache-2.0
// The exporter on 8 simulated GPUs: CPU and memory without scrapes, with one scrape per second, and
// with 200 processes on the GPUs, compared with node_exporter of Prometheus, and with a host engine
// of DCGM. Also the duration of a scrape of 16 GPUs with 7 MIG devices each.
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "bench.h"
#include "nvmlsim/client.h"
#include "usage.h"
#include "wire.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SETTLE_NS      (5 * GS_NS_PER_SEC)
#define RSS_MB         8.0
#define CPU            1.0 // percent of a core
#define SCRAPE_MS      2.0 // p99
#define PROCESSES      200
#define SAMPLE_MS      100 // so that each scrape has a new page to write
#define ENGINE_MB      1.0 // that reading a host engine may add
#define ENGINE_WAIT_NS (30 * GS_NS_PER_SEC)
#define PROFILING      "DCGM_FI_PROF_GR_ENGINE_ACTIVE{"

enum { GPUS = 8, MIG_GPUS = 16, MIG_EACH = 7, FIELDS = 40 };

struct options {
    const char *gpuscale;
    int64_t seconds;
};

// --- programs ---

static pid_t start_exporter(const struct options *o, const char *spec, const char *interval_ms,
                            const char *dcgm, const char *counters, uint16_t *ret_port)
{
    *ret_port = bench_free_port();
    char address[32];
    snprintf(address, sizeof(address), "127.0.0.1:%u", *ret_port);
    // Without a file of counters, the default counters are used.
    const char *const argv[] = {o->gpuscale,
                                "exporter",
                                "--simulate",
                                spec,
                                "--address",
                                address,
                                "--collect-interval",
                                interval_ms,
                                "--dcgm",
                                dcgm,
                                counters ? "--collectors" : NULL,
                                counters,
                                NULL};
    pid_t pid = bench_start("exporter.log", argv);
    free(bench_wait_for_text(pid, "first sample"));
    return pid;
}

static void judge(const char *what, struct usage u)
{
    char verdict[96];
    snprintf(verdict, sizeof(verdict), "%.0f MB resident: %s, %.0f %%: %s", RSS_MB,
             bench_verdict(u.rss_mb <= RSS_MB), CPU, bench_verdict(u.cpu_percent <= CPU));
    usage_print(what, u, verdict);
}

// Each process runs a short kernel twice a second, like an idle service with a few requests.
static _Noreturn void be_process(unsigned i)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGTERM, SIG_DFL);
    struct nvmlsim_ctx *gpu = NULL;
    struct nvmlsim_alloc *memory = NULL;
    if (nvmlsim_ctx_open(i % GPUS, &gpu) || nvmlsim_mem_alloc(gpu, (uint64_t)64 << 20, &memory))
        _exit(1);
    for (;;) {
        bench_sleep(GS_NS_PER_SEC / 2);
        gs_error_free(nvmlsim_kernel_run(gpu, 1000, 0.05));
    }
}

static void start_processes(pid_t *ret)
{
    (void)fflush(NULL);
    for (unsigned i = 0; i < PROCESSES; i++) {
        ret[i] = fork();
        if (ret[i] == 0)
            be_process(i);
    }
}

static void stop_processes(const pid_t *pids)
{
    for (unsigned i = 0; i < PROCESSES; i++) {
        if (pids[i] <= 0)
            continue;
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
}

static size_t count_lines(uint16_t port, const char *start)
{
    struct wire w;
    struct gs_slice body;
    size_t n = 0;
    wire_connect(&w, port);
    if (!wire_get(&w, "/metrics", &body))
        bench_fail("the exporter does not answer with 200");
    while (body.len) {
        struct gs_slice line = gs_slice_cut(&body, '\n');
        n += gs_slice_starts(line, start);
    }
    wire_close(&w);
    return n;
}

// Checks that they run: the page has a memory line for each.
static void check_processes(uint16_t port)
{
    size_t n = count_lines(port, "DCGM_CUSTOM_PROCESS_MEM_USED{");
    if (n != PROCESSES)
        bench_fail("the page has %zu processes instead of %d", n, PROCESSES);
}

// --- the peer ---

// A page without a length, as Go's servers send it: it ends with the connection.
static void scrape_to_the_end(uint16_t port)
{
    static const char request[] = "GET /metrics HTTP/1.0\r\n\r\n";
    struct wire w;
    char chunk[65536];
    size_t got = 0;
    wire_connect(&w, port);
    ssize_t n = write(w.fd, request, strlen(request));
    while (n > 0 && (n = read(w.fd, chunk, sizeof(chunk))) > 0)
        got += (size_t)n;
    if (got == 0)
        bench_fail("node_exporter does not answer");
    close(w.fd);
}

static struct usage scrape_peer(struct usage_group *g, int64_t seconds, uint16_t port)
{
    g->cpu_ns = usage_cpu_ns(g);
    int64_t start = gs_mono_ns();
    for (int64_t s = 1; s <= seconds; s++) {
        scrape_to_the_end(port);
        bench_sleep(start + s * GS_NS_PER_SEC - gs_mono_ns());
    }
    return usage_of(g, (double)(gs_mono_ns() - start) / 1e9);
}

// Prometheus' node_exporter (Debian: prometheus-node-exporter; the variable NODE_EXPORTER sets
// another path), as an example of a common exporter in Go.
static void measure_peer(const struct options *o, struct usage ours)
{
    const char *given = getenv("NODE_EXPORTER");
    const char *program = given && *given ? given : "/usr/bin/prometheus-node-exporter";
    if (access(program, X_OK) != 0) {
        printf("  %-44s not on this machine: %s\n", "node_exporter", program);
        return;
    }
    uint16_t port = bench_free_port();
    char listen[64];
    snprintf(listen, sizeof(listen), "--web.listen-address=127.0.0.1:%u", port);
    const char *const argv[] = {program, listen, NULL};
    struct usage_group g = {.pids = {bench_start("node_exporter.log", argv)}, .n = 1};
    free(bench_wait_for_text(g.pids[0], "Listening on"));
    bench_sleep(SETTLE_NS);
    struct usage u = scrape_peer(&g, o->seconds, port);
    char verdict[96];
    snprintf(verdict, sizeof(verdict), "%.1f times the memory, %.1f times the CPU",
             u.rss_mb / ours.rss_mb, u.cpu_percent / ours.cpu_percent);
    usage_print("node_exporter, scraped every second", u, verdict);
    bench_stop(g.pids[0]);
}

// --- DCGM ---

// A simulated host engine on the simulated GPUs of the exporter.
static pid_t start_engine(const struct options *o, const char *address)
{
    char listen[64];
    snprintf(listen, sizeof(listen), "--listen=%s", address);
    const char *const argv[] = {o->gpuscale, "sim", "hostengine", "serve", listen, NULL};
    pid_t pid = bench_start("engine.log", argv);
    free(bench_wait_for_text(pid, address));
    return pid;
}

// The profiling metrics of A100, which NVML does not have.
static void measure_engine(const struct options *o, struct usage without)
{
    uint16_t port;
    char address[32];
    snprintf(address, sizeof(address), "127.0.0.1:%u", bench_free_port());
    pid_t exporter = start_exporter(o, "8xA100-SXM4-80GB", "1000", address, NULL, &port);
    pid_t engine = start_engine(o, address);
    struct usage_group g = {.pids = {exporter}, .n = 1};
    int64_t end = gs_mono_ns() + ENGINE_WAIT_NS;
    while (count_lines(port, PROFILING) != GPUS && gs_mono_ns() < end)
        bench_sleep(GS_NS_PER_SEC / 4);
    bench_sleep(SETTLE_NS);
    if (count_lines(port, PROFILING) != GPUS)
        bench_fail("the page has no profiling metrics of the host engine");
    struct usage u;
    usage_measure(&g, 1, o->seconds, port, &u);
    char verdict[96];
    snprintf(verdict, sizeof(verdict), "%.0f MB more: %s, %.0f %%: %s", ENGINE_MB,
             bench_verdict(u.rss_mb <= without.rss_mb + ENGINE_MB), CPU,
             bench_verdict(u.cpu_percent <= CPU));
    usage_print("exporter with a host engine, scraped", u, verdict);
    bench_stop(engine);
    bench_stop(exporter);
}

// --- CPU and memory ---

static void measure_usage(const struct options *o)
{
    uint16_t port;
    pid_t processes[PROCESSES];
    struct usage u, scraped;
    pid_t pid = start_exporter(o, "8xA100-SXM4-80GB", "1000", "off", NULL, &port);
    struct usage_group g = {.pids = {pid}, .n = 1};
    usage_print_header();
    bench_sleep(SETTLE_NS);
    usage_measure(&g, 1, o->seconds, 0, &u);
    judge("exporter, 8 GPUs every second", u);
    usage_measure(&g, 1, o->seconds, port, &scraped);
    judge("the same, scraped every second", scraped);
    start_processes(processes);
    bench_sleep(SETTLE_NS);
    check_processes(port);
    usage_measure(&g, 1, o->seconds, port, &u);
    judge("the same, 200 processes on the GPUs", u);
    stop_processes(processes);
    measure_peer(o, scraped);
    bench_check_running(pid);
    bench_stop(pid);
    measure_engine(o, scraped);
}

// --- latency ---

static char *write_file(const char *name, struct gs_buf *text)
{
    char *path = gs_format("%s/%s", bench_dir(), name);
    bench_check(gs_file_write_atomic(path, 0644, gs_buf_slice(text)));
    return path;
}

static char *write_spec(void)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    gs_buf_addf(&text, "gpus:\n- model: H100-80GB-HBM3\n  count: %d\n  mig: [", MIG_GPUS);
    for (int i = 0; i < MIG_EACH; i++)
        gs_buf_addf(&text, "%s1g.10gb", i ? ", " : "");
    gs_buf_add_str(&text, "]\n");
    return write_file("mig.yaml", &text);
}

// Fields of a MIG device, including those of its GPU.
static char *write_counters(void)
{
    static const char *const fields[FIELDS] = {
        "DEV_SM_CLOCK",
        "DEV_MEM_CLOCK",
        "DEV_VIDEO_CLOCK",
        "DEV_MEMORY_TEMP",
        "DEV_GPU_TEMP",
        "DEV_POWER_USAGE",
        "DEV_TOTAL_ENERGY_CONSUMPTION",
        "DEV_PCIE_REPLAY_COUNTER",
        "DEV_XID_ERRORS",
        "DEV_FB_TOTAL",
        "DEV_FB_FREE",
        "DEV_FB_USED",
        "DEV_FB_RESERVED",
        "DEV_FB_USED_PERCENT",
        "DEV_PSTATE",
        "DEV_POWER_MGMT_LIMIT",
        "DEV_POWER_MGMT_LIMIT_DEF",
        "DEV_POWER_MGMT_LIMIT_MIN",
        "DEV_POWER_MGMT_LIMIT_MAX",
        "DEV_ENFORCED_POWER_LIMIT",
        "DEV_BAR1_TOTAL",
        "DEV_BAR1_USED",
        "DEV_BAR1_FREE",
        "DEV_PCIE_LINK_GEN",
        "DEV_PCIE_LINK_WIDTH",
        "DEV_PCIE_MAX_LINK_GEN",
        "DEV_PCIE_MAX_LINK_WIDTH",
        "DEV_MAX_SM_CLOCK",
        "DEV_MAX_MEM_CLOCK",
        "DEV_CLOCKS_EVENT_REASONS",
        "DEV_ECC_SBE_VOL_TOTAL",
        "DEV_ECC_DBE_VOL_TOTAL",
        "DEV_POWER_VIOLATION",
        "DEV_THERMAL_VIOLATION",
        "PROF_GR_ENGINE_ACTIVE",
        "PROF_SM_ACTIVE",
        "PROF_SM_OCCUPANCY",
        "PROF_PIPE_TENSOR_ACTIVE",
        "PROF_DRAM_ACTIVE",
        "DEV_ECC_CURRENT",
    };
    GS_AUTO_BUF struct gs_buf text = {0};
    for (int i = 0; i < FIELDS; i++)
        gs_buf_addf(&text, "DCGM_FI_%s, gauge, Field %d.\n", fields[i], i);
    return write_file("counters.csv", &text);
}

static size_t count_series(struct gs_slice body)
{
    size_t n = 0;
    while (body.len) {
        struct gs_slice line = gs_slice_cut(&body, '\n');
        n += gs_slice_starts(line, "DCGM_FI_");
    }
    return n;
}

// The minimum cost of a page of this size on this machine: a process that writes the same bytes.
static _Noreturn void be_floor(int listening, struct gs_slice body)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    GS_AUTO_BUF struct gs_buf reply = {0};
    gs_buf_addf(&reply, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", body.len);
    gs_buf_add_slice(&reply, body);
    int fd = accept(listening, NULL, NULL);
    char request[4096];
    while (read(fd, request, sizeof(request)) > 0)
        for (size_t at = 0; at < reply.len;) {
            ssize_t n = write(fd, reply.data + at, reply.len - at);
            if (n <= 0)
                _exit(1);
            at += (size_t)n;
        }
    _exit(0);
}

static pid_t start_floor(struct gs_slice body, uint16_t *ret_port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 1) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) < 0)
        bench_fail("no socket to listen on");
    *ret_port = ntohs(a.sin_port);
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        be_floor(fd, body);
    close(fd);
    return pid;
}

static double scrape_ms(struct wire *w, struct gs_slice *ret_body)
{
    int64_t start = gs_mono_ns();
    if (!wire_get(w, "/metrics", ret_body))
        bench_fail("no answer with 200");
    return (double)(gs_mono_ns() - start) / 1e6;
}

static void measure_latency(const struct options *o)
{
    GS_AUTO_FREE char *spec = write_spec();
    GS_AUTO_FREE char *counters = write_counters();
    GS_AUTO_FREE char *interval = gs_format("%d", SAMPLE_MS);
    uint16_t port;
    pid_t pid = start_exporter(o, spec, interval, "off", counters, &port);
    bench_sleep(SETTLE_NS);
    struct wire w, w_floor;
    struct gs_slice body = {0}, ignored;
    struct bench_series ms = {0}, floor_ms = {0};
    uint16_t floor_port;
    wire_connect(&w, port);
    scrape_ms(&w, &body);
    pid_t floor = start_floor(body, &floor_port);
    wire_connect(&w_floor, floor_port);
    size_t series = count_series(body), bytes = body.len;
    int64_t end = gs_mono_ns() + o->seconds * GS_NS_PER_SEC;
    while (gs_mono_ns() < end) {
        bench_add(&ms, scrape_ms(&w, &body));
        bench_add(&floor_ms, scrape_ms(&w_floor, &ignored));
        bench_sleep((SAMPLE_MS + 7) * GS_NS_PER_MS); // never the same page twice
    }
    wire_close(&w);
    wire_close(&w_floor);
    kill(floor, SIGKILL);
    waitpid(floor, NULL, 0);
    double p99 = bench_percentile(&ms, 99);
    printf(
        "\nA scrape of %d GPUs with %d MIG devices each, %zu series of %d fields, %.1f MB, a new "
        "page each time\n  %zu scrapes: p50 %.2f ms, p99 %.2f ms, worst %.2f ms   %.0f ms at "
        "p99: %s\n  the same bytes from memory:  p50 %.2f ms, p99 %.2f ms, worst %.2f ms\n",
        MIG_GPUS, MIG_EACH, series, FIELDS, (double)bytes / 1e6, ms.len, bench_percentile(&ms, 50),
        p99, bench_percentile(&ms, 100), SCRAPE_MS, bench_verdict(p99 <= SCRAPE_MS),
        bench_percentile(&floor_ms, 50), bench_percentile(&floor_ms, 99),
        bench_percentile(&floor_ms, 100));
    bench_series_finish(&floor_ms);
    struct usage_group g = {.pids = {pid}, .n = 1};
    printf("  resident meanwhile: %.1f MB\n", usage_of(&g, 1).rss_mb);
    bench_series_finish(&ms);
    bench_stop(pid);
}

static struct gs_error *run(const void *opts, int argc, char **argv, int *ret_exit)
{
    const struct options *o = opts;
    (void)argc, (void)argv, (void)ret_exit;
    bench_begin();
    char segment[64];
    snprintf(segment, sizeof(segment), "/gpuscale-bench-%d", (int)getpid());
    setenv("GPUSCALE_SIM", segment, 1); // its own devices
    printf("The exporter, over %d s each (MB of 10^6 bytes; SIMULATED GPUs)\n", (int)o->seconds);
    measure_usage(o);
    measure_latency(o);
    return NULL;
}

#define AT(member) .offset = offsetof(struct options, member)

static const struct gs_opt rows[] = {
    {"gpuscale", GS_OPT_STRING, AT(gpuscale), "FILE",
     .help = "The program to measure, as an absolute path."},
    {"seconds", GS_OPT_INT, AT(seconds), "N", "20", .min = 1, .max = 86400,
     .help = "Length of each measurement."},
    {0},
};

int main(int argc, char **argv)
{
    const struct gs_command command = {.name = "exporter",
                                       .summary = "Measure the exporter.",
                                       .opts = rows,
                                       .opts_size = sizeof(struct options),
                                       .run = run};
    return bench_main(&command, argc, argv);
}
