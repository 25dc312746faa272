// SPDX-License-Identifier: Apache-2.0
// A load for the hardware test: allocates device memory and runs kernels through the CUDA driver
// API (dlopen, PTX text), so no CUDA toolkit is needed. CUDA_VISIBLE_DEVICES selects the GPU.
//
// cuda-load SECONDS MEMORY_MIB BUSY_PERCENT
//
// Prints "ready" with its figures when the memory is allocated and the kernel measured, runs, and
// prints "done". Exits with 77 where CUDA has no device. The environment variable
// CUDA_DRIVER_LIBRARY names another library than libcuda.so.1.
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_SKIP = 77, BLOCKS_PER_SM = 8, THREADS = 256 };
enum { ATTRIBUTE_SM_COUNT = 16 };
enum { FULL_LOAD_THREADS = 4 }; // so that work is queued while the CPU is late
enum { FIRST_TRIAL = 1000, MOST_ROUNDS = 1 << 30 };
#define TRIAL_NS  INT64_C(20000000)  // long enough for launch and wake-up times not to matter
#define PERIOD_NS INT64_C(100000000) // in which one kernel runs for BUSY_PERCENT of the time

typedef uint64_t cu_ptr;

static struct {
    int (*init)(unsigned flags);
    int (*device_get)(int *device, int ordinal);
    int (*device_name)(char *name, int size, int device);
    int (*attribute)(int *value, int attribute, int device);
    int (*ctx_retain)(void **ctx, int device);
    int (*ctx_set)(void *ctx);
    int (*ctx_sync)(void);
    int (*module_load)(void **module, const void *image);
    int (*get_function)(void **function, void *module, const char *name);
    int (*mem_alloc)(cu_ptr *p, size_t bytes);
    int (*mem_set)(cu_ptr p, unsigned char value, size_t bytes);
    int (*launch)(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                  unsigned bz, unsigned shared, void *stream, void **params, void **extra);
    int (*error_name)(int result, const char **name);
} cu;

// Each thread multiplies and adds `rounds` times 4 numbers, and writes one at the end.
static const char ptx[] = ".version 6.4\n"
                          ".target sm_50\n"
                          ".address_size 64\n"
                          ".visible .entry burn(.param .u64 out, .param .u32 rounds)\n"
                          "{\n"
                          "  .reg .pred %p<2>;\n"
                          "  .reg .b32 %r<8>;\n"
                          "  .reg .f32 %f<8>;\n"
                          "  .reg .b64 %d<4>;\n"
                          "  ld.param.u64 %d1, [out];\n"
                          "  ld.param.u32 %r1, [rounds];\n"
                          "  mov.u32 %r2, %ctaid.x;\n"
                          "  mov.u32 %r3, %ntid.x;\n"
                          "  mov.u32 %r4, %tid.x;\n"
                          "  mad.lo.u32 %r5, %r2, %r3, %r4;\n"
                          "  cvt.rn.f32.u32 %f1, %r5;\n"
                          "  mov.f32 %f2, 0f3F800001;\n"
                          "  mov.f32 %f3, %f1;\n"
                          "  mov.f32 %f4, %f1;\n"
                          "  mov.f32 %f5, %f1;\n"
                          "ROUND:\n"
                          "  fma.rn.f32 %f1, %f1, %f2, %f2;\n"
                          "  fma.rn.f32 %f3, %f3, %f2, %f2;\n"
                          "  fma.rn.f32 %f4, %f4, %f2, %f2;\n"
                          "  fma.rn.f32 %f5, %f5, %f2, %f2;\n"
                          "  sub.u32 %r1, %r1, 1;\n"
                          "  setp.gt.u32 %p1, %r1, 0;\n"
                          "  @%p1 bra ROUND;\n"
                          "  add.f32 %f1, %f1, %f3;\n"
                          "  add.f32 %f1, %f1, %f4;\n"
                          "  add.f32 %f1, %f1, %f5;\n"
                          "  cvta.to.global.u64 %d1, %d1;\n"
                          "  mul.wide.u32 %d2, %r5, 4;\n"
                          "  add.u64 %d3, %d1, %d2;\n"
                          "  st.global.f32 [%d3], %f1;\n"
                          "  ret;\n"
                          "}\n";

struct load {
    void *ctx, *function;
    cu_ptr out;
    unsigned blocks;
    uint32_t rounds; // of the kernel of a period
    int64_t end;
};

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void sleep_until(int64_t at)
{
    for (int64_t left; (left = at - now_ns()) > 0;)
        nanosleep(&(struct timespec){left / 1000000000, left % 1000000000}, NULL);
}

static void check(const char *what, int result)
{
    const char *name = NULL;
    if (!result)
        return;
    if (cu.error_name)
        cu.error_name(result, &name);
    fprintf(stderr, "cuda-load: %s: %s (%d)\n", what, name ? name : "unknown error", result);
    exit(1);
}

static void resolve(void)
{
    const struct {
        const char *name;
        void *slot;
    } symbols[] = {
        {"cuInit", &cu.init},
        {"cuDeviceGet", &cu.device_get},
        {"cuDeviceGetName", &cu.device_name},
        {"cuDeviceGetAttribute", &cu.attribute},
        {"cuDevicePrimaryCtxRetain", &cu.ctx_retain},
        {"cuCtxSetCurrent", &cu.ctx_set},
        {"cuCtxSynchronize", &cu.ctx_sync},
        {"cuModuleLoadData", &cu.module_load},
        {"cuModuleGetFunction", &cu.get_function},
        {"cuMemAlloc_v2", &cu.mem_alloc},
        {"cuMemsetD8_v2", &cu.mem_set},
        {"cuLaunchKernel", &cu.launch},
        {"cuGetErrorName", &cu.error_name},
    };
    const char *path = getenv("CUDA_DRIVER_LIBRARY");
    void *library = dlopen(path && *path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "cuda-load: %s\n", dlerror());
        exit(EXIT_SKIP);
    }
    for (size_t i = 0; i < sizeof(symbols) / sizeof(*symbols); i++) {
        void *address = dlsym(library, symbols[i].name);
        if (!address) {
            fprintf(stderr, "cuda-load: the CUDA driver has no %s\n", symbols[i].name);
            exit(1);
        }
        memcpy(symbols[i].slot, &address, sizeof(address));
    }
}

static int64_t run(const struct load *l, uint32_t rounds)
{
    void *params[] = {(void *)&l->out, &rounds};
    int64_t start = now_ns();
    check("cuLaunchKernel",
          cu.launch(l->function, l->blocks, 1, 1, THREADS, 1, 1, 0, NULL, params, NULL));
    check("cuCtxSynchronize", cu.ctx_sync());
    return now_ns() - start;
}

// The shortest of three runs: others may use the GPU and the CPU meanwhile.
static int64_t shortest_run(const struct load *l, uint32_t rounds)
{
    int64_t shortest = INT64_MAX;
    for (int i = 0; i < 3; i++) {
        int64_t ns = run(l, rounds);
        shortest = ns < shortest ? ns : shortest;
    }
    return shortest > 0 ? shortest : 1;
}

static uint32_t rounds_of(const struct load *l, double wanted_ns)
{
    uint32_t trial = FIRST_TRIAL;
    run(l, 1); // the first launch loads the module
    int64_t ns = shortest_run(l, trial);
    for (; ns < TRIAL_NS && trial < MOST_ROUNDS / 4; ns = shortest_run(l, trial))
        trial *= 4;
    double rounds = (double)trial * wanted_ns / (double)ns;
    return rounds < 1 ? 1 : rounds > MOST_ROUNDS ? MOST_ROUNDS : (uint32_t)rounds;
}

static void prepare(struct load *l, size_t mib, double percent)
{
    void *module = NULL;
    int device = 0, sms = 0;
    char name[128] = "";
    cu_ptr memory = 0;
    if (cu.init(0) || cu.device_get(&device, 0)) {
        fprintf(stderr, "cuda-load: the CUDA driver has no device\n");
        exit(EXIT_SKIP);
    }
    check("cuDeviceGetName", cu.device_name(name, sizeof(name), device));
    check("cuDeviceGetAttribute", cu.attribute(&sms, ATTRIBUTE_SM_COUNT, device));
    check("cuDevicePrimaryCtxRetain", cu.ctx_retain(&l->ctx, device));
    check("cuCtxSetCurrent", cu.ctx_set(l->ctx));
    check("cuModuleLoadData", cu.module_load(&module, ptx));
    check("cuModuleGetFunction", cu.get_function(&l->function, module, "burn"));
    l->blocks = (unsigned)(sms > 0 ? sms : 1) * BLOCKS_PER_SM;
    check("cuMemAlloc", cu.mem_alloc(&l->out, (size_t)l->blocks * THREADS * sizeof(float)));
    if (mib) {
        check("cuMemAlloc", cu.mem_alloc(&memory, mib << 20));
        check("cuMemsetD8", cu.mem_set(memory, 1, mib << 20));
    }
    l->rounds = rounds_of(l, (double)PERIOD_NS * percent / 100);
    printf("ready pid=%d sms=%d rounds=%u name=%s\n", getpid(), sms, l->rounds, name);
    fflush(stdout);
}

// A period that passed while the CPU was late is left out.
static int64_t next_period(int64_t period)
{
    int64_t now = now_ns();
    return now > period + 2 * PERIOD_NS ? now : period + PERIOD_NS;
}

static void *keep_busy(void *arg)
{
    const struct load *l = arg;
    check("cuCtxSetCurrent", cu.ctx_set(l->ctx));
    while (now_ns() < l->end)
        run(l, l->rounds);
    return NULL;
}

static void full_load(struct load *l)
{
    pthread_t threads[FULL_LOAD_THREADS];
    int started = 0;
    while (started < FULL_LOAD_THREADS &&
           pthread_create(&threads[started], NULL, keep_busy, l) == 0)
        started++;
    if (!started)
        keep_busy(l);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

static double number(const char *text, double max)
{
    char *end;
    double v = strtod(text, &end);
    if (*end || !(v >= 0 && v <= max)) {
        fprintf(stderr, "cuda-load: %s is no number from 0 to %g\n", text, max);
        exit(2);
    }
    return v;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: cuda-load SECONDS MEMORY_MIB BUSY_PERCENT\n");
        return 2;
    }
    double seconds = number(argv[1], 3600), mib = number(argv[2], 1 << 20),
           percent = number(argv[3], 100);
    struct load l = {0};
    resolve();
    prepare(&l, (size_t)mib, percent);
    l.end = now_ns() + (int64_t)(seconds * 1e9);
    if (percent == 100) {
        full_load(&l);
    } else {
        for (int64_t period = now_ns(); period < l.end; period = next_period(period)) {
            if (percent > 0)
                run(&l, l.rounds);
            sleep_until(period + PERIOD_NS);
        }
    }
    printf("done\n");
    return 0;
}
