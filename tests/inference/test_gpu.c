// SPDX-License-Identifier: Apache-2.0
// The simulated GPUs of an engine: steps with and without them, memory, and a lost GPU.
#include "unit.h"

#include "base/clock.h"
#include "inference/gpu.h"
#include "nvmlsim/sim.h"

#include <stdlib.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

static char set[64];
static struct nvmlsim *sim;

static int make_gpus(void **state)
{
    struct nvmlsim_spec spec;
    (void)state;
    snprintf(set, sizeof(set), "/gpuscale-test-inference-%d", (int)getpid());
    assert_ok(nvmlsim_spec_parse("2xTesla-T4", &spec));
    assert_ok(nvmlsim_create(set, &spec, &sim));
    setenv("GPUSCALE_SIM", set, 1);
    unsetenv("CUDA_VISIBLE_DEVICES");
    return 0;
}

static int delete_gpus(void **state)
{
    (void)state;
    nvmlsim_detach(sim);
    assert_ok(nvmlsim_unlink(set));
    return 0;
}

struct steps {
    uv_loop_t loop;
    struct inference_gpu *gpu;
    unsigned done, wanted;
};

static void begin_step(struct steps *s)
{
    inference_gpu_begin(s->gpu, 2 * GS_NS_PER_MS, 1, gs_mono_ns() + 3 * GS_NS_PER_MS);
}

static void on_done(void *arg)
{
    struct steps *s = arg;
    assert_false(inference_gpu_is_busy(s->gpu));
    if (++s->done < s->wanted)
        begin_step(s);
}

static struct gs_error *open_gpus(struct steps *s, unsigned n)
{
    memset(s, 0, sizeof(*s));
    uv_loop_init(&s->loop);
    struct gs_error *err = inference_gpu_open(&s->loop, n, on_done, s, &s->gpu);
    if (err) {
        uv_run(&s->loop, UV_RUN_DEFAULT);
        uv_loop_close(&s->loop);
    }
    return err;
}

static void run_steps(struct steps *s, unsigned n)
{
    s->wanted = s->done + n;
    begin_step(s);
    while (s->done < s->wanted)
        uv_run(&s->loop, UV_RUN_ONCE);
}

static void close_gpus(struct steps *s)
{
    inference_gpu_free(s->gpu);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&s->loop), 0);
}

static void test_steps_end_on_all_gpus(void **state)
{
    (void)state;
    struct steps s;
    struct nvmlsim_gpu_info info;
    assert_ok(open_gpus(&s, 2));
    assert_true(inference_gpu_is_present(s.gpu));
    assert_string_equal(inference_gpu_model(s.gpu), "Tesla-T4");
    assert_true(inference_gpu_memory(s.gpu) > 14000 * MIB);
    run_steps(&s, 20);
    assert_null(inference_gpu_take_error(s.gpu));
    nvmlsim_gpu_info(sim, 1, &info);
    assert_int_equal(info.n_processes, 1);
    close_gpus(&s);
}

static void test_memory_is_allocated_on_each_gpu(void **state)
{
    (void)state;
    struct steps s;
    struct nvmlsim_gpu_info info;
    assert_ok(open_gpus(&s, 2));
    assert_ok(inference_gpu_allocate(s.gpu, 1000 * MIB));
    assert_ok(inference_gpu_allocate(s.gpu, 500 * MIB));
    nvmlsim_gpu_info(sim, 1, &info);
    assert_int_equal(info.memory_used, 1500 * MIB);
    assert_error(inference_gpu_allocate(s.gpu, 100000 * MIB), GS_ELIMIT, "out of memory");
    inference_gpu_release(s.gpu);
    nvmlsim_gpu_info(sim, 1, &info);
    assert_int_equal(info.memory_used, 0);
    close_gpus(&s);
}

static void test_a_lost_gpu_is_an_error_of_the_step(void **state)
{
    (void)state;
    struct steps s;
    assert_ok(open_gpus(&s, 2));
    assert_ok(nvmlsim_lose_gpu(sim, 1, true));
    run_steps(&s, 1);
    assert_error(inference_gpu_take_error(s.gpu), GS_EUNAVAIL, "lost");
    assert_ok(nvmlsim_lose_gpu(sim, 1, false));
    close_gpus(&s);
}

static void test_too_many_gpus_are_an_error(void **state)
{
    (void)state;
    struct steps s;
    assert_error(open_gpus(&s, 3), GS_ENOTFOUND, "no simulated device 2");
}

static void test_steps_take_their_time_without_gpus(void **state)
{
    (void)state;
    struct steps s;
    int64_t start = gs_mono_ns();
    unsetenv("GPUSCALE_SIM");
    assert_ok(open_gpus(&s, 4));
    assert_false(inference_gpu_is_present(s.gpu));
    run_steps(&s, 5);
    assert_true(gs_mono_ns() - start >= 15 * GS_NS_PER_MS);
    assert_ok(inference_gpu_allocate(s.gpu, 1000 * MIB));
    close_gpus(&s);
    setenv("GPUSCALE_SIM", set, 1);
}

static void test_a_step_may_run_at_the_end(void **state)
{
    (void)state;
    struct steps s;
    assert_ok(open_gpus(&s, 2));
    begin_step(&s);
    close_gpus(&s);
    assert_true(s.done <= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_end_on_all_gpus),
        cmocka_unit_test(test_memory_is_allocated_on_each_gpu),
        cmocka_unit_test(test_a_lost_gpu_is_an_error_of_the_step),
        cmocka_unit_test(test_too_many_gpus_are_an_error),
        cmocka_unit_test(test_steps_take_their_time_without_gpus),
        cmocka_unit_test(test_a_step_may_run_at_the_end),
    };
    return cmocka_run_group_tests(tests, make_gpus, delete_gpus);
}
