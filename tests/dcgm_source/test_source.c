// SPDX-License-Identifier: Apache-2.0
// The reader process with a libdcgm that fails in each way, and the merge of its values: what NVML
// gives stays, what DCGM gives vanishes with a reason and comes back.
#include "patience.h"
#include "unit.h"

#include "base/log.h"
#include "base/mem.h"
#include "dcgm_source/source_private.h"
#include "fake_dcgm.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { INTERVAL_MS = 20 };

struct fixture {
    char dir[64], path[96];
    char *library, *program;
    struct fake_dcgm *fake;
    struct dcgm_source *source;
    struct dcgm_merge *merge;
    struct gpu_device devices[3];
    struct gpu_instance instance;
    struct gpu_snapshot snapshot;
    struct dcgm_latest *latest;
    bool wanted[GPU_F_COUNT];
    bool foreign; // NVML has other GPUs than DCGM
    uint16_t ids[8];
    size_t n_ids;
};

// --- fixture ---

static void open_source(struct fixture *f, const char *endpoint, struct dcgm_source_config cfg)
{
    assert_ok(dcgm_source_parse(endpoint, &cfg.endpoint));
    cfg.library = cfg.library ? cfg.library : f->library;
    cfg.program = f->program;
    cfg.retry_ns = cfg.retry_ns ? cfg.retry_ns : GS_NS_PER_MS;
    f->source = dcgm_source_open(&cfg);
    f->merge = dcgm_source_merge_new(f->source);
}

static int set_up(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    snprintf(f->dir, sizeof(f->dir), "/tmp/gpuscale-dcgm-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->path, sizeof(f->path), "%s/fake", f->dir);
    int fd = open(f->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(ftruncate(fd, sizeof(*f->fake)), 0);
    f->fake = mmap(NULL, sizeof(*f->fake), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(f->fake, MAP_FAILED);
    close(fd);
    setenv("FAKE_DCGM", f->path, 1);
    f->library = gs_format("%s/tests/dcgm_source/libfakedcgm.so", getenv("GPUSCALE_BUILD_ROOT"));
    f->program = gs_format("%s/src/cmd/gpuscale", getenv("GPUSCALE_BUILD_ROOT"));
    f->fake->running = true;
    f->fake->n_gpus = 2;
    f->wanted[GPU_F_PROF_GR_ENGINE_ACTIVE] = f->wanted[GPU_F_PROF_DRAM_ACTIVE] = true;
    f->wanted[GPU_F_PROF_PCIE_TX_BYTES] = f->wanted[GPU_F_GPU_UTIL] = true;
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    dcgm_source_merge_free(f->merge);
    dcgm_source_close(f->source);
    dcgm_latest_free(f->latest);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); // no child is left
    munmap(f->fake, sizeof(*f->fake));
    unlink(f->path);
    rmdir(f->dir);
    free(f->library);
    free(f->program);
    free(f);
    return 0;
}

// A sample of NVML: two old GPUs, in another order than DCGM's, of which one has a MIG device, and
// a GPU with GPM.
static void sample(struct fixture *f)
{
    static const char *const uuids[] = {FAKE_UUID_1, FAKE_UUID_0, "GPU-hopper"};
    memset(f->devices, 0, sizeof(f->devices));
    memset(&f->instance, 0, sizeof(f->instance));
    for (uint32_t i = 0; i < 3; i++) {
        struct gpu_device *d = &f->devices[i];
        d->index = i;
        snprintf(d->uuid, sizeof(d->uuid), "%s%s", uuids[i], f->foreign ? "0" : "");
        d->fields[GPU_F_GPU_UTIL] = (struct gpu_value){GPU_VALID, false, {.i = 90}};
        for (enum gpu_field k = GPU_F_PROF_FIRST; i < 2 && k < GPU_F_PROF_END; k++)
            d->fields[k].validity = GPU_NOT_SUPPORTED;
    }
    f->devices[2].fields[GPU_F_PROF_GR_ENGINE_ACTIVE] =
        (struct gpu_value){GPU_VALID, true, {.d = 0.125}};
    for (size_t k = 0; k < GPU_PROF_COUNT; k++)
        f->instance.prof[k].validity = GPU_NOT_SUPPORTED;
    f->instance.gpu_instance_id = FAKE_NVML_INSTANCE;
    f->devices[0].instances = &f->instance;
    f->devices[0].n_instances = 1;
    f->snapshot = (struct gpu_snapshot){.devices = f->devices, .n_devices = 3};
    dcgm_latest_free(f->latest);
    f->latest = dcgm_source_merge(f->merge, &f->snapshot, f->wanted, f->ids, f->n_ids,
                                  INTERVAL_MS * GS_NS_PER_MS);
}

static struct gpu_value value(const struct fixture *f, size_t device, enum gpu_field field)
{
    return f->devices[device].fields[field];
}

static struct dcgm_source_status status_of(const struct fixture *f)
{
    struct dcgm_source_status s;
    dcgm_source_status(f->source, &s);
    return s;
}

// Samples until the condition holds.
#define SAMPLE_UNTIL(f, condition)                                                                 \
    do {                                                                                           \
        int64_t deadline_ = gs_mono_ns() + WAIT_NS;                                                \
        for (sample(f); !(condition); sample(f)) {                                                 \
            if (gs_mono_ns() > deadline_)                                                          \
                fail_msg("not within the time: %s (problem: %s, %s)", #condition,                  \
                         status_of(f).report.problem, status_of(f).report.prof_problem);           \
            usleep(2000);                                                                          \
        }                                                                                          \
    } while (0)

static bool is_valid(const struct fixture *f, size_t device)
{
    return value(f, device, GPU_F_PROF_GR_ENGINE_ACTIVE).validity == GPU_VALID;
}

static const struct dcgm_value *find(const struct fixture *f, uint32_t group, uint32_t id,
                                     uint16_t field)
{
    for (size_t i = 0; f->latest && i < f->latest->n_values; i++) {
        const struct dcgm_value *v = &f->latest->values[i];
        const struct dcgm_entity *e = &f->latest->entities[v->entity];
        if (e->group == group && e->id == id && v->field == field)
            return v;
    }
    return NULL;
}

// --- values ---

static void test_fills_what_nvml_lacks(void **state)
{
    struct fixture *f = *state;
    open_source(f, "localhost:1", (struct dcgm_source_config){0});
    SAMPLE_UNTIL(f, is_valid(f, 0) && is_valid(f, 1));
    // by UUID, not by index
    assert_true(value(f, 0, GPU_F_PROF_GR_ENGINE_ACTIVE).d == 0.51);
    assert_true(value(f, 1, GPU_F_PROF_GR_ENGINE_ACTIVE).d == 0.50);
    assert_int_equal(value(f, 1, GPU_F_PROF_PCIE_TX_BYTES).i, 1000);
    // each GPU has its own metric groups
    assert_int_equal(value(f, 0, GPU_F_PROF_DRAM_ACTIVE).validity, GPU_NOT_SUPPORTED);
    assert_int_equal(value(f, 1, GPU_F_PROF_DRAM_ACTIVE).validity, GPU_VALID);
    // a MIG device by NVML's ID; PCIe is not measured for it
    assert_true(f->instance.prof[0].is_double && f->instance.prof[0].d == 0.5 + 0.07 + 0.1);
    assert_int_equal(f->instance.prof[GPU_F_PROF_PCIE_TX_BYTES - GPU_F_PROF_FIRST].validity,
                     GPU_NOT_SUPPORTED);
    // what NVML gives, and what nobody wants, stays
    assert_true(value(f, 2, GPU_F_PROF_GR_ENGINE_ACTIVE).d == 0.125);
    assert_int_equal(value(f, 1, GPU_F_PROF_SM_ACTIVE).validity, GPU_NOT_SUPPORTED);
    struct dcgm_source_status s = status_of(f);
    assert_int_equal(s.report.state, DCGM_SOURCE_UP);
    assert_string_equal(s.report.version, "4.5.3");
    assert_string_equal(s.report.library_version, "4.6.1");
    assert_string_equal(s.mode, "library");
    assert_true(s.reads > 0 && s.age_us >= 0);
}

static void test_reads_other_entities(void **state)
{
    struct fixture *f = *state;
    const uint16_t ids[] = {FAKE_SWITCH_FIELD, FAKE_LINK_FIELD, FAKE_CPU_FIELD, FAKE_CORE_FIELD};
    memcpy(f->ids, ids, sizeof(ids));
    f->n_ids = 4;
    open_source(f, "localhost:1", (struct dcgm_source_config){0});
    SAMPLE_UNTIL(f, find(f, DCGM_ENTITY_SWITCH, 0, FAKE_SWITCH_FIELD));
    assert_non_null(find(f, DCGM_ENTITY_LINK, 0x00000101, FAKE_LINK_FIELD)); // GPU 0, port 1
    assert_non_null(find(f, DCGM_ENTITY_LINK, 0x00000003, FAKE_LINK_FIELD)); // switch 0, port 0
    assert_null(find(f, DCGM_ENTITY_LINK, 0x00000201, FAKE_LINK_FIELD));     // is down
    assert_non_null(find(f, DCGM_ENTITY_CPU, 0, FAKE_CPU_FIELD));
    assert_non_null(find(f, DCGM_ENTITY_CPU_CORE, 1, FAKE_CORE_FIELD));
    assert_null(find(f, DCGM_ENTITY_GPU, 0, FAKE_SWITCH_FIELD));
}

static void test_embeds_an_engine(void **state)
{
    struct fixture *f = *state;
    open_source(f, "embedded", (struct dcgm_source_config){0});
    SAMPLE_UNTIL(f, is_valid(f, 0) && is_valid(f, 1));
    assert_string_equal(status_of(f).mode, "embedded");
}

static size_t count(const char *dir)
{
    size_t n = 0;
    DIR *d = opendir(dir);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static void test_does_nothing_without_a_need(void **state)
{
    struct fixture *f = *state;
    size_t fds = count("/proc/self/fd"), threads = count("/proc/self/task");
    memset(f->wanted, 0, sizeof(f->wanted));
    open_source(f, "embedded", (struct dcgm_source_config){0});
    for (int i = 0; i < 10; i++)
        sample(f);
    assert_int_equal(count("/proc/self/fd"), fds);
    assert_int_equal(count("/proc/self/task"), threads);
    assert_int_equal(status_of(f).report.state, DCGM_SOURCE_UNUSED);
    assert_int_equal(f->fake->connects, 0);
    assert_int_equal(value(f, 0, GPU_F_PROF_GR_ENGINE_ACTIVE).validity, GPU_NOT_SUPPORTED);
}

static void test_follows_a_change_of_the_metrics(void **state)
{
    struct fixture *f = *state;
    open_source(f, "localhost:1", (struct dcgm_source_config){0});
    SAMPLE_UNTIL(f, is_valid(f, 1));
    f->wanted[GPU_F_PROF_DRAM_ACTIVE] = false;
    SAMPLE_UNTIL(f, is_valid(f, 1) &&
                        value(f, 1, GPU_F_PROF_DRAM_ACTIVE).validity == GPU_NOT_SUPPORTED &&
                        f->fake->connects == 2);
    memset(f->wanted, 0, sizeof(f->wanted));
    SAMPLE_UNTIL(f, status_of(f).report.state == DCGM_SOURCE_UNUSED);
}

// --- failures ---

static void test_an_absent_engine_is_found_later(void **state)
{
    struct fixture *f = *state;
    f->fake->running = false;
    open_source(f, "localhost:1", (struct dcgm_source_config){0});
    SAMPLE_UNTIL(f, status_of(f).report.state == DCGM_SOURCE_DOWN);
    assert_int_equal(status_of(f).report.code, DCGM_CONNECTION_LOST);
    SAMPLE_UNTIL(f, value(f, 1, GPU_F_PROF_GR_ENGINE_ACTIVE).validity == GPU_FAILED);
    f->fake->running = true;
    SAMPLE_UNTIL(f, is_valid(f, 1));
}

static void test_a_restarted_engine_is_used_again(void **state)
{
    struct fixture *f = *state;
    open_source(f, "localhost:1", (struct dcgm_source_config){0});
    SAMPLE_UNTIL(f, is_valid(f, 1));
    f->fake->generation++;
    SAMPLE_UNTIL(f, status_of(f).restarts[DCGM_SOURCE_CONNECTION] == 1);
    SAMPLE_UNTIL(f, f->fake->connects == 2 && is_valid(f, 1) &&
                        status_of(f).report.state == DCGM_SOURCE_UP);
}

// The values of an engine that is gone vanish although nothing replaces them.
static void test_values_of_a_dead_engine_vanish(void **state)
{
    struct fixture *f = *state;
    open_source(f, "localhost:1", (struct dcgm_source_config){0});
    SAMPLE_UNTIL(f, is_valid(f, 1));
    f->fake->running = false;
    SAMPLE_UNTIL(f, value(f, 1, GPU_F_PROF_GR_ENGINE_ACTIVE).validity == GPU_FAILED);
    assert_true(value(f, 2, GPU_F_PROF_GR_ENGINE_ACTIVE).d == 0.125);
}

static void test_frozen_values_vanish(void **state)
{
    struct fixture *f = *state;
    open_source(f, "localhost:1", (struct dcgm_source_config){0});
    SAMPLE_UNTIL(f, is_valid(f, 1));
    f->fake->frozen = true;
    SAMPLE_UNTIL(f, value(f, 1, GPU_F_PROF_GR_ENGINE_ACTIVE).validity == GPU_FAILED);
    assert_int_equal(status_of(f).report.state, DCGM_SOURCE_UP);
    f->fake->frozen = false;
    SAMPLE_UNTIL(f, is_valid(f, 1));
}

static void test_another_clock_is_no_age(void **state)
{
    struct fixture *f = *state;
    f->fake->clock_us = INT64_C(-3600000000);
    open_source(f, "localhost:1", (struct dcgm_source_config){0});
    SAMPLE_UNTIL(f, is_valid(f, 1));
    f->fake->clock_us = INT64_C(3600000000);
    uint64_t reads = status_of(f).reads;
    SAMPLE_UNTIL(f, is_valid(f, 1) && status_of(f).reads > reads + 2);
    f->fake->clock_us = 0; // and back
    SAMPLE_UNTIL(f, !is_valid(f, 1));
    SAMPLE_UNTIL(f, is_valid(f, 1));
}

static void test_a_hanging_library_is_killed(void **state)
{
    struct fixture *f = *state;
    open_source(f, "localhost:1", (struct dcgm_source_config){.hung_after_ns = 300 * GS_NS_PER_MS});
    SAMPLE_UNTIL(f, is_valid(f, 1));
    f->fake->hang = true;
    SAMPLE_UNTIL(f, status_of(f).restarts[DCGM_SOURCE_HANG] > 0);
    f->fake->hang = false;
    SAMPLE_UNTIL(f, is_valid(f, 1) && status_of(f).report.state == DCGM_SOURCE_UP);
}

static void test_closing_does_not_wait_for_a_hanging_library(void **state)
{
    struct fixture *f = *state;
    open_source(f, "localhost:1", (struct dcgm_source_config){0});
    SAMPLE_UNTIL(f, is_valid(f, 1));
    f->fake->hang = true;
    uint32_t reads = f->fake->reads;
    SAMPLE_UNTIL(f, f->fake->reads > reads);
    dcgm_source_close(f->source); // within the time of the test, although the call never returns
    f->source = NULL;
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void test_a_crashing_library_is_started_again(void **state)
{
    struct fixture *f = *state;
    open_source(f, "localhost:1", (struct dcgm_source_config){0});
    SAMPLE_UNTIL(f, is_valid(f, 1));
    f->fake->crash = true;
    SAMPLE_UNTIL(f, strstr(status_of(f).report.problem, "libdcgm ended the reader: Aborted"));
    assert_true(status_of(f).restarts[DCGM_SOURCE_CRASH] > 0);
    f->fake->crash = false;
    SAMPLE_UNTIL(f, is_valid(f, 1));
    f->fake->exit_code = 3;
    SAMPLE_UNTIL(f, strstr(status_of(f).report.problem, "exit code 3"));
    f->fake->exit_code = 0;
    SAMPLE_UNTIL(f, is_valid(f, 1));
}

static void test_after_five_crashes_it_pauses(void **state)
{
    struct fixture *f = *state;
    f->fake->crash = true;
    open_source(f, "localhost:1", (struct dcgm_source_config){0});
    SAMPLE_UNTIL(f, status_of(f).restarts[DCGM_SOURCE_CRASH] == 5);
    uint32_t connects = f->fake->connects;
    for (int i = 0; i < 100; i++) { // the pause before was a few milliseconds
        sample(f);
        usleep(2000);
    }
    assert_int_equal(f->fake->connects, connects);
}

static void test_a_leaking_library_is_started_again(void **state)
{
    struct fixture *f = *state;
    // With sanitizers, a reader without a leak uses about 70 MiB.
    open_source(f, "localhost:1", (struct dcgm_source_config){.memory_limit = UINT64_C(200) << 20});
    SAMPLE_UNTIL(f, is_valid(f, 1));
    f->fake->leak_mib = 250;
    SAMPLE_UNTIL(f, status_of(f).restarts[DCGM_SOURCE_MEMORY] > 0);
    f->fake->leak_mib = 0;
    SAMPLE_UNTIL(f, is_valid(f, 1));
}

static void test_a_refusal_of_profiling_affects_only_profiling(void **state)
{
    struct fixture *f = *state;
    f->ids[f->n_ids++] = FAKE_SWITCH_FIELD;
    f->fake->prof_watch_code = DCGM_PROFILING_FAILED;
    open_source(f, "localhost:1", (struct dcgm_source_config){0});
    SAMPLE_UNTIL(f, find(f, DCGM_ENTITY_SWITCH, 0, FAKE_SWITCH_FIELD));
    assert_int_equal(value(f, 1, GPU_F_PROF_GR_ENGINE_ACTIVE).validity, GPU_FAILED);
    struct dcgm_source_status s = status_of(f);
    assert_int_equal(s.report.state, DCGM_SOURCE_UP);
    assert_int_equal(s.report.prof_code, DCGM_PROFILING_FAILED);
    assert_non_null(strstr(s.report.prof_problem, "another process owns the profiling counters"));
    f->fake->prof_watch_code = 0; // the owner ends: the watch is tried again
    SAMPLE_UNTIL(f, is_valid(f, 1) && !status_of(f).report.prof_code);
}

static void test_gpus_without_profiling_are_not_supported(void **state)
{
    struct fixture *f = *state;
    f->fake->groups_code = DCGM_PROFILING_NOT_SUPPORTED;
    open_source(f, "localhost:1", (struct dcgm_source_config){0});
    SAMPLE_UNTIL(f, status_of(f).report.prof_code == DCGM_PROFILING_NOT_SUPPORTED);
    sample(f);
    assert_int_equal(value(f, 1, GPU_F_PROF_GR_ENGINE_ACTIVE).validity, GPU_NOT_SUPPORTED);
    // The reason stays when profiling is tried again, and goes when the engine has it.
    int64_t end = gs_mono_ns() + GS_NS_PER_SEC;
    for (sample(f); gs_mono_ns() < end; sample(f))
        assert_int_equal(status_of(f).report.prof_code, DCGM_PROFILING_NOT_SUPPORTED);
    f->fake->groups_code = DCGM_OK;
    SAMPLE_UNTIL(f, is_valid(f, 1) && !status_of(f).report.prof_code);
}

static void test_paused_profiling_has_no_values(void **state)
{
    struct fixture *f = *state;
    open_source(f, "localhost:1", (struct dcgm_source_config){0});
    SAMPLE_UNTIL(f, is_valid(f, 1));
    f->fake->blank = true;
    SAMPLE_UNTIL(f, value(f, 1, GPU_F_PROF_GR_ENGINE_ACTIVE).validity == GPU_UNKNOWN);
    f->fake->blank = false;
    SAMPLE_UNTIL(f, is_valid(f, 1));
}

static void test_an_unknown_field_does_not_affect_the_others(void **state)
{
    struct fixture *f = *state;
    f->fake->unknown_id = 1005;
    open_source(f, "localhost:1", (struct dcgm_source_config){0});
    SAMPLE_UNTIL(f, is_valid(f, 1));
    assert_int_equal(value(f, 1, GPU_F_PROF_PCIE_TX_BYTES).validity, GPU_VALID);
    assert_int_equal(value(f, 1, GPU_F_PROF_DRAM_ACTIVE).validity, GPU_NOT_SUPPORTED);
}

static void test_another_version_is_explained(void **state)
{
    struct fixture *f = *state;
    f->fake->verify_code = DCGM_VERSION_MISMATCH;
    open_source(f, "localhost:1", (struct dcgm_source_config){0});
    SAMPLE_UNTIL(f, status_of(f).report.code == DCGM_VERSION_MISMATCH);
    assert_non_null(strstr(status_of(f).report.problem, "different versions"));
}

static void test_a_missing_library_is_explained(void **state)
{
    struct fixture *f = *state;
    open_source(f, "embedded", (struct dcgm_source_config){.library = "/nonexistent/libdcgm.so"});
    SAMPLE_UNTIL(f, status_of(f).report.state == DCGM_SOURCE_DOWN);
    assert_int_equal(status_of(f).report.code, DCGM_LIBRARY_NOT_FOUND);
    assert_non_null(strstr(status_of(f).report.problem, "/nonexistent/libdcgm.so"));
    assert_int_equal(status_of(f).restarts[DCGM_SOURCE_CRASH], 0);
}

static void test_an_engine_of_another_machine_is_refused(void **state)
{
    struct fixture *f = *state;
    f->foreign = true;
    open_source(f, "node1:1", (struct dcgm_source_config){0});
    SAMPLE_UNTIL(f, status_of(f).report.state == DCGM_SOURCE_DOWN);
    assert_non_null(strstr(status_of(f).report.problem, "of another machine: it has GPU-0000"));
    sample(f);
    assert_int_equal(value(f, 0, GPU_F_PROF_GR_ENGINE_ACTIVE).validity, GPU_FAILED);
}

static void test_dead_counters_are_no_zeros(void **state)
{
    struct fixture *f = *state;
    open_source(f, "localhost:1", (struct dcgm_source_config){0});
    SAMPLE_UNTIL(f, is_valid(f, 1));
    uint32_t watches = f->fake->prof_watches;
    f->fake->zero = true;
    SAMPLE_UNTIL(f, value(f, 1, GPU_F_PROF_GR_ENGINE_ACTIVE).validity == GPU_FAILED);
    assert_int_equal(value(f, 1, GPU_F_PROF_DRAM_ACTIVE).validity, GPU_FAILED);
    assert_int_equal(status_of(f).dead_counters, 1);
    SAMPLE_UNTIL(f, f->fake->prof_watches > watches); // renewed
    f->fake->zero = false;
    SAMPLE_UNTIL(f, is_valid(f, 1));
    assert_int_equal(status_of(f).dead_counters, 1);
}

static void test_a_gpu_that_appears_is_watched(void **state)
{
    struct fixture *f = *state;
    f->fake->n_gpus = 1;
    open_source(f, "localhost:1", (struct dcgm_source_config){0});
    SAMPLE_UNTIL(f, is_valid(f, 1));
    assert_int_equal(value(f, 0, GPU_F_PROF_GR_ENGINE_ACTIVE).validity, GPU_NOT_SUPPORTED);
    f->fake->n_gpus = 2;
    SAMPLE_UNTIL(f, is_valid(f, 0));
}

// RESTARTS=10000 for the full number.
static void test_restarts_leak_nothing(void **state)
{
    struct fixture *f = *state;
    const char *text = getenv("RESTARTS");
    uint32_t n = text ? (uint32_t)atoi(text) : 200;
    open_source(f, "localhost:1", (struct dcgm_source_config){0});
    SAMPLE_UNTIL(f, is_valid(f, 1));
    size_t fds = count("/proc/self/fd"), threads = count("/proc/self/task");
    int groups = f->fake->live_groups, field_groups = f->fake->live_field_groups;
    for (uint32_t i = 0; i < n; i++) {
        // A connection that ends before its first read makes the pauses longer.
        uint32_t connects = f->fake->connects;
        uint64_t reads = status_of(f).reads;
        f->fake->generation++;
        SAMPLE_UNTIL(f, f->fake->connects > connects && status_of(f).reads > reads);
    }
    SAMPLE_UNTIL(f, is_valid(f, 1) && status_of(f).restarts[DCGM_SOURCE_CONNECTION] >= n);
    assert_int_equal(count("/proc/self/fd"), fds);
    assert_int_equal(count("/proc/self/task"), threads);
    SAMPLE_UNTIL(f, f->fake->live_groups == groups && f->fake->live_field_groups == field_groups);
    assert_int_equal(status_of(f).restarts[DCGM_SOURCE_CRASH], 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

// The log of hundreds of restarts hides what fails.
static void drop_line(void *arg, const char *line, size_t len)
{
    (void)arg, (void)line, (void)len;
}

int main(void)
{
    gs_log_set_sink(drop_line, NULL);
    const struct CMUnitTest tests[] = {
        TEST(test_fills_what_nvml_lacks),
        TEST(test_reads_other_entities),
        TEST(test_embeds_an_engine),
        TEST(test_does_nothing_without_a_need),
        TEST(test_follows_a_change_of_the_metrics),
        TEST(test_an_absent_engine_is_found_later),
        TEST(test_a_restarted_engine_is_used_again),
        TEST(test_values_of_a_dead_engine_vanish),
        TEST(test_frozen_values_vanish),
        TEST(test_another_clock_is_no_age),
        TEST(test_a_hanging_library_is_killed),
        TEST(test_closing_does_not_wait_for_a_hanging_library),
        TEST(test_a_crashing_library_is_started_again),
        TEST(test_after_five_crashes_it_pauses),
        TEST(test_a_leaking_library_is_started_again),
        TEST(test_a_refusal_of_profiling_affects_only_profiling),
        TEST(test_gpus_without_profiling_are_not_supported),
        TEST(test_paused_profiling_has_no_values),
        TEST(test_an_unknown_field_does_not_affect_the_others),
        TEST(test_another_version_is_explained),
        TEST(test_a_missing_library_is_explained),
        TEST(test_an_engine_of_another_machine_is_refused),
        TEST(test_dead_counters_are_no_zeros),
        TEST(test_a_gpu_that_appears_is_watched),
        TEST(test_restarts_leak_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
