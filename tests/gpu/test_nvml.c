// SPDX-License-Identifier: Apache-2.0
#include "base/clock.h"
#include "base/mem.h"
#include "base/slice.h"
#include "fake_nvml.h"
#include "gpu/gpu.h"
#include "gpu/nvml.h"
#include "patience.h"
#include "unit.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture {
    void *library;
    struct fake_nvml *fake;
    struct gpu_backend *backend;
    struct gpu_snapshot *s;
};

static struct fixture f;

static char *library_path(const char *name)
{
    return gs_format("%s/tests/gpu/lib%s.so", getenv("GPUSCALE_BUILD_ROOT"), name);
}

static void open_with(const char *name, bool max_util)
{
    GS_AUTO_FREE char *path = library_path(name);
    f.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!f.library)
        fail_msg("%s", dlerror());
    f.fake = dlsym(f.library, "fake_nvml");
    assert_non_null(f.fake);
    memset(f.fake, 0, sizeof(*f.fake));
    f.fake->count = 2;
    f.fake->stride = 24;
    for (int i = 0; i < FAKE_GPUS; i++)
        f.fake->gpus[i].memory_total = (uint64_t)80 << 30;
    struct gpu_backend_config cfg = {
        .library = path, .max_util = max_util, .patience_ns = WAIT_NS, .hung_after_ns = WAIT_NS};
    struct gs_error *err = gpu_backend_open(&cfg, &f.backend);
    assert_null(err);
}

static void open_library(const char *name)
{
    open_with(name, false);
}

static const struct gpu_snapshot *sample(void)
{
    gpu_snapshot_free(f.s);
    f.s = NULL;
    struct gs_error *err = gpu_backend_sample(f.backend, &f.s);
    if (err)
        fail_msg("%s", gs_error_message(err));
    return f.s;
}

static int teardown(void **state)
{
    gpu_snapshot_free(f.s);
    gpu_backend_close(f.backend);
    if (f.library)
        dlclose(f.library);
    f = (struct fixture){0};
    return 0;
}

static void add_process(unsigned gpu, uint32_t pid, uint64_t mib)
{
    struct fake_gpu *g = &f.fake->gpus[gpu];
    g->processes[g->n_processes++] =
        (struct nvml_process_v2){pid, mib << 20, GPU_NO_INSTANCE, GPU_NO_INSTANCE};
}

static const struct gpu_process *find(const struct gpu_device *d, uint32_t pid)
{
    for (size_t i = 0; i < d->n_processes; i++)
        if (d->processes[i].pid == pid)
            return &d->processes[i];
    return NULL;
}

static void assert_int_field(const struct gpu_device *d, enum gpu_field field, int64_t v)
{
    assert_int_equal(d->fields[field].validity, GPU_VALID);
    assert_false(d->fields[field].is_double);
    assert_int_equal(d->fields[field].i, v);
}

static void assert_absent(const struct gpu_device *d, enum gpu_field field, enum gpu_validity why)
{
    assert_int_equal(d->fields[field].validity, why);
}

static void test_no_library_says_where_it_looked(void **state)
{
    struct gpu_backend *b = NULL;
    struct gpu_backend_config cfg = {.library = "/nonexistent/libnvidia-ml.so.1"};
    GS_AUTO_ERROR struct gs_error *err = gpu_backend_open(&cfg, &b);
    assert_non_null(err);
    assert_null(b);
    assert_int_equal(gs_error_code(err), GS_ENOTFOUND);
    assert_non_null(strstr(gs_error_message(err), "/nonexistent/libnvidia-ml.so.1"));
}

// In a container without NVIDIA's runtime, the driver is below a mount of the host's root.
static void test_library_below_the_root_of_the_host(void **state)
{
    void *installed = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (installed) {
        dlclose(installed);
        skip_because("this machine has a driver, which is found first");
    }
    static const char *const folders[] = {"/home", "/home/kubernetes", "/home/kubernetes/bin",
                                          "/home/kubernetes/bin/nvidia",
                                          "/home/kubernetes/bin/nvidia/lib64"};
    char root[] = "/tmp/gpuscale-root-XXXXXX";
    assert_non_null(mkdtemp(root));
    char *paths[GS_ARRAY_LEN(folders)];
    for (size_t i = 0; i < GS_ARRAY_LEN(folders); i++) {
        paths[i] = gs_format("%s%s", root, folders[i]);
        assert_int_equal(mkdir(paths[i], 0700), 0);
    }
    GS_AUTO_FREE char *link = gs_format("%s/libnvidia-ml.so.1", paths[GS_ARRAY_LEN(folders) - 1]);
    GS_AUTO_FREE char *library = library_path("fakenvml2");
    assert_int_equal(symlink(library, link), 0);
    unsetenv("GPUSCALE_NVML_LIBRARY");
    setenv("DRIVER_ROOT_CTR_PATH", root, 1);
    struct nvml n = {0};
    assert_null(nvml_load(NULL, &n));
    assert_string_equal(n.path, link);
    nvml_unload(&n);

    // Without the library, the text names the paths below the root.
    unlink(link);
    GS_AUTO_ERROR struct gs_error *err = nvml_load(NULL, &n);
    assert_int_equal(gs_error_code(err), GS_ENOTFOUND);
    assert_non_null(strstr(gs_error_message(err), link));
    unsetenv("DRIVER_ROOT_CTR_PATH");
    for (size_t i = GS_ARRAY_LEN(folders); i-- > 0;) {
        rmdir(paths[i]);
        free(paths[i]);
    }
    rmdir(root);
}

static void test_library_that_is_no_nvml(void **state)
{
    struct gpu_backend *b = NULL;
    struct gpu_backend_config cfg = {.library = "libc.so.6"};
    GS_AUTO_ERROR struct gs_error *err = gpu_backend_open(&cfg, &b);
    assert_non_null(err);
    assert_non_null(strstr(gs_error_message(err), "not an NVML library"));
}

static void test_real_library_where_simulated_is_demanded(void **state)
{
    GS_AUTO_FREE char *path = library_path("fakenvml2");
    struct gpu_backend *b = NULL;
    struct gpu_backend_config cfg = {.library = path, .simulated_only = true};
    GS_AUTO_ERROR struct gs_error *err = gpu_backend_open(&cfg, &b);
    assert_non_null(err);
    assert_null(b);
}

static void test_fields_and_identity(void **state)
{
    open_library("fakenvml2");
    f.fake->gpus[0].util = 37;
    f.fake->gpus[0].memory_used = (uint64_t)1536 << 20;
    const struct gpu_snapshot *s = sample();
    assert_false(s->simulated);
    assert_string_equal(s->driver_version, "570.1");
    assert_int_equal(s->n_devices, 2);
    const struct gpu_device *d = &s->devices[0];
    assert_string_equal(d->uuid, "GPU-00000000-aaaa-bbbb-cccc-dddddddddddd");
    assert_string_equal(d->name, "NVIDIA Fake");
    assert_string_equal(d->pci_bus_id, "00000000:01:00.0");
    assert_true(d->has_minor);
    assert_int_equal(d->minor, 4);
    assert_int_field(d, GPU_F_GPU_UTIL, 37);
    assert_int_field(d, GPU_F_MEM_COPY_UTIL, 7);
    assert_int_field(d, GPU_F_SM_CLOCK, 1410);
    assert_int_field(d, GPU_F_MEM_CLOCK, 1215);
    assert_int_field(d, GPU_F_GPU_TEMP, 41); // by the newer call
    assert_int_field(d, GPU_F_MEMORY_TEMP, 45);
    assert_int_field(d, GPU_F_FB_USED, 1536);
    assert_int_field(d, GPU_F_FB_RESERVED, 100);
    assert_int_field(d, GPU_F_FB_FREE, 80 * 1024 - 1636);
    assert_int_field(d, GPU_F_UNCORRECTABLE_REMAPPED, 2);
    assert_int_field(d, GPU_F_CORRECTABLE_REMAPPED, 1);
    assert_int_field(d, GPU_F_ROW_REMAP_FAILURE, 1);
    assert_int_field(d, GPU_F_XID_ERRORS, 0);
    assert_true(d->fields[GPU_F_POWER_USAGE].is_double);
    assert_true(d->fields[GPU_F_POWER_USAGE].d == 70.123);
    // Missing symbols and missing hardware: absent, not 0.
    assert_absent(d, GPU_F_TOTAL_ENERGY, GPU_NOT_SUPPORTED);
    assert_absent(d, GPU_F_ENC_UTIL, GPU_NOT_SUPPORTED);
    assert_absent(d, GPU_F_NVLINK_BANDWIDTH, GPU_NOT_SUPPORTED);
    assert_absent(d, GPU_F_VGPU_LICENSE, GPU_NOT_SUPPORTED);
    assert_int_equal(s->n_errors, 0);
}

// A field in base units and the older field of the same value.
struct unit_pair {
    enum gpu_field base, old;
    double factor;
    double rounding; // of the older field, in base units
};

static const struct unit_pair unit_pairs[] = {
    {GPU_F_BAR1_TOTAL_BYTES, GPU_F_BAR1_TOTAL, 1 << 20, 1 << 20},
    {GPU_F_BAR1_USED_BYTES, GPU_F_BAR1_USED, 1 << 20, 1 << 20},
    {GPU_F_BAR1_FREE_BYTES, GPU_F_BAR1_FREE, 1 << 20, 1 << 20},
    {GPU_F_SM_CLOCK_HZ, GPU_F_SM_CLOCK, 1e6},
    {GPU_F_MEM_CLOCK_HZ, GPU_F_MEM_CLOCK, 1e6},
    {GPU_F_VIDEO_CLOCK_HZ, GPU_F_VIDEO_CLOCK, 1e6},
    {GPU_F_APP_SM_CLOCK_HZ, GPU_F_APP_SM_CLOCK, 1e6},
    {GPU_F_APP_MEM_CLOCK_HZ, GPU_F_APP_MEM_CLOCK, 1e6},
    {GPU_F_MAX_SM_CLOCK_HZ, GPU_F_MAX_SM_CLOCK, 1e6},
    {GPU_F_MAX_MEM_CLOCK_HZ, GPU_F_MAX_MEM_CLOCK, 1e6},
    {GPU_F_MAX_VIDEO_CLOCK_HZ, GPU_F_MAX_VIDEO_CLOCK, 1e6},
    {GPU_F_ENERGY_JOULES, GPU_F_TOTAL_ENERGY, 1e-3, 1},
    {GPU_F_FAN_SPEED_RATIO, GPU_F_FAN_SPEED, 1e-2},
    {GPU_F_GPU_UTIL_RATIO, GPU_F_GPU_UTIL, 1e-2},
    {GPU_F_MEM_COPY_UTIL_RATIO, GPU_F_MEM_COPY_UTIL, 1e-2},
    {GPU_F_ENC_UTIL_RATIO, GPU_F_ENC_UTIL, 1e-2},
    {GPU_F_DEC_UTIL_RATIO, GPU_F_DEC_UTIL, 1e-2},
    {GPU_F_POWER_SECONDS, GPU_F_POWER_VIOLATION, 1e-9},
    {GPU_F_THERMAL_SECONDS, GPU_F_THERMAL_VIOLATION, 1e-9},
    {GPU_F_SYNC_BOOST_SECONDS, GPU_F_SYNC_BOOST_VIOLATION, 1e-9},
    {GPU_F_BOARD_LIMIT_SECONDS, GPU_F_BOARD_LIMIT_VIOLATION, 1e-9},
    {GPU_F_LOW_UTIL_SECONDS, GPU_F_LOW_UTIL_VIOLATION, 1e-9},
    {GPU_F_RELIABILITY_SECONDS, GPU_F_RELIABILITY_VIOLATION, 1e-9},
    {GPU_F_APP_CLOCKS_SECONDS, GPU_F_APP_CLOCKS_VIOLATION, 1e-9},
    {GPU_F_BASE_CLOCKS_SECONDS, GPU_F_BASE_CLOCKS_VIOLATION, 1e-9},
    {GPU_F_FB_TOTAL_BYTES, GPU_F_FB_TOTAL, 1 << 20, 1 << 20},
    {GPU_F_FB_FREE_BYTES, GPU_F_FB_FREE, 1 << 20, 1 << 20},
    {GPU_F_FB_USED_BYTES, GPU_F_FB_USED, 1 << 20, 1 << 20},
    {GPU_F_FB_RESERVED_BYTES, GPU_F_FB_RESERVED, 1 << 20, 1 << 20},
    {GPU_F_C2C_MAX_BYTES, GPU_F_C2C_MAX_BANDWIDTH, 1e6},
};

static double number_of(const struct gpu_value *v)
{
    return v->is_double ? v->d : (double)v->i;
}

static unsigned assert_pairs(const struct gpu_device *d)
{
    unsigned n = 0;
    for (size_t i = 0; i < GS_ARRAY_LEN(unit_pairs); i++) {
        const struct unit_pair *p = &unit_pairs[i];
        const struct gpu_value *base = &d->fields[p->base], *old = &d->fields[p->old];
        assert_int_equal(base->validity, old->validity);
        if (base->validity != GPU_VALID)
            continue;
        assert_int_equal(base->is_double, gpu_field_info(p->base)->kind == GPU_DOUBLE);
        double expected = number_of(old) * p->factor;
        assert_true(fabs(number_of(base) - expected) <= p->rounding + expected * 1e-12);
        n++;
    }
    return n;
}

// DCGM 4.7 has the same values in base units under other names.
static void test_base_units(void **state)
{
    open_library("fakenvml2");
    f.fake->counts = true;
    f.fake->gpus[0].util = 40;
    f.fake->gpus[0].memory_used = ((uint64_t)1536 << 20) + 4097;
    const struct gpu_device *d = &sample()->devices[0];
    assert_true(d->fields[GPU_F_GPU_UTIL_RATIO].d == 0.4);
    assert_int_field(d, GPU_F_SM_CLOCK_HZ, 1410000000);
    assert_int_field(d, GPU_F_FB_USED_BYTES, ((int64_t)1536 << 20) + 4097); // not rounded to MiB
    assert_int_equal(assert_pairs(d), 18);
    // Without their older names, they are read all the same.
    bool wanted[GPU_F_COUNT] = {0};
    for (size_t i = 0; i < GS_ARRAY_LEN(unit_pairs); i++)
        wanted[unit_pairs[i].base] = true;
    gpu_backend_want(f.backend, wanted, NULL);
    assert_int_field(&sample()->devices[0], GPU_F_SM_CLOCK_HZ, 1410000000);
}

// The struct of this call differs between NVIDIA's headers.
static void test_unrepairable_memory_of_either_layout(void **state)
{
    open_library("fakenvml2");
    f.fake->gpus[0].unrepairable = 1;
    const unsigned layouts[] = {4, 8};
    for (size_t i = 0; i < GS_ARRAY_LEN(layouts); i++) {
        f.fake->unrepairable_bytes = layouts[i];
        const struct gpu_snapshot *s = sample();
        assert_int_field(&s->devices[0], GPU_F_MEMORY_UNREPAIRABLE, 1);
        assert_int_field(&s->devices[1], GPU_F_MEMORY_UNREPAIRABLE, 0);
    }
    f.fake->unrepairable_bytes = 0;
    assert_absent(&sample()->devices[0], GPU_F_MEMORY_UNREPAIRABLE, GPU_NOT_SUPPORTED);
    f.fake->unrepairable_bytes = 1; // success without a value is no 0
    assert_absent(&sample()->devices[0], GPU_F_MEMORY_UNREPAIRABLE, GPU_FAILED);
}

// All links are read at the same time, so their rates differ as their counters, but for rounding.
static void assert_rate(const struct gpu_device *d, enum gpu_field field, double rate)
{
    assert_int_equal(d->fields[field].validity, GPU_VALID);
    assert_true(fabs((double)d->fields[field].i - rate) <= rate / 1000 + 1);
}

// Each link has its own counters and each field its own link and direction.
static void test_links_and_directions_are_not_mixed_up(void **state)
{
    enum { LINKS = 18 };
    static const enum gpu_field first[] = {GPU_F_PROF_NVLINK_L0_TX, GPU_F_PROF_NVLINK_L0_RX};
    open_library("fakenvml2");
    f.fake->nvlinks = LINKS;
    f.fake->gpm = true;
    sample();
    for (unsigned i = 0; i < LINKS; i++) {
        f.fake->sent_kib[i] = (i + 1) * 1000000;
        f.fake->received_kib[i] = (i + 1) * 3000000;
    }
    usleep(110000); // between two GPM samples there must be as much
    const struct gpu_device *d = &sample()->devices[0];
    double sent = (double)d->fields[GPU_F_NVLINK_TX_L0].i;
    assert_true(sent > 0);
    static const enum gpu_field both[] = {GPU_F_NVLINK_L0, GPU_F_NVLINK_L6, GPU_F_NVLINK_L12,
                                          GPU_F_NVLINK_L17};
    static const enum gpu_field tx[] = {GPU_F_NVLINK_TX_L0, GPU_F_NVLINK_TX_L6, GPU_F_NVLINK_TX_L12,
                                        GPU_F_NVLINK_TX_L17};
    static const enum gpu_field rx[] = {GPU_F_NVLINK_RX_L0, GPU_F_NVLINK_RX_L6, GPU_F_NVLINK_RX_L12,
                                        GPU_F_NVLINK_RX_L17};
    static const int times[] = {1, 7, 13, 18};
    for (size_t i = 0; i < GS_ARRAY_LEN(times); i++) {
        assert_rate(d, tx[i], sent * times[i]);
        assert_rate(d, rx[i], sent * times[i] * 3);
        assert_rate(d, both[i], sent * times[i] * 4);
    }
    assert_rate(d, GPU_F_NVLINK_TX_TOTAL, sent * 171);
    assert_rate(d, GPU_F_NVLINK_RX_TOTAL, sent * 171 * 3);
    assert_rate(d, GPU_F_NVLINK_BANDWIDTH, sent * 171 * 4);
    // KiB/s as bytes, and not the older field times 10^6, which divides KiB by 1000.
    assert_rate(d, GPU_F_NVLINK_BYTES_TOTAL, sent * 171 * 4 * 1024000);
    assert_rate(d, GPU_F_NVLINK_BYTES_L17, sent * 18 * 4 * 1024000);
    // GPM's metrics have their own number as value.
    for (unsigned i = 0; i < LINKS; i++) {
        assert_int_field(d, first[0] + 2 * i, (int64_t)(63 + 2 * i) << 20);
        assert_int_field(d, first[1] + 2 * i, (int64_t)(62 + 2 * i) << 20);
    }
    assert_int_field(d, GPU_F_PROF_NVLINK_TX_BYTES, (int64_t)61 << 20);
    assert_int_field(d, GPU_F_PROF_C2C_TX_ALL, (int64_t)100 << 20);
    assert_int_field(d, GPU_F_PROF_C2C_RX_ALL, (int64_t)101 << 20);
    assert_int_field(d, GPU_F_PROF_C2C_TX_DATA, (int64_t)102 << 20);
    assert_int_field(d, GPU_F_PROF_C2C_RX_DATA, (int64_t)103 << 20);
}

static void test_old_driver(void **state)
{
    open_library("fakenvml1");
    add_process(0, 42, 300);
    f.fake->gpus[0].memory_used = (uint64_t)1000 << 20;
    const struct gpu_device *d = &sample()->devices[0];
    assert_string_equal(d->pci_bus_id, "00000000:01:00.0");
    assert_int_field(d, GPU_F_FB_USED, 1100);
    assert_absent(d, GPU_F_FB_RESERVED, GPU_NOT_SUPPORTED);
    assert_absent(d, GPU_F_XID_ERRORS, GPU_NOT_SUPPORTED);
    assert_true(d->processes_valid);
    assert_int_equal(d->n_processes, 1);
    assert_int_equal(d->processes[0].memory_bytes, 300 << 20);
    assert_int_equal(d->processes[0].gpu_instance, GPU_NO_INSTANCE);
    assert_false(d->processes[0].has_util);
}

static void test_strides_behind_v3(void **state)
{
    open_library("fakenvml3");
    add_process(0, 42, 300);
    add_process(0, 43, 400);
    add_process(0, 44, 0);
    const unsigned strides[] = {16, 24, 32};
    for (size_t i = 0; i < 3; i++) {
        f.fake->stride = strides[i];
        const struct gpu_device *d = &sample()->devices[0];
        assert_int_equal(d->n_processes, 3);
        for (uint32_t pid = 42; pid <= 44; pid++)
            assert_non_null(find(d, pid));
        assert_int_equal(find(d, 43)->memory_bytes, 400 << 20);
    }
}

static void test_process_lists(void **state)
{
    open_library("fakenvml2");
    add_process(0, 42, 300);
    f.fake->gpus[0].processes[f.fake->gpus[0].n_processes++] =
        (struct nvml_process_v2){43, NVML_MEMORY_UNKNOWN, GPU_NO_INSTANCE, GPU_NO_INSTANCE};
    const struct gpu_device *d = &sample()->devices[0];
    assert_true(d->processes_valid);
    assert_int_equal(d->n_processes, 2); // in the compute and in the graphics list: counted once
    assert_true(find(d, 42)->compute && find(d, 42)->graphics);
    assert_int_equal(find(d, 42)->memory_bytes, 300 << 20);
    assert_false(find(d, 43)->has_memory);

    // More than the first try holds, and more than we keep.
    f.fake->gpus[0].n_processes = 0;
    for (uint32_t i = 0; i < FAKE_PROCESSES; i++)
        add_process(0, 1000 + i, 1);
    d = &sample()->devices[0];
    assert_int_equal(d->n_processes, GPU_MAX_PROCESSES);
}

static void test_process_utilisation(void **state)
{
    open_library("fakenvml2");
    struct fake_gpu *g = &f.fake->gpus[0];
    add_process(0, 42, 300);
    add_process(0, 43, 300);
    add_process(0, 44, 300);
    sample();
    uint64_t now = (uint64_t)gs_unix_us();
    g->util_records[0] = (struct nvml_process_sample){42, now + 1000000, 60, 5, 1, 2};
    g->util_records[1] = (struct nvml_process_sample){43, now + 1000000, 4000000000u, 0, 0, 0};
    g->util_records[2] = (struct nvml_process_sample){44, now - 60000000, 99, 0, 0, 0};
    g->n_util = 3;
    const struct gpu_device *d = &sample()->devices[0];
    assert_int_equal(d->n_processes, 3); // empty slots of the reply are nobody
    assert_int_equal(find(d, 42)->sm_util, 60);
    assert_int_equal(find(d, 42)->dec_util, 2);
    assert_true(find(d, 43)->has_util);
    assert_int_equal(find(d, 43)->sm_util, 0); // nonsense is dropped
    assert_int_equal(find(d, 44)->sm_util, 0); // as is what is older than the window

    uint64_t before = f.fake->last_seen_us;
    sample();
    assert_true(f.fake->last_seen_us > before); // the window starts at the previous pass

    g->util_ret = NVML_NOT_FOUND; // nobody was active: that is a value
    d = &sample()->devices[0];
    assert_int_equal(d->process_util, GPU_VALID);
    assert_true(find(d, 42)->has_util);
    assert_int_equal(find(d, 42)->sm_util, 0);

    g->util_ret = NVML_NOT_SUPPORTED; // and this is none
    d = &sample()->devices[0];
    assert_false(find(d, 42)->has_util);
    assert_int_equal(d->process_util, GPU_NOT_SUPPORTED);
    assert_int_equal(f.s->n_errors, 0);
}

// Some drivers give a record for each of their own samples.
static void test_several_records_of_a_process(void **state)
{
    open_library("fakenvml2");
    struct fake_gpu *g = &f.fake->gpus[0];
    add_process(0, 42, 300);
    int64_t before = gs_unix_us();
    sample();
    uint64_t now = (uint64_t)gs_unix_us();
    // The first of them is for all the time since the sample, at most this more than a second.
    double more_s = (double)((int64_t)now - before) / 1e6;
    g->util_records[0] = (struct nvml_process_sample){42, now + 1000000, 80, 0, 0, 0};
    g->util_records[1] = (struct nvml_process_sample){42, now + 3000000, 20, 0, 0, 0};
    g->util_records[2] = (struct nvml_process_sample){42, now + 3000000, 99, 0, 0, 0}; // again
    g->util_records[3] = (struct nvml_process_sample){42, UINT64_MAX, 99, 0, 0, 0};
    g->n_util = 4;
    const struct gpu_device *d = &sample()->devices[0];
    uint32_t util = find(d, 42)->sm_util; // 80 for the first second, 20 for two
    assert_in_range(util, 38, (80 * (1 + more_s) + 20 * 2) / (3 + more_s) + 1);
}

static void test_utilisation_is_the_mean_of_the_interval(void **state)
{
    open_library("fakenvml2");
    struct fake_gpu *g = &f.fake->gpus[0];
    g->util = 5; // the driver's last reading, which must not win
    sample();
    uint64_t now = (uint64_t)gs_unix_us();
    // Nothing before "now" counts; then 100 % for 1 s and 0 % for 3 s.
    g->samples[0] = (struct nvml_sample){now - 90000000, {.u32 = 77}};
    g->samples[1] = (struct nvml_sample){now, {.u32 = 100}};
    g->n_samples = 2;
    sample();
    g->samples[0] = (struct nvml_sample){now + 1000000, {.u32 = 100}};
    g->samples[1] = (struct nvml_sample){now + 4000000, {.u32 = 0}};
    assert_int_field(&sample()->devices[0], GPU_F_GPU_UTIL, 25);
    // The same samples again are not new: back to the driver's reading.
    assert_int_field(&sample()->devices[0], GPU_F_GPU_UTIL, 5);
}

static void test_utilisation_is_the_highest_when_asked_for(void **state)
{
    open_with("fakenvml2", true);
    struct fake_gpu *g = &f.fake->gpus[0];
    sample();
    uint64_t now = (uint64_t)gs_unix_us();
    g->samples[0] = (struct nvml_sample){now, {.u32 = 10}};
    g->n_samples = 1;
    sample();
    g->samples[0] = (struct nvml_sample){now + 1000000, {.u32 = 90}};
    g->samples[1] = (struct nvml_sample){now + 4000000, {.u32 = 20}};
    g->n_samples = 2;
    assert_int_field(&sample()->devices[0], GPU_F_GPU_UTIL, 90);
}

// Fields that are asked for later are read from the next pass on, texts among them.
static void test_other_fields_while_it_runs(void **state)
{
    bool wanted[GPU_F_COUNT] = {[GPU_F_POWER_USAGE] = true};
    open_library("fakenvml2");
    gpu_backend_want(f.backend, wanted, NULL);
    assert_int_equal(sample()->devices[0].fields[GPU_F_SM_CLOCK].validity, GPU_UNKNOWN);
    wanted[GPU_F_SM_CLOCK] = true;
    wanted[GPU_F_POWER_USAGE] = false;
    gpu_backend_want(f.backend, wanted, NULL);
    assert_int_not_equal(sample()->devices[0].fields[GPU_F_SM_CLOCK].validity, GPU_UNKNOWN);
    assert_int_equal(f.s->devices[0].fields[GPU_F_POWER_USAGE].validity, GPU_UNKNOWN);
}

static uint64_t calls_of(const struct gpu_snapshot *s, const char *name)
{
    for (size_t i = 0; i < s->n_calls; i++)
        if (strcmp(s->calls[i].call, name) == 0)
            return s->calls[i].count;
    return 0;
}

// A field that is read less often keeps its value between, and costs no call. What comes back from
// being lost is read at once.
static void test_slow_fields_are_read_when_they_are_due(void **state)
{
    const bool wanted[GPU_F_COUNT] = {[GPU_F_POWER_USAGE] = true, [GPU_F_FB_USED] = true};
    const int64_t every_ns[GPU_F_COUNT] = {[GPU_F_FB_USED] = 400 * GS_NS_PER_MS};
    open_library("fakenvml2");
    gpu_backend_want(f.backend, wanted, every_ns);
    f.fake->gpus[0].memory_used = (uint64_t)100 << 20;
    int64_t start = gs_mono_ns();
    const struct gpu_device *d = &sample()->devices[0];
    assert_int_field(d, GPU_F_FB_USED, 100);
    uint64_t power = calls_of(f.s, "nvmlDeviceGetPowerUsage");
    uint64_t memory = calls_of(f.s, "nvmlDeviceGetMemoryInfo_v2");
    f.fake->gpus[0].memory_used = (uint64_t)200 << 20;
    for (int i = 0; i < 3; i++)
        d = &sample()->devices[0];
    if (gs_mono_ns() - start < 300 * GS_NS_PER_MS) { // a busy machine may be later than due
        assert_int_field(d, GPU_F_FB_USED, 100);
        assert_int_equal(calls_of(f.s, "nvmlDeviceGetMemoryInfo_v2"), memory);
    }
    assert_int_equal(calls_of(f.s, "nvmlDeviceGetPowerUsage"), power + 6); // of two GPUs
    usleep(450000);
    d = &sample()->devices[0];
    assert_int_field(d, GPU_F_FB_USED, 200);
    f.fake->gpus[0].lost = true;
    assert_true(sample()->devices[0].lost);
    assert_int_equal(f.s->devices[0].fields[GPU_F_FB_USED].validity, GPU_LOST);
    f.fake->gpus[0].lost = false;
    f.fake->gpus[0].memory_used = (uint64_t)300 << 20;
    assert_int_field(&sample()->devices[0], GPU_F_FB_USED, 300);
}

static void test_error_codes_become_reasons(void **state)
{
    open_library("fakenvml2");
    f.fake->gpus[0].power_ret = NVML_NO_PERMISSION;
    f.fake->gpus[1].power_ret = 999;
    sample();
    const struct gpu_snapshot *s = sample();
    assert_absent(&s->devices[0], GPU_F_POWER_USAGE, GPU_NO_PERMISSION);
    assert_absent(&s->devices[1], GPU_F_POWER_USAGE, GPU_FAILED);
    assert_int_equal(s->n_errors, 2);
    assert_string_equal(s->errors[0].call, "nvmlDeviceGetPowerUsage");
    assert_int_equal(s->errors[0].code, NVML_NO_PERMISSION);
    assert_int_equal(s->errors[0].count, 2);
    assert_string_equal(gpu_nvml_error_name(s->errors[1].code), "UNKNOWN");
    assert_string_equal(gpu_nvml_error_name(4), "NO_PERMISSION");
    assert_string_equal(gpu_nvml_error_name(15), "GPU_IS_LOST");
    assert_string_equal(gpu_nvml_error_name(30), "RESET_TYPE_NOT_SUPPORTED");

    f.fake->memory_v2_ret = NVML_FUNCTION_NOT_FOUND; // R510.39 did that: the old call helps
    assert_absent(&sample()->devices[0], GPU_F_FB_RESERVED, GPU_NOT_SUPPORTED);
    assert_int_equal(f.s->devices[0].fields[GPU_F_FB_USED].validity, GPU_VALID);
}

static void test_lost_gpu_keeps_its_name_and_the_others_go_on(void **state)
{
    open_library("fakenvml2");
    add_process(0, 42, 300);
    f.fake->gpus[1].util = 50;
    sample();
    f.fake->gpus[0].lost = true;
    const struct gpu_snapshot *s = sample();
    assert_int_equal(s->n_devices, 2);
    assert_true(s->devices[0].lost);
    assert_string_equal(s->devices[0].uuid, "GPU-00000000-aaaa-bbbb-cccc-dddddddddddd");
    assert_int_equal(s->devices[0].n_processes, 0);
    for (size_t i = 0; i < GPU_F_COUNT; i++)
        if (i != GPU_F_XID_ERRORS) // of events it is a fact that there was none
            assert_absent(&s->devices[0], i, GPU_LOST);
    assert_int_field(&s->devices[0], GPU_F_XID_ERRORS, 0);
    assert_false(s->devices[1].lost);
    assert_int_field(&s->devices[1], GPU_F_GPU_UTIL, 50);

    f.fake->gpus[0].lost = false; // reset by somebody
    s = sample();
    assert_false(s->devices[0].lost);
    assert_int_equal(s->devices[0].n_processes, 1);
}

static void test_gpus_come_and_go(void **state)
{
    open_library("fakenvml2");
    assert_int_equal(sample()->n_devices, 2);
    f.fake->count = 4;
    assert_int_equal(sample()->n_devices, 4);
    f.fake->count = 0;
    assert_int_equal(sample()->n_devices, 0);
    f.fake->count = 1;
    assert_int_equal(sample()->n_devices, 1);
}

static void test_driver_reload(void **state)
{
    open_library("fakenvml2");
    sample();
    f.fake->count_ret = NVML_DRIVER_NOT_LOADED;
    struct gpu_snapshot *s = NULL;
    struct gs_error *err = gpu_backend_sample(f.backend, &s);
    assert_non_null(err);
    assert_null(s);
    assert_non_null(strstr(gs_error_message(err), "DRIVER_NOT_LOADED"));
    gs_error_free(err);
    assert_int_equal(f.fake->shutdowns, 1);

    f.fake->init_ret = NVML_DRIVER_NOT_LOADED; // still away
    err = gpu_backend_sample(f.backend, &s);
    assert_non_null(err);
    gs_error_free(err);

    f.fake->init_ret = f.fake->count_ret = NVML_OK;
    assert_int_equal(sample()->n_devices, 2);
}

static void test_xid_is_remembered(void **state)
{
    open_library("fakenvml2");
    sample();
    f.fake->gpus[1].xid = 79;
    assert_int_field(&sample()->devices[1], GPU_F_XID_ERRORS, 79);
    assert_int_field(&sample()->devices[1], GPU_F_XID_ERRORS, 79);
    assert_int_field(&f.s->devices[0], GPU_F_XID_ERRORS, 0);
    f.fake->gpus[1].xid = 31;
    sample();
    f.fake->gpus[1].xid = 79;
    const struct gpu_device *d = &sample()->devices[1];
    assert_int_equal(d->n_xid_totals, 2);
    assert_int_equal(d->xid_totals[0].xid, 79);
    assert_int_equal(d->xid_totals[0].count, 2);
    assert_int_equal(d->xid_totals[1].xid, 31);
    assert_int_equal(d->xid_totals[1].count, 1);
    assert_int_equal(f.s->devices[0].n_xid_totals, 0);
}

static void test_xids_outlive_the_gpu(void **state)
{
    open_library("fakenvml2");
    sample();
    f.fake->gpus[1].xid = 79;
    f.fake->gpus[1].lost = true;
    for (int pass = 0; pass < 3; pass++) {
        const struct gpu_device *d = &sample()->devices[1];
        assert_true(d->lost);
        assert_absent(d, GPU_F_POWER_USAGE, GPU_LOST);
        assert_int_field(d, GPU_F_XID_ERRORS, 79);
        assert_int_equal(d->n_xids, 1);
        assert_int_equal(d->n_xid_totals, 1);
        assert_int_equal(d->xid_totals[0].count, 1);
    }
    f.fake->gpus[1].lost = false;
    assert_int_field(&sample()->devices[1], GPU_F_XID_ERRORS, 79);
}

// An event that lasts counts once; what holds at the start has not begun then.
static void test_beginnings_of_clock_events_are_counted(void **state)
{
    static const struct {
        unsigned bits, idle, cap; // bits 1 and 4; how often each has begun
    } rows[] = {{1, 0, 0}, {5, 0, 1}, {5, 0, 1}, {1, 0, 1}, {4, 0, 2}, {0, 0, 2}, {5, 1, 3}};
    open_library("fakenvml2");
    for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
        f.fake->gpus[0].clock_events = rows[i].bits;
        const struct gpu_device *d = &sample()->devices[0];
        assert_int_field(d, GPU_F_CLOCKS_EVENT_REASONS, rows[i].bits);
        assert_int_equal(d->clock_totals[0], rows[i].idle);
        assert_int_equal(d->clock_totals[2], rows[i].cap);
        assert_int_equal(d->clock_totals[8], 0);
    }
}

static void test_mig_devices(void **state)
{
    open_library("fakenvml2");
    f.fake->gpus[0].mig = true;
    f.fake->gpus[0].memory_used = (uint64_t)500 << 20;
    add_process(0, 42, 300);
    const struct gpu_device *d = &sample()->devices[0];
    assert_int_equal(d->n_instances, 1);
    assert_int_equal(d->instances[0].gpu_instance_id, 9);
    assert_string_equal(d->instances[0].profile, "1g.10gb");
    assert_string_equal(d->instances[0].uuid, "MIG-00000100-aaaa-bbbb-cccc-dddddddddddd");
    assert_int_equal(d->instances[0].fb.used.i, 500);
    assert_int_equal(gpu_instance_value(&d->instances[0], GPU_F_FB_USED_BYTES)->i, 500 << 20);
    assert_absent(d, GPU_F_GPU_UTIL, GPU_NOT_SUPPORTED);
    assert_true(d->processes_valid);
    assert_int_equal(d->n_processes, 1);
    assert_int_equal(d->processes[0].gpu_instance, 9);
    assert_false(d->processes[0].has_util);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_no_library_says_where_it_looked, teardown),
        cmocka_unit_test_teardown(test_library_below_the_root_of_the_host, teardown),
        cmocka_unit_test_teardown(test_library_that_is_no_nvml, teardown),
        cmocka_unit_test_teardown(test_real_library_where_simulated_is_demanded, teardown),
        cmocka_unit_test_teardown(test_fields_and_identity, teardown),
        cmocka_unit_test_teardown(test_base_units, teardown),
        cmocka_unit_test_teardown(test_unrepairable_memory_of_either_layout, teardown),
        cmocka_unit_test_teardown(test_links_and_directions_are_not_mixed_up, teardown),
        cmocka_unit_test_teardown(test_old_driver, teardown),
        cmocka_unit_test_teardown(test_strides_behind_v3, teardown),
        cmocka_unit_test_teardown(test_process_lists, teardown),
        cmocka_unit_test_teardown(test_process_utilisation, teardown),
        cmocka_unit_test_teardown(test_several_records_of_a_process, teardown),
        cmocka_unit_test_teardown(test_utilisation_is_the_mean_of_the_interval, teardown),
        cmocka_unit_test_teardown(test_utilisation_is_the_highest_when_asked_for, teardown),
        cmocka_unit_test_teardown(test_other_fields_while_it_runs, teardown),
        cmocka_unit_test_teardown(test_slow_fields_are_read_when_they_are_due, teardown),
        cmocka_unit_test_teardown(test_error_codes_become_reasons, teardown),
        cmocka_unit_test_teardown(test_lost_gpu_keeps_its_name_and_the_others_go_on, teardown),
        cmocka_unit_test_teardown(test_gpus_come_and_go, teardown),
        cmocka_unit_test_teardown(test_driver_reload, teardown),
        cmocka_unit_test_teardown(test_xid_is_remembered, teardown),
        cmocka_unit_test_teardown(test_xids_outlive_the_gpu, teardown),
        cmocka_unit_test_teardown(test_beginnings_of_clock_events_are_counted, teardown),
        cmocka_unit_test_teardown(test_mig_devices, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
