// SPDX-License-Identifier: Apache-2.0
// What the library says about what ran: utilisation, processes, energy, GPM.
#include "nvmltest.h"

#include <sys/mman.h>

struct load {
    int ready[2];
    unsigned duty_percent; // of 100 ms
    double share;
    uint64_t bytes;
    uint64_t *ran_us; // shared with the child: what it has run so far
};

static void run_load(void *arg)
{
    const struct load *l = arg;
    struct nvmlsim_ctx *c = NULL;
    struct nvmlsim_alloc *a = NULL;
    if (nvmlsim_ctx_open(0, &c) || nvmlsim_mem_alloc(c, l->bytes, &a))
        _exit(1);
    if (write(l->ready[1], "", 1) != 1)
        _exit(1);
    for (int64_t next = gs_mono_ns();;) {
        for (unsigned i = 0; i < l->duty_percent; i += 10) { // kernels of 10 ms
            if (nvmlsim_kernel_run(c, 10000, l->share))
                _exit(1);
            __atomic_add_fetch(l->ran_us, 10000, __ATOMIC_RELAXED);
        }
        next += 100 * GS_NS_PER_MS;
        int64_t left = next - gs_mono_ns();
        if (left > 0)
            sleep_ms(left / GS_NS_PER_MS);
    }
}

static pid_t start_load(struct load *l)
{
    char byte;
    assert_int_equal(pipe(l->ready), 0);
    l->ran_us = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(l->ran_us, MAP_FAILED);
    pid_t pid = start_child(run_load, l);
    assert_int_equal(read(l->ready[0], &byte, 1), 1);
    close(l->ready[0]);
    close(l->ready[1]);
    return pid;
}

static unsigned mean_util(nvmlDevice_t d, unsigned long long since)
{
    nvmlSample_t samples[200];
    unsigned n = 200;
    int type = -1;
    assert_int_equal(nv.nvmlDeviceGetSamples(d, NVML_SAMPLE_GPU_UTIL, since, &type, &n, samples),
                     0);
    assert_int_equal(type, NVML_VALUE_U32);
    assert_true(n > 0);
    unsigned sum = 0;
    for (unsigned i = 0; i < n; i++) {
        assert_true(samples[i].timeStamp > since);
        assert_true(i == 0 || samples[i].timeStamp > samples[i - 1].timeStamp);
        sum += samples[i].sampleValue.u32;
    }
    return sum / n;
}

// How far a utilisation may be from what ran: kernels and sample periods at the edges of the
// window.
#define SLACK 9

// What the loads ran while the device was looked at.
struct window {
    unsigned long long since; // Unix time in µs
    int64_t start_ns, opened_ns, end_ns;
    double percent[2]; // what each of them ran: on a busy machine less than it wanted
};

// Lets the loads run for three seconds.
static void run_loads(const struct load *const *loads, unsigned n, struct window *ret)
{
    uint64_t before[GS_ARRAY_LEN(ret->percent)];
    ret->start_ns = gs_mono_ns();
    ret->since = (unsigned long long)gs_unix_us();
    for (unsigned i = 0; i < n; i++)
        before[i] = __atomic_load_n(loads[i]->ran_us, __ATOMIC_RELAXED);
    ret->opened_ns = gs_mono_ns();
    sleep_ms(3000);
    ret->end_ns = gs_mono_ns();
    for (unsigned i = 0; i < n; i++) {
        uint64_t ran = __atomic_load_n(loads[i]->ran_us, __ATOMIC_RELAXED) - before[i];
        ret->percent[i] = (double)ran * 1000 * 100 / (double)(ret->end_ns - ret->start_ns);
    }
}

// Whether what was read since then is of the window's time, and the loads ran in it. Where the
// machine stood still at one of its ends, or most of the time, nothing follows from it.
static bool is_sharp(const struct window *w, unsigned n)
{
    const int64_t most = 20 * GS_NS_PER_MS;
    bool sharp = w->opened_ns - w->start_ns < most && gs_mono_ns() - w->end_ns < most;
    for (unsigned i = 0; i < n; i++)
        sharp = sharp && w->percent[i] > 1;
    return sharp;
}

static void assert_near(double value, double wanted)
{
    if (value < wanted - SLACK || value > wanted + SLACK)
        fail_msg("%.1f, wanted about %.1f", value, wanted);
}

static void test_utilisation_follows_the_load(void **state)
{
    struct nvmlsim *s = start("A100-SXM4-80GB");
    nvmlDevice_t d = device(0);
    nvmlUtilization_t u, again;
    assert_int_equal(nv.nvmlDeviceGetUtilizationRates(d, &u), 0);
    assert_int_equal(u.gpu, 0);
    struct load l = {.duty_percent = 30, .share = 1, .bytes = 1 << 30};
    const struct load *loads[] = {&l};
    pid_t pid = start_load(&l);
    struct window w;
    unsigned mean = 0;
    int tries = 0;
    do {
        assert_true(tries++ < 100);
        run_loads(loads, 1, &w);
        mean = mean_util(d, w.since);
    } while (!is_sharp(&w, 1));
    assert_near(mean, w.percent[0]);
    unsigned mw = 0, mhz = 0;
    int64_t from;
    do { // the gauges of one and the same sample period
        from = gs_mono_ns();
        assert_int_equal(nv.nvmlDeviceGetUtilizationRates(d, &u), 0);
        assert_int_equal(nv.nvmlDeviceGetPowerUsage(d, &mw), 0);
        assert_int_equal(nv.nvmlDeviceGetClockInfo(d, 1, &mhz), 0);
        assert_int_equal(nv.nvmlDeviceGetUtilizationRates(d, &again), 0);
    } while (u.gpu < 2 || u.gpu != again.gpu || gs_mono_ns() - from > 20 * GS_NS_PER_MS);
    assert_in_range(mw, 61000 + 3390 * u.gpu - 3390, 61000 + 3390 * u.gpu + 3390);
    assert_in_range(u.memory * 2, u.gpu - 2, u.gpu + 2);
    assert_int_equal(mhz, 1410);
    end_child(pid, SIGKILL);
    munmap(l.ran_us, 4096);
    stop(s);
}

static void check_utilisation(nvmlDevice_t d, const struct load *const *loads, const pid_t *pids)
{
    nvmlProcessUtilizationSample_t u[8];
    nvmlProcessUtilizationInfo_v1_t infos[8];
    nvmlProcessesUtilizationInfo_v1_t request;
    struct window w;
    unsigned mean = 0;
    int tries = 0;
    do {
        assert_true(tries++ < 100);
        run_loads(loads, 2, &w);
        unsigned n = 8;
        int rc = nv.nvmlDeviceGetProcessUtilization(d, u, &n, w.since);
        if (w.percent[0] <= 1 || w.percent[1] <= 1)
            continue;
        assert_int_equal(rc, 0);
        assert_int_equal(n, 2); // the idle one has no record
        request = (nvmlProcessesUtilizationInfo_v1_t){.version = 0x01000018,
                                                      .processSamplesCount = 8,
                                                      .lastSeenTimeStamp = w.since,
                                                      .procUtilArray = infos};
        assert_int_equal(nv.nvmlDeviceGetProcessesUtilizationInfo(d, &request), 0);
        mean = mean_util(d, w.since);
    } while (!is_sharp(&w, 2));
    for (unsigned i = 0; i < 2; i++) {
        assert_true(u[i].pid == (uint32_t)pids[0] || u[i].pid == (uint32_t)pids[1]);
        assert_near(u[i].smUtil, w.percent[u[i].pid == (uint32_t)pids[0] ? 0 : 1]);
        assert_true(u[i].timeStamp > w.since);
    }
    assert_true(u[0].smUtil + u[1].smUtil <= 101); // one at a time
    assert_int_equal(request.processSamplesCount, 2);
    assert_near(infos[0].smUtil, u[0].smUtil);
    request.processSamplesCount = 1;
    assert_int_equal(nv.nvmlDeviceGetProcessesUtilizationInfo(d, &request),
                     NVML_ERROR_INSUFFICIENT_SIZE);
    assert_near(mean, w.percent[0] + w.percent[1]);
}

// Both strides of the list of who has the device open, and the size protocol.
static void check_list(nvmlDevice_t d, const pid_t *pids)
{
    unsigned n = 0;
    assert_int_equal(nv.nvmlDeviceGetComputeRunningProcesses(d, &n, NULL),
                     NVML_ERROR_INSUFFICIENT_SIZE);
    assert_int_equal(n, 3);
    nvmlProcessInfo_v1_t v1[4];
    nvmlProcessInfo_v2_t v2[4];
    memset(v1, 0x5a, sizeof(v1));
    memset(v2, 0x5a, sizeof(v2));
    n = 4;
    assert_int_equal(nv.nvmlDeviceGetComputeRunningProcesses(d, &n, v1), 0);
    assert_int_equal(n, 3);
    assert_int_equal(v1[2].pid, pids[2]);
    assert_int_equal(v1[2].usedGpuMemory, 2ULL << 30);
    assert_int_equal(v1[3].pid, 0x5a5a5a5a);
    n = 4;
    assert_int_equal(nv.nvmlDeviceGetComputeRunningProcesses_v3(d, &n, v2), 0);
    assert_int_equal(n, 3);
    assert_int_equal(v2[1].pid, pids[1]);
    assert_int_equal(v2[1].usedGpuMemory, 1ULL << 30);
    assert_int_equal(v2[1].gpuInstanceId, UINT32_MAX);
    assert_int_equal(v2[3].pid, 0x5a5a5a5a);
    nvmlProcessDetail_v1_t details[4];
    nvmlProcessDetailList_v1_t list = {
        .version = 0x01000018, .numProcArrayEntries = 4, .procArray = details};
    assert_int_equal(nv.nvmlDeviceGetRunningProcessDetailList(d, &list), 0);
    assert_int_equal(list.numProcArrayEntries, 3);
    assert_int_equal(details[0].pid, pids[0]);
    n = 0;
    assert_int_equal(nv.nvmlDeviceGetGraphicsRunningProcesses_v3(d, &n, NULL), 0);
}

static void test_processes_share_a_gpu(void **state)
{
    struct nvmlsim *s = start("A100-SXM4-80GB");
    nvmlDevice_t d = device(0);
    nvmlProcessUtilizationSample_t u[8];
    nvmlProcessInfo_v2_t info[4];
    unsigned n = 0;
    assert_int_equal(nv.nvmlDeviceGetProcessUtilization(d, NULL, &n, 0),
                     NVML_ERROR_INSUFFICIENT_SIZE);
    assert_true(n >= 100); // a capacity
    n = 8;
    assert_int_equal(nv.nvmlDeviceGetProcessUtilization(d, u, &n, 0), NVML_ERROR_NOT_FOUND);

    struct load one = {.duty_percent = 100, .share = 1, .bytes = 1ULL << 30}, two = one;
    struct load idle = {.duty_percent = 0, .share = 1, .bytes = 2ULL << 30};
    const struct load *loads[] = {&one, &two};
    pid_t pids[] = {start_load(&one), start_load(&two), start_load(&idle)};
    check_utilisation(d, loads, pids);
    check_list(d, pids);
    for (int i = 0; i < 3; i++)
        end_child(pids[i], SIGKILL);
    munmap(one.ran_us, 4096);
    munmap(two.ran_us, 4096);
    munmap(idle.ran_us, 4096);

    n = 4;
    assert_int_equal(nv.nvmlDeviceGetComputeRunningProcesses_v2(d, &n, info), 0);
    assert_int_equal(n, 0);
    sleep_ms(400); // past the last slice of the dead
    n = 8;
    assert_int_equal(nv.nvmlDeviceGetProcessUtilization(d, u, &n, (unsigned long long)gs_unix_us()),
                     NVML_ERROR_NOT_FOUND);
    n = 8;
    assert_int_equal(nv.nvmlDeviceGetProcessUtilization(d, u, &n, 0), 0); // still in the buffer
    assert_int_equal(n, 2);
    stop(s);
}

static void test_energy_is_exact(void **state)
{
    struct nvmlsim *s = start("A100-SXM4-80GB");
    nvmlDevice_t d = device(0);
    struct nvmlsim_ctx *c = NULL;
    ok(nvmlsim_ctx_open(0, &c));
    unsigned long long before = 0, after = 0;
    int64_t t0 = gs_mono_ns();
    assert_int_equal(nv.nvmlDeviceGetTotalEnergyConsumption(d, &before), 0);
    int64_t t1 = gs_mono_ns();
    ok(nvmlsim_kernel_run(c, 200000, 0.5));
    int64_t t2 = gs_mono_ns();
    assert_int_equal(nv.nvmlDeviceGetTotalEnergyConsumption(d, &after), 0);
    int64_t t3 = gs_mono_ns();
    uint64_t dynamic = 339 * 100; // mJ: 339 W for half of 200 ms
    uint64_t least = dynamic + 61 * (uint64_t)(t2 - t1) / 1000000;
    uint64_t most = dynamic + 61 * (uint64_t)(t3 - t0) / 1000000 + 2;
    assert_in_range(after - before + 1, least, most);
    nvmlsim_ctx_close(c);
    stop(s);
}

static void run_on(nvmlDevice_t mig, double share, uint64_t us, uint64_t *ret_ns)
{
    char uuid[96];
    assert_int_equal(nv.nvmlDeviceGetUUID(mig, uuid, sizeof(uuid)), 0);
    setenv("CUDA_VISIBLE_DEVICES", uuid, 1);
    struct nvmlsim_ctx *c = NULL;
    struct nvmlsim_alloc *a = NULL;
    ok(nvmlsim_ctx_open(0, &c));
    ok(nvmlsim_mem_alloc(c, 100 << 20, &a));
    fails(nvmlsim_mem_alloc(c, 70ULL << 30, &a), GS_ELIMIT, "out of memory");
    nvmlProcessInfo_v2_t info[2];
    unsigned n = 2, gi = 0;
    assert_int_equal(nv.nvmlDeviceGetComputeRunningProcesses_v3(mig, &n, info), 0);
    assert_int_equal(n, 1);
    assert_int_equal(nv.nvmlDeviceGetGpuInstanceId(mig, &gi), 0);
    assert_int_equal(info[0].gpuInstanceId, gi);
    assert_int_equal(info[0].computeInstanceId, 0);
    assert_int_equal(info[0].usedGpuMemory, 100 << 20);
    int64_t before = gs_mono_ns();
    ok(nvmlsim_kernel_run(c, us, share));
    *ret_ns = (uint64_t)(gs_mono_ns() - before);
    nvmlsim_ctx_close(c);
    unsetenv("CUDA_VISIBLE_DEVICES");
}

static double gpm_value(nvmlGpmSample_t a, nvmlGpmSample_t b, unsigned metric)
{
    size_t size = sizeof(nvmlGpmMetricsGet_t) + sizeof(nvmlGpmMetric_t);
    nvmlGpmMetricsGet_t *request = gs_alloc(size);
    request->version = 1;
    request->numMetrics = 1;
    request->sample1 = a;
    request->sample2 = b;
    request->metrics[0].metricId = metric;
    assert_int_equal(nv.nvmlGpmMetricsGet(request), 0);
    double value = request->metrics[0].nvmlReturn == 0 ? request->metrics[0].value : -1;
    free(request);
    return value;
}

static void test_mig_runs_and_gpm_sees_it(void **state)
{
    struct nvmlsim *s = start_mig();
    nvmlDevice_t d = device(0), small = NULL, large = NULL;
    assert_int_equal(nv.nvmlDeviceGetMigDeviceHandleByIndex(d, 0, &small), 0);
    assert_int_equal(nv.nvmlDeviceGetMigDeviceHandleByIndex(d, 1, &large), 0);
    nvmlGpmSample_t before, after, whole_before, whole_after;
    assert_int_equal(nv.nvmlGpmSampleAlloc(&before), 0);
    assert_int_equal(nv.nvmlGpmSampleAlloc(&after), 0);
    assert_int_equal(nv.nvmlGpmSampleAlloc(&whole_before), 0);
    assert_int_equal(nv.nvmlGpmSampleAlloc(&whole_after), 0);
    unsigned gi = 0;
    assert_int_equal(nv.nvmlDeviceGetGpuInstanceId(small, &gi), 0);
    int64_t t0 = gs_mono_ns();
    assert_int_equal(nv.nvmlGpmMigSampleGet(d, gi, before), 0);
    assert_int_equal(nv.nvmlGpmSampleGet(d, whole_before), 0);
    int64_t t1 = gs_mono_ns();
    uint64_t ns = 0;
    run_on(small, 1, 50000, &ns); // 50 ms of the whole device on 16 of its 132 SMs
    double busy_ns = 50.0 * (double)GS_NS_PER_MS * 132 / 16;
    assert_true((double)ns >= busy_ns - (double)GS_NS_PER_MS);
    int64_t t2 = gs_mono_ns();
    assert_int_equal(nv.nvmlGpmMigSampleGet(d, gi, after), 0);
    assert_int_equal(nv.nvmlGpmSampleGet(d, whole_after), 0);
    int64_t t3 = gs_mono_ns();
    assert_int_equal(nv.nvmlGpmMigSampleGet(d, 99, after), NVML_ERROR_NOT_FOUND);
    double most = 100 * busy_ns / (double)(t2 - t1) + 1,
           least = 100 * busy_ns / (double)(t3 - t0) - 1;
    for (unsigned metric = 1; metric <= 2; metric++) {
        double value = gpm_value(before, after, metric);
        assert_true(value >= least && value <= most);
    }
    double whole = gpm_value(whole_before, whole_after, 2);
    assert_true(whole >= least * 16 / 132 - 1 && whole <= most * 16 / 132 + 1);
    assert_true(gpm_value(before, after, 7) < 0); // tensor pipes are not simulated, which is not 0
    run_on(large, 0.1, 20000, &ns);
    assert_int_equal(nv.nvmlGpmSampleFree(before), 0);
    assert_int_equal(nv.nvmlGpmSampleFree(after), 0);
    assert_int_equal(nv.nvmlGpmSampleFree(whole_before), 0);
    assert_int_equal(nv.nvmlGpmSampleFree(whole_after), 0);
    stop(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utilisation_follows_the_load),
        cmocka_unit_test(test_processes_share_a_gpu),
        cmocka_unit_test(test_energy_is_exact),
        cmocka_unit_test(test_mig_runs_and_gpm_sees_it),
    };
    load_nvml(&nv);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    dlclose(nv.handle);
    return failed;
}
