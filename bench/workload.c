// SPDX-License-Identifier: Apache-2.0
// The container of the reaction benchmark. It loads its simulated GPU by the percentage in a shared
// file (32 bits, a futex word). At 0 it sleeps in the kernel.
#include "base/clock.h"
#include "nvmlsim/client.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PERIOD_NS (20 * GS_NS_PER_MS)

static void load_until_zero(struct nvmlsim_ctx *gpu, const _Atomic uint32_t *percent)
{
    int64_t next = gs_mono_ns();
    for (uint32_t p; (p = atomic_load(percent)) != 0;) {
        gs_error_free(nvmlsim_kernel_run(gpu, p * (uint64_t)PERIOD_NS / 100 / 1000, 1));
        next += PERIOD_NS;
        struct timespec at = {next / GS_NS_PER_SEC, next % GS_NS_PER_SEC};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
    }
}

int main(int argc, char **argv)
{
    int fd = argc == 2 ? open(argv[1], O_RDWR | O_CLOEXEC) : -1;
    _Atomic uint32_t *percent = MAP_FAILED;
    if (fd >= 0)
        percent = mmap(NULL, sizeof(*percent), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (percent == MAP_FAILED) {
        fprintf(stderr, "usage: workload FILE (of at least 4 bytes)\n");
        return 2;
    }
    struct nvmlsim_ctx *gpu = NULL;
    struct gs_error *err = nvmlsim_ctx_open(0, &gpu);
    if (err) {
        fprintf(stderr, "workload: %s\n", gs_error_message(err));
        gs_error_free(err);
        return 1;
    }
    for (;;) {
        syscall(SYS_futex, percent, FUTEX_WAIT, 0, NULL, NULL, 0);
        load_until_zero(gpu, percent);
    }
}
