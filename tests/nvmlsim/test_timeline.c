// SPDX-License-Identifier: Apache-2.0
// The device model. The first tests drive the timeline with times of their own, so that they are
// exact.
#include "nvmlsim/nvmlsim_private.h"
#include "simtest.h"

#include <pthread.h>

#define MS  GS_NS_PER_MS
#define T0  (1000 * GS_NS_PER_SEC)
#define ALL NVMLSIM_SHM_PPM

static struct nvmlsim_shm_gpu *bare_gpu(void)
{
    struct nvmlsim_shm_gpu *g = gs_alloc(sizeof(*g));
    g->board.model = *nvmlsim_model_find("A100-SXM4-80GB");
    g->timelines[0].sm_ppm = NVMLSIM_SHM_PPM;
    return g;
}

static struct nvmlsim_timeline_slice reserve(struct nvmlsim_shm_gpu *g, unsigned process,
                                             int64_t now, int64_t length, uint32_t share)
{
    struct nvmlsim_timeline_slice s;
    assert_true(nvmlsim_timeline_reserve(g, process, now, now, length, share, &s));
    assert_int_equal(s.end - s.start, length);
    return s;
}

static void test_full_slices_follow_each_other(void **state)
{
    struct nvmlsim_shm_gpu *g = bare_gpu();
    assert_int_equal(reserve(g, 0, T0, 2 * MS, ALL).start, T0);
    assert_int_equal(reserve(g, 1, T0 + MS, 2 * MS, ALL).start, T0 + 2 * MS);
    assert_int_equal(reserve(g, 2, T0 + MS, 2 * MS, ALL).start, T0 + 4 * MS);
    // The first one asks for its next slice: it queues behind the others, which alternates them.
    struct nvmlsim_timeline_slice s;
    assert_true(nvmlsim_timeline_reserve(g, 0, T0 + 2 * MS, T0 + 2 * MS + 50000, 2 * MS, ALL, &s));
    assert_int_equal(s.start, T0 + 6 * MS);
    free(g);
}

static void test_parts_overlap_up_to_the_whole(void **state)
{
    struct nvmlsim_shm_gpu *g = bare_gpu();
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(reserve(g, i, T0, 2 * MS, 300000).start, T0);
    assert_int_equal(reserve(g, 3, T0, 2 * MS, 300000).start, T0 + 2 * MS);
    assert_int_equal(reserve(g, 4, T0 + MS, 2 * MS, 100000).start, T0 + 2 * MS); // no overtaking
    free(g);
}

static void test_a_kernel_goes_on_where_it_stopped(void **state)
{
    struct nvmlsim_shm_gpu *g = bare_gpu();
    struct nvmlsim_timeline_slice s = reserve(g, 0, T0, 2 * MS, ALL);
    int64_t late = s.end + 7 * MS; // the client woke up late: the device did not wait
    assert_true(nvmlsim_timeline_reserve(g, 0, s.end, late, 2 * MS, ALL, &s));
    assert_int_equal(s.start, T0 + 2 * MS);
    // Stopped for seconds: the device was idle.
    late = s.end + 5000 * MS;
    assert_true(nvmlsim_timeline_reserve(g, 0, s.end, late, 2 * MS, ALL, &s));
    assert_int_equal(s.start, late - 50 * MS);
    free(g);
}

static void test_a_full_table_is_told(void **state)
{
    struct nvmlsim_shm_gpu *g = bare_gpu();
    struct nvmlsim_timeline_slice s;
    for (unsigned i = 0; i < NVMLSIM_SHM_RESERVATIONS; i++)
        reserve(g, 0, T0, 2 * MS, 1000);
    assert_false(nvmlsim_timeline_reserve(g, 0, T0, T0, 2 * MS, 1000, &s));
    assert_true(nvmlsim_timeline_reserve(g, 0, T0 + 2 * MS, T0 + 2 * MS, 2 * MS, 1000, &s));
    free(g);
}

static void test_gauges_follow_what_ran(void **state)
{
    struct nvmlsim_shm_gpu *g = bare_gpu();
    struct nvmlsim_activity_gauges v;
    nvmlsim_activity_gauges(g, &g->board, T0, T0, &v);
    assert_int_equal(v.gpu_util, 0);
    assert_int_equal(v.power_mw, 61000);
    assert_int_equal(v.temp_c, 30);
    assert_int_equal(v.sm_mhz, 210);
    // Ten seconds at half the time, all SMs: 10 ms of every 20.
    for (int64_t t = T0; t < T0 + 10000 * MS; t += 20 * MS)
        for (int64_t at = t; at < t + 10 * MS; at += 2 * MS)
            reserve(g, 3, at, 2 * MS, ALL);
    int64_t now = T0 + 10000 * MS;
    nvmlsim_activity_gauges(g, &g->board, T0, now, &v);
    assert_in_range(v.gpu_util, 48, 52);
    assert_in_range(v.sm_util, 48, 52);
    assert_in_range(v.mem_util, 23, 27);
    assert_in_range(v.power_mw, 61000 + 339 * 480, 61000 + 339 * 520);
    assert_in_range(v.temp_c, 43, 49); // most of the way to halfway between 30 and 68
    assert_int_equal(v.sm_mhz, 1410);
    // Exactly: 61 W for ten seconds, and 339 W for the five that were busy.
    assert_int_equal(v.energy_mj, 61 * 10000 + 339 * 5000);
    free(g);
}

static void test_parts_count_as_parts(void **state)
{
    struct nvmlsim_shm_gpu *g = bare_gpu();
    for (int64_t t = T0; t < T0 + 3000 * MS; t += 2 * MS)
        for (unsigned p = 0; p < 2; p++)
            reserve(g, p, t, 2 * MS, 250000);
    struct nvmlsim_activity_gauges v;
    nvmlsim_activity_gauges(g, &g->board, T0, T0 + 3000 * MS, &v);
    assert_int_equal(v.gpu_util, 100); // some kernel ran all the time
    assert_int_equal(v.sm_util, 50);
    assert_int_equal(v.energy_mj, 61 * 3000 + 339 * 1500);
    free(g);
}

static void test_energy_never_steps_back(void **state)
{
    struct nvmlsim_shm_gpu *g = bare_gpu();
    uint64_t last = 0;
    uint32_t seed = 1;
    for (int64_t t = T0; t < T0 + 200 * MS; t += 100003) {
        seed = seed * 1664525U + 1013904223U;
        struct nvmlsim_timeline_slice s;
        if (seed % 3 == 0)
            nvmlsim_timeline_reserve(g, seed % 5, t - seed % 3000000, t, 1 + (seed >> 8) % (2 * MS),
                                     1 + (seed >> 4) % ALL, &s);
        struct nvmlsim_activity_gauges v;
        nvmlsim_activity_gauges(g, &g->board, T0, t, &v);
        assert_true(v.energy_mj >= last);
        last = v.energy_mj;
    }
    free(g);
}

static void test_old_buckets_do_not_count(void **state)
{
    struct nvmlsim_shm_gpu *g = bare_gpu();
    reserve(g, 0, T0, 2 * MS, ALL);
    struct nvmlsim_activity_sum sum;
    uint32_t first, end;
    nvmlsim_activity_window(0, T0 + 10 * GS_NS_PER_SEC, &first, &end);
    nvmlsim_activity_sum(g->timelines[0].ring, first, end, &sum);
    assert_int_equal(sum.busy_ns, 2 * MS);
    nvmlsim_activity_window(0, T0 + 25 * GS_NS_PER_SEC, &first, &end);
    nvmlsim_activity_sum(g->timelines[0].ring, first, end, &sum);
    assert_int_equal(sum.busy_ns, 0);
    // A day later the same slots of the ring are used again.
    int64_t later = T0 + 86400 * GS_NS_PER_SEC;
    reserve(g, 0, later, MS, ALL);
    nvmlsim_activity_window(0, later + GS_NS_PER_SEC, &first, &end);
    nvmlsim_activity_sum(g->timelines[0].ring, first, end, &sum);
    assert_int_equal(sum.busy_ns, MS);
    free(g);
}

// --- with clients ---

static uint64_t used_memory(struct nvmlsim *s, unsigned gpu)
{
    struct nvmlsim_gpu_info info;
    nvmlsim_gpu_info(s, gpu, &info);
    return info.memory_used;
}

static void test_memory_is_counted(void **state)
{
    struct nvmlsim *s = make_sim("Tesla-T4");
    struct nvmlsim_ctx *c = NULL;
    ok(nvmlsim_ctx_open(0, &c));
    struct nvmlsim_alloc *a = NULL, *b = NULL, *none = NULL;
    ok(nvmlsim_mem_alloc(c, 3ULL << 30, &a));
    ok(nvmlsim_mem_alloc(c, 1ULL << 30, &b));
    assert_int_equal(used_memory(s, 0), 4ULL << 30);
    fails(nvmlsim_mem_alloc(c, 11ULL << 30, &none), GS_ELIMIT, "out of memory");
    fails(nvmlsim_mem_alloc(c, UINT64_MAX, &none), GS_ELIMIT, "out of memory");
    nvmlsim_mem_free(c, a);
    assert_int_equal(used_memory(s, 0), 1ULL << 30);
    nvmlsim_ctx_close(c); // b goes with it
    assert_int_equal(used_memory(s, 0), 0);
    drop_sim(s);
}

static void test_visible_devices(void **state)
{
    struct nvmlsim *s = make_sim("3xL4");
    struct nvmlsim_gpu_info info;
    nvmlsim_gpu_info(s, 2, &info);
    char text[256];
    snprintf(text, sizeof(text), "%s::3,1", info.uuid);
    setenv("CUDA_VISIBLE_DEVICES", text, 1);
    struct nvmlsim_ctx *first = NULL, *second = NULL, *none = NULL;
    struct nvmlsim_alloc *a = NULL;
    ok(nvmlsim_ctx_open(0, &first));
    ok(nvmlsim_mem_alloc(first, 1 << 20, &a));
    assert_int_equal(used_memory(s, 2), 1 << 20);
    ok(nvmlsim_ctx_open(1, &second));
    ok(nvmlsim_mem_alloc(second, 2 << 20, &a));
    assert_int_equal(used_memory(s, 1), 2 << 20);
    fails(nvmlsim_ctx_open(2, &none), GS_ENOTFOUND, "selects 2");
    nvmlsim_ctx_close(first);
    nvmlsim_ctx_close(second);
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    fails(nvmlsim_ctx_open(0, &none), GS_ENOTFOUND, "selects 0");
    setenv("CUDA_VISIBLE_DEVICES", "0,nonsense,1", 1);
    fails(nvmlsim_ctx_open(1, &none), GS_ENOTFOUND, "selects 1");
    unsetenv("CUDA_VISIBLE_DEVICES");
    ok(nvmlsim_ctx_open(2, &first));
    nvmlsim_ctx_close(first);
    drop_sim(s);
    fails(nvmlsim_ctx_open(0, &none), GS_ENOTFOUND, NVMLSIM_ENV);
}

static void test_wrong_kernels_are_refused(void **state)
{
    struct nvmlsim *s = make_sim("L4");
    struct nvmlsim_ctx *c = NULL;
    ok(nvmlsim_ctx_open(0, &c));
    fails(nvmlsim_kernel_run(c, 1000, 0), GS_EINVAL, "share");
    fails(nvmlsim_kernel_run(c, 1000, 1.5), GS_EINVAL, "share");
    fails(nvmlsim_kernel_run(c, UINT64_MAX, 1), GS_EINVAL, "a day");
    ok(nvmlsim_kernel_run(c, 0, 1));
    nvmlsim_ctx_close(c);
    drop_sim(s);
}

static void test_a_lost_gpu_runs_nothing(void **state)
{
    struct nvmlsim *s = make_sim("L4");
    struct nvmlsim_ctx *c = NULL, *none = NULL;
    struct nvmlsim_alloc *a = NULL;
    ok(nvmlsim_ctx_open(0, &c));
    ok(nvmlsim_lose_gpu(s, 0, true));
    fails(nvmlsim_kernel_run(c, 1000, 1), GS_EUNAVAIL, "is lost");
    fails(nvmlsim_mem_alloc(c, 1, &a), GS_EUNAVAIL, "is lost");
    fails(nvmlsim_ctx_open(0, &none), GS_EUNAVAIL, "is lost");
    ok(nvmlsim_lose_gpu(s, 0, false));
    ok(nvmlsim_kernel_run(c, 1000, 1));
    nvmlsim_ctx_close(c);
    drop_sim(s);
}

static void run_for_ever(void *arg)
{
    struct nvmlsim_ctx *c = NULL;
    struct nvmlsim_alloc *a = NULL;
    int *ready = arg;
    if (nvmlsim_ctx_open(0, &c) || nvmlsim_mem_alloc(c, 5ULL << 30, &a))
        _exit(1);
    if (write(ready[1], "", 1) != 1 || nvmlsim_kernel_run(c, 3600ULL * 1000000, 1))
        _exit(1);
}

static void test_a_killed_client_leaves_nothing(void **state)
{
    struct nvmlsim *s = make_sim("Tesla-T4");
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = start_child(run_for_ever, ready);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(used_memory(s, 0), 5ULL << 30);
    struct nvmlsim_gpu_info info;
    nvmlsim_gpu_info(s, 0, &info);
    assert_int_equal(info.n_processes, 1);
    sleep_ms(20); // into its kernel
    kill(pid, SIGKILL);
    siginfo_t death;
    assert_int_equal(waitid(P_PID, (id_t)pid, &death, WEXITED | WNOWAIT), 0);
    assert_int_equal(used_memory(s, 0), 0); // while it is a zombie
    end_child(pid, SIGKILL);
    nvmlsim_gpu_info(s, 0, &info);
    assert_int_equal(info.n_processes, 0);
    struct nvmlsim_ctx *c = NULL;
    struct nvmlsim_alloc *a = NULL;
    ok(nvmlsim_ctx_open(0, &c));
    ok(nvmlsim_mem_alloc(c, 14ULL << 30, &a));
    int64_t before = gs_mono_ns();
    ok(nvmlsim_kernel_run(c, 1000, 1));
    assert_true(gs_mono_ns() - before < 3600 * GS_NS_PER_SEC); // its kernel is gone
    nvmlsim_ctx_close(c);
    close(ready[0]);
    close(ready[1]);
    drop_sim(s);
}

static void die_with_the_lock(void *arg)
{
    struct nvmlsim *s = NULL;
    struct gs_error *err = nvmlsim_attach(getenv(NVMLSIM_ENV), &s);
    if (err)
        _exit(1);
    nvmlsim_shm_lock(&s->seg->gpus[0].lock);
    nvmlsim_shm_lock(&s->seg->lock);
    kill(getpid(), SIGKILL);
}

static void test_a_death_with_the_mutex_held(void **state)
{
    struct nvmlsim *s = make_sim("L4");
    for (int i = 0; i < 3; i++) {
        end_child(start_child(die_with_the_lock, NULL), SIGKILL);
        assert_int_equal(used_memory(s, 0), 0);
        nvmlsim_clear_faults(s);
        struct nvmlsim_ctx *c = NULL;
        ok(nvmlsim_ctx_open(0, &c));
        ok(nvmlsim_kernel_run(c, 500, 1));
        nvmlsim_ctx_close(c);
    }
    drop_sim(s);
}

static void use_parents_device(void *arg)
{
    struct gs_error *err = nvmlsim_kernel_run(arg, 1000, 1);
    _exit(err && gs_error_code(err) == GS_EINVAL ? 0 : 1);
}

static void test_a_forked_child_must_open_its_own(void **state)
{
    struct nvmlsim *s = make_sim("L4");
    struct nvmlsim_ctx *c = NULL;
    ok(nvmlsim_ctx_open(0, &c));
    end_child(start_child(use_parents_device, c), 0);
    nvmlsim_ctx_close(c);
    drop_sim(s);
}

static void test_places_are_used_again(void **state)
{
    struct nvmlsim_shm_gpu *g = bare_gpu();
    struct nvmlsim_process_id id;
    ok(nvmlsim_process_self(&id));
    unsigned place = 0;
    for (unsigned i = 0; i < 3 * NVMLSIM_SHM_PROCESSES; i++) {
        struct nvmlsim_process_id other = id;
        other.pid = (int32_t)i + 1;
        other.pid_ns = 1; // of a namespace that this one cannot judge
        ok(nvmlsim_process_open(g, &other, 0, &place));
        g->processes[place].memory = 7;
        g->processes[place].last_active = i + 1;
        nvmlsim_process_close(g, place, 7);
    }
    assert_int_equal(nvmlsim_process_memory_used(g, &g->board, 0), 0);
    for (unsigned i = 0; i < NVMLSIM_SHM_PROCESSES; i++) {
        struct nvmlsim_process_id other = id;
        other.pid = 5000 + (int32_t)i;
        other.pid_ns = 1;
        ok(nvmlsim_process_open(g, &other, 0, &place));
    }
    fails(nvmlsim_process_open(g, &id, 0, &place), GS_ELIMIT, "which is the maximum");
    free(g);
}

static void test_a_pid_used_again_is_another_process(void **state)
{
    struct nvmlsim_shm_gpu *g = bare_gpu();
    struct nvmlsim_process_id id;
    ok(nvmlsim_process_self(&id));
    unsigned first = 0, second = 0;
    struct nvmlsim_process_id old = id;
    old.start_time--; // had our pid before us
    ok(nvmlsim_process_open(g, &old, 0, &first));
    g->processes[first].memory = 1000;
    ok(nvmlsim_process_open(g, &id, 0, &second));
    assert_int_not_equal(first, second);
    assert_int_equal(nvmlsim_process_memory_used(g, &g->board, 0), 0);
    free(g);
}

// --- several at a time ---

struct worker {
    double share;
    unsigned kernels;
    uint64_t us;
};

static void *work(void *arg)
{
    const struct worker *w = arg;
    struct nvmlsim_ctx *c = NULL;
    struct gs_error *err = nvmlsim_ctx_open(0, &c);
    for (unsigned i = 0; !err && i < w->kernels; i++) {
        struct nvmlsim_alloc *a = NULL;
        err = nvmlsim_mem_alloc(c, 1 << 20, &a);
        if (!err)
            err = nvmlsim_kernel_run(c, w->us, w->share);
        nvmlsim_mem_free(c, a);
    }
    nvmlsim_ctx_close(c);
    return err;
}

static void run_worker(void *arg)
{
    _exit(work(arg) ? 1 : 0);
}

static void totals(const struct nvmlsim *s, struct nvmlsim_activity_sum *ret)
{
    nvmlsim_activity_totals(&s->seg->gpus[0].timelines[0], gs_mono_ns() + GS_NS_PER_SEC, ret);
}

static void test_threads_and_processes_together(void **state)
{
    struct nvmlsim *s = make_sim("L4");
    struct worker w = {.share = 1, .kernels = 10, .us = 5000};
    pthread_t threads[4];
    pid_t children[2];
    for (int i = 0; i < 2; i++)
        children[i] = start_child(run_worker, &w);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &w), 0);
    for (int i = 0; i < 4; i++) {
        void *err = NULL;
        pthread_join(threads[i], &err);
        ok(err);
    }
    for (int i = 0; i < 2; i++)
        end_child(children[i], 0);
    struct nvmlsim_activity_sum sum;
    totals(s, &sum);
    assert_int_equal(sum.busy_ns, 6 * 10 * 5 * MS); // every kernel had the device alone
    assert_int_equal(sum.sm_ns, 6 * 10 * 5 * MS);
    assert_int_equal(used_memory(s, 0), 0);
    drop_sim(s);
}

static void run_short_kernels(void *arg)
{
    for (;;) {
        struct nvmlsim_ctx *c = NULL;
        struct nvmlsim_alloc *a = NULL;
        if (nvmlsim_ctx_open(0, &c) || nvmlsim_mem_alloc(c, 1 << 20, &a) ||
            nvmlsim_kernel_run(c, 100, 0.5))
            _exit(1);
        nvmlsim_ctx_close(c);
    }
}

// Killed anywhere: opening, allocating, with the mutex held, in a kernel.
static void test_kills_at_any_moment(void **state)
{
    struct nvmlsim *s = make_sim("L4");
    for (unsigned round = 0; round < 40; round++) {
        pid_t pids[3];
        for (int i = 0; i < 3; i++)
            pids[i] = start_child(run_short_kernels, NULL);
        struct timespec moment = {.tv_nsec = 1000000 + round * 137911 % 5000000};
        nanosleep(&moment, NULL);
        for (int i = 0; i < 3; i++)
            end_child(pids[i], SIGKILL);
        assert_int_equal(used_memory(s, 0), 0);
    }
    struct nvmlsim_ctx *c = NULL;
    ok(nvmlsim_ctx_open(0, &c));
    ok(nvmlsim_kernel_run(c, 1000, 1));
    nvmlsim_ctx_close(c);
    struct nvmlsim_gpu_info info;
    nvmlsim_gpu_info(s, 0, &info);
    assert_int_equal(info.n_processes, 0);
    drop_sim(s);
}

static int64_t busy_with_three_small_kernels(void)
{
    struct nvmlsim *s = make_sim("L4");
    struct worker w = {.share = 0.3, .kernels = 1, .us = 400000};
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &w), 0);
    for (int i = 0; i < 3; i++) {
        void *err = NULL;
        pthread_join(threads[i], &err);
        ok(err);
    }
    struct nvmlsim_activity_sum sum;
    totals(s, &sum);
    assert_int_equal((sum.sm_ns + 500000) / MS, 360);
    drop_sim(s);
    return (int64_t)sum.busy_ns;
}

// Three kernels of 0.3 that start together need the time of one, 1.2 s one after the other. Where
// the machine stands still they do not start together: once more.
static void test_small_kernels_overlap(void **state)
{
    for (int i = 0; busy_with_three_small_kernels() >= 1000 * MS; i++)
        assert_true(i < 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_slices_follow_each_other),
        cmocka_unit_test(test_parts_overlap_up_to_the_whole),
        cmocka_unit_test(test_a_kernel_goes_on_where_it_stopped),
        cmocka_unit_test(test_a_full_table_is_told),
        cmocka_unit_test(test_gauges_follow_what_ran),
        cmocka_unit_test(test_parts_count_as_parts),
        cmocka_unit_test(test_energy_never_steps_back),
        cmocka_unit_test(test_old_buckets_do_not_count),
        cmocka_unit_test(test_memory_is_counted),
        cmocka_unit_test(test_visible_devices),
        cmocka_unit_test(test_wrong_kernels_are_refused),
        cmocka_unit_test(test_a_lost_gpu_runs_nothing),
        cmocka_unit_test(test_a_killed_client_leaves_nothing),
        cmocka_unit_test(test_a_death_with_the_mutex_held),
        cmocka_unit_test(test_a_forked_child_must_open_its_own),
        cmocka_unit_test(test_places_are_used_again),
        cmocka_unit_test(test_a_pid_used_again_is_another_process),
        cmocka_unit_test(test_threads_and_processes_together),
        cmocka_unit_test(test_kills_at_any_moment),
        cmocka_unit_test(test_small_kernels_overlap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
