// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../gpu/fake_nvml.h"
#include "base/clock.h"
#include "base/mem.h"
#include "exporter/sampler.h"
#include "patience.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

struct fixture {
    uv_loop_t loop;
    uv_timer_t tick; // wakes the loop while we wait
    char *path;
    void *library;
    struct fake_nvml *fake;
    struct exporter_sampler *sampler;
    struct exporter_sample *sample;
    struct gs_error *err;
    enum gpu_driver driver;
    unsigned n_samples, n_errors;
};

static void on_sample(void *arg, struct exporter_sample *s, struct gs_error *err,
                      enum gpu_driver driver)
{
    struct fixture *f = arg;
    assert_true((s == NULL) != (err == NULL));
    exporter_sample_free(f->sample);
    gs_error_free(f->err);
    f->sample = s;
    f->err = err;
    f->driver = driver;
    if (s)
        f->n_samples++;
    else
        f->n_errors++;
}

static void on_tick(uv_timer_t *t)
{
    (void)t;
}

static int setup(void **state)
{
    struct fixture *f = gs_alloc(sizeof(*f));
    uv_loop_init(&f->loop);
    uv_timer_init(&f->loop, &f->tick);
    uv_timer_start(&f->tick, on_tick, 5, 5);
    f->path = gs_format("%s/tests/gpu/libfakenvml2.so", getenv("GPUSCALE_BUILD_ROOT"));
    f->library = dlopen(f->path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(f->library);
    f->fake = dlsym(f->library, "fake_nvml");
    memset(f->fake, 0, sizeof(*f->fake));
    f->fake->count = 2;
    *state = f;
    return 0;
}

static void start(struct fixture *f)
{
    struct exporter_sampler_config cfg = {
        .backend.library = f->path,
        .interval_ns = 5 * GS_NS_PER_MS,
        .on_sample = on_sample,
        .arg = f,
    };
    assert_null(exporter_sampler_start(&f->loop, &cfg, &f->sampler));
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    uv_close((uv_handle_t *)&f->tick, NULL);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    exporter_sample_free(f->sample);
    gs_error_free(f->err);
    free(f->path);
    dlclose(f->library);
    free(f);
    return 0;
}

// Runs the loop until the condition holds; the deadline is far beyond what it takes.
#define WAIT_FOR(f, condition)                                                                     \
    do {                                                                                           \
        int64_t deadline_ = gs_mono_ns() + WAIT_NS;                                                \
        while (!(condition) && gs_mono_ns() < deadline_)                                           \
            uv_run(&(f)->loop, UV_RUN_ONCE);                                                       \
        assert_true(condition);                                                                    \
    } while (0)

static void test_samples_arrive(void **state)
{
    struct fixture *f = *state;
    f->fake->gpus[0].processes[0] = (struct nvml_process_v2){(uint32_t)getpid(), 1 << 20, -1u, -1u};
    f->fake->gpus[0].n_processes = 1;
    start(f);
    WAIT_FOR(f, f->n_samples >= 20);
    assert_int_equal(f->sample->gpus->n_devices, 2);
    assert_int_equal(f->sample->gpus->devices[0].n_processes, 1);
    assert_int_not_equal(f->sample->owners[0][0].kind, EXPORTER_OWNER_GONE);
    assert_string_not_equal(f->sample->owners[0][0].process_name, "");
    assert_null(f->sample->owners[1]);
    assert_int_equal(f->n_errors, 0);
    assert_true(exporter_sampler_stop(f->sampler));
}

static void test_no_library(void **state)
{
    struct fixture *f = *state;
    free(f->path);
    f->path = gs_strdup("/nonexistent/libnvidia-ml.so.1");
    start(f);
    WAIT_FOR(f, f->n_errors >= 1);
    assert_int_not_equal(f->driver, GPU_DRIVER_UP);
    assert_int_equal(gs_error_code(f->err), GS_ENOTFOUND);
    assert_true(exporter_sampler_stop(f->sampler));
}

static void test_driver_goes_and_comes_back(void **state)
{
    struct fixture *f = *state;
    f->fake->count = 1;
    start(f);
    WAIT_FOR(f, f->n_samples >= 1);
    assert_true(
        exporter_sampler_stop(f->sampler)); // the fake is only changed while no thread looks
    f->fake->count_ret = NVML_DRIVER_NOT_LOADED;
    start(f);
    WAIT_FOR(f, f->n_errors >= 2);
    assert_int_not_equal(f->driver, GPU_DRIVER_UP);
    assert_true(exporter_sampler_stop(f->sampler));
}

static void test_hanging_call_is_noticed_and_survived(void **state)
{
    struct fixture *f = *state;
    start(f);
    WAIT_FOR(f, f->n_samples >= 1);
    atomic_store(&f->fake->hang, true);
    WAIT_FOR(f, exporter_sampler_busy_since_ns(f->sampler) &&
                    gs_mono_ns() - exporter_sampler_busy_since_ns(f->sampler) > 100 * GS_NS_PER_MS);
    unsigned before = f->n_samples;
    atomic_store(&f->fake->hang, false);
    WAIT_FOR(f, f->n_samples > before + 2);
    assert_true(exporter_sampler_stop(f->sampler));
}

static void test_hanging_call_does_not_hold_the_end(void **state)
{
    struct fixture *f = *state;
    start(f);
    WAIT_FOR(f, f->n_samples >= 1);
    atomic_store(&f->fake->hang, true);
    WAIT_FOR(f, atomic_load(&f->fake->hangs));
    assert_true(exporter_sampler_busy_since_ns(f->sampler) > 0);
    assert_false(exporter_sampler_stop(f->sampler));
    unsigned before = f->n_samples;
    // The thread comes back when nobody waits any more; it must not touch the loop then.
    void *left = dlopen(f->path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(left);
    for (int i = 0; i < 10; i++)
        uv_run(&f->loop, UV_RUN_ONCE);
    atomic_store(&f->fake->hang, false);
    for (int i = 0; i < 20; i++)
        uv_run(&f->loop, UV_RUN_ONCE);
    assert_int_equal(f->n_samples, before);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_samples_arrive),
        TEST(test_no_library),
        TEST(test_driver_goes_and_comes_back),
        TEST(test_hanging_call_is_noticed_and_survived),
        TEST(test_hanging_call_does_not_hold_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
