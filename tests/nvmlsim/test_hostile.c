// SPDX-License-Identifier: Apache-2.0
// A process of the same user that writes anything anywhere in the segment, all the time: what is
// attached stays within its memory and comes to an end. Mutexes are left alone (see
// nvmlsim_private.h), and so are lost GPUs and fault rules, which would only end the calls early.
#include "nvmlsim/nvmlsim_private.h"
#include "nvmltest.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { ROUNDS = 400 };

struct writer {
    pthread_t thread;
    struct nvmlsim_shm_segment *seg;
    size_t size;
    atomic_bool stop;
    uint64_t random;
};

static uint64_t next(struct writer *w)
{
    w->random = w->random * UINT64_C(6364136223846793005) + 1442695040888963407U;
    return w->random >> 16;
}

static uint64_t some_value(struct writer *w)
{
    static const uint64_t values[] = {
        0, 1, 7, 8, 255, 65535, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX, 1ULL << 63, 1 << 20};
    uint64_t i = next(w) % (GS_ARRAY_LEN(values) + 3);
    return i < GS_ARRAY_LEN(values) ? values[i] : next(w) << 20 ^ next(w);
}

static bool within(const void *at, const void *start, size_t size)
{
    return (uintptr_t)at + 8 > (uintptr_t)start && (uintptr_t)at < (uintptr_t)start + size;
}

static bool is_spared(const struct writer *w, const void *at, unsigned n_gpus)
{
    const struct nvmlsim_shm_segment *s = w->seg;
    if (within(at, &s->lock, sizeof(s->lock)) || within(at, &s->n_faults, sizeof(s->n_faults)) ||
        within(at, s->faults, sizeof(s->faults)))
        return true;
    for (unsigned i = 0; i < n_gpus; i++)
        if (within(at, &s->gpus[i].lock, sizeof(s->gpus[i].lock)) ||
            within(at, &s->gpus[i].lost, sizeof(s->gpus[i].lost)))
            return true;
    return false;
}

// The places where a value matters most, and any.
static void *some_place(struct writer *w, unsigned n_gpus)
{
    struct nvmlsim_shm_gpu *g = &w->seg->gpus[next(w) % n_gpus];
    struct nvmlsim_shm_timeline *t = &g->timelines[next(w) % NVMLSIM_SHM_TIMELINES];
    switch (next(w) % 10) {
    case 0:
        return &g->board.n_mig;
    case 1:
        return &w->seg->n_gpus;
    case 2:
        return &t->n;
    case 3:
        return &t->floor;
    case 4:
        return &g->processes[next(w) % NVMLSIM_SHM_PROCESSES].timeline;
    case 5:
        return &g->n_events;
    case 6:
        return (char *)&g->board + next(w) % (sizeof(g->board) / 8) * 8;
    case 7:
        return &t->reservations[next(w) % NVMLSIM_SHM_RESERVATIONS].end;
    case 8:
        return &g->processes[next(w) % NVMLSIM_SHM_PROCESSES].state;
    default:
        return (char *)w->seg + next(w) % (w->size / 8) * 8;
    }
}

static void *write_anything(void *arg)
{
    struct writer *w = arg;
    unsigned n_gpus = (unsigned)((w->size - sizeof(*w->seg)) / sizeof(struct nvmlsim_shm_gpu));
    while (!atomic_load(&w->stop)) {
        void *at = some_place(w, n_gpus);
        if (within(at, w->seg, w->size - 8) && !is_spared(w, at, n_gpus)) {
            uint64_t v = some_value(w);
            memcpy(at, &v, sizeof(v));
        }
    }
    return NULL;
}

static void start_writer(struct writer *w, const char *name)
{
    struct stat st;
    int fd = shm_open(name, O_RDWR, 0);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    *w = (struct writer){.size = (size_t)st.st_size, .random = 1};
    w->seg = mmap(NULL, w->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(w->seg != MAP_FAILED);
    close(fd);
    assert_int_equal(pthread_create(&w->thread, NULL, write_anything, w), 0);
}

static void stop_writer(struct writer *w)
{
    atomic_store(&w->stop, true);
    pthread_join(w->thread, NULL);
    munmap(w->seg, w->size);
}

static void read_identity(nvmlDevice_t d)
{
    char text[200];
    unsigned u, u2;
    int i, i2;
    nvmlPciInfo_t pci;
    nvmlDevice_t other;
    nv.nvmlDeviceGetName(d, text, sizeof(text));
    if (nv.nvmlDeviceGetUUID(d, text, sizeof(text)) == 0) {
        assert_true(strlen(text) < 96);
        nv.nvmlDeviceGetHandleByUUID(text, &other);
    }
    if (nv.nvmlDeviceGetPciInfo_v3(d, &pci) == 0)
        nv.nvmlDeviceGetHandleByPciBusId_v2(pci.busId, &other);
    nv.nvmlDeviceGetIndex(d, &u);
    nv.nvmlDeviceGetMinorNumber(d, &u);
    nv.nvmlDeviceGetSerial(d, text, sizeof(text));
    nv.nvmlDeviceGetBrand(d, &i);
    nv.nvmlDeviceGetCudaComputeCapability(d, &i, &i2);
    nv.nvmlDeviceGetMigMode(d, &u, &u2);
    nv.nvmlDeviceGetMaxMigDeviceCount(d, &u);
    for (unsigned m = 0; m < 8; m++)
        if (nv.nvmlDeviceGetMigDeviceHandleByIndex(d, m, &other) == 0) {
            nvmlDeviceAttributes_t attributes;
            nvmlMemory_t memory;
            nv.nvmlDeviceGetAttributes_v2(other, &attributes);
            nv.nvmlDeviceGetGpuInstanceId(other, &u);
            nv.nvmlDeviceGetMemoryInfo(other, &memory);
            nv.nvmlDeviceGetName(other, text, sizeof(text));
        }
}

static void nvmlsim_read_gauges(nvmlDevice_t d)
{
    nvmlUtilization_t rates;
    nvmlMemory_t memory;
    unsigned u;
    int i;
    unsigned long long ull;
    nv.nvmlDeviceGetUtilizationRates(d, &rates);
    nv.nvmlDeviceGetMemoryInfo(d, &memory);
    nv.nvmlDeviceGetBAR1MemoryInfo(d, &memory);
    nv.nvmlDeviceGetTemperature(d, 0, &u);
    nv.nvmlDeviceGetPowerUsage(d, &u);
    nv.nvmlDeviceGetTotalEnergyConsumption(d, &ull);
    nv.nvmlDeviceGetEnforcedPowerLimit(d, &u);
    nv.nvmlDeviceGetPerformanceState(d, &i);
    nv.nvmlDeviceGetFanSpeed(d, &u);
    nv.nvmlDeviceGetFanSpeed_v2(d, 0, &u);
    for (int type = 0; type < 4; type++)
        nv.nvmlDeviceGetClockInfo(d, type, &u);
    for (unsigned link = 0; link < 64; link++)
        nv.nvmlDeviceGetNvLinkState(d, link, &i);
    for (int type = 0; type < 3; type++)
        nv.nvmlDeviceGetTemperatureThreshold(d, type, &u);
}

static void read_lists(nvmlDevice_t d, nvmlEventSet_t set)
{
    static nvmlProcessInfo_v2_t processes[NVMLSIM_SHM_PROCESSES];
    static nvmlProcessUtilizationSample_t utilisation[NVMLSIM_SHM_PROCESSES];
    static nvmlSample_t samples[NVMLSIM_SHM_BUCKETS];
    nvmlFieldValue_t fields[30] = {0};
    nvmlEventData_t event;
    unsigned n = NVMLSIM_SHM_PROCESSES;
    int type;
    nv.nvmlDeviceGetComputeRunningProcesses_v3(d, &n, processes);
    assert_true(n <= NVMLSIM_SHM_PROCESSES);
    n = NVMLSIM_SHM_PROCESSES;
    nv.nvmlDeviceGetProcessUtilization(d, utilisation, &n, 0);
    n = NVMLSIM_SHM_BUCKETS;
    nv.nvmlDeviceGetSamples(d, 1, 0, &type, &n, samples);
    for (unsigned i = 0; i < GS_ARRAY_LEN(fields); i++)
        fields[i].fieldId = 1 + i * 9;
    nv.nvmlDeviceGetFieldValues(d, (int)GS_ARRAY_LEN(fields), fields);
    nv.nvmlEventSetWait_v2(set, &event, 0);
}

static void use_device(void)
{
    struct nvmlsim_ctx *c = NULL;
    struct nvmlsim_alloc *memory = NULL;
    struct gs_error *err = nvmlsim_ctx_open(0, &c);
    if (!err) {
        gs_error_free(nvmlsim_mem_alloc(c, 1 << 20, &memory));
        gs_error_free(nvmlsim_kernel_run(c, 100, 0.5));
        nvmlsim_mem_free(c, memory);
    }
    gs_error_free(err);
    nvmlsim_ctx_close(c);
}

static void under_fire(struct nvmlsim *s)
{
    struct writer w;
    nvmlEventSet_t set = NULL;
    nvmlDevice_t devices[2];
    unsigned n = nvmlsim_gpu_count(s);
    assert_int_equal(nv.nvmlEventSetCreate(&set), 0);
    for (unsigned i = 0; i < n; i++) {
        devices[i] = device(i);
        assert_int_equal(nv.nvmlDeviceRegisterEvents(devices[i], 8, set), 0);
    }
    start_writer(&w, nvmlsim_name(s));
    for (unsigned round = 0; round < ROUNDS; round++) {
        nvmlDevice_t d = devices[round % n];
        struct nvmlsim_gpu_info info;
        read_identity(d);
        nvmlsim_read_gauges(d);
        read_lists(d, set);
        use_device();
        nvmlsim_gpu_info(s, round % n, &info);
        assert_true(info.n_mig <= NVMLSIM_MAX_MIG);
        assert_int_equal(nvmlsim_gpu_count(s), n);
    }
    stop_writer(&w);
    assert_int_equal(nv.nvmlEventSetFree(set), 0);
}

static void test_whole_gpus_under_fire(void **state)
{
    struct nvmlsim *s = start("1xH100-80GB-HBM3,1xTesla-T4");
    under_fire(s);
    stop(s);
    (void)state;
}

static void test_a_divided_gpu_under_fire(void **state)
{
    struct nvmlsim *s = start_mig();
    under_fire(s);
    stop(s);
    (void)state;
}

int main(void)
{
    load_nvml(&nv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_gpus_under_fire),
        cmocka_unit_test(test_a_divided_gpu_under_fire),
    };
    return cmocka_run_group_tests_name("hostile", tests, NULL, NULL);
}
