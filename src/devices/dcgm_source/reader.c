// SPDX-License-Identifier: Apache-2.0
// The reader process: a connection to an engine, or an embedded one, that is made again when it
// ends. It has no other state than the shared memory, so that it may be killed at any time.
#include "dcgm_source/reader_private.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/mem.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define DISCOVERY_TIMES 30 // the first pause after a failure
#define RETRY_MAX_NS    (60 * GS_NS_PER_SEC)
#define BEAT_NS         (200 * GS_NS_PER_MS)
enum { CONNECT_TIMEOUT_MS = 2000 };

void dcgm_reader_beat(const struct dcgm_reader *r)
{
    atomic_fetch_add(&r->shared->beats, 1);
}

int64_t dcgm_reader_first_pause_ns(const struct dcgm_reader *r)
{
    return r->shared->retry_ns > 0 ? r->shared->retry_ns : GS_NS_PER_SEC;
}

// --- parent ---

static void notify_parent(void)
{
    char byte = 0;
    ssize_t n = send(DCGM_SOURCE_PARENT_FD, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)n; // full: the parent has enough to read
}

static void send_report(const struct dcgm_reader *r)
{
    dcgm_source_shared_report(r->shared, &r->report);
    notify_parent();
}

// False: the parent has closed its side.
static bool wait_until(const struct dcgm_reader *r, int64_t mono_ns)
{
    for (int64_t now = gs_mono_ns(); now < mono_ns; now = gs_mono_ns()) {
        int64_t left = mono_ns - now < BEAT_NS ? mono_ns - now : BEAT_NS;
        struct pollfd p = {.fd = DCGM_SOURCE_PARENT_FD, .events = POLLIN};
        dcgm_reader_beat(r);
        if (poll(&p, 1, (int)((left + GS_NS_PER_MS - 1) / GS_NS_PER_MS)) > 0)
            return false; // it never writes
    }
    return true;
}

static bool parent_is_there(void)
{
    struct pollfd p = {.fd = DCGM_SOURCE_PARENT_FD, .events = POLLIN};
    return poll(&p, 1, 0) == 0;
}

// --- connection ---

// Modules that are not needed are never loaded: the one for profiling alone needs 350 MB.
static int start_embedded(struct dcgm_reader *r)
{
    struct dcgm_start_embedded p = {
        .version = DCGM_START_EMBEDDED,
        .mode = DCGM_MODE_AUTO,
        .log_file = "/dev/null",
        .denied = {DCGM_MODULE_VGPU, DCGM_MODULE_INTROSPECT, DCGM_MODULE_HEALTH, DCGM_MODULE_POLICY,
                   DCGM_MODULE_CONFIG, DCGM_MODULE_DIAG, DCGM_MODULE_MNDIAG},
        .n_denied = 7};
    if (!dcgm_source_plan_needs(&r->shared->plan).profiling)
        p.denied[p.n_denied++] = DCGM_MODULE_PROFILING;
    int code = r->lib.start_embedded_v2 ? r->lib.start_embedded_v2(&p) : DCGM_VERSION_MISMATCH;
    r->handle = p.handle;
    if (code == DCGM_VERSION_MISMATCH && r->lib.start_embedded)
        code = r->lib.start_embedded(DCGM_MODE_AUTO, &r->handle);
    return code;
}

static int connect_to_engine(struct dcgm_reader *r)
{
    const struct dcgm_source_target *t = &r->shared->target;
    struct dcgm_connect_v2 p = {
        .version = DCGM_CONNECT_V2, .timeout_ms = CONNECT_TIMEOUT_MS, .is_unix_socket = t->is_unix};
    return r->lib.connect(t->address, &p, &r->handle);
}

// The library returns success and a dead handle if the login fails.
static int verify(struct dcgm_reader *r)
{
    struct dcgm_version_info info = {.version = DCGM_VERSION_INFO};
    uint32_t ids[DCGM_MAX_GPUS];
    int n = 0;
    int code = r->lib.engine_version ? r->lib.engine_version(r->handle, &info)
                                     : r->lib.all_devices(r->handle, ids, &n);
    info.raw[sizeof(info.raw) - 1] = 0;
    dcgm_reader_parse_version(info.raw, r->report.version);
    return code;
}

static int open_connection(struct dcgm_reader *r, const char **ret_call)
{
    bool embedded = r->shared->target.embedded;
    dcgm_reader_beat(r);
    *ret_call = embedded ? "dcgmStartEmbedded" : "dcgmConnect";
    int code = embedded ? start_embedded(r) : connect_to_engine(r);
    dcgm_reader_beat(r);
    if (code != DCGM_OK)
        return code;
    r->is_open = true;
    *ret_call = "dcgmHostengineVersionInfo";
    return verify(r);
}

static void close_connection(struct dcgm_reader *r)
{
    dcgm_reader_unwatch_all(r);
    if (r->is_open && r->shared->target.embedded && r->lib.stop_embedded)
        r->lib.stop_embedded(r->handle);
    else if (r->is_open)
        r->lib.disconnect(r->handle);
    r->is_open = false;
    dcgm_reader_beat(r);
}

// --- work ---

static int make_watches(struct dcgm_reader *r)
{
    int code = dcgm_reader_discover(r, &r->entities);
    r->next_discovery_ns = gs_mono_ns() + DISCOVERY_TIMES * dcgm_reader_first_pause_ns(r);
    return code == DCGM_OK ? dcgm_reader_watch_all(r) : code;
}

// GPUs, MIG devices and links may have changed: then all is made again.
static int discover_again(struct dcgm_reader *r)
{
    GS_AUTO_FREE struct dcgm_reader_entities *now = gs_alloc(sizeof(*now));
    int code = dcgm_reader_discover(r, now);
    r->next_discovery_ns = gs_mono_ns() + DISCOVERY_TIMES * dcgm_reader_first_pause_ns(r);
    if (code != DCGM_OK ||
        (now->len == r->entities.len &&
         memcmp(now->items, r->entities.items, now->len * sizeof(*now->items)) == 0))
        return code;
    dcgm_reader_unwatch_all(r);
    r->entities = *now;
    code = dcgm_reader_watch_all(r);
    send_report(r);
    return code;
}

static int keep_up(struct dcgm_reader *r)
{
    int64_t now = gs_mono_ns();
    uint32_t renewals = atomic_load(&r->shared->renewals);
    bool renew = renewals != r->renewals;
    int code = DCGM_OK;
    r->renewals = renewals;
    if (now >= r->next_discovery_ns)
        code = discover_again(r);
    if (code != DCGM_OK || (!renew && !(r->report.prof_code && now >= r->next_prof_ns)))
        return code;
    code = dcgm_reader_watch_profiling(r, renew);
    send_report(r);
    return code;
}

// Until the connection ends: *ret_call is the call that failed. DCGM_OK: the parent has ended.
static int serve(struct dcgm_reader *r, const char **ret_call)
{
    int64_t interval = r->shared->plan.interval_ns, next = gs_mono_ns() + interval;
    *ret_call = "setting up watches";
    int code = make_watches(r);
    if (code != DCGM_OK)
        return code;
    r->report.state = DCGM_SOURCE_UP;
    send_report(r);
    while (wait_until(r, next)) {
        int64_t now = gs_mono_ns();
        next = next + interval > now ? next + interval : now + interval;
        code = keep_up(r);
        if (code == DCGM_OK) {
            *ret_call = "dcgmEntitiesGetLatestValues";
            code = dcgm_reader_read_all(r);
        }
        if (code != DCGM_OK)
            return code;
        notify_parent();
    }
    return DCGM_OK;
}

static void report_failure(struct dcgm_reader *r, const char *call, int code)
{
    r->report.state = DCGM_SOURCE_DOWN;
    r->report.code = code;
    r->report.prof_code = 0;
    dcgm_reader_describe(r, call, code, r->report.problem, sizeof(r->report.problem));
    send_report(r);
}

static void run(struct dcgm_reader *r)
{
    int64_t first = dcgm_reader_first_pause_ns(r), pause = 0;
    do {
        const char *call;
        uint64_t reads = atomic_load(&r->shared->sequence);
        int code = open_connection(r, &call);
        bool was_open = code == DCGM_OK;
        if (was_open)
            code = serve(r, &call);
        if (!parent_is_there())
            break;
        if (was_open)
            atomic_fetch_add(&r->shared->lost_connections, 1);
        report_failure(r, call, code);
        close_connection(r);
        bool has_read = atomic_load(&r->shared->sequence) != reads;
        pause = gs_backoff_next(has_read ? 0 : pause, first, RETRY_MAX_NS);
    } while (wait_until(r, gs_mono_ns() + pause));
    close_connection(r);
}

// --- process ---

static struct dcgm_source_shared *map_task(void)
{
    struct dcgm_source_shared *m =
        mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE, MAP_SHARED, DCGM_SOURCE_SHARED_FD, 0);
    if (m == MAP_FAILED)
        return NULL;
    bool ok = m->magic == DCGM_SOURCE_SHARED_MAGIC && m->size == sizeof(*m);
    if (!ok)
        munmap(m, sizeof(*m));
    return ok ? m : NULL;
}

static int report_load_failure(struct dcgm_reader *r, struct gs_error *err)
{
    r->report.state = DCGM_SOURCE_DOWN;
    r->report.code = DCGM_LIBRARY_NOT_FOUND;
    snprintf(r->report.problem, sizeof(r->report.problem), "%s", gs_error_message(err));
    send_report(r);
    gs_error_free(err);
    return 1;
}

int dcgm_source_reader_main(void)
{
    struct stat st;
    struct dcgm_source_shared *m =
        fstat(DCGM_SOURCE_SHARED_FD, &st) == 0 && st.st_size == sizeof(*m) ? map_task() : NULL;
    // The signal only reports later deaths, so the parent is checked after it has been set.
    if (!m || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != m->parent_pid) {
        fprintf(stderr, "gpuscale exporter starts --dcgm-reader itself\n");
        return 2;
    }
    struct dcgm_reader *r = gs_alloc(sizeof(*r));
    r->shared = m;
    r->report.state = DCGM_SOURCE_CONNECTING;
    send_report(r);
    m->library[sizeof(m->library) - 1] = 0;
    struct gs_error *err = dcgm_reader_load(m->library[0] ? m->library : NULL, &r->lib);
    if (err)
        _exit(report_load_failure(r, err));
    struct dcgm_version_info info = {.version = DCGM_VERSION_INFO};
    if (r->lib.version && r->lib.version(&info) == DCGM_OK) {
        info.raw[sizeof(info.raw) - 1] = 0;
        dcgm_reader_parse_version(info.raw, r->report.library_version);
    }
    r->report.simulated = r->lib.simulated;
    run(r);
    _exit(0); // exit() would run destructors of the library
}
