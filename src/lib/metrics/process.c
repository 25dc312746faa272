// SPDX-License-Identifier: Apache-2.0
// Reads /proc/self and the clocks of the process for its own series.
#include "metrics/process.h"

#include "base/file.h"
#include "base/num.h"
#include "metrics/write.h"

#include <dirent.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static void gauge(struct gs_buf *out, const char *name, const char *help, double value)
{
    metrics_write_single(out, name, METRICS_GAUGE, help, value);
}

static size_t open_fds(void)
{
    size_t n = 0;
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        return 0;
    for (struct dirent *e = readdir(dir); e; e = readdir(dir))
        n += e->d_name[0] != '.';
    closedir(dir);
    return n - 1; // without the descriptor of this listing
}

static void write_memory(struct gs_buf *out)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    GS_AUTO_ERROR struct gs_error *err = gs_file_read("/proc/self/statm", 4096, &text);
    struct gs_slice rest = gs_buf_slice(&text);
    uint64_t pages = 0, resident = 0;
    if (!err)
        err = gs_parse_u64(gs_slice_cut(&rest, ' '), UINT64_MAX, &pages);
    if (!err)
        err = gs_parse_u64(gs_slice_cut(&rest, ' '), UINT64_MAX, &resident);
    if (err)
        return;
    double page = (double)sysconf(_SC_PAGESIZE);
    gauge(out, "process_virtual_memory_bytes", "Virtual memory size in bytes.",
          (double)pages * page);
    gauge(out, "process_resident_memory_bytes", "Resident memory size in bytes.",
          (double)resident * page);
}

void metrics_write_process(struct gs_buf *out, int64_t started_ms)
{
    struct timespec cpu;
    struct rlimit files = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    getrlimit(RLIMIT_NOFILE, &files);
    metrics_write_single(out, "process_cpu_seconds_total", METRICS_COUNTER,
                         "Total user and system CPU time spent in seconds.",
                         (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9);
    write_memory(out);
    gauge(out, "process_open_fds", "Number of open file descriptors.", (double)open_fds());
    gauge(out, "process_max_fds", "Maximum number of open file descriptors.",
          (double)files.rlim_cur);
    gauge(out, "process_start_time_seconds",
          "Start time of the process since unix epoch in seconds.", (double)started_ms / 1000);
}
