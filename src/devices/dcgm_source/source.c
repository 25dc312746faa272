// SPDX-License-Identifier: Apache-2.0
// The thread of a source: chooses the engine, runs a client for it, and tries again with backoff.
// The last read and the state are shared with the callers under one lock, which is never held while
// DCGM is used.
#include "dcgm_source/source_private.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/slice.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define RETRY_NS       GS_NS_PER_SEC
#define RETRY_MAX_NS   (60 * GS_NS_PER_SEC)
#define CRASH_PAUSE_NS (600 * GS_NS_PER_SEC)
enum {
    PROBE_MS = 200,
    ENGINE_PORT = 5555,
    MAX_CRASHES = 5,       // within CRASH_PAUSE_NS
    RESET_OFFSET_AFTER = 5 // advancing reads that are all too old: the engine's clock was set back
};
#define ENGINE_SOCKET "/tmp/nv-hostengine"

struct dcgm_source {
    struct dcgm_source_config cfg; // strings are owned
    int64_t first_pause_ns;
    pthread_t thread;

    // Protected by the lock.
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool started, stopping, plan_changed;
    int wake_fd; // an eventfd, -1 before the thread starts
    struct dcgm_source_plan wanted;
    unsigned renewals;
    struct dcgm_latest *latest;
    struct dcgm_source_status status;
    char foreign[96];             // see dcgm_source_set_foreign()
    int64_t newest_us, offset_us; // of the connection; newest_us 0: no read yet
    bool has_offset;
    unsigned n_old; // advancing reads in a row that were too old

    // Used only by the thread.
    struct dcgm_source_plan plan;
    int64_t crashes_ns[MAX_CRASHES]; // gs_mono_ns of the last ones
    size_t n_crashes;
    bool absence_logged;
    bool wire_refused; // the engine speaks another version of the protocol: the reader is used
};

const char *dcgm_source_restart_name(enum dcgm_source_restart r)
{
    static const char *const names[] = {"connection", "crash", "hang", "memory"};
    return r < DCGM_SOURCE_RESTARTS ? names[r] : "unknown";
}

// --- for clients ---

int dcgm_source_wake_fd(const struct dcgm_source *s)
{
    return s->wake_fd;
}

bool dcgm_source_must_return(struct dcgm_source *s)
{
    pthread_mutex_lock(&s->lock);
    bool must = s->stopping || s->plan_changed;
    pthread_mutex_unlock(&s->lock);
    return must;
}

bool dcgm_source_sleep_until(struct dcgm_source *s, int64_t mono_ns)
{
    struct timespec at = {mono_ns / GS_NS_PER_SEC, mono_ns % GS_NS_PER_SEC};
    pthread_mutex_lock(&s->lock);
    while (!s->stopping && !s->plan_changed && gs_mono_ns() < mono_ns)
        pthread_cond_timedwait(&s->changed, &s->lock, &at);
    bool go_on = !s->stopping && !s->plan_changed;
    pthread_mutex_unlock(&s->lock);
    return go_on;
}

const struct dcgm_source_plan *dcgm_source_current_plan(const struct dcgm_source *s)
{
    return &s->plan;
}

const struct dcgm_source_config *dcgm_source_config_of(const struct dcgm_source *s)
{
    return &s->cfg;
}

unsigned dcgm_source_renewals(struct dcgm_source *s)
{
    pthread_mutex_lock(&s->lock);
    unsigned n = s->renewals;
    pthread_mutex_unlock(&s->lock);
    return n;
}

void dcgm_source_count_restart(struct dcgm_source *s, enum dcgm_source_restart reason)
{
    pthread_mutex_lock(&s->lock);
    s->status.restarts[reason]++;
    pthread_mutex_unlock(&s->lock);
    if (reason != DCGM_SOURCE_CRASH)
        return;
    s->crashes_ns[s->n_crashes++ % MAX_CRASHES] = gs_mono_ns();
}

// --- reports ---

// Users of the source log that it is down: they know what is missing then.
static void log_report(const struct dcgm_source_report *old, const struct dcgm_source_report *r,
                       const char *where)
{
    const char *simulated = r->simulated ? "SIMULATED " : "";
    bool was_up = old->state == DCGM_SOURCE_UP, is_up = r->state == DCGM_SOURCE_UP;
    if (is_up && !was_up)
        gs_info("dcgm", "reading from the %sDCGM %s at %s", simulated,
                r->version[0] ? r->version : "of unknown version", where);
    if (is_up && r->prof_code && (r->prof_code != old->prof_code || !was_up))
        gs_warn("dcgm", "%s; profiling metrics are absent", r->prof_problem);
    else if (is_up && was_up && !r->prof_code && old->prof_code)
        gs_info("dcgm", "profiling metrics are available again");
}

void dcgm_source_set_report(struct dcgm_source *s, const struct dcgm_source_report *r)
{
    pthread_mutex_lock(&s->lock);
    struct dcgm_source_report old = s->status.report;
    char where[sizeof(s->status.address)];
    memcpy(where, s->status.address, sizeof(where));
    // The first attempts of a client after a failure change nothing for the reader of the page.
    bool keeps = r->state == DCGM_SOURCE_CONNECTING && old.state == DCGM_SOURCE_DOWN;
    if (!keeps)
        s->status.report = *r;
    pthread_mutex_unlock(&s->lock);
    if (!keeps)
        log_report(&old, r, where);
}

// --- reads ---

static int64_t newest_of(const struct dcgm_latest *l)
{
    int64_t newest = 0;
    for (size_t i = 0; i < l->n_values; i++)
        if (l->values[i].ts_us > newest)
            newest = l->values[i].ts_us;
    return newest;
}

// A timestamp that advances between two reads is at most as old as the pause between them, even if
// the clocks differ. Before that, an old timestamp may be that of an engine that does not sample.
static void update_offset(struct dcgm_source *s, const struct dcgm_latest *l)
{
    int64_t newest = newest_of(l), offset;
    bool advances = s->newest_us && newest > s->newest_us;
    s->newest_us = newest;
    if (!advances || __builtin_sub_overflow(l->unix_us, newest, &offset))
        return;
    s->n_old =
        s->has_offset && offset - s->offset_us > dcgm_source_fresh_ns(l) / 1000 ? s->n_old + 1 : 0;
    if (!s->has_offset || offset < s->offset_us || s->n_old >= RESET_OFFSET_AFTER)
        s->offset_us = offset;
    s->has_offset = true;
}

void dcgm_source_publish(struct dcgm_source *s, struct dcgm_latest *l, int64_t read_ns)
{
    l->mono_ns = gs_mono_ns();
    l->unix_us = gs_unix_us();
    l->interval_ns = s->plan.interval_ns;
    pthread_mutex_lock(&s->lock);
    update_offset(s, l);
    l->offset_us = s->has_offset ? s->offset_us : 0;
    struct dcgm_latest *old = s->latest;
    s->latest = l;
    s->status.reads++;
    s->status.read_ns += (uint64_t)(read_ns > 0 ? read_ns : 0);
    pthread_mutex_unlock(&s->lock);
    dcgm_latest_free(old);
}

static void drop_reads(struct dcgm_source *s)
{
    pthread_mutex_lock(&s->lock);
    struct dcgm_latest *old = GS_TAKE(s->latest);
    s->newest_us = 0;
    s->has_offset = false;
    s->n_old = 0;
    pthread_mutex_unlock(&s->lock);
    dcgm_latest_free(old);
}

// --- thread ---

static void set_target(struct dcgm_source *s, const struct dcgm_source_target *t, const char *mode)
{
    pthread_mutex_lock(&s->lock);
    s->status.mode = mode;
    snprintf(s->status.address, sizeof(s->status.address), "%s%s", t->is_unix ? "unix:" : "",
             t->embedded ? "an embedded engine" : t->address);
    s->newest_us = 0;
    s->has_offset = false;
    pthread_mutex_unlock(&s->lock);
}

// False: auto, and there is no engine.
static bool choose_target(const struct dcgm_source *s, struct dcgm_source_target *ret)
{
    const struct dcgm_source_endpoint *e = &s->cfg.endpoint;
    *ret = (struct dcgm_source_target){.embedded = e->mode == DCGM_SOURCE_EMBEDDED,
                                       .is_unix = e->is_unix};
    snprintf(ret->address, sizeof(ret->address), "%s", e->address);
    if (e->mode != DCGM_SOURCE_AUTO)
        return true;
    if (dcgm_source_probe_local(ENGINE_PORT, PROBE_MS)) {
        snprintf(ret->address, sizeof(ret->address), "127.0.0.1:%d", ENGINE_PORT);
        return true;
    }
    ret->is_unix = true;
    snprintf(ret->address, sizeof(ret->address), "%s", ENGINE_SOCKET);
    return dcgm_source_probe_unix(ENGINE_SOCKET, PROBE_MS);
}

static void report_absence(struct dcgm_source *s)
{
    struct dcgm_source_report r = {.state = DCGM_SOURCE_ABSENT};
    snprintf(r.problem, sizeof(r.problem), "no host engine at 127.0.0.1:%d or %s", ENGINE_PORT,
             ENGINE_SOCKET);
    if (!s->absence_logged)
        gs_info("dcgm",
                "%s: metrics that only DCGM has are absent. Start nv-hostengine, or set --dcgm",
                r.problem);
    s->absence_logged = true;
    dcgm_source_set_report(s, &r);
}

static struct gs_error *run_client(struct dcgm_source *s, const struct dcgm_source_target *t)
{
    int code = 0;
    bool reader = t->embedded || s->cfg.library || s->wire_refused;
    set_target(s, t, t->embedded ? "embedded" : reader ? "library" : "wire");
    struct gs_error *err =
        reader ? dcgm_source_run_reader(s, t, &code) : dcgm_source_run_wire(s, t, &code);
    if (!err)
        return NULL;
    s->wire_refused |= !reader && code == DCGM_VERSION_MISMATCH;
    struct dcgm_source_report r = {.state = DCGM_SOURCE_DOWN, .code = code ? code : DCGM_GENERIC};
    pthread_mutex_lock(&s->lock);
    memcpy(r.version, s->status.report.version, sizeof(r.version));
    memcpy(r.library_version, s->status.report.library_version, sizeof(r.library_version));
    pthread_mutex_unlock(&s->lock);
    snprintf(r.problem, sizeof(r.problem), "%s", gs_error_message(err));
    dcgm_source_set_report(s, &r);
    return err;
}

static bool crashes_often(const struct dcgm_source *s)
{
    // The oldest of the last five.
    return s->n_crashes >= MAX_CRASHES &&
           gs_mono_ns() - s->crashes_ns[s->n_crashes % MAX_CRASHES] < CRASH_PAUSE_NS;
}

static int64_t next_pause(struct dcgm_source *s, int64_t pause)
{
    if (!crashes_often(s))
        return gs_backoff_next(pause, s->first_pause_ns, RETRY_MAX_NS);
    gs_warn("dcgm", "the reader crashed %d times in 10 minutes; the next start is in 10 minutes",
            MAX_CRASHES);
    s->n_crashes = 0;
    return CRASH_PAUSE_NS;
}

static uint64_t count_reads(struct dcgm_source *s)
{
    pthread_mutex_lock(&s->lock);
    uint64_t n = s->status.reads;
    pthread_mutex_unlock(&s->lock);
    return n;
}

// Runs clients until the plan changes.
static void follow_plan(struct dcgm_source *s)
{
    int64_t pause = 0;
    do {
        struct dcgm_source_target t;
        if (!choose_target(s, &t)) {
            report_absence(s);
            pause = RETRY_MAX_NS;
            continue;
        }
        uint64_t reads = count_reads(s);
        struct gs_error *err = run_client(s, &t);
        if (!err)
            return;
        gs_error_free(err);
        pause = next_pause(s, count_reads(s) > reads ? 0 : pause);
    } while (dcgm_source_sleep_until(s, gs_mono_ns() + pause));
}

// False: the thread has to end.
static bool take_plan(struct dcgm_source *s)
{
    uint64_t woken;
    pthread_mutex_lock(&s->lock);
    while (!s->stopping && !s->plan_changed)
        pthread_cond_wait(&s->changed, &s->lock);
    s->plan = s->wanted;
    s->plan_changed = false;
    bool go_on = !s->stopping;
    ssize_t n = go_on ? read(s->wake_fd, &woken, sizeof(woken)) : 0;
    (void)n;
    pthread_mutex_unlock(&s->lock);
    return go_on;
}

static void *source_main(void *arg)
{
    struct dcgm_source *s = arg;
    while (take_plan(s)) {
        if (s->plan.n_fields) {
            follow_plan(s);
        } else {
            dcgm_source_set_report(s, &(struct dcgm_source_report){.state = DCGM_SOURCE_UNUSED});
            drop_reads(s);
        }
    }
    return NULL;
}

// --- callers ---

struct dcgm_source *dcgm_source_open(const struct dcgm_source_config *cfg)
{
    struct dcgm_source *s = gs_alloc(sizeof(*s));
    pthread_condattr_t attr;
    s->cfg = *cfg;
    s->cfg.library = gs_strdup(cfg->library);
    s->cfg.program = gs_strdup(cfg->program);
    s->first_pause_ns = cfg->retry_ns ? cfg->retry_ns : RETRY_NS;
    s->wake_fd = -1;
    s->status.mode = "";
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &attr);
    pthread_condattr_destroy(&attr);
    return s;
}

// Signals are handled by the caller's thread.
static void start(struct dcgm_source *s)
{
    sigset_t all, old;
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = s->wake_fd < 0 ? -1 : pthread_create(&s->thread, NULL, source_main, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    s->started = rc == 0;
    if (rc)
        gs_warn("dcgm", "the thread that reads DCGM cannot be started; its metrics are absent");
}

static void wake(struct dcgm_source *s)
{
    uint64_t one = 1;
    ssize_t n = s->started ? write(s->wake_fd, &one, sizeof(one)) : 0;
    (void)n;
    pthread_cond_broadcast(&s->changed);
}

static bool plans_equal(const struct dcgm_source_plan *a, const struct dcgm_source_plan *b)
{
    return a->n_fields == b->n_fields && a->n_prof_gpus == b->n_prof_gpus &&
           a->interval_ns == b->interval_ns &&
           memcmp(a->fields, b->fields, a->n_fields * sizeof(*a->fields)) == 0 &&
           memcmp(a->prof_gpus, b->prof_gpus, a->n_prof_gpus * sizeof(*a->prof_gpus)) == 0;
}

void dcgm_source_want(struct dcgm_source *s, const struct dcgm_source_plan *plan)
{
    pthread_mutex_lock(&s->lock);
    if (!plans_equal(&s->wanted, plan)) {
        s->wanted = *plan;
        s->plan_changed = true;
        if (!s->started && plan->n_fields)
            start(s);
        if (s->started && plan->n_fields && s->status.report.state == DCGM_SOURCE_UNUSED)
            s->status.report.state = DCGM_SOURCE_CONNECTING;
        wake(s);
    }
    pthread_mutex_unlock(&s->lock);
}

struct dcgm_latest *dcgm_source_latest(struct dcgm_source *s)
{
    struct dcgm_latest *copy = NULL;
    pthread_mutex_lock(&s->lock);
    if (s->latest && gs_mono_ns() - s->latest->mono_ns <= dcgm_source_fresh_ns(s->latest))
        copy = dcgm_latest_copy(s->latest);
    pthread_mutex_unlock(&s->lock);
    return copy;
}

void dcgm_source_status(struct dcgm_source *s, struct dcgm_source_status *ret)
{
    pthread_mutex_lock(&s->lock);
    *ret = s->status;
    if (s->foreign[0] && ret->report.state == DCGM_SOURCE_UP) {
        ret->report.state = DCGM_SOURCE_DOWN;
        ret->report.code = DCGM_NOT_CONFIGURED;
        snprintf(ret->report.problem, sizeof(ret->report.problem),
                 "it is the host engine of another machine: it has %s", s->foreign);
    }
    ret->age_us = s->latest && s->newest_us
                      ? s->latest->unix_us - s->latest->offset_us - s->newest_us +
                            (gs_mono_ns() - s->latest->mono_ns) / 1000
                      : -1;
    pthread_mutex_unlock(&s->lock);
}

void dcgm_source_set_foreign(struct dcgm_source *s, const char *uuid)
{
    pthread_mutex_lock(&s->lock);
    snprintf(s->foreign, sizeof(s->foreign), "%s", uuid ? uuid : "");
    pthread_mutex_unlock(&s->lock);
}

void dcgm_source_renew_profiling(struct dcgm_source *s)
{
    pthread_mutex_lock(&s->lock);
    s->renewals++;
    s->status.dead_counters++;
    pthread_mutex_unlock(&s->lock);
}

void dcgm_source_close(struct dcgm_source *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    wake(s);
    pthread_mutex_unlock(&s->lock);
    if (s->started)
        pthread_join(s->thread, NULL);
    if (s->wake_fd >= 0)
        close(s->wake_fd);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    dcgm_latest_free(s->latest);
    free((char *)s->cfg.library);
    free((char *)s->cfg.program);
    free(s);
}
