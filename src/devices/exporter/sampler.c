// SPDX-License-Identifier: Apache-2.0
// The thread that samples GPUs and finds the owners of processes. It hands complete samples to the
// loop; a sample that the loop has not taken is replaced. A call of the driver may hang forever,
// so stopping waits for a limited time, and the last of the two sides frees the sampler.
#include "exporter/sampler.h"

#include "base/assert.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/mem.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#define STOP_WAIT_NS (500 * GS_NS_PER_MS)
#define MIN_LEAD_NS  (5 * GS_NS_PER_MS)

struct exporter_sampler {
    // Used only by the loop.
    uv_async_t async;
    pthread_t thread;
    struct exporter_sampler_config cfg; // constant while the thread runs

    // Protected by the lock.
    pthread_mutex_t lock;
    pthread_cond_t changed; // stopping, ended
    bool stopping, ended;
    bool abandoned; // a thread of the back end hangs in the driver
    unsigned refs;  // held by the loop's handle and the thread
    enum gpu_driver driver;
    int64_t busy_since_ns;
    int64_t expected_ns; // a request; 0: unknown
    bool wanted[GPU_F_COUNT], wanted_changed;
    int64_t every_ns[GPU_F_COUNT];
    uint16_t dcgm_ids[DCGM_SOURCE_MAX_FIELDS];
    size_t n_dcgm_ids;
    struct exporter_sample *sample; // delivered, not yet taken; a newer sample replaces it
    struct gs_error *error;

    // Used only by the thread.
    struct gpu_backend *backend;
    struct exporter_owner_cache *owners;
    struct dcgm_merge *merge; // NULL: DCGM is not used
    int64_t lead_ns;          // from the start of a sample to the expected request
};

void exporter_sample_free(struct exporter_sample *s)
{
    if (!s)
        return;
    for (size_t i = 0; s->gpus && s->owners && i < s->gpus->n_devices; i++)
        free(s->owners[i]);
    free(s->owners);
    dcgm_latest_free(s->dcgm);
    gpu_snapshot_free(s->gpus);
    free(s);
}

static void sampler_free(struct exporter_sampler *s)
{
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    exporter_sample_free(s->sample);
    gs_error_free(s->error);
    free((char *)s->cfg.backend.library);
    free((char *)s->cfg.backend.sys);
    free(s);
}

static void sampler_unref(struct exporter_sampler *s)
{
    pthread_mutex_lock(&s->lock);
    gs_assert(s->refs > 0);
    bool last = --s->refs == 0;
    pthread_mutex_unlock(&s->lock);
    if (last)
        sampler_free(s);
}

// --- thread ---

static void prepare_backend(struct exporter_sampler *s)
{
    bool wanted[GPU_F_COUNT];
    int64_t every_ns[GPU_F_COUNT];
    pthread_mutex_lock(&s->lock);
    bool changed = s->wanted_changed;
    memcpy(wanted, s->wanted, sizeof(wanted));
    memcpy(every_ns, s->every_ns, sizeof(every_ns));
    s->wanted_changed = false;
    pthread_mutex_unlock(&s->lock);
    if (s->backend && changed)
        gpu_backend_want(s->backend, wanted, every_ns);
    if (s->backend)
        return;
    struct gpu_backend_config cfg = s->cfg.backend;
    cfg.wanted = cfg.wanted || changed ? wanted : NULL;
    cfg.every_ns = every_ns;
    cfg.pass_ns = s->cfg.interval_ns;
    s->backend = gpu_backend_new(&cfg);
}

static void find_owners(struct exporter_sampler *s, struct exporter_sample *sample)
{
    const struct gpu_snapshot *g = sample->gpus;
    sample->owners = gs_alloc_array(g->n_devices ? g->n_devices : 1, sizeof(*sample->owners));
    exporter_owner_cache_begin(s->owners);
    for (size_t i = 0; i < g->n_devices; i++) {
        const struct gpu_device *d = &g->devices[i];
        if (!d->n_processes)
            continue;
        sample->owners[i] = gs_alloc_array(d->n_processes, sizeof(**sample->owners));
        for (size_t k = 0; k < d->n_processes; k++)
            sample->owners[i][k] =
                *exporter_owner_lookup(s->owners, d->processes[k].pid, d->processes_ns);
    }
    exporter_owner_cache_end(s->owners);
    memcpy(sample->resolved, exporter_owner_cache_resolved(s->owners), sizeof(sample->resolved));
}

static void merge_dcgm(struct exporter_sampler *s, struct exporter_sample *sample)
{
    bool wanted[GPU_F_COUNT];
    uint16_t ids[DCGM_SOURCE_MAX_FIELDS];
    if (!s->merge)
        return;
    pthread_mutex_lock(&s->lock);
    size_t n = s->n_dcgm_ids;
    memcpy(wanted, s->wanted, sizeof(wanted));
    memcpy(ids, s->dcgm_ids, n * sizeof(*ids));
    pthread_mutex_unlock(&s->lock);
    sample->dcgm = dcgm_source_merge(s->merge, sample->gpus, wanted, ids, n, s->cfg.interval_ns);
}

static struct gs_error *sample_gpus(struct exporter_sampler *s, struct exporter_sample **ret)
{
    prepare_backend(s);
    struct gpu_snapshot *gpus = NULL;
    struct gs_error *err = gpu_backend_sample(s->backend, &gpus);
    if (err)
        return err;
    struct exporter_sample *sample = gs_alloc(sizeof(*sample));
    sample->gpus = gpus;
    merge_dcgm(s, sample);
    find_owners(s, sample);
    exporter_clamp_process_usage(sample);
    sample->mono_ns = gs_mono_ns();
    *ret = sample;
    return NULL;
}

static void set_busy(struct exporter_sampler *s, int64_t since_ns)
{
    pthread_mutex_lock(&s->lock);
    s->busy_since_ns = since_ns;
    pthread_mutex_unlock(&s->lock);
}

// The async handle may be closed once `stopping` is set: use it only under the lock.
static void hand_over(struct exporter_sampler *s, struct exporter_sample *sample,
                      struct gs_error *err)
{
    gs_assert(!sample != !err);
    pthread_mutex_lock(&s->lock);
    s->busy_since_ns = 0;
    if (s->stopping) {
        exporter_sample_free(sample);
        gs_error_free(err);
    } else {
        exporter_sample_free(s->sample);
        gs_error_free(s->error);
        s->sample = sample;
        s->error = err;
        s->driver = gpu_backend_driver(s->backend);
        uv_async_send(&s->async);
    }
    pthread_mutex_unlock(&s->lock);
}

// Sleeps until the time. False: the thread must end.
static bool sleep_until(struct exporter_sampler *s, int64_t mono_ns)
{
    struct timespec at = {mono_ns / GS_NS_PER_SEC, mono_ns % GS_NS_PER_SEC};
    pthread_mutex_lock(&s->lock);
    while (!s->stopping && gs_mono_ns() < mono_ns)
        pthread_cond_timedwait(&s->changed, &s->lock, &at);
    bool go_on = !s->stopping;
    pthread_mutex_unlock(&s->lock);
    return go_on;
}

// Samples vary in their duration, and begin late on a busy machine: twice the longest time of the
// last ones from the planned begin to the end leaves time to hand a sample over.
static void take_duration(struct exporter_sampler *s, int64_t ns)
{
    int64_t lead = s->lead_ns - s->lead_ns / 8, limit = s->cfg.interval_ns / 4;
    lead = lead > 2 * ns + MIN_LEAD_NS ? lead : 2 * ns + MIN_LEAD_NS;
    s->lead_ns = lead < limit ? lead : limit;
}

static int64_t before_request(struct exporter_sampler *s, int64_t next)
{
    pthread_mutex_lock(&s->lock);
    int64_t expected = s->expected_ns;
    pthread_mutex_unlock(&s->lock);
    return expected ? exporter_rhythm_shift(next, expected - s->lead_ns, s->cfg.interval_ns) : next;
}

// A fixed period: samples missed by a long one are skipped.
static int64_t next_beat(const struct exporter_sampler *s, int64_t last)
{
    int64_t now = gs_mono_ns(), next = last + s->cfg.interval_ns;
    return next < now ? now + s->cfg.interval_ns - (now - next) % s->cfg.interval_ns : next;
}

static int64_t longer_pause(const struct exporter_sampler *s, int64_t pause)
{
    int64_t first = s->cfg.interval_ns < GS_NS_PER_SEC ? s->cfg.interval_ns : GS_NS_PER_SEC;
    return gs_backoff_next(pause, first, EXPORTER_SAMPLER_MAX_PAUSE_NS);
}

static void *sampler_main(void *arg)
{
    struct exporter_sampler *s = arg;
    int64_t next = gs_mono_ns(), pause = 0;
    do {
        set_busy(s, gs_mono_ns());
        struct exporter_sample *sample = NULL;
        struct gs_error *err = sample_gpus(s, &sample);
        pause = err ? longer_pause(s, pause) : 0;
        hand_over(s, sample, err);
        take_duration(s, gs_mono_ns() - next);
        next = pause ? gs_mono_ns() + pause : before_request(s, next_beat(s, next));
    } while (sleep_until(s, next));
    bool clean = gpu_backend_stop(s->backend);
    exporter_owner_cache_free(s->owners);
    dcgm_source_merge_free(s->merge);
    pthread_mutex_lock(&s->lock);
    s->ended = true;
    s->abandoned = !clean;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    sampler_unref(s);
    return NULL;
}

// --- loop ---

static void on_async(uv_async_t *async)
{
    struct exporter_sampler *s = GS_CONTAINER_OF(async, struct exporter_sampler, async);
    pthread_mutex_lock(&s->lock);
    struct exporter_sample *sample = GS_TAKE(s->sample);
    struct gs_error *err = GS_TAKE(s->error);
    enum gpu_driver driver = s->driver;
    pthread_mutex_unlock(&s->lock);
    if (sample || err)
        s->cfg.on_sample(s->cfg.arg, sample, err, driver);
}

static void init_sync(struct exporter_sampler *s)
{
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &attr);
    pthread_condattr_destroy(&attr);
}

// Signals are handled by the loop's thread.
static int start_thread(struct exporter_sampler *s)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&s->thread, NULL, sampler_main, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
}

static void unref_on_close(uv_handle_t *h)
{
    sampler_unref(GS_CONTAINER_OF((uv_async_t *)h, struct exporter_sampler, async));
}

struct gs_error *exporter_sampler_start(uv_loop_t *loop, const struct exporter_sampler_config *cfg,
                                        struct exporter_sampler **ret)
{
    struct exporter_sampler *s = gs_alloc(sizeof(*s));
    s->cfg = *cfg;
    s->cfg.backend.library = gs_strdup(cfg->backend.library);
    s->cfg.backend.sys = gs_strdup(cfg->backend.sys);
    if (cfg->backend.wanted) {
        memcpy(s->wanted, cfg->backend.wanted, sizeof(s->wanted));
        s->cfg.backend.wanted = s->wanted;
    }
    if (cfg->backend.every_ns)
        memcpy(s->every_ns, cfg->backend.every_ns, sizeof(s->every_ns));
    init_sync(s);
    int rc = uv_async_init(loop, &s->async, on_async);
    if (rc < 0) {
        sampler_free(s);
        return gs_error_new(GS_EIO, "sampler: %s", uv_strerror(rc));
    }
    s->owners = exporter_owner_cache_new(&cfg->owners);
    s->merge = cfg->dcgm ? dcgm_source_merge_new(cfg->dcgm) : NULL;
    s->refs = 2;
    rc = start_thread(s);
    if (rc) {
        exporter_owner_cache_free(s->owners);
        dcgm_source_merge_free(s->merge);
        s->refs = 1;
        uv_close((uv_handle_t *)&s->async, unref_on_close);
        return gs_error_errno(rc, "starting the sampler thread");
    }
    *ret = s;
    return NULL;
}

void exporter_sampler_want(struct exporter_sampler *s, const bool *wanted, const int64_t *every_ns)
{
    pthread_mutex_lock(&s->lock);
    memcpy(s->wanted, wanted, sizeof(s->wanted));
    memcpy(s->every_ns, every_ns, sizeof(s->every_ns));
    s->wanted_changed = true;
    pthread_mutex_unlock(&s->lock);
}

void exporter_sampler_want_dcgm(struct exporter_sampler *s, const uint16_t *ids, size_t n)
{
    n = n < DCGM_SOURCE_MAX_FIELDS ? n : DCGM_SOURCE_MAX_FIELDS;
    pthread_mutex_lock(&s->lock);
    memcpy(s->dcgm_ids, ids, n * sizeof(*ids));
    s->n_dcgm_ids = n;
    pthread_mutex_unlock(&s->lock);
}

void exporter_sampler_expect(struct exporter_sampler *s, int64_t at_ns)
{
    pthread_mutex_lock(&s->lock);
    s->expected_ns = at_ns;
    pthread_mutex_unlock(&s->lock);
}

int64_t exporter_sampler_busy_since_ns(struct exporter_sampler *s)
{
    pthread_mutex_lock(&s->lock);
    int64_t since = s->busy_since_ns;
    pthread_mutex_unlock(&s->lock);
    return since;
}

static bool wait_ended(struct exporter_sampler *s, bool *ret_clean)
{
    int64_t deadline = gs_mono_ns() + STOP_WAIT_NS;
    struct timespec at = {deadline / GS_NS_PER_SEC, deadline % GS_NS_PER_SEC};
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_broadcast(&s->changed);
    while (!s->ended && gs_mono_ns() < deadline)
        pthread_cond_timedwait(&s->changed, &s->lock, &at);
    bool ended = s->ended;
    *ret_clean = ended && !s->abandoned;
    pthread_mutex_unlock(&s->lock);
    return ended;
}

bool exporter_sampler_stop(struct exporter_sampler *s)
{
    if (!s)
        return true;
    bool clean = false;
    bool ended = wait_ended(s, &clean);
    if (ended)
        pthread_join(s->thread, NULL);
    else
        pthread_detach(s->thread); // the thread frees its memory if it ever returns
    uv_close((uv_handle_t *)&s->async, unref_on_close);
    return clean;
}
