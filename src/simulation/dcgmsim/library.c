// SPDX-License-Identifier: Apache-2.0
// The entry of the simulated libdcgm: init, embedded engine, connections, and the frame of every
// call. Nothing listens or connects: every process has an engine of its own on the same simulated
// GPUs, and a connection is one to it that ends when `gpuscale sim hostengine stop` ends the state
// of the host engine in shared memory.
#include "dcgmsim/dcgmsim_private.h"

#include "base/clock.h"
#include "base/num.h"
#include "base/slice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HANG_STEP_NS    (20 * GS_NS_PER_MS)
#define HANDLE_EMBEDDED ((dcgm_handle)0x7fffffff)
#define CLIENT_EMBEDDED 0U
#define RELEASE_DEFAULT 40601 // DCGMSIM_VERSION

struct dcgmsim_engine dcgmsim_engine = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                        .wake = PTHREAD_COND_INITIALIZER};
#define E (&dcgmsim_engine)

void dcgmsim_leave(struct dcgmsim_call *c)
{
    if (c->entered)
        pthread_mutex_unlock(&E->lock);
    c->entered = false;
}

static void call_enter(struct dcgmsim_call *c)
{
    pthread_mutex_lock(&E->lock);
    c->entered = true;
    if (E->n_init == 0)
        c->rc = DCGM_UNINITIALIZED;
}

// Sleeps without the lock, so that a hanging call does not stop the others.
static void hang(struct dcgmsim_call *c, const struct nvmlsim_fault_hit *hit)
{
    int64_t until = gs_mono_ns() + (int64_t)hit->hang_ms * GS_NS_PER_MS;
    while (!c->rc && gs_mono_ns() < until && E->sim && nvmlsim_fault_unchanged(E->sim->seg, hit)) {
        dcgmsim_leave(c);
        struct timespec step = {.tv_nsec = HANG_STEP_NS};
        nanosleep(&step, NULL);
        call_enter(c);
    }
}

// Rules are in the set of GPUs: they apply to the calls of an engine and to those that make one.
static void apply_faults(struct dcgmsim_call *c, const char *fn)
{
    struct nvmlsim_fault_hit hit;
    if (c->rc || !E->sim || !nvmlsim_fault_match(E->sim->seg, fn, -1, &hit))
        return;
    if (hit.hang_ms)
        hang(c, &hit);
    if (hit.code == NVMLSIM_FAULT_CRASH)
        abort();
    if (!c->rc)
        c->rc = hit.code;
}

static struct dcgmsim_call enter_library(bool valid)
{
    struct dcgmsim_call c = {0};
    call_enter(&c);
    if (!c.rc && !valid)
        c.rc = DCGM_BAD_PARAMETER;
    return c;
}

static bool is_connected(const struct dcgmsim_client *k)
{
    const struct nvmlsim_shm_engine *e = &E->sim->seg->engine;
    return k->embedded ||
           ((__atomic_load_n(&e->flags, __ATOMIC_ACQUIRE) & NVMLSIM_ENGINE_RUNNING) &&
            __atomic_load_n(&e->generation, __ATOMIC_ACQUIRE) == k->generation);
}

static int check_handle(dcgm_handle h, unsigned *ret)
{
    unsigned client = h == HANDLE_EMBEDDED ? CLIENT_EMBEDDED : (unsigned)h;
    if (h != HANDLE_EMBEDDED && (h == 0 || h >= DCGMSIM_CLIENTS))
        return DCGM_BAD_PARAMETER;
    if (!E->sim || !E->clients[client].used)
        return DCGM_UNINITIALIZED;
    *ret = client;
    if (is_connected(&E->clients[client]))
        return DCGM_OK;
    dcgmsim_drop_objects(client);
    return DCGM_CONNECTION_LOST;
}

struct dcgmsim_call dcgmsim_enter(const char *fn, dcgm_handle h, bool valid)
{
    struct dcgmsim_call c = {0};
    call_enter(&c);
    if (!c.rc)
        c.rc = check_handle(h, &c.client);
    if (!c.rc && !valid)
        c.rc = DCGM_BAD_PARAMETER;
    apply_faults(&c, fn);
    if (!c.rc) // the engine may have ended during a hang
        c.rc = check_handle(h, &c.client);
    return c;
}

// --- init and engines ---

DCGM_API int dcgmInit(void)
{
    pthread_mutex_lock(&E->lock);
    E->n_init = 1; // idempotent, as the real one
    pthread_mutex_unlock(&E->lock);
    return DCGM_OK;
}

static unsigned count_clients(void)
{
    unsigned n = 0;
    for (unsigned i = 0; i < DCGMSIM_CLIENTS; i++)
        n += E->clients[i].used;
    return n;
}

static void drop_client(unsigned client)
{
    dcgmsim_drop_objects(client);
    E->clients[client] = (struct dcgmsim_client){0};
}

static int attach(void)
{
    const char *name = getenv(NVMLSIM_ENV);
    if (E->sim)
        return DCGM_OK;
    if (!name || !*name || nvmlInit_v2() != NVML_SUCCESS)
        return DCGM_NVML_NOT_LOADED;
    struct gs_error *err = nvmlsim_attach(name, &E->sim);
    if (!err)
        return DCGM_OK;
    gs_error_free(err);
    nvmlShutdown();
    return DCGM_NVML_NOT_LOADED;
}

// Ends the engine of this process with its last client. Leaves the lock meanwhile, so that the
// sampling thread can end.
static void detach_unused(struct dcgmsim_call *c)
{
    if (!E->sim || count_clients())
        return;
    dcgmsim_profiling_stop();
    dcgmsim_leave(c);
    dcgmsim_stop_sampling();
    call_enter(c);
    if (!E->sim || count_clients())
        return;
    nvmlsim_detach(E->sim);
    E->sim = NULL;
    nvmlShutdown();
}

DCGM_API int dcgmShutdown(void)
{
    DCGM_CALL c = enter_library(true);
    apply_faults(&c, __func__);
    if (c.rc)
        return c.rc;
    for (unsigned i = 0; i < DCGMSIM_CLIENTS; i++)
        if (E->clients[i].used)
            drop_client(i);
    detach_unused(&c);
    E->n_init = 0;
    return DCGM_OK;
}

static int start_embedded(const char *fn, int mode, dcgm_handle *ret)
{
    DCGM_CALL c = enter_library(ret && (mode == DCGM_MODE_AUTO || mode == DCGM_MODE_MANUAL));
    if (c.rc || E->clients[CLIENT_EMBEDDED].used)
        return c.rc; // a second start does not set the handle, as in the real one
    c.rc = attach();
    if (c.rc)
        return c.rc;
    apply_faults(&c, fn);
    if (!c.rc && mode == DCGM_MODE_AUTO)
        c.rc = dcgmsim_start_sampling();
    if (c.rc) {
        int rc = c.rc;
        detach_unused(&c);
        return rc;
    }
    E->clients[CLIENT_EMBEDDED] = (struct dcgmsim_client){.used = true, .embedded = true};
    *ret = HANDLE_EMBEDDED;
    return DCGM_OK;
}

DCGM_API int dcgmStartEmbedded(int mode, dcgm_handle *ret)
{
    return start_embedded(__func__, mode, ret);
}

DCGM_API int dcgmStartEmbedded_v2(struct dcgm_start_embedded *p)
{
    if (!p || (p->version >> 24) < 1 || (p->version >> 24) > 3)
        return p ? DCGM_VERSION_MISMATCH : DCGM_BAD_PARAMETER;
    return start_embedded(__func__, p->mode, &p->handle);
}

DCGM_API int dcgmStopEmbedded(dcgm_handle h)
{
    DCGM_CALL c = dcgmsim_enter(__func__, h, h == HANDLE_EMBEDDED);
    if (c.rc)
        return c.rc;
    drop_client(CLIENT_EMBEDDED);
    detach_unused(&c);
    return DCGM_OK;
}

static int connect_locked(struct dcgmsim_call *c, const char *fn, dcgm_handle *ret)
{
    int rc = attach();
    if (rc)
        return DCGM_CONNECTION_LOST; // a machine without the simulated GPUs has no engine
    apply_faults(c, fn);
    if (c->rc)
        return c->rc;
    struct dcgmsim_client k = {
        .used = true,
        .generation = __atomic_load_n(&E->sim->seg->engine.generation, __ATOMIC_ACQUIRE)};
    unsigned client = 1;
    while (client < DCGMSIM_CLIENTS && E->clients[client].used)
        client++;
    if (client == DCGMSIM_CLIENTS)
        return DCGM_LIMIT;
    if (!is_connected(&k))
        return DCGM_CONNECTION_LOST;
    rc = dcgmsim_start_sampling();
    if (rc)
        return rc;
    E->clients[client] = k;
    *ret = client;
    return DCGM_OK;
}

static int connect_engine(const char *fn, const char *address, bool known, dcgm_handle *ret)
{
    DCGM_CALL c = enter_library(address && ret);
    if (c.rc)
        return c.rc;
    int rc = known ? connect_locked(&c, fn, ret) : DCGM_VERSION_MISMATCH;
    if (rc)
        detach_unused(&c);
    return rc;
}

DCGM_API int dcgmConnect_v2(const char *address, struct dcgm_connect_v2 *p, dcgm_handle *ret)
{
    bool known = !p || p->version == DCGM_CONNECT_V2 || p->version == 0x01000008;
    return connect_engine(__func__, address, known, ret);
}

DCGM_API int dcgmConnect_v3(const char *address, struct dcgm_connect_v3 *p, dcgm_handle *ret)
{
    bool known = dcgmsim_release() >= 40500 && (!p || p->version == DCGM_CONNECT_V3);
    return connect_engine(__func__, address, known, ret);
}

DCGM_API int dcgmDisconnect(dcgm_handle h)
{
    DCGM_CALL c = dcgmsim_enter(__func__, h, h != HANDLE_EMBEDDED);
    if (c.rc && c.rc != DCGM_CONNECTION_LOST)
        return c.rc;
    drop_client(c.client);
    c.rc = DCGM_OK;
    detach_unused(&c);
    return DCGM_OK;
}

// --- versions and texts ---

static const char *version_text(void)
{
    const char *set = getenv(DCGMSIM_VERSION_ENV);
    return set && *set ? set : DCGMSIM_VERSION;
}

unsigned dcgmsim_release(void)
{
    struct gs_slice rest = gs_slice_of(version_text());
    unsigned release = 0;
    for (int i = 0; i < 3; i++) {
        uint64_t part = 0;
        GS_AUTO_ERROR struct gs_error *err = gs_parse_u64(gs_slice_cut(&rest, '.'), 99, &part);
        if (err)
            return RELEASE_DEFAULT;
        release = release * 100 + (unsigned)part;
    }
    return release;
}

static void fill_version(struct dcgm_version_info *ret)
{
    snprintf(ret->raw, sizeof(ret->raw),
             "version:%s;arch:x86_64;buildtype:Release;buildid:simulated;builddate:;commit:;"
             "branch:;buildplatform:simulated;",
             version_text());
}

DCGM_API int dcgmVersionInfo(struct dcgm_version_info *ret)
{
    if (!ret || ret->version != DCGM_VERSION_INFO)
        return ret ? DCGM_VERSION_MISMATCH : DCGM_BAD_PARAMETER;
    fill_version(ret);
    return DCGM_OK;
}

DCGM_API int dcgmHostengineVersionInfo(dcgm_handle h, struct dcgm_version_info *ret)
{
    DCGM_CALL c = dcgmsim_enter(__func__, h, ret != NULL);
    if (c.rc)
        return c.rc;
    if (ret->version != DCGM_VERSION_INFO)
        return DCGM_VERSION_MISMATCH;
    fill_version(ret);
    return DCGM_OK;
}

DCGM_API int dcgmHostengineIsHealthy(dcgm_handle h, struct dcgm_engine_health *ret)
{
    DCGM_CALL c = dcgmsim_enter(__func__, h, ret != NULL);
    if (c.rc)
        return c.rc;
    if (ret->version != DCGM_ENGINE_HEALTH)
        return DCGM_VERSION_MISMATCH;
    ret->overall = 0;
    return DCGM_OK;
}

DCGM_API int gpuscaleDcgmIsSimulated(void)
{
    return 1;
}

DCGM_API const char *errorString(int code)
{
    static const struct {
        int code;
        const char *text;
    } texts[] = {
        {DCGM_OK, "Success"},
        {DCGM_BAD_PARAMETER, "Bad parameter passed to function"},
        {DCGM_GENERIC, "Generic unspecified error"},
        {DCGM_NOT_CONFIGURED, "Setting not configured"},
        {DCGM_NOT_SUPPORTED, "This request is not supported by DCGM"},
        {DCGM_INIT_ERROR, "DCGM initialization error"},
        {DCGM_NVML_ERROR, "NVML error"},
        {DCGM_PENDING, "Object is in a pending state"},
        {DCGM_UNINITIALIZED, "Object is in an undefined state"},
        {DCGM_TIMEOUT, "Timeout"},
        {DCGM_VERSION_MISMATCH, "API version mismatch"},
        {DCGM_UNKNOWN_FIELD, "Unknown field"},
        {DCGM_NO_DATA, "No data is available"},
        {DCGM_STALE_DATA, "Data is considered stale"},
        {DCGM_NOT_WATCHED, "Field is not being updated"},
        {DCGM_NO_PERMISSION, "No permission"},
        {DCGM_GPU_LOST, "GPU is lost"},
        {DCGM_RESET_REQUIRED, "GPU requires reset"},
        {DCGM_CONNECTION_LOST, "Host engine connection invalid/disconnected"},
        {DCGM_GPU_NOT_SUPPORTED, "This GPU is not supported by DCGM"},
        {DCGM_LIMIT, "Maximum limit for the object reached"},
        {DCGM_LIBRARY_NOT_FOUND, "Library not found"},
        {DCGM_DUPLICATE, "Duplicate key passed to function"},
        {DCGM_REQUIRES_ROOT, "This operation requires root privileges"},
        {DCGM_MODULE_NOT_LOADED, "This request is serviced by a module that is not loaded"},
        {DCGM_IN_USE, "The requested operation could not be completed: resource in use"},
        {DCGM_EMPTY_GROUP, "The group is empty"},
        {DCGM_PROFILING_NOT_SUPPORTED, "Profiling is not supported for this group of GPUs"},
        {DCGM_PROFILING_FAILED, "The profiling library returned an unrecoverable error"},
        {DCGM_PROFILING_MULTI_PASS, "The requested profiling metrics need several passes"},
        {DCGM_INSTANCE_NOT_FOUND, "The specified GPU instance does not exist"},
        {DCGM_COMPUTE_INSTANCE_NOT_FOUND, "The specified compute instance does not exist"},
        {DCGM_INSUFFICIENT_RESOURCES, "Insufficient resources"},
        {DCGM_PAUSED, "The operation is paused"},
        {DCGM_NVML_NOT_LOADED, "NVML is not loaded"},
    };
    for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++)
        if (texts[i].code == code)
            return texts[i].text;
    return "Unknown error";
}
