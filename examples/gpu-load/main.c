// SPDX-License-Identifier: Apache-2.0
// gpu-load: loads one GPU, real (CUDA driver) or simulated. It takes the place of the programs that
// guides use for that: the vectorAdd sample of CUDA, dcgmproftester and gpu_burn. Its name, or its
// first argument, selects the program.
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/slice.h"
#include "gpu.h"

#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { KERNEL_US = 10000, VECTOR_KERNELS = 20, ROWS = 16, COLUMNS = 64 };
enum { EXIT_NO_GPU = 1, EXIT_USAGE = 2 };

static const char *const usage =
    "usage: gpu-load vectorAdd | burn [SECONDS] | dcgmproftester [-t FIELD] [-d SECONDS]\n"
    "Loads the GPU. GPU_LOAD_PERCENT: busy share of the time, 1 to 100 (default). burn without\n"
    "SECONDS and dcgmproftester with -d 0 run until SIGTERM.\n";

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

struct load {
    struct gpu *gpu;
    float features[COLUMNS], scores[ROWS];
    int64_t percent;
};

static struct gs_error *load_open(struct load *l)
{
    static float weights[ROWS * COLUMNS];
    const char *percent = getenv("GPU_LOAD_PERCENT");
    const struct gpu_model model = {.weights = weights,
                                    .rows = ROWS,
                                    .columns = COLUMNS,
                                    .memory = (uint64_t)128 << 20,
                                    .kernel_us = KERNEL_US,
                                    .sm_share = 1};
    l->percent = 100;
    struct gs_error *err =
        percent && *percent ? gs_parse_i64(gs_slice_of(percent), 1, 100, &l->percent) : NULL;
    if (err)
        return gs_error_wrap(err, "GPU_LOAD_PERCENT");
    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        weights[i] = (float)i;
    for (size_t i = 0; i < COLUMNS; i++)
        l->features[i] = 1;
    return gpu_open(&model, &l->gpu);
}

// One kernel, and a pause for the rest of the share.
static struct gs_error *load_step(struct load *l)
{
    struct gs_error *err = gpu_scores(l->gpu, l->features, l->scores);
    int64_t pause_us = KERNEL_US * (100 - l->percent) / l->percent;
    struct timespec pause = {.tv_sec = pause_us / 1000000, .tv_nsec = pause_us % 1000000 * 1000};
    if (!err && pause_us)
        nanosleep(&pause, NULL);
    return err;
}

// The sums of the first row are known.
static bool is_right(const struct load *l)
{
    float sum = 0;
    for (size_t i = 0; i < COLUMNS; i++)
        sum += (float)i;
    return fabsf(l->scores[0] - sum) < 0.5f;
}

static struct gs_error *add_vectors(struct load *l)
{
    struct gs_error *err = NULL;
    puts("[Vector addition of 50000 elements]\n"
         "Copy input data from the host memory to the CUDA device\n"
         "CUDA kernel launch with 196 blocks of 256 threads");
    for (int i = 0; !err && !stopped && i < VECTOR_KERNELS; i++)
        err = load_step(l);
    if (err)
        return err;
    puts("Copy output data from the CUDA device to the host memory");
    if (!stopped && !is_right(l))
        return gs_error_new(GS_EIO, "Result verification failed at element 0!");
    puts("Test PASSED\nDone");
    return NULL;
}

static struct gs_error *burn(struct load *l, int64_t seconds)
{
    int64_t start = gs_mono_ns(), n = 0;
    struct gs_error *err = NULL;
    printf("Loading the %s at %lld %%", gpu_name(l->gpu), (long long)l->percent);
    if (seconds)
        printf(" for %lld seconds", (long long)seconds);
    putchar('\n');
    fflush(stdout);
    while (!err && !stopped && (!seconds || gs_mono_ns() - start < seconds * GS_NS_PER_SEC)) {
        err = load_step(l);
        n++;
    }
    if (!err)
        printf("%lld kernels, %s\n", (long long)n, is_right(l) ? "OK" : "FAULTY");
    return err;
}

// The duration: a number, or the value of -d. Other flags of the programs are accepted.
static struct gs_error *read_seconds(int argc, char **argv, int64_t *ret)
{
    for (int i = 0; i < argc; i++) {
        bool flag = gs_streq(argv[i], "-d") && i + 1 < argc;
        bool skipped =
            argv[i][0] == '-' && !flag && i + 1 < argc && argv[i][1] != '-' && argv[i][2] == '\0';
        if (skipped) // the value of another flag, such as -t 1004
            i++;
        else if (flag || argv[i][0] != '-')
            return gs_parse_i64(gs_slice_of(argv[flag ? i + 1 : i]), 0, 1000000000, ret);
    }
    return NULL;
}

static struct gs_error *run(const char *program, int argc, char **argv)
{
    struct load l = {0};
    bool vectors = gs_streq(program, "vectorAdd");
    int64_t seconds = gs_starts(program, "dcgmproftester") ? 30 : 0;
    struct gs_error *err = vectors ? NULL : read_seconds(argc, argv, &seconds);
    if (!err)
        err = load_open(&l);
    if (!err)
        err = vectors ? add_vectors(&l) : burn(&l, seconds);
    gpu_close(l.gpu);
    return err;
}

static bool is_program(const char *name)
{
    return gs_streq(name, "vectorAdd") || gs_streq(name, "burn") || gs_streq(name, "gpu_burn") ||
           gs_starts(name, "dcgmproftester");
}

int main(int argc, char **argv)
{
    gs_occupy_standard_files();
    const char *slash = strrchr(argv[0], '/');
    const char *program = slash ? slash + 1 : argv[0];
    int first = 1;
    (void)signal(SIGTERM, on_signal);
    (void)signal(SIGINT, on_signal);
    if (!is_program(program))
        program = argc > first ? argv[first++] : "";
    if (!is_program(program)) {
        fputs(usage, stderr);
        return EXIT_USAGE;
    }
    GS_AUTO_ERROR struct gs_error *err = run(program, argc - first, argv + first);
    if (!err)
        return 0;
    fprintf(stderr, "%s: %s\n", program, gs_error_message(err));
    return gs_error_code(err) == GS_EINVAL ? EXIT_USAGE : EXIT_NO_GPU;
}
